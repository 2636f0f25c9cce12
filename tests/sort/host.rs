//! Sort on the host: every type of keys, pattern and call, with guards around the output.

use super::*;

const GUARD: usize = 3;

/// A buffer with the items at `GUARD..GUARD + n` and random items around them.
fn guarded<V: Pod>(rng: &mut Rng, items: &[V]) -> Vec<V> {
    let mut all = noise::<V>(rng, items.len() + 2 * GUARD);
    all[GUARD..GUARD + items.len()].copy_from_slice(items);
    all
}

/// Asserts that the buffer holds `expected`, and its old contents around that.
#[track_caller]
fn holds<V: Pod + Debug>(got: &[V], before: &[V], expected: &[V], what: &dyn Debug) {
    let end = GUARD + expected.len();
    assert_bytes(&got[GUARD..end], expected, what);
    assert_bytes(&got[..GUARD], &before[..GUARD], &("before", what));
    assert_bytes(&got[end..], &before[end..], &("after", what));
}

fn check<K: Key, V: Pod + Debug + Send + Sync>(rng: &mut Rng, pattern: Pattern, n: usize) {
    let how = How::any(rng, K::WIDTH);
    let what = (std::any::type_name::<(K, V)>(), pattern, n, how.clone());
    let builder = how.builder::<K>();
    let keys = keys::<K>(rng, pattern, n);
    let order = how.oracle(&keys);
    let sorted = gathered(&keys, &order);
    let payload = noise::<V>(rng, n);
    let moved = gathered(&payload, &order);
    let inside = GUARD..GUARD + n;

    assert_bytes(&builder.run(&keys).unwrap(), &sorted, &what);
    let input = keys.clone();
    let before = guarded(rng, &keys);
    let mut output = before.clone();
    builder.run_into(&input, &mut output[inside.clone()]).unwrap();
    holds(&output, &before, &sorted, &("into", &what));
    let mut output = before.clone();
    builder.run_in_place(&mut output[inside.clone()]).unwrap();
    holds(&output, &before, &sorted, &("in place", &what));
    let (mut output, mut second) = (before.clone(), before.clone());
    builder.run_in_place_with_buffer(&mut output[inside.clone()], &mut second[inside.clone()]).unwrap();
    holds(&output, &before, &sorted, &("with a second buffer", &what));
    let around = [&second[..GUARD], &second[GUARD + n..]].concat();
    assert_bytes(&around, &[&before[..GUARD], &before[GUARD + n..]].concat(), &("the second buffer", &what));

    let values_before = guarded(rng, &payload);
    let (mut output, mut values) = (guarded(rng, &keys), values_before.clone());
    let keys_before = output.clone();
    builder
        .run_pairs_into::<V, _, _, _, _>(&input, &payload, &mut output[inside.clone()], &mut values[inside.clone()])
        .unwrap();
    holds(&output, &keys_before, &sorted, &("with a payload", &what));
    holds(&values, &values_before, &moved, &("the payload", &what));
    let (mut output, mut values) = (before.clone(), values_before.clone());
    builder.run_pairs_in_place::<V, _, _>(&mut output[inside.clone()], &mut values[inside.clone()]).unwrap();
    holds(&output, &before, &sorted, &("with a payload in place", &what));
    holds(&values, &values_before, &moved, &("the payload in place", &what));

    assert_bytes(&builder.indices::<u32, _>(&input).unwrap(), &order, &("indices", &what));
    let wide: Vec<u64> = order.iter().map(|&i| i.into()).collect();
    let mut indices = vec![7; n];
    builder.indices_into::<u64, _, _>(&input, &mut indices).unwrap();
    assert_bytes(&indices, &wide, &("wide indices", &what));
    assert_bytes(&input, &keys, &("the input", &what));
}

fn all<K: Key>() {
    let mut rng = Rng::new();
    for n in [0, 1, 2, 31, 32, 33, 1000, 100_000] {
        for pattern in PATTERNS {
            // Of long inputs half of the patterns, others in each run.
            if n <= 1000 || rng.below(2) == 0 {
                check::<K, u32>(&mut rng, pattern, n);
            }
        }
    }
}
over_keys! { all }

macro_rules! payloads { ($($name:ident $v:ty;)*) => { $(
    #[test]
    fn $name() {
        let mut rng = Rng::new();
        for n in [1, 33, 5000, 100_000] {
            for pattern in [Pattern::Random, Pattern::Few, Pattern::Special] {
                check::<u8, $v>(&mut rng, pattern, n);
                check::<f64, $v>(&mut rng, pattern, n);
            }
        }
    }
)* } }
payloads! {
    with_bytes u8; with_halves u16; with_three_bytes [u8; 3]; with_words u32; with_doubles u64; with_three_words [u32; 3];
    with_quads u128; with_fifteen_bytes [u8; 15];
    with_seventeen_bytes [u8; 17]; with_records [u64; 5];
}

#[test]
fn millions() {
    let mut rng = Rng::new();
    check::<u32, u64>(&mut rng, Pattern::Random, 3_000_000); // more bytes than are sorted in caches
    check::<f64, [u32; 3]>(&mut rng, Pattern::PowerLaw, 400_000);
    check::<u16, u32>(&mut rng, Pattern::SameAbove, 1_000_000);
}

/// NaNs come last, those with the sign set after the others; descending order is the reverse.
#[test]
fn nans() {
    let last = -f32::NAN;
    let x = [f32::NAN, 1.0, last, -0.0, f32::NEG_INFINITY, 0.0, f32::INFINITY];
    let expected = [f32::NEG_INFINITY, -0.0, 0.0, 1.0, f32::INFINITY, f32::NAN, last].map(f32::to_bits);
    let bits = |x: Vec<f32>| x.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(sort::<f32>().run(&x).unwrap()), expected);
    let mut reversed = expected;
    reversed.reverse();
    assert_eq!(bits(sort::<f32>().descending().run(&x).unwrap()), reversed);
}

/// Pairs of keys are sorted lexicographically.
#[test]
fn lexicographic() {
    let mut rng = Rng::new();
    for (n, descending) in [(0, false), (1, true), (500, false), (70_000, true)] {
        let (mut rows, mut columns, order) = pairs_of_keys(&mut rng, n, descending);
        let expected = (gathered(&rows, &order), gathered(&columns, &order));
        How { descending, bits: None }.builder::<u32>().run_lexicographic_in_place(&mut rows, &mut columns).unwrap();
        assert_bytes(&rows, &expected.0, &("first keys", n));
        assert_bytes(&columns, &expected.1, &("second keys", n));
        let error = sort::<u32>().run_lexicographic_in_place(&mut rows[..], &mut [0_u8; 3]).unwrap_err();
        assert!(matches!(error, Error::Length { .. }), "{error}");
    }
}
