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
    stream: Arc<CudaStream>,
    workspace: Workspace,
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
    fn check<K: Key>(&mut self, how: &How, pattern: Pattern, n: usize, skips: [usize; 2]) {
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
    fn check_with<K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(
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

const WHOLE: How = How { descending: false, bits: None };
const SKIPS: [[usize; 2]; 4] = [[0, 0], [1, 0], [0, 3], [7, 5]];

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
    // Sizes and alignments between these, each with two types of keys, since each pair is compiled.
    with_five_bytes [u8; 5]: u8 i32;
    with_three_halves [u16; 3]: f16 f64;
    with_seven_bytes [u8; 7]: f16 i32;
    with_five_halves [u16; 5]: u8 f64;
    with_fifteen_bytes [u8; 15]: f16 i32;
}

/// Lengths for which keys of 4 and 8 bytes are sorted by buckets, unless a bucket is too large.
#[test]
fn by_buckets() {
    let mut device = or_skip!(Device::new());
    let (down, n, more) = (How { descending: true, bits: None }, 5_000_000, (3 << 22) + device.rng.below(1000));
    for (k, pattern) in PATTERNS.into_iter().enumerate() {
        device.check::<u32>(if k % 2 == 0 { &WHOLE } else { &down }, pattern, more, SKIPS[k % 4]);
    }
    device.check::<u32>(&WHOLE, Pattern::Random, (3 << 22) - 1, [0, 0]);
    device.check::<f32>(&WHOLE, Pattern::Special, more, [1, 0]);
    device.check::<f64>(&down, Pattern::Special, n, [0, 1]);
    device.check::<i64>(&down, Pattern::Random, n, [7, 5]);
    device.check::<u64>(&WHOLE, Pattern::SameAbove, n, [0, 0]);
    for n in [(1 << 21) - 1, 1 << 21, (1 << 22) + 1, 1 + (1 << 23)] {
        device.check::<f64>(&WHOLE, Pattern::Random, n, [0, 0]);
    }
    for (k, pattern) in [Pattern::Random, Pattern::Sorted, Pattern::Few, Pattern::PowerLaw].into_iter().enumerate() {
        device.check_with::<u32, u32>(if k % 2 == 0 { &WHOLE } else { &down }, pattern, more, SKIPS[k]);
    }
    device.check_with::<f32, [u8; 3]>(&down, Pattern::Random, more, [1, 0]);
    device.check_with::<f64, u128>(&WHOLE, Pattern::Random, n, [0, 1]);
    device.check_with::<u64, u64>(&down, Pattern::Special, n, [3, 0]);
    // Sorts by few bits take passes at any length.
    device.check::<u32>(&How { descending: false, bits: Some(3..29) }, Pattern::Random, more, [0, 1]);
    device.check_with::<u64, u32>(&How { descending: true, bits: Some(9..50) }, Pattern::Random, n, [0, 0]);
}

/// Passes, with tiles of up to 8192 keys: lengths around multiples of a tile, every pattern, wide and
/// narrow keys and payloads, some bits.
#[test]
fn by_passes() {
    let mut device = or_skip!(Device::new());
    let (down, some) =
        (How { descending: true, bits: None }, |width: u32| How { descending: false, bits: Some(3..width - 3) });
    let any = |device: &mut Device| (1 << 20) + 1 + device.rng.below(1 << 19);
    for (k, pattern) in PATTERNS.into_iter().enumerate() {
        let n = any(&mut device);
        device.check::<u32>(if k % 2 == 0 { &WHOLE } else { &down }, pattern, n, SKIPS[k % 4]);
        device.check_with::<i32, u32>(if k % 2 == 0 { &down } else { &WHOLE }, pattern, n, SKIPS[(k + 1) % 4]);
    }
    for (k, n) in
        [(1 << 20) + 1, 129 * 8192 - 1, 129 * 8192, 129 * 8192 + 1, 1 << 21, 265 * 8192 + 1].into_iter().enumerate()
    {
        device.check::<f32>(&some(32), Pattern::Random, n, SKIPS[k % 4]);
        device.check_with::<f32, u32>(&some(32), Pattern::PowerLaw, n, SKIPS[k % 4]);
    }
    let n = any(&mut device);
    device.check::<u64>(&some(64), Pattern::Random, n, [1, 0]);
    device.check_with::<u8, u16>(&down, Pattern::PowerLaw, n, [0, 1]);
    device.check_with::<i16, u32>(&WHOLE, Pattern::Random, n, [7, 5]);
    device.check_with::<f64, u128>(&WHOLE, Pattern::Special, n, [0, 3]);
    device.check_with::<u32, [u8; 3]>(&down, Pattern::Few, n, [1, 0]);
    let n = (1 << 24) + 1 + device.rng.below(10_000);
    device.check::<u32>(&some(32), Pattern::Random, n, [0, 1]);
    device.check_with::<u32, u32>(&some(32), Pattern::PowerLaw, n, [1, 0]);
}

/// A radix key of `width` bits, from a random word.
type Distribution = fn(u64, usize) -> u64;

/// Many keys of an uneven distribution: buckets by equal-depth intervals.
fn by_intervals<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let _memory = much_memory();
    let n = (1 << 25) + device.rng.below(100_000);
    unevenly(&mut device, make, n);
}

/// Fewer keys: fixed-capacity buckets by range or around heavy keys, or no buckets.
fn by_fixed_capacity_buckets<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    for most in
        [5700, 20_000, 1 << 16, 100_000, 1 << 18, 200_000, (1 << 18) - 100, 270_000, 1 << 20, 1_300_000, 1 << 22]
    {
        let n = most - device.rng.below(20);
        unevenly(&mut device, &make, n);
    }
}

/// An uneven distribution, some keys outside the sample's range, and one key more frequent than a
/// block holds. The expected result is the CPU engine's.
fn unevenly<K: Key>(device: &mut Device, make: impl Fn(u64) -> K, n: usize) {
    let stream = device.stream.clone();
    let width = K::WIDTH as usize;
    let distributions: [(&str, Distribution); 16] = [
        ("a range", |x, width| (3 << (width - 4)) + (x >> (72 - width))),
        ("steps", |x, width| (x >> (76 - width)) << 8),
        ("a power law", |x, width| (x >> (64 - width)) >> (x as usize % width)),
        ("a power law from above", |x, width| {
            (u64::MAX >> (64 - width)) - ((x >> (64 - width)) >> (x as usize % width))
        }),
        ("a power law to both ends", |x, width| match x % 1000 {
            0 => 0,
            1 => u64::MAX >> (64 - width),
            _ => (x >> (64 - width)) >> (x as usize % width),
        }),
        ("jumps", |x, width| (x >> (64 - width)) >> (x as usize % 4 * (width / 4))),
        ("often the same", |x, width| if x % 3 == 0 { 1 << (width - 9) } else { x >> (70 - width) }),
        ("127 values", |x, width| (x % 127 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width)),
        ("500 values", |x, width| (x % 500 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width)),
        ("four values", |x, width| (x % 4) * ((u64::MAX >> (64 - width)) / 3)),
        ("one value", |_, width| 5 << (width - 4)),
        ("300 neighbours often", |x, width| if x % 2 == 0 { 40 + (x >> 8) % 300 } else { x >> (64 - width) }),
        ("300 neighbours from above often", |x, width| {
            (u64::MAX >> (64 - width)) - if x % 2 == 0 { (x >> 8) % 300 } else { x >> (64 - width) }
        }),
        ("300 neighbours in the middle often, of a power law to both sides", |x, width| {
            let (middle, law) = (1 << (width - 1), (x >> (65 - width)) >> (x as usize / 8 % width));
            match x % 4 {
                0 | 1 => middle - 100 + (x >> 8) % 300,
                2 => middle + law,
                _ => middle - 1 - law,
            }
        }),
        ("4000 numbers around a middle", |x, width| (1 << (width - 1)) - 1000 + x % 4000),
        ("the ends often", |x, width| match x % 5 {
            0 => 77,
            1 => 77 + (1 << (width - 8)),
            _ => 77 + (x >> (72 - width)),
        }),
    ];
    for (k, (what, place)) in distributions.into_iter().enumerate() {
        let mut keys: Vec<K> = (0..n).map(|_| make(place(device.rng.next(), width))).collect();
        for far in [0, u64::MAX, u64::MAX >> 1, 5, 1 << (width - 1)] {
            let at = device.rng.below(n);
            keys[at] = make(far & (u64::MAX >> (64 - width)));
        }
        let builder = sort::<K>();
        let builder = if k % 2 == 1 { builder.descending() } else { builder };
        let order = builder.indices::<u32, _>(&keys).unwrap();
        let sorted = gathered(&keys, &order);
        let what = (std::any::type_name::<K>(), what, n);
        let input = stream.clone_htod(&keys).unwrap();
        let got = builder.workspace(&mut device.workspace).run(&input).unwrap();
        assert_bytes(&stream.clone_dtoh(&got).unwrap(), &sorted, &("keys", what));
        drop(got);
        let got = builder.workspace(&mut device.workspace).indices::<u32, _>(&input).unwrap();
        assert_bytes(&stream.clone_dtoh(&got).unwrap(), &order, &("indices", what));
        drop(got);
        let mut data = stream.clone_htod(&keys).unwrap();
        builder.workspace(&mut device.workspace).run_in_place(&mut data).unwrap();
        assert_bytes(&stream.clone_dtoh(&data).unwrap(), &sorted, &("keys in place", what));
        let mut data = input;
        let mut payload = stream.clone_htod(&(0..n as u32).collect::<Vec<_>>()).unwrap();
        builder.workspace(&mut device.workspace).run_pairs_in_place::<u32, _, _>(&mut data, &mut payload).unwrap();
        assert_bytes(&stream.clone_dtoh(&payload).unwrap(), &order, &("the payload", what));
        assert_bytes(&stream.clone_dtoh(&data).unwrap(), &sorted, &("keys with it", what));
        let bytes: Vec<u8> = (0..n).map(|at| at as u8).collect(); // an odd number of bytes
        let mut beside = stream.clone_htod(&bytes).unwrap();
        let mut data = stream.clone_htod(&keys).unwrap();
        builder.workspace(&mut device.workspace).run_pairs_in_place::<u8, _, _>(&mut data, &mut beside).unwrap();
        assert_bytes(&stream.clone_dtoh(&beside).unwrap(), &gathered(&bytes, &order), &("a byte beside", what));
    }
}

fn long_word(place: u64) -> i64 {
    place as i64 ^ i64::MIN
}

/// Half of the floats are in 0 to 1, as a random generator makes them. The others have random bits.
fn float(place: u64) -> f32 {
    if place.is_multiple_of(2) { (place >> 8) as f32 / 16_777_216.0 } else { f32::from_bits(place as u32) }
}

#[test]
fn words_by_intervals() {
    by_intervals::<u32>(|place| place as u32);
}
#[test]
fn long_words_by_intervals() {
    by_intervals::<i64>(long_word);
}
#[test]
fn floats_by_intervals() {
    by_intervals::<f32>(float);
}

#[test]
fn words_by_fixed_capacity_buckets() {
    by_fixed_capacity_buckets::<u32>(|place| place as u32);
}
#[test]
fn long_words_by_fixed_capacity_buckets() {
    by_fixed_capacity_buckets::<i64>(long_word);
}
#[test]
fn floats_by_fixed_capacity_buckets() {
    by_fixed_capacity_buckets::<f32>(float);
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
fn agrees_with<K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(
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

/// Few distinct keys, which the probe finds; more of them; few and a rare one; few digits of many keys.
fn few_distinct<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    let far = |x: u64| x.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width);
    let kinds: [(&str, &dyn Fn(u64) -> u64); 6] = [
        ("two", &|x| if x % 3 == 0 { u64::MAX >> (64 - width) } else { 0 }),
        ("four", &|x| (x % 4) * ((u64::MAX >> (64 - width)) / 3)),
        ("127", &|x| far(x % 127 + 1)),
        ("128", &|x| far(x % 128 + 1)),
        ("100, and one", &|x| far(x % 100 + 1)),
        ("of few digits", &|x| x & (0x0707_0707_0707_0707 >> (64 - width))),
    ];
    for (k, (what, value)) in kinds.into_iter().enumerate() {
        let n = (1 << 21) + 1 + device.rng.below(1 << 19);
        let mut keys: Vec<K> = (0..n).map(|_| make(value(device.rng.next()))).collect();
        if what.ends_with("and one") {
            keys[device.rng.below(n)] = make(77);
        }
        agrees(&mut device, &keys, k % 2 == 1, what);
    }
}

/// Random keys, and in one fixed-capacity bucket some frequent keys: more than its bins separate,
/// fewer than its capacity. The inputs have from one frequent key to more than a thread sorts with
/// a payload, distant or adjacent.
fn with_frequent_keys<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    for most in [70_000, 1 << 18, 1 << 20, 1_300_000, 1 << 22] {
        let n = most - device.rng.below(20);
        // One key in `seldom` is frequent.
        let seldom = (n / (n / 1500).max(900)) as u64;
        for (k, (values, apart)) in [(1, 0), (2, 1), (3, 0xbad), (4, 0x1bad), (6, 0xbad)].into_iter().enumerate() {
            let first = device.rng.next() >> (65 - width);
            let keys: Vec<K> = (0..n)
                .map(|_| {
                    let x = device.rng.next();
                    let frequent = first + device.rng.next() % values * apart;
                    make(if x % seldom == 0 { frequent } else { x >> (64 - width) })
                })
                .collect();
            agrees(&mut device, &keys, k % 2 == 1, &format!("{values} frequent keys, {apart} apart"));
        }
        let end = u64::MAX >> (64 - width);
        // About one key in 7000 exceeds the range.
        let law = |x: u64| (1.0 - (x >> 11) as f64 / (1_u64 << 53) as f64).powf(-(width as f64) / 12.8);
        let keys: Vec<K> = (0..n).map(|_| make((law(device.rng.next()) as u64).min(end))).collect();
        agrees(&mut device, &keys, false, "a power law that is cut off");
    }
    // One key so frequent that it is heavy. It is anywhere, at an
    // end, the float zero, among other keys in its interval, or beside keys with a bucket each.
    let (end, any) = (u64::MAX >> (64 - width), device.rng.next() >> (64 - width));
    let one_in = |x: u64, seldom: u64| (x % (1 << 20)).is_multiple_of(seldom);
    let law = |x: u64| (x >> (64 - width)) >> (x % (width as u64 - 2));
    let kinds: [(&str, &dyn Fn(u64) -> u64); 8] = [
        ("one in three", &|x| if one_in(x, 3) { any } else { x >> (64 - width) }),
        ("one in thirty", &|x| if one_in(x, 30) { any } else { x >> (64 - width) }),
        ("zero", &|x| if one_in(x, 10) { 0 } else { x >> (64 - width) }),
        ("the greatest", &|x| if one_in(x, 10) { end } else { x >> (64 - width) }),
        ("of a power law", &|x| if one_in(x, 10) { any >> 6 } else { law(x) }),
        ("above a power law", &|x| if one_in(x, 4) { any | 1 << (width - 1) } else { law(x) >> 4 }),
        ("among small numbers", &|x| if one_in(x, 10) { 77 } else { x >> 20 & 0x3fff }),
        ("beside neighbours", &|x| match x % 8 {
            0 => any,
            1 => any ^ (x >> 30 & 0xff),
            _ => x >> (64 - width),
        }),
    ];
    for most in [300_000, 1 << 20, 1_150_000, 1_300_000, 1 << 22] {
        let n = most - device.rng.below(20);
        for (k, (what, value)) in kinds.into_iter().enumerate() {
            let keys: Vec<K> = (0..n).map(|_| make(value(device.rng.next()))).collect();
            agrees(&mut device, &keys, k % 2 == 1, &format!("one very often: {what}"));
        }
    }
}

#[test]
fn few_distinct_words() {
    few_distinct::<u32>(|x| x as u32);
}
#[test]
fn few_distinct_long_words() {
    few_distinct::<i64>(|x| x as i64);
}
#[test]
fn few_distinct_floats() {
    few_distinct::<f32>(|x| f32::from_bits(x as u32));
}

#[test]
fn words_with_frequent_keys() {
    with_frequent_keys::<u32>(|x| x as u32);
}
#[test]
fn long_words_with_frequent_keys() {
    with_frequent_keys::<i64>(|x| x as i64);
}
#[test]
fn floats_with_frequent_keys() {
    with_frequent_keys::<f32>(|x| f32::from_bits(x as u32));
}

/// Buckets too large for a block. Passes sort all keys from the first such bucket to the last, or
/// all keys if those are many. The causes: keys so close that one or two passes separate them, in one
/// part or in two distant ones, with a heavy key between or without; an uneven distribution. Others have
/// frequent keys, which are heavy and leave nothing: among random keys, alone in a bucket, near or
/// distant, or about frequent neighbours.
fn in_full_buckets<K: Key>(lengths: [usize; 2], middle: u64, make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    let up = |x: u64| x >> (64 - width);
    let one_in = |x: u64, seldom: u64| (x % (1 << 20)).is_multiple_of(seldom);
    for (turn, n) in lengths.into_iter().enumerate() {
        let n = n + device.rng.below(5000);
        let key = up(device.rng.next());
        // One key in `seldom` is frequent: more keys than a block holds.
        let seldom = n as u64 / 7000;
        let far = |parts: u64| key.wrapping_add(up(u64::MAX) / 8 * parts) & up(u64::MAX);
        let dense = |start: u64, x: u64| start & !0xffff | x >> 41 & 0xffff;
        let kinds: [(&str, &dyn Fn(u64) -> u64); 15] = [
            ("one key", &|x| if one_in(x, seldom) { key } else { up(x) }),
            ("one key alone", &|x| match up(x) {
                _ if one_in(x, seldom) => key,
                near if near >> (width - 10) == key >> (width - 10) => near ^ 1 << (width - 1),
                other => other,
            }),
            ("two, an eighth apart", &|x| if one_in(x, seldom / 2) { far(x >> 40 & 1) } else { up(x) }),
            ("two, far apart", &|x| {
                if one_in(x, seldom / 2) { [key / 16, up(u64::MAX) - key / 16][x as usize >> 40 & 1] } else { up(x) }
            }),
            ("neighbours", &|x| if one_in(x, 300) { key & !7 | x >> 40 & 7 } else { up(x) }),
            ("many of one byte", &|x| if one_in(x, 300) { key & !0xff | x >> 40 & 0xff } else { up(x) }),
            ("many of two", &|x| if one_in(x, 300) { key & !0xffff | x >> 40 & 0xffff } else { up(x) }),
            ("two dense parts, and a key between", &|x| match x % 300 {
                0 => dense(far(x >> 40 & 1), x),
                1 => key.wrapping_add(up(u64::MAX) / 16) & up(u64::MAX),
                _ => up(x),
            }),
            ("two dense parts, far apart", &|x| match x % 300 {
                0 => dense([key / 16, up(u64::MAX) - key / 16][x as usize >> 40 & 1], x),
                _ => up(x),
            }),
            ("two about frequent neighbours", &|x| match x % 20 {
                0..=4 => middle.wrapping_add((x >> 40) % 17).wrapping_sub(8) & up(u64::MAX),
                _ if one_in(x, seldom / 3) => {
                    let aside = up(u64::MAX) >> 7;
                    (if x >> 40 & 1 == 0 { middle.wrapping_add(aside) } else { middle.wrapping_sub(aside) })
                        & up(u64::MAX)
                }
                _ => up(x),
            }),
            ("one in fifty", &|x| if one_in(x, 50) { key } else { up(x) }),
            ("one in three", &|x| if one_in(x, 3) { key } else { up(x) }),
            ("three in five", &|x| if one_in(x, 5) || one_in(x >> 8, 2) { key } else { up(x) }),
            ("a power law and a key", &|x| if one_in(x, 300) { key >> 5 } else { up(x) >> (x % (width as u64 - 4)) }),
            ("two peaks and a key", &|x| match x % 2 {
                _ if one_in(x, 300) => key >> 4,
                0 => (up(x) >> 5) + (up(x << 8) >> 5),
                _ => up(x) >> 1 | 1 << (width - 1),
            }),
        ];
        for (k, (what, value)) in kinds.into_iter().enumerate() {
            let keys: Vec<K> = (0..n).map(|_| make(value(device.rng.next()))).collect();
            agrees(&mut device, &keys, (k + turn) % 2 == 1, &format!("full buckets: {what}"));
        }
    }
}

#[test]
fn words_in_full_buckets() {
    in_full_buckets::<u32>([5 << 20, 3 << 22], 1 << 31, |x| x as u32);
}
#[test]
fn long_words_in_full_buckets() {
    in_full_buckets::<i64>([3 << 19, 3 << 20], 0, |x| x as i64);
}
#[test]
fn floats_in_full_buckets() {
    in_full_buckets::<f32>([5 << 20, 3 << 22], 0, |x| f32::from_bits(x as u32));
}
/// Payloads of an odd number of bytes, and of more bytes than the key.
#[test]
fn payloads_in_full_buckets() {
    let mut device = or_skip!(Device::new());
    let often = device.rng.next();
    let mut any = |n: usize| -> Vec<u64> {
        let n = n + device.rng.below(5000);
        // 4096 keys side by side, too many for a bucket and none of them heavy.
        let near = |x: u64| often ^ (x >> 10 & 0xfff) << 32;
        (0..n).map(|_| device.rng.next()).map(|x| if x.is_multiple_of(900) { near(x) } else { x }).collect()
    };
    let (long, words, more) = (any(3 << 20), any(3 << 22), any(1 << 24));
    let long: Vec<f64> = long.into_iter().map(f64::from_bits).collect();
    let order = sort::<f64>().indices::<u32, _>(&long).unwrap();
    let payload = noise::<[u8; 3]>(&mut device.rng, long.len());
    agrees_with(&mut device, &long, &order, &payload, false, "full buckets, three bytes");
    let words: Vec<i32> = words.into_iter().map(|x| (x >> 32) as i32).collect();
    let order = sort::<i32>().descending().indices::<u32, _>(&words).unwrap();
    let payload = noise::<u128>(&mut device.rng, words.len());
    agrees_with(&mut device, &words, &order, &payload, true, "full buckets, sixteen bytes");
    let more: Vec<u32> = more.into_iter().map(|x| (x >> 32) as u32).collect();
    agrees(&mut device, &more, false, "full buckets, many keys");
}

/// All numbers from the greatest down, one of them frequent. A fixed-capacity bucket spans about as
/// many keys as a block has bins. So the greatest key of a bucket is its first, and may be the only
/// key of the last bin.
fn dense_with_one_often<K: Key>(spans: Range<u64>, make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    for span in spans.step_by(3) {
        // A sixteenth of the range remains for keys beyond the probe's.
        let n = (span * 4096 / 17) as usize;
        let greatest = (5 << 28) + device.rng.below(1 << 20) as u64;
        let mut keys: Vec<K> = (0..n as u64).map(|down| make(greatest - down)).collect();
        let often = keys[device.rng.below(n)];
        for _ in 0..500 {
            keys[device.rng.below(n)] = often;
        }
        agrees(&mut device, &keys, false, "dense from above, and one often");
    }
}

#[test]
fn dense_words_with_one_often() {
    dense_with_one_often::<u32>(4090..4130, |x| x as u32);
}
#[test]
fn dense_long_words_with_one_often() {
    dense_with_one_often::<i64>(8185..8275, |x| x as i64);
}

/// Keys-only of 1 byte, and many of 2, are counted.
#[test]
fn by_counts() {
    let mut device = or_skip!(Device::new());
    let down = How { descending: true, bits: None };
    for (k, pattern) in PATTERNS.into_iter().enumerate() {
        let (how, skips) = (if k % 2 == 0 { &WHOLE } else { &down }, SKIPS[k % 4]);
        device.check::<u8>(how, pattern, 3_000_000, skips);
        device.check::<i8>(how, pattern, 70_000, skips);
        device.check::<u16>(how, pattern, 3_000_000, skips);
        device.check::<i16>(how, pattern, (1 << 20) + k, skips);
        device.check::<f16>(how, pattern, 2_000_000, skips);
        device.check::<bf16>(how, pattern, 2_000_000, skips);
    }
    for n in [(1 << 20) - 1, 1 << 20] {
        device.check::<u16>(&WHOLE, Pattern::Random, n, [0, 0]);
    }
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
    // Buckets by bits and by range; passes; heavy keys instead of passes.
    device.check::<u32>(&WHOLE, Pattern::Random, (5 << 20) + 77, [0, 1]);
    device.check::<u64>(&WHOLE, Pattern::SameAbove, (1 << 21) + 77, [1, 0]);
    device.check_with::<u32, u32>(&WHOLE, Pattern::PowerLaw, (1 << 22) + 77, [0, 0]);
    device.check_with::<u32, u32>(&WHOLE, Pattern::Few, (1 << 22) + 77, [0, 1]);
    device.check::<u32>(&How { descending: false, bits: Some(3..29) }, Pattern::Random, (1 << 24) + 77, [1, 0]);
    // One frequent key, in fixed-capacity buckets whose other keys go to finer bins.
    for n in [60_000, 1 << 18, 1 << 20, 3 << 20] {
        let often = device.rng.next() as u32;
        let keys = (0..n).map(|_| device.rng.next() as u32);
        let keys: Vec<u32> = keys.map(|x| if x.is_multiple_of(2048) { often } else { x }).collect();
        agrees(&mut device, &keys, false, "one often");
    }
    let often = device.rng.next() as i64;
    let any = |device: &mut Device| (0..(3 << 20) + 77).map(|_| device.rng.next() as i64).collect::<Vec<i64>>();
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
    sort::<i64>().prepare_indices::<u32>(short, &mut device.workspace).unwrap();
    let held = device.workspace.bytes();
    let mut x = stream.alloc_zeros::<u32>(long).unwrap();
    let mut second = stream.alloc_zeros::<u32>(long).unwrap();
    let mut sorted = stream.alloc_zeros::<u32>(long).unwrap();
    let (mut y, mut values) = (stream.alloc_zeros::<f32>(short).unwrap(), stream.alloc_zeros::<u16>(short).unwrap());
    let (mut z, mut places) = (stream.alloc_zeros::<i64>(short).unwrap(), stream.alloc_zeros::<u32>(short).unwrap());
    stream.synchronize().unwrap();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    sort::<u32>().workspace(&mut device.workspace).run_into(&x, &mut sorted).unwrap();
    sort::<u32>().workspace(&mut device.workspace).run_in_place_with_buffer(&mut x, &mut second).unwrap();
    sort::<f32>().workspace(&mut device.workspace).run_pairs_in_place::<u16, _, _>(&mut y, &mut values).unwrap();
    sort::<i64>().descending().workspace(&mut device.workspace).indices_into::<u32, _, _>(&z, &mut places).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(device.workspace.bytes(), held, "a prepared workspace does not grow");
    for pattern in PATTERNS {
        let a = keys::<u32>(&mut device.rng, pattern, long);
        let b = keys::<f32>(&mut device.rng, pattern, short);
        let c = keys::<i64>(&mut device.rng, pattern, short);
        let beside = noise::<u16>(&mut device.rng, short);
        stream.memcpy_htod(&a, &mut x).unwrap();
        stream.memcpy_htod(&b, &mut y).unwrap();
        stream.memcpy_htod(&beside, &mut values).unwrap();
        stream.memcpy_htod(&c, &mut z).unwrap();
        graph.launch().unwrap();
        let mut expected = a;
        expected.sort_unstable();
        assert_bytes(&stream.clone_dtoh(&sorted).unwrap(), &expected, &("into", pattern));
        assert_bytes(&stream.clone_dtoh(&x).unwrap(), &expected, &("in place", pattern));
        let order = WHOLE.oracle(&b);
        assert_bytes(&stream.clone_dtoh(&y).unwrap(), &gathered(&b, &order), &("with a payload", pattern));
        assert_bytes(&stream.clone_dtoh(&values).unwrap(), &gathered(&beside, &order), &("the payload", pattern));
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
