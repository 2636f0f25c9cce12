//! Choosing and moving by vectors of AVX2: items are squeezed together by a permutation that their bits look up.

use super::Words;
use super::choices::{Bits, choose_by};
use super::columns::{Column, Group};
use std::{arch::x86_64::*, ops::Range};

/// For each byte the places of its set bits, in order.
static PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 != 0 {
                places[byte][count] = bit as u8;
                count += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    places
};

/// For each half byte the same for items of two 32-bit lanes each.
static PAIRS: [[u32; 8]; 16] = {
    let mut pairs = [[0; 8]; 16];
    let mut half = 0;
    while half < 16 {
        let mut lane = 0;
        while lane < 8 {
            pairs[half][lane] = 2 * PLACES[half][lane / 2] as u32 + lane as u32 % 2;
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

/// The places of the set bits of byte `k`, in the low half, and how many they are.
///
/// # Safety
/// The machine has AVX2, as for all below.
#[inline(always)]
unsafe fn byte(bits: u64, k: usize) -> (__m128i, usize) {
    let byte = (bits >> (8 * k)) as u8;
    // SAFETY: an entry is 8 bytes.
    (unsafe { _mm_loadl_epi64(PLACES[byte as usize].as_ptr().cast()) }, byte.count_ones() as usize)
}

/// Squeezes 64 items of 4 bytes together.
///
/// # Safety
/// `from` is valid for 64 items, `to` for 8 more than bits are set.
#[inline(always)]
pub(super) unsafe fn put_4(from: *const u32, bits: u64, mut to: *mut u32) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (places, count) = byte(bits, k);
            let items = _mm256_loadu_si256(from.add(8 * k).cast());
            let squeezed = _mm256_permutevar8x32_epi32(items, _mm256_cvtepu8_epi32(places));
            _mm256_storeu_si256(to.cast(), squeezed);
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
            let places = _mm256_loadu_si256(PAIRS[half].as_ptr().cast());
            _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(items, places));
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
            let (places, count) = byte(bits, k);
            let items = _mm_loadl_epi64(from.add(8 * k).cast());
            _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(items, places));
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
            let (places, count) = byte(bits, k);
            let items = _mm_loadu_si128(from.add(8 * k).cast());
            // Place p becomes the bytes 2 p and 2 p + 1.
            let places = _mm_mullo_epi16(_mm_cvtepu8_epi16(places), _mm_set1_epi16(0x0202));
            let places = _mm_add_epi16(places, _mm_set1_epi16(0x0100));
            _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(items, places));
            to = to.add(count);
        }
    }
}

/// Writes the numbers, from `i` on, of those of 64 items whose bits are set.
///
/// # Safety
/// `to` is valid for 8 more than bits are set.
#[inline(always)]
pub(super) unsafe fn number_4(i: u32, bits: u64, mut to: *mut u32) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (places, count) = byte(bits, k);
            let first = _mm256_set1_epi32(i.wrapping_add(8 * k as u32) as i32);
            _mm256_storeu_si256(to.cast(), _mm256_add_epi32(first, _mm256_cvtepu8_epi32(places)));
            to = to.add(count);
        }
    }
}

/// The same in 8 bytes.
///
/// # Safety
/// As for [`number_4`].
#[inline(always)]
pub(super) unsafe fn number_8(i: u64, bits: u64, mut to: *mut u64) {
    for k in 0..8 {
        // SAFETY: the caller's.
        unsafe {
            let (places, count) = byte(bits, k);
            let first = _mm256_set1_epi64x((i + 8 * k as u64) as i64);
            let upper = _mm_srli_si128::<4>(places);
            _mm256_storeu_si256(to.cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(places)));
            _mm256_storeu_si256(to.add(4).cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(upper)));
            to = to.add(count);
        }
    }
}
