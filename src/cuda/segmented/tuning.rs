//! The shapes of the kernels of reduce of runs. Scan by segment has those of scan.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_of_the_lines() {
        let lines = RUNS.iter().map(|line| (line.architecture, line.element, line.ranges[2].shape.warps));
        assert_eq!(lines.collect::<Vec<_>>(), [(75, 1, 4), (75, 2, 6), (75, 16, 8)]);
    }
}
