//! What moves, by the bits: items of a known size, items of any size, and their numbers.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx2;
use super::{BLOCK, Words, first};
use crate::cpu::{lanes::LINE, offsets::Offset, scan::prefetch, threshold};
use bytemuck::Pod;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use std::ops::Range;

/// What moves with each item: the item itself, what stands beside it, or its number.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(super) what: What,
    /// Bytes of a place.
    pub(super) size: usize,
    /// The places.
    pub(super) to: *mut u8,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    /// The items of an array that begins here.
    Array(*const u8),
    /// The numbers of the items, as integers of 4 or 8 bytes.
    Indices,
}

// SAFETY: items are read on any thread, which `T: Sync` permits, and copies of them written by one, which `T: Send`
// does: `Column::array` asks for both. Numbers are integers.
unsafe impl Sync for Column {}

impl Column {
    /// The items of an array. They may be their own places: for [`compact_in_place`](super::compact_in_place).
    pub(crate) fn array<T: Pod + Send + Sync>(from: *const T, to: *mut T) -> Column {
        Column { what: What::Array(from.cast()), size: size_of::<T>(), to: to.cast() }
    }

    /// The numbers of the items.
    pub(crate) fn indices<I: Offset>(to: *mut I) -> Column {
        Column { what: What::Indices, size: size_of::<I>(), to: to.cast() }
    }

    /// Whether the items are their own places.
    pub(super) fn is_in_place(&self) -> bool {
        matches!(self.what, What::Array(from) if from == self.to.cast_const())
    }

    /// The same, with the first place where place `first` was.
    pub(crate) fn at_place(self, first: usize) -> Column {
        Column { to: self.to.wrapping_add(first.wrapping_mul(self.size)), ..self }
    }

    /// Puts a group, and returns how many items that are.
    ///
    /// # Safety
    /// - As for [`Put::put`], of each block of the group.
    /// - Its words, and those of what is coming, were written.
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
        /// One loop for each of these sizes, and one for all others.
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

    /// [`put`](Self::put) by what is known of the column when this is compiled.
    ///
    /// # Safety
    /// As for that; `by` is this column.
    #[inline(always)]
    unsafe fn put_as<P: Put, const AVX2: bool>(&self, by: P, group: &Group) -> usize {
        let Group { items, words, invert, to, end, coming, coming_words } = group.clone();
        let (whole, rest) = (items.len() / BLOCK, items.len() % BLOCK);
        let to_come = coming.len().div_ceil(BLOCK);
        let mut place = to;
        // SAFETY: the caller's.
        unsafe {
            let word = words.of(items.start);
            let coming_word = coming_words.map(|words| words.of(coming.start));
            for block in 0..whole {
                // One for one: memory is busy all the time.
                if block < to_come {
                    let i = coming.start + block * BLOCK;
                    match coming_word {
                        Some(word) => self.expect(i, word.add(block).read()),
                        None => self.expect_all(i),
                    }
                }
                let bits = word.add(block).read() ^ invert;
                by.put::<AVX2>(items.start + block * BLOCK, BLOCK, bits, place, end);
                place += bits.count_ones() as usize;
            }
            if rest > 0 {
                let bits = (word.add(whole).read() ^ invert) & first(rest);
                by.put::<AVX2>(items.end - rest, rest, bits, place, end);
                place += bits.count_ones() as usize;
            }
        }
        place - to
    }

    /// The items `i + j`, for every set bit j, will be put soon by this thread: they may be fetched.
    #[inline(always)]
    pub(super) fn expect(&self, i: usize, bits: u64) {
        // The first and the last: where there are more, the processor sees by itself what is next.
        if let (What::Array(from), true) = (self.what, bits != 0) {
            prefetch(from.wrapping_add((i + bits.trailing_zeros() as usize) * self.size));
            prefetch(from.wrapping_add((i + bits.ilog2() as usize) * self.size));
        }
    }

    /// The block that begins at item `i` will be chosen soon by this thread, and its items put: they may be fetched.
    #[inline(always)]
    fn expect_all(&self, i: usize) {
        if let What::Array(from) = self.what {
            // A block has as many lines as an item has bytes. The first of many: a core has few more under way.
            let block = from.wrapping_add(i * self.size);
            (0..self.size.min(16)).for_each(|line| prefetch(block.wrapping_add(line * LINE)));
        }
    }
}

/// Blocks that are put in one call.
#[derive(Clone)]
pub(super) struct Group {
    /// Their items, which begin with a whole block.
    pub(super) items: Range<usize>,
    /// Their bits.
    pub(super) words: Words,
    /// 0 to put the items whose bits are set, `u64::MAX` to put the others.
    pub(super) invert: u64,
    /// The first place.
    pub(super) to: usize,
    /// The end of the places that may be written.
    pub(super) end: usize,
    /// Items that will be put soon, if they are to be fetched.
    pub(super) coming: Range<usize>,
    /// The bits of those, if they were chosen.
    pub(super) coming_words: Option<Words>,
}

/// A [`Column`] of which the type is known.
trait Put: Copy {
    /// Item `i + j` goes, for every set bit j, to the places from `to` on, in order.
    ///
    /// Reads upwards, and writes no further up than it has read: items may be compacted within their own memory.
    ///
    /// # Safety
    /// - `len` is 1..=64, bits from `len` on are 0, and the items `i..i + len` may be read.
    /// - The places from `to` up to `to + bits.count_ones()`, and up to `end` if that is more, may be written, and no
    ///   other thread does meanwhile. Those past the first may be left holding anything: they are written later.
    /// - With `AVX2`: the machine has it.
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize);
}

/// Items, as `T`s that may lie anywhere: arrays of bytes.
#[derive(Clone, Copy)]
struct Array<T> {
    from: *const T,
    to: *mut T,
}

/// Items of any size from 16 bytes on: below, every size is known when this is compiled.
#[derive(Clone, Copy)]
struct Large {
    from: *const u8,
    to: *mut u8,
    size: usize,
}

/// The numbers of the items.
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

/// Blocks with this many items kept, or fewer, are taken by their set bits.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SPARSE: u32 = 2;

/// The most places past the kept ones that a vector write touches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const OVERSHOOT: usize = 8;

/// Whether a block is for vectors, which take all of it and write past its end.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn in_vectors(len: usize, bits: u64, to: usize, end: usize) -> bool {
    len == BLOCK && bits.count_ones() > SPARSE && to + bits.count_ones() as usize + OVERSHOOT <= end
}

impl<T: Copy> Put for Array<T> {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize) {
        // SAFETY: the caller's items and places. Everything here reads upwards and writes no further up than it has
        // read.
        unsafe {
            let (from, mut place) = (self.from.add(i), self.to.add(to));
            // In place all are where they belong, before anything is dropped.
            if place.cast_const() == from && bits == first(len) {
                return;
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<T>() {
                    1 => return avx2::put_1(from.cast(), bits, place.cast()),
                    2 => return avx2::put_2(from.cast(), bits, place.cast()),
                    4 => return avx2::put_4(from.cast(), bits, place.cast()),
                    8 => return avx2::put_8(from.cast(), bits, place.cast()),
                    _ => {}
                }
            }
            if bits == first(len) {
                return std::ptr::copy(from, place, len);
            }
            for_each_bit(bits, |j| {
                place.write(from.add(j).read());
                place = place.add(1);
            });
        }
        let _ = end;
    }
}

/// Bytes from which on an item is worth a call of `memmove`.
const LONG: usize = 256;

impl Put for Large {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, _: usize) {
        let size = self.size;
        // SAFETY: the caller's items and places. What moves within its own memory moves down, and has 16 bytes or more:
        // the smaller sizes are known ones.
        unsafe {
            let (from, mut place) = (self.from.add(i * size), self.to.add(to * size));
            if bits == first(len) {
                if place.cast_const() != from {
                    std::ptr::copy(from, place, len * size);
                }
                return;
            }
            for_each_bit(bits, |j| {
                let from = from.add(j * size);
                if size < 32 {
                    move_by_parts::<16>(from, place, size);
                } else if size < LONG {
                    move_by_parts::<32>(from, place, size);
                } else {
                    std::ptr::copy(from, place, size);
                }
                place = place.add(size);
            });
        }
    }
}

/// Moves an item, by as many parts of `PART` bytes as there are, and by its last `PART` bytes.
///
/// # Safety
/// - `from` is valid for reads of `size >= PART` bytes and `to` for writes.
/// - If they overlap, `to` is not above `from`.
#[inline(always)]
unsafe fn move_by_parts<const PART: usize>(from: *const u8, to: *mut u8, size: usize) {
    let last = size - PART;
    // SAFETY: the caller's. The last part is read first: those before it may be written over it.
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
        // SAFETY: the caller's places.
        unsafe {
            let mut place = self.to.add(to);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<I>() {
                    4 => return avx2::number_4(i as u32, bits, place.cast()),
                    8 => return avx2::number_8(i as u64, bits, place.cast()),
                    _ => {}
                }
            }
            for_each_bit(bits, |j| {
                place.write(I::narrow((i + j) as u64));
                place = place.add(1);
            });
        }
        let _ = (len, end);
    }
}

/// Bytes that are worth a thread's start.
const PIECE_BYTES: usize = threshold(64 << 10);

impl Column {
    /// Moves what is in `len` places down, from place `from` to place `to`.
    ///
    /// # Safety
    /// `to` is not past `from`. The places are valid for reads and writes, and nobody else touches them.
    pub(super) unsafe fn move_down(&self, from: usize, to: usize, len: usize) {
        let (len, distance) = (len * self.size, (from - to) * self.size);
        if distance == 0 {
            return;
        }
        // SAFETY: the caller's places.
        let at = |byte: usize| unsafe { self.to.add(to * self.size + byte) };
        if distance.min(len) < 2 * PIECE_BYTES {
            // SAFETY: the caller's.
            return unsafe { std::ptr::copy(at(distance), at(0), len) };
        }
        // As many bytes as the distance do not overlap their places, and leave theirs free for the next.
        for done in (0..len).step_by(distance) {
            let end = len.min(done + distance);
            (done..end).into_par_iter().step_by(PIECE_BYTES).for_each(|i| {
                let len = PIECE_BYTES.min(end - i);
                // SAFETY: as above; threads write places of their own, which no other reads.
                unsafe { at(i).copy_from_nonoverlapping(at(i + distance), len) }
            });
        }
    }
}
