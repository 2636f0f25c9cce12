//! The operator is called only on inputs, the initial value and its own results. An operator that
//! checks this runs at every length, strategy and option, on both engines.
//!
//! Every such value carries a tag. The memory around the views has none, nor has that behind a number of items that
//! lies in memory. `position` takes the library's operators alone.

use crate::common::engines::{Buffers, OnDevice, OnHost};
use crate::common::process::is_alone;
use crate::common::segments::{Lengths, Segments, reduce_oracle, runs_oracle, scan_oracle};
use crate::common::{Draw, Options, Rng, Sample, assert_same, builder, context, host_tiles, oracle, some_of, stream};
use crate::common::{column_totals, columns_oracle, total};
use crate::scan::check_on_device;
use parascan::{Block, Operator, Strategy, Workspace, reduce, scan};

parascan::element! {
    struct Tagged<V> { value: V, tag: V } for <u8>, <u16>, <u32>, <u64>
}
parascan::element! {
    struct Long<V> { value: V, tag: V, more: V } for <u8>, <u32>, <u64>
}
parascan::element! {
    struct Longest { value: u64, tag: u64, more: u64, most: u64 }
}

/// The tag of a value.
trait Tag {
    fn tag(self) -> Self;
}
macro_rules! tag { ($($v:ident)*) => { $( impl Tag for $v {
    fn tag(self) -> $v { (self as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as $v ^ 0x5a5a_5a5a_5a5a_5a5a_u64 as $v }
} )* } }
tag! { u8 u16 u32 u64 }

/// Checks the tags, then adds. Zeros have no tag.
const ADD: &str = "
    typedef decltype(a.value) V;
    auto tag = [](V x) { return V(V(1ull * x * 0x9e3779b97f4a7c15ull) ^ V(0x5a5a5a5a5a5a5a5aull)); };
    if (a.tag != tag(a.value) || b.tag != tag(b.value)) __trap();
    Carry sum = a;
    sum.value = V(a.value + b.value);
    sum.tag = tag(sum.value);
    return sum;
";

parascan::operator! {
    /// Addition that traps if an operand has no tag.
    struct Add
    on Tagged<u8>, Tagged<u16>, Tagged<u32>, Tagged<u64>, Long<u8>, Long<u32>, Long<u64>, Longest {
        associativity: Exact,
        // SAFETY: the texts operate on unsigned integers; a trap stops the kernel.
        combine: |a, b| {
            assert!(a.tag == a.value.tag() && b.tag == b.value.tag(), "{a:?} and {b:?} are no operands");
            let mut sum = a;
            sum.value = a.value.wrapping_add(b.value);
            sum.tag = sum.value.tag();
            sum
        } => unsafe ADD,
    }
    on u32 {
        associativity: Exact,
        carry: Long<u32>,
        lift: |x| Long { value: x, tag: x.tag(), more: 0 } => unsafe "{ x, (x * 0x7f4a7c15u) ^ 0x5a5a5a5au, 0 }",
        lower: |x| x.value => unsafe "x.value",
        combine: |a, b| {
            assert!(a.tag == a.value.tag() && b.tag == b.value.tag(), "{a:?} and {b:?} are no operands");
            let mut sum = a;
            sum.value = a.value.wrapping_add(b.value);
            sum.tag = sum.value.tag();
            sum
        } => unsafe ADD,
    }
}

/// Tagged values; random bits have no tag.
trait Draws: Sample {
    fn tagged(rng: &mut Rng) -> Self;
}
macro_rules! draws { ($($t:ty: |$value:ident: $v:ident| $tagged:expr;)*) => { $(
    impl Sample for $t {
        fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
            let $value = rng.next() as $v;
            let mut untagged = $tagged;
            untagged.tag = !untagged.tag;
            untagged
        }
        fn same(self, other: Self) -> bool { self == other }
    }
    impl Draws for $t {
        fn tagged(rng: &mut Rng) -> Self {
            let $value = rng.next() as $v;
            $tagged
        }
    }
)* } }
draws! {
    Tagged<u8>: |value: u8| Tagged { value, tag: value.tag() };
    Tagged<u16>: |value: u16| Tagged { value, tag: value.tag() };
    Tagged<u32>: |value: u32| Tagged { value, tag: value.tag() };
    Tagged<u64>: |value: u64| Tagged { value, tag: value.tag() };
    Long<u8>: |value: u8| Long { value, tag: value.tag(), more: 1 };
    Long<u32>: |value: u32| Long { value, tag: value.tag(), more: 2 };
    Long<u64>: |value: u64| Long { value, tag: value.tag(), more: 3 };
    Longest: |value: u64| Longest { value, tag: value.tag(), more: 4, most: 5 };
}
impl Draws for u32 {
    fn tagged(rng: &mut Rng) -> u32 {
        rng.next() as u32
    }
}

fn options<T: Draws>(rng: &mut Rng) -> Vec<Options<T>> {
    let mut all = Vec::new();
    for reverse in [false, true] {
        all.push(Options { exclusive: false, init: None, reverse });
        all.push(Options { exclusive: false, init: Some(T::tagged(rng)), reverse });
        all.push(Options { exclusive: true, init: Some(T::tagged(rng)), reverse });
    }
    all
}

fn lengths<T>() -> Vec<usize> {
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    let mut lengths = vec![1, 2, 31, 33, tile - 1, tile, tile + 1, 5 * tile + 7, 33 * tile + 5];
    // Beyond the first two ranges of lengths, each of which has a kernel of its own.
    lengths.extend([4 << 20, 32 << 20].map(|bytes| bytes / size_of::<T>() + 77));
    lengths
}

fn on_host<T: Draws>()
where
    Add: Operator<T>,
{
    let mut rng = Rng::new();
    // The ranges of lengths, and the numbers of tiles, are the device's.
    let several = host_tiles::<T>(&mut rng);
    for n in lengths::<T>().into_iter().filter(|n| n * size_of::<T>() < 1 << 17).chain([several]) {
        let input: Vec<T> = (0..n).map(|_| T::tagged(&mut rng)).collect();
        for options in some_of(options::<T>(&mut rng), n, &mut rng) {
            let mut scan = scan::<Add, T>();
            if let Some(init) = options.init {
                scan = if options.exclusive { scan.exclusive_from(init) } else { scan.init(init) };
            }
            let scan = if options.reverse { scan.reverse() } else { scan };
            let expected = oracle::<Add, T>(&input, options);
            assert_same(&scan.run(&input).unwrap(), &expected, &(n, options));
            let mut in_place = input.clone();
            scan.run_in_place(&mut in_place).unwrap();
            assert_same(&in_place, &expected, &("in place", n, options));
        }
    }
}

fn on_device<T: Draws>()
where
    Add: Operator<T>,
{
    const BLOCK: Block = Block::WarpShuffles;
    let stream = stream().expect("the parent has seen a device");
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    for strategy in [Strategy::Auto, Strategy::LookBack(BLOCK), Strategy::Hierarchical(BLOCK)] {
        for n in lengths::<T>() {
            let input: Vec<T> = (0..n).map(|_| T::tagged(&mut rng)).collect();
            for (k, options) in options::<T>(&mut rng).into_iter().enumerate() {
                let skips = [(0, 0), (1, 0), (0, 1), (3, 5)][rng.below(4)];
                let (rng, workspace) = (&mut rng, &mut workspace);
                check_on_device::<Add, T>(rng, &stream, workspace, &input, options, strategy, skips, k % 3 == 2);
            }
        }
    }
}

/// The first `n` items are tagged, the others are not.
fn tagged_upto<T: Draws>(rng: &mut Rng, n: usize, most: usize) -> Vec<T> {
    (0..most).map(|i| if i < n { T::tagged(rng) } else { T::draw(rng, Draw::Any, i) }).collect()
}

/// Reductions of `n` items, and scans and reductions of the first of as many.
fn check_items<E: Buffers, T: Draws>(engine: &E, rng: &mut Rng, n: usize)
where
    Add: Operator<T>,
{
    let x: Vec<T> = tagged_upto(rng, n, n);
    let from = engine.put(&x);
    let view = engine.view(&from, 0..n);
    for init in [None, Some(T::tagged(rng))] {
        let mut to = engine.put(&[T::draw(rng, Draw::Any, 0)]);
        let sum = init.map_or(reduce::<Add, T>(), |init| reduce::<Add, T>().init(init));
        sum.run_into(&view, &mut engine.view_mut(&mut to, 0..1)).unwrap();
        assert_same(&engine.get(&to), &[total::<Add, T>(&x, init).expect("there are items")], &(n, init));
    }
    for count in [0, 1, rng.below(n + 1), n] {
        let x: Vec<T> = tagged_upto(rng, count.min(n), n);
        let (from, length) = (engine.put(&x), engine.put(&[count as u64]));
        let (view, length) = (engine.view(&from, 0..n), engine.view(&length, 0..1));
        let (items, init) = (&x[..count.min(n)], T::tagged(rng));
        let mut to = engine.put(&[T::draw(rng, Draw::Any, 0)]);
        let sum = reduce::<Add, T>().init(init).len(&length);
        sum.run_into(&view, &mut engine.view_mut(&mut to, 0..1)).unwrap();
        let expected = total::<Add, T>(items, Some(init)).expect("an initial value");
        assert_same(&engine.get(&to), &[expected], &("the first", count, n));

        let all = options::<T>(rng);
        let options = all[rng.below(all.len())];
        let mut to = engine.put(&x);
        builder::<Add, T>(options).len(&length).run_into(&view, &mut engine.view_mut(&mut to, 0..n)).unwrap();
        let expected = [&oracle::<Add, T>(items, options), &x[items.len()..]].concat();
        assert_same(&engine.get(&to), &expected, &("the first", count, n, options));
    }
}

/// Scans and reductions by column, of all rows and of the first ones.
fn check_columns<E: Buffers, T: Draws>(engine: &E, rng: &mut Rng, [rows, columns]: [usize; 2])
where
    Add: Operator<T>,
{
    let most = rows * columns;
    let all = options::<T>(rng);
    for count in [None, Some(0), Some(rng.below(most + 1)), Some(most)] {
        let n = count.unwrap_or(most) / columns * columns;
        let x: Vec<T> = tagged_upto(rng, n, most);
        let (from, length) = (engine.put(&x), engine.put(&[count.unwrap_or(0) as u64]));
        let (view, length) = (engine.view(&from, 0..most), engine.view(&length, 0..1));
        let (options, init) = (all[rng.below(all.len())], T::tagged(rng));
        let what = (rows, columns, count, options);
        let (mut scanned, mut reduced) = (engine.put(&x), engine.put(&x[..columns]));
        let (mut to, mut totals) = (engine.view_mut(&mut scanned, 0..most), engine.view_mut(&mut reduced, 0..columns));
        let scan = builder::<Add, T>(options).columns(columns);
        let sum = reduce::<Add, T>().init(init).columns(columns);
        if count.is_some() {
            scan.len(&length).run_into(&view, &mut to).unwrap();
            sum.len(&length).run_into(&view, &mut totals).unwrap();
        } else {
            scan.run_into(&view, &mut to).unwrap();
            sum.run_into(&view, &mut totals).unwrap();
        }
        drop((to, totals));
        let expected = [&columns_oracle::<Add, T>(&x[..n], columns, options), &x[n..]].concat();
        assert_same(&engine.get(&scanned), &expected, &what);
        let expected = column_totals::<Add, T>(&x[..n], columns, Some(init)).expect("an initial value");
        assert_same(&engine.get(&reduced), &expected, &("totals", what));
    }
}

/// Scans and reductions of these segments, by each kind.
fn check_segments<E: Buffers, T: Draws>(engine: &E, rng: &mut Rng, segments: &Segments, columns: Option<usize>)
where
    Add: Operator<T>,
{
    let n = segments.n;
    let x: Vec<T> = tagged_upto(rng, n, n);
    let all = options::<T>(rng);
    let (options, init) = (all[rng.below(all.len())], T::tagged(rng));
    let what = (n, segments.offsets.len(), columns, options);
    let (from, offsets) = (engine.put(&x), engine.put(&segments.offsets::<u32>()));
    let (flags, keys) = (engine.put(&segments.flags(rng)), engine.put(&segments.keys::<u16>(rng)));
    let (view, offsets) = (engine.view(&from, 0..n), engine.view(&offsets, 0..segments.offsets.len()));
    let (flags, keys) = (engine.view(&flags, 0..n), engine.view(&keys, 0..n));
    let (scanned, reduced) =
        (scan_oracle::<Add, T>(&x, segments, options), reduce_oracle::<Add, T>(&x, segments, Some(init), init));
    let runs = runs_oracle::<Add, T>(&x, segments, Some(init));
    let (scan, sum) = (|| builder::<Add, T>(options), || reduce::<Add, T>().init(init));
    let untagged: Vec<T> = tagged_upto(rng, 0, n.max(segments.offsets.len()));
    macro_rules! check {
        ($builder:expr, $expected:expr, $kind:literal $(, $count:ident)?) => {{
            let (mut to, expected) = (engine.put(&untagged), $expected);
            $( let mut $count = engine.put(&[0_u64]); )?
            $builder
                .run_into(&view, &mut engine.view_mut(&mut to, 0..n.max(expected.len())) $(, &mut engine.view_mut(&mut $count, 0..1))?)
                .unwrap();
            assert_same(&engine.get(&to)[..expected.len()], expected, &($kind, what));
        }};
    }
    if let Some(columns) = columns {
        check!(scan().rows(columns), &scanned, "rows");
        check!(sum().rows(columns), &reduced, "totals of rows");
        return;
    }
    check!(scan().segments(&offsets), &scanned, "offsets");
    check!(scan().heads(&flags), &scanned, "flags");
    check!(sum().segments(&offsets), &reduced, "totals by offsets");
    check!(sum().heads(&flags), &runs, "totals by flags", count);
    check!(sum().by_key(&keys), &runs, "totals by keys", count);
}

/// Narrow matrices are sequences of rows, others panels of columns. The last has `tallest` rows.
fn reductions<E: Buffers, T: Draws>(engine: &E, lengths: &[usize], tallest: usize)
where
    Add: Operator<T>,
{
    let mut rng = Rng::new();
    for &n in lengths {
        check_items::<E, T>(engine, &mut rng, n);
    }
    for columns in [2, 33] {
        for rows in [1, 2, 100, tallest] {
            check_columns::<E, T>(engine, &mut rng, [rows, columns]);
        }
    }
    // Each way of the kernels: one block, short inputs, whole segments by warps and blocks, pieces, and the walk.
    for &n in lengths {
        for cut in [Lengths::Below(5), Lengths::Below(40), Lengths::Below(5000), Lengths::Half, Lengths::One] {
            check_segments::<E, T>(engine, &mut rng, &Segments::draw(&mut Rng::new(), n, cut, true), None);
        }
        for columns in [1, 5, 100, 1100, 9300, 70_000] {
            let rows = n / columns;
            check_segments::<E, T>(engine, &mut rng, &Segments::rows(rows, columns), Some(columns));
        }
    }
}

fn reductions_on_device<T: Draws>()
where
    Add: Operator<T>,
{
    // Items of 8 bytes in all ranges of lengths; more items would take the oracle seconds.
    let lengths: Vec<usize> = lengths::<T>().into_iter().filter(|&n| n < 5_000_000).collect();
    let engine = OnDevice::new().expect("the parent has seen a device");
    reductions::<_, T>(&engine, &lengths, 20_001);
    // As many pieces as a scan may have, with a long segment that reaches into the last one.
    let n = (4 << 20) / size_of::<T>();
    let offsets: Vec<usize> = (0..100).map(|k| k * n / 200).chain([n - 13_000, n]).collect();
    for _ in 0..4 {
        check_segments::<_, T>(&engine, &mut Rng::new(), &Segments { n, offsets: offsets.clone() }, None);
    }
}

#[test]
fn reductions_on_the_host() {
    const LENGTHS: [usize; 6] = [1, 2, 31, 33, 4097, 50_001];
    reductions::<_, Tagged<u32>>(&OnHost, &LENGTHS, 3001);
    reductions::<_, Long<u8>>(&OnHost, &LENGTHS, 3001);
    reductions::<_, u32>(&OnHost, &LENGTHS, 3001);
}

#[test]
fn reductions_on_the_device() {
    if context().is_some() && is_alone(reductions_on_the_device) {
        reductions_on_device::<Tagged<u32>>();
        reductions_on_device::<Long<u8>>();
        reductions_on_device::<u32>();
    }
}

#[test]
fn on_the_host() {
    on_host::<Tagged<u8>>();
    on_host::<Tagged<u16>>();
    on_host::<Tagged<u32>>();
    on_host::<Tagged<u64>>();
    on_host::<Long<u8>>();
    on_host::<Long<u32>>();
    on_host::<Longest>();
    on_host::<u32>();
}

/// A trap destroys the context, so this runs in a process of its own.
#[test]
fn on_the_device() {
    if context().is_some() && is_alone(on_the_device) {
        on_device::<Tagged<u8>>();
        on_device::<Tagged<u16>>();
        on_device::<Tagged<u32>>();
        on_device::<Tagged<u64>>();
        on_device::<u32>();
    }
}

/// Sizes that do not divide a vector of 16 bytes.
#[test]
fn on_the_device_of_other_sizes() {
    if context().is_some() && is_alone(on_the_device_of_other_sizes) {
        on_device::<Long<u8>>();
        on_device::<Long<u32>>();
        on_device::<Long<u64>>();
        on_device::<Longest>();
    }
}

/// The operator does check: zeros have no tag.
#[test]
#[should_panic(expected = "are no operands")]
fn a_value_without_a_tag() {
    let _ = scan::<Add, Tagged<u32>>().run(&[Tagged { value: 0, tag: 0 }; 2]);
}
