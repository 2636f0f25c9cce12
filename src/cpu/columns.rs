//! Scan and reduction of the columns of a row-major matrix, each column on its own.
//!
//! Columns are cut into *panels* of a few cache lines, so that a panel's row of carries stays in the
//! L1 cache and memory is read by whole lines. Panels do not depend on each other. A matrix of many
//! panels is walked once, panels in parallel. If there are few, each panel is cut into *tiles* of
//! rows. A scan joins tiles by the hand-over: the state of a tile is a row of carries. A reduction
//! folds tiles in parallel, and joins them in a loop.
//!
//! Inside a tile, a *strip* of rows that fits the L1 cache is walked by blocks of adjacent columns,
//! whose carries stay in registers from row to row. The loop over a block's columns has a constant
//! length, so the compiler makes vector instructions of it.

use super::{
    call::{Call, same},
    handover::hand_over,
    threshold,
};
use crate::memory::zeros_on_host;
use crate::{Associativity, Element, Error, Operator};
use bytemuck::Zeroable;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::marker::PhantomData;
use std::ops::Range;

/// The sizes that the element's type decides.
#[derive(Clone, Copy)]
struct Shape {
    /// The most columns of a panel.
    panel: usize,
    /// Items of a tile.
    tile: usize,
    /// Items of a strip.
    strip: usize,
    /// Items up to which the calling thread does all work.
    small: usize,
    /// The number of panels from which on panels are not cut into tiles.
    wide: usize,
}

impl Shape {
    /// `C` is the carry's type.
    const fn of<T, C>() -> Shape {
        const fn items<T>(bytes: usize) -> usize {
            let size = if size_of::<T>() == 0 { 1 } else { size_of::<T>() };
            if bytes > size { bytes / size } else { 1 }
        }
        let (of_panel, carries) = (items::<T>(threshold(1 << 12)), items::<C>(threshold(1 << 12)));
        Shape {
            panel: if carries < of_panel { carries } else { of_panel },
            tile: items::<T>(threshold(256 << 10)),
            strip: items::<T>(threshold(16 << 10)),
            small: items::<T>(threshold(256 << 10)),
            wide: 32,
        }
    }
}

/// Scans each column of a matrix of `rows` rows into `output`, on the threads of rayon's current
/// pool.
///
/// `first` comes before the first item of each column. With `reverse` the last row is the first,
/// operand order included. An exclusive scan needs `first`. Matrices of up to 256 KiB stay on the
/// calling thread.
///
/// # Same bits
///
/// The grouping follows from the number of rows and columns and the types alone. A tile's aggregate
/// combines its items from the left, its prefix is `first + tile0 + tile1 ...` from the left, and an
/// item's prefix is the tile's prefix and the tile's items up to it, from the left. A single column
/// is grouped as by [`super::scan`].
///
/// # Safety
/// - `input` is valid for reads and `output` for writes of `rows * columns` elements.
/// - They are the same, or they do not overlap.
/// - During the call no other thread writes `input` or touches `output`.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything is written: for a row of carries for each tile.
///
/// # Panics
/// If `exclusive` is without `first`, before anything is written; and if the operator panics.
pub(crate) unsafe fn scan<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    [rows, columns]: [usize; 2],
    exclusive: bool,
    first: Option<Op::Carry>,
    reverse: bool,
) -> Result<(), Error> {
    if columns == 1 {
        // SAFETY: the caller's.
        unsafe { super::scan::<Op, T>(input, output, rows, exclusive, first, reverse) };
        return Ok(());
    }
    struct Scan<C> {
        input: *const u8,
        output: *mut u8,
        shape: [usize; 2],
        exclusive: bool,
        first: Option<C>,
        reverse: bool,
    }
    impl<C: Element> Call for Scan<C> {
        type Output = Result<(), Error>;
        fn run<Op: Operator<T>, T: Element>(self) -> Self::Output {
            let Scan { input, output, shape, exclusive, first, reverse } = self;
            let (input, output, first) = (input.cast(), output.cast(), same(first));
            // SAFETY: the caller's; the elements have the size and the alignment of the caller's.
            unsafe {
                scan_shaped::<Op, T>(input, output, shape, exclusive, first, reverse, Shape::of::<T, Op::Carry>())
            }
        }
    }
    let shape = [rows, columns];
    Op::on_host(Scan { input: input.cast(), output: output.cast(), shape, exclusive, first, reverse })
}

/// [`scan`] with panels and tiles of a given shape.
///
/// # Safety
/// As for [`scan`].
unsafe fn scan_shaped<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    [rows, columns]: [usize; 2],
    exclusive: bool,
    first: Option<Op::Carry>,
    reverse: bool,
    shape: Shape,
) -> Result<(), Error> {
    assert!(first.is_some() || !exclusive, "an exclusive scan needs an initial value");
    if rows == 0 || columns == 0 {
        return Ok(());
    }
    let matrix = Matrix::<Op, T> { input, output, rows, columns, reverse, strip: shape.strip, operator: PhantomData };
    let walk = |tile: Tile, carries: &mut [Op::Carry], some: bool| match exclusive {
        true => matrix.walk::<EXCLUSIVE>(tile, carries, some),
        false => matrix.walk::<INCLUSIVE>(tile, carries, some),
    };
    let cut = Cut::new::<Op, T>([rows, columns], shape);
    // For each panel a row of each tile: its aggregate, and when that is joined its inclusive prefix.
    let mut states = zeros_on_host("scan", if cut.tiles == 1 { 0 } else { cut.tiles * columns })?;
    let states = Rows { carries: states.as_mut_ptr(), width: columns };
    let scan_panel = |panel: usize| {
        let width = cut.panel(panel).len();
        let start = || vec![first.unwrap_or_else(Op::Carry::zeroed); width];
        if cut.tiles == 1 {
            return walk(cut.tile(panel, 0), &mut start(), first.is_some());
        }
        let states = states.part(cut.panel(panel), cut.tiles);
        let fold = |tile: usize| {
            // SAFETY: tile `tile` alone writes its row, before it hands it on.
            matrix.walk::<FOLD>(cut.tile(panel, tile), unsafe { states.row_mut(tile) }, false);
        };
        let join = |earlier: Option<usize>, later: usize| {
            // SAFETY: both rows were written before they were handed on. The row of `later` is
            // joined once, before another tile gets it, and that of `earlier` has been joined.
            let (earlier, later) = unsafe { (earlier.map(|tile| states.row(tile)), states.row_mut(later)) };
            for (k, later) in later.iter_mut().enumerate() {
                let earlier = earlier.map(|earlier| earlier[k]).or(first);
                *later = earlier.map_or(*later, |earlier| Op::combine(earlier, *later));
            }
        };
        let finish = |tile: usize, before: Option<usize>| {
            // SAFETY: the row was joined before this tile got it, and no row is joined twice.
            let mut carries = before.map_or_else(start, |tile| unsafe { states.row(tile) }.to_vec());
            walk(cut.tile(panel, tile), &mut carries, before.is_some() || first.is_some());
        };
        joined(cut.tiles, &fold, &join, &finish);
    };
    cut.for_each_panel(&scan_panel);
    Ok(())
}

/// Reduces each column of a matrix of at least one row into one item of `output`, on the threads of
/// rayon's current pool. `first` comes before the first item of each column.
///
/// # Same bits
///
/// As in [`scan`], but `first` is combined with the combination of all tiles. A single column is
/// grouped as by [`super::reduce`].
///
/// # Errors
/// [`Error::OutOfMemory`], as in [`scan`].
///
/// # Panics
/// If the operator panics, and if there is no whole row for the outputs.
pub(crate) fn reduce<Op: Operator<T>, T: Element>(
    input: &[T],
    first: Option<Op::Carry>,
    output: &mut [T],
) -> Result<(), Error> {
    if let [output] = output {
        let all = super::reduce::<Op, T>(input).expect("a row");
        *output = Op::lower(first.map_or(all, |first| Op::combine(first, all)));
        return Ok(());
    }
    struct Reduce<'a, T, C> {
        input: &'a [T],
        first: Option<C>,
        output: &'a mut [T],
    }
    impl<E: Element, C: Element> Call for Reduce<'_, E, C> {
        type Output = Result<(), Error>;
        fn run<Op: Operator<T>, T: Element>(self) -> Self::Output {
            let (input, output) = (bytemuck::cast_slice(self.input), bytemuck::cast_slice_mut(self.output));
            reduce_shaped::<Op, T>(input, same(self.first), output, Shape::of::<T, Op::Carry>())
        }
    }
    Op::on_host(Reduce { input, first, output })
}

/// [`reduce`] with panels and tiles of a given shape.
fn reduce_shaped<Op: Operator<T>, T: Element>(
    input: &[T],
    first: Option<Op::Carry>,
    output: &mut [T],
    shape: Shape,
) -> Result<(), Error> {
    let columns = output.len();
    if columns == 0 {
        return Ok(());
    }
    let rows = input.len() / columns;
    assert!(rows > 0, "a row");
    // The output is not written by `FOLD`.
    let (input, nothing) = (input.as_ptr(), std::ptr::null_mut());
    let matrix = Matrix::<Op, T> {
        input,
        output: nothing,
        rows,
        columns,
        reverse: false,
        strip: shape.strip,
        operator: PhantomData,
    };
    let cut = Cut::new::<Op, T>([rows, columns], shape);
    let to = Rows { carries: output.as_mut_ptr(), width: 1 };
    let mut states = zeros_on_host::<Op::Carry>("reduce", cut.tiles * columns)?;
    let states = Rows { carries: states.as_mut_ptr(), width: columns };
    let reduce_panel = |panel: usize| {
        let rows = states.part(cut.panel(panel), cut.tiles);
        cut.for_each_tile(&|tile| {
            // SAFETY: tile `tile` alone writes its row.
            matrix.walk::<FOLD>(cut.tile(panel, tile), unsafe { rows.row_mut(tile) }, false);
        });
        // SAFETY: all tiles have written their rows, and this panel alone has them.
        let all = unsafe { rows.row_mut(0) };
        for tile in 1..cut.tiles {
            // SAFETY: as above.
            for (all, &other) in all.iter_mut().zip(unsafe { rows.row(tile) }) {
                *all = Op::combine(*all, other);
            }
        }
        for (column, &mut all) in cut.panel(panel).zip(all) {
            let all = first.map_or(all, |first| Op::combine(first, all));
            // SAFETY: there is an output for each column, and one panel has the column.
            unsafe { to.row_mut(column)[0] = Op::lower(all) };
        }
    };
    cut.for_each_panel(&reduce_panel);
    Ok(())
}

/// Joins the tiles of a panel. States are numbers of tiles; the rows of carries lie elsewhere, so
/// this is compiled once.
fn joined(
    tiles: usize,
    fold: &(dyn Fn(usize) + Sync),
    join: &(dyn Fn(Option<usize>, usize) + Sync),
    finish: &(dyn Fn(usize, Option<usize>) + Sync),
) {
    // `None` is before the first tile.
    let combine = |&earlier: &Option<usize>, &later: &Option<usize>| {
        join(earlier, later.expect("a tile"));
        later
    };
    let fold = |tile: usize| {
        fold(tile);
        (Some(tile), ())
    };
    hand_over(tiles, Some(None), fold, combine, |tile, before, ()| {
        finish(tile, *before.expect("there is a first state"));
    });
}

/// How a matrix is cut.
struct Cut {
    rows: usize,
    columns: usize,
    /// Columns of a panel; the last may have fewer.
    width: usize,
    panels: usize,
    /// Rows of a tile; the last may have fewer.
    height: usize,
    /// Tiles of a panel.
    tiles: usize,
    /// Whether the calling thread does all work.
    alone: bool,
}

/// A part of a matrix: columns of a panel, and rows in scan order.
struct Tile {
    columns: Range<usize>,
    rows: Range<usize>,
}

impl Cut {
    /// The cut of a matrix that has items.
    fn new<Op: Operator<T>, T: Element>([rows, columns]: [usize; 2], shape: Shape) -> Cut {
        let panels = columns.div_ceil(shape.panel);
        let width = columns.div_ceil(panels); // about equally wide
        let panels = columns.div_ceil(width);
        // The length first: asking rayon for its threads would start them.
        let alone = rows * columns <= shape.small;
        let whole = alone
            || panels >= shape.wide
            || Op::ASSOCIATIVITY == Associativity::Exact && rayon::current_num_threads() == 1;
        let height = if whole { rows } else { (shape.tile / width).max(1) };
        Cut { rows, columns, width, panels, height, tiles: rows.div_ceil(height), alone }
    }

    fn panel(&self, panel: usize) -> Range<usize> {
        let from = panel * self.width;
        from..self.columns.min(from + self.width)
    }

    fn tile(&self, panel: usize, tile: usize) -> Tile {
        let from = tile * self.height;
        Tile { columns: self.panel(panel), rows: from..self.rows.min(from + self.height) }
    }

    fn for_each_panel(&self, work: &(dyn Fn(usize) + Sync)) {
        self.for_each(self.panels, work);
    }

    fn for_each_tile(&self, work: &(dyn Fn(usize) + Sync)) {
        self.for_each(self.tiles, work);
    }

    fn for_each(&self, parts: usize, work: &(dyn Fn(usize) + Sync)) {
        if self.alone || parts == 1 {
            return (0..parts).for_each(work);
        }
        (0..parts).into_par_iter().for_each(work);
    }
}

/// Rows of `width` values that threads write in turn.
struct Rows<C> {
    carries: *mut C,
    width: usize,
}

// SAFETY: the callers of `row` and `row_mut` say why no two threads use a row at a time; elements
// are `Send` and `Sync`.
unsafe impl<C: Element> Sync for Rows<C> {}

impl<C> Rows<C> {
    /// The rows of the tiles of a panel with these columns, in a table of all columns.
    fn part(&self, columns: Range<usize>, tiles: usize) -> Rows<C> {
        Rows { carries: self.carries.wrapping_add(tiles * columns.start), width: columns.len() }
    }
    /// # Safety
    /// There is a row `i`, and no thread writes it while the result lives.
    unsafe fn row(&self, i: usize) -> &[C] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(self.carries.add(i * self.width), self.width) }
    }
    /// # Safety
    /// There is a row `i`, and no other thread accesses it while the result lives.
    #[allow(clippy::mut_from_ref, reason = "a row of a shared table, by the caller's promise")]
    unsafe fn row_mut(&self, i: usize) -> &mut [C] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.carries.add(i * self.width), self.width) }
    }
}

/// What a walk writes beside the carries: nothing, or the prefixes of each item.
const FOLD: u8 = 0;
const INCLUSIVE: u8 = 1;
const EXCLUSIVE: u8 = 2;

/// The items. `input` is valid for reads of all of them during the call that made this, and
/// `output` for writes, unless it is only folded.
struct Matrix<Op, T> {
    input: *const T,
    output: *mut T,
    rows: usize,
    columns: usize,
    reverse: bool,
    /// Items of a strip.
    strip: usize,
    operator: PhantomData<fn() -> Op>,
}

// SAFETY: each item is read and written by the walks over its tile alone, which are one after the
// other, and elements are `Send` and `Sync`.
unsafe impl<Op, T: Element> Sync for Matrix<Op, T> {}

impl<Op: Operator<T>, T: Element> Matrix<Op, T> {
    /// Walks over a tile. `carries` are those of its columns before and, afterwards, behind it. If
    /// not `some`, there are none before.
    fn walk<const WRITE: u8>(&self, tile: Tile, carries: &mut [Op::Carry], some: bool) {
        let Tile { columns, rows } = tile;
        assert!(columns.end <= self.columns && rows.end <= self.rows && carries.len() == columns.len());
        let height = (self.strip / columns.len()).max(1);
        for from in rows.clone().step_by(height) {
            let strip = from..rows.end.min(from + height);
            let some = some || from > rows.start;
            let mut column = columns.start;
            // Constants, so that blocks of large carries are not compiled for 16 columns.
            if const { size_of::<Op::Carry>() <= 8 } {
                self.blocks::<WRITE, 16>(&mut column, &columns, &strip, carries, some);
            }
            self.blocks::<WRITE, 4>(&mut column, &columns, &strip, carries, some);
            self.blocks::<WRITE, 2>(&mut column, &columns, &strip, carries, some);
            self.blocks::<WRITE, 1>(&mut column, &columns, &strip, carries, some);
        }
    }

    /// Walks over a strip by blocks of `L` columns, from `column` on, as long as there are so many.
    fn blocks<const WRITE: u8, const L: usize>(
        &self,
        column: &mut usize,
        columns: &Range<usize>,
        strip: &Range<usize>,
        carries: &mut [Op::Carry],
        some: bool,
    ) {
        let (carries, _) = carries[*column - columns.start..].as_chunks_mut::<L>();
        for carries in carries {
            let row = if self.reverse { self.rows - 1 - strip.start } else { strip.start };
            let mut index = row * self.columns + *column;
            let step = if self.reverse { 0_usize.wrapping_sub(self.columns) } else { self.columns };
            // SAFETY (of each read and write): `walk` has asserted that the block lies in the
            // matrix. No reference to the items exists, so input and output may be the same.
            let read = |index: usize| unsafe { self.input.add(index).cast::<[T; L]>().read() }.map(Op::lift);
            let write = |index: usize, items: [Op::Carry; L]| unsafe {
                self.output.add(index).cast::<[T; L]>().write(items.map(Op::lower));
            };
            let (mut upto, mut rows) = (*carries, strip.len());
            if !some {
                upto = read(index);
                if WRITE == INCLUSIVE {
                    write(index, upto);
                }
                (index, rows) = (index.wrapping_add(step), rows - 1);
            }
            for _ in 0..rows {
                let (items, before) = (read(index), upto);
                for k in 0..L {
                    upto[k] = Op::combine(before[k], items[k]);
                }
                match WRITE {
                    INCLUSIVE => write(index, upto),
                    EXCLUSIVE => write(index, before),
                    _ => (),
                }
                index = index.wrapping_add(step);
            }
            *carries = upto;
            *column += L;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::random::noise;
    use crate::cpu::threads::on_threads;
    use crate::operators::{Compose, Matrix as Matrices};
    use crate::{Last, Max, Sum};

    /// Two panels of 17 columns have blocks of 16 and of one, and nine have tiles no more.
    const TINY: Shape = Shape { panel: 17, tile: 100, strip: 40, small: 0, wide: 9 };

    fn shapes() -> Vec<[usize; 2]> {
        let mut shapes = vec![[1, 1], [60, 3], [20, 34], [3, 160]];
        if !cfg!(miri) {
            shapes.extend([[1, 300], [300, 1], [1000, 2], [99, 7], [101, 8], [33, 35], [50, 136], [7, 1000]]);
        }
        shapes
    }

    /// On pools of several sizes, for panels that all threads share and that one has.
    fn on_all_threads(check: impl Fn(Shape) + Sync) {
        for threads in if cfg!(miri) { vec![2] } else { vec![1, 2, 3, 8] } {
            for small in [0, usize::MAX] {
                on_threads(threads, || check(Shape { small, ..TINY }));
            }
        }
    }

    fn agrees<Op: Operator<T>, T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(u64) -> T, init: T) {
        for [rows, columns] in shapes() {
            let n = rows * columns;
            let x: Vec<T> = noise(n, n as u64 + 3).map(&make).collect();
            for (exclusive, init) in [(false, None), (false, Some(init)), (true, Some(init))] {
                let first = init.map(Op::lift);
                let (mut forwards, mut backwards) = (x.clone(), x.clone());
                let mut totals = x[..columns].to_vec();
                for (column, total) in totals.iter_mut().enumerate() {
                    let prefixes = |output: &mut [T], rows: &mut dyn Iterator<Item = usize>| {
                        let mut upto = first;
                        for i in rows.map(|row| row * columns + column) {
                            let item = Op::lift(x[i]);
                            let next = upto.map_or(item, |upto| Op::combine(upto, item));
                            output[i] = Op::lower(if exclusive { upto.unwrap() } else { next });
                            upto = Some(next);
                        }
                        Op::lower(upto.unwrap())
                    };
                    *total = prefixes(&mut forwards, &mut (0..rows));
                    prefixes(&mut backwards, &mut (0..rows).rev());
                }
                on_all_threads(|shape| {
                    for (reverse, expected) in [(false, &forwards), (true, &backwards)] {
                        let (mut out, mut in_place) = (vec![x[0]; n], x.clone());
                        // SAFETY: n elements each, which no other thread touches.
                        unsafe {
                            let (from, to, within) = (x.as_ptr(), out.as_mut_ptr(), in_place.as_mut_ptr());
                            let of = [rows, columns];
                            scan_shaped::<Op, T>(from, to, of, exclusive, first, reverse, shape).unwrap();
                            scan_shaped::<Op, T>(within, within, of, exclusive, first, reverse, shape).unwrap();
                        }
                        assert_eq!(&out, expected, "{rows} x {columns}, {exclusive}, {reverse}");
                        assert!(&in_place == expected, "in place, {rows} x {columns}, {exclusive}, {reverse}");
                    }
                    let mut output = vec![x[0]; columns];
                    reduce_shaped::<Op, T>(&x, first, &mut output, shape).unwrap();
                    assert_eq!(output, totals, "{rows} x {columns}");
                });
            }
        }
    }

    #[test]
    fn columns_agree_with_a_loop() {
        agrees::<Sum, u32>(|z| z as u32, 7);
        agrees::<Sum, f32>(|z| (z % 16) as f32, 3.0);
        agrees::<Last, u16>(|z| z as u16, 7);
        agrees::<Max, u8>(|z| z as u8, 7);
        let matrix = |z: u64| bytemuck::cast::<_, Matrices<u64>>([z, z >> 7, z >> 11 | 1, z >> 17]);
        agrees::<Compose, Matrices<u64>>(matrix, matrix(12345));
    }
}
