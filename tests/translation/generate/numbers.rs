//! Operands of a number type: literals, constants, variables, methods and conversions.

use super::Body;
use crate::types::{BF16, BOOL, F16, F32, F64, Kind, NUMBERS, Number, Type, U32};

impl Body<'_, '_> {
    /// An operand of a known type.
    pub(super) fn number(&mut self, number: Number, depth: u32) -> String {
        let is_whole = std::mem::take(&mut self.is_whole);
        if depth == 0 || self.left == 0 {
            return self.leaf(number);
        }
        self.left -= 1;
        let depth = depth - 1;
        match self.choices.below(12) {
            0 => self.leaf(number),
            1 => {
                let condition = self.number(BOOL, depth);
                // If one operand is a block, a literal in the other one needs a suffix.
                self.is_whole = true;
                let one = self.number(number, depth);
                self.is_whole = true;
                let other =
                    if is_whole || one.contains('{') { self.number(number, depth) } else { self.beside(number, depth) };
                let (one, other) = if self.choices.one_in(2) { (other, one) } else { (one, other) };
                format!("(if {condition} {{ {one} }} else {{ {other} }})")
            }
            2 => {
                let block = self.lambda(true, |this| match this.choices.below(2) {
                    0 => this.block(Type::Number(number), depth, false),
                    _ => this.choice(Type::Number(number), depth, false),
                });
                format!("({block})")
            }
            _ => match number.kind {
                Kind::Bool => self.boolean(depth),
                Kind::Half => self.half(number, depth),
                Kind::Float => self.float(number, depth),
                Kind::Unsigned | Kind::Signed => self.integer(number, depth),
            },
        }
    }

    /// The other operand of one with a known type: a literal may be without suffix here.
    pub(super) fn beside(&mut self, number: Number, depth: u32) -> String {
        let is_bare = !matches!(number.kind, Kind::Bool | Kind::Half) && self.choices.one_in(3);
        match is_bare {
            true if number.is_integer() && self.choices.one_in(6) => format!("!{}", self.literal(number).0),
            true => self.literal(number).0,
            false => self.number(number, depth),
        }
    }

    fn leaf(&mut self, number: Number) -> String {
        if self.choices.one_in(4) {
            return self.constant(number);
        }
        if let Some(place) = self.place(Type::Number(number)) {
            return place;
        }
        let others = self.places(None, false);
        let others = others.into_iter().filter_map(|(place, ty)| match ty {
            Type::Number(other) if other != BOOL && (other.kind != Kind::Half || number == BOOL) => {
                Some((place, other))
            }
            _ => None,
        });
        let others: Vec<(String, Number)> = others.collect();
        if others.is_empty() || number.kind == Kind::Half {
            return self.constant(number);
        }
        let (place, other) = others[self.choices.below(others.len().min(256))].clone();
        match number.kind {
            Kind::Bool => format!("({place} {} {})", self.choices.of(&["<", "==", "!=", ">="]), self.constant(other)),
            _ => format!("({place} as {})", number.name),
        }
    }

    fn constant(&mut self, number: Number) -> String {
        let name = number.name;
        match number.kind {
            Kind::Bool => self.choices.of(&["false", "true"]).to_owned(),
            Kind::Half => {
                let value = self.choices.of(&["0.0", "1.5", "-0.1", "1e6", "3e-6", "-0.0"]);
                let path = self.choices.of(&["", "half::"]);
                format!("{path}{name}::from_f32({value})")
            }
            Kind::Float if self.choices.one_in(3) => {
                let constants = [
                    "MAX",
                    "MIN",
                    "MIN_POSITIVE",
                    "EPSILON",
                    "INFINITY",
                    "NEG_INFINITY",
                    "NAN",
                    "consts::PI",
                    "consts::LN_2",
                ];
                let constant = self.choices.of(&constants);
                let path = if constant.starts_with("consts") { "std::" } else { "" };
                format!("{path}{name}::{constant}")
            }
            Kind::Unsigned | Kind::Signed if self.choices.one_in(4) => {
                let constant = self.choices.of(&["MAX", "MIN"]);
                if number == U32 && self.choices.one_in(3) {
                    "i16::BITS".to_owned()
                } else {
                    format!("{name}::{constant}")
                }
            }
            _ if name == "u8" && self.choices.one_in(8) => "b'x'".to_owned(),
            _ => {
                let (literal, negative) = self.literal(number);
                if negative { format!("({literal}_{name})") } else { format!("{literal}_{name}") }
            }
        }
    }

    /// A literal without a suffix, and whether it is negative.
    fn literal(&mut self, number: Number) -> (String, bool) {
        if number.kind == Kind::Float {
            let special = ["1.0", "0.5", "0.1", "0.0", "-0.0", "16777217.0", "1e-40", "3.4e38", "2.5"];
            let text = match self.choices.below(3) {
                0 => self.choices.of(&special).to_owned(),
                _ => format!("{:?}", self.choices.word() as i16 as f32 / 8.0),
            };
            let negative = text.starts_with('-');
            return (text, negative);
        }
        let bits = number.bits;
        let most = u64::MAX >> (64 - bits + u32::from(number.kind == Kind::Signed));
        let value = match self.choices.below(4) {
            0 => self.choices.of(&[1, 0, 2, 3, 7, 8, 31]),
            1 => most - self.choices.below(2) as u64,
            2 => self.choices.below(256) as u64,
            _ => self.choices.word(),
        } & most;
        if number.kind == Kind::Signed && self.choices.one_in(3) {
            let least = i128::from(value) + i128::from(self.choices.one_in(4));
            return (format!("-{least}"), true);
        }
        (if self.choices.one_in(4) { format!("0x{value:x}") } else { value.to_string() }, false)
    }

    /// The amount of a shift.
    pub(super) fn amount(&mut self, shifted: Number, depth: u32) -> String {
        match self.choices.below(3) {
            0 => self.choices.below(shifted.bits as usize).to_string(),
            1 => format!("{}_u8", self.choices.below(70)),
            _ => {
                let number = self.integer_type();
                self.number(number, depth)
            }
        }
    }

    /// A divisor that is rarely one on which Rust panics.
    pub(super) fn divisor(&mut self, number: Number, depth: u32) -> String {
        let value = self.number(number, depth);
        if self.choices.one_in(8) { value } else { format!("({value} | {})", 1 + 2 * self.choices.below(3)) }
    }

    /// A name for a value that is used more than once, and the text with it as a block.
    fn with(&mut self, value: String, text: impl FnOnce(&str) -> String) -> String {
        format!("({{ let held = {value}; {} }})", text("held"))
    }

    fn boolean(&mut self, depth: u32) -> String {
        match self.choices.below(9) {
            0..=2 => {
                let number = self.choices.of(&NUMBERS);
                let (one, other) = (self.number(number, depth), self.beside(number, depth));
                let (one, other) = if self.choices.one_in(3) { (other, one) } else { (one, other) };
                format!("({one} {} {other})", self.choices.of(&["<", "==", "!=", "<=", ">", ">="]))
            }
            3 => format!("({} && {})", self.number(BOOL, depth), self.number(BOOL, depth)),
            4 => format!("({} || {})", self.number(BOOL, depth), self.number(BOOL, depth)),
            5 => format!("(!{})", self.number(BOOL, depth)),
            6 => {
                let operator = self.choices.of(&["&", "|", "^", "==", "!=", "<"]);
                format!("({} {operator} {})", self.number(BOOL, depth), self.number(BOOL, depth))
            }
            7 => {
                let number = self.choices.of(&[F32, F64, F16, BF16]);
                let value = self.number(number, depth);
                match self.choices.below(4) {
                    0 => format!("{value}.is_nan()"),
                    1 => format!("{value}.is_finite()"),
                    2 => format!("{value}.is_infinite()"),
                    _ => {
                        let method = self.choices.of(&["is_sign_negative", "is_sign_positive"]);
                        self.with(value, |it| format!("!{it}.is_nan() && {it}.{method}()"))
                    }
                }
            }
            _ if self.choices.one_in(2) => {
                // Both sides are NaN for the same arguments.
                let number = self.choices.of(&[F32, F64]);
                let value = self.number(number, depth);
                match self.choices.below(2) {
                    0 => {
                        let methods = [
                            "exp", "exp2", "exp_m1", "ln", "ln_1p", "log2", "log10", "cbrt", "sin", "cos", "tan",
                            "asin", "acos", "atan", "sinh", "cosh", "tanh",
                        ];
                        format!("{value}.{}().is_nan()", self.choices.of(&methods))
                    }
                    _ => {
                        let method = self.choices.of(&["powf", "hypot", "atan2"]);
                        format!("{value}.{method}({}).is_nan()", self.beside(number, depth))
                    }
                }
            }
            _ => {
                let number = self.integer_type().integer(Kind::Unsigned);
                let value = self.number(number, depth);
                match self.choices.below(2) {
                    0 => format!("{value}.is_power_of_two()"),
                    _ => format!("{value}.is_multiple_of({})", self.beside(number, depth)),
                }
            }
        }
    }

    fn half(&mut self, number: Number, depth: u32) -> String {
        let name = number.name;
        match self.choices.below(5) {
            0 | 1 => {
                let operator = self.choices.of(&["+", "-", "*", "/"]);
                format!("({} {operator} {})", self.number(number, depth), self.number(number, depth))
            }
            2 => format!("(-{})", self.number(number, depth)),
            3 => format!("{name}::from_f32({})", self.beside(F32, depth)),
            _ => {
                let bits = self.beside(number.integer(Kind::Unsigned), depth);
                self.with(format!("{name}::from_bits({bits})"), |it| {
                    format!("if {it}.is_nan() {{ {name}::from_f32(0.5) }} else {{ {it} }}")
                })
            }
        }
    }

    /// A number converted to an integer or a float that is no half.
    fn converted(&mut self, to: Number, depth: u32) -> String {
        let from = self.any_number();
        let value = self.number(from, depth);
        let name = to.name;
        if from.converts_to(to) && self.choices.one_in(2) {
            return format!("{name}::from({value})");
        }
        match from.kind {
            Kind::Half => format!("({value}.to_f32() as {name})"),
            Kind::Bool if to.kind == Kind::Float => format!("({value} as u8 as {name})"),
            _ => format!("({value} as {name})"),
        }
    }

    fn float(&mut self, number: Number, depth: u32) -> String {
        let name = number.name;
        match self.choices.below(11) {
            0..=2 => {
                let operator = self.choices.of(&["+", "-", "*", "/", "%"]);
                let (one, other) = (self.number(number, depth), self.beside(number, depth));
                let (one, other) = if self.choices.one_in(2) { (other, one) } else { (one, other) };
                format!("({one} {operator} {other})")
            }
            3 => format!("(-{})", self.number(number, depth)),
            4 | 5 => self.converted(number, depth),
            6 => {
                let methods =
                    ["sqrt", "recip", "floor", "ceil", "trunc", "fract", "round", "round_ties_even", "abs", "signum"];
                let value = self.number(number, depth);
                format!("{value}.{}()", self.choices.of(&methods))
            }
            7 => {
                // Rust leaves the sign of a zero open.
                let method = self.choices.of(&["min", "max"]);
                let (one, other) = (self.number(number, depth), self.beside(number, depth));
                match self.choices.below(2) {
                    0 => format!("({one}.{method}({other}) + 0.0)"),
                    _ => format!("({name}::{method}({}, {other}) + 0.0)", self.beside(number, depth)),
                }
            }
            8 => {
                let value = self.number(number, depth);
                format!("{value}.mul_add({}, {})", self.beside(number, depth), self.beside(number, depth))
            }
            9 => match self.choices.below(2) {
                0 => format!(
                    "{}.clamp({})",
                    self.number(number, depth),
                    self.choices.of(&["-1.0, 2.5", "0.0, 0.0", "-0.0, 1e10"])
                ),
                _ => {
                    let (value, sign) = (self.number(number, depth), self.number(number, depth));
                    self.with(sign, |it| format!("if {it}.is_nan() {{ {it} }} else {{ {value}.copysign({it}) }}"))
                }
            },
            _ => {
                let bits = self.beside(number.integer(Kind::Unsigned), depth);
                self.with(format!("{name}::from_bits({bits})"), |it| {
                    format!("if {it}.is_nan() {{ {name}::NAN }} else {{ {it} }}")
                })
            }
        }
    }

    fn integer(&mut self, number: Number, depth: u32) -> String {
        let signed = number.kind == Kind::Signed;
        match self.choices.below(16) {
            0..=2 => {
                let operator = self.choices.of(&["+", "-", "*", "&", "|", "^"]);
                let (one, other) = (self.number(number, depth), self.beside(number, depth));
                let (one, other) = if self.choices.one_in(2) { (other, one) } else { (one, other) };
                format!("({one} {operator} {other})")
            }
            3 => {
                let operator = self.choices.of(&["/", "%"]);
                format!("({} {operator} {})", self.beside(number, depth), self.divisor(number, depth))
            }
            4 | 5 => {
                let (value, amount) = (self.number(number, depth), self.amount(number, depth));
                format!("({value} {} {amount})", self.choices.of(&["<<", ">>"]))
            }
            6 if signed => format!("(-{})", self.number(number, depth)),
            6 => format!("(!{})", self.number(number, depth)),
            7 | 8 => self.converted(number, depth),
            9 => {
                let value = self.number(number, depth);
                let methods = ["wrapping_neg", "reverse_bits", "swap_bytes", "abs", "signum", "wrapping_abs"];
                format!("{value}.{}()", self.choices.of(&methods[..if signed { 6 } else { 3 }]))
            }
            10 => {
                let methods =
                    ["wrapping_add", "wrapping_sub", "wrapping_mul", "saturating_add", "saturating_sub", "min", "max"];
                let (method, value) = (self.choices.of(&methods), self.number(number, depth));
                let other = self.beside(number, depth);
                match self.choices.below(3) {
                    2 => format!("{}::{method}({}, {other})", number.name, self.beside(number, depth)),
                    _ => format!("{value}.{method}({other})"),
                }
            }
            11 => {
                let method = self.choices.of(&["wrapping_div", "wrapping_rem", "rem_euclid", "div_euclid"]);
                format!("{}.{method}({})", self.number(number, depth), self.divisor(number, depth))
            }
            12 => {
                let methods = ["wrapping_shl", "wrapping_shr", "rotate_left", "rotate_right", "wrapping_pow", "pow"];
                let method = self.choices.of(&methods);
                let value = self.number(number, depth);
                let amount = if self.choices.one_in(3) { self.literal(U32).0 } else { self.number(U32, depth) };
                format!("{value}.{method}({amount})")
            }
            13 if signed => {
                let floats: Vec<Number> =
                    [F32, F64, F16, BF16].into_iter().filter(|float| float.integer(Kind::Signed) == number).collect();
                if floats.is_empty() {
                    return self.leaf(number);
                }
                let float = self.choices.of(&floats);
                let method = self.choices.of(&["key_nan_last", "key_nan_first"]);
                format!("{}.{method}()", self.number(float, depth))
            }
            13 => {
                let floats: Vec<Number> =
                    [F32, F64, F16, BF16].into_iter().filter(|float| float.integer(Kind::Unsigned) == number).collect();
                if floats.is_empty() || self.choices.one_in(3) {
                    let signed = number.integer(Kind::Signed);
                    if number.integer(Kind::Unsigned) != number {
                        return self.leaf(number);
                    }
                    let value = self.number(signed, depth);
                    return match self.choices.below(2) {
                        0 => format!("{value}.unsigned_abs()"),
                        _ => format!("{value}.abs_diff({})", self.beside(signed, depth)),
                    };
                }
                let float = self.choices.of(&floats);
                let value = self.number(float, depth);
                self.with(value, |it| format!("if {it}.is_nan() {{ 7_{} }} else {{ {it}.to_bits() }}", number.name))
            }
            14 => {
                let methods =
                    ["count_ones", "count_zeros", "leading_zeros", "leading_ones", "trailing_zeros", "trailing_ones"];
                let of = self.integer_type();
                let value = self.number(of, depth);
                let count = format!("{value}.{}()", self.choices.of(&methods));
                if number == U32 { count } else { format!("({count} as {})", number.name) }
            }
            15 if !signed => {
                let value = self.number(number, depth);
                format!("{value}.abs_diff({})", self.beside(number, depth))
            }
            _ => {
                let value = self.number(number, depth);
                let (one, other) = (self.number(number, depth), self.beside(number, depth));
                self.with(one, |it| format!("{value}.clamp({it}, {it}.max({other}))"))
            }
        }
    }
}
