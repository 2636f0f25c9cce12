//! MSD radix partition: a scatter of the items into buckets by one digit, in order.
//!
//! Buckets are many and distant, so consecutive stores would nearly always miss the TLB. So each
//! bucket has a write-combining buffer, and a full buffer goes to memory at once.

use super::{Columns, Engine, order::Bits, payload::Payload};
use crate::cpu::{lanes::LINE, scan::fence};
use std::ops::Range;

/// The most bits of a digit.
pub(super) const MAX_WIDTH: u32 = 11;

/// Bits of a digit up to which items go to their buckets without buffers: the first TLB has a page
/// of each bucket.
pub(super) const DIRECT_WIDTH: u32 = 6;

/// How a [`Digit`] maps radix keys to buckets; a constant to the loops.
pub(super) type DigitKind = u8;
/// By the highest bits in which keys may differ, so no key is below the first bucket or above the
/// last.
pub(super) const TOP_BITS: DigitKind = 0;
/// By the distance to `base`. The first bucket also takes all keys below it, and the last all keys
/// above.
pub(super) const RANGE: DigitKind = 1;
/// By the highest bit in which a key differs from `base`, and `shift` bits below that one: for keys
/// that are dense near `base` and get sparse with the distance.
pub(super) const LOGARITHMIC: DigitKind = 2;

/// The fewest bits of a logarithmic digit.
const LOGARITHMIC_WIDTH: u32 = 9;

/// The map from radix keys to one of `2^width` buckets. Unless it is [`LOGARITHMIC`], a bucket is
/// for `2^shift` radix keys, counted from `base`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digit<K> {
    pub(super) base: K,
    pub(super) shift: u32,
    pub(super) width: u32,
    pub(super) kind: DigitKind,
}

impl<K: Bits> Digit<K> {
    /// The bucket of a radix key. `KIND` is the digit's.
    #[inline(always)]
    fn bucket_of<const KIND: DigitKind>(self, radix: K) -> usize {
        let last = (1 << self.width) - 1;
        match KIND {
            TOP_BITS => radix.shr(self.shift).to_usize() & last,
            RANGE => radix.saturating_sub(self.base).shr(self.shift).to_usize().min(last),
            _ => {
                let difference = radix.xor(self.base);
                let below = K::WIDTH - 1 - difference.or(K::truncate(1 << self.shift)).leading_zeros() - self.shift;
                ((below as usize) << self.shift) + difference.shr(below).to_usize()
            }
        }
    }

    /// The number of lowest bits in which radix keys of bucket `b` may differ, if all radix keys
    /// differ in the lowest `high` bits only.
    pub(super) fn bits_left(self, b: usize, high: u32) -> u32 {
        match self.kind {
            TOP_BITS => self.shift,
            RANGE if b == 0 || b == (1 << self.width) - 1 => high,
            RANGE => self.shift,
            _ => (b as u32 >> self.shift).saturating_sub(1),
        }
    }

    /// A digit of `width` bits for radix keys that differ in the lowest `high` bits only. `sample`
    /// is some of them, sorted. If the items are `outside_range`, all buckets have fewer bits left
    /// than `high`.
    pub(super) fn new(sample: &[K], high: u32, width: u32, outside_range: bool) -> Digit<K> {
        let base = if high == K::WIDTH { K::truncate(0) } else { K::truncate(sample[0].to_u64() >> high << high) };
        let bits = width.min(high);
        let top = Digit { base, shift: high - bits, width: bits, kind: TOP_BITS };

        // Where all but 1/16 of the sample is in a much smaller range, that range gets the buckets.
        let few = sample.len() / 32;
        let (low, last) = (sample[few], sample[sample.len() - 1 - few]);
        let spread = K::WIDTH - last.saturating_sub(low).leading_zeros();
        let shift = (spread + 1).saturating_sub(bits);
        if !outside_range && shift + 2 < top.shift {
            return Digit { base: K::truncate(low.to_u64() >> shift << shift), shift, kind: RANGE, ..top };
        }

        // Where one bucket would have more than half of the sample, and a logarithmic digit spreads
        // it.
        let (mut shift, most) = (0, width.max(LOGARITHMIC_WIDTH));
        let buckets = |shift: u32| (high - shift + 1) << shift;
        if high <= width || buckets(0) > 1 << most {
            return top;
        }
        while shift + 1 < high && buckets(shift + 1) <= 1 << most {
            shift += 1;
        }
        let logarithmic = Digit { base, shift, width: most, kind: LOGARITHMIC };
        let full = top.largest_bucket::<TOP_BITS>(sample);
        let spreads = || 4 * logarithmic.largest_bucket::<LOGARITHMIC>(sample) < full;
        if 2 * full > sample.len() && spreads() { logarithmic } else { top }
    }

    /// The most keys of a sorted sample in one bucket.
    fn largest_bucket<const KIND: DigitKind>(self, sample: &[K]) -> usize {
        let same = |a: &K, b: &K| self.bucket_of::<KIND>(*a) == self.bucket_of::<KIND>(*b);
        sample.chunk_by(same).map(<[K]>::len).max().unwrap_or(0)
    }
}

impl<K: Bits, P: Payload> Engine<K, P> {
    /// Items of a write-combining buffer: they fill one cache line of the narrower of key and
    /// value, but at most four of the wider.
    const BUFFER_ITEMS: usize = {
        let (key, value) = (size_of::<K>(), if P::MAX_BYTES == 0 { size_of::<K>() } else { P::MAX_BYTES });
        let (least, most) = if key < value { (key, value) } else { (value, key) };
        let (all, few) = (LINE / least, 4 * LINE / most);
        if all < few { all } else { few }
    };

    /// The offset of a buffer's values: after its keys.
    const VALUES_AT: usize = Self::BUFFER_ITEMS * size_of::<K>();
    /// Bytes of a buffer.
    const BUFFER_BYTES: usize = Self::VALUES_AT + Self::BUFFER_ITEMS * P::MAX_BYTES;

    /// Bytes of the buffers of all buckets, at any address.
    pub(super) const ALL_BUFFERS_BYTES: usize = (Self::BUFFER_BYTES << MAX_WIDTH) + LINE;

    /// The histogram of a digit over some items. Returns the bits in which their radix keys differ
    /// from `first`.
    ///
    /// # Safety
    /// The items may be read, and `KIND` is the digit's.
    #[inline(never)]
    pub(super) unsafe fn digit_histogram<const KIND: DigitKind>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        digit: Digit<K>,
        first: K,
        counts: &mut [usize],
    ) -> K {
        const BLOCK: usize = 64;
        let mask = counts.len() - 1;
        // SAFETY: the caller's.
        let keys = unsafe { std::slice::from_raw_parts(from.keys.add(items.start), items.len()) };
        let (blocks, rest) = keys.as_chunks::<BLOCK>();
        let mut other_counts = [0; 1 << MAX_WIDTH];
        let other_counts = &mut other_counts[..counts.len()];
        let mut differing = K::truncate(0);
        for keys in blocks {
            // A loop of its own, which becomes vector instructions.
            let mut radices = [K::truncate(0); BLOCK];
            for (radix, &key) in radices.iter_mut().zip(keys) {
                *radix = self.encoding.encode(key);
            }
            differing = radices.iter().fold(differing, |differing, radix| differing.or(radix.xor(first)));
            // Two alternating histograms: two additions to one counter in a row are slow.
            for two in radices.as_chunks::<2>().0 {
                counts[digit.bucket_of::<KIND>(two[0]) & mask] += 1;
                other_counts[digit.bucket_of::<KIND>(two[1]) & mask] += 1;
            }
        }
        for &key in rest {
            let radix = self.encoding.encode(key);
            differing = differing.or(radix.xor(first));
            counts[digit.bucket_of::<KIND>(radix) & mask] += 1;
        }
        for (count, other) in counts.iter_mut().zip(other_counts) {
            *count += *other;
        }
        differing
    }

    /// Scatters some items to their buckets. `next` is the index in `to` at which each bucket's
    /// next item goes.
    ///
    /// # Safety
    /// - `KIND` is the digit's.
    /// - The items may be read. The indices that `next` gives them may be written, and no other
    ///   thread touches them.
    /// - `buffers` has [`ALL_BUFFERS_BYTES`](Self::ALL_BUFFERS_BYTES) bytes, which no other thread
    ///   touches.
    #[expect(clippy::too_many_arguments, reason = "the inner loop's")]
    pub(super) unsafe fn scatter<const KIND: DigitKind>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit<K>,
        next: &mut [usize],
        buffers: *mut u8,
        stream: bool,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if digit.width <= DIRECT_WIDTH {
                for i in items {
                    let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                    let next = next.get_unchecked_mut(digit.bucket_of::<KIND>(self.encoding.encode(key)));
                    let j = *next;
                    *next += 1;
                    to.keys.add(j).write(key);
                    self.payload.store(to.values, j, value);
                }
            } else {
                self.scatter_by_buffers::<KIND>(from, items, to, digit, next, buffers, stream);
            }
        }
    }

    /// [`scatter`](Self::scatter) through write-combining buffers.
    ///
    /// # Safety
    /// As for that.
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "the inner loop's")]
    unsafe fn scatter_by_buffers<const KIND: DigitKind>(
        self,
        from: Columns<K>,
        items: Range<usize>,
        to: Columns<K>,
        digit: Digit<K>,
        next: &mut [usize],
        buffers: *mut u8,
        stream: bool,
    ) {
        let size = self.payload.size();
        let mut firsts = [0; 1 << MAX_WIDTH];
        firsts[..next.len()].copy_from_slice(next);
        // Index j goes to buffer slot (j + phase) mod BUFFER_ITEMS, so a full buffer's keys go to
        // whole cache lines.
        let phase = to.keys.addr() / size_of::<K>() % Self::BUFFER_ITEMS;
        let whole = |address: usize, size: usize| (address | (Self::BUFFER_ITEMS * size)).is_multiple_of(LINE);
        let buffers = Buffers {
            // SAFETY: the size includes a cache line for the alignment.
            base: unsafe { buffers.add(buffers.align_offset(LINE)) },
            to,
            firsts: &firsts,
            stream_keys: stream && whole(0, size_of::<K>()),
            stream_values: stream && P::MAX_BYTES > 0 && whole(to.values.addr().wrapping_sub(phase * size), size),
        };
        // SAFETY: the caller's.
        unsafe {
            for i in items {
                let (key, value) = (from.keys.add(i).read(), self.value(from, i));
                let bucket = digit.bucket_of::<KIND>(self.encoding.encode(key));
                let next = next.get_unchecked_mut(bucket);
                let j = *next;
                *next += 1;
                let slot = (j + phase) % Self::BUFFER_ITEMS;
                let buffer = buffers.base.add(bucket * Self::BUFFER_BYTES);
                buffer.cast::<K>().add(slot).write(key);
                self.payload.store(buffer.add(Self::VALUES_AT), slot, value);
                if slot == Self::BUFFER_ITEMS - 1 {
                    self.flush_full(&buffers, bucket, j + 1);
                }
            }
            for (bucket, &end) in next.iter().enumerate() {
                let filled = (end + phase) % Self::BUFFER_ITEMS;
                self.flush_part(&buffers, bucket, filled, end, filled.min(end - firsts[bucket]));
            }
        }
        if buffers.stream_keys || buffers.stream_values {
            fence();
        }
    }

    /// Writes the full buffer of a bucket to the indices up to `end`, but none before the bucket's
    /// first index, where another bucket lies.
    ///
    /// # Safety
    /// The buffer is full, and no other thread touches these indices of `to`.
    #[inline(never)]
    unsafe fn flush_full(self, buffers: &Buffers<'_, K>, bucket: usize, end: usize) {
        let (size, g) = (self.payload.size(), Self::BUFFER_ITEMS);
        // SAFETY: the caller's.
        unsafe {
            let first = *buffers.firsts.get_unchecked(bucket);
            if end < first + g {
                return self.flush_part(buffers, bucket, g, end, end - first);
            }
            let buffer = buffers.base.add(bucket * Self::BUFFER_BYTES);
            write(buffer, buffers.to.keys.add(end - g).cast(), g * size_of::<K>(), buffers.stream_keys);
            if P::MAX_BYTES > 0 {
                let values = buffers.to.values.add((end - g) * size);
                write(buffer.add(Self::VALUES_AT), values, g * size, buffers.stream_values);
            }
        }
    }

    /// Writes the last `len` items before slot `filled` of a bucket's buffer to the indices up to
    /// `end`.
    ///
    /// # Safety
    /// The buffer has these items, and no other thread touches their indices of `to`.
    #[cold]
    unsafe fn flush_part(self, buffers: &Buffers<'_, K>, bucket: usize, filled: usize, end: usize, len: usize) {
        let (size, begin) = (self.payload.size(), filled - len);
        // SAFETY: the caller's.
        unsafe {
            let buffer = buffers.base.add(bucket * Self::BUFFER_BYTES);
            buffers.to.keys.add(end - len).copy_from_nonoverlapping(buffer.cast::<K>().add(begin), len);
            if P::MAX_BYTES > 0 {
                let values = buffer.add(Self::VALUES_AT);
                buffers
                    .to
                    .values
                    .add((end - len) * size)
                    .copy_from_nonoverlapping(values.add(begin * size), len * size);
            }
        }
    }
}

/// The write-combining buffers of a scatter.
struct Buffers<'a, K> {
    /// The buffer of bucket 0, at a cache line.
    base: *mut u8,
    to: Columns<K>,
    /// The index at which each bucket's first item went.
    firsts: &'a [usize],
    /// Whether keys, and values, are written past the caches: a full buffer's then are whole cache
    /// lines.
    stream_keys: bool,
    stream_values: bool,
}

/// Copies `len` bytes, past the caches if `stream`.
///
/// # Safety
/// They may be read and written. With `stream` they are whole vectors, and `to` is aligned as
/// vectors are.
#[inline(always)]
unsafe fn write(from: *const u8, to: *mut u8, len: usize, stream: bool) {
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
