//! NVRTC, the run-time compiler, loaded by hand: `build.rs` and run-time compilation share this
//! code and its flags. NVRTC is a single library that needs neither a host compiler nor a toolkit.

use libloading::Library;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The flags of every compilation, besides the architecture.
pub(crate) const FLAGS: [&str; 4] = [
    "--std=c++17",
    "--fmad=false",                        // a * b + c is rounded twice, as in Rust
    "--device-as-default-execution-space", // lambdas in an operator's text run on the device
    "--dopt=on",
];

/// The target of a compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Machine code for one compute capability, as in `sm_90`.
    Cubin(u32),
    /// PTX for one compute capability or newer, as in `compute_90`.
    Ptx(u32),
}

impl Target {
    /// The compute capability.
    pub(crate) fn capability(self) -> u32 {
        let (Target::Cubin(capability) | Target::Ptx(capability)) = self;
        capability
    }
}

/// The reason why a program was not compiled.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The compiler's log.
    Log(String),
    /// The compiler was not reached.
    Call(String),
}

/// A compiler: major and minor version, and the bytes of its library, in which update releases of one version differ.
pub(crate) type Version = (i32, i32, u64);

type Program = *mut c_void;
type Result = c_int;

/// A loaded compiler.
pub(crate) struct Nvrtc {
    library: Library,
    path: PathBuf,
    version: Version,
    places: Vec<PathBuf>,
}

/// The environment variables that say where an NVRTC may be.
pub(crate) const VARIABLES: [&str; 5] = ["PARASCAN_NVRTC", "LD_LIBRARY_PATH", "CUDA_PATH", "CUDA_HOME", "PATH"];

const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

impl Nvrtc {
    /// Loads the first NVRTC of: `PARASCAN_NVRTC` (a file), the dynamic linker's, `CUDA_PATH` and
    /// `CUDA_HOME`, `/usr/local/cuda`, the site-packages of the `python3` on PATH. The error lists
    /// the places searched.
    ///
    /// `driver` is the driver's version, as in 12040. It does not load images of a newer CUDA major, so
    /// a compiler of one is passed over.
    pub(crate) fn find(driver: Option<i32>) -> std::result::Result<Nvrtc, String> {
        let mut search = Search { driver, places: Vec::new(), too_new: String::new() };
        let mut found = search.run()?;
        found.places = search.places;
        Ok(found)
    }

    /// Loads the library `file`.
    pub(crate) fn open(file: &Path) -> std::result::Result<Nvrtc, String> {
        // NVRTC opens its builtins by name. That fails if the dynamic linker does not search the
        // folder, unless the builtins are already loaded.
        if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            for entry in std::fs::read_dir(folder).map_err(|e| e.to_string())?.flatten() {
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with("libnvrtc-builtins.so") && !name.contains("alt") {
                    // SAFETY: NVRTC's own data library, which runs no code when loaded.
                    if let Ok(builtins) = unsafe { Library::new(entry.path()) } {
                        std::mem::forget(builtins);
                    }
                }
            }
        }
        // SAFETY: loading NVRTC runs no initialiser that others can observe.
        let library = unsafe { Library::new(file) }.map_err(|e| words(&e))?;
        let mut nvrtc = Nvrtc { library, path: file.to_owned(), version: (0, 0, 0), places: Vec::new() };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: signature as documented by NVRTC.
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Result = unsafe { nvrtc.symbol("nvrtcVersion") }?;
        // SAFETY: both point to integers.
        if unsafe { version(&mut major, &mut minor) } != 0 {
            return Err("nvrtcVersion failed".into());
        }
        let bytes = nvrtc.file().and_then(|file| std::fs::metadata(file).ok()).map_or(0, |file| file.len());
        nvrtc.version = (major, minor, bytes);
        Ok(nvrtc)
    }

    /// The library's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files and folders that decide which library `find` finds, as long as `VARIABLES` stay the
    /// same: the places before the library's, where it found none, and the library's own.
    pub(crate) fn places(&self) -> &[PathBuf] {
        &self.places
    }

    /// The library's file, links resolved. `None` where the system does not tell.
    #[cfg(target_os = "linux")]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        // SAFETY: the type is a pointer to the symbol, which nothing accesses.
        let address = unsafe { self.symbol::<*const c_void>("nvrtcVersion") }.ok()? as u64;
        // 7f00a000-7f00b000 r-xp 00001000 08:01 4711      /usr/lib/libnvrtc.so.13
        std::fs::read("/proc/self/maps").ok()?.split(|&byte| byte == b'\n').find_map(|line| {
            let (range, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
            let (begin, end) = range.split_once('-')?;
            let number = |digits| u64::from_str_radix(digits, 16).ok();
            let path = &rest[rest.find('/')?..];
            (number(begin)?..number(end)?).contains(&address).then(|| OsStr::from_bytes(path.as_bytes()).into())
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn file(&self) -> Option<PathBuf> {
        None
    }

    /// The compiler's version, as in (13, 0, 106_674_400).
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The compute capabilities it compiles for, ascending.
    pub(crate) fn architectures(&self) -> std::result::Result<Vec<u32>, String> {
        // SAFETY: signatures as documented by NVRTC; the array has the length that NVRTC returned.
        unsafe {
            let count: unsafe extern "C" fn(*mut c_int) -> Result = self.symbol("nvrtcGetNumSupportedArchs")?;
            let list: unsafe extern "C" fn(*mut c_int) -> Result = self.symbol("nvrtcGetSupportedArchs")?;
            let mut n = 0;
            self.check("nvrtcGetNumSupportedArchs", count(&mut n))?;
            let mut architectures = vec![0; n as usize];
            self.check("nvrtcGetSupportedArchs", list(architectures.as_mut_ptr()))?;
            Ok(architectures.into_iter().map(|architecture| architecture as u32).collect())
        }
    }

    /// Compiles `source` to an image, with the additional `flags`. NVRTC finds its includes in
    /// `headers` (name, text). The compiler's messages contain `name`.
    pub(crate) fn compile(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        target: Target,
        flags: &[&str],
    ) -> std::result::Result<Vec<u8>, Failure> {
        self.images(name, source, headers, &[target], flags).map(|mut images| images.remove(0))
    }

    /// Flags for a compilation that takes a fifth of the time and hardly optimises, if this NVRTC has them.
    #[allow(dead_code, reason = "for build.rs and for tests")]
    pub(crate) fn quickly(&self) -> &'static [&'static str] {
        if self.version >= (13, 0, 0) { &["--Ofast-compile=max"] } else { &[] }
    }

    /// Checks that `source` compiles to machine code for a compute capability, assembler included.
    #[cfg(test)]
    pub(crate) fn compiles(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        capability: u32,
    ) -> std::result::Result<(), Failure> {
        self.images(name, source, headers, &[Target::Cubin(capability)], self.quickly()).map(|_| ())
    }

    /// The names of the kernels in `source`.
    #[cfg(test)]
    pub(crate) fn kernels(&self, source: &str, headers: &[(&str, &str)]) -> std::result::Result<Vec<String>, Failure> {
        let ptx = self.images("kernels", source, headers, &[Target::Ptx(90)], self.quickly())?.remove(0);
        let ptx = String::from_utf8_lossy(&ptx);
        let name = |text: &str| text.split(|c: char| c != '_' && !c.is_alphanumeric()).next().unwrap_or("").to_owned();
        Ok(ptx.split(".entry ").skip(1).map(name).collect())
    }

    /// Compiles to an image for each target of one compute capability, with the additional `flags`.
    /// NVRTC makes machine code from PTX, so the code is the same as if it alone were compiled.
    ///
    /// # Panics
    /// If there are no targets, or targets of several capabilities.
    pub(crate) fn images(
        &self,
        name: &str,
        source: &str,
        headers: &[(&str, &str)],
        targets: &[Target],
        flags: &[&str],
    ) -> std::result::Result<Vec<Vec<u8>>, Failure> {
        let capability = targets[0].capability();
        assert!(targets.iter().all(|target| target.capability() == capability), "one compilation for {targets:?}");
        let text = |s: &str| CString::new(s).map_err(|_| Failure::Log(format!("{name}: the text contains a NUL byte")));
        let (name, source) = (text(name)?, text(source)?);
        let names = headers.iter().map(|(name, _)| text(name)).collect::<std::result::Result<Vec<_>, _>>()?;
        let texts = headers.iter().map(|(_, body)| text(body)).collect::<std::result::Result<Vec<_>, _>>()?;
        let names: Vec<*const c_char> = names.iter().map(|s| s.as_ptr()).collect();
        let texts: Vec<*const c_char> = texts.iter().map(|s| s.as_ptr()).collect();
        let is_real = targets.iter().any(|target| matches!(target, Target::Cubin(_)));
        let architecture = format!("--gpu-architecture={}_{capability}", if is_real { "sm" } else { "compute" });
        let options = FLAGS
            .iter()
            .copied()
            .chain([architecture.as_str()])
            .chain(flags.iter().copied())
            .map(text)
            .collect::<std::result::Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|s| s.as_ptr()).collect();

        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const *const c_char,
            *const *const c_char,
        ) -> Result;
        type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Result;
        // SAFETY: signatures as documented by NVRTC; every pointer is to a live string or array of
        // the length given, and the program is destroyed once, at the end.
        unsafe {
            let create: Create = self.symbol("nvrtcCreateProgram").map_err(Failure::Call)?;
            let compile: Compile = self.symbol("nvrtcCompileProgram").map_err(Failure::Call)?;
            let destroy: unsafe extern "C" fn(*mut Program) -> Result =
                self.symbol("nvrtcDestroyProgram").map_err(Failure::Call)?;
            let mut program: Program = std::ptr::null_mut();
            let code = create(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                names.len() as c_int,
                texts.as_ptr(),
                names.as_ptr(),
            );
            self.check("nvrtcCreateProgram", code).map_err(Failure::Call)?;
            let image = |target: &Target| match target {
                Target::Cubin(_) => self.bytes(program, "nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
                Target::Ptx(_) => self.bytes(program, "nvrtcGetPTXSize", "nvrtcGetPTX"),
            };
            let images = match compile(program, options.len() as c_int, options.as_ptr()) {
                0 => targets.iter().map(image).collect::<std::result::Result<_, _>>().map_err(Failure::Call),
                6 => Err(match self.bytes(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog") {
                    Ok(log) => Failure::Log(String::from_utf8_lossy(&log).trim_end_matches('\0').trim().to_owned()),
                    Err(e) => Failure::Call(e),
                }),
                code => Err(Failure::Call(self.check("nvrtcCompileProgram", code).unwrap_err())),
            };
            destroy(&mut program);
            images
        }
    }

    /// # Safety
    /// `program` is live, and the two functions ask for a size and fill a buffer of that size.
    unsafe fn bytes(&self, program: Program, size: &str, get: &str) -> std::result::Result<Vec<u8>, String> {
        // SAFETY: the caller's.
        unsafe {
            let size_of: unsafe extern "C" fn(Program, *mut usize) -> Result = self.symbol(size)?;
            let fill: unsafe extern "C" fn(Program, *mut c_char) -> Result = self.symbol(get)?;
            let mut n = 0;
            self.check(size, size_of(program, &mut n))?;
            let mut bytes = vec![0u8; n];
            self.check(get, fill(program, bytes.as_mut_ptr().cast()))?;
            Ok(bytes)
        }
    }

    fn check(&self, call: &str, code: Result) -> std::result::Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: signature as documented; it returns a static string for every code.
        let words = unsafe {
            self.symbol::<unsafe extern "C" fn(Result) -> *const c_char>("nvrtcGetErrorString")
                .map(|f| CStr::from_ptr(f(code)).to_string_lossy().into_owned())
        };
        Err(format!("{call}: {}", words.unwrap_or_else(|_| code.to_string())))
    }

    /// # Safety
    /// `F` is the function pointer type of the symbol.
    unsafe fn symbol<F: Copy>(&self, name: &str) -> std::result::Result<F, String> {
        // SAFETY: the caller's; the copy is used while `self.library` is loaded.
        unsafe { self.library.get::<F>(name) }.map(|f| *f).map_err(|e| format!("{name}: {}", words(&e)))
    }
}

/// A search for a compiler, with what it has seen so far.
struct Search {
    driver: Option<i32>,
    places: Vec<PathBuf>,
    /// The last library that is too new for the driver, in words.
    too_new: String,
}

impl Search {
    /// Adds the files and folders that the search looks at to `places`, before it looks.
    fn run(&mut self) -> std::result::Result<Nvrtc, String> {
        let linkers = |name: &Path, places: &mut Vec<PathBuf>| {
            let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            places.push("/etc/ld.so.cache".into());
            places.extend(std::env::split_paths(&path).map(|folder| folder.join(name)));
        };
        if let Some(file) = std::env::var_os("PARASCAN_NVRTC").filter(|file| !file.is_empty()) {
            let file = PathBuf::from(file);
            match file.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => self.places.push(file.clone()),
                _ => linkers(&file, &mut self.places),
            }
            return self.open(&file).map_err(|e| format!("PARASCAN_NVRTC={}: {e}", file.display()));
        }
        for name in NAMES {
            linkers(Path::new(name), &mut self.places);
            if let Ok(found) = self.open(Path::new(name)) {
                return Ok(found);
            }
        }
        let toolkits = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
        let mut folders: Vec<PathBuf> = Vec::new();
        for toolkit in toolkits.chain([PathBuf::from("/usr/local/cuda")]) {
            folders.extend([toolkit.join("lib64"), toolkit.join("lib")]);
        }
        self.places.extend_from_slice(&folders);
        if let Some(found) = folders.iter().find_map(|folder| self.open_in(folder)) {
            return Ok(found);
        }
        // The interpreter comes last, as starting it is the slowest.
        for sites in [sites_beside_python, sites_of_python] {
            let sites = sites();
            let packages: Vec<PathBuf> = sites.iter().flat_map(|site| libraries_in(site)).collect();
            self.places.extend(sites.iter().map(|site| site.join("nvidia")).chain(packages.iter().cloned()));
            if let Some(found) = packages.iter().find_map(|folder| self.open_in(folder)) {
                return Ok(found);
            }
            for package in packages {
                if !folders.contains(&package) {
                    folders.push(package);
                }
            }
        }
        let looked: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Err(format!("{}looked with the dynamic linker and in {}", self.too_new, looked.join(", ")))
    }

    /// Loads the newest NVRTC in a folder.
    fn open_in(&mut self, folder: &Path) -> Option<Nvrtc> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .ok()?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
                name.starts_with("libnvrtc.so") && !name.contains("alt")
            })
            .collect();
        files.sort();
        files.iter().rev().find_map(|file| self.open(file).ok())
    }

    /// Loads the library `file`, unless it is too new for the driver.
    fn open(&mut self, file: &Path) -> std::result::Result<Nvrtc, String> {
        let nvrtc = Nvrtc::open(file)?;
        let (major, minor, _) = nvrtc.version;
        match self.driver {
            // Drivers before 12.0 take no compiler's images. They get an error of their own.
            Some(driver) if major > 12 && major > driver / 1000 => {
                let takes = format!("the driver takes {}.{}", driver / 1000, driver % 1000 / 10);
                let reason = format!("it is of CUDA {major}.{minor} and {takes}");
                self.too_new = format!("{}: {reason}; ", file.display());
                Err(reason)
            }
            _ => Ok(nvrtc),
        }
    }
}

/// The dynamic linker's message, which `libloading` hides behind "dlopen failed".
pub(crate) fn words(e: &libloading::Error) -> String {
    std::error::Error::source(e).map_or_else(|| e.to_string(), |said| said.to_string())
}

/// The site-packages of the `python3` on PATH, if they are at the place of a system's or a virtual
/// environment's.
fn sites_beside_python() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(programs) = std::env::split_paths(&path).find(|folder| folder.join("python3").is_file()) else {
        return Vec::new();
    };
    // `python3` may be a link to one of several versions.
    let program = programs.join("python3").canonicalize().unwrap_or_default();
    let versions = [program.file_name().unwrap_or_default(), OsStr::new("python3")];
    let folders = versions.map(|version| programs.with_file_name("lib").join(version));
    folders.iter().flat_map(|folder| ["site-packages", "dist-packages"].map(|name| folder.join(name))).collect()
}

/// The site-packages that the interpreter reports.
fn sites_of_python() -> Vec<PathBuf> {
    let script = "import site, sys; print('\\n'.join(dict.fromkeys(site.getsitepackages() + [site.getusersitepackages()] + sys.path)))";
    let Ok(output) = Command::new("python3").args(["-c", script]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

/// The folder of pip's `nvidia-cuda-nvrtc` in site-packages: `nvidia/*/lib`.
fn libraries_in(site: &Path) -> Vec<PathBuf> {
    let packages = std::fs::read_dir(site.join("nvidia")).into_iter().flatten().flatten();
    packages.map(|package| package.path().join("lib")).filter(|folder| folder.is_dir()).collect()
}
