//! The scan of host memory: the tile pipeline with the elements as source and a store as sink.
//!
//! An ordinary store to a line that is not in the cache first reads it from memory, which makes three transfers out of
//! two. Large outputs are therefore written past the caches, by streaming stores of whole lines.

use super::pipeline::{Shape, Sink, Source, shaped};
use crate::{Element, Operator};
use std::marker::PhantomData;

/// Scans `n` elements of `input` into `output`, on the threads of rayon's current pool.
///
/// `init` comes before the first element, in inclusive scans too. With `reverse` the last element is the first, operand
/// order included. An exclusive scan needs `init`. The grouping is that of [`pipeline`](super::pipeline()).
///
/// # Safety
/// - `input` is valid for reads and `output` for writes of `n` elements.
/// - They are the same, or they do not overlap.
/// - Nobody else writes the one or touches the other during the call.
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
    // SAFETY: the caller's.
    unsafe { scan_shaped::<Op, T>(input, output, n, exclusive, init, reverse, Shape::of::<T>(), STREAM_BYTES) }
}

/// [`scan`] with tiles of a given shape, and streaming stores for outputs of at least `stream` bytes.
///
/// # Safety
/// As for [`scan`].
#[allow(clippy::too_many_arguments)]
unsafe fn scan_shaped<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    n: usize,
    exclusive: bool,
    init: Option<Op::Carry>,
    reverse: bool,
    shape: Shape,
    stream: usize,
) {
    assert!(init.is_some() || !exclusive, "an exclusive scan needs an initial value");
    macro_rules! run {
        ($exclusive:literal, $reverse:literal, $stream:literal) => {
            shaped::<Op, T, _, _>(
                n,
                init,
                Elements::<Op, T, $reverse> { input, n, operator: PhantomData },
                Store::<Op, T, $exclusive, $reverse, $stream> { output, n, operator: PhantomData },
                shape,
            )
        };
    }
    let size = size_of::<T>();
    // In place the line is in the cache already. A line is whole elements if one begins at a multiple of their size.
    let streams = !reverse
        && matches!(size, 4 | 8)
        && size * n >= stream
        && !std::ptr::eq(input, output)
        && output.addr().is_multiple_of(size);
    // All are decided out here so that the inner loops walk without a branch.
    match (exclusive, reverse, streams) {
        (false, false, false) => run!(false, false, false),
        (false, false, true) => run!(false, false, true),
        (false, true, _) => run!(false, true, false),
        (true, false, false) => run!(true, false, false),
        (true, false, true) => run!(true, false, true),
        (true, true, _) => run!(true, true, false),
    };
}

/// Bytes of output from which on it would not stay in the last-level cache, so that it is better written past it.
const STREAM_BYTES: usize = 32 << 20;

/// Where item `i` of the `n` at `first` lies.
#[inline(always)]
fn place<T, const REVERSE: bool>(first: *const T, i: usize, n: usize) -> *const T {
    first.wrapping_add(if REVERSE { (n - 1).wrapping_sub(i) } else { i })
}

/// The elements themselves. Made by [`scan_shaped`] alone, with its caller's promise: `n` elements at `input`.
struct Elements<Op, T, const REVERSE: bool> {
    input: *const T,
    n: usize,
    operator: PhantomData<fn(Op)>,
}

/// A store of each result. Made by [`scan_shaped`] alone, with its caller's promise: room for `n` elements at `output`.
///
/// With `STREAM`, never in reverse, it writes whole lines past the caches. Then `T` is of 4 or 8 bytes and `output` a multiple of that.
struct Store<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> {
    output: *mut T,
    n: usize,
    operator: PhantomData<fn(Op)>,
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

// SAFETY: the input is only read, by the caller's promise nobody writes it, and elements are `Sync`.
unsafe impl<Op, T: Element, const REVERSE: bool> Sync for Elements<Op, T, REVERSE> {}
// SAFETY: each element of the output is written by one `put` or `put_block`, on one thread, and elements are `Send`.
unsafe impl<Op, T: Element, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Sync
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
{
}

impl<Op: Operator<T>, T: Element, const REVERSE: bool> Source<Op::Carry> for Elements<Op, T, REVERSE> {
    type Item = T;

    #[inline(always)]
    fn item(&self, i: usize) -> T {
        // SAFETY: the pipeline asks for i < n only. In place, it never reads an item again that has been put.
        unsafe { place::<T, REVERSE>(self.input, i, self.n).read() }
    }

    #[inline(always)]
    fn carry(&self, item: &T) -> Op::Carry {
        Op::lift(*item)
    }

    #[inline(always)]
    fn expect(&self, i: usize) {
        if !REVERSE {
            prefetch(self.input.wrapping_add(i).cast());
        }
    }
}

impl<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
where
    Op: Operator<T>,
    T: Element,
{
    #[inline(always)]
    fn place(&self, i: usize) -> *mut T {
        place::<T, REVERSE>(self.output, i, self.n).cast_mut()
    }

    #[inline(always)]
    fn result(exclusive: Option<Op::Carry>, inclusive: Op::Carry) -> T {
        Op::lower(match exclusive {
            Some(exclusive) if EXCLUSIVE => exclusive,
            _ => inclusive,
        })
    }
}

impl<Op, T, const EXCLUSIVE: bool, const REVERSE: bool, const STREAM: bool> Sink<T, Op::Carry>
    for Store<Op, T, EXCLUSIVE, REVERSE, STREAM>
where
    Op: Operator<T>,
    T: Element,
{
    /// A line's worth. Backwards and for smaller elements it would be slower.
    const BLOCK: usize = match size_of::<T>() {
        size @ (4 | 8) if !REVERSE => LINE / size,
        _ => 1,
    };

    #[inline(always)]
    fn put(&self, i: usize, _: T, exclusive: Option<Op::Carry>, inclusive: Op::Carry) {
        // SAFETY: the pipeline puts i < n only, each once.
        unsafe { self.place(i).write(Self::result(exclusive, inclusive)) }
    }

    #[inline(always)]
    fn lead(&self, i: usize) -> usize {
        if !STREAM {
            return 0;
        }
        self.place(i).addr().wrapping_neg() % LINE / size_of::<T>()
    }

    #[inline(always)]
    fn put_block(&self, i: usize, results: impl Iterator<Item = (T, Option<Op::Carry>, Op::Carry)>) {
        if !STREAM {
            let next = self.place(i).cast::<u8>();
            prefetch_for_writing(next.wrapping_add(AHEAD));
            for (i, (item, exclusive, inclusive)) in (i..).zip(results) {
                self.put(i, item, exclusive, inclusive);
            }
            return;
        }
        let mut line = Line([0; LINE]);
        let elements: &mut [T] = bytemuck::cast_slice_mut(&mut line.0);
        for (k, (_, exclusive, inclusive)) in results.enumerate() {
            elements[k] = Self::result(exclusive, inclusive);
        }
        // SAFETY: the pipeline puts i < n only, each once, and the BLOCK items from `i` on are LINE bytes of the output. They
        // begin at a multiple of LINE: `lead` leads to one, and a block ends at the next.
        unsafe { stream(&line, self.place(i).cast()) }
    }

    #[inline(always)]
    fn flush(&self) {
        if STREAM {
            fence_streams();
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// What is written at once.
#[repr(align(64))]
struct Line([u8; LINE]);

/// Writes a line past the caches. Only after [`fence_streams`] on this thread may it be read, or be left to others.
///
/// # Safety
/// `to` is a multiple of [`LINE`], and valid for writes of as many bytes.
#[inline(always)]
unsafe fn stream(line: &Line, to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{__m128i, _mm_load_si128, _mm_stream_si128};
        let from = line.0.as_ptr().cast::<__m128i>();
        let to = to.cast::<__m128i>();
        for k in 0..LINE / size_of::<__m128i>() {
            // SAFETY: both are a line long and aligned to lines, `from` by its type and `to` by the caller's promise. Every
            // x86-64 processor has SSE2.
            unsafe { _mm_stream_si128(to.add(k), _mm_load_si128(from.add(k))) };
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    // SAFETY: the caller's, and the line lies on the stack, which the output does not.
    unsafe {
        to.copy_from_nonoverlapping(line.0.as_ptr(), LINE);
    }
}

/// Orders this thread's [`stream`]s before all that it writes afterwards, which the release of an atomic does not.
#[inline(always)]
fn fence_streams() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// How many bytes before it is written a line of the output is asked for. The stores of one block would otherwise wait for
/// the lines of the next, one after the other.
const AHEAD: usize = 256;

#[inline(always)]
fn prefetch_for_writing(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it touches no memory that the program could see, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Asks for a line to be brought into the L2 cache.
#[inline(always)]
fn prefetch(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Associativity, Last, Max, Sum};
    use half::f16;

    const TINY: Shape = Shape { tile: 136, small: 0 };

    /// Affine maps modulo 2^32, the earlier applied first: associative, not commutative, no identity declared.
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
        const CUDA: &'static str = "";
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
                        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                        let mut output = vec![guard; n + 2];
                        let mut in_place = input.clone();
                        let (from, to) = (input.as_ptr() as usize, output[1..].as_mut_ptr() as usize);
                        let place = in_place.as_mut_ptr() as usize;
                        pool.install(|| {
                            let (from, to, place) = (from as *const T, to as *mut T, place as *mut T);
                            // SAFETY: n elements each; the vectors outlive the call and nobody else touches them.
                            unsafe {
                                scan_shaped::<Op, T>(from, to, n, exclusive, init, reverse, TINY, 0);
                                scan_shaped::<Op, T>(place, place, n, exclusive, init, reverse, TINY, 0);
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
        // Small whole numbers, so that sums in f32 are exact and a loop may be the oracle.
        assert_eq!(<Sum as Operator<f16>>::ASSOCIATIVITY, Associativity::Rounding);
        check::<Sum, f16>(|z| f16::from_f32((z % 4) as f32), 2.0);
    }

    /// Scans into an output that begins `shift` bytes after the begin of a line, with streaming stores, between guard bytes.
    fn check_shifted<T: Element + PartialEq + std::fmt::Debug>(shift: usize, make: impl Fn(u64) -> T)
    where
        Sum: Operator<T, Carry = T>,
    {
        let size = size_of::<T>();
        // Two tiles with runs of three lines, and one of shorter runs.
        let tile = 8 * (3 * LINE / size);
        let n = 2 * tile + tile / 2 + 3;
        let input: Vec<T> = (0..n as u64).map(make).collect();
        for reverse in [false, true] {
            let expected = oracle::<Sum, T>(&input, false, None, reverse);
            let mut lines: Vec<Line> = (0..n * size / LINE + 4).map(|_| Line([0xa5; LINE])).collect();
            let base = lines.as_mut_ptr().cast::<u8>();
            let from = LINE + shift;
            // SAFETY: the n elements after `from` lie within the lines, which nobody else touches, and `T` allows the shift.
            unsafe {
                let output = base.add(from).cast();
                let shape = Shape { tile, small: 0 };
                scan_shaped::<Sum, T>(input.as_ptr(), output, n, false, None, reverse, shape, 0);
            }
            let bytes: Vec<u8> = lines.iter().flat_map(|line| line.0).collect();
            let to = from + n * size;
            let what = format!("{size} bytes each, shifted by {shift}, reverse {reverse}");
            assert!(&bytes[from..to] == bytemuck::cast_slice::<T, u8>(&expected), "{what}");
            assert!(
                bytes[..from].iter().chain(&bytes[to..]).all(|&byte| byte == 0xa5),
                "{what}: a guard was overwritten"
            );
        }
    }

    #[test]
    fn blocks_at_every_misalignment() {
        for shift in (0..LINE).step_by(if cfg!(miri) { 24 } else { 1 }) {
            check_shifted::<u8>(shift, |z| (z * 37) as u8);
            if shift % 2 == 0 {
                check_shifted::<u16>(shift, |z| (z * 3701) as u16);
            }
            if shift % 4 == 0 {
                check_shifted::<u32>(shift, |z| (z * 370_001) as u32);
            }
            if shift % 8 == 0 {
                check_shifted::<u64>(shift, |z| z * 37_000_001);
            }
        }
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
        output.fill(7);
        let shape = Shape::of::<u32>();
        // SAFETY: n elements each.
        unsafe { scan_shaped::<Sum, u32>(input.as_ptr(), output.as_mut_ptr(), n, true, Some(5), true, shape, 0) };
        assert_eq!(output, oracle::<Sum, u32>(&input, true, Some(5), true));
    }

    #[test]
    #[should_panic = "an exclusive scan needs an initial value"]
    fn exclusive_without_a_first_value() {
        let mut one = [1u32];
        // SAFETY: one element, in place.
        unsafe { scan::<Sum, u32>(one.as_ptr(), one.as_mut_ptr(), 1, true, None, false) };
    }
}
