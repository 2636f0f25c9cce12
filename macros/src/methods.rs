//! The methods and constants of the subset, and numbers as C++ writes them.

/// The type of a method's argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Argument {
    /// The receiver's type.
    Same,
    /// `u32`, whatever the receiver is.
    Amount,
}
use Argument::{Amount, Same};

/// The lists of arguments behind the receiver, each with the methods that take it.
#[rustfmt::skip]
pub(crate) const METHODS: &[(&[Argument], &[&str])] = &[
    // integers
    (&[], &[
        "wrapping_neg", "wrapping_abs", "unsigned_abs", "is_power_of_two", "count_ones", "count_zeros", "leading_zeros",
        "leading_ones", "trailing_zeros", "trailing_ones", "reverse_bits", "swap_bytes",
    ]),
    (&[Same], &[
        "wrapping_add", "wrapping_sub", "wrapping_mul", "wrapping_div", "wrapping_rem", "saturating_add", "saturating_sub",
        "abs_diff", "rem_euclid", "div_euclid", "is_multiple_of",
    ]),
    (&[Amount], &["wrapping_shl", "wrapping_shr", "wrapping_pow", "pow", "rotate_left", "rotate_right"]),
    // integers and floats
    (&[], &["abs", "signum"]),
    (&[Same], &["min", "max"]),
    (&[Same, Same], &["clamp"]),
    // floats: the same bits
    (&[], &[
        "sqrt", "recip", "floor", "ceil", "trunc", "fract", "round", "round_ties_even", "is_nan", "is_finite", "is_infinite",
        "is_sign_negative", "is_sign_positive", "to_bits", "to_f32", "key_nan_last", "key_nan_first",
    ]),
    (&[Same], &["copysign"]),
    (&[Same, Same], &["mul_add"]),
    // floats: within rounding
    (&[], &[
        "exp", "exp2", "exp_m1", "ln", "ln_1p", "log2", "log10", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
        "cosh", "tanh",
    ]),
    (&[Same], &["powf", "hypot", "atan2"]),
];

/// The function of `core/rust.cuh` for a method, and the method's arguments behind the receiver.
pub(crate) fn method(name: &str) -> Option<(&str, &'static [Argument])> {
    let (arguments, _) = METHODS.iter().find(|(_, names)| names.contains(&name))?;
    // Every function of the templates wraps.
    Some((name.strip_prefix("wrapping_").unwrap_or(name), arguments))
}

/// Whether `f16` and `bf16` have the method too.
pub(crate) fn is_of_halves(name: &str) -> bool {
    #[rustfmt::skip]
    const OF_HALVES: [&str; 9] = [
        "is_nan", "is_finite", "is_infinite", "is_sign_negative", "is_sign_positive", "to_bits", "to_f32", "key_nan_last",
        "key_nan_first",
    ];
    OF_HALVES.contains(&name)
}

/// Whether `name` is a type of numbers, or `bool`. These types have the same name in Rust and in
/// C++.
pub(crate) fn is_number(name: &str) -> bool {
    #[rustfmt::skip]
    const NUMBERS: [&str; 15] = [
        "i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize", "f32", "f64", "f16", "bf16", "bool",
    ];
    NUMBERS.contains(&name)
}

/// An associated constant of a number, in C++.
pub(crate) fn constant(number: &str, name: &str) -> Option<String> {
    macro_rules! integers { ($($t:ident)*) => { match number {
        $( stringify!($t) => match name {
            "MIN" => Some(integer(number, $t::MIN.into())),
            "MAX" => Some(integer(number, $t::MAX.into())),
            "BITS" => Some(integer("u32", $t::BITS.into())),
            _ => None,
        }, )*
        _ => None,
    } } }
    macro_rules! floats { ($($t:ident)*) => { match number {
        $( stringify!($t) => match name {
            "MIN" => Some($t::MIN),
            "MAX" => Some($t::MAX),
            "MIN_POSITIVE" => Some($t::MIN_POSITIVE),
            "EPSILON" => Some($t::EPSILON),
            "INFINITY" => Some($t::INFINITY),
            "NEG_INFINITY" => Some($t::NEG_INFINITY),
            "NAN" => Some($t::NAN),
            _ => None,
        }.map(|x| float(number, x.into(), u64::from(x.to_bits()))), )*
        _ => None,
    } } }
    match number {
        "isize" => constant("i64", name),
        "usize" => constant("u64", name),
        _ => integers!(i8 i16 i32 i64 u8 u16 u32 u64).or_else(|| floats!(f32 f64)),
    }
}

/// A constant of `std::f32::consts` or `std::f64::consts`.
pub(crate) fn mathematical(number: &str, name: &str) -> Option<String> {
    macro_rules! constants { ($($name:ident)*) => { match (number, name) {
        $(
            ("f32", stringify!($name)) => Some(float("f32", std::f32::consts::$name.into(), 0)),
            ("f64", stringify!($name)) => Some(float("f64", std::f64::consts::$name, 0)),
        )*
        _ => None,
    } } }
    constants! {
        PI TAU E SQRT_2 LN_2 LN_10 LOG2_E LOG2_10 LOG10_2 LOG10_E FRAC_1_PI FRAC_2_PI FRAC_1_SQRT_2 FRAC_2_SQRT_PI FRAC_PI_2 FRAC_PI_3
        FRAC_PI_4 FRAC_PI_6 FRAC_PI_8
    }
}

/// An integer of type `number`.
pub(crate) fn integer(number: &str, value: i128) -> String {
    format!("{number}({})", digits(value))
}

/// An integer as C++ writes it.
pub(crate) fn digits(value: i128) -> String {
    match i64::try_from(value) {
        // C++ has no negative literals, and 2^63 fits no signed one.
        Ok(i64::MIN) => format!("{} - 1", i64::MIN + 1),
        Ok(value) => value.to_string(),
        Err(_) => format!("{value}ull"),
    }
}

/// A float of type `number` with this exact value, or with these bits if the value is not finite.
pub(crate) fn float(number: &str, value: f64, bits: u64) -> String {
    if value.is_finite() { format!("{number}({value:?})") } else { format!("rust::from_bits<{number}>({bits:#x})") }
}
