//! Sort: keys, keys with a payload, or source indices, in ascending or descending order.

use super::arguments::{Index, countable, long_enough};
use super::sort_engines::{
    How, IndexBase, Keys, NAME, Payload, Segments, lengths_of_programs, movable, not_too_long, prepare_payload,
    same_length, sort_on_either,
};
use crate::cuda::sort::{BOTH_KEYS, SECOND_KEYS, SortProgram};
use crate::cuda::{KeyKind, Machine};
use crate::site::{AnySite, Anywhere, Site, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Place, Source, Workspace};
use bytemuck::Pod;
use half::{bf16, f16};
use std::marker::PhantomData;
use std::ops::Range;

/// A type of sort keys: `f32`, `f64`, `f16`, `bf16`, `i8` to `i64`, `u8` to `u64`, `usize` or
/// `isize`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of keys that can be sorted",
    label = "not a `SortKey`",
    note = "keys are f32, f64, f16, bf16, i8 to i64, u8 to u64, usize, isize; to sort records by a field, sort the fields with the records as payload"
)]
pub trait SortKey: Element {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    const KIND: KeyKind;
}
macro_rules! keys {
    ($($kind:expr => $($t:ident)*;)*) => { $($(
        #[allow(private_interfaces)]
        impl SortKey for $t {
            const KIND: KeyKind = $kind;
        }
    )*)* };
}
keys! {
    KeyKind::Unsigned => u8 u16 u32 u64 usize;
    KeyKind::Signed => i8 i16 i32 i64 isize;
    KeyKind::Float { mantissa: f16::MANTISSA_DIGITS - 1 } => f16;
    KeyKind::Float { mantissa: bf16::MANTISSA_DIGITS - 1 } => bf16;
    KeyKind::Float { mantissa: f32::MANTISSA_DIGITS - 1 } => f32;
    KeyKind::Float { mantissa: f64::MANTISSA_DIGITS - 1 } => f64;
}

/// Sorts keys `K` in ascending order; stable.
///
/// Returns a builder; [`Sort`] lists its options, the order, cost and memory.
///
/// # Example
/// ```
/// use parascan::sort;
///
/// assert_eq!(sort::<i32>().run(&[3, -1, 2])?, [-1, 2, 3]);
/// assert_eq!(sort::<f32>().descending().run(&[0.5, 2.0, -1.0])?, [2.0, 0.5, -1.0]);
/// // The source index of each key of the sorted order.
/// assert_eq!(sort::<u8>().indices::<u32, _>(b"cab")?, [1, 2, 0]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn sort<K: SortKey>() -> Sort<K> {
    Sort { descending: false, bits: None, site: Anywhere, key: PhantomData }
}

/// A stable sort of keys `K`: its options, and the calls that run it. Made by [`sort()`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Sort::run), [`run_into`](Sort::run_into) | keys |
/// | [`run_in_place`](Sort::run_in_place) | keys, in place |
/// | [`run_pairs`](Sort::run_pairs), [`run_pairs_into`](Sort::run_pairs_into) | keys with payload |
/// | [`run_pairs_in_place`](Sort::run_pairs_in_place) | keys with payload, in place |
/// | [`indices`](Sort::indices), [`indices_into`](Sort::indices_into) | source indices in order |
/// | [`run_lexicographic_in_place`](Sort::run_lexicographic_in_place) | rows of two keys |
/// | [`run_in_place_with_buffer`](Sort::run_in_place_with_buffer) | keys, in a caller's buffer |
///
/// # Order
/// - Integers are ordered by value.
/// - Floats are ordered by IEEE 754's totalOrder, with one exception: NaNs whose sign is set come
///   last, after all other NaNs. So -0 comes before +0, and all NaNs come after all numbers.
/// - Two keys are equal only if their bits are.
/// - [`descending`](Sort::descending) reverses this order, so NaNs come first.
/// - Both orders are stable: payloads of equal keys keep their order, where keys are equal if the
///   [compared bits](Sort::bits) are.
///
/// # Payload
/// Plain data of 1 byte to 16 MiB an item.
///
/// On the device words of 4 or 8 bytes move with the keys, so a payload of these sizes. Another one of less than 8
/// bytes, or at an address that is not a multiple of its size, becomes the shortest such words that hold it before the
/// sort, and items again after it. A longer one is gathered after a sort of its source indices, which are words of 4
/// bytes up to 2^32 keys. On the host 1 to 16 bytes move with the keys, and more are gathered.
///
/// # Cost
/// The algorithm on the device for n keys of b bytes with words of p bytes (0 without a payload) is
/// the first row that applies. Buckets are sorted in shared memory:
///
/// | keys | algorithm | bytes moved |
/// |---|---|---|
/// | some thousands, at most | one block sorts all in shared memory | 2 n (b + p) |
/// | b = 1, or b = 2 and 2^20 ≤ n < 2^32; all bits, keys only | counting sort | 2 n b |
/// | b = 4 or 8, all bits, n ≤ 2^22 (b = 8: 2^21) | one scatter step to buckets | 4 n (b + p) |
/// | b = 4 or 8, all bits, n ≤ 2^23 (with words 8 · 10^6; b = 8: half as many), spread by bits or range | the same | 4 n (b + p) |
/// | b = 4 or 8, all bits, n ≤ 10^9 (b = 8: 6 · 10^8) | two scatter steps to buckets | n (b + 6 (b + p)) |
/// | all others | least-significant-digit radix sort, 8 bits a pass | n (b + 2 passes (b + p)) |
///
/// A payload of q bytes that becomes words moves 2 n (p + q) bytes more, and one that is gathered n (p + 2 q), n q of
/// them at random addresses; in place 2 n (b + q) more.
///
/// The device finds these exceptions in the keys, and the host waits for none of them:
///
/// - Frequent keys of 4 or 8 bytes, at most 120 distinct ones, are counted and written, not sorted:
///   by one scatter step n (2 b + 4 p) bytes, by two n (3 b + 2 p), in place n (3 b + 4 p).
/// - Skewed keys: a sample of the keys chooses the buckets. Passes sort all keys if no choice for
///   one scatter step spreads them, or if a bucket overflows. Two scatter steps take any keys whose
///   buckets fit shared memory; passes sort the part of the output from the first bucket that does
///   not fit to the last one. If that part is more than 3/8 of all keys (b = 8: 1/2), passes sort
///   all. Each process draws the seed of the positions that samples read, so no input can be made
///   for them. The time for skewed keys may differ between processes; the result does not.
/// - A pass is skipped if all keys have the same digit.
///
/// The limits of the table hold on devices with 227 KiB of shared memory for a block, such as the
/// H100. Words of 8 bytes lower the upper limits. On devices with less shared memory they are 2^20, and 1.5 to 3 · 10^8.
///
/// On the host: most-significant-digit radix sort, until a part fits the cache.
///
/// # Memory
/// Keys and payload move between two arrays. A call needs this much scratch memory besides its
/// arguments; on the device the [workspace](Sort::workspace) keeps it, and
/// [`Workspace::bytes`] says how much that is after [`prepare`](Sort::prepare).
///
/// | call | scratch bytes |
/// |---|---|
/// | `run`, `run_into`, `run_in_place`, the `run_pairs` calls; on the host p is the payload's size | n (b + p) |
/// | the same on the device, for a payload that becomes words | n (b + 3 p), in place n (b + 2 p) |
/// | the same on the device, for a payload of q bytes that is gathered | n (b + 2 p), in place n (2 b + 2 p + q) |
/// | the same on the host, for a payload of q > 16 bytes | n (b + 16), in place n (b + 16 + q) |
/// | `run_in_place_with_buffer` | none of the keys' size |
/// | `indices`, `indices_into`, with indices of i bytes | n (2 b + i) |
///
/// On the host each thread of a sort by several adds up to 1.75 MiB: two buffers for the items of a bucket, write
/// buffers and counters.
/// On the device 0.1 to 70 MiB are added, of which one scatter step for 10^5 to 8 · 10^6 keys takes
/// 3 to 46 MiB. Words add 2 to 4 KiB for each tile of 2560 to 8704 keys. Where the keys take one scatter step, words
/// add 5 p bytes and more for each key, 84 MiB for 2^22 keys with words of 4 bytes, and for more keys up to 32 MiB.
/// One block needs no scratch memory but for what becomes words or is gathered, and a counting sort none of the keys'
/// size.
///
/// # Waiting
/// On the device every call returns when the work is on the stream, and none waits for it. The
/// first sort of a key type and words in a process loads kernels: it waits for the driver,
/// and for the compiler if the kernels are not embedded.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Length`] | keys and output, or indices, differ in length |
/// | [`Error::Size`] | a payload, its output or a second buffer shorter than the keys |
/// | [`Error::ItemSize`] | a payload of no bytes, or of more than 16 MiB |
/// | [`Error::Bits`] | bits that keys do not have |
/// | [`Error::TooLong`] | more keys than the index type counts, or on the device more than 2^40, or 2^56 bytes of payload |
/// | [`Error::OutOfMemory`] | memory |
/// | as for a [`Scan`](crate::Scan) | device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error, with one exception. A sort on the device
/// makes several launches. If the driver refuses a later one ([`Error::Driver`]), the contents of
/// the output and of a second buffer are unspecified; in place these are the keys and the payload.
/// Length zero is valid.
///
/// # Source
/// - Passes: Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs"
///   (2022).
/// - Buckets: Stehle and Jacobsen, "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs" (2017).
/// - Buckets of frequent keys: Sanders and Winkel, "Super Scalar Sample Sort" (2004).
/// - On the host, one partition and then the cache: Polychroniou and Ross, "A Comprehensive Study of
///   Main-Memory Partitioning" (2014). Write-combining buffers: Satish et al., "Fast Sort on CPUs
///   and GPUs" (2010).
#[derive(Debug)]
#[must_use = "nothing is sorted until it is run"]
pub struct Sort<K, S = Anywhere> {
    pub(super) descending: bool,
    /// The first compared bit and the one after the last; `None` compares all.
    pub(super) bits: Option<[u32; 2]>,
    pub(super) site: S,
    pub(super) key: PhantomData<fn() -> K>,
}
site_methods! { impl[K: SortKey] Sort<K; S> { descending, bits, key } }
len_method! {
    /// ```
    /// # use parascan::sort;
    /// let mut keys = [5, 2, 9, 1];
    /// sort::<i32>().len(&[3]).run_in_place(&mut keys)?;
    /// assert_eq!(keys, [2, 5, 9, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[K: SortKey] Sort<K; S> { descending, bits, key }
}

// ---- options

impl<K: SortKey, S> Sort<K, S> {
    /// Descending order: the greatest key first. Stable.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut names) = ([1, 2, 1], *b"abc");
    /// sort::<u64>().descending().run_pairs_in_place(&mut keys, &mut names)?;
    /// assert_eq!((keys, names), ([2, 1, 1], *b"bac"));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Compares only these bits of a key; bit 0 is the least significant one. Fewer bits are fewer
    /// passes.
    ///
    /// The bits are those of the unsigned integer that orders as the keys do: an unsigned key
    /// itself, a signed one with its sign bit flipped, and for a float the unsigned integer of its
    /// size with the float's rank.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<u32>().bits(4..8).run(&[0x31, 0x19, 0x2f, 0x10])?, [0x19, 0x10, 0x2f, 0x31]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn bits(mut self, bits: Range<u32>) -> Self {
        self.bits = Some([bits.start, bits.end]);
        self
    }
}

// ---- prepare

impl<K: SortKey, S: AnySite> Sort<K, S> {
    /// Loads the kernels and grows the workspace for [`run_into`](Sort::run_into) and the calls in
    /// place without a payload, of up to `n` keys by the same bits.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// # Errors
    /// [`Error::Bits`], [`Error::Capturing`] if the stream is being captured, and those of the
    /// driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        Self::prepare_for::<()>(self.range()?, n, SECOND_KEYS, workspace)
    }

    /// [`prepare`](Sort::prepare) for keys with a payload of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare), and [`Error::ItemSize`].
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        movable::<V>()?;
        Self::prepare_for::<V>(self.range()?, n, SECOND_KEYS, workspace)
    }

    /// [`prepare`](Sort::prepare) for [`indices_into`](Sort::indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare), and [`Error::TooLong`].
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        countable::<I>(NAME, n)?;
        Self::prepare_for::<I>(self.range()?, n, BOTH_KEYS, workspace)
    }

    /// [`prepare`](Sort::prepare) for
    /// [`run_lexicographic_in_place`](Sort::run_lexicographic_in_place) with second keys of type
    /// `L`.
    ///
    /// # Errors
    /// As for [`prepare`](Sort::prepare).
    pub fn prepare_lexicographic<L: SortKey>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let all = 0..8 * size_of::<L>() as u32;
        Sort::<L, S>::prepare_for::<K>(all, n, SECOND_KEYS, workspace)?;
        self.prepare_pairs::<L>(n, workspace)
    }

    fn prepare_for<V: Pod>(
        bits: Range<u32>,
        n: usize,
        missing: [bool; 2],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        not_too_long(n)?;
        let device = Submit::prepare(NAME, workspace)?;
        let mut most = 0;
        for n in lengths_of_programs::<V>(n) {
            let program = SortProgram::new::<K, V>(n).counted(S::IS_COUNTED);
            let up_to = |machine: &Machine| program.kernels_up_to(n, &bits, machine);
            let kernels = program.load(&device, &up_to)?;
            let machine = kernels.machine();
            kernels.require(&up_to(machine))?;
            let beside = prepare_payload::<K, V>(n, &device)?;
            most = most.max(program.scratch_up_to(n, &bits, missing, machine) + beside);
        }
        workspace.reserve(NAME, 0, most).map(|_| ())
    }

    /// # Errors
    /// [`Error::Bits`].
    pub(super) fn range(&self) -> Result<Range<u32>, Error> {
        let width = 8 * size_of::<K>() as u32;
        let [start, end] = self.bits.unwrap_or([0, width]);
        if start > end || end > width {
            Err(Error::Bits { primitive: NAME, start, end, width })
        } else {
            Ok(start..end)
        }
    }
}

// ---- running

impl<K: SortKey, S> Sort<K, S> {
    /// Returns the sorted keys in new memory: a `Vec` or a `CudaSlice`.
    pub fn run<X>(self, keys: &X) -> Result<X::Owned, Error>
    where
        X: Source<K> + ?Sized,
        S: Site<X::Place>,
    {
        let view = keys.view();
        let mut sorted = keys.allocate(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.dispatch::<X::Place, ()>(Keys::Into(view, X::view_owned(&mut sorted)), Payload::None)?;
        Ok(sorted)
    }

    /// Writes the sorted keys into the caller's memory, as long as the keys.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut sorted = [0; 3];
    /// sort::<u16>().run_into(&[5, 9, 1], &mut sorted)?;
    /// assert_eq!(sorted, [1, 5, 9]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<X, O>(self, keys: &X, sorted: &mut O) -> Result<(), Error>
    where
        X: Source<K> + ?Sized,
        O: Destination<K, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.dispatch::<X::Place, ()>(Keys::Into(keys.view(), sorted.view_mut()), Payload::None)
    }

    /// Sorts the keys in place, with scratch memory of the same size.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut keys = [f64::NAN, 1.0, f64::NEG_INFINITY, 0.0, -0.0];
    /// sort::<f64>().run_in_place(&mut keys)?;
    /// assert!(keys[4].is_nan());
    /// assert_eq!(format!("{:?}", &keys[..4]), "[-inf, -0.0, 0.0, 1.0]");
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X>(self, keys: &mut X) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        self.dispatch::<<X as Source<K>>::Place, ()>(Keys::InPlace(keys.view_mut(), None), Payload::None)
    }

    /// Sorts the keys in place, with a second buffer of the caller's that is at least as long.
    ///
    /// Keys move between the two and end in the first, so no scratch memory of their size is
    /// needed. The contents of the second buffer are unspecified afterwards.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut second) = ([3_i8, -2, 1], [0; 3]);
    /// sort::<i8>().run_in_place_with_buffer(&mut keys, &mut second)?;
    /// assert_eq!(keys, [-2, 1, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place_with_buffer<X, Y>(self, keys: &mut X, second: &mut Y) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Destination<K, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let (keys, second) = (keys.view_mut(), second.view_mut());
        long_enough(NAME, "the second buffer", second.len(), keys.len())?;
        self.dispatch::<<X as Source<K>>::Place, ()>(Keys::InPlace(keys, Some(second)), Payload::None)
    }

    /// Returns the sorted keys, and the payload of each, in new memory.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (prices, names) = sort::<f32>().run_pairs(&[2.5, 0.5, 1.0], b"abc")?;
    /// assert_eq!((&prices[..], &names[..]), (&[0.5, 1.0, 2.5][..], &b"bca"[..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs<V, X, Y>(self, keys: &X, payload: &Y) -> Result<(X::Owned, Y::Owned), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let (from, n) = (keys.view(), keys.view().len());
        movable::<V>()?;
        long_enough(NAME, "the payload", payload.view().len(), n)?;
        let stream = from.stream(self.site.stream());
        let mut sorted = keys.allocate(NAME, n, stream.as_ref())?;
        let mut sorted_payload = payload.allocate(NAME, n, stream.as_ref())?;
        let values = Payload::Array(Some(payload.view()), Y::view_owned(&mut sorted_payload));
        self.dispatch::<X::Place, V>(Keys::Into(from, X::view_owned(&mut sorted)), values)?;
        Ok((sorted, sorted_payload))
    }

    /// Writes the sorted keys, and the payload of each, into the caller's memory.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut prices, mut names) = ([0.0; 3], [0; 3]);
    /// sort::<f32>().run_pairs_into(&[2.5, 0.5, 1.0], b"abc", &mut prices, &mut names)?;
    /// assert_eq!((prices, names), ([0.5, 1.0, 2.5], *b"bca"));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_into<V, X, Y, O, Q>(
        self,
        keys: &X,
        payload: &Y,
        sorted: &mut O,
        payload_output: &mut Q,
    ) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        O: Destination<K, X::Place> + ?Sized,
        Q: Destination<V, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let payload = Payload::Array(Some(payload.view()), payload_output.view_mut());
        self.dispatch::<X::Place, V>(Keys::Into(keys.view(), sorted.view_mut()), payload)
    }

    /// Sorts the keys in place, and moves the payload of each with it.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut keys, mut points) = ([7, 3], [[0.0, 1.0], [2.0, 3.0]]);
    /// sort::<i64>().run_pairs_in_place::<[f64; 2], _, _>(&mut keys, &mut points)?;
    /// assert_eq!((keys, points), ([3, 7], [[2.0, 3.0], [0.0, 1.0]]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_in_place<V, X, Y>(self, keys: &mut X, payload: &mut Y) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Destination<V, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let payload = Payload::Array(None, payload.view_mut());
        self.dispatch::<<X as Source<K>>::Place, V>(Keys::InPlace(keys.view_mut(), None), payload)
    }

    /// Sorts rows of two keys in lexicographic order, in place: by `keys`, and where these are
    /// equal (in the compared bits) by `second`.
    ///
    /// Makes two sorts with a payload, by `second` first.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut rows, mut columns) = ([1_u32, 0, 1, 0], [2_u16, 3, 0, 1]);
    /// sort::<u32>().run_lexicographic_in_place(&mut rows, &mut columns)?;
    /// assert_eq!((rows, columns), ([0, 0, 1, 1], [1, 3, 0, 2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if the arrays differ in length, and those of [`Sort`]. If the later sort
    /// fails (its kernels cannot be loaded, or memory runs out), both arrays are ordered by
    /// `second` alone.
    pub fn run_lexicographic_in_place<L, X, Y>(mut self, keys: &mut X, second: &mut Y) -> Result<(), Error>
    where
        L: SortKey,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Source<L, Place = <X as Source<K>>::Place> + Destination<L, <X as Source<K>>::Place> + ?Sized,
        S: Site<<X as Source<K>>::Place>,
    {
        let bits = self.range()?;
        let n = same_length(keys.view().len(), second.view().len())?;
        let stream = self.site.stream().cloned();
        let (keys_in_place, payload) = (Keys::InPlace(second.view_mut(), None), Payload::Array(None, keys.view_mut()));
        let all = 0..8 * size_of::<L>() as u32;
        let (workspace, count) = self.site.take();
        let how = How { descending: self.descending, bits: all, segments: Segments::None, count };
        sort_on_either::<<X as Source<K>>::Place, L, K>(how, n, keys_in_place, payload, stream.clone(), workspace)?;
        let (keys_in_place, payload) = (Keys::InPlace(keys.view_mut(), None), Payload::Array(None, second.view_mut()));
        let (workspace, count) = self.site.take();
        let how = How { descending: self.descending, bits, segments: Segments::None, count };
        sort_on_either::<<X as Source<K>>::Place, K, L>(how, n, keys_in_place, payload, stream, workspace)
    }

    /// Returns the source index of each key of the sorted order, in new memory; the keys do not
    /// move.
    ///
    /// ```
    /// # use parascan::sort;
    /// let words = ["two", "one", "three", "ten"];
    /// let lengths = words.map(|word| word.len());
    /// let by_length = sort::<usize>().indices::<u32, _>(&lengths)?;
    /// assert_eq!(by_length.iter().map(|&i| words[i as usize]).collect::<Vec<_>>(), ["two", "one", "ten", "three"]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices<I, X>(self, keys: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        S: Site<X::Place>,
    {
        let view = keys.view();
        countable::<I>(NAME, view.len())?;
        let mut indices = X::Place::allocate::<I>(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.dispatch::<X::Place, I>(
            Keys::Read(view),
            Payload::Indices(X::Place::view_mut(&mut indices), IndexBase::Input),
        )?;
        Ok(indices)
    }

    /// Writes the source index of each key of the sorted order into the caller's memory, as long as
    /// the keys.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut best = [0_u32; 3];
    /// sort::<f64>().descending().indices_into(&[0.5, 2.0, 1.0], &mut best)?;
    /// assert_eq!(best, [1, 2, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices_into<I, X, O>(self, keys: &X, indices: &mut O) -> Result<(), Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        countable::<I>(NAME, keys.view().len())?;
        self.dispatch::<X::Place, I>(Keys::Read(keys.view()), Payload::Indices(indices.view_mut(), IndexBase::Input))
    }

    // ---- on either engine

    fn dispatch<L: Place, V: Pod + Send + Sync>(
        mut self,
        keys: Keys<'_, K>,
        payload: Payload<'_, V>,
    ) -> Result<(), Error>
    where
        S: Site<L>,
    {
        let bits = self.range()?;
        let n = keys.check()?;
        payload.check(n)?;
        let stream = self.site.stream().cloned();
        let (workspace, count) = self.site.take();
        let how = How { descending: self.descending, bits, segments: Segments::None, count };
        sort_on_either::<L, K, V>(how, n, keys, payload, stream, workspace)
    }
}
