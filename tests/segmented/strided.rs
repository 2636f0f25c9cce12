//! Rows with a stride, on both engines, against plain loops over the rows.

use super::*;
use parascan::cudarc::driver::CudaSlice;
use parascan::{Max, Sum, sort};

/// A part of a wider matrix, and its rows.
struct Part {
    columns: usize,
    stride: usize,
    x: Vec<u32>,
}

impl Part {
    fn draw(rng: &mut Rng, columns: usize, gap: usize, rows: usize) -> Part {
        let stride = columns + gap;
        // What lies between rows may be missing behind the last one, or some of it.
        let n = (rows * stride).saturating_sub(rng.below(gap + 1));
        Part { columns, stride, x: noise(rng, n) }
    }
    fn rows(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.x.len()).step_by(self.stride).map(|begin| begin..begin + self.columns)
    }
    /// Applies `change` to each row of a copy: in place, and side by side.
    fn changed(&self, x: &[u32], change: impl Fn(&[u32]) -> Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        self.changed_upto(usize::MAX, x, change)
    }
    /// The same of the first `n` items in rows, by `len`: the last row may have fewer than others.
    fn changed_upto(&self, n: usize, x: &[u32], change: impl Fn(&[u32]) -> Vec<u32>) -> (Vec<u32>, Vec<u32>) {
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
