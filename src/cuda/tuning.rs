//! The common parts of all kernel shapes. Shapes are data: each primitive's own are in its folder's
//! `tuning.rs`, and are generated into every translation unit, so both sides agree.

/// Ranges of lengths, each with a kernel of its own.
pub(crate) const RANGES: usize = 3;

pub(crate) const MIB: usize = 1 << 20;
/// The end of the last range.
pub(crate) const LONG: usize = usize::MAX;

/// The shared memory that a block may use without opting in to more.
pub(crate) const BLOCK_BYTES: usize = 44 << 10;
