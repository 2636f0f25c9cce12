//! Kernels, loaded once a process and device.
//!
//! They are loaded through `cuLibraryLoadData`, which belongs to no context: a cache of them neither keeps a context
//! alive nor goes stale when one is destroyed.

use super::cache;
use super::driver::check;
use super::nvrtc::{FLAGS, Failure, Nvrtc, Target};
use super::unit::TEMPLATES;
use crate::Error;
use cudarc::driver::CudaContext;
use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUfunction, CUfunction_attribute, CUkernel, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUlibrary, CUstream,
};
use std::any::TypeId;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{LazyLock, OnceLock, PoisonError, RwLock};

/// A unit of the catalog: its text, and its compressed images.
struct BuiltIn {
    source: &'static str,
    images: &'static [(Target, &'static [u8])],
}

static BUILT_IN: &[BuiltIn] = include!(concat!(env!("OUT_DIR"), "/units.rs"));

/// The driver from which on launches that overlap can be captured into a graph: 12.3.
const FIRST_TO_CAPTURE_OVERLAP: i32 = 12030;

/// A translation unit and the kernels to take from it.
pub(crate) struct Program {
    /// What it is called in messages.
    pub(crate) name: String,
    /// Its text.
    pub(crate) source: String,
}

/// A compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    pub(crate) major: i32,
    pub(crate) minor: i32,
}

/// What plans depend on besides the call: a device, and kernels for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// The compute capability that the kernels were compiled for, as in 90: that of the device or an older one.
    pub(crate) architecture: u32,
    pub(crate) multiprocessors: usize,
    /// Bytes of shared memory that a block can ask for.
    pub(crate) shared: usize,
}

/// Bytes of shared memory that each kernel's launches may ask for, in the order of their names, when compiled for a compute
/// capability. On the device no kernel gets more than there is.
pub(crate) type SharedBytes<'a> = &'a dyn Fn(u32) -> Vec<usize>;
const NO_SHARED: SharedBytes<'static> = &|_| Vec::new();

/// Kernels of one translation unit, loaded for one device.
///
/// The library's own kernels are of this type, and so are those of a primitive written outside of it: a unit includes
/// the templates by name (`pipeline.cuh`, `handover.cuh`, ...) and defines `extern "C"` kernels on them.
#[derive(Debug)]
pub struct Kernels {
    library: CUlibrary,
    functions: Vec<CUfunction>,
    /// Of each: how many of its blocks run at the same time, when it was asked for.
    at_once: Vec<OnceLock<usize>>,
    machine: Machine,
    /// Whether device and driver let a launch begin before the one that it follows has ended.
    overlaps: bool,
    device: usize,
}

// SAFETY: handles of the driver, which may be used from any thread.
unsafe impl Send for Kernels {}
// SAFETY: as above; nothing is changed through them.
unsafe impl Sync for Kernels {}

impl Kernels {
    /// Compiles the text of a translation unit with NVRTC, or takes it from the cache on disk, and loads the kernels
    /// named. `name` is what the unit is called in messages. Waits for the compiler, not for the device.
    ///
    /// # Errors
    /// [`Error::NoCompiler`], [`Error::Compiler`], [`Error::Compile`] with the compiler's own words, [`Error::Driver`].
    pub fn compile(context: &CudaContext, name: &str, source: &str, kernels: &[&str]) -> Result<Kernels, Error> {
        let device = context.ordinal();
        context.bind_to_thread().map_err(|e| Error::Driver { call: "cuCtxSetCurrent", code: e.0, device })?;
        let program = Program { name: name.to_owned(), source: source.to_owned() };
        if let Some(kernel) = kernels.iter().find(|kernel| kernel.contains('\0')) {
            return Err(Error::Compile { unit: name.to_owned(), log: format!("no kernel can be called {kernel:?}") });
        }
        let (target, image) = compile(&program, capability(device)?)?;
        Kernels::from_image(target, &image, kernels, NO_SHARED, device)
    }

    /// Compiles `program` if it is not built in, and loads it for the device of the current context.
    fn load(program: &Program, names: &[&str], shared: SharedBytes, device: usize) -> Result<Kernels, Error> {
        let capability = capability(device)?;
        let mut refused = None;
        if let Some(unit) = BUILT_IN.iter().find(|unit| unit.source == program.source) {
            for (target, image) in fitting(unit.images, capability) {
                match Kernels::from_image(target, &image, names, shared, device) {
                    Ok(kernels) => return Ok(kernels),
                    Err(e) => refused = Some(e), // PTX newer than the driver, say: the compiler may do better
                }
            }
        }
        match compile(program, capability) {
            Ok((target, image)) => Kernels::from_image(target, &image, names, shared, device),
            Err(Error::NoCompiler { unit, major, minor, reason }) => Err(match refused {
                Some(e) => {
                    Error::NoCompiler { unit, major, minor, reason: format!("{reason}; the built-in image: {e}") }
                }
                None => Error::NoCompiler { unit, major, minor, reason },
            }),
            Err(e) => Err(e),
        }
    }

    fn from_image(
        target: Target,
        image: &[u8],
        names: &[&str],
        shared: SharedBytes,
        device: usize,
    ) -> Result<Kernels, Error> {
        // PTX is text and must end in a NUL; a cubin knows its own length.
        let mut image = image.to_vec();
        image.push(0);
        let mut version = 0;
        // SAFETY: the driver writes an integer.
        check("cuDriverGetVersion", device, unsafe { sys::cuDriverGetVersion(&mut version) })?;
        if version < 12000 {
            return Err(Error::OldDriver { version }); // it has no cuLibraryLoadData, for which cudarc would panic
        }
        let (Target::Cubin(architecture) | Target::Ptx(architecture)) = target;
        let machine = Machine {
            architecture,
            multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            shared: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        };
        let mut library: CUlibrary = std::ptr::null_mut();
        // SAFETY: the image is whole, the driver copies it; no options are passed.
        check("cuLibraryLoadData", device, unsafe {
            let none = std::ptr::null_mut();
            sys::cuLibraryLoadData(
                &mut library,
                image.as_ptr().cast(),
                none,
                none.cast(),
                0,
                none.cast(),
                none.cast(),
                0,
            )
        })?;
        let overlaps = architecture >= 90 && version >= FIRST_TO_CAPTURE_OVERLAP;
        let at_once = vec![OnceLock::new(); names.len()];
        let mut kernels = Kernels { library, functions: Vec::new(), at_once, machine, overlaps, device };
        let shared = shared(architecture);
        for (k, name) in names.iter().enumerate() {
            let c_name = CString::new(*name).expect("`compile` has looked; the library's own have no NUL");
            let (mut kernel, mut function): (CUkernel, CUfunction) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the library is loaded; the name is a C string.
            check("cuLibraryGetKernel", device, unsafe {
                sys::cuLibraryGetKernel(&mut kernel, library, c_name.as_ptr())
            })?;
            if let Some(&bytes) = shared.get(k).filter(|&&bytes| bytes > 0) {
                let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                // SAFETY: the kernel belongs to the library, which is loaded.
                check("cuKernelSetAttribute", device, unsafe {
                    sys::cuKernelSetAttribute(attribute, bytes.min(machine.shared) as i32, kernel, device as i32)
                })?;
            }
            // SAFETY: the kernel belongs to the library, which is loaded.
            check("cuKernelGetFunction", device, unsafe { sys::cuKernelGetFunction(&mut function, kernel) })?;
            // A driver that loads lazily would do it at the first launch, and wait for the device to drain; asking for
            // an attribute makes it do that now.
            let (mut registers, attribute) = (0, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS);
            // SAFETY: the driver writes an integer.
            let code = unsafe { sys::cuFuncGetAttribute(&mut registers, attribute, function) };
            check("cuFuncGetAttribute", device, code)?;
            // Launched as a kernel, which belongs to no context. SAFETY (of the cast): the driver takes either.
            kernels.functions.push(kernel.cast());
        }
        Ok(kernels)
    }

    /// Their device, and what they were compiled for.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Launches kernel `index` of those named. Does not wait.
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// # Safety
    /// - `arguments` are those of the kernel, in order, of its types.
    /// - What the kernel reads and writes through them is valid until the stream is past it.
    /// - The stream's context is current and belongs to the device that the kernels were loaded for.
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

    /// The same of a kernel whose blocks wait for each other: all of them run at once, or none.
    ///
    /// # Errors
    /// [`Error::Driver`], with `CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE` for more blocks than the stream's part of the device takes.
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
        let arguments = arguments.as_ptr().cast_mut().cast();
        // SAFETY: by the caller; the driver copies the arguments before it returns.
        let code = unsafe {
            let function = self.functions[index];
            sys::cuLaunchCooperativeKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments)
        };
        check("cuLaunchCooperativeKernel", self.device, code)
    }

    /// The same with so many bytes of shared memory besides what the kernel names itself.
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
        let arguments = arguments.as_ptr().cast_mut().cast();
        let function = self.functions[index];
        // SAFETY: by the caller; the driver copies the arguments before it returns.
        let code = unsafe {
            sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, std::ptr::null_mut())
        };
        check("cuLaunchKernel", self.device, code)
    }

    /// The same of a kernel that waits itself for the launch before it on the stream, and whose blocks may start earlier where machine
    /// and driver can do that (programmatic dependent launch).
    ///
    /// # Safety
    /// As for `launch`; the kernel calls `wait_for_launch_before` of `types.cuh`.
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
        let mut may_start_earlier = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: blocks,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shared as u32,
            hStream: stream,
            attrs: &mut may_start_earlier,
            numAttrs: 1,
        };
        let arguments = arguments.as_ptr().cast_mut().cast();
        // SAFETY: by the caller; the driver copies configuration and arguments before it returns.
        let code = unsafe { sys::cuLaunchKernelEx(&config, self.functions[index], arguments, std::ptr::null_mut()) };
        check("cuLaunchKernelEx", self.device, code)
    }

    /// How many blocks of kernel `index`, of so many threads each and always as many, run on the device at the same time if nothing
    /// else does.
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
        // SAFETY: nothing of it is used any more. An error here has nowhere to go.
        let _ = unsafe { sys::cuLibraryUnload(self.library) };
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

/// Whether build.rs knew the unit.
#[cfg(test)]
pub(super) fn is_built_in(source: &str) -> bool {
    BUILT_IN.iter().any(|unit| unit.source == source)
}

/// Whether build.rs has compiled the unit to machine code of that compute capability.
#[cfg(test)]
fn is_compiled(architecture: u32, source: &str) -> bool {
    let unit = BUILT_IN.iter().find(|unit| unit.source == source);
    unit.is_some_and(|unit| unit.images.iter().any(|&(target, _)| target == Target::Cubin(architecture)))
}

/// Compiles every text for the compute capability beside it, unless build.rs has, on all cores; skipped where there is no compiler.
#[cfg(test)]
pub(crate) fn compile_all(mut all: Vec<(u32, String, String)>) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let nvrtc = match Nvrtc::find() {
        Ok(nvrtc) => nvrtc,
        Err(reason) => {
            assert_ne!(std::env::var("PARASCAN_REQUIRE_NVRTC").as_deref(), Ok("1"), "{reason}");
            return eprintln!("skipped, no NVRTC: {reason}");
        }
    };
    let asked = all.len();
    all.retain(|(architecture, _, source)| !is_compiled(*architecture, source));
    let next = AtomicUsize::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut failures = Vec::new();
            while let Some((architecture, name, source)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                match nvrtc.compiles(name, source, &TEMPLATES, *architecture) {
                    Ok(()) => {}
                    Err(Failure::Log(words) | Failure::Call(words)) => failures.push(format!("{name}: {words}")),
                }
            }
            failures
        };
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(failures.is_empty(), "{} failed, the first: {}", failures.len(), failures[0]);
    println!("{asked} units compile, {} of them now", all.len());
}

/// The images that run on `capability`, the best first, unpacked.
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
    fitting
        .into_iter()
        .filter_map(|(.., target, packed)| Some((target, miniz_oxide::inflate::decompress_to_vec(packed).ok()?)))
}

/// Compiles a program at run time, or takes it from the cache on disk.
fn compile(program: &Program, capability: Capability) -> Result<(Target, Vec<u8>), Error> {
    static COMPILER: LazyLock<Result<Nvrtc, String>> = LazyLock::new(Nvrtc::find);
    let Capability { major, minor } = capability;
    let unit = &program.name;
    let no_compiler = |reason: &String| Error::NoCompiler { unit: unit.clone(), major, minor, reason: reason.clone() };
    let nvrtc = COMPILER.as_ref().map_err(no_compiler)?;
    let broken = |reason: String| Error::Compiler { path: nvrtc.path().to_owned(), reason };

    let own = (major * 10 + minor) as u32;
    let known = nvrtc.architectures().map_err(broken)?;
    let newest = known.iter().copied().filter(|&architecture| architecture <= own).max();
    let target = match newest {
        Some(architecture) if architecture == own => Target::Cubin(own),
        Some(architecture) => Target::Ptx(architecture), // the device is newer than the compiler: the driver finishes it
        None => {
            return Err(broken(format!(
                "it compiles for compute capability {known:?} and the device has {major}.{minor}"
            )));
        }
    };

    let key = key(target, nvrtc.version(), &FLAGS, &program.source, &TEMPLATES);
    if let Some(image) = cache::read(&key) {
        return Ok((target, image));
    }
    let image =
        nvrtc.compile(&format!("{unit}.cu"), &program.source, &TEMPLATES, target).map_err(|failure| match failure {
            Failure::Log(log) => Error::Compile { unit: unit.clone(), log },
            Failure::Call(reason) => broken(reason),
        })?;
    cache::write(&key, &image);
    Ok((target, image))
}

/// All that an image is made from: what it is compiled for, by which compiler, how, the unit's text and the templates'.
fn key(target: Target, version: (i32, i32), flags: &[&str], source: &str, templates: &[(&str, &str)]) -> String {
    format!("{target:?} {version:?} {flags:?}\n{source}\n{templates:?}")
}

// ---- the cache of loaded kernels ---------------------------------------------------------------------------------------------

/// Which kernels: the types they are for, which of a primitive's programs, the device.
type Key = (TypeId, &'static str, usize);

/// The one piece of global state: what is loaded stays loaded.
static LOADED: LazyLock<RwLock<HashMap<Key, &'static Kernels>>> = LazyLock::new(Default::default);

/// The kernels of `program`, if they are loaded.
pub(crate) fn loaded(types: TypeId, program: &'static str, device: usize) -> Option<&'static Kernels> {
    LOADED.read().unwrap_or_else(PoisonError::into_inner).get(&(types, program, device)).copied()
}

/// The kernels of `program`, loaded now if they are not. If two threads load the same ones at once, one throws its own
/// away.
pub(crate) fn load(
    types: TypeId,
    program: &'static str,
    device: usize,
    names: &[&str],
    make: impl FnOnce() -> Program,
) -> Result<&'static Kernels, Error> {
    load_with_shared(types, program, device, names, NO_SHARED, make)
}

/// The same for kernels that take shared memory when they are launched.
pub(crate) fn load_with_shared(
    types: TypeId,
    program: &'static str,
    device: usize,
    names: &[&str],
    shared: SharedBytes,
    make: impl FnOnce() -> Program,
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

    /// For the machines that the default is for, whatever the build was asked for; for older ones each kind of unit has its own test.
    #[test]
    fn what_is_built_in_compiles() {
        let units = BUILT_IN.iter().enumerate();
        compile_all(
            units.flat_map(|(k, unit)| [80, 90].map(|a| (a, format!("unit {k}"), unit.source.to_owned()))).collect(),
        );
    }

    #[test]
    fn the_key_changes_with_all_that_an_image_is_made_from() {
        let templates = [("a.cuh", "one"), ("b.cuh", "two")];
        let other_templates = [("a.cuh", "one"), ("b.cuh", "three")];
        let flags = ["--std=c++17", "--fmad=false"];
        let keys = [
            key(Target::Cubin(90), (13, 0), &flags, "text", &templates),
            key(Target::Cubin(80), (13, 0), &flags, "text", &templates),
            key(Target::Ptx(90), (13, 0), &flags, "text", &templates),
            key(Target::Cubin(90), (13, 1), &flags, "text", &templates),
            key(Target::Cubin(90), (13, 0), &flags[..1], "text", &templates),
            key(Target::Cubin(90), (13, 0), &flags, "other text", &templates),
            key(Target::Cubin(90), (13, 0), &flags, "text", &other_templates),
            key(Target::Cubin(90), (13, 0), &flags, "text", &templates[..1]),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }
}
