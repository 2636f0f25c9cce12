//! Compiled kernels, which builds and processes keep in the user's folder.
//!
//! A file holds the key of its image, so two keys whose hashes are one file name cannot give a
//! wrong kernel. It also holds a checksum, so a damaged file is compiled again. A writer writes
//! under another name and renames the file, so two processes may fill the cache at once. A folder
//! that cannot be written costs a compilation in each process, and nothing else.
//!
//! An image is code that runs on the device with the rights of the process. On Unix the folder and
//! each image must therefore belong to the effective user, and no other user may write them. A
//! folder that fails this test is not used, and one line on stderr says so. An image that fails it
//! is compiled again. On Windows the module reads no access lists: the default folder is below
//! `LOCALAPPDATA`, which is the user's own.
//!
//! The images together take at most `PARASCAN_CACHE_MIB`. Each read sets the image's time of
//! modification, and each write removes the images with the oldest times until the rest fit.
//! Processes lock nothing: on Unix a process can read an image to its end while another one removes
//! it.
//!
//! The module needs the standard library alone, so build.rs can include it.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use std::{env, fs, process};

/// The default size of a cache on disk, in MiB; `PARASCAN_CACHE_MIB` sets another one.
const DEFAULT_MIB: u64 = 256;

/// The age at which the writer of an unfinished file is taken for dead.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// A folder of images, if there is one.
pub(crate) struct Cache {
    folder: Option<PathBuf>,
    /// The most bytes of all images together.
    most: u64,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Cache {
    /// The user's cache: the folder `PARASCAN_CACHE`, else `parascan` in the user's cache folder.
    pub(crate) fn of_user() -> Cache {
        Cache::by(|variable| env::var_os(variable))
    }

    fn by(variable: impl Fn(&str) -> Option<OsString>) -> Cache {
        let named = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = named("PARASCAN_CACHE")
            .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("parascan")))
            .or_else(|| named("LOCALAPPDATA").map(|folder| folder.join("parascan")))
            .or_else(|| named("HOME").map(|folder| folder.join(".cache").join("parascan")));
        let mib = match named("PARASCAN_CACHE_MIB") {
            None => Some(DEFAULT_MIB),
            Some(number) => number.to_str().and_then(|number| number.trim().parse().ok()),
        };
        match mib {
            Some(mib) => Cache { folder, most: mib.saturating_mul(1 << 20) },
            None => {
                refuse("PARASCAN_CACHE_MIB is not a whole number of MiB");
                Cache { folder: None, most: 0 }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn at(folder: &Path) -> Cache {
        Cache { folder: Some(folder.to_owned()), most: DEFAULT_MIB << 20 }
    }

    #[cfg(test)]
    pub(crate) fn none() -> Cache {
        Cache { folder: None, most: 0 }
    }

    /// The folder, if it exists and no other user can write it.
    fn folder(&self) -> Option<&Path> {
        let folder = self.folder.as_deref()?;
        // The test follows links: users link from their cache folder to a larger disk.
        let metadata = fs::metadata(folder).ok().filter(Metadata::is_dir)?;
        match private(&metadata) {
            Ok(()) => Some(folder),
            Err(reason) => {
                refuse(&format!("{} {reason}", folder.display()));
                None
            }
        }
    }

    /// The image made from `key`, if it exists, is whole, and no other user could write it.
    pub(crate) fn read(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.folder()?.join(name(key));
        let mut file = File::open(&path).ok()?;
        // The test is of the open file, as the name may lead to another file by now.
        private(&file.metadata().ok()?).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        let (sum, rest) = bytes.split_first_chunk::<8>()?;
        let (length, body) = rest.split_first_chunk::<8>()?;
        let whole = u64::from_le_bytes(*sum) == hash(rest);
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let image = (whole && body.get(..length)? == key.as_bytes()).then(|| body[length..].to_vec())?;
        // This fails on a read-only disk, where no process removes images either.
        let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(image)
    }

    /// Keeps the image made from `key`, if possible.
    pub(crate) fn write(&self, key: &str, image: &[u8]) {
        let _ = self.try_to_write(key, image);
    }

    fn try_to_write(&self, key: &str, image: &[u8]) -> io::Result<()> {
        let mut rest = (key.len() as u64).to_le_bytes().to_vec();
        rest.extend_from_slice(key.as_bytes());
        rest.extend_from_slice(image);
        let mut bytes = hash(&rest).to_le_bytes().to_vec();
        bytes.append(&mut rest);
        if bytes.len() as u64 > self.most {
            return Ok(()); // The image would push out all others.
        }
        if let Some(folder) = &self.folder {
            create(folder)?;
        }
        let Some(folder) = self.folder() else { return Ok(()) };
        let unfinished = Unfinished::new(folder, key);
        create_new(&unfinished.0)?.write_all(&bytes)?;
        let file = folder.join(name(key));
        fs::rename(&unfinished.0, &file)?;
        self.tidy(folder, &file)
    }

    /// Removes the least recently used images until the rest fit, but not `written`, and the
    /// unfinished files of writers that were killed.
    fn tidy(&self, folder: &Path, written: &Path) -> io::Result<()> {
        let now = SystemTime::now();
        let mut images = Vec::new();
        // A file without metadata: another process has removed it meanwhile.
        for entry in fs::read_dir(folder)?.flatten() {
            let (Ok(metadata), path) = (entry.metadata(), entry.path()) else { continue };
            let modified = metadata.modified()?;
            match extension(&path) {
                Some(IMAGE) => images.push((modified, metadata.len(), path)),
                Some(UNFINISHED) if now.duration_since(modified).is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        images.sort_unstable();
        let mut bytes: u64 = images.iter().map(|(_, length, _)| length).sum();
        for (_, length, path) in images.iter().filter(|(.., path)| path != written) {
            if bytes <= self.most {
                break;
            }
            if fs::remove_file(path).is_ok() || !path.exists() {
                bytes -= length;
            }
        }
        Ok(())
    }
}

// ---- files

const IMAGE: &str = "image";
const UNFINISHED: &str = "unfinished";

/// The file name for the image made from `key`.
fn name(key: &str) -> String {
    format!("{:016x}.{IMAGE}", hash(key.as_bytes()))
}

/// The extension of a file that a cache wrote. The folder may hold other files.
fn extension(path: &Path) -> Option<&str> {
    let (hash, rest) = path.file_name()?.to_str()?.split_at_checked(16)?;
    let ours = rest.starts_with('.') && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    path.extension().filter(|_| ours)?.to_str()
}

/// The path of an unfinished file. Drop removes the file unless it was renamed.
struct Unfinished(PathBuf);

impl Unfinished {
    /// A name that no other writer has. Threads, processes, and machines that share a disk may make
    /// the same kernel.
    fn new(folder: &Path, key: &str) -> Unfinished {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, next) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let time = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
        Unfinished(folder.join(format!("{:016x}.{process}-{next}-{time}.{UNFINISHED}", hash(key.as_bytes()))))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Prints the reason why kernels are not kept, once in a process.
fn refuse(reason: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| eprintln!("parascan: kernels are compiled in each process and not kept: {reason}"));
}

/// # Errors
/// The reason, unless the folder or file belongs to the user and no other user may write it.
#[cfg(unix)]
fn private(metadata: &Metadata) -> Result<(), String> {
    unsafe extern "C" {
        // SAFETY: the signature is that of POSIX, where the call cannot fail; std has `uid_t` as
        // `u32` too.
        safe fn geteuid() -> u32;
    }
    private_to(geteuid(), metadata)
}

#[cfg(unix)]
fn private_to(user: u32, metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner != user {
        return Err(format!("belongs to user {owner} and not to {user}, as whom this process runs"));
    }
    if mode & 0o022 != 0 {
        return Err(format!("can be written by other users (mode {mode:o}): `chmod go-w` takes that from them"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn private(_: &Metadata) -> Result<(), String> {
    Ok(())
}

/// Creates the folder and its missing parents, for the user alone.
fn create(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Creates a file that does not exist yet, for the user alone.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, removed when dropped.
    struct Folder(PathBuf);
    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(env::temp_dir().join(format!("parascan-cache-{name}-{}", process::id())))
        }
        fn cache(&self) -> Cache {
            Cache::at(&self.0)
        }
        fn file(&self, key: &str) -> PathBuf {
            self.0.join(name(key))
        }
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// Sets the file's time of modification to `seconds` ago.
    fn age(path: &Path, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }

    #[test]
    fn what_was_written_is_read_and_what_was_damaged_is_not() {
        let folder = Folder::new("damaged");
        let cache = folder.cache();
        assert_eq!(cache.read("key"), None, "nothing is there yet");
        cache.write("key", b"image");
        assert_eq!(cache.read("key").as_deref(), Some(&b"image"[..]));
        assert_eq!(cache.read("other"), None);

        let path = folder.file("key");
        let good = fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.read("key"), None, "byte {at} is damaged");
            fs::write(&path, &good[..at]).unwrap();
            assert_eq!(cache.read("key"), None, "cut at {at}");
        }
        // The file has another key, as if the hashes of two keys were equal.
        cache.write("key", b"image");
        fs::rename(&path, folder.file("other")).unwrap();
        assert_eq!(cache.read("other"), None, "the file is another key's");
        cache.write("key", b"again");
        assert_eq!(cache.read("key").as_deref(), Some(&b"again"[..]));

        // Without a folder, or with one that cannot be made, the cache keeps nothing and nothing
        // fails.
        for cache in [Cache::none(), Cache::at(Path::new("/dev/null/parascan"))] {
            cache.write("key", b"image");
            assert_eq!(cache.read("key"), None);
        }
    }

    #[test]
    fn the_folder() {
        let of = |variables: &[(&str, &str)]| {
            let cache =
                Cache::by(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()));
            (cache.folder, cache.most)
        };
        let (named, home) = (("PARASCAN_CACHE", "/named"), ("HOME", "/home/her"));
        let most = 256 << 20;
        assert_eq!(of(&[]), (None, most));
        assert_eq!(of(&[home, named]), (Some("/named".into()), most));
        assert_eq!(of(&[home, ("PARASCAN_CACHE", "")]), (Some("/home/her/.cache/parascan".into()), most));
        assert_eq!(of(&[home, ("XDG_CACHE_HOME", "/caches")]), (Some("/caches/parascan".into()), most));
        assert_eq!(of(&[named, ("PARASCAN_CACHE_MIB", "3")]), (Some("/named".into()), 3 << 20));
        assert_eq!(of(&[named, ("PARASCAN_CACHE_MIB", "")]), (Some("/named".into()), most));
        assert_eq!(of(&[named, ("PARASCAN_CACHE_MIB", "999999999999999999")]), (Some("/named".into()), u64::MAX));
        assert_eq!(of(&[named, ("PARASCAN_CACHE_MIB", "much")]), (None, 0));
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_write_is_not_used() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
        let folder = Folder::new("private");
        let (outer, cache) = (folder.0.join("outer"), Cache::at(&folder.0.join("outer").join("inner")));
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        cache.write("key", b"image");
        let inner = cache.folder.clone().unwrap();
        let file = inner.join(name("key"));
        assert_eq!([&outer, &inner, &file].map(|path| mode(path)), [0o700, 0o700, 0o600], "as they are made");

        let has = |path: &Path, allowed: bool| {
            assert_eq!(cache.read("key").is_some(), allowed, "{path:?} has the mode {:o}", mode(path));
        };
        for (path, usual) in [(&inner, 0o700), (&file, 0o600)] {
            for others in [0o020, 0o002, 0o022, 0o077] {
                set(path, usual | others);
                has(path, false);
            }
            for others in [0o040, 0o004, 0o055, 0] {
                set(path, usual | others);
                has(path, true);
            }
        }
        // A write replaces a file that others can write.
        set(&file, 0o666);
        cache.write("key", b"again");
        assert_eq!((mode(&file), cache.read("key").as_deref()), (0o600, Some(&b"again"[..])));
        // A write does not use a folder that others can write.
        set(&inner, 0o777);
        cache.write("new", b"image");
        assert!(!inner.join(name("new")).exists());
        set(&inner, 0o700);

        // The test of a link is the test of its target.
        let link = folder.0.join("link");
        symlink(&inner, &link).unwrap();
        assert_eq!(Cache::at(&link).read("key").as_deref(), Some(&b"again"[..]));
        set(&inner, 0o702);
        assert_eq!(Cache::at(&link).read("key"), None);
        set(&inner, 0o700);

        // A file of another user is not used.
        let (metadata, user) = (fs::metadata(&file).unwrap(), fs::metadata(&file).unwrap().uid());
        assert_eq!(private_to(user, &metadata), Ok(()));
        assert!(private_to(user + 1, &metadata).unwrap_err().contains(&format!("belongs to user {user} and not to")));
        if user == 0 {
            for path in [&file, &inner] {
                std::os::unix::fs::chown(path, Some(1), None).unwrap();
                has(path, false);
                std::os::unix::fs::chown(path, Some(0), None).unwrap();
                has(path, true);
            }
        } else {
            assert!(private(&fs::metadata("/").unwrap()).is_err(), "the root's");
        }
    }

    #[test]
    fn the_images_used_the_longest_time_ago_are_removed() {
        let folder = Folder::new("bound");
        // All keys have one length: each file has 8 + 8 + 1 + 83 bytes.
        let cache = Cache { most: 400, ..folder.cache() };
        let keys = ["a", "b", "c", "d", "e", "f"];
        let kept = || keys.map(|key| folder.file(key).exists());
        for (k, key) in keys.iter().take(4).enumerate() {
            cache.write(key, &[k as u8; 83]);
            age(&folder.file(key), 1000 - k as u64);
        }
        fs::write(folder.0.join("notes.image"), [0; 1000]).unwrap();
        assert_eq!(fs::metadata(folder.file("a")).unwrap().len(), 100);
        assert_eq!(kept(), [true, true, true, true, false, false], "just as much as may be");
        assert!(cache.read("a").is_some());
        cache.write("e", &[4; 83]);
        assert_eq!(kept(), [true, false, true, true, true, false], "the oldest was used, so it is the next");
        // Two images must go, with a clock of another machine that is ahead.
        for (key, seconds) in [("a", 1000), ("d", 2000), ("e", 2000)] {
            let ahead = SystemTime::now() + Duration::from_secs(seconds);
            File::options().write(true).open(folder.file(key)).unwrap().set_modified(ahead).unwrap();
        }
        cache.write("f", &[5; 150]);
        assert_eq!(kept(), [false, false, false, true, true, true], "the one just written stays");
        // An image that cannot fit pushes out nothing. Nor does one in a cache of size zero.
        cache.write("a", &[0; 400]);
        assert_eq!(kept(), [false, false, false, true, true, true]);
        Cache { most: 0, ..folder.cache() }.write("a", b"");
        assert_eq!(kept(), [false, false, false, true, true, true]);
        assert!(folder.0.join("notes.image").exists(), "it is no cache's");
    }

    #[test]
    fn no_unfinished_file_stays() {
        let folder = Folder::new("unfinished");
        let cache = folder.cache();
        cache.write("key", b"image");
        let unfinished = ["old", "new"].map(|key| {
            // The path stays, as if the process were killed.
            let path = std::mem::ManuallyDrop::new(Unfinished::new(&folder.0, key)).0.clone();
            fs::write(&path, b"half").unwrap();
            path
        });
        age(&unfinished[0], 61 * 60);
        age(&unfinished[1], 59 * 60);
        let others = ["0123456789abcdef", "notes.unfinished", "0123456789abcdefg.unfinished"];
        for other in others {
            fs::write(folder.0.join(other), b"").unwrap();
            age(&folder.0.join(other), 2 * 60 * 60);
        }
        cache.write("key", b"image");
        assert!(!unfinished[0].exists(), "its writer is gone");
        assert!(unfinished[1].exists(), "its writer may be slow");
        assert_eq!(folder.names().len(), 1 + 1 + others.len(), "{:?}", folder.names());

        // With a folder in the image's place the file cannot be renamed, and is removed.
        let before = folder.names();
        fs::remove_file(folder.file("key")).unwrap();
        fs::create_dir(folder.file("key")).unwrap();
        cache.write("key", b"image");
        assert_eq!(folder.names(), before);
    }

    /// Processes fill one cache at once, whatever they ask for.
    #[cfg(unix)]
    #[test]
    fn one_line_says_why_nothing_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        if env::var_os("PARASCAN_TEST_ALONE").is_some() {
            for key in ["one", "two"] {
                assert_eq!(Cache::of_user().read(key), None);
                Cache::of_user().write(key, b"image");
            }
            return;
        }
        let folder = Folder::new("told");
        let (_, module) = module_path!().split_once("::").unwrap();
        let said = |mode: u32, mib: &str| {
            create(&folder.0).unwrap();
            fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
            let output = process::Command::new(env::current_exe().unwrap())
                .args(["--exact", &format!("{module}::one_line_says_why_nothing_is_kept"), "--nocapture"])
                .env("PARASCAN_TEST_ALONE", "1")
                .env("PARASCAN_CACHE", &folder.0)
                .env("PARASCAN_CACHE_MIB", mib)
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
            let lines = String::from_utf8(output.stderr).unwrap();
            (
                lines.lines().filter(|line| line.starts_with("parascan: ")).map(str::to_owned).collect(),
                folder.names().len(),
            )
        };
        let line =
            |reason: &str| vec![format!("parascan: kernels are compiled in each process and not kept: {reason}")];
        let path = folder.0.display();
        let writable = "can be written by other users (mode 777): `chmod go-w` takes that from them";
        assert_eq!(said(0o777, ""), (line(&format!("{path} {writable}")), 0));
        assert_eq!(said(0o700, "much"), (line("PARASCAN_CACHE_MIB is not a whole number of MiB"), 0));
        assert_eq!(said(0o700, "0"), (Vec::new(), 0));
        assert_eq!(said(0o700, "1"), (Vec::new(), 2));
    }

    /// The cache has room for some of the images only, so each thread removes images that others
    /// write and read.
    #[test]
    fn many_at_once() {
        let folder = Folder::new("many");
        let image = |k: usize| vec![k as u8; 1000 + k];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let folder = &folder;
                scope.spawn(move || {
                    let cache = Cache { most: 6000, ..folder.cache() };
                    for turn in 0..200 {
                        let k = (turn * 7 + thread * 3) % 10;
                        match cache.read(&k.to_string()) {
                            Some(read) => assert_eq!(read, image(k)),
                            None => cache.write(&k.to_string(), &image(k)),
                        }
                    }
                });
            }
        });
        let bytes: u64 = folder.names().iter().map(|name| fs::metadata(folder.0.join(name)).unwrap().len()).sum();
        assert!(bytes <= 6000, "{bytes}");
        assert!(folder.names().iter().all(|name| name.ends_with(IMAGE)), "{:?}", folder.names());
    }
}
