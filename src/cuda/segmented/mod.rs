//! Scan and reduce by segment on the device: the plans and the launches.

use super::contract::{BEFORE_STATUS, status_bytes};
use super::driver::check;
use super::kernels::Kernels;
use super::library::{self, BuiltIn, Caller, Program};
use super::reduce::ReducePlan;
use super::reduce::tuning::{REDUCE_RANGES, segmented_ranges};
use super::scan::contract::{EXCLUSIVE, INIT, REVERSE};
use super::scan::tuning::{TUNING, Tuning, fitted};
use super::scan::unit::Unit;
use super::scan::unit_of;
use super::tuning::RANGES;
use super::unit::{of_kind, with_length};
use crate::{Element, Error, Operator};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;

pub(crate) mod contract;
mod tuning;
mod unit;
use contract::{FIND_THREADS, SHORT_INPUT_THREADS};
use tuning::EachGrid;
use unit::{
    counted_bytes, headed_bytes, run_reduce_key, run_reduce_source, segmented_reduce_key, segmented_reduce_source,
    segmented_scan_key, segmented_scan_source, share_bytes,
};

const SCAN: &str = "segmented scan";
/// A kernel for each range of lengths, that of short inputs, the search in the offsets, and that of rows.
const SCAN_KERNELS: [&str; RANGES + 3] = [
    "segmented_scan_0",
    "segmented_scan_1",
    "segmented_scan_2",
    "segmented_scan_short",
    "segmented_find",
    "segmented_scan_rows",
];
const SHORT_SCAN: usize = RANGES;
const FIND: usize = RANGES + 1;
const ROW_SCAN: usize = RANGES + 2;
const RUNS: &str = "reduce of runs";
const RUN_KERNELS: [&str; RANGES] = ["run_reduce_0", "run_reduce_1", "run_reduce_2"];
const REDUCE_KERNELS: [&str; REDUCE_RANGES + 2] =
    ["segmented_reduce_0", "segmented_reduce_1", "segmented_reduce_short", "segmented_reduce_each"];
const SHORT_REDUCE: usize = REDUCE_RANGES;
const EACH_REDUCE: usize = REDUCE_RANGES + 1;

/// The kinds of segmentation: the last one's number and one.
const KINDS: usize = contract::KEYS_AS_BYTES as usize + 1;

/// The names of a primitive's programs, one for each kind of segmentation.
macro_rules! of_kinds {
    ($primitive:literal) => {
        [
            concat!($primitive, " of rows"),
            concat!($primitive, " by u32 offsets"),
            concat!($primitive, " by u64 offsets"),
            concat!($primitive, " by flags"),
            concat!($primitive, " by bits"),
            concat!($primitive, " by u8 keys"),
            concat!($primitive, " by u16 keys"),
            concat!($primitive, " by u32 keys"),
            concat!($primitive, " by u64 keys"),
            concat!($primitive, " by keys"),
        ]
    };
}
/// The programs of a known length, and of one that lies in memory.
type Programs = [[&'static str; KINDS]; 2];
const SCANS: Programs = [of_kinds!("segmented scan"), of_kinds!("segmented scan of a length in memory")];
const RUN_REDUCES: Programs = [of_kinds!("reduce of runs"), of_kinds!("reduce of runs of a length in memory")];
const REDUCES: Programs = [of_kinds!("segmented reduce"), of_kinds!("segmented reduce of a length in memory")];

/// Where segments begin, for a kernel. Addresses are on the device.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Rows {
        columns: usize,
    },
    /// `segments` + 1 offsets, of 8 bytes if they are `wide`, else of 4.
    Offsets {
        address: CUdeviceptr,
        segments: usize,
        wide: bool,
    },
    /// A byte for each item.
    Heads {
        address: CUdeviceptr,
    },
    /// Words of 32 or 64 bits: the same bytes.
    HeadBits {
        address: CUdeviceptr,
    },
    /// A key of `size` bytes for each item, at a multiple of `align`.
    Keys {
        address: CUdeviceptr,
        size: usize,
        align: usize,
    },
}

impl Cut {
    /// Blocks of the kernels of short inputs for `n` items, if these are short.
    fn short_blocks(self, n: usize, tile: usize) -> Option<u32> {
        let segments = match self {
            Cut::Rows { columns } => n / columns,
            Cut::Offsets { segments, .. } => segments,
            _ => return None,
        };
        (n > 0 && tuning::is_short(n, segments, tile)).then(|| n.div_ceil(tile) as u32)
    }

    /// The grid of the kernel that folds each segment alone for `n` items of `size` bytes, if it takes these.
    fn each_grid(self, n: usize, size: usize) -> Option<EachGrid> {
        match self {
            Cut::Rows { columns } => EachGrid::rows(n / columns, columns, size),
            Cut::Offsets { segments, .. } => EachGrid::offsets(segments, n, size),
            _ => None,
        }
    }

    /// The kind, of which the kernels are compiled.
    fn kind(self) -> u32 {
        match self {
            Cut::Rows { .. } => contract::ROWS,
            Cut::Offsets { wide: true, .. } => contract::OFFSETS_64,
            Cut::Offsets { .. } => contract::OFFSETS_32,
            Cut::Heads { .. } => contract::FLAGS,
            Cut::HeadBits { .. } => contract::BITS,
            Cut::Keys { size, align, .. } => match size {
                1 => contract::KEYS_8,
                2 if align >= 2 => contract::KEYS_16,
                4 if align >= 4 => contract::KEYS_32,
                8 if align >= 8 => contract::KEYS_64,
                _ => contract::KEYS_AS_BYTES,
            },
        }
    }

    /// The same for a kernel over `n` items.
    pub(super) fn contract(self, n: usize) -> contract::Cut {
        let none = contract::Cut { memory: 0, segments: 0, columns: 0, kind: self.kind(), size: 0 };
        match self {
            Cut::Rows { columns } => contract::Cut { segments: (n / columns) as u64, columns: columns as u64, ..none },
            Cut::Offsets { address, segments, .. } => {
                contract::Cut { memory: address, segments: segments as u64, columns: n as u64, ..none }
            }
            Cut::Heads { address } | Cut::HeadBits { address } => contract::Cut { memory: address, ..none },
            Cut::Keys { address, size, .. } => contract::Cut { memory: address, size: size as u32, ..none },
        }
    }
}

/// The plan of a scan or reduce by segment of n elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedPlan {
    kernel: usize,
    threads: u32,
    blocks: u32,
    /// Tiles of a scan, and items of a tile.
    tiles: u32,
    tile: u32,
    /// Items of a tile of the kernels of short inputs.
    short: usize,
    /// Bytes of an element.
    element: usize,
    /// Of a reduce: slices of each warp, and the number of warps, the first ones, that have one
    /// more.
    each: u64,
    more: u32,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory that may hold anything.
    pub(crate) scratch: usize,
}

impl SegmentedPlan {
    /// The plan of a scan for the kernels of `architecture`.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn scan<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        let carry = headed_bytes(size_of::<Op::Carry>(), align_of::<Op::Carry>());
        let mut plan = SegmentedPlan::in_tiles(SCAN, TUNING, [size_of::<T>(), carry], n, architecture)?;
        // The number of each tile's first offset.
        plan.scratch = if plan.tiles <= 1 || plan.kernel == 0 { 0 } else { plan.tiles as usize * size_of::<u64>() };
        Ok(plan)
    }

    /// The plan of a reduce of runs.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn runs<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        let carry = counted_bytes(size_of::<Op::Carry>(), align_of::<Op::Carry>());
        SegmentedPlan::in_tiles(RUNS, tuning::RUNS, [size_of::<T>(), carry], n, architecture)
    }

    /// The plan in tiles, for an element and a carry of these sizes.
    fn in_tiles(
        primitive: &'static str,
        tuning: &[Tuning],
        [element, carry]: [usize; 2],
        n: usize,
        architecture: u32,
    ) -> Result<SegmentedPlan, Error> {
        let ranges = fitted(tuning, architecture, element);
        let bytes = n.saturating_mul(element);
        let kernel =
            ranges.iter().position(|range| bytes <= range.bytes).expect("the last one is for all that are longer");
        let (shape, spread) = (ranges[kernel].shape, ranges[kernel].spread);
        let tile = shape.tile(element);
        let tiles = n.div_ceil(tile);
        const MOST_BLOCKS: usize = i32::MAX as usize;
        if tiles >= MOST_BLOCKS {
            return Err(Error::TooLong { primitive, n, most: (MOST_BLOCKS - 1) * tile });
        }
        let status = status_bytes(carry);
        let words = if tiles <= 1 { 0 } else { BEFORE_STATUS + tiles * (status + status.max(spread)) };
        // One block more serves the prefixes.
        let blocks = if tiles <= 1 { tiles } else { tiles + 1 } as u32;
        let (threads, tiles, tile) = (shape.threads() as u32, tiles as u32, tile as u32);
        let short = tuning::short_tile(element);
        Ok(SegmentedPlan { kernel, threads, blocks, tiles, tile, short, element, each: 0, more: 0, words, scratch: 0 })
    }

    /// The plan of a scan with memory for up to `n` elements.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn scan_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        SegmentedPlan::up_to::<T>(TUNING, n, architecture, SegmentedPlan::scan::<Op, T>)
    }

    /// The plan of a reduce of runs with memory for up to `n` elements.
    ///
    /// # Errors
    /// Those of `scan`.
    pub(crate) fn runs_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> Result<SegmentedPlan, Error> {
        SegmentedPlan::up_to::<T>(tuning::RUNS, n, architecture, SegmentedPlan::runs::<Op, T>)
    }

    /// A shorter input may take smaller tiles, and more of them.
    fn up_to<T>(
        tuning: &[Tuning],
        n: usize,
        architecture: u32,
        plan_of: fn(usize, u32) -> Result<SegmentedPlan, Error>,
    ) -> Result<SegmentedPlan, Error> {
        let mut plan = plan_of(n, architecture)?;
        for range in fitted(tuning, architecture, size_of::<T>()) {
            let shorter = plan_of(n.min(range.bytes / size_of::<T>()), architecture)?;
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        Ok(plan)
    }

    /// The plan of a reduce for the kernels of `architecture`.
    pub(crate) fn reduce<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> SegmentedPlan {
        let sizes = [size_of::<T>(), size_of::<Op::Carry>()];
        SegmentedPlan::of_reduce::<Op, T>(ReducePlan::of_ranges(&segmented_ranges(architecture, sizes[0]), sizes, n), n)
    }

    /// The plan of a reduce with memory for up to `n` elements.
    pub(crate) fn reduce_up_to<Op: Operator<T>, T: Element>(n: usize, architecture: u32) -> SegmentedPlan {
        let mut plan = SegmentedPlan::reduce::<Op, T>(n, architecture);
        for range in segmented_ranges(architecture, size_of::<T>()) {
            let shorter = SegmentedPlan::reduce::<Op, T>(n.min(range.bytes / size_of::<T>()), architecture);
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        plan
    }

    fn of_reduce<Op: Operator<T>, T: Element>(plan: ReducePlan, n: usize) -> SegmentedPlan {
        let ReducePlan { range, threads, blocks, each, more, .. } = plan;
        let (element, short) = (size_of::<T>(), tuning::short_tile(size_of::<T>()));
        let shares = if blocks == 1 { 0 } else { blocks as usize }.max(tuning::most_pieces(n, element));
        let words = if shares == 0 { 0 } else { BEFORE_STATUS };
        let scratch = shares * share_bytes(size_of::<Op::Carry>());
        SegmentedPlan { kernel: range, threads, blocks, tiles: 0, tile: 0, short, element, each, more, words, scratch }
    }
}

/// The kernels of scan by segment, for the kind of `cut` alone, and for a number of items that lies in memory if
/// `is_counted`. Loads them unless they are loaded.
pub(crate) fn load_scan<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let kernels = match cut {
        Cut::Offsets { .. } => &SCAN_KERNELS[..=FIND],
        Cut::Rows { .. } => &SCAN_KERNELS[..],
        _ => &SCAN_KERNELS[..RANGES],
    };
    let built_in = const { library::built_in(segmented_scan_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, SCANS, cut, is_counted, kernels, segmented_scan_source, built_in)
}

/// The kernels of reduce of runs, as `load_scan`.
pub(crate) fn load_runs<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let built_in = const { library::built_in(run_reduce_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, RUN_REDUCES, cut, is_counted, &RUN_KERNELS, run_reduce_source, built_in)
}

/// The kernels of reduce by segment, as `load_scan`.
pub(crate) fn load_reduce<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let built_in = const { library::built_in(segmented_reduce_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, REDUCES, cut, is_counted, &REDUCE_KERNELS, segmented_reduce_source, built_in)
}

fn load<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    programs: Programs,
    cut: Cut,
    is_counted: bool,
    kernels: &[&str],
    source: fn(&Unit) -> String,
    built_in: Option<&'static BuiltIn>,
) -> Result<&'static Kernels, Error> {
    let program = programs[usize::from(is_counted)][cut.kind() as usize];
    library::load(TypeId::of::<(Op, T)>(), program, caller, kernels, &|| {
        let source = of_kind(cut.kind(), &source(&unit_of::<Op, T>()));
        Program {
            name: format!("{program}::<{}, {}>", type_name::<Op>(), type_name::<T>()),
            source: if is_counted { with_length(&source) } else { source },
            built_in: built_in.filter(|_| !is_counted),
        }
    })
}

/// The arguments of a kernel, the last of which only counted programs have.
fn with_last(arguments: &[*const c_void], has_last: bool) -> &[*const c_void] {
    &arguments[..arguments.len() - usize::from(!has_last)]
}

/// A pointer to a kernel's argument.
fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

/// The arguments of a scan by segment; `first` is in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedScanArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of items, if it lies in memory; `n` is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// The value before each segment's first item: `init`, or the identity of an exclusive scan. An
    /// exclusive scan has one.
    pub(crate) first: Option<C>,
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    pub(crate) cut: Cut,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
    /// `SegmentedPlan::scratch` bytes.
    pub(crate) scratch: CUdeviceptr,
}

impl<C: Element> SegmentedScanArguments<C> {
    /// Launches the kernels: for offsets of a long input two, else one. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_scan` for the operator and its element. The plan is for `n`
    ///   elements, at least one, and the architecture of the kernels.
    /// - Input and output are `n` elements of device memory, equal or disjoint. The arrays of `cut`
    ///   are as long as it says: flags, bits and keys for `n` items. The addresses of
    ///   words and scratch memory are multiples of 16. All are valid until the stream is past the
    ///   scan, and nothing else uses words and scratch memory until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(&self, plan: &SegmentedPlan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        let SegmentedScanArguments { input, output, n, length, first, exclusive, reverse, cut, words, scratch } = *self;
        let SegmentedPlan { kernel, threads, blocks, tiles, tile, .. } = *plan;
        let flags = (if exclusive { EXCLUSIVE } else { 0 })
            | (if reverse { REVERSE } else { 0 })
            | (if first.is_some() { INIT } else { 0 });
        // The kernel of short inputs reads items of other tiles, which must not be overwritten.
        let short_blocks =
            cut.short_blocks(n, plan.short).filter(|&blocks| length.is_none() && (blocks == 1 || input != output));
        // A length in memory may end within a row.
        let row_grid = match cut {
            Cut::Rows { columns } if !reverse && length.is_none() => {
                EachGrid::scanned_rows(n / columns, columns, plan.element).map(|grid| (columns, grid))
            }
            _ => None,
        };
        // Tiles of the first kernel search themselves.
        let searched = tiles > 1 && kernel > 0 && matches!(cut, Cut::Offsets { .. });
        let (cut, init) = (cut.contract(n), first.unwrap_or_else(C::zeroed));
        let (n, tile_offsets) = (n as u64, if searched { scratch } else { 0 });
        let (at, is_counted) = (length.unwrap_or(0), length.is_some());
        if let Some((columns, EachGrid { blocks, warps, shares })) = row_grid {
            let (rows, columns, parts) = (cut.segments, columns as u32, shares.parts);
            let arguments = [p(&input), p(&output), p(&rows), p(&columns), p(&parts), p(&init), p(&flags)];
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(ROW_SCAN, blocks, warps * 32, stream, &arguments) };
        }
        if let Some(blocks) = short_blocks {
            let arguments = [p(&input), p(&output), p(&n), p(&init), p(&flags), p(&cut)];
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(SHORT_SCAN, blocks, SHORT_INPUT_THREADS, stream, &arguments) };
        }
        if searched {
            let arguments = [p(&cut), p(&n), p(&flags), p(&tile), p(&tiles), p(&tile_offsets), p(&at)];
            let (blocks, arguments) = (tiles.div_ceil(FIND_THREADS / 32), with_last(&arguments, is_counted));
            // SAFETY: the arguments are those of the kernel in segmented/scan_kernels.cuh; the
            // caller vouches for the rest.
            unsafe { kernels.launch(FIND, blocks, FIND_THREADS, stream, arguments)? };
        }
        let arguments = [
            p(&input),
            p(&output),
            p(&n),
            p(&init),
            p(&flags),
            p(&cut),
            p(&tile_offsets),
            p(&words),
            p(&tiles),
            p(&at),
        ];
        let arguments = with_last(&arguments, is_counted);
        // SAFETY: as above. After the search the kernel waits for it where it reads what was found; what
        // came before, the number of items too, has ended when the search begins. Without items neither kernel
        // uses memory.
        unsafe {
            if searched {
                kernels.launch_dependent(kernel, blocks, threads, 0, stream, arguments)
            } else {
                kernels.launch(kernel, blocks, threads, stream, arguments)
            }
        }
    }
}

/// The arguments of a reduce of runs; `first` is in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunReduceArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of items, if it lies in memory; `n` is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// The value before each segment's first item.
    pub(crate) first: Option<C>,
    /// Flags, bits or keys.
    pub(crate) cut: Cut,
    /// `capacity` elements.
    pub(crate) output: CUdeviceptr,
    /// Null, or room for `capacity` keys.
    pub(crate) keys: CUdeviceptr,
    pub(crate) capacity: usize,
    /// A `u64`.
    pub(crate) count: CUdeviceptr,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
}

impl<C: Element> RunReduceArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_runs` for the operator and its element, on this device. The plan
    ///   is for `n` elements and the architecture of the kernels.
    /// - The arrays lie in device memory and are as long as the fields say, those of `cut` for `n`
    ///   items. The addresses of words are multiples of 16. All are disjoint and valid until the
    ///   stream is past the call, and nothing else uses the words until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        plan: &SegmentedPlan,
        kernels: &Kernels,
        device: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        let RunReduceArguments { input, n, length, first, cut, output, keys, capacity, count, words } = *self;
        if n == 0 {
            // SAFETY: the caller's.
            let cleared = unsafe { sys::cuMemsetD8Async(count, 0, size_of::<u64>(), stream) };
            return check("cuMemsetD8Async", device, cleared);
        }
        let SegmentedPlan { kernel, threads, blocks, tiles, .. } = *plan;
        let (init, has_init) = (first.unwrap_or_else(C::zeroed), u32::from(first.is_some()));
        let (cut, n, capacity) = (cut.contract(n), n as u64, capacity as u64);
        let at = length.unwrap_or(0);
        let arguments = [
            p(&input),
            p(&n),
            p(&init),
            p(&has_init),
            p(&cut),
            p(&output),
            p(&keys),
            p(&capacity),
            p(&count),
            p(&words),
            p(&tiles),
            p(&at),
        ];
        // SAFETY: the arguments are those of the kernels in segmented/run_kernels.cuh; the caller
        // vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, threads, stream, with_last(&arguments, length.is_some())) }
    }
}

/// The arguments of a reduce by segment; carries are in the form of `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentedReduceArguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    pub(crate) n: usize,
    /// The number of items, if it lies in memory; `n` is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// The value before each segment's first item.
    pub(crate) first: Option<C>,
    /// The result of an empty segment.
    pub(crate) empty: Option<C>,
    /// Rows or offsets.
    pub(crate) cut: Cut,
    /// `SegmentedPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
    /// `SegmentedPlan::scratch` bytes.
    pub(crate) scratch: CUdeviceptr,
}

impl<C: Element> SegmentedReduceArguments<C> {
    /// Launches the kernel. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of `load_reduce` for the operator and its element. The plan is for `n`
    ///   elements and the architecture of the kernels.
    /// - The input is `n` elements of device memory, the output one for each segment, and `cut` has
    ///   as many. Addresses of words and scratch memory are multiples of 16. All are disjoint and
    ///   valid until the stream is past the call, and nothing else uses words and scratch memory
    ///   meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(&self, plan: &SegmentedPlan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        let SegmentedReduceArguments { input, output, n, length, first, empty, cut, words, scratch } = *self;
        let SegmentedPlan { kernel, threads, blocks, each, more, .. } = *plan;
        let short_blocks = cut.short_blocks(n, plan.short).filter(|_| length.is_none());
        let each_grid = cut.each_grid(n, plan.element);
        let cut = cut.contract(n);
        let (init, has_init) = (first.unwrap_or_else(C::zeroed), u32::from(first.is_some()));
        let empty = empty.unwrap_or_else(C::zeroed);
        let (n, at) = (n as u64, length.unwrap_or(0));
        if let Some(EachGrid { blocks, warps, shares }) = each_grid {
            let arguments = [
                p(&input),
                p(&n),
                p(&shares),
                p(&init),
                p(&has_init),
                p(&empty),
                p(&cut),
                p(&output),
                p(&words),
                p(&scratch),
                p(&at),
            ];
            // SAFETY: the arguments are those of the kernel in segmented/reduce_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe {
                kernels.launch(EACH_REDUCE, blocks, warps * 32, stream, with_last(&arguments, length.is_some()))
            };
        }
        if let Some(blocks) = short_blocks {
            let arguments = [p(&input), p(&n), p(&init), p(&has_init), p(&empty), p(&cut), p(&output)];
            // SAFETY: the arguments are those of the kernel in segmented/reduce_kernels.cuh; the caller
            // vouches for the rest.
            return unsafe { kernels.launch(SHORT_REDUCE, blocks, SHORT_INPUT_THREADS, stream, &arguments) };
        }
        let arguments = [
            p(&input),
            p(&n),
            p(&each),
            p(&more),
            p(&init),
            p(&has_init),
            p(&empty),
            p(&cut),
            p(&output),
            p(&words),
            p(&scratch),
            p(&at),
        ];
        // SAFETY: the arguments are those of the kernels in segmented/reduce_kernels.cuh; the
        // caller vouches for the rest.
        unsafe { kernels.launch(kernel, blocks, threads, stream, with_last(&arguments, length.is_some())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::unit::of_any_kind;
    use crate::operators::{Compose, Matrix, Transitions};
    use crate::{Last, Max, Sum};

    #[test]
    fn every_kernel_compiles() {
        let mut texts = Vec::new();
        macro_rules! collect {
            ($($op:ty, $t:ty;)*) => { $(
                let unit = unit_of::<$op, $t>();
                for source in [segmented_scan_source, segmented_reduce_source, run_reduce_source].map(|text| text(&unit)) {
                    // Each for one architecture and one kind, with or without a length in memory.
                    let k = texts.len();
                    let source = of_kind((k % KINDS) as u32, &source);
                    let source = if k % 4 == 3 { with_length(&source) } else { source };
                    texts.push(([75, 90][k % 2], stringify!($op on $t).to_owned(), source));
                }
            )* };
        }
        collect! {
            Sum, u8; Max, i16; Sum, half::f16; Sum, f32; Sum, f64; Last, u64;
            Compose, Matrix<u64>; Compose, Transitions; crate::operators::ArgMax, crate::operators::Indexed<f32, u32>;
        }
        library::compile_all(texts);
    }

    /// The plan of a reduction counts the slices that its kernels have.
    #[test]
    fn slices_of_a_reduction() {
        fn check<T: Element>(vectors: usize)
        where
            Sum: Operator<T>,
        {
            let n = 1 << 26;
            let plan = SegmentedPlan::reduce::<Sum, T>(n, 90);
            let slices = n.div_ceil(32 * vectors * 16 / size_of::<T>()) as u64;
            let warps = u64::from(plan.blocks * plan.threads / 32);
            assert_eq!((plan.kernel, plan.each * warps + u64::from(plan.more)), (1, slices));
            let text = segmented_reduce_source(&unit_of::<Sum, T>());
            assert!(text.contains(&format!("KERNEL(1, 4, {vectors})")), "{text}");
        }
        check::<u8>(11);
        check::<half::f16>(13);
        check::<f32>(9);
        check::<f64>(13);
    }

    /// A key is compared as a word if its type is aligned as one.
    #[test]
    fn kinds_of_keys() {
        let kind = |size, align| Cut::Keys { address: 0, size, align }.kind();
        assert_eq!([kind(1, 1), kind(2, 2), kind(4, 4), kind(8, 8)], [5, 6, 7, 8]);
        assert_eq!([kind(2, 1), kind(4, 2), kind(8, 4), kind(3, 1), kind(16, 16)], [contract::KEYS_AS_BYTES; 5]);
    }

    /// The name of a program is that of its cut's kind.
    #[test]
    fn names_of_kinds() {
        let offsets = |wide| Cut::Offsets { address: 0, segments: 1, wide };
        let keys = |size| Cut::Keys { address: 0, size, align: size };
        let (heads, bits) = (Cut::Heads { address: 0 }, Cut::HeadBits { address: 0 });
        let cuts = [Cut::Rows { columns: 1 }, offsets(false), offsets(true), heads, bits];
        let names = cuts.into_iter().chain([1, 2, 4, 8, 3].map(keys)).map(|cut| SCANS[0][cut.kind() as usize]);
        let expected = [
            "of rows",
            "by u32 offsets",
            "by u64 offsets",
            "by flags",
            "by bits",
            "by u8 keys",
            "by u16 keys",
            "by u32 keys",
            "by u64 keys",
            "by keys",
        ];
        assert!(names.eq(expected.map(|kind| format!("segmented scan {kind}"))));
    }

    /// The text of each kind ends with that of the catalog, whose kernels serve every kind.
    #[test]
    fn the_catalog_is_built_in() {
        fn check<Op: Operator<T>, T: Element>(expected: bool) {
            let unit = unit_of::<Op, T>();
            for (key, source) in [
                (segmented_scan_key(&unit), segmented_scan_source(&unit)),
                (segmented_reduce_key(&unit), segmented_reduce_source(&unit)),
                (run_reduce_key(&unit), run_reduce_source(&unit)),
            ] {
                assert_eq!(library::is_built_in(key, &source), expected);
                assert_eq!(of_any_kind(&of_kind(contract::BITS, &source)), source);
                assert_ne!(of_any_kind(&with_length(&source)), source);
            }
        }
        check::<Sum, i32>(true);
        check::<Sum, half::f16>(true);
        check::<Max, f32>(true);
        check::<Last, u64>(true);
        check::<Compose, Transitions>(false);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let unit = unit_of::<Sum, f32>();
        for text in [str::to_owned, with_length] {
            let text = |source: String| text(&of_kind(contract::OFFSETS_32, &source));
            library::parts_have_a_kernel_each(&text(segmented_scan_source(&unit)), &SCAN_KERNELS);
            library::parts_have_a_kernel_each(&text(segmented_reduce_source(&unit)), &REDUCE_KERNELS);
            library::parts_have_a_kernel_each(&text(run_reduce_source(&unit)), &RUN_KERNELS);
        }
    }
}
