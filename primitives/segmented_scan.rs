//! Scan by segment: all prefixes of each segment.

use super::scan_engines::{Memory, NAME, NO_IDENTITY, OnDevice, Options};
use super::segmented::{ByHeadBits, ByHeads, ByKeys, ByOffsets, Rows, Segmentation, Selectors};
use crate::cuda::Arguments;
use crate::cuda::reduce::check_element;
use crate::cuda::segmented::{self, SegmentedPlan};
use crate::memory::{View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Index, Operator, Place, Scan, Source, Word, Workspace, cpu};
use bytemuck::Pod;
use cudarc::driver::{CudaStream, DevicePtr};
use std::marker::PhantomData;
use std::sync::Arc;

/// Scans by segment.
///
/// Offsets, flags, bits and keys lie in the same memory as the items, host or device.
impl<Op: Operator<T>, T: Element, S> Scan<Op, T, S> {
    /// Scans each row of a row-major matrix with this many columns.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().rows(3).run(&[1, 2, 3, 10, 20, 30])?, [1, 3, 6, 10, 30, 60]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn rows(self, columns: usize) -> SegmentedScan<Op, T, Rows, S> {
        self.by(Rows(columns))
    }

    /// Scans each segment: segment i is the items from offset i up to offset i + 1.
    ///
    /// There is one offset more than segments, in ascending order. Segments may be empty. The items
    /// before the first offset are a segment too, and so are those from the last offset on.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let offsets = [1_u32, 3, 3, 5];
    /// let sums = scan::<Sum, i32>().segments(&offsets).exclusive().run(&[1, 2, 3, 4, 5, 6, 7])?;
    /// assert_eq!(sums, [0, 0, 2, 0, 4, 0, 6]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn segments<'c, I: Index, X: Source<I> + ?Sized>(
        self,
        offsets: &'c X,
    ) -> SegmentedScan<Op, T, ByOffsets<'c, I, X::Place>, S> {
        self.by(ByOffsets(offsets.view(), PhantomData))
    }

    /// Scans each segment, where a segment begins with each item whose flag is not zero.
    ///
    /// ```
    /// # use parascan::{Max, scan};
    /// let flags = [0, 0, 1, 0, 1];
    /// assert_eq!(scan::<Max, i32>().heads(&flags).run(&[5, 7, 2, 3, 1])?, [5, 7, 2, 3, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn heads<'c, X: Source<u8> + ?Sized>(self, flags: &'c X) -> SegmentedScan<Op, T, ByHeads<'c, X::Place>, S> {
        self.by(ByHeads(flags.view(), PhantomData))
    }

    /// Scans each segment, where a segment begins with each item whose bit is set.
    ///
    /// Bits are in `u32` or `u64` words, the least significant bit first. Bits past the last item
    /// are ignored.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().head_bits(&[0b10100_u32]).run(&[1, 2, 3, 4, 5])?, [1, 3, 3, 7, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn head_bits<'c, W: Word, X: Source<W> + ?Sized>(
        self,
        words: &'c X,
    ) -> SegmentedScan<Op, T, ByHeadBits<'c, W, X::Place>, S> {
        self.by(ByHeadBits(words.view(), PhantomData))
    }

    /// Scans each run of items with equal keys.
    ///
    /// Keys are equal if their bytes are, so 0.0 and -0.0 differ. On the device a key has 1 to 16
    /// bytes.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().by_key(b"aabba").run(&[1, 2, 3, 4, 5])?, [1, 3, 3, 7, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn by_key<'c, K: Pod + Send + Sync, X: Source<K> + ?Sized>(
        self,
        keys: &'c X,
    ) -> SegmentedScan<Op, T, ByKeys<'c, K, X::Place>, S> {
        self.by(ByKeys(keys.view(), PhantomData))
    }

    pub(crate) fn by<C>(self, cut: C) -> SegmentedScan<Op, T, C, S> {
        SegmentedScan { options: self.options, cut, site: self.site, operator: PhantomData }
    }
}

/// A scan of each segment of items `T` by the operator `Op`: its options, and the calls that run
/// it. Made by [`rows`](Scan::rows), [`segments`](Scan::segments), [`heads`](Scan::heads),
/// [`head_bits`](Scan::head_bits) and [`by_key`](Scan::by_key) of a [`Scan`], whose options carry
/// over.
///
/// | call | output |
/// |---|---|
/// | [`run`](SegmentedScan::run) | new memory of the input's length |
/// | [`run_into`](SegmentedScan::run_into) | the caller's memory, of the input's length |
/// | [`run_in_place`](SegmentedScan::run_in_place) | the input's memory |
///
/// Each segment is scanned as by a [`Scan`] of its items alone. The first item begins a segment
/// whatever its flag, bit or offset.
///
/// # Cost
/// Items are read and written once. Beside them are read:
///
/// | segments by | bytes |
/// |---|---|
/// | [`rows`](Scan::rows) | none |
/// | [`segments`](Scan::segments) | all offsets |
/// | [`heads`](Scan::heads) | n |
/// | [`head_bits`](Scan::head_bits) | n / 8 |
/// | [`by_key`](Scan::by_key) | n keys |
///
/// All threads have equally many items, so one long segment or millions of short or empty ones take about as
/// long. On the device that is one launch, or two for offsets of more than 4 MiB of items. Exceptions:
///
/// - Rows of up to 32 KiB, and 64 or more rows of up to 64 KiB, are scanned by some lanes, a warp or a block
///   each. So are segments by offsets whose mean length is such, unless many and short, of up to 4 MiB of
///   items; the longest are shared, so the time depends on how unequal they are. That takes less time. In
///   reverse they are not.
/// - Other offsets, of up to 2^16 items of at most 4 bytes (2^15 of 8, 2^14 of wider ones): a block
///   whose first segment began in an earlier block reads that segment's items again, from its
///   begin. So one long segment among short ones takes up to twice as long.
///
/// # Waiting
/// As a [`Scan`].
///
/// # Same bits
/// Operands are combined in scan order. The grouping depends on n, the segments, the element type
/// and, on the device, the architecture that the kernel was compiled for, so a rounded float sum
/// has the same bits in every run. It also depends on where in the input a segment lies: two equal
/// segments may round differently. So may a scan in place and one into other memory, and a call by
/// `len` and one of a known length.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Length`] | input and output differ in length |
/// | [`Error::Size`] | a last row that is not whole; flags, bits or keys too short; no offset |
/// | [`Error::Size`] on the host | an offset past the items |
/// | [`Error::Descending`] on the host | an offset that is less than the one before it |
/// | [`Error::ItemSize`] on the device | keys of no bytes, or of more than 16 |
/// | [`Error::Strategy`] | a strategy other than [`Strategy::Auto`](crate::Strategy::Auto) |
/// | as for a [`Scan`] | element, length, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error. Length zero is valid. On the device
/// offsets are not checked: if they descend or reach past the items, the outputs are unspecified,
/// and nothing outside of the arrays is accessed.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// Schwartz, "Ultracomputers" (1980): a scan by segment is a scan of pairs of a value and a flag.
#[derive(Debug)]
#[must_use = "a scan does nothing until `run`, `run_into` or `run_in_place`"]
pub struct SegmentedScan<Op, T, C, S = Anywhere> {
    options: Options<T>,
    pub(super) cut: C,
    pub(super) site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! {
    impl[Op: Operator<T>, T: Element, C] SegmentedScan<Op, T, C; S> { options, cut, operator } where C: Copy
}
len_method! {
    /// Segments are cut to the items: offsets past them count as the number of items, and the last row may have
    /// fewer than others.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let (x, mut sums) = ([1, 2, 3, 4, 5], [0; 5]);
    /// scan::<Sum, i32>().by_key(b"aabbb").len(&[4]).run_into(&x, &mut sums)?;
    /// assert_eq!(sums, [1, 3, 3, 7, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element, C] SegmentedScan<Op, T, C; S> { options, cut, operator }
}

// ---- options

impl<Op: Operator<T>, T: Element, C, S> SegmentedScan<Op, T, C, S> {
    /// Each output combines its segment's inputs up to its own. This is the default.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().rows(2).inclusive().run(&[1, 2, 3, 4])?, [1, 3, 3, 7]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn inclusive(mut self) -> Self {
        self.options.exclusive = false;
        self
    }

    /// Each output combines its segment's inputs before its own; the first output of a segment is
    /// `init`, or the operator's identity without one.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().rows(2).exclusive().run(&[1, 2, 3, 4])?, [0, 1, 0, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// Does not compile for an operator without identity: write
    /// [`.exclusive_from(first)`](SegmentedScan::exclusive_from) instead.
    ///
    /// ```compile_fail,E0080
    /// # use parascan::{Last, scan};
    /// scan::<Last, i32>().rows(2).exclusive(); // fails to compile
    /// ```
    pub fn exclusive(mut self) -> Self {
        const { assert!(Op::IDENTITY.is_some(), "{}", NO_IDENTITY) };
        self.options.exclusive = true;
        self
    }

    /// Each output combines `first` and its segment's inputs before its own; for operators without
    /// identity too.
    ///
    /// ```
    /// # use parascan::{Last, scan};
    /// assert_eq!(scan::<Last, i32>().rows(2).exclusive_from(-1).run(&[1, 2, 3, 4])?, [-1, 1, -1, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn exclusive_from(mut self, first: T) -> Self {
        self.options.exclusive = true;
        self.options.init = Some(first);
        self
    }

    /// Combines this value before the first input of each segment, in inclusive scans too.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().rows(2).init(10).run(&[1, 2, 3, 4])?, [11, 13, 13, 17]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.options.init = Some(init);
        self
    }

    /// Scans each segment from its last item to its first, operand order included.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// assert_eq!(scan::<Sum, i32>().rows(3).reverse().run(&[1, 2, 3, 10, 20, 30])?, [6, 5, 3, 60, 50, 30]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn reverse(mut self) -> Self {
        self.options.reverse = !self.options.reverse;
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for [`run_into`](SegmentedScan::run_into) and
    /// [`run_in_place`](SegmentedScan::run_in_place) of up to `n` items.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        C: Selectors,
        S: AnySite,
    {
        let device = Submit::prepare(NAME, workspace)?;
        check_element::<T>(NAME)?;
        let kernels = segmented::load_scan::<Op, T>(&device, self.cut.on_device(0), S::IS_COUNTED)?;
        let plan = SegmentedPlan::scan_up_to::<Op, T>(n, kernels.machine().architecture)?;
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, C, S> SegmentedScan<Op, T, C, S> {
    /// Returns the result in new memory of the input's length: a `Vec` or a `CudaSlice`.
    ///
    /// ```
    /// # use parascan::{Max, scan};
    /// let highest: Vec<i32> = scan::<Max, i32>().rows(2).run(&vec![3, 1, 1, 4])?;
    /// assert_eq!(highest, [3, 3, 1, 4]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        C: Segmentation<I::Place>,
        S: Site<I::Place>,
    {
        let view = input.view();
        let mut output = input.allocate(NAME, view.len(), self.site.stream())?;
        self.dispatch::<I::Place>(Some(view), I::view_owned(&mut output))?;
        Ok(output)
    }

    /// Writes the result into the caller's memory, as long as the input.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let (gains, days, mut returns) = ([1.0, 2.0, 4.0], [7, 7, 8], [0.0; 3]);
    /// scan::<Sum, f32>().by_key::<u32, _>(&days).run_into(&gains, &mut returns)?;
    /// assert_eq!(returns, [1.0, 3.0, 4.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        C: Segmentation<I::Place>,
        S: Site<I::Place>,
    {
        self.dispatch::<I::Place>(Some(input.view()), output.view_mut())
    }

    /// Replaces the input by the result.
    ///
    /// ```
    /// # use parascan::{Min, scan};
    /// let mut lowest = [3, 1, 4, 2];
    /// scan::<Min, i32>().segments(&[0_u32, 1, 4]).run_in_place(&mut lowest)?;
    /// assert_eq!(lowest, [3, 1, 1, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X>(self, data: &mut X) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        C: Segmentation<<X as Source<T>>::Place>,
        S: Site<<X as Source<T>>::Place>,
    {
        self.dispatch::<<X as Source<T>>::Place>(None, data.view_mut())
    }

    // ---- on either engine

    /// In place `input` is `None`.
    fn dispatch<'a, P: Place>(mut self, input: Option<View<'a, T>>, output: ViewMut<'a, T>) -> Result<(), Error>
    where
        C: Segmentation<P>,
        S: Site<P>,
    {
        let (n, options, cut) = (output.len(), self.options, self.cut);
        let memory = Memory::of(input, output)?;
        options.only_auto()?;
        cut.check(NAME, n)?;
        match memory {
            Memory::Host(input, output) => {
                assert!(P::ON_HOST);
                let n = counted(NAME, self.site.count(), n)?;
                let Options { exclusive, reverse, .. } = options;
                let (first, heads) = (options.first::<Op>(), cut.heads());
                // SAFETY: the slices of `Memory` have `n` elements or more.
                unsafe { cpu::segmented::scan::<Op, T>(input, output, n, &heads, exclusive, first, reverse) };
                Ok(())
            }
            Memory::Device(items) => {
                assert!(P::ON_DEVICE);
                let stream = items.stream(self.site.stream());
                let (workspace, count) = self.site.take();
                on_device::<Op, T>(options, &stream, items, &cut, count.map(|count| count.device()), workspace)
            }
        }
    }
}

fn on_device<Op: Operator<T>, T: Element>(
    options: Options<T>,
    stream: &Arc<CudaStream>,
    mut items: OnDevice<'_, T>,
    cut: &dyn Selectors,
    count: Option<&dyn DevicePtr<u64>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    let (n, submit) = (items.len(), Submit::new(NAME, stream));
    items.check(&submit)?;
    cut.check(&submit)?;
    submit.counts(count)?;
    if n == 0 {
        return Ok(());
    }
    submit.begin()?;
    check_element::<T>(NAME)?;
    let kernels = segmented::load_scan::<Op, T>(&submit, cut.on_device(0), count.is_some())?;
    let plan = SegmentedPlan::scan::<Op, T>(n, kernels.machine().architecture)?;
    let ([input, output], _guards) = items.addresses(stream);
    let (cut, _selected) = cut.guarded(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let Options { exclusive, reverse, .. } = options;
    let (first, empty) = (options.first::<Op>().map(Op::to_cuda), None);
    submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
        let arguments = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: the kernels are those of the types, and the plan is for n elements; input and output
        // have n elements each on this device, by their types, the selectors are long enough by `check`,
        // and the guards keep them; words and scratch memory are the workspace's, as large as the plan
        // asks for, the words zero; the stream's context was bound by `begin`.
        unsafe { arguments.launch_segmented_scan(cut, &plan, kernels, stream.cu_stream()) }
    })
}
