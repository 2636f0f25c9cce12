//! The doors to the primitives: run-time types, addresses of other stacks, DLPack.

#[macro_use]
#[path = "../../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
extern crate common;

mod dlpack;
mod dynamic;
mod raw;
