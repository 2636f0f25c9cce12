//! Rounded sums have the same bits in every run, at any address, on any number of threads, and
//! whatever else the device runs.

use crate::common::{Rng, Sample, context};
use half::{bf16, f16};
use parascan::operators::{Moments, Variance};
use parascan::{Operator, Product, Sum, Workspace, reduce, scan};

fn same_bits<Op: Operator<T>, T: Sample>(from: impl Fn(f64) -> T) {
    let mut rng = Rng::new();
    let device = context().map(|context| (context.new_stream().unwrap(), context.new_stream().unwrap()));
    let longest = if device.is_some() { 5 << 20 } else { 1 << 20 };
    for n in [70_000 + rng.below(1000), longest + rng.below(1000)] {
        // Magnitudes around one, so that every grouping rounds differently.
        let x: Vec<T> = (0..n).map(|_| from(0.5 + (rng.next() >> 11) as f64 / (1_u64 << 53) as f64)).collect();
        let assert_bits = |first: &mut Option<T>, got: T, what: &str| {
            let first = first.get_or_insert(got);
            assert_eq!(bytemuck::bytes_of(&got), bytemuck::bytes_of(first), "{what}, {n} items");
        };
        let mut first = None;
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_bits(&mut first, pool.install(|| reduce::<Op, T>().run(&x).unwrap()), "on the host");
        }
        let Some((stream, noise)) = &device else { continue };
        let mut workspace = Workspace::new(stream);
        let mut first = None;
        for run in 0..8 {
            let skip = run % 4;
            let mut shifted = vec![T::zeroed(); skip];
            shifted.extend_from_slice(&x);
            let input = stream.clone_htod(&shifted).unwrap();
            // Another kernel, so that blocks end in another order.
            let other = noise.alloc_zeros::<u32>((1 + run) << 20).unwrap();
            let busy = scan::<Sum, u32>().run(&other).unwrap();
            let reduce = reduce::<Op, T>().workspace(&mut workspace);
            assert_bits(&mut first, reduce.run(&input.slice(skip..)).unwrap(), "on the device");
            drop(busy);
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
    same_bits::<Sum, f16>(|x| f16::from_f64(x / 1000.0));
}
#[test]
fn sum_bf16() {
    same_bits::<Sum, bf16>(bf16::from_f64);
}
#[test]
fn product_f32() {
    same_bits::<Product, f32>(|x| x as f32 + 0.04);
}
#[test]
fn variance() {
    same_bits::<Variance, Moments<f32>>(|x| Moments::of(x as f32));
}
