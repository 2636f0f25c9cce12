//! The sort of a bucket that fits the cache, on one thread.
//!
//! ```text
//! nothing to do if the items are in order
//! few: insertion
//! look at the bits that differ at all, from the highest one on:
//!     all of them, or no more than tell so many keys apart
//!     count digits, and move from buffer to buffer, least significant digit first
//! if bits are left: wherever two keys are out of order, sort those around them whose bits were the same
//! ```

use super::{
    Columns, Engine,
    order::{Bits, Integers, Places},
    payload::Payload,
};

/// Items that are sorted by insertion.
const FEW: usize = 32;
/// The most bits of a digit: its counters take a quarter of an L1 cache.
const WIDEST: u32 = 11;
/// The most passes over a bucket.
const PASSES: usize = 6;
/// Bits that are looked at beyond those that so many different keys have.
const SPARE_BITS: u32 = 4;
/// How many others a key may meet, on average, that are the same in the bits that are looked at.
const MEETING: f64 = 0.125;

/// Bytes for counters.
pub(super) const COUNTERS: usize = (PASSES * size_of::<u32>()) << WIDEST;

/// What a thread needs for a bucket: two buffers for its items, and counters.
#[derive(Clone, Copy)]
pub(super) struct Hot<K> {
    pub(super) buffers: [Columns<K>; 2],
    pub(super) counters: *mut u32,
}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// Sorts `n` items into `to`, which may be `from`.
    ///
    /// # Safety
    /// - Both hold `n` items that nobody else touches; they are the same or do not overlap. The buffers too, if `n` is more than [`FEW`].
    /// - The values of `from` are there.
    pub(super) unsafe fn local(self, from: Columns<K>, to: Columns<K>, n: usize, hot: &Hot<K>) {
        // SAFETY: the caller's.
        unsafe {
            if n <= FEW {
                return self.insertion(from, to, n);
            }
            if self.disorder(from, 1, n) == n {
                return self.copy(from, to, n);
            }
            if let Some((floats, places)) = self.places.as_integers() {
                for i in 0..n {
                    to.keys.add(i).write(floats.there(from.keys.add(i).read()));
                }
                let integers = Engine::<K, Integers<K>, P> { places, payload: self.payload, key: self.key };
                integers.local(Columns { keys: to.keys, ..from }, to, n, hot);
                for i in 0..n {
                    to.keys.add(i).write(floats.back(to.keys.add(i).read()));
                }
                return;
            }
            let differ = self.differ(from, n);
            let (low, high) = (differ.trailing_zeros(), K::WIDTH - differ.leading_zeros());
            let left = self.passes(from, to, n, low, high, hot);
            if left > low {
                self.repair(to, n, left, hot);
            }
        }
    }

    /// The place of item `i`.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(always)]
    unsafe fn place(self, items: Columns<K>, i: usize) -> K {
        // SAFETY: the caller's.
        self.places.place(unsafe { items.keys.add(i).read() })
    }

    /// The first item from `i` on that is less than the one before it, or `n`.
    ///
    /// # Safety
    /// The items may be read.
    unsafe fn disorder(self, items: Columns<K>, mut i: usize, n: usize) -> usize {
        const BLOCK: usize = 32;
        // SAFETY: the caller's.
        unsafe {
            let less = |i: usize| self.place(items, i) < self.place(items, i - 1);
            while i + BLOCK <= n {
                let mut any = false;
                for j in i..i + BLOCK {
                    any |= less(j);
                }
                if any {
                    break;
                }
                i += BLOCK;
            }
            while i < n && !less(i) {
                i += 1;
            }
        }
        i
    }

    /// The bits in which places differ.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(never)]
    unsafe fn differ(self, items: Columns<K>, n: usize) -> K {
        // SAFETY: the caller's.
        unsafe {
            let first = self.place(items, 0);
            (1..n).fold(K::cut(0), |all, i| all.or(self.place(items, i).xor(first)))
        }
    }

    /// Copies what does not lie there already.
    ///
    /// # Safety
    /// As for [`local`](Self::local).
    #[inline(never)]
    pub(super) unsafe fn copy(self, from: Columns<K>, to: Columns<K>, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            if from.keys != to.keys {
                to.keys.copy_from_nonoverlapping(from.keys, n);
            }
            if P::MOST == 0 || from.values == to.values {
                return;
            }
            if from.values.is_null() {
                for i in 0..n {
                    self.payload.store(to.values, i, self.value(from, i));
                }
            } else {
                to.values.copy_from_nonoverlapping(from.values, n * self.payload.size());
            }
        }
    }

    /// Value `i`, or the number of item `i`.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(always)]
    pub(super) unsafe fn value(self, from: Columns<K>, i: usize) -> P::Value {
        if P::MOST > 0 && from.values.is_null() {
            P::number(from.first + i)
        } else {
            // SAFETY: the caller's.
            unsafe { self.payload.load(from.values, i) }
        }
    }

    /// [`local`](Self::local) by insertion.
    ///
    /// # Safety
    /// As for that.
    unsafe fn insertion(self, from: Columns<K>, to: Columns<K>, n: usize) {
        // SAFETY: the caller's. Item i is read before place i is written.
        unsafe {
            for i in 0..n {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let place = self.places.place(key);
                let mut j = i;
                while j > 0 && self.place(to, j - 1) > place {
                    to.keys.add(j).write(to.keys.add(j - 1).read());
                    self.payload.store(to.values, j, self.payload.load(to.values, j - 1));
                    j -= 1;
                }
                to.keys.add(j).write(key);
                self.payload.store(to.values, j, value);
            }
        }
    }

    /// Sorts by the highest bits of those from `low` up to `high`, and returns the lowest one of them: as many as tell the keys apart, as far as the
    /// counts of the digits let expect.
    ///
    /// # Safety
    /// As for [`local`](Self::local).
    unsafe fn passes(self, from: Columns<K>, to: Columns<K>, n: usize, low: u32, high: u32, hot: &Hot<K>) -> u32 {
        let size = n.ilog2();
        let widest = (size - 1).min(WIDEST);
        let (all, enough) = (high - low, size + SPARE_BITS);
        let bits = if all <= 2 * widest { all } else { enough.min(all) };
        let width = bits.div_ceil(bits.div_ceil(widest));
        // Digit 0 is the highest one. The lowest one may share bits with the one above it.
        let shift = |digit: usize| high.saturating_sub((digit as u32 + 1) * width).max(low);
        let mut digits = 0;
        let mut met = n as f64;
        // SAFETY: the caller's.
        unsafe {
            let counters = |digit: usize| std::slice::from_raw_parts_mut(hot.counters.add(digit << width), 1 << width);
            while digits < PASSES && (digits == 0 || shift(digits - 1) > low) && met > MEETING {
                let two = digits + 1 < PASSES && shift(digits) > low && met > MEETING * (1_u32 << width) as f64;
                let of = [digits, digits + 1].map(|digit| (shift(digit), hot.counters.add(digit << width)));
                let before = digits;
                digits += if two { 2 } else { 1 };
                hot.counters.add(before << width).write_bytes(0, (digits - before) << width);
                if two {
                    self.count(from, n, of, width);
                } else {
                    self.count(from, n, [of[0]], width);
                }
                for digit in before..digits {
                    let squares: u64 = counters(digit).iter().map(|&count| u64::from(count) * u64::from(count)).sum();
                    met *= squares as f64 / (n as f64 * n as f64);
                }
            }
            let mut at = from;
            for digit in (0..digits).rev() {
                let next = match digit {
                    0 if at.keys != to.keys => to,
                    _ => hot.buffers[digit % 2],
                };
                self.pass(at, next, n, shift(digit), counters(digit));
                at = next;
            }
            self.copy(at, to, n);
        }
        shift(digits - 1)
    }

    /// How often each digit occurs.
    ///
    /// # Safety
    /// The items may be read, and there are counters for each digit.
    #[inline(never)]
    unsafe fn count<const N: usize>(self, from: Columns<K>, n: usize, digits: [(u32, *mut u32); N], width: u32) {
        let mask = (1 << width) - 1;
        for i in 0..n {
            // SAFETY: the caller's. There are counters for each digit.
            unsafe {
                let place = self.place(from, i);
                for (shift, counters) in digits {
                    *counters.add(place.shr(shift).low() & mask) += 1;
                }
            }
        }
    }

    /// Moves the items to `to`, ordered by the digit from bit `shift` on, which was counted.
    ///
    /// # Safety
    /// As for [`local`](Self::local); the two are not the same.
    #[inline(never)]
    unsafe fn pass(self, from: Columns<K>, to: Columns<K>, n: usize, shift: u32, counts: &mut [u32]) {
        let mut sum = 0;
        for count in counts.iter_mut() {
            sum += std::mem::replace(count, sum);
        }
        let mask = counts.len() - 1;
        // SAFETY: the caller's.
        unsafe {
            for i in 0..n {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let count = counts.get_unchecked_mut(self.places.place(key).shr(shift).low() & mask);
                let j = *count as usize;
                *count += 1;
                to.keys.add(j).write(key);
                self.payload.store(to.values, j, value);
            }
        }
    }

    /// Sorts the items whose places are the same from bit `low` on, which stand together.
    ///
    /// # Safety
    /// As for [`local`](Self::local).
    #[inline(never)]
    unsafe fn repair(self, items: Columns<K>, n: usize, low: u32, hot: &Hot<K>) {
        // SAFETY: the caller's.
        unsafe {
            let high = |i: usize| self.place(items, i).shr(low);
            let mut i = 1;
            loop {
                i = self.disorder(items, i, n);
                if i == n {
                    return;
                }
                let (mut begin, mut end) = (i - 1, i + 1);
                while begin > 0 && high(begin - 1) == high(i) {
                    begin -= 1;
                }
                while end < n && high(end) == high(i) {
                    end += 1;
                }
                let run = self.at(items, begin);
                self.local(run, run, end - begin, hot);
                i = end;
            }
        }
    }
}
