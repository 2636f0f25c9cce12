//! Kernels and memory on the first GPU of this machine.

use crate::cuda::{self, Kernels, bind};
use crate::{Element, Error};
use bytemuck::{cast_slice, cast_slice_mut, zeroed_vec};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError};
use std::ffi::c_void;
use std::sync::Arc;

const THREADS: u32 = 256;

/// The loaded kernels of a unit.
pub(super) struct Device {
    kernels: Kernels,
    context: Arc<CudaContext>,
}

impl Device {
    pub(super) fn new(name: &str, source: &str, kernels: &[&str]) -> Result<Self, Error> {
        let context = cuda::context(0)?;
        let kernels = Kernels::compile(&context, name, source, kernels)?;
        Ok(Device { kernels, context })
    }

    pub(super) fn stream(&self) -> Result<Arc<CudaStream>, Error> {
        self.context.new_stream().map_err(|e| self.failed("cuStreamCreate", e))
    }

    /// Runs a kernel of n threads.
    ///
    /// # Safety
    /// - `arguments` are the kernel's, valid on the stream.
    /// - n is not zero.
    pub(super) unsafe fn launch(
        &self,
        stream: &Arc<CudaStream>,
        kernel: usize,
        n: u64,
        arguments: &[*const c_void],
    ) -> Result<(), Error> {
        let blocks = n.div_ceil(THREADS.into()) as u32;
        bind(stream.context())?;
        // SAFETY: the caller's promise.
        unsafe { self.kernels.launch(kernel, blocks, THREADS, stream.cu_stream(), arguments) }
    }

    pub(super) fn allocate<X: Element>(&self, stream: &Arc<CudaStream>, n: usize) -> Result<CudaSlice<u8>, Error> {
        stream.alloc_zeros(n * size_of::<X>()).map_err(|e| self.failed("cuMemAllocAsync", e))
    }

    pub(super) fn upload<X: Element>(&self, stream: &Arc<CudaStream>, data: &[X]) -> Result<CudaSlice<u8>, Error> {
        stream.clone_htod(cast_slice::<X, u8>(data)).map_err(|e| self.failed("cuMemcpyHtoDAsync", e))
    }

    /// Copies to the host and waits for the copy.
    pub(super) fn download<X: Element>(&self, stream: &Arc<CudaStream>, from: &CudaSlice<u8>) -> Result<Vec<X>, Error> {
        let mut data: Vec<X> = zeroed_vec(from.len() / size_of::<X>());
        let copied = stream.memcpy_dtoh(from, cast_slice_mut::<X, u8>(&mut data));
        copied.and_then(|()| stream.synchronize()).map_err(|e| self.failed("cuMemcpyDtoHAsync", e))?;
        Ok(data)
    }

    fn failed(&self, call: &'static str, e: DriverError) -> Error {
        Error::Driver { call, code: e.0, device: self.context.ordinal() }
    }
}
