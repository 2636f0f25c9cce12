//! The units that the build has embedded, the templates, and the table of the process's kernels.

use super::image::unpacked;
use super::kernels::{First, Kernels, NO_SHARED, SharedBytes};
use super::nvrtc::Target;
use super::once_map::OnceMap;
use super::unit::UnitKey;
use crate::Error;
use std::any::TypeId;
use std::sync::LazyLock;
#[cfg(test)]
use {
    super::compiler::{CHECKED, compiler_for_tests, on_all_cores},
    super::nvrtc::Failure,
    super::ptx,
    super::unit::{included, parts},
};

/// A unit of the catalog: its text and its packed images.
#[derive(Debug)]
pub(crate) struct BuiltIn {
    pub(super) source: &'static str,
    /// For each target one image of all kernels, or one of each kernel.
    pub(super) images: &'static [(Target, &'static [&'static [u8]])],
}

/// The templates without their texts: the path by which units include each, and its stub.
pub(crate) static STUBS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/stubs.rs"));

/// The templates with their texts, which a process unpacks when it compiles.
pub(crate) static TEMPLATES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let lengths: &[usize] = include!(concat!(env!("OUT_DIR"), "/templates.rs"));
    let texts = unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/templates.packed"))).expect("as build.rs wrote it");
    let mut rest: &str = String::from_utf8(texts).expect("as build.rs wrote it").leak();
    let next = |(&(name, _), &length): (&(&'static str, _), &usize)| {
        let text;
        (text, rest) = rest.split_at(length);
        (name, text)
    };
    STUBS.iter().zip(lengths).map(next).collect()
});

// build.rs writes a static for each unit, and `UNITS`, which lists them. The linker drops each
// static that the program does not refer to.
include!(concat!(env!("OUT_DIR"), "/units.rs"));

/// Returns the unit of the catalog with this key, if there is one.
///
/// A program links the images of each unit that this function returns at compile time. So callers
/// call it in a `const` block, and refer to `UNITS` nowhere else.
pub(crate) const fn built_in(key: UnitKey) -> Option<&'static BuiltIn> {
    let mut i = 0;
    while i < UNITS.len() {
        if UNITS[i].0 == key.0 {
            return Some(UNITS[i].1);
        }
        i += 1;
    }
    None
}

/// How many units of the catalog the build has embedded images of: machine code or PTX. A program carries
/// those of the kernels that it calls.
pub const IMAGES: usize = {
    let (mut images, mut i) = (0, 0);
    while i < UNITS.len() {
        images += !UNITS[i].1.images.is_empty() as usize;
        i += 1;
    }
    images
};

/// A translation unit to load kernels from.
pub(crate) struct Program {
    /// The name of the unit in messages.
    pub(crate) name: String,
    /// Its text.
    pub(crate) source: String,
    /// The unit of the catalog with the same key. Its kernels are the program's only if its text is `source`, but for
    /// the kind of segments.
    pub(crate) built_in: Option<&'static BuiltIn>,
}

// ---- the table of loaded kernels

/// The types that the kernels are for, the program of the primitive, the device.
type Key = (TypeId, &'static str, usize);

/// The loaded kernels. They stay loaded until the process ends.
static LOADED: LazyLock<OnceMap<Key, &'static Kernels>> = LazyLock::new(Default::default);

/// What kernels are loaded for: a call, or `prepare`.
pub(crate) trait Caller {
    /// The ordinal of the device, whose context is current.
    fn device(&self) -> usize;
    /// # Errors
    /// An error if nothing may be loaded now.
    fn may_load(&self) -> Result<(), Error>;
}

/// A device, for a caller whose stream is not captured.
impl Caller for usize {
    fn device(&self) -> usize {
        *self
    }
    fn may_load(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The kernels of `program`, from the table, or all loaded now. Of threads that need the same ones, one loads them.
pub(crate) fn load(
    types: TypeId,
    program: &'static str,
    caller: &dyn Caller,
    names: &[&str],
    make: &dyn Fn() -> Program,
) -> Result<&'static Kernels, Error> {
    load_some(types, program, caller, names, NO_SHARED, &|_| Vec::from_iter(0..names.len()), make)
}

/// The same for kernels that are loaded one by one, and that may ask for dynamic shared memory. The
/// call loads the `first` ones, and `Kernels::require` the others.
pub(crate) fn load_some(
    types: TypeId,
    program: &'static str,
    caller: &dyn Caller,
    names: &[&str],
    shared: SharedBytes,
    first: First,
    make: &dyn Fn() -> Program,
) -> Result<&'static Kernels, Error> {
    let key = (types, program, caller.device());
    if let Some(kernels) = LOADED.get(&key) {
        return Ok(kernels);
    }
    caller.may_load()?;
    LOADED.get_or_make(key, || {
        Kernels::load(&make(), names, shared, first, caller.device()).map(|kernels| &*Box::leak(Box::new(kernels)))
    })
}

/// Gives later calls of `program` the kernels of another one, since its own cannot be loaded.
pub(crate) fn stand_in(
    types: TypeId,
    program: &'static str,
    caller: &dyn Caller,
    kernels: &'static Kernels,
) -> &'static Kernels {
    LOADED.keep((types, program, caller.device()), kernels)
}

/// Whether the unit of the catalog with this key has this text.
#[cfg(test)]
pub(super) fn is_built_in(key: UnitKey, source: &str) -> bool {
    built_in(key).is_some_and(|unit| unit.source == source)
}

/// Whether build.rs has compiled the unit to machine code of that compute capability.
#[cfg(test)]
fn is_compiled(architecture: u32, source: &str) -> bool {
    let unit = UNITS.iter().find(|(_, unit)| unit.source == source);
    unit.is_some_and(|(_, unit)| unit.images.iter().any(|&(target, _)| target == Target::Cubin(architecture)))
}

/// Compiles every text for the compute capability beside it, on all cores, unless build.rs has done
/// so. Does nothing without a compiler.
#[cfg(test)]
pub(crate) fn compile_all(mut all: Vec<(u32, String, String)>) {
    let Some(nvrtc) = compiler_for_tests() else { return };
    let asked = all.len();
    all.retain(|(architecture, _, source)| !is_compiled(*architecture, source));
    let failure = |k: usize| {
        let (architecture, name, source) = &all[k];
        Ok(match nvrtc.compiles(name, source, &included(&TEMPLATES, source), *architecture) {
            Ok(()) => None,
            Err(Failure::Log(words) | Failure::Call(words)) => Some(format!("{name}: {words}")),
        })
    };
    let failures: Vec<String> = on_all_cores(all.len(), failure).expect("no errors").into_iter().flatten().collect();
    assert!(failures.is_empty(), "{} failed, the first: {}", failures.len(), failures[0]);
    println!("{asked} units compile, {} of them now", all.len());
}

/// Asserts that each part of a unit has exactly its own kernel, and that the parts have all kernels
/// of the unit. Does nothing without a compiler.
#[cfg(test)]
pub(crate) fn parts_have_a_kernel_each(source: &str, names: &[&str]) {
    let Some(nvrtc) = compiler_for_tests() else { return };
    let kernels = |text: &str| nvrtc.kernels(text, &included(&TEMPLATES, text)).expect("it compiles");
    let mut all = kernels(source);
    all.sort();
    let mut named = names.to_vec();
    named.sort_unstable();
    assert_eq!(all, named);
    let parts = parts(source, names);
    let own = on_all_cores(names.len(), |k| Ok(kernels(&parts[k]))).expect("no errors");
    assert_eq!(own.concat(), names);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::includes::files;
    use std::collections::HashSet;

    /// The kind of a unit: its last line, and the size of a sort's keys.
    fn kind(unit: &BuiltIn) -> (&'static str, Option<&'static str>) {
        let line = |begin: &str| unit.source.lines().rfind(|line| line.starts_with(begin));
        (line("#include").expect("each includes its kernels"), line("#define KEY_BYTES"))
    }

    /// All for 9.0, unless the build has compiled them, and one of each kind for 8.0; by segment one of each
    /// kind for both. Each kind of unit has its own test for older ones.
    #[test]
    fn what_is_built_in_compiles() {
        let mut kinds = HashSet::new();
        let mut all = Vec::new();
        for (k, (_, unit)) in UNITS.iter().enumerate() {
            let mut add = |architecture| all.push((architecture, format!("unit {k}"), unit.source.to_owned()));
            let is_first = kinds.insert(kind(unit));
            let by_segment = kind(unit).0.contains("segmented");
            let of_newest = if by_segment { is_first } else { !is_compiled(90, unit.source) };
            if of_newest {
                add(90);
            }
            if is_first {
                add(80);
            }
        }
        compile_all(all);
    }

    /// One unit of each kind compiles with `CHECKED`. The
    /// words that warps hand over are accessed by atomic operations alone.
    #[test]
    fn what_is_checked_compiles() {
        let Some(nvrtc) = compiler_for_tests() else { return };
        let flags = [CHECKED, nvrtc.quickly()].concat();
        let mut kinds = HashSet::new();
        for (_, unit) in UNITS {
            let (program, _) = kind(unit);
            if !kinds.insert(kind(unit)) {
                continue;
            }
            let ptx =
                nvrtc.compile("checked", unit.source, &included(&TEMPLATES, unit.source), Target::Ptx(90), &flags);
            let ptx = String::from_utf8(ptx.expect("it compiles")).expect("PTX is text");
            assert!(!ptx.contains("relaxed.cta.shared.u"), "{program}: a load or a store");
            let short = ptx::shortened(&ptx);
            ptx::assert_same_values(&ptx, &short);
            assert!(short.len() < ptx.len(), "{program}");
            // The sorts of keys of 1 and 2 bytes count them, and the warps of a reduction and of a panel
            // of columns meet at barriers: they hand over no such words.
            let hands_none = [
                "reduce/kernels.cuh",
                "reduce/position.cuh",
                "columns/kernels.cuh",
                "segmented/reduce_kernels.cuh",
                "sort/payload.cuh",
            ];
            let counts_keys = unit.source.contains("\"sort/kernels.cuh")
                && ["KEY_BYTES 1", "KEY_BYTES 2"].iter().any(|piece| unit.source.contains(piece));
            let hands_none = counts_keys || hands_none.iter().any(|piece| unit.source.contains(piece));
            assert_eq!(ptx.contains("atom.relaxed.cta.shared.cas"), !hands_none, "{program}");
        }
        assert_eq!(kinds.len(), 19, "{kinds:?}");
    }

    /// Windows has no files with these characters in their names.
    #[test]
    fn names_of_files() {
        for file in std::fs::read_dir(concat!(env!("OUT_DIR"), "/units")).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            assert!(!name.contains(['<', '>', ':', '"', '/', '\\', '|', '?', '*']), "{name}");
        }
    }

    /// The scan of includes knows all that the library's own units read: templates, and no file.
    #[test]
    fn units_of_the_library_are_kept() {
        for (_, unit) in UNITS {
            for text in parts(unit.source, &["one", "two"]) {
                assert_eq!(files("unit.cu", &text, &included(&TEMPLATES, &text)), Some(Vec::new()), "{text}");
            }
        }
        // Templates include only templates, as they are spelled.
        for (name, text) in TEMPLATES.iter() {
            assert_eq!(files(name, text, &TEMPLATES), Some(Vec::new()), "{name}");
        }
    }
}
