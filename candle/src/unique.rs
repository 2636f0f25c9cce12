//! Distinct items, and how often each number occurs.

use crate::cumulative::{counting, no_indices};
use crate::engine::{Engine, by_dtype};
use crate::operation::{Custom, Unary};
use crate::select::{scalar, to_u32};
use crate::sort::sorted;
use candle_core::backend::BackendStorage;
use candle_core::{DType, Error, Layout, Result, Shape, Tensor, bail};
use parascan::{Max, Min, reduce};

/// The distinct items of `x` in ascending order, and the number of times that each occurs, as u32.
///
/// Every NaN is distinct, and they come last; -0 and 0 are equal. Sorts all items. Has no gradient: a
/// backward pass through it is an error. On the device it waits for the number of distinct items, which
/// is the length of the results.
///
/// # Errors
/// A dtype without kernels ([the table](crate#types)), 2^32 items or more, and parascan's.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let x = Tensor::new(&[3_i64, 1, 3, 3], &Device::Cpu)?;
/// let (values, counts) = parascan_candle::unique(&x)?;
/// assert_eq!(values.to_vec1::<i64>()?, [1, 3]);
/// assert_eq!(counts.to_vec1::<u32>()?, [1, 3]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn unique(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let x = x.flatten_all()?.contiguous()?;
    let sorted = sorted(&x)?;
    if x.elem_count() == 0 {
        return Ok((sorted, no_indices(&[0], x.device())?));
    }
    let (begins, lengths) = runs(&sorted)?;
    Ok((sorted.index_select(&begins, 0)?, lengths))
}

/// How often each number from 0 on occurs in `x`, as u32: at least `min_length` numbers, and more if
/// `x` has greater ones.
///
/// On the CPU one loop counts. On the device the numbers are sorted, and the host waits for the
/// greatest one, for the least one of i64, and for the number of runs.
///
/// # Errors
/// A dtype other than u8, u32 and i64, a negative number, 2^32 items and numbers or more, and
/// parascan's.
///
/// ```
/// use candle_core::{Device, Tensor};
/// let experts = Tensor::new(&[2_u32, 0, 2], &Device::Cpu)?;
/// assert_eq!(parascan_candle::bincount(&experts, 4)?.to_vec1::<u32>()?, [1, 0, 2, 0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn bincount(x: &Tensor, min_length: usize) -> Result<Tensor> {
    if !matches!(x.dtype(), DType::U8 | DType::U32 | DType::I64) {
        return Err(Error::UnsupportedDTypeForOp(x.dtype(), "bincount").bt());
    }
    let x = x.flatten_all()?.contiguous()?;
    let zeros = |length: usize| -> Result<Vec<u32>> {
        let mut counts = Vec::new();
        counts.try_reserve_exact(length).map_err(Error::wrap)?;
        counts.resize(length, 0);
        Ok(counts)
    };
    if x.elem_count() == 0 {
        return Tensor::new(zeros(min_length)?, x.device());
    }
    if x.dtype() == DType::I64 && extreme(&x, false)? < 0 {
        bail!("bincount: a number is negative")
    }
    let numbers = extreme(&x, true)? as usize + 1;
    to_u32(x.elem_count() + numbers, "items and numbers of bincount")?;
    if x.device().is_cpu() {
        let mut counts = zeros(numbers.max(min_length))?;
        for number in x.to_dtype(DType::I64)?.to_vec1::<i64>()? {
            counts[number as usize] += 1;
        }
        return Tensor::new(counts, x.device());
    }
    // Every number once more, so that all have a run.
    let all = Tensor::cat(&[&x, &counting(numbers, x.device())?.to_dtype(x.dtype())?], 0)?;
    let (_, lengths) = runs(&sorted(&all)?)?;
    lengths.broadcast_sub(&scalar(1, &x)?)?.pad_with_zeros(0, 0, min_length.saturating_sub(numbers))
}

/// Where each run of equal neighbours begins, and its length, both as u32; there is an item.
fn runs(x: &Tensor) -> Result<(Tensor, Tensor)> {
    struct Begins;
    impl Unary for Begins {
        fn name(&self) -> &'static str {
            "runs"
        }

        fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
            by_dtype!(x.dtype(), self.name(), T => {
                let items = E::items::<T>(x, layout)?;
                E::vector::<u32>(parascan::unique::<T>().indices::<u32, _>(&items).map_err(Error::wrap)?, x)
            })
        }
    }
    let begins = x.apply_op1_no_bwd(&Custom(Begins))?;
    let ends = Tensor::cat(&[&begins.narrow(0, 1, begins.elem_count() - 1)?, &scalar(x.elem_count(), x)?], 0)?;
    let lengths = (ends - &begins)?;
    Ok((begins, lengths))
}

/// The greatest or the least integer of some.
fn extreme(x: &Tensor, greatest: bool) -> Result<i64> {
    struct Extreme {
        greatest: bool,
    }
    impl Unary for Extreme {
        fn name(&self) -> &'static str {
            "extreme"
        }

        fn run<E: Engine>(&self, x: &E::Storage, layout: &Layout) -> Result<(E::Storage, Shape)> {
            let n = layout.shape().elem_count();
            by_dtype!(x.dtype(), self.name(), T => {
                let items = E::items::<T>(x, layout)?;
                let extreme = if self.greatest {
                    reduce::<Max, T>().rows(n).run(&items)
                } else {
                    reduce::<Min, T>().rows(n).run(&items)
                };
                Ok((E::store::<T>(extreme.map_err(Error::wrap)?, x), 1.into()))
            })
        }
    }
    let extreme = x.apply_op1_no_bwd(&Custom(Extreme { greatest }))?;
    extreme.to_dtype(DType::I64)?.squeeze(0)?.to_scalar()
}
