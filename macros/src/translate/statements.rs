//! Statements of Rust become statements of C++. The value of a block goes to its [`Target`].

use super::syntax::{assigning_operator, is_block, is_untyped, ungrouped};
use super::{Target, Translator, UNTYPED_LITERAL};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Block, Expr, ExprAssign, ExprBinary, ExprForLoop, ExprIf, ExprRange, ExprStruct, ExprWhile, Local, Member, Pat,
    RangeLimits, Stmt, Type,
};

impl Translator {
    /// The statements of a block in a scope of their own, and its value to `target`.
    fn block(&mut self, block: &Block, target: &Target) {
        self.names.open();
        let Some((last, before)) = block.stmts.split_last() else { return self.names.close() };
        for statement in before {
            self.statement(statement);
        }
        match last {
            Stmt::Expr(value, None) => self.value(value, target),
            statement => self.statement(statement),
        }
        self.names.close();
    }

    fn statement(&mut self, statement: &Stmt) {
        match statement {
            Stmt::Local(local) => self.let_statement(local),
            Stmt::Expr(expression, _) => self.value(expression, &Target::Discard),
            Stmt::Item(item) => _ = self.refuse(item, "a body defines no items"),
            Stmt::Macro(call) => _ = self.refuse(call, "a body calls no macros"),
        }
    }

    fn braced(&mut self, head: impl AsRef<str>, block: &Block, target: &Target) {
        self.line(format!("{} {{", head.as_ref()));
        self.depth += 1;
        self.block(block, target);
        self.depth -= 1;
        self.line("}");
    }

    /// Writes the statements that bring the value of an expression to `target`.
    pub(super) fn value(&mut self, expression: &Expr, target: &Target) {
        let expression = ungrouped(expression);
        match (expression, target) {
            (Expr::If(ExprIf { cond, then_branch, else_branch: Some((_, otherwise)), .. }), Target::Return(None))
                if self.has_structs() =>
            {
                // A lambda whose type is not given returns one C++ type, so each branch is a lambda.
                let condition = self.condition(cond);
                let then = self.lambda_of(None, |translator, target| translator.block(then_branch, target));
                let otherwise = self.lambda(otherwise, None);
                self.line(format!("return {condition} ? {then} : rust::adapt({otherwise});"));
            }
            (Expr::If(choice), target) => self.choice(choice, target),
            (Expr::Block(block), Target::Discard) if block.label.is_none() => self.braced("", &block.block, target),
            (Expr::Block(block), target) if block.label.is_none() => self.block(&block.block, target),
            (Expr::Struct(literal), Target::Return(ty)) => {
                let ty = ty.clone().unwrap_or_else(|| self.struct_name(&literal.path));
                let made = self.names.temporary("made");
                self.line(format!("{ty} {made};"));
                self.fill_fields(literal, &made);
                self.line(format!("return {made};"));
            }
            (Expr::Struct(literal), Target::Place(place)) => self.fill_fields(literal, place),
            (Expr::Return(_) | Expr::Break(_) | Expr::Continue(_), _) => self.leave(expression),
            (_, Target::Discard) => self.effect(expression),
            (_, Target::Return(ty)) => {
                if ty.is_none() && is_untyped(expression) {
                    self.refuse(expression, UNTYPED_LITERAL);
                }
                let value = self.operand(expression);
                // A function of one type returns only what has this type in C++ too.
                let meets = ty.is_some() && (self.types.len() > 1 || self.lambdas > 0);
                let value = if meets { self.adapted(expression, value) } else { value };
                self.line(format!("return {value};"));
            }
            (_, Target::Place(place)) => {
                let value = self.operand(expression);
                self.line(format!("rust::set({place}, {value});"));
            }
        }
    }

    fn choice(&mut self, ExprIf { cond, then_branch, else_branch, .. }: &ExprIf, target: &Target) {
        let condition = self.condition(cond);
        self.braced(format!("if {condition}"), then_branch, target);
        match (else_branch, target) {
            (None, _) => {}
            // The first branch has returned, so the second one follows without `else`, and the text
            // ends in a semicolon.
            (Some((_, otherwise)), Target::Return(_)) => self.value(otherwise, target),
            (Some((_, otherwise)), _) => {
                let Expr::Block(block) = ungrouped(otherwise) else {
                    self.line("else {");
                    self.depth += 1;
                    self.value(otherwise, target);
                    self.depth -= 1;
                    return self.line("}");
                };
                self.braced("else", &block.block, target);
            }
        }
    }

    /// Assigns the fields of a struct literal one by one: a C++ initializer would need them in the
    /// order of declaration. Rust evaluates the base last, which a block in a field may change.
    fn fill_fields(&mut self, literal: &ExprStruct, place: &str) {
        let is_base_late = literal.rest.is_some() && literal.fields.iter().any(|field| is_block(&field.expr));
        if !is_base_late {
            self.fill_base(literal, place);
        }
        let mut late = Vec::new(); // fields, and the temporaries that have their values
        for field in &literal.fields {
            let Member::Named(name) = &field.member else {
                self.refuse(&field.member, "a tuple's fields are not in the subset; use a struct with named fields");
                continue;
            };
            let mut place = self.field(place, name);
            if is_base_late {
                let value = self.names.temporary("value");
                self.line(format!("decltype({place}) {value};"));
                late.push((std::mem::replace(&mut place, value.clone()), value));
            }
            self.value(&field.expr, &Target::Place(place));
        }
        if is_base_late {
            self.fill_base(literal, place);
        }
        for (place, value) in late {
            self.line(format!("rust::set({place}, {value});"));
        }
    }

    /// Copies the base of a struct literal, if it has one.
    fn fill_base(&mut self, literal: &ExprStruct, place: &str) {
        if let Some(rest) = &literal.rest {
            let rest = self.operand(rest);
            self.line(format!("rust::set({place}, {rest});"));
        }
    }

    /// `return`, `break` and `continue`.
    fn leave(&mut self, expression: &Expr) {
        match expression {
            Expr::Return(back) if self.lambdas > 0 => {
                self.refuse(back, "a block that is a value cannot contain `return`");
            }
            Expr::Return(back) => match &back.expr {
                Some(value) => {
                    let result = self.result.clone();
                    self.value(value, &Target::Return(Some(result)));
                }
                None => _ = self.refuse(back, "`return` needs a value"),
            },
            Expr::Break(syn::ExprBreak { label: None, expr: None, .. }) if self.loops > 0 => self.line("break;"),
            Expr::Continue(syn::ExprContinue { label: None, .. }) if self.loops > 0 => self.line("continue;"),
            other => {
                _ = self.refuse(other, "`break` and `continue` leave the innermost loop, without a label or a value")
            }
        }
    }

    fn let_statement(&mut self, local: &Local) {
        let Some(init) = &local.init else {
            self.refuse(local, "a `let` needs a value");
            return self.declare_all(local.pat.to_token_stream());
        };
        if let Some((_, otherwise)) = &init.diverge {
            self.refuse(otherwise, "`let ... else` is not in the subset; write `if` and `else`");
        }
        let (pattern, ty) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            pattern => (pattern, None),
        };
        let value = ungrouped(&init.expr);
        match (pattern, value, ty) {
            (Pat::Ident(name), Expr::Struct(literal), ty) if name.by_ref.is_none() && name.subpat.is_none() => {
                let ty = match ty {
                    Some(ty) => self.type_name(ty),
                    None => self.struct_name(&literal.path),
                };
                let made = self.names.temporary("made");
                let fields = self.captured(|translator| translator.fill_fields(literal, &made));
                let variable = self.names.declare(&name.ident);
                self.line(format!("{ty} {made};"));
                self.text += &fields;
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}{ty} {variable} = {made};"));
            }
            (Pat::Ident(name), value, ty) if name.by_ref.is_none() && name.subpat.is_none() => {
                let ty = match ty {
                    Some(Type::Infer(_)) | None => "auto".to_owned(),
                    Some(ty) => self.type_name(ty),
                };
                if ty == "auto" && is_untyped(value) {
                    self.refuse(value, UNTYPED_LITERAL);
                }
                let mut text = self.initializer(value, (ty != "auto").then_some(&ty));
                if ty != "auto" && !is_block(value) {
                    text = self.adapted(value, text);
                }
                let variable = self.names.declare(&name.ident);
                let constant = if name.mutability.is_some() { "" } else { "const " };
                self.line(format!("{constant}{ty} {variable} = {text};"));
            }
            (Pat::Tuple(names), Expr::Tuple(values), None) if names.elems.len() == values.elems.len() => {
                let values: Vec<String> = values.elems.iter().map(|value| self.held(value)).collect();
                for (pattern, value) in names.elems.iter().zip(values) {
                    self.bind(&value, pattern);
                }
            }
            (Pat::Wild(_), value, _) => _ = self.operand(value),
            (Pat::Struct(_), value, _) => {
                let value = self.held(value);
                self.bind(&value, pattern);
            }
            _ => {
                let words =
                    "a `let` declares a name, the fields of a struct, or a tuple of names from a tuple of values";
                self.refuse(&local.pat, words);
                self.declare_all(local.pat.to_token_stream());
            }
        }
    }

    /// Declares the names of a refused pattern, so that their uses are not refused as well.
    fn declare_all(&mut self, pattern: TokenStream) {
        for tree in pattern {
            match tree {
                TokenTree::Ident(name) => _ = self.names.declare(&name),
                TokenTree::Group(group) => self.declare_all(group.stream()),
                _ => {}
            }
        }
    }

    /// A temporary that holds `value`.
    fn held(&mut self, value: &Expr) -> String {
        if is_untyped(value) {
            self.refuse(value, UNTYPED_LITERAL);
        }
        let value = self.operand(value);
        let part = self.names.temporary("part");
        self.line(format!("const auto {part} = {value};"));
        part
    }

    /// An expression statement: an assignment, a loop, or an error.
    fn effect(&mut self, expression: &Expr) {
        match expression {
            Expr::Assign(assignment) => self.assign(assignment),
            Expr::Binary(ExprBinary { left, op, right, .. }) if assigning_operator(op).is_some() => {
                let place = self.place(left);
                let (function, is_shift) = assigning_operator(op).expect("the guard has found one");
                let right = if is_shift { self.amount(right) } else { self.operand(right) };
                self.line(format!("rust::set({place}, rust::{function}({place}, {right}));"));
            }
            Expr::ForLoop(for_loop) => self.for_loop(for_loop),
            Expr::While(while_loop) if while_loop.label.is_none() => self.while_loop(while_loop),
            Expr::Tuple(unit) if unit.elems.is_empty() => {}
            Expr::While(_) => _ = self.refuse(expression, "a loop has no label"),
            Expr::Loop(_) | Expr::Match(_) | Expr::Macro(_) | Expr::Let(_) | Expr::Closure(_) | Expr::Index(_) => {
                _ = self.operand(expression)
            }
            other => _ = self.refuse(other, "this statement has no effect"),
        }
    }

    /// `place = value`, and `(place, place) = (value, value)`: all values of a tuple are evaluated
    /// before the first is assigned.
    fn assign(&mut self, ExprAssign { left, right, .. }: &ExprAssign) {
        match (ungrouped(left), ungrouped(right)) {
            (Expr::Tuple(places), Expr::Tuple(values)) if places.elems.len() == values.elems.len() => {
                let mut parts = Vec::new();
                for (place, value) in places.elems.iter().zip(&values.elems) {
                    let part = self.names.temporary("part");
                    let place = if matches!(place, Expr::Infer(_)) { None } else { Some(self.place(place)) };
                    let text = self.operand(value);
                    match &place {
                        Some(place) if !place.is_empty() => {
                            let value = self.adapted(value, text);
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
                let value = self.initializer(value, Some(&format!("decltype({place})")));
                self.line(format!("rust::set({place}, {value});"));
            }
        }
    }

    /// `while`, without a label.
    fn while_loop(&mut self, ExprWhile { cond, body, .. }: &ExprWhile) {
        let condition = self.condition(cond);
        self.line(format!("while {condition} {{"));
        (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
        // An endless loop without effects is defined in Rust and undefined in C++. The call is an
        // effect.
        self.line("rust::turn();");
        self.block(body, &Target::Discard);
        (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
        self.line("}");
    }

    /// `for` over a range of integers.
    fn for_loop(&mut self, ExprForLoop { label, pat, expr, body, .. }: &ExprForLoop) {
        if let Some(label) = label {
            self.refuse(label, "a loop has no label");
        }
        let Some(range) = self.range(expr) else { return };
        let counter = self.names.temporary("range");
        self.line(format!("for (auto {counter} = {range}; {counter}.more; {counter}.next()) {{"));
        (self.depth, self.loops) = (self.depth + 1, self.loops + 1);
        self.names.open();
        match &**pat {
            Pat::Wild(_) => {}
            pattern @ Pat::Ident(_) => self.bind(&format!("{counter}.now"), pattern),
            other => _ = self.refuse(other, "the pattern of a `for` is a name or `_`"),
        }
        self.block(body, &Target::Discard);
        self.names.close();
        (self.depth, self.loops) = (self.depth - 1, self.loops - 1);
        self.line("}");
    }

    /// The C++ range of a `for`; nothing if it was refused.
    fn range(&mut self, expression: &Expr) -> Option<String> {
        match ungrouped(expression) {
            Expr::MethodCall(call) if call.method == "rev" && call.args.is_empty() => {
                Some(format!("rust::reversed({})", self.range(&call.receiver)?))
            }
            Expr::Range(ExprRange { start: Some(start), limits, end: Some(end), .. }) => {
                if is_untyped(start) && is_untyped(end) {
                    self.refuse(expression, "the type of this range is unknown; add a suffix, as in `0..8_u32`");
                }
                let (start, end) = (self.operand(start), self.operand(end));
                let function = if matches!(limits, RangeLimits::Closed(_)) { "range_inclusive" } else { "range" };
                Some(format!("rust::{function}({start}, {end})"))
            }
            other => {
                self.refuse(other, "a `for` runs over a range of integers with both ends, or over `.rev()` of one");
                None
            }
        }
    }

    /// An expression that can be assigned to: a variable, or a field of one.
    fn place(&mut self, expression: &Expr) -> String {
        match ungrouped(expression) {
            Expr::Field(field) => match &field.member {
                Member::Named(name) => {
                    let base = self.place(&field.base);
                    self.field(&base, name)
                }
                Member::Unnamed(_) => {
                    self.refuse(&field.member, "a tuple's fields are not in the subset; use a struct with named fields")
                }
            },
            Expr::Path(path) => match path.path.get_ident() {
                Some(name) => {
                    if self.names.is_in_operand() && self.names.find(name).is_some() && self.names.is_from_outside(name)
                    {
                        self.refuse(
                            name,
                            "an operand cannot assign to a variable outside of it; move the block to a `let`",
                        );
                    }
                    self.operand(expression)
                }
                None => self.refuse(path, "only variables and their fields can be assigned to"),
            },
            other => self.refuse(other, "only variables and their fields can be assigned to"),
        }
    }
}
