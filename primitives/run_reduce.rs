//! Reduce of runs: the items of each segment combined into one, where heads say where segments begin.

use super::arguments::{Word, long_enough};
use super::segmented::{ByHeadBits, ByHeads, ByKeys, Segmentation, Selectors};
use crate::cuda::reduce::check_element;
use crate::cuda::segmented::{self, RunReduceArguments, SegmentedPlan};
use crate::memory::{BufferMut, View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Operator, Place, Reduce, Source, Workspace, cpu};
use bytemuck::Pod;
use cudarc::driver::{CudaStream, DevicePtr};
use std::marker::PhantomData;
use std::sync::Arc;

const NAME: &str = "reduce";

/// Reductions by head flags, head bits or keys. Only these tell how many segments there are, so the
/// call finds their number.
///
/// Flags, bits and keys lie in the same memory as the items, host or device.
impl<Op: Operator<T>, T: Element, S> Reduce<Op, T, S> {
    /// Reduces each segment, where a segment begins with each item whose flag is not zero.
    ///
    /// ```
    /// # use parascan::{Max, reduce};
    /// assert_eq!(reduce::<Max, i32>().heads(&[0, 0, 1, 0, 1]).run(&[5, 7, 2, 3, 1])?, [7, 3, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn heads<'c, X: Source<u8> + ?Sized>(self, flags: &'c X) -> RunReduce<Op, T, ByHeads<'c, X::Place>, S> {
        self.by_heads(ByHeads(flags.view(), PhantomData))
    }

    /// Reduces each segment, where a segment begins with each item whose bit is set.
    ///
    /// Bits are in `u32` or `u64` words, the least significant bit first. Bits past the last item
    /// are ignored.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().head_bits(&[0b10100_u32]).run(&[1, 2, 3, 4, 5])?, [3, 7, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn head_bits<'c, W: Word, X: Source<W> + ?Sized>(
        self,
        words: &'c X,
    ) -> RunReduce<Op, T, ByHeadBits<'c, W, X::Place>, S> {
        self.by_heads(ByHeadBits(words.view(), PhantomData))
    }

    /// Reduces each run of items with equal keys.
    ///
    /// Keys are equal if their bytes are, so 0.0 and -0.0 differ. On the device a key has 1 to 16
    /// bytes.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().by_key(b"aabba").run(&[1, 2, 3, 4, 5])?, [3, 7, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn by_key<'c, K: Pod + Send + Sync, X: Source<K> + ?Sized>(
        self,
        keys: &'c X,
    ) -> RunReduce<Op, T, ByKeys<'c, K, X::Place>, S> {
        self.by_heads(ByKeys(keys.view(), PhantomData))
    }

    pub(crate) fn by_heads<C>(self, cut: C) -> RunReduce<Op, T, C, S> {
        RunReduce { init: self.init, cut, site: self.site, operator: PhantomData }
    }
}

/// A reduction of each segment of items `T` by the operator `Op`, where heads say where segments
/// begin: its options, and the calls that run it. Made by [`heads`](Reduce::heads),
/// [`head_bits`](Reduce::head_bits) and [`by_key`](Reduce::by_key) of a [`Reduce`], whose options
/// carry over.
///
/// | call | output |
/// |---|---|
/// | [`run`](RunReduce::run) | new memory, one item a segment |
/// | [`run_into`](RunReduce::run_into) | the caller's memory, and the number of segments |
/// | [`run_with_keys_into`](RunReduce::run_with_keys_into) | the same, and the key of each segment |
///
/// The first item begins a segment whatever its flag or bit. No segment is empty.
///
/// # The count
/// `count` is one `u64` in the same memory as the items. The call writes the number of segments
/// there, so on the device the call need not wait.
///
/// **A count greater than the output's length means that the output was too short.** On the device
/// nothing is written past its end then. On the host the call returns [`Error::Size`] and writes
/// nothing. Items of the output beyond the count are not changed. No output of n items is too short.
///
/// # Cost
/// Items and flags, bits or keys are read once, and m results are written; by
/// [`run_with_keys_into`](RunReduce::run_with_keys_into) m keys are read again and written. All
/// threads have equally many items, however long segments are. On the device that is one launch,
/// for any n. [`run`](RunReduce::run) reads and writes the m results again. On the host a call
/// keeps up to 24 bytes a segment until it returns.
///
/// # Waiting
/// On the device the calls into the caller's memory never wait. [`run`](RunReduce::run) waits for the
/// count. The first use of an operator and element type in a process loads kernels, as for a
/// [`Scan`](crate::Scan).
///
/// # Same bits
/// As for a [`SegmentedReduce`](crate::SegmentedReduce).
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | flags, bits, keys or count too short; keys' output shorter than the results' |
/// | [`Error::Size`] on the host | an output that is too short |
/// | [`Error::OutOfMemory`] on the host | no memory for the list of segments |
/// | [`Error::ItemSize`] on the device | keys of no bytes, or of more than 16 |
/// | [`Error::TooLong`] on the device | more tiles than a grid has blocks |
/// | as for a [`Reduce`] | element, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error. Length zero is valid, and has no segments.
///
/// # Panics
/// Only if the operator panics, on host data. The panic reaches the caller.
///
/// # Source
/// Schwartz, "Ultracomputers" (1980): a tile in which a segment begins ignores the tiles before it.
#[derive(Debug)]
#[must_use = "nothing is done until `run` or `run_into`"]
pub struct RunReduce<Op, T, C, S = Anywhere> {
    init: Option<T>,
    cut: C,
    site: S,
    operator: PhantomData<fn() -> Op>,
}
site_methods! { impl[Op: Operator<T>, T: Element, C] RunReduce<Op, T, C; S> { init, cut, operator } where C: Copy }
len_method! {
    /// The segments, and so the results and [the count](RunReduce#the-count), are those of the items alone.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().by_key(b"aabbc").len(&[3]).run(&[1, 2, 3, 4, 5])?, [3, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[Op: Operator<T>, T: Element, C] RunReduce<Op, T, C; S> { init, cut, operator }
}

// ---- options

impl<Op: Operator<T>, T: Element, C, S> RunReduce<Op, T, C, S> {
    /// Combines this value before the first item of each segment.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().by_key(b"aab").init(10).run(&[1, 2, 3])?, [13, 13]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn init(mut self, init: T) -> Self {
        self.init = Some(init);
        self
    }

    // ---- prepare

    /// Loads the kernels and grows the workspace for calls with up to `n` items in any segments.
    ///
    /// After this the calls into the caller's memory allocate nothing, never synchronise, and can be
    /// captured into a graph.
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
        let kernels = segmented::load_runs::<Op, T>(&device, self.cut.on_device(0), S::IS_COUNTED)?;
        let plan = SegmentedPlan::runs_up_to::<Op, T>(n, kernels.machine().architecture)?;
        workspace.reserve(NAME, plan.words, plan.scratch).map(|_| ())
    }
}

// ---- running

impl<Op: Operator<T>, T: Element, C, S> RunReduce<Op, T, C, S> {
    /// Returns the results in new memory, one item a segment. On the device the call waits for
    /// their number.
    ///
    /// ```
    /// # use parascan::{Sum, reduce, unique};
    /// let (days, sizes) = ([8, 8, 9], [3, 4, 5]);
    /// assert_eq!(unique::<u32>().run(&days)?, [8, 9]);
    /// assert_eq!(reduce::<Sum, u32>().by_key::<u32, _>(&days).run(&sizes)?, [7, 5]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        C: Segmentation<I::Place>,
        S: Site<I::Place>,
    {
        let view = input.view();
        let stream = view.stream(self.site.stream());
        let mut output = input.allocate(NAME, view.len(), self.site.stream())?;
        let mut count = I::Place::allocate::<u64>(NAME, 1, stream.as_ref())?;
        self.dispatch::<I::Place>(view, I::view_owned(&mut output), None, I::Place::view_mut(&mut count))?;
        I::shorten(NAME, output, I::Place::read::<1>(&count)?[0])
    }

    /// Writes the results and their number into the caller's memory; see [the
    /// count](RunReduce#the-count).
    ///
    /// ```
    /// # use parascan::{Max, reduce};
    /// let (mut highest, mut count) = ([0; 4], [0]);
    /// reduce::<Max, i32>().heads(&[1, 0, 1, 0]).run_into(&[3, 1, 2, 4], &mut highest, &mut count)?;
    /// assert_eq!((highest, count), ([3, 4, 0, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, O, N>(self, input: &I, output: &mut O, count: &mut N) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<T, I::Place> + ?Sized,
        N: Destination<u64, I::Place> + ?Sized,
        C: Segmentation<I::Place>,
        S: Site<I::Place>,
    {
        self.dispatch::<I::Place>(input.view(), output.view_mut(), None, count.view_mut()).map(|_| ())
    }

    // ---- on either engine

    /// On the host it returns where segments begin, and then the number of items.
    pub(crate) fn dispatch<P: Place>(
        mut self,
        input: View<'_, T>,
        mut output: ViewMut<'_, T>,
        keys: Option<&mut dyn BufferMut>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<Vec<u64>, Error>
    where
        C: Segmentation<P>,
        S: Site<P>,
    {
        self.cut.check(NAME, input.len())?;
        long_enough(NAME, "the count", count.len(), 1)?;
        if let Some(keys) = &keys {
            long_enough(NAME, "the keys' output", keys.capacity(), output.len())?;
        }
        let first = self.init.map(Op::lift);
        match input {
            View::Host(input) => {
                assert!(P::ON_HOST);
                let input = &input[..counted(NAME, self.site.count(), input.len())?];
                let begins = cpu::segmented::begins(NAME, &self.cut.heads(), input.len())?;
                let (segments, output) = (begins.len() - 1, output.host());
                long_enough(NAME, "the output", output.len(), segments)?;
                let ends = cpu::segmented::ByOffsets(&begins[..]);
                // SAFETY: segments begin in ascending order, up to the number of items.
                unsafe { cpu::segmented::reduce::<Op, T>(input, &ends, segments, first, first, output) };
                count.host()[0] = segments as u64;
                Ok(begins)
            }
            View::Device(input) => {
                assert!(P::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let keys = keys.map(|keys| keys as &mut dyn BufferMut);
                let results = Results { items: &mut output, keys, count: &mut count };
                let (workspace, length) = self.site.take();
                let length = length.map(|length| length.device());
                on_device::<Op, T>(&stream, input, results, first, &self.cut, length, workspace)?;
                Ok(Vec::new())
            }
        }
    }
}

impl<Op: Operator<T>, T: Element, K: Pod + Send + Sync, P: Place, S> RunReduce<Op, T, ByKeys<'_, K, P>, S> {
    /// Writes the key of each run, its result and the number of runs into the caller's memory.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// let (mut names, mut totals, mut count) = ([0; 3], [0; 3], [0]);
    /// let by_name = reduce::<Sum, u32>().by_key(b"aab");
    /// by_name.run_with_keys_into(&[1, 2, 3], &mut names, &mut totals, &mut count)?;
    /// assert_eq!((names, totals, count), ([b'a', b'b', 0], [3, 3, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_with_keys_into<I, Q, O, N>(
        self,
        input: &I,
        keys: &mut Q,
        output: &mut O,
        count: &mut N,
    ) -> Result<(), Error>
    where
        I: Source<T, Place = P> + ?Sized,
        Q: Destination<K, P> + ?Sized,
        O: Destination<T, P> + ?Sized,
        N: Destination<u64, P> + ?Sized,
        S: Site<P>,
    {
        let (from, mut to) = (self.cut.0, keys.view_mut());
        let begins = self.dispatch::<P>(input.view(), output.view_mut(), Some(&mut to), count.view_mut())?;
        if let (View::Host(from), ViewMut::Host(to), [begins @ .., _]) = (from, to, &begins[..]) {
            for (to, &begin) in to.iter_mut().zip(begins) {
                *to = from[begin as usize];
            }
        }
        Ok(())
    }
}

/// The outputs of a call on the device.
struct Results<'a> {
    items: &'a mut dyn BufferMut,
    keys: Option<&'a mut dyn BufferMut>,
    count: &'a mut dyn BufferMut,
}

fn on_device<Op: Operator<T>, T: Element>(
    stream: &Arc<CudaStream>,
    input: &dyn DevicePtr<T>,
    Results { items, keys, count }: Results<'_>,
    first: Option<Op::Carry>,
    cut: &dyn Selectors,
    length: Option<&dyn DevicePtr<u64>>,
    workspace: Option<&mut Workspace>,
) -> Result<(), Error> {
    let (n, capacity) = (input.len(), items.capacity());
    let submit = Submit::new(NAME, stream);
    submit.uses("the input", input.stream())?;
    submit.uses("the output", items.home())?;
    submit.uses("the count", count.home())?;
    if let Some(keys) = &keys {
        submit.uses("the keys' output", keys.home())?;
    }
    cut.check(&submit)?;
    submit.counts(length)?;
    submit.begin()?;
    check_element::<T>(NAME)?;
    let kernels = segmented::load_runs::<Op, T>(&submit, cut.on_device(0), length.is_some())?;
    let plan = SegmentedPlan::runs::<Op, T>(n, kernels.machine().architecture)?;
    // The guards order the work against other streams; they live until it is launched.
    let (input, _read) = input.device_ptr(stream);
    let (output, _written) = items.address(stream);
    let (keys, _keys_written) = keys.map(|keys| keys.address(stream)).unzip();
    let (count, _counted) = count.address(stream);
    let (cut, _selected) = cut.guarded(stream);
    let (length, _length) = length.map(|length| length.device_ptr(stream)).unzip();
    let (first, keys) = (first.map(Op::to_cuda), keys.unwrap_or(0));
    submit.with_memory(workspace, plan.words, plan.scratch, |words, _| {
        let arguments = RunReduceArguments { input, n, length, first, cut, output, keys, capacity, count, words };
        // SAFETY: the kernels are those of the types, and the plan is for n items. The input has n items
        // on this device, by its type, flags, bits or keys are long enough by `check`, the outputs by
        // `dispatch`, and the guards keep them. The words are the workspace's, as many as the plan asks
        // for, and zero. The stream's context was bound by `begin`.
        unsafe { arguments.launch(&plan, kernels, submit.device(), stream.cu_stream()) }
    })
}
