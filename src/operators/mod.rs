//! Ready-made operators and their elements: recurrences, automata, extremes, softmax, statistics,
//! segments.
//!
//! | a scan computes | operator | elements |
//! |---|---|---|
//! | linear recurrences `x_t = a_t x_(t-1) + b_t` | [`Compose`] | [`Affine<f32>`](Affine), `f64` |
//! | linear recurrences of two terms | [`Compose`] | [`Matrix`] of `u32`, `u64`, `f32`, `f64` |
//! | products of matrices | [`Compose`] | [`Matrix`] |
//! | an automaton's state, by initial state | [`Compose`] | [`Transitions`], up to 8 states |
//! | the least and the greatest item | [`MinMax`] | [`Extent`] of any number |
//! | the greatest item and its first index, or the least | [`ArgMax`], [`ArgMin`] | [`Indexed`] |
//! | the logarithm of a sum of exponentials | [`LogSumExp`] | `f32`, `f64` |
//! | a softmax's maximum and denominator | [`OnlineSoftmax`] | [`Normalizer`] of `f32`, `f64` |
//! | count, mean and variance | [`Variance`] | [`Moments<f32>`](Moments), `f64` |
//! | any operator, restarted at each head of a segment | [`Segmented`] | [`Flagged`] |
//!
//! [`operator!`](crate::operator) and [`element!`](crate::element) define them, as they define your
//! own. Only [`Segmented`] and the automata implement the traits by hand. Most operators have one
//! text, the Rust body, which is translated; some have a CUDA text of their own. Their kernels are
//! compiled at the first use.

mod extremes;
mod recurrences;
mod segmented;
mod softmax;
mod statistics;

pub use extremes::{ArgMax, ArgMin, Extent, Indexed, MinMax};
pub use recurrences::{Affine, Compose, Matrix, Transitions};
pub use segmented::{Flagged, Segmented};
pub use softmax::{LogSumExp, Normalizer, OnlineSoftmax};
pub use statistics::{Moments, Variance};

use half::{bf16, f16};

/// The least and the greatest value of an element, infinities included.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::{compile_all, unit_of};
    use crate::{Last, Max, Min, Sum};

    crate::operator! {
        /// Texts that name both types.
        struct Named on f32 {
            associativity: Rounding,
            // SAFETY: defined for all floats.
            combine: |a, b| a + b => unsafe "Element(a + b)",
        }
        on u8 {
            associativity: Exact,
            carry: u32,
            // SAFETY: the three texts convert and combine unsigned integers, which is defined for all.
            lift: |x| u32::from(x) => unsafe "Carry(Element(x))",
            lower: |x| x as u8 => unsafe "Element(Carry(x))",
            combine: |a, b| a ^ b => unsafe "static_assert(sizeof(Element) == 1 && sizeof(Carry) == 4); return Carry(a ^ b);",
        }
    }

    /// The units of every operator on every element, and of `Segmented` on texts of every form.
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
            Segmented<Named>: Flagged<f32>, Flagged<u8>;
            Segmented<Segmented<Named>>: Flagged<Flagged<f32>>, Flagged<Flagged<u8>>;
        }
        all
    }

    #[test]
    fn every_text_compiles() {
        compile_all(all("laws/operator.cuh"));
    }

    /// Scans of elements that fill a vector evenly, and of some that do not, by every join of
    /// tiles.
    #[test]
    fn every_scan_of_a_struct_compiles() {
        let scans = ["scan/kernels.cuh", "scan/look_back.cuh", "scan/hierarchical.cuh"].map(|program| {
            let of_structs =
                |name: &str| ["Variance on ", "LogSumExp on f32", "Matrix<u64>"].iter().any(|of| name.contains(of));
            all(program).into_iter().filter(move |(_, name, _)| of_structs(name))
        });
        compile_all(scans.into_iter().flatten().collect());
    }
}
