//! The shapes of the kernels of scan and offsets, by architecture, element size and length.

use crate::cuda::tuning::{BLOCK_BYTES, LONG, MIB, RANGES, line};

/// The shape of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Vectors of 16 bytes that a lane owns, an odd number. For elements of one byte it is at most
    /// 15: sums of more could overflow their 16 bits.
    pub(crate) vectors: usize,
}

impl Shape {
    /// Threads of a block.
    pub(crate) const fn threads(self) -> usize {
        self.warps * 32
    }
    /// Elements of a tile.
    pub(crate) const fn tile(self, element_size: usize) -> usize {
        self.threads() * self.vectors * 16 / element_size
    }

    /// The shape for elements of `size` bytes, which need not divide a vector. A group is the
    /// fewest vectors that hold whole elements. A lane owns an odd number of groups, of about
    /// `vectors` vectors. If the warps do not fit shared memory, a block has fewer.
    pub(crate) fn fitted(self, size: usize) -> Shape {
        if 16 % size == 0 {
            return self;
        }
        let (mut common, mut rest) = (size, 16);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        let group = size / common;
        let vectors = group * (self.vectors / (2 * group) * 2 + 1);
        Shape { warps: self.warps.min(BLOCK_BYTES / (32 * 16 * vectors)), vectors }
    }
}

/// A kernel for a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The longest input of the range, in bytes.
    pub(crate) bytes: usize,
    pub(crate) shape: Shape,
    /// Bytes between two tiles' prefixes. The distance spreads the polls of a grid over the L2
    /// cache.
    pub(crate) spread: usize,
}

/// The ranges of an architecture and an element size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The least compute capability of the ranges, as in 90.
    pub(crate) architecture: u32,
    /// The largest element of the ranges, in bytes.
    pub(crate) element: usize,
    pub(crate) ranges: [Range; RANGES],
}

pub(crate) const fn range(bytes: usize, warps: usize, vectors: usize, spread: usize) -> Range {
    Range { bytes, shape: Shape { warps, vectors }, spread }
}

/// The ranges by architecture, newest first, then by element size.
///
/// Each line is a range: the most bytes of input, warps of a block, vectors of a lane, bytes
/// between two prefixes. `cargo bench --bench versus -- --shapes` prints the best lines of a
/// machine.
///
/// NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
pub(crate) const TUNING: &[Tuning] = &[
    Tuning { architecture: 75, element: 1, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 11, 128),
    ] },
    Tuning { architecture: 75, element: 2, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 11, 128),
    ] },
    Tuning { architecture: 75, element: 4, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 13, 128),
    ] },
    Tuning { architecture: 75, element: 16, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 13, 64),
    ] },
];

/// Tiles of a look-back group. The last tile publishes a prefix.
pub(crate) const LOOK_BACK_GROUP: usize = 128;

/// Threads of a textbook's block, a power of two.
pub(crate) const TEXTBOOK_WIDTH: usize = 512;

/// Bytes between two tiles' prefixes with a textbook's blocks.
pub(crate) const TEXTBOOK_SPREAD: usize = 64;

/// Items of `size` bytes in a run of a textbook's thread. A run has about 36 bytes, and an odd
/// number of words or of items, so that the runs of a warp begin in different banks.
pub(crate) const fn textbook_run(size: usize) -> usize {
    match size {
        0 => 1,
        1..=4 => 36 / size,
        5..=8 => 5,
        _ => 3,
    }
}

/// The ranges for an element of `size` bytes, as [`line`] selects them.
pub(crate) fn tuning(table: &[Tuning], architecture: u32, size: usize) -> &[Range; RANGES] {
    &line(table, |line| (line.architecture, line.element), architecture, size).ranges
}

/// The ranges, with shapes that fit the element.
pub(crate) fn fitted(table: &[Tuning], architecture: u32, size: usize) -> [Range; RANGES] {
    tuning(table, architecture, size).map(|range| Range { shape: range.shape.fitted(size), ..range })
}

/// The shape of the kernels that scan an array of carries, in a hierarchical scan.
pub(crate) fn carry_shape(table: &[Tuning], architecture: u32, element: usize, carry: usize) -> Shape {
    tuning(table, architecture, element)[0].shape.fitted(carry)
}

/// The architectures of the table, newest first.
pub(crate) fn architectures(table: &[Tuning]) -> impl Iterator<Item = u32> {
    let is_first = |i: usize| i == 0 || table[i].architecture != table[i - 1].architecture;
    (0..table.len()).filter(move |&i| is_first(i)).map(|i| table[i].architecture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_covers_all() {
        for pair in TUNING.windows(2) {
            let by = |line: &Tuning| (std::cmp::Reverse(line.architecture), line.element);
            assert!(by(&pair[0]) < by(&pair[1]), "{pair:?}");
        }
        for line in TUNING {
            assert!(line.ranges.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{line:?}");
            assert_eq!(line.ranges[RANGES - 1].bytes, LONG, "{line:?}");
            let most = if line.element == 1 { 15 } else { usize::MAX };
            let vectors = line.ranges.map(|range| range.shape.vectors);
            assert!(vectors.iter().all(|&vectors| vectors % 2 == 1 && vectors <= most), "{line:?}");
        }
    }

    #[test]
    fn elements_of_any_size_tile_a_lane() {
        for architecture in architectures(TUNING) {
            for size in 1..=32 {
                for (range, own) in fitted(TUNING, architecture, size).iter().zip(tuning(TUNING, architecture, size)) {
                    let Shape { warps, vectors } = range.shape;
                    assert_eq!(vectors * 16 % size, 0, "{size}: {range:?}");
                    assert!(warps > 0 && (warps * vectors * 512 <= BLOCK_BYTES || range == own), "{size}: {range:?}");
                    assert!(16 % size != 0 || range == own, "{size}: {range:?}");
                    assert!(vectors % 2 == 1 || size == 32, "{size}: {range:?}");
                }
            }
        }
    }

    #[test]
    fn the_newest_that_is_not_newer() {
        let line =
            |architecture, element, bytes| Tuning { architecture, element, ranges: [range(bytes, 8, 3, 0); RANGES] };
        let table = [line(90, 4, 1), line(90, 16, 2), line(80, 8, 3), line(80, 16, 4)];
        for (architecture, size, expected) in
            [(90, 1, 1), (90, 8, 2), (120, 4, 1), (120, 32, 2), (89, 8, 3), (80, 16, 4), (75, 4, 3), (75, 16, 4)]
        {
            assert_eq!(tuning(&table, architecture, size)[0].bytes, expected, "{architecture}, {size} bytes");
        }
        assert_eq!(architectures(&table).collect::<Vec<_>>(), [90, 80]);
    }
}
