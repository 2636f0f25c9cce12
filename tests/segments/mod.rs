//! Pack, expand and allocation on both engines, against loops: long segments among short ones,
//! empty ones anywhere.

use crate::common::process::is_alone;
use crate::common::{Rng, much_memory, noise, stream};
use bytemuck::Pod;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use parascan::{Error, Index, Workspace, expand, offsets, pack};
use std::fmt::Debug;
use std::sync::Arc;

mod length;

/// Distributions of segment lengths.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// 0 to 64.
    Short,
    /// Mostly 0.
    Sparse,
    /// 1, with a single one of a million.
    OneGiant,
    /// 0, except for a few.
    Empty,
    /// Thousands.
    Long,
}
const LENGTHS: [Lengths; 5] = [Lengths::Short, Lengths::Sparse, Lengths::OneGiant, Lengths::Empty, Lengths::Long];

impl Lengths {
    fn draw(self, rng: &mut Rng, n: usize) -> Vec<u32> {
        let mut lengths: Vec<u32> = (0..n)
            .map(|_| match self {
                Lengths::Short => rng.below(65),
                Lengths::Sparse => rng.below(100) / 98 * rng.below(300),
                Lengths::OneGiant => 1,
                Lengths::Empty => rng.below(1000) / 999,
                Lengths::Long => rng.below(20_000),
            } as u32)
            .collect();
        if n > 0 && matches!(self, Lengths::OneGiant) {
            lengths[rng.below(n)] = 1_000_000;
        }
        lengths
    }
}

fn starts(lengths: &[u32]) -> Vec<u64> {
    let mut starts = vec![0];
    for (i, &length) in lengths.iter().enumerate() {
        starts.push(starts[i] + u64::from(length));
    }
    starts
}

trait Narrow: Index + Copy + PartialEq + Debug + Into<u64> {
    fn of(x: u64) -> Self;
}
impl Narrow for u32 {
    fn of(x: u64) -> u32 {
        u32::try_from(x).unwrap()
    }
}
impl Narrow for u64 {
    fn of(x: u64) -> u64 {
        x
    }
}
fn all<O: Narrow>(from: impl IntoIterator<Item = u64>) -> Vec<O> {
    from.into_iter().map(O::of).collect()
}

/// A buffer of random items, `items`, and more random items; and its contents on the host.
fn guarded<V: Pod + DeviceRepr>(
    rng: &mut Rng,
    stream: &Arc<CudaStream>,
    skip: usize,
    items: &[V],
) -> (CudaSlice<V>, Vec<V>) {
    let mut all = noise::<V>(rng, skip + items.len() + 5);
    all[skip..skip + items.len()].copy_from_slice(items);
    (stream.clone_htod(&all).unwrap(), all)
}

/// A buffer of random items.
fn room_for<V: Pod + DeviceRepr>(
    rng: &mut Rng,
    stream: &Arc<CudaStream>,
    skip: usize,
    n: usize,
) -> (CudaSlice<V>, Vec<V>) {
    let items = noise::<V>(rng, n);
    guarded(rng, stream, skip, &items)
}

#[track_caller]
fn holds<V: Pod + DeviceRepr + Debug>(
    stream: &Arc<CudaStream>,
    buffer: &CudaSlice<V>,
    guard: &[V],
    skip: usize,
    expected: &[V],
    what: &dyn Debug,
) {
    let got = stream.clone_dtoh(buffer).unwrap();
    let mut whole = guard.to_vec();
    whole[skip..skip + expected.len()].copy_from_slice(expected);
    let same = |i: &usize| bytemuck::bytes_of(&got[*i]) == bytemuck::bytes_of(&whole[*i]);
    if let Some(i) = (0..whole.len()).find(|i| !same(i)) {
        panic!(
            "{what:?}: item {i}, {skip} skipped, of {} is {:?} and should be {:?}",
            expected.len(),
            got[i],
            whole[i]
        );
    }
}

fn check_pack<V: Pod + DeviceRepr + Debug + Send + Sync, O: Narrow>(
    rng: &mut Rng,
    device: &mut Option<(Arc<CudaStream>, Workspace)>,
    n: usize,
    lengths: Lengths,
    skips: [usize; 2],
) {
    let what = (std::any::type_name::<(V, O)>(), n, lengths, skips);
    let sizes = lengths.draw(rng, n);
    let longest = sizes.iter().copied().max().unwrap_or(0) as usize;
    let spare = rng.below(100_000);
    let items = noise::<V>(rng, longest + spare);
    let begins: Vec<O> =
        all(sizes.iter().map(|&size| rng.below(items.len() + 1 - size as usize) as u64).collect::<Vec<_>>());
    let exact = starts(&sizes);
    let total = exact[n] as usize;
    let expected_offsets: Vec<O> = all(exact);
    let mut expected: Vec<V> = Vec::with_capacity(total);
    for (begin, &size) in begins.iter().zip(&sizes) {
        let begin = format!("{begin:?}").parse::<usize>().unwrap();
        expected.extend_from_slice(&items[begin..begin + size as usize]);
    }

    let (output, offsets) = pack::<V, O>().run(&items, &begins, &sizes).unwrap();
    assert!(bytemuck::cast_slice::<V, u8>(&output) == bytemuck::cast_slice::<V, u8>(&expected), "{what:?}");
    assert!(offsets == expected_offsets, "{what:?}");

    let (stream, workspace) = or_skip!(device);
    let [skip_in, skip_out] = skips;
    let (input, before) = guarded(rng, stream, skip_in, &items);
    let (begins_in, _) = guarded(rng, stream, skip_out, &begins);
    let (sizes_in, _) = guarded(rng, stream, skip_in, &sizes);
    let view = input.slice(skip_in..skip_in + items.len());
    let begins_view = begins_in.slice(skip_out..skip_out + n);
    let sizes_view = sizes_in.slice(skip_in..skip_in + n);
    for room in [total, total / 2, total + 3] {
        let (mut output, guard) = room_for::<V>(rng, stream, skip_out, room);
        let (mut offsets, offsets_guard) = room_for::<O>(rng, stream, skip_out, n + 1);
        let mut sum = stream.clone_htod(&[5_u64]).unwrap();
        pack::<V, O>()
            .workspace(workspace)
            .run_into(
                &view,
                &begins_view,
                &sizes_view,
                &mut output.slice_mut(skip_out..skip_out + room),
                &mut offsets.slice_mut(skip_out..skip_out + n + 1),
                &mut sum,
            )
            .unwrap();
        assert_eq!(stream.clone_dtoh(&sum).unwrap(), [total as u64], "{what:?}");
        holds(stream, &output, &guard, skip_out, &expected[..total.min(room)], &("packed", room, what));
        holds(stream, &offsets, &offsets_guard, skip_out, &expected_offsets, &("offsets", what));
    }
    let (output, offsets) = pack::<V, O>().workspace(workspace).run(&view, &begins_view, &sizes_view).unwrap();
    holds(stream, &output, &expected, 0, &expected, &("in new memory", what));
    holds(stream, &offsets, &expected_offsets, 0, &expected_offsets, &("offsets in new memory", what));
    holds(stream, &input, &before, 0, &[], &("the input", what));
}

fn check_expand<O: Narrow, I: Narrow>(
    rng: &mut Rng,
    device: &mut Option<(Arc<CudaStream>, Workspace)>,
    n: usize,
    lengths: Lengths,
    skips: [usize; 2],
) {
    let what = (std::any::type_name::<(O, I)>(), n, lengths, skips);
    let sizes = lengths.draw(rng, n);
    let first = rng.below(2) as u64 * 12_345; // of a range of a longer array
    let offsets: Vec<O> = all(starts(&sizes).into_iter().map(|start| start + first));
    let each = || sizes.iter().enumerate().flat_map(|(i, &size)| (0..size).map(move |at| (i as u64, u64::from(at))));
    let expected: Vec<I> = all(each().map(|(i, _)| i));
    let expected_positions: Vec<I> = all(each().map(|(_, at)| at));
    let total = expected.len();

    assert!(expand::<O>().run::<I, _>(&offsets).unwrap() == expected, "{what:?}");
    let guard: Vec<I> = noise(rng, total + 4);
    let (mut segments, mut positions) = (guard.clone(), guard.clone());
    expand::<O>().run_with_positions_into(&offsets, &mut segments, &mut positions).unwrap();
    assert!(segments[..total] == expected && segments[total..] == guard[total..], "{what:?}");
    assert!(positions[..total] == expected_positions && positions[total..] == guard[total..], "{what:?}");
    if total > 0 {
        let error = expand::<O>().run_into(&offsets, &mut segments[..total - 1]).unwrap_err();
        assert!(matches!(error, Error::Size { needed, .. } if needed == total), "{error}");
    }

    let (stream, workspace) = or_skip!(device);
    let [skip_in, skip_out] = skips;
    let (offsets_in, _) = guarded(rng, stream, skip_in, &offsets);
    let view = offsets_in.slice(skip_in..skip_in + n + 1);
    let got = expand::<O>().run::<I, _>(&view).unwrap();
    holds(stream, &got, &expected, 0, &expected, &("in new memory", what));
    for room in [total, total / 2, total + 3] {
        let (mut segments, guard) = room_for::<I>(rng, stream, skip_out, room);
        let (mut positions, positions_guard) = room_for::<I>(rng, stream, skip_in, room);
        expand::<O>()
            .workspace(workspace)
            .run_with_positions_into(
                &view,
                &mut segments.slice_mut(skip_out..skip_out + room),
                &mut positions.slice_mut(skip_in..skip_in + room),
            )
            .unwrap();
        let end = total.min(room);
        holds(stream, &segments, &guard, skip_out, &expected[..end], &("segments", room, what));
        holds(stream, &positions, &positions_guard, skip_in, &expected_positions[..end], &("positions", room, what));
        expand::<O>().run_into(&view, &mut segments.slice_mut(skip_out..skip_out + room)).unwrap();
        holds(stream, &segments, &guard, skip_out, &expected[..end], &("segments alone", room, what));
    }
}

fn device() -> Option<(Arc<CudaStream>, Workspace)> {
    stream().map(|stream| (stream.clone(), Workspace::new(&stream)))
}

const SKIPS: [[usize; 2]; 4] = [[0, 0], [1, 3], [5, 0], [7, 2]];

fn every_pack<V: Pod + DeviceRepr + Debug + Send + Sync>() {
    let (mut device, mut rng) = (device(), Rng::new());
    for (k, n) in [0, 1, 2, 100, 1023, 1025, 5000, 60_000].into_iter().enumerate() {
        for (j, lengths) in LENGTHS.into_iter().enumerate() {
            let n = if matches!(lengths, Lengths::Long) { n.min(300) } else { n };
            let skips = SKIPS[(j + k) % 4];
            if (j + k) % 2 == 0 {
                check_pack::<V, u32>(&mut rng, &mut device, n, lengths, skips);
            } else {
                check_pack::<V, u64>(&mut rng, &mut device, n, lengths, skips);
            }
        }
    }
}

macro_rules! packs { ($($name:ident $v:ty;)*) => { $( #[test] fn $name() { every_pack::<$v>(); } )* } }
packs! {
    pack_bytes u8; pack_halves u16; pack_words u32; pack_doubles u64; pack_quads u128;
    pack_three_bytes [u8; 3]; pack_three_words [u32; 3]; pack_five_halves [u16; 5]; pack_four_bytes [u8; 4];
}

macro_rules! expands { ($($name:ident $o:ty, $i:ty;)*) => { $(
    #[test]
    fn $name() {
        let (mut device, mut rng) = (device(), Rng::new());
        let long = if device.is_some() { 300_000 } else { 60_000 };
        for (k, n) in [0, 1, 2, 100, 2047, 2049, 5000, long].into_iter().enumerate() {
            for (j, lengths) in LENGTHS.into_iter().enumerate() {
                let n = if matches!(lengths, Lengths::Long) { n.min(300) } else { n };
                check_expand::<$o, $i>(&mut rng, &mut device, n, lengths, SKIPS[(j + k) % 4]);
            }
        }
    }
)* } }
expands! { expand_u32_u32 u32, u32; expand_u32_u64 u32, u64; expand_u64_u32 u64, u32; expand_u64_u64 u64, u64; }

/// A short walk for compute-sanitizer.
#[test]
fn sanitize() {
    let (mut device, mut rng) = (device(), Rng::new());
    for (n, lengths, skips) in [
        (1, Lengths::Short, [0, 0]),
        (3000, Lengths::Short, [1, 3]),
        (9000, Lengths::Empty, [5, 0]),
        (60, Lengths::Long, [7, 2]),
    ] {
        check_pack::<u8, u32>(&mut rng, &mut device, n, lengths, skips);
        check_pack::<u32, u64>(&mut rng, &mut device, n, lengths, skips);
        check_pack::<[u16; 5], u64>(&mut rng, &mut device, n, lengths, skips);
        check_expand::<u64, u32>(&mut rng, &mut device, n, lengths, skips);
    }
    invalid_segments();
    longer_buffers();
}

/// Begins past the end and offsets out of order: an error on the host, and on the device no access
/// out of bounds.
#[test]
fn invalid_segments() {
    let items = [1_u8, 2, 3, 4, 5];
    let error = pack::<u8, u32>().run(&items, &[0, 3], &[2_u32, 3]).unwrap_err();
    assert!(matches!(error, Error::Size { needed: 6, found: 5, .. }), "{error}");
    assert!(pack::<u8, u32>().run(&items, &[0, 99], &[5_u32, 0]).is_ok(), "an empty one may begin anywhere");
    let error = pack::<u8, u32>().run(&items, &[0], &[2_u32, 3]).unwrap_err();
    assert!(matches!(error, Error::Size { needed: 2, found: 1, .. }), "{error}");
    let error = pack::<u8, u32>().run(&items, &[0, 0], &[u32::MAX, u32::MAX]).unwrap_err();
    assert!(matches!(error, Error::Size { .. }), "{error}");
    let error = expand::<u32>().run::<u32, _>(&[]).unwrap_err();
    assert!(matches!(error, Error::Size { needed: 1, .. }), "{error}");
    let stream = or_skip!(stream());
    let input = stream.clone_htod(&items).unwrap();
    let begins = stream.clone_htod(&[3_u32, u32::MAX, 0, 5]).unwrap();
    let sizes = stream.clone_htod(&[4_u32, 3, 2, 1]).unwrap();
    let mut output = stream.clone_htod(&[9_u8; 12]).unwrap();
    let mut places = stream.alloc_zeros::<u32>(5).unwrap();
    let mut total = stream.alloc_zeros::<u64>(1).unwrap();
    pack::<u8, u32>().run_into(&input, &begins, &sizes, &mut output, &mut places, &mut total).unwrap();
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [4, 5, 9, 9, 9, 9, 9, 1, 2, 9, 9, 9]);
    let (packed, _) = pack::<u8, u32>().run(&input, &begins, &sizes).unwrap();
    assert_eq!(stream.clone_dtoh(&packed).unwrap(), [4, 5, 0, 0, 0, 0, 0, 1, 2, 0]);
    let mut rng = Rng::new();
    let disorder: Vec<u32> = (0..50_000).map(|_| rng.next() as u32 % 100_000).collect();
    let offsets = stream.clone_htod(&disorder).unwrap();
    let mut segments = stream.clone_htod(&vec![9_u32; 100_000]).unwrap();
    expand::<u32>().run_into(&offsets, &mut segments).unwrap();
    stream.synchronize().unwrap();
    let got = stream.clone_dtoh(&segments).unwrap();
    assert!(got.iter().all(|&i| i < 50_000));
    let mut back = vec![0_u32; 100_000];
    let _ = expand::<u32>().run_into(&disorder, &mut back);
}

/// A buffer for offsets longer than segments + 1: the rest of it is not written, whatever it holds.
#[test]
fn longer_buffers() {
    let items: Vec<u16> = (0..5000).map(|i| i * 7 + 3).collect();
    let device = stream();
    for n in [0, 1, 3, 2000] {
        let sizes: Vec<u32> = (0..n).map(|i| i * 13 % 40).collect();
        let begins: Vec<u32> = (0..n).map(|i| i * 31 % 4900).collect();
        let ranges = || begins.iter().zip(&sizes).map(|(&begin, &size)| begin as usize..(begin + size) as usize);
        let packed: Vec<u16> = ranges().flat_map(|range| items[range].to_vec()).collect();
        let starts: Vec<u32> = all(starts(&sizes));
        for (old, more) in [(0, 1), (7, 1), (0, 1000), (7, 1000), (u32::MAX, 3)] {
            let what = (n, old, more);
            let longer = |exact: &[u16]| [exact, &[9; 50]].concat();
            let mut offsets = vec![old; starts.len() + more];
            let (mut output, mut total) = (longer(&vec![9; packed.len()]), vec![5; 3]);
            pack::<u16, u32>().run_into(&items, &begins, &sizes, &mut output, &mut offsets, &mut total).unwrap();
            assert!(output == longer(&packed), "{what:?}");
            assert!(offsets == [&starts[..], &vec![old; more]].concat(), "{what:?}");
            assert_eq!(total, [packed.len() as u64, 5, 5], "{what:?}");

            let Some(stream) = &device else { continue };
            let from = stream.clone_htod(&items).unwrap();
            // Begins and sizes that end with their buffers: reading one more would be past the end.
            let (begins, sizes) = (stream.clone_htod(&begins).unwrap(), stream.clone_htod(&sizes).unwrap());
            let mut output = stream.clone_htod(&longer(&vec![9; packed.len()])).unwrap();
            let mut offsets = stream.clone_htod(&vec![old; starts.len() + more]).unwrap();
            let mut total = stream.clone_htod(&[5_u64; 3]).unwrap();
            pack::<u16, u32>().run_into(&from, &begins, &sizes, &mut output, &mut offsets, &mut total).unwrap();
            assert!(stream.clone_dtoh(&output).unwrap() == longer(&packed), "{what:?}");
            assert!(stream.clone_dtoh(&offsets).unwrap() == [&starts[..], &vec![old; more]].concat(), "{what:?}");
            assert_eq!(stream.clone_dtoh(&total).unwrap(), [packed.len() as u64, 5, 5], "{what:?}");
        }
    }
}

/// Items larger than a thread's share, and items of zero bytes.
#[test]
fn items_of_any_size() {
    fn check<V: Pod + Send + Sync>() {
        let mut rng = Rng::new();
        let items: Vec<V> = noise(&mut rng, 3);
        let (packed, offsets) = pack::<V, u32>().run(&items, &[1, 2, 0], &[2_u8, 0, 1]).unwrap();
        assert_eq!(offsets, [0, 2, 2, 3]);
        for (packed, from) in packed.iter().zip([1, 2, 0]) {
            assert!(bytemuck::bytes_of(packed) == bytemuck::bytes_of(&items[from]), "{} bytes", size_of::<V>());
        }
    }
    check::<[[u8; 512]; 1024]>();
    check::<[[[u8; 5]; 128]; 1024]>();
    check::<[[u8; 1024]; 1024]>();
    // The greatest count of zero-sized items takes no time.
    let most = u64::MAX - 1;
    let (packed, offsets) = pack::<(), u64>().run(&vec![(); usize::MAX], &[0], &[most]).unwrap();
    assert_eq!((packed.len() as u64, &offsets[..]), (most, &[0, most][..]));
}

/// Offsets out of order, in new memory: on the device every element of the result is the number of
/// a segment, whatever the memory held. On the host it begins as zeros.
#[test]
fn offsets_out_of_order_in_new_memory() {
    fn check<O: Narrow, I: Narrow>(stream: Option<&Arc<CudaStream>>, offsets: &[u64]) {
        let (n, span) = (offsets.len() - 1, offsets[offsets.len() - 1] - offsets[0]);
        let offsets: Vec<O> = all(offsets.iter().copied());
        let check = |got: Vec<I>| {
            assert_eq!(got.len() as u64, span);
            let strange = got.iter().position(|&i| i.into() >= n as u64);
            assert_eq!(strange, None, "{n} segments, {span} outputs");
        };
        check(expand::<O>().run::<I, _>(&offsets).unwrap());
        let Some(stream) = stream else { return };
        let there = stream.clone_htod(&offsets).unwrap();
        // The pool gives this memory to the next allocation of that size.
        drop(stream.clone_htod(&vec![I::of(u64::from(u32::MAX)); span as usize]).unwrap());
        check(stream.clone_dtoh(&expand::<O>().run::<I, _>(&there).unwrap()).unwrap());
        // The same for positions; nothing is written outside of the output.
        let (mut rng, guard) = (Rng::new(), I::of(u64::from(u32::MAX)));
        let room = span as usize + rng.below(50);
        let [mut segments, mut positions] = [(); 2].map(|()| stream.clone_htod(&vec![guard; room + 8]).unwrap());
        let (mut to, mut positions_to) = (segments.slice_mut(3..3 + room), positions.slice_mut(3..3 + room));
        expand::<O>().run_with_positions_into(&there, &mut to, &mut positions_to).unwrap();
        let got = stream.clone_dtoh(&segments).unwrap();
        check(got[3..3 + span as usize].to_vec());
        for all in [got, stream.clone_dtoh(&positions).unwrap()] {
            assert!(all[..3].iter().chain(&all[3 + room..]).all(|&i| i == guard), "{n} of {span}");
        }
    }
    let (device, mut rng) = (stream(), Rng::new());
    for n in [2, 5, 300, 2049, 40_000] {
        for span in [1, 700, 5000, 300_000] {
            let mut below = |most: usize| rng.below(most) as u64;
            let random: Vec<u64> = (0..=n).map(|_| below(span + span / 3)).collect();
            let falling: Vec<u64> = (0..=n).map(|i| ((n - i) * span / n) as u64).collect();
            let jagged: Vec<u64> = (0..=n).map(|i| ((i % 7) * span / 6) as u64).collect();
            let low: Vec<u64> = (0..=n).map(|i| if i == 1 { span as u64 } else { below(3) }).collect();
            let high: Vec<u64> = (0..=n).map(|i| if i == n / 2 { 0 } else { span as u64 + below(9) }).collect();
            for mut offsets in [random, falling, jagged, low, high] {
                // Some are less than the first offset.
                offsets.iter_mut().for_each(|offset| *offset += 1);
                offsets[0] = 1 + below(2);
                offsets[n] = offsets[0] + span as u64;
                check::<u32, u32>(device.as_ref(), &offsets);
                check::<u64, u64>(device.as_ref(), &offsets);
            }
        }
    }
}

/// Pack and expand in a graph, replayed with other sizes. Nothing is allocated.
#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let (stream, mut workspace) = or_skip!(device());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { stream.context().disable_event_tracking() };
    let (mut rng, n, room) = (Rng::new(), 20_000, 20_000 * 64);
    let items = noise::<u8>(&mut rng, 100_000);
    let input = stream.clone_htod(&items).unwrap();
    let (mut begins, mut sizes) = (stream.alloc_zeros::<u32>(n).unwrap(), stream.alloc_zeros::<u32>(n).unwrap());
    let mut output = stream.alloc_zeros::<u8>(room).unwrap();
    let mut places = stream.alloc_zeros::<u32>(n + 1).unwrap();
    let mut total = stream.alloc_zeros::<u64>(1).unwrap();
    let mut segments = stream.alloc_zeros::<u32>(room).unwrap();
    let packer = pack::<u8, u32>();
    packer.prepare::<u32>(n, &mut workspace).unwrap();
    expand::<u32>().prepare(&mut workspace).unwrap();
    let held = workspace.bytes();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    packer.workspace(&mut workspace).run_into(&input, &begins, &sizes, &mut output, &mut places, &mut total).unwrap();
    expand::<u32>().workspace(&mut workspace).run_into(&places, &mut segments).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
    for _replay in 0..4 {
        let lengths = Lengths::Short.draw(&mut rng, n);
        let from: Vec<u32> = lengths.iter().map(|_| rng.below(90_000) as u32).collect();
        stream.memcpy_htod(&from, &mut begins).unwrap();
        stream.memcpy_htod(&lengths, &mut sizes).unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        let each = || from.iter().zip(&lengths).map(|(&from, &length)| from as usize..(from + length) as usize);
        let expected: Vec<u8> = each().flat_map(|range| items[range].to_vec()).collect();
        let of: Vec<u32> = each().enumerate().flat_map(|(i, range)| range.map(move |_| i as u32)).collect();
        assert_eq!(stream.clone_dtoh(&total).unwrap(), [expected.len() as u64]);
        assert!(stream.clone_dtoh(&output).unwrap()[..expected.len()] == expected);
        assert!(stream.clone_dtoh(&segments).unwrap()[..of.len()] == of);
    }
}

/// Every part has the length asked for, is aligned, and overlaps no other.
#[test]
fn allocations() {
    let (mut rng, stream) = (Rng::new(), stream());
    for (n, align) in [(0, 1), (1, 8), (1000, 1), (1000, 16), (3000, 64)] {
        let sizes: Vec<u16> = (0..n).map(|_| rng.below(40) as u16).collect();
        let mut space = offsets::<u16, u64>().align(align).allocate::<u32, _>(&sizes).unwrap();
        assert!(space.buffer().iter().all(|&x| x == 0));
        space.buffer_mut().fill(0); // can be written as a whole
        let parts: Vec<&mut [u32]> = space.slices().collect();
        assert_eq!(parts.len(), n);
        for (i, (part, &size)) in parts.into_iter().zip(&sizes).enumerate() {
            assert_eq!(part.len(), size.into());
            part.fill(1 + i as u32);
        }
        let (buffer, starts) = space.into_parts();
        let mut expected = vec![0_u32; starts[n] as usize];
        for (i, (&start, &size)) in starts.iter().zip(&sizes).enumerate() {
            assert_eq!(start % align, 0);
            expected[start as usize..start as usize + usize::from(size)].fill(1 + i as u32);
        }
        assert_eq!(expected.iter().filter(|&&x| x != 0).count(), sizes.iter().map(|&size| usize::from(size)).sum());
        assert_eq!(buffer, expected);

        let Some(stream) = &stream else { continue };
        let sizes_there = stream.clone_htod(&sizes).unwrap();
        let mut space = offsets::<u16, u64>().align(align).allocate::<u32, _>(&sizes_there).unwrap();
        stream.memset_zeros(&mut space.buffer_mut()).unwrap();
        for (i, part) in space.views().unwrap().iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
            stream.memcpy_htod(&vec![1 + i as u32; part.len()], part).unwrap();
        }
        let (buffer, starts_there) = space.into_parts();
        assert_eq!(stream.clone_dtoh(&starts_there).unwrap(), starts);
        assert_eq!(stream.clone_dtoh(&buffer).unwrap(), expected);
    }
    let error = offsets::<u32, u32>().allocate::<u8, _>(&[u32::MAX, 1]).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
}

/// Segments of more than 2^32 items in all, and one segment of more than that.
#[test]
fn past_32_bits() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = (1 << 32) + 70_000 + rng.below(10_000);
    let items = rng.bytes(n);
    let lengths = [1000, items.len() as u64 - 5000, 0, 2000];
    let begins = [items.len() as u64 - 1000, 3000, 5, 1];
    let (from, begins_there) = (stream.clone_htod(&items).unwrap(), stream.clone_htod(&begins).unwrap());
    let lengths_there = stream.clone_htod(&lengths).unwrap();
    let (packed, starts) = pack::<u8, u64>().run(&from, &begins_there, &lengths_there).unwrap();
    assert_eq!(stream.clone_dtoh(&starts).unwrap(), [0, 1000, 1000 + lengths[1], 1000 + lengths[1], 3000 + lengths[1]]);
    drop(from);
    let got = stream.clone_dtoh(&packed).unwrap();
    drop(packed);
    let mut at = 0;
    for (begin, length) in begins.into_iter().zip(lengths) {
        let (begin, length) = (begin as usize, length as usize);
        assert!(got[at..at + length] == items[begin..begin + length], "the segment from {begin} on");
        at += length;
    }
    assert_eq!(got.len(), at);

    // Expand.
    let mut segments = stream.alloc_zeros::<u64>(at).unwrap();
    expand::<u64>().run_into(&starts, &mut segments).unwrap();
    let ends = stream.clone_dtoh(&starts).unwrap();
    for _ in 0..2000 {
        let i = [rng.below(at - 8), rng.below(4000), at - 8 - rng.below(4000)][rng.below(3)];
        let got = stream.clone_dtoh(&segments.slice(i..i + 8)).unwrap();
        let expected: Vec<u64> = (i..i + 8).map(|i| ends.partition_point(|&end| end <= i as u64) as u64 - 1).collect();
        assert_eq!(got, expected, "outputs from {i} on");
    }
}
