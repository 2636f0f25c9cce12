//! Partition: the selected items, then the rejected items, both in their original order.

use super::arguments::{Word, long_enough};
use super::choice::{ByBits, ByFlags, ByPredicate, Chosen, Unchosen, choice_methods};
use super::compact::prepare;
use super::compact_engines::{Moving, OnDevice, recorded};
use crate::cpu::compact as host;
use crate::cuda::NoColumn;
use crate::memory::{Buffer, BufferMut, View, ViewMut};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::{Destination, Device, Element, Error, Not, Place, Predicate, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

const NAME: &str = "partition";

/// Separates items `T` into the selected and the rejected ones, both in their original order.
///
/// Returns a builder that selects items as [`compact`](crate::compact()) does; [`Partition`] lists
/// the rest. [`then`](Partition::then) partitions into three parts.
///
/// # Example
/// ```
/// use parascan::{Below, partition};
///
/// let (mut both, mut count) = ([0; 5], [0]);
/// partition::<i32>().keep(Below(3)).run_into(&[5, 1, 4, 2, 3], &mut both, &mut count)?;
/// assert_eq!((both, count), ([1, 2, 5, 4, 3], [2]));
///
/// let (both, selected) = partition::<i32>().bits::<u32, _>(&[0b10100]).run(&[5, 1, 4, 2, 3])?;
/// assert_eq!(both.split_at(selected), (&[4, 3][..], &[5, 1, 2][..]));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn partition<T: Pod>() -> Partition<T> {
    Partition { choice: Unchosen, complement: false, site: Anywhere, item: PhantomData }
}

/// A stable partition of items `T`: its options, and the calls that run it. Made by [`partition`].
///
/// | call | output |
/// |---|---|
/// | [`run`](Partition::run), [`run_into`](Partition::run_into) | one buffer: selected, rejected |
/// | [`run_apart_into`](Partition::run_apart_into) | two buffers: selected items, rejected items |
///
/// Items, `count`, waiting, errors and panics are as for a [`Compact`](crate::Compact), with two
/// exceptions. One buffer of another length than the items is [`Error::Length`]. If the driver
/// refuses the second of two launches ([`Error::Driver`]), `count` has been written.
///
/// # Cost
/// For n items of b bytes; flags add n bytes and bits n / 8 to each read:
///
/// | call | bytes moved | launches on the device |
/// |---|---|---|
/// | two buffers | 2 n b | 1 |
/// | one buffer, items that fit the device at once (16 MiB on an H100) | 2 n b | 1 |
/// | one buffer, more items, by predicate | 3 n b | 2 |
/// | one buffer, more items, by flags or bits | 2 n b, and the flags or bits are read twice | 2 |
///
/// In one buffer the rejected items begin where the selected ones end, which is known only when all
/// items are counted. In the second row the blocks of the launch wait for each other, so the launch
/// starts when the device has room for all of them. If the driver refuses it, since the stream has
/// only a part of the device, the call makes the two launches of the last rows.
///
/// On the host one buffer moves 3 n b bytes by predicate and 2 n b by flags or bits, and n / 8
/// bytes of new memory keep the selection. So do two buffers if one of them is shorter than the
/// items.
///
/// # Source
/// As a [`Compact`](crate::Compact).
#[derive(Debug)]
#[must_use = "a partition does nothing until it is run"]
pub struct Partition<T, C = Unchosen, S = Anywhere> {
    pub(super) choice: C,
    pub(super) complement: bool,
    pub(super) site: S,
    pub(super) item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Pod, C] Partition<T, C; S> { choice, complement, item } where C: Copy }

// ---- options

impl<T: Pod, C, S> Partition<T, C, S> {
    /// Sets the choice.
    fn with<C2>(self, choice: C2) -> Partition<T, C2, S> {
        let Partition { complement, site, item, .. } = self;
        Partition { choice, complement, site, item }
    }
}
choice_methods! { Partition }

len_method! {
    /// ```
    /// # use parascan::{NonZero, partition};
    /// let (both, selected) = partition::<i32>().keep(NonZero).len(&[3]).run(&[1, 0, 2, 3])?;
    /// assert_eq!((&both[..3], selected), (&[1, 2, 0][..], 2));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[T: Pod, C] Partition<T, C; S> { choice, complement, item }
}

// ---- prepare

impl<T: Pod, C: Chosen<T, Device>, S: AnySite> Partition<T, C, S> {
    /// Loads the kernels and grows the workspace for a partition of up to `n` items by the same
    /// selection.
    ///
    /// After this such a call into the caller's memory allocates nothing, never synchronises, and
    /// can be captured into a graph. The values of a predicate may differ.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, NoColumn, 2>(NAME, S::IS_COUNTED, n, workspace)
    }
}

// ---- running

impl<T: Pod + Send + Sync, C, S> Partition<T, C, S> {
    /// Returns the selected items, then the rejected ones, in new memory, and the number of
    /// selected items.
    ///
    /// On the device the call waits for that number.
    ///
    /// ```
    /// # use parascan::{Below, partition};
    /// let (both, selected) = partition::<i32>().keep(Below(3)).run(&[5, 1, 4, 2])?;
    /// assert_eq!(both.split_at(selected), (&[1, 2][..], &[5, 4][..]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<X>(self, items: &X) -> Result<(X::Owned, usize), Error>
    where
        X: Source<T> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        let view = items.view();
        let stream = view.stream(self.site.stream());
        let mut output = items.allocate(NAME, view.len(), stream.as_ref())?;
        let mut count = X::Place::allocate::<u64>(NAME, 1, stream.as_ref())?;
        self.dispatch::<X::Place>(view, X::view_owned(&mut output), None, X::Place::view_mut(&mut count))?;
        let [selected] = X::Place::read(&count)?;
        Ok((output, selected))
    }

    /// Writes the selected items, then the rejected ones, into one buffer of the caller's, as long
    /// as the items.
    ///
    /// `count` gets the number of selected items.
    pub fn run_into<X, O, N>(self, items: &X, output: &mut O, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        let (items, output) = (items.view(), output.view_mut());
        if items.len() != output.len() {
            return Err(Error::Length { primitive: NAME, input: items.len(), output: output.len() });
        }
        self.dispatch::<X::Place>(items, output, None, count.view_mut())
    }

    /// Writes the selected items into one buffer and the rejected items into another.
    ///
    /// `count` gets the number of selected items. Each buffer must have room for its part. On the
    /// device nothing is written past the end of a buffer that is too short; `count` and n -
    /// `count` are the lengths that the buffers need.
    ///
    /// ```
    /// # use parascan::{Below, partition};
    /// let (mut low, mut high, mut count) = ([0; 3], [0; 3], [0]);
    /// partition::<i32>().keep(Below(3)).run_apart_into(&[5, 1, 4, 2], &mut low, &mut high, &mut count)?;
    /// assert_eq!((low, high, count), ([1, 2, 0], [5, 4, 0], [2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_apart_into<X, O, Q, N>(
        self,
        items: &X,
        selected: &mut O,
        rejected: &mut Q,
        count: &mut N,
    ) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        Q: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        C: Chosen<T, X::Place>,
        S: Site<X::Place>,
    {
        self.dispatch::<X::Place>(items.view(), selected.view_mut(), Some(rejected.view_mut()), count.view_mut())
    }

    // ---- on either engine

    fn dispatch<L: Place>(
        self,
        items: View<'_, T>,
        mut selected: ViewMut<'_, T>,
        mut rejected: Option<ViewMut<'_, T>>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        if let View::Host(from) = items {
            assert!(L::ON_HOST);
            let rejected = rejected.as_mut().map(|rejected| rejected.host());
            self.choice.selectors(NAME, from.len())?;
            let n = counted(NAME, self.site.count(), from.len())?;
            return self.on_host::<L>(&from[..n], selected.host(), rejected, count.host());
        }
        assert!(L::ON_DEVICE);
        let stream = self.site.stream().unwrap_or(items.home()).clone();
        let rejected = rejected.as_mut().map(|rejected| rejected as &mut dyn BufferMut);
        let Partition { choice, complement, mut site, .. } = self;
        let (workspace, length) = site.take();
        let call = OnDevice {
            primitive: NAME,
            stream,
            n: items.len(),
            complement: [complement, false],
            append: false,
            chosen: Some(&items),
            columns: [Moving { from: Some(&items), to: [Some(&mut selected), rejected, None] }, Moving::nothing()],
            count: &mut count,
            length,
            workspace,
        };
        call.run::<T, L, C, C::Items, NoColumn, 2>(&choice)
    }

    fn on_host<L: Place>(
        self,
        items: &[T],
        selected: &mut [T],
        rejected: Option<&mut [T]>,
        count: &mut [u64],
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
    {
        let (n, from) = (items.len(), items.as_ptr());
        long_enough(NAME, "the count", count.len(), 1)?;
        let capacities = [selected.len(), rejected.as_ref().map_or(n, |rejected| rejected.len())];
        // SAFETY: a view of the items; `dispatch` has checked the lengths of the selectors.
        let choice = unsafe { self.choice.on_host(from) };
        // The recorded items move, whatever the choice would select in a second reading.
        let recorded = if rejected.is_none() || capacities.iter().any(|&capacity| capacity < n) {
            // SAFETY: as above.
            let (words, found) = unsafe { recorded(NAME, n, &choice, self.complement) }?;
            long_enough(NAME, "the output of the selected items", capacities[0], found)?;
            long_enough(NAME, "the output of the rejected items", capacities[1], n - found)?;
            Some((words, found))
        } else {
            None
        };
        let selected = selected.as_mut_ptr();
        let rejected = match rejected {
            Some(rejected) => rejected.as_mut_ptr(),
            None => selected.wrapping_add(recorded.as_ref().expect("it was recorded").1),
        };
        let [selected, rejected] = [selected, rejected].map(|to| [host::Column::array(from, to)]);
        // SAFETY: as above; there is room for all items, or for the recorded ones, as was checked,
        // in memory that is borrowed exclusively.
        let found = unsafe {
            match &recorded {
                Some((words, _)) => {
                    host::compact(n, &host::ByWords { words: words.as_ptr() }, false, &selected, &rejected)
                }
                None => host::compact(n, &choice, self.complement, &selected, &rejected),
            }
        };
        count[0] = found as u64;
        Ok(())
    }
}
