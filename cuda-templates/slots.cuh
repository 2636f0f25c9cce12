// Radix sort by slots: where keys are few, one step to places in scratch memory, with room for as many keys each as a block sorts.
//
// Nothing is counted before. Every block looks at the same few keys, and so all find the same way: by their first bits, if that spreads them; else
// by their share of the way from the least to the greatest; else by splitters (Leischner, Osipov and Sanders 2010, "GPU sample sort"): keys
// of a sample, as many of it between each and the next. Keys that are equal to a splitter need no sort (Sanders and Winkel 2004, "Super scalar sample
// sort"): alone they are counted, and what goes with them has room by how often the sample has the splitter. If there is too little room after all,
// the passes do it.
#pragma once
#include "bitonic.cuh"
#include "buckets.cuh"

enum SlotRoute : u32 { SLOTS_BY_BITS, SLOTS_BY_RANGE, SLOTS_BY_SPLITTERS };

template <class Bits> struct Splitters {
    Bits values[VALUES];    // in order; the last of them, and those that are not there, the greatest of all keys
    u32 begins[VALUES + 1]; // where what goes with the keys that are equal to each begins among the slots' values
};

struct SlotCall {
    u32 *counts;         // by digit, zero before the sort: of keys that it has
    void *keys, *values; // `room` for each slot, and after the last one a tile's for what has no place; of values then `equal_room`
    void *splitters;     // `Splitters`
    u32 bits;            // of a slot's number, but by splitters
    u32 room;
    u32 most;            // of LOOKED_AT that every block looks at before, so many may be a slot's
    u32 intervals;       // between splitters, each with a slot: a power of two, or none
    u32 sampled;         // keys for splitters
    u32 most_between;    // so many of them may be an interval's
    u32 equal_room;      // for all that goes with keys that are equal to splitters
    u32 only_few;        // whether nothing fits but few values, of which each is often
};
constexpr u32 LOOKED_AT = 512;

// ---- to the slots -----------------------------------------------------------------------------------------------------------------

// The slot of a key by bits or by range.
template <class Order, class Tile> struct SlotDigit {
    typedef typename Tile::Shape::Bits Bits;
    static_assert(LOOKED_AT == Tile::THREADS, "a thread for each");
    struct Look { // in the tile's place, which is not there yet
        u32 seen[2][BINS]; // keys of a slot, by either way
        Bits ends[2][Tile::THREADS / WARP]; // of each warp's: the least key, turned over, and the greatest
    };
    Look &look;
    SortPlan<sizeof(Bits) + 1> &plan;
    Order order;
    Bits key;
    u32 all, most; // slots, and keys of one
    Share<Bits> share;

    // Asks for the keys, and does not wait.
    __device__ SlotDigit(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots)
        : look(*(Look *)&s), plan(*(SortPlan<sizeof(Bits) + 1> *)call.plan), order{Bits(call.flip)}, all(1u << slots.bits), most(slots.most),
          share(Share<Bits>::whole(all)) {
        key = ((const Bits *)call.keys_in)[sampled_at(threadIdx.x, u32(call.n) / LOOKED_AT)];
        if (threadIdx.x < BINS) look.seen[0][threadIdx.x] = look.seen[1][threadIdx.x] = 0;
        __syncthreads();
    }

    __device__ u32 operator()(Bits key) const { return share(key); }
    // One of the few keys that are looked at, as the input has it, or once it is known which way in order.
    __device__ Bits looked_at() const { return key; }

    // By the whole block, before it asks for a slot: which way. Whether either will do.
    __device__ bool await() {
        key = order.to(key);
        if (is_spread(look, share, key, most, 0)) return true;
        share = of_range(look, key, all);
        bool will_do = share.range() > all && is_spread(look, share, key, most, 1);
        if (will_do && threadIdx.x == 0) plan.slots_by = SLOTS_BY_RANGE;
        return will_do;
    }

  private:
    static __device__ bool is_spread(Look &look, const Share<Bits> &share, Bits key, u32 most, u32 way) {
        return !__syncthreads_or(atomicAdd(look.seen[way] + share(key), 1) >= most);
    }
    // Apart, as most keys do without it.
    static __device__ __noinline__ Share<Bits> of_range(Look &look, Bits key, u32 all) {
        constexpr u32 WARPS = Tile::THREADS / WARP;
        static_assert(WARP % WARPS == 0, "a warp looks at all");
        Bits turned = warp_max(Bits(~key)), greatest = warp_max(key);
        if (lane_id() == 0) {
            look.ends[0][warp_id()] = turned;
            look.ends[1][warp_id()] = greatest;
        }
        __syncthreads();
        Bits least = Bits(~warp_max(look.ends[0][lane_id() % WARPS]));
        greatest = warp_max(look.ends[1][lane_id() % WARPS]);
        // What was not seen may lie beyond the ends.
        Bits margin = Bits(greatest - least) / 32;
        u64 wider[2] = {Bits(~(least - min(least, margin))), Bits(greatest + min(Bits(~greatest), margin))};
        Share<Bits> share(wider);
        if (share.range() > all) share.factor = share.factor_for(all);
        return share;
    }
};

// A tile's keys to slots, in any order: `place(digit, earlier, total)` says where those of a digit go, of which so many are there already.
template <class Order, class Tile, class Put, class D, class Place>
__device__ inline bool to_slots_in_any_order(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots, u32 tile, D digit, const Place &place) {
    typedef typename Tile::Shape::Bits Bits;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    u32 *counts = slots.counts;
    return any_order<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)slots.keys, order},
        [=](u32 d, u32 total) { return place(d, atomicAdd(counts + d, total), total); });
}
// The same in order, and what goes with them.
template <class Order, class Tile, class Put, class D, class Place>
__device__ inline void to_slots_in_order(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots, u32 tile, D digit, const Place &place) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    Order order{Bits(call.flip)};
    u64 at = u64(tile) * Tile::TILE;
    const Bits *from = (const Bits *)call.keys_in + at;
    const Value *values = (const Value *)call.values_in;
    u32 *counts = slots.counts;
    bool is_last = tile == gridDim.x - 1;
    LookBackDigits chain{call.words[1] + u64(tile) * BINS, tile};
    stable_any<Tile>(
        s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, Put{(Bits *)slots.keys, order}, values ? values + at : nullptr, at,
        (Value *)slots.values, [=](u32 d, u32 total) { chain.publish(d, total); },
        [=](u32 d, u32 total) {
            u32 earlier = chain.template receive<8>(d, total);
            if (is_last) counts[d] = earlier + total;
            return place(d, earlier, total);
        });
}

// ---- by splitters -----------------------------------------------------------------------------------------------------------------

// Splitters in shared memory. After each row of banks a place is left out: so those that a step of a search may meet are in different banks, but for the
// last ones.
template <class Bits> struct SearchedValues {
    static constexpr u32 ROW = 32 * sizeof(u32) / sizeof(Bits);
    Bits places[VALUES + VALUES / ROW];
    static constexpr __device__ u32 place(u32 j) { return j + j / ROW; }
    __device__ void set(u32 j, Bits value) { places[place(j)] = value; }
};
template <class Bits> struct SplitterDigit {
    typedef SearchedValues<Bits> Values;
    const Values *splitters;
    // For each key twice as many as are less, and one more if it is the next. Step by step for all, so that no key waits for another's steps.
    template <u32 COUNT> __device__ void find(const Bits (&key)[COUNT], u32 (&found)[COUNT]) const {
        const Bits *places = splitters->places;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) found[i] = 0; // the place of the first that may not be less
#pragma unroll
        for (u32 step = VALUES / 2; step > 0; step /= 2)
#pragma unroll
            for (u32 i = 0; i < COUNT; i++) found[i] += places[found[i] + Values::place(step - 1)] < key[i] ? Values::place(step) : 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; i++) found[i] = 2 * (found[i] - found[i] / (Values::ROW + 1)) + (places[found[i]] == key[i]);
    }
    __device__ u32 operator()(Bits key) const {
        Bits keys[1] = {key};
        u32 found[1];
        find(keys, found);
        return found[0];
    }
    __device__ bool await() const {
        __syncthreads();
        return true;
    }
};
template <class Bits> constexpr bool IS_SEARCHED<SplitterDigit<Bits>> = true;
template <class Bits> constexpr bool IS_MARKED<SplitterDigit<Bits>> = true;

// How many of `COUNT` keys in order, a power of two, are less than a key, and how many not greater.
template <u32 COUNT, class Bits> __device__ inline void count_less(const Bits *sorted, Bits key, u32 &less, u32 &upto) {
    less = upto = 0;
#pragma unroll
    for (u32 step = COUNT / 2; step > 0; step /= 2) {
        less += sorted[less + step - 1] < key ? step : 0;
        upto += sorted[upto + step - 1] <= key ? step : 0;
    }
    less += sorted[less] < key;
    upto += sorted[upto] <= key;
}

// Splitters with as many keys of a sample between each and the next, or before the first. By the whole block: all find the same. Whether every interval
// has room.
template <u32 EACH, class Order, class Tile>
__device__ inline bool find_splitters(Splitters<typename Tile::Shape::Bits> &found, typename Tile::Shared &s, const SortCall &call, const SlotCall &slots,
                                      typename Tile::Shape::Bits looked_at) {
    typedef typename Tile::Shape::Bits Bits;
    constexpr u32 SAMPLE = EACH * Tile::THREADS;
    static_assert(sizeof(s.exchange) >= SAMPLE * sizeof(Bits), "the sample takes the tile's place");
    Order order{Bits(call.flip)};
    Bits *sorted = (Bits *)s.exchange, key[EACH] = {looked_at};
    static_assert(Tile::THREADS == LOOKED_AT, "one of a thread: which it has looked at");
    if (EACH > 1) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) key[e] = ((const Bits *)call.keys_in)[sampled_at(e * Tile::THREADS + threadIdx.x, u32(call.n) / SAMPLE)];
#pragma unroll
        for (u32 e = 0; e < EACH; e++) key[e] = order.to(key[e]);
    }
    Bitonic<EACH, Bits>{key}.template sort_block<Tile::THREADS>(sorted);
    __syncthreads();
#pragma unroll
    for (u32 e = 0; e < EACH; e++) sorted[threadIdx.x * EACH + e] = key[e];
    __syncthreads();
    bool has_room = true;
    u32 j = threadIdx.x, every = SAMPLE / slots.intervals;
    if (j < VALUES) {
        Bits value = j + 1 < slots.intervals ? sorted[(j + 1) * every] : Bits(~Bits(0));
        found.values[j] = value;
        u32 less, upto, before; // before: not greater than the splitter before: more than `less` if it is the same again
        count_less<SAMPLE>(sorted, value, less, upto);
        found.begins[j + 1] = upto;
        asm volatile("bar.sync 1, %0;" ::"n"(VALUES) : "memory");
        before = j > 0 ? found.begins[j] : 0;
        has_room = int(less - before) <= int(slots.most_between);
        if constexpr (Tile::HAS_VALUES) {
            // Of as many of the sample hardly more are equal to it.
            float seen = float(upto - less);
            u32 room = before <= less ? u32((seen + 5 * sqrtf(seen) + 8) * float(call.n) / SAMPLE) : 0;
            u32 begin = block_before<VALUES>(room, s.totals), first = slots.intervals * slots.room + Tile::TILE;
            found.begins[j] = first + min(begin, slots.equal_room); // nobody else has read what was there
            if (j == VALUES - 1) found.begins[VALUES] = first + min(begin + room, slots.equal_room);
        }
    }
    return __syncthreads_and(has_room);
}

// Whether keys of a block, one of a thread, are few values.
template <class Shared, class Bits> __device__ inline bool are_few(Shared &shared, Bits key) {
    FewValues<Bits> &few = *(FewValues<Bits> *)&shared;
    static_assert(sizeof(few) <= sizeof(Shared), "they take the tile's place");
    __syncthreads();
    few.clear();
    few.add(key);
    __syncthreads();
    return few.are_few();
}

// A tile's keys by splitters. Apart, so that it takes no registers from the others.
template <class Order, class Tile>
__device__ __noinline__ void to_slots_by_splitters(typename Tile::Shared &s, SortCall call, SlotCall slots, u32 tile, typename Tile::Shape::Bits looked_at) {
    typedef typename Tile::Shape::Bits Bits;
    __shared__ Splitters<Bits> found;
    __shared__ SearchedValues<Bits> searched;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    u32 *too_large = &plan.too_large;
    bool fits = slots.intervals > 0 && (!slots.only_few || are_few(s, looked_at));
    if (fits)
        fits = slots.sampled == LOOKED_AT ? find_splitters<1, Order, Tile>(found, s, call, slots, looked_at)
                                          : find_splitters<4, Order, Tile>(found, s, call, slots, looked_at);
    if (!fits) {
        if (threadIdx.x == 0) *too_large = 1;
        return;
    }
    if (threadIdx.x < VALUES) searched.set(threadIdx.x, found.values[threadIdx.x]);
    if (tile == 0) {
        Splitters<Bits> &all = *(Splitters<Bits> *)slots.splitters;
        if (threadIdx.x < VALUES) all.values[threadIdx.x] = found.values[threadIdx.x];
        if (Tile::HAS_VALUES && threadIdx.x < VALUES) all.begins[threadIdx.x] = found.begins[threadIdx.x];
        if (threadIdx.x == 0) plan.slots_by = SLOTS_BY_SPLITTERS;
    }
    u32 room = slots.room;
    u64 nowhere = u64(room) * slots.intervals;
    const u32 *begins = found.begins;
    auto place = [=](u32 d, u32 earlier, u32 total) {
        if (d % 2 == 0) { // between two
            if (earlier + total <= room) return u64(d / 2) * room + earlier;
        } else {
            if (!Tile::HAS_VALUES) return DONE;
            u32 begin = begins[d / 2] + earlier;
            if (begin + total <= begins[d / 2 + 1]) return DONE | begin;
        }
        *too_large = 1;
        return nowhere;
    };
    __syncthreads();
    SplitterDigit<Bits> digit{&searched};
    if constexpr (Tile::HAS_VALUES) to_slots_in_order<Order, Tile, PutUndone<Order, Bits>>(s, call, slots, tile, digit, place);
    else to_slots_in_any_order<Order, Tile, PutUndone<Order, Bits>>(s, call, slots, tile, digit, place);
}

// ---- both -------------------------------------------------------------------------------------------------------------------------

template <class Order, class Tile> __device__ void slot_first(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots) {
    typedef typename Tile::Shape::Bits Bits;
    typedef PutPlainly<Order, Bits> Put;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    SlotDigit<Order, Tile> digit(s, call, slots);
    u32 room = slots.room, *too_large = &plan.too_large;
    u64 nowhere = u64(room) << slots.bits;
    auto place = [=](u32 d, u32 earlier, u32 total) { // or where nobody looks
        if (earlier + total <= room) return u64(d) * room + earlier;
        *too_large = 1;
        return nowhere;
    };
    if constexpr (!Tile::HAS_VALUES) {
        if (to_slots_in_any_order<Order, Tile, Put>(s, call, slots, blockIdx.x, digit, place)) return;
        to_slots_by_splitters<Order, Tile>(s, call, slots, blockIdx.x, Order{Bits(call.flip)}.to(digit.looked_at()));
    } else {
        u32 drawn = threadIdx.x == 0 ? add_relaxed(&plan.slot_ticket, 1) : 0; // comes while keys are looked at
        bool will_do = digit.await();
        if (threadIdx.x == 0) s.tile = drawn;
        __syncthreads();
        u32 tile = s.tile;
        if (will_do) to_slots_in_order<Order, Tile, Put>(s, call, slots, tile, digit, place);
        else to_slots_by_splitters<Order, Tile>(s, call, slots, tile, digit.looked_at());
    }
}
