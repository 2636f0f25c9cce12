//! What every primitive does before it launches: whose memory, which context, may it allocate, are the kernels loaded.

use crate::cuda::Kernels;
use crate::memory::{bind, is_capturing};
use crate::{Error, Workspace};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdeviceptr;
use std::sync::Arc;

const LOAD: &str =
    "its kernels are not loaded; call prepare(n, &mut workspace) before the capture and pass the workspace";
const RESERVE: &str =
    "no workspace was given; call prepare(n, &mut workspace) before the capture and pass the workspace";

/// A call of a primitive on a stream.
pub(crate) struct Submit<'s> {
    primitive: &'static str,
    stream: &'s Arc<CudaStream>,
    /// Whether cudarc records events for any of the buffers.
    tracked: bool,
}

impl<'s> Submit<'s> {
    pub(crate) fn new(primitive: &'static str, stream: &'s Arc<CudaStream>) -> Submit<'s> {
        Submit { primitive, stream, tracked: stream.context().is_managing_stream_synchronization() }
    }

    /// The ordinal of the device.
    pub(crate) fn device(&self) -> usize {
        self.stream.context().ordinal()
    }

    /// A buffer that belongs to the stream `home`.
    ///
    /// # Errors
    /// [`Error::WrongDevice`].
    pub(crate) fn uses(&mut self, what: &'static str, home: &CudaStream) -> Result<(), Error> {
        let (found, expected) = (home.context().ordinal(), self.device());
        self.tracked |= home.context().is_managing_stream_synchronization();
        if found != expected {
            return Err(Error::WrongDevice { primitive: self.primitive, what, found, expected });
        }
        Ok(())
    }

    /// Makes the stream's context current. All buffers were named.
    ///
    /// # Errors
    /// [`Error::EventTracking`], [`Error::Driver`].
    pub(crate) fn begin(&self) -> Result<(), Error> {
        bind(self.stream)?;
        if self.tracked && is_capturing(self.stream)? {
            return Err(Error::EventTracking { primitive: self.primitive });
        }
        Ok(())
    }

    /// The kernels: those that are loaded, or loaded now.
    ///
    /// # Errors
    /// [`Error::Capturing`], and those of loading.
    pub(crate) fn kernels(
        &self,
        loaded: Option<&'static Kernels>,
        load: impl FnOnce() -> Result<&'static Kernels, Error>,
    ) -> Result<&'static Kernels, Error> {
        match loaded {
            Some(kernels) => Ok(kernels),
            None if is_capturing(self.stream)? => Err(Error::Capturing { primitive: self.primitive, what: LOAD }),
            None => load(),
        }
    }

    /// Addresses of so many bytes of status words and of scratch: the workspace's, or of a `temporary` one.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    pub(crate) fn memory(
        &self,
        workspace: Option<&mut Workspace>,
        temporary: &mut Option<Workspace>,
        words: usize,
        scratch: usize,
    ) -> Result<(CUdeviceptr, CUdeviceptr), Error> {
        match workspace {
            _ if words + scratch == 0 => Ok((0, 0)),
            Some(workspace) => workspace.reserve(self.primitive, words, scratch),
            None if is_capturing(self.stream)? => Err(Error::Capturing { primitive: self.primitive, what: RESERVE }),
            None => temporary.insert(Workspace::new(self.stream)).reserve(self.primitive, words, scratch),
        }
    }

    /// Before anything is prepared in a workspace: makes its stream's context current, and gives its device.
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
