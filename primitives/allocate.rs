//! Allocation: one buffer for segments of many sizes.

use super::arguments::Index;
use super::offsets::{Offsets, Size, counted};
use crate::memory::{View, room_on_host, zeros_on_host};
use crate::site::{Site, counted_here};
use crate::{Device, Error, Host, Place, Source, cpu};
use bytemuck::Pod;
use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DeviceRepr};
use std::sync::Arc;

const NAME: &str = "allocate";

/// Host or device memory that can hold `T`.
pub trait Holds<T>: Place {
    /// `Vec<T>` or `CudaSlice<T>`.
    type Memory;
    #[doc(hidden)]
    fn zeroed(n: usize, on: Option<&Arc<CudaStream>>) -> Result<Self::Memory, Error>;
    #[doc(hidden)]
    fn copy_of(memory: View<'_, T>, n: usize, on: Option<&Arc<CudaStream>>) -> Result<Self::Memory, Error>;
}
impl<T: Pod> Holds<T> for Host {
    type Memory = Vec<T>;
    fn zeroed(n: usize, _: Option<&Arc<CudaStream>>) -> Result<Vec<T>, Error> {
        zeros_on_host(NAME, n)
    }
    fn copy_of(memory: View<'_, T>, n: usize, _: Option<&Arc<CudaStream>>) -> Result<Vec<T>, Error> {
        let mut copy = room_on_host(NAME, n)?;
        copy.extend_from_slice(&memory.host()[..n]);
        Ok(copy)
    }
}
impl<T: Pod + DeviceRepr> Holds<T> for Device {
    type Memory = CudaSlice<T>;
    fn zeroed(n: usize, on: Option<&Arc<CudaStream>>) -> Result<CudaSlice<T>, Error> {
        let mut memory = crate::memory::allocate_on(NAME, on.expect("data on the device has a stream"), n)?;
        crate::memory::zero(&mut memory)?;
        Ok(memory)
    }
    fn copy_of(memory: View<'_, T>, n: usize, on: Option<&Arc<CudaStream>>) -> Result<CudaSlice<T>, Error> {
        crate::memory::copy_on(NAME, on.expect("data on the device has a stream"), memory.device(), n)
    }
}

/// One buffer of items `T`, divided into a segment for each size. Made by [`Offsets::allocate`].
///
/// The sizes are of type `S`, and segment i begins at offset i, of type `O`. All items are zero at
/// first. [`slices`](Allocation::slices) on the host and [`views`](Allocation::views) on the device
/// give each segment as a slice of its own.
///
/// # Example
/// ```
/// use parascan::offsets;
///
/// let mut lists = offsets::<u8, u32>().allocate::<f32, _>(&[2, 0, 1])?;
/// assert_eq!(lists.starts(), &[0, 2, 2, 3]);
/// lists.buffer_mut().copy_from_slice(&[0.5, 1.5, 2.5]);
/// assert_eq!(lists.slices().last().unwrap(), [2.5]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub struct Allocation<T, S: Size, O: Index, P: Holds<T> + Holds<S>> {
    buffer: <P as Holds<T>>::Memory,
    sizes: <P as Holds<S>>::Memory,
    starts: P::Indices<O>,
}

impl<S: Size, O: Index, W> Offsets<S, O, W> {
    /// Allocates one buffer of items `T` for segments of these sizes, all zero.
    ///
    /// Beside the offsets the call copies the sizes, and zeros the buffer. On the device it waits
    /// for the total, and with [`len`](Self::len) for the number of sizes first.
    ///
    /// # Errors
    /// [`Error::Align`], [`Error::Overflow`], [`Error::OutOfMemory`], and those of
    /// [`run`](Offsets::run).
    ///
    /// # Example
    /// ```
    /// use parascan::offsets;
    ///
    /// let names = ["Ada", "", "Grace"];
    /// let lengths = names.map(|name| name.len() as u32);
    /// let mut space = offsets::<u32, u32>().align(4).allocate::<u8, _>(&lengths)?;
    /// for (segment, name) in space.slices().zip(names) {
    ///     segment.copy_from_slice(name.as_bytes()); // of the name's length, disjoint from the others
    /// }
    /// let (buffer, starts) = space.into_parts();
    /// assert_eq!((&buffer[..], &starts[..]), (&b"Ada\0Grace\0\0\0"[..], &[0, 4, 4, 12][..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn allocate<T, X>(mut self, sizes: &X) -> Result<Allocation<T, S, O, X::Place>, Error>
    where
        X: Source<S> + ?Sized,
        X::Place: Holds<T> + Holds<S>,
        W: Site<X::Place>,
    {
        self.with_total = true;
        let view = sizes.view();
        let stream = view.stream(self.site.stream());
        let n = counted_here(NAME, self.site.count(), view.len(), stream.as_ref())?;
        let mut starts = X::Place::allocate::<O>(NAME, view.len() + 1, stream.as_ref())?;
        let mut total = X::Place::allocate::<u64>(NAME, 1, stream.as_ref())?;
        self.dispatch_as::<X::Place>(NAME, view, X::Place::view_mut(&mut starts), X::Place::view_mut(&mut total))?;
        let starts = X::Place::shorten(NAME, starts, n + 1)?;
        let sizes = <X::Place as Holds<S>>::copy_of(view, n, stream.as_ref())?;
        let total = counted::<O>(NAME, X::Place::read::<1>(&total)?[0], X::Place::ON_DEVICE)?;
        Ok(Allocation { buffer: <X::Place as Holds<T>>::zeroed(total, stream.as_ref())?, sizes, starts })
    }
}

impl<T, S: Size, O: Index, P: Holds<T> + Holds<S>> Allocation<T, S, O, P> {
    /// The whole buffer.
    pub fn buffer(&self) -> &<P as Holds<T>>::Memory {
        &self.buffer
    }
    /// The offset of each segment, then the total.
    pub fn starts(&self) -> &P::Indices<O> {
        &self.starts
    }
    /// The whole buffer, and the offsets with the total.
    pub fn into_parts(self) -> (<P as Holds<T>>::Memory, P::Indices<O>) {
        (self.buffer, self.starts)
    }
}

impl<T: Pod, S: Size, O: Index> Allocation<T, S, O, Host> {
    /// The whole buffer, to write to. Its length cannot change.
    ///
    /// ```compile_fail,E0599
    /// let mut space = parascan::offsets::<u32, u32>().allocate::<u8, _>(&[3, 4])?;
    /// space.buffer_mut().fill(1);
    /// space.buffer_mut().clear();
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn buffer_mut(&mut self) -> &mut [T] {
        &mut self.buffer
    }

    /// The segments in order, each as long as its size.
    pub fn slices(&mut self) -> impl ExactSizeIterator<Item = &mut [T]> {
        let (mut rest, mut at) = (&mut self.buffer[..], 0);
        self.starts.iter().zip(&self.sizes).map(move |(&start, &size)| {
            let (start, size) = (cpu::Size::widen(start) as usize, cpu::Size::widen(size) as usize);
            let (part, after) = std::mem::take(&mut rest)[start - at..].split_at_mut(size);
            (rest, at) = (after, start + size);
            part
        })
    }
}

impl<T: Pod + DeviceRepr, S: Size + DeviceRepr, O: Index> Allocation<T, S, O, Device> {
    /// The whole buffer, to write to. Its length cannot change.
    pub fn buffer_mut(&mut self) -> CudaViewMut<'_, T> {
        self.buffer.as_view_mut()
    }

    /// The segments in order, each as long as its size.
    ///
    /// Copies sizes and offsets to the host, and waits for that.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::OutOfMemory`].
    pub fn views(&mut self) -> Result<Vec<CudaViewMut<'_, T>>, Error> {
        let stream = self.starts.stream().clone();
        let starts = crate::memory::to_host(&stream, &self.starts)?;
        let sizes = crate::memory::to_host(&stream, &self.sizes)?;
        let (mut rest, mut at) = (self.buffer.as_view_mut(), 0);
        let mut parts = room_on_host(NAME, sizes.len())?;
        for (&start, &size) in starts.iter().zip(&sizes) {
            let (start, size) = (cpu::Size::widen(start) as usize, cpu::Size::widen(size) as usize);
            let (_, after) = split(rest, start - at);
            let (part, rest_of_it) = split(after, size);
            parts.push(part);
            (rest, at) = (rest_of_it, start + size);
        }
        Ok(parts)
    }
}

/// Splits a view in two that live as long as the whole.
fn split<T>(mut memory: CudaViewMut<'_, T>, at: usize) -> (CudaViewMut<'_, T>, CudaViewMut<'_, T>) {
    let (front, back) = memory.split_at_mut(at);
    // SAFETY: the halves are disjoint and borrow only the memory of `memory`, which ends here.
    unsafe { std::mem::transmute((front, back)) }
}
