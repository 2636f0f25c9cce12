//! Sums of exponentials: the denominator of a softmax, and the logarithm of such a sum.

use super::Ends;
use crate::Operator;

crate::element! {
    /// The denominator of a softmax: `sum` times e to the power of `max`.
    ///
    /// `sum` adds e to the power of (logit - `max`) over all logits.
    pub struct Normalizer<T> {
        /// The greatest logit.
        pub max: T,
        /// The sum, relative to `max`.
        pub sum: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Float> Normalizer<T> {
    /// The normalizer of one logit.
    pub fn of(logit: T) -> Normalizer<T> {
        Normalizer { max: logit, sum: T::one() }
    }

    /// The softmax of `logit`: its share of the denominator.
    pub fn share(self, logit: T) -> T {
        (logit - self.max).exp() / self.sum
    }

    /// The logarithm of the sum of e to the power of each logit.
    pub fn log_sum(self) -> T {
        self.max + self.sum.ln()
    }
}

crate::operator! {
    /// The running maximum and denominator of a softmax, in one pass and without overflow.
    ///
    /// ```
    /// use parascan::operators::{Normalizer, OnlineSoftmax};
    /// let logits = [1000.0_f64, 1001.0];
    /// let all = parascan::scan::<OnlineSoftmax, Normalizer<f64>>().run(&logits.map(Normalizer::of))?[1];
    /// assert!((all.share(1001.0) - 1.0 / (1.0 + (-1.0_f64).exp())).abs() < 1e-12);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// A logit of -infinity adds nothing. A NaN among the logits makes the result NaN.
    ///
    /// # Rounding
    /// All terms have one sign, so the relative error of the sum grows only with the logarithm of
    /// the length: each level rounds one exponential and two operations.
    ///
    /// # Source
    /// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
    pub struct OnlineSoftmax
    on Normalizer<f32>, Normalizer<f64> {
        associativity: Rounding,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        combine: |a, b| {
            let max = if a.max > b.max || a.max.is_nan() { a.max } else { b.max };
            // If both maxima are the same infinity, their difference would be NaN.
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
    /// The identity is -infinity, the logarithm of an empty sum. The carry is a [`Normalizer`],
    /// with the rounding of [`OnlineSoftmax`]. The logarithm is taken once for each output.
    pub struct LogSumExp
    on f32 {
        associativity: Rounding,
        carry: Normalizer<f32>,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        lift: |x| Normalizer { max: x, sum: 1.0 },
        lower: |x| x.max + x.sum.ln(),
        // SAFETY: the text of `OnlineSoftmax` on the same carry.
        combine: |a, b| <OnlineSoftmax as Operator<Normalizer<f32>>>::combine(a, b)
            => unsafe <OnlineSoftmax as Operator<Normalizer<f32>>>::CUDA.text(),
    }
    on f64 {
        associativity: Rounding,
        carry: Normalizer<f64>,
        identity: Normalizer { max: Ends::LEAST, sum: 0.0 },
        lift: |x| Normalizer { max: x, sum: 1.0 },
        lower: |x| x.max + x.sum.ln(),
        // SAFETY: the text of `OnlineSoftmax` on the same carry.
        combine: |a, b| <OnlineSoftmax as Operator<Normalizer<f64>>>::combine(a, b)
            => unsafe <OnlineSoftmax as Operator<Normalizer<f64>>>::CUDA.text(),
    }
}
