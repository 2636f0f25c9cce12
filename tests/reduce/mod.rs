//! One suite of reduce, stamped over every operator and element of the catalog, on both engines.

use crate::common::samples::{Digit, Digits};
use crate::common::{Draw, Rng, Sample, any, assert_same, data, host_tiles, stream};
use half::{bf16, f16};
use parascan::cudarc::driver::CudaStream;
use parascan::operators::{ArgMax, ArgMin, Compose, Indexed, Matrix, Moments, Transitions, Variance};
use parascan::{Error, Last, Max, Operator, Reduce, Sum, Workspace, reduce};
use std::sync::Arc;

mod graph;
mod position;
mod same_bits;

/// A reduction by a plain loop.
pub(crate) fn oracle<Op: Operator<T>, T: Sample>(input: &[T], init: Option<T>) -> T {
    let mut upto = init.map(Op::lift);
    for &x in input {
        upto = Some(upto.map_or(Op::lift(x), |upto| Op::combine(upto, Op::lift(x))));
    }
    Op::lower(upto.or(Op::IDENTITY).expect("an operator without identity gets items or an initial value"))
}

fn builder<Op: Operator<T>, T: Sample>(init: Option<T>) -> Reduce<Op, T> {
    let builder = reduce::<Op, T>();
    init.map_or(builder, |init| builder.init(init))
}

fn assert_empty<V: std::fmt::Debug>(result: Result<V, Error>) {
    let error = assert_no_result(result, "reduce");
    let words = "reduce: the input or a segment is empty and has no result; where an operator has no identity, \
                 `.init(value)` gives one";
    assert_eq!(error.to_string(), words);
}

fn assert_no_result<V: std::fmt::Debug>(result: Result<V, Error>, of: &str) -> Error {
    let error = result.expect_err("there is no result");
    assert!(matches!(error, Error::Empty { primitive } if primitive == of), "{error:?}");
    error
}

// ---- on the host --------------------------------------------------------------------------------

pub(crate) fn check_on_host<Op: Operator<T>, T: Sample>(rng: &mut Rng, input: &[T], init: Option<T>) {
    let what = (std::any::type_name::<(Op, T)>(), input.len(), init);
    let reduce = builder::<Op, T>(init);
    let guard: Vec<T> = any(rng, 3);
    let mut output = guard.clone();
    if input.is_empty() && init.is_none() && Op::IDENTITY.is_none() {
        assert_empty(reduce.run(input));
        assert_empty(reduce.run_into(input, &mut output));
        assert_same(&output, &guard, &what);
        return;
    }
    let expected = oracle::<Op, T>(input, init);
    assert_same(&[reduce.run(input).unwrap()], &[expected], &what);
    reduce.run_into(input, &mut output[1..]).unwrap();
    assert_same(&output, &[guard[0], expected, guard[2]], &("into a slice", what));
}

fn host<Op: Operator<T>, T: Sample>() {
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    for n in [0, 1, 2, 127, 128, 1000, 3071, host_tiles::<T>(&mut rng)] {
        let input: Vec<T> = data(&mut rng, draw, n);
        for init in [None, Some(T::draw(&mut rng, draw, 1))] {
            check_on_host::<Op, T>(&mut rng, &input, init);
        }
    }
}

// ---- on the device ------------------------------------------------------------------------------

/// Reduces a view that begins `skip` items into a buffer, to the second item of another buffer.
pub(crate) fn check_on_device<Op: Operator<T>, T: Sample>(
    rng: &mut Rng,
    stream: &Arc<CudaStream>,
    workspace: &mut Workspace,
    input: &[T],
    init: Option<T>,
    skip: usize,
) {
    let n = input.len();
    let what = (std::any::type_name::<(Op, T)>(), n, init, skip);
    let mut source: Vec<T> = any(rng, skip + n + 3);
    source[skip..skip + n].copy_from_slice(input);
    let on_device = stream.clone_htod(&source).unwrap();
    let view = on_device.slice(skip..skip + n);
    let guard: Vec<T> = any(rng, 3);
    let mut output = stream.clone_htod(&guard).unwrap();
    let reduce = builder::<Op, T>(init);
    if n == 0 && init.is_none() && Op::IDENTITY.is_none() {
        assert_empty(reduce.run(&view));
        assert_empty(reduce.workspace(workspace).run_into(&view, &mut output.slice_mut(1..)));
        assert_same(&stream.clone_dtoh(&output).unwrap(), &guard, &what);
        return;
    }
    let expected = oracle::<Op, T>(input, init);
    reduce.workspace(workspace).run_into(&view, &mut output.slice_mut(1..)).unwrap();
    assert_same(&stream.clone_dtoh(&output).unwrap(), &[guard[0], expected, guard[2]], &what);
    assert_same(&stream.clone_dtoh(&on_device).unwrap(), &source, &("the input", what));
    let returned = match rng.below(3) {
        0 => reduce.run(&view),
        1 => reduce.on(stream).run(&view),
        _ => reduce.workspace(workspace).run(&view),
    };
    assert_same(&[returned.unwrap()], &[expected], &("returned", what));
}

/// Items of a warp's slice, for both kernels, and warps of a block: src/cuda/reduce/tuning.rs.
fn slices(size: usize) -> [(usize, usize); 2] {
    [(3 * 512 / size, 8), (if size == 1 { 11 } else { 13 } * 512 / size, 4)]
}

/// The most blocks of a launch.
const BLOCKS: usize = 792;
/// The longest input of the first kernel, in bytes.
const SHORT: usize = 8 << 20;

/// Lengths around every boundary of the kernels: vectors, slices, blocks, grids.
fn lengths(size: usize, rng: &mut Rng) -> Vec<usize> {
    let [(slice, warps), (long_slice, long_warps)] = slices(size);
    let (tile, grid, short) = (slice * warps, BLOCKS * long_warps * long_slice, SHORT / size);
    let mut lengths = vec![0, 1, 2, 3, 31, 32, 33, 255];
    lengths.extend([slice - 1, slice, slice + 1, tile - 1, tile, tile + 1, 2 * tile, 2 * tile + 1, 3 * tile - 1]);
    lengths.extend([1 + rng.below(40 * tile), short - 1, short, short + 1, grid - 1, grid + 1, grid + rng.below(grid)]);
    lengths
}

/// Distances of a view from the beginning of a buffer: inside a vector, a sector and a line.
const SKIPS: [usize; 8] = [0, 1, 3, 5, 16, 31, 64, 127];

fn device<Op: Operator<T>, T: Sample>() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    let draw = Draw::exact_for::<Op, T>();
    for n in lengths(size_of::<T>(), &mut rng) {
        let input: Vec<T> = data(&mut rng, draw, n);
        let inits = [None, Some(T::draw(&mut rng, draw, 1))];
        let start = rng.below(2);
        for k in 0..if n > SHORT / size_of::<T>() / 2 { 1 } else { 2 } {
            let skip = SKIPS[rng.below(SKIPS.len())];
            check_on_device::<Op, T>(&mut rng, &stream, &mut workspace, &input, inits[(start + k) % 2], skip);
        }
    }
}

/// The suite for each pair of operator and element.
mod of {
    macro_rules! stamp {
        (elements $elements:tt operators { $(
            $(#[$doc:meta])* $op:ident { $(
                $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                    rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
            )* }
        )* }) => { $(
            #[allow(non_snake_case)]
            mod $op {
                mod on_host {
                    use super::super::super::*;
                    $( $( #[test] fn $t() { host::<parascan::$op, $t>() } )* )*
                }
                mod on_device {
                    use super::super::super::*;
                    $( $( #[test] fn $t() { device::<parascan::$op, $t>() } )* )*
                }
            }
        )* };
    }
    catalog!(stamp);
}

// ---- one item that decides ----------------------------------------------------------------------

/// The maximum is at one place, at every edge of lanes, slices, blocks and the input.
fn greatest<T: Sample>(low: T, high: T)
where
    Max: Operator<T>,
{
    let mut rng = Rng::new();
    let mut device = stream().map(|stream| (Workspace::new(&stream), stream));
    let [(slice, warps), (long_slice, long_warps)] = slices(size_of::<T>());
    let mut places = vec![0, 1, 15, 16, 17, slice / 32, slice - 1, slice, warps * slice, warps * slice + 1];
    places.extend([long_slice - 1, long_slice, long_warps * long_slice, 5 * long_warps * long_slice + 1]);
    let mut lengths = vec![1, 2, 17, slice, slice + 1, 2 * warps * slice, 2 * warps * slice + 1, 100_003];
    lengths.push(SHORT / size_of::<T>() + 5 * long_slice + 3);
    let check = |x: &[T], skip: usize, device: &mut Option<(Workspace, Arc<CudaStream>)>| {
        assert_same(&[reduce::<Max, T>().run(&x[skip..]).unwrap()], &[high], &(x.len(), skip));
        let (workspace, stream) = or_skip!(device);
        let on_device = stream.clone_htod(x).unwrap();
        let found = reduce::<Max, T>().workspace(workspace).run(&on_device.slice(skip..));
        assert_same(&[found.unwrap()], &[high], &(x.len(), skip));
    };
    for n in lengths {
        let from_end = places.iter().map(|&place| n.wrapping_sub(1 + place));
        let mut places: Vec<usize> =
            places.iter().copied().chain(from_end).chain([rng.below(n)]).filter(|&i| i < n).collect();
        places.sort_unstable();
        places.dedup();
        // Long inputs take long to copy.
        let step = if n > 1 << 20 { 5 } else { 1 };
        for &place in places.iter().step_by(step) {
            let skip = [0, 1, 3][rng.below(3)];
            let mut x = vec![low; skip + n];
            x[..skip].fill(high);
            x[skip + place] = high;
            check(&x, skip, &mut device);
        }
    }
}

#[test]
fn greatest_of_integers() {
    greatest::<u8>(3, 200);
    greatest::<i8>(-100, -99);
    greatest::<u16>(3, 50_000);
    greatest::<i16>(-30_000, -29_999);
    greatest::<i32>(i32::MIN, i32::MIN + 1);
    greatest::<u64>(1, 1 << 63);
}
#[test]
fn greatest_of_floats() {
    greatest::<f32>(-0.0, 0.0);
    greatest::<f64>(f64::NEG_INFINITY, f64::MIN);
    greatest::<f16>(f16::from_f32(-1.0), f16::from_f32(-0.5));
    greatest::<bf16>(bf16::from_f32(1.0), bf16::NAN);
}

/// Of equal extremes the first one is found.
#[test]
fn ties_go_to_the_first() {
    let mut rng = Rng::new();
    let device = stream();
    for n in [1, 2, 1000, 50_000, 3_000_000] {
        let indexed = |values: &[f32]| -> Vec<Indexed<f32, u32>> {
            (0..).zip(values).map(|(index, &value)| Indexed { value, index }).collect()
        };
        let mut values = vec![0.0; n];
        let places: Vec<usize> = (0..3).map(|_| rng.below(n)).collect();
        for (sign, is_max) in [(1.0, true), (-1.0, false)] {
            places.iter().for_each(|&place| values[place] = sign);
            let first = Indexed { value: sign, index: *places.iter().min().unwrap() as u32 };
            let x = indexed(&values);
            let found = if is_max { reduce::<ArgMax, _>().run(&x) } else { reduce::<ArgMin, _>().run(&x) };
            assert_eq!(found.unwrap(), first);
            let Some(stream) = &device else { continue };
            let x = stream.clone_htod(&x).unwrap();
            let found = if is_max { reduce::<ArgMax, _>().run(&x) } else { reduce::<ArgMin, _>().run(&x) };
            assert_eq!(found.unwrap(), first);
        }
    }
}

// ---- operators that are not in the catalog ------------------------------------------------------

/// An operator on both engines, at the edges of the kernels for its element.
pub(crate) fn check<Op: Operator<T>, T: Sample>() {
    let mut rng = Rng::new();
    let mut device = stream().map(|stream| (Workspace::new(&stream), stream));
    let (slice, long) = (3 * 512 / size_of::<T>(), SHORT / size_of::<T>());
    let several = host_tiles::<T>(&mut rng);
    let mut lengths = vec![0, 1, 2, 33, slice - 1, slice, slice + 1, 8 * slice, 50 * slice + 7, several];
    if device.is_some() {
        lengths.extend([long + 1, 3 * long + 5]);
    }
    for n in lengths {
        let input: Vec<T> = any(&mut rng, n);
        for init in [None, Some(T::draw(&mut rng, Draw::Any, 0))] {
            if n <= several {
                check_on_host::<Op, T>(&mut rng, &input, init);
            }
            if let Some((workspace, stream)) = &mut device {
                let skip = SKIPS[rng.below(SKIPS.len())];
                check_on_device::<Op, T>(&mut rng, stream, workspace, &input, init, skip);
            }
        }
    }
}

#[test]
fn digits() {
    check::<Digits, Digit>();
}
#[test]
fn matrices() {
    check::<Compose, Matrix<u32>>();
    check::<Compose, Matrix<u64>>();
}
#[test]
fn automata() {
    check::<Compose, Transitions>();
}
#[test]
fn last_of_12_bytes() {
    check::<Last, Moments<f32>>();
}
#[test]
fn arg_min_of_16_bytes() {
    check::<ArgMin, Indexed<i64, u64>>();
}

/// Mean and variance of numbers far from zero, on both engines.
#[test]
fn mean_and_variance() {
    let device = stream();
    for n in [1, 2, 1000, 1_000_000] {
        let x: Vec<Moments<f64>> = (0..n).map(|i| Moments::of(1e9 + (i % 7) as f64)).collect();
        let mean = (0..n).map(|i| (i % 7) as f64).sum::<f64>() / n as f64;
        let variance = (0..n).map(|i| ((i % 7) as f64 - mean).powi(2)).sum::<f64>() / n as f64;
        let check = |found: Moments<f64>| {
            assert_eq!(found.count, n as f64);
            assert!((found.mean - 1e9 - mean).abs() < 1e-5, "{found:?}, not {mean}");
            assert!((found.variance() - variance).abs() < 1e-5, "{found:?}, not {variance}");
        };
        check(reduce::<Variance, Moments<f64>>().run(&x).unwrap());
        let Some(stream) = &device else { continue };
        check(reduce::<Variance, Moments<f64>>().run(&stream.clone_htod(&x).unwrap()).unwrap());
    }
}

// ---- bad input ----------------------------------------------------------------------------------

#[test]
fn no_room() {
    let error = reduce::<Sum, i32>().run_into(&[1, 2], &mut []).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "reduce", found: 0, needed: 1, .. }), "{error}");
    let stream = or_skip!(stream());
    let input = stream.clone_htod(&[1, 2]).unwrap();
    let error = reduce::<Sum, i32>().run_into(&input, &mut stream.null::<i32>().unwrap()).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "reduce", found: 0, needed: 1, .. }), "{error}");
    let null = stream.null::<i32>().unwrap();
    assert_eq!(reduce::<Sum, i32>().run(&null).unwrap(), 0);
    assert_eq!(reduce::<Last, i32>().init(4).run(&null).unwrap(), 4);
    assert_empty(reduce::<Last, i32>().run(&null));
}

// ---- compute-sanitizer --------------------------------------------------------------------------

fn walk<Op: Operator<T>, T: Sample>() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    let mut workspace = Workspace::new(&stream);
    let [(slice, warps), _] = slices(size_of::<T>());
    for n in [1, slice - 3, slice, 2 * warps * slice, 5 * warps * slice + 7, SHORT / size_of::<T>() + 1] {
        for skip in [0, 1, 3] {
            // The input is a whole buffer, so that sanitizers see accesses beyond it.
            let whole: Vec<T> = data(&mut rng, draw, skip + n);
            let (on_device, x) = (stream.clone_htod(&whole).unwrap(), &whole[skip..]);
            let reduce = reduce::<Op, T>().init(x[0]).workspace(&mut workspace);
            let found = reduce.run(&on_device.slice(skip..)).unwrap();
            assert_same(&[found], &[oracle::<Op, T>(x, Some(x[0]))], &(n, skip));
        }
    }
}

/// A short walk for compute-sanitizer.
#[test]
fn sanitize() {
    walk::<Sum, u8>();
    walk::<Sum, f16>();
    walk::<Max, f32>();
    walk::<Last, u64>();
    walk::<Last, Moments<f32>>();
    walk::<Compose, Transitions>();
    walk::<Compose, Matrix<u64>>();
}
