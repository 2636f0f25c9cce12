use parascan::cudarc::driver::{CudaSlice, CudaView};
use parascan::{Error, Max, scan};

pub fn on_device(prices: &CudaSlice<i32>, mut highest: CudaView<'_, i32>) -> Result<(), Error> {
    scan::<Max, i32>().run_into(prices, &mut highest)
}

fn main() {}
