//! The texts of the units of scan and reduce by column: an operator on an element, for panels of a matrix and for rows.

use super::tuning::{THREADS, Work, run, widest};
use crate::cuda::reduce::unit::reduce_shapes;
use crate::cuda::scan::tuning::TUNING;
use crate::cuda::scan::unit::{Unit, shapes_by_architecture};
use crate::cuda::unit::UnitKey;

/// The name of the program on panels.
pub(crate) const PANELS: &str = "columns";

/// The key of the unit for panels.
pub(crate) const fn panels_key(unit: &Unit) -> UnitKey {
    unit.key_of(PANELS)
}

/// The text of the unit for panels.
pub(crate) fn panels_source(unit: &Unit) -> String {
    let (size, carry) = (unit.element.size, unit.carry.size);
    let run = run([size, carry]);
    let shape = format!("constexpr u32 THREADS = {THREADS}, RUN = {run}, PANEL = {};\n", widest(size));
    unit.around("columns/columns.cuh", "", &shape, "columns/kernels.cuh")
}

/// The text of the unit for rows of `columns` elements.
pub(crate) fn rows_source(unit: &Unit, work: Work, columns: usize) -> String {
    let row = columns * unit.element.size;
    match work {
        Work::Scan => {
            unit.around_rows(columns, "scan/scan.cuh", &shapes_by_architecture(TUNING, row), "scan/kernels.cuh")
        }
        Work::Reduce => unit.around_rows(columns, "reduce/reduce.cuh", &reduce_shapes(row), "reduce/kernels.cuh"),
    }
}
