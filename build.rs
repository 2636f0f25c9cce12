//! Generates the kernels.
fn main() {}
