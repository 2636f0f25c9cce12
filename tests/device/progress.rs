//! A scan comes to its end while another kernel holds nearly all of the card until the scan is done.

use super::{STRATEGIES, any};
use crate::common::{Options, Rng, assert_same, context, oracle};
use crate::machines::process::is_alone;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::DevicePtr;
use parascan::cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use parascan::{Sum, Workspace, scan};
use std::ffi::c_void;
use std::time::{Duration, Instant};

const HOLD: &str = r#"
extern "C" __global__ void __launch_bounds__(1024) hold(volatile unsigned *flag) {
    __shared__ volatile unsigned room[11 * 1024]; // so that the multiprocessor keeps much of its memory shared
    room[threadIdx.x] = 0;
    while (*flag == 0) {}
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
    for strategy in STRATEGIES {
        let x = any::<u64>(&mut rng, 3 << 20);
        let mut on_device = stream.clone_htod(&x).unwrap();
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u64>().strategy(strategy);
        sum.prepare(x.len(), &mut workspace).unwrap();
        let mut flag = release.alloc_zeros::<u32>(1).unwrap();
        release.synchronize().unwrap();
        stream.synchronize().unwrap();

        // Two blocks of 1024 threads fill a multiprocessor; room for three is left on the whole card.
        let address = flag.device_ptr(&release).0;
        let argument: *const c_void = std::ptr::from_ref(&address).cast();
        // SAFETY: the kernel takes one pointer, to four bytes that outlive it.
        unsafe { kernels.launch(0, 2 * multiprocessors - 3, 1024, holding.cu_stream(), &[argument]) }.unwrap();
        sum.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
        let done = stream.record_event(None).unwrap();
        let start = Instant::now();
        while !done.try_is_complete().unwrap() && start.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        let finished = done.try_is_complete().unwrap();
        release.memcpy_htod(&[1_u32], &mut flag).unwrap();
        release.synchronize().unwrap();
        holding.synchronize().unwrap();
        assert!(finished, "{strategy:?} made no progress");
        let expected = oracle::<Sum, u64>(&x, Options { exclusive: false, init: None, reverse: false });
        assert_same(&stream.clone_dtoh(&on_device).unwrap(), &expected, &strategy);
    }
}
