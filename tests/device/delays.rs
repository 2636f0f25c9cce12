//! Pauses of tiles and of the server wherever they meet: most of them brief, some long, others in
//! every run.

use super::subject::{Join, Maps, Outcome, Subject, templates};
use crate::common::process::is_alone;
use crate::common::{Options, Rng, Sample, assert_same, context};
use parascan::{Operator, Sum};

const JOINS: [Join; 6] = [
    Join::Server { warps: 8, vectors: 3, spread: 0 },
    Join::Server { warps: 4, vectors: 11, spread: 128 },
    Join::LookBack { warps: 4, vectors: 11 },
    Join::Chained { warps: 4, vectors: 11 },
    Join::Columns,
    Join::Cooperative { warps: 4, rows: 4 },
];

/// Asserts that every seed gives the same bits as no pauses. `check` gets the first seed.
fn sleep<Op: Operator<T, Carry = T>, T: Sample>(
    joins: &[Join],
    draw: impl Fn(&mut Rng) -> T,
    check: impl Fn(Join, &[T], Options<T>, &[T]),
) {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    for &join in joins {
        let subject = Subject::new(&stream, join, &join.unit::<Op, T>("random(place, at)", &templates()));
        let tile = join.tile::<T>();
        for n in [join.tiles(700) * tile + 5, 40 * tile - 1] {
            let input: Vec<T> = (0..n).map(|_| draw(&mut rng)).collect();
            let options = Options { exclusive: true, init: Some(draw(&mut rng)), reverse: false };
            let undisturbed = subject.scan(&input, options, (0, 0), 0).output;
            check(join, &input, options, &undisturbed);
            for seed in (0..8).map(|_| rng.next() as u32 | 1) {
                let Outcome { output, outside, dirty, gave_up, foreign } = subject.scan(&input, options, (0, 0), seed);
                let what = (join, n, seed);
                assert_same(&output, &undisturbed, &what);
                assert!(
                    !outside && !dirty && !gave_up && !foreign,
                    "{what:?}: {:?}",
                    [outside, dirty, gave_up, foreign]
                );
            }
        }
    }
}

#[test]
fn the_results_are_right() {
    if is_alone(the_results_are_right) {
        sleep::<Maps, u64>(
            &JOINS,
            |rng| rng.next() | 1,
            |join, input, options, output| assert_same(output, &join.expected(input, options), &(join, "no pauses")),
        );
    }
}

#[test]
fn rounded_sums_are_the_same_bits() {
    if is_alone(rounded_sums_are_the_same_bits) {
        let scans = &JOINS[..5];
        sleep::<Sum, f32>(scans, |rng| 0.5 + rng.below(1 << 24) as f32 / (1 << 24) as f32, |_, _, _, _| {});
    }
}
