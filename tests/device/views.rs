//! Views that start anywhere: every distance of input and output from a multiple of 16 bytes, with guard words.

use super::any;
use crate::common::{Draw, Rng, Sample, assert_same, stream};
use bytemuck::{Pod, Zeroable};
use parascan::cudarc::driver::{DeviceRepr, ValidAsZeroBits};
use parascan::{Element, Operator, Sum, Workspace, scan};

/// Two lanes of u64: 16 bytes that need not begin at a multiple of 16.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
struct Pair(u64, u64);
// SAFETY: two u64 in the same order on both sides.
unsafe impl Element for Pair {
    const CUDA: &'static str = "struct { unsigned long long x, y; }";
}
// SAFETY: plain data without padding.
unsafe impl DeviceRepr for Pair {}
// SAFETY: plain data without padding.
unsafe impl ValidAsZeroBits for Pair {}
impl Sample for Pair {
    fn draw(rng: &mut Rng, _: Draw, _: usize) -> Pair {
        Pair(rng.next(), rng.next())
    }
    fn same(self, other: Pair) -> bool {
        self == other
    }
}

#[derive(Clone, Copy)]
struct Both;
impl Operator<Pair> for Both {
    type Carry = Pair;
    fn lift(x: Pair) -> Pair {
        x
    }
    fn lower(x: Pair) -> Pair {
        x
    }
    fn combine(a: Pair, b: Pair) -> Pair {
        Pair(a.0.wrapping_add(b.0), a.1.wrapping_add(b.1))
    }
    const CUDA: &'static str = "Carry{a.x + b.x, a.y + b.y}";
}

fn every_start<Op: Operator<T, Carry = T>, T: Sample>(n: usize, distances: &[(usize, usize)]) {
    let Some(stream) = stream() else { return };
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    let source = any(&mut rng, n + 16);
    let input = stream.clone_htod(&source).unwrap();
    for &(from, to) in distances {
        for reverse in [false, true] {
            let what = (std::any::type_name::<T>(), n, from, to, reverse);
            let mut expected = source[from..from + n].to_vec();
            if reverse {
                for i in (1..n).rev() {
                    expected[i - 1] = Op::combine(expected[i], expected[i - 1]);
                }
            } else {
                for i in 1..n {
                    expected[i] = Op::combine(expected[i - 1], expected[i]);
                }
            }
            let guard = any(&mut rng, n + 33);
            let mut output = stream.clone_htod(&guard).unwrap();
            let sum = scan::<Op, T>();
            let sum = if reverse { sum.reverse() } else { sum };
            let (view, mut into) = (input.slice(from..from + n), output.slice_mut(to..to + n));
            sum.workspace(&mut workspace).run_into(&view, &mut into).unwrap();
            let got = stream.clone_dtoh(&output).unwrap();
            assert_same(&got[to..to + n], &expected, &what);
            assert_same(&got[..to], &guard[..to], &("before the view", what));
            assert_same(&got[to + n..], &guard[to + n..], &("after the view", what));
        }
    }
}

/// Every distance of the one with some of the other, then long enough for the other kernel.
fn starts<Op: Operator<T, Carry = T>, T: Sample>() {
    let in_vector = (16 / size_of::<T>()).max(2);
    let distances: Vec<_> =
        (0..in_vector).flat_map(|k| [(k, 0), (0, k), (k, k), (k, (3 * k + 1) % in_vector)]).collect();
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    every_start::<Op, T>(5 * tile + 4 * in_vector + 1, &distances);
    let long = (32 << 20) / size_of::<T>() + 4711;
    every_start::<Op, T>(long, &[(1, 0), (0, 1), (1, in_vector - 1)]);
}

#[test]
fn of_1_byte() {
    starts::<Sum, u8>();
}
#[test]
fn of_2_bytes() {
    starts::<Sum, u16>();
}
#[test]
fn of_4_bytes() {
    starts::<Sum, u32>();
}
#[test]
fn of_8_bytes() {
    starts::<Sum, u64>();
}
#[test]
fn of_16_bytes() {
    starts::<Both, Pair>();
}
