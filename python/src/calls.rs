//! The calls of `parascan::dynamic` on addresses.
//!
//! Arguments that must fit together are checked by the library; that an address has as many items as
//! its length says is the Python side's part.

use crate::arrays::{Buffer, Kept, value};
use crate::failed;
use crate::site::Site;
use parascan::Workspace;
use parascan::cuda::Current;
use parascan::dynamic::{self, Op, Value};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::time::Instant;

/// How items are cut into segments: the kind, and a number of columns or an array.
type Segments = Option<(String, Argument)>;

#[derive(Clone, Copy, FromPyObject)]
pub(crate) enum Argument {
    Array(Buffer),
    Columns(usize),
}

#[derive(Clone, Copy)]
enum Cut {
    None,
    Rows(usize),
    Columns(usize),
    Offsets(Buffer),
    Heads(Buffer),
    Keys(Buffer),
}

/// # Errors
/// `ValueError`.
fn cut(segments: Segments) -> PyResult<Cut> {
    let Some((kind, argument)) = segments else { return Ok(Cut::None) };
    Ok(match (kind.as_str(), argument) {
        ("rows", Argument::Columns(columns)) => Cut::Rows(columns),
        ("columns", Argument::Columns(columns)) => Cut::Columns(columns),
        ("offsets", Argument::Array(offsets)) => Cut::Offsets(offsets),
        ("heads", Argument::Array(flags)) => Cut::Heads(flags),
        ("keys", Argument::Array(keys)) => Cut::Keys(keys),
        _ => return Err(PyValueError::new_err(format!("no segments are cut by {kind}"))),
    })
}

/// # Errors
/// `TypeError`.
fn operator(name: &str) -> PyResult<Op> {
    let found = Op::ALL.iter().copied().find(|op| op.name() == name);
    found.ok_or_else(|| PyTypeError::new_err(format!("no operator is called {name}")))
}

/// `at!(workspace, builder)` is the builder with the workspace, if there is one.
macro_rules! at {
    ($workspace:expr, $builder:expr) => {
        match $workspace {
            Some(workspace) => $builder.workspace(workspace),
            None => $builder,
        }
    };
}

/// The operator, the segments and the initial value of a call.
fn fold(
    op: &str,
    segments: Segments,
    input: Buffer,
    initial: Option<Bound<'_, PyAny>>,
) -> PyResult<(Op, Cut, Option<Value>)> {
    let initial = initial.map(|initial| value(input.ty(), &initial)).transpose()?;
    Ok((operator(op)?, cut(segments)?, initial))
}

// SAFETY of all views: the Python side passes arrays of the library whose current stream is the
// site's, contiguous, with as many items as their shape says, and outputs that it has just made.

#[pyfunction]
#[allow(clippy::too_many_arguments)]
#[pyo3(signature = (site, op, input, output, segments, exclusive, reverse, initial))]
pub(crate) fn scan(
    py: Python<'_>,
    site: &Site,
    op: &str,
    input: Buffer,
    output: Buffer,
    segments: Segments,
    exclusive: bool,
    reverse: bool,
    initial: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (op, cut, initial) = fold(op, segments, input, initial)?;
    let scan = || {
        let scan = dynamic::scan(op);
        let scan = if exclusive { scan.exclusive() } else { scan };
        let scan = if reverse { scan.reverse() } else { scan };
        if let Some(initial) = initial { scan.init(initial) } else { scan }
    };
    site.run(py, |workspace| {
        let scan = at!(workspace, scan());
        unsafe {
            let (input, output) = (input.view(site), output.view_mut(site));
            match cut {
                Cut::None => scan.run_into(input, output),
                Cut::Rows(columns) => scan.rows(columns).run_into(input, output),
                Cut::Columns(columns) => scan.columns(columns).run_into(input, output),
                Cut::Offsets(offsets) => scan.segments(Kept::new(offsets, site)?.view(site)).run_into(input, output),
                Cut::Heads(flags) => scan.heads(flags.view(site)).run_into(input, output),
                Cut::Keys(keys) => scan.by_key(keys.view(site)).run_into(input, output),
            }
        }
    })
}

/// Seconds of the host for a scan as a Rust program calls it, with a workspace of its own. For
/// `benches/versus_torch.py`.
#[pyfunction]
pub(crate) fn seconds_of_a_scan(site: &Site, input: Buffer, output: Buffer, calls: u32) -> PyResult<f64> {
    let stream = site.stream().ok_or_else(|| PyValueError::new_err("a device's site is needed"))?;
    let _current = Current::enter(stream).map_err(failed)?;
    let mut workspace = Workspace::new(stream);
    dynamic::scan(Op::Sum).prepare(input.ty(), input.len(), &mut workspace).map_err(failed)?;
    let begin = Instant::now();
    for _ in 0..calls {
        // SAFETY: above.
        let (input, output) = unsafe { (input.view(site), output.view_mut(site)) };
        dynamic::scan(Op::Sum).workspace(&mut workspace).run_into(input, output).map_err(failed)?;
    }
    Ok(begin.elapsed().as_secs_f64() / f64::from(calls))
}

fn reduction(op: Op, initial: Option<Value>) -> dynamic::Reduce<'static> {
    let reduce = dynamic::reduce(op);
    if let Some(initial) = initial { reduce.init(initial) } else { reduce }
}

/// Of all items, by rows, by columns or by offsets.
#[pyfunction]
#[pyo3(signature = (site, op, input, output, segments, initial))]
pub(crate) fn reduce(
    py: Python<'_>,
    site: &Site,
    op: &str,
    input: Buffer,
    output: Buffer,
    segments: Segments,
    initial: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (op, cut, initial) = fold(op, segments, input, initial)?;
    site.run(py, |workspace| {
        let reduce = at!(workspace, reduction(op, initial));
        unsafe {
            let (input, output) = (input.view(site), output.view_mut(site));
            match cut {
                Cut::Rows(columns) => reduce.rows(columns).run_into(input, output),
                Cut::Columns(columns) => reduce.columns(columns).run_into(input, output),
                Cut::Offsets(offsets) => reduce.segments(Kept::new(offsets, site)?.view(site)).run_into(input, output),
                Cut::None => reduce.run_into(input, output),
                _ => unreachable!("the Python side has looked"),
            }
        }
    })
}

/// By head flags or keys. Returns the number of segments.
#[pyfunction]
#[pyo3(signature = (site, op, input, output, segments, initial))]
pub(crate) fn reduce_runs(
    py: Python<'_>,
    site: &Site,
    op: &str,
    input: Buffer,
    output: Buffer,
    segments: Segments,
    initial: Option<Bound<'_, PyAny>>,
) -> PyResult<usize> {
    let (op, cut, initial) = fold(op, segments, input, initial)?;
    site.run(py, |workspace| {
        let reduce = at!(workspace, reduction(op, initial));
        site.counted(|count| unsafe {
            let (input, output) = (input.view(site), output.view_mut(site));
            match cut {
                Cut::Keys(keys) => reduce.by_key(keys.view(site)).run_into(input, output, count),
                Cut::Heads(flags) => reduce.heads(flags.view(site)).run_into(input, output, count),
                _ => unreachable!("the Python side has looked"),
            }
        })
    })
}

// ---- sort

fn ordered(descending: bool) -> dynamic::Sort<'static> {
    if descending { dynamic::sort().descending() } else { dynamic::sort() }
}

#[pyfunction]
#[pyo3(signature = (site, keys, output, segments, descending))]
pub(crate) fn sort(
    py: Python<'_>,
    site: &Site,
    keys: Buffer,
    output: Buffer,
    segments: Segments,
    descending: bool,
) -> PyResult<()> {
    let cut = cut(segments)?;
    site.run(py, |workspace| {
        let sort = at!(workspace, ordered(descending));
        unsafe {
            let (keys, output) = (Kept::new(keys, site)?, output.view_mut(site));
            let input = keys.view(site);
            match cut {
                Cut::Rows(columns) => sort.rows(columns).run_into(input, output),
                Cut::Offsets(offsets) => sort.segments(Kept::new(offsets, site)?.view(site)).run_into(input, output),
                Cut::Heads(flags) => sort.heads(Kept::new(flags, site)?.view(site)).run_into(input, output),
                Cut::Keys(keys) => sort.by_key(Kept::new(keys, site)?.view(site)).run_into(input, output),
                Cut::None => sort.run_into(input, output),
                Cut::Columns(_) => unreachable!("the Python side has looked"),
            }
        }
    })
}

/// Sorts keys by their lowest `bits` bits, or by all, each with its payload.
#[pyfunction]
#[pyo3(signature = (site, keys, payload, output, payload_output, bits))]
pub(crate) fn sort_pairs(
    py: Python<'_>,
    site: &Site,
    keys: Buffer,
    payload: Buffer,
    output: Buffer,
    payload_output: Buffer,
    bits: Option<u32>,
) -> PyResult<()> {
    let sort = || bits.map_or(dynamic::sort(), |bits| dynamic::sort().bits(0..bits));
    site.run(py, |workspace| unsafe {
        let (keys, payload) = (Kept::new(keys, site)?, payload.view(site));
        let (output, payload_output) = (output.view_mut(site), payload_output.view_mut(site));
        at!(workspace, sort()).run_pairs_into(keys.view(site), payload, output, payload_output)
    })
}

/// Source indices, counted from the begin of each row if there are rows.
#[pyfunction]
#[pyo3(signature = (site, keys, indices, columns, descending))]
pub(crate) fn argsort(
    py: Python<'_>,
    site: &Site,
    keys: Buffer,
    indices: Buffer,
    columns: Option<usize>,
    descending: bool,
) -> PyResult<()> {
    site.run(py, |workspace| {
        let sort = at!(workspace, ordered(descending));
        unsafe {
            let (keys, indices) = (Kept::new(keys, site)?, indices.view_mut(site));
            match columns {
                None => sort.indices_into(keys.view(site), indices),
                Some(columns) => sort.rows(columns).local_indices_into(keys.view(site), indices),
            }
        }
    })
}

// ---- selections

/// Copies the items whose flag is set, or that are not zero. Returns their number.
#[pyfunction]
#[pyo3(signature = (site, items, flags, output))]
pub(crate) fn select(
    py: Python<'_>,
    site: &Site,
    items: Buffer,
    flags: Option<Buffer>,
    output: Buffer,
) -> PyResult<usize> {
    // SAFETY: above.
    let compact = || flags.map_or(dynamic::compact(), |flags| dynamic::compact().flags(unsafe { flags.view(site) }));
    site.run(py, |workspace| {
        let compact = at!(workspace, compact());
        site.counted(|count| unsafe { compact.run_into(items.view(site), output.view_mut(site), count) })
    })
}

/// Writes the indices of the items that are not zero. Returns their number.
#[pyfunction]
pub(crate) fn nonzero(py: Python<'_>, site: &Site, items: Buffer, indices: Buffer) -> PyResult<usize> {
    site.run(py, |workspace| {
        let compact = at!(workspace, dynamic::compact());
        site.counted(|count| unsafe { compact.indices_into(items.view(site), indices.view_mut(site), count) })
    })
}

/// Writes the items whose flag is set, or that are not zero, then the others. Returns the number of the
/// first.
#[pyfunction]
#[pyo3(signature = (site, items, flags, output))]
pub(crate) fn partition(
    py: Python<'_>,
    site: &Site,
    items: Buffer,
    flags: Option<Buffer>,
    output: Buffer,
) -> PyResult<usize> {
    // SAFETY: above.
    let partition =
        || flags.map_or(dynamic::partition(), |flags| dynamic::partition().flags(unsafe { flags.view(site) }));
    site.run(py, |workspace| {
        let partition = at!(workspace, partition());
        site.counted(|count| {
            unsafe { partition.run_into(items.view(site), output.view_mut(site), count) }?;
            site.synchronize() // its kernels read the count
        })
    })
}

/// Writes the first item of each run of equal items, and its index if there is memory for it. Returns the
/// number of runs.
#[pyfunction]
#[pyo3(signature = (site, items, output, starts))]
pub(crate) fn unique(
    py: Python<'_>,
    site: &Site,
    items: Buffer,
    output: Buffer,
    starts: Option<Buffer>,
) -> PyResult<usize> {
    site.run(py, |workspace| {
        let unique = at!(workspace, dynamic::unique());
        site.counted(|count| unsafe {
            let (items, output) = (items.view(site), output.view_mut(site));
            match starts {
                None => unique.run_into(items, output, count),
                Some(starts) => unique.run_with_indices_into(items, output, starts.view_mut(site), count),
            }
        })
    })
}

/// Writes the segment of each item.
#[pyfunction]
pub(crate) fn expand(py: Python<'_>, site: &Site, offsets: Buffer, segments: Buffer) -> PyResult<()> {
    site.run(py, |workspace| unsafe {
        let offsets = Kept::new(offsets, site)?;
        at!(workspace, dynamic::expand()).run_into(offsets.view(site), segments.view_mut(site))
    })
}
