//! A scan comes to its end while another kernel holds nearly all of the card until the scan is done.

use super::{STRATEGIES, TEXTBOOK, any};
use crate::common::{Options, Rng, assert_same, context, oracle};
use crate::machines::process::is_alone;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::DevicePtr;
use parascan::cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use parascan::{Sum, Workspace, scan};
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A block of it takes all registers of a multiprocessor: they are loaded before the wait and used after it.
const HOLD: &str = r#"
extern "C" __global__ void __launch_bounds__(1024, 1) hold(volatile unsigned *flag) {
    unsigned keep[56];
#pragma unroll
    for (int i = 0; i < 56; i++) keep[i] = flag[1 + i];
    while (*flag == 0) {}
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < 56; i++) sum ^= keep[i] * (2 * i + 1);
    if (sum == 12345) *flag = 2;
}
"#;

#[test]
fn while_another_kernel_holds_the_card() {
    if !is_alone(while_another_kernel_holds_the_card) {
        return; // what other tests do would be held up too
    }
    let Some(context) = context() else { return };
    let kernels = Kernels::compile(&context, "hold", HOLD, &["hold"]).unwrap();
    let multiprocessors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap() as u32;
    let (holding, stream, release) =
        (context.new_stream().unwrap(), context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut rng = Rng::new();
    for strategy in STRATEGIES.into_iter().chain(TEXTBOOK) {
        let x = any::<u64>(&mut rng, 3 << 20);
        let mut on_device = stream.clone_htod(&x).unwrap();
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u64>().strategy(strategy);
        sum.prepare(x.len(), &mut workspace).unwrap();
        let mut flag = release.alloc_zeros::<u32>(64).unwrap();
        release.synchronize().unwrap();
        stream.synchronize().unwrap();

        // One multiprocessor is left.
        let address = flag.device_ptr(&release).0;
        let argument: *const c_void = std::ptr::from_ref(&address).cast();
        // SAFETY: the kernel takes one pointer, to 57 words that outlive it.
        unsafe { kernels.launch(0, multiprocessors - 1, 1024, holding.cu_stream(), &[argument]) }.unwrap();
        sum.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
        let done = stream.record_event(None).unwrap();
        let start = Instant::now();
        while !done.try_is_complete().unwrap() && start.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let finished = done.try_is_complete().unwrap();
        release.memcpy_htod(&[1_u32], &mut flag.slice_mut(..1)).unwrap();
        release.synchronize().unwrap();
        holding.synchronize().unwrap();
        assert!(finished, "{strategy:?} made no progress");
        let expected = oracle::<Sum, u64>(&x, Options { exclusive: false, init: None, reverse: false });
        assert_same(&stream.clone_dtoh(&on_device).unwrap(), &expected, &strategy);
    }
}
