//! The arguments of a sort, and its launches: which kernels each way takes, in order, with which grids.

use super::contract;
use super::contract::{
    BINS, BUCKET_COUNT_THREADS, BucketCall, COUNT_THREADS, FILL_ITEMS, FILL_THREADS, SAMPLE_THREADS, SINGLE_BITS,
    SINGLE_DIGITS, SortCall,
};
use super::plan::{FixedSample, HostPlan, Layout, MOST_LOWER, Way, bucket_counters, probe_limits, sampled};
use super::unit::Kernel::{self, *};
use super::unit::KeyKind;
use crate::Error;
use crate::cuda::driver::check;
use crate::cuda::kernels::{Kernels, p};
use cudarc::driver::sys::{self, CUdeviceptr, CUstream};
use std::cell::Cell;
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The fewest keys for which another block of `sort_count` or `bucket_count` is worth its start.
const COUNT_KEYS: usize = 4096;
const BUCKET_COUNT_KEYS: usize = 1 << 15;
/// Keys of a block of `sort_fill`.
const FILL_KEYS: usize = (FILL_THREADS * FILL_ITEMS) as usize;

/// The seed of the positions that samples read. Each process draws its own, so that no input can be made for them.
pub fn sample_seed() -> u32 {
    static SEED: LazyLock<u32> = LazyLock::new(|| RandomState::new().hash_one(0) as u32);
    *SEED
}

/// The arguments of a sort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortArguments {
    pub(crate) descending: bool,
    /// The keys; in place, those of the output.
    pub(crate) keys_in: CUdeviceptr,
    /// The output of sorted keys, and the second array of keys; `None` if the caller has none.
    pub(crate) keys: [Option<CUdeviceptr>; 2],
    /// The payload; null if the payload is the source indices.
    pub(crate) values_in: CUdeviceptr,
    /// The output of the payload; null for keys-only.
    pub(crate) values: CUdeviceptr,
    /// `HostPlan::scratch` bytes, aligned to 256.
    pub(crate) scratch: CUdeviceptr,
    /// The number of keys, if it lies in memory; the plan's is then the most. Only for a counted program.
    pub(crate) length: Option<CUdeviceptr>,
}

impl HostPlan {
    /// The kernels that `SortArguments::launch` launches.
    pub(crate) fn kernels(&self) -> Vec<Kernel> {
        match self.way {
            Way::OneBlock { by_bins } => vec![if by_bins { FixedSort } else { Small }],
            Way::Counts if self.program.unit.key == 1 => vec![Count, Fill],
            Way::Counts => vec![BucketCount, BucketPlan, Fill],
            Way::Passes => vec![Passes],
            Way::Fixed { is_large, .. } => vec![FixedFirst, fixed_sort(is_large), Passes],
            Way::Buckets { is_large, tries_single, .. } => {
                let mut all = vec![Map, BucketCount, BucketPlan, First, Second, bucket_sort(is_large), Passes];
                if tries_single {
                    all.extend([FixedFirst, BucketSortLarge]);
                }
                all
            }
        }
    }

    /// The numbers of these kernels in the unit.
    pub(crate) fn kernels_to_load(&self) -> Vec<usize> {
        self.kernels().into_iter().map(|kernel| self.number(kernel)).collect()
    }

    fn number(&self, kernel: Kernel) -> usize {
        self.program.unit.kernels().iter().position(|&one| one == kernel).expect("the unit has it")
    }
}

fn fixed_sort(is_large: bool) -> Kernel {
    if is_large { BucketSortLarge } else { FixedSort }
}

fn bucket_sort(is_large: bool) -> Kernel {
    if is_large { BucketSortLarge } else { BucketSort }
}

impl SortArguments {
    /// Launches the sort. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are those of the plan's program, for this device.
    /// - All arrays hold the plan's number of items in the device's memory and are valid until the
    ///   stream is past the sort. In place, the outputs are the inputs; otherwise all arrays and
    ///   the scratch memory are disjoint. Meanwhile other work only reads the inputs.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        plan: &HostPlan,
        kernels: &Kernels,
        device: usize,
        stream: CUstream,
    ) -> Result<(), Error> {
        let &HostPlan { n, ref bits, in_place, way, .. } = plan;
        let unit = &plan.program.unit;
        let sign = if unit.kind == KeyKind::Signed { 1 << (8 * unit.key - 1) } else { 0 };
        let at = plan.layout(self.keys.map(|keys| keys.is_none()));
        let place = |offset: usize| self.scratch + offset as u64;
        let array = |k: usize| self.keys[k].or(at.keys[k].map(place)).unwrap_or(0);
        let call = SortCall {
            n: n as u64,
            keys_in: self.keys_in,
            keys: [array(0), array(1)],
            values_in: self.values_in,
            values: [self.values, at.values.map_or(0, place)],
            plan: place(at.plan),
            distinct: at.distinct.map_or(0, place),
            words: at.words.map(place),
            flip: if self.descending { !sign } else { sign },
            begin: bits.start,
            end: bits.end,
            passes: plan.passes as u32,
            in_place: u32::from(in_place),
            buckets: match way {
                Way::Passes | Way::Counts | Way::OneBlock { .. } => contract::NO_BUCKETS,
                Way::Fixed { .. } => contract::FIXED_BUCKETS,
                Way::Buckets { .. } => contract::COUNTED_BUCKETS,
            },
            no_keys: u32::from(self.keys[0].is_none()),
            parts: (2 * plan.multiprocessors).min(n.div_ceil(COUNT_KEYS)) as u32,
            tiles: plan.tiles as u32,
        };
        if !matches!(way, Way::OneBlock { .. }) {
            // SAFETY: the offset lies within the scratch memory.
            let cleared = unsafe { sys::cuMemsetD8Async(self.scratch, 0, at.zero, stream) };
            check("cuMemsetD8Async", device, cleared)?;
        }
        let SortArguments { scratch, length, .. } = *self;
        Launches { plan, at, call, scratch, length, kernels, stream, is_first: Cell::new(true) }.all()
    }
}

/// What the launches of one sort share. Only `SortArguments::launch` makes it, and its caller vouches for all that the
/// kernels use.
struct Launches<'a> {
    plan: &'a HostPlan,
    at: Layout,
    call: SortCall,
    scratch: CUdeviceptr,
    length: Option<CUdeviceptr>,
    kernels: &'a Kernels,
    stream: CUstream,
    is_first: Cell<bool>,
}

impl Launches<'_> {
    /// Launches the kernels of the plan. Does not wait.
    fn all(self) -> Result<(), Error> {
        match self.plan.way {
            Way::OneBlock { by_bins } => return self.one_block(by_bins),
            Way::Counts => return self.counts(),
            Way::Passes => {}
            Way::Fixed { bits, is_large, sample } => self.fixed(bits, is_large, sample)?,
            Way::Buckets { lower, most, is_large, tries_single } => {
                if tries_single {
                    self.single_step()?;
                }
                self.buckets(lower, most, is_large)?;
            }
        }
        self.passes()
    }

    fn place(&self, offset: usize) -> CUdeviceptr {
        self.scratch + offset as u64
    }

    /// Launches a kernel with the call, `more` arguments, at most two, and the address of the length.
    fn launch(
        &self,
        kernel: Kernel,
        blocks: usize,
        threads: usize,
        shared: usize,
        more: &[*const c_void],
    ) -> Result<(), Error> {
        debug_assert!(self.plan.kernels().contains(&kernel), "{kernel:?} is not loaded");
        let (index, blocks, threads) = (self.plan.number(kernel), blocks as u32, threads as u32);
        let mut all = [p(&self.call); 4];
        all[1..=more.len()].copy_from_slice(more);
        let mut count = 1 + more.len();
        if let Some(length) = &self.length {
            all[count] = p(length);
            count += 1;
        }
        let arguments = &all[..count];
        // SAFETY: the arguments are the kernel's in sort/kernels.cuh; the caller of
        // `SortArguments::launch` vouches for the rest.
        unsafe {
            if self.is_first.take() {
                self.kernels.launch_with_shared(index, blocks, threads, shared, self.stream, arguments)
            } else {
                self.kernels.launch_dependent(index, blocks, threads, shared, self.stream, arguments)
            }
        }
    }

    fn one_block(&self, by_bins: bool) -> Result<(), Error> {
        let shape = &self.plan.shape;
        let (kernel, block) = if by_bins { (FixedSort, shape.bucket) } else { (Small, shape.small) };
        let buckets = self.bucket_call();
        let more = [p(&buckets)];
        let more: &[*const c_void] = if by_bins { &more } else { &[] };
        self.launch(kernel, 1, block.threads, kernel.shared(shape), more)
    }

    /// The arguments of which only some depend on the way.
    fn bucket_call(&self) -> BucketCall {
        let at = &self.at;
        BucketCall {
            map: self.place(at.map),
            counts: self.place(at.counts),
            coarse_counts: self.place(at.coarse_counts),
            starts: self.place(at.starts),
            cursors: self.place(at.cursors),
            coarse_cursors: self.place(at.coarse_cursors),
            begins: self.place(at.begins),
            sample: self.place(at.sample),
            sampled: sampled(self.plan.n) as u32,
            lower_bits: MOST_LOWER,
            most_lower_bits: MOST_LOWER,
            room: self.plan.shape.bucket.tile() as u32,
            seed: sample_seed(),
            at_once: 0,
            keys: self.place(at.fixed[0]),
            values: self.place(at.fixed[1]),
            bits: 0,
            digit_bits: 0,
            most: 0,
            beyond: 0,
            interval_parts: 0,
            heavy_room: 0,
        }
    }

    fn count_buckets(&self, buckets: &BucketCall) -> Result<(), Error> {
        let blocks = self.plan.multiprocessors.min(self.plan.n.div_ceil(BUCKET_COUNT_KEYS));
        let shared = bucket_counters(buckets.most_lower_bits);
        self.launch(BucketCount, blocks, BUCKET_COUNT_THREADS as usize, shared, &[p(buckets)])?;
        self.launch(BucketPlan, BINS, BINS, 0, &[p(buckets)])
    }

    fn counts(&self) -> Result<(), Error> {
        let (blocks, threads) = (self.plan.n.div_ceil(FILL_KEYS), FILL_THREADS as usize);
        if self.plan.program.sizes().0 == 1 {
            let counting = (4 * self.plan.multiprocessors).min(self.plan.n.div_ceil(COUNT_KEYS));
            self.launch(Count, counting, COUNT_THREADS as usize, 0, &[])?;
            return self.launch(Fill, blocks, threads, 0, &[]);
        }
        let buckets = self.bucket_call();
        self.count_buckets(&buckets)?;
        self.launch(Fill, blocks, threads, 0, &[p(&buckets)])
    }

    fn fixed(&self, bits: u32, is_large: bool, sample: FixedSample) -> Result<(), Error> {
        let (n, shape) = (self.plan.n, &self.plan.shape);
        let block = shape.in_buckets(is_large);
        let (most, beyond) = probe_limits(n, block.tile(), 1 << bits);
        let fixed = BucketCall {
            room: block.tile() as u32,
            bits,
            digit_bits: sample.digit_bits,
            most: most as u32,
            beyond: beyond as u32,
            interval_parts: sample.parts as u32,
            heavy_room: sample.heavy_room as u32,
            ..self.bucket_call()
        };
        let (tiles, kernel) = (n.div_ceil(shape.fixed.tile()), fixed_sort(is_large));
        self.launch(FixedFirst, tiles, shape.fixed.threads, shape.fixed_shared(), &[p(&fixed)])?;
        self.launch(kernel, 1 << sample.digit_bits, block.threads, kernel.shared(shape), &[p(&fixed)])
    }

    /// Sorts the keys if bits or range spread them. Otherwise they are left to counted buckets.
    fn single_step(&self) -> Result<(), Error> {
        let (n, shape) = (self.plan.n, &self.plan.shape);
        let block = shape.large;
        let (most, beyond) = probe_limits(n, block.tile() * SINGLE_DIGITS / BINS, BINS);
        let single = BucketCall {
            room: block.tile() as u32,
            bits: SINGLE_BITS,
            digit_bits: SINGLE_BITS,
            most: most as u32,
            beyond: beyond as u32,
            ..self.bucket_call()
        };
        let (tiles, sort, more) = (n.div_ceil(shape.step.tile()), BucketSortLarge, [p(&single)]);
        self.launch(FixedFirst, tiles, shape.step.threads, shape.single_shared(), &more)?;
        self.launch(sort, SINGLE_DIGITS, block.threads, sort.shared(shape), &more)
    }

    fn buckets(&self, lower: u32, most: u32, is_large: bool) -> Result<(), Error> {
        let &HostPlan { n, ref shape, multiprocessors, .. } = self.plan;
        let block = shape.in_buckets(is_large);
        let buckets = BucketCall {
            lower_bits: lower,
            most_lower_bits: most,
            room: block.tile() as u32,
            at_once: (block.blocks * multiprocessors) as u32,
            ..self.bucket_call()
        };
        let more = [p(&buckets)];
        let threads = SAMPLE_THREADS as usize;
        // A block for each part of the sample and of the map.
        let blocks = (buckets.sampled as usize / (2 * threads)).clamp(1, multiprocessors);
        self.launch(Map, blocks, threads, 0, &more)?;
        self.count_buckets(&buckets)?;
        // Keys-only have no order to keep, so each tile has a block. With a payload blocks draw
        // tiles.
        let (is_alone, at_once) = (self.plan.program.sizes().1 == 0, 2 * multiprocessors);
        let tiles = |more: usize| if is_alone { n.div_ceil(shape.step.tile()) + more } else { at_once };
        self.launch(First, tiles(0), shape.step.threads, First.shared(shape), &more)?;
        self.launch(Second, tiles(BINS), shape.step.threads, Second.shared(shape), &more)?;
        // Large buckets take persistent blocks, one for each multiprocessor.
        let (kernel, all) = (bucket_sort(is_large), BINS << lower);
        let blocks = if is_large { multiprocessors.min(all) } else { all };
        self.launch(kernel, blocks, block.threads, kernel.shared(shape), &more)
    }

    /// The passes sort the keys that buckets left, and return at once if there are none.
    fn passes(&self) -> Result<(), Error> {
        let &HostPlan { tiles, ref shape, multiprocessors, .. } = self.plan;
        let blocks = tiles.max(self.call.parts as usize).min(2 * multiprocessors);
        self.launch(Passes, blocks, shape.pass.threads, Passes.shared(shape), &[])
    }
}
