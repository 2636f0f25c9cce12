//! Pack: segments of any lengths gathered into one contiguous buffer.

use super::arguments::{Index, long_enough};
use super::offsets::{Offsets, Size, counted, offsets};
use crate::cpu::{self, segments as host};
use crate::cuda::Kernels;
use crate::cuda::segments::{self, PackArguments};
use crate::memory::{Buffer, BufferMut, View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted as taken, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Error, Place, Source, Workspace};
use bytemuck::Pod;
use cudarc::driver::CudaStream;
use std::marker::PhantomData;
use std::sync::Arc;

const NAME: &str = "pack";

/// Gathers segments of items `T` into one contiguous buffer, and computes the offset of each in it.
///
/// Segments are, for example, strings, rows of a matrix, or neighbour lists. Begins and offsets
/// have the type `O`. Returns a builder; see [`Pack`].
///
/// # Example
/// ```
/// use parascan::pack;
///
/// let text = b"one, two, three";
/// let (words, offsets) = pack::<u8, u32>().run(text, &[10, 0, 5], &[5_u8, 3, 3])?;
/// assert_eq!((&words[..], &offsets[..]), (&b"threeonetwo"[..], &[0, 5, 8, 11][..]));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn pack<T: Pod, O: Index>() -> Pack<T, O> {
    Pack { site: Anywhere, types: PhantomData }
}

/// A gather of segments of items `T`: options, and the calls that run it. Made by [`pack()`].
///
/// Segment i is the `sizes[i]` items from `items[begins[i]]` on. Segments may overlap and lie in
/// any order; an empty segment may begin anywhere. The offsets are one more than the segments; the
/// last is the total.
///
/// # The total
/// `total` is one `u64` in the same memory as the items. The call writes the sum of all sizes
/// there, as [`Offsets`](crate::Offsets#the-total) does:
///
/// | total | on the device | on the host |
/// |---|---|---|
/// | does not fit `O` | offsets and output are wrong | [`Error::Overflow`], nothing written |
/// | exceeds the output | the items that fit are written | [`Error::Size`], nothing written |
///
/// # Cost
/// | memory | traffic |
/// |---|---|
/// | sizes, begins, packed items | read once |
/// | offsets | written once, read once |
/// | output | written once |
///
/// On the device that is two launches for any n. Work is divided by bytes, so the lengths of
/// segments do not matter.
///
/// # Waiting
/// On the device [`run_into`](Pack::run_into) returns when the work is on the stream, and never
/// waits for it. [`run`](Pack::run) waits for the total. The first use in a process loads kernels,
/// as for a [`Scan`](crate::Scan).
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | begins, offsets or total that are too short |
/// | [`Error::Size`] on the host | an output that is too short, a segment past the items' end |
/// | [`Error::ItemSize`] | on the device, items that are not 1 to 16 bytes |
/// | [`Error::Overflow`] | a total that does not fit `O`; on the device, if the call waits for it |
/// | [`Error::TooLong`] on the device | more segments or output bytes than a grid of blocks takes |
/// | as for [`Offsets`](crate::Offsets) | memory, device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error, with one exception: if the driver refuses
/// the second launch ([`Error::Driver`]), offsets and total have been written. On the device the
/// part of a segment past the items' end is not copied, and its part of the output is not changed.
/// Length zero is valid.
///
/// # Source
/// Load-balancing search: Baxter, "moderngpu" (2013); Merrill and Garland, "Merge-Based Parallel
/// Sparse Matrix-Vector Multiplication" (2016). Segments and their items form one sequence of work,
/// divided evenly.
#[derive(Debug)]
#[must_use = "nothing is packed until `run` or `run_into`"]
pub struct Pack<T, O, W = Anywhere> {
    site: W,
    types: PhantomData<fn(T) -> O>,
}
site_methods! { impl[T: Pod, O: Index] Pack<T, O; W> { types } }
len_method! {
    /// It counts the segments: sizes and begins. One offset more is written.
    ///
    /// ```
    /// # use parascan::pack;
    /// let (packed, offsets) = pack::<u8, u32>().len(&[2]).run(b"one, two", &[5, 0, 9], &[3_u8, 3, 7])?;
    /// assert_eq!((&packed[..], &offsets[..3]), (&b"twoone"[..], &[0, 3, 6][..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[T: Pod, O: Index] Pack<T, O; W> { types }
}

// ---- prepare

impl<T: Pod, O: Index, W> Pack<T, O, W> {
    /// Loads the kernels and grows the workspace for [`run_into`](Pack::run_into) of up to `n`
    /// segments with sizes of type `S`.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare<S: Size>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error>
    where
        W: AnySite,
    {
        segments::load(W::IS_COUNTED, &Submit::prepare(NAME, workspace)?)?;
        super::offsets::prepare::<S, O>(W::IS_COUNTED, n, workspace)
    }
}

// ---- running

impl<T: Pod + Send + Sync, O: Index, W> Pack<T, O, W> {
    /// Returns the packed items, and the offsets with the total, in new memory of exactly that
    /// length.
    ///
    /// On the device the call waits for the total, and zeros the new memory before the gather.
    #[allow(clippy::type_complexity)]
    pub fn run<S, X, B, Z>(
        mut self,
        items: &X,
        begins: &B,
        sizes: &Z,
    ) -> Result<(X::Owned, <X::Place as Place>::Indices<O>), Error>
    where
        S: Size,
        X: Source<T> + ?Sized,
        B: Source<O, Place = X::Place> + ?Sized,
        Z: Source<S, Place = X::Place> + ?Sized,
        W: Site<X::Place>,
    {
        let (from, begins, sizes) = (items.view(), begins.view(), sizes.view());
        let stream = from.stream(self.site.stream());
        let (n, _) = self.check::<X::Place, S>(&from, &begins, &sizes)?;
        let mut starts = X::Place::allocate::<O>(NAME, sizes.len() + 1, stream.as_ref())?;
        let mut total = X::Place::allocate::<u64>(NAME, 1, stream.as_ref())?;
        self.find::<X::Place, S>(sizes, X::Place::view_mut(&mut starts), X::Place::view_mut(&mut total))?;
        let total = counted::<O>(NAME, X::Place::read::<1>(&total)?[0], X::Place::ON_DEVICE)?;
        let mut output = items.allocate(NAME, total, stream.as_ref())?;
        let mut to = X::view_owned(&mut output);
        if let ViewMut::Device(memory) = &mut to {
            // The kernel does not write the part of a segment past the items' end, so the output
            // must hold no old memory.
            crate::memory::zero(*memory)?;
        }
        let mut offsets = X::Place::view_mut(&mut starts);
        let ready = self.ready::<X::Place>(n, &from, &begins, &offsets, &to)?;
        gather(n, self.site.count(), from, begins, &mut offsets, to, ready)?;
        Ok((output, starts))
    }

    /// Writes the packed items, the offsets and [the total](Pack#the-total) into the caller's
    /// memory.
    ///
    /// `offsets` are one more than the segments. What lies past the last written item or offset is
    /// not changed.
    ///
    /// ```
    /// # use parascan::pack;
    /// let (mut rows, mut offsets, mut total) = ([0.0; 4], [0_u64; 3], [0]);
    /// pack::<f32, u64>().run_into(&[0.5, 1.5, 2.5], &[2, 0], &[1_u32, 3], &mut rows, &mut offsets, &mut total)?;
    /// assert_eq!((rows, offsets, total), ([2.5, 0.5, 1.5, 2.5], [0, 1, 4], [4]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<S, X, B, Z, Q, P, N>(
        mut self,
        items: &X,
        begins: &B,
        sizes: &Z,
        output: &mut Q,
        offsets: &mut P,
        total: &mut N,
    ) -> Result<(), Error>
    where
        S: Size,
        X: Source<T> + ?Sized,
        B: Source<O, Place = X::Place> + ?Sized,
        Z: Source<S, Place = X::Place> + ?Sized,
        Q: Destination<T, X::Place> + ?Sized,
        P: Destination<O, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        W: Site<X::Place>,
    {
        let (items, begins, sizes) = (items.view(), begins.view(), sizes.view());
        let (output, mut offsets, mut total) = (output.view_mut(), offsets.view_mut(), total.view_mut());
        // Every error but the driver's is found before anything is written: here, or by `find`.
        let (n, sum) = self.check::<X::Place, S>(&items, &begins, &sizes)?;
        if let Some(sum) = sum
            && sum <= u128::from(<O as cpu::Size>::MOST)
        {
            long_enough(NAME, "the output", output.len(), usize::try_from(sum).unwrap_or(usize::MAX))?;
        }
        let ready = self.ready::<X::Place>(n, &items, &begins, &offsets, &output)?;
        self.find::<X::Place, S>(sizes, offsets.again(), total.again())?;
        gather(n, self.site.count(), items, begins, &mut offsets, output, ready)
    }

    // ---- on either engine

    /// Checks lengths and item size. Returns the number of segments, on the device at most, and on the host the
    /// total.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::ItemSize`].
    fn check<L: Place, S: Size>(
        &self,
        items: &View<'_, T>,
        begins: &View<'_, O>,
        sizes: &View<'_, S>,
    ) -> Result<(usize, Option<u128>), Error>
    where
        W: Site<L>,
    {
        long_enough(NAME, "the begins of segments", begins.len(), sizes.len())?;
        if let (View::Host(items), View::Host(begins), View::Host(sizes)) = (items, begins, sizes) {
            let beyond = |end| Error::Size {
                primitive: NAME,
                what: "the items",
                found: items.len(),
                needed: usize::try_from(end).unwrap_or(usize::MAX),
            };
            let n = taken(NAME, self.site.count(), sizes.len())?;
            let total = host::total(items.len(), begins, &sizes[..n]).map_err(beyond)?;
            return Ok((n, Some(total)));
        }
        match size_of::<T>() {
            1..=16 => Ok((sizes.len(), None)),
            size => Err(Error::ItemSize { primitive: NAME, size }),
        }
    }

    /// Checks the buffers of `n` segments on the device, and returns the stream and the kernels.
    ///
    /// # Errors
    /// [`Error::TooLong`], those of [`Submit`] and of loading.
    fn ready<L: Place>(
        &self,
        n: usize,
        items: &View<'_, T>,
        begins: &View<'_, O>,
        starts: &ViewMut<'_, O>,
        output: &ViewMut<'_, T>,
    ) -> Result<Option<Ready>, Error>
    where
        W: Site<L>,
    {
        if let View::Host(_) = items {
            return Ok(None);
        }
        assert!(L::ON_DEVICE);
        let stream = self.site.stream().unwrap_or(items.home()).clone();
        let submit = Submit::new(NAME, &stream);
        submit.uses("the items", items.home())?;
        submit.uses("the begins of segments", begins.home())?;
        submit.uses("the offsets", starts.home())?;
        submit.uses("the output", output.home())?;
        submit.begin()?;
        let kernels = segments::load(W::IS_COUNTED, &submit)?;
        segments::pack_blocks(NAME, n, output.len() * size_of::<T>())?;
        Ok(Some(Ready { stream, kernels }))
    }

    /// Computes the offsets of the segments.
    fn find<L: Place, S: Size>(
        &mut self,
        sizes: View<'_, S>,
        starts: ViewMut<'_, O>,
        total: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        W: Site<L>,
    {
        let offsets: Offsets<S, O> = offsets().with_total();
        let stream = sizes.stream(self.site.stream());
        let (workspace, count) = self.site.take();
        offsets.at(Lent { stream: stream.as_ref(), workspace, count }).dispatch_as::<L>(NAME, sizes, starts, total)
    }
}

/// The site of a pack, lent to the offsets of its segments.
struct Lent<'a> {
    stream: Option<&'a Arc<CudaStream>>,
    workspace: Option<&'a mut Workspace>,
    count: Option<View<'a, u64>>,
}
impl AnySite for Lent<'_> {}
impl<P: Place> Site<P> for Lent<'_> {
    fn stream(&self) -> Option<&Arc<CudaStream>> {
        self.stream
    }
    fn take_workspace(&mut self) -> Option<&mut Workspace> {
        self.workspace.as_deref_mut()
    }
    fn count(&self) -> Option<View<'_, u64>> {
        self.count
    }
    fn take(&mut self) -> (Option<&mut Workspace>, Option<View<'_, u64>>) {
        (self.workspace.as_deref_mut(), self.count)
    }
}

/// The stream and the kernels of a gather on the device.
struct Ready {
    stream: Arc<CudaStream>,
    kernels: &'static Kernels,
}

/// Gathers the items of `n` segments, by their `n` + 1 offsets. On the device `count` may say that they are fewer.
fn gather<T: Pod + Send + Sync, O: Index>(
    n: usize,
    count: Option<View<'_, u64>>,
    items: View<'_, T>,
    begins: View<'_, O>,
    starts: &mut ViewMut<'_, O>,
    mut output: ViewMut<'_, T>,
    ready: Option<Ready>,
) -> Result<(), Error> {
    let Some(Ready { stream, kernels }) = ready else {
        let starts = &starts.host()[..=n];
        let total = cpu::Size::widen(starts[n]) as usize;
        host::pack(items.host(), begins.host(), starts, &mut output.host()[..total]);
        return Ok(());
    };
    let capacity = output.len();
    if n == 0 || capacity == 0 {
        return Ok(());
    }
    let (size, align, len) = (size_of::<T>(), align_of::<T>(), items.len());
    let (from, _read) = items.address(&stream);
    let (begins, _begins) = begins.address(&stream);
    let (offsets, _offsets) = starts.address(&stream);
    let (to, _written) = output.address(&stream);
    let (length, _counted) = count.map(|count| count.device().device_ptr(&stream)).unzip();
    let arguments = PackArguments { size, align, items: from, len, begins, offsets, n, length, output: to, capacity };
    // SAFETY: all buffers lie on this device and are long enough: `check` has checked the begins
    // and the size of an item, and `Offsets` the offsets. The guards keep them. Outputs are
    // borrowed exclusively. `ready` has bound the stream's context.
    unsafe { arguments.launch::<O>(NAME, kernels, stream.cu_stream()) }
}
