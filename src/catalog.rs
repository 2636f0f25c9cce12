//! The catalog: the element types and operators whose kernels a build can embed.
//!
//! The library expands [`catalog!`] into the element and operator types, `build.rs` into the list
//! of kernels to compile, and the tests into their cases. A new operator is one entry here, and its
//! name in the `pub use` and the table of `src/lib.rs`.
//!
//! An element is `name "C++ name" bits B key K`. `B` is the unsigned integer of its size, `K` the
//! signed one.
//!
//! An operator is a name and rows. A row gives, for a list of elements, the associativity, the form
//! of the carry (the partial result), the identity as an expression over the carry type `C`, and
//! the two bodies that combine an earlier carry `a` with a later one `b`.
//!
//! A row that begins with `any` defines the operator for every element, including the user's own.
//! Its list names the elements whose kernels a build can embed.
//!
//! | form | the carry is |
//! |---|---|
//! | `Same` | the element |
//! | `Bits` | the element; only its bits matter, so all elements of one size share machine code |
//! | `Widened` | an `f32`, rounded once for each output |
//! | `KeyNanLast` | an integer in the order of the floats, every NaN above +infinity |
//! | `KeyNanFirst` | an integer in the order of the floats, every NaN below -infinity |
//! | `NanLast` | on the CPU as `KeyNanLast`; on the GPU the element, which has an instruction |
//! | `NanFirst` | on the CPU as `KeyNanFirst`; on the GPU the element, which has an instruction |

macro_rules! catalog {
    ($use:ident) => {
        $use! {
            elements {
                f32 "float" bits u32 key i32;
                i32 "int" bits u32 key i32;
                u64 "unsigned long long" bits u64 key i64;
                f16 "f16" bits u16 key i16;
                f64 "double" bits u64 key i64;
                bf16 "bf16" bits u16 key i16;
                i8 "signed char" bits u8 key i8;
                i16 "short" bits u16 key i16;
                i64 "long long" bits u64 key i64;
                u8 "unsigned char" bits u8 key i8;
                u16 "unsigned short" bits u16 key i16;
                u32 "unsigned int" bits u32 key i32;
                usize "unsigned long long" bits u64 key i64;
                isize "long long" bits u64 key i64;
            }
            operators {
                /// Addition. Integers wrap; f16 and bf16 are added in f32 and rounded once for each
                /// output. The identity is 0.
                ///
                /// ```
                /// # use parascan::{Sum, reduce, scan};
                /// assert_eq!(scan::<Sum, u8>().run(&[200, 100])?, [200, 44]);
                /// assert_eq!(reduce::<Sum, f32>().run(&[])?, 0.0);
                /// # Ok::<(), parascan::Error>(())
                /// ```
                ///
                /// Rounded sums have the same bits in every run. A parallel sum of non-negative
                /// floats need not be monotone, since neighbouring outputs may be rounded in
                /// different groupings.
                Sum {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Bits, identity C::ZERO,
                        rust |a, b| a.wrapping_add(b), cuda "a + b";
                    [f32, f64] Rounding, Same, identity C::ZERO, rust |a, b| a + b, cuda "a + b";
                    [f16, bf16] Rounding, Widened, identity C::ZERO, rust |a, b| a + b, cuda "a + b";
                }
                /// Multiplication. Integers wrap; f16 and bf16 are multiplied in f32 and rounded
                /// once for each output. The identity is 1.
                Product {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Bits, identity C::ONE,
                        // Without 1u, C++ would multiply u16 as int.
                        rust |a, b| a.wrapping_mul(b), cuda "1u * a * b";
                    [f32, f64] Rounding, Same, identity C::ONE, rust |a, b| a * b, cuda "a * b";
                    [f16, bf16] Rounding, Widened, identity C::ONE, rust |a, b| a * b, cuda "a * b";
                }
                /// Maximum. For floats NaN wins, -0 is less than +0, and every NaN in the result is
                /// the positive one with all bits of the mantissa set. The identity is the least
                /// integer, and -infinity.
                ///
                /// ```
                /// # use parascan::{Max, reduce};
                /// assert!(reduce::<Max, f32>().run(&[1.0, f32::NAN])?.is_nan()); // `f32::max` has 1
                /// assert_eq!(reduce::<Max, f32>().run(&[])?, f32::NEG_INFINITY);
                /// # Ok::<(), parascan::Error>(())
                /// ```
                Max {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Same, identity C::MIN,
                        rust |a, b| a.max(b), cuda "b > a ? b : a";
                    [f32, f16, bf16] Exact, NanLast, identity T::LEAST_KEY, rust |a, b| a.max(b), cuda "maximum(a, b)";
                    [f64] Exact, KeyNanLast, identity T::LEAST_KEY, rust |a, b| a.max(b), cuda "b > a ? b : a";
                }
                /// Minimum. For floats NaN wins, -0 is less than +0, and every NaN in the result is
                /// the positive one with all bits of the mantissa set. The identity is the greatest
                /// integer, and +infinity.
                Min {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Same, identity C::MAX,
                        rust |a, b| a.min(b), cuda "b < a ? b : a";
                    [f32, f16, bf16] Exact, NanFirst, identity T::GREATEST_KEY, rust |a, b| a.min(b), cuda "minimum(a, b)";
                    [f64] Exact, KeyNanFirst, identity T::GREATEST_KEY, rust |a, b| a.min(b), cuda "b < a ? b : a";
                }
                /// Bitwise and. The identity has all bits set.
                BitAnd {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Bits, identity !C::ZERO,
                        rust |a, b| a & b, cuda "a & b";
                }
                /// Bitwise or. The identity is 0.
                BitOr {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Bits, identity C::ZERO,
                        rust |a, b| a | b, cuda "a | b";
                }
                /// Bitwise exclusive or. The identity is 0.
                BitXor {
                    [i32, u64, i8, i16, i64, u8, u16, u32, usize, isize] Exact, Bits, identity C::ZERO,
                        rust |a, b| a ^ b, cuda "a ^ b";
                }
                /// The later value: the running value of a register that each item writes.
                ///
                /// It is associative but not commutative, and has no identity. So an exclusive scan
                /// by it needs a first value.
                Last {
                    any [f32, i32, u64, f16, f64, bf16, i8, i16, i64, u8, u16, u32] Exact, Bits, no identity,
                        rust |_a, b| b, cuda "b";
                }
            }
        }
    };
}

/// The C++ expression of `lift` for a form of carry, over an element `x`.
macro_rules! lift {
    (Same) => {
        "x"
    };
    (Bits) => {
        "x"
    };
    (Widened) => {
        "widen(x)"
    };
    (NanLast) => {
        "x"
    };
    (NanFirst) => {
        "x"
    };
    (KeyNanLast) => {
        "key<NAN_LAST>(x)"
    };
    (KeyNanFirst) => {
        "key<NAN_FIRST>(x)"
    };
}
/// The C++ expression of `lower` for a form of carry, over a carry `x`.
macro_rules! lower {
    (Same) => {
        "x"
    };
    (Bits) => {
        "x"
    };
    (Widened) => {
        "narrow<Element>(x)"
    };
    (NanLast) => {
        "x"
    };
    (NanFirst) => {
        "x"
    };
    (KeyNanLast) => {
        "from_key<NAN_LAST, Element>(x)"
    };
    (KeyNanFirst) => {
        "from_key<NAN_FIRST, Element>(x)"
    };
}

/// The C++ expression of the carry of a single element, over the lifted element `x`.
macro_rules! alone {
    (NanLast) => {
        "maximum(x, x)" // makes any NaN the result's NaN
    };
    (NanFirst) => {
        "minimum(x, x)"
    };
    ($form:ident) => {
        "x"
    };
}

/// The type of `scan/scan.cuh` that combines two short elements at once:
/// `pairs!(operator element)`.
#[rustfmt::skip]
macro_rules! pairs {
    (Sum i8) => { "SumPairs" };
    (Sum u8) => { "SumPairs" };
    (Product i8) => { "ProductInTurn" };
    (Product u8) => { "ProductInTurn" };
    (BitAnd i8) => { "BitAndPairs" };
    (BitAnd u8) => { "BitAndPairs" };
    (BitOr i8) => { "BitOrPairs" };
    (BitOr u8) => { "BitOrPairs" };
    (BitXor i8) => { "BitXorPairs" };
    (BitXor u8) => { "BitXorPairs" };
    (Max i8) => { "MaxPairs<short>" };
    (Max u8) => { "MaxPairs<u16>" };
    (Max i16) => { "MaxPairs<short>" };
    (Max u16) => { "MaxPairs<u16>" };
    (Min i8) => { "MinPairs<short>" };
    (Min u8) => { "MinPairs<u16>" };
    (Min i16) => { "MinPairs<short>" };
    (Min u16) => { "MinPairs<u16>" };
    ($op:ident $t:ident) => { "NoPairs" };
}
