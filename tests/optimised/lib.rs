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
use common::{Draw, Options, Rng, Sample, assert_bytes, assert_same, data, noise, oracle};
use half::{bf16, f16};
use parascan::operators::{Compose, Flagged, Matrix, Segmented, Transitions};
use parascan::{Max, Operator, Sum, reduce, scan, sort};

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

/// The pairs with machine code of their own: `Operator::on_host` takes the others to these.
macro_rules! whole_of {
    (Bits $op:ident u8) => {
        whole::<parascan::$op, u8>()
    };
    (Bits $op:ident u16) => {
        whole::<parascan::$op, u16>()
    };
    (Bits $op:ident u32) => {
        whole::<parascan::$op, u32>()
    };
    (Bits $op:ident u64) => {
        whole::<parascan::$op, u64>()
    };
    (Bits $op:ident $t:ident) => {};
    (Same $op:ident usize) => {};
    (Same $op:ident isize) => {};
    ($form:ident $op:ident $t:ident) => {
        whole::<parascan::$op, $t>()
    };
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
            $( $( $( whole_of!($form $op $t); )* )* )*
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
        }
    };
}
catalog!(stamp);
