//! LSD radix sort of a bucket that fits the cache, on one thread.
//!
//! ```text
//! in order already: copy
//! up to 32 items:   insertion sort
//! else              find the highest and the lowest bit in which the keys differ
//!                   take digits from the highest bit down: all bits, or as many as should tell the keys apart
//!                   histograms of these digits, then a pass for each, least significant digit first
//!                   if bits are left: where two neighbours are out of order, sort the run of items around them that
//!                   agree in the sorted bits
//! ```

use super::{Columns, Engine, order::Bits, payload::Payload};
use std::mem::MaybeUninit;

/// Items up to which insertion sort is used.
const INSERTION_ITEMS: usize = 32;
/// The most bits of a digit: its counters take a quarter of an L1 cache.
const DIGIT_BITS: u32 = 11;
/// The most passes over a bucket.
const MAX_PASSES: usize = 6;
/// Bits that are sorted beyond the log2(n) that n different keys need.
const SPARE_BITS: u32 = 4;
/// The expected number of other keys that agree with a key in the sorted bits, at which no more
/// digits are taken.
const COLLISIONS: f64 = 0.125;

/// Bytes of the counters.
pub(super) const COUNTER_BYTES: usize = (MAX_PASSES * size_of::<u32>()) << DIGIT_BITS;

/// The scratch memory of a thread for a bucket: two buffers for its items, and counters.
#[derive(Clone, Copy)]
pub(super) struct Buffers<K> {
    pub(super) items: [Columns<K>; 2],
    pub(super) counters: *mut u32,
}

impl<K: Bits, P: Payload> Engine<K, P> {
    /// Sorts `n` items into `to`, which may be `from`.
    ///
    /// # Safety
    /// - Both hold `n` items, and are the same or do not overlap. No other thread touches them.
    /// - If `n` is more than [`INSERTION_ITEMS`], each buffer has room for `n` items, overlaps
    ///   neither, and no other thread touches it.
    /// - The values of `from` are initialised, unless they are source indices.
    pub(super) unsafe fn lsd_sort(self, from: Columns<K>, to: Columns<K>, n: usize, buffers: &Buffers<K>) {
        // SAFETY: the caller's.
        unsafe {
            if n <= INSERTION_ITEMS {
                return self.insertion_sort(from, to, n);
            }
            if self.first_descent(from, 1, n) == n {
                return self.copy(from, to, n);
            }
            if self.encoding.is_identity() {
                return self.sort_radix_keys(from, to, n, buffers);
            }
            for i in 0..n {
                to.keys.add(i).write(self.encoding.encode_all_bits(from.keys.add(i).read()));
            }
            let of_radix_keys = Engine { encoding: self.encoding.identity(), ..self };
            of_radix_keys.sort_radix_keys(Columns { keys: to.keys, ..from }, to, n, buffers);
            for i in 0..n {
                to.keys.add(i).write(self.encoding.decode(to.keys.add(i).read()));
            }
        }
    }

    /// [`lsd_sort`](Self::lsd_sort) of keys that are their radix keys, but for the bits that are
    /// cleared: so are the keys of all that follows here, but for the short sorts.
    ///
    /// # Safety
    /// As for that.
    unsafe fn sort_radix_keys(self, from: Columns<K>, to: Columns<K>, n: usize, buffers: &Buffers<K>) {
        // SAFETY: the caller's.
        unsafe {
            let differing = self.differing_bits(from, n);
            let (low, high) = (differing.trailing_zeros(), K::WIDTH - differing.leading_zeros());
            let sorted_from = self.passes(from, to, n, low, high, buffers);
            if sorted_from > low {
                self.sort_lower_bits(to, n, sorted_from, buffers);
            }
        }
    }

    /// The radix key of item `i`.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(always)]
    unsafe fn radix(self, items: Columns<K>, i: usize) -> K {
        // SAFETY: the caller's.
        self.encoding.encode(unsafe { items.keys.add(i).read() })
    }

    /// The first item from `i` on that is less than the one before it, or `n`.
    ///
    /// # Safety
    /// The items may be read.
    unsafe fn first_descent(self, items: Columns<K>, mut i: usize, n: usize) -> usize {
        const BLOCK: usize = 32;
        // SAFETY: the caller's.
        unsafe {
            let less = |i: usize| self.radix(items, i) < self.radix(items, i - 1);
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

    /// The bits in which radix keys differ.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(never)]
    unsafe fn differing_bits(self, items: Columns<K>, n: usize) -> K {
        // SAFETY: the caller's.
        unsafe {
            let first = items.keys.read();
            let differing = (1..n).fold(K::truncate(0), |all, i| all.or(items.keys.add(i).read().xor(first)));
            self.encoding.masked(differing)
        }
    }

    /// Copies items, unless both are the same.
    ///
    /// # Safety
    /// As for [`lsd_sort`](Self::lsd_sort).
    #[inline(never)]
    pub(super) unsafe fn copy(self, from: Columns<K>, to: Columns<K>, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            if from.keys != to.keys {
                to.keys.copy_from_nonoverlapping(from.keys, n);
            }
            if P::MAX_BYTES == 0 || from.values == to.values {
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

    /// Value `i`, or the source index of item `i`.
    ///
    /// # Safety
    /// The items may be read.
    #[inline(always)]
    pub(super) unsafe fn value(self, from: Columns<K>, i: usize) -> P::Value {
        if P::MAX_BYTES > 0 && from.values.is_null() {
            P::index(from.first + i)
        } else {
            // SAFETY: the caller's.
            unsafe { self.payload.load(from.values, i) }
        }
    }

    /// Sorts a segment of few items as [`lsd_sort`](Self::lsd_sort) does, without scratch memory, or
    /// returns false.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    pub(super) unsafe fn short_sort(self, from: Columns<K>, to: Columns<K>, n: usize) -> bool {
        // Keys of one radix key have the same bits, so their order does not matter.
        let keys_only = P::MAX_BYTES == 0 && self.encoding.compares_all_bits();
        // SAFETY: the caller's.
        unsafe {
            match n {
                // From 128 keys on passes are faster.
                17..=127 if keys_only => self.unstable_sort(from, to, n),
                3..=4 => self.rank_sort::<4>(from, to, n),
                5..=8 => self.rank_sort::<8>(from, to, n),
                // Every x86-64 compares narrow keys by vectors. Without them insertion is faster.
                9..=16 if K::WIDTH <= 32 => self.rank_sort::<16>(from, to, n),
                17..=32 if K::WIDTH <= 32 => self.rank_sort::<32>(from, to, n),
                ..=INSERTION_ITEMS => self.insertion_sort(from, to, n),
                _ => return false,
            }
        }
        true
    }

    /// Sorts keys that are compared by all bits, by the standard library.
    ///
    /// # Safety
    /// As for [`lsd_sort`](Self::lsd_sort).
    #[inline(never)]
    unsafe fn unstable_sort(self, from: Columns<K>, to: Columns<K>, n: usize) {
        // SAFETY: the caller's. All keys are written before a slice has them.
        unsafe {
            for i in 0..n {
                to.keys.add(i).write(self.radix(from, i));
            }
            let keys = std::slice::from_raw_parts_mut(to.keys, n);
            keys.sort_unstable();
            for key in keys {
                *key = self.encoding.decode(*key);
            }
        }
    }

    /// [`lsd_sort`](Self::lsd_sort) of up to `N` items by rank: an item's rank is the number of
    /// items that come before it. All pairs are compared, without a branch and by vectors.
    ///
    /// # Safety
    /// As for that, and there are at most `N` items.
    #[inline(never)]
    unsafe fn rank_sort<const N: usize>(self, from: Columns<K>, to: Columns<K>, n: usize) {
        let mut keys = [K::truncate(0); N];
        // Items that do not exist come last.
        let mut radix = [K::truncate(u64::MAX); N];
        let mut ranks = [K::truncate(0); N];
        let mut values = [const { MaybeUninit::uninit() }; N];
        // SAFETY: the caller's. All items are read before one is written, and ranks are below n.
        unsafe {
            for i in 0..n {
                keys[i] = from.keys.add(i).read();
                radix[i] = self.encoding.encode(keys[i]);
                values[i].write(self.value(from, i));
            }
            // All of so few, so that the loop has no end to predict.
            for j in 0..if N <= 8 { N } else { n } {
                let (key, index) = (radix[j], K::truncate(j as u64));
                for i in 0..N {
                    let before = (key < radix[i]) | ((key == radix[i]) & (index < K::truncate(i as u64)));
                    ranks[i] = ranks[i].wrapping_add(K::truncate(u64::from(before)));
                }
            }
            for i in 0..n {
                let rank = ranks[i].to_usize();
                to.keys.add(rank).write(keys[i]);
                self.payload.store(to.values, rank, values[i].assume_init());
            }
        }
    }

    /// [`lsd_sort`](Self::lsd_sort) by insertion.
    ///
    /// # Safety
    /// As for that.
    unsafe fn insertion_sort(self, from: Columns<K>, to: Columns<K>, n: usize) {
        // SAFETY: the caller's. Item i is read before index i is written.
        unsafe {
            for i in 0..n {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let radix = self.encoding.encode(key);
                let mut j = i;
                while j > 0 && self.radix(to, j - 1) > radix {
                    to.keys.add(j).write(to.keys.add(j - 1).read());
                    self.payload.store(to.values, j, self.payload.load(to.values, j - 1));
                    j -= 1;
                }
                to.keys.add(j).write(key);
                self.payload.store(to.values, j, value);
            }
        }
    }

    /// Sorts by the bits from some bit up to `high`, and returns that bit, which is `low` or
    /// higher. It takes as many digits as should tell the keys apart: the histograms say how many
    /// keys are expected to agree in all of them.
    ///
    /// # Safety
    /// As for [`lsd_sort`](Self::lsd_sort).
    unsafe fn passes(
        self,
        from: Columns<K>,
        to: Columns<K>,
        n: usize,
        low: u32,
        high: u32,
        buffers: &Buffers<K>,
    ) -> u32 {
        let size = n.ilog2();
        let widest = (size - 1).min(DIGIT_BITS);
        let (all, enough) = (high - low, size + SPARE_BITS);
        let bits = if all <= 2 * widest { all } else { enough.min(all) };
        let width = bits.div_ceil(bits.div_ceil(widest));
        // Digit 0 is the highest one. The lowest one may overlap the one above it.
        let shift = |digit: usize| high.saturating_sub((digit as u32 + 1) * width).max(low);
        let mut digits = 0;
        let mut collisions = n as f64;
        // SAFETY: the caller's.
        unsafe {
            let counters =
                |digit: usize| std::slice::from_raw_parts_mut(buffers.counters.add(digit << width), 1 << width);
            while digits < MAX_PASSES && (digits == 0 || shift(digits - 1) > low) && collisions > COLLISIONS {
                let two =
                    digits + 1 < MAX_PASSES && shift(digits) > low && collisions > COLLISIONS * (1_u32 << width) as f64;
                let of = [digits, digits + 1].map(|digit| (shift(digit), buffers.counters.add(digit << width)));
                let before = digits;
                digits += if two { 2 } else { 1 };
                buffers.counters.add(before << width).write_bytes(0, (digits - before) << width);
                if two {
                    self.count_digits(from, n, of, width);
                } else {
                    self.count_digits(from, n, [of[0]], width);
                }
                for digit in before..digits {
                    let squares: u64 = counters(digit).iter().map(|&count| u64::from(count) * u64::from(count)).sum();
                    collisions *= squares as f64 / (n as f64 * n as f64);
                }
            }
            let mut source = from;
            for digit in (0..digits).rev() {
                let next = match digit {
                    0 if source.keys != to.keys => to,
                    _ => buffers.items[digit % 2],
                };
                self.pass(source, next, n, shift(digit), counters(digit));
                source = next;
            }
            self.copy(source, to, n);
        }
        shift(digits - 1)
    }

    /// The histograms of digits of `width` bits, each given by its lowest bit and its counters.
    ///
    /// # Safety
    /// The items may be read, and there are counters for each digit.
    #[inline(never)]
    unsafe fn count_digits<const N: usize>(self, from: Columns<K>, n: usize, digits: [(u32, *mut u32); N], width: u32) {
        let mask = (1 << width) - 1;
        for i in 0..n {
            // SAFETY: the caller's. There are counters for each digit.
            unsafe {
                let radix = self.encoding.masked(from.keys.add(i).read());
                for (shift, counters) in digits {
                    *counters.add(radix.shr(shift).to_usize() & mask) += 1;
                }
            }
        }
    }

    /// One pass: scatters the items to `to` by the digit from bit `shift` on, of which `counts` is
    /// the histogram.
    ///
    /// # Safety
    /// As for [`lsd_sort`](Self::lsd_sort); `from` is not `to`.
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
                let count = counts.get_unchecked_mut(self.encoding.masked(key).shr(shift).to_usize() & mask);
                let j = *count as usize;
                *count += 1;
                to.keys.add(j).write(key);
                self.payload.store(to.values, j, value);
            }
        }
    }

    /// Sorts each run of items that agree from bit `low` on by the bits below.
    ///
    /// # Safety
    /// As for [`lsd_sort`](Self::lsd_sort).
    #[inline(never)]
    unsafe fn sort_lower_bits(self, items: Columns<K>, n: usize, low: u32, buffers: &Buffers<K>) {
        // SAFETY: the caller's.
        unsafe {
            let high = |i: usize| self.radix(items, i).shr(low);
            let mut i = 1;
            loop {
                i = self.first_descent(items, i, n);
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
                self.lsd_sort(run, run, end - begin, buffers);
                i = end;
            }
        }
    }
}
