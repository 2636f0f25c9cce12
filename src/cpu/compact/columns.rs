//! What moves by the bits: items of a known size, items of any size, and source indices.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx2;
use super::{BLOCK, Words, low_bits};
use crate::cpu::{lanes::LINE, offsets::Offset, scan::prefetch, threshold};
use bytemuck::Pod;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::ops::Range;

/// One output of a compaction: the items, a payload, or the source indices.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(super) what: What,
    /// Bytes of an item of the output.
    pub(super) size: usize,
    /// The output.
    pub(super) to: *mut u8,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    /// The items of an array that begins here.
    Array(*const u8),
    /// The source indices, as integers of 4 or 8 bytes.
    Indices,
}

// SAFETY: items are read on any thread, which `T: Sync` permits, and copies of them are written on
// another, which `T: Send` permits: `Column::array` requires both. Source indices are integers.
unsafe impl Sync for Column {}

impl Column {
    /// The items of an array. `from` may be `to`, for
    /// [`compact_in_place`](super::compact_in_place).
    pub(crate) fn array<T: Pod + Send + Sync>(from: *const T, to: *mut T) -> Column {
        Column { what: What::Array(from.cast()), size: size_of::<T>(), to: to.cast() }
    }

    /// The source indices.
    pub(crate) fn indices<I: Offset>(to: *mut I) -> Column {
        Column { what: What::Indices, size: size_of::<I>(), to: to.cast() }
    }

    /// Whether the array is its own output.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(self.what, What::Array(from) if from == self.to.cast_const())
    }

    /// The same column with an output that begins at index `first`.
    pub(crate) fn at_place(self, first: usize) -> Column {
        Column { to: self.to.wrapping_add(first.wrapping_mul(self.size)), ..self }
    }

    /// Moves the selected items of a group, and returns their number.
    ///
    /// # Safety
    /// - As for [`Put::put`], of each block of the group.
    /// - The words of the group, and of the coming items, were written.
    /// - With `avx2`: the machine has it.
    pub(super) unsafe fn put(&self, group: &Group, avx2: bool) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if avx2 {
            // SAFETY: the caller's.
            return unsafe { avx2::put(self, group) };
        }
        let _ = avx2;
        // SAFETY: the caller's.
        unsafe { self.put_by::<false>(group) }
    }

    /// [`put`](Self::put), compiled with or without vectors.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    pub(super) unsafe fn put_by<const AVX2: bool>(&self, group: &Group) -> usize {
        /// A loop for each of these sizes, and one for all others.
        macro_rules! array {
            ($from:ident, $($size:literal)*) => {
                match self.size {
                    $( $size => {
                        let (from, to) = ($from.cast::<[u8; $size]>(), self.to.cast());
                        self.put_as::<_, AVX2>(Array { from, to }, group)
                    } )*
                    size => self.put_as::<_, AVX2>(Large { from: $from, to: self.to, size }, group),
                }
            };
        }
        // SAFETY: the caller's.
        unsafe {
            match self.what {
                What::Array(from) => array!(from, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 20 24 28 32),
                What::Indices if self.size == 4 => self.put_as::<_, AVX2>(Indices { to: self.to.cast::<u32>() }, group),
                What::Indices => self.put_as::<_, AVX2>(Indices { to: self.to.cast::<u64>() }, group),
            }
        }
    }

    /// [`put`](Self::put) for a column whose type is known at compile time.
    ///
    /// # Safety
    /// As for that; `by` is this column.
    #[inline(always)]
    unsafe fn put_as<P: Put, const AVX2: bool>(&self, by: P, group: &Group) -> usize {
        let Group { items, words, invert, to, end, coming, coming_words } = group.clone();
        let (whole, rest) = (items.len() / BLOCK, items.len() % BLOCK);
        let to_come = coming.len().div_ceil(BLOCK);
        let mut index = to;
        // SAFETY: the caller's.
        unsafe {
            let word = words.of(items.start);
            let coming_word = coming_words.map(|words| words.of(coming.start));
            for block in 0..whole {
                // A block is fetched for each block that moves, so memory stays busy.
                if block < to_come {
                    let i = coming.start + block * BLOCK;
                    match coming_word {
                        Some(word) => self.expect(i, word.add(block).read()),
                        None => self.expect_all(i),
                    }
                }
                let bits = word.add(block).read() ^ invert;
                by.put::<AVX2>(items.start + block * BLOCK, BLOCK, bits, index, end);
                index += bits.count_ones() as usize;
            }
            if rest > 0 {
                let bits = (word.add(whole).read() ^ invert) & low_bits(rest);
                by.put::<AVX2>(items.end - rest, rest, bits, index, end);
                index += bits.count_ones() as usize;
            }
        }
        index - to
    }

    /// Prefetches the items `i + j`, for each set bit j: this thread will move them soon.
    #[inline(always)]
    pub(super) fn expect(&self, i: usize, bits: u64) {
        // Only the first and the last: the processor prefetches longer runs itself.
        if let (What::Array(from), true) = (self.what, bits != 0) {
            prefetch(from.wrapping_add((i + bits.trailing_zeros() as usize) * self.size));
            prefetch(from.wrapping_add((i + bits.ilog2() as usize) * self.size));
        }
    }

    /// Prefetches the block that begins at item `i`: this thread will choose its items soon, and
    /// move them.
    #[inline(always)]
    fn expect_all(&self, i: usize) {
        if let What::Array(from) = self.what {
            // A block of 64 items has as many cache lines as an item has bytes. The first 16: a
            // core has few more in flight.
            let block = from.wrapping_add(i * self.size);
            (0..self.size.min(16)).for_each(|line| prefetch(block.wrapping_add(line * LINE)));
        }
    }
}

/// Blocks that one call moves.
#[derive(Clone)]
pub(super) struct Group {
    /// Their items, from the first of a block on.
    pub(super) items: Range<usize>,
    /// Their bits.
    pub(super) words: Words,
    /// 0 to move the items whose bits are set, `u64::MAX` to move the others.
    pub(super) invert: u64,
    /// The output index of the first.
    pub(super) to: usize,
    /// The end of the output that may be written.
    pub(super) end: usize,
    /// Items that will move soon, if they should be prefetched.
    pub(super) coming: Range<usize>,
    /// The words of these, if they were chosen.
    pub(super) coming_words: Option<Words>,
}

/// A [`Column`] whose type is known.
trait Put: Copy {
    /// Writes the items `i + j`, for each set bit j, to the output from index `to` on, in order.
    ///
    /// Reads upwards, and writes no further up than it has read, so items may be compacted in
    /// place.
    ///
    /// # Safety
    /// - `len` is 1..=64, bits from `len` on are 0, and the items `i..i + len` may be read.
    /// - The output indices from `to` up to `to + bits.count_ones()`, and up to `end` if that is
    ///   more, may be written, and no other thread touches them meanwhile. Past the written items
    ///   they may be left with any contents.
    /// - With `AVX2`: the machine has it.
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize);
}

/// Items as arrays of bytes, which need no alignment.
#[derive(Clone, Copy)]
struct Array<T> {
    from: *const T,
    to: *mut T,
}

/// Items of any size from 16 bytes on; each smaller size is a compile-time constant.
#[derive(Clone, Copy)]
struct Large {
    from: *const u8,
    to: *mut u8,
    size: usize,
}

/// The source indices.
#[derive(Clone, Copy)]
struct Indices<I> {
    to: *mut I,
}

/// Calls `take(j)` for each set bit j, from the lowest on.
#[inline(always)]
fn for_each_bit(mut bits: u64, mut take: impl FnMut(usize)) {
    while bits != 0 {
        take(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Blocks with at most this many selected items are taken by their set bits.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SPARSE: u32 = 2;

/// The most items past the selected ones that a vector store writes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const OVERSHOOT: usize = 8;

/// Whether vectors move a block: they take all 64 items, and write past the selected ones.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn in_vectors(len: usize, bits: u64, to: usize, end: usize) -> bool {
    len == BLOCK && bits.count_ones() > SPARSE && to + bits.count_ones() as usize + OVERSHOOT <= end
}

impl<T: Copy> Put for Array<T> {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize) {
        // SAFETY: the caller's. Everything here reads upwards and writes no further up than it has
        // read.
        unsafe {
            let (from, mut next) = (self.from.add(i), self.to.add(to));
            // In place, before the first rejected item, nothing moves.
            if next.cast_const() == from && bits == low_bits(len) {
                return;
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<T>() {
                    1 => return avx2::put_1(from.cast(), bits, next.cast()),
                    2 => return avx2::put_2(from.cast(), bits, next.cast()),
                    4 => return avx2::put_4(from.cast(), bits, next.cast()),
                    8 => return avx2::put_8(from.cast(), bits, next.cast()),
                    _ => {}
                }
            }
            if bits == low_bits(len) {
                return std::ptr::copy(from, next, len);
            }
            for_each_bit(bits, |j| {
                next.write(from.add(j).read());
                next = next.add(1);
            });
        }
        let _ = end;
    }
}

/// Bytes from which on an item is worth a call of `memmove`.
const MEMMOVE_BYTES: usize = 256;

impl Put for Large {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, _: usize) {
        let size = self.size;
        // SAFETY: the caller's. In place an item moves down; it has 16 bytes or more, since smaller
        // sizes are `Array`s.
        unsafe {
            let (from, mut next) = (self.from.add(i * size), self.to.add(to * size));
            if bits == low_bits(len) {
                if next.cast_const() != from {
                    std::ptr::copy(from, next, len * size);
                }
                return;
            }
            for_each_bit(bits, |j| {
                let from = from.add(j * size);
                if size < 32 {
                    move_by_parts::<16>(from, next, size);
                } else if size < MEMMOVE_BYTES {
                    move_by_parts::<32>(from, next, size);
                } else {
                    std::ptr::copy(from, next, size);
                }
                next = next.add(size);
            });
        }
    }
}

/// Moves an item in parts of `PART` bytes. The last part ends where the item does, and may overlap
/// the one before.
///
/// # Safety
/// - `from` is valid for reads of `size >= PART` bytes and `to` for writes.
/// - If they overlap, `to` is not above `from`.
#[inline(always)]
unsafe fn move_by_parts<const PART: usize>(from: *const u8, to: *mut u8, size: usize) {
    let last = size - PART;
    // SAFETY: the caller's. The last part is read first, since the parts before it may overwrite
    // it.
    unsafe {
        let part = from.add(last).cast::<[u8; PART]>().read();
        for byte in (0..last).step_by(PART) {
            to.add(byte).cast::<[u8; PART]>().write(from.add(byte).cast::<[u8; PART]>().read());
        }
        to.add(last).cast::<[u8; PART]>().write(part);
    }
}

impl<I: Offset> Put for Indices<I> {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize) {
        // SAFETY: the caller's.
        unsafe {
            let mut next = self.to.add(to);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<I>() {
                    4 => return avx2::indices_4(i as u32, bits, next.cast()),
                    8 => return avx2::indices_8(i as u64, bits, next.cast()),
                    _ => {}
                }
            }
            for_each_bit(bits, |j| {
                next.write(I::narrow((i + j) as u64));
                next = next.add(1);
            });
        }
        let _ = (len, end);
    }
}

/// Bytes that are worth a thread's start.
const PIECE_BYTES: usize = threshold(64 << 10);

impl Column {
    /// Moves `len` items of the output down, from index `from` to index `to`.
    ///
    /// # Safety
    /// `to` is not past `from`. The items may be read and written, and no other thread touches
    /// them.
    pub(super) unsafe fn move_down(&self, from: usize, to: usize, len: usize) {
        let (len, distance) = (len * self.size, (from - to) * self.size);
        if distance == 0 {
            return;
        }
        // SAFETY: the caller's.
        let at = |byte: usize| unsafe { self.to.add(to * self.size + byte) };
        if distance.min(len) < 2 * PIECE_BYTES {
            // SAFETY: the caller's.
            return unsafe { std::ptr::copy(at(distance), at(0), len) };
        }
        // A move of `distance` bytes does not overlap itself, and frees the room of the next move.
        for done in (0..len).step_by(distance) {
            let end = len.min(done + distance);
            (done..end).into_par_iter().step_by(PIECE_BYTES).for_each(|i| {
                let len = PIECE_BYTES.min(end - i);
                // SAFETY: as above; a piece is written by one thread, and no other thread reads it.
                unsafe { at(i).copy_from_nonoverlapping(at(i + distance), len) }
            });
        }
    }
}
