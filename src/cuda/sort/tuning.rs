//! The shapes of the kernels of sort, by the sizes of key and payload, architecture and length.

use super::contract::{BINS, VALUES};

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

    /// Bytes of shared memory for items of `each` bytes with what is noted of them
    /// (`RadixTile::Shared`), where so many places are left out.
    const fn shared(self, each: usize, left_out: usize) -> usize {
        self.shared_with(self.threads / 32, each, left_out)
    }
    /// The same with so many counters of each digit.
    const fn shared_with(self, counters: usize, each: usize, left_out: usize) -> usize {
        const FIXED: usize = BINS * (4 + 8) + 128; // where digits begin, in the tile and in the output, and single words
        ((self.tile() + left_out) * each + counters * BINS * 4 + FIXED).next_multiple_of(16)
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
    /// The same where keys are too many for such buckets: as much as a block of a multiprocessor's
    /// own holds.
    pub(crate) large: SortBlock,
    pub(crate) large_bins: usize,
    /// Bytes of what goes with a key.
    payload: usize,
}

/// Up to so many keys the tiles of a pass are the short ones, and up to so many, or with a payload
/// beyond, the middle ones. NVIDIA H200, 2026-11-22.
pub(crate) const SORT_SHORT: usize = 1 << 20;
pub(crate) const SORT_MIDDLE: usize = 1 << 24;

/// Bytes of shared memory for each thread of a large bucket, besides its bins.
const LARGE_BYTES: usize = 161;

/// The compute capabilities from which on other shapes hold: below the first a block has no more
/// than 64 KiB of shared memory.
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
    /// Bytes that note where a key was in a pass, and where something goes with it its digit
    /// (`RadixShape::Note`).
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
        let values = if self.key >= 4 { VALUES * self.key + 16 } else { 0 };
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
    /// Of a tile, with a table of cells. Keys alone are counted by the block, and beside them the
    /// tile has a bit for each and a word for each warp (`RadixShape::Note`), and the digits of
    /// those that stay.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
