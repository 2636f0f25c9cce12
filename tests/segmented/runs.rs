//! Reductions of runs, on both engines: the results, the keys, the count, and outputs that are too
//! short.

use super::device::{RANGES, run_tiles, scan_tiles};
use super::*;
use crate::common::segments::runs_oracle;
use parascan::operators::Moments;
use parascan::{Last, Max, Sum};

/// Checks a reduction of runs into new memory and into the caller's, which has room for some more
/// results, or on the device for fewer.
fn check_by<E: Engine, Op: Operator<T>, T: Sample, C: Segmentation<E::Place>>(
    engine: &mut E,
    rng: &mut Rng,
    reduce: RunReduce<Op, T, C>,
    x: &[T],
    expected: &[T],
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), what);
    let [in_skip, out_skip, count_skip] = [skip(rng), skip(rng), skip(rng)];
    let source = Guarded::new(rng, in_skip, x);
    let memory = engine.put(&source.all);
    let view = engine.view(&memory, source.items.clone());
    assert_same(&engine.reduce_runs(reduce, &view).unwrap(), expected, &("in new memory", what));

    let room = match rng.below(4) {
        0 => 0,
        1 => expected.len(),
        2 => expected.len() + 5,
        _ => rng.below(expected.len() + 1),
    };
    let results = Guarded::<T>::room(rng, out_skip, room);
    let counts = Guarded::<u64>::room(rng, count_skip, 1);
    let (mut output, mut count) = (engine.put(&results.all), engine.put(&counts.all));
    let mut to = engine.view_mut(&mut output, results.items.clone());
    let mut count_to = engine.view_mut(&mut count, counts.items.clone());
    let written = engine.reduce_runs_into(reduce, &view, &mut to, &mut count_to);
    drop((to, count_to, view));
    if room < expected.len() && !E::NONE_IS_ZERO {
        assert!(matches!(written, Err(Error::Size { primitive: "reduce", .. })), "{written:?}, {what:?}");
        results.assert_holds(&engine.get(&output), &[], what);
        counts.assert_holds(&engine.get(&count), &[], what);
    } else {
        written.unwrap();
        results.assert_holds(&engine.get(&output), &expected[..room.min(expected.len())], what);
        counts.assert_holds(&engine.get(&count), &[expected.len() as u64], what);
    }
    source.assert_holds(&engine.get(&memory), x, &("the input", what));
}

/// Checks a reduction by one kind of heads. By keys the keys of the runs too.
pub(super) fn check_runs<E: Engine, Op: Operator<T>, T: Sample, const EVERY: bool>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[T],
    segments: &Segments,
    kind: Kind,
    init: Option<T>,
    what: &dyn Debug,
) {
    let expected = runs_oracle::<Op, T>(x, segments, init);
    let reduce: Reduce<Op, T> = reduce::<Op, T>();
    let reduce = init.map_or(reduce, |init| reduce.init(init));
    let what = &(kind, init, x.len(), what);
    macro_rules! by {
        ($method:ident $kind:ident<$($v:ty)?>, $selectors:expr) => {{
            let (skip, mut selectors) = (skip(rng), $selectors);
            if rng.below(2) == 0 {
                let more = noise(rng, 3); // longer than needed
                selectors.extend_from_slice(&more);
            }
            let guarded = Guarded::new(rng, skip, &selectors);
            let memory = engine.put(&guarded.all);
            let view = engine.view(&memory, guarded.items.clone());
            let reduce: RunReduce<Op, T, $kind<'_, $($v,)? E::Place>> = reduce.$method(&view);
            check_by(engine, rng, reduce, x, &expected, what);
            by!(@keys $method, reduce, guarded);
            assert!(engine.get(&memory) == guarded.all, "the selectors: {what:?}");
        }};
        (@keys by_key, $reduce:ident, $keys:ident) => {
            let heads: Vec<_> = segments.of_scan().filter(|segment| !segment.is_empty())
                .map(|segment| $keys.all[$keys.items.start + segment.start]).collect();
            check_keys(engine, rng, $reduce, x, (&heads, &expected), what);
        };
        (@keys $other:ident, $reduce:ident, $keys:ident) => {};
    }
    match kind {
        Kind::Flags => by!(heads ByHeads<>, segments.flags(rng)),
        Kind::Bits32 => by!(head_bits ByHeadBits<u32>, segments.words(rng)),
        Kind::Keys(4) => by!(by_key ByKeys<u32>, segments.keys(rng)),
        Kind::Bits64 if EVERY => by!(head_bits ByHeadBits<u64>, segments.words(rng)),
        Kind::Keys(1) if EVERY => by!(by_key ByKeys<u8>, segments.keys(rng)),
        Kind::Keys(2) if EVERY => by!(by_key ByKeys<i16>, segments.keys(rng)),
        Kind::Keys(3) if EVERY => by!(by_key ByKeys<[u8; 3]>, segments.keys(rng)),
        Kind::Keys(8) if EVERY => by!(by_key ByKeys<u64>, segments.keys(rng)),
        Kind::Keys(12) if EVERY => by!(by_key ByKeys<[u32; 3]>, segments.keys(rng)),
        Kind::Keys(16) if EVERY => by!(by_key ByKeys<[u64; 2]>, segments.keys(rng)),
        _ => unreachable!("{kind:?} has no heads, or is a kind of the suite with every kind"),
    }
}

/// Checks the keys of runs, with room for all results or for fewer.
fn check_keys<E: Engine, Op: Operator<T>, T: Sample, K: Pod + DeviceRepr + Send + Sync + PartialEq + Debug>(
    engine: &mut E,
    rng: &mut Rng,
    reduce: RunReduce<Op, T, ByKeys<'_, K, E::Place>>,
    x: &[T],
    (keys, results): (&[K], &[T]),
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), "with keys", what);
    let memory = engine.put(x);
    let n = results.len();
    let fewer = [0, n.min(1), n.saturating_sub(1)][rng.below(3)];
    for room in [n, if E::NONE_IS_ZERO { fewer } else { n }, n + 2] {
        let [key_skip, out_skip] = [skip(rng), skip(rng)];
        let key_room = Guarded::<K>::room(rng, key_skip, room);
        let out_room = Guarded::<T>::room(rng, out_skip, room);
        let (mut keys_out, mut output) = (engine.put(&key_room.all), engine.put(&out_room.all));
        let mut count = engine.put(&[7]);
        let view = engine.view(&memory, 0..x.len());
        let mut keys_to = engine.view_mut(&mut keys_out, key_room.items.clone());
        let mut to = engine.view_mut(&mut output, out_room.items.clone());
        let mut count_to = engine.view_mut(&mut count, 0..1);
        engine.reduce_runs_with_keys_into(reduce, &view, &mut keys_to, &mut to, &mut count_to).unwrap();
        drop((view, keys_to, to, count_to));
        let written = room.min(n);
        out_room.assert_holds(&engine.get(&output), &results[..written], what);
        assert_eq!(engine.get(&count), [n as u64], "{what:?}");
        let (found, begin) = (engine.get(&keys_out), key_room.items.start);
        let mut expected = key_room.all;
        expected[begin..begin + written].copy_from_slice(&keys[..written]);
        assert!(found == expected, "the keys: {what:?}");
    }
}

/// Lengths around a tile, whose last item ends the last segment in a way of its own.
fn whole_tiles<E: Engine>(engine: &mut E, tiles: &[usize]) {
    let mut rng = Rng::new();
    for tile in tiles {
        for n in [tile - 1, *tile, tile + 1, 3 * tile, 4 * tile - 1] {
            for lengths in [Lengths::Fixed(1), Lengths::Fixed(3), Lengths::Below(2000), Lengths::One] {
                let (x, segments) = (noise::<u32>(&mut rng, n), Segments::draw(&mut rng, n, lengths, false));
                let what = &(n, lengths);
                check_runs::<E, Sum, u32, true>(engine, &mut rng, &x, &segments, Kind::Flags, None, what);
                check_runs::<E, Last, u32, false>(engine, &mut rng, &x, &segments, Kind::Keys(4), Some(3), what);
            }
        }
    }
}

#[test]
fn whole_tiles_on_the_host() {
    whole_tiles(&mut OnHost, &[64, 8192, 1 << 18]);
}

/// Whole tiles of each kernel, in lengths for which it is taken.
#[test]
fn whole_tiles_on_the_device() {
    let mut engine = or_skip!(OnDevice::new());
    let [short, middle, long] = run_tiles(size_of::<u32>());
    whole_tiles(&mut engine, &[short, 200 * middle, 750 * long]);
}

/// One and three tiles of each kernel, and an item more or less, by flags and by keys. Whole tiles before them make the
/// input long enough for its kernel.
fn around_tiles<Op: Operator<T>, T: Sample, const EVERY: bool>(engine: &mut OnDevice) {
    let mut rng = Rng::new();
    let rng = &mut rng;
    let (size, draw, start) = (size_of::<T>(), Draw::exact_for::<Op, T>(), rng.below(6));
    let all = options::<Op, T>(rng, draw);
    for (range, begin) in RANGES.into_iter().enumerate() {
        for (is_scan, tile) in [(true, scan_tiles(size)[range]), (false, run_tiles(size)[range])] {
            let before = (begin / size).next_multiple_of(tile);
            let x: Vec<T> = data(rng, draw, before + 3 * tile + 1);
            for (k, n) in [1, 3].into_iter().flat_map(|tiles| [0, 1, 2].map(|more| tiles * tile - 1 + more)).enumerate()
            {
                let (x, lengths) = (&x[..before + n], [Lengths::Fixed(3), Lengths::Below(2000), Lengths::One][k % 3]);
                let segments = Segments::draw(rng, x.len(), lengths, false);
                let what = &(tile, lengths);
                // The longest inputs take long, so each has one of the two kinds.
                for j in 0..if range < 2 { 2 } else { 1 } {
                    let kind = [Kind::Flags, Kind::Keys(4)][(start + k + j) % 2];
                    if is_scan {
                        let (options, call) = (all[rng.below(all.len())], CALLS[rng.below(3)]);
                        check_scan::<_, Op, T, EVERY>(engine, rng, x, &segments, kind, options, call, what);
                    } else {
                        let init = (rng.below(2) == 0).then(|| x[0]);
                        check_runs::<_, Op, T, EVERY>(engine, rng, x, &segments, kind, init, what);
                    }
                }
            }
        }
    }
}

#[test]
fn around_tiles_of_1_byte() {
    let mut engine = or_skip!(OnDevice::new());
    around_tiles::<Sum, u8, false>(&mut engine);
}
#[test]
fn around_tiles_of_4_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    around_tiles::<Sum, u32, true>(&mut engine);
}
#[test]
fn around_tiles_of_12_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    around_tiles::<Last, Moments<f32>, false>(&mut engine);
}

/// Keys of a word's size that lie at no multiple of it are compared and copied byte by byte.
#[test]
fn keys_anywhere() {
    let engine = or_skip!(OnDevice::new());
    fn check<K: Pod + DeviceRepr + Send + Sync + Debug + PartialEq>(engine: &OnDevice) {
        let mut rng = Rng::new();
        let (n, size) = (30_000, size_of::<K>());
        let segments = Segments::draw(&mut rng, n, Lengths::Below(30), false);
        let (x, keys): (Vec<u32>, Vec<K>) = (noise(&mut rng, n), segments.keys(&mut rng));
        let bytes = [&[1], bytemuck::cast_slice::<K, u8>(&keys)].concat();
        let (input, from) = (engine.put(&x), engine.put(&bytes));
        let (mut to, mut output) = (engine.put(&vec![0_u8; 3 + n * size]), engine.put(&vec![0_u32; n]));
        let mut count = engine.put(&[0_u64]);
        let odd = from.slice(1..);
        // SAFETY: any bytes are keys, and they need no alignment.
        let odd = unsafe { odd.transmute::<K>(n) }.unwrap();
        let expected = runs_oracle::<Sum, u32>(&x, &segments, None);
        {
            let mut odd_to = to.slice_mut(3..);
            // SAFETY: as above.
            let mut odd_to = unsafe { odd_to.transmute_mut::<K>(n) }.unwrap();
            let by_key = reduce::<Sum, u32>().by_key::<K, _>(&odd);
            by_key.run_with_keys_into(&input, &mut odd_to, &mut output, &mut count).unwrap();
        }
        let runs = expected.len();
        assert_eq!(engine.get(&count), [runs as u64], "{size}");
        assert_same(&engine.get(&output)[..runs], &expected, &size);
        let begins = segments.of_scan().filter(|segment| !segment.is_empty()).map(|segment| keys[segment.start]);
        let found: Vec<u8> = engine.get(&to)[3..][..runs * size].to_vec();
        assert!(found == bytemuck::cast_slice::<K, u8>(&begins.collect::<Vec<_>>()), "{size}");
        let options = Options { exclusive: false, init: None, reverse: false };
        let scanned = scan::<Sum, u32>().by_key::<K, _>(&odd).run(&input).unwrap();
        assert_same(&engine.get(&scanned), &scan_oracle::<Sum, u32>(&x, &segments, options), &size);
    }
    check::<[u8; 2]>(&engine);
    check::<[u8; 4]>(&engine);
    check::<[u8; 8]>(&engine);
    check::<[u8; 16]>(&engine);
}

#[test]
fn bad_input() {
    let (x, flags) = ([1_u32, 2, 3], [1_u8, 0]);
    let (mut output, mut count) = ([7; 3], [9; 1]);
    let error = reduce::<Sum, u32>().heads(&flags).run(&x).unwrap_err();
    assert_eq!(error.to_string(), "reduce: the head flags has 2 elements, and 3 are needed");
    let error = reduce::<Sum, u32>().heads(&flags).run_into(&x[..2], &mut output, &mut count[..0]).unwrap_err();
    assert_eq!(error.to_string(), "reduce: the count has 0 elements, and 1 are needed");
    let by_key = reduce::<Max, u32>().by_key(&flags);
    let error = by_key.run_with_keys_into(&x[..2], &mut [0], &mut output, &mut count).unwrap_err();
    assert_eq!(error.to_string(), "reduce: the keys' output has 1 elements, and 3 are needed");
    assert_eq!((output, count), ([7; 3], [9]), "nothing was written");
    let error = reduce::<Sum, u32>().by_key(b"abc").run_into(&x, &mut output[..2], &mut count).unwrap_err();
    assert_eq!(error.to_string(), "reduce: the output has 2 elements, and 3 are needed");

    let engine = or_skip!(OnDevice::new());
    let (x, flags) = (engine.put(&x), engine.put(&flags));
    let error = reduce::<Sum, u32>().heads(&flags).run(&x).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "reduce", .. }), "{error}");
    let long_keys = engine.put(&[[0_u64; 3]; 3]);
    let error = reduce::<Sum, u32>().by_key::<[u64; 3], _>(&long_keys).run(&x).unwrap_err();
    assert!(matches!(error, Error::ItemSize { primitive: "reduce", size: 24 }), "{error}");
}
