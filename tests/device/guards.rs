//! The guards of the hand-over: without any one of them a check finds the hazard.
//!
//! A test edits the templates as text and runs the same scans with both forms, with pauses where
//! the hazard depends on timing. The original passes every check. The form without the guard fails
//! the check for its hazard.
//!
//! The tests leave out these guards, since a run need not show their absence:
//! - `__syncwarp`, `__syncthreads` and the order of `add_acquire_release`: racecheck finds them
//!   (`races.rs`);
//! - the fence and the wait of `store_from_shared`;
//! - reads past an end (`Run::load_part`, the lanes past the last tile): memcheck finds them;
//! - faults, which end the process: vectors at an odd address, words of a scan of one tile.

use super::subject::{Join, Maps, Outcome, Subject, templates};
use crate::common::edit::Edit;
use crate::common::process::is_alone;
use crate::common::{Options, Rng, context};
use parascan::cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use std::collections::BTreeSet;

mod tables;
use tables::*;

struct Guard {
    name: &'static str,
    /// The pauses of threads, in both forms: a C++ expression of nanoseconds, as in `subject.cuh`.
    pause: &'static str,
    without: Edit,
    /// The checks that fail without the guard.
    fails: &'static [Check],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Check {
    /// The output is the oracle's.
    Results,
    /// No write before or after the output.
    Outside,
    /// The memory is zero after the kernel.
    Memory,
    /// The operator is called only on items, `init` and its own results.
    Operands,
    /// No thread waits forever.
    Progress,
}
use Check::{Memory, Operands, Outside, Progress, Results};

const SERVER: Join = Join::Server { warps: 4, vectors: 1, spread: 64 };
const BULK: Join = Join::Server { warps: 4, vectors: 5, spread: 64 };
const LOOK_BACK: Join = Join::LookBack { warps: 4, vectors: 1 };
const CHAINED: Join = Join::Chained { warps: 4, vectors: 1 };
const COOPERATIVE: Join = Join::Cooperative { warps: 4, rows: 4 };

/// The checks that a scan of `n` items fails.
fn scan(
    subject: &Subject,
    rng: &mut Rng,
    n: usize,
    options: Options<u64>,
    distances: (usize, usize),
) -> BTreeSet<Check> {
    let input: Vec<u64> = (0..n).map(|_| rng.next() | 1).collect();
    let Outcome { output, outside, dirty, gave_up, foreign } = subject.scan(&input, options, distances, 0);
    let wrong = output != subject.join().expected(&input, options);
    let all = [(Results, wrong), (Outside, outside), (Memory, dirty), (Operands, foreign), (Progress, gave_up)];
    all.into_iter().filter(|&(_, failed)| failed).map(|(check, _)| check).collect()
}

/// The checks that scans of several lengths fail. The scans use one memory, with other items each
/// time. The last has more tiles than the device holds at once, unless the launch is cooperative.
/// Ends when all of `awaited` have failed, or any check if `awaited` is empty.
fn failed(subject: &Subject, rng: &mut Rng, awaited: &[Check]) -> BTreeSet<Check> {
    let tile = subject.join().tile::<u64>();
    let lengths = [300 * tile + 5, 3 * tile - 1, 128 * tile, 300 * tile - 3];
    let multiprocessors = subject.stream().context().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap();
    // No multiprocessor holds more than 32 blocks.
    let last = subject.join().tiles(multiprocessors as usize * 32 + 64) * tile;
    let mut failed = BTreeSet::new();
    for (k, n) in (0..32).map(|k| lengths[k % 4]).chain([last]).enumerate() {
        let init = Some(rng.next() | 1);
        let options = match subject.join() {
            Join::Columns => Options { exclusive: true, init, reverse: false },
            _ if k % 3 == 0 => Options { exclusive: false, init: None, reverse: k >= 16 },
            _ => Options { exclusive: k % 3 == 1, init, reverse: k >= 16 },
        };
        failed.extend(scan(subject, rng, n, options, (k / 4 % 2, k / 8 % 2)));
        if !failed.is_empty() && awaited.iter().all(|check| failed.contains(check)) {
            break;
        }
    }
    failed
}

fn each_is_needed(join: Join, tables: &[&[Guard]]) {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let guarded = templates();
    let mut passed = BTreeSet::new();
    let mut needless = Vec::new();
    for Guard { name, pause, without, fails } in tables.iter().copied().flatten() {
        let mut run = |text: &str, awaited| {
            failed(&Subject::new(&stream, join, &join.unit::<Maps, u64>(pause, text)), &mut rng, awaited)
        };
        if passed.insert(*pause) {
            let failed = run(&guarded, &[]);
            assert!(failed.is_empty(), "{join:?} as it is fails {failed:?} where {pause:?}");
        }
        let failed = run(&without.apply(&guarded), fails);
        if !fails.iter().all(|check| failed.contains(check)) {
            needless.push(format!("{name}: {failed:?} of {fails:?}"));
        }
    }
    assert!(needless.is_empty(), "{join:?} passes a check without its guard: {needless:#?}");
}

/// Every edit fits the templates; this needs no device.
#[test]
fn each_is_there() {
    let guarded = templates();
    let tables = [
        STATUS_WORDS,
        OF_SERVER,
        OF_CHAIN,
        OF_GROUPS,
        OF_LOOK_BACK,
        OF_COLUMNS,
        OF_COOPERATIVE,
        OF_BULK_STORES,
        OF_TILES,
    ];
    for guard in tables.into_iter().flatten() {
        guard.without.apply(&guarded);
    }
}

#[test]
fn of_the_server() {
    if is_alone(of_the_server) {
        each_is_needed(SERVER, &[STATUS_WORDS, OF_SERVER]);
    }
}

#[test]
fn of_the_chain() {
    if is_alone(of_the_chain) {
        each_is_needed(CHAINED, &[STATUS_WORDS, OF_CHAIN]);
    }
}

#[test]
fn of_look_back() {
    if is_alone(of_look_back) {
        each_is_needed(LOOK_BACK, &[STATUS_WORDS, OF_GROUPS, OF_LOOK_BACK]);
    }
}

#[test]
fn of_columns() {
    if is_alone(of_columns) {
        each_is_needed(Join::Columns, &[STATUS_WORDS, OF_GROUPS, OF_COLUMNS]);
    }
}

#[test]
fn of_the_cooperative_launch() {
    if is_alone(of_the_cooperative_launch) {
        each_is_needed(COOPERATIVE, &[STATUS_WORDS, OF_COOPERATIVE]);
    }
}

#[test]
fn of_bulk_stores() {
    let has_bulk_copies = context().is_some_and(|context| context.compute_capability().unwrap().0 >= 9);
    if has_bulk_copies && is_alone(of_bulk_stores) {
        each_is_needed(BULK, &[OF_BULK_STORES]);
    }
}

#[test]
fn of_tiles() {
    if is_alone(of_tiles) {
        each_is_needed(SERVER, &[OF_TILES]);
    }
}
