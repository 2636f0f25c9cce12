//! The suite of sort, stamped over keys and both engines. The oracle is the standard library's
//! stable sort.

use crate::common::keys::{How, Key, PATTERNS, Pattern, keys};
use crate::common::{Rng, assert_bytes, much_memory, noise, stream};
use bytemuck::Pod;
use half::{bf16, f16};
use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use parascan::{Error, Workspace, sort};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

mod buckets;
mod device;
mod distinct;
mod guards;
mod host;
mod long;
mod misled;
mod overflow;
mod ranks;
mod ways;

/// Two arrays of keys, the first with few values, and the lexicographic order.
fn pairs_of_keys(rng: &mut Rng, n: usize, descending: bool) -> (Vec<u32>, Vec<f32>, Vec<u32>) {
    let few: Vec<u32> = keys(rng, Pattern::Random, 1 + n / 50);
    let rows: Vec<u32> = (0..n).map(|_| few[rng.below(few.len())]).collect();
    let columns: Vec<f32> = keys(rng, Pattern::Special, n);
    let mut order: Vec<u32> = (0..n as u32).collect();
    let compare = |a: u32, b: u32| {
        let [a, b] = [a, b].map(|i| i as usize);
        rows[a].cmp(&rows[b]).then(columns[a].order(columns[b]))
    };
    order.sort_by(|&a, &b| if descending { compare(b, a) } else { compare(a, b) });
    (rows, columns, order)
}

/// The items in the order `order`.
fn gathered<V: Copy>(items: &[V], order: &[u32]) -> Vec<V> {
    order.iter().map(|&i| items[i as usize]).collect()
}

/// The oracle's radix keys have the order of its keys.
#[test]
fn radix_keys_are_in_order() {
    fn check<K: Key>() {
        let mut rng = Rng::new();
        for pattern in [Pattern::Random, Pattern::Special, Pattern::PowerLaw] {
            let keys = keys::<K>(&mut rng, pattern, 2000);
            for pair in keys.windows(2) {
                assert_eq!(pair[0].order(pair[1]), pair[0].radix().cmp(&pair[1].radix()), "{pair:?}");
            }
        }
    }
    check::<u8>();
    check::<i16>();
    check::<f16>();
    check::<bf16>();
    check::<f32>();
    check::<f64>();
    check::<i64>();
}

macro_rules! over_keys {
    ($check:ident) => {
        #[test]
        fn of_u8() {
            $check::<u8>();
        }
        #[test]
        fn of_u16() {
            $check::<u16>();
        }
        #[test]
        fn of_u32() {
            $check::<u32>();
        }
        #[test]
        fn of_u64() {
            $check::<u64>();
        }
        #[test]
        fn of_usize() {
            $check::<usize>();
        }
        #[test]
        fn of_i8() {
            $check::<i8>();
        }
        #[test]
        fn of_i16() {
            $check::<i16>();
        }
        #[test]
        fn of_i32() {
            $check::<i32>();
        }
        #[test]
        fn of_i64() {
            $check::<i64>();
        }
        #[test]
        fn of_isize() {
            $check::<isize>();
        }
        #[test]
        fn of_f16() {
            $check::<f16>();
        }
        #[test]
        fn of_bf16() {
            $check::<bf16>();
        }
        #[test]
        fn of_f32() {
            $check::<f32>();
        }
        #[test]
        fn of_f64() {
            $check::<f64>();
        }
    };
}
use over_keys;
