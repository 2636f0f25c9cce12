//! Unique: the first item of each run of equal neighbours.

use super::arguments::Index;
use super::choice::Changes;
use super::compact::{Compact, compact, prepare};
use crate::cuda::{NoColumn, Payload, SourceIndices, Staged};
use crate::site::{AnySite, Anywhere, Site, len_method, site_methods};
use crate::{Destination, Error, Ordered, Place, Source, Workspace};
use bytemuck::Pod;
use std::marker::PhantomData;

const NAME: &str = "unique";

/// Copies the first item of each run of equal neighbours.
///
/// Items are compared by `==`: -0 equals 0, and no NaN equals another, so every NaN stays. Returns
/// a builder; see [`Unique`].
///
/// # Example
/// ```
/// use parascan::unique;
///
/// assert_eq!(unique::<i32>().run(&[3, 3, 1, 1, 1, 3])?, [3, 1, 3]);
///
/// // By key: the first key of each run of equal keys, and its payload.
/// let (keys, values) = unique::<u8>().run_pairs(&[1, 1, 2, 2], &[0.1, 0.2, 0.3, 0.4])?;
/// assert_eq!((&keys[..], &values[..]), (&[1, 2][..], &[0.1, 0.3][..]));
/// # Ok::<(), parascan::Error>(())
/// ```
pub fn unique<T: Ordered>() -> Unique<T> {
    Unique { append: false, site: Anywhere, item: PhantomData }
}

/// The first item of each run of equal neighbours: options, and the calls that run it. Made by
/// [`unique`].
///
/// This is a [compaction](Compact) by comparison with the item before. Its calls, `count`, waiting,
/// errors and source are those of [`Compact`]. Its cost is that by predicate: for n items of b
/// bytes in m runs, (n + m) b bytes are moved.
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Unique<T, S = Anywhere> {
    append: bool,
    site: S,
    item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Ordered] Unique<T; S> { append, item } }

// ---- options

impl<T: Ordered, S> Unique<T, S> {
    /// Appends to the items that the output already holds, as [`Compact::append`] does.
    ///
    /// Items are compared with those of the same call only.
    ///
    /// ```
    /// # use parascan::unique;
    /// let (mut output, mut count) = ([0; 6], [0]);
    /// unique::<i32>().run_into(&[1, 1, 2], &mut output, &mut count)?;
    /// unique::<i32>().append().run_into(&[2, 3, 3], &mut output, &mut count)?;
    /// assert_eq!((output, count), ([1, 2, 2, 3, 0, 0], [4]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }
}

len_method! {
    /// ```
    /// # use parascan::unique;
    /// assert_eq!(unique::<i32>().len(&[3]).run(&[1, 1, 2, 3])?, [1, 2]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[T: Ordered] Unique<T; S> { append, item }
}

// ---- prepare

impl<T: Ordered, S: AnySite> Unique<T, S> {
    /// [`Compact::prepare`] for this call.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, Staged, NoColumn, 1>(NAME, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Unique::prepare) for [`run_pairs_into`](Unique::run_pairs_into) with a payload
    /// of type `V`.
    ///
    /// # Errors
    /// As for [`prepare`](Unique::prepare).
    pub fn prepare_pairs<V: Pod>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, Staged, Payload<V>, 1>(NAME, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Unique::prepare) for [`run_with_indices_into`](Unique::run_with_indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Unique::prepare).
    pub fn prepare_with_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, Staged, SourceIndices<I>, 1>(NAME, S::IS_COUNTED, n, workspace)
    }

    /// [`prepare`](Unique::prepare) for [`indices_into`](Unique::indices_into).
    ///
    /// # Errors
    /// As for [`prepare`](Unique::prepare).
    pub fn prepare_indices<I: Index>(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        prepare::<T, Changes, SourceIndices<I>, NoColumn, 1>(NAME, S::IS_COUNTED, n, workspace)
    }
}

// ---- running

impl<T: Ordered, S> Unique<T, S> {
    /// Returns the first item of each run in new memory of exactly that length.
    ///
    /// On the device the call waits for the count.
    pub fn run<X>(self, items: &X) -> Result<X::Owned, Error>
    where
        X: Source<T> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run(items)
    }

    /// Writes the first item of each run into the caller's memory; see [the
    /// count](Compact#the-count).
    pub fn run_into<X, O, N>(self, items: &X, output: &mut O, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run_into(items, output, count)
    }

    /// Moves the first item of each run to the front of the items' own memory.
    ///
    /// ```
    /// # use parascan::{sort, unique};
    /// let (mut words, mut count) = (vec![7, 2, 7, 2, 2], [0]);
    /// sort::<u32>().run_in_place(&mut words)?;
    /// unique::<u32>().run_in_place(&mut words, &mut count)?;
    /// words.truncate(count[0] as usize);
    /// assert_eq!(words, [2, 7]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_in_place<X, N>(self, items: &mut X, count: &mut N) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        N: Destination<u64, <X as Source<T>>::Place> + ?Sized,
        S: Site<<X as Source<T>>::Place>,
    {
        self.compaction().run_in_place(items, count)
    }

    /// Returns the index at which each run begins, in new memory.
    ///
    /// On the device the call waits for the count.
    ///
    /// ```
    /// # use parascan::unique;
    /// assert_eq!(unique::<u8>().indices::<u32, _>(b"aabcc")?, [0, 2, 3]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn indices<I, X>(self, items: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<T> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().indices(items)
    }

    /// Writes the index at which each run begins into the caller's memory.
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

    /// Writes the first item of each run, and the index at which the run begins, into the caller's
    /// memory.
    pub fn run_with_indices_into<I, X, O, Q, N>(
        self,
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
        S: Site<X::Place>,
    {
        self.compaction().run_with_indices_into(items, output, indices, count)
    }

    /// Returns the first key of each run of equal keys, and its payload, in new memory of exactly
    /// that length.
    ///
    /// On the device the call waits for the count.
    pub fn run_pairs<V, X, Y>(self, keys: &X, payload: &Y) -> Result<(X::Owned, Y::Owned), Error>
    where
        V: Pod + Send + Sync,
        X: Source<T> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        self.compaction().run_pairs(keys, payload)
    }

    /// Writes the first key of each run of equal keys, and its payload, into the caller's memory.
    pub fn run_pairs_into<V, X, Y, O, Q, N>(
        self,
        keys: &X,
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
        S: Site<X::Place>,
    {
        self.compaction().run_pairs_into(keys, payload, output, payload_output, count)
    }

    // ---- on either engine

    /// The compaction that keeps the first item of each run.
    fn compaction(self) -> Compact<T, Changes, S> {
        let first_of_runs = compact().named(NAME).with(Changes).at(self.site);
        if self.append { first_of_runs.append() } else { first_of_runs }
    }
}
