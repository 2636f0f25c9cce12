use parascan::cudarc::driver::{CudaSlice, CudaViewMut};
use parascan::{Error, Max, scan};

pub fn on_device(prices: &CudaSlice<i32>, mut highest: CudaViewMut<'_, i32>) -> Result<(), Error> {
    scan::<Max, i32>().run_into(prices, &mut highest)
}

fn main() {}
