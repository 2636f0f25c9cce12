//! Random well-typed operators and predicates of the subset that the macros translate, from a
//! string of bytes.
//!
//! Rust and C++ have the same bits for every body generated here, except where Rust panics. So
//! results exclude values that Rust leaves open: the bits of a NaN, the sign of a zero from `min`
//! and `max`, a signalling NaN, and the last digits of functions that round.

use crate::types::{BOOL, Kind, NUMBERS, Number, PAIR, PARAMETERS, STRUCTS, Struct, TWINS, Type, U32};

mod numbers;

/// Choices, each made by a byte of the string. Past the string's end each is the first choice, the
/// simplest, so a shorter string is a smaller body.
pub(crate) struct Choices<'a>(pub(crate) &'a [u8]);

impl Choices<'_> {
    /// A number less than `n`, which is at most 256.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first) % n
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | self.below(256) as u64)
    }
}

// ---- operators and predicates -------------------------------------------------------------------

/// A closure of the macro's call: `lift`, `lower`, `combine` or `keeps`.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// For each argument its C++ name, the C++ name of its type, and its pattern.
    arguments: Vec<(&'static str, &'static str, String)>,
    result: &'static str,
    body: String,
}

#[derive(Debug)]
pub(crate) struct Case {
    /// The element of an operator, or the item of a predicate.
    pub(crate) item: Type,
    /// The carry, or the parameters.
    other: Type,
    /// The closures of an operator, or only `keeps` of a predicate.
    pub(crate) functions: Vec<Function>,
}

impl Case {
    pub(crate) fn new(choices: &mut Choices) -> Case {
        let any = |choices: &mut Choices| match choices.below(3) {
            2 => Type::Struct(choices.of(&STRUCTS)),
            _ => Type::Number(choices.of(&NUMBERS)),
        };
        // A struct, and one with two fields of it.
        let both = [&PAIR, &TWINS].map(Type::Struct);
        let of_both = choices.one_in(4);
        let item = if of_both { choices.of(&both) } else { any(choices) };
        if choices.one_in(4) {
            let parameters = Type::Struct(choices.of(&PARAMETERS));
            let arguments = [("x", "Item", item), ("p", "Parameters", parameters)];
            let keeps = function(choices, "keeps", &arguments, ("bool", Type::Number(BOOL)));
            return Case { item, other: parameters, functions: vec![keeps] };
        }
        let carry = match choices.below(3) {
            2 if of_both => choices.of(&both),
            2 => any(choices),
            _ => item,
        };
        let (x, there) = (("Element", item), ("Carry", carry));
        let mut functions = Vec::new();
        if item != carry {
            functions.push(function(choices, "lift", &[("x", x.0, x.1)], there));
            functions.push(function(choices, "lower", &[("x", there.0, there.1)], x));
        }
        functions.push(function(choices, "combine", &[("a", there.0, there.1), ("b", there.0, there.1)], there));
        Case { item, other: carry, functions }
    }

    /// The macro call that defines the case as `Body`.
    #[allow(dead_code, reason = "build.rs alone writes them")]
    pub(crate) fn definition(&self) -> String {
        let closure = |function: &Function| {
            let patterns: Vec<&str> = function.arguments.iter().map(|(_, _, pattern)| pattern.as_str()).collect();
            format!("{}: |{}| {},\n", function.name, patterns.join(", "), function.body)
        };
        let closures: String = self.functions.iter().map(closure).collect();
        let (item, other) = (self.item.name(), self.other.name());
        match self.other {
            Type::Struct(parameters) if self.functions[0].name == "keeps" => {
                let field = |(name, ty): &(&str, Type)| format!("{name}: {}, ", ty.name());
                let fields: String = parameters.fields.iter().map(field).collect();
                format!("predicate! {{ pub struct Body {{ {fields}}} on {item} {{\n{closures}}} }}\n")
            }
            _ if self.functions.len() == 1 => {
                format!("operator! {{ pub struct Body on {item} {{ associativity: Exact,\n{closures}}} }}\n")
            }
            _ => format!(
                "operator! {{ pub struct Body on {item} {{ associativity: Exact, carry: {other},\n{closures}}} }}\n"
            ),
        }
    }

    /// The translation's input for each function, as `operator!` or `predicate!` writes it; the
    /// body comes last.
    #[allow(dead_code, reason = "the tests alone translate them")]
    pub(crate) fn inputs(&self) -> Vec<[String; 2]> {
        let input = |Function { name, arguments, result, body }: &Function| {
            let (item, other) = (self.item.name(), self.other.name());
            let types = match *name {
                "combine" => format!("(Carry: {other})"),
                "lift" => format!("(Carry: {other}) (Element: {item})"),
                "lower" => format!("(Element: {item}) (Carry: {other})"),
                _ => format!("(Item: {item}) (Parameters: {other})"),
            };
            let argument = |(cuda, ty, pattern): &(&str, &str, String)| format!("({cuda} {ty}: {pattern}) ");
            let arguments: String = arguments.iter().map(argument).collect();
            let head = format!("library: own; types: {types}; result: {result}; arguments: {arguments}; body: ");
            [head, body.clone()]
        };
        self.functions.iter().map(input).collect()
    }
}

fn function(
    choices: &mut Choices,
    name: &'static str,
    arguments: &[(&'static str, &'static str, Type)],
    (result, ty): (&'static str, Type),
) -> Function {
    let types = arguments.iter().map(|&(_, _, ty)| ty).chain([ty]);
    let known = types.filter_map(Type::as_struct).collect();
    let mut body = Body {
        choices,
        variables: Vec::new(),
        known,
        result: ty,
        outside: 0,
        loops: 0,
        returns: true,
        is_whole: false,
        left: 80,
    };
    // In Rust an argument may have the C++ name of another one.
    let mut called: Vec<&str> = arguments.iter().map(|&(cuda, _, _)| cuda).collect();
    if body.choices.one_in(4) {
        called.reverse();
    }
    let argument = |(&(cuda, name, ty), called)| (cuda, name, body.argument(called, ty));
    let arguments = arguments.iter().zip(called).map(argument).collect();
    let text = body.block(ty, 4, true);
    Function { name, arguments, result, body: text }
}

// ---- bodies -------------------------------------------------------------------------------------

struct Variable {
    name: String,
    ty: Type,
    mutable: bool,
}

/// A body under construction.
struct Body<'a, 'b> {
    choices: &'a mut Choices<'b>,
    /// The visible variables and the variables that they shadow, the innermost last.
    variables: Vec<Variable>,
    /// The structs that a literal outside of a field may name.
    known: Vec<&'static Struct>,
    result: Type,
    /// The number of variables outside of the current operand. The operand does not assign to them.
    outside: usize,
    /// The loops around the current statement, in this function or block that is a value.
    loops: usize,
    /// Whether `return` is allowed here.
    returns: bool,
    /// Whether the next operand is the whole value of a block that is an operand.
    is_whole: bool,
    /// The number of operations left for the body.
    left: usize,
}

/// Names of variables. Some shadow arguments, are C++ keywords, or are names that the texts use.
const NAMES: [&str; 12] = ["v", "w", "x", "a", "b", "int", "double", "made", "part", "range", "p", "now"];

impl Body<'_, '_> {
    // ---- variables

    fn declare(&mut self, ty: Type, mutable: bool) -> String {
        let mut name = self.choices.of(&NAMES).to_owned();
        // A struct without a name has no literals, so its variables stay visible.
        if self.variables.iter().any(|variable| variable.name == name && self.has_unknown(variable.ty)) {
            name += &format!("_{}", self.variables.len());
        }
        self.variables.push(Variable { name: name.clone(), ty, mutable });
        name
    }

    /// Whether a value of the type contains a struct that no literal may name.
    fn has_unknown(&self, ty: Type) -> bool {
        ty.as_struct().is_some_and(|it| !self.is_known(it) || it.fields.iter().any(|&(_, ty)| self.has_unknown(ty)))
    }

    /// Whether a literal outside of a field, or the type of a `let`, may name the struct.
    fn is_known(&self, it: &Struct) -> bool {
        self.known.iter().any(|known| known.name == it.name)
    }

    fn argument(&mut self, name: &str, ty: Type) -> String {
        match (self.choices.below(4), ty) {
            (1, _) => {
                self.variables.push(Variable { name: name.to_owned(), ty, mutable: true });
                format!("mut {name}")
            }
            (2, Type::Struct(it)) => self.pattern(it),
            _ => {
                self.variables.push(Variable { name: name.to_owned(), ty, mutable: false });
                name.to_owned()
            }
        }
    }

    /// Declares variables for fields of a struct.
    fn pattern(&mut self, it: &'static Struct) -> String {
        let mut fields = String::new();
        for &(field, ty) in it.fields {
            match (self.choices.below(5), ty) {
                (0, _) => {}
                (1, _) => fields += &format!("{field}: _, "),
                (2, Type::Struct(inner)) => fields += &format!("{field}: {}, ", self.pattern(inner)),
                // No pattern binds a name twice.
                (choice, _) => {
                    let mutable = if choice == 3 { "mut " } else { "" };
                    let name = match self.variables.iter().any(|variable| variable.name == field) {
                        false => field.to_owned(),
                        true => format!("{field}_{}", self.variables.len()),
                    };
                    let new = if name == field { String::new() } else { format!("{field}: ") };
                    fields += &format!("{new}{mutable}{name}, ");
                    self.variables.push(Variable { name, ty, mutable: choice == 3 });
                }
            }
        }
        format!("{} {{ {fields}.. }}", it.path.split("::").next().expect("a name"))
    }

    /// Variables and fields of a type or of any type: all, or only those that can be assigned to.
    fn places(&self, ty: Option<Type>, assigned: bool) -> Vec<(String, Type)> {
        fn add(path: &str, of: Type, ty: Option<Type>, found: &mut Vec<(String, Type)>) {
            if ty.is_none_or(|ty| ty == of) {
                found.push((path.to_owned(), of));
            }
            if let Type::Struct(it) = of {
                it.fields.iter().for_each(|&(field, of)| add(&format!("{path}.{field}"), of, ty, found));
            }
        }
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        for (i, variable) in self.variables.iter().enumerate().rev() {
            if !seen.contains(&&variable.name) {
                seen.push(&variable.name);
                if !assigned || (variable.mutable && i >= self.outside) {
                    add(&variable.name, variable.ty, ty, &mut found);
                }
            }
        }
        found
    }

    fn place(&mut self, ty: Type) -> Option<String> {
        let places = self.places(Some(ty), false);
        if places.is_empty() { None } else { Some(places[self.choices.below(places.len())].0.clone()) }
    }

    /// The text that `write` returns. The variables that it declares are out of scope afterwards.
    fn scope(&mut self, write: impl FnOnce(&mut Self) -> String) -> String {
        let before = self.variables.len();
        let text = write(self);
        self.variables.truncate(before);
        text
    }

    /// A block that is a value: an operand, or the whole value of a `let` or an assignment.
    fn lambda(&mut self, is_operand: bool, write: impl FnOnce(&mut Self) -> String) -> String {
        let before = (self.outside, self.loops, self.returns);
        (self.loops, self.returns) = (0, false);
        if is_operand {
            self.outside = self.variables.len();
        }
        let text = write(self);
        (self.outside, self.loops, self.returns) = before;
        text
    }

    // ---- statements and the values behind them

    /// Statements and a value, in braces. If `free`, a literal may be without a known type.
    fn block(&mut self, ty: Type, depth: u32, free: bool) -> String {
        self.scope(|this| {
            let statements = this.statements(depth);
            format!("{{\n{statements}{}\n}}", this.value(ty, depth, free))
        })
    }

    /// A value behind statements or where it is assigned.
    fn value(&mut self, ty: Type, depth: u32, free: bool) -> String {
        match self.choices.below(6) {
            4 if depth > 0 && self.left > 0 => self.choice(ty, depth - 1, free),
            5 if depth > 0 && self.left > 0 => self.block(ty, depth - 1, free),
            0 if free => self.bare_or(ty, depth),
            _ => self.plain_value(ty, depth, free),
        }
    }

    fn bare_or(&mut self, ty: Type, depth: u32) -> String {
        match ty {
            Type::Number(number) => self.beside(number, depth),
            _ => self.plain_value(ty, depth, true),
        }
    }

    fn plain_value(&mut self, ty: Type, depth: u32, free: bool) -> String {
        match ty {
            Type::Number(number) => {
                self.is_whole = !free;
                self.number(number, depth)
            }
            Type::Struct(it) => self.struct_value(it, depth, free),
        }
    }

    fn choice(&mut self, ty: Type, depth: u32, free: bool) -> String {
        self.left = self.left.saturating_sub(1);
        let (condition, then) = (self.number(BOOL, depth), self.block(ty, depth, free));
        let otherwise = if depth > 0 && self.choices.one_in(4) {
            self.choice(ty, depth - 1, free)
        } else {
            self.block(ty, depth, free)
        };
        format!("if {condition} {then} else {otherwise}")
    }

    fn struct_value(&mut self, it: &'static Struct, depth: u32, free: bool) -> String {
        let place = self.place(Type::Struct(it));
        let named = free || self.is_known(it);
        match place {
            Some(place) if !named || self.choices.below(2) == 0 => place,
            place => {
                assert!(named, "no value of {}", it.name);
                let rest = place.filter(|_| self.choices.one_in(3));
                let first = self.choices.below(it.fields.len());
                let mut fields = String::new();
                for i in 0..it.fields.len() {
                    let (field, ty) = it.fields[(first + i) % it.fields.len()];
                    if i > 0 && rest.is_some() && self.choices.one_in(2) {
                        continue;
                    }
                    let value = self.value(ty, depth.saturating_sub(1), true);
                    fields += &format!("{field}: {value}, ");
                }
                let rest = rest.map_or(String::new(), |rest| format!("..{rest}"));
                format!("{} {{ {fields}{rest} }}", it.path)
            }
        }
    }

    fn statements(&mut self, depth: u32) -> String {
        let n = if depth == 0 || self.left == 0 { 0 } else { self.choices.below(4) };
        (0..n).map(|_| self.statement(depth - 1)).collect()
    }

    fn any_number(&mut self) -> Number {
        if self.choices.one_in(10) { BOOL } else { self.choices.of(&NUMBERS) }
    }

    fn integer_type(&mut self) -> Number {
        let number = self.choices.of(&NUMBERS);
        if number.is_integer() { number } else { U32 }
    }

    fn statement(&mut self, depth: u32) -> String {
        self.left = self.left.saturating_sub(1);
        match self.choices.below(15) {
            0 => {
                let number = self.any_number();
                let value = self.number(number, depth);
                self.binding(Type::Number(number), &value, false)
            }
            1 => {
                // The whole value of a `let` may assign to variables outside.
                let ty = Type::Number(self.any_number());
                let value = self.lambda(false, |this| match this.choices.below(3) {
                    0 => this.bare_or(ty, depth),
                    1 => this.choice(ty, depth, true),
                    _ => this.block(ty, depth, true),
                });
                self.binding(ty, &value, true)
            }
            2 | 12 => self.structs(depth),
            3 | 4 => self.assignment(depth, |_| true),
            5 => self.swap(depth, |_| true),
            13 => self.assignment(depth, |ty| ty.as_struct().is_some()),
            14 => self.swap(depth, |ty| ty.as_struct().is_some()),
            6 => {
                let condition = self.number(BOOL, depth);
                let then = self.effects(depth);
                let otherwise = match self.choices.below(3) {
                    0 => String::new(),
                    1 => format!(" else {}", self.effects(depth)),
                    _ => format!(" else if {} {}", self.number(BOOL, depth), self.effects(depth)),
                };
                format!("if {condition} {then}{otherwise}\n")
            }
            7 => self.walk(depth),
            8 => {
                let condition = self.number(BOOL, depth);
                self.loops += 1;
                let inside = self.scope(|this| this.statements(depth));
                self.loops -= 1;
                format!("let mut fuel = 5_u8;\nwhile fuel > 0 && {condition} {{\nfuel -= 1;\n{inside}}}\n")
            }
            9 if self.returns => {
                let (condition, result) = (self.number(BOOL, depth), self.result);
                let value = self.value(result, depth, true);
                format!("if {condition} {{ return {value}; }}\n")
            }
            10 if self.loops > 0 => {
                let jump = self.choices.of(&["break", "continue"]);
                format!("if {} {{ {jump}; }}\n", self.number(BOOL, depth))
            }
            11 => {
                let (one, other) = (self.any_number(), self.any_number());
                let values = (self.number(one, depth), self.number(other, depth));
                let mutable = self.choices.one_in(2);
                let first = self.declare(Type::Number(one), mutable);
                let mut second = self.declare(Type::Number(other), false);
                if second == first {
                    second = "_".to_owned();
                    self.variables.pop();
                }
                format!(
                    "let ({}{first}, {second}) = ({}, {});\n",
                    if mutable { "mut " } else { "" },
                    values.0,
                    values.1
                )
            }
            _ => format!("{}\n", self.effects(depth)),
        }
    }

    /// A block that is a statement.
    fn effects(&mut self, depth: u32) -> String {
        self.scope(|this| format!("{{\n{}}}", this.statements(depth)))
    }

    /// `let`, of a number with a type if the literal may have none.
    fn binding(&mut self, ty: Type, value: &str, typed: bool) -> String {
        let mutable = !self.choices.one_in(3);
        let name = self.declare(ty, mutable);
        let nameable = ty.as_struct().is_none_or(|it| self.is_known(it));
        let named =
            if typed || nameable && self.choices.one_in(3) { format!(": {}", ty.name()) } else { String::new() };
        format!("let {}{name}{named} = {value};\n", if mutable { "mut " } else { "" })
    }

    /// `let` of a struct, or of its fields.
    fn structs(&mut self, depth: u32) -> String {
        let all = self.places(None, false).into_iter().filter_map(|(_, ty)| ty.as_struct());
        let all: Vec<_> = all.chain(self.known.iter().copied()).collect();
        if all.is_empty() {
            return String::new();
        }
        let it = all[self.choices.below(all.len().min(256))];
        let ty = Type::Struct(it);
        let value = match (self.choices.below(5), self.place(ty)) {
            (0, Some(place)) => {
                let pattern = self.pattern(it);
                return format!("let {pattern} = {place};\n");
            }
            (1, Some(place)) => {
                let condition = self.number(BOOL, depth);
                let other = self.lambda(false, |this| this.struct_value(it, depth, false));
                format!("if {condition} {{ {place} }} else {{ {other} }}")
            }
            (2, _) => self.lambda(false, |this| this.choice(ty, depth, false)),
            (3, _) => self.lambda(false, |this| this.block(ty, depth, false)),
            _ => self.struct_value(it, depth, false),
        };
        self.binding(ty, &value, false)
    }

    /// An assignment to a place of one of these types.
    fn assignment(&mut self, depth: u32, is_of: fn(Type) -> bool) -> String {
        let mut places = self.places(None, true);
        places.retain(|&(_, ty)| is_of(ty));
        if places.is_empty() {
            return String::new();
        }
        let (place, ty) = places[self.choices.below(places.len().min(256))].clone();
        let Type::Number(number) = ty else {
            let value = self.lambda(false, |this| match this.choices.below(3) {
                0 => this.value(ty, depth, true),
                1 => this.choice(ty, depth, true),
                _ => this.block(ty, depth, true),
            });
            return format!("{place} = {value};\n");
        };
        let with = match (self.choices.below(3), number.kind) {
            (0, _) | (1, Kind::Half) => {
                let value = self.lambda(false, |this| this.value(ty, depth, true));
                return format!("{place} = {value};\n");
            }
            (_, Kind::Bool) => ["&=", "|=", "^="].as_slice(),
            (_, Kind::Half) => &["+=", "-=", "*=", "/="],
            (_, Kind::Float) => &["+=", "-=", "*=", "/=", "%="],
            (1, _) => &["<<=", ">>="],
            _ => &["+=", "-=", "*=", "&=", "|=", "^=", "/=", "%="],
        };
        let operator = self.choices.of(with);
        let value = match operator {
            "<<=" | ">>=" => self.amount(number, depth),
            "/=" | "%=" if number.is_integer() => self.divisor(number, depth),
            _ => self.beside(number, depth),
        };
        format!("{place} {operator} {value};\n")
    }

    /// An assignment to two places of these types.
    fn swap(&mut self, depth: u32, is_of: fn(Type) -> bool) -> String {
        let mut places = self.places(None, true);
        places.retain(|&(_, ty)| is_of(ty));
        if places.is_empty() {
            return String::new();
        }
        let [(one, ty), (other, other_ty)] =
            [(); 2].map(|()| places[self.choices.below(places.len().min(256))].clone());
        let value = self.assigned(ty, depth);
        if self.choices.one_in(4) {
            let other = self.lambda(true, |this| this.plain_value(other_ty, depth, false));
            return format!("({one}, _) = ({value}, {other});\n");
        }
        format!("({one}, {other}) = ({value}, {});\n", self.assigned(other_ty, depth))
    }

    /// A value in a tuple that is assigned.
    fn assigned(&mut self, ty: Type, depth: u32) -> String {
        match ty {
            Type::Number(number) => self.beside(number, depth),
            Type::Struct(it) => self.lambda(true, |this| match this.choices.below(4) {
                1 => this.choice(ty, depth, false),
                2 => this.block(ty, depth, false),
                _ => this.struct_value(it, depth, false),
            }),
        }
    }

    fn walk(&mut self, depth: u32) -> String {
        let number = self.integer_type();
        let name = number.name;
        let end = self.choices.below(6);
        let range = match self.choices.below(5) {
            0 => format!("0..{end}_{name}"),
            1 => format!("({} & 3)..={end}", self.number(number, depth)),
            2 => format!("{end}..({} & 7)", self.number(number, depth)),
            3 => format!("({name}::MAX - {end})..={name}::MAX"),
            _ => format!("{name}::MIN..({name}::MIN + {end})"),
        };
        let range = if self.choices.one_in(3) { format!("({range}).rev()") } else { range };
        self.loops += 1;
        let text = self.scope(|this| {
            let counter =
                if this.choices.one_in(4) { "_".to_owned() } else { this.declare(Type::Number(number), false) };
            format!("for {counter} in {range} {{\n{}}}\n", this.statements(depth))
        });
        self.loops -= 1;
        text
    }
}
