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
    /// Whether a call failed after it was given the words: one of its launches may have left some that are not zero.
    unclean: bool,
    /// Whatever a call needs besides, in no state.
    scratch: Option<Block>,
    outgrown: Vec<Block>,
}

const PREPARE_LARGER: &str =
    "its workspace is too small; call prepare(n, &mut workspace) before the capture and pass the workspace";

const UNCLEAN: &str = "an earlier call with its workspace failed, so its status words must be zeroed; call prepare(n, &mut workspace) before the capture";

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
        let block = Block { _memory: memory, address, bytes };
        if is_zero {
            block.zero(stream)?;
        }
        Ok(block)
    }

    /// Makes it all zeros, on the stream that it was allocated on. The stream's context is current.
    fn zero(&self, stream: &Arc<CudaStream>) -> Result<(), Error> {
        // SAFETY: the block has `bytes` bytes at `address`, allocated on this stream.
        let code = unsafe { sys::cuMemsetD8Async(self.address, 0, self.bytes, stream.cu_stream()) };
        cuda::check("cuMemsetD8Async", stream.context().ordinal(), code)
    }
}

impl Workspace {
    /// An empty workspace for `stream`. Allocates nothing.
    pub fn new(stream: &Arc<CudaStream>) -> Workspace {
        Workspace { stream: stream.clone(), words: None, unclean: false, scratch: None, outgrown: Vec::new() }
    }

    /// The stream that it serves.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of device memory that it holds.
    pub fn bytes(&self) -> usize {
        [&self.words, &self.scratch].into_iter().flatten().chain(&self.outgrown).map(|block| block.bytes).sum()
    }

    /// Calls `launch` with the addresses of status words, all zero, and of scratch memory, grown if need be. The stream's context is
    /// current.
    ///
    /// A call leaves its words zero by its last launch. If `launch` fails between two launches, the next call zeroes them first.
    pub(crate) fn lend(
        &mut self,
        primitive: &'static str,
        words: usize,
        scratch: usize,
        launch: impl FnOnce(CUdeviceptr, CUdeviceptr) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (words, scratch) = self.reserve(primitive, words, scratch)?;
        self.unclean = true; // also if `launch` panics
        launch(words, scratch)?;
        self.unclean = false;
        Ok(())
    }

    /// Memory for status words, all zero, and for scratch, grown if need be: their addresses. The stream's context is current.
    pub(crate) fn reserve(
        &mut self,
        primitive: &'static str,
        words: usize,
        scratch: usize,
    ) -> Result<(CUdeviceptr, CUdeviceptr), Error> {
        let Workspace { stream, outgrown, .. } = self;
        if self.unclean {
            if is_capturing(stream)? {
                return Err(Error::Capturing { primitive, what: UNCLEAN });
            }
            self.words.iter().try_for_each(|words| words.zero(stream))?;
            self.unclean = false;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sum, scan};
    use cudarc::driver::sys::CUresult;

    /// What a call of two launches leaves whose second fails: words that are not zero.
    #[test]
    fn a_call_that_fails_between_two_launches() {
        let context = match cuda::context(0) {
            Ok(context) => context,
            Err(e) => {
                assert_ne!(std::env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a GPU is required: {e}");
                return;
            }
        };
        let stream = context.new_stream().unwrap();
        let n = 1 << 20;
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u32>();
        sum.prepare(n, &mut workspace).unwrap();
        let bytes = workspace.words.as_ref().unwrap().bytes;
        let failed = workspace.lend("scan", bytes, 0, |words, _| {
            // SAFETY: the workspace has as many bytes there.
            let code = unsafe { sys::cuMemsetD8Async(words, 0x77, bytes, stream.cu_stream()) };
            cuda::check("cuMemsetD8Async", 0, code)?;
            Err(Error::Driver { call: "the second launch", code: CUresult::CUDA_ERROR_LAUNCH_FAILED, device: 0 })
        });
        assert!(matches!(failed, Err(Error::Driver { call: "the second launch", .. })), "{failed:?}");
        let x: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let mut on_device = stream.clone_htod(&x).unwrap();
        sum.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
        assert!(stream.clone_dtoh(&on_device).unwrap() == sum.run(&x).unwrap());
    }
}
