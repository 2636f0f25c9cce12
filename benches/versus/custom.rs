//! Operators without embedded kernels, and the time of their first use in a process.

use crate::bench::{Bench, Case, Verdict};
use crate::data::{Draw, Drawn, Known, Sample};
use crate::gpu::{Gpu, told};
use parascan::operators::{Affine, Compose, Matrix, Transitions};
use parascan::scan;
use std::env;
use std::process::Command;
use std::time::Instant;

/// The longest input, in bytes.
const LONGEST: usize = 8 << 30;
/// Elements of the first scan.
const FIRST: usize = 1 << 10;
/// The argument of the process that times its first scan.
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

/// Times the first use in three processes: the first finds an empty cache, the others find its
/// kernels.
fn first_uses() -> Result<(), String> {
    let folder = env::temp_dir().join(format!("parascan-versus-{}", std::process::id()));
    let this = told("the path of versus", env::current_exe())?;
    let mut outcome = Ok(());
    for what in ["first_use", "first_use_cached", "first_use_cached"] {
        let output = Command::new(&this).arg(FIRST_USE).env("PARASCAN_CACHE", &folder).output();
        let output = told("a process", output)?;
        let us = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            println!("parascan,{what},affine_f32,{FIRST},{us},,");
        } else {
            outcome = Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Prints the microseconds of the first scan, from the call to its result.
pub(crate) fn first_use(gpu: &Gpu) -> Result<(), String> {
    let input: Vec<Affine<f32>> = (0..FIRST).map(|i| Drawn::draw(Draw::Maps, i, FIRST)).collect();
    let input = told("the input", gpu.stream.clone_htod(&input))?;
    gpu.synchronize()?;
    let start = Instant::now();
    let output = told("scan", scan::<Compose, Affine<f32>>().run(&input))?;
    gpu.synchronize()?;
    println!("{:.0}", start.elapsed().as_secs_f64() * 1e6);
    drop(output);
    Ok(())
}
