//! The number of kernels of a call, by the nodes of its graph.

use crate::common::context;
use crate::common::process::is_alone;
use parascan::cudarc::driver::CudaStream;
use parascan::cudarc::driver::sys::{
    self, CUgraphInstantiate_flags, CUgraphNode, CUgraphNodeType, CUstreamCaptureMode,
};
use parascan::{Above, Below, Error, Sum, Workspace, compact, offsets, partition, reduce, scan, unique};
use std::sync::Arc;

#[track_caller]
fn assert_kernels(stream: &Arc<CudaStream>, expected: usize, what: &str, call: impl FnOnce() -> Result<(), Error>) {
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    call().unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    let (mut nodes, mut count) = ([std::ptr::null_mut::<_>() as CUgraphNode; 8], 8);
    // SAFETY: `nodes` has room for `count` nodes; the graph is live.
    unsafe { sys::cuGraphGetNodes(graph.cu_graph(), nodes.as_mut_ptr(), &mut count) }.result().unwrap();
    for &node in &nodes[..count] {
        let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
        // SAFETY: the node belongs to the live graph.
        unsafe { sys::cuGraphNodeGetType(node, &mut kind) }.result().unwrap();
        assert_eq!(kind, CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL, "{what}");
    }
    assert_eq!(count, expected, "{what}");
}

/// A call is one launch at any length. Only a partition into one buffer of more items than the
/// device holds at once is two.
#[test]
fn one_launch() {
    if !is_alone(one_launch) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: there is one stream, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut workspace = Workspace::new(&stream);
    for (n, one_buffer) in [(1000, 1), (1 << 16, 1), (1 << 24, 2)] {
        let items = stream.alloc_zeros::<u32>(n).unwrap();
        let (mut output, mut other) = (items.clone(), items.clone());
        let mut wide = stream.alloc_zeros::<u64>(n).unwrap();
        let mut count = stream.alloc_zeros::<u64>(2).unwrap();
        let w = &mut workspace;

        let sum = scan::<Sum, u32>();
        sum.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "scan", || sum.workspace(w).run_into(&items, &mut output));
        let sum = reduce::<Sum, u32>();
        sum.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "reduce", || sum.workspace(w).run_into(&items, &mut output));
        let above = compact::<u32>().keep(Above(7));
        above.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "compact", || above.workspace(w).run_into(&items, &mut output, &mut count));
        let changes = unique::<u32>();
        changes.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "unique", || changes.workspace(w).run_into(&items, &mut output, &mut count));
        let starts = offsets::<u32, u64>();
        starts.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "offsets", || starts.workspace(w).run_into(&items, &mut wide, &mut count));
        let parts = partition::<u32>().keep(Above(7));
        parts.prepare(n, w).unwrap();
        assert_kernels(&stream, 1, "partition into two", || {
            parts.workspace(w).run_apart_into(&items, &mut output, &mut other, &mut count)
        });
        assert_kernels(&stream, one_buffer, "partition", || {
            parts.workspace(w).run_into(&items, &mut output, &mut count)
        });
        let three = parts.then(Below(3));
        three.prepare(n, w).unwrap();
        assert_kernels(&stream, one_buffer, "three parts", || {
            three.workspace(w).run_into(&items, &mut output, &mut count)
        });
    }
}
