//! The integration tests, but for those with a package of their own, are one binary, so the generic code
//! that they share is compiled once. It is compiled without optimisation, but for what `optimised` names.

#[macro_use]
#[path = "../src/catalog.rs"]
#[allow(unused_macros)]
mod catalog;
#[macro_use]
extern crate common;
extern crate optimised as _; // what it has compiled is not compiled again here

mod bad_input;
mod compact;
mod cpu;
mod device;
mod length;
mod machines;
mod networks;
mod properties;
mod reduce;
mod scan;
mod sort;
mod user;
