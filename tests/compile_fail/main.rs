//! Programs that must not compile, with messages that say what to write instead.
//!
//! Each case in `refused` has a twin of the same name in `accepted`, the same program without the
//! mistake. So a case is refused for its mistake alone. The twins are modules of this program. The
//! messages are those of rustc 1.95; with another compiler they are not compared.
//! `TRYBUILD=overwrite cargo test --test compile_fail` rewrites the messages.
//!
//! trybuild only checks the cases, all at once. What the compiler refuses when it builds, as
//! `.exclusive()` of an operator without identity, is an example in the documentation.

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, fs};

mod accepted;

#[test]
fn what_must_not_compile_says_what_to_write_instead() {
    // The library is checked again for the cases, which need no kernels.
    for (name, value) in [("PARASCAN_CUDA_ARCHS", "none"), ("CARGO_INCREMENTAL", "0")] {
        // SAFETY: the other test of this binary does not read the environment.
        unsafe { env::set_var(name, value) };
    }
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let rustc = String::from_utf8(rustc.expect("rustc is there").stdout).expect("a version in UTF-8");
    if rustc.starts_with("rustc 1.95.") || env::var_os("TRYBUILD").is_some() {
        trybuild::TestCases::new().compile_fail("refused/*.rs");
    } else {
        eprintln!("what is refused was not compiled: its messages are those of rustc 1.95, and this is {rustc}");
    }
}

#[test]
fn every_case_has_a_twin() {
    let entries = fs::read_dir("refused").expect("the folder of cases");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in ASCII"));
    let refused: BTreeSet<String> = names.filter(|name| name.ends_with(".rs")).collect();
    assert!(!refused.is_empty());
    assert_eq!(refused, accepted::NAMES.iter().copied().map(String::from).collect());
}
