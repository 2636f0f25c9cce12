// Heavy keys: keys that are frequent in a sample. Each has a digit of its own and needs no sort
// (the equality bucket of Sanders and Winkel 2004, "Super scalar sample sort"): keys-only are
// counted and written, a payload moves once, stably. A map spreads the other keys, and
// `AroundHeavy` puts the digits of the heavy keys between the map's coarse buckets.
//
// Fixed-capacity buckets find them in the probe (`HeavyKeys::find`), and intervals add frequent
// keys of their sample; counted buckets find them in the pilot sample (bucket_sample.cuh).
#pragma once
#include "sort/sort.cuh"

// ---- the keys and their digits ----------------------------------------------------------------

// Payload room for a key with so many hits in a sample: the expected number of keys and a margin.
__device__ inline u32 payload_room(u32 hits, u64 n, u32 sampled) {
    return u32((float(hits) + 5 * sqrtf(float(hits)) + 8) * float(n) / float(sampled));
}

// The table that finds them.
template <class Bits> using FrequentKeys = FewKeys<Bits, 8>;
static_assert(FrequentKeys<u32>::MOST == HEAVY_SLOTS, "found ones have slots");

template <class Bits> struct alignas(16) HeavyKeys { // fewer than HEAVY_SLOTS
    u32 count;
    u32 first_step; // of a search: a power of two that exceeds half of a coarse bucket's heavy keys
    u32 digits[BINS / 32]; // a bit for each digit of a heavy key
    u8 entries[BINS]; // by the map's coarse bucket: the heavy keys of lesser ones
    // Ascending. Unused ones are the greatest possible key, so that a search needs no end.
    Bits keys[2 * HEAVY_SLOTS];

    struct Found { // keys in any order
        Bits keys[HEAVY_SLOTS];
        u32 hits[HEAVY_SLOTS], count;
    };
    struct Probe { // in the tile's memory
        static constexpr u32 LOG_SLOTS = 10;
        FrequentKeys<Bits> few;
        u32 slots[1 << LOG_SLOTS];
        Found found;
    };

    __device__ bool has(u32 d) const { return digits[d / 32] >> d % 32 & 1; }
    // The number of heavy keys with lesser digits.
    __device__ u32 index(u32 d) const {
        u32 before = __popc(digits[d / 32] & ((1u << d % 32) - 1));
        for (u32 w = 0; w < d / 32; w++) before += __popc(digits[w]);
        return before;
    }
    __device__ bool is(u32 i, Bits key) const { return i < count && keys[i] == key; }
    __device__ bool contains(Bits key) const {
        u32 less = 0;
#pragma unroll
        for (u32 step = HEAVY_SLOTS / 2; step > 0; step /= 2) less += keys[less + step - 1] < key ? step : 0;
        return is(less, key);
    }

    __device__ void clear(Found &found) {
        for (u32 i = threadIdx.x; i < 2 * HEAVY_SLOTS; i += blockDim.x) keys[i] = Bits(~Bits(0));
        if (threadIdx.x == 0) count = found.count = 0;
    }
    // By the whole block, with a probed key of each thread: all keys are heavy if they are at most
    // `most` different ones; else those with PROBE_KEYS / most hits or more, which are at most `most`. `rooms`:
    // see `add_found`. Returns false if heavy keys do not help: as many keys may be heavy as the table holds, or
    // seven of eight keys share a slot and a quarter cannot be heavy.
    __device__ bool find(Probe &s, Bits key, u32 most, u64 n, u32 *rooms) {
        u32 least = 1; // of a heavy key's hits
        bool are_too_many = false;
        clear(s.found);
        for (u32 k = threadIdx.x; k < 1 << Probe::LOG_SLOTS; k += PROBE_KEYS) s.slots[k] = 0;
        s.few.clear();
        s.few.add(key, 1);
        __syncthreads();
        u32 distinct = s.few.count;
        __syncthreads(); // all threads have read it
        if (distinct > most) {
            least = (PROBE_KEYS + most - 1) / most;
            u32 *slot = s.slots + hashed<Probe::LOG_SLOTS>(key);
            atomicAdd(slot, 1);
            s.few.clear();
            bool may_be_heavy = *slot >= least, is_refused = may_be_heavy && !s.few.add(key, 1);
            // A full table has refused a key or not, which depends on timing; its count does not.
            if (__syncthreads_or(is_refused) || s.few.count >= HEAVY_SLOTS) return false;
            // Nearly all probed keys are frequent, and a quarter or more of all are not heavy.
            are_too_many = __syncthreads_count(*slot > 1) >= PROBE_KEYS / 8 * 7 &&
                           __syncthreads_count(may_be_heavy) <= PROBE_KEYS / 4 * 3;
        }
        add_frequent(s.few, least, s.found, n, PROBE_KEYS, rooms);
        return !are_too_many;
    }
    // By the whole block: adds the keys with `least` hits or more, of which none is heavy yet.
    __device__ void add_frequent(const FrequentKeys<Bits> &few, u32 least, Found &found, u64 n, u32 sampled,
                                 u32 *rooms) {
        u32 i = threadIdx.x;
        if (i < few.SLOTS && few.hits[i] >= least)
            if (u32 at = atomicAdd(&found.count, 1); at < HEAVY_SLOTS) {
                found.keys[at] = few.key(i);
                found.hits[at] = few.hits[i];
            }
        __syncthreads();
        if (found.count < HEAVY_SLOTS) add_found(found, n, sampled, rooms);
    }
    // By the whole block: adds keys of which none is heavy yet, found in `sampled` keys. `rooms`,
    // if not null, gets the room of each key's payload.
    __device__ void add_found(const Found &found, u64 n, u32 sampled, u32 *rooms) {
        u32 i = threadIdx.x, own = count, more = found.count, rank = i, room = 0;
        Bits key = 0;
        if (i < own) {
            key = keys[i];
            if (rooms) room = rooms[i];
        } else if (i < own + more) {
            key = found.keys[i - own];
            room = payload_room(found.hits[i - own], n, sampled);
            rank = 0;
            for (u32 k = 0; k < own; k++) rank += keys[k] < key;
        }
#pragma unroll 8
        for (u32 k = 0; k < more; k++) rank += i < own + more && found.keys[k] < key;
        __syncthreads();
        if (i < own + more) keys[rank] = key;
        if (rooms && i < HEAVY_SLOTS) rooms[rank] = room;
        if (i == 0) count = own + more;
        __syncthreads();
    }

    // By the whole block, when the keys are known: gives digits to the heavy keys and to the coarse
    // buckets of the map `base`, whose buckets have numbers with `lower_bits` bits more. `coarse`:
    // room for HEAVY_SLOTS words.
    template <class Base> __device__ void place(const Base &base, u32 lower_bits, u32 *coarse) {
        u32 i = threadIdx.x;
        if (i < BINS / 32) digits[i] = 0;
        if (i == 0) first_step = 0;
        __syncthreads();
        if (i < count) {
            coarse[i] = base(keys[i]) >> lower_bits;
            u32 digit = coarse[i] + 2 * i + 1;
            atomicOr(digits + digit / 32, 1u << digit % 32);
        }
        __syncthreads();
        if (i < BINS) {
            u32 begin = 0, end = 0; // the coarse buckets ascend
#pragma unroll
            for (u32 step = HEAVY_SLOTS / 2; step > 0; step /= 2) {
                begin += begin + step <= count && coarse[begin + step - 1] < i ? step : 0;
                end += end + step <= count && coarse[end + step - 1] <= i ? step : 0;
            }
            entries[i] = u8(begin);
            if (begin < end) atomicMax(&first_step, 1u << (31 - __clz(int(end - begin))));
        }
        __syncthreads();
    }
};

// The bucket of a key by the map `base`, with the heavy keys between its coarse buckets.
// `lower_bits`: those of a bucket's number after its digit.
template <class Base, class Bits> struct AroundHeavy {
    Base base;
    const HeavyKeys<Bits> *heavy;
    u32 lower_bits;

    // The buckets of some keys, the heavy keys that are less, and a bit for each key that is heavy.
    // The searches go side by side, without branches, as their loads take long. A heavy key of a
    // later coarse bucket is greater, so they need no end.
    template <u32 COUNT> __device__ u32 find(const Bits *key, u32 *bucket, u32 *less) const {
        base.template all<COUNT>(key, bucket);
        u32 all = heavy->count, is_heavy = 0;
        if (all == 0) return 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) less[i] = heavy->entries[bucket[i] >> lower_bits];
#pragma unroll 1
        for (u32 step = heavy->first_step; step > 0; step /= 2)
#pragma unroll
            for (u32 i = 0; i < COUNT; i++) less[i] += heavy->keys[less[i] + step - 1] < key[i] ? step : 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) {
            bool is_here = heavy->keys[less[i]] == key[i] && less[i] < all;
            is_heavy |= u32(is_here) << i;
            if (is_here) bucket[i] = ((bucket[i] >> lower_bits) + 1) << lower_bits;
            bucket[i] += 2 * less[i] << lower_bits;
        }
        return is_heavy;
    }
    template <u32 COUNT> __device__ void all(const Bits *key, u32 *bucket) const {
        u32 less[COUNT];
        find<COUNT>(key, bucket, less);
    }
    __device__ u32 operator()(Bits key) const {
        u32 bucket;
        all<1>(&key, &bucket);
        return bucket;
    }
    __device__ bool prepare() const {
        __syncthreads();
        return true;
    }
};
template <class Base, class Bits> constexpr bool IS_COSTLY<AroundHeavy<Base, Bits>> = true;
template <class D> constexpr bool IS_AROUND_HEAVY = false;
template <class Base, class Bits> constexpr bool IS_AROUND_HEAVY<AroundHeavy<Base, Bits>> = true;

// ---- heavy keys in the output -----------------------------------------------------------------

// Writes one key `count` times. `thread` is one of `threads`.
template <class Bits> __device__ inline void fill(Bits *out, u32 count, Bits key, u32 thread, u32 threads) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    u32 head = min(count, u32(-u64(out) % sizeof(Vector) / sizeof(Bits))), vectors = (count - head) / IN_VECTOR,
        tail = head + vectors * IN_VECTOR;
    Bits keys[IN_VECTOR];
#pragma unroll
    for (u32 k = 0; k < IN_VECTOR; k++) keys[k] = key;
    Vector vector;
    memcpy(&vector, keys, sizeof(Vector));
#pragma unroll 4
    for (u32 i = thread; i < vectors; i += threads) ((Vector *)(out + head))[i] = vector;
    if (thread < head) out[thread] = key;
    if (thread < count - tail) out[tail + thread] = key;
}
// Writes a heavy key to the output, unless `out` is null, and its payload, unless `from` is null.
// Not inlined, as the function below, so that it takes no registers from the callers.
template <class Bits, class Value>
__device__ __noinline__ void write_heavy_key(Bits *out, u32 count, Bits key, Value *to, const Value *from, u32 thread,
                                             u32 threads) {
    constexpr u32 AT_ONCE = 4; // loads issued before the first store
    if constexpr (Value::BYTES > 0)
        for (u32 i = thread; from && i < count; i += AT_ONCE * threads) {
            Value value[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (i + k * threads < count) value[k] = from[i + k * threads];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; k++)
                if (i + k * threads < count) to[i + k * threads] = value[k];
        }
    if (Value::BYTES == 0 || out) fill(out, count, key, thread, threads);
}
// The heavy keys that occur more than `most` times, which all blocks write.
template <class Bits> struct HeaviestKeys { // in shared memory
    u32 starts[BINS], counts[BINS], begins[BINS], totals[BINS / WARP], all;
    Bits keys[BINS];
};
template <class Order, class Bits, class Value, u32 THREADS>
__device__ __noinline__ void write_heaviest_keys(HeaviestKeys<Bits> &s, Order order, const u32 *all_counts,
                                                 const HeavyKeys<Bits> &heavy, const u32 *begins, u32 most, Bits *out,
                                                 Value *to, const Value *from) {
    u32 d = threadIdx.x, count = d < BINS ? all_counts[d] : 0;
    bool is_large = count > most && heavy.has(d);
    u32 i = is_large ? heavy.index(d) : 0, begin = begins[i];
    Bits key = heavy.keys[i];
    __syncthreads(); // the block's bucket is in the output
    if (d == 0) s.all = 0;
    __syncthreads();
    if (d < BINS) {
        u32 start = block_exclusive_sum<BINS>(count, s.totals);
        if (is_large) {
            u32 m = atomicAdd(&s.all, 1);
            s.starts[m] = start;
            s.counts[m] = count;
            s.begins[m] = begin;
            s.keys[m] = order.from(key);
        }
    } else {
        pass_barrier_of_first();
    }
    __syncthreads();
    for (u32 m = 0; m < s.all; m++) {
        u32 start = s.starts[m];
        write_heavy_key(out ? out + start : out, s.counts[m], s.keys[m], to + start, from + s.begins[m],
                        blockIdx.x * THREADS + d, gridDim.x * THREADS);
    }
}
