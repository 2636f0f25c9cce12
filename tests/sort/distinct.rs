//! Passes on the device that count distinct keys one by one.

use super::device::{Device, agrees};
use super::*;

/// `FewKeys::RARE` of few_keys.cuh, which the hash table counts in a slot of its own.
const RARE: u64 = 0x6a09_e667_f3bc_c908;

/// Distinct keys that passes count one by one, and more of them: far apart, the least and the greatest key among
/// them, equally frequent or not. Most leave the buckets to passes, since no bucket holds a key's copies; heavy keys
/// take one or two, and a single step may take 5000.
fn distinct_in_passes<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    for (k, distinct) in [1, 2, 255, 256, 257, 999, 1000, 1001, 1024, 1025, 5000].into_iter().enumerate() {
        let mut values: Vec<u64> = (0..distinct).map(|_| device.rng.next() >> (64 - width)).collect();
        (values[0], values[distinct / 2]) = (0, u64::MAX >> (64 - width));
        if distinct > 4 {
            // Of signed integers and of descending sorts some bits are inverted.
            let sign = 1 << (width - 1);
            let rare = [RARE, RARE ^ sign, !RARE, !RARE ^ sign].map(|key| key << (64 - width) >> (64 - width));
            values[1..5].copy_from_slice(&rare);
        }
        let n = (1 << 22) + 1 + device.rng.below(1 << 18);
        let random: Vec<u64> = (0..n).map(|_| device.rng.next()).collect();
        let equally: Vec<K> = random.iter().map(|&x| make(values[x as usize % distinct])).collect();
        agrees(&mut device, &equally, k % 2 == 1, &format!("{distinct} distinct"));
        // By the fourth power of a random number below one.
        let frequent = random.iter().map(|&x| ((x >> 11) as f64 / (1_u64 << 53) as f64).powi(4) * distinct as f64);
        let unequally: Vec<K> = frequent.map(|i| make(values[i as usize])).collect();
        agrees(&mut device, &unequally, k % 2 == 0, &format!("{distinct} distinct, some often"));
    }
    // The first blocks find few, and one of the last ones many.
    let n = (1 << 22) + 77;
    let values: Vec<u64> = (0..300).map(|_| device.rng.next() >> (64 - width)).collect();
    let late: Vec<K> = (0..n)
        .map(|i| make(if i < n - 9000 { values[device.rng.below(300)] } else { device.rng.next() >> (64 - width) }))
        .collect();
    agrees(&mut device, &late, false, "many among the last");
}

/// Distinct keys whose hashes begin with the same bits, so that hash tables crowd, or refuse some.
fn of_one_hash<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    // `hash` of few_keys.cuh.
    let hash = |key: u64| {
        let product = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((product >> 32) as u32 ^ product as u32).wrapping_mul(0x85eb_ca6b)
    };
    for (bits, distinct, n) in
        [(8, 100, 100_000), (8, 100, 1 << 20), (10, 420, 1 << 17), (10, 420, 1 << 20), (12, 300, (1 << 22) + 77)]
    {
        let all: Vec<u64> = std::iter::repeat_with(|| device.rng.next() >> (64 - width))
            .filter(|&key| hash(key) >> (32 - bits) == 5)
            .take(distinct)
            .collect();
        // Half of the keys are 20 of them.
        let one = |x: u64| all[if x & 1 == 0 { (x >> 1) % 20 } else { (x >> 1) % distinct as u64 } as usize];
        let keys: Vec<K> = (0..n).map(|_| make(one(device.rng.next()))).collect();
        agrees(&mut device, &keys, false, &format!("{distinct} distinct of one hash"));
    }
}

#[test]
fn distinct_words_in_passes() {
    distinct_in_passes(|bits| bits as i32);
}
#[test]
fn distinct_long_words_in_passes() {
    distinct_in_passes(|bits| bits);
}
#[test]
fn distinct_floats_in_passes() {
    distinct_in_passes(|bits| f32::from_bits(bits as u32));
}

#[test]
fn words_of_one_hash() {
    of_one_hash(|bits| bits as u32);
}
#[test]
fn long_words_of_one_hash() {
    of_one_hash(|bits| bits);
}

/// Passes that count distinct keys, for compute-sanitizer.
#[test]
fn sanitize_distinct() {
    let mut device = or_skip!(Device::new());
    let keys = |device: &mut Device, distinct: u64| {
        (0..(1 << 20) + 77).map(|_| device.rng.next() % distinct).collect::<Vec<_>>()
    };
    for distinct in [300, 1000] {
        let keys = keys(&mut device, distinct);
        let words: Vec<u32> = keys.iter().map(|x| x.wrapping_mul(0x9e37_79b9) as u32).collect();
        agrees(&mut device, &words, distinct == 300, "distinct keys");
        let long: Vec<u64> = keys.iter().map(|x| x.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        agrees(&mut device, &long, distinct == 300, "distinct long keys");
    }
}
