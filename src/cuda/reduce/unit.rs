//! The text of a unit of reduce: an operator on an element.

use super::tuning::{REDUCE_RANGES, ReduceRange, reduce_architectures, reduce_ranges};
use crate::cuda::scan::unit::Unit;
use crate::cuda::unit::{UnitKey, by_architecture};

/// The key of the unit of an operator on an element.
pub(crate) const fn reduce_key(unit: &Unit) -> UnitKey {
    unit.key_of("reduce")
}

/// The text of the unit of an operator on an element.
pub(crate) fn reduce_source(unit: &Unit) -> String {
    unit.around("reduce/reduce.cuh", &reduce_shapes(unit.element.size), "", "reduce/kernels.cuh")
}

/// Bytes of `FirstOf::Carry` of `reduce/position.cuh`, at most: an index and a carry.
pub(crate) const POSITION_CARRY_BYTES: usize = 16;

/// The key of the unit that finds the position of an operator's result.
pub(crate) const fn position_key(unit: &Unit) -> UnitKey {
    unit.key_of("position")
}

/// The text of the unit that finds the position of an operator's result.
pub(crate) fn position_source(unit: &Unit) -> String {
    let shapes =
        format!("enum {{ POSITION_CARRY_BYTES = {POSITION_CARRY_BYTES} }};\n{}", reduce_shapes(unit.element.size));
    unit.around("reduce/reduce.cuh", &shapes, "", "reduce/position.cuh")
}

/// The shapes for an element of `size` bytes, by the target architecture.
pub(crate) fn reduce_shapes(size: usize) -> String {
    shapes(size, reduce_ranges)
}

/// The same for ranges of another table.
pub(crate) fn shapes(size: usize, ranges: fn(u32, usize) -> [ReduceRange; REDUCE_RANGES]) -> String {
    by_architecture(reduce_architectures(), |architecture| {
        let kernel =
            |(k, range): (usize, &ReduceRange)| format!(" KERNEL({k}, {}, {})", range.shape.warps, range.shape.vectors);
        let ranges = ranges(architecture, size);
        format!("#define RANGES(KERNEL){}\n", ranges.iter().enumerate().map(kernel).collect::<String>())
    })
}
