//! One suite of scan and reduce by segment, on both engines, against plain loops over a list of
//! segments.

use crate::common::engines::{Buffers, OnDevice, OnHost};
use crate::common::segments::{Lengths, Segments, lengths, reduce_oracle, scan_oracle};
use crate::common::{Draw, Options, Rng, Sample, assert_same, builder, data, noise, options};
use bytemuck::Pod;
use parascan::cudarc::driver::DeviceRepr;
use parascan::{
    ByHeadBits, ByHeads, ByKeys, ByOffsets, Error, Index, Operator, Reduce, Rows, RunReduce, Scan, Segmentation,
    SegmentedReduce, SegmentedScan, reduce, scan,
};
use std::any::type_name;
use std::fmt::Debug;
use std::ops::Range;

mod bad_input;
mod device;
mod graph;
mod host;
mod length;
pub(crate) mod long;
mod properties;
mod runs;
mod same_bits;
pub(crate) mod sizes;
mod sort;
mod strided;

// ---- kinds --------------------------------------------------------------------------------------

/// The ways to say where segments begin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Rows(usize),
    Offsets32,
    Offsets64,
    Flags,
    Bits32,
    Bits64,
    /// Keys of 1, 2, 3, 4, 8, 12 or 16 bytes.
    Keys(usize),
}
const KINDS: [Kind; 12] = [
    Kind::Offsets32,
    Kind::Offsets64,
    Kind::Flags,
    Kind::Bits32,
    Kind::Keys(4),
    Kind::Bits64,
    Kind::Keys(1),
    Kind::Keys(2),
    Kind::Keys(3),
    Kind::Keys(8),
    Kind::Keys(12),
    Kind::Keys(16),
];

/// The kinds of a suite: all, or the first ones. What finds the heads does not know the operator, so
/// one suite with every kind is enough, and the others are compiled sooner.
const fn kinds(every: bool) -> &'static [Kind] {
    if every { &KINDS } else { KINDS.split_at(5).0 }
}

// ---- engines ------------------------------------------------------------------------------------

/// Calls of an engine.
trait Engine: Buffers {
    /// The result of an empty segment of an operator without identity, if that is no error.
    const NONE_IS_ZERO: bool;
    /// Items of a tile.
    fn tile(size: usize) -> usize;

    /// `run` of the builder: with this engine's site, or without.
    fn scan<Op: Operator<T>, T: Sample, C: Segmentation<Self::Place>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &Self::View<'_, T>,
    ) -> Result<Vec<T>, Error>;
    fn scan_into<Op: Operator<T>, T: Sample, C: Segmentation<Self::Place>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        input: &Self::View<'_, T>,
        output: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
    fn scan_in_place<Op: Operator<T>, T: Sample, C: Segmentation<Self::Place>>(
        &mut self,
        scan: SegmentedScan<Op, T, C>,
        data: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
    fn reduce<Op: Operator<T>, T: Sample, C: parascan::Segments<Self::Place>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &Self::View<'_, T>,
    ) -> Result<Vec<T>, Error>;
    fn reduce_into<Op: Operator<T>, T: Sample, C: parascan::Segments<Self::Place>>(
        &mut self,
        reduce: SegmentedReduce<Op, T, C>,
        input: &Self::View<'_, T>,
        output: &mut Self::ViewMut<'_, T>,
    ) -> Result<(), Error>;
    fn reduce_runs<Op: Operator<T>, T: Sample, C: Segmentation<Self::Place>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &Self::View<'_, T>,
    ) -> Result<Vec<T>, Error>;
    fn reduce_runs_into<Op: Operator<T>, T: Sample, C: Segmentation<Self::Place>>(
        &mut self,
        reduce: RunReduce<Op, T, C>,
        input: &Self::View<'_, T>,
        output: &mut Self::ViewMut<'_, T>,
        count: &mut Self::ViewMut<'_, u64>,
    ) -> Result<(), Error>;
    fn reduce_runs_with_keys_into<Op: Operator<T>, T: Sample, K: Pod + DeviceRepr + Send + Sync>(
        &mut self,
        reduce: RunReduce<Op, T, ByKeys<'_, K, Self::Place>>,
        input: &Self::View<'_, T>,
        keys: &mut Self::ViewMut<'_, K>,
        output: &mut Self::ViewMut<'_, T>,
        count: &mut Self::ViewMut<'_, u64>,
    ) -> Result<(), Error>;
}

/// Random items around others.
pub(crate) struct Guarded<V> {
    pub(crate) all: Vec<V>,
    pub(crate) items: Range<usize>,
}

impl<V: Pod> Guarded<V> {
    pub(crate) fn new(rng: &mut Rng, skip: usize, items: &[V]) -> Guarded<V> {
        let range = skip..skip + items.len();
        let mut all: Vec<V> = noise(rng, range.end + 17);
        all[range.clone()].copy_from_slice(items);
        Guarded { all, items: range }
    }
    pub(crate) fn room(rng: &mut Rng, skip: usize, n: usize) -> Guarded<V> {
        Guarded { all: noise(rng, skip + n + 17), items: skip..skip + n }
    }
    /// Whether `got` has these items, and around them nothing has changed.
    #[track_caller]
    pub(crate) fn assert_holds(&self, got: &[V], items: &[V], what: &dyn Debug)
    where
        V: Sample,
    {
        assert_same(&got[self.items.clone()][..items.len()], items, what);
        self.assert_around(got, items.len(), what);
    }
    /// Whether nothing has changed around the first `items` items.
    #[track_caller]
    fn assert_around(&self, got: &[V], items: usize, what: &dyn Debug) {
        let bytes = bytemuck::cast_slice::<V, u8>;
        let (before, after) = (self.items.start, self.items.start + items);
        assert!(bytes(&got[..before]) == bytes(&self.all[..before]), "before the view: {what:?}");
        assert!(bytes(&got[after..]) == bytes(&self.all[after..]), "after the items: {what:?}");
    }
}

/// Distances of a view from the beginning of a buffer.
const SKIPS: [usize; 6] = [0, 1, 3, 5, 16, 33];

pub(crate) fn skip(rng: &mut Rng) -> usize {
    SKIPS[rng.below(SKIPS.len())]
}

/// The call that is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    New,
    Into,
    InPlace,
}
const CALLS: [Call; 3] = [Call::New, Call::Into, Call::InPlace];

/// Checks one call of a scan by segments that the builder has got already.
fn check_scan_by<E: Engine, Op: Operator<T>, T: Sample, C: Segmentation<E::Place>>(
    engine: &mut E,
    rng: &mut Rng,
    scan: SegmentedScan<Op, T, C>,
    x: &[T],
    expected: &[T],
    call: Call,
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), call, what);
    let skip_in = skip(rng);
    let source = Guarded::new(rng, skip_in, x);
    let mut memory = engine.put(&source.all);
    match call {
        Call::New => {
            let view = engine.view(&memory, source.items.clone());
            assert_same(&engine.scan(scan, &view).unwrap(), expected, what);
        }
        Call::Into => {
            let skip_out = skip(rng);
            let room = Guarded::<T>::room(rng, skip_out, x.len());
            let mut output = engine.put(&room.all);
            let view = engine.view(&memory, source.items.clone());
            let mut view_mut = engine.view_mut(&mut output, room.items.clone());
            engine.scan_into(scan, &view, &mut view_mut).unwrap();
            drop((view, view_mut));
            room.assert_holds(&engine.get(&output), expected, what);
        }
        Call::InPlace => {
            let mut view = engine.view_mut(&mut memory, source.items.clone());
            engine.scan_in_place(scan, &mut view).unwrap();
            drop(view);
            return source.assert_holds(&engine.get(&memory), expected, what);
        }
    }
    source.assert_holds(&engine.get(&memory), x, &("the input", what));
}

/// Checks one call of a scan by one kind of segmentation, whose selectors lie in the middle of a
/// buffer.
#[allow(clippy::too_many_arguments)]
fn check_scan<E: Engine, Op: Operator<T>, T: Sample, const EVERY: bool>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[T],
    segments: &Segments,
    kind: Kind,
    options: Options<T>,
    call: Call,
    what: &dyn Debug,
) {
    let expected = scan_oracle::<Op, T>(x, segments, options);
    let scan: Scan<Op, T> = builder::<Op, T>(options);
    let what = &(kind, options, x.len(), what);
    macro_rules! by {
        ($method:ident $kind:ident<$($v:ty)?>, $selectors:expr) => {{
            // Longer than needed, for all but offsets.
            let (skip, mut selectors) = (skip(rng), $selectors);
            if !matches!(kind, Kind::Offsets32 | Kind::Offsets64) && rng.below(2) == 0 {
                let more = noise(rng, 3);
                selectors.extend_from_slice(&more);
            }
            let guarded = Guarded::new(rng, skip, &selectors);
            let memory = engine.put(&guarded.all);
            let view = engine.view(&memory, guarded.items.clone());
            let scan: SegmentedScan<Op, T, $kind<'_, $($v,)? E::Place>> = scan.$method(&view);
            check_scan_by(engine, rng, scan, x, &expected, call, what);
            assert!(engine.get(&memory) == guarded.all, "the selectors: {what:?}");
        }};
    }
    match kind {
        Kind::Rows(columns) => {
            let scan: SegmentedScan<Op, T, Rows> = scan.rows(columns);
            check_scan_by(engine, rng, scan, x, &expected, call, what);
        }
        Kind::Offsets32 => by!(segments ByOffsets<u32>, segments.offsets()),
        Kind::Offsets64 => by!(segments ByOffsets<u64>, segments.offsets()),
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
        _ => unreachable!("{kind:?} is a kind of the suite with every kind"),
    }
}

/// Checks both calls of a reduction of segments that the builder has got already.
fn check_reduce_by<E: Engine, Op: Operator<T>, T: Sample, C: parascan::Segments<E::Place>>(
    engine: &mut E,
    rng: &mut Rng,
    reduce: SegmentedReduce<Op, T, C>,
    x: &[T],
    expected: Option<&[T]>,
    segments: usize,
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), what);
    let skips = [skip(rng), skip(rng)];
    let source = Guarded::new(rng, skips[0], x);
    let memory = engine.put(&source.all);
    let view = engine.view(&memory, source.items.clone());
    // Longer than needed.
    let spare = [0, 5][rng.below(2)];
    let room = Guarded::<T>::room(rng, skips[1], segments + spare);
    let mut output = engine.put(&room.all);
    let mut view_mut = engine.view_mut(&mut output, room.items.clone());
    let written = engine.reduce_into(reduce, &view, &mut view_mut);
    drop(view_mut);
    match expected {
        Some(expected) => {
            written.unwrap();
            room.assert_holds(&engine.get(&output), expected, what);
            assert_same(&engine.reduce(reduce, &view).unwrap(), expected, &("in new memory", what));
        }
        None => {
            assert!(matches!(written, Err(Error::Empty { primitive: "reduce" })), "{written:?}, {what:?}");
            assert!(matches!(engine.reduce(reduce, &view), Err(Error::Empty { .. })), "{what:?}");
            room.assert_holds(&engine.get(&output), &[], what);
        }
    }
    drop(view);
    source.assert_holds(&engine.get(&memory), x, &("the input", what));
}

fn check_reduce<E: Engine, Op: Operator<T>, T: Sample>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[T],
    segments: &Segments,
    kind: Kind,
    init: Option<T>,
    what: &dyn Debug,
) {
    let has_none = init.is_none() && Op::IDENTITY.is_none() && segments.any_empty();
    let expected = (!has_none || E::NONE_IS_ZERO).then(|| reduce_oracle::<Op, T>(x, segments, init, T::zeroed()));
    let count = segments.offsets.len() - 1;
    let reduce: Reduce<Op, T> = reduce::<Op, T>();
    let reduce = init.map_or(reduce, |init| reduce.init(init));
    let what = &(kind, init, x.len(), what);
    fn by_offsets<E: Engine, Op: Operator<T>, T: Sample, I: Index + DeviceRepr + PartialEq>(
        engine: &mut E,
        rng: &mut Rng,
        reduce: Reduce<Op, T>,
        x: &[T],
        segments: &Segments,
        expected: Option<&[T]>,
        what: &dyn Debug,
    ) {
        let skip = skip(rng);
        let guarded = Guarded::new(rng, skip, &segments.offsets::<I>());
        let memory = engine.put(&guarded.all);
        let view = engine.view(&memory, guarded.items.clone());
        let reduce: SegmentedReduce<Op, T, ByOffsets<'_, I, E::Place>> = reduce.segments(&view);
        check_reduce_by(engine, rng, reduce, x, expected, segments.offsets.len() - 1, what);
        assert!(engine.get(&memory) == guarded.all, "the offsets: {what:?}");
    }
    match kind {
        Kind::Rows(columns) => {
            check_reduce_by(engine, rng, reduce.rows(columns), x, expected.as_deref(), count, what);
        }
        Kind::Offsets32 => {
            by_offsets::<E, Op, T, u32>(engine, rng, reduce, x, segments, expected.as_deref(), what);
        }
        _ => by_offsets::<E, Op, T, u64>(engine, rng, reduce, x, segments, expected.as_deref(), what),
    }
}

// ---- the suite ----------------------------------------------------------------------------------

/// Checks scans of one input by some kinds and options, and its reductions. `all`: by every kind of
/// the suite.
fn check<E: Engine, Op: Operator<T>, T: Sample, const EVERY: bool>(
    engine: &mut E,
    rng: &mut Rng,
    n: usize,
    lengths: Lengths,
    all: bool,
) {
    let kinds = const { kinds(EVERY) };
    let draw = Draw::exact_for::<Op, T>();
    let x: Vec<T> = data(rng, draw, n);
    let gaps = rng.below(2) == 0;
    let segments = Segments::draw(rng, n, lengths, gaps);
    let options = options::<Op, T>(rng, draw);
    let (start, what) = (rng.below(60), (lengths, gaps));
    for k in 0..if all { kinds.len() } else { 2 } {
        let kind = kinds[(start + k) % kinds.len()];
        let options = options[(start + 5 * k) % options.len()];
        let call = CALLS[rng.below(3)];
        check_scan::<E, Op, T, EVERY>(engine, rng, &x, &segments, kind, options, call, &what);
    }
    for k in 0..if all { 4 } else { 1 } {
        let kind = [Kind::Offsets32, Kind::Offsets64][(start + k) % 2];
        let init = (k % 4 < 2).then(|| T::draw(rng, draw, 1));
        check_reduce::<E, Op, T>(engine, rng, &x, &segments, kind, init, &what);
    }
    let kinds = &kinds[2..]; // those by heads
    for k in 0..if all { kinds.len() } else { 2 } {
        let kind = kinds[(start + k) % kinds.len()];
        let init = (k % 4 < 2).then(|| T::draw(rng, draw, 1));
        runs::check_runs::<E, Op, T, EVERY>(engine, rng, &x, &segments, kind, init, &what);
    }
    if let Lengths::Fixed(columns) = lengths {
        let rows = Segments::rows(n / columns, columns);
        let x = &x[..rows.n];
        let row_options = options[start % options.len()];
        let kind = Kind::Rows(columns);
        let call = CALLS[rng.below(3)];
        check_scan::<E, Op, T, EVERY>(engine, rng, x, &rows, kind, row_options, call, &"rows");
        let init = (start % 2 == 0).then(|| T::draw(rng, draw, 1));
        check_reduce::<E, Op, T>(engine, rng, x, &rows, kind, init, &"rows");
    }
}

/// The whole suite for an operator and an element. Longer inputs take fewer kinds and options.
fn suite<E: Engine, Op: Operator<T>, T: Sample, const EVERY: bool>(engine: &mut E, longest: &[usize]) {
    let mut rng = Rng::new();
    let tile = E::tile(size_of::<T>());
    let short = [0, 1, 2, 33, 64, 255, 1000, 3071];
    let long = [tile - 1, tile, tile + 1, 2 * tile + 1, 5 * tile + rng.below(tile)];
    for (k, lengths) in lengths(tile).into_iter().enumerate() {
        for n in short {
            check::<E, Op, T, EVERY>(engine, &mut rng, n, lengths, true);
        }
        // Of the long ones each with some of the distributions.
        for n in long.iter().chain(longest).skip(k % 2).step_by(2) {
            check::<E, Op, T, EVERY>(engine, &mut rng, *n, lengths, false);
        }
    }
}

/// The suite for operators with and without identity, that commute or not, and for elements of many
/// sizes, and for more of these that an engine tells apart.
macro_rules! suites {
    ($engine:expr, $longest:expr $(; $($more:tt)*)?) => {
        suites! { @each $engine, $longest;
            sum_of_u8: Sum, u8;
            sum_of_u32: Sum, u32, true;
            sum_of_i64: Sum, i64;
            sum_of_f32: Sum, f32;
            sum_of_f16: Sum, half::f16;
            max_of_f32: Max, f32;
            last_of_12_bytes: Last, Moments<f32>;
            automata: Compose, Transitions;
            matrices_of_16_bytes: Compose, Matrix<u32>;
            matrices_of_32_bytes: Compose, Matrix<u64>;
            an_operator_of_the_users: Digits, Digit;
            $($($more)*)?
        }
    };
    (@each $engine:expr, $longest:expr; $($name:ident: $op:ty, $t:ty $(, $every:literal)?;)*) => { $(
        #[test]
        fn $name() {
            let mut engine = $engine;
            suite::<_, $op, $t, { false $(|| $every)? }>(&mut engine, &$longest(size_of::<$t>()));
        }
    )* };
}
use suites;

/// Segments with hundreds of thousands of empty ones among few items, and many segments of one
/// item.
fn many_segments<E: Engine>(engine: &mut E) {
    let mut rng = Rng::new();
    for (n, empty) in [(0, 300_000), (5, 300_000), (1000, 500_000), (300_000, 600_000)] {
        let mut offsets: Vec<usize> = (0..empty).map(|_| rng.below(n + 1)).collect();
        // A third of them at one place.
        let place = rng.below(n + 1);
        offsets[..empty / 3].fill(place);
        offsets.sort_unstable();
        let segments = Segments { n, offsets };
        let x: Vec<u32> = noise(&mut rng, n);
        for kind in [Kind::Offsets32, Kind::Offsets64] {
            check_reduce::<E, parascan::Sum, u32>(engine, &mut rng, &x, &segments, kind, Some(3), &empty);
            check_reduce::<E, parascan::Max, u32>(engine, &mut rng, &x, &segments, kind, None, &empty);
            check_reduce::<E, parascan::Last, u32>(engine, &mut rng, &x, &segments, kind, None, &empty);
            for reverse in [false, true] {
                let options = Options { exclusive: reverse, init: Some(9), reverse };
                let call = [Call::New, Call::InPlace][rng.below(2)];
                check_scan::<E, parascan::Last, u32, false>(
                    engine, &mut rng, &x, &segments, kind, options, call, &empty,
                );
            }
        }
    }
}

/// A single offset: no segments for a reduction, one or two for a scan.
fn one_offset<E: Engine>(engine: &mut E) {
    let mut rng = Rng::new();
    for n in [0, 1, 100, 70_000] {
        let x: Vec<u32> = noise(&mut rng, n);
        for at in [0, rng.below(n + 1), n] {
            let segments = Segments { n, offsets: vec![at] };
            for kind in [Kind::Offsets32, Kind::Offsets64] {
                let options = Options { exclusive: false, init: None, reverse: at % 2 == 0 };
                check_scan::<E, parascan::Sum, u32, true>(
                    engine,
                    &mut rng,
                    &x,
                    &segments,
                    kind,
                    options,
                    Call::Into,
                    &at,
                );
                check_reduce::<E, parascan::Last, u32>(engine, &mut rng, &x, &segments, kind, None, &at);
            }
        }
    }
}

/// The options of the builder after the segments are said, and those that carry over, are those of
/// a scan.
#[test]
fn options_before_and_after() {
    use parascan::{Last, Sum};
    let x = [1, 2, 3, 4, 5, 6];
    let rows = || scan::<Sum, i32>().rows(3);
    assert_eq!(rows().run(&x).unwrap(), [1, 3, 6, 4, 9, 15]);
    assert_eq!(rows().exclusive().run(&x).unwrap(), [0, 1, 3, 0, 4, 9]);
    assert_eq!(rows().exclusive().inclusive().run(&x).unwrap(), [1, 3, 6, 4, 9, 15]);
    assert_eq!(rows().exclusive().init(10).run(&x).unwrap(), [10, 11, 13, 10, 14, 19]);
    assert_eq!(rows().init(10).run(&x).unwrap(), [11, 13, 16, 14, 19, 25]);
    assert_eq!(rows().exclusive_from(7).run(&x).unwrap(), [7, 8, 10, 7, 11, 16]);
    assert_eq!(rows().reverse().run(&x).unwrap(), [6, 5, 3, 15, 11, 6]);
    assert_eq!(rows().reverse().reverse().run(&x).unwrap(), [1, 3, 6, 4, 9, 15]);
    assert_eq!(scan::<Sum, i32>().exclusive().reverse().init(1).rows(3).run(&x).unwrap(), [6, 4, 1, 12, 7, 1]);
    assert_eq!(scan::<Last, i32>().exclusive_from(-1).rows(2).run(&x).unwrap(), [-1, 1, -1, 3, -1, 5]);
    assert_eq!(reduce::<Sum, i32>().rows(2).run(&x).unwrap(), [3, 7, 11]);
    assert_eq!(reduce::<Sum, i32>().init(1).rows(2).run(&x).unwrap(), [4, 8, 12]);
    assert_eq!(reduce::<Sum, i32>().rows(2).init(2).run(&x).unwrap(), [5, 9, 13]);
}
