// Fixed-capacity buckets by equal-depth intervals (`Intervals` of bucket_map.cuh), for keys that
// neither bits nor range spread, beside their heavy keys.
//
// The map interpolates the cumulative distribution of a sample linearly within each interval: so
// buckets have about equally many keys. Heavy keys are left out, and frequent keys of narrow
// intervals become heavy too.
//
// Where buckets are far from full, each block counts the same small sample and makes the map for
// itself. Else the blocks of `fixed_first` count a larger one in `interval_parts` parts, drawn as
// tickets, and the block that counts the last part makes the map (`FixedMapMaker`). A block draws
// parts until none is left before it waits for the map. So it waits only for blocks that run,
// however few those are.
#pragma once
#include "sort/fixed_scatter.cuh"

constexpr u32 OWN_PARTS = 2; // that a block counts which makes the map for itself
// Keys that each of these blocks reads for the ends.
constexpr u32 END_SAMPLE = OWN_PARTS * INTERVAL_SAMPLE;

constexpr u32 BUCKET_PART_BITS = 8, BUCKET_PARTS = 1 << BUCKET_PART_BITS; // parts of a bucket
// for 4-byte keys half as many intervals as `BucketMap`, which has more buckets
constexpr u32 FIXED_FINE_BITS = 4;

// The map around heavy keys, in parts of a bucket.
template <class Bits> struct FixedTables : MapTables<Bits, FIXED_FINE_BITS> {
    // First the room of each heavy key's payload, then where it begins in `fixed.values`.
    u32 begins[HEAVY_SLOTS + 1];
};
template <class Bits> using FixedBase = MapBase<Bits, FIXED_FINE_BITS, BUCKET_PART_BITS>;

// By the whole block, when the map of the other keys is made: gives digits to the heavy keys.
template <class Tile, class Bits>
__device__ inline void place_heavy(FixedTables<Bits> &tables, typename Tile::Shared &s, const BucketCall &fixed) {
    static_assert(sizeof(s.exchange) >= HEAVY_SLOTS * sizeof(u32), "room for all");
    tables.heavy.place(FixedBase<Bits>(tables), 0, (u32 *)s.exchange);
    if (!Tile::HAS_VALUES) return;
    // The payloads lie behind the buckets and their overflow area.
    u32 i = threadIdx.x, *begins = tables.begins;
    if (i < HEAVY_SLOTS) {
        u32 room = begins[i], first = (fixed.room << fixed.digit_bits) + Tile::TILE,
            begin = block_exclusive_sum<HEAVY_SLOTS>(room, s.totals);
        begins[i] = first + min(begin, fixed.heavy_room);
        if (i == HEAVY_SLOTS - 1) begins[HEAVY_SLOTS] = first + min(begin + room, fixed.heavy_room);
    } else {
        pass_barrier_of_first();
    }
    __syncthreads();
}

enum : u32 { READY = 1, FAILED };
template <class Bits> struct FixedMap {
    static constexpr u32 INTERVALS = FixedTables<Bits>::INTERVALS;
    // Zero before the sort:
    u32 samples[2][INTERVALS]; // histogram by interval, inward and outward
    u32 drawn, counted; // parts of the sample that blocks have drawn, and those they have counted
    u32 state; // READY when all below is written; or FAILED
    // Not zero before the sort:
    FixedTables<Bits> tables;

    // By the whole block that has made `tables`, or has found that no map fits.
    __device__ void publish(const FixedTables<Bits> &made, bool fits, const SortCall &call) {
        SortPlan<Bits> &plan = plan_of<Bits>(call);
        for (u32 i = threadIdx.x; i < sizeof(made) / sizeof(Vector); i += blockDim.x)
            ((Vector *)&tables)[i] = ((const Vector *)&made)[i];
        if (threadIdx.x == 0) {
            plan.fixed_function = FIXED_AROUND_HEAVY;
            if (!fits) plan.too_large = 1;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            store_relaxed(&state, fits ? READY : FAILED);
        }
    }
    // By the whole block: copies the finished map to shared memory.
    __device__ void load(FixedTables<Bits> &to) const {
        if (threadIdx.x == 0) __threadfence(); // after the load of `state`
        __syncthreads();
        for (u32 i = threadIdx.x; i < sizeof(to) / sizeof(Vector); i += blockDim.x)
            copy_common_to_shared((Vector *)&to + i, (const Vector *)&tables + i);
        wait_for_table();
    }
};

// Counts a block's part of the sample. The block that finishes last makes the map.
template <class Order, class Tile> struct FixedMapMaker {
    typedef typename Tile::Bits Bits;
    typedef FixedMap<Bits> Map;
    typedef FixedTables<Bits> Tables;
    typedef typename Tables::Intervals Intervals;
    static constexpr u32 THREADS = Tile::THREADS, INTERVALS = Tables::INTERVALS, SIDE = Tables::SIDE,
                         EACH = (INTERVALS + THREADS - 1) / THREADS;
    // In place of its count: an interval beyond the sample's ends.
    static constexpr u32 BEYOND = ~0u;
    // Log2 of the most keys of an interval that may become heavy. Each key's payload gets room for
    // all hits of the interval.
    static constexpr u32 HEAVY_BITS = Tile::HAS_VALUES ? 1 : 3;
    struct Shared { // in the tile's memory
        Bits ends[2][THREADS / WARP]; // by warp
        // the sample by interval of either layout; later, for the layout not chosen, the keys of each
        // interval that share buckets, in the order of keys
        u32 counts[2][INTERVALS];
        u32 totals[THREADS / WARP];
        u32 most[2]; // in one interval of either layout
        u32 beyond_ends[2]; // sample keys below and above the ends
        typename HeavyKeys<Bits>::Found frequent; // keys of narrow intervals
        u32 is_too_large;
    };
    static_assert(sizeof(Shared) <= sizeof(typename Tile::Shared), "it shares the tile's memory");

    Shared &s;
    typename Tile::Shared &tile;
    Tables &tables; // with the heavy keys of the probe
    HeavyKeys<Bits> &heavy;
    // The sample keys before each interval; in place of the table.
    u32 *prefix;
    const SortCall &call;
    const BucketCall &fixed;
    Map &map;
    u32 sampled;
    u64 ends[2]; // of the sample: the least key, bits inverted, and the greatest
    Intervals layouts[2]; // inward, outward

    __device__ FixedMapMaker(typename Tile::Shared &tile, FixedTables<Bits> &tables, const SortCall &call,
                             const BucketCall &fixed)
        : s(*(Shared *)&tile), tile(tile), tables(tables), heavy(tables.heavy), prefix(tables.intervals), call(call),
          fixed(fixed), map(*(Map *)fixed.map),
          sampled((fixed.interval_parts > 0 ? fixed.interval_parts : OWN_PARTS) * INTERVAL_SAMPLE) {}

    // By the whole block: counts a part of the sample, or all of it if the block is alone. Returns
    // whether all parts are counted.
    __device__ bool count(u32 part) {
        bool is_alone = fixed.interval_parts == 0;
        count_keys(is_alone, part);
        if (is_alone) return true;
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS)
            if (u32 count = s.counts[0][i]) atomicAdd(map.samples[0] + i, count);
        if (!is_last_of(&map.counted, fixed.interval_parts)) return false;
        constexpr u32 LOADS = (2 * INTERVALS + THREADS - 1) / THREADS;
        u32 samples[LOADS];
        load_samples<THREADS>(samples, map);
#pragma unroll
        for (u32 k = 0; k < LOADS; k++)
            if (u32 i = k * THREADS + threadIdx.x; i < 2 * INTERVALS) s.counts[0][i] = samples[k];
        __syncthreads();
        return true;
    }
    // Makes the map from the counts. Returns whether all buckets have room.
    __device__ bool make() {
        if (threadIdx.x < 2) s.most[threadIdx.x] = s.beyond_ends[threadIdx.x] = 0;
        if (threadIdx.x == 0) s.is_too_large = s.frequent.count = 0;
        __syncthreads();
        u32 most[2] = {0, 0};
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            most[0] = max(most[0], s.counts[0][i]);
            most[1] = max(most[1], s.counts[1][i]);
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_max(most[w]); lane_id() == 0) atomicMax(s.most + w, all);
        __syncthreads();
        u32 best = s.most[1] < s.most[0];
        const Intervals layout = best ? layouts[1] : layouts[0];
        u32 *intervals = s.counts[1 - best];
        classify(layout, s.counts[best], intervals);
        if (heavy.count + s.frequent.count > most_heavy(fixed.digit_bits)) return false;
        heavy.add_found(s.frequent, call.n, sampled, tables.begins);
        u32 all = sum(intervals);
        if (threadIdx.x == 0) {
            tables.layout = layout;
            tables.is_linear = false;
        }
        if (!fill(layout, intervals, all)) return false;
        place_heavy<Tile>(tables, tile, fixed);
        return true;
    }

  private:
    // Counts the keys of a part, or those of the sample's ends, by interval.
    __device__ void count_keys(bool at_ends_only, u32 part) {
        Order order{Bits(call.flip)};
        // All parts read the same keys for the ends. Few keys lie beyond these ends, so they fit a
        // bucket. And intervals are narrow where the keys end.
        constexpr u32 KEYS = INTERVAL_SAMPLE / THREADS, ENDS = END_SAMPLE / THREADS;
        static_assert(END_SAMPLE == OWN_PARTS * INTERVAL_SAMPLE, "alone, a block counts these");
        Bits key[KEYS], at_ends[ENDS];
        auto sample = [&](u32 i, u32 all) {
            return ((const Bits *)call.keys_in)[sampled_at(i * THREADS + threadIdx.x, u32(call.n) / all, fixed.seed)];
        };
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) at_ends[k] = sample(k, END_SAMPLE);
#pragma unroll
        for (u32 k = 0; k < KEYS; k++)
            if (!at_ends_only) key[k] = sample(part * KEYS + k, sampled);
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS) s.counts[0][i] = 0;
        Bits least_inverted = 0, greatest = 0;
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) {
            least_inverted = max(least_inverted, Bits(~order.to(at_ends[k])));
            greatest = max(greatest, order.to(at_ends[k]));
        }
        constexpr u32 WARPS = THREADS / WARP;
        static_assert(WARP % WARPS == 0, "each warp reads all");
        least_inverted = warp_max(least_inverted);
        greatest = warp_max(greatest);
        if (lane_id() == 0) {
            s.ends[0][warp_id()] = least_inverted;
            s.ends[1][warp_id()] = greatest;
        }
        __syncthreads(); // also after the counts are zero
        ends[0] = warp_max(s.ends[0][lane_id() % WARPS]);
        ends[1] = warp_max(s.ends[1][lane_id() % WARPS]);
        layouts[0] = Intervals::inward(ends, Order::GRAIN);
        layouts[1] = Intervals::outward();
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) {
            if (!at_ends_only && k >= KEYS) break;
            Bits ordered = order.to(!at_ends_only && k < KEYS ? key[k] : at_ends[k]);
            if (heavy.contains(ordered)) continue;
#pragma unroll
            for (u32 w = 0; w < 2; w++) atomicAdd(s.counts[w] + layouts[w].interval(layouts[w](ordered)), 1);
        }
        __syncthreads();
    }
    // Writes the count of each interval, in key order, and collects heavy keys. The loop is not
    // unrolled: instruction fetch bounds code that runs once.
    __device__ void classify(const Intervals &layout, const u32 *counts, u32 *intervals) {
        u32 beyond = layout.beyond(), beyond_ends[2] = {0, 0};
        // Each key of the interval fills a quarter of a bucket or more.
        auto is_heavy = [&](u32 count, u32 bits) {
            return bits <= HEAVY_BITS && 4 * float(count) * float(call.n) >= float(fixed.room) * float(sampled << bits);
        };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            u32 interval = layout.nth_in_order(i), count = counts[interval], bits = layout.width_bits(interval);
            if (interval % SIDE >= beyond) {
                beyond_ends[interval >= SIDE] += count;
                count = BEYOND;
            } else if (is_heavy(count, bits)) {
                add_frequent(layout.least(interval), 1u << bits, count);
                count = 0;
            }
            intervals[i] = count;
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_add(beyond_ends[w]); lane_id() == 0 && all > 0) atomicAdd(s.beyond_ends + w, all);
        __syncthreads();
    }
    // By one thread: notes the keys of an interval, if there may be so many heavy ones.
    __device__ void add_frequent(Bits least, u32 keys, u32 hits) {
        u32 more = 0;
        for (u32 k = 0; k < keys; k++) more += !heavy.contains(Bits(least + k));
        u32 at = atomicAdd(&s.frequent.count, more);
        if (at + more + heavy.count > most_heavy(fixed.digit_bits)) return;
        for (u32 k = 0; k < keys; k++)
            if (!heavy.contains(Bits(least + k))) {
                s.frequent.keys[at] = Bits(least + k);
                s.frequent.hits[at++] = hits;
            }
    }
    // Writes the sample keys before each interval. Returns the sum of all.
    __device__ u32 sum(const u32 *intervals) {
        u32 begin = threadIdx.x * EACH, sum = 0, own[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            own[e] = begin + e < INTERVALS ? intervals[begin + e] : BEYOND;
            if (own[e] == BEYOND) own[e] = 0;
            sum += own[e];
        }
        u32 upto = warp_inclusive_sum(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 earlier = upto - sum + sum_of_earlier_warps(s.totals),
            all = warp_add(lane_id() < THREADS / WARP ? s.totals[lane_id()] : 0);
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (begin + e < INTERVALS) {
                prefix[begin + e] = earlier;
                earlier += own[e];
            }
        __syncthreads();
        return all;
    }
    // Turns the prefix of each interval into its entry of the table. Returns whether all buckets
    // have room. Keys beyond the ends have buckets of their own.
    __device__ bool fill(const Intervals &layout, const u32 *intervals, u32 all) {
        u32 below = s.beyond_ends[0], above = s.beyond_ends[1], sharing = all + below + above,
            buckets = (1u << fixed.digit_bits) - 2 * heavy.count, fresh = (below > 0) + (above > 0);
        // parts that sample keys share, less two for rounding
        u32 parts = ((buckets - fresh) << BUCKET_PART_BITS) - 2;
        float each = __fdividef(float(parts), float(max(sharing, 1u)));
        if (float(call.n) * float(sharing) * BUCKET_PARTS > 0.97f * float(fixed.room) * float(sampled) * float(parts))
            return false;
        auto at = [&](u32 before) { return u32(float(before + below) * each) + ((below > 0) << BUCKET_PART_BITS); };
        // The entries take the place of the prefixes: each thread reads its own before a barrier.
        u32 begins[EACH], ends[EACH];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 i = e * THREADS + threadIdx.x;
            begins[e] = i < INTERVALS ? prefix[i] : 0;
            ends[e] = i + 1 < INTERVALS ? prefix[i + 1] : all;
        }
        __syncthreads();
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 i = e * THREADS + threadIdx.x;
            if (i >= INTERVALS) break;
            u32 interval = layout.nth_in_order(i), first = at(begins[e]), end = at(ends[e]);
            if (intervals[i] == BEYOND)
                first = end = interval < SIDE ? 0 : parts - u32(float(above) * each) + (fresh << BUCKET_PART_BITS);
            bool rises = layout.rises(interval);
            u32 step = end - first, from = rises || step == 0 ? first : end - 1;
            if (step > 0x7fff) store_shared(&s.is_too_large, 1u);
            if (!rises) step = -step;
            tables.intervals[interval] = (from - step * layout.number(interval)) << PART_BITS | u16(step);
        }
        __syncthreads();
        return s.is_too_large == 0;
    }
};

// Makes the map by intervals, or waits for it, and leaves it in `tables`. `part` is the block's
// first ticket for the parts of the sample. Returns whether the map fits.
template <class Order, class Tile>
__device__ inline bool make_intervals(typename Tile::Shared &s, FixedTables<typename Tile::Bits> &tables,
                                      const SortCall &call, const BucketCall &fixed, u32 tile, u32 part) {
    typedef FixedMapMaker<Order, Tile> Maker;
    FixedMap<typename Tile::Bits> &map = *(FixedMap<typename Tile::Bits> *)fixed.map;
    bool is_alone = fixed.interval_parts == 0;
    while (is_alone || part < fixed.interval_parts) {
        Maker maker(s, tables, call, fixed);
        if (maker.count(part)) {
            bool fits = maker.make();
            if (is_alone && (fits || tile > 0)) return fits;
            map.publish(tables, fits, call);
            if (is_alone) return false;
        }
        part = draw(&map.drawn); // has a barrier: the maker's memory is free
    }
    u32 state = READY;
    if (threadIdx.x == 0)
        while ((state = load_relaxed(&map.state)) == 0) {}
    if (__syncthreads_or(state == FAILED)) return false;
    map.load(tables);
    return true;
}
