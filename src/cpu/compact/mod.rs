//! Stable compaction and partition of host memory.
//!
//! A choice writes one bit an item, 64 items a word, once. The bits of a tile are counted, the
//! counts are handed over, and then the items move by their bits. No branch depends on a single
//! item: a block of 64 is skipped, copied whole, taken by its set bits, or compressed vector by
//! vector with a permutation from a table.
//!
//! All of that is compiled once, in this library, for items of any size. A caller's types add only
//! the loop that makes the bits, a [`Choice`], which is called for a group of blocks at a time.
//!
//! This file walks over tiles, chunks and groups; `choices.rs` makes the bits, `columns.rs` moves
//! by them, and `avx2.rs` does both with vectors.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
mod choices;
mod columns;
#[cfg(test)]
mod tests;

pub(super) use choices::answers_as_bits;
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

/// Items of a block, which has one word of bits.
const BLOCK: usize = 64;

/// The lowest `len` bits, for `len` of 1..=64.
#[inline(always)]
pub(super) fn low_bits(len: usize) -> u64 {
    u64::MAX >> (BLOCK - len)
}

/// The words of the blocks from item `from` on.
#[derive(Clone, Copy)]
pub struct Words {
    from: usize,
    first: *mut u64,
}

// SAFETY: the words of a tile are used by one thread at a time: the one that chooses, later the one
// that moves.
unsafe impl Sync for Words {}

impl Words {
    /// The word of the block that begins at item `i`; the words of the next blocks follow. If `i`
    /// is the end of the items, the pointer must not be used.
    ///
    /// # Safety
    /// `i` is not before the first item of these words, nor past the end of the last.
    #[inline(always)]
    unsafe fn of(self, i: usize) -> *mut u64 {
        // SAFETY: there is a word for each block before item `i`.
        unsafe { self.first.add((i - self.from) / BLOCK) }
    }
}

/// Compacts `n` items, on the threads of rayon's current pool, and returns the number of selected
/// items.
///
/// The columns `selected` receive the selected items from index 0 on, and `rejected` the others,
/// both in order. With `complement` the items that `choice` does not select are the selected ones.
/// Nothing is written past the last item of each. Each item is chosen once, and read once more when
/// it moves. Inputs of up to 256 KiB stay on the calling thread and allocate nothing; longer ones
/// allocate a bit for each item if there are several threads. A panic of the choice reaches the
/// caller; some of the output has been written then.
///
/// # Safety
/// - `choice` and the columns may read `n` items, and no thread writes them meanwhile.
/// - `selected` have room for the selected items and `rejected` for the others, and no other thread
///   touches that room.
/// - No output overlaps an input or another output.
pub(crate) unsafe fn compact(
    n: usize,
    choice: &dyn Choice,
    complement: bool,
    selected: &[Column],
    rejected: &[Column],
) -> usize {
    assert!(!selected.is_empty(), "the first column counts the selected items");
    // SAFETY: the caller's.
    unsafe { Compaction::new(choice, complement, selected, rejected).compact(n) }
}

/// The number of words that [`record`] writes for `n` items.
pub(crate) fn words_for(n: usize) -> usize {
    n.div_ceil(BLOCK)
}

/// Writes the bits of `n` items to `all`, as words for [`ByWords`], and returns the number of
/// selected items: for a caller that must know it before any item moves. A predicate that is called
/// again may answer otherwise.
///
/// # Safety
/// `choice` may read `n` items, and no thread writes them meanwhile.
///
/// # Panics
/// If the number of words is not [`words_for`] `n`.
pub(crate) unsafe fn record(n: usize, choice: &dyn Choice, complement: bool, all: &mut [u64]) -> usize {
    const PART: usize = threshold(1 << 12); // words that are worth a thread's start
    assert_eq!(all.len(), words_for(n), "a word for each block");
    let (invert, avx2) = (if complement { u64::MAX } else { 0 }, has_avx2());
    let part = |(k, words): (usize, &mut [u64])| {
        let from = k * PART * BLOCK;
        let items = from..n.min(from + words.len() * BLOCK);
        // SAFETY: the caller's items, from the first of a block on, a word for each block, and AVX2
        // if it is there.
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

/// Compacts `n` items in place, on the threads of rayon's current pool, and returns the number of
/// selected items. Behind them the memory holds some of the items. With several threads most of the
/// selected items move twice.
///
/// # Safety
/// - `items` is an array that is its own output, valid for reads and writes of `n` items, and no
///   other thread touches it.
/// - `choice` may read `n` items; they may be these.
pub(crate) unsafe fn compact_in_place(n: usize, choice: &dyn Choice, complement: bool, items: Column) -> usize {
    debug_assert!(items.is_in_place());
    // SAFETY: the caller's.
    unsafe { Compaction::new(choice, complement, &[items], &[]).compact_in_place(n) }
}

/// Numbers of items.
#[derive(Clone, Copy)]
struct Shape {
    /// Items of a tile, whole blocks.
    tile: usize,
    /// Items that a single thread chooses before it moves them: whole blocks, at most [`CHUNK`].
    chunk: usize,
    /// Items that one call chooses, or moves: whole blocks.
    group: usize,
    /// Items up to which the calling thread does all work.
    small: usize,
}

/// Bytes of a tile: an eighth of a 2 MiB L2 cache.
const TILE_BYTES: usize = threshold(256 << 10);
/// Bytes of a chunk: a small part of an L1 cache, so that reads from memory do not pause.
const CHUNK_BYTES: usize = 4 << 10;

/// The most blocks of a chunk.
const CHUNK: usize = 64;
/// Blocks of a chunk of large items, if they take at most four times [`CHUNK_BYTES`]: more items
/// share a call.
const SHORT_CHUNK: usize = 8;

impl Shape {
    /// The shape for items of which the choice reads, or a move writes, `bits` bits.
    fn of(bits: usize) -> Shape {
        let blocks = |bytes: usize| (8 * bytes / bits.max(1) / BLOCK * BLOCK).max(BLOCK);
        let chunk = blocks(CHUNK_BYTES).max(blocks(4 * CHUNK_BYTES).min(SHORT_CHUNK * BLOCK)).min(CHUNK * BLOCK);
        Shape {
            tile: blocks(TILE_BYTES),
            chunk,
            // Half a chunk: enough items to pay for a call, few enough that memory is read while it
            // is written.
            group: (chunk / 2 / BLOCK * BLOCK).max(BLOCK),
            small: 8 * pipeline::SMALL_BYTES / bits.max(1),
        }
    }
}

/// A compaction: what is chosen and what moves.
#[derive(Clone, Copy)]
struct Compaction<'a> {
    choice: &'a dyn Choice,
    /// For [`Choice::choose`].
    invert: u64,
    selected: &'a [Column],
    rejected: &'a [Column],
    /// Whether the choice reads fewer bits than move, as by flags. Then it has not brought the
    /// items into the cache.
    reads_less_than_moves: bool,
    /// Whether the choice reads items of more than 8 bytes.
    reads_large_items: bool,
    shape: Shape,
    avx2: bool,
}

/// Items whose bits are written, and the number of selected ones.
#[derive(Clone)]
struct Chosen {
    items: Range<usize>,
    words: Words,
    count: usize,
}

impl<'a> Compaction<'a> {
    fn new(choice: &'a dyn Choice, complement: bool, selected: &'a [Column], rejected: &'a [Column]) -> Compaction<'a> {
        let bits = |columns: &[Column]| columns.iter().map(|column| 8 * column.size).sum::<usize>();
        let (chosen, moved) = (choice.bits_an_item(), bits(selected));
        Compaction {
            choice,
            invert: if complement { u64::MAX } else { 0 },
            selected,
            rejected,
            reads_less_than_moves: chosen < moved,
            reads_large_items: chosen > u64::BITS as usize,
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
        // The length first: asking rayon for its threads would start them.
        if n <= shape.small || rayon::current_num_threads() == 1 {
            // SAFETY: the caller's.
            return unsafe { self.on_this_thread(0..n, self.first_word(0, n), 0) };
        }
        let mut bits = Vec::<u64>::new();
        if bits.try_reserve_exact(n.div_ceil(BLOCK)).is_err() {
            // Without memory for the bits, one thread needs none.
            // SAFETY: the caller's.
            return unsafe { self.on_this_thread(0..n, self.first_word(0, n), 0) };
        }
        let words = Words { from: 0, first: bits.as_mut_ptr() };
        let items = |tile: usize| tile * shape.tile..n.min((tile + 1) * shape.tile);
        let selected = hand_over_ahead(
            n.div_ceil(shape.tile),
            Some(0),
            |tile| {
                // SAFETY: the caller's items. The words of a tile are its own.
                let count = unsafe { self.move_and_choose(None, items(tile), words) };
                (count, count)
            },
            |earlier, later| earlier + later,
            |tile, prefix, count, next| {
                let to = *prefix.expect("there is a first value");
                let chosen = Chosen { items: items(tile), words, count };
                let ahead = next.map_or(0..0, items);
                // SAFETY: the tile was chosen before it is finished. By the prefix, no other tile's
                // items go where its own go.
                let count = unsafe { self.move_and_choose(Some((chosen, to)), ahead, words) };
                next.map(|_| (count, count))
            },
        );
        selected.expect("there is a first value")
    }

    /// The bits of the block that begins at item `i < n`.
    ///
    /// # Safety
    /// The choice may read `n` items, no thread writes them meanwhile, and `i` is a multiple of 64.
    unsafe fn first_word(self, i: usize, n: usize) -> u64 {
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
        // SAFETY: the caller's, and AVX2 if it is there.
        unsafe { self.choice.choose(items, self.invert, words, self.avx2) }
    }

    /// Compacts some items on this thread, to the indices from `to` on, and returns the number of
    /// selected items. `first_word` is the bits of the first block. Items may be their own output.
    ///
    /// # Safety
    /// - As for [`compact`](compact()); or for [`compact_in_place`](compact_in_place()), and `to`
    ///   is not past the first item.
    /// - `items` begins with the first item of a block.
    unsafe fn on_this_thread(self, items: Range<usize>, first_word: u64, to: usize) -> usize {
        let mut bits = [[const { MaybeUninit::<u64>::uninit() }; CHUNK]; 2];
        let [mut first, mut other] = bits.each_mut().map(|half| half.as_mut_ptr().cast());
        let cut = |from: usize| from..items.end.min(from + self.shape.chunk);
        // SAFETY: a chunk and the next one have a half of `bits` each, and items are chosen before
        // they move. In place, the next chunk is chosen before any of it is overwritten, and so is
        // its first item before the last item of this chunk is, which unique compares it with.
        unsafe {
            let (mut this, mut words) = (cut(items.start), Words { from: items.start, first });
            words.of(items.start).write(first_word);
            let second = this.end.min(items.start + BLOCK);
            let mut count = first_word.count_ones() as usize + self.move_and_choose(None, second..this.end, words);
            let mut index = to;
            while !this.is_empty() {
                swap(&mut first, &mut other);
                let (next, next_words) = (cut(this.end), Words { from: this.end, first });
                let chosen =
                    self.move_and_choose(Some((Chosen { items: this, words, count }, index)), next.clone(), next_words);
                index += count;
                (this, words, count) = (next, next_words, chosen);
            }
            index - to
        }
    }

    /// Moves items that were chosen to the indices from the second number on, and meanwhile chooses
    /// the items `ahead`, so that memory is read while it is written. Returns the number of
    /// selected items of `ahead`.
    ///
    /// # Safety
    /// - As for [`on_this_thread`](Compaction::on_this_thread). Rejected items go to the indices
    ///   from the number of rejected items before them on.
    /// - Both begin with the first item of a block. `ahead` has words, which no other thread
    ///   touches.
    /// - If `ahead` begins where the chosen items end, its items move after this call, to the
    ///   indices that follow.
    unsafe fn move_and_choose(self, chosen: Option<(Chosen, usize)>, ahead: Range<usize>, ahead_words: Words) -> usize {
        let cut = |from: usize, end: usize| from..end.min(from + self.shape.group);
        let (mut count_ahead, mut next) = (0, cut(ahead.start, ahead.end));
        if let Some((Chosen { items, words, count }, to)) = chosen {
            let (selected_end, rejected_to) = (to + count, items.start - to);
            let rejected_end = items.end - selected_end;
            let (nothing, coming) = (0..0, 0..0);
            let mut selected =
                Group { items: nothing, words, invert: 0, to, end: selected_end, coming, coming_words: None };
            let mut rejected = Group { invert: u64::MAX, to: rejected_to, end: rejected_end, ..selected.clone() };
            // If so, this call chooses the items whose output follows, before any thread moves them there.
            let adjoining = items.end == ahead.start;
            for from in items.clone().step_by(self.shape.group) {
                selected.items = cut(from, items.end);
                rejected.items = selected.items.clone();
                // Choose before moving: in place, a move may overwrite the item before the first of
                // `ahead`.
                if !next.is_empty() {
                    // SAFETY: the caller's items and words.
                    count_ahead += unsafe { self.choose(next.clone(), ahead_words) };
                }
                if adjoining {
                    selected.end = selected_end + count_ahead;
                    rejected.end = rejected_end + (next.end - ahead.start - count_ahead);
                }
                let then = cut(next.end, ahead.end);
                if self.reads_less_than_moves {
                    (selected.coming, selected.coming_words) = (next, Some(ahead_words));
                } else if !adjoining || self.reads_large_items {
                    // The processor does not prefetch two alternating streams by itself, nor large
                    // items.
                    selected.coming = then.clone();
                }
                next = then;
                // SAFETY: the bits are written. Up to `end` the output is that of these items, and
                // of the adjoining items that this call has chosen, which move later.
                unsafe {
                    let mut count = 0;
                    for column in self.selected {
                        count = column.put(&selected, self.avx2);
                    }
                    for column in self.rejected {
                        column.put(&rejected, self.avx2);
                    }
                    selected.to += count;
                    rejected.to += selected.items.len() - count;
                }
            }
        }
        while !next.is_empty() {
            // SAFETY: the caller's items and words.
            count_ahead += unsafe { self.choose(next.clone(), ahead_words) };
            if self.reads_less_than_moves {
                for i in next.clone().step_by(BLOCK) {
                    // SAFETY: the bits are written.
                    let bits = unsafe { ahead_words.of(i).read() };
                    self.selected.iter().for_each(|column| column.expect(i, bits));
                }
            }
            next = cut(next.end, ahead.end);
        }
        count_ahead
    }

    /// [`compact_in_place`](compact_in_place()).
    ///
    /// Each thread compacts a part within itself. Then the selected items of each part move down,
    /// one part after the other.
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
            return unsafe { self.on_this_thread(0..n, self.first_word(0, n), 0) };
        }
        let part = n.div_ceil(rayon::current_num_threads()).next_multiple_of(BLOCK).max(shape.tile);
        // The first block of a part may compare with the item before it, which another thread soon
        // overwrites. SAFETY: the caller's items.
        let parts: Vec<_> = (0..n).step_by(part).map(|from| (from, unsafe { self.first_word(from, n) })).collect();
        let compacted = |(from, first_word): (usize, u64)| {
            // SAFETY: the part is this thread's, and its output lies within it.
            (from, unsafe { self.on_this_thread(from..n.min(from + part), first_word, from) })
        };
        let runs: Vec<_> = parts.into_par_iter().map(compacted).collect();
        runs.into_iter().fold(0, |to, (from, len)| {
            // SAFETY: the parts before this one have moved, and the output ends no later than this
            // run.
            unsafe { self.selected[0].move_down(from, to, len) };
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

/// No vectors are compiled in.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_avx2() -> bool {
    false
}
