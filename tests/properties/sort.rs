//! Properties of sort, on both engines.

use super::{Engine, for_all, on_both_engines};
use parascan::cudarc::driver::CudaSlice;
use parascan::{Sort, SortKey, sort};
use proptest::collection::vec;
use proptest::prelude::*;

/// Keys of 32 bits, many of which agree in some bits.
fn keys() -> impl Strategy<Value = Vec<u32>> {
    let some = prop_oneof![
        2 => any::<u32>(),
        1 => 0..20_u32,
        1 => (0..5_u32).prop_map(|x| x << 28),
        1 => (0..300_u32).prop_map(|x| x * 0x0001_0001),
    ];
    prop_oneof![4 => vec(some.clone(), 0..300), 2 => vec(some.clone(), 0..10_000), 1 => vec(some, 20_000..40_000)]
}

/// The sorted keys and the indices.
fn sorted<K: SortKey + parascan::cudarc::driver::DeviceRepr>(
    engine: &Engine,
    builder: Sort<K>,
    keys: &[K],
) -> (Vec<K>, Vec<u32>) {
    match engine {
        Engine::Host => (builder.run(keys).unwrap(), builder.indices::<u32, _>(keys).unwrap()),
        Engine::Device(_) if keys.is_empty() => (Vec::new(), Vec::new()), // cudarc copies no empty buffer
        Engine::Device(stream) => {
            let there: CudaSlice<K> = stream.clone_htod(keys).unwrap();
            let (keys, indices) = (builder.run(&there).unwrap(), builder.indices::<u32, _>(&there).unwrap());
            (stream.clone_dtoh(&keys).unwrap(), stream.clone_dtoh(&indices).unwrap())
        }
    }
}

/// Sorted keys ascend. The indices are a permutation that gives them, and ascend among equal keys.
fn a_sort_is_a_stable_permutation(engine: &Engine) {
    for_all((keys(), any::<bool>()), |(keys, descending)| {
        let builder = if descending { sort::<u32>().descending() } else { sort::<u32>() };
        let (sorted, indices) = sorted(engine, builder, &keys);
        prop_assert_eq!((sorted.len(), indices.len()), (keys.len(), keys.len()));
        let mut is_there = vec![false; keys.len()];
        for (&key, &i) in sorted.iter().zip(&indices) {
            prop_assert_eq!(key, keys[i as usize]);
            prop_assert!(!std::mem::replace(&mut is_there[i as usize], true), "{} twice", i);
        }
        for k in 1..sorted.len() {
            let before = if descending { sorted[k] < sorted[k - 1] } else { sorted[k - 1] < sorted[k] };
            prop_assert!(before || sorted[k - 1] == sorted[k] && indices[k - 1] < indices[k], "{}", k);
        }
        Ok(())
    });
}

/// A sort by the low bits, then one by the high bits, is a sort by all.
fn by_low_bits_and_then_by_high_ones(engine: &Engine) {
    for_all((keys(), 0..=32_u32), |(keys, cut)| {
        let (low, _) = sorted(engine, sort::<u32>().bits(0..cut), &keys);
        let (both, _) = sorted(engine, sort::<u32>().bits(cut..32), &low);
        let (all, _) = sorted(engine, sort::<u32>(), &keys);
        prop_assert_eq!(both, all);
        Ok(())
    });
}

/// A sort leaves sorted keys as they are, and their indices ascend by one.
fn a_sort_is_idempotent(engine: &Engine) {
    for_all(keys(), |keys| {
        let (once, _) = sorted(engine, sort::<u32>(), &keys);
        let (twice, indices) = sorted(engine, sort::<u32>(), &once);
        prop_assert_eq!(once, twice);
        prop_assert!(indices.iter().enumerate().all(|(k, &i)| k == i as usize));
        Ok(())
    });
}

/// Floats are sorted like the integers of their order.
fn floats_are_in_order(engine: &Engine) {
    for_all(keys(), |bits| {
        let floats: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        let (sorted, _) = sorted(engine, sort::<f32>(), &floats);
        let is_last = |x: f32| x.is_nan() && x.is_sign_negative();
        for pair in sorted.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            prop_assert!(is_last(a).cmp(&is_last(b)).then(a.total_cmp(&b)).is_le(), "{:?} before {:?}", a, b);
        }
        Ok(())
    });
}

on_both_engines! { a_sort_is_a_stable_permutation by_low_bits_and_then_by_high_ones a_sort_is_idempotent floats_are_in_order }
