//! Sort by segment: each segment is a sort of its own.
//!
//! Segments of up to [`ONE_THREAD_ITEMS`] items are sorted by one thread each. Threads take equal
//! chunks of items, and of a chunk the segments that begin in it. Longer segments come one after
//! the other, each sorted by all threads.

use super::{Arrays, Code, Columns, Engine, ONE_THREAD_ITEMS, Order, Sort, Values, order::Bits, payload::Payload};
use crate::cpu::segmented::{HeadLists, Heads, LIST};
use crate::cpu::threshold;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ops::Range;

/// Items of a chunk, a multiple of 64 as heads ask for.
const CHUNK: usize = threshold(1 << 14).next_multiple_of(64);

/// A sort of the segments of `n` items.
pub(crate) struct SegmentedSort<'a> {
    code: &'static Code,
    order: Order,
    values: Values,
    n: usize,
    heads: &'a dyn Heads,
    /// Whether source indices count from the begin of their segment.
    local: bool,
    /// For each chunk the first head in it or behind it, or `n`. The first item is a head.
    firsts: Vec<usize>,
    /// The segments that all threads sort together.
    long: Vec<Range<usize>>,
}

impl Arrays {
    /// The arrays from item `i` on, for keys of `key` bytes.
    fn at(self, i: usize, key: usize, values: Values) -> Arrays {
        // A null array of values stays null.
        let value = if self.values.is_null() { 0 } else { values.bytes() };
        Arrays { keys: self.keys.wrapping_add(i * key), values: self.values.wrapping_add(i * value) }
    }
}

impl<K: Bits, P: Payload> Engine<K, P> {
    /// Sorts each of the segments that one thread sorts. Source indices count from the begin of the
    /// segment if they are `local`. The sort's length is not used.
    ///
    /// # Safety
    /// As for [`SegmentedSort::run`], for the items of these segments. The sort is of one thread and
    /// keeps its input.
    pub(super) unsafe fn run_each(
        sort: &Sort,
        from: Arrays,
        to: Arrays,
        segments: Segments<'_>,
        local: bool,
        room: &mut Vec<u8>,
    ) {
        let engine = Self::of(sort);
        let columns = |arrays: Arrays| Columns { keys: arrays.keys.cast::<K>(), values: arrays.values, first: 0 };
        let (all, sorted) = (columns(from), columns(to));
        for segment in segments {
            let (begin, n) = (segment.start, segment.len());
            if n > ONE_THREAD_ITEMS {
                continue;
            }
            let first = if local { 0 } else { begin };
            // SAFETY: the caller's; the room is reserved.
            unsafe {
                if !engine.short_sort(Columns { first, ..engine.at(all, begin) }, engine.at(sorted, begin), n) {
                    let sort = Sort { n, ..sort.clone() }.counted_from(first);
                    room.reserve(sort.scratch());
                    let [from, to] = [from, to].map(|arrays| arrays.at(begin, size_of::<K>(), sort.values));
                    Self::run(&sort, from, to, room.as_mut_ptr());
                }
            }
        }
    }
}

/// The addresses of arrays, for all threads.
#[derive(Clone, Copy)]
struct Shared(Arrays);
// SAFETY: `SegmentedSort::run` says who may use which items.
unsafe impl Sync for Shared {}

impl<'a> SegmentedSort<'a> {
    /// A sort of the segments that begin with the first item and with each of the `heads`. The other
    /// arguments are those of [`Sort::new`], for a sort that keeps its input.
    pub(crate) fn new(
        code: &'static Code,
        order: Order,
        values: Values,
        n: usize,
        heads: &'a dyn Heads,
        local: bool,
    ) -> SegmentedSort<'a> {
        let mut sort = SegmentedSort { code, order, values, n, heads, local, firsts: Vec::new(), long: Vec::new() };
        let chunks = n.div_ceil(CHUNK);
        let ends: Vec<_> = match chunks {
            // A parallel iterator would start rayon's threads.
            ..=1 => (0..chunks).map(|chunk| sort.first_and_last(chunk)).collect(),
            _ => (0..chunks).into_par_iter().map(|chunk| sort.first_and_last(chunk)).collect(),
        };
        sort.firsts = vec![n; chunks];
        let mut next = n;
        for (chunk, ends) in ends.into_iter().enumerate().rev() {
            if let Some([first, last]) = ends {
                // Only the last segment of a chunk can be long.
                if next - last > ONE_THREAD_ITEMS {
                    sort.long.push(last..next);
                }
                next = first;
            }
            sort.firsts[chunk] = next;
        }
        sort
    }

    /// Bytes of scratch memory, at any address. It need not be initialised. Threads that sort short
    /// segments allocate a few megabytes besides.
    pub(crate) fn scratch(&self) -> usize {
        self.long.iter().map(|segment| self.sort(segment.len()).scratch()).max().unwrap_or(0)
    }

    /// Sorts each segment of `from` into `to`.
    ///
    /// # Safety
    /// As for [`Sort::run`] of a sort that keeps its input.
    pub(crate) unsafe fn run(&self, from: Arrays, to: Arrays, scratch: *mut u8) {
        let arrays = [Shared(from), Shared(to)];
        for segment in &self.long {
            // SAFETY: the caller's; `scratch` is long enough for each of these.
            unsafe { self.sort_long(segment.clone(), [from, to], scratch) }
        }
        let chunks = self.n.div_ceil(CHUNK);
        let sort = self.sort(self.n.min(ONE_THREAD_ITEMS));
        let sort_chunk = |room: &mut Vec<u8>, chunk| {
            let [Shared(from), Shared(to)] = arrays;
            // SAFETY: the caller's. Segments are disjoint, and each is of one chunk.
            unsafe { (self.code.run_each)(&sort, from, to, self.segments(chunk), self.local, room) }
        };
        match chunks {
            0 => {}
            1 => sort_chunk(&mut Vec::new(), 0),
            _ => (0..chunks).into_par_iter().for_each_init(Vec::new, sort_chunk),
        }
    }

    fn sort(&self, n: usize) -> Sort {
        Sort::new(self.code, self.order.clone(), self.values, n, true)
    }

    /// Sorts a segment on all threads.
    ///
    /// # Safety
    /// As for `run`, for the items of the segment and the scratch memory of its sort.
    unsafe fn sort_long(&self, segment: Range<usize>, [from, to]: [Arrays; 2], scratch: *mut u8) {
        let [from, to] = [from, to].map(|arrays| arrays.at(segment.start, self.order.width as usize / 8, self.values));
        let sort = self.sort(segment.len()).counted_from(if self.local { 0 } else { segment.start });
        // SAFETY: the caller's.
        unsafe { sort.run(from, to, scratch) }
    }

    /// The first and the last head of a chunk.
    fn first_and_last(&self, chunk: usize) -> Option<[usize; 2]> {
        let end = |backwards| HeadLists::end(self.heads, self.items(chunk), backwards);
        match chunk {
            0 => Some([0, end(true).unwrap_or(0)]),
            _ => end(false).map(|first| [first, end(true).expect("there is one")]),
        }
    }

    fn items(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK..self.n.min((chunk + 1) * CHUNK)
    }

    /// The segments that begin in a chunk, in order.
    fn segments(&self, chunk: usize) -> Segments<'_> {
        let next = self.firsts.get(chunk + 1).copied().unwrap_or(self.n);
        let items = self.items(chunk);
        let begin = Some(self.firsts[chunk]).filter(|&begin| begin < items.end);
        Segments { lists: HeadLists::new(self.heads, items, false), list: [0; LIST], left: 0..0, begin, next }
    }
}

/// The segments that begin in a chunk, in order.
pub(super) struct Segments<'a> {
    lists: HeadLists<'a>,
    /// The heads that were listed last, and which of them are left.
    list: [usize; LIST],
    left: Range<usize>,
    /// The begin of the next segment.
    begin: Option<usize>,
    /// The end of the last segment.
    next: usize,
}

impl Iterator for Segments<'_> {
    type Item = Range<usize>;

    #[inline(always)]
    fn next(&mut self) -> Option<Range<usize>> {
        let begin = self.begin?;
        loop {
            for k in self.left.by_ref() {
                // The first head of the chunk is known already, and a head may come more than once.
                if self.list[k] != begin {
                    self.begin = Some(self.list[k]);
                    return Some(begin..self.list[k]);
                }
            }
            match self.lists.next(&mut self.list) {
                Some(heads) => self.left = 0..heads.len(),
                None => {
                    self.begin = None;
                    return Some(begin..self.next);
                }
            }
        }
    }
}
