//! Expand: the segment of each packed item, from the segments' offsets.

use super::arguments::{Index, countable, long_enough};
use crate::cpu::{self, segments as host};
use crate::cuda::segments::{self, ExpandArguments};
use crate::memory::{Buffer, BufferMut, View, ViewMut, part_to_host};
use crate::site::{AnySite, Anywhere, Site, counted, counted_here, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Error, Place, Source, Workspace};
use cudarc::driver::CudaStream;
use std::marker::PhantomData;
use std::sync::Arc;

const NAME: &str = "expand";

/// Computes the segment index of each packed item from the offsets of the segments.
///
/// The inverse of [`pack`](crate::pack()). Offsets have the type `O`. Returns a builder; see
/// [`Expand`].
///
/// # Example
/// ```
/// use parascan::expand;
///
/// let offsets = [0, 2, 2, 5]; // of segments of 2, 0 and 3 items
/// assert_eq!(expand::<u32>().run::<u32, _>(&offsets)?, [0, 0, 2, 2, 2]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn expand<O: Index>() -> Expand<O> {
    Expand { site: Anywhere, types: PhantomData }
}

/// Segment indices of packed items: the calls that compute them. Made by [`expand()`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Expand::run), [`run_into`](Expand::run_into) | the segment of each item |
/// | [`run_with_positions_into`](Expand::run_with_positions_into) | also its position in it |
///
/// # Offsets
/// Offsets are one more than the segments, as [`pack`](crate::pack()) and
/// [`with_total`](crate::Offsets::with_total) write them. They count from the first offset, so part
/// of a longer array of offsets is valid. An offset less than the first one counts as the first
/// one.
///
/// If the offsets do not ascend, each output of [`run`](Expand::run) is some valid segment index.
/// In the caller's memory each output is some valid segment index, or not changed.
///
/// # Length
/// There are last offset - first offset outputs. Memory past them is not changed. If the output is
/// shorter, on the device the outputs that fit are written; on the host that is [`Error::Size`].
///
/// # Cost
/// Offsets are read once and outputs written once. Work is divided evenly for any lengths of
/// segments. On the device that is one launch, without scratch memory.
///
/// # Waiting
/// On the device the calls into the caller's memory return when the work is on the stream, and
/// never wait for it. [`run`](Expand::run) waits for the first and the last offset. The first use
/// in a process loads kernels, as for a [`Scan`](crate::Scan).
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | no offset at all; positions shorter than the output |
/// | [`Error::Size`] on the host | an output that is too short |
/// | [`Error::TooLong`] | more segments or outputs than the index type counts |
/// | [`Error::TooLong`] on the device | an output's capacity is more than the index type counts |
/// | [`Error::OutOfMemory`] | memory |
/// | as for a [`Scan`](crate::Scan) | device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error.
///
/// # Source
/// Load-balancing search: Baxter, "moderngpu" (2013); Merrill and Garland, "Merge-Based Parallel
/// Sparse Matrix-Vector Multiplication" (2016).
#[derive(Debug)]
#[must_use = "nothing is done until `run` or a call that ends in `into`"]
pub struct Expand<O, W = Anywhere> {
    site: W,
    types: PhantomData<fn(O)>,
}
site_methods! { impl[O: Index] Expand<O; W> { types } }
len_method! {
    /// It counts the segments, so one offset more is read. [`run`](Self::run) waits for the number too, and
    /// returns memory of the items alone.
    ///
    /// ```
    /// # use parascan::expand;
    /// assert_eq!(expand::<u32>().len(&[2]).run::<u32, _>(&[0, 2, 3, 9, 9])?, [0, 0, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[O: Index] Expand<O; W> { types }
}

// ---- prepare

impl<O: Index, W> Expand<O, W> {
    /// Loads the kernels, so that a call into the caller's memory never synchronises and can be
    /// captured into a graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, workspace: &mut Workspace) -> Result<(), Error>
    where
        W: AnySite,
    {
        segments::load(W::IS_COUNTED, &Submit::prepare(NAME, workspace)?).map(|_| ())
    }

    // ---- running

    /// Returns the segment of each item in new memory.
    ///
    /// On the device the call waits for the first and the last offset.
    pub fn run<I, X>(self, offsets: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<O> + ?Sized,
        W: Site<X::Place>,
    {
        let view = offsets.view();
        let stream = view.stream(self.site.stream());
        let n = counted_here(NAME, self.site.count(), view.len().saturating_sub(1), stream.as_ref())?;
        let total = total::<I, O>(view, n, stream.as_ref())?;
        let mut segments = X::Place::allocate::<I>(NAME, total, stream.as_ref())?;
        self.dispatch::<X::Place, I>(view, X::Place::view_mut(&mut segments), None)?;
        Ok(segments)
    }

    /// Writes the segment of each item into the caller's memory.
    ///
    /// ```
    /// # use parascan::expand;
    /// let (offsets, mut segments) = ([0_u64, 2, 2, 5], [9_u32; 4]);
    /// expand::<u64>().run_into(&offsets[1..], &mut segments)?; // the last two segments
    /// assert_eq!(segments, [1, 1, 1, 9]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<I, X, Q>(self, offsets: &X, segments: &mut Q) -> Result<(), Error>
    where
        I: Index,
        X: Source<O> + ?Sized,
        Q: Destination<I, X::Place> + ?Sized,
        W: Site<X::Place>,
    {
        self.dispatch::<X::Place, I>(offsets.view(), segments.view_mut(), None)
    }

    /// Writes the segment of each item, and the item's position in that segment, into the caller's
    /// memory.
    ///
    /// ```
    /// # use parascan::expand;
    /// let (mut rows, mut columns) = ([0_u32; 5], [0_u32; 5]);
    /// expand::<u64>().run_with_positions_into(&[0, 2, 2, 5], &mut rows, &mut columns)?;
    /// assert_eq!((rows, columns), ([0, 0, 2, 2, 2], [0, 1, 0, 1, 2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_with_positions_into<I, X, Q, P>(
        self,
        offsets: &X,
        segments: &mut Q,
        positions: &mut P,
    ) -> Result<(), Error>
    where
        I: Index,
        X: Source<O> + ?Sized,
        Q: Destination<I, X::Place> + ?Sized,
        P: Destination<I, X::Place> + ?Sized,
        W: Site<X::Place>,
    {
        self.dispatch::<X::Place, I>(offsets.view(), segments.view_mut(), Some(positions.view_mut()))
    }

    // ---- on either engine

    fn dispatch<L: Place, I: Index>(
        self,
        offsets: View<'_, O>,
        mut segments: ViewMut<'_, I>,
        mut positions: Option<ViewMut<'_, I>>,
    ) -> Result<(), Error>
    where
        W: Site<L>,
    {
        long_enough(NAME, "the offsets", offsets.len(), 1)?;
        let (n, capacity) = (offsets.len() - 1, segments.len());
        if let Some(positions) = &positions {
            long_enough(NAME, "the positions", positions.len(), capacity)?;
        }
        if let View::Host(offsets) = offsets {
            assert!(L::ON_HOST);
            let n = counted(NAME, self.site.count(), n)?;
            let total = cpu::Size::widen(offsets[n]).saturating_sub(cpu::Size::widen(offsets[0]));
            let total = usize::try_from(total).unwrap_or(usize::MAX);
            countable::<I>(NAME, n.max(total))?;
            long_enough(NAME, "the output", capacity, total)?;
            host::expand(&offsets[..=n], segments.host(), positions.as_mut().map(|positions| positions.host()));
            return Ok(());
        }
        assert!(L::ON_DEVICE);
        countable::<I>(NAME, n.max(capacity))?;
        let stream = self.site.stream().unwrap_or(offsets.home()).clone();
        let submit = Submit::new(NAME, &stream);
        submit.uses("the offsets", offsets.home())?;
        submit.uses("the output", segments.home())?;
        if let Some(positions) = &positions {
            submit.uses("the positions", positions.home())?;
        }
        let count = self.site.count().map(|count| count.device());
        submit.counts(count)?;
        submit.begin()?;
        let kernels = segments::load(count.is_some(), &submit)?;
        if n == 0 || capacity == 0 {
            return Ok(());
        }
        let (offsets, _read) = offsets.address(&stream);
        let (segments, _segments) = segments.address(&stream);
        let (positions, _positions) = match &mut positions {
            Some(positions) => {
                let (address, guard) = positions.address(&stream);
                (address, Some(guard))
            }
            None => (0, None),
        };
        let (length, _counted) = count.map(|count| count.device_ptr(&stream)).unzip();
        let arguments = ExpandArguments { offsets, n, length, segments, positions, capacity };
        // SAFETY: all buffers lie on this device, as long as the arguments say, kept by the guards;
        // outputs are borrowed exclusively; the stream's context was bound by `begin`.
        unsafe { arguments.launch::<O, I>(NAME, kernels, stream.cu_stream()) }
    }
}

/// The number of outputs of the first `n` segments. On the device the call waits for the first
/// offset and their last one.
///
/// # Errors
/// [`Error::Size`] without offsets, and [`Error::TooLong`] if `I` does not count the outputs or the
/// segments.
pub(crate) fn total<I: Index, O: Index>(
    offsets: View<'_, O>,
    n: usize,
    stream: Option<&Arc<CudaStream>>,
) -> Result<usize, Error> {
    long_enough(NAME, "the offsets", offsets.len(), 1)?;
    let [first, last] = match (offsets, stream) {
        (View::Device(offsets), Some(stream)) => {
            Submit::new(NAME, stream).uses("the offsets", offsets.stream())?;
            let [first, last] = [0, n].map(|i| part_to_host(stream, offsets, i, 1));
            [first?[0], last?[0]]
        }
        _ => [0, n].map(|i| offsets.host()[i]),
    };
    let total = cpu::Size::widen(last).saturating_sub(cpu::Size::widen(first));
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    countable::<I>(NAME, total.max(n))?;
    Ok(total)
}
