//! placeholder

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
