//! Scans by the ready-made operators, on both engines.

use super::own::check;
use crate::common::{Draw, Rng, Sample};
use parascan::operators::{
    ArgMax, ArgMin, Compose, Extent, Flagged, Indexed, Matrix, MinMax, Moments, Segmented, Transitions,
};
use parascan::{Element, Max, Sum};

macro_rules! samples {
    ($($t:ty: |$rng:ident| $draw:expr;)*) => { $( impl Sample for $t {
        fn draw($rng: &mut Rng, _: Draw, _: usize) -> Self {
            $draw
        }
        fn same(self, other: Self) -> bool {
            bytemuck::bytes_of(&self) == bytemuck::bytes_of(&other)
        }
    } )* };
}
samples! {
    Transitions: |rng| {
        // Mostly permutations: a function that is not one-to-one forgets its input.
        let (swap, shift, loses) = (rng.below(8) as u8, rng.below(8) as u8, rng.below(1000) == 0);
        Transitions::new(std::array::from_fn(|s| ((s as u8 ^ swap) + shift) & if loses { 6 } else { 7 }))
    };
    Matrix<u32>: |rng| Matrix { m00: rng.next() as u32, m01: rng.next() as u32, m10: rng.next() as u32, m11: rng.next() as u32 };
    Matrix<u64>: |rng| Matrix { m00: rng.next(), m01: rng.next(), m10: rng.next(), m11: rng.next() };
    Moments<f32>: |rng| Moments { count: rng.below(9) as f32, mean: rng.below(100) as f32, squares: rng.below(99) as f32 };
    Extent<u8>: |rng| Extent::of(rng.next() as u8);
    Extent<f64>: |rng| Extent::of(<f64 as Sample>::draw(rng, Draw::Any, 0));
    Indexed<f32, u32>: |rng| Indexed { value: rng.below(1 << 20) as f32, index: rng.next() as u32 };
    Indexed<i64, u64>: |rng| Indexed { value: rng.below(1 << 20) as i64 - (1 << 19), index: rng.next() };
    Flagged<i32>: |rng| flagged(rng, |rng| rng.next() as i32);
    Flagged<f32>: |rng| flagged(rng, |rng| <f32 as Sample>::draw(rng, Draw::Any, 0));
    Flagged<Matrix<u32>>: |rng| flagged(rng, |rng| Sample::draw(rng, Draw::Any, 0));
}

fn flagged<T: Element>(rng: &mut Rng, value: impl Fn(&mut Rng) -> T) -> Flagged<T> {
    if rng.below(300) == 0 { Flagged::head(value(rng)) } else { Flagged::inside(value(rng)) }
}

fn any<T: Sample>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|i| T::draw(rng, Draw::Any, i)).collect()
}

#[test]
fn maps() {
    check::<Compose, Transitions>(any);
    check::<Compose, Matrix<u32>>(any);
    check::<Compose, Matrix<u64>>(any);
}

#[test]
fn extremes() {
    check::<MinMax, Extent<u8>>(any);
    check::<MinMax, Extent<f64>>(any);
    check::<ArgMax, Indexed<f32, u32>>(any);
    check::<ArgMin, Indexed<i64, u64>>(any);
}

#[test]
fn segments() {
    check::<Segmented<Sum>, Flagged<i32>>(any);
    check::<Segmented<Max>, Flagged<f32>>(any);
    check::<Segmented<Compose>, Flagged<Matrix<u32>>>(any);
}
