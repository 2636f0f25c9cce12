//! A short walk through every path of the kernels, for compute-sanitizer: `compute-sanitizer --tool
//! memcheck test-main sanitize` takes seconds, the whole suite hours. Compaction, offsets, segments
//! and sort have walks of the same name. racecheck needs PARASCAN_CHECKED=1.

use crate::common::{Draw, Options, Rng, STRATEGIES, Sample, TEXTBOOK, any, assert_same, data, oracle, stream};
use half::f16;
use parascan::operators::{Compose, Matrix, Moments, Transitions};
use parascan::{Last, Operator, Sum, Workspace, scan};

fn walk<Op: Operator<T>, T: Sample>() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    // The lengths are beyond the range of the first kernel, and of the second.
    let [middle, large] = [4 << 20, 32 << 20].map(|bytes| bytes / size_of::<T>() + 1);
    // The textbook's blocks take elements whose size divides a vector's.
    let textbook = TEXTBOOK.into_iter().filter(|_| 16 % size_of::<T>() == 0);
    for strategy in STRATEGIES.into_iter().chain(textbook) {
        let mut workspace = Workspace::new(&stream);
        let short = [(1, 0), (tile - 3, 1), (tile, 0), (5 * tile + 7, 3), (34 * tile + 1, 0)];
        let long = [(middle, 0), (middle, 1), (large, 0), (large, 1)];
        // The textbook has one kernel for all lengths.
        let long = if TEXTBOOK.contains(&strategy) { &[] } else { &long[..] };
        for (n, skip) in short.into_iter().chain(long.iter().copied()) {
            let x: Vec<T> = data(&mut rng, draw, n);
            let mut shifted: Vec<T> = any(&mut rng, skip);
            shifted.extend_from_slice(&x);
            let input = stream.clone_htod(&shifted).unwrap();
            for reverse in [false, true] {
                let options = Options { exclusive: reverse, init: Some(x[0]), reverse };
                let builder = scan::<Op, T>().init(x[0]).strategy(strategy);
                let builder = if reverse { builder.exclusive_from(x[0]).reverse() } else { builder };
                let mut output = stream.clone_htod(&vec![T::zeroed(); n + skip]).unwrap();
                let mut into = output.slice_mut(skip..);
                builder.workspace(&mut workspace).run_into(&input.slice(skip..), &mut into).unwrap();
                let what = (strategy, n, skip, reverse);
                assert_same(&stream.clone_dtoh(&output).unwrap()[skip..], &oracle::<Op, T>(&x, options), &what);
            }
        }
    }
}

#[test]
fn sum_u8() {
    walk::<Sum, u8>();
}
#[test]
fn sum_f16() {
    walk::<Sum, f16>();
}
#[test]
fn sum_f32() {
    walk::<Sum, f32>();
}
#[test]
fn last_u64() {
    walk::<Last, u64>();
}
#[test]
fn last_of_12_bytes() {
    walk::<Last, Moments<f32>>();
}
#[test]
fn matrices_of_32_bytes() {
    walk::<Compose, Matrix<u64>>();
}
#[test]
fn automata() {
    walk::<Compose, Transitions>();
}
