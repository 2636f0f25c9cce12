//! Radix sorts beside CUB's DeviceRadixSort.

use crate::bench::{Bench, LOOP, Verdict, batches, print, same};
use crate::cub::{CubSort, Sorting};
use crate::data::{Draw, Sample};
use crate::gpu::{Call, Gpu, told};
use bytemuck::Pod;
use half::f16;
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use parascan::{SortKey, sort};
use std::cmp::Ordering;

/// Runs `$rows` for each key type and its order, with buffers for `$n` keys.
macro_rules! each_type {
    ($gpu:ident, $verdict:ident, $n:expr, |$sorts:ident| $rows:expr, $($t:ident $order:expr;)*) => { $(
        if let Some(mut $sorts) = Sorts::<$t>::new($gpu, $verdict, $n, $order) {
            $rows;
        }
    )* };
}

/// Random keys of every type, and `u32` pairs with payloads of 2 to 16 bytes and source indices, over the length.
pub(crate) fn sorts(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 28;
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, N, u32::cmp) {
        for n in [28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8].map(|log| 1 << log) {
            sorts.row("keys", n, Draw::Any, Sorts::keys);
        }
        for n in [28, 24, 20, 16, 10].map(|log| 1 << log) {
            sorts.row("pairs", n, Draw::Any, Sorts::pairs);
            sorts.row("indices", n, Draw::Any, Sorts::indices);
        }
        for n in [26, 24, 22, 20, 16, 10].map(|log| 1 << log) {
            sorts.row("pairs_of_2_bytes", n, Draw::Any, Sorts::pairs_with::<u16>);
            sorts.row("pairs_of_8_bytes", n, Draw::Any, Sorts::pairs_with::<u64>);
            sorts.row("pairs_of_12_bytes", n, Draw::Any, Sorts::pairs_with::<[u32; 3]>);
            sorts.row("pairs_of_16_bytes", n, Draw::Any, Sorts::pairs_with::<[u64; 2]>);
        }
    }
    each_type! {
        gpu, verdict, N,
        |sorts| for n in [28, 24, 20, 16, 10].map(|log| 1 << log) {
            sorts.row("keys", n, Draw::Bits, Sorts::keys);
        },
        i32 i32::cmp; f32 f32::total_cmp; u64 u64::cmp; i64 i64::cmp; f64 f64::total_cmp; f16 f16::total_cmp; u16 u16::cmp; u8 u8::cmp;
    }
}

/// Random keys of every type, and `u32` pairs, at every half power of two.
pub(crate) fn sweep(gpu: &Gpu, verdict: &Verdict) {
    const LAST: usize = 26;
    let lengths = |first: usize| (first..=LAST).flat_map(|log| [1 << log, 3 << (log - 1)]).filter(|&n| n <= 1 << LAST);
    each_type! {
        gpu, verdict, 1 << LAST,
        |sorts| for n in lengths(8) {
            sorts.row("keys", n, Draw::Bits, Sorts::keys);
        },
        u8 u8::cmp; u16 u16::cmp; f16 f16::total_cmp; u32 u32::cmp; f32 f32::total_cmp; u64 u64::cmp; f64 f64::total_cmp;
    }
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, 1 << LAST, u32::cmp) {
        for n in lengths(8) {
            sorts.row("pairs", n, Draw::Bits, Sorts::pairs);
        }
        // The first lengths of a longer way.
        for n in [20, 22, 23].map(|log| (1 << log) + 1) {
            sorts.row("keys", n, Draw::Bits, Sorts::keys);
            sorts.row("pairs", n, Draw::Bits, Sorts::pairs);
        }
        for n in lengths(16) {
            sorts.row("pairs_counting", n, Draw::Counting, Sorts::pairs);
            sorts.row("pairs_power_law", n, Draw::PowerLaw, Sorts::pairs);
        }
    }
}

/// The longest inputs, for which keys of 4 bytes and more take large buckets.
pub(crate) fn longest(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 29;
    each_type! {
        gpu, verdict, N,
        |sorts| sorts.row("keys", N, Draw::Bits, Sorts::keys),
        u8 u8::cmp; u16 u16::cmp; f16 f16::total_cmp; f32 f32::total_cmp; u64 u64::cmp;
    }
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, 2 * N, u32::cmp) {
        sorts.row("keys", 2 * N, Draw::Bits, Sorts::keys);
        sorts.row("pairs", 2 * N, Draw::Bits, Sorts::pairs);
        for (suffix, draw) in [
            ("", Draw::Bits),
            ("_ascending", Draw::Ascending),
            ("_counting", Draw::Counting),
            ("_equal", Draw::Equal),
            ("_of_four_apart", Draw::Apart),
            ("_power_law", Draw::PowerLaw),
        ] {
            sorts.row(&format!("keys{suffix}"), N, draw, Sorts::keys);
            sorts.row(&format!("pairs{suffix}"), N, draw, Sorts::pairs);
        }
    }
}

/// Keys of non-random distributions.
pub(crate) fn patterns(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 28;
    let patterns = [
        ("_random", Draw::Any),
        ("_ascending", Draw::Ascending),
        ("_descending", Draw::Descending),
        ("_counting", Draw::Counting),
        ("_equal", Draw::Equal),
        ("_of_four", Draw::Runs),
        ("_of_four_apart", Draw::Apart),
        ("_power_law", Draw::PowerLaw),
    ];
    const SHORTER: usize = 1 << 26;
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, SHORTER, u32::cmp) {
        for n in [26, 24, 23, 22, 20, 18, 16].map(|log| 1 << log) {
            for (suffix, draw) in [
                ("_random", Draw::Any),
                ("_counting", Draw::Counting),
                ("_power_law", Draw::PowerLaw),
                ("_pareto", Draw::Pareto),
                ("_one_often", Draw::OneIn(2048)),
                ("_one_very_often", Draw::OneIn(10)),
                ("_two_often", Draw::TwoOften),
                ("_of_four_apart", Draw::Apart),
            ] {
                sorts.row(&format!("keys{suffix}"), n, draw, Sorts::keys);
                sorts.row(&format!("pairs{suffix}"), n, draw, Sorts::pairs);
            }
        }
    }
    if let Some(mut sorts) = Sorts::<f32>::new(gpu, verdict, SHORTER, f32::total_cmp) {
        for n in [26, 24, 22, 20, 18, 16].map(|log| 1 << log) {
            sorts.row("keys_random", n, Draw::Bits, Sorts::keys);
            sorts.row("keys_whole_numbers", n, Draw::Any, Sorts::keys);
            sorts.row("pairs_whole_numbers", n, Draw::Any, Sorts::pairs);
        }
    }
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, N, u32::cmp) {
        for (suffix, draw) in patterns {
            sorts.row(&format!("keys{suffix}"), N, draw, Sorts::keys);
            sorts.row(&format!("pairs{suffix}"), N, draw, Sorts::pairs);
        }
    }
    if let Some(mut sorts) = Sorts::<f32>::new(gpu, verdict, N, f32::total_cmp) {
        sorts.row("keys_random", N, Draw::Bits, Sorts::keys);
        sorts.row("keys_whole_numbers", N, Draw::Any, Sorts::keys);
        sorts.row("pairs_whole_numbers", N, Draw::Any, Sorts::pairs);
        sorts.row("keys_power_law", N, Draw::PowerLaw, Sorts::keys);
    }
    each_type! {
        gpu, verdict, N,
        |sorts| for (suffix, draw) in patterns {
            sorts.row(&format!("keys{suffix}"), N, draw, Sorts::keys);
        },
        u64 u64::cmp; u16 u16::cmp; u8 u8::cmp;
    }
}

/// Keys of distributions that no tuning has seen, and inputs that mislead the samples of this process. A row
/// that takes more than three times the random row of its length, type and payload is an error.
pub(crate) fn hard(gpu: &Gpu, verdict: &Verdict) {
    const DRAWS: [(&str, Draw); 14] = [
        ("_random", Draw::Any),
        ("_organ_pipe", Draw::OrganPipe),
        ("_saw_tooth", Draw::SawTooth),
        ("_narrow_blocks", Draw::NarrowBlocks),
        ("_geometric", Draw::Geometric),
        ("_mostly_dense", Draw::MostlyDense),
        ("_half_equal", Draw::HalfEqual),
        ("_of_127", Draw::Distinct(127)),
        ("_of_192", Draw::Distinct(192)),
        ("_of_257", Draw::Distinct(257)),
        ("_one_in_32", Draw::OneIn(32)),
        ("_one_in_256", Draw::OneIn(256)),
        ("_fooled_equal", Draw::FooledEqual),
        ("_fooled_random", Draw::FooledRandom),
    ];
    const LENGTHS: [usize; 4] = [1 << 26, 1 << 24, 1 << 20, 1 << 16];
    if let Some(mut sorts) = Sorts::<u32>::new(gpu, verdict, LENGTHS[0], u32::cmp) {
        for n in LENGTHS {
            let (mut random_keys, mut random_pairs) = (None, None);
            for (suffix, draw) in DRAWS {
                sorts.hard_row(&format!("keys{suffix}"), n, draw, Sorts::keys, &mut random_keys);
                sorts.hard_row(&format!("pairs{suffix}"), n, draw, Sorts::pairs, &mut random_pairs);
            }
        }
    }
    if let Some(mut sorts) = Sorts::<u64>::new(gpu, verdict, LENGTHS[0], u64::cmp) {
        for n in LENGTHS {
            let mut random_keys = None;
            for (suffix, draw) in DRAWS {
                sorts.hard_row(&format!("keys{suffix}"), n, draw, Sorts::keys, &mut random_keys);
            }
        }
    }
}

/// A bench with the buffers of the payload: a word for each key, so wider payloads are of fewer keys.
struct Sorts<'g, T> {
    bench: Bench<'g, T>,
    order: fn(&T, &T) -> Ordering,
    values: CudaSlice<u32>,
    values_output: CudaSlice<u32>,
    values_kept: CudaSlice<u32>,
}

/// Returns the microseconds of parascan.
type Run<'g, T> = fn(&mut Sorts<'g, T>, &str, usize) -> Result<f64, String>;

impl<'g, T: Sample + SortKey> Sorts<'g, T> {
    /// Allocates for up to `n` keys.
    fn new(gpu: &'g Gpu, verdict: &'g Verdict, n: usize, order: fn(&T, &T) -> Ordering) -> Option<Self> {
        let bench = Bench::new(gpu, verdict, n)?;
        // SAFETY: every bit pattern is a valid value, and the buffers are written before they are
        // read.
        let memory = || told("device memory", unsafe { gpu.stream.alloc::<u32>(n) });
        let buffers = memory().and_then(|values| Ok((values, memory()?, memory()?)));
        let (values, values_output, values_kept) = verdict.note(&format!("{}, n {n}", T::NAME), buffers)?;
        Some(Sorts { bench, order, values, values_output, values_kept })
    }

    /// Draws the keys, then checks and times `run` on them. Returns its microseconds.
    fn row(&mut self, what: &str, n: usize, draw: Draw, run: Run<'g, T>) -> Option<f64> {
        let what = format!("sort_{what}");
        let result = self.bench.draw(draw, n, 0).and_then(|()| run(self, &what, n));
        self.bench.verdict.note(&format!("{what} {}, n {n}", T::NAME), result)
    }

    /// A row that may take at most three times as long as that of random keys, which comes first: `random` keeps
    /// its microseconds.
    fn hard_row(&mut self, what: &str, n: usize, draw: Draw, run: Run<'g, T>, random: &mut Option<f64>) {
        let us = self.row(what, n, draw, run);
        if draw == Draw::Any {
            *random = us;
        }
        let (Some(us), Some(random)) = (us, *random) else { return };
        let times = us / random;
        let result = if times <= 3.0 { Ok(()) } else { Err(format!("it takes {times:.2} times the random row")) };
        self.bench.verdict.note(&format!("sort_{what} {}, n {n}", T::NAME), result);
    }

    fn keys(&mut self, what: &str, n: usize) -> Result<f64, String> {
        self.run::<u32>(what, n, Values::None)
    }
    fn pairs(&mut self, what: &str, n: usize) -> Result<f64, String> {
        self.pairs_with::<u32>(what, n)
    }
    fn pairs_with<V: Pod + DeviceRepr + Send + Sync>(&mut self, what: &str, n: usize) -> Result<f64, String> {
        self.run::<V>(what, n, Values::Beside)
    }
    /// CUB has no sort of source indices: it sorts pairs of keys and stored indices.
    fn indices(&mut self, what: &str, n: usize) -> Result<f64, String> {
        self.run::<u32>(what, n, Values::Numbers)
    }

    fn run<V: Pod + DeviceRepr + Send + Sync>(&mut self, what: &str, n: usize, kind: Values) -> Result<f64, String> {
        let of_value = size_of::<V>();
        let copy = self.bench.copy(n)?;
        let Sorts { bench, order, values, values_output, values_kept } = self;
        let Bench { gpu, workspace, input, output, kept, host, .. } = bench;
        let (stream, bytes) = (gpu.stream.cu_stream(), n * size_of::<T>());
        let value_bytes = if kind == Values::None { 0 } else { of_value * n };
        let numbers = || Vec::from_iter(0..(of_value * n).div_ceil(size_of::<u32>()) as u32);
        if kind == Values::Beside {
            let numbers = numbers();
            told("the values", gpu.stream.memcpy_htod(&numbers, &mut values.slice_mut(..numbers.len())))?;
            gpu.synchronize()?;
        }
        let at = |memory: &CudaSlice<u32>| memory.device_ptr(&gpu.stream).0;
        let at_keys = |memory: &CudaSlice<T>| memory.device_ptr(&gpu.stream).0;
        let (to, kept_at, values_to, values_kept_at) =
            (at_keys(output), at_keys(kept), at(values_output), at(values_kept));

        // ---- parascan
        match kind {
            Values::None => told("prepare", sort::<T>().prepare(n, workspace))?,
            Values::Beside => told("prepare", sort::<T>().prepare_pairs::<V>(n, workspace))?,
            Values::Numbers => told("prepare", sort::<T>().prepare_indices::<u32>(n, workspace))?,
        }
        let (view, mut keys_to) = (input.slice(..n), output.slice_mut(..n));
        // SAFETY: every bit pattern is a valid `V`.
        let beside = unsafe { values.transmute::<V>(n) }.ok_or("the payload has no room")?;
        let mut ours = || {
            let sort = sort::<T>().workspace(workspace);
            told(
                "sort",
                match kind {
                    Values::None => sort.run_into(&view, &mut keys_to),
                    Values::Beside => {
                        // SAFETY: as above; it has as much room.
                        let mut beside_to = unsafe { values_output.transmute_mut::<V>(n) }.expect("room");
                        sort.run_pairs_into(&view, &beside, &mut keys_to, &mut beside_to)
                    }
                    Values::Numbers => sort.indices_into(&view, &mut values_output.slice_mut(..n)),
                },
            )
        };

        // ---- CUB
        let with = |address: CUdeviceptr| if kind == Values::None { 0 } else { address };
        let sorting = Sorting {
            keys: view.device_ptr(&gpu.stream).0,
            // Source indices also need the values: the row before stored numbers there.
            values: with(beside.device_ptr(&gpu.stream).0),
            keys_output: to,
            values_output: with(values_to),
            n: n as u64,
        };
        // CUB takes 64-bit lengths, and int where they fit. The row is the faster one.
        let forms = [Some(true), (n < 1 << 31).then_some(false)].into_iter().flatten();
        let forms: Vec<CubSort> = forms.filter_map(|by_64_bits| CubSort::find(T::NAME, of_value, by_64_bits)).collect();
        let mut needed = 0;
        for cub in &forms {
            needed = needed.max(cub.temporary_bytes(&sorting, stream)?);
        }
        // SAFETY: CUB writes it before it reads it.
        let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
        let temporary = (memory.device_ptr(&gpu.stream).0, needed);
        // SAFETY: the buffers hold `n` keys and values; the temporary memory lives to the end of
        // this function, which waits for the stream.
        let theirs = |cub: &CubSort| {
            let cub = *cub;
            move || unsafe { cub.launch(temporary, &sorting, stream) }
        };
        let mut theirs: Vec<_> = forms.iter().map(theirs).collect();

        // ---- the check: poison, ours to `kept`, poison, theirs
        // SAFETY (of all here): each address is of a buffer of at least as many bytes.
        let poison = |byte: u8| unsafe {
            gpu.fill(to, byte, bytes)?;
            gpu.fill(values_to, byte, of_value * n)
        };
        let is_kept = |whose: &str| unsafe {
            if kind != Values::Numbers {
                same(gpu.differ(kept_at, to, bytes)?, size_of::<T>(), &format!("{whose} keys"))?;
            }
            same(gpu.differ(values_kept_at, values_to, value_bytes)?, of_value, &format!("{whose} values"))
        };
        unsafe {
            poison(0xa5)?;
            ours()?;
            gpu.copy(to, kept_at, bytes)?;
            gpu.copy(values_to, values_kept_at, of_value * n)?;
            for theirs in &mut theirs {
                poison(0x5a)?;
                theirs()?;
                is_kept("CUB's")?;
            }
            if n <= LOOP || theirs.is_empty() {
                let mut expected: Vec<u32> = (0..n as u32).collect();
                expected.sort_by(|&a, &b| order(&host[a as usize], &host[b as usize]));
                let keys: Vec<T> = expected.iter().map(|&i| host[i as usize]).collect();
                let keys = told("the expected keys", gpu.stream.clone_htod(&keys))?;
                let numbers = numbers();
                let items: Vec<&[u8]> = bytemuck::cast_slice(&numbers).chunks(of_value).collect();
                let expected: Vec<u8> = expected.iter().flat_map(|&i| items[i as usize]).copied().collect();
                let expected = told("the expected values", gpu.stream.clone_htod(&expected))?;
                if kind != Values::Numbers {
                    same(gpu.differ(kept_at, keys.device_ptr(&gpu.stream).0, bytes)?, size_of::<T>(), "a stable sort")?;
                }
                let expected = expected.device_ptr(&gpu.stream).0;
                same(gpu.differ(values_kept_at, expected, value_bytes)?, of_value, "a stable sort")?;
            }
        }

        // ---- timing
        let mut calls: Vec<Call> = vec![&mut ours];
        calls.extend(theirs.iter_mut().map(|theirs| theirs as Call));
        let times = gpu.medians(batches(bytes), &mut calls)?;
        drop(calls);
        poison(0xa5)?;
        ours()?;
        is_kept("the first call's")?;
        // Source indices: the keys are read, and the indices written.
        let moved = if kind == Values::Numbers { bytes + value_bytes } else { 2 * (bytes + value_bytes) };
        let row = |library: &str, us: f64| {
            print(library, what, T::NAME, n, us, moved, moved as f64 / us / (2.0 * bytes as f64 / copy));
        };
        row("parascan", times[0]);
        if let Some(us) = times[1..].iter().copied().reduce(f64::min) {
            row("cub", us);
        }
        Ok(times[0])
    }
}

/// The payload of the keys.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    None,
    /// A stored payload.
    Beside,
    /// Source indices, without the sorted keys.
    Numbers,
}
