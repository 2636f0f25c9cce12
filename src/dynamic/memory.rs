//! Memory whose item type and place are known at run time.
//!
//! A [`View`] becomes a [`Reading`] once the type is known, and a [`ViewMut`] a [`Writing`]: memory of
//! the place [`Either`], which every static builder takes.

use super::types::with_type;
use super::{Item, Type};
use crate::memory::{
    Buffer, BufferInOut, BufferMut, Sealed, Untyped, UntypedMut, View as StaticView, ViewMut as StaticViewMut,
    allocate_on, part_to_host, zeros_on_host,
};
use crate::site::{AnySite, Site};
use crate::{Destination, Device, Error, Host, Index, Place, Source, Workspace};
use bytemuck::Pod;
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, DeviceSlice, SyncOnDrop};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

// ---- views --------------------------------------------------------------------------------------

/// An input: items of a [`Type`], in host memory or on a device.
///
/// ```
/// use parascan::dynamic::{Type, View};
/// let prices = [0.5_f32, 2.0];
/// let view = View::new(&prices);
/// assert_eq!((view.ty(), view.len()), (Type::F32, 2));
/// ```
#[derive(Clone, Copy)]
pub struct View<'a> {
    ty: Type,
    len: usize,
    memory: Memory<'a>,
}

#[derive(Clone, Copy)]
enum Memory<'a> {
    Host(&'a [u8]),
    Device(OnDevice<'a>),
}

/// A buffer of cudarc's, or an address.
#[derive(Clone, Copy)]
pub(super) enum OnDevice<'a> {
    Buffer(&'a dyn Buffer),
    Raw(CUdeviceptr, &'a Arc<CudaStream>),
}

/// An output: items of a [`Type`], in host memory or on a device.
pub struct ViewMut<'a> {
    ty: Type,
    len: usize,
    memory: MemoryMut<'a>,
}

enum MemoryMut<'a> {
    Host(&'a mut [u8]),
    Device(OnDeviceMut<'a>),
}

pub(super) enum OnDeviceMut<'a> {
    Buffer(&'a mut dyn BufferInOut),
    Raw(CUdeviceptr, &'a Arc<CudaStream>),
}

impl<'a> View<'a> {
    /// The items of a slice, a `Vec` or a buffer of cudarc's.
    pub fn new<T: Item, S: Source<T> + ?Sized>(items: &'a S) -> View<'a> {
        match items.untyped() {
            Untyped::Host(bytes) => {
                View { ty: T::TYPE, len: bytes.len() / size_of::<T>(), memory: Memory::Host(bytes) }
            }
            Untyped::Device(buffer) => {
                View { ty: T::TYPE, len: buffer.length(), memory: Memory::Device(OnDevice::Buffer(buffer)) }
            }
        }
    }

    /// `len` items at an address of host memory, which may be null if there are none.
    ///
    /// # Safety
    /// The items lie in one allocation, at a multiple of the type's size, and are at most `isize::MAX` bytes. During
    /// `'a` they are initialised, and not written.
    pub unsafe fn on_host(ty: Type, items: *const u8, len: usize) -> View<'a> {
        let bytes = match len {
            0 => nothing(),
            // SAFETY: the caller's.
            _ => unsafe { std::slice::from_raw_parts(items, len * ty.size()) },
        };
        View { ty, len, memory: Memory::Host(bytes) }
    }

    /// `len` items at a device address, for calls on `stream`.
    ///
    /// # Safety
    /// That of [`RawSlice::new`](crate::RawSlice::new).
    pub unsafe fn on_device(ty: Type, items: CUdeviceptr, len: usize, stream: &'a Arc<CudaStream>) -> View<'a> {
        View { ty, len, memory: Memory::Device(OnDevice::Raw(items, stream)) }
    }

    /// The type of the items.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The stream of the items, if they are on a device.
    pub fn stream(&self) -> Option<&Arc<CudaStream>> {
        match &self.memory {
            Memory::Host(_) => None,
            Memory::Device(OnDevice::Buffer(buffer)) => Some(buffer.home()),
            Memory::Device(OnDevice::Raw(_, stream)) => Some(stream),
        }
    }

    /// # Errors
    /// [`Error::Place`] unless this lies where the input does: on the host or not.
    pub(super) fn lies(&self, primitive: &'static str, what: &'static str, on_host: bool) -> Result<(), Error> {
        if self.is_on_host() == on_host { Ok(()) } else { Err(Error::Place { primitive, what }) }
    }

    pub(super) fn is_on_host(&self) -> bool {
        matches!(self.memory, Memory::Host(_))
    }

    /// The items as a type of the same size.
    pub(super) fn typed<T: Pod>(self) -> Reading<'a, T> {
        debug_assert_eq!(size_of::<T>(), self.ty.size());
        match self.memory {
            Memory::Host(bytes) => Reading::Host(bytemuck::cast_slice(bytes)),
            Memory::Device(at) => Reading::Device(Tracked { at, len: self.len, items: PhantomData }),
        }
    }
}

impl<'a> ViewMut<'a> {
    /// The items of a slice, a `Vec` or a buffer of cudarc's.
    pub fn new<T, S>(items: &'a mut S) -> ViewMut<'a>
    where
        T: Item,
        S: Source<T> + Destination<T, <S as Source<T>>::Place> + ?Sized,
    {
        match items.untyped_mut() {
            UntypedMut::Host(bytes) => {
                ViewMut { ty: T::TYPE, len: bytes.len() / size_of::<T>(), memory: MemoryMut::Host(bytes) }
            }
            UntypedMut::Device(buffer) => {
                let len = buffer.length();
                ViewMut { ty: T::TYPE, len, memory: MemoryMut::Device(OnDeviceMut::Buffer(buffer)) }
            }
        }
    }

    /// `len` items at an address of host memory, which may be null if there are none.
    ///
    /// # Safety
    /// The items lie in one allocation, at a multiple of the type's size, and are at most `isize::MAX` bytes. During
    /// `'a` they are initialised, and nothing else reads or writes them.
    pub unsafe fn on_host(ty: Type, items: *mut u8, len: usize) -> ViewMut<'a> {
        let bytes = match len {
            0 => nothing_mut(),
            // SAFETY: the caller's.
            _ => unsafe { std::slice::from_raw_parts_mut(items, len * ty.size()) },
        };
        ViewMut { ty, len, memory: MemoryMut::Host(bytes) }
    }

    /// `len` items at a device address, for calls on `stream`.
    ///
    /// # Safety
    /// That of [`RawSlice::new`](crate::RawSlice::new).
    pub unsafe fn on_device(ty: Type, items: CUdeviceptr, len: usize, stream: &'a Arc<CudaStream>) -> ViewMut<'a> {
        ViewMut { ty, len, memory: MemoryMut::Device(OnDeviceMut::Raw(items, stream)) }
    }

    /// The type of the items.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A view of the same items for a shorter lifetime.
    pub fn again(&mut self) -> ViewMut<'_> {
        let memory = match &mut self.memory {
            MemoryMut::Host(bytes) => MemoryMut::Host(bytes),
            MemoryMut::Device(OnDeviceMut::Buffer(buffer)) => MemoryMut::Device(OnDeviceMut::Buffer(*buffer)),
            MemoryMut::Device(OnDeviceMut::Raw(address, stream)) => {
                MemoryMut::Device(OnDeviceMut::Raw(*address, stream))
            }
        };
        ViewMut { ty: self.ty, len: self.len, memory }
    }

    /// # Errors
    /// [`Error::Place`] unless this lies where the input does: on the host or not.
    pub(super) fn lies(&self, primitive: &'static str, what: &'static str, on_host: bool) -> Result<(), Error> {
        if self.is_on_host() == on_host { Ok(()) } else { Err(Error::Place { primitive, what }) }
    }

    pub(super) fn is_on_host(&self) -> bool {
        matches!(self.memory, MemoryMut::Host(_))
    }

    /// # Errors
    /// [`Error::Type`], [`Error::Place`] unless this has the type of the input and lies where it does.
    pub(super) fn like(&self, primitive: &'static str, what: &'static str, input: &View) -> Result<(), Error> {
        input.ty.expect(primitive, what, self.ty)?;
        self.lies(primitive, what, input.is_on_host())
    }

    /// The items as a type of the same size.
    pub(super) fn typed<T: Pod>(self) -> Writing<'a, T> {
        debug_assert_eq!(size_of::<T>(), self.ty.size());
        match self.memory {
            MemoryMut::Host(bytes) => Writing::Host(bytemuck::cast_slice_mut(bytes)),
            MemoryMut::Device(at) => Writing::Device(Tracked { at, len: self.len, items: PhantomData }),
        }
    }
}

/// A `u64` that a call writes: a count or an index.
///
/// # Errors
/// [`Error::Type`], [`Error::Place`].
pub(super) fn counter<'a>(
    primitive: &'static str,
    what: &'static str,
    view: ViewMut<'a>,
    on_host: bool,
) -> Result<Writing<'a, u64>, Error> {
    view.lies(primitive, what, on_host)?;
    match view.ty {
        Type::U64 | Type::I64 => Ok(view.typed()),
        found => Err(Error::Type { primitive, what, expected: "u64", found: found.name() }),
    }
}

/// No bytes, at an address that every type may have.
fn nothing<'a>() -> &'a [u8] {
    bytemuck::cast_slice::<u64, u8>(&[])
}
fn nothing_mut<'a>() -> &'a mut [u8] {
    bytemuck::cast_slice_mut::<u64, u8>(&mut [])
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.memory {
            Memory::Host(bytes) => with_type!(self.ty, T => bytemuck::cast_slice::<u8, T>(bytes).fmt(f)),
            Memory::Device(_) => write!(f, "{} {} on a device", self.len, self.ty),
        }
    }
}
impl fmt::Debug for ViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if matches!(self.memory, MemoryMut::Host(_)) { "host" } else { "device" };
        write!(f, "{} {} on the {place}", self.len, self.ty)
    }
}

// ---- typed views --------------------------------------------------------------------------------

/// The place of memory that is on the host or on the device.
pub(super) enum Either {}

/// A [`View`] with the type of its items.
pub(super) enum Reading<'a, T> {
    Host(&'a [T]),
    Device(Tracked<OnDevice<'a>, T>),
}

/// A [`ViewMut`] with the type of its items.
pub(super) enum Writing<'a, T> {
    Host(&'a mut [T]),
    Device(Tracked<OnDeviceMut<'a>, T>),
}

/// Memory on a device, as a buffer of cudarc's.
pub(super) struct Tracked<A, T> {
    at: A,
    len: usize,
    items: PhantomData<fn() -> T>,
}

impl<T> DeviceSlice<T> for Tracked<OnDevice<'_>, T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<CudaStream> {
        match &self.at {
            OnDevice::Buffer(buffer) => buffer.home(),
            OnDevice::Raw(_, stream) => stream,
        }
    }
}
impl<T> DevicePtr<T> for Tracked<OnDevice<'_>, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match &self.at {
            OnDevice::Buffer(buffer) => buffer.address(stream),
            OnDevice::Raw(address, _) => (*address, SyncOnDrop::Record(None)),
        }
    }
}
impl<T> DeviceSlice<T> for Tracked<OnDeviceMut<'_>, T> {
    fn len(&self) -> usize {
        self.len
    }
    fn stream(&self) -> &Arc<CudaStream> {
        match &self.at {
            OnDeviceMut::Buffer(buffer) => Buffer::home(*buffer),
            OnDeviceMut::Raw(_, stream) => stream,
        }
    }
}
impl<T> DevicePtr<T> for Tracked<OnDeviceMut<'_>, T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match &self.at {
            OnDeviceMut::Buffer(buffer) => Buffer::address(*buffer, stream),
            OnDeviceMut::Raw(address, _) => (*address, SyncOnDrop::Record(None)),
        }
    }
}
impl<T> DevicePtrMut<T> for Tracked<OnDeviceMut<'_>, T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        match &mut self.at {
            OnDeviceMut::Buffer(buffer) => BufferMut::address(*buffer, stream),
            OnDeviceMut::Raw(address, _) => (*address, SyncOnDrop::Record(None)),
        }
    }
}

impl<T> Sealed for Reading<'_, T> {}
impl<T> Sealed for Writing<'_, T> {}

impl<A, T> Buffer for Tracked<A, T>
where
    Self: DevicePtr<T>,
{
    fn home(&self) -> &Arc<CudaStream> {
        self.stream()
    }
    fn length(&self) -> usize {
        self.len
    }
    fn address<'a>(&'a self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device_ptr(stream)
    }
}
impl<T> BufferMut for Tracked<OnDeviceMut<'_>, T> {
    fn home(&self) -> &Arc<CudaStream> {
        self.stream()
    }
    fn capacity(&self) -> usize {
        self.len
    }
    fn address<'a>(&'a mut self, stream: &'a CudaStream) -> (CUdeviceptr, SyncOnDrop<'a>) {
        self.device_ptr_mut(stream)
    }
}

impl<T> Reading<'_, T> {
    /// The buffer, of memory on a device.
    pub(super) fn buffer(&self) -> &dyn Buffer {
        match self {
            Reading::Device(memory) => memory,
            Reading::Host(_) => unreachable!("the places were compared"),
        }
    }
}

macro_rules! either {
    ($($memory:ident)*) => { $(
        impl<T: Pod + DeviceRepr> Source<T> for $memory<'_, T> {
            type Place = Either;
            type Owned = OnEither<T>;
            fn view(&self) -> StaticView<'_, T> {
                match self {
                    $memory::Host(items) => StaticView::Host(items),
                    $memory::Device(memory) => StaticView::Device(memory),
                }
            }
            fn allocate(&self, primitive: &'static str, n: usize, on: Option<&Arc<CudaStream>>) -> Result<OnEither<T>, Error> {
                OnEither::new(primitive, n, match self {
                    $memory::Host(_) => None,
                    $memory::Device(memory) => Some(on.unwrap_or(memory.stream())),
                })
            }
            fn view_owned(owned: &mut OnEither<T>) -> StaticViewMut<'_, T> {
                owned.view_mut()
            }
            fn shorten(primitive: &'static str, owned: OnEither<T>, n: usize) -> Result<OnEither<T>, Error> {
                owned.shorten(primitive, n)
            }
            fn untyped(&self) -> Untyped<'_> {
                match self {
                    $memory::Host(items) => Untyped::Host(bytemuck::cast_slice(items)),
                    $memory::Device(memory) => Untyped::Device(memory),
                }
            }
        }
    )* };
}
either! { Reading Writing }

impl<T: Pod> Destination<T, Either> for Writing<'_, T> {
    fn view_mut(&mut self) -> StaticViewMut<'_, T> {
        match self {
            Writing::Host(items) => StaticViewMut::Host(items),
            Writing::Device(memory) => StaticViewMut::Device(memory),
        }
    }
    fn untyped_mut(&mut self) -> UntypedMut<'_> {
        match self {
            Writing::Host(items) => UntypedMut::Host(bytemuck::cast_slice_mut(items)),
            Writing::Device(memory) => UntypedMut::Device(memory),
        }
    }
}

// ---- new memory ---------------------------------------------------------------------------------

/// New memory on the host or on a device.
pub(super) enum OnEither<T> {
    Host(Vec<T>),
    Device(CudaSlice<T>),
}

impl<T: Pod + DeviceRepr> OnEither<T> {
    /// Memory on the stream's device, or on the host. On the device it is not initialised.
    fn new(primitive: &'static str, n: usize, stream: Option<&Arc<CudaStream>>) -> Result<Self, Error> {
        match stream {
            None => zeros_on_host(primitive, n).map(OnEither::Host),
            Some(stream) => allocate_on(primitive, stream, n).map(OnEither::Device),
        }
    }
    fn view_mut(&mut self) -> StaticViewMut<'_, T> {
        match self {
            OnEither::Host(items) => StaticViewMut::Host(items),
            OnEither::Device(items) => StaticViewMut::Device(items),
        }
    }
    fn shorten(self, primitive: &'static str, n: usize) -> Result<Self, Error> {
        match self {
            OnEither::Host(items) => <Vec<T> as Source<T>>::shorten(primitive, items, n).map(OnEither::Host),
            OnEither::Device(items) => <CudaSlice<T> as Source<T>>::shorten(primitive, items, n).map(OnEither::Device),
        }
    }
}

impl Sealed for Either {}
impl Place for Either {
    type Indices<I: Index> = OnEither<I>;
    const ON_HOST: bool = true;
    const ON_DEVICE: bool = true;
    fn allocate<I: Index>(
        primitive: &'static str,
        n: usize,
        on: Option<&Arc<CudaStream>>,
    ) -> Result<OnEither<I>, Error> {
        OnEither::new(primitive, n, on)
    }
    fn view_mut<I: Index>(memory: &mut OnEither<I>) -> StaticViewMut<'_, I> {
        memory.view_mut()
    }
    fn shorten<I: Index>(primitive: &'static str, memory: OnEither<I>, n: usize) -> Result<OnEither<I>, Error> {
        memory.shorten(primitive, n)
    }
    fn read<const N: usize>(memory: &OnEither<u64>) -> Result<[usize; N], Error> {
        match memory {
            OnEither::Host(items) => Host::read(items),
            OnEither::Device(items) => Device::read(items),
        }
    }
}

/// Items of a [`Type`] in memory of their own: a `Vec` or a `CudaSlice`.
pub struct Array(Box<dyn Items>);

/// The items of an array, whose type is hidden.
trait Items: Any + Send + Sync {
    fn view(&self) -> View<'_>;
    fn view_mut(&mut self) -> ViewMut<'_>;
    fn shorten(self: Box<Self>, primitive: &'static str, n: usize) -> Result<Array, Error>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Item> Items for OnEither<T> {
    fn view(&self) -> View<'_> {
        match self {
            OnEither::Host(items) => View::new(items),
            OnEither::Device(items) => View::new(items),
        }
    }
    fn view_mut(&mut self) -> ViewMut<'_> {
        match self {
            OnEither::Host(items) => ViewMut::new(items),
            OnEither::Device(items) => ViewMut::new(items),
        }
    }
    fn shorten(self: Box<Self>, primitive: &'static str, n: usize) -> Result<Array, Error> {
        (*self).shorten(primitive, n).map(Array::from_items)
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Array {
    pub(super) fn from_items<T: Item>(items: OnEither<T>) -> Array {
        Array(Box::new(items))
    }

    /// New memory for `n` items where the input lies. On a device it is not initialised, and comes from
    /// the stream-ordered pool of `on`, else of the input's stream.
    pub(super) fn beside(
        primitive: &'static str,
        ty: Type,
        n: usize,
        input: &View,
        on: Option<&Arc<CudaStream>>,
    ) -> Result<Array, Error> {
        let stream = input.stream().map(|stream| on.unwrap_or(stream));
        with_type!(ty, T => OnEither::<T>::new(primitive, n, stream).map(Array::from_items))
    }

    /// The first `n` items only.
    pub(super) fn shorten(self, primitive: &'static str, n: usize) -> Result<Array, Error> {
        self.0.shorten(primitive, n)
    }

    /// The first item of an array of counts, in the order of its stream. Waits for it.
    pub(super) fn count(&self) -> Result<usize, Error> {
        match self.view().typed::<u64>() {
            Reading::Host(items) => Ok(items[0] as usize),
            Reading::Device(memory) => Ok(part_to_host(memory.stream(), &memory, 0, 1)?[0] as usize),
        }
    }

    /// The items, to read.
    pub fn view(&self) -> View<'_> {
        self.0.view()
    }

    /// The items, to write.
    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.0.view_mut()
    }

    /// The address of the first item, of host or device memory, for writes too.
    #[cfg(feature = "dlpack")]
    pub(crate) fn address(&mut self) -> *mut std::ffi::c_void {
        match self.view_mut().memory {
            MemoryMut::Host(bytes) => bytes.as_mut_ptr().cast(),
            MemoryMut::Device(OnDeviceMut::Buffer(buffer)) => {
                let stream = Buffer::home(buffer).clone();
                BufferMut::address(buffer, &stream).0 as usize as _
            }
            MemoryMut::Device(OnDeviceMut::Raw(..)) => unreachable!("an array owns its buffer"),
        }
    }

    /// The type of the items.
    pub fn ty(&self) -> Type {
        self.view().ty
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.view().len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items of an array of `T` on the host.
    ///
    /// # Errors
    /// The array itself, if its items have another type or lie on a device.
    pub fn into_vec<T: Item>(self) -> Result<Vec<T>, Array> {
        match self.into_items()? {
            OnEither::Host(items) => Ok(items),
            items => Err(Array::from_items(items)),
        }
    }

    /// The buffer of an array of `T` on a device.
    ///
    /// # Errors
    /// The array itself, if its items have another type or lie on the host.
    pub fn into_cuda_slice<T: Item>(self) -> Result<CudaSlice<T>, Array> {
        match self.into_items()? {
            OnEither::Device(items) => Ok(items),
            items => Err(Array::from_items(items)),
        }
    }

    fn into_items<T: Item>(self) -> Result<OnEither<T>, Array> {
        if (*self.0).type_id() != std::any::TypeId::of::<OnEither<T>>() {
            return Err(self);
        }
        Ok(*self.0.into_any().downcast().expect("the type was compared"))
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

// ---- sites --------------------------------------------------------------------------------------

/// The site of a builder, which is known at run time.
#[derive(Debug, Default)]
pub(super) enum Where<'a> {
    #[default]
    Anywhere,
    On(&'a Arc<CudaStream>),
    With(&'a mut Workspace),
}

impl Where<'_> {
    pub(super) fn stream(&self) -> Option<&Arc<CudaStream>> {
        Site::<Either>::stream(self)
    }
}

impl AnySite for Where<'_> {}
impl Site<Either> for Where<'_> {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        match self {
            Where::Anywhere => None,
            Where::On(stream) => Some(stream),
            Where::With(workspace) => Some(workspace.stream()),
        }
    }
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        match self {
            Where::With(workspace) => Some(workspace),
            _ => None,
        }
    }
}

/// Writes the options `on` and `workspace` of a builder, whose site is in its field `site`.
macro_rules! site_methods {
    ($builder:ident) => {
        impl<'a> $builder<'a> {
            /// Runs on this stream, instead of the stream of the input. On host data it changes nothing.
            pub fn on(mut self, stream: &'a ::std::sync::Arc<$crate::cudarc::driver::CudaStream>) -> Self {
                self.site = $crate::dynamic::memory::Where::On(stream);
                self
            }

            /// Runs on the workspace's stream, with its scratch memory. On host data it changes nothing.
            pub fn workspace(mut self, workspace: &'a mut $crate::Workspace) -> Self {
                self.site = $crate::dynamic::memory::Where::With(workspace);
                self
            }
        }
    };
}
pub(super) use site_methods;
