//! Reductions beside CUB's.

use crate::bench::{Bench, Verdict, batches, print, same};
use crate::cub::CubScan;
use crate::data::{Known, Sample};
use crate::gpu::{Call, Gpu, told};
use half::f16;
use parascan::cudarc::driver::DevicePtr;
use parascan::operators::{ArgMax, Indexed};
use parascan::{Associativity, Max, Sum, reduce};

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
    let (stream, size) = (gpu.stream.cu_stream(), size_of::<T>());
    let (from, to) = (input.device_ptr(&gpu.stream).0, output.device_ptr(&gpu.stream).0);
    let all = host.iter().map(|&x| Op::lift(x)).reduce(Op::combine).ok_or("no items")?;
    told("the expected value", gpu.stream.memcpy_htod(&[Op::lower(all)], &mut kept.slice_mut(..1)))?;
    let expected = kept.device_ptr(&gpu.stream).0;

    let ours = reduce::<Op, T>();
    told("prepare", ours.prepare(n, workspace))?;
    let (view, mut result) = (input.slice(..n), output.slice_mut(..1));
    let mut parascan = || told("reduce", ours.workspace(workspace).run_into(&view, &mut result));

    let (cub, length) = (CubScan::find(what, T::NAME), n as u32);
    let needed = cub.map_or(Ok(0), |cub| cub.temporary_bytes(length, stream))?;
    // SAFETY: CUB writes it before it reads it.
    let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
    let temporary = (memory.device_ptr(&gpu.stream).0, needed);
    // SAFETY: `from` is `n` elements, `to` one or more. The temporary memory outlives the calls.
    let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, from, to, length, stream) });

    // SAFETY: the result and the expected value are one element each.
    unsafe {
        gpu.fill(to, 0xa5, size)?;
        parascan()?;
        same(gpu.differ(to, expected, size)?, size, "a plain loop")?;
        if let Some(theirs) = &mut theirs {
            gpu.fill(to, 0x5a, size)?;
            theirs()?;
            // CUB adds items out of order, and those sums may be inexact: it is timed, not compared.
            if Op::ASSOCIATIVITY == Associativity::Exact {
                same(gpu.differ(to, expected, size)?, size, "CUB and a plain loop")?;
            }
        }
    }

    let bytes = n * size;
    let mut libraries = vec!["parascan"];
    let mut calls: Vec<Call> = vec![&mut parascan];
    if let Some(theirs) = &mut theirs {
        libraries.push("cub");
        calls.push(theirs);
    }
    for (library, us) in libraries.iter().zip(gpu.medians(batches(bytes), &mut calls)?) {
        // A copy moves twice as many bytes.
        print(library, what, T::NAME, n, us, bytes, copy / (2.0 * us));
    }
    Ok(())
}
