//! Tuning as data: the shapes of the kernels, by architecture, element size and length. Generated into every translation
//! unit, so that both sides agree.

/// How a block is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Vectors of 16 bytes that a lane owns; odd. For elements of one byte at most 15: more of them could overflow the 16 bits in
    /// which they are summed.
    pub(crate) vectors: usize,
}

impl Shape {
    /// Threads of a block.
    pub(crate) const fn threads(self) -> usize {
        self.warps * 32
    }
    /// Elements of a tile.
    pub(crate) const fn tile(self, element_size: usize) -> usize {
        self.threads() * self.vectors * 16 / element_size
    }

    /// The same for elements of `size` bytes, which may tile no vector: the fewest vectors that hold whole ones are a group, and a
    /// lane owns an odd number of groups, about as many vectors. A block holds fewer warps where they would not fit.
    pub(crate) fn fitted(self, size: usize) -> Shape {
        if 16 % size == 0 {
            return self;
        }
        let (mut common, mut rest) = (size, 16);
        while rest != 0 {
            (common, rest) = (rest, common % rest);
        }
        let group = size / common;
        let vectors = group * (self.vectors / (2 * group) * 2 + 1);
        Shape { warps: self.warps.min(BLOCK_BYTES / (32 * 16 * vectors)), vectors }
    }
}

/// A kernel for a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// The longest input that it is for, in bytes.
    pub(crate) bytes: usize,
    pub(crate) shape: Shape,
    /// Bytes from one tile's prefix to the next: how far a grid that polls them is spread over the L2 cache.
    pub(crate) spread: usize,
}

/// Kernels of a scan.
pub(crate) const RANGES: usize = 3;

/// The ranges of an architecture and an element size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The compute capability from which on they hold, as in 90.
    pub(crate) architecture: u32,
    /// The largest element that they are for, in bytes.
    pub(crate) element: usize,
    pub(crate) ranges: [Range; RANGES],
}

const fn range(bytes: usize, warps: usize, vectors: usize, spread: usize) -> Range {
    Range { bytes, shape: Shape { warps, vectors }, spread }
}

const MIB: usize = 1 << 20;
const LONG: usize = usize::MAX;

/// By architecture, newest first, then by element size.
///
/// Each line is a range: up to so many bytes of input, so many warps of a block and vectors of a lane, prefixes so many
/// bytes apart. `cargo bench --bench versus -- --shapes` prints the lines that are best on a machine.
///
/// NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
pub(crate) const TUNING: &[Tuning] = &[
    Tuning { architecture: 75, element: 1, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 11, 128),
    ] },
    Tuning { architecture: 75, element: 2, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 11, 128),
    ] },
    Tuning { architecture: 75, element: 4, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 13, 128),
    ] },
    Tuning { architecture: 75, element: 16, ranges: [
        range(4 * MIB, 8, 3, 0),
        range(32 * MIB, 6, 7, 64),
        range(LONG, 4, 13, 64),
    ] },
];

/// A kernel of compaction for a range of lengths.
#[derive(Clone, Copy, Debug)]
struct CompactRange {
    /// The longest input that it is for, in bytes of its widest column.
    bytes: usize,
    /// Warps of a block.
    warps: usize,
    /// Bytes of a warp's slice of the widest column, about.
    slice: usize,
    /// As for a scan.
    spread: usize,
}

const fn compact_range(bytes: usize, warps: usize, slice: usize, spread: usize) -> CompactRange {
    CompactRange { bytes, warps, slice, spread }
}

/// Compaction, and partitions of two ways or three, whose lanes hold an item of each row of a slice. NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
const COMPACT: [CompactRange; RANGES] = [
    compact_range(MIB / 2, 8, 2048, 0),
    compact_range(8 * MIB, 8, 4096, 0),
    compact_range(LONG, 6, 4096, 128),
];
#[rustfmt::skip]
const PARTITION: [CompactRange; RANGES] = [
    compact_range(MIB / 2, 8, 1024, 0),
    compact_range(8 * MIB, 8, 2048, 0),
    compact_range(LONG, 5, 3072, 128),
];
/// Partitions into one buffer whose tiles all run at once. NVIDIA H200, 2026-11-22.
#[rustfmt::skip]
const MEETING: [CompactRange; RANGES] = [
    compact_range(MIB, 8, 1024, 0),
    compact_range(4 * MIB, 8, 2048, 0),
    compact_range(LONG, 8, 4096, 0),
];
/// The second launch of longer ones.
const MOVE: CompactRange = compact_range(LONG, 4, 4096, 0);
/// Warps of a block of the first, and bits that a warp looks at at least.
pub(crate) const COUNT_WARPS: usize = 8;
const COUNT_BITS: usize = 8 * 4096;

/// What a block may use of the shared memory without asking for more.
const BLOCK_BYTES: usize = 44 << 10;

/// The shape of a kernel of compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompactShape {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Rows of 32 items of a warp.
    pub(crate) rows: usize,
    /// Bytes from one tile's prefix to the next.
    pub(crate) spread: usize,
}

impl CompactShape {
    /// For columns of `sizes` bytes.
    fn of(sizes: &[usize], ways: usize, range: CompactRange) -> CompactShape {
        let size = widest(sizes);
        let CompactRange { warps, slice, spread, .. } = range;
        // Slices of every column are whole vectors of every lane, and rows are moved four at a time.
        let is_whole = |step: &usize| sizes.iter().all(|size| (step * size).is_multiple_of(16));
        let step = [4, 8, 16].into_iter().find(is_whole).expect("16 of anything are");
        let rows = (slice / (32 * size) / step * step).max(step);
        let counted = if ways == 3 { 2 } else { 1 };
        let held = 32 * rows * size + 16 * (ways - 1) + 8 * rows * counted + 16 + 128;
        CompactShape { warps: warps.min(BLOCK_BYTES / held), rows, spread }
    }

    /// Items of a tile.
    pub(crate) fn tile(self) -> usize {
        self.warps * self.rows * 32
    }
}

/// Bytes of an item of the widest of some columns.
fn widest(sizes: &[usize]) -> usize {
    sizes.iter().copied().max().unwrap_or(1)
}

/// The shapes of the kernels of compaction for columns of `sizes` bytes.
pub(crate) fn compact_shapes(sizes: &[usize], ways: usize) -> [CompactShape; RANGES] {
    compact_ranges(ways).map(|range| CompactShape::of(sizes, ways, range))
}

/// The shapes of a partition into one buffer whose tiles all run at once.
pub(crate) fn meeting_shapes(sizes: &[usize], ways: usize) -> [CompactShape; RANGES] {
    MEETING.map(|range| CompactShape::of(sizes, ways, range))
}

/// Which of them takes `n` items.
pub(crate) fn meeting_range_of(sizes: &[usize], n: usize) -> usize {
    range_of(&MEETING, sizes, n)
}

/// The shape of what moves the items of a longer one.
pub(crate) fn move_shape(sizes: &[usize], ways: usize) -> CompactShape {
    CompactShape::of(sizes, ways, MOVE)
}

/// How many of its tiles a warp counts by a choice that looks at so many bits for an item.
pub(crate) fn count_each(shape: CompactShape, bits: usize) -> usize {
    COUNT_BITS.div_ceil(shape.tile() * bits).min(16)
}

fn compact_ranges(ways: usize) -> &'static [CompactRange; RANGES] {
    if ways == 1 { &COMPACT } else { &PARTITION }
}

/// The longest input of a range, in items.
pub(crate) fn compact_longest(sizes: &[usize], ways: usize, range: usize) -> usize {
    compact_ranges(ways)[range].bytes / widest(sizes)
}

/// Which of them takes `n` items.
pub(crate) fn compact_range_of(sizes: &[usize], ways: usize, n: usize) -> usize {
    range_of(compact_ranges(ways), sizes, n)
}

fn range_of(ranges: &[CompactRange; RANGES], sizes: &[usize], n: usize) -> usize {
    let bytes = n.saturating_mul(widest(sizes));
    ranges.iter().position(|range| bytes <= range.bytes).expect("the last one is for all that are longer")
}

/// A kernel of offsets for a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetsRange {
    /// The longest input that it is for, in bytes of the wider of sizes and offsets.
    pub(crate) bytes: usize,
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Vectors of a lane, or of sizes that are narrower than their offsets rows of a warp.
    pub(crate) each: usize,
    /// As for a scan.
    pub(crate) spread: usize,
    /// Items of a tile.
    pub(crate) tile: usize,
}

/// The ranges for sizes that are narrower than their offsets: bytes of offsets, warps, rows of 1 KiB of offsets, spread. NVIDIA
/// H200, 2026-11-21.
const ROWS: [(usize, usize, usize, usize); RANGES] = [(MIB, 8, 2, 0), (32 * MIB, 8, 8, 0), (LONG, 5, 12, 64)];

/// The ranges for sizes and offsets of so many bytes on an architecture.
pub(crate) fn offsets_ranges(size: usize, offset: usize, architecture: u32) -> [OffsetsRange; RANGES] {
    if size >= offset {
        // Sums take 8 bytes, and so the shapes of elements that are carried in more bytes than they have.
        let like = if size == 4 { 2 } else { size };
        return tuning(TUNING, architecture, like).map(|Range { bytes, shape, spread }| OffsetsRange {
            bytes,
            warps: shape.warps,
            each: shape.vectors,
            spread,
            tile: shape.tile(size),
        });
    }
    // The sizes of a slice are whole vectors of every lane.
    let in_row = 1024 / offset;
    let step = (512 / (in_row * size)).max(1);
    ROWS.map(|(bytes, warps, rows, spread)| {
        let each = rows.next_multiple_of(step);
        OffsetsRange { bytes, warps, each, spread, tile: warps * each * in_row }
    })
}

/// The shape of a kernel that takes segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentTile {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Places of the line of work (`segments/segments.cuh`) that a block takes.
    pub(crate) tile: usize,
    /// How many of them a segment takes besides its outputs.
    pub(crate) cost: usize,
}

/// Packing segments, in bytes, and the way back, in outputs.
pub(crate) const PACK: SegmentTile = SegmentTile { warps: 4, tile: 16384, cost: 32 };
pub(crate) const EXPAND: SegmentTile = SegmentTile { warps: 4, tile: 8192, cost: 8 };

/// How a block of a sort is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortBlock {
    pub(crate) threads: usize,
    /// Keys of a thread.
    pub(crate) items: usize,
    /// Blocks that a multiprocessor has registers for.
    pub(crate) blocks: usize,
}

impl SortBlock {
    /// Keys of a block.
    pub(crate) const fn tile(self) -> usize {
        self.threads * self.items
    }

    /// Bytes of shared memory for items of `each` bytes with what is noted of them (`RadixTile::Shared`), where so many places are left out.
    const fn shared(self, each: usize, left_out: usize) -> usize {
        self.shared_with(self.threads / 32, each, left_out)
    }
    /// The same with so many counters of each digit.
    const fn shared_with(self, counters: usize, each: usize, left_out: usize) -> usize {
        const DIGITS: usize = 1 << 8;
        const FIXED: usize = DIGITS * (4 + 8) + 128; // where digits begin, in the tile and in the output, and single words
        ((self.tile() + left_out) * each + counters * DIGITS * 4 + FIXED).next_multiple_of(16)
    }
}

/// The shapes of the kernels of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortShape {
    /// Bytes of a key, and of the wider of it and what goes with it.
    key: usize,
    widest: usize,
    /// A tile of a pass.
    pub(crate) pass: SortBlock,
    /// The same where keys are few, and where they are more: all passes are one launch.
    pub(crate) short: SortBlock,
    pub(crate) middle: SortBlock,
    /// A sort by one block.
    pub(crate) small: SortBlock,
    /// A bucket, and the logarithm of the bins that it is cut into.
    pub(crate) bucket: SortBlock,
    pub(crate) bins: usize,
    /// The same where keys are too many for such buckets: as much as a block of a multiprocessor's own holds.
    pub(crate) large: SortBlock,
    pub(crate) large_bins: usize,
    /// Bytes of what goes with a key.
    payload: usize,
}

/// Up to so many keys the tiles of a pass are the short ones, and up to so many, or with a payload beyond, the middle ones. NVIDIA H200, 2026-11-22.
pub(crate) const SORT_SHORT: usize = 1 << 20;
pub(crate) const SORT_MIDDLE: usize = 1 << 24;

/// Bytes of shared memory for each thread of a large bucket, besides its bins.
const LARGE_BYTES: usize = 161;

/// The compute capabilities from which on other shapes hold: below the first a block has no more than 64 KiB of shared memory.
pub(crate) const SORT_ARCHITECTURES: [u32; 2] = [80, 75];

/// The shapes for keys of `key` bytes, and payload of so many.
pub(crate) fn sort_shape(key: usize, payload: Option<usize>, architecture: u32) -> SortShape {
    let widest = key.max(payload.unwrap_or(0));
    let is_large = architecture >= SORT_ARCHITECTURES[0];
    let blocks = if is_large { 2 } else { 1 };
    // For each of 512 threads, so many bytes: what is exchanged, of so many items at most; and what is noted of those of a bucket.
    let (exchange, most, noted) = match (is_large, payload) {
        // Of a tile that is a multiple of 1024 long, keys that rise by one fall into few banks.
        (true, None) => (96, 21, 160),
        (true, Some(_)) => (96, 17, 160),
        (false, _) => (48, 12, 86),
    };
    // Where something goes with a key, with what is noted of it, and a table of cells in the rest.
    let with_notes = if is_large { 143 } else { 71 };
    let items = (exchange / widest).min(most);
    let items = if payload.is_none() { items } else { items.min(with_notes / (widest + 4)) };
    // Beside keys alone there is what is counted of them, and 64 KiB must do for both.
    let in_bucket = match payload {
        Some(size) => noted / (2 * key + size),
        None if is_large => 11,
        None => 72 / key,
    }
    .min(11);
    // For each of 1024 threads: items, and where something goes with them room for keys and then for that.
    let in_large = LARGE_BYTES / (key + payload.map_or(0, |size| key.max(size)));
    let in_large = in_large.min(if key > 4 { 11 } else { 20 });
    SortShape {
        key,
        widest,
        pass: SortBlock { threads: 512, items, blocks },
        short: SortBlock { threads: 512, items: items.min(8), blocks },
        middle: SortBlock { threads: 512, items: items.min(16), blocks },
        small: SortBlock { threads: 512, items: (64 / widest).min(8), blocks: 1 },
        bucket: SortBlock { threads: 512, items: in_bucket, blocks },
        bins: 12,
        large: SortBlock { threads: 1024, items: in_large, blocks: 1 },
        large_bins: if in_large > 11 { 14 } else { 13 },
        payload: payload.unwrap_or(0),
    }
}

impl SortShape {
    /// What a bucket's block is.
    pub(crate) const fn in_buckets(&self, is_large: bool) -> SortBlock {
        if is_large { self.large } else { self.bucket }
    }
    /// Bytes that note where a key was in a pass, and where something goes with it its digit (`RadixShape::Note`).
    const fn note(&self) -> usize {
        if self.payload > 0 { 4 } else { 2 }
    }
    /// Bytes that note where a key was, where one block sorts and something goes with it.
    const fn note_in_block(&self) -> usize {
        if self.payload > 0 { 2 } else { 0 }
    }
    const fn of_passes(&self, tile: SortBlock) -> usize {
        let is_skewed = self.payload == 0 || tile.items.is_multiple_of(8); // `RadixShape::SKEWED`
        tile.shared(self.widest + self.note(), if is_skewed { tile.tile() / 32 } else { 0 })
    }
    /// Bytes of shared memory of `sort_pass`.
    pub(crate) const fn pass_shared(&self) -> usize {
        self.of_passes(self.pass)
    }
    /// Of `sort_passes`.
    pub(crate) const fn short_shared(&self) -> usize {
        self.of_passes(self.short)
    }
    /// Of `slot_first`.
    pub(crate) const fn slot_shared(&self) -> usize {
        self.with_cells(self.short)
    }
    /// Of `sort_passes_middle`, which has a list of few values.
    pub(crate) const fn middle_shared(&self) -> usize {
        const MOST_OF_FEW: usize = 128;
        let values = if self.key >= 4 { MOST_OF_FEW * self.key + 16 } else { 0 };
        self.of_passes(self.middle) + values
    }
    /// Of `sort_small`.
    pub(crate) const fn small_shared(&self) -> usize {
        self.small.shared(self.widest + self.note_in_block(), 0)
    }
    /// Of the kernels that put keys into buckets.
    pub(crate) const fn bucket_tile_shared(&self) -> usize {
        self.with_cells(self.pass)
    }
    /// Of a tile, with a table of cells. Keys alone are counted by the block, and beside them the tile has a bit for each and a word for each warp
    /// (`RadixShape::Note`), and the digits of those that stay.
    const fn with_cells(&self, tile: SortBlock) -> usize {
        let marks = tile.tile() / 8 + tile.threads / 8;
        let in_any_order = tile.shared_with(1, self.key, 0) + marks + 2 * 4 * 32;
        CELLS_SHARED + if self.payload > 0 { self.of_passes(tile) } else { in_any_order }
    }
    /// Of the kernels that sort a bucket.
    pub(crate) const fn bucket_sort_shared(&self) -> usize {
        const BEFORE: usize = 8 << 10; // what comes before each 16 numbers of 16 bits; a vector where nothing is counted so
        let bins = (4 << self.bins) + if self.payload == 0 { BEFORE } else { 16 };
        self.in_bucket(self.bucket, bins, self.key + self.payload)
    }
    /// Of the kernel that sorts a large one.
    pub(crate) const fn large_sort_shared(&self) -> usize {
        let beside = if self.payload > self.key { self.payload } else { self.key };
        self.in_bucket(self.large, 4 << self.large_bins, beside)
    }
    const fn in_bucket(&self, block: SortBlock, bins: usize, beside: usize) -> usize {
        let warps = block.threads / 32;
        let by_digits = block.shared(self.widest + self.note_in_block(), 0);
        let beside = if self.payload > 0 { beside } else { 0 };
        let by_bins = block.tile() * (self.key + beside) + bins + warps * (8 + 3 * self.key) + 64;
        if by_digits > by_bins { by_digits } else { by_bins.next_multiple_of(16) }
    }
}

/// Bytes of `BucketMap` of `sort/bucket_map.cuh`, by which keys go to buckets.
pub(crate) const BUCKET_MAP_BYTES: usize = 80 << 10;
/// Bytes of `SlotMap` of `sort/slot_cells.cuh`.
pub(crate) const SLOT_MAP_BYTES: usize = 26 << 10;
/// Of a table of cells, in shared memory.
pub(crate) const CELLS_SHARED: usize = 4 * (33 << 6) + 16;

/// Tiles that look back at each other; after that many a prefix is handed on.
pub(crate) const LOOK_BACK_GROUP: usize = 128;

/// Threads of a textbook's block, a power of two.
pub(crate) const TEXTBOOK_WIDTH: usize = 512;

/// Bytes from one tile's prefix to the next, of a textbook's blocks.
pub(crate) const TEXTBOOK_SPREAD: usize = 64;

/// Items of `size` bytes in a run of a textbook's thread: about 36 bytes, and an odd number of words or of items, so that the runs of
/// a warp begin in different banks.
pub(crate) const fn textbook_run(size: usize) -> usize {
    match size {
        0 => 1,
        1..=4 => 36 / size,
        5..=8 => 5,
        _ => 3,
    }
}

/// The ranges for an element of `size` bytes on an architecture: those of the newest one that is not newer, and there of the
/// smallest element that is not smaller, or of the largest.
pub(crate) fn tuning(table: &[Tuning], architecture: u32, size: usize) -> &[Range; RANGES] {
    let newest = table.iter().map(|line| line.architecture).filter(|&a| a <= architecture).max();
    let newest = newest.or(table.iter().map(|line| line.architecture).min()).expect("the table has lines");
    let mut lines = table.iter().filter(|line| line.architecture == newest);
    let last = lines.clone().next_back().expect("it is in the table");
    &lines.find(|line| size <= line.element).unwrap_or(last).ranges
}

/// The same with shapes that fit the element.
pub(crate) fn fitted(table: &[Tuning], architecture: u32, size: usize) -> [Range; RANGES] {
    tuning(table, architecture, size).map(|range| Range { shape: range.shape.fitted(size), ..range })
}

/// The shape of the kernels that scan carries of an element, where the hierarchical scan has made an array of them.
pub(crate) fn carry_shape(table: &[Tuning], architecture: u32, element: usize, carry: usize) -> Shape {
    tuning(table, architecture, element)[0].shape.fitted(carry)
}

/// The architectures of the table, newest first.
pub(crate) fn architectures(table: &[Tuning]) -> impl Iterator<Item = u32> {
    let is_first = |i: usize| i == 0 || table[i].architecture != table[i - 1].architecture;
    (0..table.len()).filter(move |&i| is_first(i)).map(|i| table[i].architecture)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_covers_all() {
        for pair in TUNING.windows(2) {
            let by = |line: &Tuning| (std::cmp::Reverse(line.architecture), line.element);
            assert!(by(&pair[0]) < by(&pair[1]), "{pair:?}");
        }
        for line in TUNING {
            assert!(line.ranges.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{line:?}");
            assert_eq!(line.ranges[RANGES - 1].bytes, LONG, "{line:?}");
            let most = if line.element == 1 { 15 } else { usize::MAX };
            let vectors = line.ranges.map(|range| range.shape.vectors);
            assert!(vectors.iter().all(|&vectors| vectors % 2 == 1 && vectors <= most), "{line:?}");
        }
    }

    #[test]
    fn elements_of_any_size_tile_a_lane() {
        for architecture in architectures(TUNING) {
            for size in 1..=32 {
                for (range, own) in fitted(TUNING, architecture, size).iter().zip(tuning(TUNING, architecture, size)) {
                    let Shape { warps, vectors } = range.shape;
                    assert_eq!(vectors * 16 % size, 0, "{size}: {range:?}");
                    assert!(warps > 0 && (warps * vectors * 512 <= BLOCK_BYTES || range == own), "{size}: {range:?}");
                    assert!(16 % size != 0 || range == own, "{size}: {range:?}");
                    assert!(vectors % 2 == 1 || size == 32, "{size}: {range:?}");
                }
            }
        }
    }

    /// Turing has 64 KiB of shared memory, the smallest of the others 99 KiB.
    #[test]
    fn blocks_of_a_sort_fit_a_multiprocessor() {
        for (architecture, most) in [(75, 64 << 10), (80, 99 << 10)] {
            for key in [1, 2, 4, 8] {
                for payload in [None].into_iter().chain((1..=16).map(Some)) {
                    let shape = sort_shape(key, payload, architecture);
                    let mut shared =
                        vec![shape.pass_shared(), shape.short_shared(), shape.middle_shared(), shape.small_shared()];
                    if key >= 4 {
                        shared.extend([
                            shape.bucket_tile_shared(),
                            shape.bucket_sort_shared(),
                            shape.slot_shared() + 512,
                        ]);
                        // Keys alone: two blocks, each with what the system takes, in what a multiprocessor of compute capability 8.0 has.
                        let in_two = payload.is_none() && architecture == 80;
                        assert!(!in_two || 2 * (shape.bucket_tile_shared() + 1024) <= 164 << 10, "{shape:?}");
                    }
                    assert!(shared.iter().all(|&bytes| bytes <= most), "{shape:?}: {shared:?}");
                    // Where a block can have 227 KiB, with what the kernel names itself; and large ones hold more.
                    if key >= 4 {
                        assert!(shape.large_sort_shared() <= (227 << 10) - 1024, "{shape:?}");
                        assert!(shape.large.tile() >= 2 * shape.bucket.tile(), "{shape:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_newest_that_is_not_newer() {
        let line =
            |architecture, element, bytes| Tuning { architecture, element, ranges: [range(bytes, 8, 3, 0); RANGES] };
        let table = [line(90, 4, 1), line(90, 16, 2), line(80, 8, 3), line(80, 16, 4)];
        for (architecture, size, expected) in
            [(90, 1, 1), (90, 8, 2), (120, 4, 1), (120, 32, 2), (89, 8, 3), (80, 16, 4), (75, 4, 3), (75, 16, 4)]
        {
            assert_eq!(tuning(&table, architecture, size)[0].bytes, expected, "{architecture}, {size} bytes");
        }
        assert_eq!(architectures(&table).collect::<Vec<_>>(), [90, 80]);
    }
}
