//! Parallel primitives built on one scan.
#[macro_use]
mod catalog;
mod element;
mod error;
mod operator;
pub mod cpu;

pub use cudarc;
pub use element::{Element, Keyed};
pub use error::Error;
pub use operator::{Associativity, BitAnd, BitOr, BitXor, Last, Max, Min, Operator, Product, Sum};
