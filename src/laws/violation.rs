//! The error of a broken law.

use crate::Error;
use std::fmt::{self, Debug};

/// The law that an operator or a predicate breaks, and the counterexample.
///
/// `Debug` prints the same text as `Display`, so that the text is readable from `unwrap` and from a
/// test that returns it.
///
/// # Example
/// ```
/// use parascan::laws;
///
/// parascan::operator! {
///     struct Minus on i32 {
///         associativity: Exact,
///         combine: |a, b| a.wrapping_sub(b),
///     }
/// }
/// let violation = laws::of::<Minus, i32>().check().unwrap_err();
/// assert!(matches!(violation, laws::Violation::Associativity { .. }));
/// println!("{violation}");
/// ```
/// ```text
/// Minus is not associative on i32:
///     a = 0
///     b = 0
///     c = 1
///     (a b) c = -1
///     a (b c) = 1
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two groupings have different results.
    #[error("{operator} is not associative on {element}:\n{counterexample}")]
    Associativity {
        /// The operator's type.
        operator: &'static str,
        /// The element's type.
        element: &'static str,
        /// The operands and the results, shrunk.
        counterexample: String,
    },
    /// The identity is not neutral.
    #[error("the identity of {operator} on {element} is not neutral:\n{counterexample}")]
    Identity {
        /// The operator's type.
        operator: &'static str,
        /// The element's type.
        element: &'static str,
        /// The operand and the results, shrunk.
        counterexample: String,
    },
    /// The Rust and the CUDA body have different results.
    #[error("the Rust and the CUDA body of {operator} on {element} disagree:\n{counterexample}")]
    Agreement {
        /// The operator's type, or the predicate's.
        operator: &'static str,
        /// The element's type.
        element: &'static str,
        /// The operands and the results, shrunk.
        counterexample: String,
    },
    /// The Rust body of a predicate panics. A panic in an operator is reported as a violation of
    /// the law being checked.
    #[error("{predicate} panics on {element}:\n{counterexample}")]
    Panic {
        /// The predicate's type.
        predicate: &'static str,
        /// The element's type.
        element: &'static str,
        /// The predicate and the item, shrunk, and the panic's message.
        counterexample: String,
    },
    /// The operator rounds, and no bound is known for its carry.
    #[error(
        "{operator} on {element} is `Rounding` and its carry has no floats known to the library: give `.close(...)` a measure of equality"
    )]
    NoBound {
        /// The operator's type.
        operator: &'static str,
        /// The element's type.
        element: &'static str,
    },
    /// The strategy gives no values.
    #[error("no values for {operator} on {element}: {reason}")]
    NoValues {
        /// The operator's type, or the predicate's.
        operator: &'static str,
        /// The element's type.
        element: &'static str,
        /// proptest's message.
        reason: String,
    },
    /// Agreement could not be checked: there is no device or no compiler, or the compiler refused
    /// the CUDA body.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
