//! Sort by segment: each segment is a sort of its own.
//!
//! Segments of up to [`ONE_THREAD_ITEMS`] items are sorted by one thread each. Threads take equal
//! chunks of items, and of a chunk the segments that begin in it. Longer segments come one after
//! the other, each sorted by all threads.

use super::{Arrays, Code, ONE_THREAD_ITEMS, Order, Sort, Values};
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
    /// The segments that all threads sort together.
    long: Vec<Range<usize>>,
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
        let mut sort = SegmentedSort { code, order, values, n, heads, local, long: Vec::new() };
        if n > ONE_THREAD_ITEMS {
            let is_long = |segment: &Range<usize>| segment.len() > ONE_THREAD_ITEMS;
            // Only the last segment of a chunk can be long.
            let last = |chunk| sort.segments(chunk).filter(is_long).last();
            sort.long = (0..n.div_ceil(CHUNK)).into_par_iter().filter_map(last).collect();
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
            unsafe { self.sort_segment(segment.clone(), arrays, scratch) }
        }
        let chunks = self.n.div_ceil(CHUNK);
        let sort_chunk = |room: &mut Vec<u8>, chunk| {
            for segment in self.segments(chunk).filter(|segment| segment.len() <= ONE_THREAD_ITEMS) {
                room.reserve(self.sort(segment.len()).scratch());
                // SAFETY: segments are disjoint, and each is of one chunk; the room is reserved.
                unsafe { self.sort_segment(segment, arrays, room.as_mut_ptr()) }
            }
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

    /// # Safety
    /// As for `run`, for the items of the segment and the scratch memory of its sort.
    unsafe fn sort_segment(&self, segment: Range<usize>, [from, to]: [Shared; 2], scratch: *mut u8) {
        let (start, key) = (segment.start, self.order.width as usize / 8);
        let at = |arrays: Arrays| Arrays {
            // SAFETY: the items of the segment are items of the arrays.
            keys: unsafe { arrays.keys.add(start * key) },
            values: if arrays.values.is_null() {
                arrays.values
            } else {
                // SAFETY: as above.
                unsafe { arrays.values.add(start * self.values.bytes()) }
            },
        };
        let to = at(to.0);
        // SAFETY: the caller's.
        unsafe { self.sort(segment.len()).run(at(from.0), to, scratch) };
        if let (Values::Indices(bytes), false) = (self.values, self.local) {
            for i in 0..segment.len() {
                // SAFETY: the sort has written these indices, of 4 or 8 bytes.
                unsafe {
                    if bytes == 4 {
                        let index = to.values.cast::<u32>().add(i);
                        index.write_unaligned(index.read_unaligned() + start as u32);
                    } else {
                        let index = to.values.cast::<u64>().add(i);
                        index.write_unaligned(index.read_unaligned() + start as u64);
                    }
                }
            }
        }
    }

    /// The segments that begin in a chunk, in order.
    fn segments(&self, chunk: usize) -> impl Iterator<Item = Range<usize>> {
        let items = chunk * CHUNK..self.n.min((chunk + 1) * CHUNK);
        let mut heads = HeadsFrom { heads: self.heads, next: items.start, n: self.n, words: [0; WORDS], marked: 0..0 };
        let mut begin = if chunk == 0 { Some(0) } else { heads.next() };
        std::iter::from_fn(move || {
            let first = begin.filter(|&begin| begin < items.end)?;
            begin = heads.find(|&head| head > first);
            Some(first..begin.unwrap_or(self.n))
        })
    }
}

/// The heads from an item on.
struct HeadsFrom<'a> {
    heads: &'a dyn Heads,
    /// The first item that is not marked yet, a multiple of the items of a word.
    next: usize,
    n: usize,
    words: [u64; WORDS],
    /// The marked words that may have heads left.
    marked: Range<usize>,
}

impl Iterator for HeadsFrom<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            for w in self.marked.clone() {
                let word = &mut self.words[w];
                if *word != 0 {
                    let head = self.next - WORDS * WORD + w * WORD + word.trailing_zeros() as usize;
                    *word &= *word - 1;
                    self.marked.start = w;
                    return (head < self.n).then_some(head);
                }
            }
            if self.next >= self.n {
                return None;
            }
            let words = (self.n - self.next).div_ceil(WORD).min(WORDS);
            self.heads.mark(self.next, &mut self.words[..words]);
            self.marked = 0..words;
            self.next += WORDS * WORD;
        }
    }
}
