//! The check for a driver and a device. It comes first, since cudarc panics without a driver.

use super::nvrtc::words;
use crate::Error;
use cudarc::driver::{CudaContext, sys::CUresult};
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Returns the context of device `ordinal`, cudarc's own (its primary context): one object for all
/// callers while any of them holds it.
///
/// A `CudaContext` counts its streams, and cudarc orders the uses of a buffer by that count. So the
/// buffers and streams of one call must come from one object; else the call returns
/// [`Error::WrongContext`].
///
/// # Errors
/// [`Error::NoDriver`] if the driver library cannot be loaded; [`Error::NoDevice`] if the driver
/// does not start or finds at most `ordinal` devices; [`Error::Driver`] for any other failure.
/// Never panics.
///
/// # Example
/// ```
/// use parascan::{Error, cuda};
/// match cuda::context(0) {
///     Ok(context) => println!("{} has {} bytes", context.name().unwrap(), context.total_mem().unwrap()),
///     Err(Error::NoDriver { .. } | Error::NoDevice { .. }) => println!("no GPU here"),
///     Err(e) => panic!("{e}"),
/// }
/// ```
pub fn context(ordinal: usize) -> Result<Arc<CudaContext>, Error> {
    let devices = count_devices()?;
    if ordinal >= devices {
        return Err(Error::NoDevice { reason: format!("device {ordinal} was asked for and there are {devices}") });
    }
    static SHARED: Mutex<BTreeMap<usize, Weak<CudaContext>>> = Mutex::new(BTreeMap::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = shared.get(&ordinal).and_then(Weak::upgrade) {
        let bound = context.bind_to_thread();
        return bound.map(|()| context).map_err(|e| Error::Driver {
            call: "cuCtxSetCurrent",
            code: e.0,
            device: ordinal,
        });
    }
    let context = CudaContext::new(ordinal);
    let context = context.map_err(|e| Error::Driver { call: "CudaContext::new", code: e.0, device: ordinal })?;
    shared.insert(ordinal, Arc::downgrade(&context));
    Ok(context)
}

/// The driver's library.
pub(super) fn open() -> Result<Library, libloading::Error> {
    let (name, other) = if cfg!(windows) { ("nvcuda.dll", "nvcuda.dll") } else { ("libcuda.so.1", "libcuda.so") };
    // SAFETY: loading the driver runs no initialiser that others can observe.
    unsafe { Library::new(name).or_else(|e| Library::new(other).map_err(|_| e)) }
}

/// The number of devices, at least one.
fn count_devices() -> Result<usize, Error> {
    let missing = |e: libloading::Error| Error::NoDriver { reason: words(&e) };
    let library = open().map_err(missing)?;
    let no_device = |call: &str, code: c_int| Error::NoDevice { reason: format!("{call} answered {code}") };
    // SAFETY: signatures as documented by the driver.
    unsafe {
        let init = library.get::<unsafe extern "C" fn(u32) -> c_int>("cuInit").map_err(missing)?;
        let count = library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDeviceGetCount").map_err(missing)?;
        match init(0) {
            0 => {}
            code => return Err(no_device("cuInit", code)),
        }
        let mut devices = 0;
        match count(&mut devices) {
            0 if devices > 0 => Ok(devices as usize),
            0 => Err(Error::NoDevice { reason: "cuDeviceGetCount counts none".into() }),
            code => Err(no_device("cuDeviceGetCount", code)),
        }
    }
}

/// # Errors
/// [`Error::Driver`] unless the driver returned success.
pub(crate) fn check(call: &'static str, device: usize, code: CUresult) -> Result<(), Error> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Driver { call, code, device }),
    }
}
