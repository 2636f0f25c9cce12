//! The text of a unit of sort by segment, and the shapes of its kernels.

use crate::cuda::sort::tuning::{SORT_ARCHITECTURES, SortShape, sort_shape};
use crate::cuda::sort::unit::SortUnit;
use crate::cuda::unit::by_architecture;

/// The shapes of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentShape {
    /// Positions of a chunk. A block sorts the short segments that begin in it.
    pub(crate) chunk: usize,
    /// The most items of a short segment.
    pub(crate) short: usize,
    /// Threads of a block that sorts short segments.
    pub(crate) threads: usize,
    /// Bytes of shared memory of such a block.
    pub(crate) shared: usize,
    /// The tiles of a partition step are those of a pass.
    pub(crate) sort: SortShape,
}

/// Items of a thread that sorts short segments.
const ITEMS: usize = 8;

/// The shapes for keys of `key` bytes and a payload of `payload` bytes.
pub(crate) fn segment_shape(key: usize, payload: Option<usize>, architecture: u32) -> SegmentShape {
    let (chunk, short) = match (architecture >= SORT_ARCHITECTURES[0], key) {
        (true, 8) => (1024, 3072),
        (true, _) => (3072, 5120),
        (false, 8) => (1024, 2048),
        (false, _) => (1024, 3072),
    };
    let room = chunk + short;
    let (threads, words) = (room / ITEMS, room / 32);
    // `ShortSegments::Shared`: keys, bins and sources, spans, words of heads, and single words.
    let span = 2 * key.max(4) + 2;
    let shared = (room + words) * key + room * (4 + 2) + room / 16 * span + words * 16 + threads / 4 + 128;
    SegmentShape { chunk, short, threads, shared, sort: sort_shape(key, payload, architecture) }
}

/// The text of the unit for the keys and the payload of `unit`.
pub(crate) fn segmented_sort_source(unit: &SortUnit) -> String {
    unit.around(
        &by_architecture(SORT_ARCHITECTURES, |architecture| {
            let SegmentShape { chunk, short, threads, shared, sort } =
                segment_shape(unit.key, unit.payload.map(|(size, _)| size), architecture);
            format!(
                "constexpr u32 CHUNK = {chunk}, SHORT = {short}, SHORT_THREADS = {threads}, SHORT_BLOCKS = {};\n\
                 constexpr u32 SHORT_SHARED = {shared};\n\
                 constexpr u32 PASS_THREADS = {}, PASS_ITEMS = {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n",
                1024 / threads,
                sort.pass.threads,
                sort.pass.items,
                sort.pass.blocks,
                sort.pass_shared(),
            )
        }),
        "segmented_sort/kernels.cuh",
    )
}
