//! What the host and the kernels of sort share: `sort/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Threads of `sort_count`.
        COUNT_THREADS: u32 = 512;
        /// Threads of `sort_fill`, and keys that each of them writes.
        FILL_THREADS: u32 = 256;
        FILL_ITEMS: u32 = 16;
        /// Threads of `bucket_sample` and `bucket_map`.
        SAMPLE_THREADS: u32 = 512;
        /// Threads of `bucket_count`.
        BUCKET_COUNT_THREADS: u32 = 1024;
    }
}

constants! {
    u32 {
        /// Bits of a digit, and its values.
        DIGIT_BITS: u32 = 8;
        BINS: usize = 1 << DIGIT_BITS;
        /// Digits by few values: one more than the values, each of which has one, as has each
        /// interval between two of them.
        VALUES: usize = BINS / 2;
        /// Blocks of `bucket_map`, at most.
        MAP_BLOCKS: usize = 32;
        /// Counters of each bucket, one for every so many lanes, if there are at most BINS buckets.
        FEW_COPIES: usize = 8;
        /// Words from one of `BucketCall::top_cursors` to the next.
        TOP_APART: usize = 32;
        /// Keys that every block of `slot_first` samples, a thread each.
        LOOKED_AT: usize = 512;
        /// Keys that a block samples for a map of cells, and blocks that do at most.
        CELL_SAMPLE: usize = 1024;
        MOST_CELL_PARTS: usize = 64;
    }
}

shared! {
    /// The arguments of all kernels. Keys come from `keys_in` and end in `keys[0]`; `keys[1]` is
    /// scratch. So do values.
    struct SortCall {
        n: u64 = "u64 n";
        keys_in: Address = "const void *keys_in";
        keys: [Address; 2] = "void *keys[2]";
        values_in: Address = "const void *values_in";
        values: [Address; 2] = "void *values[2]";
        /// `SortPlan`, zero before the sort.
        plan: Address = "void *plan";
        /// Look-back words: one for each digit of each tile of a launch, zero before the sort.
        words: [Address; 2] = "u32 *words[2]";
        /// Bits of a key that are flipped so that unsigned integers have the order of the sort.
        flip: u64 = "u64 flip";
        /// The bits of the ordered key that are sorted by: `begin..end`.
        begin: u32 = "u32 begin";
        end: u32 = "u32 end";
        /// The digits of these bits; one more if keys are in place and their number is odd.
        passes: u32 = "u32 passes";
        /// Whether `keys_in` is `keys[0]`.
        in_place: u32 = "u32 in_place";
        /// Whether a bucket sort or slots come before the passes.
        by_buckets: u32 = "u32 by_buckets";
        /// Whether only the payload is asked for, not the sorted keys.
        no_keys: u32 = "u32 no_keys";
        /// Parts of the keys, of which each is counted by one block at a time.
        parts: u32 = "u32 parts";
        /// Launches of a pass, and tiles of each of them.
        launches: u32 = "u32 launches";
        tiles: u32 = "u32 tiles";
        /// Whether few values take one step in place of all passes.
        looks_for_few: u32 = "u32 looks_for_few";
    }
}

shared! {
    /// What the kernels find out about a sort. A pass whose digit is the same for all keys is
    /// skipped.
    template PASSES struct SortPlanFields {
        /// First the counts of each digit, then where each digit begins.
        starts: [[u64; BINS]; PASSES] = "u64 starts[PASSES][BINS]";
        /// Where digits begin in the next launch, by launches in turn.
        carried: [[u64; BINS]; 2] = "u64 carried[2][BINS]";
        /// Keys of each of few values, and of each interval between two of them.
        of_values: [u32; BINS] = "u32 of_values[BINS]";
        /// The passes that run, in order.
        which: [u32; PASSES] = "u32 which[PASSES]";
        /// How many passes run.
        running: u32 = "u32 running";
        /// Parts whose digits are counted.
        counted: u32 = "u32 counted";
        /// Whether all fields above are final.
        planned: u32 = "u32 planned";
        /// Whether a bucket or a slot overflows, so that passes sort all keys.
        too_large: u32 = "u32 too_large";
        /// The part of the output that buckets leave to passes: its first place, complemented, and
        /// its end; zero if there is none.
        left_turned: u32 = "u32 left_turned";
        left_end: u32 = "u32 left_end";
        /// Whether the values may be few: no pass has more digits.
        may_be_few: u32 = "u32 may_be_few";
        /// Whether there are more values than were found.
        others: u32 = "u32 others";
        /// Parts whose values are counted.
        valued: u32 = "u32 valued";
        /// `SlotRoute`.
        slots_by: u32 = "u32 slots_by";
        /// The ticket of the tiles of `slot_first`.
        slot_ticket: u32 = "u32 slot_ticket";
        /// The ticket of all work of a launch.
        ticket: u32 = "u32 ticket";
        /// Finished tiles of each pass, if all passes are one launch.
        finished: [u32; PASSES] = "u32 finished[PASSES]";
        /// A ticket for each launch if each pass has its own launches, as many as there are; else
        /// the first one is that of `sort_few`.
        tickets: [u32; 1] = "u32 tickets[1]";
    }
}

shared! {
    /// Where a first digit begins: the first of its tiles in the second step, and the first of its
    /// keys.
    struct Begin {
        tile: u32 = "u32 tile";
        key: u32 = "u32 key";
    }
}

shared! {
    /// The arguments of the bucket sort.
    struct BucketCall {
        /// `BucketMap`, zero before the sort.
        map: Address = "void *map";
        /// Keys of each bucket, zero before the sort.
        counts: Address = "u32 *counts";
        /// Keys of each first digit, zero before the sort.
        tops: Address = "u32 *tops";
        /// Where each bucket begins, and the end of the last one; zero before the sort.
        starts: Address = "u32 *starts";
        /// Where the next key of each bucket goes.
        cursors: Address = "u32 *cursors";
        /// Where the next key of each first digit goes, TOP_APART words from one to the next.
        top_cursors: Address = "u32 *top_cursors";
        /// Of each first digit, and of the end.
        begins: Address = "Begin *begins";
        /// The sampled keys, and their number.
        sample: Address = "void *sample";
        sampled: u32 = "u32 sampled";
        /// Bits of a bucket's number after the first digit: as a rule, and of a map of cells that
        /// needs more.
        lower_bits: u32 = "u32 lower_bits";
        most_lower_bits: u32 = "u32 most_lower_bits";
        /// Keys that a block holds.
        room: u32 = "u32 room";
        /// Blocks that run at the same time, about.
        at_once: u32 = "u32 at_once";
    }
}

shared! {
    /// The arguments of the sort by slots.
    struct SlotCall {
        /// Keys of each digit, zero before the sort.
        counts: Address = "u32 *counts";
        /// `room` items for each slot, then those of a tile for what has no place; of values then
        /// `equal_room`.
        keys: Address = "void *keys";
        values: Address = "void *values";
        /// `EqualKeys`.
        equal: Address = "void *equal";
        /// `SlotMap`, zero before the sort.
        map: Address = "void *map";
        /// Bits of a slot's number: by bits or by range each number has a slot.
        bits: u32 = "u32 bits";
        room: u32 = "u32 room";
        /// Of the LOOKED_AT keys that every block samples: how many one slot may have, and how many
        /// all slots together may have beyond that.
        most: u32 = "u32 most";
        beyond: u32 = "u32 beyond";
        /// Intervals between splitters, a slot each: a power of two, or none.
        intervals: u32 = "u32 intervals";
        /// Keys from which splitters are chosen, and how many of them an interval may have.
        sampled: u32 = "u32 sampled";
        most_between: u32 = "u32 most_between";
        /// Room for the payload of all keys of `equal`.
        equal_room: u32 = "u32 equal_room";
        /// Whether splitters fit only a few values, each of which is frequent.
        only_few: u32 = "u32 only_few";
        /// How many of the LOOKED_AT keys may be the only one of their value, if values are few.
        most_once: u32 = "u32 most_once";
        /// Blocks that sample CELL_SAMPLE keys each for a map of cells, which has BINS slots; or
        /// none.
        cell_parts: u32 = "u32 cell_parts";
    }
}

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
        SlotCall::definition(&[SlotCall::layout("SlotCall")]),
    ];
    header("sort", &definitions)
}
