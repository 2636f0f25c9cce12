//! The files besides the templates that the compiler reads for a unit: the includes of the user's
//! text, and their includes.
//!
//! NVRTC gets no include path. It first looks for a name, as spelled, among the headers in memory,
//! whichever file includes it. Else it opens an absolute name as it is, and a relative one in the
//! folder of the including file. The folder of a unit is the folder in the unit's name, or the
//! current one for a name without `/`. `#line` changes none of this. NVRTC 12.0 and 13.0 agree.
//!
//! The module scans the text without preprocessing it. Every `#include` counts, also in a comment,
//! in a string or after an `#if`: a file too many costs a compilation when it changes, a file too
//! few would give an old image. If a macro makes a name, the files of the whole unit are unknown.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file that the compiler may read or look for.
#[derive(Debug, PartialEq)]
pub(crate) struct File {
    path: PathBuf,
    /// `None` if the file cannot be read.
    text: Option<Vec<u8>>,
    modified: Option<SystemTime>,
}

impl File {
    /// The part of an image's key: the contents, not the time of modification.
    pub(crate) fn key(&self) -> String {
        format!("{:?} {:?}", self.path, self.text.as_ref().map(|text| text.escape_ascii().to_string()))
    }

    /// Reads the file, or returns `None` unless it is a regular file: a pipe would wait, a device
    /// would not end.
    fn read(path: PathBuf) -> Option<File> {
        let Ok(metadata) = fs::metadata(&path) else { return Some(File { path, text: None, modified: None }) };
        metadata.is_file().then(|| File { text: fs::read(&path).ok(), path, modified: metadata.modified().ok() })
    }
}

/// Returns the files that the compiler may read for the text `source` of the unit `name`, besides
/// the headers `in_memory`, each with its name first.
///
/// `None` means that they are unknown: a macro makes a name, or a text asks whether a file exists.
pub(crate) fn files(name: &str, source: &str, in_memory: &[(&str, &str)]) -> Option<Vec<File>> {
    let folder_of = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
    let mut found: Vec<File> = Vec::new();
    let mut open = vec![(folder_of(Path::new(name)), names(source.as_bytes())?)];
    while let Some((folder, names_in_it)) = open.pop() {
        for name in names_in_it {
            if in_memory.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let path = without_detours(&folder.join(name));
            if found.iter().any(|file| file.path == path) {
                continue;
            }
            let file = File::read(path)?;
            if let Some(text) = &file.text {
                open.push((folder_of(&file.path), names(text)?));
            }
            found.push(file);
        }
    }
    found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Some(found)
}

/// The path with one spelling for each folder, so the scan of files that include each other by
/// `../a/` ends. A link to a file stays, as the compiler looks for its includes beside the link.
fn without_detours(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(fs::canonicalize), absolute.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// The names that a text includes, as spelled. `None` if a macro makes one, or if the text may ask
/// whether a file exists.
fn names(text: &[u8]) -> Option<Vec<String>> {
    let text = spliced(text);
    // `##` can make `__has_include` of parts. The first part is a prefix of it, so every prefix
    // counts.
    let asks = |word: &[u8]| [&b"__has_include_next"[..], b"__has_embed"].iter().any(|name| name.starts_with(word));
    if text.split(|&byte| !is_of_word(byte)).any(|word| !word.is_empty() && asks(word)) {
        return None;
    }
    let mut names = Vec::new();
    for at in 0..text.len() {
        let Some(rest) = [&b"#"[..], b"%:"].iter().find_map(|hash| text[at..].strip_prefix(*hash)) else { continue };
        let rest = past_blanks(rest);
        let (directive, rest) = rest.split_at(rest.iter().take_while(|&&byte| is_of_word(byte)).count());
        match directive {
            b"include" => names.push(quoted(past_blanks(rest))?.to_owned()),
            b"include_next" | b"import" | b"embed" => return None,
            _ => {}
        }
    }
    Some(names)
}

fn is_of_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The text with continued lines joined, also where blanks follow the backslash: compilers differ
/// in that. The scan also finds a `#` within a line.
fn spliced(text: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let blanks = after.iter().take_while(|byte| b" \t\x0b\x0c\r".contains(byte)).count();
        rest = match after[blanks..].strip_prefix(b"\n") {
            Some(next_line) if byte == b'\\' => next_line,
            _ => {
                joined.push(byte);
                after
            }
        };
    }
    joined
}

/// The text after blanks and comments, to the end of the line.
fn past_blanks(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [b' ' | b'\t' | b'\x0b' | b'\x0c' | b'\r', rest @ ..] => rest,
            [b'/', b'*', rest @ ..] => match rest.windows(2).position(|end| end == b"*/") {
                Some(end) => &rest[end + 2..],
                None => return b"",
            },
            _ => return text,
        };
    }
}

/// The name in `"name"` or `<name>` at the beginning of a text.
fn quoted(text: &[u8]) -> Option<&str> {
    let (&quote, rest) = text.split_first()?;
    let end = match quote {
        b'"' => b'"',
        b'<' => b'>',
        _ => return None,
    };
    let name = &rest[..rest.iter().position(|&byte| byte == end || byte == b'\n')?];
    (rest[name.len()] == end).then(|| std::str::from_utf8(name).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Vec<String>> {
        names(text.as_bytes())
    }

    #[test]
    fn names_that_are_there_to_be_read() {
        let one = |text: &str, name: &str| assert_eq!(of(text), Some(vec![name.to_owned()]), "{text}");
        one("#include \"a.cuh\"", "a.cuh");
        one("\t#\tinclude<a/b>\r\n", "a/b");
        one("# /* one\ntwo */ include /**/ \"a b\" c", "a b");
        one("%:include \"a\"", "a");
        one("#in\\\ncl\\\r\nude \"a\\ \nb\"", "ab");
        one("// #include \"a\"", "a");
        one("#if 0\nR\"(#include \"a\")\"\n#endif", "a");
        one("x \\\\\n#include \"a\"", "a");
        one("##include \"a\"", "a");
        assert_eq!(
            of("#include \"a\"\n#include <b>\n#include \"a\""),
            Some(["a", "b", "a"].map(String::from).to_vec())
        );
        for text in [
            "",
            "#",
            "%",
            "#define include",
            "#includes <a>",
            "#pragma include",
            "a.include \"a\"",
            "# \ninclude \"a\"",
            "__has_cpp_attribute(a) _h has_include x__has_include",
            "#/*include \"a\"",
        ] {
            assert_eq!(of(text), Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn names_that_are_not() {
        for text in [
            "#include A",
            "#include",
            "#include \"a",
            "#include <a\n>",
            "#include \"a\nb\"",
            "#include_next <a>",
            "#import <a>",
            "#embed <a>",
            "// #include A",
            "__has_include(<a>)",
            "#ifdef __has_include_next",
            "__has_embed",
            "J(__has_, include)",
            "J(_, _has_include)",
            "#include $A",
            "#include\\\n_next <a>",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(names(b"#include \"\xff\""), None);
    }

    /// The scan would wait for its writer.
    #[cfg(unix)]
    #[test]
    fn a_pipe() {
        let pipe = std::env::temp_dir().join(format!("parascan-pipe-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(files("unit.cu", &format!("#include \"{}\"", pipe.display()), &[]), None);
        fs::remove_file(&pipe).unwrap();
    }

    /// The scan of files that include each other ends, although each include has another spelling.
    #[test]
    fn files_that_include_each_other() {
        let folder = std::env::temp_dir().join(format!("parascan-scan-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/x.cuh"), "#include \"../a/y.cuh\"\n#include \"x.cuh\"").unwrap();
        fs::write(folder.join("a/y.cuh"), "#include \"../a/x.cuh\"\n#include \"missing/z.cuh\"\n#include <t>").unwrap();
        let unit = folder.join("unit.cu");
        let found = || files(unit.to_str().unwrap(), "#include \"a/x.cuh\"", &[("t", "")]);
        let inside = fs::canonicalize(folder.join("a")).unwrap();
        let paths: Vec<PathBuf> = found().unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["missing/z.cuh", "x.cuh", "y.cuh"].map(|name| inside.join(name)));
        // A file that appears changes the key; an unreadable file gives none.
        let keys = || found().unwrap().iter().map(File::key).collect::<Vec<_>>();
        let before = keys();
        fs::create_dir(inside.join("missing")).unwrap();
        assert_eq!(keys(), before);
        fs::write(inside.join("missing/z.cuh"), "").unwrap();
        assert_ne!(keys(), before);
        fs::remove_file(inside.join("x.cuh")).unwrap();
        fs::create_dir(inside.join("x.cuh")).unwrap();
        assert_eq!(found(), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
