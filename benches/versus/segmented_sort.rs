//! Sorts by segment beside CUB's DeviceSegmentedSort.

use crate::bench::{Bench, Verdict, batches, print, same};
use crate::cub::{CubSegmentedSort, Sorting};
use crate::data::Draw;
use crate::gpu::{Gpu, told};
use crate::segmented::{ascending, noise, of};
use parascan::cudarc::driver::{CudaSlice, DevicePtr};
use parascan::sort;
use rayon::prelude::*;

const N: usize = 1 << 26;
/// Of keys in segments of very unequal lengths.
const SKEWED: usize = 1 << 28;

pub(crate) fn sorts(gpu: &Gpu, verdict: &Verdict) {
    if let Some(mut bench) = Bench::<u32>::new(gpu, verdict, N) {
        for log in [4, 6, 8, 12, 20] {
            let offsets: Vec<u32> = (0..=N >> log).map(|k| (k << log) as u32).collect();
            segments(&mut bench, &format!("of_{}", 1_u64 << log), &offsets);
        }
        segments(&mut bench, "of_0_to_32", &ascending(N, |k| noise(k) % 33));
        segments(&mut bench, "of_0_to_10000", &ascending(N, |k| noise(k) % 10_001));
    }
    if let Some(mut bench) = Bench::<u32>::new(gpu, verdict, SKEWED) {
        // One segment has half of all keys.
        let half = SKEWED / 2 / 2048 / 2;
        let skewed = ascending(SKEWED, |k| if k == half { SKEWED / 2 } else { noise(k) % 4096 });
        segments(&mut bench, "skewed", &skewed);
    }
    if let Some(mut bench) = Bench::<f32>::new(gpu, verdict, N) {
        for draw in [Draw::Bits, Draw::Normal] {
            for rows in [64, 4096, 65536] {
                let result = argsort(&mut bench, N / rows, draw);
                verdict.note(&format!("argsort of {rows} rows"), result);
            }
        }
    }
}

/// Sorts of keys and pairs by these offsets.
fn segments(bench: &mut Bench<u32>, name: &str, offsets: &[u32]) {
    let verdict = bench.verdict;
    verdict.note(&format!("segments {name}"), try_segments(bench, name, offsets));
}

fn try_segments(bench: &mut Bench<u32>, name: &str, offsets: &[u32]) -> Result<(), String> {
    let n = offsets[offsets.len() - 1] as usize;
    bench.draw(Draw::Bits, n, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, workspace, input, output, host, .. } = bench;
    let (expected_keys, expected_sources) = plain(host, offsets);
    let segments = (offsets.len() - 1) as u32;
    let offsets = of(gpu, offsets)?;
    let values = of(gpu, &(0..n as u32).collect::<Vec<_>>())?;
    let mut sources = of(gpu, &vec![0_u32; n])?;
    let (expected_keys, expected_sources) = (of(gpu, &expected_keys)?, of(gpu, &expected_sources)?);
    let address = |memory: &CudaSlice<u32>| memory.device_ptr(&gpu.stream).0;
    let (stream, at) = (gpu.stream.cu_stream(), (address(&offsets), segments));
    let mut sorting = Sorting {
        keys: address(input),
        values: 0,
        keys_output: address(output),
        values_output: address(&sources),
        n: n as u64,
    };
    for with_values in [false, true] {
        let what = format!("segmented_sort_{}_{name}", if with_values { "pairs" } else { "keys" });
        let item = if with_values { 8 } else { 4 };
        let moved = 2 * item * n + 4 * segments as usize;
        let ours = sort::<u32>().segments::<u32, _>(&offsets);
        let prepared = if with_values { ours.prepare_pairs::<u32>(n, workspace) } else { ours.prepare(n, workspace) };
        told("prepare", prepared)?;
        let (keys, values) = (input.slice(..n), values.slice(..n));
        let (mut to, mut values_to) = (output.slice_mut(..n), sources.slice_mut(..n));
        let mut call = || {
            let ours = ours.workspace(workspace);
            let done = if with_values {
                ours.run_pairs_into::<u32, _, _, _, _>(&keys, &values, &mut to, &mut values_to)
            } else {
                ours.run_into(&keys, &mut to)
            };
            told("sort", done)
        };
        // SAFETY (of all in this block): the buffers have `n` items.
        unsafe {
            gpu.fill(sorting.keys_output, 0xa5, 4 * n)?;
            gpu.fill(sorting.values_output, 0xa5, 4 * n)?;
            call()?;
            same(gpu.differ(sorting.keys_output, address(&expected_keys), 4 * n)?, 4, "a plain sort")?;
            if with_values {
                same(gpu.differ(sorting.values_output, address(&expected_sources), 4 * n)?, 4, "a plain sort")?;
            }
        }
        let us = gpu.medians(batches(item * n), &mut [&mut call])?[0];
        let row =
            |library, us: f64| print(library, &what, "u32", n, us, moved, moved as f64 * copy / (8.0 * n as f64 * us));
        row("parascan", us);
        let Some(cub) = CubSegmentedSort::find() else { continue };
        sorting.values = if with_values { address_of(gpu, &values) } else { 0 };
        // SAFETY: the buffers are as long as the offsets say.
        let needed = unsafe { cub.temporary_bytes(&sorting, at, stream)? };
        // SAFETY: CUB writes it before it reads it.
        let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
        let temporary = (memory.device_ptr(&gpu.stream).0, needed);
        // SAFETY: as above; the temporary memory outlives the calls.
        let mut theirs = || unsafe { cub.launch(temporary, &sorting, at, stream) };
        // SAFETY: as above.
        unsafe { gpu.fill(sorting.keys_output, 0x5a, 4 * n)? };
        theirs()?;
        // SAFETY: as above.
        same(unsafe { gpu.differ(sorting.keys_output, address(&expected_keys), 4 * n)? }, 4, "a plain sort (cub)")?;
        row("cub", gpu.median_of_waiting(&mut theirs)?);
    }
    Ok(())
}

fn address_of(gpu: &Gpu, view: &impl DevicePtr<u32>) -> u64 {
    view.device_ptr(&gpu.stream).0
}

/// The sorted keys of each segment, and their source indices.
fn plain(keys: &[u32], offsets: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let mut pairs: Vec<u64> = keys.iter().enumerate().map(|(i, &key)| u64::from(key) << 32 | i as u64).collect();
    let (mut slices, mut rest) = (Vec::with_capacity(offsets.len()), &mut pairs[..]);
    for pair in offsets.windows(2) {
        let (own, behind) = rest.split_at_mut((pair[1] - pair[0]) as usize);
        slices.push(own);
        rest = behind;
    }
    slices.into_par_iter().for_each(<[u64]>::sort_unstable);
    pairs.into_iter().map(|pair| ((pair >> 32) as u32, pair as u32)).unzip()
}

/// The source indices of the keys of each row, in sorted order.
fn argsort(bench: &mut Bench<f32>, columns: usize, draw: Draw) -> Result<(), String> {
    bench.draw(draw, N, 0)?;
    let copy = bench.copy(N)?;
    let Bench { gpu, workspace, input, host, .. } = bench;
    let mut expected: Vec<u32> = (0..N).map(|i| (i % columns) as u32).collect();
    expected.par_chunks_mut(columns).zip(host.par_chunks(columns)).for_each(|(indices, keys)| {
        // NaNs with the sign set come last.
        let key = |i: u32| {
            let bits = keys[i as usize].to_bits();
            let total = if bits >> 31 != 0 { !bits } else { bits | 1 << 31 };
            total.wrapping_sub(0x7f_ffff)
        };
        indices.sort_by_key(|&i| key(i));
    });
    let expected = of(gpu, &expected)?;
    let mut indices = of(gpu, &vec![0_u32; N])?;
    let ours = sort::<f32>().rows(columns);
    told("prepare", ours.prepare_indices::<u32>(N, workspace))?;
    let keys = input.slice(..N);
    let to = indices.device_ptr(&gpu.stream).0;
    let mut call = || told("sort", ours.workspace(workspace).local_indices_into(&keys, &mut indices));
    call()?;
    // SAFETY: both have `N` items.
    same(unsafe { gpu.differ(to, expected.device_ptr(&gpu.stream).0, 4 * N)? }, 4, "a plain sort")?;
    let us = gpu.medians(batches(4 * N), &mut [&mut call])?[0];
    let of = if draw == Draw::Normal { "normal_" } else { "" };
    print("parascan", &format!("argsort_of_{of}rows_of_{columns}"), "f32", N, us, 8 * N, copy / us);
    Ok(())
}
