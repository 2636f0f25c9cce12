//! Predicates: which items are kept.

use crate::cuda::{FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES};
use crate::{DeviceCode, Element};
use half::{bf16, f16};

/// Whether an item is kept, on both engines.
///
/// A predicate may carry values that are known at run time only: they go to the device with the call.
/// [`predicate!`](crate::predicate) writes one with less, and without `unsafe`.
///
/// # Example
/// ```
/// use parascan::{DeviceCode, Predicate, compact};
///
/// /// Keeps multiples of a number.
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
    /// Plain data that the kernel is given with the call; `u8` where there is none.
    type Parameters: Element;
    /// What the kernel is given.
    fn parameters(&self) -> Self::Parameters;
    /// Whether `x` is kept. Never called on anything but an item.
    fn keeps(&self, x: T) -> bool;
    /// `keeps` over `x`, an item, and `p`, the parameters, in C++: an expression, or statements, the last of which is a `return`.
    const CUDA: DeviceCode<Self, T>;
    /// The type under which the kernel sees the item.
    #[doc(hidden)]
    const CUDA_ITEM: DeviceCode<Self, T> = DeviceCode::element::<T>();
    /// Whether the kernel keeps what `CUDA` does not.
    #[doc(hidden)]
    fn is_complement(&self) -> bool {
        false
    }
}

/// Keeps what the predicate does not.
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
    // SAFETY: as `P` promises, whose item and parameters it has.
    const CUDA: DeviceCode<Self, T> = unsafe { DeviceCode::new(P::CUDA.text()) };
    // SAFETY: as above.
    const CUDA_ITEM: DeviceCode<Self, T> = unsafe { DeviceCode::new(P::CUDA_ITEM.text()) };
    fn is_complement(&self) -> bool {
        !self.0.is_complement()
    }
}

// ---- comparisons -------------------------------------------------------------------------------------------------------------
// On the device each is one test of a range of integers in the order of the items, so that they share their kernels: one for the
// integers of a size, one for the floats of a size.

mod sealed {
    /// What kernels run of an implementation is a text: so there are none outside of this file.
    pub trait Sealed {}
}

/// Elements of the catalog in their order, as integers.
pub trait Ordered: sealed::Sealed + Element + PartialEq + PartialOrd {
    /// The unsigned integer of the same size.
    #[doc(hidden)]
    type Bits: Element;
    /// Whether a kernel finds the place of an item in the order by `ordered`.
    #[doc(hidden)]
    const CUDA_RANGE: &'static str;
    /// The type under which a kernel compares two items for equality, and how.
    #[doc(hidden)]
    const CUDA_COMPARED: &'static str;
    #[doc(hidden)]
    const CUDA_SAME: &'static str;
    #[doc(hidden)]
    const LEAST: i128;
    #[doc(hidden)]
    const GREATEST: i128;
    /// The places of the items that are equal to this one; none for NaN.
    #[doc(hidden)]
    fn places(self) -> Option<(i128, i128)>;
    /// A place as the kernel computes it.
    #[doc(hidden)]
    fn bits(place: i128) -> Self::Bits;
    /// Whether it is neither infinite nor NaN.
    #[doc(hidden)]
    fn is_finite(self) -> bool;
    #[doc(hidden)]
    const ZERO: Self;
    /// The places of finite items.
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
            fn places(self) -> Option<(i128, i128)> { Some((self as i128, self as i128)) }
            fn bits(place: i128) -> $bits { place as $bits }
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
            fn places(self) -> Option<(i128, i128)> {
                let key = |x: $t| crate::Keyed::key_nan_last(x) as i128;
                if self.is_nan() {
                    None
                } else if self == Self::ZERO {
                    Some((key(-Self::ZERO), key(Self::ZERO)))
                } else {
                    Some((key(self), key(self)))
                }
            }
            fn bits(place: i128) -> $bits { place as $key as $bits }
            #[inline(always)]
            fn is_finite(self) -> bool { $t::is_finite(self) }
            const ZERO: $t = $zero;
            const FINITE: (i128, i128) = (Self::LEAST + 1, Self::GREATEST - 1);
        }
    )* };
}
floats! { f32 u32 i32 0.0, SAME; f64 u64 i64 0.0, SAME; f16 u16 i16 f16::ZERO, SAME_HALVES; bf16 u16 i16 bf16::ZERO, SAME_HALVES; }

/// A range of places, as kernels are given it.
#[doc(hidden)]
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Places<B>([B; 2]); // the first, and how many come after it
macro_rules! places {
    ($($bits:ident $cuda:literal;)*) => { $(
        // SAFETY: two integers in the same order on both sides.
        unsafe impl Element for Places<$bits> { const CUDA: &'static str = $cuda; }
    )* };
}
places! {
    u8 "struct { unsigned char low, span; }";
    u16 "struct { unsigned short low, span; }";
    u32 "struct { unsigned int low, span; }";
    u64 "struct { unsigned long long low, span; }";
}

/// The range from `low` to `high`, and whether it is what is outside of it that is meant: an empty one is all, turned over.
fn range<T: Ordered>(range: Option<(i128, i128)>) -> (Places<T::Bits>, bool) {
    let (low, high, is_empty) = match range {
        Some((low, high)) if low <= high => (low, high, false),
        _ => (0, u64::MAX.into(), true),
    };
    (Places([T::bits(low), T::bits(high - low)]), is_empty)
}

macro_rules! comparisons {
    ($(
        $(#[$doc:meta])*
        $name:ident $(($($field:ident: $t:ident),*))?: keeps |$x:ident| $keeps:expr, places $places:expr, complement $complement:literal;
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name$(<T>($(#[doc = concat!("The value `", stringify!($field), "`.")] pub $t),*))?;

        impl<T: Ordered> Predicate<T> for comparisons!(@self $name $(($($field),*))?)
        where
            Places<T::Bits>: Element,
        {
            type Parameters = Places<T::Bits>;
            fn parameters(&self) -> Places<T::Bits> {
                $( let $name($($field),*) = *self; )?
                range::<T>($places).0
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
                range::<T>($places).1 != $complement
            }
        }
    )* };
    (@self $name:ident ($($field:ident),*)) => { $name<T> };
    (@self $name:ident) => { $name };
}

comparisons! {
    /// Keeps what is greater than the value. Of floats NaN is neither greater nor less than anything.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// assert_eq!(compact::<f32>().keep(Above(0.5)).run(&[0.5, 0.75, f32::NAN, 2.0])?, [0.75, 2.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    Above(than: T): keeps |x| x > than, places than.places().map(|(_, high)| (high + 1, T::GREATEST)), complement false;
    /// Keeps what is the value or greater.
    AtLeast(least: T): keeps |x| x >= least, places least.places().map(|(low, _)| (low, T::GREATEST)), complement false;
    /// Keeps what is less than the value.
    Below(than: T): keeps |x| x < than, places than.places().map(|(low, _)| (T::LEAST, low - 1)), complement false;
    /// Keeps what is the value or less.
    AtMost(most: T): keeps |x| x <= most, places most.places().map(|(_, high)| (T::LEAST, high)), complement false;
    /// Keeps what equals the value; -0 equals 0, and nothing equals NaN.
    Equal(value: T): keeps |x| x == value, places value.places(), complement false;
    /// Keeps what does not equal the value; NaN does not equal anything.
    NotEqual(value: T): keeps |x| x != value, places value.places(), complement true;
    /// Keeps what lies between two values, both included.
    Within(least: T, most: T): keeps |x| x >= least && x <= most,
        places least.places().zip(most.places()).map(|((low, _), (_, high))| (low, high)), complement false;
    /// Keeps what does not equal zero; NaN is kept.
    NonZero: keeps |x| x != T::ZERO, places T::ZERO.places(), complement true;
    /// Keeps what is neither infinite nor NaN.
    Finite: keeps |x| x.is_finite(), places Some(T::FINITE), complement false;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel computes: the range of places, and the complement of it where it is asked for.
    fn by_places<T: Ordered, P: Predicate<T, Parameters = Places<T::Bits>>>(predicate: P, x: T, place: i128) -> bool
    where
        Places<T::Bits>: Element,
    {
        let wide = |bits: T::Bits| {
            let mut wide = [0; 8];
            wide[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&bits));
            u64::from_le_bytes(wide)
        };
        let Places([low, span]) = predicate.parameters();
        let mask = u64::MAX >> (64 - 8 * size_of::<T>());
        let _ = x;
        ((wide(T::bits(place)).wrapping_sub(wide(low)) & mask) <= wide(span)) != predicate.is_complement()
    }

    fn check<T: Ordered + std::fmt::Debug>(all: &[T], place: fn(T) -> i128)
    where
        Places<T::Bits>: Element,
    {
        for &x in all {
            let one = |name: &str, kept: bool, seen: bool| assert_eq!(kept, seen, "{name} of {x:?}");
            macro_rules! each { ($($p:expr;)*) => { $( one(&format!("{:?}", $p), $p.keeps(x), by_places($p, x, place(x))); )* } }
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
