//! The plan of a sort: its algorithm, its launches and its scratch memory. It calls no device.

use super::SortProgram;
use super::contract::{
    BINS, Begin, CURSOR_STRIDE, DIGIT_BITS, HEAVY_COPIES, INTERVAL_SAMPLE, MOST_HEAVY, MOST_INTERVAL_PARTS, PROBE_KEYS,
    SINGLE_BITS, SINGLE_DIGITS, SortPlanFields,
};
use super::tuning::{
    BUCKET_MAP_BYTES, FIXED_MAP_BYTES, FIXED_MAP_ZERO, SortBlock, SortShape, distinct_bytes, map_tables,
};
use crate::cuda::kernels::Machine;
use std::ops::Range;

const WORD: usize = size_of::<u32>();
/// The most keys that a look-back word counts.
const MOST_OF_A_WORD: usize = (1 << 31) - 2;
/// The most tiles of a round of a pass.
const MOST_TILES: usize = 1 << 15;

// ---- the choice of the way

/// The way of a sort. After buckets, passes sort the keys that these leave. If they sort all keys,
/// the passes return at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One block sorts all keys: by bins, as a bucket, or digit by digit.
    OneBlock { by_bins: bool },
    /// The kernels write the output from the counts of the keys.
    Counts,
    /// Passes, least significant digit first.
    Passes,
    /// One scatter step by `bits` bits, to fixed-capacity buckets of the ordinary or the large
    /// block.
    Fixed { bits: u32, is_large: bool, sample: FixedSample },
    /// Two scatter steps to counted buckets, each of which an ordinary or a large block sorts. The
    /// second step is by `lower` bits, or by up to `most` for an uneven distribution. If
    /// `tries_single`, a single step to `SINGLE_DIGITS` fixed-capacity buckets of the large block
    /// comes first. If it takes the keys, the kernels of counted buckets return at once.
    Buckets { lower: u32, most: u32, is_large: bool, tries_single: bool },
}

impl SortProgram {
    /// Which way a sort of `n` keys goes, at least one; `whole` if by all their bits. The first row
    /// that applies, with lengths of 4-byte keys and payloads on an H200:
    ///
    /// | keys | n up to | way |
    /// |---|---|---|
    /// | keys-only of 4 or 8 bytes, whole | 5632 | one block, by bins |
    /// | any | 4096 (of up to 2 bytes 8192, keys-only of 1 byte 16384) | one block, digit by digit |
    /// | keys-only of 1 byte, whole | 2^40 | counts |
    /// | keys-only of 2 bytes, whole | 2^32 - 1, from 2^20 | counts |
    /// | of 1 or 2 bytes, or not whole | 2^40 | passes |
    /// | others | 2^20 | fixed-capacity buckets |
    /// | | 2^22 (keys-only 1.05 * 2^22) | fixed-capacity buckets of a large block |
    /// | | 1.9 * 2^22 (keys-only 2.0 * 2^22) | buckets, by a single step if bits or range spread the keys |
    /// | | 3.1 * 10^8 | buckets |
    /// | | 1.1 * 10^9 (keys-only 1.2 * 10^9) | buckets of a large block |
    /// | | 2^40 | passes |
    fn way(&self, n: usize, whole: bool, machine: &Machine) -> Way {
        let (key, counts) = (self.unit.key, self.unit.payload.is_none() && whole);
        let shape = self.shape(machine.architecture);
        let has_large = shape.large_sort_shared() <= machine.shared;
        let most_lower = Self::most_lower(machine);
        let holds =
            |block: SortBlock| most_lower.is_some_and(|lower| n <= most_in_buckets(block) << (DIGIT_BITS + lower));
        let by_bins = counts && key >= 4 && n <= shape.bucket.tile();
        let fixed = |block, is_large| Way::fixed(n, block, is_large);
        let tries_single = has_large && n <= most_in_single(shape.large);
        let buckets = |block, is_large| Way::buckets(n, block, is_large, most_lower, tries_single);
        match n {
            _ if by_bins || n <= shape.small.tile() => Way::OneBlock { by_bins },
            _ if key == 1 && counts => Way::Counts,
            FEWEST_TO_COUNT..=MOST_TO_COUNT if key == 2 && counts && most_lower == Some(MOST_LOWER) => Way::Counts,
            _ if key <= 2 || !whole || n > MOST_OF_A_WORD => Way::Passes,
            _ if n <= MOST_FOR_FIXED.min(most_for_fixed(shape.bucket)) => fixed(shape.bucket, false),
            _ if has_large && n <= most_for_fixed(shape.large) => fixed(shape.large, true),
            _ if holds(shape.bucket) => buckets(shape.bucket, false),
            _ if has_large && holds(shape.large) => buckets(shape.large, true),
            _ => Way::Passes,
        }
    }

    /// The plan for `n` keys, at least one, by the bits `bits`.
    pub(crate) fn plan(&self, n: usize, bits: Range<u32>, in_place: bool, machine: &Machine) -> HostPlan {
        let shape = self.shape(machine.architecture);
        let way = self.way(n, is_whole(self.unit.key, &bits), machine);
        let digits = bits.len().div_ceil(DIGIT_BITS as usize);
        let passes = match way {
            Way::Counts => 1,
            // An even number of passes ends in the array where the first one began.
            _ if in_place => digits.next_multiple_of(2).max(1),
            _ => digits.max(1),
        };
        let tiles = n.div_ceil(shape.pass.tile()).min(MOST_TILES);
        let multiprocessors = machine.multiprocessors;
        HostPlan { program: *self, n, bits, in_place, shape, way, passes, tiles, multiprocessors }
    }

    fn most_lower(machine: &Machine) -> Option<u32> {
        (LEAST_LOWER..=MOST_LOWER).rev().find(|&lower| bucket_counters(lower) <= machine.shared)
    }

    /// An upper bound of the scratch memory of `n` keys or fewer, in place or not. `missing`: as `SECOND_KEYS`.
    pub(crate) fn scratch_up_to(&self, n: usize, bits: &Range<u32>, missing: [bool; 2], machine: &Machine) -> usize {
        self.plans_up_to(n, bits, machine).iter().map(|plan| plan.scratch(missing)).max().unwrap_or(0)
    }

    /// The numbers of all kernels that sorts of `n` keys or fewer launch.
    pub(crate) fn kernels_up_to(&self, n: usize, bits: &Range<u32>, machine: &Machine) -> Vec<usize> {
        let mut all: Vec<usize> =
            self.plans_up_to(n, bits, machine).iter().flat_map(|plan| plan.kernels_to_load()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The plans of the lengths up to `n` at which a sort takes the most memory of its algorithm.
    fn plans_up_to(&self, n: usize, bits: &Range<u32>, machine: &Machine) -> Vec<HostPlan> {
        // Fewer keys may need more memory: for buckets, fixed-capacity buckets, passes, or shorter
        // tiles. They may also need other kernels.
        let shape = self.shape(machine.architecture);
        let blocks = [shape.bucket, shape.large];
        let [most, large_most] = blocks
            .map(|block| Self::most_lower(machine).map_or(0, |lower| most_in_buckets(block) << (DIGIT_BITS + lower)));
        let [fixed, large_fixed] = blocks.map(most_for_fixed);
        let one_block = [shape.small, shape.bucket].map(|block| block.tile());
        let single = most_in_single(shape.large);
        let of_buckets = [most, large_most, MOST_FOR_FIXED.min(fixed), large_fixed, single];
        let borders =
            [n, MOST_OF_A_WORD, MOST_TO_COUNT, FEWEST_TO_COUNT - 1].into_iter().chain(of_buckets).chain(one_block);
        let lengths = borders.map(|border| n.min(border)).filter(|&n| n > 0);
        lengths.flat_map(|n| [false, true].map(|in_place| self.plan(n, bits.clone(), in_place, machine))).collect()
    }
}

// The lengths from which one algorithm is faster than another. NVIDIA H200, 2026-11-22.

/// The most keys for fixed-capacity buckets that are not large.
const MOST_FOR_FIXED: usize = 1 << 20;
/// The most keys that fill fixed-capacity buckets so little that a small sample makes their map.
const MOST_ALONE: usize = 1 << 18;
/// The number of keys for each fixed-capacity bucket, unless that needs more than `BINS` buckets.
const KEYS_IN_FIXED: usize = 1 << 10;
/// The fewest bits of a fixed-capacity bucket's number. The rest of a key and its index in the
/// bucket share an item of the key's size.
const LEAST_FIXED_BITS: u32 = 5;
/// The fewest 2-byte keys for which counting is faster than passes, and the most keys that counters of 32 bits
/// count, of each value or of each distinct key.
const FEWEST_TO_COUNT: usize = 1 << 20;
const MOST_TO_COUNT: usize = u32::MAX as usize;
/// The least and the greatest number of bits of a bucket's number after the first digit.
const LEAST_LOWER: u32 = 2;
pub(super) const MOST_LOWER: u32 = 8;

/// Shared memory of `bucket_count` in bytes: the tables of the map, then the counters of heavy keys
/// and of buckets. A bucket has a 16-bit counter, two to a word, with a word left out after every 32
/// (`counter_at`).
pub(super) fn bucket_counters(lower: u32) -> usize {
    (2 << (DIGIT_BITS + lower)) / 32 * 33 + map_tables(8) + MOST_HEAVY * HEAVY_COPIES * WORD
}

/// The most keys that an ordinary or a large bucket may hold on average.
fn most_in_buckets(block: SortBlock) -> usize {
    block.tile() / 20 * 17
}

/// The most keys for `1 << bits` fixed-capacity buckets of this block, which are then four fifths
/// full.
fn most_in_fixed(block: SortBlock, bits: u32) -> usize {
    (block.tile() / 5 * 4) << bits
}
/// The same for as many buckets as an 8-bit digit has values.
fn most_for_fixed(block: SortBlock) -> usize {
    most_in_fixed(block, DIGIT_BITS)
}
/// The most keys of a single step. A bucket has room for 1.3 times the average, so a key of which one in 2000 is equal,
/// which the probe may miss, fits. If a bucket overflows, passes sort the input.
fn most_in_single(block: SortBlock) -> usize {
    (block.tile() / 13 * 10) << SINGLE_BITS
}

/// The limits of the probe, for `buckets` buckets of capacity `room` and `n` keys: the most of the
/// `PROBE_KEYS` probed keys that one bucket may have, and the most that all buckets together may
/// have beyond that.
///
/// If random keys fit easily, the limit is the capacity's share of the probe less three standard
/// deviations, or what random keys hardly ever exceed if that is more, and no key may be beyond it.
/// Else random keys exceed the capacity's share, and the second number is their expected excess
/// plus six standard deviations.
pub(super) fn probe_limits(n: usize, room: usize, buckets: usize) -> (usize, usize) {
    let (fits, average) = ((PROBE_KEYS * room) as f64 / n as f64, PROBE_KEYS as f64 / buckets as f64);
    // `most_by_chance` of `sort/fixed_buckets.cuh`
    let (surely, by_chance) = (fits - 3.0 * fits.sqrt(), 3.0 * average + 7.0);
    if by_chance < 1.5 * fits {
        return (surely.max(by_chance) as usize, 0);
    }
    let most = fits.max(average + 2.0 * average.sqrt()).ceil();
    // The mean and the mean square of a bucket's excess, by the Poisson distribution.
    let (mut share, mut mean, mut square) = ((-average).exp(), 0.0, 0.0);
    for keys in 0..PROBE_KEYS {
        let beyond = (keys as f64 - most).max(0.0);
        mean += share * beyond;
        square += share * beyond * beyond;
        share *= average / (keys + 1) as f64;
    }
    let buckets = buckets as f64;
    (most as usize, (buckets * mean + 6.0 * (buckets * square).sqrt() + 6.0) as usize)
}

/// Keys of the pilot sample of `n` keys. With half as many, 2^28 keys needed more buckets by
/// equal-depth intervals than there are. With a quarter, a bucket of 2^24 power-law keys was too
/// large.
pub(super) fn sampled(n: usize) -> usize {
    (n >> 7).next_power_of_two().clamp(1 << 14, 1 << 19)
}

// ---- the plan and its memory

/// The arrays of keys that the caller does not pass, so that scratch memory holds them: of the output and the second
/// array the second, or both.
pub(crate) const SECOND_KEYS: [bool; 2] = [false, true];
pub(crate) const BOTH_KEYS: [bool; 2] = [true; 2];

/// The plan of a sort.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(super) program: SortProgram,
    pub(super) n: usize,
    pub(super) bits: Range<u32>,
    pub(super) in_place: bool,
    pub(super) shape: SortShape,
    pub(super) way: Way,
    /// The digits of the passes, and the most tiles of a round.
    pub(super) passes: usize,
    pub(super) tiles: usize,
    pub(super) multiprocessors: usize,
}

impl Way {
    /// The step to fixed-capacity buckets of `block`.
    fn fixed(n: usize, block: SortBlock, is_large: bool) -> Way {
        let bits = (n / KEYS_IN_FIXED).max(1).ilog2().clamp(LEAST_FIXED_BITS, DIGIT_BITS);
        let bits = if n > most_in_fixed(block, bits) { bits + 1 } else { bits };
        Way::Fixed { bits, is_large, sample: FixedSample::of(n, bits, block.tile()) }
    }
    /// The steps to buckets of `block`, with at most `most` lower bits.
    fn buckets(n: usize, block: SortBlock, is_large: bool, most: Option<u32>, tries_single: bool) -> Way {
        let most = most.expect("the block holds the keys");
        let fits = |lower: &u32| n <= most_in_fixed(block, DIGIT_BITS + lower);
        let lower = (LEAST_LOWER..most).find(fits).unwrap_or(most);
        Way::Buckets { lower, most: most.min(lower + 1), is_large, tries_single }
    }
}

/// The samples of fixed-capacity buckets, for keys that neither their first bits nor their range
/// spreads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedSample {
    /// Bits of a digit around heavy keys: twice as many digits as buckets, if there may be so many.
    pub(super) digit_bits: u32,
    /// Parts of `INTERVAL_SAMPLE` keys each, drawn by the blocks that make equal-depth intervals. 0:
    /// each block makes them for itself.
    pub(super) parts: usize,
    /// Room for the payload of heavy keys.
    pub(super) heavy_room: usize,
}

impl FixedSample {
    /// The samples of `n` keys for `1 << bits` buckets of capacity `room`.
    fn of(n: usize, bits: u32, room: usize) -> FixedSample {
        // With x sampled keys for each bucket, a bucket's size is known to a relative error of 1 /
        // sqrt(x). `more` is the capacity beyond an even share, if a twentieth of the buckets is
        // lost. It must be 4.5 times that error. At most one key in 64 is sampled.
        let more = (room << bits) as f64 / n as f64 * 0.95 - 1.0;
        let of_bucket = (4.5 / more).powi(2).max(64.0);
        let parts = ((1 << bits) as f64 * of_bucket / INTERVAL_SAMPLE as f64).ceil() as usize;
        // At most a part for each block, which has at most 4096 keys. The payload gets 3.7
        // times the room it needs, if all keys are heavy with 8.5 of the probe's 512 hits each. With
        // more than some 72 equally frequent keys the margins exceed it, and passes sort.
        let parts = if n > MOST_ALONE { parts.min(MOST_INTERVAL_PARTS).min(n >> 12) } else { 0 };
        FixedSample { digit_bits: (bits + 1).min(DIGIT_BITS), parts, heavy_room: 4 * n }
    }
}

/// Byte offsets in the scratch memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layout {
    pub(super) plan: usize,
    /// The distinct keys, if the sort counts these.
    pub(super) distinct: Option<usize>,
    pub(super) words: [usize; 2],
    pub(super) map: usize,
    pub(super) counts: usize,
    pub(super) coarse_counts: usize,
    pub(super) starts: usize,
    /// The end of the memory that is zero before the sort.
    pub(super) zero: usize,
    pub(super) cursors: usize,
    pub(super) coarse_cursors: usize,
    pub(super) begins: usize,
    pub(super) sample: usize,
    pub(super) fixed: [usize; 2],
    pub(super) keys: [Option<usize>; 2],
    pub(super) values: Option<usize>,
    pub(super) bytes: usize,
}

/// Bytes of `SortPlan` of `sort/plan.cuh` for keys of `key` bytes.
fn plan_bytes(key: usize) -> usize {
    // There is a pass for each byte of a key, and one more.
    match key {
        1 => size_of::<SortPlanFields<2>>(),
        2 => size_of::<SortPlanFields<3>>(),
        4 => size_of::<SortPlanFields<5>>(),
        8 => size_of::<SortPlanFields<9>>(),
        _ => unreachable!("no keys of {key} bytes"),
    }
}

/// Whether all bits of keys of `key` bytes are compared.
fn is_whole(key: usize, bits: &Range<u32>) -> bool {
    *bits == (0..8 * key as u32)
}

impl HostPlan {
    pub(super) fn layout(&self, missing: [bool; 2]) -> Layout {
        let mut at = Layout::default();
        let (key, value) = self.program.sizes();
        // The second arrays of keys and payload, if other memory holds them.
        let mut second_arrays = [None; 2];
        let mut take = |bytes: usize| {
            let begin = at.bytes;
            at.bytes += bytes.next_multiple_of(256);
            begin
        };
        // A stable step looks back as a pass does. The second step has one more tile for each first
        // digit, and a single step SINGLE_DIGITS words for each tile.
        let of_steps = match self.way {
            Way::Buckets { tries_single, .. } if value > 0 => {
                let tiles = self.n.div_ceil(self.shape.step.tile());
                (tiles + BINS).max(if tries_single { tiles * SINGLE_DIGITS / BINS } else { 0 })
            }
            Way::Fixed { .. } if value > 0 => self.n.div_ceil(self.shape.fixed.tile()),
            _ => 0,
        };
        let (rows, most_lower) = match self.way {
            Way::OneBlock { .. } => return at,
            Way::Counts => (0, if key == 1 { None } else { Some(MOST_LOWER) }),
            Way::Buckets { most, .. } => (self.tiles.max(of_steps), Some(most)),
            _ => (self.tiles.max(of_steps), None),
        };
        at.plan = take(plan_bytes(key));
        // Equal keys are the same only if all bits are compared, and their counters have 32 bits.
        let counts_distinct = key >= 4 && is_whole(key, &self.bits) && self.n <= MOST_TO_COUNT;
        at.distinct = counts_distinct.then(|| take(distinct_bytes(key)));
        at.words = [0, 1].map(|_| take(rows * BINS * WORD));
        if let Some(most_lower) = most_lower {
            let buckets = BINS << most_lower;
            at.map = take(BUCKET_MAP_BYTES);
            at.counts = take(buckets * WORD);
            at.coarse_counts = take(BINS * WORD);
            // The host allocates the table of starts before the map is known to need it.
            at.starts = take((buckets + 1) * WORD);
            at.zero = take(0);
            at.cursors = take(buckets * WORD);
            at.coarse_cursors = take(BINS * CURSOR_STRIDE * WORD);
            at.begins = take((BINS + 1) * size_of::<Begin>());
            at.sample = take(sampled(self.n) * key);
            if let Way::Buckets { tries_single: true, .. } = self.way {
                let room = self.shape.large.tile() * SINGLE_DIGITS + self.shape.step.tile();
                at.fixed = [take(room * key), take(room * value)];
                // Counted buckets and passes sort keys only if the single step has left them.
                second_arrays = at.fixed.map(Some);
            }
        } else if let Way::Fixed { is_large, sample, .. } = self.way {
            at.counts = take(BINS * WORD);
            at.map = take(FIXED_MAP_ZERO);
            at.zero = take(0);
            take(FIXED_MAP_BYTES - FIXED_MAP_ZERO);
            let room = (self.shape.in_buckets(is_large).tile() << sample.digit_bits) + self.shape.fixed.tile();
            at.fixed = [take(room * key), take((room + sample.heavy_room) * value)];
        } else {
            at.zero = take(0);
        }
        if self.way == Way::Counts {
            return at;
        }
        // A single pass goes from the input to the output.
        let [second_keys, second_values] = second_arrays;
        let has_second = self.passes > 1;
        at.keys[0] = missing[0].then(|| take(self.n * key));
        at.keys[1] = (missing[1] && has_second).then(|| second_keys.unwrap_or_else(|| take(self.n * key)));
        at.values = (value > 0 && has_second).then(|| second_values.unwrap_or_else(|| take(self.n * value)));
        at
    }

    /// Bytes of scratch memory, which may hold anything. `missing` is as for `SortProgram::scratch_up_to`.
    pub(crate) fn scratch(&self, missing: [bool; 2]) -> usize {
        self.layout(missing).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine { architecture: 90, multiprocessors: 132, shared: 227 << 10 };

    /// The counters of `bucket_count`, as `counter_at` of `sort/buckets.cuh` places them.
    #[test]
    fn counters_of_buckets() {
        let template = include_str!("../../../cuda-templates/sort/buckets.cuh");
        assert!(template.contains("counter_at(u32 i) { return i + i / WARP; }"));
        let counters = |lower: u32| 4 * ((BINS << lower) / 2 + (BINS << lower) / 64);
        assert!((5..=MOST_LOWER).all(|lower| bucket_counters(lower) == counters(lower) + map_tables(8) + 3840));
    }

    #[test]
    fn ways_by_length() {
        let keys = SortProgram::of::<u32, ()>();
        let pairs = SortProgram::of::<u32, u32>();
        let before = |program: &SortProgram, n: usize, bits: Range<u32>, shared: usize| {
            let way = program.plan(n, bits, false, &Machine { shared, ..MACHINE }).way;
            (!matches!(way, Way::OneBlock { .. } | Way::Counts)).then_some(way)
        };
        let fixed = |n, bits| Some(Way::Fixed { bits, is_large: false, sample: FixedSample::of(n, bits, 5632) });
        let large_fixed = |n, room| Some(Way::Fixed { bits: 8, is_large: true, sample: FixedSample::of(n, 8, room) });
        let buckets = |lower, most| Some(Way::Buckets { lower, most, is_large: false, tries_single: false });
        let single = |lower, most| Some(Way::Buckets { lower, most, is_large: false, tries_single: true });
        let of_large = |lower, most| Some(Way::Buckets { lower, most, is_large: true, tries_single: false });
        let nothing = Some(Way::Passes);
        let large = 227 << 10;
        for (n, of_keys, of_pairs) in [
            (4096, None, None),
            (5632, None, fixed(5632, 5)),
            (5633, fixed(5633, 5), fixed(5633, 5)),
            (1 << 16, fixed(1 << 16, 6), fixed(1 << 16, 6)),
            (1 << 18, fixed(1 << 18, 8), fixed(1 << 18, 8)),
            (1 << 20, fixed(1 << 20, 8), fixed(1 << 20, 8)),
            ((1 << 20) + 1, large_fixed((1 << 20) + 1, 21_504), large_fixed((1 << 20) + 1, 20_480)),
            (1 << 22, large_fixed(1 << 22, 21_504), large_fixed(1 << 22, 20_480)),
            (4_403_200, large_fixed(4_403_200, 21_504), single(2, 3)),
            (4_403_201, single(2, 3), single(2, 3)),
            (5 << 20, single(3, 4), single(3, 4)),
            (8_064_000, single(3, 4), single(3, 4)),
            (8_064_001, single(3, 4), buckets(3, 4)),
            (8_468_480, single(3, 4), buckets(3, 4)),
            (8_468_481, buckets(3, 4), buckets(3, 4)),
            (3 << 22, buckets(4, 5), buckets(4, 5)),
            (1 << 25, buckets(5, 6), buckets(5, 6)),
            (1 << 28, buckets(8, 8), buckets(8, 8)),
            (313_000_000, buckets(8, 8), buckets(8, 8)),
            (314_000_000, of_large(7, 8), of_large(7, 8)),
            (1 << 29, of_large(7, 8), of_large(7, 8)),
            ((1 << 29) + 1, of_large(7, 8), of_large(8, 8)),
            (1 << 30, of_large(8, 8), of_large(8, 8)),
            (1_140_850_688, of_large(8, 8), of_large(8, 8)),
            (1_197_670_400, of_large(8, 8), nothing),
            (1_197_670_401, nothing, nothing),
            (MOST_OF_A_WORD + 1, nothing, nothing),
        ] {
            assert_eq!(before(&keys, n, 0..32, large), of_keys, "{n} keys");
            assert_eq!(before(&pairs, n, 0..32, large), of_pairs, "{n} pairs");
            if n > 5632 {
                assert_eq!(before(&keys, n, 1..32, large), nothing, "{n}, not all bits");
            }
        }
        // Less shared memory gives fewer buckets.
        assert_eq!(before(&keys, 1 << 26, 0..32, 99 << 10), buckets(6, 7));
        assert_eq!(before(&keys, 1 << 28, 0..32, 99 << 10), nothing);
        let one_block = |program: &SortProgram, n| match program.plan(n, 0..32, false, &MACHINE).way {
            Way::OneBlock { by_bins } => Some(by_bins),
            _ => None,
        };
        assert_eq!([1, 5632, 5633].map(|n| one_block(&keys, n)), [Some(true), Some(true), None]);
        assert_eq!([1, 4096, 4097].map(|n| one_block(&pairs, n)), [Some(false), Some(false), None]);
        let (halves, bytes) = (SortProgram::of::<u16, ()>(), SortProgram::of::<u8, ()>());
        assert_eq!([8192, 8193].map(|n| one_block(&halves, n)), [Some(false), None]);
        assert_eq!([16_384, 16_385].map(|n| one_block(&bytes, n)), [Some(false), None]);
    }

    /// The blocks of the interval sample, and the limits of the probe.
    #[test]
    fn interval_samples_and_probe_limits() {
        for (n, room, parts) in [
            (1 << 18, 5632, 0),
            (270_000, 5632, 16),
            (1 << 19, 5632, 16),
            (1 << 20, 5632, 54),
            (1_150_000, 5632, MOST_INTERVAL_PARTS),
            (1 << 21, 20_480, 16),
            (1 << 22, 20_480, MOST_INTERVAL_PARTS),
        ] {
            let sample = FixedSample::of(n, 8, room);
            assert_eq!((sample.parts, sample.heavy_room), (parts, 4 * n), "{n}");
        }
        let digit_bits = |(n, bits)| FixedSample::of(n, bits, 5632).digit_bits;
        assert_eq!([(5633, 5), (1 << 16, 6), (1 << 20, 8)].map(digit_bits), [6, 7, 8]);
        for (n, room, buckets, expected) in [
            (1 << 16, 5632, 64, (31, 0)),
            (1 << 18, 5632, 256, (13, 0)),
            (1 << 19, 5632, 256, (6, 16)),
            (1 << 20, 5632, 256, (5, 30)),
            (1 << 22, 20_480, 256, (5, 30)),
        ] {
            assert_eq!(probe_limits(n, room, buckets), expected, "{n}");
        }
    }

    /// In-place sorts have an even number of passes, and no array overlaps another.
    #[test]
    fn passes_and_memory() {
        let pairs = SortProgram::of::<u32, u64>();
        for (bits, in_place, expected) in [
            (0..32, false, 4),
            (0..32, true, 4),
            (3..12, false, 2),
            (3..11, true, 2),
            (3..11, false, 1),
            (5..5, true, 1),
        ] {
            let plan = pairs.plan(1 << 20, bits.clone(), in_place, &MACHINE);
            assert_eq!(plan.passes, expected, "{bits:?} in place {in_place}");
        }
        let missing = [true; 2];
        let n: usize = (1 << 31) + 1;
        let plan = pairs.plan(n, 0..32, false, &MACHINE);
        assert_eq!((plan.way, plan.tiles), (Way::Passes, MOST_TILES));
        let at = plan.layout(missing);
        assert!(at.words[1] - at.words[0] >= 4 * BINS * MOST_TILES && at.zero >= at.words[1] + 4 * BINS * MOST_TILES);
        let [keys, second] = at.keys.map(|keys| keys.unwrap());
        assert!(keys >= at.zero && second >= keys + 4 * n && at.values.unwrap() >= second + 4 * n);
        assert!(at.bytes >= at.values.unwrap() + 8 * n);

        // Steps to buckets look back over more tiles, and fixed-capacity buckets have room for more
        // than all keys.
        let plan = pairs.plan(1 << 26, 0..32, false, &MACHINE);
        let at = plan.layout(missing);
        let tiles = (1usize << 26).div_ceil(plan.shape.step.tile());
        assert!(
            at.words[1] - at.words[0] >= 4 * BINS * (tiles + BINS) && at.map >= at.words[1] + 4 * BINS * (tiles + BINS)
        );
        assert!(at.zero >= at.coarse_counts + 4 * BINS && at.counts >= at.map + BUCKET_MAP_BYTES);
        // A single step has as many words for a tile as buckets, and its buckets are the second arrays.
        let plan = pairs.plan(5 << 20, 0..32, false, &MACHINE);
        let (at, shape) = (plan.layout(missing), plan.shape);
        let (tiles, room) = ((5_usize << 20).div_ceil(shape.step.tile()), shape.large.tile() * SINGLE_DIGITS);
        assert!(matches!(plan.way, Way::Buckets { tries_single: true, .. }));
        assert!(at.map >= at.words[1] + 4 * SINGLE_DIGITS * tiles && at.zero >= at.map);
        assert!(at.fixed[1] >= at.fixed[0] + 4 * (room + shape.step.tile()) && room >= plan.n);
        assert!(at.bytes >= at.fixed[1] + 8 * (room + shape.step.tile()));
        assert_eq!((at.keys[1], at.values), (Some(at.fixed[0]), Some(at.fixed[1])));
        let plan = pairs.plan(1 << 17, 0..32, false, &MACHINE);
        let (at, shape) = (plan.layout(missing), plan.shape);
        let Way::Fixed { bits, sample, .. } = plan.way else { panic!() };
        // A digit around heavy keys has one bit more than a bucket's number.
        assert_eq!((bits, sample.digit_bits), (7, 8));
        let room = (shape.bucket.tile() << sample.digit_bits) + shape.fixed.tile();
        let values = room + sample.heavy_room;
        assert!(at.fixed[1] >= at.fixed[0] + 4 * room && at.keys[0].unwrap() >= at.fixed[1] + 8 * values);
        // A part of the map of fixed-capacity buckets is zero before the sort.
        let at = pairs.plan(1 << 20, 0..32, false, &MACHINE).layout(missing);
        assert!(at.map >= at.counts + 4 * BINS && at.zero >= at.map + FIXED_MAP_ZERO);
        assert!(at.fixed[0] >= at.map + FIXED_MAP_BYTES);
    }

    #[test]
    fn memory_for_more_is_enough_for_fewer() {
        // Of 8-byte keys, pairs of 4 and 8 bytes, pairs of 4 bytes, 4-byte keys.
        let most_in_large = [627_245_056, 741_539_840, 1_140_850_688, 1_197_670_400];
        // The same of a single step, and of 8-byte keys and payloads.
        let most_in_single = [4_433_920, 4_029_440, 5_242_880, 8_064_000, 8_468_480];
        let lengths = [1, 100, 5633, 100_000, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 25, 1 << 27, 1 << 28, 1 << 30]
            .into_iter()
            .chain(most_in_large)
            .chain(most_in_single)
            .chain([1 << 32])
            .flat_map(|n| [n, n - 1, n + 1])
            .filter(|&n| n > 0);
        for program in [
            SortProgram::of::<u32, ()>(),
            SortProgram::of::<u32, u32>(),
            SortProgram::of::<u32, u64>(),
            SortProgram::of::<u64, u64>(),
            SortProgram::of::<u64, ()>(),
            SortProgram::of::<u16, ()>(),
            SortProgram::of::<u16, u64>(),
        ] {
            let bits = 0..8 * program.sizes().0 as u32;
            for missing in [[false, false], [false, true], [true, true]] {
                for n in lengths.clone() {
                    let enough = program.scratch_up_to(n, &bits, missing, &MACHINE);
                    let kernels = program.kernels_up_to(n, &bits, &MACHINE);
                    for fewer in lengths.clone().filter(|&fewer| fewer <= n) {
                        for in_place in [false, true] {
                            let plan = program.plan(fewer, bits.clone(), in_place, &MACHINE);
                            assert!(plan.scratch(missing) <= enough, "{fewer} of {n}, {missing:?}");
                            let missed = plan.kernels_to_load().into_iter().find(|kernel| !kernels.contains(kernel));
                            assert_eq!(missed, None, "{fewer} of {n}: {:?}", plan.kernels());
                        }
                    }
                }
            }
        }
    }
}
