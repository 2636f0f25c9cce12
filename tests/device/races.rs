//! Deliberate races, which racecheck must report: otherwise its silence on the walks
//! (`sanitize.rs`) means nothing. A race need not give a wrong result, so the tests are ignored
//! except under compute-sanitizer.

use super::subject::{Join, Maps, Subject, templates};
use crate::common::edit::{Edit, once};
use crate::common::{Options, Rng, address, context, p};
use parascan::cuda::Kernels;

/// The server's warps post prefixes by plain stores and loads. racecheck accepts a plain store and
/// an atomic load, so both sides are edited.
const PLAIN_MAILBOX: [Edit; 2] = [
    once(
        "store_relaxed_shared(word + i, Status<C>::mark(words.word[i], mark));",
        "*(volatile u64 *)(word + i) = Status<C>::mark(words.word[i], mark);",
    ),
    once("seen[i] = load_relaxed_shared(word + i);", "seen[i] = *(volatile u64 *)(word + i);"),
];
/// One warp reads all warps' aggregates without waiting for them.
const NO_BARRIER: [Edit; 1] = [once(
    "if (lane == WARP - 1) shared.carry[warp] = upto;
        __syncthreads();",
    "if (lane == WARP - 1) shared.carry[warp] = upto;",
)];

fn edited(edits: &[Edit]) -> String {
    edits.iter().fold(templates(), |text, edit| edit.apply(&text))
}

/// A scan by a server whose warps hand on the prefixes of three groups of tiles.
fn scan_with(edits: &[Edit]) {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let join = Join::Server { warps: 4, vectors: 1, spread: 64 };
    let text = edited(edits);
    let subject = Subject::new(&stream, join, &join.unit::<Maps, u64>("0", &text));
    let mut rng = Rng::new();
    let input: Vec<u64> = (0..70 * join.tile::<u64>()).map(|_| rng.next() | 1).collect();
    subject.scan(&input, Options { exclusive: false, init: None, reverse: false }, (0, 0), 0);
}

/// The templates hold the edited text; this needs no device.
#[test]
fn each_is_there() {
    edited(&PLAIN_MAILBOX);
    edited(&NO_BARRIER);
}

#[test]
#[ignore = "racecheck must report it"]
fn a_mailbox_of_plain_words() {
    scan_with(&PLAIN_MAILBOX);
}

#[test]
#[ignore = "racecheck must report it"]
fn no_barrier_before_the_warps_are_joined() {
    scan_with(&NO_BARRIER);
}

/// The words of a mailbox are relaxed: a thread that sees a post need not see earlier writes.
#[test]
#[ignore = "racecheck must report it"]
fn a_value_beside_the_mailbox() {
    const SOURCE: &str = r#"
#include "core/handover.cuh"
extern "C" __global__ void __launch_bounds__(2 * WARP) beside(u32 *out) {
    __shared__ Mailbox<u32> mailbox;
    __shared__ u32 value;
    if (threadIdx.x == 0) {
        mailbox.clear();
        value = 0; // else the compiler knows that it is 17
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        value = 17;
        mailbox.post(1, 1);
    } else if (threadIdx.x == WARP) {
        u32 posted;
        while (!mailbox.poll(posted, 1)) {}
        *out = value;
    }
}
"#;
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let kernels = Kernels::compile(&context, "a value beside the mailbox", SOURCE, &["beside"]).unwrap();
    let output = stream.alloc_zeros::<u32>(1).unwrap();
    let out = address(&output, &stream);
    // SAFETY: the argument is the kernel's; the buffer outlives it.
    unsafe { kernels.launch(0, 1, 64, stream.cu_stream(), &[p(&out)]) }.unwrap();
    stream.synchronize().unwrap();
}
