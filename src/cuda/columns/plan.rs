//! The plan of a call on a matrix: how it is cut, the tiles and the scratch memory. It calls no device.

use super::contract::Matrix;
use super::tuning::{GROUP_VECTORS, MANY_PANELS, ROW_BYTES, THREADS, Work, items_of_vectors, run, widest};
use crate::cuda::contract::{BEFORE_STATUS, status_bytes};
use crate::cuda::plan::MOST_BLOCKS;
use crate::cuda::reduce::{ReducePlan, check_element};
use crate::cuda::scan;
use crate::{Element, Error, Operator, Strategy};

/// How a matrix is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One column is a sequence of elements.
    Sequence,
    /// A narrow matrix is a sequence of rows, each one element to the kernels of scan and reduce.
    Rows,
    /// Any other matrix is cut into panels of columns.
    Panels,
}

impl Form {
    pub(super) fn of<Op: Operator<T>, T: Element>(columns: usize) -> Form {
        let row = columns.saturating_mul(size_of::<T>());
        let carry = columns.saturating_mul(size_of::<Op::Carry>());
        let vectors = || row >> row.trailing_zeros().min(4);
        match columns {
            1 => Form::Sequence,
            2.. if row <= ROW_BYTES && carry <= ROW_BYTES && vectors() <= GROUP_VECTORS => Form::Rows,
            _ => Form::Panels,
        }
    }
}

/// The plan of a call on a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnsPlan {
    pub(super) cut: Cut,
    /// Bytes of status words: zero before the launch, and zero again after it.
    pub(crate) words: usize,
    /// Bytes of scratch memory.
    pub(crate) scratch: usize,
}

/// A matrix as its kernels take it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    ScanRows(scan::Plan),
    ReduceRows(ReducePlan),
    Panels(Work, Matrix),
}

impl ColumnsPlan {
    /// The plan for a matrix of `rows` rows and the kernels of `architecture`, which take it as `form`.
    ///
    /// # Errors
    /// [`Error::ElementSize`], and [`Error::TooLong`] for more tiles than a grid has blocks.
    pub(crate) fn new<Op: Operator<T>, T: Element>(
        work: Work,
        form: Form,
        [rows, columns]: [usize; 2],
        architecture: u32,
    ) -> Result<ColumnsPlan, Error> {
        check_element::<T>(work.primitive())?;
        let sizes = [size_of::<T>(), size_of::<Op::Carry>()].map(|size| size.saturating_mul(columns));
        Ok(match (form, work) {
            (Form::Panels, _) => ColumnsPlan::in_panels::<Op, T>(work, [rows, columns])?,
            (_, Work::Scan) => scan::Plan::of_sizes(sizes, Strategy::Auto, rows, architecture)?.into(),
            (_, Work::Reduce) => ReducePlan::of_sizes(sizes, rows, architecture).into(),
        })
    }

    /// The plan with memory for up to `rows` rows: fewer may take smaller tiles, and more of them.
    ///
    /// # Errors
    /// Those of `new`.
    pub(crate) fn up_to<Op: Operator<T>, T: Element>(
        work: Work,
        form: Form,
        [rows, columns]: [usize; 2],
        architecture: u32,
    ) -> Result<ColumnsPlan, Error> {
        check_element::<T>(work.primitive())?;
        let sizes = [size_of::<T>(), size_of::<Op::Carry>()].map(|size| size.saturating_mul(columns));
        Ok(match (form, work) {
            // Fewer rows need no more words.
            (Form::Panels, _) => ColumnsPlan::in_panels::<Op, T>(work, [rows, columns])?,
            (_, Work::Scan) => scan::Plan::up_to_of_sizes(sizes, Strategy::Auto, rows, architecture)?.into(),
            (_, Work::Reduce) => ReducePlan::up_to_of_sizes(sizes, rows, architecture).into(),
        })
    }

    fn in_panels<Op: Operator<T>, T: Element>(work: Work, [rows, columns]: [usize; 2]) -> Result<ColumnsPlan, Error> {
        let sizes = [size_of::<T>(), size_of::<Op::Carry>()];
        let width = panel_width(sizes, [rows, columns]);
        let panels = columns.div_ceil(width);
        let tile = THREADS / width * run(sizes); // rows
        let tiles = rows.div_ceil(tile);
        let group = work.tiles_of_groups().div_ceil(panels.max(1));
        let groups = tiles.div_ceil(group);
        if tiles.checked_mul(panels).is_none_or(|blocks| blocks >= MOST_BLOCKS) {
            let [n, most] = [rows, (MOST_BLOCKS - 1) / panels * tile].map(|rows| rows.saturating_mul(columns));
            return Err(Error::TooLong { primitive: work.primitive(), n, most });
        }
        let status = status_bytes(size_of::<Op::Carry>());
        let words = match tiles {
            0 | 1 => 0,
            _ => BEFORE_STATUS + (groups * panels).next_multiple_of(4) * 4 + (groups + tiles) * columns * status,
        };
        let matrix = Matrix {
            rows: rows as u64,
            columns: columns as u64,
            width: width as u32,
            panels: panels as u32,
            tiles: tiles as u32,
            group: group as u32,
            groups: groups as u32,
            flags: 0,
        };
        Ok(ColumnsPlan { cut: Cut::Panels(work, matrix), words, scratch: 0 })
    }
}

/// Columns of a panel. Panels are about equally wide, and their rows are made of units as wide as those of the matrix
/// are, up to whole vectors.
fn panel_width(sizes: [usize; 2], [rows, columns]: [usize; 2]) -> usize {
    let widest = widest(sizes[0]);
    // One tile may hold few rows of a wider panel. That pays if the panels are many all the same.
    let of_one_tile = THREADS / rows.div_ceil(run(sizes)).max(1);
    let most = (of_one_tile.min(columns / MANY_PANELS) / widest * widest).max(widest);
    let even = columns.div_ceil(columns.div_ceil(most).max(1));
    let units = items_of_vectors(sizes[0]).min(1 << columns.trailing_zeros().min(4));
    even.next_multiple_of(units).min(columns).max(1)
}

impl From<scan::Plan> for ColumnsPlan {
    fn from(plan: scan::Plan) -> ColumnsPlan {
        ColumnsPlan { cut: Cut::ScanRows(plan), words: plan.words, scratch: plan.scratch }
    }
}
impl From<ReducePlan> for ColumnsPlan {
    fn from(plan: ReducePlan) -> ColumnsPlan {
        ColumnsPlan { cut: Cut::ReduceRows(plan), words: plan.words, scratch: plan.aggregates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::{Compose, Matrix as Matrices};
    use crate::{Max, Sum};

    /// The rows of a group fit a lane's registers.
    #[test]
    fn forms() {
        let of = |columns| Form::of::<Sum, u8>(columns);
        let rows: Vec<usize> = (0..=40).filter(|&columns| of(columns) == Form::Rows).collect();
        assert_eq!(rows, [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28]);
        assert_eq!((of(0), of(1)), (Form::Panels, Form::Sequence));
        assert_eq!((2..=9).filter(|&columns| Form::of::<Max, f32>(columns) == Form::Rows).count(), 6);
        assert_eq!(Form::of::<Sum, f32>(usize::MAX), Form::Panels);
    }

    fn in_panels(work: Work, rows: usize, columns: usize) -> Matrix {
        let plan = ColumnsPlan::new::<Sum, f32>(work, Form::Panels, [rows, columns], 90).unwrap();
        let Cut::Panels(_, matrix) = plan.cut else { panic!("{plan:?}") };
        matrix
    }

    /// Every item is in a tile.
    #[test]
    fn tiles_cover_the_matrix() {
        for (rows, columns) in
            [(1, 9), (1 << 22, 16), (1 << 13, 1 << 13), (1000, 33), (7, 100_000), (60, 1 << 20), (1 << 20, 31)]
        {
            let matrix = in_panels(Work::Scan, rows, columns);
            let (width, runs) = (matrix.width as usize, THREADS / matrix.width as usize);
            assert!(width <= THREADS && width * matrix.panels as usize >= columns);
            assert!(width <= widest(4) || matrix.tiles == 1, "a panel of several tiles has few columns");
            assert!((matrix.panels as usize - 1) * width < columns, "every panel has a column");
            assert!(matrix.tiles as usize * runs * run([4, 4]) >= rows);
            assert!((matrix.tiles as usize - 1) * runs * run([4, 4]) < rows, "every tile has a row");
            assert!(matrix.group * matrix.groups >= matrix.tiles);
        }
    }

    #[test]
    fn widths_of_panels() {
        let of_f32 = |shape| panel_width([4, 4], shape);
        let many_rows = [1, 7, 16, 33, 50, 96, 1000].map(|columns| of_f32([1 << 16, columns]));
        assert_eq!(many_rows, [1, 7, 16, 17, 26, 32, 32]);
        let few_rows = [1, 57, 58, 114, 115, 171, 172].map(|rows| of_f32([rows, 1 << 20]));
        assert_eq!(few_rows, [192, 192, 96, 96, 64, 64, 32]);
        assert_eq!([10_000, 0, 70_000, 100_001].map(|columns| of_f32([10, columns])), [32, 1, 64, 96]);
        assert_eq!([256, 1000, 30].map(|columns| panel_width([1, 1], [1 << 16, columns])), [96, 96, 30]);
        assert_eq!(panel_width([2, 4], [1 << 16, 1000]), 64);
    }

    /// The fewer panels, the longer their groups.
    #[test]
    fn groups_by_panels() {
        let groups = |work| [16, 33, 1000, 1 << 13].map(|columns| in_panels(work, 1 << 13, columns).group);
        assert_eq!((groups(Work::Scan), groups(Work::Reduce)), ([48, 24, 2, 1], [256, 128, 8, 1]));
    }

    /// A workspace prepared for some rows serves fewer.
    #[test]
    fn fewer_rows_need_no_more_words() {
        const RUN: usize = 5; // of elements and carries of 32 bytes
        for (columns, work) in [2, 3, 15, 16, 17, 33, 95, 96, 97, 1000, 4097]
            .into_iter()
            .zip([Work::Scan, Work::Reduce].into_iter().cycle())
        {
            let tiles = (1..4000).flat_map(|k| [k * RUN * THREADS / 2, k * RUN * THREADS / 2 + 1]);
            let plan = |rows| ColumnsPlan::new::<Compose, Matrices<u64>>(work, Form::Panels, [rows, columns], 90);
            let words = |rows| plan(rows).unwrap().words;
            let words: Vec<usize> = (0..RUN * THREADS / 2).chain(tiles).map(words).collect();
            assert!(words.is_sorted(), "{columns} columns");
        }
    }
}
