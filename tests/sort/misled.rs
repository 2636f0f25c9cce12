//! Keys that mislead the samples from which a sort on the device makes its map. Each sample reads the
//! keys at positions that depend on the length and on the process's seed alone, so an input that is made
//! in this process can show it another distribution than its own.

use super::device::{Device, agrees};
use super::*;
use parascan::cuda::sample_seed;

/// The positions that a sample of `sampled` keys of `n` reads: `sampled_at` in
/// `cuda-templates/sort/bucket_map.cuh`. The seed is that of the process, or zero where a test calls
/// the templates.
pub(super) fn positions(n: usize, sampled: usize, seed: u32) -> impl Iterator<Item = usize> {
    let stride = (n / sampled) as u64;
    (0..sampled as u32).map(move |i| {
        let mixed = (i ^ (i >> 7) ^ seed).wrapping_mul(0x9e37_79b1);
        (u64::from(i) * stride + ((u64::from(mixed ^ (mixed >> 15)) * stride) >> 32)) as usize
    })
}

/// The template has the function that [`positions`] copies.
#[test]
fn positions_of_the_template() {
    let template = include_str!("../../cuda-templates/sort/bucket_map.cuh");
    let function = "\
__device__ inline u64 sampled_at(u32 i, u32 stride, u32 seed) {
    u32 mixed = (i ^ i >> 7 ^ seed) * 0x9e3779b1u;
    return u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32);
}
";
    assert!(template.contains(function), "positions() must follow the template");
}

/// Sorts `others`, with keys by `seen` where the samples read.
fn misleads<K: Key>(make: impl Fn(u64) -> K) {
    let mut device = or_skip!(Device::new());
    let width = K::WIDTH as usize;
    let all = u64::MAX >> (64 - width);
    let any = device.rng.next() & all;
    let law = |x: u64| (x >> (64 - width)) >> (x as usize % width);
    let heavy = |x: u64| (x % 48 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width);
    type Draw<'a> = &'a dyn Fn(u64) -> u64;
    let kinds: [(&str, Draw, Draw); 8] = [
        ("random, others equal", &|x| x & all, &|_| any),
        ("equal, others random", &|_| any, &|x| x & all),
        ("a narrow range, others beyond it", &|x| all / 2 + x % (1 << 20), &|x| x & all),
        ("the ends, others between them", &|x| if x % 2 == 0 { 0 } else { all }, &|x| x & all),
        ("48 frequent keys, others beside these", &heavy, &|x| heavy(x).wrapping_add(x >> 60) & all),
        ("48 frequent keys, others one more", &heavy, &|_| any),
        ("a power law, others one from above", &law, &|x| all - law(x)),
        ("random, others in one bucket", &|x| x & all, &|x| any ^ (x & 0xff)),
    ];
    for most in [70_000, 1 << 18, 1 << 20, 1_300_000, 1 << 22, 5_000_000, 1 << 24] {
        let n = most - device.rng.below(20);
        // The probe, the intervals of short sorts by `FixedSample::of` in `src/cuda/sort/plan.rs`, the pilot
        // sample of long ones.
        let mut samples = vec![
            512,
            2 << 10,
            16 << 10,
            43 << 10,
            54 << 10,
            64 << 10,
            (n >> 7).next_power_of_two().clamp(1 << 14, 1 << 19),
        ];
        samples.retain(|&sampled| sampled <= n / 4);
        for (k, (what, seen, others)) in kinds.into_iter().enumerate() {
            let mut keys: Vec<K> = (0..n).map(|_| make(others(device.rng.next()))).collect();
            for at in samples.iter().flat_map(|&sampled| positions(n, sampled, sample_seed())) {
                keys[at] = make(seen(device.rng.next()));
            }
            agrees(&mut device, &keys, k % 2 == 1, what);
        }
    }
}

#[test]
fn words() {
    misleads::<u32>(|x| x as u32);
}
#[test]
fn long_words() {
    misleads::<i64>(|x| x as i64);
}
#[test]
fn floats() {
    misleads::<f32>(|x| f32::from_bits(x as u32));
}
