//! The doors to the primitives: run-time types, addresses of other stacks, DLPack.

#[macro_use]
#[path = "../../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "shared with `tests/main.rs`, which uses the rest")]
mod common;

mod dlpack;
mod dynamic;
mod raw;
