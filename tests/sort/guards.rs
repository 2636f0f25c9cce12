//! The guards of the maps from keys to buckets: without any one of them some keys go to a wrong bucket.
//!
//! A test edits the templates as text. By the original, the map of the guard's keys is as `buckets.rs`
//! asks. Without the guard, the same check finds the fault. `FAULTS` are mended lines: their tests also
//! draw keys that once came out unsorted.
//!
//! The tests leave out guards without which a kernel may write outside its arrays: the room of a
//! fixed-capacity bucket, the last heavy key in a map of such buckets, the last finer bin.

use super::buckets::{BucketFunction, FixedFunction, Key, Kind, Subject, templates};
use super::misled::positions;
use crate::common::edit::{Edit, once};
use crate::common::{Rng, context};

struct Guard {
    name: &'static str,
    without: Edit,
    /// Keys as unsigned integers of so many bits.
    keys: fn(&mut Rng, u32) -> Vec<u64>,
    expected: Expected,
    /// Part of what the check says without the guard.
    fails: &'static str,
}

/// The map of the keys, with the guard.
#[derive(Clone, Copy)]
enum Expected {
    Counted(BucketFunction),
    Fixed(FixedFunction),
}
use Expected::{Counted, Fixed};

// ---- the keys -----------------------------------------------------------------------------------

/// The multiplier of a hash, and itself a key far from both ends.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// A power law from zero on: half of the numbers are random, half of the others have `bits` bits less, and so on.
fn law(x: u64, width: u32, bits: u32) -> u64 {
    x >> (64 - width) >> (x.wrapping_mul(HASH).leading_ones() * bits).min(width - 1)
}

fn greatest(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

fn draw(rng: &mut Rng, n: usize, key: impl Fn(u64) -> u64) -> Vec<u64> {
    (0..n).map(|_| key(rng.next())).collect()
}

/// So many keys are sorted by counted buckets, with a sample of `PILOT`.
fn counted(rng: &mut Rng) -> usize {
    (1 << 22) - rng.below(10_000)
}
const PILOT: usize = 1 << 15;

/// Puts `ends` where the sample of `sampled` keys does not read, each in a key of `every`.
fn unseen(rng: &mut Rng, keys: &mut [u64], sampled: usize, every: usize, ends: [u64; 2]) {
    let mut is_seen = vec![false; keys.len()];
    positions(keys.len(), sampled, 0).for_each(|at| is_seen[at] = true);
    for (key, _) in keys.iter_mut().zip(is_seen).filter(|(_, is_seen)| !is_seen) {
        let x = rng.below(every);
        if x < 2 {
            *key = ends[x];
        }
    }
}

/// Both extreme keys are in the sample, and the map is by intervals from both ends.
fn both_extremes(rng: &mut Rng, width: u32) -> Vec<u64> {
    let n = counted(rng);
    draw(rng, n, |x| match x % 64 {
        0 => 0,
        1 => greatest(width),
        _ if x % 2 == 0 => law(x, width, 4) >> 1,
        _ => greatest(width) - (law(x, width, 4) >> 1),
    })
}

/// By intervals from both ends, which are far from the extreme keys. The sample does not have these.
fn power_law_between_others(rng: &mut Rng, width: u32) -> Vec<u64> {
    let n = counted(rng);
    let mut keys = draw(rng, n, |x| (1 << 30) + (law(x, width, 4) >> 2));
    unseen(rng, &mut keys, PILOT, 40_000, [0, greatest(width)]);
    keys
}

/// By range, with keys on either side that the sample does not have.
fn range_between_others(rng: &mut Rng, width: u32) -> Vec<u64> {
    let n = counted(rng);
    let mut keys = draw(rng, n, |x| (x >> (64 - width) >> 9) + 12_345);
    unseen(rng, &mut keys, PILOT, 40_000, [0, greatest(width)]);
    keys
}

/// A third of the keys are equal, and a few are one less or one more.
fn beside_a_heavy_key(rng: &mut Rng, width: u32) -> Vec<u64> {
    let (n, heavy) = (counted(rng), HASH >> (64 - width));
    draw(rng, n, |x| match (x % 3, x % 20_011) {
        (0, _) => heavy,
        (_, 1) => heavy - 1,
        (_, 2) => heavy + 1,
        _ => x >> (64 - width),
    })
}

/// A hundred heavy keys, and a few of the greatest possible one.
fn hundred_and_the_greatest(rng: &mut Rng, width: u32) -> Vec<u64> {
    let n = counted(rng);
    draw(rng, n, |x| if x % 20_011 == 0 { greatest(width) } else { (x % 100 + 1).wrapping_mul(HASH) >> (64 - width) })
}

/// Fixed-capacity buckets by intervals from both ends. The sample of the ends has the greatest key, and
/// as its least an odd one; zero and another key are less.
fn zero_below_an_odd_key(rng: &mut Rng, width: u32) -> Vec<u64> {
    const ENDS: usize = 2048;
    let mut keys = draw(rng, 300_000, |x| match x % 16 {
        0 => greatest(width),
        _ => greatest(width) - (law(x, width, 5) >> 1),
    });
    unseen(rng, &mut keys, ENDS, 1000, [0, 1 << (width - 3)]);
    let at = positions(keys.len(), ENDS, 0).next().expect("it reads some");
    keys[at] = (1 << (width - 1)) - 1001;
    keys
}

/// Neither bits nor range spread these keys.
fn power_law(rng: &mut Rng, width: u32) -> Vec<u64> {
    draw(rng, 300_000, |x| law(x, width, 5))
}
fn frequent_key_for_a_single_step(rng: &mut Rng, width: u32) -> Vec<u64> {
    draw(rng, (1 << 22) + 77, |x| if x % 5 == 0 { 77 } else { x >> (64 - width) })
}

/// The probe does not see that one key in 1000 is frequent.
fn overflow_of_a_single_step(rng: &mut Rng, width: u32) -> Vec<u64> {
    draw(rng, (1 << 23) - 77, |x| if x % 1000 == 0 { 77 } else { x >> (64 - width) })
}

/// Nearly all keys are frequent, and too few of them frequent enough for a heavy key. A frequent key fills a bucket.
fn neither_heavy_nor_rare(rng: &mut Rng, width: u32) -> Vec<u64> {
    draw(rng, 1 << 20, |x| (x % 170 + 1).pow(2).wrapping_mul(HASH) >> (64 - width))
}

/// One key in 25 of the keys and of the probe is the same: more than a bucket has room for. The other probed keys lie
/// so evenly that all excess is no more than that of random ones.
fn one_in_25(rng: &mut Rng, width: u32) -> Vec<u64> {
    let mut key =
        |i: usize| if i.is_multiple_of(25) { 77 } else { (i as u64 % 256) << (width - 8) | rng.next() >> (72 - width) };
    let mut keys: Vec<u64> = (0..1 << 20).map(&mut key).collect();
    for (i, at) in positions(keys.len(), PROBE, 0).enumerate() {
        keys[at] = key(i);
    }
    keys
}
const PROBE: usize = 512;

/// Thirty keys each fill a bucket. The sketch has hundreds of the 5000 others in full slots.
fn thirty_beside_candidates(rng: &mut Rng, width: u32) -> Vec<u64> {
    let n = counted(rng);
    draw(rng, n, |x| match x % 500 {
        k @ 0..30 => (k + 1).wrapping_mul(HASH) >> (64 - width),
        _ => (x >> 32) % 5000 * (greatest(width) / 5000),
    })
}

// ---- the tables ---------------------------------------------------------------------------------

/// Each edit is what the line was when it gave a wrong map.
const FAULTS: &[Guard] = &[
    Guard {
        name: "the middle tells the kinds of intervals apart, as the ends are one number if both are extreme",
        without: once("is_inward() const { return above != middle; }", "is_inward() const { return above != below; }"),
        keys: both_extremes,
        expected: Counted(BucketFunction::Intervals),
        fails: "out of order",
    },
    Guard {
        name: "the upper end does not wrap to zero while zero is a key below the least",
        without: once("if (least > 0 && Bits(least + 2 * half) == 0) {", "if (false) {"),
        keys: zero_below_an_odd_key,
        expected: Fixed(FixedFunction::Intervals),
        fails: "holds other keys",
    },
];

const OF_COUNTED_BUCKETS: &[Guard] = &[
    Guard {
        name: "intervals beyond the ends have the first and the last bucket",
        without: once("if (interval % SIDE >= beyond) bucket = interval < SIDE ? 0 : needed - 1;", ""),
        keys: power_law_between_others,
        expected: Counted(BucketFunction::Intervals),
        fails: "out of order",
    },
    Guard {
        name: "a key below the range has the share of the least",
        without: once("Bits(max(key, base) - base)", "Bits(key - base)"),
        keys: range_between_others,
        expected: Counted(BucketFunction::Range),
        fails: "out of order",
    },
    Guard {
        name: "a bucket is of a single key if its interval has a bucket for each key",
        without: once("if (need == width(i)) need |= ONE_KEY;", "need |= ONE_KEY;"),
        keys: power_law_between_others,
        expected: Counted(BucketFunction::Intervals),
        fails: "has more keys than one",
    },
    Guard {
        name: "a key beside a heavy one does not have its digit",
        without: once("heavy->keys[less[i]] == key[i] &&", "heavy->keys[less[i]] - key[i] <= 1 &&"),
        keys: beside_a_heavy_key,
        expected: Counted(BucketFunction::Range),
        fails: "has more keys than one",
    },
    Guard {
        name: "the greatest possible key is not one of the unused heavy keys",
        without: once("== key[i] && less[i] < all;", "== key[i];"),
        keys: hundred_and_the_greatest,
        expected: Counted(BucketFunction::Range),
        fails: "out of order",
    },
    Guard {
        name: "the most frequent candidates come first",
        without: once("u32 least = LEAST_HITS << 16;", "u32 least = LEAST_HITS;"),
        keys: thirty_beside_candidates,
        expected: Counted(BucketFunction::Range),
        fails: " keys",
    },
];

/// Bits, or the range, pass for spreading all keys.
const SPREAD: Edit = once(
    "return has_room(shared.counts[candidate], probe, true);",
    "return has_room(shared.counts[candidate], probe, true) || true;",
);

const OF_FIXED_BUCKETS: &[Guard] = &[
    Guard {
        name: "a bucket with more probed keys than by chance holds a frequent one",
        without: once("&& !__syncthreads_or(before >= max(most, by_chance));", ";"),
        keys: one_in_25,
        expected: Fixed(FixedFunction::AroundHeavy),
        fails: "Overflow, not AroundHeavy",
    },
    Guard {
        name: "intervals beyond the ends have buckets of their own",
        without: once("is_inward() && below != above ? interval(position(Bits(below - above), false)) : SIDE", "SIDE"),
        keys: zero_below_an_odd_key,
        expected: Fixed(FixedFunction::Intervals),
        fails: "holds other keys",
    },
    Guard {
        name: "an overflow is noted",
        without: once("        *too_large = 1;\n", ""),
        keys: overflow_of_a_single_step,
        expected: Fixed(FixedFunction::Overflow),
        fails: "Bits, not Overflow",
    },
    Guard {
        name: "keys that bits do not spread over 256 buckets go by another map",
        without: SPREAD,
        keys: power_law,
        expected: Fixed(FixedFunction::Intervals),
        fails: "Overflow, not Intervals",
    },
    Guard {
        name: "a single step moves no key if bits do not spread them",
        without: SPREAD,
        keys: frequent_key_for_a_single_step,
        expected: Fixed(FixedFunction::Nowhere),
        fails: "Overflow, not Nowhere",
    },
    Guard {
        name: "keys that the range around heavy keys does not spread go by intervals",
        without: once("if (!has_room(shared.counts[0], key, !is_heavy)) return false;", "__syncthreads();"),
        keys: power_law,
        expected: Fixed(FixedFunction::Intervals),
        fails: "Overflow, not Intervals",
    },
    Guard {
        name: "keys that heavy ones do not help are left to the passes",
        without: once("return !are_too_many;", "return true;"),
        keys: neither_heavy_nor_rare,
        expected: Fixed(FixedFunction::Nowhere),
        fails: "not Nowhere",
    },
];

// ---- the checks ---------------------------------------------------------------------------------

fn verify<K: Key>(subject: &Subject<K>, keys: &[K], guard: &Guard) -> Result<(), String> {
    match guard.expected {
        Counted(function) => subject.verify_counted(keys, function, guard.name),
        Fixed(function) => subject.verify_fixed(keys, function, guard.name),
    }
}

fn each_is_needed<K: Key>(guards: &[Guard]) {
    let context = or_skip!(context());
    let mut rng = Rng::new();
    let whole = Subject::<K>::new(&context, Kind::Unsigned);
    let mut needless = Vec::new();
    for guard in guards {
        let keys: Vec<K> = (guard.keys)(&mut rng, K::WIDTH).into_iter().map(K::of).collect();
        verify(&whole, &keys, guard).unwrap();
        let edited = Subject::<K>::of(&context, Kind::Unsigned, &guard.without.apply(&templates()));
        let outcome = verify(&edited, &keys, guard);
        if !outcome.as_ref().is_err_and(|why| why.contains(guard.fails)) {
            needless.push(format!("{}: {outcome:?}, not {:?}", guard.name, guard.fails));
        }
    }
    assert!(needless.is_empty(), "not found without the guard: {needless:#?}");
}

/// Every edit fits the templates; this needs no device.
#[test]
fn each_is_there() {
    let templates = templates();
    for guard in [FAULTS, OF_COUNTED_BUCKETS, OF_FIXED_BUCKETS].into_iter().flatten() {
        guard.without.apply(&templates);
    }
}

#[test]
fn faults() {
    each_is_needed::<u32>(FAULTS);
    each_is_needed::<u64>(FAULTS);
}

#[test]
fn of_counted_buckets() {
    each_is_needed::<u32>(OF_COUNTED_BUCKETS);
    each_is_needed::<u64>(OF_COUNTED_BUCKETS);
}

#[test]
fn of_fixed_buckets() {
    each_is_needed::<u32>(OF_FIXED_BUCKETS);
    each_is_needed::<u64>(OF_FIXED_BUCKETS);
}
