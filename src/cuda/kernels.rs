//! The kernels of one unit on one device: their images, their loading, their launches.
//!
//! Kernels are loaded with `cuLibraryLoadData`. A library belongs to no context, so kernels outlive
//! every context of the device.

use super::cache::Cache;
use super::compiler::{self, Compiler, are_checked, compile};
use super::driver::{bind, check};
use super::entry_points::{EntryPoints, KernelHandle, LaunchAttribute, LaunchConfig, LibraryHandle};
use super::image::unpacked;
use super::library::Program;
use super::nvrtc::Target;
use super::unit::{of_any_kind, parts};
use crate::Error;
use cudarc::driver::CudaContext;
use cudarc::driver::sys::{
    self, CUdevice_attribute as Attribute, CUdeviceptr, CUfunction, CUfunction_attribute, CUstream,
};
use std::ffi::{CString, c_void};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// The first driver that captures overlapping launches into a graph: 12.3.
const FIRST_TO_CAPTURE_OVERLAP: i32 = 12030;

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
/// The numbers of the kernels that a unit's first call launches on a machine.
pub(crate) type First<'a> = &'a dyn Fn(&Machine) -> Vec<usize>;
pub(super) const NO_SHARED: SharedBytes<'static> = &|_| Vec::new();

/// Kernels of one translation unit, loaded for one device.
///
/// The library's own kernels have this type, and so have the kernels of a primitive outside the
/// library. Their unit includes the templates by name (`core/pipeline.cuh`, `core/handover.cuh`,
/// ...) and defines `extern "C"` kernels on them.
#[derive(Debug)]
pub struct Kernels {
    entry_points: &'static EntryPoints,
    names: Vec<String>,
    /// The most bytes of dynamic shared memory of each kernel, if any kernel takes some.
    shared: Vec<usize>,
    images: Images,
    /// Each kernel, once it is loaded.
    functions: Vec<OnceLock<Function>>,
    libraries: Mutex<Vec<LibraryHandle>>,
    /// Of the thread that loads kernels.
    loading: Mutex<()>,
    machine: Machine,
    /// Whether device and driver let a launch begin before the previous one has ended.
    overlaps: bool,
    device: usize,
}

/// A loaded kernel.
#[derive(Debug)]
struct Function {
    handle: CUfunction,
    /// The number of its blocks that run at the same time, once `blocks_at_once` has asked.
    at_once: OnceLock<usize>,
}

/// The images of kernels that are not loaded yet.
#[derive(Debug)]
enum Images {
    /// Embedded: one image of all kernels, or one for each.
    Packed(&'static [&'static [u8]]),
    /// The text of a unit, of which each kernel is compiled by itself.
    Text { unit: String, source: String },
}

// SAFETY: the fields are handles of the driver, which any thread may use.
unsafe impl Send for Kernels {}
// SAFETY: as above; the fields that change are `OnceLock`s and a `Mutex`.
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
        bind(context)?;
        if let Some(kernel) = kernels.iter().find(|kernel| kernel.contains('\0')) {
            return Err(Error::Compile { unit: name.to_owned(), log: format!("no kernel can be called {kernel:?}") });
        }
        let (target, mut images) = compile(name, &[source], capability(device)?, &Cache::of_user())?;
        Kernels::of_image(target, images.remove(0), kernels, NO_SHARED, device)
    }

    /// Finds the images of `program` for the device of the current context, and loads the `first`
    /// kernels. `require` loads more.
    ///
    /// The images are embedded machine code for the device, else what a build or a process has kept
    /// in the cache or the compiler makes now, a kernel at a time. If the compiler cannot make
    /// machine code for the device, or there is none, embedded PTX comes first. If the compilation
    /// fails, embedded PTX comes last, and one line on stderr says so.
    pub(crate) fn load(
        program: &Program,
        names: &[&str],
        shared: SharedBytes,
        first: First,
        device: usize,
    ) -> Result<Kernels, Error> {
        let capability = capability(device)?;
        // Loading kernels shows whether the driver takes the images, so one is loaded at least: the driver
        // may be older than the PTX.
        let first = |machine: &Machine| Some(first(machine)).filter(|all| !all.is_empty()).unwrap_or_else(|| vec![0]);
        let embedded = |images: &[Embedded]| {
            let mut refused = None;
            for &(target, images) in images {
                let kernels = Kernels::new(target, names, shared, device, Images::Packed(images));
                match kernels.and_then(|kernels| kernels.require(&first(&kernels.machine)).map(|()| kernels)) {
                    Ok(kernels) => return Ok(kernels),
                    Err(e) => refused = Some(e),
                }
            }
            Err(refused)
        };
        // By segment a unit of the catalog serves every kind of segments.
        let source = of_any_kind(&program.source);
        let unit = program.built_in.filter(|unit| unit.source == source && !are_checked());
        let (machine_code, ptx) = fitting(unit.map_or(&[], |unit| unit.images), capability);
        let mut refused = match embedded(&machine_code) {
            Ok(kernels) => return Ok(kernels),
            Err(refused) => refused,
        };
        let cache = Cache::of_user();
        let compiler = Compiler::get(&program.name, capability, &cache);
        let makes_machine_code = compiler.as_ref().is_ok_and(|compiler| matches!(compiler.target, Target::Cubin(_)));
        if !makes_machine_code {
            match embedded(&ptx) {
                Ok(kernels) => return Ok(kernels),
                Err(by_driver) => refused = by_driver.or(refused),
            }
        }
        let compiler = compiler.map_err(|e| match (e, refused) {
            (Error::NoCompiler { unit, major, minor, reason }, Some(e)) => {
                Error::NoCompiler { unit, major, minor, reason: format!("{reason}; the embedded image: {e}") }
            }
            (e, _) => e,
        })?;
        let compiled = || {
            if unit.is_some()
                && let Some(image) = compiler.kept(&program.source, &cache)
            {
                return Kernels::of_image(compiler.target, image, names, shared, device);
            }
            let images = Images::Text { unit: program.name.clone(), source: program.source.clone() };
            let kernels = Kernels::new(compiler.target, names, shared, device, images)?;
            kernels.require(&first(&kernels.machine))?;
            Ok(kernels)
        };
        compiled().or_else(|e| {
            // Only the catalog's units have embedded PTX, and their texts compile: the compiler does
            // not work, or makes what the driver does not take.
            let Ok(kernels) = embedded(&ptx) else { return Err(e) };
            static TOLD: Once = Once::new();
            TOLD.call_once(|| eprintln!("parascan: embedded PTX runs in place of compiled kernels: {e}"));
            Ok(kernels)
        })
    }

    fn new(
        target: Target,
        names: &[&str],
        shared: SharedBytes,
        device: usize,
        images: Images,
    ) -> Result<Kernels, Error> {
        let mut version = 0;
        // SAFETY: the driver writes an integer.
        check("cuDriverGetVersion", device, unsafe { sys::cuDriverGetVersion(&mut version) })?;
        if version < 12000 {
            return Err(Error::OldDriver { version }); // it has no cuLibraryLoadData
        }
        let architecture = target.capability();
        let machine = Machine {
            architecture,
            multiprocessors: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize,
            shared: attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        };
        Ok(Kernels {
            entry_points: EntryPoints::get()?,
            names: names.iter().map(|&name| name.to_owned()).collect(),
            shared: shared(architecture),
            images,
            functions: names.iter().map(|_| OnceLock::new()).collect(),
            libraries: Mutex::default(),
            loading: Mutex::default(),
            machine,
            overlaps: architecture >= 90 && version >= FIRST_TO_CAPTURE_OVERLAP,
            device,
        })
    }

    /// Loads all kernels from one image.
    fn of_image(
        target: Target,
        image: Vec<u8>,
        names: &[&str],
        shared: SharedBytes,
        device: usize,
    ) -> Result<Kernels, Error> {
        let kernels = Kernels::new(target, names, shared, device, Images::Packed(&[]))?;
        kernels.add(image, &Vec::from_iter(0..names.len()))?;
        Ok(kernels)
    }

    /// Whether all of these kernels are loaded.
    pub(crate) fn are_loaded(&self, kernels: &[usize]) -> bool {
        kernels.iter().all(|&kernel| self.functions[kernel].get().is_some())
    }

    /// Loads those of `kernels` that are not loaded, by one thread at a time. Several are compiled at the same time.
    pub(crate) fn require(&self, kernels: &[usize]) -> Result<(), Error> {
        if self.are_loaded(kernels) {
            return Ok(());
        }
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<usize> = kernels.iter().copied().filter(|&kernel| !self.are_loaded(&[kernel])).collect();
        if missing.is_empty() {
            return Ok(()); // another thread has loaded them
        }
        let image = |packed| unpacked(packed).expect("as build.rs wrote it");
        match &self.images {
            &Images::Packed([all]) => self.add(image(all), &Vec::from_iter(0..self.names.len())),
            Images::Packed(each) => missing.iter().try_for_each(|&kernel| self.add(image(each[kernel]), &[kernel])),
            Images::Text { unit, source } => {
                let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
                let parts = parts(source, &names);
                let texts: Vec<&str> = missing.iter().map(|&kernel| parts[kernel].as_str()).collect();
                let (target, images) = compile(unit, &texts, capability(self.device)?, &Cache::of_user())?;
                // Plans have the tiles of the first kernels' architecture.
                let (own, other) = (self.machine.architecture, target.capability());
                if own != other {
                    let reason = format!("it compiles for compute capability {other} now, and before for {own}");
                    return Err(Error::Compiler { path: compiler::path(), reason });
                }
                images.into_iter().zip(&missing).try_for_each(|(image, &kernel)| self.add(image, &[kernel]))
            }
        }
    }

    /// Loads the kernels with these numbers from an image. Kernels that were loaded before stay.
    fn add(&self, mut image: Vec<u8>, kernels: &[usize]) -> Result<(), Error> {
        let device = self.device;
        image.push(0); // PTX is text and must end in a NUL. A cubin knows its own length.
        let mut library: LibraryHandle = std::ptr::null_mut();
        // SAFETY: the image is complete, and the driver copies it; no options are passed.
        check("cuLibraryLoadData", device, unsafe {
            let (none, no_values) = (std::ptr::null_mut(), std::ptr::null_mut());
            let load = self.entry_points.library_load_data;
            load(&mut library, image.as_ptr().cast(), none, no_values, 0, none, no_values, 0)
        })?;
        self.libraries.lock().unwrap_or_else(PoisonError::into_inner).push(library);
        for &number in kernels {
            let name = self.names[number].as_str();
            let name = CString::new(name).expect("`compile` has looked; the library's own have no NUL");
            let (mut kernel, mut function): (KernelHandle, CUfunction) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: the library is loaded; the name is a C string.
            check("cuLibraryGetKernel", device, unsafe {
                (self.entry_points.library_get_kernel)(&mut kernel, library, name.as_ptr())
            })?;
            if let Some(&bytes) = self.shared.get(number).filter(|&&bytes| bytes > 0) {
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
            let function = Function { handle: kernel.cast(), at_once: OnceLock::new() };
            let _ = self.functions[number].set(function);
        }
        Ok(())
    }

    /// The names of the kernels.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The device, and the architecture that the kernels were compiled for.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Loads the kernel unless it is loaded.
    ///
    /// # Errors
    /// [`Error::NoKernel`], and those of loading.
    fn function(&self, index: usize) -> Result<&Function, Error> {
        let kernels = self.functions.len();
        let function = self.functions.get(index).ok_or(Error::NoKernel { index, kernels })?;
        if function.get().is_none() {
            self.require(&[index])?;
        }
        Ok(function.get().expect("`require` has loaded it"))
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
        let (function, arguments) = (self.function(index)?.handle, arguments.as_ptr().cast_mut().cast());
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
        let (function, arguments) = (self.function(index)?.handle, arguments.as_ptr().cast_mut().cast());
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
        let (launch, function) = (self.entry_points.launch_kernel_ex, self.function(index)?.handle);
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
        let function = self.function(index)?;
        if let Some(&blocks) = function.at_once.get() {
            return Ok(blocks);
        }
        let mut blocks = 0;
        // SAFETY: the driver writes an integer; the kernel belongs to a library that is loaded.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function.handle, threads as i32, 0)
        };
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.device, code)?;
        let blocks = blocks as usize * self.machine.multiprocessors;
        Ok(*function.at_once.get_or_init(|| blocks))
    }

    /// The grid of a kernel of a length in memory whose blocks take tiles until none is left: `blocks`, or fewer if fewer
    /// run at once.
    ///
    /// # Errors
    /// Those of `blocks_at_once`.
    pub(crate) fn resident(&self, index: usize, blocks: u32, threads: u32) -> Result<u32, Error> {
        let at_once = self.blocks_at_once(index, threads as usize)?.max(2); // a prefix server needs a second block
        Ok((blocks as usize).min(at_once) as u32)
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        for &library in self.libraries.get_mut().unwrap_or_else(PoisonError::into_inner).iter() {
            // SAFETY: the stream is past all kernels of the library, by the promise of `launch`.
            // `drop` cannot return an error.
            let _ = unsafe { (self.entry_points.library_unload)(library) };
        }
    }
}

/// A pointer to a kernel's argument, for the list of a launch.
pub(crate) fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

/// The same for the address of a length in memory, which only counted programs take: null without one.
pub(crate) fn opt(address: &Option<CUdeviceptr>) -> *const c_void {
    address.as_ref().map_or(std::ptr::null(), p)
}

/// The arguments without the last one, if that is null.
pub(crate) fn present(arguments: &[*const c_void]) -> &[*const c_void] {
    match arguments {
        [others @ .., last] if last.is_null() => others,
        _ => arguments,
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

/// The images of one target.
type Embedded = (Target, &'static [&'static [u8]]);

/// The images that run on `capability`: machine code and PTX, the newest first.
fn fitting(images: &'static [Embedded], capability: Capability) -> (Vec<Embedded>, Vec<Embedded>) {
    let own = (capability.major * 10 + capability.minor) as u32;
    let fits = |target: Target| match target {
        Target::Cubin(made_for) => made_for / 10 == own / 10 && made_for <= own,
        Target::Ptx(made_for) => made_for <= own,
    };
    let mut fitting: Vec<Embedded> = images.iter().copied().filter(|&(target, _)| fits(target)).collect();
    fitting.sort_unstable_by_key(|&(target, _)| std::cmp::Reverse(target.capability()));
    fitting.into_iter().partition(|(target, _)| matches!(target, Target::Cubin(_)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::cuda::compiler::Folder;
    use crate::cuda::fakes::{alone, compiler, driver, printed};

    /// The plan is for the architecture of the first kernels.
    #[test]
    fn kernels_of_another_architecture() {
        let folder = Folder::new("architecture");
        let Some(mut command) = alone(kernels_of_another_architecture, &folder.0) else {
            for target in [Target::Cubin(90), Target::Ptx(80)] {
                let images = Images::Text { unit: "a unit".into(), source: "a text".into() };
                let kernels = Kernels::new(target, &["kernel"], NO_SHARED, 0, images).unwrap();
                match kernels.require(&[0]) {
                    Ok(()) => println!("{target:?} is loaded"),
                    Err(e) => println!("{target:?}: {e}"),
                }
            }
            return;
        };
        if driver(&folder, 12040).is_none() || compiler(&folder, "libnvrtc.so.12", 12, 90).is_none() {
            return;
        }
        // The image is compiled, then found in the cache.
        for _ in 0..2 {
            let said = printed(&mut command);
            assert!(said.contains("Cubin(90) is loaded\n"), "{said}");
            assert!(said.contains("Ptx(80): NVRTC at libnvrtc.so.12 cannot be used: "), "{said}");
        }
    }
}
