//! Sort by segment: each segment is a sort of its own.
//!
//! Segments of up to [`ONE_THREAD_ITEMS`] items are sorted by one thread each. Threads take equal
//! chunks of items, and of a chunk the segments that begin in it. Longer segments come one after
//! the other, each sorted by all threads.

use super::{Arrays, Code, Columns, Engine, ONE_THREAD_ITEMS, Order, Sort, Values, order::Bits, payload::Payload};
use crate::cpu::compact::low_bits;
use crate::cpu::segmented::Heads;
use crate::cpu::threshold;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::ops::Range;

/// Items of a chunk, a multiple of the items of a word of heads.
const CHUNK: usize = threshold(1 << 14).next_multiple_of(WORD);
/// Items of a word.
const WORD: usize = 64;
/// Words that are marked at a time.
const WORDS: usize = 16;

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
        let mut words = [0; CHUNK / WORD];
        let items = chunk * CHUNK..self.n.min((chunk + 1) * CHUNK);
        let words = &mut words[..items.len().div_ceil(WORD)];
        self.heads.mark(items.start, words);
        if !items.len().is_multiple_of(WORD) {
            // Items past the end are no heads.
            words[words.len() - 1] &= low_bits(items.len() % WORD);
        }
        if chunk == 0 {
            words[0] |= 1;
        }
        let first = words.iter().position(|&word| word != 0)?;
        let last = words.iter().rposition(|&word| word != 0)?;
        let at = |k: usize, bit: u32| items.start + k * WORD + bit as usize;
        Some([at(first, words[first].trailing_zeros()), at(last, words[last].ilog2())])
    }

    /// The segments that begin in a chunk, in order.
    fn segments(&self, chunk: usize) -> Segments<'_> {
        let next = self.firsts.get(chunk + 1).copied().unwrap_or(self.n);
        let items = chunk * CHUNK..self.n.min((chunk + 1) * CHUNK);
        let begin = Some(self.firsts[chunk]).filter(|&begin| begin < items.end);
        Segments {
            heads: self.heads,
            marked: items.start,
            items_end: items.end,
            words: [0; WORDS],
            at: WORDS,
            begin,
            next,
        }
    }
}

/// The segments that begin in a chunk, in order.
pub(super) struct Segments<'a> {
    heads: &'a dyn Heads,
    /// Items up to here are marked.
    marked: usize,
    /// The end of the chunk.
    items_end: usize,
    /// The marked words, without the heads that were taken.
    words: [u64; WORDS],
    /// The first word that may have heads left.
    at: usize,
    /// The begin of the next segment.
    begin: Option<usize>,
    /// The end of the last segment.
    next: usize,
}

impl Segments<'_> {
    /// The next head of the chunk.
    #[inline(always)]
    fn head(&mut self) -> Option<usize> {
        loop {
            while let Some(word) = self.words.get_mut(self.at) {
                if *word != 0 {
                    let head = self.marked - (WORDS - self.at) * WORD + word.trailing_zeros() as usize;
                    *word &= *word - 1;
                    return Some(head).filter(|&head| head < self.items_end);
                }
                self.at += 1;
            }
            if self.marked >= self.items_end {
                return None;
            }
            self.mark();
        }
    }

    #[inline(never)]
    fn mark(&mut self) {
        let words = (self.items_end - self.marked).div_ceil(WORD).min(WORDS);
        self.words = [0; WORDS];
        self.heads.mark(self.marked, &mut self.words[..words]);
        self.marked += WORDS * WORD;
        self.at = 0;
    }
}

impl Iterator for Segments<'_> {
    type Item = Range<usize>;

    #[inline(always)]
    fn next(&mut self) -> Option<Range<usize>> {
        let begin = self.begin?;
        loop {
            self.begin = self.head();
            // The first head of the chunk is known already.
            if self.begin != Some(begin) {
                return Some(begin..self.begin.unwrap_or(self.next));
            }
        }
    }
}
