use parascan::{Error, Max, scan};
use std::sync::Arc;

pub fn on_host(prices: &Arc<[i32]>, mut highest: Arc<[i32]>) -> Result<(), Error> {
    scan::<Max, i32>().run_into(prices, &mut highest)
}

fn main() {}
