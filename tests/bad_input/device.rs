//! Device data.

use super::{STRATEGIES, assert_length, assert_too_long};
use crate::common::stream;
use parascan::cudarc::driver::{CudaContext, CudaStream};
use parascan::{
    Error, NonZero, Strategy, Sum, Workspace, compact, cuda, expand, offsets, pack, partition, reduce, scan, sort,
};
use std::sync::Arc;

#[test]
fn lengths_that_differ() {
    let stream = or_skip!(stream());
    let mut workspace = Workspace::new(&stream);
    let strategies = STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]);
    for strategy in strategies {
        let sum = scan::<Sum, i32>().strategy(strategy);
        for (n, m) in [(3usize, 4usize), (4, 3), (0, 1), (1, 0), (100_000, 99_999), (100_000, 100_001)] {
            let x = stream.clone_htod(&vec![1; 100_001]).unwrap();
            let before = vec![-7; 100_001];
            let mut output = stream.clone_htod(&before).unwrap();
            let (x, mut view) = (x.slice(..n), output.slice_mut(..m));
            assert_length(sum.run_into(&x, &mut view), (n, m));
            assert_length(sum.exclusive().init(5).run_into(&x, &mut view), (n, m));
            assert_length(sum.reverse().on(&stream).run_into(&x, &mut view), (n, m));
            assert_length(sum.workspace(&mut workspace).run_into(&x, &mut view), (n, m));
            assert!(stream.clone_dtoh(&output).unwrap() == before, "nothing was written");
        }
    }
    assert_eq!(workspace.bytes(), 0, "nothing was allocated");
}

#[test]
fn more_than_can_be_counted() {
    let stream = or_skip!(stream());
    let mut workspace = Workspace::new(&stream);
    for n in [usize::MAX, 1 << 60] {
        assert_too_long(scan::<Sum, i32>().prepare(n, &mut workspace), n);
        for (strategy, _) in STRATEGIES {
            assert_too_long(scan::<Sum, u64>().strategy(strategy).prepare(n, &mut workspace), n);
        }
    }
    assert_eq!(workspace.bytes(), 0, "nothing was allocated");
}

/// The unit lacks the named kernel.
#[test]
fn what_the_driver_refuses() {
    let stream = or_skip!(stream());
    let source = "extern \"C\" __global__ void one() {}";
    let error = match cuda::Kernels::compile(stream.context(), "some kernels", source, &["one", "two"]) {
        Err(e @ Error::NoCompiler { .. }) => return super::compile::skip(&e),
        result => result.expect_err("there is only one"),
    };
    let Error::Driver { call, code, device } = &error else { panic!("{error:?} should be Driver") };
    assert_eq!((*call, *device), ("cuLibraryGetKernel", 0));
    assert_eq!(error.to_string(), format!("cuLibraryGetKernel failed with {code:?} on device 0"));
}

/// A launch of a kernel that was not named.
#[test]
fn no_such_kernel() {
    let stream = or_skip!(stream());
    let source = "extern \"C\" __global__ void one() {}";
    let kernels = match cuda::Kernels::compile(stream.context(), "a kernel", source, &["one"]) {
        Err(e @ Error::NoCompiler { .. }) => return super::compile::skip(&e),
        result => result.unwrap(),
    };
    for index in [1, 2, usize::MAX] {
        // SAFETY: no kernel is launched.
        let error = unsafe { kernels.launch(index, 1, 32, stream.cu_stream(), &[]) }.expect_err("there is only one");
        assert!(matches!(error, Error::NoKernel { index: asked, kernels: 1 } if asked == index), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!("there is no kernel {index}: kernels are numbered from 0, and 1 were loaded")
        );
    }
    // SAFETY: the kernel has no arguments; the stream's context was made current by `compile`.
    unsafe { kernels.launch(0, 1, 32, stream.cu_stream(), &[]) }.unwrap();
    stream.synchronize().unwrap();
}

fn second_device() -> Option<(Arc<CudaStream>, Arc<CudaStream>)> {
    let first = stream()?;
    match cuda::context(1) {
        Ok(second) => Some((first, second.new_stream().unwrap())),
        Err(Error::NoDevice { reason }) => {
            eprintln!("skipped, one GPU only: {reason}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[track_caller]
fn assert_wrong_device<V: std::fmt::Debug>(result: Result<V, Error>, argument: &str, devices: (usize, usize)) {
    let error = result.expect_err("that is another device");
    let Error::WrongDevice { primitive, what, found, expected } = &error else {
        panic!("{error:?} should be WrongDevice")
    };
    assert_eq!((*primitive, *what, (*found, *expected)), ("scan", argument, devices));
    let (found, expected) = devices;
    let words = format!("scan: {argument} belongs to device {found}, the work to device {expected}");
    assert_eq!(error.to_string(), words);
}

#[test]
fn memory_of_another_device() {
    let (first, second) = or_skip!(second_device());
    let before = vec![1; 5000];
    let mut a = first.clone_htod(&before).unwrap();
    let mut b = second.clone_htod(&before).unwrap();
    let mut of_second = Workspace::new(&second);
    let sum = scan::<Sum, i32>();
    // Without the caller's stream the work goes to the input's.
    assert_wrong_device(sum.run_into(&a, &mut b), "the output", (1, 0));
    assert_wrong_device(sum.run_into(&b, &mut a), "the output", (0, 1));
    assert_wrong_device(sum.on(&first).run_into(&b, &mut a), "the input", (1, 0));
    assert_wrong_device(sum.on(&second).run(&a), "the input", (0, 1));
    assert_wrong_device(sum.on(&second).run_in_place(&mut a), "the output", (0, 1));
    assert_wrong_device(sum.workspace(&mut of_second).run_in_place(&mut a), "the output", (0, 1));
    assert!(first.clone_dtoh(&a).unwrap() == before, "nothing was written");
    assert!(second.clone_dtoh(&b).unwrap() == before, "nothing was written");
    let items = first.clone_htod(&[7_u32; 5000]).unwrap();
    let (offsets, length) = (second.clone_htod(&[0_u32, 5000]).unwrap(), second.clone_htod(&[9_u64]).unwrap());
    assert_wrong_device(scan::<Sum, u32>().segments(&offsets).run(&items), "the segments", (1, 0));
    assert_wrong_device(scan::<Sum, u32>().len(&length).run(&items), "the length", (1, 0));
    // Each error alone.
    sum.run_in_place(&mut a).unwrap();
    sum.workspace(&mut of_second).run_in_place(&mut b).unwrap();
    let expected: Vec<i32> = (1..=5000).collect();
    assert!(first.clone_dtoh(&a).unwrap() == expected);
    assert!(second.clone_dtoh(&b).unwrap() == expected);
}

#[test]
fn one_context_for_all_who_ask() {
    if stream().is_none() {
        return;
    }
    let (a, b) = (cuda::context(0).unwrap(), cuda::context(0).unwrap());
    assert!(Arc::ptr_eq(&a, &b));
    // A new stream puts the context into cudarc's mode of many streams, which orders the uses of a
    // buffer.
    let stream = a.new_stream().unwrap();
    let mut x = b.default_stream().clone_htod(&vec![1; 100_000]).unwrap();
    scan::<Sum, i32>().on(&stream).run_in_place(&mut x).unwrap();
    assert!(b.default_stream().clone_dtoh(&x).unwrap() == (1..=100_000).collect::<Vec<_>>());
}

#[track_caller]
fn assert_wrong_context<V: std::fmt::Debug>(result: Result<V, Error>, name: &str, argument: &str) {
    let error = result.expect_err("that is another context");
    let Error::WrongContext { primitive, what, device: 0 } = &error else { panic!("{error:?} should be WrongContext") };
    assert_eq!((*primitive, *what), (name, argument));
    assert!(error.to_string().starts_with(&format!("{name}: {argument} belongs to another CudaContext of device 0")));
}

/// A second object of the primary context, with its own count of streams, and a context of its own.
#[test]
fn memory_of_another_context() {
    let first = or_skip!(stream());
    let another_object = CudaContext::new(0).unwrap();
    let another_context = CudaContext::new_non_primary(0, 0).unwrap();
    for second in [another_object, another_context].map(|context| context.new_stream().unwrap()) {
        let before: Vec<u32> = (0..5000).map(|i| i * 7 % 11).collect();
        let mut a = first.clone_htod(&before).unwrap();
        let mut b = second.clone_htod(&before).unwrap();
        let mut count = first.alloc_zeros::<u64>(1).unwrap();
        let mut of_second = Workspace::new(&second);
        let sum = scan::<Sum, u32>();
        assert_wrong_context(sum.run_into(&a, &mut b), "scan", "the output");
        assert_wrong_context(sum.on(&second).run(&a), "scan", "the input");
        assert_wrong_context(sum.on(&second).run_in_place(&mut a), "scan", "the output");
        assert_wrong_context(sum.workspace(&mut of_second).run_in_place(&mut a), "scan", "the output");
        let kept = compact::<u32>().keep(NonZero);
        assert_wrong_context(kept.run_into(&a, &mut b, &mut count), "compact", "an output");
        assert_wrong_context(compact::<u32>().keep(NonZero).on(&second).run(&a), "compact", "an input");
        let parts = partition::<u32>().keep(NonZero).run_into(&a, &mut b, &mut count);
        assert_wrong_context(parts, "partition", "an output");
        assert_wrong_context(sort::<u32>().on(&second).run_in_place(&mut a), "sort", "the keys");
        assert_wrong_context(offsets::<u32, u64>().on(&second).run(&a), "offsets", "the sizes");
        assert_wrong_context(expand::<u32>().on(&second).run::<u32, _>(&a), "expand", "the offsets");
        let lengths = second.clone_htod(&[2_u32]).unwrap();
        let begins = first.clone_htod(&[0_u64]).unwrap();
        let packed = pack::<u32, u64>().run(&a, &begins, &lengths);
        assert!(matches!(packed, Err(Error::WrongContext { primitive: "pack", .. })), "{:?}", packed.map(drop));
        // What says where segments begin, and the number of items.
        let cuts = second.clone_htod(&[0_u32, 1000, 5000]).unwrap();
        let flags = second.clone_htod(&[1_u8; 5000]).unwrap();
        let words = second.clone_htod(&[7_u32; 157]).unwrap();
        let length = second.clone_htod(&[9_u64]).unwrap();
        let total = reduce::<Sum, u32>();
        let keys = sort::<u32>();
        assert_wrong_context(sum.segments(&cuts).run(&a), "scan", "the segments");
        assert_wrong_context(sum.heads(&flags).run_in_place(&mut a), "scan", "the segments");
        assert_wrong_context(sum.head_bits(&words).run(&a), "scan", "the segments");
        assert_wrong_context(sum.by_key::<u32, _>(&b).run(&a), "scan", "the segments");
        assert_wrong_context(total.segments(&cuts).run(&a), "reduce", "the segments");
        assert_wrong_context(total.heads(&flags).run(&a), "reduce", "the segments");
        assert_wrong_context(keys.segments(&cuts).run(&a), "sort", "the segments");
        assert_wrong_context(keys.heads(&flags).run_in_place(&mut a), "sort", "the segments");
        assert_wrong_context(sum.len(&length).run(&a), "scan", "the length");
        assert_wrong_context(sum.rows(10).len(&length).run(&a), "scan", "the length");
        assert_wrong_context(sum.columns(10).len(&length).run(&a), "scan", "the length");
        assert_wrong_context(total.len(&length).run(&a), "reduce", "the length");
        assert_wrong_context(total.rows(10).len(&length).run(&a), "reduce", "the length");
        assert_wrong_context(total.columns(10).len(&length).run(&a), "reduce", "the length");
        assert_wrong_context(keys.len(&length).run_in_place(&mut a), "sort", "the length");
        assert_wrong_context(compact::<u32>().keep(NonZero).len(&length).run(&a), "compact", "the length");
        assert_eq!(first.clone_dtoh(&a).unwrap(), before, "nothing was written");
        assert_eq!(second.clone_dtoh(&b).unwrap(), before, "nothing was written");
        // Each stream alone, whatever its context is.
        let mut expected = before.clone();
        expected.sort();
        sort::<u32>().workspace(&mut of_second).run_in_place(&mut b).unwrap();
        assert_eq!(second.clone_dtoh(&b).unwrap(), expected);
        let sums = sum.workspace(&mut of_second).run(&b).unwrap();
        assert_eq!(second.clone_dtoh(&sums).unwrap(), sum.run(&expected).unwrap());
    }
}
