//! The reduction of host memory: every tile is folded on its own, and a fixed tree combines the
//! tiles.

use super::{
    lanes,
    pipeline::{Cut, Shape, fold},
    scan::Elements,
};
use crate::operator::Lanes;
use crate::{Element, Operator};
use std::marker::PhantomData;
use std::ops::Range;

/// Combines all items in order, on the threads of rayon's current pool. Without items the result is
/// `None`.
///
/// Inputs of up to 256 KiB stay on the calling thread and allocate nothing.
///
/// Tiles are those of [`pipeline`](super::pipeline()), and so is the grouping inside a tile. The
/// tiles of a range are grouped as the first half of them, rounded up, and the second half. So the
/// grouping follows from the number of items and their size alone.
///
/// # Panics
/// If the operator panics.
pub(crate) fn reduce<Op: Operator<T>, T: Element>(input: &[T]) -> Option<Op::Carry> {
    reduce_shaped::<Op, T>(input, Shape::of::<T>())
}

/// [`reduce`] with tiles of a given shape.
fn reduce_shaped<Op: Operator<T>, T: Element>(input: &[T], shape: Shape) -> Option<Op::Carry> {
    let n = input.len();
    let source = Elements::<Op, T, false> { input: input.as_ptr(), n, operator: PhantomData };
    let fold = |tile: usize| {
        let from = tile * shape.tile;
        let len = shape.tile.min(n - from);
        // A constant, so that vectors are compiled for no other operators.
        if const { !matches!(Op::LANES, Lanes::No) } && lanes::has::<Op, T>() {
            return lanes::fold::<Op, T, _>(source, from..from + len);
        }
        fold(source, Op::combine, Cut::new(from, len)).0
    };
    let tiles = Tiles { fold: &fold, combine: Op::combine, alone: n <= shape.small };
    (n > 0).then(|| tiles.reduce(0..n.div_ceil(shape.tile)))
}

/// The work on tiles. The operator and the element are hidden behind it, so the code that joins
/// tiles is compiled once for each type of carry.
struct Tiles<'a, C> {
    fold: &'a (dyn Fn(usize) -> C + Sync),
    combine: fn(C, C) -> C,
    /// Whether the calling thread does all work.
    alone: bool,
}

impl<C: Send> Tiles<'_, C> {
    /// Combines the tiles of a range that is not empty.
    fn reduce(&self, tiles: Range<usize>) -> C {
        if tiles.len() == 1 {
            return (self.fold)(tiles.start);
        }
        let middle = tiles.start + tiles.len().div_ceil(2);
        let (earlier, later) = (|| self.reduce(tiles.start..middle), || self.reduce(middle..tiles.end));
        let (earlier, later) = if self.alone { (earlier(), later()) } else { rayon::join(earlier, later) };
        (self.combine)(earlier, later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::random::noise;
    use crate::{Last, Max, Min, Sum};
    use half::f16;

    const TILE: usize = 136;

    /// The grouping, as the documentation states it.
    fn grouped(tiles: &[&[f32]]) -> f32 {
        let sum = |items: &[f32]| items.iter().copied().reduce(|a, b| a + b).unwrap();
        match tiles {
            [tile] if tile.len() < 128 => sum(tile),
            [tile] => {
                let run = tile.len() / 8;
                let runs = (0..8).map(|r| sum(&tile[r * run..if r == 7 { tile.len() } else { (r + 1) * run }]));
                runs.reduce(|a, b| a + b).unwrap()
            }
            _ => {
                let (earlier, later) = tiles.split_at(tiles.len().div_ceil(2));
                grouped(earlier) + grouped(later)
            }
        }
    }

    fn lengths() -> Vec<usize> {
        if cfg!(miri) { vec![1, 137, 700] } else { vec![1, 2, 127, 128, 135, 136, 137, 272, 1000, 3333, 10_000] }
    }

    /// Calls `check` on pools of several sizes, for tiles that all threads share and that one has.
    fn on_threads(check: impl Fn(Shape) + Sync) {
        for threads in if cfg!(miri) { vec![2] } else { vec![1, 2, 3, 8] } {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for small in [0, usize::MAX] {
                pool.install(|| check(Shape { tile: TILE, small }));
            }
        }
    }

    #[test]
    fn rounded_sums_are_grouped_as_documented() {
        for n in lengths() {
            let items: Vec<f32> = noise(n, n as u64 + 5).map(|z| (z >> 40) as f32 / 7.0 - 1e6).collect();
            let expected = grouped(&items.chunks(TILE).collect::<Vec<_>>());
            on_threads(|shape| {
                let sum = reduce_shaped::<Sum, f32>(&items, shape).unwrap();
                assert_eq!(sum.to_bits(), expected.to_bits(), "n {n}");
            });
        }
    }

    #[test]
    fn every_form_agrees_with_a_loop() {
        fn check<Op: Operator<T>, T: Element>(make: impl Fn(u64) -> T)
        where
            Op::Carry: PartialEq + std::fmt::Debug,
        {
            for n in lengths() {
                let items: Vec<T> = noise(n, n as u64 + 7).map(&make).collect();
                let expected = items.iter().map(|&x| Op::lift(x)).reduce(Op::combine);
                on_threads(|shape| assert_eq!(reduce_shaped::<Op, T>(&items, shape), expected, "n {n}"));
            }
            assert_eq!(reduce::<Op, T>(&[]), None);
        }
        check::<Sum, u8>(|z| z as u8);
        check::<Sum, u32>(|z| z as u32);
        check::<Last, u16>(|z| z as u16);
        check::<Max, f64>(|z| (z % 1000) as f64 - 500.0);
        check::<Min, i64>(|z| z as i64);
        check::<Max, u64>(|z| z);
        check::<Max, f16>(|z| f16::from_bits(z as u16));
        check::<Sum, f16>(|z| f16::from_f32((z % 4) as f32));
    }

    #[test]
    fn full_tiles_agree_with_a_loop() {
        if cfg!(miri) {
            return;
        }
        let n = 5 * Shape::of::<u32>().tile + 4711;
        let items: Vec<u32> = noise(n, 3).map(|z| z as u32).collect();
        assert_eq!(reduce::<Sum, u32>(&items), items.iter().copied().reduce(u32::wrapping_add));
        assert_eq!(reduce::<Last, u32>(&items), items.last().copied());
    }
}
