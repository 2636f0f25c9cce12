//! Maps and their composition: linear recurrences, products of matrices, finite automata.

use crate::cuda::Field;
use crate::{DeviceCode, Element, Operator};

crate::element! {
    /// The affine map from `x` to `a x + b`: a step of a linear recurrence.
    pub struct Affine<T> {
        /// The factor.
        pub a: T,
        /// The summand.
        pub b: T,
    } for <f32>, <f64>
}

impl<T: num_traits::Num + Copy> Affine<T> {
    /// The map's value at `x`.
    pub fn at(self, x: T) -> T {
        self.a * x + self.b
    }
}

crate::element! {
    /// A matrix of two rows and two columns: a step of a linear recurrence of two terms. Integers
    /// wrap.
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
/// Bits `4 s` to `4 s + 3` hold the state that follows state `s`. It is below 8, as
/// [`new`](Transitions::new) asserts. If a buffer holds other bits, the results are arbitrary
/// functions.
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
    /// The function that takes state `s` to `next[s]`. Let each state that the automaton does not
    /// have follow itself.
    ///
    /// # Panics
    /// If an entry is not below 8; in a constant, at compile time.
    pub const fn new(next: [u8; 8]) -> Transitions {
        let (mut packed, mut s) = (0, 0);
        while s < 8 {
            assert!(next[s] < 8, "an automaton of `Transitions` has up to 8 states, 0 to 7");
            packed |= (next[s] as u32) << (4 * s);
            s += 1;
        }
        Transitions { packed }
    }

    /// The state that follows `state`, which must be below 8.
    pub const fn after(self, state: u8) -> u8 {
        (self.packed >> (4 * (state & 7)) & 7) as u8
    }

    /// The word of four bits a state, state 0 in the lowest bits.
    pub const fn packed(self) -> u32 {
        self.packed
    }
}

crate::operator! {
    /// Composition of maps: first the earlier one, then the later one.
    ///
    /// Each output of a scan is the composition of all maps up to its item. Applied to an initial
    /// value, or with `init`, it is the recurrence itself. In a product of matrices the later one
    /// stands on the left.
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
    /// Integers and states are exact. Of floats, each composition rounds its products and sums. The
    /// relative error grows with the logarithm of the length if all terms have one sign. Factors
    /// below 1 in magnitude damp earlier terms together with their errors. A product of factors
    /// that underflows is zero from there on: earlier terms are lost, as in the recurrence itself.
    ///
    /// # Source
    /// Kogge and Stone 1973, "A parallel algorithm for the efficient solution of a general class of
    /// recurrence equations"; Blelloch 1990, "Prefix sums and their applications"; on automata,
    /// Ladner and Fischer 1980, "Parallel prefix computation", and Hillis and Steele 1986, "Data
    /// parallel algorithms".
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

/// Written by hand, since `CUDA_PAIRS` selects the templates' fold of functions over states.
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
    // SAFETY: shifts and masks of two words, defined for all bits.
    const CUDA: DeviceCode<Self, Transitions> =
        unsafe { DeviceCode::new("{ States(b.packed).of(a.packed).packed() }") };
    // SAFETY: the templates' type for this operator.
    const CUDA_PAIRS: DeviceCode<Self, Transitions> = unsafe { DeviceCode::new("FoldedStates") };
}

#[cfg(test)]
mod tests {
    use super::*;

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
