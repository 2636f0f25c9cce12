//! Operators and elements whose C++ text is wrong.

use crate::common::stream;
use parascan::__own::Field;
use parascan::cudarc::driver::DeviceRepr;
use parascan::{DeviceCode, Element, Error, Last, Operator, Sum, compact, cuda, scan};
use std::env;
use std::fmt::Debug;

/// Whether compilation failed for lack of a compiler.
pub(super) fn skip(error: &Error) {
    assert_ne!(env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a compiler is required: {error}");
    eprintln!("skipped, no compiler: {error}");
}

/// Addition, whose texts are `COMBINE` and `LIFT` of a table.
macro_rules! operator {
    ($name:ident: combine $combine:literal, lift $lift:literal, lower $lower:literal) => {
        #[derive(Clone, Copy, Debug)]
        struct $name;
        impl Operator<u32> for $name {
            type Carry = u32;
            fn lift(x: u32) -> u32 {
                x
            }
            fn lower(x: u32) -> u32 {
                x
            }
            fn combine(a: u32, b: u32) -> u32 {
                a.wrapping_add(b)
            }
            const IDENTITY: Option<u32> = Some(0);
            // SAFETY: sums of unsigned integers, or no C++, which has no kernel.
            const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new($combine) };
            // SAFETY: as above.
            const CUDA_LIFT: DeviceCode<Self, u32> = unsafe { DeviceCode::new($lift) };
            // SAFETY: as above.
            const CUDA_LOWER: DeviceCode<Self, u32> = unsafe { DeviceCode::new($lower) };
        }
    };
}
operator! { UnknownName: combine "no_such_function(a, b)", lift "x", lower "x" }
operator! { SyntaxError: combine "a + ", lift "x", lower "x" }
operator! { UnknownLift: combine "a + b", lift "no_such_lift(x)", lower "x" }
operator! { UnknownLower: combine "a + b", lift "x", lower "no_such_lower(x)" }

/// Scans 20000 elements. The unit must not compile, its log must contain `words`, and the stream
/// must work afterwards.
fn refused<Op: Operator<T>, T: Element + DeviceRepr + Debug + PartialEq>(element: T, other: T, words: &str) {
    let stream = or_skip!(stream());
    let before = vec![element; 20_000];
    let input = stream.clone_htod(&vec![other; 20_000]).unwrap();
    let mut output = stream.clone_htod(&before).unwrap();
    let mut logs: Vec<String> = Vec::new();
    for _ in 0..3 {
        let error = match scan::<Op, T>().run_into(&input, &mut output) {
            Err(e @ Error::NoCompiler { .. }) => return skip(&e),
            result => result.expect_err("the text is wrong"),
        };
        let Error::Compile { unit, log } = &error else { panic!("{error:?} should be Compile") };
        for name in [std::any::type_name::<Op>(), std::any::type_name::<T>()] {
            assert!(unit.starts_with("scan::<") && unit.contains(name), "{unit}");
        }
        assert!(log.contains("error") && log.contains(words), "{log}");
        assert_eq!(log.matches("detected in the compilation of").count(), 1, "of one compilation: {log}");
        assert_eq!(logs.last().unwrap_or(log), log, "the same in every run");
        logs.push(log.clone());
        assert_eq!(error.to_string(), format!("NVRTC refused the kernel for {unit}:\n{log}"));
    }
    assert!(stream.clone_dtoh(&output).unwrap() == before, "nothing was written");
    let sums = scan::<Sum, i32>().run(&stream.clone_htod(&vec![1; 20_000]).unwrap()).unwrap();
    assert!(stream.clone_dtoh(&sums).unwrap() == (1..=20_000).collect::<Vec<i32>>());
}

// SAFETY of these texts: none is C++, so none has a kernel.
parascan::operator! {
    struct ThirdLine on u32 {
        associativity: Exact,
        lift: |x| x => unsafe "
            x + no_such_number",
        combine: |a, b| a.wrapping_add(b) => unsafe "a + b",
    }
}
parascan::operator! {
    struct FourthLine on u32 {
        associativity: Exact,
        combine: |a, b| a.wrapping_add(b) => unsafe "
            Carry sum = a + b;
            // no sum is odd
            sum &= no_such_mask;
            return sum;
        ",
    }
}

/// The compiler names the text and the line in it.
#[test]
fn the_line_that_does_not_compile() {
    refused::<UnknownName, u32>(1, 2, "combine(1): error: identifier \"no_such_function\" is undefined");
    refused::<UnknownLower, u32>(1, 2, "lower(1): error: identifier \"no_such_lower\" is undefined");
    refused::<ThirdLine, u32>(1, 2, "lift(2): error: identifier \"no_such_number\" is undefined");
    refused::<FourthLine, u32>(1, 2, "combine(4): error: identifier \"no_such_mask\" is undefined");
}

parascan::predicate! {
    struct NoPredicate on u32 {
        // SAFETY: as above.
        keeps: |x| x > 1 => unsafe "
            x > no_such_bound",
    }
}

#[test]
fn a_predicate_that_does_not_compile() {
    let stream = or_skip!(stream());
    let error = match compact::<u32>().keep(NoPredicate).run(&stream.clone_htod(&[1_u32; 100]).unwrap()) {
        Err(e @ Error::NoCompiler { .. }) => return skip(&e),
        result => result.expect_err("the text is wrong"),
    };
    let Error::Compile { log, .. } = &error else { panic!("{error:?} should be Compile") };
    assert!(log.contains("predicate(2): error: identifier \"no_such_bound\" is undefined"), "{log}");
}

#[test]
fn an_operator_that_does_not_compile() {
    refused::<UnknownName, u32>(1, 2, "no_such_function");
    refused::<SyntaxError, u32>(1, 2, "expected an expression");
    refused::<UnknownLift, u32>(1, 2, "no_such_lift");
    refused::<UnknownLower, u32>(1, 2, "no_such_lower");
}

// ---- layouts ------------------------------------------------------------------------------------

macro_rules! element {
    ($name:ident = $cuda:literal) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
        struct $name {
            x: u32,
            y: u32,
        }
        // SAFETY: none, as the layouts differ. The test is that the compiler finds it, before any
        // kernel runs.
        unsafe impl Element for $name {
            const CUDA: &'static str = $cuda;
        }
        // SAFETY: plain data, `repr(C)`.
        unsafe impl DeviceRepr for $name {}
    };
}
element! { Larger = "struct { unsigned x, y, z; }" }
element! { Smaller = "unsigned int" }
element! { MoreAligned = "unsigned long long" }
element! { Unknown = "struct no_such_type" }

/// The same size and alignment, with a field elsewhere: checked for elements whose macro knows
/// their fields.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
struct Turned {
    x: u32,
    y: u32,
}
// SAFETY: none, as above.
unsafe impl Element for Turned {
    const CUDA: &'static str = "struct { unsigned y, x; }";
    const CUDA_FIELDS: &'static [Field] = &[
        Field { name: "x", offset: 0, size: 4, cuda: "unsigned int", fields: &[] },
        Field { name: "y", offset: 4, size: 4, cuda: "unsigned int", fields: &[] },
    ];
}
// SAFETY: plain data, `repr(C)`.
unsafe impl DeviceRepr for Turned {}

/// Its element is right, its carry is not.
#[derive(Clone, Copy, Debug)]
struct CarriesWrongly;
impl Operator<u32> for CarriesWrongly {
    type Carry = Larger;
    fn lift(x: u32) -> Larger {
        Larger { x, y: 0 }
    }
    fn lower(x: Larger) -> u32 {
        x.x
    }
    fn combine(a: Larger, b: Larger) -> Larger {
        Larger { x: a.x.wrapping_add(b.x), y: 0 }
    }
    // SAFETY: fields of structs, and a sum of unsigned integers.
    const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("{ a.x + b.x, 0, 0 }") };
    // SAFETY: as above.
    const CUDA_LIFT: DeviceCode<Self, u32> = unsafe { DeviceCode::new("{ x, 0, 0 }") };
    // SAFETY: as above.
    const CUDA_LOWER: DeviceCode<Self, u32> = unsafe { DeviceCode::new("x.x") };
}

#[test]
fn an_element_of_another_layout() {
    const ELEMENT: &str = "the element's C++ type has another layout than its Rust type";
    refused::<Last, Larger>(Larger { x: 1, y: 2 }, Larger { x: 3, y: 4 }, ELEMENT);
    refused::<Last, Smaller>(Smaller { x: 1, y: 2 }, Smaller { x: 3, y: 4 }, ELEMENT);
    refused::<Last, MoreAligned>(MoreAligned { x: 1, y: 2 }, MoreAligned { x: 3, y: 4 }, ELEMENT);
    refused::<Last, Unknown>(Unknown { x: 1, y: 2 }, Unknown { x: 3, y: 4 }, "no_such_type");
    const FIELD: &str = "the field x of the element's C++ type has another layout than its Rust type";
    refused::<Last, Turned>(Turned { x: 1, y: 2 }, Turned { x: 3, y: 4 }, FIELD);
    refused::<CarriesWrongly, u32>(1, 2, "the carry's C++ type has another layout than its Rust type");
}

// ---- units of a primitive outside the library ---------------------------------------------------

#[test]
fn a_unit_that_does_not_compile() {
    let stream = or_skip!(stream());
    let error = match cuda::Kernels::compile(stream.context(), "some kernels", "not C++ at all\n", &["one"]) {
        Err(e @ Error::NoCompiler { .. }) => return skip(&e),
        result => result.expect_err("the text is wrong"),
    };
    let Error::Compile { unit, log } = &error else { panic!("{error:?} should be Compile") };
    assert_eq!(unit, "some kernels");
    assert!(log.contains("some kernels") && log.contains("error"), "the log names the unit: {log}");
}
