//! The shapes of the kernels of pack and expand.

/// The shape of a kernel that takes segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentTile {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Places of the line of work (`segments/segments.cuh`) that a block takes.
    pub(crate) tile: usize,
    /// How many of them a segment takes besides its outputs.
    pub(crate) cost: usize,
}

/// Packing segments, in bytes, and the way back, in outputs.
pub(crate) const PACK: SegmentTile = SegmentTile { warps: 4, tile: 16384, cost: 32 };
pub(crate) const EXPAND: SegmentTile = SegmentTile { warps: 4, tile: 8192, cost: 8 };
