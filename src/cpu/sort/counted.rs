//! Keys alone, of one or two bytes and by all their bits: counted, and written anew.
//!
//! Keys with the same place are the same, so there is nothing to move. Sorting where the keys are needs no second array.

use super::{
    Columns, Engine, Layout, Sort, each,
    order::{Bits, Places},
    part,
    payload::Payload,
};
use crate::cpu::threshold;

/// Keys that are worth a thread's turn.
const TURN: usize = threshold(1 << 17);
/// Places of a turn of adding up.
const BLOCK: usize = 1 << 12;
/// Bytes that are written at once.
const RUN: usize = 32;

/// The threads that count, and their counters.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    threads: usize,
    first: *mut u32,
}

// SAFETY: an address. Who uses which counters is said where that is cut.
unsafe impl Sync for Counters {}

impl Counters {
    /// Counters `from` up to `to` of a table.
    ///
    /// # Safety
    /// Nobody else uses these.
    unsafe fn of<'a>(self, table: usize, places: usize, from: usize, to: usize) -> &'a mut [u32] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(table * places + from), to - from) }
    }
}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// How many different places there are.
    const PLACES: usize = if K::WIDTH <= 16 { 1 << K::WIDTH } else { 0 };
    /// Tables of a thread, taken by turns: the same counter twice in a row is slow. More would not fit the cache.
    const TABLES: usize = if K::WIDTH == 8 { 4 } else { 2 };
    /// Keys from which on counting is faster.
    const FROM: usize = threshold(if K::WIDTH == 8 { 1 << 10 } else { 1 << 16 });

    /// The counters for a sort, if its keys are best counted.
    pub(super) fn counters(self, sort: &Sort, layout: &mut Layout) -> Option<Counters> {
        let countable = Self::PLACES > 0 && P::MOST == 0 && self.places.whole();
        if !countable || !(Self::FROM..=u32::MAX as usize).contains(&sort.n) {
            return None;
        }
        let threads = (sort.n / TURN).clamp(1, sort.threads);
        Some(Counters { threads, first: layout.take(threads * Self::TABLES * Self::PLACES) })
    }

    /// Sorts `n` keys into `to`, which may be `from`.
    ///
    /// # Safety
    /// Both hold `n` keys that nobody else touches. The counters are for so many keys, and nobody else uses them.
    pub(super) unsafe fn counted(self, from: Columns<K>, to: Columns<K>, n: usize, counters: Counters) {
        let threads = counters.threads;
        // SAFETY: the caller's. Parts, tables and blocks are no two jobs', and all jobs of a step end before the next one.
        unsafe {
            // Count
            let tables = Self::TABLES * threads;
            each(threads, threads, |_, p| {
                let keys = part(n, threads, p);
                let table = p * Self::TABLES;
                let counters = counters.of(table, Self::PLACES, 0, Self::TABLES * Self::PLACES);
                self.count_all(std::slice::from_raw_parts(self.at(from, keys.start).keys, keys.len()), counters);
            });

            // Where the keys of each place end
            each(threads, Self::PLACES.div_ceil(BLOCK), |_, block| {
                let (from, to) = (block * BLOCK, Self::PLACES.min((block + 1) * BLOCK));
                let sums = counters.of(0, Self::PLACES, from, to);
                for table in 1..tables {
                    for (sum, count) in sums.iter_mut().zip(counters.of(table, Self::PLACES, from, to)) {
                        *sum += *count;
                    }
                }
            });
            let ends = counters.of(0, Self::PLACES, 0, Self::PLACES);
            ends.iter_mut().fold(0, |sum, end| {
                *end += sum;
                *end
            });

            // Write
            let (ends, parts) = (&*ends, n.div_ceil(TURN));
            each(threads, parts, |_, p| {
                let keys = part(n, parts, p);
                self.write_all(
                    std::slice::from_raw_parts_mut(self.at(to, keys.start).keys, keys.len()),
                    keys.start,
                    ends,
                );
            });
        }
    }

    /// How many keys have each place.
    #[inline(never)]
    fn count_all(self, keys: &[K], counters: &mut [u32]) {
        const BLOCK: usize = 64;
        assert_eq!(counters.len(), Self::TABLES * Self::PLACES);
        counters.fill(0);
        let (blocks, rest) = keys.as_chunks::<BLOCK>();
        for keys in blocks {
            // All of them first: this becomes vector instructions.
            let mut places = [K::cut(0); BLOCK];
            for (place, &key) in places.iter_mut().zip(keys) {
                *place = self.places.place(key);
            }
            for (k, place) in places.iter().enumerate() {
                counters[k % Self::TABLES * Self::PLACES + place.low()] += 1;
            }
        }
        for &key in rest {
            counters[self.places.place(key).low()] += 1;
        }
    }

    /// Writes the sorted keys from number `first` on.
    #[inline(never)]
    fn write_all(self, keys: &mut [K], first: usize, ends: &[u32]) {
        let mut place = ends.partition_point(|&end| end as usize <= first);
        let mut i = 0;
        while i < keys.len() {
            let key = self.places.key(K::cut(place as u64));
            let end = keys.len().min(ends[place] as usize - first);
            match keys[i..].first_chunk_mut::<RUN>() {
                // Most runs are short: what is too much is written over by the next one.
                Some(run) if end - i <= RUN => *run = [key; RUN],
                _ => keys[i..end].fill(key),
            }
            i = end;
            place += 1;
        }
    }
}
