//! Operators: they combine two partial results into one.

use crate::DeviceCode;
use crate::cpu::{Call, integer};
use crate::element::{Element, Keyed, Widened};
use half::{bf16, f16};
use num_traits::{ConstOne, ConstZero};

/// The associativity of an operator: exact or up to rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Associativity {
    /// Bit for bit: every grouping of the operands has the same result.
    Exact,
    /// Up to rounding: another grouping may round differently. Primitives then group by length and
    /// the types of element and carry only, never by timing or the number of threads, so results
    /// have the same bits in every run.
    Rounding,
}

/// The one or two vector instructions that compute `combine`, for carries that are machine
/// integers.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// No such instruction, or none that pays.
    No,
    Add,
    And,
    Or,
    Xor,
    Max {
        signed: bool,
    },
    Min {
        signed: bool,
    },
}

/// An operator whose result is one of its operands: [`Max`] and [`Min`]. Its result has a
/// [position](crate::Reduce::position) among the items. That is unspecified where an [`Operator`] of your own for one
/// of them returns neither operand.
pub trait Extremum: sealed::Sealed {}
impl Extremum for Max {}
impl Extremum for Min {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Max {}
    impl Sealed for super::Min {}
}

/// An associative operator on `T`.
///
/// Partial results have the type [`Carry`](Operator::Carry): `lift` converts an element to a carry,
/// `lower` a carry to an element. The operator need not be commutative: the first argument of
/// `combine` is always the earlier one in scan order. The arguments of `combine` are only lifted
/// inputs, the initial value, and results of `combine`.
///
/// [`operator!`](crate::operator) implements it in fewer lines and without `unsafe`.
///
/// # Example
/// ```
/// use parascan::{DeviceCode, Operator, scan};
///
/// #[derive(Clone, Copy)]
/// struct Gcd;
/// impl Operator<u32> for Gcd {
///     type Carry = u32;
///     fn lift(x: u32) -> u32 { x }
///     fn lower(x: u32) -> u32 { x }
///     fn combine(mut a: u32, mut b: u32) -> u32 {
///         while b != 0 { (a, b) = (b, a % b) }
///         a
///     }
///     const IDENTITY: Option<u32> = Some(0);
///     // SAFETY: it ends, since b shrinks, and divides by nothing but a b that is not zero.
///     const CUDA: DeviceCode<Self, u32> =
///         unsafe { DeviceCode::new("while (b) { unsigned t = a % b; a = b; b = t; } return a;") };
/// }
/// assert_eq!(scan::<Gcd, u32>().run(&[12, 18, 27])?, [12, 6, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the operator `{Self}` is not defined for `{T}`",
    label = "no `{Self}` for `{T}`",
    note = "bitwise operators take integers only; for an operator of your own, write `parascan::operator!` or implement `parascan::Operator<{T}>`"
)]
pub trait Operator<T: Element>: Copy + Send + Sync + 'static {
    /// The type of partial results: `f32` for sums of `f16`, the element for most operators.
    type Carry: Element;
    /// The partial result of a single element.
    fn lift(x: T) -> Self::Carry;
    /// The element of a partial result, rounded once if the carry is wider.
    fn lower(x: Self::Carry) -> T;
    /// The partial result of both arguments. `earlier` comes before `later` in scan order.
    fn combine(earlier: Self::Carry, later: Self::Carry) -> Self::Carry;
    /// A carry that is neutral on both sides, if there is one.
    const IDENTITY: Option<Self::Carry> = None;
    /// Whether `combine` is associative bit for bit or up to rounding.
    const ASSOCIATIVITY: Associativity = Associativity::Exact;
    /// `combine` in C++, over carries `a` (earlier) and `b` (later): an expression, or statements
    /// that end in a `return`. `Element` and `Carry` name the two types.
    const CUDA: DeviceCode<Self, T>;
    /// `lift` in C++ over an element `x`, in the same form. May be left out if the carry is
    /// the element's type.
    const CUDA_LIFT: DeviceCode<Self, T> = DeviceCode::same::<T, Self::Carry>();
    /// `lower` in C++ over a carry `x`, in the same form. May be left out if the carry is
    /// the element's type.
    const CUDA_LOWER: DeviceCode<Self, T> = DeviceCode::same::<Self::Carry, T>();
    /// The vector instructions that compute `combine`, if one or two do; such an operator has an
    /// identity. A wrong instruction only gives wrong results: carries of 1, 2, 4 or 8 bytes are
    /// taken as integers, and other sizes panic.
    #[doc(hidden)]
    const LANES: Lanes = Lanes::No;
    /// Whether `lift` and `combine` are few instructions for any arguments. The CPU engine may then call them for
    /// results that it does not use.
    #[doc(hidden)]
    const IS_CHEAP: bool = false;
    /// The type under which kernels see the element.
    #[doc(hidden)]
    const CUDA_ELEMENT: DeviceCode<Self, T> = DeviceCode::element::<T>();
    /// The type under which kernels see the carry, of the same size.
    #[doc(hidden)]
    const CUDA_CARRY: DeviceCode<Self, T> = DeviceCode::element::<Self::Carry>();
    /// The bits under which kernels see a partial result. Any bits are a carry, so wrong ones only
    /// give wrong results.
    #[doc(hidden)]
    #[inline(always)]
    fn to_cuda(carry: Self::Carry) -> Self::Carry {
        carry
    }
    /// The inverse of `to_cuda`.
    #[doc(hidden)]
    #[inline(always)]
    fn from_cuda(carry: Self::Carry) -> Self::Carry {
        carry
    }
    /// The partial result of a single element, as a C++ expression over the lifted element `x`.
    #[doc(hidden)]
    const CUDA_ALONE: DeviceCode<Self, T> = DeviceCode::X;
    /// The type of `scan/scan.cuh` by which kernels combine two short elements at once, or
    /// `NoPairs`.
    #[doc(hidden)]
    const CUDA_PAIRS: DeviceCode<Self, T> = DeviceCode::NO_PAIRS;
    /// Makes a call of the CPU engine for this operator and element, or for a pair of the same machine
    /// code: elements and carries have the same sizes and alignments, and results the same bits.
    #[doc(hidden)]
    #[inline(always)]
    fn on_host<C: Call>(call: C) -> C::Output {
        call.run::<Self, T>()
    }
}

/// The carry type of a form, and its conversions.
macro_rules! form {
    (carry Same $t:ty) => {
        $t
    };
    (carry Bits $t:ty) => {
        $t
    };
    (carry Widened $t:ty) => {
        f32
    };
    (carry NanLast $t:ty) => {
        <$t as Keyed>::Key
    };
    (carry KeyNanLast $t:ty) => {
        <$t as Keyed>::Key
    };
    (carry NanFirst $t:ty) => {
        <$t as Keyed>::Key
    };
    (carry KeyNanFirst $t:ty) => {
        <$t as Keyed>::Key
    };
    (lift Same $x:ident) => {
        $x
    };
    (lift Bits $x:ident) => {
        $x
    };
    (lift Widened $x:ident) => {
        Widened::widen($x)
    };
    (lift NanLast $x:ident) => {
        Keyed::key_nan_last($x)
    };
    (lift KeyNanLast $x:ident) => {
        Keyed::key_nan_last($x)
    };
    (lift NanFirst $x:ident) => {
        Keyed::key_nan_first($x)
    };
    (lift KeyNanFirst $x:ident) => {
        Keyed::key_nan_first($x)
    };
    (lower Same $x:ident) => {
        $x
    };
    (lower Bits $x:ident) => {
        $x
    };
    (lower Widened $x:ident) => {
        Widened::narrow($x)
    };
    (lower NanLast $x:ident) => {
        Keyed::from_key_nan_last($x)
    };
    (lower KeyNanLast $x:ident) => {
        Keyed::from_key_nan_last($x)
    };
    (lower NanFirst $x:ident) => {
        Keyed::from_key_nan_first($x)
    };
    (lower KeyNanFirst $x:ident) => {
        Keyed::from_key_nan_first($x)
    };
    (cuda_element Bits $t:ty) => {
        <$t as Element>::CUDA_BITS
    };
    (cuda_element $form:ident $t:ty) => {
        <$t as Element>::CUDA
    };
    (cuda_carry Bits $t:ty) => {
        <$t as Element>::CUDA_BITS
    };
    (cuda_carry NanLast $t:ty) => {
        <$t as Element>::CUDA
    };
    (cuda_carry NanFirst $t:ty) => {
        <$t as Element>::CUDA
    };
    (cuda_carry $form:ident $t:ty) => {
        <form!(carry $form $t) as Element>::CUDA
    };
    (to_cuda NanLast $t:ty, $x:ident) => {
        bytemuck::cast(<$t as Keyed>::from_key_nan_last($x))
    };
    (to_cuda NanFirst $t:ty, $x:ident) => {
        bytemuck::cast(<$t as Keyed>::from_key_nan_first($x))
    };
    (from_cuda NanLast $t:ty, $x:ident) => {
        Keyed::key_nan_last(bytemuck::cast::<_, $t>($x))
    };
    (from_cuda NanFirst $t:ty, $x:ident) => {
        Keyed::key_nan_first(bytemuck::cast::<_, $t>($x))
    };
    ($direction:ident $form:ident $t:ty, $x:ident) => {
        $x
    };
}

/// Makes a call for the pair whose machine code that of a row's operator and element is.
macro_rules! on_host {
    (Bits $t:ident, $call:ident) => {
        // A constant, so that one of them is compiled.
        match const { integer::<$t>() } {
            1 => $call.run::<Self, u8>(),
            2 => $call.run::<Self, u16>(),
            4 => $call.run::<Self, u32>(),
            8 => $call.run::<Self, u64>(),
            _ => $call.run::<Self, $t>(),
        }
    };
    (Same usize, $call:ident) => {
        $call.run::<Self, u64>()
    };
    (Same isize, $call:ident) => {
        $call.run::<Self, i64>()
    };
    ($form:ident $t:ident, $call:ident) => {
        $call.run::<Self, $t>()
    };
}

/// The vector instructions of a row. An operator that is not named here has none.
macro_rules! lanes {
    (Sum Exact $form:ident $t:ident) => {
        Lanes::Add
    };
    (BitAnd Exact $form:ident $t:ident) => {
        Lanes::And
    };
    (BitOr Exact $form:ident $t:ident) => {
        Lanes::Or
    };
    (BitXor Exact $form:ident $t:ident) => {
        Lanes::Xor
    };
    (Max Exact Same $t:ident) => {
        Lanes::Max { signed: $t::MIN != 0 }
    };
    (Min Exact Same $t:ident) => {
        Lanes::Min { signed: $t::MIN != 0 }
    };
    (Max Exact NanLast $t:ident) => {
        Lanes::Max { signed: true }
    };
    (Max Exact KeyNanLast $t:ident) => {
        Lanes::Max { signed: true }
    };
    (Min Exact NanFirst $t:ident) => {
        Lanes::Min { signed: true }
    };
    (Min Exact KeyNanFirst $t:ident) => {
        Lanes::Min { signed: true }
    };
    ($op:ident $associativity:ident $form:ident $t:ident) => {
        Lanes::No
    };
}

macro_rules! operators {
    (elements $elements:tt operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $op;
        $( operators!(@row ($($generic)?) [$($t),*] { $op $associativity $form ($($identity)?) |$a, $b| $rust, $cuda }); )*
    )* };
    (@row () [$($t:ident),*] $row:tt) => { $( operators!(@impl [] $t $row); )* };
    (@row (any) [$($t:ident),*] $row:tt) => { operators!(@impl [X: Element] X $row); };
    (@impl [$($generics:tt)*] $t:ident { $op:ident $associativity:ident $form:ident ($($identity:expr)?) |$a:ident, $b:ident| $rust:expr, $cuda:literal }) => {
        impl<$($generics)*> Operator<$t> for $op {
            type Carry = form!(carry $form $t);
            #[inline(always)]
            fn lift(x: $t) -> Self::Carry { form!(lift $form x) }
            #[inline(always)]
            fn lower(x: Self::Carry) -> $t { form!(lower $form x) }
            #[inline(always)]
            fn combine($a: Self::Carry, $b: Self::Carry) -> Self::Carry { $rust }
            $( const IDENTITY: Option<Self::Carry> = {
                #[allow(dead_code)]
                type T = $t;
                #[allow(dead_code)]
                type C = form!(carry $form $t);
                Some($identity)
            }; )?
            const ASSOCIATIVITY: Associativity = Associativity::$associativity;
            const LANES: Lanes = lanes!($op $associativity $form $t);
            // A wider carry is a conversion, which may be a call.
            const IS_CHEAP: bool = size_of::<$t>() <= 8 && size_of::<$t>() == size_of::<Self::Carry>();
            // SAFETY: each text is one operation or one function of the templates on its arguments.
            // The form of a row carries integers that may overflow as unsigned ones.
            const CUDA: DeviceCode<Self, $t> = unsafe { DeviceCode::new($cuda) };
            // SAFETY: as for `CUDA`.
            const CUDA_LIFT: DeviceCode<Self, $t> = unsafe { DeviceCode::new(lift!($form)) };
            // SAFETY: as for `CUDA`.
            const CUDA_LOWER: DeviceCode<Self, $t> = unsafe { DeviceCode::new(lower!($form)) };
            // SAFETY: the type has the element's size, and the texts of the form expect it.
            const CUDA_ELEMENT: DeviceCode<Self, $t> = unsafe { DeviceCode::new(form!(cuda_element $form $t)) };
            // SAFETY: the type has the carry's size, and the texts of the form expect it.
            const CUDA_CARRY: DeviceCode<Self, $t> = unsafe { DeviceCode::new(form!(cuda_carry $form $t)) };
            #[inline(always)]
            fn to_cuda(carry: Self::Carry) -> Self::Carry { form!(to_cuda $form $t, carry) }
            #[inline(always)]
            fn from_cuda(carry: Self::Carry) -> Self::Carry { form!(from_cuda $form $t, carry) }
            // SAFETY: as for `CUDA`.
            const CUDA_ALONE: DeviceCode<Self, $t> = unsafe { DeviceCode::new(alone!($form)) };
            // SAFETY: the type is the templates' for this operator on elements of this size.
            const CUDA_PAIRS: DeviceCode<Self, $t> = unsafe { DeviceCode::new(pairs!($op $t)) };
            #[inline(always)]
            fn on_host<H: Call>(call: H) -> H::Output { on_host!($form $t, call) }
        }
    };
}
catalog!(operators);

/// A carry of another type than the element needs both conversions:
///
/// ```
/// use parascan::{DeviceCode, Operator, cudarc::driver::CudaSlice, scan};
///
/// #[derive(Clone, Copy)]
/// struct Whole;
/// impl Operator<f32> for Whole {
///     type Carry = i32;
///     fn lift(x: f32) -> i32 {
///         x as i32
///     }
///     fn lower(x: i32) -> f32 {
///         x as f32
///     }
///     fn combine(a: i32, b: i32) -> i32 {
///         a.max(b)
///     }
///     // SAFETY: a maximum.
///     const CUDA: DeviceCode<Self, f32> = unsafe { DeviceCode::new("max(a, b)") };
///     // SAFETY: an instruction that rounds and saturates.
///     const CUDA_LIFT: DeviceCode<Self, f32> = unsafe { DeviceCode::new("__float2int_rz(x)") };
///     // SAFETY: an instruction that rounds.
///     const CUDA_LOWER: DeviceCode<Self, f32> = unsafe { DeviceCode::new("__int2float_rn(x)") };
/// }
///
/// fn highest(x: &CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error> {
///     scan::<Whole, f32>().run(x)
/// }
///
/// fn main() {
///     let _ = highest as fn(&CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error>;
/// }
/// ```
///
/// Without them the program is not built:
///
/// ```compile_fail,E0080
/// use parascan::{DeviceCode, Operator, cudarc::driver::CudaSlice, scan};
///
/// #[derive(Clone, Copy)]
/// struct Whole;
/// impl Operator<f32> for Whole {
///     type Carry = i32;
///     fn lift(x: f32) -> i32 {
///         x as i32
///     }
///     fn lower(x: i32) -> f32 {
///         x as f32
///     }
///     fn combine(a: i32, b: i32) -> i32 {
///         a.max(b)
///     }
///     // SAFETY: a maximum.
///     const CUDA: DeviceCode<Self, f32> = unsafe { DeviceCode::new("max(a, b)") };
/// }
///
/// fn highest(x: &CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error> {
///     scan::<Whole, f32>().run(x)
/// }
///
/// fn main() {
///     let _ = highest as fn(&CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error>;
/// }
/// ```
#[cfg(doctest)]
struct CarryWithoutItsConversions;
