//! One suite of scan and reduce by column, on both engines, against plain loops over the rows with a
//! prefix for each column.

use crate::common::engines::{Buffers, OnDevice, OnHost};
use crate::common::{Draw, Options, Rng, Sample, assert_bytes, assert_same, data, noise};
use crate::common::{builder, column_totals, columns_oracle, options};
use crate::segmented::{Guarded, skip};
use parascan::{ColumnReduce, ColumnScan, Error, Operator, reduce, scan};
use std::any::type_name;
use std::fmt::Debug;

mod device;
mod host;
mod length;
mod long;
mod sizes;

// ---- engines ------------------------------------------------------------------------------------

/// Bytes of an item and of a carry.
fn sizes<Op: Operator<T>, T: Sample>() -> [usize; 2] {
    [size_of::<T>(), size_of::<Op::Carry>()]
}

/// Calls of an engine.
trait Engine: Buffers {
    /// The side of the longest square matrix.
    const LONG: usize;
    /// Rows of a tile of items and carries of these sizes.
    fn tile(sizes: [usize; 2], columns: usize) -> usize;
    /// Tiles of a look-back group, if the engine has such.
    fn group(sizes: [usize; 2], columns: usize) -> Option<usize>;

    /// `run` of the builder: with this engine's site, or without.
    fn scan<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        input: &Self::View<'_, T>,
    ) -> Result<Vec<T>, Error>;
    fn scan_into<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        input: &Self::View<'_, T>,
        output: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
    fn scan_in_place<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        data: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
    fn reduce<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &Self::View<'_, T>,
    ) -> Result<Vec<T>, Error>;
    fn reduce_into<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &Self::View<'_, T>,
        output: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
}

/// The call that is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    New,
    Into,
    InPlace,
}
const CALLS: [Call; 3] = [Call::New, Call::Into, Call::InPlace];

/// Checks one scan, on memory at random distances from the beginning of a buffer.
fn check_scan<E: Engine, Op: Operator<T>, T: Sample>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[T],
    columns: usize,
    options: Options<T>,
    call: Call,
) {
    let what = (type_name::<(Op, T)>(), x.len() / columns, columns, options, call);
    let expected = columns_oracle::<Op, T>(x, columns, options);
    let scan = builder::<Op, T>(options).columns(columns);
    let skipped = skip(rng);
    let source = Guarded::new(rng, skipped, x);
    let mut input = engine.put(&source.all);
    if call == Call::InPlace {
        engine.scan_in_place(scan, &mut engine.view_mut(&mut input, source.items.clone())).unwrap();
        return source.assert_holds(&engine.get(&input), &expected, &what);
    }
    let from = engine.view(&input, source.items.clone());
    if call == Call::New {
        assert_same(&engine.scan(scan, &from).unwrap(), &expected, &what);
    } else {
        let skipped = skip(rng);
        let room = Guarded::<T>::room(rng, skipped, x.len());
        let mut output = engine.put(&room.all);
        engine.scan_into(scan, &from, &mut engine.view_mut(&mut output, room.items.clone())).unwrap();
        room.assert_holds(&engine.get(&output), &expected, &what);
    }
    assert_bytes(&engine.get(&input), &source.all, &what);
}

/// Checks one reduction, into new memory or into a view that may be longer than needed.
fn check_reduce<E: Engine, Op: Operator<T>, T: Sample>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[T],
    columns: usize,
    init: Option<T>,
    call: Call,
) {
    let what = (type_name::<(Op, T)>(), x.len() / columns, columns, init, call);
    let mut reduce = reduce::<Op, T>().columns(columns);
    if let Some(init) = init {
        reduce = reduce.init(init);
    }
    let skipped = skip(rng);
    let source = Guarded::new(rng, skipped, x);
    let input = engine.put(&source.all);
    let from = engine.view(&input, source.items.clone());
    let expected = column_totals::<Op, T>(x, columns, init);
    if call == Call::New {
        match (engine.reduce(reduce, &from), expected) {
            (Err(Error::Empty { primitive: "reduce" }), None) => (),
            (got, expected) => assert_same(&got.unwrap(), &expected.expect("a result"), &what),
        }
    } else {
        let (skipped, more) = (skip(rng), rng.below(3));
        let room = Guarded::<T>::room(rng, skipped, columns + more);
        let mut output = engine.put(&room.all);
        let done = engine.reduce_into(reduce, &from, &mut engine.view_mut(&mut output, room.items.clone()));
        match (done, expected) {
            (Err(Error::Empty { primitive: "reduce" }), None) => room.assert_holds(&engine.get(&output), &[], &what),
            (done, expected) => {
                done.unwrap();
                room.assert_holds(&engine.get(&output), &expected.expect("a result"), &what);
            }
        }
    }
    assert_bytes(&engine.get(&input), &source.all, &what);
}

// ---- the suite ----------------------------------------------------------------------------------

/// Checks some scans and reductions of a matrix, by different options each time.
fn check<E: Engine, Op: Operator<T>, T: Sample>(engine: &mut E, rng: &mut Rng, [rows, columns]: [usize; 2]) {
    let draw = Draw::exact_for::<Op, T>();
    let x: Vec<T> = data(rng, draw, rows * columns);
    let options = options::<Op, T>(rng, draw);
    for _ in 0..2 {
        let (options, call) = (options[rng.below(options.len())], CALLS[rng.below(3)]);
        check_scan::<E, Op, T>(engine, rng, &x, columns, options, call);
    }
    let init = (rng.below(2) == 0).then(|| T::draw(rng, draw, 1));
    let call = CALLS[rng.below(2)];
    check_reduce::<E, Op, T>(engine, rng, &x, columns, init, call);
}

/// One column, a few, and numbers around the widths of a panel.
const COLUMNS: [usize; 12] = [1, 2, 3, 7, 8, 31, 32, 33, 64, 65, 100, 1000];

/// The whole suite for an operator and an element: a few rows, then rows around the ends of tiles
/// and of a look-back group.
fn suite<E: Engine, Op: Operator<T>, T: Sample>(engine: &mut E) {
    let mut rng = Rng::new();
    for columns in COLUMNS {
        let tile = E::tile(sizes::<Op, T>(), columns);
        for rows in [0, 1, 2, 3, 5, 33, tile - 1, tile, tile + 1, 3 * tile + 1 + rng.below(tile)] {
            check::<E, Op, T>(engine, &mut rng, [rows, columns]);
        }
    }
    for columns in [1, 3, 32, 65] {
        let Some(group) = E::group(sizes::<Op, T>(), columns) else { continue };
        let rows = group * E::tile(sizes::<Op, T>(), columns);
        let more = rows + rng.below(rows);
        for rows in [rows - 1, rows, rows + 1, more].into_iter().skip(rng.below(2)).step_by(2) {
            check::<E, Op, T>(engine, &mut rng, [rows, columns]);
        }
    }
}

/// The suite for operators with and without identity, that commute or not, and for elements of many
/// sizes, and for more of these that an engine tells apart.
macro_rules! suites {
    ($engine:expr $(; $($more:tt)*)?) => {
        suites! { @each $engine;
            sum_of_u8: Sum, u8;
            sum_of_u32: Sum, u32;
            sum_of_i64: Sum, i64;
            sum_of_f32: Sum, f32;
            sum_of_f16: Sum, half::f16;
            max_of_f32: Max, f32;
            last_of_12_bytes: Last, Moments<f32>;
            automata: Compose, Transitions;
            matrices_of_16_bytes: Compose, Matrix<u32>;
            matrices_of_32_bytes: Compose, Matrix<u64>;
            an_operator_of_the_users: Digits, Digit;
            $($($more)*)?
        }
        #[test]
        fn long() {
            let mut engine = $engine;
            long_ones(&mut engine);
        }
        #[test]
        fn without_rows() {
            let mut engine = $engine;
            no_rows(&mut engine);
        }
        #[test]
        fn wrong_lengths() {
            let mut engine = $engine;
            errors(&mut engine);
        }
    };
    (@each $engine:expr; $($name:ident: $op:ty, $t:ty;)*) => { $(
        #[test]
        fn $name() {
            let mut engine = $engine;
            suite::<_, $op, $t>(&mut engine);
        }
    )* };
}
use suites;

/// 2^24 items: a tall matrix, a square one and a wide one, and a little less of each.
fn long_ones<E: Engine>(engine: &mut E) {
    use parascan::{Last, Sum};
    let _memory = crate::common::much_memory();
    let mut rng = Rng::new();
    let (side, n) = (E::LONG, E::LONG * E::LONG);
    let x: Vec<u32> = noise(&mut rng, n);
    let shapes = [[n / 2, 2], [side, side], [16, n / 16], [n / 7, 7], [side - 1, side - 1], [15, n / 16 + 9]];
    for (k, [rows, columns]) in shapes.into_iter().enumerate() {
        let x = &x[..rows * columns];
        let options = Options { exclusive: k % 3 == 0, init: Some(5), reverse: k % 2 == 1 };
        check_scan::<E, Sum, u32>(engine, &mut rng, x, columns, options, CALLS[(k + 1) % 3]);
        check_scan::<E, Last, u32>(engine, &mut rng, x, columns, options, CALLS[(k + 2) % 3]);
        check_reduce::<E, Sum, u32>(engine, &mut rng, x, columns, None, CALLS[k % 2]);
        check_reduce::<E, Last, u32>(engine, &mut rng, x, columns, Some(5), CALLS[(k + 1) % 2]);
    }
}

/// Reductions of matrices without rows, which no kernel computes, of every size of an item.
fn no_rows<E: Engine>(engine: &mut E) {
    fn of<E: Engine, Op: Operator<T>, T: Sample>(engine: &mut E, rng: &mut Rng) {
        for columns in [1, 2, 33, 1000, 300_001] {
            for init in [None, Some(T::draw(rng, Draw::Any, 1))] {
                check_reduce::<E, Op, T>(engine, rng, &[], columns, init, Call::New);
                check_reduce::<E, Op, T>(engine, rng, &[], columns, init, Call::Into);
            }
        }
    }
    let mut rng = Rng::new();
    of::<E, parascan::Min, u8>(engine, &mut rng);
    of::<E, parascan::Product, half::f16>(engine, &mut rng);
    of::<E, parascan::Max, f32>(engine, &mut rng);
    of::<E, parascan::Min, i64>(engine, &mut rng);
    of::<E, parascan::Last, parascan::operators::Moments<f32>>(engine, &mut rng);
    of::<E, crate::common::samples::Digits, crate::common::samples::Digit>(engine, &mut rng);
    of::<E, parascan::operators::Compose, parascan::operators::Matrix<u64>>(engine, &mut rng);
}

/// Lengths that do not fit are errors, and nothing is written.
fn errors<E: Engine>(engine: &mut E) {
    use parascan::{Last, Sum};
    let mut rng = Rng::new();
    let x: Vec<u32> = noise(&mut rng, 7);
    let input = engine.put(&x);
    let before: Vec<u32> = noise(&mut rng, 9);
    let mut output = engine.put(&before);
    let (scan, reduce) = (scan::<Sum, u32>(), reduce::<Sum, u32>());
    let wrong = [
        (0, "a row has 0 elements, and 1 are needed".to_owned()),
        (2, "the last row has 1 elements, and 2 are needed".to_owned()),
        (9, "the last row has 7 elements, and 9 are needed".to_owned()),
        (usize::MAX, format!("the last row has 7 elements, and {} are needed", usize::MAX)),
    ];
    for (columns, words) in wrong {
        let (from, mut to) = (engine.view(&input, 0..7), engine.view_mut(&mut output, 0..7));
        let of_scan = [
            engine.scan(scan.columns(columns), &from).map(drop),
            engine.scan_into(scan.columns(columns), &from, &mut to),
            engine.scan_in_place(scan.columns(columns), &mut to),
        ];
        for error in of_scan {
            assert_eq!(error.unwrap_err().to_string(), format!("scan: {words}"));
        }
        let of_reduce = [
            engine.reduce(reduce.columns(columns), &from).map(drop),
            engine.reduce_into(reduce.columns(columns), &from, &mut to),
        ];
        for error in of_reduce {
            assert_eq!(error.unwrap_err().to_string(), format!("reduce: {words}"));
        }
        drop(to);
    }
    let from = engine.view(&input, 0..7);
    let mut long = engine.view_mut(&mut output, 0..9);
    let error = engine.scan_into(scan.columns(7), &from, &mut long).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "scan", input: 7, output: 9 }), "{error}");
    drop(long);
    let mut short = engine.view_mut(&mut output, 0..6);
    let error = engine.reduce_into(reduce.columns(7), &from, &mut short).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "reduce", found: 6, needed: 7, .. }), "{error}");
    drop(short);
    let by_look_back = scan.strategy(parascan::Strategy::LookBack(parascan::Block::WarpShuffles));
    let mut same = engine.view_mut(&mut output, 0..7);
    let error = engine.scan_into(by_look_back.columns(7), &from, &mut same).unwrap_err();
    assert!(matches!(error, Error::Strategy { primitive: "scan", .. }), "{error}");
    let none = engine.view(&input, 0..0);
    let error = engine.reduce_into(parascan::reduce::<Last, u32>().columns(7), &none, &mut same).unwrap_err();
    assert!(matches!(error, Error::Empty { primitive: "reduce" }), "{error}");
    drop(same);
    assert_eq!(engine.get(&output), before, "nothing was written");

    // No items: any number of columns is fine.
    for columns in [0, 1, 5] {
        let none = engine.view(&input, 0..0);
        assert_eq!(engine.scan(scan.columns(columns), &none).unwrap(), []);
        assert_eq!(engine.reduce(reduce.columns(columns), &none).unwrap(), vec![0; columns]);
    }
    let none = engine.view(&input, 0..0);
    assert_eq!(engine.reduce(parascan::reduce::<Last, u32>().columns(0), &none).unwrap(), []);
    assert_eq!(engine.scan(scan.columns(usize::MAX), &none).unwrap(), []);
    let error = engine.reduce(reduce.columns(usize::MAX), &none).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { primitive: "reduce", .. }), "{error}");
}

/// The options of the builder after the columns are said, and those that carry over, are those of a
/// scan.
#[test]
fn options_before_and_after() {
    use parascan::{Last, Sum};
    let x = [1, 2, 3, 4, 5, 6];
    let columns = || scan::<Sum, i32>().columns(2);
    assert_eq!(columns().run(&x).unwrap(), [1, 2, 4, 6, 9, 12]);
    assert_eq!(columns().exclusive().run(&x).unwrap(), [0, 0, 1, 2, 4, 6]);
    assert_eq!(columns().exclusive().inclusive().run(&x).unwrap(), [1, 2, 4, 6, 9, 12]);
    assert_eq!(columns().exclusive().init(10).run(&x).unwrap(), [10, 10, 11, 12, 14, 16]);
    assert_eq!(columns().init(10).run(&x).unwrap(), [11, 12, 14, 16, 19, 22]);
    assert_eq!(columns().exclusive_from(7).run(&x).unwrap(), [7, 7, 8, 9, 11, 13]);
    assert_eq!(columns().reverse().run(&x).unwrap(), [9, 12, 8, 10, 5, 6]);
    assert_eq!(columns().reverse().reverse().run(&x).unwrap(), [1, 2, 4, 6, 9, 12]);
    assert_eq!(scan::<Sum, i32>().exclusive().reverse().init(1).columns(3).run(&x).unwrap(), [5, 6, 7, 1, 1, 1]);
    assert_eq!(scan::<Last, i32>().exclusive_from(-1).columns(2).run(&x).unwrap(), [-1, -1, 1, 2, 3, 4]);
    assert_eq!(reduce::<Sum, i32>().columns(2).run(&x).unwrap(), [9, 12]);
    assert_eq!(reduce::<Sum, i32>().init(1).columns(3).run(&x).unwrap(), [6, 8, 10]);
    assert_eq!(reduce::<Sum, i32>().columns(6).init(2).run(&x).unwrap(), [3, 4, 5, 6, 7, 8]);
}

// ---- rounded sums -------------------------------------------------------------------------------

/// Shapes of several tiles, panels and groups.
const ROUNDED: [[usize; 2]; 6] = [[700_001, 1], [300_007, 3], [80_003, 10], [30_011, 33], [1003, 1000], [12, 60_000]];

/// Magnitudes around one, so that every grouping rounds differently.
fn rounded(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n).map(|_| (0.5 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64) as f32).collect()
}
