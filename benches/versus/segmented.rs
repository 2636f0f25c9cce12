//! Scans and reductions by segment, row, head flag and key beside CUB's, and by column.

use crate::bench::{Bench, Verdict, batches, print, same};
use crate::cub::{CubReduceByKey, CubSegmentedSum};
use crate::data::Draw;
use crate::gpu::{Call, Gpu, Run, told};
use parascan::cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use parascan::{Max, Sum, reduce, scan};
use rayon::prelude::*;

const N: usize = 1 << 28;
/// The length of the rows of a matrix.
const MATRIX: usize = 1 << 26;

pub(crate) fn segmented(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut bench) = Bench::<f32>::new(gpu, verdict, N) else { return };
    for log in [0, 2, 4, 6, 8, 12, 20, 28] {
        let offsets: Vec<u32> = (0..=N >> log).map(|k| (k << log) as u32).collect();
        lengths(&mut bench, N, &format!("of_{}", 1_u64 << log), &offsets, None);
        let ours = |bench: &mut Bench<f32>| rows(bench, N, 1 << log);
        verdict.note(&format!("rows of 2^{log}"), ours(&mut bench));
    }
    lengths(&mut bench, N, "of_0_to_32", &ascending(N, |k| noise(k) % 33), None);
    // One segment has half of all items.
    let half = N / 2 / 2048 / 2;
    lengths(&mut bench, N, "skewed", &ascending(N, |k| if k == half { N / 2 } else { noise(k) % 4096 }), None);
    for run in [1.33, 16.0, 1000.0] {
        verdict.note(&format!("runs of {run}"), runs(&mut bench, run));
    }
    for rows_of in [MATRIX, MATRIX / 64, MATRIX / 4096, MATRIX / 65536, MATRIX >> 20] {
        verdict.note(&format!("a matrix of rows of {rows_of}"), rows(&mut bench, MATRIX, rows_of));
    }
}

/// The cells of a sweep: the binary logarithms of segments and of their length.
pub(crate) fn cells() -> impl Iterator<Item = (u32, u32)> {
    const STEP: usize = 4;
    (0..=28).step_by(STEP).flat_map(|segments| (0..=28 - segments).step_by(STEP).map(move |length| (segments, length)))
}

/// The name of a cell's rows, behind that of the call.
pub(crate) fn cell((segments, length): (u32, u32)) -> String {
    format!("2^{segments}_of_2^{length}")
}

/// Scans and reductions of 1 to 2^28 segments of 1 to 2^28 items, by offsets and by rows.
pub(crate) fn sweep(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut bench) = Bench::<f32>::new(gpu, verdict, N) else { return };
    cells().for_each(|cell| equal(&mut bench, cell));
}

/// Scans and reductions of a cell's segments, by offsets and by rows.
fn equal(bench: &mut Bench<f32>, (segments, length): (u32, u32)) {
    let offsets: Vec<u32> = (0..=1_u32 << segments).map(|k| k << length).collect();
    lengths(bench, 1 << (segments + length), &cell((segments, length)), &offsets, Some(1 << length));
}

/// Scans and reductions of short inputs: few long segments by offsets and by rows, segments of random lengths by offsets,
/// and the same with one of half of all items.
pub(crate) fn short(gpu: &Gpu, verdict: &Verdict) {
    const LONGEST: u32 = 24;
    let Some(mut bench) = Bench::<f32>::new(gpu, verdict, 1 << LONGEST) else { return };
    for cell in [(0, 16), (0, 18), (0, 20), (0, 22), (4, 14), (4, 16), (4, 18), (6, 15), (7, 15), (8, 14)] {
        equal(&mut bench, cell);
    }
    for log in (14..=LONGEST).step_by(2) {
        let n = 1 << log;
        for most in [32, 512, 8192] {
            let random = |k| noise(k) % (most + 1);
            lengths(&mut bench, n, &format!("of_0_to_{most}"), &ascending(n, random), None);
            let half = ascending(n, |k| if k == 5 { n / 2 } else { random(k) });
            lengths(&mut bench, n, &format!("of_0_to_{most}_and_half"), &half, None);
        }
    }
}

/// Scans and reductions along the first axis of matrices.
pub(crate) fn columns(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut bench) = Bench::<f32>::new(gpu, verdict, MATRIX) else { return };
    for log in [0, 1, 2, 3, 4, 6, 8, 10, 13, 16, 20] {
        verdict.note(&format!("a matrix of 2^{log} columns"), by_column(&mut bench, 1 << log));
    }
}

/// Finalizer of SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) fn noise(i: usize) -> usize {
    let z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

/// Offsets of segments of these lengths, up to `n`.
pub(crate) fn ascending(n: usize, length: impl Fn(usize) -> usize) -> Vec<u32> {
    let mut offsets = vec![0];
    let mut end = 0;
    while end < n {
        end = n.min(end + length(offsets.len() - 1));
        offsets.push(end as u32);
    }
    offsets
}

pub(crate) fn of<T: DeviceRepr>(gpu: &Gpu, items: &[T]) -> Result<CudaSlice<T>, String> {
    let copy = told("device memory", gpu.stream.clone_htod(items))?;
    gpu.synchronize()?;
    Ok(copy)
}

/// The exclusive prefixes of each segment and its sum, by a plain loop for each segment.
fn plain(items: &[f32], offsets: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let mut prefixes = vec![0.0; items.len()];
    let mut slices = Vec::with_capacity(offsets.len());
    let mut rest = &mut prefixes[..];
    for pair in offsets.windows(2) {
        let (own, behind) = rest.split_at_mut((pair[1] - pair[0]) as usize);
        slices.push((pair[0] as usize, own));
        rest = behind;
    }
    let sums = slices.into_par_iter().map(|(first, prefixes)| {
        let mut sum = 0.0;
        for (prefix, item) in prefixes.iter_mut().zip(&items[first..]) {
            *prefix = sum;
            sum += item;
        }
        sum
    });
    let sums = sums.collect();
    (prefixes, sums)
}

/// Checks the calls' results and times them, and prints a row for each. CUB's results are compared
/// if it adds items in order.
///
/// # Safety
/// The call writes the buffer, which has at least as many elements as are expected.
unsafe fn row(
    bench: (&Gpu, u64),
    (what, n, moved): (&str, usize, usize),
    copy: f64,
    (expected, is_in_order): (&[f32], bool),
    calls: &mut [(&str, &mut Run)],
) -> Result<(), String> {
    let (gpu, to) = bench;
    let expected_in = of(gpu, expected)?;
    let expected_at = expected_in.device_ptr(&gpu.stream).0;
    let bytes = size_of_val(expected);
    for (library, call) in &mut *calls {
        // SAFETY: by the caller.
        unsafe {
            gpu.fill(to, 0xa5, bytes)?;
            call()?;
            // CUB adds items out of order, and those sums may be inexact: it is timed, not compared.
            if *library == "parascan" || is_in_order {
                same(gpu.differ(to, expected_at, bytes)?, 4, &format!("a plain loop ({library})"))?;
            }
        }
    }
    let (libraries, mut runs): (Vec<&str>, Vec<Call>) =
        calls.iter_mut().map(|(library, call)| (*library, &mut **call as Call)).unzip();
    let times = gpu.medians(batches(4 * n), &mut runs)?;
    // SAFETY: by the caller.
    unsafe {
        gpu.fill(to, 0xa5, bytes)?;
        runs[0]()?;
        same(gpu.differ(to, expected_at, bytes)?, 4, "a plain loop, at last")?;
    }
    for (library, us) in libraries.iter().zip(times) {
        // A copy of `N` elements moves 8 bytes each.
        print(library, what, "f32", n, us, moved, moved as f64 * copy / (8.0 * n as f64 * us));
    }
    Ok(())
}

/// Scan and reduce of segments of `n` items with these offsets, and by rows if all have `columns` items.
fn lengths(bench: &mut Bench<f32>, n: usize, name: &str, offsets: &[u32], columns: Option<usize>) {
    let verdict = bench.verdict;
    verdict.note(&format!("segments {name}"), try_lengths(bench, n, name, offsets, columns));
}

fn try_lengths(
    bench: &mut Bench<f32>,
    n: usize,
    name: &str,
    offsets: &[u32],
    columns: Option<usize>,
) -> Result<(), String> {
    bench.draw(Draw::Summands, n, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, workspace, input, output, host, .. } = bench;
    let segments = offsets.len() - 1;
    let (prefixes, sums) = plain(host, offsets);
    let offsets = of(gpu, offsets)?;
    let (from, to) = (input.device_ptr(&gpu.stream).0, output.device_ptr(&gpu.stream).0);
    let (stream, at) = (gpu.stream.cu_stream(), offsets.device_ptr(&gpu.stream).0);
    for is_scan in [true, false] {
        let call = if is_scan { "exclusive_sum" } else { "reduce_sum" };
        let view = input.slice(..n);
        let mut view_mut = output.slice_mut(..if is_scan { n } else { segments });
        // CUB's time by offsets serves both, except for its sums of rows.
        macro_rules! time {
            ($kind:literal, $cut:expr, $moved:expr, $cub:expr, $at:expr) => {{
                let (scan, reduce) = $cut;
                if is_scan {
                    told("prepare", scan.prepare(n, workspace))?;
                } else {
                    told("prepare", reduce.prepare(n, workspace))?;
                }
                let mut ours = || {
                    if is_scan {
                        told("scan", scan.workspace(workspace).run_into(&view, &mut view_mut))
                    } else {
                        told("reduce", reduce.workspace(workspace).run_into(&view, &mut view_mut))
                    }
                };
                let (cub, addresses): (Option<CubSegmentedSum>, _) = ($cub, [from, to, $at]);
                // SAFETY: the buffers are as long as the offsets say.
                let needed =
                    cub.map_or(Ok(0), |cub| unsafe { cub.temporary_bytes(addresses, segments as u32, stream) })?;
                // SAFETY: CUB writes it before it reads it.
                let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
                let temporary = (memory.device_ptr(&gpu.stream).0, needed);
                // SAFETY: as above; the temporary memory outlives the calls.
                let mut theirs =
                    cub.map(|cub| move || unsafe { cub.launch(temporary, addresses, segments as u32, stream) });
                let mut calls: Vec<(&str, &mut Run)> = vec![("parascan", &mut ours)];
                if let Some(theirs) = &mut theirs {
                    calls.push(("cub", theirs));
                }
                let (what, expected) = (format!("{}_{call}_{name}", $kind), if is_scan { &prefixes } else { &sums });
                // SAFETY: the output has `n` elements and more.
                unsafe { row((gpu, to), (&what, n, $moved), copy, (expected, is_scan), &mut calls)? };
            }};
        }
        let items = 4 * if is_scan { 2 * n } else { n + segments };
        let by_offsets = (scan::<Sum, f32>().segments(&offsets).exclusive(), reduce::<Sum, f32>().segments(&offsets));
        time!("segmented", by_offsets, items + 4 * segments, CubSegmentedSum::find(is_scan), at);
        if let Some(columns) = columns {
            let by_rows = (scan::<Sum, f32>().rows(columns).exclusive(), reduce::<Sum, f32>().rows(columns));
            time!("rows", by_rows, items, if is_scan { None } else { CubSegmentedSum::of_rows(columns) }, 0);
        }
    }
    Ok(())
}

/// Inclusive scans of `n` items in rows of `columns`: sum and maximum, and the sum of each row.
fn rows(bench: &mut Bench<f32>, n: usize, columns: usize) -> Result<(), String> {
    bench.draw(Draw::Summands, N, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, workspace, input, output, host, .. } = bench;
    let to = output.device_ptr(&gpu.stream).0;
    let view = input.slice(..n);
    let (mut sums, mut maxima, mut totals) = (vec![0.0; n], vec![0.0; n], vec![0.0; n / columns]);
    let rows = host[..n].par_chunks(columns).zip(sums.par_chunks_mut(columns));
    rows.zip(maxima.par_chunks_mut(columns)).zip(&mut totals).for_each(|(((items, sums), maxima), total)| {
        let (mut sum, mut most) = (0.0, f32::NEG_INFINITY);
        for ((item, upto), greatest) in items.iter().zip(sums).zip(maxima) {
            sum += item;
            most = item.max(most);
            (*upto, *greatest) = (sum, most);
        }
        *total = sum;
    });
    let mut view_mut = output.slice_mut(..n);
    macro_rules! time {
        ($call:expr, $what:literal, $moved:expr, $expected:expr) => {{
            let ours = $call;
            told("prepare", ours.prepare(n, workspace))?;
            let mut call = || told($what, ours.workspace(workspace).run_into(&view, &mut view_mut));
            let what = format!(concat!($what, "_{}"), columns);
            // SAFETY: the output has `N` elements.
            unsafe { row((gpu, to), (&what, n, $moved), copy, (&$expected, true), &mut [("parascan", &mut call)])? };
        }};
    }
    time!(scan::<Sum, f32>().rows(columns), "rows_sum_of", 8 * n, sums);
    time!(scan::<Max, f32>().rows(columns), "rows_max_of", 8 * n, maxima);
    time!(reduce::<Sum, f32>().rows(columns), "rows_reduce_sum_of", 4 * n + 4 * totals.len(), totals);
    Ok(())
}

/// Inclusive scans of the columns of a matrix: sum and maximum, and the sum of each column.
fn by_column(bench: &mut Bench<f32>, columns: usize) -> Result<(), String> {
    let copy = bench.copy(MATRIX)?;
    let Bench { gpu, workspace, input, output, .. } = bench;
    let to = output.device_ptr(&gpu.stream).0;
    // Differences of whole numbers along a column, so that the sum of any of its rows is exact.
    let whole = |i: usize| (noise(i) % 16_000_001) as f32 - 8_000_000.0;
    let host: Vec<f32> = (0..MATRIX).into_par_iter().map(|i| whole(i + columns) - whole(i)).collect();
    told("the input", gpu.stream.memcpy_htod(&host, &mut input.slice_mut(..MATRIX)))?;
    gpu.synchronize()?;
    let (mut sums, mut maxima) = (host.clone(), host);
    for i in columns..MATRIX {
        sums[i] += sums[i - columns];
        maxima[i] = maxima[i].max(maxima[i - columns]);
    }
    let totals = sums[MATRIX - columns..].to_vec();
    let view = input.slice(..MATRIX);
    let mut view_mut = output.slice_mut(..MATRIX);
    macro_rules! time {
        ($call:expr, $what:literal, $moved:expr, $expected:expr) => {{
            let ours = $call;
            told("prepare", ours.prepare(MATRIX / columns, workspace))?;
            let mut call = || told($what, ours.workspace(workspace).run_into(&view, &mut view_mut));
            let (what, n) = (format!(concat!($what, "_{}"), columns), MATRIX);
            // SAFETY: the output has `MATRIX` elements.
            unsafe { row((gpu, to), (&what, n, $moved), copy, (&$expected, true), &mut [("parascan", &mut call)])? };
        }};
    }
    time!(scan::<Sum, f32>().columns(columns), "columns_sum_of", 8 * MATRIX, sums);
    time!(scan::<Max, f32>().columns(columns), "columns_max_of", 8 * MATRIX, maxima);
    time!(reduce::<Sum, f32>().columns(columns), "columns_reduce_sum_of", 4 * MATRIX + 4 * columns, totals);
    Ok(())
}

/// Inclusive scans of runs of that mean length, by head flags and by keys, and the sum of each run.
fn runs(bench: &mut Bench<f32>, mean: f64) -> Result<(), String> {
    bench.draw(Draw::Summands, N, 0)?;
    let copy = bench.copy(N)?;
    let Bench { gpu, workspace, input, output, host, .. } = bench;
    let to = output.device_ptr(&gpu.stream).0;
    let flags: Vec<u8> = (0..N).into_par_iter().map(|i| u8::from(noise(i) as f64 * mean < u64::MAX as f64)).collect();
    let (mut keys, mut sums) = (vec![0_u32; N], vec![0.0; N]);
    let (mut key, mut sum) = (0, 0.0);
    for i in 0..N {
        key += u32::from(flags[i]);
        sum = if i == 0 || flags[i] != 0 { host[i] } else { sum + host[i] };
        (keys[i], sums[i]) = (key, sum);
    }
    let (is_head, host_keys): (Vec<bool>, _) = (flags.iter().map(|&flag| flag != 0).collect(), keys);
    let (flags, keys) = (of(gpu, &flags)?, of(gpu, &host_keys)?);
    let view = input.slice(..N);
    let mut view_mut = output.slice_mut(..N);
    macro_rules! time {
        ($call:expr, $what:literal, $moved:expr) => {{
            let ours = $call;
            told("prepare", ours.prepare(N, workspace))?;
            let mut call = || told($what, ours.workspace(workspace).run_into(&view, &mut view_mut));
            let what = format!(concat!($what, "_{}"), mean);
            // SAFETY: the output has `N` elements.
            unsafe { row((gpu, to), (&what, N, $moved), copy, (&sums, true), &mut [("parascan", &mut call)])? };
        }};
    }
    time!(scan::<Sum, f32>().heads(&flags), "heads_sum_of", 9 * N);
    time!(scan::<Sum, f32>().by_key(&keys), "by_key_sum_of", 12 * N);

    let ends = (0..N).filter(|&i| i + 1 == N || is_head[i + 1]);
    let totals: Vec<f32> = ends.map(|i| sums[i]).collect();
    let runs = totals.len();
    let mut count = told("a count", gpu.stream.clone_htod(&[0_u64]))?;
    let count_at = count.device_ptr(&gpu.stream).0;
    let counted = of(gpu, &[runs as u64])?;
    let is_counted = || {
        // SAFETY: both are 8 bytes.
        same(unsafe { gpu.differ(count_at, counted.device_ptr(&gpu.stream).0, 8)? }, 8, "the number of runs")
    };
    let reduce = reduce::<Sum, f32>();
    told("prepare", reduce.heads(&flags).prepare(N, workspace))?;
    let mut ours =
        || told("reduce", reduce.heads(&flags).workspace(workspace).run_into(&view, &mut view_mut, &mut count));
    let what = format!("heads_reduce_sum_of_{mean}");
    // SAFETY: the output has `N` elements.
    unsafe { row((gpu, to), (&what, N, 5 * N + 4 * runs), copy, (&totals, true), &mut [("parascan", &mut ours)])? };
    is_counted()?;
    told("zeros", gpu.stream.memset_zeros(&mut count))?;

    let mut keys_out = told("keys of runs", gpu.stream.alloc_zeros::<u32>(N))?;
    let addresses = [
        keys.device_ptr(&gpu.stream).0,
        view.device_ptr(&gpu.stream).0,
        keys_out.device_ptr(&gpu.stream).0,
        to,
        count_at,
    ];
    let by_key = reduce.by_key(&keys);
    let mut ours = || {
        let call = by_key.workspace(workspace);
        told("reduce", call.run_with_keys_into(&view, &mut keys_out, &mut view_mut, &mut count))
    };
    let (cub, stream) = (CubReduceByKey::find(), gpu.stream.cu_stream());
    // SAFETY: the buffers have `N` items.
    let needed = cub.map_or(Ok(0), |cub| unsafe { cub.launch((0, 0), addresses, N as u32, stream) })?;
    // SAFETY: CUB writes it before it reads it.
    let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
    let temporary = (memory.device_ptr(&gpu.stream).0, needed);
    // SAFETY: as above; the temporary memory outlives the calls.
    let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, addresses, N as u32, stream).map(|_| ()) });
    let mut calls: Vec<(&str, &mut Run)> = vec![("parascan", &mut ours)];
    if let Some(theirs) = &mut theirs {
        calls.push(("cub", theirs));
    }
    let what = format!("by_key_reduce_sum_of_{mean}");
    // SAFETY: the output has `N` elements.
    unsafe { row((gpu, to), (&what, N, 8 * N + 8 * runs), copy, (&totals, true), &mut calls)? };
    is_counted()?;
    told("zeros", gpu.stream.memset_zeros(&mut keys_out))?;
    let call = by_key.workspace(workspace);
    told("reduce", call.run_with_keys_into(&view, &mut keys_out, &mut view_mut, &mut count))?;
    is_counted()?;
    let expected: Vec<u32> = (0..N).filter(|&i| is_head[i] || i == 0).map(|i| host_keys[i]).collect();
    let found = told("the keys", gpu.stream.clone_dtoh(&keys_out.slice(..runs)))?;
    if found == expected { Ok(()) } else { Err("the keys of the runs differ".to_owned()) }
}
