//! The text of a unit of sort by segment, and the shapes of its kernels.

use crate::cuda::sort::tuning::{SORT_ARCHITECTURES, SortShape, sort_shape};
use crate::cuda::sort::unit::SortUnit;
use crate::cuda::unit::by_architecture;

/// The shapes of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    /// Positions of a chunk. A block sorts the short segments that begin in it.
    pub(crate) chunk: usize,
    /// The most items of a small segment, which a warp sorts, and of a short one, which a block does.
    pub(crate) small: usize,
    pub(crate) short: usize,
    /// Threads of a block that sorts small segments, and of one that sorts a short segment.
    pub(crate) small_threads: usize,
    pub(crate) threads: usize,
    /// Bytes of shared memory of such blocks.
    pub(crate) small_shared: usize,
    pub(crate) shared: usize,
    /// The tiles of a partition step are those of a pass.
    pub(crate) sort: SortShape,
}

/// Items of a thread in a block that sorts a short segment.
const ITEMS: usize = 8;
/// The most items of a small segment, and the warps of a block that sorts them.
const SMALL: usize = 256;
const SMALL_WARPS: usize = 4;

/// Bytes of `ShortSegments::Shared` for `room` items and `warps` warps: keys, bins, sources, spans,
/// words of heads, and single words.
const fn shared(key: usize, room: usize, warps: usize) -> usize {
    let words = room / 32;
    let span = if key > 4 { 16 } else { 8 };
    let parts = (room + words) * key + room * (4 + 2) + room / 16 * (span + 2) + words * 16 + warps * 12;
    (parts + 64).next_multiple_of(16)
}

/// The shapes for keys of `key` bytes and a payload of `payload` bytes.
pub(crate) fn segment_shape(key: usize, payload: Option<usize>, architecture: u32) -> SegmentShape {
    let (chunk, short) = match (architecture >= SORT_ARCHITECTURES[0], key) {
        (true, 8) => (1024, 3072),
        (true, _) => (3072, 5120),
        (false, 8) => (1024, 2048),
        (false, _) => (1024, 3072),
    };
    let threads = (chunk + short) / ITEMS;
    SegmentShape {
        chunk,
        small: SMALL,
        short,
        small_threads: 32 * SMALL_WARPS,
        threads,
        small_shared: SMALL_WARPS * shared(key, 2 * SMALL, 1),
        shared: shared(key, chunk + short, threads / 32),
        sort: sort_shape(key, payload, architecture),
    }
}

/// The text of the unit for the keys and the payload of `unit`.
pub(crate) fn segmented_sort_source(unit: &SortUnit) -> String {
    unit.around(
        &by_architecture(SORT_ARCHITECTURES, |architecture| {
            let SegmentShape { chunk, small, short, small_threads, threads, small_shared, shared, sort } =
                segment_shape(unit.key, unit.payload.map(|(size, _)| size), architecture);
            format!(
                "constexpr u32 CHUNK = {chunk}, SHORT = {short}, SHORT_THREADS = {threads}, SHORT_BLOCKS = {};\n\
                 constexpr u32 SMALL = {small}, SMALL_THREADS = {small_threads}, SMALL_BLOCKS = {};\n\
                 constexpr u32 SMALL_SHARED = {small_shared}, SHORT_SHARED = {shared};\n\
                 constexpr u32 PASS_THREADS = {}, PASS_ITEMS = {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n",
                1024 / threads,
                1024 / small_threads,
                sort.pass.threads,
                sort.pass.items,
                sort.pass.blocks,
                sort.pass_shared(),
            )
        }),
        "segmented_sort/kernels.cuh",
    )
}
