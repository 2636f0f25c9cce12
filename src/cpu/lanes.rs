//! Scans of tiles by vector instructions, for operators that are one or two of them on machine
//! integers.
//!
//! A vector of items is scanned by the log-step network of Kogge and Stone ("A Parallel Algorithm
//! for the Efficient Solution of a General Class of Recurrence Equations", 1973): each lane is
//! combined with the one 1, 2, 4, ... lanes before it. Between vectors only one combination and one
//! broadcast remain, where a plain loop has a combination for each item. Items are read and written
//! in order, so whole cache lines may be written past the caches.

use super::pipeline::{Sink, Source, Steps};
use crate::{Operator, element::Element, operator::Lanes};
use std::ops::Range;

/// Bytes of a vector.
pub(super) const VECTOR: usize = 16;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Whether the operator has a vector instruction, and this machine has AVX2.
#[inline]
pub(super) fn has<Op: Operator<T>, T: Element>() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return const { !matches!(Op::LANES, Lanes::No) } && std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return false;
}

/// Scans the `len > 0` items from `from` on, and returns the last prefix. Meanwhile the `upcoming`
/// items, at most as many, are summed, so that memory is read while it is written; their sum is the
/// second result.
///
/// # Panics
/// Unless [`has`] the operator.
#[inline]
pub(super) fn scan<Op, T, Src, Snk, F>(
    steps: Steps<Src, Snk, F>,
    from: usize,
    len: usize,
    prefix: Option<Op::Carry>,
    upcoming: Option<Range<usize>>,
) -> (Op::Carry, Option<Op::Carry>)
where
    Op: Operator<T>,
    T: Element,
    Src: Source<Op::Carry>,
    Snk: Sink<Src::Item, Op::Carry>,
    F: Fn(Op::Carry, Op::Carry) -> Op::Carry,
{
    assert!(has::<Op, T>());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the machine has AVX2.
    return unsafe {
        // A constant, so that one of them is compiled.
        match const { size_of::<Op::Carry>() } {
            1 => avx2::scan::<Op, T, _, _, _, 16>(steps, from, len, prefix, upcoming),
            2 => avx2::scan::<Op, T, _, _, _, 8>(steps, from, len, prefix, upcoming),
            4 => avx2::scan::<Op, T, _, _, _, 4>(steps, from, len, prefix, upcoming),
            8 => avx2::scan::<Op, T, _, _, _, 2>(steps, from, len, prefix, upcoming),
            _ => unreachable!("operators in lanes are carried in machine integers"),
        }
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    unreachable!("{from} {len} {upcoming:?} {} {}", prefix.is_some(), size_of_val(&steps))
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;
    use std::array;

    /// How many cache lines ahead of its sum a line is prefetched. With the processor's own
    /// prefetching alone a quarter of the bandwidth stays unused.
    const FETCHED: usize = 64;

    /// [`super::scan`] with `L` lanes in a vector.
    #[target_feature(enable = "avx2")]
    pub(super) fn scan<Op, T, Src, Snk, F, const L: usize>(
        steps: Steps<Src, Snk, F>,
        from: usize,
        len: usize,
        prefix: Option<Op::Carry>,
        upcoming: Option<Range<usize>>,
    ) -> (Op::Carry, Option<Op::Carry>)
    where
        Op: Operator<T>,
        T: Element,
        Src: Source<Op::Carry>,
        Snk: Sink<Src::Item, Op::Carry>,
        F: Fn(Op::Carry, Op::Carry) -> Op::Carry,
    {
        let identity = Op::IDENTITY.expect("operators in lanes have an identity");
        let per_line = L * (LINE / VECTOR);
        let mut sum = steps.put(from, prefix);
        let mut i = from + 1;
        let end = from + len;
        let aligned = if i < end { end.min(i + steps.sink.lead(i)) } else { end };
        while i < aligned {
            sum = steps.put(i, Some(sum));
            i += 1;
        }
        let summed = upcoming.is_some();
        let Range { start: mut ahead, end: ahead_end } = upcoming.unwrap_or(0..0);
        let mut ahead_sums = vector([identity; L]);
        // The prefix in every lane. It stays a vector: through a general register the dependency
        // between vectors takes twice as long.
        let mut before = vector([sum; L]);
        while i + per_line <= end {
            if ahead + per_line <= ahead_end {
                steps.source.prefetch(ahead + FETCHED * per_line, per_line);
                for part in 0..LINE / VECTOR {
                    let items: [Src::Item; L] = steps.source.items(ahead + part * L);
                    let carries = vector(carries::<Op::Carry, Src, L>(steps.source, &items));
                    // Lane by lane, out of order: every such operator is commutative.
                    ahead_sums = combined::<Op, T>(ahead_sums, carries);
                }
                ahead += per_line;
            } else {
                steps.source.prefetch(i + FETCHED * per_line, per_line);
            }
            steps.sink.expect(i);
            for part in 0..LINE / VECTOR {
                let i = i + part * L;
                let items: [Src::Item; L] = steps.source.items(i);
                let mut sums = vector(carries::<Op::Carry, Src, L>(steps.source, &items));
                let mut distance = 1;
                while distance < L {
                    sums = combined::<Op, T>(moved_up::<Op::Carry, L>(sums, distance, vector([identity; L])), sums);
                    distance *= 2;
                }
                let inclusive = combined::<Op, T>(before, sums);
                let exclusive = moved_up::<Op::Carry, L>(inclusive, 1, before);
                steps.sink.put_vector::<L>(i, items, lanes(exclusive), lanes(inclusive));
                before = last_everywhere::<L>(inclusive);
            }
            i += per_line;
        }
        sum = lanes::<Op::Carry, L>(before)[0];
        while i < end {
            sum = steps.put(i, Some(sum));
            i += 1;
        }
        let mut ahead_sum = identity;
        for lane in lanes::<Op::Carry, L>(ahead_sums) {
            ahead_sum = Op::combine(ahead_sum, lane);
        }
        for i in ahead..ahead_end {
            ahead_sum = (steps.combine)(ahead_sum, steps.carry(i));
        }
        (sum, summed.then_some(ahead_sum))
    }

    #[inline(always)]
    fn carries<C: Element, Src: Source<C>, const L: usize>(source: Src, items: &[Src::Item; L]) -> [C; L] {
        let mut carries = [C::zeroed(); L];
        for (carry, item) in carries.iter_mut().zip(items) {
            *carry = source.carry(item);
        }
        carries
    }

    /// `combine` in each lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn combined<Op: Operator<T>, T: Element>(a: __m128i, b: __m128i) -> __m128i {
        match (Op::LANES, size_of::<Op::Carry>()) {
            (Lanes::Add, 1) => _mm_add_epi8(a, b),
            (Lanes::Add, 2) => _mm_add_epi16(a, b),
            (Lanes::Add, 4) => _mm_add_epi32(a, b),
            (Lanes::Add, 8) => _mm_add_epi64(a, b),
            (Lanes::And, _) => _mm_and_si128(a, b),
            (Lanes::Or, _) => _mm_or_si128(a, b),
            (Lanes::Xor, _) => _mm_xor_si128(a, b),
            (Lanes::Max { signed: true }, 1) => _mm_max_epi8(a, b),
            (Lanes::Max { signed: true }, 2) => _mm_max_epi16(a, b),
            (Lanes::Max { signed: true }, 4) => _mm_max_epi32(a, b),
            (Lanes::Max { signed: false }, 1) => _mm_max_epu8(a, b),
            (Lanes::Max { signed: false }, 2) => _mm_max_epu16(a, b),
            (Lanes::Max { signed: false }, 4) => _mm_max_epu32(a, b),
            (Lanes::Max { signed }, 8) => _mm_blendv_epi8(b, a, is_greater(a, b, signed)),
            (Lanes::Min { signed: true }, 1) => _mm_min_epi8(a, b),
            (Lanes::Min { signed: true }, 2) => _mm_min_epi16(a, b),
            (Lanes::Min { signed: true }, 4) => _mm_min_epi32(a, b),
            (Lanes::Min { signed: false }, 1) => _mm_min_epu8(a, b),
            (Lanes::Min { signed: false }, 2) => _mm_min_epu16(a, b),
            (Lanes::Min { signed: false }, 4) => _mm_min_epu32(a, b),
            (Lanes::Min { signed }, 8) => _mm_blendv_epi8(a, b, is_greater(a, b, signed)),
            _ => unreachable!("operators in lanes are carried in machine integers"),
        }
    }

    /// All bits of each 64-bit lane in which `a` is greater. Before AVX-512 a maximum of 64 bits is
    /// made of it.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn is_greater(a: __m128i, b: __m128i, signed: bool) -> __m128i {
        let signs = _mm_set1_epi64x(if signed { 0 } else { i64::MIN });
        _mm_cmpgt_epi64(_mm_xor_si128(a, signs), _mm_xor_si128(b, signs))
    }

    /// The last lane in every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn last_everywhere<const L: usize>(v: __m128i) -> __m128i {
        match L {
            16 => _mm_shuffle_epi8(v, _mm_set1_epi8(15)),
            8 => _mm_shuffle_epi8(v, _mm_set1_epi16(0x0f0e)),
            4 => _mm_shuffle_epi32::<0b11_11_11_11>(v),
            _ => _mm_unpackhi_epi64(v, v),
        }
    }

    /// A vector by its lanes. In a debug build a read of the union is one move, where
    /// `transmute_copy` calls functions.
    union Both<C: Element, const L: usize> {
        lanes: [C; L],
        vector: __m128i,
    }

    #[inline(always)]
    fn vector<C: Element, const L: usize>(lanes: [C; L]) -> __m128i {
        assert!(size_of::<[C; L]>() == VECTOR);
        // SAFETY: elements have no padding, so these are 16 bytes.
        unsafe { Both { lanes }.vector }
    }

    #[inline(always)]
    fn lanes<C: Element, const L: usize>(vector: __m128i) -> [C; L] {
        assert!(size_of::<[C; L]>() == VECTOR);
        // SAFETY: any bytes are elements, and these are 16.
        unsafe { Both { vector }.lanes }
    }

    /// The lanes of `v` moved up by `distance`, which is a power of two, and those of `low` below
    /// them.
    #[inline(always)]
    fn moved_up<C: Element, const L: usize>(v: __m128i, distance: usize, low: __m128i) -> __m128i {
        let low = lanes::<C, L>(low);
        let low = vector(array::from_fn::<C, L, _>(|lane| if lane < distance { low[lane] } else { C::zeroed() }));
        // SAFETY: there is no x86_64 without these instructions.
        unsafe {
            let moved = match distance * size_of::<C>() {
                1 => _mm_slli_si128::<1>(v),
                2 => _mm_slli_si128::<2>(v),
                4 => _mm_slli_si128::<4>(v),
                _ => _mm_slli_si128::<8>(v),
            };
            _mm_or_si128(moved, low)
        }
    }
}
