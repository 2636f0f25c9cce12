//! The tile pipeline: a source makes carries, the pipeline combines them in order, and a sink is
//! given the results.
//!
//! A tile is summed, handed over and scanned while it is in the L2 cache. Inside it, [`RUNS`] runs
//! of neighbouring items advance side by side, a block of items at a time, so the processor works
//! on one run while the additions of the others are in flight. Operators that have a vector
//! instruction take the tile as a single run (`lanes.rs`).

use super::{
    handover::{hand_over_ahead, in_order},
    lanes, threshold,
};
use crate::operator::Lanes;
use crate::{Associativity, Element, Operator};
use std::{any::TypeId, array, marker::PhantomData, ops::Range, sync::OnceLock};

/// Where the items of a [`pipeline`] come from. `C` is the operator's carry.
///
/// A pipeline of `n` items reads each `i < n` once or twice, and never after item `i` is put. So a
/// sink may overwrite item `i` of the source with the result for item `i`.
///
/// Sources are copied into the inner loops: make them a few pointers, lengths and references.
pub trait Source<C>: Copy + Sync {
    /// An item, which is passed on to the sink.
    type Item;
    /// Reads item `i`.
    fn item(&self, i: usize) -> Self::Item;
    /// Reads the items `i..i + L`.
    #[inline(always)]
    fn items<const L: usize>(&self, i: usize) -> [Self::Item; L] {
        array::from_fn(|lane| self.item(i + lane))
    }
    /// The carry of one item alone.
    fn carry(&self, item: &Self::Item) -> C;

    /// This thread will read the `count` items from `i` on soon, and the source may prefetch them.
    /// Some of them may not exist.
    #[inline(always)]
    fn prefetch(&self, i: usize, count: usize) {
        let _ = (i, count);
    }
}

/// Where the results of a [`pipeline`] go. `I` is the source's item, `C` the operator's carry.
///
/// Sinks are copied into the inner loops, as sources are.
pub trait Sink<I, C>: Copy + Sync {
    /// Takes the results for item `i`: `exclusive` combines the initial value and all items before
    /// `i`, `inclusive` the same and item `i`. Only the first item, and only without an initial
    /// value, has no `exclusive`.
    ///
    /// A pipeline of `n` items calls it once for each `i < n`, in any order and on several threads.
    fn put(&self, i: usize, item: I, exclusive: Option<C>, inclusive: C);

    /// [`put`](Sink::put) for the items `i..i + L`, in one call: the sink may write them together.
    #[inline(always)]
    fn put_vector<const L: usize>(&self, i: usize, items: [I; L], exclusive: [C; L], inclusive: [C; L])
    where
        C: Copy,
    {
        for (lane, item) in items.into_iter().enumerate() {
            self.put(i + lane, item, Some(exclusive[lane]), inclusive[lane]);
        }
    }

    /// Item `i` and those after it are about to be put: the sink may prefetch what it will write.
    #[inline(always)]
    fn expect(&self, i: usize) {
        let _ = i;
    }

    /// How many items, from `i` on, lie before the first that begins a cache line of what the sink
    /// writes. The pipeline tries to put whole lines without pause.
    #[inline(always)]
    fn lead(&self, i: usize) -> usize {
        let _ = i;
        0
    }

    /// This thread has put all items of a tile. The sink does what must happen before other threads
    /// read them. Not called after a panic.
    #[inline(always)]
    fn flush(&self) {}
}

/// Reads `n` items from `source`, combines their carries in order by `Op`, and gives `sink` the
/// prefixes of each.
///
/// `init`, if there is one, comes before the first item. Returns the combination of everything,
/// which is the last inclusive prefix; without items it is `init`. `T` only selects the operator:
/// items may be of any type.
///
/// Works on the threads of rayon's current pool and returns when all is done. Inputs of up to 256
/// KiB stay on the calling thread and allocate nothing. By several threads items are read twice, the second time from
/// the cache, and combined about twice, so the memory moved is what the source reads and the sink
/// writes, once. Operators of the catalog that are one instruction on integers (a maximum of 64
/// bits is two) run in vector registers where the processor has AVX2. A panic of the operator, the
/// source or the sink reaches the caller; some items have been put then. Any of them may enter
/// rayon or another pipeline.
///
/// # Same bits
///
/// How partial results are grouped follows from `n` and the types alone, never from the number of
/// threads or from timing. A tile is 8 runs of 32 832 bytes of items (of `max(1, 32832 / size)`
/// items), the last tile what is left. A tile of at least 128 items is cut into 8 runs of `len / 8`
/// items, the last run with the remainder; a shorter one is a single run. Then, with every bracket
/// closed from the left:
///
/// - a run's sum is `x0 + x1 + x2 ...`, a tile's aggregate is the sum of its runs' sums;
/// - a tile's prefix is `init + tile0 + tile1 ...`, a run's prefix is `tile's prefix + run0 + run1
///   ...`;
/// - item `k` of a run is given `run's prefix + x0 + ... + xk`.
///
/// Operators that are exactly associative may be grouped in any other way.
///
/// # Source
///
/// Tiles are joined by [`hand_over`](super::hand_over). The cut into runs is the
/// "scan-then-propagate by columns" of vector processors (Chatterjee, Blelloch and Zagha, "Scan
/// Primitives for Vector Computers", 1990), inside one tile.
///
/// # Example
/// ```
/// use parascan::{Sum, cpu::{Sink, Source, pipeline}};
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// /// Counts odd items.
/// #[derive(Clone, Copy)]
/// struct Odd<'a>(&'a [u32]);
/// impl Source<usize> for Odd<'_> {
///     type Item = u32;
///     fn item(&self, i: usize) -> u32 { self.0[i] }
///     fn carry(&self, item: &u32) -> usize { (item % 2) as usize }
/// }
/// /// Writes each counted item to the index that is its exclusive prefix.
/// #[derive(Clone, Copy)]
/// struct Scatter<'a>(&'a [AtomicU32]);
/// impl Sink<u32, usize> for Scatter<'_> {
///     fn put(&self, _: usize, item: u32, exclusive: Option<usize>, inclusive: usize) {
///         let index = exclusive.unwrap_or(0);
///         if index < inclusive { self.0[index].store(item, Relaxed) }
///     }
/// }
/// let numbers = [3, 4, 7, 8, 8, 9];
/// let odd = [const { AtomicU32::new(0) }; 6];
/// let count = pipeline::<Sum, usize, _, _>(numbers.len(), None, Odd(&numbers), Scatter(&odd));
/// assert_eq!(count, Some(3));
/// assert_eq!(odd.map(AtomicU32::into_inner)[..3], [3, 7, 9]);
/// ```
pub fn pipeline<Op, T, Src, Snk>(n: usize, init: Option<Op::Carry>, source: Src, sink: Snk) -> Option<Op::Carry>
where
    Op: Operator<T>,
    T: Element,
    Src: Source<Op::Carry>,
    Snk: Sink<Src::Item, Op::Carry>,
{
    shaped::<Op, T, Src, Snk, false>(n, init, source, sink, Shape::of::<Src::Item>())
}

/// Runs in a tile. Eight cover the latency of a float addition (4 cycles, two a cycle).
pub(super) const RUNS: usize = 8;
/// A run that is shorter than this is not worth its start.
pub(super) const SHORTEST_RUN: usize = 16;
/// Rows that advance side by side: as many as hide the time of an addition.
pub(super) const ROWS: usize = 4;
/// Items of one run before the next run's turn: enough to finish a cache line, few enough that the
/// processor's window spans several runs.
const BLOCK: usize = 16;
/// Bytes of a run of a full tile: 513 cache lines. Eight of them are an eighth of a 2 MiB L2 cache.
/// A power of two would put the runs into the same sets of the L1 cache.
const RUN_BYTES: usize = threshold(513 * 64);
/// Bytes of input up to which a second thread does not pay.
pub(crate) const SMALL_BYTES: usize = threshold(256 << 10);

/// The sizes that the items' type decides.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Items in a tile.
    pub(super) tile: usize,
    /// Items up to which the calling thread does all work.
    pub(super) small: usize,
}

impl Shape {
    pub(super) const fn of<I>() -> Shape {
        let size = if size_of::<I>() == 0 { 1 } else { size_of::<I>() };
        let run = if size > RUN_BYTES { 1 } else { RUN_BYTES / size };
        Shape { tile: RUNS * run, small: SMALL_BYTES / size }
    }
}

/// [`pipeline`] with tiles of a given shape.
///
/// # Panics
/// With `IN_LANES`, unless [`lanes::has`] the operator.
pub(super) fn shaped<Op, T, Src, Snk, const IN_LANES: bool>(
    n: usize,
    init: Option<Op::Carry>,
    source: Src,
    sink: Snk,
    shape: Shape,
) -> Option<Op::Carry>
where
    Op: Operator<T>,
    T: Element,
    Src: Source<Op::Carry>,
    Snk: Sink<Src::Item, Op::Carry>,
{
    let steps = Steps { source, sink, combine: Op::combine };
    // Constants, so that vectors are not compiled for other operators, nor runs where the caller
    // asks for vectors.
    if const { !matches!(Op::LANES, Lanes::No) } && lanes::has::<Op, T>() {
        let tiles = InLanes { steps, operator: PhantomData::<fn(Op, T)> };
        return joined(n, init, &tiles, Op::combine, Op::ASSOCIATIVITY, shape);
    }
    if const { IN_LANES } {
        unreachable!("the operator is no instruction")
    }
    joined(n, init, &InRuns { steps }, Op::combine, Op::ASSOCIATIVITY, shape)
}

/// The work on one tile. Sources, sinks and operators are hidden behind it, so the code that joins
/// tiles is compiled once for each type of carry.
trait Tiles<C>: Sync {
    /// The sum of a tile, and those of its runs.
    fn fold(&self, tile: Cut) -> (C, [C; RUNS]);
    /// Scans a tile, given the sums of its runs, and returns its last prefix. Meanwhile the tile
    /// `upcoming` is prefetched, or folded: then the second result is its fold.
    fn scan(&self, tile: Cut, prefix: Option<C>, sums: [C; RUNS], upcoming: Option<Cut>)
    -> (C, Option<(C, [C; RUNS])>);
}

/// Joins tiles by the hand-over.
fn joined<C: Element>(
    n: usize,
    init: Option<C>,
    tiles: &dyn Tiles<C>,
    combine: fn(C, C) -> C,
    associativity: Associativity,
    shape: Shape,
) -> Option<C> {
    if n == 0 {
        return init;
    }
    // The length first: asking rayon for its threads would start them.
    let small = n <= shape.small;
    if associativity == Associativity::Exact && (small || rayon::current_num_threads() == 1) {
        return Some(tiles.scan(Cut { from: 0, len: n, run: 0 }, init, [C::zeroed(); RUNS], None).0);
    }
    let count = n.div_ceil(shape.tile);
    let cut = |tile: usize| Cut::new(tile * shape.tile, shape.tile.min(n - tile * shape.tile));
    let total = OnceLock::new();
    let aggregate = |tile: usize| tiles.fold(cut(tile));
    let combine = |earlier: &C, later: &C| combine(*earlier, *later);
    let finish = |tile: usize, prefix: Option<&C>, sums: [C; RUNS], next: Option<usize>| {
        let (last, folded) = tiles.scan(cut(tile), prefix.copied(), sums, next.map(cut));
        if tile == count - 1 {
            total.get_or_init(|| last);
        }
        folded
    };
    if small {
        in_order(count, init, aggregate, combine, finish);
    } else {
        hand_over_ahead(count, init, aggregate, combine, finish);
    }
    total.into_inner()
}

/// Tiles that are scanned in runs.
struct InRuns<Src, Snk, F> {
    steps: Steps<Src, Snk, F>,
}

impl<C, Src, Snk, F> Tiles<C> for InRuns<Src, Snk, F>
where
    C: Copy,
    Src: Source<C>,
    Snk: Sink<Src::Item, C>,
    F: Fn(C, C) -> C + Copy + Sync,
{
    fn fold(&self, tile: Cut) -> (C, [C; RUNS]) {
        fold(self.steps.source, self.steps.combine, tile)
    }
    fn scan(
        &self,
        tile: Cut,
        prefix: Option<C>,
        sums: [C; RUNS],
        upcoming: Option<Cut>,
    ) -> (C, Option<(C, [C; RUNS])>) {
        let last = self.steps.scan(tile, prefix, sums, upcoming.map(|tile| tile.from));
        self.steps.sink.flush();
        (last, None)
    }
}

/// Tiles that are scanned by vectors.
struct InLanes<Src, Snk, F, O> {
    steps: Steps<Src, Snk, F>,
    operator: PhantomData<O>,
}

impl<Op, T, Src, Snk, F> Tiles<Op::Carry> for InLanes<Src, Snk, F, fn(Op, T)>
where
    Op: Operator<T>,
    T: Element,
    Src: Source<Op::Carry>,
    Snk: Sink<Src::Item, Op::Carry>,
    F: Fn(Op::Carry, Op::Carry) -> Op::Carry + Copy + Sync,
{
    fn fold(&self, tile: Cut) -> (Op::Carry, [Op::Carry; RUNS]) {
        fold(self.steps.source, self.steps.combine, tile)
    }
    fn scan(
        &self,
        tile: Cut,
        prefix: Option<Op::Carry>,
        _: [Op::Carry; RUNS],
        upcoming: Option<Cut>,
    ) -> (Op::Carry, Option<(Op::Carry, [Op::Carry; RUNS])>) {
        let upcoming = upcoming.map(|next| next.from..next.from + next.len);
        // For one thread alone, two lanes take longer than a loop, unless items have to be
        // converted.
        let is_loop = tile.run == 0 && size_of::<Op::Carry>() == 8 && TypeId::of::<Op::Carry>() == TypeId::of::<T>();
        let (last, sum) = if is_loop {
            (self.steps.scan_run(tile.from, tile.len, prefix), None)
        } else {
            lanes::scan::<Op, T, _, _, _>(self.steps, tile.from, tile.len, prefix, upcoming)
        };
        self.steps.sink.flush();
        (last, sum.map(|sum| (sum, [sum; RUNS])))
    }
}

/// A tile's items and their cut into runs.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    from: usize,
    len: usize,
    /// Items in each run but the last, which also has the remainder. 0: the tile is a single run.
    run: usize,
}

impl Cut {
    pub(super) fn new(from: usize, len: usize) -> Cut {
        Cut { from, len, run: if len < RUNS * SHORTEST_RUN { 0 } else { len / RUNS } }
    }
}

/// The source, the sink and the operator, for the inner loops.
#[derive(Clone, Copy)]
pub(super) struct Steps<Src, Snk, F> {
    pub(super) source: Src,
    pub(super) sink: Snk,
    pub(super) combine: F,
}

impl<Src, Snk, F> Steps<Src, Snk, F> {
    /// The carry of item `i`.
    #[inline(always)]
    pub(super) fn carry<C>(&self, i: usize) -> C
    where
        Src: Source<C>,
    {
        self.source.carry(&self.source.item(i))
    }

    /// Puts item `i`, and returns its inclusive prefix.
    #[inline(always)]
    pub(super) fn put<C>(&self, i: usize, exclusive: Option<C>) -> C
    where
        C: Copy,
        Src: Source<C>,
        Snk: Sink<Src::Item, C>,
        F: Fn(C, C) -> C,
    {
        let item = self.source.item(i);
        let carry = self.source.carry(&item);
        let inclusive = match exclusive {
            Some(earlier) => (self.combine)(earlier, carry),
            None => carry,
        };
        self.sink.put(i, item, exclusive, inclusive);
        inclusive
    }

    /// Scans one run of at least one item, and returns its last prefix.
    pub(super) fn scan_run<C>(self, from: usize, len: usize, prefix: Option<C>) -> C
    where
        C: Copy,
        Src: Source<C>,
        Snk: Sink<Src::Item, C>,
        F: Fn(C, C) -> C,
    {
        let first = self.put(from, prefix);
        let mut sum = first;
        for i in from + 1..from + len {
            sum = self.put(i, Some(sum));
        }
        sum
    }

    /// Scans [`ROWS`] neighbouring rows of `columns` items, at least one, each from `first` on. They advance side by
    /// side, an item of each at a time.
    pub(super) fn scan_rows<C>(self, from: usize, columns: usize, first: Option<C>)
    where
        C: Copy,
        Src: Source<C>,
        Snk: Sink<Src::Item, C>,
        F: Fn(C, C) -> C,
    {
        let mut sums: [C; ROWS] = array::from_fn(|row| self.put(from + row * columns, first));
        for i in from + 1..from + columns {
            for (row, sum) in sums.iter_mut().enumerate() {
                *sum = self.put(i + row * columns, Some(*sum));
            }
        }
    }

    /// Prefetches these items and the places of their results.
    #[inline(never)]
    pub(super) fn prefetch<C>(self, items: Range<usize>)
    where
        Src: Source<C>,
        Snk: Sink<Src::Item, C>,
    {
        for i in items.step_by(BLOCK) {
            self.source.prefetch(i, BLOCK);
            self.sink.expect(i);
        }
    }

    /// Scans a tile, given the sums of its runs, and returns its last prefix. Meanwhile the tile at
    /// `upcoming` is prefetched, so memory is read while it is written.
    pub(super) fn scan<C>(self, cut: Cut, prefix: Option<C>, sums: [C; RUNS], upcoming: Option<usize>) -> C
    where
        C: Copy,
        Src: Source<C>,
        Snk: Sink<Src::Item, C>,
        F: Fn(C, C) -> C,
    {
        if cut.run == 0 {
            return self.scan_run(cut.from, cut.len, prefix);
        }
        // Loops instead of closures: this is compiled for each operator and element.
        let mut firsts = sums;
        let mut prefix = prefix;
        for r in 0..RUNS {
            firsts[r] = self.put(cut.from + r * cut.run, prefix);
            // No run follows the last one, so its sum is not combined.
            if r < RUNS - 1 {
                prefix = Some(match prefix {
                    Some(earlier) => (self.combine)(earlier, sums[r]),
                    None => sums[r],
                });
            }
        }
        let mut upcoming = upcoming;
        let begin = |i| {
            self.sink.expect(i);
            if let Some(upcoming) = &mut upcoming {
                self.source.prefetch(*upcoming, BLOCK);
                *upcoming += BLOCK;
            }
        };
        let lasts = side_by_side(cut, firsts, begin, |i, sum| self.put(i, Some(sum)));
        lasts[RUNS - 1]
    }
}

/// Whether the processor does not foresee the lines of memory that [`Steps::scan_rows`] needs: rows of `columns` items
/// share a page, in which no line follows the one before.
pub(super) fn are_unforeseen(columns: usize) -> bool {
    (5 * BLOCK..32 * BLOCK).contains(&columns)
}

/// The sum of a tile, and those of its runs.
pub(super) fn fold<C: Copy, Src: Source<C>>(source: Src, combine: impl Fn(C, C) -> C, cut: Cut) -> (C, [C; RUNS]) {
    let carry = |i: usize| source.carry(&source.item(i));
    if cut.run == 0 {
        let mut sum = carry(cut.from);
        for i in cut.from + 1..cut.from + cut.len {
            sum = combine(sum, carry(i));
        }
        return (sum, [sum; RUNS]);
    }
    let mut firsts = [carry(cut.from); RUNS];
    for (r, first) in firsts.iter_mut().enumerate().skip(1) {
        *first = carry(cut.from + r * cut.run);
    }
    let sums = side_by_side(cut, firsts, |_| {}, |i, sum| combine(sum, carry(i)));
    let mut sum = sums[0];
    for &run in &sums[1..] {
        sum = combine(sum, run);
    }
    (sum, sums)
}

/// Takes every run of a tile from the state after its first item to the one after its last, by
/// `step(i, state)`. `begin(i)` is called before each block of items.
#[inline(always)]
fn side_by_side<C: Copy>(
    Cut { from, len, run }: Cut,
    mut states: [C; RUNS],
    mut begin: impl FnMut(usize),
    step: impl Fn(usize, C) -> C,
) -> [C; RUNS] {
    let mut done = 1;
    while done + BLOCK <= run {
        for (r, state) in states.iter_mut().enumerate() {
            let from = from + r * run + done;
            begin(from);
            for i in from..from + BLOCK {
                *state = step(i, *state);
            }
        }
        done += BLOCK;
    }
    for (r, state) in states.iter_mut().enumerate() {
        let to = if r == RUNS - 1 { from + len } else { from + (r + 1) * run };
        for i in from + r * run + done..to {
            *state = step(i, *state);
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::random::noise;
    use crate::cpu::threads::on_threads;
    use crate::{Last, Max, Sum};
    use std::sync::Mutex;

    /// Tiles of a few items, so that a test has many.
    pub(super) const TINY: Shape = Shape { tile: RUNS * SHORTEST_RUN, small: 0 };

    #[derive(Clone, Copy)]
    struct Items<'a, T>(&'a [T]);
    impl<T: Element> Source<T> for Items<'_, T> {
        type Item = T;
        fn item(&self, i: usize) -> T {
            self.0[i]
        }
        fn carry(&self, item: &T) -> T {
            *item
        }
    }

    type Put<T> = Option<(T, Option<T>, T)>;

    #[derive(Clone, Copy)]
    struct Seen<'a, T>(&'a Mutex<Vec<Put<T>>>);
    impl<T: Element> Sink<T, T> for Seen<'_, T> {
        fn put(&self, i: usize, item: T, exclusive: Option<T>, inclusive: T) {
            let twice = self.0.lock().unwrap()[i].replace((item, exclusive, inclusive));
            assert!(twice.is_none(), "item {i} was put twice");
        }
    }

    fn run<Op, T>(items: &[T], init: Option<T>, shape: Shape, threads: usize) -> (Vec<Put<T>>, Option<T>)
    where
        T: Element,
        Op: Operator<T, Carry = T>,
    {
        let seen = Mutex::new(vec![None; items.len()]);
        let mut total = None;
        on_threads(threads, || {
            total = shaped::<Op, T, _, _, false>(items.len(), init, Items(items), Seen(&seen), shape);
        });
        (seen.into_inner().unwrap(), total)
    }

    /// The grouping, as the documentation of `pipeline` states it.
    fn grouped(items: &[f32], init: Option<f32>, tile: usize) -> (Vec<Put<f32>>, Option<f32>) {
        let plus = |a: Option<f32>, b: f32| a.map_or(b, |a| a + b);
        let sum = |items: &[f32]| items.iter().fold(None, |sum, &x| Some(plus(sum, x)));
        let (mut puts, mut last, mut tile_prefix) = (vec![], init, init);
        for tile in items.chunks(tile) {
            let runs: Vec<&[f32]> = if tile.len() < 128 {
                vec![tile]
            } else {
                let len = tile.len() / 8;
                (0..8).map(|r| &tile[r * len..if r == 7 { tile.len() } else { (r + 1) * len }]).collect()
            };
            let mut run_prefix = tile_prefix;
            let sums: Vec<f32> = runs.iter().map(|run| sum(run).unwrap()).collect();
            for (run, run_sum) in runs.iter().zip(&sums) {
                last = run_prefix;
                for &x in *run {
                    let before = last.replace(plus(last, x));
                    puts.push(Some((x, before, last.unwrap())));
                }
                run_prefix = Some(plus(run_prefix, *run_sum));
            }
            tile_prefix = Some(plus(tile_prefix, sum(&sums).unwrap()));
        }
        (puts, last)
    }

    fn bits((puts, total): (Vec<Put<f32>>, Option<f32>)) -> (Vec<Put<u32>>, Option<u32>) {
        let bits = |(item, before, after): (f32, Option<f32>, f32)| {
            (item.to_bits(), before.map(f32::to_bits), after.to_bits())
        };
        (puts.into_iter().map(|put| put.map(bits)).collect(), total.map(f32::to_bits))
    }

    #[test]
    fn rounded_sums_are_grouped_as_documented() {
        let sizes: &[usize] =
            if cfg!(miri) { &[9, 300] } else { &[0, 1, 2, 7, 127, 128, 129, 255, 256, 257, 400, 1000, 5000] };
        for &n in sizes {
            for tile in [128, 136, 200] {
                let items: Vec<f32> = noise(n, n as u64 + 99).map(|z| (z >> 40) as f32 / 7.0 - 1e6).collect();
                for init in [None, Some(0.1)] {
                    let expected = bits(grouped(&items, init, tile));
                    for small in [0, usize::MAX] {
                        for threads in if cfg!(miri) { [1, 2, 2, 2] } else { [1, 2, 3, 8] } {
                            let puts = bits(run::<Sum, f32>(&items, init, Shape { tile, small }, threads));
                            assert_eq!(puts, expected, "n {n}, tile {tile}, {threads} threads");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_shape_is_the_documented_one() {
        assert_eq!(Shape::of::<f32>().tile, 8 * (32832 / 4));
        assert_eq!(Shape::of::<[u8; 24]>().tile, 8 * (32832 / 24));
        assert_eq!(Shape::of::<()>().tile, 8 * 32832);
        assert_eq!(Shape::of::<[u8; 100_000]>().tile, 8);
        assert_eq!(Shape::of::<u8>().small, 256 << 10);
    }

    #[test]
    fn exact_operators_agree_with_a_loop() {
        for n in if cfg!(miri) { vec![1, 130, 300] } else { (0..700).step_by(7).collect() } {
            let items: Vec<u32> = noise(n, n as u64 + 3).map(|z| z as u32).collect();
            for threads in [1, 3] {
                let last = run::<Last, u32>(&items, None, TINY, threads);
                let max = run::<Max, u32>(&items, Some(1 << 31), TINY, threads);
                let mut highest = 1 << 31;
                for i in 0..n {
                    assert_eq!(last.0[i], Some((items[i], i.checked_sub(1).map(|i| items[i]), items[i])));
                    let before = highest;
                    highest = highest.max(items[i]);
                    assert_eq!(max.0[i], Some((items[i], Some(before), highest)));
                }
                assert_eq!((last.1, max.1), (items.last().copied(), Some(highest)));
            }
        }
    }
}
