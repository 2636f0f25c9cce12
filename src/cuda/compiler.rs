//! Compiling units at run time: through the cache on disk, and on all cores.

use super::cache::Cache;
use super::driver;
use super::image::{key, packed, unpacked};
use super::includes::{File, files};
use super::kernels::Capability;
use super::known::Known;
use super::library::{STUBS, TEMPLATES};
use super::nvrtc::{FLAGS, Failure, Nvrtc, Target, Version};
use super::unit::included;
use crate::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::thread;

/// Additional compiler flags for racecheck. Kernels access the words that warps hand over without a
/// barrier by atomic operations alone (`types.cuh`), and compute-sanitizer names lines of the
/// templates.
pub(super) const CHECKED: &[&str] = &["--define-macro=PARASCAN_CHECKED", "--generate-line-info"];

/// Whether `PARASCAN_CHECKED=1` is set, for the tests: all kernels are then compiled with
/// `CHECKED`, and no embedded image is loaded.
pub(super) fn are_checked() -> bool {
    static ARE_CHECKED: LazyLock<bool> = LazyLock::new(|| std::env::var("PARASCAN_CHECKED").as_deref() == Ok("1"));
    *ARE_CHECKED
}

/// The compiler of this process, once it is loaded, or why there is none.
static COMPILER: OnceLock<Result<Nvrtc, String>> = OnceLock::new();

/// Loads the compiler, unless it is loaded.
fn compiler() -> &'static Result<Nvrtc, String> {
    COMPILER.get_or_init(|| Nvrtc::find(driver::version()))
}

/// The library of the compiler, empty without one.
pub(super) fn path() -> PathBuf {
    compiler().as_ref().map(|nvrtc| nvrtc.path().to_owned()).unwrap_or_default()
}

/// What the key of an image has of the compiler.
pub(super) struct Compiler {
    version: Version,
    pub(super) target: Target,
}

impl Compiler {
    /// The compiler, as the cache knows it, unless it is loaded: the cache may know that of another program by then. It
    /// is loaded if the cache does not know it, or knows none for the device.
    ///
    /// # Errors
    /// [`Error::NoCompiler`] with the unit's name, [`Error::Compiler`].
    pub(super) fn get(unit: &str, capability: Capability, cache: &Cache) -> Result<Compiler, Error> {
        if !matches!(COMPILER.get(), Some(Ok(_)))
            && let Some(Known { version, architectures }) = Known::read(cache)
            && let Some(target) = target(&architectures, capability)
        {
            return Ok(Compiler { version, target });
        }
        Compiler::loaded(unit, capability, cache).map(|(compiler, _)| compiler)
    }

    /// The compiler, loaded now or before.
    fn loaded(unit: &str, capability: Capability, cache: &Cache) -> Result<(Compiler, &'static Nvrtc), Error> {
        let Capability { major, minor } = capability;
        let no_compiler =
            |reason: &String| Error::NoCompiler { unit: unit.to_owned(), major, minor, reason: reason.clone() };
        let nvrtc = compiler().as_ref().map_err(no_compiler)?;
        let broken = |reason: String| Error::Compiler { path: nvrtc.path().to_owned(), reason };
        let Known { version, architectures } = Known::ask(nvrtc, cache).map_err(broken)?;
        let target = target(&architectures, capability).ok_or_else(|| {
            broken(format!("it compiles for compute capability {architectures:?} and the device has {major}.{minor}"))
        })?;
        Ok((Compiler { version, target }, nvrtc))
    }

    /// The cache key of a text and the user's files that it includes.
    fn key(&self, text: &str, files: &[String]) -> String {
        let flags = if are_checked() { CHECKED } else { &[] };
        let stubs = reachable(STUBS, text, files.is_empty());
        key(self.target, self.version, &[&FLAGS, flags].concat(), text, &stubs, files)
    }

    /// The image of a unit of the library, if a build or a process has kept it.
    pub(super) fn kept(&self, source: &str, cache: &Cache) -> Option<Vec<u8>> {
        unpacked(&cache.read(&self.key(source, &[]))?)
    }

    /// The image of a text in the unit `name`, if a process has kept it.
    fn kept_part(&self, name: &str, text: &str, cache: &Cache) -> Option<Vec<u8>> {
        let files: Vec<String> = files(name, text, STUBS)?.iter().map(File::key).collect();
        unpacked(&cache.read(&self.key(text, &files))?)
    }
}

/// The target for a device, of a compiler that supports `architectures`: the newest that the device
/// runs.
fn target(architectures: &[u32], Capability { major, minor }: Capability) -> Option<Target> {
    let own = (major * 10 + minor) as u32;
    let newest = architectures.iter().copied().filter(|&architecture| architecture <= own).max()?;
    // If the device is newer than the compiler, the driver compiles the PTX.
    Some(if newest == own { Target::Cubin(own) } else { Target::Ptx(newest) })
}

/// The templates that the compiler gets for a text: those that the text includes if it `is_alone`, else
/// all, since files of the user's may include any.
fn reachable<'t>(templates: &[(&'t str, &'t str)], text: &'t str, is_alone: bool) -> Vec<(&'t str, &'t str)> {
    if is_alone { included(templates, text) } else { templates.to_vec() }
}

/// Returns an image for each text of a unit, from the cache or from the compiler, all texts at the
/// same time. The compiler is loaded if an image is missing. The first error in the order of the
/// texts is returned.
pub(super) fn compile(
    unit: &str,
    texts: &[&str],
    capability: Capability,
    cache: &Cache,
) -> Result<(Target, Vec<Vec<u8>>), Error> {
    let name = format!("{unit}.cu");
    let compiler = Compiler::get(unit, capability, cache)?;
    let kept: Option<_> = texts.iter().map(|text| compiler.kept_part(&name, text, cache)).collect();
    if let Some(images) = kept {
        return Ok((compiler.target, images));
    }
    // It may be another one than the cache knew.
    let (compiler, nvrtc) = Compiler::loaded(unit, capability, cache)?;
    let flags = if are_checked() { CHECKED } else { &[] };
    let image = |k: usize| {
        let read = || files(&name, texts[k], STUBS);
        let key = |files: &[String]| compiler.key(texts[k], files);
        through(cache, read, key, |files| {
            let templates = reachable(&TEMPLATES, texts[k], files.is_some_and(<[File]>::is_empty));
            nvrtc.compile(&name, texts[k], &templates, compiler.target, flags).map_err(|failure| match failure {
                Failure::Log(log) => Error::Compile { unit: unit.to_owned(), log },
                Failure::Call(reason) => Error::Compiler { path: nvrtc.path().to_owned(), reason },
            })
        })
    };
    Ok((compiler.target, on_all_cores(texts.len(), image)?))
}

/// Returns `make(k)` for k from 0 to n - 1, begun in this order on as many threads as there are
/// cores. The first error in this order is returned, whichever came first in time. An error keeps
/// later calls of `make` from beginning.
pub(super) fn on_all_cores<X: Send + Sync>(
    n: usize,
    make: impl Fn(usize) -> Result<X, Error> + Sync,
) -> Result<Vec<X>, Error> {
    let made: Vec<OnceLock<Result<X, Error>>> = (0..n).map(|_| OnceLock::new()).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let k = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = made.get(k) else { break };
            let result = place.get_or_init(|| make(k));
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
        }
    };
    let cores = thread::available_parallelism().map_or(1, |n| n.get());
    thread::scope(|scope| {
        // The compiler recurses into nested expressions. A thread's default stack is 2 MiB.
        let thread = || thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, work);
        let started = (0..n.min(cores)).filter(|_| thread().is_ok()).count();
        if started == 0 {
            work();
        }
    });
    // Every call before the first error began before it, and has ended.
    made.into_iter().map_while(OnceLock::into_inner).collect()
}

/// Returns the image that the cache has under the `key` of the files that `read` finds, else the
/// one that `make` compiles of them. The new image is kept if `read` finds the same files afterwards: a
/// file that has changed may have been compiled before or after the change. If `read` does not know
/// the files, no image is kept.
fn through(
    cache: &Cache,
    read: impl Fn() -> Option<Vec<File>>,
    key: impl Fn(&[String]) -> String,
    make: impl FnOnce(Option<&[File]>) -> Result<Vec<u8>, Error>,
) -> Result<Vec<u8>, Error> {
    let files = read();
    let key = files.as_ref().map(|files| key(&files.iter().map(File::key).collect::<Vec<_>>()));
    if let Some(image) = key.as_ref().and_then(|key| unpacked(&cache.read(key)?)) {
        return Ok(image);
    }
    let image = make(files.as_deref())?;
    if let Some(key) = key.filter(|_| read() == files) {
        cache.write(&key, &packed(&image));
    }
    Ok(image)
}

/// The compiler, if there is one.
#[cfg(test)]
pub(super) fn compiler_for_tests() -> Option<Nvrtc> {
    Nvrtc::find(driver::version())
        .map_err(|reason| {
            assert_ne!(std::env::var("PARASCAN_REQUIRE_NVRTC").as_deref(), Ok("1"), "{reason}");
            eprintln!("skipped, no NVRTC: {reason}");
        })
        .ok()
}

/// A folder for one test, removed when dropped.
#[cfg(test)]
pub(super) struct Folder(pub(super) std::path::PathBuf);
#[cfg(test)]
impl Folder {
    pub(super) fn new(name: &str) -> Folder {
        Folder(std::env::temp_dir().join(format!("parascan-{name}-{}", std::process::id())))
    }
}
#[cfg(test)]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::prebuilt::stub;
    use crate::cuda::unit::parts;
    use std::fs;
    use std::path::Path;

    /// For any number of calls, whichever thread is faster.
    #[test]
    fn the_first_error_in_order() {
        use std::time::Duration;
        let error = |k: usize| Error::Compile { unit: k.to_string(), log: String::new() };
        for n in [1, 2, 3, 17] {
            assert_eq!(on_all_cores(n, |k| Ok(k * k)).unwrap(), (0..n).map(|k| k * k).collect::<Vec<_>>());
            for first in 0..n {
                let outcome = on_all_cores(n, |k| {
                    // The calls after `first` fail before it does.
                    thread::sleep(Duration::from_millis(if k <= first { 3 } else { 0 }));
                    if k < first { Ok(k) } else { Err(error(k)) }
                });
                let Err(Error::Compile { unit, .. }) = outcome else { panic!("{outcome:?}") };
                assert_eq!(unit, first.to_string(), "of {n}");
            }
        }
        assert!(on_all_cores(0, |_| Ok(0)).unwrap().is_empty());
    }

    /// The number of images in a cache, which also has one entry of the compiler.
    fn images_in(folder: &Path) -> usize {
        let count = fs::read_dir(folder).map_or(0, |files| files.count());
        count - usize::from(Known::read(&Cache::at(folder)).is_some())
    }

    const NEWEST: Capability = Capability { major: 9, minor: 0 };
    const NAMES: [&str; 3] = ["first", "second", "third"];

    /// Compiles, with the images in `cache`, the parts of a unit whose kernel k stores `value` + k.
    fn three_kernels(value: &str, cache: &Cache) -> Result<Vec<Vec<u8>>, Error> {
        let kernel = |(k, name): (usize, &&str)| {
            format!(
                "#if HAS_KERNEL({name})\nextern \"C\" __global__ void {name}(u32 *x) {{ *x = {value} + {k}; }}\n#endif\n"
            )
        };
        let kernels: String = NAMES.iter().enumerate().map(kernel).collect();
        let parts = parts(&format!("#include \"core/types.cuh\"\n{kernels}"), &NAMES);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        compile("three", &parts, NEWEST, cache).map(|(target, images)| {
            assert_eq!(target, Target::Cubin(90));
            images
        })
    }

    /// The test compares inodes: a file that is written again has another one.
    #[cfg(unix)]
    #[test]
    fn a_part_is_compiled_where_it_is_missing() {
        use std::os::unix::fs::MetadataExt;
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("parts");
        let files = || {
            let entries = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap());
            let mut files: Vec<_> = entries.map(|entry| (entry.path(), entry.metadata().unwrap().ino())).collect();
            files.sort();
            files
        };
        let cache = Cache::at(&folder.0);
        Compiler::get("three", NEWEST, &cache).unwrap();
        let known = files();
        // Two threads fill the cache at once. Each may find images of the other.
        let [images, others] = thread::scope(|scope| {
            [(); 2].map(|()| scope.spawn(|| three_kernels("17", &cache).unwrap())).map(|thread| thread.join().unwrap())
        });
        assert_eq!(images, others);
        for (image, name) in images.iter().zip(NAMES) {
            let of = |other: &str| image.windows(other.len()).any(|bytes| bytes == other.as_bytes());
            assert_eq!(NAMES.map(|other| of(&format!(".text.{other}"))), NAMES.map(|other| other == name));
        }
        let all = files();
        let filled: Vec<_> = all.iter().filter(|file| !known.contains(file)).collect();
        assert_eq!(filled.len(), 3, "and no unfinished file");
        assert_eq!(three_kernels("17", &cache).unwrap(), images);
        assert_eq!(files(), all, "nothing was compiled again");

        for (path, _) in filled {
            let before = files();
            let good = fs::read(path).unwrap();
            fs::write(path, &good[..good.len() / 2]).unwrap();
            assert_eq!(three_kernels("17", &cache).unwrap(), images);
            assert_eq!(fs::read(path).unwrap(), good);
            let again: Vec<_> =
                files().into_iter().filter(|file| !before.contains(file)).map(|(path, _)| path).collect();
            assert_eq!(again, std::slice::from_ref(path), "that one, and no other");
        }

        // In a folder that cannot be written no image is kept, and the parts are compiled.
        assert_eq!(three_kernels("17", &Cache::at(Path::new("/dev/null/parascan"))).unwrap(), images);
    }

    // ---- the compiler is loaded where an image is missing

    /// Whether the process has loaded a compiler.
    #[cfg(target_os = "linux")]
    fn is_loaded() -> bool {
        fs::read_to_string("/proc/self/maps").unwrap().contains("/libnvrtc.so")
    }

    /// Runs in processes of its own, since other tests load the compiler.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_compiles_nothing_loads_no_compiler() {
        use std::os::unix::fs::PermissionsExt;
        use std::process::Command;
        const VARIABLE: &str = "PARASCAN_TEST_CACHE";
        if let Some(cache) = std::env::var_os(VARIABLE) {
            let values = std::env::var("PARASCAN_TEST_VALUES").unwrap();
            for value in values.split(' ') {
                three_kernels(value, &Cache::at(Path::new(&cache))).unwrap();
            }
            return println!("loaded: {}", is_loaded());
        }
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("loads");
        let (_, module) = module_path!().split_once("::").unwrap();
        let loads = |values: &str, path: &str| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    &format!("{module}::a_process_that_compiles_nothing_loads_no_compiler"),
                    "--nocapture",
                ])
                .env(VARIABLE, &folder.0)
                .env("PARASCAN_TEST_VALUES", values)
                .env("LD_LIBRARY_PATH", path)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{output:?}");
            assert!(said.contains("loaded: "), "{said}");
            said.contains("loaded: true")
        };
        assert!(loads("17", "/one"), "nothing is in the cache");
        let count = images_in(&folder.0);
        assert!(!loads("17", "/one"), "all is in the cache");
        assert!(loads("17 18", "/one"), "other kernels are not");
        assert!(!loads("18 17", "/one"), "now they are");
        assert!(loads("17", "/two"), "the search may find another compiler");
        assert!(!loads("17", "/two"));
        assert!(!loads("18", "/one"), "each search has an entry");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2 * 3 + 2, "beside {count} images of the first process");

        // The entry is trusted as an image is.
        let entries = || {
            let paths = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
            let is_entry = |path: &PathBuf| fs::read(path).unwrap().windows(9).any(|bytes| bytes == b"compiler ");
            paths.filter(is_entry).collect::<Vec<_>>()
        };
        let set = |mode| {
            for path in entries() {
                fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        assert_eq!(entries().len(), 2);
        set(0o666);
        assert!(loads("17", "/one"), "others can write the entry");
        assert!(!loads("17", "/one"), "it was written anew");
        for path in entries() {
            let good = fs::read(&path).unwrap();
            fs::write(&path, &good[..good.len() - 1]).unwrap();
        }
        assert!(loads("17", "/one"), "the entry is damaged");
        assert!(!loads("17", "/one"), "it was written anew");
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(loads("17", "/one"), "others can write the folder");
    }

    /// The images of a newer CUDA major do not load.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_compiler_that_is_newer_than_the_driver() {
        use crate::cuda::fakes::{alone, compiler, driver, printed};
        let folder = Folder::new("newer");
        let Some(mut command) = alone(a_compiler_that_is_newer_than_the_driver, &folder.0) else {
            return match Compiler::get("a unit", NEWEST, &Cache::of_user()) {
                Ok(compiler) => println!("of CUDA {}", compiler.version.0),
                Err(e) => println!("{e}"),
            };
        };
        let [Some(_), Some(file)] = [12, 13].map(|major| compiler(&folder, &format!("libnvrtc.so.{major}"), major, 90))
        else {
            return;
        };
        let mut with = |version: i32| {
            driver(&folder, version);
            printed(&mut command)
        };
        // One after the other, with one cache: what it knows is of the other driver's compiler.
        for (version, major) in [(13000, 13), (12040, 12), (13010, 13), (12080, 12)] {
            let said = with(version);
            assert!(said.contains(&format!("of CUDA {major}\n")), "a driver of {version}: {said}");
        }
        let why = "it is of CUDA 13.0 and the driver takes 12.4";
        std::fs::remove_file(folder.0.join("libnvrtc.so.12")).unwrap();
        let said = with(12040);
        assert!(said.contains(why) || said.contains("of CUDA 12\n"), "where no other is found: {said}");
        let said = printed(command.env("PARASCAN_NVRTC", &file));
        let words = format!("NVRTC was not found (PARASCAN_NVRTC={}: {why}); ", file.display());
        assert!(said.contains(&words) && said.contains("nvidia-cuda-nvrtc-cu12"), "{said}");
    }

    /// The process finds it by the key under which build.rs keeps it.
    #[test]
    fn a_process_finds_the_image_that_a_build_has_kept() {
        if compiler_for_tests().is_none() || are_checked() {
            return;
        }
        let folder = Folder::new("kept");
        let (cache, compiler) = (Cache::at(&folder.0), Compiler::get("segments", NEWEST, &Cache::none()).unwrap());
        let source = crate::cuda::segments::unit::segments_source();
        assert_eq!(compiler.kept(&source, &cache), None);
        let templates = included(&TEMPLATES, &source);
        let stubs: Vec<_> = templates.into_iter().map(|(name, text)| (name, stub(text))).collect();
        let stubs: Vec<_> = stubs.iter().map(|(name, stub)| (*name, stub.as_str())).collect();
        cache.write(&key(Target::Cubin(90), compiler.version, &FLAGS, &source, &stubs, &[]), &packed(b"an image"));
        assert_eq!(compiler.kept(&source, &cache).as_deref(), Some(&b"an image"[..]));
    }

    /// Expressions nested 1000 deep do not overflow the compiler's stack.
    #[test]
    fn deeply_nested_texts() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("nested");
        let deep = "(".repeat(1000) + "17" + &")".repeat(1000);
        assert_eq!(three_kernels(&deep, &Cache::at(&folder.0)).unwrap().len(), 3);
    }

    /// An error in all parts is reported once, in the same words in every run.
    #[test]
    fn one_message_for_all_parts() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("message");
        let refused = || match three_kernels("no_such_number", &Cache::at(&folder.0)) {
            Err(Error::Compile { unit, log }) => (unit, log),
            outcome => panic!("{outcome:?}"),
        };
        let first = refused();
        let (unit, log) = &first;
        assert_eq!(unit, "three");
        assert_eq!(log.matches("\"no_such_number\" is undefined").count(), 1, "{log}");
        for _ in 0..5 {
            assert_eq!(refused(), first);
        }
        assert_eq!(images_in(&folder.0), 0, "nothing is kept of it");
    }

    // ---- files of the user's

    /// The image of a kernel that stores `V`, which `text` defines, in a unit called `name`.
    fn storing_v(name: &str, text: &str, cache: &Cache) -> Result<Vec<u8>, Error> {
        let kernel = "extern \"C\" __global__ void kernel(unsigned *x) { *x = V; }";
        compile(name, &[&format!("{text}\n{kernel}\n")], NEWEST, cache).map(|(_, mut images)| images.remove(0))
    }

    /// With a cache each image is the same as without, for every spelling of an include and every
    /// state of the file.
    #[test]
    fn a_file_that_a_text_includes_changes() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("includes");
        fs::create_dir_all(folder.0.join("inner")).unwrap();
        let at = |name: &str| folder.0.join(name).to_str().expect("a path in UTF-8").to_owned();
        let (outer, inner, unit) = (at("outer.cuh"), at("inner/v.cuh"), at("unit"));
        fs::write(&outer, "#include \"inner/middle.cuh\"\n").unwrap();
        fs::write(at("inner/middle.cuh"), "#include \"v.cuh\"\n").unwrap();
        let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
        let from_here = format!("{up}{}", inner.trim_start_matches('/'));

        // Whether the image is kept, the unit's name, its text.
        let mut texts = vec![
            (true, "unit", format!("#include \"{inner}\"")),
            (true, "unit", format!("#include <{inner}>")),
            (true, "unit", format!("#include \"{from_here}\"")),
            (true, "unit", format!("#include \"{outer}\"")),
            (true, &unit, "#include \"inner/v.cuh\"".to_owned()),
            (true, &unit, "#include \"outer.cuh\"".to_owned()),
            (true, "unit", format!(" %: /* \n */ inc\\\nlude/**/\"{inner}\" // as below")),
            (true, "unit", format!("#line 7 \"/nowhere/else\"\n#include\"{inner}\"")),
            (false, "unit", format!("#define WHERE \"{inner}\"\n#include WHERE")),
            (false, "unit", format!("#define JOIN(A, B) A##B\n#define WHERE <{inner}>\n#include JOIN(WH, ERE)")),
            (false, "unit", format!("#include_next \"{inner}\"")),
        ];
        let asks = |has: &str| format!("#if {has}(\"{inner}\")\n#define V 1\n#else\n#define V 2\n#endif");
        let existence = texts.len();
        texts.extend([
            (false, "unit", asks("__has_include")),
            (false, "unit", format!("#define JOIN(A, B) A##B\n{}", asks("JOIN(__has_inc, lude)"))),
        ]);
        for (k, (kept, name, text)) in texts.into_iter().enumerate() {
            let cache = folder.0.join(format!("cache {k}"));
            let set = |state: u32| match state {
                2 if k >= existence => fs::remove_file(&inner).unwrap(),
                _ => fs::write(&inner, format!("#define V {state}\n")).unwrap(),
            };
            let images = [1, 2, 1].map(|state| {
                set(state);
                let anew = storing_v(name, &text, &Cache::none()).expect(&text);
                let cached = storing_v(name, &text, &Cache::at(&cache)).expect(&text);
                assert!(cached == anew, "an old image with {state} in the file: {text}");
                anew
            });
            assert!(images[0] != images[1], "the compiler reads no file for {text}");
            assert_eq!(images_in(&cache), if kept { 2 } else { 0 }, "{text}");
        }
    }

    /// The compiler reads the template, not the file.
    #[test]
    fn a_template_and_a_file_of_its_name() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("template");
        fs::create_dir_all(folder.0.join("core")).unwrap();
        let unit = folder.0.join("unit");
        let unit = unit.to_str().expect("a path in UTF-8");
        fs::write(folder.0.join("core/types.cuh"), "#error a file\n").unwrap();
        fs::write(folder.0.join("v.cuh"), "#include \"core/types.cuh\"\n#define V u32(1)\n").unwrap();
        storing_v(unit, "#include \"core/types.cuh\"\n#include \"v.cuh\"", &Cache::none()).unwrap();
    }

    /// Whether the scan knows the file or not.
    #[test]
    fn a_template_that_a_file_includes() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("template-of-a-file");
        fs::create_dir_all(&folder.0).unwrap();
        let file = folder.0.join("v.cuh");
        fs::write(&file, "#include \"core/types.cuh\"\n#define V u32(1)\n").unwrap();
        let cache = Cache::at(&folder.0.join("cache"));
        let file = file.display();
        let image = storing_v("unit", &format!("#include \"{file}\""), &cache).unwrap();
        assert_eq!(images_in(&folder.0.join("cache")), 1);
        assert!(storing_v("unit", &format!("#include \"{file}\""), &cache).unwrap() == image);
        storing_v("unit", &format!("#define WHERE \"{file}\"\n#include WHERE"), &cache).unwrap();
    }

    #[test]
    fn a_file_that_changes_while_it_is_compiled() {
        let folder = Folder::new("meanwhile");
        fs::create_dir_all(&folder.0).unwrap();
        let (header, cache) = (folder.0.join("header.cuh"), Cache::at(&folder.0.join("cache")));
        fs::write(&header, "1").unwrap();
        let source = format!("#include \"{}\"\n", header.display());
        let image = |make: &dyn Fn() -> &'static [u8]| {
            let key = |files: &[String]| key(Target::Cubin(90), (13, 0, 0), &FLAGS, &source, &[], files);
            through(&cache, || files("unit", &source, &[]), key, |_| Ok(make().to_vec())).unwrap()
        };
        let changing = || {
            fs::write(&header, "2").unwrap();
            &b"of 1 or of 2"[..]
        };
        assert_eq!(image(&changing), b"of 1 or of 2");
        assert_eq!(image(&|| b"of 2"), b"of 2");
        assert_eq!(image(&|| panic!("it is kept")), b"of 2");
        fs::write(&header, "1").unwrap();
        assert_eq!(image(&|| b"of 1"), b"of 1");
    }
}
