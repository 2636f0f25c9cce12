// Fixed-capacity buckets between few values: if the probed keys have few distinct values and hardly
// any occurs once, these values are the splitters (fixed_splitters.cuh).
//
// `fixed_first` tries this before splitters of a sample. Keys equal to a value go to equality
// buckets: keys-only are counted and not moved. Any other key goes to the bucket between its two
// neighbours; if one overflows, the passes sort.
#pragma once
#include "sort/fixed_splitters.cuh"

// The distinct values of the probed keys, one key a thread. COUNTS: how often each occurs, not only
// whether it repeats.
template <class Bits, bool COUNTS> struct ProbedValues {
    static constexpr u32 ENTRIES = FewValues<Bits>::ENTRIES;
    FewValues<Bits> few;
    // by hash-table entry, the last for the greatest possible key: occurrences after the first
    u32 repeats[ENTRIES + 1];
    // the entry of each value, in order of arrival; more may arrive at once
    u32 entries[VALUES];
    Bits values[VALUES];

    // By the whole block. Returns whether values are few.
    __device__ bool collect(Bits key) {
        static_assert(ENTRIES < PROBE_KEYS, "a thread for each");
        if (threadIdx.x <= ENTRIES) repeats[threadIdx.x] = 0;
        few.clear();
        bool is_first = false;
        u32 entry = few.add(key, [&](u32 i, u32 entry) {
            is_first = true;
            if (i < VALUES) entries[i] = entry;
        });
        if (!is_first && COUNTS) atomicAdd(repeats + entry, 1);
        if (!is_first && !COUNTS) store_shared(repeats + entry, 1u);
        __syncthreads();
        bool are_few = few.are_few();
        if (are_few && threadIdx.x < few.count)
            values[threadIdx.x] =
                entries[threadIdx.x] < ENTRIES ? few.value[entries[threadIdx.x]] : few.NONE;
        return are_few;
    }
    // By a thread for each value.
    __device__ u32 repeats_of() const { return repeats[entries[threadIdx.x]]; }
    // By the whole block, if values are few: how many values were probed once. Their share of the
    // probe estimates the share of all keys whose value was not probed (Good 1953, "The population
    // frequencies of species and the estimation of population parameters").
    __device__ u32 once() const {
        return __syncthreads_count(threadIdx.x < few.count && repeats_of() == 0);
    }
    // By a thread for each value, after `collect`: how many values are less.
    __device__ u32 rank() const {
        u32 less = 0;
#pragma unroll 4
        for (u32 i = 0; i < few.count; i++) less += values[i] < values[threadIdx.x];
        return less;
    }
};

template <class Order, class Tile> struct BetweenValues {
    typedef typename Tile::Shape::Bits Bits;
    typedef ProbedValues<Bits, Tile::HAS_VALUES> Probed;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::TILE / THREADS;
    // The most values. There is one bucket more than values, and room for the payload of all.
    static constexpr u32 MOST = Tile::HAS_VALUES ? 32 : 64;
    static constexpr u32 COPIES = 8; // of a counter, for adjacent lanes
    static_assert(sizeof(Probed) <= sizeof(typename Tile::Shared), "it shares the tile's memory");
    struct Tables { // in shared memory, behind the tile
        SplitterTables<Bits> between;
        u32 counters[MOST * COPIES]; // keys equal to a value
    };

    // By the whole block, if keys may be few values. Returns whether the tile is scattered; `few`
    // becomes whether values are few.
    static __device__ bool run(typename Tile::Shared &s, Tables &tables, const SortCall &call,
                               const FixedCall &fixed, u32 tile, Bits probe, bool &few) {
        u64 first = u64(tile) * Tile::TILE;
        u32 left = u32(min(call.n - first, u64(Tile::TILE)));
        // The loads are in flight while values are found. A fallback then finds the keys in the L1
        // cache.
        Bits key[ITEMS];
        if constexpr (!Tile::HAS_VALUES) {
            const Bits *from = (const Bits *)call.keys_in + first;
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) key[i] = at(i) < left ? from[at(i)] : Bits(0);
            for (u32 i = threadIdx.x; i < MOST * COPIES; i += THREADS) tables.counters[i] = 0;
        }
        Probed &probed = *(Probed *)&s;
        __syncthreads(); // the shared memory is free for `probed`
        few = probed.collect(probe);
        u32 once = few ? probed.once() : 0;
        bool will_do =
            few && probed.few.count < min(MOST, 1u << fixed.bits) && once <= fixed.most_once;
        if (will_do) find(tables.between.found, probed, call);
        // half of the least power of two that exceeds the number of values
        u32 all = probed.few.count, half = 1u << (31 - __clz(int(all)));
        __syncthreads(); // all have read `probed`
        if (!will_do) return false;
        if constexpr (Tile::HAS_VALUES) {
            if (threadIdx.x < VALUES)
                tables.between.found.make_room(tables.between.found.begins[threadIdx.x], s.totals,
                                               fixed, Tile::TILE);
            else pass_barrier_of_first();
            __syncthreads();
            scatter_between<Order, Tile>(s, tables.between, call, fixed, tile, half);
        } else {
            count(tables, all, half, call, fixed, tile, key, left);
        }
        return true;
    }

  private:
    static __device__ u32 at(u32 i) { return i * THREADS + threadIdx.x; }

    // Writes the values in ascending order, and the payload room of each, from which `make_room`
    // makes begins.
    static __device__ void find(Splitters<Bits> &found, const Probed &probed,
                                const SortCall &call) {
        auto room = [&](float times) { return found.room(times, call.n, PROBE_KEYS); };
        if (threadIdx.x < VALUES) {
            found.values[threadIdx.x] = Bits(~Bits(0));
            // The greatest possible key, in the first unused entry, may occur too.
            if (Tile::HAS_VALUES)
                found.begins[threadIdx.x] = threadIdx.x == probed.few.count ? room(0) : 0;
        }
        __syncthreads();
        if (threadIdx.x >= probed.few.count) return;
        u32 position = probed.rank();
        found.values[position] = probed.values[threadIdx.x];
        if (Tile::HAS_VALUES) found.begins[position] = room(float(1 + probed.repeats_of()));
    }
    // Keys-only: counts keys equal to one of `all` values. The few others are stored one by one.
    static __device__ void count(Tables &tables, u32 all, u32 half, const SortCall &call,
                                 const FixedCall &fixed, u32 tile, Bits (&key)[ITEMS], u32 left) {
        const Bits *values = tables.between.found.values;
        Order order{Bits(call.flip)};
        u32 copy = threadIdx.x % COPIES, less[ITEMS];
        if (tile == 0) publish_splitters<false>(tables.between.found, call, fixed);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            key[i] = order.to(key[i]);
            less[i] = 0; // values less than the key
        }
#pragma unroll 1
        for (u32 step = half; step > 0; step /= 2)
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                less[i] += values[less[i] + step - 1] < key[i] ? step : 0;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (at(i) >= left) break;
            if (values[less[i]] == key[i]) {
                atomicAdd(tables.counters + less[i] * COPIES + copy, 1);
            } else {
                u32 earlier = atomicAdd(fixed.counts + 2 * less[i], 1);
                if (earlier < fixed.room)
                    ((Bits *)fixed.keys)[u64(less[i]) * fixed.room + earlier] = key[i];
                else ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
            }
        }
        __syncthreads();
        if (threadIdx.x > all) return;
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++)
            sum += tables.counters[threadIdx.x * COPIES + (c + threadIdx.x) % COPIES];
        if (sum > 0) atomicAdd(fixed.counts + 2 * threadIdx.x + 1, sum);
    }
};
