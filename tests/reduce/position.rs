//! The position of a maximum and of a minimum: the first of equal items, on both engines.

use super::{SHORT, SKIPS, assert_no_result, lengths, slices};
use crate::common::{Rng, Sample, any, assert_same, stream};
use half::{bf16, f16};
use parascan::cudarc::driver::CudaStream;
use parascan::{Error, Extremum, Max, Min, Operator, Workspace, reduce};
use std::any::type_name;
use std::sync::Arc;

/// The first item that no later item beats, by a plain loop.
pub(super) fn oracle<Op: Operator<T>, T: Sample>(input: &[T]) -> usize {
    let join = |a: T, b: T| Op::lower(Op::combine(Op::lift(a), Op::lift(b)));
    let mut best = 0;
    for (i, &x) in input.iter().enumerate() {
        let own = join(input[best], input[best]); // every NaN is the same
        if !join(input[best], x).same(own) {
            best = i;
        }
    }
    best
}

/// Items of any value, or of a few values, so that many are equal; sometimes with the extremum at one
/// place alone, which may be the last.
fn items<T: Sample>(rng: &mut Rng, n: usize) -> Vec<T> {
    match rng.below(3) {
        0 => any(rng, n),
        1 => {
            let values: Vec<T> = any(rng, 5);
            (0..n).map(|_| values[rng.below(5)]).collect()
        }
        _ => {
            let values: Vec<T> = any(rng, 2);
            let place = if rng.below(2) == 0 { n.saturating_sub(1) } else { rng.below(n.max(1)) };
            (0..n).map(|i| values[usize::from(i == place)]).collect()
        }
    }
}

fn check<Op: Operator<T> + Extremum, T: Sample>(
    rng: &mut Rng,
    input: &[T],
    skip: usize,
    device: &mut Option<(Workspace, Arc<CudaStream>)>,
) {
    let (n, what) = (input.len() - skip, (type_name::<(Op, T)>(), input.len(), skip));
    let reduce = reduce::<Op, T>;
    let guard: Vec<u64> = any(rng, 3);
    let mut output = guard.clone();
    if n == 0 {
        assert_no_result(reduce().position(&input[skip..]), "position");
        assert_no_result(reduce().position_into(&input[skip..], &mut output), "position");
    } else {
        let expected = oracle::<Op, T>(&input[skip..]);
        assert_eq!(reduce().position(&input[skip..]).unwrap(), expected, "{what:?}");
        reduce().position_into(&input[skip..], &mut output[1..]).unwrap();
        assert_eq!(output, [guard[0], expected as u64, guard[2]], "{what:?}");
    }
    let (workspace, stream) = or_skip!(device);
    let on_device = stream.clone_htod(input).unwrap();
    let view = on_device.slice(skip..);
    let mut output = stream.clone_htod(&guard).unwrap();
    if n == 0 {
        assert_no_result(reduce().position(&view), "position");
        let into = reduce().workspace(workspace).position_into(&view, &mut output.slice_mut(1..));
        assert_no_result(into, "position");
        assert_eq!(stream.clone_dtoh(&output).unwrap(), guard);
        return;
    }
    let expected = oracle::<Op, T>(&input[skip..]);
    reduce().workspace(workspace).position_into(&view, &mut output.slice_mut(1..)).unwrap();
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [guard[0], expected as u64, guard[2]], "{what:?}");
    assert_eq!(reduce().workspace(workspace).position(&view).unwrap(), expected, "{what:?}");
    assert_same(&stream.clone_dtoh(&on_device).unwrap(), input, &what);
}

fn suite<Op: Operator<T> + Extremum, T: Sample>() {
    let mut rng = Rng::new();
    let mut device = stream().map(|stream| (Workspace::new(&stream), stream));
    let mut lengths = lengths(size_of::<T>(), &mut rng);
    if device.is_none() {
        lengths.retain(|&n| n < 1 << 18);
    }
    for n in lengths {
        let repeats = if n < 1 << 20 { 6 } else { 1 };
        for _ in 0..repeats {
            let skip = SKIPS[rng.below(SKIPS.len())];
            let input: Vec<T> = items(&mut rng, skip + n);
            check::<Op, T>(&mut rng, &input, skip, &mut device);
        }
    }
}

macro_rules! suites {
    ($($t:ident),*) => {
        mod max { use super::*; $( #[test] fn $t() { suite::<Max, $t>() } )* }
        mod min { use super::*; $( #[test] fn $t() { suite::<Min, $t>() } )* }
    };
}
suites! { u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 }

#[test]
fn no_room_and_init() {
    let x = [1_u32, 2, 2];
    let mut none = [0; 0];
    let refused = reduce::<Max, u32>().position_into(&x, &mut none).unwrap_err();
    assert!(matches!(refused, Error::Size { .. }), "{refused}");
    assert_eq!(reduce::<Max, u32>().init(u32::MAX).position(&x).unwrap(), 1, "init has no position");

    let stream = or_skip!(stream());
    let x = stream.clone_htod(&x).unwrap();
    let mut none = stream.alloc_zeros::<u64>(1).unwrap();
    let refused = reduce::<Max, u32>().position_into(&x, &mut none.slice_mut(1..)).unwrap_err();
    assert!(matches!(refused, Error::Size { .. }), "{refused}");
    assert_eq!(reduce::<Max, u32>().init(u32::MAX).position(&x).unwrap(), 1, "init has no position");
}

/// A short walk for compute-sanitizer.
#[test]
fn sanitize_positions() {
    fn walk<T: Sample>()
    where
        Max: Operator<T>,
    {
        let mut rng = Rng::new();
        let stream = or_skip!(stream());
        let mut device = Some((Workspace::new(&stream), stream));
        let [(slice, warps), _] = slices(size_of::<T>());
        for n in [1, slice - 3, slice, 2 * warps * slice, 5 * warps * slice + 7, SHORT / size_of::<T>() + 1] {
            let skip = [0, 1, 3][rng.below(3)];
            let input: Vec<T> = items(&mut rng, skip + n);
            check::<Max, T>(&mut rng, &input, skip, &mut device);
        }
    }
    walk::<u8>();
    walk::<f16>();
    walk::<f32>();
    walk::<i64>();
}
