//! What the host and the kernels of compaction and partition share: `compact/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Flags of `CompactCall`. The first predicate, and the second one, is complemented.
        COMPLEMENT: u32 = 1;
        COMPLEMENT_SECOND: u32 = 8;
        /// `CompactCall::count` holds the index of the first selected item's output. Only a
        /// compaction has this flag.
        APPEND: u32 = 2;
        /// All parts of a partition go to one buffer: by one block, or by
        /// `compact/one_buffer.cuh`.
        ONE_BUFFER: u32 = 4;
    }
}

shared! {
    /// The arguments that depend neither on the choice nor on the columns.
    struct CompactCall {
        n: u64 = "u64 n";
        /// What the choice looks at: items, flags or words of bits.
        chosen: Address = "const void *chosen";
        /// Gets the number of items of each part but the last, also of items beyond the capacity.
        count: Address = "u64 *count";
        /// The capacity of each part's output, in items.
        capacity: [u64; 3] = "u64 capacity[3]";
        /// Status words.
        memory: Address = "void *memory";
        tiles: u32 = "u32 tiles";
        flags: u32 = "u32 flags";
    }
}

shared! {
    /// A column's output of each part.
    class Item struct PartOutputs {
        to: [Address; 3] = "Item *to[3]";
    }
}

shared! {
    /// A column in memory: the items, or a payload column.
    class Item struct ArrayColumn {
        from: Address = "const Item *from";
        outputs: PartOutputs = "PartOutputs<Item> outputs";
    }
}

/// The parameters of two predicates, of types that each unit defines and asserts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "the kernels read them")]
pub(crate) struct TwoParameters<A, B> {
    pub(crate) first: A,
    pub(crate) second: B,
}

#[allow(dead_code, reason = "build.rs writes the header")]
const TWO_PARAMETERS: &str = "\
// The parameters of two predicates, of types that each unit defines and asserts.
template <class First, class Second> struct TwoParameters {
    First first;
    Second second;
};
";

/// The text of `compact/contract.cuh`.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn text() -> String {
    header(
        "compact",
        &[
            enumerators(),
            CompactCall::definition(&[CompactCall::layout("CompactCall")]),
            PartOutputs::definition(&[PartOutputs::layout("PartOutputs<u8>")]),
            ArrayColumn::definition(&[ArrayColumn::layout("ArrayColumn<u8>")]),
            TWO_PARAMETERS.to_owned(),
        ],
    )
}
