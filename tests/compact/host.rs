//! Compaction on the CPU: every pattern, with guards around the output, and outputs that are too
//! short.

use super::*;

fn check<V: Pod + Debug + Send + Sync>() {
    let mut rng = Rng::new();
    for n in [0, 1, 31, 64, 65, 1000, 40_000, 300_000 + rng.below(1000)] {
        for pattern in PATTERNS {
            // Of long inputs half of the patterns, others in each run.
            if n > 1000 && rng.below(2) == 0 {
                continue;
            }
            let (items, flags) = (noise::<V>(&mut rng, n), flags(&mut rng, pattern, n));
            let what = (std::any::type_name::<V>(), n, pattern);
            let expected = selected(&items, &flags);
            let others = selected(&items, &inverted(&flags));
            assert_bytes(&compact::<V>().flags(&flags).run(&items).unwrap(), &expected, &what);
            let words = words_64(&mut rng, &flags);
            assert_bytes(&compact::<V>().bits::<u64, _>(&words).run(&items).unwrap(), &expected, &what);
            let words = words_32(&mut rng, &flags);
            assert_bytes(&compact::<V>().bits::<u32, _>(&words).complement().run(&items).unwrap(), &others, &what);

            // Append to a slice, and write nothing past the end.
            let guard = noise::<V>(&mut rng, n + 9);
            let (mut output, mut count) = (guard.clone(), [3]);
            let (mut bytes, payload) = (vec![9; n + 9], noise::<u8>(&mut rng, n));
            let by_flags = compact::<V>().flags(&flags).append();
            by_flags.run_pairs_into(&items, &payload, &mut output, &mut bytes, &mut count).unwrap();
            let end = 3 + expected.len();
            assert_eq!(count, [end as u64], "{what:?}");
            assert_bytes(&output[3..end], &expected, &what);
            assert_bytes(&bytes[3..end], &selected(&payload, &flags), &what);
            assert_bytes(&output[..3], &guard[..3], &what);
            assert_bytes(&output[end..], &guard[end..], &what);

            // Exactly enough room, and one item too few.
            let (mut output, mut count) = (noise::<V>(&mut rng, expected.len()), [77]);
            compact::<V>().flags(&flags).run_into(&items, &mut output, &mut count).unwrap();
            assert_bytes(&output, &expected, &what);
            if !expected.is_empty() {
                let guard = noise::<V>(&mut rng, expected.len() - 1);
                let (mut output, mut count) = (guard.clone(), [77]);
                let error = compact::<V>().flags(&flags).run_into(&items, &mut output, &mut count).unwrap_err();
                assert!(matches!(error, Error::Size { needed, .. } if needed == expected.len()), "{error}");
                assert_eq!(count, [77]);
                assert_bytes(&output, &guard, &what);
            }

            let (mut indices, mut in_place, mut count) = (vec![7_u32; n], items.clone(), [0]);
            compact::<V>().flags(&flags).indices_into(&items, &mut indices, &mut count).unwrap();
            let expected_indices: Vec<u32> = selected(&(0..n as u32).collect::<Vec<_>>(), &flags);
            assert_eq!(indices[..expected.len()], expected_indices, "{what:?}");
            let wide = compact::<V>().flags(&flags).indices::<u64, _>(&items).unwrap();
            assert!(wide.iter().copied().eq(expected_indices.iter().map(|&i| i.into())), "{what:?}");
            compact::<V>().flags(&flags).run_in_place(&mut in_place, &mut count).unwrap();
            assert_bytes(&in_place[..expected.len()], &expected, &what);

            // Partition.
            let mut both = noise::<V>(&mut rng, n);
            partition::<V>().flags(&flags).run_into(&items, &mut both, &mut count).unwrap();
            assert_eq!(count, [expected.len() as u64]);
            assert_bytes(&both, &[expected.clone(), others.clone()].concat(), &what);
            let (mut one, mut other) = (noise::<V>(&mut rng, expected.len()), noise::<V>(&mut rng, others.len()));
            partition::<V>().flags(&flags).run_apart_into(&items, &mut one, &mut other, &mut count).unwrap();
            assert_bytes(&one, &expected, &what);
            assert_bytes(&other, &others, &what);
        }
    }
}

macro_rules! stamp { ($($name:ident $v:ty;)*) => { $( #[test] fn $name() { check::<$v>(); } )* } }
stamp! {
    bytes u8; halves u16; words u32; doubles u64; quads u128;
    three_bytes [u8; 3]; three_words [u32; 3]; five_halves [u16; 5];
}

/// Items wider than the device takes.
#[test]
fn forty_bytes() {
    check::<[u64; 5]>();
}
