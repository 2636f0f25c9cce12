//! A device without a compiler, with a damaged compiler, and with cache folders of every kind.

use crate::common::process::{Folder, again, pass, start};
use crate::common::segments::{Lengths, Segments, reduce_oracle, runs_oracle, scan_oracle};
use crate::common::{Options, Rng, context, noise, oracle, stream};
use crate::user::Gcd;
use parascan::cudarc::driver::{CudaSlice, CudaStream};
use parascan::{Error, Max, Sum, reduce, scan, sort};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

fn gcd_on_device(stream: &Arc<CudaStream>) -> Result<(), Error> {
    let x: Vec<u32> = (0..20_000).map(|i| (i * 7919 + 1) << 8).collect();
    let mut data = stream.clone_htod(&x).unwrap();
    let result = scan::<Gcd, u32>().reverse().run_in_place(&mut data);
    let expected = match &result {
        Ok(()) => oracle::<Gcd, u32>(&x, Options { exclusive: false, init: None, reverse: true }),
        Err(_) => x,
    };
    assert!(stream.clone_dtoh(&data).unwrap() == expected, "after {result:?}");
    result
}

/// A call of the catalog, whose kernels need no compiler if this binary embeds them.
fn built_in_on_device(stream: &Arc<CudaStream>, call: fn(&Arc<CudaStream>) -> Result<(), Error>) {
    match call(stream) {
        Err(e @ (Error::NoCompiler { .. } | Error::Compiler { .. }))
            if env::var("PARASCAN_REQUIRE_GPU").as_deref() != Ok("1") =>
        {
            eprintln!("skipped, no kernels in this binary: {e}");
        }
        result => result.unwrap(),
    }
}

fn of_all(stream: &Arc<CudaStream>) -> Result<(), Error> {
    let x: Vec<i32> = (0..20_000).collect();
    let sums = scan::<Sum, i32>().run(&stream.clone_htod(&x).unwrap())?;
    let expected = oracle::<Sum, i32>(&x, Options { exclusive: false, init: None, reverse: false });
    assert!(stream.clone_dtoh(&sums).unwrap() == expected);
    Ok(())
}

/// Scans and reductions of the columns of matrices with rows of up to 32 bytes, and of a wider one.
fn by_column(stream: &Arc<CudaStream>) -> Result<(), Error> {
    for columns in [2, 3, 7, 8, 11] {
        let x: Vec<u32> = (0..10_007 * columns as u32).map(|i| (i * 7919 + 1) % 4001).collect();
        let mut scans = x.clone();
        (columns..x.len()).for_each(|i| scans[i] += scans[i - columns]);
        let items = stream.clone_htod(&x).unwrap();
        let host = |data: &CudaSlice<u32>| stream.clone_dtoh(data).unwrap();
        assert!(host(&scan::<Sum, u32>().columns(columns).run(&items)?) == scans, "{columns}");
        assert!(host(&reduce::<Sum, u32>().columns(columns).run(&items)?) == scans[x.len() - columns..], "{columns}");
    }
    Ok(())
}

fn alone(command: &mut Command, nvrtc: Option<&Path>, cache: &Path) {
    if let Some(nvrtc) = nvrtc {
        command.env("PARASCAN_NVRTC", nvrtc);
    }
    pass(start(command.env("PARASCAN_CACHE", cache)));
}

#[test]
fn no_compiler() {
    let Some(mut command) = again(no_compiler) else {
        let stream = stream().expect("the parent has seen a device");
        let device = stream.context().compute_capability().unwrap();
        let nvrtc = env::var("PARASCAN_NVRTC").expect("set by the parent");
        // Twice, with the catalog's kernels before and after.
        for _ in 0..2 {
            built_in_on_device(&stream, of_all);
            built_in_on_device(&stream, by_column);
            let error = gcd_on_device(&stream).expect_err("nothing can compile it");
            let Error::NoCompiler { unit, major, minor, reason } = &error else {
                panic!("{error:?} should be NoCompiler")
            };
            assert!(unit.starts_with("scan::<") && unit.contains("Gcd") && unit.contains("u32"), "{unit}");
            assert_eq!((*major, *minor), device);
            assert!(reason.contains(&format!("PARASCAN_NVRTC={nvrtc}")), "{reason}");
            let words = error.to_string();
            for part in [
                unit.as_str(),
                reason,
                "`pip install nvidia-cuda-nvrtc` installs it",
                "name the library in PARASCAN_NVRTC",
            ] {
                assert!(words.contains(part), "{words}");
            }
        }
        return;
    };
    if context().is_none() {
        return;
    }
    let folder = Folder::new();
    let text =
        folder.file("libnvrtc.so.13", "not a library, long enough to be looked at as one: sixty-four bytes and more");
    for nvrtc in [Path::new("/nonexistent/libnvrtc.so"), &text, folder.path()] {
        alone(&mut command, Some(nvrtc), folder.path());
    }
}

/// Scans, reductions and sorts by segment, of every kind. With `columns` the segments are rows too.
fn by_segment(
    stream: &Arc<CudaStream>,
    rng: &mut Rng,
    segments: &Segments,
    columns: Option<usize>,
) -> Result<(), Error> {
    let x: Vec<u32> = noise(rng, segments.n);
    let plain = Options { exclusive: false, init: None, reverse: false };
    let scans = scan_oracle::<Sum, u32>(&x, segments, plain);
    let sums = reduce_oracle::<Sum, u32>(&x, segments, None, 0);
    let runs = runs_oracle::<Sum, u32>(&x, segments, None);
    let mut sorted = x.clone();
    segments.of_scan().for_each(|segment| sorted[segment].sort_unstable());
    let items = stream.clone_htod(&x).unwrap();
    let host = |data: &CudaSlice<u32>| stream.clone_dtoh(data).unwrap();
    macro_rules! check {
        ($method:ident, $selectors:expr, $sums:ident) => {{
            let (selectors, what) = ($selectors, (stringify!($method), segments.n, columns));
            assert!(host(&scan::<Sum, u32>().$method(selectors).run(&items)?) == scans, "scan {what:?}");
            assert!(host(&reduce::<Sum, u32>().$method(selectors).run(&items)?) == $sums, "reduce {what:?}");
            assert!(host(&sort::<u32>().$method(selectors).run(&items)?) == sorted, "sort {what:?}");
        }};
    }
    if let Some(columns) = columns {
        check!(rows, columns, sums);
    }
    check!(segments, &stream.clone_htod(&segments.offsets::<u32>()).unwrap(), sums);
    check!(segments, &stream.clone_htod(&segments.offsets::<u64>()).unwrap(), sums);
    check!(heads, &stream.clone_htod(&segments.flags(rng)).unwrap(), runs);
    check!(head_bits, &stream.clone_htod(&segments.words::<u32>(rng)).unwrap(), runs);
    check!(by_key, &stream.clone_htod(&segments.keys::<u8>(rng)).unwrap(), runs);
    check!(by_key, &stream.clone_htod(&segments.keys::<u16>(rng)).unwrap(), runs);
    check!(by_key, &stream.clone_htod(&segments.keys::<u32>(rng)).unwrap(), runs);
    check!(by_key, &stream.clone_htod(&segments.keys::<u64>(rng)).unwrap(), runs);
    check!(by_key, &stream.clone_htod(&segments.keys::<[u8; 3]>(rng)).unwrap(), runs);
    Ok(())
}

/// Lengths that take each kernel: segments of three items, one segment with half of all items, and rows that
/// a warp, a block or several blocks take.
fn by_segments_of_all_lengths(stream: &Arc<CudaStream>) -> Result<(), Error> {
    let mut rng = Rng::new();
    for n in [30_000, 2_000_001, 10_000_002] {
        by_segment(stream, &mut rng, &Segments::rows(n / 3, 3), Some(3))?;
        let half = Segments::draw(&mut rng, n, Lengths::Half, false);
        by_segment(stream, &mut rng, &half, None)?;
    }
    for columns in [700, 20_000, 500_000] {
        by_segment(stream, &mut rng, &Segments::rows(2_000_000 / columns, columns), Some(columns))?;
    }
    Ok(())
}

/// The catalog's calls by segment need no compiler, if this binary embeds the prebuilt kernels.
/// `PARASCAN_REQUIRE_PREBUILT=1`: it does.
#[test]
fn no_compiler_by_segment() {
    let Some(mut command) = again(no_compiler_by_segment) else {
        match by_segments_of_all_lengths(&or_skip!(stream())) {
            Err(e @ Error::NoCompiler { .. }) if env::var("PARASCAN_REQUIRE_PREBUILT").as_deref() != Ok("1") => {
                eprintln!("skipped, no kernels by segment in this binary: {e}");
            }
            result => result.unwrap(),
        }
        return;
    };
    or_skip!(context());
    alone(&mut command, Some(Path::new("/nonexistent/libnvrtc.so")), Folder::new().path());
}

/// A library that is not NVRTC, an NVRTC too new for the device, and one that fails when it compiles.
#[test]
fn a_compiler_that_does_not_work() {
    let Some(mut command) = again(a_compiler_that_does_not_work) else {
        let stream = stream().expect("the parent has seen a device");
        let error = gcd_on_device(&stream).expect_err("nothing can compile it");
        let Error::Compiler { path, reason } = &error else { panic!("{error:?} should be Compiler") };
        assert_eq!(Some(path.as_os_str()), env::var_os("PARASCAN_NVRTC").as_deref());
        let expected = env::var("PARASCAN_TEST_REASON").expect("set by the parent");
        assert!(reason.contains(&expected), "{reason}");
        let words = format!("NVRTC at {} cannot be used: {reason}; name another in PARASCAN_NVRTC", path.display());
        assert_eq!(error.to_string(), words);
        built_in_on_device(&stream, of_all);
        return built_in_on_device(&stream, by_column);
    };
    let context = or_skip!(context());
    let (major, minor) = context.compute_capability().unwrap();
    let version = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 0; return 0; }\n";
    let too_new = "int nvrtcGetNumSupportedArchs(int *n) { *n = 1; return 0; }
                   int nvrtcGetSupportedArchs(int *list) { *list = 990; return 0; }\n";
    let incomplete = too_new.replace("990", &format!("{major}{minor}"));
    for (functions, reason) in [
        ("", "nvrtcGetNumSupportedArchs"),
        (too_new, "it compiles for compute capability [990]"),
        (&incomplete, "nvrtcCreateProgram"),
    ] {
        let folder = Folder::new();
        if let Some(nvrtc) = folder.library("libnvrtc.so", &format!("{version}{functions}")) {
            alone(command.env("PARASCAN_TEST_REASON", reason), Some(&nvrtc), folder.path());
        }
    }
}

// ---- the cache ----------------------------------------------------------------------------------

/// In the child: compiles a unit or reads it from the cache. The parent knows whether there is a
/// compiler.
fn compile_or_skip() {
    let stream = stream().expect("the parent has seen a device");
    gcd_on_device(&stream).unwrap();
    // A program of one kernel, beside that of three.
    let x: Vec<u32> = (0..5000).map(|i| i * 7919 % 4001).collect();
    let y = scan::<Max, u32>()
        .strategy(parascan::Strategy::LookBack(Default::default()))
        .run(&stream.clone_htod(&x).unwrap());
    let expected = oracle::<Max, u32>(&x, Options { exclusive: false, init: None, reverse: false });
    assert!(stream.clone_dtoh(&y.unwrap()).unwrap() == expected);
}

/// Whether kernels can be compiled here at run time; without a compiler the cache stays empty.
fn can_compile() -> bool {
    let Some(stream) = stream() else { return false };
    match gcd_on_device(&stream) {
        Ok(()) => true,
        Err(e @ Error::NoCompiler { .. }) => {
            assert_ne!(env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a compiler is required: {e}");
            eprintln!("skipped, no compiler: {e}");
            false
        }
        Err(e) => panic!("{e}"),
    }
}

/// The files of a folder with their inodes: a rewritten file has another inode.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).expect("the cache").map(|entry| entry.expect("an entry"));
    let mut files: Vec<_> = entries.map(|entry| (entry.path(), entry.metadata().expect("a file").ino())).collect();
    files.sort();
    files
}

#[test]
fn a_cache_that_cannot_be_written() {
    let Some(mut command) = again(a_cache_that_cannot_be_written) else { return compile_or_skip() };
    if can_compile() {
        let folder = Folder::new();
        let file = folder.file("file", "where a folder should be");
        for cache in [Path::new("/dev/null/parascan"), &file, &file.join("parascan")] {
            alone(&mut command, None, cache);
        }
        assert_eq!(files(folder.path()).len(), 1, "nothing was written beside the file");
    }
}

#[test]
fn two_processes_fill_one_cache() {
    let Some(mut command) = again(two_processes_fill_one_cache) else { return compile_or_skip() };
    if !can_compile() {
        return;
    }
    let folder = Folder::new();
    let cache = folder.path().join("not").join("there").join("yet");
    command.env("PARASCAN_CACHE", &cache);
    let both = [start(&mut command), start(&mut command)];
    both.into_iter().for_each(pass);
    let filled = files(&cache);
    assert_eq!(filled.len(), 3 + 1 + 1, "four kernels, the compiler, and no unfinished file: {filled:?}");
    assert!(filled.iter().all(|(path, _)| path.extension().is_some_and(|e| e == "image")), "{filled:?}");

    // A third process reads the cached image.
    pass(start(&mut command));
    assert_eq!(files(&cache), filled, "nothing was compiled again");

    // Others find one damaged file each and rewrite it.
    for (k, (damaged, _)) in filled.iter().enumerate() {
        let before = files(&cache);
        let good = fs::read(damaged).unwrap();
        fs::write(damaged, &good[..good.len() / 2]).unwrap();
        pass(start(&mut command));
        assert_eq!(fs::read(damaged).unwrap().len(), good.len(), "the damaged file is whole again");
        let anew: Vec<bool> = files(&cache).iter().zip(&before).map(|(now, then)| now != then).collect();
        assert_eq!(
            anew,
            (0..filled.len()).map(|other| other == k).collect::<Vec<_>>(),
            "it was written anew, and only that"
        );
    }
}
