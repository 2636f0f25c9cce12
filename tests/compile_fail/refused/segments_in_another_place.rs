use parascan::cudarc::driver::CudaSlice;
use parascan::{Error, Sum, scan};

fn sums(items: &CudaSlice<i32>, offsets: &[u32]) -> Result<CudaSlice<i32>, Error> {
    scan::<Sum, i32>().segments(offsets).run(items)
}

fn main() {
    let _ = sums;
}
