//! The shapes of the kernels of pack and expand.

/// The shape of a kernel of pack or expand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentTile {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Units of work of a tile (`segments/segments.cuh`).
    pub(crate) tile: usize,
    /// Units of work of a segment, besides one for each unit of output.
    pub(crate) cost: usize,
}

/// The shapes of pack, whose output is counted in bytes, and of expand.
pub(crate) const PACK: SegmentTile = SegmentTile { warps: 4, tile: 16384, cost: 32 };
pub(crate) const EXPAND: SegmentTile = SegmentTile { warps: 4, tile: 8192, cost: 8 };
