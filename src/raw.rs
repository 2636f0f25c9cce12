//! Raw memory: device addresses of other CUDA stacks, as inputs and outputs.

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};
use std::marker::PhantomData;
use std::sync::Arc;

/// Items `T` at an address of device memory, on a stream: what another CUDA stack hands over.
///
/// It is a [`Source`](crate::Source) and a [`Destination`](crate::Destination) like cudarc's buffers,
/// so every call of every primitive takes it. It owns nothing, and no events follow it: the caller
/// orders its uses on different streams.
///
/// | from the other stack | here |
/// |---|---|
/// | a stream | [`cuda::borrow_stream`](crate::cuda::borrow_stream) |
/// | an address and a length | [`RawSlice::new`] |
/// | scratch memory | [`Workspace::over`](crate::Workspace::over) |
/// | how many bytes of it | [`Workspace::measure`](crate::Workspace::measure) |
///
/// # Example
/// ```no_run
/// # use parascan::cudarc::driver::sys::CUstream;
/// # fn of_another_stack() -> (CUstream, u64, u64, fn(usize) -> u64) { unimplemented!() }
/// use parascan::{RawSlice, Sum, Workspace, cuda, scan};
///
/// let (stream, input, output, allocate) = of_another_stack();
/// let n = 1 << 20;
/// let stream = unsafe { cuda::borrow_stream(stream)? };
/// let sum = scan::<Sum, f32>().exclusive();
/// let bytes = Workspace::measure(&stream, |workspace| sum.prepare(n, workspace))?;
///
/// let mut workspace = unsafe { Workspace::over(&stream, allocate(bytes), bytes) };
/// let (input, mut output) = unsafe { (RawSlice::<f32>::new(input, n, &stream), RawSlice::new(output, n, &stream)) };
/// sum.workspace(&mut workspace).run_into(&input, &mut output)?; // allocates nothing, does not wait
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
pub struct RawSlice<'s, T> {
    address: CUdeviceptr,
    len: usize,
    stream: &'s Arc<CudaStream>,
    items: PhantomData<fn() -> T>,
}

impl<'s, T> RawSlice<'s, T> {
    /// `len` items at `address`, for calls on `stream`.
    ///
    /// # Safety
    /// Until the stream is past the last call that gets it:
    ///
    /// - The address is a multiple of `T`'s alignment. `len` items lie there, in memory that the stream's
    ///   device can access. Reads find initialised items.
    /// - Nothing else writes the items. If it is an output, nothing else reads them either, and no other
    ///   argument of the call overlaps them.
    pub unsafe fn new(address: CUdeviceptr, len: usize, stream: &'s Arc<CudaStream>) -> RawSlice<'s, T> {
        RawSlice { address, len, stream, items: PhantomData }
    }
}

impl<T> DeviceSlice<T> for RawSlice<'_, T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<CudaStream> {
        self.stream
    }
}
impl<T> DevicePtr<T> for RawSlice<'_, T> {
    fn device_ptr<'a>(&'a self, _: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        (self.address, SyncOnDrop::Record(None))
    }
}
impl<T> DevicePtrMut<T> for RawSlice<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, _: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        (self.address, SyncOnDrop::Record(None))
    }
}
