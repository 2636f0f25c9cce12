//! What the shapes of all primitives share. A shape is tuning as data: each primitive's own are in
//! its folder's `tuning.rs`, and are generated into every translation unit, so that both sides
//! agree.

/// Ranges of lengths, each with a kernel of its own.
pub(crate) const RANGES: usize = 3;

pub(crate) const MIB: usize = 1 << 20;
/// The end of the last range.
pub(crate) const LONG: usize = usize::MAX;

/// What a block may use of the shared memory without asking for more.
pub(crate) const BLOCK_BYTES: usize = 44 << 10;
