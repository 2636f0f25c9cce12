//! Kernels made at run time, kept in the user's own folder.
//!
//! A file holds the whole of what its image was made from, so that a name that two keys share cannot give a wrong kernel,
//! and a checksum, so that a damaged file is compiled again. Files are written under another name and renamed: two
//! processes may fill the cache at once. A folder that cannot be written costs a compilation in each process, no more.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::{env, fs, process};

/// A folder of images, if there is one.
pub(crate) struct Cache(Option<PathBuf>);

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Cache {
    /// The user's: `PARASCAN_CACHE`, else `parascan` in the cache folder.
    pub(crate) fn of_user() -> Cache {
        Cache::by(|variable| env::var_os(variable))
    }

    fn by(variable: impl Fn(&str) -> Option<OsString>) -> Cache {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Cache(
            named("PARASCAN_CACHE")
                .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("parascan")))
                .or_else(|| named("LOCALAPPDATA").map(|folder| folder.join("parascan")))
                .or_else(|| named("HOME").map(|folder| folder.join(".cache").join("parascan"))),
        )
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &std::path::Path) -> Cache {
        Cache(Some(folder.to_owned()))
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(format!("{:016x}.image", hash(key.as_bytes()))))
    }

    /// The image that was made from `key`, if it is there and whole.
    pub(crate) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(self.file(key)?).ok()?;
        let (sum, rest) = bytes.split_first_chunk::<8>()?;
        let (length, body) = rest.split_first_chunk::<8>()?;
        let whole = u64::from_le_bytes(*sum) == hash(rest);
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        (whole && body.get(..length)? == key.as_bytes()).then(|| body[length..].to_vec())
    }

    /// Keeps the image that was made from `key`, if it can.
    pub(crate) fn write(&self, key: &str, image: &[u8]) {
        let Some(file) = self.file(key) else { return };
        let mut rest = (key.len() as u64).to_le_bytes().to_vec();
        rest.extend_from_slice(key.as_bytes());
        rest.extend_from_slice(image);
        let mut bytes = hash(&rest).to_le_bytes().to_vec();
        bytes.append(&mut rest);
        // The thread too: two of one process may make the same kernel.
        let unfinished = file.with_extension(format!("{}.{:?}", process::id(), std::thread::current().id()));
        let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&unfinished, bytes));
        if written.and_then(|()| fs::rename(&unfinished, &file)).is_err() {
            let _ = fs::remove_file(&unfinished);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let folder = env::temp_dir().join(format!("parascan-cache-{}", process::id()));
        let cache = Cache::at(&folder);
        assert_eq!(cache.read("key"), None, "nothing is there yet");
        cache.write("key", b"image");
        assert_eq!(cache.read("key").as_deref(), Some(&b"image"[..]));
        assert_eq!(cache.read("other"), None);

        let path = cache.file("key").unwrap();
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.read("key"), None, "byte {at} is damaged");
            fs::write(&path, &good[..at]).unwrap();
            assert_eq!(cache.read("key"), None, "cut at {at}");
        }
        // Another key under the same name, as if the names collided.
        cache.write("key", b"image");
        fs::rename(&path, cache.file("other").unwrap()).unwrap();
        assert_eq!(cache.read("other"), None, "the file is another key's");
        cache.write("key", b"again");
        assert_eq!(cache.read("key").as_deref(), Some(&b"again"[..]));
        fs::remove_dir_all(&folder).unwrap();

        // No folder, and one that cannot be made: nothing is kept, nothing fails.
        for cache in [Cache(None), Cache::at(Path::new("/dev/null/parascan"))] {
            cache.write("key", b"image");
            assert_eq!(cache.read("key"), None);
        }
    }

    #[test]
    fn the_folder() {
        let of = |variables: &[(&str, &str)]| {
            Cache::by(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())).0
        };
        let (named, home) = (("PARASCAN_CACHE", "/named"), ("HOME", "/home/her"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[home, named]), Some("/named".into()));
        assert_eq!(of(&[home, ("PARASCAN_CACHE", "")]), Some("/home/her/.cache/parascan".into()));
        assert_eq!(of(&[home, ("XDG_CACHE_HOME", "/caches")]), Some("/caches/parascan".into()));
    }
}
