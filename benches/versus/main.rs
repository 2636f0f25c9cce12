//! parascan, CUB, a copy and an empty kernel on the same buffers, in one run, on one stream.
//!
//! ```text
//! cargo bench --bench versus --features cub                    the main types and sizes
//! cargo bench --bench versus --features cub -- --sweep         sums of 2^10 to 2^30 elements, every type
//! cargo bench --bench versus --features cub -- --catalog       every operator on every element, 2^28
//! cargo bench --bench versus --features cub -- --strategies    every strategy of a scan, 2^20 and 2^28
//! cargo bench --bench versus --features cub -- --ladder        the textbook's scans of f32, all at 2^26, the steps of the ladder over n
//! cargo bench --bench versus -- --traffic                       the same once, for a profiler to watch
//! cargo bench --bench versus --features cub -- --views         views at odd offsets, and backwards, 2^28
//! cargo bench --bench versus --features cub -- --select        compaction, partition and unique of u32, 2^10 to 2^28
//! cargo bench --bench versus --features cub -- --fractions     compaction of u32 that keeps from nothing to all, 2^28
//! cargo bench --bench versus --features cub -- --select-types  compaction of other types, 2^26
//! cargo bench --bench versus --features cub -- --segments      offsets, packing, and the way back
//! cargo bench --bench versus --features cub -- --sort          radix sorts of random keys and pairs
//! cargo bench --bench versus --features cub -- --sort-sweep    the same of 2^8 to 2^26, and pairs that are not random
//! cargo bench --bench versus --features cub -- --sort-patterns radix sorts of keys that are sorted, equal, few, 2^28
//! cargo bench --bench versus --features cub -- --sort-longest  radix sorts of 2^29 keys and pairs, and of 2^30
//! cargo bench --bench versus --features cub -- --custom        operators of a user's own, 2^10 elements to 8 GiB, and their first use
//! cargo bench --bench versus --features cub -- --host          what a call costs the host
//! cargo bench --bench versus --features cub -- --shapes        shapes of the kernel, ways to join tiles, the best for each length
//! cargo bench --bench versus -- --plot FILE FOLDER             pictures of what --sweep printed into FILE; needs no GPU
//! cargo bench --bench versus -- --plot-ladder FILE FOLDER      the same of what --ladder printed
//! ```
//! CUB comes from the toolkit of the nvcc that build.rs finds (PARASCAN_NVCC, PATH, CUDA_HOME, CUDA_PATH,
//! /usr/local/cuda); without the feature `cub` only parascan and the copy are run.
//!
//! It prints CSV: `# commit, GPU, CUB version`, then `library,what,type,n,median_us,gb_per_s,of_copy`. Times are the
//! device's, between two events around the call, the median of 25 calls or of 100 short ones, behind 3 that are not
//! counted. GB/s is over the least bytes that must move, each input read once and each output written once; of_copy is that
//! rate over the copy's in the same run. CUB's temporary memory and parascan's workspace are there beforehand, and no
//! event but these is recorded. `copy` as the library of `empty_kernel` and of `host_cost` stands for the bare launch.
//! What `--select` and its like call `_50` keeps half of the items, at random.
//!
//! Every result is compared with CUB's bit for bit, on data whose sums are exact, and with a plain loop where there are no
//! more than 2^20 elements or CUB has no such result. Of a partition CUB gives those that are not kept backwards: there a plain
//! loop says what is right, whatever the length. What differs is on stderr, and the exit code is 1; it is 2 where nothing
//! could be run.

mod bench;
mod cub;
mod custom;
mod data;
mod gpu;
mod ladder;
mod plot;
mod segments;
mod select;
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

const USAGE: &str =
    "usage: versus [--sweep | --catalog | --strategies | --ladder | --traffic | --views | --custom | --host | --shapes]...
       versus [--select | --fractions | --select-types | --segments | --sort | --sort-sweep | --sort-patterns | --sort-longest]...
       versus --plot FILE FOLDER
       versus --plot-ladder FILE FOLDER";

type Mode = fn(&Gpu, &Verdict);
type Draw = fn(&Path, &Path) -> Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect(); // from cargo
    if let [plot, sweep, folder] = &arguments[..]
        && let Some(draw) = match plot.as_str() {
            "--plot" => Some(plot::plot as Draw),
            "--plot-ladder" => Some(plot::ladder as Draw),
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
    let is_first_use = arguments == [custom::FIRST_USE];
    let is_watched = arguments == ["--traffic"];
    let mut modes: Vec<Mode> = Vec::new();
    for argument in arguments {
        modes.push(match argument.as_str() {
            custom::FIRST_USE => continue,
            "--sweep" => sweep,
            "--catalog" => catalog,
            "--strategies" => strategies,
            "--ladder" => ladder::ladder,
            "--traffic" => ladder::traffic,
            "--views" => views,
            "--select" => select::lengths,
            "--fractions" => select::fractions,
            "--select-types" => select::types,
            "--segments" => segments::segments,
            "--sort" => sort::sorts,
            "--sort-sweep" => sort::sweep,
            "--sort-patterns" => sort::patterns,
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
    if is_first_use {
        return custom::first_use(&gpu).map_or_else(
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
    // A profiler would watch hundreds of these.
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

/// The function for each of the types.
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
        // In all parts of a line of 128 bytes.
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
