//! Calls of the engine, made for one of the pairs of operator and element whose machine code is the same.
//!
//! A sum of `i64` is that of `u64`, bit for bit, and `Last` only moves elements. So the engine is
//! compiled once for them: [`Operator::on_host`] names the pair.

use crate::{Element, Operator};

/// A call, with addresses and carries of the types that its caller has. `Op` and `T` may be others
/// of the same sizes and alignments.
pub trait Call {
    /// The call's result.
    type Output;
    /// Makes the call.
    fn run<Op: Operator<T>, T: Element>(self) -> Self::Output;
}

/// The same bits as a carry of the other pair.
pub(super) fn same<A: Element, B: Element>(carry: Option<A>) -> Option<B> {
    carry.map(bytemuck::cast)
}

/// The size of elements of which only the bits matter, if an integer has it and the alignment; else 0.
pub(crate) const fn integer<T>() -> usize {
    if size_of::<T>() == align_of::<T>() { size_of::<T>() } else { 0 }
}
