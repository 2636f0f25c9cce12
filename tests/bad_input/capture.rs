//! A call that cannot be captured into a graph returns an error; the capture can then be ended and
//! the stream used.
//!
//! Each test runs in a process of its own: kernels must not be loaded yet, and other tests
//! synchronise contexts, which the driver refuses while a stream of the context is being captured.

use super::assert_capturing;
use crate::common::context;
use crate::common::process::is_alone;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode, CUstreamCaptureStatus};
use parascan::cudarc::driver::{CudaGraph, CudaSlice, CudaStream};
use parascan::{DeviceCode, Error, Operator, Sum, Workspace, scan};
use std::sync::Arc;

const PREPARE: &str = "call prepare(n, &mut workspace) before the capture and pass the workspace";

/// More than one tile, which needs memory for status words.
const N: usize = 100_000;

/// A stream that can be captured.
fn untracked() -> Option<Arc<CudaStream>> {
    let context = context()?;
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    Some(context.new_stream().expect("a stream"))
}

fn begin(stream: &CudaStream) {
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
}

/// The capture is still valid.
fn end(stream: &Arc<CudaStream>) -> CudaGraph {
    let status = stream.capture_status().unwrap();
    assert_eq!(status, CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    stream.end_capture(flags).expect("the capture ends").expect("a graph")
}

fn ones(stream: &Arc<CudaStream>, n: usize) -> CudaSlice<i32> {
    stream.clone_htod(&vec![1; n]).unwrap()
}

/// Neither the call nor a replay of the graph writes to `output`; then the same call works.
fn works_on(stream: &Arc<CudaStream>, graph: &CudaGraph, output: &mut CudaSlice<i32>) {
    let before = vec![-7; output.len()];
    assert!(stream.clone_dtoh(output).unwrap() == before, "nothing was written by the call");
    graph.launch().unwrap();
    assert!(stream.clone_dtoh(output).unwrap() == before, "nothing was captured");
    scan::<Sum, i32>().run_into(&ones(stream, output.len()), output).unwrap();
    assert!(stream.clone_dtoh(output).unwrap() == (1..=output.len() as i32).collect::<Vec<i32>>());
    stream.context().check_err().unwrap();
}

#[test]
fn without_a_workspace() {
    if !is_alone(without_a_workspace) {
        return;
    }
    let stream = or_skip!(untracked());
    let (input, mut output) = (ones(&stream, N), stream.clone_htod(&vec![-7; N]).unwrap());
    scan::<Sum, i32>().run(&input).unwrap(); // loads the kernels
    begin(&stream);
    let error = scan::<Sum, i32>().run_into(&input, &mut output).expect_err("it would allocate");
    assert_capturing(&error, "no workspace was given", PREPARE);
    let error = scan::<Sum, i32>().reverse().on(&stream).run_in_place(&mut output).expect_err("it would allocate");
    assert_capturing(&error, "no workspace was given", PREPARE);
    let graph = end(&stream);
    works_on(&stream, &graph, &mut output);
}

#[test]
fn with_a_workspace_that_is_too_small() {
    if !is_alone(with_a_workspace_that_is_too_small) {
        return;
    }
    let stream = or_skip!(untracked());
    let sum = scan::<Sum, i32>();
    // An empty workspace, and one prepared for less: its 64 KiB are enough for some millions.
    let longer = (0..).map(|k| N << k).find(|&n| sum.scratch_bytes(n).unwrap() > 1 << 16).expect("it grows with n");
    for (prepared, n) in [(0, N), (N, longer)] {
        let (input, mut output) = (ones(&stream, n), stream.clone_htod(&vec![-7; n]).unwrap());
        sum.run(&input).unwrap(); // loads the kernels
        let mut workspace = Workspace::new(&stream);
        sum.prepare(prepared, &mut workspace).unwrap();
        let held = workspace.bytes();
        assert_eq!(held > 0, prepared > 0);

        begin(&stream);
        let error = sum.workspace(&mut workspace).run_into(&input, &mut output).expect_err("it would allocate");
        assert_capturing(&error, "its workspace is too small", PREPARE);
        let graph = end(&stream);
        assert_eq!(workspace.bytes(), held, "nothing was allocated");
        works_on(&stream, &graph, &mut output);

        // The advice of the message works.
        sum.prepare(n, &mut workspace).unwrap();
        assert!(workspace.bytes() > held);
        let mut data = ones(&stream, n);
        begin(&stream);
        sum.workspace(&mut workspace).run_in_place(&mut data).unwrap();
        let graph = end(&stream);
        graph.launch().unwrap();
        assert!(stream.clone_dtoh(&data).unwrap() == (1..=n as i32).collect::<Vec<i32>>());
    }
}

/// An operator that no other test uses.
#[derive(Clone, Copy, Debug)]
struct Unloaded;
impl Operator<i32> for Unloaded {
    type Carry = i32;
    fn lift(x: i32) -> i32 {
        x
    }
    fn lower(x: i32) -> i32 {
        x
    }
    fn combine(a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    // SAFETY: a sum of unsigned integers, which wraps.
    const CUDA: DeviceCode<Self, i32> = unsafe { DeviceCode::new("int(0u + a + b)") };
}

#[test]
fn before_the_kernels_are_loaded() {
    if !is_alone(before_the_kernels_are_loaded) {
        return;
    }
    let stream = or_skip!(untracked());
    let (input, mut output) = (ones(&stream, N), stream.clone_htod(&vec![-7; N]).unwrap());
    let mut workspace = Workspace::new(&stream);
    // Enough memory, but prepared by another operator.
    scan::<Sum, i32>().prepare(N, &mut workspace).unwrap();
    begin(&stream);
    let own = scan::<Unloaded, i32>();
    let error = own.workspace(&mut workspace).run_into(&input, &mut output).expect_err("it would load its kernels");
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    // The same for a call that needs no memory.
    let error = own.run_into(&input.slice(..100), &mut output.slice_mut(..100)).expect_err("it would load its kernels");
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    let graph = end(&stream);
    works_on(&stream, &graph, &mut output);
}

#[test]
fn while_events_are_tracked() {
    if !is_alone(while_events_are_tracked) {
        return;
    }
    let stream = or_skip!(context().map(|context| context.new_stream().expect("a stream")));
    let (input, mut output) = (ones(&stream, N), stream.clone_htod(&vec![-7; N]).unwrap());
    let mut workspace = Workspace::new(&stream);
    scan::<Sum, i32>().prepare(N, &mut workspace).unwrap();
    begin(&stream);
    let errors = [
        scan::<Sum, i32>().workspace(&mut workspace).run_into(&input, &mut output),
        scan::<Sum, i32>().workspace(&mut workspace).reverse().run_in_place(&mut output.slice_mut(1..)),
        scan::<Sum, i32>().run_into(&input, &mut output),
    ];
    for error in errors.map(|result| result.expect_err("events from outside would be captured")) {
        let Error::EventTracking { primitive } = &error else { panic!("{error:?} should be EventTracking") };
        assert_eq!(*primitive, "scan");
        let words = error.to_string();
        assert!(words.contains("call CudaContext::disable_event_tracking before the buffers are allocated"), "{words}");
    }
    let graph = end(&stream);
    works_on(&stream, &graph, &mut output);
}

#[test]
fn what_allocates_by_its_nature() {
    if !is_alone(what_allocates_by_its_nature) {
        return;
    }
    let stream = or_skip!(untracked());
    let (input, mut output) = (ones(&stream, N), stream.clone_htod(&vec![-7; N]).unwrap());
    let mut workspace = Workspace::new(&stream);
    scan::<Sum, i32>().prepare(N, &mut workspace).unwrap();
    let held = workspace.bytes();
    begin(&stream);
    for result in [
        scan::<Sum, i32>().run(&input),
        scan::<Sum, i32>().on(&stream).run(&input.slice(..5)),
        scan::<Sum, i32>().workspace(&mut workspace).run(&input),
    ] {
        let error = result.expect_err("it would allocate its result");
        assert_capturing(&error, "run allocates its result; use run_into", "use run_into");
    }
    let error = scan::<Sum, i32>().prepare(2 * N, &mut workspace).expect_err("it would allocate");
    assert_capturing(&error, "prepare allocates", "before the capture");
    assert_eq!(workspace.bytes(), held);
    let graph = end(&stream);
    works_on(&stream, &graph, &mut output);
}
