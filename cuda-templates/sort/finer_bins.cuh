// Bins of two sizes, for keys of a slot that are not spread evenly in it: of many keys a bin becomes as many finer ones as they need, of few less than one.
//
// A key's finer bin is told by how far in its bin it is. Then each key is compared with the others of its finer bin, unless these are many and all equal, as of
// a frequent key among others.
#pragma once
#include "sort/buckets.cuh"

template <class Sort, u32 LOG_BINS> struct FinerBins {
    typedef typename Sort::Bits Bits;
    typedef typename Sort::Value Value;
    typedef typename Sort::Item Item;
    typedef typename Sort::Fine Fine;
    typedef typename Sort::Mine Mine;
    typedef typename Sort::Span Span;
    static constexpr bool HAS_VALUES = Sort::HAS_VALUES;
    static constexpr u32 THREADS = Sort::THREADS, ITEMS = Sort::ITEMS, ROWS = Sort::ROWS, WARPS = Sort::WARPS, TURNS = Sort::TURNS, FINE = Sort::FINE;
    static constexpr u32 MOST_COMPARED = WARP; // of a finer bin
    static constexpr u32 MOST_LONG = 4;        // finer bins of more, with something beside them: each takes a turn

    // By the whole block, of keys that are where `rest` says and that bins did not tell apart. Whether it was done: not if keys of a long finer bin differ, or
    // with a payload there are too many of these. Then the keys are where they were.
    template <class Order>
    static __device__ bool run(Fine &s, u32 count, Order order, Bits *out, const Value *values, Value *values_out, Span span) {
        constexpr u32 PLACE_BITS = 16;
        if (span.bits <= LOG_BINS) return false; // a bin's keys are equal
        if (TURNS == 1 && has_many_long(s, count)) return false;
        Bits *keys = Sort::rest(s);
        Mine t(count, [=](u32 at) { return keys[at]; });
        u16 *table = (u16 *)s.items; // where a bin's finer ones begin
        u32 beyond = Sort::WIDTH == 64 && span.most >> (Sort::WIDTH / 2) != 0 ? 32 - __clz(int(span.most >> (Sort::WIDTH / 2))) : 0;
        u32 factor = Sort::factor_for(u32(span.most >> beyond), FINE);
        auto product = [&](u32 i) { return u64(u32(t.key[i] >> beyond)) * factor; };
        int left = t.left();
        // Bins still say how many they have, but of more turns than one some say already where they begin.
        if constexpr (TURNS > 1) {
            Sort::clear_bins(s);
            __syncthreads();
            t.rows([&](u32 i) { only_count_if(left, i * THREADS, s.bins + u32(product(i) >> 32)); });
            __syncthreads();
            if (has_many_long(s, count)) return false;
        }
        // With a payload they were counted by keys and places together, so the greatest key may be in a bin that says it has none, behind all others: even
        // that has a finer one. Nobody writes before all have their keys.
        float finer = float(FINE) / float(count);
        Sort::places_of_bins(s, [&](u32 bin, u32 begin) { table[bin] = u16(min(float(begin) * finer, float(FINE - 1))); });
        if (threadIdx.x == 0) table[FINE] = FINE;
        Sort::clear_bins(s);
        __syncthreads();
        u32 place[ITEMS]; // first the finer bin, and above it how many of it were before
        bool has_more = false; // whether a key of this thread's is the first of its finer bin that is one too many
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (row * THREADS >= count) break;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u64 exact = product(i);
                u32 bin = u32(exact >> 32), begin = table[bin];
                place[i] = begin + __umulhi(u32(exact), table[bin + 1] - begin);
            }
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 before = count_if(left, i * THREADS, s.bins + place[i], 1);
                has_more |= before == MOST_COMPARED;
                place[i] |= before << 16;
            }
        }
        if (__syncthreads_count(has_more) > MOST_LONG && HAS_VALUES) return false; // a thread may have two
        Sort::places_of_bins(s, [&](u32 bin, u32 begin) { s.bins[bin] = begin; });
        __syncthreads();
        u32 *longs = s.totals; // how many, then of each where one of its keys is and where it begins
        static_assert(1 + 2 * MOST_LONG <= sizeof(s.totals) / sizeof(u32), "room for all");
        if (threadIdx.x == 0) longs[0] = 0;
        t.rows([&](u32 i) {
            u32 bin = place[i] & 0xffff, begin = s.bins[bin];
            if (t.is_there(i)) s.items[begin + (place[i] >> 16)] = HAS_VALUES ? Item(Sort::at(i)) : Item(t.key[i]);
        });
        __syncthreads();
        bool fails = false;
        t.rows([&](u32 i) {
            u32 bin = place[i] & 0xffff, begin = s.bins[bin], end = bin + 1 < FINE ? s.bins[bin + 1] : count, less = begin;
            if (!t.is_there(i)) return;
            u32 before = place[i] >> 16, own = HAS_VALUES ? Sort::at(i) : begin + before;
            if (end - begin > MOST_COMPARED) {
                fails |= keys[HAS_VALUES ? u32(s.items[begin]) : begin] != t.key[i];
                if (HAS_VALUES && before == MOST_COMPARED) {
                    u32 l = atomicAdd(longs, 1);
                    if (l < MOST_LONG) longs[1 + 2 * l] = Sort::at(i), longs[2 + 2 * l] = begin;
                    else fails = true;
                }
                place[i] = begin + before;
                return;
            }
            for (u32 j = begin; j < end; j++) {
                u32 where = HAS_VALUES ? u32(s.items[j]) : j; // equal keys are told apart by it
                Bits other = keys[where];
                less += other < t.key[i] || (other == t.key[i] && where < own);
            }
            place[i] = less;
        });
        if (__syncthreads_or(fails)) {
            if constexpr (!HAS_VALUES)
                t.rows([&](u32 i) {
                    if (t.is_there(i)) keys[Sort::at(i)] = t.key[i];
                });
            return false;
        }
        if constexpr (HAS_VALUES)
            for (u32 l = 0; l < longs[0]; l++) keep_order(s, t, keys[longs[1 + 2 * l]], longs[2 + 2 * l], place);
        t.rows([&](u32 i) {
            if (t.is_there(i)) s.items[place[i]] = HAS_VALUES ? Item(Sort::at(i)) : Item(t.key[i]);
        });
        if constexpr (HAS_VALUES) Sort::write_pairs(s, span, order, out, values, values_out, count, PLACE_BITS, false);
        else {
            __syncthreads();
            Sort::write_keys(s, span, order, out, count);
        }
        return true;
    }

  private:
    // With a payload, as long as bins say how many they have: whether few are used, but more than may be long. Then most keys are equal, or seem to be.
    static __device__ bool has_many_long(Fine &s, u32 count) {
        if (!HAS_VALUES) return false;
        u32 used = 0;
        for (u32 i = threadIdx.x; i < FINE; i += THREADS) used += s.bins[i] > 0;
        used = warp_add(used);
        if (lane_id() == 0) s.totals[warp_id()] = used;
        __syncthreads();
        used = warp_add(lane_id() < WARPS ? s.totals[lane_id()] : 0);
        __syncthreads(); // all have read it
        return used > MOST_LONG && used < count / WARP;
    }
    // Places from `begin` on for all that are equal to a key, in the order in which they are now. By the whole block, when nobody needs the items.
    static __device__ void keep_order(Fine &s, const Mine &t, Bits key, u32 begin, u32 (&place)[ITEMS]) {
        constexpr u32 WORDS = ITEMS * WARPS;
        static_assert(WORDS <= THREADS && sizeof(s.items) >= (WORDS + WARPS) * sizeof(u32), "a thread and a word for each row of a warp");
        u32 *earlier = (u32 *)s.items, *totals = earlier + WORDS;
        auto equal = [&](u32 i) { return __ballot_sync(ALL_LANES, t.is_there(i) && t.key[i] == key); };
        t.rows([&](u32 i) {
            u32 lanes = equal(i);
            if (lane_id() == 0) earlier[Sort::at(i) / WARP] = __popc(lanes);
        });
        __syncthreads();
        u32 w = threadIdx.x, before = block_before<THREADS>(w * WARP < t.count ? earlier[w] : 0, totals);
        if (w * WARP < t.count) earlier[w] = before;
        __syncthreads();
        t.rows([&](u32 i) {
            u32 lanes = equal(i);
            if (lanes >> lane_id() & 1) place[i] = begin + earlier[Sort::at(i) / WARP] + __popc(lanes & ((1u << lane_id()) - 1));
        });
        __syncthreads();
    }
};
