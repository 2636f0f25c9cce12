//! The check for a driver and a device. It comes first, since cudarc panics without a driver.

use super::nvrtc::words;
use crate::Error;
use cudarc::driver::sys::{self, CUcontext, CUresult, CUstream};
use cudarc::driver::{CudaContext, CudaStream};
use libloading::Library;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

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
        return bind(&context).map(|()| context);
    }
    let context = CudaContext::new(ordinal);
    let context = context.map_err(|e| Error::Driver { call: "CudaContext::new", code: e.0, device: ordinal })?;
    shared.insert(ordinal, Arc::downgrade(&context));
    Ok(context)
}

/// A stream of another CUDA stack, for calls in its context. Dropping it does not destroy the stream.
///
/// The handle is that of `cuStreamCreate` or `cudaStreamCreate`. Null and the other default streams
/// belong to the context that is current on this thread. All streams of one context share one
/// `CudaContext` object, so calls can use them together; for the device's primary context it is the
/// object of [`context`]. A call with a stream of another object returns [`Error::WrongContext`].
/// `borrow_stream` leaves the stream's context current on this thread.
///
/// A `CudaContext` for a context that is not primary stays for the rest of the process, some bytes
/// large.
///
/// # Errors
/// [`Error::NoDriver`], [`Error::NoDevice`]; [`Error::Driver`], also if no context is current for a
/// default stream.
///
/// # Safety
/// - The stream and its context live until the last use of the returned stream and of buffers that were
///   allocated on it.
/// - cudarc does not count the stream. While the context's object has no stream of cudarc's own, no
///   events order the uses of a buffer: the caller orders its uses on different streams, and its
///   drop.
///
/// # Example
/// ```no_run
/// # fn of_another_stack() -> parascan::cudarc::driver::sys::CUstream { unimplemented!() }
/// use parascan::cuda;
/// let stream = unsafe { cuda::borrow_stream(of_another_stack())? };
/// println!("it is on device {}", stream.context().ordinal());
/// # Ok::<(), parascan::Error>(())
/// ```
pub unsafe fn borrow_stream(stream: CUstream) -> Result<Arc<CudaStream>, Error> {
    count_devices()?;
    let (mut handle, mut device) = (std::ptr::null_mut(), 0);
    // SAFETY: the stream is live, by the caller; the driver writes its context.
    check("cuStreamGetCtx", 0, unsafe { sys::cuStreamGetCtx(stream, &mut handle) })?;
    // SAFETY: the context is live, as its stream is; the driver writes its device.
    unsafe {
        check("cuCtxSetCurrent", 0, sys::cuCtxSetCurrent(handle))?;
        check("cuCtxGetDevice", 0, sys::cuCtxGetDevice(&mut device))?;
    }
    let ordinal = device as usize;
    let (mut flags, mut is_active) = (0, 0);
    // SAFETY: the device is one of the driver's, which writes the two.
    let state = unsafe { sys::cuDevicePrimaryCtxGetState(device, &mut flags, &mut is_active) };
    check("cuDevicePrimaryCtxGetState", ordinal, state)?;
    let mut found = None;
    if is_active != 0 {
        found = Some(context(ordinal)?).filter(|primary| primary.cu_ctx() == handle);
    }
    let context = match found {
        Some(context) => context,
        None => {
            // Never dropped: cudarc would destroy the context, which is not ours.
            static FOREIGN: Mutex<BTreeMap<(usize, usize), Arc<CudaContext>>> = Mutex::new(BTreeMap::new());
            let mut foreign = FOREIGN.lock().unwrap_or_else(PoisonError::into_inner);
            match foreign.entry((handle as usize, ordinal)) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(new) => {
                    // SAFETY: a live context of this device; nothing destroys it, as the table keeps it.
                    let wrapped = unsafe { CudaContext::from_raw_context(ordinal, device, handle) };
                    let wrapped =
                        wrapped.map_err(|e| Error::Driver { call: "from_raw_context", code: e.0, device: ordinal })?;
                    new.insert(wrapped).clone()
                }
            }
        }
    };
    bind(&context)?;
    // SAFETY: the stream is one of this context, and lives long enough, by the caller.
    Ok(unsafe { context.wrap_borrowed_stream(stream) })
}

/// The context that is current on this thread. It is made current again at the end, since other
/// libraries take the current context for the current device.
#[doc(hidden)] // the Python wheel uses it
pub struct Current(CUcontext);

impl Current {
    /// The context that is current now.
    ///
    /// # Errors
    /// [`Error::NoDriver`], [`Error::NoDevice`], [`Error::Driver`].
    pub fn keep() -> Result<Current, Error> {
        count_devices()?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver is there, and writes the handle.
        check("cuCtxGetCurrent", 0, unsafe { sys::cuCtxGetCurrent(&mut context) })?;
        Ok(Current(context))
    }

    /// Makes the stream's context current, which default streams are looked up in.
    ///
    /// # Errors
    /// Those of [`keep`](Current::keep).
    pub fn enter(stream: &CudaStream) -> Result<Current, Error> {
        let current = Current::keep()?;
        bind(stream.context())?;
        Ok(current)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: it was current before.
        let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
    }
}

/// The driver's library.
pub(super) fn open() -> Result<Library, libloading::Error> {
    let (name, other) = if cfg!(windows) { ("nvcuda.dll", "nvcuda.dll") } else { ("libcuda.so.1", "libcuda.so") };
    // SAFETY: loading the driver runs no initialiser that others can observe.
    unsafe { Library::new(name).or_else(|e| Library::new(other).map_err(|_| e)) }
}

/// The version of the driver, as in 12040 for 12.4. `None` without a driver.
pub(super) fn version() -> Option<i32> {
    static VERSION: LazyLock<Option<i32>> = LazyLock::new(|| {
        let (library, mut version) = (open().ok()?, 0);
        // SAFETY: signature as documented by the driver, which writes an integer.
        let code = unsafe {
            library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>("cuDriverGetVersion").ok()?(&mut version)
        };
        (code == 0).then_some(version)
    });
    *VERSION
}

/// The number of devices, at least one. The driver is asked until it has answered.
fn count_devices() -> Result<usize, Error> {
    static DEVICES: OnceLock<usize> = OnceLock::new();
    match DEVICES.get() {
        Some(&devices) => Ok(devices),
        None => found_devices().map(|devices| *DEVICES.get_or_init(|| devices)),
    }
}

fn found_devices() -> Result<usize, Error> {
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

/// Makes the context current.
pub(crate) fn bind(context: &CudaContext) -> Result<(), Error> {
    let device = context.ordinal();
    context.bind_to_thread().map_err(|e| Error::Driver { call: "cuCtxSetCurrent", code: e.0, device })
}

/// # Errors
/// [`Error::Driver`] unless the driver returned success.
pub(crate) fn check(call: &'static str, device: usize, code: CUresult) -> Result<(), Error> {
    match code {
        CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Driver { call, code, device }),
    }
}
