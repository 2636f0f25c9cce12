//! The suite on the device.

use super::*;
use crate::common::process::is_alone;
use crate::common::samples::{Digit, Digits};
use crate::common::{context, sited};
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Last, Max, Sum, Workspace};
use std::sync::Arc;

/// Vectors of 16 bytes in the least group of whole rows, if rows are scanned as elements: a
/// single column, or a narrow matrix.
fn group_of_rows([size, carry]: [usize; 2], columns: usize) -> Option<usize> {
    let row = columns * size;
    let vectors = row >> row.trailing_zeros().min(4);
    (columns == 1 || row.max(columns * carry) <= 28 && vectors <= 7).then_some(vectors)
}

/// Columns of the widest panel of a matrix of many rows that is no sequence of rows: whole vectors of 16 bytes.
fn widest(size: usize) -> usize {
    let vectors = 16 >> size.trailing_zeros().min(4);
    (128 / size).clamp(16, 96) / vectors * vectors
}

/// Columns of a panel of such a matrix.
fn width(size: usize, columns: usize) -> usize {
    let units = (16 >> size.trailing_zeros().min(4)).min(1 << columns.trailing_zeros().min(4));
    columns.div_ceil(columns.div_ceil(widest(size))).next_multiple_of(units).min(columns)
}

/// Tiles of a look-back group.
fn group(tiles_of_groups: usize, sizes: [usize; 2], columns: usize) -> usize {
    match group_of_rows(sizes, columns) {
        Some(_) => 32, // those that a warp of the server joins
        None => tiles_of_groups.div_ceil(columns.div_ceil(width(sizes[0], columns))),
    }
}

impl Engine for OnDevice {
    const LONG: usize = 1 << 12;
    fn tile([size, carry]: [usize; 2], columns: usize) -> usize {
        if let Some(group) = group_of_rows([size, carry], columns) {
            // The shape for the shortest inputs: 8 warps, 3 vectors a lane.
            return 8 * 32 * 16 * group.max(3 / group * group) / (columns * size);
        }
        // Shared memory of 192 threads, less two carries of each and one of a column.
        let run = (45_600 - (384 + widest(size)) * carry) / (192 * size);
        192 / width(size, columns) * (run - usize::from(run.is_multiple_of(2)))
    }
    fn group(sizes: [usize; 2], columns: usize) -> Option<usize> {
        Some(group(48, sizes, columns))
    }

    fn scan<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        input: &CudaView<'_, T>,
    ) -> Result<Vec<T>, Error> {
        let output = sited!(self, scan, scan.run(input));
        output.map(|output| self.get(&output))
    }
    fn scan_into<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        input: &CudaView<'_, T>,
        output: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, scan, scan.run_into(input, output))
    }
    fn scan_in_place<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        data: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, scan, scan.run_in_place(data))
    }
    fn reduce<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &CudaView<'_, T>,
    ) -> Result<Vec<T>, Error> {
        let output = sited!(self, reduce, reduce.run(input));
        output.map(|output| self.get(&output))
    }
    fn reduce_into<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &CudaView<'_, T>,
        output: &mut CudaViewMut<'_, T>,
    ) -> Result<(), Error> {
        sited!(self, reduce, reduce.run_into(input, output))
    }
}

suites! {
    or_skip!(OnDevice::new());
    sum_of_u16: Sum, u16;
    last_of_u64: Last, u64;
}

/// Whatever else the device runs, and at any address.
#[test]
fn same_bits() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let noise = stream.context().new_stream().unwrap();
    for [rows, columns] in ROUNDED {
        let x = rounded(&mut rng, rows * columns);
        let (mut sums, mut totals) = (None, None);
        for run in 0..6 {
            let skip = run % 4;
            let shifted = [&x[..skip], &x].concat();
            let input = stream.clone_htod(&shifted).unwrap();
            let input = input.slice(skip..);
            // Another kernel, so that blocks end in another order.
            let other = noise.alloc_zeros::<u32>((1 + run) << 20).unwrap();
            let busy = scan::<Sum, u32>().run(&other).unwrap();
            let by_column = scan::<Sum, f32>().init(x[0]).reverse().columns(columns);
            let got = stream.clone_dtoh(&by_column.workspace(&mut workspace).run(&input).unwrap()).unwrap();
            assert_bytes(&got, sums.get_or_insert_with(|| got.clone()), &(rows, columns, run));
            let by_column = reduce::<Sum, f32>().columns(columns);
            let got = stream.clone_dtoh(&by_column.workspace(&mut workspace).run(&input).unwrap()).unwrap();
            assert_bytes(&got, totals.get_or_insert_with(|| got.clone()), &(rows, columns, run));
            drop(busy);
        }
    }
}

/// Reductions of more tiles than a look-back group of theirs has, which is longer than a scan's.
#[test]
fn groups_of_reductions() {
    fn of<Op: Operator<T>, T: Sample>(engine: &mut OnDevice, rng: &mut Rng) {
        for columns in [17, 100, 700] {
            let rows = group(256, sizes::<Op, T>(), columns) * OnDevice::tile(sizes::<Op, T>(), columns);
            let x: Vec<T> = data(rng, Draw::exact_for::<Op, T>(), (2 * rows + 1) * columns);
            for rows in [rows - 1, rows, rows + 1, 2 * rows + 1] {
                check_reduce::<OnDevice, Op, T>(engine, rng, &x[..rows * columns], columns, None, Call::New);
            }
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    of::<Last, u64>(&mut engine, &mut rng);
    of::<Digits, Digit>(&mut engine, &mut rng);
}

/// A prepared workspace serves every number of rows up to the prepared one, and does not grow.
#[test]
fn prepared() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for columns in [1, 2, 7, 33, 1000] {
        let longest = 2_000_000 / columns;
        let (sums, totals) = (scan::<Sum, u32>().columns(columns), reduce::<Sum, u32>().columns(columns));
        sums.prepare(longest, &mut workspace).unwrap();
        totals.prepare(longest, &mut workspace).unwrap();
        let held = workspace.bytes();
        for rows in [1, 100, longest / 7, longest / 2 + 1, longest - 1, longest] {
            let x: Vec<u32> = noise(&mut rng, rows * columns);
            let input = stream.clone_htod(&x).unwrap();
            let mut output = stream.alloc_zeros::<u32>(x.len()).unwrap();
            let mut of_columns = stream.alloc_zeros::<u32>(columns).unwrap();
            sums.workspace(&mut workspace).run_into(&input, &mut output).unwrap();
            totals.workspace(&mut workspace).run_into(&input, &mut of_columns).unwrap();
            let options = Options { exclusive: false, init: None, reverse: false };
            let expected = columns_oracle::<Sum, u32>(&x, columns, options);
            assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &(rows, columns));
            let expected = column_totals::<Sum, u32>(&x, columns, None).unwrap();
            assert_same(&stream.clone_dtoh(&of_columns).unwrap(), &expected, &(rows, columns));
            assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
        }
    }
}

/// Capture into a CUDA graph, and replays with new items. The test runs in a process of its own:
/// other tests synchronise contexts, which the driver refuses while a stream of the context is being
/// captured.
#[test]
fn replays() {
    if !is_alone(replays) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let [rows, columns] = [30_000 + rng.below(1000), 33];
    let n = rows * columns;
    let mut workspace = Workspace::new(&stream);
    let mut a = stream.alloc_zeros::<u32>(n).unwrap();
    let mut a_out = stream.alloc_zeros::<u32>(n).unwrap();
    let mut b = stream.alloc_zeros::<f32>(n + 1).unwrap();
    let mut lasts = stream.alloc_zeros::<u32>(columns).unwrap();
    let mut none_out = stream.alloc_zeros::<u32>(columns).unwrap();
    let (mut length, mut some_out) = (stream.alloc_zeros::<u64>(1).unwrap(), none_out.clone());

    let sum = scan::<Sum, u32>().exclusive().init(7).columns(columns);
    let max = scan::<Max, f32>().reverse().columns(columns);
    let last = reduce::<Last, u32>().init(3).columns(columns);
    sum.prepare(rows, &mut workspace).unwrap();
    max.prepare(rows, &mut workspace).unwrap();
    last.prepare(rows, &mut workspace).unwrap();
    last.len(&length).prepare(rows, &mut workspace).unwrap();
    let held = workspace.bytes();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    sum.workspace(&mut workspace).run_into(&a, &mut a_out).unwrap();
    max.workspace(&mut workspace).run_in_place(&mut b.slice_mut(1..)).unwrap();
    last.workspace(&mut workspace).run_into(&a, &mut lasts).unwrap();
    last.workspace(&mut workspace).run_into(&a.slice(..0), &mut none_out).unwrap();
    last.workspace(&mut workspace).len(&length).run_into(&a, &mut some_out).unwrap();
    let refused = last.workspace(&mut workspace).run(&a).unwrap_err();
    assert!(matches!(refused, Error::Capturing { primitive: "reduce", .. }), "{refused}");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");

    for replay in 0..8 {
        let (x, y): (Vec<u32>, Vec<f32>) = (noise(&mut rng, n), data(&mut rng, Draw::Any, n + 1));
        stream.memcpy_htod(&x, &mut a).unwrap();
        stream.memcpy_htod(&y, &mut b).unwrap();
        stream.memset_zeros(&mut none_out).unwrap();
        let some = (1 + rng.below(rows)) * columns;
        stream.memcpy_htod(&[some as u64], &mut length).unwrap();
        graph.launch().unwrap();
        let options = Options { exclusive: true, init: Some(7), reverse: false };
        let expected = columns_oracle::<Sum, u32>(&x, columns, options);
        assert_same(&stream.clone_dtoh(&a_out).unwrap(), &expected, &replay);
        let options = Options { exclusive: false, init: None, reverse: true };
        let mut expected = columns_oracle::<Max, f32>(&y[1..], columns, options);
        expected.insert(0, y[0]);
        assert_same(&stream.clone_dtoh(&b).unwrap(), &expected, &replay);
        assert_same(&stream.clone_dtoh(&lasts).unwrap(), &x[n - columns..], &replay);
        assert_eq!(stream.clone_dtoh(&none_out).unwrap(), vec![3; columns], "{replay}");
        assert_same(&stream.clone_dtoh(&some_out).unwrap(), &x[some - columns..some], &replay);
    }
}

/// So few rows of so many columns that panels are wider than otherwise: as many runs of a column as its rows fill, and
/// one row more.
#[test]
fn panels_of_few_rows() {
    fn of<Op: Operator<T>, T: Sample>(engine: &mut OnDevice, rng: &mut Rng) {
        let widest = widest(size_of::<T>());
        let run = OnDevice::tile(sizes::<Op, T>(), widest) / (192 / widest);
        for rows in [1, 5, run, run + 1, 2 * run + 1] {
            let columns = 1024 * 192 / rows.div_ceil(run) + rng.below(100);
            check::<OnDevice, Op, T>(engine, rng, [rows, columns]);
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    of::<Sum, u8>(&mut engine, &mut rng);
    of::<Max, f32>(&mut engine, &mut rng);
    of::<Last, u64>(&mut engine, &mut rng);
    // A row of such a panel has more units than a block has threads.
    of::<Last, Moments<f32>>(&mut engine, &mut rng);
}

/// A short walk for compute-sanitizer: inputs and outputs are whole buffers, so that it sees
/// accesses beyond them.
#[test]
fn sanitize() {
    let OnDevice { stream, .. } = or_skip!(OnDevice::new());
    fn walk<Op: Operator<T>, T: Sample>(stream: &Arc<CudaStream>) {
        let mut rng = Rng::new();
        let draw = Draw::exact_for::<Op, T>();
        for columns in [1, 2, 3, 32, 33, 65] {
            let tile = OnDevice::tile(sizes::<Op, T>(), columns);
            for (k, rows) in [1, tile - 1, 3 * tile + 1, 9 * tile].into_iter().enumerate() {
                let x: Vec<T> = data(&mut rng, draw, rows * columns);
                let options = Options { exclusive: k % 2 == 1, init: Some(x[0]), reverse: k / 2 % 2 == 1 };
                let input = stream.clone_htod(&x).unwrap();
                let output = builder::<Op, T>(options).columns(columns).run(&input).unwrap();
                let expected = columns_oracle::<Op, T>(&x, columns, options);
                assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &(rows, columns));
                let output = reduce::<Op, T>().columns(columns).run(&input).unwrap();
                let expected = column_totals::<Op, T>(&x, columns, None).unwrap();
                assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &(rows, columns));
            }
        }
        // Beyond a look-back group.
        let (sizes, columns) = (sizes::<Op, T>(), 300);
        let rows = group(256, sizes, columns) * OnDevice::tile(sizes, columns) + 1;
        let x: Vec<T> = data(&mut rng, draw, rows * columns);
        let input = stream.clone_htod(&x).unwrap();
        let output = reduce::<Op, T>().columns(columns).run(&input).unwrap();
        let expected = column_totals::<Op, T>(&x, columns, None).unwrap();
        assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &(rows, columns));
        let options = Options { exclusive: false, init: None, reverse: false };
        let output = builder::<Op, T>(options).columns(columns).run(&input).unwrap();
        assert_same(&stream.clone_dtoh(&output).unwrap(), &columns_oracle::<Op, T>(&x, columns, options), &rows);
    }
    walk::<Sum, u8>(&stream);
    walk::<Max, f32>(&stream);
    walk::<Last, Moments<f32>>(&stream);
    walk::<Compose, Matrix<u64>>(&stream);
}
