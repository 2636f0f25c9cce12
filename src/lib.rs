//! Parallel primitives for CUDA GPUs and for the CPU: scan and reduce by any associative operator on
//! any element type, compaction, partition, unique, offsets, pack, expand, and a stable radix sort.
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
//! The same on a GPU: the type of the data chooses the engine.
//!
//! ```no_run
//! use parascan::{Max, Sum, Workspace, cuda, scan};
//!
//! let stream = cuda::context(0)?.new_stream().unwrap();        // cudarc's own types
//! let prices = stream.clone_htod(&[3, 1, 4, 1, 5]).unwrap();
//! let highest = scan::<Max, i32>().run(&prices)?;              // &CudaSlice<i32> in, CudaSlice<i32> out, on its stream
//!
//! let other = stream.context().new_stream().unwrap();
//! let highest = scan::<Max, i32>().on(&other).run(&highest)?;  // on another stream, after the work on the first
//!
//! let mut gains = stream.clone_htod(&[1.0, 2.0, 4.0]).unwrap();
//! let mut workspace = Workspace::new(&stream);
//! scan::<Sum, f32>().prepare(gains.len(), &mut workspace)?;
//! scan::<Sum, f32>().reverse().workspace(&mut workspace).run_in_place(&mut gains)?; // nothing is allocated
//! # Ok::<(), parascan::Error>(())
//! ```
//!
//! # Contents
//!
//! | item | purpose |
//! |---|---|
//! | [`scan`] | all prefixes of a sequence: [`Scan`] |
//! | [`reduce()`], [`Reduce`] | all items combined into one |
//! | [`SegmentedScan`], [`SegmentedReduce`], [`RunReduce`] | the same of each segment: rows, offsets, head flags, head bits or keys |
//! | [`ColumnScan`], [`ColumnReduce`] | the same of each column of a matrix |
//! | [`Reduce::position`] | the index of the greatest or the least item |
//! | [`compact()`], [`Compact`] | the selected items |
//! | [`partition()`], [`Partition`], [`ThreeWay`] | the selected items, then the rejected items |
//! | [`unique()`], [`Unique`] | the first item of each run of equal items |
//! | [`Predicate`], [`Above`], [`Within`], [`Finite`], [`Not`] and others | predicates |
//! | [`offsets()`], [`Offsets`] | the exclusive sum of sizes |
//! | [`Offsets::allocate`], [`Allocation`] | one buffer for segments of these sizes |
//! | [`pack()`], [`Pack`] | segments gathered into one buffer |
//! | [`expand()`], [`Expand`] | the segment of each packed item |
//! | [`sort()`], [`Sort`] | a stable sort of keys, keys with a payload, or source indices |
//! | [`SegmentedSort`] | the same of each segment |
//! | [`Strided`] | rows of a wider matrix, by scan, reduce and sort |
//! | [`Sum`], [`Product`], [`Max`], [`Min`] | operators whose kernels a build can embed |
//! | [`BitAnd`], [`BitOr`], [`BitXor`], [`Last`] | operators whose kernels a build can embed |
//! | [`operators`] | recurrences, automata, extremes with indices, softmax, variance, segments |
//! | [`element!`], [`operator!`], [`predicate!`] | elements, operators and predicates of your own |
//! | [`Element`], [`Operator`], [`Predicate`], [`DeviceCode`] | the same without the macros |
//! | [`Source`], [`Destination`], [`Place`] | inputs and outputs: host slices, cudarc's buffers |
//! | [`Workspace`], [`Scan::prepare`] | scratch memory kept between calls; CUDA graphs |
//! | [`Strategy`], [`Block`] | the algorithm of a scan on the device |
//! | [`networks`], [`Network`] | the textbook's scan networks as plain functions |
//! | [`Scan::work`] | the cost of a scan by these networks |
//! | [`cpu`], [`cuda`] | the engines, and the two layers that primitives are built on |
//! | [`RawSlice`], [`cuda::borrow_stream`], [`Workspace::over`] | addresses, streams and scratch memory of stacks that do not use cudarc |
//! | [`Scan::run_raw`] | the same for a scan alone, in one call |
//! | `dynamic` (feature `dynamic`) | types and operators that are known at run time only |
//! | `dlpack` (feature `dlpack`) | tensors of other libraries |
//! | `laws` (feature `laws`) | tests of the laws of an operator or a predicate |
//!
//! # Calls
//!
//! Every primitive is a builder: a function makes it, its methods set options, and one call runs
//! it. The calls have the same names in all builders:
//!
//! | call | meaning |
//! |---|---|
//! | `run`, `run_pairs`, `indices` | return new memory; may wait for its length |
//! | `run_into`, `run_pairs_into`, `indices_into` | write into the caller's memory; never wait |
//! | `run_in_place`, `run_pairs_in_place` | replace the input |
//! | `on(&stream)` | runs on this stream |
//! | `workspace(&mut workspace)` | runs on the workspace's stream, with its scratch memory |
//! | `prepare(n, &mut workspace)` | loads kernels and grows the workspace |
//! | `len(&count)` | takes the number of items from memory |
//!
//! On the host a call returns when the work is done. The threads of rayon's current pool share the
//! work; the calling thread does all of it on short inputs. rayon starts its threads at the first long call, and
//! panics if the system refuses them.
//!
//! On the device a call waits if it returns what the device computes: a value (`reduce`, `position`), counts
//! (`partition`), a total (`offsets`), or new memory whose length depends on the data. Calls into the caller's
//! memory never wait for the device.
//!
//! With a workspace, after `prepare`, calls into the caller's memory can be captured into a CUDA graph, but for rows
//! with a stride. cudarc's event tracking must be off before the buffers are allocated ([`Workspace`] has an
//! example). A graph keeps addresses, lengths and values; what lies in device memory, `len` too, is read in each
//! replay.
//!
//! Any number of threads may call at once, on one device too. A workspace serves one call at a time, from any
//! thread. Of threads that need the same kernels for the first time at once, one loads them and the others wait.
//!
//! A call runs on one GPU, that of its buffers; arguments on another are [`Error::WrongDevice`]. Several GPUs take a
//! context, a stream and a workspace each, and the caller combines their results.
//!
//! # Guarantees
//!
//! - Operands are combined in order: an operator need not be commutative.
//! - Integers wrap. Sums and products of f16 and bf16 are carried in f32, and rounded once for each
//!   output.
//! - In the maximum and the minimum of floats NaN wins, -0 is less than +0, and every NaN of a
//!   result is the positive one with all bits of the mantissa set. Sorts are in IEEE 754's
//!   totalOrder, but NaNs with the sign set come last of all. The predicates `Above`, `Below`,
//!   `Within` and `Equal` reject NaN, `NotEqual` and `NonZero` select it. To [`unique()`] no two NaNs
//!   are equal; to `by_key` keys are equal if their bytes are.
//! - Results have the same bits in every run on one machine. A float sum may be rounded differently
//!   on the host and on the device, on another GPU architecture, and on a machine without NVRTC.
//! - The library never copies data between host and device unasked, no call into the caller's
//!   memory waits for the device, and no error is a panic, unless the system refuses rayon its threads.
//!
//! # Where it is slower
//!
//! On the CPU a scan of a short slice that is in the cache is no faster than a hand-written loop,
//! unless the operator is a vector instruction on integers. The first use of an operator of your
//! own compiles its kernels, which then stay on disk.
//!
//! # Requirements
//!
//! Rust 1.88 and a 64-bit host. For GPUs: driver 12.0 or newer, Turing or newer, and either NVRTC (`pip
//! install nvidia-cuda-nvrtc`) or the prebuilt PTX of the published packages.

#[macro_use]
mod catalog;
pub mod cpu;
pub mod cuda;
mod device_code;
#[cfg(feature = "dlpack")]
pub mod dlpack;
#[cfg(feature = "dynamic")]
pub mod dynamic;
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
mod raw;
mod site;
mod submit;
mod workspace;

pub use cudarc;
pub use device_code::DeviceCode;
pub use element::{Element, Keyed};
pub use error::Error;
pub use memory::{Destination, Device, Host, Place, Source};
pub use networks::Network;
pub use operator::{Associativity, BitAnd, BitOr, BitXor, Extremum, Last, Max, Min, Operator, Product, Sum};
#[doc(hidden)]
pub use own::__own;
pub use primitives::allocate::{Allocation, Holds};
pub use primitives::arguments::{Index, Word};
pub use primitives::choice::{ByBits, ByFlags, ByPredicate, Changes, Chosen, Unchosen};
pub use primitives::column_reduce::ColumnReduce;
pub use primitives::column_scan::ColumnScan;
pub use primitives::compact::{Compact, compact};
pub use primitives::expand::{Expand, expand};
pub use primitives::offsets::{Offsets, Size, offsets};
pub use primitives::pack::{Pack, pack};
pub use primitives::partition::{Partition, partition};
pub use primitives::predicate::{
    Above, AtLeast, AtMost, Below, Equal, Finite, NonZero, Not, NotEqual, Ordered, Predicate, Within,
};
pub use primitives::reduce::{Reduce, reduce};
pub use primitives::run_reduce::RunReduce;
pub use primitives::scan::{Scan, scan};
pub use primitives::segmented::{ByHeadBits, ByHeads, ByKeys, ByOffsets, Rows, Segmentation, Segments};
pub use primitives::segmented_reduce::SegmentedReduce;
pub use primitives::segmented_scan::SegmentedScan;
pub use primitives::segmented_sort::SegmentedSort;
pub use primitives::sort::{Sort, SortKey, sort};
pub use primitives::strategy::{Block, Strategy, Work};
pub use primitives::strided::Strided;
pub use primitives::three_way::ThreeWay;
pub use primitives::unique::{Unique, unique};
pub use raw::RawSlice;
pub use site::{AnySite, Anywhere, Counted, On, OnDevice, Site, Unbound, With};
pub use workspace::Workspace;
