//! The checks and preparations of every launch: devices and contexts of the buffers, capture,
//! kernels, scratch memory.

use crate::cuda::{Caller, Kernels, bind};
use crate::memory::is_capturing;
use crate::primitives::arguments::long_enough;
use crate::{Error, Workspace};
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr};
use std::sync::Arc;

const LOAD: &str =
    "its kernels are not loaded; call prepare(n, &mut workspace) before the capture and pass the workspace";
const RESERVE: &str =
    "no workspace was given; call prepare(n, &mut workspace) before the capture and pass the workspace";

/// A call of a primitive on a stream.
pub(crate) struct Submit<'s> {
    primitive: &'static str,
    stream: &'s Arc<CudaStream>,
}

impl<'s> Submit<'s> {
    pub(crate) fn new(primitive: &'static str, stream: &'s Arc<CudaStream>) -> Submit<'s> {
        Submit { primitive, stream }
    }

    pub(crate) fn primitive(&self) -> &'static str {
        self.primitive
    }

    pub(crate) fn stream(&self) -> &'s Arc<CudaStream> {
        self.stream
    }

    /// The ordinal of the device.
    pub(crate) fn device(&self) -> usize {
        self.stream.context().ordinal()
    }

    /// Checks that a buffer which belongs to the stream `home` can be used on this stream.
    ///
    /// The buffer's context must be the same object as the stream's. cudarc orders work on a buffer
    /// against other streams only if the context object has counted more than one stream, so two
    /// objects of one context would order nothing.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::WrongContext`].
    pub(crate) fn uses(&self, what: &'static str, home: &CudaStream) -> Result<(), Error> {
        let (found, expected) = (home.context().ordinal(), self.device());
        if found != expected {
            return Err(Error::WrongDevice { primitive: self.primitive, what, found, expected });
        }
        if !Arc::ptr_eq(home.context(), self.stream.context()) {
            return Err(Error::WrongContext { primitive: self.primitive, what, device: expected });
        }
        Ok(())
    }

    /// Checks the memory of the number of items, if it lies in memory.
    ///
    /// # Errors
    /// [`Error::Size`], and those of `uses`.
    pub(crate) fn counts(&self, count: Option<&dyn DevicePtr<u64>>) -> Result<(), Error> {
        let Some(count) = count else { return Ok(()) };
        long_enough(self.primitive, "the length", count.len(), 1)?;
        self.uses("the length", count.stream())
    }

    /// Makes the stream's context current.
    ///
    /// # Errors
    /// [`Error::EventTracking`], [`Error::Driver`].
    pub(crate) fn begin(&self) -> Result<(), Error> {
        bind(self.stream.context())?;
        if self.stream.context().is_managing_stream_synchronization() && is_capturing(self.stream)? {
            return Err(Error::EventTracking { primitive: self.primitive });
        }
        Ok(())
    }

    /// Loads those of `numbers` that are not loaded, of kernels that are loaded one by one.
    ///
    /// # Errors
    /// [`Error::Capturing`], and those of loading.
    pub(crate) fn require(&self, kernels: &Kernels, numbers: &[usize]) -> Result<(), Error> {
        if kernels.are_loaded(numbers) {
            return Ok(());
        }
        self.may_load()?;
        kernels.require(numbers)
    }

    /// Calls `launch` with the addresses of `words` bytes of status words, all zero, and of
    /// `scratch` bytes of scratch memory. Without a workspace the call makes a temporary one.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`], and those of `launch`.
    pub(crate) fn with_memory(
        &self,
        workspace: Option<&mut Workspace>,
        words: usize,
        scratch: usize,
        launch: impl FnOnce(CUdeviceptr, CUdeviceptr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // One copy of this for all primitives and types, and one of each `launch`.
        let mut launch = Some(launch);
        self.lend(workspace, words, scratch, &mut |words, scratch| match launch.take() {
            Some(launch) => launch(words, scratch),
            None => unreachable!("it is called once"),
        })
    }
    fn lend(
        &self,
        workspace: Option<&mut Workspace>,
        words: usize,
        scratch: usize,
        launch: &mut dyn FnMut(CUdeviceptr, CUdeviceptr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match workspace {
            _ if words + scratch == 0 => launch(0, 0),
            Some(workspace) => workspace.lend(self.primitive, words, scratch, launch),
            None if is_capturing(self.stream)? => Err(Error::Capturing { primitive: self.primitive, what: RESERVE }),
            None => Workspace::new(self.stream).lend(self.primitive, words, scratch, launch),
        }
    }

    /// Begins `prepare`: makes the context of the workspace's stream current, and returns its
    /// device.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    pub(crate) fn prepare(primitive: &'static str, workspace: &Workspace) -> Result<usize, Error> {
        workspace.bind()?;
        if is_capturing(workspace.stream())? {
            return Err(Error::Capturing { primitive, what: "prepare allocates; call it before the capture" });
        }
        Ok(workspace.stream().context().ordinal())
    }
}

impl Caller for Submit<'_> {
    fn device(&self) -> usize {
        self.device()
    }
    /// # Errors
    /// [`Error::Capturing`].
    fn may_load(&self) -> Result<(), Error> {
        if is_capturing(self.stream)? {
            return Err(Error::Capturing { primitive: self.primitive, what: LOAD });
        }
        Ok(())
    }
}
