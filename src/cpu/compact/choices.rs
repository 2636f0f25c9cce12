//! The choices: they write one bit an item. They are the only code of the engine that is compiled
//! for a caller's types.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::avx2;
use super::{BLOCK, Words, low_bits};
use crate::cpu::scan::prefetch;
use std::ops::Range;

/// Which items are selected, 64 at a time.
pub trait Choice: Sync {
    /// Bits of memory that are read for an item.
    fn bits_an_item(&self) -> usize;
    /// Writes a word for each block of `items`, and returns the number of set bits. Bit j of block
    /// b is set if item `64 b + j` is selected; if `invert` is `u64::MAX` instead of 0, if it is
    /// not. Bits past the last item are 0.
    ///
    /// # Safety
    /// - `items` begins with the first item of a block.
    /// - The items may be read, and so may the item before them unless they begin with item 0.
    /// - `words` has a word for each block, which no other thread touches.
    /// - With `avx2`: the machine has it.
    unsafe fn choose(&self, items: Range<usize>, invert: u64, words: Words, avx2: bool) -> usize;
}

/// A [`Choice`] by one block after the other.
pub(super) trait Bits: Copy + Sync {
    /// Bits of memory that are read for an item.
    const BITS: usize;
    /// Bit j is set if item `i + j` is selected; bits from `len` on may be anything.
    ///
    /// # Safety
    /// - `i` is a multiple of 64 and `len` is 1..=64.
    /// - The items `i..i + len` may be read, and so may the item before `i` unless `i` is 0.
    unsafe fn bits(&self, i: usize, len: usize) -> u64;
}

impl<B: Bits> Choice for B {
    fn bits_an_item(&self) -> usize {
        B::BITS
    }

    unsafe fn choose(&self, items: Range<usize>, invert: u64, words: Words, avx2: bool) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if avx2 {
            // SAFETY: the caller's.
            return unsafe { avx2::choose(*self, items, invert, words) };
        }
        let _ = avx2;
        // SAFETY: the caller's.
        unsafe { choose_by(*self, items, invert, words) }
    }
}

/// [`Choice::choose`], compiled with or without vectors.
///
/// # Safety
/// As for that.
#[inline(always)]
pub(super) unsafe fn choose_by<B: Bits>(choice: B, items: Range<usize>, invert: u64, words: Words) -> usize {
    let (whole, rest) = (items.len() / BLOCK, items.len() % BLOCK);
    let mut count = 0;
    // SAFETY: the caller's items and words.
    unsafe {
        let word = words.of(items.start);
        for block in 0..whole {
            let bits = choice.bits(items.start + block * BLOCK, BLOCK) ^ invert;
            word.add(block).write(bits);
            count += bits.count_ones() as usize;
        }
        if rest > 0 {
            let bits = (choice.bits(items.end - rest, rest) ^ invert) & low_bits(rest);
            word.add(whole).write(bits);
            count += bits.count_ones() as usize;
        }
    }
    count
}

/// How many bytes ahead of the predicate large items are prefetched.
const AHEAD: usize = 1 << 10;

/// Selects the items for which `keeps` is true. It is called once for each item, in any order and
/// on several threads.
#[derive(Clone, Copy)]
pub(crate) struct ByPredicate<T, F> {
    /// The items.
    pub(crate) items: *const T,
    /// Whether an item is selected.
    pub(crate) keeps: F,
}

/// Selects the items whose byte is not 0.
#[derive(Clone, Copy)]
pub(crate) struct ByFlags {
    /// A byte for each item.
    pub(crate) flags: *const u8,
}

/// Selects the items whose bit is set. `W` is `u32` or `u64`; bits past the last item may hold
/// anything.
#[derive(Clone, Copy)]
pub(crate) struct ByWords<W> {
    /// A bit for each item, the least significant one of a word first.
    pub(crate) words: *const W,
}

/// Selects the items that are not equal to the one before them.
#[derive(Clone, Copy)]
pub(crate) struct Distinct<T> {
    /// The items.
    pub(crate) items: *const T,
}

// SAFETY: items are read only, on any thread, which `T: Sync` and `F: Sync` permit.
unsafe impl<T: Sync, F: Sync> Sync for ByPredicate<T, F> {}
// SAFETY: bytes are read only.
unsafe impl Sync for ByFlags {}
// SAFETY: words are read only.
unsafe impl<W: Sync> Sync for ByWords<W> {}
// SAFETY: items are read only.
unsafe impl<T: Sync> Sync for Distinct<T> {}

impl<T: Copy + Sync, F: Fn(T) -> bool + Copy + Sync> Bits for ByPredicate<T, F> {
    const BITS: usize = 8 * size_of::<T>();

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the caller's items; j < len.
        let keeps = |j: usize| (self.keeps)(unsafe { self.items.add(i + j).read() });
        if size_of::<T>() <= 16 {
            return answers_as_bits(len, keeps);
        }
        // A plain loop: vectors gain nothing here, and prefetches one by one keep memory busy.
        (0..len).fold(0, |bits, j| {
            prefetch(self.items.wrapping_add(i + j).cast::<u8>().wrapping_add(AHEAD));
            bits | u64::from(keeps(j)) << j
        })
    }
}

impl Bits for ByFlags {
    const BITS: usize = 8;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: a flag for each of the caller's items; j < len.
        answers_as_bits(len, |j| unsafe { self.flags.add(i + j).read() } != 0)
    }
}

impl Bits for ByWords<u64> {
    const BITS: usize = 1;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, _: usize) -> u64 {
        // SAFETY: the word has bits of the caller's items.
        unsafe { self.words.add(i / 64).read() }
    }
}

impl Bits for ByWords<u32> {
    const BITS: usize = 1;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the first word has bits of the caller's items, and so has the second one if it is
        // read.
        unsafe {
            let low = self.words.add(i / 32).read();
            let high = if len > 32 { self.words.add(i / 32 + 1).read() } else { 0 };
            u64::from(high) << 32 | u64::from(low)
        }
    }
}

impl<T: Copy + PartialEq + Sync> Bits for Distinct<T> {
    const BITS: usize = 8 * size_of::<T>();

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the caller's items, and the one before them.
        let differs = |i: usize| unsafe { self.items.add(i).read() != self.items.add(i - 1).read() };
        if i == 0 {
            return (1..len).fold(1, |bits, j| bits | u64::from(differs(j)) << j);
        }
        answers_as_bits(len, |j| differs(i + j))
    }
}

/// The answers for `0..len` as bits.
#[inline(always)]
pub(in crate::cpu) fn answers_as_bits(len: usize, answer: impl Fn(usize) -> bool) -> u64 {
    if len < BLOCK {
        return (0..len).fold(0, |bits, j| bits | u64::from(answer(j)) << j);
    }
    // Bytes first: this loop becomes vector instructions if the answers do.
    let mut answers = [0; BLOCK];
    for (j, byte) in answers.iter_mut().enumerate() {
        *byte = u8::from(answer(j));
    }
    low_bit_of_each(answers)
}

/// The lowest bit of each byte.
#[inline(always)]
pub(super) fn low_bit_of_each(bytes: [u8; BLOCK]) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no x86_64 without SSE2, and the loads are of the array's four quarters.
    unsafe {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8, _mm_slli_epi16};
        let quarter = |q: usize| {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(16 * q).cast());
            (_mm_movemask_epi8(_mm_slli_epi16::<7>(bytes)) as u64) << (16 * q)
        };
        quarter(0) | quarter(1) | quarter(2) | quarter(3)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    bytes.as_chunks::<8>().0.iter().enumerate().fold(0, |bits, (k, &eight)| {
        // Byte j is multiplied to bit 56 + j, and no two products meet in one bit.
        bits | (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * k)
    })
}
