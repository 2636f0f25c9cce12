// Rust's numbers for operator bodies that the macros translate (`macros/`): one function for each
// operation, which overload resolution selects by type.
//
// Every function is defined for all values, as in a release build of Rust: integers wrap, shift
// amounts are taken modulo the width, casts from floats saturate. Operations on which Rust panics
// in any build have a value too: see `div` and `rem`.
#pragma once
#include "core/types.cuh"

typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef u64 usize;
typedef i64 isize;

#define HALVES(OP)                                                                                                     \
    __device__ inline bool operator OP(f16 a, f16 b) { return widen(a) OP widen(b); }                                  \
    __device__ inline bool operator OP(bf16 a, bf16 b) { return widen(a) OP widen(b); }
HALVES(==)
HALVES(!=)
HALVES(<)
HALVES(<=)
HALVES(>)
HALVES(>=)
#undef HALVES

namespace rust {

// ---- kinds of numbers ---------------------------------------------------------------------------

enum Kind { NO_NUMBER, BOOL, UNSIGNED, SIGNED, FLOAT, HALF, LITERAL };

template <class T> constexpr Kind KIND = NO_NUMBER;
template <> inline constexpr Kind KIND<bool> = BOOL;
template <> inline constexpr Kind KIND<u8> = UNSIGNED;
template <> inline constexpr Kind KIND<u16> = UNSIGNED;
template <> inline constexpr Kind KIND<u32> = UNSIGNED;
template <> inline constexpr Kind KIND<u64> = UNSIGNED;
template <> inline constexpr Kind KIND<i8> = SIGNED;
template <> inline constexpr Kind KIND<i16> = SIGNED;
template <> inline constexpr Kind KIND<i32> = SIGNED;
template <> inline constexpr Kind KIND<i64> = SIGNED;
template <> inline constexpr Kind KIND<f32> = FLOAT;
template <> inline constexpr Kind KIND<f64> = FLOAT;
template <> inline constexpr Kind KIND<f16> = HALF;
template <> inline constexpr Kind KIND<bf16> = HALF;

template <class T> constexpr bool IS_INTEGER = KIND<T> == UNSIGNED || KIND<T> == SIGNED;
template <class T> constexpr bool IS_NUMBER = IS_INTEGER<T> || KIND<T> == FLOAT || KIND<T> == HALF;

template <class A, class B> constexpr bool IS_SAME = false;
template <class A> inline constexpr bool IS_SAME<A, A> = true;

// The type `T`, not deduced from this argument.
template <class T> using NonDeduced = typename IfElse<true, T, T>::Type;

template <u32 BYTES> struct UnsignedOf;
template <> struct UnsignedOf<1> {
    typedef u8 Bits;
    typedef u32 Wide;
};
template <> struct UnsignedOf<2> {
    typedef u16 Bits;
    typedef u32 Wide;
};
template <> struct UnsignedOf<4> {
    typedef u32 Bits;
    typedef u32 Wide;
};
template <> struct UnsignedOf<8> {
    typedef u64 Bits;
    typedef u64 Wide;
};
// The unsigned integer of a type's size, and the type to compute in. C++ promotes short integers to
// `int`, whose overflow is undefined.
template <class T> using Bits = typename UnsignedOf<sizeof(T)>::Bits;
template <class T> using Wide = typename UnsignedOf<sizeof(T)>::Wide;
template <class T> constexpr u32 WIDTH = 8 * sizeof(T);
template <class T> constexpr T MOST = T(KIND<T> == SIGNED ? Bits<T>(~Bits<T>(0)) >> 1 : Bits<T>(~Bits<T>(0)));
template <class T> constexpr T LEAST = T(~Wide<T>(MOST<T>));

// ---- literals: they take the type of the other operand ------------------------------------------

struct IntegerLiteral {
    u64 bits;
    template <class T> __device__ constexpr operator T() const { return T(bits); }
};
struct FloatLiteral {
    f64 value;
    template <class T> __device__ constexpr operator T() const { return T(value); }
};
template <> inline constexpr Kind KIND<IntegerLiteral> = LITERAL;
template <> inline constexpr Kind KIND<FloatLiteral> = LITERAL;

template <class T> __device__ constexpr IntegerLiteral literal(T x) { return IntegerLiteral{u64(x)}; }
__device__ constexpr FloatLiteral literal(f64 x) { return FloatLiteral{x}; }

// The type of two operands, one of which may be a literal.
template <class A, class B> struct CommonOf {
    typedef typename IfElse<KIND<A> == LITERAL, B, A>::Type Type;
    static_assert(KIND<A> == LITERAL || KIND<B> == LITERAL || IS_SAME<A, B>, "operands have one type");
};
template <class A, class B> using Common = typename CommonOf<A, B>::Type;

// A value where a `T` is expected. One struct may have two C++ types, as a field here and as an
// element there, so structs of one size are copied by their bytes.
template <class T, class U> __device__ inline T to(U x) {
    if constexpr (IS_SAME<T, U> || KIND<U> == LITERAL) {
        return x;
    } else {
        static_assert(KIND<T> == NO_NUMBER && KIND<U> == NO_NUMBER && sizeof(T) == sizeof(U),
                      "a value has the type of its place");
        T y;
        memcpy(&y, &x, sizeof(T));
        return y;
    }
}
template <class T, class U> __device__ inline void set(T &place, U x) { place = to<T>(x); }

// A struct that becomes the type that it meets, as a literal does. A number stays what it is.
template <class U> struct Adapting {
    U value;
    template <class T> __device__ operator T() const { return to<T>(value); }
};
template <class U> __device__ inline auto adapt(U x) {
    if constexpr (KIND<U> == NO_NUMBER) return Adapting<U>{x};
    else return x;
}

// ---- operators ----------------------------------------------------------------------------------

#define ARITHMETIC(NAME, OP)                                                                                           \
    template <class A, class B> __device__ inline Common<A, B> NAME(A a, B b) {                                        \
        typedef Common<A, B> T;                                                                                        \
        static_assert(IS_NUMBER<T>, "arithmetic is of numbers: of a struct take the fields");                          \
        T x = a, y = b;                                                                                                \
        if constexpr (KIND<T> == HALF) return narrow<T>(widen(x) OP widen(y));                                         \
        else if constexpr (KIND<T> == FLOAT) return x OP y; /* not contracted: --fmad=false */                         \
        else return T(Wide<T>(x) OP Wide<T>(y));                                                                       \
    }
ARITHMETIC(add, +)
ARITHMETIC(sub, -)
ARITHMETIC(mul, *)
#undef ARITHMETIC

// A quotient by zero is 0. The least integer divided by -1 is itself.
template <class A, class B> __device__ inline Common<A, B> div(A a, B b) {
    typedef Common<A, B> T;
    static_assert(IS_NUMBER<T>, "arithmetic is of numbers: of a struct take the fields");
    T x = a, y = b;
    if constexpr (KIND<T> == HALF) return narrow<T>(widen(x) / widen(y));
    else if constexpr (KIND<T> == FLOAT) return x / y;
    else {
        if (y == 0) return 0;
        if (KIND<T> == SIGNED && y == T(~T(0))) return T(Wide<T>(0) - Wide<T>(x));
        return T(x / y);
    }
}

// The integer x, whose origin the compiler does not analyse. It writes x % C as x - x / C * C, and its
// analyses follow both uses of x: in a chain of 26 remainders, one for each item of a lane, NVRTC 12
// and 13 did not end. No instruction is emitted.
template <class T> __device__ inline T unanalysed(T x) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == 8) {
        asm("" : "+l"(x));
    } else {
        u32 word = u32(x);
        asm("" : "+r"(word));
        x = T(word);
    }
#endif
    return x;
}

// A remainder by zero is the dividend.
template <class A, class B> __device__ inline Common<A, B> rem(A a, B b) {
    typedef Common<A, B> T;
    static_assert(IS_INTEGER<T> || KIND<T> == FLOAT, "a remainder is of integers, f32 or f64");
    T x = a, y = b;
    if constexpr (IS_SAME<T, f32>) return fmodf(x, y);
    else if constexpr (IS_SAME<T, f64>) return fmod(x, y);
    else {
        if (y == 0) return x;
        if (KIND<T> == SIGNED && y == T(~T(0))) return 0;
        return T(unanalysed(x) % y);
    }
}

template <class T> __device__ inline T neg(T x) {
    static_assert(IS_NUMBER<T>, "arithmetic is of numbers: of a struct take the fields");
    if constexpr (KIND<T> == HALF) return T{u16(x.bits ^ 0x8000)};
    else if constexpr (KIND<T> == FLOAT) return -x;
    else return T(Wide<T>(0) - Wide<T>(x));
}

template <class T> __device__ inline T invert(T x) {
    static_assert(IS_INTEGER<T> || KIND<T> == BOOL, "`!` is of integers and bool");
    if constexpr (KIND<T> == BOOL) return !x;
    else return T(~Wide<T>(x));
}
__device__ inline IntegerLiteral invert(IntegerLiteral x) { return IntegerLiteral{~x.bits}; }

#define BITWISE(NAME, OP)                                                                                              \
    template <class A, class B> __device__ inline Common<A, B> NAME(A a, B b) {                                        \
        typedef Common<A, B> T;                                                                                        \
        static_assert(IS_INTEGER<T> || KIND<T> == BOOL, "bitwise operators are of integers and bool");                 \
        return T(T(a) OP T(b));                                                                                        \
    }
BITWISE(bit_and, &)
BITWISE(bit_or, |)
BITWISE(bit_xor, ^)
#undef BITWISE

template <class T, class N> __device__ inline T shl(T x, N n) {
    static_assert(IS_INTEGER<T>, "shifts are of integers");
    return T(Wide<T>(x) << (u32(n) & (WIDTH<T> - 1)));
}
template <class T, class N> __device__ inline T shr(T x, N n) {
    static_assert(IS_INTEGER<T>, "shifts are of integers");
    return T(x >> (u32(n) & (WIDTH<T> - 1)));
}

// Comparisons with a literal. C++'s own comparison takes two numbers, and promotes both alike.
#define COMPARISON(NAME, OP)                                                                                           \
    template <class A, class B> __device__ inline bool NAME(A a, B b) {                                                \
        typedef Common<A, B> T;                                                                                        \
        static_assert(IS_NUMBER<T> || KIND<T> == BOOL,                                                                 \
                      "comparisons are of numbers and bool: of a struct take the fields");                             \
        T x = a, y = b;                                                                                                \
        if constexpr (KIND<T> == HALF) return widen(x) OP widen(y);                                                    \
        else return x OP y;                                                                                            \
    }
COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)
#undef COMPARISON

// ---- `as` ---------------------------------------------------------------------------------------

template <class T, class U> __device__ inline T as(U x) {
    static_assert(IS_INTEGER<T> || KIND<T> == FLOAT, "a cast is to an integer, f32 or f64");
    if constexpr (KIND<U> == HALF) {
        return as<T>(widen(x)); // Rust has no such cast; a body writes `from`
    } else if constexpr (KIND<U> == FLOAT && IS_INTEGER<T>) {
        constexpr U BEYOND = U(MOST<T> / 2 + 1) * 2; // a power of two, so exact
        if (x != x) return 0;
        if (x >= BEYOND) return MOST<T>;
        if (x <= (KIND<T> == SIGNED ? -BEYOND : U(0))) return LEAST<T>;
        return T(x);
    } else {
        static_assert(IS_INTEGER<U> || KIND<U> == FLOAT || KIND<U> == BOOL, "a cast is of a number");
        return T(x);
    }
}

// ---- ranges -------------------------------------------------------------------------------------

template <class T> struct Range {
    T now, last;
    bool more, down;
    __device__ void next() {
        more = now != last;
        now = down ? T(Wide<T>(now) - 1) : T(Wide<T>(now) + 1);
    }
};
template <class A, class B> __device__ inline Range<Common<A, B>> range_inclusive(A a, B b) {
    typedef Common<A, B> T;
    static_assert(IS_INTEGER<T>, "a range is of integers");
    return {T(a), T(b), T(a) <= T(b), false};
}
template <class A, class B> __device__ inline Range<Common<A, B>> range(A a, B b) {
    typedef Common<A, B> T;
    static_assert(IS_INTEGER<T>, "a range is of integers");
    return {T(a), T(Wide<T>(T(b)) - 1), T(a) < T(b), false};
}
template <class T> __device__ inline Range<T> reversed(Range<T> range) {
    return {range.last, range.now, range.more, !range.down};
}

// ---- loops --------------------------------------------------------------------------------------

// One iteration of a `while`. The compiler takes it for a side effect; C++ leaves an endless loop
// without one undefined.
__device__ inline void turn() { asm volatile(""); }

// ---- methods of integers ------------------------------------------------------------------------

#define OF_INTEGERS static_assert(IS_INTEGER<T>, "this method is of integers")

template <class T> __device__ inline u32 count_ones(T x) {
    OF_INTEGERS;
    if constexpr (sizeof(T) == 8) return __popcll(u64(x));
    else return __popc(Bits<T>(x));
}
template <class T> __device__ inline u32 count_zeros(T x) { return WIDTH<T> - count_ones(x); }
template <class T> __device__ inline u32 leading_zeros(T x) {
    OF_INTEGERS;
    if constexpr (sizeof(T) == 8) return __clzll(i64(x));
    else return __clz(i32(u32(Bits<T>(x)))) - (32 - WIDTH<T>);
}
template <class T> __device__ inline u32 trailing_zeros(T x) {
    OF_INTEGERS;
    if (x == 0) return WIDTH<T>;
    if constexpr (sizeof(T) == 8) return __ffsll(i64(x)) - 1;
    else return __ffs(i32(x)) - 1;
}
template <class T> __device__ inline u32 leading_ones(T x) { return leading_zeros(invert(x)); }
template <class T> __device__ inline u32 trailing_ones(T x) { return trailing_zeros(invert(x)); }
template <class T> __device__ inline T rotate_left(T x, u32 n) {
    OF_INTEGERS;
    n &= WIDTH<T> - 1;
    Bits<T> bits = Bits<T>(x);
    return T(Bits<T>(Wide<T>(bits) << n) | Bits<T>(bits >> ((WIDTH<T> - n) & (WIDTH<T> - 1))));
}
template <class T> __device__ inline T rotate_right(T x, u32 n) {
    return rotate_left(x, WIDTH<T> - (n & (WIDTH<T> - 1)));
}
template <class T> __device__ inline T reverse_bits(T x) {
    OF_INTEGERS;
    if constexpr (sizeof(T) == 8) return T(__brevll(u64(x)));
    else return T(__brev(Bits<T>(x)) >> (32 - WIDTH<T>));
}
template <class T> __device__ inline T swap_bytes(T x) {
    OF_INTEGERS;
    Wide<T> from = Bits<T>(x), swapped = 0;
#pragma unroll
    for (u32 i = 0; i < sizeof(T); i++) swapped = swapped << 7 << 1 | ((from >> (8 * i)) & 0xff);
    return T(swapped);
}
template <class T> __device__ inline bool is_power_of_two(T x) { return count_ones(x) == 1; }
template <class T> __device__ inline bool is_multiple_of(T x, NonDeduced<T> y) { return y == 0 ? x == 0 : x % y == 0; }

template <class T> __device__ inline Bits<T> unsigned_abs(T x) {
    OF_INTEGERS;
    return Bits<T>(x < 0 ? Wide<T>(0) - Wide<T>(x) : Wide<T>(x));
}
template <class T> __device__ inline Bits<T> abs_diff(T x, NonDeduced<T> y) {
    OF_INTEGERS;
    return Bits<T>(x < y ? Wide<T>(y) - Wide<T>(x) : Wide<T>(x) - Wide<T>(y));
}
template <class T> __device__ inline T pow(T x, u32 n) {
    OF_INTEGERS;
    Wide<T> base = Wide<T>(x), power = 1;
    for (; n != 0; n >>= 1, base *= base)
        if (n & 1) power *= base;
    return T(power);
}
template <class T> __device__ inline T rem_euclid(T x, NonDeduced<T> y) {
    OF_INTEGERS;
    T r = rem(x, y);
    return r >= 0 || y == 0 ? r : y < 0 ? sub(r, y) : add(r, y);
}
template <class T> __device__ inline T div_euclid(T x, NonDeduced<T> y) {
    OF_INTEGERS;
    T q = div(x, y);
    return rem(x, y) >= 0 || y == 0 ? q : y > 0 ? sub(q, T(1)) : add(q, T(1));
}
template <class T> __device__ inline T saturating_add(T x, NonDeduced<T> y) {
    OF_INTEGERS;
    T sum = add(x, y);
    if (KIND<T> == UNSIGNED) return sum < x ? MOST<T> : sum;
    return y < 0 ? sum > x ? LEAST<T> : sum : sum < x ? MOST<T> : sum;
}
template <class T> __device__ inline T saturating_sub(T x, NonDeduced<T> y) {
    OF_INTEGERS;
    T difference = sub(x, y);
    if (KIND<T> == UNSIGNED) return x < y ? 0 : difference;
    return y < 0 ? difference < x ? MOST<T> : difference : difference > x ? LEAST<T> : difference;
}
#undef OF_INTEGERS

// ---- methods of floats --------------------------------------------------------------------------

#define ONE(NAME, SINGLE, DOUBLE)                                                                                      \
    __device__ inline f32 NAME(f32 x) { return ::SINGLE(x); }                                                          \
    __device__ inline f64 NAME(f64 x) { return ::DOUBLE(x); }
#define TWO(NAME, SINGLE, DOUBLE)                                                                                      \
    __device__ inline f32 NAME(f32 x, f32 y) { return ::SINGLE(x, y); }                                                \
    __device__ inline f64 NAME(f64 x, f64 y) { return ::DOUBLE(x, y); }
ONE(sqrt, sqrtf, sqrt)
ONE(floor, floorf, floor)
ONE(ceil, ceilf, ceil)
ONE(trunc, truncf, trunc)
ONE(round, roundf, round)
ONE(round_ties_even, rintf, rint)
TWO(copysign, copysignf, copysign)
// The functions from here on agree with Rust's within rounding.
ONE(exp, expf, exp)
ONE(exp2, exp2f, exp2)
ONE(exp_m1, expm1f, expm1)
ONE(ln, logf, log)
ONE(ln_1p, log1pf, log1p)
ONE(log2, log2f, log2)
ONE(log10, log10f, log10)
ONE(cbrt, cbrtf, cbrt)
ONE(sin, sinf, sin)
ONE(cos, cosf, cos)
ONE(tan, tanf, tan)
ONE(asin, asinf, asin)
ONE(acos, acosf, acos)
ONE(atan, atanf, atan)
ONE(sinh, sinhf, sinh)
ONE(cosh, coshf, cosh)
ONE(tanh, tanhf, tanh)
TWO(powf, powf, pow)
TWO(hypot, hypotf, hypot)
TWO(atan2, atan2f, atan2)
#undef ONE
#undef TWO

__device__ inline f32 mul_add(f32 x, f32 a, f32 b) { return fmaf(x, a, b); }
__device__ inline f64 mul_add(f64 x, f64 a, f64 b) { return fma(x, a, b); }

template <class T> __device__ inline bool is_nan(T x) { return ne(x, x); }
template <class T> __device__ inline bool is_infinite(T x) {
    return Bits<T>(FloatBits<T>::to(x) & MOST<Bits<T>> >> 1) == FloatBits<T>::INFINITE;
}
template <class T> __device__ inline bool is_finite(T x) {
    return Bits<T>(FloatBits<T>::to(x) & MOST<Bits<T>> >> 1) < FloatBits<T>::INFINITE;
}
template <class T> __device__ inline bool is_sign_negative(T x) { return FloatBits<T>::to(x) >> (WIDTH<T> - 1) != 0; }
template <class T> __device__ inline bool is_sign_positive(T x) { return !is_sign_negative(x); }
template <class T> __device__ inline Bits<T> to_bits(T x) { return FloatBits<T>::to(x); }
template <class T> __device__ inline T from_bits(Bits<T> bits) { return FloatBits<T>::from(bits); }
template <class T> __device__ inline T recip(T x) { return div(T(1), x); }
template <class T> __device__ inline T fract(T x) { return x - trunc(x); }
template <class T> __device__ inline f32 to_f32(T x) { return widen(x); }
template <class T> __device__ inline T from_f32(f32 x) { return narrow<T>(x); }

// For `parascan::Keyed`.
template <class T> __device__ inline auto key_nan_last(T x) { return key<NAN_LAST>(x); }
template <class T> __device__ inline auto key_nan_first(T x) { return key<NAN_FIRST>(x); }

// ---- methods of both ----------------------------------------------------------------------------

#define OF_NUMBERS static_assert(IS_INTEGER<T> || KIND<T> == FLOAT, "this method is of integers, f32 and f64")

// NaN loses: the minimum or maximum of a float and NaN is the float.
template <class T> __device__ inline T min(T x, NonDeduced<T> y) {
    OF_NUMBERS;
    if constexpr (IS_SAME<T, f32>) return fminf(x, y);
    else if constexpr (IS_SAME<T, f64>) return fmin(x, y);
    else return y < x ? y : x;
}
template <class T> __device__ inline T max(T x, NonDeduced<T> y) {
    OF_NUMBERS;
    if constexpr (IS_SAME<T, f32>) return fmaxf(x, y);
    else if constexpr (IS_SAME<T, f64>) return fmax(x, y);
    else return y > x ? y : x;
}
template <class T> __device__ inline T clamp(T x, NonDeduced<T> least, NonDeduced<T> most) {
    OF_NUMBERS;
    return x < least ? least : x > most ? most : x;
}
template <class T> __device__ inline T abs(T x) {
    OF_NUMBERS;
    if constexpr (IS_SAME<T, f32>) return fabsf(x);
    else if constexpr (IS_SAME<T, f64>) return fabs(x);
    else return x < 0 ? neg(x) : x;
}
template <class T> __device__ inline T signum(T x) {
    OF_NUMBERS;
    if constexpr (KIND<T> == FLOAT) return x != x ? x : copysign(T(1), x);
    else return T((x > 0) - (x < 0));
}
#undef OF_NUMBERS

} // namespace rust
