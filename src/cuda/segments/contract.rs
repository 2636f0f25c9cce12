//! What the host and the kernels of pack and expand share: `segments/contract.cuh`.

use crate::cuda::contract::{Address, header, shared};

shared! {
    /// Where segments end in the output. There is one offset more than segments; the first one is
    /// where the output begins.
    class Offset struct Ends {
        offsets: Address = "const Offset *offsets";
        /// Segments.
        n: u64 = "u64 n";
        /// Items that fit the output.
        capacity: u64 = "u64 capacity";
        /// Outputs of an item: its bytes in pack, 1 in expand.
        unit: u32 = "u32 unit";
    }
}

/// The text of `segments/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header("segments", &[Ends::definition(&["Ends<u32>", "Ends<u64>"].map(Ends::layout))])
}
