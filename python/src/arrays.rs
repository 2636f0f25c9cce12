//! Arrays as addresses, and the arrays of libraries that are reached by DLPack alone.

use crate::failed;
use crate::site::Site;
use dlpark::ffi::DLDeviceType;
use dlpark::python::ImportedDlpack;
use half::{bf16, f16};
use parascan::Error;
use parascan::cuda::Current;
use parascan::cudarc::driver::{CudaStream, DevicePtr};
use parascan::dlpack::{self, legacy, versioned};
use parascan::dynamic::{Array, Type, Value, View, ViewMut};
use pyo3::Borrowed;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::any::Any;
use std::sync::Arc;

/// `with_type!(ty, T => e)` is `e` with `T` the type.
macro_rules! with_type {
    ($type:expr, $T:ident => $e:expr) => {
        with_type!(@ $type, $T => $e; F32 f32, F64 f64, F16 half::f16, Bf16 half::bf16, I8 i8, I16 i16, I32 i32,
            I64 i64, U8 u8, U16 u16, U32 u32, U64 u64)
    };
    (@ $type:expr, $T:ident => $e:expr; $($variant:ident $t:ty),*) => {
        match $type { $(parascan::dynamic::Type::$variant => { type $T = $t; $e })* }
    };
}
pub(crate) use with_type;

/// Contiguous items: the address, their number, and the index of their type in `TYPES`.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(usize, usize, usize);

impl FromPyObject<'_, '_> for Buffer {
    type Error = PyErr;

    fn extract(buffer: Borrowed<'_, '_, PyAny>) -> PyResult<Buffer> {
        let (address, len, ty) = buffer.extract()?;
        let buffer = Buffer(address, len, ty);
        if len > 0 && !address.is_multiple_of(buffer.ty().size()) {
            return Err(PyValueError::new_err("the items do not lie at multiples of their size"));
        }
        Ok(buffer)
    }
}

impl Buffer {
    pub(crate) fn ty(self) -> Type {
        Type::ALL[self.2]
    }

    pub(crate) fn len(self) -> usize {
        self.1
    }

    pub(crate) fn address(self) -> usize {
        self.0
    }

    /// # Safety
    /// The items are initialised and lie where the site does. During `'a`, and until the site's stream is
    /// past the call, they stay there and are not written.
    pub(crate) unsafe fn view(self, site: &Site) -> View<'_> {
        // SAFETY: the caller's. Items lie at multiples of their size: `extract` has looked.
        unsafe {
            match site.stream() {
                None => View::on_host(self.ty(), self.0 as *const u8, self.1),
                Some(stream) => View::on_device(self.ty(), self.0 as u64, self.1, stream),
            }
        }
    }

    /// # Safety
    /// As for [`view`](Buffer::view); nothing else reads or writes the items.
    pub(crate) unsafe fn view_mut(self, site: &Site) -> ViewMut<'_> {
        // SAFETY: as in `view`.
        unsafe {
            match site.stream() {
                None => ViewMut::on_host(self.ty(), self.0 as *mut u8, self.1),
                Some(stream) => ViewMut::on_device(self.ty(), self.0 as u64, self.1, stream),
            }
        }
    }
}

/// Items that no thread of Python writes: on the host a copy, on a device the array, which its stream protects.
///
/// A sort reads its keys, and what tells its segments, more than once, and every call by segment its offsets. It counts
/// on the same items each time, and would write elsewhere if another thread had written the array in between.
pub(crate) struct Kept {
    array: Buffer,
    copy: Option<Array>,
}

impl Kept {
    /// # Errors
    /// [`Error::OutOfMemory`].
    ///
    /// # Safety
    /// That of [`Buffer::view`], but that other threads may write items of the host.
    pub(crate) unsafe fn new(array: Buffer, site: &Site) -> Result<Kept, Error> {
        let (n, ty) = (array.len(), array.ty());
        if site.stream().is_some() || n == 0 {
            return Ok(Kept { array, copy: None });
        }
        let copy = with_type!(ty, T => {
            let mut items = Vec::<T>::new();
            let out_of_memory = |_| Error::OutOfMemory { primitive: "a copy of the input", n, size: size_of::<T>() };
            items.try_reserve_exact(n).map_err(out_of_memory)?;
            // SAFETY: `n` items lie there, by the caller, and fit; every bit pattern is an item.
            unsafe {
                std::ptr::copy_nonoverlapping(array.address() as *const T, items.as_mut_ptr(), n);
                items.set_len(n);
            }
            Array::from(items)
        });
        Ok(Kept { array, copy: Some(copy) })
    }

    /// # Safety
    /// That of [`Buffer::view`] on a device.
    pub(crate) unsafe fn view<'a>(&'a self, site: &'a Site) -> View<'a> {
        match &self.copy {
            Some(copy) => copy.view(),
            // SAFETY: the caller's.
            None => unsafe { self.array.view(site) },
        }
    }
}

/// A Python number as an item.
///
/// # Errors
/// `TypeError` for no number; `OverflowError` for an integer that the type does not hold.
pub(crate) fn value(ty: Type, number: &Bound<'_, PyAny>) -> PyResult<Value> {
    macro_rules! integers {
        ($($variant:ident $t:ty),*) => {
            match ty {
                Type::F32 => Value::from(number.extract::<f64>()? as f32),
                Type::F64 => Value::from(number.extract::<f64>()?),
                Type::F16 => Value::from(f16::from_f64(number.extract()?)),
                Type::Bf16 => Value::from(bf16::from_f64(number.extract()?)),
                $(Type::$variant => Value::from(number.extract::<$t>()?),)*
            }
        };
    }
    Ok(integers!(I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64))
}

/// Checks that a number is an item of the type with this index in `TYPES`: the errors of [`value`].
#[pyfunction]
pub(crate) fn check_value(ty: usize, number: &Bound<'_, PyAny>) -> PyResult<()> {
    value(Type::ALL[ty], number).map(drop)
}

// ---- DLPack -------------------------------------------------------------------------------------

/// An array of another library, taken from its capsule. It is given back when this is dropped.
#[pyclass(frozen)]
pub(crate) struct Tensor {
    _owner: Box<dyn Any + Send + Sync>,
    #[pyo3(get)]
    address: usize,
    #[pyo3(get)]
    shape: Vec<usize>,
    /// The index in `TYPES`.
    #[pyo3(get)]
    dtype: usize,
}

#[pymethods]
impl Tensor {
    /// From what `__dlpack__(stream=...)` has returned for the site's stream.
    #[new]
    fn new(capsule: &Bound<'_, PyAny>, site: &Site) -> PyResult<Tensor> {
        let _current = site.stream().map(|_| Current::keep()).transpose().map_err(failed)?;
        macro_rules! tensor {
            ($tensor:expr) => {{
                let tensor = $tensor;
                let valid = tensor.validate().map_err(|e| PyBufferError::new_err(e.to_string()))?;
                let on_host = matches!(valid.device().device_type, DLDeviceType::CPU | DLDeviceType::CUDAHOST);
                if on_host != site.stream().is_none() {
                    return Err(PyValueError::new_err("the arrays do not lie in the same memory"));
                }
                // SAFETY: the producer's address. It is not used before `import` has checked it.
                let address = match valid.num_elements() {
                    0 => 0,
                    _ => {
                        unsafe { valid.offset_bytes_ptr() }.map_err(|e| PyBufferError::new_err(e.to_string()))? as usize
                    }
                };
                // SAFETY: of a producer that keeps the protocol. Its items are initialised. If another thread writes
                // them during a call, the result is unspecified: what must not change is copied first (`Kept`).
                let tensor = unsafe { dlpack::Tensor::import(tensor, site.stream()) };
                let tensor = tensor.map_err(|e| match &e {
                    Error::Tensor { reason } if reason.contains("type code") => PyTypeError::new_err(e.to_string()),
                    _ => failed(e),
                })?;
                let ty = tensor.view().ty();
                let ty = Type::ALL.iter().position(|&of| of == ty).expect("it is one of them");
                Ok(Tensor { address, shape: tensor.shape().to_vec(), dtype: ty, _owner: Box::new(tensor) })
            }};
        }
        match dlpark::python::from_dlpack(capsule.as_borrowed(), None, None)? {
            ImportedDlpack::Versioned(tensor) => tensor!(tensor),
            ImportedDlpack::Legacy(tensor) => tensor!(tensor),
        }
    }
}

/// New memory, which becomes an array of another library by DLPack, once.
#[pyclass(name = "Array", module = "parascan._native")]
pub(crate) struct Memory {
    array: Option<Array>,
    stream: Option<Arc<CudaStream>>,
    ty: Type,
    address: usize,
    #[pyo3(get)]
    shape: Vec<usize>,
}

impl Drop for Memory {
    /// Frees memory on a device with its context current, in which the driver looks up default streams.
    fn drop(&mut self) {
        if let (Some(stream), Some(array)) = (&self.stream, self.array.take()) {
            match Current::enter(stream) {
                Ok(_current) => drop(array),
                // Better that the memory stays than that it is freed in another order.
                Err(_) => std::mem::forget(array),
            }
        }
    }
}

#[pymethods]
impl Memory {
    #[new]
    fn new(shape: Vec<usize>, dtype: usize, site: &Site) -> PyResult<Memory> {
        let (n, ty) = (shape.iter().product::<usize>(), Type::ALL[dtype]);
        let (array, address) = match site.stream() {
            None => with_type!(ty, T => {
                let mut items: Vec<T> = bytemuck::try_zeroed_vec(n)
                    .map_err(|()| failed(Error::OutOfMemory { primitive: "empty", n, size: size_of::<T>() }))?;
                let address = items.as_mut_ptr() as usize;
                (Array::from(items), address)
            }),
            Some(stream) => {
                let _current = Current::keep().map_err(failed)?;
                with_type!(ty, T => {
                    // SAFETY: the call that gets the memory writes all items.
                    let items = if n == 0 { stream.null::<T>() } else { unsafe { stream.alloc::<T>(n) } };
                    let device = stream.context().ordinal();
                    let items =
                        items.map_err(|e| failed(Error::Driver { call: "cuMemAllocAsync", code: e.0, device }))?;
                    let address = items.device_ptr(stream).0 as usize;
                    (Array::from(items), address)
                })
            }
        };
        Ok(Memory { array: Some(array), stream: site.stream().cloned(), ty, address, shape })
    }

    #[getter]
    fn address(&self) -> PyResult<usize> {
        self.array.as_ref().map(|_| self.address).ok_or_else(given_away)
    }

    /// The name of the dtype in the array API: "float32".
    #[getter]
    fn dtype(&self) -> String {
        let name = self.ty.name();
        let bits = name.trim_start_matches(char::is_alphabetic);
        let kind = match &name[..name.len() - bits.len()] {
            "bf" => "bfloat",
            "f" => "float",
            "i" => "int",
            _ => "uint",
        };
        format!("{kind}{bits}")
    }

    /// The type and the number of the device, as DLPack counts them.
    fn __dlpack_device__(&self) -> (i32, usize) {
        self.stream.as_ref().map_or((1, 0), |stream| (2, stream.context().ordinal()))
    }

    /// Gives the memory away, ready on the consumer's stream.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &mut self,
        py: Python<'py>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, usize)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(true) || dl_device.is_some_and(|device| device != self.__dlpack_device__()) {
            return Err(PyBufferError::new_err("the array is given away where it lies, without a copy"));
        }
        if let (Some(_), Some(number @ (0 | ..=-2))) = (&self.stream, stream) {
            return Err(PyBufferError::new_err(format!("{number} is not a stream of a CUDA device")));
        }
        let _current = self.stream.as_ref().map(|_| Current::keep()).transpose().map_err(failed)?;
        let array = self.array.take().ok_or_else(given_away)?;
        // SAFETY (of both): by the protocol the number is that of a live stream of the device.
        if max_version.is_some_and(|version| version >= (1, 0)) {
            let tensor: versioned::Dlpack = unsafe { dlpack::export_to(array, &self.shape, stream) }.map_err(failed)?;
            tensor.into_pyobject(py)
        } else {
            let tensor: legacy::Dlpack = unsafe { dlpack::export_to(array, &self.shape, stream) }.map_err(failed)?;
            tensor.into_pyobject(py)
        }
    }
}

fn given_away() -> PyErr {
    PyBufferError::new_err("the array was given away before")
}
