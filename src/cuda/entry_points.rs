//! Entry points of the driver that the oldest levels of the CUDA API lack, loaded by hand.
//!
//! cudarc is built for one level of the API, which the application chooses. By loading these calls
//! here, parascan builds at every level of cudarc, and the machine only needs a driver of 12.0 or
//! newer.

use super::driver::open;
use super::nvrtc::words;
use crate::Error;
use cudarc::driver::sys::{CUdevice, CUfunction, CUfunction_attribute, CUresult, CUstream};
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A loaded image: `CUlibrary`.
pub(super) type LibraryHandle = *mut c_void;
/// A kernel of a loaded image, which belongs to no context: `CUkernel`.
pub(super) type KernelHandle = *mut c_void;

/// `CUlaunchAttribute`: 4 bytes of padding after `id`, and a union of 64 bytes.
#[repr(C)]
pub(super) struct LaunchAttribute {
    id: u32,
    value: [u64; 8],
}
impl LaunchAttribute {
    /// The launch may begin before the previous one on the stream has ended.
    pub(super) const OVERLAPS: LaunchAttribute = LaunchAttribute {
        id: 6, // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        value: [1, 0, 0, 0, 0, 0, 0, 0],
    };
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig {
    pub(super) blocks: [c_uint; 3],
    pub(super) threads: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: CUstream,
    pub(super) attributes: *const LaunchAttribute,
    pub(super) attribute_count: c_uint,
}

macro_rules! entry_points {
    ($($name:ident: $symbol:literal $signature:ty;)*) => {
        /// The calls, with the names and arguments of the driver's documentation.
        #[derive(Debug)]
        pub(super) struct EntryPoints {
            $( pub(super) $name: $signature, )*
            _driver: Library,
        }
        impl EntryPoints {
            fn load() -> Result<EntryPoints, String> {
                let driver = open().map_err(|e| words(&e))?;
                // SAFETY: the signatures are the documented ones, and the library stays loaded as
                // long as the pointers.
                unsafe {
                    Ok(EntryPoints {
                        $( $name: *driver.get::<$signature>($symbol).map_err(|e| words(&e))?, )*
                        _driver: driver,
                    })
                }
            }
        }
    };
}
entry_points! {
    library_load_data: "cuLibraryLoadData" unsafe extern "C" fn(
        *mut LibraryHandle, *const c_void, *mut c_int, *mut *mut c_void, c_uint, *mut c_int, *mut *mut c_void, c_uint,
    ) -> CUresult;
    library_get_kernel: "cuLibraryGetKernel" unsafe extern "C" fn(
        *mut KernelHandle, LibraryHandle, *const c_char,
    ) -> CUresult;
    library_unload: "cuLibraryUnload" unsafe extern "C" fn(LibraryHandle) -> CUresult;
    kernel_get_function: "cuKernelGetFunction" unsafe extern "C" fn(*mut CUfunction, KernelHandle) -> CUresult;
    kernel_set_attribute: "cuKernelSetAttribute" unsafe extern "C" fn(
        CUfunction_attribute, c_int, KernelHandle, CUdevice,
    ) -> CUresult;
    launch_kernel_ex: "cuLaunchKernelEx" unsafe extern "C" fn(
        *const LaunchConfig, CUfunction, *mut *mut c_void, *mut *mut c_void,
    ) -> CUresult;
}

impl EntryPoints {
    /// The calls of this process's driver, which is 12.0 or newer.
    ///
    /// # Errors
    /// [`Error::NoDriver`] with the linker's reason.
    pub(super) fn get() -> Result<&'static EntryPoints, Error> {
        static LOADED: OnceLock<Result<EntryPoints, String>> = OnceLock::new();
        let loaded = LOADED.get_or_init(EntryPoints::load);
        loaded.as_ref().map_err(|reason| Error::NoDriver { reason: reason.clone() })
    }
}

/// The driver reads these fields by their offsets.
const _: () = {
    assert!(size_of::<LaunchAttribute>() == 72 && std::mem::offset_of!(LaunchAttribute, value) == 8);
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(std::mem::offset_of!(LaunchConfig, stream) == 32 && std::mem::offset_of!(LaunchConfig, attributes) == 40);
};
