//! One suite of compaction, partition and unique, stamped over elements and both engines.

use crate::common::{Draw, Rng, Sample, assert_bytes, assert_same, data, noise, stream};
use bytemuck::Pod;
use half::{bf16, f16};
use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use parascan::{
    Above, AtLeast, AtMost, Below, Equal, Error, Finite, NonZero, Not, NotEqual, Ordered, Predicate, Within, Workspace,
    compact, partition, unique,
};
use std::fmt::Debug;
use std::sync::Arc;

mod by_predicate;
mod device;
mod host;
mod new_memory;
mod three_way;

/// Selected items: `of_1000` of a thousand, in runs of `run`.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    of_1000: usize,
    run: usize,
}
const PATTERNS: [Pattern; 7] = [
    Pattern { of_1000: 0, run: 1 },
    Pattern { of_1000: 10, run: 1 },
    Pattern { of_1000: 500, run: 1 },
    Pattern { of_1000: 990, run: 1 },
    Pattern { of_1000: 1000, run: 1 },
    Pattern { of_1000: 500, run: 300 },
    Pattern { of_1000: 500, run: 5000 },
];

fn flags(rng: &mut Rng, pattern: Pattern, n: usize) -> Vec<u8> {
    let mut flags = Vec::with_capacity(n);
    while flags.len() < n {
        let is_selected = rng.below(1000) < pattern.of_1000;
        for _ in 0..pattern.run.min(n - flags.len()) {
            flags.push(if is_selected { 1 + rng.below(255) as u8 } else { 0 });
        }
    }
    flags
}

/// The bits of flags; bits past the last are random.
fn words_32(rng: &mut Rng, flags: &[u8]) -> Vec<u32> {
    let word = |rng: &mut Rng, chunk: &[u8]| {
        let noise = (rng.next() as u32).checked_shl(chunk.len() as u32).unwrap_or(0);
        chunk.iter().enumerate().fold(noise, |word, (i, &flag)| word | u32::from(flag != 0) << i)
    };
    flags.chunks(32).map(|chunk| word(rng, chunk)).collect()
}
fn words_64(rng: &mut Rng, flags: &[u8]) -> Vec<u64> {
    let words = words_32(rng, flags);
    words.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair.get(1).copied().unwrap_or(7)) << 32).collect()
}

fn selected<V: Copy>(items: &[V], flags: &[u8]) -> Vec<V> {
    items.iter().zip(flags).filter(|(_, flag)| **flag != 0).map(|(&item, _)| item).collect()
}
fn inverted(flags: &[u8]) -> Vec<u8> {
    flags.iter().map(|&flag| u8::from(flag == 0)).collect()
}
