//! Operations that candle's tensors lack or do slowly, by [parascan]: cumulative sums and maxima, sorts,
//! top-k, selections, distinct items and sums by segment, on the CPU and on CUDA GPUs.
//!
//! ```
//! use candle_core::{D, Device, Tensor};
//!
//! let logits = Tensor::new(&[[0.1_f32, 0.7, 0.2], [0.5, 0.1, 0.4]], &Device::Cpu)?;
//! let (sorted, tokens) = parascan_candle::sort(&logits, D::Minus1, true)?;
//! let upto = parascan_candle::cumsum(&sorted, D::Minus1)?;
//! assert_eq!(tokens.to_vec2::<u32>()?, [[1, 2, 0], [0, 2, 1]]);
//! assert_eq!(upto.to_vec2::<f32>()?[1], [0.5, 0.9, 1.0]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! # Contents
//!
//! | function | result | gradient |
//! |---|---|---|
//! | [`cumsum`] | the sum of the items up to each one, along any axis | yes |
//! | [`cummax`], [`cummax_with_indices`] | the maximum of them, and its index | yes |
//! | [`sort()`] | the sorted items along any axis, and their indices | yes |
//! | [`argsort`] | the indices alone | none |
//! | [`topk`] | the greatest or least items along any axis, and their indices | yes |
//! | [`segment_sum`] | the sum of each segment along any axis, by offsets | yes |
//! | [`masked_select`] | the items under a mask | yes |
//! | [`nonzero`] | the coordinates of the items that are not zero | none |
//! | [`unique`] | the distinct items, and how often each occurs | an error |
//! | [`bincount`] | how often each number occurs | none |
//!
//! Each is made of candle's custom operations, so candle's own backward pass calls the gradients. What
//! they mean for NaNs and ties is as in torch, with the exceptions that the functions name. Indices and
//! counts are u32, as those of candle's own sort.
//!
//! # Types
//!
//! The items are u8, u32, i64, bf16, f16, f32 or f64: the types for which candle has kernels for all that
//! these functions need. Other dtypes are [`UnsupportedDTypeForOp`](candle_core::Error). A tensor may have
//! any shape and strides. One that is not contiguous is copied first. Results are contiguous.
//!
//! # Devices
//!
//! CPU tensors use rayon's threads. CUDA tensors need the feature `cuda`, for which candle compiles its
//! kernels with nvcc. parascan finds or compiles its own as [its README](https://crates.io/crates/parascan)
//! says; the first call of a type takes the time for that.
//!
//! The work on a CUDA tensor is put on the stream of candle's device. No call waits for it, except where
//! the data tells the shape of the result: [`masked_select`], [`nonzero`], [`unique`] and [`bincount`];
//! and the gradient of [`segment_sum`]. Each call allocates its result, so none can be captured into a
//! CUDA graph. On Metal a function returns candle's error for a custom operation without an implementation.
//!
//! Tensors of one call are of one [`Device`](candle_core::Device) value and its clones. candle lets two values of
//! `Device::new_cuda(0)` meet; here that is an error, as each has a context of its own.

mod cumulative;
mod engine;
mod operation;
mod segments;
mod select;
mod sort;
mod unique;

pub use cumulative::{cummax, cummax_with_indices, cumsum};
pub use segments::segment_sum;
pub use select::{masked_select, nonzero};
pub use sort::{argsort, sort, topk};
pub use unique::{bincount, unique};
