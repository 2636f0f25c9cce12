//! Programs that must not compile, with messages that say what to write instead.
//!
//! Each case in `refused` has a twin of the same name in `accepted`, the same program without the
//! mistake. So a case is refused for its mistake alone. The twins are modules of this program. The
//! messages are those of rustc 1.95; with another compiler they are not compared.
//! `PARASCAN_MESSAGES=overwrite cargo test --test compile_fail` rewrites the messages.
//!
//! rustc only checks the cases, against the library that this program is linked to. What the compiler
//! refuses when it builds, as `.exclusive()` of an operator without identity, is an example in the
//! documentation.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

mod accepted;

fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
}

/// The cases, in order.
fn cases() -> Vec<PathBuf> {
    let entries = fs::read_dir("refused").expect("the folder of cases");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut cases: Vec<_> = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
    cases.sort();
    cases
}

/// What rustc says of a case, `None` if it accepts it.
fn refusal(case: &Path) -> Option<String> {
    let mut rustc = rustc();
    rustc.args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "--diagnostic-width=140"]);
    rustc.args(parascan_externs::externs!()).arg("--out-dir").arg(env!("CARGO_TARGET_TMPDIR")).arg(case);
    let output = rustc.output().expect("rustc is there");
    (!output.status.success()).then(|| normalised(&String::from_utf8(output.stderr).expect("messages in UTF-8")))
}

/// Messages without what changes from machine to machine, and with every edit of the library: paths,
/// and the numbers of lines outside of the case.
fn normalised(messages: &str) -> String {
    let repository = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let repository = fs::canonicalize(repository).expect("the repository").display().to_string();
    let (mut lines, mut in_case) = (Vec::new(), true);
    for line in messages.lines() {
        let text = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
        let number = line[..line.len() - text.len()].trim();
        if ["error: aborting due to", "For more information about", "Some errors have detailed explanations"]
            .iter()
            .any(|end| line.starts_with(end))
        {
            continue;
        } else if let Some((arrow, place)) = text.split_once(' ').filter(|(arrow, _)| ["-->", ":::"].contains(arrow)) {
            in_case = place.starts_with("refused/");
            let file = place.split(':').next().expect("a path").replace(&repository, "$REPOSITORY");
            let file = file.split_once("/registry/src/").map_or(file.as_str(), |(_, file)| file);
            let file = file.split_once("/library/").map_or(file, |(_, file)| file);
            lines.push(format!("   {arrow} {}", if in_case { place } else { file }));
        } else if text.starts_with(['|', '=', '.']) || !number.is_empty() {
            lines.push(format!("{:>2} {text}", if in_case { number } else { "" }));
        } else if text.starts_with("and ") && text.ends_with(" others") {
            lines.push("     and others".into());
        } else if line.starts_with(' ') {
            lines.push(format!("     {text}"));
        } else {
            lines.push(line.into());
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n").trim().to_owned() + "\n"
}

#[test]
fn what_must_not_compile_says_what_to_write_instead() {
    let version = String::from_utf8(rustc().arg("--version").output().expect("rustc is there").stdout);
    let version = version.expect("a version in UTF-8");
    let overwrite = env::var_os("PARASCAN_MESSAGES").is_some();
    let compare = overwrite || version.starts_with("rustc 1.95.");
    if !compare {
        eprintln!("the messages are those of rustc 1.95, and are not compared with those of {version}");
    }
    let (cases, next) = (cases(), AtomicUsize::new(0));
    let check = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(message) = refusal(case) else { panic!("{} compiles", case.display()) };
            let expected = case.with_extension("stderr");
            if overwrite {
                fs::write(expected, message).expect("the message is written");
            } else if compare {
                let expected = fs::read_to_string(&expected).expect("the expected message");
                assert!(message == expected, "{}: expected\n{expected}\nand got\n{message}", case.display());
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(check);
        }
    });
}

#[test]
fn every_case_has_a_twin() {
    let names = cases().into_iter().map(|case| case.file_name().expect("a name").to_str().expect("ASCII").to_owned());
    let refused: BTreeSet<String> = names.collect();
    assert!(!refused.is_empty());
    assert_eq!(refused, accepted::NAMES.iter().copied().map(String::from).collect());
}
