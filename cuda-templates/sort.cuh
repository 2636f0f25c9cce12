// Radix sort: the kernels' bodies. See radix.cuh for the two sorts that they make.
#pragma once
#include "radix.cuh"

// What does not depend on a pass. Keys come from `keys_in` and end in `keys[0]`; `keys[1]` is scratch. So do values.
struct SortCall {
    u64 n;
    const void *keys_in;
    void *keys[2];
    const void *values_in;
    void *values[2];
    void *plan;    // SortPlan, zero before the sort
    u32 *words[2]; // of look-back: a word for each tile of a launch and each digit; zero before the sort
    u64 flip;
    u32 begin, end; // bits of the ordered key
    u32 passes;     // as many digits, and one more if keys are in place and that is odd
    u32 in_place;   // whether `keys_in` is `keys[0]`
    u32 by_buckets; // whether that was tried before
    u32 launches;   // of a pass, of so many tiles each:
    u32 tiles;
};

constexpr u32 SKIPPED = 0xffffffffu;

// Found on the device. A pass whose digit is the same for all keys is skipped.
template <u32 PASSES> struct SortPlan {
    u64 starts[PASSES][BINS]; // counts first
    u64 carried[2][BINS];     // where they begin in the next launch, by launches in turn
    u32 order[PASSES];        // of the passes: which of those that run it is, or SKIPPED
    u32 running;              // passes that run
    u32 counted;              // blocks that have counted
    u32 too_large;            // whether a bucket does not fit a block
    u32 tickets[1];           // by launch; as many as there are
};

// The digit of a pass; past the last one it is always zero.
__device__ inline Digit digit_of(const SortCall &call, u32 pass) {
    u32 shift = call.begin + pass * DIGIT_BITS;
    if (shift >= call.end) return {0, 0};
    return {shift, (1u << min(call.end - shift, DIGIT_BITS)) - 1};
}

// ---- counting ----------------------------------------------------------------------------------------------------------------

// All digits of all keys; the block that comes last plans.
template <class Order, class Bits, u32 THREADS> __device__ void sort_count(const SortCall &call) {
    constexpr u32 PASSES = sizeof(Bits) + 1, UNROLL = 8;
    constexpr u32 COPIES = 4; // side by side, so that lanes with the same digit meet less often
    typedef SortPlan<PASSES> Plan;
    __shared__ u32 counts[PASSES * BINS * COPIES];
    __shared__ bool last;
    Plan &plan = *(Plan *)call.plan;
    if (call.by_buckets && !plan.too_large) return; // all is done
    const Bits *keys = (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    u32 passes = call.passes, copy = threadIdx.x % COPIES;
    for (u32 i = threadIdx.x; i < PASSES * BINS * COPIES; i += THREADS) counts[i] = 0;
    __syncthreads();
    constexpr u32 STEP = THREADS * UNROLL;
    for (u64 first = u64(blockIdx.x) * STEP; first < call.n; first += u64(gridDim.x) * STEP) {
        Bits key[UNROLL];
        bool whole = call.n - first >= STEP;
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) {
            u64 at = first + i * THREADS + threadIdx.x;
            key[i] = order.to(whole || at < call.n ? keys[at] : Bits(0));
        }
#pragma unroll
        for (u32 p = 0; p < PASSES; p++) {
            if (p >= passes) break;
            Digit digit = digit_of(call, p);
            auto count = [&](u32 d, u32 keys) { atomicAdd(counts + (p * BINS + d) * COPIES + copy, keys); };
            if (whole && all_same(digit(key[0]))) { // as likely the others: lanes with the same counter are served one after the other
#pragma unroll
                for (u32 i = 0; i < UNROLL; i++) {
                    u32 d = digit(key[i]);
                    if (!all_same(d)) count(d, 1);
                    else if (lane_id() == 0) count(d, WARP);
                }
            } else {
#pragma unroll
                for (u32 i = 0; i < UNROLL; i++)
                    if (whole || first + i * THREADS + threadIdx.x < call.n) count(digit(key[i]), 1);
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < passes * BINS; i += THREADS) {
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++) sum += counts[i * COPIES + c];
        if (sum > 0) atomicAdd(&plan.starts[0][i], u64(sum));
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&plan.counted, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;

    // ---- a warp plans each pass: where digits begin, and whether one of them is all there is
    u32 lane = lane_id();
    __shared__ bool same[PASSES];
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
        u64 upto = sum;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            u64 before = shuffle_up(upto, distance);
            if (lane >= distance) upto += before;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) plan.starts[p][lane * EACH + e] = upto - sum + own[e];
        bool all = __any_sync(ALL_LANES, most == call.n);
        if (lane == 0) same[p] = all;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    // Keys must move at least once, unless they are in place: then an even number of times. Moving by a digit that is the same for all
    // does no harm, and where all digits differ and are odd in number, the host has added one of no bits.
    u32 running = 0;
    for (u32 p = 0; p < call.passes; p++) running += !same[p];
    bool one_more = call.in_place ? running % 2 == 1 : running == 0;
    plan.running = running + one_more;
    for (u32 p = 0, next = 0; p < call.passes; p++) {
        bool runs = !same[p] || one_more;
        if (same[p]) one_more = false;
        plan.order[p] = runs ? next++ : SKIPPED;
    }
}

// ---- least significant digit first ------------------------------------------------------------------------------------------

// Words of look-back: nothing yet, keys of this tile, or keys of all tiles up to it.
constexpr u32 OWN = 1u << 30, UPTO = 2u << 30, COUNT = OWN - 1;

// How many keys the tiles before one have, of whose word `own` is. Where all tiles run at once each has many words to look at; one after
// the other each would take the time of a way to the L2 cache, so AHEAD of them are asked for at once.
template <u32 AHEAD> __device__ inline u32 keys_before(const u32 *own, u32 tile) {
    u32 earlier = 0;
    if constexpr (AHEAD == 1) {
        for (;;) {
            own -= BINS;
            u32 seen;
            do seen = load_relaxed(own);
            while (seen == 0);
            earlier += seen & COUNT;
            if (seen & UPTO) return earlier; // that of the first tile is
        }
    } else {
        for (u32 back = 1;; back += AHEAD) { // tiles
            u32 seen[AHEAD];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) seen[k] = back + k > tile ? 0 : load_relaxed(own - (back + k) * BINS);
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                while (seen[k] == 0) seen[k] = load_relaxed(own - (back + k) * BINS);
                earlier += seen[k] & COUNT;
                if (seen[k] & UPTO) return earlier;
            }
        }
    }
}

template <class Tile, class Order, class Publish, class Receive>
__device__ inline void sort_pass_tile(Tile &t, const SortCall &call, Order order, Digit digit, u64 first, bool is_first, bool is_last, u32 to,
                                      const Publish &publish, const Receive &receive) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    const Bits *from = (const Bits *)(is_first ? call.keys_in : to ? call.keys[0] : call.keys[1]) + first;
    Bits *out = (Bits *)(to ? call.keys[1] : call.keys[0]);
    auto load = [=](u32 at) {
        Bits key = from[at];
        return is_first ? order.to(key) : key;
    };
    t.load(load);
    t.rank(digit);
    t.scatter(digit, publish, receive);
    auto store = [&] { return t.store(digit, [&](u64 place, Bits key) { out[place] = is_last ? order.from(key) : key; }); };
    if (__syncthreads_or(store())) {
        t.place_again(digit, load);
        store();
    }
    if constexpr (Tile::HAS_VALUES) {
        const Value *values = (const Value *)(is_first ? call.values_in : to ? call.values[0] : call.values[1]);
        Value *values_out = (Value *)(to ? call.values[1] : call.values[0]);
        if (values == nullptr) {
            t.follow([=](u64 place, u32 at) { values_out[place] = Value::index(first + at); });
        } else {
            const Value *staged = t.load_values([=](u32 at) { return values[first + at]; });
            t.follow([=](u64 place, u32 at) { values_out[place] = staged[at]; });
        }
    }
}

// The last tile, of which keys are missing: apart, so that it takes no registers from the others.
template <class Tile, class Order, class Publish, class Receive>
__device__ __noinline__ void sort_pass_last(typename Tile::Shared &s, SortCall call, Order order, Digit digit, u64 first, bool is_first,
                                            bool is_last, u32 to, Publish publish, Receive receive) {
    Tile t(s, u32(call.n - first));
    sort_pass_tile(t, call, order, digit, first, is_first, is_last, to, publish, receive);
}

// Tiles `launch * call.tiles` and on of a pass.
template <class Order, class Tile> __device__ void sort_pass(typename Tile::Shared &s, const SortCall &call, u32 pass, u32 launch) {
    typedef typename Tile::Shape::Bits Bits;
    typedef SortPlan<sizeof(Bits) + 1> Plan;
    Plan &plan = *(Plan *)call.plan;
    if ((call.by_buckets && !plan.too_large) || plan.order[pass] == SKIPPED) return;
    u32 run = plan.order[pass], before = run * call.launches + launch; // launches that ran before this one
    bool is_first = run == 0, is_last = run == plan.running - 1;
    u32 to = (plan.running - 1 - run) % 2;
    u32 here = u32(min(u64(call.tiles), (call.n + Tile::TILE - 1) / Tile::TILE - u64(launch) * call.tiles)); // tiles
    bool odd = before % 2;
    u32 *words = odd ? call.words[1] : call.words[0], *other = odd ? call.words[0] : call.words[1];
    Order order{Bits(call.flip)};
    Digit digit = digit_of(call, pass);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) s.tile = add_relaxed(plan.tickets + pass * call.launches + launch, 1);
        __syncthreads();
        u32 tile = s.tile;
        if (tile >= here) return;
        u64 first = (u64(launch) * call.tiles + tile) * Tile::TILE;
        // The words of the launch before are made empty for the next one.
        if (threadIdx.x < BINS)
            for (u32 row = tile; row < call.tiles; row += here) other[u64(row) * BINS + threadIdx.x] = 0;
        u32 *own = words + u64(tile) * BINS;
        auto publish = [=](u32 d, u32 total) { store_relaxed(own + d, (tile == 0 ? UPTO : OWN) | total); };
        auto receive = [=, &plan](u32 d, u32 total) {
            u64 start = launch == 0 ? plan.starts[pass][d] : plan.carried[1 - launch % 2][d];
            u32 earlier = tile == 0 ? 0 : keys_before<Tile::TILE <= 4096 ? 8 : 1>(own + d, tile);
            if (tile > 0) store_relaxed(own + d, UPTO | (earlier + total));
            if (tile == here - 1) plan.carried[launch % 2][d] = start + earlier + total;
            return start + earlier;
        };
        if (call.n - first >= Tile::TILE) {
            typename Tile::Whole t(s, Tile::TILE);
            sort_pass_tile(t, call, order, digit, first, is_first, is_last, to, publish, receive);
        } else {
            sort_pass_last<typename Tile::Part>(s, call, order, digit, first, is_first, is_last, to, publish, receive);
        }
        if (gridDim.x >= here) return; // a tile for each block
    }
}

// ---- one block ----------------------------------------------------------------------------------------------------------------

// All of it in shared memory, least significant digit first. Digits that are the same for all keys are passed over.
template <class Tile> __device__ void sort_digits(Tile &t, typename Tile::Shape::Value *value, u32 begin, u32 end) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    __shared__ u64 differing;
    if (threadIdx.x == 0) differing = 0;
    __syncthreads();
    Bits *keys = (Bits *)t.s.exchange;
    if (threadIdx.x == 0) keys[0] = t.key[0];
    __syncthreads();
    Bits same = keys[0];
    u64 differs = 0;
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++)
        if (t.is_there(i)) differs |= u64(Bits(t.key[i] ^ same));
    u32 low = warp_or(u32(differs)), high = sizeof(Bits) > 4 ? warp_or(u32(differs >> 32)) : 0;
    if (lane_id() == 0) atomicOr(&differing, u64(high) << 32 | low);
    __syncthreads();
    differs = differing;
    for (u32 shift = begin; shift < end; shift += DIGIT_BITS) {
        Digit digit{shift, (1u << min(end - shift, DIGIT_BITS)) - 1};
        if (digit(differs) == 0) continue;
        t.rank(digit);
        t.scatter(digit, [](u32, u32) {}, [](u32, u32) { return u64(0); });
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) t.key[i] = keys[t.at(i)];
        if constexpr (Tile::HAS_VALUES) {
            Value *values = (Value *)t.s.exchange;
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < Tile::ITEMS; i++)
                if (t.is_there(i)) values[t.place[i]] = value[i];
            __syncthreads();
#pragma unroll
            for (u32 i = 0; i < Tile::ITEMS; i++)
                if (t.is_there(i)) value[i] = values[t.at(i)];
        }
        __syncthreads();
    }
}

// As many keys as a block holds.
template <class Order, class Tile> __device__ void sort_small(typename Tile::Shared &s, const SortCall &call) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    Order order{Bits(call.flip)};
    const Bits *from = (const Bits *)call.keys_in;
    Tile t(s, u32(call.n));
    t.load([&](u32 at) { return order.to(from[at]); });
    Value value[Tile::HAS_VALUES ? Tile::ITEMS : 1];
    if constexpr (Tile::HAS_VALUES) {
        const Value *values = (const Value *)call.values_in;
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) value[i] = values == nullptr ? Value::index(t.at(i)) : values[t.at(i)];
    }
    sort_digits(t, value, call.begin, call.end);
    Bits *out = (Bits *)call.keys[0];
    if (out != nullptr)
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) out[t.at(i)] = order.from(t.key[i]);
    if constexpr (Tile::HAS_VALUES) {
        Value *values = (Value *)call.values[0];
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) values[t.at(i)] = value[i];
    }
}

// ---- most significant digit first -------------------------------------------------------------------------------------------------
// Keys alone, all of their bits. The first 8 + `second` bits are counted in one read; by these keys go to buckets, in two
// steps, and each bucket that a block holds is sorted by one. If there is a larger one, nothing is done, and the other sort runs.

constexpr u32 BUCKETS = 1 << 16; // at most

struct BucketCall {
    u32 *counts;       // of BUCKETS, zero before the sort
    u32 *tops;         // of BINS, zero before the sort: those of the first digit
    u32 *starts;       // BUCKETS + 1
    u32 *cursors;      // BUCKETS: where the next key of each goes
    u32 *top_cursors;  // BINS, each TOP_APART from the next
    u32 *tiles;        // BINS + 1: of the second step, where those of each first digit begin
    u32 second;        // bits of the second digit
    u32 room;          // keys that a block holds
};
constexpr u32 TOP_APART = 32;

// Two counters of 16 bits to a word. Between two barriers a block counts at most 2^15 keys, and whoever finds that a counter
// gets to 2^15 takes that many away: no counter gets to 2^16.
template <class Order, class Bits, u32 THREADS>
__device__ void bucket_count(u32 *counters, const SortCall &call, const BucketCall &buckets) {
    constexpr u32 UNROLL = sizeof(Bits) > 4 ? 16 : 32, FULL = 1 << 15;
    static_assert(THREADS * UNROLL <= FULL, "as many as a counter has room for");
    u32 bits = DIGIT_BITS + buckets.second, shift = call.end - bits, mask = (1u << bits) - 1;
    for (u32 i = threadIdx.x; i <= mask / 2; i += THREADS) counters[i] = 0;
    __syncthreads();
    const Bits *keys = (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    constexpr u32 STEP = THREADS * UNROLL;
    for (u64 first = u64(blockIdx.x) * STEP; first < call.n; first += u64(gridDim.x) * STEP) {
        bool whole = call.n - first >= STEP;
        Bits key[UNROLL];
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) {
            u64 at = first + i * THREADS + threadIdx.x;
            key[i] = whole || at < call.n ? keys[at] : Bits(0);
        }
        auto count = [&](u32 bucket, u32 keys) {
            u32 place = bucket % 2 * 16, before = atomicAdd(counters + bucket / 2, keys << place) >> place & 0xffff;
            if (before < FULL && before + keys >= FULL) {
                atomicSub(counters + bucket / 2, FULL << place);
                atomicAdd(buckets.counts + bucket, FULL);
                atomicAdd(buckets.tops + (bucket >> buckets.second), FULL);
            }
        };
        auto bucket_of = [&](u32 i) { return u32(order.to(key[i]) >> shift) & mask; };
        if (whole && all_same(bucket_of(0))) { // as likely the others: lanes with the same counter are served one after the other
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++) {
                u32 bucket = bucket_of(i);
                if (!all_same(bucket)) count(bucket, 1);
                else if (lane_id() == 0) count(bucket, WARP);
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++)
                if (whole || first + i * THREADS + threadIdx.x < call.n) count(bucket_of(i), 1);
        }
        __syncthreads();
    }
    // A warp adds up each first digit's.
    u32 words = (1u << buckets.second) / 2;
    for (u32 top = warp_id(); top < BINS; top += THREADS / WARP) {
        u32 sum = 0;
        for (u32 i = lane_id(); i < words; i += WARP) {
            u32 both = counters[top * words + i], low = both & 0xffff, high = both >> 16;
            if (low) atomicAdd(buckets.counts + (top * words + i) * 2, low);
            if (high) atomicAdd(buckets.counts + (top * words + i) * 2 + 1, high);
            sum += low + high;
        }
        sum = warp_add(sum);
        if (lane_id() == 0 && sum) atomicAdd(buckets.tops + top, sum);
    }
}

// By a block for each first digit, of a thread for each second: where buckets begin, and whether all are small enough.
template <class Bits> __device__ void bucket_plan(const SortCall &call, const BucketCall &buckets, u32 tile) {
    __shared__ u32 totals[2 * BINS / WARP], base, tiles;
    u32 top = blockIdx.x, d = threadIdx.x, others = buckets.tops[d];
    u32 keys = warp_add(d < top ? others : 0), of_tiles = warp_add(d < top ? (others + tile - 1) / tile : 0);
    if (lane_id() == 0) {
        totals[warp_id()] = keys;
        totals[BINS / WARP + warp_id()] = of_tiles;
    }
    __syncthreads();
    if (d == 0) {
        u32 a = 0, b = 0;
        for (u32 w = 0; w < BINS / WARP; w++) {
            a += totals[w];
            b += totals[BINS / WARP + w];
        }
        base = a;
        tiles = b;
    }
    __syncthreads();
    u32 in_top = 1u << buckets.second, bucket = top * in_top + d, count = d < in_top ? buckets.counts[bucket] : 0;
    u32 start = base + block_before<BINS>(count, totals);
    if (d < in_top) {
        buckets.starts[bucket] = start;
        buckets.cursors[bucket] = start;
    }
    if (d == 0) {
        buckets.top_cursors[top * TOP_APART] = base;
        buckets.tiles[top] = tiles;
    }
    if (top == BINS - 1 && d == BINS - 1) {
        buckets.starts[BINS * in_top] = u32(call.n);
        buckets.tiles[BINS] = tiles + (others + tile - 1) / tile;
    }
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (count > buckets.room) plan.too_large = 1;
    __syncthreads();
}

template <class Tile, class Load, class Cursor> __device__ inline void bucket_tile(Tile &t, Digit digit, const Load &load, typename Tile::Shape::Bits *out, const Cursor &cursor) {
    typedef typename Tile::Shape::Bits Bits;
    t.load(load);
    t.rank(digit);
    u32 place = 0;
    t.scatter(
        digit, [&](u32 d, u32 total) { place = total ? atomicAdd(cursor(d), total) : 0; }, [&](u32, u32) { return u64(place); });
    t.store_runs(digit, [&](u64 place, Bits key) { out[place] = key; });
}

// One of which keys are missing: apart, so that it takes no registers from the others.
template <class Tile, class Load, class Cursor>
__device__ __noinline__ void bucket_last(typename Tile::Shared &s, u32 count, Digit digit, Load load, typename Tile::Shape::Bits *out, Cursor cursor) {
    Tile t(s, count);
    bucket_tile(t, digit, load, out, cursor);
}

template <class Order, class Tile> __device__ void bucket_first(typename Tile::Shared &s, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Shape::Bits Bits;
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    Order order{Bits(call.flip)};
    u64 first = u64(blockIdx.x) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + first;
    Digit digit{call.end - DIGIT_BITS, BINS - 1};
    auto load = [=](u32 at) { return order.to(from[at]); };
    u32 *cursors = buckets.top_cursors;
    auto cursor = [=](u32 d) { return cursors + d * TOP_APART; };
    if (call.n - first >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        bucket_tile(t, digit, load, (Bits *)call.keys[1], cursor);
    } else {
        bucket_last<typename Tile::Part>(s, u32(call.n - first), digit, load, (Bits *)call.keys[1], cursor);
    }
}

template <class Tile> __device__ void bucket_second(typename Tile::Shared &s, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Shape::Bits Bits;
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large || blockIdx.x >= buckets.tiles[BINS]) return;
    if (threadIdx.x < BINS && buckets.tiles[threadIdx.x] <= blockIdx.x && blockIdx.x < buckets.tiles[threadIdx.x + 1]) s.tile = threadIdx.x;
    __syncthreads();
    u32 top = s.tile, begin = buckets.starts[top << buckets.second], end = buckets.starts[(top + 1) << buckets.second];
    u32 first = begin + (blockIdx.x - buckets.tiles[top]) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys[1] + first;
    Digit digit{call.end - DIGIT_BITS - buckets.second, (1u << buckets.second) - 1};
    auto load = [=](u32 at) { return from[at]; };
    u32 *cursors = buckets.cursors + (top << buckets.second);
    auto cursor = [=](u32 d) { return cursors + d; };
    if (end - first >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        bucket_tile(t, digit, load, (Bits *)call.keys[0], cursor);
    } else {
        bucket_last<typename Tile::Part>(s, end - first, digit, load, (Bits *)call.keys[0], cursor);
    }
}

// A bucket in one block, by one of three ways.
//
// - Where few bits are left, each key that there could be is counted, and the counts tell all places.
// - Each key to a bin by its next bits, about as many bins as keys; then a thread puts the keys of a few bins in order.
// - Where keys are so much alike that these do not tell them apart: digit by digit.
template <class Order, class Tile, u32 LOG_BINS> struct BucketSort {
    typedef typename Tile::Shape::Bits Bits;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::ITEMS, FINE = 1 << LOG_BINS, EACH = FINE / THREADS;
    static constexpr u32 RUN = 16;    // keys that a thread puts in order in its registers
    static constexpr u32 LONGEST = 48; // and in shared memory
    static_assert(EACH % 4 == 0, "whole vectors");
    static constexpr u32 COUNTED = 16, FIELDS = 8, WORDS = (1 << COUNTED) / FIELDS, WORDS_EACH = WORDS / THREADS;
    static constexpr bool FEW_BITS = sizeof(Bits) <= 4;
    struct Fine {
        alignas(16) Bits keys[Tile::TILE];
        alignas(16) u32 bins[FEW_BITS && WORDS > FINE ? WORDS : FINE];
        u32 totals[THREADS / WARP];
    };
    union Shared {
        typename Tile::Shared tile;
        Fine fine;
    };

    // The bucket of the block's number.
    static __device__ void run_bucket(Shared &shared, const SortCall &call, const BucketCall &buckets) {
        u32 first = buckets.starts[blockIdx.x], count = buckets.starts[blockIdx.x + 1] - first;
        if (count == 0) return;
        Bits *keys = (Bits *)call.keys[0] + first;
        Tile t(shared.tile, count);
        t.load([=](u32 at) { return keys[at]; });
        run(shared, t, call, keys, call.end - DIGIT_BITS - buckets.second);
    }

    // As many keys as a block holds, from anywhere.
    static __device__ void run_one(Shared &shared, const SortCall &call) {
        Order order{Bits(call.flip)};
        const Bits *from = (const Bits *)call.keys_in;
        Tile t(shared.tile, u32(call.n));
        t.load([=](u32 at) { return order.to(from[at]); });
        run(shared, t, call, (Bits *)call.keys[0], call.end);
    }

  private:
    // `bits`: how many are not known to be the same.
    static __device__ void run(Shared &shared, Tile &t, const SortCall &call, Bits *out, u32 bits) {
        Order order{Bits(call.flip)};
        Fine &s = shared.fine;
        u32 count = t.count;
        if constexpr (FEW_BITS)
            if (bits <= COUNTED && place_by_counts(t, bits)) {
                write(s, order, out, count);
                return;
            }
        u32 shift = bits > LOG_BINS ? bits - LOG_BINS : 0;
        Digit digit{shift, FINE - 1};
        uint4 *vectors = (uint4 *)s.bins;
        for (u32 i = threadIdx.x; i < FINE / 4; i += THREADS) vectors[i] = make_uint4(0, 0, 0, 0);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) t.place[i] = atomicAdd(s.bins + digit(t.key[i]), 1);
        __syncthreads();
        u32 bin[EACH], sum = 0, most = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4) {
            uint4 v = vectors[(threadIdx.x * EACH + e) / 4];
            bin[e] = v.x, bin[e + 1] = v.y, bin[e + 2] = v.z, bin[e + 3] = v.w;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            most = max(most, bin[e]);
            u32 own = bin[e];
            bin[e] = sum;
            sum += own;
        }
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        // Whether a thread would have too many: then digits, which is slower and does not mind.
        if (__syncthreads_or(sum > LONGEST)) {
            sort_digits(t, (typename Tile::Shape::Value *)nullptr, 0, bits);
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) out[t.at(i)] = order.from(t.key[i]);
            return;
        }
        u32 begin = upto - sum;
#pragma unroll
        for (u32 w = 0; w < THREADS / WARP; w++)
            if (w < warp_id()) begin += s.totals[w];
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4)
            vectors[(threadIdx.x * EACH + e) / 4] = make_uint4(begin + bin[e], begin + bin[e + 1], begin + bin[e + 2], begin + bin[e + 3]);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) s.keys[s.bins[digit(t.key[i])] + t.place[i]] = t.key[i];
        __syncthreads();

        // Keys are at most as far from their places as their bin is long.
        u32 longest = warp_max(most);
        if (shift > 0 && longest > 1) {
            if (sum <= RUN) {
                Bits key[RUN];
#pragma unroll
                for (u32 j = 0; j < RUN; j++) key[j] = j < sum ? s.keys[begin + j] : Bits(~Bits(0));
                for (u32 step = 0; step < longest; step += 2) {
#pragma unroll
                    for (u32 j = 0; j + 1 < RUN; j += 2) order_two(key[j], key[j + 1]);
#pragma unroll
                    for (u32 j = 1; j + 1 < RUN; j += 2) order_two(key[j], key[j + 1]);
                }
#pragma unroll
                for (u32 j = 0; j < RUN; j++)
                    if (j < sum) s.keys[begin + j] = key[j];
            } else {
                for (u32 j = begin + 1; j < begin + sum; j++) {
                    Bits key = s.keys[j];
                    u32 hole = j;
                    for (; hole > begin && s.keys[hole - 1] > key; hole--) s.keys[hole] = s.keys[hole - 1];
                    s.keys[hole] = key;
                }
            }
        }
        __syncthreads();
        write(s, order, out, count);
    }

    static __device__ void write(const Fine &s, Order order, Bits *out, u32 count) {
        for (u32 j = threadIdx.x; j < count; j += THREADS) out[j] = order.from(s.keys[j]);
    }

    // Where a word lies: of those that threads side by side have at the same place in theirs, one is in each bank.
    static __device__ u32 word_of(u32 word) {
        static_assert(WORDS_EACH == 16 || WORDS_EACH == 32, "a thread's words are half of the banks, or all");
        return (word & ~(WORDS_EACH - 1)) | ((word + word / WARP) & (WORDS_EACH - 1));
    }
    // How many keys fields of two bits count.
    static __device__ u32 counted(u32 fields) { return __popc(fields & 0x5555) + 2 * __popc(fields & 0xaaaa); }

    // Keys are counted by their last bits in fields of two bits, eight to a word, below how many come before the word: which tells each key
    // its place. Whether no key was there more than three times; if not, nothing was done.
    static __device__ bool place_by_counts(Tile &t, u32 bits) {
        Fine &s = ((Shared &)t.s).fine;
        u32 mask = (1u << bits) - 1;
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < WORDS / 4; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
        bool full = false;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 low = u32(t.key[i]) & mask, field = low % FIELDS * 2;
                u32 before = atomicAdd(s.bins + word_of(low / FIELDS), 1u << field) >> field & 3;
                // Past three the field runs over, and nothing that is counted is used.
                full |= before == 3;
                t.place[i] = u16(before);
            }
        if (__syncthreads_or(full)) return false;
        u32 sum = 0, first = threadIdx.x * WORDS_EACH;
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) sum += counted(s.bins[word_of(first + e)]);
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 before = upto - sum;
#pragma unroll
        for (u32 w = 0; w < THREADS / WARP; w++)
            if (w < warp_id()) before += s.totals[w];
#pragma unroll
        for (u32 e = 0; e < WORDS_EACH; e++) {
            u32 &word = s.bins[word_of(first + e)], own = counted(word);
            word |= before << 16;
            before += own;
        }
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 low = u32(t.key[i]) & mask, word = s.bins[word_of(low / FIELDS)];
                s.keys[(word >> 16) + counted(word & ((1u << low % FIELDS * 2) - 1)) + t.place[i]] = t.key[i];
            }
        __syncthreads();
        return true;
    }

    static __device__ void order_two(Bits &a, Bits &b) {
        Bits low = min(a, b), high = max(a, b);
        a = low;
        b = high;
    }
};

// ---- keys of one or two bytes, alone ---------------------------------------------------------------------------------------------------
// Nothing moves: how often each key is there says what the output is.

// Outputs THREADS * EACH a block, from where keys begin.
template <class Order, class Bits, u32 THREADS, class Start> __device__ void sort_fill(const SortCall &call, const Start *starts) {
    constexpr u32 KEYS = 1u << 8 * sizeof(Bits), EACH = 16;
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    static_assert(EACH % IN_VECTOR == 0, "whole vectors");
    // The last key that begins at a place or before it, or just before a later one that does: of `low` to `high`.
    auto key_at = [&](u64 place, u32 low, u32 high) {
        while (low < high) {
            u32 middle = (low + high + 1) / 2;
            if (u64(starts[middle]) <= place) low = middle;
            else high = middle - 1;
        }
        return low;
    };
    __shared__ u32 ends[2];
    u64 first = u64(blockIdx.x) * THREADS * EACH, last = min(call.n, first + THREADS * EACH) - 1;
    if (threadIdx.x < 2) ends[threadIdx.x] = key_at(threadIdx.x == 0 ? first : last, 0, KEYS - 1);
    __syncthreads();
    Order order{Bits(call.flip)};
    Bits *out = (Bits *)call.keys[0];
    bool aligned = (u64)out % sizeof(Vector) == 0;
#pragma unroll
    for (u32 v = 0; v < EACH / IN_VECTOR; v++) {
        u64 place = first + (v * THREADS + threadIdx.x) * IN_VECTOR;
        if (place >= call.n) return;
        u32 key = key_at(place, ends[0], ends[1]);
        u64 end = key + 1 < KEYS ? u64(starts[key + 1]) : call.n;
        Bits item[IN_VECTOR];
        u32 count = u32(min(call.n - place, u64(IN_VECTOR)));
#pragma unroll
        for (u32 i = 0; i < IN_VECTOR; i++) {
            while (place + i >= end && i < count) {
                key++;
                end = key + 1 < KEYS ? u64(starts[key + 1]) : call.n;
            }
            item[i] = order.from(Bits(key));
        }
        if (aligned && count == IN_VECTOR) {
            Vector vector;
            memcpy(&vector, item, sizeof(Vector));
            *(Vector *)(out + place) = vector;
        } else {
#pragma unroll
            for (u32 i = 0; i < IN_VECTOR; i++)
                if (i < count) out[place + i] = item[i];
        }
    }
}
