//! Reduce by segment: the items of each segment combined into one.

use super::arguments::long_enough;
use super::segmented::{ByOffsets, Rows, Segments, Selectors};
use crate::cuda::Arguments;
use crate::cuda::reduce::check_element;
use crate::cuda::segmented::{self, SegmentedPlan};
use crate::memory::{View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Index, Operator, Place, Reduce, Source, Workspace, cpu};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use std::marker::PhantomData;
use std::sync::Arc;

const NAME: &str = "reduce";

/// Reductions by segment.
impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Reduces each row of a row-major matrix with this many columns.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().rows(3).run(&[1, 2, 3, 10, 20, 30])?, [6, 60]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn rows(self, columns: usize) -> SegmentedReduce<Op, T, Rows, S> {
        self.by(Rows(columns))
    }

    /// Reduces each segment: segment i is the items from offset i up to offset i + 1.
    ///
    /// There is one offset more than segments, in ascending order, in the same memory as the items,
    /// host or device. Segments may be empty. Items before the first offset, and from the last
    /// offset on, are ignored.
    ///
    /// ```
    /// # use parascan::{Max, reduce};
    /// let offsets = [1_u32, 3, 3, 5];
    /// assert_eq!(reduce::<Max, i32>().segments(&offsets).run(&[9, 2, 3, 5, 4, 9])?, [3, i32::MIN, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn segments<'c, I: Index, X: Source<I> + ?Sized>(
        self,
        offsets: &'c X,
    ) -> SegmentedReduce<Op, T, ByOffsets<'c, I, X::Place>, S> {
        self.by(ByOffsets(offsets.view(), PhantomData))
    }

    pub(crate) fn by<C>(self, cut: C) -> SegmentedReduce<Op, T, C, S> {
        SegmentedReduce { init: self.init, cut, site: self.site, operator: PhantomData }
    }
}

/// A reduction of each segment of items `T` by the operator `Op`: its options, and the calls that
/// run it. Made by [`rows`](Reduce::rows) and [`segments`](Reduce::segments) of a [`Reduce`], whose
/// options carry over.
///
/// | call | output |
/// |---|---|
/// | [`run`](SegmentedReduce::run) | new memory, one item a segment |
/// | [`run_into`](SegmentedReduce::run_into) | the caller's memory, at least one item a segment |
///
/// The result of an empty segment is [`init`](SegmentedReduce::init), else the operator's identity.
/// An operator without identity and without `init` has no result for it: on the host that is
/// [`Error::Empty`], on the device the result is all zero bytes.
///
/// # Cost
/// Each item, offset and result moves once. On the device that is one launch, for any n:
///
/// | segments | folded by | the time depends on |
/// |---|---|---|
/// | rows of up to 128 KiB, 64 or more of up to 256 KiB | some lanes, a warp or a block each | the bytes |
/// | longer rows, of up to 16 MiB together | several blocks each | the bytes |
/// | by offsets of up to 16 MiB of items, unless many and short | a warp or a block each; the longest are shared | how unequal they are |
/// | others | all warps, with equally many items each | the bytes |
///
/// In the last row, of up to 2^16 items of at most 4 bytes (2^15 of 8, 2^14 of wider ones), a block
/// whose first segment began in an earlier block reads that segment's items again, from its begin.
/// So one long segment among short ones takes up to twice as long. One warp writes the results of all empty
/// segments between two items, so millions of them in one place take long.
///
/// # Waiting
/// No call waits for the device. The first use of an operator and element type in a process loads
/// kernels, as for a [`Scan`](crate::Scan).
///
/// # Same bits
/// Items are combined in order. The grouping depends on n, the segments, the element type and, on
/// the device, the architecture that the kernel was compiled for, so a rounded float sum has the
/// same bits in every run. It also depends on where in the input a segment lies: two equal segments
/// may round differently. So may a call by `len` and one of a known length.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | a last row that is not whole; no offset; an output that is too short |
/// | [`Error::Size`] on the host | an offset past the items |
/// | [`Error::Descending`] on the host | an offset that is less than the one before it |
/// | [`Error::Empty`] on the host | an empty segment, no `init`, and an operator without identity |
/// | as for a [`Reduce`] | element, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error. On the device offsets are not checked: if
/// they descend or reach past the items, the results are unspecified, and nothing outside of the
/// arrays is accessed.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// Schwartz, "Ultracomputers" (1980): where several warps, or tiles on the host, share a segment,
/// each hands on a pair of a value and a flag.
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct SegmentedReduce<Op, T, C, S = Anywhere> {
    init: Option<T>,
    pub(super) cut: C,
    pub(super) site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element, C] SegmentedReduce<Op, T, C; S> { init, cut, operator } where C: Copy }
len_method! {
    /// By offsets there are as many results as without: offsets past the items count as the number of items, so
    /// segments that begin there are empty. By rows there is a result for each whole row.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// let totals = reduce::<Sum, i32>().segments(&[0_u32, 2, 4, 5]).len(&[3]).run(&[1, 2, 3, 4, 5])?;
    /// assert_eq!(totals, [3, 3, 0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element, C] SegmentedReduce<Op, T, C; S> { init, cut, operator }
}

// ---- options

impl<Op: Operator<T>, T: Element, C, S> SegmentedReduce<Op, T, C, S> {
    /// Combines this value before the first item of each segment.
    ///
    /// ```
    /// # use parascan::{Last, reduce};
    /// assert_eq!(reduce::<Last, i32>().segments(&[0_u64, 2, 2]).init(-1).run(&[1, 2])?, [2, -1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.init = Some(init);
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for calls with up to `n` items in any segments.
    ///
    /// After this [`run_into`](SegmentedReduce::run_into) allocates nothing, never synchronises,
    /// and can be captured into a graph.
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
        let kernels = segmented::load_reduce::<Op, T>(&device, self.cut.on_device(0), S::IS_COUNTED)?;
        let plan = SegmentedPlan::reduce_up_to::<Op, T>(n, kernels.machine().architecture);
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, C, S> SegmentedReduce<Op, T, C, S> {
    /// Returns the results in new memory, one item a segment: a `Vec` or a `CudaSlice`.
    ///
    /// ```
    /// # use parascan::{Error, Last, Min, reduce};
    /// let offsets = [0_u32, 2, 2];
    /// assert_eq!(reduce::<Min, i32>().segments(&offsets).run(&[3, 1])?, [1, i32::MAX]); // the identity
    /// let no_last = reduce::<Last, i32>().segments(&offsets).run(&[3, 1]);
    /// assert!(matches!(no_last, Err(Error::Empty { .. })));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        C: Segments<I::Place>,
        S: Site<I::Place>,
    {
        let view = input.view();
        self.cut.check(NAME, view.len())?;
        let mut output = input.allocate(NAME, self.cut.count(view.len()), self.site.stream())?;
        self.dispatch::<I::Place>(view, I::view_owned(&mut output))?;
        Ok(output)
    }

    /// Writes the results into the caller's memory. What lies past the last one is not changed.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// let mut totals = [0.0; 3];
    /// reduce::<Sum, f32>().rows(2).run_into(&[1.0, 2.0, 4.0, 8.0], &mut totals)?;
    /// assert_eq!(totals, [3.0, 12.0, 0.0]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        C: Segments<I::Place>,
        S: Site<I::Place>,
    {
        let view = input.view();
        self.cut.check(NAME, view.len())?;
        self.dispatch::<I::Place>(view, output.view_mut())
    }

    // ---- on either engine

    /// The cut was checked.
    fn dispatch<P: Place>(mut self, input: View<'_, T>, mut output: ViewMut<'_, T>) -> Result<(), Error>
    where
        C: Segments<P>,
        S: Site<P>,
    {
        let n = match input {
            View::Host(input) => counted(NAME, self.site.count(), input.len())?,
            View::Device(input) => input.len(),
        };
        let segments = self.cut.count(n);
        long_enough(NAME, "the output", output.len(), segments)?;
        // The value before the first item of a segment, and the result of an empty segment.
        let first = self.init.map(Op::lift);
        let empty = first.or(Op::IDENTITY);
        match input {
            View::Host(_) if P::ON_HOST && empty.is_none() && self.cut.any_empty(n) => {
                Err(Error::Empty { primitive: NAME })
            }
            View::Host(input) => {
                assert!(P::ON_HOST);
                let (ends, output) = (self.cut.ends(n), &mut output.host()[..segments]);
                // SAFETY: `check` has found that the ends ascend, and they are cut to `n` items.
                unsafe { cpu::segmented::reduce::<Op, T>(input, &ends, segments, first, empty, output) };
                Ok(())
            }
            View::Device(input) => {
                assert!(P::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let (output, taken) = (output.device(), self.site.take());
                on_device::<Op, T>(&stream, input, output, segments, [first, empty], &self.cut, taken)
            }
        }
    }
}

fn on_device<Op: Operator<T>, T: Element>(
    stream: &Arc<CudaStream>,
    input: &dyn DevicePtr<T>,
    output: &mut dyn DevicePtrMut<T>,
    segments: usize,
    first_and_empty: [Option<Op::Carry>; 2],
    cut: &dyn Selectors,
    (workspace, count): (Option<&mut Workspace>, Option<View<'_, u64>>),
) -> Result<(), Error> {
    let count = count.map(|count| count.device());
    let n = input.len();
    let submit = Submit::new(NAME, stream);
    submit.uses("the input", input.stream())?;
    submit.uses("the output", output.stream())?;
    cut.check(&submit)?;
    submit.counts(count)?;
    if segments == 0 {
        return Ok(());
    }
    submit.begin()?;
    check_element::<T>(NAME)?;
    let kernels = segmented::load_reduce::<Op, T>(&submit, cut.on_device(0), count.is_some())?;
    let plan = SegmentedPlan::reduce::<Op, T>(n, kernels.machine().architecture);
    // The guards order the work against other streams; they live until it is launched.
    let (input, _read) = input.device_ptr(stream);
    let (output, _written) = output.device_ptr_mut(stream);
    let (cut, _selected) = cut.guarded(stream);
    let (length, _counted) = count.map(|count| count.device_ptr(stream)).unzip();
    let [first, empty] = first_and_empty;
    let of_empty = empty.map_or_else(T::zeroed, Op::lower);
    let (first, empty, exclusive, reverse) = (first.map(Op::to_cuda), None, false, false);
    submit.with_memory(workspace, plan.words, plan.scratch, |words, scratch| {
        let arguments = Arguments { input, output, n, length, first, empty, exclusive, reverse, words, scratch };
        // SAFETY: the kernels are those of the types, and the plan is for n items. The input has n items
        // on this device, by its type, the output one a segment, by `long_enough`, the offsets are one
        // more, and the guards keep them. Words and scratch memory are the workspace's, as large as the
        // plan asks for, the words zero. The stream's context was bound by `begin`.
        unsafe { arguments.launch_segmented_reduce(cut, of_empty, &plan, kernels, stream.cu_stream()) }
    })
}
