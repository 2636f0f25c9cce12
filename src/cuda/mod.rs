//! The CUDA engine.
//!
//! A call goes from the builder ([`Scan`](crate::Scan)) to a plan, which says the kernels, their
//! blocks and the scratch memory, and to the launch ([`Kernels`]).
//!
//! # The two layers
//! Primitives stand on two templates in `cuda-templates`. The CPU engine has the same two layers
//! ([`cpu`](crate::cpu)):
//!
//! - `core/handover.cuh`: a tile publishes its aggregate and receives its exclusive prefix. It has
//!   three ways: `PrefixServer` (one block serves all others), `LookBack` (each tile looks at the
//!   tiles before it) and `Chained` (each tile waits for the one before). `GivenPrefixes` takes
//!   prefixes that an earlier kernel has computed.
//! - `core/pipeline.cuh`: `Pipeline<Operator, Source, Sink, Slot, Shape, Join>`. The source gives
//!   item i and its carry. The sink receives each item with its exclusive and inclusive prefix.
//!
//! A primitive outside the library uses them through [`Kernels::compile`].

mod arguments;
mod cache;
pub(crate) mod columns;
mod compact;
mod compiler;
mod contract;
mod driver;
mod entry_points;
#[cfg(all(test, target_os = "linux"))]
mod fakes;
mod image;
mod includes;
pub(crate) mod kernels;
mod known;
mod library;
mod nvrtc;
pub(crate) mod offsets;
mod once_map;
mod plan;
#[cfg(test)]
mod prebuilt; // build.rs uses it
#[cfg(test)]
mod ptx; // as above
pub(crate) mod reduce;
mod scan;
pub(crate) mod segmented;
pub(crate) mod segmented_sort;
pub(crate) mod segments;
pub(crate) mod sort;
mod tuning;
mod unit;

pub(crate) use arguments::Arguments;
pub(crate) use compact::unit::{FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES};
pub(crate) use compact::{
    ArrayColumn, BitsKind, ChoiceKind, ColumnKind, CompactArguments, CompactProgram, DistinctKind, FlagsKind, NoColumn,
    PartOutputs, Payload, PredicateKind, SourceIndices, Staged, TwoParameters, TwoPredicatesKind,
};
#[doc(hidden)]
pub use driver::Current;
pub(crate) use driver::{bind, check};
pub use driver::{borrow_stream, context};
pub use kernels::Kernels;
pub(crate) use kernels::Machine;
pub(crate) use library::Caller;
pub use library::IMAGES;
#[cfg(test)]
pub(crate) use library::compile_all;
pub(crate) use scan::{Plan, ScanProgram, load};
pub(crate) use sort::KeyKind;
#[doc(hidden)]
pub use sort::sample_seed;
#[doc(hidden)]
pub use unit::Field;
pub(crate) use unit::{Type, is_statements};
#[cfg(any(test, feature = "laws"))]
pub(crate) use {compact::test, scan::unit_of};
