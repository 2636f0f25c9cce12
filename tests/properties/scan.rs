//! Properties of scan on inputs that proptest draws and shrinks, on both engines.
//!
//! Every operator is exact on its inputs, so results of any grouping have the same bits: random
//! bits if the operator is always exact, small whole numbers for rounded sums.

use super::{Engine, config, for_all};
use crate::common::{Options, Sample, oracle, stream};
use half::f16;
use parascan::laws::any_bits;
use parascan::{Associativity, Operator, Scan, scan};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestError, TestRunner};
use std::fmt::{self, Debug};

// ---- what is drawn ------------------------------------------------------------------------------

/// An element with whole numbers so small that sums of 2000 are exact.
trait Value: Sample {
    const MOST: i8;
    fn whole(k: i8) -> Self;
}
macro_rules! values { ($($t:ident $most:literal $whole:expr;)*) => { $(
    impl Value for $t {
        const MOST: i8 = $most;
        fn whole(k: i8) -> $t {
            let whole: fn(i8) -> $t = $whole;
            whole(k)
        }
    }
)* } }
values! { f32 100 f32::from; i32 100 i32::from; u64 100 |k| k as u64; f16 1 f16::from; }

fn value<Op: Operator<T>, T: Value>() -> BoxedStrategy<T> {
    match Op::ASSOCIATIVITY {
        Associativity::Exact => any_bits().boxed(),
        Associativity::Rounding => (-T::MOST..=T::MOST).prop_map(T::whole).boxed(),
    }
}

/// The input of a scan. Prints itself in runs.
#[derive(Clone)]
struct Input<T>(Vec<T>);

impl<T: Debug> Debug for Input<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 50;
        let shown: Vec<String> = self.0.iter().map(|x| format!("{x:?}")).collect();
        let runs: Vec<&[String]> = shown.chunk_by(|x, y| x == y).collect();
        write!(f, "{} items:", shown.len())?;
        for run in runs.iter().take(MOST) {
            match run.len() {
                1 => write!(f, " {}", run[0])?,
                n => write!(f, " {n} times {}", run[0])?,
            }
        }
        if runs.len() > MOST { write!(f, " and {} more runs", runs.len() - MOST) } else { Ok(()) }
    }
}

/// Short inputs, some of a few thousand items and, unless sums bound them, some that both engines
/// split.
fn input<Op: Operator<T>, T: Value>() -> BoxedStrategy<Input<T>> {
    let drawn = |most: usize| vec(value::<Op, T>(), 0..=most).prop_map(Input);
    match Op::ASSOCIATIVITY {
        Associativity::Exact => prop_oneof![8 => drawn(200), 4 => drawn(2000), 1 => long_input::<Op, T>()].boxed(),
        Associativity::Rounding => prop_oneof![2 => drawn(200), 1 => drawn(2000)].boxed(),
    }
}

/// Up to 200000 items of a few values in random order.
fn long_input<Op: Operator<T>, T: Value>() -> impl Strategy<Value = Input<T>> + use<Op, T> {
    (vec(value::<Op, T>(), 1..=50), 0..=200_000usize).prop_map(|(values, n)| {
        let turn = |i: usize| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Input((0..n).map(|i| values[turn(i) as usize % values.len()]).collect())
    })
}

/// A scan's options.
#[derive(Clone, Copy, Debug)]
struct How<T> {
    options: Options<T>,
    in_place: bool,
}

impl<T> How<T> {
    /// Inclusive, forwards.
    fn plain(init: Option<T>, in_place: bool) -> How<T> {
        How { options: Options { exclusive: false, init, reverse: false }, in_place }
    }
}

/// An exclusive scan has a first value.
fn how<Op: Operator<T>, T: Value>() -> impl Strategy<Value = How<T>> + use<Op, T> {
    let drawn = (any::<bool>(), proptest::option::of(value::<Op, T>()), any::<bool>(), any::<bool>());
    drawn.prop_map(|(exclusive, init, reverse, in_place)| {
        let exclusive = exclusive && (init.is_some() || Op::IDENTITY.is_some());
        How { options: Options { exclusive, init, reverse }, in_place }
    })
}

// ---- engines ------------------------------------------------------------------------------------

impl Engine {
    fn scan<Op: Operator<T>, T: Value>(&self, input: &[T], how: How<T>) -> Vec<T> {
        let scan = builder::<Op, T>(how.options);
        match (self, how.in_place) {
            (Engine::Host, false) => scan.run(input).unwrap(),
            (Engine::Host, true) => {
                let mut data = input.to_vec();
                scan.run_in_place(&mut data).unwrap();
                data
            }
            (Engine::Device(_), _) if input.is_empty() => Vec::new(), // cudarc copies no empty buffer
            (Engine::Device(stream), in_place) => {
                let mut data = stream.clone_htod(input).unwrap();
                if in_place {
                    scan.run_in_place(&mut data).unwrap();
                } else {
                    data = scan.run(&data).unwrap();
                }
                stream.clone_dtoh(&data).unwrap()
            }
        }
    }
}

/// An exclusive scan without `init` starts from the identity; `exclusive()` requires one at compile
/// time.
fn builder<Op: Operator<T>, T: Value>(Options { exclusive, init, reverse }: Options<T>) -> Scan<Op, T> {
    let mut builder = scan::<Op, T>();
    if let Some(init) = init {
        builder = builder.init(init);
    }
    if exclusive {
        builder = builder.exclusive_from(init.unwrap_or_else(|| Op::lower(Op::IDENTITY.expect("`how` asks for one"))));
    }
    if reverse { builder.reverse() } else { builder }
}

// ---- properties ---------------------------------------------------------------------------------

fn same<T: Value>(got: &[T], expected: &[T]) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.len(), expected.len());
    if let Some(i) = (0..got.len()).find(|&i| !got[i].same(expected[i])) {
        return Err(TestCaseError::fail(format!("item {i} is {:?} and should be {:?}", got[i], expected[i])));
    }
    Ok(())
}

fn is_the_oracle<Op: Operator<T>, T: Value>(engine: &Engine) {
    let inputs = prop_oneof![3 => input::<Op, T>(), 1 => long_input::<Op, T>()];
    for_all((inputs, how::<Op, T>()), |(Input(input), how)| {
        same(&engine.scan::<Op, T>(&input, how), &oracle::<Op, T>(&input, how.options))
    });
}

/// The scan of x followed by y is the scan of x, then the scan of y from the last value of x.
fn stitches<Op: Operator<T>, T: Value>(engine: &Engine) {
    let drawn = (input::<Op, T>(), input::<Op, T>(), proptest::option::of(value::<Op, T>()), any::<bool>());
    for_all(drawn, |(Input(x), Input(y), init, in_place)| {
        let whole = engine.scan::<Op, T>(&[&x[..], &y].concat(), How::plain(init, in_place));
        let first = engine.scan::<Op, T>(&x, How::plain(init, in_place));
        let end = first.last().copied().or(init);
        let second = engine.scan::<Op, T>(&y, How::plain(end, in_place));
        same(&whole, &[first, second].concat())
    });
}

/// The exclusive scan is the inclusive scan shifted by one item.
fn exclusive_is_inclusive_later<Op: Operator<T>, T: Value>(engine: &Engine) {
    for_all((input::<Op, T>(), how::<Op, T>()), |(Input(input), mut how)| {
        how.options.exclusive = how.options.init.is_some() || Op::IDENTITY.is_some();
        let exclusive = engine.scan::<Op, T>(&input, how);
        let first = how.options.init.map(Op::lift).or(Op::IDENTITY).map(Op::lower);
        how.options.exclusive = false;
        let mut later = engine.scan::<Op, T>(&input, how);
        match (first, how.options.reverse) {
            _ if input.is_empty() => {}
            (None, _) => {} // both were inclusive
            (Some(first), false) => {
                later.rotate_right(1);
                later[0] = first;
            }
            (Some(first), true) => {
                later.rotate_left(1);
                *later.last_mut().expect("not empty") = first;
            }
        }
        same(&exclusive, &later)
    });
}

/// A reverse scan is the reversed scan of the reversed input.
fn reverse_is_reversed<Op: Operator<T>, T: Value>(engine: &Engine) {
    for_all((input::<Op, T>(), how::<Op, T>()), |(Input(mut input), mut how)| {
        let one = engine.scan::<Op, T>(&input, how);
        input.reverse();
        how.options.reverse = !how.options.reverse;
        let mut other = engine.scan::<Op, T>(&input, how);
        other.reverse();
        same(&one, &other)
    });
}

/// A scan with `init` is the scan without it, each output combined with `init` in front.
fn init_is_in_front<Op: Operator<T>, T: Value>(engine: &Engine) {
    for_all(
        (input::<Op, T>(), value::<Op, T>(), any::<bool>(), any::<bool>()),
        |(Input(input), init, reverse, in_place)| {
            let mut how = How::plain(Some(init), in_place);
            how.options.reverse = reverse;
            let with = engine.scan::<Op, T>(&input, how);
            how.options.init = None;
            let without = engine.scan::<Op, T>(&input, how);
            let in_front = |x: &T| Op::lower(Op::combine(Op::lift(init), Op::lift(*x)));
            same(&with, &without.iter().map(in_front).collect::<Vec<_>>())
        },
    );
}

macro_rules! stamp {
    ($($op:ident [$($t:ident)*])*) => { $(
        #[allow(non_snake_case)]
        mod $op {
            $( mod $t {
                use super::super::*;
                stamp!(@engine on_host Some(Engine::Host), $op, $t);
                stamp!(@engine on_device stream().map(Engine::Device), $op, $t);
            } )*
        }
    )* };
    (@engine $engine:ident $make:expr, $op:ident, $t:ident) => {
        mod $engine {
            use super::*;
            stamp!(@tests $make, $op, $t,
                is_the_oracle stitches exclusive_is_inclusive_later reverse_is_reversed init_is_in_front);
        }
    };
    (@tests $make:expr, $op:ident, $t:ident, $($property:ident)*) => { $(
        #[test]
        fn $property() {
            if let Some(engine) = $make {
                super::super::super::$property::<parascan::$op, $t>(&engine);
            }
        }
    )* };
}
stamp! { Sum [f32 i32 u64 f16] Max [f32 i32 u64 f16] Last [f32 i32 u64 f16] }

// ---- the tests themselves -----------------------------------------------------------------------

/// A property that fails is shrunk to the shortest and simplest input that breaks it.
#[test]
fn failures_shrink() {
    fn smallest(inputs: impl Strategy<Value = Input<f32>>) -> Vec<f32> {
        let short = |Input(input)| if input.len() <= 37 { Ok(()) } else { Err(TestCaseError::fail("too long")) };
        match TestRunner::new(config()).run(&inputs, short) {
            Err(TestError::Fail(_, Input(input))) => input,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(smallest(input::<parascan::Sum, f32>()), [0.0; 38]);
    assert_eq!(smallest(long_input::<parascan::Sum, f32>()), [0.0; 38]);
    assert_eq!(smallest(long_input::<parascan::Max, f32>()).len(), 38);
}
