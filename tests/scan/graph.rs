//! Capture into a CUDA graph, and many replays with new input each time. Each test runs in a
//! process of its own: other tests synchronise contexts, which the driver refuses while a stream of
//! the context is being captured.

use crate::common::process::is_alone;
use crate::common::{Options, Rng, STRATEGIES, any, assert_same, context, oracle};
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::{Last, Max, Sum, Workspace, scan};

/// A long scan, a short one and one in place share a workspace in one graph: status words left by
/// one would show in the next, or in the next replay.
#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    for strategy in STRATEGIES {
        let stream = context.new_stream().unwrap();
        let mut rng = Rng::new();
        let (long, short) = ((5 << 20) + rng.below(1000), 40_000 + rng.below(1000));
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u64>().exclusive().init(7).strategy(strategy);
        let max = scan::<Max, f32>().reverse().strategy(strategy);
        let last = scan::<Last, u8>().strategy(strategy);
        sum.prepare(long, &mut workspace).unwrap();
        max.prepare(short, &mut workspace).unwrap();
        last.prepare(long, &mut workspace).unwrap();
        let held = workspace.bytes();

        let mut a = stream.alloc_zeros::<u64>(long).unwrap();
        let mut a_out = stream.alloc_zeros::<u64>(long).unwrap();
        let mut b = stream.alloc_zeros::<f32>(short).unwrap();
        let mut b_out = stream.alloc_zeros::<f32>(short).unwrap();
        let mut c = stream.alloc_zeros::<u8>(long).unwrap();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        sum.workspace(&mut workspace).run_into(&a, &mut a_out).unwrap();
        max.workspace(&mut workspace).run_into(&b, &mut b_out).unwrap();
        last.workspace(&mut workspace).run_in_place(&mut c.slice_mut(1..)).unwrap();
        max.workspace(&mut workspace).run_into(&b, &mut b_out).unwrap();
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let graph = stream.end_capture(flags).unwrap().expect("a graph");
        assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");

        for replay in 0..12 {
            let (x, y, z) = (any::<u64>(&mut rng, long), any::<f32>(&mut rng, short), any::<u8>(&mut rng, long));
            stream.memcpy_htod(&x, &mut a).unwrap();
            stream.memcpy_htod(&y, &mut b).unwrap();
            stream.memcpy_htod(&z, &mut c).unwrap();
            for _ in 0..1 + replay % 3 {
                stream.memcpy_htod(&z, &mut c).unwrap();
                graph.launch().unwrap();
            }
            let what = (strategy, replay);
            let expected = oracle::<Sum, u64>(&x, Options { exclusive: true, init: Some(7), reverse: false });
            assert_same(&stream.clone_dtoh(&a_out).unwrap(), &expected, &what);
            assert_same(
                &stream.clone_dtoh(&b_out).unwrap(),
                &oracle::<Max, f32>(&y, Options { exclusive: false, init: None, reverse: true }),
                &what,
            );
            let last = stream.clone_dtoh(&c).unwrap();
            assert_same(
                &last[1..],
                &oracle::<Last, u8>(&z[1..], Options { exclusive: false, init: None, reverse: false }),
                &what,
            );
            assert_eq!(last[0], z[0]);
        }
        // The workspace still serves calls outside of the graph.
        let x = stream.clone_dtoh(&a).unwrap();
        sum.workspace(&mut workspace).run_in_place(&mut a).unwrap();
        let expected = oracle::<Sum, u64>(&x, Options { exclusive: true, init: Some(7), reverse: false });
        assert_same(&stream.clone_dtoh(&a).unwrap(), &expected, &strategy);
    }
}

/// A graph keeps its memory after the workspace has grown.
#[test]
fn a_workspace_that_grew() {
    if !is_alone(a_workspace_that_grew) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let n = 300_000;
    let mut workspace = Workspace::new(&stream);
    let max = scan::<Max, i32>();
    max.prepare(n, &mut workspace).unwrap();
    let x = any::<i32>(&mut rng, n);
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<i32>(n).unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    max.workspace(&mut workspace).run_into(&input, &mut output).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");

    let longer = any::<i32>(&mut rng, 40 << 20);
    let mut data = stream.clone_htod(&longer).unwrap();
    let before = workspace.bytes();
    max.workspace(&mut workspace).run_in_place(&mut data).unwrap();
    assert!(workspace.bytes() > before, "it had to grow");
    graph.launch().unwrap();
    max.workspace(&mut workspace).run_in_place(&mut data).unwrap();
    graph.launch().unwrap();
    let plain = Options { exclusive: false, init: None, reverse: false };
    assert_same(&stream.clone_dtoh(&output).unwrap(), &oracle::<Max, i32>(&x, plain), &"replayed");
    assert_same(&stream.clone_dtoh(&data).unwrap(), &oracle::<Max, i32>(&longer, plain), &"grown");
}
