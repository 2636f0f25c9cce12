//! The contract of sort by segment: `segmented_sort/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Threads of `segment_heads`, and chunks of its blocks.
        HEAD_THREADS: u32 = 256;
        HEAD_CHUNKS: u32 = 8;
        /// The most partition steps: one a digit, which has at least 4 bits, and one for equal keys.
        LEVELS: u32 = 17;
        /// Bytes of `PartitionPlan` and of `LongSegment`.
        PARTITION_PLAN_BYTES: u32 = 576;
        LONG_SEGMENT_BYTES: u32 = 2096;
    }
}

shared! {
    /// The arguments of all kernels. Keys come from `keys_in` and end in `keys[0]`; `keys[1]` is
    /// scratch. The same holds for values.
    struct SegmentSortCall {
        n: u64 = "u64 n";
        keys_in: Address = "const void *keys_in";
        keys: [Address; 2] = "void *keys[2]";
        /// Null if the payload is the source indices.
        values_in: Address = "const void *values_in";
        values: [Address; 2] = "void *values[2]";
        /// A bit for each item, and one for item n: whether a segment begins there.
        heads: Address = "u32 *heads";
        /// A bit for each item: whether a segment begins there whose keys lie in this array of `keys`.
        moved: [Address; 2] = "u32 *moved[2]";
        /// A word for each chunk of items: its first and last head.
        chunks: Address = "u32 *chunks";
        /// The chunks with short segments, and those with medium ones.
        listed: [Address; 2] = "u32 *listed[2]";
        /// `PartitionPlan`, zero before the sort.
        plan: Address = "void *plan";
        /// Long segments of even and odd steps, and the segment of each of their tiles.
        segments: [Address; 2] = "void *segments[2]";
        segment_of_tile: [Address; 2] = "u32 *segment_of_tile[2]";
        /// Look-back words: one for each digit of each tile.
        words: Address = "u64 *words";
        /// The bits of a key that the kernels flip, so that unsigned integers have the order of the
        /// sort.
        flip: u64 = "u64 flip";
        /// The compared bits of the ordered key: `begin..end`.
        begin: u32 = "u32 begin";
        end: u32 = "u32 end";
        /// Whether `keys_in` is `keys[0]`.
        in_place: u32 = "u32 in_place";
        /// Whether the sort writes only the payload, not the sorted keys.
        no_keys: u32 = "u32 no_keys";
        /// Whether source indices count from the begin of the segment.
        local_indices: u32 = "u32 local_indices";
        /// Whether a segment may be long, so that `segment_partition` runs and lists chunks.
        may_be_long: u32 = "u32 may_be_long";
        /// The most items of a segment that is not long.
        longest: u32 = "u32 longest";
        /// The items of a row, if segments are rows that are short or medium. Then there are no head bits.
        columns: u32 = "u32 columns";
    }
}

/// The text of `segmented_sort/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header(
        "segmented_sort",
        &[enumerators(), SegmentSortCall::definition(&[SegmentSortCall::layout("SegmentSortCall")])],
    )
}
