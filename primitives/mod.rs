//! The primitives: one file each, from the call to the engine.
//!
//! Each file has the same order: the constructor, the builder with its documentation, its options,
//! `prepare`, the calls that run it, then how it runs on the host and on the device. The type of
//! the data chooses the engine.
//!
//! | primitive | builder | host engine | device engine | templates | tests | bench `versus` | docs |
//! |---|---|---|---|---|---|---|---|
//! | scan | `scan.rs`, `strategy.rs` | `cpu::scan` | `cuda::scan::ScanArguments::launch` | `scan/`, `textbook/` | `tests/scan` | `main.rs`, `custom.rs`, `shapes.rs`, `ladder.rs` | `scan.md`, `scan-algorithms.md` |
//! | compaction | `compact.rs` | `cpu::compact::compact` | `cuda::compact::CompactArguments::launch` | `compact/` | `tests/compact` | `compact.rs` | `compact.md` |
//! | unique | `unique.rs` | as compaction | as compaction | `compact/` | `tests/compact` | `compact.rs` | `compact.md` |
//! | partition | `partition.rs`, `three_way.rs` | `cpu::compact::compact` | `CompactArguments::launch`, `launch_one_buffer` | `compact/` | `tests/compact` | `compact.rs` | `compact.md` |
//! | offsets | `offsets.rs`, `allocate.rs` | `cpu::offsets` | `cuda::offsets::OffsetsArguments::launch` | `offsets/` | `tests/offsets` | `segments.rs` | `offsets.md` |
//! | pack | `pack.rs` | `cpu::segments::pack` | offsets, then `cuda::segments::PackArguments::launch` | `segments/` | `tests/segments` | `segments.rs` | `segments.md` |
//! | expand | `expand.rs` | `cpu::segments::expand` | `cuda::segments::ExpandArguments::launch` | `segments/` | `tests/segments` | `segments.rs` | `segments.md` |
//! | sort | `sort.rs` | `cpu::sort::Sort::run` | `cuda::sort::SortArguments::launch` | `sort/` | `tests/sort` | `sort.rs` | `sort.md` |
//!
//! Compaction, unique and partition share `choice.rs`, which selects the items, and `predicate.rs`.
//! `src/site.rs` writes `on` and `workspace` for every builder.

pub(crate) mod allocate;
pub(crate) mod choice;
pub(crate) mod compact;
pub(crate) mod expand;
pub(crate) mod offsets;
pub(crate) mod pack;
pub(crate) mod partition;
pub(crate) mod predicate;
pub(crate) mod scan;
pub(crate) mod sort;
pub(crate) mod strategy;
pub(crate) mod three_way;
pub(crate) mod unique;
