//! Scratch memory of one stream.

use crate::memory::{bind, is_capturing};
use crate::{Error, cuda};
use cudarc::driver::sys::{self, CUdeviceptr};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::sync::Arc;

/// Device memory that primitives keep between calls, for one stream.
///
/// With a workspace that was [prepared](crate::Scan::prepare) a call allocates nothing, never synchronises and can be
/// captured into a CUDA graph. One workspace serves every primitive, one call at a time: calls on the stream it was made
/// for follow each other, so that is no restriction there. Replays of a graph that was captured with it must run on that
/// stream too, or be ordered against it.
///
/// It grows when a call needs more and never shrinks. Memory that it has outgrown is freed with it and not before, for a
/// graph may still use it: the workspace must outlive the graphs that were captured with it.
///
/// # Example
/// ```no_run
/// use parascan::{Max, Workspace, cuda, scan};
/// let stream = cuda::context(0)?.new_stream().unwrap();
/// let mut workspace = Workspace::new(&stream);
/// scan::<Max, i32>().prepare(1 << 20, &mut workspace)?;
/// let mut prices = stream.clone_htod(&vec![3; 1 << 20]).unwrap();
/// scan::<Max, i32>().workspace(&mut workspace).run_in_place(&mut prices)?; // nothing is allocated
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
pub struct Workspace {
    stream: Arc<CudaStream>,
    /// Status words: zero between calls, whatever they were used for.
    words: Option<Block>,
    /// Whatever a call needs besides, in no state.
    scratch: Option<Block>,
    outgrown: Vec<Block>,
}

const PREPARE_LARGER: &str =
    "its workspace is too small; call prepare(n, &mut workspace) before the capture and pass the workspace";

#[derive(Debug)]
struct Block {
    _memory: CudaSlice<u8>,
    address: CUdeviceptr,
    bytes: usize,
}

impl Block {
    /// New memory, all zero if it `is_zero`, ready for what comes on the stream. The stream's context is current.
    fn new(stream: &Arc<CudaStream>, bytes: usize, is_zero: bool) -> Result<Block, Error> {
        let device = stream.context().ordinal();
        // SAFETY: nobody reads of it what was not written before.
        let memory: CudaSlice<u8> =
            unsafe { stream.alloc(bytes) }.map_err(|e| Error::Driver { call: "cuMemAllocAsync", code: e.0, device })?;
        let address = memory.device_ptr(stream).0;
        if is_zero {
            // SAFETY: `bytes` bytes at `address` were just allocated on this stream.
            let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, stream.cu_stream()) };
            cuda::check("cuMemsetD8Async", device, code)?;
        }
        Ok(Block { _memory: memory, address, bytes })
    }
}

impl Workspace {
    /// An empty workspace for `stream`. Allocates nothing.
    pub fn new(stream: &Arc<CudaStream>) -> Workspace {
        Workspace { stream: stream.clone(), words: None, scratch: None, outgrown: Vec::new() }
    }

    /// The stream that it serves.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of device memory that it holds.
    pub fn bytes(&self) -> usize {
        [&self.words, &self.scratch].into_iter().flatten().chain(&self.outgrown).map(|block| block.bytes).sum()
    }

    /// Memory for status words and for scratch, grown if need be: their addresses. The stream's context is current.
    pub(crate) fn reserve(
        &mut self,
        primitive: &'static str,
        words: usize,
        scratch: usize,
    ) -> Result<(CUdeviceptr, CUdeviceptr), Error> {
        let Workspace { stream, outgrown, .. } = self;
        let mut grown = |block: &mut Option<Block>, bytes: usize, is_zero: bool| {
            let held = block.as_ref().map_or(0, |block| block.bytes);
            if held < bytes {
                if is_capturing(stream)? {
                    return Err(Error::Capturing { primitive, what: PREPARE_LARGER });
                }
                let larger = Block::new(stream, bytes.next_multiple_of(1 << 16), is_zero)?;
                outgrown.extend(block.replace(larger));
            }
            Ok(block.as_ref().map_or(0, |block| block.address))
        };
        Ok((grown(&mut self.words, words, true)?, grown(&mut self.scratch, scratch, false)?))
    }

    /// Makes the stream's context current.
    pub(crate) fn bind(&self) -> Result<(), Error> {
        bind(&self.stream)
    }
}
