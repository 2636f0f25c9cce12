//! Rows with a stride, on both engines, against plain loops over the rows.

use super::sizes::{AddFirst, Three};
use super::*;
use crate::common::{any, oracle, total};
use parascan::cudarc::driver::CudaSlice;
use parascan::operators::{Compose, Matrix};
use parascan::{Max, Sum, sort};

/// A part of a wider matrix, and its rows.
struct Part<T = u32> {
    columns: usize,
    stride: usize,
    x: Vec<T>,
}

impl Part {
    fn draw(rng: &mut Rng, columns: usize, gap: usize, rows: usize) -> Part {
        Part::of(rng, columns, gap, rows, noise)
    }
}

impl<T: Pod> Part<T> {
    fn of(rng: &mut Rng, columns: usize, gap: usize, rows: usize, items: fn(&mut Rng, usize) -> Vec<T>) -> Part<T> {
        let stride = columns + gap;
        // What lies between rows may be missing behind the last one, or some of it.
        let n = (rows * stride).saturating_sub(rng.below(gap + 1));
        Part { columns, stride, x: items(rng, n) }
    }
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.x.len()).step_by(self.stride).map(|begin| begin..begin + self.columns)
    }
    /// Applies `change` to each row of a copy: in place, and side by side.
    fn changed(&self, x: &[T], change: impl Fn(&[T]) -> Vec<T>) -> (Vec<T>, Vec<T>) {
        self.changed_upto(usize::MAX, x, change)
    }
    /// The same of the first `n` items in rows, by `len`: the last row may have fewer than others.
    fn changed_upto(&self, n: usize, x: &[T], change: impl Fn(&[T]) -> Vec<T>) -> (Vec<T>, Vec<T>) {
        let (mut apart, mut together) = (x.to_vec(), Vec::new());
        for (r, row) in self.rows().enumerate() {
            let row = row.start..row.start + n.saturating_sub(r * self.columns).min(self.columns);
            let changed = change(&self.x[row.clone()]);
            apart[row].copy_from_slice(&changed);
            together.extend(changed);
        }
        (apart, together)
    }
}

fn shapes(rng: &mut Rng) -> Vec<Part> {
    let mut all = Vec::new();
    for columns in [1, 2, 3, 31, 256, 1000, 5000, 20_000] {
        for gap in [0, 1, 5, 3 * columns] {
            for rows in [0, 1, 2, 7, 100_000 / columns] {
                all.push(Part::draw(rng, columns, gap, rows));
            }
        }
    }
    all
}

/// The exclusive sums of a row from its end.
fn suffix_sums(row: &[u32]) -> Vec<u32> {
    let (mut sums, mut sum) = (vec![0; row.len()], 0_u32);
    for i in (0..row.len()).rev() {
        sums[i] = sum;
        sum = sum.wrapping_add(row[i]);
    }
    sums
}
/// The positions of keys in descending order of six of their bits, and the keys in this order.
fn positions(row: &[u32]) -> Vec<u32> {
    let mut positions: Vec<u32> = (0..row.len() as u32).collect();
    positions.sort_by_key(|&i| std::cmp::Reverse(row[i as usize] % 64));
    positions
}
fn sorted(row: &[u32]) -> Vec<u32> {
    positions(row).iter().map(|&i| row[i as usize]).collect()
}

macro_rules! check {
    ($part:expr, $rng:expr, $put:expr, $get:expr) => {{
        let (part, rng): (&Part, &mut Rng) = ($part, $rng);
        let put = &$put;
        let get = &$get;
        let what = format!("{} columns of {}, {} items", part.columns, part.stride, part.x.len());
        let (columns, stride, x) = (part.columns, part.stride, put(&part.x));
        let other: Vec<u32> = noise(rng, part.x.len());

        let scan = || scan::<Sum, u32>().exclusive().reverse().rows(columns).stride(stride);
        let (in_other, together) = part.changed(&other, suffix_sums);
        assert_same(&get(&scan().run(&x).unwrap()), &together, &what);
        let mut output = put(&other);
        scan().run_into(&x, &mut output).unwrap();
        assert_same(&get(&output), &in_other, &what);
        let mut data = put(&part.x);
        scan().run_in_place(&mut data).unwrap();
        assert_same(&get(&data), &part.changed(&part.x, suffix_sums).0, &what);

        let reduce = || reduce::<Max, u32>().rows(columns).stride(stride);
        let most: Vec<u32> = part.rows().map(|row| part.x[row].iter().copied().max().unwrap()).collect();
        assert_same(&get(&reduce().run(&x).unwrap()), &most, &what);
        let mut output = put(&vec![7; most.len() + 1]);
        reduce().run_into(&x, &mut output).unwrap();
        assert_same(&get(&output), &[&most[..], &[7]].concat(), &what);

        // Few keys, so that their order shows.
        let sort = || sort::<u32>().descending().bits(0..6).rows(columns).stride(stride);
        let (in_other, together) = part.changed(&other, sorted);
        let (in_place, _) = part.changed(&part.x, sorted);
        assert_same(&get(&sort().run(&x).unwrap()), &together, &what);
        let mut output = put(&other);
        sort().run_into(&x, &mut output).unwrap();
        assert_same(&get(&output), &in_other, &what);
        let mut data = put(&part.x);
        sort().run_in_place(&mut data).unwrap();
        assert_same(&get(&data), &in_place, &what);
        let (_, local) = part.changed(&part.x, positions);
        assert_same(&get(&sort().local_indices::<u32, _>(&x).unwrap()), &local, &what);
        // The payload is the keys.
        let (keys, payload) = sort().run_pairs::<u32, _, _>(&x, &x).unwrap();
        assert_same(&get(&keys), &together, &what);
        assert_same(&get(&payload), &together, &what);
        let (mut keys, mut payload) = (put(&part.x), put(&part.x));
        sort().run_pairs_in_place::<u32, _, _>(&mut keys, &mut payload).unwrap();
        assert_same(&get(&keys), &in_place, &what);
        assert_same(&get(&payload), &in_place, &what);
    }};
}

macro_rules! check_counted {
    ($part:expr, $rng:expr, $engine:expr) => {{
        let (part, rng, engine): (&Part, &mut Rng, _) = ($part, $rng, &$engine);
        let (columns, stride, x) = (part.columns, part.stride, engine.put(&part.x));
        let other: Vec<u32> = noise(rng, part.x.len());
        let in_rows = part.rows().count() * columns;
        let [some, whole] = [in_rows, in_rows / columns].map(|most| rng.below(most + 1));
        for count in [0, some, whole * columns, in_rows + 1, usize::MAX] {
            let n = count.min(in_rows);
            let what = format!("{count} items in {columns} columns of {stride}, {} items", part.x.len());
            let length = engine.put(&[count as u64]);

            let scan = || scan::<Sum, u32>().exclusive().reverse().rows(columns).len(&length).stride(stride);
            let (in_other, together) = part.changed_upto(n, &other, suffix_sums);
            assert_same(&engine.get(&scan().run(&x).unwrap())[..n], &together, &what);
            let mut output = engine.put(&other);
            scan().run_into(&x, &mut output).unwrap();
            assert_same(&engine.get(&output), &in_other, &what);
            let mut data = engine.put(&part.x);
            scan().run_in_place(&mut data).unwrap();
            assert_same(&engine.get(&data), &part.changed_upto(n, &part.x, suffix_sums).0, &what);

            let reduce = || reduce::<Max, u32>().len(&length).rows(columns).stride(stride);
            let whole = part.rows().take(n / columns);
            let most: Vec<u32> = whole.map(|row| part.x[row].iter().copied().max().unwrap()).collect();
            assert_same(&engine.get(&reduce().run(&x).unwrap())[..most.len()], &most, &what);
            let before = vec![7; in_rows / columns + 1];
            let mut output = engine.put(&before);
            reduce().run_into(&x, &mut output).unwrap();
            assert_same(&engine.get(&output), &[&most[..], &before[most.len()..]].concat(), &what);

            let sort = || sort::<u32>().descending().bits(0..6).rows(columns).len(&length).stride(stride);
            let (in_other, together) = part.changed_upto(n, &other, sorted);
            let (in_place, _) = part.changed_upto(n, &part.x, sorted);
            assert_same(&engine.get(&sort().run(&x).unwrap())[..n], &together, &what);
            let mut output = engine.put(&other);
            sort().run_into(&x, &mut output).unwrap();
            assert_same(&engine.get(&output), &in_other, &what);
            let (_, local) = part.changed_upto(n, &part.x, positions);
            assert_same(&engine.get(&sort().local_indices::<u32, _>(&x).unwrap())[..n], &local, &what);
            let (keys, payload) = sort().run_pairs::<u32, _, _>(&x, &x).unwrap();
            assert_same(&engine.get(&keys)[..n], &together, &what);
            assert_same(&engine.get(&payload)[..n], &together, &what);
            let (mut keys, mut payload) = (engine.put(&part.x), engine.put(&part.x));
            sort().run_pairs_in_place::<u32, _, _>(&mut keys, &mut payload).unwrap();
            assert_same(&engine.get(&keys), &in_place, &what);
            assert_same(&engine.get(&payload), &in_place, &what);
        }
    }};
}

#[test]
fn counted_strided_rows_on_the_host() {
    let mut rng = Rng::new();
    for part in shapes(&mut rng) {
        check_counted!(&part, &mut rng, OnHost);
    }
}

#[test]
fn counted_strided_rows_on_the_device() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for part in shapes(&mut rng) {
        check_counted!(&part, &mut rng, engine);
    }
}

#[test]
fn strided_rows_on_the_host() {
    let mut rng = Rng::new();
    for part in shapes(&mut rng) {
        check!(&part, &mut rng, |items: &[u32]| items.to_vec(), |memory: &Vec<u32>| memory.clone());
    }
}

#[test]
fn strided_rows_on_the_device() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for part in shapes(&mut rng) {
        check!(&part, &mut rng, |items: &[u32]| engine.put(items), |memory: &CudaSlice<u32>| engine.get(memory));
    }
    // A workspace and a stream are those of the builder.
    let (mut engine, part) = (engine, Part::draw(&mut rng, 300, 20, 50));
    let (x, (_, together)) = (engine.put(&part.x), part.changed(&part.x, suffix_sums));
    let scan = scan::<Sum, u32>().exclusive().reverse();
    let sums = scan.workspace(&mut engine.workspace).rows(300).stride(320).run(&x).unwrap();
    assert_eq!(engine.get(&sums), together);
    let sums = scan.on(&engine.stream).rows(300).stride(320).run(&x).unwrap();
    assert_eq!(engine.get(&sums), together);
}

/// Elements of 1, 3 and 32 bytes, in views that begin at item 1, with a workspace.
#[test]
fn other_sizes_on_the_device() {
    fn walk<Op: Operator<T>, T: Sample>(engine: &mut OnDevice, items: fn(&mut Rng, usize) -> Vec<T>) {
        let mut rng = Rng::new();
        let rng = &mut rng;
        for (columns, gap, rows) in [(1, 1, 1000), (1, 30, 3), (7, 0, 50), (7, 3, 900), (300, 1, 1), (300, 600, 70)] {
            let part = Part::of(rng, columns, gap, rows, items);
            let (stride, other) = (part.stride, items(rng, part.x.len()));
            let what = &(type_name::<(Op, T)>(), columns, stride, rows);
            let (source, room) = (Guarded::new(rng, 1, &part.x), Guarded::new(rng, 1, &other));
            let mut data = engine.put(&source.all);

            let options = Options { exclusive: true, init: Some(part.x[0]), reverse: rng.below(2) == 0 };
            let scanned = |row: &[T]| oracle::<Op, T>(row, options);
            let (in_other, together) = part.changed(&other, scanned);
            let scan = builder::<Op, T>(options).rows(columns);
            let from = data.slice(source.items.clone());
            let output = scan.workspace(&mut engine.workspace).stride(stride).run(&from).unwrap();
            assert_same(&engine.get(&output), &together, what);
            let mut output = engine.put(&room.all);
            let mut to = output.slice_mut(room.items.clone());
            scan.workspace(&mut engine.workspace).stride(stride).run_into(&from, &mut to).unwrap();
            room.assert_holds(&engine.get(&output), &in_other, what);

            let reduce = reduce::<Op, T>().init(part.x[0]).rows(columns);
            let totals = part.rows().map(|row| total::<Op, T>(&part.x[row], Some(part.x[0])).expect("it has items"));
            let (totals, results) = (totals.collect::<Vec<T>>(), Guarded::room(rng, 1, rows));
            let output = reduce.workspace(&mut engine.workspace).stride(stride).run(&from).unwrap();
            assert_same(&engine.get(&output), &totals, what);
            let mut output = engine.put(&results.all);
            let mut to = output.slice_mut(results.items.clone());
            reduce.workspace(&mut engine.workspace).stride(stride).run_into(&from, &mut to).unwrap();
            results.assert_holds(&engine.get(&output), &totals, what);
            source.assert_holds(&engine.get(&data), &part.x, &("the input", what));

            let mut in_place = data.slice_mut(source.items.clone());
            scan.workspace(&mut engine.workspace).stride(stride).run_in_place(&mut in_place).unwrap();
            source.assert_holds(&engine.get(&data), &part.changed(&part.x, scanned).0, &("in place", what));
        }
    }
    let mut engine = or_skip!(OnDevice::new());
    walk::<Sum, u8>(&mut engine, noise);
    walk::<AddFirst, Three<u8>>(&mut engine, noise);
    walk::<Compose, Matrix<u64>>(&mut engine, any);
}

#[test]
fn strides_that_do_not_fit() {
    let mut x: Vec<u32> = (0..7).collect();
    let before = x.clone();
    let words = |error: Error| error.to_string();
    let scan = |columns: usize, stride| scan::<Sum, u32>().rows(columns).stride(stride);
    assert_eq!(words(scan(3, 2).run(&x).unwrap_err()), "scan: the stride has 2 elements, and 3 are needed");
    assert_eq!(
        words(scan(3, 5).run_in_place(&mut x).unwrap_err()),
        "scan: the last row has 2 elements, and 3 are needed"
    );
    assert_eq!(words(scan(0, 5).run(&x).unwrap_err()), "scan: a row has 0 elements, and 1 are needed");
    assert_eq!(words(scan(0, 0).run(&x).unwrap_err()), "scan: a row has 0 elements, and 1 are needed");
    let error = scan(1, 2).run_into(&x, &mut [0; 6]).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "scan", input: 7, output: 6 }), "{error:?}");
    let reduce = |columns: usize, stride| reduce::<Sum, u32>().rows(columns).stride(stride);
    assert_eq!(words(reduce(3, 2).run(&x).unwrap_err()), "reduce: the stride has 2 elements, and 3 are needed");
    assert!(matches!(reduce(3, 3).run_into(&[1; 9], &mut [0; 2]), Err(Error::Size { primitive: "reduce", .. })));
    let sort = |columns: usize, stride| sort::<u32>().descending().rows(columns).stride(stride);
    assert_eq!(
        words(sort(3, 2).run_in_place(&mut x).unwrap_err()),
        "sort: the stride has 2 elements, and 3 are needed"
    );
    let error = sort(1, 2).run_pairs::<u32, _, _>(&x, &[0; 8]).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "sort", input: 7, output: 8 }), "{error:?}");
    let error = sort(1, 2).run_pairs_in_place::<u32, _, _>(&mut x, &mut vec![0; 6]).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "sort", input: 7, output: 6 }), "{error:?}");
    assert_eq!(x, before);
    assert_eq!(scan(3, 5).run(&[]).unwrap(), []);
}
