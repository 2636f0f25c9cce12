//! The ready-made elements, and one by the macros, as samples.

use super::{Draw, Rng, Sample};
use parascan::operators::{Extent, Flagged, Indexed, Matrix, Moments, Transitions};
use parascan::{DeviceCode, Element, Operator};

macro_rules! samples {
    ($($t:ty: |$rng:ident| $draw:expr;)*) => { $( impl Sample for $t {
        fn draw($rng: &mut Rng, _: Draw, _: usize) -> Self {
            $draw
        }
        fn same(self, other: Self) -> bool {
            bytemuck::bytes_of(&self) == bytemuck::bytes_of(&other)
        }
    } )* };
}
samples! {
    Transitions: |rng| {
        // Mostly permutations: a function that is not one-to-one forgets its input.
        let (swap, shift, loses) = (rng.below(8) as u8, rng.below(8) as u8, rng.below(1000) == 0);
        Transitions::new(std::array::from_fn(|s| ((s as u8 ^ swap) + shift) & if loses { 6 } else { 7 }))
    };
    // Of determinant 1, so that a product of any number of them depends on each. Two hundred random matrices have
    // a product of zeros.
    Matrix<u32>: |rng| {
        let (a, b) = (rng.next() as u32, rng.next() as u32);
        Matrix { m00: 1, m01: a, m10: b, m11: a.wrapping_mul(b).wrapping_add(1) }
    };
    Matrix<u64>: |rng| {
        let (a, b) = (rng.next(), rng.next());
        Matrix { m00: 1, m01: a, m10: b, m11: a.wrapping_mul(b).wrapping_add(1) }
    };
    Moments<f32>: |rng| Moments { count: rng.below(9) as f32, mean: rng.below(100) as f32, squares: rng.below(99) as f32 };
    Extent<u8>: |rng| Extent::of(rng.next() as u8);
    Extent<f64>: |rng| Extent::of(<f64 as Sample>::draw(rng, Draw::Any, 0));
    Indexed<f32, u32>: |rng| Indexed { value: rng.below(1 << 20) as f32, index: rng.next() as u32 };
    Indexed<i64, u64>: |rng| Indexed { value: rng.below(1 << 20) as i64 - (1 << 19), index: rng.next() };
    Flagged<i32>: |rng| flagged(rng, |rng| rng.next() as i32);
    Flagged<f32>: |rng| flagged(rng, |rng| <f32 as Sample>::draw(rng, Draw::Any, 0));
    Flagged<Matrix<u32>>: |rng| flagged(rng, |rng| Sample::draw(rng, Draw::Any, 0));
    Digit: |rng| Digit { value: rng.below(3) as u32, power: 3 };
}

fn flagged<T: Element>(rng: &mut Rng, value: impl Fn(&mut Rng) -> T) -> Flagged<T> {
    if rng.below(300) == 0 { Flagged::head(value(rng)) } else { Flagged::inside(value(rng)) }
}

parascan::operator! {
    /// The number whose digits in base 3 are the items, modulo 2^31 - 1.
    pub struct Digits
    on Digit {
        associativity: Exact,
        combine: |a, b| Digit {
            value: ((a.value as u64 * b.power as u64 + b.value as u64) % 0x7fff_ffff_u64) as u32,
            power: (a.power as u64 * b.power as u64 % 0x7fff_ffff_u64) as u32,
        },
    }
}
parascan::element! {
    /// A number, and the base to the power of its digits.
    pub struct Digit {
        value: u32,
        power: u32,
    }
}

/// An addition that panics at one item, [`MINE`].
#[derive(Clone, Copy)]
pub struct Explosive;
pub const MINE: u32 = 0xdead_beef;
impl Operator<u32> for Explosive {
    type Carry = u32;
    fn lift(x: u32) -> u32 {
        assert!(x != MINE, "stepped on a mine");
        x
    }
    fn lower(x: u32) -> u32 {
        x
    }
    fn combine(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    // SAFETY: a sum of unsigned integers.
    const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("a + b") };
}
