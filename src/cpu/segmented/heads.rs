//! Heads: the items with which segments begin, as bits.

use super::super::compact::{answers_as_bits, low_bits};
use crate::Error;
use crate::cpu::offsets::Offset;
use crate::memory::{out_of_memory, room_on_host};
use bytemuck::Pod;
use std::ops::{ControlFlow, Range};

/// Items of a word.
const WORD: usize = 64;

/// Where segments begin.
pub trait Heads: Sync {
    /// Sets bit j of word k if a segment begins with item `from + 64 k + j`, and clears it if not.
    /// `from` is a multiple of 64. Bits of items that do not exist may be anything.
    fn mark(&self, from: usize, words: &mut [u64]);
    /// The items of a segment, at least one, if all have as many.
    fn columns(&self) -> Option<usize> {
        None
    }
    /// Lists the heads in `items`, from the first in ascending order, or with `backwards` from the last in descending
    /// order. A head may come more than once. Returns their number, or `None` if this kind cannot list heads. If
    /// there is no room for all, `begins` is full.
    fn list(&self, items: Range<usize>, backwards: bool, begins: &mut [usize]) -> Option<usize> {
        let _ = (items, backwards, begins);
        None
    }
}

/// Segments of this many items each, at least one.
pub(crate) struct ByRows(pub(crate) usize);
/// Segments that begin at offsets in ascending order.
pub(crate) struct ByOffsets<'a, O>(pub(crate) &'a [O]);
/// Segments that begin where a flag is not zero.
pub(crate) struct ByFlags<'a>(pub(crate) &'a [u8]);
/// Segments that begin where a bit is set, in words of `u32` or `u64`.
pub(crate) struct ByBits<'a, W>(pub(crate) &'a [W]);
/// Segments of neighbours whose keys are the same bytes.
pub(crate) struct ByKeys<'a, K>(pub(crate) &'a [K]);

impl<H: Heads + ?Sized> Heads for Box<H> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        (**self).mark(from, words);
    }
    fn columns(&self) -> Option<usize> {
        (**self).columns()
    }
    fn list(&self, items: Range<usize>, backwards: bool, begins: &mut [usize]) -> Option<usize> {
        (**self).list(items, backwards, begins)
    }
}

impl Heads for ByRows {
    fn mark(&self, from: usize, words: &mut [u64]) {
        // The heads of a word that begins with one.
        let pattern = (0..WORD).step_by(self.0).fold(0_u64, |bits, head| bits | 1 << head);
        let mut head = from.next_multiple_of(self.0);
        for (base, word) in (from..).step_by(WORD).zip(words) {
            let skipped = head - base;
            *word = if skipped < WORD { pattern << skipped } else { 0 };
            if skipped < WORD {
                head += ((WORD - 1 - skipped) / self.0 + 1) * self.0;
            }
        }
    }
    fn columns(&self) -> Option<usize> {
        Some(self.0)
    }
}

impl<O: Offset> Heads for ByOffsets<'_, O> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        words.fill(0);
        let items = WORD * words.len();
        let mut next = self.0.partition_point(|offset| offset.widen() < from as u64);
        while let Some(offset) = self.0.get(next) {
            let at = (offset.widen() - from as u64) as usize;
            if at >= items {
                break;
            }
            words[at / WORD] |= 1 << (at % WORD);
            next = after(self.0, next);
        }
    }
    fn list(&self, items: Range<usize>, backwards: bool, begins: &mut [usize]) -> Option<usize> {
        let before = |item: usize| self.0.partition_point(|offset| offset.widen() < item as u64);
        let (first, room) = (before(items.start), begins.len());
        let put = |(begin, offset): (&mut usize, &O)| *begin = offset.widen() as usize;
        Some(if backwards {
            let last = before(items.end);
            let some = &self.0[first.max(last.saturating_sub(room))..last];
            begins.iter_mut().zip(some.iter().rev()).for_each(put);
            some.len()
        } else {
            let some = &self.0[first..self.0.len().min(first + room)];
            let count = some.partition_point(|offset| offset.widen() < items.end as u64);
            begins.iter_mut().zip(&some[..count]).for_each(put);
            count
        })
    }
}

/// The index of the first offset that is greater than the one at `i`. Of many equal ones it looks
/// at few.
fn after<O: Offset>(offsets: &[O], i: usize) -> usize {
    let (offset, mut step) = (offsets[i].widen(), 1);
    let is_equal = |other: &O| other.widen() <= offset;
    while offsets.get(i + step).is_some_and(is_equal) {
        step *= 2;
    }
    let (low, high) = (i + step / 2, offsets.len().min(i + step));
    low + offsets[low..high].partition_point(is_equal)
}

impl Heads for ByFlags<'_> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        for (flags, word) in self.0[from..].chunks(WORD).zip(words) {
            *word = answers_as_bits(flags.len(), |j| flags[j] != 0);
        }
    }
}

impl Heads for ByBits<'_, u64> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        for (bits, word) in self.0[from / WORD..].iter().zip(words) {
            *word = *bits;
        }
    }
}

impl Heads for ByBits<'_, u32> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        for (halves, word) in self.0[from / 32..].chunks(2).zip(words) {
            *word = u64::from(halves[0]) | halves.get(1).map_or(0, |&half| u64::from(half) << 32);
        }
    }
}

impl<K: Pod + Sync> Heads for ByKeys<'_, K> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        let differ = |a: &K, b: &K| bytemuck::bytes_of(a) != bytemuck::bytes_of(b);
        for (base, word) in (from..self.0.len()).step_by(WORD).zip(words) {
            let keys = &self.0[base..self.0.len().min(base + WORD)];
            *word = match base {
                0 => answers_as_bits(keys.len(), |j| j == 0 || differ(&keys[j], &keys[j - 1])),
                _ => {
                    let before = &self.0[base - 1..][..keys.len()];
                    answers_as_bits(keys.len(), |j| differ(&keys[j], &before[j]))
                }
            };
        }
    }
}

/// Whether a segment begins with item `i`.
pub(super) fn is_head(heads: &dyn Heads, i: usize) -> bool {
    let mut word = [0];
    heads.mark(i / WORD * WORD, &mut word);
    word[0] >> (i % WORD) & 1 != 0
}

/// Words that are marked at a time.
const WORDS: usize = 128;
/// Heads that are listed at a time.
const LIST: usize = 256;

/// The items with which segments of `n` items begin, the first item among them, and then `n`. All
/// threads search.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn begins(primitive: &'static str, heads: &dyn Heads, n: usize) -> Result<Vec<u64>, Error> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    /// Items that are worth a thread's start: some blocks of words.
    const PART: usize = crate::cpu::threshold(1 << 18);
    let part = |k: usize| {
        let (mut begins, mut words) = (Vec::<u64>::new(), [0; WORDS]);
        let end = n.min((k + 1) * PART);
        for from in (k * PART..end).step_by(WORDS * WORD) {
            let marked = mark(heads, from..end, &mut words);
            if from == 0 {
                words[0] |= 1;
            }
            for (base, mut word) in (from as u64..).step_by(WORD).zip(words[..marked].iter().copied()) {
                let more = word.count_ones() as usize;
                begins.try_reserve(more).map_err(|_| out_of_memory::<u64>(primitive, begins.len() + more))?;
                while word != 0 {
                    begins.push(base + u64::from(word.trailing_zeros()));
                    word &= word - 1;
                }
            }
        }
        Ok(begins)
    };
    let parts: Vec<_> = match n {
        ..=PART => vec![part(0)?],
        _ => (0..n.div_ceil(PART)).into_par_iter().map(part).collect::<Result<_, _>>()?,
    };
    let mut begins = room_on_host(primitive, parts.iter().map(Vec::len).sum::<usize>() + 1)?;
    parts.into_iter().for_each(|part| begins.extend(part));
    begins.push(n as u64);
    Ok(begins)
}

/// Calls `piece(items, begins)` for each piece of a tile of `n` items, in order or backwards, until
/// it breaks.
///
/// `begins` says whether the piece is the first of its segment in that direction. For the first
/// piece of all items it may be false.
///
/// The tile has items, and begins with a multiple of 64.
#[inline(always)]
pub(super) fn for_each_piece(
    heads: &dyn Heads,
    tile: Range<usize>,
    n: usize,
    backwards: bool,
    mut piece: impl FnMut(Range<usize>, bool) -> ControlFlow<()>,
) {
    debug_assert!(tile.start < tile.end && tile.start.is_multiple_of(WORD));
    // The state of the loops is in local variables, so that it stays in registers.
    let Range { mut start, mut end } = tile;
    let mut begins = backwards && end < n && is_head(heads, end);
    let mut list = [0; LIST];
    let mut left = tile.clone();
    while let Some(count) = heads.list(left.clone(), backwards, &mut list) {
        for &head in &list[..count] {
            let items = if backwards {
                head..std::mem::replace(&mut end, head)
            } else {
                std::mem::replace(&mut start, head)..head
            };
            if !items.is_empty() && piece(items, begins).is_break() {
                return;
            }
            begins = true;
        }
        if count < LIST {
            if start < end {
                let _ = piece(start..end, begins);
            }
            return;
        }
        left = if backwards { left.start..list[LIST - 1] } else { list[LIST - 1] + 1..left.end };
    }
    let mut words = [0; WORDS];
    let parts = tile.len().div_ceil(WORDS * WORD);
    for k in 0..parts {
        let from = tile.start + WORDS * WORD * if backwards { parts - 1 - k } else { k };
        let marked = mark(heads, from..tile.end, &mut words);
        for k in 0..marked {
            let k = if backwards { marked - 1 - k } else { k };
            let (mut word, base) = (words[k], from + WORD * k);
            while word != 0 {
                let items = if backwards {
                    let bit = WORD - 1 - word.leading_zeros() as usize;
                    word ^= 1 << bit;
                    base + bit..std::mem::replace(&mut end, base + bit)
                } else {
                    let head = base + word.trailing_zeros() as usize;
                    word &= word - 1;
                    std::mem::replace(&mut start, head)..head
                };
                // Forwards the tile may begin with a head, and backwards it may end with one.
                if !items.is_empty() && piece(items, begins).is_break() {
                    return;
                }
                begins = true;
            }
        }
    }
    if start < end {
        let _ = piece(start..end, begins);
    }
}

/// Marks the heads among the first of `items`, and returns the number of words.
#[inline(never)]
fn mark(heads: &dyn Heads, items: Range<usize>, words: &mut [u64; WORDS]) -> usize {
    let words = &mut words[..items.len().div_ceil(WORD).min(WORDS)];
    heads.mark(items.start, words);
    if items.len() < WORD * words.len() {
        // Items past the end are not the tile's.
        words[words.len() - 1] &= low_bits(items.len() % WORD);
    }
    words.len()
}

/// The first index whose offset and the one before it satisfy `is_step`.
pub(crate) fn step_where<O: Offset>(offsets: &[O], is_step: impl Fn(u64, u64) -> bool + Sync) -> Option<usize> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    /// Offsets that are worth a thread's start.
    const PART: usize = crate::cpu::threshold(1 << 16);
    let part = |from: usize| {
        let part = &offsets[from..offsets.len().min(from + PART + 1)];
        let step = part.windows(2).position(|pair| is_step(pair[0].widen(), pair[1].widen()));
        step.map(|step| from + step + 1)
    };
    match offsets.len() {
        ..=PART => part(0),
        len => (0..len.div_ceil(PART)).into_par_iter().find_map_first(|k| part(k * PART)),
    }
}
