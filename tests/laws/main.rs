//! The catalog keeps its laws, and the law tests catch operators that break one.

#[macro_use]
#[path = "../../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
#[macro_use]
extern crate common;

#[path = "../../src/own/bodies.rs"]
mod bodies;
mod broken;
mod one_text;
mod predicates;
mod ready_made;

use crate::common::{Sample, context};
use half::{bf16, f16};
use parascan::laws::{self, Laws};
use parascan::{Keyed, Operator, element, operator, predicate};

/// The bits of both bodies are the same, rounding or not: the catalog's additions and
/// multiplications are those of IEEE 754 on both sides. Rounding operators may give any NaN for
/// NaN.
fn strict<Op: Operator<T, Carry: Sample>, T: Sample>() -> Laws<Op, T> {
    laws::of::<Op, T>().close(|x, y, _| x.same(y))
}

fn on_host<Op: Operator<T>, T: Sample>() {
    laws::of::<Op, T>().associativity().unwrap();
    laws::of::<Op, T>().identity().unwrap();
}

fn on_device<Op: Operator<T, Carry: Sample>, T: Sample>() {
    let _context = or_skip!(context());
    strict::<Op, T>().agreement().unwrap();
}

macro_rules! stamp {
    (elements $elements:tt operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => { $(
        #[allow(non_snake_case)]
        mod $op {
            mod on_host {
                use super::super::*;
                $( $( #[test] fn $t() { on_host::<parascan::$op, $t>() } )* )*
            }
            mod on_device {
                use super::super::*;
                $( $( #[test] fn $t() { on_device::<parascan::$op, $t>() } )* )*
            }
            mod on_device_exhaustively {
                $( $( exhaustive!($op $t); )* )*
            }
        }
    )* };
}

/// All pairs of the 8-bit elements; all pairs of 16-bit ones take minutes in unoptimised code.
macro_rules! exhaustive {
    ($op:ident f16) => { exhaustive!(@slow $op f16); };
    ($op:ident bf16) => { exhaustive!(@slow $op bf16); };
    ($op:ident i8) => { exhaustive!(@test $op i8 []); };
    ($op:ident u8) => { exhaustive!(@test $op u8 []); };
    ($op:ident $other:ident) => {};
    (@slow $op:ident $t:ident) => {
        exhaustive!(@test $op $t [#[cfg_attr(debug_assertions, ignore = "2^32 pairs: with --release")]]);
    };
    (@test $op:ident $t:ident [$($attribute:tt)*]) => {
        $($attribute)*
        #[test]
        fn $t() {
            use crate::*;
            let _context = or_skip!(context());
            strict::<parascan::$op, $t>().exhaustive_agreement().unwrap();
        }
    };
}
catalog!(stamp);

/// The keys of all floats, and the floats of all keys that a float has.
#[test]
#[cfg_attr(debug_assertions, ignore = "2^32 values: with --release")]
fn keys_of_every_f32() {
    let _context = or_skip!(context());
    strict::<parascan::Max, f32>().exhaustive_agreement().unwrap();
    strict::<parascan::Min, f32>().exhaustive_agreement().unwrap();
}
