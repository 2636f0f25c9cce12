//! Rounded sums have the same bits in every run, at any address, on any number of threads, and
//! whatever else the device runs.

use super::*;
use crate::common::{ON_DEVICE, assert_bytes, context};
use parascan::operators::{Moments, Variance};
use parascan::{Product, Sum, Workspace};

fn same_bits<Op: Operator<T>, T: Sample>(from: impl Fn(f64) -> T) {
    let mut rng = Rng::new();
    let device = context().map(|context| (context.new_stream().unwrap(), context.new_stream().unwrap()));
    for lengths in [Lengths::Below(40), Lengths::Below(5000), Lengths::Half, Lengths::One] {
        for n in [50_000 + rng.below(1000), 700_000 + rng.below(1000)] {
            // Magnitudes around one, so that every grouping rounds differently.
            let x: Vec<T> = (0..n).map(|_| from(0.5 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64)).collect();
            let segments = Segments::draw(&mut rng, n, lengths, true);
            let (offsets, flags) = (segments.offsets::<u32>(), segments.flags(&mut rng));
            let (mut by_offsets, mut by_flags, mut sums) = (None, None, None);
            let assert_first = |first: &mut Option<Vec<T>>, got: Vec<T>, what: &str| {
                assert_bytes(&got, first.get_or_insert_with(|| got.clone()), &(what, n, lengths));
            };
            for threads in [1, 2, 3, 7] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    assert_first(&mut by_offsets, scan::<Op, T>().segments(&offsets).run(&x).unwrap(), "offsets");
                    let reversed = scan::<Op, T>().heads(&flags).reverse().init(x[0]).run(&x).unwrap();
                    assert_first(&mut by_flags, reversed, "flags, in reverse");
                    let init = reduce::<Op, T>().init(x[0]);
                    assert_first(&mut sums, init.segments(&offsets).run(&x).unwrap(), "reduce");
                });
            }
            let Some((stream, noise)) = &device else { continue };
            let mut workspace = Workspace::new(stream);
            let (mut by_offsets, mut by_flags, mut sums, mut of_rows) = (None, None, None, None);
            let (offsets, flags) = (stream.clone_htod(&offsets).unwrap(), stream.clone_htod(&flags).unwrap());
            for run in 0..6 {
                let skip = run % 4;
                let mut shifted = vec![T::zeroed(); skip];
                shifted.extend_from_slice(&x);
                let input = stream.clone_htod(&shifted).unwrap();
                let input = input.slice(skip..);
                // Another kernel, so that blocks end in another order.
                let other = noise.alloc_zeros::<u32>((1 + run) << 20).unwrap();
                let busy = scan::<Sum, u32>().run(&other).unwrap();
                let get = |output| stream.clone_dtoh(&output).unwrap();
                let output = scan::<Op, T>().segments(&offsets).workspace(&mut workspace).run(&input).unwrap();
                assert_first(&mut by_offsets, get(output), "offsets on the device");
                let reversed = scan::<Op, T>().heads(&flags).reverse().init(x[0]);
                let output = reversed.workspace(&mut workspace).run(&input).unwrap();
                assert_first(&mut by_flags, get(output), "flags on the device, in reverse");
                let init = reduce::<Op, T>().init(x[0]).segments(&offsets);
                assert_first(
                    &mut sums,
                    get(init.workspace(&mut workspace).run(&input).unwrap()),
                    "reduce on the device",
                );
                let columns = 5003;
                let rows = reduce::<Op, T>().rows(columns).workspace(&mut workspace);
                let output = rows.run(&input.slice(..n / columns * columns)).unwrap();
                assert_first(&mut of_rows, get(output), "rows on the device");
                drop(busy);
            }
        }
    }
}

#[test]
fn sum_f32() {
    same_bits::<Sum, f32>(|x| x as f32);
}
#[test]
fn sum_f16() {
    same_bits::<Sum, half::f16>(|x| half::f16::from_f64(x / 1000.0));
}
#[test]
fn product_f64() {
    same_bits::<Product, f64>(|x| x + 0.04);
}
#[test]
fn variance() {
    same_bits::<Variance, Moments<f32>>(|x| Moments::of(x as f32));
}

/// Rows that lanes, warps and blocks take whole, and that pieces cut, short inputs, pieces of a long segment, and runs.
#[test]
fn rows_pieces_and_runs() {
    let mut rng = Rng::new();
    let device = context().map(|context| (context.new_stream().unwrap(), context.new_stream().unwrap()));
    for n in [60_000 + rng.below(1000), 400_000 + rng.below(1000)] {
        let x: Vec<f32> = (0..n).map(|_| 0.5 + rng.below(1 << 24) as f32 / (1 << 24) as f32).collect();
        let segments = Segments { n, offsets: (0..=200).map(|k| 10 * k).chain([n - 1000, n]).collect() };
        let keys = Segments::draw(&mut rng, n, Lengths::Below(5000), false).keys::<u32>(&mut rng);
        let offsets = segments.offsets::<u32>();
        // The results of all calls, in the same order each time.
        macro_rules! all {
            ($input:expr, $offsets:expr, $keys:expr, |$builder:ident| $sited:expr, $get:expr) => {{
                let mut results: Vec<Vec<f32>> = Vec::new();
                for columns in [7, 100, 3000, 20_000, 50_000] {
                    let rows = $input(n / columns * columns);
                    let $builder = scan::<Sum, f32>().rows(columns);
                    results.push($get($sited.run(&rows).unwrap()));
                    let $builder = reduce::<Sum, f32>().rows(columns);
                    results.push($get($sited.run(&rows).unwrap()));
                }
                let $builder = scan::<Sum, f32>().segments($offsets);
                results.push($get($sited.run(&$input(n)).unwrap()));
                let $builder = reduce::<Sum, f32>().segments($offsets);
                results.push($get($sited.run(&$input(n)).unwrap()));
                let $builder = reduce::<Sum, f32>().by_key::<u32, _>($keys);
                results.push($get($sited.run(&$input(n)).unwrap()));
                results
            }};
        }
        let assert_first = |first: &mut Option<Vec<Vec<f32>>>, got: Vec<Vec<f32>>, what: &str| {
            let first = first.get_or_insert_with(|| got.clone());
            for (k, (got, first)) in got.iter().zip(first).enumerate() {
                assert_bytes(got, first, &(what, n, "call", k));
            }
        };
        let mut first = None;
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let got = pool.install(|| all!(|upto: usize| &x[..upto], &offsets, &keys, |sum| sum, |sums| sums));
            assert_first(&mut first, got, "on the host");
        }
        if !ON_DEVICE {
            continue;
        }
        let Some((stream, noise)) = &device else { continue };
        let mut workspace = Workspace::new(stream);
        let (offsets, keys) = (stream.clone_htod(&offsets).unwrap(), stream.clone_htod(&keys).unwrap());
        let mut first = None;
        for run in 0..6 {
            let skip = run % 4;
            let input = stream.clone_htod(&[&x[..skip], &x].concat()).unwrap();
            // Another kernel, so that blocks end in another order.
            let other = noise.alloc_zeros::<u32>((1 + run) << 20).unwrap();
            let busy = scan::<Sum, u32>().run(&other).unwrap();
            let got = all!(
                |upto: usize| input.slice(skip..skip + upto),
                &offsets,
                &keys,
                |sum| sum.workspace(&mut workspace),
                |sums| stream.clone_dtoh(&sums).unwrap()
            );
            assert_first(&mut first, got, "on the device");
            drop(busy);
        }
    }
}
