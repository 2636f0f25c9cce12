//! The engine with tiny tiles, against loops.

use super::heads::for_each_piece;
use super::scan::scan_shaped;
use super::*;
use crate::cpu::{pipeline::Shape, random::Rng, threads::on_threads};
use crate::{Element, Last, Max, Operator, Sum};
use std::ops::{ControlFlow, Range};

/// Affine maps, the earlier applied first: associative, not commutative, no identity declared.
#[derive(Clone, Copy)]
struct Affine;
impl Operator<[u32; 2]> for Affine {
    type Carry = [u32; 2];
    fn lift(x: [u32; 2]) -> [u32; 2] {
        x
    }
    fn lower(x: [u32; 2]) -> [u32; 2] {
        x
    }
    fn combine([a, b]: [u32; 2], [c, d]: [u32; 2]) -> [u32; 2] {
        [c.wrapping_mul(a), c.wrapping_mul(b).wrapping_add(d)]
    }
    // SAFETY: never compiled for a device.
    const CUDA: crate::DeviceCode<Self, [u32; 2]> = unsafe { crate::DeviceCode::new("") };
}

const TINY: Shape = Shape { tile: 192, small: 0 };

fn lengths() -> Vec<usize> {
    if cfg!(miri) { vec![1, 300] } else { vec![1, 2, 63, 64, 65, 191, 192, 193, 384, 385, 1000, 20_000] }
}

/// Offsets of segments whose mean length is about `mean`, empty ones among them, from `first` on.
fn offsets(rng: &mut Rng, n: usize, mean: u64) -> Vec<u32> {
    let mut offsets = vec![rng.below(1 + n as u64 / 9) as u32];
    loop {
        let step = if rng.below(4) == 0 { 0 } else { 1 + rng.below(2 * mean) };
        let next = offsets[offsets.len() - 1] as u64 + step;
        if next > n as u64 {
            return offsets;
        }
        offsets.push(next as u32);
    }
}

/// The heads as one flag an item.
fn flags(n: usize, offsets: &[u32]) -> Vec<u8> {
    let mut flags = vec![0; n + 1];
    offsets.iter().for_each(|&offset| flags[offset as usize] = 1);
    flags.truncate(n);
    flags
}

fn on_all_threads(check: impl Fn() + Sync) {
    for threads in if cfg!(miri) { vec![2] } else { vec![1, 2, 3, 8] } {
        on_threads(threads, &check);
    }
}

fn oracle<Op: Operator<T>, T: Element>(
    x: &[T],
    flags: &[u8],
    exclusive: bool,
    first: Option<Op::Carry>,
    reverse: bool,
) -> Vec<T> {
    let n = x.len();
    let mut output = vec![T::zeroed(); n];
    let mut upto = first;
    for k in 0..n {
        let i = if reverse { n - 1 - k } else { k };
        let begins = if reverse { i + 1 < n && flags[i + 1] != 0 } else { flags[i] != 0 };
        upto = if begins { first } else { upto };
        let next = upto.map_or(Op::lift(x[i]), |upto| Op::combine(upto, Op::lift(x[i])));
        output[i] = Op::lower(if exclusive { upto.unwrap() } else { next });
        upto = Some(next);
    }
    output
}

fn scans<Op: Operator<T>, T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(u64) -> T, init: Op::Carry) {
    let mut rng = Rng::new();
    for n in lengths() {
        for mean in [1, 3, 40, 150, 5000] {
            let state = rng.state;
            let x: Vec<T> = (0..n).map(|_| make(rng.next())).collect();
            let offsets = offsets(&mut rng, n, mean);
            let flags = flags(n, &offsets);
            for (exclusive, first) in [(false, None), (false, Some(init)), (true, Some(init))] {
                for reverse in [false, true] {
                    let expected = oracle::<Op, T>(&x, &flags, exclusive, first, reverse);
                    on_all_threads(|| {
                        for heads in [&ByOffsets(&offsets) as &dyn Heads, &ByFlags(&flags)] {
                            let (mut out, mut in_place) = (vec![x[0]; n], x.clone());
                            // SAFETY: n elements each, which no other thread touches.
                            unsafe {
                                let (from, to, within) = (x.as_ptr(), out.as_mut_ptr(), in_place.as_mut_ptr());
                                scan_shaped::<Op, T>(from, to, n, heads, exclusive, first, reverse, TINY);
                                scan_shaped::<Op, T>(within, within, n, heads, exclusive, first, reverse, TINY);
                            }
                            assert_eq!(out, expected, "n {n}, mean {mean}, {exclusive}, {reverse}, state {state}");
                            assert!(in_place == expected, "in place, n {n}, mean {mean}, {reverse}, state {state}");
                        }
                    });
                }
            }
        }
    }
}

#[test]
fn scans_agree_with_a_loop() {
    scans::<Sum, u32>(|z| z as u32, 7);
    scans::<Affine, [u32; 2]>(|z| [z as u32 | 1, (z >> 32) as u32], [3, 5]);
    scans::<Last, u16>(|z| z as u16, 7);
    scans::<Sum, f32>(|z| (z % 16) as f32, 3.0);
    scans::<Max, f64>(|z| z as f64, 1 << 60);
}

fn reductions<Op: Operator<T>, T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(u64) -> T, init: Op::Carry) {
    let mut rng = Rng::new();
    for n in lengths() {
        for mean in [1, 3, 40, 150, 5000] {
            let state = rng.state;
            let x: Vec<T> = (0..n).map(|_| make(rng.next())).collect();
            let mut offsets = offsets(&mut rng, n, mean);
            // Many empty segments at one place.
            let at = rng.below(offsets.len() as u64) as usize;
            offsets.splice(at..at, std::iter::repeat_n(offsets[at], [0, 700][rng.below(2) as usize]));
            for first in [None, Some(init)] {
                let of = |pair: &[u32]| {
                    let items = x[pair[0] as usize..pair[1] as usize].iter().map(|&x| Op::lift(x));
                    let all = first.into_iter().chain(items).reduce(Op::combine);
                    Op::lower(all.unwrap_or(init))
                };
                let expected: Vec<T> = offsets.windows(2).map(of).collect();
                on_all_threads(|| {
                    let count = offsets.len() - 1;
                    let mut output = vec![x[0]; count];
                    // SAFETY: the offsets ascend up to n at most.
                    unsafe {
                        let ends = &ByOffsets(&offsets);
                        reduce::reduce_shaped::<Op, T>(&x, ends, count, first, Some(init), &mut output, TINY);
                    }
                    assert!(output == expected, "n {n}, mean {mean}, state {state}");
                });
            }
        }
    }
}

#[test]
fn reductions_agree_with_a_loop() {
    reductions::<Sum, u32>(|z| z as u32, 7);
    reductions::<Affine, [u32; 2]>(|z| [z as u32 | 1, (z >> 32) as u32], [3, 5]);
    reductions::<Last, u16>(|z| z as u16, 7);
    reductions::<Sum, f32>(|z| (z % 16) as f32, 3.0);
}

/// Rows in small tiles and in one, forwards and backwards, the last one short in some scans.
#[test]
fn rows_are_segments_of_equal_length() {
    type Item = [u32; 2];
    const FIRST: Item = [3, 5];
    let combine = <Affine as Operator<Item>>::combine;
    let mut rng = Rng::new();
    let rows_of = if cfg!(miri) {
        vec![(3, 90), (100, 5)]
    } else {
        vec![(1, 700), (2, 300), (3, 500), (32, 40), (64, 9), (65, 40), (100, 33), (300, 9), (1000, 11), (5000, 1)]
    };
    for (columns, rows) in rows_of {
        let x: Vec<Item> = (0..rows * columns).map(|_| [rng.next() as u32 | 1, rng.next() as u32]).collect();
        let short = rng.below(columns as u64) as usize;
        for (shape, reverse, missing) in [TINY, Shape::of::<Item>()]
            .into_iter()
            .flat_map(|shape| [(shape, false, 0), (shape, false, short), (shape, true, 0), (shape, true, short)])
        {
            let x = &x[..x.len() - missing];
            let mut expected = vec![];
            for row in x.chunks(columns) {
                let mut upto = FIRST;
                let mut put = |&item: &Item| {
                    upto = combine(upto, item);
                    upto
                };
                let prefixes: Vec<Item> =
                    if reverse { row.iter().rev().map(&mut put).collect() } else { row.iter().map(&mut put).collect() };
                if reverse { expected.extend(prefixes.into_iter().rev()) } else { expected.extend(prefixes) }
            }
            let whole = x.len() / columns;
            let reduced = x.chunks_exact(columns).map(|row| row.iter().fold(FIRST, |upto, &item| combine(upto, item)));
            let reduced: Vec<Item> = reduced.collect();
            on_all_threads(|| {
                let (mut output, mut results) = (vec![[0; 2]; x.len()], vec![[0; 2]; whole]);
                let (heads, first) = (ByRows(columns), Some(FIRST));
                // SAFETY: as many elements each, and rows of equal length.
                unsafe {
                    let (from, to) = (x.as_ptr(), output.as_mut_ptr());
                    scan_shaped::<Affine, Item>(from, to, x.len(), &heads, false, first, reverse, shape);
                    let whole_rows = &x[..whole * columns];
                    reduce::reduce_shaped::<Affine, Item>(whole_rows, &heads, whole, first, None, &mut results, shape);
                }
                assert!(output == expected, "{rows} rows of {columns} but {missing} items, reverse {reverse}");
                assert!(results == reduced, "{whole} rows of {columns}");
            });
        }
    }
}

fn pieces_by(heads: &dyn Heads, tile: &Range<usize>, n: usize, backwards: bool) -> Vec<(Range<usize>, bool)> {
    let mut pieces = vec![];
    for_each_piece(heads, tile.clone(), n, backwards, |piece, begins| {
        pieces.push((piece, begins));
        ControlFlow::Continue(())
    });
    pieces
}

/// The pieces of a tile are those of a loop over flags, in both directions, by every kind of heads.
#[test]
fn pieces_of_a_tile() {
    let mut rng = Rng::new();
    for n in if cfg!(miri) { vec![70] } else { vec![1, 64, 100, 9000, 30_000] } {
        for mean in [1, 20, 400, 10_000] {
            let offsets = offsets(&mut rng, n, mean);
            let flags = flags(n, &offsets);
            let mut words = vec![rng.next(); n.div_ceil(64)];
            flags.iter().enumerate().for_each(|(i, &flag)| {
                words[i / 64] = words[i / 64] & !(1 << (i % 64)) | u64::from(flag) << (i % 64);
            });
            let halves: Vec<u32> = words.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
            let halves = &halves[..n.div_ceil(32)];
            let mut key = [0_u8; 3];
            let mut keys = vec![];
            for &flag in &flags {
                key[1] = key[1].wrapping_add(flag);
                keys.push(key);
            }
            let from = rng.below(n as u64) as usize / 64 * 64;
            let tile = from..from + 1 + rng.below((n - from) as u64) as usize;
            let heads: Vec<usize> = tile.clone().filter(|&i| i > from && flags[i] != 0).collect();
            let bounds: Vec<usize> = [from].into_iter().chain(heads).chain([tile.end]).collect();
            let pieces: Vec<Range<usize>> = bounds.windows(2).map(|pair| pair[0]..pair[1]).collect();
            // The first item's key is always a head.
            let first = from > 0 && flags[from] != 0;
            let last = tile.end < n && flags[tile.end] != 0;
            let kinds: [&dyn Heads; 5] =
                [&ByOffsets(&offsets), &ByFlags(&flags), &ByBits(&words), &ByBits(halves), &ByKeys(&keys)];
            for heads in kinds {
                let got = pieces_by(heads, &tile, n, false);
                assert_eq!(got.iter().map(|(piece, _)| piece.clone()).collect::<Vec<_>>(), pieces);
                assert!(from == 0 || got[0].1 == first);
                assert!(got[1..].iter().all(|(_, begins)| *begins));
                let got = pieces_by(heads, &tile, n, true);
                assert!(got.iter().rev().map(|(piece, _)| piece).eq(&pieces));
                assert_eq!(got[0].1, last);
                assert!(got[1..].iter().all(|(_, begins)| *begins));
            }
        }
    }
}

#[test]
fn steps_are_found() {
    let mut offsets: Vec<u64> = (0..300_000).map(|i| 2 * i + 1).collect();
    let descends = |offsets: &[u64]| step_where(offsets, |before, offset| offset < before);
    assert_eq!(descends(&offsets), None);
    for at in [299_999, 131_073, 131_072, 65_537, 65_536, 65_535, 1] {
        offsets[at] = offsets[at - 1] - 1;
        assert_eq!(descends(&offsets), Some(at));
    }
    assert_eq!(descends(&[]), None);
}
