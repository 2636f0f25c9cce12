//! The suite on the host.

use super::*;
use crate::common::samples::{Digit, Digits, Explosive, MINE};
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Host, Last, Max, Sum};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Engine for OnHost {
    const NONE_IS_ZERO: bool = false;

    fn tile(size: usize) -> usize {
        8 * (32_832 / size) / 64 * 64
    }

    fn scan<Op: Operator<T>, T: Sample, C: Segmentation<Host>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &&[T],
    ) -> Result<Vec<T>, Error> {
        scan.run(*input)
    }
    fn scan_into<Op: Operator<T>, T: Sample, C: Segmentation<Host>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &&[T],
        output: &mut &mut [T],
    ) -> Result<(), Error> {
        scan.run_into(*input, *output)
    }
    fn scan_in_place<Op: Operator<T>, T: Sample, C: Segmentation<Host>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        data: &mut &mut [T],
    ) -> Result<(), Error> {
        scan.run_in_place(*data)
    }
    fn reduce<Op: Operator<T>, T: Sample, C: parascan::Segments<Host>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &&[T],
    ) -> Result<Vec<T>, Error> {
        reduce.run(*input)
    }
    fn reduce_into<Op: Operator<T>, T: Sample, C: parascan::Segments<Host>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &&[T],
        output: &mut &mut [T],
    ) -> Result<(), Error> {
        reduce.run_into(*input, *output)
    }
    fn reduce_runs<Op: Operator<T>, T: Sample, C: Segmentation<Host>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &&[T],
    ) -> Result<Vec<T>, Error> {
        reduce.run(*input)
    }
    fn reduce_runs_into<Op: Operator<T>, T: Sample, C: Segmentation<Host>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &&[T],
        output: &mut &mut [T],
        count: &mut &mut [u64],
    ) -> Result<(), Error> {
        reduce.run_into(*input, *output, *count)
    }
    fn reduce_runs_with_keys_into<Op: Operator<T>, T: Sample, K: Pod + DeviceRepr + Send + Sync>(
        &mut self,
        reduce: RunReduce<Op, T, ByKeys<'_, K, Host>>,
        input: &&[T],
        keys: &mut &mut [K],
        output: &mut &mut [T],
        count: &mut &mut [u64],
    ) -> Result<(), Error> {
        reduce.run_with_keys_into(*input, *keys, *output, *count)
    }
}

suites! { OnHost, |_| [] }

#[test]
fn more_segments_than_items() {
    many_segments(&mut OnHost);
}
#[test]
fn a_single_offset() {
    one_offset(&mut OnHost);
}

#[test]
fn a_panic_reaches_the_caller() {
    let mut rng = Rng::new();
    for columns in [1, 10, 1000, 1_000_000] {
        let mut x: Vec<u32> = (0..1_000_000).map(|_| rng.next() as u32 >> 1).collect();
        x[rng.below(1_000_000)] = MINE;
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let panics = |run: &(dyn Fn() + Sync)| {
                let panic = catch_unwind(AssertUnwindSafe(|| pool.install(run))).expect_err("a panic");
                assert_eq!(panic.downcast_ref::<&str>(), Some(&"stepped on a mine"));
            };
            panics(&|| drop(scan::<Explosive, u32>().rows(columns).run(&x)));
            panics(&|| drop(scan::<Explosive, u32>().rows(columns).reverse().run(&x)));
            panics(&|| drop(reduce::<Explosive, u32>().rows(columns).run(&x)));
        }
    }
}
