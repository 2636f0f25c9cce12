//! The arguments of scans and reductions, of all items, by segment and by column.

use super::scan::contract::{EXCLUSIVE, INIT, REVERSE};
use cudarc::driver::sys::CUdeviceptr;

/// The arguments of a call, whose launches are in the primitives' folders. Carries are in the form of
/// `Operator::to_cuda`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<C> {
    pub(crate) input: CUdeviceptr,
    pub(crate) output: CUdeviceptr,
    /// The number of items, or of rows by column.
    pub(crate) n: usize,
    /// The address of the number of items, if it lies in memory; `n` is then the most.
    pub(crate) length: Option<CUdeviceptr>,
    /// The value before the first item, of each segment or column: `init`, or the identity of an exclusive
    /// scan. An exclusive scan has one.
    pub(crate) first: Option<C>,
    /// The result of a reduction by column, or of a length in memory, if there are no items.
    pub(crate) empty: Option<C>,
    /// Of a scan; false for a reduction.
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    /// As many bytes as the plan says, zero.
    pub(crate) words: CUdeviceptr,
    /// As many bytes as the plan says.
    pub(crate) scratch: CUdeviceptr,
}

impl<C> Arguments<C> {
    /// The flags of a scan.
    pub(super) fn flags(&self) -> u32 {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        flag(self.exclusive, EXCLUSIVE) | flag(self.reverse, REVERSE) | flag(self.first.is_some(), INIT)
    }
}
