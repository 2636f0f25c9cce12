//! The scan of segments in host memory.

use super::super::{
    call::{Call, same},
    pipeline::{Cut, ROWS, RUNS, SHORTEST_RUN, Shape, Steps, are_unforeseen, fold},
    reduce::fold_items,
    scan::{Elements, Store},
};
use super::heads::{Heads, for_each_piece, is_head};
use super::{State, joined};
use crate::operator::Lanes;
use crate::{Associativity, Element, Operator};
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

/// Scans the segments of `n` elements of `input` into `output`, on the threads of rayon's current
/// pool.
///
/// The first element begins a segment, and so does each of the `heads`. `first` comes before the
/// first element of each segment. With `reverse` each segment is scanned from its last element to
/// its first, operand order included. An exclusive scan needs `first`.
///
/// Inputs of up to 256 KiB stay on the calling thread and allocate nothing.
///
/// # Same bits
///
/// The grouping follows from the number of elements, their type and the segments alone.
///
/// # Safety
/// - `input` is valid for reads and `output` for writes of `n` elements.
/// - They are the same, or they do not overlap.
/// - During the call no other thread writes `input` or touches `output`.
///
/// # Panics
/// If `exclusive` is without `first`, before anything is written; and if the operator panics.
pub(crate) unsafe fn scan<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    n: usize,
    heads: &dyn Heads,
    exclusive: bool,
    first: Option<Op::Carry>,
    reverse: bool,
) {
    struct Scan<'a, C> {
        input: *const u8,
        output: *mut u8,
        n: usize,
        heads: &'a dyn Heads,
        exclusive: bool,
        first: Option<C>,
        reverse: bool,
    }
    impl<C: Element> Call for Scan<'_, C> {
        type Output = ();
        fn run<Op: Operator<T>, T: Element>(self) {
            let Scan { input, output, n, heads, exclusive, first, reverse } = self;
            let (input, output, first, shape) = (input.cast(), output.cast(), same(first), Shape::of::<T>());
            // SAFETY: the caller's; the elements have the size and the alignment of the caller's.
            unsafe { scan_shaped::<Op, T>(input, output, n, heads, exclusive, first, reverse, shape) }
        }
    }
    Op::on_host(Scan { input: input.cast(), output: output.cast(), n, heads, exclusive, first, reverse });
}

/// [`scan`] with tiles of a given shape.
///
/// # Safety
/// As for [`scan`].
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn scan_shaped<Op: Operator<T>, T: Element>(
    input: *const T,
    output: *mut T,
    n: usize,
    heads: &dyn Heads,
    exclusive: bool,
    first: Option<Op::Carry>,
    reverse: bool,
    shape: Shape,
) {
    assert!(first.is_some() || !exclusive, "an exclusive scan needs an initial value");
    macro_rules! run {
        ($exclusive:literal, $reverse:literal) => {
            Segments {
                steps: Steps {
                    source: Elements::<Op, T, $reverse> { input, n, operator: PhantomData },
                    sink: Store::<Op, T, $exclusive, $reverse, false> { output, n, operator: PhantomData },
                    combine: Op::combine,
                },
                heads,
                n,
                first,
            }
            .scan(shape)
        };
    }
    // Constants, so that the inner loops have no branch.
    match (exclusive, reverse) {
        (false, false) => run!(false, false),
        (false, true) => run!(false, true),
        (true, false) => run!(true, false),
        (true, true) => run!(true, true),
    }
}

struct Segments<'a, Op: Operator<T>, T: Element, F, const EXCLUSIVE: bool, const REVERSE: bool> {
    steps: Steps<Elements<Op, T, REVERSE>, Store<Op, T, EXCLUSIVE, REVERSE, false>, F>,
    heads: &'a dyn Heads,
    n: usize,
    first: Option<Op::Carry>,
}

impl<Op, T, F, const EXCLUSIVE: bool, const REVERSE: bool> Segments<'_, Op, T, F, EXCLUSIVE, REVERSE>
where
    Op: Operator<T>,
    T: Element,
    F: Fn(Op::Carry, Op::Carry) -> Op::Carry + Copy + Sync,
{
    fn scan(self, shape: Shape) {
        let n = self.n;
        if n == 0 {
            return;
        }
        // The length first: asking rayon for its threads would start them.
        if n <= shape.small || Op::ASSOCIATIVITY == Associativity::Exact && rayon::current_num_threads() == 1 {
            return self.scan_tile(0..n, self.first, None);
        }
        // Tiles begin with a word of heads.
        let size = (shape.tile / 64 * 64).max(64);
        let tiles = n.div_ceil(size);
        let tile = |t: usize| {
            let from = size * if REVERSE { tiles - 1 - t } else { t };
            from..n.min(from + size)
        };
        joined(tiles, self.first, Op::combine, &|t| self.fold_tile(tile(t)), &|t, prefix, sums| {
            self.scan_tile(tile(t), prefix, Some(sums))
        });
    }

    /// The state of a tile, which is that of its last piece in scan order, and the sums of that
    /// piece's runs.
    fn fold_tile(&self, tile: Range<usize>) -> (State<Op::Carry>, [Op::Carry; RUNS]) {
        let mut last = tile.clone();
        if let Some(columns) = self.heads.columns() {
            match REVERSE {
                false => last.start = tile.start.max((tile.end - 1) / columns * columns),
                true => last.end = tile.end.min((tile.start / columns + 1) * columns),
            }
        } else {
            for_each_piece(self.heads, tile.clone(), self.n, !REVERSE, |piece, _| {
                last = piece;
                ControlFlow::Break(())
            });
        }
        let begins = match REVERSE {
            false => last.start > tile.start || is_head(self.heads, tile.start),
            true => last.end < tile.end || tile.end < self.n && is_head(self.heads, tile.end),
        };
        let (sum, sums) = if const { matches!(Op::LANES, Lanes::No) } {
            fold(self.steps.source, self.steps.combine, Cut::new(self.index(&last), last.len()))
        } else {
            // Such an operator is commutative, so the direction does not matter.
            let items = Elements { input: self.steps.source.input, n: self.n, operator: PhantomData };
            let sum = fold_items::<Op, T>(items, last);
            (sum, [sum; RUNS])
        };
        let first = if begins { self.first } else { None };
        let upto = first.map_or(sum, |first| Op::combine(first, sum));
        (State { upto: Some(upto), begins }, sums)
    }

    /// Scans a tile. `upto` comes before its first piece, unless a segment begins there. `sums` are
    /// those of the last piece's runs, if they are known.
    fn scan_tile(&self, tile: Range<usize>, upto: Option<Op::Carry>, sums: Option<[Op::Carry; RUNS]>) {
        // Without its sums, a piece would have to be read twice to be scanned in runs.
        let sums = if const { matches!(Op::LANES, Lanes::No) } { sums } else { None };
        if let Some(columns) = self.heads.columns() {
            return self.scan_rows(columns, tile, upto, sums);
        }
        let mut upto = upto;
        for_each_piece(self.heads, tile.clone(), self.n, REVERSE, |piece, begins| {
            if begins {
                upto = self.first;
            }
            upto = Some(self.scan_piece(
                self.index(&piece),
                piece.len(),
                upto,
                sums.filter(|_| self.is_last(&piece, &tile)),
            ));
            ControlFlow::Continue(())
        });
    }

    /// Scans a piece of one segment from `upto` on, and returns its last prefix. `sums` are those of its runs.
    #[inline(always)]
    fn scan_piece(
        &self,
        from: usize,
        len: usize,
        upto: Option<Op::Carry>,
        sums: Option<[Op::Carry; RUNS]>,
    ) -> Op::Carry {
        match sums {
            Some(sums) if len >= RUNS * SHORTEST_RUN => self.steps.scan(Cut::new(from, len), upto, sums, None),
            _ => self.steps.scan_run(from, len, upto),
        }
    }

    /// [`scan_tile`](Self::scan_tile) of rows of `columns` items. The last of the input may have fewer.
    fn scan_rows(&self, columns: usize, tile: Range<usize>, upto: Option<Op::Carry>, sums: Option<[Op::Carry; RUNS]>) {
        // In scan order it is then the first row that has fewer.
        let short = if REVERSE { self.n % columns } else { 0 };
        let (mut at, mut upto) = (self.index(&tile), upto);
        let (end, are_unforeseen) = (at + tile.len(), are_unforeseen(columns));
        while at < end {
            // The length of the row, and how many of its items lie before.
            let (len, before) = if at < short { (short, at) } else { (columns, (at - short) % columns) };
            if before == 0 {
                upto = self.first;
                while at >= short && end - at >= ROWS * columns {
                    let next = at + ROWS * columns;
                    if are_unforeseen {
                        self.steps.prefetch(next..end.min(next + ROWS * columns));
                    }
                    self.steps.scan_rows(at, columns, self.first);
                    at = next;
                }
            }
            let to = end.min(at + len - before);
            if at < to {
                self.scan_piece(at, to - at, upto, sums.filter(|_| to == end));
            }
            at = to;
        }
    }

    /// Whether the piece is the tile's last in scan order.
    #[inline(always)]
    fn is_last(&self, piece: &Range<usize>, tile: &Range<usize>) -> bool {
        if REVERSE { piece.start == tile.start } else { piece.end == tile.end }
    }

    /// The index of a piece's first item in scan order.
    #[inline(always)]
    fn index(&self, piece: &Range<usize>) -> usize {
        if REVERSE { self.n - piece.end } else { piece.start }
    }
}
