//! Running count, mean and variance.

crate::element! {
    /// The count of some items, their mean, and the sum of their squared differences from it.
    pub struct Moments<T> {
        /// The number of items. If it is not positive, there are no items, and the other fields are
        /// taken as zero.
        pub count: T,
        /// The mean.
        pub mean: T,
        /// The sum of the squared differences from the mean.
        pub squares: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Float> Moments<T> {
    /// The moments of one item.
    pub fn of(x: T) -> Moments<T> {
        Moments { count: T::one(), mean: x, squares: T::zero() }
    }

    /// The population variance, `squares / count`. The sample variance is `squares / (count - 1)`.
    pub fn variance(self) -> T {
        self.squares / self.count
    }
}

crate::operator! {
    /// The running count, mean and variance, without the cancellation of a difference between sums
    /// of squares.
    ///
    /// ```
    /// use parascan::operators::{Moments, Variance};
    /// let all = parascan::scan::<Variance, Moments<f64>>().run(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0].map(Moments::of))?[2];
    /// assert_eq!((all.count, all.mean), (3.0, 1e9 + 2.0));
    /// assert!((all.variance() - 2.0 / 3.0).abs() < 1e-12);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    /// # Rounding
    /// The errors of the mean and of the variance grow with the logarithm of the length. The
    /// variance's error is relative to the variance itself; only the rounding of the items adds one
    /// relative to the square of the mean. An `f32` count is exact up to 2^24 and rounded beyond.
    ///
    /// # Source
    /// Welford 1962, "Note on a method for calculating corrected sums of squares and products";
    /// pairwise, Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for
    /// computing sample variances".
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
                    // Starts from the mean of the larger part: if the means cancel, the other one
                    // would lose most digits.
                    mean: if part > earlier { b.mean - apart * earlier } else { a.mean + apart * part },
                    squares: a.squares + b.squares + apart * apart * (a.count * part),
                }
            }
        },
    }
}
