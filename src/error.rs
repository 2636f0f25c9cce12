//! The error of every call.

use cudarc::driver::sys::CUresult;
use std::path::PathBuf;

/// Why a call failed. Every fallible call of the library returns this type.
///
/// - Arguments: [`Length`](Error::Length), [`Size`](Error::Size),
///   [`Descending`](Error::Descending), [`Empty`](Error::Empty), [`Overflow`](Error::Overflow),
///   [`Align`](Error::Align), [`Bits`](Error::Bits), [`TooLong`](Error::TooLong),
///   [`Strategy`](Error::Strategy), [`Scratch`](Error::Scratch), [`NoKernel`](Error::NoKernel).
/// - Types: [`ElementSize`](Error::ElementSize), [`ItemSize`](Error::ItemSize).
/// - Types at run time: [`Type`](Error::Type), [`Undefined`](Error::Undefined),
///   [`NoIdentity`](Error::NoIdentity), [`Place`](Error::Place), [`Tensor`](Error::Tensor).
/// - Devices and streams: [`WrongDevice`](Error::WrongDevice),
///   [`WrongContext`](Error::WrongContext), [`Capturing`](Error::Capturing),
///   [`EventTracking`](Error::EventTracking).
/// - Memory: [`OutOfMemory`](Error::OutOfMemory), [`Driver`](Error::Driver) with
///   `CUDA_ERROR_OUT_OF_MEMORY`.
/// - Driver: [`NoDriver`](Error::NoDriver), [`NoDevice`](Error::NoDevice),
///   [`OldDriver`](Error::OldDriver), [`Driver`](Error::Driver).
/// - Compiler: [`NoCompiler`](Error::NoCompiler), [`Compile`](Error::Compile),
///   [`Compiler`](Error::Compiler).
///
/// Nothing has been written when a call returns an error, with two exceptions. A call that makes
/// several launches returns [`Error::Driver`] if the driver refuses a later one, and by then the
/// earlier ones are on the stream. Such builders document what their outputs hold then. And of the two
/// sorts of [`run_lexicographic_in_place`](crate::Sort::run_lexicographic_in_place) the second may fail with any
/// error.
///
/// # Example
/// ```
/// use parascan::{Error, Sum, scan};
///
/// let (sizes, mut starts) = ([1, 2, 3], [0; 2]);
/// match scan::<Sum, u32>().exclusive().run_into(&sizes, &mut starts) {
///     Err(Error::Length { input, output, .. }) => assert_eq!((input, output, starts), (3, 2, [0; 2])),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Input and output must be equally long, and are not.
    #[error("{primitive}: the input has {input} elements and the output {output}; they must be equally long")]
    Length {
        /// The primitive that was called.
        primitive: &'static str,
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// An argument is shorter than the call needs.
    #[error("{primitive}: {what} has {found} elements, and {needed} are needed")]
    Size {
        /// The primitive that was called.
        primitive: &'static str,
        /// The argument.
        what: &'static str,
        /// Its length, in elements.
        found: usize,
        /// The least length, in elements.
        needed: usize,
    },
    /// An argument whose type is known at run time has another type than the call needs.
    #[error("{primitive}: {what} should be of type {expected} and is of {found}")]
    Type {
        /// The primitive that was called.
        primitive: &'static str,
        /// The argument.
        what: &'static str,
        /// The type that is needed.
        expected: &'static str,
        /// The type of the argument.
        found: &'static str,
    },
    /// An operator that is known at run time is not defined for the element type.
    #[error("{primitive}: the operator {operator} is not defined for {element}")]
    Undefined {
        /// The primitive that was called.
        primitive: &'static str,
        /// The operator.
        operator: &'static str,
        /// The element type.
        element: &'static str,
    },
    /// An operator that is known at run time has no identity to begin an exclusive scan with.
    #[error("{primitive}: the operator {operator} has no identity; an exclusive scan by it needs `.init(first)`")]
    NoIdentity {
        /// The primitive that was called.
        primitive: &'static str,
        /// The operator.
        operator: &'static str,
    },
    /// Arguments whose memory is known at run time lie partly on the host and partly on the device.
    #[error("{primitive}: {what} and the input do not lie in the same memory: one is on the host")]
    Place {
        /// The primitive that was called.
        primitive: &'static str,
        /// The argument.
        what: &'static str,
    },
    /// A tensor of another library cannot be imported, or an array cannot be exported as one.
    #[error("dlpack: {reason}")]
    Tensor {
        /// The cause.
        reason: String,
    },
    /// Offsets of segments do not ascend.
    #[error("{primitive}: offset {index} is less than the offset before it")]
    Descending {
        /// The primitive that was called.
        primitive: &'static str,
        /// The index of the first such offset.
        index: usize,
    },
    /// A reduction of no items, or a segment without items, has no result: there is no initial
    /// value, and the operator has no identity. A maximum of no items has no position.
    #[error(
        "{primitive}: the input or a segment is empty and has no result; \
         where an operator has no identity, `.init(value)` gives one"
    )]
    Empty {
        /// The primitive that was called.
        primitive: &'static str,
    },
    /// Memory cannot be allocated on the host, or has more bytes than an address counts. If device
    /// memory runs out, the call returns [`Error::Driver`] with `CUDA_ERROR_OUT_OF_MEMORY`.
    #[error("{primitive}: {n} elements of {size} bytes cannot be allocated")]
    OutOfMemory {
        /// The primitive that was called.
        primitive: &'static str,
        /// The number of elements.
        n: usize,
        /// Bytes of an element.
        size: usize,
    },
    /// A total does not fit the type of the result.
    #[error("{primitive}: the total is more than {most}, the most that the type of the result holds")]
    Overflow {
        /// The primitive that was called.
        primitive: &'static str,
        /// The greatest value of the type.
        most: u64,
        /// The total, if it is known; `u64::MAX` stands for all totals that are at least as great.
        total: Option<u64>,
    },
    /// An alignment is not a power of two up to 2^32.
    #[error("{primitive}: an alignment is a power of two up to 2^32, and {align} is not")]
    Align {
        /// The primitive that was called.
        primitive: &'static str,
        /// The alignment.
        align: u64,
    },
    /// Items of plain data have a size that the primitive does not move or compare. That of a sort's payload must be 1 byte
    /// to 16 MiB, any other 1 to 16 bytes.
    #[error(
        "{primitive}: items of {size} bytes cannot be moved; their size must be 1 to 16 bytes, of a sort's payload 1 byte to 16 MiB"
    )]
    ItemSize {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes of an item.
        size: usize,
    },
    /// A range of bits is not part of a key.
    #[error("{primitive}: the bits {start}..{end} are no part of the {width} bits of a key")]
    Bits {
        /// The primitive that was called.
        primitive: &'static str,
        /// The first bit of the range.
        start: u32,
        /// The bit after the last.
        end: u32,
        /// Bits of a key.
        width: u32,
    },
    /// There are more elements than the primitive or its index type counts.
    #[error("{primitive}: {n} elements are more than the {most} it can take")]
    TooLong {
        /// The primitive that was called.
        primitive: &'static str,
        /// The number of elements.
        n: usize,
        /// The greatest possible number.
        most: usize,
    },
    /// No kernel can be made for elements of this size.
    #[error(
        "{primitive}: elements of {size} bytes have no kernel; on the device their size must be 1 to 32 bytes, and so must the carry's for Strategy::Hierarchical; with the textbook's blocks both must be of 1, 2, 4, 8 or 16 bytes"
    )]
    ElementSize {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes of the element, or of the carry if that does not fit.
        size: usize,
    },
    /// A strategy was chosen for data on the host, for a scan by segment or by column, or for a
    /// length in memory.
    #[error(
        "{primitive}: the strategy {strategy} is for data in device memory without segments; else leave it at Auto"
    )]
    Strategy {
        /// The primitive that was called.
        primitive: &'static str,
        /// The strategy.
        strategy: String,
    },
    /// A buffer belongs to another device than the stream or the workspace.
    #[error("{primitive}: {what} belongs to device {found}, the work to device {expected}")]
    WrongDevice {
        /// The primitive that was called.
        primitive: &'static str,
        /// The argument.
        what: &'static str,
        /// The ordinal of the argument's device.
        found: usize,
        /// The ordinal of the stream's device.
        expected: usize,
    },
    /// A buffer belongs to another context of the same device than the stream.
    #[error(
        "{primitive}: {what} belongs to another CudaContext of device {device} than the work; make one, or take the one that parascan::cuda::context gives, and share it"
    )]
    WrongContext {
        /// The primitive that was called.
        primitive: &'static str,
        /// The argument.
        what: &'static str,
        /// The ordinal of the device.
        device: usize,
    },
    /// The caller's memory of a workspace, or the scratch memory of a raw call, is too small or
    /// misaligned.
    #[error(
        "{primitive}: the scratch memory has {given} bytes at {address:#x}; {needed} bytes are needed, at a multiple of \
         256 (of 16 for `run_raw`)"
    )]
    Scratch {
        /// The primitive that was called.
        primitive: &'static str,
        /// Bytes given.
        given: usize,
        /// Their address.
        address: u64,
        /// Bytes that the call needs.
        needed: usize,
    },
    /// The stream is being captured into a graph, and the call would have to allocate memory, load
    /// kernels or wait.
    #[error("{primitive}: the stream is being captured and {what}")]
    Capturing {
        /// The primitive that was called.
        primitive: &'static str,
        /// The obstacle, and what to do instead.
        what: &'static str,
    },
    /// The stream is being captured while cudarc tracks events, which would add events from outside
    /// to the capture.
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
        /// The dynamic linker's message.
        reason: String,
    },
    /// There is a driver, and no device that it can use.
    #[error("the CUDA driver finds no device ({reason})")]
    NoDevice {
        /// The driver's message.
        reason: String,
    },
    /// The driver is older than CUDA 12.0, whose interface loads the kernels.
    #[error("the CUDA driver is for CUDA {}.{} and must be for 12.0 or newer", version / 1000, version % 1000 / 10)]
    OldDriver {
        /// The version, as `cuDriverGetVersion` returns it: 11080 for 11.8.
        version: i32,
    },
    /// A call to the driver failed.
    #[error("{call} failed with {code:?} on device {device}")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The code that it returned.
        code: CUresult,
        /// The ordinal of the device.
        device: usize,
    },
    /// No kernel for this device is embedded, and NVRTC was not found to compile one, or is of a newer CUDA major than
    /// the driver.
    #[error(
        "no kernel for {unit} on compute capability {major}.{minor} is embedded, and NVRTC was not found ({reason}); `pip install nvidia-cuda-nvrtc` installs it (`nvidia-cuda-nvrtc-cu12` for a driver of CUDA 12), or name the library in PARASCAN_NVRTC"
    )]
    NoCompiler {
        /// The kernel.
        unit: String,
        /// Compute capability, major.
        major: i32,
        /// Compute capability, minor.
        minor: i32,
        /// The places that were searched.
        reason: String,
    },
    /// [`Kernels::launch`](crate::cuda::Kernels::launch) was called with the number of a kernel
    /// that was not loaded.
    #[error("there is no kernel {index}: kernels are numbered from 0, and {kernels} were loaded")]
    NoKernel {
        /// The number of the kernel.
        index: usize,
        /// The number of loaded kernels.
        kernels: usize,
    },
    /// The compiler refused a kernel.
    #[error("NVRTC refused the kernel for {unit}:\n{log}")]
    Compile {
        /// The kernel.
        unit: String,
        /// The compiler's log.
        log: String,
    },
    /// NVRTC was found, and cannot be used.
    #[error("NVRTC at {path} cannot be used: {reason}; name another in PARASCAN_NVRTC")]
    Compiler {
        /// The library's path.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}
