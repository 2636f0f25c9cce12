use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::{Error, Max, scan};
use std::sync::Arc;

pub fn on_host(prices: &[i32]) -> Result<Vec<i32>, Error> {
    scan::<Max, i32>().run(prices)
}

pub fn on_device(prices: &CudaSlice<i32>, stream: &Arc<CudaStream>) -> Result<CudaSlice<i32>, Error> {
    scan::<Max, i32>().on(stream).run(prices)
}

fn main() {}
