//! Reductions beside CUB's.

use crate::bench::{Bench, Verdict, batches, print, same};
use crate::cub::CubScan;
use crate::data::{Known, Sample};
use crate::gpu::{Call, Gpu, told};
use bytemuck::bytes_of;
use half::f16;
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{DevicePtr, result};
use parascan::operators::{ArgMax, Indexed};
use parascan::{Associativity, Max, Operator, Sum, reduce};

pub(crate) fn reductions(gpu: &Gpu, verdict: &Verdict) {
    if let Some(mut bench) = Bench::<f32>::new(gpu, verdict, 1 << 28) {
        for n in [28, 10, 16, 20, 24].map(|log| 1 << log) {
            row::<Sum, f32>(&mut bench, n);
        }
    }
    fn longest<Op: Known<T>, T: Sample>(gpu: &Gpu, verdict: &Verdict) {
        const N: usize = 1 << 28;
        if let Some(mut bench) = Bench::<T>::new(gpu, verdict, N) {
            row::<Op, T>(&mut bench, N);
        }
    }
    longest::<Sum, u8>(gpu, verdict);
    longest::<Sum, f16>(gpu, verdict);
    longest::<Max, u8>(gpu, verdict);
    longest::<Max, f16>(gpu, verdict);
    longest::<Max, i32>(gpu, verdict);
    longest::<ArgMax, Indexed<f32, u32>>(gpu, verdict);
    fn position<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Max: Known<T>,
    {
        const N: usize = 1 << 28;
        if let Some(mut bench) = Bench::<T>::new(gpu, verdict, N) {
            verdict.note(&format!("position of the maximum of {}", T::NAME), try_position(&mut bench, N));
        }
    }
    position::<u8>(gpu, verdict);
    position::<f16>(gpu, verdict);
    position::<f32>(gpu, verdict);
}

/// Checks and times the position of the maximum, CUB's, and a copy.
fn try_position<T: Sample>(bench: &mut Bench<T>, n: usize) -> Result<(), String>
where
    Max: Known<T>,
{
    let what = "position_max";
    bench.draw(<Max as Known<T>>::DRAW, n, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, workspace, input, output, kept, host, .. } = bench;
    let stream = gpu.stream.cu_stream();
    let (from, to, expected) =
        (input.device_ptr(&gpu.stream).0, output.device_ptr(&gpu.stream).0, kept.device_ptr(&gpu.stream).0);
    let join = |a: T, b: T| <Max as Operator<T>>::lower(Max::combine(Max::lift(a), Max::lift(b)));
    let mut first = 0;
    for (i, &x) in host.iter().enumerate() {
        if bytes_of(&join(host[first], x)) != bytes_of(&join(host[first], host[first])) {
            first = i;
        }
    }
    let mut index = told("an index", gpu.stream.clone_htod(&[first as u64]))?;
    // SAFETY: both arrays are longer than an index.
    told("a copy", unsafe { result::memcpy_dtod_async(expected, index.device_ptr(&gpu.stream).0, 8, stream) })?;

    let ours = reduce::<Max, T>();
    told("prepare_position", ours.prepare_position(n, workspace))?;
    let at = index.device_ptr(&gpu.stream).0;
    let view = input.slice(..n);
    let mut parascan = || told("position", ours.workspace(workspace).position_into(&view, &mut index));

    let results = Results { ours: at, theirs: to, expected, bytes: 8, is_exact: true };
    // SAFETY: `from` is `n` elements, and each result has room for an index.
    unsafe { measure(gpu, copy, what, (T::NAME, n, size_of::<T>()), from, results, &mut parascan) }
}

/// Checks and times a reduction by `Op`, CUB's, and a copy of the same length, and prints a row for
/// each.
fn row<Op: Known<T>, T: Sample>(bench: &mut Bench<T>, n: usize) {
    let (verdict, what) = (bench.verdict, format!("reduce_{}", Op::NAME));
    verdict.note(&format!("{what} {}, n {n}", T::NAME), try_row::<Op, T>(bench, n, &what));
}

fn try_row<Op: Known<T>, T: Sample>(bench: &mut Bench<T>, n: usize, what: &str) -> Result<(), String> {
    bench.draw(Op::DRAW, n, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, workspace, input, output, kept, host, .. } = bench;
    let size = size_of::<T>();
    let (from, to) = (input.device_ptr(&gpu.stream).0, output.device_ptr(&gpu.stream).0);
    let all = host.iter().map(|&x| Op::lift(x)).reduce(Op::combine).ok_or("no items")?;
    told("the expected value", gpu.stream.memcpy_htod(&[Op::lower(all)], &mut kept.slice_mut(..1)))?;
    let expected = kept.device_ptr(&gpu.stream).0;

    let ours = reduce::<Op, T>();
    told("prepare", ours.prepare(n, workspace))?;
    let (view, mut result) = (input.slice(..n), output.slice_mut(..1));
    let mut parascan = || told("reduce", ours.workspace(workspace).run_into(&view, &mut result));

    // CUB adds items out of order, and those sums may be inexact: it is timed, not compared.
    let is_exact = Op::ASSOCIATIVITY == Associativity::Exact;
    let results = Results { ours: to, theirs: to, expected, bytes: size, is_exact };
    // SAFETY: `from` is `n` elements, and each result has room for one.
    unsafe { measure(gpu, copy, what, (T::NAME, n, size), from, results, &mut parascan) }
}

/// Where the results of a reduction go, and whether CUB's must be the expected one.
struct Results {
    ours: CUdeviceptr,
    theirs: CUdeviceptr,
    expected: CUdeviceptr,
    bytes: usize,
    is_exact: bool,
}

/// Checks and times a call that reads `n` elements at `from`, and CUB's, and prints a row for each.
///
/// # Safety
/// `from` is `n` elements of the type, and each result has room for its bytes.
unsafe fn measure(
    gpu: &Gpu,
    copy: f64,
    what: &str,
    (of, n, size): (&str, usize, usize),
    from: CUdeviceptr,
    Results { ours, theirs: to, expected, bytes: result, is_exact }: Results,
    parascan: Call<'_>,
) -> Result<(), String> {
    let (stream, length) = (gpu.stream.cu_stream(), n as u32);
    let cub = CubScan::find(what, of);
    let needed = cub.map_or(Ok(0), |cub| cub.temporary_bytes(length, stream))?;
    // SAFETY: CUB writes it before it reads it.
    let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
    let temporary = (memory.device_ptr(&gpu.stream).0, needed);
    // SAFETY: the caller's. The temporary memory outlives the calls.
    let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, from, to, length, stream) });
    // SAFETY: the results have as many bytes.
    unsafe {
        gpu.fill(ours, 0xa5, result)?;
        parascan()?;
        same(gpu.differ(ours, expected, result)?, result, "a plain loop")?;
        if let Some(theirs) = &mut theirs {
            gpu.fill(to, 0x5a, result)?;
            theirs()?;
            if is_exact {
                same(gpu.differ(to, expected, result)?, result, "CUB and a plain loop")?;
            }
        }
    }
    let (mut libraries, mut calls, bytes) = (vec!["parascan"], vec![&mut *parascan as Call<'_>], n * size);
    if let Some(theirs) = &mut theirs {
        libraries.push("cub");
        calls.push(theirs);
    }
    let times = gpu.medians(batches(bytes), &mut calls)?;
    // SAFETY: as above.
    unsafe {
        gpu.fill(ours, 0xa5, result)?;
        calls[0]()?;
        same(gpu.differ(ours, expected, result)?, result, "a plain loop, at last")?;
    }
    for (library, us) in libraries.iter().zip(times) {
        // A copy moves twice as many bytes.
        print(library, what, of, n, us, bytes, copy / (2.0 * us));
    }
    Ok(())
}
