//! Sort by segment: each segment's keys, with a payload or as source indices.

use super::arguments::{Index, Word, countable, long_enough};
use super::segmented::{ByHeadBits, ByHeads, ByKeys, ByOffsets, Rows, Segmentation};
use super::sort_engines::{
    How, IndexBase, Keys, NAME, Payload, Segments, lengths_of_programs, movable, not_too_long, prepare_payload,
    sort_on_either,
};
use crate::cuda::Machine;
use crate::cuda::segmented::Cut;
use crate::cuda::segmented_sort::SegmentedSortProgram;
use crate::site::{AnySite, Anywhere, Site, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Error, Place, Sort, SortKey, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;
use std::ops::Range;

/// Sorts by segment.
///
/// Offsets, flags, bits and keys of segments lie in the same memory as the keys that are sorted,
/// host or device.
impl<K: SortKey, S> Sort<K, S> {
    /// Sorts each row of a row-major matrix with this many columns.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().rows(3).run(&[3, 1, 2, 9, 7, 8])?, [1, 2, 3, 7, 8, 9]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn rows(self, columns: usize) -> SegmentedSort<K, Rows, S> {
        self.by(Rows(columns))
    }

    /// Sorts each segment: segment i is the keys from offset i up to offset i + 1.
    ///
    /// There is one offset more than segments, in ascending order. Segments may be empty. The keys
    /// before the first offset are a segment too, and so are those from the last offset on.
    ///
    /// ```
    /// # use parascan::sort;
    /// let offsets = [0_u32, 3, 3, 5];
    /// assert_eq!(sort::<u8>().segments(&offsets).run(b"cabed")?, b"abcde");
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn segments<'c, I: Index, X: Source<I> + ?Sized>(
        self,
        offsets: &'c X,
    ) -> SegmentedSort<K, ByOffsets<'c, I, X::Place>, S> {
        self.by(ByOffsets(offsets.view(), PhantomData))
    }

    /// Sorts each segment, where a segment begins with each key whose flag is not zero.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().heads(&[1, 0, 1, 0]).run(&[4, 3, 2, 1])?, [3, 4, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn heads<'c, X: Source<u8> + ?Sized>(self, flags: &'c X) -> SegmentedSort<K, ByHeads<'c, X::Place>, S> {
        self.by(ByHeads(flags.view(), PhantomData))
    }

    /// Sorts each segment, where a segment begins with each key whose bit is set.
    ///
    /// Bits are in `u32` or `u64` words, the least significant bit first. Bits past the last key are
    /// ignored.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().head_bits(&[0b100_u32]).run(&[4, 3, 2, 1])?, [3, 4, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn head_bits<'c, W: Word, X: Source<W> + ?Sized>(
        self,
        words: &'c X,
    ) -> SegmentedSort<K, ByHeadBits<'c, W, X::Place>, S> {
        self.by(ByHeadBits(words.view(), PhantomData))
    }

    /// Sorts each run of items with equal segment keys.
    ///
    /// Segment keys are equal if their bytes are, so 0.0 and -0.0 differ. On the device one has 1 to
    /// 16 bytes.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().by_key(b"aabb").run(&[4, 3, 2, 1])?, [3, 4, 1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn by_key<'c, Q: Pod + Send + Sync, X: Source<Q> + ?Sized>(
        self,
        keys: &'c X,
    ) -> SegmentedSort<K, ByKeys<'c, Q, X::Place>, S> {
        self.by(ByKeys(keys.view(), PhantomData))
    }

    pub(crate) fn by<C>(self, cut: C) -> SegmentedSort<K, C, S> {
        let Sort { descending, bits, site, key } = self;
        SegmentedSort { descending, bits, cut, site, key }
    }
}

/// A stable sort of each segment of keys `K`: its options, and the calls that run it. Made by
/// [`rows`](Sort::rows), [`segments`](Sort::segments), [`heads`](Sort::heads),
/// [`head_bits`](Sort::head_bits) and [`by_key`](Sort::by_key) of a [`Sort`], whose options carry
/// over.
///
/// | call | output |
/// |---|---|
/// | [`run`](SegmentedSort::run), [`run_into`](SegmentedSort::run_into) | keys |
/// | [`run_in_place`](SegmentedSort::run_in_place) | keys, in place |
/// | [`run_pairs`](SegmentedSort::run_pairs), [`run_pairs_into`](SegmentedSort::run_pairs_into) | keys with payload |
/// | [`run_pairs_in_place`](SegmentedSort::run_pairs_in_place) | keys with payload, in place |
/// | [`indices`](SegmentedSort::indices), [`indices_into`](SegmentedSort::indices_into) | source indices, counted from the first key of all |
/// | [`local_indices`](SegmentedSort::local_indices), [`local_indices_into`](SegmentedSort::local_indices_into) | source indices, counted from the first key of the segment |
///
/// The order, and what a payload can be, are those of a [`Sort`]. The first key begins a segment
/// whatever its flag, bit or offset.
///
/// # Cost
/// For n keys of b bytes with words of p bytes, which are the payload or stand for it as in a [`Sort`], on the
/// device:
///
/// | segments of | algorithm | bytes moved |
/// |---|---|---|
/// | up to 256 keys | by a warp, by a network in registers | 2 n (b + p) |
/// | up to 16384 keys | by a block in shared memory, in bins by interpolation | 2 n (b + p) |
/// | more | partition steps to such segments | n (b + 2 (b + p)) more a step |
///
/// The limit of 16384 keys is 8192 to 13312 for keys of 8 bytes, or words of 8 beside keys of 4. Where a block cannot
/// have the shared memory for so many it is 3584 to 4608, on Turing 2560 to 4608. A step divides a
/// segment by up to 256, so random keys take one step up to 10^6 keys and two up to 10^8. Skewed
/// keys take more steps, at most one for each 4 bits.
///
/// Offsets, flags, bits or segment keys are read once, and become head bits: n / 8 bytes, or
/// 3 n / 8 if segments may be long. Rows of 257 keys up to the limit need none.
///
/// Blocks have about equally many keys, so the time depends little on how the lengths are mixed.
/// There is one launch that makes the head bits, one for all partition steps, and one for the
/// segments of each range of lengths that may occur. Rows of 257 keys up to the limit take one
/// launch in all.
///
/// On the host a thread sorts a segment of up to 32 768 keys; all threads sort a longer one.
///
/// # Memory
/// | call on the device | scratch bytes |
/// |---|---|
/// | rows of up to 256 keys | n / 8 and a little more |
/// | rows of 257 keys up to the limit | none |
/// | others | n (b + p + 2), for keys of 8 bytes n (b + p + 3), up to n (b + p + 6) where the limit is lower; for indices n b more |
///
/// A payload that is not words of 4 or 8 bytes takes as much more as in a [`Sort`].
///
/// # Waiting
/// As a [`Sort`]: no call waits for the device. Kernels read where segments begin, so a graph of a
/// call may be replayed with other offsets, flags, bits or segment keys in the same memory.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | a last row that is not whole; flags, bits or keys too short; no offset |
/// | [`Error::Size`] on the host | an offset past the keys |
/// | [`Error::Descending`] on the host | an offset that is less than the one before it |
/// | [`Error::ItemSize`] on the device | segment keys of no bytes, or of more than 16 |
/// | as for a [`Sort`] | lengths, payload, bits, memory, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error, with the exception that a [`Sort`] has. On
/// the device offsets are not checked: if they descend or reach past the keys, some of them cut the keys, what lies
/// between two cuts is sorted, and nothing outside of the arrays is accessed.
///
/// # Source
/// - Partition steps: Stehle and Jacobsen, "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs"
///   (2017).
/// - Bins: Neubert, "The Flashsort1 Algorithm" (1998).
/// - Networks: Batcher, "Sorting Networks and Their Applications" (1968).
/// - Long segments on the host: as a [`Sort`].
#[derive(Debug)]
#[must_use = "nothing is sorted until it is run"]
pub struct SegmentedSort<K, C, S = Anywhere> {
    descending: bool,
    bits: Option<[u32; 2]>,
    pub(super) cut: C,
    pub(super) site: S,
    key: PhantomData<fn() -> K>,
}
site_methods! { impl[K: SortKey, C] SegmentedSort<K, C; S> { descending, bits, cut, key } where C: Copy }
len_method! {
    /// Segments are cut to the keys, as those of a [scan](crate::SegmentedScan::len) to its items. Rows take the
    /// launches and the memory of segments of any length up to theirs.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut keys = [5, 2, 9, 1, 0];
    /// sort::<i32>().rows(5).len(&[4]).run_in_place(&mut keys)?;
    /// assert_eq!(keys, [1, 2, 5, 9, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[K: SortKey, C] SegmentedSort<K, C; S> { descending, bits, cut, key }
}

// ---- options

impl<K: SortKey, C, S> SegmentedSort<K, C, S> {
    /// Descending order, as [`Sort::descending`].
    pub fn descending(mut self) -> Self {
        self.descending = true;
        self
    }

    /// Compares only these bits of a key, as [`Sort::bits`].
    pub fn bits(mut self, bits: Range<u32>) -> Self {
        self.bits = Some([bits.start, bits.end]);
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for [`run_into`](SegmentedSort::run_into) and
    /// [`run_in_place`](SegmentedSort::run_in_place) of up to `n` keys by the same bits, in any
    /// segments.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// # Errors
    /// As for [`Sort::prepare`].
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        self.prepare_for::<()>(n, false, workspace)
    }

    /// [`prepare`](SegmentedSort::prepare) for keys with a payload of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](SegmentedSort::prepare), and [`Error::ItemSize`].
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        movable::<V>()?;
        self.prepare_for::<V>(n, false, workspace)
    }

    /// [`prepare`](SegmentedSort::prepare) for [`indices_into`](SegmentedSort::indices_into) and
    /// [`local_indices_into`](SegmentedSort::local_indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](SegmentedSort::prepare), and [`Error::TooLong`].
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        countable::<I>(NAME, n)?;
        self.prepare_for::<I>(n, true, workspace)
    }

    fn prepare_for<V: Pod>(&self, n: usize, no_keys: bool, workspace: &mut Workspace) -> Result<(), Error>
    where
        S: AnySite,
    {
        let bits = self.range()?;
        not_too_long(n)?;
        let device = Submit::prepare(NAME, workspace)?;
        let mut most = 0;
        for n in lengths_of_programs::<V>(n) {
            let program = SegmentedSortProgram::new::<K, V>(n, S::IS_COUNTED);
            // No segmentation needs more than one whose lengths are unknown.
            let plan = |machine: &Machine| program.plan(n, &bits, &Cut::Heads { address: 0 }, machine);
            let kernels = program.load(&device, &|machine| plan(machine).kernels())?;
            let plan = plan(kernels.machine());
            kernels.require(&plan.kernels())?;
            let beside = prepare_payload::<K, V>(n, &device)?;
            most = most.max(plan.scratch(no_keys) + beside);
        }
        workspace.reserve(NAME, 0, most).map(|_| ())
    }

    /// # Errors
    /// [`Error::Bits`].
    fn range(&self) -> Result<Range<u32>, Error> {
        Sort::<K> { descending: self.descending, bits: self.bits, site: Anywhere, key: PhantomData }.range()
    }
}

// ---- running

impl<K: SortKey, C, S> SegmentedSort<K, C, S> {
    /// Returns the sorted keys in new memory: a `Vec` or a `CudaSlice`.
    pub fn run<X>(self, keys: &X) -> Result<X::Owned, Error>
    where
        X: Source<K> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        let view = keys.view();
        let mut sorted = keys.allocate(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.dispatch::<X::Place, ()>(Keys::Into(view, X::view_owned(&mut sorted)), Payload::None)?;
        Ok(sorted)
    }

    /// Writes the sorted keys into the caller's memory, as long as the keys.
    pub fn run_into<X, O>(self, keys: &X, sorted: &mut O) -> Result<(), Error>
    where
        X: Source<K> + ?Sized,
        O: Destination<K, X::Place> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        self.dispatch::<X::Place, ()>(Keys::Into(keys.view(), sorted.view_mut()), Payload::None)
    }

    /// Sorts the keys in place.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut scores = [0.5, 2.0, 1.0, 7.0, 9.0];
    /// sort::<f32>().segments(&[0_u64, 3, 5]).descending().run_in_place(&mut scores)?;
    /// assert_eq!(scores, [2.0, 1.0, 0.5, 9.0, 7.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X>(self, keys: &mut X) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        C: Segmentation<<X as Source<K>>::Place>,
        S: Site<<X as Source<K>>::Place>,
    {
        self.dispatch::<<X as Source<K>>::Place, ()>(Keys::InPlace(keys.view_mut(), None), Payload::None)
    }

    /// Returns the sorted keys, and the payload of each, in new memory.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (keys, names) = sort::<u32>().rows(2).run_pairs(&[2, 1, 3, 4], b"abcd")?;
    /// assert_eq!((&keys[..], &names[..]), (&[1, 2, 3, 4][..], &b"bacd"[..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs<V, X, Y>(self, keys: &X, payload: &Y) -> Result<(X::Owned, Y::Owned), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        C: Segmentation<X::Place>,
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
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        let payload = Payload::Array(Some(payload.view()), payload_output.view_mut());
        self.dispatch::<X::Place, V>(Keys::Into(keys.view(), sorted.view_mut()), payload)
    }

    /// Sorts the keys in place, and moves the payload of each with it.
    ///
    /// ```
    /// # use parascan::sort;
    /// let (mut scores, mut names) = ([0.5, 2.0, 7.0, 9.0], *b"abcd");
    /// let by_score = sort::<f32>().descending().segments(&[0_u32, 2, 4]);
    /// by_score.run_pairs_in_place(&mut scores, &mut names)?;
    /// assert_eq!((scores, names), ([2.0, 0.5, 9.0, 7.0], *b"badc"));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_in_place<V, X, Y>(self, keys: &mut X, payload: &mut Y) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Destination<V, <X as Source<K>>::Place> + ?Sized,
        C: Segmentation<<X as Source<K>>::Place>,
        S: Site<<X as Source<K>>::Place>,
    {
        let payload = Payload::Array(None, payload.view_mut());
        self.dispatch::<<X as Source<K>>::Place, V>(Keys::InPlace(keys.view_mut(), None), payload)
    }

    /// Returns the source index of each key of the sorted order, counted from the first key of all;
    /// the keys do not move.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().rows(3).indices::<u32, _>(&[3, 1, 2, 7, 9, 8])?, [1, 2, 0, 3, 5, 4]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices<I, X>(self, keys: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        self.new_indices(keys, IndexBase::Input)
    }

    /// Writes the indices of [`indices`](SegmentedSort::indices) into the caller's memory, as long as
    /// the keys.
    pub fn indices_into<I, X, O>(self, keys: &X, indices: &mut O) -> Result<(), Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        countable::<I>(NAME, keys.view().len())?;
        self.dispatch::<X::Place, I>(Keys::Read(keys.view()), Payload::Indices(indices.view_mut(), IndexBase::Input))
    }

    /// Returns the source index of each key of the sorted order, counted from the first key of its
    /// segment: `argsort` of rows.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().rows(3).local_indices::<u32, _>(&[3, 1, 2, 7, 9, 8])?, [1, 2, 0, 0, 2, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn local_indices<I, X>(self, keys: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        self.new_indices(keys, IndexBase::Segment)
    }

    /// Writes the indices of [`local_indices`](SegmentedSort::local_indices) into the caller's
    /// memory, as long as the keys.
    pub fn local_indices_into<I, X, O>(self, keys: &X, indices: &mut O) -> Result<(), Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        countable::<I>(NAME, keys.view().len())?;
        self.dispatch::<X::Place, I>(Keys::Read(keys.view()), Payload::Indices(indices.view_mut(), IndexBase::Segment))
    }

    fn new_indices<I, X>(self, keys: &X, base: IndexBase) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        C: Segmentation<X::Place>,
        S: Site<X::Place>,
    {
        let view = keys.view();
        countable::<I>(NAME, view.len())?;
        let mut indices = X::Place::allocate::<I>(NAME, view.len(), view.stream(self.site.stream()).as_ref())?;
        self.dispatch::<X::Place, I>(Keys::Read(view), Payload::Indices(X::Place::view_mut(&mut indices), base))?;
        Ok(indices)
    }

    // ---- on either engine

    fn dispatch<L: Place, V: Pod + Send + Sync>(
        mut self,
        keys: Keys<'_, K>,
        payload: Payload<'_, V>,
    ) -> Result<(), Error>
    where
        C: Segmentation<L>,
        S: Site<L>,
    {
        let bits = self.range()?;
        let n = keys.check()?;
        payload.check(n)?;
        self.cut.check(NAME, n)?;
        let stream = self.site.stream().cloned();
        let (descending, cut) = (self.descending, self.cut);
        let (workspace, count) = self.site.take();
        let is_counted = count.is_some();
        let how = |segments| How { descending, bits, segments, count };
        if keys.are_on_host() {
            assert!(L::ON_HOST);
            sort_on_either::<L, K, V>(how(Segments::Host(&cut.heads())), n, keys, payload, stream, workspace)
        } else {
            assert!(L::ON_DEVICE);
            let program = SegmentedSortProgram::new::<K, V>(n, is_counted);
            sort_on_either::<L, K, V>(how(Segments::Device(&cut, program)), n, keys, payload, stream, workspace)
        }
    }
}
