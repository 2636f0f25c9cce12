//! Programs that must not compile, with messages that say what to write instead.
//!
//! Each case in `refused` has a twin of the same name in `accepted`, the same program without the
//! mistake. So a case is refused for its mistake alone. The messages are
//! those of rustc 1.95; with another compiler only the twins are built. `TRYBUILD=overwrite cargo
//! test --test compile_fail` rewrites the messages.

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, fs};

#[test]
fn what_must_not_compile_says_what_to_write_instead() {
    // The library is built again for the cases, which need no kernels, and are not debugged.
    for (name, value) in [("PARASCAN_CUDA_ARCHS", "none"), ("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_INCREMENTAL", "0")]
    {
        // SAFETY: the other test of this binary does not read the environment.
        unsafe { env::set_var(name, value) };
    }
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into())).arg("--version").output();
    let rustc = String::from_utf8(rustc.expect("rustc is there").stdout).expect("a version in UTF-8");
    let cases = trybuild::TestCases::new();
    // A case that passes makes trybuild build instead of check: only a build evaluates the constant
    // that `.exclusive()` asserts.
    cases.pass("accepted/*.rs");
    if rustc.starts_with("rustc 1.95.") || env::var_os("TRYBUILD").is_some() {
        cases.compile_fail("refused/*.rs");
    } else {
        eprintln!(
            "the messages of what is refused were not compared: they are those of rustc 1.95, and this is {rustc}"
        );
    }
}

#[test]
fn every_case_has_a_twin() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).expect("the folder of cases");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in ASCII"));
        names.filter(|name| name.ends_with(".rs")).collect()
    };
    let (refused, accepted) = (names("refused"), names("accepted"));
    assert!(!refused.is_empty());
    assert_eq!(refused, accepted);
}
