//! Which items compaction, unique and partition select.

use super::arguments::{Word, long_enough, views};
use crate::cpu::compact as host;
use crate::cuda::{BitsKind, ChoiceKind, ColumnKind, DistinctKind, FlagsKind, Payload, PredicateKind, Staged};
use crate::memory::{Buffer, View};
use crate::{Element, Error, Ordered, Place, Predicate};
use bytemuck::Pod;
use std::marker::PhantomData;

/// The builder does not say yet which items are selected.
#[derive(Clone, Copy, Debug)]
pub struct Unchosen;

/// Selects the items that satisfy a predicate.
#[derive(Clone, Copy, Debug)]
pub struct ByPredicate<P>(pub(super) P);

/// Selects the items whose flag is not zero.
pub struct ByFlags<'a, L>(pub(super) View<'a, u8>, pub(super) PhantomData<L>);

/// Selects the items whose bit is set.
pub struct ByBits<'a, W, L>(pub(super) View<'a, W>, pub(super) PhantomData<L>);

views! { ByFlags<L>; ByBits<W, L>; }

/// Selects the items that differ from the item before them.
#[derive(Clone, Copy, Debug)]
pub struct Changes;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;
impl<P> Sealed for ByPredicate<P> {}
impl<L> Sealed for ByFlags<'_, L> {}
impl<W, L> Sealed for ByBits<'_, W, L> {}
impl Sealed for Changes {}

/// The way in which a builder selects items `T` in memory `L`, set by `keep`, `discard`, `flags` or
/// `bits`.
#[diagnostic::on_unimplemented(
    message = "this builder does not say which items `{T}` in `{L}` memory it selects",
    label = "call `.keep()`, `.discard()`, `.flags()` or `.bits()` before",
    note = "flags and bits must lie where the items do"
)]
#[allow(private_bounds)] // of hidden items, which only this crate can name
pub trait Chosen<T: Pod, L: Place>: Sealed {
    #[doc(hidden)]
    type Kind: ChoiceKind;
    /// The column kind of the items.
    #[doc(hidden)]
    type Items: ColumnKind;
    #[doc(hidden)]
    type Parameters: Element;
    #[doc(hidden)]
    fn parameters(&self) -> Self::Parameters;
    #[doc(hidden)]
    fn is_complement(&self) -> bool {
        false
    }
    /// Returns the flags or words of bits that select `n` items, if the choice has any.
    ///
    /// # Errors
    /// [`Error::Size`] if they are too short.
    #[doc(hidden)]
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error>;

    /// The same choice for the CPU engine, which reads it while this borrow lasts.
    ///
    /// # Safety
    /// `items` has as many items as `selectors` was called with, and that call succeeded.
    #[doc(hidden)]
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice;
}

impl<T: Element, P: Predicate<T>, L: Place> Chosen<T, L> for ByPredicate<P> {
    type Kind = PredicateKind<T, P>;
    type Items = Staged;
    type Parameters = P::Parameters;
    fn parameters(&self) -> P::Parameters {
        self.0.parameters()
    }
    fn is_complement(&self) -> bool {
        self.0.is_complement()
    }
    fn selectors(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        let predicate = self.0;
        host::ByPredicate { items, keeps: move |x| predicate.keeps(x) }
    }
}

impl<T: Ordered, L: Place> Chosen<T, L> for Changes {
    type Kind = DistinctKind<T>;
    type Items = Staged;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, _: &'static str, _: usize) -> Result<Option<&dyn Buffer>, Error> {
        Ok(None)
    }
    unsafe fn on_host(&self, items: *const T) -> impl host::Choice {
        host::Distinct { items }
    }
}

impl<T: Pod, L: Place> Chosen<T, L> for ByFlags<'_, L> {
    type Kind = FlagsKind;
    type Items = Payload<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the flags", self.0.len(), n)?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        host::ByFlags { flags: self.0.host().as_ptr() }
    }
}

impl<T: Pod, L: Place, W: Word> Chosen<T, L> for ByBits<'_, W, L> {
    type Kind = BitsKind;
    type Items = Payload<T>;
    type Parameters = u8;
    fn parameters(&self) -> u8 {
        0
    }
    fn selectors(&self, primitive: &'static str, n: usize) -> Result<Option<&dyn Buffer>, Error> {
        long_enough(primitive, "the bits, in words,", self.0.len(), n.div_ceil(8 * size_of::<W>()))?;
        Ok(Some(&self.0))
    }
    unsafe fn on_host(&self, _: *const T) -> impl host::Choice {
        W::choice(self.0.host().as_ptr())
    }
}

// ---- options of compact and partition

/// Writes the options that select items for a builder `$builder<T, C, S>`, which has a field
/// `complement` and a method `with` that sets the choice.
macro_rules! choice_methods {
    ($builder:ident) => {
        impl<T: Pod, S> $builder<T, Unchosen, S> {
            /// Selects the items that satisfy the predicate.
            pub fn keep<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<P>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(predicate))
            }

            /// Selects the items that do not satisfy the predicate.
            pub fn discard<P: Predicate<T>>(self, predicate: P) -> $builder<T, ByPredicate<Not<P>>, S>
            where
                T: Element,
            {
                self.with(ByPredicate(Not(predicate)))
            }

            /// Selects the items whose flag, a byte, is not zero.
            ///
            /// Flags and items lie in the same memory, host or device.
            pub fn flags<'f, F: Source<u8> + ?Sized>(self, flags: &'f F) -> $builder<T, ByFlags<'f, F::Place>, S> {
                self.with(ByFlags(flags.view(), PhantomData))
            }

            /// Selects the items whose bit is set.
            ///
            /// Bits are in `u32` or `u64` words, the least significant bit first, as in Arrow's
            /// validity bitmaps. Words and items lie in the same memory, host or device. Bits past
            /// the last item are ignored.
            pub fn bits<'f, W: Word, F: Source<W> + ?Sized>(
                self,
                words: &'f F,
            ) -> $builder<T, ByBits<'f, W, F::Place>, S> {
                self.with(ByBits(words.view(), PhantomData))
            }
        }

        impl<T: Pod, C, S> $builder<T, C, S> {
            /// Selects the items that would be rejected, and rejects the others.
            pub fn complement(mut self) -> Self {
                self.complement = !self.complement;
                self
            }
        }
    };
}
pub(super) use choice_methods;
