// The pilot sample and the choice of a map (bucket_map.cuh), in one launch before the exact
// histogram.
//
// The blocks copy one key of every `stride` keys to `buckets.sample`. They record the least and the
// greatest key, the bits that differ, and two histograms: by the first digit, and by hashes of the
// keys (a sketch, as of Cormode and Muthukrishnan 2005). The last block selects the map by
// bits if the first is even and no key can be frequent, and sends inputs whose sample differs in at
// most two digits to the passes.
//
// Otherwise the blocks take the histograms of the sample by range and by the intervals of two layouts,
// and count the keys that the sketch has as frequent. The last one selects heavy keys and makes the map
// of the others, by range or by intervals. All starts from a zeroed `BucketMap`.
#pragma once
#include "sort/bucket_map.cuh"

// ---- sample ---------------------------------------------------------------------------------

// Whether every bucket fits a block's room, judged by the fullest of BINS equal parts, which has
// `most` keys of the sample. An excess of three standard deviations is taken for chance. All parts
// share `coarse` coarse buckets of `lower_bits`.
__device__ inline bool is_even(const BucketCall &buckets, u64 n, u32 most, u32 coarse, u32 lower_bits) {
    float fits = 0.95f * float(buckets.sampled) * float(buckets.room << lower_bits) / float(n) * (float(coarse) / BINS);
    return float(most) <= fits + 3 * sqrtf(fits);
}
// One sampled key in so many is in the sketch.
__device__ inline u32 thinned(u32 sampled) { return max(1, sampled >> LOG_SKETCHED); }
// The hits of a slot of the sketch that are not by chance: a key in it is frequent.
__device__ inline u32 frequent_hits(u32 sampled) {
    float average = float(sampled / thinned(sampled)) / (1 << LOG_SLOTS);
    return u32(average + 5 * sqrtf(average)) + 5;
}

// Takes the sample in parts. The block that finishes last selects the map by bits, or the passes.
template <class Order, class Bits, u32 THREADS> struct SampleTaker {
    struct Shared {
        u64 extremes[2], differing;
        u32 coarse_counts[BINS], sketch[1 << LOG_SLOTS], most[2];
    };
    Shared &s;
    const SortCall &call;
    const BucketCall &buckets;
    BucketMap<Bits> &map;

    // By the whole block: part `part` of `parts`. Returns whether it was the last one.
    __device__ bool take(u32 part, u32 parts) {
        u32 i = threadIdx.x;
        if (i < 2) s.extremes[i] = s.most[i] = 0;
        if (i < BINS) s.coarse_counts[i] = 0;
        if (i == 0) s.differing = 0;
        for (u32 slot = i; slot < 1 << LOG_SLOTS; slot += THREADS) s.sketch[slot] = 0;
        __syncthreads();
        count(part, parts);
        __syncthreads();
        if (i < 2) atomicMax(map.extremes + i, s.extremes[i]);
        if (i == 0) atomicOr(&map.differing, s.differing);
        if (i < BINS && s.coarse_counts[i]) atomicAdd(map.coarse_counts + i, s.coarse_counts[i]);
#pragma unroll 4
        for (u32 slot = i; slot < 1 << LOG_SLOTS; slot += THREADS)
            if (s.sketch[slot]) atomicAdd(map.sketch + slot, s.sketch[slot]);
        if (!is_last_of(&map.sampled, parts)) return false;
        select();
        return true;
    }

  private:
    __device__ void count(u32 part, u32 parts) {
        Order order{Bits(call.flip)};
        const Bits *keys = (const Bits *)call.keys_in;
        u32 stride = u32(call.n / buckets.sampled);
        u64 least_inverted = 0, greatest = 0, differs = 0;
        Bits one = order.to(keys[0]);
        for (u32 i = part * THREADS + threadIdx.x; i < buckets.sampled; i += parts * THREADS) {
            Bits key = order.to(keys[sampled_at(i, stride, buckets.seed)]);
            ((Bits *)buckets.sample)[i] = key;
            atomicAdd(s.coarse_counts + u32(key >> (BucketMap<Bits>::WIDTH - DIGIT_BITS)), 1);
            if (i % thinned(buckets.sampled) == 0) atomicAdd(s.sketch + hashed<LOG_SLOTS>(key), 1);
            least_inverted = max(least_inverted, u64(Bits(~key)));
            greatest = max(greatest, u64(key));
            differs |= u64(key ^ one);
        }
        least_inverted = warp_max(least_inverted);
        greatest = warp_max(greatest);
        differs = warp_or(differs);
        if (lane_id() == 0) {
            max_shared(s.extremes, least_inverted);
            max_shared(s.extremes + 1, greatest);
            or_shared(&s.differing, differs);
        }
    }
    __device__ void select() {
        u32 hits = 0;
#pragma unroll
        for (u32 i = threadIdx.x; i < 1 << LOG_SLOTS; i += THREADS) hits = max(hits, load_relaxed(map.sketch + i));
        hits = warp_max(hits);
        if (lane_id() == 0) atomicMax(s.most + 1, hits);
        if (threadIdx.x < BINS) atomicMax(s.most, load_relaxed(map.coarse_counts + threadIdx.x));
        __syncthreads();
        if (threadIdx.x > 0) return;
        u32 digits = 0; // digits that differ within the sample
        for (u64 rest = load_relaxed(&map.differing); rest != 0; rest >>= DIGIT_BITS)
            digits += (rest & (BINS - 1)) != 0;
        bool by_bits = is_even(buckets, call.n, s.most[0], BINS, buckets.lower_bits) &&
                       s.most[1] < frequent_hits(buckets.sampled);
        map.function = by_bits ? BY_BITS : AROUND_HEAVY;
        map.lower_bits = buckets.lower_bits;
        if (digits <= FEW_DIGITS) plan_of<Bits>(call).too_large = 1;
    }
};

// ---- map ------------------------------------------------------------------------------------

// Counts the sample. The block that finishes last makes the map. Its loops are not unrolled:
// instruction fetch bounds code that runs once.
template <class Order, class Bits, u32 THREADS> struct MapMaker {
    typedef BucketMap<Bits> Map;
    typedef typename Map::Tables Tables;
    typedef typename Tables::Intervals Intervals;
    static constexpr u32 INTERVALS = Map::INTERVALS, SIDE = Map::SIDE, EACH = (INTERVALS + THREADS - 1) / THREADS,
                         LEAST_HITS = 8; // of a heavy key in the sample
    static_assert(THREADS >= BINS && THREADS >= FrequentKeys<Bits>::SLOTS, "a thread for each");
    struct Shared {
        Tables tables;
        // The sample by interval of either layout. Later: of the layout not chosen, the density of
        // each interval; then `one_key` of the map.
        u32 counts[2][INTERVALS];
        u32 shares[BINS], needs[INTERVALS];
        FrequentKeys<Bits> few;
        typename HeavyKeys<Bits>::Found found;
        u64 totals[THREADS / WARP];
        u32 most[3]; // keys in an interval of either layout, and in a part of the range
        u32 coarse[HEAVY_SLOTS], of_heavy, is_last;
        u32 missed, of_dense; // hits of frequent keys: of those not in `few`, and of those beside others
    };
    // The buckets that an interval needs. PARTIAL: a share of a bucket in units of 1 / ONE; several
    // intervals with few keys share it. Else whole buckets, the first of which is a new one.
    // ONE_KEY: as many buckets as the interval is keys wide.
    static constexpr u32 ONE = 1 << 16, MOST_OWN = (1u << (PART_BITS - 1)) - 1, PARTIAL = 1u << 31, ONE_KEY = 1u << 30,
                         NEED = (1u << PART_BITS) - 1;

    Shared &s;
    const SortCall &call;
    const BucketCall &buckets;
    Map &map;
    u64 extremes[2];
    Intervals layouts[2]; // inward, outward
    Share<Bits> share; // of BINS equal parts

    __device__ MapMaker(Shared &s, const SortCall &call, const BucketCall &buckets)
        : s(s), call(call), buckets(buckets), map(*(Map *)buckets.map), extremes{map.extremes[0], map.extremes[1]},
          layouts{Intervals::inward(extremes, Order::GRAIN), Intervals::outward()}, share(extremes) {}

    // By the whole block: part `part` of `parts`. Returns whether it was the last one.
    __device__ bool run(u32 part, u32 parts) {
        share.factor = is_wide() ? share.factor_for(BINS) : 0;
        count(part, parts);
        if (s.is_last) make();
        return s.is_last;
    }

  private:
    __device__ void make() {
        collect();
        find_most();
        u32 best = s.most[1] < s.most[0];
        Intervals layout = best ? layouts[1] : layouts[0];
        if (!choose_heavy(layout, s.counts[best])) return leave_to_passes();
        if (spreads_by_range()) return finish(map.lower_bits);
        best = s.most[1] < s.most[0]; // without the heavy keys
        layout = best ? layouts[1] : layouts[0];
        weigh(layout, s.counts[best], (float *)s.counts[1 - best]);
        u64 before, all = sum(before);
        u32 needed = u32(all >> 32) + u32(all) / ONE + 1, coarse = BINS - 2 * s.tables.heavy.count,
            lower_bits = buckets.lower_bits;
        if (needed > coarse << lower_bits) lower_bits = buckets.most_lower_bits;
        if (needed > coarse << lower_bits) return leave_to_passes();
        fill(layout, before, needed);
        finish(lower_bits);
        write_one_key(lower_bits);
    }
    __device__ void leave_to_passes() const {
        if (threadIdx.x == 0) plan_of<Bits>(call).too_large = 1;
    }
    __device__ bool is_wide() const { return share.range() >> 20 != 0; }

    // Counts a part of the sample.
    __device__ void count(u32 part, u32 parts) {
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS) s.counts[0][i] = 0;
        if (threadIdx.x < BINS) s.shares[threadIdx.x] = 0;
        s.few.clear();
        u32 frequent = frequent_hits(buckets.sampled), missed = 0;
        const Bits *sample = (const Bits *)buckets.sample;
        u32 i = part * THREADS + threadIdx.x;
        Bits next = sample[i];
        u32 next_hits = map.sketch[hashed<LOG_SLOTS>(next)];
        while (i < buckets.sampled) {
            Bits key = next;
            u32 hits = next_hits;
            i += parts * THREADS;
            if (i < buckets.sampled) {
                next = sample[i];
                next_hits = map.sketch[hashed<LOG_SLOTS>(next)];
            }
            atomicAdd(s.shares + share(key), 1);
#pragma unroll
            for (u32 w = 0; w < 2; w++) atomicAdd(s.counts[w] + layouts[w].interval(layouts[w](key)), 1);
            if (hits >= frequent) missed += !s.few.add(key, 1);
        }
        __syncthreads();
        for (u32 i = threadIdx.x; i < 2 * INTERVALS; i += THREADS)
            if (s.counts[0][i]) atomicAdd(map.samples[0] + i, s.counts[0][i]);
        if (threadIdx.x < BINS && s.shares[threadIdx.x]) atomicAdd(map.shares + threadIdx.x, s.shares[threadIdx.x]);
        if (u32 hits = threadIdx.x < s.few.SLOTS ? s.few.hits[threadIdx.x] : 0; hits > 0)
            missed += map.candidates.add(s.few.key(threadIdx.x), hits) ? 0 : hits;
        missed = warp_add(missed);
        if (lane_id() == 0 && missed > 0) atomicAdd(&map.missed, missed);
        // Not by `is_last_of`: then the compiler gives `bucket_map` 32 registers, not 64.
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) s.is_last = add_acquire_release(&map.mapped, 1) == parts - 1;
        __syncthreads();
    }
    // Collects what all blocks have counted.
    __device__ void collect() {
        constexpr u32 LOADS = (2 * INTERVALS + THREADS - 1) / THREADS;
        u32 samples[LOADS];
        load_samples<THREADS>(samples, map);
        if (threadIdx.x < BINS) s.shares[threadIdx.x] = load_relaxed(map.shares + threadIdx.x);
#pragma unroll
        for (u32 k = 0; k < LOADS; k++)
            if (u32 i = k * THREADS + threadIdx.x; i < 2 * INTERVALS) s.counts[0][i] = samples[k];
        if (threadIdx.x == 0) {
            s.missed = load_relaxed(&map.missed);
            s.of_dense = 0;
        }
        s.few.clear();
        // The most frequent candidates first, since `few` may refuse the last ones.
        typedef typename Map::Candidates Candidates;
        constexpr u32 SLOTS = (Candidates::SLOTS + THREADS - 1) / THREADS;
        Bits key[SLOTS];
        u32 hits[SLOTS];
#pragma unroll
        for (u32 k = 0; k < SLOTS; k++) {
            u32 slot = k * THREADS + threadIdx.x;
            key[k] = map.candidates.key(slot);
            hits[k] = slot < Candidates::SLOTS ? load_relaxed(map.candidates.hits + slot) : 0;
        }
        u32 missed = 0;
#pragma unroll 1
        for (u32 least = LEAST_HITS << 16; least >= LEAST_HITS; least /= 4) {
#pragma unroll
            for (u32 k = 0; k < SLOTS; k++)
                if (hits[k] >= least) {
                    if (!s.few.add(key[k], hits[k])) missed += hits[k];
                    hits[k] = 0;
                }
            __syncthreads();
        }
        missed = warp_add(missed);
        if (lane_id() == 0 && missed > 0) atomicAdd(&s.missed, missed);
        __syncthreads();
    }
    // Finds the fullest interval of either layout, and the fullest part of the range.
    __device__ void find_most() {
        __syncthreads();
        if (threadIdx.x < 3) s.most[threadIdx.x] = 0;
        __syncthreads();
        u32 own[3] = {0, 0, threadIdx.x < BINS ? s.shares[threadIdx.x] : 0};
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) {
            own[0] = max(own[0], s.counts[0][i]);
            own[1] = max(own[1], s.counts[1][i]);
        }
#pragma unroll
        for (u32 w = 0; w < 3; w++)
            if (u32 most = warp_max(own[w]); lane_id() == 0) atomicMax(s.most + w, most);
        __syncthreads();
    }
    // A key is heavy if it may fill a quarter of a bucket. It is not if the keys beside it are as
    // frequent, since intervals are faster. A key with an eighth of the sample or more always is. If
    // there are too many heavy keys, or if their digits leave too few buckets to the other keys, only
    // the more frequent ones are. Returns false if a quarter of the keys or more are frequent and not
    // heavy: passes would sort them.
    __device__ bool choose_heavy(const Intervals &layout, const u32 *counts) {
        u32 i = threadIdx.x, hits = i < s.few.SLOTS ? s.few.hits[i] : 0;
        if (hits > 0 && hits < buckets.sampled / 8) {
            Bits key = s.few.key(i);
            auto interval_of = [&](Bits key) { return layout.interval(layout(key)); };
            u32 interval = interval_of(key), bits = layout.width_bits(interval),
                others = counts[interval] - min(hits, counts[interval]),
                beside = bits > 0 ? u32(others / ((u64(1) << bits) - 1))
                                  : counts[interval_of(key + 1)] + counts[interval_of(key - 1)];
            if (hits <= 2 * beside) {
                atomicAdd(&s.of_dense, hits);
                hits = s.few.hits[i] = 0;
            }
        }
        float in_bucket = float(buckets.sampled) * float(buckets.room) / float(call.n);
        u32 least = max(LEAST_HITS, u32(in_bucket / 4)), of_frequent = 0;
        for (;; least *= 2) {
            if (threadIdx.x == 0) s.of_heavy = 0;
            __syncthreads();
            if (hits >= least) atomicAdd(&s.of_heavy, hits);
            u32 count = __syncthreads_count(hits >= least);
            float room = 0.85f * in_bucket * float((BINS - 2 * count) << buckets.most_lower_bits);
            bool fits = float(buckets.sampled - s.of_heavy) <= room;
            of_frequent = max(of_frequent, s.of_heavy);
            if (count == 0 || (count <= MOST_HEAVY && fits)) break;
            __syncthreads(); // all threads have read the sum
        }
        // The missed keys are taken to be dense as often as those that are known.
        float missed = float(s.missed) * float(of_frequent) / float(max(of_frequent + s.of_dense, 1));
        if (float(of_frequent - s.of_heavy) + missed >= 0.25f * float(buckets.sampled)) return false;
        s.tables.heavy.clear(s.found);
        __syncthreads();
        s.tables.heavy.add_frequent(s.few, least, s.found, call.n, buckets.sampled, nullptr);
        if (threadIdx.x < s.tables.heavy.count) { // the map is for the other keys
            Bits key = s.found.keys[threadIdx.x];
            u32 own = s.found.hits[threadIdx.x];
            atomicSub(s.shares + share(key), own);
#pragma unroll
            for (u32 w = 0; w < 2; w++) atomicSub(s.counts[w] + layouts[w].interval(layouts[w](key)), own);
        }
        find_most();
        return true;
    }
    // Whether a share of the range spreads the keys that are not heavy.
    __device__ bool spreads_by_range() {
        u32 coarse = BINS - 2 * s.tables.heavy.count, lower_bits = buckets.lower_bits;
        if (!is_even(buckets, call.n, s.most[2], coarse, lower_bits)) lower_bits = buckets.most_lower_bits;
        bool is_linear = is_wide() && is_even(buckets, call.n, s.most[2], coarse, lower_bits);
        if (is_linear) share.factor = share.factor_for(coarse << lower_bits);
        __syncthreads();
        if (threadIdx.x == 0) {
            s.tables.is_linear = is_linear;
            s.tables.share = share;
            map.lower_bits = lower_bits;
        }
        __syncthreads();
        return is_linear;
    }
    // Puts the heavy keys between the map's coarse buckets, and writes all tables.
    __device__ void finish(u32 lower_bits) {
        HeavyKeys<Bits> &heavy = s.tables.heavy;
        heavy.place(typename Map::Base(s.tables), lower_bits, s.coarse);
        if (threadIdx.x < heavy.count) {
            u32 bucket = (s.coarse[threadIdx.x] + 2 * threadIdx.x + 1) << lower_bits;
            atomicOr(map.one_key + bucket / 32, 1u << bucket % 32);
        }
        if (threadIdx.x == 0) map.lower_bits = lower_bits;
        for (u32 i = threadIdx.x; i < sizeof(Tables) / sizeof(Vector); i += THREADS)
            ((Vector *)&map.tables)[i] = ((const Vector *)&s.tables)[i];
    }

    // ---- intervals

    // Writes the needs of the intervals, in the order of keys.
    __device__ void weigh(const Intervals &layout, const u32 *counts, float *density) {
        // Keys of the sample. With few hits 2.5 roots are too little: half of 2.5 squared, by
        // Poisson's law.
        constexpr float MARGIN = 3;
        // buckets for each key of the sample, if they are filled to 88 %
        float scale = float(call.n) / (float(buckets.sampled) * float(buckets.room) * 0.88f);
        // An end's interval has all its keys in a part of its width. That part gets as many buckets
        // as any other interval gets for its whole width.
        u32 ends[2] = {layout(Bits(~extremes[0])), layout(Bits(extremes[1]))};
        auto sample_of = [&](u32 i) { return float(counts[layout.nth_in_order(i)]); };
        auto root = [](float x) {
            float root;
            asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
            return root;
        };
        // an interval's share of all keys is rarely more
        auto upper_bound = [&](float hits) { return hits + 2.5f * root(hits); };
        auto bits = [&](u32 i) { return layout.width_bits(layout.nth_in_order(i)); };
        auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) density[i] = sample_of(i) * power(-int(bits(i)));
        __syncthreads();
        auto weight_of = [&](u32 i) { // in keys of the sample
            u32 interval = layout.nth_in_order(i);
            float weight = upper_bound(sample_of(i));
#pragma unroll
            for (u32 upper = 0; upper < 2; upper++)
                if (interval == layout.interval(ends[upper]) && interval / SIDE == upper)
                    weight = __fdividef(weight, layout.filled_share(ends[upper]));
            // Keys may get dense within the interval. If its dense part fills half a bucket or
            // more, the interval gets as many buckets as if it were as dense as its denser
            // neighbour.
            float before = i > 0 ? density[i - 1] : 0, after = i + 1 < INTERVALS ? density[i + 1] : 0,
                  dense = max(before, after), sparse = min(before, after);
            if (dense > 1.1f * density[i] && 2 * weight * scale * (density[i] - sparse) > dense - sparse) {
                u32 beside = before > after ? i - 1 : i + 1;
                weight = max(weight, upper_bound(sample_of(beside)) * power(int(bits(i)) - int(bits(beside))));
            }
            return weight;
        };
        auto width = [&](u32 i) { return 1u << min(bits(i), 31u); };
        // buckets of whole keys, none wider than its share
        auto own_buckets = [&](u32 i, float weight) {
            weight += MARGIN * scale;
            float each = floorf(__fdividef(float(width(i)), weight));
            return each < 1 ? min(width(i), MOST_OWN) : min(u32(ceilf(__fdividef(float(width(i)), each))), MOST_OWN);
        };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < INTERVALS; i += THREADS) { // all lanes of a warp, or none
            float weight = weight_of(i) * scale; // in buckets
            u32 interval = layout.nth_in_order(i), need = PARTIAL | u32(weight * ONE);
            if (weight >= 0.25f) {
                need = own_buckets(i, weight);
                if (need == width(i)) need |= ONE_KEY;
            }
            // An interval that no key can be in needs no bucket. It takes the kind of the interval
            // that holds its key, so that it does not begin a bucket.
            u32 holder = layout.with_key(interval),
                need_of_holder = __shfl_sync(
                    ALL_LANES, need, lane_id() + (layout.rises(interval) ? holder - interval : interval - holder));
            if (holder != interval) need = need_of_holder & PARTIAL ? PARTIAL : ONE_KEY;
            s.needs[i] = need;
        }
        __syncthreads();
    }
    // The needs of the thread's intervals begin behind `before`: whole buckets in the upper half,
    // partial ones in the lower. Returns the sum of all.
    __device__ u64 sum(u64 &before) {
        u64 own = 0;
        u32 begin = threadIdx.x * EACH;
#pragma unroll 1
        for (u32 i = begin; i < min(begin + EACH, INTERVALS); i++) own += added_by(i);
        u64 upto = warp_inclusive_sum(own);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u64 all = 0;
        before = upto - own;
#pragma unroll 1
        for (u32 w = 0; w < THREADS / WARP; w++) {
            if (w < warp_id()) before += s.totals[w];
            all += s.totals[w];
        }
        return all;
    }
    __device__ bool is_after_partial(u32 i) const { return i > 0 && s.needs[i - 1] & PARTIAL; }
    // What interval i adds to the sum.
    __device__ u64 added_by(u32 i) const {
        u32 need = s.needs[i];
        return need & PARTIAL ? need & NEED : u64((need & NEED) + is_after_partial(i)) << 32;
    }
    // Writes the table. Intervals without keys of the sample share buckets. None of these is a
    // single-key bucket, whatever keys come.
    __device__ void fill(const Intervals &layout, u64 before, u32 needed) {
        u32 *one_key = s.counts[0], beyond = layout.beyond();
        static_assert(2 * INTERVALS >= BUCKETS / 32, "room for all bits");
        for (u32 i = threadIdx.x; i < BUCKETS / 32; i += THREADS) one_key[i] = 0;
        __syncthreads();
        u32 begin = threadIdx.x * EACH;
#pragma unroll 1
        for (u32 i = begin; i < min(begin + EACH, INTERVALS); i++) {
            u32 need = s.needs[i], own = need & PARTIAL ? 1 : need & NEED,
                bucket = u32(before >> 32) + u32(before) / ONE;
            before += added_by(i);
            if (!(need & PARTIAL)) {
                bucket += is_after_partial(i);
                for (u32 k = 0; need & ONE_KEY && k < own;) { // all bits of a word at once
                    u32 at = (bucket + k) % 32, bits = min(own - k, 32 - at);
                    atomicOr(one_key + (bucket + k) / 32, ~0u >> (32 - bits) << at);
                    k += bits;
                }
            }
            u32 interval = layout.nth_in_order(i);
            bool rises = layout.rises(interval);
            if (interval % SIDE >= beyond) bucket = interval < SIDE ? 0 : needed - 1;
            // at the interval's beginning
            u32 first = rises ? bucket : bucket + own - 1, step = own == 1 ? 0 : rises ? own : -own;
            s.tables.intervals[interval] = (first - step * layout.number(interval)) << PART_BITS | u16(step);
        }
        if (threadIdx.x == 0) s.tables.layout = layout;
        __syncthreads();
    }
    // Writes the bits of single-key buckets, whose numbers the heavy keys have moved. Each part of
    // a coarse bucket that heavy keys split has all of its bits.
    __device__ void write_one_key(u32 lower_bits) {
        const u32 *one_key = s.counts[0];
        u32 chunk = 1u << min(lower_bits, 5u); // bits of one coarse bucket, in one word
        for (u32 i = threadIdx.x; i < BUCKETS / chunk; i += THREADS) {
            u32 bucket = i * chunk, bits = one_key[bucket / 32] >> bucket % 32 & ~0u >> (32 - chunk);
            if (bits == 0) continue;
            u32 coarse = bucket >> lower_bits, less = s.tables.heavy.entries[coarse],
                end = coarse + 1 < BINS ? s.tables.heavy.entries[coarse + 1] : s.tables.heavy.count;
            for (; less <= end; less++) {
                u32 moved = bucket + (2 * less << lower_bits);
                atomicOr(map.one_key + moved / 32, bits << moved % 32);
            }
        }
    }
};

// ---- both -----------------------------------------------------------------------------------

// Calls `take(part)` by the whole block for each part that the block draws, of `parts`, until it
// returns true or none is left.
template <class Take> __device__ inline void draw_parts(u32 *ticket, u32 parts, const Take &take) {
    for (u32 part; (part = draw(ticket)) < parts && !take(part);) {}
}

// The blocks draw the parts of the sample and, when its last block has selected that, those of the
// map. A block that waits has drawn a ticket past the last part, so all parts are of blocks that run.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_map(const SortCall &call, const BucketCall &buckets) {
    typedef SampleTaker<Order, Bits, THREADS> Taker;
    typedef MapMaker<Order, Bits, THREADS> Maker;
    union Shared {
        typename Taker::Shared sample;
        typename Maker::Shared map;
        __device__ Shared() {}
    };
    alignas(16) __shared__ char memory[sizeof(Shared)];
    Shared &s = *(Shared *)memory;
    const SortPlan<Bits> &plan = plan_of<Bits>(call);
    BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
    if (plan.has_fixed_buckets()) return;
    u32 parts = min(max(buckets.sampled / (2 * THREADS), 1), gridDim.x);
    Taker taker{s.sample, call, buckets, map};
    draw_parts(&map.sample_ticket, parts, [&](u32 part) {
        bool is_last = taker.take(part, parts);
        if (is_last) {
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                store_relaxed(&map.is_selected, 1);
            }
        }
        return is_last;
    });
    if (threadIdx.x == 0) wait_for(&map.is_selected, 1);
    __syncthreads();
    if (plan.too_large || map.function == BY_BITS) return;
    draw_parts(&map.map_ticket, parts, [&](u32 part) { return Maker(s.map, call, buckets).run(part, parts); });
}
