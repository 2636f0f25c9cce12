//! The raw entry point: addresses, lengths and a stream of the driver's.

use super::{STRATEGIES, assert_too_long};
use crate::common::{Draw, Rng, assert_same, data, stream};
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use parascan::{Error, Last, Operator, Scan, Strategy, Sum, scan};
use std::ptr::null_mut;

/// The address, for use on the buffer's own stream.
fn address<T>(slice: &mut CudaSlice<T>, stream: &CudaStream) -> CUdeviceptr {
    slice.device_ptr_mut(stream).0
}

#[track_caller]
fn assert_scratch(result: Result<(), Error>, bytes: usize, at: u64, least: usize) {
    let error = result.expect_err("the scratch memory cannot be used");
    let Error::Scratch { primitive, given, address, needed } = &error else { panic!("{error:?} should be Scratch") };
    assert_eq!((*primitive, *given, *address, *needed), ("scan", bytes, at, least));
    let words = format!(
        "scan: the scratch memory has {bytes} bytes at {at:#x}; {least} bytes are needed, at a multiple of 256 (of 16 for `run_raw`)"
    );
    assert_eq!(error.to_string(), words);
}

/// Bad lengths are refused before any call of the driver.
#[test]
fn refused_without_a_device() {
    const N: usize = 1 << 20;
    let strategies = STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]);
    for sum in strategies.map(|strategy| scan::<Sum, i32>().strategy(strategy)) {
        let needed = sum.scratch_bytes(N).unwrap();
        assert!(needed > 0);
        for (scratch, bytes) in [(0, 0), (4096, needed - 1), (4104, needed), (4097, needed + 4096)] {
            // SAFETY: refused for its scratch memory, before any address is used.
            let result = unsafe { sum.run_raw(4096, 4096, N, scratch, bytes, null_mut()) };
            assert_scratch(result, bytes, scratch, needed);
        }
        // SAFETY: as above, for its length.
        assert_too_long(unsafe { sum.run_raw(4096, 4096, usize::MAX, 4096, usize::MAX, null_mut()) }, usize::MAX);
    }
}

#[test]
fn nothing_is_written() {
    let stream = or_skip!(stream());
    let before: Vec<i32> = (0..100_000).collect();
    let mut x = stream.clone_htod(&before).unwrap();
    let mut memory = stream.alloc_zeros::<u8>(1 << 20).unwrap();
    let (x_at, scratch) = (address(&mut x, &stream), address(&mut memory, &stream));
    for (strategy, _) in STRATEGIES {
        let sum = scan::<Sum, i32>().strategy(strategy);
        let needed = sum.scratch_bytes(before.len()).unwrap();
        for (scratch, bytes) in [(scratch, needed - 1), (scratch + 8, needed), (scratch + 1, needed)] {
            // SAFETY: the memory is the buffer's; the scan is refused for its scratch memory.
            let result = unsafe { sum.run_raw(x_at, x_at, before.len(), scratch, bytes, stream.cu_stream()) };
            assert_scratch(result, bytes, scratch, needed);
        }
    }
    assert!(stream.clone_dtoh(&x).unwrap() == before);
    assert!(stream.clone_dtoh(&memory).unwrap().iter().all(|&byte| byte == 0));
}

/// One block of scratch memory through many scans of many lengths, in and out of place.
fn same_as_run<Op: Operator<T>, T: crate::common::Sample>(strategy: Strategy, builders: &[Scan<Op, T>]) {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let most = 300_000;
    let bytes = builders.iter().map(|builder| builder.strategy(strategy).scratch_bytes(most).unwrap()).max().unwrap();
    // Scans leave it zero, except the hierarchical one, which takes it in any state.
    let mut memory = stream.clone_htod(&vec![0u8; bytes]).unwrap();
    if matches!(strategy, Strategy::Hierarchical(_)) {
        memory = stream.clone_htod(&vec![0xa5u8; bytes]).unwrap();
    }
    let scratch = address(&mut memory, &stream);
    for round in 0..40 {
        let n = [1, 31, 3073, 1 + rng.below(20_000), 1 + rng.below(most), most][round % 6];
        let builder = builders[round % builders.len()].strategy(strategy);
        let x: Vec<T> = data(&mut rng, Draw::exact_for::<Op, T>(), n);
        let mut input = stream.clone_htod(&x).unwrap();
        let expected = stream.clone_dtoh(&builder.run(&input).unwrap()).unwrap();
        let what = (strategy, round, n);
        let from = address(&mut input, &stream);
        let got = if round % 2 == 0 {
            // SAFETY: n elements each and enough scratch memory, on this stream's device, whose
            // context `run` has made current. All of it outlives the copy below, which waits.
            unsafe { builder.run_raw(from, from, n, scratch, bytes, stream.cu_stream()) }.unwrap();
            stream.clone_dtoh(&input).unwrap()
        } else {
            let mut output = stream.clone_htod(&data::<T>(&mut rng, Draw::Any, n)).unwrap();
            let to = address(&mut output, &stream);
            // SAFETY: as above.
            unsafe { builder.run_raw(from, to, n, scratch, bytes, stream.cu_stream()) }.unwrap();
            assert_same(&stream.clone_dtoh(&input).unwrap(), &x, &("the input", what));
            stream.clone_dtoh(&output).unwrap()
        };
        assert_same(&got, &expected, &what);
        if !matches!(strategy, Strategy::Hierarchical(_)) {
            let left = stream.clone_dtoh(&memory).unwrap();
            assert!(left.iter().all(|&byte| byte == 0), "{what:?}: the scan left its scratch memory zero");
        }
    }
}

#[test]
fn scratch_memory_is_used_again() {
    let sum = scan::<Sum, f32>();
    let last = scan::<Last, u64>();
    for strategy in STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]) {
        same_as_run(
            strategy,
            &[sum, sum.exclusive(), sum.reverse(), sum.exclusive().init(5.0), sum.init(3.0).reverse()],
        );
        same_as_run(strategy, &[last, last.exclusive_from(7).reverse(), last.reverse()]);
    }
}

/// A scan of one tile needs no scratch memory.
#[test]
fn a_tile_needs_none() {
    let sum = scan::<Sum, i32>();
    assert_eq!(sum.scratch_bytes(1000).unwrap(), 0);
    let stream = or_skip!(stream());
    let mut x = stream.clone_htod(&[1; 1000]).unwrap();
    sum.run_in_place(&mut x).unwrap(); // makes the context current
    let at = address(&mut x, &stream);
    // SAFETY: 1000 elements in this stream's context, which is current.
    unsafe { sum.run_raw(at, at, 1000, 0, 0, stream.cu_stream()) }.unwrap();
    let expected: Vec<i32> = (1..=1000).map(|k| k * (k + 1) / 2).collect();
    assert_eq!(stream.clone_dtoh(&x).unwrap(), expected);
}
