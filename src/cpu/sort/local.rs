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
    order::{Bits, Places},
    payload::Payload,
};

/// Items that are sorted by insertion.
const FEW: usize = 32;
/// The most bits of a digit: its counters take a quarter of an L1 cache.
const WIDEST: u32 = 11;
/// The most passes over a bucket.
const PASSES: usize = 3;
/// Bits that are looked at beyond those that so many different keys have: a sixteenth of random keys meets another then.
const SPARE_BITS: u32 = 4;

/// Bytes for counters.
pub(super) const COUNTERS: usize = PASSES * size_of::<u32>() << WIDEST;

/// What a thread needs for a bucket: two buffers for its items, and counters.
#[derive(Clone, Copy)]
pub(super) struct Hot<K> {
    pub(super) buffers: [Columns<K>; 2],
    pub(super) counters: *mut u32,
}

/// How the bits of keys are cut.
#[derive(Clone, Copy)]
struct Cut {
    /// The lowest bit.
    low: u32,
    /// Bits of a digit.
    width: u32,
    passes: usize,
}

impl Cut {
    /// For `n` keys that differ in the bits from `low` up to `high`.
    fn of(n: usize, low: u32, high: u32) -> Cut {
        let size = n.ilog2();
        let widest = (size - 1).min(WIDEST);
        let (all, enough) = (high - low, (size + SPARE_BITS).min(high - low));
        let passes = all.div_ceil(widest).min(enough.div_ceil(widest));
        let width = if passes * widest >= all {
            all.div_ceil(passes)
        } else {
            enough.div_ceil(passes)
        };
        Cut { low: high.saturating_sub(passes * width).max(low),
            width, passes: passes as usize }
    }
}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// Sorts `n` items into `to`, which may be `from`. Places differ only in their lowest `bits`.
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
            let differ = self.differ(from, n);
            let (low, high) = (differ.trailing_zeros(), K::WIDTH - differ.leading_zeros());
            let cut = Cut::of(n, low, high);
            self.passes(from, to, n, cut, hot);
            if cut.low > low {
                self.repair(to, n, cut.low, hot);
            }
        }
    }

    /// The place of item `i`.
    #[inline(always)]
    unsafe fn place(self, items: Columns<K>, i: usize) -> K {
        // SAFETY: the caller's.
        self.places.place(unsafe { items.keys.add(i).read() })
    }

    /// The first item from `i` on that is less than the one before it, or `n`.
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
    unsafe fn differ(self, items: Columns<K>, n: usize) -> K {
        // SAFETY: the caller's.
        unsafe {
            let first = self.place(items, 0);
            (1..n).fold(K::cut(0), |all, i| all.or(self.place(items, i).xor(first)))
        }
    }

    pub(super) unsafe fn copy(self, from: Columns<K>, to: Columns<K>, n: usize) {
        if from.keys == to.keys {
            return;
        }
        // SAFETY: the caller's.
        unsafe {
            to.keys.copy_from_nonoverlapping(from.keys, n);
            if P::MOST > 0 && from.values.is_null() {
                for i in 0..n {
                    self.payload.store(to.values, i, self.value(from, i));
                }
            } else {
                to.values.copy_from_nonoverlapping(from.values, n * self.payload.size());
            }
        }
    }

    /// Value `i`, or the number i.
    #[inline(always)]
    pub(super) unsafe fn value(self, from: Columns<K>, i: usize) -> P::Value {
        if P::MOST > 0 && from.values.is_null() {
            P::number(from.first + i)
        } else {
            // SAFETY: the caller's.
            unsafe { self.payload.load(from.values, i) }
        }
    }

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

    unsafe fn passes(self, from: Columns<K>, to: Columns<K>, n: usize, cut: Cut, hot: &Hot<K>) {
        let [a, b] = hot.buffers;
        // SAFETY: the caller's.
        unsafe {
            hot.counters.write_bytes(0, cut.passes << cut.width);
            let counts = std::slice::from_raw_parts_mut(hot.counters, cut.passes << cut.width);
            match cut.passes {
                1 => self.count::<1>(from, n, cut, counts),
                2 => self.count::<2>(from, n, cut, counts),
                _ => self.count::<3>(from, n, cut, counts),
            }
            let way: [Columns<K>; PASSES] = match (cut.passes, from.keys == to.keys) {
                (1, true) => [a, a, a],
                (1, false) => [to, to, to],
                (2, _) => [a, to, to],
                _ => [a, b, to],
            };
            let mut from = from;
            for (pass, counts) in counts.chunks_exact_mut(1 << cut.width).enumerate() {
                self.pass(from, way[pass], n, cut.low + pass as u32 * cut.width, counts);
                from = way[pass];
            }
            self.copy(from, to, n);
        }
    }

    /// How often each digit occurs.
    unsafe fn count<const N: usize>(self, from: Columns<K>, n: usize, cut: Cut, counts: &mut [u32]) {
        let mask = (1 << cut.width) - 1;
        for i in 0..n {
            // SAFETY: the caller's.
            let place = unsafe { self.place(from, i) };
            for pass in 0..N {
                let digit = place.shr(cut.low + pass as u32 * cut.width).low() & mask;
                // SAFETY: there are counters for each digit of each pass.
                unsafe { *counts.get_unchecked_mut(pass << cut.width | digit) += 1 };
            }
        }
    }

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
