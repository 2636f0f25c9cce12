//! What can go wrong.

use cudarc::driver::sys::CUresult;
use std::path::PathBuf;

/// What can go wrong.
///
/// Nothing has been written when a call returns one, with one exception: a call that makes several
/// launches returns [`Error::Driver`] if the driver refuses a later one, and by then the earlier
/// ones are on the stream. Builders that make several launches say what their outputs hold then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input and output differ in length.
    #[error("{primitive}: the input has {input} elements and the output {output}; they must be equally long")]
    Length {
        /// The primitive that was called.
        primitive: &'static str,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// An argument is not as long as the call needs.
    #[error("{primitive}: {what} has {found} elements, and {needed} are needed")]
    Size {
        /// The primitive that was called.
        primitive: &'static str,
        /// Which argument.
        what: &'static str,
        /// Its elements.
        found: usize,
        /// The elements that it must have, at least.
        needed: usize,
    },
    /// Memory that cannot be allocated: on the host, or of more bytes than an address counts. Where
    /// device memory runs out, the driver says so: [`Error::Driver`] with
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    #[error("{primitive}: {n} elements of {size} bytes cannot be allocated")]
    OutOfMemory {
        /// The primitive that was called.
        primitive: &'static str,
        /// Elements asked for.
        n: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// A sum that the type of the result does not hold.
    #[error("{primitive}: the total is more than {most}, the most that the type of the result holds")]
    Overflow {
        /// The primitive that was called.
        primitive: &'static str,
        /// The greatest value of the type.
        most: u64,
        /// The total, where it is known; `u64::MAX` stands for all that are greater.
        total: Option<u64>,
    },
    /// An alignment that is no power of two up to 2^32.
    #[error("{primitive}: an alignment is a power of two up to 2^32, and {align} is not")]
    Align {
        /// The primitive that was called.
        primitive: &'static str,
        /// What was asked for.
        align: u64,
    },
    /// Plain data that kernels do not move.
    #[error("{primitive}: items of {size} bytes cannot be moved; their size must be 1 to 16 bytes")]
    ItemSize {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes of the item.
        size: usize,
    },
    /// A range of bits that keys do not have.
    #[error("{primitive}: the bits {start}..{end} are no part of the {width} bits of a key")]
    Bits {
        /// The primitive that was called.
        primitive: &'static str,
        /// The first bit asked for.
        start: u32,
        /// The one after the last.
        end: u32,
        /// Bits of a key.
        width: u32,
    },
    /// More elements than the primitive can count.
    #[error("{primitive}: {n} elements are more than the {most} it can take")]
    TooLong {
        /// The primitive that was called.
        primitive: &'static str,
        /// Elements asked for.
        n: usize,
        /// The most it takes.
        most: usize,
    },
    /// An element that kernels cannot be made for.
    #[error(
        "{primitive}: elements of {size} bytes have no kernel; on the device their size must be 1 to 32 bytes, and so must the carry's for Strategy::Hierarchical; with the textbook's blocks both must be of 1, 2, 4, 8 or 16 bytes"
    )]
    ElementSize {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes of the element, or of the carry where that is what does not fit.
        size: usize,
    },
    /// A strategy that the data's place cannot take.
    #[error("{primitive}: the strategy {strategy} needs data in device memory; on host data leave it at Auto")]
    Strategy {
        /// The primitive that was called.
        primitive: &'static str,
        /// The strategy asked for.
        strategy: String,
    },
    /// Memory of one device, stream or workspace of another.
    #[error("{primitive}: {what} belongs to device {found}, the work to device {expected}")]
    WrongDevice {
        /// The primitive that was called.
        primitive: &'static str,
        /// Which argument.
        what: &'static str,
        /// The ordinal of the device it belongs to.
        found: usize,
        /// The ordinal of the device of the stream.
        expected: usize,
    },
    /// Memory of another context than the stream's, on the same device.
    #[error(
        "{primitive}: {what} belongs to another CudaContext of device {device} than the work; make one, or take the one that parascan::cuda::context gives, and share it"
    )]
    WrongContext {
        /// The primitive that was called.
        primitive: &'static str,
        /// Which argument.
        what: &'static str,
        /// The ordinal of the device.
        device: usize,
    },
    /// The scratch memory handed to a raw call is too small or misaligned.
    #[error(
        "{primitive}: the scratch memory has {given} bytes at {address:#x}; {needed} bytes aligned to 16 are needed"
    )]
    Scratch {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes given.
        given: usize,
        /// Where they are.
        address: u64,
        /// Bytes needed.
        needed: usize,
    },
    /// The stream is being captured into a graph and the call would have to allocate or load something.
    #[error("{primitive}: the stream is being captured and {what}")]
    Capturing {
        /// The primitive that was called.
        primitive: &'static str,
        /// What stands against it, and what to do instead.
        what: &'static str,
    },
    /// The stream is being captured while cudarc tracks events, which would pull events from outside into the capture.
    #[error(
        "{primitive}: the stream is being captured while cudarc's event tracking is on; call CudaContext::disable_event_tracking before the buffers are allocated"
    )]
    EventTracking {
        /// The primitive that was called.
        primitive: &'static str,
    },
    /// There is no CUDA driver on this machine.
    #[error("no CUDA driver on this machine ({reason}); data in host memory needs none")]
    NoDriver {
        /// What the dynamic linker said.
        reason: String,
    },
    /// There is a driver and no device that it can use.
    #[error("the CUDA driver finds no device ({reason})")]
    NoDevice {
        /// What the driver said.
        reason: String,
    },
    /// The driver is older than what kernels are loaded through.
    #[error("the CUDA driver is for CUDA {}.{} and must be for 12.0 or newer", version / 1000, version % 1000 / 10)]
    OldDriver {
        /// As `cuDriverGetVersion` gives it: 11080 for 11.8.
        version: i32,
    },
    /// A call of the driver failed.
    #[error("{call} failed with {code:?} on device {device}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// Its answer.
        code: CUresult,
        /// The ordinal of the device.
        device: usize,
    },
    /// No kernel for this device is built in, and there is no compiler to make one.
    #[error(
        "no kernel for {unit} on compute capability {major}.{minor} is built in, and NVRTC was not found ({reason}); `pip install nvidia-cuda-nvrtc` installs it, or name the library in PARASCAN_NVRTC"
    )]
    NoCompiler {
        /// Which kernel.
        unit: String,
        /// Compute capability, major.
        major: i32,
        /// Compute capability, minor.
        minor: i32,
        /// Where it was looked for.
        reason: String,
    },
    /// [`Kernels::launch`](crate::cuda::Kernels::launch) of a kernel that was not named when they
    /// were loaded.
    #[error("there is no kernel {index}: kernels are numbered from 0, and {kernels} were loaded")]
    NoKernel {
        /// The number asked for.
        index: usize,
        /// How many kernels were loaded.
        kernels: usize,
    },
    /// The compiler refused a kernel.
    #[error("NVRTC refused the kernel for {unit}:\n{log}")]
    Compile {
        /// Which kernel.
        unit: String,
        /// The compiler's own words.
        log: String,
    },
    /// NVRTC was found and does not work.
    #[error("NVRTC at {path} cannot be used: {reason}; name another in PARASCAN_NVRTC")]
    Compiler {
        /// The library.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
}
