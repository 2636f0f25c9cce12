//! What the host and the kernels of scan share: `scan/contract.cuh`.

use crate::cuda::contract::{constants, header};

constants! {
    enum {
        /// Flags of a scan. The last one is for a textbook's block: an exclusive scan loads the
        /// item before each.
        EXCLUSIVE: u32 = 1;
        REVERSE: u32 = 2;
        INIT: u32 = 4;
        SHIFTED: u32 = 8;
    }
}

/// The text of `scan/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header("scan", &[enumerators()])
}
