//! Operators that many need, with their elements: recurrences, running extremes, softmax, variance, automata, segments.
//!
//! | what runs along | operator | elements |
//! |---|---|---|
//! | linear recurrences `x_t = a_t x_(t-1) + b_t` | [`Compose`] | [`Affine<f32>`](Affine), `f64` |
//! | linear recurrences of two terms, products of matrices | [`Compose`] | [`Matrix<u32>`](Matrix), `u64`, `f32`, `f64` |
//! | the state of a finite automaton, whatever state it began in | [`Compose`] | [`Transitions`], up to 8 states |
//! | the least and the greatest item | [`MinMax`] | [`Extent`] of any number |
//! | the greatest item and where it is first, or the least | [`ArgMax`], [`ArgMin`] | [`Indexed`] |
//! | the logarithm of a sum of exponentials | [`LogSumExp`] | `f32`, `f64` |
//! | a softmax's maximum and denominator | [`OnlineSoftmax`] | [`Normalizer<f32>`](Normalizer), `f64` |
//! | mean and variance | [`Variance`] | [`Moments<f32>`](Moments), `f64` |
//! | any operator, begun anew at each head of a segment | [`Segmented<Op>`](Segmented) | [`Flagged<T>`](Flagged) |
//!
//! All but the last are made with [`operator!`](crate::operator) and [`element!`](crate::element), as your own would be: those whose CUDA
//! text says nothing that the Rust body does not have one text for both. Their kernels are compiled at the first use.

use crate::cuda::{Field, is_statements};
use crate::{__own, Associativity, DeviceCode, Element, Keyed, Operator};
use half::{bf16, f16};

/// The ends of an element's order.
trait Ends {
    const LEAST: Self;
    const GREATEST: Self;
}
macro_rules! ends {
    ($($t:ident: $least:ident $greatest:ident;)*) => { $(
        impl Ends for $t {
            const LEAST: $t = $t::$least;
            const GREATEST: $t = $t::$greatest;
        }
    )* };
}
ends! {
    i8: MIN MAX; i16: MIN MAX; i32: MIN MAX; i64: MIN MAX; isize: MIN MAX;
    u8: MIN MAX; u16: MIN MAX; u32: MIN MAX; u64: MIN MAX; usize: MIN MAX;
    f32: NEG_INFINITY INFINITY; f64: NEG_INFINITY INFINITY; f16: NEG_INFINITY INFINITY; bf16: NEG_INFINITY INFINITY;
}

// ---- maps --------------------------------------------------------------------------------------------------------------------

crate::element! {
    /// The map from `x` to `a x + b`: a step of a linear recurrence.
    pub struct Affine<T> {
        /// What it multiplies by.
        pub a: T,
        /// What it adds.
        pub b: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Num + Copy> Affine<T> {
    /// What the map makes of `x`.
    pub fn at(self, x: T) -> T {
        self.a * x + self.b
    }
}

crate::element! {
    /// A matrix of two rows and two columns: a step of a recurrence of two terms. Integers wrap.
    pub struct Matrix<T> {
        /// Row 0, column 0.
        pub m00: T,
        /// Row 0, column 1.
        pub m01: T,
        /// Row 1, column 0.
        pub m10: T,
        /// Row 1, column 1.
        pub m11: T,
    } for <u32>, <u64>, <f32>, <f64>
}

/// A function over up to 8 states: the transitions of a finite automaton for one symbol.
///
/// The state that follows state `s` lies in bits `4 s` to `4 s + 3`, and is below 8, as [`new`](Transitions::new) sees to; a buffer
/// that was filled in another way must keep to it, or what comes out is any function.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Transitions {
    packed: u32,
}
// SAFETY: a 32-bit integer on both sides.
unsafe impl Element for Transitions {
    const CUDA: &'static str = "struct { unsigned int packed; }";
    const CUDA_FIELDS: &'static [Field] = &[Field { name: "packed", offset: 0, size: 4, cuda: "states", fields: &[] }];
}
// SAFETY: plain data.
unsafe impl cudarc::driver::DeviceRepr for Transitions {}

impl Transitions {
    /// The function that takes state `s` to `next[s]`. Of states that an automaton does not have, let each follow itself.
    ///
    /// # Panics
    /// If one of them is not below 8; at compile time in a constant.
    pub const fn new(next: [u8; 8]) -> Transitions {
        let (mut packed, mut s) = (0, 0);
        while s < 8 {
            assert!(next[s] < 8, "an automaton of `Transitions` has up to 8 states, 0 to 7");
            packed |= (next[s] as u32) << (4 * s);
            s += 1;
        }
        Transitions { packed }
    }

    /// The state that follows `state`, which is below 8.
    pub const fn after(self, state: u8) -> u8 {
        (self.packed >> (4 * (state & 7)) & 7) as u8
    }

    /// The four bits for each state, state 0 the lowest.
    pub const fn packed(self) -> u32 {
        self.packed
    }
}

crate::operator! {
    /// Composition of maps: first the earlier one, then the later one.
    ///
    /// A scan of maps by it gives for each item the map from before the first item to behind this one; with `init`, or applied to
    /// what one begins with, that is the recurrence itself. As a product of matrices the later one stands on the left.
    ///
    /// ```
    /// use parascan::operators::{Affine, Compose, Matrix, Transitions};
    /// use parascan::scan;
    ///
    /// // x_t = x_(t-1) / 2 + input_t
    /// let steps: Vec<Affine<f64>> = [4.0, 0.0, 1.0].iter().map(|&input| Affine { a: 0.5, b: input }).collect();
    /// let from_start = scan::<Compose, Affine<f64>>().run(&steps)?;
    /// let x: Vec<f64> = from_start.iter().map(|map| map.at(8.0)).collect();
    /// assert_eq!(x, [8.0, 4.0, 3.0]);
    ///
    /// // Fibonacci's numbers
    /// let powers = scan::<Compose, Matrix<u64>>().run(&[Matrix { m00: 1, m01: 1, m10: 1, m11: 0 }; 6])?;
    /// assert_eq!(powers.iter().map(|m| m.m01).collect::<Vec<_>>(), [1, 1, 2, 3, 5, 8]);
    ///
    /// // Inside quotes or outside
    /// let (quote, other) = (Transitions::new([1, 0, 2, 3, 4, 5, 6, 7]), Transitions::new([0, 1, 2, 3, 4, 5, 6, 7]));
    /// let symbols: Vec<Transitions> = b"a'b'c".iter().map(|&c| if c == b'\'' { quote } else { other }).collect();
    /// let states = scan::<Compose, Transitions>().run(&symbols)?;
    /// assert_eq!(states.iter().map(|f| f.after(0)).collect::<Vec<_>>(), [0, 1, 1, 0, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// # Rounding
    /// Of floats, each composition rounds its products and sums; the relative error grows with the logarithm of the length where all are
    /// of one sign. If the factors are below 1 in magnitude what is long past fades, and its error with it. Factors that underflow are
    /// zero from then on, which forgets what came before, as the recurrence itself does. Integers and states are exact.
    ///
    /// # Papers
    /// Kogge and Stone 1973, "A parallel algorithm for the efficient solution of a general class of recurrence equations"; Blelloch
    /// 1990, "Prefix sums and their applications"; of automata, Ladner and Fischer 1980, "Parallel prefix computation", and Hillis
    /// and Steele 1986, "Data parallel algorithms".
    pub struct Compose
    on Affine<f32>, Affine<f64> {
        associativity: Rounding,
        identity: Affine { a: 1.0, b: 0.0 },
        // SAFETY: sums and products of floats.
        combine: |f, g| Affine { a: g.a * f.a, b: g.a * f.b + g.b } => unsafe "{ b.a * a.a, b.a * a.b + b.b }",
    }
    on Matrix<u32>, Matrix<u64> {
        associativity: Exact,
        identity: Matrix { m00: 1, m01: 0, m10: 0, m11: 1 },
        // SAFETY: sums and products of unsigned integers.
        combine: |f, g| Matrix {
            m00: g.m00.wrapping_mul(f.m00).wrapping_add(g.m01.wrapping_mul(f.m10)),
            m01: g.m00.wrapping_mul(f.m01).wrapping_add(g.m01.wrapping_mul(f.m11)),
            m10: g.m10.wrapping_mul(f.m00).wrapping_add(g.m11.wrapping_mul(f.m10)),
            m11: g.m10.wrapping_mul(f.m01).wrapping_add(g.m11.wrapping_mul(f.m11)),
        } => unsafe MATRICES,
    }
    on Matrix<f32>, Matrix<f64> {
        associativity: Rounding,
        identity: Matrix { m00: 1.0, m01: 0.0, m10: 0.0, m11: 1.0 },
        // SAFETY: sums and products of floats.
        combine: |f, g| Matrix {
            m00: g.m00 * f.m00 + g.m01 * f.m10,
            m01: g.m00 * f.m01 + g.m01 * f.m11,
            m10: g.m10 * f.m00 + g.m11 * f.m10,
            m11: g.m10 * f.m01 + g.m11 * f.m11,
        } => unsafe MATRICES,
    }
}

const MATRICES: &str = "{ b.m00 * a.m00 + b.m01 * a.m10, b.m00 * a.m01 + b.m01 * a.m11,
  b.m10 * a.m00 + b.m11 * a.m10, b.m10 * a.m01 + b.m11 * a.m11 }";

/// By hand, for the way in which the device folds them.
impl Operator<Transitions> for Compose {
    type Carry = Transitions;
    #[inline]
    fn lift(x: Transitions) -> Transitions {
        x
    }
    #[inline]
    fn lower(x: Transitions) -> Transitions {
        x
    }
    #[inline]
    fn combine(f: Transitions, g: Transitions) -> Transitions {
        let next = |s: u32| ((g.packed >> (4 * (f.packed >> (4 * s) & 7))) & 7) << (4 * s);
        Transitions { packed: (0..8).fold(0, |packed, s| packed | next(s)) }
    }
    const IDENTITY: Option<Transitions> = Some(Transitions::new([0, 1, 2, 3, 4, 5, 6, 7]));
    // SAFETY: shifts and masks of two words, whatever bits these have.
    const CUDA: DeviceCode<Self, Transitions> =
        unsafe { DeviceCode::new("{ States(b.packed).of(a.packed).packed() }") };
    // SAFETY: a type of the templates that is made for this operator.
    const CUDA_PAIRS: DeviceCode<Self, Transitions> = unsafe { DeviceCode::new("FoldedStates") };
}

// ---- extremes ----------------------------------------------------------------------------------------------------------------

crate::element! {
    /// The least and the greatest of some items.
    pub struct Extent<T> {
        /// The least.
        pub least: T,
        /// The greatest.
        pub greatest: T,
    } for <f32>, <i32>, <u64>, <f16>, <f64>, <bf16>, <i8>, <i16>, <i64>, <u8>, <u16>, <u32>, <usize>, <isize>
}

impl<T: Copy> Extent<T> {
    /// Of one item.
    pub fn of(x: T) -> Extent<T> {
        Extent { least: x, greatest: x }
    }
}

crate::operator! {
    /// The running minimum and maximum together. Of floats NaN wins both, -0 is less than +0, and every NaN in a result is the positive
    /// one with all bits of the mantissa set, as for [`Min`](crate::Min) and [`Max`](crate::Max).
    ///
    /// ```
    /// use parascan::operators::{Extent, MinMax};
    /// let extents = parascan::scan::<MinMax, Extent<i32>>().run(&[3, 1, 4].map(Extent::of))?;
    /// assert_eq!(extents[2], Extent { least: 1, greatest: 4 });
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// Nothing is rounded.
    pub struct MinMax
    on Extent<i32>, Extent<u64>, Extent<i8>, Extent<i16>, Extent<i64>, Extent<u8>, Extent<u16>, Extent<u32>, Extent<usize>, Extent<isize> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        combine: |a, b| Extent { least: a.least.min(b.least), greatest: a.greatest.max(b.greatest) },
    }
    on Extent<f32>, Extent<f16>, Extent<bf16> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        // SAFETY: functions of the templates, defined for all floats; so is `combine`.
        lift: |x| both(x, x) => unsafe "{ minimum(x.least, x.least), maximum(x.greatest, x.greatest) }",
        combine: |a, b| both(a, b) => unsafe "{ minimum(a.least, b.least), maximum(a.greatest, b.greatest) }",
    }
    on Extent<f64> {
        associativity: Exact,
        identity: Extent { least: Ends::GREATEST, greatest: Ends::LEAST },
        // SAFETY: functions of the templates, defined for all floats; so is `combine`.
        lift: |x| both(x, x) => unsafe "{ from_key<NAN_FIRST, double>(key<NAN_FIRST>(x.least)), from_key<NAN_LAST, double>(key<NAN_LAST>(x.greatest)) }",
        combine: |a, b| both(a, b) => unsafe "{
            from_key<NAN_FIRST, double>(min(key<NAN_FIRST>(a.least), key<NAN_FIRST>(b.least))),
            from_key<NAN_LAST, double>(max(key<NAN_LAST>(a.greatest), key<NAN_LAST>(b.greatest)))
        }",
    }
}

fn both<T: Keyed<Key: Ord>>(a: Extent<T>, b: Extent<T>) -> Extent<T> {
    Extent {
        least: T::from_key_nan_first(a.least.key_nan_first().min(b.least.key_nan_first())),
        greatest: T::from_key_nan_last(a.greatest.key_nan_last().max(b.greatest.key_nan_last())),
    }
}

crate::element! {
    /// A value and where it was.
    pub struct Indexed<T, I> {
        /// The value.
        pub value: T,
        /// Where it was.
        pub index: I,
    } for <f32, u32>, <i32, u32>, <u32, u32>, <f64, u64>, <i64, u64>, <u64, u64>
}

crate::operator! {
    /// The greatest value and where it was first, whichever way the scan goes. Of floats NaN is greater than all, and the
    /// first of several NaN stays; -0 is less than +0.
    ///
    /// ```
    /// use parascan::operators::{ArgMax, Indexed};
    /// let items: Vec<Indexed<f32, u32>> = (0..).zip([1.0, 3.0, 3.0, 2.0]).map(|(index, value)| Indexed { value, index }).collect();
    /// let greatest = parascan::scan::<ArgMax, Indexed<f32, u32>>().run(&items)?;
    /// assert_eq!(greatest[3], Indexed { value: 3.0, index: 1 });
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// Nothing is rounded.
    pub struct ArgMax
    on Indexed<i32, u32>, Indexed<u32, u32>, Indexed<i64, u64>, Indexed<u64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::LEAST, index: Ends::GREATEST },
        combine: |a, b| if b.value > a.value || (b.value == a.value && b.index < a.index) { b } else { a },
    }
    on Indexed<f32, u32>, Indexed<f64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::LEAST, index: Ends::GREATEST },
        combine: |a, b| {
            let (x, y) = (a.value.key_nan_last(), b.value.key_nan_last());
            if y > x || (y == x && b.index < a.index) { b } else { a }
        },
    }
}

crate::operator! {
    /// The least value and where it was first, whichever way the scan goes. Of floats NaN is less than all, so that it wins here too,
    /// and the first of several NaN stays; -0 is less than +0. Nothing is rounded.
    ///
    /// ```
    /// use parascan::operators::{ArgMin, Indexed};
    /// let items = [Indexed { value: 2_i64, index: 0_u64 }, Indexed { value: 1, index: 1 }, Indexed { value: 1, index: 2 }];
    /// assert_eq!(parascan::scan::<ArgMin, Indexed<i64, u64>>().reverse().run(&items)?[0].index, 1);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub struct ArgMin
    on Indexed<i32, u32>, Indexed<u32, u32>, Indexed<i64, u64>, Indexed<u64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::GREATEST, index: Ends::GREATEST },
        combine: |a, b| if b.value < a.value || (b.value == a.value && b.index < a.index) { b } else { a },
    }
    on Indexed<f32, u32>, Indexed<f64, u64> {
        associativity: Exact,
        identity: Indexed { value: Ends::GREATEST, index: Ends::GREATEST },
        combine: |a, b| {
            let (x, y) = (a.value.key_nan_first(), b.value.key_nan_first());
            if y < x || (y == x && b.index < a.index) { b } else { a }
        },
    }
}

// ---- exponentials ------------------------------------------------------------------------------------------------------------

crate::element! {
    /// What a softmax divides by, `sum` times e to the power of `max`: `sum` is that of e to the power of each logit less `max`.
    pub struct Normalizer<T> {
        /// The greatest logit.
        pub max: T,
        /// The sum, relative to it.
        pub sum: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Float> Normalizer<T> {
    /// Of one logit.
    pub fn of(logit: T) -> Normalizer<T> {
        Normalizer { max: logit, sum: T::one() }
    }

    /// The share of `logit` in the whole: its softmax.
    pub fn share(self, logit: T) -> T {
        (logit - self.max).exp() / self.sum
    }

    /// The logarithm of the sum of e to the power of each logit.
    pub fn log_sum(self) -> T {
        self.max + self.sum.ln()
    }
}

crate::operator! {
    /// The greatest logit and the denominator of the softmax of all so far, in one pass and without overflow.
    ///
    /// ```
    /// use parascan::operators::{Normalizer, OnlineSoftmax};
    /// let logits = [1000.0_f64, 1001.0];
    /// let all = parascan::scan::<OnlineSoftmax, Normalizer<f64>>().run(&logits.map(Normalizer::of))?[1];
    /// assert!((all.share(1001.0) - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-12);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// A logit of -infinity has no share. NaN stays.
    ///
    /// # Rounding
    /// All terms are of one sign, so the relative error of the sum grows with the logarithm of the length alone, by the rounding of one
    /// exponential and two operations for each level.
    ///
    /// # Paper
    /// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
    pub struct OnlineSoftmax
    on Normalizer<f32>, Normalizer<f64> {
        associativity: Rounding,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        combine: |a, b| {
            let max = if a.max > b.max || a.max.is_nan() { a.max } else { b.max };
            // Where both are the same infinity, their difference would be NaN.
            let earlier = if a.max == max { a.sum } else { a.sum * (a.max - max).exp() };
            let later = if b.max == max { b.sum } else { b.sum * (b.max - max).exp() };
            Normalizer { max, sum: earlier + later }
        },
    }
}

crate::operator! {
    /// The logarithm of the sum of e to the power of each item, without overflow.
    ///
    /// ```
    /// use parascan::operators::LogSumExp;
    /// let both = parascan::scan::<LogSumExp, f64>().run(&[1000.0, 1000.0])?[1];
    /// assert!((both - (1000.0 + 2.0_f64.ln())).abs() < 1e-12);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// Its identity is -infinity, the logarithm of nothing. It is carried as a [`Normalizer`], with the rounding of [`OnlineSoftmax`],
    /// and the logarithm is taken once for each output.
    pub struct LogSumExp
    on f32 {
        associativity: Rounding,
        carry: Normalizer<f32>,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        lift: |x| Normalizer { max: x, sum: 1.0 },
        lower: |x| x.max + x.sum.ln(),
        // SAFETY: as of that operator, on the same carry.
        combine: |a, b| <OnlineSoftmax as Operator<Normalizer<f32>>>::combine(a, b)
            => unsafe <OnlineSoftmax as Operator<Normalizer<f32>>>::CUDA.text(),
    }
    on f64 {
        associativity: Rounding,
        carry: Normalizer<f64>,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        lift: |x| Normalizer { max: x, sum: 1.0 },
        lower: |x| x.max + x.sum.ln(),
        // SAFETY: as of that operator, on the same carry.
        combine: |a, b| <OnlineSoftmax as Operator<Normalizer<f64>>>::combine(a, b)
            => unsafe <OnlineSoftmax as Operator<Normalizer<f64>>>::CUDA.text(),
    }
}

// ---- mean and variance -------------------------------------------------------------------------------------------------------

crate::element! {
    /// How many items there are, their mean, and the sum of the squares of what they are off it.
    pub struct Moments<T> {
        /// How many. If it is not positive, there are none, and the others are zero.
        pub count: T,
        /// The mean.
        pub mean: T,
        /// The sum of squares of the differences from the mean.
        pub squares: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Float> Moments<T> {
    /// Of one item.
    pub fn of(x: T) -> Moments<T> {
        Moments { count: T::one(), mean: x, squares: T::zero() }
    }

    /// The variance of the items as a whole population; of a sample it is `squares / (count - 1)`.
    pub fn variance(self) -> T {
        self.squares / self.count
    }
}

crate::operator! {
    /// The running count, mean and variance, without the cancellation that a sum of squares suffers.
    ///
    /// ```
    /// use parascan::operators::{Moments, Variance};
    /// let all = parascan::scan::<Variance, Moments<f64>>().run(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0].map(Moments::of))?[2];
    /// assert_eq!((all.count, all.mean), (3.0, 1e9 + 2.0));
    /// assert!((all.variance() - 2.0 / 3.0).abs() < 1e-12);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// # Rounding
    /// The error of the mean and of the variance grows with the logarithm of the length; that of the variance is relative to it, and
    /// to the square of the mean only by the rounding of the items themselves. Of `f32` the count is exact up to 2^24, and from there on
    /// rounded as all is.
    ///
    /// # Papers
    /// Welford 1962, "Note on a method for calculating corrected sums of squares and products"; in pairs, Chan, Golub and LeVeque
    /// 1979, "Updating formulae and a pairwise algorithm for computing sample variances".
    pub struct Variance
    on Moments<f32>, Moments<f64> {
        associativity: Rounding,
        identity: Moments { count: 0.0, mean: 0.0, squares: 0.0 },
        lift: |x| if x.count > 0.0 { x } else { Moments { count: 0.0, mean: 0.0, squares: 0.0 } },
        combine: |a, b| {
            if a.count == 0.0 {
                b
            } else if b.count == 0.0 {
                a
            } else {
                let count = a.count + b.count;
                let (apart, earlier, part) = (b.mean - a.mean, a.count / count, b.count / count);
                Moments {
                    count,
                    // From the mean of the more: where the means cancel, from the other one most digits would be lost.
                    mean: if part > earlier { b.mean - apart * earlier } else { a.mean + apart * part },
                    squares: a.squares + b.squares + apart * apart * (a.count * part),
                }
            }
        },
    }
}

// ---- segments ----------------------------------------------------------------------------------------------------------------

/// An item, and whether a segment begins with it.
///
/// The flag is as large as the value, so that there is no padding whatever the value is: any of its bits says that a segment begins.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flagged<T> {
    /// The item.
    pub value: T,
    flag: T,
}

impl<T: Element> Flagged<T> {
    /// An item that a segment begins with.
    pub fn head(value: T) -> Flagged<T> {
        Flagged { value, flag: flag(true) }
    }

    /// An item that belongs to the same segment as the one before it.
    pub fn inside(value: T) -> Flagged<T> {
        Flagged { value, flag: flag(false) }
    }

    /// Whether a segment begins with it; of a result of a scan, whether one begins with an item that went into it.
    pub fn is_head(&self) -> bool {
        bytemuck::bytes_of(&self.flag).iter().any(|&byte| byte != 0)
    }

    const CUDA_BYTES: Text = Text::join(&["struct { ", T::CUDA, " value, flag; }"]);
}

/// A value all of whose bits but the lowest are zero.
#[inline]
fn flag<T: Element>(set: bool) -> T {
    let mut flag = T::zeroed();
    if let Some(first) = bytemuck::bytes_of_mut(&mut flag).first_mut() {
        *first = set.into();
    }
    flag
}

// SAFETY: two values of one type have nothing between or behind them, and both are plain data.
unsafe impl<T: Element> bytemuck::Zeroable for Flagged<T> {}
// SAFETY: as above.
unsafe impl<T: Element> bytemuck::Pod for Flagged<T> {}
// SAFETY: as above.
unsafe impl<T: Element> cudarc::driver::DeviceRepr for Flagged<T> {}
// SAFETY: two values of the type's twin in the same order on both sides; kernels assert that they lie alike.
unsafe impl<T: Element> Element for Flagged<T> {
    const CUDA: &'static str = Self::CUDA_BYTES.get();
    const CUDA_FIELDS: &'static [Field] = &[
        Field { name: "value", offset: 0, size: size_of::<T>(), cuda: T::CUDA, fields: T::CUDA_FIELDS },
        Field { name: "flag", offset: size_of::<T>(), size: size_of::<T>(), cuda: "flag", fields: &[] },
    ];
}

/// An operator that begins anew at the head of each segment, made of any other.
///
/// ```
/// use parascan::operators::{Flagged, Segmented};
/// use parascan::{Sum, scan};
///
/// let items = [Flagged::head(1), Flagged::inside(2), Flagged::head(10), Flagged::inside(20)];
/// let sums = scan::<Segmented<Sum>, Flagged<i32>>().run(&items)?;
/// assert_eq!(sums.iter().map(|sum| sum.value).collect::<Vec<_>>(), [1, 3, 10, 30]);
/// # Ok::<(), parascan::Error>(())
/// ```
/// In a scan in reverse a head is the last item of its segment. An exclusive scan gives a head what came before its segment. Rounding
/// is that of the operator, and no segment's rounding depends on what lies in another, but on where it begins.
///
/// # Papers
/// Schwartz 1980, "Ultracomputers"; Blelloch 1990, "Prefix sums and their applications".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segmented<Op>(Op);

impl<T: Element, Op: Operator<T>> Operator<Flagged<T>> for Segmented<Op> {
    type Carry = Flagged<Op::Carry>;
    #[inline(always)]
    fn lift(x: Flagged<T>) -> Self::Carry {
        Flagged { value: Op::lift(x.value), flag: flag(x.is_head()) }
    }
    #[inline(always)]
    fn lower(x: Self::Carry) -> Flagged<T> {
        Flagged { value: Op::lower(x.value), flag: flag(x.is_head()) }
    }
    #[inline(always)]
    fn combine(a: Self::Carry, b: Self::Carry) -> Self::Carry {
        if b.is_head() { b } else { Flagged { value: Op::combine(a.value, b.value), flag: a.flag } }
    }
    const IDENTITY: Option<Self::Carry> = match Op::IDENTITY {
        // SAFETY: elements are plain data, of which zeros are a value.
        Some(value) => Some(Flagged { value, flag: unsafe { std::mem::zeroed() } }),
        None => None,
    };
    const ASSOCIATIVITY: Associativity = Op::ASSOCIATIVITY;
    // SAFETY: the texts of `Op` in functions of their own, with arguments of their types, and a choice between two results.
    const CUDA: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::COMBINE.get()) };
    // SAFETY: as above.
    const CUDA_LIFT: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::LIFT.get()) };
    // SAFETY: as above.
    const CUDA_LOWER: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::LOWER.get()) };
    // SAFETY: as above.
    const CUDA_ALONE: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::ALONE.get()) };
    // SAFETY: as above.
    const CUDA_ELEMENT: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::ELEMENT.get()) };
    // SAFETY: as above.
    const CUDA_CARRY: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::CARRY.get()) };
    #[inline(always)]
    fn to_cuda(carry: Self::Carry) -> Self::Carry {
        Flagged { value: Op::to_cuda(carry.value), flag: carry.flag }
    }
    #[inline(always)]
    fn from_cuda(carry: Self::Carry) -> Self::Carry {
        Flagged { value: Op::from_cuda(carry.value), flag: carry.flag }
    }
}

/// The texts of `Segmented<Op>`: functions of a struct that have the texts of `Op`, in which `Element` and `Carry` are its own.
struct Texts<T, Op>(std::marker::PhantomData<(T, Op)>);

impl<T: Element, Op: Operator<T>> Texts<T, Op> {
    const ELEMENT: Text = Text::join(&["struct { ", Op::CUDA_ELEMENT.text(), " value, flag; }"]);
    const CARRY: Text = Text::join(&["struct { ", Op::CUDA_CARRY.text(), " value, flag; }"]);
    const COMBINE: Text = Text::join(&[
        "typedef decltype(a.value) Value;\n\
         struct Of {\n\
         static __device__ Value alone(Value x) { typedef Value Carry; ",
        Self::body(Op::CUDA_ALONE.text())[0],
        Op::CUDA_ALONE.text(),
        Self::body(Op::CUDA_ALONE.text())[1],
        " }\nstatic __device__ Value combine(Value a, Value b) { typedef Value Carry; ",
        Self::body(Op::CUDA.text())[0],
        Op::CUDA.text(),
        Self::body(Op::CUDA.text())[1],
        " }\n};\n\
         if (is_set(b.flag)) return { Of::alone(b.value), b.flag };\n\
         return { Of::combine(a.value, b.value), a.flag };",
    ]);
    const ALONE: Text = Text::join(&[
        "typedef decltype(x.value) Value;\n\
         struct Of {\n\
         static __device__ Value alone(Value x) { typedef Value Carry; ",
        Self::body(Op::CUDA_ALONE.text())[0],
        Op::CUDA_ALONE.text(),
        Self::body(Op::CUDA_ALONE.text())[1],
        " }\n};\nreturn { Of::alone(x.value), x.flag };",
    ]);
    const LIFT: Text =
        Self::converted("decltype(Carry::value)", "typedef From Element; typedef To Carry; ", Op::CUDA_LIFT.text());
    const LOWER: Text =
        Self::converted("decltype(Element::value)", "typedef To Element; typedef From Carry; ", Op::CUDA_LOWER.text());

    /// From the type of `x`, `From`, to that of the result, `To`; one of them is the element of `Op` and the other its carry.
    const fn converted(to: &str, types: &str, text: &str) -> Text {
        Text::join(&[
            "typedef decltype(x.value) From;\ntypedef ",
            to,
            " To;\n\
             struct Of {\n\
             static __device__ To convert(From x) { ",
            types,
            Self::body(text)[0],
            text,
            Self::body(text)[1],
            " }\n};\nreturn { Of::convert(x.value), flag<To>(is_set(x.flag)) };",
        ])
    }

    /// What comes before and behind a text to make it the body of a function.
    const fn body(text: &str) -> [&'static str; 2] {
        if is_statements(text) { ["\n", "\n"] } else { ["return\n", "\n;"] }
    }
}

/// A text that is put together when Rust compiles it, of types that are not known before.
struct Text {
    bytes: [u8; Text::MOST],
    length: usize,
}

impl Text {
    const MOST: usize = 16 << 10;

    const fn join(parts: &[&str]) -> Text {
        Text { bytes: __own::join(parts), length: __own::length(parts) }
    }

    const fn get(&self) -> &str {
        __own::text(self.bytes.split_at(self.length).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{compile_all, unit_of};
    use crate::{Last, Max, Min, Sum};

    /// Every operator on every element, and what `Segmented` makes of texts of every form.
    fn all(program: &str) -> Vec<(u32, String, String)> {
        let mut all = Vec::new();
        macro_rules! collect {
            ($($op:ty: $($t:ty),+;)*) => { $( $(
                let name = format!("{} on {}", stringify!($op), stringify!($t));
                all.push((90, name, unit_of::<$op, $t>().source(program)));
            )+ )* };
        }
        collect! {
            Compose: Affine<f32>, Affine<f64>, Matrix<u32>, Matrix<u64>, Matrix<f32>, Matrix<f64>, Transitions;
            MinMax: Extent<f32>, Extent<f64>, Extent<f16>, Extent<bf16>, Extent<i8>, Extent<u16>, Extent<i64>, Extent<usize>;
            ArgMax: Indexed<f32, u32>, Indexed<i32, u32>, Indexed<u32, u32>, Indexed<f64, u64>, Indexed<i64, u64>, Indexed<u64, u64>;
            ArgMin: Indexed<f32, u32>, Indexed<i32, u32>, Indexed<u32, u32>, Indexed<f64, u64>, Indexed<i64, u64>, Indexed<u64, u64>;
            OnlineSoftmax: Normalizer<f32>, Normalizer<f64>;
            LogSumExp: f32, f64;
            Variance: Moments<f32>, Moments<f64>;
            Segmented<Sum>: Flagged<i32>, Flagged<f16>, Flagged<u8>;
            Segmented<Max>: Flagged<f32>, Flagged<f64>, Flagged<f16>;
            Segmented<Min>: Flagged<f32>, Flagged<i64>;
            Segmented<Last>: Flagged<Affine<f32>>;
            Segmented<Compose>: Flagged<Affine<f32>>, Flagged<Transitions>;
            Segmented<LogSumExp>: Flagged<f32>;
            Segmented<ArgMax>: Flagged<Indexed<f32, u32>>;
            Segmented<Variance>: Flagged<Moments<f32>>;
            Segmented<Segmented<LogSumExp>>: Flagged<Flagged<f32>>;
        }
        all
    }

    #[test]
    fn every_text_compiles() {
        compile_all(all("laws/operator.cuh"));
    }

    /// Of elements that tile a vector and of those that do not, by every way of joining tiles.
    #[test]
    fn scans_of_structs_compile() {
        let scans = ["scan/kernels.cuh", "scan/look_back.cuh", "scan/hierarchical.cuh"].map(|program| {
            let of_structs =
                |name: &str| ["Variance on ", "LogSumExp on f32", "Matrix<u64>"].iter().any(|of| name.contains(of));
            all(program).into_iter().filter(move |(_, name, _)| of_structs(name))
        });
        compile_all(scans.into_iter().flatten().collect());
    }

    #[test]
    fn transitions_are_composed_as_functions() {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            Transitions { packed: state & 0x7777_7777 }
        };
        for _ in 0..1000 {
            let (f, g) = (next(), next());
            let both = <Compose as Operator<Transitions>>::combine(f, g);
            assert!((0..8).all(|s| both.after(s) == g.after(f.after(s))), "{f:x?} {g:x?} {both:x?}");
            assert_eq!(both.packed() & !0x7777_7777, 0, "{both:x?}");
        }
    }
}
