//! The text of each construct, and the message of each refusal.

use super::*;
use crate::input::Input;
use crate::methods::{METHODS, method};
use crate::translate::translate;
use proc_macro2::{Delimiter, Group, TokenTree};

fn translated(input: TokenStream) -> Result<String, Vec<String>> {
    let words = |errors: Vec<syn::Error>| errors.iter().map(syn::Error::to_string).collect();
    translate(&syn::parse2::<Input>(input).expect("the macros' own syntax")).map_err(words)
}

/// The text of a `combine` on numbers or on a struct.
fn combine(body: TokenStream) -> Result<String, Vec<String>> {
    translated(
        quote!(library: own; types: (Carry: Pair<f32, u32>); result: Carry; arguments: (a Carry: a) (b Carry: b); body: #body),
    )
}

#[track_caller]
fn is(body: TokenStream, text: &str) {
    match combine(body) {
        Ok(found) => assert_eq!(found, text, "found:\n{found}\n"),
        Err(errors) => panic!("{errors:?}"),
    }
}

/// Asserts that the text returns this expression.
#[track_caller]
fn returns(body: TokenStream, text: &str) {
    is(body, &format!("return {text};"));
}

#[track_caller]
fn refused(body: TokenStream, words: &[&str]) {
    let words: Vec<String> = words.iter().map(|words| format!("not translated to CUDA: {words}")).collect();
    assert_eq!(combine(body).expect_err("it is outside of the subset"), words);
}

const LITERAL: &str = "the type of this literal is unknown; add a suffix, as in `0_u32`, or give the `let` a type";

// ---- expressions --------------------------------------------------------------------------------

#[test]
fn operators() {
    returns(quote!(a + b), "rust::add(a, b)");
    returns(quote!(a - b * a / b % a), "rust::sub(a, rust::rem(rust::div(rust::mul(b, a), b), a))");
    returns(quote!((a - b) * -a), "rust::mul(rust::sub(a, b), rust::neg(a))");
    returns(quote!(a & b | !a ^ b), "rust::bit_or(rust::bit_and(a, b), rust::bit_xor(rust::invert(a), b))");
    returns(quote!(a << 3 >> b), "rust::shr(rust::shl(a, rust::literal(3)), b)");
    returns(
        quote!(a < b && a != 1 || b >= 2 && !(a == b)),
        "(((a < b) && rust::ne(a, rust::literal(1))) || (rust::ge(b, rust::literal(2)) && rust::invert((a == b))))",
    );
    returns(quote!(a <= b || a > b), "((a <= b) || (a > b))");
}

#[test]
fn literals() {
    returns(quote!(a + 1), "rust::add(a, rust::literal(1))");
    returns(quote!(1 - a), "rust::sub(rust::literal(1), a)");
    returns(quote!(a + -1), "rust::add(a, rust::literal(-1))");
    returns(quote!(a ^ !0), "rust::bit_xor(a, rust::invert(rust::literal(0)))");
    returns(quote!(a + 0.1 * b), "rust::add(a, rust::mul(rust::literal(0.1), b))");
    returns(quote!(a + 1e30), "rust::add(a, rust::literal(1e30))");
    returns(quote!(a * -2.5_f32), "rust::mul(a, f32(-2.5))");
    // The literal is exact, so C++ rounds it once.
    returns(quote!(0.1_f32), "f32(0.10000000149011612)");
    returns(quote!(0.1_f64), "f64(0.1)");
    returns(quote!(1f32), "f32(1.0)");
    returns(quote!(5_u8), "u8(5)");
    returns(quote!(0xff_i64), "i64(255)");
    returns(quote!(-9223372036854775808_i64), "i64(-9223372036854775807 - 1)");
    returns(quote!(a - 9223372036854775808), "rust::sub(a, rust::literal(9223372036854775808ull))");
    returns(quote!(18446744073709551615_u64), "u64(18446744073709551615ull)");
    returns(quote!(b'x'), "u8(120)");
    returns(quote!(true), "true");
    // The literal has the function's type.
    returns(quote!(7), "rust::literal(7)");
    // The literal is halfway between two f32, except for digits that f64 cannot hold.
    refused(
        quote!(a + 1.000000059604644775390625000000000001),
        &["this number changes if it is rounded to f64 before f32; add a suffix"],
    );
}

#[test]
fn constants() {
    returns(quote!(u32::MAX), "u32(4294967295)");
    returns(quote!(i64::MIN), "i64(-9223372036854775807 - 1)");
    returns(quote!(usize::MAX), "u64(18446744073709551615ull)");
    returns(quote!(i16::BITS), "u32(16)");
    returns(quote!(f32::MAX), "f32(3.4028234663852886e38)");
    returns(quote!(f64::EPSILON), "f64(2.220446049250313e-16)");
    returns(quote!(f32::NEG_INFINITY), "rust::from_bits<f32>(0xff800000)");
    returns(quote!(f64::NAN), "rust::from_bits<f64>(0x7ff8000000000000)");
    returns(quote!(std::f32::consts::PI), "f32(3.1415927410125732)");
}

#[test]
fn casts() {
    returns(quote!(a as u64), "rust::as<u64>(a)");
    returns(quote!((a < b) as i8 as f32), "rust::as<f32>(rust::as<i8>((a < b)))");
    returns(quote!(f64::from(a)), "rust::as<f64>(a)");
    returns(quote!(f32::from_bits(a)), "rust::from_bits<f32>(a)");
    returns(quote!(half::f16::from_f32(a)), "rust::from_f32<f16>(a)");
    returns(quote!(bf16::from_bits(3)), "rust::from_bits<bf16>(rust::literal(3))");
    refused(quote!(a as f16), &["a cast converts to an integer, f32 or f64"]);
    refused(quote!(a as _), &["a cast converts to an integer, f32 or f64"]);
    refused(quote!(1 as f32), &[LITERAL]);
    refused(quote!(u64::from(1)), &[LITERAL]);
}

#[test]
fn methods() {
    returns(quote!(a.wrapping_add(b)), "rust::add(a, b)");
    returns(quote!(a.max(0).min(b)), "rust::min(rust::max(a, rust::literal(0)), b)");
    returns(quote!(a.rotate_left(5)), "rust::rotate_left(a, rust::literal(5))");
    returns(quote!(a.mul_add(2.0, b)), "rust::mul_add(a, rust::literal(2.0), b)");
    returns(quote!(a.value.key_nan_last()), "rust::key_nan_last(a.value)");
    returns(quote!(u32::max(a, b)), "rust::max(a, b)");
    returns(quote!(f32::sqrt(2.0)), "rust::sqrt(f32(rust::literal(2.0)))");
    refused(quote!(a.checked_add(b)), &["`checked_add` is not in the subset that `parascan::operator!` documents"]);
    refused(quote!(a.powi(2)), &["multiply, or write `powf`, instead of `powi`"]);
    refused(quote!(a.into()), &["write `as`, or `f64::from`, instead of `into`"]);
    refused(quote!(a.min()), &["`min` takes 1 argument behind its receiver"]);
    refused(quote!(1.max(a)), &[LITERAL]);
    refused(quote!(gcd(a, b)), &["a body can call only the methods of numbers, `from`, `from_bits` and `from_f32`"]);
    refused(quote!(a.exp::<u8>()), &["a method call has no type arguments"]);
}

/// Every method that is listed has its function, with as many arguments.
#[test]
fn functions_of_the_template() {
    let template = include_str!("../../cuda-templates/core/rust.cuh");
    for name in METHODS.iter().flat_map(|(_, names)| *names) {
        let (cuda, arguments) = method(name).expect("it is listed");
        let (one, two) = (format!("ONE({cuda}, "), format!("TWO({cuda}, "));
        let (plain, by_macro) = (format!(" {cuda}("), ["ARITHMETIC", "BITWISE"].map(|of| format!("{of}({cuda}, ")));
        let parameters = template.lines().find_map(|line| {
            if line.starts_with(&one) {
                Some(1)
            } else if line.starts_with(&two) || by_macro.iter().any(|of| line.starts_with(of)) {
                Some(2)
            } else {
                let (_, rest) = line.split_once("__device__ inline ")?.1.split_once(&plain)?;
                Some(1 + rest.split(')').next()?.matches(',').count())
            }
        });
        assert_eq!(parameters, Some(1 + arguments.len()), "{name}");
    }
}

// ---- values of conditions and blocks ------------------------------------------------------------

#[test]
fn conditions_as_values() {
    returns(
        quote!(
            a + if a < b {
                a
            } else if a == b {
                1
            } else {
                b
            }
        ),
        "rust::add(a, ((a < b) ? a : rust::adapt(((a == b) ? rust::literal(1) : rust::adapt(b)))))",
    );
    is(
        quote!(if a < b && b > 0 {
            a
        } else if a == b {
            b
        } else {
            a * b
        }),
        "if ((a < b) && rust::gt(b, rust::literal(0))) {\n    return a;\n}\nif (a == b) {\n    return b;\n}\n\
         return rust::mul(a, b);",
    );
    is(
        quote!({
            let c: f32 = if a < b {
                let d = a * 2.0;
                d + 1.0
            } else {
                0.5
            };
            c
        }),
        "const f32 c_ = [&]() -> f32 {\n    if (a < b) {\n        const auto d_ = rust::mul(a, rust::literal(2.0));\n        \
         return rust::add(d_, rust::literal(1.0));\n    }\n    return rust::literal(0.5);\n}();\nreturn c_;",
    );
    refused(quote!(a + if a < b { 1 } else { 2 } * 3), &[LITERAL]);
    refused(
        quote!({
            let c = if a < b {
                let d = a;
                1
            } else {
                0
            };
            c
        }),
        &[LITERAL, LITERAL],
    );
}

#[test]
fn blocks_as_operands() {
    is(
        quote!(
            a + {
                let c = b;
                c * c
            }
        ),
        "return rust::add(a, [&] {\n    const auto c_ = b;\n    return rust::mul(c_, c_);\n}());",
    );
    is(quote!(a + { b }), "return rust::add(a, b);");
    // A `let` and an assignment evaluate nothing else.
    is(
        quote!({
            let mut n = a;
            let m = {
                n += 1;
                n
            };
            n = {
                n += m;
                n
            };
            n
        }),
        "auto n_ = a;\nconst auto m_ = [&] {\n    rust::set(n_, rust::add(n_, rust::literal(1)));\n    return n_;\n}();\n\
         rust::set(n_, [&]() -> decltype(n_) {\n    rust::set(n_, rust::add(n_, m_));\n    return rust::adapt(n_);\n}());\nreturn n_;",
    );
    refused(
        quote!({
            let mut n = a;
            n + {
                n += 1;
                n
            }
        }),
        &["an operand cannot assign to a variable outside of it; move the block to a `let`"],
    );
    refused(quote!(a + { return b }), &["a block that is a value cannot contain `return`"]);
    // Rust evaluates the base of a struct last.
    is(
        quote!({
            let mut c = b;
            Pair {
                first: {
                    c.second = 5;
                    1
                },
                ..c
            }
        }),
        "auto c_ = b;\nCarry made;\ndecltype(made.first) value;\nrust::set(c_.second, rust::literal(5));\n\
         rust::set(value, rust::literal(1));\nrust::set(made, c_);\nrust::set(made.first, value);\nreturn made;",
    );
}

// ---- statements ---------------------------------------------------------------------------------

#[test]
fn variables() {
    is(
        quote!({
            let a = a + b;
            let mut a = a;
            let int: u64 = 5;
            a -= int;
            a.x.y ^= b;
            a
        }),
        "const auto a_ = rust::add(a, b);\nauto a_2 = a_;\nconst u64 int_ = rust::literal(5);\n\
         rust::set(a_2, rust::sub(a_2, int_));\nrust::set(a_2.x.y, rust::bit_xor(a_2.x.y, b));\nreturn a_2;",
    );
    is(
        quote!({
            let (mut c, d) = (a, b * a);
            (c, _) = (d, c);
            c <<= 1;
            c
        }),
        "const auto part = a;\nconst auto part2 = rust::mul(b, a);\nauto c_ = part;\nconst auto d_ = part2;\n\
         const decltype(c_) part3 = rust::adapt(d_);\nrust::set(c_, part3);\nrust::set(c_, rust::shl(c_, rust::literal(1)));\nreturn c_;",
    );
    is(
        quote!({
            let größe = a;
            größe
        }),
        "const auto gru00f6u00dfe_ = a;\nreturn gru00f6u00dfe_;".replace("u00", "u").as_str(),
    );
    refused(
        quote!({
            let n = 0;
            n
        }),
        &[LITERAL],
    );
    refused(
        quote!({
            let n = 1 << a;
            n
        }),
        &[LITERAL, LITERAL],
    );
    refused(
        quote!({
            let n;
            n = a;
            n
        }),
        &["a `let` needs a value"],
    );
    refused(
        quote!({
            let n: Vec<u8> = a;
            n
        }),
        &["the types that can be named here are those of numbers and `Pair<f32,u32>`"],
    );
    refused(
        quote!({
            let [x] = a;
            x
        }),
        &["a `let` declares a name, the fields of a struct, or a tuple of names from a tuple of values"],
    );
}

#[test]
fn loops() {
    is(
        quote!({
            let mut n = a;
            for i in 0..b {
                if i == 3 {
                    continue;
                }
                n += i;
            }
            for _ in (1..=8_u32).rev() {
                n *= 2
            }
            while n > 100 {
                n /= 2;
                if n == 7 { break } else { n -= 1 }
            }
            n
        }),
        "auto n_ = a;\n\
         for (auto range = rust::range(rust::literal(0), b); range.more; range.next()) {\n    const auto i_ = range.now;\n    \
             if (rust::eq(i_, rust::literal(3))) {\n        continue;\n    }\n    rust::set(n_, rust::add(n_, i_));\n}\n\
         for (auto range2 = rust::reversed(rust::range_inclusive(rust::literal(1), u32(8))); range2.more; range2.next()) {\n    \
             rust::set(n_, rust::mul(n_, rust::literal(2)));\n}\n\
         while (rust::gt(n_, rust::literal(100))) {\n    rust::turn();\n    rust::set(n_, rust::div(n_, rust::literal(2)));\n    \
             if (rust::eq(n_, rust::literal(7))) {\n        break;\n    }\n    else {\n        \
             rust::set(n_, rust::sub(n_, rust::literal(1)));\n    }\n}\nreturn n_;",
    );
    is(
        quote!({
            if a < b {
                return b;
            }
            a
        }),
        "if (a < b) {\n    return b;\n}\nreturn a;",
    );
    refused(
        quote!({
            for i in 0..8 {}
            a
        }),
        &["the type of this range is unknown; add a suffix, as in `0..8_u32`"],
    );
    refused(
        quote!({
            for i in a {}
            a
        }),
        &["a `for` runs over a range of integers with both ends, or over `.rev()` of one"],
    );
    refused(quote!({ loop {} }), &["write `for` or `while` instead of `loop`"]);
    refused(
        quote!({
            'out: while true {
                break 'out;
            }
            a
        }),
        &["a loop has no label"],
    );
    refused(
        quote!({
            a + b;
            a
        }),
        &["this statement has no effect"],
    );
}

// ---- structs ------------------------------------------------------------------------------------

#[test]
fn structs() {
    is(
        quote!(Pair { second: 1, first: a.first * b.first }),
        "Carry made;\nrust::set(made.second, rust::literal(1));\nrust::set(made.first, rust::mul(a.first, b.first));\nreturn made;",
    );
    is(
        quote!({
            let c = Pair { first: 0.5, ..a };
            if c.first > b.first { c } else { Pair { second: 2, ..b } }
        }),
        "Carry made;\nrust::set(made, a);\nrust::set(made.first, rust::literal(0.5));\nconst Carry c_ = made;\n\
         if (c_.first > b.first) {\n    return c_;\n}\nCarry made2;\nrust::set(made2, b);\n\
         rust::set(made2.second, rust::literal(2));\nreturn made2;",
    );
    // A struct in a struct needs no name.
    is(
        quote!(Pair { first: Inner { x: 1 }, second: if a.z { b.y } else { Other { y: 2 } } }),
        "Carry made;\nrust::set(made.first.x, rust::literal(1));\nif (a.z) {\n    rust::set(made.second, b.y);\n}\nelse {\n    \
         rust::set(made.second.y, rust::literal(2));\n}\nreturn made;",
    );
    is(
        quote!({
            let Pair { first: x, second: mut y, .. } = a;
            y += 1;
            x
        }),
        "const auto part = a;\nconst auto x_ = part.first;\nauto y_ = part.second;\n\
         rust::set(y_, rust::add(y_, rust::literal(1)));\nreturn x_;",
    );
    refused(
        quote!({
            let c = Other { x: 1 };
            a
        }),
        &["the structs that can be named here are `Pair<f32,u32>`"],
    );
    refused(quote!(a.0), &["a tuple's fields are not in the subset; use a struct with named fields"]);
}

/// Each field of one struct type has a type of its own in C++.
#[test]
fn structs_that_meet_a_type() {
    is(
        quote!({
            let mut c = a;
            (c.left, c.right) = (c.right, b.left);
            let d = if c.x < 1 { a.left } else { c.right };
            let e = if d.x < 1 {
                Pair { x: 1, ..a }
            } else {
                let f = b;
                f
            };
            let g: Pair<f32, u32> = c.inner;
            c.left = {
                let h = g;
                h.right
            };
            c
        }),
        "auto c_ = a;\nconst decltype(c_.left) part = rust::adapt(c_.right);\n\
         const decltype(c_.right) part2 = rust::adapt(b.left);\nrust::set(c_.left, part);\nrust::set(c_.right, part2);\n\
         const auto d_ = (rust::lt(c_.x, rust::literal(1)) ? a.left : rust::adapt(c_.right));\n\
         const auto e_ = [&] {\n    return (rust::lt(d_.x, rust::literal(1))) ? [&] {\n        Carry made;\n        \
             rust::set(made, a);\n        rust::set(made.x, rust::literal(1));\n        return made;\n    }() : rust::adapt([&] {\n        \
             const auto f_ = b;\n        return f_;\n    }());\n}();\n\
         const Carry g_ = rust::adapt(c_.inner);\n\
         rust::set(c_.left, [&]() -> decltype(c_.left) {\n    const auto h_ = g_;\n    return rust::adapt(h_.right);\n}());\n\
         return c_;",
    );
    // Numbers alone stay as they are.
    let text = translated(quote!(
        library: own; types: (Carry: f32); result: Carry; arguments: (a Carry: a) (b Carry: b);
        body: { let c: f32 = a; c + if c < b { c } else { b } }
    ));
    assert_eq!(text.as_deref(), Ok("const f32 c_ = a;\nreturn rust::add(c_, ((c_ < b) ? c_ : b));"));
}

#[test]
fn two_types_and_their_names() {
    let lift = |body: TokenStream| {
        translated(quote!(
            library: own; types: (Carry: Pair<f64>) (Element: Pair<f32>); result: Carry; arguments: (x Element: Pair { first, second: _ }); body: #body
        ))
    };
    let text = "const auto first_ = x.first;\nElement made;\nrust::set(made.first, first_);\nconst Element c_ = made;\n\
                return rust::adapt(c_.first);";
    assert_eq!(
        lift(quote!({
            let c = Pair::<f32> { first };
            c.first
        }))
        .as_deref(),
        Ok(text)
    );
    let words = "not translated to CUDA: two types have this name; write the type arguments, as in `Name::<f32>`";
    assert_eq!(
        lift(quote!({
            let c = Pair { first };
            c.first
        })),
        Err(vec![words.to_owned()])
    );
}

#[test]
fn arguments_of_a_predicate() {
    let keeps = quote!(
        library: own; types: (Item: f32) (Parameters: Above); result: bool; arguments: (x Item: _) (p Parameters: mut p); body: { p.least += 1.0; true }
    );
    let text = "auto p_ = p;\nrust::set(p_.least, rust::add(p_.least, rust::literal(1.0)));\nreturn true;";
    assert_eq!(translated(keeps).as_deref(), Ok(text));
}

// ---- the copy in which Rust checks the types ----------------------------------------------------

/// The body of the copy.
#[track_caller]
fn is_checked(body: TokenStream, copy: TokenStream) {
    let input = quote!(
        library: own; types: (Carry: Pair<f32>); result: Carry; arguments: (a Carry: mut f) (b Carry: g); body: #body
    );
    let found = crate::check::check(&syn::parse2(input).expect("the macros' own syntax")).to_string();
    let expected = quote!(fn check(mut f: Pair<f32>, g: Pair<f32>) -> Pair<f32> { #copy }).to_string();
    assert!(found.contains(&expected), "found:\n{found}\n");
}

#[test]
fn operands_and_receivers_are_numbers() {
    is_checked(quote!(f + g * 2), quote!(own::number(f) + own::number(g) * 2));
    is_checked(quote!(1 - f % g), quote!(1 - own::number(own::plain_number(f) % g)));
    is_checked(
        quote!(-f < g && !(f == g)),
        quote!(own::number(-own::number(f)) < g && !own::number((own::number(f) == g))),
    );
    is_checked(quote!(f.min(1).to_bits()), quote!(own::number(own::plain_number(f).min(1)).to_bits()));
    is_checked(quote!(f32::max(f, 1)), quote!(f32::max(own::plain_number(f), 1)));
    is_checked(quote!(half::f16::from_bits(f)), quote!(half::f16::from_bits(f)));
    is_checked(quote!(u64::from(f.x) << 3), quote!(own::number(u64::from(own::number(f.x))) << 3));
    is_checked(
        quote!({
            f.x += 1;
            f
        }),
        quote!({
            {
                own::number(f.x);
                f.x += 1
            };
            f
        }),
    );
    is_checked(
        quote!({
            for i in 0..g {}
            for i in (f..=9).rev() {}
            f
        }),
        quote!({
            for i in 0..own::plain_number(g) {}
            for i in (own::plain_number(f)..=9).rev() {}
            f
        }),
    );
}

// ---- the rest -----------------------------------------------------------------------------------

#[test]
fn what_is_refused() {
    refused(
        quote!(match a {
            _ => b,
        }),
        &["write `if` and `else` instead of `match`"],
    );
    refused(
        quote!({
            assert!(a > b);
            a
        }),
        &["a body calls no macros"],
    );
    refused(quote!(max!(a, b)), &["a body calls no macros"]);
    refused(quote!(*&a), &["references are not in the subset"]);
    refused(quote!(a.f[0]), &["arrays are not in the subset"]);
    refused(quote!((|x| x)(a)), &["a body can call only the methods of numbers, `from`, `from_bits` and `from_f32`"]);
    refused(quote!(if let 1 = a { a } else { b }), &["`if let` and `while let` are not in the subset"]);
    refused(quote!(K), &["a body can name only its arguments and variables; write the value, or make it a field"]);
    refused(
        quote!({
            fn f() {}
            a
        }),
        &["a body defines no items"],
    );
    refused(
        quote!({
            #[cfg(no)]
            let a = b;
            a
        }),
        &["a body has no attributes"],
    );
    refused(quote!(unsafe { a }), &["this expression is not in the subset that `parascan::operator!` documents"]);
    refused(quote!(1 + 2), &[LITERAL]);
    refused(quote!((a < 1) == (2 < 3)), &[LITERAL]);
    // One translation reports all errors.
    refused(
        quote!({
            let c = K;
            match c {
                _ => a,
            }
        }),
        &[
            "a body can name only its arguments and variables; write the value, or make it a field",
            "write `if` and `else` instead of `match`",
        ],
    );
}

/// Fragments that come through `macro_rules` lie in invisible groups.
#[test]
fn groups_of_macro_rules() {
    let group = |tokens: TokenStream| TokenTree::Group(Group::new(Delimiter::None, tokens));
    let (ty, pattern, sum) = (group(quote!(u32)), group(quote!(mut f)), group(quote!(f + g)));
    let (name, body) = (group(quote!(f32)), group(quote!(#sum * g as #ty)));
    let input = quote!(library: own; types: (Carry: #ty); result: Carry; arguments: (a Carry: #pattern) (b Carry: g); body: { let x: #name = 1.0; #body });
    let text = "const f32 x_ = rust::literal(1.0);\nreturn rust::mul(rust::add(a, b), rust::as<u32>(b));";
    assert_eq!(translated(input).as_deref(), Ok(text));
}

#[test]
fn errors_become_compile_errors() {
    let text =
        text(quote!(library: own; types: (Carry: u32); result: Carry; arguments: (a Carry: a) (b Carry: b); body: K))
            .to_string();
    assert!(text.contains("compile_error") && text.contains("not translated to CUDA"), "{text}");
}

// ---- names --------------------------------------------------------------------------------------

fn field_names(names: &str) -> Vec<String> {
    let text = cpp::field_names(names.parse().expect("tokens")).to_string();
    text.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn names_of_fields() {
    let others =
        "x count_ then_by _private _x1 threadIdx blockDim warpSize u32 min Element Carry made rust self_ type_ NaN";
    assert_eq!(field_names(others), [""; 0]);
    for (name, why) in [
        ("char16_t", "it is a keyword of C++"),
        ("static_cast", "it is a keyword of C++"),
        ("bitor", "it is a keyword of C++"),
        ("co_yield", "it is a keyword of C++"),
        ("r#type", "C++ has no raw identifiers"),
        ("größe", "a name in CUDA C++ has only ASCII letters, digits and underscores"),
        (
            "__shared__",
            "C++ reserves names with two underscores in a row, and names that begin with an underscore and a capital letter",
        ),
        (
            "a__b",
            "C++ reserves names with two underscores in a row, and names that begin with an underscore and a capital letter",
        ),
        (
            "_Float",
            "C++ reserves names with two underscores in a row, and names that begin with an underscore and a capital letter",
        ),
        ("NULL", "the text of a kernel defines it already"),
        ("f16", "the text of a kernel defines it already"),
    ] {
        let words = format!("the field `{name}` needs another name: {why}");
        assert_eq!(field_names(&format!("x {name} y")), std::slice::from_ref(&words));
        // A body with such a field, of an element whose C++ twin was written by hand.
        let field = syn::parse_str::<syn::Member>(name).expect("a field");
        let of_fields = |body| refused(body, &[&words]);
        of_fields(quote!(a.#field + b.x));
        of_fields(quote!({
            a.#field = b.x;
            a
        }));
        of_fields(quote!(Pair::<f32, u32> { #field: a.x, second: a.second }));
        of_fields(quote!({
            let Pair { #field: found, .. } = a;
            found
        }));
    }
}

/// The files below a folder.
fn templates(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { templates(&path) } else { vec![path] }).collect()
}

/// Macros without parameters that the templates leave defined, or that a unit defines before it
/// includes them.
#[test]
fn macros_of_kernels_are_no_names_of_fields() {
    let files = templates(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../cuda-templates")));
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(file).expect("a template");
        for line in text.lines() {
            let Some(name) = line.trim_start().strip_prefix("#define ").and_then(|rest| rest.split(' ').next()) else {
                continue;
            };
            let is_left = !name.contains('(') && !text.contains(&format!("#undef {name}\n"));
            assert!(!is_left || cpp::DEFINED.contains(&name), "{name} is a macro, and no field may have its name");
        }
    }
}

#[test]
fn names_of_variables_are_none_that_cpp_reserves() {
    is(
        quote!({
            let __LINE__ = a.x;
            let _x = __LINE__ + b.x;
            let x_ = _x;
            let _1 = x_;
            let größe__ = _1;
            größe__
        }),
        "const auto LINE_ = a.x;\nconst auto x_ = rust::add(LINE_, b.x);\nconst auto x_2 = x_;\nconst auto n1_ = x_2;\n\
         const auto gruf6udfe_ = n1_;\nreturn gruf6udfe_;",
    );
}

/// The translation time of nested `if` and `else` is linear in their number.
#[test]
fn nested_choices() {
    const DEPTH: usize = 32;
    let body = (0..DEPTH).fold(quote!(b), |inner, _| quote!(if a < b { a } else { #inner }));
    let (opened, closed) = ("((a < b) ? a : rust::adapt(".repeat(DEPTH), "))".repeat(DEPTH));
    returns(quote!(a + (#body)), &format!("rust::add(a, {opened}b{closed})"));
}
