//! Parallel primitives for CUDA GPUs and for the CPU, built on one scan that takes any associative operator and any element
//! type.
//!
//! ```
//! use parascan::{Max, Sum, scan};
//!
//! let prices = vec![3, 1, 4, 1, 5];
//! let highest = scan::<Max, i32>().run(&prices)?;              // &[i32] in, Vec<i32> out: on this machine's cores
//! assert_eq!(highest, [3, 3, 4, 4, 5]);
//!
//! let sizes = [10_u64, 20, 30];
//! let starts = scan::<Sum, u64>().exclusive().run(&sizes)?;
//! assert_eq!(starts, [0, 10, 30]);
//! # Ok::<(), parascan::Error>(())
//! ```
//!
//! The same on a GPU: where the data is decides where the work runs.
//!
//! ```no_run
//! use parascan::{Max, Sum, Workspace, cuda, scan};
//!
//! let stream = cuda::context(0)?.new_stream().unwrap();        // cudarc's own types
//! let prices = stream.clone_htod(&[3, 1, 4, 1, 5]).unwrap();
//! let highest = scan::<Max, i32>().run(&prices)?;              // &CudaSlice<i32> in, CudaSlice<i32> out, on its stream
//!
//! let mut gains = stream.clone_htod(&[1.0, 2.0, 4.0]).unwrap();
//! let mut workspace = Workspace::new(&stream);
//! scan::<Sum, f32>().prepare(gains.len(), &mut workspace)?;
//! scan::<Sum, f32>().reverse().workspace(&mut workspace).run_in_place(&mut gains)?; // nothing is allocated
//! # Ok::<(), parascan::Error>(())
//! ```
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | [`scan`] | the scan, a builder: [`Scan`] has its options |
//! | [`compact()`], [`partition()`], [`unique()`] | what is kept, together and in order: [`Compact`], [`Partition`], [`ThreeWay`], [`Unique`] |
//! | [`Predicate`], [`Above`], [`Within`], [`NonZero`], [`Finite`], [`Not`] and others | by what it is kept |
//! | [`offsets()`], [`Offsets::allocate`] | where sizes begin one after the other, and one buffer for them: [`Allocation`] |
//! | [`pack()`], [`expand()`] | segments of any lengths into one buffer, and the way back |
//! | [`sort()`] | keys in order, alone, with a payload, or where they were: [`Sort`] |
//! | [`Sum`], [`Product`], [`Max`], [`Min`], [`BitAnd`], [`BitOr`], [`BitXor`], [`Last`] | the operators of the catalog |
//! | [`operators`] | more of them: recurrences, automata, extremes and where they are, softmax, variance, segments |
//! | [`element!`], [`operator!`], [`predicate!`] | for elements, operators and predicates of your own; [`Operator`], [`Element`] and [`Predicate`] by hand, with [`DeviceCode`] |
//! | [`Source`], [`Destination`], [`Place`] | host slices and cudarc's buffers |
//! | [`Workspace`], [`Scan::prepare`] | scratch memory kept between calls; CUDA graphs |
//! | [`Strategy`], [`Block`] | which algorithm on the device |
//! | [`networks`], [`Network`], [`Scan::work`] | the scan networks of the textbook, as plain functions; what a scan by them costs |
//! | [`cpu`], [`cuda`] | the engines, and the two layers that primitives are built on |
//! | [`Scan::run_raw`] | addresses and a stream of the driver's, for stacks that do not use cudarc |
//! | `laws` (feature `laws`) | tests of an operator's laws, and of a predicate's |
//!
//! # What holds everywhere
//!
//! - Operands are combined in order: an operator need not be commutative.
//! - Integers wrap. Sums and products of f16 and bf16 are carried in f32 and rounded once for each output.
//! - The maximum and the minimum of floats: NaN wins, -0 is less than +0, every NaN in a result is
//!   the positive one with all bits of the mantissa set.
//! - Results are the same bits in every run; host and device may round a float sum differently.
//! - Nothing is copied between host and device behind your back, nothing waits for the device, and no error is a panic.
//!
//! # Where it is slower
//!
//! On the CPU a short slice that is in the cache already gains nothing over a hand-written loop, unless the operator is a vector
//! instruction on integers. Kernels of an operator of your own are compiled at their first use, and then kept on disk.

#[macro_use]
mod catalog;
pub mod cpu;
pub mod cuda;
mod device_code;
mod element;
mod error;
#[cfg(feature = "laws")]
pub mod laws;
mod memory;
pub mod networks;
mod operator;
pub mod operators;
mod own;
#[path = "../primitives/mod.rs"]
mod primitives;
mod site;
mod submit;
mod workspace;

pub use cudarc;
pub use device_code::DeviceCode;
pub use element::{Element, Keyed};
pub use error::Error;
pub use memory::{Destination, Device, Host, Place, Source};
pub use networks::Network;
pub use operator::{Associativity, BitAnd, BitOr, BitXor, Last, Max, Min, Operator, Product, Sum};
#[doc(hidden)]
pub use own::__own;
pub use primitives::allocate::{Allocation, Holds};
pub use primitives::choice::{ByBits, ByFlags, ByPredicate, Changes, Chosen, Index, Unchosen, Word};
pub use primitives::compact::{Compact, compact};
pub use primitives::expand::{Expand, expand};
pub use primitives::offsets::{Offsets, Size, offsets};
pub use primitives::pack::{Pack, pack};
pub use primitives::partition::{Partition, partition};
pub use primitives::predicate::{
    Above, AtLeast, AtMost, Below, Equal, Finite, NonZero, Not, NotEqual, Ordered, Predicate, Within,
};
pub use primitives::scan::{Scan, scan};
pub use primitives::sort::{Sort, SortKey, sort};
pub use primitives::strategy::{Block, Strategy, Work};
pub use primitives::three_way::ThreeWay;
pub use primitives::unique::{Unique, unique};
pub use site::{Anywhere, On, OnDevice, Site, Unbound, With};
pub use workspace::Workspace;
