//! Operators that break a law, each with the law that catches it.

use crate::common::context;
use parascan::laws::proptest::prelude::*;
use parascan::laws::{self, Violation};
use parascan::{Associativity, DeviceCode, Element, Operator};

/// An operator whose carry is the element itself.
macro_rules! operator {
    ($op:ident on $t:ty, |$a:ident, $b:ident| $rust:expr, $cuda:literal $(, $name:ident: $constant:ty = $value:expr)*) => {
        #[derive(Clone, Copy)]
        struct $op;
        impl Operator<$t> for $op {
            type Carry = $t;
            fn lift(x: $t) -> $t { x }
            fn lower(x: $t) -> $t { x }
            fn combine($a: $t, $b: $t) -> $t { $rust }
            // SAFETY: operations that are defined for all arguments, or no C++.
            const CUDA: DeviceCode<Self, $t> = unsafe { DeviceCode::new($cuda) };
            $( const $name: $constant = $value; )*
        }
    };
}

/// The counterexample.
#[track_caller]
fn not_associative(outcome: Result<(), Violation>) -> String {
    match outcome {
        Err(Violation::Associativity { counterexample, .. }) => counterexample,
        other => panic!("{other:?}"),
    }
}

// ---- associativity ------------------------------------------------------------------------------

operator!(Average on f32, |a, b| (a + b) / 2.0, "(a + b) / 2", ASSOCIATIVITY: Associativity = Associativity::Rounding);
#[test]
fn average_is_not_rounding() {
    not_associative(laws::of::<Average, f32>().associativity());
    not_associative(laws::of::<Average, f32>().values(0.0f32..1.0).check());
}

operator!(Minus on i32, |a, b| a.wrapping_sub(b), "int(0u + a - b)");
#[test]
fn subtraction_shrinks_to_the_one_operand_that_matters() {
    let found = not_associative(laws::of::<Minus, i32>().check());
    assert!(found.starts_with("    a = 0\n    b = 0\n    c = "), "{found}");
    assert!(!found.contains("combined"), "{found}");
}

operator!(PlainMax on f32, |a, b| if b > a { b } else { a }, "b > a ? b : a");
#[test]
fn a_maximum_that_drops_nan() {
    let found = not_associative(laws::of::<PlainMax, f32>().check());
    assert!(found.contains("NaN"), "{found}");
    laws::of::<PlainMax, f32>().values(-1e9f32..1e9).associativity().unwrap();
}

operator!(ExactSum on f32, |a, b| a + b, "a + b");
#[test]
fn a_sum_that_claims_to_be_exact() {
    not_associative(laws::of::<ExactSum, f32>().check());
    not_associative(laws::of::<ExactSum, f32>().close(|_, _, _| true).associativity());
}

operator!(Truncated on f32, |a, b| f32::from_bits((a + b).to_bits() & !0xff), "a",
    ASSOCIATIVITY: Associativity = Associativity::Rounding);
#[test]
fn a_sum_that_loses_more_than_rounding() {
    not_associative(laws::of::<Truncated, f32>().associativity());
    let close = |x: f32, y: f32, from: &[f32]| (x - y).abs() <= 1e-3 * from.iter().map(|x| x.abs()).sum::<f32>();
    laws::of::<Truncated, f32>().values(-1.0f32..1.0).close(close).associativity().unwrap();
}

operator!(Panics on u8, |a, b| a.checked_add(b).expect("no overflow"), "a + b");
#[test]
fn a_panic_is_reported_with_its_operands() {
    let found = not_associative(laws::of::<Panics, u8>().check());
    assert!(found.contains("no overflow") && found.contains("a = "), "{found}");
}

/// How many items there were, and the last of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Counted {
    items: u32,
    last: u32,
}
// SAFETY: two 32-bit integers in the same order on both sides.
unsafe impl Element for Counted {
    const CUDA: &'static str = "struct { unsigned items, last; }";
}
#[derive(Clone, Copy)]
struct Count;
impl Operator<u32> for Count {
    type Carry = Counted;
    fn lift(x: u32) -> Counted {
        Counted { items: 1, last: x }
    }
    fn lower(x: Counted) -> u32 {
        x.last
    }
    fn combine(a: Counted, b: Counted) -> Counted {
        Counted { items: a.items + 1, last: b.last }
    }
    // SAFETY: fields of structs, and a sum of unsigned integers.
    const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("Carry{a.items + 1, b.last}") };
    // SAFETY: as above.
    const CUDA_LIFT: DeviceCode<Self, u32> = unsafe { DeviceCode::new("Carry{1, x}") };
    // SAFETY: as above.
    const CUDA_LOWER: DeviceCode<Self, u32> = unsafe { DeviceCode::new("x.last") };
}
#[test]
fn carries_are_compared_and_not_only_elements() {
    let found = not_associative(laws::of::<Count, u32>().check());
    assert!(found.contains("carried as"), "{found}");
}

// ---- identity -----------------------------------------------------------------------------------

operator!(MaxFromZero on i32, |a, b| a.max(b), "b > a ? b : a", IDENTITY: Option<i32> = Some(0));
operator!(LastFromZero on i32, |_a, b| b, "b", IDENTITY: Option<i32> = Some(0));
operator!(FirstFromZero on i32, |a, _b| a, "a", IDENTITY: Option<i32> = Some(0));
#[test]
fn an_identity_that_is_not_neutral_on_both_sides() {
    fn is_caught<Op: Operator<i32>>(law: &str) {
        match laws::of::<Op, i32>().check() {
            Err(Violation::Identity { counterexample, .. }) => {
                assert!(counterexample.contains(law), "{counterexample}")
            }
            other => panic!("{other:?}"),
        }
        laws::of::<Op, i32>().associativity().unwrap();
    }
    is_caught::<MaxFromZero>("identity a = 0");
    is_caught::<LastFromZero>("a identity = 0");
    is_caught::<FirstFromZero>("identity a = 0");
}

// ---- agreement ----------------------------------------------------------------------------------

operator!(OtherCombine on i32, |a, b| a.wrapping_add(b), "int(0u + a - b)");
operator!(OtherLift on i32, |a, b| a.wrapping_add(b), "int(0u + a + b)",
    // SAFETY: a sum of unsigned integers.
    CUDA_LIFT: DeviceCode<Self, i32> = unsafe { DeviceCode::new("int(0u + x + (x > 1000))") });
operator!(OtherLower on i32, |a, b| a.wrapping_add(b), "int(0u + a + b)",
    // SAFETY: an operation on bits.
    CUDA_LOWER: DeviceCode<Self, i32> = unsafe { DeviceCode::new("x & 0x7fffffff") });
operator!(OtherOrder on i32, |_a, b| b, "a");
operator!(OtherRounding on f32, |a, b| a + b, "(a + b) * 1.0001f",
    ASSOCIATIVITY: Associativity = Associativity::Rounding);
operator!(DropsNan on f32, |a, b| a + b, "a + b == a + b ? a + b : 0",
    ASSOCIATIVITY: Associativity = Associativity::Rounding);
operator!(OneOfAll on u8, |a, b| a.wrapping_add(b), "a == 77 && b == 199 ? 0 : a + b");
#[test]
fn bodies_that_disagree() {
    fn is_caught<Op: Operator<T>, T: Element + std::fmt::Debug>(what: &str) {
        laws::of::<Op, T>().associativity().unwrap();
        match laws::of::<Op, T>().check() {
            Err(Violation::Agreement { counterexample, .. }) => {
                assert!(counterexample.contains(what), "{counterexample}")
            }
            other => panic!("{other:?}"),
        }
    }
    let _context = or_skip!(context());
    is_caught::<OtherCombine, i32>("a b in CUDA = ");
    is_caught::<OtherLift, i32>("lift(a) in CUDA = ");
    is_caught::<OtherLower, i32>("lowered in Rust = -");
    is_caught::<OtherOrder, i32>("a b in CUDA = ");
    is_caught::<OtherRounding, f32>("a b in CUDA = ");
    is_caught::<DropsNan, f32>("a b in Rust = NaN");
    match laws::of::<OneOfAll, u8>().exhaustive_agreement() {
        Err(Violation::Agreement { counterexample, .. }) => {
            assert_eq!(counterexample, "    a = 77\n    b = 199\n    a b in Rust = 20\n    a b in CUDA = 0");
        }
        other => panic!("{other:?}"),
    }
}

operator!(NoCpp on i32, |a, b| a.max(b), "this is no C++");
#[test]
fn a_body_that_does_not_compile() {
    let _context = or_skip!(context());
    let outcome = laws::of::<NoCpp, i32>().check();
    assert!(matches!(outcome, Err(Violation::Engine(parascan::Error::Compile { .. }))), "{outcome:?}");
}

// ---- what cannot be checked ---------------------------------------------------------------------

#[derive(Clone, Copy)]
struct RoundedCount;
impl Operator<u32> for RoundedCount {
    type Carry = Counted;
    fn lift(x: u32) -> Counted {
        Count::lift(x)
    }
    fn lower(x: Counted) -> u32 {
        Count::lower(x)
    }
    fn combine(a: Counted, b: Counted) -> Counted {
        Count::combine(a, b)
    }
    const ASSOCIATIVITY: Associativity = Associativity::Rounding;
    // SAFETY: as of `Count`.
    const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new(Count::CUDA.text()) };
    // SAFETY: as above.
    const CUDA_LIFT: DeviceCode<Self, u32> = unsafe { DeviceCode::new(Count::CUDA_LIFT.text()) };
    // SAFETY: as above.
    const CUDA_LOWER: DeviceCode<Self, u32> = unsafe { DeviceCode::new(Count::CUDA_LOWER.text()) };
}
#[test]
fn rounding_of_a_struct_needs_a_measure() {
    assert!(matches!(laws::of::<RoundedCount, u32>().check(), Err(Violation::NoBound { .. })));
    laws::of::<RoundedCount, u32>().close(|x, y, _| x.last == y.last).associativity().unwrap();
}

// ---- structs of floats --------------------------------------------------------------------------

parascan::element! {
    /// x -> a x + b
    struct Map { a: f32, b: f32 }
}
// SAFETY of these texts: sums and products of floats.
parascan::operator! {
    /// Forgets to multiply.
    struct NotComposed on Map {
        associativity: Rounding,
        combine: |f, g| Map { a: g.a * f.a, b: f.b + g.a * g.b } => unsafe "{ b.a * a.a, a.b + b.a * b.b }",
    }
}
parascan::operator! {
    /// A wrong identity, and a CUDA body that differs.
    struct Composed on Map {
        associativity: Rounding,
        identity: Map { a: 1.0, b: 1e-6 },
        combine: |f, g| Map { a: g.a * f.a, b: g.a * f.b + g.b } => unsafe "{ b.a * a.a, b.a * a.b + b.b * 1.00001f }",
    }
}
parascan::operator! {
    struct Truncating on Map {
        associativity: Rounding,
        combine: |f, g| Map { a: g.a * f.a, b: f32::from_bits((g.a * f.b + g.b).to_bits() & !0xff) } => unsafe "a",
    }
}
#[test]
fn structs_of_floats_have_a_bound_of_their_own() {
    not_associative(laws::of::<NotComposed, Map>().check());
    not_associative(laws::of::<Truncating, Map>().check());
    laws::of::<Composed, Map>().associativity().unwrap();
    let outcome = laws::of::<Composed, Map>().identity();
    assert!(matches!(outcome, Err(Violation::Identity { .. })), "{outcome:?}");
    let _context = or_skip!(context());
    let outcome = laws::of::<Composed, Map>().agreement();
    assert!(matches!(outcome, Err(Violation::Agreement { .. })), "{outcome:?}");
}

#[test]
fn a_strategy_without_values() {
    let none = any::<i32>().prop_filter("none will do", |_| false);
    let outcome = laws::of::<Minus, i32>().values(none).check();
    assert!(matches!(&outcome, Err(Violation::NoValues { reason, .. }) if reason.contains("rejects")), "{outcome:?}");
}

/// What a test prints when it returns or unwraps a violation.
#[test]
fn a_violation_reads_well() {
    let shown = format!("{:?}", laws::of::<Minus, i32>().check().unwrap_err());
    assert!(shown.contains("Minus is not associative on i32:\n    a = 0\n    b = 0\n    c = "), "{shown}");
    assert!(shown.contains("\n    (a b) c = ") && shown.contains("\n    a (b c) = "), "{shown}");
}
