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
/// The first call that sorts `u32` keys with a payload of 12 bytes, before the logarithm of their number.
const PAIRS: &str = "pairs_12_";

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

/// Times first calls, each in a process of its own: those of the catalog and of a payload, whose kernels the bench
/// embeds if its build was asked for the device's architecture, and those of a user's operator, which compile their
/// kernels unless the same call before them did.
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
        // Each length is sorted another way, by other kernels.
        ("first_use", "pairs_12_10"),
        ("first_use", "pairs_12_16"),
        ("first_use", "pairs_12_20"),
        ("first_use", "pairs_12_22"),
        ("first_use", "pairs_12_24"),
    ];
    for (what, call) in calls {
        let mut process = Command::new(&this);
        process.args([FIRST_USE, call]).env("PARASCAN_CACHE", folder.join(call));
        process.env("CUDA_CACHE_DISABLE", "1"); // NVRTC's own cache
        let output = told("a process", process.output())?;
        let n_and_us = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            println!("parascan,{what},{call},{n_and_us},,");
        } else {
            outcome = Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Prints the number of elements and the microseconds of the first call, until its result is there.
pub(crate) fn first_use(gpu: &Gpu, call: &str) -> Result<(), String> {
    let unknown = || format!("no first call is named {call}");
    let n = match call.strip_prefix(PAIRS) {
        Some(log) => 1 << log.parse().ok().filter(|&log: &u32| log <= 30).ok_or_else(unknown)?,
        None => FIRST,
    };
    let key = |i| (i as u32).wrapping_mul(0x9e37_79b9);
    let us = match call {
        "sum_i32" => first_call(gpu, n, |i| i as i32, |input| scan::<Sum, i32>().run(input)),
        "sort_u32" => first_call(gpu, n, key, |input| sort::<u32>().run(input)),
        "affine_f32" => {
            first_call(gpu, n, |i| Drawn::draw(Draw::Maps, i, n), |input| scan::<Compose, Affine<f32>>().run(input))
        }
        _ if call.starts_with(PAIRS) => {
            let payload: Vec<[u32; 3]> = (0..n as u32).map(|i| [i, !i, i ^ 77]).collect();
            let payload = told("the payload", gpu.stream.clone_htod(&payload))?;
            first_call(gpu, n, key, |input| sort::<u32>().run_pairs(input, &payload))
        }
        _ => Err(unknown()),
    }?;
    println!("{n},{us:.0}");
    Ok(())
}

fn first_call<T: DeviceRepr, R>(
    gpu: &Gpu,
    n: usize,
    item: impl Fn(usize) -> T,
    call: impl FnOnce(&CudaSlice<T>) -> Result<R, parascan::Error>,
) -> Result<f64, String> {
    let input: Vec<T> = (0..n).map(item).collect();
    let input = told("the input", gpu.stream.clone_htod(&input))?;
    gpu.synchronize()?;
    let start = Instant::now();
    let output = told("the call", call(&input))?;
    gpu.synchronize()?;
    let us = start.elapsed().as_secs_f64() * 1e6;
    drop(output);
    Ok(us)
}
