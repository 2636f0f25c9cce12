//! Keys of sorts, their order, and random ones. The oracle is the standard library's stable sort.

use super::Rng;
use half::{bf16, f16};
use parascan::cudarc::driver::DeviceRepr;
use parascan::{SortKey, sort};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;

/// A key type and its documented order.
pub trait Key: SortKey + DeviceRepr + Debug {
    const WIDTH: u32 = 8 * size_of::<Self>() as u32;
    fn from_bits(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn order(self, other: Self) -> Ordering;
    /// The ascending radix key, whose bits `Sort::bits` selects.
    fn radix(self) -> u64;
}

macro_rules! integers { ($($t:ident $sign:expr;)*) => { $(
    impl Key for $t {
        fn from_bits(bits: u64) -> $t { bits as $t }
        fn bits(self) -> u64 { self as u64 & (u64::MAX >> (64 - Self::WIDTH)) }
        fn order(self, other: $t) -> Ordering { self.cmp(&other) }
        fn radix(self) -> u64 { Key::bits(self) ^ $sign << (Self::WIDTH - 1) }
    }
)* } }
integers! { u8 0; u16 0; u32 0; u64 0; usize 0; i8 1; i16 1; i32 1; i64 1; isize 1; }

macro_rules! floats { ($($t:ident $bits:ident;)*) => { $(
    impl Key for $t {
        fn from_bits(bits: u64) -> $t { $t::from_bits(bits as $bits) }
        fn bits(self) -> u64 { self.to_bits().into() }
        /// The standard library's total order, except that NaNs with the sign set come last.
        fn order(self, other: $t) -> Ordering {
            let is_last = |x: $t| x.is_nan() && x.is_sign_negative();
            is_last(self).cmp(&is_last(other)).then(self.total_cmp(&other))
        }
        fn radix(self) -> u64 {
            let sign = 1 << (Self::WIDTH - 1);
            let total = |bits: u64| if bits & sign != 0 { !bits & (sign | (sign - 1)) } else { bits | sign };
            let nans = sign - 1 - u64::from($t::INFINITY.to_bits());
            total(Key::bits(self)).wrapping_sub(nans) & (sign | (sign - 1))
        }
    }
)* } }
floats! { f16 u16; bf16 u16; f32 u32; f64 u64; }

#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    Random,
    Sorted,
    Reversed,
    Equal,
    /// Four distinct values.
    Few,
    /// Four distinct values, except for one random key in fifty.
    MostlyFew,
    /// Small numbers are frequent.
    PowerLaw,
    /// Floats between -1 and 1, evenly distributed by value.
    Even,
    /// The upper 16 bits are equal; of narrow keys all bits but the lowest.
    SameAbove,
    /// NaNs of every payload and sign, infinities, zeros, subnormals; for integers the ends of
    /// their range.
    Special,
}
pub const PATTERNS: [Pattern; 10] = [
    Pattern::Random,
    Pattern::Sorted,
    Pattern::Reversed,
    Pattern::Equal,
    Pattern::Few,
    Pattern::MostlyFew,
    Pattern::PowerLaw,
    Pattern::Even,
    Pattern::SameAbove,
    Pattern::Special,
];

/// The bits of infinity; of an integer the greatest number.
fn infinity<K: Key>() -> u64 {
    match std::any::type_name::<K>().rsplit("::").next() {
        Some("f16") => 0x7c00,
        Some("bf16") => 0x7f80,
        Some("f32") => 0x7f80_0000,
        Some("f64") => 0x7ff0_0000_0000_0000,
        _ => u64::MAX >> (65 - K::WIDTH),
    }
}

/// A float between -1 and 1: each exponent is half as frequent as the one above it.
fn even<K: Key>(rng: &mut Rng) -> u64 {
    let infinity = infinity::<K>();
    let (grain, one) = (1 << infinity.trailing_zeros(), infinity >> 1 & infinity);
    let sign = u64::from(rng.next().is_multiple_of(2)) << (K::WIDTH - 1);
    sign | (one - grain * u64::from(1 + rng.next().leading_zeros().min(10))) | rng.next() & (grain - 1)
}

/// A key that is no ordinary number.
fn special<K: Key>(rng: &mut Rng) -> u64 {
    let all = u64::MAX >> (64 - K::WIDTH);
    let sign = 1 << (K::WIDTH - 1);
    let infinity = infinity::<K>();
    let mantissa = !infinity & (sign - 1);
    let magnitude = match rng.below(8) {
        0 | 1 => infinity | (rng.next() & mantissa),
        2 => infinity,
        3 => 0,
        4 => rng.next() & mantissa,
        5 => infinity | 1 << rng.below(K::WIDTH as usize - 1),
        6 => 1,
        _ => rng.next() & (sign - 1),
    };
    magnitude & all | if rng.below(2) == 0 { sign } else { 0 }
}

pub fn keys<K: Key>(rng: &mut Rng, pattern: Pattern, n: usize) -> Vec<K> {
    let width = K::WIDTH as usize;
    let few = [0; 4].map(|_: u8| rng.next());
    let above = rng.next() << if width > 16 { width - 16 } else { 4 };
    let mut keys: Vec<K> = (0..n)
        .map(|_| {
            K::from_bits(match pattern {
                Pattern::Random | Pattern::Sorted | Pattern::Reversed => rng.next(),
                Pattern::Equal => few[0],
                Pattern::Few => few[rng.below(4)],
                Pattern::MostlyFew if rng.below(50) == 0 => rng.next(),
                Pattern::MostlyFew => few[rng.below(4)],
                Pattern::PowerLaw => (rng.next() >> (64 - width)) >> rng.below(width),
                Pattern::Even => even::<K>(rng),
                Pattern::SameAbove => above | rng.next() >> (64 - width) & ((1 << (width - 16.min(width - 4))) - 1),
                Pattern::Special => special::<K>(rng),
            })
        })
        .collect();
    if let Pattern::Sorted | Pattern::Reversed = pattern {
        let order = sorted_indices(n, &|a, b| keys[a].order(keys[b]));
        keys = order.into_iter().map(|i| keys[i as usize]).collect();
    }
    if let Pattern::Reversed = pattern {
        keys.reverse();
    }
    keys
}

/// The indices of `n` items in the order of the standard library's stable sort. It is compiled once, not
/// for each type of keys.
fn sorted_indices(n: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<u32> {
    let mut indices: Vec<u32> = (0..n as u32).collect();
    indices.sort_by(|&a, &b| compare(a as usize, b as usize));
    indices
}

/// The options of a sort.
#[derive(Clone, Debug)]
pub struct How {
    pub descending: bool,
    /// The compared bits of the radix key; `None` for all.
    pub bits: Option<Range<u32>>,
}

impl How {
    pub fn builder<K: Key>(&self) -> parascan::Sort<K> {
        let builder = sort::<K>();
        let builder = if self.descending { builder.descending() } else { builder };
        match &self.bits {
            Some(bits) => builder.bits(bits.clone()),
            None => builder,
        }
    }

    /// All bits in either direction, and ranges of them.
    pub fn any(rng: &mut Rng, width: u32) -> How {
        let descending = rng.below(2) == 0;
        let (a, b) = (rng.below(width as usize + 1) as u32, rng.below(width as usize + 1) as u32);
        let bits = match rng.below(4) {
            0 => Some(a.min(b)..a.max(b)),
            1 => Some(0..width),
            _ => None,
        };
        How { descending, bits }
    }

    /// The source indices, in the order of the standard library's stable sort.
    pub fn oracle<K: Key>(&self, keys: &[K]) -> Vec<u32> {
        let compare = |a: K, b: K| match &self.bits {
            None => a.order(b),
            Some(bits) => {
                let below = |bit: u32| ((1_u128 << bit) - 1) as u64;
                let mask = below(bits.end) ^ below(bits.start);
                (a.radix() & mask).cmp(&(b.radix() & mask))
            }
        };
        sorted_indices(keys.len(), &|a, b| {
            let order = compare(keys[a], keys[b]);
            if self.descending { order.reverse() } else { order }
        })
    }
}
