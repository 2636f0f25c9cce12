//! Stable compaction of host memory: what is kept moves together, in order, and so does what is not.
//!
//! Which items are kept is asked once, 64 items at a time, and kept as bits. The bits of a tile are counted, the counts
//! handed over, and then the bits say what goes where. There is no branch on a single item: a block of 64 is skipped,
//! copied whole, taken by its set bits, or squeezed together by a permutation of each vector, which is looked up.
//!
//! All of that is compiled once, in this library, for items of any size. A caller's types add only the loop that makes
//! the bits, a [`Choice`], which is called for a group of blocks at a time.
//!
//! Here are the walks over tiles, chunks and groups; `choices.rs` makes the bits, `columns.rs` moves by them, and
//! `avx2.rs` is both by vectors.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
mod choices;
mod columns;
#[cfg(test)]
mod tests;

pub(crate) use choices::{ByFlags, ByPredicate, ByWords, Choice, Distinct};
pub(crate) use columns::Column;

use super::{handover::hand_over_ahead, pipeline, threshold};
use columns::Group;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::{
    mem::{MaybeUninit, swap},
    ops::Range,
};

/// Items in a block: those of which one word of bits speaks.
const BLOCK: usize = 64;

/// The lowest `len` bits, for `len` of 1..=64.
#[inline(always)]
fn first(len: usize) -> u64 {
    u64::MAX >> (BLOCK - len)
}

/// A place for the bits of each block, from the one that begins at item `from` on.
#[derive(Clone, Copy)]
pub struct Words {
    from: usize,
    first: *mut u64,
}

// SAFETY: the words of a tile are used by one thread at a time: the one that chooses, and after it the one that puts.
unsafe impl Sync for Words {}

impl Words {
    /// The word of the block that begins at item `i`; those of the next ones follow. Where the items end there is none,
    /// and what is returned may only be thrown away.
    ///
    /// # Safety
    /// `i` is not before the first item of these words, nor past the end of the last.
    #[inline(always)]
    unsafe fn of(self, i: usize) -> *mut u64 {
        // SAFETY: there is a word for each block before item `i`.
        unsafe { self.first.add((i - self.from) / BLOCK) }
    }
}

/// Compacts `n` items, on the threads of rayon's current pool, and returns how many are kept.
///
/// `kept` receive the kept items from place 0 on and `rejected` the others, both in their order; with `complement` the
/// items that `choice` does not keep are the kept ones.
/// Nothing is written past the last of each. Each item is chosen once, and read once more when it is moved. Inputs of
/// up to 256 KiB stay on the calling thread and allocate nothing; longer ones allocate a bit for each item if there are
/// several threads. A panic of the choice reaches the caller; some places have been written then.
///
/// # Safety
/// - `choice` and the columns may read `n` items, and nobody writes them meanwhile.
/// - `kept` may write as many places as items are kept and `rejected` as many as are not, and nobody else touches them.
/// - What is written does not overlap what is read or what else is written.
pub(crate) unsafe fn compact(
    n: usize,
    choice: &dyn Choice,
    complement: bool,
    kept: &[Column],
    rejected: &[Column],
) -> usize {
    assert!(!kept.is_empty(), "the first kept column says how many places are written");
    // SAFETY: the caller's.
    unsafe { Steps::new(choice, complement, kept, rejected).compact(n) }
}

/// How many words [`record`] writes for `n` items.
pub(crate) fn words_for(n: usize) -> usize {
    n.div_ceil(BLOCK)
}

/// Writes to `all` what `choice` keeps of `n` items, or with `complement` does not, as words for
/// [`ByWords`], and returns how many that are: for who must know before anything moves. A choice
/// that is asked again may answer otherwise.
///
/// # Safety
/// `choice` may read `n` items, and nobody writes them meanwhile.
///
/// # Panics
/// If there are not [`words_for`] so many items.
pub(crate) unsafe fn record(n: usize, choice: &dyn Choice, complement: bool, all: &mut [u64]) -> usize {
    const PART: usize = threshold(1 << 12); // words of a part: worth a thread's start
    assert_eq!(all.len(), words_for(n), "a word for each block");
    let (invert, avx2) = (if complement { u64::MAX } else { 0 }, has_avx2());
    let part = |(k, words): (usize, &mut [u64])| {
        let from = k * PART * BLOCK;
        let items = from..n.min(from + words.len() * BLOCK);
        // SAFETY: the caller's items, from a whole block on, and a word for each of their blocks; the machine was asked.
        unsafe { choice.choose(items, invert, Words { from, first: words.as_mut_ptr() }, avx2) }
    };
    if n == 0 {
        0
    } else if all.len() <= PART {
        part((0, all))
    } else {
        all.par_chunks_mut(PART).enumerate().map(part).sum()
    }
}

/// Compacts `n` items within their own memory, on the threads of rayon's current pool, and returns how many are kept.
/// What lies past them afterwards is some of the items. With several threads most of what is kept is moved twice.
///
/// # Safety
/// - `items` is an array that is its own places, valid for reads and writes of `n` items, and nobody else touches them.
/// - `choice` may read `n` items; it may read these.
pub(crate) unsafe fn compact_in_place(n: usize, choice: &dyn Choice, complement: bool, items: Column) -> usize {
    debug_assert!(items.is_in_place());
    // SAFETY: the caller's.
    unsafe { Steps::new(choice, complement, &[items], &[]).compact_in_place(n) }
}

/// How many items are taken at a time.
#[derive(Clone, Copy)]
struct Shape {
    /// Items in a tile, whole blocks of them.
    tile: usize,
    /// Items that one thread alone chooses before it moves them, whole blocks of them and at most [`CHUNK`].
    chunk: usize,
    /// Items that are chosen, or moved, in one call, whole blocks of them.
    group: usize,
    /// Items up to which the calling thread does all.
    small: usize,
}

/// Bytes of a tile: an eighth of a 2 MiB L2 cache.
const TILE_BYTES: usize = threshold(256 << 10);
/// Bytes of a chunk: a small part of an L1 cache, so that memory is read all the time.
const CHUNK_BYTES: usize = 4 << 10;

/// The most blocks of a chunk.
const CHUNK: usize = 64;
/// Blocks of a chunk of large items, if those are up to four times the bytes: a call is made for as many items.
const SHORT_CHUNK: usize = 8;

impl Shape {
    /// For so many bits of memory that are read, or written, for an item.
    fn of(bits: usize) -> Shape {
        let blocks = |bytes: usize| (8 * bytes / bits.max(1) / BLOCK * BLOCK).max(BLOCK);
        let chunk = blocks(CHUNK_BYTES).max(blocks(4 * CHUNK_BYTES).min(SHORT_CHUNK * BLOCK)).min(CHUNK * BLOCK);
        Shape {
            tile: blocks(TILE_BYTES),
            chunk,
            // Half of it: many for what a call costs, few so that memory is read while it is written.
            group: (chunk / 2 / BLOCK * BLOCK).max(BLOCK),
            small: 8 * pipeline::Shape::of::<u8>().small / bits.max(1),
        }
    }
}

/// What is done to items.
#[derive(Clone, Copy)]
struct Steps<'a> {
    choice: &'a dyn Choice,
    /// For [`Choice::choose`].
    invert: u64,
    kept: &'a [Column],
    rejected: &'a [Column],
    /// Whether the choice reads less than is moved. Then it has not read that on the way.
    is_beside: bool,
    /// Whether the choice reads items of more than 8 bytes.
    is_large: bool,
    shape: Shape,
    avx2: bool,
}

/// Items whose bits are there, and how many of them are kept.
#[derive(Clone)]
struct Chosen {
    items: Range<usize>,
    words: Words,
    count: usize,
}

impl<'a> Steps<'a> {
    fn new(choice: &'a dyn Choice, complement: bool, kept: &'a [Column], rejected: &'a [Column]) -> Steps<'a> {
        let bits = |columns: &[Column]| columns.iter().map(|column| 8 * column.size).sum::<usize>();
        let (chosen, moved) = (choice.bits_an_item(), bits(kept));
        Steps {
            choice,
            invert: if complement { u64::MAX } else { 0 },
            kept,
            rejected,
            is_beside: chosen < moved,
            is_large: chosen > u64::BITS as usize,
            shape: Shape::of(chosen.max(moved).max(bits(rejected))),
            avx2: has_avx2(),
        }
    }

    /// [`compact`](compact()).
    ///
    /// # Safety
    /// As for that.
    unsafe fn compact(self, n: usize) -> usize {
        let shape = self.shape;
        if n == 0 {
            return 0;
        }
        // The length is looked at first: asking rayon for its threads would start them.
        if n <= shape.small || rayon::current_num_threads() == 1 {
            // SAFETY: the caller's.
            return unsafe { self.here(0..n, self.head(0, n), 0) };
        }
        let mut bits = Vec::<u64>::new();
        if bits.try_reserve_exact(n.div_ceil(BLOCK)).is_err() {
            // Without memory for the bits this thread does it alone.
            // SAFETY: the caller's.
            return unsafe { self.here(0..n, self.head(0, n), 0) };
        }
        let words = Words { from: 0, first: bits.as_mut_ptr() };
        let items = |tile: usize| tile * shape.tile..n.min((tile + 1) * shape.tile);
        let kept = hand_over_ahead(
            n.div_ceil(shape.tile),
            Some(0),
            |tile| {
                // SAFETY: the caller's items. The words of a tile are its own.
                let count = unsafe { self.step(None, items(tile), words) };
                (count, count)
            },
            |earlier, later| earlier + later,
            |tile, prefix, count, next| {
                let to = *prefix.expect("there is a first value");
                let chosen = Chosen { items: items(tile), words, count };
                let ahead = next.map_or(0..0, items);
                // SAFETY: the tile was chosen before it is finished. Its places are its own, by the counts before it.
                let count = unsafe { self.step(Some((chosen, to)), ahead, words) };
                next.map(|_| (count, count))
            },
        );
        kept.expect("there is a first value")
    }

    /// The bits of the block that begins at item `i < n`.
    ///
    /// # Safety
    /// The choice may read `n` items, nobody writes them meanwhile, and `i` is a multiple of 64.
    unsafe fn head(self, i: usize, n: usize) -> u64 {
        let mut bits = 0;
        // SAFETY: the caller's items, and a word for the block.
        unsafe { self.choose(i..n.min(i + BLOCK), Words { from: i, first: &mut bits }) };
        bits
    }

    /// [`Choice::choose`].
    ///
    /// # Safety
    /// As for that.
    unsafe fn choose(self, items: Range<usize>, words: Words) -> usize {
        // SAFETY: the caller's, and the machine was asked.
        unsafe { self.choice.choose(items, self.invert, words, self.avx2) }
    }

    /// Compacts some items on this thread, to the places from `to` on, and returns how many are kept. `head` are the
    /// bits of the first block. Items may be their own places.
    ///
    /// # Safety
    /// - As for [`compact`](compact()); or for [`compact_in_place`](compact_in_place()), and `to` is not past the first
    ///   item.
    /// - `items` begins with a whole block.
    unsafe fn here(self, items: Range<usize>, head: u64, to: usize) -> usize {
        let mut bits = [[const { MaybeUninit::<u64>::uninit() }; CHUNK]; 2];
        let [mut first, mut other] = bits.each_mut().map(|half| half.as_mut_ptr().cast());
        let cut = |from: usize| from..items.end.min(from + self.shape.chunk);
        // SAFETY: a chunk and the next one have a half each for their bits, and what is put was chosen. In place, the
        // next chunk is not written before it is chosen, nor is the last item of this one before the next chunk's first
        // is.
        unsafe {
            let (mut this, mut words) = (cut(items.start), Words { from: items.start, first });
            words.of(items.start).write(head);
            let second = this.end.min(items.start + BLOCK);
            let mut count = head.count_ones() as usize + self.step(None, second..this.end, words);
            let mut place = to;
            while !this.is_empty() {
                swap(&mut first, &mut other);
                let (next, next_words) = (cut(this.end), Words { from: this.end, first });
                let chosen = self.step(Some((Chosen { items: this, words, count }, place)), next.clone(), next_words);
                place += count;
                (this, words, count) = (next, next_words, chosen);
            }
            place - to
        }
    }

    /// Moves items that were chosen to the places from the second number on, and chooses the items `ahead`: memory is
    /// read while it is written. Returns how many of those are kept.
    ///
    /// # Safety
    /// - As for [`here`](Steps::here). What is not kept goes to the places from the count on of such items before.
    /// - Both begin with a whole block. The first are chosen, and `ahead` has its words, which nobody else touches.
    /// - If `ahead` follows the first, it is put after this, to the places that follow.
    unsafe fn step(self, put: Option<(Chosen, usize)>, ahead: Range<usize>, ahead_words: Words) -> usize {
        let cut = |from: usize, end: usize| from..end.min(from + self.shape.group);
        let (mut chosen, mut next) = (0, cut(ahead.start, ahead.end));
        if let Some((Chosen { items, words, count }, to)) = put {
            let (kept_end, rejected_to) = (to + count, items.start - to);
            let rejected_end = items.end - kept_end;
            let (nothing, coming) = (0..0, 0..0);
            let mut kept = Group { items: nothing, words, invert: 0, to, end: kept_end, coming, coming_words: None };
            let mut rejected = Group { invert: u64::MAX, to: rejected_to, end: rejected_end, ..kept.clone() };
            // Then nobody writes the places behind these before this has chosen what goes there.
            let adjoining = items.end == ahead.start;
            for from in items.clone().step_by(self.shape.group) {
                kept.items = cut(from, items.end);
                rejected.items = kept.items.clone();
                // Chosen before it is put: in place that may write the item before the first of `ahead`.
                if !next.is_empty() {
                    // SAFETY: the caller's items and words.
                    chosen += unsafe { self.choose(next.clone(), ahead_words) };
                }
                if adjoining {
                    kept.end = kept_end + chosen;
                    rejected.end = rejected_end + (next.end - ahead.start - chosen);
                }
                let then = cut(next.end, ahead.end);
                if self.is_beside {
                    (kept.coming, kept.coming_words) = (next, Some(ahead_words));
                } else if !adjoining || self.is_large {
                    // Two streams by turns are more than the processor sees by itself, and so are large items.
                    kept.coming = then.clone();
                }
                next = then;
                // SAFETY: the bits are there. Up to the ends the places are those of the items, and of what follows and
                // was chosen here: it is put after this, by whoever is told of the choice.
                unsafe {
                    let mut count = 0;
                    for column in self.kept {
                        count = column.put(&kept, self.avx2);
                    }
                    for column in self.rejected {
                        column.put(&rejected, self.avx2);
                    }
                    kept.to += count;
                    rejected.to += kept.items.len() - count;
                }
            }
        }
        while !next.is_empty() {
            // SAFETY: the caller's items and words.
            chosen += unsafe { self.choose(next.clone(), ahead_words) };
            if self.is_beside {
                for i in next.clone().step_by(BLOCK) {
                    // SAFETY: the bits are there.
                    let bits = unsafe { ahead_words.of(i).read() };
                    self.kept.iter().for_each(|column| column.expect(i, bits));
                }
            }
            next = cut(next.end, ahead.end);
        }
        chosen
    }

    /// [`compact_in_place`](compact_in_place()).
    ///
    /// A part for each thread is compacted within itself. Then what is left of each part moves down, one part after the
    /// other.
    ///
    /// # Safety
    /// As for that.
    unsafe fn compact_in_place(self, n: usize) -> usize {
        let shape = self.shape;
        if n == 0 {
            return 0;
        }
        if n <= shape.small || rayon::current_num_threads() == 1 {
            // SAFETY: the caller's.
            return unsafe { self.here(0..n, self.head(0, n), 0) };
        }
        let part = n.div_ceil(rayon::current_num_threads()).next_multiple_of(BLOCK).max(shape.tile);
        // The first block of a part may ask for the item before it, which is another thread's as soon as there are any.
        // SAFETY: the caller's items.
        let parts: Vec<_> = (0..n).step_by(part).map(|from| (from, unsafe { self.head(from, n) })).collect();
        let compacted = |(from, head): (usize, u64)| {
            // SAFETY: the part is this thread's, and written within itself.
            (from, unsafe { self.here(from..n.min(from + part), head, from) })
        };
        let runs: Vec<_> = parts.into_par_iter().map(compacted).collect();
        runs.into_iter().fold(0, |to, (from, len)| {
            // SAFETY: the parts before this one have been moved, and what is written ends where this run does.
            unsafe { self.kept[0].move_down(from, to, len) };
            to + len
        })
    }
}

/// Whether the machine has what [`avx2`] is compiled for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Nothing is compiled for vectors here.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_avx2() -> bool {
    false
}
