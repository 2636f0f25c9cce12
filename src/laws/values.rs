//! Strategies for elements: all bit patterns, with special values often.

use crate::Element;
use crate::cuda::Field;
use half::{bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use std::any::TypeId;
use std::fmt::Debug;

/// A strategy for every bit pattern of `T`, with small whole numbers and special values mixed in.
/// Shrinks towards zero.
///
/// Special values are the ends of the range, zeros of both signs, infinities, NaN of every kind,
/// and the ends of the normal and of the subnormal numbers.
///
/// Each field of a struct that [`element!`](crate::element) defined is drawn in this way. Another
/// type of your own is drawn as words of its alignment's width or less, as integers and as floats.
///
/// # Example
/// ```
/// use parascan::laws::{any_bits, proptest::prelude::*};
/// proptest!(|(x in any_bits::<f32>())| {
///     prop_assert_eq!(x.to_bits(), f32::from_bits(x.to_bits()).to_bits());
/// });
/// ```
pub fn any_bits<T: Element + Debug>() -> impl Strategy<Value = T> {
    any_bytes(Layout::of::<T>()).prop_map(|bytes| bytemuck::pod_read_unaligned(&bytes))
}

/// A strategy for numbers whose products and sums stay far from the ends of their range. Shrinks
/// towards zero.
///
/// Floats of `T` are small whole numbers, or any between 2^-4 and 2^4 in magnitude. Integers are
/// small.
///
/// # Example
/// ```
/// use parascan::laws::{ordinary, proptest::prelude::*};
/// proptest!(|(x in ordinary::<f32>())| {
///     prop_assert!(x.abs() <= 16.0);
/// });
/// ```
pub fn ordinary<T: Element + Debug>() -> impl Strategy<Value = T> {
    ordinary_bytes(Layout::of::<T>()).prop_map(|bytes| bytemuck::pod_read_unaligned(&bytes))
}

/// A value as its bytes, so that the code that draws and shrinks values is compiled once for all
/// types.
pub(super) type Bytes = Vec<u8>;

/// The layout of a type: its size, alignment and fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    id: TypeId,
    cuda: &'static str,
    fields: &'static [Field],
    size: usize,
    align: usize,
}

impl Layout {
    pub(super) fn of<T: Element>() -> Layout {
        let (size, align) = (size_of::<T>(), align_of::<T>());
        Layout { id: TypeId::of::<T>(), cuda: T::CUDA, fields: T::CUDA_FIELDS, size, align }
    }
}

/// [`any_bits`] as bytes.
pub(super) fn any_bytes(layout: Layout) -> BoxedStrategy<Bytes> {
    if layout.fields.is_empty() { of_words(layout) } else { of_fields(layout, word) }
}

/// [`ordinary`] numbers as bytes.
pub(super) fn ordinary_bytes(layout: Layout) -> BoxedStrategy<Bytes> {
    of_fields(layout, ordinary_word)
}

fn of_words(layout: Layout) -> BoxedStrategy<Bytes> {
    let element = |format| element(format, layout.size).boxed();
    Union::new_weighted(formats(layout).into_iter().map(|(weight, format)| (weight, element(format))).collect()).boxed()
}

// ---- fields -------------------------------------------------------------------------------------

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    F32,
    F64,
    F16,
    Bf16,
    Integer,
    /// A head flag: set or not.
    Flag,
    /// Functions over 8 states (`operators::Transitions`).
    States,
}

/// The offset, size and kind of each number of an element. A type of unknown fields is one number.
pub(super) fn parts(layout: Layout) -> Vec<(usize, usize, Kind)> {
    fn of(cuda: &str, fields: &[Field], at: usize, size: usize, parts: &mut Vec<(usize, usize, Kind)>) {
        let kind = match cuda {
            _ if !fields.is_empty() => {
                return fields
                    .iter()
                    .for_each(|field| of(field.cuda, field.fields, at + field.offset, field.size, parts));
            }
            "float" => Kind::F32,
            "double" => Kind::F64,
            "f16" => Kind::F16,
            "bf16" => Kind::Bf16,
            "flag" => Kind::Flag,
            "states" => Kind::States,
            _ => Kind::Integer,
        };
        // A number wider than a word is drawn by the byte.
        let step = if size <= 8 && size.is_power_of_two() { size } else { 1 };
        parts.extend((0..size).step_by(step).map(|k| (at + k, step, kind)));
    }
    let mut parts = Vec::new();
    of(layout.cuda, layout.fields, 0, layout.size, &mut parts);
    parts
}

fn format(size: usize, kind: Kind) -> Format {
    match kind {
        Kind::F32 => float32(),
        Kind::F64 => float64(),
        Kind::F16 => float16(),
        Kind::Bf16 => brain16(),
        Kind::Integer | Kind::Flag | Kind::States => integer(size),
    }
}

/// A strategy that draws each number of the element by `draw`.
fn of_fields(layout: Layout, draw: fn(usize, Kind) -> BoxedStrategy<u64>) -> BoxedStrategy<Bytes> {
    let parts = parts(layout);
    let words: Vec<_> = parts.iter().map(|&(_, size, kind)| draw(size, kind)).collect();
    let element = move |words: Vec<u64>| {
        let mut bytes = vec![0; layout.size];
        for (&(at, size, _), word) in parts.iter().zip(words) {
            bytes[at..at + size].copy_from_slice(&word.to_le_bytes()[..size]);
        }
        bytes
    };
    words.prop_map(element).boxed()
}

fn word(size: usize, kind: Kind) -> BoxedStrategy<u64> {
    match kind {
        Kind::Flag => prop_oneof![Just(0), 0..=u64::MAX].boxed(),
        Kind::States => (0..=u64::MAX).prop_map(|bits| bits & 0x7777_7777).boxed(),
        _ => word_of(format(size, kind)).boxed(),
    }
}

fn ordinary_word(size: usize, kind: Kind) -> BoxedStrategy<u64> {
    let whole = (-8..=8i8).prop_map(format(size, kind).whole);
    let bits: fn(f32) -> u64 = match kind {
        Kind::F32 => |x| x.to_bits().into(),
        Kind::F64 => |x| f64::from(x).to_bits(),
        Kind::F16 => |x| f16::from_f32(x).to_bits().into(),
        Kind::Bf16 => |x| bf16::from_f32(x).to_bits().into(),
        Kind::Integer => return whole.boxed(),
        Kind::Flag | Kind::States => return word(size, kind),
    };
    let any =
        (-4.0..4.0_f32, any::<bool>()).prop_map(|(power, negative)| power.exp2() * if negative { -1.0 } else { 1.0 });
    prop_oneof![1 => whole, 3 => any.prop_map(bits)].boxed()
}

// ---- words --------------------------------------------------------------------------------------

/// The format of an element's words.
#[derive(Clone, Debug)]
struct Format {
    /// The bytes of a word.
    width: usize,
    whole: fn(i8) -> u64,
    special: Vec<u64>,
}

/// The formats that an element may consist of, each with its weight.
fn formats(layout: Layout) -> Vec<(u32, Format)> {
    macro_rules! of {
        ($t:ty, $format:expr) => {
            if layout.id == TypeId::of::<$t>() {
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

    let align = layout.align.min(8);
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

/// A strategy for elements of words of one format.
fn element(format: Format, size: usize) -> impl Strategy<Value = Bytes> {
    let width = format.width;
    proptest::collection::vec(word_of(format), size / width)
        .prop_map(move |words| words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect())
}

fn word_of(Format { width, whole, special }: Format) -> impl Strategy<Value = u64> {
    // A failure shrinks towards the first alternative.
    prop_oneof![
        3 => (-8..=8i8).prop_map(whole),
        4 => 0..=u64::MAX >> (64 - 8 * width),
        3 => select(special),
    ]
}
