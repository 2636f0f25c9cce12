use parascan::cudarc::driver::CudaStream;
use parascan::{Error, Max, scan};
use std::sync::Arc;

pub fn on_host(prices: &[i32], stream: &Arc<CudaStream>) -> Result<Vec<i32>, Error> {
    scan::<Max, i32>().on(stream).run(prices)
}

fn main() {}
