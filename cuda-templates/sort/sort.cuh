// Radix sort: the kernels' bodies. See sort/radix.cuh for the two sorts that they make.
#pragma once
#include "sort/radix.cuh"

// Places of the output.
template <class Word> struct Places {
    Word first, count;
    __device__ bool has(Word place) const { return place - first < count; }
};

// What the kernels find out about a sort.
template <u32 PASSES> struct SortPlan : SortPlanFields<PASSES> {
    // All keys between the first and the last bucket that does not fit a block, as unsigned integers in order.
    __device__ Places<u32> left_by_buckets() const {
        u32 end = this->left_end, turned = this->left_turned;
        return {~turned, end > 0 ? end - ~turned : 0};
    }
    // Whether passes sort all of n keys: also if buckets leave so many of them that this takes less time, by the bytes moved.
    __device__ bool all_by_passes(u64 n) const {
        constexpr u32 MOST_LEFT = PASSES > 5 ? 4 : 3; // of eight: longer keys take more passes
        return this->too_large || left_by_buckets().count > n / 8 * MOST_LEFT;
    }
    // What passes sort.
    __device__ Places<u64> of_passes(const SortCall &call) const {
        if (!call.by_buckets || all_by_passes(call.n)) return {0, call.n};
        Places<u32> left = left_by_buckets();
        return {left.first, left.count};
    }
};

// The digit of a pass; past the last one it is always zero.
__device__ inline Digit digit_of(const SortCall &call, u32 pass) {
    u32 shift = call.begin + pass * DIGIT_BITS;
    if (shift >= call.end) return {0, 0};
    return {shift, (1u << min(call.end - shift, DIGIT_BITS)) - 1};
}

// ---- counting ----------------------------------------------------------------------------------------------------------------

constexpr u32 COPIES = 4; // of a counter, side by side, so that lanes with the same digit meet less often
template <class Bits> constexpr u32 COUNTERS = (sizeof(Bits) + 1) * BINS * COPIES;

// A thread's share of some vectors side by side.
template <u32 THREADS, u32 COUNT, class Bits> __device__ inline void load_vectors(Bits (&key)[COUNT], const Bits *from) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Bits);
#pragma unroll
    for (u32 v = 0; v < COUNT / IN_VECTOR; v++) {
        Vector vector = ((const Vector *)from)[v * THREADS + threadIdx.x];
        memcpy(key + v * IN_VECTOR, &vector, sizeof(Vector));
    }
}

// All digits of the keys of a part, which passes by tiles of so many will sort. The block that comes last plans: whether it is that.
template <class Order, class Bits, u32 THREADS>
__device__ bool sort_count(u32 *counts, const SortCall &call, Places<u64> all, u32 tile, u32 part, u32 parts) {
    constexpr u32 PASSES = sizeof(Bits) + 1, UNROLL = sizeof(Bits) == 1 ? 16 : 8;
    typedef SortPlan<PASSES> Plan;
    __shared__ bool last;
    Plan &plan = *(Plan *)call.plan;
    bool is_left = all.count < call.n; // by buckets
    const Bits *keys = is_left ? (const Bits *)call.keys[0] + all.first : (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    u32 passes = call.passes, copy = threadIdx.x % COPIES;
    for (u32 i = threadIdx.x; i < passes * BINS * COPIES; i += THREADS) counts[i] = 0;
    if (is_left) { // whose steps may have used the words
        u32 words = u32(min((all.count + tile - 1) / tile, u64(call.tiles))) * BINS;
        for (u32 i = part * THREADS + threadIdx.x; i < words; i += parts * THREADS) call.words[0][i] = call.words[1][i] = 0;
    }
    __syncthreads();
    constexpr u32 STEP = THREADS * UNROLL;
    bool aligned = (u64)keys % sizeof(Vector) == 0;
    for (u64 first = u64(part) * STEP; first < all.count; first += u64(parts) * STEP) {
        Bits key[UNROLL];
        bool whole = all.count - first >= STEP;
        if (whole && aligned) {
            load_vectors<THREADS>(key, keys + first);
        } else {
#pragma unroll
            for (u32 i = 0; i < UNROLL; i++) {
                u64 at = first + i * THREADS + threadIdx.x;
                key[i] = at < all.count ? keys[at] : Bits(0);
            }
        }
        bool alike = sizeof(Bits) == 1 && whole; // all of each thread, as where keys of a byte are sorted
#pragma unroll
        for (u32 i = 1; i < UNROLL; i++) alike = alike && key[i] == key[0];
        alike = sizeof(Bits) == 1 && __all_sync(ALL_LANES, alike);
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) key[i] = is_left ? key[i] : order.to(key[i]);
#pragma unroll
        for (u32 p = 0; p < PASSES; p++) {
            if (p >= passes) break;
            Digit digit = digit_of(call, p);
            auto count = [&](u32 d, u32 keys) { atomicAdd(counts + (p * BINS + d) * COPIES + copy, keys); };
            if (alike) {
                u32 d = digit(key[0]);
                if (!all_same(d)) count(d, UNROLL);
                else if (lane_id() == 0) count(d, WARP * UNROLL);
            } else if (whole && all_same(digit(key[0]))) { // as likely the others: lanes with the same counter are served one after the other
#pragma unroll
                for (u32 i = 0; i < UNROLL; i++) {
                    u32 d = digit(key[i]);
                    if (!all_same(d)) count(d, 1);
                    else if (lane_id() == 0) count(d, WARP);
                }
            } else {
#pragma unroll
                for (u32 i = 0; i < UNROLL; i++)
                    if (whole || first + i * THREADS + threadIdx.x < all.count) count(digit(key[i]), 1);
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < passes * BINS; i += THREADS) {
        u32 sum = 0;
#pragma unroll
        for (u32 c = 0; c < COPIES; c++) sum += counts[i * COPIES + (c + threadIdx.x) % COPIES];
        if (sum > 0) atomicAdd(&plan.starts[0][i], u64(sum));
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&plan.counted, 1) == parts - 1;
    __syncthreads();
    if (!last) return false;

    // ---- a warp plans each pass: where digits begin, and whether one of them is all there is
    u32 lane = lane_id();
    __shared__ bool same[PASSES], many[PASSES];
    for (u32 p = warp_id(); p < passes; p += THREADS / WARP) {
        constexpr u32 EACH = BINS / WARP;
        u64 own[EACH], sum = 0, most = 0;
        u32 used = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u64 count = load_relaxed(&plan.starts[p][lane * EACH + e]);
            own[e] = sum;
            sum += count;
            most = max(most, count);
            used += count > 0;
        }
        u64 upto = sum;
#pragma unroll
        for (u32 distance = 1; distance < WARP; distance *= 2) {
            u64 before = shuffle_up(upto, distance);
            if (lane >= distance) upto += before;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) plan.starts[p][lane * EACH + e] = all.first + upto - sum + own[e];
        bool only_one = __any_sync(ALL_LANES, most == all.count);
        used = warp_add(used);
        if (lane == 0) {
            same[p] = only_one;
            many[p] = used >= VALUES;
        }
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        // Keys must move at least once, unless they are in place: then an even number of times, and those that buckets left at least twice. Moving by a
        // digit that is the same for all does no harm, and where all digits differ and are odd in number, the host has added one of no bits.
        u32 running = 0, of_many = 0;
        for (u32 p = 0; p < passes; p++) {
            running += !same[p];
            of_many += many[p];
        }
        plan.may_be_few = running > 1 && of_many == 0;
        u32 more = is_left || call.in_place ? running % 2 : running == 0;
        if (is_left && running == 0) more = 2;
        plan.running = running + more;
        for (u32 p = 0, next = 0; p < passes; p++) {
            if (!same[p] || more > 0) plan.which[next++] = p;
            if (same[p] && more > 0) more--;
        }
    }
    return true;
}

// ---- least significant digit first ------------------------------------------------------------------------------------------

// Words of look-back: nothing yet, one more than the keys of this tile, or of all tiles up to it.
constexpr u32 UPTO = 1u << 31, COUNT = UPTO - 1;

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
            earlier += (seen & COUNT) - 1;
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
                earlier += (seen[k] & COUNT) - 1;
                if (seen[k] & UPTO) return earlier;
            }
        }
    }
}

// The words of a tile, a digit each, and how many tiles are before it.
struct LookBackDigits {
    u32 *own, tile;

    __device__ void publish(u32 d, u32 total) const { store_relaxed(own + d, (tile == 0 ? UPTO : 0) | (total + 1)); }
    // How many keys with the digit the tiles before it have.
    template <u32 AHEAD> __device__ u32 receive(u32 d, u32 total) const {
        if (tile == 0) return 0;
        u32 earlier = keys_before<AHEAD>(own + d, tile);
        store_relaxed(own + d, UPTO | (earlier + total + 1));
        return earlier;
    }
};

// A mark of a place: its key is in order.
constexpr u64 DONE = 1ull << 63;

// A tile's keys, from `load(at)` to `put(place, key)`, and what goes with them: from `values`, or if there are none the numbers from `first` on.
template <class Tile, class D, class Load, class Put, class Publish, class Receive>
__device__ inline void stable_tile(Tile &t, D digit, const Load &load, const Put &put, const typename Tile::Shape::Value *values, u64 first,
                                   typename Tile::Shape::Value *values_out, const Publish &publish, const Receive &receive) {
    typedef typename Tile::Shape::Value Value;
    t.load(load);
    t.rank(digit);
    t.scatter(publish, receive);
    if (__syncthreads_or(t.store(digit, put))) {
        t.place_again(digit, load);
        t.store(digit, put);
    }
    if constexpr (Tile::HAS_VALUES) {
        // The mark is gone from what is counted in bytes, if these are an even number.
        auto unmarked = [](u64 place) { return Value::BYTES % 2 == 1 ? place & ~DONE : place; };
        if (values == nullptr) {
            t.follow([=](u64 place, u32 at) { values_out[unmarked(place)] = Value::index(first + at); });
        } else {
            const Value *staged = t.load_values([=](u32 at) { return values[at]; });
            t.follow([=](u64 place, u32 at) { values_out[unmarked(place)] = staged[staggered(at)]; });
        }
    }
}

// One of which keys are missing: apart, so that it takes no registers from the others.
template <class Tile, class D, class Load, class Put, class Publish, class Receive>
__device__ __noinline__ void stable_last(typename Tile::Shared &s, u32 count, D digit, Load load, Put put, const typename Tile::Shape::Value *values,
                                         u64 first, typename Tile::Shape::Value *values_out, Publish publish, Receive receive) {
    Tile t(s, count);
    stable_tile(t, digit, load, put, values, first, values_out, publish, receive);
}

// Either, of `left` keys from the tile on.
template <class Tile, class D, class Load, class Put, class Publish, class Receive>
__device__ inline void stable_any(typename Tile::Shared &s, u64 left, D digit, const Load &load, const Put &put, const typename Tile::Shape::Value *values,
                                  u64 first, typename Tile::Shape::Value *values_out, const Publish &publish, const Receive &receive) {
    if (left >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        stable_tile(t, digit, load, put, values, first, values_out, publish, receive);
    } else {
        stable_last<typename Tile::Part>(s, u32(left), digit, load, put, values, first, values_out, publish, receive);
    }
}

// What the tiles of a pass make up. It lies in shared memory, so that it takes no registers while keys are ranked.
struct PassTiles {
    Places<u64> keys;
    u32 most, here; // tiles of a launch, at most, and of this one
    // By one thread, of so many tiles in all and in a launch.
    __device__ void set(Places<u64> places, u64 of_all, u64 of_launch, u32 launch) {
        keys = places;
        most = u32(min(of_all, of_launch));
        here = u32(min(of_all - launch * of_launch, of_launch));
    }
};

// A pass over keys, all of them or what buckets left: the `run`th of those that run. Its words are those of `turn`; the others are made empty for the
// next one.
template <class Order, class Tile, bool ALL_PASSES> struct SortPass {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    typedef SortPlan<sizeof(Bits) + 1> Plan;

    const SortCall &call;
    Plan &plan;
    const PassTiles &tiles;
    u32 pass, turn;
    bool is_first, is_last; // of input and output
    u32 to;

    __device__ SortPass(const SortCall &call, Plan &plan, const PassTiles &tiles, u32 run, u32 pass, u32 turn)
        : call(call), plan(plan), tiles(tiles), pass(pass), turn(turn), is_first(run == 0 && tiles.keys.count == call.n), is_last(run == plan.running - 1),
          to((plan.running - 1 - run) % 2) {}

    // Words that are asked for at once. Tiles of one launch come at the same time, and find few prefixes yet.
    static constexpr u32 AHEAD = Tile::TILE <= 4096 ? 8 : ALL_PASSES ? 4 : 1;

    // Tile `tile` of the launch `launch`.
    __device__ void run(typename Tile::Shared &s, u32 tile, u32 launch) const {
        Order order{Bits(call.flip)};
        u32 *words = turn ? call.words[1] : call.words[0], *other = turn ? call.words[0] : call.words[1];
        if (threadIdx.x < BINS)
            for (u32 row = tile; row < tiles.most; row += tiles.here) other[u64(row) * BINS + threadIdx.x] = 0;
        u64 first = tiles.keys.first + (u64(launch) * tiles.most + tile) * Tile::TILE, left = tiles.keys.first + tiles.keys.count - first;
        LookBackDigits chain{words + u64(tile) * BINS, tile};
        u64 *carried = plan.carried[turn];
        const u64 *starts = launch == 0 ? plan.starts[pass] : plan.carried[1 - turn];
        bool carries = tile == tiles.here - 1;
        auto publish = [=](u32 d, u32 total) { chain.publish(d, total); };
        auto receive = [=](u32 d, u32 total) {
            u64 start = starts[d];
            u32 earlier = chain.receive<AHEAD>(d, total);
            if (carries) carried[d] = start + earlier + total;
            return start + earlier;
        };
        const Bits *from = (const Bits *)(is_first ? call.keys_in : to ? call.keys[0] : call.keys[1]) + first;
        const Value *values = (const Value *)(is_first ? call.values_in : to ? call.values[0] : call.values[1]);
        Bits *out = (Bits *)(to ? call.keys[1] : call.keys[0]);
        bool is_first = this->is_first, is_last = this->is_last, unwanted = Tile::HAS_VALUES && is_last && call.no_keys;
        auto load = [=](u32 at) {
            Bits key = from[at];
            return is_first ? order.to(key) : key;
        };
        if (Tile::HAS_VALUES && values) prefetch_lines<Tile::THREADS>(values + first, u32(min(left, u64(Tile::TILE))) * Value::BYTES);
        auto put = [=](u64 place, Bits key) {
            if (!unwanted) out[place] = is_last ? order.from(key) : key;
        };
        stable_any<Tile>(s, left, digit_of(call, pass), load, put, values ? values + first : nullptr, first,
                         (Value *)(to ? call.values[1] : call.values[0]), publish, receive);
    }
};

// Tiles of the `run`th pass, in the launch `launch` of `call.tiles` each.
template <class Order, class Tile> __device__ void sort_pass(typename Tile::Shared &s, const SortCall &call, u32 run, u32 launch) {
    typedef SortPlan<sizeof(typename Tile::Shape::Bits) + 1> Plan;
    Plan &plan = *(Plan *)call.plan;
    __shared__ PassTiles tiles;
    Places<u64> all = plan.of_passes(call);
    u64 of_all = (all.count + Tile::TILE - 1) / Tile::TILE;
    if (u64(launch) * call.tiles >= of_all || run >= plan.running) return;
    if (threadIdx.x == 0) tiles.set(all, of_all, call.tiles, launch);
    __syncthreads();
    // Turns are those of launches that have tiles, one after the other.
    u32 number = run * call.launches + launch, of_pass = u32((of_all + call.tiles - 1) / call.tiles);
    SortPass<Order, Tile, false> pass(call, plan, tiles, run, plan.which[run], (run * of_pass + launch) % 2);
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) s.tile = add_relaxed(plan.tickets + number, 1);
        __syncthreads();
        u32 tile = s.tile;
        if (tile >= tiles.here) return;
        pass.run(s, tile, launch);
        if (gridDim.x >= tiles.here) return; // a tile for each block
    }
}

// By the whole block: the next ticket.
__device__ inline u32 draw(u32 *ticket) {
    __shared__ u32 drawn;
    __syncthreads();
    if (threadIdx.x == 0) drawn = add_relaxed(ticket, 1);
    __syncthreads();
    return drawn;
}

// All passes in one launch. What is to be done is drawn in order: parts of the keys to be counted, then tile after tile,
// pass after pass. Who draws a tile waits until the pass before is over. What that needs was drawn before, by blocks that run: so it ends,
// however few they are. When all is planned `instead` may do what the passes would, and say so; all blocks say the same.
template <class Order, class Tile, class Instead> __device__ void sort_passes(Vector *memory, const SortCall &call, const Instead &instead) {
    typedef typename Tile::Shape::Bits Bits;
    typedef SortPlan<sizeof(Bits) + 1> Plan;
    static_assert(sizeof(typename Tile::Shared) >= COUNTERS<Bits> * sizeof(u32), "the counters take the tile's place");
    Plan &plan = *(Plan *)call.plan;
    Places<u64> all = plan.of_passes(call);
    if (all.count == 0) return;
    __shared__ PassTiles tiles;
    if (threadIdx.x == 0) tiles.set(all, (all.count + Tile::TILE - 1) / Tile::TILE, call.tiles, 0); // a `draw` comes before it is read
    auto wait_for = [](const u32 *word, u32 value) {
        while (load_relaxed(word) != value) {}
        __threadfence();
    };
    u32 ticket = draw(&plan.ticket);
    for (; ticket < call.parts; ticket = draw(&plan.ticket))
        if (sort_count<Order, Bits, Tile::THREADS>((u32 *)memory, call, all, Tile::TILE, ticket, call.parts) && threadIdx.x == 0) {
            __threadfence();
            store_relaxed(&plan.planned, 1);
        }
    if (threadIdx.x == 0) wait_for(&plan.planned, 1);
    __syncthreads();
    if (instead()) return;
    u32 running = plan.running, run = 0, done = 0; // done: tiles of the pass, by this block
    for (;; ticket = draw(&plan.ticket)) {
        u32 next = (ticket - call.parts) / tiles.here, tile = (ticket - call.parts) % tiles.here;
        if (next != run) {
            if (threadIdx.x == 0) {
                __threadfence();
                if (done > 0) add_relaxed(plan.finished + run, done);
                if (next < running) wait_for(plan.finished + next - 1, tiles.here);
            }
            __syncthreads();
            run = next;
            done = 0;
        }
        if (run >= running) return;
        SortPass<Order, Tile, true>(call, plan, tiles, run, plan.which[run], run % 2).run(*(typename Tile::Shared *)memory, tile, 0);
        done++;
    }
}

// ---- one block ----------------------------------------------------------------------------------------------------------------

// Bits that are not the same for all keys.
template <class Tile> __device__ u64 differing(const Tile &t) {
    typedef typename If<sizeof(typename Tile::Shape::Bits) <= 4, u32, u64>::Type Word;
    __shared__ Word of_warps[2][Tile::WARPS];
    Word ones = 0, zeros = 0;
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++)
        if (t.is_there(i)) {
            ones |= t.key[i];
            zeros |= ~Word(t.key[i]);
        }
    ones = warp_or(ones);
    zeros = warp_or(zeros);
    if (lane_id() == 0) {
        of_warps[0][warp_id()] = ones;
        of_warps[1][warp_id()] = zeros;
    }
    __syncthreads();
    return warp_or(of_warps[0][lane_id() % Tile::WARPS]) & warp_or(of_warps[1][lane_id() % Tile::WARPS]);
}

// All of it in shared memory, least significant digit first. Digits that are the same for all keys are passed over. What goes with a key does
// not move: `note` says where in the tile each was.
template <class Tile> __device__ void sort_digits(Tile &t, typename Tile::Note *note, u32 begin, u32 end) {
    typedef typename Tile::Shape::Bits Bits;
    constexpr bool MAY_BE_SHORT = !Tile::HAS_VALUES && sizeof(Bits) <= 2; // longer keys come here by some bits alone
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++) note[i] = t.at(i);
    u64 differs = end - begin > DIGIT_BITS ? differing(t) : ~u64(0);
    bool in_any_order = MAY_BE_SHORT && end - begin == 8 * sizeof(Bits); // the first: equal keys are the same
    for (u32 shift = begin; shift < end; shift += DIGIT_BITS) {
        Digit digit{shift, (1u << min(end - shift, DIGIT_BITS)) - 1};
        if (digit(differs) == 0) continue;
        if (MAY_BE_SHORT && in_any_order) {
            t.move_in_any_order(digit);
            in_any_order = false;
            continue;
        }
        t.rank(digit);
        t.move(note);
    }
}

// The same where values move with their keys, which takes fewer registers.
template <class Tile> __device__ void sort_digits_along(Tile &t, typename Tile::Shape::Value *value, u32 begin, u32 end) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    const Bits *keys = (const Bits *)t.s.exchange;
    u64 differs = differing(t);
    for (u32 shift = begin; shift < end; shift += DIGIT_BITS) {
        Digit digit{shift, (1u << min(end - shift, DIGIT_BITS)) - 1};
        if (digit(differs) == 0) continue;
        t.rank(digit);
        t.scatter([](u32, u32) {}, [](u32, u32) { return u64(0); });
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
    Tile t(s, u32(call.n));
    const Bits *from = (const Bits *)call.keys_in + t.first();
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++) t.key[i] = t.is_there(i) ? from[i * WARP] : Bits(0);
    Value value[Tile::ITEMS];
    if constexpr (Tile::HAS_VALUES) {
        const Value *values = (const Value *)call.values_in;
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) value[i] = values == nullptr ? Value::index(t.at(i)) : (values + t.first())[i * WARP];
    }
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++) t.key[i] = order.to(t.key[i]); // only now, when all are asked for
    typename Tile::Note note[Tile::ITEMS];
    sort_digits(t, note, call.begin, call.end);
    Bits *out = (Bits *)call.keys[0] + t.first();
    if (call.keys[0] != nullptr)
#pragma unroll
        for (u32 i = 0; i < Tile::ITEMS; i++)
            if (t.is_there(i)) out[i * WARP] = order.from(t.key[i]);
    if constexpr (Tile::HAS_VALUES) {
        Value *values = (Value *)s.exchange, *out = (Value *)call.values[0] + t.first();
        __syncthreads(); // the keys are out
        t.each([&](u32 i) { (values + t.first())[i * WARP] = value[i]; });
        __syncthreads();
        t.each([&](u32 i) {
            Value moved = values[note[i]];
            if (t.is_there(i)) out[i * WARP] = moved;
        });
    }
}

// ---- keys of one or two bytes, alone ---------------------------------------------------------------------------------------------------
// Nothing moves: how often each key is there says what the output is.

// Outputs THREADS * EACH a block, from where keys begin.
template <class Order, class Bits, u32 THREADS, class Start> __device__ void sort_fill(const SortCall &call, const Start *starts) {
    constexpr u32 KEYS = 1u << 8 * sizeof(Bits), EACH = FILL_ITEMS;
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
    auto end_of = [&](u32 key) { return key + 1 < KEYS ? u64(starts[key + 1]) : call.n; };
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
        u64 end = end_of(key);
        Bits item[IN_VECTOR];
        u32 count = u32(min(call.n - place, u64(IN_VECTOR)));
#pragma unroll
        for (u32 i = 0; i < IN_VECTOR; i++) {
            if (place + i >= end && i < count) { // the next key, or a later one
                key++;
                end = end_of(key);
                if (place + i >= end) {
                    key = key_at(place + i, key + 1, ends[1]);
                    end = end_of(key);
                }
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
