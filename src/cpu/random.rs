//! Random numbers for the unit tests of the engine.

use std::hash::{BuildHasher, RandomState};

/// A generator of random numbers (xorshift64*).
pub(super) struct Rng {
    /// What the next numbers follow from: a failed test prints it.
    pub(super) state: u64,
}

impl Rng {
    /// Other numbers in every run.
    pub(super) fn new() -> Rng {
        Rng { state: RandomState::new().hash_one(0) | 1 }
    }
    /// The same numbers in every run.
    pub(super) fn from_seed(seed: u64) -> Rng {
        Rng { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }
    pub(super) fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// `n` random numbers, the same in every run.
pub(super) fn noise(n: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut rng = Rng::from_seed(seed);
    (0..n).map(move |_| rng.next())
}
