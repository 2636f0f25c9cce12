//! The macros that define elements, operators and predicates, one call each. The crate in `macros/`
//! translates Rust bodies to CUDA.

/// Defines an element: a plain struct in Rust and its C++ twin.
///
/// The struct is `repr(C)` and gets `Clone`, `Copy`, `Debug`, `PartialEq`, bytemuck's `Pod` and
/// `Zeroable`, cudarc's `DeviceRepr`, and [`Element`](crate::Element). Its fields are elements:
/// numbers, or structs that this macro defined. In C++ it is a struct with fields of the same
/// names.
///
/// Rust's compiler checks that the struct has no padding and that C++ takes the names of the
/// fields. Each kernel's compilation checks that the struct's size and alignment, and each field's
/// offset and size, are the same in C++. C++ takes names of ASCII letters, digits and underscores,
/// except its keywords and alternative tokens (`new`, `and`), the names that it reserves (`__x`,
/// `_X`), and a few names that kernels define (`f16`, `NULL`). Raw identifiers are refused.
///
/// # Example
/// ```
/// use parascan::{Last, scan};
///
/// parascan::element! {
///     /// A point.
///     struct Point { x: f32, y: f32, z: f32 }
/// }
/// let path = [Point { x: 0.0, y: 1.0, z: 2.0 }, Point { x: 3.0, y: 4.0, z: 5.0 }];
/// assert_eq!(scan::<Last, Point>().run(&path)?, path);
/// # Ok::<(), parascan::Error>(())
/// ```
/// A struct with type parameters is an element for the listed arguments:
/// ```
/// parascan::element! {
///     /// A value and its weight.
///     pub struct Weighed<T, W> { value: T, weight: W } for <f32, u32>, <f64, u64>
/// }
/// ```
/// `#[repr(align(16))]` above the struct gives it a larger alignment, up to 16.
#[macro_export]
macro_rules! element {
    (@fields $name:ident [$($attribute:tt)*] [$vis:vis] [$($parameter:ident),*] {
        $($(#[$meta:meta])* $field_vis:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        $crate::__own::field_names! { $($field)+ }
        $($attribute)*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq)]
        $vis struct $name<$($parameter),*> { $( $(#[$meta])* $field_vis $field: $type ),+ }
    };
    (@element $name:ident [$($parameter:ident = $argument:ty),*] {
        $($(#[$meta:meta])* $field_vis:vis $field:ident: $type:ty),+ $(,)?
    }) => {
        const _: () = {
            $( type $parameter = $argument; )*
            assert!(
                ::core::mem::size_of::<$name<$($argument),*>>() == 0 $(+ ::core::mem::size_of::<$type>())+,
                concat!("`", stringify!($name), "` has padding, which an element must not have: put the widest field first, or fill the gap with a field")
            );
            const PARTS: &[&str] = &[
                "struct alignas(",
                $crate::__own::alignment(::core::mem::align_of::<$name<$($argument),*>>()),
                ") { ",
                $( <$type as $crate::Element>::CUDA, " ", stringify!($field), "; ", )+
                "}",
            ];
            // SAFETY: the fields are elements, which are plain data, and the assertion above
            // excludes padding.
            unsafe impl $crate::__own::Zeroable for $name<$($argument),*> {}
            // SAFETY: as above.
            unsafe impl $crate::__own::Pod for $name<$($argument),*> {}
            // SAFETY: as above.
            unsafe impl $crate::__own::DeviceRepr for $name<$($argument),*> {}
            // SAFETY: both sides have the same fields in the same order, and every kernel asserts
            // their offsets.
            unsafe impl $crate::Element for $name<$($argument),*> {
                const CUDA: &'static str = {
                    const BYTES: [u8; $crate::__own::length(PARTS)] = $crate::__own::join(PARTS);
                    $crate::__own::text(&BYTES)
                };
                const CUDA_FIELDS: &'static [$crate::__own::Field] = &[ $( $crate::__own::Field {
                    name: stringify!($field),
                    offset: ::core::mem::offset_of!(Self, $field),
                    size: ::core::mem::size_of::<$type>(),
                    cuda: <$type as $crate::Element>::CUDA,
                    fields: <$type as $crate::Element>::CUDA_FIELDS,
                } ),+ ];
            }
        };
    };
    (@elements $name:ident $parameters:tt $fields:tt $($arguments:tt)+) => {
        $( $crate::element! { @zip $name $parameters $arguments $fields } )+
    };
    (@zip $name:ident [$($parameter:ident),+] [$($argument:ty),+] $fields:tt) => {
        $crate::element! { @element $name [$($parameter = $argument),+] $fields }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($fields:tt)+ }) => {
        $crate::element! { @fields $name [$(#[$meta])*] [$vis] [] { $($fields)+ } }
        $crate::element! { @element $name [] { $($fields)+ } }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident<$($parameter:ident),+> { $($fields:tt)+ } for $(<$($argument:ty),+>),+ $(,)?) => {
        $crate::element! { @fields $name [$(#[$meta])*] [$vis] [$($parameter),+] { $($fields)+ } }
        $crate::element! { @elements $name [$($parameter),+] { $($fields)+ } $([$($argument),+])+ }
    };
    ($($other:tt)*) => {
        ::core::compile_error!("an element is written `struct Name { field: type, ... }`, or `struct Name<T> { field: T, ... } for <f32>, <f64>`");
    };
}

/// Defines an operator: a type, and how it combines partial results in Rust and on the GPU.
///
/// ```text
/// operator! {
///     pub struct Name on Element, AnotherElement {
///         associativity: Exact,            // or Rounding
///         carry: Type,                     // type of partial results; the element, if left out
///         identity: value,                 // neutral carry, a constant; left out if there is none
///         lift: |x| rust,                  // element to carry; unchanged, if left out
///         lower: |x| rust,                 // carry to element; unchanged, if left out
///         combine: |earlier, later| rust,  // or with a text of your own: rust => unsafe "cuda"
///     }
///     on YetAnotherElement { ... }
/// }
/// ```
/// The fields must be in this order. The GPU's body is translated from the Rust body, which must
/// keep to a [subset](#the-subset). If it does not, or if CUDA has a faster instruction, write [a
/// CUDA text](#a-text-of-your-own) behind it.
///
/// # Example
/// ```
/// use parascan::scan;
///
/// parascan::operator! {
///     /// The greatest common divisor.
///     pub struct Gcd on u32, u64 {
///         associativity: Exact,
///         identity: 0,
///         combine: |mut a, mut b| {
///             while b != 0 {
///                 (a, b) = (b, a % b);
///             }
///             a
///         },
///     }
/// }
/// assert_eq!(scan::<Gcd, u32>().run(&[12, 18, 27])?, [12, 6, 3]);
/// # Ok::<(), parascan::Error>(())
/// ```
/// An operator with a carry of its own, the running mean:
/// ```
/// parascan::element! { struct Total { sum: f64, count: f64 } }
/// parascan::operator! {
///     struct Mean on f64 {
///         associativity: Rounding,
///         carry: Total,
///         lift: |x| Total { sum: x, count: 1.0 },
///         lower: |x| x.sum / x.count,
///         combine: |a, b| Total { sum: a.sum + b.sum, count: a.count + b.count },
///     }
/// }
/// assert_eq!(parascan::scan::<Mean, f64>().run(&[1.0, 2.0, 6.0])?, [1.0, 1.5, 3.0]);
/// # Ok::<(), parascan::Error>(())
/// ```
///
/// # The subset
/// An expression outside of the subset is a compile error at that expression.
///
/// - Values: arguments and variables, fields by name; `u32::MAX`, `f32::INFINITY` and the like,
///   `std::f32::consts`; literals of numbers, `true`, `b'x'`.
/// - Operators: `+` `-` `*` `/` `%`, `&` `|` `^` `!`, `<<` `>>`, `==` `!=` `<` `<=` `>` `>=`, `&&`
///   `||`, of numbers and `bool`; `+=` and the like.
/// - Types: `i8` to `i64`, `u8` to `u64`, `isize`, `usize`, `f32`, `f64`, `f16`, `bf16`, `bool`;
///   the carry; in `lift` and `lower` the element; in a predicate the item and the predicate
///   itself.
/// - Casts: `as` to integers, `f32` and `f64`; `u64::from(x)` and the like, `f32::from_bits(x)`,
///   `f16::from_f32(x)`.
/// - Structs: `Name { a: x, b: y }`, `Name { a: x, ..other }`, and such patterns.
/// - Statements: `let`, `let mut`, also of tuples and of a struct's fields; assignment, also
///   `(a, b) = (b, a)`; `return`.
/// - Choices: `if` and `else`, as statements and as values; blocks, likewise.
/// - Loops: `for i in 0..n`, `0..=n`, `(0..n).rev()` over integers; `while`, which must end;
///   `break`, `continue`.
/// - Methods of integers: `wrapping_` `add` `sub` `mul` `div` `rem` `neg` `abs` `shl` `shr` `pow`,
///   `saturating_add`, `saturating_sub`, `pow`, `unsigned_abs`, `abs_diff`, `rem_euclid`,
///   `div_euclid`, `is_multiple_of`, `is_power_of_two`, `count_ones`, `count_zeros`,
///   `leading_zeros`, `leading_ones`, `trailing_zeros`, `trailing_ones`, `rotate_left`,
///   `rotate_right`, `reverse_bits`, `swap_bytes`.
/// - Methods of numbers: `min`, `max`, `clamp`, `abs`, `signum`.
/// - Methods of floats with the same bits as in Rust: `mul_add`, `sqrt`, `recip`, `floor`, `ceil`,
///   `trunc`, `fract`, `round`, `round_ties_even`, `copysign`, `is_nan`, `is_finite`,
///   `is_infinite`, `is_sign_negative`, `is_sign_positive`, `to_bits`, `to_f32`, `key_nan_last`,
///   `key_nan_first` ([`Keyed`](crate::Keyed)).
/// - Methods of floats that agree within rounding: `exp`, `exp2`, `exp_m1`, `ln`, `ln_1p`, `log2`,
///   `log10`, `cbrt`, `powf`, `hypot`, `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `atan2`,
///   `sinh`, `cosh`, `tanh`.
///
/// *The macro sees no types*, only the text of the body. So a literal takes the type of the operand
/// it meets (`x + 1`), of the variable it is assigned to, or of its field. A literal that stands
/// alone needs a suffix (`let mut n = 0_u32`, `0..8_u32`) or a `let` with a type. Rust checks, on a
/// copy of the body that is never called, that operators and methods are applied to numbers. `laws`
/// checks in a test that both bodies have the same values.
///
/// *Values are those of a release build.* Integers wrap, casts from floats saturate, and a product
/// and a sum are rounded separately. Where Rust panics, as `+` does on overflow in a debug build,
/// the GPU has a value: integers wrap, the amount of a shift is taken modulo the width, a quotient
/// by zero is zero, a remainder by zero is the dividend, and `clamp` with bounds out of order
/// returns one of its three arguments. Write `wrapping_add` if you mean wrapping. What Rust leaves
/// unspecified stays so: the bits of a computed NaN, and which of two zeros of different sign `min`
/// and `max` return. The GPU treats a signalling NaN as any other NaN; on the host, `powf`,
/// `hypot`, `min` and `max` of the machine's library may return NaN for it where they ignore a
/// quiet NaN.
///
/// *Order of evaluation.* A block that is an operand, as in `x + { ... }`, cannot assign to a
/// variable outside of it. A block that is the whole value of a `let` can.
///
/// # A text of your own
/// The body in CUDA C++ follows `=> unsafe`. The GPU runs it unchanged:
/// [`DeviceCode::new`](crate::DeviceCode::new) lists what you promise. It is an expression, or
/// statements that end in a `return`. The arguments of `combine` are `a`, the earlier one, and `b`;
/// the argument of `lift` and of `lower` is `x`. The types are `Element` and `Carry`. A compiler
/// error names the line in this text. A product and a sum are rounded separately, as in Rust: write
/// `fma` for a single rounding, and `mul_add` in Rust. The text may use the names that
/// `cuda-templates/core/types.cuh` defines.
/// ```
/// parascan::operator! {
///     /// Two bytes of the earlier word and two of the later one, for which the GPU has an instruction.
///     struct Merge on u32 {
///         associativity: Exact,
///         // SAFETY: an instruction, defined for all words.
///         combine: |a, b| (a & 0x00ff_00ff) | (b & 0xff00_ff00) => unsafe "__byte_perm(a, b, 0x7250)",
///     }
/// }
/// # assert_eq!(parascan::scan::<Merge, u32>().run(&[0x01020304, 0x05060708]).unwrap(), [0x01020304, 0x05020704]);
/// ```
#[macro_export]
macro_rules! operator {
    (@rows $name:ident) => {};
    (@rows $name:ident on $($element:ty),+ { $($row:tt)* } $($rest:tt)*) => {
        $crate::operator! { @elements $name [$($element),+] { $($row)* } }
        $crate::operator! { @rows $name $($rest)* }
    };
    (@elements $name:ident [$($element:ty),+] $row:tt) => {
        $( $crate::operator! { @element $name [$element] $row } )+
    };
    (@element $name:ident [$element:ty] { associativity: $associativity:ident, carry: $carry:ty, $($row:tt)* }) => {
        $crate::operator! { @operator $name [$element] [$carry] $associativity { $($row)* } }
    };
    (@element $name:ident [$element:ty] { associativity: $associativity:ident, $($row:tt)* }) => {
        $crate::operator! { @operator $name [$element] [$element] $associativity { $($row)* } }
    };
    (@operator $name:ident [$element:ty] [$carry:ty] $associativity:ident {
        $(identity: $identity:expr,)?
        $(lift: |$lifted:pat_param| $lift:expr $(=> unsafe $cuda_lift:expr)?,)?
        $(lower: |$lowered:pat_param| $lower:expr $(=> unsafe $cuda_lower:expr)?,)?
        combine: |$earlier:pat_param, $later:pat_param| $combine:expr $(=> unsafe $cuda:expr)? $(,)?
    }) => {
        impl $crate::Operator<$element> for $name {
            type Carry = $carry;
            $crate::operator! { @convert lift, $element => Self::Carry, $(|$lifted| $lift)? }
            $crate::operator! { @convert lower, Self::Carry => $element, $(|$lowered| $lower)? }
            #[inline]
            fn combine($earlier: Self::Carry, $later: Self::Carry) -> Self::Carry {
                $combine
            }
            $( const IDENTITY: ::core::option::Option<Self::Carry> = ::core::option::Option::Some($identity); )?
            const ASSOCIATIVITY: $crate::Associativity = $crate::Associativity::$associativity;
            const CUDA: $crate::DeviceCode<Self, $element> =
                $crate::operator!(@code [$(unsafe $cuda)?] combine [$carry] |$earlier, $later| $combine);
            $( const CUDA_LIFT: $crate::DeviceCode<Self, $element> =
                $crate::operator!(@code [$(unsafe $cuda_lift)?] lift [$carry] [$element] |$lifted| $lift); )?
            $( const CUDA_LOWER: $crate::DeviceCode<Self, $element> =
                $crate::operator!(@code [$(unsafe $cuda_lower)?] lower [$carry] [$element] |$lowered| $lower); )?
        }
    };
    // A CUDA text without `unsafe`: of `combine`, of `lower`, of `lift`.
    (@operator $name:ident [$element:ty] [$carry:ty] $associativity:ident {
        $(identity: $identity:expr,)?
        $(lift: |$lifted:pat_param| $lift:expr $(=> unsafe $cuda_lift:expr)?,)?
        $(lower: |$lowered:pat_param| $lower:expr $(=> unsafe $cuda_lower:expr)?,)?
        combine: |$earlier:pat_param, $later:pat_param| $combine:expr => $cuda:literal $(,)?
    }) => {
        $crate::operator! { @unmarked }
    };
    (@operator $name:ident [$element:ty] [$carry:ty] $associativity:ident {
        $(identity: $identity:expr,)?
        $(lift: |$lifted:pat_param| $lift:expr $(=> unsafe $cuda_lift:expr)?,)?
        lower: |$lowered:pat_param| $lower:expr => $cuda:literal, $($rest:tt)+
    }) => {
        $crate::operator! { @unmarked }
    };
    (@operator $name:ident [$element:ty] [$carry:ty] $associativity:ident {
        $(identity: $identity:expr,)?
        lift: |$lifted:pat_param| $lift:expr => $cuda:literal, $($rest:tt)+
    }) => {
        $crate::operator! { @unmarked }
    };
    (@unmarked) => {
        ::core::compile_error!("the GPU runs a CUDA text of your own unchanged, so the text needs your promise: write `rust => unsafe \"cuda\"` and keep to the rules of `parascan::DeviceCode::new`, or leave the text out, and the macro translates the Rust body");
    };
    (@code [unsafe $cuda:expr] $($rest:tt)*) => {{
        let text: &'static ::core::primitive::str = $cuda;
        // SAFETY: the promise of the user, who wrote `unsafe`.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@code [] $($body:tt)*) => {{
        let text: &'static ::core::primitive::str = $crate::operator!(@text $($body)*);
        // SAFETY: every operation of a translated body is defined for all values and reads only its
        // operands. Every loop runs over a range or has an effect. The only tokens of the body in
        // the text are checked names of fields.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@text combine [$carry:ty] |$earlier:pat_param, $later:pat_param| $combine:expr) => {
        $crate::__own::cuda_text!(
            library: $crate::__own; types: (Carry: $carry); result: Carry;
            arguments: (a Carry: $earlier) (b Carry: $later); body: $combine
        )
    };
    (@text lift [$carry:ty] [$element:ty] |$x:pat_param| $lift:expr) => {
        $crate::__own::cuda_text!(
            library: $crate::__own; types: (Carry: $carry) (Element: $element); result: Carry;
            arguments: (x Element: $x); body: $lift
        )
    };
    (@text lower [$carry:ty] [$element:ty] |$x:pat_param| $lower:expr) => {
        $crate::__own::cuda_text!(
            library: $crate::__own; types: (Element: $element) (Carry: $carry); result: Element;
            arguments: (x Carry: $x); body: $lower
        )
    };
    (@convert $function:ident, $from:ty => $to:ty,) => {
        #[inline]
        fn $function(x: $from) -> $to {
            x
        }
    };
    (@convert $function:ident, $from:ty => $to:ty, |$x:pat_param| $body:expr) => {
        #[inline]
        fn $function($x: $from) -> $to {
            $body
        }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident on $($rows:tt)+) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        $vis struct $name;
        $crate::operator! { @rows $name on $($rows)+ }
    };
    ($($other:tt)*) => {
        ::core::compile_error!("an operator is written `struct Name on Element { associativity: Exact or Rounding, carry: Type, identity: value, lift: |x| rust => unsafe \"cuda\", lower: |x| rust => unsafe \"cuda\", combine: |a, b| rust => unsafe \"cuda\" }`, in this order; carry, identity, lift and lower may be left out, and so may each cuda text with its `unsafe`");
    };
}

/// Defines a predicate, which selects the items of a compaction, in Rust and on the GPU.
///
/// Its fields are parameters: plain data that go with each call, to the device too.
/// [`element!`](crate::element) says which types they may have.
///
/// The GPU's body is translated from the Rust body, if that keeps to the
/// [subset](crate::operator#the-subset). A CUDA text of your own follows `=> unsafe`, with the
/// promise that [`DeviceCode::new`](crate::DeviceCode::new) asks for. In it the item is `x`, and
/// the parameters are fields of `p`. It is an expression, or statements that end in a `return`.
/// `laws::of_predicate` compares the two bodies in a test.
///
/// # Example
/// ```
/// use parascan::compact;
///
/// parascan::predicate! {
///     /// Selects items with the remainder `rest` on division by `divisor`.
///     struct Leaves { divisor: u32, rest: u32 } on u32 { keeps: |x, p| x % p.divisor == p.rest }
/// }
/// assert_eq!(compact::<u32>().keep(Leaves { divisor: 3, rest: 1 }).run(&[1, 2, 3, 4, 5, 6, 7])?, [1, 4, 7]);
///
/// parascan::predicate! {
///     /// Selects even items.
///     struct Even on i32, i64 {
///         // SAFETY: an operation on bits.
///         keeps: |x| x % 2 == 0 => unsafe "!(x & 1)",
///     }
/// }
/// assert_eq!(compact::<i32>().keep(Even).run(&[1, 2, 3, 4])?, [2, 4]);
/// # Ok::<(), parascan::Error>(())
/// ```
#[macro_export]
macro_rules! predicate {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($fields:tt)+ } on $($item:ty),+ {
        keeps: |$x:pat_param, $parameters:pat_param| $keeps:expr $(=> unsafe $cuda:expr)? $(,)?
    }) => {
        $crate::element! { $(#[$meta])* $vis struct $name { $($fields)+ } }
        $crate::predicate! { @predicates $name [$($item),+] [$name, *] [|$x, $parameters| $keeps] [$(unsafe $cuda)?] }
    };
    ($(#[$meta:meta])* $vis:vis struct $name:ident on $($item:ty),+ {
        keeps: |$x:pat_param| $keeps:expr $(=> unsafe $cuda:expr)? $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        $vis struct $name;
        $crate::predicate! { @predicates $name [$($item),+] [u8, 0] [|$x, _| $keeps] [$(unsafe $cuda)?] }
    };
    // A CUDA text without `unsafe`.
    ($(#[$meta:meta])* $vis:vis struct $name:ident $({ $($fields:tt)+ })? on $($item:ty),+ {
        keeps: |$($x:pat_param),+| $keeps:expr => $cuda:literal $(,)?
    }) => {
        $crate::operator! { @unmarked }
    };
    (@predicates $name:ident [$($item:ty),+] $parameters:tt $body:tt $text:tt) => {
        $( $crate::predicate! { @predicate $name [$item] $parameters $body $text } )+
    };
    (@predicate $name:ident [$item:ty] [$type:ty, $value:tt] [|$x:pat_param, $parameters:pat_param| $keeps:expr] $text:tt) => {
        impl $crate::Predicate<$item> for $name {
            type Parameters = $type;
            fn parameters(&self) -> $type {
                $crate::predicate!(@value $value self)
            }
            #[inline]
            fn keeps(&self, $x: $item) -> bool {
                let $parameters = *self;
                $keeps
            }
            const CUDA: $crate::DeviceCode<Self, $item> =
                $crate::predicate!(@code $text $value [$item] [$type] |$x, $parameters| $keeps);
        }
    };
    (@value * $self:ident) => { *$self };
    (@value 0 $self:ident) => { 0 };
    (@code [unsafe $cuda:expr] $($rest:tt)*) => {{
        let text: &'static ::core::primitive::str = $cuda;
        // SAFETY: the promise of the user, who wrote `unsafe`.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@code [] $($body:tt)*) => {{
        let text: &'static ::core::primitive::str = $crate::predicate!(@text $($body)*);
        // SAFETY: as for an operator.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@text * [$item:ty] [$type:ty] |$x:pat_param, $parameters:pat_param| $keeps:expr) => {
        $crate::__own::cuda_text!(
            library: $crate::__own; types: (Item: $item) (Parameters: $type); result: bool;
            arguments: (x Item: $x) (p Parameters: $parameters); body: $keeps
        )
    };
    (@text 0 [$item:ty] [$type:ty] |$x:pat_param, $parameters:pat_param| $keeps:expr) => {
        $crate::__own::cuda_text!(
            library: $crate::__own; types: (Item: $item); result: bool; arguments: (x Item: $x); body: $keeps
        )
    };
    ($($other:tt)*) => {
        ::core::compile_error!("a predicate is written `struct Name { field: type, ... } on Item { keeps: |x, p| rust => unsafe \"cuda\" }`, or `struct Name on Item { keeps: |x| rust => unsafe \"cuda\" }`; the cuda text may be left out with its `unsafe`");
    };
}

/// The functions and types that the macros' output uses.
#[doc(hidden)]
pub mod __own {
    pub use crate::cuda::Field;
    pub use bytemuck::{Pod, Zeroable};
    pub use cudarc::driver::DeviceRepr;
    pub use parascan_macros::{cuda_text, field_names};

    use half::{bf16, f16};

    /// The operands of a translated body's operators.
    #[diagnostic::on_unimplemented(
        message = "not translated to CUDA: an operation on `{Self}`",
        label = "operators and methods take numbers",
        note = "write the operation on the fields of a struct"
    )]
    pub trait Number: Copy {}
    /// The receivers of all methods.
    #[diagnostic::on_unimplemented(
        message = "not translated to CUDA: this operation on `{Self}`",
        label = "this operation takes integers, f32 and f64",
        note = "write the operation on the fields of a struct; convert f16 and bf16 by `to_f32`"
    )]
    pub trait PlainNumber: Number {}
    macro_rules! numbers { ($of:ident: $($t:ident)*) => { $( impl $of for $t {} )* } }
    numbers! { Number: i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 f16 bf16 bool }
    numbers! { PlainNumber: i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 }

    /// Returns `x`, which must be a number.
    pub fn number<T: Number>(x: T) -> T {
        x
    }
    /// Returns `x`, which must be an integer, `f32` or `f64`.
    pub fn plain_number<T: PlainNumber>(x: T) -> T {
        x
    }

    /// The bytes of all parts together.
    pub const fn length(parts: &[&str]) -> usize {
        let (mut i, mut length) = (0, 0);
        while i < parts.len() {
            length += parts[i].len();
            i += 1;
        }
        length
    }

    /// The concatenated parts, followed by zeros.
    pub const fn join<const N: usize>(parts: &[&str]) -> [u8; N] {
        assert!(length(parts) <= N, "this text is longer than its buffer");
        let mut bytes = [0; N];
        let (mut i, mut at) = (0, 0);
        while i < parts.len() {
            let (part, mut k) = (parts[i].as_bytes(), 0);
            while k < part.len() {
                bytes[at] = part[k];
                (at, k) = (at + 1, k + 1);
            }
            i += 1;
        }
        bytes
    }

    /// The bytes of `join` as a text.
    pub const fn text(bytes: &[u8]) -> &str {
        match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => panic!("concatenated texts are a text"),
        }
    }

    /// An alignment as a C++ literal.
    pub const fn alignment(bytes: usize) -> &'static str {
        match bytes {
            1 => "1",
            2 => "2",
            4 => "4",
            8 => "8",
            16 => "16",
            _ => panic!("the alignment of an element is at most 16"),
        }
    }

    /// Whether two texts are the same.
    pub(crate) const fn is_same(a: &str, b: &str) -> bool {
        let (a, b, mut i) = (a.as_bytes(), b.as_bytes(), 0);
        while i < a.len() && i < b.len() && a[i] == b[i] {
            i += 1;
        }
        i == a.len() && i == b.len()
    }
}

#[cfg(test)]
use crate::Keyed;
#[cfg(test)]
mod bodies;

#[cfg(test)]
mod tests {
    use super::bodies::{self, *};
    use crate::cuda::{compile_all, test, unit_of};
    use half::{bf16, f16};

    crate::element! {
        /// Field names that CUDA or the templates use for something else.
        #[allow(non_snake_case)]
        struct Borrowed { threadIdx: f32, warpSize: f32, u32: u32, min: u32, Element: f32, rust: u32, FIELD_OFFSET: f32, a: u32 }
    }
    crate::operator! {
        struct Borrow on Borrowed {
            associativity: Exact,
            combine: |a, b| Borrowed { threadIdx: b.threadIdx, min: a.min.min(b.u32), a: a.a ^ b.rust, FIELD_OFFSET: a.Element, ..a },
        }
    }

    #[test]
    fn names_of_cuda_and_the_templates_are_names_of_fields() {
        compile_all(vec![(90, "Borrow".into(), unit_of::<Borrow, Borrowed>().source("laws/operator.cuh"))]);
    }

    /// The text of every construct compiles, on every type. `tests/laws` runs these texts.
    #[test]
    fn every_text_from_rust_compiles() {
        let mut all = Vec::new();
        macro_rules! units {
            ($($name:ident: $check:ident $ops:tt on $types:tt;)*) => { $( units!(@ops $ops $types); )* };
            (@ops [$($op:ident)+] $types:tt) => { $( units!(@op $op $types); )+ };
            (@op $op:ident [$($t:tt)+]) => { $(
                all.push((90, format!("{} on {}", stringify!($op), stringify!($t)), unit_of::<$op, units!(@type $t)>().source("laws/operator.cuh")));
            )+ };
            (@type ($t:ty)) => { $t };
            (@type $t:ident) => { $t };
        }
        bodies::bodies!(units);
        macro_rules! predicates { ($($p:ident: $($t:ty),+;)*) => { $( $(
            all.push((90, format!("{} on {}", stringify!($p), stringify!($t)), test::<$t, $p>().laws_source()));
        )+ )* } }
        predicates! {
            Leaves: u32; OddBits: u8, i16, u32, i64; Tenths: f32, f64; Inside: Pair<f32, u32>; Half: f16;
        }
        compile_all(all);
    }
}
