use parascan::cudarc::driver::CudaSlice;
use parascan::{Error, Max, Workspace, scan};

pub fn twice(a: &mut CudaSlice<i32>, b: &mut CudaSlice<i32>, workspace: &mut Workspace) -> Result<(), Error> {
    let highest = scan::<Max, i32>().reverse();
    highest.workspace(workspace).run_in_place(a)?;
    highest.workspace(workspace).run_in_place(b)
}

fn main() {}
