//! The engine beside a stable sort of the standard library by the same order, on fresh random data.

use super::*;
use half::{bf16, f16};
use std::{
    cmp::{Ordering, Reverse},
    hash::{BuildHasher, RandomState},
    ops::Range,
};

/// Random numbers, others in every run. A failed test names the seed.
struct Noise(u64);

impl Noise {
    fn new() -> Noise {
        Noise(RandomState::new().hash_one(0) | 1)
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }
}

/// A type of keys, and its order as the standard library has it.
trait Key: Copy + Send + Sync + 'static {
    const KIND: Kind;
    /// Bits of a key.
    const LEN: u32 = 8 * size_of::<Self>() as u32;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    /// By all bits, ascending.
    fn compare(self, other: Self) -> Ordering;
    /// The place as documented.
    fn place(self) -> u64;
}

macro_rules! integers {
    ($($t:ident $kind:ident)*) => { $(
        impl Key for $t {
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
            fn place(self) -> u64 {
                self.bits() ^ if $t::MIN == 0 { 0 } else { 1 << (Self::LEN - 1) }
            }
        }
    )* };
}
integers! { u8 Unsigned u16 Unsigned u32 Unsigned u64 Unsigned i8 Signed i16 Signed i32 Signed i64 Signed }

macro_rules! floats {
    ($($t:ident $bits:ident $mantissa:literal)*) => { $(
        impl Key for $t {
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
            fn place(self) -> u64 {
                let bits = self.to_bits();
                let negative = bits >> (Self::LEN - 1) == 1;
                let place = if negative { !bits } else { bits | 1 << (Self::LEN - 1) };
                // Past those NaNs that come last.
                let place = place.wrapping_sub($bits::MAX >> 1).wrapping_add($t::INFINITY.to_bits());
                place.into()
            }
        }
    )* };
}
floats! { f16 u16 10 bf16 u16 7 f32 u32 23 f64 u64 52 }

/// Makes the bits of key i of n.
type Pattern = fn(&mut Noise, u64, u64) -> u64;

/// Bits in all their width: floats of them are NaNs of every payload and sign, infinities and zeros among them.
const PATTERNS: [(&str, Pattern); 12] = [
    ("random", |noise, _, _| noise.next()),
    ("all equal", |_, _, _| 0x4242_4242_4242_4242),
    ("few distinct", |noise, _, _| noise.below(5).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    ("ascending", |_, i, _| i),
    ("descending", |_, i, n| n - i),
    ("ascending high bits", |_, i, n| (u128::from(i) << 64).checked_div(n.into()).unwrap_or(0) as u64),
    ("power law", |noise, _, _| noise.next() >> (noise.next() % 64)),
    ("its mirror", |noise, _, _| !(noise.next() >> (noise.next() % 64))),
    ("few high bits, many low ones", |noise, _, _| noise.below(3) << 61 | noise.below(1 << 12)),
    ("two far clusters", |noise, _, _| noise.below(2).wrapping_neg() ^ noise.below(1 << 9) << 8),
    ("one among equal ones", |_, i, n| if i == n / 2 { 1 } else { u64::MAX / 3 }),
    ("ends of every byte", |noise, _, _| {
        noise
            .next()
            .to_le_bytes()
            .iter()
            .fold(0, |bits, byte| bits << 8 | [0, 0x7f, 0x80, 0xff, 0xfc, 1][*byte as usize % 6])
    }),
];

/// NaNs, infinities, zeros and ordinary numbers of a float, a third of each but the last.
fn special<T: Key>(noise: &mut Noise) -> u64 {
    let Kind::Float { mantissa } = T::KIND else { return noise.next() };
    let all = u64::MAX >> (64 - T::LEN);
    let (sign, exponent) = (1 << (T::LEN - 1), all >> 1 >> mantissa << mantissa);
    let bits = match noise.below(6) {
        0 | 1 => exponent | (noise.next() & !(u64::MAX << mantissa)),
        2 => exponent,
        3 => 0,
        _ => noise.next() & all,
    };
    bits ^ if noise.below(2) == 0 { sign } else { 0 }
}

/// What is asked of the engine.
#[derive(Clone, Debug)]
struct Case {
    descending: bool,
    bits: Range<u32>,
    values: Values,
    keep: bool,
    /// The output is where the keys are; then they are kept.
    in_place: bool,
    threads: usize,
}

/// Sorts `keys` and checks everything: the order, that equal keys keep theirs, the bits of every key and value, what is
/// around the buffers, and that the source is as it was if it must be.
fn check<T: Key>(keys: &[u64], case: &Case, noise: &mut Noise, what: &str) {
    let (n, seed) = (keys.len(), noise.0);
    let Case { descending, ref bits, values, keep, in_place, threads } = *case;
    let keys: Vec<T> = keys.iter().map(|&bits| T::of(bits)).collect();
    let size = match values {
        Values::None => 0,
        Values::Array(size) | Values::Numbers(size) => size,
    };
    let payload: Vec<u8> = match values {
        Values::Numbers(_) => (0..n).flat_map(|i| i.to_le_bytes()[..size].to_vec()).collect(),
        _ => (0..n * size).map(|_| noise.next() as u8).collect(),
    };
    let whole = *bits == (0..T::LEN);
    let looked_at = |key: T| {
        let below = |bit: u32| ((1_u128 << bit) - 1) as u64;
        key.place() & (below(bits.end) ^ below(bits.start))
    };
    let compare = |a: T, b: T| if whole { a.compare(b) } else { looked_at(a).cmp(&looked_at(b)) };
    let mut expected: Vec<usize> = (0..n).collect();
    expected.sort_by(|&a, &b| {
        let order = compare(keys[a], keys[b]);
        if descending { Reverse(order).cmp(&Reverse(Ordering::Equal)) } else { order }
    });

    // Some odd number of items off a line, and something around that must stay.
    const GUARD: u8 = 0xa5;
    let buffer = |noise: &mut Noise, size: usize| {
        let lead = 64 * 3 + noise.below(40) as usize * size.next_power_of_two();
        (vec![GUARD; lead + n * size + 256], lead)
    };
    let key_size = size_of::<T>();
    let place = |(buffer, lead): &mut (Vec<u8>, usize), size: usize| {
        // Vectors of bytes lie on multiples of 8 here, which all keys are content with; asserted.
        let place = buffer[*lead..].as_mut_ptr();
        assert!(size == 0 || !size.is_power_of_two() || place.addr().is_multiple_of(size.min(8)));
        place
    };
    let mut from_keys = buffer(noise, key_size);
    let mut from_values = buffer(noise, size);
    let mut to_keys = buffer(noise, key_size);
    let mut to_values = buffer(noise, size);
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.bits().to_le_bytes()[..key_size].to_vec()).collect();
    from_keys.0[from_keys.1..][..bytes.len()].copy_from_slice(&bytes);
    from_values.0[from_values.1..][..payload.len()].copy_from_slice(&payload);
    let before = (from_keys.0.clone(), from_values.0.clone());

    let order = Order { width: T::LEN, kind: T::KIND, descending, bits: bits.clone() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let sort = pool.install(|| Sort::new(order, values, n, keep));
    let mut scratch = vec![GUARD; sort.scratch() + 64];
    let null = std::ptr::null_mut();
    let from_place = match (values, keep) {
        (Values::Array(_), _) | (Values::Numbers(_), false) => place(&mut from_values, size),
        _ => null,
    };
    let from = Arrays { keys: place(&mut from_keys, key_size), values: from_place };
    let to = if in_place {
        from
    } else {
        let values = if size == 0 { null } else { place(&mut to_values, size) };
        Arrays { keys: place(&mut to_keys, key_size), values }
    };
    struct Task(Sort, Arrays, Arrays, *mut u8);
    // SAFETY: buffers of the test's own, which outlive the call.
    unsafe impl Send for Task {}
    let task = Task(sort, from, to, scratch.as_mut_ptr());
    pool.install(move || {
        let Task(sort, from, to, scratch) = { task };
        // SAFETY: n items in all of them, and as much scratch memory as was asked for.
        unsafe { sort.run(from, to, scratch) }
    });

    if in_place {
        (to_keys, to_values) = (from_keys.clone(), from_values.clone());
    }
    let about = || format!("{what}: {} keys of {} bits, {:?}, {case:?}, seed {seed}", n, T::LEN, T::KIND);
    for (k, &i) in expected.iter().enumerate() {
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
    if keep && !in_place {
        assert!((from_keys.0, from_values.0) == before, "the source was touched: {}", about());
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
    Values::Numbers(4),
    Values::Numbers(8),
];

fn any_case<T: Key>(noise: &mut Noise) -> Case {
    let end = match noise.below(3) {
        0 => 1 + noise.below(T::LEN.into()) as u32,
        _ => T::LEN,
    };
    let begin = if noise.below(3) == 0 { noise.below(u64::from(end) + 1) as u32 } else { 0 };
    let values = VALUES[noise.below(VALUES.len() as u64) as usize];
    let keep = noise.below(2) == 0;
    Case {
        descending: noise.below(2) == 0,
        bits: begin..end,
        values,
        keep,
        in_place: keep && !matches!(values, Values::Numbers(_)) && noise.below(2) == 0,
        threads: 1 + noise.below(4) as usize,
    }
}

/// Every pattern, with everything else at random, at each of some lengths.
fn patterns<T: Key>(lengths: &[usize], rounds: usize) {
    let mut noise = Noise::new();
    for &n in lengths {
        for _ in 0..rounds {
            for (name, pattern) in PATTERNS {
                // Of the upper bits, too, whatever the width.
                let down = if noise.below(2) == 0 { 64 - T::LEN } else { 0 };
                let keys: Vec<u64> = (0..n).map(|i| pattern(&mut noise, i as u64, n as u64) >> down).collect();
                check::<T>(&keys, &any_case::<T>(&mut noise), &mut noise, name);
            }
            let keys: Vec<u64> = (0..n).map(|_| special::<T>(&mut noise)).collect();
            check::<T>(&keys, &any_case::<T>(&mut noise), &mut noise, "special");
        }
    }
}

const SHORT: [usize; 16] = [0, 1, 2, 3, 31, 32, 33, 34, 64, 100, 255, 256, 257, 1000, 2049, 5000];
/// Around what is sorted alone, split, and split twice with the scratch memory of one thread.
const LONG: [usize; 4] = [ALONE - 1, ALONE + 1, 70_001, 300_007];

macro_rules! stamped {
    ($($name:ident $t:ident)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn short() {
                patterns::<$t>(if cfg!(miri) { &SHORT[..10] } else { &SHORT }, if cfg!(miri) { 1 } else { 4 });
            }
            #[test]
            #[cfg_attr(miri, ignore = "takes hours")]
            fn long() {
                patterns::<$t>(&LONG, 1);
            }
        }
    )* };
}
stamped! {
    of_u8 u8 of_u16 u16 of_u32 u32 of_u64 u64 of_i8 i8 of_i16 i16 of_i32 i32 of_i64 i64 of_f16 f16 of_bf16 bf16 of_f32 f32 of_f64 f64
}

#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn every_size_of_values_at_every_width() {
    fn all<T: Key>() {
        let mut noise = Noise::new();
        for values in VALUES {
            for threads in [1, 3] {
                for n in [20, 3000, 140_000] {
                    let keys: Vec<u64> = (0..n).map(|_| noise.next()).collect();
                    let keep = noise.below(2) == 0;
                    let case =
                        Case { descending: threads == 3, bits: 0..T::LEN, values, keep, in_place: false, threads };
                    check::<T>(&keys, &case, &mut noise, "random");
                }
            }
        }
    }
    all::<u8>();
    all::<i16>();
    all::<u32>();
    all::<f64>();
}

/// Splits within splits on all threads.
#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn millions() {
    let mut noise = Noise::new();
    for (name, pattern) in PATTERNS {
        let n = 1_500_000 + noise.below(1000);
        let keys: Vec<u64> = (0..n).map(|i| pattern(&mut noise, i, n)).collect();
        check::<u64>(&keys, &Case { threads: 2, ..any_case::<u64>(&mut noise) }, &mut noise, name);
        let case = Case { values: Values::Numbers(4), in_place: false, threads: 3, ..any_case::<f32>(&mut noise) };
        check::<f32>(&keys, &case, &mut noise, name);
    }
}

/// What goes past the cache: lines that are streamed, keys and values off them by some items.
#[test]
#[cfg_attr(miri, ignore = "takes hours")]
fn streamed() {
    let mut noise = Noise::new();
    for (values, bytes) in [(Values::None, 4), (Values::Array(4), 8), (Values::Array(12), 16), (Values::Numbers(8), 12)]
    {
        let keys: Vec<u64> = (0..STREAMED_FROM / bytes + 4711).map(|_| noise.next()).collect();
        let case = Case { descending: true, bits: 0..32, values, keep: true, in_place: false, threads: 2 };
        check::<i32>(&keys, &case, &mut noise, "random");
    }
}

/// Keys that are counted, of every pattern: what is written by one thread ends anywhere in what another one writes.
fn counted<T: Key>() {
    let mut noise = Noise::new();
    for n in if cfg!(miri) { &[1024][..] } else { &[1024, 65_537, 300_007] } {
        for (name, pattern) in PATTERNS {
            let n = n + noise.below(100);
            let keys: Vec<u64> = (0..n).map(|i| pattern(&mut noise, i, n)).collect();
            let in_place = noise.below(2) == 0;
            let case = Case { bits: 0..T::LEN, values: Values::None, in_place, ..any_case::<T>(&mut noise) };
            check::<T>(&keys, &Case { keep: in_place || case.keep, ..case }, &mut noise, name);
        }
    }
}

#[test]
fn counted_bytes() {
    counted::<u8>();
    counted::<i8>();
}

#[test]
fn counted_pairs_of_bytes() {
    counted::<u16>();
    counted::<i16>();
    counted::<f16>();
    counted::<bf16>();
}
