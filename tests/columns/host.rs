//! The suite on the host.

use super::*;
use crate::common::samples::{Digit, Digits, Explosive, MINE};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Last, Max, Sum};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine for OnHost {
    const LONG: usize = 1 << 10;
    fn tile([size, _]: [usize; 2], columns: usize) -> usize {
        let panels = columns.div_ceil(4096 / size);
        (256 << 10) / size / columns.div_ceil(panels)
    }
    fn group(_: [usize; 2], _: usize) -> Option<usize> {
        None
    }

    fn scan<Op: Operator<T>, T: Sample>(&mut self, scan: ColumnScan<Op, T>, input: &&[T]) -> Result<Vec<T>, Error> {
        scan.run(*input)
    }
    fn scan_into<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        input: &&[T],
        output: &mut &mut [T],
    ) -> Result<(), Error> {
        scan.run_into(*input, *output)
    }
    fn scan_in_place<Op: Operator<T>, T: Sample>(
        &mut self,
        scan: ColumnScan<Op, T>,
        data: &mut &mut [T],
    ) -> Result<(), Error> {
        scan.run_in_place(*data)
    }
    fn reduce<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &&[T],
    ) -> Result<Vec<T>, Error> {
        reduce.run(*input)
    }
    fn reduce_into<Op: Operator<T>, T: Sample>(
        &mut self,
        reduce: ColumnReduce<Op, T>,
        input: &&[T],
        output: &mut &mut [T],
    ) -> Result<(), Error> {
        reduce.run_into(*input, *output)
    }
}

suites! { OnHost }

fn on_threads(threads: usize, run: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run);
}

#[test]
fn same_bits() {
    let mut rng = Rng::new();
    for [rows, columns] in ROUNDED {
        let x = rounded(&mut rng, rows * columns);
        let (mut sums, mut totals) = (None, None);
        for threads in [1, 2, 3, 7] {
            on_threads(threads, || {
                let got = scan::<Sum, f32>().init(x[0]).reverse().columns(columns).run(&x).unwrap();
                assert_bytes(&got, sums.get_or_insert_with(|| got.clone()), &(rows, columns, threads));
                let mut got = x.clone();
                scan::<Sum, f32>().init(x[0]).reverse().columns(columns).run_in_place(&mut got).unwrap();
                assert_bytes(&got, sums.as_ref().unwrap(), &("in place", rows, columns, threads));
                let got = reduce::<Sum, f32>().columns(columns).run(&x).unwrap();
                assert_bytes(&got, totals.get_or_insert_with(|| got.clone()), &(rows, columns, threads));
            });
        }
    }
}

#[test]
fn a_panic_reaches_the_caller() {
    let mut rng = Rng::new();
    for columns in [1, 10, 1000, 100_000] {
        let mut x: Vec<u32> = (0..1_000_000).map(|_| rng.next() as u32 >> 1).collect();
        x[rng.below(1_000_000)] = MINE;
        for threads in [1, 3] {
            let panics = |run: &(dyn Fn() + Sync)| {
                let panic = catch_unwind(AssertUnwindSafe(|| on_threads(threads, run))).expect_err("a panic");
                assert_eq!(panic.downcast_ref::<&str>(), Some(&"stepped on a mine"));
            };
            panics(&|| drop(scan::<Explosive, u32>().columns(columns).run(&x)));
            panics(&|| drop(scan::<Explosive, u32>().columns(columns).reverse().run(&x)));
            panics(&|| drop(reduce::<Explosive, u32>().columns(columns).run(&x)));
        }
    }
}
