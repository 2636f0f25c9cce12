//! A test in a process of its own.

use std::any::type_name;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The name of the test that the process was started for.
const VARIABLE: &str = "PARASCAN_TEST_ALONE";

/// A command that runs the calling test alone in a new process, or `None` in that process.
pub fn again<Test: Fn()>(_test: Test) -> Option<Command> {
    // The harness knows `main::machines::driver::no_driver` without the crate's name.
    let (_, test) = type_name::<Test>().split_once("::").expect("a path");
    if env::var(VARIABLE).as_deref() == Ok(test) {
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("the path of the tests"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(VARIABLE, test);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// Whether this process runs `test` alone. If not, a new process has run it and passed.
pub fn is_alone<Test: Fn()>(test: Test) -> bool {
    match again(test) {
        None => true,
        Some(mut command) => {
            pass(start(&mut command));
            false
        }
    }
}

pub fn start(command: &mut Command) -> Child {
    command.spawn().expect("a process")
}

/// Waits until the test has passed in its process.
#[track_caller]
pub fn pass(child: Child) {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("the process ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "the process failed ({status}):\n{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "the process ran no test:\n{stdout}\n{stderr}");
    eprint!("{stderr}"); // what it skipped
}

/// A new folder, removed with the value.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("parascan-tests-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a temporary file");
        path
    }
    /// Compiles C to the shared library `name` and returns its path, or `None` without a C
    /// compiler.
    pub fn library(&self, name: &str, c: &str) -> Option<PathBuf> {
        let source = self.file(&format!("{name}.c"), c);
        let library = self.0.join(name);
        match Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output() {
            Err(e) => {
                eprintln!("skipped, no C compiler to make a stub of {name} with: {e}");
                None
            }
            Ok(Output { status, stderr, .. }) => {
                assert!(status.success(), "cc: {}", String::from_utf8_lossy(&stderr));
                Some(library)
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
