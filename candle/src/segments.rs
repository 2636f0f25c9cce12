//! Sums by segment.

use crate::cumulative::counting;
use crate::engine::{Engine, by_dtype};
use crate::operation::{Binary, Custom, Unary};
use crate::select::{scalar, to_u32};
use crate::sort::{from_last, to_last};
use candle_core::backend::BackendStorage;
use candle_core::shape::Dim;
use candle_core::{D, DType, Error, Layout, Result, Shape, Tensor, bail};
use parascan::{Sum, expand, reduce, scan};

/// The sum of each segment of `x` along `dim`: segment i is the items from offset i up to offset
/// i + 1.
///
/// The offsets are a tensor of one axis, of u8, u32 or i64, in ascending order and one more than the
/// segments; the axis of the result has the segments. Items before the first offset are in no segment, and neither is the
/// item at the last offset or one behind it. The sum of an empty segment is 0. Gradient: every item takes that of its
/// segment.
///
/// Integers wrap. f16 and bf16 are added in f32 and rounded once for each sum. Sums have the same
/// bits in every run. The time does not depend on how long segments are. A copy brings any axis but
/// the last one to the end, and another one brings the result back.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), candle's for `dim`, no offset, 2^32 items or
/// more, and parascan's. On the CPU also offsets that descend or reach past the axis; on the device the
/// sums are unspecified then, and nothing outside of the tensors is accessed.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[[1_f32, 2., 3.], [10., 20., 30.]], &Device::Cpu)?;
/// let offsets = Tensor::new(&[0_u32, 1, 3], &Device::Cpu)?;
/// assert_eq!(parascan_candle::segment_sum(&x, &offsets, 1)?.to_vec2::<f32>()?, [[1., 5.], [10., 50.]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn segment_sum<D1: Dim>(x: &Tensor, offsets: &Tensor, dim: D1) -> Result<Tensor> {
    let dim = dim.to_index(x.shape(), "segment-sum")?;
    if !matches!(offsets.dtype(), DType::U8 | DType::U32 | DType::I64) {
        return Err(Error::UnsupportedDTypeForOp(offsets.dtype(), "segment-sum").bt());
    }
    let bounds = offsets.dims1()?;
    if bounds == 0 {
        bail!("segment-sum: there is no offset")
    }
    let x = to_last(x, dim)?;
    let (n, total) = (x.dim(D::Minus1)?, x.elem_count());
    to_u32(total, "items of segment-sum")?;
    if x.device().is_cpu() {
        let offsets = offsets.to_dtype(DType::I64)?.to_vec1::<i64>()?;
        if let Some(i) = (1..bounds).find(|&i| offsets[i] < offsets[i - 1]) {
            bail!("segment-sum: offset {i} is less than the offset before it")
        }
        if offsets[0] < 0 || offsets[bounds - 1] > n as i64 {
            bail!("segment-sum: offsets from {} to {}, and the axis has {n} items", offsets[0], offsets[bounds - 1])
        }
    }
    let offsets = offsets.to_dtype(DType::U32)?.contiguous()?;
    let mut shape = x.dims().to_vec();
    shape.pop();
    let rows = shape.iter().product::<usize>();
    shape.push(bounds - 1);
    let flat = x.flatten_all()?;
    let sums = match rows {
        // No segment of no items: only the errors of the types are left.
        0 => flat.apply_op2(&offsets.narrow(0, 0, 1)?.zeros_like()?, Custom(SegmentSum))?,
        1 => flat.apply_op2(&offsets, Custom(SegmentSum))?,
        _ => {
            // Between the last segment of a row and the first one of the next lies one more, also after
            // the last row.
            let begins = counting(rows, x.device())?.broadcast_mul(&scalar(n, &x)?)?.reshape((rows, 1))?;
            let of_rows = begins.broadcast_add(&offsets.reshape((1, bounds))?)?.flatten_all()?;
            let last = of_rows.narrow(0, rows * bounds - 1, 1)?;
            let sums = flat.apply_op2(&Tensor::cat(&[&of_rows, &last], 0)?, Custom(SegmentSum))?;
            sums.reshape((rows, bounds))?.narrow(1, 0, bounds - 1)?
        }
    };
    from_last(&sums.reshape(shape)?, dim)
}

struct SegmentSum;

impl Binary for SegmentSum {
    fn name(&self) -> &'static str {
        "segment-sum"
    }

    fn run<E: Engine>(
        &self,
        x: (&E::Storage, &Layout),
        offsets: (&E::Storage, &Layout),
    ) -> Result<(E::Storage, Shape)> {
        let bounds = E::items::<u32>(offsets.0, offsets.1)?;
        by_dtype!(x.0.dtype(), self.name(), T => {
            let items = E::items::<T>(x.0, x.1)?;
            let sums = reduce::<Sum, T>().segments(&bounds).run(&items).map_err(Error::wrap)?;
            Ok((E::store::<T>(sums, x.0), (offsets.1.shape().elem_count() - 1).into()))
        })
    }

    fn gradient(&self, x: &Tensor, offsets: &Tensor, grad: &Tensor) -> Result<Tensor> {
        struct SegmentOfItem;
        impl Unary for SegmentOfItem {
            fn name(&self) -> &'static str {
                "segment-of-item"
            }

            fn run<E: Engine>(&self, bounds: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
                let segments = expand::<u32>().run::<u32, _>(&E::items::<u32>(bounds, layout)?).map_err(Error::wrap)?;
                E::vector::<u32>(segments, bounds)
            }
        }
        // One more segment of the items before the first offset, and one of those after the last.
        let bounds = Tensor::cat(&[&scalar(0, x)?, offsets, &scalar(x.elem_count(), x)?], 0)?;
        let of_item = bounds.apply_op1_no_bwd(&Custom(SegmentOfItem))?;
        grad.pad_with_zeros(0, 1, 1)?.index_select(&of_item, 0)
    }
}

/// At each head along `dim` the sum of the items from it up to the next one, and 0 at each other item.
/// The first item of the axis is a head.
pub(crate) fn sums_at_heads(x: &Tensor, heads: &Tensor, dim: usize) -> Result<Tensor> {
    let (x, heads) = (to_last(x, dim)?, to_last(heads, dim)?);
    let sums = x.apply_op2(&heads, Custom(SumFromHere))?;
    from_last(&heads.where_cond(&sums, &sums.zeros_like()?)?, dim)
}

/// The sum of the items from each one up to the next head.
struct SumFromHere;

impl Binary for SumFromHere {
    fn name(&self) -> &'static str {
        "sum-up-to-head"
    }

    fn run<E: Engine>(&self, x: (&E::Storage, &Layout), heads: (&E::Storage, &Layout)) -> Result<(E::Storage, Shape)> {
        let heads = E::items::<u8>(heads.0, heads.1)?;
        by_dtype!(x.0.dtype(), self.name(), T => {
            let items = E::items::<T>(x.0, x.1)?;
            let sums = scan::<Sum, T>().heads(&heads).reverse().run(&items).map_err(Error::wrap)?;
            Ok((E::store::<T>(sums, x.0), x.1.shape().clone()))
        })
    }
}
