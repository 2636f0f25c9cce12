//! Bad input of the primitives other than scan: too short, too wide, on the wrong device, in a
//! capture.

use super::assert_capturing;
use crate::common::process::is_alone;
use crate::common::{context, stream};
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::{Above, Error, Workspace, compact, expand, offsets, pack, partition, sort, unique};

#[track_caller]
fn assert_size<V>(result: Result<V, Error>, primitive: &str, what: &str, found: usize, needed: usize) {
    let Err(error) = result else { panic!("{what} is too short") };
    let Error::Size { primitive: p, what: w, found: f, needed: n } = &error else { panic!("{error:?} should be Size") };
    assert_eq!((*p, *w, *f, *n), (primitive, what, found, needed));
    let words = error.to_string();
    for part in [primitive, what, &found.to_string(), &needed.to_string()] {
        assert!(words.contains(part), "{words}");
    }
}

#[test]
fn on_the_host() {
    let (x, mut to, mut count) = ([3, 1, 4, 1, 5], [7; 5], [9]);
    let kept = compact::<i32>().keep(Above(2));
    assert_size(compact::<i32>().flags(&[1, 0, 1]).run(&x), "compact", "the flags", 3, 5);
    // As on the device, where the host does not know the number.
    assert_size(compact::<i32>().flags(&[1, 0, 1]).len(&[2]).run(&x), "compact", "the flags", 3, 5);
    assert_size(partition::<i32>().flags(&[1, 0, 1]).len(&[2]).run(&x), "partition", "the flags", 3, 5);
    assert_size(compact::<i32>().bits::<u32, _>(&[]).run(&x), "compact", "the bits, in words,", 0, 1);
    let long = vec![1; 65];
    assert_size(compact::<i32>().bits::<u64, _>(&[1]).run(&long), "compact", "the bits, in words,", 1, 2);
    assert_size(kept.run_into(&x, &mut to, &mut []), "compact", "the count", 0, 1);
    assert_size(kept.run_into(&x, &mut to[..2], &mut count), "compact", "the output", 2, 3);
    assert_size(kept.append().run_into(&x, &mut to, &mut [3]), "compact", "the output", 5, 6);
    assert_size(kept.append().run_into(&x, &mut to, &mut [u64::MAX]), "compact", "the output", 5, usize::MAX);
    assert_size(kept.indices_into::<u32, _, _, _>(&x, &mut [0; 2], &mut count), "compact", "the output", 2, 3);
    let payload = kept.run_pairs_into::<u8, _, _, _, _, _>(&x, b"abc", &mut to, &mut [0; 5], &mut count);
    assert_size(payload, "compact", "the payload", 3, 5);
    let payload = kept.run_pairs_into::<u8, _, _, _, _, _>(&x, b"abcde", &mut to, &mut [0; 4], &mut count);
    assert_size(payload, "compact", "the payload's output", 4, 5);
    let indices = kept.run_with_indices_into::<u32, _, _, _, _>(&x, &mut to, &mut [0; 4], &mut count);
    assert_size(indices, "compact", "the indices", 4, 5);
    assert_size(unique::<i32>().run_into(&x, &mut to[..4], &mut count), "unique", "the output", 4, 5);

    let parts = partition::<i32>().keep(Above(2));
    let error = parts.run_into(&x, &mut to[..4], &mut count).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "partition", input: 5, output: 4 }), "{error}");
    let kept = "the output of the selected items";
    assert_size(parts.run_apart_into(&x, &mut [0; 2], &mut [0; 5], &mut count), "partition", kept, 2, 3);
    let rejected = "the output of the rejected items";
    assert_size(parts.run_apart_into(&x, &mut [0; 3], &mut [0; 1], &mut count), "partition", rejected, 1, 2);
    let three = parts.then(Above(0));
    assert_size(three.run_into(&x, &mut to, &mut count), "three-way partition", "the counts", 1, 2);
    assert_eq!((to, count), ([7; 5], [9]), "nothing was written");

    for align in [0, 3, 1 << 33] {
        let error = offsets::<u8, u64>().align(align).run(&[1]).unwrap_err();
        assert!(matches!(error, Error::Align { align: found, .. } if found == align), "{error}");
    }
    assert!(offsets::<u8, u64>().align(1 << 32).run(&[1]).is_ok());
    let (mut starts, mut total) = ([7_u32; 3], [9]);
    assert_size(offsets::<u8, u32>().run_into(&[1; 4], &mut starts, &mut total), "offsets", "the offsets", 3, 4);
    let packed = pack::<u8, u32>().run_into(b"abc", &[0], &[3_u8], &mut [0; 2], &mut starts[..2], &mut total);
    assert_size(packed, "pack", "the output", 2, 3);
    let packed = pack::<u8, u32>().run_into(b"abc", &[0], &[3_u8], &mut [0; 3], &mut starts[..1], &mut total);
    assert_size(packed, "pack", "the offsets", 1, 2);
    let packed = pack::<u8, u32>().run_into(b"abc", &[0], &[3_u8], &mut [0; 3], &mut starts, &mut []);
    assert_size(packed, "pack", "the total", 0, 1);
    let packed = pack::<u8, u32>().run_into(b"abc", &[0, 2], &[3_u8, 2], &mut [0; 5], &mut starts, &mut total);
    assert_size(packed, "pack", "the items", 3, 4);
    let (items, begins, sizes) = (vec![1_u8; 1 << 26], [0_u32; 64], [1_u32 << 26; 64]);
    let packed = pack::<u8, u32>().run_into(&items, &begins, &sizes, &mut [0; 5], &mut [7; 65], &mut total);
    assert!(matches!(packed, Err(Error::Overflow { primitive: "pack", .. })), "{packed:?}");
    assert_eq!((starts, total), ([7; 3], [9]), "nothing was written");
    let expanded = expand::<u32>().run_with_positions_into::<u32, _, _, _>(&[0, 2], &mut [0; 2], &mut [0; 1]);
    assert_size(expanded, "expand", "the positions", 1, 2);
}

#[test]
fn on_the_device() {
    let stream = or_skip!(stream());
    let x = stream.clone_htod(&[3_u32, 1, 4, 1, 5]).unwrap();
    let flags = stream.clone_htod(&[1_u8, 0, 1]).unwrap();
    let mut to = stream.clone_htod(&[7_u32; 5]).unwrap();
    let mut count = stream.clone_htod(&[9_u64]).unwrap();
    assert_size(compact::<u32>().flags(&flags).run(&x), "compact", "the flags", 3, 5);
    let parts = partition::<u32>().keep(Above(2));
    let error = parts.run_into(&x, &mut to.slice_mut(..4), &mut count).unwrap_err();
    assert!(matches!(error, Error::Length { input: 5, output: 4, .. }), "{error}");
    let mut none = to.slice_mut(..0);
    assert_size(expand::<u32>().run_into(&x.slice(..0), &mut none), "expand", "the offsets", 0, 1);

    // Wider than kernels move.
    let wide = stream.clone_htod(&[[0_u64; 3]; 3]).unwrap();
    let mut wide_to = wide.clone();
    let by_flags = compact::<[u64; 3]>().flags(&flags);
    let error = by_flags.run_into(&wide, &mut wide_to, &mut count).unwrap_err();
    assert!(matches!(error, Error::ItemSize { size: 24, .. }), "{error}");
    let (begins, sizes) = (stream.clone_htod(&[0_u32]).unwrap(), stream.clone_htod(&[1_u32]).unwrap());
    let error = pack::<[u64; 3], u32>().run(&wide, &begins, &sizes).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::ItemSize { size: 24, .. }), "{error}");
    let mut starts = stream.clone_htod(&[7_u32; 3]).unwrap();
    let packer = pack::<[u64; 3], u32>();
    let error = packer.run_into(&wide, &begins, &sizes, &mut wide_to, &mut starts, &mut count).unwrap_err();
    assert!(matches!(error, Error::ItemSize { size: 24, .. }), "{error}");
    assert_eq!(stream.clone_dtoh(&starts).unwrap(), [7; 3], "nothing was written");
    assert_eq!(stream.clone_dtoh(&to).unwrap(), [7; 5], "nothing was written");
    assert_eq!(stream.clone_dtoh(&count).unwrap(), [9], "nothing was written");
}

#[track_caller]
fn assert_out_of_memory<V>(result: Result<V, Error>, primitive: &str, n: usize, size: usize) {
    let Err(error) = result else { panic!("there is not so much memory") };
    let Error::OutOfMemory { primitive: p, n: asked, size: bytes } = &error else {
        panic!("{error:?} should be OutOfMemory")
    };
    assert_eq!((*p, *asked, *bytes), (primitive, n, size));
    assert_eq!(error.to_string(), format!("{primitive}: {n} elements of {size} bytes cannot be allocated"));
}

/// More bytes than an allocation may have, and than exist.
#[test]
fn more_memory_than_there_is() {
    const MOST: usize = usize::MAX;
    let sized = offsets::<u64, u64>();
    assert_out_of_memory(sized.allocate::<u8, _>(&[1 << 62, 1 << 62]), "allocate", 1 << 63, 1);
    assert_out_of_memory(sized.allocate::<u8, _>(&[1 << 62]), "allocate", 1 << 62, 1);
    assert_out_of_memory(sized.allocate::<u64, _>(&[(1 << 61) + 1]), "allocate", (1 << 61) + 1, 8);
    assert_out_of_memory(expand::<u64>().run::<u64, _>(&[0, u64::MAX]), "expand", MOST, 8);
    assert_out_of_memory(expand::<u64>().run::<u64, _>(&[5, 6 + (1 << 61)]), "expand", (1 << 61) + 1, 8);
    assert_out_of_memory(expand::<u64>().run::<u64, _>(&[0, 1 << 58]), "expand", 1 << 58, 8);
    let error = expand::<u64>().run::<u32, _>(&[0, u64::MAX]).unwrap_err();
    assert!(matches!(error, Error::TooLong { primitive: "expand", n: MOST, most: 0x1_0000_0000 }), "{error}");

    let stream = or_skip!(stream());
    let there = |x: &[u64]| stream.clone_htod(x).unwrap();
    // More bytes than 64 bits count: the product would wrap.
    let many = (1 << 61) + 1;
    assert_out_of_memory(sized.allocate::<u64, _>(&there(&[many])), "allocate", many as usize, 8);
    assert_out_of_memory(expand::<u64>().run::<u64, _>(&there(&[0, many])), "expand", many as usize, 8);
    let (items, begins) = (there(&[1, 2, 3]), there(&[0]));
    assert_out_of_memory(pack::<u64, u64>().run(&items, &begins, &there(&[many])), "pack", many as usize, 8);
    let error = expand::<u64>().run::<u32, _>(&there(&[0, many])).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::TooLong { primitive: "expand", .. }), "{error}");
    assert_eq!(stream.clone_dtoh(&expand::<u64>().run::<u64, _>(&there(&[0, 2])).unwrap()).unwrap(), [0, 0]);
}

#[test]
fn sorts_on_the_host() {
    let (x, mut to) = ([3, 1, 4, 1, 5], [7; 5]);
    let length = |result: Result<(), Error>, found: usize| match result.unwrap_err() {
        Error::Length { primitive: "sort", input: 5, output } => assert_eq!(output, found),
        error => panic!("{error:?} should be Length"),
    };
    length(sort::<i32>().run_into(&x, &mut to[..4]), 4);
    length(sort::<i32>().run_into(&x, &mut [0; 6]), 6);
    length(sort::<i32>().indices_into::<u32, _, _>(&x, &mut [0; 4]), 4);
    length(sort::<i32>().run_pairs_into::<u8, _, _, _, _>(&x, b"abcde", &mut to[..4], &mut [0; 5]), 4);
    let by = sort::<i32>();
    assert_size(by.run_in_place_with_buffer(&mut x.clone(), &mut to[..4]), "sort", "the second buffer", 4, 5);
    let payload = by.run_pairs_into::<u8, _, _, _, _>(&x, b"abc", &mut to, &mut [0; 5]);
    assert_size(payload, "sort", "the payload", 3, 5);
    let payload = by.run_pairs_into::<u8, _, _, _, _>(&x, b"abcde", &mut to, &mut [0; 4]);
    assert_size(payload, "sort", "the payload's output", 4, 5);
    assert_size(by.run_pairs_in_place::<u8, _, _>(&mut to, &mut [0; 4]), "sort", "the payload", 4, 5);
    let none = by.run_pairs_in_place::<(), _, _>(&mut to, &mut [(); 5]).unwrap_err();
    assert!(matches!(none, Error::ItemSize { primitive: "sort", size: 0 }), "{none}");
    for (bits, start, end) in [(0..33, 0, 33), (40..41, 40, 41), (std::ops::Range { start: 5, end: 3 }, 5, 3)] {
        let error = by.bits(bits).run(&x).unwrap_err();
        let Error::Bits { primitive: "sort", start: s, end: e, width: 32 } = error else { panic!("{error}") };
        assert_eq!((s, e), (start, end));
        for part in [start.to_string(), end.to_string(), 32.to_string()] {
            assert!(error.to_string().contains(&part), "{error}");
        }
    }
    assert!(sort::<u8>().bits(0..9).run_in_place(&mut [1, 0]).is_err());
    assert_eq!(by.bits(32..32).run(&x).unwrap(), x);
    assert_eq!(to, [7; 5], "nothing was written");
}

#[test]
fn sorts_on_the_device() {
    let stream = or_skip!(stream());
    let x = stream.clone_htod(&[3_u32, 1, 4, 1, 5]).unwrap();
    let mut to = stream.clone_htod(&[7_u32; 5]).unwrap();
    let mut short = stream.clone_htod(&[7_u32; 4]).unwrap();
    let by = sort::<u32>();
    let error = by.run_into(&x, &mut short).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "sort", input: 5, output: 4 }), "{error}");
    let error = by.indices_into::<u32, _, _>(&x, &mut short).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "sort", input: 5, output: 4 }), "{error}");
    assert_size(by.run_in_place_with_buffer(&mut to, &mut short), "sort", "the second buffer", 4, 5);
    assert_size(by.run_pairs_in_place::<u32, _, _>(&mut to, &mut short), "sort", "the payload", 4, 5);
    let error = by.bits(0..33).run_in_place(&mut to).unwrap_err();
    assert!(matches!(error, Error::Bits { end: 33, width: 32, .. }), "{error}");
    let mut workspace = Workspace::new(&stream);
    let error = by.bits(0..33).prepare(5, &mut workspace).unwrap_err();
    assert!(matches!(error, Error::Bits { .. }), "{error}");
    let error = by.prepare_pairs::<()>(5, &mut workspace).unwrap_err();
    assert!(matches!(error, Error::ItemSize { primitive: "sort", size: 0 }), "{error}");
    let error = by.prepare_indices::<u32>((1 << 32) + 1, &mut workspace).unwrap_err();
    assert!(matches!(error, Error::TooLong { primitive: "sort", most: 0x1_0000_0000, .. }), "{error}");
    for n in [(1 << 40) + 1, usize::MAX] {
        let error = by.prepare_pairs::<u128>(n, &mut workspace).unwrap_err();
        assert!(matches!(error, Error::TooLong { primitive: "sort", most: 0x100_0000_0000, .. }), "{error}");
    }
    assert_eq!(workspace.bytes(), 0);
    assert_eq!(stream.clone_dtoh(&to).unwrap(), [7; 5], "nothing was written");
    assert_eq!(stream.clone_dtoh(&short).unwrap(), [7; 4], "nothing was written");
}

/// Without a loaded kernel or a workspace: an error, and the capture goes on.
#[test]
fn captures() {
    if !is_alone(captures) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let n = 100_000;
    let x = stream.clone_htod(&vec![3_u32; n]).unwrap();
    let (mut to, mut count) = (x.clone(), stream.clone_htod(&[9_u64]).unwrap());
    let mut starts = stream.alloc_zeros::<u64>(n).unwrap();
    let kept = compact::<u32>().keep(Above(2));
    const PREPARE: &str = "call prepare(n, &mut workspace) before the capture and pass the workspace";
    let mut workspace = Workspace::new(&stream);
    stream.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let error = kept.workspace(&mut workspace).run_into(&x, &mut to, &mut count).unwrap_err();
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    let error = offsets::<u32, u64>().run_into(&x, &mut starts, &mut count).unwrap_err();
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    let error = expand::<u32>().run_into(&x, &mut to).unwrap_err();
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    let error = sort::<u32>().workspace(&mut workspace).run_into(&x, &mut to).unwrap_err();
    assert_capturing(&error, "its kernels are not loaded", PREPARE);
    let error = kept.run(&x).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Capturing { .. }), "{error}");
    let error = kept.prepare(n, &mut workspace).unwrap_err();
    assert_capturing(&error, "prepare allocates", "before the capture");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).expect("the capture ends");
    drop(graph);
    kept.prepare(n, &mut workspace).unwrap();
    sort::<u32>().prepare(n / 2, &mut workspace).unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let error = kept.run_into(&x, &mut to, &mut count).unwrap_err();
    assert_capturing(&error, "no workspace was given", PREPARE);
    let error = sort::<u32>().workspace(&mut workspace).run_into(&x, &mut to).unwrap_err();
    assert_capturing(&error, "its workspace is too small", PREPARE);
    kept.workspace(&mut workspace).run_into(&x, &mut to, &mut count).unwrap();
    let graph = stream.end_capture(flags).expect("the capture ends").expect("a graph");
    assert_eq!(stream.clone_dtoh(&count).unwrap(), [9], "nothing ran yet");
    graph.launch().unwrap();
    assert_eq!(stream.clone_dtoh(&count).unwrap(), [n as u64]);
}
