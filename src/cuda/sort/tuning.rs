//! The shapes of the kernels of sort, by the sizes of key and payload, architecture and length.

use super::contract::{BINS, LOG_DISTINCT, MOST_DISTINCT, SINGLE_DIGITS};

/// The shape of a block of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortBlock {
    pub(crate) threads: usize,
    /// Keys of a thread.
    pub(crate) items: usize,
    /// The blocks whose registers fit a multiprocessor.
    pub(crate) blocks: usize,
}

impl SortBlock {
    /// Keys of a block.
    pub(crate) const fn tile(self) -> usize {
        self.threads * self.items
    }

    /// Bytes of shared memory for items of `each` bytes with their source indices
    /// (`RadixTile::Shared`) and `left_out` words of padding.
    const fn shared(self, each: usize, left_out: usize) -> usize {
        self.shared_with(self.threads / 32, each, left_out)
    }
    /// As `shared`, with `counters` counters of each digit.
    const fn shared_with(self, counters: usize, each: usize, left_out: usize) -> usize {
        // Each digit's first index in the tile and in the output, and single words.
        const FIXED: usize = BINS * (4 + 8) + 128;
        ((self.tile() + left_out) * each + counters * BINS * 4 + FIXED).next_multiple_of(16)
    }
}

/// The shapes of the kernels of a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortShape {
    /// Bytes of a key, and of the wider of key and payload.
    key: usize,
    widest: usize,
    /// A tile of a pass.
    pub(crate) pass: SortBlock,
    /// A tile of a step to counted buckets, and of one to fixed-capacity buckets.
    pub(crate) step: SortBlock,
    pub(crate) fixed: SortBlock,
    /// A sort by one block.
    pub(crate) small: SortBlock,
    /// The block of an ordinary bucket, and the logarithm of its bins.
    pub(crate) bucket: SortBlock,
    pub(crate) bins: usize,
    /// The block of a large bucket: it holds as many keys as a block with a multiprocessor to
    /// itself can.
    pub(crate) large: SortBlock,
    pub(crate) large_bins: usize,
    /// Bytes of the payload.
    payload: usize,
}

/// Shared memory of a thread of a large bucket in bytes, besides its bins.
const LARGE_BYTES: usize = 161;

/// The compute capabilities from which shapes differ. Below the first one a block has at most 64
/// KiB of shared memory.
pub(crate) const SORT_ARCHITECTURES: [u32; 2] = [80, 75];

/// The shapes for keys of `key` bytes and a payload of `payload` bytes, 4 or 8.
pub(crate) fn sort_shape(key: usize, payload: Option<usize>, architecture: u32) -> SortShape {
    let widest = key.max(payload.unwrap_or(0));
    let is_large = architecture >= SORT_ARCHITECTURES[0];
    let blocks = if is_large { 2 } else { 1 };
    // Bytes for each of 512 threads: for the exchange of at most `most` items, and for the source
    // indices of a bucket.
    let (exchange, most, noted) = match (is_large, payload) {
        // In tiles of a multiple of 1024 keys, keys that rise by one would share few banks.
        (true, None) => (96, 21, 160),
        (true, Some(_)) => (96, 17, 160),
        (false, _) => (48, 12, 86),
    };
    // With a payload a thread has its source indices, and the map's tables take the rest.
    let with_notes = if is_large { 140 } else { 71 };
    let items = (exchange / widest).min(most);
    let items = if payload.is_none() { items } else { items.min(with_notes / (widest + 4)) };
    // A keys-only bucket also has counts, and 64 KiB must hold both.
    let in_bucket = match payload {
        Some(size) => noted / (2 * key + size),
        None if is_large => 11,
        None => 72 / key,
    }
    .min(11);
    // Bytes for each of 1024 threads: the items, and with a payload room for the keys and then for
    // the payload.
    let in_large = LARGE_BYTES / (key + payload.map_or(0, |size| key.max(size)));
    // More keys of 4 bytes take a group more (`BucketSort::ROWS`), and registers.
    let in_large = in_large.min(if key > 4 { 11 } else { 21 });
    // A block sorts more keys of one or two bytes, since it goes over them once or twice.
    let in_one = match widest {
        1 => 32,
        2 => 16,
        _ => 8,
    };
    SortShape {
        key,
        widest,
        // Keys-only of 2 bytes take passes only where they are few, and so do those of 1 byte.
        pass: SortBlock { threads: 512, items: items.min(if key < 4 && payload.is_none() { 8 } else { 16 }), blocks },
        step: SortBlock { threads: 512, items, blocks },
        fixed: SortBlock { threads: 512, items: items.min(8), blocks },
        small: SortBlock { threads: 512, items: in_one, blocks: 1 },
        bucket: SortBlock { threads: 512, items: in_bucket, blocks },
        bins: 12,
        large: SortBlock { threads: 1024, items: in_large, blocks: 1 },
        large_bins: if in_large > 11 { 14 } else { 13 },
        payload: payload.unwrap_or(0),
    }
}

impl SortShape {
    /// The block of a bucket.
    pub(crate) const fn in_buckets(&self, is_large: bool) -> SortBlock {
        if is_large { self.large } else { self.bucket }
    }
    /// Bytes that a pass keeps for each key: its source index, and with a payload its digit
    /// (`RadixTile::TagWord`).
    const fn note(&self) -> usize {
        if self.payload > 0 { 4 } else { 2 }
    }
    /// Bytes of a source index in a sort with a payload by one block.
    const fn note_in_block(&self) -> usize {
        if self.payload > 0 { 2 } else { 0 }
    }
    const fn of_passes(&self, tile: SortBlock) -> usize {
        let is_skewed = self.payload == 0 || tile.items.is_multiple_of(8); // `RadixTile::PADDED`
        let of_missing = tile.threads / 32 * 4; // a counter for each warp
        tile.shared(self.widest + self.note(), if is_skewed { tile.tile() / 32 } else { 0 }) + of_missing
    }
    /// Bytes of shared memory of `sort_passes`.
    pub(crate) const fn pass_shared(&self) -> usize {
        self.of_passes(self.pass)
    }
    /// Bytes of shared memory of a stable step without tables.
    pub(crate) const fn step_shared(&self) -> usize {
        self.of_passes(self.step)
    }
    /// Bytes of shared memory of `fixed_first`, with `FixedTables`.
    pub(crate) const fn fixed_shared(&self) -> usize {
        self.with_tables(self.fixed, if self.key > 4 { 11 << 10 } else { 7 << 10 })
    }
    /// Bytes of shared memory of `sort_small`.
    pub(crate) const fn small_shared(&self) -> usize {
        self.small.shared(self.widest + self.note_in_block(), 0)
    }
    /// Bytes of shared memory of the kernels of the scatter steps to buckets.
    pub(crate) const fn bucket_tile_shared(&self) -> usize {
        self.with_tables(self.step, map_tables(self.key))
    }
    /// Bytes of shared memory of a single step. Its digits need more counters, with a payload one of each warp; those
    /// of keys-only take less than the tables of a step, which a single step has not.
    pub(crate) const fn single_shared(&self) -> usize {
        let more_digits = (SINGLE_DIGITS - BINS) * (4 * self.step.threads / 32 + 4 + 8);
        if self.payload > 0 { self.of_passes(self.step) + more_digits } else { self.bucket_tile_shared() }
    }
    /// Bytes of shared memory of a tile with `tables` bytes of tables. A keys-only block has one
    /// counter for each digit. It also has a byte for each key (`RadixTile::TagWord`), and the
    /// digits of keys that stay.
    const fn with_tables(&self, tile: SortBlock, tables: usize) -> usize {
        let in_any_order = tile.shared_with(1, self.key + 1, 0) + 2 * 4 * 32;
        tables + if self.payload > 0 { self.of_passes(tile) } else { in_any_order }
    }
    /// Bytes of shared memory of the kernels that sort a bucket.
    pub(crate) const fn bucket_sort_shared(&self) -> usize {
        // The number of keys before each word of 16 counters, in 16 bits. Threads store these
        // numbers as vectors. A sort without such counters leaves them unused.
        const BEFORE: usize = 8 << 10;
        let bins = (4 << self.bins) + if self.payload == 0 { BEFORE } else { 16 };
        self.in_bucket(self.bucket, bins, self.key + self.payload)
    }
    /// Bytes of shared memory of the kernel that sorts a large bucket.
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

/// Bytes of `BucketMap` of `sort/bucket_map.cuh`, the bucket function.
pub(crate) const BUCKET_MAP_BYTES: usize = 96 << 10;
/// Bytes of `FixedMap` of `sort/fixed_intervals.cuh`, and of its part that is zero before the sort.
pub(crate) const FIXED_MAP_BYTES: usize = 28 << 10;
pub(crate) const FIXED_MAP_ZERO: usize = 17 << 10;
/// Bytes of `DistinctKeys` of `sort/distinct_keys.cuh`: a hash table, the keys in order with their starts, and the table
/// of ranks.
pub(crate) const fn distinct_bytes(key: usize) -> usize {
    const RANKS: usize = 4 * 512 + 2 * 4096;
    ((1 << LOG_DISTINCT) + MOST_DISTINCT) * (key + 4) + RANKS + 64
}
/// Bytes of `BucketMap::Tables` of `sort/bucket_map.cuh` in shared memory: intervals and heavy keys. For
/// pairs of 4 bytes on an H200, 200 bytes more would take a part of the L1 cache.
pub(crate) const fn map_tables(key: usize) -> usize {
    4 * (33 << 6) + 256 * key + 384
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Turing has 64 KiB of shared memory. Of the others the smallest has 99 KiB.
    #[test]
    fn blocks_of_a_sort_fit_a_multiprocessor() {
        for (architecture, most) in [(75, 64 << 10), (80, 99 << 10)] {
            for key in [1, 2, 4, 8] {
                for payload in [None, Some(4), Some(8)] {
                    let shape = sort_shape(key, payload, architecture);
                    let mut shared = vec![shape.pass_shared(), shape.small_shared()];
                    if key >= 4 {
                        shared.extend([
                            shape.bucket_tile_shared(),
                            shape.bucket_sort_shared(),
                            shape.fixed_shared() + 512,
                        ]);
                        // A single step is for devices with 227 KiB, where two of its blocks fit a multiprocessor.
                        assert!(2 * (shape.single_shared() + 1024) <= 228 << 10, "{shape:?}");
                        // Two keys-only blocks, and the system's share of each, fit a
                        // multiprocessor of compute capability 8.0.
                        let in_two = payload.is_none() && architecture == 80;
                        assert!(!in_two || 2 * (shape.bucket_tile_shared() + 1024) <= 164 << 10, "{shape:?}");
                    }
                    assert!(shared.iter().all(|&bytes| bytes <= most), "{shape:?}: {shared:?}");
                    // A large bucket fits a block with 227 KiB, the kernel's static memory
                    // included, and holds at least twice the keys of an ordinary one.
                    if key >= 4 {
                        assert!(shape.large_sort_shared() <= (227 << 10) - 1024, "{shape:?}");
                        assert!(shape.large.tile() >= 2 * shape.bucket.tile(), "{shape:?}");
                    }
                }
            }
        }
    }
}
