//! The common parts of all kernel shapes. Shapes are data in each primitive's `tuning.rs`. Every
//! translation unit gets them as text, so both sides agree.

/// The number of ranges of lengths. Each range has its own kernel.
pub(crate) const RANGES: usize = 3;

pub(crate) const MIB: usize = 1 << 20;
/// The end of the last range.
pub(crate) const LONG: usize = usize::MAX;

/// The shared memory that a block may use without opting in to more.
pub(crate) const BLOCK_BYTES: usize = 44 << 10;

/// The index of the range for an input of `bytes` bytes. `most` gives the longest input of a range.
pub(crate) fn range_of<R>(ranges: &[R], most: impl Fn(&R) -> usize, bytes: usize) -> usize {
    ranges.iter().position(|range| bytes <= most(range)).expect("the last one is for all that are longer")
}

/// The line for an element of `size` bytes, in a table that is sorted by architecture, newest
/// first, then by element: of the newest architecture that is not newer than `architecture`, and
/// there of the smallest element that is not smaller, else of the largest. `by` gives a line's
/// architecture and its largest element.
pub(crate) fn line<L>(table: &[L], by: impl Fn(&L) -> (u32, usize), architecture: u32, size: usize) -> &L {
    let newest = table.iter().map(|line| by(line).0).filter(|&a| a <= architecture).max();
    let newest = newest.or(table.iter().map(|line| by(line).0).min()).expect("the table has lines");
    let mut lines = table.iter().filter(|line| by(line).0 == newest);
    let last = lines.clone().next_back().expect("it is in the table");
    lines.find(|line| size <= by(line).1).unwrap_or(last)
}
