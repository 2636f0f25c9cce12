//! Routes tokens to experts, as a mixture-of-experts layer does, by a primitive of its own on both
//! engines:
//!
//! ```text
//! cargo run --release --example experts
//! ```
//! Every token chooses 2 of 64 experts, some of them frequent. A matrix product works on tiles of
//! 128 rows of one expert. So the rows, one for each token and choice, are put in the order of
//! their experts, and each expert's range is padded to whole tiles. The three steps:
//!
//! 1. a histogram of the rows by expert;
//! 2. the start of each expert's range, `offsets::<u32, u32>().align(128).with_total()`;
//! 3. the row at each index: a row goes to the start of its expert's range plus its rank among the
//!    rows of that expert, in the order of the tokens. This is one pass of a radix sort: each tile
//!    of rows publishes 64 counts and receives the sums of those of the tiles before it. On the CPU
//!    it is `parascan::cpu::hand_over`; on the GPU `LookBackColumns` of `core/handover.cuh`, in the
//!    kernels of `experts.cu`, which `parascan::cuda::Kernels` compiles.
//!
//! It runs on the GPU if there is one (which needs NVRTC), else on the CPU's cores
//! (`CUDA_VISIBLE_DEVICES=` hides the GPU), and says which. It prints the most and the least
//! frequent expert, the padding, and the milliseconds of each step beside those of plain loops on
//! one core. It compares every step's result with the loops', and ends with exit code 1 on a
//! difference.

use parascan::cuda::{self, Kernels};
use parascan::cudarc::driver::sys::CUevent_flags;
use parascan::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use parascan::{Error, Workspace, cpu, offsets};
use rayon::prelude::*;
use std::ffi::c_void;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;
use std::{io, process};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const EXPERTS: usize = 64;
const CHOICES: usize = 2;
/// Each expert's range is a multiple of this many rows.
const ALIGN: u64 = 128;
/// The entry of `places` in the padding.
const NO_ROW: u32 = u32::MAX;
const RUNS: usize = 9;

/// The results of the three steps, and the seconds of each.
struct Routed {
    /// The rows of each expert.
    counts: Vec<u32>,
    /// The start of each expert's range, and the end of the last.
    starts: Vec<u32>,
    /// The row at each index, or `NO_ROW`.
    places: Vec<u32>,
    seconds: [f64; 3],
}

fn main() -> ExitCode {
    match experts() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("experts: {e}");
            ExitCode::FAILURE
        }
    }
}

fn experts() -> Outcome<()> {
    match cuda::context(0) {
        Ok(context) => {
            let experts = rows(4_000_000);
            let mut gpu = Gpu::new(context.new_stream()?, experts.len())?;
            report(&experts, &context.name()?, || gpu.route(&experts))
        }
        Err(Error::NoDriver { .. } | Error::NoDevice { .. }) => {
            let experts = rows(1_000_000);
            let place = format!("{} CPU threads, no GPU found", rayon::current_num_threads());
            report(&experts, &place, || on_cpu(&experts))
        }
        Err(e) => Err(e.into()),
    }
}

fn report(experts: &[u8], place: &str, route: impl FnMut() -> Outcome<Routed>) -> Outcome<()> {
    let tokens = experts.len() / CHOICES;
    say(&format!("{} tokens, {CHOICES} of {EXPERTS} experts each, on {place}\n", grouped(tokens)));
    let expected = by_loops(experts);
    let looped = seconds(&expected, || Ok(by_loops(experts)))?;
    let routed = seconds(&expected, route)?;

    let Routed { counts, starts, .. } = expected;
    let by_rows = |&expert: &usize| counts[expert];
    let (fullest, emptiest) = ((0..EXPERTS).max_by_key(by_rows), (0..EXPERTS).min_by_key(by_rows));
    for (what, expert) in [("fullest", fullest), ("emptiest", emptiest)] {
        let expert = expert.expect("there are experts");
        let share = 100.0 * f64::from(counts[expert]) / experts.len() as f64;
        row(
            what,
            format!("expert {expert}, {} rows", grouped(counts[expert] as usize)),
            format!("{share:.2} % of all"),
        );
    }
    let places = starts[EXPERTS] as usize;
    let padding = 100.0 * (places - experts.len()) as f64 / places as f64;
    row(
        "places",
        grouped(places),
        format!("{} tiles of {ALIGN}, {padding:.2} % padding", grouped(places / ALIGN as usize)),
    );

    say(&format!("\nMilliseconds, median of {RUNS}"));
    for (i, step) in ["count the rows", "begin at tiles", "put into place"].into_iter().enumerate() {
        row(step, format!("{:.3}", 1e3 * routed[i]), format!("{:.3} by a plain loop", 1e3 * looped[i]));
    }
    say("\nEvery result is the same as a plain loop's.");
    Ok(())
}

/// The medians of the steps' seconds over some runs. Each run is compared with `expected`.
fn seconds(expected: &Routed, mut route: impl FnMut() -> Outcome<Routed>) -> Outcome<[f64; 3]> {
    let mut runs = [const { Vec::new() }; 3];
    for run in 0..=RUNS {
        let got = route()?;
        same("the count of expert", &got.counts, &expected.counts)?;
        same("the start of expert", &got.starts, &expected.starts)?;
        same("the row at place", &got.places, &expected.places)?;
        if run > 0 {
            (0..3).for_each(|step| runs[step].push(got.seconds[step])); // the first run warms up
        }
    }
    Ok(runs.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[RUNS / 2]
    }))
}

/// The expert of each row: of token 0 the first choice and the second, of token 1, and so on.
fn rows(tokens: usize) -> Vec<u8> {
    // The square of a random fraction makes low experts more frequent.
    let draw = |noise: u64, n: u64| ((noise & 0xffff).pow(2) * n) >> 32;
    let choices = |token: usize| {
        let noise = noise(token);
        let first = draw(noise, EXPERTS as u64);
        let second = draw(noise >> 16, EXPERTS as u64 - 1); // of the other experts
        [first as u8, (second + u64::from(second >= first)) as u8]
    };
    (0..tokens).into_par_iter().flat_map_iter(choices).collect()
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn noise(i: usize) -> u64 {
    let z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

// ---- plain loops --------------------------------------------------------------------------------

fn by_loops(experts: &[u8]) -> Routed {
    let begun = Instant::now();
    let mut counts = vec![0; EXPERTS];
    for &expert in experts {
        counts[expert as usize] += 1;
    }
    let counted = Instant::now();

    let mut starts = vec![0_u32];
    for (expert, count) in counts.iter().enumerate() {
        starts.push((starts[expert] + count).next_multiple_of(ALIGN as u32));
    }
    let aligned = Instant::now();

    let mut places = vec![NO_ROW; starts[EXPERTS] as usize];
    let mut next = starts.clone();
    for (row, &expert) in (0..).zip(experts) {
        let place = &mut next[expert as usize];
        places[*place as usize] = row;
        *place += 1;
    }
    let seconds = [counted - begun, aligned - counted, aligned.elapsed()].map(|time| time.as_secs_f64());
    Routed { counts, starts, places, seconds }
}

// ---- on the CPU ---------------------------------------------------------------------------------

/// A number for each expert.
type PerExpert = [u32; EXPERTS];

fn counts_of(experts: &[u8]) -> PerExpert {
    let mut counts = [0; EXPERTS];
    experts.iter().for_each(|&expert| counts[expert as usize] += 1);
    counts
}

fn add(a: &PerExpert, b: &PerExpert) -> PerExpert {
    std::array::from_fn(|expert| a[expert] + b[expert])
}

fn on_cpu(experts: &[u8]) -> Outcome<Routed> {
    const TILE: usize = 1 << 14;
    let begun = Instant::now();
    let counts = experts.par_chunks(TILE).map(counts_of).reduce(|| [0; EXPERTS], |a, b| add(&a, &b));
    let counted = Instant::now();

    let starts = offsets::<u32, u32>().align(ALIGN).with_total().run(&counts)?;
    let aligned = Instant::now();

    // No two rows share an index; atomics only avoid `unsafe`.
    let places: Vec<_> = (0..starts[EXPERTS]).into_par_iter().map(|_| AtomicU32::new(NO_ROW)).collect();
    let first: PerExpert = std::array::from_fn(|expert| starts[expert]);
    let tile_of = |tile: usize| &experts[tile * TILE..experts.len().min((tile + 1) * TILE)];
    cpu::hand_over(
        experts.len().div_ceil(TILE),
        Some(first),
        |tile| (counts_of(tile_of(tile)), ()),
        add,
        |tile, before, ()| {
            let mut next = *before.expect("there is a first one");
            for (row, &expert) in (tile * TILE..).zip(tile_of(tile)) {
                let place = &mut next[expert as usize];
                places[*place as usize].store(row as u32, Relaxed);
                *place += 1;
            }
        },
    );
    let places = places.into_iter().map(AtomicU32::into_inner).collect();
    let seconds = [counted - begun, aligned - counted, aligned.elapsed()].map(|time| time.as_secs_f64());
    Ok(Routed { counts: counts.to_vec(), starts, places, seconds })
}

// ---- on the GPU ---------------------------------------------------------------------------------

/// A tile: warps, and rounds of 32 rows for each.
const WARPS: usize = 8;
const ROUNDS: usize = 16;
/// Tiles of a look-back group.
const GROUP: usize = 32;

/// The kernels of `experts.cu`, in the order of their names.
const HISTOGRAM: usize = 0;
const SCATTER: usize = 1;
const PAD: usize = 2;

struct Gpu {
    stream: Arc<CudaStream>,
    kernels: Kernels,
    workspace: Workspace,
    tiles: usize,
    /// The status words of the look-back. They are zero before and after.
    memory: CudaSlice<u8>,
}

impl Gpu {
    fn new(stream: Arc<CudaStream>, rows: usize) -> Outcome<Gpu> {
        let source = format!(
            "constexpr unsigned EXPERTS = {EXPERTS}, WARPS = {WARPS}, ROUNDS = {ROUNDS}, GROUP = {GROUP};\n{}",
            include_str!("experts.cu"),
        );
        let kernels = Kernels::compile(stream.context(), "experts", &source, &["histogram", "scatter", "pad"])?;
        let mut workspace = Workspace::new(&stream);
        offsets::<u32, u32>().prepare(EXPERTS, &mut workspace)?;
        let tiles = rows.div_ceil(WARPS * ROUNDS * 32);
        let groups = tiles.div_ceil(GROUP);
        // A ticket and a counter for each group, then a status word for each expert of each group
        // and tile.
        let memory = stream.alloc_zeros(4 * (4 + groups).next_multiple_of(4) + 8 * EXPERTS * (groups + tiles))?;
        Ok(Gpu { stream, kernels, workspace, tiles, memory })
    }

    /// The host does not wait between the steps: the output has room for the most padding possible.
    fn route(&mut self, experts: &[u8]) -> Outcome<Routed> {
        let Gpu { stream, kernels, workspace, tiles, memory } = self;
        let experts_on_gpu = stream.clone_htod(experts)?;
        let counts = stream.alloc_zeros::<u32>(EXPERTS)?;
        let mut starts = stream.alloc_zeros::<u32>(EXPERTS + 1)?;
        let mut total = stream.alloc_zeros::<u64>(1)?;
        let places = stream.alloc_zeros::<u32>(experts.len() + EXPERTS * (ALIGN as usize - 1))?;

        // The kernels' arguments. All work is on one stream, which orders it without cudarc's
        // events.
        let (rows, tiles) = (experts.len() as u32, *tiles as u32);
        let rows_at = experts_on_gpu.device_ptr(stream).0;
        let [counts_at, starts_at, places_at] = [&counts, &starts, &places].map(|memory| memory.device_ptr(stream).0);
        let memory_at = memory.device_ptr(stream).0;
        let (threads, on) = (WARPS as u32 * 32, stream.cu_stream());
        let event = || stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));

        let begun = event()?;
        // SAFETY: the kernel's arguments, in order. The memory is as long as `new` and the code
        // above make it, and outlives the work, for which this function waits. Allocating has made
        // the stream's context current.
        unsafe { kernels.launch(HISTOGRAM, tiles, threads, on, &[p(&rows_at), p(&rows), p(&counts_at)]) }?;
        let counted = event()?;

        let builder = offsets::<u32, u32>().align(ALIGN).with_total().workspace(workspace);
        builder.run_into(&counts, &mut starts, &mut total)?;
        let aligned = event()?;

        let scatter = [p(&rows_at), p(&rows), p(&starts_at), p(&places_at), p(&memory_at), p(&tiles)];
        // SAFETY: as above.
        unsafe { kernels.launch(SCATTER, tiles, threads, on, &scatter) }?;
        // SAFETY: as above.
        unsafe {
            kernels.launch(PAD, EXPERTS as u32, ALIGN as u32, on, &[p(&counts_at), p(&starts_at), p(&places_at)])
        }?;
        let put = event()?;

        let milliseconds = [begun.elapsed_ms(&counted)?, counted.elapsed_ms(&aligned)?, aligned.elapsed_ms(&put)?];
        let (counts, starts) = (stream.clone_dtoh(&counts)?, stream.clone_dtoh(&starts)?);
        stream.synchronize()?;
        let places = stream.clone_dtoh(&places.slice(..starts[EXPERTS] as usize))?;
        stream.synchronize()?;
        Ok(Routed { counts, starts, places, seconds: milliseconds.map(|time| f64::from(time) * 1e-3) })
    }
}

/// An argument of a kernel.
fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

// ---- checks and words ---------------------------------------------------------------------------

fn same(what: &str, got: &[u32], expected: &[u32]) -> Outcome<()> {
    match (0..expected.len()).find(|&i| got.get(i) != Some(&expected[i])) {
        None if got.len() == expected.len() => Ok(()),
        None => Err(format!("{what}: {} of them instead of {}", got.len(), expected.len()).into()),
        Some(i) => Err(format!("{what} {i} is {:?} and a plain loop gives {}", got.get(i), expected[i]).into()),
    }
}

fn row(what: &str, value: impl AsRef<str>, how: impl AsRef<str>) {
    say(format!("  {what:<20}{:<32}{}", value.as_ref(), how.as_ref()).trim_end());
}

/// Prints a line. A closed pipe, as of `head`, is no error.
fn say(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err() {
        process::exit(0);
    }
}

/// Formats 1234567 as 1 234 567.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let begins = |i: usize| i > 0 && (digits.len() - i).is_multiple_of(3);
    digits.char_indices().flat_map(|(i, digit)| [begins(i).then_some(' '), Some(digit)]).flatten().collect()
}
