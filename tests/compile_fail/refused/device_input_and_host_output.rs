use parascan::cudarc::driver::CudaSlice;
use parascan::{Error, Max, scan};

pub fn on_device(prices: &CudaSlice<i32>, highest: &mut Vec<i32>) -> Result<(), Error> {
    scan::<Max, i32>().run_into(prices, highest)
}

fn main() {}
