//! The scan on the GPU beside a copy, timed with events: `cargo bench --bench device`
//!
//! Throughput is in bytes read and written. Without a device it says so and ends. This bench is for
//! watching a change; `versus` checks and compares results.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::f16;
use parascan::cudarc::driver::sys::CUevent_flags;
use parascan::cudarc::driver::{CudaStream, DeviceRepr, DriverError};
use parascan::{Element, Error, Max, Operator, Sum, Workspace, cuda, scan};
use std::sync::Arc;
use std::time::Duration;

/// Times `call`, which puts work on the stream.
fn measure(group: &mut BenchmarkGroup<WallTime>, id: BenchmarkId, stream: &Arc<CudaStream>, mut call: impl FnMut()) {
    let mut time = |calls: u64| -> Result<Duration, DriverError> {
        let before = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        (0..calls).for_each(|_| call());
        let after = stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))?;
        Ok(Duration::from_secs_f32(before.elapsed_ms(&after)? * 1e-3))
    };
    group.bench_function(id, |bencher| bencher.iter_custom(|calls| time(calls).expect("the device works")));
}

fn compare<Op: Operator<T>, T: Element + DeviceRepr>(criterion: &mut Criterion, stream: &Arc<CudaStream>, name: &str) {
    let mut group = criterion.benchmark_group(format!("device {name}"));
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for n in [1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28] {
        let bytes: Vec<u8> =
            (0..n * size_of::<T>()).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 13) as u8 & 0x3b).collect();
        let input: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        let input = stream.clone_htod(&input).expect("room for the input");
        let mut output = stream.clone_dtod(&input).expect("room for the output");
        let mut workspace = Workspace::new(stream);
        scan::<Op, T>().prepare(n, &mut workspace).expect("kernels for this device");

        group.throughput(Throughput::Bytes(2 * bytes.len() as u64));
        measure(&mut group, BenchmarkId::new("copy", n), stream, || {
            stream.memcpy_dtod(&input, &mut output).expect("the device works");
        });
        measure(&mut group, BenchmarkId::new("parascan", n), stream, || {
            scan::<Op, T>().workspace(&mut workspace).run_into(&input, &mut output).expect("the device works");
        });
    }
}

fn device(criterion: &mut Criterion) {
    let context = match cuda::context(0) {
        Ok(context) => context,
        Err(e @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => return eprintln!("skipped, no GPU: {e}"),
        Err(e) => panic!("{e}"),
    };
    // SAFETY: there is one stream, so no events are needed for order.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().expect("a stream");
    compare::<Sum, f32>(criterion, &stream, "sum f32");
    compare::<Sum, i32>(criterion, &stream, "sum i32");
    compare::<Sum, u64>(criterion, &stream, "sum u64");
    compare::<Sum, f16>(criterion, &stream, "sum f16");
    compare::<Max, i32>(criterion, &stream, "max i32");
}

criterion_group!(benches, device);
criterion_main!(benches);
