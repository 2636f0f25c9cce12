//! The device: one stream, timing by events, and the three kernels of `helpers.ptx`.

use parascan::cudarc::driver::sys::{self, CUdeviceptr, CUevent_flags, CUresult};
use parascan::cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError};
use parascan::cudarc::nvrtc::Ptx;
use parascan::{Error, cuda};
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Calls queued before the device begins with the first: `BATCH` if the driver's queue holds them,
/// else down to `LEAST_BATCH`.
const BATCH: usize = 25;
const LEAST_BATCH: usize = 5;
/// Calls that together take longer are timed fewer times.
const SLOW: Duration = Duration::from_millis(20);
/// Nanoseconds for which a waiting kernel delays the device at first.
const HEAD_START: u64 = 1_000_000;

pub(crate) struct Gpu {
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
    empty: CudaFunction,
    wait: CudaFunction,
    differ: CudaFunction,
    /// Nanoseconds for which a waiting kernel delays the device while the host queues a batch.
    head_start: Cell<u64>,
}

/// Prefixes an error with the failed call.
pub(crate) fn told<T, E: Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|e| format!("{what}: {e}"))
}

fn answer(call: &str, code: CUresult) -> Result<(), String> {
    told(call, code.result().map_err(|DriverError(code)| format!("{code:?}")))
}

/// A call to time: it puts work on the stream.
pub(crate) type Run<'a> = dyn FnMut() -> Result<(), String> + 'a;
pub(crate) type Call<'a> = &'a mut Run<'a>;

impl Gpu {
    pub(crate) fn open() -> Result<Gpu, Error> {
        let context = cuda::context(0)?;
        let driver = |call: &'static str| move |e: DriverError| Error::Driver { call, code: e.0, device: 0 };
        // SAFETY: there is one stream, so no events are needed for order.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(driver("cuStreamCreate"))?;
        let module =
            context.load_module(Ptx::from_src(include_str!("helpers.ptx"))).map_err(driver("cuModuleLoadData"))?;
        let function = |name| module.load_function(name).map_err(driver("cuModuleGetFunction"));
        let (empty, wait, differ) = (function("empty")?, function("wait")?, function("differ")?);
        Ok(Gpu { context, stream, empty, wait, differ, head_start: Cell::new(HEAD_START) })
    }

    pub(crate) fn synchronize(&self) -> Result<(), String> {
        told("the stream", self.stream.synchronize())
    }

    /// # Safety
    /// `parameters` are the kernel's. The memory they point to is valid until the stream is past
    /// the kernel.
    unsafe fn launch(&self, kernel: &CudaFunction, blocks: u32, parameters: &[*const c_void]) -> Result<(), String> {
        let threads = if blocks == 1 { 32 } else { 256 };
        let (function, stream) = (kernel.cu_function(), self.stream.cu_stream());
        let parameters = parameters.as_ptr().cast_mut().cast();
        // SAFETY: by the caller; the driver copies the parameters before it returns.
        answer("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, std::ptr::null_mut())
        })
    }

    /// Launches a kernel that takes a scan's parameters and does nothing.
    pub(crate) fn launch_empty(&self) -> Result<(), String> {
        let (wide, narrow) = (0u64, 0u32);
        let (wide, narrow) = ((&raw const wide).cast(), (&raw const narrow).cast());
        // SAFETY: the parameters of `empty` in helpers.ptx, which uses none of them.
        unsafe { self.launch(&self.empty, 1, &[wide, wide, wide, narrow, narrow, wide, narrow]) }
    }

    /// # Safety
    /// Both ranges are `bytes` bytes of device memory, disjoint, valid until the stream is past the
    /// copy.
    pub(crate) unsafe fn copy(&self, from: CUdeviceptr, to: CUdeviceptr, bytes: usize) -> Result<(), String> {
        // SAFETY: by the caller.
        answer("cuMemcpyDtoDAsync", unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream.cu_stream()) })
    }

    /// # Safety
    /// `to` is `bytes` bytes of device memory, valid until the stream is past the fill.
    pub(crate) unsafe fn fill(&self, to: CUdeviceptr, byte: u8, bytes: usize) -> Result<(), String> {
        // SAFETY: by the caller.
        answer("cuMemsetD8Async", unsafe { sys::cuMemsetD8Async(to, byte, bytes, self.stream.cu_stream()) })
    }

    /// Reads the number at `from`. Waits for the stream.
    ///
    /// # Safety
    /// `from` is 8 bytes of device memory.
    pub(crate) unsafe fn read(&self, from: CUdeviceptr) -> Result<u64, String> {
        let mut number = 0_u64;
        let to = (&raw mut number).cast();
        // SAFETY: by the caller; `number` outlives the wait.
        answer("cuMemcpyDtoHAsync", unsafe {
            sys::cuMemcpyDtoHAsync_v2(to, from, size_of::<u64>(), self.stream.cu_stream())
        })?;
        self.synchronize()?;
        Ok(number)
    }

    /// Returns the number of differing bytes of `a` and `b`, and the index of the first. Waits for
    /// the stream.
    ///
    /// # Safety
    /// Both ranges are `bytes` bytes of device memory.
    pub(crate) unsafe fn differ(&self, a: CUdeviceptr, b: CUdeviceptr, bytes: usize) -> Result<(u64, u64), String> {
        let found = told("the count of differences", self.stream.clone_htod(&[0, u64::MAX]))?;
        {
            use parascan::cudarc::driver::DevicePtr;
            let (bytes, (found, _written)) = (bytes as u64, found.device_ptr(&self.stream));
            let parameters = [&raw const a, &raw const b, &raw const bytes, &raw const found];
            // SAFETY: the parameters of `differ` in helpers.ptx; the caller vouches for `a` and
            // `b`, and `found` outlives the wait.
            unsafe { self.launch(&self.differ, 4096, &parameters.map(|parameter| parameter.cast())) }?;
        }
        let found = told("the count of differences", self.stream.clone_dtoh(&found))?;
        self.synchronize()?;
        Ok((found[0], found[1]))
    }

    /// Microseconds of each call on the device, the median of `batches` batches, or of a short one if the calls
    /// together take longer than `SLOW`. The calls alternate.
    ///
    /// A batch is queued behind a waiting kernel, so the device never waits for the host within a
    /// batch.
    pub(crate) fn medians(&self, batches: usize, calls: &mut [Call]) -> Result<Vec<f64>, String> {
        let mut round = Duration::ZERO; // of all calls
        for warm_up in 0..3 {
            let begun = Instant::now();
            for call in calls.iter_mut() {
                call()?;
            }
            self.synchronize()?;
            round = begun.elapsed();
            if warm_up > 0 && round > SLOW {
                break;
            }
        }
        let (mut batch, wanted) = if round > SLOW { (LEAST_BATCH, LEAST_BATCH) } else { (BATCH, batches * BATCH) };
        let event = || told("an event", self.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)));
        let events: Vec<(CudaEvent, CudaEvent)> =
            (0..BATCH * calls.len()).map(|_| Ok((event()?, event()?))).collect::<Result<_, String>>()?;
        let mut times = vec![Vec::new(); calls.len()];
        while times[0].len() < wanted {
            self.synchronize()?;
            let (queued, nanoseconds) = (Instant::now(), self.head_start.get());
            // SAFETY: the parameter of `wait` in helpers.ptx.
            unsafe { self.launch(&self.wait, 1, &[(&raw const nanoseconds).cast()]) }?;
            let events = &events[..batch * calls.len()];
            for events in events.chunks(calls.len()) {
                for ((before, after), call) in events.iter().zip(&mut *calls) {
                    told("an event", before.record(&self.stream))?;
                    call()?;
                    told("an event", after.record(&self.stream))?;
                }
            }
            let queued = queued.elapsed().as_nanos() as u64;
            self.synchronize()?;
            // The device caught up with the host. The batch is repeated with fewer calls, then with
            // a longer delay, of at most one second.
            if queued > nanoseconds && nanoseconds < 1_000_000_000 {
                if batch > LEAST_BATCH {
                    batch = (batch / 2).max(LEAST_BATCH);
                } else {
                    self.head_start.set(2 * queued);
                }
                continue;
            }
            // The delay shrinks again after one slow batch.
            self.head_start.set(nanoseconds.min(8 * queued).max(HEAD_START));
            for (k, (before, after)) in events.iter().enumerate() {
                let ms = told("an event", before.elapsed_ms(after))?;
                times[k % calls.len()].push(f64::from(ms) * 1e3);
            }
        }
        Ok(times.into_iter().map(median).collect())
    }

    /// Microseconds of a call that waits for the device, the median of 25. Its first launches are queued behind a
    /// waiting kernel.
    pub(crate) fn median_of_waiting(&self, call: Call) -> Result<f64, String> {
        let event = || told("an event", self.context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)));
        let (before, after) = (event()?, event()?);
        let mut times = Vec::new();
        for _ in 0..25 {
            self.synchronize()?;
            let nanoseconds = HEAD_START;
            // SAFETY: the parameter of `wait` in helpers.ptx.
            unsafe { self.launch(&self.wait, 1, &[(&raw const nanoseconds).cast()]) }?;
            told("an event", before.record(&self.stream))?;
            call()?;
            told("an event", after.record(&self.stream))?;
            self.synchronize()?;
            times.push(f64::from(told("an event", before.elapsed_ms(&after))?) * 1e3);
        }
        Ok(median(times))
    }

    /// Microseconds of each call on the host, the median over batches of `CALLS`.
    pub(crate) fn host_medians(&self, calls: &mut [Call]) -> Result<Vec<f64>, String> {
        // Well below the launches that the driver queues before it makes the host wait.
        const CALLS: u32 = 200;
        let mut times = vec![Vec::new(); calls.len()];
        for _batch in 0..41 {
            for (call, times) in calls.iter_mut().zip(&mut times) {
                self.synchronize()?;
                let begun = Instant::now();
                for _ in 0..CALLS {
                    call()?;
                }
                times.push(begun.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS));
            }
        }
        self.synchronize()?;
        Ok(times.into_iter().map(median).collect())
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
