//! The ready-made operators keep their laws, each tested in one line, as a user would.

use crate::common::context;
use half::{bf16, f16};
use parascan::laws;
use parascan::operators::{
    Affine, ArgMax, ArgMin, Compose, Extent, Flagged, Indexed, LogSumExp, Matrix, MinMax, Moments, Normalizer,
    OnlineSoftmax, Segmented, Transitions, Variance,
};
use parascan::{Last, Max, Sum};

macro_rules! keeps_its_laws {
    ($($name:ident: $op:ty, $($t:ty),+;)*) => { $(
        #[test]
        fn $name() {
            let _context = context(); // a failure where a device is required
            $( laws::of::<$op, $t>().check().unwrap(); )+
        }
    )* };
}
keeps_its_laws! {
    affine_maps: Compose, Affine<f32>, Affine<f64>;
    matrices: Compose, Matrix<u32>, Matrix<u64>, Matrix<f32>, Matrix<f64>;
    automata: Compose, Transitions;
    min_max: MinMax, Extent<f32>, Extent<i32>, Extent<u64>, Extent<f16>, Extent<f64>, Extent<bf16>, Extent<i8>, Extent<i16>,
        Extent<i64>, Extent<u8>, Extent<u16>, Extent<u32>, Extent<usize>, Extent<isize>;
    arg_max: ArgMax, Indexed<f32, u32>, Indexed<i32, u32>, Indexed<u32, u32>, Indexed<f64, u64>, Indexed<i64, u64>, Indexed<u64, u64>;
    arg_min: ArgMin, Indexed<f32, u32>, Indexed<i32, u32>, Indexed<u32, u32>, Indexed<f64, u64>, Indexed<i64, u64>, Indexed<u64, u64>;
    online_softmax: OnlineSoftmax, Normalizer<f32>, Normalizer<f64>;
    log_sum_exp: LogSumExp, f32, f64;
    variance: Variance, Moments<f32>, Moments<f64>;
    segmented_sum: Segmented<Sum>, Flagged<i32>, Flagged<u8>;
    segmented_rounded_sum: Segmented<Sum>, Flagged<f32>, Flagged<f16>;
    segmented_max: Segmented<Max>, Flagged<f32>, Flagged<f64>, Flagged<bf16>;
    segmented_last: Segmented<Last>, Flagged<u64>;
    segmented_maps: Segmented<Compose>, Flagged<Affine<f32>>, Flagged<Transitions>;
    segmented_log_sum_exp: Segmented<LogSumExp>, Flagged<f32>;
    segments_of_segments: Segmented<Segmented<Sum>>, Flagged<Flagged<i32>>;
}
