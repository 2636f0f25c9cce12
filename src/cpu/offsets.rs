//! Offsets from sizes: the exclusive sum of what each item takes, rounded up for alignment, in a
//! type that is known to hold it.
//!
//! The tile pipeline runs in the offsets' own type. If the sum might not fit it, the exact sum is
//! made first, so that an overflow is found before anything is written.

use super::{
    handover::hand_over,
    lanes::{self, LINE},
    pipeline::{Shape, Sink, Source, shaped},
    scan::{STREAMED_FROM, fence, prefetch, stream},
};
use crate::{Element, Operator, Sum};
use std::marker::PhantomData;

/// The size of an item: an unsigned integer.
pub(crate) trait Size: Copy + Send + Sync {
    /// The greatest value.
    const MOST: u64;
    /// As a `u64`.
    fn widen(self) -> u64;
}

/// The offset at which an item begins: an unsigned integer.
pub(crate) trait Offset: Element + Size {
    /// The sum of offsets.
    type Sum: Operator<Self, Carry = Self>;
    /// From a `u64` that is at most [`MOST`](Size::MOST).
    fn narrow(x: u64) -> Self;
}

macro_rules! sizes {
    ($($t:ident)*) => { $(
        impl Size for $t {
            const MOST: u64 = $t::MAX as u64;
            #[inline(always)]
            fn widen(self) -> u64 {
                self as u64
            }
        }
    )* };
}
sizes! { u8 u16 u32 u64 usize }

macro_rules! offsets {
    ($($t:ident)*) => { $(
        impl Offset for $t {
            type Sum = Sum;
            #[inline(always)]
            fn narrow(x: u64) -> $t {
                x as $t
            }
        }
    )* };
}
offsets! { u32 u64 usize }

/// Start i is the sum of the sizes before i, each rounded up to a multiple of `align`.
///
/// With one start more than sizes the last one is the total. Returns the total, or `None` if it is
/// more than `O` holds; then nothing was written. Works on the threads of rayon's current pool;
/// inputs of up to 256 KiB stay on the calling thread and allocate nothing. Sizes are read once
/// more if `O` might not hold the sum.
///
/// # Panics
/// If `align` is not a power of two, or there are not as many starts as sizes or one more.
pub(crate) fn offsets<S: Size, O: Offset>(sizes: &[S], align: u64, starts: &mut [O]) -> Option<u64> {
    offsets_shaped(sizes, align, starts, Shape::of::<S>())
}

/// [`offsets`] with tiles of a given shape.
fn offsets_shaped<S: Size, O: Offset>(sizes: &[S], align: u64, starts: &mut [O], shape: Shape) -> Option<u64> {
    let n = sizes.len();
    assert!(align.is_power_of_two(), "an alignment is a power of two");
    assert!(starts.len() == n || starts.len() == n + 1, "a start for each size, and perhaps the total");
    let sizes = Sizes { sizes, padding: align - 1, offset: PhantomData::<fn() -> O> };
    let most = u128::from(S::MOST).next_multiple_of(u128::from(align));
    let always_fits = most.checked_mul(n as u128).is_some_and(|most| most <= u128::from(O::MOST));
    if !always_fits && sizes.total(shape) > u128::from(O::MOST) {
        return None;
    }
    let (first, to) = (Some(O::narrow(0)), starts.as_mut_ptr());
    // A constant: as a field of the sink, `STREAM` would cost time for each item.
    let total = if lanes::has::<O::Sum, O>() && size_of_val(starts) >= STREAMED_FROM {
        shaped::<O::Sum, O, _, _, true>(n, first, sizes, Starts::<O, true> { starts: to }, shape)
    } else {
        shaped::<O::Sum, O, _, _, false>(n, first, sizes, Starts::<O, false> { starts: to }, shape)
    };
    let total = total.expect("there is a first value");
    if let Some(last) = starts.get_mut(n) {
        *last = total;
    }
    Some(total.widen())
}

/// The sizes, and the padding that is added before the cut to a multiple of the alignment.
struct Sizes<'a, S, O> {
    sizes: &'a [S],
    padding: u64,
    offset: PhantomData<fn() -> O>,
}

impl<S, O> Clone for Sizes<'_, S, O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<S, O> Copy for Sizes<'_, S, O> {}

impl<S: Size, O: Offset> Sizes<'_, S, O> {
    /// The exact sum of all: that of 2^64 sizes below 2^64 fits.
    fn total(self, shape: Shape) -> u128 {
        let tile = if self.sizes.len() <= shape.small { self.sizes.len().max(1) } else { shape.tile };
        let units = hand_over(
            self.sizes.len().div_ceil(tile),
            Some(0),
            |t| (self.units(&self.sizes[t * tile..self.sizes.len().min((t + 1) * tile)]), ()),
            |a, b| a + b,
            |_, _, ()| {},
        );
        units.expect("there is a first value") << self.padding.count_ones()
    }

    /// The sum of the rounded sizes in units of the alignment. A rounded size may not fit `u64`;
    /// its units do.
    fn units(self, sizes: &[S]) -> u128 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            /// # Safety
            /// The machine has AVX2.
            #[target_feature(enable = "avx2")]
            unsafe fn by_avx2<S: Size, O: Offset>(all: Sizes<'_, S, O>, sizes: &[S]) -> u128 {
                all.units_here(sizes)
            }
            // SAFETY: the machine has it.
            return unsafe { by_avx2(self, sizes) };
        }
        self.units_here(sizes)
    }

    #[inline(always)]
    fn units_here(self, sizes: &[S]) -> u128 {
        let shift = self.padding.count_ones();
        if S::MOST <= u64::from(u32::MAX) && shift <= 32 {
            // No sum overflows while a tile has less than 2^31 items.
            return sizes.iter().map(|size| (size.widen() + self.padding) >> shift).sum::<u64>().into();
        }
        // In halves, whose sums do not overflow either.
        let (mut low, mut high) = (0, 0);
        for size in sizes {
            let size = size.widen();
            let units = (size >> shift) + u64::from(size & self.padding != 0);
            low += units & u64::from(u32::MAX);
            high += units >> 32;
        }
        u128::from(low) + (u128::from(high) << 32)
    }
}

impl<S: Size, O: Offset> Source<O> for Sizes<'_, S, O> {
    type Item = S;

    #[inline(always)]
    fn item(&self, i: usize) -> S {
        // SAFETY: the pipeline asks for i < n only.
        unsafe { *self.sizes.get_unchecked(i) }
    }

    #[inline(always)]
    fn carry(&self, size: &S) -> O {
        // The total fits, and so does every size rounded up.
        O::narrow(size.widen().wrapping_add(self.padding) & !self.padding)
    }

    #[inline(always)]
    fn prefetch(&self, i: usize, count: usize) {
        let (first, bytes) = (i * size_of::<S>(), count * size_of::<S>());
        let line = |byte: usize| prefetch(self.sizes.as_ptr().cast::<u8>().wrapping_add(byte));
        if bytes >= LINE {
            (first..first + bytes).step_by(LINE).for_each(line);
        } else if first % LINE < bytes {
            // Of several calls for a cache line, only the one in which it begins.
            line(first);
        }
    }
}

/// A store of each start. Made by [`offsets_shaped`] only: there is a start for each size.
struct Starts<O, const STREAM: bool> {
    starts: *mut O,
}

impl<O, const STREAM: bool> Clone for Starts<O, STREAM> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<O, const STREAM: bool> Copy for Starts<O, STREAM> {}

// SAFETY: each start is written by one `put`, on one thread, and offsets are `Send`.
unsafe impl<O: Send, const STREAM: bool> Sync for Starts<O, STREAM> {}

impl<S, O: Offset, const STREAM: bool> Sink<S, O> for Starts<O, STREAM> {
    #[inline(always)]
    fn put(&self, i: usize, _: S, exclusive: Option<O>, _: O) {
        let start = exclusive.unwrap_or(O::narrow(0));
        // SAFETY: the pipeline puts i < n only, each once.
        unsafe { self.starts.add(i).write(start) }
    }

    #[inline(always)]
    fn put_vector<const L: usize>(&self, i: usize, _: [S; L], exclusive: [O; L], _: [O; L]) {
        // SAFETY: as for `put`; `flush` follows on this thread.
        unsafe {
            let to = self.starts.add(i).cast::<[O; L]>();
            if STREAM { stream(to, exclusive) } else { to.write(exclusive) }
        }
    }

    #[inline(always)]
    fn lead(&self, i: usize) -> usize {
        if !STREAM {
            return 0;
        }
        self.starts.wrapping_add(i).addr().wrapping_neg() % LINE / size_of::<O>()
    }

    #[inline(always)]
    fn flush(&self) {
        if STREAM {
            fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::random::noise;
    use crate::cpu::threads::on_threads;

    const TINY: Shape = Shape { tile: 136, small: 0 };

    /// Runs on pools of 1, 2 and 3 threads, with tiny tiles and with real ones.
    fn on_all(run: impl Fn(Shape) + Sync, real: Shape) {
        for threads in [1, 2, 3] {
            for shape in [TINY, Shape { small: usize::MAX, ..TINY }, real] {
                on_threads(threads, || run(shape));
            }
        }
    }

    fn check<S, O>(sizes: &[S], align: u64)
    where
        S: Size,
        O: Offset + PartialEq + std::fmt::Debug,
    {
        let n = sizes.len();
        let mut expected = vec![0u128];
        for size in sizes {
            let rounded = u128::from(size.widen()).next_multiple_of(u128::from(align));
            expected.push(expected[expected.len() - 1] + rounded);
        }
        let total = u64::try_from(expected[n]).ok().filter(|&total| total <= O::MOST);
        on_all(
            |shape| {
                for extra in [0, 1] {
                    let guard = O::narrow(77);
                    let mut starts = vec![guard; n + 3];
                    let found = offsets_shaped(sizes, align, &mut starts[1..1 + n + extra], shape);
                    assert_eq!(found, total, "n {n}, align {align}");
                    let written = if total.is_some() { n + extra } else { 0 };
                    let oracle: Vec<O> = expected[..written].iter().map(|&start| O::narrow(start as u64)).collect();
                    assert_eq!(starts[1..1 + written], oracle, "n {n}, align {align}");
                    assert_eq!(starts[0], guard);
                    assert!(starts[1 + written..].iter().all(|&start| start == guard), "n {n}, align {align}");
                }
            },
            Shape::of::<S>(),
        );
    }

    fn lengths() -> Vec<usize> {
        if cfg!(miri) { vec![0, 1, 300] } else { vec![0, 1, 2, 63, 64, 65, 127, 128, 135, 136, 137, 272, 1000, 3333] }
    }

    #[test]
    fn starts_agree_with_a_loop() {
        for n in lengths() {
            for align in [1, 8, 64] {
                let noise: Vec<u64> = noise(n, n as u64 + align).collect();
                check::<u8, u32>(&noise.iter().map(|&z| z as u8).collect::<Vec<_>>(), align);
                check::<u16, u64>(&noise.iter().map(|&z| z as u16).collect::<Vec<_>>(), align);
                check::<u32, u32>(&noise.iter().map(|&z| z as u32 >> 13).collect::<Vec<_>>(), align);
                check::<u32, u64>(&noise.iter().map(|&z| z as u32).collect::<Vec<_>>(), align);
                check::<u64, u64>(&noise.iter().map(|&z| z >> 20).collect::<Vec<_>>(), align);
                check::<usize, usize>(&noise.iter().map(|&z| z as usize % 3).collect::<Vec<_>>(), align);
                // Most of these do not fit.
                check::<u32, u32>(&noise.iter().map(|&z| z as u32).collect::<Vec<_>>(), align);
                check::<u64, u64>(&noise, align);
                check::<u64, u32>(&noise, align);
            }
        }
    }

    /// The greatest total that fits, and one more.
    #[test]
    fn totals_around_the_greatest() {
        for n in if cfg!(miri) { vec![1, 200] } else { vec![1, 2, 135, 500] } {
            for big in [0, n / 2, n - 1] {
                for align in [1, 8, 1 << 20] {
                    for over in [0, 1] {
                        let mut sizes = vec![0u64; n];
                        sizes[n - 1] = 1;
                        let units = |most: u64| (u128::from(most) / u128::from(align)) as u64;
                        sizes[big] = (units(u64::from(u32::MAX)) - u64::from(big != n - 1) + over) * align;
                        check::<u64, u32>(&sizes, align);
                        sizes[big] = units(u64::MAX) * align - u64::from(big != n - 1) * align;
                        sizes[n - 1] = sizes[n - 1].saturating_add(over);
                        check::<u64, u64>(&sizes, align);
                    }
                }
            }
        }
        check::<u64, u64>(&[u64::MAX; 300], 64);
        check::<u64, u64>(&[u64::MAX], 1);
        check::<u64, u64>(&[u64::MAX], 1 << 63);
        check::<u64, u64>(&[1; 3], 1 << 63);
        check::<u64, u64>(&[1; 1], 1 << 63);
        check::<u32, u32>(&[u32::MAX; 1], 1);
        check::<u32, u32>(&[u32::MAX; 1], 2);
        check::<u8, u32>(&[200; 5], 1 << 31);
    }

    #[test]
    fn full_tiles_agree_with_a_loop() {
        if !cfg!(miri) {
            let n = 3 * Shape::of::<u16>().tile + 4711;
            let sizes: Vec<u16> = noise(n, 5).map(|z| z as u16 % 100).collect();
            check::<u16, u32>(&sizes, 8);
            check::<u16, u64>(&sizes, 1);
        }
    }

    /// Starts that are written past the caches.
    #[test]
    fn long_starts_agree_with_a_loop() {
        if cfg!(miri) {
            return;
        }
        let n = STREAMED_FROM / 4 + 4711;
        let sizes: Vec<u8> = noise(n, 5).map(|z| z as u8).collect();
        for skip in [0, 1, 3] {
            let mut starts = vec![7u32; n + 5];
            let total = offsets(&sizes, 2, &mut starts[skip..skip + n + 1]).unwrap();
            let mut at = 0;
            for (size, start) in sizes.iter().zip(&starts[skip..]) {
                assert_eq!(*start, at);
                at += u32::from(*size).next_multiple_of(2);
            }
            assert_eq!((starts[skip + n], total), (at, u64::from(at)));
            assert!(starts[..skip].iter().chain(&starts[skip + n + 1..]).all(|&guard| guard == 7));
        }
    }

    #[test]
    #[should_panic = "an alignment is a power of two"]
    fn an_alignment_that_is_no_power_of_two() {
        offsets(&[1u8], 3, &mut [0u32]);
    }

    #[test]
    #[should_panic = "a start for each size"]
    fn too_few_starts() {
        offsets(&[1u8; 2], 1, &mut [0u32]);
    }
}
