//! The buffers of one element type, the check of a scan against CUB's and a plain loop, and the
//! rows.

use crate::cub::CubScan;
use crate::data::{Draw, Drawn, Known, Sample};
use crate::gpu::{Call, Gpu, Run, told};
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{CudaSlice, DevicePtr};
use parascan::{Strategy, Workspace, scan};
use rayon::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;

/// Elements beyond the longest input, for views at odd offsets.
const SPARE: usize = 32;
/// The longest results that a plain loop checks too. Without a scan of CUB's the loop checks longer
/// ones as well.
pub(crate) const LOOP: usize = 1 << 20;

/// The variant of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Case<'a> {
    pub(crate) exclusive: bool,
    pub(crate) reverse: bool,
    pub(crate) strategy: Strategy,
    /// The first element of the views of input and output.
    pub(crate) offsets: (usize, usize),
    /// The end of the operator's name in the row.
    pub(crate) suffix: &'a str,
    /// Whether CUB is timed, or only compared with.
    pub(crate) beside_cub: bool,
}

/// Whether anything failed; the failures are on stderr.
#[derive(Debug, Default)]
pub(crate) struct Verdict(Cell<bool>);

impl Verdict {
    pub(crate) fn note<T>(&self, what: &str, result: Result<T, String>) -> Option<T> {
        result.inspect_err(|e| eprintln!("FAILED {what}: {e}")).inspect_err(|_| self.0.set(true)).ok()
    }
    pub(crate) fn failed(&self) -> bool {
        self.0.get()
    }
}

pub(crate) struct Bench<'g, T> {
    pub(crate) gpu: &'g Gpu,
    pub(crate) verdict: &'g Verdict,
    pub(crate) workspace: Workspace,
    pub(crate) input: CudaSlice<T>,
    pub(crate) output: CudaSlice<T>,
    /// parascan's result, while `output` holds CUB's.
    pub(crate) kept: CudaSlice<T>,
    /// The input on the host, without its offset.
    pub(crate) host: Vec<T>,
    drawn: Option<(Draw, usize, usize)>,
    /// Microseconds of a copy by number of elements.
    copies: HashMap<usize, f64>,
}

impl<'g, T: Drawn> Bench<'g, T> {
    /// Allocates for up to `n` elements.
    pub(crate) fn new(gpu: &'g Gpu, verdict: &'g Verdict, n: usize) -> Option<Self> {
        // SAFETY: every bit pattern is a valid value, and the buffers are written before they are
        // read.
        let memory = || told("device memory", unsafe { gpu.stream.alloc::<T>(n + SPARE) });
        let buffers = memory().and_then(|input| Ok((input, memory()?, memory()?)));
        let (input, output, kept) = verdict.note(&format!("{}, n {n}", T::NAME), buffers)?;
        let workspace = Workspace::new(&gpu.stream);
        Some(Bench {
            gpu,
            verdict,
            workspace,
            input,
            output,
            kept,
            host: Vec::new(),
            drawn: None,
            copies: HashMap::new(),
        })
    }

    /// Draws `n` values and copies them to the input from `offset` on, unless the input holds them
    /// already.
    pub(crate) fn draw(&mut self, draw: Draw, n: usize, offset: usize) -> Result<(), String> {
        if self.drawn.replace((draw, n, offset)) != Some((draw, n, offset)) {
            self.host = (0..n).into_par_iter().map(|i| T::draw(draw, i, n)).collect();
            told("the input", self.gpu.stream.memcpy_htod(&self.host, &mut self.input.slice_mut(offset..offset + n)))?;
            self.gpu.synchronize()?;
        }
        Ok(())
    }

    /// Microseconds of a copy of `n` elements, timed and printed once.
    pub(crate) fn copy(&mut self, n: usize) -> Result<f64, String> {
        if let Some(us) = self.copies.get(&n) {
            return Ok(*us);
        }
        let (gpu, bytes) = (self.gpu, n * size_of::<T>());
        let (from, to): (CUdeviceptr, CUdeviceptr) =
            (self.input.device_ptr(&gpu.stream).0, self.output.device_ptr(&gpu.stream).0);
        // SAFETY: both buffers have room for `n` elements.
        let mut call = || unsafe { gpu.copy(from, to, bytes) };
        let us = gpu.medians(batches(bytes), &mut [&mut call])?[0];
        print("copy", "copy", T::NAME, n, us, 2 * bytes, 1.0);
        self.copies.insert(n, us);
        Ok(us)
    }
}

impl<T: Sample> Bench<'_, T> {
    /// Checks and times a scan by `Op` and a copy of the same length, and prints a row for each.
    pub(crate) fn row<Op: Known<T>>(&mut self, n: usize, case: Case) {
        let family = format!("{}_{}", if case.exclusive { "exclusive" } else { "inclusive" }, Op::NAME);
        let what = format!("{family}{}", case.suffix);
        let result = self.try_row::<Op>(n, case, &family, &what);
        self.verdict.note(&format!("{what} {}, n {n}", T::NAME), result);
    }

    fn try_row<Op: Known<T>>(&mut self, n: usize, case: Case, family: &str, what: &str) -> Result<(), String> {
        self.draw(Op::DRAW, n, case.offsets.0)?;
        let copy = self.copy(n)?;
        let Bench { gpu, workspace, input, output, kept, host, .. } = self;
        let (stream, bytes) = (gpu.stream.cu_stream(), n * size_of::<T>());
        let address =
            |memory: &CudaSlice<T>, at: usize| memory.device_ptr(&gpu.stream).0 + (at * size_of::<T>()) as u64;
        let (from, to) = (address(input, case.offsets.0), address(output, case.offsets.1));
        let (whole, kept_at) = (address(output, 0), address(kept, 0));

        // ---- parascan
        let mut ours = scan::<Op, T>().strategy(case.strategy);
        if case.exclusive {
            // This is `.exclusive()`, which does not compile for operators without identity.
            ours = ours.exclusive_from(Op::IDENTITY.map(Op::lower).ok_or("no identity")?);
        }
        if case.reverse {
            ours = ours.reverse();
        }
        told("prepare", ours.prepare(n, workspace))?;
        let view = input.slice(case.offsets.0..case.offsets.0 + n);
        let mut view_mut = output.slice_mut(case.offsets.1..case.offsets.1 + n);
        let mut parascan = || told("scan", ours.workspace(workspace).run_into(&view, &mut view_mut));

        // ---- CUB: f16 with a carry in f32, and in f16
        let mut rivals: Vec<(String, Box<Run>)> = Vec::new();
        let mut temporaries: Vec<CudaSlice<u8>> = Vec::new();
        for way in ["", "_in_f16"] {
            let Some(cub) = CubScan::find(&format!("{family}{way}"), T::NAME).filter(|_| !case.reverse) else {
                continue;
            };
            let length = u32::try_from(n).map_err(|_| "more elements than 32 bits count")?;
            let needed = cub.temporary_bytes(length, stream)?;
            // SAFETY: CUB writes it before it reads it.
            let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
            let temporary = (memory.device_ptr(&gpu.stream).0, needed);
            temporaries.push(memory);
            // SAFETY: both ranges are `n` elements inside their buffers; the temporary memory lives
            // to the end of this function, which waits for the stream.
            let call = move || unsafe { cub.launch(temporary, from, to, length, stream) };
            rivals.push((format!("{what}{way}"), Box::new(call)));
        }

        // ---- the check: poison, ours to `kept`, poison, theirs
        // SAFETY (of all in this block): each address is of a buffer of at least as many bytes.
        unsafe {
            let all = (n + case.offsets.1) * size_of::<T>();
            gpu.fill(whole, 0xa5, all)?;
            parascan()?;
            gpu.copy(to, kept_at, bytes)?;
            for (name, rival) in &mut rivals {
                gpu.fill(whole, 0x5a, all)?;
                rival()?;
                // CUB's sum in f16 rounds its partial sums: it is timed and not compared.
                if !name.ends_with("_in_f16") {
                    same(gpu.differ(kept_at, to, bytes)?, size_of::<T>(), &format!("CUB's {name}"))?;
                }
            }
            if n <= LOOP || rivals.is_empty() {
                let expected = plain::<Op, T>(host, case);
                let expected = told("the expected values", gpu.stream.clone_htod(&expected))?;
                same(gpu.differ(kept_at, address(&expected, 0), bytes)?, size_of::<T>(), "a plain loop")?;
            }
        }

        // ---- timing
        if !case.beside_cub {
            rivals.clear();
        }
        let mut names = vec![("parascan", what.to_owned())];
        let mut calls: Vec<Call> = vec![&mut parascan];
        for (name, rival) in &mut rivals {
            names.push(("cub", name.clone()));
            calls.push(rival);
        }
        let times = gpu.medians(batches(bytes), &mut calls)?;
        drop(calls);
        // SAFETY: as above.
        unsafe {
            gpu.fill(to, 0xa5, bytes)?;
            parascan()?;
            same(gpu.differ(kept_at, to, bytes)?, size_of::<T>(), "the first call")?;
        }
        for ((library, what), us) in names.iter().zip(times) {
            print(library, what, T::NAME, n, us, 2 * bytes, copy / us);
        }
        drop(temporaries);
        Ok(())
    }

    /// Prints the host's time of one call: of `run_into` with a prepared workspace, of CUB's
    /// function, and of the launch of an empty kernel (as `copy`).
    pub(crate) fn host_cost<Op: Known<T>>(&mut self, n: usize) {
        let result = self.try_host_cost::<Op>(n);
        self.verdict.note(&format!("host_cost {}, n {n}", T::NAME), result);
    }

    fn try_host_cost<Op: Known<T>>(&mut self, n: usize) -> Result<(), String> {
        self.draw(Op::DRAW, n, 0)?;
        let Bench { gpu, workspace, input, output, .. } = self;
        let ours = scan::<Op, T>();
        told("prepare", ours.prepare(n, workspace))?;
        let (from, to) = (input.device_ptr(&gpu.stream).0, output.device_ptr(&gpu.stream).0);
        let (view, mut view_mut) = (input.slice(..n), output.slice_mut(..n));
        let mut empty = || gpu.launch_empty();
        let mut parascan = || told("scan", ours.workspace(workspace).run_into(&view, &mut view_mut));
        let mut names = vec!["copy", "parascan"];
        let mut calls: Vec<Call> = vec![&mut empty, &mut parascan];

        let (length, stream) = (n as u32, gpu.stream.cu_stream());
        let cub = CubScan::find(&format!("inclusive_{}", Op::NAME), T::NAME);
        let needed = cub.map_or(Ok(0), |cub| cub.temporary_bytes(length, stream))?;
        // SAFETY: CUB writes it before it reads it.
        let memory = told("CUB's memory", unsafe { gpu.stream.alloc::<u8>(needed.max(1)) })?;
        let temporary = (memory.device_ptr(&gpu.stream).0, needed);
        // SAFETY: both buffers hold `n` elements; the temporary memory outlives the last call.
        let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, from, to, length, stream) });
        if let Some(theirs) = &mut theirs {
            names.push("cub");
            calls.push(theirs);
        }
        for (library, us) in names.iter().zip(gpu.host_medians(&mut calls)?) {
            println!("{library},host_cost,{},{n},{us:.3},,", T::NAME);
        }
        Ok(())
    }
}

/// Batches of timed calls: more if a call is short.
pub(crate) fn batches(bytes: usize) -> usize {
    if bytes >= 1 << 27 { 1 } else { 4 }
}

/// Prints the row of an operation that takes `us` and must move `moved` bytes.
pub(crate) fn print(library: &str, what: &str, of: &str, n: usize, us: f64, moved: usize, of_copy: f64) {
    println!("{library},{what},{of},{n},{us:.2},{:.1},{of_copy:.3}", moved as f64 / us / 1e3);
}

pub(crate) fn same((wrong, first): (u64, u64), size: usize, other: &str) -> Result<(), String> {
    match wrong {
        0 => Ok(()),
        _ => Err(format!("differs from {other} in {wrong} bytes, first in item {}", first / size as u64)),
    }
}

/// The scan by a plain loop.
fn plain<Op: Known<T>, T: Sample>(input: &[T], case: Case) -> Vec<T> {
    let mut output = input.to_vec();
    let mut upto = if case.exclusive { Op::IDENTITY } else { None };
    for k in 0..input.len() {
        let i = if case.reverse { input.len() - 1 - k } else { k };
        let item = Op::lift(input[i]);
        let next = upto.map_or(item, |upto| Op::combine(upto, item));
        output[i] = Op::lower(if case.exclusive { upto.expect("a first value") } else { next });
        upto = Some(next);
    }
    output
}
