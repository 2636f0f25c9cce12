// What comes before the templates: threads that pause, waits that end, operands that nobody made.
#include "core/types.cuh"
#include "compact/contract.cuh"
#include "scan/contract.cuh"

__device__ u32 seed;
__device__ volatile u32 gave_up, foreign;

// ---- pauses ----------------------------------------------------------------------------------------------------------
// PAUSE says for how many nanoseconds: an expression over the place and the tile, group or word `at` which a thread is there.

enum Place : u32 { WORD, POST, PUBLISH, POLL, SCAN, SERVE, RETIRE };

// Nothing without a seed; else some, and much in one of 64 cases.
__device__ inline u32 random(u32 place, u32 at) {
    u32 x = (at * 8 + place) ^ seed * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    x ^= x >> 16;
    return seed == 0 ? 0 : x % 64 == 0 ? 50000 : x / 64 % 512;
}

__device__ inline void pause([[maybe_unused]] u32 place, [[maybe_unused]] u32 at) {
    u32 nanoseconds = PAUSE;
    if (nanoseconds > 0) __nanosleep(nanoseconds);
}

// ---- waits -----------------------------------------------------------------------------------------------------------
// Every `while` of the templates waits for another thread. Here one that has waited for long gives up, and all others do.

constexpr u32 PATIENCE = 1 << 18; // polls: some 0.2 s, where no pause is longer than 0.3 ms

__device__ inline bool patient(u32 &polls) {
    if (++polls % 1024 != 0) return true;
    if (polls == PATIENCE) gave_up = 1;
    return gave_up == 0;
}

#define while(...) for (u32 polls = 0; (__VA_ARGS__) && patient(polls);)

// ---- operands --------------------------------------------------------------------------------------------------------

// x -> factor x + summand, the factor in the lower half: first `a`, then `b`. Factors of the tests are odd, and so are their
// products; memory that holds no item of theirs has an even one.
__device__ inline u64 compose(u64 a, u64 b) {
    if (!(a & b & 1)) foreign = 1;
    u32 factor = u32(b);
    return u64(factor * u32(a >> 32) + u32(b >> 32)) << 32 | factor * u32(a);
}

// What was seen since the last call; and how to pause from now on.
extern "C" __global__ void watch(u32 next_seed, u32 *seen) {
    seen[0] = gave_up;
    seen[1] = foreign;
    gave_up = foreign = 0;
    seed = next_seed;
}
