//! The contract of scan: `scan/contract.cuh`.

use crate::cuda::contract::{constants, header};

constants! {
    enum {
        /// Flags of a scan. `SHIFTED` is for a textbook's block: in an exclusive scan a thread
        /// loads the item before its own.
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
