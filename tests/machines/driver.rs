//! No driver, or a driver without a device: an error that says so, never a panic, and the CPU still
//! works.
//!
//! The driver of such a machine is a file that the dynamic linker finds before any other.

use crate::common::process::{Folder, again, pass, start};
use parascan::{Error, Sum, cuda, scan};
use std::env;
use std::process::Command;

/// Runs `command` with `folder` first in the library path.
fn with_driver_in(mut command: Command, folder: &Folder) {
    let mut path = folder.path().as_os_str().to_owned();
    if let Some(rest) = env::var_os("LD_LIBRARY_PATH") {
        path.push(":");
        path.push(rest);
    }
    pass(start(command.env("LD_LIBRARY_PATH", path)));
}

/// The same with a driver written in C.
fn with_driver_of(command: Command, c: &str) {
    let folder = Folder::new();
    if folder.library("libcuda.so.1", c).is_some() {
        with_driver_in(command, &folder);
    }
}

/// The message of `cuda::context` for each device of a machine without one; the host engine must
/// work too.
fn refusals() -> [Error; 2] {
    let refusals = [0, 7].map(|ordinal| cuda::context(ordinal).expect_err("there is no such device"));
    assert_eq!(scan::<Sum, i32>().run(&[1, 2, 3]).unwrap(), [1, 3, 6]);
    refusals
}

#[track_caller]
fn assert_no_driver(error: &Error, hint: &str) {
    let Error::NoDriver { reason } = error else { panic!("{error:?} should be NoDriver") };
    assert!(reason.contains(hint), "{reason}");
    assert_eq!(error.to_string(), format!("no CUDA driver on this machine ({reason}); data in host memory needs none"));
}

#[track_caller]
fn assert_no_device(error: &Error, reason: &str) {
    let Error::NoDevice { reason: given } = error else { panic!("{error:?} should be NoDevice") };
    assert_eq!(given, reason);
    assert_eq!(error.to_string(), format!("the CUDA driver finds no device ({reason})"));
}

/// This machine as it is. With a driver the next test covers it.
#[test]
fn this_machine() {
    match cuda::context(0) {
        Ok(_) | Err(Error::NoDevice { .. }) => eprintln!("skipped, there is a driver"),
        Err(e) => assert_no_driver(&e, "libcuda.so.1"),
    }
}

#[test]
fn a_driver_that_is_no_library() {
    let Some(command) = again(a_driver_that_is_no_library) else {
        return refusals().iter().for_each(|e| assert_no_driver(e, "libcuda.so.1"));
    };
    let folder = Folder::new();
    folder.file("libcuda.so.1", "not a library, long enough to be looked at as one: sixty-four bytes and more");
    folder.file("libcuda.so", "not a library, long enough to be looked at as one: sixty-four bytes and more");
    with_driver_in(command, &folder);
}

#[test]
fn a_driver_without_its_functions() {
    let Some(command) = again(a_driver_without_its_functions) else {
        return refusals().iter().for_each(|e| assert_no_driver(e, "cuInit"));
    };
    with_driver_of(command, "int another_function(void) { return 0; }\n");
}

#[test]
fn a_driver_that_says_no_device() {
    let Some(command) = again(a_driver_that_says_no_device) else {
        return refusals().iter().for_each(|e| assert_no_device(e, "cuInit answered 100"));
    };
    let c = "int cuInit(unsigned flags) { return 100; }
             int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n";
    with_driver_of(command, c);
}

#[test]
fn a_driver_that_counts_no_device() {
    let Some(command) = again(a_driver_that_counts_no_device) else {
        return refusals().iter().for_each(|e| assert_no_device(e, "cuDeviceGetCount counts none"));
    };
    let c = "int cuInit(unsigned flags) { return 0; }
             int cuDeviceGetCount(int *count) { *count = 0; return 0; }\n";
    with_driver_of(command, c);
}

#[test]
fn a_device_beyond_the_last() {
    let Some(command) = again(a_device_beyond_the_last) else {
        let error = cuda::context(7).expect_err("there are two");
        return assert_no_device(&error, "device 7 was asked for and there are 2");
    };
    let c = "int cuInit(unsigned flags) { return 0; }
             int cuDeviceGetCount(int *count) { *count = 2; return 0; }\n";
    with_driver_of(command, c);
}

/// A driver that does not fit the kernel module, for one: the message has the call and its result.
#[test]
fn a_driver_that_fails() {
    let Some(command) = again(a_driver_that_fails) else {
        for error in refusals() {
            let words = error.to_string();
            let code = words.contains("803") || words.contains("SYSTEM_DRIVER_MISMATCH");
            assert!(words.contains("cuInit") && code, "{words}");
        }
        return;
    };
    let c = "int cuInit(unsigned flags) { return 803; }
             int cuDeviceGetCount(int *count) { *count = 1; return 0; }\n";
    with_driver_of(command, c);
}
