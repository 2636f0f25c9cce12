//! Compactions, partitions and unique of a number of items that lies in memory: by flags and bits, with a payload and
//! indices, in place, of items of any size.

use super::{counts, upto};
use crate::common::engines::{Buffers, OnDevice, OnHost};
use crate::common::{Rng, assert_bytes, noise};
use bytemuck::Pod;
use parascan::cudarc::driver::DeviceRepr;
use parascan::{Ordered, compact, partition, unique};
use std::any::type_name;
use std::fmt::Debug;

/// The contents of the count before a call.
const OLD_COUNT: [u64; 2] = [5, 6];

/// The items at these places.
fn taken<V: Copy>(items: &[V], places: &[usize]) -> Vec<V> {
    places.iter().map(|&i| items[i]).collect()
}

/// `results`, and what lay behind them before.
fn over<V: Copy>(results: &[V], old: &[V]) -> Vec<V> {
    [results, &old[results.len()..]].concat()
}

/// Items, the bits and flags that select some of them, and what lay in the outputs before.
struct Input<T> {
    x: Vec<T>,
    old: Vec<T>,
    words: Vec<u32>,
    flags: Vec<u8>,
}

impl<T: Pod> Input<T> {
    fn new(rng: &mut Rng, most: usize) -> Input<T> {
        let words: Vec<u32> = noise(rng, most.div_ceil(32));
        let flags = (0..most).map(|i| if words[i / 32] >> (i % 32) & 1 == 0 { 0 } else { 1 << rng.below(8) }).collect();
        Input { x: noise(rng, most), old: noise(rng, most), words, flags }
    }

    /// The places of the selected items among the first `n`, and of the others.
    fn places(&self, n: usize) -> (Vec<usize>, Vec<usize>) {
        (0..n).partition(|&i| self.flags[i] != 0)
    }
}

/// Compactions by bits: into other memory, with a payload, with indices, in place.
fn check_compact<E: Buffers, T: Pod + DeviceRepr + Debug + Send + Sync>(
    engine: &E,
    rng: &mut Rng,
    most: usize,
    counts: &[u64],
) {
    let input = Input::<T>::new(rng, most);
    let Input { x, old, .. } = &input;
    let (payload, old_payload): (Vec<u16>, Vec<u16>) = (noise(rng, most), noise(rng, most));
    let old_indices: Vec<u32> = noise(rng, most);
    let (from, beside, words) = (engine.put(x), engine.put(&payload), engine.put(&input.words));
    let (from, beside) = (engine.view(&from, 0..most), engine.view(&beside, 0..most));
    let words = engine.view(&words, 0..input.words.len());
    for &count in counts {
        let n = upto(count, most);
        let (selected, _) = input.places(n);
        let what = (type_name::<T>(), count, most);
        let kept = taken(x, &selected);
        let length = engine.put(&[count]);
        let length = engine.view(&length, 0..1);
        let by_bits = compact::<T>().bits::<u32, _>(&words);
        let mut found = engine.put(&OLD_COUNT);
        let expected = [selected.len() as u64, OLD_COUNT[1]];

        let mut into = engine.put(old);
        let (mut to, mut number) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut found, 0..2));
        by_bits.len(&length).run_into(&from, &mut to, &mut number).unwrap();
        drop((to, number));
        assert_eq!(engine.get(&found), expected, "{what:?}");
        assert_bytes(&engine.get(&into), &over(&kept, old), &what);

        let (mut into, mut beside_into) = (engine.put(old), engine.put(&old_payload));
        let (mut to, mut number) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut found, 0..2));
        let mut beside_to = engine.view_mut(&mut beside_into, 0..most);
        by_bits.len(&length).run_pairs_into(&from, &beside, &mut to, &mut beside_to, &mut number).unwrap();
        drop((to, beside_to, number));
        assert_eq!(engine.get(&found), expected, "with a payload, {what:?}");
        assert_bytes(&engine.get(&into), &over(&kept, old), &("with a payload", what));
        let moved = over(&taken(&payload, &selected), &old_payload);
        assert_bytes(&engine.get(&beside_into), &moved, &("the payload", what));

        let (mut into, mut indices) = (engine.put(old), engine.put(&old_indices));
        let (mut to, mut number) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut found, 0..2));
        let mut indices_to = engine.view_mut(&mut indices, 0..most);
        by_bits.len(&length).run_with_indices_into(&from, &mut to, &mut indices_to, &mut number).unwrap();
        drop((to, indices_to, number));
        assert_eq!(engine.get(&found), expected, "with indices, {what:?}");
        assert_bytes(&engine.get(&into), &over(&kept, old), &("with indices", what));
        let places: Vec<u32> = selected.iter().map(|&i| i as u32).collect();
        assert_bytes(&engine.get(&indices), &over(&places, &old_indices), &("the indices", what));

        let mut data = engine.put(x);
        let (mut to, mut number) = (engine.view_mut(&mut data, 0..most), engine.view_mut(&mut found, 0..2));
        by_bits.len(&length).run_in_place(&mut to, &mut number).unwrap();
        drop((to, number));
        assert_eq!(engine.get(&found), expected, "in place, {what:?}");
        let got = engine.get(&data);
        assert_bytes(&got[..kept.len()], &kept, &("in place", what));
        assert_bytes(&got[n..], &x[n..], &("behind the count", what));
    }
}

/// Partitions into one buffer and into two, by flags and by bits.
fn check_partition<E: Buffers, T: Pod + DeviceRepr + Debug + Send + Sync>(
    engine: &E,
    rng: &mut Rng,
    most: usize,
    counts: &[u64],
) {
    let input = Input::<T>::new(rng, most);
    let Input { x, old, .. } = &input;
    let (from, words, flags) = (engine.put(x), engine.put(&input.words), engine.put(&input.flags));
    let (from, flags) = (engine.view(&from, 0..most), engine.view(&flags, 0..most));
    let words = engine.view(&words, 0..input.words.len());
    for &count in counts {
        let (selected, rejected) = input.places(upto(count, most));
        let [first, second] = [&selected, &rejected].map(|places| taken(x, places));
        let both = over(&[&first[..], &second].concat(), old);
        let length = engine.put(&[count]);
        let length = engine.view(&length, 0..1);
        macro_rules! check {
            ($what:literal, $partition:expr) => {{
                let what = (type_name::<T>(), $what, count, most);
                let partition = $partition;
                let mut found = [0, 1].map(|_| engine.put(&OLD_COUNT));
                let mut outputs = [0, 1, 2].map(|_| engine.put(old));
                let [one, other, third] = &mut outputs;
                let [one_found, other_found] = &mut found;
                let (mut to, mut number) = (engine.view_mut(one, 0..most), engine.view_mut(one_found, 0..2));
                partition.len(&length).run_into(&from, &mut to, &mut number).unwrap();
                drop((to, number));
                let (mut to, mut rest) = (engine.view_mut(other, 0..most), engine.view_mut(third, 0..most));
                let mut number = engine.view_mut(other_found, 0..2);
                partition.len(&length).run_apart_into(&from, &mut to, &mut rest, &mut number).unwrap();
                drop((to, rest, number));
                for found in &found {
                    assert_eq!(engine.get(found), [selected.len() as u64, OLD_COUNT[1]], "{what:?}");
                }
                let got = [0, 1, 2].map(|k| engine.get(&outputs[k]));
                assert_bytes(&got[0], &both, &what);
                assert_bytes(&got[1], &over(&first, old), &("selected", what));
                assert_bytes(&got[2], &over(&second, old), &("rejected", what));
            }};
        }
        check!("by bits", partition::<T>().bits::<u32, _>(&words));
        check!("by flags", partition::<T>().flags(&flags));
    }
}

/// Unique: with a payload, with indices, in place.
fn check_unique<E: Buffers, T: Ordered + DeviceRepr + Debug + PartialEq + From<u8>>(
    engine: &E,
    rng: &mut Rng,
    most: usize,
    counts: &[u64],
) {
    let distinct = 2 + rng.below(5);
    let x: Vec<T> = (0..most).map(|_| T::from(rng.below(distinct) as u8)).collect();
    let (payload, old_payload): (Vec<[u8; 3]>, Vec<[u8; 3]>) = (noise(rng, most), noise(rng, most));
    let (old, old_indices): (Vec<T>, Vec<u32>) = (vec![T::from(77); most], noise(rng, most));
    let (from, beside) = (engine.put(&x), engine.put(&payload));
    let (from, beside) = (engine.view(&from, 0..most), engine.view(&beside, 0..most));
    for &count in counts {
        let n = upto(count, most);
        let what = (type_name::<T>(), count, most);
        let begins: Vec<usize> = (0..n).filter(|&i| i == 0 || x[i] != x[i - 1]).collect();
        let runs = taken(&x, &begins);
        let length = engine.put(&[count]);
        let length = engine.view(&length, 0..1);
        let mut found = engine.put(&OLD_COUNT);
        let expected = [begins.len() as u64, OLD_COUNT[1]];

        let (mut into, mut beside_into) = (engine.put(&old), engine.put(&old_payload));
        let (mut to, mut number) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut found, 0..2));
        let mut beside_to = engine.view_mut(&mut beside_into, 0..most);
        unique::<T>().len(&length).run_pairs_into(&from, &beside, &mut to, &mut beside_to, &mut number).unwrap();
        drop((to, beside_to, number));
        assert_eq!(engine.get(&found), expected, "with a payload, {what:?}");
        assert_bytes(&engine.get(&into), &over(&runs, &old), &("with a payload", what));
        let moved = over(&taken(&payload, &begins), &old_payload);
        assert_bytes(&engine.get(&beside_into), &moved, &("the payload", what));

        let (mut into, mut indices) = (engine.put(&old), engine.put(&old_indices));
        let (mut to, mut number) = (engine.view_mut(&mut into, 0..most), engine.view_mut(&mut found, 0..2));
        let mut indices_to = engine.view_mut(&mut indices, 0..most);
        unique::<T>().len(&length).run_with_indices_into(&from, &mut to, &mut indices_to, &mut number).unwrap();
        drop((to, indices_to, number));
        assert_eq!(engine.get(&found), expected, "with indices, {what:?}");
        assert_bytes(&engine.get(&into), &over(&runs, &old), &("with indices", what));
        let places: Vec<u32> = begins.iter().map(|&i| i as u32).collect();
        assert_bytes(&engine.get(&indices), &over(&places, &old_indices), &("the indices", what));

        let mut data = engine.put(&x);
        let (mut to, mut number) = (engine.view_mut(&mut data, 0..most), engine.view_mut(&mut found, 0..2));
        unique::<T>().len(&length).run_in_place(&mut to, &mut number).unwrap();
        drop((to, number));
        assert_eq!(engine.get(&found), expected, "in place, {what:?}");
        let got = engine.get(&data);
        assert_bytes(&got[..runs.len()], &runs, &("in place", what));
        assert_bytes(&got[n..], &x[n..], &("behind the count", what));
    }
}

/// Calls a check of memories of some lengths with numbers of items.
fn each(memories: &[usize], mut check: impl FnMut(&mut Rng, usize, &[u64])) {
    let mut rng = Rng::new();
    for &most in memories {
        let all = counts(&mut rng, most);
        check(&mut rng, most, if most > 200_000 { &all[1..4] } else { &all });
    }
}

/// Around the borders of rows, slices and tiles.
const MEMORIES: [usize; 6] = [1, 33, 1024, 4097, 12_289, 100_000];

#[test]
fn on_the_host() {
    let memories = &MEMORIES[..4];
    each(memories, |rng, most, counts| check_compact::<_, u8>(&OnHost, rng, most, counts));
    each(memories, |rng, most, counts| check_compact::<_, [u8; 3]>(&OnHost, rng, most, counts));
    each(memories, |rng, most, counts| check_compact::<_, u128>(&OnHost, rng, most, counts));
    each(memories, |rng, most, counts| check_partition::<_, [u8; 3]>(&OnHost, rng, most, counts));
    each(memories, |rng, most, counts| check_unique::<_, u32>(&OnHost, rng, most, counts));
}

/// Calls on the device, one test for each type.
macro_rules! on_the_device {
    ($($test:ident: $check:ident $t:ty, $memories:expr;)*) => { $(
        #[test]
        fn $test() {
            let engine = or_skip!(OnDevice::new());
            each($memories, |rng, most, counts| $check::<_, $t>(&engine, rng, most, counts));
        }
    )* };
}
/// 10 and 40 MiB of items: a range of lengths has a kernel of its own.
const LONG: [usize; 2] = [(10 << 20) / size_of::<u128>(), (40 << 20) / size_of::<u128>()];
on_the_device! {
    compactions_of_bytes: check_compact u8, &MEMORIES;
    compactions_of_three_bytes: check_compact [u8; 3], &MEMORIES;
    compactions_of_quads: check_compact u128, &MEMORIES;
    long_compactions_of_quads: check_compact u128, &LONG;
    partitions_of_three_bytes: check_partition [u8; 3], &MEMORIES;
    partitions_of_quads: check_partition u128, &MEMORIES;
    runs_of_words: check_unique u32, &MEMORIES;
    runs_of_bytes: check_unique u8, &MEMORIES;
}
