//! The text of a unit of sort by segment, and the shapes of its kernels.

use crate::cuda::sort::tuning::{SORT_ARCHITECTURES, SortShape, sort_shape};
use crate::cuda::sort::unit::SortUnit;
use crate::cuda::unit::by_architecture;

/// The shapes of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    /// A warp sorts small segments, those of up to `small.most()` items.
    pub(crate) small: SegmentGroup,
    /// A block sorts short ones, those of up to `short.most()`.
    pub(crate) short: SegmentGroup,
    /// Bytes of shared memory of a block that sorts them by bins, as `SegmentGroup::shared`.
    pub(crate) bins_shared: [usize; 2],
    /// Whether such a block fits a multiprocessor.
    pub(crate) has_bins: [bool; 2],
    /// The tiles of a partition step are those of a pass.
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
    /// `bytes`: of an item, as `shared`. `least`: longer segments are sorted.
    fn new(threads: usize, items: usize, chunk: usize, bytes: [usize; 2], least: usize, blocks: usize) -> SegmentGroup {
        // `ShortSegments::Shared`: items, segments, two words a warp, and in a block a word a slot.
        let slots = if threads > 32 { threads } else { 1 };
        let words = chunk / (least + 1) + 1 + 2 * threads / 32 + slots;
        let shared = bytes.map(|item| (threads * items * item + 4 * words).next_multiple_of(16));
        SegmentGroup { threads, items, chunk, shared, blocks }
    }
}

/// The shapes for keys of `key` bytes and a payload of `payload` bytes.
pub(crate) fn segment_shape(key: usize, payload: Option<usize>, architecture: u32) -> SegmentShape {
    let is_large = architecture >= SORT_ARCHITECTURES[0];
    // Items have their source if the order of equal keys can be observed.
    let with_source = if key <= 2 { 4 } else { 2 * key };
    let bytes = [if payload.is_none() { key.max(4) } else { with_source }, with_source];
    let (threads, items, blocks) = match (key, payload) {
        (8, Some(_)) => (384, 8, 1),
        (8, None) if !is_large => (384, 8, 1),
        (_, Some(9..)) => (576, 8, 1),
        (8, None) | (_, Some(_)) => (576, 8, if is_large { 2 } else { 1 }),
        (_, None) => (320, 16, 3),
    };
    let small_blocks = match (key, payload) {
        (8, Some(_)) | (_, Some(9..)) => 4,
        (_, Some(_)) => 7,
        (_, None) if key <= 4 && is_large => 9,
        _ => 8,
    };
    let small = SegmentGroup::new(32, 8, 768, bytes, 0, small_blocks);
    let chunk = threads * items / 1024 * 1024;
    let short = SegmentGroup::new(threads, items, chunk, bytes, small.most(), blocks);
    // `SegmentBins::Shared`: beside these the bins of the items and the payload, the ends of a round's
    // segments, a word a warp, and what alignment takes.
    let beside = short.most() * (4 + payload.unwrap_or(0)) + 64 * key.max(4) + 128 + 48;
    let bins_shared = short.shared.map(|shared| shared + beside);
    let room = if is_large { 98 << 10 } else { 63 << 10 };
    let has_bins = bins_shared.map(|shared| shared <= room);
    SegmentShape { small, short, bins_shared, has_bins, sort: sort_shape(key, payload, architecture) }
}

/// The text of the unit for the keys and the payload of `unit`.
pub(crate) fn segmented_sort_source(unit: &SortUnit) -> String {
    unit.around(
        &by_architecture(SORT_ARCHITECTURES, |architecture| {
            let SegmentShape { small, short, bins_shared, sort, .. } =
                segment_shape(unit.key, unit.payload.map(|(size, _)| size), architecture);
            format!(
                "constexpr u32 SMALL_ITEMS = {}, SMALL_CHUNK = {}, SMALL_WARPS = {SMALL_WARPS}, SMALL_BLOCKS = {}, SMALL_SHARED = {};\n\
                 constexpr u32 SHORT_THREADS = {}, SHORT_ITEMS = {}, CHUNK = {}, SHORT_BLOCKS = {}, SHORT_SHARED = {}, BINS_SHARED = {};\n\
                 constexpr u32 PASS_THREADS = {}, PASS_ITEMS = {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n",
                small.items,
                small.chunk,
                small.blocks,
                small.shared[1],
                short.threads,
                short.items,
                short.chunk,
                short.blocks,
                short.shared[1],
                bins_shared[1],
                sort.pass.threads,
                sort.pass.items,
                sort.pass.blocks,
                sort.pass_shared(),
            )
        }),
        "segmented_sort/kernels.cuh",
    )
}
