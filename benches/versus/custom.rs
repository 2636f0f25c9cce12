//! Operators without embedded kernels, and the time of first calls in a process.

use crate::bench::{Bench, Case, Verdict};
use crate::data::{Draw, Drawn, Known, Sample};
use crate::gpu::{Gpu, told};
use cudarc::driver::{CudaSlice, DeviceRepr};
use parascan::operators::{Affine, Compose, Matrix, Transitions};
use parascan::{Sum, scan, sort};
use std::env;
use std::process::Command;
use std::time::Instant;

/// The longest input, in bytes.
const LONGEST: usize = 8 << 30;
/// Elements of the first call.
const FIRST: usize = 1 << 10;
/// The argument of a process that times its first call, named by the next argument.
pub(crate) const FIRST_USE: &str = "--first-use";

pub(crate) fn custom(gpu: &Gpu, verdict: &Verdict) {
    fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict)
    where
        Compose: Known<T>,
    {
        let most = LONGEST / size_of::<T>();
        let Some(mut bench) = Bench::<T>::new(gpu, verdict, most) else { return };
        let case = Case { beside_cub: true, ..Case::default() };
        for n in
            [10, 12, 14, 16, 18, 20, 22, 24, 26, 28].map(|log| 1 << log).into_iter().filter(|&n| n < most).chain([most])
        {
            bench.row::<Compose>(n, case);
        }
    }
    verdict.note("first use", first_uses());
    rows::<Affine<f32>>(gpu, verdict);
    rows::<Affine<f64>>(gpu, verdict);
    rows::<Matrix<u32>>(gpu, verdict);
    rows::<Transitions>(gpu, verdict);
}

/// Times first calls, each in a process of its own with an empty cache of kernels, and those of a
/// user's operator twice more with the cache that the first one filled. The kernels of the catalog are
/// embedded in the bench if its build was asked for the device's architecture.
fn first_uses() -> Result<(), String> {
    let folder = env::temp_dir().join(format!("parascan-versus-{}", std::process::id()));
    let this = told("the path of versus", env::current_exe())?;
    let mut outcome = Ok(());
    let calls = [
        ("first_use", "sum_i32"),
        ("first_use", "sort_u32"),
        ("first_use", "affine_f32"),
        ("first_use_cached", "affine_f32"),
        ("first_use_cached", "affine_f32"),
    ];
    for (what, call) in calls {
        let output = Command::new(&this).args([FIRST_USE, call]).env("PARASCAN_CACHE", &folder).output();
        let output = told("a process", output)?;
        let us = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            println!("parascan,{what},{call},{FIRST},{us},,");
        } else {
            outcome = Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Prints the microseconds of the first call, until its result is there.
pub(crate) fn first_use(gpu: &Gpu, call: &str) -> Result<(), String> {
    let us = match call {
        "sum_i32" => first_call(gpu, |i| i as i32, |input| scan::<Sum, i32>().run(input)),
        "sort_u32" => first_call(gpu, |i| (i as u32).wrapping_mul(0x9e37_79b9), |input| sort::<u32>().run(input)),
        "affine_f32" => {
            first_call(gpu, |i| Drawn::draw(Draw::Maps, i, FIRST), |input| scan::<Compose, Affine<f32>>().run(input))
        }
        _ => Err(format!("no first call is named {call}")),
    }?;
    println!("{us:.0}");
    Ok(())
}

fn first_call<T: DeviceRepr, R>(
    gpu: &Gpu,
    item: impl Fn(usize) -> T,
    call: impl FnOnce(&CudaSlice<T>) -> Result<R, parascan::Error>,
) -> Result<f64, String> {
    let input: Vec<T> = (0..FIRST).map(item).collect();
    let input = told("the input", gpu.stream.clone_htod(&input))?;
    gpu.synchronize()?;
    let start = Instant::now();
    let output = told("the call", call(&input))?;
    gpu.synchronize()?;
    let us = start.elapsed().as_secs_f64() * 1e6;
    drop(output);
    Ok(us)
}
