//! Scan on the device: the programs and the launches. `plan` chooses the kernel, the tiles and the
//! scratch memory.

use super::arguments::Arguments;
use super::kernels::{Kernels, opt, p, present};
use super::library::{self, Caller, Program};
use super::tuning::RANGES;
use super::unit::{Type, with_length};
use crate::{Block, Element, Error, Network, Operator, Strategy};
use bytemuck::Zeroable;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;

pub(crate) mod contract;
mod plan;
pub(crate) mod tuning;
pub(crate) mod unit;
mod work;
use contract::INIT;
pub(crate) use plan::Plan;
use plan::{level_bytes, levels};
use tuning::{TEXTBOOK_WIDTH, textbook_run};
use unit::Unit;

/// The join of tiles.
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
    /// A name that no other program has.
    name: &'static str,
    template: &'static str,
    kernels: &'static [&'static str],
    join: Join,
    textbook: Option<Textbook>,
    /// Whether the kernels read the number of items from memory.
    is_counted: bool,
}

/// A textbook's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Textbook {
    network: Network,
    coarsened: bool,
}

impl Textbook {
    /// Items a tile.
    const fn tile(self, size: usize) -> usize {
        TEXTBOOK_WIDTH * if self.coarsened { textbook_run(size) } else { 1 }
    }

    /// The program with this join of tiles.
    fn program(self, join: Join) -> ScanProgram {
        let Textbook { network, coarsened } = self;
        // The C++ text of network, form and join. Together they name the program.
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
        ScanProgram { name, template, kernels, join, textbook: Some(self), is_counted: false }
    }
}

/// A program of the library's own blocks.
const fn program(template: &'static str, kernels: &'static [&'static str], join: Join) -> ScanProgram {
    ScanProgram { name: template, template, kernels, join, textbook: None, is_counted: false }
}

/// A kernel for each range of lengths.
pub(crate) const KERNELS: &[&str] = &["scan_0", "scan_1", "scan_2"];
const BUILT_IN: ScanProgram = program("scan/kernels.cuh", KERNELS, Join::PrefixServer);
const _: () = assert!(KERNELS.len() == RANGES);

const COUNTED: ScanProgram = ScanProgram { name: "scan of a length in memory", is_counted: true, ..BUILT_IN };

const LOOK_BACK: ScanProgram = program("scan/look_back.cuh", &["scan_look_back"], Join::LookBack);
const CHAINED: ScanProgram = program("scan/chained.cuh", &["scan_chained"], Join::Chained);

const HIERARCHICAL_KERNELS: &[&str] = &["aggregate_elements", "aggregate_carries", "scan_elements", "scan_carries"];
const HIERARCHICAL: ScanProgram = program("scan/hierarchical.cuh", HIERARCHICAL_KERNELS, Join::Hierarchical);
/// The kernels in the order of `HIERARCHICAL_KERNELS`. The first two run a tile's block up to the
/// join, the last two from the join on.
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

    /// The program that reads the number of items from memory.
    ///
    /// # Errors
    /// [`Error::Strategy`] for a strategy that has none.
    pub(crate) fn counted(strategy: Strategy) -> Result<ScanProgram, Error> {
        match ScanProgram::of(strategy) {
            BUILT_IN => Ok(COUNTED),
            _ => Err(Error::Strategy { primitive: "scan", strategy: format!("{strategy:?}, a length in memory") }),
        }
    }

    /// The number of carries that the tiles of a hierarchical scan keep. `level` tiles have an
    /// aggregate.
    fn kept(self, level: usize) -> usize {
        // A textbook tile keeps one carry a thread, also the last tile, which has no aggregate. The
        // library's own tiles keep none: they scan their items again.
        self.textbook.map_or(0, |_| (level + 1) * TEXTBOOK_WIDTH)
    }

    /// The text of the unit with its kernels.
    fn source(self, unit: &Unit) -> String {
        if self.is_counted {
            return with_length(&unit.source(self.template));
        }
        if self.textbook.is_none() {
            return unit.source(self.template);
        }
        let mut parts = self.name.split("; ");
        let mut part = || parts.next().expect("as in `Textbook::program`");
        unit.textbook(part(), part(), part(), self.template)
    }
}

/// The kernels of `program`. Loads them unless they are loaded.
pub(crate) fn load<Op: Operator<T>, T: Element>(
    program: ScanProgram,
    caller: &dyn Caller,
) -> Result<&'static Kernels, Error> {
    library::load(TypeId::of::<(Op, T)>(), program.name, caller, program.kernels, &|| {
        let name = format!("scan::<{}, {}>", type_name::<Op>(), type_name::<T>());
        let built_in = const { library::built_in(unit_of::<Op, T>().key()) }.filter(|_| !program.is_counted);
        Program { name, source: program.source(&unit_of::<Op, T>()), built_in }
    })
}

/// The unit of the operator and the element, with their types in the kernels.
pub(crate) const fn unit_of<Op: Operator<T>, T: Element>() -> Unit<'static> {
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

impl<C: Zeroable + Copy> Arguments<C> {
    /// Launches the scan. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are of the plan's strategy, for the operator and its element. The plan is for
    ///   `n` elements and the architecture of the kernels.
    /// - Input and output are `n` elements of device memory, equal or disjoint. The addresses of
    ///   words and scratch memory are multiples of 16. All are valid until the stream is past the
    ///   scan, and nothing else uses words and scratch memory until then.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch_scan(&self, plan: &Plan, kernels: &Kernels, stream: CUstream) -> Result<(), Error> {
        let Arguments { input, output, n, length, first, words, scratch, .. } = *self;
        let (n, init) = (n as u64, first.unwrap_or_else(C::zeroed));
        // A scan of aggregates is inclusive, and forward.
        let (own, forward) = (self.flags() | plan.flags, self.flags() & INIT);
        let tiles = plan.tiles as u32;
        // SAFETY (of all launches): the arguments are those of the plan's template. Hierarchical
        // scans have one list of arguments, all others another. The caller vouches for the rest.
        let launch = |kernel: usize, blocks: usize, arguments: &[*const c_void]| unsafe {
            let of_carries =
                plan.program.join == Join::Hierarchical && matches!(kernel, AGGREGATE_CARRIES | SCAN_CARRIES);
            let threads = if of_carries { plan.threads_of_carries } else { plan.threads };
            kernels.launch(kernel, blocks as u32, threads, stream, arguments)
        };
        if plan.program.join != Join::Hierarchical {
            let server = plan.program.join == Join::PrefixServer && tiles > 1;
            let arguments = [p(&input), p(&output), p(&n), p(&init), p(&own), p(&words), p(&tiles), opt(&length)];
            let arguments = present(&arguments);
            let mut blocks = plan.tiles as u32 + u32::from(server);
            if length.is_some() {
                blocks = kernels.resident(plan.kernel, blocks, plan.threads)?;
            }
            if plan.program == BUILT_IN {
                // SAFETY: as of all launches; the kernel waits for the launch before, before it reads anything.
                return unsafe { kernels.launch_dependent(plan.kernel, blocks, plan.threads, 0, stream, arguments) };
            }
            return launch(plan.kernel, blocks as usize, arguments);
        }

        // ---- hierarchical, upwards: aggregates of aggregates
        let launch = |kernel: usize, blocks: usize, arguments: &[*const c_void]| {
            // The library's own tiles keep no carries, so their kernels lack the last argument.
            let kept = usize::from(plan.program.textbook.is_none());
            launch(kernel, blocks, &arguments[..arguments.len() - kept])
        };
        let carries = plan.tile_of_carries;
        let levels = levels(plan.tiles, carries);
        // Each level has the aggregates, and the carries that its tiles keep.
        let mut arrays: Vec<[CUdeviceptr; 2]> = Vec::new();
        let mut next = scratch;
        for (level, &length) in levels.iter().enumerate() {
            let kept = next + level_bytes(length, size_of::<C>()) as u64;
            arrays.push([next, kept]);
            next = kept + level_bytes(plan.program.kept(length), size_of::<C>()) as u64;
            // No tile follows the last one, so it has no aggregate. A textbook's block keeps
            // carries of it.
            let tiles = if plan.program.textbook.is_some() { length + 1 } else { length };
            let [aggregates, kept] = &arrays[level];
            if level == 0 {
                launch(AGGREGATE_ELEMENTS, tiles, &[p(&input), p(&n), p(&own), p(aggregates), p(kept)])?;
            } else {
                let below = levels[level - 1] as u64;
                let array = &arrays[level - 1][0];
                launch(AGGREGATE_CARRIES, tiles, &[p(array), p(&below), p(&forward), p(aggregates), p(kept)])?;
            }
        }
        // ---- downwards: every array becomes its inclusive scan, from the prefixes of the level
        // above
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::unit::UnitKey;
    use std::collections::BTreeMap;

    /// The units of every template for the catalog, with the first operator and element of each
    /// text.
    fn all() -> Vec<(String, UnitKey, String)> {
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
                    let unit = unit_of::<crate::$op, $t>();
                    all.entry(unit.source(program.template)).or_insert((name, unit.key()));
                }
            )* )* )* };
        }
        use half::{bf16, f16};
        catalog!(collect);
        all.into_iter().map(|(source, (name, key))| (name, key, source)).collect()
    }

    /// Every block of the textbook.
    fn textbook_blocks() -> Vec<Block> {
        Network::ALL
            .into_iter()
            .flat_map(|network| [Block::Plain(network), Block::Shifted(network), Block::Coarsened(network)])
            .collect()
    }

    /// Every join of tiles.
    fn strategies(block: Block) -> [Strategy; 4] {
        [
            Strategy::Hierarchical(block),
            Strategy::Chained(block),
            Strategy::LookBack(block),
            Strategy::PrefixServer(block),
        ]
    }

    /// The bounds hold across the ends of the ranges too, where larger tiles need fewer words.
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

    /// build.rs and the library write the same texts; otherwise the library would find no image.
    #[test]
    fn the_catalog_is_built_in() {
        let missing: Vec<String> = all()
            .into_iter()
            .filter(|(name, key, source)| name.ends_with(BUILT_IN.template) && !library::is_built_in(*key, source))
            .map(|(name, ..)| name)
            .collect();
        assert_eq!(missing, [""; 0]);
    }

    /// The test compiles for each architecture, since only the assembler finds some errors, and PTX
    /// skips it.
    #[test]
    fn every_kernel_compiles() {
        // The build, or another test, compiles the embedded units.
        let architecture = |name: &str| if name.ends_with(BUILT_IN.template) { 75 } else { 90 };
        // Every third: the same texts around other operators and elements.
        let all = all().into_iter().step_by(3).map(|(name, _, source)| (architecture(&name), name, source)).collect();
        library::compile_all(all);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let textbook = ScanProgram::of(Strategy::Hierarchical(Block::Plain(Network::Sklansky)));
        for program in [BUILT_IN, COUNTED, HIERARCHICAL, textbook] {
            let source = program.source(&unit_of::<crate::Sum, half::f16>());
            library::parts_have_a_kernel_each(&source, program.kernels);
        }
    }

    /// The test compiles a few units of each program. The others are the same text around other
    /// operators and elements.
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
            // The largest elements, which take the most shared memory.
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
            // The oldest architecture, and the newest.
            let mut all = vec![named(&small[k % 4], 75, program), named(&small[(k + 2) % 4], 90, program)];
            all.extend(program.textbook.filter(|textbook| textbook.coarsened).map(|_| named(largest, 75, program)));
            all
        });
        library::compile_all(all.collect());
    }
}
