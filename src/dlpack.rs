//! DLPack: tensors of other libraries in, arrays of this one out, without a copy.
//!
//! A [`Tensor`] holds another library's tensor, whose items are a [`View`] for the calls of
//! [`dynamic`](crate::dynamic). [`export`] gives an [`Array`] away. Both take the old layout,
//! [`legacy`], and the versioned one, [`versioned`], which says whether a tensor may be written.
//!
//! | tensor | here |
//! |---|---|
//! | float 16, 32, 64; bfloat 16 | [`Type::F16`], `F32`, `F64`, `Bf16` |
//! | int and uint 8 to 64 | `I8` to `I64`, `U8` to `U64` |
//! | bool | `U8`; not exported |
//! | on the CPU, or in pinned memory | host memory |
//! | on a CUDA device, or in managed memory | memory of the device |
//!
//! Items are contiguous, in row-major order.
//!
//! # Streams
//! A tensor does not say on which stream it is ready. By the rule of the Python array API the consumer
//! names a stream, and the producer orders its work before it. So [`Tensor::import`] takes the stream
//! that was named to the producer, and [`export_to`] the number by which a consumer names one.
//!
//! # Example
//! ```
//! use parascan::dlpack::{self, Tensor, versioned};
//! use parascan::dynamic::{Array, Op, scan};
//!
//! // Another library's tensor, of two rows of three.
//! let array = Array::from(vec![1_i32, 2, 3, 10, 20, 30]);
//! let foreign: versioned::Dlpack = dlpack::export(array, &[2, 3], None)?;
//!
//! // SAFETY: the tensor is a live one, and nothing else writes it.
//! let tensor = unsafe { Tensor::import(foreign, None)? };
//! let totals = scan(Op::Sum).rows(3).run(tensor.view())?;
//! let given: versioned::Dlpack = dlpack::export(totals, tensor.shape(), None)?;
//! assert_eq!(unsafe { given.validate().unwrap().cpu_slice::<i32>().unwrap() }, [1, 3, 6, 10, 30, 60]);
//! # Ok::<(), parascan::Error>(())
//! ```

use crate::Error;
use crate::cuda::Current;
use crate::dynamic::{Array, Type, View, ViewMut};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;
pub use dlpark;
use dlpark::DlpackFlags;
use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType};
use dlpark::metadata::Dynamic;
pub use dlpark::{Managed, ManagedTensorBase, legacy, versioned};
use std::fmt::{self, Display};
use std::sync::Arc;

const NAME: &str = "dlpack";

fn refused(reason: impl Display) -> Error {
    Error::Tensor { reason: reason.to_string() }
}

// ---- in -----------------------------------------------------------------------------------------

/// A tensor of another library, whose items are contiguous and of a [`Type`]. Dropping it gives it
/// back.
///
/// On a device the other library frees the memory in an order of its own, which the protocol leaves
/// open: see [`import`](Tensor::import).
pub struct Tensor<M: ManagedTensorBase> {
    tensor: Managed<M>,
    ty: Type,
    /// Whether the items are booleans, which are read as `u8`.
    are_bools: bool,
    /// The address of the first item.
    items: *mut u8,
    len: usize,
    shape: Vec<usize>,
    /// The stream of the items, if they are on a device.
    stream: Option<Arc<CudaStream>>,
}

// SAFETY: the pointer is to memory that the tensor owns, and a tensor may go to any thread.
unsafe impl<M: ManagedTensorBase> Send for Tensor<M> {}
// SAFETY: as above; a shared reference only reads.
unsafe impl<M: ManagedTensorBase> Sync for Tensor<M> {}

impl<M: ManagedTensorBase> Tensor<M> {
    /// Takes a tensor of another library. Copies nothing and does not wait.
    ///
    /// `stream` is the one that was named to the producer, on which the tensor is ready.
    ///
    /// # Errors
    /// [`Error::Tensor`] for a type or a device that is not in the [table](crate::dlpack), items that
    /// are not contiguous or not aligned, a tensor on a device without `stream`, and a descriptor that is
    /// not valid. [`Error::WrongDevice`] if the stream is of another device.
    ///
    /// # Safety
    /// - The tensor is one of a producer that keeps the protocol: its items lie where it says.
    /// - Its items are initialised. Nothing writes them while a [`view`](Tensor::view) is used, and
    ///   nothing accesses them while a [`view_mut`](Tensor::view_mut) is.
    /// - Calls with the items of a tensor on a device run on `stream`, or on one that waits for it. The tensor
    ///   is dropped when they are done, unless its producer works on the same stream.
    pub unsafe fn import(tensor: Managed<M>, stream: Option<&Arc<CudaStream>>) -> Result<Tensor<M>, Error> {
        let valid = tensor.validate().map_err(refused)?;
        let (ty, device) = (type_of(valid.dtype())?, valid.device());
        let are_bools = valid.dtype() == BOOL;
        let stream = match device.device_type {
            DLDeviceType::CPU | DLDeviceType::CUDAHOST => None,
            DLDeviceType::CUDA | DLDeviceType::CUDAMANAGED => {
                let stream = stream.ok_or_else(|| refused("the tensor lies on a device, and no stream was given"))?;
                let (found, expected) = (device.device_id, stream.context().ordinal());
                // Managed memory belongs to no device.
                if device.device_type == DLDeviceType::CUDA && found as usize != expected {
                    let found = found as usize;
                    return Err(Error::WrongDevice { primitive: NAME, what: "the tensor", found, expected });
                }
                Some(stream.clone())
            }
            DLDeviceType(other) => {
                return Err(refused(format_args!("the tensor lies on a device of the type {other}")));
            }
        };
        if let Some(strides) = valid.strides().filter(|strides| !are_contiguous(valid.shape(), strides)) {
            let shape = valid.shape();
            return Err(refused(format_args!(
                "the items are not contiguous: the strides are {strides:?} and the shape is {shape:?}"
            )));
        }
        let shape: Vec<usize> = valid.shape().iter().map(|&size| size as usize).collect();
        let len = valid.num_elements();
        let items = match len {
            0 => std::ptr::null_mut(),
            // SAFETY: the producer's, by the caller.
            _ => unsafe { valid.offset_bytes_ptr() }.map_err(refused)?.cast_mut(),
        };
        if !items.addr().is_multiple_of(ty.size()) {
            return Err(refused(format_args!("the items, of {ty}, are at {items:?}")));
        }
        Ok(Tensor { tensor, ty, are_bools, items, len, shape, stream })
    }

    /// The items, to read.
    pub fn view(&self) -> View<'_> {
        // SAFETY: the tensor has `len` items there, aligned, and keeps them while it lives. They are
        // initialised and not written, by `import`.
        unsafe {
            match &self.stream {
                None => View::on_host(self.ty, self.items, self.len),
                Some(stream) => View::on_device(self.ty, self.items.addr() as u64, self.len, stream),
            }
        }
    }

    /// The items, to write.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the tensor may only be read, and for booleans, since not every byte is
    /// one.
    pub fn view_mut(&mut self) -> Result<ViewMut<'_>, Error> {
        if self.tensor.flags().contains(DlpackFlags::READ_ONLY) {
            return Err(refused("the tensor may only be read"));
        }
        if self.are_bools {
            return Err(refused("booleans may only be read"));
        }
        // SAFETY: as for `view`; nothing else accesses them, by `import`.
        Ok(unsafe {
            match &self.stream {
                None => ViewMut::on_host(self.ty, self.items, self.len),
                Some(stream) => ViewMut::on_device(self.ty, self.items.addr() as u64, self.len, stream),
            }
        })
    }

    /// The number of items along each axis, the last one contiguous.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl<M: ManagedTensorBase> fmt::Debug for Tensor<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.stream.is_some() { "a device" } else { "the host" };
        write!(f, "{:?} {} on {place}", self.shape, self.ty)
    }
}

/// Whether items lie one after the other in row-major order. The strides of axes of one item say nothing.
fn are_contiguous(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            expected *= size;
            fits
        })
}

const BOOL: DLDataType = DLDataType::scalar(DLDataTypeCode::BOOL, 8);

/// # Errors
/// [`Error::Tensor`].
fn type_of(dtype: DLDataType) -> Result<Type, Error> {
    if dtype == BOOL {
        return Ok(Type::U8);
    }
    let found = Type::ALL.into_iter().find(|&ty| dtype_of(ty) == dtype);
    found.ok_or_else(|| {
        let DLDataType { code: DLDataTypeCode(code), bits, lanes } = dtype;
        refused(format_args!("the items have the type code {code}, {bits} bits and {lanes} lanes"))
    })
}

fn dtype_of(ty: Type) -> DLDataType {
    let code = match ty {
        Type::F16 | Type::F32 | Type::F64 => DLDataTypeCode::FLOAT,
        Type::Bf16 => DLDataTypeCode::BFLOAT,
        Type::I8 | Type::I16 | Type::I32 | Type::I64 => DLDataTypeCode::INT,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => DLDataTypeCode::UINT,
    };
    DLDataType::scalar(code, 8 * ty.size() as u8)
}

// ---- out ----------------------------------------------------------------------------------------

/// The handle of the default stream of each thread.
const PER_THREAD: usize = 2;

/// What comes before the memory of an exported tensor is freed, beside the work on the array's own stream.
enum Before {
    /// The work that is on this stream then.
    Stream(Arc<CudaStream>),
    /// All work of the device.
    Device,
    Nothing,
}

/// What an exported tensor owns.
struct Exported {
    array: Option<Array>,
    before: Before,
}

impl Drop for Exported {
    /// Frees memory of a device with its context current, in which the driver looks up default streams.
    fn drop(&mut self) {
        let Some(stream) = self.array.as_ref().and_then(|array| array.view().stream().cloned()) else { return };
        let current = Current::enter(&stream);
        let is_ordered = match &self.before {
            _ if current.is_err() => false,
            Before::Stream(consumer) => stream == *consumer || stream.join(consumer).is_ok(),
            Before::Device => stream.context().synchronize().is_ok(),
            Before::Nothing => true,
        };
        let array = self.array.take();
        if is_ordered {
            drop(array);
        } else {
            std::mem::forget(array); // It may be in use: better that it stays.
        }
        // Before `current`, as the last owner of a stream leaves its context current.
        self.before = Before::Nothing;
        drop(stream);
    }
}

/// Gives an array away as a tensor of this shape, contiguous in row-major order. Copies nothing and
/// does not wait.
///
/// `M` is the layout: `Managed<M>` is [`versioned::Dlpack`] or [`legacy::Dlpack`]. Work that is put
/// on `consumer` after this finds the items ready, and the memory is freed in the order of that
/// stream. Without a stream the consumer works on the array's own stream, or orders its work
/// itself. The default stream of a thread is another one on each thread: with it the memory is freed when all work of
/// the device has ended, and dropping the tensor waits for that.
///
/// # Errors
/// [`Error::Tensor`] if the shape has another number of items or cannot be described; [`Error::WrongDevice`] if
/// the consumer's stream is of another device; [`Error::Driver`]. The array is freed then.
pub fn export<M: ManagedTensorBase>(
    array: Array,
    shape: &[usize],
    consumer: Option<&Arc<CudaStream>>,
) -> Result<Managed<M>, Error> {
    let before = match consumer.or(array.view().stream()) {
        Some(stream) if stream.cu_stream().addr() == PER_THREAD => Before::Device,
        _ => consumer.map_or(Before::Nothing, |consumer| Before::Stream(consumer.clone())),
    };
    export_before(array, shape, consumer, before)
}

/// The same for a consumer that names its stream by the number of `__dlpack__(stream=...)`.
///
/// By the rule of the Python array API `None` and 1 are the legacy default stream, 2 is the default
/// stream of the thread, greater numbers are the handle of a stream, -1 asks for no order, and 0 is
/// ambiguous. An array in host memory has no stream, and takes any number.
///
/// A stream that is not the legacy default one may end before the tensor does, and with -1 none is named. Then the
/// memory is freed when all work of the device has ended, and dropping the tensor waits for that.
///
/// # Errors
/// Those of [`export`]; [`Error::Tensor`] also for 0 and for numbers below -1.
///
/// # Safety
/// A handle is that of a live stream of the array's context.
pub unsafe fn export_to<M: ManagedTensorBase>(
    array: Array,
    shape: &[usize],
    number: Option<isize>,
) -> Result<Managed<M>, Error> {
    let Some(stream) = array.view().stream().cloned() else {
        return export(array, shape, None);
    };
    // SAFETY: a live stream, by the caller. The driver takes 1 and 2 for the default streams.
    let stream_of = |number: isize| unsafe { stream.context().wrap_borrowed_stream(number as CUstream) };
    match number {
        Some(-1) => export_before(array, shape, None, Before::Device),
        Some(number @ ..=0) => Err(refused(format_args!("{number} is not a stream of a CUDA device"))),
        None | Some(1) => export(array, shape, Some(&stream_of(1))),
        Some(number) => export_before(array, shape, Some(&stream_of(number)), Before::Device),
    }
}

fn export_before<M: ManagedTensorBase>(
    array: Array,
    shape: &[usize],
    consumer: Option<&Arc<CudaStream>>,
    before: Before,
) -> Result<Managed<M>, Error> {
    let _current = array.view().stream().map(|stream| Current::enter(stream)).transpose()?;
    let mut array = array; // an array that is dropped here is freed in its own context
    let (ty, len) = (array.ty(), array.len());
    let items = shape.iter().try_fold(1_usize, |items, &size| items.checked_mul(size));
    if items != Some(len) {
        return Err(refused(format_args!("the shape is {shape:?}, and the array has {len} items")));
    }
    // First: it makes the array's stream wait for uses on other streams.
    let address = array.address();
    let data = if len == 0 { std::ptr::null_mut() } else { address };
    let device = match array.view().stream() {
        None => DLDevice::CPU,
        Some(stream) => {
            let found = stream.context().ordinal();
            if let Some(consumer) = consumer {
                let expected = consumer.context().ordinal();
                if found != expected {
                    return Err(Error::WrongDevice { primitive: NAME, what: "the array", found, expected });
                }
                let joined = if consumer == stream { Ok(()) } else { consumer.join(stream) };
                joined.map_err(|e| Error::Driver { call: "cuStreamWaitEvent", code: e.0, device: found })?;
            }
            DLDevice::cuda(found as i32)
        }
    };
    let owned = Box::new(Exported { array: Some(array), before });
    let mut tensor = Dynamic::compact(shape).initialize_as::<M>(owned).map_err(refused)?;
    tensor.set_data(data).set_dtype(dtype_of(ty)).set_device(device);
    // SAFETY: the tensor owns the array, whose items these are, by type, length and device.
    Ok(unsafe { tensor.finish() })
}
