//! The shapes of the kernels of reduce, and the blocks of a launch, by architecture, element size
//! and length.

use crate::cuda::scan::tuning::Shape;
use crate::cuda::tuning::{LONG, MIB, line};

/// The number of ranges of lengths. Each range has its own kernel.
pub(crate) const REDUCE_RANGES: usize = 2;

/// A kernel for a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReduceRange {
    /// The longest input of the range, in bytes.
    pub(crate) bytes: usize,
    pub(crate) shape: Shape,
    /// The most blocks of a launch. It is constant, so that the grouping does not depend on the
    /// number of multiprocessors.
    pub(crate) blocks: usize,
}

/// Slices of a warp up to which one block takes the whole input: joining blocks takes longer.
const ALONE: usize = 2;

impl ReduceRange {
    /// The blocks for `slices` slices of a warp. Each block has at least one slice, if there is
    /// one.
    pub(crate) fn blocks(&self, slices: usize) -> usize {
        let warps = self.shape.warps;
        if slices <= ALONE * warps { 1 } else { slices.div_ceil(warps).min(self.blocks) }
    }
}

/// The ranges of an architecture and an element size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceTuning {
    /// The least compute capability of the ranges, as in 90.
    pub(crate) architecture: u32,
    /// The largest element of the ranges, in bytes.
    pub(crate) element: usize,
    pub(crate) ranges: [ReduceRange; REDUCE_RANGES],
}

const fn range(bytes: usize, warps: usize, vectors: usize, blocks: usize) -> ReduceRange {
    ReduceRange { bytes, shape: Shape { warps, vectors }, blocks }
}

/// The ranges by architecture, newest first, then by element size.
///
/// Each line is a range: the most bytes of input, warps of a block, vectors of a lane, the most
/// blocks. The blocks are as many as the 132 multiprocessors of an H200 hold at once, if a carry has up to 8 bytes:
/// five and six each, by the registers of the kernels (`resident` in `reduce/reduce.cuh`).
#[rustfmt::skip]
pub(crate) const REDUCE_TUNING: &[ReduceTuning] = &[
    ReduceTuning { architecture: 75, element: 1, ranges: [
        range(8 * MIB, 8, 3, 660),
        range(LONG, 4, 11, 792),
    ] },
    ReduceTuning { architecture: 75, element: 16, ranges: [
        range(8 * MIB, 8, 3, 660),
        range(LONG, 4, 13, 792),
    ] },
];

/// The ranges for an element of `size` bytes, with shapes that fit it.
pub(crate) fn reduce_ranges(architecture: u32, size: usize) -> [ReduceRange; REDUCE_RANGES] {
    let line = line(REDUCE_TUNING, |line| (line.architecture, line.element), architecture, size);
    line.ranges.map(|range| ReduceRange { shape: range.shape.fitted(size), ..range })
}

/// The same for a reduction by segment: long inputs begin at half the bytes, and of elements of 3 and 4 bytes have
/// shorter slices, for which its kernel does not spill.
///
/// NVIDIA H200, 2026-11-29.
pub(crate) fn segmented_ranges(architecture: u32, size: usize) -> [ReduceRange; REDUCE_RANGES] {
    let [mut short, mut long] = reduce_ranges(architecture, size);
    short.bytes /= 2;
    if matches!(size, 3 | 4) {
        long.shape = Shape { vectors: 9, ..long.shape }.fitted(size);
    }
    [short, long]
}

/// The architectures of the table, newest first.
pub(crate) fn reduce_architectures() -> Vec<u32> {
    let mut all: Vec<u32> = REDUCE_TUNING.iter().map(|line| line.architecture).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_covers_all() {
        for pair in REDUCE_TUNING.windows(2) {
            let by = |line: &ReduceTuning| (std::cmp::Reverse(line.architecture), line.element);
            assert!(by(&pair[0]) < by(&pair[1]), "{pair:?}");
        }
        for line in REDUCE_TUNING {
            assert!(line.ranges.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{line:?}");
            assert_eq!(line.ranges[REDUCE_RANGES - 1].bytes, LONG, "{line:?}");
            let most = if line.element == 1 { 15 } else { usize::MAX };
            for ReduceRange { shape, blocks, .. } in line.ranges {
                assert!(shape.vectors % 2 == 1 && shape.vectors <= most, "{line:?}");
                assert!(shape.warps.is_power_of_two() && shape.warps <= 32 && blocks > 0, "{line:?}");
            }
        }
    }

    #[test]
    fn every_block_has_a_slice() {
        for size in 1..=32 {
            for range in reduce_ranges(90, size) {
                let warps = range.shape.warps;
                for slices in (0..20 * warps).chain([1 << 20, usize::MAX >> 12]) {
                    let blocks = range.blocks(slices);
                    assert!(blocks >= 1 && blocks <= range.blocks, "{slices} of {size}: {blocks}");
                    assert!(slices == 0 || slices > (blocks - 1) * warps, "{slices} of {size}: {blocks}");
                }
            }
        }
    }
}
