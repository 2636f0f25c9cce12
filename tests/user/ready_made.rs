//! Scans by the ready-made operators, on both engines.

use super::own::check;
use crate::common::{Draw, Rng, Sample};
use parascan::operators::{ArgMax, ArgMin, Compose, Extent, Flagged, Indexed, Matrix, MinMax, Segmented, Transitions};
use parascan::{Max, Sum};

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
