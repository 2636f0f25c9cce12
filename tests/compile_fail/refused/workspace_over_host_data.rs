use parascan::{Error, Max, Workspace, scan};

pub fn on_host(prices: &mut Vec<i32>, workspace: &mut Workspace) -> Result<(), Error> {
    scan::<Max, i32>().workspace(workspace).run_in_place(prices)
}

fn main() {}
