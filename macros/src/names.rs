//! The C++ names of variables, and the scopes in which they are visible.

use std::collections::HashMap;
use syn::Ident;

/// Rust's scopes, the innermost last.
///
/// Each C++ name is given once, so a variable may shadow another. A name ends in an underscore or a
/// number, as no keyword, argument or macro of the templates does. No name begins with an
/// underscore or has two in a row, which C++ reserves.
#[derive(Default)]
pub(crate) struct Names {
    scopes: Vec<HashMap<String, String>>,
    /// For each name, how often it was given.
    given: HashMap<String, usize>,
    /// For each block operand around the current expression, the number of scopes at its start.
    operands: Vec<usize>,
}

impl Names {
    pub(crate) fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(crate) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Opens the scope of a block operand. Scopes opened before `close_operand` belong to the
    /// operand.
    pub(crate) fn open_operand(&mut self) {
        self.operands.push(self.scopes.len());
        self.open();
    }

    pub(crate) fn close_operand(&mut self) {
        self.close();
        self.operands.pop();
    }

    pub(crate) fn is_in_operand(&self) -> bool {
        !self.operands.is_empty()
    }

    /// Makes a variable visible under the name that it has in C++ already.
    pub(crate) fn alias(&mut self, rust: &Ident, cuda: String) {
        let scope = self.scopes.last_mut().expect("a scope is open");
        scope.insert(rust.to_string(), cuda);
    }

    /// A new variable.
    pub(crate) fn declare(&mut self, rust: &Ident) -> String {
        let plain = plain(rust);
        let times = self.given.entry(plain.clone()).and_modify(|times| *times += 1).or_insert(1);
        let cuda = if *times == 1 { format!("{plain}_") } else { format!("{plain}_{times}") };
        self.alias(rust, cuda.clone());
        cuda
    }

    /// A new name for a temporary, which no variable of the body has.
    pub(crate) fn temporary(&mut self, what: &str) -> String {
        let times = self.given.entry(format!("{what} ")).and_modify(|times| *times += 1).or_insert(1);
        if *times == 1 { what.to_owned() } else { format!("{what}{times}") }
    }

    pub(crate) fn find(&self, rust: &Ident) -> Option<&str> {
        let name = rust.to_string();
        self.scopes.iter().rev().find_map(|scope| scope.get(&name)).map(String::as_str)
    }

    /// Whether a variable was declared outside of the innermost block operand.
    pub(crate) fn is_from_outside(&self, rust: &Ident) -> bool {
        let name = rust.to_string();
        let inside = self.operands.last().copied().unwrap_or(0);
        !self.scopes[inside..].iter().any(|scope| scope.contains_key(&name))
    }
}

/// The words of a Rust name in ASCII, with one underscore between two words.
fn plain(name: &Ident) -> String {
    let ascii: String = name.to_string().trim_start_matches("r#").chars().map(ascii).collect();
    let words: Vec<&str> = ascii.split('_').filter(|word| !word.is_empty()).collect();
    let plain = words.join("_");
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("n{plain}") } else { plain }
}

fn ascii(c: char) -> String {
    if c.is_ascii() { c.to_string() } else { format!("u{:x}", u32::from(c)) }
}
