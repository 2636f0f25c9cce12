use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::{Error, Max, Workspace, scan};
use std::sync::Arc;

pub fn both(x: &mut CudaSlice<i32>, workspace: &mut Workspace, stream: &Arc<CudaStream>) -> Result<(), Error> {
    scan::<Max, i32>().workspace(workspace).on(stream).run_in_place(x)
}

fn main() {}
