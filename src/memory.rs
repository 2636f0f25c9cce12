//! Where data lies: host slices and cudarc's device buffers.

use crate::{Element, Error, cuda};
use cudarc::driver::sys::CUstreamCaptureStatus;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// Where data lies, and so where the work runs: [`Host`] or [`Device`].
pub trait Place: Sealed + 'static {}

/// Host memory: the work runs on this machine's cores.
#[derive(Debug)]
pub enum Host {}

/// Memory of a CUDA device: the work runs there, on a stream.
#[derive(Debug)]
pub enum Device {}

impl Sealed for Host {}
impl Place for Host {}
impl Sealed for Device {}
impl Place for Device {}

/// Memory that a primitive reads `T` from.
///
/// Host: `[T]`, `Vec<T>`, `Box<[T]>`, `[T; N]`. Device: cudarc's `CudaSlice<T>`, `CudaView<T>`, `CudaViewMut<T>`. And
/// references and `Arc`s of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory that holds `{T}`",
    label = "expected `[{T}]`, `Vec<{T}>`, `[{T}; N]`, or cudarc's `CudaSlice<{T}>`, `CudaView<{T}>`, `CudaViewMut<{T}>`"
)]
pub trait Source<T: Element>: Sealed {
    /// [`Host`] or [`Device`].
    type Place: Place;
    /// What `run` gives: `Vec<T>` or `CudaSlice<T>`.
    type Owned;
    #[doc(hidden)]
    fn view(&self) -> View<'_, T>;
    #[doc(hidden)]
    fn allocate(&self, primitive: &'static str, n: usize, on: Option<&Arc<CudaStream>>) -> Result<Self::Owned, Error>;
    #[doc(hidden)]
    fn view_owned(owned: &mut Self::Owned) -> ViewMut<'_, T>;
}

/// Memory in the place `P` that a primitive writes `T` to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take the result: the input lies in `{P}` memory, and this does not, does not hold `{T}`, or is shared",
    label = "not `{P}` memory of `{T}` that can be written",
    note = "host slices go with host slices and cudarc buffers with cudarc buffers: copy the data yourself, nothing is copied between host and device behind your back",
    note = "an `Arc` and a `CudaView` are shared and only read: write to a `Vec`, a slice, a `CudaSlice` or a `CudaViewMut`"
)]
pub trait Destination<T: Element, P: Place>: Sealed {
    #[doc(hidden)]
    fn view_mut(&mut self) -> ViewMut<'_, T>;
}

/// What is behind a [`Source`].
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub enum View<'a, T> {
    Host(&'a [T]),
    Device(&'a dyn DevicePtr<T>),
}

/// What is behind a [`Destination`].
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub enum ViewMut<'a, T> {
    Host(&'a mut [T]),
    Device(&'a mut dyn DevicePtrMut<T>),
}

impl<T> Sealed for [T] {}
impl<T> Sealed for Vec<T> {}
impl<T> Sealed for Box<[T]> {}
impl<T, const N: usize> Sealed for [T; N] {}
impl<T> Sealed for CudaSlice<T> {}
impl<T> Sealed for CudaView<'_, T> {}
impl<T> Sealed for CudaViewMut<'_, T> {}
impl<S: Sealed + ?Sized> Sealed for &S {}
impl<S: Sealed + ?Sized> Sealed for &mut S {}
impl<S: Sealed + ?Sized> Sealed for Arc<S> {}

macro_rules! host {
    ($([$($generics:tt)*] $memory:ty;)*) => { $(
        impl<T: Element, $($generics)*> Source<T> for $memory {
            type Place = Host;
            type Owned = Vec<T>;
            fn view(&self) -> View<'_, T> {
                View::Host(&self[..])
            }
            fn allocate(&self, _: &'static str, n: usize, _: Option<&Arc<CudaStream>>) -> Result<Vec<T>, Error> {
                Ok(bytemuck::zeroed_vec(n))
            }
            fn view_owned(owned: &mut Vec<T>) -> ViewMut<'_, T> {
                ViewMut::Host(owned)
            }
        }
        impl<T: Element, $($generics)*> Destination<T, Host> for $memory {
            fn view_mut(&mut self) -> ViewMut<'_, T> {
                ViewMut::Host(&mut self[..])
            }
        }
    )* };
}
host! { [] [T]; [] Vec<T>; [] Box<[T]>; [const N: usize] [T; N]; }

macro_rules! device {
    ($($memory:ty;)*) => { $(
        impl<T: Element + DeviceRepr> Source<T> for $memory {
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
        }
    )* };
}
device! { CudaSlice<T>; CudaView<'_, T>; CudaViewMut<'_, T>; }

impl<T: Element> Destination<T, Device> for CudaSlice<T> {
    fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::Device(self)
    }
}
impl<T: Element> Destination<T, Device> for CudaViewMut<'_, T> {
    fn view_mut(&mut self) -> ViewMut<'_, T> {
        ViewMut::Device(self)
    }
}

macro_rules! forward {
    ($($pointer:ty;)*) => { $(
        impl<T: Element, S: Source<T> + ?Sized> Source<T> for $pointer {
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
        }
    )* };
}
forward! { &S; &mut S; Arc<S>; }

impl<T: Element, P: Place, S: Destination<T, P> + ?Sized> Destination<T, P> for &mut S {
    fn view_mut(&mut self) -> ViewMut<'_, T> {
        (**self).view_mut()
    }
}

/// New memory for `n` elements, from the stream-ordered pool.
fn allocate_on<T: DeviceRepr>(
    primitive: &'static str,
    stream: &Arc<CudaStream>,
    n: usize,
) -> Result<CudaSlice<T>, Error> {
    let device = stream.context().ordinal();
    bind(stream)?;
    if is_capturing(stream)? {
        return Err(Error::Capturing { primitive, what: "run allocates its result; use run_into with a workspace" });
    }
    // SAFETY: plain data, of which every element is written before the buffer reaches the caller.
    let memory = if n == 0 { stream.null() } else { unsafe { stream.alloc(n) } };
    memory.map_err(|e| Error::Driver { call: "cuMemAllocAsync", code: e.0, device })
}

/// Makes the stream's context current.
pub(crate) fn bind(stream: &CudaStream) -> Result<(), Error> {
    let context = stream.context();
    context.bind_to_thread().map_err(|e| Error::Driver {
        call: "cuCtxSetCurrent",
        code: e.0,
        device: context.ordinal(),
    })
}

/// Whether what is put on the stream goes into a graph. The stream's context is current.
pub(crate) fn is_capturing(stream: &CudaStream) -> Result<bool, Error> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is live; the driver writes the status.
    let code = unsafe { cudarc::driver::sys::cuStreamIsCapturing(stream.cu_stream(), &mut status) };
    cuda::check("cuStreamIsCapturing", stream.context().ordinal(), code)?;
    Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
}
