//! The CUDA text of a Rust body computes the same result on every drawn value.

use super::bodies::{self, *};
use crate::common::{Sample, context};
use half::{bf16, f16};
use parascan::laws::proptest::prelude::*;
use parascan::laws::{self, any_bits};
use parascan::{Element, Operator, Predicate};
use std::fmt::Debug;

/// The same bits, or two NaNs.
fn exact<Op: Operator<T, Carry: Sample>, T: Element + Debug>() {
    let _context = or_skip!(context());
    laws::of::<Op, T>().close(|x, y, _| x.same(y)).agreement().unwrap();
}
/// Within rounding.
fn rounded<Op: Operator<T>, T: Element + Debug>() {
    let _context = or_skip!(context());
    laws::of::<Op, T>().agreement().unwrap();
}

macro_rules! laws {
    ($($name:ident: $check:ident $ops:tt on $types:tt;)*) => { $(
        #[test]
        fn $name() {
            laws!(@ops $check $ops $types);
        }
    )* };
    (@ops $check:ident [$($op:ident)+] $types:tt) => { $( laws!(@op $check $op $types); )+ };
    (@op $check:ident $op:ident [$($t:tt)+]) => { $( $check::<$op, laws!(@type $t)>(); )+ };
    (@type ($t:ty)) => { $t };
    (@type $t:ident) => { $t };
}
bodies::bodies!(laws);

fn check<P: Predicate<T> + Debug, T: Element + Debug>(predicates: impl Strategy<Value = P> + 'static) {
    let _context = context(); // a failure where a device is required
    laws::of_predicate::<P, T>(predicates).check().unwrap();
}

#[test]
fn predicates() {
    check::<Leaves, u32>(
        (1..=u32::MAX, 0..=u32::MAX).prop_map(|(divisor, rest)| Leaves { divisor, rest: rest % divisor }),
    );
    check::<OddBits, u8>(Just(OddBits));
    check::<OddBits, i16>(Just(OddBits));
    check::<OddBits, u32>(Just(OddBits));
    check::<OddBits, i64>(Just(OddBits));
    check::<Tenths, f32>(Just(Tenths));
    check::<Tenths, f64>(Just(Tenths));
    check::<Inside, Pair<f32, u32>>(any_bits());
    check::<Half, f16>(any_bits());
    let _context = context();
    let tenths = (0..12i8).prop_map(|k| f32::from(k) / 10.0);
    laws::of_predicate::<Tenths, f32>(Just(Tenths)).values(tenths).check().unwrap();
}
