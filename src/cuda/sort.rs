//! Sorting on the device: which kernels, how much scratch memory, the launches.

use super::driver::check;
use super::library::{self, Kernels, Machine, Program};
use super::tuning::{BUCKET_MAP_BYTES, CELLS_SHARED, SORT_MIDDLE, SORT_SHORT, SortBlock, SortShape, sort_shape};
use super::unit::{KeyKind, SortUnit};
use crate::Error;
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Range;

const NAME: &str = "sort";

/// The kernels of `sort_kernels.cuh`. Those of a unit stand side by side.
macro_rules! kernels {
    ($($kernel:ident $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Kernel { $($kernel),* }
        use Kernel::*;

        impl Kernel {
            #[cfg(test)]
            const ALL: &[Kernel] = &[$($kernel),*];

            fn name(self) -> &'static str {
                match self { $($kernel => $name),* }
            }
        }
    };
}
kernels! {
    Fill "sort_fill";
    Count "sort_count";
    Pass "sort_pass";
    Passes "sort_passes";
    Middle "sort_passes_middle";
    Small "sort_small";
    BucketCount "bucket_count";
    BucketPlan "bucket_plan";
    Sample "bucket_sample";
    Map "bucket_map";
    First "bucket_first";
    Second "bucket_second";
    BucketSort "bucket_sort";
    BucketSortLarge "bucket_sort_large";
    SlotFirst "slot_first";
    SlotSort "slot_sort";
    SlotSortLarge "slot_sort_large";
    BucketSmall "bucket_small";
}

impl Kernel {
    /// Bytes of shared memory that it asks for, at most.
    fn shared(self, shape: &SortShape) -> usize {
        match self {
            Count | Sample | Map | BucketPlan | Fill => 0,
            Pass => shape.pass_shared(),
            Passes | SlotFirst => shape.short_shared(),
            Middle => shape.middle_shared(),
            Small => shape.small_shared(),
            BucketCount => bucket_counters(MOST_LOWER),
            First | Second => shape.bucket_tile_shared(),
            BucketSort | SlotSort | BucketSmall => shape.bucket_sort_shared(),
            BucketSortLarge | SlotSortLarge => shape.large_sort_shared(),
        }
    }
}

/// Of keys of four bytes and more: the last one for keys alone.
const OF_WIDE: [Kernel; 17] = [
    Count,
    Pass,
    Passes,
    Middle,
    Small,
    BucketCount,
    BucketPlan,
    Sample,
    Map,
    First,
    Second,
    BucketSort,
    BucketSortLarge,
    SlotFirst,
    SlotSort,
    SlotSortLarge,
    BucketSmall,
];

/// Those of a unit.
fn kernels_of(key: usize, is_alone: bool) -> &'static [Kernel] {
    match (is_alone, key) {
        (true, 1) => &[Fill, Count, Pass, Passes, Middle, Small],
        (true, 2) => &[Fill, Count, Pass, Passes, Middle, Small, BucketCount, BucketPlan],
        (false, 1 | 2) => &[Count, Pass, Passes, Middle, Small],
        (true, _) => &OF_WIDE,
        (false, _) => OF_WIDE.split_last().expect("there are some").1,
    }
}

// ---- as in the templates --------------------------------------------------------------------------------------------

const DIGIT_BITS: u32 = 8;
const BINS: usize = 1 << DIGIT_BITS;
const WORD: usize = size_of::<u32>();
/// `TOP_APART`.
const TOP_APART: usize = 32;
/// `FEW_COPIES`: counters of each of a few buckets.
const FEW_COPIES: usize = 8;
/// `LOOKED_AT`: keys that are looked at before slots.
const LOOKED_AT: usize = 512;
/// As many keys as a word of look-back counts.
const MOST_OF_A_WORD: usize = (1 << 31) - 2;
/// Tiles of a launch of a pass, where each is one: no more keys than that.
const MOST_TILES: usize = 1 << 15;
/// Threads of `sort_count`, and keys that are worth a block's turn.
const COUNT_THREADS: u32 = 512;
const COUNT_KEYS: usize = 4096;
/// Threads of `bucket_sample` and `bucket_map`, and blocks of the latter.
const SAMPLE_THREADS: u32 = 512;
const MAP_BLOCKS: usize = 32;
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
    no_keys: u32,
    parts: u32,
    launches: u32,
    tiles: u32,
    looks_for_few: u32,
}

/// `BucketCall`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Buckets {
    map: CUdeviceptr,
    counts: CUdeviceptr,
    tops: CUdeviceptr,
    starts: CUdeviceptr,
    cursors: CUdeviceptr,
    top_cursors: CUdeviceptr,
    begins: CUdeviceptr,
    sample: CUdeviceptr,
    sampled: u32,
    lower_bits: u32,
    most_lower_bits: u32,
    room: u32,
    at_once: u32,
}

/// `SlotCall`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Slots {
    counts: CUdeviceptr,
    keys: CUdeviceptr,
    values: CUdeviceptr,
    bits: u32,
    room: u32,
    most: u32,
}

// ---- which kernels -----------------------------------------------------------------------------------------------------------

/// The kernels for keys of a type and what goes with them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortProgram {
    unit: SortUnit,
    types: TypeId,
    type_name: &'static str,
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
        let before = if all_bits && self.unit.key >= 4 { self.buckets(n, &shape, machine) } else { Before::Nothing };
        let most_middle = if is_alone { SORT_MIDDLE } else { MOST_OF_A_WORD };
        let (launched, tile) = match n {
            _ if n <= SORT_SHORT => (Launched::Short, shape.short),
            _ if n <= most_middle => (Launched::Middle, shape.middle),
            _ => (Launched::Each, shape.pass),
        };
        let tiles = n.div_ceil(tile.tile());
        // From the input to the output, by whole keys.
        let may_step = self.unit.key >= 4 && all_bits && !in_place;
        plan(Way::Passes(PassPlan {
            passes,
            tiles,
            in_launch: if launched == Launched::Each { tiles.min(MOST_TILES) } else { tiles },
            launched,
            looks_for_few: may_step
                && launched == Launched::Middle
                && matches!(before, Before::Nothing | Before::Slots { .. }),
            before,
            multiprocessors,
        }))
    }

    /// Whether keys are so short that it is enough to count them.
    fn is_counted(&self, n: usize, machine: &Machine) -> bool {
        match self.unit.key {
            1 => true,
            2 => (FEWEST_TO_COUNT..=u32::MAX as usize).contains(&n) && Self::most_lower(machine) == Some(MOST_LOWER),
            _ => false,
        }
    }

    /// How `n` keys go to buckets by all of their bits, if that is worth it.
    fn buckets(&self, n: usize, shape: &SortShape, machine: &Machine) -> Before {
        let average = shape.bucket.tile() / 5 * 4;
        if n <= MOST_FOR_SLOTS && n <= most_for_slots(shape.bucket) {
            let bits = (n / KEYS_OF_A_SLOT).max(1).ilog2().clamp(LEAST_SLOT_BITS, DIGIT_BITS);
            return Before::Slots { bits: if n > average << bits { bits + 1 } else { bits }, is_large: false };
        }
        let has_large = shape.large_sort_shared() <= machine.shared;
        if has_large && n <= most_for_slots(shape.large) {
            return Before::Slots { bits: DIGIT_BITS, is_large: true };
        }
        let fewest = match (self.unit.key, self.unit.payload) {
            (4, None) => FEWEST_FOR_BUCKETS,
            (4, _) => FEWEST_PAIRS_FOR_BUCKETS,
            (_, None) => FEWEST_LONG_FOR_BUCKETS,
            _ => FEWEST_LONG_PAIRS_FOR_BUCKETS,
        };
        let is_worth_it = (fewest..=MOST_OF_A_WORD).contains(&n);
        let (Some(most), true) = (Self::most_lower(machine), is_worth_it) else { return Before::Nothing };
        let fits = |lower: u32, each: usize| (each << (DIGIT_BITS + lower)) >= n;
        let holds = |block: SortBlock| fits(most, most_in_buckets(block));
        let is_large = !holds(shape.bucket);
        if is_large && !(has_large && holds(shape.large)) {
            return Before::Buckets { lower: 0, most: 0, is_large: false }; // for few values: others do not fit, as the sample says
        }
        let average = shape.in_buckets(is_large).tile() / 5 * 4;
        let lower = (LEAST_LOWER..most).find(|&lower| fits(lower, average)).unwrap_or(most);
        Before::Buckets { lower, most: most.min(lower + 1), is_large }
    }

    fn most_lower(machine: &Machine) -> Option<u32> {
        (LEAST_LOWER..=MOST_LOWER).rev().find(|&lower| bucket_counters(lower) <= machine.shared)
    }

    /// Bytes of scratch memory that are enough for `n` keys or fewer, in place or not, where these arrays are missing.
    pub(crate) fn scratch_up_to(&self, n: usize, bits: &Range<u32>, missing: Missing, machine: &Machine) -> usize {
        // Fewer keys than these may go by buckets, slots or passes, or take shorter tiles, which takes more memory.
        let shape = self.shape(machine.architecture);
        let blocks = [shape.bucket, shape.large];
        let [most, large_most] = blocks
            .map(|block| Self::most_lower(machine).map_or(0, |lower| most_in_buckets(block) << (DIGIT_BITS + lower)));
        let [slots, large_slots] = blocks.map(most_for_slots);
        let of_buckets = [most, large_most, MOST_FOR_SLOTS.min(slots), large_slots];
        let borders = [n, MOST_OF_A_WORD, SORT_SHORT, SORT_MIDDLE, FEWEST_TO_COUNT - 1].into_iter().chain(of_buckets);
        let lengths = borders.map(|border| n.min(border)).filter(|&n| n > 0);
        let plans = lengths.flat_map(|n| [false, true].map(|in_place| self.plan(n, bits.clone(), in_place, machine)));
        plans.map(|plan| plan.scratch(missing)).max().unwrap_or(0)
    }
}

// Where one way is faster than another. NVIDIA H200, 2026-11-22.

/// Fewer keys are sorted as fast by passes or slots: of four bytes, alone and with company, and of eight.
const FEWEST_FOR_BUCKETS: usize = 5 << 20;
const FEWEST_PAIRS_FOR_BUCKETS: usize = 3 << 22;
const FEWEST_LONG_FOR_BUCKETS: usize = 3 << 19;
const FEWEST_LONG_PAIRS_FOR_BUCKETS: usize = 3 << 20;
/// More keys are not put into slots.
const MOST_FOR_SLOTS: usize = 1 << 20;
/// About so many keys go to a slot, if they are not too many for that.
const KEYS_OF_A_SLOT: usize = 1 << 10;
/// Bits of a slot's number: the rest of a key and its place in the slot go into one item of a key's size.
const LEAST_SLOT_BITS: u32 = 5;
/// Fewer keys of two bytes are sorted as fast digit by digit.
const FEWEST_TO_COUNT: usize = 1 << 20;
/// Bits of a bucket's number after the first digit.
const LEAST_LOWER: u32 = 2;
const MOST_LOWER: u32 = 8;

/// Bytes of shared memory for the table of cells, and then a counter of 16 bits for each bucket, two to a word and a word left out after every
/// 32 (`counter_at`), or of a few buckets eight of 32 bits.
fn bucket_counters(lower: u32) -> usize {
    ((2 << (DIGIT_BITS + lower)) / 32 * 33).max(FEW_COPIES * WORD * BINS) + CELLS_SHARED
}

/// Of how many keys buckets of a block may be on average, at most.
fn most_in_buckets(block: SortBlock) -> usize {
    block.tile() / 20 * 17
}

/// As many keys as slots of a block take, with room to spare.
fn most_for_slots(block: SortBlock) -> usize {
    (block.tile() / 5 * 4) << DIGIT_BITS
}

/// Of `LOOKED_AT` of `n` keys, how many may be of one slot with room for `room`: by chance hardly more, if all have room.
fn most_of_slot(n: usize, room: usize) -> usize {
    let expected = (LOOKED_AT * room) as f64 / n as f64;
    (expected + 6.0 * expected.sqrt()) as usize + 8
}

/// How many of `n` keys are looked at before. Of half as many, 2^28 keys by cells asked for more buckets than there are; of a quarter as many, a
/// bucket of 2^24 keys by a power law was too large.
fn sampled(n: usize) -> usize {
    (n >> 7).next_power_of_two().clamp(1 << 14, 1 << 19)
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
    Passes(PassPlan),
}

/// How passes are launched: all at once, by short tiles or by middle ones, or each by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launched {
    Short,
    Middle,
    Each,
}

#[derive(Clone, Debug)]
struct PassPlan {
    passes: usize,
    tiles: usize,
    /// Of them, in a launch.
    in_launch: usize,
    launched: Launched,
    /// Few values take one step in place of all passes.
    looks_for_few: bool,
    before: Before,
    multiprocessors: usize,
}

/// What is tried before the passes. They find nothing to do if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// One step, by so many bits, to slots of a bucket's size or of a large one's.
    Slots {
        bits: u32,
        is_large: bool,
    },
    /// Two steps, the second by so many bits, or by `most` if keys are not spread evenly and that does not do. By no bits it is one, for few values.
    Buckets {
        lower: u32,
        most: u32,
        /// Buckets are the large ones.
        is_large: bool,
    },
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
    map: usize,
    counts: usize,
    tops: usize,
    starts: usize,
    /// Up to here it is zero before the sort.
    zero: usize,
    cursors: usize,
    top_cursors: usize,
    begins: usize,
    sample: usize,
    slots: [usize; 2],
    keys: [Option<usize>; 2],
    values: Option<usize>,
    bytes: usize,
}

impl PassPlan {
    fn launches(&self) -> usize {
        self.tiles.div_ceil(self.in_launch)
    }
}

/// Bytes of `SortPlan` of `sort.cuh` for so many launches.
fn plan_bytes(key: usize, launches: usize) -> usize {
    let most_passes = key + 1;
    let digits = (most_passes + 2) * BINS * size_of::<u64>();
    digits + (BINS + 2 * most_passes + 10 + launches) * WORD
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
        let (launches, rows, before) = match &self.way {
            Way::OneBlock { .. } => return at,
            Way::Counted { .. } if key == 1 => (0, 0, Before::Nothing),
            Way::Counted { .. } => (0, 0, Before::Buckets { lower: MOST_LOWER, most: MOST_LOWER, is_large: false }),
            Way::Passes(passes) => {
                // Steps that keep the order look back as passes do, and the second has a tile more for each first digit.
                let of_steps = match passes.before {
                    Before::Buckets { .. } if value > 0 => self.n.div_ceil(self.shape.pass.tile()) + BINS,
                    Before::Slots { .. } if value > 0 => self.n.div_ceil(self.shape.short.tile()),
                    _ => 0,
                };
                (passes.passes * passes.launches(), passes.in_launch.max(of_steps), passes.before)
            }
        };
        at.plan = take(plan_bytes(key, launches));
        at.words = [0, 1].map(|_| take(rows * BINS * WORD));
        match before {
            Before::Nothing => at.zero = take(0),
            Before::Slots { bits, is_large } => {
                at.counts = take(BINS * WORD);
                at.zero = take(0);
                let room = (self.shape.in_buckets(is_large).tile() << bits) + self.shape.short.tile();
                at.slots = [key, value].map(|size| take(room * size));
            }
            Before::Buckets { most, .. } => {
                let buckets = BINS << most;
                at.map = take(BUCKET_MAP_BYTES);
                at.counts = take(buckets * WORD);
                at.tops = take(BINS * WORD);
                at.starts = take((buckets + 1) * WORD); // which are asked for before it is known whether there are any
                at.zero = take(0);
                at.cursors = take(buckets * WORD);
                at.top_cursors = take(BINS * TOP_APART * WORD);
                at.begins = take((BINS + 1) * 2 * WORD);
                at.sample = take(sampled(self.n) * key);
            }
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
            no_keys: u32::from(self.keys[0].is_none()),
            parts: 0,
            launches: 0,
            tiles: 0,
            looks_for_few: 0,
        };
        let all = kernels_of(plan.sizes.0, plan.sizes.1 == 0);
        let is_first = Cell::new(true);
        let launch = |kernel: Kernel, blocks: usize, threads: u32, shared: usize, arguments: &[*const c_void]| {
            let (index, blocks) = (all.iter().position(|&one| one == kernel).expect("the unit has it"), blocks as u32);
            // SAFETY: the arguments are those of the kernels in sort_kernels.cuh, by their number; the rest is the caller's.
            unsafe {
                if is_first.take() {
                    kernels.launch_with_shared(index, blocks, threads, shared, stream, arguments)
                } else {
                    kernels.launch_dependent(index, blocks, threads, shared, stream, arguments)
                }
            }
        };
        match way {
            Way::OneBlock { by_bins: true } => {
                let threads = shape.bucket.threads as u32;
                return launch(BucketSmall, 1, threads, BucketSmall.shared(shape), &[p(&call)]);
            }
            Way::OneBlock { by_bins: false } => {
                return launch(Small, 1, shape.small.threads as u32, Small.shared(shape), &[p(&call)]);
            }
            Way::Counted { .. } => call.passes = 1,
            Way::Passes(passes) => {
                call.passes = passes.passes as u32;
                call.by_buckets = u32::from(passes.before != Before::Nothing);
                call.parts = (2 * passes.multiprocessors).min(n.div_ceil(COUNT_KEYS)) as u32;
                call.launches = passes.launches() as u32;
                call.tiles = passes.in_launch as u32;
                call.looks_for_few = u32::from(passes.looks_for_few);
            }
        }
        // SAFETY: the scratch memory is longer.
        let cleared = unsafe { sys::cuMemsetD8Async(self.scratch, 0, at.zero, stream) };
        check("cuMemsetD8Async", device, cleared)?;
        let call = call;
        let arguments = |more: *const c_void| [p(&call), more];
        let mut buckets = Buckets {
            map: place(at.map),
            counts: place(at.counts),
            tops: place(at.tops),
            starts: place(at.starts),
            cursors: place(at.cursors),
            top_cursors: place(at.top_cursors),
            begins: place(at.begins),
            sample: place(at.sample),
            sampled: sampled(*n) as u32,
            lower_bits: MOST_LOWER,
            most_lower_bits: MOST_LOWER,
            room: shape.bucket.tile() as u32,
            at_once: 0,
        };
        let count_blocks = |multiprocessors: usize| (4 * multiprocessors).min(n.div_ceil(COUNT_KEYS));
        let count_buckets = |buckets: &Buckets, multiprocessors: usize| {
            let blocks = multiprocessors.min(n.div_ceil(BUCKET_COUNT_KEYS));
            let shared = bucket_counters(buckets.most_lower_bits);
            launch(BucketCount, blocks, BUCKET_COUNT_THREADS, shared, &arguments(p(buckets)))?;
            launch(BucketPlan, BINS, BINS as u32, 0, &arguments(p(buckets)))
        };
        let passes = match way {
            Way::OneBlock { .. } => unreachable!("it was launched"),
            Way::Counted { multiprocessors } => {
                let (blocks, threads) = (n.div_ceil(FILL_KEYS), FILL_THREADS);
                if plan.sizes.0 == 1 {
                    launch(Count, count_blocks(*multiprocessors), COUNT_THREADS, 0, &[p(&call)])?;
                    return launch(Fill, blocks, threads, 0, &[p(&call)]);
                }
                count_buckets(&buckets, *multiprocessors)?;
                return launch(Fill, blocks, threads, 0, &arguments(p(&buckets)));
            }
            Way::Passes(passes) => passes,
        };
        let is_alone = plan.sizes.1 == 0;
        let (at_once, threads) = (2 * passes.multiprocessors, shape.pass.threads as u32);
        match passes.before {
            Before::Nothing => {}
            Before::Slots { bits, is_large } => {
                let block = shape.in_buckets(is_large);
                let [keys, values] = at.slots.map(place);
                let (room, most) = (block.tile() as u32, most_of_slot(*n, block.tile()) as u32);
                let slots = Slots { counts: place(at.counts), keys, values, bits, room, most };
                let arguments = arguments(p(&slots));
                launch(SlotFirst, n.div_ceil(shape.short.tile()), threads, SlotFirst.shared(shape), &arguments)?;
                let kernel = if is_large { SlotSortLarge } else { SlotSort };
                launch(kernel, 1 << bits, block.threads as u32, kernel.shared(shape), &arguments)?;
            }
            Before::Buckets { lower, most, is_large } => {
                (buckets.lower_bits, buckets.most_lower_bits) = (lower, most);
                let block = shape.in_buckets(is_large);
                buckets.room = block.tile() as u32;
                buckets.at_once = (block.blocks * passes.multiprocessors) as u32;
                let blocks = |samples: usize, most: usize| (buckets.sampled as usize / samples).clamp(1, most);
                let sample_blocks = blocks(4 * SAMPLE_THREADS as usize, passes.multiprocessors);
                launch(Sample, sample_blocks, SAMPLE_THREADS, 0, &arguments(p(&buckets)))?;
                // Few blocks: each adds its counts to those of all.
                let map_blocks = blocks(2 * SAMPLE_THREADS as usize, MAP_BLOCKS);
                launch(Map, map_blocks, SAMPLE_THREADS, 0, &arguments(p(&buckets)))?;
                count_buckets(&buckets, passes.multiprocessors)?;
                // In any order a tile to a block; else as they are drawn.
                let tiles = |more: usize| if is_alone { n.div_ceil(shape.pass.tile()) + more } else { at_once };
                launch(First, tiles(0), threads, First.shared(shape), &arguments(p(&buckets)))?;
                // If there is one step, all that the second one does is to move values back in place.
                let second = if lower > 0 { tiles(BINS) } else { at_once };
                if lower > 0 || *in_place {
                    launch(Second, second, threads, Second.shared(shape), &arguments(p(&buckets)))?;
                }
                // Large ones by blocks that stay, as a multiprocessor has one.
                let all = BINS << lower;
                let (kernel, blocks) =
                    if is_large { (BucketSortLarge, passes.multiprocessors.min(all)) } else { (BucketSort, all) };
                launch(kernel, blocks, block.threads as u32, kernel.shared(shape), &arguments(p(&buckets)))?;
            }
        }
        // Where buckets did it, these return at once.
        let all_passes = match passes.launched {
            Launched::Short => Some(Passes),
            Launched::Middle => Some(Middle),
            Launched::Each => None,
        };
        if let Some(kernel) = all_passes {
            let blocks = passes.tiles.max(call.parts as usize).min(at_once);
            return launch(kernel, blocks, threads, kernel.shared(shape), &[p(&call)]);
        }
        launch(Count, count_blocks(passes.multiprocessors), COUNT_THREADS, 0, &[p(&call)])?;
        for run in 0..call.passes {
            for number in 0..call.launches {
                let here = passes.in_launch.min(passes.tiles - number as usize * passes.in_launch);
                launch(Pass, here.min(at_once), threads, Pass.shared(shape), &[p(&call), p(&run), p(&number)])?;
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

    /// By what sets of kernels the template defines for them.
    #[test]
    fn kernels_of_a_unit() {
        let names = |key, is_alone| kernels_of(key, is_alone).iter().map(|kernel| kernel.name()).collect::<Vec<_>>();
        let passes = ["sort_count", "sort_pass", "sort_passes", "sort_passes_middle", "sort_small"];
        assert_eq!(names(1, false), passes);
        assert_eq!(names(2, false), passes);
        assert_eq!(names(1, true), [&["sort_fill"], &passes[..]].concat());
        assert_eq!(names(2, true), [&["sort_fill"], &passes[..], &["bucket_count", "bucket_plan"]].concat());
        for key in [4, 8] {
            let (alone, pairs) = (names(key, true), names(key, false));
            assert_eq!(alone.split_last(), Some((&"bucket_small", &pairs[..])));
            assert!(pairs.starts_with(&passes) && !pairs.contains(&"sort_fill"));
        }
        let template = include_str!("../../cuda-templates/sort_kernels.cuh");
        assert!(Kernel::ALL.iter().all(|kernel| template.contains(&format!(" {}(SortCall call", kernel.name()))));
    }

    /// What the host repeats of the templates.
    #[test]
    fn constants_of_the_templates() {
        let map = include_str!("../../cuda-templates/bucket_map.cuh");
        let buckets = include_str!("../../cuda-templates/buckets.cuh");
        for (text, name, value) in
            [(map, "TOP_APART", TOP_APART), (buckets, "FEW_COPIES", FEW_COPIES), (buckets, "LOOKED_AT", LOOKED_AT)]
        {
            assert!(text.contains(&format!("constexpr u32 {name} = {value};")), "{name}");
        }
        assert!(buckets.contains("counter_at(u32 i) { return i + i / WARP; }"));
        let counters = |lower: u32| 4 * ((BINS << lower) / 2 + (BINS << lower) / 64);
        assert!((5..=MOST_LOWER).all(|lower| bucket_counters(lower) == counters(lower) + CELLS_SHARED));
    }

    #[test]
    fn parts() {
        for (key, payload) in [(1, None), (2, None), (2, Some((4, 4))), (4, None), (4, Some((4, 4)))] {
            let source = SortUnit { key, kind: KeyKind::Unsigned, payload }.source();
            let names: Vec<&str> = kernels_of(key, payload.is_none()).iter().map(|kernel| kernel.name()).collect();
            library::parts_have_a_kernel_each(&source, &names);
        }
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
        let pairs = SortProgram::new::<u32, u32>(KeyKind::Unsigned);
        let before = |program: &SortProgram, n: usize, bits: Range<u32>, shared: usize| match program
            .plan(n, bits, false, &Machine { shared, ..MACHINE })
            .way
        {
            Way::OneBlock { .. } | Way::Counted { .. } => None,
            Way::Passes(passes) => Some(passes.before),
        };
        let slots = |bits| Some(Before::Slots { bits, is_large: false });
        let large_slots = Some(Before::Slots { bits: 8, is_large: true });
        let buckets = |lower, most| Some(Before::Buckets { lower, most, is_large: false });
        let of_large = |lower, most| Some(Before::Buckets { lower, most, is_large: true });
        let nothing = Some(Before::Nothing);
        let large = 227 << 10;
        for (n, of_keys, of_pairs) in [
            (4096, None, None),
            (5632, None, slots(5)),
            (5633, slots(5), slots(5)),
            (1 << 16, slots(6), slots(6)),
            (1 << 20, slots(8), slots(8)),
            ((1 << 20) + 1, large_slots, large_slots),
            (1 << 22, large_slots, large_slots),
            ((1 << 22) + 1, nothing, nothing),
            ((5 << 20) - 1, nothing, nothing),
            (5 << 20, buckets(3, 4), nothing),
            (1 << 23, buckets(3, 4), nothing),
            ((3 << 22) - 1, buckets(4, 5), nothing),
            (3 << 22, buckets(4, 5), buckets(4, 5)),
            (1 << 25, buckets(5, 6), buckets(5, 6)),
            (1 << 28, buckets(8, 8), buckets(8, 8)),
            (313_000_000, buckets(8, 8), buckets(8, 8)),
            (314_000_000, of_large(7, 8), of_large(7, 8)),
            (1 << 29, of_large(7, 8), of_large(7, 8)),
            ((1 << 29) + 1, of_large(8, 8), of_large(8, 8)),
            (1 << 30, of_large(8, 8), of_large(8, 8)),
            (1_140_850_688, of_large(8, 8), of_large(8, 8)),
            (1_140_850_689, buckets(0, 0), buckets(0, 0)),
            (MOST_OF_A_WORD + 1, nothing, nothing),
        ] {
            assert_eq!(before(&keys, n, 0..32, large), of_keys, "{n} keys");
            assert_eq!(before(&pairs, n, 0..32, large), of_pairs, "{n} pairs");
            if n > 5632 {
                assert_eq!(before(&keys, n, 1..32, large), nothing, "{n}, not all bits");
            }
        }
        // Less shared memory, fewer buckets.
        assert_eq!(before(&keys, 1 << 26, 0..32, 99 << 10), buckets(6, 7));
        assert_eq!(before(&keys, 1 << 28, 0..32, 99 << 10), buckets(0, 0));
        let one_block = |program: &SortProgram, n| match program.plan(n, 0..32, false, &MACHINE).way {
            Way::OneBlock { by_bins } => Some(by_bins),
            _ => None,
        };
        assert_eq!([1, 5632, 5633].map(|n| one_block(&keys, n)), [Some(true), Some(true), None]);
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
        let n: usize = (1 << 31) + 1;
        let plan = pairs.plan(n, 0..32, false, &MACHINE);
        let Way::Passes(passes) = &plan.way else { panic!() };
        assert!(passes.launches() > 1 && passes.in_launch == MOST_TILES);
        let at = plan.layout(missing);
        assert!(at.words[1] - at.words[0] >= 4 * BINS * MOST_TILES && at.zero >= at.words[1] + 4 * BINS * MOST_TILES);
        let [keys, second] = at.keys.map(|keys| keys.unwrap());
        assert!(keys >= at.zero && second >= keys + 4 * n && at.values.unwrap() >= second + 4 * n);
        assert!(at.bytes >= at.values.unwrap() + 8 * n);

        // Steps to buckets look back over more tiles, and slots have room for more than all.
        let plan = pairs.plan(1 << 26, 0..32, false, &MACHINE);
        let at = plan.layout(missing);
        let tiles = (1usize << 26).div_ceil(plan.shape.pass.tile());
        assert!(
            at.words[1] - at.words[0] >= 4 * BINS * (tiles + BINS) && at.map >= at.words[1] + 4 * BINS * (tiles + BINS)
        );
        assert!(at.zero >= at.tops + 4 * BINS && at.counts >= at.map + BUCKET_MAP_BYTES);
        let plan = pairs.plan(1 << 17, 0..32, false, &MACHINE);
        let (at, shape) = (plan.layout(missing), plan.shape);
        let Way::Passes(PassPlan { before: Before::Slots { bits, .. }, .. }) = plan.way else { panic!() };
        let room = (shape.bucket.tile() << bits) + shape.short.tile();
        assert!(at.slots[1] >= at.slots[0] + 4 * room && at.keys[0].unwrap() >= at.slots[1] + 8 * room);
    }

    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        let most_in_large = [627_245_056, 741_539_840, 1_140_850_688]; // of 8 bytes, pairs of 4 and 8, of 4
        let lengths = [1, 100, 5633, 100_000, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 25, 1 << 27, 1 << 28, 1 << 30]
            .into_iter()
            .chain(most_in_large)
            .flat_map(|n| [n, n - 1, n + 1])
            .filter(|&n| n > 0);
        let kind = KeyKind::Unsigned;
        for program in [
            SortProgram::new::<u32, ()>(kind),
            SortProgram::new::<u32, u32>(kind),
            SortProgram::new::<u32, u64>(kind),
            SortProgram::new::<u64, ()>(kind),
            SortProgram::new::<u16, ()>(kind),
            SortProgram::new::<u16, u64>(kind),
        ] {
            let bits = 0..8 * program.sizes().0 as u32;
            for missing in [[false, false], [false, true], [true, true]].map(|keys| Missing { keys }) {
                for n in lengths.clone() {
                    let enough = program.scratch_up_to(n, &bits, missing, &MACHINE);
                    for fewer in lengths.clone().filter(|&fewer| fewer <= n) {
                        for in_place in [false, true] {
                            let needed = program.plan(fewer, bits.clone(), in_place, &MACHINE).scratch(missing);
                            assert!(needed <= enough, "{fewer} of {n}, {missing:?}");
                        }
                    }
                }
            }
        }
    }
}
