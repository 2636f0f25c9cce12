//! Compiles the texts for the host and runs them under a sanitizer of undefined behaviour.

use crate::batch::{Case, all};
use crate::compare::{N, difference, values};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, thread};

const RUST: &str = include_str!("../../cuda-templates/core/rust.cuh");
const TYPES: &str = include_str!("../../cuda-templates/core/types.cuh");
/// The inline PTX that the texts use, and the functions of `host.h` that replace it.
const INSTRUCTIONS: [(&str, &str); 2] = [
    (r#"asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));"#, "y = widen_f16(x.bits);"),
    (r#"asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));"#, "y.bits = narrow_f16(x);"),
];
/// The number of cases compiled at once.
const CASES_AT_ONCE: usize = 25;

/// The compiler: `CXX`, else `c++`.
fn compiler() -> Option<String> {
    let name = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    match Command::new(&name).arg("--version").output() {
        Ok(_) => Some(name),
        Err(e) => {
            assert_ne!(env::var("PARASCAN_REQUIRE_CXX").as_deref(), Ok("1"), "a C++ compiler is required: {name}: {e}");
            eprintln!("nothing is compiled for the host: {name}: {e}");
            None
        }
    }
}

#[test]
fn bodies_are_the_same_and_defined() {
    let Some(compiler) = compiler() else { return };
    let directory = env::temp_dir().join(format!("parascan-translation-{}", std::process::id()));
    fs::create_dir_all(directory.join("core")).expect("a temporary directory");
    let types = INSTRUCTIONS.iter().fold(TYPES.to_owned(), |text, (instruction, function)| {
        assert_eq!(text.matches(instruction).count(), 1, "{instruction}");
        text.replace(instruction, function)
    });
    for (name, text) in
        [("core/types.cuh", types.as_str()), ("core/rust.cuh", RUST), ("host.h", include_str!("host.h"))]
    {
        fs::write(directory.join(name), text).expect("the temporary directory can be written to");
    }

    let cases = all();
    let chunks: Vec<&[Case]> = cases.chunks(CASES_AT_ONCE).collect();
    let (next, threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(1, usize::from));
    let work = || {
        let mut wrong = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(cases) = chunks.get(i) else { return wrong };
            wrong.extend(differences(&compiler, &directory.join(i.to_string()), cases));
        }
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("its panic was shown")).collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} bodies; {}:\n\n{}",
        wrong.len(),
        cases.len(),
        directory.display(),
        wrong.join("\n")
    );
    fs::remove_dir_all(&directory).expect("the temporary directory can be removed");
}

/// The message of what is wrong with these cases.
fn differences(compiler: &str, path: &Path, cases: &[Case]) -> Vec<String> {
    let functions: Vec<_> = cases.iter().flat_map(|case| case.functions.iter().map(move |f| (case, f))).collect();
    let file = |extension: &str| -> PathBuf { path.with_extension(extension) };

    // ---- compile
    let (mut text, mut all) = (String::from("#include \"host.h\"\n"), String::new());
    for (_, f) in &functions {
        let name = &f.name;
        text += &format!("{}FUNCTION({name})\n", f.cuda);
        all += &format!("{{\"{name}\", {}, {}, {}, {name}}},\n", f.inputs[0].size, f.inputs[1].size, f.output.size);
        text += &format!("static_assert(sizeof({name}_::R) == {}, \"{name}\");\n", f.output.size);
    }
    text += &format!(
        "static const Function functions[] = {{\n{all}}};\n\
         int main(int, char **files) {{ return run_all(functions, files, {N}); }}\n"
    );
    fs::write(file("cpp"), text).expect("the temporary directory can be written to");
    let flags = ["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fno-strict-aliasing"];
    let sanitizers = "-fsanitize=undefined,float-cast-overflow";
    let compiled = Command::new(compiler)
        .args(flags)
        .arg("-I") // the templates include each other from their root on
        .arg(path.parent().expect("a file in the directory"))
        .args([sanitizers, "-o"])
        .args([file("run"), file("cpp")])
        .output()
        .expect("it has said its version");
    if !compiled.status.success() {
        return vec![words_of(
            &String::from_utf8_lossy(&compiled.stderr),
            &functions.iter().map(|(c, _)| *c).collect::<Vec<_>>(),
        )];
    }

    // ---- run
    let seed = |name: &str| {
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    };
    let inputs: Vec<[Vec<u8>; 2]> = functions
        .iter()
        .map(|(_, f)| [values(&f.inputs[0], seed(&f.name)), values(&f.inputs[1], !seed(&f.name))])
        .collect();
    fs::write(file("in"), inputs.concat().concat()).expect("the temporary directory can be written to");
    let ran = Command::new(file("run"))
        .args([file("in"), file("out")])
        .stderr(File::create(file("log")).expect("as above"))
        .status()
        .expect("it was compiled");
    let log = fs::read_to_string(file("log")).unwrap_or_default();
    assert!(ran.success(), "{ran}: {log}");

    // ---- compare
    let results = fs::read(file("out")).expect("it was written");
    let mut lines = log.lines().peekable();
    let (mut at, mut wrong) = (0, Vec::new());
    for ((case, f), inputs) in functions.iter().zip(&inputs) {
        let results_of_it = &results[at..at + N * f.output.size];
        at += N * f.output.size;
        let mut words: Vec<String> = difference(f, inputs, results_of_it).into_iter().collect();
        assert_eq!(lines.next(), Some(f.name.as_str()));
        while let Some(line) = lines.next_if(|line| !functions.iter().any(|(_, f)| f.name == *line)) {
            words.push(line.to_owned());
        }
        if !words.is_empty() {
            wrong.push(format!("{}\n{}{}:\n    {}\n", case.definition, f.cuda, f.name, words.join("\n    ")));
        }
    }
    wrong
}

/// The compiler's message, and the first body that it names.
fn words_of(log: &str, cases: &[&Case]) -> String {
    let first: String = log.lines().take(40).collect::<Vec<_>>().join("\n");
    let named = |case: &&&Case| case.functions.iter().any(|f| log.contains(&format!("{}:", f.name)));
    let case = cases.iter().find(named);
    case.map_or(first.clone(), |case| {
        let texts: String = case.functions.iter().map(|f| f.cuda.as_str()).collect();
        format!("{}\n{texts}\n{first}\n", case.definition)
    })
}
