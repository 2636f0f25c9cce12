//! Values of any element: all bit patterns, special ones often.

use crate::Element;
use half::{bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use std::any::TypeId;
use std::fmt::Debug;

/// Every bit pattern of `T`, with small whole numbers and special values mixed in: the ends of the range, zeros of both
/// signs, infinities, NaN of every kind, the ends of the normal and of the subnormal numbers. Shrinks towards zero.
///
/// Of a type that is not one of the library's own, words as wide as its alignment, and narrower ones, are drawn as
/// integers and as floats.
///
/// # Example
/// ```
/// use parascan::laws::{any_bits, proptest::prelude::*};
/// proptest!(|(x in any_bits::<f32>())| {
///     prop_assert_eq!(x.to_bits(), f32::from_bits(x.to_bits()).to_bits());
/// });
/// ```
pub fn any_bits<T: Element + Debug>() -> impl Strategy<Value = T> {
    Union::new_weighted(formats::<T>().into_iter().map(|(weight, format)| (weight, element(format).boxed())).collect())
}

/// How the words of an element are read.
#[derive(Clone, Debug)]
struct Format {
    /// Bytes of a word.
    width: usize,
    whole: fn(i8) -> u64,
    special: Vec<u64>,
}

/// The formats that an element may consist of, by weight.
fn formats<T: Element>() -> Vec<(u32, Format)> {
    macro_rules! of {
        ($t:ty, $format:expr) => {
            if TypeId::of::<T>() == TypeId::of::<$t>() {
                return vec![(1, $format)];
            }
        };
    }
    macro_rules! integers { ($($t:ty)*) => { $( of!($t, integer(size_of::<$t>())); )* } }
    of!(f32, float32());
    of!(f64, float64());
    of!(f16, float16());
    of!(bf16, brain16());
    integers! { i8 i16 i32 i64 u8 u16 u32 u64 usize isize }

    let align = align_of::<T>().min(8);
    let widths = [8, 4, 2, 1].into_iter().filter(|&width| width <= align);
    widths
        .flat_map(|width| {
            let weight = if width == align { 3 } else { 1 };
            let floats = match width {
                8 => vec![float64()],
                4 => vec![float32()],
                2 => vec![float16(), brain16()],
                _ => vec![],
            };
            floats.into_iter().chain([integer(width)]).map(move |format| (weight, format))
        })
        .collect()
}

fn integer(width: usize) -> Format {
    let sign = 1 << (8 * width - 1);
    Format { width, whole: |k| k as u64, special: vec![sign - 1, sign, u64::MAX] }
}
fn float32() -> Format {
    float(4, f32::INFINITY.to_bits().into(), f32::MANTISSA_DIGITS, |k| f32::from(k).to_bits().into())
}
fn float64() -> Format {
    float(8, f64::INFINITY.to_bits(), f64::MANTISSA_DIGITS, |k| f64::from(k).to_bits())
}
fn float16() -> Format {
    float(2, f16::INFINITY.to_bits().into(), f16::MANTISSA_DIGITS, |k| f16::from(k).to_bits().into())
}
fn brain16() -> Format {
    float(2, bf16::INFINITY.to_bits().into(), bf16::MANTISSA_DIGITS, |k| bf16::from(k).to_bits().into())
}

fn float(width: usize, infinity: u64, digits: u32, whole: fn(i8) -> u64) -> Format {
    let sign = 1 << (8 * width - 1);
    let (least_normal, quiet) = (1 << (digits - 1), 1 << (digits - 2));
    let nan = infinity | quiet;
    let one = whole(1);
    let positive = [nan, nan | 1, infinity | 1, infinity, infinity - 1, one + 1, least_normal, least_normal - 1, 1, 0];
    Format { width, whole, special: positive.into_iter().flat_map(|x| [x, x | sign]).collect() }
}

/// An element of words of one format.
fn element<T: Element + Debug>(Format { width, whole, special }: Format) -> impl Strategy<Value = T> {
    // A failure shrinks towards the first of these.
    let word = prop_oneof![
        3 => (-8..=8i8).prop_map(whole),
        4 => 0..=u64::MAX >> (64 - 8 * width),
        3 => select(special),
    ];
    proptest::collection::vec(word, size_of::<T>() / width).prop_map(move |words| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect();
        bytemuck::pod_read_unaligned(&bytes)
    })
}
