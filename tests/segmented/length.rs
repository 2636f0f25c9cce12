//! Numbers of items that lie in memory, by segment: whatever lies beyond them is neither read nor written.

use super::device::{run_tiles, scan_tiles};
use super::*;
use crate::common::context;
use crate::common::engines::Buffers;
use crate::common::keys::{How, Key, Pattern, keys};
use crate::common::process::is_alone;
use crate::common::segments::runs_oracle;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::operators::{Compose, Transitions};
use parascan::{Above, Last, Max, SegmentedSort, Sum, Workspace, compact, sort};

/// Numbers that a memory of `most` items may be said to have, one of them a multiple of those of a block.
fn counts(rng: &mut Rng, most: usize) -> [u64; 7] {
    const BLOCK: u64 = 1 << 15;
    let [some, whole] = [0, 1].map(|_| rng.below(most + 1) as u64);
    let most = most as u64;
    [0, 1, some, whole / BLOCK * BLOCK, most, most + 1, u64::MAX]
}

/// These segments, cut to the first `n` items.
fn cut(segments: &Segments, n: usize) -> Segments {
    Segments { n, offsets: segments.offsets.iter().map(|&offset| offset.min(n)).collect() }
}

/// Lengths around the borders of tiles, and one of many tiles.
fn memories(rng: &mut Rng, longest: usize) -> [usize; 9] {
    [1, 2, 33, 3071, 3072, 3073, 12_289, 100_000, longest + rng.below(1000)]
}

/// The items of a memory, what lay in the output before, and the number that the memory is said to have.
struct Input<'a, T> {
    x: &'a [T],
    old: &'a [T],
    count: u64,
}

impl<T: Sample> Input<'_, T> {
    fn n(&self) -> usize {
        self.x.len().min(usize::try_from(self.count).unwrap_or(usize::MAX))
    }

    /// Whether an output has `results`, and behind them what lay there before.
    #[track_caller]
    fn assert_holds(&self, got: &[T], results: &[T], what: &dyn Debug) {
        assert_same(got, &[results, &self.old[results.len()..got.len()]].concat(), what);
    }
}

fn check_scan<E: Buffers, Op: Operator<T>, T: Sample, C: Segmentation<E::Place>>(
    engine: &E,
    scan: SegmentedScan<Op, T, C>,
    input: &Input<'_, T>,
    expected: &[T],
    what: &dyn Debug,
) {
    let (most, length, from) = (input.x.len(), engine.put(&[input.count]), engine.put(input.x));
    let (mut into, mut in_place) = (engine.put(input.old), engine.put(input.x));
    let length = engine.view(&length, 0..1);
    scan.len(&length).run_into(&engine.view(&from, 0..most), &mut engine.view_mut(&mut into, 0..most)).unwrap();
    scan.len(&length).run_in_place(&mut engine.view_mut(&mut in_place, 0..most)).unwrap();
    input.assert_holds(&engine.get(&into), expected, what);
    assert_same(&engine.get(&in_place), &[expected, &input.x[input.n()..]].concat(), &("in place", what));
}

fn check_reduce<E: Buffers, Op: Operator<T>, T: Sample, C: parascan::Segments<E::Place>>(
    engine: &E,
    reduce: SegmentedReduce<Op, T, C>,
    input: &Input<'_, T>,
    room: usize,
    expected: &[T],
    what: &dyn Debug,
) {
    let (length, from) = (engine.put(&[input.count]), engine.put(input.x));
    let old = vec![input.old[0]; room];
    let mut into = engine.put(&old);
    let length = engine.view(&length, 0..1);
    let view = engine.view(&from, 0..input.x.len());
    reduce.len(&length).run_into(&view, &mut engine.view_mut(&mut into, 0..room)).unwrap();
    assert_same(&engine.get(&into), &[expected, &old[expected.len()..]].concat(), what);
}

fn check_runs<E: Buffers, Op: Operator<T>, T: Sample, C: Segmentation<E::Place>>(
    engine: &E,
    reduce: RunReduce<Op, T, C>,
    input: &Input<'_, T>,
    expected: &[T],
    what: &dyn Debug,
) {
    let (most, length, from) = (input.x.len(), engine.put(&[input.count]), engine.put(input.x));
    let (mut into, mut count) = (engine.put(input.old), engine.put(&[7_u64]));
    let (length, view) = (engine.view(&length, 0..1), engine.view(&from, 0..most));
    let (mut to, mut count_to) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut count, 0..1));
    reduce.len(&length).run_into(&view, &mut to, &mut count_to).unwrap();
    drop((to, count_to));
    input.assert_holds(&engine.get(&into), expected, what);
    assert_eq!(engine.get(&count), [expected.len() as u64], "{what:?}");
}

/// Scans and reductions by every kind of segments.
fn check<E: Buffers, Op: Operator<T>, T: Sample>(engine: &E, longest: usize) {
    let (mut rng, draw) = (Rng::new(), Draw::exact_for::<Op, T>());
    let rng = &mut rng;
    for most in memories(rng, longest) {
        let (x, old): (Vec<T>, Vec<T>) = (data(rng, draw, most), data(rng, draw, most));
        let all = lengths(2 + most / 3);
        let lengths = all[rng.below(all.len())];
        let gaps = rng.below(2) == 0;
        let segments = Segments::draw(rng, most, lengths, gaps);
        let widest = [1, 8, 100, 500, 5000, 100_000][rng.below(6)].min(most);
        let columns = 1 + rng.below(widest);
        let rows = Segments::rows(most / columns, columns);
        for count in counts(rng, most) {
            let input = Input { x: &x, old: &old, count };
            let all = options::<Op, T>(rng, draw);
            let options = all[rng.below(all.len())];
            let what = &(type_name::<(Op, T)>(), most, count, lengths, gaps, options);
            let scan = builder::<Op, T>(options);
            let init = (Op::IDENTITY.is_none() || rng.below(2) == 0).then(|| T::draw(rng, draw, 1));
            let reduce: Reduce<Op, T> = reduce::<Op, T>();
            let reduce = init.map_or(reduce, |init| reduce.init(init));
            let items = &x[..input.n()];
            let of_items = cut(&segments, items.len());
            let scanned = scan_oracle::<Op, T>(items, &of_items, options);
            let reduced = reduce_oracle::<Op, T>(items, &of_items, init, T::zeroed());
            let runs = runs_oracle::<Op, T>(items, &of_items, init);
            macro_rules! by {
                ($method:ident, $selectors:expr, $check:ident $(($room:expr))?, $reduced:expr) => {{
                    let selectors = $selectors;
                    let memory = engine.put(&selectors);
                    let view = engine.view(&memory, 0..selectors.len());
                    check_scan(engine, scan.$method(&view), &input, &scanned, &(stringify!($method), what));
                    let what = &(stringify!($method), init, what);
                    $check(engine, reduce.$method(&view), &input, $($room,)? $reduced, what);
                }};
            }
            let room = segments.offsets.len() + 2;
            by!(segments, segments.offsets::<u32>(), check_reduce(room), &reduced);
            by!(segments, segments.offsets::<u64>(), check_reduce(room), &reduced);
            by!(heads, segments.flags(rng), check_runs, &runs);
            by!(head_bits, segments.words::<u32>(rng), check_runs, &runs);
            by!(by_key, segments.keys::<u32>(rng), check_runs, &runs);
            by!(by_key, segments.keys::<[u8; 3]>(rng), check_runs, &runs);

            // A last row that is not whole is scanned, and not reduced.
            let input = Input { x: &x[..rows.n], ..input };
            let items = &input.x[..input.n()];
            let of_items = cut(&rows, items.len());
            let what = &("rows", columns, what);
            check_scan(engine, scan.rows(columns), &input, &scan_oracle::<Op, T>(items, &of_items, options), what);
            let whole = &items[..items.len() / columns * columns];
            let rows = Segments::rows(items.len() / columns, columns);
            let reduced = reduce_oracle::<Op, T>(whole, &rows, init, T::zeroed());
            check_reduce(engine, reduce.rows(columns), &input, most / columns + 2, &reduced, &(init, what));
        }
    }
}

/// The source index of each key of the sorted order.
fn sort_oracle<K: Key>(x: &[K], segments: &Segments, how: &How) -> Vec<usize> {
    let of = |segment: Range<usize>| {
        let order = how.oracle(&x[segment.clone()]);
        order.into_iter().map(move |i| segment.start + i as usize)
    };
    segments.of_scan().flat_map(of).collect()
}

/// Keys-only, with a payload, source indices, and in place.
fn check_sort<E: Buffers, K: Key + Sample, C: Segmentation<E::Place>>(
    engine: &E,
    sort: SegmentedSort<K, C>,
    input: &Input<'_, K>,
    order: &[usize],
    what: &dyn Debug,
) {
    let (most, n) = (input.x.len(), input.n());
    let length = engine.put(&[input.count]);
    let payload: Vec<u32> = (0..most as u32).map(|i| i ^ 0x5555_5555).collect();
    let (from, mut into, mut in_place) = (engine.put(input.x), engine.put(input.old), engine.put(input.x));
    let (mut keys, mut values, mut indices) = (engine.put(input.x), engine.put(&payload), engine.put(&payload));
    let (length, view) = (engine.view(&length, 0..1), engine.view(&from, 0..most));
    sort.len(&length).run_into(&view, &mut engine.view_mut(&mut into, 0..most)).unwrap();
    sort.len(&length).run_in_place(&mut engine.view_mut(&mut in_place, 0..most)).unwrap();
    let (mut keys_to, mut values_to) = (engine.view_mut(&mut keys, 0..most), engine.view_mut(&mut values, 0..most));
    sort.len(&length).run_pairs_in_place::<u32, _, _>(&mut keys_to, &mut values_to).unwrap();
    drop((keys_to, values_to));
    sort.len(&length).indices_into(&view, &mut engine.view_mut(&mut indices, 0..most)).unwrap();
    let sorted: Vec<K> = order.iter().map(|&i| input.x[i]).collect();
    let in_its_place = [&sorted[..], &input.x[n..]].concat();
    input.assert_holds(&engine.get(&into), &sorted, what);
    assert_same(&engine.get(&in_place), &in_its_place, &("in place", what));
    assert_same(&engine.get(&keys), &in_its_place, &("with a payload", what));
    let moved: Vec<u32> = order.iter().map(|&i| payload[i]).chain(payload[n..].iter().copied()).collect();
    assert_same(&engine.get(&values), &moved, &("the payload", what));
    let expected: Vec<u32> = order.iter().map(|&i| i as u32).chain(payload[n..].iter().copied()).collect();
    assert_same(&engine.get(&indices), &expected, &("indices", what));
}

/// Sorts by every kind of segments.
fn check_sorts<E: Buffers, K: Key + Sample>(engine: &E, longest: usize) {
    let mut rng = Rng::new();
    let rng = &mut rng;
    for (k, most) in memories(rng, longest).into_iter().enumerate() {
        let pattern = [Pattern::Random, Pattern::PowerLaw, Pattern::MostlyFew, Pattern::Special][k % 4];
        let (x, old): (Vec<K>, Vec<K>) = (keys(rng, pattern, most), keys(rng, pattern, most));
        let all = lengths(2 + most / 3);
        for count in counts(rng, most) {
            let lengths = all[rng.below(all.len())];
            let segments = Segments::draw(rng, most, lengths, true);
            let widest = [8, 250, 4000, 16_000, 100_000][rng.below(5)].min(most);
            let columns = 1 + rng.below(widest);
            let rows = Segments::rows(most / columns, columns);
            let input = Input { x: &x, old: &old, count };
            let how = How::any(rng, 8 * size_of::<K>() as u32);
            let (items, sort) = (&x[..input.n()], how.builder::<K>());
            let what = &(type_name::<K>(), pattern, most, count, lengths);
            let order = sort_oracle(items, &cut(&segments, items.len()), &how);
            macro_rules! by {
                ($method:ident, $selectors:expr) => {{
                    let selectors = $selectors;
                    let memory = engine.put(&selectors);
                    let view = engine.view(&memory, 0..selectors.len());
                    check_sort(engine, sort.$method(&view), &input, &order, &(stringify!($method), what));
                }};
            }
            match rng.below(4) {
                0 => by!(segments, segments.offsets::<u32>()),
                1 => by!(heads, segments.flags(rng)),
                2 => by!(head_bits, segments.words::<u64>(rng)),
                _ => by!(by_key, segments.keys::<u16>(rng)),
            }
            let input = Input { x: &x[..rows.n], ..input };
            let items = &input.x[..input.n()];
            let order = sort_oracle(items, &cut(&rows, items.len()), &how);
            check_sort(engine, sort.rows(columns), &input, &order, &("rows", columns, what));
        }
    }
}

macro_rules! counted_suites {
    ($($engine:ident $made:expr, $longest:expr;)*) => { $(
        mod $engine {
            use super::*;
            counted_suites! { @each $made, $longest, check;
                sum_of_u32: Sum, u32; sum_of_f32: Sum, f32; max_of_f16: Max, half::f16; last_of_u8: Last, u8;
                automata: Compose, Transitions;
            }
            counted_suites! { @each $made, $longest, check_sorts; sort_of_u8: u8; sort_of_u32: u32; sort_of_f64: f64; }
        }
    )* };
    (@each $made:expr, $longest:expr, $check:ident; $($name:ident: $($t:ty),+;)*) => { $(
        #[test]
        fn $name() {
            let engine = $made;
            $check::<_, $($t),+>(&engine, $longest);
        }
    )* };
}
counted_suites! {
    host OnHost, 1 << 18;
    device or_skip!(OnDevice::new()), 1 << 21;
}

/// In a memory of more than 32 MiB the kernels of the longest inputs run, whatever the number of items is. Inputs and
/// outputs are views that begin at item 1.
#[test]
fn few_items_of_a_long_memory() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let rng = &mut rng;
    let most = (40 << 20) / size_of::<u32>();
    let [scan_tile, run_tile] = [scan_tiles(4), run_tiles(4)].map(|tiles| tiles[2]);
    let x: Vec<u32> = noise(rng, most);
    let segments = Segments::draw(rng, most, Lengths::Below(100_000), true);
    let (source, room, one) = (Guarded::new(rng, 1, &x), Guarded::room(rng, 1, most), Guarded::room(rng, 1, 1));
    let memory = engine.put(&source.all);
    let (offsets, flags) = (engine.put(&segments.offsets::<u32>()), engine.put(&segments.flags(rng)));
    let tiles = [scan_tile, run_tile].map(|tile| [tile, 3 * tile + 1]);
    let counts = [0, 1, most / 64, most / 2 - 1, most / 2, most / 2 + 1, most];
    for n in counts.into_iter().chain(tiles.into_iter().flatten()) {
        let length = engine.put(&[n as u64]);
        let all = options::<Sum, u32>(rng, Draw::Any);
        let options = all[rng.below(all.len())];
        let (scan, reduce, what) = (builder::<Sum, u32>(options), reduce::<Sum, u32>(), &(n, options));
        macro_rules! assert_holds {
            ($builder:expr, $most:expr, $expected:expr) => {{
                let (from, mut output) = (memory.slice(1..1 + $most), engine.put(&room.all));
                $builder.len(&length).run_into(&from, &mut output.slice_mut(1..1 + $most)).unwrap();
                room.assert_holds(&engine.get(&output), &$expected, &(stringify!($builder), $most, what));
            }};
        }
        let (items, of_items) = (&x[..n], cut(&segments, n));
        let scanned = scan_oracle::<Sum, u32>(items, &of_items, options);
        assert_holds!(scan.segments(&offsets), most, scanned);
        assert_holds!(scan.heads(&flags), most, scanned);
        assert_holds!(reduce.segments(&offsets), most, reduce_oracle::<Sum, u32>(items, &of_items, None, 0));

        let (mut output, mut count) = (engine.put(&room.all), engine.put(&one.all));
        let (from, mut to) = (memory.slice(source.items.clone()), output.slice_mut(room.items.clone()));
        reduce.heads(&flags).len(&length).run_into(&from, &mut to, &mut count.slice_mut(1..2)).unwrap();
        let runs = runs_oracle::<Sum, u32>(items, &of_items, None);
        room.assert_holds(&engine.get(&output), &runs, &("runs", what));
        one.assert_holds(&engine.get(&count), &[runs.len() as u64], &("runs", what));

        // A warp takes rows of 1000 whole. Tiles and stretches cut those of 100 003, and pieces cut few of them.
        for (rows, columns) in [(most / 1000, 1000), (most / 100_003, 100_003), (40, 100_003)] {
            let rows = Segments::rows(rows, columns);
            let n = n.min(rows.n);
            let scanned = scan_oracle::<Sum, u32>(&x[..n], &cut(&rows, n), options);
            assert_holds!(scan.rows(columns), rows.n, scanned);
            let whole = Segments::rows(n / columns, columns);
            assert_holds!(reduce.rows(columns), rows.n, reduce_oracle::<Sum, u32>(&x[..whole.n], &whole, None, 0));
        }
    }
    assert!(engine.get(&memory) == source.all, "the input");
}

/// One workspace serves every number of items, and calls of a known length between them: its words stay zero. A
/// reduction of the shorter input cuts the long segment into pieces. That of the longer one goes over stretches.
#[test]
fn prepared_once() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let options = Options { exclusive: false, init: None, reverse: false };
    for most in [1_500_000, 4_300_000] {
        let x: Vec<u32> = noise(&mut rng, most);
        let begins = (0..=200).map(|k| 9 * k);
        let segments = Segments { n: most, offsets: begins.chain([most - 1000, most - 3]).collect() };
        let input = stream.clone_htod(&x).unwrap();
        let offsets = stream.clone_htod(&segments.offsets::<u32>()).unwrap();
        let flags = stream.clone_htod(&segments.flags(&mut rng)).unwrap();
        let mut length = stream.alloc_zeros::<u64>(1).unwrap();
        let mut scanned = stream.alloc_zeros::<u32>(most).unwrap();
        let mut reduced = stream.alloc_zeros::<u32>(segments.offsets.len() - 1).unwrap();
        let (mut runs, mut count) = (scanned.clone(), length.clone());
        let (sums, totals) = (scan::<Sum, u32>().segments(&offsets), reduce::<Sum, u32>().segments(&offsets));
        let run_totals = reduce::<Sum, u32>().heads(&flags);
        sums.prepare(most, &mut workspace).unwrap();
        totals.prepare(most, &mut workspace).unwrap();
        run_totals.prepare(most, &mut workspace).unwrap();
        sums.len(&length).prepare(most, &mut workspace).unwrap();
        totals.len(&length).prepare(most, &mut workspace).unwrap();
        run_totals.len(&length).prepare(most, &mut workspace).unwrap();
        let held = workspace.bytes();
        for (n, is_known) in [most, 0, 1, most / 2, 70, most].into_iter().flat_map(|n| [(n, false), (most, true)]) {
            if is_known {
                sums.workspace(&mut workspace).run_into(&input, &mut scanned).unwrap();
                totals.workspace(&mut workspace).run_into(&input, &mut reduced).unwrap();
                run_totals.workspace(&mut workspace).run_into(&input, &mut runs, &mut count).unwrap();
            } else {
                stream.memcpy_htod(&[n as u64], &mut length).unwrap();
                sums.workspace(&mut workspace).len(&length).run_into(&input, &mut scanned).unwrap();
                totals.workspace(&mut workspace).len(&length).run_into(&input, &mut reduced).unwrap();
                let run_totals = run_totals.workspace(&mut workspace).len(&length);
                run_totals.run_into(&input, &mut runs, &mut count).unwrap();
            }
            let (items, of_items, what) = (&x[..n], cut(&segments, n), &(n, is_known, most));
            let expected = scan_oracle::<Sum, u32>(items, &of_items, options);
            assert_same(&stream.clone_dtoh(&scanned.slice(..n)).unwrap(), &expected, what);
            let expected = reduce_oracle::<Sum, u32>(items, &of_items, None, 0);
            assert_same(&stream.clone_dtoh(&reduced).unwrap(), &expected, what);
            let expected = runs_oracle::<Sum, u32>(items, &of_items, None);
            assert_eq!(stream.clone_dtoh(&count).unwrap(), [expected.len() as u64], "{what:?}");
            assert_same(&stream.clone_dtoh(&runs.slice(..expected.len())).unwrap(), &expected, what);
            assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
        }
    }
}

/// A short walk for the sanitizers.
#[test]
fn sanitize() {
    let engine = or_skip!(OnDevice::new());
    let (mut rng, most) = (Rng::new(), 40_000);
    let rng = &mut rng;
    let (x, old): (Vec<u32>, Vec<u32>) = (noise(rng, most), noise(rng, most));
    let segments = Segments::draw(rng, most, Lengths::Below(30_000), true);
    let options = Options { exclusive: false, init: None, reverse: false };
    for count in [0, 1, 20_000, 40_000, 50_000] {
        let input = Input { x: &x, old: &old, count };
        let items = &x[..input.n()];
        let of_items = cut(&segments, items.len());
        let (offsets, keys) = (engine.put(&segments.offsets::<u32>()), engine.put(&segments.keys::<u32>(rng)));
        let (offsets, keys) = (offsets.slice(..), keys.slice(..));
        let scanned = scan_oracle::<Sum, u32>(items, &of_items, options);
        check_scan(&engine, scan::<Sum, u32>().segments(&offsets), &input, &scanned, &count);
        check_scan(&engine, scan::<Sum, u32>().by_key(&keys), &input, &scanned, &count);
        let reduced = reduce_oracle::<Sum, u32>(items, &of_items, None, 0);
        check_reduce(&engine, reduce::<Sum, u32>().segments(&offsets), &input, reduced.len(), &reduced, &count);
        let runs = runs_oracle::<Sum, u32>(items, &of_items, None);
        check_runs(&engine, reduce::<Sum, u32>().by_key(&keys), &input, &runs, &count);
        let how = How::any(rng, 32);
        let order = sort_oracle(items, &of_items, &how);
        check_sort(&engine, how.builder::<u32>().segments(&offsets), &input, &order, &count);
    }
}

/// A group-by without the host, in one graph: records are selected, sorted by key and summed by key; the groups'
/// totals are scanned, reduced and sorted by segment. Each replay selects others.
#[test]
fn a_group_by_in_a_graph() {
    if !is_alone(a_group_by_in_a_graph) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let (mut rng, n) = (Rng::new(), 1_500_000);
    let mut workspace = Workspace::new(&stream);
    let zero = stream.alloc_zeros::<u64>(1).unwrap();
    let mut values = stream.alloc_zeros::<u32>(n).unwrap();
    let mut keys = values.clone();
    let (mut kept, mut kept_keys) = (values.clone(), values.clone());
    let (mut names, mut totals, mut sums, mut highest) =
        (values.clone(), values.clone(), values.clone(), stream.alloc_zeros::<u32>(3).unwrap());
    let (mut count, mut groups) = (zero.clone(), zero.clone());
    let offsets = [0, 1000, 200_000, n as u32];
    let ends = stream.clone_htod(&offsets).unwrap();
    let by_key = reduce::<Sum, u32>();
    compact::<u32>().keep(Above(0)).prepare_pairs::<u32>(n, &mut workspace).unwrap();
    sort::<u32>().len(&zero).prepare_pairs::<u32>(n, &mut workspace).unwrap();
    by_key.by_key(&kept_keys).len(&zero).prepare(n, &mut workspace).unwrap();
    scan::<Sum, u32>().segments(&ends).len(&zero).prepare(n, &mut workspace).unwrap();
    reduce::<Max, u32>().segments(&ends).len(&zero).prepare(n, &mut workspace).unwrap();
    sort::<u32>().segments(&ends).len(&zero).prepare(n, &mut workspace).unwrap();
    let held = workspace.bytes();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    let selected = compact::<u32>().keep(Above(0)).workspace(&mut workspace);
    selected.run_pairs_into(&values, &keys, &mut kept, &mut kept_keys, &mut count).unwrap();
    let sorted = sort::<u32>().workspace(&mut workspace).len(&count);
    sorted.run_pairs_in_place::<u32, _, _>(&mut kept_keys, &mut kept).unwrap();
    let summed = by_key.workspace(&mut workspace).len(&count).by_key(&kept_keys);
    summed.run_with_keys_into(&kept, &mut names, &mut totals, &mut groups).unwrap();
    let scanned = scan::<Sum, u32>().workspace(&mut workspace).segments(&ends).len(&groups);
    scanned.run_into(&totals, &mut sums).unwrap();
    let reduced = reduce::<Max, u32>().workspace(&mut workspace).segments(&ends).len(&groups);
    reduced.run_into(&totals, &mut highest).unwrap();
    sort::<u32>().workspace(&mut workspace).segments(&ends).len(&groups).run_in_place(&mut totals).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
    for every in [1, 2, 3, 1000, n, 10 * n] {
        let distinct = [3, 1000, 500_000][rng.below(3)];
        let items: Vec<u32> = (0..n).map(|_| u32::from(rng.below(every) == 0) * (1 + rng.below(9) as u32)).collect();
        let names_in: Vec<u32> = (0..n).map(|_| rng.below(distinct) as u32).collect();
        stream.memcpy_htod(&items, &mut values).unwrap();
        stream.memcpy_htod(&names_in, &mut keys).unwrap();
        graph.launch().unwrap();
        let mut by_name = std::collections::BTreeMap::new();
        for (name, item) in names_in.iter().zip(&items).filter(|(_, item)| **item > 0) {
            *by_name.entry(*name).or_insert(0) += item;
        }
        let found = stream.clone_dtoh(&groups).unwrap()[0] as usize;
        assert_eq!(found, by_name.len(), "one in {every}");
        let (expected, mut expected_totals): (Vec<u32>, Vec<u32>) = by_name.into_iter().unzip();
        assert_same(&stream.clone_dtoh(&names.slice(..found)).unwrap(), &expected, &every);
        let whole = Segments { n, offsets: offsets.iter().map(|&offset| offset as usize).collect() };
        let segments = cut(&whole, found);
        let options = Options { exclusive: false, init: None, reverse: false };
        let expected = scan_oracle::<Sum, u32>(&expected_totals, &segments, options);
        assert_same(&stream.clone_dtoh(&sums.slice(..found)).unwrap(), &expected, &every);
        let expected = reduce_oracle::<Max, u32>(&expected_totals, &segments, None, 0);
        assert_same(&stream.clone_dtoh(&highest).unwrap(), &expected, &every);
        for segment in segments.of_scan() {
            expected_totals[segment].sort_unstable();
        }
        assert_same(&stream.clone_dtoh(&totals.slice(..found)).unwrap(), &expected_totals, &every);
    }
}

#[test]
fn bad_input() {
    let x = [1, 2, 3, 4];
    let none = scan::<Sum, i32>().rows(2).len::<parascan::Host, [u64]>(&[]).run(&x);
    assert!(
        matches!(none, Err(Error::Size { primitive: "scan", what: "the length", found: 0, needed: 1 })),
        "{none:?}"
    );
    // The last segment has no items, and there is no result for it.
    let empty = reduce::<Last, i32>().segments(&[0_u32, 2, 4]).len(&[2]).run(&x);
    assert!(matches!(empty, Err(Error::Empty { primitive: "reduce" })), "{empty:?}");
    assert_eq!(reduce::<Last, i32>().segments(&[0_u32, 2, 4]).len(&[3]).run(&x).unwrap(), [2, 3]);
    // The memory is of whole rows, and offsets lie in it, whatever the number of items.
    let rows = scan::<Sum, i32>().rows(3).len(&[3]).run(&x);
    assert!(matches!(rows, Err(Error::Size { primitive: "scan", what: "the last row", .. })), "{rows:?}");
    let past = reduce::<Sum, i32>().segments(&[0_u32, 9]).len(&[3]).run(&x);
    assert!(matches!(past, Err(Error::Size { primitive: "reduce", what: "the items", .. })), "{past:?}");
}
