//! The ways of a sort on the device, each by lengths and distributions of keys that take it: passes, buckets and
//! their maps, heavy keys, few distinct keys, counts.

use super::device::{Device, SKIPS, WHOLE, agrees, agrees_with};
use super::*;

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
    // Of these lengths a single step takes some patterns.
    for (k, pattern) in PATTERNS.into_iter().enumerate() {
        let (n, how) = ((1 << 22) + 1 + device.rng.below(1 << 21), if k % 2 == 0 { &down } else { &WHOLE });
        device.check_with::<i32, u32>(how, pattern, n, SKIPS[k % 4]);
    }
    device.check_with::<u64, u32>(&WHOLE, Pattern::Random, 3_900_000, [0, 0]);
    device.check_with::<f32, u64>(&down, Pattern::Random, 5_000_000, [1, 0]);
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
        let bytes: Vec<u8> = (0..n).map(|at| at as u8).collect(); // they become words
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
    in_full_buckets::<i64>([3 << 19, 5 << 20], 0, |x| x as i64);
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
    let (long, words, more) = (any(5 << 20), any(3 << 22), any(1 << 24));
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
