//! The primitives: one file each, from the call to the engine.
//!
//! Each file has the same order: the constructor, the builder with its documentation, its options,
//! `prepare`, the calls that run it, then how it runs on the host and on the device. The type of
//! the data chooses the engine.
//!
//! The host engines are in `src/cpu/`, the device engines in `src/cuda/`:
//!
//! | primitive | builder | host engine | device engine |
//! |---|---|---|---|
//! | scan | `scan.rs`, `scan_engines.rs`, `strategy.rs` | `cpu::scan` | `Arguments::launch_scan` |
//! | reduce | `reduce.rs` | `cpu::reduce` | `Arguments::launch_reduce` |
//! | scan by segment | `segmented_scan.rs` | `cpu::segmented::scan` | `Arguments::launch_segmented_scan` |
//! | reduce by segment | `segmented_reduce.rs` | `cpu::segmented::reduce` | `Arguments::launch_segmented_reduce` |
//! | reduce of runs | `run_reduce.rs` | `cpu::segmented::begins`, `reduce` | `segmented::RunReduceArguments::launch` |
//! | sort by segment | `segmented_sort.rs` | `cpu::sort::SegmentedSort::run` | `segmented_sort::SegmentedSortArguments::launch` |
//! | scan by column | `column_scan.rs` | `cpu::columns::scan` | `Arguments::launch_columns` |
//! | reduce by column | `column_reduce.rs` | `cpu::columns::reduce` | as scan by column |
//! | compaction | `compact.rs`, `compact_engines.rs` | `cpu::compact::compact` | `compact::CompactArguments::launch` |
//! | unique | `unique.rs` | as compaction | as compaction |
//! | partition | `partition.rs`, `three_way.rs` | as compaction | also `launch_one_buffer` |
//! | offsets | `offsets.rs`, `allocate.rs` | `cpu::offsets` | `offsets::OffsetsArguments::launch` |
//! | pack | `pack.rs` | `cpu::segments::pack` | offsets, then `segments::PackArguments::launch` |
//! | expand | `expand.rs` | `cpu::segments::expand` | `segments::ExpandArguments::launch` |
//! | sort | `sort.rs`, `sort_engines.rs` | `cpu::sort::Sort::run` | `sort::SortArguments::launch` |
//!
//! The tests are in `tests/`, the benches in `benches/versus/`, the pages in `docs/`:
//!
//! | primitive | templates | tests | bench | docs |
//! |---|---|---|---|---|
//! | scan | `scan/` | `scan` | `main.rs`, `custom.rs`, `shapes.rs` | `scan.md` |
//! | a scan's strategies | `textbook/` | `scan` | `ladder.rs` | `scan-algorithms.md` |
//! | reduce | `reduce/` | `reduce` | `reduce.rs` | `reduce.md` |
//! | scan and reduce by segment | `segmented/` | `segmented` | `segmented.rs` | `segmented.md` |
//! | sort by segment | `segmented_sort/` | `segmented` | `segmented_sort.rs` | `segmented.md` |
//! | scan and reduce by column | `columns/` | `columns` | `segmented.rs` | `segmented.md` |
//! | compaction, unique, partition | `compact/` | `compact` | `compact.rs` | `compact.md` |
//! | offsets | `offsets/` | `offsets` | `segments.rs` | `offsets.md` |
//! | pack, expand | `segments/` | `segments` | `segments.rs` | `segments.md` |
//! | sort | `sort/` | `sort` | `sort.rs` | `sort.md` |
//!
//! Scans, reductions and sorts by segment share `segmented.rs`, which says where segments begin, and
//! `strided.rs`, which copies rows with a stride side by side. The three scans share `scan_engines.rs`,
//! their options and what leads to an engine. Both sorts share `sort_engines.rs`, which runs them.
//! Compaction, unique and partition share `choice.rs`, which selects the items, `predicate.rs`, and
//! `compact_engines.rs`, which runs them. All share `arguments.rs`, which checks lengths.
//! `src/site.rs` writes `on` and `workspace` for every builder.

pub(crate) mod allocate;
pub(crate) mod arguments;
pub(crate) mod choice;
pub(crate) mod column_reduce;
pub(crate) mod column_scan;
pub(crate) mod compact;
pub(crate) mod compact_engines;
pub(crate) mod expand;
pub(crate) mod offsets;
pub(crate) mod pack;
pub(crate) mod partition;
pub(crate) mod position;
pub(crate) mod predicate;
pub(crate) mod reduce;
pub(crate) mod run_reduce;
pub(crate) mod scan;
pub(crate) mod scan_engines;
pub(crate) mod segmented;
pub(crate) mod segmented_reduce;
pub(crate) mod segmented_scan;
pub(crate) mod segmented_sort;
pub(crate) mod sort;
pub(crate) mod sort_engines;
pub(crate) mod strategy;
pub(crate) mod strided;
pub(crate) mod three_way;
pub(crate) mod unique;
