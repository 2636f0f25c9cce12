//! Memory: host slices and cudarc's device buffers, as inputs and outputs.

use crate::{Error, Index, RawSlice, cuda};
use bytemuck::{Pod, Zeroable};
use cudarc::driver::sys::{self, CUdeviceptr, CUstreamCaptureStatus};
use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, SyncOnDrop,
};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
}
pub(crate) use sealed::Sealed;

/// The memory that data lies in, [`Host`] or [`Device`], and so the engine that runs the work.
pub trait Place: Sealed + 'static {
    /// New memory for indices: `Vec<I>` or `CudaSlice<I>`.
    type Indices<I: Index>;
    /// Whether data may lie on the host. An engine's part of a call begins with an assertion of this or
    /// of `ON_DEVICE`. What follows one that fails is not compiled, so a program has the code of the
    /// engines that it names.
    #[doc(hidden)]
    const ON_HOST: bool;
    /// Whether data may lie on the device.
    #[doc(hidden)]
    const ON_DEVICE: bool;
    #[doc(hidden)]
    fn allocate<I: Index>(
        primitive: &'static str,
        n: usize,
        on: Option<&Arc<CudaStream>>,
    ) -> Result<Self::Indices<I>, Error>;
    #[doc(hidden)]
    fn view_mut<I: Index>(memory: &mut Self::Indices<I>) -> ViewMut<'_, I>;
    #[doc(hidden)]
    fn shorten<I: Index>(
        primitive: &'static str,
        memory: Self::Indices<I>,
        n: usize,
    ) -> Result<Self::Indices<I>, Error>;
    /// The first `N` indices. Waits for the stream.
    #[doc(hidden)]
    fn read<const N: usize>(memory: &Self::Indices<u64>) -> Result<[usize; N], Error>;
}

/// Host memory: the work runs on this machine's cores.
#[derive(Debug)]
pub enum Host {}

/// Memory of a CUDA device: the work runs there, on a stream.
#[derive(Debug)]
pub enum Device {}

impl Sealed for Host {}
impl Place for Host {
    type Indices<I: Index> = Vec<I>;
    const ON_HOST: bool = true;
    const ON_DEVICE: bool = false;
    fn allocate<I: Index>(primitive: &'static str, n: usize, _: Option<&Arc<CudaStream>>) -> Result<Vec<I>, Error> {
        zeros_on_host(primitive, n)
    }
    fn view_mut<I: Index>(memory: &mut Vec<I>) -> ViewMut<'_, I> {
        ViewMut::Host(memory)
    }
    fn shorten<I: Index>(primitive: &'static str, memory: Vec<I>, n: usize) -> Result<Vec<I>, Error> {
        <Vec<I> as Source<I>>::shorten(primitive, memory, n)
    }
    fn read<const N: usize>(memory: &Vec<u64>) -> Result<[usize; N], Error> {
        Ok(std::array::from_fn(|i| memory[i] as usize))
    }
}
impl Sealed for Device {}
impl Place for Device {
    type Indices<I: Index> = CudaSlice<I>;
    const ON_HOST: bool = false;
    const ON_DEVICE: bool = true;
    fn allocate<I: Index>(
        primitive: &'static str,
        n: usize,
        on: Option<&Arc<CudaStream>>,
    ) -> Result<CudaSlice<I>, Error> {
        allocate_on(primitive, on.expect("data on the device has a stream"), n)
    }
    fn view_mut<I: Index>(memory: &mut CudaSlice<I>) -> ViewMut<'_, I> {
        ViewMut::Device(memory)
    }
    fn shorten<I: Index>(primitive: &'static str, memory: CudaSlice<I>, n: usize) -> Result<CudaSlice<I>, Error> {
        <CudaSlice<I> as Source<I>>::shorten(primitive, memory, n)
    }
    fn read<const N: usize>(memory: &CudaSlice<u64>) -> Result<[usize; N], Error> {
        let memory = to_host(memory.stream(), memory)?;
        Ok(std::array::from_fn(|i| memory[i] as usize))
    }
}

/// An input: memory that a primitive reads items `T` from.
///
/// | memory | types |
/// |---|---|
/// | host | `[T]`, `Vec<T>`, `Box<[T]>`, `[T; N]` |
/// | device | cudarc's `CudaSlice<T>`, `CudaView<T>`, `CudaViewMut<T>`; [`RawSlice<T>`](RawSlice) |
/// | either | references to these, and `Arc`s of these |
///
/// All inputs and outputs of a call must lie in the same memory; a call that mixes host and device
/// does not compile.
///
/// ```
/// # use parascan::{Sum, scan};
/// # use std::sync::Arc;
/// let (array, vec, shared) = ([1, 2, 3], vec![1, 2, 3], Arc::new(vec![1, 2, 3]));
/// assert_eq!(scan::<Sum, i32>().run(&array)?, [1, 3, 6]);
/// assert_eq!(scan::<Sum, i32>().run(&vec[1..])?, [2, 5]); // a part
/// assert_eq!(scan::<Sum, i32>().run(&shared)?, [1, 3, 6]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory that holds `{T}`",
    label = "expected `[{T}]`, `Vec<{T}>`, `[{T}; N]`, or cudarc's `CudaSlice<{T}>`, `CudaView<{T}>`, `CudaViewMut<{T}>`"
)]
pub trait Source<T: Pod>: Sealed {
    /// [`Host`] or [`Device`].
    type Place: Place;
    /// The result of `run`: `Vec<T>` or `CudaSlice<T>`.
    type Owned;
    #[doc(hidden)]
    fn view(&self) -> View<'_, T>;
    #[doc(hidden)]
    fn allocate(&self, primitive: &'static str, n: usize, on: Option<&Arc<CudaStream>>) -> Result<Self::Owned, Error>;
    #[doc(hidden)]
    fn view_owned(owned: &mut Self::Owned) -> ViewMut<'_, T>;
    /// The first `n` elements only; on the device in memory of exactly that length.
    #[doc(hidden)]
    fn shorten(primitive: &'static str, owned: Self::Owned, n: usize) -> Result<Self::Owned, Error>;
    #[doc(hidden)]
    fn untyped(&self) -> Untyped<'_>;
}

/// An output: memory of the kind `P`, [`Host`] or [`Device`], that a primitive writes items `T` to.
///
/// | memory | types |
/// |---|---|
/// | host | `[T]`, `Vec<T>`, `Box<[T]>`, `[T; N]` |
/// | device | cudarc's `CudaSlice<T>`, `CudaViewMut<T>`; [`RawSlice<T>`](RawSlice) |
/// | either | mutable references to these |
///
/// Its length is the room for items: a `Vec` does not grow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take the result: the input lies in `{P}` memory, and this does not, does not hold `{T}`, or is shared",
    label = "not `{P}` memory of `{T}` that can be written",
    note = "host slices go with host slices and cudarc buffers with cudarc buffers: copy the data yourself, nothing is copied between host and device behind your back",
    note = "an `Arc` and a `CudaView` are shared and only read: write to a `Vec`, a slice, a `CudaSlice` or a `CudaViewMut`"
)]
pub trait Destination<T: Pod, P: Place>: Sealed {
    #[doc(hidden)]
    fn view_mut(&mut self) -> ViewMut<'_, T>;
    #[doc(hidden)]
    fn untyped_mut(&mut self) -> UntypedMut<'_>;
}

/// The slice or buffer of a [`Source`].
#[doc(hidden)]
pub enum View<'a, T> {
    Host(&'a [T]),
    Device(&'a dyn DevicePtr<T>),
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

impl<'a, T> View<'a, T> {
    pub(crate) fn len(&self) -> usize {
        match self {
            View::Host(memory) => memory.len(),
            View::Device(memory) => memory.len(),
        }
    }
    /// The slice, of a view whose type says that it is on the host.
    pub(crate) fn host(&self) -> &'a [T] {
        match *self {
            View::Host(memory) => memory,
            View::Device(_) => unreachable!("the types agree on the place"),
        }
    }
    /// The stream of a call on the view, if it is on the device: the chosen one, or the buffer's
    /// own.
    pub(crate) fn stream(&self, chosen: Option<&Arc<CudaStream>>) -> Option<Arc<CudaStream>> {
        match self {
            View::Host(_) => None,
            View::Device(memory) => Some(chosen.unwrap_or(memory.stream()).clone()),
        }
    }
    /// The buffer, of a view whose type says that it is on the device.
    pub(crate) fn device(&self) -> &'a dyn DevicePtr<T> {
        match *self {
            View::Device(memory) => memory,
            View::Host(_) => unreachable!("the types agree on the place"),
        }
    }
}

/// The slice or buffer of a [`Destination`].
#[doc(hidden)]
pub enum ViewMut<'a, T> {
    Host(&'a mut [T]),
    Device(&'a mut dyn ReadWrite<T>),
}

/// A buffer on the device that can be read too.
#[doc(hidden)]
pub trait ReadWrite<T>: DevicePtr<T> + DevicePtrMut<T> {}
impl<T, M: DevicePtr<T> + DevicePtrMut<T>> ReadWrite<T> for M {}

impl<T> ViewMut<'_, T> {
    /// A view of the same memory for a shorter lifetime.
    pub(crate) fn again(&mut self) -> ViewMut<'_, T> {
        match self {
            ViewMut::Host(memory) => ViewMut::Host(memory),
            ViewMut::Device(memory) => ViewMut::Device(*memory),
        }
    }
    /// A view to read the same memory.
    pub(crate) fn shared(&self) -> View<'_, T> {
        match self {
            ViewMut::Host(memory) => View::Host(memory),
            ViewMut::Device(memory) => View::Device(&**memory),
        }
    }
    /// The slice, of a view whose type says that it is on the host.
    pub(crate) fn host(&mut self) -> &mut [T] {
        match self {
            ViewMut::Host(memory) => memory,
            ViewMut::Device(_) => unreachable!("the types agree on the place"),
        }
    }
    /// The buffer, of a view whose type says that it is on the device.
    pub(crate) fn device(&mut self) -> &mut dyn DevicePtrMut<T> {
        match self {
            ViewMut::Device(memory) => *memory,
            ViewMut::Host(_) => unreachable!("the types agree on the place"),
        }
    }
    pub(crate) fn len(&self) -> usize {
        match self {
            ViewMut::Host(memory) => memory.len(),
            ViewMut::Device(memory) => memory.len(),
        }
    }
}

// ---- memory of any item type ---------------------------------------------------------------------

/// An input buffer on the device, of any item type.
#[doc(hidden)]
pub trait Buffer {
    fn home(&self) -> &Arc<CudaStream>;
    fn length(&self) -> usize;
    fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>);
}
impl<T> Buffer for View<'_, T> {
    fn home(&self) -> &Arc<CudaStream> {
        self.device().stream()
    }
    fn length(&self) -> usize {
        self.len()
    }
    fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device().device_ptr(stream)
    }
}

/// An output buffer on the device, of any item type.
#[doc(hidden)]
pub trait BufferMut {
    fn home(&self) -> &Arc<CudaStream>;
    fn capacity(&self) -> usize;
    fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>);
}
impl<T> BufferMut for ViewMut<'_, T> {
    fn home(&self) -> &Arc<CudaStream> {
        match self {
            ViewMut::Device(memory) => memory.stream(),
            ViewMut::Host(_) => unreachable!("the types agree on the place"),
        }
    }
    fn capacity(&self) -> usize {
        self.len()
    }
    fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device().device_ptr_mut(stream)
    }
}

/// A buffer on the device that is read and written.
#[doc(hidden)]
pub trait BufferInOut: Buffer + BufferMut {}
impl<B: Buffer + BufferMut> BufferInOut for B {}

/// The memory of a [`Source`], without the type of its items.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub enum Untyped<'a> {
    Host(&'a [u8]),
    Device(&'a dyn Buffer),
}

/// The memory of a [`Destination`], without the type of its items.
#[doc(hidden)]
pub enum UntypedMut<'a> {
    Host(&'a mut [u8]),
    Device(&'a mut dyn BufferInOut),
}

impl<T> Sealed for [T] {}
impl<T> Sealed for Vec<T> {}
impl<T> Sealed for Box<[T]> {}
impl<T, const N: usize> Sealed for [T; N] {}
impl<T> Sealed for CudaSlice<T> {}
impl<T> Sealed for CudaView<'_, T> {}
impl<T> Sealed for CudaViewMut<'_, T> {}
impl<T> Sealed for RawSlice<'_, T> {}
impl<S: Sealed + ?Sized> Sealed for &S {}
impl<S: Sealed + ?Sized> Sealed for &mut S {}
impl<S: Sealed + ?Sized> Sealed for Arc<S> {}

macro_rules! host {
    ($([$($generics:tt)*] $memory:ty;)*) => { $(
        impl<T: Pod, $($generics)*> Source<T> for $memory {
            type Place = Host;
            type Owned = Vec<T>;
            fn view(&self) -> View<'_, T> {
                View::Host(&self[..])
            }
            fn allocate(&self, primitive: &'static str, n: usize, _: Option<&Arc<CudaStream>>) -> Result<Vec<T>, Error> {
                zeros_on_host(primitive, n)
            }
            fn view_owned(owned: &mut Vec<T>) -> ViewMut<'_, T> {
                ViewMut::Host(owned)
            }
            fn shorten(_: &'static str, mut owned: Vec<T>, n: usize) -> Result<Vec<T>, Error> {
                owned.truncate(n);
                owned.shrink_to_fit();
                Ok(owned)
            }
            fn untyped(&self) -> Untyped<'_> {
                Untyped::Host(bytemuck::cast_slice(&self[..]))
            }
        }
        impl<T: Pod, $($generics)*> Destination<T, Host> for $memory {
            fn view_mut(&mut self) -> ViewMut<'_, T> {
                ViewMut::Host(&mut self[..])
            }
            fn untyped_mut(&mut self) -> UntypedMut<'_> {
                UntypedMut::Host(bytemuck::cast_slice_mut(&mut self[..]))
            }
        }
    )* };
}
host! { [] [T]; [] Vec<T>; [] Box<[T]>; [const N: usize] [T; N]; }

macro_rules! device {
    ($($memory:ty;)*) => { $(
        impl<T: Pod + DeviceRepr> Source<T> for $memory {
            type Place = Device;
            type Owned = CudaSlice<T>;
            fn view(&self) -> View<'_, T> {
                View::Device(self)
            }
            fn allocate(&self, primitive: &'static str, n: usize, on: Option<&Arc<CudaStream>>) -> Result<CudaSlice<T>, Error> {
                allocate_on(primitive, on.unwrap_or(cudarc::driver::DeviceSlice::<T>::stream(self)), n)
            }
            fn view_owned(owned: &mut CudaSlice<T>) -> ViewMut<'_, T> {
                ViewMut::Device(owned)
            }
            fn shorten(primitive: &'static str, owned: CudaSlice<T>, n: usize) -> Result<CudaSlice<T>, Error> {
                shorten_on(primitive, owned, n)
            }
            fn untyped(&self) -> Untyped<'_> {
                Untyped::Device(self)
            }
        }
        impl<T> Buffer for $memory {
            fn home(&self) -> &Arc<CudaStream> {
                DeviceSlice::<T>::stream(self)
            }
            fn length(&self) -> usize {
                DeviceSlice::<T>::len(self)
            }
            fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
                self.device_ptr(stream)
            }
        }
    )* };
}
device! { CudaSlice<T>; CudaView<'_, T>; CudaViewMut<'_, T>; RawSlice<'_, T>; }

macro_rules! device_mut {
    ($($memory:ty;)*) => { $(
        impl<T: Pod> Destination<T, Device> for $memory {
            fn view_mut(&mut self) -> ViewMut<'_, T> {
                ViewMut::Device(self)
            }
            fn untyped_mut(&mut self) -> UntypedMut<'_> {
                UntypedMut::Device(self)
            }
        }
        impl<T> BufferMut for $memory {
            fn home(&self) -> &Arc<CudaStream> {
                DeviceSlice::<T>::stream(self)
            }
            fn capacity(&self) -> usize {
                DeviceSlice::<T>::len(self)
            }
            fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
                self.device_ptr_mut(stream)
            }
        }
    )* };
}
device_mut! { CudaSlice<T>; CudaViewMut<'_, T>; RawSlice<'_, T>; }

macro_rules! forward {
    ($($pointer:ty;)*) => { $(
        impl<T: Pod, S: Source<T> + ?Sized> Source<T> for $pointer {
            type Place = S::Place;
            type Owned = S::Owned;
            fn view(&self) -> View<'_, T> {
                (**self).view()
            }
            fn allocate(&self, primitive: &'static str, n: usize, on: Option<&Arc<CudaStream>>) -> Result<S::Owned, Error> {
                (**self).allocate(primitive, n, on)
            }
            fn view_owned(owned: &mut S::Owned) -> ViewMut<'_, T> {
                S::view_owned(owned)
            }
            fn shorten(primitive: &'static str, owned: S::Owned, n: usize) -> Result<S::Owned, Error> {
                S::shorten(primitive, owned, n)
            }
            fn untyped(&self) -> Untyped<'_> {
                (**self).untyped()
            }
        }
    )* };
}
forward! { &S; &mut S; Arc<S>; }

impl<T: Pod, P: Place, S: Destination<T, P> + ?Sized> Destination<T, P> for &mut S {
    fn view_mut(&mut self) -> ViewMut<'_, T> {
        (**self).view_mut()
    }
    fn untyped_mut(&mut self) -> UntypedMut<'_> {
        (**self).untyped_mut()
    }
}

/// New memory on the host, all zeros.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn zeros_on_host<T: Zeroable>(primitive: &'static str, n: usize) -> Result<Vec<T>, Error> {
    bytemuck::try_zeroed_vec(n).map_err(|()| out_of_memory::<T>(primitive, n))
}

/// An empty vector on the host, with room for `n` elements.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn room_on_host<T>(primitive: &'static str, n: usize) -> Result<Vec<T>, Error> {
    let mut room = Vec::new();
    room.try_reserve_exact(n).map_err(|_| out_of_memory::<T>(primitive, n))?;
    Ok(room)
}

pub(crate) fn out_of_memory<T>(primitive: &'static str, n: usize) -> Error {
    Error::OutOfMemory { primitive, n, size: size_of::<T>() }
}

/// New memory for `n` elements, from the stream-ordered pool. It is not initialised: every element
/// must be written before the user gets it.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Capturing`], [`Error::Driver`].
pub(crate) fn allocate_on<T: DeviceRepr>(
    primitive: &'static str,
    stream: &Arc<CudaStream>,
    n: usize,
) -> Result<CudaSlice<T>, Error> {
    let device = stream.context().ordinal();
    cuda::bind(stream.context())?;
    if is_capturing(stream)? {
        return Err(Error::Capturing { primitive, what: "run allocates its result; use run_into with a workspace" });
    }
    // cudarc would let the product wrap, and give less memory than the length says.
    if n.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(out_of_memory::<T>(primitive, n));
    }
    // SAFETY: the elements are plain data; every one is written before the buffer reaches the
    // caller.
    let memory = if n == 0 { stream.null() } else { unsafe { stream.alloc(n) } };
    memory.map_err(|e| Error::Driver { call: "cuMemAllocAsync", code: e.0, device })
}

/// Zeroes bytes on the device, in the order of the stream. The stream's context is current.
///
/// # Safety
/// There are `bytes` bytes at the address, for work on the stream.
pub(crate) unsafe fn zero_bytes(stream: &CudaStream, address: CUdeviceptr, bytes: usize) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's.
    let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, stream.cu_stream()) };
    cuda::check("cuMemsetD8Async", stream.context().ordinal(), code)
}

/// Zeroes the buffer, in the order of its stream.
pub(crate) fn zero<T>(memory: &mut dyn DevicePtrMut<T>) -> Result<(), Error> {
    let stream = memory.stream().clone();
    let bytes = memory.len() * size_of::<T>();
    cuda::bind(stream.context())?;
    let (address, _written) = memory.device_ptr_mut(&stream);
    // SAFETY: the buffer has `bytes` bytes on the device, and the guard keeps it until the fill is
    // on the stream.
    unsafe { zero_bytes(&stream, address, bytes) }
}

/// Copies the first `n` items of a buffer on the device, in the order of `stream`.
///
/// # Panics
/// If the buffer has fewer.
pub(crate) fn copy_on<T: Pod + DeviceRepr>(
    primitive: &'static str,
    stream: &Arc<CudaStream>,
    memory: &dyn DevicePtr<T>,
    n: usize,
) -> Result<CudaSlice<T>, Error> {
    assert!(n <= memory.len(), "{n} items of {}", memory.len());
    let mut copy = allocate_on(primitive, stream, n)?;
    if n > 0 {
        let (from, _read) = memory.device_ptr(stream);
        let (to, _written) = copy.device_ptr_mut(stream);
        let bytes = n * size_of::<T>();
        // SAFETY: both buffers have `bytes` bytes on the device and are disjoint; the guards keep
        // them until the copy is on the stream.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.cu_stream()) };
        cuda::check("cuMemcpyDtoDAsync", stream.context().ordinal(), code)?;
    }
    Ok(copy)
}

/// Copies a buffer to the host. Waits for the stream.
pub(crate) fn to_host<T: Pod>(stream: &Arc<CudaStream>, memory: &dyn DevicePtr<T>) -> Result<Vec<T>, Error> {
    part_to_host(stream, memory, 0, memory.len())
}

/// Copies `count` elements, from element `first` on, to the host. Waits for the stream.
///
/// # Panics
/// If the buffer has fewer elements.
pub(crate) fn part_to_host<T: Pod>(
    stream: &Arc<CudaStream>,
    memory: &dyn DevicePtr<T>,
    first: usize,
    count: usize,
) -> Result<Vec<T>, Error> {
    const NAME: &str = "a copy to the host";
    let end = first.checked_add(count);
    assert!(end.is_some_and(|end| end <= memory.len()), "elements {first} and on, {count}, of {}", memory.len());
    let device = stream.context().ordinal();
    let mut copy = zeros_on_host(NAME, count)?;
    cuda::bind(stream.context())?;
    if count == 0 {
        return Ok(copy);
    }
    if is_capturing(stream)? {
        return Err(Error::Capturing { primitive: NAME, what: "it waits for the stream" });
    }
    let (from, read) = memory.device_ptr(stream);
    // SAFETY: both sides have `bytes` bytes, by the assertion and `zeros_on_host`, and live until
    // the stream is past the copy.
    let copied = unsafe {
        let bytes = count * size_of::<T>();
        let from = from + (first * size_of::<T>()) as u64;
        let to = copy.as_mut_ptr().cast();
        cuda::check("cuMemcpyDtoHAsync", device, sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream.cu_stream()))
    };
    drop(read);
    // SAFETY: the stream is live.
    let waited = cuda::check("cuStreamSynchronize", device, unsafe { sys::cuStreamSynchronize(stream.cu_stream()) });
    copied.and(waited).map(|()| copy)
}

/// The first `n` elements, in new memory unless the buffer has no others.
fn shorten_on<T: Pod + DeviceRepr>(
    primitive: &'static str,
    memory: CudaSlice<T>,
    n: usize,
) -> Result<CudaSlice<T>, Error> {
    if n >= memory.len() {
        return Ok(memory);
    }
    let stream = memory.stream().clone();
    let mut short = allocate_on(primitive, &stream, n)?;
    if n > 0 {
        let device = stream.context().ordinal();
        let copied = stream.memcpy_dtod(&memory.slice(..n), &mut short);
        copied.map_err(|e| Error::Driver { call: "cuMemcpyDtoDAsync", code: e.0, device })?;
    }
    Ok(short)
}

/// Whether the stream is being captured into a graph. The stream's context is current.
pub(crate) fn is_capturing(stream: &CudaStream) -> Result<bool, Error> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is live; the driver writes the status.
    let code = unsafe { sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) };
    cuda::check("cuStreamIsCapturing", stream.context().ordinal(), code)?;
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}
