// Slots between few values: where the keys that every block looks at are few values, and hardly any of them only once, these are the splitters. Keys
// that are equal to one and have nothing beside them are counted, and go nowhere.
#pragma once
#include "sort/slot_splitters.cuh"

// The values of the keys that a block looks at, one of a thread. COUNTS: and how often each is there, not only whether more than once.
template <class Bits, bool COUNTS> struct ProbedValues {
    static constexpr u32 ENTRIES = FewValues<Bits>::ENTRIES;
    FewValues<Bits> few;
    u32 repeats[ENTRIES + 1]; // by slot, and of the greatest of all keys: keys beyond the first, or whether there are
    u32 entries[VALUES];   // of values, as they came; others may come at the same time as the last of few
    Bits values[VALUES];

    // By the whole block: whether they are few.
    __device__ bool collect(Bits key) {
        static_assert(ENTRIES < LOOKED_AT, "a thread for each");
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
        if (are_few && threadIdx.x < few.count) values[threadIdx.x] = entries[threadIdx.x] < ENTRIES ? few.value[entries[threadIdx.x]] : few.NONE;
        return are_few;
    }
    // By a thread of each value.
    __device__ u32 repeats_of() const { return repeats[entries[threadIdx.x]]; }
    // By the whole block, of few: how many values were seen once. About that share of all keys is of values that were not seen (Good 1953, "The population
    // frequencies of species and the estimation of population parameters").
    __device__ u32 once() const { return __syncthreads_count(threadIdx.x < few.count && repeats_of() == 0); }
    // By a thread of each value, when that is known: how many are less.
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
    static constexpr u32 MOST = Tile::HAS_VALUES ? 32 : 64; // values, and a slot behind them; what goes with so many has room
    static constexpr u32 COPIES = 8; // of a counter, for lanes side by side
    static_assert(sizeof(Probed) <= sizeof(typename Tile::Shared), "in the tile's place");
    struct Tables { // behind the tile
        SplitterTables<Bits> between;
        u32 counters[MOST * COPIES]; // of keys that are equal to a value
    };

    // By the whole block, if keys are few values. Whether it was done; and whether they are few.
    static __device__ bool run(typename Tile::Shared &s, Tables &tables, const SortCall &call, const SlotCall &slots, u32 tile, Bits probe, bool &few) {
        u64 first = u64(tile) * Tile::TILE;
        u32 left = u32(min(call.n - first, u64(Tile::TILE)));
        Bits key[ITEMS]; // on their way while values are found; others who need them have them in the L1 cache then
        if constexpr (!Tile::HAS_VALUES) {
            const Bits *from = (const Bits *)call.keys_in + first;
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) key[i] = at(i) < left ? from[at(i)] : Bits(0);
            for (u32 i = threadIdx.x; i < MOST * COPIES; i += THREADS) tables.counters[i] = 0;
        }
        Probed &probed = *(Probed *)&s;
        __syncthreads(); // nobody needs what was here
        few = probed.collect(probe);
        u32 once = few ? probed.once() : 0;
        bool will_do = few && probed.few.count < min(MOST, 1u << slots.bits) && once <= slots.most_once;
        if (will_do) find(tables.between.found, probed, call);
        u32 all = probed.few.count, half = 1u << (31 - __clz(int(all))); // of the least power of two that is more
        __syncthreads(); // all have read it
        if (!will_do) return false;
        if constexpr (Tile::HAS_VALUES) {
            if (threadIdx.x < VALUES) tables.between.found.make_room(tables.between.found.begins[threadIdx.x], s.totals, slots, Tile::TILE);
            else pass_barrier_of_first();
            __syncthreads();
            to_slots_between<Order, Tile>(s, tables.between, call, slots, tile, half);
        } else {
            count(tables, all, half, call, slots, tile, key, left);
        }
        return true;
    }

  private:
    static __device__ u32 at(u32 i) { return i * THREADS + threadIdx.x; }

    // In order; and how much room what goes with each has, where it will begin.
    static __device__ void find(Splitters<Bits> &found, const Probed &probed, const SortCall &call) {
        auto room = [&](float times) { return found.room(times, call.n, LOOKED_AT); };
        if (threadIdx.x < VALUES) {
            found.values[threadIdx.x] = Bits(~Bits(0));
            // The first that is not there is the greatest of all keys, which may be.
            if (Tile::HAS_VALUES) found.begins[threadIdx.x] = threadIdx.x == probed.few.count ? room(0) : 0;
        }
        __syncthreads();
        if (threadIdx.x >= probed.few.count) return;
        u32 position = probed.rank();
        found.values[position] = probed.values[threadIdx.x];
        if (Tile::HAS_VALUES) found.begins[position] = room(float(1 + probed.repeats_of()));
    }
    // Keys alone, of `all` values. Those between two, which are hardly any, go to their slots one by one.
    static __device__ void count(Tables &tables, u32 all, u32 half, const SortCall &call, const SlotCall &slots, u32 tile, Bits (&key)[ITEMS], u32 left) {
        const Bits *values = tables.between.found.values;
        Order order{Bits(call.flip)};
        u32 copy = threadIdx.x % COPIES, less[ITEMS];
        if (tile == 0) publish_splitters<false>(tables.between.found, call, slots);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            key[i] = order.to(key[i]);
            less[i] = 0; // values
        }
#pragma unroll 1
        for (u32 step = half; step > 0; step /= 2)
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) less[i] += values[less[i] + step - 1] < key[i] ? step : 0;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            if (at(i) >= left) break;
            if (values[less[i]] == key[i]) {
                atomicAdd(tables.counters + less[i] * COPIES + copy, 1);
            } else {
                u32 earlier = atomicAdd(slots.counts + 2 * less[i], 1);
                if (earlier < slots.room) ((Bits *)slots.keys)[u64(less[i]) * slots.room + earlier] = key[i];
                else ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
            }
        }
        __syncthreads();
        if (threadIdx.x > all) return;
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++) sum += tables.counters[threadIdx.x * COPIES + (c + threadIdx.x) % COPIES];
        if (sum > 0) atomicAdd(slots.counts + 2 * threadIdx.x + 1, sum);
    }
};
