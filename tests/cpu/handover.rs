//! The hand-over with a state that is not one carry: a stable counting pass with 256 counters.

use super::{pool, watched};
use crate::common::Rng;
use parascan::cpu::hand_over;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Counters = [u32; 256];

fn counters_of(keys: &[u64]) -> Counters {
    let mut counters = [0; 256];
    for key in keys {
        counters[(key & 0xff) as usize] += 1;
    }
    counters
}

/// Sorts by the lowest byte. Keeps equal bytes in order.
fn counting_pass(keys: &[u64], tile: usize) -> Vec<u64> {
    let tiles: Vec<&[u64]> = keys.chunks(tile).collect();
    let mut starts = counters_of(keys);
    let mut sum = 0;
    for start in &mut starts {
        (*start, sum) = (sum, sum + *start);
    }
    let sorted: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(u64::MAX)).collect();
    let ends = hand_over(
        tiles.len(),
        Some(starts),
        |tile| (counters_of(tiles[tile]), tile),
        |earlier, later| std::array::from_fn(|digit| earlier[digit] + later[digit]),
        |tile, prefix, kept| {
            assert_eq!(tile, kept);
            let mut next = *prefix.expect("there is a first state");
            for &key in tiles[tile] {
                let index = &mut next[(key & 0xff) as usize];
                sorted[*index as usize].store(key, Relaxed);
                *index += 1;
            }
        },
    );
    assert_eq!(ends.unwrap()[255] as usize, keys.len());
    sorted.into_iter().map(AtomicU64::into_inner).collect()
}

#[test]
fn a_stable_counting_pass() {
    let mut rng = Rng::new();
    for threads in [1, 2, 3, 8] {
        let pool = pool(threads);
        for tile in [1, 7, 100, 4096] {
            let n = 1 + rng.below(if tile == 1 { 500 } else { 20_000 });
            // A skewed byte to sort by, and above it the position, which shows whether equal bytes
            // kept order.
            let keys: Vec<u64> = (0..n as u64).map(|i| i << 8 | (rng.next() & rng.next() & 0xff)).collect();
            let mut expected = keys.clone();
            expected.sort_by_key(|key| key & 0xff);
            let sorted = watched("counting pass", || pool.install(|| counting_pass(&keys, tile)));
            assert!(sorted == expected, "{n} keys, tiles of {tile}, {threads} threads");
        }
    }
}

#[test]
fn without_tiles_the_total_is_the_initial_value() {
    let none = |_: usize| -> (u32, ()) { unreachable!() };
    let total = |first| hand_over(0, first, none, |a, b| a + b, |_, _, ()| unreachable!());
    assert_eq!((total(None), total(Some(3))), (None, Some(3)));
}

/// One slow tile: meanwhile the others are aggregated and parked, and all threads finish them when its prefix arrives.
#[test]
fn a_late_tile_does_not_stop_the_others() {
    let (finished, aggregated) = (std::sync::Mutex::new(vec![]), AtomicU64::new(0));
    let total = watched("late tile", || {
        pool(3).install(|| {
            hand_over(
                50,
                None,
                |tile| {
                    aggregated.fetch_add(1, Relaxed);
                    // `watched` ends the test if the other tiles wait for this one.
                    while tile == 1 && aggregated.load(Relaxed) < 50 {
                        std::thread::yield_now();
                    }
                    (only(tile), ())
                },
                |a, b| a | b,
                |tile, prefix, ()| {
                    assert_eq!(prefix.copied().unwrap_or(0), only(tile) - 1);
                    finished.lock().unwrap().push(tile);
                },
            )
        })
    });
    let mut finished = finished.into_inner().unwrap();
    finished.sort_unstable();
    assert_eq!((total, finished), (Some((1 << 50) - 1), (0..50).collect()));
}

/// A set with one member.
fn only(tile: usize) -> u64 {
    1 << tile
}
