//! Workspaces: scratch memory that calls on one stream share.

use crate::memory::{bind, is_capturing};
use crate::{Error, cuda};
use cudarc::driver::sys::{self, CUdeviceptr};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::sync::Arc;

/// Scratch memory on a device, kept between calls on one stream.
///
/// `prepare` of any builder grows it and loads kernels. After that a call of that builder with
/// `.workspace(&mut workspace)` allocates nothing, never synchronises, and can be captured into a
/// CUDA graph.
///
/// # Rules
/// - One workspace serves every primitive. Calls with it run one after the other, on its stream.
/// - A graph that was captured with it must be replayed on its stream, or be ordered against the
///   stream's work.
/// - It must outlive the graphs that were captured with it: it grows when a call needs more, never
///   shrinks, and frees outgrown memory only when it is dropped.
/// - If a call with it fails between two launches, the next call zeroes its status words first.
///
/// # Memory
/// [`bytes`](Workspace::bytes) says how much it holds. The pages of the builders give the amount; a
/// [`Sort`](crate::Sort#memory) needs the most.
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
    /// Status words: zero between calls.
    words: Option<Block>,
    /// Whether a call failed after it got the status words: one of its launches may have left some
    /// that are not zero.
    unclean: bool,
    /// Scratch memory, with no content that lasts between calls.
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
    /// Allocates `bytes` bytes in the order of the stream, all zero if `is_zero`. The stream's
    /// context is current.
    fn new(stream: &Arc<CudaStream>, bytes: usize, is_zero: bool) -> Result<Block, Error> {
        let device = stream.context().ordinal();
        // SAFETY: no kernel reads a byte of it that was not written before.
        let memory: CudaSlice<u8> =
            unsafe { stream.alloc(bytes) }.map_err(|e| Error::Driver { call: "cuMemAllocAsync", code: e.0, device })?;
        let address = memory.device_ptr(stream).0;
        let block = Block { _memory: memory, address, bytes };
        if is_zero {
            block.zero(stream)?;
        }
        Ok(block)
    }

    /// Zeroes it, in the order of the stream that it was allocated on. The stream's context is
    /// current.
    fn zero(&self, stream: &Arc<CudaStream>) -> Result<(), Error> {
        // SAFETY: the block has `bytes` bytes at `address`, allocated on this stream.
        let code = unsafe { sys::cuMemsetD8Async(self.address, 0, self.bytes, stream.cu_stream()) };
        cuda::check("cuMemsetD8Async", stream.context().ordinal(), code)
    }
}

impl Workspace {
    /// Makes an empty workspace for `stream`. Allocates nothing.
    pub fn new(stream: &Arc<CudaStream>) -> Workspace {
        Workspace { stream: stream.clone(), words: None, unclean: false, scratch: None, outgrown: Vec::new() }
    }

    /// The stream of all calls with it.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of device memory that it holds, outgrown memory included.
    pub fn bytes(&self) -> usize {
        [&self.words, &self.scratch].into_iter().flatten().chain(&self.outgrown).map(|block| block.bytes).sum()
    }

    /// Calls `launch` with the addresses of status words, all zero, and of scratch memory. Both
    /// grow if they are too small. The stream's context is current.
    ///
    /// The last launch of a call leaves its words zero. If `launch` fails between two launches, the
    /// next call zeroes them first.
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

    /// The addresses of status words, all zero, and of scratch memory. Both grow if they are too
    /// small. The stream's context is current.
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

    /// A call whose second launch fails leaves status words that are not zero.
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
            // SAFETY: the workspace has `bytes` bytes at `words`.
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
