//! The common parts of all translation units. The text of each primitive's units is in its folder's
//! `unit.rs`.
//!
//! The text of a unit is an operator, a choice or keys as C++ types, then the templates. This code
//! writes the catalog's units for `build.rs` and a user's for the library. A unit is recognised by
//! its text: two pairs of operator and element with the same text share one kernel.

/// The templates that a text includes, directly or through others, each with its path in
/// `cuda-templates`. An image is made from these and the text.
pub(crate) fn included<'t>(templates: &[(&'t str, &'t str)], text: &'t str) -> Vec<(&'t str, &'t str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut open = vec![text];
    while let Some(text) = open.pop() {
        for line in text.lines().filter(|line| line.contains("include")) {
            let path = line.split(['"', '<', '>']).nth(1);
            let template = templates.iter().find(|template| Some(template.0) == path);
            if let Some(&template) = template.filter(|template| !found.contains(template)) {
                found.push(template);
                open.push(template.1);
            }
        }
    }
    found.sort_unstable();
    found
}

/// The text of a unit whose kernels read the number of items from memory (`core/length.cuh`).
pub(crate) fn with_length(source: &str) -> String {
    with_length_of(1, source)
}

/// The same of a unit whose elements have so many items each.
pub(crate) fn with_length_of(items: usize, source: &str) -> String {
    format!("#define LENGTH_ON_DEVICE {items}\n{source}")
}

/// The text of a unit for one kind of segmentation. Its kernels have no code for the others.
pub(crate) fn of_kind(kind: u32, source: &str) -> String {
    format!("{OF_KIND}{kind}\n{source}")
}
const OF_KIND: &str = "#define CUT_KIND ";

/// The text of which this is the one for a kind of segmentation; else the text itself.
pub(crate) fn of_any_kind(source: &str) -> &str {
    source.strip_prefix(OF_KIND).and_then(|rest| rest.split_once('\n')).map_or(source, |(_, source)| source)
}

/// The parts of a unit, a text for each kernel, so that kernels are compiled in parallel. If a
/// template lacks `HAS_KERNEL`, each part compiles all kernels, which is only slower.
pub(crate) fn parts(source: &str, kernels: &[&str]) -> Vec<String> {
    let part = |own: &&str| {
        let has = |kernel: &&str| format!("#define HAS_{kernel} {}\n", u8::from(kernel == own));
        let has: String = kernels.iter().map(has).collect();
        format!("#define HAS_KERNEL(NAME) HAS_##NAME\n{has}{source}")
    };
    kernels.iter().map(part).collect()
}

/// A key of a unit of the catalog that the compiler of Rust can compute, where it can make no text:
/// a hash (FNV-1a) of the values that the text is made from. Units with one text have one key.
///
/// The key decides which images the linker keeps. At run time the text decides whether they are the
/// right ones, so a collision costs a compilation and never gives a wrong kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitKey(pub(crate) u64);

impl UnitKey {
    pub(crate) const fn new(primitive: &str) -> UnitKey {
        UnitKey(0xcbf2_9ce4_8422_2325).text(primitive)
    }

    const fn byte(self, byte: u8) -> UnitKey {
        UnitKey((self.0 ^ byte as u64).wrapping_mul(0x0100_0000_01b3))
    }

    pub(crate) const fn number(self, number: usize) -> UnitKey {
        let (bytes, mut key, mut i) = ((number as u64).to_le_bytes(), self, 0);
        while i < bytes.len() {
            key = key.byte(bytes[i]);
            i += 1;
        }
        key
    }

    pub(crate) const fn text(self, text: &str) -> UnitKey {
        let (bytes, mut key, mut i) = (text.as_bytes(), self.number(text.len()), 0);
        while i < bytes.len() {
            key = key.byte(bytes[i]);
            i += 1;
        }
        key
    }

    pub(crate) const fn of_type(self, of: Type) -> UnitKey {
        self.text(of.cuda).number(of.size).number(of.align)
    }
}

/// A type with its Rust and its C++ form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    /// The C++ text.
    pub(crate) cuda: &'a str,
    /// Bytes in Rust.
    pub(crate) size: usize,
    /// The alignment in Rust.
    pub(crate) align: usize,
    /// The fields of a struct, if they are known.
    pub(crate) fields: &'a [Field],
}

/// A field of a struct, in Rust and in C++.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub cuda: &'static str,
    /// The fields of this field, if it is a struct itself.
    pub fields: &'static [Field],
}

impl Type<'_> {
    /// Defines the type as `name` and asserts that its layout is that of the Rust type. Messages
    /// call it `what`.
    pub(crate) fn defined(&self, name: &str, what: &str) -> String {
        let Type { cuda, size, align, fields } = *self;
        let text = format!("typedef{};\n", quoted(what, &format!("{cuda} {name}")));
        text + &asserted_layout(name, &format!("the {what}"), size, align, fields)
    }
}

/// Asserts that the C++ type `name` has the Rust type's size and alignment, and each of `fields`
/// its offset. Messages call it `what`.
pub(crate) fn asserted_layout(name: &str, what: &str, size: usize, align: usize, fields: &[Field]) -> String {
    let asserted = |condition: &str, lies: &str| {
        format!("static_assert({condition}, \"{lies} has another layout than its Rust type\");\n")
    };
    let mut text =
        asserted(&format!("sizeof({name}) == {size} && alignof({name}) == {align}"), &format!("{what}'s C++ type"));
    for Field { name: field, offset, size, .. } in fields {
        let condition =
            format!("FIELD_OFFSET({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {size}");
        text += &asserted(&condition, &format!("the field {field} of {what}'s C++ type"));
    }
    text
}

/// A user's text on its own lines, so that the compiler's messages name it and its lines.
fn quoted(what: &str, text: &str) -> String {
    format!("\n#line 1 \"{what}\"\n{text}\n#line 1 \"the rest of the unit\"\n")
}

/// A function's body, from an expression or from statements that end in a `return`.
pub(crate) fn body(what: &str, text: &str) -> String {
    if is_statements(text) { quoted(what, text) } else { format!("return{};", quoted(what, text)) }
}

/// The functions that translated bodies use.
pub(crate) fn prelude(texts: &[&str]) -> &'static str {
    if texts.iter().any(|text| text.contains("rust::")) { "#include \"core/rust.cuh\"\n" } else { "" }
}

/// Whether a text is statements rather than an expression.
pub(crate) const fn is_statements(text: &str) -> bool {
    let text = text.trim_ascii().as_bytes();
    if !matches!(text.last(), Some(b';')) {
        return false;
    }
    let (word, mut i) = (b"return", 0);
    while i + word.len() <= text.len() {
        let mut k = 0;
        while k < word.len() && text[i + k] == word[k] {
            k += 1;
        }
        if k == word.len() {
            return true;
        }
        i += 1;
    }
    false
}

/// A text for each architecture, newest first. The compiler takes the newest one that is not newer
/// than its target.
pub(crate) fn by_architecture(architectures: impl IntoIterator<Item = u32>, text: impl Fn(u32) -> String) -> String {
    let texts: String = architectures
        .into_iter()
        .enumerate()
        .map(|(i, architecture)| {
            let condition = if i == 0 { "#if" } else { "#elif" };
            format!("{condition} __CUDA_ARCH__ >= {architecture}0\n{}", text(architecture))
        })
        .collect();
    texts + "#endif\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::library::{STUBS, TEMPLATES};

    #[test]
    fn what_a_text_includes() {
        let names = |text: &'static str| included(STUBS, text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("no template"), [""; 0]);
        assert_eq!(names("#include \"core/types.cuh\"\n"), ["core/types.cuh"]);
        assert!(!names("#include \"core/warp_scan.cuh\"\n").contains(&"scan/scan.cuh"), "a part of a name");
        assert_eq!(names("# include <laws/operator.cuh>\n"), ["core/types.cuh", "laws/operator.cuh"]);
        let scan = [
            "core/handover.cuh",
            "core/length.cuh",
            "core/pipeline.cuh",
            "core/stage.cuh",
            "core/types.cuh",
            "core/warp_scan.cuh",
            "scan/contract.cuh",
            "scan/scan.cuh",
        ];
        assert_eq!(names("#include \"scan/scan.cuh\"\n"), scan);
        assert!(names("#include \"sort/kernels.cuh\"\n").contains(&"sort/radix.cuh"));
        for (name, text) in TEMPLATES.iter() {
            let of_texts: Vec<&str> = included(&TEMPLATES, text).into_iter().map(|(name, _)| name).collect();
            assert_eq!(names(text), of_texts, "{name}");
        }
    }

    /// Each kernel of a program with several is guarded by its own name.
    #[test]
    fn kernels_can_be_left_out() {
        let alone = [
            "scan/look_back.cuh",
            "scan/chained.cuh",
            "textbook/kernels.cuh",
            "laws/operator.cuh",
            "laws/predicate.cuh",
        ];
        for (name, text) in TEMPLATES.iter().filter(|(name, _)| !alone.contains(name)) {
            for (at, _) in text.match_indices("extern \"C\" __global__") {
                let (before, kernel) = text.split_at(at);
                let bounds = kernel.find("__launch_bounds__").expect("every kernel has bounds");
                let (mut open, mut end) = (0, bounds);
                for (i, c) in kernel[bounds..].char_indices() {
                    open += i32::from(c == '(') - i32::from(c == ')');
                    if c == ')' && open == 0 {
                        end = bounds + i + 1;
                        break;
                    }
                }
                let after = kernel[end..].trim_start_matches([' ', '\\', '\n']);
                let (kernel, _) = after.split_once('(').expect("its parameters");
                let (in_if, in_macro) = (format!("#if HAS_KERNEL({kernel})\n"), format!("DEFINE_KERNEL({kernel}, "));
                assert!(before.ends_with(&in_if) || before.ends_with(&in_macro), "{kernel} in {name}");
            }
        }
    }

    #[test]
    fn statements_are_told_from_expressions() {
        for expression in
            ["a + b", "{ a.x, b.y }", "[&] { while (b) { a %= b; } return a; }()", "a + b;", "returned", ""]
        {
            assert!(!is_statements(expression), "{expression}");
        }
        for statements in ["return a;", "\n  if (a) return b;\n  return a; \n", "return a + /* both */ b;"] {
            assert!(is_statements(statements), "{statements}");
        }
        assert_eq!(body("lift", "x"), "return\n#line 1 \"lift\"\nx\n#line 1 \"the rest of the unit\"\n;");
        assert_eq!(body("lift", "return x;"), "\n#line 1 \"lift\"\nreturn x;\n#line 1 \"the rest of the unit\"\n");
    }
}
