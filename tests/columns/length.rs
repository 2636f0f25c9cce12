//! Numbers of items that lie in memory, by column: whole rows are taken, and what lies behind them is neither
//! read nor written.

use super::*;
use crate::common::samples::{Digit, Digits};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Last, Max, Sum};

/// Numbers that the memory of a matrix may be said to have.
fn counts(rng: &mut Rng, [rows, columns]: [usize; 2], tile: usize) -> [u64; 11] {
    let [some, whole, tiles] = [rows * columns, rows, rows / tile].map(|most| rng.below(most + 1));
    let known = [0, 1, columns - 1, columns, some, whole * columns, tiles * tile * columns].map(|n| n as u64);
    let [a, b, c, d, e, f, g] = known;
    let most = (rows * columns) as u64;
    [a, b, c, d, e, f, g, most - 1, most, most + 1, u64::MAX]
}

fn check<E: Engine, Op: Operator<T>, T: Sample>(engine: &E, rng: &mut Rng, [rows, columns]: [usize; 2]) {
    let (draw, most) = (Draw::exact_for::<Op, T>(), rows * columns);
    let (x, old): (Vec<T>, Vec<T>) = (data(rng, draw, most), data(rng, draw, most));
    let all = options::<Op, T>(rng, draw);
    for count in counts(rng, [rows, columns], E::tile(sizes::<Op, T>(), columns)) {
        let n = most.min(usize::try_from(count).unwrap_or(usize::MAX)) / columns * columns;
        let (options, items) = (all[rng.below(all.len())], &x[..n]);
        let what = (type_name::<(Op, T)>(), rows, columns, count, options);
        let (length, from) = (engine.put(&[count]), engine.put(&x));
        let (length, view) = (engine.view(&length, 0..1), engine.view(&from, 0..most));

        let scan = builder::<Op, T>(options);
        let expected = columns_oracle::<Op, T>(items, columns, options);
        let (mut into, mut in_place) = (engine.put(&old), engine.put(&x));
        scan.columns(columns).len(&length).run_into(&view, &mut engine.view_mut(&mut into, 0..most)).unwrap();
        scan.len(&length).columns(columns).run_in_place(&mut engine.view_mut(&mut in_place, 0..most)).unwrap();
        assert_same(&engine.get(&into), &[&expected, &old[n..]].concat(), &what);
        assert_same(&engine.get(&in_place), &[&expected, &x[n..]].concat(), &("in place", what));

        let init = (Op::IDENTITY.is_none() || rng.below(2) == 0).then(|| T::draw(rng, draw, 1));
        let reduce = reduce::<Op, T>().columns(columns);
        let reduce = init.map_or(reduce, |init| reduce.init(init));
        let expected = column_totals::<Op, T>(items, columns, init).expect("an identity or an initial value");
        let before = vec![old[0]; columns + 2];
        let mut into = engine.put(&before);
        reduce.len(&length).run_into(&view, &mut engine.view_mut(&mut into, 0..columns + 2)).unwrap();
        assert_same(&engine.get(&into), &[&expected, &before[columns..]].concat(), &(init, what));
    }
}

/// A few rows, then some tiles of rows, and for wide matrices a look-back group of tiles.
fn counted_suite<E: Engine, Op: Operator<T>, T: Sample>(engine: &E) {
    let mut rng = Rng::new();
    for columns in [1, 2, 3, 8, 33, 100, 1000] {
        let tile = E::tile(sizes::<Op, T>(), columns);
        let group = E::group(sizes::<Op, T>(), columns).filter(|_| columns > 32).unwrap_or(2);
        for rows in [1, 2, 33, tile + 1, group * tile + rng.below(tile)] {
            check::<E, Op, T>(engine, &mut rng, [rows, columns]);
        }
    }
}

macro_rules! counted_suites {
    ($($engine:ident $made:expr;)*) => { $(
        mod $engine {
            use super::*;
            counted_suites! { @each $made;
                sum_of_u32: Sum, u32;
                sum_of_f16: Sum, half::f16;
                last_of_12_bytes: Last, Moments<f32>;
                automata: Compose, Transitions;
                matrices_of_32_bytes: Compose, Matrix<u64>;
                an_operator_of_the_users: Digits, Digit;
            }
        }
    )* };
    (@each $made:expr; $($name:ident: $op:ty, $t:ty;)*) => { $(
        #[test]
        fn $name() {
            let engine = $made;
            counted_suite::<_, $op, $t>(&engine);
        }
    )* };
}
counted_suites! {
    host OnHost;
    device or_skip!(OnDevice::new());
}

/// One workspace serves every number of items, and calls of a known length between them: its words stay zero.
#[test]
fn prepared_once() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let options = Options { exclusive: false, init: None, reverse: false };
    for columns in [1, 2, 33, 1000] {
        let rows = 1_000_000 / columns;
        let mut count = stream.alloc_zeros::<u64>(1).unwrap();
        let (sums, totals) = (scan::<Sum, u32>().columns(columns), reduce::<Sum, u32>().columns(columns));
        sums.prepare(rows, &mut workspace).unwrap();
        sums.len(&count).prepare(rows, &mut workspace).unwrap();
        totals.len(&count).prepare(rows, &mut workspace).unwrap();
        let held = workspace.bytes();
        let x: Vec<u32> = noise(&mut rng, rows * columns);
        let input = stream.clone_htod(&x).unwrap();
        let mut output = stream.alloc_zeros::<u32>(x.len()).unwrap();
        let mut of_columns = stream.alloc_zeros::<u32>(columns).unwrap();
        for n in [0, rows, rows / 2, 1, rows / 7, rows].map(|rows| rows * columns) {
            stream.memcpy_htod(&[n as u64], &mut count).unwrap();
            sums.workspace(&mut workspace).len(&count).run_into(&input, &mut output).unwrap();
            totals.workspace(&mut workspace).len(&count).run_into(&input, &mut of_columns).unwrap();
            let expected = columns_oracle::<Sum, u32>(&x[..n], columns, options);
            assert_same(&stream.clone_dtoh(&output.slice(..n)).unwrap(), &expected, &(n, columns));
            let expected = column_totals::<Sum, u32>(&x[..n], columns, None).unwrap();
            assert_same(&stream.clone_dtoh(&of_columns).unwrap(), &expected, &(n, columns));
            sums.workspace(&mut workspace).run_into(&input, &mut output).unwrap();
            let expected = columns_oracle::<Sum, u32>(&x, columns, options);
            assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &("all", n, columns));
            assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
        }
    }
}

/// So few rows of so many columns that panels are wider than otherwise.
#[test]
fn panels_of_few_rows() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for rows in [1, 40] {
        let columns = 1024 * 192 + rng.below(100);
        check::<_, Max, f32>(&engine, &mut rng, [rows, columns]);
    }
}

/// A short walk for the sanitizers.
#[test]
fn sanitize() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for columns in [1, 2, 33] {
        let tile = OnDevice::tile([4, 4], columns);
        check::<_, Sum, u32>(&engine, &mut rng, [2 * tile + 1, columns]);
        check::<_, Last, f32>(&engine, &mut rng, [tile - 1, columns]);
    }
}

#[test]
fn bad_input() {
    let x = [1, 2, 3, 4];
    let none = scan::<Sum, i32>().columns(2).len::<parascan::Host, [u64]>(&[]).run(&x);
    assert!(
        matches!(none, Err(Error::Size { primitive: "scan", what: "the length", found: 0, needed: 1 })),
        "{none:?}"
    );
    // Less than a row.
    let empty = reduce::<Last, i32>().columns(2).len(&[1]).run(&x);
    assert!(matches!(empty, Err(Error::Empty { primitive: "reduce" })), "{empty:?}");
    assert_eq!(reduce::<Last, i32>().columns(2).len(&[3]).run(&x).unwrap(), [1, 2]);
    // The memory is of whole rows, whatever the number of items.
    let rows = scan::<Sum, i32>().columns(3).len(&[3]).run(&x);
    assert!(matches!(rows, Err(Error::Size { primitive: "scan", what: "the last row", .. })), "{rows:?}");
    assert_eq!(reduce::<Sum, i32>().columns(0).len(&[3]).run(&[]).unwrap(), []);

    let engine = or_skip!(OnDevice::new());
    let (from, length, mut to) = (engine.put(&x), engine.put(&[3_u64]), engine.put(&[7, 7]));
    let empty = reduce::<Last, i32>().columns(2).len(&length).run_into(&from, &mut to);
    assert!(matches!(empty, Err(Error::Empty { primitive: "reduce" })), "{empty:?}");
    assert_eq!(engine.get(&to), [7, 7]);
}
