//! Writes the batch: `PARASCAN_BODIES` random operators and predicates from the seed
//! `PARASCAN_BODIES_SEED`.
#![allow(dead_code, reason = "the tests use the rest")]

mod generate;
mod types;

use generate::{Case, Choices};
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The number of random bytes for a body.
const LENGTH: usize = 600;

fn main() {
    let number = |name: &str, default: u64| {
        println!("cargo::rerun-if-env-changed={name}");
        env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
    };
    for file in ["build.rs", "generate.rs", "generate/numbers.rs", "types.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let (count, seed) = (number("PARASCAN_BODIES", 200), number("PARASCAN_BODIES_SEED", 1));
    let (mut batch, mut all) = (String::new(), String::new());
    for i in 0..count {
        let bytes: Vec<u8> = (0..LENGTH).map(|k| mixed(mixed(mixed(seed) ^ i) ^ k as u64) as u8).collect();
        let case = Case::new(&mut Choices(&bytes));
        let definition = case.definition();
        let function = if case.functions[0].name == "keeps" { "predicate" } else { "operator" };
        writeln!(batch, "mod body_{i} {{\nuse super::*;\n{definition}}}").expect("a string takes all");
        writeln!(all, "{function}::<body_{i}::Body, {}>({i}, {definition:?}),", case.item.name()).expect("as above");
    }
    writeln!(batch, "pub(crate) fn all() -> Vec<Case> {{\nvec![\n{all}]\n}}").expect("as above");
    let directory = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&directory).join("batch.rs"), batch).expect("cargo's directory can be written to");
}

/// The end of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
