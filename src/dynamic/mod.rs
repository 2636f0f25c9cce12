//! Run-time types: the primitives for an element type, an operator and memory that are known at run
//! time only.
//!
//! The builders have the names of the static ones, and run them. Lengths in memory, rows with a stride, `pack`,
//! `allocate`, payloads of a compaction or of unique, lexicographic sorts and sorts in a caller's buffer, predicates
//! with values, partition in three, scan strategies, and operators and elements of your own are static only. What a
//! static call does not compile for, such as [`Op::BitAnd`] on [`Type::F32`] or an output in host memory for an input on
//! a device, is an error here.
//!
//! | here | static |
//! |---|---|
//! | [`Type`] | the element type, `T` |
//! | [`Op`] | the operator, `Op` |
//! | [`View`], [`ViewMut`] | an input, an output: host slices, cudarc's buffers, addresses |
//! | [`Array`] | new memory: `Vec<T>`, `CudaSlice<T>` |
//! | [`Value`] | an item |
//! | [`scan`] | [`scan`](crate::scan()): also by rows, columns, offsets, heads and keys |
//! | [`reduce`] | [`reduce`](crate::reduce()): also the position, and by segment as a scan |
//! | [`sort`] | [`sort`](crate::sort()): keys, pairs, source indices; by segment |
//! | [`compact`], [`partition`] | [`compact`](crate::compact()), [`partition`](crate::partition()) by flags, bits, or not zero |
//! | [`unique`] | [`unique`](crate::unique()) |
//! | [`offsets`], [`expand`] | [`offsets`](crate::offsets()), [`expand`](crate::expand()) |
//!
//! # Example
//! ```
//! use parascan::dynamic::{Array, Op, Type, View, reduce, scan, sort};
//!
//! let table: [(&str, Array); 2] = [("prices", vec![3.0_f32, 1.0, 4.0].into()), ("sizes", vec![7_u16, 9, 8].into())];
//! for (name, column) in &table {
//!     let highest = scan(Op::Max).run(column.view())?;
//!     let least = reduce(Op::Min).run(column.view())?;
//!     println!("{name}, {}: {highest:?}, at least {least}", column.ty());
//! }
//! let order = sort().indices(View::new(&[2.5, 0.5, 1.0]), Type::U32)?;
//! assert_eq!(order.into_vec::<u32>().unwrap(), [1, 2, 0]);
//!
//! let refused = scan(Op::BitAnd).run(table[0].1.view()).unwrap_err();
//! assert_eq!(refused.to_string(), "scan: the operator BitAnd is not defined for f32");
//! # Ok::<(), parascan::Error>(())
//! ```
//!
//! # Index types
//! Indices and offsets are `u32` or `u64`; a count, a total and a position are one `u64`. Signed types of
//! the same bits are taken too, as other libraries have no unsigned ones. An index beyond the greatest `i32` is
//! negative there.
//!
//! # Cost
//! A call adds to the static one a match on type and operator, and checks of the arguments. A program
//! carries the code for all types and operators of the calls that it makes, and of no others.

mod lengths;
mod memory;
mod reduce;
mod scan;
mod segments;
mod select;
mod sort;
mod types;

pub use lengths::{Expand, Offsets, expand, offsets};
pub use memory::{Array, View, ViewMut};
pub use reduce::{ColumnReduce, Reduce, RunReduce, SegmentedReduce, reduce};
pub use scan::{ColumnScan, Scan, SegmentedScan, scan};
pub use select::{Compact, Partition, Unique, compact, partition, unique};
pub use sort::{SegmentedSort, Sort, sort};
pub use types::{Item, Op, Type, Value};
