//! Another kernel holds nearly all of the card: a scan comes to its end meanwhile, and tiles that wait for each other do when it
//! is gone.

use super::{STRATEGIES, TEXTBOOK, any};
use crate::common::{Options, Rng, assert_same, context, oracle};
use crate::machines::process::is_alone;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use parascan::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use parascan::{Above, Sum, Workspace, partition, scan};
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A block of it takes all registers of a multiprocessor: they are loaded before the wait and used after it. The first word says when
/// to end, the last how many blocks are there.
const HOLD: &str = r#"
extern "C" __global__ void __launch_bounds__(1024, 1) hold(volatile unsigned *flag) {
    unsigned keep[56];
#pragma unroll
    for (int i = 0; i < 56; i++) keep[i] = flag[1 + i];
    if (threadIdx.x == 0) atomicAdd((unsigned *)flag + 63, 1);
    while (*flag == 0) {}
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < 56; i++) sum ^= keep[i] * (2 * i + 1);
    if (sum == 12345) *flag = 2;
}
"#;

/// What holds all multiprocessors but one.
struct Holder {
    kernels: Kernels,
    holding: Arc<CudaStream>,
    release: Arc<CudaStream>,
    flag: CudaSlice<u32>,
    blocks: u32,
}

impl Holder {
    fn new(context: &Arc<CudaContext>) -> Holder {
        let kernels = Kernels::compile(context, "hold", HOLD, &["hold"]).unwrap();
        let multiprocessors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap() as u32;
        let (holding, release) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let flag = release.alloc_zeros(64).unwrap();
        Holder { kernels, holding, release, flag, blocks: multiprocessors - 1 }
    }

    /// Returns when it holds them.
    fn hold(&mut self) {
        self.release.memset_zeros(&mut self.flag).unwrap();
        self.release.synchronize().unwrap();
        let address = self.flag.device_ptr(&self.release).0;
        let argument: *const c_void = std::ptr::from_ref(&address).cast();
        // SAFETY: the kernel takes one pointer, to 64 words that outlive it.
        unsafe { self.kernels.launch(0, self.blocks, 1024, self.holding.cu_stream(), &[argument]) }.unwrap();
        let there = || self.release.clone_dtoh(&self.flag).unwrap()[63];
        assert!(in_time(|| there() == self.blocks), "{} blocks of {}", there(), self.blocks);
    }

    fn release(&mut self) {
        self.release.memcpy_htod(&[1_u32], &mut self.flag.slice_mut(..1)).unwrap();
        self.release.synchronize().unwrap();
        self.holding.synchronize().unwrap();
    }
}

/// Whether it becomes so before long.
fn in_time(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Whether all that is on the stream ends before long.
fn ends(stream: &CudaStream) -> bool {
    let done = stream.record_event(None).unwrap();
    in_time(|| done.try_is_complete().unwrap())
}

#[test]
fn while_another_kernel_holds_the_card() {
    if !is_alone(while_another_kernel_holds_the_card) {
        return; // what other tests do would be held up too
    }
    let Some(context) = context() else { return };
    let (mut holder, stream) = (Holder::new(&context), context.new_stream().unwrap());
    let mut rng = Rng::new();
    for strategy in STRATEGIES.into_iter().chain(TEXTBOOK) {
        let x = any::<u64>(&mut rng, 3 << 20);
        let mut on_device = stream.clone_htod(&x).unwrap();
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u64>().strategy(strategy);
        sum.prepare(x.len(), &mut workspace).unwrap();
        stream.synchronize().unwrap();

        holder.hold();
        sum.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
        let finished = ends(&stream);
        holder.release();
        assert!(finished, "{strategy:?} made no progress");
        let expected = oracle::<Sum, u64>(&x, Options { exclusive: false, init: None, reverse: false });
        assert_same(&stream.clone_dtoh(&on_device).unwrap(), &expected, &strategy);
    }
}

/// Partitions into one buffer on two streams, whose tiles wait for each other and take most of a large card each: nothing refuses
/// them, the calls return, and when there is room they end.
#[test]
fn tiles_that_meet_wait_for_room() {
    if !is_alone(tiles_that_meet_wait_for_room) {
        return;
    }
    let Some(context) = context() else { return };
    let mut holder = Holder::new(&context);
    let mut rng = Rng::new();
    let parts = partition::<u32>().keep(Above(0x6000_0000));
    for n in [3 << 20, 1 << 20, 1 << 16] {
        let mut calls = [0, 1].map(|_| {
            let (stream, items) = (context.new_stream().unwrap(), any::<u32>(&mut rng, n));
            let mut workspace = Workspace::new(&stream);
            parts.prepare(n, &mut workspace).unwrap();
            let input = stream.clone_htod(&items).unwrap();
            let (output, count) = (stream.alloc_zeros::<u32>(n).unwrap(), stream.alloc_zeros::<u64>(1).unwrap());
            stream.synchronize().unwrap();
            (stream, workspace, items, input, output, count)
        });
        holder.hold();
        for (_, workspace, _, input, output, count) in &mut calls {
            parts.workspace(workspace).run_into(input, output, count).unwrap();
        }
        holder.release();
        for (stream, _, items, _, output, count) in &calls {
            assert!(ends(stream), "{n} items never found room");
            let (mut expected, others): (Vec<u32>, Vec<u32>) = items.iter().partition(|x| **x > 0x6000_0000);
            assert_eq!(stream.clone_dtoh(count).unwrap(), [expected.len() as u64], "{n}");
            expected.extend(others);
            assert_same(&stream.clone_dtoh(output).unwrap(), &expected, &n);
        }
    }
}
