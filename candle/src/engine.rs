//! The engines: what lets one body of an operation serve candle's CPU and CUDA tensors.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, Error, Layout, Result, Shape, WithDType};
use half::{bf16, f16};
use parascan::cudarc::driver::DeviceRepr;
use parascan::{Host, Ordered, Place, SortKey, Source};

/// The items of a tensor: those of candle's types that have an order and an operator in parascan.
pub(crate) trait Item: WithDType + SortKey + Ordered + DeviceRepr + InStorage {}
macro_rules! items { ($($t:ident)*) => { $(impl Item for $t {})* } }
items! { u8 u32 i64 bf16 f16 f32 f64 }

/// What candle's CUDA storage asks of an item.
#[cfg(feature = "cuda")]
pub(crate) use candle_core::cuda_backend::CudaDType as InStorage;
#[cfg(not(feature = "cuda"))]
pub(crate) trait InStorage {}
#[cfg(not(feature = "cuda"))]
impl<T> InStorage for T {}

/// Evaluates `$body` with `$T` as the type of a dtype's items. Other dtypes are an error of `$op`.
macro_rules! by_dtype {
    ($dtype:expr, $op:expr, $T:ident => $body:expr) => {
        by_dtype! {
            $dtype, $op, $T => $body;
            U8 u8, U32 u32, I64 i64, BF16 half::bf16, F16 half::f16, F32 f32, F64 f64
        }
    };
    ($dtype:expr, $op:expr, $T:ident => $body:expr; $($name:ident $t:ty),*) => {
        match $dtype {
            $(candle_core::DType::$name => {
                type $T = $t;
                $body
            })*
            other => Err(candle_core::Error::UnsupportedDTypeForOp(other, $op).bt()),
        }
    };
}
pub(crate) use by_dtype;

/// A candle device's storage as parascan's memory.
pub(crate) trait Engine {
    type Place: Place<Indices<u32> = Self::Memory<u32>>;
    type Storage: BackendStorage;
    /// The items of a contiguous tensor.
    type View<'a, T: Item>: Source<T, Place = Self::Place, Owned = Self::Memory<T>>;
    /// New memory, as parascan returns it.
    type Memory<T: Item>;

    /// # Errors
    /// [`Error::RequiresContiguous`], and candle's for a dtype that is not `T`.
    fn items<'a, T: Item>(storage: &'a Self::Storage, layout: &Layout) -> Result<Self::View<'a, T>>;

    /// The memory as storage of the device that `like` lies on.
    fn store<T: Item>(memory: Self::Memory<T>, like: &Self::Storage) -> Self::Storage;

    /// The number of items in new memory.
    fn len<T: Item>(memory: &Self::Memory<T>) -> usize;

    /// The memory as a tensor of one axis.
    fn vector<T: Item>(memory: Self::Memory<T>, like: &Self::Storage) -> Result<(Self::Storage, Shape)> {
        let shape = Self::len::<T>(&memory).into();
        Ok((Self::store::<T>(memory, like), shape))
    }
}

pub(crate) enum Cpu {}

impl Engine for Cpu {
    type Place = Host;
    type Storage = CpuStorage;
    type View<'a, T: Item> = &'a [T];
    type Memory<T: Item> = Vec<T>;

    fn items<'a, T: Item>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
        let (begin, end) = range(layout)?;
        Ok(&T::cpu_storage_as_slice(storage)?[begin..end])
    }
    fn store<T: Item>(memory: Vec<T>, _: &CpuStorage) -> CpuStorage {
        T::to_cpu_storage_owned(memory)
    }
    fn len<T: Item>(memory: &Vec<T>) -> usize {
        memory.len()
    }
}

#[cfg(feature = "cuda")]
pub(crate) enum Cuda {}

/// The work runs on the stream of the tensor's memory, which is the stream of candle's device.
#[cfg(feature = "cuda")]
impl Engine for Cuda {
    type Place = parascan::Device;
    type Storage = candle_core::CudaStorage;
    type View<'a, T: Item> = parascan::cudarc::driver::CudaView<'a, T>;
    type Memory<T: Item> = parascan::cudarc::driver::CudaSlice<T>;

    fn items<'a, T: Item>(storage: &'a Self::Storage, layout: &Layout) -> Result<Self::View<'a, T>> {
        let (begin, end) = range(layout)?;
        Ok(storage.as_cuda_slice::<T>()?.slice(begin..end))
    }
    fn store<T: Item>(memory: Self::Memory<T>, like: &Self::Storage) -> Self::Storage {
        Self::Storage::wrap_cuda_slice(memory, like.device().clone())
    }
    fn len<T: Item>(memory: &Self::Memory<T>) -> usize {
        memory.len()
    }
}

fn range(layout: &Layout) -> Result<(usize, usize)> {
    layout.contiguous_offsets().ok_or_else(|| Error::RequiresContiguous { op: "parascan" }.bt())
}
