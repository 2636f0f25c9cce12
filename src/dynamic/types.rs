//! Types, operators and values, and the way from each to the static ones.

use super::Array;
use super::memory::OnEither;
use crate::{Error, Operator, Ordered, SortKey};
use bytemuck::Pod;
use cudarc::driver::{CudaSlice, DeviceRepr};
use half::{bf16, f16};
use std::fmt;

/// The type of an array's items: those of the catalog. `usize` and `isize` are [`U64`](Type::U64) and
/// [`I64`](Type::I64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Type {
    F32,
    F64,
    F16,
    Bf16,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// The variant of an element of the catalog.
macro_rules! variant {
    (f32) => {
        Type::F32
    };
    (f64) => {
        Type::F64
    };
    (f16) => {
        Type::F16
    };
    (bf16) => {
        Type::Bf16
    };
    (i8) => {
        Type::I8
    };
    (i16) => {
        Type::I16
    };
    (i32) => {
        Type::I32
    };
    (i64) => {
        Type::I64
    };
    (isize) => {
        Type::I64
    };
    (u8) => {
        Type::U8
    };
    (u16) => {
        Type::U16
    };
    (u32) => {
        Type::U32
    };
    (u64) => {
        Type::U64
    };
    (usize) => {
        Type::U64
    };
}

/// An element type that is known at run time as a [`Type`].
pub trait Item: Ordered + SortKey + DeviceRepr {
    /// This type.
    const TYPE: Type;
}

macro_rules! items {
    (elements { $($t:ident $cuda:literal bits $bits:ident key $key:ident;)* } operators $operators:tt) => { $(
        impl Item for $t {
            const TYPE: Type = variant!($t);
        }
        impl From<$t> for Value {
            fn from(value: $t) -> Value {
                Value::from_bytes(variant!($t), bytemuck::bytes_of(&value)).expect("it has the type's size")
            }
        }
    )* };
}
catalog!(items);

macro_rules! arrays { ($($t:ident)*) => { $(
    impl From<Vec<$t>> for Array {
        fn from(items: Vec<$t>) -> Array {
            Array::from_items(OnEither::Host(items))
        }
    }
    impl From<CudaSlice<$t>> for Array {
        fn from(items: CudaSlice<$t>) -> Array {
            Array::from_items(OnEither::Device(items))
        }
    }
)* } }
arrays! { f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 } // an array of `usize` would not be one of `u64`

/// `with_type!(ty, T => e)` is `e` with `T` the type.
macro_rules! with_type {
    ($type:expr, $T:ident => $e:expr) => {
        match $type {
            $crate::dynamic::Type::F32 => {
                type $T = f32;
                $e
            }
            $crate::dynamic::Type::F64 => {
                type $T = f64;
                $e
            }
            $crate::dynamic::Type::F16 => {
                type $T = half::f16;
                $e
            }
            $crate::dynamic::Type::Bf16 => {
                type $T = half::bf16;
                $e
            }
            $crate::dynamic::Type::I8 => {
                type $T = i8;
                $e
            }
            $crate::dynamic::Type::I16 => {
                type $T = i16;
                $e
            }
            $crate::dynamic::Type::I32 => {
                type $T = i32;
                $e
            }
            $crate::dynamic::Type::I64 => {
                type $T = i64;
                $e
            }
            $crate::dynamic::Type::U8 => {
                type $T = u8;
                $e
            }
            $crate::dynamic::Type::U16 => {
                type $T = u16;
                $e
            }
            $crate::dynamic::Type::U32 => {
                type $T = u32;
                $e
            }
            $crate::dynamic::Type::U64 => {
                type $T = u64;
                $e
            }
        }
    };
}
pub(super) use with_type;

/// `with_bits!(ty, T => e)` is `e` with `T` the unsigned integer of the type's size, where only the
/// bits of items matter.
macro_rules! with_bits {
    ($type:expr, $T:ident => $e:expr) => {
        match $type.size() {
            1 => { type $T = u8; $e }
            2 => { type $T = u16; $e }
            4 => { type $T = u32; $e }
            _ => { type $T = u64; $e }
        }
    };
}
pub(super) use with_bits;

/// `with_index!(primitive, what, ty, I => e)` is `e` with `I` the index type, `u32` or `u64`.
///
/// # Errors
/// [`Error::Type`].
macro_rules! with_index {
    ($primitive:expr, $what:expr, $type:expr, $I:ident => $e:expr) => {
        match $type {
            $crate::dynamic::Type::U32 | $crate::dynamic::Type::I32 => {
                type $I = u32;
                $e
            }
            $crate::dynamic::Type::U64 | $crate::dynamic::Type::I64 => {
                type $I = u64;
                $e
            }
            found => Err($crate::Error::Type {
                primitive: $primitive,
                what: $what,
                expected: "u32 or u64",
                found: found.name(),
            }),
        }
    };
}
pub(super) use with_index;

impl Type {
    /// All types.
    pub const ALL: [Type; 12] = [
        Type::F32,
        Type::F64,
        Type::F16,
        Type::Bf16,
        Type::I8,
        Type::I16,
        Type::I32,
        Type::I64,
        Type::U8,
        Type::U16,
        Type::U32,
        Type::U64,
    ];

    /// Bytes of an item, which are its alignment too.
    pub fn size(self) -> usize {
        with_type!(self, T => size_of::<T>())
    }

    /// The name of the Rust type.
    pub fn name(self) -> &'static str {
        match self {
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::F16 => "f16",
            Type::Bf16 => "bf16",
            Type::I8 => "i8",
            Type::I16 => "i16",
            Type::I32 => "i32",
            Type::I64 => "i64",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
        }
    }

    /// # Errors
    /// [`Error::Type`] unless `found` is this type.
    pub(super) fn expect(self, primitive: &'static str, what: &'static str, found: Type) -> Result<(), Error> {
        if self == found {
            Ok(())
        } else {
            Err(Error::Type { primitive, what, expected: self.name(), found: found.name() })
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// ---- values

/// An item of a type that is known at run time.
#[derive(Clone, Copy, PartialEq)]
pub struct Value {
    ty: Type,
    /// The item in the first bytes, and zeros.
    bytes: [u8; 8],
}

impl Value {
    /// The value whose bytes these are, in the order of the machine; `None` unless there are
    /// [`size`](Type::size) of them.
    pub fn from_bytes(ty: Type, item: &[u8]) -> Option<Value> {
        let mut bytes = [0; 8];
        bytes.get_mut(..item.len())?.copy_from_slice(item);
        (item.len() == ty.size()).then_some(Value { ty, bytes })
    }

    /// The type.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// The bytes, in the order of the machine.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.ty.size()]
    }

    /// The item, if it is a `T`.
    ///
    /// ```
    /// use parascan::dynamic::Value;
    /// assert_eq!(Value::from(2.5_f32).get(), Some(2.5_f32));
    /// assert_eq!(Value::from(2.5_f32).get::<f64>(), None);
    /// ```
    pub fn get<T: Item>(&self) -> Option<T> {
        (self.ty == T::TYPE).then(|| self.bits())
    }

    /// The bits as a type of the same size.
    pub(super) fn bits<T: Pod>(&self) -> T {
        bytemuck::pod_read_unaligned(self.as_bytes())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_type!(self.ty, T => fmt::Display::fmt(&self.bits::<T>(), f))
    }
}
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_type!(self.ty, T => fmt::Debug::fmt(&self.bits::<T>(), f))?;
        f.write_str(self.ty.name())
    }
}

// ---- operators

/// What is done for a pair of operator and element type.
pub(super) trait ForPair {
    type Output;
    fn call<O: Operator<T>, T: Item>(self) -> Result<Self::Output, Error>;
}

/// The type by which an operator is called on an element. Operators to which only the bits matter
/// have one copy of their code for all elements of a size.
macro_rules! called_as {
    (Bits $t:ident) => {
        <$t as Ordered>::Bits
    };
    ($form:ident $t:ident) => {
        $t
    };
}

macro_rules! operators {
    (elements $elements:tt operators { $(
        $(#[$doc:meta])* $op:ident { $(
            $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident, $(identity $identity:expr,)? $(no $no:ident,)?
                rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
        )* }
    )* }) => {
        /// An operator: those of the catalog.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Op { $(
            $(#[$doc])*
            $op,
        )* }

        impl Op {
            /// All operators.
            pub const ALL: &'static [Op] = &[$(Op::$op),*];

            /// The name of the operator.
            pub fn name(self) -> &'static str {
                match self { $(Op::$op => stringify!($op),)* }
            }

            /// Calls `work` with the static operator and element type.
            ///
            /// # Errors
            /// [`Error::Undefined`] if the operator is not defined for the type.
            #[allow(unreachable_patterns)] // `usize` has the variant of `u64`
            pub(super) fn with<W: ForPair>(self, primitive: &'static str, ty: Type, work: W) -> Result<W::Output, Error> {
                match (self, ty) {
                    $( $( $( (Op::$op, variant!($t)) => work.call::<crate::$op, called_as!($form $t)>(), )* )* )*
                    _ => Err(Error::Undefined { primitive, operator: self.name(), element: ty.name() }),
                }
            }
        }
    };
}
catalog!(operators);

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
