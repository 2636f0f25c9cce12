//! Sort, argsort and top-k along an axis.

use crate::engine::{Engine, by_dtype};
use crate::operation::{Binary, Custom, Unary};
use candle_core::backend::BackendStorage;
use candle_core::shape::Dim;
use candle_core::{D, Error, Layout, Result, Shape, Tensor, bail};

/// Sorts along `dim`, and returns the sorted items and the index along `dim` that each had.
///
/// Stable. Ascending order puts NaNs last, descending order first. -0 is less than 0, and
/// NaNs are ordered by their bits; to torch such items are equal. Indices are u32. Gradient of the
/// items: that of a permutation.
///
/// The indices are sorted, then candle gathers the items. A copy brings any axis but the last one to
/// the end, and copies bring the results back.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), candle's for `dim`, and parascan's.
///
/// ```
/// use candle_core::{D, Device, Tensor};
/// let x = Tensor::new(&[[3_f32, 1., 2.], [5., f32::NAN, 4.]], &Device::Cpu)?;
/// let (sorted, indices) = parascan_candle::sort(&x, D::Minus1, false)?;
/// assert_eq!(sorted.to_vec2::<f32>()?[0], [1., 2., 3.]);
/// assert_eq!(indices.to_vec2::<u32>()?, [[1, 2, 0], [2, 0, 1]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn sort<D: Dim>(x: &Tensor, dim: D, descending: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.to_index(x.shape(), "sort")?;
    first_of_order("sort", x, x.dim(dim)?, dim, descending)
}

/// The index along `dim` of each item of the sorted order, as u32: the indices of [`sort()`].
///
/// # Errors
/// Those of [`sort()`].
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[30_i64, 10, 20, 10], &Device::Cpu)?;
/// assert_eq!(parascan_candle::argsort(&x, 0, false)?.to_vec1::<u32>()?, [1, 3, 2, 0]);
/// assert_eq!(parascan_candle::argsort(&x, 0, true)?.to_vec1::<u32>()?, [0, 2, 1, 3]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn argsort<D: Dim>(x: &Tensor, dim: D, descending: bool) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "argsort")?;
    from_last(&order("argsort", &to_last(x, dim)?, descending)?, dim)
}

/// The `k` greatest items along `dim`, greatest first, or with `largest` false the least ones, least
/// first; and the index along `dim` of each, as u32.
///
/// The first `k` of [`sort()`], so NaN is greater than all numbers, and of equal items the one with the
/// lower index is first. Gradient: that of the items goes to where they were.
///
/// The indices of all items are sorted, so the cost hardly depends on `k`.
///
/// # Errors
/// Those of [`sort()`], and `k` greater than the axis is long.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let scores = Tensor::new(&[0.1_f32, 0.7, 0.2, 0.7], &Device::Cpu)?;
/// let (values, indices) = parascan_candle::topk(&scores, 3, 0, true)?;
/// assert_eq!(values.to_vec1::<f32>()?, [0.7, 0.7, 0.2]);
/// assert_eq!(indices.to_vec1::<u32>()?, [1, 3, 2]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn topk<D: Dim>(x: &Tensor, k: usize, dim: D, largest: bool) -> Result<(Tensor, Tensor)> {
    let dim = dim.to_index(x.shape(), "topk")?;
    if k > x.dim(dim)? {
        bail!("topk: {k} items of an axis of {}", x.dim(dim)?)
    }
    first_of_order("topk", x, k, dim, largest)
}

/// The first `k` items of the sorted order, and their indices.
fn first_of_order(op: &'static str, x: &Tensor, k: usize, dim: usize, descending: bool) -> Result<(Tensor, Tensor)> {
    let x = to_last(x, dim)?;
    let order = order(op, &x, descending)?;
    let first = order.narrow(D::Minus1, 0, k)?.contiguous()?;
    let items =
        if first.elem_count() == 0 { x.narrow(D::Minus1, 0, k)? } else { x.apply_op2(&first, Custom(Take { order }))? };
    Ok((from_last(&items, dim)?, from_last(&first, dim)?))
}

/// The indices that sort the last axis of a contiguous tensor.
fn order(op: &'static str, x: &Tensor, descending: bool) -> Result<Tensor> {
    x.apply_op1_no_bwd(&Custom(Order { op, descending }))
}

/// Exchanges the axis and the last one. The result is contiguous.
pub(crate) fn to_last(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.transpose(dim, D::Minus1)?.contiguous()
}
pub(crate) use to_last as from_last;

struct Order {
    op: &'static str, // whose order it is
    descending: bool,
}

impl Unary for Order {
    fn name(&self) -> &'static str {
        self.op
    }

    fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
        let columns = layout.dim(D::Minus1)?;
        let is_one_row = layout.shape().elem_count() == columns;
        by_dtype!(x.dtype(), self.name(), T => {
            let items = E::items::<T>(x, layout)?;
            let sort = if self.descending { parascan::sort::<T>().descending() } else { parascan::sort::<T>() };
            let order = if is_one_row { sort.indices::<u32, _>(&items) } else { sort.rows(columns).local_indices::<u32, _>(&items) };
            Ok((E::store::<u32>(order.map_err(Error::wrap)?, x), layout.shape().clone()))
        })
    }
}

/// Gathers along the last axis, by the first indices of an order of all items.
struct Take {
    order: Tensor,
}

impl Binary for Take {
    fn name(&self) -> &'static str {
        "take-in-order"
    }

    fn run<E: Engine>(&self, x: (&E::Storage, &Layout), first: (&E::Storage, &Layout)) -> Result<(E::Storage, Shape)> {
        let taken = x.0.gather(x.1, first.0, first.1, x.1.dims().len() - 1)?;
        Ok((taken, first.1.shape().clone()))
    }

    /// Each item was taken to its rank, and the order of an order is the ranks. candle's gradient of a
    /// gather would add row by row.
    fn gradient(&self, x: &Tensor, first: &Tensor, grad: &Tensor) -> Result<Tensor> {
        let ranks = order("argsort", &self.order, false)?;
        let not_taken = x.dim(D::Minus1)? - first.dim(D::Minus1)?;
        grad.pad_with_zeros(D::Minus1, 0, not_taken)?.contiguous()?.gather(&ranks, D::Minus1)
    }
}

/// The items of a contiguous tensor of one axis in ascending order.
pub(crate) fn sorted(x: &Tensor) -> Result<Tensor> {
    struct Keys;
    impl Unary for Keys {
        fn name(&self) -> &'static str {
            "unique"
        }

        fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
            by_dtype!(x.dtype(), self.name(), T => {
                let sorted = parascan::sort::<T>().run(&E::items::<T>(x, layout)?).map_err(Error::wrap)?;
                Ok((E::store::<T>(sorted, x), layout.shape().clone()))
            })
        }
    }
    x.apply_op1(Custom(Keys))
}
