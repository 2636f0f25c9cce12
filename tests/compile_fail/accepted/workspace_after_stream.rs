use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::{Error, Max, Workspace, scan};
use std::sync::Arc;

pub fn a_workspace_has_its_stream(x: &mut CudaSlice<i32>, stream: &Arc<CudaStream>) -> Result<(), Error> {
    let mut workspace = Workspace::new(stream);
    scan::<Max, i32>().workspace(&mut workspace).run_in_place(x)
}

fn main() {}
