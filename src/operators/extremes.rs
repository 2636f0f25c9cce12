//! Running extremes: the least and the greatest item, and the index of either.

use super::Ends;
use crate::Keyed;
use half::{bf16, f16};

crate::element! {
    /// The least and the greatest of some items.
    pub struct Extent<T> {
        /// The least.
        pub least: T,
        /// The greatest.
        pub greatest: T,
    } for <f32>, <i32>, <u64>, <f16>, <f64>, <bf16>, <i8>, <i16>, <i64>, <u8>, <u16>, <u32>, <usize>, <isize>
}

impl<T: Copy> Extent<T> {
    /// The extent of one item.
    pub fn of(x: T) -> Extent<T> {
        Extent { least: x, greatest: x }
    }
}

crate::operator! {
    /// The running minimum and maximum together. Nothing is rounded.
    ///
    /// For floats NaN wins both, -0 is less than +0, and every NaN in a result is the positive one
    /// with all bits of the mantissa set, as for [`Min`](crate::Min) and [`Max`](crate::Max).
    ///
    /// ```
    /// use parascan::operators::{Extent, MinMax};
    /// let extents = parascan::scan::<MinMax, Extent<i32>>().run(&[3, 1, 4].map(Extent::of))?;
    /// assert_eq!(extents[2], Extent { least: 1, greatest: 4 });
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub struct MinMax
    on Extent<i32>, Extent<u64>, Extent<i8>, Extent<i16>, Extent<i64>, Extent<u8>, Extent<u16>, Extent<u32>, Extent<usize>, Extent<isize> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        combine: |a, b| Extent { least: a.least.min(b.least), greatest: a.greatest.max(b.greatest) },
    }
    on Extent<f32>, Extent<f16>, Extent<bf16> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        // SAFETY: functions of the templates, defined for all floats, here and in `combine`.
        lift: |x| both(x, x) => unsafe "{ minimum(x.least, x.least), maximum(x.greatest, x.greatest) }",
        combine: |a, b| both(a, b) => unsafe "{ minimum(a.least, b.least), maximum(a.greatest, b.greatest) }",
    }
    on Extent<f64> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        // SAFETY: functions of the templates, defined for all floats, here and in `combine`.
        lift: |x| both(x, x) => unsafe "{ from_key<NAN_FIRST, double>(key<NAN_FIRST>(x.least)), from_key<NAN_LAST, double>(key<NAN_LAST>(x.greatest)) }",
        combine: |a, b| both(a, b) => unsafe "{
            from_key<NAN_FIRST, double>(min(key<NAN_FIRST>(a.least), key<NAN_FIRST>(b.least))),
            from_key<NAN_LAST, double>(max(key<NAN_LAST>(a.greatest), key<NAN_LAST>(b.greatest)))
        }",
    }
}

/// The extent of two extents of floats.
fn both<T: Keyed<Key: Ord>>(a: Extent<T>, b: Extent<T>) -> Extent<T> {
    Extent {
        least: T::from_key_nan_first(a.least.key_nan_first().min(b.least.key_nan_first())),
        greatest: T::from_key_nan_last(a.greatest.key_nan_last().max(b.greatest.key_nan_last())),
    }
}

crate::element! {
    /// A value and its index.
    pub struct Indexed<T, I> {
        /// The value.
        pub value: T,
        /// The index.
        pub index: I,
    } for <f32, u32>, <i32, u32>, <u32, u32>, <f64, u64>, <i64, u64>, <u64, u64>
}

crate::operator! {
    /// The greatest value and its least index, in a scan of either direction. Nothing is rounded.
    ///
    /// For floats NaN is greater than all numbers, and of several NaN the one with the least index
    /// stays; -0 is less than +0.
    ///
    /// ```
    /// use parascan::operators::{ArgMax, Indexed};
    /// let items: Vec<Indexed<f32, u32>> = (0..).zip([1.0, 3.0, 3.0, 2.0]).map(|(index, value)| Indexed { value, index }).collect();
    /// let greatest = parascan::scan::<ArgMax, Indexed<f32, u32>>().run(&items)?;
    /// assert_eq!(greatest[3], Indexed { value: 3.0, index: 1 });
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub struct ArgMax
    on Indexed<i32, u32>, Indexed<u32, u32>, Indexed<i64, u64>, Indexed<u64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::LEAST, index: Ends::GREATEST },
        combine: |a, b| if b.value > a.value || (b.value == a.value && b.index < a.index) { b } else { a },
    }
    on Indexed<f32, u32>, Indexed<f64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::LEAST, index: Ends::GREATEST },
        combine: |a, b| {
            let (x, y) = (a.value.key_nan_last(), b.value.key_nan_last());
            if y > x || (y == x && b.index < a.index) { b } else { a }
        },
    }
}

crate::operator! {
    /// The least value and its least index, in a scan of either direction. Nothing is rounded.
    ///
    /// For floats NaN is less than all numbers, so NaN wins here too, and of several NaN the one
    /// with the least index stays; -0 is less than +0.
    ///
    /// ```
    /// use parascan::operators::{ArgMin, Indexed};
    /// let items = [Indexed { value: 2_i64, index: 0_u64 }, Indexed { value: 1, index: 1 }, Indexed { value: 1, index: 2 }];
    /// assert_eq!(parascan::scan::<ArgMin, Indexed<i64, u64>>().reverse().run(&items)?[0].index, 1);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub struct ArgMin
    on Indexed<i32, u32>, Indexed<u32, u32>, Indexed<i64, u64>, Indexed<u64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::GREATEST, index: Ends::GREATEST },
        combine: |a, b| if b.value < a.value || (b.value == a.value && b.index < a.index) { b } else { a },
    }
    on Indexed<f32, u32>, Indexed<f64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::GREATEST, index: Ends::GREATEST },
        combine: |a, b| {
            let (x, y) = (a.value.key_nan_first(), b.value.key_nan_first());
            if y < x || (y == x && b.index < a.index) { b } else { a }
        },
    }
}
