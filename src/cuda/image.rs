//! What an image is made from, and how it is kept: packed, in the program and in the cache.
//!
//! build.rs includes the module, so that a build and a process find each other's images.

use super::nvrtc::Target;
use std::hash::{DefaultHasher, Hasher};

/// All that an image is made from: the target, the compiler, its flags, the text of the unit, the
/// templates that the text includes, and the user's `files`. Templates stand in it by a hash of 128
/// bits each, since they are much longer than the rest.
pub(crate) fn key(
    target: Target,
    version: (i32, i32),
    flags: &[&str],
    source: &str,
    templates: &[(&str, &str)],
    files: &[String],
) -> String {
    let templates: Vec<String> = templates.iter().map(|(name, text)| format!("{name} {}", digest(text))).collect();
    let (length, files) = (source.len(), files.join("\n")); // the length says where the text ends
    format!("{target:?} {version:?} {flags:?} {length}\n{source}\n{templates:?}\n{files}")
}

/// A hash of 128 bits.
fn digest(text: &str) -> String {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write(&[salt]);
        hasher.write(text.as_bytes());
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(0), half(1))
}

/// The image compressed.
pub(crate) fn packed(image: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(image, 6)
}

/// The image itself, unless the bytes are damaged.
pub(crate) fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    miniz_oxide::inflate::decompress_to_vec(packed).ok()
}
