//! All integration tests are one binary, so the generic code that they share is compiled once.

#[macro_use]
#[path = "../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
#[macro_use]
mod common;

mod bad_input;
mod columns;
mod compact;
mod cpu;
mod device;
#[cfg(feature = "laws")]
mod laws;
mod machines;
mod networks;
mod offsets;
#[cfg(feature = "laws")]
mod properties;
mod reduce;
mod scan;
mod segmented;
mod segments;
mod sort;
mod user;
