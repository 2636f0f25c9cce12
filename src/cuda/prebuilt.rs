//! Prebuilt kernels: PTX of the catalog's units, in packages of their own (`prebuilt/`), for machines
//! without NVRTC.
//!
//! A file's name says what it was made from, so build.rs embeds no image of other templates. The
//! hash is one that every Rust version computes alike, since packages outlive a toolchain.

use super::nvrtc::{FLAGS, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

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

/// The files of some units, in their order: of each unit a file for each compute capability that any file is for.
/// Empty if there are no files at all, as in a checkout of the repository.
///
/// # Errors
/// A sentence, if the files are not those of exactly these units.
pub(crate) fn find(
    files: &[PathBuf],
    units: &[(&str, Vec<(&str, &str)>)],
) -> Result<Vec<Vec<(Target, PathBuf)>>, String> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let stale = |why: String| {
        format!(
            "the prebuilt kernels are not of these templates ({why}): `{MAKER}` makes them anew, `{MAKER} none` removes \
             them, and a build without the feature `prebuilt` uses none"
        )
    };
    let mut left: BTreeMap<&str, &PathBuf> = BTreeMap::new();
    let mut capabilities = BTreeSet::new();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let capability = name.strip_prefix("ptx").and_then(|rest| rest.split('-').next()?.parse().ok());
        capabilities.insert(capability.ok_or_else(|| stale(format!("no unit is called {}", file.display())))?);
        left.insert(name, file);
    }
    let mut found = vec![Vec::new(); units.len()];
    for capability in capabilities {
        for (of_unit, (source, templates)) in found.iter_mut().zip(units) {
            let wanted = file_name(capability, source, templates);
            let file = left.remove(wanted.as_str()).ok_or_else(|| stale(format!("{wanted} is missing")))?;
            of_unit.push((Target::Ptx(capability), file.clone()));
        }
    }
    match left.into_values().next() {
        Some(file) => Err(stale(format!("no unit is called {}", file.display()))),
        None => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// FNV-1a of 128 bits of what stands beside it, by another program.
    #[test]
    fn the_name_is_the_same_in_every_build() {
        assert_eq!(file_name(75, "text", &[("a.cuh", "one"), ("b.cuh", "two")]), NAME);
    }
    const NAME: &str = "ptx75-5feef79fcf578c98c18e8607e18ab94f";

    #[test]
    fn the_files_are_those_of_the_units_or_an_error() {
        let units = [("one", vec![("a.cuh", "x")]), ("two", vec![("a.cuh", "x"), ("b.cuh", "y")]), ("three", vec![])];
        let of = |capability| {
            let file = |(text, of): &(&str, Vec<_>)| Path::new("/p").join(file_name(capability, text, of));
            Vec::from_iter(units.iter().map(file))
        };
        let (files, newer) = (of(75), of(80));
        let found = |files: &[PathBuf]| find(files, &units);
        let all: Vec<_> = files.iter().map(|file| vec![(Target::Ptx(75), file.clone())]).collect();
        assert_eq!(found(&[]), Ok(Vec::new()));
        assert_eq!(found(&files), Ok(all.clone()));
        assert_eq!(found(&[2, 0, 1].map(|k: usize| files[k].clone())), Ok(all.clone()), "in the order of the units");
        let both = |(mut of_unit, file): (Vec<_>, &PathBuf)| {
            of_unit.push((Target::Ptx(80), file.clone()));
            of_unit
        };
        let both: Vec<_> = all.into_iter().zip(&newer).map(both).collect();
        assert_eq!(found(&[&newer[..], &files].concat()), Ok(both), "of two capabilities");
        let refused = |files: &[PathBuf], why: &str| {
            let words = found(files).unwrap_err();
            assert!(words.contains(why) && words.contains(MAKER), "{words}");
        };
        refused(&files[1..], "is missing");
        refused(&[&newer[1..], &files].concat(), "is missing");
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
