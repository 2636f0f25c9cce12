//! Run-time types against plain loops, on random data, wherever data can lie.

mod arguments;
mod pairs;
mod select;
mod sort;

use crate::common::{Rng, Sample, stream};
use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::dynamic::{Array, Item, View};
use std::ops::Range;
use std::sync::Arc;

/// Where the data of a test lies.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Host,
    /// On the device, in buffers of cudarc's.
    Device(Arc<CudaStream>),
}

impl Place {
    /// The host, and the device if there is one.
    pub(crate) fn all() -> Vec<Place> {
        [Place::Host].into_iter().chain(stream().map(Place::Device)).collect()
    }

    pub(crate) fn put<T: Item>(&self, items: &[T]) -> Array
    where
        Array: From<Vec<T>> + From<CudaSlice<T>>,
    {
        match self {
            Place::Host => items.to_vec().into(),
            Place::Device(_) if items.is_empty() => self.put(&[T::zeroed()]),
            Place::Device(stream) => stream.clone_htod(items).unwrap().into(),
        }
    }

    #[track_caller]
    pub(crate) fn get<T: Item>(&self, array: Array) -> Vec<T> {
        match self {
            Place::Host => array.into_vec().expect("an array of this type on the host"),
            Place::Device(stream) => {
                stream.clone_dtoh(&array.into_cuda_slice::<T>().expect("an array of this type on the device")).unwrap()
            }
        }
    }
}

/// A type of the catalog that a test draws, puts and gets.
pub(crate) trait Drawn: Item + Sample {
    fn put(place: &Place, items: &[Self]) -> Array;
    fn get(place: &Place, array: Array) -> Vec<Self>;
}
macro_rules! drawn { ($($t:ty as $held:ty;)*) => { $(
    impl Drawn for $t {
        fn put(place: &Place, items: &[Self]) -> Array { place.put::<$held>(bytemuck::cast_slice(items)) }
        fn get(place: &Place, array: Array) -> Vec<Self> { bytemuck::cast_vec(place.get::<$held>(array)) }
    }
)* } }
drawn! { f32 as f32; f64 as f64; half::f16 as half::f16; half::bf16 as half::bf16; }
drawn! { i8 as i8; i16 as i16; i32 as i32; i64 as i64; isize as i64; u8 as u8; u16 as u16; u32 as u32; u64 as u64; usize as u64; }

/// Segments of items, told in every way.
pub(crate) struct Cuts {
    /// The segments of offsets, some of them empty, which cover all items.
    pub(crate) segments: Vec<Range<usize>>,
    /// The same without the empty ones.
    pub(crate) runs: Vec<Range<usize>>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) flags: Vec<u8>,
    pub(crate) bits: Vec<u32>,
    pub(crate) keys: Vec<u16>,
}

impl Cuts {
    pub(crate) fn new(rng: &mut Rng, n: usize) -> Cuts {
        let mut offsets: Vec<u64> = (0..1 + rng.below(40)).map(|_| rng.below(n + 1) as u64).collect();
        offsets.extend([0, n as u64, offsets[0]]); // one of them twice: an empty segment
        offsets.sort_unstable();
        let segments: Vec<_> = offsets.windows(2).map(|ends| ends[0] as usize..ends[1] as usize).collect();
        let runs: Vec<_> = segments.iter().filter(|run| !run.is_empty()).cloned().collect();
        let (mut flags, mut keys) = (vec![0; n], vec![0; n]);
        for (k, run) in runs.iter().enumerate() {
            flags[run.start] = 1 + rng.below(255) as u8;
            keys[run.clone()].fill(k as u16 * 3);
        }
        let bits = flags.chunks(32).map(|flags| flags.iter().enumerate().map(|(j, &f)| u32::from(f != 0) << j).sum());
        Cuts { segments, runs, offsets, bits: bits.collect(), flags, keys }
    }

    /// Calls `work` with each way to tell the runs.
    pub(crate) fn each_way(&self, place: &Place, mut work: impl FnMut(Way<'_>)) {
        work(Way::Heads(place.put(&self.flags).view()));
        work(Way::HeadBits(place.put(&self.bits).view()));
        work(Way::Keys(place.put(&self.keys).view()));
    }
}

/// A way to tell the runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way<'a> {
    Heads(View<'a>),
    HeadBits(View<'a>),
    Keys(View<'a>),
}

/// The rows of `n` items.
pub(crate) fn rows(n: usize, columns: usize) -> Vec<Range<usize>> {
    (0..n / columns).map(|row| row * columns..(row + 1) * columns).collect()
}

/// The matrix with rows and columns exchanged.
pub(crate) fn transposed<T: Copy>(items: &[T], columns: usize) -> Vec<T> {
    let rows = items.len() / columns;
    (0..items.len()).map(|i| items[i % rows * columns + i / rows]).collect()
}
