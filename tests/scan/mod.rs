//! One suite of scan, stamped over every operator and element of the catalog, every engine and
//! strategy.

use crate::common::{
    Draw, ON_DEVICE, Options, Rng, Sample, assert_same, builder, data, host_tiles, options, oracle, some_of, stream,
};
use half::{bf16, f16};
use parascan::cudarc::driver::CudaStream;
use parascan::{Block, Network, Operator, Strategy, Workspace};
use std::sync::Arc;

mod counts;
mod graph;
mod long;
mod same_bits;
mod streams;
mod views;

/// Sizes around every boundary of a kernel with tiles of `tile` items: lanes, warps, tiles, 32
/// tiles.
fn sizes(tile: usize, rng: &mut Rng) -> Vec<usize> {
    let mut sizes = vec![0, 1, 2, 3, 31, 32, 33, 255, tile / 8, tile / 8 + 1, 2 * tile, 2 * tile + 1];
    sizes.extend([tile - 1, tile, tile + 1, 3 * tile - 1, 33 * tile + 5, 1 + rng.below(40 * tile)]);
    sizes
}

fn host<Op: Operator<T>, T: Sample>() {
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    // Many tiles of the device are a few of the host's.
    let mut lengths = sizes(3072, &mut rng);
    lengths.retain(|&n| n <= 3 * 3072);
    lengths.push(host_tiles::<T>(&mut rng));
    for n in lengths {
        let input: Vec<T> = data(&mut rng, draw, n);
        for options in some_of(options::<Op, T>(&mut rng, draw), n, &mut rng) {
            let what = (std::any::type_name::<(Op, T)>(), n, options);
            let expected = oracle::<Op, T>(&input, options);
            let scan = builder::<Op, T>(options);
            assert_same(&scan.run(&input).unwrap(), &expected, &("run", what));
            let mut in_place = input.clone();
            scan.run_in_place(&mut in_place).unwrap();
            assert_same(&in_place, &expected, &("in place", what));
            let guard: Vec<T> = data(&mut rng, draw, n + 5);
            let mut output = guard.clone();
            scan.run_into(&input, &mut output[3..n + 3]).unwrap();
            assert_same(&output[3..n + 3], &expected, &("into a slice", what));
            assert_same(&output[..3], &guard[..3], &("before the slice", what));
            assert_same(&output[n + 3..], &guard[n + 3..], &("after the slice", what));
        }
    }
}

/// A scan on the device between views at offsets, with guard words around the output.
#[allow(clippy::too_many_arguments)]
pub(crate) fn check_on_device<Op: Operator<T>, T: Sample>(
    rng: &mut Rng,
    stream: &Arc<CudaStream>,
    workspace: &mut Workspace,
    input: &[T],
    options: Options<T>,
    strategy: Strategy,
    (skip_in, skip_out): (usize, usize),
    in_place: bool,
) {
    let n = input.len();
    let what = (std::any::type_name::<(Op, T)>(), n, options, strategy, (skip_in, skip_out), in_place);
    let expected = oracle::<Op, T>(input, options);
    let scan = builder::<Op, T>(options).strategy(strategy);
    let (before, after) = (skip_out, 17);
    let mut guard: Vec<T> = data(rng, Draw::Any, before + n + after);
    let got: Vec<T> = if in_place {
        guard[before..before + n].copy_from_slice(input);
        let mut buffer = stream.clone_htod(&guard).unwrap();
        scan.workspace(workspace).run_in_place(&mut buffer.slice_mut(before..before + n)).unwrap();
        stream.clone_dtoh(&buffer).unwrap()
    } else {
        let mut source: Vec<T> = data(rng, Draw::Any, skip_in + n + 3);
        source[skip_in..skip_in + n].copy_from_slice(input);
        let source_on_device = stream.clone_htod(&source).unwrap();
        let mut buffer = stream.clone_htod(&guard).unwrap();
        let view = source_on_device.slice(skip_in..skip_in + n);
        scan.workspace(workspace).run_into(&view, &mut buffer.slice_mut(before..before + n)).unwrap();
        assert_same(&stream.clone_dtoh(&source_on_device).unwrap(), &source, &("the input", what));
        stream.clone_dtoh(&buffer).unwrap()
    };
    assert_same(&got[before..before + n], &expected, &what);
    assert_same(&got[..before], &guard[..before], &("before the view", what));
    assert_same(&got[before + n..], &guard[before + n..], &("after the view", what));
}

fn device<Op: Operator<T>, T: Sample>(strategy: Strategy) {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    let mut lengths = sizes(tile, &mut rng);
    // Beyond the first two ranges of lengths, each of which has a kernel of its own.
    lengths.extend([4 << 20, 32 << 20].map(|bytes| bytes / size_of::<T>() + 1 + rng.below(1 << 16)));
    on_lengths::<Op, T>(&mut rng, &stream, strategy, 10 * tile, lengths);
}

/// Inputs of more than `short` elements take a few of the options, others all.
fn on_lengths<Op: Operator<T>, T: Sample>(
    rng: &mut Rng,
    stream: &Arc<CudaStream>,
    strategy: Strategy,
    short: usize,
    lengths: Vec<usize>,
) {
    let mut workspace = Workspace::new(stream);
    let draw = Draw::exact_for::<Op, T>();
    for n in lengths {
        let input: Vec<T> = data(rng, draw, n);
        let all = options::<Op, T>(rng, draw);
        let some = if n > short { 2 } else { all.len() };
        let start = rng.below(all.len());
        for k in 0..some {
            let options = all[(start + k * 3) % all.len()];
            let skips = [(0, 0), (1, 0), (0, 1), (3, 5), (16, 32)][rng.below(5)];
            check_on_device::<Op, T>(
                rng,
                stream,
                &mut workspace,
                &input,
                options,
                strategy,
                skips,
                (start + k) % 4 == 3,
            );
        }
    }
}

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
                use super::super::*;
                $( $( #[test] fn $t() { host::<parascan::$op, $t>() } )* )*
            }
            mod on_device {
                use super::super::*;
                $( $( #[test] fn $t() { device::<parascan::$op, $t>(Strategy::Auto) } )* )*
            }
            mod by_look_back {
                use super::super::*;
                const LOOK_BACK: Strategy = Strategy::LookBack(Block::WarpShuffles);
                $( $( #[test] fn $t() { device::<parascan::$op, $t>(LOOK_BACK) } )* )*
            }
            mod hierarchical {
                use super::super::*;
                const HIERARCHICAL: Strategy = Strategy::Hierarchical(Block::WarpShuffles);
                $( $( #[test] fn $t() { device::<parascan::$op, $t>(HIERARCHICAL) } )* )*
            }
        }
    )* };
}
catalog!(stamp);

// ---- the textbook's -----------------------------------------------------------------------------

/// A network in every form, with every join of tiles.
pub(crate) fn textbook<Op: Operator<T>, T: Sample>(network: Network) {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    const WIDTH: usize = 512;
    let run = if size_of::<T>() > 4 { 5 } else { 36 / size_of::<T>() };
    for (block, tile) in
        [(Block::Plain(network), WIDTH), (Block::Shifted(network), WIDTH), (Block::Coarsened(network), WIDTH * run)]
    {
        for strategy in [
            Strategy::Hierarchical(block),
            Strategy::Chained(block),
            Strategy::LookBack(block),
            Strategy::PrefixServer(block),
        ] {
            // More than one look-back group of 128 tiles, and more than 512 tiles, which need tiles
            // of aggregates.
            let lengths = sizes(tile, &mut rng).into_iter().chain([513 * tile + 1 + rng.below(tile)]).collect();
            on_lengths::<Op, T>(&mut rng, &stream, strategy, 3 * tile, lengths);
        }
    }
}

macro_rules! textbook {
    ($($network:ident)*) => {
        #[allow(non_snake_case)]
        mod by_the_textbook { $(
            mod $network { textbook!(@operators $network Sum Max Last); }
        )* }
    };
    (@operators $network:ident $($op:ident)*) => { $(
        mod $op {
            use super::super::super::*;
            #[test]
            fn f32() { textbook::<parascan::$op, f32>(Network::$network) }
            #[test]
            fn i32() { textbook::<parascan::$op, i32>(Network::$network) }
            #[test]
            fn u64() { textbook::<parascan::$op, u64>(Network::$network) }
            #[test]
            fn f16() { textbook::<parascan::$op, f16>(Network::$network) }
        }
    )* };
}
textbook! { KoggeStone KoggeStoneDoubleBuffered BrentKung Sklansky WarpShuffles }

/// The library's own blocks, chained, and three levels of aggregates of coarsened tiles.
#[test]
fn chained() {
    device::<parascan::Sum, f32>(Strategy::Chained(Block::WarpShuffles));
    device::<parascan::Last, u64>(Strategy::Chained(Block::WarpShuffles));
    device::<parascan::Max, f16>(Strategy::Chained(Block::WarpShuffles));
    device::<parascan::Sum, u8>(Strategy::Chained(Block::WarpShuffles));
}
#[test]
fn three_levels_of_coarsened_tiles() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let tile = 512 * 5; // of u64, also its carry
    let lengths = vec![tile * tile + 1 + rng.below(3 * tile)];
    let strategy = Strategy::Hierarchical(Block::Coarsened(Network::BrentKung));
    on_lengths::<parascan::Last, u64>(&mut rng, &stream, strategy, 3 * tile, lengths);
}

/// The maximum or minimum of any NaN is the same NaN on both engines, all bits but the sign set,
/// even if nothing was combined.
fn one_nan<T: Sample, B: PartialEq + std::fmt::Debug>(nans: &[T], bits: fn(T) -> B, expected: B)
where
    parascan::Max: Operator<T>,
    parascan::Min: Operator<T>,
{
    fn check<Op: Operator<T>, T: Sample, B: PartialEq + std::fmt::Debug>(nan: T, bits: fn(T) -> B, expected: &B) {
        let mut rng = Rng::new();
        let mut input: Vec<T> = data(&mut rng, Draw::Any, 10_000);
        input[0] = nan;
        let all_are = |output: &[T], what| {
            let other = output.iter().position(|&x| bits(x) != *expected);
            assert_eq!(other.map(|i| bits(output[i])), None, "{what} {}", std::any::type_name::<(Op, T)>());
        };
        for options in [None, Some(nan)].map(|init| Options { exclusive: init.is_some(), init, reverse: false }) {
            let scan = builder::<Op, T>(options);
            all_are(&scan.run(&input).unwrap(), "host");
            if ON_DEVICE && let Some(stream) = stream() {
                let output = scan.run(&stream.clone_htod(&input).unwrap()).unwrap();
                all_are(&stream.clone_dtoh(&output).unwrap(), "device");
            }
        }
    }
    for &nan in nans {
        check::<parascan::Max, T, B>(nan, bits, &expected);
        check::<parascan::Min, T, B>(nan, bits, &expected);
    }
}

#[test]
fn one_nan_of_f32() {
    one_nan(&[0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xffff_ffff].map(f32::from_bits), f32::to_bits, i32::MAX as u32);
}
#[test]
fn one_nan_of_f64() {
    let nans = [0x7ff8 << 48, 0xfff8 << 48, (0x7ff0 << 48) + 1, u64::MAX].map(f64::from_bits);
    one_nan(&nans, f64::to_bits, i64::MAX as u64);
}
#[test]
fn one_nan_of_f16() {
    one_nan(&[0x7e00, 0xfe00, 0x7c01, 0xffff].map(f16::from_bits), f16::to_bits, i16::MAX as u16);
}
#[test]
fn one_nan_of_bf16() {
    one_nan(&[0x7fc0, 0xffc0, 0x7f81, 0xffff].map(bf16::from_bits), bf16::to_bits, i16::MAX as u16);
}
