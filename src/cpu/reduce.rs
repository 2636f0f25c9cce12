//! The reduction of host memory: every tile is folded on its own, and a fixed tree combines the
//! tiles.

use super::{
    lanes::LINE,
    pipeline::{Cut, Shape, Source, fold},
    scan::Elements,
};
use crate::{Element, Operator};
use std::marker::PhantomData;
use std::ops::Range;

/// Combines all items in order, on the threads of rayon's current pool. Without items the result is
/// `None`.
///
/// Inputs of up to 256 KiB stay on the calling thread and allocate nothing.
///
/// # Same bits
///
/// The grouping follows from the number of items and the types alone. Tiles are those of
/// [`pipeline`](super::pipeline()). The tiles of a range are grouped as the first half of them,
/// rounded up, and the second half. Inside a tile the grouping is that of a pipeline, but for an
/// operator that commutes: there lane `k` of 128 bytes of carries folds the items `k`, `k + lanes`,
/// `k + 2 lanes` and so on of the tile; then the second half of the lanes is combined with the
/// first, until one is left; then the items that fill no row of lanes follow.
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
        if const { !Op::COMMUTES } {
            return fold(source, Op::combine, Cut::new(from, len)).0;
        }
        // A constant, so that one of them is compiled.
        match const { size_of::<Op::Carry>() } {
            1 => fold_lanes::<Op, T, 128>(source, from..from + len),
            2 => fold_lanes::<Op, T, 64>(source, from..from + len),
            4 => fold_lanes::<Op, T, 32>(source, from..from + len),
            8 => fold_lanes::<Op, T, 16>(source, from..from + len),
            _ => unreachable!("an operator that commutes is carried in a machine number"),
        }
    };
    let tiles = Tiles { fold: &fold, combine: Op::combine, alone: n <= shape.small };
    (n > 0).then(|| tiles.reduce(0..n.div_ceil(shape.tile)))
}

/// Folds the items of a range by an operator that commutes, each `LANES`-th item in one lane.
fn fold_lanes<Op, T, const LANES: usize>(source: Elements<Op, T, false>, items: Range<usize>) -> Op::Carry
where
    Op: Operator<T>,
    T: Element,
{
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        /// # Safety
        /// The machine has AVX2.
        #[target_feature(enable = "avx2")]
        unsafe fn by_avx2<Op: Operator<T>, T: Element, const LANES: usize>(
            source: Elements<Op, T, false>,
            items: Range<usize>,
        ) -> Op::Carry {
            fold_lanes_here::<Op, T, LANES>(source, items)
        }
        // SAFETY: the machine has it.
        return unsafe { by_avx2::<Op, T, LANES>(source, items) };
    }
    fold_lanes_here::<Op, T, LANES>(source, items)
}

/// How many cache lines ahead of its items a line is prefetched, as in `lanes.rs`.
const FETCHED: usize = 64;

/// [`fold_lanes`] with the instructions of the caller. The compiler makes vector instructions of
/// the loops over lanes.
#[inline(always)]
fn fold_lanes_here<Op, T, const LANES: usize>(source: Elements<Op, T, false>, items: Range<usize>) -> Op::Carry
where
    Op: Operator<T>,
    T: Element,
{
    let (mut i, end) = (items.start, items.end);
    let mut rest = None;
    if i + LANES <= end {
        let mut lanes = source.items::<LANES>(i).map(Op::lift);
        i += LANES;
        while i + LANES <= end {
            source.prefetch(i + FETCHED * LINE / size_of::<T>(), LANES);
            let items = source.items::<LANES>(i);
            for lane in 0..LANES {
                lanes[lane] = Op::combine(lanes[lane], Op::lift(items[lane]));
            }
            i += LANES;
        }
        let mut half = LANES;
        while half > 1 {
            half /= 2;
            for lane in 0..half {
                lanes[lane] = Op::combine(lanes[lane], lanes[lane + half]);
            }
        }
        rest = Some(lanes[0]);
    }
    for i in i..end {
        let item = Op::lift(source.item(i));
        rest = Some(rest.map_or(item, |rest| Op::combine(rest, item)));
    }
    rest.expect("a range has items")
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

    /// A sum of floats that is not known to commute.
    #[derive(Clone, Copy)]
    struct InOrder;
    impl Operator<f32> for InOrder {
        type Carry = f32;
        fn lift(x: f32) -> f32 {
            x
        }
        fn lower(x: f32) -> f32 {
            x
        }
        fn combine(a: f32, b: f32) -> f32 {
            a + b
        }
        // SAFETY: never compiled for a device.
        const CUDA: crate::DeviceCode<Self, f32> = unsafe { crate::DeviceCode::new("") };
    }

    /// The grouping, as the documentation states it.
    fn grouped(tiles: &[&[f32]], in_lanes: bool) -> f32 {
        let sum = |items: &[f32]| items.iter().copied().reduce(|a, b| a + b).unwrap();
        match tiles {
            [tile] if in_lanes && tile.len() >= 32 => {
                let rows = tile.len() / 32;
                let mut lanes: Vec<f32> =
                    (0..32).map(|k| sum(&(0..rows).map(|row| tile[32 * row + k]).collect::<Vec<_>>())).collect();
                while lanes.len() > 1 {
                    let second = lanes.split_off(lanes.len() / 2);
                    lanes.iter_mut().zip(second).for_each(|(a, b)| *a += b);
                }
                tile[32 * rows..].iter().fold(lanes[0], |a, b| a + b)
            }
            [tile] if in_lanes || tile.len() < 128 => sum(tile),
            [tile] => {
                let run = tile.len() / 8;
                let runs = (0..8).map(|r| sum(&tile[r * run..if r == 7 { tile.len() } else { (r + 1) * run }]));
                runs.reduce(|a, b| a + b).unwrap()
            }
            _ => {
                let (earlier, later) = tiles.split_at(tiles.len().div_ceil(2));
                grouped(earlier, in_lanes) + grouped(later, in_lanes)
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
            let tiles = items.chunks(TILE).collect::<Vec<_>>();
            let [in_lanes, in_order] = [true, false].map(|in_lanes| grouped(&tiles, in_lanes).to_bits());
            on_threads(|shape| {
                let sum = reduce_shaped::<Sum, f32>(&items, shape).unwrap();
                assert_eq!(sum.to_bits(), in_lanes, "n {n}");
                let sum = reduce_shaped::<InOrder, f32>(&items, shape).unwrap();
                assert_eq!(sum.to_bits(), in_order, "n {n}");
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

    /// The operators that are said to commute do.
    #[test]
    fn what_commutes() {
        fn check<Op: Operator<T>, T: Element>() {
            let mut bytes = noise(2000, 11).flat_map(u64::to_le_bytes);
            let mut item = || {
                let bytes: Vec<u8> = bytes.by_ref().take(size_of::<T>()).collect();
                Op::lift(bytemuck::pod_read_unaligned(&bytes))
            };
            for _ in 0..if Op::COMMUTES { 500 } else { 0 } {
                let (a, b) = (item(), item());
                let [ab, ba] = [Op::combine(a, b), Op::combine(b, a)];
                // Only a NaN may have other bits, and it does not equal itself.
                let lowered = [ab, ba].map(|carry| format!("{:?}", bytemuck::bytes_of(&Op::lower(carry))));
                let is_nan = Op::ASSOCIATIVITY == crate::Associativity::Rounding;
                assert!(lowered[0] == lowered[1] || is_nan, "{}", std::any::type_name::<(Op, T)>());
            }
        }
        macro_rules! check {
            (elements $elements:tt operators { $(
                $(#[$doc:meta])* $op:ident { $(
                    $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident,
                        $(identity $identity:expr,)? $(no $no:ident,)?
                        rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
                )* }
            )* }) => { $( $( $( check::<crate::$op, $t>(); )* )* )* };
        }
        use half::bf16;
        catalog!(check);
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
