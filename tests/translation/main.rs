//! Random bodies: the translation of a Rust body is the same function in C++, and every input of
//! the macros is translated or refused.
//!
//! `cargo test -p parascan-translation` compares a batch of bodies with their texts: compiled for
//! the host under a sanitizer of undefined behaviour, and on the GPU if there is one. The batch is
//! compiled into the test, so the binary runs without Rust.
//! `PARASCAN_BODIES=2000 PARASCAN_BODIES_SEED=7` builds another batch.
//! The tests of `syntax` are bolero's targets, for a fuzzer too: see `macros/README.md`.

mod batch;
mod compare;
mod device;
mod generate;
mod host;
mod syntax;
mod types;

// The sources of the translation, since a crate of macros exports only macros.
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
