//! Partition into three parts by two predicates.

use super::arguments::long_enough;
use super::choice::ByPredicate;
use super::compact_engines::{Moving, OnDevice, recorded};
use super::partition::Partition;
use crate::cpu::compact as host;
use crate::cuda::{CompactProgram, NoColumn, Staged, TwoParameters, TwoPredicatesKind};
use crate::memory::{Buffer, BufferMut, View, ViewMut, zeros_on_host};
use crate::site::{AnySite, Anywhere, Site, counted, len_method, site_methods};
use crate::submit::Submit;
use crate::{Destination, Element, Error, Place, Predicate, Source, Workspace};
use std::marker::PhantomData;

const NAME: &str = "three-way partition";

/// A stable partition of items `T` into three parts, by two predicates. Made by
/// [`Partition::then`].
///
/// The first part is the items that satisfy the first predicate. The second part is the other items
/// that satisfy the second predicate. The third part is the rest. Each part keeps the original
/// order.
///
/// `counts` are two `u64` in the same memory as the items: the lengths of the first and of the
/// second part. Cost, waiting and errors are as for a [`Partition`]. On the host each predicate
/// reads all items, then the parts are moved one after the other; 3 n / 8 bytes of new memory keep
/// the selection.
///
/// # Example
/// ```
/// use parascan::{Below, Equal, partition};
///
/// let (mut sorted, mut counts) = ([0; 6], [0; 2]);
/// partition::<i32>().keep(Below(3)).then(Equal(3)).run_into(&[5, 1, 3, 4, 2, 3], &mut sorted, &mut counts)?;
/// assert_eq!((sorted, counts), ([1, 2, 3, 3, 5, 4], [2, 2]));
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a partition does nothing until it is run"]
pub struct ThreeWay<T, P, Q, S = Anywhere> {
    first: P,
    second: Q,
    complement: bool,
    site: S,
    item: PhantomData<fn() -> T>,
}
site_methods! { impl[T: Element, P: Predicate<T>, Q: Predicate<T>] ThreeWay<T, P, Q; S> { first, second, complement, item } }

len_method! {
    /// ```
    /// # use parascan::{Below, Equal, partition};
    /// let three = partition::<i32>().keep(Below(3)).then(Equal(3)).len(&[4]);
    /// let (sorted, counts) = three.run(&[5, 1, 3, 2, 4])?;
    /// assert_eq!((&sorted[..4], counts), (&[1, 2, 3, 5][..], [2, 1]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    impl[T: Element, P: Predicate<T>, Q: Predicate<T>] ThreeWay<T, P, Q; S> { first, second, complement, item }
}

impl<T: Element, P: Predicate<T>, S> Partition<T, ByPredicate<P>, S> {
    /// Partitions the rejected items once more: those that satisfy `second` form a part before the
    /// rest.
    pub fn then<Q: Predicate<T>>(self, second: Q) -> ThreeWay<T, P, Q, S> {
        let Partition { choice: ByPredicate(first), complement, site, item } = self;
        ThreeWay { first, second, complement, site, item }
    }
}

// ---- prepare

impl<T: Element, P: Predicate<T>, Q: Predicate<T>, S: AnySite> ThreeWay<T, P, Q, S> {
    /// [`Partition::prepare`] for a partition into three parts.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is being captured, and those of the driver and the
    /// compiler.
    pub fn prepare(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        let device = Submit::prepare(NAME, workspace)?;
        Self::program().prepare(NAME, n, workspace, device)
    }

    fn program() -> CompactProgram {
        CompactProgram::new::<TwoPredicatesKind<T, P, Q>, Staged, NoColumn, 3>().counted(S::IS_COUNTED)
    }

    // ---- running

    /// Returns the three parts, one after the other, in new memory, and the lengths of the first
    /// two.
    ///
    /// On the device the call waits for these lengths.
    ///
    /// ```
    /// # use parascan::{Below, Equal, partition};
    /// let parts = partition::<i32>().keep(Below(3)).then(Equal(3));
    /// let (sorted, lengths) = parts.run(&[5, 1, 3, 4, 2, 3])?;
    /// assert_eq!((&sorted[..], lengths), (&[1, 2, 3, 3, 5, 4][..], [2, 2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run<X>(self, items: &X) -> Result<(X::Owned, [usize; 2]), Error>
    where
        X: Source<T> + ?Sized,
        S: Site<X::Place>,
    {
        let view = items.view();
        let stream = view.stream(self.site.stream());
        let mut output = items.allocate(NAME, view.len(), stream.as_ref())?;
        let mut counts = X::Place::allocate::<u64>(NAME, 2, stream.as_ref())?;
        self.dispatch::<X::Place>(view, X::view_owned(&mut output), None, X::Place::view_mut(&mut counts))?;
        let lengths = X::Place::read(&counts)?;
        Ok((output, lengths))
    }

    /// Writes the three parts, one after the other, into one buffer of the caller's, as long as the
    /// items.
    pub fn run_into<X, O, N>(self, items: &X, output: &mut O, counts: &mut N) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let (items, output) = (items.view(), output.view_mut());
        if items.len() != output.len() {
            return Err(Error::Length { primitive: NAME, input: items.len(), output: output.len() });
        }
        self.dispatch::<X::Place>(items, output, None, counts.view_mut())
    }

    /// Writes the three parts into three buffers.
    ///
    /// Each buffer must have room for its part. On the device nothing is written past the end of a
    /// buffer that is too short; the lengths that the buffers need follow from `counts`.
    ///
    /// ```
    /// # use parascan::{Below, Equal, partition};
    /// let (mut low, mut equal, mut high, mut counts) = ([0; 2], [0; 2], [0; 2], [0; 2]);
    /// let parts = partition::<i32>().keep(Below(3)).then(Equal(3));
    /// parts.run_apart_into(&[5, 1, 3, 4, 2, 3], &mut low, &mut equal, &mut high, &mut counts)?;
    /// assert_eq!((low, equal, high, counts), ([1, 2], [3, 3], [5, 4], [2, 2]));
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn run_apart_into<X, O, M, Q2, N>(
        self,
        items: &X,
        first: &mut O,
        second: &mut M,
        rest: &mut Q2,
        counts: &mut N,
    ) -> Result<(), Error>
    where
        X: Source<T> + ?Sized,
        O: Destination<T, X::Place> + ?Sized,
        M: Destination<T, X::Place> + ?Sized,
        Q2: Destination<T, X::Place> + ?Sized,
        N: Destination<u64, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let others = Some((second.view_mut(), rest.view_mut()));
        self.dispatch::<X::Place>(items.view(), first.view_mut(), others, counts.view_mut())
    }

    // ---- on either engine

    fn dispatch<L: Place>(
        self,
        items: View<'_, T>,
        mut first: ViewMut<'_, T>,
        mut others: Option<(ViewMut<'_, T>, ViewMut<'_, T>)>,
        mut counts: ViewMut<'_, u64>,
    ) -> Result<(), Error>
    where
        S: Site<L>,
    {
        let n = items.len();
        long_enough(NAME, "the counts", counts.len(), 2)?;
        if let View::Host(from) = items {
            assert!(L::ON_HOST);
            let n = counted(NAME, self.site.count(), n)?;
            return self.on_host(&from[..n], first.host(), others, counts.host());
        }
        assert!(L::ON_DEVICE);
        let stream = self.site.stream().unwrap_or(items.home()).clone();
        let (second, rest) = match &mut others {
            Some((second, rest)) => (Some(second as &mut dyn BufferMut), Some(rest as &mut dyn BufferMut)),
            None => (None, None),
        };
        let ThreeWay { first: one, second: two, complement, mut site, .. } = self;
        let (workspace, length) = site.take();
        let call = OnDevice {
            primitive: NAME,
            stream,
            n,
            complement: [complement != one.is_complement(), two.is_complement()],
            append: false,
            chosen: Some(&items),
            columns: [Moving { from: Some(&items), to: [Some(&mut first), second, rest] }, Moving::nothing()],
            count: &mut counts,
            length,
            workspace,
        };
        let parameters = TwoParameters { first: one.parameters(), second: two.parameters() };
        // SAFETY: the program is of both predicates, and these are its parameters; it reads the
        // items only.
        unsafe { call.submit(Self::program(), (&raw const parameters).cast()) }
    }

    fn on_host(
        self,
        items: &[T],
        first: &mut [T],
        others: Option<(ViewMut<'_, T>, ViewMut<'_, T>)>,
        counts: &mut [u64],
    ) -> Result<(), Error> {
        let (n, from) = (items.len(), items.as_ptr());
        let ThreeWay { first: one, second: two, complement, .. } = self;
        // Each predicate is applied to each item once, and the recorded items move.
        // SAFETY: the choices read the items, which are borrowed.
        let (first_words, first_count, mut second_words) = unsafe {
            let by_first = host::ByPredicate { items: from, keeps: move |x| one.keeps(x) };
            let by_second = host::ByPredicate { items: from, keeps: move |x| two.keeps(x) };
            let (words, count) = recorded(NAME, n, &by_first, complement)?;
            (words, count, recorded(NAME, n, &by_second, false)?.0)
        };
        let mut rest_words = zeros_on_host(NAME, first_words.len())?;
        let mut second_count = 0;
        for ((first, second), rest) in first_words.iter().zip(&mut second_words).zip(&mut rest_words) {
            *second &= !first;
            *rest = !(first | *second);
            second_count += second.count_ones() as usize;
        }
        let (parts, found) = ([first_words, second_words, rest_words], [first_count, second_count]);
        let rest = n - found[0] - found[1];
        let to = match others {
            Some((mut second, mut last)) => {
                let (second, last) = (second.host(), last.host());
                long_enough(NAME, "the first output", first.len(), found[0])?;
                long_enough(NAME, "the second output", second.len(), found[1])?;
                long_enough(NAME, "the output of the rest", last.len(), rest)?;
                [first.as_mut_ptr(), second.as_mut_ptr(), last.as_mut_ptr()]
            }
            None => {
                let to = first.as_mut_ptr();
                [to, to.wrapping_add(found[0]), to.wrapping_add(found[0] + found[1])]
            }
        };
        for (words, to) in parts.iter().zip(to) {
            let part = host::ByWords { words: words.as_ptr() };
            // SAFETY: the words have a bit for each item; there is room for each part, as was
            // checked, in memory that is borrowed exclusively.
            unsafe { host::compact(n, &part, false, &[host::Column::array(from, to)], &[]) };
        }
        counts[..2].copy_from_slice(&found.map(|count| count as u64));
        Ok(())
    }
}
