//! Says whether the tests compile what they do on the device: where there is a CUDA driver, or where
//! PARASCAN_CUDA_ARCHS says for which devices to build. Elsewhere no test could run it, and to compile it
//! takes a seventh of `cargo test`. PARASCAN_TESTS_ON_DEVICE=0 says so of a machine that builds images for others.

use std::env;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(on_device)");
    println!("cargo::rerun-if-env-changed=PARASCAN_CUDA_ARCHS");
    println!("cargo::rerun-if-env-changed=PARASCAN_TESTS_ON_DEVICE");
    println!("cargo::rerun-if-changed=build.rs");
    let driver = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
    // SAFETY: the driver's library has no code that runs when it is loaded but its own.
    let has_driver = || unsafe { libloading::Library::new(driver) }.is_ok();
    let refused = env::var("PARASCAN_TESTS_ON_DEVICE").as_deref() == Ok("0");
    if !refused && (env::var_os("PARASCAN_CUDA_ARCHS").is_some() || has_driver()) {
        println!("cargo::rustc-cfg=on_device");
    }
}
