// A hash table of few distinct keys and their hits. The passes count by it as long as it holds all keys
// (distinct_keys.cuh), and heavy keys are found by it (heavy_keys.cuh).
#pragma once
#include "sort/radix.cuh"

// A key's hash. It takes both halves of the product, since one alone maps keys at equal distances to few entries.
template <class Bits> __device__ inline u32 hash(Bits key) {
    u64 product = u64(key) * 0x9e3779b97f4a7c15ull;
    return (u32(product >> 32) ^ u32(product)) * 0x85ebca6bu;
}
// The entry of a hash table of 2^BITS entries where a key is looked for first.
template <u32 BITS, class Bits> __device__ inline u32 hashed(Bits key) { return hash(key) >> (32 - BITS); }

// Distinct keys and their hits: a hash table with open addressing, whose tries are 1, 2, 3, ... entries apart. In
// shared memory it counts its keys, and refuses new ones if it has MOST; threads that add at the same time may exceed
// that. In zeroed global memory, for all blocks, it may fill up: to count keys there, each block would wait for the
// others.
template <class Bits, u32 LOG_ENTRIES, bool IN_SHARED = true> struct alignas(16) FewKeys {
    static constexpr u32 ENTRIES = 1 << LOG_ENTRIES, SLOTS = ENTRIES + 1,
                         MOST = (LOG_ENTRIES < LOG_DISTINCT ? ENTRIES : 1 << LOG_DISTINCT) / 2;
    // A large table refuses a key after 16 tries: while half of the entries are free, random keys need a few. A small
    // one tries all, so that it holds the same keys in all blocks.
    static constexpr u32 MOST_TRIED = ENTRIES <= 256 ? ENTRIES : 16;
    // An entry stores its key XOR RARE, so zero is a free one. The key RARE itself, which few inputs have, is
    // counted in the last slot.
    static constexpr Bits RARE = Bits(0x6a09e667f3bcc908ull);
    Bits stored[ENTRIES];
    u32 hits[SLOTS], count; // in global memory `count` tells only whether a block has given up

    __device__ void clear() {
        for (u32 i = threadIdx.x; i < sizeof(FewKeys) / sizeof(Vector); i += blockDim.x)
            ((Vector *)this)[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
    }
    __device__ Bits key(u32 slot) const { return Bits((slot < ENTRIES ? load(stored + slot) : Bits(0)) ^ RARE); }

    // By the whole block: calls `use(key, hits)` for each key.
    template <u32 THREADS, class Use> __device__ void each(const Use &use) const {
        constexpr u32 EACH = (SLOTS + THREADS - 1) / THREADS;
        static_assert(EACH <= 32, "a bit for each");
        u32 used = 0; // a bit for each slot of the thread
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (u32 slot = e * THREADS + threadIdx.x; slot < SLOTS) used |= u32(load(hits + slot) > 0) << e;
        // Each lane takes its own next slot, so that few lanes wait.
        for (; used != 0; used &= used - 1) {
            u32 slot = (__ffs(int(used)) - 1) * THREADS + threadIdx.x;
            use(key(slot), load(hits + slot));
        }
    }
    // In global memory: a block has keys that the table lacks.
    __device__ void give_up() { *(volatile u32 *)&count = 1; }

    // Returns whether the key has an entry.
    __device__ bool add(Bits key, u32 more) {
        Bits x = Bits(key ^ RARE);
        if (x == 0) {
            if (atomicAdd(hits + ENTRIES, more) == 0 && IN_SHARED) atomicAdd(&count, 1);
            return true;
        }
        u32 entry = hashed<LOG_ENTRIES>(key);
        for (u32 tried = 1; tried <= MOST_TRIED; entry = (entry + tried++) % ENTRIES) {
            Bits here = load(stored + entry);
            if (here == 0) {
                if (IN_SHARED && load(&count) >= MOST) break;
                here = atomicCAS(stored + entry, Bits(0), x);
                if (here == 0 && IN_SHARED) atomicAdd(&count, 1);
            }
            if (here == 0 || here == x) {
                atomicAdd(hits + entry, more);
                return true;
            }
        }
        return false;
    }
    // By the whole block, of an empty table, which stays empty: whether COUNT keys of each thread are looked for first
    // in at most MOST entries.
    template <u32 COUNT> __device__ bool have_few(const Bits *key) {
        u32 own = 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) own += atomicAdd(hits + hashed<LOG_ENTRIES>(key[i]), 1) == 0;
        own = warp_add(own);
        if (lane_id() == 0) atomicAdd(&count, own);
        __syncthreads();
        u32 used = load_shared(&count);
        __syncthreads();
        if (threadIdx.x == 0) count = 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) store_shared(hits + hashed<LOG_ENTRIES>(key[i]), 0u);
        __syncthreads();
        return used <= MOST;
    }
    // Adds a hit of each of COUNT keys that `rest` has a bit for. Returns the bits of those without an entry.
    template <u32 COUNT> __device__ u32 add_each(const Bits *key, u32 rest) {
        constexpr u32 GROUP = 32 / sizeof(Bits); // looked up at once
        static_assert(COUNT <= 32, "a bit for each");
        u32 refused = 0;
        // First all keys where they are looked for first: most are there. A look-up in vain costs less than a branch.
#pragma unroll
        for (u32 g = 0; g < COUNT; g += GROUP) {
            u32 entry[COUNT];
            Bits here[COUNT];
#pragma unroll
            for (u32 i = g; i < g + GROUP && i < COUNT; i++) {
                entry[i] = hashed<LOG_ENTRIES>(key[i]);
                here[i] = load(stored + entry[i]);
            }
#pragma unroll
            for (u32 i = g; i < g + GROUP && i < COUNT; i++)
                if (rest & 1u << i && here[i] == Bits(key[i] ^ RARE) && here[i] != 0) {
                    atomicAdd(hits + entry[i], 1);
                    rest &= ~(1u << i);
                }
        }
        // Then the others, one a step. Each lane takes its own next key.
        for (; rest != 0; rest &= rest - 1) {
            u32 next = __ffs(int(rest)) - 1;
            Bits one = key[0];
#pragma unroll
            for (u32 i = 1; i < COUNT; i++)
                if (i == next) one = key[i];
            if (!add(one, 1)) refused |= 1u << next;
        }
        return refused;
    }

  private:
    template <class T> static __device__ T load(const T *p) {
        if constexpr (IN_SHARED) return load_shared(p);
        else return *(const volatile T *)p;
    }
};
