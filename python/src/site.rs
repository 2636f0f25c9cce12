//! Where a call runs: on the host, or on a stream of the library that the arrays belong to.

use crate::failed;
use parascan::cudarc::driver::CudaStream;
use parascan::cudarc::driver::sys::{self, CUcontext, CUstream};
use parascan::dynamic::{Type, ViewMut};
use parascan::{Error, Workspace, cuda};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The host, or a device's stream.
#[pyclass(frozen)]
pub(crate) struct Site {
    stream: Option<Arc<CudaStream>>,
    /// Makes scratch memory: from a number of bytes to an owner and an address. Without it the
    /// memory comes from the driver's pool.
    allocate: Option<Py<PyAny>>,
}

#[pymethods]
impl Site {
    /// The host without a device; else the stream with this handle, of the device's primary context.
    #[new]
    #[pyo3(signature = (device=None, stream=0, allocate=None))]
    fn new(device: Option<usize>, stream: usize, allocate: Option<Py<PyAny>>) -> PyResult<Site> {
        let Some(device) = device else { return Ok(Site { stream: None, allocate: None }) };
        let _current = Current::keep().map_err(failed)?;
        let context = cuda::context(device).map_err(failed)?;
        // SAFETY: the library that the arrays belong to says that it is a stream of the device. It is used
        // only while that library names it as the current one.
        let stream = unsafe { cuda::borrow_stream(stream as CUstream) }.map_err(failed)?;
        drop(context);
        Ok(Site { stream: Some(stream), allocate })
    }

    /// Waits for the stream.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let _current = Current::enter(stream).map_err(failed)?;
        py.detach(|| synchronize(stream)).map_err(failed)
    }
}

impl Site {
    pub(crate) fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.stream.as_ref()
    }

    /// Runs `call` without the GIL. On a device it gets a workspace over scratch memory for what
    /// `prepare` prepares.
    ///
    /// The scratch memory is freed at the end, in the order of the stream.
    pub(crate) fn run<R: Send>(
        &self,
        py: Python<'_>,
        prepare: impl FnOnce(&mut Workspace) -> Result<(), Error> + Send,
        call: impl FnOnce(Option<&mut Workspace>) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let Some(stream) = &self.stream else { return py.detach(|| call(None)).map_err(failed) };
        let _current = Current::enter(stream).map_err(failed)?;
        let Some(allocate) = &self.allocate else {
            let run = || call(Some(&mut Workspace::new(stream)));
            return py.detach(run).map_err(failed);
        };
        // It may compile kernels.
        let bytes = py.detach(|| Workspace::measure(stream, prepare)).map_err(failed)?;
        let (_owner, address): (Py<PyAny>, u64) = match bytes {
            0 => (py.None(), 0),
            _ => allocate.call1(py, (bytes,))?.extract(py)?,
        };
        let run = || {
            // SAFETY: the memory is the array library's, of which this is the current stream, and the
            // owner is dropped after the call.
            let mut workspace = unsafe { Workspace::over(stream, address, bytes) };
            call(Some(&mut workspace))
        };
        py.detach(run).map_err(failed)
    }

    /// Calls `call` with memory for a count, waits for the stream, and returns the count. The stream's context
    /// is current.
    pub(crate) fn counted(&self, call: impl FnOnce(ViewMut<'_>) -> Result<(), Error>) -> Result<usize, Error> {
        let Some(stream) = &self.stream else {
            let mut count = [0_u64];
            call(ViewMut::new(&mut count))?;
            return Ok(count[0] as usize);
        };
        let word = Word::take()?;
        // SAFETY: pinned memory of 8 bytes, which every device can write, and which nothing else uses until
        // the word is given back.
        call(unsafe { ViewMut::on_device(Type::U64, word.0 as u64, 1, stream) })?;
        synchronize(stream)?;
        // SAFETY: the kernel has written it.
        let count = unsafe { std::ptr::read_volatile(word.0 as *const u64) };
        word.give_back();
        Ok(count as usize)
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
struct Word(usize);

/// Words that no call uses.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Word {
    fn take() -> Result<Word, Error> {
        if let Some(word) = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(Word(word));
        }
        let mut word = std::ptr::null_mut();
        // SAFETY: a context is current; the driver writes the address.
        let code = unsafe { sys::cuMemHostAlloc(&mut word, size_of::<u64>(), sys::CU_MEMHOSTALLOC_PORTABLE) };
        driver("cuMemHostAlloc", 0, code)?;
        Ok(Word(word as usize))
    }

    /// After a call that failed the word stays away: a kernel may yet write it.
    fn give_back(self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// The context that is current on this thread. It is made current again at the end, since other
/// libraries take the current context for the current device.
pub(crate) struct Current(CUcontext);

impl Current {
    /// # Errors
    /// [`Error::NoDriver`], [`Error::Driver`].
    pub(crate) fn keep() -> Result<Current, Error> {
        // There is no such device, so this makes no context. It says whether there is a driver.
        if let Err(e @ Error::NoDriver { .. }) = cuda::context(usize::MAX) {
            return Err(e);
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver is there, and writes the handle.
        driver("cuCtxGetCurrent", 0, unsafe { sys::cuCtxGetCurrent(&mut context) })?;
        Ok(Current(context))
    }
}

impl Current {
    /// Makes the stream's context current, which default streams are looked up in.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub(crate) fn enter(stream: &CudaStream) -> Result<Current, Error> {
        let (current, context) = (Current::keep()?, stream.context());
        let bound = context.bind_to_thread();
        bound.map_err(|e| Error::Driver { call: "cuCtxSetCurrent", code: e.0, device: context.ordinal() })?;
        Ok(current)
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: it was current before.
        let _ = unsafe { sys::cuCtxSetCurrent(self.0) };
    }
}
