//! Properties of compaction, partition and unique, on both engines.

use super::{Engine, downloaded, for_all, on, on_both_engines, uploaded};
use parascan::{NotEqual, compact, partition, unique};
use proptest::collection::vec;
use proptest::prelude::*;

/// Up to some tens of thousands of flags, in runs.
fn flags() -> impl Strategy<Value = Vec<u8>> {
    let runs = prop_oneof![
        4 => vec((0..3_u8, 1..4_usize), 0..200),
        2 => vec((0..3_u8, 1..400_usize), 0..200),
    ];
    runs.prop_map(|runs| runs.into_iter().flat_map(|(flag, length)| std::iter::repeat_n(flag, length)).collect())
}

/// The indices as items.
fn indices(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}

/// A partition is a permutation that keeps the order of both parts. Compaction gives its first
/// part, the complement its second.
fn partition_is_a_permutation_that_keeps_order(engine: &Engine) {
    for_all(flags(), |flags| {
        let (flags, items) = (&flags[..], &indices(flags.len())[..]);
        let mut both = indices(items.len());
        let mut count = [0];
        match engine {
            Engine::Host => partition::<u32>().flags(flags).run_into(items, &mut both, &mut count).unwrap(),
            Engine::Device(stream) => {
                let (flags, items) = (uploaded(stream, flags), uploaded(stream, items));
                let (mut to, mut found) = (uploaded(stream, &both), stream.alloc_zeros::<u64>(1).unwrap());
                partition::<u32>().flags(&flags).run_into(&items, &mut to, &mut found).unwrap();
                (both, count) = (downloaded(stream, &to), [stream.clone_dtoh(&found).unwrap()[0]]);
            }
        }
        let (front, back) = both.split_at(count[0] as usize);
        for part in [front, back] {
            prop_assert!(part.is_sorted_by(|a, b| a < b));
        }
        prop_assert!(front.iter().all(|&i| flags[i as usize] != 0) && back.iter().all(|&i| flags[i as usize] == 0));
        prop_assert_eq!(front.len() + back.len(), items.len());
        let selected = on!(engine, |flags, items| compact::<u32>().flags(flags).run(items).unwrap());
        prop_assert_eq!(&selected, front);
        let rejected = on!(engine, |flags, items| compact::<u32>().flags(flags).complement().run(items).unwrap());
        prop_assert_eq!(&rejected, back);
        let indices = on!(engine, |flags| compact::<u8>().flags(flags).indices::<u32, _>(flags).unwrap());
        prop_assert_eq!(&indices, front);
        Ok(())
    });
}

/// Compaction by a predicate, by its flags and by its bits selects the same items.
fn flags_bits_and_predicate_agree(engine: &Engine) {
    for_all((flags(), 0..3_u8), |(items, value)| {
        let items = &items[..];
        let flags: &[u8] = &items.iter().map(|&x| u8::from(x != value)).collect::<Vec<_>>();
        let word = |flags: &[u8]| flags.iter().rev().fold(0_u64, |word, &flag| word << 1 | u64::from(flag));
        let bits: &[u64] = &flags.chunks(64).map(word).collect::<Vec<_>>();
        let one = on!(engine, |items| compact::<u8>().keep(NotEqual(value)).run(items).unwrap());
        let two = on!(engine, |items, flags| compact::<u8>().flags(flags).run(items).unwrap());
        let three = on!(engine, |items, bits| compact::<u8>().bits::<u64, _>(bits).run(items).unwrap());
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(&one, &three);
        Ok(())
    });
}

/// The output of unique has no equal neighbours, unique of it is the same, and the indices are the
/// starts of runs.
fn unique_is_idempotent(engine: &Engine) {
    for_all(flags(), |items| {
        let items = &items[..];
        let once = &on!(engine, |items| unique::<u8>().run(items).unwrap())[..];
        prop_assert!(once.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert_eq!(&on!(engine, |once| unique::<u8>().run(once).unwrap())[..], once);
        let begins = on!(engine, |items| unique::<u8>().indices::<u32, _>(items).unwrap());
        prop_assert_eq!(begins.iter().map(|&i| items[i as usize]).collect::<Vec<_>>(), once);
        Ok(())
    });
}

on_both_engines! { partition_is_a_permutation_that_keeps_order flags_bits_and_predicate_agree unique_is_idempotent }
