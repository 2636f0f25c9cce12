//! Compaction on the device: every size and choice, views at odd offsets with guards, graphs,
//! several compactions into one buffer, outputs that are too short, more than 2^32 items.

use super::*;
use crate::common::process::is_alone;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

/// Sizes around the borders of rows, slices and tiles of items of `size` bytes, and of the ranges
/// of lengths.
fn sizes(rng: &mut Rng, size: usize, with_long: bool) -> Vec<usize> {
    let slice = 4096 / size;
    let mut sizes = vec![0, 1, 31, 32, 33, slice - 1, slice, slice + 1, 3 * slice, 8 * slice, 8 * slice + 1];
    sizes.extend([40 * slice + 5, (512 << 10) / size, (512 << 10) / size + 1, 1 + rng.below(400 * slice)]);
    if with_long {
        sizes.extend([(8 << 20) / size, (8 << 20) / size + 1 + rng.below(5000)]);
        // Where the shape of a one-launch partition into one buffer changes.
        sizes.extend([(1 << 20) / size, (1 << 20) / size + 1, (4 << 20) / size + 1]);
    }
    sizes
}

struct Device {
    rng: Rng,
    stream: Arc<CudaStream>,
    workspace: Workspace,
}

impl Device {
    fn new() -> Option<Device> {
        let stream = stream()?;
        Some(Device { rng: Rng::new(), workspace: Workspace::new(&stream), stream })
    }

    /// A buffer of `before` random items, `items`, and more random items; and its contents on the
    /// host.
    fn guarded<V: Pod + DeviceRepr>(&mut self, before: usize, items: &[V]) -> (CudaSlice<V>, Vec<V>) {
        let mut all = noise::<V>(&mut self.rng, before + items.len() + 5);
        all[before..before + items.len()].copy_from_slice(items);
        (self.stream.clone_htod(&all).unwrap(), all)
    }

    fn count(&mut self, value: u64) -> CudaSlice<u64> {
        self.stream.clone_htod(&[value]).unwrap()
    }

    /// Asserts that the buffer holds `expected` from `skip` on, and `guard` elsewhere.
    #[track_caller]
    fn holds<V: Pod + DeviceRepr + Debug>(
        &self,
        buffer: &CudaSlice<V>,
        guard: &[V],
        skip: usize,
        expected: &[V],
        what: &dyn Debug,
    ) {
        let got = self.stream.clone_dtoh(buffer).unwrap();
        assert_bytes(&got[skip..skip + expected.len()], expected, what);
        assert_bytes(&got[..skip], &guard[..skip], &("before", what));
        assert_bytes(&got[skip + expected.len()..], &guard[skip + expected.len()..], &("after", what));
    }

    fn check<V: Pod + DeviceRepr + Debug + Send + Sync>(&mut self, n: usize, pattern: Pattern, skips: [usize; 3]) {
        let what = (std::any::type_name::<V>(), n, pattern, skips);
        let items = noise::<V>(&mut self.rng, n);
        let flags = flags(&mut self.rng, pattern, n);
        let (expected, others) = (selected(&items, &flags), selected(&items, &inverted(&flags)));
        let [skip_in, skip_flags, skip_out] = skips;
        let (input, before) = self.guarded(skip_in, &items);
        let (flags_in, _) = self.guarded(skip_flags, &flags);
        let words = words_32(&mut self.rng, &flags);
        let (words_in, _) = self.guarded(skip_flags, &words);
        let view = input.slice(skip_in..skip_in + n);
        let flags_view = flags_in.slice(skip_flags..skip_flags + n);
        let words_view = words_in.slice(skip_flags..skip_flags + words.len());
        let by_flags = compact::<V>().flags(&flags_view);
        let by_bits = compact::<V>().bits::<u32, _>(&words_view);

        // Appends the flagged items, then the rejected ones by bits.
        let (mut output, guard) = self.guarded(skip_out, &items);
        let mut count = self.count(77);
        let room = skip_out..skip_out + n;
        by_flags
            .workspace(&mut self.workspace)
            .run_into(&view, &mut output.slice_mut(room.clone()), &mut count)
            .unwrap();
        assert_eq!(self.stream.clone_dtoh(&count).unwrap(), [expected.len() as u64], "{what:?}");
        self.holds(&output, &guard, skip_out, &expected, &("by flags", what));
        by_bits
            .complement()
            .append()
            .workspace(&mut self.workspace)
            .run_into(&view, &mut output.slice_mut(room), &mut count)
            .unwrap();
        assert_eq!(self.stream.clone_dtoh(&count).unwrap(), [n as u64], "{what:?}");
        let both = [expected.clone(), others.clone()].concat();
        self.holds(&output, &guard, skip_out, &both, &("the rest by bits", what));

        // Too little room: the items that fit are written, and the count is of all selected items.
        let room = expected.len() / 3;
        let (mut output, guard) = self.guarded(skip_out, &items);
        let mut short = output.slice_mut(skip_out..skip_out + room);
        by_flags.workspace(&mut self.workspace).run_into(&view, &mut short, &mut count).unwrap();
        assert_eq!(self.stream.clone_dtoh(&count).unwrap(), [expected.len() as u64], "{what:?}");
        self.holds(&output, &guard, skip_out, &expected[..room], &("too short", what));

        // The input is unchanged. Then in place.
        assert_bytes(&self.stream.clone_dtoh(&input).unwrap(), &before, &("the input", what));
        let (mut in_place, guard) = self.guarded(skip_in, &items);
        let mut data = in_place.slice_mut(skip_in..skip_in + n);
        by_bits.workspace(&mut self.workspace).run_in_place(&mut data, &mut count).unwrap();
        self.holds(
            &in_place,
            &guard,
            skip_in,
            &[&expected[..], &items[expected.len()..]].concat(),
            &("in place", what),
        );

        // Indices, a payload, and items with indices.
        let expected_indices: Vec<u32> = selected(&(0..n as u32).collect::<Vec<_>>(), &flags);
        let (mut indices, guard) = self.guarded(skip_out, &vec![7_u32; n]);
        let mut room = indices.slice_mut(skip_out..skip_out + n);
        by_flags.workspace(&mut self.workspace).indices_into(&view, &mut room, &mut count).unwrap();
        self.holds(&indices, &guard, skip_out, &expected_indices, &("indices", what));
        let payload = noise::<[u8; 3]>(&mut self.rng, n);
        let (beside, _) = self.guarded(skip_in, &payload);
        let (mut output, guard) = self.guarded(skip_out, &items);
        let (mut beside_output, beside_guard) = self.guarded(skip_in, &payload);
        by_bits
            .workspace(&mut self.workspace)
            .run_pairs_into(
                &view,
                &beside.slice(skip_in..skip_in + n),
                &mut output.slice_mut(skip_out..skip_out + n),
                &mut beside_output.slice_mut(skip_in..skip_in + n),
                &mut count,
            )
            .unwrap();
        self.holds(&output, &guard, skip_out, &expected, &("with a payload", what));
        self.holds(&beside_output, &beside_guard, skip_in, &selected(&payload, &flags), &("the payload", what));
        let (mut output, guard) = self.guarded(skip_out, &items);
        let (mut wide, wide_guard) = self.guarded(skip_in, &vec![7_u64; n]);
        by_flags
            .workspace(&mut self.workspace)
            .run_with_indices_into(
                &view,
                &mut output.slice_mut(skip_out..skip_out + n),
                &mut wide.slice_mut(skip_in..skip_in + n),
                &mut count,
            )
            .unwrap();
        let wide_indices: Vec<u64> = expected_indices.iter().map(|&i| i.into()).collect();
        self.holds(&output, &guard, skip_out, &expected, &("with indices", what));
        self.holds(&wide, &wide_guard, skip_in, &wide_indices, &("the indices", what));

        // Partition, into one buffer and into two.
        let (mut output, guard) = self.guarded(skip_out, &items);
        let mut room = output.slice_mut(skip_out..skip_out + n);
        let by_flags = partition::<V>().flags(&flags_view);
        by_flags.workspace(&mut self.workspace).run_into(&view, &mut room, &mut count).unwrap();
        assert_eq!(self.stream.clone_dtoh(&count).unwrap(), [expected.len() as u64], "{what:?}");
        self.holds(&output, &guard, skip_out, &both, &("partition", what));
        let (mut one, one_guard) = self.guarded(skip_out, &items);
        let (mut other, other_guard) = self.guarded(skip_in, &items);
        let room = others.len() / 2;
        partition::<V>()
            .bits::<u32, _>(&words_view)
            .workspace(&mut self.workspace)
            .run_apart_into(
                &view,
                &mut one.slice_mut(skip_out..skip_out + expected.len()),
                &mut other.slice_mut(skip_in..skip_in + room),
                &mut count,
            )
            .unwrap();
        self.holds(&one, &one_guard, skip_out, &expected, &("partition apart", what));
        self.holds(&other, &other_guard, skip_in, &others[..room], &("rejected", what));
    }
}

fn check<V: Pod + DeviceRepr + Debug + Send + Sync>() {
    let mut device = or_skip!(Device::new());
    for (k, n) in sizes(&mut device.rng, size_of::<V>(), true).into_iter().enumerate() {
        let patterns = if n > 100_000 { 2 } else { PATTERNS.len() };
        let start = device.rng.below(PATTERNS.len());
        for p in 0..patterns {
            let skips = [[0, 0, 0], [1, 3, 0], [0, 1, 5], [7, 16, 1]][(k + p) % 4];
            device.check::<V>(n, PATTERNS[(start + p) % PATTERNS.len()], skips);
        }
    }
}

macro_rules! stamp { ($($name:ident $v:ty;)*) => { $( #[test] fn $name() { check::<$v>(); } )* } }
stamp! {
    bytes u8; halves u16; words u32; doubles u64; quads u128;
    three_bytes [u8; 3]; three_words [u32; 3]; five_halves [u16; 5]; fifteen_bytes [u8; 15]; four_bytes [u8; 4];
}

/// A short walk for compute-sanitizer.
#[test]
fn sanitize() {
    let mut device = or_skip!(Device::new());
    for skips in [[0, 0, 0], [1, 3, 5]] {
        for n in [1, 1000, 9000, 140_000] {
            device.check::<u32>(n, PATTERNS[2], skips);
            device.check::<[u8; 3]>(n, PATTERNS[5], skips);
            device.check::<u128>(n, PATTERNS[1], skips);
        }
        device.check::<u8>((8 << 20) + 77, PATTERNS[2], skips);
        device.check::<u32>((2 << 20) + 77, PATTERNS[5], skips);
    }
}

/// Replays with other data of a graph with a long and a short compaction and partition. Nothing is
/// allocated.
#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { stream.context().disable_event_tracking() };
    let (long, short) = (3 << 20, 50_000);
    let above = compact::<u32>().keep(Above(0x6000_0000));
    let parts = partition::<u32>().keep(Above(0x6000_0000));
    above.prepare(long, &mut device.workspace).unwrap();
    parts.prepare(long, &mut device.workspace).unwrap();
    let held = device.workspace.bytes();
    let (mut x, mut y) = (stream.alloc_zeros::<u32>(long).unwrap(), stream.alloc_zeros::<u32>(short).unwrap());
    let (mut output, mut count) = (stream.alloc_zeros::<u32>(long + short).unwrap(), device.count(0));
    let (mut x_parts, mut x_split) = (x.clone(), device.count(0));
    let (mut y_parts, mut y_split) = (y.clone(), device.count(0));
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    above.workspace(&mut device.workspace).run_into(&x, &mut output, &mut count).unwrap();
    above.append().workspace(&mut device.workspace).run_into(&y, &mut output, &mut count).unwrap();
    parts.workspace(&mut device.workspace).run_into(&x, &mut x_parts, &mut x_split).unwrap();
    parts.workspace(&mut device.workspace).run_into(&y, &mut y_parts, &mut y_split).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(device.workspace.bytes(), held, "a prepared workspace does not grow");
    for _replay in 0..6 {
        let (a, b) = (noise::<u32>(&mut device.rng, long), noise::<u32>(&mut device.rng, short));
        stream.memcpy_htod(&a, &mut x).unwrap();
        stream.memcpy_htod(&b, &mut y).unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        let keeps = |x: &&u32| **x > 0x6000_0000;
        let expected: Vec<u32> = a.iter().chain(&b).filter(keeps).copied().collect();
        assert_eq!(stream.clone_dtoh(&count).unwrap(), [expected.len() as u64]);
        assert!(stream.clone_dtoh(&output).unwrap()[..expected.len()] == expected);
        for (items, parts, split) in [(&a, &x_parts, &x_split), (&b, &y_parts, &y_split)] {
            let (mut expected, others): (Vec<u32>, Vec<u32>) = items.iter().partition(keeps);
            assert_eq!(stream.clone_dtoh(split).unwrap(), [expected.len() as u64]);
            expected.extend(others);
            assert!(stream.clone_dtoh(parts).unwrap() == expected);
        }
    }
}

/// Partitions into one buffer of more items than the device holds at once: a launch counts, and one
/// moves from the last tile on.
fn two_reads<V: Pod + DeviceRepr + Debug + Send + Sync>() {
    let mut device = or_skip!(Device::new());
    for (pattern, skips) in [(PATTERNS[2], [0, 0, 0]), (PATTERNS[5], [1, 3, 5])] {
        let n = (48 << 20) / size_of::<V>() + device.rng.below(100_000);
        let what = (std::any::type_name::<V>(), n, pattern, skips);
        let (items, flags) = (noise::<V>(&mut device.rng, n), flags(&mut device.rng, pattern, n));
        let expected = [selected(&items, &flags), selected(&items, &inverted(&flags))].concat();
        let words = words_32(&mut device.rng, &flags);
        let [skip_in, skip_flags, skip_out] = skips;
        let (input, _) = device.guarded(skip_in, &items);
        let (flags_in, _) = device.guarded(skip_flags, &flags);
        let (words_in, _) = device.guarded(skip_flags, &words);
        let view = input.slice(skip_in..skip_in + n);
        let flags_view = flags_in.slice(skip_flags..skip_flags + n);
        let words_view = words_in.slice(skip_flags..skip_flags + words.len());
        let by_flags = partition::<V>().flags(&flags_view);
        let by_bits = partition::<V>().bits::<u32, _>(&words_view);
        let mut count = device.count(77);
        for by in ["flags", "bits"] {
            let (mut output, guard) = device.guarded(skip_out, &items);
            let mut room = output.slice_mut(skip_out..skip_out + n);
            match by {
                "flags" => by_flags.workspace(&mut device.workspace).run_into(&view, &mut room, &mut count).unwrap(),
                _ => by_bits.workspace(&mut device.workspace).run_into(&view, &mut room, &mut count).unwrap(),
            }
            let selected = flags.iter().filter(|&&flag| flag != 0).count();
            assert_eq!(device.stream.clone_dtoh(&count).unwrap(), [selected as u64], "{what:?}");
            device.holds(&output, &guard, skip_out, &expected, &(by, what));
        }
    }
}

#[test]
fn words_in_two_reads() {
    two_reads::<u32>();
}

#[test]
fn three_bytes_in_two_reads() {
    two_reads::<[u8; 3]>();
}

/// Partitions that each need the whole device, on two streams at once. The workspace prepared for
/// the longest is enough.
#[test]
fn two_streams_of_partitions_at_once() {
    let device = or_skip!(Device::new());
    let mut rng = Rng::new();
    let longest = 4 << 20;
    let parts = partition::<u32>().keep(Above(0x6000_0000));
    let streams = [0, 1].map(|_| device.stream.context().new_stream().unwrap());
    let mut workspaces = streams.each_ref().map(Workspace::new);
    for workspace in &mut workspaces {
        parts.prepare(longest, workspace).unwrap();
    }
    let held = workspaces.each_ref().map(Workspace::bytes);
    for n in [longest, longest - 1 - rng.below(10_000), (1 << 20) + 1, 1 << 18, 1 << 16, 5000] {
        let items = streams.each_ref().map(|_| noise::<u32>(&mut rng, n));
        let mut buffers: Vec<_> = (0..2)
            .map(|k| {
                let input = streams[k].clone_htod(&items[k]).unwrap();
                (input, streams[k].alloc_zeros::<u32>(n).unwrap(), streams[k].alloc_zeros::<u64>(1).unwrap())
            })
            .collect();
        for _ in 0..50 {
            for (workspace, (input, output, count)) in workspaces.iter_mut().zip(&mut buffers) {
                parts.workspace(workspace).run_into(input, output, count).unwrap();
            }
        }
        for (k, (_, output, count)) in buffers.iter().enumerate() {
            let (mut expected, others): (Vec<u32>, Vec<u32>) = items[k].iter().partition(|x| **x > 0x6000_0000);
            assert_eq!(streams[k].clone_dtoh(count).unwrap(), [expected.len() as u64], "{n}");
            expected.extend(others);
            assert!(streams[k].clone_dtoh(output).unwrap() == expected, "{n}");
        }
        assert_eq!(workspaces.each_ref().map(Workspace::bytes), held, "a prepared workspace does not grow, {n}");
    }
}

/// The indices of few selected items of more than 2^32.
#[test]
fn past_32_bits() {
    let device = or_skip!(Device::new());
    let stream = &device.stream;
    let n: usize = (1 << 32) + (1 << 20) + 12_345;
    let mut bits = vec![0_u64; n.div_ceil(64)];
    let expected: Vec<u64> = (0..n as u64).step_by(1_000_003).chain([n as u64 - 1]).collect();
    for &i in &expected {
        bits[i as usize / 64] |= 1 << (i % 64);
    }
    let words = stream.clone_htod(&bits).unwrap();
    let items = stream.alloc_zeros::<u8>(n).unwrap();
    let by_bits = compact::<u8>().bits::<u64, _>(&words);
    let got = by_bits.indices::<u64, _>(&items).unwrap();
    assert!(stream.clone_dtoh(&got).unwrap() == expected);
    let error = by_bits.indices::<u32, _>(&items).unwrap_err();
    assert!(matches!(error, Error::TooLong { most: 0x1_0000_0000, .. }), "{error}");
    // The complement: more than 2^32 items move.
    let mut output = stream.clone_htod(&vec![9_u8; 1]).unwrap();
    let mut count = stream.alloc_zeros::<u64>(1).unwrap();
    by_bits.complement().run_into(&items, &mut output, &mut count).unwrap();
    assert_eq!(stream.clone_dtoh(&count).unwrap(), [(n - expected.len()) as u64]);
    let mut output = stream.clone_htod(&vec![9_u8; n]).unwrap();
    by_bits.complement().run_into(&items, &mut output, &mut count).unwrap();
    let got = stream.clone_dtoh(&output).unwrap();
    let end = n - expected.len();
    assert!(got[..end].iter().all(|&x| x == 0) && got[end..].iter().all(|&x| x == 9));
}
