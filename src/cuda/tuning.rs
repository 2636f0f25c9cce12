//! The common parts of all kernel shapes. Shapes are data in each primitive's `tuning.rs`. Every
//! translation unit gets them as text, so both sides agree.

/// The number of ranges of lengths. Each range has its own kernel.
pub(crate) const RANGES: usize = 3;

pub(crate) const MIB: usize = 1 << 20;
/// The end of the last range.
pub(crate) const LONG: usize = usize::MAX;

/// The shared memory that a block may use without opting in to more.
pub(crate) const BLOCK_BYTES: usize = 44 << 10;
