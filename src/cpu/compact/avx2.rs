//! Choosing and moving with AVX2: a permutation from a table, looked up by the bits, compresses a
//! vector of items.

use super::Words;
use super::choices::{Bits, choose_by};
use super::columns::{Column, Group};
use std::{arch::x86_64::*, ops::Range};

/// For each byte the positions of its set bits, in order.
static POSITIONS: [[u8; 8]; 256] = {
    let mut positions = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 != 0 {
                positions[byte][count] = bit as u8;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    positions
};

/// For each half byte the same, for items of two 32-bit lanes.
static PAIRS: [[u32; 8]; 16] = {
    let mut pairs = [[0; 8]; 16];
    let mut half = 0;
    while half < 16 {
        let mut lane = 0;
        while lane < 8 {
            pairs[half][lane] = 2 * POSITIONS[half][lane / 2] as u32 + lane as u32 % 2;
            lane += 1;
        }
        half += 1;
    }
    pairs
};

/// [`Choice::choose`](super::Choice::choose).
///
/// # Safety
/// As for that; the machine has AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn choose<B: Bits>(choice: B, items: Range<usize>, invert: u64, words: Words) -> usize {
    // SAFETY: the caller's.
    unsafe { choose_by(choice, items, invert, words) }
}

/// [`Column::put`].
///
/// # Safety
/// As for that; the machine has AVX2.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) unsafe fn put(column: &Column, group: &Group) -> usize {
    // SAFETY: the caller's; the machine has AVX2.
    unsafe { column.put_by::<true>(group) }
}

/// The positions of the set bits of byte `k`, in the low half, and their number.
///
/// # Safety
/// The machine has AVX2, as for all functions below.
#[inline(always)]
unsafe fn byte(bits: u64, k: usize) -> (__m128i, usize) {
    let byte = (bits >> (8 * k)) as u8;
    // SAFETY: an entry is 8 bytes.
    (unsafe { _mm_loadl_epi64(POSITIONS[byte as usize].as_ptr().cast()) }, byte.count_ones() as usize)
}

/// Compresses 64 items of 4 bytes.
///
/// # Safety
/// `from` is valid for 64 items, `to` for 8 more than bits are set.
#[inline(always)]
pub(super) unsafe fn put_4(from: *const u32, bits: u64, mut to: *mut u32) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (positions, count) = byte(bits, k);
            let items = _mm256_loadu_si256(from.add(8 * k).cast());
            let compressed = _mm256_permutevar8x32_epi32(items, _mm256_cvtepu8_epi32(positions));
            _mm256_storeu_si256(to.cast(), compressed);
            to = to.add(count);
        }
    }
}

/// The same for items of 8 bytes.
///
/// # Safety
/// As for [`put_4`].
#[inline(always)]
pub(super) unsafe fn put_8(from: *const u64, bits: u64, mut to: *mut u64) {
    for k in 0..16 {
        let half = (bits >> (4 * k)) as usize & 15;
        // SAFETY: the caller's.
        unsafe {
            let items = _mm256_loadu_si256(from.add(4 * k).cast());
            let positions = _mm256_loadu_si256(PAIRS[half].as_ptr().cast());
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(items, positions));
            to = to.add(half.count_ones() as usize);
        }
    }
}

/// The same for items of 1 byte.
///
/// # Safety
/// As for [`put_4`].
#[inline(always)]
pub(super) unsafe fn put_1(from: *const u8, bits: u64, mut to: *mut u8) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (positions, count) = byte(bits, k);
            let items = _mm_loadl_epi64(from.add(8 * k).cast());
            _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(items, positions));
            to = to.add(count);
        }
    }
}

/// The same for items of 2 bytes.
///
/// # Safety
/// As for [`put_4`].
#[inline(always)]
pub(super) unsafe fn put_2(from: *const u16, bits: u64, mut to: *mut u16) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (positions, count) = byte(bits, k);
            let items = _mm_loadu_si128(from.add(8 * k).cast());
            // Position p becomes the bytes 2 p and 2 p + 1.
            let positions = _mm_mullo_epi16(_mm_cvtepu8_epi16(positions), _mm_set1_epi16(0x0202));
            let positions = _mm_add_epi16(positions, _mm_set1_epi16(0x0100));
            _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(items, positions));
            to = to.add(count);
        }
    }
}

/// Writes the source indices of 64 items from `i` on whose bits are set.
///
/// # Safety
/// `to` is valid for 8 more than bits are set.
#[inline(always)]
pub(super) unsafe fn indices_4(i: u32, bits: u64, mut to: *mut u32) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (positions, count) = byte(bits, k);
            let first = _mm256_set1_epi32(i.wrapping_add(8 * k as u32) as i32);
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(first, _mm256_cvtepu8_epi32(positions)));
            to = to.add(count);
        }
    }
}

/// The same in 8 bytes.
///
/// # Safety
/// As for [`indices_4`].
#[inline(always)]
pub(super) unsafe fn indices_8(i: u64, bits: u64, mut to: *mut u64) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (positions, count) = byte(bits, k);
            let first = _mm256_set1_epi64x((i + 8 * k as u64) as i64);
            let upper = _mm_srli_si128::<4>(positions);
            _mm256_storeu_si256(to.cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(positions)));
            _mm256_storeu_si256(to.add(4).cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(upper)));
            to = to.add(count);
        }
    }
}
