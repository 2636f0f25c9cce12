//! Buckets of one key fewer than a block has room for, of as many, and of one more. In the last case the bucket
//! overflows: passes sort all keys, or those of a counted bucket. The samples see equally many keys of each bucket,
//! so they give no warning, and buckets are by the first bits of a key.

use super::device::{Device, has_order};
use super::misled::positions;
use super::*;
use parascan::cuda::sample_seed;

/// `n` keys in buckets by their first `bits` bits: bucket `full` has exactly `size` keys, and the others share the
/// rest at random. A sample of `sampled` keys has equally many of each bucket.
fn with_full_bucket<K: Key>(rng: &mut Rng, n: usize, bits: u32, [full, size]: [usize; 2], sampled: usize) -> Vec<K> {
    const UNKNOWN: usize = usize::MAX;
    let buckets = 1 << bits;
    let mut bucket_of = vec![UNKNOWN; n];
    for (i, at) in positions(n, sampled, sample_seed()).enumerate() {
        bucket_of[at] = i % buckets;
    }
    let seen = (0..sampled).filter(|i| i % buckets == full).count();
    let (mut left, mut rest) = (size - seen, n - sampled);
    for bucket in bucket_of.iter_mut().filter(|bucket| **bucket == UNKNOWN) {
        let is_here = rng.below(rest) < left;
        *bucket = if is_here { full } else { (full + 1 + rng.below(buckets - 1)) % buckets };
        left -= usize::from(is_here);
        rest -= 1;
    }
    let others = K::WIDTH - bits;
    let key = |bucket: usize| {
        let x = rng.next();
        let below = x >> (64 - others);
        // Some keys have few values, so that a few of a bucket are equal.
        let below = if x.is_multiple_of(64) { below >> (others - 10) << (others - 10) } else { below };
        K::from_bits((bucket as u64) << others | below)
    };
    bucket_of.into_iter().map(key).collect()
}

/// Sorts `n` keys with a bucket around each of `rooms`, the most keys of a block.
fn around<K: Key>(n: usize, bits: u32, rooms: &[usize], sampled: usize) {
    let mut device = or_skip!(Device::new());
    for (k, size) in rooms.iter().flat_map(|&room| [room - 1, room, room + 1]).enumerate() {
        let last = (1 << bits) - 1;
        let full = [0, last, device.rng.below(last)][(k + device.rng.below(3)) % 3];
        let descending = device.rng.below(2) == 1;
        let keys = with_full_bucket::<K>(&mut device.rng, n, bits, [full, size], sampled);
        let order = How { descending, bits: None }.oracle(&keys);
        has_order(&mut device, &keys, &order, descending, &format!("{size} keys in bucket {full} of {last}"));
    }
}

// The rooms are those from compute capability 8.0 on, by `sort_shape` in `src/cuda/sort/tuning.rs`; the bits are
// those of `SortProgram::way` in `plan.rs`. With a payload rooms differ.

const PROBE: usize = 512;
const BLOCK: usize = 512 * 11;
const LARGE: usize = 1024 * 21;
const LARGE_WITH_PAYLOAD: usize = 1024 * 20;
const LARGE_OF_LONG: usize = 1024 * 11;
const LONG_WITH_PAYLOAD: usize = 512 * 8;
const LARGE_OF_LONG_WITH_PAYLOAD: usize = 1024 * 10;

#[test]
fn words() {
    around::<u32>(60_000, 5, &[BLOCK], PROBE);
    around::<u32>(1 << 20, 8, &[BLOCK], PROBE);
    around::<u32>(1 << 22, 8, &[LARGE, LARGE_WITH_PAYLOAD], PROBE);
}

#[test]
fn long_words() {
    around::<u64>(60_000, 5, &[BLOCK, LONG_WITH_PAYLOAD], PROBE);
    around::<u64>(1 << 20, 8, &[BLOCK, LARGE_OF_LONG_WITH_PAYLOAD], PROBE);
    around::<u64>(1 << 21, 8, &[LARGE_OF_LONG, LARGE_OF_LONG_WITH_PAYLOAD], PROBE);
}

/// Lengths that try a single step, which goes by the probe. With a payload the last ones go to counted buckets.
#[test]
fn words_in_a_single_step() {
    around::<u32>(5 << 20, 9, &[LARGE, LARGE_WITH_PAYLOAD], PROBE);
    around::<u32>(8_000_000, 9, &[LARGE_WITH_PAYLOAD], PROBE);
    around::<u32>(1 << 23, 9, &[LARGE], PROBE);
}
#[test]
fn long_words_in_a_single_step() {
    around::<u64>(3_900_000, 9, &[LARGE_OF_LONG, LARGE_OF_LONG_WITH_PAYLOAD], PROBE);
    around::<u64>(4_300_000, 9, &[LARGE_OF_LONG], PROBE);
}

/// The pilot sample has a key in 128, rounded up to a power of two.
#[test]
fn words_in_counted_buckets() {
    around::<u32>(5 << 22, 13, &[BLOCK], 1 << 18);
}
#[test]
fn long_words_in_counted_buckets() {
    around::<u64>(10_000_000, 12, &[BLOCK, LONG_WITH_PAYLOAD], 1 << 17);
}
