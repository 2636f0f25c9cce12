//! The payload of a sort on the device. Sorts move words of 4 or 8 bytes with the keys. Shorter items become words
//! before the sort, and items again after it. Longer ones are gathered after it by their source indices, which moves
//! each of them once.

use super::contract::{PAYLOAD_ITEMS, PAYLOAD_THREADS, PayloadCall};
use super::unit::{PAYLOAD_KEY, payload_source};
use crate::Error;
use crate::cuda::driver::check;
use crate::cuda::kernels::{Kernels, p};
use crate::cuda::library::{self, Caller, Program};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::any::TypeId;

const KERNELS: [&str; 3] = ["payload_to_words", "payload_from_words", "payload_gather"];
const TO_WORDS: usize = 0;
const FROM_WORDS: usize = 1;
const GATHER: usize = 2;
/// The most blocks of a launch. Each takes as many items as it must.
const MOST_BLOCKS: usize = 1 << 16;
/// Items of a block.
const TILE: usize = (PAYLOAD_THREADS / 32 * PAYLOAD_ITEMS) as usize;

/// The type that identifies these kernels in the table of loaded kernels.
enum PayloadKernels {}

/// The kernels that move items before and after a sort. Loads them unless they are loaded.
pub(crate) fn load(caller: &dyn Caller) -> Result<&'static Kernels, Error> {
    library::load(TypeId::of::<PayloadKernels>(), "payload", caller, &KERNELS, &|| Program {
        name: "payload".to_owned(),
        source: payload_source(),
        built_in: const { library::built_in(PAYLOAD_KEY) },
    })
}

/// The most items that 32-bit source indices count.
pub(crate) const MOST_BY_32_BITS: usize = 1 << 32;

/// Evaluates `$program` for the type `$word` of the words that a sort of `$n` keys moves for a payload of type
/// `$payload`. The program's kernels for other words are not referred to.
macro_rules! with_word {
    ($payload:ty, $n:expr, $word:ident => $program:expr) => {
        if const { size_of::<$payload>() == 0 } {
            type $word = ();
            $program
        } else if const { size_of::<$payload>() <= 4 } {
            type $word = u32;
            $program
        } else if const { size_of::<$payload>() <= 8 } || $n > $crate::cuda::sort::payload::MOST_BY_32_BITS {
            type $word = u64;
            $program
        } else {
            type $word = u32;
            $program
        }
    };
}
pub(crate) use with_word;

/// What happens to items that the sort alone does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    /// The sort moves words that they become.
    AsWords,
    /// The sort moves source indices.
    ByIndices,
}

/// The sizes of a sort with a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadSizes {
    pub(crate) n: usize,
    /// Bytes of a key.
    pub(crate) key: usize,
    /// Bytes of an item of the payload, at least 1.
    pub(crate) item: usize,
}

impl PayloadSizes {
    /// The size of the word of `with_word`.
    fn word(&self) -> usize {
        if self.item > 4 && (self.item <= 8 || self.n > MOST_BY_32_BITS) { 8 } else { 4 }
    }

    /// Whether the sort moves source indices. It then reads the keys from one array and writes another.
    pub(crate) fn by_indices(&self) -> bool {
        self.item > 8
    }

    /// `None` if the sort alone moves the items.
    fn moved(&self, are_aligned: bool) -> Option<Moved> {
        match self.item {
            4 | 8 if are_aligned => None,
            ..=8 => Some(Moved::AsWords),
            _ => Some(Moved::ByIndices),
        }
    }

    /// The most scratch memory for items with this alignment, in bytes. Without any the sort alone moves them.
    pub(crate) fn most_scratch(&self, align: usize) -> usize {
        let in_either = |moved| [false, true].map(|in_place| self.layout(moved, in_place).1);
        self.moved(align == self.item).map_or(0, |moved| in_either(moved).into_iter().fold(0, usize::max))
    }

    /// The offsets of the arrays in scratch memory, and its bytes: the words that the sort reads and writes,
    /// and in place copies of keys and items for a gather.
    fn layout(&self, moved: Moved, in_place: bool) -> ([usize; 4], usize) {
        let each = match (moved, in_place) {
            (Moved::AsWords, false) => [self.word(), self.word(), 0, 0],
            (Moved::AsWords, true) => [self.word(), 0, 0, 0],
            (Moved::ByIndices, false) => [0, self.word(), 0, 0],
            (Moved::ByIndices, true) => [0, self.word(), self.key, self.item],
        };
        let mut bytes = 0;
        let offsets = each.map(|each| {
            let begin = bytes;
            bytes += (self.n * each).next_multiple_of(256);
            begin
        });
        (offsets, bytes)
    }
}

/// What happens to a payload before and after the sort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadMoves {
    kernels: &'static Kernels,
    sizes: PayloadSizes,
    moved: Moved,
    keys: CUdeviceptr,
    /// The items, and their output. In place it is the same array.
    from: CUdeviceptr,
    to: CUdeviceptr,
    in_place: bool,
    length: Option<CUdeviceptr>,
}

impl PayloadMoves {
    /// For keys and items from `keys` and `from`, and items to `to`. Their number lies at `length`, if there is one. `None`
    /// if the sort alone moves the items.
    ///
    /// # Errors
    /// Those of loading.
    pub(crate) fn new(
        sizes: PayloadSizes,
        [keys, from]: [CUdeviceptr; 2],
        to: CUdeviceptr,
        in_place: bool,
        length: Option<CUdeviceptr>,
        caller: &dyn Caller,
    ) -> Result<Option<PayloadMoves>, Error> {
        let Some(moved) = sizes.moved((from | to).is_multiple_of(sizes.item as u64)) else { return Ok(None) };
        let kernels = load(caller)?;
        Ok(Some(PayloadMoves { kernels, sizes, moved, keys, from, to, in_place, length }))
    }

    /// Bytes of scratch memory.
    pub(crate) fn scratch(&self) -> usize {
        self.sizes.layout(self.moved, self.in_place).1
    }

    /// Launches what comes before the sort. Returns the arrays for the sort: its input of keys, and the input and
    /// the output of its words. Does not wait.
    ///
    /// # Safety
    /// - The arrays lie in the device's memory, have the number of items that the sizes say and are valid until
    ///   the stream is past the sort, as is the scratch memory. Nothing else writes them meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn before(
        &self,
        device: usize,
        stream: CUstream,
        scratch: CUdeviceptr,
    ) -> Result<[CUdeviceptr; 3], Error> {
        let [words_in, words_out, keys, items] = self.arrays(scratch);
        let PayloadSizes { n, key, item } = self.sizes;
        match (self.moved, self.in_place) {
            (Moved::AsWords, _) => {
                // SAFETY: the caller's.
                unsafe { self.launch(TO_WORDS, stream, self.from, words_in)? };
                Ok([self.keys, words_in, words_out])
            }
            (Moved::ByIndices, false) => Ok([self.keys, 0, words_out]),
            (Moved::ByIndices, true) => {
                for (from, to, each) in [(self.keys, keys, key), (self.from, items, item)] {
                    // SAFETY: both have n items; the caller vouches for them.
                    let copied = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, n * each, stream) };
                    check("cuMemcpyDtoDAsync", device, copied)?;
                }
                Ok([keys, 0, words_out])
            }
        }
    }

    /// Launches what comes after the sort. Does not wait.
    ///
    /// # Safety
    /// As for `before`.
    pub(crate) unsafe fn after(&self, stream: CUstream, scratch: CUdeviceptr) -> Result<(), Error> {
        let [_, words, _, copy] = self.arrays(scratch);
        // SAFETY: the caller's.
        unsafe {
            match (self.moved, self.in_place) {
                (Moved::AsWords, _) => self.launch(FROM_WORDS, stream, 0, words),
                (Moved::ByIndices, false) => self.launch(GATHER, stream, self.from, words),
                (Moved::ByIndices, true) => self.launch(GATHER, stream, copy, words),
            }
        }
    }

    /// The arrays of `layout`. In place the words that the sort reads are those that it writes.
    fn arrays(&self, scratch: CUdeviceptr) -> [CUdeviceptr; 4] {
        let mut arrays = self.sizes.layout(self.moved, self.in_place).0.map(|offset| scratch + offset as u64);
        if (self.moved, self.in_place) == (Moved::AsWords, true) {
            arrays[1] = arrays[0];
        }
        arrays
    }

    unsafe fn launch(
        &self,
        kernel: usize,
        stream: CUstream,
        items: CUdeviceptr,
        words: CUdeviceptr,
    ) -> Result<(), Error> {
        let PayloadSizes { n, item, .. } = self.sizes;
        let most_unit = if kernel == GATHER { 16 } else { 4 };
        let call = PayloadCall {
            n: n as u64,
            length: self.length.unwrap_or(0),
            items,
            output: self.to,
            words,
            item_bytes: item as u32,
            word_bytes: self.sizes.word() as u32,
            unit: 1 << (items | self.to | item as u64 | most_unit).trailing_zeros(),
        };
        let blocks = n.div_ceil(TILE).min(MOST_BLOCKS) as u32;
        // SAFETY: the argument is the kernel's in sort/payload.cuh; the caller vouches for the rest.
        unsafe { self.kernels.launch_dependent(kernel, blocks, PAYLOAD_THREADS, 0, stream, &[p(&call)]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_compiles() {
        library::compile_all(
            [75, 90, 120].map(|architecture| (architecture, "payload".to_owned(), payload_source())).into(),
        );
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        library::parts_have_a_kernel_each(&payload_source(), &KERNELS);
    }

    #[test]
    fn they_are_built_in() {
        assert!(library::is_built_in(PAYLOAD_KEY, &payload_source()));
    }

    /// The words of `with_word` are those of `PayloadSizes`.
    #[test]
    fn words_of_items() {
        fn size<V>(n: usize) -> usize {
            with_word!(V, n, Word => size_of::<Word>())
        }
        for n in [1, 1 << 32, (1 << 32) + 1] {
            let sizes = |item| PayloadSizes { n, key: 4, item };
            assert_eq!(size::<()>(n), 0);
            macro_rules! items { ($($item:literal)*) => { $(
                assert_eq!(size::<[u8; $item]>(n), sizes($item).word(), "{} bytes, {n}", $item);
            )* } }
            items! { 1 2 3 4 5 7 8 9 12 15 16 }
        }
        assert_eq!([4, 9].map(|item| PayloadSizes { n: 1 << 32, key: 4, item }.word()), [4, 4]);
        assert_eq!([4, 9].map(|item| PayloadSizes { n: (1 << 32) + 1, key: 4, item }.word()), [4, 8]);
    }

    /// No two arrays overlap, and each has its bytes.
    #[test]
    fn memory() {
        let (n, key) = (1000, 8);
        let sizes = |item| PayloadSizes { n, key, item };
        let most = [(4, 4), (8, 8), (4, 1), (8, 4), (12, 4)].map(|(item, align)| sizes(item).most_scratch(align));
        assert_eq!(most, [0, 0, 2 * 4096, 2 * 8192, 4096 + 8192 + 12_032]);
        let (at, bytes) = sizes(3).layout(Moved::AsWords, false);
        assert!(at[1] >= at[0] + 4 * n && bytes >= at[1] + 4 * n);
        let (at, bytes) = sizes(12).layout(Moved::ByIndices, true);
        assert!(at[2] >= at[1] + 4 * n && at[3] >= at[2] + key * n && bytes >= at[3] + 12 * n);
    }
}
