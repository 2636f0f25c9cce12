//! Writes the CUDA C++ text of an operator or a predicate from its Rust body. `parascan::operator!` and `parascan::predicate!` use it where
//! no text is given; which Rust it takes is said there. `parascan::element!` has the names of fields checked here.
//!
//! What it writes calls the functions of `cuda-templates/core/rust.cuh`, which find the types of what they are given by overload resolution:
//! so a body is translated by its syntax alone, and what a type must be known for (where a literal stands alone) has to be written.

mod check;
mod cpp;
mod input;
mod methods;
mod names;
mod translate;

#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;

/// The text, as an expression: `library: path; types: (Name: Type) ...; result: Name; arguments: (name Name: pattern) ...; body: expression`,
/// where names are those of C++.
#[doc(hidden)]
#[proc_macro]
pub fn cuda_text(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    text(input.into()).into()
}

/// Nothing, or an error at each of the names that cannot be those of a struct's fields in C++: `name name ...`.
#[doc(hidden)]
#[proc_macro]
pub fn field_names(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    cpp::field_names(input.into()).into()
}

fn text(input: TokenStream) -> TokenStream {
    let translated = syn::parse2::<input::Input>(input).map_err(|e| vec![e]).and_then(|input| {
        let text = translate::translate(&input)?;
        Ok((text, check::check(&input)))
    });
    match translated {
        Ok((text, check)) => quote!({ #check #text }),
        Err(errors) => {
            let errors = errors.iter().map(syn::Error::to_compile_error);
            quote!({ #(#errors)* "" })
        }
    }
}
