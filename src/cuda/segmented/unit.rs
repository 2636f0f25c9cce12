//! The texts of the units of scan and reduce by segment: an operator on an element.

use super::tuning::{each_chunk, runs, short_items};
use crate::cuda::contract::asserted_status;
use crate::cuda::reduce::tuning::segmented_ranges;
use crate::cuda::reduce::unit::shapes;
use crate::cuda::scan::tuning::TUNING;
use crate::cuda::scan::unit::{Unit, shapes_by_architecture};
use crate::cuda::unit::UnitKey;

/// Bytes of a `Headed<Operator>::Carry`: a carry and a word.
pub(super) const fn headed_bytes(carry: usize, align: usize) -> usize {
    (carry.next_multiple_of(4) + 4).next_multiple_of(if align > 4 { align } else { 4 })
}

/// Bytes of a `Counted<Operator>::Carry`: a carry and a number.
pub(super) const fn counted_bytes(carry: usize, align: usize) -> usize {
    (carry.next_multiple_of(8) + 8).next_multiple_of(if align > 8 { align } else { 8 })
}

/// The most bytes of a `Share`: two carries, each with a flag, and a number.
pub(super) const fn share_bytes(carry: usize) -> usize {
    2 * (carry.next_multiple_of(16) + 16) + 16
}

/// The key of the unit of scan by segment.
pub(crate) const fn segmented_scan_key(unit: &Unit) -> UnitKey {
    unit.key_of("segmented scan")
}

/// The key of the unit of reduce of runs.
pub(crate) const fn run_reduce_key(unit: &Unit) -> UnitKey {
    unit.key_of("reduce of runs")
}

/// The key of the unit of reduce by segment.
pub(crate) const fn segmented_reduce_key(unit: &Unit) -> UnitKey {
    unit.key_of("segmented reduce")
}

/// The text of the unit of scan by segment.
pub(crate) fn segmented_scan_source(unit: &Unit) -> String {
    let shapes = shapes_by_architecture(TUNING, unit.element.size);
    let shapes = shapes + &short(unit) + &each(unit);
    let status = asserted_status("Headed<Operator>::Carry", headed_bytes(unit.carry.size, unit.carry.align));
    unit.around("segmented/scan.cuh", &shapes, &status, "segmented/scan_kernels.cuh")
}

/// The text of the unit of reduce of runs.
pub(crate) fn run_reduce_source(unit: &Unit) -> String {
    let counted = counted_bytes(unit.carry.size, unit.carry.align);
    let shapes = shapes_by_architecture(runs(counted), unit.element.size);
    let status = asserted_status("Counted<Operator>::Carry", counted);
    unit.around("segmented/runs.cuh", &shapes, &status, "segmented/run_kernels.cuh")
}

/// The text of the unit of reduce by segment.
pub(crate) fn segmented_reduce_source(unit: &Unit) -> String {
    let bytes = share_bytes(unit.carry.size);
    let room =
        format!("static_assert(sizeof(Share<Operator>) <= {bytes}, \"the host allots {bytes} bytes for a share\");\n");
    let shapes = shapes(unit.element.size, segmented_ranges) + &short(unit) + &each(unit);
    unit.around("segmented/reduce.cuh", &shapes, &room, "segmented/reduce_kernels.cuh")
}

/// The shape of the kernels of short inputs.
fn short(unit: &Unit) -> String {
    format!("constexpr u32 SHORT_ITEMS = {};\n", short_items(unit.element.size))
}

/// The shape of the kernels that take each segment alone.
fn each(unit: &Unit) -> String {
    format!("constexpr u32 EACH_CHUNK = {};\n", each_chunk(unit.element.size))
}
