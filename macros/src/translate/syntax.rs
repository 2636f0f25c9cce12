//! Questions about the syntax of expressions, types and paths.

use crate::methods::is_number;
use syn::{BinOp, Expr, ExprBinary, ExprIf, Lit, Path, PathArguments, Stmt, Type};

/// The expression without parentheses, without the invisible groups of `macro_rules`, and without a
/// block around a single value.
pub(crate) fn ungrouped(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => ungrouped(&paren.expr),
        Expr::Group(group) => ungrouped(&group.expr),
        Expr::Block(block) if block.label.is_none() => match &block.block.stmts[..] {
            [Stmt::Expr(value, None)] if is_value(value) => ungrouped(value),
            _ => expression,
        },
        other => other,
    }
}

/// Whether the syntax shows an expression with a value, which needs no statements.
fn is_value(expression: &Expr) -> bool {
    match expression {
        Expr::Binary(binary) => assigning_operator(&binary.op).is_none(),
        Expr::If(choice) => as_conditional(choice).is_some(),
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

/// Whether an expression is statements in C++, which may assign to variables.
pub(super) fn is_block(expression: &Expr) -> bool {
    match ungrouped(expression) {
        Expr::Struct(_) | Expr::Block(_) => true,
        Expr::If(choice) => as_conditional(choice).is_none() && choice.else_branch.is_some(),
        _ => false,
    }
}

/// The condition and the two values of an `if` that C++ can write as `?:`.
pub(super) fn as_conditional(choice: &ExprIf) -> Option<(&Expr, &Expr, &Expr)> {
    let (_, otherwise) = choice.else_branch.as_ref()?;
    let [Stmt::Expr(then, None)] = &choice.then_branch.stmts[..] else { return None };
    Some((&choice.cond, as_conditional_value(then)?, as_conditional_value(otherwise)?))
}

/// Applies `ungrouped` to a value other than a struct literal. It visits each nested `if` once;
/// `is_value` behind `ungrouped` would visit it twice as often at each level.
fn as_conditional_value(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::Paren(paren) => as_conditional_value(&paren.expr),
        Expr::Group(group) => as_conditional_value(&group.expr),
        Expr::Block(block) if block.label.is_none() => match &block.block.stmts[..] {
            [Stmt::Expr(value, None)] if !matches!(value, Expr::Block(_)) => as_conditional_value(value),
            _ => None,
        },
        Expr::Struct(_) => None,
        other => is_value(other).then_some(other),
    }
}

/// Whether an expression consists of literals without suffixes, so that its type depends on where
/// it stands.
pub(crate) fn is_untyped(expression: &Expr) -> bool {
    match ungrouped(expression) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(whole) => whole.suffix().is_empty(),
            Lit::Float(real) => real.suffix().is_empty(),
            _ => false,
        },
        Expr::Unary(unary) => is_untyped(&unary.expr),
        Expr::Binary(ExprBinary { left, op: BinOp::Shl(_) | BinOp::Shr(_), .. }) => is_untyped(left),
        Expr::Binary(ExprBinary { left, op, right, .. }) => !is_comparison(op) && is_untyped(left) && is_untyped(right),
        Expr::If(choice) => {
            as_conditional(choice).is_some_and(|(_, then, otherwise)| is_untyped(then) && is_untyped(otherwise))
        }
        _ => false,
    }
}

pub(super) fn is_comparison(op: &BinOp) -> bool {
    matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_))
}

/// The C++ function of an assigning operator such as `+=`, and whether it is a shift.
pub(crate) fn assigning_operator(op: &BinOp) -> Option<(&'static str, bool)> {
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

/// The type without parentheses and invisible groups.
pub(super) fn ungrouped_type(ty: Type) -> Type {
    match ty {
        Type::Group(group) => ungrouped_type(*group.elem),
        Type::Paren(paren) => ungrouped_type(*paren.elem),
        other => other,
    }
}

/// The identifiers of a path, without type arguments.
pub(super) fn segments(path: &Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// The C++ name of a type of numbers.
pub(super) fn number_type(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let is_plain =
        path.qself.is_none() && path.path.segments.iter().all(|s| matches!(s.arguments, PathArguments::None));
    let names = segments(&path.path);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names[..] {
        ["half", name @ ("f16" | "bf16")] | [name] if is_plain && is_number(name) => Some(name.to_owned()),
        _ => None,
    }
}
