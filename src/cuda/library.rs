//! Kernels, each loaded once for a process and device.
//!
//! `cuLibraryLoadData` loads them. A library belongs to no context, so the table of kernels keeps
//! no context alive, and stays valid when one is destroyed.

use super::cache::Cache;
use super::driver::check;
use super::entry_points::{EntryPoints, KernelHandle, LaunchAttribute, LaunchConfig, LibraryHandle};
use super::image::{key, packed, unpacked};
use super::includes::{File, files};
use super::nvrtc::{FLAGS, Failure, Nvrtc, Target};
use super::unit::{UnitKey, included, parts};
use crate::Error;
use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction, CUfunction_attribute, CUstream};
use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};
use std::thread;

/// A unit of the catalog: its text and its packed images.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    source: &'static str,
    images: &'static [(Target, &'static [u8])],
}

/// The templates: the path by which units include each, and its text.
pub(crate) static TEMPLATES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let names: &[(&str, usize)] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));
    let texts = unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/templates.packed"))).expect("as build.rs wrote it");
    let mut rest: &str = String::from_utf8(texts).expect("as build.rs wrote it").leak();
    let next = |&(name, length): &(&'static str, usize)| {
        let text;
        (text, rest) = rest.split_at(length);
        (name, text)
    };
    names.iter().map(next).collect()
});

// build.rs writes a static for each unit, and `UNITS`, which lists them. The linker drops each
// static that the program does not refer to.
include!(concat!(env!("OUT_DIR"), "/units.rs"));

/// Returns the unit of the catalog with this key, if there is one.
///
/// A program links the images of each unit that this function returns at compile time. So callers
/// call it in a `const` block, and refer to `UNITS` nowhere else.
pub(crate) const fn built_in(key: UnitKey) -> Option<&'static BuiltIn> {
    let mut i = 0;
    while i < UNITS.len() {
        if UNITS[i].0 == key.0 {
            return Some(UNITS[i].1);
        }
        i += 1;
    }
    None
}

/// The first driver that captures overlapping launches into a graph: 12.3.
const FIRST_TO_CAPTURE_OVERLAP: i32 = 12030;

/// Additional compiler flags for racecheck. Kernels access the words that warps hand over without a
/// barrier by atomic operations alone (`types.cuh`), and compute-sanitizer names lines of the
/// templates.
const CHECKED: &[&str] = &["--define-macro=PARASCAN_CHECKED", "--generate-line-info"];

/// Whether `PARASCAN_CHECKED=1` is set, for the tests: all kernels are then compiled with
/// `CHECKED`, and no built-in image is loaded.
fn are_checked() -> bool {
    static ARE_CHECKED: LazyLock<bool> = LazyLock::new(|| std::env::var("PARASCAN_CHECKED").as_deref() == Ok("1"));
    *ARE_CHECKED
}

/// A translation unit to load kernels from.
pub(crate) struct Program {
    /// The name of the unit in messages.
    pub(crate) name: String,
    /// Its text.
    pub(crate) source: String,
    /// The unit of the catalog with the same key. Its text may differ.
    pub(crate) built_in: Option<&'static BuiltIn>,
}

/// A compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    pub(crate) major: i32,
    pub(crate) minor: i32,
}

/// The device, and the architecture of its kernels: a plan depends on these and the call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The compute capability that the kernels were compiled for, as in 90: the device's or an
    /// older one.
    pub(crate) architecture: u32,
    pub(crate) multiprocessors: usize,
    /// Bytes of shared memory that a block can have on the device.
    pub(crate) shared: usize,
}

/// The most bytes of dynamic shared memory for each kernel, in the order of the kernels' names. The
/// argument is the compute capability that they were compiled for. The device's own limit applies
/// too.
pub(crate) type SharedBytes<'a> = &'a dyn Fn(u32) -> Vec<usize>;
const NO_SHARED: SharedBytes<'static> = &|_| Vec::new();

/// Kernels of one translation unit, loaded for one device.
///
/// The library's own kernels have this type, and so have the kernels of a primitive outside the
/// library. Their unit includes the templates by name (`core/pipeline.cuh`, `core/handover.cuh`,
/// ...) and defines `extern "C"` kernels on them.
#[derive(Debug)]
pub struct Kernels {
    entry_points: &'static EntryPoints,
    libraries: Vec<LibraryHandle>,
    functions: Vec<CUfunction>,
    /// For each kernel the number of its blocks that run at the same time, once `blocks_at_once`
    /// has asked.
    at_once: Vec<OnceLock<usize>>,
    machine: Machine,
    /// Whether device and driver let a launch begin before the previous one has ended.
    overlaps: bool,
    device: usize,
}

// SAFETY: the fields are handles of the driver, which any thread may use.
unsafe impl Send for Kernels {}
// SAFETY: as above; the one field that changes, `at_once`, is of `OnceLock`s.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Compiles the text of a translation unit with NVRTC, or takes its image from the cache on
    /// disk, and loads the kernels named in `kernels`.
    ///
    /// `name` is the name of the unit in messages. The call waits for the compiler, not for the
    /// device.
    ///
    /// The text may include files of the user's: by an absolute path, or in quotes by a path
    /// relative to the folder of `name`. That folder is the current one for a name without `/`.
    /// When such a file changes, the next call compiles the kernels again. If the text or a file
    /// that it includes uses `__has_include`, `#include_next` or an `#include` of a macro, each
    /// process compiles the kernels, and keeps no image.
    ///
    /// # Errors
    /// [`Error::NoCompiler`], [`Error::Compiler`], [`Error::Compile`] with the compiler's log,
    /// [`Error::Driver`].
    pub fn compile(context: &CudaContext, name: &str, source: &str, kernels: &[&str]) -> Result<Kernels, Error> {
        let device = context.ordinal();
        context.bind_to_thread().map_err(|e| Error::Driver { call: "cuCtxSetCurrent", code: e.0, device })?;
        if let Some(kernel) = kernels.iter().find(|kernel| kernel.contains('\0')) {
            return Err(Error::Compile { unit: name.to_owned(), log: format!("no kernel can be called {kernel:?}") });
        }
        let (target, images) = compile(name, &[source], capability(device)?, &Cache::of_user())?;
        Kernels::from_images(target, &[(&images[0], kernels)], NO_SHARED, device)
    }

    /// Loads `program` for the device of the current context. The image is the built-in one, else
    /// the one that a build has kept in the cache. Else the call compiles the unit, in parts of one
    /// kernel each.
    fn load(program: &Program, names: &[&str], shared: SharedBytes, device: usize) -> Result<Kernels, Error> {
        let (capability, cache) = (capability(device)?, Cache::of_user());
        let mut refused = None;
        let built_in = program.built_in.filter(|unit| unit.source == program.source && !are_checked());
        if let Some(unit) = built_in {
            for (target, image) in fitting(unit.images, capability) {
                match Kernels::from_images(target, &[(&image, names)], shared, device) {
                    Ok(kernels) => return Ok(kernels),
                    // The driver may be older than the PTX, for example; NVRTC may find a target
                    // that it takes.
                    Err(e) => refused = Some(e),
                }
            }
            let compiler = Compiler::get(&program.name, capability).ok();
            if let Some((image, compiler)) = compiler.and_then(|c| Some((c.kept(&program.source, &cache)?, c))) {
                return Kernels::from_images(compiler.target, &[(&image, names)], shared, device);
            }
        }
        let parts = parts(&program.source, names);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match compile(&program.name, &parts, capability, &cache) {
            Ok((target, images)) => {
                let images: Vec<_> = images.iter().map(Vec::as_slice).zip(names.chunks(1)).collect();
                Kernels::from_images(target, &images, shared, device)
            }
            Err(Error::NoCompiler { unit, major, minor, reason }) => Err(match refused {
                Some(e) => {
                    Error::NoCompiler { unit, major, minor, reason: format!("{reason}; the built-in image: {e}") }
                }
                None => Error::NoCompiler { unit, major, minor, reason },
            }),
            Err(e) => Err(e),
        }
    }

    /// Loads from each image the kernels named beside it, and numbers them from the first image to
    /// the last.
    fn from_images(
        target: Target,
        images: &[(&[u8], &[&str])],
        shared: SharedBytes,
        device: usize,
    ) -> Result<Kernels, Error> {
        let mut version = 0;
        // SAFETY: the driver writes an integer.
        check("cuDriverGetVersion", device, unsafe { sys::cuDriverGetVersion(&mut version) })?;
        if version < 12000 {
            return Err(Error::OldDriver { version }); // it has no cuLibraryLoadData
        }
        let entry_points = EntryPoints::get()?;
        let architecture = target.capability();
        let machine = Machine {
            architecture,
            multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            shared: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        };
        let overlaps = architecture >= 90 && version >= FIRST_TO_CAPTURE_OVERLAP;
        let (libraries, functions, at_once) = Default::default();
        let mut kernels = Kernels { entry_points, libraries, functions, at_once, machine, overlaps, device };
        let shared = shared(architecture);
        for (image, names) in images {
            kernels.add(image, names, &shared)?;
        }
        Ok(kernels)
    }

    /// Loads another image, and appends its kernels.
    fn add(&mut self, image: &[u8], names: &[&str], shared: &[usize]) -> Result<(), Error> {
        let device = self.device;
        // PTX is text and must end in a NUL. A cubin knows its own length.
        let mut image = image.to_vec();
        image.push(0);
        let mut library: LibraryHandle = std::ptr::null_mut();
        // SAFETY: the image is complete, and the driver copies it; no options are passed.
        check("cuLibraryLoadData", device, unsafe {
            let (none, no_values) = (std::ptr::null_mut(), std::ptr::null_mut());
            let load = self.entry_points.library_load_data;
            load(&mut library, image.as_ptr().cast(), none, no_values, 0, none, no_values, 0)
        })?;
        self.libraries.push(library);
        for name in names {
            let c_name = CString::new(*name).expect("`compile` has looked; the library's own have no NUL");
            let (mut kernel, mut function): (KernelHandle, CUfunction) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the library is loaded; the name is a C string.
            check("cuLibraryGetKernel", device, unsafe {
                (self.entry_points.library_get_kernel)(&mut kernel, library, c_name.as_ptr())
            })?;
            if let Some(&bytes) = shared.get(self.functions.len()).filter(|&&bytes| bytes > 0) {
                let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the kernel belongs to the library, which is loaded.
                check("cuKernelSetAttribute", device, unsafe {
                    let bytes = bytes.min(self.machine.shared) as i32;
                    (self.entry_points.kernel_set_attribute)(attribute, bytes, kernel, device as i32)
                })?;
            }
            // SAFETY: the kernel belongs to the library, which is loaded.
            check("cuKernelGetFunction", device, unsafe {
                (self.entry_points.kernel_get_function)(&mut function, kernel)
            })?;
            // A driver that loads lazily would load at the first launch, and wait for the device to
            // drain. Reading an attribute makes it load now.
            let (mut registers, attribute) = (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
            // SAFETY: the driver writes an integer.
            let code = unsafe { sys::cuFuncGetAttribute(&mut registers, attribute, function) };
            check("cuFuncGetAttribute", device, code)?;
            // The launch takes the kernel itself, which belongs to no context. SAFETY (of the
            // cast): the driver takes either handle.
            self.functions.push(kernel.cast());
            self.at_once.push(OnceLock::new());
        }
        Ok(())
    }

    /// The device, and the architecture that the kernels were compiled for.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// # Errors
    /// [`Error::NoKernel`].
    fn function(&self, index: usize) -> Result<CUfunction, Error> {
        let kernels = self.functions.len();
        self.functions.get(index).copied().ok_or(Error::NoKernel { index, kernels })
    }

    /// Launches kernel `index`, counted from 0 in the order of the names. Does not wait.
    ///
    /// # Errors
    /// [`Error::NoKernel`], [`Error::Driver`].
    ///
    /// # Safety
    /// - `arguments` are the kernel's, in order, of its types.
    /// - The memory that the kernel reads and writes through them, and these `Kernels`, stay valid
    ///   until the stream is past the kernel.
    /// - The stream's context is current and belongs to the device that the kernels were loaded
    ///   for.
    pub unsafe fn launch(
        &self,
        index: usize,
        blocks: u32,
        threads: u32,
        stream: CUstream,
        arguments: &[*const c_void],
    ) -> Result<(), Error> {
        // SAFETY: by the caller.
        unsafe { self.launch_with_shared(index, blocks, threads, 0, stream, arguments) }
    }

    /// Launches a kernel whose blocks wait for each other (a cooperative launch): the driver starts
    /// all blocks at once, or none.
    ///
    /// # Errors
    /// [`Error::Driver`], with `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE` if the blocks do not fit
    /// the stream's part of the device.
    ///
    /// # Safety
    /// As for `launch`.
    pub(crate) unsafe fn launch_at_once(
        &self,
        index: usize,
        blocks: u32,
        threads: u32,
        stream: CUstream,
        arguments: &[*const c_void],
    ) -> Result<(), Error> {
        let (function, arguments) = (self.function(index)?, arguments.as_ptr().cast_mut().cast());
        // SAFETY: by the caller; the driver copies the arguments before it returns.
        let code =
            unsafe { sys::cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments) };
        check("cuLaunchCooperativeKernel", self.device, code)
    }

    /// Launches a kernel with `shared` bytes of dynamic shared memory.
    ///
    /// # Safety
    /// As for `launch`.
    pub(crate) unsafe fn launch_with_shared(
        &self,
        index: usize,
        blocks: u32,
        threads: u32,
        shared: usize,
        stream: CUstream,
        arguments: &[*const c_void],
    ) -> Result<(), Error> {
        let shared = shared as u32;
        let (function, arguments) = (self.function(index)?, arguments.as_ptr().cast_mut().cast());
        // SAFETY: by the caller; the driver copies the arguments before it returns.
        let code = unsafe {
            sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, std::ptr::null_mut())
        };
        check("cuLaunchKernel", self.device, code)
    }

    /// Launches a kernel that itself waits for the previous launch on the stream (programmatic
    /// dependent launch). Its blocks may start before that launch ends, if device and driver can do
    /// that.
    ///
    /// # Safety
    /// As for `launch`; the kernel calls `wait_for_launch_before` of `core/types.cuh`.
    pub(crate) unsafe fn launch_dependent(
        &self,
        index: usize,
        blocks: u32,
        threads: u32,
        shared: usize,
        stream: CUstream,
        arguments: &[*const c_void],
    ) -> Result<(), Error> {
        if !self.overlaps {
            // SAFETY: by the caller.
            return unsafe { self.launch_with_shared(index, blocks, threads, shared, stream, arguments) };
        }
        let config = LaunchConfig {
            blocks: [blocks, 1, 1],
            threads: [threads, 1, 1],
            shared_bytes: shared as u32,
            stream,
            attributes: &LaunchAttribute::OVERLAPS,
            attribute_count: 1,
        };
        let arguments = arguments.as_ptr().cast_mut().cast();
        let (launch, function) = (self.entry_points.launch_kernel_ex, self.function(index)?);
        // SAFETY: by the caller; the driver copies configuration and arguments before it returns.
        let code = unsafe { launch(&config, function, arguments, std::ptr::null_mut()) };
        check("cuLaunchKernelEx", self.device, code)
    }

    /// The number of blocks of kernel `index` that run at the same time on a device that runs
    /// nothing else. Each call for one kernel must pass the same `threads`, the threads of a block,
    /// as the first result is kept.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(crate) fn blocks_at_once(&self, index: usize, threads: usize) -> Result<usize, Error> {
        if let Some(&blocks) = self.at_once[index].get() {
            return Ok(blocks);
        }
        let mut blocks = 0;
        // SAFETY: the driver writes an integer; the kernel belongs to the library, which is loaded.
        let code = unsafe {
            let function = self.functions[index];
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads as i32, 0)
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.device, code)?;
        let blocks = blocks as usize * self.machine.multiprocessors;
        Ok(*self.at_once[index].get_or_init(|| blocks))
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        for &library in &self.libraries {
            // SAFETY: the stream is past all kernels of the library, by the promise of `launch`.
            // `drop` cannot return an error.
            let _ = unsafe { (self.entry_points.library_unload)(library) };
        }
    }
}

/// The compute capability of the device.
pub(crate) fn capability(device: usize) -> Result<Capability, Error> {
    Ok(Capability {
        major: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        minor: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    })
}

fn attribute(device: usize, attribute: Attribute) -> Result<i32, Error> {
    let mut value = 0;
    // SAFETY: the driver writes one integer.
    let code = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device as i32) };
    check("cuDeviceGetAttribute", device, code).map(|()| value)
}

/// Whether the unit of the catalog with this key has this text.
#[cfg(test)]
pub(super) fn is_built_in(key: UnitKey, source: &str) -> bool {
    built_in(key).is_some_and(|unit| unit.source == source)
}

/// Whether build.rs has compiled the unit to machine code of that compute capability.
#[cfg(test)]
fn is_compiled(architecture: u32, source: &str) -> bool {
    let unit = UNITS.iter().find(|(_, unit)| unit.source == source);
    unit.is_some_and(|(_, unit)| unit.images.iter().any(|&(target, _)| target == Target::Cubin(architecture)))
}

/// Compiles every text for the compute capability beside it, on all cores, unless build.rs has done
/// so. Does nothing without a compiler.
#[cfg(test)]
pub(crate) fn compile_all(mut all: Vec<(u32, String, String)>) {
    let Some(nvrtc) = compiler_for_tests() else { return };
    let asked = all.len();
    all.retain(|(architecture, _, source)| !is_compiled(*architecture, source));
    let failure = |k: usize| {
        let (architecture, name, source) = &all[k];
        Ok(match nvrtc.compiles(name, source, &included(&TEMPLATES, source), *architecture) {
            Ok(()) => None,
            Err(Failure::Log(words) | Failure::Call(words)) => Some(format!("{name}: {words}")),
        })
    };
    let failures: Vec<String> = on_all_cores(all.len(), failure).expect("no errors").into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} failed, the first: {}", failures.len(), failures[0]);
    println!("{asked} units compile, {} of them now", all.len());
}

/// Asserts that each part of a unit has exactly its own kernel, and that the parts have all kernels
/// of the unit. Does nothing without a compiler.
#[cfg(test)]
pub(crate) fn parts_have_a_kernel_each(source: &str, names: &[&str]) {
    let Some(nvrtc) = compiler_for_tests() else { return };
    let kernels = |text: &str| nvrtc.kernels(text, &included(&TEMPLATES, text)).expect("it compiles");
    let mut all = kernels(source);
    all.sort();
    let mut named = names.to_vec();
    named.sort_unstable();
    assert_eq!(all, named);
    let parts = parts(source, names);
    let own = on_all_cores(names.len(), |k| Ok(kernels(&parts[k]))).expect("no errors");
    assert_eq!(own.concat(), names);
}

/// The compiler, if there is one.
#[cfg(test)]
fn compiler_for_tests() -> Option<Nvrtc> {
    Nvrtc::find()
        .map_err(|reason| {
            assert_ne!(std::env::var("PARASCAN_REQUIRE_NVRTC").as_deref(), Ok("1"), "{reason}");
            eprintln!("skipped, no NVRTC: {reason}");
        })
        .ok()
}

/// The unpacked images that run on `capability`, the best first.
fn fitting(
    images: &'static [(Target, &'static [u8])],
    capability: Capability,
) -> impl Iterator<Item = (Target, Vec<u8>)> {
    let own = (capability.major * 10 + capability.minor) as u32;
    let mut fitting: Vec<_> = images
        .iter()
        .filter_map(|&(target, packed)| match target {
            Target::Cubin(made_for) if made_for / 10 == own / 10 && made_for <= own => {
                Some((1, made_for, target, packed))
            }
            Target::Ptx(made_for) if made_for <= own => Some((0, made_for, target, packed)),
            _ => None,
        })
        .collect();
    fitting.sort_unstable_by_key(|&(kind, made_for, ..)| std::cmp::Reverse((kind, made_for)));
    fitting.into_iter().filter_map(|(.., target, packed)| Some((target, unpacked(packed)?)))
}

/// The compiler of this process, and its target for a device.
struct Compiler {
    nvrtc: &'static Nvrtc,
    target: Target,
}

impl Compiler {
    /// # Errors
    /// [`Error::NoCompiler`] with the unit's name, [`Error::Compiler`].
    fn get(unit: &str, capability: Capability) -> Result<Compiler, Error> {
        static COMPILER: LazyLock<Result<Nvrtc, String>> = LazyLock::new(Nvrtc::find);
        let Capability { major, minor } = capability;
        let no_compiler =
            |reason: &String| Error::NoCompiler { unit: unit.to_owned(), major, minor, reason: reason.clone() };
        let nvrtc = COMPILER.as_ref().map_err(no_compiler)?;
        let broken = |reason: String| Error::Compiler { path: nvrtc.path().to_owned(), reason };

        let own = (major * 10 + minor) as u32;
        let known = nvrtc.architectures().map_err(broken)?;
        let newest = known.iter().copied().filter(|&architecture| architecture <= own).max();
        let target = match newest {
            Some(architecture) if architecture == own => Target::Cubin(own),
            // The device is newer than the compiler, so the driver compiles the PTX.
            Some(architecture) => Target::Ptx(architecture),
            None => {
                return Err(broken(format!(
                    "it compiles for compute capability {known:?} and the device has {major}.{minor}"
                )));
            }
        };
        Ok(Compiler { nvrtc, target })
    }

    /// The cache key of a text and the files that it includes.
    fn key(&self, text: &str, templates: &[(&str, &str)], files: &[String]) -> String {
        let flags = if are_checked() { CHECKED } else { &[] };
        key(self.target, self.nvrtc.version(), &[&FLAGS, flags].concat(), text, templates, files)
    }

    /// The image of a unit of the library, if a build or a process has kept it.
    fn kept(&self, source: &str, cache: &Cache) -> Option<Vec<u8>> {
        unpacked(&cache.read(&self.key(source, &included(&TEMPLATES, source), &[]))?)
    }
}

/// Returns an image for each text of a unit, from the cache or from the compiler, all texts at the
/// same time. The first error in the order of the texts is returned.
fn compile(unit: &str, texts: &[&str], capability: Capability, cache: &Cache) -> Result<(Target, Vec<Vec<u8>>), Error> {
    let compiler = Compiler::get(unit, capability)?;
    let Compiler { nvrtc, target } = compiler;
    let broken = |reason: String| Error::Compiler { path: nvrtc.path().to_owned(), reason };
    let flags = if are_checked() { CHECKED } else { &[] };
    let image = |k: usize| {
        let (name, templates) = (format!("{unit}.cu"), included(&TEMPLATES, texts[k]));
        let read = || files(&name, texts[k], &templates);
        let key = |files: &[String]| compiler.key(texts[k], &templates, files);
        through(cache, read, key, || {
            nvrtc.compile(&name, texts[k], &templates, target, flags).map_err(|failure| match failure {
                Failure::Log(log) => Error::Compile { unit: unit.to_owned(), log },
                Failure::Call(reason) => broken(reason),
            })
        })
    };
    Ok((target, on_all_cores(texts.len(), image)?))
}

/// Returns `make(k)` for k from 0 to n - 1, begun in this order on as many threads as there are
/// cores. The first error in this order is returned, whichever came first in time. An error keeps
/// later calls of `make` from beginning.
fn on_all_cores<X: Send + Sync>(n: usize, make: impl Fn(usize) -> Result<X, Error> + Sync) -> Result<Vec<X>, Error> {
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
/// one that `make` compiles. The new image is kept if `read` finds the same files afterwards: a
/// file that has changed may have been compiled before or after the change. If `read` does not know
/// the files, no image is kept.
fn through(
    cache: &Cache,
    read: impl Fn() -> Option<Vec<File>>,
    key: impl Fn(&[String]) -> String,
    make: impl FnOnce() -> Result<Vec<u8>, Error>,
) -> Result<Vec<u8>, Error> {
    let files = read();
    let key = files.as_ref().map(|files| key(&files.iter().map(File::key).collect::<Vec<_>>()));
    if let Some(image) = key.as_ref().and_then(|key| unpacked(&cache.read(key)?)) {
        return Ok(image);
    }
    let image = make()?;
    if let Some(key) = key.filter(|_| read() == files) {
        cache.write(&key, &packed(&image));
    }
    Ok(image)
}

// ---- the table of loaded kernels

/// The types that the kernels are for, the program of the primitive, the device.
type Key = (TypeId, &'static str, usize);

/// The loaded kernels. They stay loaded until the process ends.
static LOADED: LazyLock<RwLock<HashMap<Key, &'static Kernels>>> = LazyLock::new(Default::default);

/// The kernels of `program`, if they are loaded.
pub(crate) fn loaded(types: TypeId, program: &'static str, device: usize) -> Option<&'static Kernels> {
    LOADED.read().unwrap_or_else(PoisonError::into_inner).get(&(types, program, device)).copied()
}

/// The kernels of `program`, loaded now unless they are in the table. If two threads load the same
/// kernels, one drops its own.
pub(crate) fn load(
    types: TypeId,
    program: &'static str,
    device: usize,
    names: &[&str],
    make: &dyn Fn() -> Program,
) -> Result<&'static Kernels, Error> {
    load_with_shared(types, program, device, names, NO_SHARED, make)
}

/// As `load`, for kernels whose launches ask for dynamic shared memory.
pub(crate) fn load_with_shared(
    types: TypeId,
    program: &'static str,
    device: usize,
    names: &[&str],
    shared: SharedBytes,
    make: &dyn Fn() -> Program,
) -> Result<&'static Kernels, Error> {
    if let Some(kernels) = loaded(types, program, device) {
        return Ok(kernels);
    }
    let kernels = Kernels::load(&make(), names, shared, device)?;
    let mut table = LOADED.write().unwrap_or_else(PoisonError::into_inner);
    Ok(table.entry((types, program, device)).or_insert_with(|| Box::leak(Box::new(kernels))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// For 8.0 and 9.0, whatever the build embeds. Each kind of unit has its own test for older
    /// ones.
    #[test]
    fn what_is_built_in_compiles() {
        let units = UNITS.iter().enumerate();
        compile_all(
            units
                .flat_map(|(k, (_, unit))| [80, 90].map(|a| (a, format!("unit {k}"), unit.source.to_owned())))
                .collect(),
        );
    }

    /// One unit of each kind, by its last line, and of each key size, compiles with `CHECKED`. The
    /// words that warps hand over are accessed by atomic operations alone.
    #[test]
    fn what_is_checked_compiles() {
        let Some(nvrtc) = compiler_for_tests() else { return };
        let quickly: &[&str] = if nvrtc.version() >= (13, 0) { &["--Ofast-compile=max"] } else { &[] };
        let flags = [CHECKED, quickly].concat();
        let mut kinds = HashSet::new();
        for (_, unit) in UNITS {
            let line = |begin: &str| unit.source.lines().rfind(|line| line.starts_with(begin));
            let program = line("#include").expect("each includes its kernels");
            if !kinds.insert((program, line("#define KEY_BYTES"))) {
                continue;
            }
            let ptx =
                nvrtc.compile("checked", unit.source, &included(&TEMPLATES, unit.source), Target::Ptx(90), &flags);
            let ptx = String::from_utf8(ptx.expect("it compiles")).expect("PTX is text");
            assert!(!ptx.contains("relaxed.cta.shared.u"), "{program}: a load or a store");
            // The sorts of keys of 1 and 2 bytes count them, and hand over no such words.
            let is_short = ["KEY_BYTES 1", "KEY_BYTES 2"].iter().any(|bytes| unit.source.contains(bytes));
            assert_eq!(ptx.contains("atom.relaxed.cta.shared.cas"), !is_short, "{program}");
        }
        assert_eq!(kinds.len(), 8, "{kinds:?}");
    }

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

    /// A folder for one test, removed when dropped.
    struct Folder(PathBuf);
    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("parascan-{name}-{}", std::process::id())))
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
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
        // Two threads fill the cache at once. Each may find images of the other.
        let [images, others] = thread::scope(|scope| {
            [(); 2].map(|()| scope.spawn(|| three_kernels("17", &cache).unwrap())).map(|thread| thread.join().unwrap())
        });
        assert_eq!(images, others);
        for (image, name) in images.iter().zip(NAMES) {
            let of = |other: &str| image.windows(other.len()).any(|bytes| bytes == other.as_bytes());
            assert_eq!(NAMES.map(|other| of(&format!(".text.{other}"))), NAMES.map(|other| other == name));
        }
        let filled = files();
        assert_eq!(filled.len(), 3, "and no unfinished file");
        assert_eq!(three_kernels("17", &cache).unwrap(), images);
        assert_eq!(files(), filled, "nothing was compiled again");

        for (damaged, (path, _)) in filled.iter().enumerate() {
            let before = files();
            let good = fs::read(path).unwrap();
            fs::write(path, &good[..good.len() / 2]).unwrap();
            assert_eq!(three_kernels("17", &cache).unwrap(), images);
            assert_eq!(fs::read(path).unwrap(), good);
            let again: Vec<bool> = files().iter().zip(&before).map(|(now, then)| now != then).collect();
            assert_eq!(again, (0..3).map(|k| k == damaged).collect::<Vec<_>>(), "that one, and no other");
        }

        // In a folder that cannot be written no image is kept, and the parts are compiled.
        assert_eq!(three_kernels("17", &Cache::at(Path::new("/dev/null/parascan"))).unwrap(), images);
    }

    /// The process finds it by the key under which build.rs keeps it.
    #[test]
    fn a_process_finds_the_image_that_a_build_has_kept() {
        if compiler_for_tests().is_none() || are_checked() {
            return;
        }
        let folder = Folder::new("kept");
        let (cache, compiler) = (Cache::at(&folder.0), Compiler::get("segments", NEWEST).unwrap());
        let source = crate::cuda::segments::unit::segments_source();
        assert_eq!(compiler.kept(&source, &cache), None);
        let (version, templates) = (compiler.nvrtc.version(), included(&TEMPLATES, &source));
        cache.write(&key(Target::Cubin(90), version, &FLAGS, &source, &templates, &[]), &packed(b"an image"));
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
        assert!(!folder.0.exists(), "nothing is kept of it");
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
            let files = fs::read_dir(&cache).map_or(0, |files| files.count());
            assert_eq!(files, if kept { 2 } else { 0 }, "{text}");
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

    #[test]
    fn a_file_that_changes_while_it_is_compiled() {
        let folder = Folder::new("meanwhile");
        fs::create_dir_all(&folder.0).unwrap();
        let (header, cache) = (folder.0.join("header.cuh"), Cache::at(&folder.0.join("cache")));
        fs::write(&header, "1").unwrap();
        let source = format!("#include \"{}\"\n", header.display());
        let image = |make: &dyn Fn() -> &'static [u8]| {
            let key = |files: &[String]| key(Target::Cubin(90), (13, 0), &FLAGS, &source, &[], files);
            through(&cache, || files("unit", &source, &[]), key, || Ok(make().to_vec())).unwrap()
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

    /// The scan of includes knows all that the library's own units read: templates, and no file.
    #[test]
    fn units_of_the_library_are_kept() {
        for (_, unit) in UNITS {
            for text in parts(unit.source, &["one", "two"]) {
                assert_eq!(files("unit.cu", &text, &included(&TEMPLATES, &text)), Some(Vec::new()), "{text}");
            }
        }
        // Templates include only templates, as they are spelled.
        for (name, text) in TEMPLATES.iter() {
            assert_eq!(files(name, text, &TEMPLATES), Some(Vec::new()), "{name}");
        }
    }
}
