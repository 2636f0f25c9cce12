//! Scan on the device: which kernels, how much scratch memory, the launches.

use super::library::{self, Kernels, Program};
use super::tuning::{
    LOOK_BACK_GROUP, RANGES, Range, Shape, TEXTBOOK_SPREAD, TEXTBOOK_WIDTH, TUNING, architectures, carry_shape, fitted,
    textbook_run,
};
use super::unit::{Type, Unit};
use crate::{Block, Element, Error, Network, Operator, Strategy, Work};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;

/// As in `scan/scan.cuh`.
const EXCLUSIVE: u32 = 1;
const REVERSE: u32 = 2;
const INIT: u32 = 4;
/// As in `textbook/textbook.cuh`.
const SHIFTED: u32 = 8;

/// How tiles are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    PrefixServer,
    LookBack,
    Chained,
    Hierarchical,
}

/// A program of scan: a template, and the kernels that it defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanProgram {
    /// No other program has it.
    name: &'static str,
    template: &'static str,
    kernels: &'static [&'static str],
    join: Join,
    textbook: Option<Textbook>,
}

/// A textbook's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Textbook {
    network: Network,
    coarsened: bool,
}

impl Textbook {
    /// Items of a tile.
    const fn tile(self, size: usize) -> usize {
        TEXTBOOK_WIDTH * if self.coarsened { textbook_run(size) } else { 1 }
    }

    /// The program that joins its tiles so.
    fn program(self, join: Join) -> ScanProgram {
        let Textbook { network, coarsened } = self;
        // The C++ of network, form and join, which together are the program's name.
        macro_rules! name {
            ($join:literal) => {
                name!($join; KoggeStone KoggeStoneDoubleBuffered BrentKung Sklansky WarpShuffles)
            };
            ($join:literal; $($network:ident)*) => {
                match network { $(
                    Network::$network if coarsened => concat!(stringify!($network), "; Coarsened; ", $join),
                    Network::$network => concat!(stringify!($network), "; Plain; ", $join),
                )* }
            };
        }
        let name = match join {
            Join::PrefixServer => name!("PrefixServer<Operator, WIDTH / WARP, SPREAD>"),
            Join::LookBack => name!("LookBack<Operator, LOOK_BACK_GROUP>"),
            Join::Chained => name!("Chained<Operator>"),
            Join::Hierarchical => name!("GivenPrefixes<Operator>"),
        };
        let (template, kernels): (_, &[&str]) = match join {
            Join::Hierarchical => ("textbook/hierarchical.cuh", TEXTBOOK_HIERARCHICAL_KERNELS),
            _ => ("textbook/kernels.cuh", &["scan_textbook"]),
        };
        ScanProgram { name, template, kernels, join, textbook: Some(self) }
    }
}

/// A program of the library's own blocks.
const fn program(template: &'static str, kernels: &'static [&'static str], join: Join) -> ScanProgram {
    ScanProgram { name: template, template, kernels, join, textbook: None }
}

/// A kernel for each range of lengths.
const BUILT_IN: ScanProgram = program("scan/kernels.cuh", &["scan_0", "scan_1", "scan_2"], Join::PrefixServer);
const _: () = assert!(BUILT_IN.kernels.len() == RANGES);

const LOOK_BACK: ScanProgram = program("scan/look_back.cuh", &["scan_look_back"], Join::LookBack);
const CHAINED: ScanProgram = program("scan/chained.cuh", &["scan_chained"], Join::Chained);

const HIERARCHICAL_KERNELS: &[&str] = &["aggregate_elements", "aggregate_carries", "scan_elements", "scan_carries"];
const HIERARCHICAL: ScanProgram = program("scan/hierarchical.cuh", HIERARCHICAL_KERNELS, Join::Hierarchical);
/// In the same order: each up to the join of tiles, and from there on.
const TEXTBOOK_HIERARCHICAL_KERNELS: &[&str] =
    &["begin_elements", "begin_carries", "finish_elements", "finish_carries"];
const AGGREGATE_ELEMENTS: usize = 0;
const AGGREGATE_CARRIES: usize = 1;
const SCAN_ELEMENTS: usize = 2;
const SCAN_CARRIES: usize = 3;

impl ScanProgram {
    /// The program of a strategy.
    pub(crate) fn of(strategy: Strategy) -> ScanProgram {
        let (join, own) = match strategy {
            Strategy::Auto | Strategy::PrefixServer(_) => (Join::PrefixServer, BUILT_IN),
            Strategy::LookBack(_) => (Join::LookBack, LOOK_BACK),
            Strategy::Chained(_) => (Join::Chained, CHAINED),
            Strategy::Hierarchical(_) => (Join::Hierarchical, HIERARCHICAL),
        };
        let (network, coarsened) = match strategy.block() {
            Block::WarpShuffles => return own,
            Block::Plain(network) | Block::Shifted(network) => (network, false),
            Block::Coarsened(network) => (network, true),
        };
        Textbook { network, coarsened }.program(join)
    }

    /// How many carries the tiles keep between two kernels of a hierarchical scan, where `level` of them have an aggregate.
    fn kept(self, level: usize) -> usize {
        // The last tile has none. A textbook's keep one of each thread, the library's own scan their items again.
        self.textbook.map_or(0, |_| (level + 1) * TEXTBOOK_WIDTH)
    }

    /// The text of the unit with its kernels.
    fn source(self, unit: &Unit) -> String {
        if self.textbook.is_none() {
            return unit.source(self.template);
        }
        let mut parts = self.name.split("; ");
        let mut part = || parts.next().expect("as in `Textbook::program`");
        unit.textbook(part(), part(), part(), self.template)
    }
}

/// How a scan of n elements will be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    program: ScanProgram,
    /// The kernel; for the hierarchical scan the last of its kernels.
    kernel: usize,
    threads: u32,
    tiles: usize,
    /// `SHIFTED` or nothing.
    flags: u32,
    /// Carries of a tile, where they are scanned themselves.
    tile_of_carries: usize,
    threads_of_carries: u32,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of plain scratch memory.
    pub(crate) scratch: usize,
}

/// Bytes of a status word (`Status` in `core/handover.cuh`): 64 bits for each 32 of the carry.
const fn status(carry: usize) -> usize {
    carry.div_ceil(4) * 8
}

impl Plan {
    /// With the kernels of `architecture` (see [`Kernels::architecture`]).
    ///
    /// # Errors
    /// [`Error::TooLong`] for more tiles than a grid has blocks, [`Error::ElementSize`] for elements that no kernel takes.
    pub(crate) fn new<Op: Operator<T>, T: Element>(
        strategy: Strategy,
        n: usize,
        architecture: u32,
    ) -> Result<Plan, Error> {
        Plan::check::<Op, T>(strategy)?;
        let element = size_of::<T>();
        let ranges = fitted(TUNING, architecture, element);
        let bytes = n.saturating_mul(element);
        let range =
            ranges.iter().position(|range| bytes <= range.bytes).expect("the last one is for all that are longer");
        let carries = carry_shape(TUNING, architecture, element, size_of::<Op::Carry>());
        Plan::in_range::<Op, T>(strategy, n, &ranges, range, carries)
    }

    /// With memory enough for `n` elements or fewer: a shorter input may take smaller tiles, and more of them.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn up_to<Op: Operator<T>, T: Element>(
        strategy: Strategy,
        n: usize,
        architecture: u32,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::new::<Op, T>(strategy, n, architecture)?;
        for range in fitted(TUNING, architecture, size_of::<T>()) {
            let shorter = Plan::new::<Op, T>(strategy, n.min(range.bytes / size_of::<T>()), architecture)?;
            plan.words = plan.words.max(shorter.words);
            plan.scratch = plan.scratch.max(shorter.scratch);
        }
        Ok(plan)
    }

    /// Bytes of words and scratch memory that are enough for `n` elements or fewer, whatever the architecture.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn bytes_anywhere<Op: Operator<T>, T: Element>(strategy: Strategy, n: usize) -> Result<usize, Error> {
        let mut most = 0;
        for architecture in architectures(TUNING) {
            most = most.max(Plan::up_to::<Op, T>(strategy, n, architecture)?.bytes());
        }
        Ok(most)
    }

    /// Bytes of words and scratch memory; one of them is zero.
    pub(crate) fn bytes(&self) -> usize {
        self.words + self.scratch
    }

    /// Whether kernels take the element.
    ///
    /// # Errors
    /// [`Error::ElementSize`].
    pub(crate) fn check<Op: Operator<T>, T: Element>(strategy: Strategy) -> Result<(), Error> {
        let (element, carry) = (size_of::<T>(), size_of::<Op::Carry>());
        let program = ScanProgram::of(strategy);
        let is_textbook = program.textbook.is_some();
        let both = program.join == Join::Hierarchical || is_textbook;
        let staged = if both { [element, carry] } else { [element; 2] };
        let fits = |size: usize| (1..=32).contains(&size) && (!is_textbook || 16 % size == 0);
        match staged.into_iter().find(|&size| !fits(size)) {
            Some(size) => Err(Error::ElementSize { primitive: "scan", size }),
            None => Ok(()),
        }
    }

    fn in_range<Op: Operator<T>, T: Element>(
        strategy: Strategy,
        n: usize,
        ranges: &[Range; RANGES],
        range: usize,
        carries: Shape,
    ) -> Result<Plan, Error> {
        let (element, carry) = (size_of::<T>(), size_of::<Op::Carry>());
        let program = ScanProgram::of(strategy);
        let (kernel, threads, tile, [threads_of_carries, tile_of_carries], spread) = match program.textbook {
            Some(textbook) => {
                let kernel = if program.join == Join::Hierarchical { SCAN_ELEMENTS } else { 0 };
                let carries = [TEXTBOOK_WIDTH, textbook.tile(carry)];
                (kernel, TEXTBOOK_WIDTH, textbook.tile(element), carries, TEXTBOOK_SPREAD)
            }
            None => {
                let (kernel, shape) = match program.join {
                    Join::LookBack | Join::Chained => (0, ranges[RANGES - 1].shape),
                    Join::Hierarchical => (SCAN_ELEMENTS, ranges[0].shape),
                    Join::PrefixServer => (range, ranges[range].shape),
                };
                let carries = [carries.threads(), carries.tile(carry)];
                (kernel, shape.threads(), shape.tile(element), carries, ranges[range].spread)
            }
        };
        let tiles = n.div_ceil(tile);
        const MOST_BLOCKS: usize = i32::MAX as usize;
        if tiles >= MOST_BLOCKS {
            return Err(Error::TooLong { primitive: "scan", n, most: (MOST_BLOCKS - 1) * tile });
        }
        let groups = tiles.div_ceil(LOOK_BACK_GROUP);
        let (words, scratch) = match program.join {
            _ if tiles <= 1 => (0, 0),
            Join::PrefixServer => (16 + tiles * (status(carry) + status(carry).max(spread)), 0),
            Join::LookBack => (16 + groups.next_multiple_of(4) * 4 + (groups + tiles) * status(carry), 0),
            Join::Chained => (16 + tiles * status(carry), 0),
            Join::Hierarchical => {
                let bytes = |level: usize| level_bytes(level, carry) + level_bytes(program.kept(level), carry);
                (0, levels(tiles, tile_of_carries).into_iter().map(bytes).sum())
            }
        };
        let shifted = matches!(strategy.block(), Block::Shifted(_));
        let flags = if shifted { SHIFTED } else { 0 };
        let (threads, threads_of_carries) = (threads as u32, threads_of_carries as u32);
        Ok(Plan { program, kernel, threads, tiles, flags, tile_of_carries, threads_of_carries, words, scratch })
    }
}

// ---- what it costs ---------------------------------------------------------------------------------------------------------------

impl Textbook {
    /// Applications and barriers of a tile's block that has a prefix or none, without those of joining tiles. `kernels`: one, or
    /// two with the join between them.
    fn scan(self, size: usize, exclusive: bool, shifted: bool, prefix: bool, kernels: u64) -> [u64; 2] {
        let Textbook { network, coarsened } = self;
        let (width, run) = (TEXTBOOK_WIDTH, self.tile(size) / TEXTBOOK_WIDTH);
        let mut applications = if prefix { network.applications_from(width) } else { network.applications(width) };
        let mut barriers = network.barriers(width) + if kernels == 1 { 1 } else { usize::from(coarsened) };
        if coarsened {
            barriers += 3;
            // Each run twice: its total, and from what is before it on all but the last item.
            applications += 2 * width * (run - 1) - usize::from(!prefix);
        } else if exclusive && shifted {
            // The first thread has nothing, and takes the prefix as it is; one more item goes into the aggregate.
            network.each(width, |_, left, _| applications -= usize::from(left == 0));
            applications -= usize::from(prefix);
            applications += 1;
        } else if exclusive {
            barriers += 1;
        }
        [applications as u64, barriers as u64]
    }
}

/// Applications of `LookBack::receive` by tile `tile` of `tiles`; `init`: whether the first one has a prefix.
fn look_back_of(tile: usize, tiles: usize, init: bool) -> u64 {
    let (group, rank) = (tile / LOOK_BACK_GROUP, tile % LOOK_BACK_GROUP);
    let each = LOOK_BACK_GROUP / 32;
    let lanes = rank.div_ceil(each);
    // Each lane folds its part, and lanes are folded, as in Kogge and Stone's network.
    let before = rank - lanes + Network::KoggeStone.applications(lanes);
    let closes = rank == LOOK_BACK_GROUP - 1;
    let prefix = init || group > 0;
    let own = usize::from(rank > 0 && prefix);
    let handed_on = usize::from(closes) + usize::from(closes && tile + 1 < tiles && prefix);
    (before + own + handed_on) as u64
}

/// Those of all tiles.
fn look_back(tiles: usize, init: bool) -> u64 {
    let group = |group: usize| {
        let first = group * LOOK_BACK_GROUP;
        (first..tiles.min(first + LOOK_BACK_GROUP)).map(|tile| look_back_of(tile, tiles, init)).sum::<u64>()
    };
    // Groups between the first and the last do the same.
    match tiles.div_ceil(LOOK_BACK_GROUP) {
        0 | 1 => group(0),
        groups => group(0) + (groups as u64 - 2) * group(1) + group(groups - 1),
    }
}

impl Plan {
    /// What [`Scan::work`](crate::Scan::work) gives, for the plan's own `n`.
    pub(crate) fn work<Op: Operator<T>, T: Element>(&self, n: usize, exclusive: bool, init: bool) -> Option<Work> {
        let textbook = self.program.textbook?;
        let (element, carry, tiles) = (size_of::<T>(), size_of::<Op::Carry>(), self.tiles);
        let mut work = Work::default();
        if n == 0 {
            return Some(work);
        }
        let is_hierarchical = self.program.join == Join::Hierarchical;
        let scan = |work: &mut Work, length: usize, size: usize, tiles: usize, exclusive: bool, shifted: bool| {
            let kernels = if is_hierarchical && tiles > 1 { 2 } else { 1 };
            for (prefix, tiles) in [(init, 1), (true, tiles as u64 - 1)] {
                let [applications, barriers] = textbook.scan(size, exclusive, shifted, prefix, kernels);
                work.applications += applications * tiles;
                work.barriers += barriers * tiles;
            }
            work.launches += kernels;
            work.read += (length * size) as u64;
            work.written += (length * size) as u64;
            if kernels == 2 {
                // Prefixes, and what threads keep; runs are scanned again.
                let between = ((tiles - 1 + self.program.kept(tiles - 1)) * carry) as u64;
                work.read += between + if textbook.coarsened { (length * size) as u64 } else { 0 };
                work.written += between;
            }
        };
        scan(&mut work, n, element, tiles, exclusive, self.flags & SHIFTED != 0);
        if tiles == 1 {
            return Some(work);
        }
        let of_joining = match self.program.join {
            Join::PrefixServer => return None,
            Join::Chained => tiles as u64 - 1 - u64::from(!init),
            Join::LookBack => look_back(tiles, init),
            Join::Hierarchical => {
                for length in levels(tiles, self.tile_of_carries) {
                    scan(&mut work, length, carry, length.div_ceil(self.tile_of_carries), false, false);
                }
                return Some(work);
            }
        };
        work.applications += of_joining;
        work.barriers += tiles as u64; // where they draw tickets
        Some(work)
    }
}

/// The lengths of the arrays of aggregates of a hierarchical scan: of `tiles` tiles, and of tiles of those, until one
/// block can scan what is left. No tile comes after the last one, so its aggregate is left out.
fn levels(tiles: usize, tile_of_carries: usize) -> Vec<usize> {
    let mut levels = Vec::new();
    let mut above = tiles;
    while above > 1 {
        levels.push(above - 1);
        above = (above - 1).div_ceil(tile_of_carries);
    }
    levels
}

/// Bytes of such an array, so that the next one is aligned.
fn level_bytes(length: usize, carry: usize) -> usize {
    (length * carry).next_multiple_of(16)
}

/// The kernels of `program`, if they are loaded.
pub(crate) fn loaded<Op: Operator<T>, T: Element>(program: ScanProgram, device: usize) -> Option<&'static Kernels> {
    library::loaded(TypeId::of::<(Op, T)>(), program.name, device)
}

/// The kernels of `program` for the device, whose context is current; loaded now if they are not.
pub(crate) fn load<Op: Operator<T>, T: Element>(
    program: ScanProgram,
    device: usize,
) -> Result<&'static Kernels, Error> {
    library::load(TypeId::of::<(Op, T)>(), program.name, device, program.kernels, || {
        let name = format!("scan::<{}, {}>", type_name::<Op>(), type_name::<T>());
        Program { name, source: program.source(&unit_of::<Op, T>()) }
    })
}

/// What kernels see of the operator and the element.
pub(crate) fn unit_of<Op: Operator<T>, T: Element>() -> Unit<'static> {
    Unit {
        element: Type::of::<T>(Op::CUDA_ELEMENT.text()),
        carry: Type::of::<Op::Carry>(Op::CUDA_CARRY.text()),
        lift: Op::CUDA_LIFT.text(),
        alone: Op::CUDA_ALONE.text(),
        combine: Op::CUDA.text(),
        lower: Op::CUDA_LOWER.text(),
        pairs: Op::CUDA_PAIRS.text(),
    }
}

/// The arguments of a scan; `init` as kernels see it (`Operator::to_cuda`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    pub(crate) n: usize,
    pub(crate) init: Option<C>,
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    /// `Plan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
    /// `Plan::scratch` bytes.
    pub(crate) scratch: CUdeviceptr,
}

impl<C: Element> Call<C> {
    /// Launches the scan. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the plan's strategy for the operator and its element, and the plan is for `n` of them and the
    ///   architecture of the kernels.
    /// - Input and output are `n` elements in the memory of the device, the same or apart, valid until the stream is past
    ///   the scan; so are words and scratch, at multiples of 16, which nothing else uses meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(&self, plan: &Plan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        let Call { input, output, init, exclusive, reverse, words, scratch, .. } = *self;
        let n = self.n as u64;
        let flags = |exclusive: bool, reverse: bool| {
            (if exclusive { EXCLUSIVE } else { 0 }) | (if reverse { REVERSE } else { 0 }) | init.map_or(0, |_| INIT)
        };
        let init = init.unwrap_or_else(C::zeroed);
        let own = flags(exclusive, reverse) | plan.flags;
        let tiles = plan.tiles as u32;
        // SAFETY (of all launches): the arguments are those of the kernels in the plan's template, which are the same for all
        // hierarchical scans and for all others; the rest is the caller's.
        let launch = |kernel: usize, blocks: usize, arguments: &[*const c_void]| unsafe {
            let of_carries =
                plan.program.join == Join::Hierarchical && matches!(kernel, AGGREGATE_CARRIES | SCAN_CARRIES);
            let threads = if of_carries { plan.threads_of_carries } else { plan.threads };
            kernels.launch(kernel, blocks as u32, threads, stream, arguments)
        };
        if plan.program.join != Join::Hierarchical {
            let server = plan.program.join == Join::PrefixServer && tiles > 1;
            let arguments = [p(&input), p(&output), p(&n), p(&init), p(&own), p(&words), p(&tiles)];
            return launch(plan.kernel, plan.tiles + usize::from(server), &arguments);
        }

        // ---- hierarchical: up, aggregates of aggregates
        let launch = |kernel: usize, blocks: usize, arguments: &[*const c_void]| {
            let kept = usize::from(plan.program.textbook.is_none()); // the last argument, which the library's own do without
            launch(kernel, blocks, &arguments[..arguments.len() - kept])
        };
        let carries = plan.tile_of_carries;
        let levels = levels(plan.tiles, carries);
        // One for each level: the aggregates, and what the tiles that have them keep.
        let mut arrays: Vec<[CUdeviceptr; 2]> = Vec::new();
        let mut next = scratch;
        for (level, &length) in levels.iter().enumerate() {
            let kept = next + level_bytes(length, size_of::<C>()) as u64;
            arrays.push([next, kept]);
            next = kept + level_bytes(plan.program.kept(length), size_of::<C>()) as u64;
            // No tile comes after the last one: it has no aggregate, but something to keep.
            let tiles = if plan.program.textbook.is_some() { length + 1 } else { length };
            let [aggregates, kept] = &arrays[level];
            if level == 0 {
                launch(AGGREGATE_ELEMENTS, tiles, &[p(&input), p(&n), p(&own), p(aggregates), p(kept)])?;
            } else {
                let (below, forward) = (levels[level - 1] as u64, flags(false, false));
                let array = &arrays[level - 1][0];
                launch(AGGREGATE_CARRIES, tiles, &[p(array), p(&below), p(&forward), p(aggregates), p(kept)])?;
            }
        }
        // ---- down: every array becomes its inclusive scan, from the prefixes of the one above
        let forward = flags(false, false);
        for level in (0..levels.len()).rev() {
            let (array, length) = (arrays[level][0], levels[level] as u64);
            let [above, kept] = arrays.get(level + 1).copied().unwrap_or_default();
            let arguments = [p(&array), p(&array), p(&length), p(&init), p(&forward), p(&above), p(&kept)];
            launch(SCAN_CARRIES, levels[level].div_ceil(carries), &arguments)?;
        }
        let [above, kept] = arrays.first().copied().unwrap_or_default();
        let arguments = [p(&input), p(&output), p(&n), p(&init), p(&own), p(&above), p(&kept)];
        launch(SCAN_ELEMENTS, plan.tiles, &arguments)
    }
}

fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The text of every unit of the catalog with every template of kernels, by the first pair that it serves.
    fn all() -> Vec<(String, String)> {
        let mut all = BTreeMap::new();
        macro_rules! collect {
            (elements $elements:tt operators { $(
                $(#[$doc:meta])* $op:ident { $(
                    $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident,
                        $(identity $identity:expr,)? $(no $no:ident,)?
                        rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
                )* }
            )* }) => { $( $( $(
                for program in [BUILT_IN, LOOK_BACK, CHAINED, HIERARCHICAL] {
                    let name = format!("{}<{}> in {}", stringify!($op), stringify!($t), program.template);
                    all.entry(unit_of::<crate::$op, $t>().source(program.template)).or_insert(name);
                }
            )* )* )* };
        }
        use half::{bf16, f16};
        catalog!(collect);
        all.into_iter().map(|(source, name)| (name, source)).collect()
    }

    /// Every block of the textbook.
    fn textbook_blocks() -> Vec<Block> {
        Network::ALL
            .into_iter()
            .flat_map(|network| [Block::Plain(network), Block::Shifted(network), Block::Coarsened(network)])
            .collect()
    }

    /// Every way of joining tiles.
    fn strategies(block: Block) -> [Strategy; 4] {
        [
            Strategy::Hierarchical(block),
            Strategy::Chained(block),
            Strategy::LookBack(block),
            Strategy::PrefixServer(block),
        ]
    }

    /// Also across the ends of the ranges, where the next kernel's tiles are larger and need fewer words.
    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        use crate::Sum;
        fn check<T: Element>(strategy: Strategy)
        where
            Sum: Operator<T>,
        {
            let lengths = [1, 4 << 20, 32 << 20, 100 << 20].map(|bytes: usize| bytes / size_of::<T>());
            for n in lengths.into_iter().flat_map(|n| [n, n + 1]) {
                let least = Plan::bytes_anywhere::<Sum, T>(strategy, n).unwrap();
                for fewer in lengths.into_iter().flat_map(|n| [n, n + 1]).filter(|&fewer| fewer <= n) {
                    let needed = Plan::new::<Sum, T>(strategy, fewer, 90).unwrap().bytes();
                    assert!(needed <= least, "{strategy:?}: {fewer} need {needed} bytes, {n} have {least}");
                }
            }
        }
        let blocks = textbook_blocks().into_iter().chain([Block::WarpShuffles]);
        for strategy in blocks.flat_map(strategies).chain([Strategy::Auto]) {
            check::<u8>(strategy);
            check::<u32>(strategy);
            check::<u64>(strategy);
        }
    }

    /// What build.rs wrote is what the library asks for: else the images would never be found.
    #[test]
    fn the_catalog_is_built_in() {
        let missing: Vec<String> = all()
            .into_iter()
            .filter(|(name, source)| name.ends_with(BUILT_IN.template) && !library::is_built_in(source))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(missing, [""; 0]);
    }

    /// For every machine that is meant to run them: PTX alone is never seen by the assembler, which refuses more.
    #[test]
    fn every_kernel_compiles() {
        // What is built in is compiled for the others by the build, or by a test of all of it.
        let architecture = |name: &str| if name.ends_with(BUILT_IN.template) { 75 } else { 90 };
        let all = all().into_iter().map(|(name, source)| (architecture(&name), name, source)).collect();
        library::compile_all(all);
    }

    #[test]
    fn parts() {
        let textbook = ScanProgram::of(Strategy::Hierarchical(Block::Plain(Network::Sklansky)));
        for program in [BUILT_IN, HIERARCHICAL, textbook] {
            let source = program.source(&unit_of::<crate::Sum, half::f16>());
            library::parts_have_a_kernel_each(&source, program.kernels);
        }
    }

    /// Each with some units: all of them are the same text around other operators and elements.
    #[test]
    fn every_textbook_combination_compiles() {
        use crate::{Last, Max, Sum};
        use half::f16;
        let pair = Type { cuda: "struct { double a, b; }", size: 16, align: 8, fields: &[] };
        let units = [
            ("Sum<f32>", unit_of::<Sum, f32>()),
            ("Last<u64>", unit_of::<Last, u64>()),
            ("Max<f16>", unit_of::<Max, f16>()),
            ("Sum<u8>", unit_of::<Sum, u8>()),
            // The largest, which take the most shared memory.
            ("pairs of f64", Unit { element: pair, carry: pair, combine: "b", ..unit_of::<Sum, f32>() }),
        ];
        let mut programs: Vec<ScanProgram> = Vec::new();
        for program in textbook_blocks().into_iter().flat_map(strategies).map(ScanProgram::of) {
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
        assert_eq!(programs.len(), 5 * 2 * 4, "a program each, but for what is loaded from one place before");
        let named = |(unit_name, unit): &(&str, Unit), architecture: u32, program: &ScanProgram| {
            (architecture, format!("{unit_name} by {}", program.name), program.source(unit))
        };
        let ([.., largest], small) = (&units, &units[..4]);
        let all = programs.iter().enumerate().flat_map(|(k, program)| {
            let k = k + k / 4;
            // The oldest machine, and the newest.
            let mut all = vec![named(&small[k % 4], 75, program), named(&small[(k + 2) % 4], 90, program)];
            all.extend(program.textbook.filter(|textbook| textbook.coarsened).map(|_| named(largest, 75, program)));
            all
        });
        library::compile_all(all.collect());
    }

    #[test]
    fn groups_that_look_back_do_the_same() {
        for tiles in [1, 2, 127, 128, 129, 255, 256, 257, 384, 385, 1000] {
            for init in [false, true] {
                let each: u64 = (0..tiles).map(|tile| look_back_of(tile, tiles, init)).sum();
                assert_eq!(look_back(tiles, init), each, "{tiles} tiles");
            }
        }
    }

    /// The device counts the same (`tests/device/counts.rs`); here, what the formulas come to.
    #[test]
    fn work_and_traffic() {
        use crate::{Sum, scan};
        const N: usize = 1 << 26;
        let work = |strategy| scan::<Sum, f32>().strategy(strategy).work(N).unwrap();
        for network in Network::ALL {
            for (block, tile) in
                [(Block::Plain(network), TEXTBOOK_WIDTH), (Block::Coarsened(network), TEXTBOOK_WIDTH * textbook_run(4))]
            {
                let tiles = N.div_ceil(tile) as u64;
                let [chained, look_back, hierarchical] =
                    [Strategy::Chained(block), Strategy::LookBack(block), Strategy::Hierarchical(block)].map(work);
                // Each item is read and written once.
                for single in [chained, look_back] {
                    assert_eq!((single.launches, single.read, single.written), (1, 4 * N as u64, 4 * N as u64));
                }
                // Or by two kernels, which in between write and read a carry for each thread; and the second one reads runs again.
                let items = tiles * tile as u64;
                let once = if tile == TEXTBOOK_WIDTH { 2 * N as u64 } else { 3 * N as u64 };
                let least = 4 * (once + 2 * tiles * TEXTBOOK_WIDTH as u64);
                let moved = hierarchical.read + hierarchical.written;
                assert!(moved >= least && moved < least + 40 * tiles, "{block:?}: {moved} for {least}");
                // Two applications an item, and what a block's network and its share of joining tiles come to.
                let a_block = match network {
                    Network::BrentKung => 0,
                    _ if tile == TEXTBOOK_WIDTH => continue,
                    _ => (network.applications(TEXTBOOK_WIDTH) - TEXTBOOK_WIDTH) as u64,
                };
                for (work, joined) in [(chained, 1), (look_back, 256), (hierarchical, 6)] {
                    assert!(work.applications <= 2 * items + tiles * (a_block + joined), "{block:?}: {work:?}");
                }
            }
        }
        assert_eq!(scan::<Sum, f32>().work(N), None, "that is a matter of tuning");
        let block = Block::Plain(Network::BrentKung);
        assert_eq!(scan::<Sum, f32>().strategy(Strategy::PrefixServer(block)).work(N), None, "of timing");
        assert_eq!(scan::<Sum, f32>().strategy(Strategy::LookBack(block)).work(0), Some(Work::default()));
    }
}
