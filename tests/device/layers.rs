//! The core's two layers under primitives of the test's own: compaction, offsets and a counting
//! pass by digit.

use crate::common::{Rng, address, any, context, p};
use parascan::cuda::Kernels;
use parascan::cudarc::driver::{CudaSlice, CudaStream};
use std::sync::Arc;

const SOURCE: &str = include_str!("layers.cu");
const COMPACT: usize = 0;
const OFFSETS: usize = 1;
const DIGITS_BEFORE: usize = 2;

fn kernels(stream: &CudaStream) -> Kernels {
    Kernels::compile(stream.context(), "layers", SOURCE, &["compact", "offsets", "digits_before"]).unwrap()
}

/// Zeroed memory for a hand-over of `tiles` tiles, more than enough: the layers do not report how
/// much they use.
fn memory(stream: &Arc<CudaStream>, tiles: usize, columns: usize) -> CudaSlice<u8> {
    stream.alloc_zeros(64 + 32 * tiles * columns).unwrap()
}

/// Whether the hand-over left its memory zero.
fn is_clean(memory: &CudaSlice<u8>, stream: &Arc<CudaStream>) -> bool {
    stream.clone_dtoh(memory).unwrap().iter().all(|&byte| byte == 0)
}

#[test]
fn the_pipeline_compacts() {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let (kernels, mut rng) = (kernels(&stream), Rng::new());
    const TILE: usize = 4 * 32 * 5 * 4;
    for n in [1, 31, TILE - 1, TILE, TILE + 1, 40 * TILE + 3, 1 + rng.below(3_000_000)] {
        let x = any::<u32>(&mut rng, n);
        let expected: Vec<u32> = x.iter().copied().filter(|x| x % 2 == 1).collect();
        let tiles = n.div_ceil(TILE) as u32;
        let (input, memory) = (stream.clone_htod(&x).unwrap(), memory(&stream, tiles as usize, 1));
        for run in 0..3 {
            let output = stream.clone_htod(&vec![u32::MAX; n + 1]).unwrap();
            let count = stream.alloc_zeros::<u32>(1).unwrap();
            let (a, b, c, d, length) = (
                address(&input, &stream),
                address(&output, &stream),
                address(&count, &stream),
                address(&memory, &stream),
                n as u64,
            );
            let blocks = tiles + u32::from(tiles > 1);
            // SAFETY: the arguments are the kernel's, in order; the buffers outlive it.
            unsafe {
                kernels.launch(
                    COMPACT,
                    blocks,
                    128,
                    stream.cu_stream(),
                    &[p(&a), p(&length), p(&b), p(&c), p(&d), p(&tiles)],
                )
            }
            .unwrap();
            assert_eq!(stream.clone_dtoh(&count).unwrap(), [expected.len() as u32], "{n} items, run {run}");
            let got = stream.clone_dtoh(&output).unwrap();
            assert!(got[..expected.len()] == expected, "{n} items, run {run}");
            assert!(got[expected.len()..].iter().all(|&x| x == u32::MAX), "past the count, {n} items");
            assert!(is_clean(&memory, &stream), "{n} items, run {run}");
        }
    }
}

#[test]
fn the_pipeline_makes_offsets() {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let (kernels, mut rng) = (kernels(&stream), Rng::new());
    const TILE: usize = 4 * 32 * 5 * 2;
    for n in [1, TILE - 1, TILE + 1, 70 * TILE + 3, 1 + rng.below(1_000_000)] {
        let sizes = any::<u8>(&mut rng, n);
        let mut expected = vec![0_u64];
        for &size in &sizes {
            expected.push(expected[expected.len() - 1] + u64::from(size).next_multiple_of(16));
        }
        let tiles = n.div_ceil(TILE) as u32;
        let (input, memory) = (stream.clone_htod(&sizes).unwrap(), memory(&stream, tiles as usize, 1));
        for run in 0..3 {
            let output = stream.alloc_zeros::<u64>(n + 1).unwrap();
            let (a, b, c, length) =
                (address(&input, &stream), address(&output, &stream), address(&memory, &stream), n as u64);
            // SAFETY: the arguments are the kernel's, in order; the buffers outlive it.
            unsafe {
                kernels.launch(OFFSETS, tiles, 128, stream.cu_stream(), &[p(&a), p(&length), p(&b), p(&c), p(&tiles)])
            }
            .unwrap();
            assert!(stream.clone_dtoh(&output).unwrap() == expected, "{n} sizes, run {run}");
            assert!(is_clean(&memory, &stream), "{n} sizes, run {run}");
        }
    }
}

#[test]
fn the_hand_over_carries_256_counters() {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let (kernels, mut rng) = (kernels(&stream), Rng::new());
    const TILE: usize = 4096;
    for n in [1, TILE, TILE + 1, 100 * TILE + 5, 1 + rng.below(8_000_000)] {
        let x = any::<u8>(&mut rng, n);
        let mut count = [0_u32; 256];
        let mut expected = Vec::new();
        for tile in x.chunks(TILE) {
            expected.extend_from_slice(&count);
            tile.iter().for_each(|&digit| count[digit as usize] += 1);
        }
        let tiles = n.div_ceil(TILE) as u32;
        let (input, memory) = (stream.clone_htod(&x).unwrap(), memory(&stream, tiles as usize, 256));
        for run in 0..3 {
            let before = stream.alloc_zeros::<u32>(expected.len()).unwrap();
            let (a, b, c, length) =
                (address(&input, &stream), address(&before, &stream), address(&memory, &stream), n as u64);
            // SAFETY: the arguments are the kernel's, in order; the buffers outlive it.
            unsafe {
                kernels.launch(
                    DIGITS_BEFORE,
                    tiles,
                    256,
                    stream.cu_stream(),
                    &[p(&a), p(&length), p(&b), p(&c), p(&tiles)],
                )
            }
            .unwrap();
            assert!(stream.clone_dtoh(&before).unwrap() == expected, "{n} digits, run {run}");
            assert!(is_clean(&memory, &stream), "{n} digits, run {run}");
        }
    }
}
