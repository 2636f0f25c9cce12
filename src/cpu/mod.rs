//! The CPU engine: the two layers of the core, on rayon's threads.
//!
//! | layer | what it does | use it for |
//! |---|---|---|
//! | [`pipeline()`] | a [`Source`] makes carries, a [`Sink`] is given their prefixes | scans, compaction, offsets |
//! | [`hand_over`] | tiles publish an aggregate and receive a prefix | work on whole tiles, such as a stable counting pass |
//!
//! The pipeline stands on the hand-over; scan, compaction, offsets, scan and reduce by segment, and
//! scan by column stand on one of the two.
//! Reduce, also by column, the radix sort, compaction in place, pack and expand stand on neither: their threads share
//! work by halves, by tiles, by histograms and by search.

mod call;
pub(crate) mod columns;
pub(crate) mod compact;
mod handover;
mod lanes;
mod offsets;
mod pipeline;
#[cfg(test)]
mod random;
mod reduce;
mod scan;
pub(crate) mod segmented;
pub(crate) mod segments;
pub(crate) mod sort;
mod sync;
#[cfg(test)]
mod threads;

/// A number of bytes or items from which on the engine takes another path. Miri divides it by 256,
/// because it is a thousand times slower than the machine: a few hundred items then take every
/// path.
const fn threshold(size: usize) -> usize {
    if cfg!(miri) { size >> 8 } else { size }
}

pub(crate) use call::{Call, integer};
pub use handover::hand_over;
pub(crate) use offsets::{Offset, Size, offsets};
pub(crate) use pipeline::SMALL_BYTES;
pub use pipeline::{Sink, Source, pipeline};
pub(crate) use reduce::reduce;
pub(crate) use scan::scan;
