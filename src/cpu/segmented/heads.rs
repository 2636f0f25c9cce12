//! Heads: the items with which segments begin, in a list or as bits.

use super::super::compact::{answers_as_bits, low_bits};
use crate::Error;
use crate::cpu::offsets::Offset;
use crate::memory::{out_of_memory, room_on_host};
use bytemuck::Pod;
use std::ops::{ControlFlow, Range};

/// Items of a word.
const WORD: usize = 64;

/// Where segments begin. Each kind either has its heads in a list, in ascending order, or marks items.
pub trait Heads: Sync {
    /// The items of a segment, at least one, if all have as many.
    fn columns(&self) -> Option<usize> {
        None
    }
    /// The number of heads before item `item`, if this kind has a list. There a head may come more than once.
    fn listed_before(&self, item: usize) -> Option<usize> {
        let _ = item;
        None
    }
    /// Copies the heads of the list from number `from` on.
    fn list(&self, from: usize, heads: &mut [usize]) {
        let _ = (from, heads);
        unreachable!("this kind has no list");
    }
    /// Sets bit j of word k if a segment begins with item `from + 64 k + j`, and clears it if not.
    /// `from` is a multiple of 64. Bits of items that do not exist may be anything.
    fn mark(&self, from: usize, words: &mut [u64]) {
        let _ = (from, words);
        unreachable!("this kind has a list");
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
    fn columns(&self) -> Option<usize> {
        (**self).columns()
    }
    fn listed_before(&self, item: usize) -> Option<usize> {
        (**self).listed_before(item)
    }
    fn list(&self, from: usize, heads: &mut [usize]) {
        (**self).list(from, heads);
    }
    fn mark(&self, from: usize, words: &mut [u64]) {
        (**self).mark(from, words);
    }
}

impl Heads for ByRows {
    fn columns(&self) -> Option<usize> {
        Some(self.0)
    }
    fn listed_before(&self, item: usize) -> Option<usize> {
        Some(item.div_ceil(self.0))
    }
    fn list(&self, from: usize, heads: &mut [usize]) {
        for (number, head) in (from..).zip(heads) {
            *head = number * self.0;
        }
    }
}

impl<O: Offset> Heads for ByOffsets<'_, O> {
    fn listed_before(&self, item: usize) -> Option<usize> {
        Some(self.0.partition_point(|offset| offset.widen() < item as u64))
    }
    fn list(&self, from: usize, heads: &mut [usize]) {
        for (head, offset) in heads.iter_mut().zip(&self.0[from..]) {
            *head = offset.widen() as usize;
        }
    }
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
    if let Some(before) = heads.listed_before(i) {
        return heads.listed_before(i + 1) > Some(before);
    }
    let mut word = [0];
    heads.mark(i / WORD * WORD, &mut word);
    word[0] >> (i % WORD) & 1 != 0
}

/// Heads that are listed at a time, at most.
pub(crate) const LIST: usize = 512;
/// Words that are marked at a time.
const WORDS: usize = 128;

/// The heads of a tile, some at a time.
pub(crate) struct HeadLists<'a> {
    heads: &'a dyn Heads,
    backwards: bool,
    is_listed: bool,
    /// What is left: numbers of listed heads, or the items of the tile.
    left: Range<usize>,
}

impl<'a> HeadLists<'a> {
    /// The heads of a tile that begins with a multiple of 64, the first ones first, or `backwards` the last ones.
    pub(crate) fn new(heads: &'a dyn Heads, tile: Range<usize>, backwards: bool) -> HeadLists<'a> {
        let listed = heads.listed_before(tile.start).zip(heads.listed_before(tile.end));
        let left = listed.map_or(tile, |(first, last)| first..last);
        HeadLists { heads, backwards, is_listed: listed.is_some(), left }
    }

    /// The next heads in ascending order, perhaps none; `None` after the last ones. A head may come more than once.
    #[inline(never)]
    pub(crate) fn next<'l>(&mut self, list: &'l mut [usize; LIST]) -> Option<&'l [usize]> {
        if self.left.is_empty() {
            return None;
        }
        let part = if self.backwards {
            // The parts of a tile begin with a multiple of 64, too.
            let from = self.left.start + (self.left.len() - 1) / LIST * LIST;
            from..std::mem::replace(&mut self.left.end, from)
        } else {
            let to = self.left.end.min(self.left.start + LIST);
            std::mem::replace(&mut self.left.start, to)..to
        };
        if self.is_listed {
            let list = &mut list[..part.len()];
            self.heads.list(part.start, list);
            // Of neighbours that are the same the last one, without a branch.
            let mut count = 0;
            for i in 0..list.len() {
                let is_last = list.get(i + 1) != Some(&list[i]);
                list[count] = list[i];
                count += usize::from(is_last);
            }
            return Some(&list[..count]);
        }
        let mut words = [0; LIST / WORD];
        let words = mark(self.heads, part.clone(), &mut words);
        let mut count = 0;
        for (base, word) in (part.start..).step_by(WORD).zip(words) {
            while *word != 0 {
                list[count] = base + word.trailing_zeros() as usize;
                *word &= *word - 1;
                count += 1;
            }
        }
        Some(&list[..count])
    }

    /// The same for kinds that have a list; `None` for others.
    fn next_listed<'l>(&mut self, list: &'l mut [usize; LIST]) -> Option<&'l [usize]> {
        if self.is_listed { self.next(list) } else { None }
    }

    /// The first head of a tile, or `backwards` the last one.
    pub(crate) fn end(heads: &dyn Heads, tile: Range<usize>, backwards: bool) -> Option<usize> {
        let (mut lists, mut list) = (HeadLists::new(heads, tile, backwards), [0; LIST]);
        while let Some(heads) = lists.next(&mut list) {
            if let Some(&head) = if backwards { heads.last() } else { heads.first() } {
                return Some(head);
            }
        }
        None
    }
}

/// The items with which segments of `n` items begin, the first item among them, and then `n`. All
/// threads search.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn begins(primitive: &'static str, heads: &dyn Heads, n: usize) -> Result<Vec<u64>, Error> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    /// Items that are worth a thread's start.
    const PART: usize = crate::cpu::threshold(1 << 18);
    let part = |k: usize| {
        let mut begins = Vec::<u64>::new();
        let (mut lists, mut list) = (HeadLists::new(heads, k * PART..n.min((k + 1) * PART), false), [0; LIST]);
        if k == 0 && n > 0 {
            begins.push(0);
        }
        while let Some(heads) = lists.next(&mut list) {
            let more = heads.len();
            begins.try_reserve(more).map_err(|_| out_of_memory::<u64>(primitive, begins.len() + more))?;
            let again = heads.first().is_some_and(|&head| begins.last() == Some(&(head as u64)));
            begins.extend(heads[usize::from(again)..].iter().map(|&head| head as u64));
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
    let mut lists = HeadLists::new(heads, start..end, backwards);
    let mut list = [0; LIST];
    while let Some(heads) = lists.next_listed(&mut list) {
        let mut heads = heads.iter();
        while let Some(&head) = if backwards { heads.next_back() } else { heads.next() } {
            let items = if backwards {
                head..std::mem::replace(&mut end, head)
            } else {
                std::mem::replace(&mut start, head)..head
            };
            // Forwards the tile may begin with a head, and backwards it may end with one.
            if !items.is_empty() && piece(items, begins).is_break() {
                return;
            }
            begins = true;
        }
    }
    // Other kinds go word by word: a list would be one more store and load for each head.
    let mut words = [0; WORDS];
    let parts = if lists.is_listed { 0 } else { tile.len().div_ceil(WORDS * WORD) };
    for k in 0..parts {
        let from = tile.start + WORDS * WORD * if backwards { parts - 1 - k } else { k };
        let marked = mark(heads, from..tile.end, &mut words).len();
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

/// Marks the heads among the first of `items`, and returns their words.
#[inline(never)]
fn mark<'w>(heads: &dyn Heads, items: Range<usize>, words: &'w mut [u64]) -> &'w mut [u64] {
    let room = words.len();
    let words = &mut words[..items.len().div_ceil(WORD).min(room)];
    heads.mark(items.start, words);
    if items.len() < WORD * words.len() {
        // Items past the end are not the tile's.
        words[words.len() - 1] &= low_bits(items.len() % WORD);
    }
    words
}

/// The first index whose offset and the one before it satisfy `is_step`.
pub(crate) fn step_where<O: Offset>(offsets: &[O], is_step: impl Fn(u64, u64) -> bool + Sync) -> Option<usize> {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};
    /// Offsets that are worth a thread's start, and those that are compared without a branch.
    const PART: usize = crate::cpu::threshold(1 << 16);
    const BLOCK: usize = 64;
    let part = |from: usize| {
        let part = &offsets[from..offsets.len().min(from + PART + 1)];
        let is_step = |i: usize| is_step(part[i].widen(), part[i + 1].widen());
        // Blocks without a branch for each offset, so by vectors.
        let steps = part.len().saturating_sub(1);
        let mut blocks = (0..steps).step_by(BLOCK).map(|block| block..steps.min(block + BLOCK));
        let mut block = blocks.find(|block| block.clone().fold(false, |any, i| any | is_step(i)))?;
        block.find(|&i| is_step(i)).map(|i| from + i + 1)
    };
    match offsets.len() {
        ..=PART => part(0),
        len => (0..len.div_ceil(PART)).into_par_iter().find_map_first(|k| part(k * PART)),
    }
}
