//! Where a call runs: on the host, or on a stream of the library that the arrays belong to.

use crate::failed;
use parascan::cuda::{self, Current};
use parascan::cudarc::driver::CudaStream;
use parascan::cudarc::driver::sys::{self, CUstream};
use parascan::dynamic::{Type, ViewMut};
use parascan::{Error, Workspace};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The host, or a device's stream.
#[pyclass(frozen)]
pub(crate) struct Site {
    stream: Option<Arc<CudaStream>>,
    /// Makes scratch memory: from a number of bytes to an owner and an address. Without it the
    /// memory comes from the driver's pool.
    allocate: Option<Py<PyAny>>,
    /// Scratch memory of `KEPT` bytes each, which no call uses.
    kept: Mutex<Vec<Scratch>>,
}

/// Scratch memory of the array library.
struct Scratch {
    workspace: Workspace,
    address: u64,
    _owner: Py<PyAny>,
}

/// Bytes of scratch memory that stay with a site for its next call. So most calls neither allocate nor
/// zero any.
const KEPT: usize = 8 << 20;

/// Looks at a count for each question to its stream.
const POLLS: usize = 4096;

/// The handle of the default stream of each thread.
const PER_THREAD: usize = 2;

#[pymethods]
impl Site {
    /// The host without a device; else the stream with this handle, of the device's primary context.
    #[new]
    #[pyo3(signature = (device=None, stream=0, allocate=None))]
    fn new(device: Option<usize>, stream: usize, allocate: Option<Py<PyAny>>) -> PyResult<Site> {
        let Some(device) = device else { return Ok(Site::of(None, None)) };
        let _current = Current::keep().map_err(failed)?;
        let context = cuda::context(device).map_err(failed)?;
        // SAFETY: the library that the arrays belong to says that it is a stream of the device. It is used
        // only while that library names it as the current one.
        let stream = unsafe { cuda::borrow_stream(stream as CUstream) }.map_err(failed)?;
        drop(context);
        Ok(Site::of(Some(stream), allocate))
    }

    /// Waits for the stream.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let _current = Current::enter(stream).map_err(failed)?;
        py.detach(|| synchronize(stream)).map_err(failed)
    }
}

/// Runs `call` on the host without the GIL.
///
/// # Errors
/// `RuntimeError` if a forked process gets no threads.
pub(crate) fn on_host<R: Send>(py: Python<'_>, call: impl FnOnce() -> R + Send) -> PyResult<R> {
    Ok(match pool_of_fork()? {
        None => py.detach(call),
        Some(pool) => py.detach(|| pool.install(call)),
    })
}

/// The threads of a forked process, or `None` in the process of the first call, which uses rayon's own. A fork has
/// none of the threads of its parent, and would wait for them for ever.
fn pool_of_fork() -> PyResult<Option<Arc<ThreadPool>>> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);
    let process = std::process::id();
    if *FIRST.get_or_init(|| process) == process {
        return Ok(None);
    }
    let mut kept = locked(&POOL);
    if let Some((_, pool)) = kept.as_ref().filter(|(of, _)| *of == process) {
        return Ok(Some(pool.clone()));
    }
    let pool = ThreadPoolBuilder::new().build().map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let pool = Arc::new(pool);
    // The pool of a parent that is a fork too is not dropped: its threads do not exist here.
    std::mem::forget(kept.replace((process, pool.clone())));
    Ok(Some(pool))
}

/// The device whose memory has this address.
#[pyfunction]
pub(crate) fn device_of(address: usize) -> PyResult<i32> {
    let _current = Current::keep().map_err(failed)?; // without a driver, its functions panic
    let (mut device, attribute) = (0_i32, sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    // SAFETY: the driver writes an integer, and looks the address up.
    let code = unsafe { sys::cuPointerGetAttribute((&raw mut device).cast(), attribute, address as u64) };
    driver("cuPointerGetAttribute", 0, code).map_err(failed)?;
    Ok(device)
}

impl Site {
    fn of(stream: Option<Arc<CudaStream>>, allocate: Option<Py<PyAny>>) -> Site {
        Site { stream, allocate, kept: Mutex::default() }
    }

    pub(crate) fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.stream.as_ref()
    }

    /// Runs `call` without the GIL, on a device with a workspace over the scratch memory that stays. If
    /// that is too little, the call launches nothing, and runs again over more. This is freed at the end,
    /// in the order of the stream.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        call: impl Fn(Option<&mut Workspace>) -> Result<R, Error> + Sync,
    ) -> PyResult<R> {
        let Some(stream) = &self.stream else { return on_host(py, || call(None))?.map_err(failed) };
        let _current = Current::enter(stream).map_err(failed)?;
        let Some(allocate) = &self.allocate else {
            let run = || call(Some(&mut Workspace::new(stream)));
            return py.detach(run).map_err(failed);
        };
        if is_capturing(stream).map_err(failed)? {
            // Other calls use the scratch memory too, and a graph may run at the same time.
            return Err(PyRuntimeError::new_err("a CUDA graph cannot capture a call"));
        }
        let scratch = |bytes: usize| -> PyResult<Scratch> {
            let (_owner, address) = allocate.call1(py, (bytes,))?.extract(py)?;
            // SAFETY: the memory is the array library's, of which this is the current stream. The owner frees it
            // in the order of that stream, and is dropped with the workspace.
            Ok(Scratch { workspace: unsafe { Workspace::over(stream, address, bytes) }, address, _owner })
        };
        // This handle is another stream on each thread, and these streams are not ordered.
        let stays = stream.cu_stream() as usize != PER_THREAD;
        let kept = if stays { locked(&self.kept).pop() } else { None };
        let mut kept = kept.map_or_else(|| scratch(KEPT), Ok)?;
        let mut result = py.detach(|| call(Some(&mut kept.workspace)));
        if let Err(Error::Scratch { .. }) = result {
            // For graphs, a workspace keeps the parts of all its calls apart. Without them this call may fit.
            // SAFETY: as in `scratch`.
            kept.workspace = unsafe { Workspace::over(stream, kept.address, KEPT) };
            result = py.detach(|| call(Some(&mut kept.workspace)));
        }
        if stays {
            locked(&self.kept).push(kept);
        }
        if let Err(Error::Scratch { needed, .. }) = result {
            let mut more = scratch(needed)?;
            result = py.detach(|| call(Some(&mut more.workspace)));
        }
        result.map_err(failed)
    }

    /// Calls `call` with memory for a count, waits for the count, and returns it. The stream's context is
    /// current.
    ///
    /// The kernel that writes the count may still run. So the call writes it once and does not read it.
    pub(crate) fn counted(&self, call: impl FnOnce(ViewMut<'_>) -> Result<(), Error>) -> Result<usize, Error> {
        let Some(stream) = &self.stream else {
            let mut count = [0_u64];
            call(ViewMut::new(&mut count))?;
            return Ok(count[0] as usize);
        };
        let word = Word::take()?;
        // SAFETY: pinned memory of 8 bytes, which every device can write, and which nothing else uses until
        // the word is given back.
        let launched = call(unsafe { ViewMut::on_device(Type::U64, word.address() as u64, 1, stream) });
        if let Err(e) = launched {
            // Of other errors nothing was launched; after these a kernel may yet write the word.
            if !matches!(e, Error::Driver { .. }) {
                word.give_back();
            }
            return Err(e);
        }
        // The count comes before the kernel ends. If the kernel fails, the stream says so. It is asked rarely:
        // the driver's code would push that of what follows out of the caches.
        while !(0..POLLS).any(|_| word.count() != Word::NONE) && !is_past(stream)? {}
        let count = word.count();
        word.give_back();
        Ok(count as usize)
    }

    /// Waits for the stream, if there is one.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        self.stream.as_ref().map_or(Ok(()), |stream| synchronize(stream))
    }
}

fn is_capturing(stream: &CudaStream) -> Result<bool, Error> {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is live; the driver writes the status.
    let code = unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) };
    driver("cuStreamIsCapturing", stream.context().ordinal(), code)?;
    Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}

/// Whether the stream is past all work.
fn is_past(stream: &CudaStream) -> Result<bool, Error> {
    // SAFETY: the stream is live.
    match unsafe { sys::cuStreamQuery(stream.cu_stream()) } {
        sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => driver("cuStreamQuery", stream.context().ordinal(), code).map(|()| true),
    }
}

fn synchronize(stream: &CudaStream) -> Result<(), Error> {
    let device = stream.context().ordinal();
    // SAFETY: the stream is live.
    driver("cuStreamSynchronize", device, unsafe { sys::cuStreamSynchronize(stream.cu_stream()) })
}

fn driver(call: &'static str, device: usize, code: sys::CUresult) -> Result<(), Error> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::Driver { call, code, device }),
    }
}

/// A word of pinned host memory. Kernels write counts there, so reading one takes no copy.
struct Word(&'static AtomicU64);

/// Words that no call uses.
static FREE: Mutex<Vec<Word>> = Mutex::new(Vec::new());

impl Word {
    /// No count.
    const NONE: u64 = u64::MAX;

    /// A word without a count.
    fn take() -> Result<Word, Error> {
        let free = locked(&FREE).pop();
        let word = match free {
            Some(word) => word,
            None => {
                let mut word = std::ptr::null_mut();
                // SAFETY: a context is current; the driver writes the address.
                let code = unsafe { sys::cuMemHostAlloc(&mut word, size_of::<u64>(), sys::CU_MEMHOSTALLOC_PORTABLE) };
                driver("cuMemHostAlloc", 0, code)?;
                // SAFETY: the memory is new, of whole pages, and never freed.
                Word(unsafe { &*word.cast::<AtomicU64>() })
            }
        };
        word.0.store(Word::NONE, Ordering::Relaxed);
        Ok(word)
    }

    fn address(&self) -> *mut u64 {
        self.0.as_ptr()
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Keeps the word for another call. No kernel may write it any more.
    fn give_back(self) {
        locked(&FREE).push(self);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
