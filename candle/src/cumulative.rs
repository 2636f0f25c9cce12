//! Cumulative sums and maxima.

use crate::engine::{Engine, Item, by_dtype};
use crate::operation::{Custom, Unary};
use crate::segments::sums_at_heads;
use crate::select::to_u32;
use candle_core::shape::Dim;
use candle_core::{DType, Device, Error, Layout, Result, Shape, Tensor};
use parascan::{Max, Operator, Scan, Source, Sum, scan};

/// The cumulative sums of `x` along `dim`, of its shape and dtype.
///
/// Integers wrap. f16 and bf16 are added in f32 and rounded once for each output. Sums have the
/// same bits in every run. Gradient: the cumulative sum from the other end.
///
/// Reads and writes each item once along the last axis, or along the first axis that is longer than one. For any
/// other axis a copy brings it to the front, and another copy brings the results back.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), candle's for `dim`, and parascan's.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[1_u32, 2], [3, 4]], &Device::Cpu)?;
/// assert_eq!(parascan_candle::cumsum(&x, 1)?.to_vec2::<u32>()?, [[1, 3], [3, 7]]);
/// assert_eq!(parascan_candle::cumsum(&x, 0)?.to_vec2::<u32>()?, [[1, 2], [4, 6]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn cumsum<D: Dim>(x: &Tensor, dim: D) -> Result<Tensor> {
    along(x, dim.to_index(x.shape(), "cumsum")?, Fold::Sum)
}

/// The cumulative maxima of `x` along `dim`, of its shape and dtype.
///
/// From the first NaN on every maximum is NaN. -0 is less than 0. Gradient: each maximum's goes to
/// the item of [`cummax_with_indices`].
///
/// The cost is that of [`cumsum`], and so are the errors.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[3_f32, 1., 4., 1., 5.], &Device::Cpu)?;
/// assert_eq!(parascan_candle::cummax(&x, 0)?.to_vec1::<f32>()?, [3., 3., 4., 4., 5.]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn cummax<D: Dim>(x: &Tensor, dim: D) -> Result<Tensor> {
    along(x, dim.to_index(x.shape(), "cummax")?, Fold::Max)
}

/// The cumulative maxima, and for each the index along `dim` of the item that it is.
///
/// A tie takes the later index, and so does another NaN, as in torch. To the index -0 equals 0, so it may be that of a
/// -0 where the maximum is 0. Indices are u32.
///
/// Beside two cumulative maxima, it takes some passes of candle's operations on each item.
///
/// # Errors
/// Those of [`cumsum`], and an axis of 2^32 items or more.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[3_f32, 1., 4., 4., 2.], &Device::Cpu)?;
/// let (values, indices) = parascan_candle::cummax_with_indices(&x, 0)?;
/// assert_eq!(values.to_vec1::<f32>()?, [3., 3., 4., 4., 4.]);
/// assert_eq!(indices.to_vec1::<u32>()?, [0, 0, 2, 3, 3]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn cummax_with_indices<D: Dim>(x: &Tensor, dim: D) -> Result<(Tensor, Tensor)> {
    let dim = dim.to_index(x.shape(), "cummax")?;
    let values = along(x, dim, Fold::Max)?;
    if x.elem_count() == 0 {
        return Ok((values, no_indices(x.dims(), x.device())?));
    }
    let mut shape = vec![1; x.rank()];
    shape[dim] = x.dim(dim)?;
    let places = counting(shape[dim], x.device())?.reshape(shape)?;
    // The index of a record is greater than all before it; other items have 0, which is the first record's.
    let of_records = records(&x.detach(), &values.detach())?.to_dtype(DType::U32)?.broadcast_mul(&places)?;
    Ok((values, along(&of_records, dim, Fold::Max)?))
}

/// 1 for each item that is the cumulative maximum up to it, and 0 for each other one.
fn records(x: &Tensor, maxima: &Tensor) -> Result<Tensor> {
    let is_nan = x.ne(x)?; // no NaN equals the maximum, which is NaN then
    x.eq(maxima)? + is_nan
}

/// The indices 0 to `n` - 1; there is one.
pub(crate) fn counting(n: usize, device: &Device) -> Result<Tensor> {
    to_u32(n, "items")?;
    let ones = Tensor::ones(n, DType::U32, device)?;
    along(&ones, 0, Fold::Sum)? - ones
}

/// A tensor of u32 without items. On the device candle's operations take none.
pub(crate) fn no_indices(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(&[0_u32; 0], shape, device)
}

/// Applies the scan by `fold` along an axis.
fn along(x: &Tensor, dim: usize, fold: Fold) -> Result<Tensor> {
    let [outer, _, inner] = split(x.dims(), dim);
    let scan = |dim| Custom(Cumulative { fold, dim, reverse: false });
    if outer == 1 || inner == 1 {
        return x.contiguous()?.apply_op1(scan(dim));
    }
    x.transpose(0, dim)?.contiguous()?.apply_op1(scan(0))?.transpose(0, dim)?.contiguous()
}

/// The numbers of items before, along and after an axis.
fn split(dims: &[usize], dim: usize) -> [usize; 3] {
    [dims[..dim].iter().product(), dims[dim], dims[dim + 1..].iter().product()]
}

#[derive(Clone, Copy)]
enum Fold {
    Sum,
    Max,
}

/// A scan along an axis that only axes of length one precede, or only such axes follow.
struct Cumulative {
    fold: Fold,
    dim: usize,
    /// From the last item to the first.
    reverse: bool,
}

impl Cumulative {
    fn scan<Op: Operator<T>, T: Item, X: Source<T>>(&self, items: &X, dims: &[usize]) -> Result<X::Owned> {
        let scan: Scan<Op, T> = if self.reverse { scan().reverse() } else { scan() };
        let result = match split(dims, self.dim) {
            [1, _, 1] => scan.run(items),
            [_, n, 1] => scan.rows(n).run(items),
            [_, _, inner] => scan.columns(inner).run(items),
        };
        result.map_err(Error::wrap)
    }
}

impl Unary for Cumulative {
    fn name(&self) -> &'static str {
        match self.fold {
            Fold::Sum => "cumsum",
            Fold::Max => "cummax",
        }
    }

    fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
        use candle_core::backend::BackendStorage;
        by_dtype!(x.dtype(), self.name(), T => {
            let items = E::items::<T>(x, layout)?;
            let result = match self.fold {
                Fold::Sum => self.scan::<Sum, T, _>(&items, layout.dims()),
                Fold::Max => self.scan::<Max, T, _>(&items, layout.dims()),
            };
            Ok((E::store::<T>(result?, x), layout.shape().clone()))
        })
    }

    fn gradient(&self, x: &Tensor, result: &Tensor, grad: &Tensor) -> Result<Tensor> {
        let Cumulative { fold, dim, reverse } = *self;
        match fold {
            Fold::Sum => grad.contiguous()?.apply_op1(Custom(Cumulative { fold, dim, reverse: !reverse })),
            // A maximum stays from its record up to the next one.
            Fold::Max => sums_at_heads(grad, &records(x, result)?, dim),
        }
    }
}
