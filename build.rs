//! Writes the translation units of the catalog, each of one or more kernels, and embeds them.
//!
//! For the architectures that `PARASCAN_CUDA_ARCHS` names, the build also compiles the units with
//! NVRTC and embeds the images. It keeps the images in the user's cache of kernels, where the next
//! build and processes find them. If the variable is not set, the build compiles nothing: it embeds
//! the prebuilt PTX of the published packages, and a process compiles the kernels that it calls. With
//! `none` it embeds nothing.

#[macro_use]
#[path = "src/catalog.rs"]
mod catalog;
#[allow(dead_code, unreachable_pub, reason = "the library uses the rest")]
#[path = "src/cuda"]
mod cuda {
    pub(super) mod cache;
    pub(super) mod contract;
    pub(super) mod image;
    pub(super) mod nvrtc;
    pub(super) mod prebuilt;
    pub(super) mod ptx;
    pub(super) mod tuning;
    pub(super) mod unit;
    // From the folder of a primitive the build takes the text of its units and the shapes that the
    // text needs. The rest of the folder belongs to the library.
    macro_rules! primitives {
        ($($primitive:ident $(with $contract:ident)?;)*) => { $(
            pub(super) mod $primitive {
                $( pub(crate) mod $contract; )?
                pub(crate) mod tuning;
                pub(crate) mod unit;
            }
        )* };
    }
    primitives! {
        scan with contract; columns with contract; compact with contract; offsets; reduce; segments with contract;
        segmented with contract; segmented_sort with contract; sort with contract;
    }
}

use cuda::cache::Cache;
use cuda::columns::unit::{panels_key, panels_source};
use cuda::compact::unit::{Choice, Column, CompactUnit, FLOAT_RANGE, INTEGER_RANGE, SAME, SAME_HALVES, Test};
use cuda::image::{key, packed};
use cuda::nvrtc::{FLAGS, Failure, Nvrtc, Target};
use cuda::offsets::unit::OffsetsUnit;
use cuda::prebuilt;
use cuda::ptx;
use cuda::reduce::unit::{position_key, position_source, reduce_key, reduce_source};
use cuda::scan::unit::Unit;
use cuda::segmented::unit::{
    run_reduce_key, run_reduce_source, segmented_reduce_key, segmented_reduce_source, segmented_scan_key,
    segmented_scan_source,
};
use cuda::segmented_sort::unit::{KERNELS as SEGMENTED_SORT_KERNELS, segmented_sort_key, segmented_sort_source};
use cuda::segments::unit::{SEGMENTS_KEY, segments_source};
use cuda::sort::unit::{KeyKind, PAYLOAD_KEY, SortUnit, payload_source};
use cuda::unit::{Type, UnitKey, included, parts};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, fs};

fn main() {
    let begin = Instant::now();
    for input in ["build.rs", "src/catalog.rs", "cuda-templates"] {
        println!("cargo::rerun-if-changed={input}");
    }
    for file in ["cache", "contract", "image", "nvrtc", "prebuilt", "ptx", "tuning", "unit"] {
        println!("cargo::rerun-if-changed=src/cuda/{file}.rs");
    }
    for primitive in ["scan", "columns", "compact", "segmented", "segmented_sort", "segments", "sort"] {
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/contract.rs");
    }
    for primitive in
        ["scan", "columns", "compact", "offsets", "reduce", "segments", "segmented", "segmented_sort", "sort"]
    {
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/tuning.rs");
        println!("cargo::rerun-if-changed=src/cuda/{primitive}/unit.rs");
    }
    for variable in [
        "PARASCAN_CUDA_ARCHS",
        "PARASCAN_PREBUILT",
        "PARASCAN_PREBUILT_QUICKLY",
        "PARASCAN_NVRTC",
        "CUDA_PATH",
        "CUDA_HOME",
        "DOCS_RS",
    ] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let all = [units(), units_by_segment()];
    let [texts, texts_by_segment] = all.each_ref().map(|units| texts(units));
    let templates = templates(&out);
    let stubs: Vec<_> = templates.iter().map(|(path, _, stub)| (path.as_str(), stub.as_str())).collect();
    let templates: Vec<_> = templates.iter().map(|(path, text, _)| (path.as_str(), text.as_str())).collect();
    let by_segment = || prebuilt(&texts_by_segment, &stubs, PACKAGES_BY_SEGMENT);
    let images = match wanted() {
        Kernels::None => [Vec::new(), Vec::new()],
        Kernels::WhenCalled => {
            let prebuilt = prebuilt(&texts, &stubs, PACKAGES);
            if prebuilt.is_empty()
                && let Err(reason) = Nvrtc::find(None)
            {
                println!(
                    "cargo::warning=no NVRTC, which compiles kernels when they are called ({reason}); {NVRTC_HELP}"
                );
            }
            [prebuilt, by_segment()]
        }
        Kernels::For(targets) => {
            let compiled = compile(&texts, [&templates, &stubs], &targets, false, &out);
            [compiled.unwrap_or_else(|| prebuilt(&texts, &stubs, PACKAGES)), by_segment()]
        }
        Kernels::Prebuild(capability, folder) => {
            // The files are newer than this build, and `prebuilt/make` removes them: so each time it runs again.
            println!("cargo::rerun-if-changed={}", folder.display());
            let prebuild_all = |texts: &[(&str, &str)], quickly| {
                let images = compile(texts, [&templates, &stubs], &[Target::Ptx(capability)], quickly, &out);
                prebuild(texts, &stubs, &images.expect("prebuilt kernels need NVRTC"), &folder);
            };
            prebuild_all(&texts, false);
            if cfg!(feature = "prebuilt-segments") {
                prebuild_all(&texts_by_segment, env::var_os("PARASCAN_PREBUILT_QUICKLY").is_some());
            }
            [Vec::new(), Vec::new()]
        }
    };
    embed(&all, &images, &out);
    report(&images, begin, &out);
    if env::var_os("CARGO_FEATURE_CUB").is_some() {
        versus_cub(&out);
    }
}

/// The value of `PARASCAN_CUDA_ARCHS`.
enum Kernels {
    /// `none`: the build looks for no compiler.
    None,
    /// Not set: the prebuilt kernels, if there are any. A process compiles the kernels that it calls,
    /// if it has NVRTC.
    WhenCalled,
    /// A list as in `80,90`: machine code for each, and PTX of the newest, which newer devices run. By segment, and
    /// without NVRTC, the prebuilt kernels, if there are any.
    For(Vec<Target>),
    /// `PARASCAN_PREBUILT` names a folder, and `PARASCAN_CUDA_ARCHS` one architecture: PTX of it, in the packages
    /// of prebuilt kernels, which lie in the folder. The build embeds nothing. With `PARASCAN_PREBUILT_QUICKLY` kernels
    /// by segment are hardly optimised, for checks.
    Prebuild(u32, PathBuf),
}

fn wanted() -> Kernels {
    let named = env::var("PARASCAN_CUDA_ARCHS").unwrap_or_default();
    if let Some(folder) = env::var_os("PARASCAN_PREBUILT") {
        let capability = named.parse().expect("PARASCAN_CUDA_ARCHS names one architecture to prebuild for");
        return Kernels::Prebuild(capability, folder.into());
    }
    if named.trim() == "none" || env::var_os("DOCS_RS").is_some() {
        return Kernels::None;
    }
    if named.trim().is_empty() {
        return Kernels::WhenCalled;
    }
    let number = |architecture: &str| {
        let digits = architecture.trim().trim_start_matches("sm_");
        digits.parse().unwrap_or_else(|_| panic!("PARASCAN_CUDA_ARCHS={named}: not a list such as 80,90, nor none"))
    };
    let mut architectures: Vec<u32> = named.split(',').map(number).collect();
    architectures.sort_unstable();
    architectures.dedup();
    let newest = architectures.last().copied().map(Target::Ptx);
    Kernels::For(architectures.into_iter().map(Target::Cubin).chain(newest).collect())
}

// ---- the catalog as units

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
    /// For each element the type that combines two at once.
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

/// A unit of the catalog: its text, its key, and the names of its uses, as in `Sum<f32>`.
struct CatalogUnit {
    source: String,
    key: UnitKey,
    names: Vec<String>,
    /// What is compiled: the source, or a part of it for each kernel.
    texts: Vec<String>,
}

/// Units, in the order of their texts.
#[derive(Default)]
struct Units(BTreeMap<String, CatalogUnit>);

impl Units {
    fn add(&mut self, source: String, key: UnitKey, name: String) {
        self.add_in_parts(source, key, name, |source| vec![source.to_owned()]);
    }

    /// `parts`: what is compiled of a text.
    fn add_in_parts(&mut self, source: String, key: UnitKey, name: String, parts: impl FnOnce(&str) -> Vec<String>) {
        let unit = self.0.entry(source).or_insert_with_key(|source| CatalogUnit {
            source: source.clone(),
            key,
            names: Vec::new(),
            texts: parts(source),
        });
        assert_eq!(unit.key, key, "{name} and {} have one text and two keys", unit.names.concat());
        unit.names.push(name);
    }

    fn all(self) -> Vec<CatalogUnit> {
        let units: Vec<_> = self.0.into_values().collect();
        let keys: BTreeSet<u64> = units.iter().map(|unit| unit.key.0).collect();
        assert_eq!(keys.len(), units.len(), "two units of the catalog have one key");
        units
    }
}

/// Each operator of the catalog on each of its elements, with the operator's name and that of the pair.
fn operators() -> Vec<(Unit<'static>, &'static str, String)> {
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
    let mut all = Vec::new();
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
            all.push((unit, row.operator, format!("{}<{name}>", row.operator)));
        }
    }
    all
}

/// The units of the catalog, but for those by segment.
fn units() -> Vec<CatalogUnit> {
    let mut units = Units::default();
    for (unit, operator, name) in operators() {
        units.add(unit.source("scan/kernels.cuh"), unit.key(), name.clone());
        units.add(reduce_source(&unit), reduce_key(&unit), format!("reduce by {name}"));
        units.add(panels_source(&unit), panels_key(&unit), format!("scan and reduce by column by {name}"));
        if matches!(operator, "Max" | "Min") {
            units.add(position_source(&unit), position_key(&unit), format!("position of {name}"));
        }
    }
    compactions(&mut units);
    for (size, offset) in [(4, 4), (4, 8), (8, 8)] {
        let unit = OffsetsUnit { size, offset };
        units.add(unit.source(), unit.key(), format!("offsets of {offset} bytes from sizes of {size}"));
    }
    units.add(segments_source(), SEGMENTS_KEY, "segments".to_owned());
    units.add(payload_source(), PAYLOAD_KEY, "payload of a sort".to_owned());
    // A process loads a sort's kernels one by one.
    for (unit, name) in sorts() {
        units.add_in_parts(unit.source(), unit.key(), name, |source| parts(source, &unit.kernel_names()));
    }
    units.all()
}

/// The units by segment, which serve every kind of segments. A process that has a compiler compiles them for
/// one kind each, which makes faster kernels. So no build makes machine code of these: they are prebuilt PTX alone.
fn units_by_segment() -> Vec<CatalogUnit> {
    let mut units = Units::default();
    for (unit, _, name) in operators() {
        units.add(segmented_scan_source(&unit), segmented_scan_key(&unit), format!("scan by segment by {name}"));
        units.add(segmented_reduce_source(&unit), segmented_reduce_key(&unit), format!("reduce by segment by {name}"));
        units.add(run_reduce_source(&unit), run_reduce_key(&unit), format!("reduce of runs by {name}"));
    }
    // Others would take too much room.
    for (unit, name) in
        sorts().into_iter().filter(|(unit, _)| unit.payload.is_none_or(|bytes| bytes == 4 && unit.key >= 4))
    {
        let (source, key) = (segmented_sort_source(&unit), segmented_sort_key(&unit));
        units.add_in_parts(source, key, format!("{name} by segment"), |source| parts(source, &SEGMENTED_SORT_KERNELS));
    }
    units.all()
}

/// Adds the units of compaction and partition for every size: by comparisons, flags and bits, and
/// of equal neighbours.
fn compactions(units: &mut Units) {
    let mut add = |name: String, choice: Choice, columns: [Column; 2], parts: usize| {
        let kind = if parts == 1 { "compact" } else { "partition" };
        let unit = CompactUnit { choice, columns, parts };
        units.add(unit.source(), unit.key(), format!("{kind} {name}"));
    };
    let (first, nothing) = (Column::Staged, Column::None);
    let outputs = [("", first), (", 32-bit source indices", INDICES_32), (", 64-bit source indices", INDICES_64)];
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
            let name = format!("{what} of {size} bytes by a range");
            let choice = Choice::Items(Test { item, parameters, keeps }, None);
            for (of, output) in outputs {
                add(format!("{name}{of}"), choice, [output, nothing], 1);
            }
            add(name, choice, [first, nothing], 2);
        }
        for (of, output) in outputs {
            let choice = Choice::Distinct { item, same: SAME };
            add(format!("equal integers of {size} bytes{of}"), choice, [output, nothing], 1);
        }
        for cuda in floats {
            let (item, same) =
                (Type { cuda, size, align: size, fields: &[] }, if size == 2 { SAME_HALVES } else { SAME });
            for (of, output) in outputs {
                add(format!("equal {cuda}{of}"), Choice::Distinct { item, same }, [output, nothing], 1);
            }
        }
    }
    for size in [1, 2, 4, 8, 16] {
        let items = [Column::Plain { size, align: size }, nothing];
        add(format!("items of {size} bytes by flags"), Choice::Flags, items, 1);
        add(format!("items of {size} bytes by bits"), Choice::Bits, items, 1);
    }
    for (of, output) in &outputs[1..] {
        add(format!("by flags{of}"), Choice::Flags, [*output, nothing], 1);
        add(format!("by bits{of}"), Choice::Bits, [*output, nothing], 1);
    }
}

const INDICES_32: Column = Column::Indices { size: 4 };
const INDICES_64: Column = Column::Indices { size: 8 };

/// The units of sort: for every key, alone and with each word of a payload. Signed integers share the units of unsigned
/// ones.
fn sorts() -> Vec<(SortUnit, String)> {
    let integers = [1, 2, 4, 8].map(|key| (key, KeyKind::Unsigned));
    let floats = [(2, 10), (2, 7), (4, 23), (8, 52)].map(|(key, mantissa)| (key, KeyKind::Float { mantissa }));
    let mut all = Vec::new();
    for (key, kind) in integers.into_iter().chain(floats) {
        for payload in [None, Some(4), Some(8)] {
            let beside = payload.map_or(String::new(), |bytes| format!(" and {bytes} bytes beside them"));
            let name = format!("sort of {kind:?} keys of {key} bytes{beside}");
            all.push((SortUnit { key, kind, payload }, name));
        }
    }
    all
}

// ---- templates

/// Returns the templates and the headers that Rust generates: the path in `cuda-templates`, the text
/// and the stub of each.
///
/// Writes three files that the library includes: `stubs.rs` with the paths and stubs, `templates.rs`
/// with the lengths, and `templates.packed` with the texts one after the other.
fn templates(out: &Path) -> Vec<(String, String, String)> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("cuda-templates");
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let mut all = Vec::new();
    for file in entries(&root).iter().filter(|path| path.is_dir()).flat_map(|folder| entries(folder)) {
        if file.extension().is_some_and(|extension| extension == "cuh") {
            let path = file.strip_prefix(&root).expect("a file of it").to_string_lossy().replace('\\', "/");
            all.push((path, fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))));
        }
    }
    // The headers of the contracts, which are in no file of the repository.
    for (path, text) in [
        ("columns/contract.cuh", cuda::columns::contract::text()),
        ("compact/contract.cuh", cuda::compact::contract::text()),
        ("scan/contract.cuh", cuda::scan::contract::text()),
        ("segmented/contract.cuh", cuda::segmented::contract::text()),
        ("segmented_sort/contract.cuh", cuda::segmented_sort::contract::text()),
        ("segments/contract.cuh", cuda::segments::contract::text()),
        ("sort/contract.cuh", cuda::sort::contract::text()),
    ] {
        // The build also writes them as files, for a reader and for other compilers.
        let file = out.join("contracts").join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("OUT_DIR can be written");
        fs::write(&file, &text).expect("OUT_DIR can be written");
        all.push((path.to_owned(), text));
    }
    let with_stub = |(path, text): (String, String)| {
        let stub = prebuilt::stub(&text);
        (path, text, stub)
    };
    let all: Vec<_> = all.into_iter().map(with_stub).collect();
    let stubs: Vec<(&str, &str)> = all.iter().map(|(path, _, stub)| (path.as_str(), stub.as_str())).collect();
    let lengths: Vec<usize> = all.iter().map(|(_, text, _)| text.len()).collect();
    let texts: String = all.iter().map(|(_, text, _)| text.as_str()).collect();
    fs::write(out.join("stubs.rs"), format!("&{stubs:#?}")).expect("OUT_DIR can be written");
    fs::write(out.join("templates.rs"), format!("&{lengths:?}")).expect("OUT_DIR can be written");
    fs::write(out.join("templates.packed"), packed(texts.as_bytes())).expect("OUT_DIR can be written");
    all
}

// ---- compiling

/// The texts that are compiled, unit by unit, each with the name of its unit.
fn texts(units: &[CatalogUnit]) -> Vec<(&str, &str)> {
    units.iter().flat_map(|unit| unit.texts.iter().map(|text| (unit.names[0].as_str(), text.as_str()))).collect()
}

/// The images of every text, one for each target. Each comes from the last build in `out`, from the
/// user's cache of kernels, or from the compiler, which optimises little if it compiles `quickly`. Keys are made from
/// stubs of the templates. `None` without a compiler.
fn compile(
    texts: &[(&str, &str)],
    [templates, stubs]: [&[(&str, &str)]; 2],
    targets: &[Target],
    quickly: bool,
    out: &Path,
) -> Option<Vec<Vec<Image>>> {
    let nvrtc = match Nvrtc::find(None) {
        Ok(nvrtc) => nvrtc,
        Err(reason) => {
            println!("cargo::warning=no NVRTC, so no machine code is embedded ({reason}); {NVRTC_HELP}");
            // A file that never exists: the next build looks for NVRTC again.
            println!("cargo::rerun-if-changed={}", out.join("NVRTC").display());
            return None;
        }
    };
    let (folder, cache) = (out.join("kernels"), Cache::of_user());
    fs::create_dir_all(&folder).expect("OUT_DIR can be written");
    let flags = if quickly { nvrtc.quickly() } else { &[] };
    let images: Vec<Vec<Image>> =
        texts.iter().map(|(_, text)| images(text, stubs, targets, flags, &nvrtc, &folder)).collect();
    // One compilation gives machine code and PTX of an architecture.
    let mut jobs = Vec::new();
    for (&(name, text), images) in texts.iter().zip(&images) {
        for group in images.chunk_by(|a, b| a.target.capability() == b.target.capability()) {
            jobs.push((name, text, group));
        }
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&(name, text, group)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failed.lock().expect("no panic here").is_some() {
                        break;
                    }
                    let made = make(name, text, group, templates, flags, &nvrtc, &cache);
                    if let Err(Failure::Log(words) | Failure::Call(words)) = made {
                        *failed.lock().expect("no panic here") = Some(format!("{name}:\n{words}"));
                    }
                }
            });
        }
    });
    if let Some(words) = failed.into_inner().expect("no panic here") {
        panic!("NVRTC {:?} at {} refused {words}", nvrtc.version(), nvrtc.path().display());
    }
    let used: BTreeSet<&PathBuf> = images.iter().flatten().map(|image| &image.file).collect();
    for stale in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if !used.contains(&stale) {
            let _ = fs::remove_file(stale);
        }
    }
    Some(images)
}

const NVRTC_HELP: &str = "`pip install nvidia-cuda-nvrtc` installs it, PARASCAN_NVRTC=/path/to/libnvrtc.so names one, \
                          PARASCAN_CUDA_ARCHS=none silences this line";

/// A packed image: its key in the cache, and the file that holds it.
struct Image {
    target: Target,
    key: String,
    file: PathBuf,
}

/// The images of a text, in the order of the targets. Targets of one architecture are neighbours.
fn images(
    text: &str,
    stubs: &[(&str, &str)],
    targets: &[Target],
    flags: &[&'static str],
    nvrtc: &Nvrtc,
    folder: &Path,
) -> Vec<Image> {
    let included = included(stubs, text);
    let image = |target: Target| {
        let mut flags = [&FLAGS, flags].concat();
        if let Target::Ptx(_) = target {
            flags.push(ptx::FORM);
        }
        let key = key(target, nvrtc.version(), &flags, text, &included, &[]);
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let file = folder.join(format!("{:016x}", hasher.finish()));
        Image { target, key, file }
    };
    targets.iter().copied().map(image).collect()
}

/// Writes the files of some images of one architecture that are not there.
fn make(
    name: &str,
    text: &str,
    images: &[Image],
    templates: &[(&str, &str)],
    flags: &[&str],
    nvrtc: &Nvrtc,
    cache: &Cache,
) -> Result<(), Failure> {
    let write = |file: &Path, packed: &[u8]| {
        let unfinished = file.with_extension("unfinished");
        let written = fs::write(&unfinished, packed).and_then(|()| fs::rename(&unfinished, file));
        written.expect("OUT_DIR can be written");
    };
    let missing = |image: &&Image| {
        !image.file.exists() && cache.read(&image.key).map(|packed| write(&image.file, &packed)).is_none()
    };
    let missing: Vec<&Image> = images.iter().filter(missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let targets: Vec<Target> = missing.iter().map(|image| image.target).collect();
    let made = nvrtc.images(&format!("{name}.cu"), text, templates, &targets, flags)?;
    for (image, bytes) in missing.iter().zip(made) {
        let packed = match image.target {
            Target::Cubin(_) => packed(&bytes),
            Target::Ptx(_) => packed(ptx::shortened(&String::from_utf8(bytes).expect("PTX is text")).as_bytes()),
        };
        write(&image.file, &packed);
        cache.write(&image.key, &packed);
    }
    Ok(())
}

// ---- prebuilt kernels

/// Writes the images of one PTX target to the packages of prebuilt kernels, which lie in `folder`.
fn prebuild(texts: &[(&str, &str)], stubs: &[(&str, &str)], images: &[Vec<Image>], folder: &Path) {
    for (&(_, text), images) in texts.iter().zip(images) {
        // The registry takes packages of up to 10 MB.
        let has = |kernels: &str| text.ends_with(&format!("#include \"{kernels}.cuh\"\n"));
        let package = if has("sort/kernels") || has("sort/payload") {
            "sort"
        } else if has("segmented/scan_kernels") || has("segmented_sort/kernels") {
            "segments"
        } else if has("segmented/reduce_kernels") || has("segmented/run_kernels") {
            "segments-reduce"
        } else {
            "catalog"
        };
        let name = prebuilt::file_name(images[0].target.capability(), text, &included(stubs, text));
        let to = folder.join(package).join("ptx").join(name);
        fs::copy(&images[0].file, &to).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
    }
}

/// The folders of the packages of prebuilt kernels: none if the feature is off.
#[cfg(feature = "prebuilt")]
const PACKAGES: &[&str] = &[parascan_ptx::FOLDER, parascan_ptx_sort::FOLDER];
#[cfg(not(feature = "prebuilt"))]
const PACKAGES: &[&str] = &[];
#[cfg(feature = "prebuilt-segments")]
const PACKAGES_BY_SEGMENT: &[&str] = &[parascan_ptx_segments::FOLDER, parascan_ptx_segments_reduce::FOLDER];
#[cfg(not(feature = "prebuilt-segments"))]
const PACKAGES_BY_SEGMENT: &[&str] = &[];

/// The prebuilt images of each text. None at all if the folders are empty.
fn prebuilt(texts: &[(&str, &str)], stubs: &[(&str, &str)], folders: &[&str]) -> Vec<Vec<Image>> {
    let mut files = Vec::new();
    for folder in folders {
        // The package, since the folder may not exist yet, and cargo takes that for a change.
        println!("cargo::rerun-if-changed={}", Path::new(folder).parent().expect("the package").display());
        files.extend(fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    let texts: Vec<_> = texts.iter().map(|&(_, text)| (text, included(stubs, text))).collect();
    let found = prebuilt::find(&files, &texts).unwrap_or_else(|words| panic!("{words}"));
    let image = |(target, file)| Image { target, key: String::new(), file };
    found.into_iter().map(|of_unit| of_unit.into_iter().map(image).collect()).collect()
}

// ---- embedding

/// Writes `units.rs`, which the library includes: a static for each unit, with its text and its
/// images, and `UNITS`, which has all of them by their keys.
fn embed(units: &[Vec<CatalogUnit>; 2], images: &[Vec<Vec<Image>>; 2], out: &Path) {
    let (mut code, mut all) = (String::new(), String::from("const UNITS: &[(u64, &BuiltIn)] = &[\n"));
    let with_images = units.iter().zip(images).flat_map(|(units, images)| {
        let mut images = images.iter();
        units.iter().map(move |unit| (unit, images.by_ref().take(unit.texts.len()).collect::<Vec<_>>()))
    });
    for (i, (CatalogUnit { source, key, names, .. }, of_unit)) in with_images.enumerate() {
        code +=
            &format!("// {}\nstatic UNIT_{i}: BuiltIn = BuiltIn {{ source: {source:?}, images: &[\n", names.join(", "));
        for target in 0..of_unit.first().map_or(0, |images| images.len()) {
            let include = |images: &&Vec<Image>| format!("include_bytes!({:?})", images[target].file);
            let files: Vec<String> = of_unit.iter().map(include).collect();
            code += &format!("    (Target::{:?}, &[{}]),\n", of_unit[0][target].target, files.join(", "));
        }
        code += "] };\n";
        all += &format!("    ({:#018x}, &UNIT_{i}),\n", key.0);
    }
    fs::write(out.join("units.rs"), code + &all + "];\n").expect("OUT_DIR can be written");

    // The build also writes the units as files, for a reader and for other compilers.
    let sources = out.join("units");
    let _ = fs::remove_dir_all(&sources);
    fs::create_dir_all(&sources).expect("OUT_DIR can be written");
    for CatalogUnit { source, names, .. } in units.iter().flatten() {
        // Windows has no files with the characters that this replaces in their names.
        let name = names[0].replace('<', "(").replace('>', ")").replace(':', "");
        fs::write(sources.join(format!("{name}.cu")), source).expect("OUT_DIR can be written");
    }
}

/// Writes `report`, a line for `.ci/run`: how many images there are, their bytes, and the
/// milliseconds that this build script took so far.
fn report(images: &[Vec<Vec<Image>>; 2], begin: Instant, out: &Path) {
    let files: Vec<&PathBuf> = images.iter().flatten().flatten().map(|image| &image.file).collect();
    let bytes: u64 = files.iter().map(|file| fs::metadata(file).map_or(0, |file| file.len())).sum();
    let milliseconds = begin.elapsed().as_millis();
    let line = format!("images {} bytes {bytes} milliseconds {milliseconds}\n", files.len());
    fs::write(out.join("report"), line).expect("OUT_DIR can be written");
}

// ---- CUB, for benches/versus (feature `cub`)

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

    // The compilation takes minutes, so the build keeps the archive. Its name changes with every
    // input.
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

    // The runtime is beside nvcc. It is linked statically, so the bench runs on a machine with a
    // driver and no toolkit.
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

    // The bench prints the commit beside its numbers.
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    if let (Some(commit), Some(log)) = (git(&["rev-parse", "HEAD"]), git(&["rev-parse", "--git-path", "logs/HEAD"])) {
        println!("cargo::rustc-env=PARASCAN_COMMIT={commit}");
        println!("cargo::rerun-if-changed={log}");
    }
}

/// The path of nvcc: the one that `PARASCAN_NVCC` names, else on PATH, else in the toolkits'
/// folders.
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

/// Runs the command and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?} cannot be run: {e}"));
    if !output.status.success() {
        panic!("{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).into_owned()
}
