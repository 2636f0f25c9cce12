//! The pipeline with other sources and sinks than a scan's, and its promise of the same bits.

use super::{pool, watched};
use crate::common::Rng;
use parascan::{
    Operator, Sum,
    cpu::{Sink, Source, pipeline},
};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Several tiles of u32, and a part of one.
const SEVERAL_TILES: usize = 5 * 32_896 + 1234;

/// Counts the items for which `keep` is true.
#[derive(Clone, Copy)]
struct Kept<'a> {
    items: &'a [u32],
    keep: fn(u32) -> bool,
}
impl Source<u64> for Kept<'_> {
    type Item = u32;
    fn item(&self, i: usize) -> u32 {
        self.items[i]
    }
    fn carry(&self, item: &u32) -> u64 {
        (self.keep)(*item).into()
    }
}

#[derive(Clone, Copy)]
struct Scatter<'a>(&'a [AtomicU32]);
impl Sink<u32, u64> for Scatter<'_> {
    fn put(&self, _: usize, item: u32, exclusive: Option<u64>, inclusive: u64) {
        let place = exclusive.unwrap_or(0);
        if inclusive > place {
            assert_eq!(self.0[place as usize].swap(item, Relaxed), u32::MAX, "place {place} was written twice");
        }
    }
}

#[test]
fn compaction() {
    let mut rng = Rng::new();
    let keep = |item: u32| !item.is_multiple_of(3);
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        for n in [0, 1, 1000, SEVERAL_TILES, SEVERAL_TILES + rng.below(100_000)] {
            let items: Vec<u32> = (0..n).map(|_| rng.next() as u32 >> 1).collect();
            let expected: Vec<u32> = items.iter().copied().filter(|&item| keep(item)).collect();
            let output: Vec<AtomicU32> = expected.iter().map(|_| AtomicU32::new(u32::MAX)).collect();
            let count = watched("compaction", || {
                let source = Kept { items: &items, keep };
                pool.install(|| pipeline::<Sum, u64, _, _>(n, Some(0), source, Scatter(&output)))
            });
            assert_eq!(count, Some(expected.len() as u64));
            let output: Vec<u32> = output.into_iter().map(AtomicU32::into_inner).collect();
            assert!(output == expected, "{n} items, {threads} threads");
        }
    }
}

/// Sizes in units of 16 bytes, as u8, to u64 offsets rounded to the alignment.
#[derive(Clone, Copy)]
struct Rounded<'a> {
    sizes: &'a [u8],
    alignment: u64,
}
impl Source<u64> for Rounded<'_> {
    type Item = u8;
    fn item(&self, i: usize) -> u8 {
        self.sizes[i]
    }
    fn carry(&self, item: &u8) -> u64 {
        (16 * u64::from(*item)).next_multiple_of(self.alignment)
    }
}

/// Item `i` stores its begin, the last item also its end.
#[derive(Clone, Copy)]
struct Offsets<'a>(&'a [AtomicU64]);
impl Sink<u8, u64> for Offsets<'_> {
    fn put(&self, i: usize, _: u8, exclusive: Option<u64>, inclusive: u64) {
        if let Some(start) = exclusive {
            self.0[i].store(start, Relaxed);
        }
        if i == self.0.len() - 2 {
            self.0[i + 1].store(inclusive, Relaxed);
        }
    }
}

#[test]
fn offsets_one_more_than_sizes() {
    let mut rng = Rng::new();
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        for n in [1, 300, 2 * 131_584 + 1, 600_000 + rng.below(100_000)] {
            let sizes: Vec<u8> = (0..n).map(|_| rng.next() as u8).collect();
            let offsets: Vec<AtomicU64> = (0..=n).map(|_| AtomicU64::new(u64::MAX)).collect();
            let base = rng.next() >> 20;
            let source = Rounded { sizes: &sizes, alignment: 64 };
            let total = watched("offsets", || {
                pool.install(|| pipeline::<Sum, u64, _, _>(n, Some(base), source, Offsets(&offsets)))
            });
            let mut expected = base;
            for i in 0..n {
                assert_eq!(offsets[i].load(Relaxed), expected, "offset {i} of {n}, {threads} threads");
                expected += source.carry(&sizes[i]);
            }
            assert_eq!((offsets[n].load(Relaxed), total), (expected, Some(expected)));
        }
    }
}

#[derive(Clone, Copy)]
struct Items<'a>(&'a [f32]);
impl Source<f32> for Items<'_> {
    type Item = f32;
    fn item(&self, i: usize) -> f32 {
        self.0[i]
    }
    fn carry(&self, item: &f32) -> f32 {
        *item
    }
}
#[derive(Clone, Copy)]
struct Bits<'a>(&'a [AtomicU32]);
impl Sink<f32, f32> for Bits<'_> {
    fn put(&self, i: usize, _: f32, _: Option<f32>, inclusive: f32) {
        self.0[i].store(inclusive.to_bits(), Relaxed);
    }
}

/// The bits of the prefixes of f32 sums, and of the total.
fn sums(items: &[f32], init: Option<f32>) -> Vec<u32> {
    let prefixes: Vec<AtomicU32> = items.iter().map(|_| AtomicU32::new(0)).collect();
    let total = pipeline::<Sum, f32, _, _>(items.len(), init, Items(items), Bits(&prefixes));
    prefixes.into_iter().map(AtomicU32::into_inner).chain(total.map(f32::to_bits)).collect()
}

#[test]
fn the_same_bits_with_any_number_of_threads() {
    let mut rng = Rng::new();
    for n in [100, 32_896, 65_537, SEVERAL_TILES, 400_000 + rng.below(100_000)] {
        // Many orders of magnitude and both signs: any other grouping rounds differently somewhere.
        let items: Vec<f32> = (0..n).map(|_| (rng.next() as i32 as f32) * 2f32.powi(rng.below(24) as i32)).collect();
        let init = (rng.below(2) == 1).then_some(0.7);
        let expected = pool(1).install(|| sums(&items, init));
        let serial = items.iter().scan(init.unwrap_or(0.0), |sum, x| {
            *sum += x;
            Some(sum.to_bits())
        });
        assert!(n < 1000 || !serial.eq(expected[..n].iter().copied()), "these sums would not show a grouping");
        assert_eq!(expected[n], expected[n - 1], "the total is the last prefix");
        for threads in [2, 3, 8] {
            let pool = pool(threads);
            for _ in 0..5 {
                let found = watched("same bits", || pool.install(|| sums(&items, init)));
                let differing = found.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differing, None, "{n} items, {threads} threads");
            }
        }
    }
}

#[test]
fn many_pools_at_once() {
    let mut rng = Rng::new();
    let items: Vec<f32> = (0..SEVERAL_TILES).map(|_| rng.next() as i32 as f32).collect();
    let expected = sums(&items, None);
    watched("many pools", || {
        std::thread::scope(|scope| {
            for threads in [1, 2, 2, 3, 8, 8] {
                let (items, expected) = (&items, &expected);
                scope.spawn(move || {
                    let pool = pool(threads);
                    // In the pool, and several at once in the same pool.
                    let (a, b) = pool.join(|| sums(items, None), || sums(items, None));
                    assert!(a == *expected && b == *expected, "{threads} threads");
                });
            }
        });
    });
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, cases: 64, ..Default::default() })]

    /// Concatenation of a text, which is not commutative.
    #[test]
    fn order_is_kept(items in proptest::collection::vec(0u32.., 1..3000), last in 0u32..) {
        #[derive(Clone, Copy)]
        struct Last<'a>(&'a [AtomicU32]);
        impl Sink<u32, u32> for Last<'_> {
            fn put(&self, i: usize, item: u32, exclusive: Option<u32>, inclusive: u32) {
                assert_eq!(inclusive, item);
                self.0[i].store(exclusive.unwrap(), Relaxed);
            }
        }
        #[derive(Clone, Copy)]
        struct All<'a>(&'a [u32]);
        impl Source<u32> for All<'_> {
            type Item = u32;
            fn item(&self, i: usize) -> u32 { self.0[i] }
            fn carry(&self, item: &u32) -> u32 { <parascan::Last as Operator<u32>>::lift(*item) }
        }
        let before: Vec<AtomicU32> = items.iter().map(|_| AtomicU32::new(0)).collect();
        let total = pipeline::<parascan::Last, u32, _, _>(items.len(), Some(last), All(&items), Last(&before));
        let expected = std::iter::once(last).chain(items.iter().copied());
        proptest::prop_assert!(before.iter().map(|x| x.load(Relaxed)).chain(total).eq(expected));
    }
}
