//! Prebuilt kernels: PTX of the catalog's units, in packages of their own (`prebuilt/`), for machines
//! without NVRTC.
//!
//! A file's name says what it was made from, so build.rs embeds no image of other templates. The
//! hash is one that every Rust version computes alike, since packages outlive a toolchain.

use super::nvrtc::{FLAGS, Target};
use std::path::{Path, PathBuf};

/// The command that makes the files.
const MAKER: &str = "prebuilt/make";

/// The name of the file with PTX of a unit: the compute capability, and a hash of the flags, of the
/// text and of the stubs of the templates that the text includes.
pub(crate) fn file_name(capability: u32, source: &str, stubs: &[(&str, &str)]) -> String {
    let stubs = stubs.iter().flat_map(|&(name, stub)| [name, stub]);
    format!("ptx{capability}-{}", hash(FLAGS.into_iter().chain([source]).chain(stubs)))
}

/// What stands for a template in a key and in the name of a file, since templates are long: a hash of its
/// text, and the lines by which it includes others.
pub(crate) fn stub(template: &str) -> String {
    let includes: Vec<&str> = template.lines().filter(|line| line.contains("include")).collect();
    format!("{}\n{}", hash([template]), includes.join("\n"))
}

/// FNV-1a of 128 bits, of texts and their lengths.
fn hash<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for text in texts {
        for &byte in (text.len() as u64).to_le_bytes().iter().chain(text.as_bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    format!("{hash:032x}")
}

/// The files for some units, in their order, each with its target; `None` if there are no files at
/// all, as in a checkout of the repository.
///
/// # Errors
/// A sentence, if the files are not those of exactly these units.
pub(crate) fn find(
    files: &[PathBuf],
    units: &[(&str, Vec<(&str, &str)>)],
) -> Result<Option<Vec<(Target, PathBuf)>>, String> {
    let Some(first) = files.first() else { return Ok(None) };
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let capability = name(first).strip_prefix("ptx").and_then(|rest| rest.split('-').next()?.parse().ok());
    let stale = |why: String| {
        format!(
            "the prebuilt kernels are not of these templates ({why}): `{MAKER}` makes them anew, `{MAKER} none` removes \
             them, and a build without the feature `prebuilt` uses none"
        )
    };
    let Some(capability) = capability else { return Err(stale(format!("no unit is called {}", first.display()))) };
    let mut left: Vec<(String, &PathBuf)> = files.iter().map(|file| (name(file), file)).collect();
    let mut found = Vec::new();
    for (source, templates) in units {
        let wanted = file_name(capability, source, templates);
        let Some(at) = left.iter().position(|(name, _)| *name == wanted) else {
            return Err(stale(format!("{wanted} is missing")));
        };
        found.push((Target::Ptx(capability), left.swap_remove(at).1.clone()));
    }
    match left.first() {
        Some((_, file)) => Err(stale(format!("no unit is called {}", file.display()))),
        None => Ok(Some(found)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FNV-1a of 128 bits of what stands beside it, by another program.
    #[test]
    fn the_name_is_the_same_in_every_build() {
        assert_eq!(file_name(75, "text", &[("a.cuh", "one"), ("b.cuh", "two")]), NAME);
    }
    const NAME: &str = "ptx75-5feef79fcf578c98c18e8607e18ab94f";

    #[test]
    fn the_files_are_those_of_the_units_or_an_error() {
        let units = [("one", vec![("a.cuh", "x")]), ("two", vec![("a.cuh", "x"), ("b.cuh", "y")]), ("three", vec![])];
        let files: Vec<PathBuf> =
            units.iter().map(|(text, of)| Path::new("/p").join(file_name(75, text, of))).collect();
        let found = |files: &[PathBuf]| find(files, &units);
        let all: Vec<_> = files.iter().map(|file| (Target::Ptx(75), file.clone())).collect();
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&files), Ok(Some(all.clone())));
        assert_eq!(found(&[2, 0, 1].map(|k: usize| files[k].clone())), Ok(Some(all)), "in the order of the units");
        let refused = |files: &[PathBuf], why: &str| {
            let words = found(files).unwrap_err();
            assert!(words.contains(why) && words.contains(MAKER), "{words}");
        };
        refused(&files[1..], "is missing");
        // Of a template that was changed since, of another unit, and of another architecture.
        for other in [file_name(75, "two", &[("a.cuh", "x"), ("b.cuh", "z")]), file_name(90, "two", &units[1].1)] {
            let mut files = files.clone();
            files[1] = Path::new("/p").join(other);
            refused(&files, "is missing");
        }
        let more = |name: &str| [&files[..], &[Path::new("/p").join(name)]].concat();
        refused(&more(&file_name(75, "four", &[])), "no unit is called /p/ptx75-");
        refused(&more(".gitkeep"), "no unit is called /p/.gitkeep");
        refused(&[PathBuf::from("/p/notes")], "no unit is called /p/notes");
    }
}
