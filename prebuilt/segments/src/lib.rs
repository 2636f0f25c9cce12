//! PTX of [parascan](https://crates.io/crates/parascan)'s kernels, for GPU machines without NVRTC.
//! The build script of parascan embeds it; the crate has no other use.
#![no_std]

/// The folder of the files, one a kernel. It does not exist in a checkout of the
/// repository until `prebuilt/make` has made it.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ptx");
