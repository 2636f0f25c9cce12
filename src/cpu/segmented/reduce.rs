//! The reduction of segments in host memory.

use super::super::{
    call::{Call, same},
    offsets::Offset,
    pipeline::{ROWS, Shape, Source},
    reduce::fold_items,
    scan::Elements,
};
use super::heads::{ByOffsets, ByRows};
use super::{State, joined};
use crate::{Element, Operator};
use std::array;
use std::marker::PhantomData;
use std::ops::Range;

/// Where segments end. Each begins where the one before it ends.
pub trait Ends: Sync {
    /// The item where segment `i` ends, and segment `i + 1` begins.
    fn end(&self, i: usize) -> usize;
    /// The item where segment 0 begins.
    fn begin(&self) -> usize;
    /// The items of a segment, at least one, if all have as many.
    fn columns(&self) -> Option<usize> {
        None
    }
    /// The number of segments of `count` that end before unit `unit`. The units are the items and
    /// the ends of segments, in order: segment `i` ends at unit `end(i) - begin() + i`.
    fn ended_before(&self, unit: usize, count: usize) -> usize {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.end(middle) - self.begin() + middle < unit { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// Segments that are cut to this many items.
pub(crate) struct UpTo<E>(pub(crate) E, pub(crate) usize);

impl Ends for ByRows {
    #[inline(always)]
    fn end(&self, i: usize) -> usize {
        (i + 1) * self.0
    }
    fn begin(&self) -> usize {
        0
    }
    fn columns(&self) -> Option<usize> {
        Some(self.0)
    }
    fn ended_before(&self, unit: usize, _: usize) -> usize {
        unit / (self.0 + 1)
    }
}

impl<O: Offset> Ends for ByOffsets<'_, O> {
    #[inline(always)]
    fn end(&self, i: usize) -> usize {
        self.0[i + 1].widen() as usize
    }
    fn begin(&self) -> usize {
        self.0[0].widen() as usize
    }
}

impl<E: Ends> Ends for UpTo<E> {
    #[inline(always)]
    fn end(&self, i: usize) -> usize {
        self.0.end(i).min(self.1)
    }
    fn begin(&self) -> usize {
        self.0.begin().min(self.1)
    }
}

/// Reduces each of `count` segments of `input` into one item of `output`, on the threads of rayon's
/// current pool. `first` comes before the first item of each segment; an empty segment's result is
/// `empty`.
///
/// Threads take tiles of equally many units, items and ends of segments, so neither long segments
/// nor many empty ones keep one thread busy. As many units as 256 KiB of items stay on the calling
/// thread and allocate nothing.
///
/// # Same bits
///
/// The grouping follows from the number of items, their type and the segments alone.
///
/// # Safety
/// The ends of the segments ascend, from `begin()` on, up to the number of items at most.
///
/// # Panics
/// If the operator panics, if there are fewer outputs than segments, and if a segment is empty and
/// there is no `empty`.
pub(crate) unsafe fn reduce<Op: Operator<T>, T: Element>(
    input: &[T],
    segments: &impl Ends,
    count: usize,
    first: Option<Op::Carry>,
    empty: Option<Op::Carry>,
    output: &mut [T],
) {
    struct Reduce<'a, T, S, C> {
        input: &'a [T],
        segments: &'a S,
        count: usize,
        first: Option<C>,
        empty: Option<C>,
        output: &'a mut [T],
    }
    impl<E: Element, S: Ends, C: Element> Call for Reduce<'_, E, S, C> {
        type Output = ();
        fn run<Op: Operator<T>, T: Element>(self) {
            let Reduce { input, segments, count, first, empty, output } = self;
            let (input, output) = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output));
            let (first, empty, shape) = (same(first), same(empty), Shape::of::<T>());
            // SAFETY: the caller's.
            unsafe { reduce_shaped::<Op, T>(input, segments, count, first, empty, output, shape) }
        }
    }
    Op::on_host(Reduce { input, segments, count, first, empty, output });
}

/// [`reduce`] with tiles of a given shape.
///
/// # Safety
/// As for [`reduce`].
pub(super) unsafe fn reduce_shaped<Op: Operator<T>, T: Element>(
    input: &[T],
    segments: &impl Ends,
    count: usize,
    first: Option<Op::Carry>,
    empty: Option<Op::Carry>,
    output: &mut [T],
    shape: Shape,
) {
    if count == 0 {
        return;
    }
    assert!(count <= output.len(), "a result for each segment");
    let begin = segments.begin();
    let units = segments.end(count - 1) - begin + count;
    // The ends ascend, so pieces lie within the input, and no segment ends in two tiles.
    let source = Elements::<Op, T, false> { input: input.as_ptr(), n: input.len(), operator: PhantomData };
    let fold = |items: Range<usize>| (!items.is_empty()).then(|| fold_segment::<Op, T>(source, items));
    let results = Output(output.as_mut_ptr());
    let write = |segment: usize, result: Op::Carry| {
        // SAFETY: there are `count` results, and each is written once: by the tile in which its
        // segment ends.
        unsafe { results.at(segment).write(Op::lower(result)) }
    };
    let put = |segment: usize, items: Option<Op::Carry>| {
        let result = match (first, items) {
            (Some(first), Some(items)) => Op::combine(first, items),
            (None, Some(items)) => items,
            (_, None) => empty.expect("there is a result of empty segments"),
        };
        write(segment, result);
    };
    // The segment and the item of a tile's first unit.
    let split = |tile: usize| {
        let unit = units.min(tile * shape.tile);
        let segment = segments.ended_before(unit, count);
        (segment, begin + unit - segment)
    };
    // Folds all pieces of a tile, and puts the segments that begin and end in it. Keeps the first
    // piece if its segment ends in the tile.
    let fold_tile = |tile: usize| {
        let ((segment, item), (last, to)) = (split(tile), split(tile + 1));
        if segment == last {
            return (State { upto: fold(item..to), begins: false }, None);
        }
        let mut end = segments.end(segment);
        let kept = fold(item..end);
        let mut next = segment + 1;
        if let Some(columns) = segments.columns().filter(|&columns| columns < LONG) {
            while next + ROWS <= last {
                for (row, sum) in fold_rows::<Op, T>(source, end, columns).into_iter().enumerate() {
                    put(next + row, Some(sum));
                }
                next += ROWS;
                end += ROWS * columns;
            }
        }
        for segment in next..last {
            let items = std::mem::replace(&mut end, segments.end(segment))..end;
            match empty {
                Some(empty) if const { Op::IS_CHEAP } && items.len() <= SHORT && items.start + SHORT <= input.len() => {
                    let begin = |item| first.map_or(item, |first| Op::combine(first, item));
                    write(segment, fold_up_to::<Op, T>(source, items, empty, begin));
                }
                _ => put(segment, fold(items)),
            }
        }
        (State { upto: fold(end..to), begins: true }, kept)
    };
    let finish = |tile: usize, prefix: Option<Op::Carry>, kept: Option<Op::Carry>| {
        let ((segment, _), (last, _)) = (split(tile), split(tile + 1));
        if segment < last {
            put(segment, prefix.zip(kept).map_or(prefix.or(kept), |(prefix, kept)| Some(Op::combine(prefix, kept))));
        }
    };
    joined(units.div_ceil(shape.tile), None, Op::combine, &fold_tile, &finish);
}

/// Items of a segment from which on a call for vectors pays.
const LONG: usize = 128;

/// Items that are combined without a branch between them.
const SHORT: usize = 8;

/// Combines the items of a segment that is not empty.
///
/// A branch on a random length costs as much as several items. So segments of items that are cheap to combine go
/// [`SHORT`] items at a time; for the last ones see [`fold_up_to`].
#[inline(always)]
fn fold_segment<Op: Operator<T>, T: Element>(source: Elements<Op, T, false>, items: Range<usize>) -> Op::Carry {
    if items.len() >= LONG {
        return fold_items::<Op, T>(source, items);
    }
    let item = |i: usize| Op::lift(source.item(items.start + i));
    let (mut upto, mut at) = (item(0), 1);
    if const { Op::IS_CHEAP } && items.end + SHORT <= source.n {
        while items.len() - at > SHORT {
            for i in at..at + SHORT {
                upto = Op::combine(upto, item(i));
            }
            at += SHORT;
        }
        return fold_up_to::<Op, T>(source, items.start + at..items.end, upto, |next| Op::combine(upto, next));
    }
    for i in at..items.len() {
        upto = Op::combine(upto, item(i));
    }
    upto
}

/// Combines up to [`SHORT`] items without a branch: SHORT items from the first one on, of whose partial results it
/// takes one. `begin` makes the first one of an item; without items it is `empty`.
#[inline(always)]
fn fold_up_to<Op: Operator<T>, T: Element>(
    source: Elements<Op, T, false>,
    items: Range<usize>,
    empty: Op::Carry,
    begin: impl Fn(Op::Carry) -> Op::Carry,
) -> Op::Carry {
    let item = |i: usize| Op::lift(source.item(items.start + i));
    let mut upto = [empty; SHORT + 1];
    upto[1] = begin(item(0));
    for i in 1..SHORT {
        upto[i + 1] = Op::combine(upto[i], item(i));
    }
    upto[items.len()]
}

/// Combines the items of each of [`ROWS`] neighbouring rows, an item of each at a time.
#[inline(always)]
fn fold_rows<Op: Operator<T>, T: Element>(
    source: Elements<Op, T, false>,
    from: usize,
    columns: usize,
) -> [Op::Carry; ROWS] {
    let mut sums: [Op::Carry; ROWS] = array::from_fn(|row| Op::lift(source.item(from + row * columns)));
    for i in from + 1..from + columns {
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = Op::combine(*sum, Op::lift(source.item(i + row * columns)));
        }
    }
    sums
}

/// The results.
struct Output<T>(*mut T);

// SAFETY: each result is written once, on one thread, and elements are `Send`.
unsafe impl<T: Element> Sync for Output<T> {}

impl<T> Output<T> {
    /// # Safety
    /// There is a result `i`.
    unsafe fn at(&self, i: usize) -> *mut T {
        // SAFETY: the caller's.
        unsafe { self.0.add(i) }
    }
}
