//! Writes the translation units of the catalog, each of one or more kernels, compiles what it can with NVRTC, and embeds both.
//!
//! Without NVRTC the library still builds: it runs on the CPU, and on a GPU where a compiler is found at run time.

#[macro_use]
#[path = "src/catalog.rs"]
mod catalog;
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "src/cuda"]
mod cuda {
    pub(super) mod contract;
    pub(super) mod nvrtc;
    pub(super) mod tuning;
    pub(super) mod unit;
    // Of each primitive the text of its units and the shapes that it needs; the rest of a folder is the library's.
    macro_rules! primitives {
        ($($primitive:ident $(with $contract:ident)?;)*) => { $(
            pub(super) mod $primitive {
                $( pub(crate) mod $contract; )?
                pub(crate) mod tuning;
                pub(crate) mod unit;
            }
        )* };
    }
    primitives! { scan with contract; compact with contract; offsets; segments with contract; sort with contract; }
}

use cuda::compact::unit::{Choice, Column, CompactUnit, FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES, Test};
use cuda::nvrtc::{FLAGS, Failure, Nvrtc, Target};
use cuda::offsets::unit::OffsetsUnit;
use cuda::scan::unit::Unit;
use cuda::segments::unit::segments_source;
use cuda::sort::unit::{KeyKind, SortUnit};
use cuda::unit::{Type, included};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

/// PTX for machines that no cubin fits: Turing and newer, Hopper and newer.
const PTX: [u32; 2] = [75, 90];

fn main() {
    for input in ["build.rs", "src/catalog.rs", "cuda-templates"] {
        println!("cargo::rerun-if-changed={input}");
    }
    for file in ["contract", "nvrtc", "tuning", "unit"] {
        println!("cargo::rerun-if-changed=src/cuda/{file}.rs");
    }
    for primitive in ["scan", "compact", "segments", "sort"] {
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/contract.rs");
    }
    for primitive in ["scan", "compact", "offsets", "segments", "sort"] {
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/tuning.rs");
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/unit.rs");
    }
    for variable in ["PARASCAN_CUDA_ARCHS", "PARASCAN_NVRTC", "CUDA_PATH", "CUDA_HOME", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let units = units();
    let templates = templates(&out);
    let templates: Vec<_> = templates.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let targets = if env::var_os("DOCS_RS").is_some() { Vec::new() } else { targets() };
    let images = if targets.is_empty() { Vec::new() } else { compile(&units, &templates, &targets, &out) };
    embed(&units, &images, &out);
    if env::var_os("CARGO_FEATURE_CUB").is_some() {
        versus_cub(&out);
    }
}

/// What to compile for, from `PARASCAN_CUDA_ARCHS` (as in `80,90`; `none` for nothing).
fn targets() -> Vec<Target> {
    let architectures = env::var("PARASCAN_CUDA_ARCHS").unwrap_or_else(|_| "80,90".into());
    if architectures.trim() == "none" {
        return Vec::new();
    }
    let cubins = architectures.split(',').map(|architecture| {
        let digits = architecture.trim().trim_start_matches("sm_");
        Target::Cubin(
            digits
                .parse()
                .unwrap_or_else(|_| panic!("PARASCAN_CUDA_ARCHS={architectures}: not a list such as 80,90, nor none")),
        )
    });
    cubins.chain(PTX.map(Target::Ptx)).collect()
}

// ---- the catalog as units ------------------------------------------------------------------------------------------------

/// An element of the catalog.
struct Element {
    name: &'static str,
    cuda: &'static str,
    bits: &'static str,
    key: &'static str,
}

/// A row of the catalog: an operator on some elements.
struct Row {
    operator: &'static str,
    elements: &'static [&'static str],
    /// Of each element.
    pairs: &'static [&'static str],
    form: &'static str,
    lift: &'static str,
    alone: &'static str,
    combine: &'static str,
    lower: &'static str,
}

macro_rules! table {
    (elements { $($element:ident $name:literal bits $bits:ident key $key:ident;)* } operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => {
        const ELEMENTS: &[Element] = &[$( Element {
            name: stringify!($element), cuda: $name, bits: stringify!($bits), key: stringify!($key),
        } ),*];
        const ROWS: &[Row] = &[$( $( Row {
            operator: stringify!($op), elements: &[$( stringify!($t) ),*], pairs: &[$( pairs!($op $t) ),*], form: stringify!($form),
            lift: lift!($form), alone: alone!($form), combine: $cuda, lower: lower!($form),
        }, )* )*];
    };
}
catalog!(table);

/// The text of every unit of the catalog, and the pairs of operator and element that it serves.
fn units() -> Vec<(String, Vec<String>)> {
    let element = |name: &str| {
        ELEMENTS.iter().find(|element| element.name == name).unwrap_or_else(|| panic!("no element {name}"))
    };
    let size = |name: &str| match name {
        "i8" | "u8" => 1,
        "i16" | "u16" | "f16" | "bf16" => 2,
        "i32" | "u32" | "f32" => 4,
        _ => 8,
    };
    let typed = |name: &str| Type { cuda: element(name).cuda, size: size(name), align: size(name), fields: &[] };
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in ROWS {
        for (&name, &pairs) in row.elements.iter().zip(row.pairs) {
            let (seen_as, carry) = match row.form {
                "Same" | "NanLast" | "NanFirst" => (name, name),
                "Bits" => (element(name).bits, element(name).bits),
                "Widened" => (name, "f32"),
                "KeyNanLast" | "KeyNanFirst" => (name, element(name).key),
                form => panic!("build.rs does not know the form {form}"),
            };
            let unit = Unit {
                element: typed(seen_as),
                carry: typed(carry),
                lift: row.lift,
                alone: row.alone,
                combine: row.combine,
                lower: row.lower,
                pairs,
            };
            units.entry(unit.source("scan/kernels.cuh")).or_default().push(format!("{}<{name}>", row.operator));
        }
    }
    for (unit, name) in compactions() {
        units.entry(unit).or_default().push(name);
    }
    for (size, offset) in [(4, 4), (4, 8), (8, 8)] {
        let name = format!("offsets of {offset} bytes from sizes of {size}");
        units.entry(OffsetsUnit { size, offset }.source()).or_default().push(name);
    }
    units.entry(segments_source()).or_default().push("segments".to_owned());
    for (unit, name) in sorts() {
        units.entry(unit).or_default().push(name);
    }
    units.into_iter().collect()
}

/// The text of each kernel of compaction that is built in: by comparisons, flags, bits and of equal neighbours, for every size.
fn compactions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: String, choice: Choice, columns: [Column; 2], ways: usize| {
        let kind = if ways == 1 { "compact" } else { "partition" };
        all.push((CompactUnit { choice, columns, ways }.source(), format!("{kind} {name}")));
    };
    let (first, nothing) = (Column::Staged, Column::None);
    for (bits, size) in [("unsigned char", 1), ("unsigned short", 2), ("unsigned int", 4), ("unsigned long long", 8)] {
        let item = Type { cuda: bits, size, align: size, fields: &[] };
        let range = format!("struct {{ {bits} low, span; }}");
        let parameters = Type { cuda: &range, size: 2 * size, align: size, fields: &[] };
        let floats: &[&str] = match size {
            1 => &[],
            2 => &["f16", "bf16"],
            4 => &["float"],
            _ => &["double"],
        };
        let by_range = [("integers", INTEGER_RANGE), ("floats", FLOAT_RANGE)];
        for (what, keeps) in by_range.into_iter().take(if floats.is_empty() { 1 } else { 2 }) {
            for ways in [1, 2] {
                let name = format!("{what} of {size} bytes by a range");
                add(name, Choice::Items(Test { item, parameters, keeps }, None), [first, nothing], ways);
            }
        }
        add(format!("equal integers of {size} bytes"), Choice::Distinct { item, same: SAME }, [first, nothing], 1);
        for cuda in floats {
            let (item, same) =
                (Type { cuda, size, align: size, fields: &[] }, if size == 2 { SAME_HALVES } else { SAME });
            add(format!("equal {cuda}"), Choice::Distinct { item, same }, [first, nothing], 1);
        }
    }
    for size in [1, 2, 4, 8, 16] {
        let items = [Column::Plain { size, align: size }, nothing];
        add(format!("items of {size} bytes by flags"), Choice::Flags, items, 1);
        add(format!("items of {size} bytes by bits"), Choice::Bits, items, 1);
    }
    all
}

/// The text of each kernel of a sort that is built in: of all keys alone, and of the wider ones with 4 bytes beside them. Integers with
/// a sign share those of the others.
fn sorts() -> Vec<(String, String)> {
    let integers = [1, 2, 4, 8].map(|key| (key, KeyKind::Unsigned));
    let floats = [(2, 10), (2, 7), (4, 23), (8, 52)].map(|(key, mantissa)| (key, KeyKind::Float { mantissa }));
    let mut all = Vec::new();
    for (key, kind) in integers.into_iter().chain(floats) {
        for payload in [None, Some((4, 4))] {
            if payload.is_none() || key >= 4 {
                let beside = if payload.is_some() { " and 4 bytes beside them" } else { "" };
                let name = format!("sort of {kind:?} keys of {key} bytes{beside}");
                all.push((SortUnit { key, kind, payload }.source(), name));
            }
        }
    }
    all
}

// ---- templates ---------------------------------------------------------------------------------------------------------------

/// The templates, by their paths in `cuda-templates`, and the headers that Rust generates. Writes `templates.rs`, which the library includes: the same list.
fn templates(out: &Path) -> Vec<(String, String)> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("cuda-templates");
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let (mut all, mut code) = (Vec::new(), String::from("&[\n"));
    for file in entries(&root).iter().filter(|path| path.is_dir()).flat_map(|folder| entries(folder)) {
        if file.extension().is_some_and(|extension| extension == "cuh") {
            let path = file.strip_prefix(&root).expect("a file of it").to_string_lossy().replace('\\', "/");
            code += &format!("    ({path:?}, include_str!({file:?})),\n");
            all.push((path, fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))));
        }
    }
    // The headers of what both sides share, which stand in no file of the repository.
    for (path, text) in [
        ("compact/contract.cuh", cuda::compact::contract::text()),
        ("scan/contract.cuh", cuda::scan::contract::text()),
        ("segments/contract.cuh", cuda::segments::contract::text()),
        ("sort/contract.cuh", cuda::sort::contract::text()),
    ] {
        let file = out.join("contracts").join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("OUT_DIR can be written");
        fs::write(&file, &text).expect("OUT_DIR can be written");
        code += &format!("    ({path:?}, include_str!({file:?})),\n");
        all.push((path.to_owned(), text));
    }
    fs::write(out.join("templates.rs"), code + "]\n").expect("OUT_DIR can be written");
    all
}

// ---- compiling ---------------------------------------------------------------------------------------------------------------

/// Every unit for every target, compressed, from the cache in `out` where nothing that goes into it has changed.
fn compile(
    units: &[(String, Vec<String>)],
    templates: &[(&str, &str)],
    targets: &[Target],
    out: &Path,
) -> Vec<Vec<PathBuf>> {
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(reason) => {
            println!(
                "cargo::warning=no NVRTC, so no GPU kernels are built in ({reason}); `pip install nvidia-cuda-nvrtc` \
                 installs it, PARASCAN_NVRTC=/path/to/libnvrtc.so names one, PARASCAN_CUDA_ARCHS=none does without"
            );
            return Vec::new();
        }
    };
    let cache = out.join("kernels");
    fs::create_dir_all(&cache).expect("OUT_DIR can be written");
    // One compilation gives machine code and PTX.
    let mut by_capability: BTreeMap<u32, Vec<Target>> = BTreeMap::new();
    for &target in targets {
        by_capability.entry(target.capability()).or_default().push(target);
    }
    let jobs: Vec<(usize, &[Target])> =
        (0..units.len()).flat_map(|unit| by_capability.values().map(move |targets| (unit, &targets[..]))).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(unit, targets)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (source, pairs) = &units[unit];
                    let files: Vec<_> = targets
                        .iter()
                        .map(|&target| cache.join(image_name(source, templates, target, &nvrtc)))
                        .collect();
                    if files.iter().all(|file| file.exists()) || failed.lock().expect("no panic here").is_some() {
                        continue;
                    }
                    match nvrtc.images(&format!("{}.cu", pairs[0]), source, templates, targets, &[]) {
                        Ok(images) => {
                            for (file, image) in files.iter().zip(images) {
                                let unfinished = file.with_extension("unfinished");
                                fs::write(&unfinished, miniz_oxide::deflate::compress_to_vec(&image, 6))
                                    .and_then(|()| fs::rename(&unfinished, file))
                                    .expect("OUT_DIR can be written");
                            }
                        }
                        Err(Failure::Log(words) | Failure::Call(words)) => {
                            *failed.lock().expect("no panic here") =
                                Some(format!("{} for {targets:?}:\n{words}", pairs[0]));
                        }
                    }
                }
            });
        }
    });
    if let Some(words) = failed.into_inner().expect("no panic here") {
        panic!("NVRTC {:?} at {} refused {words}", nvrtc.version(), nvrtc.path().display());
    }
    let used: Vec<Vec<PathBuf>> = units
        .iter()
        .map(|(source, _)| {
            targets.iter().map(|&target| cache.join(image_name(source, templates, target, &nvrtc))).collect()
        })
        .collect();
    for stale in fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if !used.iter().flatten().any(|file| *file == stale) {
            let _ = fs::remove_file(stale);
        }
    }
    used
}

/// A name that changes with all that goes into the image: the unit, the templates it includes, the flags, the compiler.
fn image_name(source: &str, templates: &[(&str, &str)], target: Target, nvrtc: &Nvrtc) -> String {
    let mut hasher = DefaultHasher::new();
    (source, FLAGS, nvrtc.version()).hash(&mut hasher);
    for (_, text) in included(templates, source) {
        text.hash(&mut hasher);
    }
    match target {
        Target::Cubin(capability) => format!("{:016x}.sm_{capability}.cubin", hasher.finish()),
        Target::Ptx(capability) => format!("{:016x}.compute_{capability}.ptx", hasher.finish()),
    }
}

// ---- embedding ----------------------------------------------------------------------------------------------------------------

/// Writes `units.rs`, which the library includes: each unit's text and its images.
fn embed(units: &[(String, Vec<String>)], images: &[Vec<PathBuf>], out: &Path) {
    let mut code = String::from("&[\n");
    for (i, (source, pairs)) in units.iter().enumerate() {
        code += &format!("    // {}\n    BuiltIn {{ source: {source:?}, images: &[\n", pairs.join(", "));
        for file in images.get(i).into_iter().flatten() {
            let name = file.file_name().expect("a file").to_string_lossy();
            let target = name.split('.').nth(1).expect("as in image_name");
            let (kind, capability) = target.split_once('_').expect("as in image_name");
            let kind = if kind == "sm" { "Cubin" } else { "Ptx" };
            code += &format!("        (Target::{kind}({capability}), include_bytes!({file:?})),\n");
        }
        code += "    ] },\n";
    }
    code += "]\n";
    fs::write(out.join("units.rs"), code).expect("OUT_DIR can be written");

    // The same units as files, for a reader and for other compilers.
    let sources = out.join("units");
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).expect("OUT_DIR can be written");
    for (source, pairs) in units {
        fs::write(sources.join(format!("{}.cu", pairs[0])), source).expect("OUT_DIR can be written");
    }
}

// ---- CUB, for benches/versus (feature `cub`) ------------------------------------------------------------------------------

/// Compiles CUB's scans with nvcc and links them and the static CUDA runtime into the benches.
fn versus_cub(out: &Path) {
    const SOURCE: &str = "benches/versus/cub.cu";
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=PARASCAN_NVCC");
    let nvcc = nvcc();
    let architectures = match env::var("PARASCAN_CUDA_ARCHS") {
        Ok(named) if named.trim() != "none" => named,
        _ => "80,90".into(),
    };
    let generate = architectures.split(',').map(|architecture| {
        let digits = architecture.trim().trim_start_matches("sm_");
        format!("-gencode=arch=compute_{digits},code=[sm_{digits},compute_{digits}]")
    });
    let mut flags = vec!["-lib".into(), "-O3".into(), "-std=c++17".into(), "--threads=0".into()];
    flags.extend(generate);

    // Minutes of work, so the archive is kept under a name that changes with all that goes into it.
    let (source, version) = (fs::read(SOURCE).expect(SOURCE), run(Command::new(&nvcc).arg("--version")));
    let mut hasher = DefaultHasher::new();
    (source, &flags, &nvcc, version).hash(&mut hasher);
    let archive = out.join(format!("versus_cub.{:016x}.a", hasher.finish()));
    if !archive.exists() {
        let unfinished = out.join("versus_cub.unfinished.a");
        let _ = fs::remove_file(&unfinished);
        run(Command::new(&nvcc).args(&flags).arg("-o").arg(&unfinished).arg(SOURCE));
        fs::rename(&unfinished, &archive).expect("OUT_DIR can be written");
    }

    // The runtime lies beside nvcc, and is static, so that the bench runs where there is a driver and no toolkit.
    let root =
        fs::canonicalize(&nvcc).ok().and_then(|nvcc| Some(nvcc.parent()?.parent()?.to_path_buf())).unwrap_or_default();
    let runtime = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"]
        .map(|folder| root.join(folder).join("libcudart_static.a"))
        .into_iter()
        .find(|file| file.exists());
    let link = |argument: &str| println!("cargo::rustc-link-arg-benches={argument}");
    link(&archive.to_string_lossy());
    link(&runtime.map_or("-lcudart_static".into(), |file| file.to_string_lossy().into_owned()));
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
    let cpp = run(Command::new(compiler).arg("-print-file-name=libstdc++.a"));
    link(if Path::new(cpp.trim()).is_absolute() { cpp.trim() } else { "-lstdc++" });
    for library in ["-lm", "-ldl", "-lrt", "-lpthread"] {
        link(library);
    }

    // Which commit the numbers are of.
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if let (Some(commit), Some(log)) = (git(&["rev-parse", "HEAD"]), git(&["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rustc-env=PARASCAN_COMMIT={commit}");
        println!("cargo::rerun-if-changed={log}");
    }
}

/// nvcc: the one named, else on PATH, else where toolkits lie.
fn nvcc() -> PathBuf {
    if let Some(named) = env::var_os("PARASCAN_NVCC").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        assert!(named.exists(), "PARASCAN_NVCC={}: there is no such file", named.display());
        return named;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let toolkits = homes.chain([PathBuf::from("/usr/local/cuda")]).map(|home| home.join("bin"));
    env::split_paths(&path).chain(toolkits).map(|folder| folder.join("nvcc")).find(|file| file.exists()).unwrap_or_else(|| {
        panic!(
            "the feature `cub` compiles CUB's scans with nvcc, and there is none on PATH, in CUDA_HOME, in CUDA_PATH or in \
             /usr/local/cuda: name it in PARASCAN_NVCC=/path/to/nvcc, or build without the feature"
        )
    })
}

/// What the command prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} cannot be run: {e}"));
    if !output.status.success() {
        panic!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}
