use parascan::cudarc::driver::CudaSlice;
use parascan::{Error, compact};

fn kept(items: &CudaSlice<i32>, flags: &CudaSlice<u8>) -> Result<CudaSlice<i32>, Error> {
    compact::<i32>().flags(flags).run(items)
}

fn main() {
    let _ = kept;
}
