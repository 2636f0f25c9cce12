//! Each primitive alone, with exactly the scratch memory that it asks for.

use super::*;

/// A stack and its stream, for calls of up to `n` items.
struct Exact<'s> {
    stack: &'s mut Stack,
    stream: &'s Arc<CudaStream>,
    rng: Rng,
    n: usize,
}

impl<'s> Exact<'s> {
    /// The items in memory of the stack. They begin an item after an aligned address.
    fn put<T: Pod>(&mut self, items: &[T]) -> RawSlice<'s, T> {
        let address = self.stack.put(&[&[T::zeroed()][..], items].concat());
        // SAFETY: the items lie there as long as the stack lives, and a call gets them once.
        unsafe { RawSlice::new(address + size_of::<T>() as CUdeviceptr, items.len(), self.stream) }
    }

    /// An output of `len` items, and what lies there now.
    fn room<T: Pod>(&mut self, len: usize) -> (RawSlice<'s, T>, Vec<T>) {
        let old = noise(&mut self.rng, len);
        (self.put(&old), old)
    }

    /// Makes a call with exactly the scratch memory that `prepare` asks for. It is noise, and the guard bytes
    /// around it must not change.
    fn call(
        &mut self,
        what: &str,
        prepare: &dyn Fn(&mut Workspace) -> Result<(), Error>,
        run: &mut dyn FnMut(&mut Workspace) -> Result<(), Error>,
    ) {
        const GUARD: usize = 4 << 10;
        let bytes = Workspace::measure(self.stream, prepare).unwrap();
        let before: Vec<u8> = noise(&mut self.rng, GUARD + bytes + GUARD);
        let address = self.stack.put(&before);
        // SAFETY: the stack's memory, which nothing else uses.
        let mut workspace = unsafe { Workspace::over(self.stream, address + GUARD as CUdeviceptr, bytes) };
        run(&mut workspace).unwrap_or_else(|e| panic!("{what} of {}, with {bytes} bytes: {e}", self.n));
        let after: Vec<u8> = self.stack.get(address, before.len());
        assert!(after[..GUARD] == before[..GUARD], "{what} of {}: before the scratch memory", self.n);
        assert!(after[GUARD + bytes..] == before[GUARD + bytes..], "{what} of {}: behind it", self.n);
    }

    /// Asserts that the output holds `expected`, and `old` behind it.
    #[track_caller]
    fn holds<T: Pod + Debug>(&self, output: &RawSlice<'_, T>, expected: &[T], old: &[T], what: &str) {
        let got = self.stack.get::<T>(output.device_ptr(self.stream).0, output.len());
        assert_bytes(&got, &[expected, &old[expected.len()..]].concat(), &(what, self.n));
    }
}

const PLAIN: Options<u32> = Options { exclusive: false, init: None, reverse: false };

/// Scan, reduce and the primitives that select, of all items and of a number that lies in memory.
fn of_items(exact: &mut Exact<'_>) {
    let n = exact.n;
    let x: Vec<u32> = any::<u32>(&mut exact.rng, n).into_iter().map(|x| x >> 20).collect();
    let words: Vec<u32> = noise(&mut exact.rng, n.div_ceil(32));
    let flags: Vec<u8> = (0..n).map(|i| (words[i / 32] >> (i % 32) & 1) as u8).collect();
    let some = exact.rng.below(n + 1);
    let (input, length) = (exact.put(&x), exact.put(&[some as u64]));
    let (words, flags_in) = (exact.put(&words), exact.put(&flags));

    let sum = scan::<Sum, u32>();
    let (mut to, old) = exact.room(n);
    exact.call("scan", &|ws| sum.prepare(n, ws), &mut |ws| sum.workspace(ws).run_into(&input, &mut to));
    exact.holds(&to, &oracle::<Sum, u32>(&x, PLAIN), &old, "scan");
    let mut data = exact.put(&x);
    let call = &mut |ws: &mut Workspace| sum.workspace(ws).len(&length).run_in_place(&mut data);
    exact.call("a counted scan", &|ws| sum.len(&length).prepare(n, ws), call);
    exact.holds(&data, &oracle::<Sum, u32>(&x[..some], PLAIN), &x, "a counted scan in place");

    let sum = reduce::<Sum, u32>();
    let (mut to, old) = exact.room(2);
    exact.call("reduce", &|ws| sum.prepare(n, ws), &mut |ws| sum.workspace(ws).run_into(&input, &mut to));
    exact.holds(&to, &[total::<Sum, u32>(&x, None).unwrap()], &old, "reduce");
    let (mut to, old) = exact.room(2);
    let call = &mut |ws: &mut Workspace| sum.workspace(ws).len(&length).run_into(&input, &mut to);
    exact.call("a counted reduce", &|ws| sum.len(&length).prepare(n, ws), call);
    exact.holds(&to, &[total::<Sum, u32>(&x[..some], None).unwrap()], &old, "a counted reduce");
    let (mut to, old) = exact.room(2);
    let highest = reduce::<Max, u32>();
    let call = &mut |ws: &mut Workspace| highest.workspace(ws).position_into(&input, &mut to);
    exact.call("position", &|ws| highest.prepare_position(n, ws), call);
    let most = x.iter().copied().max();
    exact.holds(&to, &[x.iter().position(|&x| Some(x) == most).unwrap() as u64], &old, "position");

    let taken =
        |n: usize, is: &dyn Fn(usize) -> bool| -> Vec<u32> { (0..n).filter(|&i| is(i)).map(|i| x[i]).collect() };
    let is_flagged = |i: usize| flags[i] != 0;
    let above = taken(n, &|i| x[i] > 7);
    let (mut to, old) = exact.room(n);
    let (mut count, old_count) = exact.room::<u64>(2);
    let keep = compact::<u32>().keep(Above(7));
    let call = &mut |ws: &mut Workspace| keep.workspace(ws).run_into(&input, &mut to, &mut count);
    exact.call("compact", &|ws| keep.prepare(n, ws), call);
    exact.holds(&to, &above, &old, "compact");
    exact.holds(&count, &[above.len() as u64], &old_count, "the count");
    let flagged = taken(some, &is_flagged);
    let (mut to, old) = exact.room(n);
    let keep = compact::<u32>().flags(&flags_in);
    let call = &mut |ws: &mut Workspace| keep.workspace(ws).len(&length).run_into(&input, &mut to, &mut count);
    exact.call("a counted compact", &|ws| keep.len(&length).prepare(n, ws), call);
    exact.holds(&to, &flagged, &old, "a counted compact by flags");
    let payload: Vec<u16> = noise(&mut exact.rng, n);
    let beside = exact.put(&payload);
    let ((mut to, old), (mut beside_to, old_beside)) = (exact.room(n), exact.room::<u16>(n));
    let keep = compact::<u32>().bits::<u32, _>(&words);
    let call = &mut |ws: &mut Workspace| {
        keep.workspace(ws).run_pairs_into(&input, &beside, &mut to, &mut beside_to, &mut count)
    };
    exact.call("pairs by bits", &|ws| keep.prepare_pairs::<u16>(n, ws), call);
    exact.holds(&to, &taken(n, &is_flagged), &old, "pairs by bits");
    let moved: Vec<u16> = (0..n).filter(|&i| is_flagged(i)).map(|i| payload[i]).collect();
    exact.holds(&beside_to, &moved, &old_beside, "the payload by bits");

    let parts = partition::<u32>().keep(Above(7));
    let (mut to, old) = exact.room(n);
    let call = &mut |ws: &mut Workspace| parts.workspace(ws).run_into(&input, &mut to, &mut count);
    exact.call("partition", &|ws| parts.prepare(n, ws), call);
    exact.holds(&to, &[above, taken(n, &|i| x[i] <= 7)].concat(), &old, "partition");
    let changes = unique::<u32>();
    let (mut to, old) = exact.room(n);
    let call = &mut |ws: &mut Workspace| changes.workspace(ws).run_into(&input, &mut to, &mut count);
    exact.call("unique", &|ws| changes.prepare(n, ws), call);
    exact.holds(&to, &taken(n, &|i| i == 0 || x[i] != x[i - 1]), &old, "unique");
    let starts = offsets::<u32, u64>();
    let (mut to, old) = exact.room(n);
    let call = &mut |ws: &mut Workspace| starts.workspace(ws).run_into(&input, &mut to, &mut count);
    exact.call("offsets", &|ws| starts.prepare(n, ws), call);
    let mut end = 0;
    let ends: Vec<u64> = x
        .iter()
        .map(|&size| {
            end += u64::from(size);
            end
        })
        .collect();
    let expected: Vec<u64> = ends.iter().zip(&x).map(|(end, &size)| end - u64::from(size)).collect();
    exact.holds(&to, &expected, &old, "offsets");
}

/// Keys-only, pairs and source indices, of all keys and of a number that lies in memory.
fn of_sorts(exact: &mut Exact<'_>) {
    let n = exact.n;
    // Keys of all ranges, of which some are equal.
    let x: Vec<u32> = any::<u32>(&mut exact.rng, n).into_iter().map(|x| x & !0xfff).collect();
    let numbers: Vec<u32> = (0..n as u32).collect();
    let some = exact.rng.below(n + 1);
    let (input, beside, length) = (exact.put(&x), exact.put(&numbers), exact.put(&[some as u64]));
    let how = How { descending: exact.rng.below(2) == 0, bits: None };
    let (by, order, order_of_some) = (how.builder::<u32>(), how.oracle(&x), how.oracle(&x[..some]));
    let sorted = |order: &[u32]| -> Vec<u32> { order.iter().map(|&i| x[i as usize]).collect() };

    let (mut to, old) = exact.room(n);
    exact.call("sort", &|ws| by.prepare(n, ws), &mut |ws| by.workspace(ws).run_into(&input, &mut to));
    exact.holds(&to, &sorted(&order), &old, "sort");
    let mut data = exact.put(&x);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_in_place(&mut data);
    exact.call("a counted sort", &|ws| by.len(&length).prepare(n, ws), call);
    exact.holds(&data, &sorted(&order_of_some), &x, "a counted sort in place");

    let ((mut to, old), (mut beside_to, old_beside)) = (exact.room(n), exact.room(n));
    let call = &mut |ws: &mut Workspace| by.workspace(ws).run_pairs_into(&input, &beside, &mut to, &mut beside_to);
    exact.call("pairs", &|ws| by.prepare_pairs::<u32>(n, ws), call);
    exact.holds(&to, &sorted(&order), &old, "pairs");
    exact.holds(&beside_to, &order, &old_beside, "the payload");
    let (mut keys, mut values) = (exact.put(&x), exact.put(&numbers));
    let call =
        &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_pairs_in_place::<u32, _, _>(&mut keys, &mut values);
    exact.call("counted pairs", &|ws| by.len(&length).prepare_pairs::<u32>(n, ws), call);
    exact.holds(&keys, &sorted(&order_of_some), &x, "counted pairs in place");
    exact.holds(&values, &order_of_some, &numbers, "the counted payload in place");
    let (mut to, old) = exact.room(n);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).indices_into::<u32, _, _>(&input, &mut to);
    exact.call("indices", &|ws| by.prepare_indices::<u32>(n, ws), call);
    exact.holds(&to, &order, &old, "indices");
}

/// Scans, reductions and sorts by segment and by column.
fn of_segments(exact: &mut Exact<'_>) {
    let n = exact.n;
    let x: Vec<u32> = any(&mut exact.rng, n);
    let lengths = [Lengths::Below(40), Lengths::Below(5000), Lengths::Half][exact.rng.below(3)];
    let segments = Segments::draw(&mut exact.rng, n, lengths, true);
    let some = exact.rng.below(n + 1);
    let cut = Segments { n: some, offsets: segments.offsets.iter().map(|&offset| offset.min(some)).collect() };
    let (offsets, flags) = (segments.offsets::<u32>(), segments.flags(&mut exact.rng));
    let (words, keys) = (segments.words::<u32>(&mut exact.rng), segments.keys::<u16>(&mut exact.rng));
    let (input, length) = (exact.put(&x), exact.put(&[some as u64]));
    let (offsets, flags) = (exact.put(&offsets), exact.put(&flags));
    let (words, keys) = (exact.put(&words), exact.put(&keys));
    let scanned = scan_oracle::<Sum, u32>(&x, &segments, PLAIN);
    let reduced = reduce_oracle::<Sum, u32>(&x, &segments, None, 0);
    let runs = runs_oracle::<Sum, u32>(&x, &segments, None);
    let stable = |segments: &Segments| -> Vec<u32> {
        let mut order: Vec<u32> = (0..segments.n as u32).collect();
        segments.of_scan().for_each(|segment| order[segment].sort_by_key(|&i| x[i as usize]));
        order
    };
    let order = stable(&segments);
    let sorted: Vec<u32> = order.iter().map(|&i| x[i as usize]).collect();
    let rows = reduced.len();

    // Each kind of segments: a scan, a reduction, and a scan and a sort in place. `$count`: of the reduction's results.
    macro_rules! by {
        ($kind:literal, $method:ident, $selectors:expr, $reduced:expr $(, $count:ident)?) => {{
            let by = scan::<Sum, u32>().$method($selectors);
            let (mut to, old) = exact.room(n);
            let call = &mut |ws: &mut Workspace| by.workspace(ws).run_into(&input, &mut to);
            exact.call(concat!("scan by ", $kind), &|ws| by.prepare(n, ws), call);
            exact.holds(&to, &scanned, &old, concat!("scan by ", $kind));
            let mut data = exact.put(&x);
            let call = &mut |ws: &mut Workspace| by.workspace(ws).run_in_place(&mut data);
            exact.call(concat!("scan by ", $kind, " in place"), &|ws| by.prepare(n, ws), call);
            exact.holds(&data, &scanned, &x, concat!("scan by ", $kind, " in place"));

            let by = reduce::<Sum, u32>().$method($selectors);
            let (mut to, old) = exact.room(n.max(rows));
            $( let (mut $count, _) = exact.room::<u64>(1); )?
            let call = &mut |ws: &mut Workspace| by.workspace(ws).run_into(&input, &mut to $(, &mut $count)?);
            exact.call(concat!("reduce by ", $kind), &|ws| by.prepare(n, ws), call);
            exact.holds(&to, $reduced, &old, concat!("reduce by ", $kind));

            let by = sort::<u32>().$method($selectors);
            let mut data = exact.put(&x);
            let call = &mut |ws: &mut Workspace| by.workspace(ws).run_in_place(&mut data);
            exact.call(concat!("sort by ", $kind), &|ws| by.prepare(n, ws), call);
            exact.holds(&data, &sorted, &x, concat!("sort by ", $kind));
        }};
    }
    by!("offsets", segments, &offsets, &reduced);
    by!("flags", heads, &flags, &runs, count);
    by!("bits", head_bits, &words, &runs, count);
    by!("keys", by_key, &keys, &runs, count);

    let by = sort::<u32>().segments(&offsets);
    let numbers = exact.put(&(0..n as u32).collect::<Vec<_>>());
    let ((mut to, old), (mut beside_to, old_beside)) = (exact.room(n), exact.room(n));
    let call = &mut |ws: &mut Workspace| by.workspace(ws).run_pairs_into(&input, &numbers, &mut to, &mut beside_to);
    exact.call("pairs by offsets", &|ws| by.prepare_pairs::<u32>(n, ws), call);
    exact.holds(&to, &sorted, &old, "pairs by offsets");
    exact.holds(&beside_to, &order, &old_beside, "the payload by offsets");

    // A number of items that lies in memory.
    let by = scan::<Sum, u32>().segments(&offsets);
    let mut data = exact.put(&x);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_in_place(&mut data);
    exact.call("a counted scan by offsets", &|ws| by.len(&length).prepare(n, ws), call);
    exact.holds(&data, &scan_oracle::<Sum, u32>(&x[..some], &cut, PLAIN), &x, "a counted scan by offsets");
    let by = reduce::<Sum, u32>().segments(&offsets);
    let (mut to, old) = exact.room(rows);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_into(&input, &mut to);
    exact.call("a counted reduce by offsets", &|ws| by.len(&length).prepare(n, ws), call);
    exact.holds(&to, &reduce_oracle::<Sum, u32>(&x[..some], &cut, None, 0), &old, "a counted reduce by offsets");
    let by = reduce::<Sum, u32>().by_key(&keys);
    let ((mut to, old), (mut count, _)) = (exact.room(n), exact.room::<u64>(1));
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_into(&input, &mut to, &mut count);
    exact.call("a counted reduce by keys", &|ws| by.len(&length).prepare(n, ws), call);
    exact.holds(&to, &runs_oracle::<Sum, u32>(&x[..some], &cut, None), &old, "a counted reduce by keys");
    let by = sort::<u32>().segments(&offsets);
    let mut data = exact.put(&x);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_in_place(&mut data);
    exact.call("a counted sort by offsets", &|ws| by.len(&length).prepare(n, ws), call);
    let expected: Vec<u32> = stable(&cut).into_iter().map(|i| x[i as usize]).collect();
    exact.holds(&data, &expected, &x, "a counted sort by offsets");

    // Columns, of all rows and of the first ones.
    let columns = 1 + exact.rng.below(n.min(50));
    let rows = n / columns;
    let x = &x[..rows * columns];
    let whole = some.min(x.len()) / columns * columns;
    let matrix = exact.put(x);
    let by = scan::<Sum, u32>().columns(columns);
    let (mut to, old) = exact.room(x.len());
    exact.call("scan by column", &|ws| by.prepare(rows, ws), &mut |ws| by.workspace(ws).run_into(&matrix, &mut to));
    exact.holds(&to, &columns_oracle::<Sum, u32>(x, columns, PLAIN), &old, "scan by column");
    let mut data = exact.put(x);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_in_place(&mut data);
    exact.call("a counted scan by column", &|ws| by.len(&length).prepare(rows, ws), call);
    exact.holds(&data, &columns_oracle::<Sum, u32>(&x[..whole], columns, PLAIN), x, "a counted scan by column");
    let by = reduce::<Sum, u32>().columns(columns);
    let (mut to, old) = exact.room(columns);
    exact.call("reduce by column", &|ws| by.prepare(rows, ws), &mut |ws| by.workspace(ws).run_into(&matrix, &mut to));
    exact.holds(&to, &column_totals::<Sum, u32>(x, columns, None).unwrap(), &old, "reduce by column");
    let (mut to, old) = exact.room(columns);
    let call = &mut |ws: &mut Workspace| by.workspace(ws).len(&length).run_into(&matrix, &mut to);
    exact.call("a counted reduce by column", &|ws| by.len(&length).prepare(rows, ws), call);
    let expected = column_totals::<Sum, u32>(&x[..whole], columns, None).unwrap();
    exact.holds(&to, &expected, &old, "a counted reduce by column");
}

/// Calls `check` with each stack and each length.
fn exactly(lengths: &[usize], check: fn(&mut Exact<'_>)) {
    each(|stack, stream| {
        for &n in lengths {
            check(&mut Exact { stack: &mut *stack, stream, rng: Rng::new(), n });
        }
    });
}

/// Each primitive alone has exactly the scratch memory that it asks for, at the borders of tiles and of the kernels
/// for lengths.
#[test]
fn exact_scratch() {
    let _device = common::or_skip!(context());
    exactly(&[1, 31, 3072, 3073, 6145, 100_000, (1 << 20) + 1], of_items);
}
/// At the borders of the ways of a sort.
#[test]
fn exact_scratch_of_sorts() {
    let _device = common::or_skip!(context());
    exactly(&[1, 4096, 4097, 5632, 5633, 1 << 18, 1 << 20, (1 << 20) + 1, (1 << 22) + 1, 5 << 20], of_sorts);
}
#[test]
fn exact_scratch_by_segment() {
    let _device = common::or_skip!(context());
    exactly(&[1, 33, 3073, 40_000, 300_000, (1 << 20) + 1], of_segments);
}
