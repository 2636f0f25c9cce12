// The pilot sample and the choice of a map (bucket_map.cuh): two kernels before the exact
// histogram.
//
// `bucket_sample` copies one key of every `stride` keys to `buckets.sample`. It records the
// least and the greatest key, the bits that differ, and the histogram of the first digit. Its last
// block selects the map by bits if that is even, and sends inputs whose sample differs in at most
// two digits to the passes.
//
// Otherwise `bucket_map` takes the histogram of the sample by range and by the intervals of two
// layouts, and collects distinct keys. Its last block selects the map by values, by range or by
// intervals, in this order, and makes it. Both start from a zeroed `BucketMap`.
#pragma once
#include "sort/bucket_map.cuh"

// ---- sample ---------------------------------------------------------------------------------

// Whether every bucket fits a block's room, judged by the fullest of BINS equal parts, which has
// `most` keys of the sample. An excess of three standard deviations is taken for chance.
__device__ inline bool is_even(const BucketCall &buckets, u64 n, u32 most) {
    float fits =
        0.95f * float(buckets.sampled) * float(buckets.room << buckets.lower_bits) / float(n);
    return float(most) <= fits + 3 * sqrtf(fits);
}

// The block that finishes last selects the map by bits, or the passes.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_sample(const SortCall &call, const BucketCall &buckets) {
    __shared__ u64 extremes[2], differing;
    __shared__ u32 coarse_counts[BINS], most;
    __shared__ bool last;
    BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
    const Bits *keys = (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    if (threadIdx.x < 2) extremes[threadIdx.x] = 0;
    if (threadIdx.x < BINS) coarse_counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) differing = most = 0;
    __syncthreads();
    u32 stride = u32(call.n / buckets.sampled);
    u64 least_inverted = 0, greatest = 0, differs = 0;
    Bits one = order.to(keys[0]);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < buckets.sampled;
         i += gridDim.x * THREADS) {
        Bits key = order.to(keys[sampled_at(i, stride)]);
        ((Bits *)buckets.sample)[i] = key;
        atomicAdd(coarse_counts + u32(key >> (BucketMap<Bits>::WIDTH - DIGIT_BITS)), 1);
        least_inverted = max(least_inverted, u64(Bits(~key)));
        greatest = max(greatest, u64(key));
        differs |= u64(key ^ one);
    }
    least_inverted = warp_max(least_inverted);
    greatest = warp_max(greatest);
    differs = warp_or(differs);
    if (lane_id() == 0) {
        max_shared(extremes, least_inverted);
        max_shared(extremes + 1, greatest);
        or_shared(&differing, differs);
    }
    __syncthreads();
    if (threadIdx.x < 2) atomicMax(map.extremes + threadIdx.x, extremes[threadIdx.x]);
    if (threadIdx.x == 0) atomicOr(&map.differing, differing);
    if (threadIdx.x < BINS && coarse_counts[threadIdx.x])
        atomicAdd(map.coarse_counts + threadIdx.x, coarse_counts[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&map.sampled, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    if (threadIdx.x < BINS) atomicMax(&most, load_relaxed(map.coarse_counts + threadIdx.x));
    __syncthreads();
    if (threadIdx.x > 0) return;
    u32 digits = 0; // digits that differ within the sample
    for (u64 rest = load_relaxed(&map.differing); rest != 0; rest >>= DIGIT_BITS)
        digits += (rest & (BINS - 1)) != 0;
    bool by_bits = is_even(buckets, call.n, most);
    map.function = by_bits ? BY_BITS : BY_RANGE; // `bucket_map` may change BY_RANGE
    map.lower_bits = buckets.lower_bits;
    if (digits <= FEW_DIGITS) ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
}

// ---- few values -----------------------------------------------------------------------------

// A set of fewer than VALUES distinct keys in shared memory: a hash table with linear probing.
template <class Bits> struct FewValues {
    static constexpr u32 ENTRIES = 2 * VALUES, IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    // A free entry. The key that equals NONE has no entry but `has_greatest`.
    static constexpr Bits NONE = Bits(~Bits(0));
    alignas(16) Bits value[ENTRIES];
    u32 has_greatest, count;

    __device__ void clear() {
        for (u32 i = threadIdx.x; i < ENTRIES; i += blockDim.x) value[i] = NONE;
        if (threadIdx.x == 0) has_greatest = count = 0;
        __syncthreads();
    }
    // `are_few`: when all keys are added. `still_few`: while other threads add keys.
    __device__ bool are_few() const { return *(volatile const u32 *)&count < VALUES; }
    __device__ bool still_few() const { return load_shared(&count) < VALUES; }
    __device__ void add(Bits x) {
        add(x, [](u32, u32) {});
    }
    // Returns the entry of x if values are few; ENTRIES for the greatest possible key. Calls
    // `is_new(i, entry)` if x is the i-th distinct value.
    template <class New> __device__ u32 add(Bits x, const New &is_new) {
        if (x == NONE) {
            if (load_shared(&has_greatest) == 0 && atomicExch(&has_greatest, 1) == 0)
                is_new(atomicAdd(&count, 1), ENTRIES);
            return ENTRIES;
        }
        for (u32 entry = u32(u64(x) * 0x9e3779b97f4a7c15ull >> 40) % ENTRIES; still_few();
             entry = (entry + 1) % ENTRIES) {
            Bits here = load_shared(value + entry);
            if (here == NONE) here = atomicCAS(value + entry, NONE, x);
            if (here == NONE) is_new(atomicAdd(&count, 1), entry);
            if (here == NONE || here == x) return entry;
        }
        return 0;
    }
    // Writes the values in ascending order. By the whole block, when all are added and are few.
    __device__ void write_sorted(Bits *out) const {
        if (threadIdx.x == 0 && has_greatest) out[count - 1] = NONE;
        if (threadIdx.x >= ENTRIES || value[threadIdx.x] == NONE) return;
        u32 less = 0;
#pragma unroll 4
        for (u32 v = 0; v < ENTRIES / IN_VECTOR; v++) {
            Bits others[IN_VECTOR];
            memcpy(others, (const Vector *)value + v, sizeof(Vector));
#pragma unroll
            for (u32 i = 0; i < IN_VECTOR; i++) less += others[i] < value[threadIdx.x];
        }
        out[less] = value[threadIdx.x];
    }
};

// ---- map ------------------------------------------------------------------------------------

// Counts the sample. The block that finishes last selects and makes the map. Its loops are not
// unrolled: instruction fetch bounds code that runs once.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_map(const SortCall &call, const BucketCall &buckets) {
    typedef BucketMap<Bits> Map;
    constexpr u32 INTERVALS = Map::INTERVALS, SIDE = Map::SIDE,
                  EACH = (INTERVALS + THREADS - 1) / THREADS;
    static_assert(THREADS >= BINS, "a thread for each bin");
    __shared__ u32 counts[2 * INTERVALS], shares[BINS], needs[INTERVALS];
    // `run`: the intervals with single-key buckets around the most frequent key; `run_bucket`:
    // their buckets.
    __shared__ u32 most[3], distinct[MAP_BLOCKS], most_frequent, run[2], run_bucket[2];
    __shared__ u64 totals[THREADS / WARP];
    __shared__ bool last;
    Map &map = *(Map *)buckets.map;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    u64 extremes[2] = {map.extremes[0], map.extremes[1]}; // issued with the loads below
    if (plan.too_large || map.function == BY_BITS) return;
    __shared__ FewValues<Bits> few;
    static_assert(THREADS >= few.ENTRIES, "a thread for each entry");
    for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS) counts[i] = 0;
    if (threadIdx.x < BINS) shares[threadIdx.x] = 0;
    if (threadIdx.x < 3) most[threadIdx.x] = 0;
    if (threadIdx.x == 0) most_frequent = 0;
    few.clear();
    Intervals<Bits> layouts[2] = {Intervals<Bits>::inward(extremes, Order::GRAIN),
                                  Intervals<Bits>::outward()};
    Share<Bits> share(extremes);
    bool is_wide = share.range() >> 20 != 0;
    share.factor = is_wide ? share.factor_for(BINS) : 0;
    const Bits *sample = (const Bits *)buckets.sample;
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    Bits next = sample[i];
    while (i < buckets.sampled) {
        Bits key = next;
        i += gridDim.x * THREADS;
        if (i < buckets.sampled) next = sample[i];
        atomicAdd(shares + share(key), 1);
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            atomicAdd(counts + w * INTERVALS + layouts[w].interval(layouts[w](key)), 1);
        if (few.still_few()) few.add(key);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS)
        if (counts[i]) atomicAdd(map.samples[0] + i, counts[i]);
    if (threadIdx.x < BINS && shares[threadIdx.x])
        atomicAdd(map.shares + threadIdx.x, shares[threadIdx.x]);
    if (few.are_few()) few.write_sorted(map.part_values[blockIdx.x]);
    if (threadIdx.x == 0) map.distinct[blockIdx.x] = few.count;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&map.mapped, 1) == gridDim.x - 1;
    few.clear(); // its barrier also publishes `last`
    if (!last) return;

    // ---- the choice of the map
    constexpr u32 LOADS = (2 * INTERVALS + THREADS - 1) / THREADS;
    u32 samples[LOADS];
    load_samples<THREADS>(samples, map);
    u32 of_range = threadIdx.x < BINS ? load_relaxed(map.shares + threadIdx.x) : 0;
    if (threadIdx.x < gridDim.x) {
        distinct[threadIdx.x] = load_relaxed(map.distinct + threadIdx.x);
        if (distinct[threadIdx.x] >= VALUES) store_shared(&few.count, VALUES);
    }
    __syncthreads();
    constexpr u32 OF_PARTS = MAP_BLOCKS * VALUES / THREADS;
    if (few.still_few()) {
        Bits value[OF_PARTS];
        auto part = [](u32 k) { return (k * THREADS + threadIdx.x) / VALUES; };
        auto is_there = [&](u32 k) {
            return part(k) < gridDim.x && threadIdx.x % VALUES < distinct[part(k)];
        };
        static_assert(THREADS % VALUES == 0, "a thread has one index in all of its parts");
#pragma unroll
        for (u32 k = 0; k < OF_PARTS; k++)
            if (is_there(k))
                value[k] = *(volatile Bits *)(map.part_values[part(k)] + threadIdx.x % VALUES);
#pragma unroll
        for (u32 k = 0; k < OF_PARTS; k++)
            if (is_there(k)) few.add(value[k]);
    }
    __syncthreads();
    if (few.are_few()) {
        if (threadIdx.x < VALUES) map.values[threadIdx.x] = Bits(~Bits(0));
        // odd buckets: one value each
        if (threadIdx.x < BINS / 32) map.one_key[threadIdx.x] = 0xaaaaaaaa;
        __syncthreads();
        few.write_sorted(map.values);
        if (threadIdx.x == 0) {
            map.function = BY_VALUES;
            map.lower_bits = 0;
        }
        return;
    }
    // the fullest interval of either layout, and the fullest part of the range
    u32 own_most[3] = {0, 0, of_range};
#pragma unroll
    for (u32 k = 0; k < LOADS; k++) {
        u32 i = k * THREADS + threadIdx.x;
        if (i < 2 * INTERVALS) counts[i] = samples[k];
        if (i < INTERVALS) own_most[0] = max(own_most[0], samples[k]);
        else own_most[1] = max(own_most[1], samples[k]);
    }
#pragma unroll
    for (u32 w = 0; w < 3; w++) {
        own_most[w] = warp_max(own_most[w]);
        if (lane_id() == 0) atomicMax(most + w, own_most[w]);
    }
    __syncthreads();
    if (is_wide && is_even(buckets, call.n, most[2])) {
        if (threadIdx.x == 0) {
            map.lower_bits = buckets.lower_bits;
            map.factor = share.factor_for(BINS << buckets.lower_bits);
        }
        return;
    }
    u32 best = most[1] < most[0];
    Intervals<Bits> layout = best ? layouts[1] : layouts[0];

    // ---- the needs of the intervals
    // The buckets that an interval needs. PARTIAL: a share of a bucket in units of 1 / ONE; several
    // intervals with few keys share it. Else whole buckets, the first of which is a new one.
    // ONE_KEY: as many buckets as the interval is keys wide.
    constexpr u32 ONE = 1 << 16, MOST_OWN = (1u << (PART_BITS - 1)) - 1, PARTIAL = 1u << 31,
                  ONE_KEY = 1u << 30;
    // Keys of the sample. With few hits 2.5 roots are too little: half of 2.5 squared, by Poisson's
    // law.
    constexpr float MARGIN = 3;
    // buckets for each key of the sample, if they are filled to 88 %
    float scale = float(call.n) / (float(buckets.sampled) * float(buckets.room) * 0.88f);
    // An end's interval has all its keys in a part of its width. That part gets as many buckets as
    // any other interval gets for its whole width.
    u32 ends[2] = {layout(Bits(~extremes[0])), layout(Bits(extremes[1]))};
    auto sample_of = [&](u32 i) {
        return float(counts[best * INTERVALS + layout.nth_in_order(i)]);
    };
    auto root = [](float x) {
        float root;
        asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
        return root;
    };
    // an interval's share of all keys is rarely more
    auto upper_bound = [&](float hits) { return hits + 2.5f * root(hits); };
    auto bits = [&](u32 i) { return layout.width_bits(layout.nth_in_order(i)); };
    auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
    // in place of the other layout's counts
    float *density = (float *)(counts + (1 - best) * INTERVALS);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS)
        density[i] = sample_of(i) * power(-int(bits(i)));
    __syncthreads();
    auto weigh = [&](u32 i) { // returns keys of the sample
        u32 interval = layout.nth_in_order(i);
        float weight = upper_bound(sample_of(i));
#pragma unroll
        for (u32 upper = 0; upper < 2; upper++)
            if (interval == layout.interval(ends[upper]) && interval / SIDE == upper)
                weight = __fdividef(weight, layout.filled_share(ends[upper]));
        // Keys may get dense within the interval. If its dense part fills half a bucket or more,
        // the interval gets as many buckets as if it were as dense as its denser neighbour.
        float before = i > 0 ? density[i - 1] : 0, after = i + 1 < INTERVALS ? density[i + 1] : 0,
              dense = max(before, after), sparse = min(before, after);
        if (dense > 1.1f * density[i] &&
            2 * weight * scale * (density[i] - sparse) > dense - sparse) {
            u32 beside = before > after ? i - 1 : i + 1;
            weight = max(weight,
                         upper_bound(sample_of(beside)) * power(int(bits(i)) - int(bits(beside))));
        }
        return weight;
    };
    // Adjacent intervals of one width, with at least SOME buckets each and none fuller or emptier
    // than by chance, all weigh as much as the heaviest of them. So they form a linear run.
    auto even_out = [&](float hits, float weight) {
        constexpr float NEVER = -1e9f, SOME = 8;
        // By chance hits differ by 3 roots of the mean. `upper_bound` adds 2.5 roots of hits, and
        // that root exceeds the mean's by less than 1.5. The first two constants are squares.
        constexpr float FEWER = 3 * 3, MORE = 5.5f * 5.5f, ROOT_MORE = 2.5f * 1.5f;
        float mean = hits, least = weight * scale < SOME ? NEVER : hits, heaviest = weight;
#pragma unroll 1
        for (u32 distance = 1; distance < 1 << Map::FINE_BITS && __any_sync(ALL_LANES, least >= 0);
             distance *= 2) {
            float others = __shfl_xor_sync(ALL_LANES, mean, distance);
            least = min(least, __shfl_xor_sync(ALL_LANES, least, distance));
            heaviest = max(heaviest, __shfl_xor_sync(ALL_LANES, heaviest, distance));
            mean = (mean + others) / 2;
            float fewer = mean - least, more = max(heaviest - mean - ROOT_MORE, 0.0f);
            if (fewer * fewer > FEWER * mean || more * more > MORE * mean) least = NEVER;
            else weight = heaviest;
        }
        return weight;
    };
    // Stores above a need the first lane of the run: adjacent intervals of one width that need as
    // much.
    constexpr u32 NEED = (1u << PART_BITS) - 1;
    auto with_run = [](u32 need) {
        u32 before = __shfl_up_sync(ALL_LANES, need, 1);
        u32 others =
            __ballot_sync(ALL_LANES, before != need || lane_id() % (1 << Map::FINE_BITS) == 0) &
            ((2u << lane_id()) - 1);
        return need | (WARP - 1 - u32(__clz(int(others)))) << PART_BITS;
    };
    auto width = [&](u32 i) { return 1u << min(bits(i), 31u); };
    // buckets of whole keys, none wider than its share
    auto own_buckets = [&](u32 i, float weight) {
        weight += MARGIN * scale;
        float each = floorf(__fdividef(float(width(i)), weight));
        return each < 1 ? min(width(i), MOST_OWN)
                        : min(u32(ceilf(__fdividef(float(width(i)), each))), MOST_OWN);
    };
#pragma unroll 1
    for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) { // all lanes of a warp, or none
        float weight = even_out(sample_of(i), weigh(i)) * scale; // in buckets
        u32 interval = layout.nth_in_order(i), need = PARTIAL | u32(weight * ONE);
        if (weight >= 0.25f) {
            need = own_buckets(i, weight);
            if (need == width(i)) need |= ONE_KEY;
        }
        // An interval that no key can be in needs no bucket. It takes the kind of the interval that
        // holds its key, so that it does not split a run.
        u32 holder = layout.with_key(interval),
            need_of_holder = __shfl_sync(
                ALL_LANES, need,
                lane_id() + (layout.rises(interval) ? holder - interval : interval - holder));
        if (holder != interval) need = need_of_holder & PARTIAL ? PARTIAL : ONE_KEY;
        needs[i] = with_run(need);
        u32 keys = warp_max(need & ONE_KEY ? u32(sample_of(i)) : 0);
        if (keys > 0 && need & ONE_KEY && u32(sample_of(i)) == keys)
            atomicMax(&most_frequent, keys << Map::LOG_INTERVALS | i);
    }
    if (threadIdx.x < 2) run[threadIdx.x] = threadIdx.x * INTERVALS;
    __syncthreads();
    u64 sum = 0; // whole buckets in the upper half, partial ones in the lower
    u32 begin = threadIdx.x * EACH, need[EACH];
    auto count = [](u32 need, bool after_partial) {
        return need & PARTIAL ? need & NEED : u64((need & NEED) + after_partial) << 32;
    };
    bool after_partial = begin > 0 && begin < INTERVALS && needs[begin - 1] & PARTIAL,
         before_is_partial = after_partial;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        need[e] = begin + e < INTERVALS ? needs[begin + e] : 0;
        if (begin + e < INTERVALS) sum += count(need[e], before_is_partial);
        before_is_partial = need[e] & PARTIAL;
    }
    u64 upto = sum;
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u64 before = shuffle_up(upto, distance);
        if (lane_id() >= distance) upto += before;
    }
    if (lane_id() == WARP - 1) totals[warp_id()] = upto;
    // The run of intervals with single-key buckets on either side of the most frequent key.
    if (u32 among = most_frequent % (1 << Map::LOG_INTERVALS); most_frequent > 0) {
        u32 first = 0, end = INTERVALS;
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (u32 i = begin + e; i < INTERVALS && !(need[e] & ONE_KEY)) {
                if (i < among) first = i + 1;
                else end = min(end, i);
            }
        first = warp_max(first);
        end = INTERVALS - warp_max(INTERVALS - end);
        if (lane_id() == 0 && first > 0) atomicMax(run, first);
        if (lane_id() == 0 && end < INTERVALS) atomicMin(run + 1, end);
    }
    u32 *one_key = counts; // in place of the counts
    static_assert(2 * INTERVALS >= BUCKETS / 32, "room for all bits");
    for (u32 i = threadIdx.x; i < BUCKETS / 32; i += THREADS) one_key[i] = 0;
    // For each coarse bucket: one more than the rank, in key order, of the interval that alone has
    // the last bucket before it; else zero.
    u32 *interval_before = shares;
    if (threadIdx.x < BINS) interval_before[threadIdx.x] = 0;
    __syncthreads();
    u64 before = upto - sum, all = 0;
#pragma unroll
    for (u32 w = 0; w < THREADS / WARP; w++) {
        if (w < warp_id()) before += totals[w];
        all += totals[w];
    }
    u32 needed = u32(all >> 32) + u32(all) / ONE + 1;
    u32 lower_bits =
        needed <= BINS << buckets.lower_bits ? buckets.lower_bits : buckets.most_lower_bits;
    bool fits = lower_bits > 0 && needed <= BINS << lower_bits; // two steps, and enough buckets
    if (threadIdx.x == 0) {
        map.function = BY_INTERVALS;
        map.lower_bits = lower_bits;
        map.above = layout.above;
        map.below = layout.below;
        map.middle = layout.middle;
        if (!fits) plan.too_large = 1;
    }
    if (!fits) return;
    // Intervals without keys of the sample share buckets. None of these is a single-key bucket,
    // whatever keys come.
    u32 beyond = layout.beyond();
#pragma unroll 1
    for (u32 e = 0; e < EACH && begin + e < INTERVALS; e++) {
        u32 need = needs[begin + e], own = need & PARTIAL ? 1 : need & NEED,
            bucket = u32(before >> 32) + u32(before) / ONE;
        before += count(need, after_partial);
        if (!(need & PARTIAL)) {
            bucket += after_partial;
            if (most_frequent > 0 && begin + e == run[0]) run_bucket[0] = bucket;
            if (most_frequent > 0 && begin + e + 1 == run[1]) run_bucket[1] = bucket + own;
            if (need & ONE_KEY)
                for (u32 k = 0; k < own;) { // all bits of a word at once
                    u32 at = (bucket + k) % 32, bits = min(own - k, 32 - at);
                    atomicOr(one_key + (bucket + k) / 32, ~0u >> (32 - bits) << at);
                    k += bits;
                }
            else
                for (u32 coarse = (bucket >> lower_bits) + 1; coarse << lower_bits <= bucket + own;
                     coarse++)
                    if (coarse < BINS) interval_before[coarse] = begin + e + 1;
        }
        after_partial = need & PARTIAL;
        u32 interval = layout.nth_in_order(begin + e);
        bool rises = layout.rises(interval);
        if (interval % SIDE >= beyond) bucket = interval < SIDE ? 0 : needed - 1;
        // at the interval's beginning
        u32 first = rises ? bucket : bucket + own - 1, step = own == 1 ? 0 : rises ? own : -own;
        map.intervals[interval] = (first - step * layout.number(interval)) << PART_BITS | u16(step);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < BUCKETS / 32; i += THREADS)
        if (one_key[i]) map.one_key[i] = one_key[i];
    if (threadIdx.x == 0 && most_frequent > 0) {
        // Both intervals next to the middle may extend past it, but keys there belong to the other
        // interval. The run is clipped to one side.
        OneKeyRun<Bits> one_key_run = {layout.least(layout.nth_in_order(run[0])),
                                 run_bucket[1] - run_bucket[0],
                                 run_bucket[0],
                                 u32(call.n / 64),
                                 0,
                                 0};
        Bits to_middle = Bits(layout.middle - one_key_run.from);
        if (layout.is_inward() && to_middle < one_key_run.keys) {
            if (run[0] < SIDE) {
                one_key_run.keys = u32(to_middle);
            } else {
                one_key_run.from = layout.middle;
                one_key_run.keys -= u32(to_middle);
                one_key_run.bucket += u32(to_middle);
            }
        }
        map.one_key_run = one_key_run;
    }
    // The linear run of each coarse bucket whose buckets, and the bucket before them, all belong to
    // one run of intervals. So no key of the interval before the run, whose step may differ, is in
    // them. The first coarse bucket has no bucket before it, and so no linear run.
    if (threadIdx.x >= BINS) return;
    u32 coarse = threadIdx.x, from = interval_before[coarse],
        to = coarse + 1 < BINS ? interval_before[coarse + 1] : 0;
    auto octave = [](u32 i) { return (i - 1) >> Map::FINE_BITS; };
    bool is_linear =
        from > 0 && to > 0 && octave(from) == octave(to) && needs[from - 1] == needs[to - 1];
    // keys beyond the sample's ends go there
    if (coarse == (needed - 1) >> lower_bits) is_linear = false;
    u32 interval = is_linear ? layout.nth_in_order(from - 1) : 0;
    if (interval % SIDE >> Map::FINE_BITS == Map::WIDTH)
        is_linear = false; // this octave is one key
    LinearRun<Bits> linear_run =
        layout.linear_run(interval, map.intervals[interval], coarse << lower_bits);
    if (!is_linear) linear_run.step = 0;
    map.linear_runs[coarse] = linear_run;
}
