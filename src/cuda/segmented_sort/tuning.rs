//! The shapes of the kernels of sort by segment, by architecture and the sizes of key and payload.

use crate::cuda::sort::tuning::{SORT_ARCHITECTURES, SortShape, sort_shape};

/// The shapes of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    /// A warp sorts small segments, those of up to `small.most()` items.
    pub(crate) small: SegmentGroup,
    /// A block sorts short ones, those of up to `short.most()`.
    pub(crate) short: SegmentGroup,
    /// A block sorts medium ones, those of up to `medium.most()`, where it may have so much shared memory.
    pub(crate) medium: SegmentGroup,
    /// The tiles of a partition step are those of the sort.
    pub(crate) sort: SortShape,
}

/// A warp or a block that sorts the segments that begin in its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentGroup {
    pub(crate) threads: usize,
    /// Items of a thread.
    pub(crate) items: usize,
    /// Positions of a chunk.
    pub(crate) chunk: usize,
    /// Bytes of shared memory: if all bits of the keys are compared, and if some are.
    pub(crate) shared: [usize; 2],
    /// Blocks of a multiprocessor.
    pub(crate) blocks: usize,
}

/// The warps of a block that sorts small segments.
pub(crate) const SMALL_WARPS: usize = 4;

impl SegmentGroup {
    /// The most items of a segment.
    pub(crate) const fn most(&self) -> usize {
        self.threads * self.items
    }
    /// `bytes`: of an item, as `shared`. `least`: longer segments are sorted. `beside`: other bytes.
    fn new(
        threads: usize,
        items: usize,
        chunk: usize,
        bytes: [usize; 2],
        least: usize,
        beside: usize,
        blocks: usize,
    ) -> SegmentGroup {
        // `SegmentList::Shared`: segments, and two words a warp.
        let beside = beside + 4 * (chunk / (least + 1) + 1 + 2 * threads / 32);
        let shared = bytes.map(|item| (threads * items * item + beside).next_multiple_of(16));
        SegmentGroup { threads, items, chunk, shared, blocks }
    }
}

/// The shapes for keys of `key` bytes and a payload of `payload` bytes, 4 or 8.
pub(crate) fn segment_shape(key: usize, payload: Option<usize>, architecture: u32) -> SegmentShape {
    let is_large = architecture >= SORT_ARCHITECTURES[0];
    // An item has its source if the order of equal keys can be observed: with a payload, or by some bits.
    let bytes = |with_source: usize| [if payload.is_none() { key.max(4) } else { with_source }, with_source];
    let small_blocks = match (key, payload) {
        (8, Some(_)) => 4,
        (_, Some(_)) => 7,
        (_, None) if key <= 4 && is_large => 9,
        _ => 8,
    };
    // `SmallSegments::Shared`: a key and an item, or one item in all.
    let small = SegmentGroup::new(32, 8, 768, bytes(2 * key.max(4)), 0, 16, small_blocks);
    // `ShortSegments::Shared`: an item has a bin besides, later its payload.
    let bytes = bytes(if key <= 2 { 4 } else { 2 * key }).map(|item| item + payload.unwrap_or(0).max(4));
    // The threads of a block for short segments, its blocks, and the threads of a block for medium ones, by their
    // registers: one NVIDIA H200, 2026-11-26.
    let (most_short, blocks, most_medium) = match (key, payload) {
        (1..=4, None) => (288, 4, 1024),
        (8, None) => (320, 2, 1024),
        (8, _) => (256, 2, 512),
        (_, Some(4)) => (288, 3, 1024),
        _ => (256, 3, 1024),
    };
    const ITEMS: usize = 16;
    // A range, and how it is divided, for each 3 threads, and one more.
    let range = 3 * key.max(4) + 24;
    let threads = |most: usize, room: usize| most.min(room / (ITEMS * bytes[1] + range / 3) / 32 * 32);
    let group = |threads: usize, chunk: usize, least: usize, blocks: usize| {
        // A word for each of 32 warps, and what alignment takes.
        let beside = (threads / 3 + 1) * range + 128 + 48;
        SegmentGroup::new(threads, ITEMS, chunk, bytes, least, beside, blocks)
    };
    let short = threads(most_short, if is_large { 97 << 10 } else { 63 << 10 });
    // Fewer than slots, as the positions behind a segment are lost.
    let chunk = short * ITEMS * 9 / 10 / 1024 * 1024;
    let short = group(short, chunk, small.most(), blocks);
    // A block of compute capability 9.0 may have 227 KiB.
    let medium = threads(most_medium, 226 << 10);
    let medium = group(medium, medium * ITEMS / chunk * chunk, short.most(), 1);
    SegmentShape { small, short, medium, sort: sort_shape(key, payload, architecture) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turing has 64 KiB of shared memory. Of the others the smallest has 99 KiB.
    #[test]
    fn blocks_fit_a_multiprocessor() {
        for (architecture, most) in [(75, 64 << 10), (80, 99 << 10)] {
            for key in [1, 2, 4, 8] {
                for payload in [None, Some(4), Some(8)] {
                    let shape = segment_shape(key, payload, architecture);
                    let shared = shape.short.shared[1].max(SMALL_WARPS * shape.small.shared[1]);
                    assert!(shared <= most, "{shape:?}");
                    let regular = shape.short.most() >= shape.short.chunk && shape.short.chunk.is_multiple_of(1024);
                    assert!(regular, "{shape:?}");
                    // `segment_partition` has some static memory besides.
                    assert!(shape.sort.step_shared() + 1024 <= most, "{shape:?}");
                }
            }
        }
    }
}
