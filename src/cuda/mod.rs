//! The CUDA engine.
//!
//! From the public call to the kernel: the builder ([`Scan`](crate::Scan)), this module's `scan` (which kernel, how much
//! scratch memory), the launch ([`Kernels`]).
//!
//! # The two layers
//! Primitives stand on two templates, in `cuda-templates`, the same two that the CPU engine has ([`cpu`](crate::cpu)):
//!
//! - `core/handover.cuh`: a tile publishes its aggregate and receives its exclusive prefix. `PrefixServer` (one block serves
//!   all others), `LookBack` (each tile looks at those before it) and `Chained` (each waits for the one before) are three ways,
//!   `GivenPrefixes` is for prefixes that an
//!   earlier kernel has made.
//! - `core/pipeline.cuh`: `Pipeline<Operator, Source, Sink, Slot, Shape, Join>`. The source says what item i is and counts as,
//!   the sink is given each item with its exclusive and inclusive prefix.
//!
//! A primitive outside the library uses them through [`Kernels::compile`].

mod cache;
mod compact;
mod contract;
mod driver;
mod entry_points;
mod image;
mod includes;
mod library;
mod nvrtc;
pub(crate) mod offsets;
#[cfg(test)]
mod prebuilt; // build.rs uses it
mod scan;
pub(crate) mod segments;
pub(crate) mod sort;
mod tuning;
mod unit;

pub(crate) use compact::unit::{FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES};
pub(crate) use compact::{
    ArrayColumn, BitsKind, ChoiceKind, ColumnKind, CompactArguments, CompactProgram, DistinctKind, FlagsKind, NoColumn,
    PartOutputs, Payload, PredicateKind, SourceIndices, Staged, TwoParameters, TwoPredicatesKind,
};
pub(crate) use driver::check;
pub use driver::context;
pub use library::Kernels;
#[cfg(test)]
pub(crate) use library::compile_all;
pub(crate) use scan::{Plan, ScanArguments, ScanProgram, load, loaded};
pub(crate) use sort::KeyKind;
#[doc(hidden)]
pub use unit::Field;
pub(crate) use unit::{Type, is_statements};
#[cfg(any(test, feature = "laws"))]
pub(crate) use {compact::test, scan::unit_of};
