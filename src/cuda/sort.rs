//! Sorting on the device: which kernels, how much scratch memory, the launches.

use super::driver::check;
use super::library::{self, Kernels, Program};
use super::tuning::{SORT_SHORT, SortBlock, SortShape, sort_shape};
use super::unit::{KeyKind, SortUnit};
use crate::Error;
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;
use std::ops::Range;

const NAME: &str = "sort";

/// A kernel of `sort_kernels.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Count,
    Pass,
    PassShort,
    Small,
    BucketCount,
    BucketPlan,
    BucketFirst,
    BucketSecond,
    BucketSort,
    BucketSmall,
    Fill,
}
use Kernel::*;

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Count => "sort_count",
            Pass => "sort_pass",
            PassShort => "sort_pass_short",
            Small => "sort_small",
            BucketCount => "bucket_count",
            BucketPlan => "bucket_plan",
            BucketFirst => "bucket_first",
            BucketSecond => "bucket_second",
            BucketSort => "bucket_sort",
            BucketSmall => "bucket_small",
            Fill => "sort_fill",
        }
    }

    /// Bytes of shared memory that it asks for, at most.
    fn shared(self, shape: &SortShape) -> usize {
        match self {
            Count | BucketPlan | Fill => 0,
            Pass => shape.pass_shared(),
            PassShort => shape.short_shared(),
            Small => shape.small_shared(),
            BucketCount => bucket_counters(MOST_SECOND),
            BucketFirst | BucketSecond => shape.bucket_tile_shared(),
            BucketSort | BucketSmall => shape.bucket_sort_shared(),
        }
    }
}

/// Those of a unit.
fn kernels_of(key: usize, is_alone: bool) -> &'static [Kernel] {
    match (is_alone, key) {
        (false, _) => &[Count, Pass, PassShort, Small],
        (true, 1) => &[Count, Pass, PassShort, Small, Fill],
        (true, 2) => &[Count, Pass, PassShort, Small, BucketCount, BucketPlan, Fill],
        (true, _) => &[
            Count,
            Pass,
            PassShort,
            Small,
            BucketCount,
            BucketPlan,
            BucketFirst,
            BucketSecond,
            BucketSort,
            BucketSmall,
        ],
    }
}

// ---- as in radix.cuh and sort.cuh --------------------------------------------------------------------------------------------

const DIGIT_BITS: u32 = 8;
const BINS: usize = 1 << DIGIT_BITS;
const WORD: usize = size_of::<u32>();
/// `TOP_APART`.
const TOP_APART: usize = 32;
/// Tiles of a launch of a pass: as many keys as a word of look-back counts.
const MOST_TILES: usize = 1 << 15;
/// Threads of `sort_count`, and keys that are worth a block's turn.
const COUNT_THREADS: u32 = 512;
const COUNT_KEYS: usize = 4096;
/// Threads of `bucket_count`, and keys that are worth a block's turn.
const BUCKET_COUNT_THREADS: u32 = 1024;
const BUCKET_COUNT_KEYS: usize = 1 << 15;
/// Threads of `sort_fill`, and keys of a block.
const FILL_THREADS: u32 = 256;
const FILL_KEYS: usize = 16 * FILL_THREADS as usize;

/// `SortCall`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Common {
    n: u64,
    keys_in: CUdeviceptr,
    keys: [CUdeviceptr; 2],
    values_in: CUdeviceptr,
    values: [CUdeviceptr; 2],
    plan: CUdeviceptr,
    words: [CUdeviceptr; 2],
    flip: u64,
    begin: u32,
    end: u32,
    passes: u32,
    in_place: u32,
    by_buckets: u32,
    launches: u32,
    tiles: u32,
}

/// `BucketCall`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buckets {
    counts: CUdeviceptr,
    tops: CUdeviceptr,
    starts: CUdeviceptr,
    cursors: CUdeviceptr,
    top_cursors: CUdeviceptr,
    tiles: CUdeviceptr,
    second: u32,
    room: u32,
}

// ---- which kernels -----------------------------------------------------------------------------------------------------------

/// The kernels for keys of a type and what goes with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortProgram {
    unit: SortUnit,
    types: TypeId,
    type_name: &'static str,
}

/// What a plan depends on besides the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The compute capability that the kernels were compiled for.
    architecture: u32,
    multiprocessors: usize,
    /// Bytes of shared memory that a block can have.
    shared: usize,
}

impl Machine {
    /// The device, with these kernels.
    pub(crate) fn of(kernels: &Kernels, device: usize) -> Result<Machine, Error> {
        Ok(Machine {
            architecture: kernels.architecture(),
            multiprocessors: library::multiprocessors(device)?,
            shared: library::most_shared(device)?,
        })
    }
}

impl SortProgram {
    /// For keys `K`, and a payload of type `V` if it has any bytes.
    pub(crate) fn new<K: 'static, V: 'static>(kind: KeyKind) -> SortProgram {
        let payload = (size_of::<V>() > 0).then_some((size_of::<V>(), align_of::<V>()));
        SortProgram {
            unit: SortUnit { key: size_of::<K>(), kind, payload },
            types: TypeId::of::<(K, V)>(),
            type_name: type_name::<(K, V)>(),
        }
    }

    /// Bytes of a key, and of what goes with it.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.unit.key, self.unit.payload.map_or(0, |(size, _)| size))
    }

    fn shape(&self, architecture: u32) -> SortShape {
        sort_shape(self.unit.key, self.unit.payload.map(|(size, _)| size), architecture)
    }

    /// The kernels, if they are loaded.
    pub(crate) fn loaded(&self, device: usize) -> Option<&'static Kernels> {
        library::loaded(self.types, NAME, device)
    }

    /// The kernels for the device, whose context is current; loaded now if they are not.
    pub(crate) fn load(&self, device: usize) -> Result<&'static Kernels, Error> {
        let kernels = kernels_of(self.unit.key, self.unit.payload.is_none());
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name()).collect();
        let shared = |architecture| {
            let shape = self.shape(architecture);
            kernels.iter().map(|kernel| kernel.shared(&shape)).collect()
        };
        library::load_with_shared(self.types, NAME, device, &names, &shared, || Program {
            name: format!("sort of {}", self.type_name),
            source: self.unit.source(),
        })
    }

    /// How `n` keys, one at least, will be sorted by some of their bits.
    pub(crate) fn plan(&self, n: usize, bits: Range<u32>, in_place: bool, machine: &Machine) -> SortPlan {
        let shape = self.shape(machine.architecture);
        let is_alone = self.unit.payload.is_none();
        let all_bits = bits == (0..8 * self.unit.key as u32);
        let by_bins = is_alone && all_bits && self.unit.key >= 4 && n <= shape.bucket.tile();
        let sign = if self.unit.kind == KeyKind::Signed { 1 << (8 * self.unit.key - 1) } else { 0 };
        let plan = |way| SortPlan { n, sizes: self.sizes(), sign, bits: bits.clone(), in_place, shape, way };
        if by_bins || n <= shape.small.tile() {
            return plan(Way::OneBlock { by_bins });
        }
        let multiprocessors = machine.multiprocessors;
        if is_alone && all_bits && self.is_counted(n, machine) {
            return plan(Way::Counted { multiprocessors });
        }
        let digits = bits.len().div_ceil(DIGIT_BITS as usize);
        // An even number of moves ends where it began.
        let passes = if in_place { digits.next_multiple_of(2) } else { digits }.max(1);
        let second = if is_alone { self.second_digit(n, &bits, shape.bucket, machine) } else { None };
        let is_short = n <= SORT_SHORT;
        let tiles = n.div_ceil(if is_short { shape.short } else { shape.pass }.tile());
        plan(Way::Passes(Passes { passes, tiles, in_launch: tiles.min(MOST_TILES), is_short, second, multiprocessors }))
    }

    /// Whether keys are so short that it is enough to count them.
    fn is_counted(&self, n: usize, machine: &Machine) -> bool {
        match self.unit.key {
            1 => true,
            2 => (FEWEST_TO_COUNT..=u32::MAX as usize).contains(&n) && Self::most_second(machine) == Some(MOST_SECOND),
            _ => false,
        }
    }

    /// Bits of the second digit by which keys go to buckets, if that is worth it.
    fn second_digit(&self, n: usize, bits: &Range<u32>, bucket: SortBlock, machine: &Machine) -> Option<u32> {
        if self.unit.key < 4 || *bits != (0..8 * self.unit.key as u32) || n < FEWEST_FOR_BUCKETS {
            return None;
        }
        let most = Self::most_second(machine)?;
        let (average, fullest) = (bucket.tile() / 5 * 4, bucket.tile() / 20 * 17);
        let fits = |second: u32, each: usize| (each << (DIGIT_BITS + second)) >= n;
        fits(most, fullest).then(|| (LEAST_SECOND..most).find(|&second| fits(second, average)).unwrap_or(most))
    }

    fn most_second(machine: &Machine) -> Option<u32> {
        (LEAST_SECOND..=MOST_SECOND).rev().find(|&second| bucket_counters(second) <= machine.shared)
    }

    /// Bytes of scratch memory that are enough for `n` keys or fewer, in place or not, where these arrays are missing.
    pub(crate) fn scratch_up_to(&self, n: usize, bits: &Range<u32>, missing: Missing, machine: &Machine) -> usize {
        // Fewer keys than these may go by buckets, which takes more memory besides the arrays.
        let bucket = self.shape(machine.architecture).bucket.tile();
        let most = Self::most_second(machine).map_or(0, |second| (bucket / 20 * 17) << (DIGIT_BITS + second));
        let lengths = [n, n.min(most)].into_iter().filter(|&n| n > 0);
        let plans = lengths.flat_map(|n| [false, true].map(|in_place| self.plan(n, bits.clone(), in_place, machine)));
        plans.map(|plan| plan.scratch(missing)).max().unwrap_or(0)
    }
}

/// Fewer keys are sorted as fast without buckets.
const FEWEST_FOR_BUCKETS: usize = 1 << 21;
/// Fewer keys of two bytes are sorted as fast digit by digit.
const FEWEST_TO_COUNT: usize = 1 << 20;
/// Bits of the second digit of buckets.
const LEAST_SECOND: u32 = 2;
const MOST_SECOND: u32 = 8;

/// Bytes of shared memory for a counter of 16 bits for each bucket.
fn bucket_counters(second: u32) -> usize {
    (2 << (DIGIT_BITS + second)).max(512)
}

// ---- how, and with how much memory ------------------------------------------------------------------------------------------

/// How so many keys will be sorted.
#[derive(Clone, Debug)]
pub(crate) struct SortPlan {
    n: usize,
    /// Bytes of a key, and of what goes with it.
    sizes: (usize, usize),
    /// The bit that is the sign of an integer.
    sign: u64,
    bits: Range<u32>,
    in_place: bool,
    shape: SortShape,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    OneBlock {
        by_bins: bool,
    },
    /// Keys of one byte or two, alone.
    Counted {
        multiprocessors: usize,
    },
    /// Least significant digit first, unless buckets did it.
    Passes(Passes),
}

#[derive(Clone, Debug)]
struct Passes {
    passes: usize,
    tiles: usize,
    /// Of them, in a launch.
    in_launch: usize,
    is_short: bool,
    /// Bits of the second digit, if buckets are tried before.
    second: Option<u32>,
    multiprocessors: usize,
}

/// Arrays that the caller does not bring, and that lie in scratch memory if they are needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missing {
    /// The output of keys, and the second array.
    pub(crate) keys: [bool; 2],
}

/// Bytes from the beginning of the scratch memory on.
#[derive(Clone, Copy, Debug, Default)]
struct Layout {
    plan: usize,
    words: [usize; 2],
    counts: usize,
    tops: usize,
    /// Up to here it is zero before the sort.
    zero: usize,
    starts: usize,
    cursors: usize,
    top_cursors: usize,
    bucket_tiles: usize,
    keys: [Option<usize>; 2],
    values: Option<usize>,
    bytes: usize,
}

impl Passes {
    fn launches(&self) -> usize {
        self.tiles.div_ceil(self.in_launch)
    }
}

/// Bytes of `SortPlan` of `sort.cuh` for so many launches.
fn plan_bytes(key: usize, launches: usize) -> usize {
    let most_passes = key + 1;
    let digits = (most_passes + 2) * BINS * size_of::<u64>();
    digits + (most_passes + 3 + launches) * WORD
}

impl SortPlan {
    fn layout(&self, missing: Missing) -> Layout {
        let mut at = Layout::default();
        let (key, value) = self.sizes;
        let mut take = |bytes: usize| {
            let begin = at.bytes;
            at.bytes += bytes.next_multiple_of(256);
            begin
        };
        let (launches, in_launch, second) = match &self.way {
            Way::OneBlock { .. } => return at,
            Way::Counted { .. } => (0, 0, (key > 1).then_some(MOST_SECOND)),
            Way::Passes(passes) => (passes.passes * passes.launches(), passes.in_launch, passes.second),
        };
        at.plan = take(plan_bytes(key, launches));
        at.words = [0, 1].map(|_| take(in_launch * BINS * WORD));
        if let Some(second) = second {
            let buckets = BINS << second;
            at.counts = take(buckets * WORD);
            at.tops = take(BINS * WORD);
            at.zero = take(0);
            at.starts = take((buckets + 1) * WORD);
            at.cursors = take(buckets * WORD);
            at.top_cursors = take(BINS * TOP_APART * WORD);
            at.bucket_tiles = take((BINS + 1) * WORD);
        } else {
            at.zero = take(0);
        }
        let Way::Passes(passes) = &self.way else { return at };
        // A single pass goes from the input to the output.
        let is_needed = [true, passes.passes > 1];
        for k in [0, 1] {
            at.keys[k] = (missing.keys[k] && is_needed[k]).then(|| take(self.n * key));
        }
        at.values = (value > 0 && passes.passes > 1).then(|| take(self.n * value));
        at
    }

    /// Bytes of scratch memory, in no state.
    pub(crate) fn scratch(&self, missing: Missing) -> usize {
        self.layout(missing).bytes
    }
}

// ---- launches ----------------------------------------------------------------------------------------------------------------

/// The arguments of a sort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortCall {
    pub(crate) descending: bool,
    /// The keys; in place they are the output's.
    pub(crate) keys_in: CUdeviceptr,
    /// Where sorted keys go to, if anybody wants them, and a second array, if there is one.
    pub(crate) keys: [Option<CUdeviceptr>; 2],
    /// What goes with the keys, or null: then it is their numbers.
    pub(crate) values_in: CUdeviceptr,
    /// Where it goes to; null for keys alone.
    pub(crate) values: CUdeviceptr,
    /// `SortPlan::scratch` bytes, at a multiple of 256.
    pub(crate) scratch: CUdeviceptr,
}

impl SortCall {
    /// Which arrays the plan must find in scratch memory.
    pub(crate) fn missing(&self) -> Missing {
        Missing { keys: self.keys.map(|keys| keys.is_none()) }
    }

    /// Launches the sort. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the program that made the plan, for this device.
    /// - All arrays have the plan's number of items in the memory of the device, valid until the stream is past the sort. The output
    ///   is the input if the plan says so, of keys and of what goes with them; otherwise all lie apart, and so does the
    ///   scratch memory. Nothing else uses them meanwhile, but to read the inputs.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        plan: &SortPlan,
        kernels: &Kernels,
        device: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        fn p<A>(argument: &A) -> *const c_void {
            std::ptr::from_ref(argument).cast()
        }
        let SortPlan { n, bits, in_place, shape, way, .. } = plan;
        let at = plan.layout(self.missing());
        let place = |offset: usize| self.scratch + offset as u64;
        let array = |k: usize| self.keys[k].or(at.keys[k].map(place)).unwrap_or(0);
        let mut call = Common {
            n: *n as u64,
            keys_in: self.keys_in,
            keys: [array(0), array(1)],
            values_in: self.values_in,
            values: [self.values, at.values.map_or(0, place)],
            plan: place(at.plan),
            words: at.words.map(place),
            flip: if self.descending { !plan.sign } else { plan.sign },
            begin: bits.start,
            end: bits.end,
            passes: 0,
            in_place: u32::from(*in_place),
            by_buckets: 0,
            launches: 0,
            tiles: 0,
        };
        let all = kernels_of(plan.sizes.0, plan.sizes.1 == 0);
        let launch = |kernel: Kernel, blocks: usize, threads: u32, shared: usize, arguments: &[*const c_void]| {
            let index = all.iter().position(|&one| one == kernel).expect("the unit has it");
            // SAFETY: the arguments are those of the kernels in sort_kernels.cuh, by their number; the rest is the caller's.
            unsafe { kernels.launch_with_shared(index, blocks as u32, threads, shared, stream, arguments) }
        };
        let (second, multiprocessors) = match way {
            Way::OneBlock { by_bins: true } => {
                let threads = shape.bucket.threads as u32;
                return launch(BucketSmall, 1, threads, BucketSmall.shared(shape), &[p(&call)]);
            }
            Way::OneBlock { by_bins: false } => {
                return launch(Small, 1, shape.small.threads as u32, Small.shared(shape), &[p(&call)]);
            }
            Way::Counted { multiprocessors } => ((plan.sizes.0 > 1).then_some(MOST_SECOND), *multiprocessors),
            Way::Passes(passes) => {
                call.passes = passes.passes as u32;
                call.by_buckets = u32::from(passes.second.is_some());
                call.launches = passes.launches() as u32;
                call.tiles = passes.in_launch as u32;
                (passes.second, passes.multiprocessors)
            }
        };
        // SAFETY: the scratch memory is longer.
        let cleared = unsafe { sys::cuMemsetD8Async(self.scratch, 0, at.zero, stream) };
        check("cuMemsetD8Async", device, cleared)?;
        let buckets = Buckets {
            counts: place(at.counts),
            tops: place(at.tops),
            starts: place(at.starts),
            cursors: place(at.cursors),
            top_cursors: place(at.top_cursors),
            tiles: place(at.bucket_tiles),
            second: second.unwrap_or(0),
            room: if matches!(way, Way::Passes(_)) { shape.bucket.tile() as u32 } else { u32::MAX },
        };
        let both = [p(&call), p(&buckets)];
        if let Some(second) = second {
            let blocks = multiprocessors.min(n.div_ceil(BUCKET_COUNT_KEYS));
            launch(BucketCount, blocks, BUCKET_COUNT_THREADS, bucket_counters(second), &both)?;
            launch(BucketPlan, BINS, BINS as u32, 0, &both)?;
        }
        let count_blocks = (4 * multiprocessors).min(n.div_ceil(COUNT_KEYS));
        let Way::Passes(passes) = way else {
            if second.is_none() {
                call.passes = 1;
                launch(Count, count_blocks, COUNT_THREADS, 0, &[p(&call)])?;
            }
            let arguments = if second.is_none() { &both[..1] } else { &both[..] };
            return launch(Fill, n.div_ceil(FILL_KEYS), FILL_THREADS, 0, arguments);
        };
        if let Some(second) = second {
            let (tiles, threads) = (n.div_ceil(shape.pass.tile()), shape.pass.threads as u32);
            launch(BucketFirst, tiles, threads, BucketFirst.shared(shape), &both)?;
            launch(BucketSecond, tiles + BINS, threads, BucketSecond.shared(shape), &both)?;
            let (blocks, threads) = (BINS << second, shape.bucket.threads as u32);
            launch(BucketSort, blocks, threads, BucketSort.shared(shape), &both)?;
        }
        // Where buckets did it, these return at once.
        launch(Count, count_blocks, COUNT_THREADS, 0, &[p(&call)])?;
        let (kernel, threads) = (if passes.is_short { PassShort } else { Pass }, shape.pass.threads as u32);
        for pass in 0..call.passes {
            for number in 0..call.launches {
                let here = passes.in_launch.min(passes.tiles - number as usize * passes.in_launch);
                let arguments = [p(&call), p(&pass), p(&number)];
                launch(kernel, here.min(2 * multiprocessors), threads, kernel.shared(shape), &arguments)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const MACHINE: Machine = Machine { architecture: 90, multiprocessors: 132, shared: 227 << 10 };
    const KINDS: [(usize, KeyKind); 12] = [
        (1, KeyKind::Unsigned),
        (2, KeyKind::Unsigned),
        (4, KeyKind::Unsigned),
        (8, KeyKind::Unsigned),
        (1, KeyKind::Signed),
        (2, KeyKind::Signed),
        (4, KeyKind::Signed),
        (8, KeyKind::Signed),
        (2, KeyKind::Float { mantissa: 10 }),
        (2, KeyKind::Float { mantissa: 7 }),
        (4, KeyKind::Float { mantissa: 23 }),
        (8, KeyKind::Float { mantissa: 52 }),
    ];

    #[test]
    fn every_kernel_compiles() {
        let mut all = Vec::new();
        let mut add = |architecture, key, kind, payload| {
            let unit = SortUnit { key, kind, payload };
            all.push((architecture, format!("{unit:?}"), unit.source()));
        };
        for (k, (key, kind)) in KINDS.into_iter().enumerate() {
            add(90, key, kind, None);
            let payload =
                [(1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (12, 4), (16, 16), (10, 2), (16, 8), (15, 1)][k % 10];
            add([75, 90, 120][k % 3], key, kind, Some(payload));
        }
        add(75, 4, KeyKind::Unsigned, None);
        add(75, 8, KeyKind::Float { mantissa: 52 }, None);
        add(120, 1, KeyKind::Unsigned, None);
        library::compile_all(all);
    }

    #[test]
    fn the_usual_are_built_in() {
        macro_rules! all { ($v:ty: $($t:ident)*) => {
            [$( SortProgram::new::<$t, $v>(<$t as crate::SortKey>::KIND) ),*]
        } }
        let mut programs = Vec::from(all! { (): u8 i8 u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64 usize isize });
        programs.extend(all! { u32: u32 i32 f32 u64 i64 f64 usize isize });
        for program in programs {
            assert!(library::is_built_in(&program.unit.source()), "{program:?}");
        }
    }

    #[test]
    fn infinities() {
        let text = |mantissa, key| SortUnit { key, kind: KeyKind::Float { mantissa }, payload: None }.source();
        for (mantissa, key, infinity) in
            [(23, 4, "0x7f800000"), (52, 8, "0x7ff0000000000000"), (10, 2, "0x7c00"), (7, 2, "0x7f80")]
        {
            assert!(text(mantissa, key).contains(&format!("Bits({infinity}ull)")), "{infinity}");
        }
    }

    #[test]
    fn ways_by_length() {
        let keys = SortProgram::new::<u32, ()>(KeyKind::Unsigned);
        let second = |program: &SortProgram, n: usize, bits: Range<u32>, shared: usize| match program
            .plan(n, bits, false, &Machine { shared, ..MACHINE })
            .way
        {
            Way::OneBlock { .. } | Way::Counted { .. } => None,
            Way::Passes(passes) => passes.second,
        };
        let large = 227 << 10;
        for (n, expected) in [
            (5120, None),
            (5121, None),
            ((1 << 21) - 1, None),
            (1 << 22, Some(2)),
            ((1 << 22) + 1, Some(3)),
            (1 << 28, Some(8)),
            ((1 << 28) + (1 << 24), Some(8)),
            ((1 << 28) + (1 << 24) + 1, None),
        ] {
            assert_eq!(second(&keys, n, 0..32, large), expected, "{n}");
            assert_eq!(second(&keys, n, 1..32, large), None, "{n}, not all bits");
            let pairs = SortProgram::new::<u32, u32>(KeyKind::Unsigned);
            assert_eq!(second(&pairs, n, 0..32, large), None, "{n}, not alone");
        }
        // Less shared memory, fewer buckets.
        assert_eq!(second(&keys, 1 << 27, 0..32, 99 << 10), Some(7));
        assert_eq!(second(&keys, 1 << 28, 0..32, 99 << 10), None);
        let one_block = |program: &SortProgram, n| match program.plan(n, 0..32, false, &MACHINE).way {
            Way::OneBlock { by_bins } => Some(by_bins),
            _ => None,
        };
        assert_eq!([1, 5120, 5121].map(|n| one_block(&keys, n)), [Some(true), Some(true), None]);
        let pairs = SortProgram::new::<u32, u32>(KeyKind::Unsigned);
        assert_eq!([1, 4096, 4097].map(|n| one_block(&pairs, n)), [Some(false), Some(false), None]);
    }

    /// In place keys move an even number of times, and no array overlaps another.
    #[test]
    fn passes_and_memory() {
        let pairs = SortProgram::new::<u32, u64>(KeyKind::Unsigned);
        for (bits, in_place, expected) in [
            (0..32, false, 4),
            (0..32, true, 4),
            (3..12, false, 2),
            (3..11, true, 2),
            (3..11, false, 1),
            (5..5, true, 1),
        ] {
            let Way::Passes(passes) = pairs.plan(1 << 20, bits.clone(), in_place, &MACHINE).way else { panic!() };
            assert_eq!(passes.passes, expected, "{bits:?} in place {in_place}");
        }
        let missing = Missing { keys: [true, true] };
        let n: usize = (1 << 30) + 1;
        let plan = pairs.plan(n, 0..32, false, &MACHINE);
        let Way::Passes(passes) = &plan.way else { panic!() };
        assert!(passes.launches() > 1 && passes.in_launch == MOST_TILES);
        let at = plan.layout(missing);
        assert!(at.words[1] - at.words[0] >= 4 * BINS * MOST_TILES && at.zero >= at.words[1] + 4 * BINS * MOST_TILES);
        let [keys, second] = at.keys.map(|keys| keys.unwrap());
        assert!(keys >= at.zero && second >= keys + 4 * n && at.values.unwrap() >= second + 4 * n);
        assert!(at.bytes >= at.values.unwrap() + 8 * n);
    }

    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        let lengths = [1, 100, 5121, 100_000, 1 << 22, 1 << 27, 1 << 28, 1 << 30].into_iter().flat_map(|n| [n, n + 1]);
        for program in [SortProgram::new::<u32, ()>(KeyKind::Unsigned), SortProgram::new::<u32, u32>(KeyKind::Unsigned)]
        {
            for missing in [[false, false], [false, true], [true, true]].map(|keys| Missing { keys }) {
                for n in lengths.clone() {
                    let enough = program.scratch_up_to(n, &(0..32), missing, &MACHINE);
                    for fewer in lengths.clone().filter(|&fewer| fewer <= n) {
                        for in_place in [false, true] {
                            let needed = program.plan(fewer, 0..32, in_place, &MACHINE).scratch(missing);
                            assert!(needed <= enough, "{fewer} of {n}, {missing:?}");
                        }
                    }
                }
            }
        }
    }
}
