//! What the arguments of primitives share: the integers of indices and words of bits, and checks of lengths.

use crate::cpu::{self, compact as host};
use crate::{Element, Error};
use cudarc::driver::DeviceRepr;

mod sealed {
    pub trait Word {
        /// The choice that selects the items whose bit is set.
        fn choice(words: *const Self) -> impl crate::cpu::compact::Choice;
        /// The segments that begin where a bit is set.
        fn heads(words: &[Self]) -> impl crate::cpu::segmented::Heads
        where
            Self: Sized;
    }
}

/// A type of words of selection bits: `u32` or `u64`.
pub trait Word: sealed::Word + Element + DeviceRepr {}
impl sealed::Word for u32 {
    fn choice(words: *const u32) -> impl host::Choice {
        host::ByWords { words }
    }
    fn heads(words: &[u32]) -> impl cpu::segmented::Heads {
        cpu::segmented::ByBits(words)
    }
}
impl sealed::Word for u64 {
    fn choice(words: *const u64) -> impl host::Choice {
        host::ByWords { words }
    }
    fn heads(words: &[u64]) -> impl cpu::segmented::Heads {
        cpu::segmented::ByBits(words)
    }
}
impl Word for u32 {}
impl Word for u64 {}

/// An index type: `u32`, for up to 2^32 items, or `u64`.
#[allow(private_bounds)] // of hidden items, which only this crate can name
pub trait Index: Word + cpu::Offset {
    #[doc(hidden)]
    fn most() -> usize;
}
impl Index for u32 {
    fn most() -> usize {
        usize::try_from(1_u64 << 32).unwrap_or(usize::MAX)
    }
}
impl Index for u64 {
    fn most() -> usize {
        usize::MAX
    }
}

/// # Errors
/// [`Error::Size`].
pub(crate) fn long_enough(
    primitive: &'static str,
    what: &'static str,
    found: usize,
    needed: usize,
) -> Result<(), Error> {
    if found < needed { Err(Error::Size { primitive, what, found, needed }) } else { Ok(()) }
}

/// # Errors
/// [`Error::TooLong`] if indices of the type do not reach the last of `n` items.
pub(super) fn countable<I: Index>(primitive: &'static str, n: usize) -> Result<(), Error> {
    if n > I::most() { Err(Error::TooLong { primitive, n, most: I::most() }) } else { Ok(()) }
}

/// Writes `Clone` and `Copy` of structs of views, whatever the items are.
macro_rules! views { ($($kind:ident<$($generic:ident),*>;)*) => { $(
    impl<$($generic),*> Clone for $kind<'_, $($generic),*> {
        fn clone(&self) -> Self {
            *self
        }
    }
    impl<$($generic),*> Copy for $kind<'_, $($generic),*> {}
)* } }
pub(super) use views;
