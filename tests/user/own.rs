//! An operator and an element of the user's own, on both engines. The library has no kernels for
//! them: the device runs what NVRTC makes of their text.

use crate::common::{Draw, Options, Rng, Sample, assert_same, data, host_tiles, oracle, stream};
use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use parascan::{
    Associativity, Block, DeviceCode, Element, Error, Last, Max, Operator, Strategy, Sum, Workspace, reduce, scan,
};
use std::fmt::Debug;
use std::sync::Arc;

/// The greatest common divisor, by implementing the trait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gcd;
impl Operator<u32> for Gcd {
    type Carry = u32;
    fn lift(x: u32) -> u32 {
        x
    }
    fn lower(x: u32) -> u32 {
        x
    }
    fn combine(mut a: u32, mut b: u32) -> u32 {
        while b != 0 {
            (a, b) = (b, a % b)
        }
        a
    }
    const IDENTITY: Option<u32> = Some(0);
    // SAFETY: the loop ends, since b shrinks, and never divides by zero.
    const CUDA: DeviceCode<Self, u32> =
        unsafe { DeviceCode::new("[&] { while (b) { unsigned t = a % b; a = b; b = t; } return a; }()") };
}

parascan::element! {
    /// x -> a x + b
    pub(crate) struct Affine {
        a: f32,
        b: f32,
    }
}

parascan::operator! {
    /// First `f`, then `g`: associative, not commutative.
    pub(crate) struct Compose on Affine {
        associativity: Rounding,
        identity: Affine { a: 1.0, b: 0.0 },
        // SAFETY: sums and products of floats.
        combine: |f, g| Affine { a: g.a * f.a, b: g.a * f.b + g.b } => unsafe "{ b.a * a.a, b.a * a.b + b.b }",
    }
}

/// The catalog's operator on the user's element. The orphan rule allows it, since `Affine` is
/// local.
impl Operator<Affine> for Sum {
    type Carry = Affine;
    fn lift(x: Affine) -> Affine {
        x
    }
    fn lower(x: Affine) -> Affine {
        x
    }
    fn combine(f: Affine, g: Affine) -> Affine {
        Affine { a: f.a + g.a, b: f.b + g.b }
    }
    const IDENTITY: Option<Affine> = Some(Affine { a: 0.0, b: 0.0 });
    const ASSOCIATIVITY: Associativity = Associativity::Rounding;
    // SAFETY: two sums of floats.
    const CUDA: DeviceCode<Self, Affine> = unsafe { DeviceCode::new("{ a.a + b.a, a.b + b.b }") };
}

/// The greater of both members, so a result may be neither operand.
impl Operator<Affine> for Max {
    type Carry = Affine;
    fn lift(x: Affine) -> Affine {
        x
    }
    fn lower(x: Affine) -> Affine {
        x
    }
    fn combine(f: Affine, g: Affine) -> Affine {
        Affine { a: f.a.max(g.a), b: f.b.max(g.b) }
    }
    const IDENTITY: Option<Affine> = None;
    // SAFETY: comparisons of floats.
    const CUDA: DeviceCode<Self, Affine> =
        unsafe { DeviceCode::new("{ a.a > b.a ? a.a : b.a, a.b > b.b ? a.b : b.b }") };
}

#[test]
fn the_position_of_a_result_that_is_no_item() {
    let x = [Affine { a: 1.0, b: 5.0 }, Affine { a: 5.0, b: 1.0 }];
    assert!(reduce::<Max, Affine>().position(&x).unwrap() < 2);
}

impl Sample for Affine {
    /// Slopes alternate between 2 and 1/2 with random signs, offsets are even: up to a million
    /// neighbours compose to a slope of 1/2, 1 or 2 and a whole offset below 2^24. So compositions
    /// and sums are exact in any grouping.
    fn draw(rng: &mut Rng, _: Draw, i: usize) -> Affine {
        let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
        Affine { a: if i.is_multiple_of(2) { 2.0 } else { 0.5 } * sign, b: 2.0 * (rng.below(9) as f32 - 4.0) }
    }
    fn same(self, other: Affine) -> bool {
        self == other
    }
}

/// Multiples of a random number that share more factors towards the front, so the divisor keeps
/// changing.
fn numbers(rng: &mut Rng, n: usize) -> Vec<u32> {
    (0..n).map(|_| rng.next() as u32 & (u32::MAX << rng.below(16))).collect()
}

/// Both engines against the oracle, in every option.
pub(super) fn check<Op: Operator<T>, T: Sample>(make: impl Fn(&mut Rng, usize) -> Vec<T>) {
    let mut rng = Rng::new();
    let device = stream();
    let mut workspace = device.as_ref().map(Workspace::new);
    // Of one lane and of several tiles, and beyond the device's kernel for short inputs.
    let mut lengths = vec![1, 2, 33, 3_073, 50_001, host_tiles::<T>(&mut rng)];
    lengths.extend(device.as_ref().map(|_| 700_001));
    for n in lengths {
        let x = make(&mut rng, n);
        let first = make(&mut rng, 1)[0];
        for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
            let what = (std::any::type_name::<(Op, T)>(), n, exclusive, reverse);
            let init = (exclusive || reverse).then_some(first);
            let expected = oracle::<Op, T>(&x, Options { exclusive, init, reverse });
            let mut builder = scan::<Op, T>();
            if let Some(first) = init {
                builder = if exclusive { builder.exclusive_from(first) } else { builder.init(first) };
            }
            if reverse {
                builder = builder.reverse();
            }
            assert_same(&builder.run(&x).unwrap(), &expected, &("on the host", what));
            if let (Some(stream), Some(workspace)) = (&device, &mut workspace) {
                let input = stream.clone_htod(&x).unwrap();
                let output = builder.run(&input).unwrap();
                assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &("on the device", what));
                let mut data = input;
                builder.workspace(workspace).run_in_place(&mut data).unwrap();
                assert_same(&stream.clone_dtoh(&data).unwrap(), &expected, &("in place", what));
            }
        }
    }
}

#[test]
fn own_operator() {
    check::<Gcd, u32>(numbers);
    assert_eq!(scan::<Gcd, u32>().exclusive().run(&[12u32, 18, 27]).unwrap(), [0, 12, 6]);
}

#[test]
fn own_element() {
    check::<Compose, Affine>(|rng, n| data(rng, Draw::Any, n));
    let maps = [Affine { a: 2.0, b: 1.0 }, Affine { a: 0.5, b: 3.0 }]; // 2 x + 1, then half of that, plus 3
    assert_eq!(scan::<Compose, Affine>().run(&maps).unwrap(), [Affine { a: 2.0, b: 1.0 }, Affine { a: 1.0, b: 3.5 }]);
}

#[test]
fn the_librarys_operators_on_an_own_element() {
    check::<Sum, Affine>(|rng, n| data(rng, Draw::Any, n));
    check::<Last, Affine>(|rng, n| data(rng, Draw::Any, n));
}

/// The other strategies take the user's operators too.
#[test]
fn in_every_strategy() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let x: Vec<Affine> = data(&mut rng, Draw::Any, 60_000);
    let expected = oracle::<Compose, Affine>(&x, Options { exclusive: false, init: None, reverse: false });
    let input = stream.clone_htod(&x).unwrap();
    let block = Block::default();
    for strategy in [Strategy::PrefixServer(block), Strategy::LookBack(block), Strategy::Hierarchical(block)] {
        let output = scan::<Compose, Affine>().strategy(strategy).run(&input).unwrap();
        assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &strategy);
    }
}

// ---- generic code over the library --------------------------------------------------------------

fn on_host<Op: Operator<T>, T: Element>(x: &[T]) -> Result<Vec<T>, Error> {
    scan::<Op, T>().run(x)
}
fn on_device<Op: Operator<T>, T: Element + DeviceRepr>(x: &CudaSlice<T>) -> Result<CudaSlice<T>, Error> {
    scan::<Op, T>().run(x)
}
fn wherever_it_lies<S: parascan::Source<u32>>(x: &S) -> Result<S::Owned, Error> {
    scan::<Gcd, u32>().run(x)
}

fn round_trip<T: DeviceRepr + Clone + Default + Debug>(stream: &Arc<CudaStream>, x: &CudaSlice<T>) -> Vec<T> {
    stream.clone_dtoh(x).unwrap()
}

#[test]
fn generic_code() {
    let (x, expected) = (vec![12, 18, 27], [12, 6, 3]);
    assert_eq!(on_host::<Gcd, u32>(&x).unwrap(), expected);
    assert_eq!(wherever_it_lies(&x).unwrap(), expected);
    let stream = or_skip!(stream());
    let y = stream.clone_htod(&x).unwrap();
    assert_eq!(round_trip(&stream, &on_device::<Gcd, u32>(&y).unwrap()), expected);
    assert_eq!(round_trip(&stream, &wherever_it_lies(&y).unwrap()), expected);
}
