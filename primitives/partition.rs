//! Partition: the items that are kept and those that are not, both together and in their order.

use super::choice::{
    Buffer, BufferMut, ByBits, ByFlags, ByPredicate, Chosen, Moving, OnDevice, Unchosen, Word, choice_methods,
    long_enough, recorded,
};
use super::compact::prepare;
use crate::cpu::compact as host;
use crate::cuda::Nothing;
use crate::memory::{View, ViewMut};
use crate::site::{Anywhere, Site, site_methods};
use crate::{Destination, Device, Element, Error, Not, Place, Predicate, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

const NAME: &str = "partition";

/// A partition of items `T`: those that are kept, and those that are not, both in their original order.
///
/// Gives a builder: say what is kept as for [`compact`](crate::compact()); see [`Partition`] for the rest, and
/// [`then`](Partition::then) for three parts.
///
/// # Example
/// ```
/// use parascan::{Below, partition};
///
/// let (mut both, mut count) = ([0; 5], [0]);
/// partition::<i32>().keep(Below(3)).run_into(&[5, 1, 4, 2, 3], &mut both, &mut count)?;
/// assert_eq!((both, count), ([1, 2, 5, 4, 3], [2]));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn partition<T: Pod>() -> Partition<T> {
    Partition { choice: Unchosen, complement: false, site: Anywhere, item: PhantomData }
}

/// The options of a partition, and what runs it. Made by [`partition`].
///
/// What is said of a [`Compact`](crate::Compact) of its items, waiting and errors holds here too,
/// with one exception: if the driver refuses the second of two launches ([`Error::Driver`]), the
/// count has been written.
///
/// # Cost
/// [`run_apart_into`](Partition::run_apart_into) reads n items and writes n, in one launch. Where those that are not kept begin
/// behind the others is known when all items have been looked at. On the device [`run_into`](Partition::run_into) reads and writes
/// as much, in one launch, of items that the device holds at once, of 16 MiB on an H200: its blocks wait for each other, so it starts
/// when there is room for all of them. Of more items it reads them, or flags or bits, twice, in two launches.
#[derive(Debug)]
#[must_use = "a partition does nothing until it is run"]
pub struct Partition<T, C = Unchosen, S = Anywhere> {
    pub(super) choice: C,
    pub(super) complement: bool,
    pub(super) site: S,
    pub(super) item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Pod, C] Partition<T, C; S> { choice, complement, item } where C: Copy }

impl<T: Pod, C, S> Partition<T, C, S> {
    fn with<C2>(self, choice: C2) -> Partition<T, C2, S> {
        let Partition { complement, site, item, .. } = self;
        Partition { choice, complement, site, item }
    }
}
choice_methods! { Partition }

impl<T: Pod, C: Chosen<T, Device>, S> Partition<T, C, S> {
    /// Loads the kernels and grows the workspace, so that a partition of `n` items or fewer by the same choice allocates nothing,
    /// never synchronises and can be captured into a graph. The values of a predicate may differ.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, C, C::Items, Nothing>(NAME, n, workspace, 2)
    }
}

impl<T: Pod + Send + Sync, C, S> Partition<T, C, S> {
    /// Into one buffer as long as the items: those that are kept, and behind them the others. `count` gets the number of those that
    /// are kept.
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
        self.go::<X::Place>(items, output, None, count.view_mut())
    }

    /// Into two buffers: those that are kept, and the others. Each must have room for what comes to it; on the device one that
    /// is too short is not written past its end, and `count`, the number of those that are kept, tells.
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
        kept: &mut O,
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
        self.go::<X::Place>(items.view(), kept.view_mut(), Some(rejected.view_mut()), count.view_mut())
    }

    fn go<L: Place>(
        mut self,
        items: View<'_, T>,
        mut kept: ViewMut<'_, T>,
        mut rejected: Option<ViewMut<'_, T>>,
        mut count: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        C: Chosen<T, L>,
        S: Site<L>,
    {
        let n = items.len();
        if let View::Host(from) = items {
            self.choice.beside(NAME, n)?;
            long_enough(NAME, "the count", count.len(), 1)?;
            let rooms = [kept.len(), rejected.as_ref().map_or(n, |rejected| rejected.len())];
            // SAFETY: a view of the items; `beside` has looked at the lengths.
            let choice = unsafe { self.choice.on_host(from.as_ptr()) };
            // What was counted is what moves, whatever the choice would say the next time.
            let recorded = if rejected.is_none() || rooms.iter().any(|&room| room < n) {
                // SAFETY: as above.
                let (words, kept) = unsafe { recorded(NAME, n, &choice, self.complement) }?;
                long_enough(NAME, "the output of those that are kept", rooms[0], kept)?;
                long_enough(NAME, "the output of those that are not kept", rooms[1], n - kept)?;
                Some((words, kept))
            } else {
                None
            };
            let kept = kept.host().as_mut_ptr();
            let rejected = match &mut rejected {
                Some(rejected) => rejected.host().as_mut_ptr(),
                None => kept.wrapping_add(recorded.as_ref().expect("it was recorded").1),
            };
            let [kept, rejected] = [kept, rejected].map(|to| [host::Column::array(from.as_ptr(), to)]);
            // SAFETY: as above; there is room for all, or for what was recorded, as was just seen, in memory that is borrowed alone.
            let found = unsafe {
                match &recorded {
                    Some((words, _)) => {
                        host::compact(n, &host::ByWords { words: words.as_ptr() }, false, &kept, &rejected)
                    }
                    None => host::compact(n, &choice, self.complement, &kept, &rejected),
                }
            };
            count.host()[0] = found as u64;
            return Ok(());
        }
        let stream = self.site.stream().unwrap_or(items.home()).clone();
        let rejected = rejected.as_mut().map(|rejected| rejected as &mut dyn BufferMut);
        let call = OnDevice {
            primitive: NAME,
            stream,
            n,
            complement: [self.complement, false],
            append: false,
            chosen: Some(&items),
            columns: [Moving { from: Some(&items), to: [Some(&mut kept), rejected, None] }, Moving::nothing()],
            count: &mut count,
            workspace: self.site.take_workspace(),
        };
        call.run::<T, L, C, C::Items, Nothing>(&self.choice, 2)
    }
}
