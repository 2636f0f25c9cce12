//! The text of the unit of scan and reduce by column: an operator on an element, for a matrix in panels.

use crate::cuda::scan::unit::Unit;
use crate::cuda::unit::UnitKey;

/// The program's name.
pub(crate) const PANELS: &str = "columns";

/// Threads of a block.
pub(crate) const THREADS: usize = 128;
/// Bytes of a row of a panel: those that a warp reads at a time, if items have 4 bytes.
const PANEL_BYTES: usize = 128;
/// The fewest columns of a panel. A panel has no fewer, if the matrix has more.
const LEAST_PANEL: usize = 16;
/// Bytes of a thread's run of rows.
const RUN_BYTES: usize = 204;

/// Columns of a panel for elements of `size` bytes, at most.
pub(crate) fn widest(size: usize) -> usize {
    (PANEL_BYTES / size).max(LEAST_PANEL)
}

/// Rows of a thread for elements of `size` bytes: an odd number.
pub(crate) fn run(size: usize) -> usize {
    let run = (RUN_BYTES / size).max(3);
    run - usize::from(run.is_multiple_of(2))
}

/// The key of the unit.
pub(crate) const fn panels_key(unit: &Unit) -> UnitKey {
    unit.key_of(PANELS)
}

/// The text of the unit.
pub(crate) fn panels_source(unit: &Unit) -> String {
    let size = unit.element.size;
    let shape = format!("constexpr u32 THREADS = {THREADS}, RUN = {}, PANEL = {};\n", run(size), widest(size));
    unit.around("columns/columns.cuh", "", &shape, "columns/kernels.cuh")
}
