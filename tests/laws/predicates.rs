//! The two bodies of each ready-made predicate agree, and bodies that disagree are caught.

use crate::common::context;
use half::{bf16, f16};
use parascan::laws::proptest::prelude::*;
use parascan::laws::{self, Violation, any_bits};
use parascan::{Above, AtLeast, AtMost, Below, Element, Equal, Finite, NonZero, Not, NotEqual, Predicate, Within};
use std::fmt::Debug;

// ---- ready-made ---------------------------------------------------------------------------------

macro_rules! agree { ($($t:ident)*) => { $(
    #[test]
    fn $t() {
        let _context = context(); // a failure where a device is required
        let one = any_bits::<$t>;
        let two = || (one(), one());
        laws::of_predicate::<Above<_>, $t>(one().prop_map(Above)).check().unwrap();
        laws::of_predicate::<AtLeast<_>, $t>(one().prop_map(AtLeast)).check().unwrap();
        laws::of_predicate::<Below<_>, $t>(one().prop_map(Below)).check().unwrap();
        laws::of_predicate::<AtMost<_>, $t>(one().prop_map(AtMost)).check().unwrap();
        laws::of_predicate::<Equal<_>, $t>(one().prop_map(Equal)).check().unwrap();
        laws::of_predicate::<NotEqual<_>, $t>(one().prop_map(NotEqual)).check().unwrap();
        laws::of_predicate::<Within<_>, $t>(two().prop_map(|(low, high)| Within(low, high))).check().unwrap();
        laws::of_predicate::<Not<_>, $t>(two().prop_map(|(low, high)| Not(Within(low, high)))).check().unwrap();
        laws::of_predicate::<NonZero, $t>(Just(NonZero)).check().unwrap();
        laws::of_predicate::<Finite, $t>(Just(Finite)).check().unwrap();
    }
)* } }
agree! { f32 i32 u64 f16 f64 bf16 i8 i16 i64 u8 u16 u32 usize isize }

// ---- bodies that disagree -----------------------------------------------------------------------

// SAFETY of these texts: comparisons, and remainders by a nonzero number; the last is no C++, so it
// has no kernel.
parascan::predicate! {
    struct LeavesOne { divisor: u32 } on u32 { keeps: |x, p| x % p.divisor == 1 => unsafe "p.divisor && x % p.divisor == 1" }
}
parascan::predicate! {
    /// The CUDA body leaves the value itself out, unless it is small.
    struct UpTo { most: i32, ignored: u32 } on i32 { keeps: |x, p| x <= p.most => unsafe "p.most > 1000 ? x < p.most : x <= p.most" }
}
parascan::predicate! {
    /// The CUDA body selects NaN too.
    struct Positive on f32, f64 { keeps: |x| x > 0.0 => unsafe "!(x <= 0)" }
}
parascan::predicate! {
    struct Odd on u8 { keeps: |x| x % 2 == 1 => unsafe "x % 2" }
}

/// The counterexample.
#[track_caller]
fn disagree<P: Predicate<T> + Debug, T: Element + Debug>(predicates: impl Strategy<Value = P> + 'static) -> String {
    match laws::of_predicate::<P, T>(predicates).check() {
        Err(Violation::Agreement { counterexample, .. }) => counterexample,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bodies_that_disagree() {
    let _context = or_skip!(context());
    laws::of_predicate::<Odd, u8>(Just(Odd)).check().unwrap();
    let up_to = (1001..1100, any::<u32>()).prop_map(|(most, ignored)| UpTo { most, ignored });
    let outcome = laws::of_predicate::<UpTo, i32>(up_to).values(0..1100).check();
    let Err(Violation::Agreement { counterexample: found, .. }) = outcome else { panic!("{outcome:?}") };
    let most: i32 = found.split("most: ").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let expected = format!(
        "    predicate = UpTo {{ most: {most}, ignored: 0 }}\n    x = {most}\n    kept in Rust = true\n    kept in CUDA = false"
    );
    assert_eq!(found, expected, "the parameter that does not matter is shrunk, and the item is the value itself");
    let found = disagree::<Positive, f32>(Just(Positive));
    assert_eq!(found, "    predicate = Positive\n    x = NaN\n    kept in Rust = false\n    kept in CUDA = true");
    disagree::<Positive, f64>(Just(Positive));
    laws::of_predicate::<Positive, f32>(Just(Positive)).values(-1e9f32..1e9).agreement().unwrap();
    // Bodies that disagree have complements that disagree.
    disagree::<Not<Positive>, f32>(Just(Not(Positive)));
}

parascan::predicate! {
    struct NoCpp on i32 { keeps: |x| x > 0 => unsafe "this is no C++" }
}
#[test]
fn a_body_that_does_not_compile() {
    let _context = or_skip!(context());
    let outcome = laws::of_predicate::<NoCpp, i32>(Just(NoCpp)).check();
    assert!(matches!(outcome, Err(Violation::Engine(parascan::Error::Compile { .. }))), "{outcome:?}");
}

// ---- what needs no device -----------------------------------------------------------------------

#[test]
fn a_panic_is_shrunk_and_named() {
    let outcome = laws::of_predicate::<LeavesOne, u32>(any_bits()).check();
    let shown = format!("{:?}", outcome.unwrap_err());
    let expected = "LeavesOne panics on u32:\n    predicate = LeavesOne { divisor: 0 }\n    x = 0\n    \
                    attempt to calculate the remainder with a divisor of zero";
    assert!(shown.ends_with(expected), "{shown}");
    let some = (1..1000u32).prop_map(|divisor| LeavesOne { divisor });
    laws::of_predicate::<LeavesOne, u32>(some).check().unwrap();
}

#[test]
fn a_strategy_without_values() {
    let none = any::<i32>().prop_filter("none will do", |_| false);
    let outcome = laws::of_predicate::<NonZero, i32>(Just(NonZero)).values(none).check();
    assert!(matches!(&outcome, Err(Violation::NoValues { reason, .. }) if reason.contains("rejects")), "{outcome:?}");
}
