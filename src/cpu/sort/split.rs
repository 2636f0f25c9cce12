//! The split of items into buckets by one digit, in order.
//!
//! Buckets are many, and lie far apart: a store to each in turn would miss the TLB nearly every time. So items are
//! gathered, a line for each bucket, and a line goes to memory when it is full.

use super::{
    Columns, Engine,
    order::{Bits, Places},
    payload::Payload,
};
use std::ops::Range;

/// The most bits of a digit.
pub(super) const WIDEST: u32 = 11;
/// Bits of a digit up to which items go straight to their buckets: a page of each is in the first TLB.
const DIRECT: u32 = 6;
/// Bytes of a line of keys, or of values.
const LINE: usize = 64;

/// A digit of the places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digit {
    pub(super) shift: u32,
    pub(super) width: u32,
}

impl Digit {
    #[inline(always)]
    fn of<K: Bits>(self, place: K) -> usize {
        place.shr(self.shift).low() & ((1 << self.width) - 1)
    }
}

impl<K: Bits, O: Places<K>, P: Payload> Engine<K, O, P> {
    /// Items that are gathered for a bucket.
    const GATHERED: usize = {
        let (key, value) = (size_of::<K>(), if P::MOST == 0 { size_of::<K>() } else { P::MOST });
        let (least, most) = if key < value { (key, value) } else { (value, key) };
        let (all, few) = (LINE / least, 4 * LINE / most);
        if all < few { all } else { few }
    };

    /// Bytes for what is gathered.
    pub(super) const LINES: usize = ((Self::GATHERED * (size_of::<K>() + P::MOST)) << WIDEST) + LINE;

    /// Counts the digits of some items, and returns in which bits their places differ from `first`.
    pub(super) unsafe fn count_split(self, from: Columns<K>, items: Range<usize>, digit: Digit, first: K, counts: &mut [usize]) -> K {
        const BLOCK: usize = 64;
        counts.fill(0);
        let mut differ = K::cut(0);
        let mask = counts.len() - 1;
        for begin in items.clone().step_by(BLOCK) {
            // SAFETY: the caller's.
            let keys = unsafe { std::slice::from_raw_parts(from.keys.add(begin), BLOCK.min(items.end - begin)) };
            for &key in keys {
                differ = differ.or(self.places.place(key).xor(first));
            }
            for &key in keys {
                counts[digit.of(self.places.place(key)) & mask] += 1;
            }
        }
        differ
    }

    /// Moves some items to their buckets, each to the next place of its bucket.
    pub(super) unsafe fn scatter(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit,
        next: &mut [usize],
        lines: *mut u8,
        stream: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if digit.width <= DIRECT {
                let mask = next.len() - 1;
                for i in items {
                    let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                    let next = next.get_unchecked_mut(digit.of(self.places.place(key)) & mask);
                    let j = *next;
                    *next += 1;
                    to.keys.add(j).write(key);
                    self.payload.store(to.values, j, value);
                }
            } else {
                self.scatter_lines(from, items, to, digit, next, lines, stream);
            }
        }
    }

    #[inline(never)]
    unsafe fn scatter_lines(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit,
        next: &mut [usize],
        lines: *mut u8,
        stream: bool,
    ) {
        let g = Self::GATHERED;
        let size = self.payload.size();
        let mut firsts = [0; 1 << WIDEST];
        firsts[..next.len()].copy_from_slice(next);
        let mask = next.len() - 1;
        // Full lines of keys begin where a line of the memory does.
        let phase = to.keys.addr() / size_of::<K>() % g;
        let stream_keys = stream && (g * size_of::<K>()) % LINE == 0;
        let stream_values = P::MOST > 0
            && stream
            && (g * size) % LINE == 0
            && (to.values.addr().wrapping_sub(phase * size)) % LINE == 0;
        // SAFETY: the caller's.
        unsafe {
            let lines = lines.add(lines.align_offset(LINE));
            let (keys, values) = (lines.cast::<K>(), lines.add(next.len() * g * size_of::<K>()));
            for i in items {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let d = digit.of(self.places.place(key)) & mask;
                let next = next.get_unchecked_mut(d);
                let j = *next;
                *next += 1;
                let slot = (j + phase) % g;
                keys.add(d * g + slot).write(key);
                self.payload.store(values, d * g + slot, value);
                if slot == g - 1 {
                    let first = *firsts.get_unchecked(d);
                    if j + 1 >= first + g {
                        let j = j + 1 - g;
                        put_line(keys.add(d * g).cast(), to.keys.add(j).cast(), g * size_of::<K>(), stream_keys);
                        if P::MOST > 0 {
                            put_line(values.add(d * g * size), to.values.add(j * size), g * size, stream_values);
                        }
                    } else {
                        self.put_part(keys, values, d * g + slot + 1, to, j + 1, j + 1 - first);
                    }
                }
            }
            for d in 0..=mask {
                let filled = (next[d] + phase) % g;
                self.put_part(keys, values, d * g + filled, to, next[d], filled.min(next[d] - firsts[d]));
            }
        }
        if stream_keys || stream_values {
            fence();
        }
    }

    unsafe fn put_part(self, keys: *const K, values: *const u8, end: usize, to: Columns<K>, to_end: usize, len: usize) {
        let size = self.payload.size();
        // SAFETY: the caller's.
        unsafe {
            to.keys.add(to_end - len).copy_from_nonoverlapping(keys.add(end - len), len);
            if P::MOST > 0 {
                to.values.add((to_end - len) * size).copy_from_nonoverlapping(values.add((end - len) * size), len * size);
            }
        }
    }
}

#[inline(always)]
unsafe fn put_line(from: *const u8, to: *mut u8, len: usize, stream: bool) {
    // SAFETY: the caller's.
    unsafe {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if stream {
            use std::arch::x86_64::*;
            for k in 0..len / 16 {
                let v = _mm_loadu_si128(from.cast::<__m128i>().add(k));
                _mm_stream_si128(to.cast::<__m128i>().add(k), v);
            }
            return;
        }
        to.copy_from_nonoverlapping(from, len);
    }
}

fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no x86_64 without it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}
