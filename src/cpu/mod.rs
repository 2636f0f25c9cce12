//! The CPU engine: the two layers of the core, on rayon's threads.
//!
//! | layer | what it does | use it for |
//! |---|---|---|
//! | [`pipeline()`] | a [`Source`] makes carries, a [`Sink`] is given their prefixes | scans, compaction, offsets |
//! | [`hand_over`] | tiles publish an aggregate and receive a prefix | what works on whole tiles: a radix sort's pass |
//!
//! The pipeline is built on the hand-over, and every primitive of the library on one of the two.

pub(crate) mod compact;
mod handover;
mod lanes;
mod offsets;
mod pipeline;
mod scan;
pub(crate) mod segments;
pub(crate) mod sort;
mod sync;

/// A number of bytes or items from which on the engine takes another path. Miri, which is a thousand times slower than the machine,
/// divides it by 256, so that a few hundred items take every path.
const fn threshold(size: usize) -> usize {
    if cfg!(miri) { size >> 8 } else { size }
}

pub use handover::hand_over;
pub(crate) use offsets::{Offset, Size, offsets};
pub use pipeline::{Sink, Source, pipeline};
pub(crate) use scan::scan;
