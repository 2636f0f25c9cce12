//! candle's own cumsum, sort, and sort for top-k, beside parascan's, in milliseconds a call. Results are
//! compared with those of a plain loop in the same run.
//!
//! `cargo bench -p parascan-candle` measures the CPU, and with `--features cuda` a GPU.

use candle_core::{D, Device, Result, Tensor};
use parascan_candle::{cumsum, sort, topk};
use std::time::{Duration, Instant};

type Operation = fn(&Tensor) -> Result<Tensor>;

/// An operation along the last axis.
struct Case {
    name: &'static str,
    candle: Operation,
    parascan: Operation,
    /// An item, of random bits.
    item: fn(u32) -> f32,
    /// The result of one row.
    oracle: fn(Vec<f32>) -> Vec<f32>,
}

const CUMSUM: Case = Case {
    name: "cumsum",
    candle: |x| x.cumsum(1),
    parascan: |x| cumsum(x, 1),
    item: |bits| (bits >> 28) as f32 - 7.0, // sums are exact in f32 and in any grouping
    oracle: |mut row| {
        for i in 1..row.len() {
            row[i] += row[i - 1];
        }
        row
    },
};
const SORT: Case = Case {
    name: "sort",
    candle: |x| Ok(x.sort_last_dim(true)?.0),
    parascan: |x| Ok(sort(x, 1, false)?.0),
    item: |bits| bits as i32 as f32,
    oracle: |mut row| {
        row.sort_by(f32::total_cmp);
        row
    },
};
const TOP: Case = Case {
    name: "topk 50",
    candle: |x| x.sort_last_dim(false)?.0.narrow(D::Minus1, 0, 50),
    parascan: |x| Ok(topk(x, 50, 1, true)?.0),
    item: |bits| bits as i32 as f32,
    oracle: |mut row| {
        row.sort_by(|a, b| b.total_cmp(a));
        row.truncate(50);
        row
    },
};

fn main() -> Result<()> {
    let mut devices = vec![("CPU", Device::Cpu)];
    match Device::new_cuda(0) {
        Ok(device) => devices.push(("CUDA", device)),
        Err(e) => println!("CUDA tensors are not measured: {e}"),
    }
    println!("{:<5} {:<8} {:>18} {:>12} {:>12} {:>8}", "", "", "", "candle, ms", "parascan, ms", "faster");
    for (name, device) in devices {
        let versus = |case: &Case, rows: usize, columns: usize| {
            let x = tensor(case, rows, columns, &device)?;
            let own = time(case, case.parascan, &x)?;
            // candle's cumsum multiplies by a matrix of 4 n^2 bytes for n columns. On a GPU its sort fails
            // beyond what one block's shared memory holds.
            let (theirs, faster) = if case.name == "cumsum" && columns > 1 << 14 {
                ("not run".into(), String::new())
            } else {
                match time(case, case.candle, &x) {
                    Ok(theirs) => (format!("{theirs:.3}"), format!("{:.1}", theirs / own)),
                    Err(e) => {
                        eprintln!("candle's {} of {rows} x {columns}: {e}", case.name);
                        ("fails".into(), String::new())
                    }
                }
            };
            let shape = format!("{:?}", x.dims());
            println!("{name:<5} {:<8} {shape:>18} {theirs:>12} {own:>12.3} {faster:>8}", case.name);
            Result::Ok(())
        };
        for (rows, columns) in [(4096, 64), (1024, 1024), (64, 8192), (1, 8192), (1, 1 << 24)] {
            versus(&CUMSUM, rows, columns)?;
        }
        for (rows, columns) in [(4096, 64), (1024, 1024), (64, 8192), (1, 8192), (8, 1 << 17), (1, 1 << 22)] {
            versus(&SORT, rows, columns)?;
        }
        for (rows, columns) in [(1024, 64), (8, 1 << 17)] {
            versus(&TOP, rows, columns)?;
        }
    }
    Ok(())
}

/// A tensor of the case's items.
fn tensor(case: &Case, rows: usize, columns: usize, device: &Device) -> Result<Tensor> {
    // Random bits by murmur's finalizer.
    let mix = |i: u32| (i ^ (i >> 16)).wrapping_mul(0x85eb_ca6b);
    let bits = |i: u32| mix(mix(i.wrapping_mul(0x9e37_79b9)).rotate_left(13));
    let items: Vec<f32> = (0..(rows * columns) as u32).map(|i| (case.item)(bits(i))).collect();
    Tensor::from_vec(items, (rows, columns), device)
}

/// Milliseconds of a call: the least mean of five batches of some 50 ms, or of 1000 calls. Checks the first result.
fn time(case: &Case, operation: Operation, x: &Tensor) -> Result<f64> {
    let batch = |calls: u32| {
        let begin = Instant::now();
        for _ in 0..calls {
            operation(x)?;
        }
        x.device().synchronize()?;
        Result::Ok(begin.elapsed())
    };
    let expected: Vec<Vec<f32>> = x.to_vec2()?.into_iter().map(case.oracle).collect();
    assert!(operation(x)?.to_vec2::<f32>()? == expected, "{} of {:?}", case.name, x.layout());
    let calls = (Duration::from_millis(50).as_secs_f64() / batch(1)?.as_secs_f64()).ceil().clamp(1.0, 1000.0) as u32;
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        least = least.min(batch(calls)?.as_secs_f64() / f64::from(calls));
    }
    Ok(1000.0 * least)
}
