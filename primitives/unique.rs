//! Unique: of equal neighbours the first.

use super::choice::{Changes, Index};
use super::compact::{Compact, compact, prepare};
use crate::cuda::{Beside, Nothing, Staged};
use crate::site::{Anywhere, Site, site_methods};
use crate::{Destination, Error, Ordered, Place, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

const NAME: &str = "unique";

/// Of every run of equal neighbours the first item: a [compaction](Compact) by comparison.
///
/// Items are compared by `==`: -0 equals 0, and NaN does not equal NaN, so each stays.
///
/// # Example
/// ```
/// use parascan::unique;
///
/// assert_eq!(unique::<i32>().run(&[3, 3, 1, 1, 1, 3])?, [3, 1, 3]);
///
/// // By key: of each run of equal keys the first key and what stands beside it.
/// let (mut keys, mut values, mut count) = ([0; 4], [0.0; 4], [0]);
/// unique::<u8>().run_pairs_into(&[1, 1, 2, 2], &[0.1, 0.2, 0.3, 0.4], &mut keys, &mut values, &mut count)?;
/// assert_eq!((&keys[..2], &values[..2], count), (&[1, 2][..], &[0.1, 0.3][..], [2]));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn unique<T: Ordered>() -> Unique<T> {
    Unique { append: false, site: Anywhere, item: PhantomData }
}

/// The options of [`unique`], and what runs it. What is said of the count, cost, waiting and errors of a
/// [`Compact`] holds here too.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Unique<T, S = Anywhere> {
    append: bool,
    site: S,
    item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Ordered] Unique<T; S> { append, item } }

impl<T: Ordered, S> Unique<T, S> {
    /// As [`Compact::append`].
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }

    /// As [`Compact::prepare`].
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, Staged, Nothing>(NAME, n, workspace, 1)
    }

    /// The same for the call by key, with values of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Unique::prepare).
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, Staged, Beside<V>>(NAME, n, workspace, 1)
    }

    /// Into new memory of just the length. Waits on the device, as [`Compact::run`].
    pub fn run<X>(self, items: &X) -> Result<X::Owned, Error>
    where
        X: Source<T> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run(items)
    }

    /// Into the caller's memory.
    pub fn run_into<X, O, N>(self, items: &X, output: &mut O, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run_into(items, output, count)
    }

    /// To the front of the items' own memory.
    pub fn run_in_place<X, N>(self, items: &mut X, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        N: Destination<u64, <X as Source<T>>::Place> + ?Sized,
        S: Site<<X as Source<T>>::Place>,
    {
        self.compaction().run_in_place(items, count)
    }

    /// Where runs begin, into new memory. Waits on the device.
    pub fn indices<I, X>(self, items: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().indices(items)
    }

    /// Where runs begin, into the caller's memory.
    pub fn indices_into<I, X, O, N>(self, items: &X, indices: &mut O, count: &mut N) -> Result<(), Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        O: Destination<I, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().indices_into(items, indices, count)
    }

    /// Of every run of equal keys the first key, and the value beside it.
    pub fn run_pairs_into<V, X, Y, O, Q, N>(
        self,
        keys: &X,
        values: &Y,
        keys_output: &mut O,
        values_output: &mut Q,
        count: &mut N,
    ) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<T> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        Q: Destination<V, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run_pairs_into(keys, values, keys_output, values_output, count)
    }

    /// The compaction that keeps the first item of each run.
    fn compaction(self) -> Compact<T, Changes, S> {
        let first_of_runs = compact().named(NAME).with(Changes).at(self.site);
        if self.append { first_of_runs.append() } else { first_of_runs }
    }
}
