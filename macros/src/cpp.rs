//! Names of fields. A field has the same name in Rust and in C++, so the name must not mean
//! something else in C++.

use proc_macro2::TokenStream;
use syn::Ident;

/// The keywords of C++20 and its alternative tokens.
#[rustfmt::skip]
pub(crate) const KEYWORDS: [&str; 92] = [
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break",
    "case", "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return",
    "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
    "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
    "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline",
    "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
    "struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef",
    "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
    "while", "xor", "xor_eq",
];

/// Names that a kernel's text defines before a struct: macros without parameters, and types that a
/// later field of the struct may have. A field may have every other name of the templates and of
/// CUDA, such as `threadIdx`.
pub(crate) const DEFINED: [&str; 8] =
    ["AND_LENGTH", "CUT_KIND", "FORM", "LENGTH_ON_DEVICE", "NETWORK", "NULL", "bf16", "f16"];

/// The message that refuses this name for a field, if C++ does not take it.
pub(crate) fn refusal(name: &Ident) -> Option<String> {
    let text = name.to_string();
    let reserved =
        text.contains("__") || text.starts_with('_') && text[1..].starts_with(|c: char| c.is_ascii_uppercase());
    let why = if text.starts_with("r#") {
        "C++ has no raw identifiers"
    } else if !text.is_ascii() {
        "a name in CUDA C++ has only ASCII letters, digits and underscores"
    } else if KEYWORDS.contains(&text.as_str()) {
        "it is a keyword of C++"
    } else if reserved {
        "C++ reserves names with two underscores in a row, and names that begin with an underscore and a capital letter"
    } else if DEFINED.contains(&text.as_str()) {
        "the text of a kernel defines it already"
    } else {
        return None;
    };
    Some(format!("the field `{name}` needs another name: {why}"))
}

/// An error at each name that C++ does not take for a field.
pub(crate) fn field_names(names: TokenStream) -> TokenStream {
    let names = syn::parse::Parser::parse2(
        |input: syn::parse::ParseStream| {
            let mut names = Vec::new();
            while !input.is_empty() {
                names.push(syn::ext::IdentExt::parse_any(input)?);
            }
            Ok(names)
        },
        names,
    );
    let error = |name: &Ident| refusal(name).map(|words| syn::Error::new(name.span(), words).to_compile_error());
    match names {
        Ok(names) => names.iter().filter_map(error).collect(),
        Err(e) => e.to_compile_error(),
    }
}
