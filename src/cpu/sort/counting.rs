//! Counting sort, for keys-only of one or two bytes that are compared by all their bits.
//!
//! Keys of one radix key have the same bits. So the sort counts the keys, and writes the output
//! from the counts: no key moves, and an in-place sort needs no second array.

use super::{Columns, Engine, Layout, Sort, each, order::Bits, part, payload::Payload};
use crate::cpu::threshold;

/// Keys of a job: worth a thread's start.
const JOB_KEYS: usize = threshold(1 << 17);
/// Bins of a job that adds histograms.
const JOB_BINS: usize = 1 << 12;
/// Keys of a store. A run of equal keys is mostly shorter.
const STORE_KEYS: usize = 32;

/// The number of threads, and their histograms.
#[derive(Clone, Copy)]
pub(super) struct Histograms {
    threads: usize,
    counters: *mut u32,
}

// SAFETY: an address. `slice` says who may use which counters.
unsafe impl Sync for Histograms {}

impl Histograms {
    /// Counters `from..to` of a histogram with that many bins.
    ///
    /// # Safety
    /// No other reference to these counters is alive.
    unsafe fn slice<'a>(self, histogram: usize, bins: usize, from: usize, to: usize) -> &'a mut [u32] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.counters.add(histogram * bins + from), to - from) }
    }

    /// The first `counters` counters from a histogram on, which may be uninitialised before, as zeros.
    ///
    /// # Safety
    /// As for `slice`.
    unsafe fn zeroed<'a>(self, histogram: usize, bins: usize, counters: usize) -> &'a mut [u32] {
        // SAFETY: the caller's.
        unsafe {
            self.counters.add(histogram * bins).write_bytes(0, counters);
            self.slice(histogram, bins, 0, counters)
        }
    }
}

impl<K: Bits, P: Payload> Engine<K, P> {
    /// Bins of a histogram: one for each radix key.
    const BINS: usize = if K::WIDTH <= 16 { 1 << K::WIDTH } else { 0 };
    /// Histograms of a thread. Neighbouring keys alternate between them, since two additions to one
    /// counter in a row are slow. More would not fit the cache.
    const HISTOGRAMS: usize = if K::WIDTH == 8 { 4 } else { 2 };
    /// The fewest keys for which counting is faster than radix passes.
    const MIN_KEYS: usize = threshold(if K::WIDTH == 8 { 1 << 10 } else { 1 << 16 });

    /// The histograms of a sort, if counting is the fastest algorithm for it.
    pub(super) fn histograms(self, sort: &Sort, layout: &mut Layout) -> Option<Histograms> {
        let countable = Self::BINS > 0 && P::MAX_BYTES == 0 && self.encoding.compares_all_bits();
        if !countable || !(Self::MIN_KEYS..=u32::MAX as usize).contains(&sort.n) {
            return None;
        }
        let threads = (sort.n / JOB_KEYS).clamp(1, sort.threads);
        Some(Histograms { threads, counters: layout.take(threads * Self::HISTOGRAMS * Self::BINS) })
    }

    /// Sorts `n` keys into `to`, which may be `from`.
    ///
    /// # Safety
    /// Both hold `n` keys, and the histograms fit `n`. No other thread touches any of them.
    pub(super) unsafe fn counting_sort(self, from: Columns<K>, to: Columns<K>, n: usize, histograms: Histograms) {
        let threads = histograms.threads;
        // SAFETY: the caller's. Jobs have keys, histograms and bins of their own, and all jobs of a
        // step end before the next step.
        unsafe {
            // Count
            let all = Self::HISTOGRAMS * threads;
            each(threads, threads, &|_, p| {
                let keys = part(n, threads, p);
                let first = p * Self::HISTOGRAMS;
                let counters = histograms.zeroed(first, Self::BINS, Self::HISTOGRAMS * Self::BINS);
                self.count_keys(std::slice::from_raw_parts(self.at(from, keys.start).keys, keys.len()), counters);
            });

            // Add the histograms, then scan the sum: `ends` is where the keys of each bin end
            each(threads, Self::BINS.div_ceil(JOB_BINS), &|_, job| {
                let (from, to) = (job * JOB_BINS, Self::BINS.min((job + 1) * JOB_BINS));
                let sums = histograms.slice(0, Self::BINS, from, to);
                for histogram in 1..all {
                    for (sum, count) in sums.iter_mut().zip(histograms.slice(histogram, Self::BINS, from, to)) {
                        *sum += *count;
                    }
                }
            });
            let ends = histograms.slice(0, Self::BINS, 0, Self::BINS);
            ends.iter_mut().fold(0, |sum, end| {
                *end += sum;
                *end
            });

            // Write
            let (ends, parts) = (&*ends, n.div_ceil(JOB_KEYS));
            each(threads, parts, &|_, p| {
                let keys = part(n, parts, p);
                self.write_keys(
                    std::slice::from_raw_parts_mut(self.at(to, keys.start).keys, keys.len()),
                    keys.start,
                    ends,
                );
            });
        }
    }

    /// Counts the keys of each radix key, in a thread's histograms.
    #[inline(never)]
    fn count_keys(self, keys: &[K], counters: &mut [u32]) {
        const BLOCK: usize = 64;
        assert_eq!(counters.len(), Self::HISTOGRAMS * Self::BINS);
        let (blocks, rest) = keys.as_chunks::<BLOCK>();
        for keys in blocks {
            // A loop of its own, which becomes vector instructions.
            let mut radices = [K::truncate(0); BLOCK];
            for (radix, &key) in radices.iter_mut().zip(keys) {
                *radix = self.encoding.encode(key);
            }
            for (k, radix) in radices.iter().enumerate() {
                counters[k % Self::HISTOGRAMS * Self::BINS + radix.to_usize()] += 1;
            }
        }
        for &key in rest {
            counters[self.encoding.encode(key).to_usize()] += 1;
        }
    }

    /// Writes the sorted keys from index `first` on.
    #[inline(never)]
    fn write_keys(self, keys: &mut [K], first: usize, ends: &[u32]) {
        let mut bin = ends.partition_point(|&end| end as usize <= first);
        let mut i = 0;
        while i < keys.len() {
            let key = self.encoding.decode(K::truncate(bin as u64));
            let end = keys.len().min(ends[bin] as usize - first);
            match keys[i..].first_chunk_mut::<STORE_KEYS>() {
                // The next run overwrites what is too much.
                Some(run) if end - i <= STORE_KEYS => *run = [key; STORE_KEYS],
                _ => keys[i..end].fill(key),
            }
            i = end;
            bin += 1;
        }
    }
}
