//! Compaction: the items that are kept, together, in their order.

use super::choice::{
    Buffer, BufferMut, ByBits, ByFlags, ByPredicate, Chosen, Index, Moving, OnDevice, OnHost, Unchosen, Word,
    choice_methods, countable, long_enough,
};
use crate::cpu::compact as host;
use crate::cuda::{Beside, ColumnKind, CompactProgram, Nothing, Places};
use crate::memory::{View, ViewMut};
use crate::site::{Anywhere, Site, site_methods};
use crate::submit::Submit;
use crate::{Destination, Device, Element, Error, Not, Place, Predicate, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

/// A compaction of items `T`: those that are kept, together, in their order.
///
/// Gives a builder: say what is kept by [`keep`](Compact::keep), [`discard`](Compact::discard), [`flags`](Compact::flags) or
/// [`bits`](Compact::bits); see [`Compact`] for the rest. Where the data lies decides where the work runs.
///
/// # Example
/// ```
/// use parascan::{Above, NonZero, compact};
///
/// let prices = [0.25, 0.75, 0.5, 2.0];
/// assert_eq!(compact::<f32>().keep(Above(0.5)).run(&prices)?, [0.75, 2.0]);
/// assert_eq!(compact::<u16>().flags(&[1, 0, 0, 1]).run(&[7, 8, 9, 10])?, [7, 10]);
/// assert_eq!(compact::<u16>().bits::<u32, _>(&[0b1001]).run(&[7, 8, 9, 10])?, [7, 10]);
/// assert_eq!(compact::<i32>().keep(NonZero).indices::<u32, _>(&[0, 5, 0, -1])?, [1, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn compact<T: Pod>() -> Compact<T> {
    Compact { name: "compact", choice: Unchosen, complement: false, append: false, site: Anywhere, item: PhantomData }
}

/// The options of a compaction, and what runs it. Made by [`compact`].
///
/// # Items
/// For [`keep`](Compact::keep) an element, for flags and bits any plain data: of 1 to 16 bytes on the device.
///
/// # The count
/// How many items were kept is written to `count`, one `u64` where the data lies, so that on the device nobody waits for it.
/// It is how many there would be if there were room: **a count that is greater than the output is long says that the output was
/// too short**. On the device nothing is written past its end then; on the host that is [`Error::Size`], and nothing is
/// written at all. Beyond the count the output is left as it was.
///
/// # Cost
/// n items are read and those that are kept written, once; of flags n bytes are read besides, of bits n / 8. On the device one
/// launch, whatever n.
///
/// # Waiting
/// On the device the calls that end in `into` or `in_place` return when the work is on the stream, and never wait for it;
/// [`run`](Compact::run) and [`indices`](Compact::indices) wait for the count, to give memory of just that length.
/// The first use of a predicate and element in a process loads kernels, which waits for the driver, or for the compiler.
///
/// # Errors
/// [`Error::Size`] for flags, bits, payload or count that are shorter than the items need, and on
/// the host for an output; [`Error::ItemSize`] and [`Error::TooLong`] for what no kernel takes;
/// [`Error::OutOfMemory`]; [`Error::WrongDevice`], [`Error::Capturing`], [`Error::EventTracking`]
/// as for a [`Scan`](crate::Scan), and those of the driver and of the compiler. Nothing was written
/// then. Length zero is valid.
///
/// # Panics
/// Only if the predicate does, on host data.
///
/// # Source
/// Billeter, Olsson and Assarsson, "Efficient Stream Compaction on Wide SIMD Many-Core Architectures" (2009): ballots rank the
/// items of a warp; tiles are joined as those of a scan are.
#[derive(Debug)]
#[must_use = "a compaction does nothing until it is run"]
pub struct Compact<T, C = Unchosen, S = Anywhere> {
    /// What errors call it.
    name: &'static str,
    choice: C,
    complement: bool,
    append: bool,
    site: S,
    item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Pod, C] Compact<T, C; S> { name, choice, complement, append, item } where C: Copy }

// ---- options -----------------------------------------------------------------------------------------------------------------

impl<T: Pod, C, S> Compact<T, C, S> {
    pub(super) fn with<C2>(self, choice: C2) -> Compact<T, C2, S> {
        let Compact { name, complement, append, site, item, .. } = self;
        Compact { name, choice, complement, append, site, item }
    }
    pub(super) fn named(self, name: &'static str) -> Self {
        Compact { name, ..self }
    }

    /// Puts the items behind those that the output holds already: `count` says how many these are before the call, and
    /// how many it holds after it. So several compactions fill one buffer, on the device without anybody waiting.
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

impl<T: Pod, C: Chosen<T, Device>, S> Compact<T, C, S> {
    /// Loads the kernels and grows the workspace, so that a compaction of `n` items or fewer by the same choice, into or in
    /// place, allocates nothing, never synchronises and can be captured into a graph. The values of a predicate may differ.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, Nothing>(self.name, n, workspace, 1)
    }

    /// The same for [`run_pairs_into`](Compact::run_pairs_into) with a payload of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, Beside<V>>(self.name, n, workspace, 1)
    }

    /// The same for [`run_with_indices_into`](Compact::run_with_indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_with_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, Places<I>>(self.name, n, workspace, 1)
    }

    /// The same for the calls that give indices alone.
    ///
    /// # Errors
    /// As for [`prepare`](Compact::prepare).
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, Places<I>, Nothing>(self.name, n, workspace, 1)
    }
}

pub(super) fn prepare<T: Pod, C: Chosen<T, Device>, A: ColumnKind, B: ColumnKind>(
    primitive: &'static str,
    n: usize,
    workspace: &mut Workspace,
    ways: usize,
) -> Result<(), Error> {
    let device = Submit::prepare(primitive, workspace)?;
    CompactProgram::new::<C::Kind, A, B>(ways).prepare(primitive, n, workspace, device)
}

// ---- running -----------------------------------------------------------------------------------------------------------------

impl<T: Pod + Send + Sync, C, S> Compact<T, C, S> {
    /// Into new memory of just the length: a `Vec` or a `CudaSlice`. On the device it waits for the count, and moves what is kept
    /// twice.
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
        self.go::<X::Place>(Some(items.view()), X::view_owned(&mut output), X::Place::view_mut(&mut count))?;
        X::shorten(name, output, X::Place::read(&count)?)
    }

    /// Into the caller's memory; see [the count](Compact#the-count).
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
        self.go::<X::Place>(Some(items.view()), output.view_mut(), count.view_mut())
    }

    /// To the front of the items' own memory.
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
        self.go::<<X as Source<T>>::Place>(None, items.view_mut(), count.view_mut())
    }

    /// Where the items were that are kept, into new memory. Waits as [`run`](Compact::run) does.
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
        self.go_indices::<X::Place, I>(items.view(), X::Place::view_mut(&mut output), X::Place::view_mut(&mut count))?;
        X::Place::shorten(name, output, X::Place::read(&count)?)
    }

    /// Where the items were that are kept, into the caller's memory.
    pub fn indices_into<I, X, O, N>(self, items: &X, indices: &mut O, count: &mut N) -> Result<(), Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.go_indices::<X::Place, I>(items.view(), indices.view_mut(), count.view_mut())
    }

    /// The items that are kept, and where they were.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (mut high, mut places, mut count) = ([0.0; 3], [0_u32; 3], [0]);
    /// compact::<f64>().keep(Above(1.0)).run_with_indices_into(&[0.5, 2.0, 3.0], &mut high, &mut places, &mut count)?;
    /// assert_eq!((high, places, count), ([2.0, 3.0, 0.0], [1, 2, 0], [2]));
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
            let (to, indices) = (output.host().as_mut_ptr(), indices.host().as_mut_ptr());
            let room = output.len();
            // SAFETY: views of the items, and of memory that is borrowed alone, with the room said.
            return unsafe {
                self.host(from.len(), room, count.view_mut().host()).run::<T, X::Place, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::array(from.as_ptr(), to), host::Column::indices(indices)],
                )
            };
        }
        let columns = [Moving::to(Some(&items), &mut output), Moving::to(None, &mut indices)];
        self.device::<X::Place, C::Items, Places<I>>(Some(&items), columns, &mut count.view_mut())
    }

    /// The items that are kept, and of a second array, the payload, what stands beside them. The payload is any plain data: of
    /// 1 to 16 bytes on the device.
    ///
    /// ```
    /// # use parascan::{Above, compact};
    /// let (mut high, mut names, mut count) = ([0; 3], [0; 3], [0]);
    /// compact::<i32>().keep(Above(1)).run_pairs_into(&[3, 0, 2], b"abc", &mut high, &mut names, &mut count)?;
    /// assert_eq!((high, names, count), ([3, 2, 0], [b'a', b'c', 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_pairs_into<V, X, Y, O, Q, N>(
        mut self,
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
        let (items, beside) = (items.view(), payload.view());
        let (mut output, mut beside_output) = (output.view_mut(), payload_output.view_mut());
        long_enough(self.name, "the payload", beside.len(), items.len())?;
        long_enough(self.name, "the payload's output", beside_output.len(), output.len())?;
        if let View::Host(from) = items {
            let (to, beside, room) = (output.host().as_mut_ptr(), beside.host().as_ptr(), output.len());
            let beside_to = beside_output.host().as_mut_ptr();
            // SAFETY: views of the items and of as many of the payload, and of memory that is borrowed alone, with the room said.
            return unsafe {
                self.host(from.len(), room, count.view_mut().host()).run::<T, X::Place, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::array(from.as_ptr(), to), host::Column::array(beside, beside_to)],
                )
            };
        }
        let columns = [Moving::to(Some(&items), &mut output), Moving::to(Some(&beside), &mut beside_output)];
        self.device::<X::Place, C::Items, Beside<V>>(Some(&items), columns, &mut count.view_mut())
    }

    // ---- on either engine

    /// `items` is none where they are in the output.
    fn go<L: Place>(
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
                let (room, to) = (to.len(), to.as_mut_ptr());
                // SAFETY: a view of the items, and of memory that is borrowed alone, with the room said.
                unsafe {
                    self.host(from.len(), room, count.host()).run::<T, L, C>(
                        &self.choice,
                        from.as_ptr(),
                        &mut [host::Column::array(from.as_ptr(), to)],
                    )
                }
            }
            (None, ViewMut::Host(data)) => {
                self.choice.beside(self.name, data.len())?;
                long_enough(self.name, "the count", count.len(), 1)?;
                let (n, items) = (data.len(), data.as_mut_ptr());
                let same = host::Column::array(items.cast_const(), items);
                // SAFETY: the items are borrowed alone; `beside` has looked at the lengths.
                let kept = unsafe {
                    host::compact_in_place(n, &self.choice.on_host(items.cast_const()), self.complement, same)
                };
                count.host()[0] = kept as u64;
                Ok(())
            }
            _ => {
                let from = items.as_ref().map(|items| items as &dyn Buffer);
                let columns = [Moving::to(from, &mut output), Moving::nothing()];
                self.device::<L, C::Items, Nothing>(from, columns, &mut count)
            }
        }
    }

    fn go_indices<L: Place, I: Index>(
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
            let (room, to) = (output.len(), output.host().as_mut_ptr());
            // SAFETY: a view of the items, and of memory that is borrowed alone, with the room said.
            return unsafe {
                self.host(from.len(), room, count.host()).run::<T, L, C>(
                    &self.choice,
                    from.as_ptr(),
                    &mut [host::Column::indices(to)],
                )
            };
        }
        let columns = [Moving::to(None, &mut output), Moving::nothing()];
        self.device::<L, Places<I>, Nothing>(Some(&items), columns, &mut count)
    }

    fn host<'a>(&self, n: usize, room: usize, count: &'a mut [u64]) -> OnHost<'a> {
        OnHost { primitive: self.name, n, complement: self.complement, append: self.append, room, count }
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
        let first = columns[0].to[0].as_ref().expect("the first column goes somewhere");
        let stream = self.site.stream().unwrap_or_else(|| items.map_or(first.home(), |items| items.home())).clone();
        let n = items.map_or(first.room(), |items| items.length());
        let Compact { name, choice, complement, append, site, .. } = self;
        let call = OnDevice {
            primitive: name,
            stream,
            n,
            complement: [*complement, false],
            append: *append,
            chosen: items,
            columns,
            count,
            workspace: site.take_workspace(),
        };
        call.run::<T, L, C, A, B>(choice, 1)
    }
}
