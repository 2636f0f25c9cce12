//! CUDA C++ written by hand, and the promise of its author.

use crate::__own::is_same;
use crate::Element;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

/// The CUDA C++ of an [`Operator`](crate::Operator) or a [`Predicate`](crate::Predicate) `For` on
/// the element `T`.
///
/// Kernels run the text unchanged. The compiler checks its syntax and types, but nothing checks
/// what it does. So [`new`](DeviceCode::new) is unsafe. A text that [`operator!`](crate::operator)
/// or [`predicate!`](crate::predicate) translates from a Rust body needs no promise.
///
/// A text is safe for certain types of its arguments. So the code of one implementation does not
/// fit another one: another implementation takes its [`text`](DeviceCode::text) and makes a promise
/// of its own.
///
/// # Example
/// ```
/// use parascan::{DeviceCode, Predicate};
///
/// #[derive(Clone, Copy)]
/// struct OddBits;
/// impl Predicate<u32> for OddBits {
///     type Parameters = u8;
///     fn parameters(&self) -> u8 { 0 }
///     fn keeps(&self, x: u32) -> bool { x.count_ones() % 2 == 1 }
///     // SAFETY: an expression that is defined for every `x`, and reads nothing else.
///     const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("__popc(x) & 1") };
/// }
/// ```
pub struct DeviceCode<For, T> {
    text: &'static str,
    of: PhantomData<Of<For, T>>,
}

/// Invariant in both types, so the code of one pair of types never converts to that of another.
type Of<For, T> = fn(For, T) -> (For, T);

impl<For, T> DeviceCode<For, T> {
    /// The body of a function: an expression, or statements that end in a `return`. The constant
    /// that takes the code documents the names of the arguments.
    ///
    /// # Safety
    /// For all values of the arguments' types, including values on which the Rust body panics, the
    /// text
    /// - returns a value that depends only on the arguments, and the same one each time;
    /// - accesses no memory but its arguments and its own local variables, and within their bounds;
    /// - has no undefined behaviour. In C++ that includes overflow of signed integers, shifts by
    ///   the width or more, integer division by zero, casts from a float out of range, and reads of
    ///   a variable that was not initialised;
    /// - has no barrier, warp-wide operation or atomic operation, and does not ask which thread it
    ///   is on;
    /// - ends;
    /// - is one expression or one list of statements: it closes each bracket, comment and literal
    ///   that it opens, closes no other, and has no preprocessor directive.
    ///
    /// Safety does not require the value of the Rust body. `laws` compares the two in a test.
    pub const unsafe fn new(text: &'static str) -> Self {
        DeviceCode { text, of: PhantomData }
    }

    /// The text.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The argument `x`, unchanged.
    // SAFETY: the text is an argument.
    pub(crate) const X: Self = unsafe { DeviceCode::new("x") };
    /// The type for operators that do not combine two elements at once.
    // SAFETY: a type of the templates that does nothing.
    pub(crate) const NO_PAIRS: Self = unsafe { DeviceCode::new("NoPairs") };

    /// The type under which kernels see the element `E`.
    pub(crate) const fn element<E: Element>() -> Self {
        // SAFETY: a type and no function: the C++ twin of `E`, by the promise of its
        // implementation.
        unsafe { DeviceCode::new(E::CUDA) }
    }

    /// The conversion between two types with the same C++ type, which changes nothing.
    ///
    /// # Panics
    /// At compile time, if the C++ types differ: C++ would convert the value.
    pub(crate) const fn same<From: Element, To: Element>() -> Self {
        assert!(
            is_same(From::CUDA, To::CUDA),
            "the carry is not the element's type: CUDA_LIFT and CUDA_LOWER are needed"
        );
        Self::X
    }
}

impl<For, T> Clone for DeviceCode<For, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<For, T> Copy for DeviceCode<For, T> {}
impl<For, T> Debug for DeviceCode<For, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceCode").field(&self.text).finish()
    }
}
