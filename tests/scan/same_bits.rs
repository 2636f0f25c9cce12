//! Rounded sums have the same bits in every run, at any address and whatever else the device runs.

use crate::common::{Rng, STRATEGIES, Sample, TEXTBOOK, context};
use half::{bf16, f16};
use parascan::{Operator, Product, Sum, Workspace, scan};

fn same_bits<Op: Operator<T>, T: Sample>(from: impl Fn(f64) -> T) {
    let context = or_skip!(context());
    let (stream, noise) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut rng = Rng::new();
    for n in [70_000 + rng.below(1000), (17 << 20) + rng.below(1000)] {
        // Magnitudes around one, so that every grouping rounds differently.
        let x: Vec<T> = (0..n).map(|_| from(0.5 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64)).collect();
        let textbook = if n < 1 << 20 { &TEXTBOOK[..] } else { &[] };
        for &strategy in STRATEGIES.iter().chain(textbook) {
            let mut workspace = Workspace::new(&stream);
            let mut first: Option<Vec<T>> = None;
            for run in 0..8 {
                let skip = run % 4;
                let mut shifted = vec![T::zeroed(); skip];
                shifted.extend_from_slice(&x);
                let input = stream.clone_htod(&shifted).unwrap();
                // Another kernel, so that tiles start in another order.
                let other = noise.alloc_zeros::<u32>((1 + run) << 20).unwrap();
                let busy = scan::<Sum, u32>().run(&other).unwrap();
                let mut output = stream.clone_htod(&vec![T::zeroed(); n]).unwrap();
                let scan = scan::<Op, T>().strategy(strategy).workspace(&mut workspace);
                scan.run_into(&input.slice(skip..), &mut output).unwrap();
                let got = stream.clone_dtoh(&output).unwrap();
                drop(busy);
                let first = first.get_or_insert_with(|| got.clone());
                let differ =
                    got.iter().zip(&*first).filter(|(a, b)| bytemuck::bytes_of(*a) != bytemuck::bytes_of(*b)).count();
                assert_eq!(differ, 0, "run {run} of {n} items by {strategy:?}");
            }
        }
    }
}

#[test]
fn sum_f32() {
    same_bits::<Sum, f32>(|x| x as f32);
}
#[test]
fn sum_f64() {
    same_bits::<Sum, f64>(|x| x);
}
#[test]
fn sum_f16() {
    same_bits::<Sum, f16>(f16::from_f64);
}
#[test]
fn sum_bf16() {
    same_bits::<Sum, bf16>(bf16::from_f64);
}
#[test]
fn product_f32() {
    same_bits::<Product, f32>(|x| x as f32 + 0.04);
}
