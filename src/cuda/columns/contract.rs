//! The contract of scan and reduce along the first axis: `columns/contract.cuh`.

use crate::cuda::contract::{constants, header, shared};

constants! {
    enum {
        /// Flags of a call.
        COLUMNS_EXCLUSIVE: u32 = 1;
        COLUMNS_REVERSE: u32 = 2;
        COLUMNS_INIT: u32 = 4;
    }
}

shared! {
    /// A row-major matrix, and its tiles.
    struct Matrix {
        rows: u64 = "u64 rows";
        columns: u64 = "u64 columns";
        /// Columns of a panel; the last panel may have fewer.
        width: u32 = "u32 width";
        panels: u32 = "u32 panels";
        /// Tiles of a panel.
        tiles: u32 = "u32 tiles";
        /// Tiles of a look-back group, and groups of a panel.
        group: u32 = "u32 group";
        groups: u32 = "u32 groups";
        flags: u32 = "u32 flags";
    }
}

/// The text of `columns/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header("columns", &[enumerators(), Matrix::definition(&[Matrix::layout("Matrix")])])
}
