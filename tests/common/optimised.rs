//! The host's loops for the operators and elements whose tests have millions of items.
//!
//! Below opt-level 2 a crate does not compile the generic code again that a crate it depends on has
//! compiled for the same types. So the tests, which are compiled without optimisation, call these loops,
//! which are compiled with it. A call that is not named here is compiled in the tests, and is slow.

use super::samples::{Digit, Digits};
use super::{Draw, Options, Rng, Sample, assert_bytes, assert_same, data, noise, oracle};
use half::{bf16, f16};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Last, Max, Operator, Sum, reduce, scan};

/// The calls on all items.
fn whole<Op: Operator<T>, T: Sample>() {
    let x: Vec<T> = data(&mut Rng::new(), Draw::Any, 0);
    let options = Options { exclusive: false, init: None, reverse: false };
    assert_same(&oracle::<Op, T>(&x, options), &noise::<T>(&mut Rng::new(), 0), &());
    assert_bytes(&x, &x, &());
    drop((scan::<Op, T>().run(&x), reduce::<Op, T>().run(&x)));
}

/// The calls by segment and by column.
fn parts<Op: Operator<T>, T: Sample>() {
    whole::<Op, T>();
    let x: Vec<T> = Vec::new();
    let (scan, reduce) = (scan::<Op, T>(), reduce::<Op, T>());
    drop((scan.columns(1).run(&x), reduce.columns(1).run(&x)));
    drop((scan.rows(1).run(&x), reduce.rows(1).run(&x)));
    drop((scan.segments(&[0_u32]).run(&x), reduce.segments(&[0_u32]).run(&x)));
    drop((scan.segments(&[0_u64]).run(&x), reduce.segments(&[0_u64]).run(&x)));
    drop((scan.heads(&[0]).run(&x), reduce.heads(&[0]).run(&x)));
    drop((scan.head_bits(&[0_u32]).run(&x), reduce.head_bits(&[0_u32]).run(&x)));
    drop((scan.by_key(&[0_u32]).run(&x), reduce.by_key(&[0_u32]).run(&x)));
}

macro_rules! stamp {
    (elements $elements:tt operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => {
        /// Nobody calls it: what it names is compiled.
        pub fn optimised() {
            $( $( $( whole::<parascan::$op, $t>(); )* )* )*
            parts::<Sum, u8>();
            parts::<Sum, u16>();
            parts::<Sum, u32>();
            parts::<Sum, i64>();
            parts::<Sum, f32>();
            parts::<Sum, f16>();
            parts::<Max, f32>();
            parts::<Max, i16>();
            parts::<Last, u64>();
            parts::<Last, u32>();
            parts::<Last, Moments<f32>>();
            parts::<Compose, Transitions>();
            parts::<Compose, Matrix<u32>>();
            parts::<Compose, Matrix<u64>>();
            parts::<Digits, Digit>();
        }
    };
}
catalog!(stamp);
