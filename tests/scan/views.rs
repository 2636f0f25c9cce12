//! Views at every distance of input and output from a multiple of 16 bytes, with guard words.

use crate::common::{Draw, Options, Rng, Sample, any, oracle, stream};
use crate::scan::check_on_device;
use bytemuck::{Pod, Zeroable};
use parascan::cudarc::driver::DeviceRepr;
use parascan::{DeviceCode, Element, Operator, Strategy, Sum, Workspace, scan};

/// The guard around the results.
const GUARD: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// Two lanes of u64: 16 bytes, aligned to 8.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
struct Pair(u64, u64);
// SAFETY: two u64 in the same order on both sides.
unsafe impl Element for Pair {
    const CUDA: &'static str = "struct { unsigned long long x, y; }";
}
// SAFETY: plain data without padding.
unsafe impl DeviceRepr for Pair {}
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
    // SAFETY: two sums of unsigned integers.
    const CUDA: DeviceCode<Self, Pair> = unsafe { DeviceCode::new("Carry{a.x + b.x, a.y + b.y}") };
}

fn every_start<Op: Operator<T>, T: Sample>(n: usize, distances: &[(usize, usize)]) {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    let input: Vec<T> = any(&mut rng, n);
    for &distance in distances {
        for reverse in [false, true] {
            let options = Options { exclusive: false, init: None, reverse };
            let (rng, workspace) = (&mut rng, &mut workspace);
            check_on_device::<Op, T>(rng, &stream, workspace, &input, options, Strategy::Auto, distance, false);
        }
    }
}

/// Every distance of one with some of the other, then inputs long enough for the other kernels.
fn starts<Op: Operator<T>, T: Sample>() {
    let in_vector = (16 / size_of::<T>()).max(2);
    let distances: Vec<_> =
        (0..in_vector).flat_map(|k| [(k, 0), (0, k), (k, k), (k, (3 * k + 1) % in_vector)]).collect();
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    every_start::<Op, T>(5 * tile + 4 * in_vector + 1, &distances);
    // In sectors of 32 bytes and lines of 128, as longer slices are moved.
    let in_line = 128 / size_of::<T>();
    let begins = [1, in_line / 8, in_line / 8 + 1, in_line / 4, in_line / 4 + 1, in_line / 2, in_line - 1];
    let distances: Vec<_> = begins.iter().flat_map(|&k| [(k, 0), (0, k), (k, k), (k, (5 * k + 3) % in_line)]).collect();
    every_start::<Op, T>((4 << 20) / size_of::<T>() + 4711, &distances);
    every_start::<Op, T>((32 << 20) / size_of::<T>() + 4711, &[(1, 0), (0, 1), (1, in_vector - 1), (in_line - 1, 3)]);
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

/// Items that begin in the middle of a vector, as in a view of a smaller type.
#[test]
fn of_16_bytes_between_vectors() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    for n in [1, 2, 3, 1000, 5000, 400_000] {
        for (from, to, reverse) in [(1, 0, false), (0, 1, true), (1, 1, false), (1, 1, true)] {
            let input: Vec<Pair> = any(&mut rng, n);
            let mut memory = stream.alloc_zeros::<u64>(2 * n + 2).unwrap();
            stream.memcpy_htod(bytemuck::cast_slice(&input), &mut memory.slice_mut(from..from + 2 * n)).unwrap();
            let mut results = stream.clone_htod(&vec![GUARD; 2 * n + 2]).unwrap();
            let options = Options { exclusive: false, init: None, reverse };
            let sum = scan::<Both, Pair>();
            let sum = if reverse { sum.reverse() } else { sum };
            let view = memory.slice(from..from + 2 * n);
            let mut view_mut = results.slice_mut(to..to + 2 * n);
            // SAFETY: plain data of two u64 each, with their alignment.
            let (view, mut view_mut) =
                unsafe { (view.transmute::<Pair>(n).unwrap(), view_mut.transmute_mut::<Pair>(n).unwrap()) };
            sum.run_into(&view, &mut view_mut).unwrap();
            let mut expected = vec![GUARD; 2 * n + 2];
            expected[to..to + 2 * n].copy_from_slice(bytemuck::cast_slice(&oracle::<Both, Pair>(&input, options)));
            assert!(
                stream.clone_dtoh(&results).unwrap() == expected,
                "{n} items from {from} to {to}, reverse: {reverse}"
            );
        }
    }
}
