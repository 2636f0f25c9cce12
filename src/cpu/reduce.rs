//! The reduction of host memory: every tile is folded on its own, and a fixed tree combines the
//! tiles.

use super::{
    call::{Call, same},
    lanes::LINE,
    pipeline::{Cut, Shape, Source, fold},
    scan::Elements,
};
use crate::operator::Lanes;
use crate::{Element, Operator};
use bytemuck::Zeroable;
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
/// rounded up, and the second half. Inside a tile items are combined in order:
///
/// - Items and carries of up to 8 bytes: of each 128 items neighbours are combined, then neighbours
///   of these results, until 8 are left; these, the blocks of 128 and then the remaining items are
///   combined from the left.
/// - Wider ones: as in a pipeline.
///
/// Operators that are exactly associative and an instruction on integers are grouped and ordered in
/// another way, as they are commutative too.
///
/// # Panics
/// If the operator panics.
pub(crate) fn reduce<Op: Operator<T>, T: Element>(input: &[T]) -> Option<Op::Carry> {
    struct Reduce<'a, T, C>(&'a [T], PhantomData<C>);
    impl<E: Element, C: Element> Call for Reduce<'_, E, C> {
        type Output = Option<C>;
        fn run<Op: Operator<T>, T: Element>(self) -> Option<C> {
            same(reduce_shaped::<Op, T>(bytemuck::cast_slice(self.0), Shape::of::<T>()))
        }
    }
    Op::on_host(Reduce::<T, Op::Carry>(input, PhantomData))
}

/// [`reduce`] with tiles of a given shape.
fn reduce_shaped<Op: Operator<T>, T: Element>(input: &[T], shape: Shape) -> Option<Op::Carry> {
    let n = input.len();
    let source = Elements::<Op, T, false> { input: input.as_ptr(), n, operator: PhantomData };
    let fold = |tile: usize| {
        let from = tile * shape.tile;
        fold_items::<Op, T>(source, from..n.min(from + shape.tile))
    };
    let tiles = Tiles { fold: &fold, combine: Op::combine, alone: n <= shape.small };
    (n > 0).then(|| tiles.reduce(0..n.div_ceil(shape.tile)))
}

/// Combines the items of a range that is not empty, by pairs of neighbours, in lanes or in runs, as
/// [`reduce`] does in a tile.
pub(super) fn fold_items<Op: Operator<T>, T: Element>(
    source: Elements<Op, T, false>,
    items: Range<usize>,
) -> Op::Carry {
    // Constants, so that one of the loops is compiled.
    if const { matches!(Op::LANES, Lanes::No) } {
        if const { size_of::<T>() <= 8 && size_of::<Op::Carry>() <= 8 } {
            return fold_pairs::<Op, T>(source, items);
        }
        return fold(source, Op::combine, Cut::new(items.start, items.len())).0;
    }
    match const { size_of::<Op::Carry>() } {
        1 => fold_lanes::<Op, T, 128>(source, items),
        2 => fold_lanes::<Op, T, 64>(source, items),
        4 => fold_lanes::<Op, T, 32>(source, items),
        8 => fold_lanes::<Op, T, 16>(source, items),
        _ => unreachable!("operators in lanes are carried in machine integers"),
    }
}

/// Defines a function that runs `$here` with AVX2, if the machine has it. The compiler makes vector
/// instructions of its loops.
macro_rules! vectorised {
    ($(#[$doc:meta])* $name:ident as $here:ident $(<$lanes:ident>)?) => {
        $(#[$doc])*
        fn $name<Op: Operator<T>, T: Element $(, const $lanes: usize)?>(
            source: Elements<Op, T, false>,
            items: Range<usize>,
        ) -> Op::Carry {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if is_x86_feature_detected!("avx2") {
                /// # Safety
                /// The machine has AVX2.
                #[target_feature(enable = "avx2")]
                unsafe fn by_avx2<Op: Operator<T>, T: Element $(, const $lanes: usize)?>(
                    source: Elements<Op, T, false>,
                    items: Range<usize>,
                ) -> Op::Carry {
                    $here::<Op, T $(, $lanes)?>(source, items)
                }
                // SAFETY: the machine has it.
                return unsafe { by_avx2::<Op, T $(, $lanes)?>(source, items) };
            }
            $here::<Op, T $(, $lanes)?>(source, items)
        }
    };
}
vectorised! {
    /// Folds the items of a range in order, by pairs of neighbours.
    fold_pairs as fold_pairs_here
}
vectorised! {
    /// Folds the items of a range by a commutative operator, each `LANES`-th item in one lane.
    fold_lanes as fold_lanes_here<LANES>
}

/// How many items of `T` ahead a line is prefetched: 64 cache lines, as in `lanes.rs`.
const fn ahead<T>() -> usize {
    64 * LINE / if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
}

#[inline(always)]
fn fold_pairs_here<Op: Operator<T>, T: Element>(source: Elements<Op, T, false>, items: Range<usize>) -> Op::Carry {
    const BLOCK: usize = 128;
    let (mut i, end) = (items.start, items.end);
    let mut upto = None;
    while i + BLOCK <= end {
        source.prefetch(i + ahead::<T>(), BLOCK);
        let items = source.items::<BLOCK>(i).map(Op::lift);
        let pairs: [_; 64] = by_pairs::<Op, T, 128, 64>(&items);
        let pairs: [_; 32] = by_pairs::<Op, T, 64, 32>(&pairs);
        let pairs: [_; 16] = by_pairs::<Op, T, 32, 16>(&pairs);
        let [first, rest @ ..]: [_; 8] = by_pairs::<Op, T, 16, 8>(&pairs);
        let block = rest.into_iter().fold(first, Op::combine);
        upto = Some(with::<Op, T>(upto, block));
        i += BLOCK;
    }
    for i in i..end {
        upto = Some(with::<Op, T>(upto, Op::lift(source.item(i))));
    }
    upto.expect("a range has items")
}

/// The combinations of neighbours; `TWICE` is two times `N`.
#[inline(always)]
fn by_pairs<Op: Operator<T>, T: Element, const TWICE: usize, const N: usize>(
    carries: &[Op::Carry; TWICE],
) -> [Op::Carry; N] {
    let mut pairs = [Op::Carry::zeroed(); N];
    for k in 0..N {
        pairs[k] = Op::combine(carries[2 * k], carries[2 * k + 1]);
    }
    pairs
}

#[inline(always)]
fn with<Op: Operator<T>, T: Element>(upto: Option<Op::Carry>, next: Op::Carry) -> Op::Carry {
    upto.map_or(next, |upto| Op::combine(upto, next))
}

#[inline(always)]
fn fold_lanes_here<Op: Operator<T>, T: Element, const LANES: usize>(
    source: Elements<Op, T, false>,
    items: Range<usize>,
) -> Op::Carry {
    let (mut i, end) = (items.start, items.end);
    let mut upto = None;
    if i + LANES <= end {
        let mut lanes = source.items::<LANES>(i).map(Op::lift);
        i += LANES;
        while i + LANES <= end {
            source.prefetch(i + ahead::<T>(), LANES);
            let items = source.items::<LANES>(i);
            for lane in 0..LANES {
                lanes[lane] = Op::combine(lanes[lane], Op::lift(items[lane]));
            }
            i += LANES;
        }
        upto = lanes.into_iter().reduce(Op::combine);
    }
    for i in i..end {
        upto = Some(with::<Op, T>(upto, Op::lift(source.item(i))));
    }
    upto.expect("a range has items")
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
    use crate::cpu::threads::on_threads;
    use crate::{Last, Max, Min, Sum};
    use half::f16;

    const TILE: usize = 300;

    /// Two sums side by side, in a carry that is wider than a machine number.
    #[derive(Clone, Copy)]
    struct Sums;
    impl Operator<f32> for Sums {
        type Carry = [f32; 4];
        fn lift(x: f32) -> [f32; 4] {
            [x; 4]
        }
        fn lower(x: [f32; 4]) -> f32 {
            x[0]
        }
        fn combine(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
            std::array::from_fn(|k| a[k] + b[k])
        }
        // SAFETY: never compiled for a device.
        const CUDA: crate::DeviceCode<Self, f32> = unsafe { crate::DeviceCode::new("") };
        // SAFETY: as above.
        const CUDA_LIFT: crate::DeviceCode<Self, f32> = unsafe { crate::DeviceCode::new("") };
        // SAFETY: as above.
        const CUDA_LOWER: crate::DeviceCode<Self, f32> = unsafe { crate::DeviceCode::new("") };
    }
    // SAFETY: never compiled for a device.
    unsafe impl Element for [f32; 4] {
        const CUDA: &'static str = "";
    }

    fn sum(items: impl IntoIterator<Item = f32>) -> f32 {
        items.into_iter().reduce(|a, b| a + b).unwrap()
    }

    /// The sum of a tile, by pairs of neighbours.
    fn by_pairs(tile: &[f32]) -> f32 {
        let (blocks, rest) = tile.as_chunks::<128>();
        let block = |block: &[f32; 128]| {
            let mut pairs = block.to_vec();
            while pairs.len() > 8 {
                pairs = pairs.chunks(2).map(|pair| pair[0] + pair[1]).collect();
            }
            sum(pairs)
        };
        sum(blocks.iter().map(block).chain(rest.iter().copied()))
    }

    /// The sum of a tile, by runs.
    fn by_runs(tile: &[f32]) -> f32 {
        let run = tile.len() / 8;
        match tile.len() {
            ..128 => sum(tile.iter().copied()),
            len => sum((0..8).map(|r| sum(tile[r * run..if r == 7 { len } else { (r + 1) * run }].iter().copied()))),
        }
    }

    /// The sum of tiles, as the documentation states it.
    fn grouped(tiles: &[&[f32]], of_tile: fn(&[f32]) -> f32) -> f32 {
        if let [tile] = tiles {
            return of_tile(tile);
        }
        let (earlier, later) = tiles.split_at(tiles.len().div_ceil(2));
        grouped(earlier, of_tile) + grouped(later, of_tile)
    }

    fn lengths() -> Vec<usize> {
        if cfg!(miri) { vec![1, 129, 700] } else { vec![1, 2, 127, 128, 129, 255, 299, 300, 301, 1000, 3333, 10_000] }
    }

    /// Calls `check` on pools of several sizes, for tiles that all threads share and that one has.
    fn on_all_threads(check: impl Fn(Shape) + Sync) {
        for threads in if cfg!(miri) { vec![2] } else { vec![1, 2, 3, 8] } {
            for small in [0, usize::MAX] {
                on_threads(threads, || check(Shape { tile: TILE, small }));
            }
        }
    }

    #[test]
    fn rounded_sums_are_grouped_as_documented() {
        for n in lengths() {
            let items: Vec<f32> = noise(n, n as u64 + 5).map(|z| (z >> 40) as f32 / 7.0 - 1e6).collect();
            let tiles = items.chunks(TILE).collect::<Vec<_>>();
            let [by_pairs, by_runs] = [by_pairs, by_runs].map(|of_tile| grouped(&tiles, of_tile).to_bits());
            on_all_threads(|shape| {
                let sum = reduce_shaped::<Sum, f32>(&items, shape).unwrap();
                assert_eq!(sum.to_bits(), by_pairs, "n {n}");
                let sums = reduce_shaped::<Sums, f32>(&items, shape).unwrap();
                assert_eq!(sums.map(f32::to_bits), [by_runs; 4], "n {n}");
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
                on_all_threads(|shape| assert_eq!(reduce_shaped::<Op, T>(&items, shape), expected, "n {n}"));
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

    // SAFETY: never compiled for a device.
    unsafe impl Element for [u8; 0] {
        const CUDA: &'static str = "";
    }
    // SAFETY: as above.
    unsafe impl Element for [u8; 4096] {
        const CUDA: &'static str = "";
    }

    #[test]
    fn elements_of_any_size() {
        assert_eq!(reduce::<Last, [u8; 0]>(&[[]; 300]), Some([]));
        let items: Vec<[u8; 4096]> = (0..200).map(|i| [i; 4096]).collect();
        assert_eq!(reduce::<Last, [u8; 4096]>(&items), Some([199; 4096]));
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
