//! Compaction, partition and unique against CUB's DeviceSelect and DevicePartition.

use crate::bench::{Bench, LOOP, Verdict, batches, print, same};
use crate::cub::{CubSelect, Selection};
use crate::data::{Draw, Drawn, Sample};
use crate::gpu::{Call, Gpu, Run, told};
use half::f16;
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{CudaSlice, DevicePtr};
use parascan::{Above, Ordered, Predicate, compact, partition, unique};
use rayon::prelude::*;

/// The byte that fills the outputs before parascan's call, and before CUB's.
const POISON: (u8, u8) = (0xa5, 0x5a);

/// The items above `than` are selected.
#[derive(Clone, Copy)]
struct Share<T> {
    /// The end of the row's name.
    suffix: &'static str,
    draw: Draw,
    than: T,
}

const HALF: Share<u32> = half(u32::MAX / 2);

/// Half of the items, as `median` is their median.
const fn half<T>(median: T) -> Share<T> {
    Share { suffix: "_50", draw: Draw::Any, than: median }
}

pub(crate) fn lengths(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut select) = Select::<u32>::new(gpu, verdict, 1 << 28) else { return };
    for n in [28, 24, 20, 16, 10].map(|log| 1 << log) {
        select.row("select_if", n, HALF, Select::select_if);
        select.row("select_flagged", n, HALF, Select::select_flagged);
        select.row("select_bits", n, HALF, Select::select_bits);
        select.row("partition_if", n, HALF, Select::partition_apart);
        select.row("partition_if", n, Share { suffix: "_50_together", ..HALF }, Select::partition_together);
        select.row("unique", n, Share { suffix: "_runs_1.33", draw: Draw::Runs, ..HALF }, Select::unique);
    }
}

pub(crate) fn fractions(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 28;
    let Some(mut select) = Select::<u32>::new(gpu, verdict, N) else { return };
    for share in [
        Share { suffix: "_0", than: u32::MAX, ..HALF },
        Share { suffix: "_1", than: u32::MAX / 100 * 99, ..HALF },
        HALF,
        Share { suffix: "_99", than: u32::MAX / 100, ..HALF },
        // The items are odd.
        Share { suffix: "_100", draw: Draw::Factors, than: 0 },
        Share { suffix: "_50_clustered", draw: Draw::Clusters, ..HALF },
    ] {
        select.row("select_if", N, share, Select::select_if);
        select.row("select_flagged", N, share, Select::select_flagged);
    }
}

pub(crate) fn types(gpu: &Gpu, verdict: &Verdict) {
    const N: usize = 1 << 26;
    macro_rules! rows { ($($t:ident $median:expr, $($how:ident)*;)*) => { $(
        if let Some(mut select) = Select::<$t>::new(gpu, verdict, N) {
            $( select.row(stringify!($how), N, half($median), Select::$how); )*
        }
    )* } }
    rows! {
        u8 u8::MAX / 2, select_if select_flagged;
        u16 u16::MAX / 2, select_if select_flagged;
        u32 u32::MAX / 2, select_if select_flagged;
        u64 u64::MAX / 2, select_if select_flagged;
        u128 u128::MAX / 2, select_flagged;
        f32 0.0, select_if;
        f16 f16::ZERO, select_if;
        f64 0.0, select_if;
    }
}

/// A bench with the additional buffers of a selection.
struct Select<'g, T> {
    bench: Bench<'g, T>,
    flags: CudaSlice<u8>,
    bits: CudaSlice<u32>,
    /// The rejected items of a partition.
    rejected: CudaSlice<T>,
    count: CudaSlice<u64>,
}

/// A row of the output.
struct Row<T> {
    what: String,
    n: usize,
    than: T,
}

impl<'g, T: Drawn + PartialOrd> Select<'g, T> {
    /// Allocates for up to `n` items.
    fn new(gpu: &'g Gpu, verdict: &'g Verdict, n: usize) -> Option<Self> {
        let bench = Bench::new(gpu, verdict, n)?;
        // SAFETY: every bit pattern is a valid value, and the buffers are written before they are
        // read.
        let buffers = told("device memory", unsafe {
            let stream = &gpu.stream;
            let bits = stream.alloc::<u32>(n.div_ceil(32));
            stream.alloc::<u8>(n).and_then(|flags| Ok((flags, bits?, stream.alloc::<T>(n)?, stream.alloc::<u64>(1)?)))
        });
        let (flags, bits, rejected, count) = verdict.note(&format!("{}, n {n}", T::NAME), buffers)?;
        Some(Select { bench, flags, bits, rejected, count })
    }

    /// Draws the items, then checks and times `run` on them.
    fn row(&mut self, name: &str, n: usize, share: Share<T>, run: fn(&mut Self, &Row<T>) -> Result<(), String>) {
        let row = Row { what: format!("{name}{}", share.suffix), n, than: share.than };
        let result = self.bench.draw(share.draw, n, 0).and_then(|()| run(self, &row));
        self.bench.verdict.note(&format!("{} {}, n {n}", row.what, T::NAME), result);
    }

    /// A trial against a function of `cub.cu`.
    fn trial<'r>(&mut self, row: &'r Row<T>, cub: &'static str) -> Result<Trial<'r, T>, String>
    where
        'g: 'r,
    {
        let copy = self.bench.copy(row.n)?;
        let Select { bench: Bench { gpu, input, output, kept, .. }, flags, rejected, count, .. } = self;
        let items = |memory: &CudaSlice<T>| memory.device_ptr(&gpu.stream).0;
        let at = At {
            input: items(input),
            flags: flags.device_ptr(&gpu.stream).0,
            output: items(output),
            rejected: items(rejected),
            kept: items(kept),
            count: count.device_ptr(&gpu.stream).0,
        };
        Ok(Trial { gpu, row, at, copy, cub, beside_cub: true, choice_bytes: 0, rejects: Rejects::Nowhere })
    }

    fn select_flagged(&mut self, row: &Row<T>) -> Result<(), String> {
        let drawn: Vec<u8> = self.bench.host.par_iter().map(|x| (*x > row.than).into()).collect();
        told("the flags", self.bench.gpu.stream.memcpy_htod(&drawn, &mut self.flags.slice_mut(..row.n)))?;
        self.bench.gpu.synchronize()?;
        let trial = Trial { choice_bytes: row.n, ..self.trial(row, "select_flagged")? };
        let Select { bench: Bench { workspace, input, output, host, .. }, flags, count, .. } = self;
        let flags = &*flags;
        told("prepare", compact::<T>().flags(flags).prepare(row.n, workspace))?;
        let (view, mut to) = (input.slice(..row.n), output.slice_mut(..row.n));
        let mut ours = || {
            let kept = compact::<T>().flags(flags);
            told("compact", kept.workspace(workspace).run_into(&view, &mut to, count))
        };
        trial.run(&mut ours, host, |i| host[i] > row.than)
    }
}

impl<T: Sample + Ordered> Select<'_, T>
where
    Above<T>: Predicate<T>,
{
    fn select_if(&mut self, row: &Row<T>) -> Result<(), String> {
        let trial = self.trial(row, "select_if")?;
        let Select { bench: Bench { workspace, input, output, host, .. }, count, .. } = self;
        let kept = compact::<T>().keep(Above(row.than));
        told("prepare", kept.prepare(row.n, workspace))?;
        let (view, mut to) = (input.slice(..row.n), output.slice_mut(..row.n));
        let mut ours = || told("compact", kept.workspace(workspace).run_into(&view, &mut to, count));
        trial.run(&mut ours, host, |i| host[i] > row.than)
    }

    /// CUB takes no bits. Its selection of the same items by predicate checks the result, and is
    /// not timed.
    fn select_bits(&mut self, row: &Row<T>) -> Result<(), String> {
        let word = |items: &[T]| items.iter().rev().fold(0, |word, x| word << 1 | u32::from(*x > row.than));
        let drawn: Vec<u32> = self.bench.host.par_chunks(32).map(word).collect();
        told("the bits", self.bench.gpu.stream.memcpy_htod(&drawn, &mut self.bits.slice_mut(..drawn.len())))?;
        self.bench.gpu.synchronize()?;
        let trial = Trial { choice_bytes: row.n.div_ceil(8), beside_cub: false, ..self.trial(row, "select_if")? };
        let Select { bench: Bench { workspace, input, output, host, .. }, bits, count, .. } = self;
        let bits = &*bits;
        told("prepare", compact::<T>().bits::<u32, _>(bits).prepare(row.n, workspace))?;
        let (view, mut to) = (input.slice(..row.n), output.slice_mut(..row.n));
        let mut ours = || {
            let kept = compact::<T>().bits::<u32, _>(bits);
            told("compact", kept.workspace(workspace).run_into(&view, &mut to, count))
        };
        trial.run(&mut ours, host, |i| host[i] > row.than)
    }

    fn partition_apart(&mut self, row: &Row<T>) -> Result<(), String> {
        let trial = Trial { rejects: Rejects::Apart, ..self.trial(row, "partition_if")? };
        let Select { bench: Bench { workspace, input, output, host, .. }, rejected, count, .. } = self;
        let parted = partition::<T>().keep(Above(row.than));
        told("prepare", parted.prepare(row.n, workspace))?;
        let view = input.slice(..row.n);
        let (mut to, mut others) = (output.slice_mut(..row.n), rejected.slice_mut(..row.n));
        let mut ours = || {
            let parted = parted.workspace(workspace);
            told("partition", parted.run_apart_into(&view, &mut to, &mut others, count))
        };
        trial.run(&mut ours, host, |i| host[i] > row.than)
    }

    /// CUB's partition is timed with `partition_apart`.
    fn partition_together(&mut self, row: &Row<T>) -> Result<(), String> {
        let trial = Trial { rejects: Rejects::Behind, beside_cub: false, ..self.trial(row, "partition_if")? };
        let Select { bench: Bench { workspace, input, output, host, .. }, count, .. } = self;
        let parted = partition::<T>().keep(Above(row.than));
        told("prepare", parted.prepare(row.n, workspace))?;
        let (view, mut to) = (input.slice(..row.n), output.slice_mut(..row.n));
        let mut ours = || told("partition", parted.workspace(workspace).run_into(&view, &mut to, count));
        trial.run(&mut ours, host, |i| host[i] > row.than)
    }

    fn unique(&mut self, row: &Row<T>) -> Result<(), String> {
        let trial = self.trial(row, "unique")?;
        let Select { bench: Bench { workspace, input, output, host, .. }, count, .. } = self;
        told("prepare", unique::<T>().prepare(row.n, workspace))?;
        let (view, mut to) = (input.slice(..row.n), output.slice_mut(..row.n));
        let mut ours = || told("unique", unique::<T>().workspace(workspace).run_into(&view, &mut to, count));
        trial.run(&mut ours, host, |i| i == 0 || host[i] != host[i - 1])
    }
}

/// The output of rejected items.
#[derive(Clone, Copy, PartialEq)]
enum Rejects {
    Nowhere,
    /// A buffer of their own.
    Apart,
    /// The output of the selected items, behind these.
    Behind,
}

/// Device addresses.
#[derive(Clone, Copy)]
struct At {
    input: CUdeviceptr,
    flags: CUdeviceptr,
    output: CUdeviceptr,
    rejected: CUdeviceptr,
    /// parascan's output, while `output` holds CUB's.
    kept: CUdeviceptr,
    count: CUdeviceptr,
}

/// The measurement of a row.
struct Trial<'r, T> {
    gpu: &'r Gpu,
    row: &'r Row<T>,
    at: At,
    /// Microseconds of a copy of the items.
    copy: f64,
    /// The function in `cub.cu`.
    cub: &'static str,
    /// Whether CUB is timed, or only compared with.
    beside_cub: bool,
    /// Bytes of flags or bits.
    choice_bytes: usize,
    rejects: Rejects,
}

impl<T: Drawn> Trial<'_, T> {
    fn bytes(&self) -> usize {
        self.row.n * size_of::<T>()
    }

    /// Checks and times parascan's call and CUB's. `keeps(i)` says whether item `i` of `host` is
    /// selected.
    fn run(&self, ours: &mut Run, host: &[T], keeps: impl Fn(usize) -> bool) -> Result<(), String> {
        let Trial { gpu, row, at, .. } = self;
        let stream = gpu.stream.cu_stream();
        let selection = Selection {
            input: at.input,
            flags: at.flags,
            than: (&raw const row.than).cast(),
            output: at.output,
            count: at.count,
            n: u32::try_from(row.n).map_err(|_| "more items than 32 bits count")?,
        };
        let cub = CubSelect::find(self.cub, T::NAME);
        // SAFETY: `than` is an item of the type.
        let needed = cub.map_or(Ok(0), |cub| unsafe { cub.temporary_bytes(&selection, stream) })?;
        // SAFETY: CUB writes it before it reads it.
        let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
        let temporary = (memory.device_ptr(&gpu.stream).0, needed);
        // SAFETY: `n` items, flags where they are read, and room for the result; the temporary
        // memory lives to the end of this function, which waits for the stream.
        let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, &selection, stream) });

        // CUB writes rejected items in reverse.
        let by_loop = row.n <= LOOP || theirs.is_none() || self.rejects != Rejects::Nowhere;
        let found = self.check_ours(ours, by_loop.then(|| plain(host, keeps)))?;
        if let Some(theirs) = &mut theirs {
            self.check_theirs(theirs, found)?;
        }

        let mut libraries = vec!["parascan"];
        let mut calls: Vec<Call> = vec![];
        calls.push(ours);
        if let Some(theirs) = theirs.as_mut().filter(|_| self.beside_cub) {
            libraries.push("cub");
            calls.push(theirs);
        }
        let bytes = self.bytes();
        let written = if self.rejects == Rejects::Nowhere { found * size_of::<T>() } else { bytes };
        let moved = bytes + self.choice_bytes + written;
        for (library, us) in libraries.iter().zip(gpu.medians(batches(bytes), &mut calls)?) {
            let of_copy = moved as f64 / us / (2.0 * bytes as f64 / self.copy);
            print(library, &row.what, T::NAME, row.n, us, moved, of_copy);
        }
        Ok(())
    }

    /// Runs parascan's call, copies its output to `kept`, and returns the number of selected items.
    /// Compares the output with `expected`, the selected and the rejected items, if given.
    fn check_ours(&self, ours: &mut Run, expected: Option<(Vec<T>, Vec<T>)>) -> Result<usize, String> {
        let Trial { gpu, row, at, rejects, .. } = self;
        // SAFETY: each address is of a buffer of at least as many bytes.
        let found = unsafe {
            self.poison(POISON.0)?;
            ours()?;
            gpu.copy(at.output, at.kept, self.bytes())?;
            gpu.read(at.count)?
        };
        if found > row.n as u64 {
            return Err(format!("{found} items are selected of {}", row.n));
        }
        if let Some((mut selected, rejected)) = expected {
            if found != selected.len() as u64 {
                return Err(format!("{found} items are selected, by a plain loop {}", selected.len()));
            }
            match rejects {
                Rejects::Nowhere => {}
                Rejects::Apart => self.compare(at.rejected, rejected, "a plain loop's rejected items")?,
                Rejects::Behind => selected.extend(rejected),
            }
            self.compare(at.kept, selected, "a plain loop")?;
        }
        Ok(found as usize)
    }

    /// Runs CUB's call and compares the selected items.
    fn check_theirs(&self, theirs: &mut Run, found: usize) -> Result<(), String> {
        let Trial { gpu, at, cub, .. } = self;
        // SAFETY: each address is of a buffer of at least as many bytes.
        unsafe {
            self.poison(POISON.1)?;
            theirs()?;
            let count = gpu.read(at.count)?;
            if count != found as u64 {
                return Err(format!("{found} items are selected, by CUB's {cub} {count}"));
            }
            let size = size_of::<T>();
            same(gpu.differ(at.kept, at.output, found * size)?, size, &format!("CUB's {cub}"))
        }
    }

    /// Compares `n` items with `expected`, which poison must follow.
    fn compare(&self, with: CUdeviceptr, mut expected: Vec<T>, other: &str) -> Result<(), String> {
        let Trial { gpu, row, .. } = self;
        let size = size_of::<T>();
        expected.resize(row.n, bytemuck::pod_read_unaligned(&[POISON.0; 16][..size]));
        let expected = told("the expected items", gpu.stream.clone_htod(&expected))?;
        // SAFETY: both buffers hold `n` items.
        let differences = unsafe { gpu.differ(with, expected.device_ptr(&gpu.stream).0, self.bytes()) }?;
        same(differences, size, other)
    }

    /// Fills the outputs with `byte`.
    ///
    /// # Safety
    /// The buffers have room for `n` items, and for the count.
    unsafe fn poison(&self, byte: u8) -> Result<(), String> {
        let At { output, rejected, count, .. } = self.at;
        for (at, bytes) in [(output, self.bytes()), (rejected, self.bytes()), (count, size_of::<u64>())] {
            // SAFETY: by the caller.
            unsafe { self.gpu.fill(at, byte, bytes) }?;
        }
        Ok(())
    }
}

/// The selected and the rejected items, by a plain loop.
fn plain<T: Copy>(items: &[T], keeps: impl Fn(usize) -> bool) -> (Vec<T>, Vec<T>) {
    let (mut selected, mut rejected) = (Vec::new(), Vec::new());
    for (i, &item) in items.iter().enumerate() {
        if keeps(i) { selected.push(item) } else { rejected.push(item) }
    }
    (selected, rejected)
}
