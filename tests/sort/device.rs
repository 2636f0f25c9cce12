//! Sort on the device: every size, kind of keys, pattern and call; views at odd offsets with
//! guards; graphs.

use super::*;
use crate::common::process::is_alone;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

/// Sizes around the borders of rows, of one block, and of tiles.
fn sizes(rng: &mut Rng) -> Vec<usize> {
    let mut sizes = vec![
        0, 1, 2, 31, 32, 33, 511, 512, 513, 1024, 1025, 3072, 3073, 4095, 4096, 4097, 5631, 5632, 5633, 8191, 8192,
        8193, 12_289,
    ];
    for items in [6, 8, 12, 18, 21, 32] {
        let tile = 512 * items;
        sizes.extend([tile - 1, tile, tile + 1, 3 * tile]);
    }
    sizes.extend([100_000, 1 + rng.below(1_000_000)]);
    sizes
}

pub(super) struct Device {
    pub(super) rng: Rng,
    pub(super) stream: Arc<CudaStream>,
    pub(super) workspace: Workspace,
}

impl Device {
    pub(super) fn new() -> Option<Device> {
        let stream = stream()?;
        Some(Device { rng: Rng::new(), workspace: Workspace::new(&stream), stream })
    }

    /// A buffer of `before` random items, `items`, and more random items, and its contents on the
    /// host.
    fn guarded<V: Pod + DeviceRepr>(&mut self, before: usize, items: &[V]) -> (CudaSlice<V>, Vec<V>) {
        let mut all = noise::<V>(&mut self.rng, before + items.len() + 5);
        all[before..before + items.len()].copy_from_slice(items);
        (self.stream.clone_htod(&all).unwrap(), all)
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

    /// Sorts keys-only.
    pub(super) fn check<K: Key>(&mut self, how: &How, pattern: Pattern, n: usize, skips: [usize; 2]) {
        let what = (std::any::type_name::<K>(), n, pattern, how.clone(), skips);
        let builder = how.builder::<K>();
        let keys = keys::<K>(&mut self.rng, pattern, n);
        let order = how.oracle(&keys);
        let sorted = gathered(&keys, &order);
        let [skip_in, skip_out] = skips;
        let (input, before) = self.guarded(skip_in, &keys);
        let view = input.slice(skip_in..skip_in + n);

        let (mut output, guard) = self.guarded(skip_out, &keys);
        let mut room = output.slice_mut(skip_out..skip_out + n);
        builder.workspace(&mut self.workspace).run_into(&view, &mut room).unwrap();
        self.holds(&output, &guard, skip_out, &sorted, &("into", &what));
        self.holds(&input, &before, skip_in, &keys, &("the input", &what));

        let (mut output, guard) = self.guarded(skip_in, &keys);
        let mut data = output.slice_mut(skip_in..skip_in + n);
        builder.workspace(&mut self.workspace).run_in_place(&mut data).unwrap();
        self.holds(&output, &guard, skip_in, &sorted, &("in place", &what));

        let (mut output, guard) = self.guarded(skip_out, &keys);
        let (mut second, second_guard) = self.guarded(skip_in, &vec![K::zeroed(); n]);
        let mut data = output.slice_mut(skip_out..skip_out + n);
        let mut other = second.slice_mut(skip_in..skip_in + n);
        builder.workspace(&mut self.workspace).run_in_place_with_buffer(&mut data, &mut other).unwrap();
        self.holds(&output, &guard, skip_out, &sorted, &("with a second buffer", &what));
        let got = self.stream.clone_dtoh(&second).unwrap();
        assert_bytes(&got[..skip_in], &second_guard[..skip_in], &("before the second buffer", &what));
        assert_bytes(&got[skip_in + n..], &second_guard[skip_in + n..], &("after the second buffer", &what));
    }

    /// Sorts keys with a payload, and source indices.
    pub(super) fn check_with<K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(
        &mut self,
        how: &How,
        pattern: Pattern,
        n: usize,
        skips: [usize; 2],
    ) {
        let what = (std::any::type_name::<(K, V)>(), n, pattern, how.clone(), skips);
        let builder = how.builder::<K>();
        let keys = keys::<K>(&mut self.rng, pattern, n);
        let payload = noise::<V>(&mut self.rng, n);
        let order = how.oracle(&keys);
        let (sorted, moved) = (gathered(&keys, &order), gathered(&payload, &order));
        let [skip_in, skip_out] = skips;
        let (input, before) = self.guarded(skip_in, &keys);
        let (beside, beside_before) = self.guarded(skip_out, &payload);
        let view = input.slice(skip_in..skip_in + n);
        let beside_view = beside.slice(skip_out..skip_out + n);

        let (mut output, guard) = self.guarded(skip_out, &keys);
        let (mut values, values_guard) = self.guarded(skip_in, &payload);
        let mut room = output.slice_mut(skip_out..skip_out + n);
        let mut values_room = values.slice_mut(skip_in..skip_in + n);
        builder
            .workspace(&mut self.workspace)
            .run_pairs_into::<V, _, _, _, _>(&view, &beside_view, &mut room, &mut values_room)
            .unwrap();
        self.holds(&output, &guard, skip_out, &sorted, &("with a payload", &what));
        self.holds(&values, &values_guard, skip_in, &moved, &("the payload", &what));
        self.holds(&input, &before, skip_in, &keys, &("the input", &what));
        self.holds(&beside, &beside_before, skip_out, &payload, &("the payload's input", &what));

        let (mut output, guard) = self.guarded(skip_in, &keys);
        let (mut values, values_guard) = self.guarded(skip_out, &payload);
        let mut data = output.slice_mut(skip_in..skip_in + n);
        let mut values_data = values.slice_mut(skip_out..skip_out + n);
        builder.workspace(&mut self.workspace).run_pairs_in_place::<V, _, _>(&mut data, &mut values_data).unwrap();
        self.holds(&output, &guard, skip_in, &sorted, &("with a payload in place", &what));
        self.holds(&values, &values_guard, skip_out, &moved, &("the payload in place", &what));

        let (mut places, guard) = self.guarded(skip_out, &vec![7_u32; n]);
        let mut room = places.slice_mut(skip_out..skip_out + n);
        builder.workspace(&mut self.workspace).indices_into::<u32, _, _>(&view, &mut room).unwrap();
        self.holds(&places, &guard, skip_out, &order, &("indices", &what));
        let wide_order: Vec<u64> = order.iter().map(|&i| i.into()).collect();
        let (mut places, guard) = self.guarded(skip_in, &vec![7_u64; n]);
        let mut room = places.slice_mut(skip_in..skip_in + n);
        builder.workspace(&mut self.workspace).indices_into::<u64, _, _>(&view, &mut room).unwrap();
        self.holds(&places, &guard, skip_in, &wide_order, &("wide indices", &what));
        self.holds(&input, &before, skip_in, &keys, &("the input of indices", &what));
    }
}

pub(super) const WHOLE: How = How { descending: false, bits: None };
pub(super) const SKIPS: [[usize; 2]; 4] = [[0, 0], [1, 0], [0, 3], [7, 5]];

fn all<K: Key>() {
    let mut device = or_skip!(Device::new());
    let start = device.rng.below(PATTERNS.len());
    for (k, n) in sizes(&mut device.rng).into_iter().enumerate() {
        for p in 0..if n > 20_000 { 2 } else { 3 } {
            let pattern = PATTERNS[(start + k + 3 * p) % PATTERNS.len()];
            let how = How::any(&mut device.rng, K::WIDTH);
            device.check::<K>(&how, pattern, n, SKIPS[(k + p) % 4]);
            device.check_with::<K, u32>(&how, pattern, n, SKIPS[(k + p) % 4]);
        }
    }
    for pattern in PATTERNS {
        device.check::<K>(&WHOLE, pattern, 100_000, [0, 1]);
    }
}
over_keys! { all }

/// A test of each payload, with some types of keys.
macro_rules! payloads { ($($name:ident $v:ty: $($k:ident)*;)*) => { $(
    #[test]
    fn $name() {
        let mut device = or_skip!(Device::new());
        for (k, n) in [1, 33, 2048, 2049, 4096, 4097, 50_000, 300_000].into_iter().enumerate() {
            for (p, pattern) in [Pattern::Random, Pattern::Few, Pattern::Special].into_iter().enumerate() {
                let skips = SKIPS[(k + p) % 4];
                $( {
                    let how = How::any(&mut device.rng, <$k as Key>::WIDTH);
                    device.check_with::<$k, $v>(&how, pattern, n, skips);
                } )*
            }
        }
    }
)* } }
payloads! {
    with_bytes u8: u8 f16 i32 f64;
    with_halves u16: u8 f16 i32 f64;
    with_three_bytes [u8; 3]: u8 f16 i32 f64;
    with_words u32: u8 f16 i32 f64;
    with_doubles u64: u8 f16 i32 f64;
    with_three_words [u32; 3]: u8 f16 i32 f64;
    with_quads u128: u8 f16 i32 f64;
    // Sizes and alignments between these.
    with_two_words [u32; 2]: u8 i32;
    with_five_bytes [u8; 5]: u8 i32;
    with_three_halves [u16; 3]: f16 f64;
    with_seven_bytes [u8; 7]: f16 i32;
    with_five_halves [u16; 5]: u8 f64;
    with_fifteen_bytes [u8; 15]: f16 i32;
    with_seventeen_bytes [u8; 17]: u8 f64;
    with_records [u64; 5]: f16 i32;
}

/// A payload of a word's size at an address that is not a multiple of it.
#[test]
fn with_words_of_bytes_anywhere() {
    let mut device = or_skip!(Device::new());
    for n in [1, 5000, 100_000] {
        let keys = keys::<u32>(&mut device.rng, Pattern::Few, n);
        let order = WHOLE.oracle(&keys);
        let payload = noise::<[u8; 8]>(&mut device.rng, n);
        let sorted = gathered(&keys, &order);
        let moved: Vec<u8> = gathered(&payload, &order).concat();
        let skips = [1 + device.rng.below(7), device.rng.below(8)];
        let (beside, before) = device.guarded(skips[0], &payload.concat());
        let (mut to, guard) = device.guarded(skips[1], &payload.concat());
        let input = device.stream.clone_htod(&keys).unwrap();
        let mut output = device.stream.alloc_zeros::<u32>(n).unwrap();
        let view = beside.slice(skips[0]..);
        let mut room = to.slice_mut(skips[1]..);
        // SAFETY: both have 8 n bytes, and any bytes are an item.
        let (view, mut room) =
            unsafe { (view.transmute::<[u8; 8]>(n).unwrap(), room.transmute_mut::<[u8; 8]>(n).unwrap()) };
        let builder = sort::<u32>().workspace(&mut device.workspace);
        builder.run_pairs_into::<[u8; 8], _, _, _, _>(&input, &view, &mut output, &mut room).unwrap();
        assert_bytes(&device.stream.clone_dtoh(&output).unwrap(), &sorted, &("keys", n, skips));
        device.holds(&to, &guard, skips[1], &moved, &("payload", n, skips));
        device.holds(&beside, &before, skips[0], &payload.concat(), &("the payload's input", n, skips));

        let (mut keys_to, mut in_place) = (input, beside);
        let mut room = in_place.slice_mut(skips[0]..);
        // SAFETY: as above.
        let mut room = unsafe { room.transmute_mut::<[u8; 8]>(n).unwrap() };
        let builder = sort::<u32>().workspace(&mut device.workspace);
        builder.run_pairs_in_place::<[u8; 8], _, _>(&mut keys_to, &mut room).unwrap();
        assert_bytes(&device.stream.clone_dtoh(&keys_to).unwrap(), &sorted, &("keys in place", n, skips));
        device.holds(&in_place, &before, skips[0], &moved, &("payload in place", n, skips));
    }
}

/// Compares with the CPU engine: keys-only, with a payload, and source indices.
pub(super) fn agrees<K: Key>(device: &mut Device, keys: &[K], descending: bool, what: &str) {
    let builder = sort::<K>();
    let builder = if descending { builder.descending() } else { builder };
    let order = builder.indices::<u32, _>(keys).unwrap();
    has_order(device, keys, &order, descending, what);
}

/// Compares with the source indices of the sorted order: keys-only, with a payload, and source indices.
pub(super) fn has_order<K: Key>(device: &mut Device, keys: &[K], order: &[u32], descending: bool, what: &str) {
    let stream = device.stream.clone();
    let builder = sort::<K>();
    let builder = if descending { builder.descending() } else { builder };
    let sorted = gathered(keys, order);
    let of = (std::any::type_name::<K>(), what, keys.len());
    let input = stream.clone_htod(keys).unwrap();
    let got = builder.workspace(&mut device.workspace).indices::<u32, _>(&input).unwrap();
    assert_bytes(&stream.clone_dtoh(&got).unwrap(), order, &("indices", of));
    let got = builder.workspace(&mut device.workspace).run(&input).unwrap();
    assert_bytes(&stream.clone_dtoh(&got).unwrap(), &sorted, &("keys-only", of));
    agrees_with(device, keys, order, order, descending, what);
    let mut data = input;
    builder.workspace(&mut device.workspace).run_in_place(&mut data).unwrap();
    assert_bytes(&stream.clone_dtoh(&data).unwrap(), &sorted, &("keys-only in place", of));
}

/// Compares with the source indices of the sorted order: with a payload, into other memory and in place.
pub(super) fn agrees_with<K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(
    device: &mut Device,
    keys: &[K],
    order: &[u32],
    payload: &[V],
    descending: bool,
    what: &str,
) {
    let stream = device.stream.clone();
    let builder = sort::<K>();
    let builder = if descending { builder.descending() } else { builder };
    let (sorted, moved) = (gathered(keys, order), gathered(payload, order));
    let what = (std::any::type_name::<(K, V)>(), what, keys.len());
    let (input, beside) = (stream.clone_htod(keys).unwrap(), stream.clone_htod(payload).unwrap());
    let (mut keys_to, mut beside_to) = (input.clone(), beside.clone());
    builder
        .workspace(&mut device.workspace)
        .run_pairs_into::<V, _, _, _, _>(&input, &beside, &mut keys_to, &mut beside_to)
        .unwrap();
    assert_bytes(&stream.clone_dtoh(&keys_to).unwrap(), &sorted, &("keys", what));
    assert_bytes(&stream.clone_dtoh(&beside_to).unwrap(), &moved, &("with them", what));
    let (mut data, mut payload) = (input, beside);
    builder.workspace(&mut device.workspace).run_pairs_in_place::<V, _, _>(&mut data, &mut payload).unwrap();
    assert_bytes(&stream.clone_dtoh(&data).unwrap(), &sorted, &("keys in place", what));
    assert_bytes(&stream.clone_dtoh(&payload).unwrap(), &moved, &("with them in place", what));
}

/// Pairs of keys are sorted lexicographically.
#[test]
fn lexicographic() {
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    for (n, descending) in [(0, false), (700, true), (30_000, false), (400_000, true), (4_000_000, false)] {
        let (rows, columns, order) = pairs_of_keys(&mut device.rng, n, descending);
        if n == 0 {
            continue;
        }
        let mut x = stream.clone_htod(&rows).unwrap();
        let mut y = stream.clone_htod(&columns).unwrap();
        let builder = How { descending, bits: None }.builder::<u32>();
        builder.prepare_lexicographic::<f32>(n, &mut device.workspace).unwrap();
        let held = device.workspace.bytes();
        builder.workspace(&mut device.workspace).run_lexicographic_in_place(&mut x, &mut y).unwrap();
        assert_eq!(device.workspace.bytes(), held);
        assert_bytes(&stream.clone_dtoh(&x).unwrap(), &gathered(&rows, &order), &("first keys", n));
        assert_bytes(&stream.clone_dtoh(&y).unwrap(), &gathered(&columns, &order), &("second keys", n));
        let error = builder.run_lexicographic_in_place(&mut x, &mut y.slice_mut(1..)).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
    }
}

/// Source indices of keys of which few are equal.
#[test]
fn is_stable() {
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    for descending in [false, true] {
        for n in [3000, 70_000, 3_000_000, 13_000_000] {
            let distinct = 1 + device.rng.below(6) as u32;
            let keys: Vec<u32> = (0..n).map(|_| device.rng.below(distinct as usize) as u32 * 0x0101_0101).collect();
            let order = How { descending, bits: None }.oracle(&keys);
            let input = stream.clone_htod(&keys).unwrap();
            let builder = sort::<u32>();
            let builder = if descending { builder.descending() } else { builder };
            let got = builder.workspace(&mut device.workspace).indices::<u32, _>(&input).unwrap();
            assert_bytes(&stream.clone_dtoh(&got).unwrap(), &order, &(descending, n));
        }
    }
}

/// New memory, streams other than the workspace's, no workspace.
#[test]
fn without_a_workspace() {
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    for n in [0, 10, 100_000] {
        let x = keys::<f32>(&mut device.rng, Pattern::Special, n);
        let order = WHOLE.oracle(&x);
        let input = if n == 0 { stream.null().unwrap() } else { stream.clone_htod(&x).unwrap() };
        let sorted = sort::<f32>().run(&input).unwrap();
        let places = sort::<f32>().on(&stream).indices::<u32, _>(&input).unwrap();
        if n == 0 {
            assert!(sorted.is_empty() && places.is_empty());
            continue;
        }
        assert_bytes(&stream.clone_dtoh(&sorted).unwrap(), &gathered(&x, &order), &n);
        assert_bytes(&stream.clone_dtoh(&places).unwrap(), &order, &n);
    }
}

/// A short walk for compute-sanitizer.
#[test]
fn sanitize() {
    let mut device = or_skip!(Device::new());
    let part = How { descending: true, bits: Some(2..7) };
    for skips in [[0, 0], [1, 3]] {
        for n in [1, 1000, 5000, 30_000] {
            device.check::<u32>(&WHOLE, Pattern::Random, n, skips);
            device.check::<u8>(&part, Pattern::Special, n, skips);
            device.check_with::<u32, u32>(&WHOLE, Pattern::PowerLaw, n, skips);
            device.check::<u16>(&WHOLE, Pattern::Random, n, skips);
            device.check::<u64>(&WHOLE, Pattern::PowerLaw, n, skips);
            device.check::<u32>(&WHOLE, Pattern::SameAbove, n, skips);
            device.check_with::<f64, [u8; 3]>(&part, Pattern::Few, n, skips);
            device.check_with::<bf16, u128>(&WHOLE, Pattern::Special, n, skips);
        }
        device.check::<u32>(&WHOLE, Pattern::PowerLaw, 300_077, skips);
        device.check_with::<u32, u32>(&WHOLE, Pattern::PowerLaw, 300_077, skips);
        // Counting sorts, whose output is written from the counts.
        device.check::<u8>(&WHOLE, Pattern::PowerLaw, 100_077, skips);
    }
}

/// Longer walks, for which racecheck takes minutes.
#[test]
fn sanitize_long() {
    let mut device = or_skip!(Device::new());
    for skips in [[0, 0], [1, 3]] {
        device.check::<f64>(&WHOLE, Pattern::Equal, (1 << 21) + 77, skips);
        device.check::<u64>(&WHOLE, Pattern::PowerLaw, (1 << 21) + 77, skips);
        device.check_with::<i64, u32>(&WHOLE, Pattern::PowerLaw, (3 << 20) + 77, skips);
        device.check_with::<u32, u32>(&WHOLE, Pattern::Random, (3 << 22) + 77, skips);
        device.check_with::<u32, u32>(&WHOLE, Pattern::Few, (1 << 21) + 77, skips);
        device.check::<u32>(&WHOLE, Pattern::Few, (1 << 21) + 77, skips);
        device.check_with::<u32, u32>(&WHOLE, Pattern::Random, (1 << 20) + 77, skips);
        device.check::<i32>(&WHOLE, Pattern::PowerLaw, (1 << 20) + 77, skips);
        device.check::<u16>(&WHOLE, Pattern::Few, (1 << 20) + 77, skips);
    }
    // A single step; buckets by bits and by range; heavy keys; passes by some bits.
    device.check::<u32>(&WHOLE, Pattern::Random, (5 << 20) + 77, [0, 1]);
    device.check_with::<u32, u32>(&WHOLE, Pattern::Random, (1 << 22) + 77, [1, 0]);
    device.check::<u64>(&WHOLE, Pattern::SameAbove, (1 << 21) + 77, [1, 0]);
    device.check_with::<u32, u32>(&WHOLE, Pattern::PowerLaw, (1 << 22) + 77, [0, 0]);
    device.check_with::<u32, u32>(&WHOLE, Pattern::Few, (1 << 22) + 77, [0, 1]);
    let some = How { descending: true, bits: Some(3..29) };
    device.check_with::<u32, u32>(&some, Pattern::Random, (1 << 20) + 77, [0, 1]);
    device.check::<u32>(&How { descending: false, bits: Some(3..29) }, Pattern::Random, (1 << 24) + 77, [1, 0]);
    // One frequent key, in fixed-capacity buckets whose other keys go to finer bins.
    for n in [60_000, 1 << 18, 1 << 20, 3 << 20] {
        let often = device.rng.next() as u32;
        let keys = (0..n).map(|_| device.rng.next() as u32);
        let keys: Vec<u32> = keys.map(|x| if x.is_multiple_of(2048) { often } else { x }).collect();
        agrees(&mut device, &keys, false, "one often");
    }
    let often = device.rng.next() as i64;
    let any = |device: &mut Device| (0..(5 << 20) + 77).map(|_| device.rng.next() as i64).collect::<Vec<i64>>();
    let keys: Vec<i64> =
        any(&mut device).into_iter().map(|x| if x % 700 == 0 { often ^ (x >> 20 & 0xfff) } else { x }).collect();
    agrees(&mut device, &keys, false, "a full bucket");
}

/// Replays of one graph with other data: by buckets and by passes, in place, with a payload, and
/// source indices. No replay allocates.
#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    // SAFETY: there is one stream, so there is nothing to track.
    unsafe { stream.context().disable_event_tracking() };
    let (long, short) = (13 << 20, 100_000);
    sort::<u32>().prepare(long, &mut device.workspace).unwrap();
    sort::<f32>().prepare_pairs::<u16>(short, &mut device.workspace).unwrap();
    sort::<f32>().prepare_pairs::<[u32; 3]>(short, &mut device.workspace).unwrap();
    sort::<i64>().prepare_indices::<u32>(short, &mut device.workspace).unwrap();
    let held = device.workspace.bytes();
    let mut x = stream.alloc_zeros::<u32>(long).unwrap();
    let mut second = stream.alloc_zeros::<u32>(long).unwrap();
    let mut sorted = stream.alloc_zeros::<u32>(long).unwrap();
    let (mut y, mut values) = (stream.alloc_zeros::<f32>(short).unwrap(), stream.alloc_zeros::<u16>(short).unwrap());
    let (mut w, mut items) =
        (stream.alloc_zeros::<f32>(short).unwrap(), stream.alloc_zeros::<[u32; 3]>(short).unwrap());
    let (mut z, mut places) = (stream.alloc_zeros::<i64>(short).unwrap(), stream.alloc_zeros::<u32>(short).unwrap());
    stream.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    sort::<u32>().workspace(&mut device.workspace).run_into(&x, &mut sorted).unwrap();
    sort::<u32>().workspace(&mut device.workspace).run_in_place_with_buffer(&mut x, &mut second).unwrap();
    sort::<f32>().workspace(&mut device.workspace).run_pairs_in_place::<u16, _, _>(&mut y, &mut values).unwrap();
    sort::<f32>().workspace(&mut device.workspace).run_pairs_in_place::<[u32; 3], _, _>(&mut w, &mut items).unwrap();
    sort::<i64>().descending().workspace(&mut device.workspace).indices_into::<u32, _, _>(&z, &mut places).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(device.workspace.bytes(), held, "a prepared workspace does not grow");
    for pattern in PATTERNS {
        let a = keys::<u32>(&mut device.rng, pattern, long);
        let b = keys::<f32>(&mut device.rng, pattern, short);
        let c = keys::<i64>(&mut device.rng, pattern, short);
        let beside = noise::<u16>(&mut device.rng, short);
        let longer = noise::<[u32; 3]>(&mut device.rng, short);
        stream.memcpy_htod(&a, &mut x).unwrap();
        stream.memcpy_htod(&b, &mut y).unwrap();
        stream.memcpy_htod(&beside, &mut values).unwrap();
        stream.memcpy_htod(&b, &mut w).unwrap();
        stream.memcpy_htod(&longer, &mut items).unwrap();
        stream.memcpy_htod(&c, &mut z).unwrap();
        graph.launch().unwrap();
        let mut expected = a;
        expected.sort_unstable();
        assert_bytes(&stream.clone_dtoh(&sorted).unwrap(), &expected, &("into", pattern));
        assert_bytes(&stream.clone_dtoh(&x).unwrap(), &expected, &("in place", pattern));
        let order = WHOLE.oracle(&b);
        assert_bytes(&stream.clone_dtoh(&y).unwrap(), &gathered(&b, &order), &("with a payload", pattern));
        assert_bytes(&stream.clone_dtoh(&values).unwrap(), &gathered(&beside, &order), &("the payload", pattern));
        assert_bytes(&stream.clone_dtoh(&w).unwrap(), &gathered(&b, &order), &("with a longer payload", pattern));
        assert_bytes(&stream.clone_dtoh(&items).unwrap(), &gathered(&longer, &order), &("the longer payload", pattern));
        let order = How { descending: true, bits: None }.oracle(&c);
        assert_bytes(&stream.clone_dtoh(&places).unwrap(), &order, &("indices", pattern));
    }
}

/// A workspace prepared for more keys serves fewer, in every call.
#[test]
fn prepared() {
    let mut device = or_skip!(Device::new());
    let stream = device.stream.clone();
    let most = 300_000;
    sort::<u64>().prepare(most, &mut device.workspace).unwrap();
    sort::<u64>().prepare_pairs::<u128>(most, &mut device.workspace).unwrap();
    sort::<u64>().prepare_indices::<u64>(most, &mut device.workspace).unwrap();
    let held = device.workspace.bytes();
    for n in [1, 5000, 40_000, most] {
        let mut keys = stream.clone_htod(&keys::<u64>(&mut device.rng, Pattern::Random, n)).unwrap();
        let mut payload = stream.alloc_zeros::<u128>(n).unwrap();
        let builder = sort::<u64>();
        drop(builder.workspace(&mut device.workspace).indices::<u64, _>(&keys).unwrap());
        drop(builder.workspace(&mut device.workspace).run(&keys).unwrap());
        builder.workspace(&mut device.workspace).run_pairs_in_place::<u128, _, _>(&mut keys, &mut payload).unwrap();
        builder.workspace(&mut device.workspace).run_in_place(&mut keys).unwrap();
        assert_eq!(device.workspace.bytes(), held, "{n}");
    }
}
