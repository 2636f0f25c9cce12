//! CUDA C++ that was written by hand, and what its author promises.

use crate::__own::is_same;
use crate::Element;
use std::fmt::{self, Debug};
use std::marker::PhantomData;

/// CUDA C++ of an [`Operator`](crate::Operator) or a [`Predicate`](crate::Predicate) `For` on the element `T`.
///
/// Kernels run it as it stands. The compiler checks that it is C++, and nothing checks what it does, so [`new`](DeviceCode::new) is
/// unsafe. A text that [`operator!`](crate::operator) or [`predicate!`](crate::predicate) makes of a Rust body needs no promise.
///
/// A text is safe or not for certain types of its arguments. So the code of one implementation does not fit another one: it is taken
/// over as [`text`](DeviceCode::text), with a promise of its own.
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

/// Invariant, so that no other pair of types is taken for this one.
type Of<For, T> = fn(For, T) -> (For, T);

impl<For, T> DeviceCode<For, T> {
    /// The body of a function: an expression, or statements, the last of which is a `return`. The constant that it is given to says
    /// what the function's arguments are called.
    ///
    /// # Safety
    /// For all values of the arguments' types, not only for those that the Rust body takes, the text
    /// - returns a value that depends on the arguments alone, the same one each time;
    /// - accesses no memory but its arguments and its own local variables, and within their bounds;
    /// - has no undefined behaviour. In C++ that includes overflow of signed integers, shifts by the width or more, integer division
    ///   by zero, casts from a float out of range, and reads of a variable that was not initialised;
    /// - has no barrier, warp-wide operation or atomic operation, and does not ask which thread it is on;
    /// - ends;
    /// - is one expression or one list of statements: it closes each bracket, comment and literal that it opens, and no other, and
    ///   has no preprocessor directive.
    ///
    /// That the value is also that of the Rust body is not a matter of safety. `laws` checks it in a test.
    pub const unsafe fn new(text: &'static str) -> Self {
        DeviceCode { text, of: PhantomData }
    }

    /// The text.
    pub const fn text(self) -> &'static str {
        self.text
    }

    /// The argument `x` as it is.
    // SAFETY: an argument.
    pub(crate) const X: Self = unsafe { DeviceCode::new("x") };
    /// No way to combine two elements at once.
    // SAFETY: a type of the templates that does nothing.
    pub(crate) const NO_PAIRS: Self = unsafe { DeviceCode::new("NoPairs") };

    /// The type under which kernels see the element `E`.
    pub(crate) const fn element<E: Element>() -> Self {
        // SAFETY: no function but a type, which is the twin of `E` as its implementation promises.
        unsafe { DeviceCode::new(E::CUDA) }
    }

    /// A conversion that changes nothing.
    ///
    /// # Panics
    /// At compile time, if the two types are different ones in C++, which would convert between them.
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
