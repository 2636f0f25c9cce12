//! All integration tests but those of the laws are one binary, so the generic code that they share is
//! compiled once. `tests/laws` shares little of it, and is compiled without optimisation.

#[macro_use]
#[path = "../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
extern crate common;

mod bad_input;
mod columns;
mod compact;
mod cpu;
mod device;
mod length;
mod machines;
mod networks;
mod offsets;
mod properties;
mod reduce;
mod scan;
mod segmented;
mod segments;
mod sort;
mod user;
