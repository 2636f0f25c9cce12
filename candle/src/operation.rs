//! Operations on one or two tensors, as candle's custom operations.

#[cfg(feature = "cuda")]
use crate::engine::Cuda;
use crate::engine::{Cpu, Engine};
use candle_core::{CpuStorage, CustomOp1, CustomOp2, Error, Layout, Result, Shape, Tensor};
#[cfg(feature = "cuda")]
use candle_core::{
    CudaStorage,
    backend::{BackendDevice, BackendStorage},
};

/// An operation on a contiguous tensor.
pub(crate) trait Unary: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)>;

    /// The gradient of `x`, where `grad` is that of the result.
    fn gradient(&self, _x: &Tensor, _result: &Tensor, _grad: &Tensor) -> Result<Tensor> {
        Err(Error::BackwardNotSupported { op: self.name() })
    }
}

/// An operation on two contiguous tensors, of which the second has no gradient.
pub(crate) trait Binary: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn run<E: Engine>(&self, x: (&E::Storage, &Layout), y: (&E::Storage, &Layout)) -> Result<(E::Storage, Shape)>;

    /// The gradient of `x`, where `grad` is that of the result.
    fn gradient(&self, _x: &Tensor, _y: &Tensor, _grad: &Tensor) -> Result<Tensor> {
        Err(Error::BackwardNotSupported { op: self.name() })
    }
}

/// The operation as candle takes it.
pub(crate) struct Custom<O>(pub(crate) O);

impl<O: Unary> CustomOp1 for Custom<O> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.0.run::<Cpu>(x, layout)
    }
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        self.0.run::<Cuda>(x, layout)
    }
    fn bwd(&self, x: &Tensor, result: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        self.0.gradient(x, result, grad).map(Some)
    }
}

impl<O: Binary> CustomOp2 for Custom<O> {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn cpu_fwd(&self, x: &CpuStorage, lx: &Layout, y: &CpuStorage, ly: &Layout) -> Result<(CpuStorage, Shape)> {
        self.0.run::<Cpu>((x, lx), (y, ly))
    }
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &CudaStorage, lx: &Layout, y: &CudaStorage, ly: &Layout) -> Result<(CudaStorage, Shape)> {
        // candle takes two values of one device for the same; memory belongs to the context of one.
        if !x.device().same_device(y.device()) {
            candle_core::bail!("{}: the tensors are of two values of a CUDA Device; clone one for both", self.0.name())
        }
        self.0.run::<Cuda>((x, lx), (y, ly))
    }
    fn bwd(&self, x: &Tensor, y: &Tensor, _: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((Some(self.0.gradient(x, y, grad)?), None))
    }
}
