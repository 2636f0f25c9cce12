// The names of CUDA that the texts and `core/rust.cuh` use, for a host compiler. Functions that no
// text calls are only declared.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define __device__

// ---- intrinsics ------------------------------------------------------------------------------------------------------------------

template <class To, class From> inline To same_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To y;
    memcpy(&y, &x, sizeof(To));
    return y;
}
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long reversed = 0;
    for (int i = 0; i < 64; i++) reversed |= (x >> i & 1) << (63 - i);
    return reversed;
}
inline unsigned __brev(unsigned x) { return (unsigned)(__brevll(x) >> 32); }

template <class T> inline T max(T a, T b) { return a < b ? b : a; }
template <class T> inline T min(T a, T b) { return b < a ? b : a; }

inline float widen_f16(unsigned short bits) { return same_bits<_Float16>(bits); }
inline unsigned short narrow_f16(float x) { return same_bits<unsigned short>((_Float16)x); }

// ---- declarations for functions that no text calls ---------------------------------------------------------------------------------------

unsigned __byte_perm(unsigned, unsigned, unsigned);
size_t __cvta_generic_to_shared(const void *);
void __syncwarp();
struct ThreadIndex {
    unsigned x;
};
extern ThreadIndex threadIdx;

// ---- a batch of functions ----------------------------------------------------------------------------------------------------------

#include "core/rust.cuh"

struct Function {
    const char *name;
    u64 a, b, r;
    void (*run)(const void *a, const void *b, void *r, u64 n);
};

#define FUNCTION(NAME)                                                                                                           \
    static void NAME(const void *a, const void *b, void *r, u64 n) {                                                             \
        for (u64 i = 0; i < n; i++)                                                                                              \
            ((NAME##_::R *)r)[i] = NAME##_::call(((const NAME##_::A *)a)[i], ((const NAME##_::B *)b)[i]);                        \
    }

// Reads n pairs of arguments for each function and writes n results. The function's name on stderr
// precedes the sanitizer's messages about it.
template <u64 FUNCTIONS> int run_all(const Function (&functions)[FUNCTIONS], char **files, u64 n) {
    FILE *in = fopen(files[1], "rb"), *out = fopen(files[2], "wb");
    if (!in || !out) return 2;
    for (const Function &f : functions) {
        fprintf(stderr, "%s\n", f.name);
        void *a = malloc(n * f.a), *b = malloc(n * f.b), *r = malloc(n * f.r);
        if (fread(a, f.a, n, in) != n || fread(b, f.b, n, in) != n) return 3;
        f.run(a, b, r, n);
        if (fwrite(r, f.r, n, out) != n) return 4;
        free(a), free(b), free(r);
    }
    return fclose(out);
}
