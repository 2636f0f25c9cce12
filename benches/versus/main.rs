//! parascan, CUB, a device-to-device copy and an empty kernel, on the same buffers, in one run, on
//! one stream.
//!
//! `cargo bench --bench versus --features cub -- --FLAG`. Without the feature `cub` only parascan
//! and the copy run.
//!
//! | flag | rows | file |
//! |---|---|---|
//! | none | scan: the main types and sizes | `main.rs` |
//! | `--sweep` | scan: sums of 2^10 to 2^30 elements, every type | `main.rs` |
//! | `--catalog` | scan: every operator on every element, 2^28 | `main.rs` |
//! | `--strategies` | scan: every strategy, 2^20 and 2^28 | `main.rs` |
//! | `--views` | scan: views at odd offsets, and in reverse, 2^28 | `main.rs` |
//! | `--host` | scan: the host's time of a call | `main.rs` |
//! | `--ladder` | scan: the textbook's scans of `f32`, 2^26, the steps over n | `ladder.rs` |
//! | `--traffic` | scan: the same once, for a profiler | `ladder.rs` |
//! | `--custom` | scan: a user's operators, 2^10 elements to 8 GiB, first calls | `custom.rs` |
//! | `--first-use CALL` | the time of one first call: `sum_i32`, `sort_u32`, `affine_f32` or `pairs_12_LOG` | `custom.rs` |
//! | `--shapes` | scan: shapes of the kernel, strategies, the best for each length | `shapes.rs` |
//! | `--reduce` | reduce: sums of `f32`, 2^10 to 2^28, others at 2^28 | `reduce.rs` |
//! | `--length` | lengths in memory: scan, reduce, partition and compaction of `f32`, memory for 2^16 to 2^28 | `length.rs` |
//! | `--length-segments` | the same of scan, reduce and sort by segment, and by column | `length.rs` |
//! | `--segmented` | scan and reduce by segment: sums of `f32`, segments of 1 to 2^28 of 2^28 items | `segmented.rs` |
//! | `--segmented-sweep` | scan and reduce by segment and row: 1 to 2^28 segments of 1 to 2^28 items | `segmented.rs` |
//! | `--segmented-short` | scan and reduce of short inputs: few long segments, random lengths, one of half | `segmented.rs` |
//! | `--segmented-sort` | sort by segment: `u32` keys, pairs and source indices, segments of 16 to 2^20 of 2^26 keys | `segmented_sort.rs` |
//! | `--columns` | scan and reduce by column: sums and maxima of `f32`, 1 to 2^20 columns of 2^26 items | `segmented.rs` |
//! | `--select` | compaction, partition and unique of `u32`, 2^10 to 2^28 | `compact.rs` |
//! | `--fractions` | compaction of `u32`, none to all of 2^28 items selected | `compact.rs` |
//! | `--select-types` | compaction of other types, 2^26 | `compact.rs` |
//! | `--segments` | offsets, pack and expand | `segments.rs` |
//! | `--sort` | sort: random keys and pairs, 2^8 to 2^28 | `sort.rs` |
//! | `--sort-sweep` | sort: every half power of two, 2^8 to 2^26, the first lengths of a longer way, non-random pairs | `sort.rs` |
//! | `--sort-patterns` | sort: keys that are sorted, equal, few values, 2^28 | `sort.rs` |
//! | `--sort-hard` | sort: distributions untuned to, keys that mislead the sample, 2^26 | `sort.rs` |
//! | `--sort-longest` | sort: 2^29 keys and pairs, and 2^30 | `sort.rs` |
//!
//! `--plot FILE FOLDER` draws the rows that `--sweep` printed into FILE; `--plot-ladder FILE
//! FOLDER` draws those of `--ladder`, and `--plot-segmented FILE FOLDER` those of `--segmented-sweep`
//! (`plot.rs`). None needs a GPU.
//!
//! CUB comes from the toolkit of the nvcc that build.rs finds: `PARASCAN_NVCC`, `PATH`,
//! `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`.
//!
//! # The output
//!
//! CSV: `# commit, GPU, CUB version`, then `library,what,type,n,median_us,gb_per_s,of_copy`.
//!
//! - `median_us`: device time between two events around the call, the median of 25 calls (100 if
//!   they are short, 5 if they take more than 20 ms) after 2 or 3 warm-up calls. CUB's temporary memory
//!   and parascan's workspace are allocated beforehand.
//! - `gb_per_s` counts the least bytes that must move: each input read once, each output written
//!   once.
//! - `of_copy` is that rate as a fraction of the copy's in the same run.
//! - Library `copy` with `empty_kernel` or `host_cost` is the launch of an empty kernel.
//! - Suffix `_50`: half of the items are selected, at random.
//!
//! # The checks
//!
//! Every result is compared with CUB's bit for bit, on data whose sums are exact. A plain loop
//! checks inputs of at most 2^20 elements, results that CUB does not have, and every partition,
//! since CUB's writes the rejected items in reverse. Differences go to stderr, and the exit code is
//! 1; the exit code is 2 if nothing could run.

mod bench;
mod compact;
mod cub;
mod custom;
mod data;
mod gpu;
mod ladder;
mod length;
mod plot;
mod reduce;
mod segmented;
mod segmented_sort;
mod segments;
mod shapes;
mod sort;

use bench::{Bench, Case, Verdict};
use data::{Known, Sample};
use gpu::Gpu;
use half::{bf16, f16};
use parascan::{BitAnd, BitOr, BitXor, Block, Last, Max, Min, Product, Strategy, Sum};
use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: versus [FLAG]...
       scan:       --sweep --catalog --strategies --views --host --ladder --traffic --custom --shapes
       reduce:     --reduce
       length:     --length --length-segments
       by segment: --segmented --segmented-sweep --segmented-short --segmented-sort --columns
       compaction: --select --fractions --select-types
       segments:   --segments
       sort:       --sort --sort-sweep --sort-patterns --sort-hard --sort-longest
       versus --first-use sum_i32 | sort_u32 | affine_f32 | pairs_12_LOG
       versus --plot FILE FOLDER
       versus --plot-ladder FILE FOLDER
       versus --plot-segmented FILE FOLDER";

type Mode = fn(&Gpu, &Verdict);
type Draw = fn(&Path, &Path) -> Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    // cargo adds `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [plot, sweep, folder] = &arguments[..]
        && let Some(draw) = match plot.as_str() {
            "--plot" => Some(plot::plot as Draw),
            "--plot-ladder" => Some(plot::ladder as Draw),
            "--plot-segmented" => Some(plot::segmented as Draw),
            _ => None,
        }
    {
        let plotted = draw(sweep.as_ref(), folder.as_ref());
        return plotted.map_or_else(
            |e| {
                eprintln!("versus cannot plot {sweep}: {e}");
                ExitCode::from(2)
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let first_use = match &arguments[..] {
        [flag, call] if flag == custom::FIRST_USE => Some(call.as_str()),
        _ => None,
    };
    let is_watched = arguments == ["--traffic"];
    let mut modes: Vec<Mode> = Vec::new();
    for argument in arguments.iter().filter(|_| first_use.is_none()) {
        modes.push(match argument.as_str() {
            "--sweep" => sweep,
            "--catalog" => catalog,
            "--strategies" => strategies,
            "--ladder" => ladder::ladder,
            "--traffic" => ladder::traffic,
            "--views" => views,
            "--reduce" => reduce::reductions,
            "--length" => length::lengths,
            "--length-segments" => length::segments,
            "--segmented" => segmented::segmented,
            "--segmented-sweep" => segmented::sweep,
            "--segmented-short" => segmented::short,
            "--segmented-sort" => segmented_sort::sorts,
            "--columns" => segmented::columns,
            "--select" => compact::lengths,
            "--fractions" => compact::fractions,
            "--select-types" => compact::types,
            "--segments" => segments::segments,
            "--sort" => sort::sorts,
            "--sort-sweep" => sort::sweep,
            "--sort-patterns" => sort::patterns,
            "--sort-hard" => sort::hard,
            "--sort-longest" => sort::longest,
            "--custom" => custom::custom,
            "--host" => host,
            "--shapes" => shapes::shapes,
            _ => {
                eprintln!("versus does not know {argument}\n{USAGE}");
                return ExitCode::from(2);
            }
        });
    }
    if modes.is_empty() {
        modes.push(main_rows);
    }
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(e) => {
            eprintln!("versus needs a GPU: {e}");
            return ExitCode::from(2);
        }
    };
    if let Some(call) = first_use {
        return custom::first_use(&gpu, call).map_or_else(
            |e| {
                eprintln!("{e}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    let name = gpu.context.name().unwrap_or_else(|_| "unknown GPU".into());
    println!("# {}, {name}, {}", option_env!("PARASCAN_COMMIT").unwrap_or("unknown"), cub::version());
    println!("library,what,type,n,median_us,gb_per_s,of_copy");
    let verdict = Verdict::default();
    // A profiler would record hundreds of empty kernels.
    if !is_watched && let Some(us) = verdict.note("empty_kernel", gpu.medians(4, &mut [&mut || gpu.launch_empty()])) {
        println!("copy,empty_kernel,,0,{:.2},,", us[0]);
    }
    for mode in modes {
        mode(&gpu, &verdict);
    }
    if verdict.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const INCLUSIVE: Case =
    Case { exclusive: false, reverse: false, strategy: Strategy::Auto, offsets: (0, 0), suffix: "", beside_cub: true };
const EXCLUSIVE: Case = Case { exclusive: true, ..INCLUSIVE };

/// Calls the function for each of the types.
macro_rules! each {
    ($function:ident, $gpu:ident, $verdict:ident: $($t:ident)*) => { $( $function::<$t>($gpu, $verdict); )* };
}

fn main_rows(gpu: &Gpu, verdict: &Verdict) {
    fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Sum: Known<T>,
        Max: Known<T>,
    {
        let Some(mut bench) = Bench::<T>::new(gpu, verdict, 1 << 30) else { return };
        for n in [28, 30, 10, 16, 20, 24].map(|log| 1 << log) {
            bench.row::<Sum>(n, EXCLUSIVE);
            bench.row::<Sum>(n, INCLUSIVE);
            bench.row::<Max>(n, INCLUSIVE);
        }
    }
    each!(rows, gpu, verdict: f32 i32 u64 f16 u8);
}

fn sweep(gpu: &Gpu, verdict: &Verdict) {
    fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Sum: Known<T>,
    {
        let Some(mut bench) = Bench::<T>::new(gpu, verdict, 1 << 30) else { return };
        for n in (10..=30).map(|log| 1 << log) {
            bench.row::<Sum>(n, INCLUSIVE);
        }
    }
    each!(rows, gpu, verdict: f32 i32 u64 f16 f64 bf16 i8 i16 i64 u8 u16 u32);
}

fn catalog(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 28;
    macro_rules! rows { ($($t:ident: $($op:ident)*;)*) => { $(
        if let Some(mut bench) = Bench::<$t>::new(gpu, verdict, N) {
            bench.row::<Sum>(N, EXCLUSIVE);
            $( bench.row::<$op>(N, INCLUSIVE); )*
        }
    )* } }
    rows! {
        f32: Sum Product Max Min Last;
        i32: Sum Product Max Min BitAnd BitOr BitXor Last;
        u64: Sum Product Max Min BitAnd BitOr BitXor Last;
        f16: Sum Product Max Min Last;
        f64: Sum Product Max Min Last;
        bf16: Sum Product Max Min Last;
        i8: Sum Product Max Min BitAnd BitOr BitXor Last;
        i16: Sum Product Max Min BitAnd BitOr BitXor Last;
        i64: Sum Product Max Min BitAnd BitOr BitXor Last;
        u8: Sum Product Max Min BitAnd BitOr BitXor Last;
        u16: Sum Product Max Min BitAnd BitOr BitXor Last;
        u32: Sum Product Max Min BitAnd BitOr BitXor Last;
    }
}

fn strategies(gpu: &Gpu, verdict: &Verdict) {
    fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Sum: Known<T>,
    {
        let block = Block::WarpShuffles;
        let all = [
            ("_auto", Strategy::Auto),
            ("_look_back", Strategy::LookBack(block)),
            ("_chained", Strategy::Chained(block)),
            ("_hierarchical", Strategy::Hierarchical(block)),
            ("_prefix_server", Strategy::PrefixServer(block)),
        ];
        let Some(mut bench) = Bench::<T>::new(gpu, verdict, 1 << 28) else { return };
        for n in [1 << 28, 1 << 20] {
            for (suffix, strategy) in all {
                let beside_cub = strategy == Strategy::Auto;
                bench.row::<Sum>(n, Case { strategy, suffix, beside_cub, ..EXCLUSIVE });
            }
        }
    }
    each!(rows, gpu, verdict: f32 i32 u64 f16);
}

fn views(gpu: &Gpu, verdict: &Verdict) {
    fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Sum: Known<T>,
    {
        const N: usize = 1 << 28;
        let Some(mut bench) = Bench::<T>::new(gpu, verdict, N) else { return };
        // Every remainder modulo a 128-byte line occurs.
        let odd = [(1, 0), (0, 1), (1, 1), (1, 3), (3, 3), (5, 0), (0, 5), (5, 7), (7, 3), (17, 17), (31, 23)];
        for offsets @ (from, to) in [(0, 0)].into_iter().chain(odd) {
            let suffix = if offsets == (0, 0) { String::new() } else { format!("_from_{from}_to_{to}") };
            bench.row::<Sum>(N, Case { offsets, suffix: &suffix, ..INCLUSIVE });
        }
        bench.row::<Sum>(N, Case { reverse: true, suffix: "_reverse", ..INCLUSIVE });
    }
    each!(rows, gpu, verdict: i32 u64 f16 u8);
}

fn host(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut bench) = Bench::<i32>::new(gpu, verdict, 1 << 20) else { return };
    for n in [1 << 10, 1 << 20] {
        bench.host_cost::<Sum>(n);
    }
}
