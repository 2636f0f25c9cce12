//! The batch of random bodies, and the description of each function in it.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use parascan::cuda::Field;
use parascan::{Element, Operator, Predicate};
use std::cell::Cell;
use std::panic;
use std::sync::Once;

/// An operator or a predicate of the batch.
pub(crate) struct Case {
    pub(crate) definition: &'static str,
    pub(crate) functions: Vec<Function>,
}

/// A function of two arguments, in Rust and in C++.
pub(crate) struct Function {
    /// The name of the function's kernel.
    pub(crate) name: String,
    /// The C++ definition: the types `A`, `B` and `R`, and `R call(A, B)`, in a namespace of this
    /// name with an underscore behind it.
    pub(crate) cuda: String,
    pub(crate) inputs: [Layout; 2],
    pub(crate) output: Layout,
    /// Calls the Rust body on consecutive items. No result where it panics.
    pub(crate) rust: Box<Rust>,
}

type Rust = dyn Fn(&[u8], &[u8]) -> Vec<Option<Vec<u8>>> + Send + Sync;

/// The kind of a number, as far as random values and comparisons need it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Integer,
    F32,
    F64,
    F16,
    Bf16,
}

/// The size of a type, and the offset and size of each number in it.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) size: usize,
    pub(crate) numbers: Vec<(usize, usize, Kind)>,
}

impl Layout {
    fn of<T: Element>() -> Layout {
        fn add(cuda: &str, fields: &[Field], at: usize, size: usize, numbers: &mut Vec<(usize, usize, Kind)>) {
            let kind = match cuda {
                _ if !fields.is_empty() => {
                    return fields.iter().for_each(|f| add(f.cuda, f.fields, at + f.offset, f.size, numbers));
                }
                "float" => Kind::F32,
                "double" => Kind::F64,
                "f16" => Kind::F16,
                "bf16" => Kind::Bf16,
                _ => Kind::Integer,
            };
            numbers.push((at, size, kind));
        }
        let mut numbers = Vec::new();
        add(T::CUDA, T::CUDA_FIELDS, 0, size_of::<T>(), &mut numbers);
        Layout { size: size_of::<T>(), numbers }
    }
}

fn function<A: Element, B: Element, R: Element>(
    name: String,
    types: &str,
    text: &str,
    rust: impl Fn(A, B) -> R + Send + Sync + 'static,
) -> Function {
    let cuda = format!("namespace {name}_ {{\n{types}\n{text}\n}}\n");
    let rust = move |a: &[u8], b: &[u8]| {
        let items = a.chunks_exact(size_of::<A>()).zip(b.chunks_exact(size_of::<B>()));
        let one = |(a, b): (&[u8], &[u8])| {
            let (a, b) = (pod_read_unaligned(a), pod_read_unaligned(b));
            quietly(|| rust(a, b)).map(|result| bytes_of(&result).to_vec())
        };
        items.map(one).collect()
    };
    let (inputs, output) = ([Layout::of::<A>(), Layout::of::<B>()], Layout::of::<R>());
    Function { name, cuda, inputs, output, rust: Box::new(rust) }
}

/// The text of a body between `#line` directives, so that compilers and sanitizers name the body.
fn quoted(name: &str, text: &str) -> String {
    let text = if text.ends_with(';') { text.to_owned() } else { format!("return {text};") };
    format!("\n#line 1 \"{name}\"\n{text}\n#line 1 \"around {name}\"\n")
}

fn operator<Op: Operator<T, Carry: Pod>, T: Element>(index: usize, definition: &'static str) -> Case {
    let (element, carry) = (T::CUDA, <Op::Carry as Element>::CUDA);
    // An unnamed struct written twice would be two types.
    let carry = if carry == element { "Element" } else { carry };
    let types = |a: &str, b: &str, r: &str| {
        format!("typedef {element} Element;\ntypedef {carry} Carry;\ntypedef {a} A;\ntypedef {b} B;\ntypedef {r} R;")
    };
    let name = |function: &str| format!("body_{index}_{function}");
    let text = |function: &str, signature: &str, text: &str, call: &str| {
        let text = quoted(&name(function), text);
        format!("__device__ inline {signature} {{ {text} }}\n__device__ inline R call(A a, B b) {{ return {call}; }}")
    };
    let mut functions = vec![function::<Op::Carry, Op::Carry, Op::Carry>(
        name("combine"),
        &types("Carry", "Carry", "Carry"),
        &text("combine", "Carry combine(Carry a, Carry b)", Op::CUDA.text(), "combine(a, b)"),
        Op::combine,
    )];
    if definition.contains("lift: ") {
        functions.push(function::<T, u8, Op::Carry>(
            name("lift"),
            &types("Element", "u8", "Carry"),
            &text("lift", "Carry lift(Element x)", Op::CUDA_LIFT.text(), "lift(a)"),
            |x, _| Op::lift(x),
        ));
        functions.push(function::<Op::Carry, u8, T>(
            name("lower"),
            &types("Carry", "u8", "Element"),
            &text("lower", "Element lower(Carry x)", Op::CUDA_LOWER.text(), "lower(a)"),
            |x, _| Op::lower(x),
        ));
    }
    Case { definition, functions }
}

fn predicate<P: Predicate<T> + Element, T: Element>(index: usize, definition: &'static str) -> Case {
    let name = format!("body_{index}_keeps");
    let types = format!(
        "typedef {} Item;\ntypedef {} Parameters;\ntypedef Item A;\ntypedef Parameters B;\ntypedef u8 R;",
        T::CUDA,
        <P as Element>::CUDA
    );
    let text = format!(
        "struct Test {{\n    Parameters p;\n    __device__ bool operator()(Item x) const {{ {} }}\n}};\n\
         __device__ inline R call(A a, B b) {{ return Test{{b}}(a); }}",
        quoted(&name, <P as Predicate<T>>::CUDA.text())
    );
    let keeps = function::<T, P, u8>(name, &types, &text, |x, p| u8::from(p.keeps(x)));
    Case { definition, functions: vec![keeps] }
}

// ---- panics -------------------------------------------------------------------------------------

/// The result of `f`, or nothing if it panics. The panic prints nothing.
fn quietly<R>(work: impl FnOnce() -> R) -> Option<R> {
    thread_local! { static QUIET: Cell<bool> = const { Cell::new(false) } }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let result = panic::catch_unwind(panic::AssertUnwindSafe(work));
    QUIET.set(false);
    result.ok()
}

// ---- the batch ----------------------------------------------------------------------------------

#[allow(
    warnings,
    clippy::all,
    arithmetic_overflow,
    overflowing_literals,
    unconditional_panic,
    reason = "random bodies"
)]
mod bodies {
    use super::{Case, operator, predicate};
    use half::{self, bf16, f16};
    use parascan::{Keyed, element, operator, predicate};

    element! { pub struct Pair { first: u32, second: i32 } }
    element! { pub struct Wide { wide: f64, single: f32, bits: u32 } }
    element! { pub struct Small { half: f16, small: i16, brain: bf16, tiny: i8, byte: u8 } }
    element! { pub struct Nested { pair: Pair, count: u64, level: isize } }
    element! { pub struct Twins { left: Pair, right: Pair } }
    element! { pub struct Couple<A, B> { left: A, right: B } for <f32, u32>, <i64, f64> }

    include!(concat!(env!("OUT_DIR"), "/batch.rs"));
}
pub(crate) use bodies::all;
