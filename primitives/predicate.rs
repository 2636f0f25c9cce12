//! Predicates that select items.

use crate::cuda::{FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES};
use crate::{DeviceCode, Element};
use half::{bf16, f16};

/// A test that selects items, on both engines.
///
/// A predicate may carry values that are known only at run time; the call passes them to the
/// kernel. [`predicate!`](crate::predicate) declares one in fewer lines, without `unsafe`.
///
/// # Example
/// ```
/// use parascan::{DeviceCode, Predicate, compact};
///
/// /// Selects multiples of a number.
/// #[derive(Clone, Copy)]
/// struct MultipleOf(u32);
/// impl Predicate<u32> for MultipleOf {
///     type Parameters = u32;
///     fn parameters(&self) -> u32 { self.0 }
///     fn keeps(&self, x: u32) -> bool { x % self.0 == 0 }
///     // SAFETY: it divides by nothing but a p that is not zero.
///     const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("p && x % p == 0") };
/// }
/// assert_eq!(compact::<u32>().keep(MultipleOf(3)).run(&[1, 2, 3, 4, 5, 6])?, [3, 6]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a predicate on `{T}`",
    label = "not a `Predicate<{T}>`",
    note = "ready-made ones are Above, AtLeast, Below, AtMost, Equal, NotEqual, Within, NonZero, Finite and Not; for one of your own, write `parascan::predicate!`"
)]
pub trait Predicate<T: Element>: Copy + Send + Sync + 'static {
    /// The type of the kernel's parameters, plain data; `u8` if there are none.
    type Parameters: Element;
    /// The kernel's parameters.
    fn parameters(&self) -> Self::Parameters;
    /// Whether `x` is selected. Called on items only.
    fn keeps(&self, x: T) -> bool;
    /// `keeps` in C++, of the item `x` and the parameters `p`: an expression, or statements that
    /// end in a `return`.
    const CUDA: DeviceCode<Self, T>;
    /// The C++ type of the item in the kernel.
    #[doc(hidden)]
    const CUDA_ITEM: DeviceCode<Self, T> = DeviceCode::element::<T>();
    /// Whether the kernel selects the items that `CUDA` rejects.
    #[doc(hidden)]
    fn is_complement(&self) -> bool {
        false
    }
}

/// Selects the items that the predicate rejects.
///
/// ```
/// use parascan::{Below, Not, compact};
/// assert_eq!(compact::<i32>().keep(Not(Below(0))).run(&[1, -2, 0, 3])?, [1, 0, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Not<P>(pub P);

impl<T: Element, P: Predicate<T>> Predicate<T> for Not<P> {
    type Parameters = P::Parameters;
    fn parameters(&self) -> P::Parameters {
        self.0.parameters()
    }
    #[inline(always)]
    fn keeps(&self, x: T) -> bool {
        !self.0.keeps(x)
    }
    // SAFETY: the text is `P`'s, and so are the types of item and parameters.
    const CUDA: DeviceCode<Self, T> = unsafe { DeviceCode::new(P::CUDA.text()) };
    // SAFETY: as above.
    const CUDA_ITEM: DeviceCode<Self, T> = unsafe { DeviceCode::new(P::CUDA_ITEM.text()) };
    fn is_complement(&self) -> bool {
        !self.0.is_complement()
    }
}

// ---- comparisons
// A key is an integer that orders as the items do. On the device every comparison tests whether a
// key is in a range, so all comparisons share a kernel for the integers of a size and one for the
// floats of a size.

mod sealed {
    /// Kernels run the texts of an implementation, so there is none outside of this file.
    pub trait Sealed {}
}

/// Elements of the catalog that have an order, and so integer keys.
pub trait Ordered: sealed::Sealed + Element + PartialEq + PartialOrd {
    /// The unsigned integer of the same size.
    #[doc(hidden)]
    type Bits: Element;
    /// The C++ test of a range of keys; for floats it computes the key by `ordered`.
    #[doc(hidden)]
    const CUDA_RANGE: &'static str;
    /// The C++ type as which a kernel compares two items for equality, and below the comparison.
    #[doc(hidden)]
    const CUDA_COMPARED: &'static str;
    #[doc(hidden)]
    const CUDA_SAME: &'static str;
    #[doc(hidden)]
    const LEAST: i128;
    #[doc(hidden)]
    const GREATEST: i128;
    /// The keys of the items that equal this one, first and last; none for NaN.
    #[doc(hidden)]
    fn keys(self) -> Option<(i128, i128)>;
    /// A key as the kernel computes it.
    #[doc(hidden)]
    fn bits(key: i128) -> Self::Bits;
    /// Whether the item is neither infinite nor NaN.
    #[doc(hidden)]
    fn is_finite(self) -> bool;
    #[doc(hidden)]
    const ZERO: Self;
    /// The keys of finite items, first and last.
    #[doc(hidden)]
    const FINITE: (i128, i128);
}

macro_rules! integers {
    ($($t:ident $bits:ident;)*) => { $(
        impl sealed::Sealed for $t {}
        impl Ordered for $t {
            type Bits = $bits;
            const CUDA_RANGE: &'static str = INTEGER_RANGE;
            const CUDA_COMPARED: &'static str = <$bits as Element>::CUDA;
            const CUDA_SAME: &'static str = SAME;
            const LEAST: i128 = $t::MIN as i128;
            const GREATEST: i128 = $t::MAX as i128;
            fn keys(self) -> Option<(i128, i128)> { Some((self as i128, self as i128)) }
            fn bits(key: i128) -> $bits { key as $bits }
            #[inline(always)]
            fn is_finite(self) -> bool { true }
            const ZERO: $t = 0;
            const FINITE: (i128, i128) = (Self::LEAST, Self::GREATEST);
        }
    )* };
}
integers! { i8 u8; u8 u8; i16 u16; u16 u16; i32 u32; u32 u32; i64 u64; u64 u64; isize u64; usize u64; }

macro_rules! floats {
    ($($t:ident $bits:ident $key:ident $zero:expr, $same:expr;)*) => { $(
        impl sealed::Sealed for $t {}
        impl Ordered for $t {
            type Bits = $bits;
            const CUDA_RANGE: &'static str = FLOAT_RANGE;
            const CUDA_COMPARED: &'static str = <$t as Element>::CUDA;
            const CUDA_SAME: &'static str = $same;
            const LEAST: i128 = -1 - Self::GREATEST;
            const GREATEST: i128 = $t::INFINITY.to_bits() as i128;
            fn keys(self) -> Option<(i128, i128)> {
                let key = |x: $t| crate::Keyed::key_nan_last(x) as i128;
                if self.is_nan() {
                    None
                } else if self == Self::ZERO {
                    Some((key(-Self::ZERO), key(Self::ZERO)))
                } else {
                    Some((key(self), key(self)))
                }
            }
            fn bits(key: i128) -> $bits { key as $key as $bits }
            #[inline(always)]
            fn is_finite(self) -> bool { $t::is_finite(self) }
            const ZERO: $t = $zero;
            const FINITE: (i128, i128) = (Self::LEAST + 1, Self::GREATEST - 1);
        }
    )* };
}
floats! { f32 u32 i32 0.0, SAME; f64 u64 i64 0.0, SAME; f16 u16 i16 f16::ZERO, SAME_HALVES; bf16 u16 i16 bf16::ZERO, SAME_HALVES; }

/// A range of keys, as a kernel's parameters.
#[doc(hidden)]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct KeyRange<B>([B; 2]); // the first key, and the number of keys after it
macro_rules! key_ranges {
    ($($bits:ident $cuda:literal;)*) => { $(
        // SAFETY: two integers in the same order on both sides.
        unsafe impl Element for KeyRange<$bits> { const CUDA: &'static str = $cuda; }
    )* };
}
key_ranges! {
    u8 "struct { unsigned char low, span; }";
    u16 "struct { unsigned short low, span; }";
    u32 "struct { unsigned int low, span; }";
    u64 "struct { unsigned long long low, span; }";
}

/// The range of keys from `low` to `high`, and whether it is complemented: an empty range is the
/// complement of all keys.
fn range<T: Ordered>(range: Option<(i128, i128)>) -> (KeyRange<T::Bits>, bool) {
    let (low, high, is_empty) = match range {
        Some((low, high)) if low <= high => (low, high, false),
        _ => (0, u64::MAX.into(), true),
    };
    (KeyRange([T::bits(low), T::bits(high - low)]), is_empty)
}

macro_rules! comparisons {
    ($(
        $(#[$doc:meta])*
        $name:ident $(($($field:ident: $t:ident),*))?: keeps |$x:ident| $keeps:expr, keys $keys:expr, complement $complement:literal;
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name$(<T>($(#[doc = concat!("The value `", stringify!($field), "`.")] pub $t),*))?;

        impl<T: Ordered> Predicate<T> for comparisons!(@self $name $(($($field),*))?)
        where
            KeyRange<T::Bits>: Element,
        {
            type Parameters = KeyRange<T::Bits>;
            fn parameters(&self) -> KeyRange<T::Bits> {
                $( let $name($($field),*) = *self; )?
                range::<T>($keys).0
            }
            #[inline(always)]
            fn keeps(&self, $x: T) -> bool {
                $( let $name($($field),*) = *self; )?
                $keeps
            }
            // SAFETY: one subtraction of unsigned integers, and a comparison. `Ordered` is sealed.
            const CUDA: DeviceCode<Self, T> = unsafe { DeviceCode::new(T::CUDA_RANGE) };
            const CUDA_ITEM: DeviceCode<Self, T> = DeviceCode::element::<T::Bits>();
            fn is_complement(&self) -> bool {
                $( let $name($($field),*) = *self; )?
                range::<T>($keys).1 != $complement
            }
        }
    )* };
    (@self $name:ident ($($field:ident),*)) => { $name<T> };
    (@self $name:ident) => { $name };
}

comparisons! {
    /// Selects items greater than the value. NaN is neither greater nor less than any float.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// assert_eq!(compact::<f32>().keep(Above(0.5)).run(&[0.5, 0.75, f32::NAN, 2.0])?, [0.75, 2.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    Above(than: T): keeps |x| x > than, keys than.keys().map(|(_, high)| (high + 1, T::GREATEST)), complement false;
    /// Selects items greater than or equal to the value.
    AtLeast(least: T): keeps |x| x >= least, keys least.keys().map(|(low, _)| (low, T::GREATEST)), complement false;
    /// Selects items less than the value.
    Below(than: T): keeps |x| x < than, keys than.keys().map(|(low, _)| (T::LEAST, low - 1)), complement false;
    /// Selects items less than or equal to the value.
    AtMost(most: T): keeps |x| x <= most, keys most.keys().map(|(_, high)| (T::LEAST, high)), complement false;
    /// Selects items equal to the value; -0 equals 0, and no float equals NaN.
    Equal(value: T): keeps |x| x == value, keys value.keys(), complement false;
    /// Selects items not equal to the value; no float equals NaN.
    ///
    /// ```
    /// # use parascan::{NotEqual, compact};
    /// let nonzero = compact::<f32>().keep(NotEqual(0.0)).indices::<u32, _>(&[-0.0, f32::NAN, 1.0])?;
    /// assert_eq!(nonzero, [1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    NotEqual(value: T): keeps |x| x != value, keys value.keys(), complement true;
    /// Selects items between two values, both included.
    Within(least: T, most: T): keeps |x| x >= least && x <= most,
        keys least.keys().zip(most.keys()).map(|((low, _), (_, high))| (low, high)), complement false;
    /// Selects items not equal to zero, NaN included.
    NonZero: keeps |x| x != T::ZERO, keys T::ZERO.keys(), complement true;
    /// Selects items that are neither infinite nor NaN.
    ///
    /// ```
    /// # use parascan::{Finite, compact};
    /// assert_eq!(compact::<f64>().keep(Finite).run(&[1.0, f64::NAN, f64::INFINITY, 2.0])?, [1.0, 2.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    Finite: keeps |x| x.is_finite(), keys Some(T::FINITE), complement false;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's result: whether the key is in the range, or its complement.
    fn by_keys<T: Ordered, P: Predicate<T, Parameters = KeyRange<T::Bits>>>(predicate: P, x: T, key: i128) -> bool
    where
        KeyRange<T::Bits>: Element,
    {
        let wide = |bits: T::Bits| {
            let mut wide = [0; 8];
            wide[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&bits));
            u64::from_le_bytes(wide)
        };
        let KeyRange([low, span]) = predicate.parameters();
        let mask = u64::MAX >> (64 - 8 * size_of::<T>());
        let _ = x;
        ((wide(T::bits(key)).wrapping_sub(wide(low)) & mask) <= wide(span)) != predicate.is_complement()
    }

    fn check<T: Ordered + std::fmt::Debug>(all: &[T], key: fn(T) -> i128)
    where
        KeyRange<T::Bits>: Element,
    {
        for &x in all {
            let one = |name: &str, kept: bool, seen: bool| assert_eq!(kept, seen, "{name} of {x:?}");
            macro_rules! each { ($($p:expr;)*) => { $( one(&format!("{:?}", $p), $p.keeps(x), by_keys($p, x, key(x))); )* } }
            each! { NonZero; Finite; Not(NonZero); Not(Finite); }
            for &v in all {
                each! { Above(v); AtLeast(v); Below(v); AtMost(v); Equal(v); NotEqual(v); Not(Above(v)); }
                for &w in all.iter().step_by(3) {
                    each! { Within(v, w); Not(Within(v, w)); }
                }
            }
        }
    }

    #[test]
    fn comparisons_are_ranges() {
        check::<u8>(&[0, 1, 7, 127, 128, 254, 255], |x| x.into());
        check::<i8>(&[-128, -127, -1, 0, 1, 126, 127], |x| x.into());
        check::<u64>(&[0, 1, 1 << 40, u64::MAX - 1, u64::MAX], |x| x.into());
        check::<i64>(&[i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX], |x| x.into());
        // As the kernel orders floats: NaN keep their bits, and lie outside of all numbers.
        fn folded(bits: i128, width: u32) -> i128 {
            let bits = bits << (128 - width) >> (128 - width);
            if bits < 0 { bits ^ ((1 << (width - 1)) - 1) } else { bits }
        }
        let nans = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xff80_0001)];
        let numbers = [f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, -0.0, 0.0, 1e-45, 2.5, f32::MAX, f32::INFINITY];
        let all: Vec<f32> = numbers.into_iter().chain(nans).collect();
        check::<f32>(&all, |x| folded(x.to_bits().into(), 32));
        let all: Vec<f16> = all.iter().map(|&x| f16::from_f32(x)).chain([f16::MAX, f16::MIN]).collect();
        check::<f16>(&all, |x| folded(x.to_bits().into(), 16));
        let all: Vec<f64> = all.iter().map(|&x| x.into()).chain([f64::MAX, f64::MIN]).collect();
        check::<f64>(&all, |x| folded(x.to_bits().into(), 64));
    }
}
