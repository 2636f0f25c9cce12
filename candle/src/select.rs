//! Selection: the places of items that are not zero, and the items under a mask.

use crate::cumulative::{cumsum, no_indices};
use crate::engine::{Engine, by_dtype};
use crate::operation::{Binary, Custom, Unary};
use candle_core::backend::BackendStorage;
use candle_core::{DType, Error, Layout, Result, Shape, Tensor, bail};
use parascan::{NonZero, compact};

/// The coordinates of the items that are not zero: a row of u32 for each, in row-major order.
///
/// The result has the shape (count, rank of `x`). NaN is not zero, and -0 is. On the device it waits
/// for the count, which is a dimension of the result.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), a scalar, more than 2^32 items, and parascan's.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[0_f32, 5.], [7., 0.]], &Device::Cpu)?;
/// assert_eq!(parascan_candle::nonzero(&x)?.to_vec2::<u32>()?, [[0, 1], [1, 0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn nonzero(x: &Tensor) -> Result<Tensor> {
    struct Indices;
    impl Unary for Indices {
        fn name(&self) -> &'static str {
            "nonzero"
        }

        fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
            by_dtype!(x.dtype(), self.name(), T => {
                let items = E::items::<T>(x, layout)?;
                let indices = compact::<T>().keep(NonZero).indices::<u32, _>(&items).map_err(Error::wrap)?;
                E::vector::<u32>(indices, x)
            })
        }
    }
    if x.rank() == 0 {
        bail!("nonzero: a scalar has no coordinates")
    }
    let flat = x.flatten_all()?.contiguous()?.apply_op1_no_bwd(&Custom(Indices))?;
    if flat.elem_count() == 0 {
        return no_indices(&[0, x.rank()], x.device());
    }
    // The indices in row-major order, divided by the size of what an index along each axis spans.
    let mut coordinates = Vec::with_capacity(x.rank());
    let mut outer: Option<Tensor> = None;
    for (dim, &length) in x.dims().iter().enumerate() {
        let inner = if dim + 1 == x.rank() { flat.clone() } else { over(&flat, x.dims()[dim + 1..].iter().product())? };
        coordinates.push(match outer {
            None => inner.clone(),
            Some(outer) => (&inner - outer.broadcast_mul(&scalar(length, x)?)?)?,
        });
        outer = Some(inner);
    }
    Tensor::stack(&coordinates, 1)
}

fn over(x: &Tensor, divisor: usize) -> Result<Tensor> {
    x.broadcast_div(&scalar(divisor, x)?)
}

/// A u32 on the device of `x`.
pub(crate) fn scalar(value: usize, x: &Tensor) -> Result<Tensor> {
    Tensor::new(&[to_u32(value, "items")?], x.device())
}

/// # Errors
/// 2^32 and more.
pub(crate) fn to_u32(n: usize, what: &str) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::msg(format!("there are {n} {what}, more than a u32 counts")).bt())
}

/// The items of `x` whose flag in `mask` is not zero, in row-major order: a tensor of one axis.
///
/// The mask is of u8, as candle's comparisons are, and has the shape of `x` or one that broadcasts to
/// it. Gradient: that of each item goes to where it was. On the device it waits for the count, which
/// is the length of the result.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), a mask of another dtype or shape, and parascan's; a
/// gradient of 2^32 items or more.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[1_f32, 2.], [3., 4.]], &Device::Cpu)?;
/// let above = x.gt(1.5)?;
/// assert_eq!(parascan_candle::masked_select(&x, &above)?.to_vec1::<f32>()?, [2., 3., 4.]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn masked_select(x: &Tensor, mask: &Tensor) -> Result<Tensor> {
    let mask = mask.broadcast_as(x.shape())?.flatten_all()?.contiguous()?;
    x.flatten_all()?.contiguous()?.apply_op2(&mask, Custom(Masked))
}

struct Masked;

impl Binary for Masked {
    fn name(&self) -> &'static str {
        "masked-select"
    }

    fn run<E: Engine>(&self, x: (&E::Storage, &Layout), mask: (&E::Storage, &Layout)) -> Result<(E::Storage, Shape)> {
        let flags = E::items::<u8>(mask.0, mask.1)?;
        by_dtype!(x.0.dtype(), self.name(), T => {
            let items = E::items::<T>(x.0, x.1)?;
            let selected = compact::<T>().flags(&flags).run(&items).map_err(Error::wrap)?;
            E::vector::<T>(selected, x.0)
        })
    }

    fn gradient(&self, _: &Tensor, mask: &Tensor, grad: &Tensor) -> Result<Tensor> {
        to_u32(grad.elem_count(), "gradients of masked-select")?;
        let selected = mask.ne(0_u8)?.to_dtype(DType::U32)?;
        // Selected items count from 1, and the others take the zero before the gradients.
        let places = (cumsum(&selected, 0)? * selected)?;
        grad.pad_with_zeros(0, 1, 0)?.index_select(&places, 0)
    }
}
