//! Compaction: the selected items, contiguous and in their original order.

use super::arguments::{Index, Word, countable, long_enough};
use super::choice::{ByBits, ByFlags, ByPredicate, Chosen, Unchosen, choice_methods};
use super::compact_engines::{Moving, OnDevice, OnHost};
use crate::cpu::compact as host;
use crate::cuda::{ColumnKind, CompactProgram, NoColumn, Payload, SourceIndices};
use crate::memory::{Buffer, BufferMut, View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Device, Element, Error, Not, Place, Predicate, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

/// Copies the selected items `T` to the front of an output, in their original order.
///
/// Returns a builder. [`keep`](Compact::keep), [`discard`](Compact::discard),
/// [`flags`](Compact::flags) or [`bits`](Compact::bits) says which items are selected; [`Compact`]
/// lists the rest.
///
/// # Example
/// ```
/// use parascan::{Above, NonZero, compact};
///
/// let prices = [0.25, 0.75, 0.5, 2.0];
/// assert_eq!(compact::<f32>().keep(Above(0.5)).run(&prices)?, [0.75, 2.0]);
/// assert_eq!(compact::<f32>().discard(Above(0.5)).run(&prices)?, [0.25, 0.5]);
/// assert_eq!(compact::<u16>().flags(&[1, 0, 0, 1]).run(&[7, 8, 9, 10])?, [7, 10]);
/// assert_eq!(compact::<u16>().flags(&[1, 0, 0, 1]).complement().run(&[7, 8, 9, 10])?, [8, 9]);
/// assert_eq!(compact::<u16>().bits::<u32, _>(&[0b1001]).run(&[7, 8, 9, 10])?, [7, 10]);
/// assert_eq!(compact::<i32>().keep(NonZero).indices::<u32, _>(&[0, 5, 0, -1])?, [1, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn compact<T: Pod>() -> Compact<T> {
    Compact { name: "compact", choice: Unchosen, complement: false, append: false, site: Anywhere, item: PhantomData }
}

/// A compaction of items `T`: its options, and the calls that run it. Made by [`compact`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Compact::run), [`run_into`](Compact::run_into) | selected items |
/// | [`run_in_place`](Compact::run_in_place) | selected items, in place |
/// | [`run_pairs`](Compact::run_pairs) | selected items, each with its payload |
/// | [`run_pairs_into`](Compact::run_pairs_into) | the same in the caller's memory |
/// | [`indices`](Compact::indices) | source indices of the selected items |
/// | [`indices_into`](Compact::indices_into) | the same in the caller's memory |
/// | [`run_with_indices_into`](Compact::run_with_indices_into) | items and source indices |
///
/// # Items
/// [`keep`](Compact::keep) and [`discard`](Compact::discard) take any [`Element`]. Flags and bits
/// take any plain data, on the device of 1 to 16 bytes.
///
/// # The count
/// `count` is one `u64` in the same memory as the items. The call writes the number of selected
/// items there, so on the device the call need not wait.
///
/// **A count greater than the output's length means that the output was too short.** On the device
/// nothing is written past its end then. On the host the call returns [`Error::Size`] and writes
/// nothing. Items of the output beyond the count are not changed; in place their values are unspecified.
///
/// # Cost
/// For n items of b bytes, of which m are selected:
///
/// | selection | bytes moved |
/// |---|---|
/// | by predicate | (n + m) b |
/// | by flags | (n + m) b + n |
/// | by bits | (n + m) b + n / 8 |
/// | [`run`](Compact::run) on the device | m b read and m b written again |
///
/// On the device that is one launch for any n. On the host, if the output might be too short, the
/// items, flags or bits are read to count first; n / 8 bytes of new memory keep the bits. Several threads take n / 8
/// bytes more for an input of more than 256 KiB.
///
/// # Waiting
/// On the device the calls into the caller's memory return when the work is on the stream, and
/// never wait for it. [`run`](Compact::run), [`run_pairs`](Compact::run_pairs) and
/// [`indices`](Compact::indices) wait for the count, to return memory of exactly that length. The
/// first use of a predicate and element type in a process loads kernels: the call waits for the
/// driver, and for the compiler if the kernels are not embedded.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | flags, bits, payload or count too short; on the host also an output |
/// | [`Error::Size`] | indices, or a payload's output, shorter than the output |
/// | [`Error::ItemSize`], [`Error::TooLong`] | an item size or a length that no kernel takes |
/// | [`Error::TooLong`] | more items than the index type counts |
/// | [`Error::OutOfMemory`] | memory |
/// | as for a [`Scan`](crate::Scan) | device, context, capture, driver, compiler |
///
/// Nothing has been written when a call returns an error. Length zero is valid.
///
/// # Panics
/// Only if the predicate panics, on host data.
///
/// # Source
/// Billeter, Olsson and Assarsson, "Efficient Stream Compaction on Wide SIMD Many-Core
/// Architectures" (2009). Here a warp ranks its selected items by scans of packed counts. Tiles are
/// joined as in a [`Scan`](crate::Scan).
#[derive(Debug)]
#[must_use = "a compaction does nothing until it is run"]
pub struct Compact<T, C = Unchosen, S = Anywhere> {
    /// The primitive's name in errors.
    name: &'static str,
    choice: C,
    complement: bool,
    append: bool,
    site: S,
    item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Pod, C] Compact<T, C; S> { name, choice, complement, append, item } where C: Copy }

// ---- options

impl<T: Pod, C, S> Compact<T, C, S> {
    pub(super) fn with<C2>(self, choice: C2) -> Compact<T, C2, S> {
        let Compact { name, complement, append, site, item, .. } = self;
        Compact { name, choice, complement, append, site, item }
    }
    pub(super) fn named(self, name: &'static str) -> Self {
        Compact { name, ..self }
    }

    /// Appends the selected items to the items that the output already holds.
    ///
    /// `count` is their number before the call, and the new number after it. So several compactions
    /// fill one buffer without a wait between them. Ignored by the calls that return new memory,
    /// and in place.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (mut output, mut count) = ([0; 4], [0]);
    /// for part in [[1, 5, 9], [2, 7, 0]] {
    ///     compact::<i32>().keep(Above(4)).append().run_into(&part, &mut output, &mut count)?;
    /// }
    /// assert_eq!((output, count), ([5, 9, 7, 0], [3]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }
}
choice_methods! { Compact }

len_method! {
    /// ```
    /// # use parascan::{NonZero, compact};
    /// assert_eq!(compact::<i32>().keep(NonZero).len(&[3]).run(&[1, 0, 2, 3])?, [1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[T: Pod, C] Compact<T, C; S> { name, choice, complement, append, item }
}

// ---- prepare

impl<T: Pod, C: Chosen<T, Device>, S: AnySite> Compact<T, C, S> {
    /// Loads the kernels and grows the workspace for [`run_into`](Compact::run_into) and
    /// [`run_in_place`](Compact::run_in_place) of up to `n` items by the same selection.
    ///
    /// After this such a call allocates nothing, never synchronises, and can be captured into a
    /// graph. The values of a predicate may differ.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, NoColumn, 1>(self.name, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Compact::prepare) for [`run_pairs_into`](Compact::run_pairs_into) with a payload
    /// of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, Payload<V>, 1>(self.name, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Compact::prepare) for [`run_with_indices_into`](Compact::run_with_indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_with_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, SourceIndices<I>, 1>(self.name, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Compact::prepare) for [`indices_into`](Compact::indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, SourceIndices<I>, NoColumn, 1>(self.name, S::IS_COUNTED, n, workspace)
    }
}

/// [`Compact::prepare`] for the columns `A` and `B` in `PARTS` parts: 1 for a compaction.
pub(super) fn prepare<T: Pod, C: Chosen<T, Device>, A: ColumnKind, B: ColumnKind, const PARTS: usize>(
    primitive: &'static str,
    is_counted: bool,
    n: usize,
    workspace: &mut Workspace,
) -> Result<(), Error> {
    let device = Submit::prepare(primitive, workspace)?;
    CompactProgram::new::<C::Kind, A, B, PARTS>().counted(is_counted).prepare(primitive, n, workspace, device)
}

// ---- running

impl<T: Pod + Send + Sync, C, S> Compact<T, C, S> {
    /// Returns the selected items in new memory of exactly that length: a `Vec` or a `CudaSlice`.
    ///
    /// On the device the call waits for the count.
    ///
    /// ```
    /// # use parascan::{Within, compact};
    /// assert_eq!(compact::<u8>().keep(Within(b'a', b'z')).run(b"Rust is 11")?, b"ustis");
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<X>(mut self, items: &X) -> Result<X::Owned, Error>
    where
        X: Source<T> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.append = false;
        let name = self.name;
        let stream = items.view().stream(self.site.stream());
        let mut output = items.allocate(name, items.view().len(), stream.as_ref())?;
        let mut count = X::Place::allocate::<u64>(name, 1, stream.as_ref())?;
        self.dispatch::<X::Place>(Some(items.view()), X::view_owned(&mut output), X::Place::view_mut(&mut count))?;
        X::shorten(name, output, X::Place::read::<1>(&count)?[0])
    }

    /// Writes the selected items into the caller's memory; see [the count](Compact#the-count).
    ///
    /// ```
    /// # use parascan::{AtMost, compact};
    /// let (mut low, mut count) = ([0; 4], [0]);
    /// compact::<u32>().keep(AtMost(5)).run_into(&[9, 3, 8, 5], &mut low, &mut count)?;
    /// assert_eq!((low, count), ([3, 5, 0, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_into<X, O, N>(self, items: &X, output: &mut O, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.dispatch::<X::Place>(Some(items.view()), output.view_mut(), count.view_mut())
    }

    /// Moves the selected items to the front of their own memory.
    ///
    /// ```
    /// # use parascan::{NonZero, compact};
    /// let (mut items, mut count) = (vec![0, 3, 0, 1], [0]);
    /// compact::<i64>().keep(NonZero).run_in_place(&mut items, &mut count)?;
    /// items.truncate(count[0] as usize);
    /// assert_eq!(items, [3, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X, N>(mut self, items: &mut X, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        N: Destination<u64, <X as Source<T>>::Place> + ?Sized,
        C: Chosen<T, <X as Source<T>>::Place>,
        S: Site<<X as Source<T>>::Place>,
    {
        self.append = false;
        self.dispatch::<<X as Source<T>>::Place>(None, items.view_mut(), count.view_mut())
    }

    /// Returns the source indices of the selected items in new memory.
    ///
    /// On the device the call waits for the count.
    ///
    /// ```
    /// # use parascan::{NonZero, compact};
    /// assert_eq!(compact::<u8>().keep(NonZero).indices::<u64, _>(&[0, 7, 9, 0])?, [1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices<I, X>(mut self, items: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.append = false;
        let name = self.name;
        let stream = items.view().stream(self.site.stream());
        let mut output = X::Place::allocate::<I>(name, items.view().len(), stream.as_ref())?;
        let mut count = X::Place::allocate::<u64>(name, 1, stream.as_ref())?;
        self.dispatch_indices::<X::Place, I>(
            items.view(),
            X::Place::view_mut(&mut output),
            X::Place::view_mut(&mut count),
        )?;
        X::Place::shorten(name, output, X::Place::read::<1>(&count)?[0])
    }

    /// Writes the source indices of the selected items into the caller's memory.
    ///
    /// ```
    /// # use parascan::compact;
    /// let (mut indices, mut count) = ([0_u32; 4], [0]);
    /// compact::<f32>().flags(&[0, 1, 1]).indices_into(&[0.5, 1.5, 2.5], &mut indices, &mut count)?;
    /// assert_eq!((indices, count), ([1, 2, 0, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices_into<I, X, O, N>(self, items: &X, indices: &mut O, count: &mut N) -> Result<(), Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.dispatch_indices::<X::Place, I>(items.view(), indices.view_mut(), count.view_mut())
    }

    /// Writes the selected items and their source indices into the caller's memory.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (mut high, mut indices, mut count) = ([0.0; 3], [0_u32; 3], [0]);
    /// compact::<f64>().keep(Above(1.0)).run_with_indices_into(&[0.5, 2.0, 3.0], &mut high, &mut indices, &mut count)?;
    /// assert_eq!((high, indices, count), ([2.0, 3.0, 0.0], [1, 2, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_with_indices_into<I, X, O, Q, N>(
        mut self,
        items: &X,
        output: &mut O,
        indices: &mut Q,
        count: &mut N,
    ) -> Result<(), Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        Q: Destination<I, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        let (items, mut output, mut indices) = (items.view(), output.view_mut(), indices.view_mut());
        long_enough(self.name, "the indices", indices.len(), output.len())?;
        countable::<I>(self.name, items.len())?;
        if let View::Host(from) = items {
            assert!(X::Place::ON_HOST);
            let (to, indices) = (output.host().as_mut_ptr(), indices.host().as_mut_ptr());
            let capacity = output.len();
            // SAFETY: the view is of the items; the outputs are borrowed exclusively and have
            // at least `capacity` items.
            return unsafe {
                self.host::<X::Place>(from.len(), capacity, count.view_mut().host())?.run::<T, X::Place, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::array(from.as_ptr(), to), host::Column::indices(indices)],
                )
            };
        }
        assert!(X::Place::ON_DEVICE);
        let columns = [Moving::to(Some(&items), &mut output), Moving::to(None, &mut indices)];
        self.device::<X::Place, C::Items, SourceIndices<I>>(Some(&items), columns, &mut count.view_mut())
    }

    /// Returns the selected items, and the payload of each, in new memory of exactly that length.
    ///
    /// On the device the call waits for the count.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (high, names) = compact::<i32>().keep(Above(1)).run_pairs(&[3, 0, 2], b"abc")?;
    /// assert_eq!((&high[..], &names[..]), (&[3, 2][..], &b"ac"[..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs<V, X, Y>(mut self, items: &X, payload: &Y) -> Result<(X::Owned, Y::Owned), Error>
    where
        V: Pod + Send + Sync,
        X: Source<T> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.append = false;
        let (name, n) = (self.name, items.view().len());
        let stream = items.view().stream(self.site.stream());
        let mut output = items.allocate(name, n, stream.as_ref())?;
        let mut payload_output = payload.allocate(name, n, stream.as_ref())?;
        let mut count = X::Place::allocate::<u64>(name, 1, stream.as_ref())?;
        self.dispatch_pairs::<X::Place, V>(
            items.view(),
            payload.view(),
            X::view_owned(&mut output),
            Y::view_owned(&mut payload_output),
            X::Place::view_mut(&mut count),
        )?;
        let [selected] = X::Place::read(&count)?;
        Ok((X::shorten(name, output, selected)?, Y::shorten(name, payload_output, selected)?))
    }

    /// Writes the selected items, and the payload of each, into the caller's memory.
    ///
    /// The payload is a second array of any plain data, on the device of 1 to 16 bytes.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (mut high, mut names, mut count) = ([0; 3], [0; 3], [0]);
    /// compact::<i32>().keep(Above(1)).run_pairs_into(&[3, 0, 2], b"abc", &mut high, &mut names, &mut count)?;
    /// assert_eq!((high, names, count), ([3, 2, 0], [b'a', b'c', 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_into<V, X, Y, O, Q, N>(
        self,
        items: &X,
        payload: &Y,
        output: &mut O,
        payload_output: &mut Q,
        count: &mut N,
    ) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<T> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        Q: Destination<V, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        let outputs = (output.view_mut(), payload_output.view_mut());
        self.dispatch_pairs::<X::Place, V>(items.view(), payload.view(), outputs.0, outputs.1, count.view_mut())
    }

    // ---- on either engine

    /// In place `items` is `None`: the items are in the output.
    fn dispatch<L: Place>(
        mut self,
        items: Option<View<'_, T>>,
        mut output: ViewMut<'_, T>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        match (&items, &mut output) {
            (Some(View::Host(from)), ViewMut::Host(to)) => {
                assert!(L::ON_HOST);
                let (capacity, to) = (to.len(), to.as_mut_ptr());
                // SAFETY: the view is of the items; the outputs are borrowed exclusively and
                // have at least `capacity` items.
                unsafe {
                    self.host::<L>(from.len(), capacity, count.host())?.run::<T, L, C>(
                        &self.choice,
                        from.as_ptr(),
                        &mut [host::Column::array(from.as_ptr(), to)],
                    )
                }
            }
            (None, ViewMut::Host(data)) => {
                assert!(L::ON_HOST);
                self.choice.selectors(self.name, data.len())?;
                let n = counted(self.name, self.site.count(), data.len())?;
                long_enough(self.name, "the count", count.len(), 1)?;
                let items = data.as_mut_ptr();
                let same = host::Column::array(items.cast_const(), items);
                // SAFETY: the items are borrowed exclusively; `selectors` has checked the lengths.
                let selected = unsafe {
                    host::compact_in_place(n, &self.choice.on_host(items.cast_const()), self.complement, same)
                };
                count.host()[0] = selected as u64;
                Ok(())
            }
            _ => {
                assert!(L::ON_DEVICE);
                let from = items.as_ref().map(|items| items as &dyn Buffer);
                let columns = [Moving::to(from, &mut output), Moving::nothing()];
                self.device::<L, C::Items, NoColumn>(from, columns, &mut count)
            }
        }
    }

    fn dispatch_indices<L: Place, I: Index>(
        mut self,
        items: View<'_, T>,
        mut output: ViewMut<'_, I>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        countable::<I>(self.name, items.len())?;
        if let View::Host(from) = items {
            assert!(L::ON_HOST);
            let (capacity, to) = (output.len(), output.host().as_mut_ptr());
            // SAFETY: the view is of the items; the outputs are borrowed exclusively and have
            // at least `capacity` items.
            return unsafe {
                self.host::<L>(from.len(), capacity, count.host())?.run::<T, L, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::indices(to)],
                )
            };
        }
        assert!(L::ON_DEVICE);
        let columns = [Moving::to(None, &mut output), Moving::nothing()];
        self.device::<L, SourceIndices<I>, NoColumn>(Some(&items), columns, &mut count)
    }

    fn dispatch_pairs<L: Place, V: Pod + Send + Sync>(
        mut self,
        items: View<'_, T>,
        payload: View<'_, V>,
        mut output: ViewMut<'_, T>,
        mut payload_output: ViewMut<'_, V>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        long_enough(self.name, "the payload", payload.len(), items.len())?;
        long_enough(self.name, "the payload's output", payload_output.len(), output.len())?;
        if let View::Host(from) = items {
            assert!(L::ON_HOST);
            let (to, values, capacity) = (output.host().as_mut_ptr(), payload.host().as_ptr(), output.len());
            let values_to = payload_output.host().as_mut_ptr();
            // SAFETY: the views are of the items and of as many payloads; the outputs are borrowed
            // exclusively and have at least `capacity` items.
            return unsafe {
                self.host::<L>(from.len(), capacity, count.host())?.run::<T, L, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::array(from.as_ptr(), to), host::Column::array(values, values_to)],
                )
            };
        }
        assert!(L::ON_DEVICE);
        let columns = [Moving::to(Some(&items), &mut output), Moving::to(Some(&payload), &mut payload_output)];
        self.device::<L, C::Items, Payload<V>>(Some(&items), columns, &mut count)
    }

    /// A call on the host. Its selectors are checked against all `n` items, as on the device.
    fn host<'a, L: Place>(&self, n: usize, capacity: usize, count: &'a mut [u64]) -> Result<OnHost<'a>, Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        self.choice.selectors(self.name, n)?;
        let n = counted(self.name, self.site.count(), n)?;
        Ok(OnHost { primitive: self.name, n, complement: self.complement, append: self.append, capacity, count })
    }

    fn device<'a, L: Place, A: ColumnKind, B: ColumnKind>(
        &'a mut self,
        items: Option<&'a dyn Buffer>,
        columns: [Moving<'a>; 2],
        count: &'a mut dyn BufferMut,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        let first = columns[0].to[0].as_ref().expect("the first column has an output");
        let stream = self.site.stream().unwrap_or_else(|| items.map_or(first.home(), |items| items.home())).clone();
        let n = items.map_or(first.capacity(), |items| items.length());
        let Compact { name, choice, complement, append, site, .. } = self;
        let (workspace, length) = site.take();
        let call = OnDevice {
            primitive: name,
            stream,
            n,
            complement: [*complement, false],
            append: *append,
            chosen: items,
            columns,
            count,
            length,
            workspace,
        };
        call.run::<T, L, C, A, B, 1>(choice)
    }
}
