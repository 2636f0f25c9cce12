//! The tests of what works on parts of an array: its segments, or the columns of a matrix.

#[macro_use]
extern crate common;
extern crate optimised as _; // what it has compiled is not compiled again here

#[path = "../columns/mod.rs"]
mod columns;
#[path = "../offsets/mod.rs"]
mod offsets;
#[path = "../segmented/mod.rs"]
mod segmented;
#[path = "../segments/mod.rs"]
mod segments;
