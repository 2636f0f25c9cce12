//! The types of generated bodies.

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Bool,
    Unsigned,
    Signed,
    Float,
    Half,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Number {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

const fn number(name: &'static str, kind: Kind, bits: u32) -> Number {
    Number { name, kind, bits }
}

pub(crate) const BOOL: Number = number("bool", Kind::Bool, 8);
pub(crate) const U32: Number = number("u32", Kind::Unsigned, 32);
pub(crate) const F32: Number = number("f32", Kind::Float, 32);
pub(crate) const F64: Number = number("f64", Kind::Float, 64);
pub(crate) const F16: Number = number("f16", Kind::Half, 16);
pub(crate) const BF16: Number = number("bf16", Kind::Half, 16);

/// All numbers. `bool` is none, since it is no element.
pub(crate) const NUMBERS: [Number; 14] = [
    U32,
    number("i32", Kind::Signed, 32),
    F32,
    number("u8", Kind::Unsigned, 8),
    number("i8", Kind::Signed, 8),
    number("u16", Kind::Unsigned, 16),
    number("i16", Kind::Signed, 16),
    number("u64", Kind::Unsigned, 64),
    number("i64", Kind::Signed, 64),
    number("usize", Kind::Unsigned, 64),
    number("isize", Kind::Signed, 64),
    F64,
    F16,
    BF16,
];

pub(crate) const fn of(name: &str) -> Number {
    let mut i = 0;
    while NUMBERS[i].name.len() != name.len() || !is_same(NUMBERS[i].name, name) {
        i += 1;
    }
    NUMBERS[i]
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b, mut i) = (a.as_bytes(), b.as_bytes(), 0);
    while i < a.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len()
}

impl Number {
    pub(crate) fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Unsigned | Kind::Signed)
    }

    /// The unsigned integer of the same width.
    pub(crate) fn integer(self, kind: Kind) -> Number {
        let found = NUMBERS.into_iter().find(|n| n.kind == kind && n.bits == self.bits);
        found.expect("there are integers of 8 to 64 bits")
    }

    /// Whether Rust has `From<Self>` for an integer or a float.
    pub(crate) fn converts_to(self, to: Number) -> bool {
        let is_size = |n: Number| n.name.ends_with("size");
        match (self.kind, to.kind) {
            (Kind::Bool, Kind::Unsigned | Kind::Signed | Kind::Float) => true,
            _ if is_size(self) => false,
            (Kind::Unsigned, Kind::Unsigned) | (Kind::Signed, Kind::Signed) if is_size(to) => self.bits <= 16,
            (Kind::Unsigned, Kind::Signed) if is_size(to) => self.bits == 8,
            (Kind::Unsigned, Kind::Unsigned | Kind::Signed) | (Kind::Signed, Kind::Signed) => self.bits < to.bits,
            (Kind::Unsigned | Kind::Signed | Kind::Float, Kind::Float) => self.bits < to.bits,
            (Kind::Half, Kind::Float) => true,
            _ => false,
        }
    }
}

/// A struct that `batch.rs` or the predicate itself defines.
#[derive(Debug)]
pub(crate) struct Struct {
    /// The struct as a type.
    pub(crate) name: &'static str,
    /// The struct's path in a literal.
    pub(crate) path: &'static str,
    pub(crate) fields: &'static [(&'static str, Type)],
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Number(Number),
    Struct(&'static Struct),
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Number(number) => number.name,
            Type::Struct(it) => it.name,
        }
    }

    pub(crate) fn as_struct(self) -> Option<&'static Struct> {
        if let Type::Struct(it) = self { Some(it) } else { None }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Type) -> bool {
        self.name() == other.name()
    }
}

macro_rules! structs {
    ($($constant:ident $name:literal $path:literal { $($field:ident: $type:expr),* })*) => { $(
        pub(crate) static $constant: Struct = Struct { name: $name, path: $path, fields: &[$((stringify!($field), $type)),*] };
    )* };
}
const fn n(name: &str) -> Type {
    Type::Number(of(name))
}
structs! {
    PAIR "Pair" "Pair" { first: n("u32"), second: n("i32") }
    WIDE "Wide" "Wide" { wide: n("f64"), single: n("f32"), bits: n("u32") }
    SMALL "Small" "Small" { half: n("f16"), small: n("i16"), brain: n("bf16"), tiny: n("i8"), byte: n("u8") }
    NESTED "Nested" "Nested" { pair: Type::Struct(&PAIR), count: n("u64"), level: n("isize") }
    TWINS "Twins" "Twins" { left: Type::Struct(&PAIR), right: Type::Struct(&PAIR) }
    SINGLES "Couple<f32, u32>" "Couple::<f32, u32>" { left: n("f32"), right: n("u32") }
    DOUBLES "Couple<i64, f64>" "Couple::<i64, f64>" { left: n("i64"), right: n("f64") }

    LIMITS "Body" "Body" { least: n("f32"), most: n("u32") }
    DIVISOR "Body" "Body" { divisor: n("i16"), rest: n("u16") }
    SCALED "Body" "Body" { pair: Type::Struct(&PAIR), factor: n("f64") }
    HALVES "Body" "Body" { half: n("f16"), brain: n("bf16"), count: n("u32") }
}

/// The structs of elements and carries.
pub(crate) static STRUCTS: [&Struct; 7] = [&PAIR, &WIDE, &SMALL, &NESTED, &TWINS, &SINGLES, &DOUBLES];
/// The structs of predicates.
pub(crate) static PARAMETERS: [&Struct; 4] = [&LIMITS, &DIVISOR, &SCALED, &HALVES];
