//! Checks by Rust's own types, which a macro does not see. The output has a copy of the body beside
//! the text. The copy is never called, and each operand of an operator and each receiver of a
//! method in it must be a number.

use crate::input::Input;
use crate::methods::{is_of_halves, method};
use crate::translate::{assigning_operator, is_untyped, ungrouped};
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Expr, UnOp, parse_quote, parse2};

/// The copy of the body, as a function without a name outside of its constant.
pub(crate) fn check(input: &Input) -> TokenStream {
    let Input { library, types, result, arguments, body } = input;
    let type_of = |name: &syn::Ident| types.iter().find(|(known, _)| known == name).map(|(_, ty)| ty);
    let arguments = arguments.iter().map(|(_, ty, pattern)| {
        let ty = type_of(ty);
        quote!(#pattern: #ty)
    });
    let result = type_of(result).map_or(quote!(bool), |ty| quote!(#ty));
    let mut body = body.clone();
    Numbers { library }.visit_expr_mut(&mut body);
    quote! {
        const _: () = {
            #[allow(
                warnings, clippy::all, clippy::pedantic, arithmetic_overflow, overflowing_literals, unconditional_panic,
                reason = "rustc gives these warnings for the body itself"
            )]
            fn check(#(#arguments),*) -> #result { #body }
        };
    }
}

struct Numbers<'a> {
    library: &'a TokenStream,
}

impl Numbers<'_> {
    /// Passes an operand through a function of the library: `number` takes every number and `bool`,
    /// `plain_number` neither `f16`, `bf16` nor `bool`.
    fn wrap(&self, function: &str, operand: &mut Expr) {
        let library = self.library;
        let function = syn::Ident::new(function, operand.span());
        let wrapped = quote_spanned!(operand.span()=> #library::#function(#operand));
        *operand = parse2(wrapped).expect("a call is an expression");
    }
}

impl VisitMut for Numbers<'_> {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        // A wrapped operand no longer looks like a literal, so the test for literals comes first.
        let untyped = match &*expression {
            Expr::Binary(binary) => is_untyped(&binary.left),
            Expr::Unary(unary) => is_untyped(&unary.expr),
            Expr::Range(range) => range.start.as_ref().is_some_and(|start| is_untyped(start)),
            _ => false,
        };
        visit_mut::visit_expr_mut(self, expression);
        match expression {
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {}
            Expr::Binary(binary) => {
                let is_remainder = matches!(binary.op, BinOp::Rem(_) | BinOp::RemAssign(_));
                let function = if is_remainder { "plain_number" } else { "number" };
                if assigning_operator(&binary.op).is_some() {
                    let mut place = (*binary.left).clone();
                    self.wrap(function, &mut place);
                    *expression = parse_quote!({ #place; #binary });
                } else {
                    self.wrap(function, if untyped { &mut binary.right } else { &mut binary.left });
                }
            }
            Expr::Unary(unary) if !untyped && matches!(unary.op, UnOp::Neg(_) | UnOp::Not(_)) => {
                self.wrap("number", &mut unary.expr);
            }
            Expr::MethodCall(call) if method(&call.method.to_string()).is_some() => {
                let function = if is_of_halves(&call.method.to_string()) { "number" } else { "plain_number" };
                self.wrap(function, &mut call.receiver);
            }
            Expr::Call(call) if matches!(ungrouped(&call.func), Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "from")) =>
            {
                call.args.iter_mut().for_each(|argument| self.wrap("number", argument));
            }
            Expr::Call(call) => {
                let Expr::Path(path) = ungrouped(&call.func) else { return };
                let Some(last) = path.path.segments.last().filter(|_| path.path.segments.len() > 1) else { return };
                let name = last.ident.to_string();
                if method(&name).is_some()
                    && let Some(receiver) = call.args.first_mut()
                {
                    self.wrap(if is_of_halves(&name) { "number" } else { "plain_number" }, receiver);
                }
            }
            Expr::Range(range) => {
                if let Some(end) = if untyped { range.end.as_mut() } else { range.start.as_mut() } {
                    self.wrap("plain_number", end);
                }
            }
            _ => {}
        }
    }
}
