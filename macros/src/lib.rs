//! The CUDA C++ text of an operator or a predicate, translated from its Rust body.
//!
//! `parascan::operator!` and `parascan::predicate!` call this crate if the user gives no text. The
//! documentation of `operator!` lists the Rust that it translates. `parascan::element!` checks the
//! names of fields here.
//!
//! The text calls the functions of `cuda-templates/core/rust.cuh`, and C++ finds the function by
//! overload resolution. So a body is translated by its syntax alone. Only a literal that meets no
//! type needs a suffix.

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

/// The text as a string expression, of `library: path; types: (Name: Type) ...; result: Name;
/// arguments: (name Name: pattern) ...; body: expression`. The names are those of C++.
#[doc(hidden)]
#[proc_macro]
pub fn cuda_text(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    text(input.into()).into()
}

/// An error at each name of `name name ...` that C++ does not take for a field; otherwise nothing.
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
