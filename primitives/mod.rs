//! What is built on the two layers of the core, one file each.

pub(crate) mod allocate;
pub(crate) mod choice;
pub(crate) mod compact;
pub(crate) mod expand;
pub(crate) mod offsets;
pub(crate) mod pack;
pub(crate) mod partition;
pub(crate) mod predicate;
pub(crate) mod sort;
pub(crate) mod three_way;
pub(crate) mod unique;
