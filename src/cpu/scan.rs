//! The scan of host memory: the tile pipeline with the elements as source and a store as sink.

use super::{
    call::{Call, same},
    lanes::{self, LINE, VECTOR},
    pipeline::{Shape, Sink, Source, shaped},
};
use crate::{Element, Operator};
use std::marker::PhantomData;

/// Scans `n` elements of `input` into `output`, on the threads of rayon's current pool.
///
/// `init` comes before the first element, in inclusive scans too. With `reverse` the last element
/// is the first, operand order included. An exclusive scan needs `init`. The grouping is that of
/// [`pipeline`](super::pipeline()).
///
/// # Safety
/// - `input` is valid for reads and `output` for writes of `n` elements.
/// - They are the same, or they do not overlap.
/// - During the call no other thread writes `input` or touches `output`.
///
/// # Panics
/// If `exclusive` is without `init`, before anything is written; and if the operator panics.
pub(crate) unsafe fn scan<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    n: usize,
    exclusive: bool,
    init: Option<Op::Carry>,
    reverse: bool,
) {
    struct Scan<C> {
        input: *const u8,
        output: *mut u8,
        n: usize,
        exclusive: bool,
        init: Option<C>,
        reverse: bool,
    }
    impl<C: Element> Call for Scan<C> {
        type Output = ();
        fn run<Op: Operator<T>, T: Element>(self) {
            let Scan { input, output, n, exclusive, init, reverse } = self;
            let shape = Shape::of::<T>();
            // SAFETY: the caller's; the elements have the size and the alignment of the caller's.
            unsafe { scan_shaped::<Op, T>(input.cast(), output.cast(), n, exclusive, same(init), reverse, shape) }
        }
    }
    Op::on_host(Scan { input: input.cast(), output: output.cast(), n, exclusive, init, reverse });
}

/// [`scan`] with tiles of a given shape.
///
/// # Safety
/// As for [`scan`].
unsafe fn scan_shaped<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    n: usize,
    exclusive: bool,
    init: Option<Op::Carry>,
    reverse: bool,
    shape: Shape,
) {
    assert!(init.is_some() || !exclusive, "an exclusive scan needs an initial value");
    // In place the output's cache lines have been read already.
    let stream = lanes::has::<Op, T>() && input != output.cast_const() && size_of::<T>() * n >= STREAMED_FROM;
    macro_rules! run {
        ($exclusive:literal, $reverse:literal, $stream:literal) => {
            shaped::<Op, T, _, _, $stream>(
                n,
                init,
                Elements::<Op, T, $reverse> { input, n, operator: PhantomData },
                Store::<Op, T, $exclusive, $reverse, $stream> { output, n, operator: PhantomData },
                shape,
            )
        };
    }
    // Constants, so that the inner loops have no branch. `stream` as a field would cost a fifth
    // more time an item in the cache.
    match (exclusive, reverse, stream) {
        (false, false, false) => run!(false, false, false),
        (false, true, false) => run!(false, true, false),
        (true, false, false) => run!(true, false, false),
        (true, true, false) => run!(true, true, false),
        (false, false, true) => run!(false, false, true),
        (false, true, true) => run!(false, true, true),
        (true, false, true) => run!(true, false, true),
        (true, true, true) => run!(true, true, true),
    };
}

/// The index in memory of item `i` of `n`.
#[inline(always)]
fn memory_index<const REVERSE: bool>(i: usize, n: usize) -> usize {
    if REVERSE { n - 1 - i } else { i }
}

/// The elements as a source. Made by [`scan_shaped`], [`reduce`](super::reduce()) and
/// [`segmented`](super::segmented) only, with their callers' promise: `n` elements at `input`.
pub(super) struct Elements<Op, T, const REVERSE: bool> {
    pub(super) input: *const T,
    pub(super) n: usize,
    pub(super) operator: PhantomData<fn(Op)>,
}

/// A store of each result. Made by [`scan_shaped`] and the scan of [segments](super::segmented)
/// only, with their callers' promise: room for `n` elements at `output`.
pub(super) struct Store<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> {
    pub(super) output: *mut T,
    pub(super) n: usize,
    pub(super) operator: PhantomData<fn(Op)>,
}

impl<Op, T, const REVERSE: bool> Clone for Elements<Op, T, REVERSE> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<Op, T, const REVERSE: bool> Copy for Elements<Op, T, REVERSE> {}
impl<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Clone
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
{
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Copy
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
{
}

// SAFETY: the input is only read, by the caller's promise no other thread writes it, and elements
// are `Sync`.
unsafe impl<Op, T: Element, const REVERSE: bool> Sync for Elements<Op, T, REVERSE> {}
// SAFETY: each element of the output is written by one `put`, on one thread, and elements are
// `Send`.
unsafe impl<Op, T: Element, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Sync
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
{
}

impl<Op: Operator<T>, T: Element, const REVERSE: bool> Source<Op::Carry> for Elements<Op, T, REVERSE> {
    type Item = T;

    #[inline(always)]
    fn item(&self, i: usize) -> T {
        // SAFETY: the pipeline asks for i < n only. In place, it never reads an item again that has
        // been put.
        unsafe { *self.input.add(memory_index::<REVERSE>(i, self.n)) }
    }

    #[inline(always)]
    fn items<const L: usize>(&self, i: usize) -> [T; L] {
        let first = if REVERSE { i + L - 1 } else { i };
        // SAFETY: as for `item`.
        let mut items = unsafe { *self.input.add(memory_index::<REVERSE>(first, self.n)).cast::<[T; L]>() };
        if REVERSE {
            items.reverse();
        }
        items
    }

    #[inline(always)]
    fn carry(&self, item: &T) -> Op::Carry {
        Op::lift(*item)
    }

    #[inline(always)]
    fn prefetch(&self, i: usize, count: usize) {
        let (first, bytes) = (i * size_of::<T>(), count * size_of::<T>());
        let end = self.n * size_of::<T>();
        let input = self.input.cast::<u8>();
        let line = |byte: usize| {
            prefetch(if REVERSE { input.wrapping_add(end).wrapping_sub(byte + 1) } else { input.wrapping_add(byte) });
        };
        if bytes >= LINE {
            (first..first + bytes).step_by(LINE).for_each(line);
        } else if first % LINE < bytes {
            // Of several calls for a cache line, only the one in which it begins.
            line(first);
        }
    }
}

impl<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Sink<T, Op::Carry>
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
where
    Op: Operator<T>,
    T: Element,
{
    #[inline(always)]
    fn put(&self, i: usize, _: T, exclusive: Option<Op::Carry>, inclusive: Op::Carry) {
        let result = match exclusive {
            Some(exclusive) if EXCLUSIVE => exclusive,
            _ => inclusive,
        };
        // SAFETY: the pipeline puts i < n only, each once.
        unsafe { *self.output.add(memory_index::<REVERSE>(i, self.n)) = Op::lower(result) }
    }

    #[inline(always)]
    fn put_vector<const L: usize>(&self, i: usize, _: [T; L], exclusive: [Op::Carry; L], inclusive: [Op::Carry; L]) {
        let results = if EXCLUSIVE { exclusive } else { inclusive };
        let mut lowered = [T::zeroed(); L];
        for lane in 0..L {
            lowered[lane] = Op::lower(results[if REVERSE { L - 1 - lane } else { lane }]);
        }
        let first = if REVERSE { i + L - 1 } else { i };
        // SAFETY: the pipeline puts i < n only, each once; `flush` follows on this thread.
        unsafe {
            let to = self.output.add(memory_index::<REVERSE>(first, self.n)).cast::<[T; L]>();
            if STREAM { stream(to, lowered) } else { *to = lowered }
        }
    }

    #[inline(always)]
    fn expect(&self, i: usize) {
        if STREAM {
            return;
        }
        let next = self.output.wrapping_add(memory_index::<REVERSE>(i, self.n)).cast::<u8>();
        prefetch_for_writing(if REVERSE { next.wrapping_sub(AHEAD) } else { next.wrapping_add(AHEAD) });
    }

    #[inline(always)]
    fn lead(&self, i: usize) -> usize {
        if !STREAM {
            return 0;
        }
        let next = self.output.wrapping_add(memory_index::<REVERSE>(i, self.n)).addr();
        let past_line = if REVERSE { next + size_of::<T>() } else { next.wrapping_neg() } % LINE;
        past_line / size_of::<T>()
    }

    #[inline(always)]
    fn flush(&self) {
        if STREAM {
            fence();
        }
    }
}

/// How many bytes ahead of the stores the output is prefetched. Otherwise the stores of a block
/// would wait for one cache line after the other.
const AHEAD: usize = 256;

/// Bytes of output from which on it is written past the caches: more than they hold, so nothing of
/// it would be found there later. An ordinary store first reads the cache line that it overwrites,
/// half as much memory traffic again. Unit tests take the path with less.
pub(super) const STREAMED_FROM: usize = if cfg!(test) { 4 << 20 } else { 32 << 20 };

#[inline(always)]
pub(super) fn prefetch(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint without an effect that the program could see; any address is
    // valid.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

#[inline(always)]
fn prefetch_for_writing(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint without an effect that the program could see; any address is
    // valid.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Writes past the caches, if the value is a vector at its alignment; else an ordinary write.
///
/// # Safety
/// `to` is valid for a write, and this thread calls [`fence`] before other threads may read it.
#[inline(always)]
pub(super) unsafe fn stream<V: Copy>(to: *mut V, value: V) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if size_of::<V>() == VECTOR && to.addr().is_multiple_of(VECTOR) {
        use std::arch::x86_64::{__m128i, _mm_stream_si128};
        union Bytes<V: Copy> {
            value: V,
            vector: __m128i,
        }
        // SAFETY: the caller's; the alignment was checked, and the values are elements, which have
        // no padding.
        unsafe { _mm_stream_si128(to.cast(), Bytes { value }.vector) };
        return;
    }
    // SAFETY: the caller's.
    unsafe { *to = value }
}

/// Makes streamed stores visible before any later store.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no x86_64 without it.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::threads::on_threads;
    use crate::{Associativity, BitXor, Last, Max, Min, Sum};
    use half::f16;

    const TINY: Shape = Shape { tile: 136, small: 0 };

    /// Affine maps modulo 2^32, the earlier applied first: associative, not commutative, no
    /// identity declared.
    #[derive(Clone, Copy)]
    struct Affine;
    impl Operator<[u32; 2]> for Affine {
        type Carry = [u32; 2];
        fn lift(x: [u32; 2]) -> [u32; 2] {
            x
        }
        fn lower(x: [u32; 2]) -> [u32; 2] {
            x
        }
        fn combine([a, b]: [u32; 2], [c, d]: [u32; 2]) -> [u32; 2] {
            [c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d)]
        }
        // SAFETY: never compiled for a device.
        const CUDA: crate::DeviceCode<Self, [u32; 2]> = unsafe { crate::DeviceCode::new("") };
    }
    // SAFETY: never compiled for a device.
    unsafe impl Element for [u32; 2] {
        const CUDA: &'static str = "";
    }

    fn oracle<Op: Operator<T>, T: Element>(
        input: &[T],
        exclusive: bool,
        init: Option<Op::Carry>,
        reverse: bool,
    ) -> Vec<T> {
        let mut sum = init;
        let order: Vec<T> = if reverse { input.iter().rev().copied().collect() } else { input.to_vec() };
        let mut output: Vec<T> = (order.into_iter())
            .map(|x| {
                let next = sum.map_or(Op::lift(x), |sum| Op::combine(sum, Op::lift(x)));
                let before = sum.replace(next);
                Op::lower(if exclusive { before.unwrap() } else { next })
            })
            .collect();
        if reverse {
            output.reverse();
        }
        output
    }

    fn check<Op: Operator<T>, T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(u64) -> T, init: Op::Carry) {
        let guard = make(77);
        let sizes: &[usize] =
            if cfg!(miri) { &[0, 1, 300] } else { &[0, 1, 2, 127, 128, 135, 136, 137, 272, 1000, 3333] };
        for &n in sizes {
            let input: Vec<T> = (0..n as u64).map(|i| make(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20)).collect();
            for (exclusive, init) in [(false, None), (false, Some(init)), (true, Some(init))] {
                for reverse in [false, true] {
                    let expected = oracle::<Op, T>(&input, exclusive, init, reverse);
                    for threads in if cfg!(miri) { [1, 2, 2] } else { [1, 2, 3] } {
                        let mut output = vec![guard; n + 2];
                        let mut in_place = input.clone();
                        let (from, to) = (input.as_ptr() as usize, output[1..].as_mut_ptr() as usize);
                        let within = in_place.as_mut_ptr() as usize;
                        on_threads(threads, || {
                            let (from, to, within) = (from as *const T, to as *mut T, within as *mut T);
                            // SAFETY: n elements each; the vectors outlive the call, and no other
                            // thread touches them.
                            unsafe {
                                scan_shaped::<Op, T>(from, to, n, exclusive, init, reverse, TINY);
                                scan_shaped::<Op, T>(within, within, n, exclusive, init, reverse, TINY);
                            }
                        });
                        assert_eq!(
                            &output[1..=n],
                            &expected,
                            "n {n}, {exclusive}, reverse {reverse}, {threads} threads"
                        );
                        assert_eq!(
                            in_place, expected,
                            "in place, n {n}, {exclusive}, reverse {reverse}, {threads} threads"
                        );
                        assert_eq!([output[0], output[n + 1]], [guard; 2]);
                    }
                }
            }
        }
    }

    #[test]
    fn every_form_agrees_with_a_loop() {
        check::<Sum, u32>(|z| z as u32, 1 << 30);
        check::<Affine, [u32; 2]>(|z| [z as u32, (z >> 32) as u32], [3, 5]);
        check::<Last, u8>(|z| z as u8, 9);
        check::<Max, f64>(|z| (z % 1000) as f64 - 500.0, crate::Keyed::key_nan_last(-0.0f64));
        check::<Max, i64>(|z| (z << 20) as i64, -1 << 62);
        check::<Min, u64>(|z| z << 20, 3 << 62);
        // Small whole numbers, so that sums in f32 are exact and a loop may be the oracle.
        assert_eq!(<Sum as Operator<f16>>::ASSOCIATIVITY, Associativity::Rounding);
        check::<Sum, f16>(|z| f16::from_f32((z % 4) as f32), 2.0);
    }

    #[test]
    fn full_tiles_agree_with_a_loop() {
        if cfg!(miri) {
            return;
        }
        let n = 3 * Shape::of::<u32>().tile + 4711;
        let input: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        let mut output = vec![7; n];
        // SAFETY: n elements each.
        unsafe { scan::<Sum, u32>(input.as_ptr(), output.as_mut_ptr(), n, true, Some(5), true) };
        assert_eq!(output, oracle::<Sum, u32>(&input, true, Some(5), true));
    }

    /// Outputs that are written past the caches, from every offset in a vector and in a cache line.
    #[test]
    fn long_outputs_agree_with_a_loop() {
        if cfg!(miri) {
            return;
        }
        fn check<Op: Operator<T, Carry = T>, T: Element + PartialEq>(
            make: impl Fn(u32) -> T,
            first: T,
            offsets: &[usize],
        ) {
            let n = STREAMED_FROM / size_of::<T>() + 4711;
            let input: Vec<T> = (0..n as u32).map(|i| make(i.wrapping_mul(2_654_435_761))).collect();
            for (case, &offset) in offsets.iter().enumerate() {
                let (exclusive, reverse) = (case % 2 == 1, case / 2 % 2 == 1);
                let mut output = vec![first; offset + n + 1];
                // SAFETY: n elements each.
                unsafe {
                    let output = output[offset..].as_mut_ptr();
                    scan::<Op, T>(input.as_ptr(), output, n, exclusive, Some(first), reverse);
                }
                let same = output[offset..offset + n] == oracle::<Op, T>(&input, exclusive, Some(first), reverse);
                assert!(same, "offset {offset}, exclusive {exclusive}, reverse {reverse}");
                let untouched = output[..offset].iter().chain(&output[offset + n..]).all(|&guard| guard == first);
                assert!(untouched, "offset {offset}, exclusive {exclusive}, reverse {reverse}");
            }
        }
        check::<Sum, u32>(|z| z, 5, &[0, 1, 2, 3, 4, 7, 13, 15]);
        check::<Sum, u64>(|z| (z as u64) << 20, 7, &[1, 2, 7, 0]);
        check::<Max, i16>(|z| (z >> 16) as i16, -9, &[1, 5, 9, 0]);
        check::<Min, u64>(|z| (z as u64) << 32, 3 << 62, &[3, 0]);
        check::<BitXor, u8>(|z| (z >> 24) as u8, 3, &[0, 3, 61, 16]);
    }

    #[test]
    #[should_panic = "an exclusive scan needs an initial value"]
    fn exclusive_without_a_first_value() {
        let mut one = [1u32];
        // SAFETY: one element, in place.
        unsafe { scan::<Sum, u32>(one.as_ptr(), one.as_mut_ptr(), 1, true, None, false) };
    }
}
