//! Pools of threads for the unit tests.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

/// Runs `work` on a pool of at most eight threads. What enters the pool is compiled once, not for each `work`.
pub(super) fn on_threads(threads: usize, mut work: impl FnMut() + Send) {
    static POOLS: [OnceLock<ThreadPool>; 8] = [const { OnceLock::new() }; 8];
    let pool = POOLS[threads - 1].get_or_init(|| ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    let work: &mut (dyn FnMut() + Send) = &mut work;
    pool.install(work);
}
