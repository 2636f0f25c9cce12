//! The options by which rustc finds the crates that a crate depends on.

use proc_macro::TokenStream;

/// The `--extern` and `-L` options of the crate that rustc is compiling, as a `&[&str]`: a macro runs
/// in the compiler's process.
#[proc_macro]
pub fn externs(_: TokenStream) -> TokenStream {
    let (mut options, mut arguments) = (Vec::new(), std::env::args());
    while let Some(option) = arguments.next() {
        if option == "--extern" || option == "-L" {
            options.push(option);
            options.extend(arguments.next());
        }
    }
    format!("&{options:?}").parse().expect("a list of strings")
}
