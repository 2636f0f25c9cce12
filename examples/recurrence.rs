//! Linear recurrences as scans of maps, each beside a plain loop in f64: an exponential moving
//! average, a second-order filter, and the selective scan of a state-space model.
//!
//! ```sh
//! cargo run --release --example recurrence
//! ```
//! A recurrence `x_t = a_t x_(t-1) + b_t` looks sequential: each step needs the one before. But a
//! step is a map, and composition of maps is associative. So a scan composes all prefixes in
//! parallel, and the map from the start to time t, applied to the first value, is `x_t`.

use parascan::cudarc::driver::{CudaStream, DeviceRepr};
use parascan::operators::{Affine, Compose};
use parascan::{Element, Error, Operator, cuda, scan};
use std::sync::Arc;
use std::time::Instant;

/// Steps of the first two recurrences.
const STEPS: usize = 1 << 22;

fn main() -> Result<(), Error> {
    let stream = match cuda::context(0) {
        Ok(context) => Some(context.new_stream().expect("a stream")),
        Err(e) => {
            println!("no GPU, so on the CPU alone: {e}\n");
            None
        }
    };
    moving_average(stream.as_ref())?;
    second_order(stream.as_ref())?;
    selective_scan(stream.as_ref())
}

// ---- y_t = (1 - k) y_(t-1) + k x_t --------------------------------------------------------------

fn moving_average(stream: Option<&Arc<CudaStream>>) -> Result<(), Error> {
    const K: f32 = 1e-3;
    let signal = signal(STEPS);
    let steps: Vec<Affine<f32>> = signal.iter().map(|&x| Affine { a: 1.0 - K, b: K * x }).collect();
    let mut y = f64::from(signal[0]);
    let expected: Vec<f64> = signal
        .iter()
        .map(|&x| {
            y = f64::from(1.0 - K) * y + f64::from(K) * f64::from(x);
            y
        })
        .collect();
    println!("an exponential moving average over {STEPS} samples, f32, 8 bytes a step");
    on_both::<Compose, Affine<f32>>(&steps, STEPS, stream, |from_start| {
        worst(from_start.iter().map(|map| map.at(signal[0])), &expected)
    })
}

// ---- y_t = p y_(t-1) + q y_(t-2) + x_t ----------------------------------------------------------

parascan::element! {
    /// A step of a two-term recurrence: the state `(y, earlier)` becomes `m (y, earlier) + (u, v)`.
    struct Step { m00: f32, m01: f32, m10: f32, m11: f32, u: f32, v: f32 }
}

parascan::operator! {
    /// The earlier step, then the later one. The macro translates this body for the GPU.
    struct Then on Step {
        associativity: Rounding,
        identity: Step { m00: 1.0, m01: 0.0, m10: 0.0, m11: 1.0, u: 0.0, v: 0.0 },
        combine: |f, g| Step {
            m00: g.m00 * f.m00 + g.m01 * f.m10,
            m01: g.m00 * f.m01 + g.m01 * f.m11,
            m10: g.m10 * f.m00 + g.m11 * f.m10,
            m11: g.m10 * f.m01 + g.m11 * f.m11,
            u: g.m00 * f.u + g.m01 * f.v + g.u,
            v: g.m10 * f.u + g.m11 * f.v + g.v,
        },
    }
}

fn second_order(stream: Option<&Arc<CudaStream>>) -> Result<(), Error> {
    // A resonator: poles of magnitude 0.95, 0.3 radians off the real axis.
    let (radius, angle) = (0.95_f32, 0.3_f32);
    let (p, q) = (2.0 * radius * angle.cos(), -radius * radius);
    let signal = signal(STEPS);
    let step = |&x: &f32| Step { m00: p, m01: q, m10: 1.0, m11: 0.0, u: x, v: 0.0 };
    let steps: Vec<Step> = signal.iter().map(step).collect();
    let (mut y, mut earlier) = (0.0, 0.0);
    let expected: Vec<f64> = signal
        .iter()
        .map(|&x| {
            (y, earlier) = (f64::from(p) * y + f64::from(q) * earlier + f64::from(x), y);
            y
        })
        .collect();
    println!("a filter of second order over {STEPS} samples, f32, 24 bytes a step");
    on_both::<Then, Step>(&steps, STEPS, stream, |from_start| worst(from_start.iter().map(|step| step.u), &expected))
}

// ---- h_t = exp(delta_t a) h_(t-1) + delta_t b_t x_t, for each channel of each sequence ----------

/// After Gu and Dao 2023, "Mamba: linear-time sequence modeling with selective state spaces", with
/// one state a channel. Time runs fastest, so a channel is a row, and one scan takes all
/// channels.
fn selective_scan(stream: Option<&Arc<CudaStream>>) -> Result<(), Error> {
    const BATCH: usize = 4;
    const CHANNELS: usize = 256;
    const TIME: usize = 2048;
    let n = BATCH * CHANNELS * TIME;
    let (inputs, deltas) = (signal(n), signal(n));
    let step = |i: usize| {
        let delta = deltas[i].abs() * 0.1;
        let decay = -1.0 - (i / TIME % CHANNELS) as f32 / 64.0; // of the channel
        Affine { a: (delta * decay).exp(), b: delta * inputs[i] }
    };
    let steps: Vec<Affine<f32>> = (0..n).map(step).collect();
    let mut h = 0.0;
    let expected: Vec<f64> = (0..n)
        .map(|i| {
            let Affine { a, b } = steps[i];
            h = if i.is_multiple_of(TIME) { f64::from(b) } else { f64::from(a) * h + f64::from(b) };
            h
        })
        .collect();
    println!("a selective scan over {BATCH} sequences, {CHANNELS} channels, {TIME} times, f32, 8 bytes a step");
    on_both::<Compose, Affine<f32>>(&steps, TIME, stream, |from_start| {
        worst(from_start.iter().map(|map| map.b), &expected)
    })
}

// ---- both engines -------------------------------------------------------------------------------

/// Scans the steps, in rows of `columns`, on the CPU, and on the GPU if there is one. `error` measures the error of
/// a result.
fn on_both<Op: Operator<T>, T: Element + DeviceRepr>(
    steps: &[T],
    columns: usize,
    stream: Option<&Arc<CudaStream>>,
    error: impl Fn(&[T]) -> f64,
) -> Result<(), Error> {
    let report = |engine: &str, states: &[T], seconds: f64| {
        let error = error(states);
        assert!(error < 1e-4, "{engine} is off by {error}");
        let rate = 2.0 * size_of_val(steps) as f64 / seconds / 1e9;
        println!("    {engine}: off by at most {error:.1e} of the largest value, {rate:.1} GB/s");
    };
    let mut states = steps.to_vec();
    let start = Instant::now();
    scan::<Op, T>().rows(columns).run_into(steps, &mut states)?;
    report("CPU", &states, start.elapsed().as_secs_f64());

    let Some(stream) = stream else { return Ok(()) };
    let there = stream.clone_htod(steps).expect("memory on the device");
    let mut out = scan::<Op, T>().rows(columns).run(&there)?; // compiles the kernel
    stream.synchronize().expect("the scan is done");
    let start = Instant::now();
    scan::<Op, T>().rows(columns).run_into(&there, &mut out)?;
    stream.synchronize().expect("the scan is done");
    let seconds = start.elapsed().as_secs_f64();
    report("GPU", &stream.clone_dtoh(&out).expect("memory on the host"), seconds);
    Ok(())
}

/// The largest difference, relative to the largest value.
fn worst(got: impl Iterator<Item = f32>, expected: &[f64]) -> f64 {
    let largest = expected.iter().fold(0.0_f64, |largest, x| largest.max(x.abs()));
    got.zip(expected).fold(0.0_f64, |worst, (x, y)| worst.max((f64::from(x) - y).abs())) / largest
}

/// Noise between -1 and 1 on a slow wave.
fn signal(n: usize) -> Vec<f32> {
    let mut state = 1_u64;
    let noise = |i: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (i as f32 * 1e-4).sin() + (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(noise).collect()
}
