// The vocabulary of all templates: integer types, 16-bit floats, total orders of floats, shuffles
// of values of any size, memory accesses with a stated order, asynchronous copies. A PTX
// instruction stands here if CUDA C++ has no name for it. No file includes a toolkit header: a
// kernel must compile with NVRTC alone.
#pragma once

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The offset of a field in its struct, as a constant expression.
#ifdef __CUDACC_RTC__
#define FIELD_OFFSET(TYPE, FIELD) __INTADDR__(&((TYPE *)0)->FIELD)
#else
#define FIELD_OFFSET(TYPE, FIELD) __builtin_offsetof(TYPE, FIELD)
#endif

// HAS_KERNEL(NAME) is 1 for each kernel that the unit defines. A unit compiled as a whole defines
// all kernels that it includes. A unit compiled in parts begins each part with a HAS_KERNEL that is
// 1 for one kernel and 0 for the others (`parts` in `src/cuda/unit.rs`). So a kernel stands in an
// `#if HAS_KERNEL(NAME)`, and a kernel made by a macro in a DEFINE_KERNEL.
#ifndef HAS_KERNEL
#define HAS_KERNEL(NAME) 1
#endif
#define DEFINE_KERNEL(NAME, ...) DEFINE_IF(HAS_KERNEL(NAME), __VA_ARGS__)
#define DEFINE_IF(HAS, ...) DEFINE_IF_(HAS, __VA_ARGS__)
#define DEFINE_IF_(HAS, ...) DEFINE_IF_##HAS(__VA_ARGS__)
#define DEFINE_IF_0(...)
#define DEFINE_IF_1(...) __VA_ARGS__

constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;

// Blocks of WARPS warps that the registers of a multiprocessor must have room for, so that RESIDENT warps fit; 0, which
// is no bound, for carries of more than WIDEST bytes, which need what they need.
template <class Carry, u32 WARPS, u32 RESIDENT, u32 WIDEST = 8> constexpr u32 fitting() {
    return sizeof(Carry) <= WIDEST ? RESIDENT / WARPS : 0;
}

// 16 bytes, the widest access of one thread.
struct alignas(16) Vector { u32 word[4]; };

// The type A or B.
template <bool CONDITION, class A, class B> struct IfElse { typedef A Type; };
template <class A, class B> struct IfElse<false, A, B> { typedef B Type; };

// ---- 16-bit floats ------------------------------------------------------------------------------

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

template <class T> struct Tag {};

__device__ inline float widen(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ inline float widen(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

// Rounds to nearest, ties to even.
__device__ inline f16 narrow(float x, Tag<f16>) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
__device__ inline bf16 narrow(float x, Tag<bf16>) {
    bf16 y;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else // no such instruction before compute capability 8.0
    u32 bits = __float_as_uint(x);
    y.bits = x != x ? u16(0x7fff) : u16((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
    return y;
}
template <class T> __device__ inline T narrow(float x) { return narrow(x, Tag<T>()); }

// ---- floats in total order ----------------------------------------------------------------------
// -0 < +0, and NaN at the end that the operator asks for. Every NaN comes out as the positive NaN
// with all bits of the mantissa set, as the hardware's own maximum gives it.

enum NanOrder { NAN_FIRST, NAN_LAST };

template <class T> struct FloatBits;
template <> struct FloatBits<float> {
    typedef u32 Bits;
    typedef int Key;
    static constexpr u32 INFINITE = 0x7f800000u;
    static __device__ u32 to(float x) { return __float_as_uint(x); }
    static __device__ float from(u32 bits) { return __uint_as_float(bits); }
};
template <> struct FloatBits<double> {
    typedef u64 Bits;
    typedef long long Key;
    static constexpr u64 INFINITE = 0x7ff0000000000000ull;
    static __device__ u64 to(double x) { return (u64)__double_as_longlong(x); }
    static __device__ double from(u64 bits) { return __longlong_as_double((long long)bits); }
};
template <> struct FloatBits<f16> {
    typedef u16 Bits;
    typedef short Key;
    static constexpr u16 INFINITE = 0x7c00;
    static __device__ u16 to(f16 x) { return x.bits; }
    static __device__ f16 from(u16 bits) { return f16{bits}; }
};
template <> struct FloatBits<bf16> {
    typedef u16 Bits;
    typedef short Key;
    static constexpr u16 INFINITE = 0x7f80;
    static __device__ u16 to(bf16 x) { return x.bits; }
    static __device__ bf16 from(u16 bits) { return bf16{bits}; }
};

template <class T> __device__ inline bool is_nan(T x) {
    typedef typename FloatBits<T>::Bits Bits;
    return Bits(FloatBits<T>::to(x) & Bits(~Bits(0)) >> 1) > FloatBits<T>::INFINITE;
}
__device__ inline bool is_nan(double x) { return x != x; } // one instruction for three

// The bits, all but the sign inverted if the sign is set. The function is its own inverse.
template <class T> __device__ inline typename FloatBits<T>::Bits flip_if_negative(typename FloatBits<T>::Bits bits) {
    typedef typename FloatBits<T>::Bits Bits;
    typedef typename FloatBits<T>::Key Key;
    // 64 bits in halves: the compiler then computes the sign once.
    if (sizeof(Bits) == 8) {
        u32 high = u32(u64(bits) >> 32), sign = u32(int(high) >> 31);
        return Bits(u64(high ^ (sign & 0x7fffffff)) << 32 | (u32(bits) ^ sign));
    }
    return bits ^ (Bits(Key(bits) >> (8 * sizeof(Bits) - 1)) & Bits(~Bits(0)) >> 1);
}

// An integer for each float, in the same order.
template <NanOrder NANS, class T> __device__ inline typename FloatBits<T>::Key key(T x) {
    typedef typename FloatBits<T>::Bits Bits;
    typedef typename FloatBits<T>::Key Key;
    constexpr Bits MAGNITUDE = Bits(~Bits(0)) >> 1;
    Bits bits = FloatBits<T>::to(x);
    return Key(!is_nan(x) ? flip_if_negative<T>(bits) : NANS == NAN_LAST ? MAGNITUDE : Bits(~MAGNITUDE));
}

// The inverse of `key`. The key of a last NaN is the NaN's bits. The key of a first NaN is the
// least integer, which would come back as a negative NaN, so its sign is cleared.
template <NanOrder NANS, class T> __device__ inline T from_key(typename FloatBits<T>::Key key) {
    typedef typename FloatBits<T>::Bits Bits;
    constexpr Bits MAGNITUDE = Bits(~Bits(0)) >> 1;
    // Of 64 bits the upper half decides.
    constexpr u32 UPPER = sizeof(Bits) == 8 ? 32 : 0;
    Bits bits = flip_if_negative<T>(Bits(key));
    if (NANS == NAN_FIRST && u32(Bits(key) >> UPPER) == u32(Bits(~MAGNITUDE) >> UPPER)) bits &= MAGNITUDE;
    return FloatBits<T>::from(bits);
}

// The greater and the less of two values. NaN wins in both.
#if __CUDA_ARCH__ >= 800
#define EXTREMES(T, TYPE, REGISTER, BITS)                                                                              \
    __device__ inline T maximum(T a, T b) {                                                                            \
        asm("max.NaN." TYPE " %0, %0, %1;" : "+" REGISTER(a BITS) : REGISTER(b BITS));                                 \
        return a;                                                                                                      \
    }                                                                                                                  \
    __device__ inline T minimum(T a, T b) {                                                                            \
        asm("min.NaN." TYPE " %0, %0, %1;" : "+" REGISTER(a BITS) : REGISTER(b BITS));                                 \
        return a;                                                                                                      \
    }
#else // no such instruction before compute capability 8.0
#define EXTREMES(T, TYPE, REGISTER, BITS)                                                                              \
    __device__ inline T maximum(T a, T b) { return from_key<NAN_LAST, T>(max(key<NAN_LAST>(a), key<NAN_LAST>(b))); }   \
    __device__ inline T minimum(T a, T b) { return from_key<NAN_FIRST, T>(min(key<NAN_FIRST>(a), key<NAN_FIRST>(b))); }
#endif
EXTREMES(float, "f32", "f", )
EXTREMES(f16, "f16", "h", .bits)
EXTREMES(bf16, "bf16", "h", .bits)
#undef EXTREMES

// ---- two 16-bit lanes of a word -----------------------------------------------------------------

// Shifts instead of a permutation: the compiler then removes the work for a lane that is not read.
__device__ inline u32 lanes(u32 low, u32 high) { return (low & 0xffff) | high << 16; }

// Four bytes of a word, one for each hexadecimal digit of the selector, the lowest first. Digits 0
// to 3 select a byte of the word, 4 selects zero, 8 to 11 the replicated sign of byte 0 to 3.
__device__ inline u32 permute(u32 word, u32 selector) {
    u32 permuted;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(permuted) : "r"(word), "r"(selector));
    return permuted;
}

#if __CUDA_ARCH__ >= 900
#define LANE_EXTREME(NAME, INSTRUCTION, T)                                                                             \
    __device__ inline u32 NAME(u32 a, u32 b, Tag<T>) {                                                                 \
        asm(INSTRUCTION " %0, %0, %1;" : "+r"(a) : "r"(b));                                                            \
        return a;                                                                                                      \
    }
LANE_EXTREME(lane_max, "max.u16x2", u16)
LANE_EXTREME(lane_max, "max.s16x2", short)
LANE_EXTREME(lane_min, "min.u16x2", u16)
LANE_EXTREME(lane_min, "min.s16x2", short)
#undef LANE_EXTREME
#else // no such instruction before compute capability 9.0
template <class T> __device__ inline u32 lane_max(u32 a, u32 b, Tag<T>) {
    return u32(u16(max(T(a), T(b)))) | u32(max(T(a >> 16), T(b >> 16))) << 16;
}
template <class T> __device__ inline u32 lane_min(u32 a, u32 b, Tag<T>) {
    return u32(u16(min(T(a), T(b)))) | u32(min(T(a >> 16), T(b >> 16))) << 16;
}
#endif

// ---- functions over 8 states, 4 bits a state, state 0 in the lowest bits ------------------------
// The transition functions of a finite automaton (Ladner and Fischer 1980, "Parallel Prefix
// Computation"; Hillis and Steele 1986, "Data Parallel Algorithms").

// A function as a table for byte permutations: the byte of state s holds the next state twice.
struct States {
    static constexpr u32 IDENTITY = 0x76543210;

    u32 low, high; // the next states of 0 to 3, and of 4 to 7

    // A function as selectors of a permutation: packed, and states 4 to 7 again in the lower half.
    struct Selectors {
        u32 packed, last;

        __device__ Selectors() {}
        __device__ explicit Selectors(u32 packed) : packed(packed), last(packed >> 16) {}
        // Shifting by 4 bits brings the upper half of a state's byte and the lower half of the
        // next state's byte into one byte, so one permutation packs four states.
        __device__ explicit Selectors(States states) {
            u32 low = states.low << 4, high = states.high << 4;
            packed = __byte_perm(low, high, 0x7531);
            last = permute(high, 0x4431);
        }
    };

    // Bytes of the table, by the lower four digits of the selector, each below 8.
    static __device__ u32 select(u32 low, u32 high, u32 selectors) {
        u32 bytes;
        asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selectors));
        return bytes;
    }
    __device__ States() : low(0x33221100), high(0x77665544) {} // the identity
    __device__ States(u32 low, u32 high) : low(low), high(high) {}
    __device__ explicit States(u32 packed) { *this = States().of(packed); }

    // The composition: first `f`, then this function.
    __device__ States of(Selectors f) const { return States(select(low, high, f.packed), select(low, high, f.last)); }
    __device__ States of(u32 f) const { return of(Selectors(f)); }

    __device__ u32 packed() const { return Selectors(*this).packed; }
};

// ---- lanes --------------------------------------------------------------------------------------

// A value of any size as 32-bit words.
template <class C> struct Words {
    static constexpr int N = (sizeof(C) + 3) / 4;
    u32 word[N];
    __device__ Words() {}
    __device__ explicit Words(C value) {
        word[N - 1] = 0;
        memcpy(word, &value, sizeof(C));
    }
    __device__ C value() const {
        C value;
        memcpy(&value, word, sizeof(C));
        return value;
    }
};

// Flags of any type: `is_set` tells whether any bit is set, `flag` sets at most the lowest bit.
template <class C> __device__ inline bool is_set(C x) {
    Words<C> words(x);
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < Words<C>::N; i++) bits |= words.word[i];
    return bits != 0;
}
template <class C> __device__ inline C flag(bool set) {
    Words<C> words;
#pragma unroll
    for (int i = 0; i < Words<C>::N; i++) words.word[i] = i == 0 && set;
    return words.value();
}

// The value of the lane `distance` below. Lanes below `distance` keep their own value.
template <class C> __device__ inline C shuffle_up(C x, int distance) {
    Words<C> words(x);
#pragma unroll
    for (int i = 0; i < Words<C>::N; i++) words.word[i] = __shfl_up_sync(ALL_LANES, words.word[i], distance);
    return words.value();
}
template <class C> __device__ inline C shuffle_down(C x, int distance) {
    Words<C> words(x);
#pragma unroll
    for (int i = 0; i < Words<C>::N; i++) words.word[i] = __shfl_down_sync(ALL_LANES, words.word[i], distance);
    return words.value();
}
template <class C> __device__ inline C shuffle(C x, int lane) {
    Words<C> words(x);
#pragma unroll
    for (int i = 0; i < Words<C>::N; i++) words.word[i] = __shfl_sync(ALL_LANES, words.word[i], lane);
    return words.value();
}

// ---- registers ----------------------------------------------------------------------------------

// The same value, opaque to the compiler: values derived from `x` before are computed again from
// the result instead of being kept in registers until then.
__device__ inline u32 opaque(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}
__device__ inline u64 opaque(u64 x) {
    asm volatile("" : "+l"(x));
    return x;
}

// ---- memory -------------------------------------------------------------------------------------

__device__ inline u64 load_relaxed(const u64 *p) {
    u64 x;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline void store_relaxed(u64 *p, u64 x) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(x) : "memory");
}
// Words of shared memory by which threads of a block communicate without a barrier. With
// PARASCAN_CHECKED every access of such a word is an atomic operation, which costs more: racecheck
// accepts two atomic operations, and reports any other pair of accesses as a race.
#ifndef PARASCAN_CHECKED
__device__ inline u64 load_relaxed_shared(const u64 *p) {
    u64 x;
    asm volatile("ld.relaxed.cta.shared.u64 %0, [%1];" : "=l"(x) : "r"(u32(__cvta_generic_to_shared(p))) : "memory");
    return x;
}
__device__ inline void store_relaxed_shared(u64 *p, u64 x) {
    asm volatile("st.relaxed.cta.shared.u64 [%0], %1;" ::"r"(u32(__cvta_generic_to_shared(p))), "l"(x) : "memory");
}
// Of 16 bits. Several threads may store different values between two barriers: one value stays.
// A template, because a host compiler accepts these operands only in one.
template <class T> __device__ inline void store_relaxed_shared(T *p, T x) {
    static_assert(sizeof(T) == 2, "64-bit words have a function of their own");
    asm volatile("st.relaxed.cta.shared.u16 [%0], %1;" ::"r"(u32(__cvta_generic_to_shared(p))), "h"(x) : "memory");
}
// The same for words that atomic operations add to or exchange, and whose plain stores all store
// one value.
template <class T> __device__ inline T load_shared(const T *p) { return *(const volatile T *)p; }
template <class T> __device__ inline void store_shared(T *p, T x) { *p = x; }
// Templates: a host compiler has no atomicMax, and accepts the name where it depends on T.
template <class T> __device__ inline void max_shared(T *p, T x) { atomicMax(p, x); }
template <class T> __device__ inline void or_shared(T *p, T x) { atomicOr(p, x); }
#else
#define ATOMIC_WORD(T, BITS, REGISTER)                                                                                 \
    __device__ inline T load_relaxed_shared(const T *p) {                                                              \
        T x;                                                                                                           \
        asm volatile("atom.relaxed.cta.shared.cas.b" BITS " %0, [%1], 0, 0;"                                           \
                     : "=" REGISTER(x)                                                                                 \
                     : "r"(u32(__cvta_generic_to_shared(p)))                                                           \
                     : "memory");                                                                                      \
        return x;                                                                                                      \
    }                                                                                                                  \
    __device__ inline void store_relaxed_shared(T *p, T x) {                                                           \
        T before;                                                                                                      \
        asm volatile("atom.relaxed.cta.shared.exch.b" BITS " %0, [%1], %2;"                                            \
                     : "=" REGISTER(before)                                                                            \
                     : "r"(u32(__cvta_generic_to_shared(p))), REGISTER(x)                                              \
                     : "memory");                                                                                      \
    }
ATOMIC_WORD(u32, "32", "r")
ATOMIC_WORD(u64, "64", "l")
#undef ATOMIC_WORD
// PTX has no 16-bit exchange.
template <class T> __device__ inline void store_relaxed_shared(T *p, T x) {
    static_assert(sizeof(T) == 2, "wider words have functions of their own");
    T before = 0, seen;
    do {
        seen = before;
        asm volatile("atom.relaxed.cta.shared.cas.b16 %0, [%1], %2, %3;"
                     : "=h"(before)
                     : "r"(u32(__cvta_generic_to_shared(p))), "h"(seen), "h"(x)
                     : "memory");
    } while (before != seen);
}
template <class T> __device__ inline T load_shared(const T *p) { return load_relaxed_shared(p); }
template <class T> __device__ inline void store_shared(T *p, T x) { store_relaxed_shared(p, x); }
// PTX has a 64-bit exchange but no 64-bit maximum or OR of this kind: what the compiler makes of
// `atomicMax` begins with a plain load, which racecheck would report.
template <class Next> __device__ inline void exchange_shared(u64 *p, const Next &next) {
    u64 before = load_relaxed_shared(p), seen;
    do {
        seen = before;
        before = atomicCAS(p, seen, next(seen));
    } while (before != seen);
}
__device__ inline void max_shared(u64 *p, u64 x) {
    exchange_shared(p, [=](u64 seen) { return max(seen, x); });
}
__device__ inline void or_shared(u64 *p, u64 x) {
    exchange_shared(p, [=](u64 seen) { return seen | x; });
}
#endif
__device__ inline u32 add_relaxed(u32 *p, u32 x) {
    u32 before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(x) : "memory");
    return before;
}
// Acquire and release: what this thread read or wrote before happens before the addition, and what it
// does after the addition happens after. The same holds for other threads if a barrier lies between.
__device__ inline u32 add_acquire_release(u32 *p, u32 x) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(x) : "memory");
    return before;
}

// An asynchronous copy of 16 aligned bytes from global to shared memory, past the registers, from
// compute capability 8.0 on. The calling thread may read the bytes after `wait_for_copies`, other
// threads after a barrier that follows it.
__device__ inline void copy_to_shared(Vector *to, const Vector *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
#else
    *to = *from;
#endif
}
// The same for bytes that other blocks of the multiprocessor read too: they stay in the L1 cache.
__device__ inline void copy_common_to_shared(Vector *to, const Vector *from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(u32(__cvta_generic_to_shared(to))), "l"(from)
                 : "memory");
#else
    *to = *from;
#endif
}
// The same for one item: past the registers if it has 4 or 8 bytes.
template <class T> __device__ inline void copy_item_to_shared(T *to, const T *from) {
#if __CUDA_ARCH__ >= 800
    if constexpr ((sizeof(T) == 4 || sizeof(T) == 8) && alignof(T) == sizeof(T)) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(u32(__cvta_generic_to_shared(to))), "l"(from),
                     "n"(sizeof(T))
                     : "memory");
        return;
    }
#endif
    *to = *from;
}
__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
// Whether `store_from_shared` does anything.
#if __CUDA_ARCH__ >= 900
constexpr bool STORES_FROM_SHARED = true;
#else
constexpr bool STORES_FROM_SHARED = false;
#endif
// By one warp: one bulk copy of `bytes` bytes, a multiple of 16, from shared to global memory. The
// lanes have written the bytes before; both addresses are multiples of 16.
__device__ inline void store_from_shared(Vector *to, const Vector *from, u32 bytes, u32 lane) {
#if __CUDA_ARCH__ >= 900
    // The copy engine reads through another proxy than the lanes wrote through. Without the fence
    // it may read stale bytes.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(u32(__cvta_generic_to_shared(from))), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        // After it the shared memory belongs to the block's next tile, or to another block. So the lane
        // waits until the copy has read it.
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
#endif
}
// By one thread: prefetches `bytes` bytes, a multiple of 16, into L2, from compute capability 9.0.
__device__ inline void prefetch(const Vector *from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// Bytes of a memory transaction, and of a cache line.
constexpr u32 SECTOR = 32, LINE = 128;

// By a block: prefetches into L2 the lines that begin in `bytes` bytes, each line by one thread.
template <u32 THREADS> __device__ inline void prefetch_lines(const void *from, u32 bytes) {
    for (u32 at = threadIdx.x * LINE; at < bytes; at += THREADS * LINE)
        asm volatile("prefetch.global.L2 [%0];" ::"l"((const char *)from + at) : "memory");
}

// At least as many as the device has.
__device__ inline u32 multiprocessors() {
    u32 count;
    asm("mov.u32 %0, %%nsmid;" : "=r"(count));
    return count;
}

// ---- launches -----------------------------------------------------------------------------------

// Programmatic dependent launch: the next launch's blocks may start as soon as all blocks of this
// one have called this or ended.
__device__ inline void launch_next() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the launch before has ended. What it wrote can be read afterwards.
__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
