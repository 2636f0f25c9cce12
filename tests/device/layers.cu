// Primitives of the tests' own on the two layers.
#include "core/pipeline.cuh"

typedef Shape<4, 5> TestShape;

template <class C> struct Add {
    typedef C Carry;
    static __device__ C alone(C x) { return x; }
    static __device__ C combine(C a, C b) { return a + b; }
};

// ---- the pipeline: compaction, a predicate as source and a scatter as sink ----------------------------------------------

struct Odd {
    typedef u32 Item;
    Run<u32> run;
    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const { run.prefetch<ITEMS>(first, lane); }
    template <class Stage> __device__ void load(Stage &stage, u64 first, u32 lane) const { run.load(stage, first, lane); }
    __device__ u32 carry(u32 x) const { return x & 1; }
};
struct Scatter {
    typedef u32 Result;
    u32 *out, *count;
    u64 n;
    __device__ u32 put(u64 i, u32 x, u32 before, u32 upto) const {
        if (i < n && upto != before) out[before] = x;
        if (i == n - 1) *count = upto; // the total would count what is loaded past the end
        return x;
    }
    __device__ void total(u32) const {}
    template <class Stage> __device__ void store(Stage &, u64, u32) const {}
};

extern "C" __global__ void compact(u32 *in, u64 n, u32 *out, u32 *count, void *memory, u32 tiles) {
    typedef PrefixServer<Add<u32>, TestShape::WARPS> Join;
    typedef Pipeline<Add<u32>, Odd, Scatter, u32, TestShape, Join> Compact;
    __shared__ Compact::Shared shared;
    Compact::run(shared, Odd{{in, n, false}}, Scatter{out, count, n}, Join(memory, tiles), {0, true}, false);
}

// ---- the pipeline: sizes of one byte to offsets of eight, each rounded up to a multiple of 16, in the n + 1 form ------------

struct Rounded {
    typedef u8 Item;
    const u8 *sizes;
    u64 n;
    template <u32 ITEMS> __device__ void prefetch(u64, u32) const {}
    template <class Stage> __device__ void load(Stage &stage, u64 first, u32 lane) const {
        for (u32 i = lane; i < Stage::ITEMS; i += WARP) *(u8 *)(stage.slots() + i) = sizes[min(first + i, n - 1)];
    }
    __device__ u64 carry(u8 size) const { return (u64(size) + 15) / 16 * 16; }
};
struct Offsets {
    typedef u64 Result;
    Run<u64> run;
    __device__ u64 put(u64 i, u8, u64 before, u64 upto) const {
        if (i == run.n - 1) run.base[run.n] = upto;
        return before;
    }
    __device__ void total(u64) const {}
    template <class Stage> __device__ void store(Stage &stage, u64 first, u32 lane) const { run.store(stage, first, lane); }
};

extern "C" __global__ void offsets(u8 *sizes, u64 n, u64 *out, void *memory, u32 tiles) {
    typedef LookBack<Add<u64>, 64> Join;
    typedef Pipeline<Add<u64>, Rounded, Offsets, u64, TestShape, Join> Pack;
    __shared__ Pack::Shared shared;
    Pack::run(shared, Rounded{sizes, n}, Offsets{{out, n, false}}, Join(memory, tiles), {0, true}, false);
}

// ---- the hand-over: 256 counters a tile, as a pass of a radix sort needs them -------------------------------------------------

constexpr u32 DIGITS = 256, DIGIT_TILE = 4096;

// For each tile and digit: how many of the digit come in tiles before it.
extern "C" __global__ void digits_before(const u8 *in, u64 n, u32 *before, void *memory, u32 tiles) {
    typedef LookBackColumns<Add<u32>, 32, DIGITS> Join;
    __shared__ Join::Shared shared;
    __shared__ u32 count[DIGITS];
    Join join(memory, tiles);
    count[threadIdx.x] = 0;
    u32 tile = join.enter(shared);
    for (u64 i = u64(tile) * DIGIT_TILE + threadIdx.x; i < min(n, u64(tile + 1) * DIGIT_TILE); i += DIGITS)
        atomicAdd(count + in[i], 1);
    __syncthreads();
    before[u64(tile) * DIGITS + threadIdx.x] = join.exchange(tile, threadIdx.x, count[threadIdx.x], 0);
    join.retire(shared, tile);
}
