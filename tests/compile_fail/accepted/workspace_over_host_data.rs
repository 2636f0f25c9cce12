use parascan::cudarc::driver::CudaSlice;
use parascan::{Error, Max, Workspace, scan};

pub fn on_host(prices: &mut Vec<i32>) -> Result<(), Error> {
    scan::<Max, i32>().run_in_place(prices)
}

pub fn on_device(prices: &mut CudaSlice<i32>, workspace: &mut Workspace) -> Result<(), Error> {
    scan::<Max, i32>().workspace(workspace).run_in_place(prices)
}

fn main() {}
