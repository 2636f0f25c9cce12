//! The contract of sort: `sort/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Threads of `sort_count`.
        COUNT_THREADS: u32 = 512;
        /// Threads of `sort_fill`, and the keys that each thread writes.
        FILL_THREADS: u32 = 256;
        FILL_ITEMS: u32 = 16;
        /// Threads of the kernels in `sort/payload.cuh`, and the items that a warp moves at once.
        PAYLOAD_THREADS: u32 = 256;
        PAYLOAD_ITEMS: u32 = 128;
        /// Threads of `bucket_map`.
        SAMPLE_THREADS: u32 = 512;
        /// Threads of `bucket_count`.
        BUCKET_COUNT_THREADS: u32 = 1024;
    }
}

constants! {
    u32 {
        /// Bits of a digit, and the number of its values.
        DIGIT_BITS: u32 = 8;
        BINS: usize = 1 << DIGIT_BITS;
        /// Values of `SortCall::buckets`.
        NO_BUCKETS: u32 = 0;
        COUNTED_BUCKETS: u32 = 1;
        FIXED_BUCKETS: u32 = 2;
        /// More than the most heavy keys: each has a digit, and so has each part of the map between two
        /// of them.
        HEAVY_SLOTS: usize = BINS / 2;
        /// The most heavy keys of counted buckets, and the counters of each, for different lanes.
        MOST_HEAVY: usize = 120;
        HEAVY_COPIES: usize = 8;
        /// Words between two of `BucketCall::coarse_cursors`.
        CURSOR_STRIDE: usize = 32;
        /// Keys that every block of `fixed_first` probes, one for each thread.
        PROBE_KEYS: usize = 512;
        /// Keys that a block samples for a map of intervals, and the most blocks that sample.
        INTERVAL_SAMPLE: usize = 1024;
        MOST_INTERVAL_PARTS: usize = 64;
        /// The most distinct keys that passes count one by one, and the logarithm of the entries of the hash table
        /// of all blocks.
        MOST_DISTINCT: usize = 1000;
        LOG_DISTINCT: u32 = 11;
        /// Bits of a bucket's number in a single step, and the number of its buckets.
        SINGLE_BITS: u32 = DIGIT_BITS + 1;
        SINGLE_DIGITS: usize = 1 << SINGLE_BITS;
    }
}

shared! {
    /// The arguments of all kernels. Keys come from `keys_in` and end in `keys[0]`; `keys[1]` is
    /// scratch. The same holds for values.
    struct SortCall {
        n: u64 = "u64 n";
        keys_in: Address = "const void *keys_in";
        keys: [Address; 2] = "void *keys[2]";
        values_in: Address = "const void *values_in";
        values: [Address; 2] = "void *values[2]";
        /// `SortPlan`, zero before the sort.
        plan: Address = "void *plan";
        /// `DistinctKeys`, zero before the sort; null if the sort does not count these.
        distinct: Address = "void *distinct";
        /// Look-back words: one for each digit of each tile of a round, zero before the sort.
        words: [Address; 2] = "u32 *words[2]";
        /// The bits of a key that the kernels flip, so that unsigned integers have the order of the
        /// sort.
        flip: u64 = "u64 flip";
        /// The compared bits of the ordered key: `begin..end`.
        begin: u32 = "u32 begin";
        end: u32 = "u32 end";
        /// The digits of these bits; one more if keys are in place and their number is odd.
        passes: u32 = "u32 passes";
        /// Whether `keys_in` is `keys[0]`.
        in_place: u32 = "u32 in_place";
        /// The buckets before the passes: NO_BUCKETS, COUNTED_BUCKETS or FIXED_BUCKETS.
        buckets: u32 = "u32 buckets";
        /// Whether the sort writes only the payload, not the sorted keys.
        no_keys: u32 = "u32 no_keys";
        /// Parts of the keys; a block counts one part at a time.
        parts: u32 = "u32 parts";
        /// The most tiles of a round of a pass.
        tiles: u32 = "u32 tiles";
    }
}

shared! {
    /// The plan that the kernels make. Kernels skip a pass whose digit is the same for all keys.
    template PASSES struct SortPlanFields {
        /// First the histogram of each digit, of the keys or of their ranks, then its exclusive scan. In an
        /// unordered first pass: where the next key of the digit goes.
        starts: [[u64; BINS]; PASSES] = "u64 starts[PASSES][BINS]";
        /// The first index of each digit in the next round, alternating between rounds.
        carried: [[u64; BINS]; 2] = "u64 carried[2][BINS]";
        /// The passes that run, in order.
        which: [u32; PASSES] = "u32 which[PASSES]";
        /// The number of passes that run.
        running: u32 = "u32 running";
        /// Parts whose digits are counted.
        counted: u32 = "u32 counted";
        /// Whether the passes may begin: the histograms are scanned, and `which` and `running` are final.
        planned: u32 = "u32 planned";
        /// Whether passes sort all keys: a bucket overflows, no map fits, the probe promises none, or the keys have few
        /// digits.
        too_large: u32 = "u32 too_large";
        /// The range of the output that the buckets leave to passes: its first index, complemented,
        /// and its end; zero without such a range.
        left_first_inverted: u32 = "u32 left_first_inverted";
        left_end: u32 = "u32 left_end";
        /// A value of `FixedFunction`.
        fixed_function: u32 = "u32 fixed_function";
        /// The ticket of the tiles of `fixed_first`.
        fixed_ticket: u32 = "u32 fixed_ticket";
        /// The ticket for all work of the passes.
        ticket: u32 = "u32 ticket";
        /// Finished tiles of all passes.
        finished: u32 = "u32 finished";
    }
}

shared! {
    /// The begin of a first digit: its first tile in the second scatter step, and its first key.
    struct Begin {
        tile: u32 = "u32 tile";
        key: u32 = "u32 key";
    }
}

shared! {
    /// The arguments of the steps to buckets, counted or of fixed capacity.
    struct BucketCall {
        /// `BucketMap`, zero before the sort; or `FixedMap`, whose first `FIXED_MAP_ZERO` bytes are.
        map: Address = "void *map";
        /// The number of keys of each bucket, zero before the sort.
        counts: Address = "u32 *counts";
        /// The capacity of a block's bucket.
        room: u32 = "u32 room";
        /// The seed of the positions that samples read, by `sample_seed`.
        seed: u32 = "u32 seed";

        // Counted buckets:
        /// The number of keys of each first digit, zero before the sort.
        coarse_counts: Address = "u32 *coarse_counts";
        /// The first index of each bucket, and the end of the last one; zero before the sort.
        starts: Address = "u32 *starts";
        /// The index of the next key of each bucket.
        cursors: Address = "u32 *cursors";
        /// The index of the next key of each first digit, CURSOR_STRIDE words apart.
        coarse_cursors: Address = "u32 *coarse_cursors";
        /// A `Begin` for each first digit, and one for the end.
        begins: Address = "Begin *begins";
        /// The sampled keys, and their number.
        sample: Address = "void *sample";
        sampled: u32 = "u32 sampled";
        /// Bits of a bucket's number after the first digit: the normal number, and the one for a
        /// map around heavy keys that needs more.
        lower_bits: u32 = "u32 lower_bits";
        most_lower_bits: u32 = "u32 most_lower_bits";
        /// The approximate number of blocks that run at once.
        at_once: u32 = "u32 at_once";

        // Fixed-capacity buckets:
        /// `room` items for each bucket, then a tile's room for keys without a bucket. The array of
        /// values ends with `heavy_room` more.
        keys: Address = "void *keys";
        values: Address = "void *values";
        /// Bits of a bucket's number by the first bits or by range, and of a digit around heavy keys;
        /// both SINGLE_BITS in a single step, 0 in a call of counted buckets.
        bits: u32 = "u32 bits";
        digit_bits: u32 = "u32 digit_bits";
        /// The limits of the probe: the most of the PROBE_KEYS probed keys that one bucket may have,
        /// and the most that all buckets together may have beyond that. A single step has them for
        /// BINS parts of its buckets.
        most: u32 = "u32 most";
        beyond: u32 = "u32 beyond";
        /// Parts of INTERVAL_SAMPLE keys each that blocks sample for a map of intervals; 0 if each
        /// block makes the map for itself.
        interval_parts: u32 = "u32 interval_parts";
        /// Room for the payload of all heavy keys.
        heavy_room: u32 = "u32 heavy_room";
    }
}

shared! {
    /// The arguments of the kernels in `sort/payload.cuh`.
    struct PayloadCall {
        /// The number of items; the most, unless `length` is null, where their number lies then.
        n: u64 = "u64 n";
        length: Address = "const u64 *length";
        items: Address = "const void *items";
        output: Address = "void *output";
        /// Words that stand for the items, or the source index of each item of the output.
        words: Address = "void *words";
        item_bytes: u32 = "u32 item_bytes";
        word_bytes: u32 = "u32 word_bytes";
        /// Bytes that a lane moves at once: a power of two of which the item's size and the addresses of items and
        /// output are multiples, up to 16 in a gather, else up to 4.
        unit: u32 = "u32 unit";
    }
}

// The compiler passes structs of more bytes through local memory to functions that it does not inline.
const _: () = assert!(size_of::<SortCall>() <= 128 && size_of::<BucketCall>() <= 128);

/// The text of `sort/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    let plans = [
        SortPlanFields::<2>::layout("SortPlanFields<2>"),
        SortPlanFields::<3>::layout("SortPlanFields<3>"),
        SortPlanFields::<5>::layout("SortPlanFields<5>"),
        SortPlanFields::<9>::layout("SortPlanFields<9>"),
    ];
    let definitions = [
        enumerators(),
        variables(),
        SortCall::definition(&[SortCall::layout("SortCall")]),
        SortPlanFields::<0>::definition(&plans),
        Begin::definition(&[Begin::layout("Begin")]),
        BucketCall::definition(&[BucketCall::layout("BucketCall")]),
        PayloadCall::definition(&[PayloadCall::layout("PayloadCall")]),
    ];
    header("sort", &definitions)
}
