//! Length zero is valid everywhere.

use super::STRATEGIES;
use crate::common::stream;
use parascan::cudarc::driver::CudaSlice;
use parascan::{Last, Scan, Strategy, Sum, Workspace, scan};

fn builders() -> [Scan<Sum, i32>; 6] {
    let sum = scan::<Sum, i32>();
    [sum, sum.exclusive(), sum.init(5), sum.exclusive().init(5), sum.reverse(), sum.exclusive().init(5).reverse()]
}

#[test]
fn on_the_host() {
    let x: [i32; 0] = [];
    for builder in builders() {
        assert_eq!(builder.run(&x).unwrap(), x);
        assert_eq!(builder.run(&Vec::new()).unwrap(), x);
        builder.run_into(&x, &mut []).unwrap();
        builder.run_in_place(&mut []).unwrap();
        let mut data = [7, 8];
        builder.run_in_place(&mut data[1..1]).unwrap();
        assert_eq!(data, [7, 8]);
        assert_eq!(builder.scratch_bytes(0).unwrap(), 0);
    }
    assert_eq!(scan::<Last, i32>().exclusive_from(1).run(&x).unwrap(), x);
}

/// An address of zero elements may be anything, and the driver is not called.
#[test]
fn at_raw_addresses() {
    for builder in builders() {
        // SAFETY: no elements are read or written.
        unsafe { builder.run_raw(0, 0, 0, 0, 0, std::ptr::null_mut()) }.unwrap();
    }
}

#[test]
fn on_the_device() {
    let stream = or_skip!(stream());
    let mut workspace = Workspace::new(&stream);
    let strategies = STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]);
    for builder in strategies.flat_map(|strategy| builders().map(|builder| builder.strategy(strategy))) {
        let mut data: CudaSlice<i32> = stream.clone_htod(&[7, 8]).unwrap();
        let input = stream.null::<i32>().unwrap();
        let mut output = stream.null::<i32>().unwrap();
        let results = [builder.run(&input), builder.on(&stream).run(&input), builder.run(&data.slice(1..1))];
        for result in results {
            assert_eq!(result.unwrap().len(), 0);
        }
        builder.run_into(&input, &mut output).unwrap();
        builder.run_into(&input, &mut data.slice_mut(1..1)).unwrap();
        builder.run_in_place(&mut output).unwrap();
        builder.run_in_place(&mut data.slice_mut(2..)).unwrap();
        builder.prepare(0, &mut workspace).unwrap();
        builder.workspace(&mut workspace).run_into(&input, &mut output).unwrap();
        builder.workspace(&mut workspace).run_in_place(&mut data.slice_mut(..0)).unwrap();
        assert_eq!(workspace.bytes(), 0, "nothing is needed");
        assert_eq!(stream.clone_dtoh(&data).unwrap(), [7, 8]);
    }
}
