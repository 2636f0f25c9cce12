//! Capture into a CUDA graph, and replays with new items and other segments each time. The test
//! runs in a process of its own: other tests synchronise contexts, which the driver refuses while a
//! stream of the context is being captured.

use super::*;
use crate::common::context;
use crate::common::process::is_alone;
use crate::common::segments::runs_oracle;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::{Last, Max, Sum, Workspace};

/// `count` random offsets of up to `n` items, many of them equal.
fn random_offsets(rng: &mut Rng, n: usize, count: usize) -> Segments {
    let places: Vec<usize> = (0..1 + rng.below(count)).map(|_| rng.below(n + 1)).collect();
    let mut offsets: Vec<usize> = (0..count).map(|_| places[rng.below(places.len())]).collect();
    offsets.sort_unstable();
    Segments { n, offsets }
}

#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let (n, count) = ((3 << 20) + rng.below(1000), 5000);
    let mut workspace = Workspace::new(&stream);
    let mut a = stream.alloc_zeros::<u32>(n).unwrap();
    let mut a_out = stream.alloc_zeros::<u32>(n).unwrap();
    let mut b = stream.alloc_zeros::<f32>(n).unwrap();
    let mut offsets = stream.alloc_zeros::<u32>(count).unwrap();
    let mut flags = stream.alloc_zeros::<u8>(n).unwrap();
    let mut sums = stream.alloc_zeros::<u32>(count - 1).unwrap();
    let mut lasts = stream.alloc_zeros::<u32>(count - 1).unwrap();
    let (mut runs, mut run_count) = (stream.alloc_zeros::<f32>(n).unwrap(), stream.alloc_zeros::<u64>(1).unwrap());

    let sum = scan::<Sum, u32>().exclusive().init(7).segments(&offsets);
    let max = scan::<Max, f32>().reverse().heads(&flags);
    let (total, last) = (reduce::<Sum, u32>().segments(&offsets), reduce::<Last, u32>().init(3).segments(&offsets));
    let greatest = reduce::<Max, f32>().heads(&flags);
    greatest.prepare(n, &mut workspace).unwrap();
    sum.prepare(n, &mut workspace).unwrap();
    max.prepare(n, &mut workspace).unwrap();
    total.prepare(n, &mut workspace).unwrap();
    last.prepare(n, &mut workspace).unwrap();
    let held = workspace.bytes();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    sum.workspace(&mut workspace).run_into(&a, &mut a_out).unwrap();
    greatest.workspace(&mut workspace).run_into(&b.slice(1..), &mut runs, &mut run_count).unwrap();
    max.workspace(&mut workspace).run_in_place(&mut b.slice_mut(1..)).unwrap();
    total.workspace(&mut workspace).run_into(&a, &mut sums).unwrap();
    last.workspace(&mut workspace).run_into(&a, &mut lasts).unwrap();
    let refused = total.workspace(&mut workspace).run(&a).unwrap_err();
    assert!(matches!(refused, Error::Capturing { primitive: "reduce", .. }), "{refused}");
    let flags_of_graph = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags_of_graph).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");

    for replay in 0..12 {
        let (x, y): (Vec<u32>, Vec<f32>) = (noise(&mut rng, n), data(&mut rng, Draw::Any, n));
        let segments = random_offsets(&mut rng, n, count);
        let flagged = Segments::draw(&mut rng, n - 1, lengths(8000)[replay], replay % 2 == 0);
        let mut heads = flagged.flags(&mut rng);
        heads.push(1); // longer than needed
        stream.memcpy_htod(&x, &mut a).unwrap();
        stream.memcpy_htod(&y, &mut b).unwrap();
        stream.memcpy_htod(&segments.offsets::<u32>(), &mut offsets).unwrap();
        stream.memcpy_htod(&heads, &mut flags).unwrap();
        graph.launch().unwrap();
        let options = Options { exclusive: true, init: Some(7), reverse: false };
        let expected = scan_oracle::<Sum, u32>(&x, &segments, options);
        assert_same(&stream.clone_dtoh(&a_out).unwrap(), &expected, &replay);
        let expected = runs_oracle::<Max, f32>(&y[1..], &flagged, None);
        let found = stream.clone_dtoh(&run_count).unwrap()[0] as usize;
        assert_same(&stream.clone_dtoh(&runs.slice(..found)).unwrap(), &expected, &replay);
        let options = Options { exclusive: false, init: None, reverse: true };
        let mut expected = scan_oracle::<Max, f32>(&y[1..], &flagged, options);
        expected.insert(0, y[0]);
        assert_same(&stream.clone_dtoh(&b).unwrap(), &expected, &replay);
        let expected = reduce_oracle::<Sum, u32>(&x, &segments, None, 0);
        assert_same(&stream.clone_dtoh(&sums).unwrap(), &expected, &replay);
        let expected = reduce_oracle::<Last, u32>(&x, &segments, Some(3), 0);
        assert_same(&stream.clone_dtoh(&lasts).unwrap(), &expected, &replay);
    }
}

/// Inputs of which a reduction cuts long segments into pieces. Replays have even segments, one segment of nine tenths,
/// descending offsets, and even segments again. The results of descending offsets may be any; nothing else changes.
#[test]
fn replays_of_short_inputs() {
    if !is_alone(replays_of_short_inputs) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    for bytes in [700_000, 6_000_000] {
        let (n, segments) = (bytes / size_of::<u32>() + rng.below(1000), 800);
        let mut input = stream.alloc_zeros::<u32>(n).unwrap();
        let mut offsets = stream.alloc_zeros::<u32>(segments + 1).unwrap();
        let [of_scan, of_reduce] = [n, segments].map(|room| Guarded::<u32>::room(&mut rng, 1, room));
        let [mut scanned, mut reduced] = [&of_scan, &of_reduce].map(|room| stream.clone_htod(&room.all).unwrap());
        let (sums, totals) = (scan::<Sum, u32>().segments(&offsets), reduce::<Sum, u32>().segments(&offsets));
        sums.prepare(n, &mut workspace).unwrap();
        totals.prepare(n, &mut workspace).unwrap();
        let held = workspace.bytes();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        let mut to = scanned.slice_mut(of_scan.items.clone());
        sums.workspace(&mut workspace).run_into(&input, &mut to).unwrap();
        let mut to = reduced.slice_mut(of_reduce.items.clone());
        totals.workspace(&mut workspace).run_into(&input, &mut to).unwrap();
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags).unwrap().expect("a graph");
        assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");

        let even: Vec<usize> = (0..=segments).map(|k| n * k / segments).collect();
        let half = segments / 2;
        let one = (0..=segments)
            .map(|k| if k <= half { n / 20 * k / half } else { n - n / 20 * (segments - k) / (half - 1) });
        let one: Vec<usize> = one.collect();
        let descending = even.iter().rev().copied().collect();
        for (replay, begins) in [even.clone(), one, descending, even].into_iter().enumerate() {
            let (x, in_order) = (noise::<u32>(&mut rng, n), begins.is_sorted());
            let segments = Segments { n, offsets: begins };
            stream.memcpy_htod(&x, &mut input).unwrap();
            stream.memcpy_htod(&segments.offsets::<u32>(), &mut offsets).unwrap();
            stream.memcpy_htod(&of_scan.all, &mut scanned).unwrap();
            stream.memcpy_htod(&of_reduce.all, &mut reduced).unwrap();
            graph.launch().unwrap();
            let (scanned, reduced) = (stream.clone_dtoh(&scanned).unwrap(), stream.clone_dtoh(&reduced).unwrap());
            let (mut sums, mut totals) = (scanned[1..=n].to_vec(), reduced[of_reduce.items.clone()].to_vec());
            if in_order {
                let options = Options { exclusive: false, init: None, reverse: false };
                sums = scan_oracle::<Sum, u32>(&x, &segments, options);
                totals = reduce_oracle::<Sum, u32>(&x, &segments, None, 0);
            }
            of_scan.assert_holds(&scanned, &sums, &(n, replay));
            of_reduce.assert_holds(&reduced, &totals, &(n, replay));
            assert_same(&stream.clone_dtoh(&input).unwrap(), &x, &(n, replay));
            assert_same(&stream.clone_dtoh(&offsets).unwrap(), &segments.offsets::<u32>(), &(n, replay));
        }
    }
}
