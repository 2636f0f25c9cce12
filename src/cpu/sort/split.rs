//! The split of items into buckets by one digit, in order.
//!
//! Buckets are many, and lie far apart: a store to each in turn would miss the TLB nearly every time. So items are
//! gathered, a line for each bucket, and a line goes to memory when it is full.

use super::{
    Columns, Engine, LINE,
    order::{Bits, Places},
    payload::Payload,
};
use std::ops::Range;

/// The most bits of a digit.
pub(super) const WIDEST: u32 = 11;

/// Bits of a digit up to which items go straight to their buckets: a page of each is in the first TLB.
pub(super) const DIRECT: u32 = 6;

/// How a [`Digit`] finds the bucket of a place; a constant to the loops.
pub(super) type Way = u8;
/// By so many bits. There is nothing below the first bucket and nothing above the last.
pub(super) const SPANNING: Way = 0;
/// By so many bits of the distance to `base`. The first bucket is for all below it, and the last one for all above it, too.
pub(super) const WINDOW: Way = 1;
/// By the highest bit that is set beyond those of `base`, and `shift` bits below it: for places that are many near `base`
/// and ever fewer further off.
pub(super) const SCALED: Way = 2;

/// The least bits of a digit that is scaled.
const SCALED_WIDTH: u32 = 9;

/// Which bucket a place belongs to: one of `2^width`, each for `2^shift` places from `base` on, but for [`SCALED`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Digit<K> {
    pub(super) base: K,
    pub(super) shift: u32,
    pub(super) width: u32,
    pub(super) way: Way,
}

impl<K: Bits> Digit<K> {
    /// The bucket of a place; `WAY` is the digit's.
    #[inline(always)]
    fn of<const WAY: Way>(self, place: K) -> usize {
        let last = (1 << self.width) - 1;
        match WAY {
            SPANNING => place.shr(self.shift).low() & last,
            WINDOW => place.above(self.base).shr(self.shift).low().min(last),
            _ => {
                let place = place.xor(self.base);
                let below = K::WIDTH - 1 - place.or(K::cut(1 << self.shift)).leading_zeros() - self.shift;
                ((below as usize) << self.shift) + place.shr(below).low()
            }
        }
    }

    /// In how many of the lowest bits the places of bucket `b` differ, of places that differ in `high`.
    pub(super) fn left(self, b: usize, high: u32) -> u32 {
        match self.way {
            SPANNING => self.shift,
            WINDOW if b == 0 || b == (1 << self.width) - 1 => high,
            WINDOW => self.shift,
            _ => (b as u32 >> self.shift).saturating_sub(1),
        }
    }

    /// A digit of `width` bits for places that differ in the lowest `high` bits only, of which these are some, in order.
    /// With `edge` all its buckets are of fewer bits.
    pub(super) fn new(sample: &[K], high: u32, width: u32, edge: bool) -> Digit<K> {
        let base = if high == K::WIDTH { K::cut(0) } else { K::cut(sample[0].wide() >> high << high) };
        let bits = width.min(high);
        let all = Digit { base, shift: high - bits, width: bits, way: SPANNING };

        // As many buckets for where most of the sample is.
        let few = sample.len() / 32;
        let (low, top) = (sample[few], sample[sample.len() - 1 - few]);
        let spread = K::WIDTH - top.above(low).leading_zeros();
        let shift = (spread + 1).saturating_sub(bits);
        if !edge && shift + 2 < all.shift {
            return Digit { base: K::cut(low.wide() >> shift << shift), shift, way: WINDOW, ..all };
        }

        // Most of it in one bucket nevertheless, and everywhere in that.
        let (mut shift, most) = (0, width.max(SCALED_WIDTH));
        let buckets = |shift: u32| (high - shift + 1) << shift;
        if high <= width || buckets(0) > 1 << most {
            return all;
        }
        while shift + 1 < high && buckets(shift + 1) <= 1 << most {
            shift += 1;
        }
        let scaled = Digit { base, shift, width: most, way: SCALED };
        let full = all.fullest::<SPANNING>(sample);
        if 2 * full > sample.len() && 4 * scaled.fullest::<SCALED>(sample) < full { scaled } else { all }
    }

    /// How many of a sample, in order, are in the same bucket at most.
    fn fullest<const WAY: Way>(self, sample: &[K]) -> usize {
        let same = |a: &K, b: &K| self.of::<WAY>(*a) == self.of::<WAY>(*b);
        sample.chunk_by(same).map(<[K]>::len).max().unwrap_or(0)
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

    /// Where the values of a bucket are gathered, behind its keys, and how far it is to the next bucket.
    const VALUES: usize = Self::GATHERED * size_of::<K>();
    const STRIDE: usize = Self::VALUES + Self::GATHERED * P::MOST;

    /// Bytes for what is gathered.
    pub(super) const LINES: usize = (Self::STRIDE << WIDEST) + LINE;

    /// Counts the digits of some items, and returns in which bits their places differ from `first`.
    ///
    /// # Safety
    /// The items may be read, and `WAY` is the digit's.
    #[inline(never)]
    pub(super) unsafe fn count_split<const WAY: Way>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        digit: Digit<K>,
        first: K,
        counts: &mut [usize],
    ) -> K {
        const BLOCK: usize = 64;
        counts.fill(0);
        let mask = counts.len() - 1;
        // SAFETY: the caller's.
        let keys = unsafe { std::slice::from_raw_parts(from.keys.add(items.start), items.len()) };
        let (blocks, rest) = keys.as_chunks::<BLOCK>();
        let mut others = [0; 1 << WIDEST];
        let others = &mut others[..counts.len()];
        let mut differ = K::cut(0);
        for keys in blocks {
            // All of them first: this becomes vector instructions.
            let mut places = [K::cut(0); BLOCK];
            for (place, &key) in places.iter_mut().zip(keys) {
                *place = self.places.place(key);
            }
            differ = places.iter().fold(differ, |differ, place| differ.or(place.xor(first)));
            // Two counters by turns: the same one twice in a row is slow.
            for two in places.as_chunks::<2>().0 {
                counts[digit.of::<WAY>(two[0]) & mask] += 1;
                others[digit.of::<WAY>(two[1]) & mask] += 1;
            }
        }
        for &key in rest {
            let place = self.places.place(key);
            differ = differ.or(place.xor(first));
            counts[digit.of::<WAY>(place) & mask] += 1;
        }
        for (count, other) in counts.iter_mut().zip(others) {
            *count += *other;
        }
        differ
    }

    /// Moves some items to their buckets, each to the next place of its bucket.
    ///
    /// # Safety
    /// `WAY` is the digit's. The items may be read and their places written; there are [`LINES`](Self::LINES) bytes for lines. Nobody else touches any.
    #[expect(clippy::too_many_arguments, reason = "the inner loop's")]
    pub(super) unsafe fn scatter<const WAY: Way>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit<K>,
        next: &mut [usize],
        lines: *mut u8,
        stream: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if digit.width <= DIRECT {
                for i in items {
                    let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                    let next = next.get_unchecked_mut(digit.of::<WAY>(self.places.place(key)));
                    let j = *next;
                    *next += 1;
                    to.keys.add(j).write(key);
                    self.payload.store(to.values, j, value);
                }
            } else {
                self.scatter_lines::<WAY>(from, items, to, digit, next, lines, stream);
            }
        }
    }

    /// [`scatter`](Self::scatter) by way of lines.
    ///
    /// # Safety
    /// As for that.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the inner loop's")]
    unsafe fn scatter_lines<const WAY: Way>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit<K>,
        next: &mut [usize],
        lines: *mut u8,
        stream: bool,
    ) {
        let size = self.payload.size();
        let mut firsts = [0; 1 << WIDEST];
        firsts[..next.len()].copy_from_slice(next);
        // Full lines of keys begin where a line of the memory does.
        let phase = to.keys.addr() / size_of::<K>() % Self::GATHERED;
        let whole = |address: usize, size: usize| (address | (Self::GATHERED * size)).is_multiple_of(LINE);
        let lines = Lines {
            // SAFETY: there is a line more.
            first: unsafe { lines.add(lines.align_offset(LINE)) },
            to,
            firsts: &firsts,
            stream_keys: stream && whole(0, size_of::<K>()),
            stream_values: stream && P::MOST > 0 && whole(to.values.addr().wrapping_sub(phase * size), size),
        };
        // SAFETY: the caller's.
        unsafe {
            for i in items {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let d = digit.of::<WAY>(self.places.place(key));
                let next = next.get_unchecked_mut(d);
                let j = *next;
                *next += 1;
                let slot = (j + phase) % Self::GATHERED;
                let line = lines.first.add(d * Self::STRIDE);
                line.cast::<K>().add(slot).write(key);
                self.payload.store(line.add(Self::VALUES), slot, value);
                if slot == Self::GATHERED - 1 {
                    self.put_full(&lines, d, j + 1);
                }
            }
            for (d, &end) in next.iter().enumerate() {
                let filled = (end + phase) % Self::GATHERED;
                self.put_part(&lines, d, filled, end, filled.min(end - firsts[d]));
            }
        }
        if lines.stream_keys || lines.stream_values {
            fence();
        }
    }

    /// Puts the line of bucket `d`, which ends at place `end`. Before its first place there is another bucket.
    ///
    /// # Safety
    /// The line is full, and its places are the caller's.
    #[inline(never)]
    unsafe fn put_full(self, lines: &Lines<'_, K>, d: usize, end: usize) {
        let (size, g) = (self.payload.size(), Self::GATHERED);
        // SAFETY: the caller's.
        unsafe {
            let first = *lines.firsts.get_unchecked(d);
            if end < first + g {
                return self.put_part(lines, d, g, end, end - first);
            }
            let line = lines.first.add(d * Self::STRIDE);
            put_line(line, lines.to.keys.add(end - g).cast(), g * size_of::<K>(), lines.stream_keys);
            if P::MOST > 0 {
                put_line(line.add(Self::VALUES), lines.to.values.add((end - g) * size), g * size, lines.stream_values);
            }
        }
    }

    /// Puts the last `len` of the items before slot `filled`, which end at place `end`.
    ///
    /// # Safety
    /// They are there, and their places are the caller's.
    #[cold]
    unsafe fn put_part(self, lines: &Lines<'_, K>, d: usize, filled: usize, end: usize, len: usize) {
        let (size, begin) = (self.payload.size(), filled - len);
        // SAFETY: the caller's.
        unsafe {
            let line = lines.first.add(d * Self::STRIDE);
            lines.to.keys.add(end - len).copy_from_nonoverlapping(line.cast::<K>().add(begin), len);
            if P::MOST > 0 {
                let values = line.add(Self::VALUES);
                lines.to.values.add((end - len) * size).copy_from_nonoverlapping(values.add(begin * size), len * size);
            }
        }
    }
}

/// What is gathered, and where it goes.
struct Lines<'a, K> {
    first: *mut u8,
    to: Columns<K>,
    firsts: &'a [usize],
    stream_keys: bool,
    stream_values: bool,
}

/// Copies a line, past the cache if `stream`.
///
/// # Safety
/// `len` bytes may be read and written; with `stream` they are whole vectors, and `to` is aligned like them.
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

/// What was streamed is visible before anything written after.
fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no x86_64 without it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}
