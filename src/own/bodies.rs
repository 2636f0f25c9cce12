//! Operators and predicates written once, in Rust: every construct that is translated to CUDA. The
//! library's own tests compile the texts, the tests of the laws run them.

use super::*; // the macros and `Keyed`, at other paths than in the library
use half::{bf16, f16};

// ---- functions of two numbers -------------------------------------------------------------------

macro_rules! functions {
    ($($name:ident on $($t:ty),+: $associativity:ident |$a:ident, $b:ident| $body:expr;)*) => { $(
        operator! {
            pub(crate) struct $name on $($t),+ { associativity: $associativity, combine: |$a, $b| $body }
        }
    )* };
}

functions! {
    Wraps on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| a.wrapping_add(b).wrapping_mul(a).wrapping_sub(b.wrapping_neg());
    Adds on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact |a, b| (a >> 4) * 3 + (b >> 2) - (a >> 4);
    Divides on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| if b == 0 { a } else { a.wrapping_div(b).wrapping_mul(3) ^ a.wrapping_rem(b) };
    Shifts on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| a.wrapping_shl(b as u32) ^ a.wrapping_shr(b as u32) ^ (a << 3 >> 1);
    Mixes on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact |a, b| (a & b) | (!a ^ b) & !5 ^ !0;
    Extremes on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| a.min(b).wrapping_sub(a.max(b)) ^ a.clamp(3, 100) ^ b.max(7);
    Rotates on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| a.rotate_left(5).wrapping_add(b.rotate_right(a.count_ones())) ^ a.reverse_bits() ^ b.swap_bytes();
    Saturates on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact
        |a, b| a.saturating_add(b) ^ a.saturating_sub(b).rotate_left(1);
    Powers on i8, i16, i32, i64, u8, u16, u32, u64, usize, isize: Exact |a, b| a.wrapping_pow(b as u32 & 63);
    Euclid on i8, i16, i32, i64, isize: Exact
        |a, b| {
            let divisor = (b & 15) | 2;
            a.rem_euclid(divisor) ^ a.div_euclid(divisor).wrapping_shl(3) ^ a.rem_euclid(-divisor) ^ a.div_euclid(-divisor)
        };
    Signs on i8, i16, i32, i64, isize: Exact
        |a, b| a.wrapping_abs() ^ b.signum() ^ (a >> 1).abs().wrapping_mul(3) ^ -(b >> 1);
    Powered on u8, u16, u32, u64, usize: Exact
        |a, b| if a.is_power_of_two() { b } else if b.is_multiple_of(a | 1) { a } else { 5 };

    Computes on f32, f64: Rounding |a, b| (a + b) * (a - b) / b;
    Contracts on f32, f64: Rounding |a, b| a * b + a - b * b * 0.1;
    Fuses on f32, f64: Rounding |a, b| a.mul_add(b, -a) + b.mul_add(2.5, 1.0);
    Roots on f32, f64: Rounding |a, b| a.sqrt() - b.abs().sqrt().recip();
    Remains on f32, f64: Rounding |a, b| a % b;
    Rounds on f32, f64: Rounding
        |a, b| a.floor() + b.ceil() * 2.0 + a.trunc() + (b / 2.0).round() + (a / 2.0).round_ties_even() - b.fract();
    Least on f32, f64: Rounding |a, b| if a == b { a } else { a.min(b) };
    Greatest on f32, f64: Rounding |a, b| if a == b { a } else { a.max(b).max(-1.5) };
    Clamps on f32, f64: Rounding |a, b| a.clamp(-2.0, 3.0) + b.signum() + a.copysign(b);
    Halves on f16, bf16: Rounding |a, b| if a < b && a != b { a + b } else { -a * b / a - b };
}

macro_rules! counts { ($($t:ident)*) => { operator! { pub(crate) struct Counts $( on $t {
    associativity: Exact,
    combine: |a, b| (a.count_ones() + 3 * a.leading_zeros() + 5 * b.trailing_zeros() + 7 * b.count_zeros()
        + 11 * a.leading_ones() + 13 * b.trailing_ones()) as $t,
} )* } } }
macro_rules! distances { ($($t:ident)*) => { operator! { pub(crate) struct Distances $( on $t {
    associativity: Exact,
    combine: |a, b| (a.abs_diff(b) as $t) ^ (a & 3).pow(2),
} )* } } }
distances! { i8 i16 i32 i64 u8 u16 u32 u64 usize isize }
macro_rules! magnitudes { ($($t:ident)*) => { operator! { pub(crate) struct Magnitudes $( on $t {
    associativity: Exact,
    combine: |a, b| (a.unsigned_abs() >> 1) as $t ^ b,
} )* } } }
magnitudes! { i8 i16 i32 i64 isize }
counts! { i8 i16 i32 i64 u8 u16 u32 u64 usize isize }

macro_rules! classes { ($($name:ident on $t:ident, $bits:ident;)*) => { $( operator! {
    /// The classes of a float, and its bits.
    pub(crate) struct $name on $t {
        associativity: Exact,
        carry: $bits,
        lift: |x| (x.is_nan() as $bits) | ((x.is_finite() as $bits) << 1) | ((x.is_infinite() as $bits) << 2)
            | ((x.is_sign_negative() as $bits) << 3) | ((x.is_sign_positive() as $bits) << 4),
        lower: |x| $t::from_bits(x),
        combine: |a, b| $t::from_bits(a).to_bits() ^ b,
    }
} )* } }
classes! { Classes32 on f32, u32; Classes64 on f64, u64; ClassesHalf on f16, u16; ClassesBrain on bf16, u16; }

macro_rules! casts { ($($name:ident on $t:ident;)*) => { $( operator! {
    /// A number cast to all other types and back.
    pub(crate) struct $name on $t {
        associativity: Exact,
        carry: u64,
        lift: |x| {
            let mut sum = x as i8 as u64;
            sum = sum.wrapping_mul(3).wrapping_add(x as u8 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as i16 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as u16 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as i32 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as u32 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as i64 as u64);
            sum = sum.wrapping_mul(3).wrapping_add(x as u64);
            sum = sum.wrapping_mul(3).wrapping_add((x as isize as usize).count_ones() as u64);
            let (single, double) = (x as f32, x as f64);
            sum = sum.wrapping_mul(3).wrapping_add(if single.is_nan() { 1 } else { single.to_bits() as u64 });
            sum.wrapping_mul(3).wrapping_add(if double.is_nan() { 1 } else { double.to_bits() })
        },
        lower: |x| x as $t,
        combine: |a, b| a ^ b,
    }
} )* } }
casts! {
    Casts8 on i8; Casts16 on i16; Casts32 on i32; Casts64 on i64; CastsU8 on u8; CastsU16 on u16; CastsU32 on u32; CastsU64 on u64;
    CastsF32 on f32; CastsF64 on f64;
}

macro_rules! transcendental { ($($name:ident: |$x:ident| $body:expr;)*) => { $( operator! {
    pub(crate) struct $name on f32, f64 { associativity: Rounding, combine: |$x, _| $body }
} )* } }
transcendental! {
    Exp: |x| x.exp(); Exp2: |x| x.exp2(); ExpM1: |x| x.exp_m1(); Ln: |x| x.ln(); Ln1p: |x| x.ln_1p(); Log2: |x| x.log2();
    Log10: |x| x.log10(); Cbrt: |x| x.cbrt(); Sin: |x| x.sin(); Cos: |x| x.cos(); Tan: |x| x.tan(); Asin: |x| x.asin();
    Acos: |x| x.acos(); Atan: |x| x.atan(); Sinh: |x| x.sinh(); Cosh: |x| x.cosh(); Tanh: |x| x.tanh();
}
// Sums and products are quiet NaNs: of a signalling NaN, Rust's functions return NaN where the
// GPU's return a number, as they do of a quiet one. A power's base is no NaN, since it would jump
// at exponent zero. Hypotenuses are of quarters, since a difference in the last digit could be the
// greatest number on one side and infinity on the other.
functions! {
    Powf on f32, f64: Rounding |a, b| ((a + 0.0).abs() + 1.0).min(4.0).powf((b + 0.0).clamp(-4.0, 4.0));
    Hypot on f32, f64: Rounding |a, b| (a * 0.25).hypot(b * 0.25);
    Atan2 on f32, f64: Rounding |a, b| a.atan2(b);
}

// ---- statements, structs, names -----------------------------------------------------------------

element! {
    pub(crate) struct Pair<A, B> { pub(crate) first: A, pub(crate) second: B } for <u32, i32>, <f32, u32>
}
element! {
    pub(crate) struct Nested { pub(crate) pair: Pair<f32, u32>, pub(crate) count: u64 }
}
element! {
    pub(crate) struct Twins { pub(crate) left: Pair<u32, i32>, pub(crate) right: Pair<u32, i32> }
}
operator! {
    pub(crate) struct Gcd on u32, u64 {
        associativity: Exact,
        combine: |mut a, mut b| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        },
    }
}

operator! {
    /// Every kind of loop and jump.
    pub(crate) struct Loops on u32 {
        associativity: Exact,
        combine: |a, b| {
            let mut sum = a;
            for i in 0..b % 17 {
                sum = sum.wrapping_mul(31).wrapping_add(i);
                if sum % 8 == 3 {
                    continue;
                }
                for k in (250..=255u8).rev() {
                    sum ^= k as u32;
                    if sum & 1 == 0 {
                        break;
                    }
                    sum = sum.rotate_left(k as u32);
                }
            }
            for _ in (0..3_i64).rev() {
                sum <<= 1;
                sum |= 1;
            }
            let mut left = sum % 5;
            while left > 0 && sum != 7 {
                left -= 1;
                if left == 2 {
                    return sum;
                }
                sum = sum.wrapping_sub(left);
            }
            for i in 5..sum as i8 & 7 {
                sum ^= i as u32; // rarely
            }
            sum
        },
    }
}

operator! {
    /// Names that shadow others, are keywords in C++ or are those of arguments; blocks and
    /// conditions as values.
    pub(crate) struct Names on i32 {
        associativity: Exact,
        combine: |int, b| {
            let a = b.wrapping_mul(3);
            let a = a ^ int;
            let (double, float) = (a >> 1, b >> 1);
            let x = {
                let a = double.wrapping_sub(float);
                let p = if a > 0 { a } else { -7 };
                p ^ b
            };
            let mut new: i32 = if x < a { 1 } else if x == a { 2 } else { -3 };
            new += if float > 0 {
                let half = float / 2;
                half - 1
            } else {
                float
            };
            let y: i32 = if new > 0 {
                let mut y = 0_i32;
                y += new % 100;
                y
            } else {
                5
            };
            if y > 50 {
                new = y;
            } else if y > 20 {
                new ^= 0x55;
            } else {
                new = { let y = y * 2; y + 1 };
            }
            new ^ (a & { let t = x >> 3; t | 1 })
        },
    }
}

operator! {
    /// Struct literals: fields in any order, the rest of another struct, in a variable, by a
    /// condition.
    pub(crate) struct Structs
    on Pair<u32, i32> {
        associativity: Exact,
        combine: |Pair { first, second: mut s }, b| {
            s = s.wrapping_add(b.second);
            let swapped = Pair { second: s, first: b.first ^ first };
            let mut all = Pair { second: 5, ..swapped };
            all.first |= 1 & swapped.first;
            all.first = all.first.wrapping_add(swapped.second as u32);
            if s > 0 { all } else if s == 0 { b } else { Pair { first: all.first, ..b } }
        },
    }
    on Nested {
        associativity: Rounding,
        combine: |a, b| {
            let Nested { pair: Pair { first, .. }, count } = a;
            Nested {
                count: count.wrapping_add(b.count),
                pair: if b.count > 3 { b.pair } else { Pair { second: b.pair.second ^ 1, first: first * 0.5 } },
            }
        },
    }
    on Pair<f32, u32> {
        associativity: Rounding,
        carry: Nested,
        lift: |x| Nested { pair: x, count: u64::from(x.second) },
        lower: |x| x.pair,
        combine: |a, b| {
            let mut c = a;
            c.pair = if a.pair.second < b.pair.second { a.pair } else { b.pair };
            c.count ^= b.count;
            c
        },
    }
}

operator! {
    /// Structs of one type in several fields, which in C++ are of several types.
    pub(crate) struct Twinned
    on Twins {
        associativity: Exact,
        combine: |a, b| {
            let mut c = a;
            (c.left, c.right) = (c.right, { let t = b.left; if t.second > 5 { t } else { b.right } });
            let one = if a.left.first < b.left.first { a.left } else if b.left.second < 0 { b.right } else { c.right };
            let other = if one.second < 0 {
                let mut t = b.right;
                t.first ^= one.first;
                t
            } else if one.second < 9 {
                c.left
            } else {
                let t = c.right;
                if a.right.second < 0 { one } else { t }
            };
            c.left = if other.first & 1 == 0 {
                c.right.first ^= 1;
                c.right
            } else {
                other
            };
            Twins { right: if c.left.second < 0 { one } else { c.right }, ..c }
        },
    }
    on Pair<u32, i32> {
        associativity: Exact,
        carry: Twins,
        lift: |x| {
            let t = Twins { left: x, right: Pair { first: 1, ..x } };
            Twins { left: if x.first & 1 == 0 { x } else { t.right }, ..t }
        },
        lower: |x| {
            let left: Pair<u32, i32> = x.left;
            let mut other = if left.first & 1 == 0 { x.right } else { Pair { first: 5, second: left.second } };
            (other, _) = (if other.second < 0 { left } else { x.right }, Pair { first: 2, ..other });
            if other.first & 2 == 0 { x.left } else { other }
        },
        combine: |a, b| Twins { left: b.right, right: a.left },
    }
}

operator! {
    /// Constants, the ends of every range, and floats in order of value.
    pub(crate) struct Constants
    on f32 {
        associativity: Rounding,
        combine: |a, b| {
            let bits = a.to_bits() ^ f32::INFINITY.to_bits();
            let order = a.key_nan_last() > b.key_nan_first();
            let near = if a > f32::EPSILON && b < std::f32::consts::PI { f32::MAX } else { f32::MIN_POSITIVE };
            if order { near + f32::from(a < b) } else if bits == 0 { f32::NAN } else { f32::NEG_INFINITY.max(b) }
        },
    }
    on i64 {
        associativity: Exact,
        combine: |a, b| {
            let least = if a == i64::MIN { -9223372036854775808 } else { i64::MAX };
            let wide = (18446744073709551615 - (b as u64)) ^ u64::from(b'x') ^ u64::from(a < b);
            (wide as i64).wrapping_sub(least).wrapping_add(i64::from(i8::MIN)).wrapping_add(-0x7f_i64)
                ^ i64::from(-128_i8)
        },
    }
}

// ---- predicates ---------------------------------------------------------------------------------

predicate! {
    pub(crate) struct Leaves { pub(crate) divisor: u32, pub(crate) rest: u32 } on u32 { keeps: |x, p| x % p.divisor == p.rest }
}
predicate! {
    pub(crate) struct OddBits on u8, i16, u32, i64 { keeps: |x| x.count_ones() % 2 == 1 }
}
predicate! {
    /// Compared with literals of the item's type.
    pub(crate) struct Tenths on f32, f64 { keeps: |x| x == 0.1 || x > 0.3 && !(x.is_nan() | (x >= 0.7)) || x == -0.0 }
}
predicate! {
    pub(crate) struct Inside { center: Pair<f32, u32>, radius: f32 } on Pair<f32, u32> {
        keeps: |x, Inside { center, radius }| {
            let nearer = if x.second < center.second { center } else { x };
            let off = nearer.first - center.first + (x.first - nearer.first);
            let far = off * off > radius * radius;
            if x.second == center.second { return !far; }
            far ^ (x.second < center.second)
        },
    }
}
predicate! {
    pub(crate) struct Half { least: f16 } on f16 { keeps: |x, mut p| {
        if p.least.is_nan() { p.least = f16::from_f32(0.1); }
        x >= p.least && x.to_f32() < 100.0
    } }
}

// ---- all of them --------------------------------------------------------------------------------

/// Operators and their elements. `exact` ones have the same bits on both sides, except those of
/// NaN.
macro_rules! bodies {
    ($use:ident) => {
        $use! {
            integers: exact [Wraps Adds Divides Shifts Mixes Counts Extremes Rotates Saturates Powers Distances]
                on [i8 i16 i32 i64 u8 u16 u32 u64 usize isize];
            signed_integers: exact [Euclid Signs Magnitudes] on [i8 i16 i32 i64 isize];
            unsigned_integers: exact [Powered] on [u8 u16 u32 u64 usize];
            floats: exact [Computes Contracts Fuses Roots Remains Rounds Least Greatest Clamps] on [f32 f64];
            halves: exact [Halves] on [f16 bf16];
            functions: rounded [
                Exp Exp2 ExpM1 Ln Ln1p Log2 Log10 Cbrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Powf Hypot Atan2
            ] on [f32 f64];
            casts_i8: exact [Casts8] on [i8];
            casts_i16: exact [Casts16] on [i16];
            casts_i32: exact [Casts32] on [i32];
            casts_i64: exact [Casts64] on [i64];
            casts_u8: exact [CastsU8] on [u8];
            casts_u16: exact [CastsU16] on [u16];
            casts_u32: exact [CastsU32] on [u32];
            casts_u64: exact [CastsU64] on [u64];
            casts_f32: exact [CastsF32] on [f32];
            casts_f64: exact [CastsF64] on [f64];
            classes_of_f32: exact [Classes32] on [f32];
            classes_of_f64: exact [Classes64] on [f64];
            classes_of_f16: exact [ClassesHalf] on [f16];
            classes_of_bf16: exact [ClassesBrain] on [bf16];
            gcd: exact [Gcd] on [u32 u64];
            loops: exact [Loops] on [u32];
            names: exact [Names] on [i32];
            constants: exact [Constants] on [f32 i64];
            structs: rounded [Structs] on [(Pair<u32, i32>) Nested (Pair<f32, u32>)];
            twins: rounded [Twinned] on [Twins (Pair<u32, i32>)];
        }
    };
}
pub(crate) use bodies;
