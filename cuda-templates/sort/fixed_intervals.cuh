// Fixed-capacity buckets by equal-depth intervals (`Intervals` of bucket_map.cuh), for keys that
// neither bits nor range spread and that are too many for splitters.
//
// The map interpolates the cumulative distribution of a sample linearly within each interval: so
// buckets have about equally many keys, nearly evenly spread. A new bucket begins where the density
// of keys jumps. A frequent key in a narrow interval has an equality bucket. So has the split key:
// the most frequent probed key in a wide interval, which it splits in two.
//
// The blocks of `fixed_first` count the sample in `interval_parts` parts, drawn as tickets, and the
// block that counts the last part makes the map (`FixedMapMaker`). A block draws parts until none
// is left before it waits for the map. So it waits only for blocks that run, however few those are.
#pragma once
#include "sort/fixed_scatter.cuh"

constexpr u32 END_SAMPLE = 2048; // keys that each of these blocks reads for the ends
constexpr u32 FREQUENT = 8; // the least count among PROBE_KEYS probed keys of a split key

enum : u32 { READY = 1, FAILED };
template <class Bits> struct FixedMap {
    // for 4-byte keys half as many intervals as `BucketMap`, which has more buckets
    static constexpr u32 FINE_BITS = 4;
    typedef ::Intervals<Bits, FINE_BITS> Intervals;
    static constexpr u32 SIDE = Intervals::SIDE, INTERVALS = 2 * SIDE;
    // Zero before the sort:
    u32 samples[2][INTERVALS]; // histogram by interval, inward and outward
    u32 split_keys; // sample keys equal to `split_key`, which the histograms leave out
    u32 drawn, counted; // parts of the sample that blocks have drawn, and those they have counted
    u32 state; // READY when all below is written; or FAILED
    // Not zero before the sort:
    Bits above, below, middle; // `Intervals`
    Bits split_key;
    u32 has_split_key; // 1 or 0
    alignas(128) u32 intervals[INTERVALS]; // as `BucketMap::intervals`, in parts of a bucket
};
constexpr u32 BUCKET_PART_BITS = 8, BUCKET_PARTS = 1 << BUCKET_PART_BITS; // parts of a bucket

// The digit by intervals around the split key: that key has the digit after its interval's, and
// greater keys of the interval have the next one.
template <class Bits, u32 FINE> struct BucketAroundKey : BucketByIntervals<Bits, FINE> {
    Bits split_key;
    u32 has_split_key;
    __device__ u32 upper(Bits key) const {
        return BucketByIntervals<Bits, FINE>::upper(key) + (key >= split_key ? has_split_key : 0) +
               (key > split_key ? has_split_key : 0);
    }
};

// Counts a block's part of the sample. The block that finishes last makes the map.
template <class Order, class Tile> struct FixedMapMaker {
    typedef typename Tile::Shape::Bits Bits;
    typedef FixedMap<Bits> Map;
    typedef typename Map::Intervals Intervals;
    static constexpr u32 THREADS = Tile::THREADS, INTERVALS = Map::INTERVALS, SIDE = Map::SIDE,
                         EACH = (INTERVALS + THREADS - 1) / THREADS;
    // An interval's keys: taken as evenly spread; each with an equality bucket; none, since it is
    // narrower than a key; beyond the sample's ends.
    enum Kind : u32 { EVEN, ONE_KEY, NO_KEY, BEYOND };
    static constexpr u32 KIND_SHIFT = 30;
    // Log2 of the most keys of a ONE_KEY interval. Each key's payload gets room for all hits of the
    // interval.
    static constexpr u32 ONE_KEY_BITS = Tile::HAS_VALUES ? 1 : 3;
    // of whole buckets; the bits above hold up to three times the sample
    static constexpr u32 WHOLE_BITS = 14;
    static_assert(3 * INTERVAL_SAMPLE * MOST_INTERVAL_PARTS < 1u << (32 - WHOLE_BITS),
                  "the ends count as the whole sample at most");
    struct Shared { // in the tile's memory
        Bits ends[2][THREADS / WARP]; // by warp
        // the sample by interval of either layout; later, for the layout not chosen, kind and count
        // of each interval
        u32 counts[2][INTERVALS];
        u32 totals[THREADS / WARP];
        u32 most[2]; // in one interval of either layout
        u32 beyond_ends[2]; // sample keys below and above the ends
        // by bucket: whether it is an equality bucket, the room of its payload, and its key
        u32 one_key[BINS / 32], room[BINS];
        Bits keys[BINS];
        Bits split_key;
        u32 room_totals[BINS / WARP];
        u32 last_with_key[INTERVALS / WARP]; // of 32 adjacent intervals each: the last with a key
        u32 is_last, is_too_large;
    };
    static_assert(sizeof(Shared) <= sizeof(typename Tile::Shared), "it shares the tile's memory");

    Shared &s;
    // in shared memory: for each interval what lies before it, in the unit of `WHOLE_BITS`
    u32 *prefix;
    const SortCall &call;
    const FixedCall &fixed;
    Map &map;
    EqualityBuckets<Bits> &equal;
    u32 sampled;
    bool has_split_key = false;

    __device__ FixedMapMaker(Shared &s, u32 *prefix, const SortCall &call, const FixedCall &fixed)
        : s(s), prefix(prefix), call(call), fixed(fixed), map(*(Map *)fixed.map),
          equal(*(EqualityBuckets<Bits> *)fixed.equal),
          sampled(fixed.interval_parts * INTERVAL_SAMPLE) {}

    // By the whole block. `probe` is the thread's probed key.
    __device__ void run(u32 part, Bits probe) {
        Order order{Bits(call.flip)};
        // All parts read the same keys for the ends. Few keys lie beyond these ends, so they fit a
        // bucket. And intervals are narrow where the keys end.
        constexpr u32 KEYS = INTERVAL_SAMPLE / THREADS, ENDS = END_SAMPLE / THREADS;
        Bits key[KEYS], at_ends[ENDS];
        auto sample = [&](u32 i, u32 all) {
            return ((const Bits *)
                        call.keys_in)[sampled_at(i * THREADS + threadIdx.x, u32(call.n) / all)];
        };
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) at_ends[k] = sample(k, END_SAMPLE);
#pragma unroll
        for (u32 k = 0; k < KEYS; k++) key[k] = sample(part * KEYS + k, sampled);
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS) s.counts[0][i] = 0;
        has_split_key = find_frequent(probe);
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
        u64 ends[2] = {warp_max(s.ends[0][lane_id() % WARPS]),
                       warp_max(s.ends[1][lane_id() % WARPS])};
        const Intervals layouts[2] = {Intervals::inward(ends, Order::GRAIN), Intervals::outward()};
        // A key in a narrow interval may get an equality bucket without a split.
        for (u32 w = 0; w < 2; w++)
            has_split_key =
                has_split_key &&
                Intervals::width_bits(layouts[w].interval(layouts[w](s.split_key))) > ONE_KEY_BITS;
        u32 split_keys = 0;
#pragma unroll
        for (u32 k = 0; k < KEYS; k++) {
            Bits ordered = order.to(key[k]);
            bool is_split_key = has_split_key && ordered == s.split_key;
            split_keys += is_split_key;
#pragma unroll
            for (u32 w = 0; w < 2; w++)
                if (!is_split_key)
                    atomicAdd(s.counts[w] + layouts[w].interval(layouts[w](ordered)), 1);
        }
        split_keys = warp_add(split_keys);
        if (lane_id() == 0 && split_keys > 0) atomicAdd(&map.split_keys, split_keys);
        __syncthreads();
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS)
            if (u32 count = s.counts[0][i]) atomicAdd(map.samples[0] + i, count);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0)
            s.is_last = add_acquire_release(&map.counted, 1) == fixed.interval_parts - 1;
        __syncthreads();
        if (!s.is_last) return;
        bool fits = make(layouts, ends);
        SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
        if (threadIdx.x == 0) {
            plan.fixed_function = FIXED_BY_INTERVALS;
            if (!fits) plan.too_large = 1;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            store_relaxed(&map.state, fits ? READY : FAILED);
        }
    }

  private:
    // Returns whether a probed key is frequent. The candidate, `s.split_key`, has the highest count
    // within any one warp's 32 probed keys. All parts probe the same keys and find the same one.
    __device__ bool find_frequent(Bits probe) {
        static_assert(THREADS == PROBE_KEYS && WARP % (THREADS / WARP) == 0,
                      "a key a thread, and each warp reads all");
        u32 hits =
            warp_max(u32(__popc(__match_any_sync(ALL_LANES, probe))) * THREADS + threadIdx.x);
        if (lane_id() == 0) s.totals[warp_id()] = hits;
        __syncthreads();
        if (warp_max(s.totals[lane_id() % (THREADS / WARP)]) % THREADS == threadIdx.x)
            s.split_key = probe;
        __syncthreads();
        return __syncthreads_count(probe == s.split_key) >= FREQUENT;
    }
    // Payload room for a key with so many hits in the sample.
    __device__ u32 room_of(u32 hits) const {
        return u32((float(hits) + 5 * sqrtf(float(hits)) + 8) * float(call.n) / float(sampled));
    }
    // By the block that finishes last. Returns whether all buckets have room.
    __device__ bool make(const Intervals (&layouts)[2], const u64 (&ends)[2]) {
        constexpr u32 LOADS = (2 * INTERVALS + THREADS - 1) / THREADS;
        u32 samples[LOADS];
        load_samples<THREADS>(samples, map);
        if (threadIdx.x < 2) s.most[threadIdx.x] = s.beyond_ends[threadIdx.x] = 0;
        if (threadIdx.x < BINS / 32) s.one_key[threadIdx.x] = 0;
        if (threadIdx.x < BINS) s.room[threadIdx.x] = 0;
        if (threadIdx.x == 0) s.is_too_large = 0;
        __syncthreads();
        u32 most[2] = {0, 0};
#pragma unroll
        for (u32 k = 0; k < LOADS; k++) {
            u32 i = k * THREADS + threadIdx.x;
            if (i < 2 * INTERVALS) s.counts[0][i] = samples[k];
            most[i >= INTERVALS] = max(most[i >= INTERVALS], samples[k]);
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_max(most[w]); lane_id() == 0) atomicMax(s.most + w, all);
        __syncthreads();
        u32 best = s.most[1] < s.most[0];
        const Intervals layout = best ? layouts[1] : layouts[0];
        const u32 *counts = s.counts[best], beyond = layout.beyond();

        // ---- the kind of each interval, in key order
        // The loops are not unrolled: instruction fetch bounds code that runs once.
        u32 *intervals = s.counts[1 - best]; // sample keys, and above them the kind
        constexpr u32 COUNT = (1u << KIND_SHIFT) - 1;
        u32 beyond_ends[2] = {0, 0};
        // On either side the widest interval ends at the sample's end, or at the middle. Its count
        // is scaled as if it had keys up to its own end.
        u32 cut[2] = {layout(layout.is_inward() ? Bits(layout.middle - 1) : Bits(~ends[0])),
                      layout(layout.is_inward() ? layout.middle : Bits(ends[1]))};
        constexpr u32 LEAST_CUT = 1 << (PART_BITS - 5);
        auto scaled_to_full = [&](u32 count, u32 cut) {
            return min(u32(float(count) * float(1 << PART_BITS) /
                           float(max(cut % (1 << PART_BITS), LEAST_CUT))),
                       sampled);
        };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            u32 interval = layout.nth_in_order(i), count = counts[interval],
                bits = layout.width_bits(interval), kind = EVEN;
            if (interval % SIDE >= beyond) {
                beyond_ends[interval >= SIDE] += count;
                kind = BEYOND;
            } else if (layout.with_key(interval) != interval) {
                kind = NO_KEY;
            } else if (bits <= ONE_KEY_BITS && 4 * count * BINS >= sampled << bits) {
                kind = ONE_KEY; // each key fills a quarter of a bucket or more
            } else if (interval == layout.interval(cut[interval >= SIDE])) {
                count = scaled_to_full(count, cut[interval >= SIDE]);
            }
            intervals[i] = kind << KIND_SHIFT | count;
            u32 with_key = __ballot_sync(ALL_LANES, kind != NO_KEY);
            static_assert(INTERVALS % WARP == 0 && 1 << Map::FINE_BITS <= WARP,
                          "all lanes of a warp or none, and some interval has a key");
            if (lane_id() == 0)
                s.last_with_key[i / WARP] = i + WARP - 1 - u32(__clz(int(with_key)));
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_add(beyond_ends[w]); lane_id() == 0 && all > 0)
                atomicAdd(s.beyond_ends + w, all);
        __syncthreads();

        // ---- what each interval adds to the prefix: whole buckets; above WHOLE_BITS sample keys
        // The sample keys share the buckets that are left.
        auto bits_of = [&](u32 i) { return layout.width_bits(layout.nth_in_order(i)); };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            u32 kind = intervals[i] >> KIND_SHIFT, count = intervals[i] & COUNT, bits = bits_of(i),
                added = 0;
            // The interval before that has a key.
            u32 with_key = __ballot_sync(ALL_LANES, kind != NO_KEY) & ((1u << lane_id()) - 1),
                first = i - lane_id();
            u32 j = with_key    ? first + WARP - 1 - u32(__clz(int(with_key)))
                    : first > 0 ? s.last_with_key[first / WARP - 1]
                                : INTERVALS;
            u32 before = j < INTERVALS ? intervals[j] : BEYOND << KIND_SHIFT,
                kind_before = before >> KIND_SHIFT;
            if (kind == ONE_KEY) added = (1u << bits) + (kind_before != ONE_KEY);
            else if (kind == EVEN)
                added = count << WHOLE_BITS |
                        (kind_before == EVEN && is_jump(before & COUNT, bits_of(j), count, bits));
            prefix[i] = added;
        }
        __syncthreads();
        u32 begin = threadIdx.x * EACH, sum = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) sum += begin + e < INTERVALS ? prefix[begin + e] : 0;
        u32 upto = warp_inclusive_sum(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 earlier = upto - sum + sum_of_earlier_warps(s.totals),
            all = warp_add(lane_id() < THREADS / WARP ? s.totals[lane_id()] : 0);
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (begin + e < INTERVALS) {
                u32 added = prefix[begin + e];
                prefix[begin + e] = earlier;
                earlier += added;
            }
        __syncthreads();

        // ---- the table
        // Keys beyond the ends have buckets of their own. No other key can get into an equality
        // bucket: a bucket begins before each run of them, so bucket 0 is none, and all end before
        // the last bucket.
        constexpr u32 WHOLE = (1u << WHOLE_BITS) - 1;
        u32 below = s.beyond_ends[0], above = s.beyond_ends[1],
            sharing = (all >> WHOLE_BITS) + below + above,
            whole = (all & WHOLE) + (below > 0) + (above > 0);
        if (whole > BINS / 4 * 3) return false;
        // parts that sample keys share, less two for rounding
        u32 parts = ((BINS - (has_split_key ? 2 : 0) - whole) << BUCKET_PART_BITS) - 2;
        float each = __fdividef(float(parts), float(max(sharing, 1u)));
        if (float(call.n) * float(sharing) * BUCKET_PARTS >
            0.97f * float(fixed.room) * float(sampled) * float(parts))
            return false;
        auto at = [&](u32 prefix) {
            return u32(float((prefix >> WHOLE_BITS) + below) * each) +
                   (((prefix & WHOLE) + (below > 0)) << BUCKET_PART_BITS);
        };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            u32 kind = intervals[i] >> KIND_SHIFT, before = prefix[i],
                after = i + 1 < INTERVALS ? prefix[i + 1] : all, interval = layout.nth_in_order(i),
                first = 0, end = 0;
            if (kind == ONE_KEY) {
                u32 keys = 1u << layout.width_bits(interval),
                    bucket = (at(before) >> BUCKET_PART_BITS) + (after - before - keys);
                first = bucket << BUCKET_PART_BITS;
                end = (bucket + keys) << BUCKET_PART_BITS;
                for (u32 k = 0; k < keys; k++) {
                    atomicOr(s.one_key + (bucket + k) / 32, 1u << (bucket + k) % 32);
                    s.keys[bucket + k] = Bits(layout.least(interval) + k);
                    if constexpr (Tile::HAS_VALUES)
                        s.room[bucket + k] = room_of(intervals[i] & COUNT);
                }
            } else if (kind == EVEN) {
                first = at(before + ((after - before) & WHOLE));
                end = at(after);
            } else if (kind == BEYOND && interval >= SIDE) {
                first = end = parts - u32(float(above) * each) + (whole << BUCKET_PART_BITS);
            }
            bool rises = layout.rises(interval);
            u32 step = end - first, from = rises || step == 0 ? first : end - 1;
            if (step > 0x7fff) store_shared(&s.is_too_large, 1u);
            if (!rises) step = -step;
            map.intervals[interval] =
                (from - step * layout.number(interval)) << PART_BITS | u16(step);
        }
        __syncthreads();
        if (threadIdx.x < BINS) {
            // The split key has the bucket behind its interval's, and greater keys of the interval
            // have the next one. So later buckets move up by two.
            typedef BucketByIntervals<Bits, Map::FINE_BITS> ByIntervals;
            u32 d = threadIdx.x,
                before =
                    has_split_key
                        ? ByIntervals(layout, map.intervals, BUCKET_PART_BITS).upper(s.split_key)
                        : BINS;
            bool is_split_key = d == before + 1, is_above = d == before + 2;
            u32 bucket = d <= before ? d : is_split_key ? 0 : d - 2;
            bool is_one_key =
                is_split_key || (!is_above && s.one_key[bucket / 32] >> bucket % 32 & 1);
            u32 one_key = __ballot_sync(ALL_LANES, is_one_key),
                room = !is_one_key    ? 0
                       : is_split_key ? room_of(load_relaxed(&map.split_keys))
                                      : s.room[bucket];
            u32 begin = block_exclusive_sum<BINS>(room, s.room_totals),
                first = BINS * fixed.room + Tile::TILE;
            equal.begins[d] = first + min(begin, fixed.equal_room);
            if (d == BINS - 1) equal.begins[BINS] = first + min(begin + room, fixed.equal_room);
            if (is_one_key) equal.keys[d] = is_split_key ? s.split_key : s.keys[bucket];
            if (lane_id() == 0) equal.digits[d / 32] = one_key;
        } else {
            pass_barrier_of_first();
        }
        if (threadIdx.x == 0) {
            map.above = layout.above;
            map.below = layout.below;
            map.middle = layout.middle;
            map.split_key = s.split_key;
            map.has_split_key = has_split_key;
        }
        return s.is_too_large == 0;
    }

    // Whether the density of keys jumps between two adjacent intervals: 16-fold, and the denser
    // interval has enough keys to tell. `count` and `next` are their sample keys, `bits` and
    // `next_bits` log2 of their widths.
    static __device__ bool is_jump(u32 count, u32 bits, u32 next, u32 next_bits) {
        constexpr float MANY = 24, TIMES = 16;
        auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
        // what each would have at the other's density
        float as_next = float(next) * power(int(bits - next_bits)),
              as_before = float(count) * power(int(next_bits - bits));
        return (as_next >= MANY && float(count) * TIMES < as_next) ||
               (as_before >= MANY && float(next) * TIMES < as_before);
    }
};

// Scatters a tile by the finished map. Not inlined: it has two callers.
template <class Order, class Tile>
__device__ __noinline__ void scatter_by_map(typename Tile::Shared &s, u32 *table, SortCall call,
                                            FixedCall fixed, u32 tile) {
    typedef typename Tile::Shape::Bits Bits;
    typedef FixedMap<Bits> Map;
    const Map &map = *(const Map *)fixed.map;
    const EqualityBuckets<Bits> &equal = *(const EqualityBuckets<Bits> *)fixed.equal;
    for (u32 i = threadIdx.x; i < Map::INTERVALS / 4; i += Tile::THREADS)
        copy_common_to_shared((Vector *)table + i, (const Vector *)map.intervals + i);
    u32 room = fixed.room, *too_large = &((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large;
    auto position = [=, &equal](u32 d, u32 earlier, u32 total) {
        if (!equal.has(d)) {
            if (earlier + total <= room) return u64(d) * room + earlier;
        } else {
            if (!Tile::HAS_VALUES) return DONE;
            u32 begin = equal.begins[d] + earlier;
            if (begin + total <= equal.begins[d + 1]) return DONE | begin;
        }
        *too_large = 1;
        return u64(room) * BINS;
    };
    typedef BucketByIntervals<Bits, Map::FINE_BITS> ByIntervals;
    typedef BucketAroundKey<Bits, Map::FINE_BITS> AroundKey;
    UpperDigit<AroundKey> digit{
        AroundKey{ByIntervals(typename Map::Intervals{map.above, map.below, map.middle}, table,
                              BUCKET_PART_BITS),
                  map.split_key, map.has_split_key}};
    if constexpr (Tile::HAS_VALUES) {
        wait_for_table();
        scatter_in_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, fixed, tile, digit,
                                                                  position);
    } else {
        scatter_in_any_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, fixed, tile, digit,
                                                                      position);
    }
}

// Scatters a tile by intervals. `part` is the block's first ticket for the parts of the sample.
template <class Order, class Tile>
__device__ inline void scatter_by_intervals(typename Tile::Shared &s, u32 *table,
                                            const SortCall &call, const FixedCall &fixed, u32 tile,
                                            u32 part, typename Tile::Shape::Bits probe) {
    typedef FixedMapMaker<Order, Tile> Maker;
    FixedMap<typename Tile::Shape::Bits> &map = *(FixedMap<typename Tile::Shape::Bits> *)fixed.map;
    while (part < fixed.interval_parts) {
        Maker(*(typename Maker::Shared *)&s, table, call, fixed).run(part, probe);
        __syncthreads(); // the maker's memory is free
        if (threadIdx.x == 0) s.tile = add_relaxed(&map.drawn, 1);
        __syncthreads();
        part = s.tile;
        __syncthreads();
    }
    u32 state = 0;
    if (threadIdx.x == 0) {
        while ((state = load_relaxed(&map.state)) == 0) {}
        __threadfence();
    }
    if (!__syncthreads_or(state == FAILED))
        scatter_by_map<Order, Tile>(s, table, call, fixed, tile);
}
