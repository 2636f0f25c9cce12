// Radix sort by fixed-capacity buckets: one scatter step into scratch memory, without a histogram
// before it. Such a bucket has room for as many keys as a block sorts.
//
// Every block probes the same PROBE_KEYS keys, so all select the same map:
//
// - by bits, if no bucket gets too full; else by range
// - else heavy keys of the probe have digits of their own (heavy_keys.cuh), and others go by range
//   if that spreads them, or by intervals, whose larger sample adds heavy keys
//   (fixed_intervals.cuh)
//
// A single step is for more keys than these buckets hold. It takes more buckets, by bits or by
// range alone; if neither spreads the keys, it moves none, and they go to counted buckets.
//
// `fixed_first` calls the maps; `fixed_sort` (bucket_sort.cuh) sorts each bucket. If no map fits, or a
// bucket overflows, `too_large` is set and the passes sort the input.
#pragma once
#include "sort/fixed_intervals.cuh"

// ---- the probe, by bits and by range --------------------------------------------------------

// The keys that a bucket hardly ever exceeds if keys are random and a bucket has `average` of them: one of 256 buckets
// has more than 13 of 512 once in 130 000 times. `probe_limits` of the host has the same formula.
__device__ inline u32 most_by_chance(u32 average) { return 3 * average + 7; }

// The fixed-capacity bucket of a key by bits or by range.
template <class Order, class Tile> struct FixedDigit {
    typedef typename Tile::Bits Bits;
    static_assert(PROBE_KEYS == Tile::THREADS, "a thread for each");
    static constexpr bool IS_SINGLE = Tile::DIGITS > BINS; // of a single step
    struct ProbeState { // in the tile's memory, before the tile is loaded
        u32 counts[2][BINS]; // probed keys of each bucket or, if IS_SINGLE, each part; by bits and by range
        // by warp: the least key, bits inverted, and the greatest
        Bits ends[2][Tile::THREADS / WARP];
        bool has_map; // whether thread 0 saw a finished map of intervals
    };
    ProbeState &shared;
    SortPlan<Bits> &plan;
    Order order;
    Bits probe; // the thread's probed key: raw, and after `prepare` encoded
    // buckets, and digits around heavy keys; most probed keys of a bucket or part; most of all beyond
    // that
    u32 buckets, digits, most, beyond;
    u32 drawn, state; // of thread 0: the block's ticket, and the state of the map of intervals
    Share<Bits> share;

    // Issues the load of the thread's probed key.
    __device__ FixedDigit(typename Tile::Shared &s, const SortCall &call, const BucketCall &fixed)
        : shared(*(ProbeState *)&s), plan(plan_of<Bits>(call)), order{Bits(call.flip)}, buckets(1u << fixed.bits),
          digits(1u << fixed.digit_bits), most(fixed.most), beyond(fixed.beyond), drawn(0), state(0),
          share(Share<Bits>::whole(IS_SINGLE ? BINS : buckets)) {
        probe = ((const Bits *)call.keys_in)[sampled_at(threadIdx.x, u32(call.n) / PROBE_KEYS, fixed.seed)];
        if (threadIdx.x == 0) { // issued with the probe
            if (Tile::HAS_VALUES) drawn = add_relaxed(&plan.fixed_ticket, 1);
            if (!IS_SINGLE) state = load_relaxed(&((FixedMap<Bits> *)fixed.map)->state);
        }
        if (threadIdx.x < BINS) shared.counts[0][threadIdx.x] = shared.counts[1][threadIdx.x] = 0;
        __syncthreads();
    }

    __device__ u32 operator()(Bits key) const { return share(key); }

    // Selects the map, by the whole block, before a tile uses it. Returns whether bits or range
    // spread the keys.
    __device__ bool prepare() {
        probe = order.to(probe);
        if (threadIdx.x == 0) shared.has_map = state == READY;
        if (is_spread(0)) {
            if (IS_SINGLE) share = Share<Bits>::whole(buckets);
            if (threadIdx.x == 0) plan.fixed_function = FIXED_BY_BITS;
            return true;
        }
        if (shared.has_map) return false;
        share = range_map(shared, Bits(~probe), probe, IS_SINGLE ? BINS : buckets);
        // A range of nearly all possible keys spreads no better than the first bits.
        bool is_narrow = share.base >> (8 * sizeof(Bits) - 4) > 0 ||
                         Bits(share.base + share.most - 1) >> (8 * sizeof(Bits) - 4) < 15;
        bool will_do = is_narrow && share.range() > buckets && is_spread(1);
        if (will_do && IS_SINGLE) share.factor = share.factor_for(buckets);
        if (will_do && threadIdx.x == 0) plan.fixed_function = FIXED_BY_RANGE;
        return will_do;
    }
    // By the whole block: whether the range spreads the keys that are not heavy, over the buckets
    // that these leave. Then `tables` have the map. `key` is the thread's probed key.
    __device__ bool spreads_others(FixedTables<Bits> &tables, Bits key) {
        bool is_heavy = tables.heavy.contains(key);
        if (threadIdx.x < BINS) shared.counts[0][threadIdx.x] = 0;
        u32 others = __syncthreads_count(!is_heavy), left = digits - 2 * tables.heavy.count;
        share = Share<Bits>::whole(left);
        if (others > 0) {
            share = range_map(shared, is_heavy ? Bits(0) : Bits(~key), is_heavy ? Bits(0) : key, left);
            if (share.range() <= left) return false;
            if (!has_room(shared.counts[0], key, !is_heavy)) return false;
        }
        if (threadIdx.x == 0) {
            tables.share = share;
            tables.is_linear = true;
        }
        __syncthreads(); // also: the probe's memory is free
        return true;
    }

  private:
    __device__ bool is_spread(u32 candidate) { return has_room(shared.counts[candidate], probe, true); }
    // By the whole block: whether all buckets have room, judged by the probed keys that are counted. `counts` is zero.
    // A bucket with more keys than it has by chance holds a frequent one, whatever `beyond` allows.
    __device__ bool has_room(u32 *counts, Bits key, bool is_counted) const {
        u32 by_chance = most_by_chance(PROBE_KEYS / (IS_SINGLE ? BINS : buckets)),
            before = is_counted ? atomicAdd(counts + share(key), 1) : 0;
        return __syncthreads_count(before >= most) <= beyond && !__syncthreads_or(before >= max(most, by_chance));
    }
    // Not inlined: most inputs do not need it.
    static __device__ __noinline__ Share<Bits> range_map(ProbeState &shared, Bits least_inverted, Bits greatest,
                                                         u32 buckets) {
        constexpr u32 WARPS = Tile::THREADS / WARP;
        static_assert(WARP % WARPS == 0, "each warp reads all");
        least_inverted = warp_max(least_inverted);
        greatest = warp_max(greatest);
        if (lane_id() == 0) {
            shared.ends[0][warp_id()] = least_inverted;
            shared.ends[1][warp_id()] = greatest;
        }
        __syncthreads();
        Bits least = Bits(~warp_max(shared.ends[0][lane_id() % WARPS]));
        greatest = warp_max(shared.ends[1][lane_id() % WARPS]);
        // Keys that were not probed may lie beyond the ends.
        Bits margin = Bits(greatest - least) / 32;
        u64 wider[2] = {Bits(~(least - min(least, margin))), Bits(greatest + min(Bits(~greatest), margin))};
        Share<Bits> share(wider);
        if (share.range() > buckets) share.factor = share.factor_for(buckets);
        return share;
    }
};

// ---- all maps -------------------------------------------------------------------------------

// Scatters a tile whose keys neither bits nor range spread. Not inlined, so that it takes no
// registers from the common maps.
template <class Order, class Tile>
__device__ __noinline__ void scatter_by_fallback(typename Tile::Shared &s, FixedTables<typename Tile::Bits> &tables,
                                                 SortCall call, BucketCall fixed, u32 tile,
                                                 FixedDigit<Order, Tile> digit, typename Tile::Bits probe) {
    typedef typename Tile::Bits Bits;
    typedef typename HeavyKeys<Bits>::Probe Probe;
    static_assert(sizeof(Probe) <= sizeof(s), "it shares the tile's memory");
    FixedMap<Bits> &map = *(FixedMap<Bits> *)fixed.map;
    if (digit.shared.has_map) {
        map.load(tables);
    } else {
        // The ticket arrives while heavy keys are found.
        u32 part = threadIdx.x == 0 ? add_relaxed(&map.drawn, 1) : 0;
        __syncthreads(); // all threads have read `has_map`
        bool may_help = tables.heavy.find(*(Probe *)&s, probe, most_heavy(fixed.digit_bits), call.n, tables.begins);
        // If a key that was probed twice would fill half a bucket, passes sort: they count few distinct keys fast.
        if (!may_help && call.n > PROBE_KEYS / 4 * u64(fixed.room)) {
            if (threadIdx.x == 0) digit.plan.too_large = 1;
            return;
        }
        if (digit.spreads_others(tables, probe)) {
            place_heavy<Tile>(tables, s, fixed);
        } else {
            if (threadIdx.x == 0) s.tile = part;
            __syncthreads();
            part = s.tile;
            __syncthreads();
            if (!make_intervals<Order, Tile>(s, tables, call, fixed, tile, part)) return;
        }
    }
    bool is_own = fixed.interval_parts == 0 || tables.is_linear; // each block has made the map
    AroundHeavy<FixedBase<Bits>, Bits> around{FixedBase<Bits>(tables), &tables.heavy, 0};
    scatter_around<Order, Tile>(s, call, fixed, tile, around, tables.begins);
    if (tile == 0 && is_own) map.publish(tables, true, call);
}

// Scatters a tile. If neither bits nor range spread the keys, `scatter_others(tile, digit, probe)` does.
template <class Order, class Tile, class ScatterOthers>
__device__ inline void scatter_by_probe(typename Tile::Shared &s, const SortCall &call, const BucketCall &fixed,
                                        const ScatterOthers &scatter_others) {
    typedef typename Tile::Bits Bits;
    FixedDigit<Order, Tile> digit(s, call, fixed);
    FixedPosition position(fixed, digit.plan.too_large);
    if constexpr (!Tile::HAS_VALUES) {
        if (IS_PAST_LENGTH(blockIdx.x, Tile::TILE, call.n)) return;
        if (scatter_in_any_order<Order, Tile>(s, call, fixed, blockIdx.x, digit, position)) return;
        scatter_others(blockIdx.x, digit, Order{Bits(call.flip)}.to(digit.probe));
    } else {
        bool will_do = digit.prepare();
        if (threadIdx.x == 0) s.tile = digit.drawn;
        __syncthreads();
        u32 tile = s.tile;
        if (IS_PAST_LENGTH(tile, Tile::TILE, call.n)) return;
        if (will_do) scatter_in_order<Order, Tile>(s, call, fixed, tile, digit, position);
        else scatter_others(tile, digit, digit.probe);
    }
}

template <class Order, class Tile>
__device__ void fixed_first(typename Tile::Shared &s, FixedTables<typename Tile::Bits> &tables, const SortCall &call,
                            const BucketCall &fixed) {
    scatter_by_probe<Order, Tile>(s, call, fixed, [&](u32 tile, const auto &digit, typename Tile::Bits probe) {
        scatter_by_fallback<Order, Tile>(s, tables, call, fixed, tile, digit, probe);
    });
}

// Moves no key if neither bits nor range spread the keys. Outlined, so that the code of shorter sorts lies together.
template <class Order, class Tile>
__device__ __noinline__ void scatter_by_single_step(typename Tile::Shared &s, SortCall call, BucketCall fixed) {
    scatter_by_probe<Order, Tile>(s, call, fixed, [](auto...) {});
}
