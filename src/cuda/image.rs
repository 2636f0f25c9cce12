//! The key of an image, and its packed form in the program and in the cache.
//!
//! build.rs includes the module, so a build and a process find each other's images.

use super::nvrtc::{Target, Version};

/// Returns the key of an image: the target, the compiler, its flags, the text of the unit, the
/// stubs of the templates that the compiler gets, and the user's `files`.
pub(crate) fn key(
    target: Target,
    version: Version,
    flags: &[&str],
    source: &str,
    stubs: &[(&str, &str)],
    files: &[String],
) -> String {
    // The length marks the end of the text.
    let (length, files) = (source.len(), files.join("\n"));
    format!("{target:?} {version:?} {flags:?} {length}\n{source}\n{stubs:?}\n{files}")
}

/// Compresses an image.
pub(crate) fn packed(image: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec(image, 6)
}

/// Returns the image, unless the bytes are damaged.
pub(crate) fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
    miniz_oxide::inflate::decompress_to_vec(packed).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::prebuilt::stub;
    use std::collections::HashSet;

    #[test]
    fn the_key_changes_with_all_that_an_image_is_made_from() {
        let stubs = ["one", "two", "three"].map(stub);
        let templates = [("a.cuh", stubs[0].as_str()), ("b.cuh", &stubs[1])];
        let other_templates = [templates[0], ("b.cuh", &stubs[2])];
        let flags = ["--std=c++17", "--fmad=false"];
        let keys = [
            key(Target::Cubin(90), (13, 0, 7), &flags, "text", &templates, &[]),
            key(Target::Cubin(80), (13, 0, 7), &flags, "text", &templates, &[]),
            key(Target::Ptx(90), (13, 0, 7), &flags, "text", &templates, &[]),
            key(Target::Cubin(90), (13, 1, 7), &flags, "text", &templates, &[]),
            key(Target::Cubin(90), (13, 0, 8), &flags, "text", &templates, &[]),
            key(Target::Cubin(90), (13, 0, 7), &flags[..1], "text", &templates, &[]),
            key(Target::Cubin(90), (13, 0, 7), &["--other", flags[0], flags[1]], "text", &templates, &[]),
            key(Target::Cubin(90), (13, 0, 7), &flags, "other text", &templates, &[]),
            key(Target::Cubin(90), (13, 0, 7), &flags, "text", &other_templates, &[]),
            key(Target::Cubin(90), (13, 0, 7), &flags, "text", &templates[..1], &[]),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }

    #[test]
    fn an_image_is_unpacked_as_it_was_and_a_damaged_one_is_not() {
        let image: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        let packed = packed(&image);
        assert_eq!(unpacked(&packed).as_ref(), Some(&image));
        assert_eq!(unpacked(&packed[..packed.len() / 2]), None);
    }
}
