//! Expressions become calls of the functions of `core/rust.cuh`.
//!
//! A block that is an operand becomes a lambda, called at once. It may not assign to variables
//! outside of it, since C++ leaves the order open in which operands are evaluated.

use super::syntax::{
    as_conditional, is_block, is_comparison, is_untyped, number_type, segments, ungrouped, ungrouped_type,
};
use super::{Target, Translator, UNTYPED_LITERAL};
use crate::methods::{Argument, constant, digits, float, integer, is_number, mathematical, method};
use quote::ToTokens;
use syn::{BinOp, Expr, ExprBinary, ExprCall, ExprCast, ExprMethodCall, ExprPath, ExprUnary, Ident, Lit, Member, UnOp};

impl Translator {
    /// The whole value of a `let` or an assignment, of C++ type `ty` if that is known. No other
    /// operand is evaluated beside it, so a block may assign to variables outside.
    pub(super) fn initializer(&mut self, expression: &Expr, ty: Option<&String>) -> String {
        if is_block(expression) { self.lambda(expression, ty.cloned()) } else { self.operand(expression) }
    }

    /// The C++ expression `text` of a value that meets a type. One struct of Rust has several types in
    /// C++, as an element and in each field.
    pub(super) fn adapted(&self, expression: &Expr, text: String) -> String {
        match ungrouped(expression) {
            Expr::Path(_) | Expr::Field(_) | Expr::If(_) | Expr::Block(_) | Expr::Struct(_) if self.has_structs() => {
                format!("rust::adapt({text})")
            }
            _ => text,
        }
    }

    /// A block that is an operand.
    fn block_operand(&mut self, expression: &Expr) -> String {
        self.names.open_operand();
        let text = self.lambda(expression, None);
        self.names.close_operand();
        text
    }

    /// A block that has a value, as a lambda that is called at once.
    pub(super) fn lambda(&mut self, expression: &Expr, ty: Option<String>) -> String {
        self.lambda_of(ty, |translator, target| translator.value(expression, target))
    }

    /// A lambda that is called at once. `write` writes its statements.
    pub(super) fn lambda_of(&mut self, ty: Option<String>, write: impl FnOnce(&mut Self, &Target)) -> String {
        let loops = std::mem::take(&mut self.loops);
        (self.depth, self.lambdas) = (self.depth + 1, self.lambdas + 1);
        let body = self.captured(|translator| write(translator, &Target::Return(ty.clone())));
        (self.depth, self.lambdas) = (self.depth - 1, self.lambdas - 1);
        self.loops = loops;
        let ty = ty.map_or(String::new(), |ty| format!("() -> {ty}"));
        format!("[&]{ty} {{\n{body}{}}}()", "    ".repeat(self.depth))
    }

    /// The condition of a statement, in parentheses.
    pub(super) fn condition(&mut self, expression: &Expr) -> String {
        let text = self.operand(expression);
        match ungrouped(expression) {
            Expr::Binary(_) if text.starts_with('(') => text,
            _ => format!("({text})"),
        }
    }

    /// The C++ expression of an operand.
    pub(super) fn operand(&mut self, expression: &Expr) -> String {
        let expression = ungrouped(expression);
        match expression {
            Expr::Lit(literal) => self.literal(&literal.lit, false),
            Expr::Path(path) => self.path(path),
            Expr::Field(field) => match &field.member {
                Member::Named(name) => {
                    let base = self.operand(&field.base);
                    self.field(&base, name)
                }
                Member::Unnamed(_) => {
                    self.refuse(&field.member, "a tuple's fields are not in the subset; use a struct with named fields")
                }
            },
            Expr::Unary(unary) => self.unary(unary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Cast(cast) => self.cast(cast),
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::If(choice) => match as_conditional(choice) {
                Some((condition, then, otherwise)) => {
                    let condition = self.operand(condition);
                    let (then, text) = (self.operand(then), self.operand(otherwise));
                    format!("({condition} ? {then} : {})", self.adapted(otherwise, text))
                }
                None if choice.else_branch.is_none() => self.refuse(choice, "an `if` that is a value needs an `else`"),
                None => self.block_operand(expression),
            },
            Expr::Struct(_) => self.block_operand(expression),
            Expr::Block(block) if block.label.is_none() => self.block_operand(expression),
            Expr::Let(_) => self.refuse(expression, "`if let` and `while let` are not in the subset"),
            Expr::Match(_) => self.refuse(expression, "write `if` and `else` instead of `match`"),
            Expr::Loop(_) => self.refuse(expression, "write `for` or `while` instead of `loop`"),
            Expr::Macro(_) => self.refuse(expression, "a body calls no macros"),
            Expr::Reference(_) => self.refuse(expression, "references are not in the subset"),
            Expr::Index(_) | Expr::Array(_) | Expr::Repeat(_) => {
                self.refuse(expression, "arrays are not in the subset")
            }
            Expr::Closure(_) => self.refuse(expression, "closures are not in the subset"),
            Expr::Assign(_) => self.refuse(expression, "an assignment is a statement of its own"),
            other => self.refuse(other, "this expression is not in the subset that `parascan::operator!` documents"),
        }
    }

    /// A literal, behind a minus sign if `negative`.
    fn literal(&mut self, literal: &Lit, negative: bool) -> String {
        let sign = if negative { -1 } else { 1 };
        match literal {
            Lit::Bool(value) => value.value.to_string(),
            Lit::Byte(byte) => integer("u8", byte.value().into()),
            Lit::Int(whole) => match (whole.base10_parse::<u64>(), whole.suffix()) {
                (Ok(value), "") => format!("rust::literal({})", digits(sign * i128::from(value))),
                (Ok(value), "f32") => float("f32", sign as f64 * f64::from(value as f32), 0),
                (Ok(value), "f64") => float("f64", sign as f64 * value as f64, 0),
                (Ok(value), suffix) if is_number(suffix) => integer(suffix, sign * i128::from(value)),
                _ => self.refuse(literal, "an integer literal has at most 64 bits"),
            },
            Lit::Float(real) => {
                let sign = sign as f64;
                match (real.base10_parse::<f64>(), real.base10_parse::<f32>(), real.suffix()) {
                    (Ok(_), Ok(value), "f32") => float("f32", sign * f64::from(value), 0),
                    (Ok(value), _, "f64") => float("f64", sign * value, 0),
                    (Ok(value), Ok(narrow), "") if value as f32 == narrow => {
                        format!("rust::literal({:?})", sign * value)
                    }
                    (Ok(_), Ok(_), "") => {
                        self.refuse(literal, "this number changes if it is rounded to f64 before f32; add a suffix")
                    }
                    _ => self.refuse(literal, "this literal is not in the subset that `parascan::operator!` documents"),
                }
            }
            other => self.refuse(other, "this literal is not in the subset that `parascan::operator!` documents"),
        }
    }

    /// A variable or a constant.
    fn path(&mut self, path: &ExprPath) -> String {
        if let Some(name) = path.path.get_ident() {
            return match self.names.find(name) {
                Some(cuda) => cuda.to_owned(),
                None => self.refuse(
                    path,
                    "a body can name only its arguments and variables; write the value, or make it a field",
                ),
            };
        }
        let names = segments(&path.path);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = match names[..] {
            [number, name] => constant(number, name),
            ["std" | "core", number, "consts", name] => mathematical(number, name),
            _ => None,
        };
        found.filter(|_| path.qself.is_none()).unwrap_or_else(|| {
            self.refuse(path, "this constant is not in the subset that `parascan::operator!` documents")
        })
    }

    fn unary(&mut self, unary: &ExprUnary) -> String {
        let ExprUnary { op, expr, .. } = unary;
        match (op, ungrouped(expr)) {
            (UnOp::Neg(_), Expr::Lit(literal)) => self.literal(&literal.lit, true),
            (UnOp::Neg(_), value) => {
                if is_untyped(value) {
                    self.refuse(value, UNTYPED_LITERAL);
                }
                format!("rust::neg({})", self.operand(value))
            }
            (UnOp::Not(_), value) => format!("rust::invert({})", self.operand(value)),
            _ => self.refuse(unary, "references are not in the subset"),
        }
    }

    fn binary(&mut self, binary: &ExprBinary) -> String {
        let ExprBinary { left, op, right, .. } = binary;
        let function = match op {
            BinOp::And(_) => return format!("({} && {})", self.operand(left), self.operand(right)),
            BinOp::Or(_) => return format!("({} || {})", self.operand(left), self.operand(right)),
            BinOp::Shl(_) | BinOp::Shr(_) => {
                if is_untyped(left) {
                    self.refuse(left, UNTYPED_LITERAL);
                }
                let function = if matches!(op, BinOp::Shl(_)) { "shl" } else { "shr" };
                return format!("rust::{function}({}, {})", self.operand(left), self.amount(right));
            }
            BinOp::Add(_) => "add",
            BinOp::Sub(_) => "sub",
            BinOp::Mul(_) => "mul",
            BinOp::Div(_) => "div",
            BinOp::Rem(_) => "rem",
            BinOp::BitAnd(_) => "bit_and",
            BinOp::BitOr(_) => "bit_or",
            BinOp::BitXor(_) => "bit_xor",
            BinOp::Eq(_) => "eq",
            BinOp::Ne(_) => "ne",
            BinOp::Lt(_) => "lt",
            BinOp::Le(_) => "le",
            BinOp::Gt(_) => "gt",
            BinOp::Ge(_) => "ge",
            _ => return self.refuse(binary, "an assignment is a statement of its own"),
        };
        match (is_untyped(left), is_untyped(right)) {
            (true, true) => _ = self.refuse(left, UNTYPED_LITERAL),
            // Two typed operands are compared by C++ itself: the compiler optimises that better
            // than a function.
            (false, false) if is_comparison(op) => {
                return format!("({} {} {})", self.operand(left), op.to_token_stream(), self.operand(right));
            }
            _ => {}
        }
        format!("rust::{function}({}, {})", self.operand(left), self.operand(right))
    }

    /// The amount of a shift, a rotation or a power. It has a type of its own, so a literal needs
    /// no suffix.
    pub(super) fn amount(&mut self, expression: &Expr) -> String {
        match ungrouped(expression) {
            Expr::Lit(literal) => self.literal(&literal.lit, false),
            other => {
                if is_untyped(other) {
                    self.refuse(other, UNTYPED_LITERAL);
                }
                self.operand(other)
            }
        }
    }

    fn cast(&mut self, cast: &ExprCast) -> String {
        let ExprCast { expr, ty, .. } = cast;
        let Some(number) = number_type(&ungrouped_type((**ty).clone()))
            .filter(|name| !matches!(name.as_str(), "f16" | "bf16" | "bool"))
        else {
            return self.refuse(ty, "a cast converts to an integer, f32 or f64");
        };
        if is_untyped(expr) {
            self.refuse(expr, UNTYPED_LITERAL);
        }
        format!("rust::as<{number}>({})", self.operand(expr))
    }

    fn method(&mut self, call: &ExprMethodCall) -> String {
        if is_untyped(&call.receiver) {
            self.refuse(&call.receiver, UNTYPED_LITERAL);
        }
        let receiver = self.operand(&call.receiver);
        if let Some(turbofish) = &call.turbofish {
            self.refuse(turbofish, "a method call has no type arguments");
        }
        let arguments: Vec<&Expr> = call.args.iter().collect();
        self.method_on(&call.method, receiver, &arguments)
    }

    /// The call of a method, written `x.name(...)` or `f32::name(x, ...)`.
    fn method_on(&mut self, name: &Ident, receiver: String, arguments: &[&Expr]) -> String {
        let rust = name.to_string();
        let Some((cuda, kinds)) = method(&rust) else {
            let words = match rust.as_str() {
                "into" => "write `as`, or `f64::from`, instead of `into`".to_owned(),
                "powi" => "multiply, or write `powf`, instead of `powi`".to_owned(),
                _ => format!("`{name}` is not in the subset that `parascan::operator!` documents"),
            };
            return self.refuse(name, words);
        };
        if kinds.len() != arguments.len() {
            return self.refuse(
                name,
                format!(
                    "`{name}` takes {} argument{} behind its receiver",
                    kinds.len(),
                    if kinds.len() == 1 { "" } else { "s" }
                ),
            );
        }
        let mut text = format!("rust::{cuda}({receiver}");
        for (&argument, kind) in arguments.iter().zip(kinds) {
            let argument = match kind {
                Argument::Same => self.operand(argument),
                Argument::Amount => self.amount(argument),
            };
            text += &format!(", {argument}");
        }
        text + ")"
    }

    /// A call of a function by its path.
    fn call(&mut self, call: &ExprCall) -> String {
        const WORDS: &str = "a body can call only the methods of numbers, `from`, `from_bits` and `from_f32`";
        let Expr::Path(path) = ungrouped(&call.func) else { return self.refuse(&call.func, WORDS) };
        let names = segments(&path.path);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (["half", number, name] | [number, name]) = names[..] else { return self.refuse(path, WORDS) };
        if !is_number(number) || path.qself.is_some() {
            return self.refuse(path, WORDS);
        }
        let arguments: Vec<&Expr> = call.args.iter().collect();
        let is_half = matches!(number, "f16" | "bf16");
        match (name, &arguments[..]) {
            ("from", [value]) if !is_half && number != "bool" => {
                if is_untyped(value) {
                    self.refuse(value, UNTYPED_LITERAL);
                }
                format!("rust::as<{number}>({})", self.operand(value))
            }
            ("from_bits", [bits]) => format!("rust::from_bits<{number}>({})", self.operand(bits)),
            ("from_f32", [value]) if is_half => format!("rust::from_f32<{number}>({})", self.operand(value)),
            (name, [receiver, rest @ ..]) if method(name).is_some() => {
                let value = self.operand(receiver);
                let receiver = if is_untyped(receiver) { format!("{number}({value})") } else { value };
                let name = &path.path.segments.last().expect("two names").ident;
                self.method_on(name, receiver, rest)
            }
            _ => self.refuse(path, WORDS),
        }
    }
}
