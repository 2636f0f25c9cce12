//! Names of fields: the same in Rust and in C++, so a field may have no name that means something else there.

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

/// Macros without parameters that a kernel's text has before a field, and types that a field behind this one may have. All other names of
/// the templates and of CUDA, such as `threadIdx`, may be a field's too.
pub(crate) const DEFINED: [&str; 5] = ["FORM", "NETWORK", "NULL", "bf16", "f16"];

/// Why this name cannot be a field's, in words, if it cannot.
pub(crate) fn refusal(name: &Ident) -> Option<String> {
    let text = name.to_string();
    let reserved =
        text.contains("__") || text.starts_with('_') && text[1..].starts_with(|c: char| c.is_ascii_uppercase());
    let why = if text.starts_with("r#") {
        "C++ has no raw identifiers"
    } else if !text.is_ascii() {
        "in CUDA C++ a name has ASCII letters, digits and underscores alone"
    } else if KEYWORDS.contains(&text.as_str()) {
        "in C++ this one is a keyword"
    } else if reserved {
        "C++ reserves names with two underscores in a row, and with an underscore before a capital letter at the front"
    } else if DEFINED.contains(&text.as_str()) {
        "in the text of a kernel this one is defined already"
    } else {
        return None;
    };
    Some(format!("the field `{name}` needs another name: {why}"))
}

/// An error at each of the names that cannot be a field's.
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
