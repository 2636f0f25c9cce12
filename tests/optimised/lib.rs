//! The host's loops for the operators and elements whose tests have millions of items.
//!
//! Below opt-level 2 a crate does not compile the generic code again that a crate it depends on has
//! compiled for the same types. So the tests, which are compiled without optimisation, call these loops,
//! which are compiled with it. A call that is not named here is compiled in the tests, and is slow.

#[macro_use]
#[path = "../../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;

use bytemuck::Pod;
use common::keys::{How, Key, PATTERNS, keys};
use common::samples::{Digit, Digits};
use common::segments::{Lengths, Segments, reduce_oracle, runs_oracle, scan_oracle};
use common::{Draw, Options, Rng, Sample, assert_bytes, assert_same, data, noise, oracle};
use half::{bf16, f16};
use parascan::operators::{Compose, Flagged, Matrix, Moments, Segmented, Transitions};
use parascan::{Index, Last, Max, Operator, Sum, expand, reduce, scan, sort};

/// The calls on all items.
fn whole<Op: Operator<T>, T: Sample>() {
    let x: Vec<T> = data(&mut Rng::new(), Draw::Any, 0);
    let options = Options { exclusive: false, init: None, reverse: false };
    assert_same(&oracle::<Op, T>(&x, options), &noise::<T>(&mut Rng::new(), 0), &());
    assert_bytes(&x, &x, &());
    drop((scan::<Op, T>().run(&x), reduce::<Op, T>().run(&x)));
}

/// Keys and their order.
fn sorted<K: Key>() {
    let mut rng = Rng::new();
    let keys: Vec<K> = keys(&mut rng, PATTERNS[0], 0);
    drop(How::any(&mut rng, K::WIDTH).oracle(&keys));
}

/// Sorts of keys, and of pairs with a payload of each kind that the engine tells apart.
fn sorts<K: Key>() {
    drop(sort::<K>().run(&Vec::<K>::new()));
    pairs::<K, u32>();
    pairs::<K, u64>();
}
fn pairs<K: Key, V: Pod + Send + Sync>() {
    drop(sort::<K>().run_pairs::<V, _, _>(&Vec::<K>::new(), &Vec::<V>::new()));
}
fn payloads<K: Key>() {
    pairs::<K, u8>();
    pairs::<K, u16>();
    pairs::<K, [u8; 3]>();
    pairs::<K, [u8; 9]>();
}

/// The calls by segment and by column.
fn parts<Op: Operator<T>, T: Sample>() {
    let (x, rng) = (Vec::<T>::new(), &mut Rng::new());
    let segments = Segments::draw(rng, 0, Lengths::One, false);
    let options = Options { exclusive: false, init: None, reverse: false };
    drop((scan_oracle::<Op, T>(&x, &segments, options), reduce_oracle::<Op, T>(&x, &segments, None, T::zeroed())));
    drop((runs_oracle::<Op, T>(&x, &segments, None), segments.flags(rng)));
    drop((scan::<Op, T>().rows(1).run(&x), reduce::<Op, T>().rows(1).run(&x)));
    drop(reduce::<Op, T>().segments::<u32, _>(&[0]).run(&x));
    drop(reduce::<Op, T>().heads(&Vec::<u8>::new()).run(&x));
    drop((scan::<Op, T>().columns(1).run(&x), reduce::<Op, T>().columns(1).run(&x)));
    assert_same(&x, &noise::<T>(rng, 0), &());
}

/// What tells segments.
fn offsets<O: Index>() {
    let segments = Segments::draw(&mut Rng::new(), 0, Lengths::One, false);
    let (x, offsets) = (Vec::<u32>::new(), segments.offsets::<O>());
    drop((scan::<Last, u32>().segments(&offsets).run(&x), reduce::<Last, u32>().segments(&offsets).run(&x)));
    drop((expand::<O>().run::<u32, _>(&offsets), expand::<O>().run::<u64, _>(&offsets)));
}
fn keys_of_segments<K: Pod + Send + Sync>() {
    let segments = Segments::draw(&mut Rng::new(), 0, Lengths::One, false);
    let (x, keys) = (Vec::<u32>::new(), segments.keys::<K>(&mut Rng::new()));
    drop((scan::<Last, u32>().by_key(&keys).run(&x), reduce::<Last, u32>().by_key(&keys).run(&x)));
}

macro_rules! stamp {
    (elements { $( $key:ident $cuda_name:literal bits $bits:ident key $signed:ident; )* } operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => {
        /// Nobody calls it: what it names is compiled.
        pub fn optimised() {
            $( $( $( whole::<parascan::$op, $t>(); )* )* )*
            $( sorted::<$key>(); )*
            whole::<Compose, Transitions>();
            whole::<Compose, Matrix<u32>>();
            whole::<Compose, Matrix<u64>>();
            whole::<Digits, Digit>();
            whole::<Segmented<Sum>, Flagged<i32>>();
            whole::<Segmented<Max>, Flagged<f32>>();
            whole::<Segmented<Compose>, Flagged<Matrix<u32>>>();
            sorts::<u8>();
            sorts::<u16>();
            sorts::<u32>();
            sorts::<u64>();
            sorts::<f16>();
            sorts::<f32>();
            sorts::<f64>();
            payloads::<u8>();
            payloads::<f64>();
            pairs::<u16, u8>(); // these by segment
            pairs::<f16, [u8; 3]>();
            pairs::<f32, [u8; 9]>();
            parts::<Sum, u8>();
            parts::<Sum, u16>();
            parts::<Sum, u32>();
            parts::<Sum, i64>();
            parts::<Sum, f32>();
            parts::<Sum, f16>();
            parts::<Max, f32>();
            parts::<Max, i16>();
            parts::<Last, u64>();
            parts::<Last, Moments<f32>>();
            parts::<Compose, Transitions>();
            parts::<Compose, Matrix<u32>>();
            parts::<Compose, Matrix<u64>>();
            parts::<Digits, Digit>();
            offsets::<u32>();
            offsets::<u64>();
            keys_of_segments::<u8>();
            keys_of_segments::<i16>();
            keys_of_segments::<[u8; 3]>();
            keys_of_segments::<u32>();
            keys_of_segments::<u64>();
            keys_of_segments::<[u32; 3]>();
            keys_of_segments::<[u64; 2]>();
        }
    };
}
catalog!(stamp);
