//! The shapes of the kernels of reduce of runs. Scan by segment has those of scan.

use crate::cuda::scan::tuning::{Tuning, range};
use crate::cuda::tuning::{LONG, MIB};

/// As the table of scan. A reduction reads and hardly writes, so the same bytes need tiles that are joined
/// twice as fast; larger ones are fewer.
///
/// NVIDIA H200, 2026-11-26.
#[rustfmt::skip]
pub(crate) const RUNS: &[Tuning] = &[
    Tuning { architecture: 75, element: 1, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 11, 128),
    ] },
    Tuning { architecture: 75, element: 2, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 6, 11, 128),
    ] },
    Tuning { architecture: 75, element: 16, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 8, 11, 128),
    ] },
];
