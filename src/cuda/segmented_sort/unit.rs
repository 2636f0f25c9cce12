//! The text of a unit of sort by segment.

use super::tuning::{SMALL_WARPS, SegmentGroup, SegmentShape, segment_shape};
use crate::cuda::sort::tuning::SORT_ARCHITECTURES;
use crate::cuda::sort::unit::SortUnit;
use crate::cuda::unit::{UnitKey, by_architecture};

/// The kernels of `segmented_sort/kernels.cuh`.
pub(crate) const KERNELS: [&str; 9] = [
    "segment_heads",
    "segment_partition",
    "segment_sort_small",
    "segment_sort_short",
    "segment_sort_medium",
    "segment_partition_by_bits",
    "segment_sort_small_by_bits",
    "segment_sort_short_by_bits",
    "segment_sort_medium_by_bits",
];

/// The key of the unit for the keys and the payload of `unit`.
pub(crate) const fn segmented_sort_key(unit: &SortUnit) -> UnitKey {
    unit.key_of("segmented sort")
}

/// The text of the unit for the keys and the payload of `unit`.
pub(crate) fn segmented_sort_source(unit: &SortUnit) -> String {
    unit.around(
        &by_architecture(SORT_ARCHITECTURES, |architecture| {
            let SegmentShape { small, short, medium, sort } =
                segment_shape(unit.key, unit.payload, architecture);
            // By all bits, and by some.
            let shared = |group: SegmentGroup| format!("{{{}, {}}}", group.shared[0], group.shared[1]);
            format!(
                "constexpr u32 SMALL_ITEMS = {}, SMALL_CHUNK = {}, SMALL_WARPS = {SMALL_WARPS}, SMALL_BLOCKS = {}, SMALL_SHARED[] = {};\n\
                 constexpr u32 SHORT_THREADS = {}, SHORT_ITEMS = {}, CHUNK = {}, SHORT_BLOCKS = {}, SHORT_SHARED[] = {};\n\
                 constexpr u32 MEDIUM_THREADS = {}, MEDIUM_ITEMS = {}, MEDIUM_CHUNK = {}, MEDIUM_SHARED[] = {};\n\
                 constexpr u32 PASS_THREADS = {}, PASS_ITEMS = {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n",
                small.items,
                small.chunk,
                small.blocks,
                shared(small),
                short.threads,
                short.items,
                short.chunk,
                short.blocks,
                shared(short),
                medium.threads,
                medium.items,
                medium.chunk,
                shared(medium),
                sort.step.threads,
                sort.step.items,
                sort.step.blocks,
                sort.step_shared(),
            )
        }),
        "segmented_sort/kernels.cuh",
    )
}
