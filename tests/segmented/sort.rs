//! One suite of sort by segment, on both engines. The oracle is the standard library's stable sort
//! of each segment.

use super::*;
use crate::common::keys::{How, Key, PATTERNS, Pattern, keys};
use crate::common::process::is_alone;
use crate::common::{assert_bytes, context, much_memory, sited};
use half::f16;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::cudarc::driver::{CudaView, CudaViewMut};
use parascan::{Device, Host, SegmentedSort, Sort, Workspace, sort};

// ---- engines ------------------------------------------------------------------------------------

/// Calls of a sort into an engine.
trait SortEngine: Engine {
    fn keys_into<K: Key, C: Segmentation<Self::Place>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: &Self::View<'_, K>,
        to: &mut Self::ViewMut<'_, K>,
    ) -> Result<(), Error>;
    fn keys_in_place<K: Key, C: Segmentation<Self::Place>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut Self::ViewMut<'_, K>,
    ) -> Result<(), Error>;
    fn pairs_into<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Self::Place>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: (&Self::View<'_, K>, &Self::View<'_, V>),
        to: (&mut Self::ViewMut<'_, K>, &mut Self::ViewMut<'_, V>),
    ) -> Result<(), Error>;
    fn pairs_in_place<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Self::Place>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut Self::ViewMut<'_, K>,
        values: &mut Self::ViewMut<'_, V>,
    ) -> Result<(), Error>;
    fn indices_into<K: Key, I: Index + DeviceRepr, C: Segmentation<Self::Place>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        local: bool,
        from: &Self::View<'_, K>,
        to: &mut Self::ViewMut<'_, I>,
    ) -> Result<(), Error>;
}

impl SortEngine for OnDevice {
    fn keys_into<K: Key, C: Segmentation<Device>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: &CudaView<'_, K>,
        to: &mut CudaViewMut<'_, K>,
    ) -> Result<(), Error> {
        sited!(self, sort, sort.run_into(from, to))
    }
    fn keys_in_place<K: Key, C: Segmentation<Device>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut CudaViewMut<'_, K>,
    ) -> Result<(), Error> {
        sited!(self, sort, sort.run_in_place(keys))
    }
    fn pairs_into<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Device>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: (&CudaView<'_, K>, &CudaView<'_, V>),
        to: (&mut CudaViewMut<'_, K>, &mut CudaViewMut<'_, V>),
    ) -> Result<(), Error> {
        sited!(self, sort, sort.run_pairs_into::<V, _, _, _, _>(from.0, from.1, to.0, to.1))
    }
    fn pairs_in_place<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Device>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut CudaViewMut<'_, K>,
        values: &mut CudaViewMut<'_, V>,
    ) -> Result<(), Error> {
        sited!(self, sort, sort.run_pairs_in_place::<V, _, _>(keys, values))
    }
    fn indices_into<K: Key, I: Index + DeviceRepr, C: Segmentation<Device>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        local: bool,
        from: &CudaView<'_, K>,
        to: &mut CudaViewMut<'_, I>,
    ) -> Result<(), Error> {
        sited!(self, sort, if local { sort.local_indices_into(from, to) } else { sort.indices_into(from, to) })
    }
}

impl SortEngine for OnHost {
    fn keys_into<K: Key, C: Segmentation<Host>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: &&[K],
        to: &mut &mut [K],
    ) -> Result<(), Error> {
        sort.run_into(*from, *to)
    }
    fn keys_in_place<K: Key, C: Segmentation<Host>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut &mut [K],
    ) -> Result<(), Error> {
        sort.run_in_place(*keys)
    }
    fn pairs_into<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Host>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        from: (&&[K], &&[V]),
        to: (&mut &mut [K], &mut &mut [V]),
    ) -> Result<(), Error> {
        sort.run_pairs_into::<V, _, _, _, _>(*from.0, *from.1, *to.0, *to.1)
    }
    fn pairs_in_place<K: Key, V: Pod + DeviceRepr + Send + Sync, C: Segmentation<Host>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        keys: &mut &mut [K],
        values: &mut &mut [V],
    ) -> Result<(), Error> {
        sort.run_pairs_in_place::<V, _, _>(*keys, *values)
    }
    fn indices_into<K: Key, I: Index + DeviceRepr, C: Segmentation<Host>>(
        &mut self,
        sort: SegmentedSort<K, C>,
        local: bool,
        from: &&[K],
        to: &mut &mut [I],
    ) -> Result<(), Error> {
        if local { sort.local_indices_into(*from, *to) } else { sort.indices_into(*from, *to) }
    }
}

// ---- checks -------------------------------------------------------------------------------------

/// The source index of each key of the sorted order.
fn sort_oracle<K: Key>(x: &[K], segments: &Segments, how: &How) -> Vec<usize> {
    let of = |segment: Range<usize>| {
        let order = how.oracle(&x[segment.clone()]);
        order.into_iter().map(move |i| segment.start + i as usize)
    };
    segments.of_scan().flat_map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SortCall {
    Keys,
    KeysInPlace,
    Pairs,
    PairsInPlace,
    Indices,
    LocalIndices,
}
const SORT_CALLS: [SortCall; 6] = [
    SortCall::Keys,
    SortCall::KeysInPlace,
    SortCall::Pairs,
    SortCall::PairsInPlace,
    SortCall::Indices,
    SortCall::LocalIndices,
];

/// An array of an engine between others, and what must be in it after a call.
struct Checked<E: Engine, V: Pod + DeviceRepr> {
    guarded: Guarded<V>,
    memory: E::Memory<V>,
}

impl<E: Engine, V: Pod + DeviceRepr + Debug> Checked<E, V> {
    fn new(engine: &E, rng: &mut Rng, items: &[V]) -> Self {
        let skip = skip(rng);
        let guarded = Guarded::new(rng, skip, items);
        Checked { memory: engine.put(&guarded.all), guarded }
    }
    fn view(&self, engine: &E) -> E::View<'_, V> {
        engine.view(&self.memory, self.guarded.items.clone())
    }
    fn view_mut(&mut self, engine: &E) -> E::ViewMut<'_, V> {
        engine.view_mut(&mut self.memory, self.guarded.items.clone())
    }
    #[track_caller]
    fn assert_holds(&self, engine: &E, items: &[V], what: &dyn Debug) {
        let got = engine.get(&self.memory);
        assert_bytes(&got[self.guarded.items.clone()], items, what);
        self.guarded.assert_around(&got, items.len(), what);
    }
}

/// Checks one call of a sort by segments that the builder has got already. `order`: the oracle's.
#[allow(clippy::too_many_arguments)]
fn check_sort_by<E: SortEngine, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync, C: Segmentation<E::Place>>(
    engine: &mut E,
    rng: &mut Rng,
    sort: SegmentedSort<K, C>,
    x: &[K],
    order: &[usize],
    segments: &Segments,
    call: SortCall,
    what: &dyn Debug,
) {
    let what = &(type_name::<(K, V)>(), call, what);
    let n = x.len();
    let sorted: Vec<K> = order.iter().map(|&i| x[i]).collect();
    let values: Vec<V> = noise(rng, n);
    let moved: Vec<V> = order.iter().map(|&i| values[i]).collect();
    let mut keys = Checked::<E, K>::new(engine, rng, x);
    let mut payload = Checked::<E, V>::new(engine, rng, &values);
    let mut keys_out = Checked::<E, K>::new(engine, rng, &noise(&mut Rng::new(), n));
    let mut payload_out = Checked::<E, V>::new(engine, rng, &noise(&mut Rng::new(), n));
    let (mut keys_after, mut values_after) = (x, &values[..]);
    match call {
        SortCall::Keys => {
            let (from, mut to) = (keys.view(engine), keys_out.view_mut(engine));
            engine.keys_into(sort, &from, &mut to).unwrap();
            drop((from, to));
            keys_out.assert_holds(engine, &sorted, what);
        }
        SortCall::KeysInPlace => {
            let mut view = keys.view_mut(engine);
            engine.keys_in_place(sort, &mut view).unwrap();
            keys_after = &sorted;
        }
        SortCall::Pairs => {
            let (from, mut to) = (keys.view(engine), keys_out.view_mut(engine));
            let (from_values, mut to_values) = (payload.view(engine), payload_out.view_mut(engine));
            engine.pairs_into(sort, (&from, &from_values), (&mut to, &mut to_values)).unwrap();
            drop((from, to, from_values, to_values));
            keys_out.assert_holds(engine, &sorted, what);
            payload_out.assert_holds(engine, &moved, what);
        }
        SortCall::PairsInPlace => {
            let (mut view, mut values) = (keys.view_mut(engine), payload.view_mut(engine));
            engine.pairs_in_place(sort, &mut view, &mut values).unwrap();
            (keys_after, values_after) = (&sorted, &moved);
        }
        SortCall::Indices => {
            let mut indices = Checked::<E, u32>::new(engine, rng, &vec![7; n]);
            let (from, mut to) = (keys.view(engine), indices.view_mut(engine));
            engine.indices_into(sort, false, &from, &mut to).unwrap();
            drop((from, to));
            indices.assert_holds(engine, &order.iter().map(|&i| i as u32).collect::<Vec<_>>(), what);
        }
        SortCall::LocalIndices => {
            let mut indices = Checked::<E, u64>::new(engine, rng, &vec![7; n]);
            let (from, mut to) = (keys.view(engine), indices.view_mut(engine));
            engine.indices_into(sort, true, &from, &mut to).unwrap();
            drop((from, to));
            let local = segments
                .of_scan()
                .flat_map(|segment| order[segment.clone()].iter().map(move |&i| (i - segment.start) as u64));
            indices.assert_holds(engine, &local.collect::<Vec<_>>(), what);
        }
    }
    keys.assert_holds(engine, keys_after, &("the keys", what));
    payload.assert_holds(engine, values_after, &("the payload", what));
}

/// Checks one call of a sort by one kind of segmentation, whose selectors lie in the middle of a
/// buffer. Every kind becomes head bits, so for most types of keys some kinds do: `ALL` takes long to
/// compile.
#[allow(clippy::too_many_arguments)]
fn check_sort<E: SortEngine, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync, const ALL: bool>(
    engine: &mut E,
    rng: &mut Rng,
    x: &[K],
    segments: &Segments,
    kind: Kind,
    how: &How,
    call: SortCall,
    what: &dyn Debug,
) {
    let order = sort_oracle(x, segments, how);
    let sort: Sort<K> = how.builder();
    let what = &(kind, how, x.len(), what);
    macro_rules! by {
        ($method:ident $kind:ident<$($v:ty)?>, $selectors:expr) => {{
            let selectors = $selectors;
            let selectors = Checked::<E, _>::new(engine, rng, &selectors);
            let view = selectors.view(engine);
            let sort: SegmentedSort<K, $kind<'_, $($v,)? E::Place>> = sort.$method(&view);
            check_sort_by::<E, K, V, _>(engine, rng, sort, x, &order, segments, call, what);
            selectors.assert_holds(engine, &selectors.guarded.all[selectors.guarded.items.clone()], what);
        }};
    }
    if !ALL {
        match kind {
            Kind::Rows(columns) => {
                check_sort_by::<E, K, V, _>(engine, rng, sort.rows(columns), x, &order, segments, call, what);
            }
            Kind::Offsets32 | Kind::Offsets64 => by!(segments ByOffsets<u32>, segments.offsets::<u32>()),
            _ => by!(heads ByHeads<>, segments.flags(rng)),
        }
        return;
    }
    match kind {
        Kind::Rows(columns) => {
            check_sort_by::<E, K, V, _>(engine, rng, sort.rows(columns), x, &order, segments, call, what);
        }
        Kind::Offsets32 => by!(segments ByOffsets<u32>, segments.offsets::<u32>()),
        Kind::Offsets64 => by!(segments ByOffsets<u64>, segments.offsets::<u64>()),
        Kind::Flags => by!(heads ByHeads<>, segments.flags(rng)),
        Kind::Bits32 => by!(head_bits ByHeadBits<u32>, segments.words::<u32>(rng)),
        Kind::Bits64 => by!(head_bits ByHeadBits<u64>, segments.words::<u64>(rng)),
        Kind::Keys(1 | 2) => by!(by_key ByKeys<i16>, segments.keys::<i16>(rng)),
        Kind::Keys(3) => by!(by_key ByKeys<[u8; 3]>, segments.keys::<[u8; 3]>(rng)),
        Kind::Keys(4) => by!(by_key ByKeys<u32>, segments.keys::<u32>(rng)),
        Kind::Keys(_) => by!(by_key ByKeys<[u64; 2]>, segments.keys::<[u64; 2]>(rng)),
    }
}

// ---- the suite ----------------------------------------------------------------------------------

/// Lengths around the limits of a thread, a warp, its runs and a block, and of the CPU's sorts of few
/// items.
const SORT_LENGTHS: [Lengths; 44] = [
    Lengths::Fixed(1),
    Lengths::Fixed(2),
    Lengths::Fixed(4),
    Lengths::Fixed(5),
    Lengths::Fixed(8),
    Lengths::Fixed(9),
    Lengths::Fixed(15),
    Lengths::Fixed(16),
    Lengths::Fixed(17),
    Lengths::Fixed(20),
    Lengths::Fixed(21),
    Lengths::Fixed(32),
    Lengths::Fixed(33),
    Lengths::Fixed(63),
    Lengths::Fixed(64),
    Lengths::Fixed(65),
    Lengths::Fixed(256),
    Lengths::Fixed(257),
    Lengths::Fixed(513),
    Lengths::Fixed(1000),
    Lengths::Fixed(2560),
    Lengths::Fixed(3072),
    Lengths::Fixed(3073),
    Lengths::Fixed(3584),
    Lengths::Fixed(3585),
    Lengths::Fixed(4096),
    Lengths::Fixed(4608),
    Lengths::Fixed(4609),
    Lengths::Fixed(5120),
    Lengths::Fixed(5121),
    Lengths::Fixed(8193),
    Lengths::Fixed(9217),
    Lengths::Fixed(16_384),
    Lengths::Fixed(16_385),
    Lengths::Fixed(30_000),
    Lengths::Fixed(32_769),
    Lengths::Below(12),
    Lengths::Below(40),
    Lengths::Below(500),
    Lengths::Below(5000),
    Lengths::Below(20_000),
    Lengths::Half,
    Lengths::Empty,
    Lengths::One,
];

/// Keys that a map linear in the key spreads badly: powers of two, and some of them one more.
fn powers_of_two<K: Key>(rng: &mut Rng, n: usize) -> Vec<K> {
    (0..n).map(|_| K::from_bits(1 << rng.below(K::WIDTH as usize) | rng.next() & 1)).collect()
}

fn check_sorts<E: SortEngine, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync, const ALL: bool>(
    engine: &mut E,
    rng: &mut Rng,
    n: usize,
    lengths: Lengths,
    calls: usize,
) {
    let start = rng.below(60);
    for k in 0..calls {
        let pattern = PATTERNS[rng.below(PATTERNS.len())];
        let x: Vec<K> = if rng.below(8) == 0 { powers_of_two(rng, n) } else { keys(rng, pattern, n) };
        let gaps = rng.below(2) == 0;
        let segments = Segments::draw(rng, n, lengths, gaps);
        let how = How::any(rng, K::WIDTH);
        let (kind, call) = (KINDS[(start + k) % KINDS.len()], SORT_CALLS[rng.below(6)]);
        check_sort::<E, K, V, ALL>(engine, rng, &x, &segments, kind, &how, call, &(lengths, gaps, pattern));
        if let Lengths::Fixed(columns) = lengths {
            let rows = Segments::rows(n / columns, columns);
            let (kind, call) = (Kind::Rows(columns), SORT_CALLS[rng.below(6)]);
            check_sort::<E, K, V, ALL>(engine, rng, &x[..rows.n], &rows, kind, &how, call, &pattern);
        }
    }
}

/// The whole suite for a type of keys and a payload. `calls`: of an input of several blocks.
fn sort_suite<E: SortEngine, K: Key, V: Pod + DeviceRepr + Debug + Send + Sync, const ALL: bool>(
    engine: &mut E,
    longest: &[usize],
    calls: usize,
) {
    let mut rng = Rng::new();
    for lengths in SORT_LENGTHS {
        for n in [0, 1, 2, 33, 255, 1000, 3071, 3072, 3073] {
            check_sorts::<E, K, V, ALL>(engine, &mut rng, n, lengths, 3);
        }
        for n in [9000, 30_000] {
            check_sorts::<E, K, V, ALL>(engine, &mut rng, n, lengths, calls);
        }
        for &n in longest {
            let n = n + rng.below(1000);
            check_sorts::<E, K, V, ALL>(engine, &mut rng, n, lengths, 1);
        }
    }
}

macro_rules! sort_suites {
    ($($name:ident: $k:ty, $v:ty, $all:literal;)*) => {
        mod on_host {
            use super::*;
            $(
                #[test]
                fn $name() {
                    sort_suite::<_, $k, $v, $all>(&mut OnHost, &[40_000], 1);
                }
            )*
        }
        mod on_device {
            use super::*;
            $(
                #[test]
                fn $name() {
                    let mut engine = or_skip!(OnDevice::new());
                    sort_suite::<_, $k, $v, $all>(&mut engine, &[300_000, 3_000_000], 3);
                }
            )*
        }
    };
}
sort_suites! {
    u8_with_u32: u8, u32, false;
    i16_with_u8: i16, u8, false;
    f16_with_3_bytes: f16, [u8; 3], false;
    u32_with_u32: u32, u32, true;
    i32_with_u64: i32, u64, false;
    f32_with_16_bytes: f32, [u64; 2], false;
    u64_with_u32: u64, u32, false;
    f64_with_12_bytes: f64, [u32; 3], false;
}

/// The property that defines the primitive: a stable sort by (segment, key), here by the sort
/// without segments.
#[test]
fn a_stable_sort_by_segment_and_key() {
    let mut rng = Rng::new();
    for lengths in SORT_LENGTHS {
        let n = 20_000 + rng.below(1000);
        let segments = Segments::draw(&mut rng, n, lengths, true);
        let x: Vec<u32> = keys(&mut rng, Pattern::PowerLaw, n);
        let numbers: Vec<u64> =
            segments.of_scan().enumerate().flat_map(|(s, segment)| segment.map(move |_| s as u64)).collect();
        let composite: Vec<u64> = numbers.iter().zip(&x).map(|(s, &x)| s << 32 | u64::from(x)).collect();
        let expected = sort::<u64>().indices::<u32, _>(&composite).unwrap();
        assert_eq!(sort::<u32>().by_key(&numbers).indices::<u32, _>(&x).unwrap(), expected, "{lengths:?}");
    }
}

#[test]
fn what_cannot_be_sorted() {
    let (mut keys, mut short) = ([5_u32, 4, 3, 2], [0_u32; 3]);
    let error = sort::<u32>().rows(3).run(&keys).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "sort", what: "the last row", .. }), "{error:?}");
    let error = sort::<u32>().segments(&[0_u32, 3, 2]).run_in_place(&mut keys).unwrap_err();
    assert!(matches!(error, Error::Descending { primitive: "sort", index: 2 }), "{error:?}");
    let error = sort::<u32>().segments(&[0_u32, 5]).run_in_place(&mut keys).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "sort", .. }), "{error:?}");
    let error = sort::<u32>().heads(&[1, 0]).run_in_place(&mut keys).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "sort", .. }), "{error:?}");
    let error = sort::<u32>().rows(2).run_into(&keys, &mut short).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "sort", .. }), "{error:?}");
    let error = sort::<u32>().rows(2).bits(3..33).run_in_place(&mut keys).unwrap_err();
    assert!(matches!(error, Error::Bits { .. }), "{error:?}");
    assert_eq!(keys, [5, 4, 3, 2]);
}

#[test]
fn options_of_a_sort_before_and_after() {
    let x = [0x12, 0x31, 0x05, 0x21];
    assert_eq!(sort::<u32>().descending().rows(2).run(&x).unwrap(), [0x31, 0x12, 0x21, 0x05]);
    assert_eq!(sort::<u32>().rows(2).descending().run(&x).unwrap(), [0x31, 0x12, 0x21, 0x05]);
    assert_eq!(sort::<u32>().bits(0..4).rows(4).run(&x).unwrap(), [0x31, 0x21, 0x12, 0x05]);
    assert_eq!(sort::<u32>().rows(4).bits(4..8).run(&x).unwrap(), [0x05, 0x12, 0x21, 0x31]);
}

// ---- on the device alone ------------------------------------------------------------------------

/// 2^27 keys: short segments, long ones, one with half of all, and a single one.
#[test]
fn long_sorts() {
    let mut engine = or_skip!(OnDevice::new());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = (1 << 27) + rng.below(10_000);
    let all = How { descending: false, bits: None };
    for (k, lengths) in
        [Lengths::Below(40), Lengths::Half, Lengths::One, Lengths::Fixed(1 << 20)].into_iter().enumerate()
    {
        let segments = Segments::draw(&mut rng, n, lengths, false);
        let x: Vec<u32> = keys(&mut rng, [Pattern::Random, Pattern::PowerLaw][k % 2], n);
        let kind = [Kind::Offsets32, Kind::Flags, Kind::Offsets64, Kind::Bits32][k];
        let call = [SortCall::Keys, SortCall::KeysInPlace, SortCall::PairsInPlace, SortCall::LocalIndices][k];
        check_sort::<_, u32, u32, true>(&mut engine, &mut rng, &x, &segments, kind, &all, call, &lengths);
    }
}

/// A prepared workspace serves every length and segmentation up to the prepared one, and does not
/// grow.
#[test]
fn prepared_sorts() {
    let OnDevice { stream, mut workspace, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let longest = 3_000_000;
    sort::<u32>().rows(7).prepare(longest, &mut workspace).unwrap();
    sort::<u32>().rows(7).prepare_indices::<u32>(longest, &mut workspace).unwrap();
    let held = workspace.bytes();
    for n in [7, 7000, 70_000, 700_000, longest / 7 * 7] {
        let x: Vec<u32> = noise(&mut rng, n);
        let input = stream.clone_htod(&x).unwrap();
        let mut output = stream.alloc_zeros::<u32>(n).unwrap();
        let mut indices = stream.alloc_zeros::<u32>(n).unwrap();
        for columns in [7, n / 7, n] {
            let how = How { descending: columns == n, bits: None };
            let builder = || how.builder::<u32>().rows(columns);
            let order = sort_oracle(&x, &Segments::rows(n / columns, columns), &how);
            builder().workspace(&mut workspace).run_into(&input, &mut output).unwrap();
            builder().workspace(&mut workspace).indices_into(&input, &mut indices).unwrap();
            let sorted: Vec<u32> = order.iter().map(|&i| x[i]).collect();
            assert_bytes(&stream.clone_dtoh(&output).unwrap(), &sorted, &(n, columns));
            let order: Vec<u32> = order.iter().map(|&i| i as u32).collect();
            assert_bytes(&stream.clone_dtoh(&indices).unwrap(), &order, &(n, columns));
            assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
        }
    }
}

/// Offsets in any order, and past the keys: each part between two of them is sorted, and nothing
/// else changes.
#[test]
fn sanitize_offsets_in_no_order() {
    let OnDevice { stream, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for n in [1, 5000, 400_000] {
        let x: Vec<u32> = noise(&mut rng, n);
        let offsets: Vec<u64> = (0..1 + n / 50).map(|_| rng.next() >> rng.below(64)).collect();
        let [input, mut output] = [&x, &x].map(|x| stream.clone_htod(x).unwrap());
        let offsets = stream.clone_htod(&offsets).unwrap();
        sort::<u32>().segments::<u64, _>(&offsets).run_into(&input, &mut output).unwrap();
        let mut got = stream.clone_dtoh(&output).unwrap();
        let mut expected = x;
        got.sort_unstable();
        expected.sort_unstable();
        assert_bytes(&got, &expected, &n);
    }
}

/// Capture into a CUDA graph, and replays with new keys and other segments each time, in a process
/// of its own: see graph.rs.
#[test]
fn sorts_replayed() {
    if !is_alone(sorts_replayed) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let (n, count) = ((1 << 20) + rng.below(1000), 500);
    let mut workspace = Workspace::new(&stream);
    let input = &mut stream.alloc_zeros::<u32>(n).unwrap();
    let mut indices = stream.alloc_zeros::<u32>(n).unwrap();
    let mut data = stream.alloc_zeros::<f32>(n).unwrap();
    let mut offsets = stream.alloc_zeros::<u32>(count).unwrap();
    let mut flags = stream.alloc_zeros::<u8>(n).unwrap();
    let (by_offsets, by_flags) = (sort::<u32>().segments(&offsets), sort::<f32>().descending().heads(&flags));
    by_offsets.prepare_indices::<u32>(n, &mut workspace).unwrap();
    by_flags.prepare(n, &mut workspace).unwrap();
    let held = workspace.bytes();
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    by_offsets.workspace(&mut workspace).local_indices_into(input, &mut indices).unwrap();
    by_flags.workspace(&mut workspace).run_in_place(&mut data).unwrap();
    let flags_of_graph = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags_of_graph).unwrap().expect("a graph");
    assert_eq!(workspace.bytes(), held, "a prepared workspace does not grow");
    for (replay, lengths) in SORT_LENGTHS.into_iter().enumerate() {
        let (x, y): (Vec<u32>, Vec<f32>) = (keys(&mut rng, Pattern::PowerLaw, n), keys(&mut rng, Pattern::Special, n));
        let mut places: Vec<usize> = (0..count).map(|_| rng.below(n + 1) >> rng.below(3)).collect();
        places.sort_unstable();
        let segments = Segments { n, offsets: places };
        let flagged = Segments::draw(&mut rng, n, lengths, replay % 2 == 0);
        stream.memcpy_htod(&x, input).unwrap();
        stream.memcpy_htod(&y, &mut data).unwrap();
        stream.memcpy_htod(&segments.offsets::<u32>(), &mut offsets).unwrap();
        stream.memcpy_htod(&flagged.flags(&mut rng), &mut flags).unwrap();
        graph.launch().unwrap();
        let order = sort_oracle(&x, &segments, &How { descending: false, bits: None });
        let local = segments
            .of_scan()
            .flat_map(|segment| order[segment.clone()].iter().map(move |&i| (i - segment.start) as u32));
        assert_bytes(&stream.clone_dtoh(&indices).unwrap(), &local.collect::<Vec<_>>(), &replay);
        let order = sort_oracle(&y, &flagged, &How { descending: true, bits: None });
        let sorted: Vec<f32> = order.iter().map(|&i| y[i]).collect();
        assert_bytes(&stream.clone_dtoh(&data).unwrap(), &sorted, &replay);
    }
}

/// A short walk for compute-sanitizer over whole buffers.
#[test]
fn sanitize_sorts() {
    let OnDevice { stream, .. } = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    for (k, n) in [1, 100, 3072, 20_000, 100_001].into_iter().enumerate() {
        for (j, lengths) in
            [Lengths::Below(12), Lengths::Below(300), Lengths::Below(20_000), Lengths::One].into_iter().enumerate()
        {
            let segments = Segments::draw(&mut rng, n, lengths, true);
            let how = How { descending: j % 2 == 0, bits: (k == 3).then_some(3..29) };
            let x: Vec<u32> = keys(&mut rng, PATTERNS[(k + j) % PATTERNS.len()], n);
            let order = sort_oracle(&x, &segments, &how);
            let input = stream.clone_htod(&x).unwrap();
            let offsets = stream.clone_htod(&segments.offsets::<u32>()).unwrap();
            let (sorted, indices) = (
                || how.builder::<u32>().segments::<u32, _>(&offsets),
                order.iter().map(|&i| i as u32).collect::<Vec<_>>(),
            );
            let expected: Vec<u32> = order.iter().map(|&i| x[i]).collect();
            assert_bytes(&stream.clone_dtoh(&sorted().run(&input).unwrap()).unwrap(), &expected, &(n, lengths));
            assert_bytes(
                &stream.clone_dtoh(&sorted().indices::<u32, _>(&input).unwrap()).unwrap(),
                &indices,
                &(n, lengths),
            );
            let wide: Vec<u64> = x.iter().map(|&x| u64::from(x) << 7).collect();
            let wide = stream.clone_htod(&wide).unwrap();
            let wide = sort::<u64>().segments::<u32, _>(&offsets).run(&wide).unwrap();
            let order = sort_oracle(&x, &segments, &How { descending: false, bits: None });
            let expected: Vec<u64> = order.iter().map(|&i| u64::from(x[i]) << 7).collect();
            assert_bytes(&stream.clone_dtoh(&wide).unwrap(), &expected, &(n, lengths));
        }
    }
}
