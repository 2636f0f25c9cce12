// Slots by cells: a map of the keys' density, for keys that neither bits nor range spread and of which slots take many.
//
// A cell (`Cells`) has as much of the way through all slots as it has of a sample, and each of its keys as much of that as it has of the cell: so slots
// have about as many keys, and in each these are nearly even. A frequent key that has a cell of its own, or shares it with few, has a slot of its own, and
// so has the most frequent one of others; where keys get dense by a jump a new slot begins. The map is made by the blocks that come first, while the others
// wait for it.
#pragma once
#include "sort/slot_steps.cuh"

constexpr u32 END_SAMPLE = 2048; // keys that a block looks at for the ends
constexpr u32 FREQUENT = 8; // of LOOKED_AT keys, from which on one of them is taken out of its cell

enum : u32 { READY = 1, FAILED };
template <class Bits> struct SlotMap {
    static constexpr u32 FINE_BITS = 4; // of four bytes half as many cells as for buckets, which are more
    typedef ::Cells<Bits, FINE_BITS> Cells;
    static constexpr u32 SIDE = Cells::SIDE, CELLS = 2 * SIDE;
    // Zero before the sort:
    u32 samples[2][CELLS]; // by cell, of either way
    u32 split_keys;             // how many of the sample are `key`
    u32 counted;           // parts of the sample
    u32 state;              // `MADE`, when all below is there, or `IN_VAIN`
    // And then not:
    Bits above, below, middle;    // `Cells`
    Bits split_key;               // that is taken out of its cell
    u32 has_split_key;                  // 1 if there is one
    alignas(128) u32 cells[CELLS]; // as `BucketMap::cells`, by parts of a slot
};
constexpr u32 SLOT_BITS = 8, OF_SLOT = 1 << SLOT_BITS; // parts of a slot

// The digit by cells, of keys of which one is taken out: it has the next one, and keys above it in its cell have the next but one.
template <class Bits, u32 FINE> struct BucketAroundKey : BucketByCells<Bits, FINE> {
    Bits split_key;
    u32 has_split_key;
    __device__ u32 upper(Bits key) const { return BucketByCells<Bits, FINE>::upper(key) + (key >= split_key ? has_split_key : 0) + (key > split_key ? has_split_key : 0); }
};

// By a block: its part of the sample, and by that which comes last the map.
template <class Order, class Tile> struct SlotMapMaker {
    typedef typename Tile::Shape::Bits Bits;
    typedef SlotMap<Bits> Map;
    typedef typename Map::Cells Cells;
    static constexpr u32 THREADS = Tile::THREADS, CELLS = Map::CELLS, SIDE = Map::SIDE, EACH = (CELLS + THREADS - 1) / THREADS;
    // Of a cell: its keys are taken for even; each has a slot; it is narrower than a key, and has none; its keys lie beyond the ends.
    enum Kind : u32 { EVEN, ONE_KEY, NO_KEY, BEYOND };
    static constexpr u32 KIND_SHIFT = 30;
    static constexpr u32 ONE_KEY_BITS = Tile::HAS_VALUES ? 1 : 3; // of keys at most: what goes with each has as much room as if it were all of them
    static constexpr u32 WHOLE_BITS = 14;                        // of slots; above them there is room for three times the sample
    static_assert(3 * CELL_SAMPLE * MOST_CELL_PARTS < 1u << (32 - WHOLE_BITS), "the ends count as the whole sample at most");
    struct Shared { // in the tile's place
        Bits ends[2][THREADS / WARP]; // of each warp's keys
        u32 counts[2][CELLS]; // of the sample, by way; then, for the way that is not taken, what each cell is
        u32 totals[THREADS / WARP];
        u32 most[2];      // of a cell, by way
        u32 beyond_ends[2];    // of the sample, beyond either end of what was looked at
        u32 one_key[BINS / 32], room[BINS]; // by slot: whether it is a single key's, how much room what goes with it has, and the key
        Bits keys[BINS];
        Bits split_key;   // that is taken out of its cell
        u32 room_totals[BINS / WARP];
        u32 last_with_key[CELLS / WARP]; // of cells that are a warp's together
        u32 is_last, is_too_large;
    };
    static_assert(sizeof(Shared) <= sizeof(typename Tile::Shared), "it takes the tile's place");

    Shared &s;
    u32 *prefix; // in shared memory, CELLS: what is before each cell on the way through all slots
    const SortCall &call;
    const SlotCall &slots;
    Map &map;
    EqualKeys<Bits> &equal;
    u32 sampled;
    bool has_split_key = false;

    __device__ SlotMapMaker(Shared &s, u32 *prefix, const SortCall &call, const SlotCall &slots)
        : s(s), prefix(prefix), call(call), slots(slots), map(*(Map *)slots.map), equal(*(EqualKeys<Bits> *)slots.equal), sampled(slots.cell_parts * CELL_SAMPLE) {}

    // By the whole block, each thread of which has looked at a key.
    __device__ void run(u32 part, Bits probe) {
        Order order{Bits(call.flip)};
        // Ends are those of keys that all parts look at. So few lie beyond that they fit a slot, and cells are narrow where keys end.
        constexpr u32 KEYS = CELL_SAMPLE / THREADS, ENDS = END_SAMPLE / THREADS;
        Bits key[KEYS], at_ends[ENDS];
        auto sample = [&](u32 i, u32 all) { return ((const Bits *)call.keys_in)[sampled_at(i * THREADS + threadIdx.x, u32(call.n) / all)]; };
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) at_ends[k] = sample(k, END_SAMPLE);
#pragma unroll
        for (u32 k = 0; k < KEYS; k++) key[k] = sample(part * KEYS + k, sampled);
        for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS) s.counts[0][i] = 0;
        has_split_key = find_frequent(probe);
        Bits least_inverted = 0, greatest = 0; // turned: the least, all bits
#pragma unroll
        for (u32 k = 0; k < ENDS; k++) {
            least_inverted = max(least_inverted, Bits(~order.to(at_ends[k])));
            greatest = max(greatest, order.to(at_ends[k]));
        }
        constexpr u32 WARPS = THREADS / WARP;
        static_assert(WARP % WARPS == 0, "a warp looks at all");
        least_inverted = warp_max(least_inverted);
        greatest = warp_max(greatest);
        if (lane_id() == 0) {
            s.ends[0][warp_id()] = least_inverted;
            s.ends[1][warp_id()] = greatest;
        }
        __syncthreads(); // the counts are zero, too
        u64 ends[2] = {warp_max(s.ends[0][lane_id() % WARPS]), warp_max(s.ends[1][lane_id() % WARPS])};
        const Cells layouts[2] = {Cells::inward(ends, Order::GRAIN), Cells::outward()};
        for (u32 w = 0; w < 2; w++) has_split_key = has_split_key && Cells::width_bits(layouts[w].cell(layouts[w](s.split_key))) > ONE_KEY_BITS; // else it may have a slot anyway
        u32 split_keys = 0;
#pragma unroll
        for (u32 k = 0; k < KEYS; k++) {
            Bits ordered = order.to(key[k]);
            bool is_split_key = has_split_key && ordered == s.split_key;
            split_keys += is_split_key;
#pragma unroll
            for (u32 w = 0; w < 2; w++)
                if (!is_split_key) atomicAdd(s.counts[w] + layouts[w].cell(layouts[w](ordered)), 1);
        }
        split_keys = warp_add(split_keys);
        if (lane_id() == 0 && split_keys > 0) atomicAdd(&map.split_keys, split_keys);
        __syncthreads();
        for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS)
            if (u32 count = s.counts[0][i]) atomicAdd(map.samples[0] + i, count);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) s.is_last = add_acquire_release(&map.counted, 1) == slots.cell_parts - 1;
        __syncthreads();
        if (!s.is_last) return;
        bool fits = make(layouts, ends);
        SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
        if (threadIdx.x == 0) {
            plan.slots_by = SLOTS_BY_CELLS;
            if (!fits) plan.too_large = 1;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            store_relaxed(&map.state, fits ? READY : FAILED);
        }
    }

  private:
    // Whether one of the keys that are looked at is frequent, as far as one warp of 32 of them tells: `s.key`. All parts look at the same, and find the same.
    __device__ bool find_frequent(Bits probe) {
        static_assert(THREADS == LOOKED_AT && WARP % (THREADS / WARP) == 0, "a key of a thread, and a warp looks at all");
        u32 hits = warp_max(u32(__popc(__match_any_sync(ALL_LANES, probe))) * THREADS + threadIdx.x);
        if (lane_id() == 0) s.totals[warp_id()] = hits;
        __syncthreads();
        if (warp_max(s.totals[lane_id() % (THREADS / WARP)]) % THREADS == threadIdx.x) s.split_key = probe;
        __syncthreads();
        return __syncthreads_count(probe == s.split_key) >= FREQUENT;
    }
    // Room for what goes with a key of which so many are seen in the sample.
    __device__ u32 room_of(u32 hits) const { return u32((float(hits) + 5 * sqrtf(float(hits)) + 8) * float(call.n) / float(sampled)); }
    // By the block that comes last. Whether all slots have room.
    __device__ bool make(const Cells (&layouts)[2], const u64 (&ends)[2]) {
        constexpr u32 LOADS = (2 * CELLS + THREADS - 1) / THREADS;
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
            if (i < 2 * CELLS) s.counts[0][i] = samples[k];
            most[i >= CELLS] = max(most[i >= CELLS], samples[k]);
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_max(most[w]); lane_id() == 0) atomicMax(s.most + w, all);
        __syncthreads();
        u32 best = s.most[1] < s.most[0];
        const Cells layout = best ? layouts[1] : layouts[0];
        const u32 *counts = s.counts[best], beyond = layout.beyond();

        // ---- what each cell is, in the order of keys. Loops stay loops: a line that runs once has to be loaded for that.
        u32 *cells = s.counts[1 - best]; // keys of the sample, and above that the kind
        constexpr u32 COUNT = (1u << KIND_SHIFT) - 1;
        u32 beyond_ends[2] = {0, 0};
        // On either side the widest cell ends where keys do, or in the middle: as much as if it had keys to its end.
        u32 cut[2] = {layout(layout.is_inward() ? Bits(layout.middle - 1) : Bits(~ends[0])), layout(layout.is_inward() ? layout.middle : Bits(ends[1]))};
        constexpr u32 LEAST_CUT = 1 << (PART_BITS - 5);
        auto scaled_to_full = [&](u32 count, u32 cut) { return min(u32(float(count) * float(1 << PART_BITS) / float(max(cut % (1 << PART_BITS), LEAST_CUT))), sampled); };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < CELLS; i += THREADS) {
            u32 cell = layout.nth_in_order(i), count = counts[cell], bits = layout.width_bits(cell), kind = EVEN;
            if (cell % SIDE >= beyond) {
                beyond_ends[cell >= SIDE] += count;
                kind = BEYOND;
            } else if (layout.with_key(cell) != cell) {
                kind = NO_KEY;
            } else if (bits <= ONE_KEY_BITS && 4 * count * BINS >= sampled << bits) { // of each key a quarter of a slot
                kind = ONE_KEY;
            } else if (cell == layout.cell(cut[cell >= SIDE])) {
                count = scaled_to_full(count, cut[cell >= SIDE]);
            }
            cells[i] = kind << KIND_SHIFT | count;
            u32 with_key = __ballot_sync(ALL_LANES, kind != NO_KEY);
            static_assert(CELLS % WARP == 0 && 1 << Map::FINE_BITS <= WARP, "all lanes of a warp, or none; and some cell of them has a key");
            if (lane_id() == 0) s.last_with_key[i / WARP] = i + WARP - 1 - u32(__clz(int(with_key)));
        }
#pragma unroll
        for (u32 w = 0; w < 2; w++)
            if (u32 all = warp_add(beyond_ends[w]); lane_id() == 0 && all > 0) atomicAdd(s.beyond_ends + w, all);
        __syncthreads();

        // ---- what it adds to the way through all slots: whole ones, and above them keys of the sample that share what is left
        auto bits_of = [&](u32 i) { return layout.width_bits(layout.nth_in_order(i)); };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < CELLS; i += THREADS) {
            u32 kind = cells[i] >> KIND_SHIFT, count = cells[i] & COUNT, bits = bits_of(i), added = 0;
            // The one before that has a key.
            u32 with_key = __ballot_sync(ALL_LANES, kind != NO_KEY) & ((1u << lane_id()) - 1), first = i - lane_id();
            u32 j = with_key ? first + WARP - 1 - u32(__clz(int(with_key))) : first > 0 ? s.last_with_key[first / WARP - 1] : CELLS;
            u32 before = j < CELLS ? cells[j] : BEYOND << KIND_SHIFT, kind_before = before >> KIND_SHIFT;
            if (kind == ONE_KEY) added = (1u << bits) + (kind_before != ONE_KEY);
            else if (kind == EVEN) added = count << WHOLE_BITS | (kind_before == EVEN && is_jump(before & COUNT, bits_of(j), count, bits));
            prefix[i] = added;
        }
        __syncthreads();
        u32 begin = threadIdx.x * EACH, sum = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) sum += begin + e < CELLS ? prefix[begin + e] : 0;
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        __syncthreads();
        u32 earlier = upto - sum + warps_before(s.totals), all = warp_add(lane_id() < THREADS / WARP ? s.totals[lane_id()] : 0);
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (begin + e < CELLS) {
                u32 added = prefix[begin + e];
                prefix[begin + e] = earlier;
                earlier += added;
            }
        __syncthreads();

        // ---- the table. What is beyond the ends has slots of its own. No slot that others may get into is a single key's: one begins before each run of
        // single keys, so the first is none, and all end before the last one.
        constexpr u32 WHOLE = (1u << WHOLE_BITS) - 1;
        u32 below = s.beyond_ends[0], above = s.beyond_ends[1], sharing = (all >> WHOLE_BITS) + below + above, whole = (all & WHOLE) + (below > 0) + (above > 0);
        if (whole > BINS / 4 * 3) return false;
        u32 parts = ((BINS - (has_split_key ? 2 : 0) - whole) << SLOT_BITS) - 2; // to be shared; rounding takes less than those two
        float each = __fdividef(float(parts), float(max(sharing, 1u)));
        if (float(call.n) * float(sharing) * OF_SLOT > 0.97f * float(slots.room) * float(sampled) * float(parts)) return false;
        auto at = [&](u32 prefix) { return u32(float((prefix >> WHOLE_BITS) + below) * each) + (((prefix & WHOLE) + (below > 0)) << SLOT_BITS); };
#pragma unroll 1
        for (u32 i = threadIdx.x; i < CELLS; i += THREADS) {
            u32 kind = cells[i] >> KIND_SHIFT, before = prefix[i], after = i + 1 < CELLS ? prefix[i + 1] : all, cell = layout.nth_in_order(i), first = 0, end = 0;
            if (kind == ONE_KEY) {
                u32 keys = 1u << layout.width_bits(cell), slot = (at(before) >> SLOT_BITS) + (after - before - keys);
                first = slot << SLOT_BITS;
                end = (slot + keys) << SLOT_BITS;
                for (u32 k = 0; k < keys; k++) {
                    atomicOr(s.one_key + (slot + k) / 32, 1u << (slot + k) % 32);
                    s.keys[slot + k] = Bits(layout.least(cell) + k);
                    if constexpr (Tile::HAS_VALUES) s.room[slot + k] = room_of(cells[i] & COUNT);
                }
            } else if (kind == EVEN) {
                first = at(before + ((after - before) & WHOLE));
                end = at(after);
            } else if (kind == BEYOND && cell >= SIDE) {
                first = end = parts - u32(float(above) * each) + (whole << SLOT_BITS);
            }
            bool rises = layout.rises(cell);
            u32 step = end - first, from = rises || step == 0 ? first : end - 1;
            if (step > 0x7fff) store_shared(&s.is_too_large, 1u);
            if (!rises) step = -step;
            map.cells[cell] = (from - step * layout.number(cell)) << PART_BITS | u16(step);
        }
        __syncthreads();
        if (threadIdx.x < BINS) {
            // A key that is taken out has a slot behind that of its cell, and what is above it in the cell the next one; so others are two further on.
            u32 d = threadIdx.x, before = has_split_key ? BucketByCells<Bits, Map::FINE_BITS>(layout, map.cells, SLOT_BITS).upper(s.split_key) : BINS;
            bool is_split_key = d == before + 1, is_above = d == before + 2;
            u32 slot = d <= before ? d : is_split_key ? 0 : d - 2;
            bool is_one_key = is_split_key || (!is_above && s.one_key[slot / 32] >> slot % 32 & 1);
            u32 one_key = __ballot_sync(ALL_LANES, is_one_key), room = !is_one_key ? 0 : is_split_key ? room_of(load_relaxed(&map.split_keys)) : s.room[slot];
            u32 begin = block_before<BINS>(room, s.room_totals), first = BINS * slots.room + Tile::TILE;
            equal.begins[d] = first + min(begin, slots.equal_room);
            if (d == BINS - 1) equal.begins[BINS] = first + min(begin + room, slots.equal_room);
            if (is_one_key) equal.keys[d] = is_split_key ? s.split_key : s.keys[slot];
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

    // Whether keys get dense or sparse from one cell to the next, of so many of the sample each, and so wide: 16 times, where many were seen or not.
    static __device__ bool is_jump(u32 count, u32 bits, u32 next, u32 next_bits) {
        constexpr float MANY = 24, TIMES = 16;
        auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
        float as_next = float(next) * power(int(bits - next_bits)), as_before = float(count) * power(int(next_bits - bits)); // what the other would have
        return (as_next >= MANY && float(count) * TIMES < as_next) || (as_before >= MANY && float(next) * TIMES < as_before);
    }
};

// A tile's keys by a map that is there. Two places call it.
template <class Order, class Tile>
__device__ __noinline__ void to_slots_by_map(typename Tile::Shared &s, u32 *table, SortCall call, SlotCall slots, u32 tile) {
    typedef typename Tile::Shape::Bits Bits;
    typedef SlotMap<Bits> Map;
    const Map &map = *(const Map *)slots.map;
    const EqualKeys<Bits> &equal = *(const EqualKeys<Bits> *)slots.equal;
    for (u32 i = threadIdx.x; i < Map::CELLS / 4; i += Tile::THREADS) copy_common_to_shared((Vector *)table + i, (const Vector *)map.cells + i);
    u32 room = slots.room, *too_large = &((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large;
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
    typedef BucketByCells<Bits, Map::FINE_BITS> ByCells;
    typedef BucketAroundKey<Bits, Map::FINE_BITS> AroundKey;
    UpperDigit<AroundKey> digit{AroundKey{ByCells(typename Map::Cells{map.above, map.below, map.middle}, table, SLOT_BITS), map.split_key, map.has_split_key}};
    if constexpr (Tile::HAS_VALUES) {
        wait_for_table();
        to_slots_in_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, slots, tile, digit, position);
    } else {
        to_slots_in_any_order<Order, Tile, PutUnlessDone<Order, Bits>>(s, call, slots, tile, digit, position);
    }
}

// A tile's keys by cells, by a block that was the `drawn`th: who waits for parts of the sample waits for blocks that run.
template <class Order, class Tile>
__device__ inline void to_slots_by_cells(typename Tile::Shared &s, u32 *table, const SortCall &call, const SlotCall &slots, u32 tile, u32 drawn,
                                         typename Tile::Shape::Bits probe) {
    typedef SlotMap<typename Tile::Shape::Bits> Map;
    typedef SlotMapMaker<Order, Tile> Maker;
    if (drawn < slots.cell_parts) Maker(*(typename Maker::Shared *)&s, table, call, slots).run(drawn, probe);
    u32 state = 0;
    if (threadIdx.x == 0) {
        while ((state = load_relaxed(&((Map *)slots.map)->state)) == 0) {}
        __threadfence();
    }
    if (!__syncthreads_or(state == FAILED)) to_slots_by_map<Order, Tile>(s, table, call, slots, tile);
}
