//! Translates a Rust body to the text of a C++ function's body.
//!
//! Functions of `core/rust.cuh` compute with numbers. C++ itself promotes short integers, leaves
//! their overflow undefined, and compares a float with a literal in double.
//!
//! | file | translates |
//! |---|---|
//! | `patterns.rs` | arguments, patterns, fields and types |
//! | `statements.rs` | blocks, `let`, assignments, choices and loops |
//! | `expressions.rs` | operands: literals, names, operators, casts, methods, blocks |
//! | `syntax.rs` | nothing: it answers questions about an expression's syntax |

mod expressions;
mod patterns;
mod statements;
mod syntax;

pub(crate) use syntax::{assigning_operator, is_untyped, ungrouped};

use crate::input::Input;
use crate::names::Names;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, Type};
use syntax::{number_type, ungrouped_type};

/// The text: statements, the last of which ends in a semicolon. Otherwise all errors of the body.
pub(crate) fn translate(input: &Input) -> Result<String, Vec<Error>> {
    let Input { types, result, arguments, body, .. } = input;
    let mut types: Vec<(String, Type)> =
        types.iter().map(|(name, ty)| (name.to_string(), ungrouped_type(ty.clone()))).collect();
    types.dedup_by_key(|(_, ty)| ty.to_token_stream().to_string());
    let mut translator = Translator { types, result: result.to_string(), ..Translator::default() };
    translator.names.open();
    translator.refuse_attributes(body.to_token_stream());
    for (cuda, _, pattern) in arguments {
        translator.bind_argument(&cuda.to_string(), pattern);
    }
    let result = Some(translator.result.clone());
    translator.value(body, &Target::Return(result));
    if translator.errors.is_empty() { Ok(translator.text.trim_end().to_owned()) } else { Err(translator.errors) }
}

/// Where the value of an expression goes.
enum Target {
    /// The function or the lambda returns it. The type is its C++ name, if it is known.
    Return(Option<String>),
    /// An existing variable or field takes it.
    Place(String),
    /// The expression is a statement: its value is dropped.
    Discard,
}

#[derive(Default)]
struct Translator {
    /// C++ names of types, each with its Rust type.
    types: Vec<(String, Type)>,
    /// The C++ name of the function's return type.
    result: String,
    names: Names,
    errors: Vec<Error>,
    text: String,
    /// Levels of indentation.
    depth: usize,
    /// Loops around the current statement, in this function or lambda.
    loops: usize,
    /// Lambdas around the current statement.
    lambdas: usize,
}

const UNTYPED_LITERAL: &str =
    "the type of this literal is unknown; add a suffix, as in `0_u32`, or give the `let` a type";

impl Translator {
    /// Whether the body may have values that are structs.
    fn has_structs(&self) -> bool {
        self.types.iter().any(|(_, ty)| number_type(ty).is_none())
    }

    /// Records an error at `tokens`. The text that is returned only lets the translation go on to
    /// further errors.
    fn refuse(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) -> String {
        self.errors.push(Error::new_spanned(tokens, format!("not translated to CUDA: {message}")));
        String::new()
    }

    /// Appends an indented line to the text.
    fn line(&mut self, line: impl AsRef<str>) {
        let indent = "    ".repeat(self.depth);
        self.text += &format!("{indent}{}\n", line.as_ref());
    }

    /// The text that `write` appends, taken out of the translator's text.
    fn captured(&mut self, write: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.text);
        write(self);
        std::mem::replace(&mut self.text, before)
    }

    /// Refuses every attribute: one such as `cfg` could remove a part of the Rust body.
    fn refuse_attributes(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(tree) = tokens.next() {
            match (tree, tokens.peek()) {
                (TokenTree::Group(group), _) => self.refuse_attributes(group.stream()),
                (TokenTree::Punct(mark), Some(TokenTree::Group(group))) if mark.as_char() == '#' => {
                    self.refuse(group, "a body has no attributes");
                }
                _ => {}
            }
        }
    }
}
