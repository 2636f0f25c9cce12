// The plan of a sort, and the count that makes that of the passes.
//
// `sort_count` counts the digits of a part of the keys and, while these are few, the distinct keys. The block
// that finishes last plans: the output from the counts, or passes by ranks (`plan_distinct`), else passes by
// digits of the keys (`plan_passes`).
#pragma once
#include "core/length.cuh"
#include "sort/distinct_keys.cuh"

// A range of indices of the output.
template <class Word> struct IndexRange {
    Word first, count;
    __device__ bool has(Word index) const { return index - first < count; }
};

// The map of fixed-capacity buckets. Zero: the keys are not in any.
enum FixedFunction : u32 { NOT_FIXED, FIXED_BY_BITS, FIXED_BY_RANGE, FIXED_AROUND_HEAVY };

// The plan of a sort, made by its kernels.
template <class Bits> struct SortPlan : SortPlanFields<sizeof(Bits) + 1> { // a pass for each byte, and one more
    // The range from the first to the last bucket that does not fit a block. Its keys are unsigned
    // integers in the order of the sort.
    __device__ IndexRange<u32> left_by_buckets() const {
        u32 end = this->left_end, inverted = this->left_first_inverted;
        return {~inverted, end > 0 ? end - ~inverted : 0};
    }
    // Whether the keys are in fixed-capacity buckets. Then the kernels of counted ones return.
    __device__ bool has_fixed_buckets() const { return this->fixed_function != NOT_FIXED; }
    // Whether passes sort all n keys. They do so too if buckets leave so many keys that sorting all
    // moves fewer bytes.
    __device__ bool all_by_passes(u64 n) const {
        constexpr u32 MOST_LEFT = sizeof(Bits) > 4 ? 4 : 3; // eighths of n; longer keys take more passes
        return this->too_large || left_by_buckets().count > n / 8 * MOST_LEFT;
    }
    // The range that passes sort.
    __device__ IndexRange<u64> range_of_passes(const SortCall &call) const {
        if (call.buckets == NO_BUCKETS || all_by_passes(call.n)) return {0, call.n};
        IndexRange<u32> left = left_by_buckets();
        return {left.first, left.count};
    }
};

template <class Bits> __device__ inline SortPlan<Bits> &plan_of(const SortCall &call) {
    return *(SortPlan<Bits> *)call.plan;
}

// The digit of a pass. Past the last digit it has no bits.
__device__ inline Digit digit_of(const SortCall &call, u32 pass) {
    u32 shift = call.begin + pass * DIGIT_BITS;
    if (shift >= call.end) return {0, 0};
    return {shift, (1u << min(call.end - shift, DIGIT_BITS)) - 1};
}

// The same with the bits that keys are in order of after the pass. Earlier passes have sorted the lower
// digits, or all keys share these.
__device__ inline SortedDigit sorted_digit(const SortCall &call, u32 pass) {
    u32 end = min(call.begin + (pass + 1) * DIGIT_BITS, call.end);
    return {digit_of(call, pass), ~u64(0) >> (64 - end)};
}

// ---- counting ----------------------------------------------------------------------------------

// Copies of a counter, side by side: lanes with the same digit contend less often.
constexpr u32 COPIES = 4;

// The batches of a part of some keys, UNROLL keys of a thread each.
template <u32 THREADS, u32 UNROLL, class Bits> struct Batches {
    static constexpr u32 BATCH = THREADS * UNROLL, IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    const Bits *keys;
    u64 first, count, stride; // of the batch; of all keys; from one batch of the part to the next

    __device__ Batches(const Bits *keys, IndexRange<u64> all, u32 part, u32 parts)
        : keys(keys + all.first), first(u64(part) * BATCH), count(all.count), stride(u64(parts) * BATCH) {}
    __device__ bool has_more() const { return first < count; }
    __device__ void next() { first += stride; }
    // Returns the number of the block's keys in the batch.
    __device__ u32 load(Bits (&key)[UNROLL]) const {
        static_assert(UNROLL % IN_VECTOR == 0, "whole vectors");
        u32 left = u32(min(count - first, u64(BATCH)));
        if (left == BATCH && (u64)keys % sizeof(Vector) == 0) {
#pragma unroll
            for (u32 v = 0; v < UNROLL / IN_VECTOR; v++) {
                Vector vector = ((const Vector *)(keys + first))[v * THREADS + threadIdx.x];
                memcpy(key + v * IN_VECTOR, &vector, sizeof(Vector));
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++) {
                u32 at = i * THREADS + threadIdx.x;
                key[i] = at < left ? keys[first + at] : Bits(0);
            }
        }
        return left;
    }
    // Whether the thread has key `i` of a batch of `left` keys: if some are missing, they are THREADS apart.
    static __device__ bool has(u32 left, u32 i) { return left == BATCH || i * THREADS + threadIdx.x < left; }
};

// Plans the passes from the counts, by one block: a warp plans each pass, where its digits begin
// and whether one digit has all keys.
template <u32 THREADS, class Bits>
__device__ inline void plan_passes(SortPlan<Bits> &plan, const SortCall &call, IndexRange<u64> all, u32 passes) {
    bool after_buckets = all.count < call.n;
    u32 lane = lane_id();
    __shared__ bool same[sizeof(Bits) + 1];
    for (u32 p = warp_id(); p < passes; p += THREADS / WARP) {
        constexpr u32 EACH = BINS / WARP;
        u64 own[EACH], sum = 0, most = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u64 count = load_relaxed(&plan.starts[p][lane * EACH + e]);
            own[e] = sum;
            sum += count;
            most = max(most, count);
        }
        u64 inclusive = warp_inclusive_sum(sum);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) plan.starts[p][lane * EACH + e] = all.first + inclusive - sum + own[e];
        bool only_one = __any_sync(ALL_LANES, most == all.count);
        if (lane == 0) same[p] = only_one;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        // Keys must move at least once. In place they must move an even number of times, and keys
        // that buckets left at least twice. To move by a digit that is the same for all keys does
        // no harm. If all digits differ and their number is odd, the host has added a pass of no
        // bits.
        u32 running = 0;
        for (u32 p = 0; p < passes; p++) running += !same[p];
        u32 extra = after_buckets || call.in_place ? running % 2 : running == 0;
        if (after_buckets && running == 0) extra = 2;
        plan.running = running + extra;
        for (u32 p = 0, next = 0; p < passes; p++) {
            if (!same[p] || extra > 0) plan.which[next++] = p;
            if (same[p] && extra > 0) extra--;
        }
    }
}

// By the block that has counted last. If the distinct keys are few, it puts them in order, plans passes by ranks if
// there is a payload, and returns true. Else it leaves the histograms of the digits as they are.
template <u32 THREADS, bool HAS_VALUES, class Bits>
__device__ __noinline__ bool plan_distinct(typename DistinctKeys<Bits>::Shared &s, DistinctKeys<Bits> &distinct,
                                           SortPlan<Bits> &plan, SortCall call, IndexRange<u64> all) {
    if (!distinct.template sort<THREADS>(s)) return false;
    if constexpr (HAS_VALUES) {
        // Passes by digits of the keys may be as few. (In place the number is made even later.)
        if (distinct.differing_digits(s) <= (s.count > BINS ? 2 : 1) ||
            !distinct.ranks.template make<THREADS>(s.ranks, s.keys, s.count))
            return false;
        for (u32 i = threadIdx.x; i < 2 * BINS; i += THREADS) plan.starts[0][i] = s.digits[0][i];
        __threadfence();
        __syncthreads();
    }
    if (threadIdx.x == 0) distinct.count = s.count;
    if (HAS_VALUES) plan_passes<THREADS>(plan, call, all, 2);
    return true;
}

// Shared memory of `sort_count`: histograms of the digits, and the block's table of distinct keys. LOG_FEW zero: only
// digits are counted.
template <class Bits, u32 LOG_FEW> struct Counters {
    u32 counts[(sizeof(Bits) + 1) * BINS * COPIES];
    typename IfElse<(LOG_FEW > 0), FewKeys<Bits, LOG_FEW>, NoPayload>::Type few;
};

// The greatest LOG_FEW for which `Counters` fits in `bytes`. Twice the entries of the table of all blocks save second
// look-ups.
template <class Bits, u32 LOG_FEW = LOG_DISTINCT + 1> constexpr u32 log_few(u64 bytes) {
    if constexpr (LOG_FEW == 0) return 0;
    else return sizeof(Counters<Bits, LOG_FEW>) <= bytes ? LOG_FEW : log_few<Bits, LOG_FEW - 1>(bytes);
}

// Counts one part of the keys. The block adds keys to its table until one does not fit; from then on it counts
// digits. At the end it counts the digits of the table's keys. `tile`: the length of a tile of the passes that
// sort the keys. Returns true in the block that finishes last.
template <class Order, class Bits, u32 THREADS, u32 LOG_FEW>
__device__ bool sort_count(Counters<Bits, LOG_FEW> &s, const SortCall &call, IndexRange<u64> all, u32 tile, u32 part,
                           u32 parts) {
    constexpr u32 PASSES = sizeof(Bits) + 1, UNROLL = sizeof(Bits) == 1 ? 16 : 8;
    constexpr bool HAS_TABLE = LOG_FEW > 0;
    SortPlan<Bits> &plan = plan_of<Bits>(call);
    bool after_buckets = all.count < call.n; // the other keys are sorted
    Order order{Bits(call.flip)};
    u32 passes = call.passes, copy = threadIdx.x % COPIES;
    for (u32 i = threadIdx.x; i < passes * BINS * COPIES; i += THREADS) s.counts[i] = 0;
    // The steps to buckets may have used the look-back words.
    if (after_buckets) {
        u32 words = u32(min((all.count + tile - 1) / tile, u64(call.tiles))) * BINS;
        for (u32 i = part * THREADS + threadIdx.x; i < words; i += parts * THREADS)
            call.words[0][i] = call.words[1][i] = 0;
    }
    auto count = [&](u32 p, u32 d, u32 keys) { atomicAdd(s.counts + (p * BINS + d) * COPIES + copy, keys); };
    auto count_digits = [&](Bits key, u32 keys) {
#pragma unroll 1
        for (u32 p = 0; p < passes; p++) count(p, digit_of(call, p)(key), keys);
    };
    Batches<THREADS, UNROLL, Bits> batch((const Bits *)(after_buckets ? call.keys[0] : call.keys_in), all, part, parts);
    Bits key[UNROLL];
    auto load = [&] {
        u32 left = batch.load(key);
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) key[i] = after_buckets ? key[i] : order.to(key[i]);
        return left;
    };
    auto count_some = [&](auto is_there) {
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++)
            if (is_there(i)) count_digits(key[i], 1);
    };
    bool by_table = HAS_TABLE && call.distinct != nullptr;
    if constexpr (HAS_TABLE) {
        if (by_table) s.few.clear();
        for (bool is_first = true; by_table && batch.has_more(); batch.next(), is_first = false) {
            u32 left = load(), rest = 0; // a bit for each key
            if (is_first && left == batch.BATCH && !s.few.template have_few<UNROLL>(key)) {
                by_table = false;
                break;
            }
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++) rest |= u32(batch.has(left, i)) << i;
            rest = s.few.template add_each<UNROLL>(key, rest);
            by_table = !__syncthreads_or(rest);
            if (!by_table) count_some([&](u32 i) { return rest >> i & 1; });
        }
    }
    __syncthreads(); // the counters are clear
    for (; batch.has_more(); batch.next()) {
        u32 left = load();
        if (left < batch.BATCH) count_some([&](u32 i) { return batch.has(left, i); });
        else
#pragma unroll
            for (u32 p = 0; p < PASSES; p++) {
                if (p >= passes) break;
                Digit digit = digit_of(call, p);
#pragma unroll
                for (u32 i = 0; i < UNROLL; i++) count(p, digit(key[i]), 1);
            }
    }
    if constexpr (HAS_TABLE)
        if (call.distinct != nullptr) {
            typename DistinctKeys<Bits>::Found &found = ((DistinctKeys<Bits> *)call.distinct)->found;
            by_table = by_table && s.few.count <= MOST_DISTINCT; // more would fill the table of all blocks in vain
            s.few.template each<THREADS>([&](Bits key, u32 hits) {
                if (by_table) by_table = found.add(key, hits);
                count_digits(key, hits);
            });
            // Without all keys of a block the table of all blocks is of no use.
            if (__syncthreads_or(!by_table) && threadIdx.x == 0) found.give_up();
        }
    __syncthreads();
    for (u32 i = threadIdx.x; i < passes * BINS; i += THREADS) {
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++) sum += s.counts[i * COPIES + (c + threadIdx.x) % COPIES];
        if (sum > 0) atomicAdd(&plan.starts[0][i], u64(sum));
    }
    return is_last_of(&plan.counted, parts);
}

// The same, outlined, so that it takes no registers from the passes.
template <class Order, class Bits, u32 THREADS, u32 LOG_FEW>
__device__ __noinline__ bool sort_count_outlined(Counters<Bits, LOG_FEW> &s, SortCall call, IndexRange<u64> all,
                                                 u32 tile, u32 part, u32 parts) {
    return sort_count<Order, Bits, THREADS>(s, call, all, tile, part, parts);
}
