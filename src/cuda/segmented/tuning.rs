//! The shapes of the kernels of reduce of runs, of segments that lanes, warps or blocks take alone, and of short
//! inputs. Scan by segment has those of scan, reduce by segment `segmented_ranges` of reduce.

use super::contract::{
    EACH_WARPS, EachShares, MOST_FOLDED_PIECES, MOST_SCANNED_PIECES, OF_EACH_WARP, SHORT_INPUT_THREADS,
};
use crate::cuda::scan::tuning::{TUNING, Tuning, range};
use crate::cuda::tuning::LONG;

/// The table of scan with larger tiles of long inputs, but for elements of one byte. A reduction reads and
/// hardly writes, so for the same bytes tiles are joined twice as fast; larger ones are fewer.
///
/// NVIDIA H200, 2026-11-26.
const RUNS: &[Tuning] = &[TUNING[0], with_long_tiles(6, TUNING[1]), with_long_tiles(8, TUNING[3])];
/// The same for carries of more than `MOST_COUNTED` bytes, of which eight warps take more than 48 KiB.
const RUNS_OF_WIDEST: &[Tuning] = &[TUNING[0], with_long_tiles(6, TUNING[1]), with_long_tiles(7, TUNING[3])];
const MOST_COUNTED: usize = 40;

/// The table of reduce of runs, for a carry and a number of `counted` bytes.
pub(crate) const fn runs(counted: usize) -> &'static [Tuning] {
    if counted <= MOST_COUNTED { RUNS } else { RUNS_OF_WIDEST }
}

const fn with_long_tiles(warps: usize, of_scan: Tuning) -> Tuning {
    let [short, middle, _] = of_scan.ranges;
    Tuning { ranges: [short, middle, range(LONG, warps, 11, 128)], ..of_scan }
}

/// Elements of `size` bytes that a thread of the kernels of short inputs owns.
pub(crate) const fn short_items(size: usize) -> usize {
    match size {
        0..=4 => 4,
        5..=8 => 2,
        _ => 1,
    }
}

/// Elements of `size` bytes in a tile of these kernels.
pub(crate) const fn short_tile(size: usize) -> usize {
    SHORT_INPUT_THREADS as usize * short_items(size)
}

/// Whether `n` items in so many segments are short. A tile reads the items before it in its segment, so the
/// number of tiles and the mean length of a segment are limited. With one segment of half of all items a call of
/// `f32` takes 0.94 of the time of the other kernels for 32 tiles, 1.2 for 64 and 1.7 for 128.
///
/// NVIDIA H200, 2026-11-26.
pub(crate) const fn is_short(n: usize, segments: usize, tile: usize) -> bool {
    const MOST_TILES: usize = 128;
    const MEAN_TILES: usize = 8;
    n <= tile || n <= MOST_TILES * tile && n <= segments.saturating_mul(MEAN_TILES * tile)
}

/// A launch of a kernel of which some lanes, a warp or a block take a whole segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EachGrid {
    pub(crate) blocks: u32,
    /// Warps of a block.
    pub(crate) warps: u32,
    pub(crate) shares: EachShares,
}

/// Elements of `size` bytes that a warp of such a kernel copies to shared memory at once: of a lane up to 144
/// bytes, an odd number of vectors, or of elements that tile none.
pub(crate) const fn each_chunk(size: usize) -> usize {
    let of_unit = unit_items(size);
    32 * ((144 / (of_unit * size) - 1) | 1) * of_unit
}

/// Elements of `size` bytes in a vector, or one that tile none.
const fn unit_items(size: usize) -> usize {
    if 16_usize.is_multiple_of(size) { 16 / size } else { 1 }
}

const KIB: usize = 1 << 10;
/// The longest mean, in bytes, of fewer than 64 segments and of more: longer rows, and segments by offsets of a mean
/// beyond the first number, are cut into pieces. NVIDIA H200, 2026-11-27.
const MOST_TO_FOLD: [usize; 2] = [128 * KIB, 256 * KIB];
const MOST_TO_SCAN: [usize; 2] = [32 * KIB, 64 * KIB];
/// The most bytes of all items, by offsets and in longer rows. NVIDIA H200, 2026-11-29.
const MOST_FOLDED: usize = 16 << 20;
const MOST_SCANNED: usize = 4 << 20;
/// More bytes for each of its warps make a segment wide: all warps of the block take it.
const OF_WIDE_WARP: usize = 16 * KIB;
/// Bytes of all items by offsets that have no pieces, unless the mean is too long without.
const WITHOUT_PIECES: usize = 256 * KIB;
/// Up to so many bytes no segment is long in a reduction. NVIDIA H200, 2026-11-30.
const LEAST_OF_LONG: usize = 32 * KIB;
/// The least bytes of a piece of a reduction. NVIDIA H200, 2026-11-30.
const LEAST_OF_PIECE: usize = 16 * KIB;
/// The most bytes by offsets, where each piece searches. NVIDIA H200, 2026-11-30.
const MOST_OF_PIECE: usize = 64 * KIB;
/// The most bytes in rows. NVIDIA H200, 2026-11-30.
const MOST_OF_PIECE_IN_ROWS: usize = 32 * KIB;
/// Bytes of a piece of a scan, or what a block holds at once if that is less.
const OF_SCANNED_PIECE: usize = 32 * KIB;
/// A piece has a multiple of so many elements, so that it begins a line.
const IN_LINE: usize = 128;
/// Pieces of a reduction while they have a length between these. Each takes a ticket, one after the other.
const PIECES: usize = 64;

/// Elements of `size` bytes in a piece of a reduction of `n`, of up to `most` bytes.
fn folded_piece(n: usize, size: usize, most: usize) -> usize {
    n.div_ceil(PIECES).clamp(LEAST_OF_PIECE / size, most / size).next_multiple_of(IN_LINE)
}

/// A bound on the pieces of a reduction of up to `n` elements of `size` bytes: the plan allots as many shares.
pub(crate) fn most_pieces(n: usize, size: usize) -> usize {
    match n.saturating_mul(size) {
        bytes if bytes <= MOST_TO_FOLD[0] => 0,
        bytes => bytes.div_ceil(LEAST_OF_PIECE).min(MOST_FOLDED_PIECES as usize),
    }
}

/// The same of a scan.
pub(crate) const fn most_scanned_pieces(n: usize, size: usize) -> usize {
    if has_pieces(n, size) { MOST_SCANNED_PIECES as usize } else { 0 }
}

/// Whether `n` elements of `size` bytes by offsets are cut into pieces.
const fn has_pieces(n: usize, size: usize) -> bool {
    n.saturating_mul(size) > WITHOUT_PIECES
}

impl EachShares {
    /// So many warps for each segment, of which none is wide or long.
    const fn of_parts(parts: u32) -> EachShares {
        let (inverse, of_block) = (256_u32.div_ceil(parts), EACH_WARPS / parts);
        EachShares {
            parts,
            inverse,
            of_block,
            lanes: 0,
            of_warp: 0,
            wide: u32::MAX,
            pieces: 0,
            piece: u32::MAX,
            longest: u32::MAX,
            piece_shift: 0,
        }
    }
}

impl EachGrid {
    /// The launch of a reduction for so many rows of `columns` elements of `size` bytes, if the kernel takes them.
    pub(crate) fn rows(rows: usize, columns: usize, size: usize) -> Option<EachGrid> {
        EachGrid::of_rows(rows, columns, size, 1, MOST_TO_FOLD).or_else(|| EachGrid::long_rows(rows, columns, size))
    }

    /// The launch of a reduction for longer rows: each piece has a block, and no other block has a row.
    fn long_rows(rows: usize, columns: usize, size: usize) -> Option<EachGrid> {
        let n = rows.saturating_mul(columns);
        if columns.saturating_mul(size) <= MOST_TO_FOLD[0] || n.saturating_mul(size) > MOST_FOLDED || n == 0 {
            return None;
        }
        let (piece, shares) = (folded_piece(n, size, MOST_OF_PIECE_IN_ROWS), EachShares::of_parts(EACH_WARPS));
        Some(EachGrid { blocks: 0, warps: EACH_WARPS, shares }.with_pieces(n, piece, piece))
    }

    /// The launch of a scan for such rows. It goes over shared memory three times, a reduction once, so a row of eight
    /// or more vectors (but for nine to twelve) has eight or more lanes, which spares conflicts of banks.
    pub(crate) fn scanned_rows(rows: usize, columns: usize, size: usize) -> Option<EachGrid> {
        EachGrid::of_rows(rows, columns, size, 8, MOST_TO_SCAN)
    }

    fn of_rows(rows: usize, columns: usize, size: usize, least_lanes: usize, most: [usize; 2]) -> Option<EachGrid> {
        let bytes = columns.saturating_mul(size);
        let whole_warps = || EachGrid::by_mean(rows, bytes, rows.saturating_mul(bytes), most);
        let short = || EachGrid::short_rows(rows, columns, size, least_lanes);
        // The lanes of a short row go over items if it is not whole vectors, and those of a warp over vectors of any
        // row. So a few longer rows have a warp each.
        if bytes >= KIB / 2 && !columns.is_multiple_of(unit_items(size)) {
            whole_warps().or_else(short)
        } else {
            short().or_else(whole_warps)
        }
    }

    /// The launch for short rows. A warp takes as many as fit a chunk, or fewer where these are too few for many warps.
    /// A lane takes some vectors of a row, or some items, at most a 32nd of a chunk.
    ///
    /// NVIDIA H200, 2026-11-27.
    fn short_rows(rows: usize, columns: usize, size: usize, least_lanes: usize) -> Option<EachGrid> {
        /// Bytes of the longest row.
        const LONGEST: usize = 2 * KIB;
        /// The most vectors of a lane: more are fewer steps, and more conflicts.
        const LANE_UNITS: usize = 5;
        /// Up to so many lanes in all, each has one vector or item.
        const FEW_LANES: usize = 1 << 15;
        /// Warps before one takes more rows than its lanes hold at a time.
        const WARPS: usize = 4096;
        if rows == 0 || !(1..=LONGEST).contains(&columns.saturating_mul(size)) {
            return None;
        }
        let (chunk, of_unit, least) = (each_chunk(size), unit_items(size), FEW_LANES / rows);
        let (parts, of_lane, least, room) = if columns.is_multiple_of(of_unit) {
            (columns / of_unit, LANE_UNITS.min(chunk / of_unit / 32), least.max(least_lanes), chunk)
        } else {
            let room = chunk - (of_unit - 1); // the first row may begin inside a vector
            (columns, room / 32, least, room)
        };
        let lanes = parts.div_ceil(of_lane).max(parts.min(least)).next_power_of_two().min(32);
        // A lane takes an odd number of them, which may leave lanes without any.
        let lanes = parts.div_ceil(parts.div_ceil(lanes) | 1).next_power_of_two();
        let at_once = 32 / lanes;
        let of_warp = rows.div_ceil(WARPS).next_multiple_of(at_once).min(room / columns / at_once * at_once);
        let blocks = rows.div_ceil(of_warp * EACH_WARPS as usize) as u32;
        let shares = EachShares { lanes: lanes as u32, of_warp: of_warp as u32, ..EachShares::of_parts(1) };
        Some(EachGrid { blocks, warps: EACH_WARPS, shares })
    }

    /// The launch of a reduction for so many segments by offsets of `n` elements of `size` bytes, if the kernel takes
    /// them.
    pub(crate) fn offsets(segments: usize, n: usize, size: usize) -> Option<EachGrid> {
        let mean = n.saturating_mul(size).div_ceil(segments.max(1));
        if !has_pieces(n, size) && mean <= MOST_TO_FOLD[0] {
            return EachGrid::of_offsets(segments, n, size, MOST_FOLDED, MOST_TO_FOLD);
        }
        let grid = EachGrid::of_offsets(segments, n, size, MOST_FOLDED, [usize::MAX; 2])?;
        let piece = folded_piece(n, size, MOST_OF_PIECE);
        // A block with several segments would take long ones one after the other.
        let longest = (grid.shares.wide as usize).max(piece).max(LEAST_OF_LONG / size);
        Some(grid.with_pieces(n, piece, longest))
    }

    /// The launch of a scan for such segments. The items before the first offset and behind the last one are two more.
    /// Several segments of several warps each, and a piece, are a chunk a warp. So the most bytes are fewer, 2.7 to 4 MiB,
    /// for elements whose chunks are short.
    pub(crate) fn scanned_offsets(segments: usize, n: usize, size: usize) -> Option<EachGrid> {
        let grid = EachGrid::of_offsets(segments, n, size, MOST_SCANNED, MOST_TO_SCAN)?;
        let parts = grid.shares.parts.next_power_of_two(); // so that a block has all of its warps
        let of_round = |warps: u32| warps * each_chunk(size) as u32 - (unit_items(size) as u32 - 1);
        let wide = if parts > 1 { of_round(parts) } else { grid.shares.wide };
        let mut grid = EachGrid::of_parts(segments + 2, parts as usize);
        grid.shares.wide = wide;
        if !has_pieces(n, size) {
            return Some(grid);
        }
        let piece = (OF_SCANNED_PIECE / size).min(of_round(EACH_WARPS) as usize) / IN_LINE * IN_LINE;
        (n.div_ceil(piece) <= MOST_SCANNED_PIECES as usize).then(|| grid.with_pieces(n, piece, piece))
    }

    /// The launch without pieces.
    fn of_offsets(segments: usize, n: usize, size: usize, most: usize, most_of_one: [usize; 2]) -> Option<EachGrid> {
        let bytes = n.saturating_mul(size);
        if segments == 0 || bytes > most {
            return None;
        }
        let mut grid = EachGrid::by_mean(segments, bytes.div_ceil(segments), bytes, most_of_one)?;
        grid.shares.wide = (OF_WIDE_WARP * grid.shares.parts as usize / size) as u32;
        Some(grid)
    }

    /// The same with blocks for pieces of `piece` elements, which take the segments of more than `longest`.
    fn with_pieces(self, n: usize, piece: usize, longest: usize) -> EachGrid {
        let pieces = n.div_ceil(piece) as u32;
        let blocks = self.blocks + pieces;
        let piece_shift = (blocks / pieces).ilog2();
        let shares = EachShares { pieces, piece: piece as u32, longest: longest as u32, piece_shift, ..self.shares };
        EachGrid { blocks, shares, ..self }
    }

    /// The launch for so many segments that have `bytes` on average, at most the first of `most` if they are fewer
    /// than 64, else the second. A segment has a warp for each 4 KiB, of up to 4 MiB `in_all` 2 KiB, up to a block. Short
    /// ones leave lanes idle, so the kernel takes them only if they are few, and long ones only if they are not.
    ///
    /// NVIDIA H200, 2026-11-29.
    fn by_mean(segments: usize, bytes: usize, in_all: usize, most: [usize; 2]) -> Option<EachGrid> {
        let least = match segments {
            0..=1024 => 0,
            1025..=4096 => KIB / 4,
            4097..=12288 => KIB / 2,
            _ => 2 * KIB,
        };
        if segments == 0 || !(least..=most[usize::from(segments >= 64)]).contains(&bytes) {
            return None;
        }
        /// Bytes of all segments whose warps are not too many to run at once if each has half as much.
        const FEW: usize = 4 << 20;
        let of_warp = OF_EACH_WARP as usize / if in_all <= FEW { 2 } else { 1 };
        Some(EachGrid::of_parts(segments, bytes.div_ceil(of_warp).clamp(1, EACH_WARPS as usize)))
    }

    /// The launch for so many segments of `parts` warps each.
    fn of_parts(segments: usize, parts: usize) -> EachGrid {
        let shares = EachShares::of_parts(parts as u32);
        let blocks = segments.div_ceil(shares.of_block as usize) as u32;
        EachGrid { blocks, warps: shares.of_block * shares.parts, shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows() {
        let of = |rows, columns, size| {
            let grid = EachGrid::rows(rows, columns, size).filter(|grid| grid.shares.pieces == 0);
            let EachGrid { blocks, warps, shares } = grid?;
            Some([blocks, warps, shares.parts, shares.lanes, shares.of_warp])
        };
        assert_eq!(of(9, 513, 4), Some([3, 8, 2, 0, 0]), "2 KiB and an element");
        assert_eq!(of(9, 2049, 4), Some([9, 5, 5, 0, 0]));
        assert_eq!(of(1 << 10, 2049, 4), Some([512, 6, 3, 0, 0]), "a warp for each 4 KiB");
        let lanes = |rows, columns, size| {
            let [reduced, scanned] = [EachGrid::rows, EachGrid::scanned_rows].map(|of| of(rows, columns, size));
            [reduced, scanned].map(|grid| grid.map(|grid| grid.shares.lanes))
        };
        assert_eq!(
            [4, 16, 64, 256, 512].map(|c| lanes(1 << 20, c, 4)),
            [[1, 1], [1, 4], [4, 8], [16, 16], [32, 32]].map(|of| of.map(Some))
        );
        assert_eq!([3, 10, 35, 37, 71, 300].map(|c| lanes(1 << 20, c, 4)), [1, 1, 1, 2, 4, 16].map(|of| [Some(of); 2]));
        assert_eq!(
            [1, 3, 4, 16, 100, 256, 512].map(|c| lanes(9, c, 4)),
            [1, 4, 1, 4, 32, 32, 32].map(|of| [Some(of); 2]),
            "few rows"
        );
        assert_eq!(
            [lanes(9, 257, 2), lanes(9, 1001, 2), lanes(1 << 20, 1001, 2)],
            [[Some(0); 2], [Some(0); 2], [Some(16); 2]],
            "whole warps"
        );
        assert_eq!(of(1 << 20, 63, 4), Some([8192, 8, 1, 2, 16]), "a chunk");
        assert_eq!(of(1 << 16, 1, 16), Some([256, 8, 1, 1, 32]), "enough warps");
        assert_eq!([each_chunk(4), each_chunk(16), each_chunk(12), each_chunk(32)], [1152, 288, 352, 96]);
        for (columns, size) in (1_usize..=32).flat_map(|size| (1..=2048 / size).map(move |columns| (columns, size))) {
            let lead = if columns.is_multiple_of(unit_items(size)) { 0 } else { unit_items(size) - 1 };
            for rows in [1, 9, 4097, 1 << 15, 1 << 30] {
                for least in [1, 8] {
                    let EachShares { lanes, of_warp, .. } =
                        EachGrid::short_rows(rows, columns, size, least).expect("short").shares;
                    assert!(lanes.is_power_of_two() && lanes <= 32 && of_warp > 0 && of_warp % (32 / lanes) == 0);
                    assert!(lead + of_warp as usize * columns <= each_chunk(size), "{columns} of {size} bytes");
                }
            }
        }
        let bytes = |rows, bytes: usize| of(rows, bytes / 4, 4).is_some();
        assert!(bytes(63, 128 << 10) && !bytes(63, (128 << 10) + 4) && bytes(64, 256 << 10) && !bytes(0, 4));
        assert!(of(9, 1001, 2).is_some() && of(9, usize::MAX, 4).is_none());
    }

    #[test]
    fn long_rows() {
        let pieces = |rows, columns, size| {
            let EachGrid { blocks, warps: 8, shares } = EachGrid::rows(rows, columns, size)? else { panic!("8 warps") };
            assert!(blocks == shares.pieces && shares.piece_shift == 0, "pieces alone");
            assert!(shares.piece == shares.longest && (shares.piece as usize) < columns, "each row is long");
            assert!(blocks as usize <= most_pieces(rows * columns, size));
            Some([blocks, shares.piece])
        };
        assert_eq!(pieces(1, (32 << 10) + 1, 4), Some([9, 4096]), "of 16 KiB");
        assert_eq!([pieces(4, 1 << 18, 4), pieces(1, 1 << 22, 4)], [Some([128, 8192]), Some([512, 8192])]);
        assert_eq!(pieces(3, 99_999, 12), Some([107, 2816]), "whole lines");
        assert_eq!([pieces(1, 1 + (1 << 22), 4), pieces(2, usize::MAX, 1), pieces(0, 1 << 20, 4)], [None; 3]);
        for (size, rows) in (1..=64).flat_map(|size| [1, 2, 63, 64].map(|rows| (size, rows))) {
            for bytes in [128 * KIB, 256 * KIB, 1 << 20, 4 << 20, MOST_FOLDED] {
                for columns in [bytes / rows / size - 1, bytes / rows / size, bytes / rows / size + 1] {
                    if columns * size > MOST_TO_FOLD[usize::from(rows >= 64)] {
                        assert_eq!(pieces(rows, columns, size).is_some(), rows * columns * size <= MOST_FOLDED);
                    }
                    let Some(grid) = EachGrid::offsets(rows, rows * columns, size) else { continue };
                    let EachShares { pieces, piece, longest, .. } = grid.shares;
                    assert!(pieces as usize <= most_pieces(rows * columns, size) && piece <= longest, "by offsets");
                }
            }
        }
    }

    #[test]
    fn offsets() {
        let shares = |segments, n| EachGrid::offsets(segments, n, 4).map(|grid| grid.shares);
        let pieces = |segments, n| shares(segments, n).map(|of| [of.parts, of.wide, of.pieces, of.longest]);
        const NEVER: u32 = u32::MAX;
        assert_eq!(pieces(1, 4096), Some([8, 32768, 0, NEVER]));
        assert_eq!(pieces(1024, 1 << 16), Some([1, 4096, 0, NEVER]));
        assert_eq!(pieces(1024, 1 + (1 << 16)), Some([1, 4096, 17, 8192]), "of 16 KiB, for segments of 32");
        assert_eq!(
            [20, 22].map(|log| pieces(1 << 10, 1 << log)),
            [Some([2, 8192, 64, 16384]), Some([4, 16384, 256, 16384])],
            "of 64 KiB"
        );
        assert_eq!(pieces(16, 1 << 18), Some([8, 32768, 64, 32768]), "for segments of 128 KiB");
        assert_eq!(pieces(1, (32 << 10) + 1), Some([8, 32768, 9, 32768]), "the only one");
        assert_eq!(pieces(8, 1 << 20), Some([8, 32768, 64, 32768]), "all are long");
        assert_eq!([pieces(0, 9), pieces(13_000, 1 << 20), pieces(1 << 13, 1 + (1 << 22))], [None; 3]);
        let scanned = |segments, n| EachGrid::scanned_offsets(segments, n, 4).map(|grid| (grid.blocks, grid.shares));
        let parts = |segments, n| scanned(segments, n).map(|(blocks, of)| [blocks, of.parts, of.wide, of.pieces]);
        assert_eq!(parts(6, 6), Some([1, 1, 4096, 0]), "two more for what lies outside");
        assert_eq!(parts(7, 7), Some([2, 1, 4096, 0]));
        assert_eq!(parts(30, 30_000), Some([8, 2, 2301, 0]));
        assert_eq!(parts(256, 1 << 20), Some([258 + 128, 8, 9213, 128]));
        assert_eq!([parts(256, 1 + (1 << 20)), parts(10, 1 << 20)], [None; 2]);
        for (segments, n) in [(1, 1), (1000, 5_000), (1000, 100_001), (1000, 500_000), (8000, 1 << 20)] {
            for size in 1..=32 {
                for grid in [EachGrid::offsets(segments, n, size), EachGrid::scanned_offsets(segments, n, size)] {
                    let Some(EachGrid { blocks, shares: EachShares { pieces, piece_shift, .. }, .. }) = grid else {
                        continue;
                    };
                    assert!(pieces == 0 || (pieces - 1) << piece_shift < blocks, "each piece has a block");
                }
                if let Some(EachGrid { blocks, warps, shares }) = EachGrid::offsets(segments, n, size) {
                    assert!(shares.pieces == 0 || n.div_ceil(shares.piece as usize) == shares.pieces as usize);
                    assert!(shares.pieces as usize <= most_pieces(n, size) && blocks > shares.pieces && warps >= 5);
                    assert!(shares.piece <= shares.longest, "at most two long segments have items of a piece");
                }
                if let Some(EachGrid { blocks, warps, shares }) = EachGrid::scanned_offsets(segments, n, size) {
                    let a_round = 8 * each_chunk(size) - (unit_items(size) - 1);
                    assert!(warps == 8 && shares.pieces <= MOST_SCANNED_PIECES && blocks > shares.pieces);
                    assert!(shares.pieces == 0 || shares.piece as usize <= a_round, "a piece is one round");
                }
            }
        }
    }

    /// `divided` in segmented/each.cuh.
    #[test]
    fn a_multiplication_divides() {
        for parts in 1..=EACH_WARPS {
            let EachShares { inverse, of_block, .. } = EachShares::of_parts(parts);
            let divided = |x: u32| (x * inverse) >> 8;
            assert!((0..EACH_WARPS).all(|warp| divided(warp) == warp / parts), "{parts} warps");
            assert!(of_block * parts <= EACH_WARPS && (of_block + 1) * parts > EACH_WARPS);
            for x in (0..1 << 24).step_by(977) {
                assert!((x / parts..=x / parts + x / parts / 64 + 1).contains(&divided(x)), "{x} by {parts}");
            }
        }
    }

    #[test]
    fn short_inputs() {
        let tile = short_tile(4);
        assert!(is_short(1, 1, tile) && is_short(tile, 0, tile), "one tile, whatever its segments");
        assert!(is_short(128 * tile, 16, tile) && !is_short(128 * tile, 15, tile), "a mean of eight tiles");
        assert!(!is_short(128 * tile + 1, usize::MAX, tile), "128 tiles");
        for size in 1..=32 {
            assert!(short_items(size).is_power_of_two() && 128 * short_tile(size) * size <= 512 << 10, "{size}");
        }
    }

    #[test]
    fn the_elements_of_the_lines() {
        let lines = RUNS.iter().map(|line| (line.architecture, line.element, line.ranges[2].shape.warps));
        assert_eq!(lines.collect::<Vec<_>>(), [(75, 1, 4), (75, 2, 6), (75, 16, 8)]);
    }
}
