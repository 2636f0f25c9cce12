//! The shapes of the kernels of reduce of runs, of rows and of short inputs. Scan by segment has those of scan, reduce
//! by segment `segmented_ranges` of reduce.

use super::contract::{ROW_WARPS, SHORT_INPUT_THREADS};
use crate::cuda::scan::tuning::{TUNING, Tuning, range};
use crate::cuda::tuning::LONG;

/// The table of scan with larger tiles of long inputs, but for elements of one byte. A reduction reads and
/// hardly writes, so for the same bytes tiles are joined twice as fast; larger ones are fewer.
///
/// NVIDIA H200, 2026-11-26.
pub(crate) const RUNS: &[Tuning] = &[TUNING[0], with_long_tiles(6, TUNING[1]), with_long_tiles(8, TUNING[3])];

const fn with_long_tiles(warps: usize, of_scan: Tuning) -> Tuning {
    let [short, middle, _] = of_scan.ranges;
    Tuning { ranges: [short, middle, range(LONG, warps, 11, 128)], ..of_scan }
}

/// Elements of `size` bytes that a thread of the kernels of short inputs owns.
pub(crate) const fn short_items(size: usize) -> usize {
    match size {
        0..=4 => 4,
        5..=8 => 2,
        _ => 1,
    }
}

/// Elements of `size` bytes in a tile of these kernels.
pub(crate) const fn short_tile(size: usize) -> usize {
    SHORT_INPUT_THREADS as usize * short_items(size)
}

/// Whether `n` items in so many segments are short. A tile reads the items before it in its segment, so the
/// number of tiles and the mean length of a segment are limited. With one segment of half of all items a call of
/// `f32` takes 0.94 of the time of the other kernels for 32 tiles, 1.2 for 64 and 1.7 for 128.
///
/// NVIDIA H200, 2026-11-26.
pub(crate) const fn is_short(n: usize, segments: usize, tile: usize) -> bool {
    const MOST_TILES: usize = 128;
    const MEAN_TILES: usize = 8;
    n <= tile || n <= MOST_TILES * tile && n <= segments.saturating_mul(MEAN_TILES * tile)
}

/// A launch of the kernel of rows: blocks, warps of a block, and as in `RowShares` warps of a row and rows of a
/// warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowGrid {
    pub(crate) blocks: u32,
    pub(crate) warps: u32,
    pub(crate) parts: u32,
    pub(crate) of_warp: u32,
}

/// Elements of `size` bytes that a warp of the kernel of rows copies to shared memory at once: of a lane up to 144
/// bytes, an odd number of vectors, or of elements that tile none.
pub(crate) const fn row_chunk(size: usize) -> usize {
    let of_unit = if 16_usize.is_multiple_of(size) { 16 / size } else { 1 };
    32 * ((144 / (of_unit * size) - 1) | 1) * of_unit
}

impl RowGrid {
    /// The launch for rows of so many elements of `size` bytes, if the kernel takes them. A row has a warp for
    /// each 4 KiB, up to a block. Shorter rows leave lanes idle, so the kernel takes few of them, except for those
    /// of at most 64 bytes: a lane folds each, and a warp a multiple of 32, so that its rows begin a vector if the
    /// first row does. Of long rows
    /// the kernel takes enough for all multiprocessors. Rows that begin inside a vector are copied element by
    /// element, which is slow for elements of 1 and 2 bytes.
    ///
    /// NVIDIA H200, 2026-11-27.
    pub(crate) fn of(rows: usize, columns: usize, size: usize) -> Option<RowGrid> {
        const KIB: usize = 1 << 10;
        let bytes = columns.saturating_mul(size);
        if rows > 0 && size >= 4 && (1..=64).contains(&bytes) {
            let of_warp = row_chunk(size) / (columns * 32) * 32;
            let blocks = rows.div_ceil(of_warp * ROW_WARPS as usize);
            return Some(RowGrid { blocks: blocks as u32, warps: ROW_WARPS, parts: 1, of_warp: of_warp as u32 });
        }
        let shortest = if rows <= 8192 { KIB / 2 } else { 2 * KIB };
        let longest = if rows < 64 { 128 * KIB } else { 256 * KIB };
        if rows == 0 || !(shortest..=longest).contains(&bytes) || size < 4 && !bytes.is_multiple_of(16) {
            return None;
        }
        let parts = bytes.div_ceil(4 * KIB).min(ROW_WARPS as usize);
        let of_block = ROW_WARPS as usize / parts; // rows
        let (blocks, warps) = (rows.div_ceil(of_block) as u32, (of_block * parts) as u32);
        Some(RowGrid { blocks, warps, parts: parts as u32, of_warp: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let parts = |rows, bytes: usize| RowGrid::of(rows, bytes / 4, 4).map(|grid| grid.parts);
        let of_warp = |rows, bytes: usize| RowGrid::of(rows, bytes / 4, 4).map(|grid| grid.of_warp);
        assert_eq!(RowGrid::of(9, 1 << 10, 4), Some(RowGrid { blocks: 2, warps: 8, parts: 1, of_warp: 1 }));
        assert_eq!(RowGrid::of(9, (2 << 10) + 1, 4), Some(RowGrid { blocks: 5, warps: 6, parts: 3, of_warp: 1 }));
        assert_eq!(
            [of_warp(9, 4), of_warp(9, 64), of_warp(8193, 68), of_warp(0, 4)],
            [Some(1152), Some(64), None, None]
        );
        assert_eq!(RowGrid::of(8 * 288 + 1, 4, 4), Some(RowGrid { blocks: 2, warps: 8, parts: 1, of_warp: 288 }));
        assert_eq!([row_chunk(4), row_chunk(16), row_chunk(12), row_chunk(32)], [1152, 288, 352, 96]);
        assert_eq!([parts(0, 4096), parts(1, 508), parts(8193, 2044), parts(63, (128 << 10) + 4)], [None; 4]);
        assert_eq!([parts(8192, 512), parts(8193, 2048), parts(64, 256 << 10)], [Some(1), Some(1), Some(8)]);
        assert_eq!([RowGrid::of(9, 1001, 2), RowGrid::of(9, usize::MAX, 4)], [None; 2]);
        assert!(RowGrid::of(9, 1000, 2).is_some());
    }

    #[test]
    fn short_inputs() {
        let tile = short_tile(4);
        assert!(is_short(1, 1, tile) && is_short(tile, 0, tile), "one tile, whatever its segments");
        assert!(is_short(128 * tile, 16, tile) && !is_short(128 * tile, 15, tile), "a mean of eight tiles");
        assert!(!is_short(128 * tile + 1, usize::MAX, tile), "128 tiles");
        for size in 1..=32 {
            assert!(short_items(size).is_power_of_two() && 128 * short_tile(size) * size <= 512 << 10, "{size}");
        }
    }

    #[test]
    fn the_elements_of_the_lines() {
        let lines = RUNS.iter().map(|line| (line.architecture, line.element, line.ranges[2].shape.warps));
        assert_eq!(lines.collect::<Vec<_>>(), [(75, 1, 4), (75, 2, 6), (75, 16, 8)]);
    }
}
