//! Inputs whose results are exact, so that any grouping gives the same bits and a wrong result
//! shows.

use bytemuck::Pod;
use half::{bf16, f16};
use parascan::cuda::sample_seed;
use parascan::cudarc::driver::DeviceRepr;
use parascan::operators::{Affine, ArgMax, Compose, Indexed, Matrix, Transitions};
use parascan::{BitAnd, BitOr, BitXor, Element, Last, Max, Min, Operator, Product, Sum};

/// The distribution of an input's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draw {
    /// Integers of random bits, random finite floats.
    Any,
    /// Integers of random bits; floats that are differences of random whole numbers, so that the
    /// sum of any range is a small whole number, and exact.
    Summands,
    /// Odd integers, whose product never becomes zero; floats alternating between 2 and 1/2 with
    /// random signs, so that the product of any range is exact.
    Factors,
    /// Noise on a slope over the whole input: the running maximum has many steps.
    Rising,
    /// `Rising` downwards.
    Falling,
    /// All bits set, except for a rare one.
    MostBits,
    /// No bits set, except for a rare one.
    FewBits,
    /// Integers in clusters of 4096, alternating between the lower and the upper half of the range.
    Clusters,
    /// Integers of two random bits: the mean run of equal integers is 4/3 long.
    Runs,
    /// One of four integers that differ in every byte.
    Apart,
    /// Random bits; floats neither infinite nor NaN.
    Bits,
    /// Normally distributed floats: the sum of twelve evenly distributed ones.
    Normal,
    /// Ascending over the whole range, neighbours possibly equal.
    Ascending,
    /// `Ascending` downwards.
    Descending,
    /// Ascending by one.
    Counting,
    /// All equal.
    Equal,
    /// Power law: half of the integers are up to a 256th of the greatest, half of these up to a
    /// 256th of that, and so on.
    PowerLaw,
    /// Pareto's law; one in 7000 exceeds the range and is clamped to the greatest.
    Pareto,
    /// Integers of random bits, but one in so many is the same frequent value.
    OneIn(u16),
    /// Integers of random bits, but one in 1024 is either of two distant values.
    TwoOften,
    /// Ascending to the middle, then descending, over the whole range.
    OrganPipe,
    /// Teeth of 1000 integers, each ascending over the whole range.
    SawTooth,
    /// Blocks of 4096 random integers, each of a narrow range of its own.
    NarrowBlocks,
    /// Geometric distribution of mean 1000.
    Geometric,
    /// Random numbers below the length, but every 1024th integer is of random bits.
    MostlyDense,
    /// The first half all equal, the second of random bits.
    HalfEqual,
    /// So many distinct values, distant and equally frequent.
    Distinct(u16),
    /// All equal, except for random bits where the sort samples in this process.
    FooledEqual,
    /// Random bits, except for one value where the sort samples in this process.
    FooledRandom,
    /// Maps whose composition over any range is exact, and values with their indices.
    Maps,
}

/// An operator with its name in a row and the distribution of its inputs.
pub(crate) trait Known<T: Element>: Operator<T> {
    const NAME: &'static str;
    const DRAW: Draw;
}
macro_rules! known { ($($op:ident $name:literal $draw:ident;)*) => { $(
    impl<T: Element> Known<T> for $op where $op: Operator<T> {
        const NAME: &'static str = $name;
        const DRAW: Draw = Draw::$draw;
    }
)* } }
known! {
    Sum "sum" Summands;
    Product "product" Factors;
    Max "max" Rising;
    Min "min" Falling;
    BitAnd "bit_and" MostBits;
    BitOr "bit_or" FewBits;
    BitXor "bit_xor" Any;
    Last "last" Any;
    Compose "compose" Maps;
    ArgMax "arg_max" Maps;
}

/// An item type that the bench draws.
pub(crate) trait Drawn: Pod + DeviceRepr + Send + Sync {
    const NAME: &'static str;
    /// Item `i` of an input of `n`. No item depends on another, so they can be drawn in any order.
    fn draw(draw: Draw, i: usize, n: usize) -> Self;
}

/// A drawn item that is an element of the library.
pub(crate) trait Sample: Drawn + Element {}
impl<T: Drawn + Element> Sample for T {}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn noise(i: usize) -> u64 {
    let z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `noise` in 128 bits.
fn wide_noise(i: usize) -> u128 {
    let z = u128::from(noise(i));
    z << 64 | z
}

/// Whole numbers from about 0 to `top`, rising over the input.
fn slope(i: usize, n: usize, top: u64) -> u64 {
    (top as f64 * 0.8 * i as f64 / n as f64) as u64 + noise(i) % (top / 5)
}

/// Rises from 0 to the greatest of `bits` bits over the input.
fn spread(i: usize, n: usize, bits: u32) -> u128 {
    ((i as u128) << bits) / n as u128
}

/// Whether a sample of the sort reads key `i` of `n` in this process: the probe of 512 keys or the pilot
/// sample, by `sampled_at` in `cuda-templates/sort/bucket_map.cuh`.
fn is_sampled(i: usize, n: usize) -> bool {
    let pilot = (n >> 7).next_power_of_two().clamp(1 << 14, 1 << 19);
    [512, pilot].into_iter().any(|sampled| {
        let stride = n / sampled;
        let of = (i / stride) as u32;
        let mixed = (of ^ (of >> 7) ^ sample_seed()).wrapping_mul(0x9e37_79b1);
        i % stride == ((u64::from(mixed ^ (mixed >> 15)) * stride as u64) >> 32) as usize
    })
}

/// One random bit in about one of `n / 64` integers, else 0.
fn few_bits(i: usize, n: usize) -> u64 {
    let z = noise(i);
    if (z >> 8).is_multiple_of(n as u64 / 64 + 1) { 1 << (z % 64) } else { 0 }
}

macro_rules! integers { ($($t:ident)*) => { $(
    impl Drawn for $t {
        const NAME: &'static str = stringify!($t);
        fn draw(draw: Draw, i: usize, n: usize) -> $t {
            const TOP: u64 = if $t::BITS < 32 { $t::MAX as u64 } else { 1 << 30 };
            const SIGN: $t = if $t::MIN == 0 { 0 } else { $t::MIN };
            match draw {
                Draw::Any | Draw::Summands | Draw::Bits => wide_noise(i) as $t,
                Draw::Ascending => spread(i, n, $t::BITS) as $t ^ SIGN,
                Draw::Descending => !(spread(i, n, $t::BITS) as $t ^ SIGN),
                Draw::Counting => i as $t,
                Draw::Equal => 0x5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_u128 as $t,
                Draw::PowerLaw => (wide_noise(i) as $t as u128 >> (noise(i + n).leading_ones() * 8).min($t::BITS - 1)) as $t,
                Draw::Pareto => {
                    let up_to_one = 1.0 - (noise(i) >> 11) as f64 / (1_u64 << 53) as f64;
                    up_to_one.powf(-f64::from($t::BITS) / 12.8) as $t
                }
                Draw::TwoOften if noise(i + n).is_multiple_of(1024) => <$t>::MAX / 16 * [1, 14][i % 2],
                Draw::OneIn(many) if noise(i + n).is_multiple_of(u64::from(many)) => 0x3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_u128 as $t,
                Draw::OneIn(_) | Draw::TwoOften => wide_noise(i) as $t,
                Draw::OrganPipe => spread(2 * i.min(n - 1 - i), n, $t::BITS) as $t,
                Draw::SawTooth => spread(i % 1000, 1000, $t::BITS) as $t,
                Draw::NarrowBlocks => wide_noise(i / 4096) as $t ^ (noise(i + n) % 4096) as $t,
                Draw::Geometric => {
                    let up_to_one = 1.0 - (noise(i) >> 11) as f64 / (1_u64 << 53) as f64;
                    (-1000.0 * up_to_one.ln()) as $t
                }
                Draw::MostlyDense if i % 1024 != 0 => (noise(i) % n as u64) as $t,
                Draw::HalfEqual if i < n / 2 => 0x3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_u128 as $t,
                Draw::MostlyDense | Draw::HalfEqual => wide_noise(i) as $t,
                Draw::Distinct(values) => wide_noise((noise(i) % u64::from(values)) as usize) as $t,
                Draw::FooledEqual | Draw::FooledRandom => {
                    let is_random = is_sampled(i, n) == (draw == Draw::FooledEqual);
                    if is_random { wide_noise(i) as $t } else { 0x3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_3c3c_u128 as $t }
                }
                Draw::Factors => noise(i) as $t | 1,
                Draw::Rising => slope(i, n, TOP) as $t,
                Draw::Falling => (TOP - slope(i, n, TOP)) as $t,
                Draw::MostBits => !few_bits(i, n) as $t,
                Draw::FewBits => few_bits(i, n) as $t,
                Draw::Clusters => {
                    let low = noise(i) as $t & ($t::MAX / 2);
                    if i / 4096 % 2 == 0 { low } else { low + ($t::MAX / 2 + 1) }
                }
                Draw::Runs => (noise(i) % 4) as $t,
                Draw::Apart => (noise(i) % 4) as $t * ($t::MAX / 3),
                Draw::Normal => unreachable!("drawn of floats alone"),
                Draw::Maps => unreachable!("drawn of maps alone"),
            }
        }
    }
)* } }
integers! { i8 i16 i32 i64 u8 u16 u32 u64 u128 }

/// Whole numbers up to `$most` are exact in the type.
macro_rules! floats { ($($t:ident $most:literal $from:expr;)*) => { $(
    impl Drawn for $t {
        const NAME: &'static str = stringify!($t);
        fn draw(draw: Draw, i: usize, n: usize) -> $t {
            let from: fn(f32) -> $t = $from;
            // Of half the range, so that the difference of two is exact.
            let whole = |i: usize| (noise(i) % ($most + 1)) as f32 - ($most / 2) as f32;
            let sign = |z: u64| if z % 2 == 0 { 1.0 } else { -1.0 };
            match draw {
                Draw::Any => from(whole(i)),
                Draw::Bits => {
                    let mut drawn = (0..).map(|k| $t::from_bits(noise(i + k * n) as _));
                    let finite = drawn.find(|x| x.is_finite()).expect("most are");
                    finite + from(0.0) // CUB takes -0 and 0 for equal
                }
                Draw::Normal => from((0..12).map(|k| (noise(12 * i + k) >> 40) as f32 / (1 << 24) as f32).sum::<f32>() - 6.0),
                Draw::Ascending | Draw::Counting => from((i as f64 / n as f64 * f64::from($most)) as f32),
                Draw::Descending => from(-(i as f64 / n as f64 * f64::from($most)) as f32),
                Draw::Equal => from(1.5),
                Draw::PowerLaw => from(whole(i) / f32::from_bits((127 + noise(i + n).leading_ones() * 4) << 23)),
                Draw::Summands => from(whole(i + 1) - whole(i)),
                Draw::Factors => from(sign(noise(i)) * if i % 2 == 0 { 2.0 } else { 0.5 }),
                Draw::Rising => from(slope(i, n, $most) as f32),
                Draw::Falling => from(($most - slope(i, n, $most)) as f32),
                Draw::MostBits | Draw::FewBits | Draw::Clusters | Draw::Runs | Draw::Apart | Draw::Pareto => unreachable!("drawn of integers alone"),
                Draw::OneIn(_) | Draw::TwoOften => unreachable!("drawn of integers alone"),
                Draw::OrganPipe | Draw::SawTooth | Draw::NarrowBlocks | Draw::Geometric => unreachable!("drawn of integers alone"),
                Draw::MostlyDense | Draw::HalfEqual | Draw::Distinct(_) => unreachable!("drawn of integers alone"),
                Draw::FooledEqual | Draw::FooledRandom => unreachable!("drawn of integers alone"),
                Draw::Maps => unreachable!("drawn of maps alone"),
            }
        }
    }
)* } }
floats! { f32 16_000_000 |x| x; f64 16_000_000 |x| x.into(); f16 2_000 f16::from_f32; bf16 250 bf16::from_f32; }

// ---- maps, and values with their indices --------------------------------------------------------
// They ignore the distribution asked for.

macro_rules! maps { ($($t:ty, $name:literal: |$i:ident| $draw:expr;)*) => { $(
    impl Drawn for $t {
        const NAME: &'static str = $name;
        fn draw(_: Draw, $i: usize, _: usize) -> $t {
            $draw
        }
    }
)* } }
/// Slopes alternate between 2 and 1/2 with random signs, offsets are small and even: slopes compose
/// to 1/2, 1 or 2, offsets to whole numbers.
fn affine(i: usize) -> (f32, f32) {
    let z = noise(i);
    (
        if z & 1 == 0 { 1.0 } else { -1.0 } * if i.is_multiple_of(2) { 2.0 } else { 0.5 },
        2.0 * ((z >> 8) % 9) as f32 - 8.0,
    )
}
/// A permutation of 8 states.
fn permutation(i: usize) -> Transitions {
    let z = noise(i);
    let (factor, shift, swap) = ((z & 6 | 1) as u8, (z >> 8 & 7) as u8, (z >> 16 & 7) as u8);
    Transitions::new(std::array::from_fn(|s| ((s as u8 * factor + shift) ^ swap) & 7))
}
maps! {
    Affine<f32>, "affine_f32": |i| Affine { a: affine(i).0, b: affine(i).1 };
    Affine<f64>, "affine_f64": |i| Affine { a: affine(i).0.into(), b: affine(i).1.into() };
    Matrix<u32>, "matrix_u32": |i| Matrix {
        m00: noise(i) as u32, m01: (noise(i) >> 32) as u32, m10: noise(!i) as u32, m11: (noise(!i) >> 32) as u32,
    };
    Transitions, "states_u32": |i| permutation(i);
    Indexed<f32, u32>, "indexed_f32": |i| Indexed { value: f32::draw(Draw::Any, i, 0), index: i as u32 };
}
