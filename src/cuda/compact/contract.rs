//! The contract of compaction and partition: `compact/contract.cuh`.

use crate::cuda::contract::{Address, constants, header, shared};

constants! {
    enum {
        /// Flags of `CompactCall`. These two complement the first and the second predicate.
        COMPLEMENT: u32 = 1;
        COMPLEMENT_SECOND: u32 = 8;
        /// `CompactCall::count` holds the output index of the first selected item. Only a
        /// compaction has this flag.
        APPEND: u32 = 2;
        /// All parts of a partition go to one buffer, written by one block or by
        /// `compact/one_buffer.cuh`.
        ONE_BUFFER: u32 = 4;
    }
}

shared! {
    /// The arguments that are the same for every choice and all columns.
    struct CompactCall {
        n: u64 = "u64 n";
        /// The input of the choice: items, flags or words of bits.
        chosen: Address = "const void *chosen";
        /// The kernel writes the number of items of each part but the last, items beyond the
        /// capacity included.
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
    /// The output of a column for each part.
    class Item struct PartOutputs {
        to: [Address; 3] = "Item *to[3]";
    }
}

shared! {
    /// A column in memory: the items or the payload.
    class Item struct ArrayColumn {
        from: Address = "const Item *from";
        outputs: PartOutputs = "PartOutputs<Item> outputs";
    }
}

/// The parameters of two predicates. Each unit defines the types and asserts their layout.
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
