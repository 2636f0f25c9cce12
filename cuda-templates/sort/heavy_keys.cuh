// Heavy keys of fixed-capacity buckets: keys that are frequent in a sample. Each has a digit of its
// own and needs no sort (the equality bucket of Sanders and Winkel 2004, "Super scalar sample
// sort"): keys-only are just counted, and a payload has room by the sample. A map spreads the other
// keys, and `AroundHeavy` puts the digits of the heavy keys between the map's buckets.
//
// `HeavyKeys::find` finds them in the probe of fixed_buckets.cuh; intervals add frequent keys of
// their sample. `fixed_sort` (bucket_sort.cuh) writes them by `write_heavy_key` and
// `write_heaviest_keys`.
#pragma once
#include "sort/buckets.cuh"

// The most heavy keys, if a bucket's number has so many bits. Each takes two digits: a map's bucket
// is split in two, and the key's own digit lies between the parts.
__device__ inline constexpr u32 most_heavy(u32 bits) { return (1u << bits) / 2 - 8; }

// Payload room for a key with so many hits in a sample: the expected number of keys and a margin.
__device__ inline u32 payload_room(u32 hits, u64 n, u32 sampled) {
    return u32((float(hits) + 5 * sqrtf(float(hits)) + 8) * float(n) / float(sampled));
}

// In shared memory; a copy in `FixedMap`.
template <class Bits> struct alignas(16) HeavyKeys {
    u32 count;
    u32 digits[BINS / 32]; // a bit for each digit of a heavy key
    // By the map's bucket: its first heavy key, and above 16 bits their end.
    u32 entries[BINS];
    // First the room of each key's payload, then where it begins in `fixed.values`.
    u32 begins[VALUES + 1];
    Bits keys[VALUES]; // ascending; unused ones are the greatest possible key

    struct Found { // in the tile's memory: keys in any order
        Bits keys[VALUES];
        u32 hits[VALUES], count;
    };
    struct Probe { // in the tile's memory
        static constexpr u32 SLOTS = 1024;
        FewValues<Bits> values;
        u32 hits[FewValues<Bits>::ENTRIES + 1], slots[SLOTS];
        Found found;
    };

    __device__ bool has(u32 d) const { return digits[d / 32] >> d % 32 & 1; }
    // The number of heavy keys with lesser digits.
    __device__ u32 index(u32 d) const {
        u32 before = __popc(digits[d / 32] & ((1u << d % 32) - 1));
        for (u32 w = 0; w < d / 32; w++) before += __popc(digits[w]);
        return before;
    }
    // The number of keys from `begin` to `end` that are less than a key.
    __device__ u32 count_less(Bits key, u32 begin, u32 end) const {
        while (begin < end) {
            u32 middle = (begin + end) / 2;
            if (keys[middle] < key) begin = middle + 1;
            else end = middle;
        }
        return begin;
    }
    __device__ bool is(u32 i, Bits key) const { return i < count && keys[i] == key; }
    __device__ bool contains(Bits key) const { return is(count_less(key, 0, count), key); }

    // By the whole block, with a probed key of each thread: all keys are heavy if they are at most
    // `most` different ones; else those that may be among the `most` most frequent ones.
    __device__ void find(Probe &s, Bits key, u32 most, u64 n) {
        constexpr u32 ENTRIES = FewValues<Bits>::ENTRIES;
        u32 i = threadIdx.x, least = 1; // least: of a heavy key's hits
        auto clear = [&] {
            if (i <= ENTRIES) s.hits[i] = 0;
            s.values.clear();
        };
        auto add = [&] { atomicAdd(s.hits + s.values.add(key, [](u32, u32) {}), 1); };
        if (i < VALUES) keys[i] = Bits(~Bits(0));
        if (i == 0) count = s.found.count = 0;
        for (u32 k = i; k < Probe::SLOTS; k += PROBE_KEYS) s.slots[k] = 0;
        clear();
        add();
        __syncthreads();
        u32 distinct = s.values.count;
        __syncthreads(); // all threads have read it
        if (distinct > most) {
            least = (PROBE_KEYS + most - 1) / most;
            u32 *slot = s.slots + u32(u64(key) * 0x9e3779b97f4a7c15ull >> 48) % Probe::SLOTS;
            atomicAdd(slot, 1);
            clear();
            if (*slot >= least) add(); // else the key is not frequent
            __syncthreads();
        }
        if (i <= ENTRIES && s.hits[i] >= least && s.values.are_few()) {
            u32 at = atomicAdd(&s.found.count, 1);
            s.found.keys[at] = i < ENTRIES ? s.values.value[i] : s.values.NONE;
            s.found.hits[at] = s.hits[i];
        }
        __syncthreads();
        add_found(s.found, n, PROBE_KEYS);
    }
    // By the whole block: adds keys of which none is heavy yet, found in `sampled` keys.
    __device__ void add_found(const Found &found, u64 n, u32 sampled) {
        u32 i = threadIdx.x, own = count, more = found.count, rank = i, room = 0;
        Bits key = 0;
        if (i < own) {
            key = keys[i];
            room = begins[i];
        } else if (i < own + more) {
            key = found.keys[i - own];
            room = payload_room(found.hits[i - own], n, sampled);
            rank = count_less(key, 0, own);
        }
#pragma unroll 8
        for (u32 k = 0; k < more; k++) rank += i < own + more && found.keys[k] < key;
        __syncthreads();
        if (i < own + more) keys[rank] = key;
        if (i < VALUES) begins[rank] = room;
        if (i == 0) count = own + more;
        __syncthreads();
    }

    // By the whole block, when keys and payload rooms are known: gives digits to the heavy keys and
    // to the buckets of the map `base`, and lays out the payloads behind the fixed-capacity buckets
    // and their overflow area.
    template <class Tile, class Base>
    __device__ void place(const Base &base, typename Tile::Shared &s, const FixedCall &fixed) {
        u32 i = threadIdx.x, *buckets = (u32 *)s.exchange; // the heavy keys' own
        static_assert(sizeof(s.exchange) >= VALUES * sizeof(u32), "room for all");
        if (i < BINS / 32) digits[i] = 0;
        __syncthreads();
        if (i < count) {
            u32 bucket = buckets[i] = base(keys[i]), digit = bucket + 2 * i + 1;
            atomicOr(digits + digit / 32, 1u << digit % 32);
        }
        if (Tile::HAS_VALUES && i < VALUES) {
            u32 room = begins[i], first = (fixed.room << fixed.digit_bits) + Tile::TILE,
                begin = block_exclusive_sum<VALUES>(room, s.totals);
            begins[i] = first + min(begin, fixed.equal_room);
            if (i == VALUES - 1) begins[VALUES] = first + min(begin + room, fixed.equal_room);
        } else if (Tile::HAS_VALUES) {
            pass_barrier_of_first();
        }
        __syncthreads();
        if (i < BINS) {
            u32 begin = 0, end = 0; // the buckets ascend
#pragma unroll
            for (u32 step = VALUES / 2; step > 0; step /= 2) {
                begin += begin + step <= count && buckets[begin + step - 1] < i ? step : 0;
                end += end + step <= count && buckets[end + step - 1] <= i ? step : 0;
            }
            entries[i] = begin | end << 16;
        }
        __syncthreads();
    }
};

// The digit of a key by the map `base`, with the heavy keys between its buckets.
template <class Base, class Bits> struct AroundHeavy {
    Base base;
    const HeavyKeys<Bits> *heavy;
    __device__ u32 operator()(Bits key) const {
        u32 bucket = base(key), entry = heavy->entries[bucket], begin = entry & 0xffff,
            end = entry >> 16;
        if (begin < end) {
            begin = heavy->count_less(key, begin, end);
            bucket += heavy->is(begin, key);
        }
        return bucket + 2 * begin;
    }
    __device__ bool prepare() const {
        __syncthreads();
        return true;
    }
};
template <class Base, class Bits> constexpr bool IS_MARKED<AroundHeavy<Base, Bits>> = true;
template <class Base, class Bits> constexpr bool IS_COSTLY<AroundHeavy<Base, Bits>> = true;

// ---- heavy keys in the output -----------------------------------------------------------------

// Writes one key `count` times. `thread` is one of `threads`.
template <class Bits>
__device__ inline void fill(Bits *out, u32 count, Bits key, u32 thread, u32 threads) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    u32 head = min(count, u32(-u64(out) % sizeof(Vector) / sizeof(Bits))),
        vectors = (count - head) / IN_VECTOR, tail = head + vectors * IN_VECTOR;
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
// Writes a heavy key to the output, unless the caller wants no keys, and its payload. Not inlined,
// as the function below, so that it takes no registers from the callers.
template <class Bits, class Value>
__device__ __noinline__ void write_heavy_key(Bits *out, u32 count, Bits key, Value *to,
                                             const Value *from, u32 thread, u32 threads) {
    constexpr u32 AT_ONCE = 4; // loads issued before the first store
    if constexpr (Value::BYTES > 0)
        for (u32 i = thread; i < count; i += AT_ONCE * threads) {
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
__device__ __noinline__ void write_heaviest_keys(HeaviestKeys<Bits> &s, Order order,
                                                 const u32 *all_counts,
                                                 const HeavyKeys<Bits> &heavy, u32 most, Bits *out,
                                                 Value *to, const Value *from) {
    u32 d = threadIdx.x, count = d < BINS ? all_counts[d] : 0;
    bool is_large = count > most && heavy.has(d);
    u32 i = is_large ? heavy.index(d) : 0, begin = heavy.begins[i];
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
        write_heavy_key(out ? out + start : out, s.counts[m], s.keys[m], to + start,
                        from + s.begins[m], blockIdx.x * THREADS + d, gridDim.x * THREADS);
    }
}
