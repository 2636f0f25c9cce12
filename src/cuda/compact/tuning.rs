//! The shapes of the kernels of compaction and partition, by item size and length.

use crate::cuda::tuning::{BLOCK_BYTES, LONG, MIB, RANGES, range_of};

/// The shape of a kernel of compaction for a range of lengths.
#[derive(Clone, Copy, Debug)]
struct CompactRange {
    /// The longest input of the range, in bytes of its widest column.
    bytes: usize,
    /// Warps of a block.
    warps: usize,
    /// Approximate bytes of a warp's slice of the widest column.
    slice: usize,
    /// As in a scan's `Range`.
    spread: usize,
}

const fn compact_range(bytes: usize, warps: usize, slice: usize, spread: usize) -> CompactRange {
    CompactRange { bytes, warps, slice, spread }
}

/// The ranges of compaction, and of partitions into two or three parts, whose lanes hold all their
/// items of a slice. NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
const COMPACT: [CompactRange; RANGES] = [
    compact_range(MIB / 2, 8, 2048, 0),
    compact_range(8 * MIB, 8, 4096, 0),
    compact_range(LONG, 6, 4096, 128),
];
#[rustfmt::skip]
const PARTITION: [CompactRange; RANGES] = [
    compact_range(MIB / 2, 8, 1024, 0),
    compact_range(8 * MIB, 8, 2048, 0),
    compact_range(LONG, 5, 3072, 128),
];
/// The ranges of partitions into one buffer by one cooperative launch. NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
const COOPERATIVE: [CompactRange; RANGES] = [
    compact_range(MIB, 8, 1024, 0),
    compact_range(4 * MIB, 8, 2048, 0),
    compact_range(LONG, 8, 4096, 0),
];
/// The second launch of longer partitions into one buffer.
const MOVE: CompactRange = compact_range(LONG, 4, 4096, 0);
/// The first launch: warps of a block, and the least number of bits that a warp counts.
pub(crate) const COUNT_WARPS: usize = 8;
const COUNT_BITS: usize = 8 * 4096;

/// The shape of a kernel of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactShape {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Rows of 32 items that a warp takes.
    pub(crate) rows: usize,
    /// Bytes from one tile's prefix to the next.
    pub(crate) spread: usize,
}

impl CompactShape {
    /// The shape for columns of `sizes` bytes.
    fn of(sizes: &[usize], parts: usize, range: CompactRange) -> CompactShape {
        let size = widest(sizes);
        let CompactRange { warps, slice, spread, .. } = range;
        // In every column a lane's slice is whole vectors and whole steps.
        let is_whole = |step: &usize| sizes.iter().all(|size| (step * size).is_multiple_of(16));
        let step = [4, 8, 16].into_iter().find(is_whole).expect("16 of anything are");
        let rows = (slice / (32 * size) / step * step).max(step);
        let held = 32 * rows * size + 16 * (parts - 1) + 16 + 128;
        CompactShape { warps: warps.min(BLOCK_BYTES / held), rows, spread }
    }

    /// Items of a tile.
    pub(crate) fn tile(self) -> usize {
        self.warps * self.rows * 32
    }
}

/// Bytes of an item of the widest column.
fn widest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(1)
}

/// The shapes of the kernels of compaction for columns of `sizes` bytes.
pub(crate) fn compact_shapes(sizes: &[usize], parts: usize) -> [CompactShape; RANGES] {
    compact_ranges(parts).map(|range| CompactShape::of(sizes, parts, range))
}

/// The shapes of a partition into one buffer by one cooperative launch.
pub(crate) fn cooperative_shapes(sizes: &[usize], parts: usize) -> [CompactShape; RANGES] {
    COOPERATIVE.map(|range| CompactShape::of(sizes, parts, range))
}

/// The range of a cooperative launch for `n` items.
pub(crate) fn cooperative_range_of(sizes: &[usize], n: usize) -> usize {
    range_of(&COOPERATIVE, |range| range.bytes, n.saturating_mul(widest(sizes)))
}

/// The shape of the launch that moves the items of a longer partition.
pub(crate) fn move_shape(sizes: &[usize], parts: usize) -> CompactShape {
    CompactShape::of(sizes, parts, MOVE)
}

/// The number of its tiles that a warp of the first launch counts, if the choice reads `bits` bits
/// for an item.
pub(crate) fn count_each(shape: CompactShape, bits: usize) -> usize {
    COUNT_BITS.div_ceil(shape.tile() * bits).min(16)
}

fn compact_ranges(parts: usize) -> &'static [CompactRange; RANGES] {
    if parts == 1 { &COMPACT } else { &PARTITION }
}

/// The longest input of a range, in items.
pub(crate) fn compact_longest(sizes: &[usize], parts: usize, range: usize) -> usize {
    compact_ranges(parts)[range].bytes / widest(sizes)
}

/// The range of a compaction for `n` items.
pub(crate) fn compact_range_of(sizes: &[usize], parts: usize, n: usize) -> usize {
    range_of(compact_ranges(parts), |range| range.bytes, n.saturating_mul(widest(sizes)))
}
