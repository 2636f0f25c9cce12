//! What must not compile does not, and the message says what to write instead.
//!
//! Each case in `compile_fail/refused` has a twin of the same name in `compile_fail/accepted`, the same program with the
//! mistake put right: a case is refused for its mistake and for nothing else. The messages are those of the compiler that
//! `rustc --version` names here: 1.95.0; `TRYBUILD=overwrite cargo test --test compile_fail` writes them anew for another.

use std::collections::BTreeSet;
use std::fs;

#[test]
fn what_must_not_compile_says_what_to_write_instead() {
    let cases = trybuild::TestCases::new();
    // With a case that passes trybuild builds instead of checking, without which the constant that `.exclusive()` asserts
    // would never be evaluated.
    cases.pass("tests/compile_fail/accepted/*.rs");
    cases.compile_fail("tests/compile_fail/refused/*.rs");
}

#[test]
fn every_case_has_a_twin() {
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(format!("tests/compile_fail/{folder}")).expect("the folder of cases");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name in ASCII"));
        names.filter(|name| name.ends_with(".rs")).collect()
    };
    let (refused, accepted) = (names("refused"), names("accepted"));
    assert!(!refused.is_empty());
    assert_eq!(refused, accepted);
}
