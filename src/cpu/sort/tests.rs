//! The engine against a stable sort of the standard library by the same order, on fresh random
//! data.

use super::*;
use crate::cpu::random::Rng;
use crate::cpu::segmented::{ByFlags, Heads};
use crate::cpu::threads::on_threads;
use half::{bf16, f16};
use std::{cmp::Ordering, ops::Range};

/// A type of keys, and its order by the standard library.
trait Key: Copy + Send + Sync + 'static {
    const KIND: Kind;
    /// Bits of a key.
    const LEN: u32 = 8 * size_of::<Self>() as u32;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    /// By all bits, ascending.
    fn compare(self, other: Self) -> Ordering;
    /// The ascending radix key, as documented.
    fn radix(self) -> u64;
    /// The payloads that keys of the type are sorted with: all, or a few. What moves a value does not
    /// know the key, and the engine is compiled for each pair.
    const VALUES: &[Values];
    /// The engine for these keys and for values of so many bytes.
    fn code(value_bytes: usize) -> &'static Code;
}

macro_rules! engines {
    ($t:ident every) => {
        const VALUES: &[Values] = &VALUES;
        engines! { @code $t 0, 1, 2, 3, 4, 5..=7, 8, 9..=16 }
    };
    ($t:ident) => {
        const VALUES: &[Values] = &[Values::None, Values::Array(4), Values::Indices(4)];
        engines! { @code $t 0, 4 }
    };
    (@code $t:ident $($first:literal $(..=$last:literal)?),*) => {
        fn code(value_bytes: usize) -> &'static Code {
            match value_bytes {
                // Constants, so that only the engines of these are compiled.
                $( $first $(..=$last)? => const { Code::of::<$t>($first) }, )*
                _ => unreachable!("not among the type's values"),
            }
        }
    };
}

macro_rules! integers {
    ($($t:ident $kind:ident $($every:ident)?;)*) => { $(
        impl Key for $t {
            engines! { $t $($every)? }
            const KIND: Kind = Kind::$kind;
            fn of(bits: u64) -> $t {
                bits as $t
            }
            fn bits(self) -> u64 {
                self as u64 & (u64::MAX >> (64 - Self::LEN))
            }
            fn compare(self, other: $t) -> Ordering {
                self.cmp(&other)
            }
            fn radix(self) -> u64 {
                self.bits() ^ if $t::MIN == 0 { 0 } else { 1 << (Self::LEN - 1) }
            }
        }
    )* };
}
integers! {
    u8 Unsigned; u16 Unsigned; u32 Unsigned; u64 Unsigned every;
    i8 Signed; i16 Signed; i32 Signed; i64 Signed every;
}

macro_rules! floats {
    ($($t:ident $bits:ident $mantissa:literal $($every:ident)?;)*) => { $(
        impl Key for $t {
            engines! { $t $($every)? }
            const KIND: Kind = Kind::Float { mantissa: $mantissa };
            fn of(bits: u64) -> $t {
                $t::from_bits(bits as $bits)
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn compare(self, other: $t) -> Ordering {
                let last = |x: $t| x.is_nan() && x.is_sign_negative();
                last(self).cmp(&last(other)).then(self.total_cmp(&other))
            }
            fn radix(self) -> u64 {
                let bits = self.to_bits();
                let negative = bits >> (Self::LEN - 1) == 1;
                let radix = if negative { !bits } else { bits | 1 << (Self::LEN - 1) };
                // The NaNs with the sign set wrap around to the end.
                let radix = radix.wrapping_sub($bits::MAX >> 1).wrapping_add($t::INFINITY.to_bits());
                radix.into()
            }
        }
    )* };
}
floats! { f16 u16 10; bf16 u16 7; f32 u32 23; f64 u64 52 every; }

/// The bits of key i of n.
type Pattern = fn(&mut Rng, u64, u64) -> u64;

/// All 64 bits vary: floats of them include NaNs of every payload and sign, infinities and zeros.
const PATTERNS: [(&str, Pattern); 12] = [
    ("random", |rng, _, _| rng.next()),
    ("all equal", |_, _, _| 0x4242_4242_4242_4242),
    ("few distinct", |rng, _, _| rng.below(5).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    ("ascending", |_, i, _| i),
    ("descending", |_, i, n| n - i),
    ("ascending high bits", |_, i, n| (u128::from(i) << 64).checked_div(n.into()).unwrap_or(0) as u64),
    ("power law", |rng, _, _| rng.next() >> (rng.next() % 64)),
    ("its mirror", |rng, _, _| !(rng.next() >> (rng.next() % 64))),
    ("few high bits, many low ones", |rng, _, _| rng.below(3) << 61 | rng.below(1 << 12)),
    ("two far clusters", |rng, _, _| rng.below(2).wrapping_neg() ^ rng.below(1 << 9) << 8),
    ("one among equal ones", |_, i, n| if i == n / 2 { 1 } else { u64::MAX / 3 }),
    ("ends of every byte", |rng, _, _| {
        rng.next()
            .to_le_bytes()
            .iter()
            .fold(0, |bits, byte| bits << 8 | [0, 0x7f, 0x80, 0xff, 0xfc, 1][*byte as usize % 6])
    }),
];

/// NaNs, infinities, zeros and ordinary numbers of a float: 1/3, 1/6, 1/6 and 1/3 of the keys.
fn special<T: Key>(rng: &mut Rng) -> u64 {
    let Kind::Float { mantissa } = T::KIND else { return rng.next() };
    let all = u64::MAX >> (64 - T::LEN);
    let (sign, exponent) = (1 << (T::LEN - 1), all >> 1 >> mantissa << mantissa);
    let bits = match rng.below(6) {
        0 | 1 => exponent | (rng.next() & !(u64::MAX << mantissa)),
        2 => exponent,
        3 => 0,
        _ => rng.next() & all,
    };
    bits ^ if rng.below(2) == 0 { sign } else { 0 }
}

/// The options of a sort.
#[derive(Clone, Debug)]
struct Case {
    descending: bool,
    bits: Range<u32>,
    values: Values,
    keeps_input: bool,
    /// Whether the output is the input; then `keeps_input` is set.
    in_place: bool,
    threads: usize,
}

/// Sorts `keys`, and checks the order of keys, stability, the bits of every key and value, the
/// guards around the buffers, and that an input that must be kept is unchanged.
fn check<T: Key>(keys: &[u64], case: &Case, rng: &mut Rng, what: &str) {
    let (n, seed) = (keys.len(), rng.state);
    let Case { descending, ref bits, values, keeps_input, in_place, threads } = *case;
    let keys: Vec<T> = keys.iter().map(|&bits| T::of(bits)).collect();
    let size = match values {
        Values::None => 0,
        Values::Array(size) | Values::Indices(size) => size,
    };
    let payload: Vec<u8> = match values {
        Values::Indices(_) => (0..n).flat_map(|i| i.to_le_bytes().into_iter().take(size)).collect(),
        _ => (0..n * size).map(|_| rng.next() as u8).collect(),
    };
    let whole = *bits == (0..T::LEN);
    let compared = |key: T| {
        let below = |bit: u32| ((1_u128 << bit) - 1) as u64;
        key.radix() & (below(bits.end) ^ below(bits.start))
    };
    let compare = |a: T, b: T| if whole { a.compare(b) } else { compared(a).cmp(&compared(b)) };
    let mut expected: Vec<(T, usize)> = keys.iter().copied().zip(0..).collect();
    expected.sort_by(|&(a, _), &(b, _)| {
        let order = compare(a, b);
        if descending { order.reverse() } else { order }
    });

    // The items begin anywhere in a cache line, with guards on both sides.
    const GUARD: u8 = 0xa5;
    let buffer = |rng: &mut Rng, size: usize| {
        let lead = 64 * 3 + rng.below(40) as usize * size.next_power_of_two();
        (vec![GUARD; lead + n * size + 256], lead)
    };
    let key_size = size_of::<T>();
    let address = |(buffer, lead): &mut (Vec<u8>, usize), size: usize| {
        // Keys must be aligned: the allocator gives multiples of 8.
        let address = buffer[*lead..].as_mut_ptr();
        assert!(size == 0 || !size.is_power_of_two() || address.addr().is_multiple_of(size.min(8)));
        address
    };
    let mut from_keys = buffer(rng, key_size);
    let mut from_values = buffer(rng, size);
    let mut to_keys = buffer(rng, key_size);
    let mut to_values = buffer(rng, size);
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.bits().to_le_bytes().into_iter().take(key_size)).collect();
    from_keys.0[from_keys.1..][..bytes.len()].copy_from_slice(&bytes);
    from_values.0[from_values.1..][..payload.len()].copy_from_slice(&payload);
    let before = (from_keys.0.clone(), from_values.0.clone());

    let order = Order { width: T::LEN, kind: T::KIND, descending, bits: bits.clone() };
    let code = T::code(size);
    let mut sort = None;
    on_threads(threads, || sort = Some(Sort::new(code, order.clone(), values, n, keeps_input)));
    let sort = sort.expect("a sort");
    let mut scratch = vec![GUARD; sort.scratch() + 64];
    let null = std::ptr::null_mut();
    let from_address = match (values, keeps_input) {
        (Values::Array(_), _) | (Values::Indices(_), false) => address(&mut from_values, size),
        _ => null,
    };
    let from = Arrays { keys: address(&mut from_keys, key_size), values: from_address };
    let to = if in_place {
        from
    } else {
        let values = if size == 0 { null } else { address(&mut to_values, size) };
        Arrays { keys: address(&mut to_keys, key_size), values }
    };
    struct Task(Sort, Arrays, Arrays, *mut u8);
    // SAFETY: addresses of the test's own buffers, which outlive the call.
    unsafe impl Send for Task {}
    let task = Task(sort, from, to, scratch.as_mut_ptr());
    on_threads(threads, move || {
        let Task(sort, from, to, scratch) = { &task };
        // SAFETY: n items in each array, and the scratch memory that the sort asks for.
        unsafe { sort.run(*from, *to, *scratch) }
    });

    if in_place {
        (to_keys, to_values) = (from_keys.clone(), from_values.clone());
    }
    let about = || format!("{what}: {} keys of {} bits, {:?}, {case:?}, seed {seed}", n, T::LEN, T::KIND);
    for (k, &(_, i)) in expected.iter().enumerate() {
        let key = &to_keys.0[to_keys.1 + k * key_size..][..key_size];
        assert_eq!(key, &bytes[i * key_size..][..key_size], "key {k} of {}", about());
        let value = &to_values.0[to_values.1 + k * size..][..size];
        assert_eq!(value, &payload[i * size..][..size], "value {k} of {}", about());
    }
    for ((buffer, lead), size) in
        [(&to_keys, key_size), (&to_values, size), (&from_keys, key_size), (&from_values, size)]
    {
        let around = buffer[..*lead].iter().chain(&buffer[lead + n * size..]);
        assert!(around.copied().all(|byte| byte == GUARD), "written outside: {}", about());
    }
    assert!(scratch[scratch.len() - 64..].iter().all(|&byte| byte == GUARD), "scratch memory overrun: {}", about());
    if keeps_input && !in_place {
        assert!((from_keys.0, from_values.0) == before, "the input was written: {}", about());
    }
}

const VALUES: [Values; 19] = [
    Values::None,
    Values::Array(1),
    Values::Array(2),
    Values::Array(3),
    Values::Array(4),
    Values::Array(5),
    Values::Array(6),
    Values::Array(7),
    Values::Array(8),
    Values::Array(9),
    Values::Array(10),
    Values::Array(11),
    Values::Array(12),
    Values::Array(13),
    Values::Array(14),
    Values::Array(15),
    Values::Array(16),
    Values::Indices(4),
    Values::Indices(8),
];

fn any_case<T: Key>(rng: &mut Rng) -> Case {
    let end = match rng.below(3) {
        0 => 1 + rng.below(T::LEN.into()) as u32,
        _ => T::LEN,
    };
    let begin = if rng.below(3) == 0 { rng.below(u64::from(end) + 1) as u32 } else { 0 };
    let values = T::VALUES[rng.below(T::VALUES.len() as u64) as usize];
    let keeps_input = rng.below(2) == 0;
    Case {
        descending: rng.below(2) == 0,
        bits: begin..end,
        values,
        keeps_input,
        in_place: keeps_input && !matches!(values, Values::Indices(_)) && rng.below(2) == 0,
        threads: 1 + rng.below(4) as usize,
    }
}

/// Sorts of every pattern at each length, with random options.
fn check_patterns<T: Key>(lengths: &[usize], rounds: usize) {
    let mut rng = Rng::new();
    for &n in lengths {
        for _ in 0..rounds {
            for (name, pattern) in PATTERNS {
                // Of long inputs half of the patterns, others in each run.
                if n > 1 << 17 && rng.below(2) == 0 {
                    continue;
                }
                // Narrow keys take their bits from either end of the 64.
                let down = if rng.below(2) == 0 { 64 - T::LEN } else { 0 };
                let keys: Vec<u64> = (0..n).map(|i| pattern(&mut rng, i as u64, n as u64) >> down).collect();
                check::<T>(&keys, &any_case::<T>(&mut rng), &mut rng, name);
            }
            let keys: Vec<u64> = (0..n).map(|_| special::<T>(&mut rng)).collect();
            check::<T>(&keys, &any_case::<T>(&mut rng), &mut rng, "special");
        }
    }
}

const SHORT: [usize; 16] = [0, 1, 2, 3, 31, 32, 33, 34, 64, 100, 255, 256, 257, 1000, 2049, 5000];
/// Around the lengths that are sorted by one thread, partitioned once, and partitioned twice by one
/// thread.
const LONG: [usize; 4] = [ONE_THREAD_ITEMS - 1, ONE_THREAD_ITEMS + 1, 70_001, 300_007];

macro_rules! stamped {
    ($($name:ident $t:ident)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn short() {
                check_patterns::<$t>(if cfg!(miri) { &SHORT[..10] } else { &SHORT }, if cfg!(miri) { 1 } else { 4 });
            }
            #[test]
            #[cfg_attr(miri, ignore = "takes hours")]
            fn long() {
                check_patterns::<$t>(&LONG, 1);
            }
        }
    )* };
}
stamped! {
    of_u8 u8 of_u16 u16 of_u32 u32 of_u64 u64 of_i8 i8 of_i16 i16 of_i32 i32 of_i64 i64 of_f16 f16 of_bf16 bf16 of_f32 f32 of_f64 f64
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn every_size_of_values() {
    fn all<T: Key>() {
        let mut rng = Rng::new();
        for values in VALUES {
            for threads in [1, 3] {
                for n in [20, 3000, if rng.below(2) == 0 { 140_000 } else { 33 }] {
                    let keys: Vec<u64> = (0..n).map(|_| rng.next()).collect();
                    let keeps_input = rng.below(2) == 0;
                    let case = Case {
                        descending: threads == 3,
                        bits: 0..T::LEN,
                        values,
                        keeps_input,
                        in_place: false,
                        threads,
                    };
                    check::<T>(&keys, &case, &mut rng, "random");
                }
            }
        }
    }
    all::<u64>();
    all::<f64>();
}

/// Partitions of buckets, on all threads.
#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn buckets_are_partitioned() {
    let mut rng = Rng::new();
    for (name, pattern) in PATTERNS {
        let n = 500_000 + rng.below(1000);
        let keys: Vec<u64> = (0..n).map(|i| pattern(&mut rng, i, n)).collect();
        // Each run takes other patterns for each of the two.
        if rng.below(2) == 0 {
            check::<u64>(&keys, &Case { threads: 2, ..any_case::<u64>(&mut rng) }, &mut rng, name);
        } else {
            let case = Case { values: Values::Indices(4), in_place: false, threads: 3, ..any_case::<f32>(&mut rng) };
            check::<f32>(&keys, &case, &mut rng, name);
        }
    }
}

/// Scatters that write past the caches, with keys and values that do not begin at a cache line.
#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn scatters_are_streamed() {
    let mut rng = Rng::new();
    let all = [(Values::None, 8), (Values::Array(4), 12), (Values::Array(12), 20), (Values::Indices(8), 16)];
    for (values, bytes) in all {
        let keys: Vec<u64> = (0..STREAMED_FROM / bytes + 4711).map(|_| rng.next()).collect();
        let case = Case { descending: true, bits: 0..64, values, keeps_input: true, in_place: false, threads: 2 };
        check::<f64>(&keys, &case, &mut rng, "random");
    }
}

/// Counting sorts of every pattern. Runs of equal keys cross the parts that threads write.
fn check_counting<T: Key>() {
    let mut rng = Rng::new();
    for n in if cfg!(miri) { &[1024][..] } else { &[1024, 65_537, 300_007] } {
        for (name, pattern) in PATTERNS {
            if *n > 1 << 17 && rng.below(2) == 0 {
                continue; // as `check_patterns`
            }
            let n = n + rng.below(100);
            let keys: Vec<u64> = (0..n).map(|i| pattern(&mut rng, i, n)).collect();
            let in_place = rng.below(2) == 0;
            let case = Case { bits: 0..T::LEN, values: Values::None, in_place, ..any_case::<T>(&mut rng) };
            check::<T>(&keys, &Case { keeps_input: in_place || case.keeps_input, ..case }, &mut rng, name);
        }
    }
}

#[test]
fn bytes_are_counted() {
    check_counting::<u8>();
    check_counting::<i8>();
}

#[test]
fn two_byte_keys_are_counted() {
    check_counting::<u16>();
    check_counting::<i16>();
    check_counting::<f16>();
    check_counting::<bf16>();
}

/// Heads that count how many words of them were asked for.
struct CountedHeads<'a>(ByFlags<'a>, AtomicUsize);

impl Heads for CountedHeads<'_> {
    fn mark(&self, from: usize, words: &mut [u64]) {
        self.1.fetch_add(words.len(), Relaxed);
        self.0.mark(from, words);
    }
}

/// Each thread looks for heads in its own chunks only, so a long segment costs no more than many
/// short ones. Heads and their distances are around the ends of chunks.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn heads_are_searched_twice() {
    const CHUNK: usize = 1 << 14;
    let mut rng = Rng::new();
    let n = 50 * CHUNK + 77;
    let heads: [&[usize]; 6] = [
        &[],
        &[0],
        &[CHUNK - 1, CHUNK, 3 * CHUNK, n - 1],
        &[1, 2, ONE_THREAD_ITEMS + 2, 2 * ONE_THREAD_ITEMS + 3],
        &[63, 64, CHUNK + 63, 40 * CHUNK + 64],
        &[20 * CHUNK, 20 * CHUNK + ONE_THREAD_ITEMS, 49 * CHUNK],
    ];
    for heads in heads {
        let mut flags = vec![0; n];
        heads.iter().for_each(|&head| flags[head] = 1);
        let keys: Vec<u32> = (0..n).map(|_| rng.next() as u32 >> 20).collect();
        let mut cuts = [&[0], heads, &[n]].concat();
        cuts.dedup();
        for local in [false, true] {
            let counted = CountedHeads(ByFlags(&flags), AtomicUsize::new(0));
            let order = Order { width: 32, kind: Kind::Unsigned, descending: false, bits: 0..32 };
            let sort = SegmentedSort::new(const { Code::of::<u32>(4) }, order, Values::Indices(4), n, &counted, local);
            let (mut sorted, mut indices) = (vec![0_u32; n], vec![0_u32; n]);
            let mut scratch = vec![0_u8; sort.scratch()];
            let from = Arrays { keys: keys.as_ptr().cast_mut().cast(), values: std::ptr::null_mut() };
            let to = Arrays { keys: sorted.as_mut_ptr().cast(), values: indices.as_mut_ptr().cast() };
            // SAFETY: n items in each array, and the scratch memory that the sort asks for.
            unsafe { sort.run(from, to, scratch.as_mut_ptr()) };
            for cut in cuts.windows(2) {
                let mut expected: Vec<usize> = (cut[0]..cut[1]).collect();
                expected.sort_by_key(|&i| keys[i]);
                for (i, &source) in (cut[0]..).zip(&expected) {
                    let index = source - if local { cut[0] } else { 0 };
                    assert_eq!((sorted[i], indices[i] as usize), (keys[source], index), "{i} of {heads:?}, {local}");
                }
            }
            let words = counted.1.into_inner();
            assert!(words <= 2 * n.div_ceil(64), "{words} words of heads were marked for {n} items, {heads:?}");
        }
    }
}
