//! The contract of scan and reduce by segment: `segmented/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// The kinds of a segmentation. Those up to `OFFSETS_64` have offsets.
        ROWS: u32 = 0;
        OFFSETS_32: u32 = 1;
        OFFSETS_64: u32 = 2;
        FLAGS: u32 = 3;
        BITS: u32 = 4;
        /// Keys that are an aligned word of 1, 2, 4 or 8 bytes each, and others.
        KEYS_8: u32 = 5;
        KEYS_16: u32 = 6;
        KEYS_32: u32 = 7;
        KEYS_64: u32 = 8;
        KEYS_AS_BYTES: u32 = 9;
        /// Threads of `segmented_find`. A warp searches for one tile.
        FIND_THREADS: u32 = 256;
        /// Threads of a block of the kernels of short inputs.
        SHORT_INPUT_THREADS: u32 = 128;
        /// The most warps of a block of the kernels that take whole segments.
        EACH_WARPS: u32 = 8;
        /// The most bytes of a segment of mean length for each of its warps there, if these are not all of a block.
        OF_EACH_WARP: u32 = 4096;
        /// The most pieces of a reduction there, and of a scan: one group of the look-back.
        MOST_FOLDED_PIECES: u32 = 512;
        MOST_SCANNED_PIECES: u32 = 128;
    }
}

shared! {
    /// Where segments begin.
    struct Cut {
        /// Offsets, flags, words of bits or keys, by the kind.
        memory: Address = "const void *memory";
        /// The number of segments, if there are offsets: one less than offsets.
        segments: u64 = "u64 segments";
        /// Items of a row.
        columns: u64 = "u64 columns";
        kind: u32 = "u32 kind";
        /// Bytes of a key.
        size: u32 = "u32 size";
    }
}

shared! {
    /// How the warps of the kernels that take whole segments share them.
    struct EachShares {
        /// Warps of a segment: one, or some of a block, which have a part of it each.
        parts: u32 = "u32 parts";
        /// 256 divided by `parts`, rounded up: a multiplication divides a warp's number by `parts`.
        inverse: u32 = "u32 inverse";
        /// Segments of a block.
        of_block: u32 = "u32 of_block";
        /// Lanes of a short row, a power of two; 0 for longer rows, and for offsets.
        lanes: u32 = "u32 lanes";
        /// Short rows of a warp.
        of_warp: u32 = "u32 of_warp";
        /// More items than this make a segment by offsets wide.
        wide: u32 = "u32 wide";
        /// Pieces of the input, a block each, which take the long segments. None if no segment can be long.
        pieces: u32 = "u32 pieces";
        /// Items of a piece.
        piece: u32 = "u32 piece";
        /// More items than this, at least a piece, make a segment long.
        longest: u32 = "u32 longest";
        /// Of 2 to this power blocks the first one has a piece, while there are any.
        piece_shift: u32 = "u32 piece_shift";
    }
}

/// The text of `segmented/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    let cut = Cut::definition(&[Cut::layout("Cut")]);
    header("segmented", &[enumerators(), cut, EachShares::definition(&[EachShares::layout("EachShares")])])
}
