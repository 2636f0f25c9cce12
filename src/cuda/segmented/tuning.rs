//! The shapes of the kernels of reduce of runs and of short inputs. Scan by segment has those of scan, reduce
//! by segment those of reduce.

use super::contract::SHORT_INPUT_THREADS;
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

#[cfg(test)]
mod tests {
    use super::*;

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
