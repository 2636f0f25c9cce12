//! Workspaces: scratch memory that calls on one stream share.

use crate::Error;
use crate::cuda::{Current, bind};
use crate::memory::{is_capturing, zero_bytes};
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use std::sync::Arc;

/// Scratch memory on a device, kept between calls on one stream.
///
/// `prepare` of any builder grows it and loads kernels, and waits as
/// [`Scan::prepare`](crate::Scan::prepare) does. After that a call of that builder with
/// `.workspace(&mut workspace)` into the caller's memory allocates nothing, never synchronises, and
/// can be captured into a CUDA graph.
///
/// # Rules
/// - One workspace serves every primitive. Calls with it run one after the other, on its stream. The default stream of a
///   thread is another one on each thread: a workspace on that stream is used and dropped on one thread.
/// - A graph that was captured with it must be replayed on its stream, or be ordered against the
///   stream's work.
/// - It must outlive the graphs that were captured with it: it grows when a call needs more, never
///   shrinks, and frees outgrown memory only when it is dropped. [Over the caller's
///   memory](Workspace::over) it neither grows nor frees.
/// - If a call with it fails between two launches, the next call zeroes its status words first. The replay of a graph
///   does not: [`prepare`](crate::Scan::prepare) comes before it then.
///
/// A call during a capture is [`Error::EventTracking`] unless cudarc's event tracking is off.
///
/// # Memory
/// [`bytes`](Workspace::bytes) says how much it holds, and [`measure`](Workspace::measure) how much a call needs. A
/// [`Sort`](crate::Sort#memory) and a sort by segment need the most; a scan of 2^26 `f32` needs 1.4 MiB. A call
/// without a workspace takes as much from its stream's pool and gives it back; it cannot be captured.
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
///
/// A call captured into a graph, which is replayed on other prices in the same memory:
///
/// ```no_run
/// use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
/// use parascan::{Max, Workspace, cuda, scan};
/// let context = cuda::context(0)?;
/// // SAFETY: all work is on one stream, so no event has to order it.
/// unsafe { context.disable_event_tracking() }; // before the buffers are allocated
/// let stream = context.new_stream().unwrap();
/// let mut prices = stream.clone_htod(&vec![3; 1 << 20]).unwrap();
/// let mut workspace = Workspace::new(&stream);
/// scan::<Max, i32>().prepare(prices.len(), &mut workspace)?;
///
/// stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
/// scan::<Max, i32>().workspace(&mut workspace).run_in_place(&mut prices)?;
/// let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
/// let graph = stream.end_capture(flags).unwrap().expect("a graph");
/// graph.launch().unwrap();
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
pub struct Workspace {
    stream: Arc<CudaStream>,
    memory: Memory,
    /// Whether a call failed after it got the status words: one of its launches may have left some
    /// that are not zero.
    unclean: bool,
}

impl Drop for Workspace {
    /// Frees its memory with the stream's context current, in which the driver looks up default streams.
    fn drop(&mut self) {
        if let Memory::Own(own @ (Own { words: Some(_), .. } | Own { scratch: Some(_), .. })) = &mut self.memory {
            let _current = Current::enter(&self.stream);
            drop(std::mem::take(own));
        }
    }
}

#[derive(Debug)]
enum Memory {
    Own(Own),
    Given(Given),
    /// None: it keeps the bytes of status words and of scratch memory that were asked for.
    Measured {
        words: usize,
        scratch: usize,
    },
}

/// Memory that grows.
#[derive(Debug, Default)]
struct Own {
    /// Status words: zero between calls.
    words: Option<Block>,
    /// Scratch memory, with no content that lasts between calls.
    scratch: Option<Block>,
    outgrown: Vec<Block>,
}

/// The caller's memory: status words at its begin, scratch memory at its end.
///
/// The two parts of all calls so far do not overlap, so that a graph's status words stay zero
/// between its replays, whatever else is called.
#[derive(Debug)]
struct Given {
    address: CUdeviceptr,
    bytes: usize,
    /// The most bytes of status words and of scratch memory that a call has asked for.
    words: usize,
    scratch: usize,
    /// How many bytes at the begin are zero between calls.
    clean: usize,
}

const PREPARE_LARGER: &str =
    "its workspace is too small; call prepare(n, &mut workspace) before the capture and pass the workspace";

const UNCLEAN: &str = "an earlier call with its workspace failed, so its status words must be zeroed; call prepare(n, &mut workspace) before the capture";

const UNPREPARED: &str = "the status words in its workspace are not zero yet; call prepare(n, &mut workspace) before the capture and pass the workspace";

/// Parts of a workspace begin at multiples of this.
const ALIGN: usize = 256;

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
            // SAFETY: the block has `bytes` bytes at `address`, allocated on this stream.
            unsafe { zero_bytes(stream, address, bytes) }?;
        }
        Ok(block)
    }
}

impl Own {
    /// Grows one of the two blocks to `bytes` bytes, and returns its address.
    fn grown(
        block: &mut Option<Block>,
        outgrown: &mut Vec<Block>,
        stream: &Arc<CudaStream>,
        primitive: &'static str,
        bytes: usize,
        is_zero: bool,
    ) -> Result<CUdeviceptr, Error> {
        let held = block.as_ref().map_or(0, |block| block.bytes);
        if held < bytes {
            if is_capturing(stream)? {
                return Err(Error::Capturing { primitive, what: PREPARE_LARGER });
            }
            let larger = Block::new(stream, bytes.next_multiple_of(1 << 16), is_zero)?;
            outgrown.extend(block.replace(larger));
        }
        Ok(block.as_ref().map_or(0, |block| block.address))
    }
}

/// Bytes of memory for both parts.
fn together(words: usize, scratch: usize) -> usize {
    words.next_multiple_of(ALIGN) + scratch.next_multiple_of(ALIGN)
}

impl Given {
    fn new(address: CUdeviceptr, bytes: usize) -> Given {
        Given { address, bytes, words: 0, scratch: 0, clean: 0 }
    }

    /// The address of the scratch memory of a call.
    ///
    /// # Errors
    /// [`Error::Scratch`] if the parts of this call and of the calls before it do not fit.
    fn place(&mut self, primitive: &'static str, words: usize, scratch: usize) -> Result<CUdeviceptr, Error> {
        let (most_words, most_scratch) = (self.words.max(words), self.scratch.max(scratch));
        let needed = together(most_words, most_scratch);
        if self.bytes < needed || !self.address.is_multiple_of(ALIGN as u64) {
            let (given, address) = (self.bytes, self.address);
            return Err(Error::Scratch { primitive, given, address, needed });
        }
        (self.words, self.scratch) = (most_words, most_scratch);
        Ok(self.address + ((self.bytes - scratch) / ALIGN * ALIGN) as u64)
    }

    /// The addresses of both parts.
    fn parts(
        &mut self,
        stream: &CudaStream,
        primitive: &'static str,
        words: usize,
        scratch: usize,
    ) -> Result<(CUdeviceptr, CUdeviceptr), Error> {
        let at = self.place(primitive, words, scratch)?;
        if self.clean < words {
            if is_capturing(stream)? {
                return Err(Error::Capturing { primitive, what: UNPREPARED });
            }
            // SAFETY: the memory has `bytes` bytes for work on the stream, by `over`.
            unsafe { zero_bytes(stream, self.address + self.clean as u64, words - self.clean) }?;
            self.clean = words;
        }
        Ok((self.address, at))
    }
}

impl Workspace {
    /// Makes an empty workspace for `stream`. Allocates nothing.
    pub fn new(stream: &Arc<CudaStream>) -> Workspace {
        Workspace { stream: stream.clone(), memory: Memory::Own(Own::default()), unclean: false }
    }

    /// Makes a workspace of `bytes` bytes of the caller's device memory, with any contents. It does not
    /// grow.
    ///
    /// A call that needs more, or an address that is no multiple of 256, is [`Error::Scratch`];
    /// [`measure`](Workspace::measure) says how much is needed. Measure all calls in one closure:
    /// one call may need status words where another call alone would have its scratch memory.
    ///
    /// The first call zeroes its status words first, and so does each call that needs more of them
    /// than all calls before. Before a capture [`prepare`](crate::Scan::prepare) zeroes them.
    ///
    /// # Safety
    /// Until the stream is past the last call with the workspace, the memory is valid for work on the
    /// stream, and nothing else reads or writes it.
    pub unsafe fn over(stream: &Arc<CudaStream>, address: CUdeviceptr, bytes: usize) -> Workspace {
        let memory = Memory::Given(Given::new(address, bytes));
        Workspace { stream: stream.clone(), memory, unclean: false }
    }

    /// The bytes that a workspace [over the caller's memory](Workspace::over) needs for calls that
    /// `prepare` prepares, one after the other. Loads their kernels, and allocates nothing.
    ///
    /// # Errors
    /// Those of `prepare`.
    ///
    /// # Example
    /// ```no_run
    /// use parascan::{Sum, Workspace, cuda, scan, sort};
    /// let stream = cuda::context(0)?.new_stream().unwrap();
    /// let n = 1 << 20;
    /// let bytes = Workspace::measure(&stream, |workspace| {
    ///     scan::<Sum, u32>().prepare(n, workspace)?;
    ///     sort::<u32>().prepare(n, workspace)
    /// })?;
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn measure(
        stream: &Arc<CudaStream>,
        prepare: impl FnOnce(&mut Workspace) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let memory = Memory::Measured { words: 0, scratch: 0 };
        let mut workspace = Workspace { stream: stream.clone(), memory, unclean: false };
        prepare(&mut workspace)?;
        Ok(workspace.bytes())
    }

    /// The stream of all calls with it.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of device memory that it holds, outgrown memory included.
    pub fn bytes(&self) -> usize {
        match &self.memory {
            Memory::Own(Own { words, scratch, outgrown }) => {
                [words, scratch].into_iter().flatten().chain(outgrown).map(|block| block.bytes).sum()
            }
            Memory::Given(given) => given.bytes,
            Memory::Measured { words, scratch } => together(*words, *scratch),
        }
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
        if let Memory::Measured { .. } = self.memory {
            return Err(Error::Scratch { primitive, given: 0, address: 0, needed: together(words, scratch) });
        }
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
        let Workspace { stream, memory, unclean } = self;
        if *unclean {
            if is_capturing(stream)? {
                return Err(Error::Capturing { primitive, what: UNCLEAN });
            }
            match memory {
                // SAFETY: the block has `bytes` bytes at `address`, allocated on this stream.
                Memory::Own(Own { words: Some(words), .. }) => {
                    unsafe { zero_bytes(stream, words.address, words.bytes) }?
                }
                Memory::Given(given) => given.clean = 0,
                _ => {}
            }
            *unclean = false;
        }
        match memory {
            Memory::Own(own) => Ok((
                Own::grown(&mut own.words, &mut own.outgrown, stream, primitive, words, true)?,
                Own::grown(&mut own.scratch, &mut own.outgrown, stream, primitive, scratch, false)?,
            )),
            Memory::Given(given) => given.parts(stream, primitive, words, scratch),
            Memory::Measured { words: most_words, scratch: most_scratch } => {
                (*most_words, *most_scratch) = (words.max(*most_words), scratch.max(*most_scratch));
                Ok((0, 0))
            }
        }
    }

    /// Makes the stream's context current.
    pub(crate) fn bind(&self) -> Result<(), Error> {
        bind(self.stream.context())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Sum, cuda, scan};
    use cudarc::driver::sys::{self, CUresult};

    /// Status words of one call are not the scratch memory of another, in whatever order they come.
    #[test]
    fn words_and_scratch_memory_of_given_memory() {
        let kib = 1 << 10;
        let is_refused = |place: Result<CUdeviceptr, Error>, bytes: usize| {
            let Err(Error::Scratch { primitive: "sort", given: _, address: _, needed }) = place else {
                panic!("{place:?}")
            };
            assert_eq!(needed, bytes);
        };
        // A scan has words, a sort has scratch memory.
        for bytes in [5 * kib, 5 * kib + 100] {
            let mut given = Given::new(1 << 20, bytes);
            assert_eq!(given.place("scan", kib - 8, 0).unwrap(), (1 << 20) + 5 * kib as u64);
            assert_eq!(given.place("sort", 0, 4 * kib).unwrap(), (1 << 20) + (bytes - 4 * kib) as u64 / 256 * 256);
            is_refused(given.place("sort", 0, 4 * kib + 1), 5 * kib + 256);
            is_refused(given.place("sort", kib + 1, 0), 5 * kib + 256);
            given.place("scan", 8, 100).unwrap();
        }
        // Either fits alone, but not both.
        let mut given = Given::new(1 << 20, 4 * kib);
        given.place("scan", kib, 0).unwrap();
        is_refused(given.place("sort", 0, 4 * kib), 5 * kib);
        is_refused(Given::new((1 << 20) + 16, 8 * kib).place("sort", 0, kib), kib);
    }

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
        let Memory::Own(Own { words: Some(words), .. }) = &workspace.memory else { panic!("it has words") };
        let bytes = words.bytes;
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
