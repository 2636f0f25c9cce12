//! Sorts of a number of keys that lies in memory: every option, payloads of other sizes, and capacities that take
//! each way of a sort.

use super::upto;
use crate::common::engines::{Buffers, OnDevice, OnHost};
use crate::common::keys::{How, Key, PATTERNS, Pattern, keys};
use crate::common::{Rng, assert_bytes, noise};
use bytemuck::Pod;
use half::f16;
use parascan::cudarc::driver::DeviceRepr;
use std::any::type_name;
use std::fmt::Debug;

/// Numbers of keys in a memory of `most`: at both ends, and around the lengths that take another way of a sort.
/// Of a long memory only some.
fn counts(rng: &mut Rng, most: usize) -> Vec<u64> {
    const BORDERS: [usize; 6] = [512, 4096, 5632, 1 << 18, 1 << 20, 1 << 22];
    let around = BORDERS.iter().flat_map(|border| [border - 1, *border, border + 1]).filter(|&count| count < most);
    let (around, some): (Vec<usize>, _) = (around.collect(), rng.below(most + 1));
    let mut counts = vec![0, 1, some, most + rng.below(2)];
    if most > 100_000 {
        counts.extend([0, 1].map(|_| around[rng.below(around.len())]));
    } else {
        counts.extend(around.into_iter().chain([most - 1, most + 1, usize::MAX]));
    }
    counts.into_iter().map(|count| count as u64).collect()
}

/// Sorts the first keys of `most`: keys-only, with a payload, and source indices, in place and not.
fn check<E: Buffers, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(
    engine: &E,
    rng: &mut Rng,
    how: &How,
    most: usize,
) {
    let pattern = PATTERNS[rng.below(PATTERNS.len())];
    let (x, payload): (Vec<K>, Vec<V>) = (keys(rng, pattern, most), noise(rng, most));
    let (old, old_payload): (Vec<K>, Vec<V>) = (keys(rng, Pattern::Random, most), noise(rng, most));
    let old_indices: Vec<u32> = noise(rng, most);
    let (from, beside) = (engine.put(&x), engine.put(&payload));
    let (view, beside_view) = (engine.view(&from, 0..most), engine.view(&beside, 0..most));
    let sort = how.builder::<K>();
    for count in counts(rng, most) {
        let n = upto(count, most);
        let what = (type_name::<(K, V)>(), how, pattern, count, most);
        let order = how.oracle(&x[..n]);
        let sorted: Vec<K> = order.iter().map(|&i| x[i as usize]).collect();
        let moved: Vec<V> = order.iter().map(|&i| payload[i as usize]).collect();
        let length = engine.put(&[count]);
        let length = engine.view(&length, 0..1);

        let (mut into, mut in_place) = (engine.put(&old), engine.put(&x));
        sort.len(&length).run_into(&view, &mut engine.view_mut(&mut into, 0..most)).unwrap();
        sort.len(&length).run_in_place(&mut engine.view_mut(&mut in_place, 0..most)).unwrap();
        assert_bytes(&engine.get(&into), &[&sorted[..], &old[n..]].concat(), &what);
        assert_bytes(&engine.get(&in_place), &[&sorted[..], &x[n..]].concat(), &("in place", what));

        let (mut into, mut beside_into) = (engine.put(&old), engine.put(&old_payload));
        let (mut to, mut beside_to) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut beside_into, 0..most));
        sort.len(&length).run_pairs_into::<V, _, _, _, _>(&view, &beside_view, &mut to, &mut beside_to).unwrap();
        drop((to, beside_to));
        assert_bytes(&engine.get(&into), &[&sorted[..], &old[n..]].concat(), &("with a payload", what));
        let expected = [&moved[..], &old_payload[n..]].concat();
        assert_bytes(&engine.get(&beside_into), &expected, &("the payload", what));

        let (mut both, mut beside_both) = (engine.put(&x), engine.put(&payload));
        let (mut to, mut beside_to) = (engine.view_mut(&mut both, 0..most), engine.view_mut(&mut beside_both, 0..most));
        sort.len(&length).run_pairs_in_place::<V, _, _>(&mut to, &mut beside_to).unwrap();
        drop((to, beside_to));
        assert_bytes(&engine.get(&both), &[&sorted[..], &x[n..]].concat(), &("with a payload in place", what));
        let expected = [&moved[..], &payload[n..]].concat();
        assert_bytes(&engine.get(&beside_both), &expected, &("the payload in place", what));

        let mut indices = engine.put(&old_indices);
        sort.len(&length).indices_into::<u32, _, _>(&view, &mut engine.view_mut(&mut indices, 0..most)).unwrap();
        assert_bytes(&engine.get(&indices), &[&order[..], &old_indices[n..]].concat(), &("indices", what));
    }
}

/// By all bits and, of at most 2^22 keys, by some; in either direction.
fn suite<E: Buffers, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync>(engine: &E, memories: &[usize]) {
    let mut rng = Rng::new();
    for &most in memories {
        let descending = rng.below(2) == 0;
        check::<E, K, V>(engine, &mut rng, &How { descending, bits: None }, most);
        if most <= 1 << 22 {
            let bits = Some(3..K::WIDTH - 3);
            check::<E, K, V>(engine, &mut rng, &How { descending: !descending, bits }, most);
        }
    }
}

#[test]
fn on_the_host() {
    const MEMORIES: [usize; 4] = [1, 33, 4096, 20_000];
    suite::<_, u32, u128>(&OnHost, &MEMORIES);
    suite::<_, i64, u64>(&OnHost, &MEMORIES);
    suite::<_, f16, u8>(&OnHost, &MEMORIES);
}

/// The last lengths of one block and of either kind of fixed-capacity buckets, a single step, and counted buckets.
const MEMORIES: [usize; 6] = [4096, 5632, 1 << 20, 1 << 22, 5 << 20, 3 << 22];

#[test]
fn of_words() {
    let engine = or_skip!(OnDevice::new());
    suite::<_, u32, u128>(&engine, &MEMORIES);
}
#[test]
fn of_long_words() {
    let engine = or_skip!(OnDevice::new());
    suite::<_, i64, u64>(&engine, &MEMORIES[..4]);
}
/// Halves are counted from 2^20 keys on, and take passes before.
#[test]
fn of_halves() {
    let engine = or_skip!(OnDevice::new());
    suite::<_, f16, u8>(&engine, &[8192, (1 << 20) - 1, 1 << 20, 3 << 20]);
}
