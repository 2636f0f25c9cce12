//! Kernels made at run time, kept in the user's own folder.
//!
//! A file holds the whole of what its image was made from, so that a name that two keys share cannot give a wrong kernel,
//! and a checksum, so that a damaged file is compiled again. Files are written under another name and renamed: two
//! processes may fill the cache at once. A folder that cannot be written costs a compilation in each process, no more.

use std::hash::{DefaultHasher, Hasher};
use std::path::PathBuf;
use std::{env, fs, process};

/// Where images lie: `PARASCAN_CACHE`, else `parascan` in the user's cache folder.
fn folder() -> Option<PathBuf> {
    let named = |variable| env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("PARASCAN_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("parascan")))
        .or_else(|| named("LOCALAPPDATA").map(|folder| folder.join("parascan")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache").join("parascan")))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn file(key: &str) -> Option<PathBuf> {
    Some(folder()?.join(format!("{:016x}.image", hash(key.as_bytes()))))
}

/// The image that was made from `key`, if it is there and whole.
pub(crate) fn read(key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(file(key)?).ok()?;
    let (sum, rest) = bytes.split_first_chunk::<8>()?;
    let (length, body) = rest.split_first_chunk::<8>()?;
    let whole = u64::from_le_bytes(*sum) == hash(rest);
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    (whole && body.get(..length)? == key.as_bytes()).then(|| body[length..].to_vec())
}

/// Keeps the image that was made from `key`, if it can.
pub(crate) fn write(key: &str, image: &[u8]) {
    let Some(file) = file(key) else { return };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let folder = env::temp_dir().join(format!("parascan-cache-{}", process::id()));
        // SAFETY: no other test of this binary reads or writes the environment.
        unsafe { env::set_var("PARASCAN_CACHE", &folder) };
        assert_eq!(read("key"), None, "nothing is there yet");
        write("key", b"image");
        assert_eq!(read("key").as_deref(), Some(&b"image"[..]));
        assert_eq!(read("other"), None);

        let path = file("key").unwrap();
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert_eq!(read("key"), None, "byte {at} is damaged");
            fs::write(&path, &good[..at]).unwrap();
            assert_eq!(read("key"), None, "cut at {at}");
        }
        // Another key under the same name, as if the names collided.
        write("key", b"image");
        fs::rename(&path, file("other").unwrap()).unwrap();
        assert_eq!(read("other"), None, "the file is another key's");
        write("key", b"again");
        assert_eq!(read("key").as_deref(), Some(&b"again"[..]));
        fs::remove_dir_all(&folder).unwrap();

        // A folder that cannot be made: nothing is kept, nothing fails.
        // SAFETY: as above.
        unsafe { env::set_var("PARASCAN_CACHE", "/dev/null/parascan") };
        write("key", b"image");
        assert_eq!(read("key"), None);
    }
}
