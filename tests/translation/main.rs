//! Random bodies, translated: what the macros make of a Rust body is the same function in C++, and whatever they are given,
//! they translate or refuse it.
//!
//! `cargo test -p parascan-translation` compares a batch of bodies with their texts, compiled for the host with every undefined
//! operation reported, and on the GPU where there is one. The batch is compiled into the test, so the binary needs no Rust where it
//! runs. `PARASCAN_BODIES=2000 PARASCAN_BODIES_SEED=7` builds another batch. The tests of `syntax`
//! are bolero's targets, for a fuzzer too: see `macros/README.md`.

mod batch;
mod compare;
mod device;
mod generate;
mod host;
mod syntax;
mod types;

// The translation itself: a crate of macros exports nothing else.
#[path = "../../macros/src/check.rs"]
mod check;
#[path = "../../macros/src/cpp.rs"]
#[allow(dead_code, reason = "the check of `element!`")]
mod cpp;
#[path = "../../macros/src/input.rs"]
mod input;
#[path = "../../macros/src/methods.rs"]
mod methods;
#[path = "../../macros/src/names.rs"]
mod names;
#[path = "../../macros/src/translate/mod.rs"]
mod translate;
