//! The contract of pack and expand: `segments/contract.cuh`.

use crate::cuda::contract::{Address, header, shared};

shared! {
    /// The ends of the segments in the output. There is one offset more than segments; the first
    /// one is the begin of the output.
    class Offset struct Ends {
        offsets: Address = "const Offset *offsets";
        /// The number of segments.
        n: u64 = "u64 n";
        /// The capacity of the output, in items.
        capacity: u64 = "u64 capacity";
        /// Units of output for an item: its bytes in pack, 1 in expand.
        unit: u32 = "u32 unit";
    }
}

/// The text of `segments/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header("segments", &[Ends::definition(&["Ends<u32>", "Ends<u64>"].map(Ends::layout))])
}
