//! Element types: the types that a primitive reads and writes.

use crate::__own::is_same;
use crate::cuda::{Field, Type};
use bytemuck::Pod;
use half::{bf16, f16};

/// A value that can be scanned: plain data with a C++ twin.
///
/// On the host a thread keeps some dozens of elements on its stack, so that elements of up to 8 KiB fit one of
/// 2 MiB. On the device an element has 1 to 32 bytes and an alignment of at most 16. There sizes of 1, 2, 4, 8
/// and 16 bytes are the fastest, then multiples of 4; other sizes take many instructions.
///
/// [`element!`](crate::element) implements it for a struct of your own, with checks.
///
/// Implemented for `f32`, `f64`, `f16`, `bf16`, `i8` to `i64`, `u8` to `u64`, `usize` and `isize`.
///
/// # Safety
/// [`CUDA`](Element::CUDA) must name or define a C++ type and do nothing else. The type has the
/// same size, alignment and layout, and any bits are a value of it. Leave the hidden constants at
/// their defaults.
///
/// # Example
/// ```
/// /// x -> a x + b
/// #[repr(C)]
/// #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
/// struct Affine { a: f32, b: f32 }
/// // SAFETY: two floats in the same order on both sides.
/// unsafe impl parascan::Element for Affine { const CUDA: &'static str = "struct { float a, b; }"; }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of parascan",
    label = "not an `Element`",
    note = "elements are f32, f64, f16, bf16, i8 to i64, u8 to u64, usize, isize; for a struct of your own, `parascan::element!`"
)]
pub unsafe trait Element: Pod + Send + Sync {
    /// The C++ type: a name, or the definition of an unnamed struct.
    const CUDA: &'static str;
    /// A C++ type of the same size and alignment. Operators to which only the bits matter use it,
    /// so elements of one size share kernels.
    #[doc(hidden)]
    const CUDA_BITS: &'static str = Self::CUDA;
    /// The fields of a struct, if they are known.
    #[doc(hidden)]
    const CUDA_FIELDS: &'static [Field] = &[];
}

impl Type<'static> {
    /// The type under which kernels see `T`, with the fields of `T` if `cuda` is its own C++ type.
    pub(crate) const fn of<T: Element>(cuda: &'static str) -> Type<'static> {
        let fields = if is_same(cuda, T::CUDA) { T::CUDA_FIELDS } else { &[] };
        Type { cuda, size: size_of::<T>(), align: align_of::<T>(), fields }
    }
}

/// Floats as integer keys in the same order, for operators that compare.
///
/// `-0 < +0`, and NaN is at the end that the operator asks for. A maximum of keys is associative
/// bit for bit; a maximum of floats is not. The key of every NaN converts back to the positive NaN
/// with all bits of the mantissa set, which a GPU's own maximum gives too.
///
/// ```
/// use parascan::Keyed;
/// assert!((-0.0_f32).key_nan_last() < 0.0_f32.key_nan_last());
/// assert!(f32::INFINITY.key_nan_last() < f32::NAN.key_nan_last());
/// assert!(f32::NAN.key_nan_first() < f32::NEG_INFINITY.key_nan_first());
/// assert_eq!(f32::from_key_nan_last(1.5_f32.key_nan_last()), 1.5);
/// ```
pub trait Keyed: Sized {
    /// A signed integer of the float's size.
    type Key: Element;
    /// The key of -infinity.
    const LEAST_KEY: Self::Key;
    /// The key of +infinity.
    const GREATEST_KEY: Self::Key;
    /// The key in an order with every NaN above +infinity.
    fn key_nan_last(self) -> Self::Key;
    /// The key in an order with every NaN below -infinity.
    fn key_nan_first(self) -> Self::Key;
    /// The inverse of `key_nan_last`.
    fn from_key_nan_last(key: Self::Key) -> Self;
    /// The inverse of `key_nan_first`.
    fn from_key_nan_first(key: Self::Key) -> Self;
}

macro_rules! keyed {
    ($($float:ident $key:ident;)*) => { $(
        impl Keyed for $float {
            type Key = $key;
            // A negative float has its magnitude bits flipped, so a larger magnitude is a lower
            // key.
            const LEAST_KEY: $key = $float::NEG_INFINITY.to_bits() as $key ^ $key::MAX;
            const GREATEST_KEY: $key = $float::INFINITY.to_bits() as $key;
            #[inline(always)]
            fn key_nan_last(self) -> $key {
                let bits = self.to_bits() as $key;
                if self.is_nan() { $key::MAX } else { bits ^ ((bits >> ($key::BITS - 1)) & $key::MAX) }
            }
            #[inline(always)]
            fn key_nan_first(self) -> $key {
                if self.is_nan() { $key::MIN } else { self.key_nan_last() }
            }
            #[inline(always)]
            fn from_key_nan_last(key: $key) -> $float {
                // The key of all NaNs gives the positive one with all bits of the mantissa set.
                $float::from_bits((key ^ ((key >> ($key::BITS - 1)) & $key::MAX)) as _)
            }
            #[inline(always)]
            fn from_key_nan_first(key: $key) -> $float {
                Self::from_key_nan_last(if key == $key::MIN { $key::MAX } else { key })
            }
        }
    )* };
}
keyed! { f32 i32; f64 i64; f16 i16; bf16 i16; }

/// Elements whose sums are carried in `f32`.
pub(crate) trait Widened {
    /// The same value in `f32`, exactly.
    fn widen(self) -> f32;
    /// The nearest value, ties to even.
    fn narrow(x: f32) -> Self;
}
macro_rules! widened {
    ($($t:ident $widen:path;)*) => { $(
        impl Widened for $t {
            #[inline(always)]
            fn widen(self) -> f32 { $widen(self) }
            #[inline(always)]
            fn narrow(x: f32) -> $t { $t::from_f32(x) }
        }
    )* };
}
widened! { f16 widen_f16; bf16 bf16::to_f32; }

/// `f16::to_f32` without a branch, so that a loop over items becomes vector instructions. After
/// Giesen (2012, "Float->half and half->float conversions").
#[inline(always)]
fn widen_f16(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    // The exponent and the mantissa in their places of an f32, whose exponent is 112 too low. The
    // product is exact, for subnormal numbers too.
    let scaled = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let infinite_or_nan = if bits & 0x7c00 == 0x7c00 { 0xff << 23 } else { 0 };
    f32::from_bits(scaled.to_bits() | infinite_or_nan | (bits & 0x8000) << 16)
}

macro_rules! elements {
    (elements { $($t:ident $cuda:literal bits $bits:ident key $key:ident;)* } operators $operators:tt) => { $(
        // SAFETY: the C++ type is the same scalar. build.rs and every generated kernel assert its
        // size and alignment.
        unsafe impl Element for $t {
            const CUDA: &'static str = $cuda;
            const CUDA_BITS: &'static str = <$bits as Element>::CUDA;
        }
        const _: () = assert!(size_of::<$t>() == size_of::<$bits>() && align_of::<$t>() == align_of::<$bits>());
    )* };
}
catalog!(elements);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_is_widened() {
        for bits in 0..=u16::MAX {
            let x = f16::from_bits(bits);
            let (got, expected) = (widen_f16(x), x.to_f32());
            assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{bits:#x}");
        }
    }
}
