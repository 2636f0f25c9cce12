//! The translation returns a text or an error for every input.

use crate::generate::{Case, Choices};
use crate::input::Input;
use crate::{check, translate};
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use std::iter;

/// The number of inputs of a test, unless `BOLERO_RANDOM_ITERATIONS` gives another one.
const ITERATIONS: usize = 1000;

/// Translates as the macro does.
fn text(input: TokenStream) -> Result<String, Vec<syn::Error>> {
    let input = syn::parse2::<Input>(input).map_err(|e| vec![e])?;
    let text = translate::translate(&input)?;
    syn::parse2::<syn::ItemConst>(check::check(&input)).expect("the copy of the body is an item");
    Ok(text)
}

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Every generated body is within the subset.
#[test]
fn bodies_are_translated() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        for input in Case::new(&mut Choices(bytes)).inputs() {
            let input = input.concat();
            let text = text(tokens(&input)).unwrap_or_else(|errors| panic!("{errors:?}: {input}"));
            assert!(text.ends_with(';') && text.contains("return"), "{input}\n{text}");
        }
    });
}

/// A body with some of its tokens dropped, doubled or replaced, and a body of any tokens.
#[test]
fn tokens_are_translated_or_refused() {
    bolero::check!().with_iterations(ITERATIONS).for_each(|bytes: &[u8]| {
        let (body, changes) = bytes.split_at(bytes.len() / 2);
        let mut changes = Choices(changes);
        for [head, body] in Case::new(&mut Choices(body)).inputs() {
            let any = any(&mut changes, 6);
            for body in [changed(tokens(&body), &mut changes), quote!({ #any })] {
                let head = tokens(&head);
                _ = text(quote!(#head #body));
            }
        }
    });
}

fn changed(tokens: TokenStream, choices: &mut Choices) -> TokenStream {
    let mut all = Vec::new();
    for tree in tokens {
        let tree = match tree {
            TokenTree::Group(group) => Group::new(group.delimiter(), changed(group.stream(), choices)).into(),
            other => other,
        };
        match choices.below(64) {
            59 => {}
            60 => all.extend([tree.clone(), tree]),
            61 => all.extend(any(choices, 3)),
            62 => all.extend(any(choices, 3).into_iter().chain([tree])),
            63 => {
                all.push(tree);
                let n = all.len();
                all.swap(n - 1, choices.below(n.min(4)) + n - n.min(4));
            }
            _ => all.push(tree),
        }
    }
    all.into_iter().collect()
}

/// Up to this many tokens, including tokens in groups.
fn any(choices: &mut Choices, most: usize) -> TokenStream {
    const WORDS: &str = "a b x _ self Self let mut ref if else for in while loop match return break continue as move fn struct unsafe const
        static async await dyn impl where use true false u8 i64 f32 f16 bool usize u128 Pair Carry std f32::consts::PI u32::MAX half::f16
        0 1 -1 0_u8 300_u8 1_f32 1.5 1e400 1e-400 1.5_f32 2.5_f64 1e40_f32 18446744073709551615 18446744073709551616 1_u128
        340282366920938463463374607431768211456 0x1p3 b'x' 'c' \"text\" b\"text\" r#if r#u8 'a 'a: 1_000 0b11_i8 1. 1_bool 1_usize ∞ größe
        + - * / % & | ^ ! << >> == != < <= > >= && || = += -= <<= >>= . .. ..= , ; : :: -> => ? @ # $ ~
        max min clamp abs rotate_left from from_bits from_f32 to_bits key_nan_last rev mul_add powi into first second";
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let n = choices.below(most + 1);
    iter::repeat_with(|| match choices.below(5) {
        0 if most > 1 => {
            let delimiters = [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None];
            let delimiter = choices.of(&delimiters);
            TokenStream::from(TokenTree::from(Group::new(delimiter, any(choices, most - 1))))
        }
        _ => choices.of(&words).parse().unwrap_or_default(),
    })
    .take(n)
    .collect()
}
