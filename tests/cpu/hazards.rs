//! User operators that panic, enter rayon or start a pipeline of their own.

use super::{pool, watched};
use crate::common::Rng;
use parascan::{
    DeviceCode, Element, Operator, Sum,
    cpu::{Sink, Source, hand_over, pipeline},
};
use rayon::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

/// Some ten tiles of u32.
const N: usize = 10 * 32_896 + 321;

#[derive(Clone, Copy)]
struct Items<'a>(&'a [u32]);
impl Source<u32> for Items<'_> {
    type Item = u32;
    fn item(&self, i: usize) -> u32 {
        self.0[i]
    }
    fn carry(&self, item: &u32) -> u32 {
        *item
    }
}
#[derive(Clone, Copy)]
struct Store<'a>(&'a [AtomicU32]);
impl<I> Sink<I, u32> for Store<'_> {
    fn put(&self, i: usize, _: I, _: Option<u32>, inclusive: u32) {
        self.0[i].store(inclusive, Relaxed);
    }
}

/// The sums by `Op`, which adds.
fn sums<Op: Operator<u32, Carry = u32>>(items: &[u32]) -> Vec<u32> {
    let output: Vec<AtomicU32> = items.iter().map(|_| AtomicU32::new(0)).collect();
    pipeline::<Op, u32, _, _>(items.len(), None, Items(items), Store(&output));
    output.into_iter().map(AtomicU32::into_inner).collect()
}

fn serial(items: &[u32]) -> Vec<u32> {
    let sum = |sum: &mut u32, x: &u32| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    };
    items.iter().scan(0, sum).collect()
}

/// An addition with a side effect.
macro_rules! addition {
    ($name:ident, |$a:ident, $b:ident| $extra:expr) => {
        #[derive(Clone, Copy)]
        struct $name;
        impl Operator<u32> for $name {
            type Carry = u32;
            fn lift(x: u32) -> u32 {
                x
            }
            fn lower(x: u32) -> u32 {
                x
            }
            fn combine($a: u32, $b: u32) -> u32 {
                $extra;
                $a.wrapping_add($b)
            }
            // SAFETY: a sum of unsigned integers.
            const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("a + b") };
        }
    };
}

const MINE: u32 = 0xdead_beef;
addition!(Explosive, |_a, b| assert!(b != MINE, "stepped on a mine"));

#[test]
fn a_panic_reaches_the_caller() {
    let mut rng = Rng::new();
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        for round in 0..10 {
            // Aggregates are even, so only the item itself, which is odd, panics.
            let mut items: Vec<u32> = (0..N).map(|_| rng.next() as u32 & !1).collect();
            let mine = 1 + rng.below(N - 1);
            items[mine] = MINE;
            let outcome = watched("panic in combine", || {
                // On the pool's threads, and from another thread.
                if round % 2 == 0 {
                    catch_unwind(AssertUnwindSafe(|| pool.install(|| sums::<Explosive>(&items))))
                } else {
                    pool.join(|| catch_unwind(AssertUnwindSafe(|| sums::<Explosive>(&items))), || ()).0
                }
            });
            // A run's first item is combined when outputs are stored, but not while the run is
            // summed.
            let message = outcome.expect_err("the panic was swallowed");
            assert_eq!(message.downcast_ref(), Some(&"stepped on a mine"), "mine at {mine}, {threads} threads");
            items[mine] = 4;
            let found = watched("after a panic", || pool.install(|| sums::<Explosive>(&items)));
            assert!(found == serial(&items), "the pool is not what it was, {threads} threads");
        }
    }
}

/// Panics in each of the three closures of the hand-over.
#[test]
fn a_panic_of_any_closure_reaches_the_caller() {
    let mut rng = Rng::new();
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        for place in 0..3 {
            let bad = 1 + rng.below(98);
            let go = || {
                hand_over(
                    100,
                    Some(0),
                    |tile| (assert_else(place != 0 || tile != bad, tile), ()),
                    |a, b| assert_else(place != 1 || *b != bad, a + b),
                    |tile, prefix, ()| {
                        let sum = assert_else(place != 2 || tile != bad, tile * tile.saturating_sub(1) / 2);
                        assert_eq!(prefix, Some(&sum));
                    },
                )
            };
            let outcome = watched("panic in a closure", || pool.install(|| catch_unwind(AssertUnwindSafe(go))));
            let message = outcome.expect_err("the panic was swallowed");
            assert_eq!(message.downcast_ref(), Some(&"as asked"), "closure {place}, tile {bad}, {threads} threads");
        }
    }
}

fn assert_else(fine: bool, value: usize) -> usize {
    assert!(fine, "as asked");
    value
}

/// Sometimes runs two nested parallel loops.
fn nested(a: u32, b: u32) {
    if (a ^ b) & 0x3ff == 0 {
        let inner = |i: u32| (0..20u32).into_par_iter().map(|j| j ^ a).max().unwrap() ^ i;
        std::hint::black_box((0..20u32).into_par_iter().map(inner).reduce(|| 0, |x, y| x ^ y));
    }
}
addition!(EntersRayon, |a, b| nested(a, b));

#[test]
fn an_operator_that_enters_rayon() {
    let mut rng = Rng::new();
    let items: Vec<u32> = (0..N).map(|_| rng.next() as u32).collect();
    let expected = serial(&items);
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        let (a, b) = watched("operator enters rayon", || {
            pool.join(|| sums::<EntersRayon>(&items), || sums::<EntersRayon>(&items))
        });
        assert!(a == expected && b == expected, "{threads} threads");
    }
}

/// Sometimes runs a pipeline of several tiles.
fn pipeline_inside(a: u32, b: u32) {
    #[derive(Clone, Copy)]
    struct Counting;
    impl<C: Element + From<u8>> Source<C> for Counting {
        type Item = [u8; 1000];
        fn item(&self, _: usize) -> [u8; 1000] {
            [1; 1000]
        }
        fn carry(&self, item: &[u8; 1000]) -> C {
            item[999].into()
        }
    }
    if (a ^ b) & 0xffff == 0 {
        let output: Vec<AtomicU32> = (0..700).map(|_| AtomicU32::new(0)).collect();
        let total = pipeline::<EntersRayon, u32, _, _>(700, None, Counting, Store(&output));
        assert_eq!((total, output[699].load(Relaxed)), (Some(700), 700));
    }
}
addition!(StartsPipelines, |a, b| pipeline_inside(a, b));

#[test]
fn an_operator_that_starts_pipelines() {
    let mut rng = Rng::new();
    let items: Vec<u32> = (0..N).map(|_| rng.next() as u32).collect();
    let expected = serial(&items);
    for threads in [1, 2, 8] {
        let pool = pool(threads);
        let found = watched("operator starts pipelines", || pool.install(|| sums::<StartsPipelines>(&items)));
        assert!(found == expected, "{threads} threads");
    }
    assert!(sums::<Sum>(&items) == expected);
}
