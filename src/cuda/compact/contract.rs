//! What the host and the kernels of compaction and partition share: `compact/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Flags of `CompactCall`. The first predicate, and the second one, is complemented.
        COMPLEMENT: u32 = 1;
        COMPLEMENT_SECOND: u32 = 8;
        /// `CompactCall::count` holds where the selected items begin, which compaction alone can
        /// have.
        APPEND: u32 = 2;
        /// Each part of a partition stands behind the one before: by one block, or by
        /// `compact/one_buffer.cuh`.
        BEHIND: u32 = 4;
    }
}

shared! {
    /// The arguments that depend neither on the choice nor on the columns.
    struct CompactCall {
        n: u64 = "u64 n";
        /// What the choice looks at: items, flags or words of bits.
        chosen: Address = "const void *chosen";
        /// Gets the number of items of each part but the last, also of those that have no room.
        count: Address = "u64 *count";
        /// Room for items, in each part.
        room: [u64; 3] = "u64 room[3]";
        /// Status words.
        memory: Address = "void *memory";
        tiles: u32 = "u32 tiles";
        flags: u32 = "u32 flags";
    }
}

/// The text of `compact/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header("compact", &[enumerators(), CompactCall::definition(&[CompactCall::layout("CompactCall")])])
}
