//! Every pair of operator and element type: scans and reductions.

use super::{Cuts, Drawn, Place, Way, rows, transposed};
use crate::common::{Draw, Options, Rng, assert_same, data, oracle};
use half::{bf16, f16};
use parascan::dynamic::{Array, Op, Type, Value, reduce, scan};
use parascan::{Error, Operator};
use std::ops::Range;

fn options<T: Drawn>(rng: &mut Rng, first: bool) -> Options<T> {
    let exclusive = rng.below(2) == 0;
    let init = (rng.below(2) == 0 || exclusive && first).then(|| T::draw(rng, Draw::Whole, 0));
    Options { exclusive, init, reverse: rng.below(2) == 0 }
}

fn scan_of<T: Drawn>(op: Op, options: Options<T>) -> parascan::dynamic::Scan<'static> {
    let mut scan = scan(op);
    if options.exclusive {
        scan = scan.exclusive();
    }
    scan = scan.reverse();
    if !options.reverse {
        scan = scan.reverse(); // twice is forward
    }
    match options.init {
        Some(init) => scan.init(value(init)),
        None => scan,
    }
}

fn value<T: Drawn>(x: T) -> Value {
    Value::from_bytes(T::TYPE, bytemuck::bytes_of(&x)).unwrap()
}

/// Each segment by itself.
fn by_segment<T: Copy>(items: &[T], segments: &[Range<usize>], mut f: impl FnMut(&[T]) -> Vec<T>) -> Vec<T> {
    segments.iter().flat_map(|segment| f(&items[segment.clone()])).collect()
}

fn scans<O: Operator<T>, T: Drawn>(op: Op) {
    let mut rng = Rng::new();
    for place in Place::all() {
        for round in 0..3 {
            let columns = 1 + rng.below(50);
            let n = columns * (1 + rng.below(3000 / columns));
            let x: Vec<T> = data(&mut rng, Draw::exact_for::<O, T>(), n);
            let options = options::<T>(&mut rng, O::IDENTITY.is_none());
            let what = (op, T::TYPE, round, n, columns, options, &place);
            let build = || scan_of(op, options);
            let input = T::put(&place, &x);
            let same = |got: Array, expected: &[T], how: &str| {
                assert_eq!(got.ty(), T::TYPE);
                assert_same(&T::get(&place, got), expected, &(how, what));
            };

            let expected = oracle::<O, T>(&x, options);
            same(build().run(input.view()).unwrap(), &expected, "run");
            let mut output = T::put(&place, &vec![T::zeroed(); n]);
            build().run_into(input.view(), output.view_mut()).unwrap();
            same(output, &expected, "run_into");
            let mut data = T::put(&place, &x);
            build().run_in_place(data.view_mut()).unwrap();
            same(data, &expected, "run_in_place");

            let cuts = Cuts::new(&mut rng, n);
            let expected = by_segment(&x, &cuts.runs, |items| oracle::<O, T>(items, options));
            let offsets = place.put(&cuts.offsets);
            same(build().segments(offsets.view()).run(input.view()).unwrap(), &expected, "segments");
            cuts.each_way(&place, |way| {
                let scan = match way {
                    Way::Heads(flags) => build().heads(flags),
                    Way::HeadBits(words) => build().head_bits(words),
                    Way::Keys(keys) => build().by_key(keys),
                };
                let mut data = T::put(&place, &x);
                scan.run_in_place(data.view_mut()).unwrap();
                same(data, &expected, &format!("{way:?}"));
            });

            let expected = by_segment(&x, &rows(n, columns), |items| oracle::<O, T>(items, options));
            same(build().rows(columns).run(input.view()).unwrap(), &expected, "rows");
            let matrix = T::put(&place, &transposed(&x, columns));
            let got = build().columns(n / columns).run(matrix.view()).unwrap();
            same(got, &transposed(&expected, columns), "columns");
        }
    }
}

/// The combination of all items, after `init`.
fn all<O: Operator<T>, T: Drawn>(items: &[T], init: Option<T>) -> T {
    let first = init.map(O::lift).or(if items.is_empty() { O::IDENTITY } else { None });
    let items = items.iter().map(|&x| O::lift(x));
    O::lower(first.into_iter().chain(items).reduce(O::combine).expect("a result"))
}

fn reductions<O: Operator<T>, T: Drawn>(op: Op) {
    let mut rng = Rng::new();
    for place in Place::all() {
        for round in 0..3 {
            let columns = 1 + rng.below(50);
            let n = columns * (1 + rng.below(3000 / columns));
            let x: Vec<T> = data(&mut rng, Draw::exact_for::<O, T>(), n);
            let empty = O::IDENTITY.is_none(); // a segment without items has a result only by `init`
            let init = (empty || rng.below(2) == 0).then(|| T::draw(&mut rng, Draw::Whole, 0));
            let what = (op, T::TYPE, round, n, columns, init, &place);
            let build = || init.map_or(reduce(op), |init| reduce(op).init(value(init)));
            let input = T::put(&place, &x);
            let same = |got: Array, expected: &[T], how: &str| {
                assert_eq!(got.ty(), T::TYPE);
                assert_same(&T::get(&place, got), expected, &(how, what));
            };

            let expected = all::<O, T>(&x, init);
            let got = build().run(input.view()).unwrap();
            assert_eq!(got.ty(), T::TYPE);
            assert_same(&[bytemuck::pod_read_unaligned::<T>(got.as_bytes())], &[expected], &("run", what));
            let mut output = T::put(&place, &[T::zeroed()]);
            build().run_into(input.view(), output.view_mut()).unwrap();
            same(output, &[expected], "run_into");

            let cuts = Cuts::new(&mut rng, n);
            let results = |segments: &[Range<usize>]| by_segment(&x, segments, |items| vec![all::<O, T>(items, init)]);
            let offsets = place.put(&cuts.offsets);
            let got = build().segments(offsets.view()).run(input.view()).unwrap();
            same(got, &results(&cuts.segments), "segments");
            let expected = results(&cuts.runs);
            cuts.each_way(&place, |way| {
                let by_run = || match way {
                    Way::Heads(flags) => build().heads(flags),
                    Way::HeadBits(words) => build().head_bits(words),
                    Way::Keys(keys) => build().by_key(keys),
                };
                same(by_run().run(input.view()).unwrap(), &expected, &format!("{way:?}"));
                if let Way::Keys(_) = way {
                    let mut output = T::put(&place, &vec![T::zeroed(); n]);
                    let (mut keys, mut count) = (place.put(&vec![0_u16; n]), place.put(&[0_u64]));
                    let outputs = (keys.view_mut(), output.view_mut(), count.view_mut());
                    by_run().run_with_keys_into(input.view(), outputs.0, outputs.1, outputs.2).unwrap();
                    let count = place.get::<u64>(count)[0] as usize;
                    let firsts: Vec<u16> = cuts.runs.iter().map(|run| cuts.keys[run.start]).collect();
                    assert_eq!(place.get::<u16>(keys)[..count], firsts, "{what:?}");
                    assert_same(&T::get(&place, output)[..count], &expected, &("with keys", what));
                }
            });

            let expected = results(&rows(n, columns));
            same(build().rows(columns).run(input.view()).unwrap(), &expected, "rows");
            let matrix = T::put(&place, &transposed(&x, columns));
            same(build().columns(n / columns).run(matrix.view()).unwrap(), &expected, "columns");

            let first = |expected: T| {
                // Every NaN of a result is the same one.
                let same = |x: T| O::lower(O::combine(O::lift(x), O::lift(x)));
                x.iter().position(|&x| bytemuck::bytes_of(&same(x)) == bytemuck::bytes_of(&expected))
            };
            if matches!(op, Op::Max | Op::Min) {
                let expected = first(all::<O, T>(&x, None)).unwrap();
                assert_eq!(reduce(op).position(input.view()).unwrap(), expected, "{what:?}");
                let mut index = place.put(&[0_u64]);
                reduce(op).position_into(input.view(), index.view_mut()).unwrap();
                assert_eq!(place.get::<u64>(index)[0] as usize, expected, "{what:?}");
            } else {
                let refused = reduce(op).position(input.view()).unwrap_err();
                assert!(matches!(refused, Error::Undefined { primitive: "position", .. }), "{refused:?}");
            }
        }
    }
}

macro_rules! stamp {
    (elements $elements:tt operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => {
        $(
            #[allow(non_snake_case)]
            mod $op {
                use super::*;
                $( $(
                    #[test]
                    fn $t() {
                        scans::<parascan::$op, $t>(Op::$op);
                        reductions::<parascan::$op, $t>(Op::$op);
                    }
                )* )*
            }
        )*

        /// The pairs that the catalog has.
        fn defined() -> Vec<(Op, Type)> {
            vec![$( $( $( (Op::$op, <$t as parascan::dynamic::Item>::TYPE), )* )* )*]
        }
    };
}
catalog!(stamp);

/// A pair that the catalog does not have is an error that names both.
#[test]
fn pairs_that_are_not_defined() {
    let defined = defined();
    let mut refused = 0;
    for &op in Op::ALL {
        for ty in Type::ALL {
            let zeros = [0_u64; 4];
            // SAFETY: all bits are values of every type, and there are enough for four of any.
            let input = unsafe { parascan::dynamic::View::on_host(ty, zeros.as_ptr().cast(), 4) };
            let results = [scan(op).run(input).map(|_| ()), reduce(op).run(input).map(|_| ())];
            for (result, primitive) in results.into_iter().zip(["scan", "reduce"]) {
                if defined.contains(&(op, ty)) {
                    result.unwrap();
                } else {
                    let words = format!("{primitive}: the operator {op} is not defined for {ty}");
                    assert_eq!(result.unwrap_err().to_string(), words);
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(refused, 2 * 3 * 4); // bits of floats
}
