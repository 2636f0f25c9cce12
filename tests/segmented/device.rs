//! The suite on the device.

use super::*;
use crate::common::samples::{Digit, Digits};
use crate::common::segments::runs_oracle;
use crate::common::{any, much_memory, sited};
use parascan::cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Device, Last, Max, Sum};
use std::sync::Arc;

// ---- tiles --------------------------------------------------------------------------------------

/// Each range of lengths has a kernel of its own: the bytes of items behind which the ranges begin.
pub(super) const RANGES: [usize; 3] = [0, 4 << 20, 32 << 20];

/// The shapes of a scan's kernels, one for each range: warps of a block, and vectors of a lane.
fn scan_shapes(size: usize) -> [[usize; 2]; 3] {
    [[8, 3], [6, 7], [4, if size <= 2 { 11 } else { 13 }]]
}

/// The shapes of the kernels of a reduction of runs.
fn run_shapes(size: usize) -> [[usize; 2]; 3] {
    let warps = match size {
        1 => 4,
        2 => 6,
        _ => 8,
    };
    [[8, 3], [6, 7], [warps, 11]]
}

/// Elements of `size` bytes in a tile of each kernel of a scan.
pub(super) fn scan_tiles(size: usize) -> [usize; 3] {
    scan_shapes(size).map(|shape| tile(shape, size))
}

/// Elements of `size` bytes in a tile of each kernel of a reduction of runs.
pub(super) fn run_tiles(size: usize) -> [usize; 3] {
    run_shapes(size).map(|shape| tile(shape, size))
}

/// As `Shape::fitted`: a lane owns an odd number of groups of vectors, and a block has fewer warps if not all fit.
fn tile([warps, vectors]: [usize; 2], size: usize) -> usize {
    // The fewest vectors that hold whole elements.
    let group = (1..=size).find(|group| (16 * group).is_multiple_of(size)).expect("`size` vectors hold 16 elements");
    let vectors = group * (vectors / (2 * group) * 2 + 1);
    let warps = if group == 1 { warps } else { warps.min((44 << 10) / (512 * vectors)) };
    warps * 32 * vectors * 16 / size
}

/// The shapes above are those of the library's tables. This needs no device.
#[test]
fn shapes_of_the_tables() {
    const SCAN: &str = include_str!("../../src/cuda/scan/tuning.rs");
    const SEGMENTED: &str = include_str!("../../src/cuda/segmented/tuning.rs");
    const COMMON: &str = include_str!("../../src/cuda/tuning.rs");
    let assert_has = |text: &str, piece: &str, times: usize| {
        assert_eq!(text.matches(piece).count(), times, "the shapes of these tests are not the library's: {piece}");
    };
    assert_has(SCAN, "Tuning { architecture: ", 4);
    for size in [1, 2, 4, 16] {
        let [[a, b], [c, d], [e, f]] = scan_shapes(size);
        let line = [
            format!("Tuning {{ architecture: 75, element: {size}, ranges: ["),
            format!("range(4 * MIB, {a}, {b}, 0),"),
            format!("range(32 * MIB, {c}, {d}, 64),"),
            format!("range(LONG, {e}, {f}, "),
        ];
        assert_has(SCAN, &line.join("\n        "), 1);
        assert_eq!(run_shapes(size)[..2], scan_shapes(size)[..2]);
    }
    assert_eq!(run_shapes(1), scan_shapes(1), "the first line of the scan's table");
    let [[two, vectors], [more, _]] = [2, 4].map(|size| run_shapes(size)[2]);
    let lines = format!("&[TUNING[0], with_long_tiles({two}, TUNING[1]), with_long_tiles({more}, TUNING[3])]");
    assert_has(SEGMENTED, &lines, 1);
    assert_has(SEGMENTED, &format!("range(LONG, warps, {vectors}, 128)"), 1);
    assert_has(SCAN, "let vectors = group * (self.vectors / (2 * group) * 2 + 1);", 1);
    assert_has(SCAN, "Shape { warps: self.warps.min(BLOCK_BYTES / (32 * 16 * vectors)), vectors }", 1);
    assert_has(COMMON, "BLOCK_BYTES: usize = 44 << 10;", 1);
    assert_eq!((scan_tiles(32)[0], scan_tiles(12), run_tiles(12)), (256, [1024, 2304, 2560], [1024, 2304, 3072]));
    assert_eq!((run_tiles(1), run_tiles(4)), ([12_288, 21_504, 22_528], [3072, 5376, 11_264]));
}

// ---- the suite ----------------------------------------------------------------------------------

impl Engine for OnDevice {
    const NONE_IS_ZERO: bool = true;

    fn tile(size: usize) -> usize {
        scan_tiles(size)[0]
    }

    fn scan<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &CudaView<'_, T>,
    ) -> Result<Vec<T>, Error> {
        let output = sited!(self, scan, scan.run(input));
        output.map(|output| self.get(&output))
    }
    fn scan_into<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &CudaView<'_, T>,
        output: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, scan, scan.run_into(input, output))
    }
    fn scan_in_place<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        data: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, scan, scan.run_in_place(data))
    }
    fn reduce<Op: Operator<T>, T: Sample, C: parascan::Segments<Device>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &CudaView<'_, T>,
    ) -> Result<Vec<T>, Error> {
        let output = sited!(self, reduce, reduce.run(input));
        output.map(|output| self.get(&output))
    }
    fn reduce_into<Op: Operator<T>, T: Sample, C: parascan::Segments<Device>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &CudaView<'_, T>,
        output: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, reduce, reduce.run_into(input, output))
    }
    fn reduce_runs<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &CudaView<'_, T>,
    ) -> Result<Vec<T>, Error> {
        let output = sited!(self, reduce, reduce.run(input));
        output.map(|output| self.get(&output))
    }
    fn reduce_runs_into<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &CudaView<'_, T>,
        output: &mut CudaViewMut<'_, T>,
        count: &mut CudaViewMut<'_, u64>,
    ) -> Result<(), Error> {
        sited!(self, reduce, reduce.run_into(input, output, count))
    }
    fn reduce_runs_with_keys_into<Op: Operator<T>, T: Sample, K: Pod + DeviceRepr + Send + Sync>(
        &mut self,
        reduce: RunReduce<Op, T, ByKeys<'_, K, Device>>,
        input: &CudaView<'_, T>,
        keys: &mut CudaViewMut<'_, K>,
        output: &mut CudaViewMut<'_, T>,
        count: &mut CudaViewMut<'_, u64>,
    ) -> Result<(), Error> {
        reduce.workspace(&mut self.workspace).run_with_keys_into(input, keys, output, count)
    }
}

// Beyond 4 and 32 MiB, where a scan without segments has other kernels.
suites! {
    or_skip!(OnDevice::new()),
    |size: usize| [33 * OnDevice::tile(size) + 5, (4 << 20) / size + 4711, (33 << 20) / size + 12_345];
    sum_of_u16: Sum, u16;
    max_of_i16: Max, i16;
    last_of_u64: Last, u64;
}

#[test]
fn more_segments_than_items() {
    let mut engine = or_skip!(OnDevice::new());
    many_segments(&mut engine);
}
#[test]
fn a_single_offset() {
    let mut engine = or_skip!(OnDevice::new());
    one_offset(&mut engine);
}

/// Around the lengths up to which inputs are short: tiles whose segment begins many tiles before, and the
/// other kernels for longer inputs and longer segments.
#[test]
fn short_inputs() {
    fn walk<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
        let mut rng = Rng::new();
        let tile = 128 * (16 / size_of::<T>()).clamp(1, 4);
        for n in [tile, tile + 1, 9 * tile - 1, 127 * tile + rng.below(tile), 128 * tile, 128 * tile + 1] {
            let x: Vec<T> = data(&mut rng, Draw::exact_for::<Op, T>(), n);
            let all = [Lengths::Below(40), Lengths::Below(5000), Lengths::Half, Lengths::Empty, Lengths::One];
            for (k, lengths) in all.into_iter().enumerate() {
                let segments = Segments::draw(&mut rng, n, lengths, k % 2 == 0);
                for reverse in [false, true] {
                    let options = Options { exclusive: false, init: (k % 2 == 1).then_some(x[0]), reverse };
                    for (kind, call) in [(Kind::Offsets32, Call::Into), (Kind::Offsets64, Call::InPlace)] {
                        check_scan::<_, Op, T, false>(engine, &mut rng, &x, &segments, kind, options, call, &lengths);
                    }
                }
                check_reduce::<_, Op, T>(engine, &mut rng, &x, &segments, Kind::Offsets32, Some(x[0]), &lengths);
            }
            for columns in [1, tile - 1, tile, 3 * tile + 1, 8 * tile, 8 * tile + 1] {
                let rows = Segments::rows(n / columns, columns);
                let (x, kind) = (&x[..rows.n], Kind::Rows(columns));
                for reverse in [false, true] {
                    let options = Options { exclusive: false, init: Some(T::zeroed()), reverse };
                    check_scan::<_, Op, T, false>(engine, &mut rng, x, &rows, kind, options, Call::Into, &columns);
                }
                check_reduce::<_, Op, T>(engine, &mut rng, x, &rows, kind, Some(T::zeroed()), &columns);
            }
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    walk::<Sum, u32>(&mut engine);
    walk::<Last, Moments<f32>>(&mut engine);
    walk::<Compose, Matrix<u64>>(&mut engine);
}

/// Calls `walk` with elements of 1, 4, 8, 12, 16 and 32 bytes, some of them aligned as less.
macro_rules! walk_sizes {
    ($engine:ident) => {
        walk::<Sum, u8>(&mut $engine);
        walk::<Max, f32>(&mut $engine);
        walk::<Last, Moments<f32>>(&mut $engine);
        walk::<Compose, Matrix<u32>>(&mut $engine);
        walk::<Compose, Matrix<u64>>(&mut $engine);
        walk::<Digits, Digit>(&mut $engine);
    };
}

/// Rows around the lengths that some lanes, a warp, several warps and no kernel of rows takes, scanned and reduced, and
/// of each number of rows of a block; of short rows as many as a warp has, a block and more.
#[test]
fn rows_of_a_block() {
    fn walk<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
        let mut rng = Rng::new();
        let has_long = size_of::<T>() <= 16; // the loop over longer ones takes seconds
        let mut check = |rng: &mut Rng, rows: usize, columns: usize| {
            let x: Vec<T> = data(rng, Draw::exact_for::<Op, T>(), rows * columns);
            let init = (rows % 4 != 1).then(|| x[0]);
            let (segments, kind) = (Segments::rows(rows, columns), Kind::Rows(columns));
            check_reduce::<_, Op, T>(engine, rng, &x, &segments, kind, init, &rows);
            let options = Options { exclusive: init.is_some() && rows.is_multiple_of(2), init, reverse: false };
            let call = [Call::Into, Call::InPlace][rows % 3 / 2];
            check_scan::<_, Op, T, false>(engine, rng, &x, &segments, kind, options, call, &rows);
        };
        let some = 2 + rng.below(600 / size_of::<T>());
        for columns in (1..=64 / size_of::<T>() + 1).chain([some, some.next_multiple_of(16)]) {
            for rows in [1, 8, 31 + rng.below(3), 1152 / columns + rng.below(70), 20_000 / columns + rng.below(2000)] {
                check(&mut rng, rows, columns);
            }
        }
        // Rows that are not whole vectors have warps of their own if they are few. Of many a warp takes some at a time.
        for bytes in [40, 72, 240, 500 + rng.below(500), 1024 + rng.below(1000)] {
            for columns in [bytes / size_of::<T>(), (bytes / size_of::<T>()).next_multiple_of(16)] {
                let rows = [8193 + rng.below(1000), (24 << 20) / (columns * size_of::<T>()) + rng.below(1000)];
                check(&mut rng, rows[0], columns);
                if has_long {
                    check(&mut rng, rows[1], columns);
                }
            }
        }
        const KIB: usize = 1 << 10;
        for bytes in
            [KIB / 2, 2 * KIB, 4 * KIB, 9 * KIB, 13 * KIB, 17 * KIB, 32 * KIB, 36 * KIB, 64 * KIB, 128 * KIB, 256 * KIB]
        {
            for columns in
                [bytes / size_of::<T>(), bytes / size_of::<T>() + 1, (bytes + rng.below(bytes)) / size_of::<T>()]
            {
                for rows in [1, 3, 8 + rng.below(10), 65, 128] {
                    check(&mut rng, rows, columns);
                }
            }
        }
        // Rows that pieces cut: of a reduction up to 16 MiB.
        let most = (16 << 20) / size_of::<T>();
        for (rows, columns) in [(1, most), (1, most + 1), (2, most / 2), (3, most / 3), (5, most / 20 + rng.below(999))]
        {
            check(&mut rng, rows, columns);
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    walk_sizes!(engine);
}

/// Segments by offsets around those that a warp, several warps, a whole block and blocks for pieces of the input
/// take, in inputs around the shortest and the longest that have pieces.
#[test]
fn segments_of_a_block() {
    const KIB: usize = 1 << 10;
    /// Lengths of segments in turn, for elements of `size` bytes of which `n` are all, and `piece` a piece.
    fn in_turn(size: usize, n: usize, piece: usize) -> [Vec<usize>; 17] {
        let items = |bytes: usize| bytes / size;
        let few = [[n - n / 10].as_slice(), &[n / 1000 + 1; 300]].concat();
        // The mean of 1.1 KiB is one warp's, so more than 32 KiB are long, or than a piece.
        let of_warps = [[items(32 * KIB), items(32 * KIB) + 1].as_slice(), &[items(100); 60]].concat();
        [
            vec![items(KIB / 2)],
            vec![items(4 * KIB)],
            vec![items(7 * KIB), items(5 * KIB), 0, items(9 * KIB)],
            vec![items(13 * KIB) + 1, 0, 3],
            vec![items(17 * KIB), items(15 * KIB)],
            vec![items(29 * KIB) + 5],
            vec![items(5 * KIB), items(33 * KIB), 1, 1, items(31 * KIB)],
            vec![piece],
            vec![piece - 1, 1],
            vec![piece + 1, piece, 0],
            vec![piece - 1, piece + 1, 1, 1, 1],
            vec![2 * piece, 0, 0, 0, piece + 128, 1, 1, 1],
            vec![3 * piece + 1, 5, 5, 5, 5, 2 * piece, 1, 1, 1, 1, 1, 1, 1],
            vec![n / 2, 9, 10, 11],
            vec![n / 3, n / 3, 1, 0, 0],
            few,
            of_warps,
        ]
    }
    fn walk<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
        let mut rng = Rng::new();
        let items = |bytes: usize| bytes / size_of::<T>();
        let [least, most_scanned, most_reduced] = [256 * KIB, 4 << 20, 16 << 20].map(items);
        for n in [
            items(40 * KIB) + 3,
            least,
            least + 1,
            items(700 * KIB) + rng.below(1000),
            most_scanned,
            most_scanned + 1,
            most_reduced,
            most_reduced + 1,
        ] {
            let x: Vec<T> = data(&mut rng, Draw::exact_for::<Op, T>(), n);
            let is_scanned = n <= most_scanned + 1;
            // As in src/cuda/segmented/tuning.rs.
            let of_reduction = n.div_ceil(64).clamp(items(16 * KIB), items(64 * KIB)).next_multiple_of(128);
            let of_scan = items(if size_of::<T>() == 32 { 24 * KIB } else { 32 * KIB }) / 128 * 128;
            // A segment with more than the last two is long: in a scan, and where each has a block.
            for piece in [of_reduction, of_scan, items(128 * KIB)] {
                for (k, in_turn) in in_turn(size_of::<T>(), n, piece).into_iter().enumerate() {
                    let kind = [Kind::Offsets32, Kind::Offsets64][rng.below(2)];
                    // Items before the first segment, and some behind the last one.
                    let mut offsets = vec![[0, 1, rng.below(n / 3)][k % 3]];
                    for length in in_turn.iter().cycle() {
                        let at = offsets[offsets.len() - 1];
                        if at == n || offsets.len() > 5000 && rng.below(100) == 0 {
                            break;
                        }
                        offsets.push(n.min(at + length));
                    }
                    let (segments, init) = (Segments { n, offsets }, (k % 2 == 0).then(|| x[0]));
                    check_reduce::<_, Op, T>(engine, &mut rng, &x, &segments, kind, init, &(n, k));
                    if !is_scanned {
                        continue;
                    }
                    let options = Options { exclusive: init.is_some() && rng.below(2) == 0, init, reverse: false };
                    let call = [Call::Into, Call::InPlace][rng.below(2)];
                    check_scan::<_, Op, T, false>(engine, &mut rng, &x, &segments, kind, options, call, &(n, k));
                }
            }
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    walk_sizes!(engine);
}

/// 2^27 items: each kind once, by short segments, long ones and a single one.
#[test]
fn long() {
    let mut engine = or_skip!(OnDevice::new());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = (1 << 27) + rng.below(10_000);
    let x: Vec<u32> = noise(&mut rng, n);
    let kinds = [Kind::Offsets32, Kind::Offsets64, Kind::Flags, Kind::Bits32, Kind::Bits64, Kind::Keys(4)];
    for (k, lengths) in [Lengths::Below(40), Lengths::Below(5000), Lengths::Half, Lengths::One].into_iter().enumerate()
    {
        let segments = Segments::draw(&mut rng, n, lengths, k % 2 == 0);
        for j in [0, 3] {
            let options = Options { exclusive: j == 3, init: Some(5), reverse: (k + j) % 2 == 1 };
            let call = [Call::Into, Call::InPlace][(k + j) % 2];
            let kind = kinds[(k + j) % kinds.len()];
            check_scan::<_, Sum, u32, true>(&mut engine, &mut rng, &x, &segments, kind, options, call, &lengths);
            let kind = kinds[2 + (k + j) % 4];
            runs::check_runs::<_, Sum, u32, true>(&mut engine, &mut rng, &x, &segments, kind, options.init, &lengths);
        }
        check_reduce::<_, Sum, u32>(&mut engine, &mut rng, &x, &segments, kinds[k % 2], None, &lengths);
    }
    for columns in [1, 33, 1000, 1 << 20] {
        let rows = Segments::rows(n / columns, columns);
        let options = Options { exclusive: false, init: None, reverse: columns == 33 };
        let (x, kind) = (&x[..rows.n], Kind::Rows(columns));
        check_scan::<_, Sum, u32, true>(&mut engine, &mut rng, x, &rows, kind, options, Call::Into, &"rows");
        check_reduce::<_, Sum, u32>(&mut engine, &mut rng, x, &rows, kind, Some(5), &"rows");
    }
}

/// One segment of half of all items, and one of all, across the tiles of the kernels for more than 32 MiB.
#[test]
fn one_long_segment() {
    fn walk<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
        let mut rng = Rng::new();
        let n = (34 << 20) / size_of::<T>() + rng.below(1000);
        let x: Vec<T> = any(&mut rng, n);
        for lengths in [Lengths::Half, Lengths::One] {
            let segments = Segments::draw(&mut rng, n, lengths, false);
            for (k, kind) in [Kind::Offsets32, Kind::Flags].into_iter().enumerate() {
                for reverse in [false, true] {
                    let options = Options { exclusive: true, init: Some(any(&mut rng, 1)[0]), reverse };
                    let call = [Call::Into, Call::InPlace][(k + usize::from(reverse)) % 2];
                    check_scan::<_, Op, T, false>(engine, &mut rng, &x, &segments, kind, options, call, &lengths);
                }
            }
            for (kind, init) in [(Kind::Offsets32, None), (Kind::Offsets64, Some(x[0]))] {
                check_reduce::<_, Op, T>(engine, &mut rng, &x, &segments, kind, init, &lengths);
            }
            for (kind, init) in [(Kind::Flags, None), (Kind::Keys(4), Some(x[0]))] {
                runs::check_runs::<_, Op, T, false>(engine, &mut rng, &x, &segments, kind, init, &lengths);
            }
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    walk::<Last, u64>(&mut engine);
    walk::<Compose, Matrix<u64>>(&mut engine);
}

/// A prepared workspace serves every length up to the prepared one, and does not grow.
#[test]
fn prepared() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let longest = 3_000_000;
    let (sums, totals) = (scan::<Sum, u32>().rows(7), reduce::<Sum, u32>().rows(7));
    sums.prepare(longest, &mut workspace).unwrap();
    totals.prepare(longest, &mut workspace).unwrap();
    let flags = stream.alloc_zeros::<u8>(longest).unwrap();
    let mut count = stream.alloc_zeros::<u64>(1).unwrap();
    reduce::<Sum, u32>().heads(&flags).prepare(longest, &mut workspace).unwrap();
    let offsets = stream.clone_htod(&[0_u32, 1, 2]).unwrap();
    reduce::<Sum, u32>().segments(&offsets).prepare(longest, &mut workspace).unwrap();
    let held = workspace.bytes();
    for n in [7, 7000, 70_000, 700_000, longest / 7 * 7] {
        let x: Vec<u32> = noise(&mut rng, n);
        let rows = Segments::rows(n / 7, 7);
        let input = stream.clone_htod(&x).unwrap();
        let mut output = stream.alloc_zeros::<u32>(n).unwrap();
        let mut of_rows = stream.alloc_zeros::<u32>(n / 7).unwrap();
        scan::<Sum, u32>().rows(7).workspace(&mut workspace).run_into(&input, &mut output).unwrap();
        reduce::<Sum, u32>().rows(7).workspace(&mut workspace).run_into(&input, &mut of_rows).unwrap();
        let mut total = stream.alloc_zeros::<u32>(1).unwrap();
        let one_run = reduce::<Sum, u32>().heads(&flags).workspace(&mut workspace);
        one_run.run_into(&input, &mut total, &mut count).unwrap();
        let expected = x.iter().fold(0_u32, |sum, x| sum.wrapping_add(*x));
        assert_eq!(stream.clone_dtoh(&total).unwrap(), [expected], "{n}");
        let halves =
            Segments { n, offsets: (0..=100).map(|k| if k == 0 { 0 } else { n / 2 + n / 2 * k / 100 }).collect() };
        let offsets = stream.clone_htod(&halves.offsets::<u32>()).unwrap();
        let mut of_halves = stream.alloc_zeros::<u32>(100).unwrap();
        let by_offsets = reduce::<Sum, u32>().segments(&offsets).workspace(&mut workspace);
        by_offsets.run_into(&input, &mut of_halves).unwrap();
        assert_same(&stream.clone_dtoh(&of_halves).unwrap(), &reduce_oracle::<Sum, u32>(&x, &halves, None, 0), &n);
        let options = Options { exclusive: false, init: None, reverse: false };
        assert_same(&stream.clone_dtoh(&output).unwrap(), &scan_oracle::<Sum, u32>(&x, &rows, options), &n);
        assert_same(&stream.clone_dtoh(&of_rows).unwrap(), &reduce_oracle::<Sum, u32>(&x, &rows, None, 0), &n);
        assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
    }
}

/// A short walk for compute-sanitizer: inputs and selectors are whole buffers, so that it sees
/// accesses beyond them.
#[test]
fn sanitize() {
    let OnDevice { stream, .. } = or_skip!(OnDevice::new());
    fn walk<Op: Operator<T>, T: Sample>(stream: &Arc<CudaStream>) {
        let mut rng = Rng::new();
        let draw = Draw::exact_for::<Op, T>();
        let tile = OnDevice::tile(size_of::<T>());
        let (pieces, longer) = ((700 << 10) / size_of::<T>(), (9 << 20) / size_of::<T>() + 1);
        for (k, n) in [1, 100, tile - 3, tile, 5 * tile + 7, longer, pieces].into_iter().enumerate() {
            let lengths = [Lengths::Below(40), Lengths::Half, Lengths::Empty][k % 3];
            let mut segments = Segments::draw(&mut rng, n, lengths, true);
            if n == pieces {
                segments = Segments { n, offsets: (0..200).chain([n / 2, n - 3]).collect() };
            }
            let x: Vec<T> = data(&mut rng, draw, n);
            let options = Options { exclusive: false, init: Some(x[0]), reverse: k % 2 == 1 };
            let expected = scan_oracle::<Op, T>(&x, &segments, options);
            let input = stream.clone_htod(&x).unwrap();
            let scan = || builder::<Op, T>(options);
            let offsets = stream.clone_htod(&segments.offsets::<u32>()).unwrap();
            let flags = stream.clone_htod(&segments.flags(&mut rng)).unwrap();
            let bits = stream.clone_htod(&segments.words::<u32>(&mut rng)).unwrap();
            let keys = stream.clone_htod(&segments.keys::<[u8; 3]>(&mut rng)).unwrap();
            let words = stream.clone_htod(&segments.keys::<u32>(&mut rng)).unwrap();
            // initcheck does not see what a bulk copy writes, so the outputs begin as zeros.
            let mut outputs = [(); 5].map(|()| stream.clone_htod(&vec![T::zeroed(); n]).unwrap());
            let [by_offsets, by_heads, by_bits, by_keys, by_words] = &mut outputs;
            scan().segments(&offsets).run_into(&input, by_offsets).unwrap();
            scan().heads(&flags).run_into(&input, by_heads).unwrap();
            scan().head_bits::<u32, _>(&bits).run_into(&input, by_bits).unwrap();
            scan().by_key::<[u8; 3], _>(&keys).run_into(&input, by_keys).unwrap();
            scan().by_key::<u32, _>(&words).run_into(&input, by_words).unwrap();
            for output in outputs {
                assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &(n, lengths));
            }
            let runs = runs_oracle::<Op, T>(&x, &segments, None);
            let keys = reduce::<Op, T>().by_key::<[u8; 3], _>(&keys).run(&input).unwrap();
            assert_same(&stream.clone_dtoh(&keys).unwrap(), &runs, &(n, lengths));
            let flags = reduce::<Op, T>().heads(&flags).run(&input).unwrap();
            assert_same(&stream.clone_dtoh(&flags).unwrap(), &runs, &(n, lengths));
            let sums = reduce::<Op, T>().init(x[0]).segments(&offsets).run(&input).unwrap();
            let expected = reduce_oracle::<Op, T>(&x, &segments, Some(x[0]), x[0]);
            assert_same(&stream.clone_dtoh(&sums).unwrap(), &expected, &(n, lengths));
            for columns in [[1001, 5003], [13, 64], [(n / 2).max(1), n]].map(|of| n.min(of[k % 2])) {
                let rows = Segments::rows(n / columns, columns);
                let input = stream.clone_htod(&x[..rows.n]).unwrap();
                let options = Options { exclusive: false, init: Some(x[0]), reverse: false };
                let scanned = builder::<Op, T>(options).rows(columns).run(&input).unwrap();
                let expected = scan_oracle::<Op, T>(&x[..rows.n], &rows, options);
                assert_same(&stream.clone_dtoh(&scanned).unwrap(), &expected, &(n, columns));
                let sums = reduce::<Op, T>().init(x[0]).rows(columns).run(&input).unwrap();
                let expected = reduce_oracle::<Op, T>(&x[..rows.n], &rows, Some(x[0]), x[0]);
                assert_same(&stream.clone_dtoh(&sums).unwrap(), &expected, &(n, columns));
            }
        }
    }
    walk::<Sum, u8>(&stream);
    walk::<Max, f32>(&stream);
    walk::<Last, Moments<f32>>(&stream);
    walk::<Compose, Matrix<u64>>(&stream);
}

parascan::operator! {
    /// The greatest number, of which the results are the complement. There is no identity.
    struct Complement on u32 {
        associativity: Exact,
        carry: u32,
        lift: |x| x,
        lower: |x| !x,
        combine: |a, b| if a > b { a } else { b },
    }
}

/// An empty segment of an operator without identity is zero, whatever the operator makes of a zero.
#[test]
fn empty_segments_without_identity() {
    let mut engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    // Short inputs, segments by warps and blocks, and slices.
    for (n, lengths) in [
        (0, Lengths::Empty),
        (2000, Lengths::Below(9)),
        (300_000, Lengths::Half),
        (700_000, Lengths::Below(90_000)),
        (3_000_000, Lengths::Below(40)),
        (3_000_000, Lengths::Empty),
    ] {
        let x: Vec<u32> = noise(&mut rng, n);
        let mut segments = Segments::draw(&mut rng, n, lengths, true);
        segments.offsets.extend(segments.offsets.last().copied()); // one is empty
        check_reduce::<_, Complement, u32>(&mut engine, &mut rng, &x, &segments, Kind::Offsets32, None, &lengths);
    }
}
