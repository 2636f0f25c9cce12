//! Capture into a CUDA graph, and replays with new input each time. Each test runs in a process of
//! its own: other tests synchronise contexts, which the driver refuses while a stream of the context
//! is being captured.

use super::oracle;
use crate::common::process::is_alone;
use crate::common::{Rng, any, assert_same, context};
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::{Error, Last, Max, Sum, Workspace, reduce};

/// Reductions of several lengths share a workspace in one graph: a ticket left by one would show in
/// the next, or in the next replay.
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
    let (long, short) = ((9 << 20) + rng.below(1000), 40_000 + rng.below(1000));
    let mut workspace = Workspace::new(&stream);
    let (sum, max, last) = (reduce::<Sum, u32>().init(7), reduce::<Max, f32>(), reduce::<Last, u8>());
    sum.prepare(long, &mut workspace).unwrap();
    max.prepare(short, &mut workspace).unwrap();
    max.prepare_position(short, &mut workspace).unwrap();
    last.prepare(long, &mut workspace).unwrap();
    let held = workspace.bytes();

    let mut a = stream.alloc_zeros::<u32>(long).unwrap();
    let mut b = stream.alloc_zeros::<f32>(short).unwrap();
    let mut c = stream.alloc_zeros::<u8>(long).unwrap();
    let mut sums = stream.alloc_zeros::<u32>(2).unwrap();
    let mut greatest = stream.alloc_zeros::<f32>(1).unwrap();
    let mut place = stream.alloc_zeros::<u64>(1).unwrap();
    let mut final_bytes = stream.alloc_zeros::<u8>(3).unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    sum.workspace(&mut workspace).run_into(&a, &mut sums).unwrap();
    max.workspace(&mut workspace).run_into(&b, &mut greatest).unwrap();
    max.workspace(&mut workspace).position_into(&b, &mut place).unwrap();
    last.workspace(&mut workspace).run_into(&c.slice(..long - 1), &mut final_bytes.slice_mut(1..)).unwrap();
    sum.workspace(&mut workspace).run_into(&a.slice(1..short), &mut sums.slice_mut(1..)).unwrap();
    let refused = sum.workspace(&mut workspace).run(&a).unwrap_err();
    assert!(matches!(refused, Error::Capturing { primitive: "reduce", .. }), "{refused}");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");

    for replay in 0..12 {
        let (x, y, z) = (any::<u32>(&mut rng, long), any::<f32>(&mut rng, short), any::<u8>(&mut rng, long));
        stream.memcpy_htod(&x, &mut a).unwrap();
        stream.memcpy_htod(&y, &mut b).unwrap();
        stream.memcpy_htod(&z, &mut c).unwrap();
        for _ in 0..1 + replay % 3 {
            graph.launch().unwrap();
        }
        let expected = [oracle::<Sum, u32>(&x, Some(7)), oracle::<Sum, u32>(&x[1..short], Some(7))];
        assert_same(&stream.clone_dtoh(&sums).unwrap(), &expected, &replay);
        assert_same(&stream.clone_dtoh(&greatest).unwrap(), &[oracle::<Max, f32>(&y, None)], &replay);
        assert_eq!(stream.clone_dtoh(&place).unwrap(), [super::position::oracle::<Max, f32>(&y) as u64]);
        assert_same(&stream.clone_dtoh(&final_bytes).unwrap(), &[0, z[long - 2], 0], &replay);
    }
    // The workspace still serves calls outside of the graph.
    let x = stream.clone_dtoh(&a).unwrap();
    assert_eq!(sum.workspace(&mut workspace).run(&a).unwrap(), oracle::<Sum, u32>(&x, Some(7)));
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
}
