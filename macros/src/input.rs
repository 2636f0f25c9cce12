//! The input of `cuda_text`: types, arguments and the Rust body.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Ident, Pat, Result, Token, Type, parenthesized};

pub(crate) struct Input {
    /// The path of the library's module for these macros.
    pub(crate) library: TokenStream,
    /// The types that have a name in C++, each behind its name.
    pub(crate) types: Vec<(Ident, Type)>,
    /// The C++ name of the body's type.
    pub(crate) result: Ident,
    /// For each argument its C++ name, the C++ name of its type, and its Rust pattern.
    pub(crate) arguments: Vec<(Ident, Ident, Pat)>,
    pub(crate) body: Expr,
}

impl Parse for Input {
    fn parse(input: ParseStream) -> Result<Self> {
        label(input, "library")?;
        let mut library = TokenStream::new();
        while !input.peek(Token![;]) {
            library.extend([input.parse::<TokenTree>()?]);
        }
        input.parse::<Token![;]>()?;
        let types = listed(input, "types", |one| Ok((name(one)?, one.parse()?)))?;
        label(input, "result")?;
        let result = input.parse()?;
        input.parse::<Token![;]>()?;
        let arguments = listed(input, "arguments", |one| {
            Ok((one.parse()?, name(one)?, Pat::parse_single.parse2(ungrouped(one.parse()?))?))
        })?;
        label(input, "body")?;
        Ok(Input { library, types, result, arguments, body: input.parse()? })
    }
}

fn label(input: ParseStream, name: &str) -> Result<()> {
    let label: Ident = input.parse()?;
    if label != name {
        return Err(syn::Error::new(label.span(), format!("expected `{name}:`")));
    }
    input.parse::<Token![:]>().map(|_| ())
}

/// `name:`
fn name(input: ParseStream) -> Result<Ident> {
    let name = input.parse()?;
    input.parse::<Token![:]>()?;
    Ok(name)
}

/// `label: (one) (another);`
fn listed<T>(input: ParseStream, of: &str, each: impl Fn(ParseStream) -> Result<T>) -> Result<Vec<T>> {
    label(input, of)?;
    let mut all = Vec::new();
    while !input.peek(Token![;]) {
        let one;
        parenthesized!(one in input);
        all.push(each(&one)?);
    }
    input.parse::<Token![;]>()?;
    Ok(all)
}

/// The tokens without the invisible groups that `macro_rules` puts around a fragment: syn parses no
/// pattern through them.
fn ungrouped(tokens: TokenStream) -> TokenStream {
    let each = |tree| match tree {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => ungrouped(group.stream()),
        TokenTree::Group(group) => {
            let mut inner = Group::new(group.delimiter(), ungrouped(group.stream()));
            inner.set_span(group.span());
            TokenTree::Group(inner).into()
        }
        tree => TokenStream::from(tree),
    };
    tokens.into_iter().flat_map(each).collect()
}
