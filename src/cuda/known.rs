//! What a process needs to know of NVRTC to find kernels in the cache: its version and the
//! architectures that it supports. To learn them, a process loads 100 MB, and may have to start a
//! Python interpreter to find them.
//!
//! So the cache keeps them beside the images, and a process whose kernels are all in the cache loads
//! no compiler. The entry is read as an image is: no other user could write it, and it is whole. Its
//! key has the driver's major version and the environment variables of the search. It lists the library's file and the places that
//! the search looked at, each with size, time of modification and inode, and counts only while all
//! of them are as they were. If the search would still find another library, as by the run path of
//! another program, the entry is that of a compiler that has made the images under its version.

use super::cache::Cache;
use super::driver;
use super::nvrtc::{Nvrtc, VARIABLES, Version};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub(super) version: Version,
    /// The compute capabilities that it compiles for, ascending.
    pub(super) architectures: Vec<u32>,
}

impl Known {
    /// What the cache has, if it still holds.
    pub(super) fn read(cache: &Cache) -> Option<Known> {
        Known::parse(&String::from_utf8(cache.read(&key())?).ok()?)
    }

    /// Asks the loaded compiler, and keeps the answer.
    pub(super) fn ask(nvrtc: &Nvrtc, cache: &Cache) -> Result<Known, String> {
        let known = Known { version: nvrtc.version(), architectures: nvrtc.architectures()? };
        if let Some(file) = nvrtc.file()
            && let Some(entry) = known.entry(&file, nvrtc.places())
            && Known::parse(&entry).is_some()
            && cache.read(&key()).is_none_or(|kept| kept != entry.as_bytes())
        {
            cache.write(&key(), entry.as_bytes());
        }
        Ok(known)
    }

    /// The version, the architectures, then a line for each file and folder, the library first.
    /// `None` if a path is no text of one line.
    fn entry(&self, library: &Path, places: &[impl AsRef<Path>]) -> Option<String> {
        let (major, minor, bytes) = self.version;
        let architectures: Vec<String> = self.architectures.iter().map(u32::to_string).collect();
        let mut entry = format!("{major} {minor} {bytes}\n{}", architectures.join(" "));
        for place in [library].into_iter().chain(places.iter().map(AsRef::as_ref)) {
            let path = std::path::absolute(place).ok()?;
            let path = path.to_str().filter(|path| !path.contains('\n'))?;
            entry += &format!("\n{} {path}", state(Path::new(path)));
        }
        Some(entry)
    }

    fn parse(entry: &str) -> Option<Known> {
        let mut lines = entry.lines();
        let mut version = lines.next()?.split(' ');
        let mut number = || version.next();
        let version = (number()?.parse().ok()?, number()?.parse().ok()?, number()?.parse().ok()?);
        let architectures = lines.next()?.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let mut places = lines.map(|line| line.split_once(' '));
        let (of_library, library) = places.next()??;
        let is_there = of_library != ABSENT && state(Path::new(library)) == of_library;
        let unchanged = places.all(|place| place.is_some_and(|(then, path)| state(Path::new(path)) == then));
        (is_there && unchanged).then_some(Known { version, architectures })
    }
}

/// The state of a file that does not exist.
const ABSENT: &str = "-";

/// The size, the time of modification in nanoseconds, and the inode of a file or folder.
fn state(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else { return ABSENT.into() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    format!("{}/{}/{inode}", metadata.len(), modified.map_or(0, |time| time.as_nanos()))
}

/// The name of the entry: what the search depends on besides the places. The current folder is part
/// of it if a variable has a relative path.
fn key() -> String {
    let values: Vec<(&str, Option<OsString>)> = VARIABLES.iter().map(|&name| (name, env::var_os(name))).collect();
    let is_relative = |value: &OsString| env::split_paths(value).any(|path| !path.is_absolute());
    let folder = values.iter().filter_map(|(_, value)| value.as_ref()).any(is_relative).then(env::current_dir);
    let driver = driver::version().map(|version| version / 1000);
    format!("compiler {driver:?} {values:?} {:?}", folder.and_then(Result::ok))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::compiler::{Compiler, Folder, compiler_for_tests};
    use crate::cuda::kernels::Capability;
    use crate::cuda::nvrtc::Target;
    use std::fs::File;
    use std::time::Duration;

    #[test]
    fn an_entry_holds_while_library_and_places_are_as_they_were() {
        let folder = Folder::new("known");
        fs::create_dir_all(&folder.0).unwrap();
        let (library, absent, searched) = (folder.0.join("lib.so"), folder.0.join("earlier.so"), folder.0.join("lib"));
        let write = |bytes: &[u8]| fs::write(&library, bytes).unwrap();
        write(b"a library");
        fs::create_dir(&searched).unwrap();
        let known = Known { version: (13, 0, 9), architectures: vec![75, 90] };
        let entry = known.entry(&library, &[&absent, &searched]).unwrap();
        let holds = |expected: bool, why: &str| {
            assert_eq!(Known::parse(&entry), expected.then(|| known.clone()), "{why}");
        };
        holds(true, "as it was written");

        let time = fs::metadata(&library).unwrap().modified().unwrap();
        let set = |time| File::options().write(true).open(&library).unwrap().set_modified(time).unwrap();
        write(b"longer than it was");
        set(time);
        holds(false, "another size");
        write(b"a library");
        holds(false, "another time");
        set(time + Duration::from_nanos(1));
        holds(false, "a time later by a nanosecond");
        set(time);
        holds(true, "as it was again");
        if cfg!(unix) {
            let other = folder.0.join("other.so");
            fs::write(&other, b"a library").unwrap();
            File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
            let saved = folder.0.join("saved.so");
            fs::rename(&library, &saved).unwrap();
            holds(false, "no library");
            fs::rename(&other, &library).unwrap();
            holds(false, "another file of the same size and time");
            fs::rename(&saved, &library).unwrap();
        }
        holds(true, "as it was again");

        fs::write(&absent, b"").unwrap();
        holds(false, "a library in an earlier place");
        fs::remove_file(&absent).unwrap();
        holds(true, "as it was again");
        fs::write(searched.join("libnvrtc.so.99"), b"").unwrap();
        holds(false, "another library in a folder of the search");
    }

    #[test]
    fn a_loaded_compiler_asks_no_entry() {
        if compiler_for_tests().is_none() {
            return;
        }
        let folder = Folder::new("loaded");
        fs::create_dir_all(&folder.0).unwrap();
        let (library, cache) = (folder.0.join("lib.so"), Cache::at(&folder.0));
        fs::write(&library, b"a library").unwrap();
        let target = || Compiler::get("unit", Capability { major: 9, minor: 0 }, &cache).unwrap().target;
        assert_eq!(target(), Target::Cubin(90), "now it is loaded");
        let other = Known { version: (12, 0, 1), architectures: vec![75] };
        cache.write(&key(), other.entry(&library, &[] as &[&Path]).unwrap().as_bytes());
        assert_eq!(Known::read(&cache), Some(other), "of another program");
        assert_eq!(target(), Target::Cubin(90));
    }

    #[test]
    fn a_text_that_is_no_entry() {
        let folder = Folder::new("no-entry");
        fs::create_dir_all(&folder.0).unwrap();
        let library = folder.0.join("lib.so");
        fs::write(&library, b"a library").unwrap();
        let known = Known { version: (12, 4, 9), architectures: vec![90] };
        let none: [&Path; 0] = [];
        let entry = known.entry(&library, &none).unwrap();
        assert_eq!(Known::parse(&entry), Some(known.clone()));
        for end in 0..entry.len() {
            assert_eq!(Known::parse(&entry[..end]), None, "cut at {end}");
        }
        // A library that does not exist, even if it did not exist when the entry was written.
        assert_eq!(Known::parse(&known.entry(&folder.0.join("none.so"), &none).unwrap()), None);
        assert_eq!(known.entry(Path::new("/two\nlines"), &none), None);
    }
}
