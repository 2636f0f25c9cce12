//! Parallel primitives built on one scan.
#[macro_use]
mod catalog;
pub mod cpu;
pub mod cuda;
mod element;
mod error;
#[cfg(feature = "laws")]
pub mod laws;
mod memory;
mod operator;
mod scan;
mod strategy;
mod workspace;

pub use cudarc;
pub use element::{Element, Keyed};
pub use error::Error;
pub use memory::{Destination, Device, Host, Place, Source};
pub use operator::{Associativity, BitAnd, BitOr, BitXor, Last, Max, Min, Operator, Product, Sum};
pub use scan::{Anywhere, On, Scan, Site, With, scan};
pub use strategy::{Block, Strategy};
pub use workspace::Workspace;
