//! Addresses, streams and scratch memory of another CUDA stack: the driver's own calls.

use crate::common::keys::How;
use crate::common::segments::{Lengths, Segments, reduce_oracle, runs_oracle, scan_oracle};
use crate::common::{Options, Rng, any, assert_bytes, assert_same, context, noise, oracle};
use crate::common::{column_totals, columns_oracle, total};
use bytemuck::Pod;
use parascan::cudarc::driver::sys::{self, CUcontext, CUdeviceptr, CUresult, CUstream};
use parascan::cudarc::driver::{CudaStream, DevicePtr, DeviceSlice};
use parascan::{
    Above, Error, Last, Max, RawSlice, Strategy, Sum, Workspace, compact, cuda, expand, offsets, pack, partition,
    reduce, scan, sort, unique,
};
use std::fmt::Debug;
use std::ptr::null_mut;
use std::sync::Arc;

mod exact;

#[track_caller]
fn ok(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// Memory and a stream of the driver's own, in a context that is current on this thread.
struct Stack {
    stream: CUstream,
    memory: Vec<CUdeviceptr>,
    /// A context of this stack alone, unless it uses the device's primary one.
    own: Option<CUcontext>,
}

impl Stack {
    fn new(own: Option<CUcontext>) -> Stack {
        let mut stream = null_mut();
        // SAFETY: a context is current; the driver writes the stream.
        ok(unsafe { sys::cuStreamCreate(&mut stream, 1) });
        Stack { stream, memory: Vec::new(), own }
    }
    fn allocate(&mut self, bytes: usize) -> CUdeviceptr {
        let mut address = 0;
        // SAFETY: the driver writes the address.
        ok(unsafe { sys::cuMemAlloc_v2(&mut address, bytes.max(1)) });
        self.memory.push(address);
        address
    }
    fn put<T: Pod>(&mut self, items: &[T]) -> CUdeviceptr {
        let address = self.allocate(size_of_val(items));
        // SAFETY: there are as many bytes at the address.
        unsafe {
            ok(sys::cuMemcpyHtoDAsync_v2(address, items.as_ptr().cast(), size_of_val(items), self.stream));
            // Not for the context: that would end another test's capture.
            ok(sys::cuStreamSynchronize(self.stream));
        }
        address
    }
    fn get<T: Pod>(&self, address: CUdeviceptr, n: usize) -> Vec<T> {
        let mut items: Vec<T> = bytemuck::zeroed_vec(n);
        // SAFETY: the stream is live, and `n` items lie at the address.
        unsafe {
            ok(sys::cuStreamSynchronize(self.stream));
            ok(sys::cuMemcpyDtoH_v2(items.as_mut_ptr().cast(), address, n * size_of::<T>()));
        }
        items
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: they are this stack's own, and the tests are done with them.
        unsafe {
            for &address in &self.memory {
                let _ = sys::cuMemFree_v2(address);
            }
            let _ = sys::cuStreamDestroy_v2(self.stream);
            if let Some(own) = self.own {
                let _ = sys::cuCtxDestroy_v2(own);
            }
        }
    }
}

/// Stacks in the device's primary context, which CUDA's runtime and cudarc use, and in one of its own.
fn stacks() -> Vec<Stack> {
    let Some(primary) = context() else { return Vec::new() };
    let primary_stack = Stack::new(None);
    // cudarc has `cuCtxCreate` in the form of the API's level; this is the form of all levels.
    let own = parascan::cudarc::driver::CudaContext::new_non_primary(0, 0).unwrap();
    let handle = own.cu_ctx();
    std::mem::forget(own); // the stack destroys it
    // SAFETY: the context is live.
    ok(unsafe { sys::cuCtxSetCurrent(handle) });
    let own_stack = Stack::new(Some(handle));
    drop(primary);
    vec![primary_stack, own_stack]
}

/// Calls `work` with each stack and its stream here.
fn each(mut work: impl FnMut(&mut Stack, &Arc<CudaStream>)) {
    for mut stack in stacks() {
        // SAFETY: the stream lives as long as the stack.
        let stream = unsafe { cuda::borrow_stream(stack.stream) }.unwrap();
        work(&mut stack, &stream);
        drop(stream);
    }
}

/// Scratch memory of the stack for what `prepare` prepares.
fn workspace(
    stack: &mut Stack,
    stream: &Arc<CudaStream>,
    prepare: impl FnOnce(&mut Workspace) -> Result<(), Error>,
) -> Workspace {
    let bytes = Workspace::measure(stream, prepare).unwrap();
    let noise = noise::<u8>(&mut Rng::new(), bytes);
    let address = stack.put(&noise);
    // SAFETY: the stack's memory, which nothing else uses.
    unsafe { Workspace::over(stream, address, bytes) }
}

/// Two stacks share a context: every primitive reads and writes memory that `cuMemAlloc` gave, on a
/// stream that `cuStreamCreate` made, with scratch memory of the same kind.
#[test]
fn every_primitive() {
    each(|stack, stream| {
        let mut rng = Rng::new();
        let n = 1 + rng.below(300_000);
        let x: Vec<u32> = any::<u32>(&mut rng, n).into_iter().map(|x| x >> 20).collect();
        let flags: Vec<u8> = noise(&mut rng, n);
        let (x_at, flags_at) = (stack.put(&x), stack.put(&flags));
        let (to, pairs_to, count_at) = (stack.allocate(8 * n), stack.allocate(8 * n), stack.allocate(8));
        // SAFETY: all are the stack's memory, of these lengths, and valid until `get` has waited. No call gets
        // one of them twice.
        let raw = |address, len| unsafe { RawSlice::<u32>::new(address, len, stream) };
        let raw64 = |address, len| unsafe { RawSlice::<u64>::new(address, len, stream) };
        let flags_in = unsafe { RawSlice::<u8>::new(flags_at, n, stream) };
        let (input, mut output, mut indices) = (raw(x_at, n), raw(to, n), raw(pairs_to, n));
        let mut count = raw64(count_at, 1);
        let columns = 1 + rng.below(n.min(50));
        let rows = n / columns;
        let matrix = raw(x_at, rows * columns);

        let mut workspace = workspace(stack, stream, |workspace| {
            scan::<Sum, u32>().prepare(n, workspace)?;
            scan::<Max, u32>().rows(columns).prepare(n, workspace)?;
            scan::<Sum, u32>().columns(columns).prepare(rows, workspace)?;
            reduce::<Max, u32>().prepare(n, workspace)?;
            reduce::<Max, u32>().prepare_position(n, workspace)?;
            reduce::<Sum, u32>().rows(columns).prepare(n, workspace)?;
            reduce::<Sum, u32>().columns(columns).prepare(rows, workspace)?;
            reduce::<Sum, u32>().heads(&flags_in).prepare(n, workspace)?;
            compact::<u32>().keep(Above(7)).prepare(n, workspace)?;
            compact::<u32>().flags(&flags_in).prepare(n, workspace)?;
            partition::<u32>().keep(Above(7)).prepare(n, workspace)?;
            unique::<u32>().prepare(n, workspace)?;
            offsets::<u32, u64>().prepare(n, workspace)?;
            pack::<u8, u64>().prepare::<u32>(n, workspace)?;
            expand::<u32>().prepare(workspace)?;
            sort::<u32>().prepare(n, workspace)?;
            sort::<u32>().prepare_pairs::<u32>(n, workspace)?;
            sort::<u32>().prepare_indices::<u32>(n, workspace)?;
            sort::<u32>().rows(columns).prepare(n, workspace)
        });
        let held = workspace.bytes();
        let ws = &mut workspace;
        let same = |got: Vec<u32>, expected: &[u32], what: &str| assert_same(&got, expected, &(what, n, columns));

        // What the host's engine gives is the expected result.
        scan::<Sum, u32>().workspace(ws).run_into(&input, &mut output).unwrap();
        same(stack.get(to, n), &scan::<Sum, u32>().run(&x).unwrap(), "scan");
        scan::<Max, u32>()
            .reverse()
            .rows(columns)
            .workspace(ws)
            .run_into(&matrix, &mut raw(to, rows * columns))
            .unwrap();
        let part = &x[..rows * columns];
        same(stack.get(to, part.len()), &scan::<Max, u32>().reverse().rows(columns).run(part).unwrap(), "rows");
        scan::<Sum, u32>().columns(columns).workspace(ws).run_into(&matrix, &mut raw(to, rows * columns)).unwrap();
        same(stack.get(to, part.len()), &scan::<Sum, u32>().columns(columns).run(part).unwrap(), "columns");

        reduce::<Max, u32>().workspace(ws).run_into(&input, &mut output).unwrap();
        same(stack.get(to, 1), &[reduce::<Max, u32>().run(&x).unwrap()], "reduce");
        assert_eq!(reduce::<Max, u32>().run(&input).unwrap(), reduce::<Max, u32>().run(&x).unwrap());
        reduce::<Max, u32>().workspace(ws).position_into(&input, &mut count).unwrap();
        assert_eq!(stack.get::<u64>(count_at, 1)[0] as usize, reduce::<Max, u32>().position(&x).unwrap());
        reduce::<Sum, u32>().rows(columns).workspace(ws).run_into(&matrix, &mut output).unwrap();
        same(stack.get(to, rows), &reduce::<Sum, u32>().rows(columns).run(part).unwrap(), "reduce rows");
        reduce::<Sum, u32>().columns(columns).workspace(ws).run_into(&matrix, &mut output).unwrap();
        same(stack.get(to, columns), &reduce::<Sum, u32>().columns(columns).run(part).unwrap(), "reduce columns");
        reduce::<Sum, u32>().heads(&flags_in).workspace(ws).run_into(&input, &mut output, &mut count).unwrap();
        let expected = reduce::<Sum, u32>().heads(&flags).run(&x).unwrap();
        same(stack.get(to, stack.get::<u64>(count_at, 1)[0] as usize), &expected, "runs");

        compact::<u32>().keep(Above(7)).workspace(ws).run_into(&input, &mut output, &mut count).unwrap();
        let expected = compact::<u32>().keep(Above(7)).run(&x).unwrap();
        same(stack.get(to, stack.get::<u64>(count_at, 1)[0] as usize), &expected, "compact");
        compact::<u32>().flags(&flags_in).workspace(ws).run_into(&input, &mut output, &mut count).unwrap();
        let expected = compact::<u32>().flags(&flags).run(&x).unwrap();
        same(stack.get(to, stack.get::<u64>(count_at, 1)[0] as usize), &expected, "flags");
        partition::<u32>().keep(Above(7)).workspace(ws).run_into(&input, &mut output, &mut count).unwrap();
        let (expected, selected) = partition::<u32>().keep(Above(7)).run(&x).unwrap();
        same(stack.get(to, n), &expected, "partition");
        assert_eq!(stack.get::<u64>(count_at, 1), [selected as u64]);
        unique::<u32>().workspace(ws).run_into(&input, &mut output, &mut count).unwrap();
        let expected = unique::<u32>().run(&x).unwrap();
        same(stack.get(to, stack.get::<u64>(count_at, 1)[0] as usize), &expected, "unique");

        offsets::<u32, u64>().workspace(ws).run_into(&input, &mut raw64(to, n), &mut count).unwrap();
        assert_eq!(stack.get::<u64>(to, n), offsets::<u32, u64>().run(&x).unwrap());
        let starts = offsets::<u32, u32>().with_total().run(&x[..100.min(n)]).unwrap();
        let total = starts[starts.len() - 1] as usize;
        let (starts_at, segments_at) = (stack.put(&starts), stack.allocate(4 * total));
        let (starts_in, mut segments) = (raw(starts_at, starts.len()), raw(segments_at, total));
        expand::<u32>().workspace(ws).run_into(&starts_in, &mut segments).unwrap();
        same(stack.get(segments_at, total), &expand::<u32>().run::<u32, _>(&starts).unwrap(), "expand");
        let begins: Vec<u64> = (0..n as u64).map(|i| i % 9).collect();
        let sizes: Vec<u32> = x.iter().map(|x| x % 4).collect();
        let (begins_at, sizes_at, offsets_at) = (stack.put(&begins), stack.put(&sizes), stack.allocate(8 * (n + 1)));
        let (bytes, packed_at) = (noise::<u8>(&mut rng, 16), stack.allocate(4 * n));
        let bytes_at = stack.put(&bytes);
        // SAFETY: as above.
        let (text, mut packed) =
            unsafe { (RawSlice::<u8>::new(bytes_at, 16, stream), RawSlice::<u8>::new(packed_at, 4 * n, stream)) };
        pack::<u8, u64>()
            .workspace(ws)
            .run_into(
                &text,
                &raw64(begins_at, n),
                &raw(sizes_at, n),
                &mut packed,
                &mut raw64(offsets_at, n + 1),
                &mut count,
            )
            .unwrap();
        let (expected, expected_offsets) = pack::<u8, u64>().run(&bytes, &begins, &sizes).unwrap();
        assert_eq!(stack.get::<u64>(offsets_at, n + 1), expected_offsets);
        assert_eq!(stack.get::<u8>(packed_at, expected.len()), expected);

        sort::<u32>().workspace(ws).run_into(&input, &mut output).unwrap();
        same(stack.get(to, n), &sort::<u32>().run(&x).unwrap(), "sort");
        // The payload is the source indices: many keys are equal, so a sort that is not stable shows.
        let mut order: Vec<u32> = (0..n as u32).collect();
        let numbers = raw(stack.put(&order), n);
        order.sort_by_key(|&i| x[i as usize]);
        sort::<u32>().workspace(ws).run_pairs_into(&input, &numbers, &mut output, &mut indices).unwrap();
        same(stack.get(to, n), &sort::<u32>().run(&x).unwrap(), "keys with a payload");
        same(stack.get(pairs_to, n), &order, "the payload");
        sort::<u32>().workspace(ws).indices_into::<u32, _, _>(&input, &mut indices).unwrap();
        same(stack.get(pairs_to, n), &sort::<u32>().indices::<u32, _>(&x).unwrap(), "indices");
        sort::<u32>().rows(columns).workspace(ws).run_into(&matrix, &mut raw(to, part.len())).unwrap();
        same(stack.get(to, part.len()), &sort::<u32>().rows(columns).run(part).unwrap(), "sort rows");

        assert_eq!(workspace.bytes(), held);
        assert_eq!(stack.get::<u32>(x_at, n), x, "inputs are not written");
        assert_eq!(stack.get::<u8>(flags_at, n), flags, "inputs are not written");
    });
}

/// Scratch memory with any contents, through many calls of many lengths, in and out of place.
#[test]
fn scratch_memory_is_used_again() {
    each(|stack, stream| {
        let mut rng = Rng::new();
        let most = 300_000;
        let strategies =
            [Strategy::Auto, Strategy::Hierarchical(Default::default()), Strategy::LookBack(Default::default())];
        let sum = |strategy| scan::<Sum, f32>().strategy(strategy);
        let mut workspace = workspace(stack, stream, |workspace| {
            strategies.iter().try_for_each(|&strategy| sum(strategy).prepare(most, workspace))?;
            scan::<Last, u64>().prepare(most, workspace)?;
            sort::<u64>().prepare(most, workspace)
        });
        for round in 0..40 {
            let n = [1, 31, 3073, 1 + rng.below(20_000), 1 + rng.below(most), most][round % 6];
            let strategy = strategies[round % 3];
            let x: Vec<f32> = (0..n).map(|_| rng.below(16) as f32).collect();
            let at = stack.put(&x);
            // SAFETY: the stack's memory.
            let mut data = unsafe { RawSlice::<f32>::new(at, n, stream) };
            sum(strategy).workspace(&mut workspace).run_in_place(&mut data).unwrap();
            assert_same(&stack.get::<f32>(at, n), &scan::<Sum, f32>().run(&x).unwrap(), &(round, n, strategy));
            let keys: Vec<u64> = any(&mut rng, n);
            let (from, to) = (stack.put(&keys), stack.allocate(8 * n));
            // SAFETY: as above.
            let (input, mut output) = unsafe { (RawSlice::<u64>::new(from, n, stream), RawSlice::new(to, n, stream)) };
            match round % 2 {
                0 => sort::<u64>().workspace(&mut workspace).run_into(&input, &mut output).unwrap(),
                _ => scan::<Last, u64>().workspace(&mut workspace).run_into(&input, &mut output).unwrap(),
            }
            let expected = if round % 2 == 0 { sort::<u64>().run(&keys).unwrap() } else { keys };
            assert_same(&stack.get::<u64>(to, n), &expected, &(round, n));
        }
    });
}

/// Scratch memory that is too small or misaligned is refused, and nothing is written.
#[test]
fn scratch_memory_that_is_refused() {
    each(|stack, stream| {
        let n = 1_000_000;
        let x: Vec<u32> = (0..n as u32).collect();
        let (from, to) = (stack.put(&x), stack.put(&x));
        // SAFETY: the stack's memory.
        let (input, mut output) = unsafe { (RawSlice::<u32>::new(from, n, stream), RawSlice::new(to, n, stream)) };
        let bytes = Workspace::measure(stream, |workspace| scan::<Sum, u32>().prepare(n, workspace)).unwrap();
        assert!(bytes > 0);
        let scratch = stack.allocate(bytes + 512);
        for (address, given) in [(scratch, bytes - 1), (scratch, 0), (scratch + 16, bytes), (scratch + 128, bytes)] {
            // SAFETY: the stack's memory.
            let mut workspace = unsafe { Workspace::over(stream, address, given) };
            for error in [
                scan::<Sum, u32>().workspace(&mut workspace).run_into(&input, &mut output).unwrap_err(),
                scan::<Sum, u32>().prepare(n, &mut workspace).unwrap_err(),
            ] {
                let Error::Scratch { primitive: "scan", given: found, address: at, needed } = error else {
                    panic!("{error:?} should be Scratch")
                };
                assert_eq!((found, at), (given, address));
                assert!(needed <= bytes && needed > 0, "{needed} of {bytes}");
            }
        }
        // A workspace that only measures cannot run.
        let ran = Workspace::measure(stream, |workspace| {
            scan::<Sum, u32>().workspace(workspace).run_into(&input, &mut output)
        });
        assert!(matches!(ran, Err(Error::Scratch { given: 0, .. })), "{ran:?}");
        assert_eq!(stack.get::<u32>(to, n), x);
        // A scan of one tile needs none.
        // SAFETY: no byte is used.
        let mut none = unsafe { Workspace::over(stream, 0, 0) };
        // SAFETY: the stack's memory.
        let mut few = unsafe { RawSlice::<u32>::new(to, 1000, stream) };
        scan::<Sum, u32>().workspace(&mut none).run_in_place(&mut few).unwrap();
        assert_eq!(stack.get::<u32>(to, 1000), scan::<Sum, u32>().run(&x[..1000]).unwrap());
    });
}

/// A graph that holds calls with the caller's scratch memory, captured on the caller's stream.
#[test]
fn graphs() {
    each(|stack, stream| {
        let n = 500_000;
        let x: Vec<u64> = any(&mut Rng::new(), n);
        let (from, to) = (stack.put(&x), stack.allocate(8 * n));
        // SAFETY: the stack's memory.
        let (input, mut output) = unsafe { (RawSlice::<u64>::new(from, n, stream), RawSlice::new(to, n, stream)) };
        let sum = scan::<Sum, u64>();
        let mut workspace = workspace(stack, stream, |workspace| sum.prepare(n, workspace));
        // SAFETY: the stream is live.
        let begin = || {
            ok(unsafe {
                sys::cuStreamBeginCapture_v2(stack.stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
            })
        };
        let end = || {
            let mut graph = null_mut();
            // SAFETY: the stream is being captured; the driver writes the graph.
            ok(unsafe { sys::cuStreamEndCapture(stack.stream, &mut graph) });
            graph
        };
        begin();
        let early = sum.workspace(&mut workspace).run_into(&input, &mut output);
        // SAFETY: the graph is not used again.
        ok(unsafe { sys::cuGraphDestroy(end()) });
        assert!(matches!(early, Err(Error::Capturing { .. })), "{early:?}");
        sum.prepare(n, &mut workspace).unwrap();
        begin();
        sum.workspace(&mut workspace).run_into(&input, &mut output).unwrap();
        let graph = end();
        let mut executable = null_mut();
        // SAFETY: the graph is live, and so is all that it uses.
        unsafe {
            ok(sys::cuGraphInstantiateWithFlags(&mut executable, graph, 0));
            for _ in 0..3 {
                ok(sys::cuGraphLaunch(executable, stack.stream));
            }
        }
        assert_same(&stack.get::<u64>(to, n), &sum.run(&x).unwrap(), &"a replayed graph");
        // SAFETY: they are not used again.
        unsafe {
            ok(sys::cuGraphExecDestroy(executable));
            ok(sys::cuGraphDestroy(graph));
        }
    });
}

/// Streams of one context have one context object, also with cudarc's own in the primary context.
#[test]
fn one_object_of_a_context() {
    let stacks = stacks();
    for stack in &stacks {
        // SAFETY: the stream lives as long as the stack.
        let [one, other] = [(); 2].map(|()| unsafe { cuda::borrow_stream(stack.stream) }.unwrap());
        assert!(Arc::ptr_eq(one.context(), other.context()));
        assert_eq!(one.cu_stream(), stack.stream);
        if stack.own.is_none() {
            assert!(Arc::ptr_eq(one.context(), &cuda::context(0).unwrap()));
            // So a buffer of cudarc's and an address can be used in one call.
            let stream = cuda::context(0).unwrap().new_stream().unwrap();
            let mut x = stream.clone_htod(&[1_u32, 2, 3]).unwrap();
            stream.synchronize().unwrap();
            let mut out = stream.alloc_zeros::<u32>(3).unwrap();
            let (at, _guard) = parascan::cudarc::driver::DevicePtrMut::device_ptr_mut(&mut x, &stream);
            // SAFETY: the buffer's memory, ready by the wait, and not used otherwise.
            let input = unsafe { RawSlice::<u32>::new(at, 3, &one) };
            scan::<Sum, u32>().on(&stream).run_into(&input, &mut out).unwrap();
            assert_eq!(stream.clone_dtoh(&out).unwrap(), [1, 3, 6]);
        }
    }
}

parascan::element! {
    /// Aligned to half of its size.
    struct Words { low: u32, high: u32 }
}
parascan::predicate! {
    struct HighIsOdd on Words { keeps: |x| x.high % 2 == 1 }
}

/// Items of two words, some words after an aligned address: no vector begins where an item does. So many go by
/// the launch that counts first.
#[test]
fn items_aligned_to_less_than_their_size() {
    each(|stack, stream| {
        let n = (5 << 20) + 77;
        let words: Vec<u32> = noise(&mut Rng::new(), 2 * n + 3);
        for shift in 0..=3 {
            let items = words[shift..].as_chunks().0.iter().take(n).map(|&[low, high]| Words { low, high });
            let (mut expected, rejected): (Vec<_>, Vec<_>) = items.partition(|x| x.high % 2 == 1);
            let selected = expected.len() as u64;
            expected.extend(rejected);
            let from = stack.put(&words) + 4 * shift as u64;
            let (to, count_at) = (stack.allocate(8 * n), stack.allocate(8));
            // SAFETY: all are the stack's memory, of these lengths, and valid until `get` has waited.
            let slice = |address| unsafe { RawSlice::<Words>::new(address, n, stream) };
            // SAFETY: as above.
            let mut count = unsafe { RawSlice::<u64>::new(count_at, 1, stream) };
            let odd = partition::<Words>().keep(HighIsOdd {});
            let mut workspace = workspace(stack, stream, |workspace| odd.prepare(n, workspace));
            odd.workspace(&mut workspace).run_into(&slice(from), &mut slice(to), &mut count).unwrap();
            assert_eq!(stack.get::<u64>(count_at, 1), [selected], "{shift} words after");
            assert!(stack.get::<Words>(to, n) == expected, "{shift} words after");
        }
    });
}
