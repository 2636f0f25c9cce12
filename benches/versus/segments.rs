//! Offsets against CUB's scan, pack against CUB's batched copy, and expand.

use crate::bench::{Verdict, batches, print, same};
use crate::cub::{CubPack, CubScan};
use crate::gpu::{Call, Gpu, Run, told};
use parascan::cudarc::driver::sys::CUdeviceptr;
use parascan::cudarc::driver::{CudaSlice, DevicePtr, DeviceRepr};
use parascan::{Workspace, expand, offsets, pack};
use rayon::prelude::*;

/// Finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn noise(i: usize) -> usize {
    let z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

pub(crate) fn segments(gpu: &Gpu, verdict: &Verdict) {
    for n in [28, 24, 20, 16, 10].map(|log| 1 << log) {
        verdict.note(&format!("offsets, n {n}"), find(gpu, n));
    }
    const N: usize = 1 << 23;
    let short: Vec<u32> = (0..N).into_par_iter().map(|i| (noise(i) % 65) as u32).collect();
    verdict.note("pack, in order", gather(gpu, "pack_0_to_64_bytes_in_order", &short, false));
    verdict.note("pack, shuffled", gather(gpu, "pack_0_to_64_bytes_shuffled", &short, true));
    let few: Vec<u32> = short[..1 << 15].to_vec();
    verdict.note("pack, few", gather(gpu, "pack_0_to_64_bytes_shuffled", &few, true));
    let mut giant = vec![1; 1 << 20];
    giant[1 << 19] = 1 << 20;
    verdict.note("pack, a giant", gather(gpu, "pack_one_giant", &giant, false));
    let empty: Vec<u32> = (0..N).map(|i| (i % 256 / 255 * 8192) as u32).collect();
    verdict.note("pack, mostly empty", gather(gpu, "pack_one_in_256_of_8192", &empty, false));
}

struct Device<'g> {
    gpu: &'g Gpu,
}

impl Device<'_> {
    fn of<T: DeviceRepr>(&self, items: &[T]) -> Result<CudaSlice<T>, String> {
        let copy = told("device memory", self.gpu.stream.clone_htod(items))?;
        self.gpu.synchronize()?;
        Ok(copy)
    }
    fn with_room<T: DeviceRepr>(&self, n: usize) -> Result<CudaSlice<T>, String> {
        // SAFETY: every bit pattern is a valid value, and the buffer is written before it is read.
        told("device memory", unsafe { self.gpu.stream.alloc::<T>(n) })
    }
    fn at<T>(&self, memory: &CudaSlice<T>) -> CUdeviceptr {
        memory.device_ptr(&self.gpu.stream).0
    }
    /// Microseconds of a copy of `bytes` bytes.
    fn copy(&self, what: &str, n: usize, bytes: usize) -> Result<f64, String> {
        let (from, to) = (self.with_room::<u8>(bytes)?, self.with_room::<u8>(bytes)?);
        let (from, to) = (self.at(&from), self.at(&to));
        // SAFETY: both buffers hold that many bytes, and outlive the wait in `medians`.
        let us = self.gpu.medians(batches(bytes), &mut [&mut || unsafe { self.gpu.copy(from, to, bytes) }])?[0];
        print("copy", "copy", what, n, us, 2 * bytes, 1.0);
        Ok(us)
    }
    /// Times the calls, and prints a row for each.
    fn time(
        &self,
        rows: (&str, &str, usize),
        copied: usize,
        moved: usize,
        ours: &mut Run,
        theirs: Option<&mut Run>,
    ) -> Result<(), String> {
        let (what, of, n) = rows;
        let copy = self.copy(of, n, copied)?;
        let mut libraries = vec!["parascan"];
        let mut calls: Vec<Call> = vec![ours];
        if let Some(theirs) = theirs {
            libraries.push("cub");
            calls.push(theirs);
        }
        for (library, us) in libraries.iter().zip(self.gpu.medians(batches(moved), &mut calls)?) {
            print(library, what, of, n, us, moved, moved as f64 / us / (2.0 * copied as f64 / copy));
        }
        Ok(())
    }
}

/// Offsets of 8 bytes from `n` sizes of 4 bytes.
fn find(gpu: &Gpu, n: usize) -> Result<(), String> {
    let device = Device { gpu };
    let sizes: Vec<u32> = (0..n).into_par_iter().map(|i| noise(i) as u32).collect();
    let mut expected = Vec::with_capacity(n);
    let mut sum = 0_u64;
    for &size in &sizes {
        expected.push(sum);
        sum += u64::from(size);
    }
    let (input, expected) = (device.of(&sizes)?, device.of(&expected)?);
    let (mut starts, mut total) = (device.with_room::<u64>(n)?, device.with_room::<u64>(1)?);
    let (from, to) = (device.at(&input), device.at(&starts));
    let mut workspace = Workspace::new(&gpu.stream);
    let builder = offsets::<u32, u64>();
    told("prepare", builder.prepare(n, &mut workspace))?;
    let mut ours = || told("offsets", builder.workspace(&mut workspace).run_into(&input, &mut starts, &mut total));
    let stream = gpu.stream.cu_stream();
    let cub = CubScan::find("offsets", "u32_u64");
    let needed = cub.map_or(Ok(0), |cub| cub.temporary_bytes(n as u32, stream))?;
    let memory = device.with_room::<u8>(needed.max(1))?;
    let temporary = (device.at(&memory), needed);
    // SAFETY: the buffers hold `n` sizes and `n` offsets; the temporary memory outlives the call.
    let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, from, to, n as u32, stream) });
    // SAFETY: each buffer is as long as the filled and compared range.
    unsafe {
        gpu.fill(to, 0xa5, 8 * n)?;
        ours()?;
        same(gpu.differ(to, device.at(&expected), 8 * n)?, 8, "a plain loop")?;
        if let Some(theirs) = &mut theirs {
            gpu.fill(to, 0x5a, 8 * n)?;
            theirs()?;
            same(gpu.differ(to, device.at(&expected), 8 * n)?, 8, "CUB and a plain loop")?;
        }
    }
    let theirs = theirs.as_mut().map(|theirs| theirs as &mut Run);
    device.time(("offsets", "u32_u64", n), 8 * n, 12 * n, &mut ours, theirs)
}

/// Packs and expands segments of `sizes` bytes. `pack` computes the offsets and copies; CUB only
/// copies.
fn gather(gpu: &Gpu, what: &str, sizes: &[u32], is_shuffled: bool) -> Result<(), String> {
    let (device, n) = (Device { gpu }, sizes.len());
    // The segments follow each other in order or shuffled, with a byte between two.
    let mut order: Vec<u32> = (0..n as u32).collect();
    if is_shuffled {
        order.par_sort_unstable_by_key(|&i| noise(i as usize));
    }
    let (mut begins, mut end) = (vec![0_u32; n], 0);
    for &i in &order {
        begins[i as usize] = end;
        end += sizes[i as usize] + 1;
    }
    let items: Vec<u8> = (0..end as usize).into_par_iter().map(|i| noise(i) as u8).collect();
    let mut starts = vec![0_u32; n + 1];
    for i in 0..n {
        starts[i + 1] = starts[i] + sizes[i];
    }
    let total = starts[n] as usize;
    let of = |i: usize| &items[begins[i] as usize..(begins[i] + sizes[i]) as usize];
    let expected = device.of(&(0..n).flat_map(of).copied().collect::<Vec<u8>>())?;

    let (input, begins_in, sizes_in) = (device.of(&items)?, device.of(&begins)?, device.of(sizes)?);
    let (mut output, mut offsets_in) = (device.with_room::<u8>(total)?, device.with_room::<u32>(n + 1)?);
    let mut count = device.with_room::<u64>(1)?;
    let to = device.at(&output);
    let from: Vec<u64> = begins.iter().map(|&begin| device.at(&input) + u64::from(begin)).collect();
    let into: Vec<u64> = starts[..n].iter().map(|&start| to + u64::from(start)).collect();
    let (from, into) = (device.of(&from)?, device.of(&into)?);
    let mut workspace = Workspace::new(&gpu.stream);
    let packer = pack::<u8, u32>();
    told("prepare", packer.prepare::<u32>(n, &mut workspace))?;
    let mut ours = || {
        let packer = packer.workspace(&mut workspace);
        told("pack", packer.run_into(&input, &begins_in, &sizes_in, &mut output, &mut offsets_in, &mut count))
    };
    let stream = gpu.stream.cu_stream();
    let cub = CubPack::find();
    let lists = [device.at(&from), device.at(&into), device.at(&sizes_in)];
    let needed = cub.map_or(Ok(0), |cub| cub.temporary_bytes(n as u32, stream))?;
    let memory = device.with_room::<u8>(needed.max(1))?;
    let temporary = (device.at(&memory), needed);
    // SAFETY: the lists hold `n` source addresses, destination addresses and sizes; the temporary
    // memory lives to the end of this function.
    let mut theirs = cub.map(|cub| move || unsafe { cub.launch(temporary, lists, n as u32, stream) });
    // SAFETY: each buffer is as long as the filled and compared range.
    unsafe {
        gpu.fill(to, 0xa5, total)?;
        ours()?;
        same(gpu.differ(to, device.at(&expected), total)?, 1, "a plain loop")?;
        if let Some(theirs) = &mut theirs {
            gpu.fill(to, 0x5a, total)?;
            theirs()?;
            same(gpu.differ(to, device.at(&expected), total)?, 1, "CUB and a plain loop")?;
        }
    }
    let theirs = theirs.as_mut().map(|theirs| theirs as &mut Run);
    device.time((what, "u8", n), total, 2 * total + 12 * n, &mut ours, theirs)?;

    // ---- expand
    let offsets_in = device.of(&starts)?;
    let by_loop: Vec<u32> = (0..n).flat_map(|i| std::iter::repeat_n(i as u32, sizes[i] as usize)).collect();
    let by_loop = device.of(&by_loop)?;
    let mut found = device.with_room::<u32>(total)?;
    let at = device.at(&found);
    told("prepare", expand::<u32>().prepare(&mut workspace))?;
    let mut ours = || told("expand", expand::<u32>().workspace(&mut workspace).run_into(&offsets_in, &mut found));
    // SAFETY: each buffer is as long as the filled and compared range.
    unsafe {
        gpu.fill(at, 0xa5, 4 * total)?;
        ours()?;
        same(gpu.differ(at, device.at(&by_loop), 4 * total)?, 4, "a plain loop")?;
    }
    device.time((&what.replace("pack", "expand"), "u32", n), 4 * total, 4 * total + 4 * n, &mut ours, None)
}
