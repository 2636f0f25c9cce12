//! The shapes of the kernels of offsets, by the sizes of both types and by length.

use crate::cuda::scan::tuning::{Range, TUNING, tuning};
use crate::cuda::tuning::{LONG, MIB, RANGES};

/// The shape of a kernel of offsets for a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetsRange {
    /// The longest input of the range, in bytes of the wider of sizes and offsets.
    pub(crate) bytes: usize,
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Vectors of a lane; for sizes narrower than their offsets, rows of a warp.
    pub(crate) each: usize,
    /// As in a scan's `Range`.
    pub(crate) spread: usize,
    /// Items of a tile.
    pub(crate) tile: usize,
}

/// The ranges for sizes narrower than their offsets: bytes of offsets, warps, rows of 1 KiB of
/// offsets, spread. NVIDIA H200, 2026-11-21.
const ROWS: [(usize, usize, usize, usize); RANGES] = [(MIB, 8, 2, 0), (32 * MIB, 8, 8, 0), (LONG, 5, 12, 64)];

/// The ranges for sizes of `size` bytes and offsets of `offset` bytes on an architecture.
pub(crate) fn offsets_ranges(size: usize, offset: usize, architecture: u32) -> [OffsetsRange; RANGES] {
    if size >= offset {
        return tuning(TUNING, architecture, size).map(|Range { bytes, shape, spread }| OffsetsRange {
            bytes,
            warps: shape.warps,
            each: shape.vectors,
            spread,
            tile: shape.tile(size),
        });
    }
    // The sizes of a slice are whole vectors of every lane.
    let in_row = 1024 / offset;
    let step = (512 / (in_row * size)).max(1);
    ROWS.map(|(bytes, warps, rows, spread)| {
        let each = rows.next_multiple_of(step);
        OffsetsRange { bytes, warps, each, spread, tile: warps * each * in_row }
    })
}
