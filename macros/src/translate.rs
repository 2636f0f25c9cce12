//! From a Rust body to the text of a C++ function's body.
//!
//! Numbers are computed by functions of `core/rust.cuh`, since C++ promotes short integers, overflows undefined, and compares a float with a
//! literal in double. Statements stay statements. A block that is an operand becomes a lambda that is called at once; it may not assign
//! to what is outside of it, since C++ does not say in which order operands are evaluated.

use crate::cpp::refusal;
use crate::input::Input;
use crate::methods::{Argument, constant, digits, float, integer, is_number, mathematical, method};
use crate::names::Names;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    BinOp, Block, Error, Expr, ExprAssign, ExprBinary, ExprCall, ExprCast, ExprForLoop, ExprIf, ExprMethodCall,
    ExprPath, ExprRange, ExprStruct, ExprUnary, FieldPat, Ident, Lit, Local, Member, Pat, Path, PathArguments,
    RangeLimits, Stmt, Type, UnOp,
};

/// The text, statements the last of which ends in a semicolon.
pub(crate) fn translate(input: &Input) -> Result<String, Vec<Error>> {
    let Input { types, result, arguments, body, .. } = input;
    let mut types: Vec<(String, Type)> = types.iter().map(|(name, ty)| (name.to_string(), bare(ty.clone()))).collect();
    types.dedup_by_key(|(_, ty)| ty.to_token_stream().to_string());
    let mut translator = Translator { types, result: result.to_string(), ..Translator::default() };
    translator.names.open();
    translator.attributes(body.to_token_stream());
    for (cuda, _, pattern) in arguments {
        translator.argument(&cuda.to_string(), pattern);
    }
    let result = Some(translator.result.clone());
    translator.value(body, &Into::Return(result));
    if translator.errors.is_empty() { Ok(translator.text.trim_end().to_owned()) } else { Err(translator.errors) }
}

/// Where a value goes.
enum Into {
    /// Out of the function or the lambda, whose type is named if it is known.
    Return(Option<String>),
    /// Into a variable or a field that is there.
    Place(String),
    /// Nowhere: the block is a statement.
    Nothing,
}

#[derive(Default)]
struct Translator {
    /// The types that have a name, and the name.
    types: Vec<(String, Type)>,
    /// The type of the function's value.
    result: String,
    names: Names,
    errors: Vec<Error>,
    text: String,
    depth: usize,
    /// How many loops there are around, in this function or lambda.
    loops: usize,
    /// How many lambdas there are around.
    lambdas: usize,
}

const LITERAL: &str =
    "the type of this literal cannot be told here; add a suffix, as in `0_u32`, or say the type of the `let`";

impl Translator {
    /// Notes an error, and goes on with a text that nobody will see.
    fn refuse(&mut self, what: impl ToTokens, words: impl std::fmt::Display) -> String {
        self.errors.push(Error::new_spanned(what, format!("not translated to CUDA: {words}")));
        String::new()
    }

    fn line(&mut self, line: impl AsRef<str>) {
        let indent = "    ".repeat(self.depth);
        self.text += &format!("{indent}{}\n", line.as_ref());
    }

    /// What it writes, apart from the rest.
    fn apart(&mut self, write: impl FnOnce(&mut Self)) -> String {
        let before = std::mem::take(&mut self.text);
        write(self);
        std::mem::replace(&mut self.text, before)
    }

    /// Attributes could leave something out.
    fn attributes(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(tree) = tokens.next() {
            match (tree, tokens.peek()) {
                (TokenTree::Group(group), _) => self.attributes(group.stream()),
                (TokenTree::Punct(mark), Some(TokenTree::Group(group))) if mark.as_char() == '#' => {
                    self.refuse(group, "attributes");
                }
                _ => {}
            }
        }
    }

    // ---- patterns and types ------------------------------------------------------------------------------------------------

    fn argument(&mut self, cuda: &str, pattern: &Pat) {
        match pattern {
            Pat::Wild(_) => {}
            // The parameters of a predicate are constant.
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                if name.mutability.is_some() && cuda == "p" {
                    let copy = self.names.declare(&name.ident);
                    self.line(format!("auto {copy} = {cuda};"));
                } else {
                    self.names.alias(&name.ident, cuda.to_owned());
                }
            }
            Pat::Struct(_) => self.fields(cuda, pattern),
            Pat::Paren(inner) => self.argument(cuda, &inner.pat),
            Pat::Type(typed) => self.argument(cuda, &typed.pat),
            other => _ = self.refuse(other, "arguments are names, `_`, or the fields of a struct"),
        }
    }

    /// Variables for the fields of `value`, a place.
    fn fields(&mut self, value: &str, pattern: &Pat) {
        match pattern {
            Pat::Wild(_) => {}
            Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                let variable = self.names.declare(&name.ident);
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}auto {variable} = {value};"));
            }
            Pat::Struct(all) => {
                for FieldPat { member, pat, .. } in &all.fields {
                    match member {
                        Member::Named(field) => {
                            let place = self.field(value, field);
                            self.fields(&place, pat);
                        }
                        Member::Unnamed(_) => _ = self.refuse(member, "fields have names"),
                    }
                }
            }
            other => _ = self.refuse(other, "patterns are names, `_`, or the fields of a struct"),
        }
    }

    /// A field, whose name is the only one of the body that C++ is given as it stands.
    fn field(&mut self, base: &str, name: &Ident) -> String {
        match refusal(name) {
            Some(words) => self.refuse(name, words),
            None => format!("{base}.{name}"),
        }
    }

    /// The C++ name of a type.
    fn named(&mut self, ty: &Type) -> String {
        let ty = bare(ty.clone());
        if let Some(number) = number_of(&ty) {
            return number;
        }
        let tokens = ty.to_token_stream().to_string();
        match self.types.iter().find(|(_, known)| known.to_token_stream().to_string() == tokens) {
            Some((name, _)) => name.clone(),
            None => {
                let known = self.known();
                self.refuse(&ty, format!("the types that can be named are those of numbers{known}"))
            }
        }
    }

    /// The types that have a name, for a message.
    fn known(&self) -> String {
        let structs = self.types.iter().filter(|(_, ty)| number_of(ty).is_none());
        let mut names: Vec<String> =
            structs.map(|(_, ty)| format!(" and `{}`", ty.to_token_stream().to_string().replace(' ', ""))).collect();
        names.dedup();
        names.concat()
    }

    /// The C++ name of the struct that a literal makes.
    fn of_literal(&mut self, path: &Path) -> String {
        let plain = path.segments.iter().all(|segment| segment.arguments.is_none());
        let same = |known: &Type| match known {
            Type::Path(known) if plain => names_of(&known.path) == names_of(path),
            Type::Path(known) => {
                let turbofish = path.to_token_stream().to_string().replace(":: <", "<");
                known.path.to_token_stream().to_string() == turbofish
            }
            _ => false,
        };
        let mut found = self.types.iter().filter(|(_, known)| same(known));
        let Some((name, ty)) = found.next() else {
            let known = self.known();
            let words = match known.as_str() {
                "" => "no struct can be named here".to_owned(),
                _ => format!("the structs that can be named here are{}", known.replacen(" and", "", 1)),
            };
            return self.refuse(path, words);
        };
        let is_other = |other: &Type| other.to_token_stream().to_string() != ty.to_token_stream().to_string();
        let (name, ambiguous) = (name.clone(), found.any(|(_, other)| is_other(other)));
        if ambiguous {
            return self.refuse(path, "two types have this name; write its arguments, as in `Name::<f32>`");
        }
        name
    }

    // ---- statements --------------------------------------------------------------------------------------------------------

    fn block(&mut self, block: &Block, into: &Into) {
        self.names.open();
        let Some((last, before)) = block.stmts.split_last() else { return self.names.close() };
        for statement in before {
            self.statement(statement);
        }
        match last {
            Stmt::Expr(value, None) => self.value(value, into),
            statement => self.statement(statement),
        }
        self.names.close();
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Local(local) => self.local(local),
            Stmt::Expr(expression, _) => self.value(expression, &Into::Nothing),
            Stmt::Item(item) => _ = self.refuse(item, "items in a body"),
            Stmt::Macro(call) => _ = self.refuse(call, "macros"),
        }
    }

    fn braced(&mut self, head: impl AsRef<str>, block: &Block, into: &Into) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
        self.block(block, into);
        self.depth -= 1;
        self.line("}");
    }

    /// Brings the value of an expression where it goes.
    fn value(&mut self, expression: &Expr, into: &Into) {
        let expression = inner(expression);
        match (expression, into) {
            (Expr::If(choice), into) => self.choice(choice, into),
            (Expr::Block(block), Into::Nothing) if block.label.is_none() => self.braced("", &block.block, into),
            (Expr::Block(block), into) if block.label.is_none() => self.block(&block.block, into),
            (Expr::Struct(literal), Into::Return(ty)) => {
                let ty = ty.clone().unwrap_or_else(|| self.of_literal(&literal.path));
                let made = self.names.temporary("made");
                self.line(format!("{ty} {made};"));
                self.literal(literal, &made);
                self.line(format!("return {made};"));
            }
            (Expr::Struct(literal), Into::Place(place)) => self.literal(literal, place),
            (Expr::Return(_) | Expr::Break(_) | Expr::Continue(_), _) => self.jump(expression),
            (_, Into::Nothing) => self.effect(expression),
            (_, Into::Return(ty)) => {
                if ty.is_none() && is_untyped(expression) {
                    self.refuse(expression, LITERAL);
                }
                let value = self.operand(expression);
                match (expression, ty) {
                    // A field may be what is an element elsewhere.
                    (Expr::Field(_) | Expr::Path(_), Some(ty)) if self.types.len() > 1 => {
                        self.line(format!("return rust::to<{ty}>({value});"));
                    }
                    _ => self.line(format!("return {value};")),
                }
            }
            (_, Into::Place(place)) => {
                let value = self.operand(expression);
                self.line(format!("rust::set({place}, {value});"));
            }
        }
    }

    fn choice(&mut self, ExprIf { cond, then_branch, else_branch, .. }: &ExprIf, into: &Into) {
        let condition = self.condition(cond);
        self.braced(format!("if {condition}"), then_branch, into);
        match (else_branch, into) {
            (None, _) => {}
            // What is behind the `if` is the `else`, since the other way has returned: so the text ends in a semicolon.
            (Some((_, otherwise)), Into::Return(_)) => self.value(otherwise, into),
            (Some((_, otherwise)), _) => {
                let Expr::Block(block) = inner(otherwise) else {
                    self.line("else {");
                    self.depth += 1;
                    self.value(otherwise, into);
                    self.depth -= 1;
                    return self.line("}");
                };
                self.braced("else", &block.block, into);
            }
        }
    }

    /// The fields of a literal, one by one: C++ would ask for the order of their declaration.
    fn literal(&mut self, literal: &ExprStruct, place: &str) {
        if let Some(rest) = &literal.rest {
            let rest = self.operand(rest);
            self.line(format!("rust::set({place}, {rest});"));
        }
        for field in &literal.fields {
            match &field.member {
                Member::Named(name) => {
                    let place = self.field(place, name);
                    self.value(&field.expr, &Into::Place(place));
                }
                Member::Unnamed(_) => _ = self.refuse(&field.member, "fields have names"),
            }
        }
    }

    fn jump(&mut self, expression: &Expr) {
        match expression {
            Expr::Return(back) if self.lambdas > 0 => {
                self.refuse(back, "`return` in a block that is a value");
            }
            Expr::Return(back) => match &back.expr {
                Some(value) => {
                    let result = self.result.clone();
                    self.value(value, &Into::Return(Some(result)));
                }
                None => _ = self.refuse(back, "a value is returned"),
            },
            Expr::Break(syn::ExprBreak { label: None, expr: None, .. }) if self.loops > 0 => self.line("break;"),
            Expr::Continue(syn::ExprContinue { label: None, .. }) if self.loops > 0 => self.line("continue;"),
            other => _ = self.refuse(other, "only the innermost loop can be left, and without a value"),
        }
    }

    fn local(&mut self, local: &Local) {
        let Some(init) = &local.init else {
            self.refuse(local, "a `let` has a value");
            return self.declare_all(local.pat.to_token_stream());
        };
        if let Some((_, otherwise)) = &init.diverge {
            self.refuse(otherwise, "`let ... else`");
        }
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let value = inner(&init.expr);
        match (pattern, value, ty) {
            (Pat::Ident(name), Expr::Struct(literal), ty) if name.by_ref.is_none() && name.subpat.is_none() => {
                let ty = match ty {
                    Some(ty) => self.named(ty),
                    None => self.of_literal(&literal.path),
                };
                let made = self.names.temporary("made");
                let fields = self.apart(|this| this.literal(literal, &made));
                let variable = self.names.declare(&name.ident);
                self.line(format!("{ty} {made};"));
                self.text += &fields;
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}{ty} {variable} = {made};"));
            }
            (Pat::Ident(name), value, ty) if name.by_ref.is_none() && name.subpat.is_none() => {
                let ty = match ty {
                    Some(Type::Infer(_)) | None => "auto".to_owned(),
                    Some(ty) => self.named(ty),
                };
                if ty == "auto" && is_untyped(value) {
                    self.refuse(value, LITERAL);
                }
                let value = self.whole(value, (ty != "auto").then_some(&ty));
                let variable = self.names.declare(&name.ident);
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}{ty} {variable} = {value};"));
            }
            (Pat::Tuple(names), Expr::Tuple(values), None) if names.elems.len() == values.elems.len() => {
                let values: Vec<String> = values.elems.iter().map(|value| self.part(value)).collect();
                for (pattern, value) in names.elems.iter().zip(values) {
                    self.fields(&value, pattern);
                }
            }
            (Pat::Wild(_), value, _) => _ = self.operand(value),
            (Pat::Struct(_), value, _) => {
                let value = self.part(value);
                self.fields(&value, pattern);
            }
            _ => {
                let words = "a `let` is of a name, of the fields of a struct, or of a tuple of names and one of values";
                self.refuse(&local.pat, words);
                self.declare_all(local.pat.to_token_stream());
            }
        }
    }

    /// The names of a pattern that was refused, so that what follows is not refused for want of them.
    fn declare_all(&mut self, pattern: TokenStream) {
        for tree in pattern {
            match tree {
                TokenTree::Ident(name) => _ = self.names.declare(&name),
                TokenTree::Group(group) => self.declare_all(group.stream()),
                _ => {}
            }
        }
    }

    /// A temporary that holds one of several values.
    fn part(&mut self, value: &Expr) -> String {
        if is_untyped(value) {
            self.refuse(value, LITERAL);
        }
        let value = self.operand(value);
        let part = self.names.temporary("part");
        self.line(format!("const auto {part} = {value};"));
        part
    }

    /// A statement that is no value's.
    fn effect(&mut self, expression: &Expr) {
        match expression {
            Expr::Assign(ExprAssign { left, right, .. }) => match (inner(left), inner(right)) {
                (Expr::Tuple(places), Expr::Tuple(values)) if places.elems.len() == values.elems.len() => {
                    let mut parts = Vec::new();
                    for (place, value) in places.elems.iter().zip(&values.elems) {
                        let part = self.names.temporary("part");
                        let place = if matches!(place, Expr::Infer(_)) { None } else { Some(self.place(place)) };
                        let value = self.operand(value);
                        match &place {
                            Some(place) if !place.is_empty() => {
                                self.line(format!("const decltype({place}) {part} = {value};"))
                            }
                            _ => {}
                        }
                        parts.extend(place.map(|place| (place, part)));
                    }
                    for (place, part) in parts {
                        self.line(format!("rust::set({place}, {part});"));
                    }
                }
                (place, value) => {
                    let place = self.place(place);
                    let value = self.whole(value, Some(&format!("decltype({place})")));
                    self.line(format!("rust::set({place}, {value});"));
                }
            },
            Expr::Binary(ExprBinary { left, op, right, .. }) if assigned(op).is_some() => {
                let place = self.place(left);
                let (function, is_shift) = assigned(op).expect("as asked");
                let right = if is_shift { self.amount(right) } else { self.operand(right) };
                self.line(format!("rust::set({place}, rust::{function}({place}, {right}));"));
            }
            Expr::ForLoop(walk) => self.walk(walk),
            Expr::While(walk) if walk.label.is_none() => {
                let condition = self.condition(&walk.cond);
                self.line(format!("while {condition} {{"));
                (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
                // Rust defines a loop without an end; in C++ one without an effect is undefined.
                self.line("rust::turn();");
                self.block(&walk.body, &Into::Nothing);
                (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
                self.line("}");
            }
            Expr::Tuple(unit) if unit.elems.is_empty() => {}
            Expr::While(_) => _ = self.refuse(expression, "labels"),
            Expr::Loop(_) | Expr::Match(_) | Expr::Macro(_) | Expr::Let(_) | Expr::Closure(_) | Expr::Index(_) => {
                _ = self.operand(expression)
            }
            other => _ = self.refuse(other, "this has no effect"),
        }
    }

    fn walk(&mut self, walk: &ExprForLoop) {
        if let Some(label) = &walk.label {
            self.refuse(label, "labels");
        }
        let Some(range) = self.range(&walk.expr) else { return };
        let counter = self.names.temporary("range");
        self.line(format!("for (auto {counter} = {range}; {counter}.more; {counter}.next()) {{"));
        (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
        self.names.open();
        match &*walk.pat {
            Pat::Wild(_) => {}
            pattern @ Pat::Ident(_) => self.fields(&format!("{counter}.now"), pattern),
            other => _ = self.refuse(other, "a `for` has a name or `_`"),
        }
        self.block(&walk.body, &Into::Nothing);
        self.names.close();
        (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
        self.line("}");
    }

    fn range(&mut self, expression: &Expr) -> Option<String> {
        match inner(expression) {
            Expr::MethodCall(call) if call.method == "rev" && call.args.is_empty() => {
                Some(format!("rust::reversed({})", self.range(&call.receiver)?))
            }
            Expr::Range(ExprRange { start: Some(start), limits, end: Some(end), .. }) => {
                if is_untyped(start) && is_untyped(end) {
                    self.refuse(
                        expression,
                        "the type of this range cannot be told here; add a suffix, as in `0..8_u32`",
                    );
                }
                let (start, end) = (self.operand(start), self.operand(end));
                let function = if matches!(limits, RangeLimits::Closed(_)) { "range_inclusive" } else { "range" };
                Some(format!("rust::{function}({start}, {end})"))
            }
            other => {
                self.refuse(other, "a `for` goes over a range of integers with both ends, or `.rev()` of one");
                None
            }
        }
    }

    /// What can be assigned to: a variable, or a field of one.
    fn place(&mut self, expression: &Expr) -> String {
        match inner(expression) {
            Expr::Field(field) => match &field.member {
                Member::Named(name) => {
                    let base = self.place(&field.base);
                    self.field(&base, name)
                }
                Member::Unnamed(_) => self.refuse(&field.member, "fields have names"),
            },
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => {
                    if self.names.is_in_operand() && self.names.find(name).is_some() && self.names.is_from_outside(name)
                    {
                        self.refuse(name, "an operand that assigns to what is outside of it; give it a `let`");
                    }
                    self.operand(expression)
                }
                None => self.refuse(path, "only variables and their fields are assigned to"),
            },
            other => self.refuse(other, "only variables and their fields are assigned to"),
        }
    }

    // ---- operands ----------------------------------------------------------------------------------------------------------

    /// The whole value of a `let` or an assignment, whose type may be known.
    fn whole(&mut self, expression: &Expr, ty: Option<&String>) -> String {
        let is_block = match inner(expression) {
            Expr::Struct(_) | Expr::Block(_) => true,
            Expr::If(choice) => plain(choice).is_none() && choice.else_branch.is_some(),
            _ => false,
        };
        if is_block { self.lambda(expression, ty.cloned()) } else { self.operand(expression) }
    }

    /// A block as an operand.
    fn block_operand(&mut self, expression: &Expr) -> String {
        self.names.open_operand();
        let text = self.lambda(expression, None);
        self.names.close_operand();
        text
    }

    /// A block that has a value.
    fn lambda(&mut self, expression: &Expr, ty: Option<String>) -> String {
        let loops = std::mem::take(&mut self.loops);
        (self.depth, self.lambdas) = (self.depth + 1, self.lambdas + 1);
        let body = self.apart(|this| this.value(expression, &Into::Return(ty.clone())));
        (self.depth, self.lambdas) = (self.depth - 1, self.lambdas - 1);
        self.loops = loops;
        let ty = ty.map_or(String::new(), |ty| format!("() -> {ty}"));
        format!("[&]{ty} {{\n{body}{}}}()", "    ".repeat(self.depth))
    }

    /// In parentheses.
    fn condition(&mut self, expression: &Expr) -> String {
        let text = self.operand(expression);
        match inner(expression) {
            Expr::Binary(_) if text.starts_with('(') => text,
            _ => format!("({text})"),
        }
    }

    fn operand(&mut self, expression: &Expr) -> String {
        let expression = inner(expression);
        match expression {
            Expr::Lit(literal) => self.number(&literal.lit, false),
            Expr::Path(path) => self.path(path),
            Expr::Field(field) => match &field.member {
                Member::Named(name) => {
                    let base = self.operand(&field.base);
                    self.field(&base, name)
                }
                Member::Unnamed(_) => self.refuse(&field.member, "fields have names"),
            },
            Expr::Unary(unary) => self.unary(unary),
            Expr::Binary(binary) => self.binary(binary),
            Expr::Cast(cast) => self.cast(cast),
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::If(choice) => match plain(choice) {
                Some((condition, then, otherwise)) => {
                    let condition = self.operand(condition);
                    let (then, otherwise) = (self.operand(then), self.operand(otherwise));
                    format!("({condition} ? {then} : {otherwise})")
                }
                None if choice.else_branch.is_none() => self.refuse(choice, "an `if` that is a value has an `else`"),
                None => self.block_operand(expression),
            },
            Expr::Struct(_) => self.block_operand(expression),
            Expr::Block(block) if block.label.is_none() => self.block_operand(expression),
            Expr::Let(_) => self.refuse(expression, "`if let` and `while let`"),
            Expr::Match(_) => self.refuse(expression, "write `if` and `else` instead of `match`"),
            Expr::Loop(_) => self.refuse(expression, "write `for` or `while` instead of `loop`"),
            Expr::Macro(_) => self.refuse(expression, "macros"),
            Expr::Reference(_) => self.refuse(expression, "references"),
            Expr::Index(_) | Expr::Array(_) | Expr::Repeat(_) => self.refuse(expression, "arrays"),
            Expr::Closure(_) => self.refuse(expression, "closures"),
            Expr::Assign(_) => self.refuse(expression, "an assignment is a statement of its own"),
            other => self.refuse(other, "`parascan::operator!` says which expressions are"),
        }
    }

    fn number(&mut self, literal: &Lit, negative: bool) -> String {
        let sign = if negative { -1 } else { 1 };
        match literal {
            Lit::Bool(value) => value.value.to_string(),
            Lit::Byte(byte) => integer("u8", byte.value().into()),
            Lit::Int(whole) => match (whole.base10_parse::<u64>(), whole.suffix()) {
                (Ok(value), "") => format!("rust::literal({})", digits(sign * i128::from(value))),
                (Ok(value), "f32") => float("f32", sign as f64 * f64::from(value as f32), 0),
                (Ok(value), "f64") => float("f64", sign as f64 * value as f64, 0),
                (Ok(value), suffix) if is_number(suffix) => integer(suffix, sign * i128::from(value)),
                _ => self.refuse(literal, "integers have up to 64 bits"),
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
                        self.refuse(literal, "this number is another one when it is rounded to f64 first; add a suffix")
                    }
                    _ => self.refuse(literal, "`parascan::operator!` says which literals are"),
                }
            }
            other => self.refuse(other, "`parascan::operator!` says which literals are"),
        }
    }

    fn path(&mut self, path: &ExprPath) -> String {
        if let Some(name) = path.path.get_ident() {
            return match self.names.find(name) {
                Some(cuda) => cuda.to_owned(),
                None => self.refuse(
                    path,
                    "names are those of arguments and variables of the body; write the value, or make it a field",
                ),
            };
        }
        let names = names_of(&path.path);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let found = match names[..] {
            [number, name] => constant(number, name),
            ["std" | "core", number, "consts", name] => mathematical(number, name),
            _ => None,
        };
        found
            .filter(|_| path.qself.is_none())
            .unwrap_or_else(|| self.refuse(path, "`parascan::operator!` says which constants are"))
    }

    fn unary(&mut self, unary: &ExprUnary) -> String {
        let ExprUnary { op, expr, .. } = unary;
        match (op, inner(expr)) {
            (UnOp::Neg(_), Expr::Lit(literal)) => self.number(&literal.lit, true),
            (UnOp::Neg(_), value) => {
                if is_untyped(value) {
                    self.refuse(value, LITERAL);
                }
                format!("rust::neg({})", self.operand(value))
            }
            (UnOp::Not(_), value) => format!("rust::invert({})", self.operand(value)),
            _ => self.refuse(unary, "references"),
        }
    }

    fn binary(&mut self, binary: &ExprBinary) -> String {
        let ExprBinary { left, op, right, .. } = binary;
        let function = match op {
            BinOp::And(_) => return format!("({} && {})", self.operand(left), self.operand(right)),
            BinOp::Or(_) => return format!("({} || {})", self.operand(left), self.operand(right)),
            BinOp::Shl(_) | BinOp::Shr(_) => {
                if is_untyped(left) {
                    self.refuse(left, LITERAL);
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
            (true, true) => _ = self.refuse(left, LITERAL),
            // As C++ compares them: behind a function the compiler has made more of it.
            (false, false) if is_comparison(op) => {
                return format!("({} {} {})", self.operand(left), op.to_token_stream(), self.operand(right));
            }
            _ => {}
        }
        format!("rust::{function}({}, {})", self.operand(left), self.operand(right))
    }

    /// By how much something is shifted: of any type, so that of a literal does not matter.
    fn amount(&mut self, expression: &Expr) -> String {
        match inner(expression) {
            Expr::Lit(literal) => self.number(&literal.lit, false),
            other => {
                if is_untyped(other) {
                    self.refuse(other, LITERAL);
                }
                self.operand(other)
            }
        }
    }

    fn cast(&mut self, cast: &ExprCast) -> String {
        let ExprCast { expr, ty, .. } = cast;
        let Some(number) =
            number_of(&bare((**ty).clone())).filter(|name| !matches!(name.as_str(), "f16" | "bf16" | "bool"))
        else {
            return self.refuse(ty, "casts are to integers, f32 and f64");
        };
        if is_untyped(expr) {
            self.refuse(expr, LITERAL);
        }
        format!("rust::as<{number}>({})", self.operand(expr))
    }

    fn method(&mut self, call: &ExprMethodCall) -> String {
        if is_untyped(&call.receiver) {
            self.refuse(&call.receiver, LITERAL);
        }
        let receiver = self.operand(&call.receiver);
        if let Some(turbofish) = &call.turbofish {
            self.refuse(turbofish, "type arguments of a method");
        }
        let arguments: Vec<&Expr> = call.args.iter().collect();
        self.function(&call.method, receiver, &arguments)
    }

    /// A method, called in either way.
    fn function(&mut self, name: &Ident, receiver: String, arguments: &[&Expr]) -> String {
        let rust = name.to_string();
        let Some((cuda, kinds)) = method(&rust) else {
            let words = match rust.as_str() {
                "into" => "write `as`, or `f64::from`, instead of `into`".to_owned(),
                "powi" => "multiply, or write `powf`, instead of `powi`".to_owned(),
                _ => format!("`{name}`; `parascan::operator!` says which methods are"),
            };
            return self.refuse(name, words);
        };
        if kinds.len() != arguments.len() {
            return self.refuse(name, format!("`{name}` has {} arguments", kinds.len()));
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

    fn call(&mut self, call: &ExprCall) -> String {
        const WORDS: &str = "the functions are the methods of numbers, `from`, `from_bits` and `from_f32`";
        let Expr::Path(path) = inner(&call.func) else { return self.refuse(&call.func, WORDS) };
        let names = names_of(&path.path);
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
                    self.refuse(value, LITERAL);
                }
                format!("rust::as<{number}>({})", self.operand(value))
            }
            ("from_bits", [bits]) => format!("rust::from_bits<{number}>({})", self.operand(bits)),
            ("from_f32", [value]) if is_half => format!("rust::from_f32<{number}>({})", self.operand(value)),
            (name, [receiver, rest @ ..]) if method(name).is_some() => {
                let value = self.operand(receiver);
                let receiver = if is_untyped(receiver) { format!("{number}({value})") } else { value };
                let name = &path.path.segments.last().expect("two names").ident;
                self.function(name, receiver, rest)
            }
            _ => self.refuse(path, WORDS),
        }
    }
}

// ---- syntax ------------------------------------------------------------------------------------------------------------------

/// Without parentheses, and without the invisible groups of `macro_rules`.
pub(crate) fn inner(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => inner(&paren.expr),
        Expr::Group(group) => inner(&group.expr),
        Expr::Block(block) if block.label.is_none() => match &block.block.stmts[..] {
            [Stmt::Expr(value, None)] if is_value(value) => inner(value),
            _ => expression,
        },
        other => other,
    }
}

/// Whether it has a value, for all that its syntax says.
fn is_value(expression: &Expr) -> bool {
    match expression {
        Expr::Binary(binary) => assigned(&binary.op).is_none(),
        Expr::If(choice) => plain(choice).is_some(),
        Expr::Lit(_)
        | Expr::Path(_)
        | Expr::Field(_)
        | Expr::Unary(_)
        | Expr::Cast(_)
        | Expr::MethodCall(_)
        | Expr::Call(_) => true,
        Expr::Paren(_) | Expr::Group(_) | Expr::Struct(_) => true,
        _ => false,
    }
}

/// The condition and the two values, if that is all there is.
fn plain(choice: &ExprIf) -> Option<(&Expr, &Expr, &Expr)> {
    let (_, otherwise) = choice.else_branch.as_ref()?;
    let [Stmt::Expr(then, None)] = &choice.then_branch.stmts[..] else { return None };
    Some((&choice.cond, plain_value(then)?, plain_value(otherwise)?))
}

/// `inner` of a value that is no struct's literal. It looks at each choice once: behind `inner`, `is_value` would look again at all that is
/// in it, twice as often at each level.
fn plain_value(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::Paren(paren) => plain_value(&paren.expr),
        Expr::Group(group) => plain_value(&group.expr),
        Expr::Block(block) if block.label.is_none() => match &block.block.stmts[..] {
            [Stmt::Expr(value, None)] if !matches!(value, Expr::Block(_)) => plain_value(value),
            _ => None,
        },
        Expr::Struct(_) => None,
        other => is_value(other).then_some(other),
    }
}

/// Whether it is of literals alone that have no suffix, so that its type comes from where it stands.
pub(crate) fn is_untyped(expression: &Expr) -> bool {
    match inner(expression) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(whole) => whole.suffix().is_empty(),
            Lit::Float(real) => real.suffix().is_empty(),
            _ => false,
        },
        Expr::Unary(unary) => is_untyped(&unary.expr),
        Expr::Binary(ExprBinary { left, op: BinOp::Shl(_) | BinOp::Shr(_), .. }) => is_untyped(left),
        Expr::Binary(ExprBinary { left, op, right, .. }) => !is_comparison(op) && is_untyped(left) && is_untyped(right),
        Expr::If(choice) => plain(choice).is_some_and(|(_, then, otherwise)| is_untyped(then) && is_untyped(otherwise)),
        _ => false,
    }
}

fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// The function of an assigning operator, and whether it shifts.
pub(crate) fn assigned(op: &BinOp) -> Option<(&'static str, bool)> {
    Some(match op {
        BinOp::AddAssign(_) => ("add", false),
        BinOp::SubAssign(_) => ("sub", false),
        BinOp::MulAssign(_) => ("mul", false),
        BinOp::DivAssign(_) => ("div", false),
        BinOp::RemAssign(_) => ("rem", false),
        BinOp::BitAndAssign(_) => ("bit_and", false),
        BinOp::BitOrAssign(_) => ("bit_or", false),
        BinOp::BitXorAssign(_) => ("bit_xor", false),
        BinOp::ShlAssign(_) => ("shl", true),
        BinOp::ShrAssign(_) => ("shr", true),
        _ => return None,
    })
}

/// Without parentheses and invisible groups.
fn bare(ty: Type) -> Type {
    match ty {
        Type::Group(group) => bare(*group.elem),
        Type::Paren(paren) => bare(*paren.elem),
        other => other,
    }
}

/// The names of a path, without type arguments.
fn names_of(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The number that a type is.
fn number_of(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let is_plain =
        path.qself.is_none() && path.path.segments.iter().all(|s| matches!(s.arguments, PathArguments::None));
    let names = names_of(&path.path);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names[..] {
        ["half", name @ ("f16" | "bf16")] | [name] if is_plain && is_number(name) => Some(name.to_owned()),
        _ => None,
    }
}
