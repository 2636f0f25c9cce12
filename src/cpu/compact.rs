//! Stable compaction of host memory: what is kept moves together, in order, and so does what is not.
//!
//! Which items are kept is asked once, 64 items at a time, and kept as bits. The bits of a tile are counted, the counts
//! handed over, and then the bits say what goes where. There is no branch on a single item: a block of 64 is skipped,
//! copied whole, taken by its set bits, or squeezed together by a permutation of each vector, which is looked up.
//!
//! All of that is compiled once, in this library, for items of any size. A caller's types add only the loop that makes
//! the bits, a [`Choice`], which is called for a group of blocks at a time.

use super::{handover::hand_over_ahead, offsets::Offset, pipeline};
use bytemuck::Pod;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use std::{
    mem::{MaybeUninit, swap},
    ops::Range,
};

/// Items in a block: those of which one word of bits speaks.
const BLOCK: usize = 64;

/// Which items are kept, 64 at a time.
pub(crate) trait Choice: Sync {
    /// How many bits of memory are read for an item.
    fn bits_an_item(&self) -> usize;
    /// Writes a word for each block of `items`, and returns how many bits are set. Bit j of block b says whether item
    /// `64 b + j` is kept, or whether it is not if `invert` is `u64::MAX` instead of 0; bits past the last item are 0.
    ///
    /// # Safety
    /// - `items` begins with a whole block.
    /// - The items are there, and may be read; the item before them too, unless they begin with item 0.
    /// - `words` has a place for each block, which nobody else touches.
    /// - With `avx2`: the machine has it.
    unsafe fn choose(&self, items: Range<usize>, invert: u64, words: Words, avx2: bool) -> usize;
}

/// A [`Choice`] by one block after the other.
trait Bits: Copy + Sync {
    /// How many bits of memory are read for an item.
    const BITS: usize;
    /// Bit j says whether item `i + j` is kept; bits from `len` on may be anything.
    ///
    /// # Safety
    /// - `i` is a multiple of 64 and `len` is 1..=64.
    /// - The items `i..i + len` are there, and may be read; the item before `i` too, unless `i` is 0.
    unsafe fn bits(&self, i: usize, len: usize) -> u64;
}

impl<B: Bits> Choice for B {
    fn bits_an_item(&self) -> usize {
        B::BITS
    }

    unsafe fn choose(&self, items: Range<usize>, invert: u64, words: Words, avx2: bool) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if avx2 {
            // SAFETY: the caller's.
            return unsafe { avx2::choose(*self, items, invert, words) };
        }
        let _ = avx2;
        // SAFETY: the caller's.
        unsafe { choose_by(*self, items, invert, words) }
    }
}

/// [`Choice::choose`], compiled with or without vectors.
///
/// # Safety
/// As for that.
#[inline(always)]
unsafe fn choose_by<B: Bits>(choice: B, items: Range<usize>, invert: u64, words: Words) -> usize {
    let (whole, rest) = (items.len() / BLOCK, items.len() % BLOCK);
    let mut count = 0;
    // SAFETY: the caller's items and words.
    unsafe {
        let word = words.of(items.start);
        for block in 0..whole {
            let bits = choice.bits(items.start + block * BLOCK, BLOCK) ^ invert;
            word.add(block).write(bits);
            count += bits.count_ones() as usize;
        }
        if rest > 0 {
            let bits = (choice.bits(items.end - rest, rest) ^ invert) & first(rest);
            word.add(whole).write(bits);
            count += bits.count_ones() as usize;
        }
    }
    count
}

/// Keeps the items for which `keeps` is true. It is asked once for each item, in any order and on several threads.
#[derive(Clone, Copy)]
pub(crate) struct ByPredicate<T, F> {
    /// The items.
    pub(crate) items: *const T,
    /// Whether an item is kept.
    pub(crate) keeps: F,
}

/// Keeps the items whose byte is not 0.
#[derive(Clone, Copy)]
pub(crate) struct ByFlags {
    /// A byte for each item.
    pub(crate) flags: *const u8,
}

/// Keeps the items whose bit is set. `W` is `u32` or `u64`; bits past the last item may hold anything.
#[derive(Clone, Copy)]
pub(crate) struct ByWords<W> {
    /// A bit for each item, the least significant one of a word first.
    pub(crate) words: *const W,
}

/// Keeps the items that are not equal to the one before them.
#[derive(Clone, Copy)]
pub(crate) struct Distinct<T> {
    /// The items.
    pub(crate) items: *const T,
}

// SAFETY: items are read only, on any thread, which `T: Sync` and `F: Sync` permit.
unsafe impl<T: Sync, F: Sync> Sync for ByPredicate<T, F> {}
// SAFETY: bytes are read only.
unsafe impl Sync for ByFlags {}
// SAFETY: words are read only.
unsafe impl<W: Sync> Sync for ByWords<W> {}
// SAFETY: items are read only.
unsafe impl<T: Sync> Sync for Distinct<T> {}

impl<T: Copy + Sync, F: Fn(T) -> bool + Copy + Sync> Bits for ByPredicate<T, F> {
    const BITS: usize = 8 * size_of::<T>();

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the caller's items; j < len.
        gathered(len, |j| (self.keeps)(unsafe { self.items.add(i + j).read() }))
    }
}

impl Bits for ByFlags {
    const BITS: usize = 8;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: a flag for each of the caller's items; j < len.
        gathered(len, |j| unsafe { self.flags.add(i + j).read() } != 0)
    }
}

impl Bits for ByWords<u64> {
    const BITS: usize = 1;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, _: usize) -> u64 {
        // SAFETY: the word has bits of the caller's items.
        unsafe { self.words.add(i / 64).read() }
    }
}

impl Bits for ByWords<u32> {
    const BITS: usize = 1;

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the first word has bits of the caller's items, and so has the second one if it is read.
        unsafe {
            let low = self.words.add(i / 32).read();
            let high = if len > 32 { self.words.add(i / 32 + 1).read() } else { 0 };
            u64::from(high) << 32 | u64::from(low)
        }
    }
}

impl<T: Copy + PartialEq + Sync> Bits for Distinct<T> {
    const BITS: usize = 8 * size_of::<T>();

    #[inline(always)]
    unsafe fn bits(&self, i: usize, len: usize) -> u64 {
        // SAFETY: the caller's items, and the one before them.
        let differs = |i: usize| unsafe { self.items.add(i).read() != self.items.add(i - 1).read() };
        if i == 0 {
            return (1..len).fold(1, |bits, j| bits | u64::from(differs(j)) << j);
        }
        gathered(len, |j| differs(i + j))
    }
}

/// The lowest `len` bits, for `len` of 1..=64.
#[inline(always)]
fn first(len: usize) -> u64 {
    u64::MAX >> (BLOCK - len)
}

/// `len` answers as bits.
#[inline(always)]
fn gathered(len: usize, answer: impl Fn(usize) -> bool) -> u64 {
    if len < BLOCK {
        return (0..len).fold(0, |bits, j| bits | u64::from(answer(j)) << j);
    }
    // As bytes first: this loop becomes vector instructions if the answers can.
    let mut answers = [0; BLOCK];
    for (j, byte) in answers.iter_mut().enumerate() {
        *byte = u8::from(answer(j));
    }
    packed(answers)
}

/// The lowest bit of each byte.
#[inline(always)]
fn packed(bytes: [u8; BLOCK]) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: there is no x86_64 without SSE2, and the loads are of the array's four quarters.
    unsafe {
        use std::arch::x86_64::{_mm_loadu_si128, _mm_movemask_epi8, _mm_slli_epi16};
        let quarter = |q: usize| {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(16 * q).cast());
            (_mm_movemask_epi8(_mm_slli_epi16::<7>(bytes)) as u64) << (16 * q)
        };
        quarter(0) | quarter(1) | quarter(2) | quarter(3)
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    bytes.as_chunks::<8>().0.iter().enumerate().fold(0, |bits, (k, &eight)| {
        // Byte j is multiplied to bit 56 + j, and no two products meet in one bit.
        bits | (u64::from_le_bytes(eight).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * k)
    })
}

/// What moves with each item: the item itself, what stands beside it, or its number.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    what: What,
    /// Bytes of a place.
    size: usize,
    /// The places.
    to: *mut u8,
}

#[derive(Clone, Copy)]
enum What {
    /// The items of an array that begins here.
    Array(*const u8),
    /// The numbers of the items, as integers of 4 or 8 bytes.
    Indices,
}

// SAFETY: items are read on any thread, which `T: Sync` permits, and copies of them written by one, which `T: Send`
// does: `Column::array` asks for both. Numbers are integers.
unsafe impl Sync for Column {}

impl Column {
    /// The items of an array. They may be their own places: for [`compact_in_place`].
    pub(crate) fn array<T: Pod + Send + Sync>(from: *const T, to: *mut T) -> Column {
        Column { what: What::Array(from.cast()), size: size_of::<T>(), to: to.cast() }
    }

    /// The numbers of the items.
    pub(crate) fn indices<I: Offset>(to: *mut I) -> Column {
        Column { what: What::Indices, size: size_of::<I>(), to: to.cast() }
    }

    /// The same, with the first place where place `first` was.
    pub(crate) fn at_place(self, first: usize) -> Column {
        Column { to: self.to.wrapping_add(first.wrapping_mul(self.size)), ..self }
    }

    /// Puts a group, and returns how many items that are.
    ///
    /// # Safety
    /// As for [`Put::put`], of each block of the group. With `avx2`: the machine has it.
    unsafe fn put(&self, group: &Group, avx2: bool) -> usize {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if avx2 {
            // SAFETY: the caller's.
            return unsafe { avx2::put(self, group) };
        }
        let _ = avx2;
        // SAFETY: the caller's.
        unsafe { self.put_by::<false>(group) }
    }

    /// [`put`](Self::put), compiled with or without vectors.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    unsafe fn put_by<const AVX2: bool>(&self, group: &Group) -> usize {
        /// One loop for each of these sizes, and one for all others.
        macro_rules! array {
            ($from:ident, $($size:literal)*) => {
                match self.size {
                    $( $size => {
                        let (from, to) = ($from.cast::<[u8; $size]>(), self.to.cast());
                        self.put_as::<_, AVX2>(Array { from, to }, group)
                    } )*
                    size => self.put_as::<_, AVX2>(Large { from: $from, to: self.to, size }, group),
                }
            };
        }
        // SAFETY: the caller's.
        unsafe {
            match self.what {
                What::Array(from) => array!(from, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16),
                What::Indices if self.size == 4 => self.put_as::<_, AVX2>(Indices { to: self.to.cast::<u32>() }, group),
                What::Indices => self.put_as::<_, AVX2>(Indices { to: self.to.cast::<u64>() }, group),
            }
        }
    }

    /// [`put`](Self::put) by what is known of the column when this is compiled.
    ///
    /// # Safety
    /// As for that; `by` is this column.
    #[inline(always)]
    unsafe fn put_as<P: Put, const AVX2: bool>(&self, by: P, group: &Group) -> usize {
        let Group { items, words, invert, to, end, coming, coming_words } = group.clone();
        let (whole, rest) = (items.len() / BLOCK, items.len() % BLOCK);
        let to_come = coming.len().div_ceil(BLOCK);
        let mut place = to;
        // SAFETY: the caller's.
        unsafe {
            let word = words.of(items.start);
            let coming_word = coming_words.map(|words| words.of(coming.start));
            for block in 0..whole {
                // One for one: memory is busy all the time.
                if block < to_come {
                    let i = coming.start + block * BLOCK;
                    match coming_word {
                        Some(word) => self.expect(i, word.add(block).read()),
                        None => self.expect_all(i),
                    }
                }
                let bits = word.add(block).read() ^ invert;
                by.put::<AVX2>(items.start + block * BLOCK, BLOCK, bits, place, end);
                place += bits.count_ones() as usize;
            }
            if rest > 0 {
                let bits = (word.add(whole).read() ^ invert) & first(rest);
                by.put::<AVX2>(items.end - rest, rest, bits, place, end);
                place += bits.count_ones() as usize;
            }
        }
        place - to
    }

    /// The items `i + j`, for every set bit j, will be put soon by this thread: they may be fetched.
    #[inline(always)]
    fn expect(&self, i: usize, bits: u64) {
        // The first and the last: where there are more, the processor sees by itself what is next.
        if let (What::Array(from), true) = (self.what, bits != 0) {
            fetch(from.wrapping_add((i + bits.trailing_zeros() as usize) * self.size));
            fetch(from.wrapping_add((i + bits.ilog2() as usize) * self.size));
        }
    }

    /// The block that begins at item `i` will be chosen soon by this thread, and its items put: they may be fetched.
    #[inline(always)]
    fn expect_all(&self, i: usize) {
        if let What::Array(from) = self.what {
            // A block has as many lines of 64 bytes as an item has bytes.
            let block = from.wrapping_add(i * self.size);
            (0..self.size.min(BLOCK)).for_each(|line| fetch(block.wrapping_add(line * 64)));
        }
    }
}

/// Blocks that are put in one call.
#[derive(Clone)]
struct Group {
    /// Their items, which begin with a whole block.
    items: Range<usize>,
    /// Their bits.
    words: Words,
    /// 0 to put the items whose bits are set, `u64::MAX` to put the others.
    invert: u64,
    /// The first place.
    to: usize,
    /// The end of the places that may be written.
    end: usize,
    /// Items that will be put soon, if they are to be fetched.
    coming: Range<usize>,
    /// The bits of those, if they were chosen.
    coming_words: Option<Words>,
}

/// A [`Column`] of which the type is known.
trait Put: Copy {
    /// Item `i + j` goes, for every set bit j, to the places from `to` on, in order.
    ///
    /// Reads upwards, and writes no further up than it has read: items may be compacted within their own memory.
    ///
    /// # Safety
    /// - `len` is 1..=64, bits from `len` on are 0, and the items `i..i + len` may be read.
    /// - The places from `to` up to `to + bits.count_ones()`, and up to `end` if that is more, may be written, and no
    ///   other thread does. Those past the first may be left holding anything: this thread comes to them later.
    /// - With `AVX2`: the machine has it.
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize);
}

/// Items, as `T`s that may lie anywhere: arrays of bytes.
#[derive(Clone, Copy)]
struct Array<T> {
    from: *const T,
    to: *mut T,
}

/// Items of any size.
#[derive(Clone, Copy)]
struct Large {
    from: *const u8,
    to: *mut u8,
    size: usize,
}

/// The numbers of the items.
#[derive(Clone, Copy)]
struct Indices<I> {
    to: *mut I,
}

#[inline(always)]
pub(super) fn fetch<T>(item: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint: it touches no memory that the program could see, and any address will do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(item.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = item;
}

/// Calls `take(j)` for each set bit j, from the lowest on.
#[inline(always)]
fn for_each_bit(mut bits: u64, mut take: impl FnMut(usize)) {
    while bits != 0 {
        take(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Blocks with this many items kept, or fewer, are taken by their set bits.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const SPARSE: u32 = 2;

/// The most places past the kept ones that a vector write touches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const OVERSHOOT: usize = 8;

/// Whether a block is for vectors, which take all of it and write past its end.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn in_vectors(len: usize, bits: u64, to: usize, end: usize) -> bool {
    len == BLOCK && bits.count_ones() > SPARSE && to + bits.count_ones() as usize + OVERSHOOT <= end
}

impl<T: Copy> Put for Array<T> {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize) {
        // SAFETY: the caller's items and places. Everything here reads upwards and writes no further up than it has
        // read.
        unsafe {
            let (from, mut place) = (self.from.add(i), self.to.add(to));
            // In place all are where they belong, before anything is dropped.
            if place.cast_const() == from && bits == first(len) {
                return;
            }
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<T>() {
                    1 => return avx2::put_1(from.cast(), bits, place.cast()),
                    2 => return avx2::put_2(from.cast(), bits, place.cast()),
                    4 => return avx2::put_4(from.cast(), bits, place.cast()),
                    8 => return avx2::put_8(from.cast(), bits, place.cast()),
                    _ => {}
                }
            }
            if bits == first(len) {
                return std::ptr::copy(from, place, len);
            }
            for_each_bit(bits, |j| {
                place.write(from.add(j).read());
                place = place.add(1);
            });
        }
        let _ = end;
    }
}

impl Put for Large {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, _: usize, mut bits: u64, to: usize, _: usize) {
        // SAFETY: the caller's items and places. What moves within its own memory moves down.
        unsafe {
            let (from, mut place) = (self.from.add(i * self.size), self.to.add(to * self.size));
            while bits != 0 {
                let skipped = bits.trailing_zeros();
                let run = (bits >> skipped).trailing_ones() as usize * self.size;
                let from = from.add(skipped as usize * self.size);
                if place.cast_const() != from {
                    std::ptr::copy(from, place, run);
                }
                place = place.add(run);
                // The carry clears the run.
                bits &= bits.wrapping_add(1 << skipped);
            }
        }
    }
}

impl<I: Offset> Put for Indices<I> {
    #[inline(always)]
    unsafe fn put<const AVX2: bool>(self, i: usize, len: usize, bits: u64, to: usize, end: usize) {
        // SAFETY: the caller's places.
        unsafe {
            let mut place = self.to.add(to);
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if AVX2 && in_vectors(len, bits, to, end) {
                match size_of::<I>() {
                    4 => return avx2::number_4(i as u32, bits, place.cast()),
                    8 => return avx2::number_8(i as u64, bits, place.cast()),
                    _ => {}
                }
            }
            for_each_bit(bits, |j| {
                place.write(I::narrow((i + j) as u64));
                place = place.add(1);
            });
        }
        let _ = (len, end);
    }
}

/// Compacts `n` items, on the threads of rayon's current pool, and returns how many are kept.
///
/// `kept` receive the kept items from place 0 on and `rejected` the others, both in their order; with `complement` the
/// items that `choice` does not keep are the kept ones.
/// Nothing is written past the last of each. Each item is chosen once, and read once more when it is moved. Inputs of
/// up to 256 KiB stay on the calling thread and allocate nothing; longer ones allocate a bit for each item if there are
/// several threads. A panic of the choice reaches the caller; some places have been written then.
///
/// # Safety
/// - `choice` and the columns may read `n` items, and nobody writes them meanwhile.
/// - `kept` may write as many places as items are kept and `rejected` as many as are not, and nobody else touches them.
/// - What is written does not overlap what is read or what else is written.
pub(crate) unsafe fn compact(
    n: usize,
    choice: &dyn Choice,
    complement: bool,
    kept: &[Column],
    rejected: &[Column],
) -> usize {
    // SAFETY: the caller's.
    unsafe { Steps::new(choice, complement, kept, rejected).compact(n) }
}

/// What `choice` keeps of `n` items, or with `complement` does not, as words for [`ByWords`], and how many that are: for
/// who must know before anything moves. A choice that is asked again may answer otherwise.
///
/// # Safety
/// `choice` may read `n` items, and nobody writes them meanwhile.
pub(crate) unsafe fn recorded(n: usize, choice: &dyn Choice, complement: bool) -> (Vec<u64>, usize) {
    const PART: usize = 1 << 12; // words of a part: worth a thread's start
    let (invert, avx2) = (if complement { u64::MAX } else { 0 }, has_avx2());
    let mut all = vec![0; n.div_ceil(BLOCK)];
    let part = |(k, words): (usize, &mut [u64])| {
        let from = k * PART * BLOCK;
        let items = from..n.min(from + words.len() * BLOCK);
        // SAFETY: the caller's items, from a whole block on, and a word for each of their blocks; the machine was asked.
        unsafe { choice.choose(items, invert, Words { from, first: words.as_mut_ptr() }, avx2) }
    };
    let count = if all.len() <= PART {
        if n == 0 { 0 } else { part((0, &mut all)) }
    } else {
        all.par_chunks_mut(PART).enumerate().map(part).sum()
    };
    (all, count)
}

/// Compacts `n` items within their own memory, on the threads of rayon's current pool, and returns how many are kept.
/// What lies past them afterwards is some of the items. With several threads most of what is kept is moved twice.
///
/// # Safety
/// - `items` is an array that is its own places, valid for reads and writes of `n` items, and nobody else touches them.
/// - `choice` may read `n` items; it may read these.
pub(crate) unsafe fn compact_in_place(n: usize, choice: &dyn Choice, complement: bool, items: Column) -> usize {
    // SAFETY: the caller's.
    unsafe { Steps::new(choice, complement, &[items], &[]).compact_in_place(n) }
}

/// How many items are taken at a time.
#[derive(Clone, Copy)]
struct Shape {
    /// Items in a tile, whole blocks of them.
    tile: usize,
    /// Items that one thread alone chooses before it moves them, whole blocks of them and at most [`CHUNK`].
    chunk: usize,
    /// Items that are chosen, or moved, in one call, whole blocks of them.
    group: usize,
    /// Items up to which the calling thread does all.
    small: usize,
}

/// Bytes of a tile: an eighth of a 2 MiB L2 cache.
const TILE_BYTES: usize = 256 << 10;
/// Bytes of a chunk: a small part of an L1 cache, so that memory is read all the time.
const CHUNK_BYTES: usize = 4 << 10;

/// The most blocks of a chunk.
const CHUNK: usize = 64;
/// Bytes of a group: many for what a call costs, few so that memory is read while it is written.
const GROUP_BYTES: usize = 2 << 10;

impl Shape {
    /// For so many bits of memory that are read, or written, for an item.
    fn of(bits: usize) -> Shape {
        let blocks = |bytes: usize| (8 * bytes / bits.max(1) / BLOCK * BLOCK).max(BLOCK);
        Shape {
            tile: blocks(TILE_BYTES),
            chunk: blocks(CHUNK_BYTES).min(CHUNK * BLOCK),
            group: blocks(GROUP_BYTES),
            small: 8 * pipeline::Shape::of::<u8>().small / bits.max(1),
        }
    }
}

/// What is done to items.
#[derive(Clone, Copy)]
struct Steps<'a> {
    choice: &'a dyn Choice,
    /// For [`Choice::choose`].
    invert: u64,
    kept: &'a [Column],
    rejected: &'a [Column],
    /// Whether the choice reads less than is moved. Then it has not read that on the way.
    is_beside: bool,
    shape: Shape,
    avx2: bool,
}

/// Items whose bits are there, and how many of them are kept.
#[derive(Clone)]
struct Chosen {
    items: Range<usize>,
    words: Words,
    count: usize,
}

/// A place for the bits of each block, from the one that begins at item `from` on.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    from: usize,
    first: *mut u64,
}

// SAFETY: the words of a tile are used by one thread at a time: the one that chooses, then the one that puts.
unsafe impl Sync for Words {}

impl Words {
    /// The word of the block that begins at item `i`; those of the next ones follow.
    ///
    /// # Safety
    /// There is such a block.
    #[inline(always)]
    unsafe fn of(self, i: usize) -> *mut u64 {
        // SAFETY: the caller's.
        unsafe { self.first.add((i - self.from) / BLOCK) }
    }
}

impl<'a> Steps<'a> {
    fn new(choice: &'a dyn Choice, complement: bool, kept: &'a [Column], rejected: &'a [Column]) -> Steps<'a> {
        let bits = |columns: &[Column]| columns.iter().map(|column| 8 * column.size).sum::<usize>();
        let (chosen, moved) = (choice.bits_an_item(), bits(kept));
        Steps {
            choice,
            invert: if complement { u64::MAX } else { 0 },
            kept,
            rejected,
            is_beside: chosen < moved,
            shape: Shape::of(chosen.max(moved).max(bits(rejected))),
            avx2: has_avx2(),
        }
    }

    /// [`compact`](compact()).
    ///
    /// # Safety
    /// As for that.
    unsafe fn compact(self, n: usize) -> usize {
        let shape = self.shape;
        if n == 0 {
            return 0;
        }
        // The length is looked at first: asking rayon for its threads would start them.
        if n <= shape.small || rayon::current_num_threads() == 1 {
            // SAFETY: the caller's.
            return unsafe { self.here(0..n, self.head(0, n), 0) };
        }
        let mut bits = Box::<[u64]>::new_uninit_slice(n.div_ceil(BLOCK));
        let words = Words { from: 0, first: bits.as_mut_ptr().cast() };
        let items = |tile: usize| tile * shape.tile..n.min((tile + 1) * shape.tile);
        let kept = hand_over_ahead(
            n.div_ceil(shape.tile),
            Some(0),
            |tile| {
                // SAFETY: the caller's items. The words of a tile are its own.
                let count = unsafe { self.step(None, items(tile), words) };
                (count, count)
            },
            |earlier, later| earlier + later,
            |tile, prefix, count, next| {
                let to = *prefix.expect("there is a first value");
                let chosen = Chosen { items: items(tile), words, count };
                let ahead = next.map_or(0..0, items);
                // SAFETY: the tile was chosen before it is finished. Its places are its own, by the counts before it.
                let count = unsafe { self.step(Some((chosen, to)), ahead, words) };
                next.map(|_| (count, count))
            },
        );
        kept.expect("there is a first value")
    }

    /// The bits of the block that begins at item `i < n`.
    ///
    /// # Safety
    /// The choice may read `n` items, nobody writes them meanwhile, and `i` is a multiple of 64.
    unsafe fn head(self, i: usize, n: usize) -> u64 {
        let mut bits = 0;
        // SAFETY: the caller's items, and a word for the block.
        unsafe { self.choose(i..n.min(i + BLOCK), Words { from: i, first: &mut bits }) };
        bits
    }

    /// [`Choice::choose`].
    ///
    /// # Safety
    /// As for that.
    unsafe fn choose(self, items: Range<usize>, words: Words) -> usize {
        // SAFETY: the caller's, and the machine was asked.
        unsafe { self.choice.choose(items, self.invert, words, self.avx2) }
    }

    /// Compacts some items on this thread, to the places from `to` on, and returns how many are kept. `head` are the
    /// bits of the first block. Items may be their own places.
    ///
    /// # Safety
    /// As for [`compact`]; `items` begins with a whole block.
    unsafe fn here(self, items: Range<usize>, head: u64, to: usize) -> usize {
        let mut bits = [[const { MaybeUninit::<u64>::uninit() }; CHUNK]; 2];
        let [mut first, mut other] = bits.each_mut().map(|half| half.as_mut_ptr().cast());
        let cut = |from: usize| from..items.end.min(from + self.shape.chunk);
        // SAFETY: a chunk and the next one have a half each for their bits, and what is put was chosen. In place, the
        // next chunk is not written before it is chosen, nor is the last item of this one before the next chunk's first
        // is.
        unsafe {
            let (mut this, mut words) = (cut(items.start), Words { from: items.start, first });
            words.of(items.start).write(head);
            let second = this.end.min(items.start + BLOCK);
            let mut count = head.count_ones() as usize + self.step(None, second..this.end, words);
            let mut place = to;
            while !this.is_empty() {
                swap(&mut first, &mut other);
                let (next, next_words) = (cut(this.end), Words { from: this.end, first });
                let chosen = self.step(Some((Chosen { items: this, words, count }, place)), next.clone(), next_words);
                place += count;
                (this, words, count) = (next, next_words, chosen);
            }
            place - to
        }
    }

    /// Moves items that were chosen to the places from the second number on, and chooses the items `ahead`: memory is
    /// read while it is written. Returns how many of those are kept.
    ///
    /// # Safety
    /// As for [`compact`]; both begin with a whole block.
    unsafe fn step(self, put: Option<(Chosen, usize)>, ahead: Range<usize>, ahead_words: Words) -> usize {
        let cut = |from: usize, end: usize| from..end.min(from + self.shape.group);
        let (mut chosen, mut next) = (0, cut(ahead.start, ahead.end));
        if let Some((Chosen { items, words, count }, to)) = put {
            let (kept_end, rejected_to) = (to + count, items.start - to);
            let rejected_end = items.end - kept_end;
            let (nothing, coming) = (0..0, 0..0);
            let mut kept = Group { items: nothing, words, invert: 0, to, end: kept_end, coming, coming_words: None };
            let mut rejected = Group { invert: u64::MAX, to: rejected_to, end: rejected_end, ..kept.clone() };
            // Then this thread comes to the places behind these, too, and nobody before it.
            let adjoining = items.end == ahead.start;
            for from in items.clone().step_by(self.shape.group) {
                kept.items = cut(from, items.end);
                rejected.items = kept.items.clone();
                // Chosen before it is put: in place that may write the item before the first of `ahead`.
                if !next.is_empty() {
                    // SAFETY: the caller's items and words.
                    chosen += unsafe { self.choose(next.clone(), ahead_words) };
                }
                if adjoining {
                    kept.end = kept_end + chosen;
                    rejected.end = rejected_end + (next.end - ahead.start - chosen);
                }
                let then = cut(next.end, ahead.end);
                if self.is_beside {
                    (kept.coming, kept.coming_words) = (next, Some(ahead_words));
                } else if !adjoining {
                    // Two streams by turns are more than the processor sees by itself.
                    kept.coming = then.clone();
                }
                next = then;
                // SAFETY: the bits are there. The places up to the ends are this thread's, and it comes to all of them.
                unsafe {
                    let mut count = 0;
                    for column in self.kept {
                        count = column.put(&kept, self.avx2);
                    }
                    for column in self.rejected {
                        column.put(&rejected, self.avx2);
                    }
                    kept.to += count;
                    rejected.to += kept.items.len() - count;
                }
            }
        }
        while !next.is_empty() {
            // SAFETY: the caller's items and words.
            chosen += unsafe { self.choose(next.clone(), ahead_words) };
            if self.is_beside {
                for i in next.clone().step_by(BLOCK) {
                    // SAFETY: the bits are there.
                    let bits = unsafe { ahead_words.of(i).read() };
                    self.kept.iter().for_each(|column| column.expect(i, bits));
                }
            }
            next = cut(next.end, ahead.end);
        }
        chosen
    }

    /// [`compact_in_place`](compact_in_place()).
    ///
    /// A part for each thread is compacted within itself. Then what is left of each part moves down, one part after the
    /// other.
    ///
    /// # Safety
    /// As for that.
    unsafe fn compact_in_place(self, n: usize) -> usize {
        let shape = self.shape;
        if n == 0 {
            return 0;
        }
        if n <= shape.small || rayon::current_num_threads() == 1 {
            // SAFETY: the caller's.
            return unsafe { self.here(0..n, self.head(0, n), 0) };
        }
        let part = n.div_ceil(rayon::current_num_threads()).next_multiple_of(BLOCK).max(shape.tile);
        // The first block of a part may ask for the item before it, which is another thread's as soon as there are any.
        // SAFETY: the caller's items.
        let parts: Vec<_> = (0..n).step_by(part).map(|from| (from, unsafe { self.head(from, n) })).collect();
        let compacted = |(from, head): (usize, u64)| {
            // SAFETY: the part is this thread's, and written within itself.
            (from, unsafe { self.here(from..n.min(from + part), head, from) })
        };
        let runs: Vec<_> = parts.into_par_iter().map(compacted).collect();
        runs.into_iter().fold(0, |to, (from, len)| {
            // SAFETY: the parts before this one have been moved, and what is written ends where this run does.
            unsafe { self.kept[0].move_down(from, to, len) };
            to + len
        })
    }
}

/// Bytes that are worth a thread's start.
const PIECE_BYTES: usize = 64 << 10;

impl Column {
    /// Moves what is in `len` places down, from place `from` to place `to`.
    ///
    /// # Safety
    /// The places are valid for reads and writes, and nobody else touches them.
    unsafe fn move_down(&self, from: usize, to: usize, len: usize) {
        let (len, distance) = (len * self.size, (from - to) * self.size);
        if distance == 0 {
            return;
        }
        // SAFETY: the caller's places.
        let at = |byte: usize| unsafe { self.to.add(to * self.size + byte) };
        if distance.min(len) < 2 * PIECE_BYTES {
            // SAFETY: the caller's.
            return unsafe { std::ptr::copy(at(distance), at(0), len) };
        }
        // As many bytes as the distance do not overlap their places, and leave theirs free for the next.
        for done in (0..len).step_by(distance) {
            let end = len.min(done + distance);
            (done..end).into_par_iter().step_by(PIECE_BYTES).for_each(|i| {
                let len = PIECE_BYTES.min(end - i);
                // SAFETY: as above; threads write places of their own, which no other reads.
                unsafe { at(i).copy_from_nonoverlapping(at(i + distance), len) }
            });
        }
    }
}

/// Whether the machine has what [`avx2`] is compiled for.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

/// Nothing is compiled for vectors here.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_avx2() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    /// For each byte the places of its set bits, in order.
    static PLACES: [[u8; 8]; 256] = {
        let mut places = [[0; 8]; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut bit, mut count) = (0, 0);
            while bit < 8 {
                if byte >> bit & 1 != 0 {
                    places[byte][count] = bit as u8;
                    count += 1;
                }
                bit += 1;
            }
            byte += 1;
        }
        places
    };

    /// For each half byte the same for items of two 32-bit lanes each.
    static PAIRS: [[u32; 8]; 16] = {
        let mut pairs = [[0; 8]; 16];
        let mut half = 0;
        while half < 16 {
            let mut lane = 0;
            while lane < 8 {
                pairs[half][lane] = 2 * PLACES[half][lane / 2] as u32 + lane as u32 % 2;
                lane += 1;
            }
            half += 1;
        }
        pairs
    };

    /// [`Choice::choose`].
    ///
    /// # Safety
    /// As for that; the machine has AVX2.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) unsafe fn choose<B: Bits>(choice: B, items: Range<usize>, invert: u64, words: Words) -> usize {
        // SAFETY: the caller's.
        unsafe { choose_by(choice, items, invert, words) }
    }

    /// [`Column::put`].
    ///
    /// # Safety
    /// As for that; the machine has AVX2.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) unsafe fn put(column: &Column, group: &Group) -> usize {
        // SAFETY: the caller's; the machine has AVX2.
        unsafe { column.put_by::<true>(group) }
    }

    /// The places of the set bits of byte `k`, in the low half, and how many they are.
    ///
    /// # Safety
    /// The machine has AVX2, as for all below.
    #[inline(always)]
    unsafe fn byte(bits: u64, k: usize) -> (__m128i, usize) {
        let byte = (bits >> (8 * k)) as u8;
        // SAFETY: an entry is 8 bytes.
        (unsafe { _mm_loadl_epi64(PLACES[byte as usize].as_ptr().cast()) }, byte.count_ones() as usize)
    }

    /// Squeezes 64 items of 4 bytes together.
    ///
    /// # Safety
    /// `from` is valid for 64 items, `to` for 8 more than bits are set.
    #[inline(always)]
    pub(super) unsafe fn put_4(from: *const u32, bits: u64, mut to: *mut u32) {
        for k in 0..8 {
            // SAFETY: the caller's.
            unsafe {
                let (places, count) = byte(bits, k);
                let items = _mm256_loadu_si256(from.add(8 * k).cast());
                let squeezed = _mm256_permutevar8x32_epi32(items, _mm256_cvtepu8_epi32(places));
                _mm256_storeu_si256(to.cast(), squeezed);
                to = to.add(count);
            }
        }
    }

    /// The same for items of 8 bytes.
    ///
    /// # Safety
    /// As for [`put_4`].
    #[inline(always)]
    pub(super) unsafe fn put_8(from: *const u64, bits: u64, mut to: *mut u64) {
        for k in 0..16 {
            let half = (bits >> (4 * k)) as usize & 15;
            // SAFETY: the caller's.
            unsafe {
                let items = _mm256_loadu_si256(from.add(4 * k).cast());
                let places = _mm256_loadu_si256(PAIRS[half].as_ptr().cast());
                _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(items, places));
                to = to.add(half.count_ones() as usize);
            }
        }
    }

    /// The same for items of 1 byte.
    ///
    /// # Safety
    /// As for [`put_4`].
    #[inline(always)]
    pub(super) unsafe fn put_1(from: *const u8, bits: u64, mut to: *mut u8) {
        for k in 0..8 {
            // SAFETY: the caller's.
            unsafe {
                let (places, count) = byte(bits, k);
                let items = _mm_loadl_epi64(from.add(8 * k).cast());
                _mm_storel_epi64(to.cast(), _mm_shuffle_epi8(items, places));
                to = to.add(count);
            }
        }
    }

    /// The same for items of 2 bytes.
    ///
    /// # Safety
    /// As for [`put_4`].
    #[inline(always)]
    pub(super) unsafe fn put_2(from: *const u16, bits: u64, mut to: *mut u16) {
        for k in 0..8 {
            // SAFETY: the caller's.
            unsafe {
                let (places, count) = byte(bits, k);
                let items = _mm_loadu_si128(from.add(8 * k).cast());
                // Place p becomes the bytes 2 p and 2 p + 1.
                let places = _mm_mullo_epi16(_mm_cvtepu8_epi16(places), _mm_set1_epi16(0x0202));
                let places = _mm_add_epi16(places, _mm_set1_epi16(0x0100));
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(items, places));
                to = to.add(count);
            }
        }
    }

    /// Writes the numbers, from `i` on, of those of 64 items whose bits are set.
    ///
    /// # Safety
    /// `to` is valid for 8 more than bits are set.
    #[inline(always)]
    pub(super) unsafe fn number_4(i: u32, bits: u64, mut to: *mut u32) {
        for k in 0..8 {
            // SAFETY: the caller's.
            unsafe {
                let (places, count) = byte(bits, k);
                let first = _mm256_set1_epi32(i.wrapping_add(8 * k as u32) as i32);
                _mm256_storeu_si256(to.cast(), _mm256_add_epi32(first, _mm256_cvtepu8_epi32(places)));
                to = to.add(count);
            }
        }
    }

    /// The same in 8 bytes.
    ///
    /// # Safety
    /// As for [`number_4`].
    #[inline(always)]
    pub(super) unsafe fn number_8(i: u64, bits: u64, mut to: *mut u64) {
        for k in 0..8 {
            // SAFETY: the caller's.
            unsafe {
                let (places, count) = byte(bits, k);
                let first = _mm256_set1_epi64x((i + 8 * k as u64) as i64);
                let upper = _mm_srli_si128::<4>(places);
                _mm256_storeu_si256(to.cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(places)));
                _mm256_storeu_si256(to.add(4).cast(), _mm256_add_epi64(first, _mm256_cvtepu8_epi64(upper)));
                to = to.add(count);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use bytemuck::{bytes_of, bytes_of_mut, cast_slice};
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::{
            LazyLock,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    fn noise(n: usize, seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..n).map(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
    }

    /// How a test runs.
    #[derive(Clone, Copy)]
    struct Case {
        /// The own one of the types if there is none here.
        shape: Option<Shape>,
        avx2: bool,
    }

    impl Case {
        fn steps<'a>(
            self,
            choice: &'a dyn Choice,
            complement: bool,
            kept: &'a [Column],
            rejected: &'a [Column],
        ) -> Steps<'a> {
            let steps = Steps::new(choice, complement, kept, rejected);
            Steps { shape: self.shape.unwrap_or(steps.shape), avx2: self.avx2, ..steps }
        }
    }

    /// On pools of 1, 2 and 3 threads, with tiny tiles and with the types' own, by vectors and without.
    fn on_all(run: impl Fn(Case) + Sync) {
        static POOLS: LazyLock<[rayon::ThreadPool; 3]> =
            LazyLock::new(|| [1, 2, 3].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap()));
        let tiny = Shape { tile: 192, chunk: 128, group: 64, small: 0 };
        let small = Shape { small: usize::MAX, chunk: 64, ..tiny };
        let one_block = Shape { tile: 64, chunk: 64, ..tiny };
        let groups = Shape { tile: 320, chunk: 320, group: 128, small: 0 };
        for pool in &*POOLS {
            for shape in [Some(tiny), Some(small), Some(one_block), Some(groups), None] {
                for avx2 in [false, true] {
                    if !avx2 || has_avx2() {
                        pool.install(|| run(Case { shape, avx2 }));
                    }
                }
            }
        }
    }

    /// A predicate that changes its mind with every call is asked once for each item.
    #[test]
    fn what_is_recorded_is_asked_once() {
        for n in [0, 1, 63, 64, 65, 1000, if cfg!(miri) { 2000 } else { 600_001 }] {
            let items: Vec<u32> = noise(n, 7).map(|z| (z >> 20) as u32).collect();
            let asked = AtomicUsize::new(0);
            let keeps = |x: u32| {
                asked.fetch_add(1, Relaxed);
                x.is_multiple_of(3)
            };
            for complement in [false, true] {
                asked.store(0, Relaxed);
                let choice = ByPredicate { items: items.as_ptr(), keeps: &keeps };
                // SAFETY: the choice looks at n items.
                let (words, count) = unsafe { recorded(n, &choice, complement) };
                assert_eq!(asked.load(Relaxed), n);
                let bit = |i: usize| words[i / BLOCK] >> (i % BLOCK) & 1 == 1;
                assert!((0..n).all(|i| bit(i) == (items[i].is_multiple_of(3) != complement)));
                assert_eq!((0..n).filter(|&i| bit(i)).count(), count);
            }
        }
    }

    fn lengths() -> &'static [usize] {
        if cfg!(miri) {
            &[0, 1, 65, 300]
        } else {
            &[0, 1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 384, 1000, 5000]
        }
    }

    /// Which of `n` items are kept: of every kind.
    fn patterns(n: usize, seed: u64) -> Vec<Vec<bool>> {
        let share = |percent: u64| noise(n, seed + percent).map(|z| (z >> 33) % 100 < percent).collect();
        let mut runs = vec![];
        for (k, z) in noise(n, seed).enumerate() {
            runs.extend((0..(z >> 40) % 300).map(|_| k % 2 == 1));
            if runs.len() >= n {
                break;
            }
        }
        runs.resize(n, true);
        vec![share(0), share(1), share(10), share(50), share(99), share(100), runs]
    }

    /// Items of any bytes whose lowest bit says whether they are kept.
    fn marked<T: Pod>(keep: &[bool], seed: u64) -> Vec<T> {
        let mut bytes = noise(keep.len() * size_of::<T>(), seed).map(|z| (z >> 32) as u8);
        let mut make = |&keep: &bool| {
            let mut item = T::zeroed();
            for byte in bytes_of_mut(&mut item) {
                *byte = bytes.next().unwrap();
            }
            bytes_of_mut(&mut item)[0] = (bytes_of(&item)[0] & !1) | u8::from(keep);
            item
        };
        keep.iter().map(&mut make).collect()
    }

    fn is_marked<T: Pod>(item: T) -> bool {
        bytes_of(&item)[0] & 1 != 0
    }

    /// A place for `len` items with a guard on either side.
    struct Guarded<T> {
        all: Vec<T>,
        guard: T,
    }

    impl<T: Pod> Guarded<T> {
        fn new(len: usize) -> Self {
            let mut guard = T::zeroed();
            bytes_of_mut(&mut guard).fill(0xa5);
            Guarded { all: vec![guard; len + 2], guard }
        }

        fn at(&mut self) -> *mut T {
            self.all[1..].as_mut_ptr()
        }

        #[track_caller]
        fn is(&self, expected: &[T]) {
            let bytes = |items: &[T]| cast_slice::<T, u8>(items).to_vec();
            assert_eq!(bytes(&self.all[1..=expected.len()]), bytes(expected));
            let untouched = self.all[..1].iter().chain(&self.all[expected.len() + 1..]);
            assert!(untouched.into_iter().all(|item| bytes_of(item) == bytes_of(&self.guard)), "a guard is gone");
        }
    }

    /// Every choice and every form, on items of one type.
    fn check<T: Pod + Send + Sync>() {
        for &n in lengths() {
            for (case, keep) in patterns(n, n as u64).into_iter().enumerate() {
                let items: Vec<T> = marked(&keep, (n + case) as u64);
                let flags: Vec<u8> =
                    keep.iter().zip(noise(n, 3)).map(|(&keep, z)| if keep { 1 << (z >> 61) } else { 0 }).collect();
                let take = |wanted: bool| items.iter().copied().filter(move |&item| is_marked(item) == wanted);
                let (kept, rejected): (Vec<T>, Vec<T>) = (take(true).collect(), take(false).collect());
                let numbers: Vec<u32> = (0..n as u32).filter(|&i| keep[i as usize]).collect();
                let long_numbers: Vec<u64> = numbers.iter().map(|&i| u64::from(i)).collect();
                on_all(|case| {
                    let from = items.as_ptr();
                    let by_predicate = ByPredicate { items: from, keeps: is_marked::<T> };
                    let by_flags = ByFlags { flags: flags.as_ptr() };

                    let mut out = Guarded::new(kept.len());
                    let columns = [Column::array(from, out.at())];
                    // SAFETY: n items each, and places for those that are kept.
                    let count = unsafe { case.steps(&by_predicate, false, &columns, &[]).compact(n) };
                    assert_eq!(count, kept.len());
                    out.is(&kept);

                    let (mut out, mut others) = (Guarded::new(kept.len()), Guarded::new(rejected.len()));
                    let (mut short, mut long) = (Guarded::new(kept.len()), Guarded::new(kept.len()));
                    let numbers_columns = [Column::indices::<u32>(short.at()), Column::indices::<u64>(long.at())];
                    let columns = [Column::array(from, out.at()), numbers_columns[0], numbers_columns[1]];
                    let others_columns = [Column::array(from, others.at())];
                    // SAFETY: as above.
                    let count = unsafe { case.steps(&by_flags, false, &columns, &others_columns).compact(n) };
                    assert_eq!(count, kept.len());
                    out.is(&kept);
                    others.is(&rejected);
                    short.is(&numbers);
                    long.is(&long_numbers);

                    let mut out = Guarded::new(rejected.len());
                    let columns = [Column::array(from, out.at())];
                    // SAFETY: as above.
                    let count = unsafe { case.steps(&by_flags, true, &columns, &[]).compact(n) };
                    assert_eq!(count, rejected.len());
                    out.is(&rejected);

                    for by_flag in [false, true] {
                        for complement in [false, true] {
                            let mut out = Guarded::new(n);
                            out.all[1..=n].copy_from_slice(&items);
                            let within = [Column::array(out.at().cast_const(), out.at())];
                            let choice = ByPredicate { items: out.at().cast_const(), keeps: is_marked::<T> };
                            let choice: &dyn Choice = if by_flag { &by_flags } else { &choice };
                            // SAFETY: n items, and a predicate on the same ones.
                            let count = unsafe { case.steps(choice, complement, &within, &[]).compact_in_place(n) };
                            let expected = if complement { &rejected } else { &kept };
                            assert_eq!(count, expected.len());
                            out.all[1 + count..=n].fill(out.guard);
                            out.is(expected);
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn every_type_agrees_with_a_filter() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
        check::<f32>();
        check::<[u8; 3]>();
        check::<[u32; 3]>();
        check::<u128>();
        check::<[u64; 5]>();
    }

    /// A loop each for some sizes, and one for all others.
    #[test]
    fn every_size_agrees_with_a_filter() {
        let n = 700;
        for size in if cfg!(miri) { vec![0, 5, 16, 17] } else { (0..=40).collect::<Vec<_>>() } {
            for keep in patterns(n, size as u64) {
                let flags: Vec<u8> = keep.iter().map(|&keep| u8::from(keep)).collect();
                let bytes: Vec<u8> = noise(n * size, 5).map(|z| (z >> 32) as u8).collect();
                let take = |wanted: bool| -> Vec<u8> {
                    (0..n)
                        .filter(|&i| keep[i] == wanted)
                        .flat_map(|i| &bytes[i * size..(i + 1) * size])
                        .copied()
                        .collect()
                };
                let (kept, rejected) = (take(true), take(false));
                on_all(|case| {
                    let column = |from: *const u8, to: *mut u8| Column { what: What::Array(from), size, to };
                    let by_flags = ByFlags { flags: flags.as_ptr() };
                    let (mut out, mut others) = (Guarded::new(kept.len()), Guarded::new(rejected.len()));
                    let mut within = Guarded::new(n * size);
                    within.all[1..=n * size].copy_from_slice(&bytes);
                    let from = bytes.as_ptr();
                    let (columns, others_columns) = ([column(from, out.at())], [column(from, others.at())]);
                    let same = [column(within.at().cast_const(), within.at())];
                    // SAFETY: n items each, and places for those that are kept and for those that are not.
                    unsafe {
                        let count = case.steps(&by_flags, false, &columns, &others_columns).compact(n);
                        assert_eq!(count, flags.iter().filter(|&&flag| flag != 0).count());
                        assert_eq!(case.steps(&by_flags, false, &same, &[]).compact_in_place(n), count);
                    }
                    out.is(&kept);
                    others.is(&rejected);
                    within.all[1 + kept.len()..=n * size].fill(within.guard);
                    within.is(&kept);
                });
            }
        }
    }

    #[test]
    fn places_begin_later() {
        let (flags, items) = ([1_u8, 0, 1], [[1_u16, 2, 3], [4, 5, 6], [7, 8, 9]]);
        let (mut out, mut numbers) = ([[0; 3]; 4], [0_u32; 4]);
        let columns = [Column::array(items.as_ptr(), out.as_mut_ptr()), Column::indices(numbers.as_mut_ptr())];
        let columns = columns.map(|column| column.at_place(2));
        // SAFETY: three items, and places for two from the third on.
        assert_eq!(unsafe { compact(3, &ByFlags { flags: flags.as_ptr() }, false, &columns, &[]) }, 2);
        assert_eq!((out, numbers), ([[0; 3], [0; 3], [1, 2, 3], [7, 8, 9]], [0, 0, 0, 2]));
    }

    #[test]
    fn words_agree_with_a_filter() {
        for &n in lengths() {
            for keep in patterns(n, n as u64 + 1000) {
                let numbers: Vec<u64> = (0..n as u64).filter(|&i| keep[i as usize]).collect();
                // What is past the last item is set.
                let bit = |i: usize| keep.get(i).copied().unwrap_or(true);
                let short: Vec<u32> = (0..n.div_ceil(32))
                    .map(|w| (0..32).fold(0, |word, j| word | u32::from(bit(32 * w + j)) << j))
                    .collect();
                let long: Vec<u64> = (0..n.div_ceil(64))
                    .map(|w| (0..64).fold(0, |word, j| word | u64::from(bit(64 * w + j)) << j))
                    .collect();
                on_all(|case| {
                    let (by_short, by_long) = (ByWords { words: short.as_ptr() }, ByWords { words: long.as_ptr() });
                    let (mut a, mut b) = (Guarded::new(numbers.len()), Guarded::new(numbers.len()));
                    let (to_a, to_b) = ([Column::indices::<u64>(a.at())], [Column::indices::<u64>(b.at())]);
                    // SAFETY: words for n items, and places for those that are kept.
                    unsafe {
                        assert_eq!(case.steps(&by_short, false, &to_a, &[]).compact(n), numbers.len());
                        assert_eq!(case.steps(&by_long, false, &to_b, &[]).compact(n), numbers.len());
                    }
                    a.is(&numbers);
                    b.is(&numbers);
                });
            }
        }
    }

    fn check_distinct<T: Pod + Send + Sync + PartialEq>(make: impl Fn(u64) -> T) {
        for &n in lengths() {
            // How long runs are: of some items, none, and about all.
            for odds in [1, 2, 3, 50, u64::MAX] {
                let mut value = 1;
                let items: Vec<T> = noise(n, n as u64 + (odds & 63))
                    .map(|z| {
                        value += u64::from((z >> 20) % odds == 0);
                        make(value)
                    })
                    .collect();
                let mut expected = items.clone();
                expected.dedup();
                on_all(|case| {
                    let from = items.as_ptr();
                    let (mut out, mut within) = (Guarded::new(expected.len()), Guarded::new(n));
                    within.all[1..=n].copy_from_slice(&items);
                    let to = [Column::array(from, out.at())];
                    let same = [Column::array(within.at().cast_const(), within.at())];
                    let (choice, within_choice) =
                        (Distinct { items: from }, Distinct { items: within.at().cast_const() });
                    // SAFETY: n items, and places for those that are kept.
                    unsafe {
                        let count = case.steps(&choice, false, &to, &[]).compact(n);
                        assert_eq!(count, expected.len());
                        let count = case.steps(&within_choice, false, &same, &[]).compact_in_place(n);
                        assert_eq!(count, expected.len());
                    }
                    out.is(&expected);
                    within.all[1 + expected.len()..=n].fill(within.guard);
                    within.is(&expected);
                });
            }
        }
    }

    #[test]
    fn distinct_agrees_with_dedup() {
        check_distinct(|z| z as u8);
        check_distinct(|z| z as u32);
        check_distinct(|z| z);
        check_distinct(|z| [z as u32, 0, 7]);
        // Not a number is different from itself.
        check_distinct(|z| if z % 3 == 0 { f32::NAN } else { z as f32 });
    }

    /// Tiles and chunks of their own sizes, through the functions that others call.
    #[test]
    fn full_tiles_agree_with_a_filter() {
        if cfg!(miri) {
            return;
        }
        fn check<T: Pod + Send + Sync>() {
            let n = 3 * TILE_BYTES / size_of::<T>() + 4711;
            for (case, keep) in patterns(n, 11).into_iter().enumerate() {
                let items: Vec<T> = marked(&keep, case as u64);
                let (kept, rejected): (Vec<T>, Vec<T>) = items.iter().copied().partition(|&item| is_marked(item));
                for threads in [1, 2, 3] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let (mut out, mut others) = (Guarded::new(kept.len()), Guarded::new(rejected.len()));
                    let mut within = Guarded::new(n);
                    within.all[1..=n].copy_from_slice(&items);
                    let choice = ByPredicate { items: items.as_ptr(), keeps: is_marked::<T> };
                    let columns = [Column::array(items.as_ptr(), out.at())];
                    let others_columns = [Column::array(items.as_ptr(), others.at())];
                    let same = Column::array(within.at().cast_const(), within.at());
                    let within_choice = ByPredicate { items: within.at().cast_const(), keeps: is_marked::<T> };
                    pool.install(|| {
                        // SAFETY: n items each, and places for those that are kept and for those that are not.
                        unsafe {
                            assert_eq!(compact(n, &choice, false, &columns, &others_columns), kept.len());
                            assert_eq!(compact(n, &choice, true, &others_columns, &columns), rejected.len());
                            assert_eq!(compact_in_place(n, &within_choice, false, same), kept.len());
                        }
                    });
                    out.is(&kept);
                    others.is(&rejected);
                    within.all[1 + kept.len()..=n].fill(within.guard);
                    within.is(&kept);
                }
            }
        }
        check::<u8>();
        check::<u32>();
        check::<u64>();
        check::<[u32; 3]>();
    }

    #[test]
    fn an_item_is_chosen_once() {
        for n in [1, 100, 1000] {
            let items: Vec<u32> = (0..n as u32).collect();
            on_all(|case| {
                let (asked, mut out) = (AtomicUsize::new(0), vec![0; n]);
                let keeps = |item: u32| asked.fetch_add(1, Relaxed) < n && item.is_multiple_of(2);
                let choice = ByPredicate { items: items.as_ptr(), keeps };
                let kept = [Column::array(items.as_ptr(), out.as_mut_ptr())];
                // SAFETY: n items, and places for all.
                assert_eq!(unsafe { case.steps(&choice, false, &kept, &[]).compact(n) }, n.div_ceil(2));
                assert_eq!(asked.swap(0, Relaxed), n);
                let (mut items, asked) = (items.clone(), &asked);
                let keeps = |item: u32| asked.fetch_add(1, Relaxed) < n && item.is_multiple_of(2);
                let items = items.as_mut_ptr();
                let choice = ByPredicate { items: items.cast_const(), keeps };
                let kept = [Column::array(items.cast_const(), items)];
                // SAFETY: n items.
                assert_eq!(unsafe { case.steps(&choice, false, &kept, &[]).compact_in_place(n) }, n.div_ceil(2));
                assert_eq!(asked.load(Relaxed), n);
            });
        }
    }

    #[test]
    fn a_panic_of_the_predicate_reaches_the_caller() {
        let n = 1000;
        let items: Vec<u32> = (0..n as u32).collect();
        for bad in [0, 500, 999] {
            on_all(|case| {
                let (mut out, mut within) = (vec![0; n], items.clone());
                let keeps = move |item: u32| if item == bad { panic!("as asked") } else { item.is_multiple_of(3) };
                let choice = ByPredicate { items: items.as_ptr(), keeps };
                let kept = [Column::array(items.as_ptr(), out.as_mut_ptr())];
                // SAFETY: n items, and places for all.
                let run = || unsafe { case.steps(&choice, false, &kept, &[]).compact(n) };
                assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
                let within = within.as_mut_ptr();
                let kept = [Column::array(within.cast_const(), within)];
                let choice = ByPredicate { items: within.cast_const(), keeps };
                // SAFETY: as above.
                let run = || unsafe { case.steps(&choice, false, &kept, &[]).compact_in_place(n) };
                assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            });
        }
    }

    #[test]
    fn bytes_are_packed() {
        for z in noise(200, 8) {
            let bytes = std::array::from_fn(|j| (z >> j & 1) as u8);
            assert_eq!(packed(bytes), z);
        }
    }
}
