//! A number of items that lies in memory, beside one that the host knows.

use crate::bench::{Bench, Verdict, batches, print, same};
use crate::data::Draw;
use crate::gpu::{Gpu, told};
use parascan::cudarc::driver::DevicePtr;
use parascan::{Above, Sum, Workspace, compact, partition, reduce, scan, sort};

/// Scans, reductions, partitions and compactions of `f32`: all items that fit the memory, half of them, and few.
pub(crate) fn lengths(gpu: &Gpu, verdict: &Verdict) {
    each(gpu, verdict, false);
}

/// The same of scans, reductions and sorts by segment: offsets of segments of 64, head bits of segments of 16. And of
/// scans and reductions of rows of 64, and of 64 columns.
pub(crate) fn segments(gpu: &Gpu, verdict: &Verdict) {
    each(gpu, verdict, true);
}

fn each(gpu: &Gpu, verdict: &Verdict, by_segment: bool) {
    if let Some(mut bench) = Bench::<f32>::new(gpu, verdict, 1 << 28) {
        for most in [28, 24, 20, 16].map(|log| 1 << log) {
            for n in [most, most / 2, most / 64] {
                verdict.note(&format!("{n} items in memory for {most}"), rows(&mut bench, most, n, by_segment));
            }
        }
    }
}

/// Checks that the results of both calls are the same, and times both.
fn rows(bench: &mut Bench<f32>, most: usize, n: usize, by_segment: bool) -> Result<(), String> {
    bench.draw(Draw::Summands, most, 0)?;
    let copy = bench.copy(n)?;
    let Bench { gpu, input, output, kept, .. } = bench;
    let stream = &gpu.stream;
    let at = [kept.device_ptr(stream).0, output.device_ptr(stream).0];
    let length = told("a length", stream.clone_htod(&[n as u64]))?;
    let mut counts = [0, 1].map(|_| stream.alloc_zeros::<u64>(1).expect("some bytes"));
    let [known_count, read_count] = &mut counts;
    let (all, items) = (input.slice(..most), input.slice(..n));
    let mut workspaces = [Workspace::new(stream), Workspace::new(stream)];
    let [known, read] = &mut workspaces;

    // Times the calls `$known` and `$read`, which write `$bytes` bytes and must move `$moved`. `$prepared` items or
    // rows are prepared: `most`, unless it says otherwise.
    macro_rules! row {
        ($what:literal, $($rest:expr),*) => { row!(@most, $what, $($rest),*) };
        (@$prepared:expr, $what:literal, $builder:expr, $bytes:expr, $moved:expr, $known:expr, $read:expr) => {{
            let prepared = $builder.prepare($prepared, known);
            told("prepare", prepared.and_then(|()| $builder.len(&length).prepare($prepared, read)))?;
            let (mut by_host, mut by_memory) = (|| told($what, $known), || told($what, $read));
            // SAFETY: both arrays are as long.
            unsafe {
                at.into_iter().zip([0xa5, 0x5a]).try_for_each(|(at, byte)| gpu.fill(at, byte, $bytes))?;
                by_host()?;
                by_memory()?;
                same(gpu.differ(at[0], at[1], $bytes)?, 4, "the other")?;
            }
            let times = gpu.medians(batches($moved), &mut [&mut by_host, &mut by_memory])?;
            for (library, us) in ["parascan", "parascan_len"].iter().zip(times) {
                print(
                    library,
                    &format!("{}_of_{most}", $what),
                    "f32",
                    n,
                    us,
                    $moved,
                    copy * $moved as f64 / (8 * n) as f64 / us,
                );
            }
        }};
    }
    let (sum, total, order) = (scan::<Sum, f32>(), reduce::<Sum, f32>(), sort::<f32>());
    if by_segment {
        let ends: Vec<u32> = (0..=most / 64).map(|k| 64 * k as u32).collect();
        let (ends, heads) = (stream.clone_htod(&ends), stream.clone_htod(&vec![0x0001_0001_u32; most / 32]));
        let (ends, heads) = (told("offsets", ends)?, told("head bits", heads)?);
        let some = ends.slice(..n / 64 + 1);
        row!(
            "scan_segments",
            sum.segments(&ends),
            4 * n,
            8 * n + 4 * (n / 64),
            sum.segments(&some).workspace(known).run_into(&items, &mut kept.slice_mut(..n)),
            sum.segments(&ends).workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most))
        );
        row!(
            "reduce_segments",
            total.segments(&ends),
            4 * (n / 64),
            4 * n + 8 * (n / 64),
            total.segments(&some).workspace(known).run_into(&items, &mut kept.slice_mut(..n)),
            total.segments(&ends).workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most))
        );
        let (mut kept_runs, mut output_runs) = (kept.slice_mut(..most), output.slice_mut(..most));
        let runs = total.head_bits(&heads);
        row!(
            "reduce_runs",
            runs,
            4 * (n / 16),
            4 * n + n / 8 + 4 * (n / 16),
            runs.workspace(known).run_into(&items, &mut kept_runs, known_count),
            runs.workspace(read).len(&length).run_into(&all, &mut output_runs, read_count)
        );
        row!(
            "sort_segments",
            order.segments(&ends),
            4 * n,
            8 * n,
            order.segments(&some).workspace(known).run_into(&items, &mut kept.slice_mut(..n)),
            order.segments(&ends).workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most))
        );
        const COLUMNS: usize = 64;
        macro_rules! matrix {
            ($by:ident, $scan:literal, $reduce:literal, $prepared:expr, $results:expr) => {{
                let (sums, totals, results) = (sum.$by(COLUMNS), total.$by(COLUMNS), $results);
                row!(
                    @$prepared,
                    $scan,
                    sums,
                    4 * n,
                    8 * n,
                    sums.workspace(known).run_into(&items, &mut kept.slice_mut(..n)),
                    sums.workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most))
                );
                row!(
                    @$prepared,
                    $reduce,
                    totals,
                    4 * results(n),
                    4 * n + 4 * results(n),
                    totals.workspace(known).run_into(&items, &mut kept.slice_mut(..results(n))),
                    totals.workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..results(most)))
                );
            }};
        }
        matrix!(rows, "scan_rows", "reduce_rows", most, |items| items / COLUMNS);
        matrix!(columns, "scan_columns", "reduce_columns", most / COLUMNS, |_| COLUMNS);
        return Ok(());
    }
    row!(
        "scan",
        sum,
        4 * n,
        8 * n,
        sum.workspace(known).run_into(&items, &mut kept.slice_mut(..n)),
        sum.workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most))
    );
    row!(
        "reduce",
        total,
        4,
        4 * n,
        total.workspace(known).run_into(&items, &mut kept.slice_mut(..1)),
        total.workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..1))
    );
    let both = partition::<f32>().keep(Above(0.0));
    row!(
        "partition",
        both,
        4 * n,
        8 * n,
        both.workspace(known).run_into(&items, &mut kept.slice_mut(..n), known_count),
        both.workspace(read).len(&length).run_into(&all, &mut output.slice_mut(..most), read_count)
    );
    let positive = compact::<f32>().keep(Above(0.0));
    let (mut kept_items, mut output_items) = (kept.slice_mut(..most), output.slice_mut(..most));
    // About half of the items are positive. The first quarter of the selected ones is compared.
    row!(
        "compact",
        positive,
        4 * (n / 4),
        6 * n,
        positive.workspace(known).run_into(&items, &mut kept_items, known_count),
        positive.workspace(read).len(&length).run_into(&all, &mut output_items, read_count)
    );
    let selected = counts.map(|count| stream.clone_dtoh(&count).expect("a count")[0]);
    if selected[0] != selected[1] { Err(format!("{selected:?} items are selected")) } else { Ok(()) }
}
