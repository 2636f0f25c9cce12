// Few distinct keys in all of a sort, counted one by one.
//
// The passes count by hash tables as long as these hold all keys (`sort_count` in plan.cuh). If they do
// to the end, the block that counts last puts the distinct keys in order (`DistinctKeys`). Keys-only are
// then written from the counts. With a payload the passes go by digits of a key's rank among the distinct
// keys (`EncodeRanks`): one pass for up to 256 of them, two for up to MOST_DISTINCT.
#pragma once
#include "sort/few_keys.cuh"

// ---- the ranks of keys ---------------------------------------------------------------------------

// The ranks of distinct keys by a perfect hash function (Belazzougui, Botelho and Dietzfelbinger 2009, "Hash,
// displace, and compress"). A hash puts each key into a group, and each group has a displacement. A second hash, of
// the first one and the displacement, gives each key a slot of its own.
struct alignas(16) RankTable {
    static constexpr u32 LOG_GROUPS = 9, GROUPS = 1 << LOG_GROUPS, LOG_SLOTS = 12, SLOTS = 1 << LOG_SLOTS;
    u32 displacements[GROUPS];
    u16 ranks[SLOTS];

    static __device__ u32 group(u32 hash) { return hash >> (32 - LOG_GROUPS); }
    static __device__ u32 slot(u32 hash, u32 displacement) {
        return (hash ^ displacement) * 0xcc9e2d51u >> (32 - LOG_SLOTS);
    }
    __device__ u32 rank(u32 hash) const { return ranks[slot(hash, displacements[group(hash)])]; }

    struct Shared {
        u32 first[GROUPS]; // the first key of a group: its index and one, or zero
        u16 next[MOST_DISTINCT]; // the next key of the same group, likewise
        u32 taken[SLOTS / WARP]; // a bit for each slot
    };
    // By the whole block: makes the table for `count` keys in order. Returns false if it finds none.
    template <u32 THREADS, class Bits> __device__ bool make(Shared &s, const Bits *keys, u32 count) {
        for (u32 i = threadIdx.x; i < GROUPS; i += THREADS) s.first[i] = 0;
        for (u32 i = threadIdx.x; i < SLOTS / WARP; i += THREADS) s.taken[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < count; i += THREADS)
            s.next[i] = u16(atomicExch(s.first + group(hash(keys[i])), i + 1));
        __syncthreads();
        bool is_made = true;
        for (u32 g = threadIdx.x; g < GROUPS; g += THREADS) {
            u32 displacement = 0, tried = 0;
            auto slot_of = [&](u32 i) { return slot(hash(keys[i - 1]), displacement); };
            // Groups take slots at the same time, and give them back if one is not free. Which slots a group gets
            // depends on timing; the ranks do not.
            auto take = [&] {
                for (u32 i = s.first[g]; i > 0; i = s.next[i - 1]) {
                    u32 own = slot_of(i);
                    if (!(atomicOr(s.taken + own / WARP, 1u << own % WARP) >> own % WARP & 1)) continue;
                    for (u32 k = s.first[g]; k != i; k = s.next[k - 1]) {
                        u32 other = slot_of(k);
                        atomicAnd(s.taken + other / WARP, ~(1u << other % WARP));
                    }
                    return false;
                }
                return true;
            };
            while (!take() && tried++ < MOST_TRIES) displacement += 0x1b873593u;
            is_made = is_made && tried < MOST_TRIES;
            displacements[g] = displacement;
            for (u32 i = s.first[g]; i > 0; i = s.next[i - 1]) ranks[slot_of(i)] = u16(i - 1);
        }
        return __syncthreads_and(is_made);
    }

  private:
    static constexpr u32 MOST_TRIES = 512; // nothing separates two keys of one hash
};

// Encodes the keys of a pass and, with a table, translates them to ranks.
template <class Encode> struct EncodeRanks {
    Encode encode;
    const RankTable *table; // null: the keys stay as they are

    template <class Bits> __device__ Bits operator()(Bits key) const { return encode(key); }
    // By the whole block.
    template <u32 COUNT, class Bits> __device__ void translate(char *exchange, Bits *key) const {
        if (table == nullptr) return;
        constexpr u32 VECTORS = sizeof(RankTable) / sizeof(Vector);
        for (u32 i = threadIdx.x; i < VECTORS; i += blockDim.x) ((Vector *)exchange)[i] = ((const Vector *)table)[i];
        __syncthreads();
        const RankTable &here = *(const RankTable *)exchange;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) key[i] = here.rank(hash(key[i]));
    }
};
template <class Encode> constexpr bool TRANSLATES<EncodeRanks<Encode>> = true;

// ---- the output from counts ---------------------------------------------------------------------

// Writes THREADS * EACH keys of the output from `first` on, or those up to `n`. The i-th of `runs` keys
// is `key_of(i)` and begins at `starts[i]`. Keys without an item begin where the next one does.
template <u32 THREADS, u32 EACH, class Bits, class Start, class KeyOf>
__device__ inline void write_runs(Bits *out, u64 first, u64 n, const Start *starts, u32 runs, const KeyOf &key_of) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    static_assert(EACH % IN_VECTOR == 0, "whole vectors");
    // The run at an index of the output: the last of `low` to `high` that begins there or before.
    auto run_at = [&](u64 index, u32 low, u32 high) {
        while (low < high) {
            u32 middle = (low + high + 1) / 2;
            if (u64(starts[middle]) <= index) low = middle;
            else high = middle - 1;
        }
        return low;
    };
    auto end_of = [&](u32 run) { return run + 1 < runs ? u64(starts[run + 1]) : n; };
    __shared__ u32 ends[2];
    u64 last = min(n, first + THREADS * EACH) - 1;
    if (threadIdx.x < 2) ends[threadIdx.x] = run_at(threadIdx.x == 0 ? first : last, 0, runs - 1);
    __syncthreads();
    bool aligned = (u64)out % sizeof(Vector) == 0;
#pragma unroll
    for (u32 v = 0; v < EACH / IN_VECTOR; v++) {
        u64 index = first + (v * THREADS + threadIdx.x) * IN_VECTOR;
        if (index >= n) return;
        u32 run = run_at(index, ends[0], ends[1]);
        u64 end = end_of(run);
        Bits item[IN_VECTOR];
        u32 count = u32(min(n - index, u64(IN_VECTOR)));
#pragma unroll
        for (u32 i = 0; i < IN_VECTOR; i++) {
            if (index + i >= end && i < count) {
                run = run_at(index + i, run + 1, ends[1]);
                end = end_of(run);
            }
            item[i] = key_of(run);
        }
        if (aligned && count == IN_VECTOR) {
            Vector vector;
            memcpy(&vector, item, sizeof(Vector));
            *(Vector *)(out + index) = vector;
        } else {
#pragma unroll
            for (u32 i = 0; i < IN_VECTOR; i++)
                if (i < count) out[index + i] = item[i];
        }
    }
}

// ---- the distinct keys of a sort -----------------------------------------------------------------

// The distinct keys of a sort. All bytes are zero before it.
template <class Bits> struct DistinctKeys {
    typedef FewKeys<Bits, LOG_DISTINCT, false> Found;
    static_assert(Found::MOST >= MOST_DISTINCT, "half of it has room for them");
    Found found; // by all blocks
    u32 count;   // of `keys`; zero if the sort does not go by these
    Bits keys[MOST_DISTINCT]; // in order
    u32 starts[MOST_DISTINCT]; // the index of each one's first item, in the range that the passes sort
    RankTable ranks;

    struct Shared {
        static constexpr u32 ROOM = Found::MOST;
        alignas(16) Bits unordered[ROOM];
        u32 hits_of_unordered[ROOM];
        Bits keys[ROOM]; // in order
        u32 hits[ROOM], count, digits[2][BINS], totals[WARP]; // `digits`: of the ranks
        RankTable::Shared ranks;
    };
    // By the whole block: the digits in which any two sorted keys differ.
    static __device__ u32 differing_digits(const Shared &s) {
        Bits differs = 0;
        u32 digits = 0;
        for (u32 i = threadIdx.x; i < s.count; i += blockDim.x) differs |= s.keys[i] ^ s.keys[0];
        for (u32 p = 0; p < sizeof(Bits); p++) digits += __syncthreads_or(differs >> p * DIGIT_BITS & (BINS - 1)) != 0;
        return digits;
    }
    // By the whole block, when all blocks have added theirs: sorts the keys found, and writes `keys`, `starts` and the
    // histograms of the ranks' digits. Returns false if keys are missing, or there are too many.
    template <u32 THREADS> __device__ bool sort(Shared &s) {
        constexpr u32 EACH = Shared::ROOM / THREADS;
        if (load_relaxed(&found.count) != 0) return false;
        collect<THREADS>(s);
        if (s.count > MOST_DISTINCT) return false;
        sort_collected<THREADS>(s);
        u32 own[EACH], sum = 0, first = threadIdx.x * EACH;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) sum += own[e] = s.hits[first + e];
        u32 start = block_exclusive_sum<THREADS>(sum, s.totals);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 rank = first + e;
            if (rank >= s.count) break;
            keys[rank] = s.keys[rank];
            starts[rank] = start;
            start += own[e];
            atomicAdd(s.digits[0] + rank % BINS, own[e]);
            atomicAdd(s.digits[1] + rank / BINS, own[e]);
        }
        __syncthreads();
        return true;
    }

    // By all blocks, in `memory` of each: writes the `n` keys of the sort. Outlined, so that it takes no registers from
    // the passes.
    template <class Order, u32 THREADS>
    __device__ __noinline__ void write(Vector *memory, Order order, Bits *out, u64 n) const {
        constexpr u64 EACH = 16, STEP = EACH * THREADS;
        Bits *sorted = (Bits *)memory;
        u32 *begins = (u32 *)(sorted + MOST_DISTINCT), runs = count;
        for (u32 i = threadIdx.x; i < runs; i += THREADS) {
            sorted[i] = order.from(keys[i]);
            begins[i] = starts[i];
        }
        for (u64 first = blockIdx.x * STEP; first < n; first += gridDim.x * STEP) {
            __syncthreads(); // the runs are there, and all threads are past the last step
            write_runs<THREADS, EACH>(out, first, n, begins, runs, [=](u32 run) { return sorted[run]; });
        }
    }

  private:
    // Copies the keys found to `s`, and behind them greatest ones.
    template <u32 THREADS> __device__ void collect(Shared &s) const {
        if (threadIdx.x == 0) s.count = 0;
        for (u32 i = threadIdx.x; i < 2 * BINS; i += THREADS) s.digits[0][i] = 0;
        for (u32 i = threadIdx.x; i < s.ROOM; i += THREADS) {
            s.unordered[i] = Bits(~Bits(0));
            s.hits[i] = 0;
        }
        __syncthreads();
        found.template each<THREADS>([&](Bits key, u32 hits) {
            if (u32 at = atomicAdd(&s.count, 1); at < s.ROOM) {
                s.unordered[at] = key;
                s.hits_of_unordered[at] = hits;
            }
        });
        __syncthreads();
    }
    // Counts for each key the lesser ones. For up to some 500 keys the barriers of a sort of fewer comparisons take
    // longer.
    template <u32 THREADS> static __device__ void sort_collected(Shared &s) {
        constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits), EACH = Shared::ROOM / THREADS;
        static_assert(Shared::ROOM % THREADS == 0, "each thread has as many");
        Bits key[EACH];
        u32 rank[EACH], count = s.count;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            key[e] = s.unordered[e * THREADS + threadIdx.x];
            rank[e] = 0;
        }
        for (u32 k = 0; k < count; k += IN_VECTOR) {
            Vector vector = ((const Vector *)s.unordered)[k / IN_VECTOR];
            Bits others[IN_VECTOR];
            memcpy(others, &vector, sizeof(Vector));
#pragma unroll
            for (u32 e = 0; e < EACH; e++)
                if (e * THREADS < count)
#pragma unroll
                    for (u32 o = 0; o < IN_VECTOR; o++)
                        if (others[o] < key[e]) rank[e]++;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (u32 i = e * THREADS + threadIdx.x; i < count) {
                s.keys[rank[e]] = key[e];
                s.hits[rank[e]] = s.hits_of_unordered[i];
            }
        __syncthreads();
    }
};
