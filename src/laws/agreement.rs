//! Agreement of an operator's Rust bodies with its CUDA bodies: both run on the same operands, and
//! the host compares the results.

use super::device::Device;
use super::measure::{Again, Measure, same_bits};
use super::search::{Operand, config, fold, hex, operand_lines, results, shown};
use super::values::Bytes;
use super::{Laws, Violation};
use crate::cuda::kernels::p;
use crate::{Element, Error, Operator, cuda};
use bytemuck::{bytes_of, pod_read_unaligned, zeroed_vec};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use proptest::collection::vec;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rayon::prelude::*;
use std::any::type_name;
use std::ffi::c_void;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Partial results drawn for each side of `combine`.
const DRAWN: usize = 512;
/// Pairs, or elements, on the device at once for each host thread.
const CHUNK: usize = 1 << 22;

/// Compares the bodies on random operands.
pub(super) fn random<Op: Operator<T>, T: Element + Debug>(laws: &Laws<Op, T>) -> Result<(), Violation> {
    let (bodies, measure) = (Bodies::<Op, T>::new()?, &laws.measure);
    let stream = bodies.stream()?;
    let alone = |operand: &[Bytes]| {
        let mut elements: Vec<T> = zeroed_vec(operand.len());
        for (element, bytes) in elements.iter_mut().zip(operand) {
            *element = pod_read_unaligned(bytes);
        }
        let (lifted, lowered) = bodies.lift_and_lower(&stream, &elements)?;
        Ok(first(elements.len(), &|i| differs_alone::<Op, T>(measure, elements[i], lifted[i], lowered[i])))
    };
    let pairs = |earlier: &[Operand], later: &[Operand]| {
        let (rows, columns) = (carries::<Op, T>(earlier), carries::<Op, T>(later));
        let (combined, lowered) = bodies.combine_all(&stream, &rows, &columns)?;
        Ok(first(combined.len(), &|i| {
            let (a, b) = (rows[i / columns.len()], columns[i % columns.len()]);
            differs::<Op, T>(measure, a, b, combined[i], lowered[i])
        }))
    };
    match counterexample(&laws.values, shown::<T>, &alone, &pairs) {
        Ok(None) => Ok(()),
        Ok(Some(counterexample)) => Err(disagreement::<Op, T>(counterexample)),
        Err(Trouble::NoValues(reason)) => Err(laws.no_values(&reason)),
        Err(Trouble::Engine(e)) => Err(e.into()),
    }
}

fn carries<Op: Operator<T>, T: Element>(operands: &[Operand]) -> Vec<Op::Carry> {
    let mut carries = zeroed_vec(operands.len());
    for (carry, operand) in carries.iter_mut().zip(operands) {
        *carry = fold::<Op, T>(operand);
    }
    carries
}

/// The reason why a check has no result.
pub(super) enum Trouble {
    NoValues(String),
    Engine(Error),
}

impl From<Error> for Trouble {
    fn from(e: Error) -> Trouble {
        Trouble::Engine(e)
    }
}

/// The first index below `n` for which `wrong` returns a message, and that message.
fn first(n: usize, wrong: &(dyn Fn(usize) -> Option<String> + Sync)) -> Option<(usize, String)> {
    (0..n).into_par_iter().find_map_first(|i| Some((i, wrong(i)?)))
}

type Found = Result<Option<(usize, String)>, Error>;

/// The smallest counterexample found. `alone` judges the elements of an operand. `pairs` judges
/// each earlier operand with each later operand, row by row.
fn counterexample(
    values: &BoxedStrategy<Bytes>,
    shown: fn(&[u8]) -> String,
    alone: &dyn Fn(&[Bytes]) -> Found,
    pairs: &dyn Fn(&[Operand], &[Operand]) -> Found,
) -> Result<Option<String>, Trouble> {
    let mut runner = TestRunner::new(config());
    let operands = vec(values.clone(), 1..=3);
    let mut draw = || {
        let trees = (0..DRAWN).map(|_| operands.new_tree(&mut runner));
        trees.collect::<Result<Vec<_>, _>>().map_err(|reason| Trouble::NoValues(reason.message().to_owned()))
    };
    let (mut earlier, mut later) = (draw()?, draw()?);

    // ---- lift and lower
    let judge = |elements: &Operand| Ok(alone(elements)?.map(|(_, words)| words));
    let all: Vec<Bytes> = earlier.iter().chain(&later).flat_map(ValueTree::current).collect();
    if judge(&all)?.is_some() {
        for tree in earlier.iter_mut().chain(&mut later) {
            if let Some((_, counterexample)) = shrink(tree, judge)? {
                return Ok(Some(counterexample));
            }
        }
    }

    // ---- combine
    let current = |trees: &[_]| trees.iter().map(ValueTree::current).collect::<Vec<Operand>>();
    let Some((i, _)) = pairs(&current(&earlier), &current(&later))? else { return Ok(None) };
    let (earlier, later) = (&mut earlier[i / DRAWN], &mut later[i % DRAWN]);
    let bad = |a: &Operand, b: &Operand| {
        let found = pairs(std::slice::from_ref(a), std::slice::from_ref(b))?;
        Ok(found.map(|(_, words)| words))
    };
    let b = later.current();
    let a = shrink(earlier, |a| bad(a, &b))?.map_or_else(|| earlier.current(), |(a, _)| a);
    let smallest = shrink(later, |b| bad(&a, b))?;
    let (b, lines) = smallest.unwrap_or_else(|| (b, "    and no difference when tried again".to_owned()));
    Ok(Some(operand_lines(&[("a", &a), ("b", &b)], shown) + &lines))
}

/// Compares the bodies on every bit pattern, and on every pair of patterns of a small element.
pub(super) fn exhaustive<Op: Operator<T>, T: Element + Debug>(laws: &Laws<Op, T>) -> Result<(), Violation> {
    let (device, measure) = (Bodies::<Op, T>::new()?, &laws.measure);
    let patterns = 1usize << (8 * size_of::<T>());
    let pattern = |i: usize| pod_read_unaligned::<T>(&i.to_le_bytes()[..size_of::<T>()]);

    // ---- lift and lower
    for_chunks(patterns, CHUNK, &|chunk| {
        let elements: Vec<T> = chunk.map(pattern).collect();
        let (lifted, lowered) = device.lift_and_lower(&device.stream()?, &elements)?;
        let found =
            (0..elements.len()).find_map(|i| differs_alone::<Op, T>(measure, elements[i], lifted[i], lowered[i]));
        found.map_or(Ok(()), |counterexample| Err(disagreement::<Op, T>(counterexample)))
    })?;
    if size_of::<T>() > 2 {
        return Ok(());
    }

    // ---- combine
    let carries: Vec<Op::Carry> = (0..patterns).map(|i| Op::lift(pattern(i))).collect();
    for_chunks(patterns, (CHUNK / patterns).max(1), &|rows| {
        let (combined, lowered) = device.combine_all(&device.stream()?, &carries[rows.clone()], &carries)?;
        for (i, row) in rows.enumerate() {
            let a = carries[row];
            for (column, &b) in carries.iter().enumerate() {
                let i = i * patterns + column;
                if let Some(lines) = differs::<Op, T>(measure, a, b, combined[i], lowered[i]) {
                    let [a, b] = [row, column].map(|i| vec![bytes_of(&pattern(i)).to_vec()]);
                    return Err(disagreement::<Op, T>(operand_lines(&[("a", &a), ("b", &b)], shown::<T>) + &lines));
                }
            }
        }
        Ok(())
    })
}

/// Calls `work` on chunks of `0..n` of this length, on all threads.
fn for_chunks(
    n: usize,
    length: usize,
    work: &(dyn Fn(Range<usize>) -> Result<(), Violation> + Sync),
) -> Result<(), Violation> {
    (0..n.div_ceil(length)).into_par_iter().try_for_each(|chunk| {
        let first = chunk * length;
        work(first..(first + length).min(n))
    })
}

// ---- comparing ----------------------------------------------------------------------------------

/// The lines of a difference between Rust and the device on one element.
fn differs_alone<Op: Operator<T>, T: Element + Debug>(
    measure: &Measure<Op::Carry>,
    x: T,
    lifted: Op::Carry,
    lowered: T,
) -> Option<String> {
    let carry = Op::lift(x);
    let name = |what: &str| format!("    a = {x:?}\n{what}");
    if !measure.same(carry, lifted, &[], &[&|through| through(carry)]) {
        return Some(name(&results::<Op, T>(["lift(a) in Rust", "lift(a) in CUDA"], carry, lifted)));
    }
    lowers_differently::<Op, T>(measure, carry, lowered, &|through| through(carry)).map(|lines| name(&lines))
}

/// The lines of a difference between Rust and the device on a pair.
fn differs<Op: Operator<T>, T: Element + Debug>(
    measure: &Measure<Op::Carry>,
    a: Op::Carry,
    b: Op::Carry,
    combined: Op::Carry,
    lowered: T,
) -> Option<String> {
    let carry = Op::combine(a, b);
    let again = |through: &dyn Fn(Op::Carry) -> Op::Carry| Op::combine(through(a), through(b));
    let found = if measure.same(carry, combined, &[a, b], &[&again]) {
        lowers_differently::<Op, T>(measure, carry, lowered, &again)
    } else {
        Some(results::<Op, T>(["a b in Rust", "a b in CUDA"], carry, combined))
    };
    found.filter(|_| !measure.passes_over_finite_operands(&[a, b]))
}

/// The lines of a difference between the lowered results. The measure compares carries, so elements
/// are lifted again; for an exact operator the bits are compared. `again` recomputes the carry.
fn lowers_differently<Op: Operator<T>, T: Element + Debug>(
    measure: &Measure<Op::Carry>,
    carry: Op::Carry,
    lowered: T,
    again: Again<Op::Carry>,
) -> Option<String> {
    let expected = Op::lower(carry);
    if same_bits(&expected, &lowered)
        || (!measure.exact
            && measure.same(
                Op::lift(expected),
                Op::lift(lowered),
                &[carry],
                &[&|through| Op::lift(Op::lower(through(again(through))))],
            ))
    {
        return None;
    }
    Some(format!(
        "    lowered in Rust = {expected:?} ({})\n    lowered in CUDA = {lowered:?} ({})",
        hex(bytes_of(&expected)),
        hex(bytes_of(&lowered))
    ))
}

fn disagreement<Op: Operator<T>, T: Element>(counterexample: String) -> Violation {
    Violation::Agreement { operator: type_name::<Op>(), element: type_name::<T>(), counterexample }
}

/// The smallest bad value of the tree and its message, if the tree's current value is bad.
pub(super) fn shrink<V: ValueTree>(
    tree: &mut V,
    bad: impl Fn(&V::Value) -> Result<Option<String>, Error>,
) -> Result<Option<(V::Value, String)>, Error> {
    let judge = |value: V::Value| Ok(bad(&value)?.map(|words| (value, words)));
    let Some(mut worst) = judge(tree.current())? else { return Ok(None) };
    let mut more = tree.simplify();
    while more {
        more = match judge(tree.current())? {
            Some(smaller) => {
                worst = smaller;
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    Ok(Some(worst))
}

// ---- the device ---------------------------------------------------------------------------------

/// The loaded CUDA bodies.
struct Bodies<Op, T> {
    device: Device,
    bodies: PhantomData<fn(Op, T)>,
}

/// The kernels of `laws/operator.cuh`.
const KERNELS: [&str; 2] = ["lift_and_lower", "combine_all"];
const LIFT_AND_LOWER: usize = 0;
const COMBINE_ALL: usize = 1;

impl<Op: Operator<T>, T: Element> Bodies<Op, T> {
    fn new() -> Result<Self, Error> {
        let name = format!("laws of {} on {}", type_name::<Op>(), type_name::<T>());
        let device = Device::new(&name, &cuda::unit_of::<Op, T>().source("laws/operator.cuh"), &KERNELS)?;
        Ok(Bodies { device, bodies: PhantomData })
    }

    fn stream(&self) -> Result<Arc<CudaStream>, Error> {
        self.device.stream()
    }

    /// The carry of each element, and that carry lowered again.
    fn lift_and_lower(&self, stream: &Arc<CudaStream>, elements: &[T]) -> Result<(Vec<Op::Carry>, Vec<T>), Error> {
        let elements_there = self.device.upload(stream, elements)?;
        let (x, _reading) = elements_there.device_ptr(stream);
        let n = elements.len() as u64;
        // SAFETY: `x` is n elements.
        unsafe { self.run(stream, LIFT_AND_LOWER, n, &[p(&x), p(&n)]) }
    }

    /// Each earlier carry combined with each later carry, row by row, and the results lowered.
    fn combine_all(
        &self,
        stream: &Arc<CudaStream>,
        earlier: &[Op::Carry],
        later: &[Op::Carry],
    ) -> Result<(Vec<Op::Carry>, Vec<T>), Error> {
        let upload = |carries: &[Op::Carry]| {
            let mut seen = carries.to_vec();
            for carry in &mut seen {
                *carry = Op::to_cuda(*carry);
            }
            self.device.upload(stream, &seen)
        };
        let (earlier_there, later_there) = (upload(earlier)?, upload(later)?);
        let ((a, _reading_a), (b, _reading_b)) = (earlier_there.device_ptr(stream), later_there.device_ptr(stream));
        let (columns, n) = (later.len() as u64, (earlier.len() * later.len()) as u64);
        // SAFETY: `a` is a carry for each row, `b` one for each column, and n is rows times
        // columns.
        unsafe { self.run(stream, COMBINE_ALL, n, &[p(&a), p(&b), p(&columns), p(&n)]) }
    }

    /// Runs a kernel of n threads and waits for its last two arguments, the outputs: n carries and
    /// n elements.
    ///
    /// # Safety
    /// - `inputs` are the kernel's other arguments, valid on the stream.
    /// - n is not zero.
    unsafe fn run(
        &self,
        stream: &Arc<CudaStream>,
        kernel: usize,
        n: u64,
        inputs: &[*const c_void],
    ) -> Result<(Vec<Op::Carry>, Vec<T>), Error> {
        let device = &self.device;
        let mut carries_there = device.allocate::<Op::Carry>(stream, n as usize)?;
        let mut elements_there = device.allocate::<T>(stream, n as usize)?;
        {
            let (carries, _writing_carries) = carries_there.device_ptr_mut(stream);
            let (elements, _writing_elements) = elements_there.device_ptr_mut(stream);
            let arguments = [inputs, &[p(&carries), p(&elements)]].concat();
            // SAFETY: the outputs are n carries and n elements; the caller promises the rest.
            unsafe { device.launch(stream, kernel, n, &arguments)? };
        }
        let mut carries: Vec<Op::Carry> = device.download(stream, &carries_there)?;
        for carry in &mut carries {
            *carry = Op::from_cuda(*carry);
        }
        Ok((carries, device.download(stream, &elements_there)?))
    }
}
