//! The contract of host and device: each struct and constant that both sides use is defined once,
//! in Rust.
//!
//! A primitive's `contract.rs` defines them and writes the text of a C++ header, `contract.cuh` in
//! the primitive's folder. `build.rs` adds the header to the templates, which include it. The
//! header asserts the size of each struct and the offset of each field, so a kernel with another
//! layout does not compile.

/// An address in the memory of the device: `CUdeviceptr`.
pub(crate) type Address = u64;

/// Bytes before the first status word of a join (`core/handover.cuh`): the ticket, and padding.
#[allow(dead_code, reason = "the host alone plans memory")]
pub(crate) const BEFORE_STATUS: usize = 16;

/// Bytes of a `Status` of `core/handover.cuh` for a carry of `carry` bytes: 64 bits for each 32 of
/// the carry.
pub(crate) const fn status_bytes(carry: usize) -> usize {
    carry.div_ceil(4) * 8
}

/// Asserts the size of the C++ type `Status<carry>` in a unit whose carry has `size` bytes.
pub(crate) fn asserted_status(carry: &str, size: usize) -> String {
    let bytes = status_bytes(size);
    format!("static_assert(sizeof(Status<{carry}>) == {bytes}, \"the host allots {bytes} bytes for a status\");\n")
}

/// Defines constants for both sides: of any integer type in Rust, and in C++ of type `u32` or as
/// enumerators.
///
/// NVRTC makes a namespace's `constexpr` a device variable, which takes a word of the image. An
/// enumerator takes none. But an enumerator has a type of its own, so it is for flags and for
/// template arguments alone.
macro_rules! constants {
    (enum { $($constants:tt)* }) => {
        constants! { enumerators "enum : u32 {\n", "    ", "", ",", "};\n"; $($constants)* }
    };
    (u32 { $($constants:tt)* }) => {
        constants! { variables "", "", "constexpr u32 ", ";", ""; $($constants)* }
    };
    (
        $function:ident $begin:literal, $indent:literal, $before:literal, $behind:literal, $end:literal;
        $( $(#[doc = $doc:literal])* $name:ident: $type:ty = $value:expr; )*
    ) => {
        $( $(#[doc = $doc])* pub(crate) const $name: $type = $value; )*

        #[allow(dead_code, reason = "build.rs writes the header")]
        fn $function() -> String {
            let mut text = String::from($begin);
            $(
                text += &crate::cuda::contract::comment($indent, &[$($doc),*]);
                text += &format!(concat!($indent, $before, stringify!($name), " = {}", $behind, "\n"), $name);
            )*
            text + $end
        }
    };
}
pub(crate) use constants;

/// Defines a struct for both sides. Each field's Rust type is followed by its declaration in C++.
///
/// With `template N` the C++ struct is a template over a number. With `class T` it is a template
/// over a type whose size the layout does not depend on. The header asserts the layout for the
/// arguments that the kernels use.
macro_rules! shared {
    (
        $(#[doc = $doc:literal])*
        $(template $parameter:ident)? $(class $class:ident)? struct $name:ident {
            $( $(#[doc = $field_doc:literal])* $field:ident: $type:ty = $declaration:literal; )*
        }
    ) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[allow(dead_code, reason = "some fields are the device's alone")]
        pub(crate) struct $name $(<const $parameter: usize>)? {
            $( $(#[doc = $field_doc])* pub(crate) $field: $type, )*
        }

        #[allow(dead_code, reason = "build.rs writes the header")]
        impl $(<const $parameter: usize>)? $name $(<$parameter>)? {
            /// The struct's C++ definition, and assertions that each of its `layouts` is as in
            /// Rust.
            fn definition(layouts: &[String]) -> String {
                let mut text = crate::cuda::contract::comment("", &[$($doc),*]);
                $( text += concat!("template <u32 ", stringify!($parameter), "> "); )?
                $( text += concat!("template <class ", stringify!($class), "> "); )?
                text += concat!("struct ", stringify!($name), " {\n");
                $(
                    text += &crate::cuda::contract::comment("    ", &[$($field_doc),*]);
                    text += concat!("    ", $declaration, ";\n");
                )*
                text + "};\n" + &layouts.concat()
            }

            /// Asserts that the C++ type `cuda` has this layout.
            fn layout(cuda: &str) -> String {
                let fields = [$( crate::cuda::unit::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!(Self, $field),
                    size: size_of::<$type>(),
                    cuda: "",
                    fields: &[],
                } ),*];
                crate::cuda::unit::asserted_layout(cuda, cuda, size_of::<Self>(), align_of::<Self>(), &fields)
            }
        }
    };
}
pub(crate) use shared;

/// The text of a header around its definitions.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn header(primitive: &str, definitions: &[String]) -> String {
    format!(
        "// Written by build.rs from src/cuda/{primitive}/contract.rs. Stands after core/types.cuh.\n#pragma once\n\n{}",
        definitions.join("\n")
    )
}

/// Rust's doc comments as C++ comments.
#[allow(dead_code, reason = "build.rs writes the header")]
pub(crate) fn comment(indent: &str, lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{indent}//{line}\n")).collect()
}
