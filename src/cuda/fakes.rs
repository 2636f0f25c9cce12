//! Drivers and compilers written in C, for tests of machines that this one is not.

use super::compiler::Folder;
use std::any::type_name;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A command that runs the calling test alone in a new process, or `None` in that process. The
/// dynamic linker finds the libraries in `folder` first, and kernels are kept in `folder/cache`.
pub(super) fn alone<Test: Fn()>(_test: Test, folder: &Path) -> Option<Command> {
    const VARIABLE: &str = "PARASCAN_TEST_ALONE";
    let (_, test) = type_name::<Test>().split_once("::").expect("a path");
    if env::var(VARIABLE).as_deref() == Ok(test) {
        return None;
    }
    let mut command = Command::new(env::current_exe().expect("the path of the tests"));
    command.args(["--exact", test, "--nocapture"]).env(VARIABLE, test);
    for variable in ["PARASCAN_NVRTC", "PARASCAN_CHECKED", "CUDA_PATH", "CUDA_HOME"] {
        command.env_remove(variable);
    }
    command.env("LD_LIBRARY_PATH", folder).env("PARASCAN_CACHE", folder.join("cache"));
    Some(command)
}

/// Runs the command, and returns what its test printed to standard output.
#[track_caller]
pub(super) fn printed(command: &mut Command) -> String {
    let output = command.output().expect("a process");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    said.into_owned()
}

/// Compiles C to the shared library `name` and returns its path, or `None` without a C compiler.
pub(super) fn library(folder: &Folder, name: &str, c: &str) -> Option<PathBuf> {
    std::fs::create_dir_all(&folder.0).expect("a folder for temporary files");
    let (source, library) = (folder.0.join(format!("{name}.c")), folder.0.join(name));
    std::fs::write(&source, c).expect("a temporary file");
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status() {
        Err(e) => {
            eprintln!("skipped, no C compiler: {e}");
            None
        }
        Ok(status) => {
            assert!(status.success());
            Some(library)
        }
    }
}

/// A driver of this version, as in 12040, with a device of compute capability 9.0 that takes every
/// image.
pub(super) fn driver(folder: &Folder, version: i32) -> Option<PathBuf> {
    let c = format!(
        "int cuInit(unsigned flags) {{ return 0; }}
         int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}
         int cuDeviceGetAttribute(int *value, int attribute, int device) {{
             *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 1 << 16;
             return 0;
         }}
         int cuLibraryLoadData(void **library, const void *image) {{ *library = library; return 0; }}
         int cuLibraryGetKernel(void **kernel, void *library, const char *name) {{ *kernel = library; return 0; }}
         int cuLibraryUnload(void *library) {{ return 0; }}
         int cuKernelGetFunction(void **function, void *kernel) {{ *function = kernel; return 0; }}
         int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {{ return 0; }}
         int cuFuncGetAttribute(int *value, int attribute, void *function) {{ *value = 32; return 0; }}
         int cuLaunchKernelEx(void) {{ return 0; }}\n"
    );
    library(folder, "libcuda.so", &c)?; // cudarc looks for this name first
    library(folder, "libcuda.so.1", &c)
}

/// A compiler of CUDA `major`.0 for the compute capability `architecture`, which makes images of one
/// byte of each text.
pub(super) fn compiler(folder: &Folder, name: &str, major: i32, architecture: u32) -> Option<PathBuf> {
    let size = ["CUBIN", "PTX", "ProgramLog"].map(|image| {
        format!(
            "int nvrtcGet{image}Size(void *program, long *size) {{ *size = 1; return 0; }}
             int nvrtcGet{image}(void *program, char *image) {{ *image = 0; return 0; }}\n"
        )
    });
    let c = format!(
        "{}{}int nvrtcCreateProgram(void **program) {{ *program = program; return 0; }}
         int nvrtcCompileProgram(void *program) {{ return 0; }}
         int nvrtcDestroyProgram(void **program) {{ return 0; }}\n",
        incomplete_compiler(major, architecture),
        size.concat()
    );
    library(folder, name, &c)
}

/// The text of a compiler that compiles nothing.
pub(super) fn incomplete_compiler(major: i32, architecture: u32) -> String {
    format!(
        "int nvrtcVersion(int *major, int *minor) {{ *major = {major}; *minor = 0; return 0; }}
         int nvrtcGetNumSupportedArchs(int *n) {{ *n = 1; return 0; }}
         int nvrtcGetSupportedArchs(int *list) {{ *list = {architecture}; return 0; }}\n"
    )
}
