//! Checks of the laws that an operator or a predicate must keep, for its tests (feature `laws`).
//!
//! A scan groups its operands freely and may start from the identity. On a GPU it runs the
//! operator's CUDA body instead of the Rust body. So an operator must be associative, its identity
//! must be neutral on both sides, and its two bodies must be the same function. One line of a test
//! checks these laws on random values and prints the smallest counterexample that it finds:
//!
//! ```
//! use parascan::{DeviceCode, Operator, laws};
//!
//! #[derive(Clone, Copy)]
//! struct Gcd;
//! impl Operator<u32> for Gcd {
//! #   type Carry = u32;
//! #   fn lift(x: u32) -> u32 { x }
//! #   fn lower(x: u32) -> u32 { x }
//! #   fn combine(mut a: u32, mut b: u32) -> u32 {
//! #       while b != 0 { (a, b) = (b, a % b) }
//! #       a
//! #   }
//! #   const IDENTITY: Option<u32> = Some(0);
//! #   // SAFETY: it ends, since b shrinks, and divides by nothing but a b that is not zero.
//! #   const CUDA: DeviceCode<Self, u32> =
//! #       unsafe { DeviceCode::new("while (b) { unsigned t = a % b; a = b; b = t; } return a;") };
//!     // ...
//! }
//!
//! laws::of::<Gcd, u32>().check()?; // the body of a #[test] that returns Result<(), laws::Violation>
//! # Ok::<(), laws::Violation>(())
//! ```
//!
//! | check | compares |
//! |---|---|
//! | [`associativity`](Laws::associativity) | `(a b) c` with `a (b c)` |
//! | [`identity`](Laws::identity) | `identity a` and `a identity` with `a` |
//! | [`agreement`](Laws::agreement) | `lift`, `combine` and `lower` in Rust and on the GPU |
//! | [`exhaustive_agreement`](Laws::exhaustive_agreement) | the same on all values and pairs |
//! | [`check`](Laws::check) | the first three |
//!
//! [`of_predicate`] compares the two bodies of a predicate, on random parameters and items.
//!
//! # Operands
//! `a`, `b` and `c` are partial results of one to three elements, so carries that no single element
//! lifts to occur too. A proptest strategy draws the elements: [`any_bits`], or one of yours
//! ([`values`](Laws::values)). Each law is checked on 1024 cases, or on `PROPTEST_CASES`.
//!
//! # What counts as equal
//! If the operator is [`Associativity::Exact`], two carries are equal if they have the same bits,
//! also for NaN and zeros.
//!
//! If it is [`Associativity::Rounding`] and the carry is a float, two carries are equal if they
//! have the same bits, if both are NaN, or if they differ by at most `8 E M`. `E` is the epsilon of
//! the float type. `M` is the largest finite magnitude among the operands, the intermediate results
//! and the final results, and at least the least normal number. The bound is relative to the
//! operands and not to the result, since a sum that cancels keeps the absolute error of its terms.
//! Two groupings of three terms round four times, each time by at most `E / 2` of at most `3 M`,
//! which the bound covers. Overflow and underflow are no rounding: a triple is skipped if a
//! combination of two finite operands is not finite, or if a combination of two operands other than
//! zero is zero or subnormal. Agreement skips nothing.
//!
//! If the carry is a struct of floats that [`element!`](crate::element) defined, the bound of each
//! float comes from the operator. Every float among the operands and intermediate results is moved
//! up or down by an epsilon of itself, in eight trials. The bound is eight times the largest move
//! of the result, plus `8 E` of the float itself, plus the least normal number. Other fields must
//! be the same. Operands are skipped if a float is not finite, or is outside the middle third of
//! the range of exponents and not zero; agreement skips only the latter. Besides any bits,
//! [`ordinary`] numbers are tried.
//!
//! A rounding operator whose carry is anything else needs [`close`](Laws::close).

mod agreement;
mod device;
mod measure;
mod predicate;
mod search;
mod values;
mod violation;

pub use predicate::{PredicateLaws, of_predicate};
pub use proptest;
pub use values::{any_bits, ordinary};
pub use violation::Violation;

use crate::{Associativity, Element, Error, Operator};
use bytemuck::bytes_of;
use measure::Measure;
use proptest::strategy::{BoxedStrategy, Strategy};
use search::{Law, Operand, fold, results, shown, smallest};
use std::any::type_name;
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::sync::Arc;
use values::{Bytes, Layout, any_bytes, ordinary_bytes};

/// The laws of `Op` on `T`.
///
/// Returns a builder; [`Laws`] has its options. The [module](self) says what is compared and how.
///
/// # Example
/// ```
/// use parascan::{Max, laws};
/// laws::of::<Max, f32>().check().unwrap();
/// ```
pub fn of<Op: Operator<T>, T: Element + Debug>() -> Laws<Op, T> {
    let exact = Op::ASSOCIATIVITY == Associativity::Exact;
    let more = if exact { None } else { Some(ordinary_bytes(Layout::of::<T>())) };
    Laws { values: any_bytes(Layout::of::<T>()), more, measure: Measure { exact, close: None }, operator: PhantomData }
}

/// A builder of the checks of an operator, made by [`of`].
#[must_use = "nothing is checked until `check`, `associativity`, `identity` or `agreement`"]
pub struct Laws<Op: Operator<T>, T: Element + Debug> {
    values: BoxedStrategy<Bytes>,
    /// A second strategy for associativity and the identity.
    more: Option<BoxedStrategy<Bytes>>,
    measure: Measure<Op::Carry>,
    operator: PhantomData<fn() -> Op>,
}

impl<Op: Operator<T>, T: Element + Debug> Clone for Laws<Op, T> {
    fn clone(&self) -> Self {
        Laws {
            values: self.values.clone(),
            more: self.more.clone(),
            measure: self.measure.clone(),
            operator: PhantomData,
        }
    }
}

impl<Op: Operator<T>, T: Element + Debug> Debug for Laws<Op, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Laws").field("values", &self.values).field("close", &self.measure.close.is_some()).finish()
    }
}

// ---- options ------------------------------------------------------------------------------------

impl<Op: Operator<T>, T: Element + Debug> Laws<Op, T> {
    /// Draws elements from this proptest strategy instead of [`any_bits`]: for elements with an
    /// invariant.
    ///
    /// # Example
    /// ```
    /// use parascan::{Sum, laws};
    /// laws::of::<Sum, f64>().values(0.0..1.0).check().unwrap();
    /// ```
    pub fn values(mut self, values: impl Strategy<Value = T> + 'static) -> Self {
        self.values = values.prop_map(|x| bytes_of(&x).to_vec()).boxed();
        self.more = None;
        self
    }

    /// Replaces the measure of equality of an operator that rounds: two carries are equal if
    /// `close(one, other, from)`.
    ///
    /// `from` holds the operands and the intermediate results. Carries of the same bits are always
    /// equal. For an [`Associativity::Exact`] operator only the bits count, with or without
    /// `close`.
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, proptest::prelude::*};
    /// use parascan::operators::{Affine, Compose};
    ///
    /// let maps = (-1.0f32..1.0, -1.0f32..1.0).prop_map(|(a, b)| Affine { a, b });
    /// laws::of::<Compose, Affine<f32>>()
    ///     .values(maps)
    ///     .close(|x, y, _| (x.a - y.a).abs() <= 1e-5 && (x.b - y.b).abs() <= 1e-5)
    ///     .check()
    ///     .unwrap();
    /// ```
    pub fn close(mut self, close: impl Fn(Op::Carry, Op::Carry, &[Op::Carry]) -> bool + Send + Sync + 'static) -> Self {
        self.measure.close = Some(Arc::new(close));
        self
    }
}

// ---- the laws -----------------------------------------------------------------------------------

impl<Op: Operator<T>, T: Element + Debug> Laws<Op, T> {
    /// Checks associativity, the identity, and agreement. Without a GPU or a compiler, a line on
    /// stderr says that agreement was skipped.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    ///
    /// # Example
    /// ```
    /// use parascan::{Last, laws};
    /// laws::of::<Last, u8>().check().unwrap();
    /// ```
    pub fn check(&self) -> Result<(), Violation> {
        self.associativity()?;
        self.identity()?;
        skipped::<Op, T>(self.agreement())
    }

    /// Checks that `(a b) c` equals `a (b c)`.
    ///
    /// # Errors
    /// [`Violation::Associativity`] with the smallest counterexample found; [`Violation::NoBound`];
    /// [`Violation::NoValues`].
    ///
    /// # Example
    /// ```
    /// use parascan::{Product, laws};
    /// laws::of::<Product, f32>().associativity().unwrap();
    /// ```
    pub fn associativity(&self) -> Result<(), Violation> {
        let law = |operands: &[Operand]| {
            let (a, b, c) = (fold::<Op, T>(&operands[0]), fold::<Op, T>(&operands[1]), fold::<Op, T>(&operands[2]));
            let (ab, bc) = (Op::combine(a, b), Op::combine(b, c));
            let (left, right) = (Op::combine(ab, c), Op::combine(a, bc));
            let steps = [[a, b, ab], [ab, c, left], [b, c, bc], [a, bc, right]];
            type Through<'a, C> = &'a dyn Fn(C) -> C;
            let to_left =
                |through: Through<Op::Carry>| Op::combine(through(Op::combine(through(a), through(b))), through(c));
            let to_right =
                |through: Through<Op::Carry>| Op::combine(through(a), through(Op::combine(through(b), through(c))));
            if self.measure.passes_over(&steps)
                || self.measure.passes_over_operands(&[a, b, c])
                || self.measure.same(left, right, &[a, b, c, ab, bc], &[&to_left, &to_right])
            {
                return Ok(());
            }
            Err(results::<Op, T>(["(a b) c", "a (b c)"], left, right))
        };
        match self.search(&["a", "b", "c"], &law)? {
            None => Ok(()),
            Some(counterexample) => {
                let (operator, element) = (type_name::<Op>(), type_name::<T>());
                Err(Violation::Associativity { operator, element, counterexample })
            }
        }
    }

    /// Checks that the identity, if the operator has one, is neutral on both sides.
    ///
    /// # Errors
    /// [`Violation::Identity`] with the smallest counterexample found; [`Violation::NoBound`];
    /// [`Violation::NoValues`].
    ///
    /// # Example
    /// ```
    /// use parascan::{BitAnd, laws};
    /// laws::of::<BitAnd, u64>().identity().unwrap();
    /// ```
    pub fn identity(&self) -> Result<(), Violation> {
        let Some(identity) = Op::IDENTITY else { return Ok(()) };
        let law = |operands: &[Operand]| {
            let a = fold::<Op, T>(&operands[0]);
            if self.measure.passes_over_operands(&[a]) {
                return Ok(());
            }
            for (what, result) in [("identity a", Op::combine(identity, a)), ("a identity", Op::combine(a, identity))] {
                if !self.measure.same(a, result, &[a], &[&|through| through(a)]) {
                    return Err(results::<Op, T>([what, "a"], result, a));
                }
            }
            Ok(())
        };
        match self.search(&["a"], &law)? {
            None => Ok(()),
            Some(counterexample) => {
                let (operator, element) = (type_name::<Op>(), type_name::<T>());
                Err(Violation::Identity { operator, element, counterexample })
            }
        }
    }

    /// Checks that the Rust and the CUDA bodies have the same results, on the first GPU of this
    /// machine.
    ///
    /// Compares `lift` and `lower` of random elements, `combine` of every pair of some hundred
    /// partial results, and `lower` of the combined results. Waits for the compiler and for the
    /// GPU.
    ///
    /// # Errors
    /// [`Violation::Agreement`] with the smallest counterexample found; [`Violation::NoBound`];
    /// [`Violation::NoValues`]; [`Violation::Engine`] if there is no GPU or no compiler, or if the
    /// compiler refuses the CUDA body.
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, Violation};
    /// use parascan::{Error, Sum};
    /// match laws::of::<Sum, f32>().agreement() {
    ///     Err(Violation::Engine(Error::NoDriver { .. } | Error::NoDevice { .. })) => println!("no GPU here"),
    ///     agreement => agreement.unwrap(),
    /// }
    /// ```
    pub fn agreement(&self) -> Result<(), Violation> {
        self.bounded()?;
        agreement::random(self)
    }

    /// Checks agreement on all values of a small element.
    ///
    /// Compares `lift` and `lower` of every bit pattern. For elements of one or two bytes it also
    /// compares `combine` of every pair and `lower` of the combined results. The 2^32 pairs of a
    /// two-byte element take seconds on all cores in an optimised build.
    ///
    /// Does not compile for elements of more than four bytes.
    ///
    /// # Errors
    /// As [`agreement`](Laws::agreement). The counterexample is one of several, and not shrunk.
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, Violation};
    /// use parascan::{Error, Product};
    /// match laws::of::<Product, i8>().exhaustive_agreement() {
    ///     Err(Violation::Engine(Error::NoDriver { .. } | Error::NoDevice { .. })) => println!("no GPU here"),
    ///     agreement => agreement.unwrap(),
    /// }
    /// ```
    pub fn exhaustive_agreement(&self) -> Result<(), Violation> {
        const { assert!(size_of::<T>() <= 4, "elements of more than four bytes have too many values to try them all") };
        self.bounded()?;
        agreement::exhaustive(self)
    }

    /// An error if the operator rounds and no measure of equality is known for its carry.
    fn bounded(&self) -> Result<(), Violation> {
        if self.measure.is_known() {
            return Ok(());
        }
        Err(Violation::NoBound { operator: type_name::<Op>(), element: type_name::<T>() })
    }

    /// The lines of the smallest operands found that break `law`, with the law's message. `names`
    /// are the operands' names.
    fn search(&self, names: &[&str], law: Law) -> Result<Option<String>, Violation> {
        self.bounded()?;
        let found = smallest([Some(&self.values), self.more.as_ref()], names, shown::<T>, law);
        found.map_err(|reason| self.no_values(&reason))
    }

    fn no_values(&self, reason: &str) -> Violation {
        Violation::NoValues { operator: type_name::<Op>(), element: type_name::<T>(), reason: reason.to_owned() }
    }
}

/// Replaces an error for want of a GPU or a compiler by a line on stderr.
fn skipped<Bodies, T>(agreement: Result<(), Violation>) -> Result<(), Violation> {
    match agreement {
        Err(Violation::Engine(e @ (Error::NoDriver { .. } | Error::NoDevice { .. } | Error::NoCompiler { .. }))) => {
            eprintln!("skipped, agreement of {} on {}: {e}", type_name::<Bodies>(), type_name::<T>());
            Ok(())
        }
        agreement => agreement,
    }
}
