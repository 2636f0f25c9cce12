//! Rows with a stride: rows of a row-major matrix that do not lie side by side.

use super::arguments::{Index, long_enough};
use super::segmented::Rows;
use super::sort_engines::same_length;
use crate::cuda::check;
use crate::memory::{View, ViewMut};
use crate::site::Site;
use crate::submit::Submit;
use crate::{
    Destination, Element, Error, Operator, Place, SegmentedReduce, SegmentedScan, SegmentedSort, SortKey, Source,
};
use bytemuck::Pod;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{self, CUdeviceptr};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use std::sync::Arc;

impl<Op: Operator<T>, T: Element, S> SegmentedScan<Op, T, Rows, S> {
    /// Rows begin this many items apart, as in a part of a wider matrix.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let wide = [1, 2, 7, 10, 20, 7]; // two columns of three
    /// assert_eq!(scan::<Sum, i32>().rows(2).stride(3).run(&wide)?, [1, 3, 10, 30]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// [`len`](Self::len) counts the items in rows, not what lies between them.
    ///
    /// ```
    /// # use parascan::{Sum, scan};
    /// let mut wide = [1, 2, 7, 10, 20, 7];
    /// scan::<Sum, i32>().rows(2).len(&[2]).stride(3).run_in_place(&mut wide)?;
    /// assert_eq!(wide, [1, 3, 7, 10, 20, 7]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn stride(self, stride: usize) -> Strided<Self> {
        Strided { columns: self.cut.0, stride, builder: self }
    }
}

impl<Op: Operator<T>, T: Element, S> SegmentedReduce<Op, T, Rows, S> {
    /// Rows begin this many items apart, as in a part of a wider matrix.
    ///
    /// ```
    /// # use parascan::{Sum, reduce};
    /// assert_eq!(reduce::<Sum, i32>().rows(2).stride(3).run(&[1, 2, 7, 10, 20, 7])?, [3, 30]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn stride(self, stride: usize) -> Strided<Self> {
        Strided { columns: self.cut.0, stride, builder: self }
    }
}

impl<K: SortKey, S> SegmentedSort<K, Rows, S> {
    /// Rows begin this many keys apart, as in a part of a wider matrix.
    ///
    /// ```
    /// # use parascan::sort;
    /// let mut wide = [2, 1, 7, 20, 10, 7];
    /// sort::<i32>().rows(2).stride(3).run_in_place(&mut wide)?;
    /// assert_eq!(wide, [1, 2, 7, 10, 20, 7]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn stride(self, stride: usize) -> Strided<Self> {
        Strided { columns: self.cut.0, stride, builder: self }
    }
}

/// A scan, reduction or sort of rows that begin some items apart: row r has the items from
/// `r * stride` up to `r * stride + columns`. Made by [`stride`](SegmentedScan::stride) of a
/// [`SegmentedScan`], a [`SegmentedReduce`] or a [`SegmentedSort`] by rows, after all options.
///
/// | call | output |
/// |---|---|
/// | `run`, `run_pairs`, `local_indices` | new memory, rows side by side; of a reduction one item a row |
/// | `run_into` | the caller's memory, as long as the input, with the same stride; of a reduction one item a row |
/// | `run_in_place`, `run_pairs_in_place` | the input's memory |
///
/// What lies between rows is neither used nor written. It may be missing behind the last row.
///
/// # Cost
/// A call copies the rows side by side. For n items in rows that is 2 n items moved, beside those of
/// the call without a stride. `run_into` and the calls in place copy the results back to their
/// places, which is 2 n more; a reduction has no such copy. A payload is copied likewise. On the
/// device rows of few bytes are copied slowly.
///
/// By `len` all rows are copied whatever the number is, and those behind it are written back unchanged.
/// `run_into` also copies the output's rows first, 2 n items more.
///
/// # Memory
/// n items, in `run_into` by `len` 2 n, from the stream's pool on the device, even with a workspace. So a
/// call cannot be captured into a graph.
///
/// # Waiting
/// As without a stride.
///
/// # Errors
/// | error | cause |
/// |---|---|
/// | [`Error::Size`] | a stride below the number of columns; a last row that is not whole |
/// | [`Error::Length`] | input and output, or keys and payload, differ in length |
/// | [`Error::Capturing`] | the stream is being captured |
/// | as without a stride | all others |
///
/// Nothing has been written when a call returns an error.
///
/// # Example
/// ```
/// use parascan::{Sum, reduce, scan, sort};
///
/// let wide = [1, 2, 7, 3, 4, 7]; // two columns of three
/// let (mut sums, mut totals) = ([0; 6], [0; 2]);
/// scan::<Sum, i32>().rows(2).stride(3).run_into(&wide, &mut sums)?;
/// assert_eq!(sums, [1, 3, 0, 3, 7, 0]); // as wide as the input
/// reduce::<Sum, i32>().rows(2).stride(3).run_into(&wide, &mut totals)?;
/// assert_eq!(totals, [3, 7]);
/// let (keys, names) = sort::<i32>().descending().rows(2).stride(3).run_pairs(&wide, b"ab-cd-")?;
/// assert_eq!((&keys[..], &names[..]), (&[2, 1, 4, 3][..], &b"badc"[..]));
/// # Ok::<(), parascan::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is done until it is run"]
pub struct Strided<B> {
    builder: B,
    columns: usize,
    stride: usize,
}

// ---- running

impl<Op: Operator<T>, T: Element, S> Strided<SegmentedScan<Op, T, Rows, S>> {
    /// Returns the result in new memory, rows side by side.
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        I::Owned: Source<T, Place = I::Place> + Destination<T, I::Place>,
        S: Site<I::Place>,
    {
        let mut rows = self.gather("scan", input, self.builder.site.stream())?;
        self.builder.run_in_place(&mut rows)?;
        Ok(rows)
    }

    /// Writes the result into the caller's memory, as long as the input and with the same stride.
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        I::Owned: Source<T, Place = I::Place> + Destination<T, I::Place>,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        let scatter = self.scatter("scan", input.view().len(), output.view_mut())?;
        let rows = if S::IS_COUNTED {
            let (from, mut to) = self.gather_both("scan", input, output.view_mut(), self.builder.site.stream())?;
            self.builder.run_into(&from, &mut to)?;
            to
        } else {
            self.run(input)?
        };
        scatter.write(rows.view(), output.view_mut())
    }

    /// Replaces the input by the result.
    pub fn run_in_place<X>(self, data: &mut X) -> Result<(), Error>
    where
        X: Source<T> + Destination<T, <X as Source<T>>::Place> + ?Sized,
        X::Owned: Source<T, Place = <X as Source<T>>::Place> + Destination<T, <X as Source<T>>::Place>,
        S: Site<<X as Source<T>>::Place>,
    {
        let scatter = self.scatter("scan", data.view().len(), data.view_mut())?;
        let rows = self.run(data)?;
        scatter.write(rows.view(), data.view_mut())
    }
}

impl<Op: Operator<T>, T: Element, S> Strided<SegmentedReduce<Op, T, Rows, S>> {
    /// Returns the results in new memory, one item a row.
    pub fn run<I>(self, input: &I) -> Result<I::Owned, Error>
    where
        I: Source<T> + ?Sized,
        I::Owned: Source<T, Place = I::Place, Owned = I::Owned>,
        S: Site<I::Place>,
    {
        let rows = self.gather("reduce", input, self.builder.site.stream())?;
        self.builder.run(&rows)
    }

    /// Writes the results into the caller's memory. What lies past the last one is not changed.
    pub fn run_into<I, O>(self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        I::Owned: Source<T, Place = I::Place>,
        O: Destination<T, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        let rows = self.gather("reduce", input, self.builder.site.stream())?;
        self.builder.run_into(&rows, output)
    }
}

impl<K: SortKey, S> Strided<SegmentedSort<K, Rows, S>> {
    /// Returns the sorted keys in new memory, rows side by side.
    pub fn run<X>(self, keys: &X) -> Result<X::Owned, Error>
    where
        X: Source<K> + ?Sized,
        X::Owned: Source<K, Place = X::Place> + Destination<K, X::Place>,
        S: Site<X::Place>,
    {
        let mut rows = self.gather("sort", keys, self.builder.site.stream())?;
        self.builder.run_in_place(&mut rows)?;
        Ok(rows)
    }

    /// Writes the sorted keys into the caller's memory, as long as the keys and with the same stride.
    pub fn run_into<X, O>(self, keys: &X, sorted: &mut O) -> Result<(), Error>
    where
        X: Source<K> + ?Sized,
        X::Owned: Source<K, Place = X::Place> + Destination<K, X::Place>,
        O: Destination<K, X::Place> + ?Sized,
        S: Site<X::Place>,
    {
        let scatter = self.scatter("sort", keys.view().len(), sorted.view_mut())?;
        let rows = if S::IS_COUNTED {
            let (from, mut to) = self.gather_both("sort", keys, sorted.view_mut(), self.builder.site.stream())?;
            self.builder.run_into(&from, &mut to)?;
            to
        } else {
            self.run(keys)?
        };
        scatter.write(rows.view(), sorted.view_mut())
    }

    /// Sorts the keys in place.
    pub fn run_in_place<X>(self, keys: &mut X) -> Result<(), Error>
    where
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        X::Owned: Source<K, Place = <X as Source<K>>::Place> + Destination<K, <X as Source<K>>::Place>,
        S: Site<<X as Source<K>>::Place>,
    {
        let scatter = self.scatter("sort", keys.view().len(), keys.view_mut())?;
        let rows = self.run(keys)?;
        scatter.write(rows.view(), keys.view_mut())
    }

    /// Returns the sorted keys, and the payload of each, in new memory, rows side by side. The payload
    /// has the keys' stride.
    pub fn run_pairs<V, X, Y>(self, keys: &X, payload: &Y) -> Result<(X::Owned, Y::Owned), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + ?Sized,
        Y: Source<V, Place = X::Place> + ?Sized,
        X::Owned: Source<K, Place = X::Place> + Destination<K, X::Place>,
        Y::Owned: Destination<V, X::Place>,
        S: Site<X::Place>,
    {
        same_length(keys.view().len(), payload.view().len())?;
        let stream = self.builder.site.stream();
        let mut rows = self.gather("sort", keys, stream)?;
        let mut rows_of_payload = self.gather("sort", payload, stream)?;
        self.builder.run_pairs_in_place::<V, _, _>(&mut rows, &mut rows_of_payload)?;
        Ok((rows, rows_of_payload))
    }

    /// Sorts the keys in place, and moves the payload of each with it. The payload has the keys' stride.
    pub fn run_pairs_in_place<V, X, Y>(self, keys: &mut X, payload: &mut Y) -> Result<(), Error>
    where
        V: Pod + Send + Sync,
        X: Source<K> + Destination<K, <X as Source<K>>::Place> + ?Sized,
        Y: Source<V, Place = <X as Source<K>>::Place> + Destination<V, <X as Source<K>>::Place> + ?Sized,
        X::Owned: Source<K, Place = <X as Source<K>>::Place> + Destination<K, <X as Source<K>>::Place>,
        <Y as Source<V>>::Owned: Source<V, Place = <X as Source<K>>::Place> + Destination<V, <X as Source<K>>::Place>,
        S: Site<<X as Source<K>>::Place>,
    {
        let n = keys.view().len();
        let (scatter, scatter_payload) =
            (self.scatter("sort", n, keys.view_mut())?, self.scatter("sort", n, payload.view_mut())?);
        let (rows, rows_of_payload) = self.run_pairs::<V, X, Y>(keys, payload)?;
        scatter.write(rows.view(), keys.view_mut())?;
        scatter_payload.write(rows_of_payload.view(), payload.view_mut())
    }

    /// Returns the source index of each key of the sorted order, counted from the first key of its row,
    /// rows side by side.
    ///
    /// ```
    /// # use parascan::sort;
    /// assert_eq!(sort::<i32>().rows(2).stride(3).local_indices::<u32, _>(&[2, 1, 7, 10, 20])?, [1, 0, 0, 1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn local_indices<I, X>(self, keys: &X) -> Result<<X::Place as Place>::Indices<I>, Error>
    where
        I: Index,
        X: Source<K> + ?Sized,
        X::Owned: Source<K, Place = X::Place>,
        S: Site<X::Place>,
    {
        let rows = self.gather("sort", keys, self.builder.site.stream())?;
        self.builder.local_indices::<I, _>(&rows)
    }
}

// ---- copies

impl<B> Strided<B> {
    /// The number of rows of `n` items.
    ///
    /// # Errors
    /// [`Error::Size`].
    fn rows(&self, primitive: &'static str, n: usize) -> Result<usize, Error> {
        let Strided { columns, stride, .. } = *self;
        long_enough(primitive, "the stride", stride, columns)?;
        if n == 0 {
            return Ok(0);
        }
        long_enough(primitive, "a row", columns, 1)?;
        match n % stride {
            0 => {}
            rest => long_enough(primitive, "the last row", rest, columns)?,
        }
        Ok(n.div_ceil(stride))
    }

    /// Copies the rows side by side into new memory.
    fn gather<T: Pod + Send + Sync, X: Source<T> + ?Sized>(
        &self,
        primitive: &'static str,
        input: &X,
        chosen: Option<&Arc<CudaStream>>,
    ) -> Result<X::Owned, Error> {
        self.gather_of(primitive, input, input.view(), input.view().stream(chosen).as_ref())
    }

    /// The same of the input and of an output of its length.
    fn gather_both<T: Pod + Send + Sync, X: Source<T> + ?Sized>(
        &self,
        primitive: &'static str,
        input: &X,
        output: ViewMut<'_, T>,
        chosen: Option<&Arc<CudaStream>>,
    ) -> Result<(X::Owned, X::Owned), Error> {
        let stream = input.view().stream(chosen);
        let gather = |view| self.gather_of(primitive, input, view, stream.as_ref());
        Ok((gather(input.view())?, gather(output.shared())?))
    }

    /// Copies rows side by side into new memory of the input's kind, on the stream.
    fn gather_of<T: Pod + Send + Sync, X: Source<T> + ?Sized>(
        &self,
        primitive: &'static str,
        input: &X,
        view: View<'_, T>,
        stream: Option<&Arc<CudaStream>>,
    ) -> Result<X::Owned, Error> {
        let rows = self.rows(primitive, view.len())?;
        let mut owned = input.allocate(primitive, rows * self.columns, stream)?;
        let copy = Copy { primitive, columns: self.columns, strides: [self.stride, self.columns], rows };
        copy.run(view, X::view_owned(&mut owned), stream)?;
        Ok(owned)
    }

    /// The copy back of the rows of `n` items to `output`.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::Length`].
    fn scatter<T>(&self, primitive: &'static str, n: usize, output: ViewMut<'_, T>) -> Result<Copy, Error> {
        if output.len() != n {
            return Err(Error::Length { primitive, input: n, output: output.len() });
        }
        let rows = self.rows(primitive, n)?;
        Ok(Copy { primitive, columns: self.columns, strides: [self.columns, self.stride], rows })
    }
}

/// A copy of rows, from one stride to another.
struct Copy {
    primitive: &'static str,
    columns: usize,
    strides: [usize; 2],
    rows: usize,
}

impl Copy {
    /// Copies rows back, on their stream.
    fn write<T: Pod + Send + Sync>(&self, from: View<'_, T>, to: ViewMut<'_, T>) -> Result<(), Error> {
        self.run(from, to, from.stream(None).as_ref())
    }

    fn run<T: Pod + Send + Sync>(
        &self,
        from: View<'_, T>,
        to: ViewMut<'_, T>,
        stream: Option<&Arc<CudaStream>>,
    ) -> Result<(), Error> {
        let Copy { primitive, columns, strides: [stride, stride_to], rows } = *self;
        if rows == 0 {
            return Ok(());
        }
        match (from, to) {
            (View::Host(from), ViewMut::Host(to)) => {
                // Rows that are worth a thread's start.
                let least = (1 << 16) / columns + 1;
                let copy = |(from, to): (&[T], &mut [T])| to[..columns].copy_from_slice(&from[..columns]);
                if rows < 2 * least {
                    from.chunks(stride).zip(to.chunks_mut(stride_to)).for_each(copy);
                } else {
                    from.par_chunks(stride).zip(to.par_chunks_mut(stride_to)).with_min_len(least).for_each(copy);
                }
                Ok(())
            }
            (View::Device(from), ViewMut::Device(to)) => {
                let stream = stream.expect("data on the device has a stream");
                let submit = Submit::new(primitive, stream);
                submit.uses("the input", from.stream())?;
                submit.uses("the output", to.stream())?;
                submit.begin()?;
                let (from, _read) = from.device_ptr(stream);
                let (to, _written) = to.device_ptr_mut(stream);
                let bytes = |items: usize| items * size_of::<T>();
                // SAFETY: `rows` rows with these strides lie in both buffers, which the guards keep.
                unsafe { copy_rows(stream, (from, bytes(stride)), (to, bytes(stride_to)), bytes(columns), rows) }
            }
            _ => unreachable!("the types agree on the place"),
        }
    }
}

/// Copies rows of `width` bytes on the device; `from` and `to` are addresses and strides in bytes.
///
/// # Safety
/// The rows lie in memory of the device that work on the stream may read and write, and are disjoint.
unsafe fn copy_rows(
    stream: &CudaStream,
    from: (CUdeviceptr, usize),
    to: (CUdeviceptr, usize),
    width: usize,
    rows: usize,
) -> Result<(), Error> {
    /// No device takes a longer stride.
    const MOST: usize = i32::MAX as usize;
    let (device, raw) = (stream.context().ordinal(), stream.cu_stream());
    if from.1.max(to.1) > MOST {
        for row in 0..rows {
            let (from, to) = (from.0 + (row * from.1) as u64, to.0 + (row * to.1) as u64);
            // SAFETY: the caller's.
            check("cuMemcpyDtoDAsync", device, unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, width, raw) })?;
        }
        return Ok(());
    }
    let copy = sys::CUDA_MEMCPY2D {
        srcXInBytes: 0,
        srcY: 0,
        srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: std::ptr::null(),
        srcDevice: from.0,
        srcArray: std::ptr::null_mut(),
        srcPitch: from.1,
        dstXInBytes: 0,
        dstY: 0,
        dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: std::ptr::null_mut(),
        dstDevice: to.0,
        dstArray: std::ptr::null_mut(),
        dstPitch: to.1,
        WidthInBytes: width,
        Height: rows,
    };
    // SAFETY: the caller's; the driver reads the struct.
    check("cuMemcpy2DAsync", device, unsafe { sys::cuMemcpy2DAsync_v2(&copy, raw) })
}
