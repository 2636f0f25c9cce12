//! Elements, operators and predicates of one's own, by one macro call each. What is written in Rust alone is translated by the crate in
//! `macros/`.

/// Defines an element: a plain struct in Rust, and its C++ twin.
///
/// The struct is `repr(C)` and gets `Clone`, `Copy`, `Debug`, `PartialEq`, bytemuck's `Pod` and `Zeroable`, cudarc's `DeviceRepr`,
/// and [`Element`](crate::Element). Its fields are elements themselves: numbers, or structs that this macro has defined. In C++ it
/// is a struct with fields of the same names.
///
/// That nothing lies between or behind the fields, and that no field has a name that C++ does not take, is checked when Rust compiles
/// it; that the size, the alignment, and each field's place and size are the same in C++, when a kernel is built. C++ takes names of
/// ASCII letters, digits and underscores, except its keywords and alternative tokens (`new`, `and`), what it reserves (`__x`, `_X`), and
/// a handful that kernels define (`f16`, `NULL`). Raw identifiers are refused.
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
/// A struct with type parameters is an element for those arguments that are listed:
/// ```
/// parascan::element! {
///     /// A value, and what it weighs.
///     pub struct Weighed<T, W> { value: T, weight: W } for <f32, u32>, <f64, u64>
/// }
/// ```
/// A larger alignment, up to 16, is asked for with `#[repr(align(16))]` above the struct.
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
                concat!("`", stringify!($name), "` has padding, and an element is nothing but its fields: put the widest first, or fill the gap with a field")
            );
            const PARTS: &[&str] = &[
                "struct alignas(",
                $crate::__own::alignment(::core::mem::align_of::<$name<$($argument),*>>()),
                ") { ",
                $( <$type as $crate::Element>::CUDA, " ", stringify!($field), "; ", )+
                "}",
            ];
            // SAFETY: its fields are elements, which are plain data, and there is no padding, as asserted above.
            unsafe impl $crate::__own::Zeroable for $name<$($argument),*> {}
            // SAFETY: as above.
            unsafe impl $crate::__own::Pod for $name<$($argument),*> {}
            // SAFETY: as above.
            unsafe impl $crate::__own::DeviceRepr for $name<$($argument),*> {}
            // SAFETY: the same fields in the same order on both sides, and every kernel asserts that they lie alike.
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

/// Defines an operator: a type, and how it combines partial results, in Rust and on the GPU.
///
/// ```text
/// operator! {
///     pub struct Name on Element, AnotherElement {
///         associativity: Exact,                   // or Rounding
///         carry: Type,                            // what partial results are carried in; the element, if left out
///         identity: value,                        // a neutral carry, a constant; left out if there is none
///         lift: |x| rust,                         // element to carry; as it is, if left out
///         lower: |x| rust,                        // carry to element; as it is, if left out
///         combine: |earlier, later| rust,         // or with a text of your own: rust => unsafe "cuda"
///     }
///     on YetAnotherElement { ... }
/// }
/// ```
/// What is there is written in this order. The body for the GPU is made of the Rust one where that keeps to a [subset](#the-subset); where it
/// does not, or where CUDA has a better way, it is [written beside it](#a-text-of-your-own).
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
/// One with a carry of its own: the mean of all items so far.
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
/// What is outside of it is an error at the expression, when Rust compiles it.
///
/// | | |
/// |---|---|
/// | values | arguments and variables, fields by name; `u32::MAX`, `f32::INFINITY` and the like, `std::f32::consts`; literals of numbers, `true`, `b'x'` |
/// | operators | `+` `-` `*` `/` `%`, `&` `\|` `^` `!`, `<<` `>>`, `==` `!=` `<` `<=` `>` `>=`, `&&` `\|\|`, of numbers and `bool`; `+=` and the like |
/// | types | `i8` to `i64`, `u8` to `u64`, `isize`, `usize`, `f32`, `f64`, `f16`, `bf16`, `bool`; the carry, in `lift` and `lower` the element, of a predicate the item and itself |
/// | casts | `as` to integers, `f32` and `f64`; `u64::from(x)` and the like, `f32::from_bits(x)`, `f16::from_f32(x)` |
/// | structs | `Name { a: x, b: y }`, `Name { a: x, ..other }`, and such patterns |
/// | statements | `let`, `let mut`, also of tuples and of a struct's fields; assignment, also `(a, b) = (b, a)`; `return` |
/// | choices | `if` and `else`, as statements and as values; blocks, likewise |
/// | loops | `for i in 0..n`, `0..=n`, `(0..n).rev()` over integers, `while`, which must end; `break`, `continue` |
/// | methods of integers | `wrapping_` `add` `sub` `mul` `div` `rem` `neg` `abs` `shl` `shr` `pow`, `saturating_add`, `saturating_sub`, `pow`, `unsigned_abs`, `abs_diff`, `rem_euclid`, `div_euclid`, `is_multiple_of`, `is_power_of_two`, `count_ones`, `count_zeros`, `leading_zeros`, `leading_ones`, `trailing_zeros`, `trailing_ones`, `rotate_left`, `rotate_right`, `reverse_bits`, `swap_bytes` |
/// | methods of numbers | `min`, `max`, `clamp`, `abs`, `signum` |
/// | methods of floats, the same bits | `mul_add`, `sqrt`, `recip`, `floor`, `ceil`, `trunc`, `fract`, `round`, `round_ties_even`, `copysign`, `is_nan`, `is_finite`, `is_infinite`, `is_sign_negative`, `is_sign_positive`, `to_bits`, `to_f32`, `key_nan_last`, `key_nan_first` ([`Keyed`](crate::Keyed)) |
/// | methods of floats, within rounding | `exp`, `exp2`, `exp_m1`, `ln`, `ln_1p`, `log2`, `log10`, `cbrt`, `powf`, `hypot`, `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `atan2`, `sinh`, `cosh`, `tanh` |
///
/// *Types are not seen*, only what is written. So a literal takes the type of what it meets (`x + 1`), of what it is assigned to, or of its
/// field; where it stands alone it has a suffix (`let mut n = 0_u32`, `0..8_u32`) or the `let` has a type. That operators and methods
/// are of numbers is checked by Rust, on a copy of the body that nobody calls. That both bodies are the same on every value is for
/// `laws` to check.
///
/// *The same as in a release build.* Integers wrap, casts from floats saturate, products and sums are rounded apart. Where Rust
/// panics, which `+` does on overflow in a debug build, the GPU has a value: integers wrap, amounts of shifts are taken modulo the width,
/// a quotient by zero is zero, a remainder by zero is what was to be divided, `clamp` between bounds that are not in order gives one
/// of the three. Write `wrapping_add` where wrapping is meant. What Rust leaves open stays open: the bits of a NaN that was computed, and
/// which of two zeros of different sign `min` and `max` give. A signalling NaN is one like any other on the GPU; `powf`, `hypot`, `min` and `max` of
/// the machine's own library may make a NaN of it where a quiet one is passed over.
///
/// *In order.* A block that is an operand, as in `x + { ... }`, assigns to nothing outside of it; a block that is all of a `let` may.
///
/// # A text of your own
/// Behind `=> unsafe` comes the body in CUDA C++. The GPU runs it as it stands: [`DeviceCode::new`](crate::DeviceCode::new) says what you
/// promise of it. It is an expression, or statements, the last of which is a `return`. The operands are always called `a`,
/// the earlier one, and `b`, and those of `lift` and `lower` are called `x`; the types are `Element` and `Carry`. What the
/// compiler finds wrong in it is told by its line in that text. A product and a sum are rounded apart, as in Rust: write `fma` where one
/// rounding is meant, and `mul_add` in Rust. What `cuda-templates/core/types.cuh` defines may be used.
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
    // A text without its promise: of `combine`, of `lower`, of `lift`.
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
        ::core::compile_error!("the GPU runs a CUDA text of your own as it stands, so it needs your promise: write `rust => unsafe \"cuda\"` and keep to what `parascan::DeviceCode::new` asks, or leave the text out, and it is made of the Rust body");
    };
    (@code [unsafe $cuda:expr] $($rest:tt)*) => {{
        let text: &'static ::core::primitive::str = $cuda;
        // SAFETY: promised by the user, who has written the `unsafe`.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@code [] $($body:tt)*) => {{
        let text: &'static ::core::primitive::str = $crate::operator!(@text $($body)*);
        // SAFETY: every operation of a translated body is defined for all values and reads its operands alone, every loop of it is a
        // range's or has an effect, and of the body itself it has no more than names of fields that were checked.
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
        ::core::compile_error!("an operator is written `struct Name on Element { associativity: Exact or Rounding, carry: Type, identity: value, lift: |x| rust => unsafe \"cuda\", lower: |x| rust => unsafe \"cuda\", combine: |a, b| rust => unsafe \"cuda\" }`, in this order; carry, identity, lift and lower may be left out, and what is cuda with its `unsafe`");
    };
}

/// Defines a predicate, which says what a compaction keeps, in Rust and on the GPU. Its fields are plain data that go with each
/// call, to the device too; they are what [`element!`](crate::element) allows.
///
/// The body for the GPU is made of the Rust one, where that keeps to the [subset](crate::operator#the-subset). A text of your own
/// comes behind `=> unsafe`, with the promise that [`DeviceCode::new`](crate::DeviceCode::new) asks for: in it the item is called `x` and
/// the fields are those of `p`; it is an expression, or statements, the last of which is a `return`. `laws::of_predicate` compares the
/// two bodies in a test.
///
/// # Example
/// ```
/// use parascan::compact;
///
/// parascan::predicate! {
///     /// Keeps what leaves `rest` when it is divided by `divisor`.
///     struct Leaves { divisor: u32, rest: u32 } on u32 { keeps: |x, p| x % p.divisor == p.rest }
/// }
/// assert_eq!(compact::<u32>().keep(Leaves { divisor: 3, rest: 1 }).run(&[1, 2, 3, 4, 5, 6, 7])?, [1, 4, 7]);
///
/// parascan::predicate! {
///     /// Keeps what is even.
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
    // A text without its promise.
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
        // SAFETY: promised by the user, who has written the `unsafe`.
        unsafe { $crate::DeviceCode::new(text) }
    }};
    (@code [] $($body:tt)*) => {{
        let text: &'static ::core::primitive::str = $crate::predicate!(@text $($body)*);
        // SAFETY: as of an operator.
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
        ::core::compile_error!("a predicate is written `struct Name { field: type, ... } on Item { keeps: |x, p| rust => unsafe \"cuda\" }`, or `struct Name on Item { keeps: |x| rust => unsafe \"cuda\" }`; the cuda may be left out, with its `unsafe`");
    };
}

/// What the macros write uses this.
#[doc(hidden)]
pub mod __own {
    pub use crate::cuda::Field;
    pub use bytemuck::{Pod, Zeroable};
    pub use cudarc::driver::DeviceRepr;
    pub use parascan_macros::{cuda_text, field_names};

    use half::{bf16, f16};

    /// What operators are of, where a body is translated to CUDA.
    #[diagnostic::on_unimplemented(
        message = "not translated to CUDA: an operation on `{Self}`",
        label = "operators and methods are of numbers",
        note = "of a struct take the fields"
    )]
    pub trait Number: Copy {}
    /// What all methods are of.
    #[diagnostic::on_unimplemented(
        message = "not translated to CUDA: this operation on `{Self}`",
        label = "it is of integers, f32 and f64",
        note = "of a struct take the fields; f16 and bf16 have `to_f32`"
    )]
    pub trait PlainNumber: Number {}
    macro_rules! numbers { ($of:ident: $($t:ident)*) => { $( impl $of for $t {} )* } }
    numbers! { Number: i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 f16 bf16 bool }
    numbers! { PlainNumber: i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 }

    /// Itself.
    pub fn number<T: Number>(x: T) -> T {
        x
    }
    /// Itself.
    pub fn plain_number<T: PlainNumber>(x: T) -> T {
        x
    }

    /// Bytes of the parts, one after the other.
    pub const fn length(parts: &[&str]) -> usize {
        let (mut i, mut length) = (0, 0);
        while i < parts.len() {
            length += parts[i].len();
            i += 1;
        }
        length
    }

    /// The parts, one after the other; what is left of the bytes is zero.
    pub const fn join<const N: usize>(parts: &[&str]) -> [u8; N] {
        assert!(length(parts) <= N, "this text is longer than what is kept for it");
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

    /// What `join` has made of texts.
    pub const fn text(bytes: &[u8]) -> &str {
        match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => panic!("texts one after the other are a text"),
        }
    }

    /// An alignment as C++ takes it.
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
#[path = "../tests/laws/bodies.rs"]
mod bodies;

#[cfg(test)]
mod tests {
    use super::bodies::{self, *};
    use crate::cuda::{compile_all, test, unit_of};
    use half::{bf16, f16};

    crate::element! {
        /// Its names mean something else in CUDA and in the templates, and are a field's all the same.
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

    /// What is made of every construct compiles, on every type; the laws run it.
    #[test]
    fn texts_from_rust_compile() {
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
