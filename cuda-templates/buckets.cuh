// Radix sort by buckets: most significant digit first, by all bits of the keys.
//
//   sample   a few keys are looked at, evenly spread over the input
//   map      how keys go to buckets, so that each has about as many
//   count    the keys of each bucket, in one read of all
//   plan     where buckets begin, and whether each fits a block
//   first    keys to the buckets' upper digit
//   second   and to their lower one
//   sort     each bucket by one block, in shared memory
//
// If a bucket is too large for a block, nothing is moved, and the sort by passes runs. What is sorted is the same either way.
#pragma once
#include "sort.cuh"

// ---- how keys go to buckets ------------------------------------------------------------------------------------------------------
// By their first bits, where keys are spread evenly over all that there could be. By their share of the way from the least to the
// greatest, where they are spread evenly between these. Where the sample has few values, each of them has a bucket, and so has what lies
// between two. Else by cells: intervals of keys that get wider from one of the ends on as the numbers of a float do, each with as many
// buckets of one width as its share of the sample asks for.

enum Route : u32 { BY_BITS, BY_RANGE, BY_VALUES, BY_CELLS };
constexpr u32 FEW_DIGITS = 2; // that so many passes take less time than buckets do

constexpr u32 BUCKETS = 1 << 16; // at most
constexpr u32 VALUES = 128;      // one more than are few
constexpr u32 MAP_BLOCKS = 32;   // of the kernel that makes the map, at most
constexpr u32 PART_BITS = 16;    // by which a key's place in its cell is known

template <class Bits> struct BucketMap { // zero before the sort
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    static constexpr u32 FINE_BITS = WIDTH == 32 ? 6 : 5; // cells get wider every so many
    static constexpr u32 CELLS = (WIDTH + 1) << FINE_BITS;

    u64 extremes[2];       // of the sample: the least key, turned over, and the greatest
    u64 differing;         // bits that are not the same in all of it
    u32 tops[BINS];        // how many of it, by the first digit
    u32 shares[BINS];      // by parts of the range
    u32 samples[2][CELLS]; // and by cell, from either end
    u32 sampled, mapped;   // blocks that are done with it
    u32 tickets[2];        // tiles of the steps
    u32 single[BUCKETS / 32]; // a bit for each bucket that has only one key, however often

    Route route;
    u32 lower_bits; // of a bucket's number
    u32 from_greatest, factor;
    union {
        alignas(16) u32 cells[CELLS]; // the first bucket, and below how many there are
        Bits values[VALUES];          // in order, the last of them and those that are not there the greatest of all
    };
    u32 seen[MAP_BLOCKS]; // values in the part of the sample that a block has; and these, if they are few
    Bits of_part[MAP_BLOCKS][VALUES];
};

// A key's distance from an end of the sample. One less than the end is at zero: keys beyond it, which the sample has not seen, are there
// together.
template <class Bits> struct Distance {
    Bits turn, base;
    __device__ Distance(const u64 (&extremes)[2], bool from_greatest) {
        turn = from_greatest ? Bits(~Bits(0)) : 0;
        Bits end = from_greatest ? Bits(~Bits(extremes[1])) : Bits(~extremes[0]);
        base = end > 0 ? end - 1 : 0;
    }
    __device__ Bits operator()(Bits key) const { return max(Bits(key ^ turn), base) - base; }
};

// A key's share of the way between both, of so many in all.
template <class Bits> struct Share {
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    Distance<Bits> distance;
    Bits most;
    u32 shift, factor;
    __device__ explicit Share(const u64 (&extremes)[2]) : distance(extremes, false) {
        most = Bits(extremes[1]) - distance.base;
        if (Bits(most + 1) != 0) most++; // beyond the other end too
        shift = WIDTH == 64 ? u32(max(32 - __clzll((long long)most), 0)) : 0;
    }
    __device__ u32 range() const { return u32(most >> shift); }
    // For keys between ends that are far apart.
    __device__ u32 factor_for(u32 all) const { return u32((u64(all) << 32) / (u64(range()) + 1)); }
    __device__ u32 operator()(Bits key) const { return __umulhi(u32(min(distance(key), most) >> shift), factor); }
};

// A key's cell, and below the place in it.
template <class Bits> struct Cells {
    static constexpr u32 WIDTH = 8 * sizeof(Bits), FINE_BITS = BucketMap<Bits>::FINE_BITS;
    static constexpr u32 FIRST = 0x3f000000u >> (23 - FINE_BITS); // that zero has
    Distance<Bits> distance;
    __device__ Cells(const u64 (&extremes)[2], bool from_greatest) : distance(extremes, from_greatest) {}
    __device__ u32 operator()(Bits key) const {
        Bits x = distance(key);
        return __float_as_uint((WIDTH == 64 ? __ull2float_rz(x) : __uint2float_rz(u32(x))) + 0.5f) >> (23 - FINE_BITS - PART_BITS);
    }
    static __device__ u32 cell(u32 at) { return (at >> PART_BITS) - FIRST; }
    // How many keys a cell is wide, as a power of two.
    static __device__ u32 width_bits(u32 cell) {
        u32 bits = cell >> FINE_BITS;
        return bits > FINE_BITS + 1 ? bits - (FINE_BITS + 1) : 0;
    }
};

// Where a key goes to, marked if it need not be sorted any more: then it is stored as what it was.
constexpr u64 DONE = 1ull << 63;

template <class Order, class Bits> struct PutInBucket {
    Bits *out;
    Order order;
    __device__ void operator()(u64 place, Bits key) const { out[place & ~DONE] = place & DONE ? order.from(key) : key; }
};
template <class Order, class Bits> struct PutPlainly {
    Bits *out;
    Order order;
    __device__ void operator()(u64 place, Bits key) const { out[place] = key; }
};

// A table is in shared memory. By the whole block.
__device__ inline void awaited() {
    wait_for_copies();
    __syncthreads();
}

// The bucket of a key. ONE_STEP: there are so few that the first digit is all.
template <class Bits> struct BucketByBits {
    static constexpr bool SOME_LARGE = false, ONE_STEP = false; // whether those of a single key may be larger than a block's room
    template <class Order> using Put = PutPlainly<Order, Bits>;
    u32 shift, mask;
    __device__ BucketByBits(const SortCall &call, u32 lower_bits)
        : shift(call.end - DIGIT_BITS - lower_bits), mask((1u << (DIGIT_BITS + lower_bits)) - 1) {}
    __device__ u32 operator()(Bits key) const { return u32(key >> shift) & mask; }
};
template <class Bits> struct BucketByRange {
    static constexpr bool SOME_LARGE = false, ONE_STEP = false;
    template <class Order> using Put = PutPlainly<Order, Bits>;
    Share<Bits> share;
    __device__ explicit BucketByRange(const BucketMap<Bits> &map) : share(map.extremes) { share.factor = map.factor; }
    __device__ u32 operator()(Bits key) const { return share(key); }
};
template <class Bits> struct BucketByValues {
    static constexpr bool SOME_LARGE = true, ONE_STEP = true;
    template <class Order> using Put = PutInBucket<Order, Bits>;
    const Bits *values; // in shared memory
    __device__ u32 operator()(Bits key) const {
        u32 less = 0; // values
#pragma unroll
        for (u32 step = VALUES / 2; step > 0; step /= 2) less += values[less + step - 1] < key ? step : 0;
        return 2 * less + (values[less] == key);
    }
    static __device__ void load(Bits *table, const BucketMap<Bits> &map) {
        if (threadIdx.x < VALUES) table[threadIdx.x] = map.values[threadIdx.x];
    }
};
template <class Bits> struct BucketByCells {
    static constexpr bool SOME_LARGE = true, ONE_STEP = false;
    template <class Order> using Put = PutInBucket<Order, Bits>;
    const u32 *table; // in shared memory
    Cells<Bits> cells;
    u32 turn;
    __device__ BucketByCells(const BucketMap<Bits> &map, const u32 *table)
        : table(table), cells(map.extremes, map.from_greatest), turn(map.from_greatest ? (1u << (DIGIT_BITS + map.lower_bits)) - 1 : 0) {}
    __device__ u32 operator()(Bits key) const {
        constexpr u32 MOST = (1 << PART_BITS) - 1;
        u32 at = cells(key), cell = table[cells.cell(at)];
        return ((at & MOST) * (cell & MOST) + (cell & ~MOST)) >> PART_BITS ^ turn;
    }
    // By the whole block, before it says that the table is `awaited`.
    static __device__ void load(u32 *table, const BucketMap<Bits> &map) {
        for (u32 i = threadIdx.x; i < BucketMap<Bits>::CELLS / 4; i += blockDim.x) copy_to_shared((Vector *)table + i, (const Vector *)map.cells + i);
    }
};
template <class Bucket> struct BucketDigit {
    static constexpr bool HAS_TABLE = Bucket::SOME_LARGE;
    Bucket bucket;
    u32 shift, mask;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket(key) >> shift & mask; }
};

struct BucketCall {
    void *map;
    u32 *counts;      // of BUCKETS, zero before the sort
    u32 *tops;        // of BINS, zero before the sort: those of the first digit
    u32 *starts;      // BUCKETS + 1
    u32 *cursors;     // BUCKETS: where the next key of each goes
    u32 *top_cursors; // BINS, each TOP_APART from the next
    u32 *tiles;       // BINS + 1: of the second step, where those of each first digit begin
    void *sample;
    u32 sampled;
    u32 lower_bits, most_lower_bits; // of a bucket's number: as a rule, and by cells if that does not do
    u32 room;         // keys that a block holds
};
constexpr u32 TOP_APART = 32;

// ---- sample ----------------------------------------------------------------------------------------------------------------------

// Whether buckets are not too large where of the sample at most so many have the same first digit, and it is wrong by what it may be.
__device__ inline bool is_even(const BucketCall &buckets, u64 n, u32 most) {
    float fits = 0.95f * float(buckets.sampled) * float(buckets.room << buckets.lower_bits) / float(n);
    return float(most) <= fits + 3 * sqrtf(fits);
}

// Whoever comes last decides whether keys go to buckets by their first bits, or not at all.
template <class Order, class Bits, u32 THREADS> __device__ void bucket_sample(const SortCall &call, const BucketCall &buckets) {
    __shared__ u64 extremes[2], differing;
    __shared__ u32 tops[BINS], most;
    __shared__ bool last;
    BucketMap<Bits> &map = *(BucketMap<Bits> *)buckets.map;
    const Bits *keys = (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    if (threadIdx.x < 2) extremes[threadIdx.x] = 0;
    if (threadIdx.x < BINS) tops[threadIdx.x] = 0;
    if (threadIdx.x == 0) differing = most = 0;
    __syncthreads();
    u32 stride = u32(call.n / buckets.sampled);
    u64 turned = 0, greatest = 0, differs = 0;
    Bits one = order.to(keys[0]);
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < buckets.sampled; i += gridDim.x * THREADS) {
        // Somewhere in its part of the input, so that no period is met.
        u32 mixed = (i ^ i >> 7) * 0x9e3779b1u;
        Bits key = order.to(keys[u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32)]);
        ((Bits *)buckets.sample)[i] = key;
        atomicAdd(tops + u32(key >> (BucketMap<Bits>::WIDTH - DIGIT_BITS)), 1);
        turned = max(turned, u64(Bits(~key)));
        greatest = max(greatest, u64(key));
        differs |= u64(key ^ one);
    }
    turned = warp_max(turned);
    greatest = warp_max(greatest);
    differs = warp_or(differs);
    if (lane_id() == 0) {
        atomicMax(extremes, turned);
        atomicMax(extremes + 1, greatest);
        atomicOr(&differing, differs);
    }
    __syncthreads();
    if (threadIdx.x < 2) atomicMax(map.extremes + threadIdx.x, extremes[threadIdx.x]);
    if (threadIdx.x == 0) atomicOr(&map.differing, differing);
    if (threadIdx.x < BINS && tops[threadIdx.x]) atomicAdd(map.tops + threadIdx.x, tops[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&map.sampled, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    if (threadIdx.x < BINS) atomicMax(&most, load_relaxed(map.tops + threadIdx.x));
    __syncthreads();
    if (threadIdx.x > 0) return;
    u32 digits = 0; // that are not the same for all, as far as is known
    for (u64 rest = load_relaxed(&map.differing); rest != 0; rest >>= DIGIT_BITS) digits += (rest & (BINS - 1)) != 0;
    bool by_bits = is_even(buckets, call.n, most);
    map.route = by_bits ? BY_BITS : BY_RANGE; // or by cells
    map.lower_bits = buckets.lower_bits;
    if (digits <= FEW_DIGITS) ((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large = 1;
}

// ---- few values ------------------------------------------------------------------------------------------------------------------

// A set of them in shared memory, until they are not few.
template <class Bits> struct FewValues {
    static constexpr u32 SLOTS = 2 * VALUES;
    u32 state[SLOTS]; // of a slot: free, taken, or its value is there
    Bits value[SLOTS];
    u32 count;

    // By the whole block.
    __device__ void clear() {
        for (u32 i = threadIdx.x; i < SLOTS; i += blockDim.x) state[i] = 0;
        if (threadIdx.x == 0) count = 0;
        __syncthreads();
    }
    __device__ bool are_few() const { return *(volatile const u32 *)&count < VALUES; }
    __device__ void add(Bits x) {
        for (u32 slot = u32(u64(x) * 0x9e3779b97f4a7c15ull >> 40) % SLOTS; are_few(); slot = (slot + 1) % SLOTS) {
            volatile u32 *now = state + slot;
            if (*now == 0 && atomicCAS(state + slot, 0, 1) == 0) {
                *(volatile Bits *)(value + slot) = x;
                __threadfence_block();
                *now = 2;
                atomicAdd(&count, 1);
                return;
            }
            while (*now != 2) {}
            __threadfence_block();
            if (*(volatile Bits *)(value + slot) == x) return;
        }
    }
    // Those that are few, in order. By the whole block, when all are in.
    __device__ void list(Bits *out) const {
        if (threadIdx.x >= SLOTS || state[threadIdx.x] == 0) return;
        u32 less = 0;
        for (u32 i = 0; i < SLOTS; i++) less += state[i] != 0 && value[i] < value[threadIdx.x];
        out[less] = value[threadIdx.x];
    }
};

// ---- map -------------------------------------------------------------------------------------------------------------------------

// Counts the sample; the block that comes last decides.
template <class Bits, u32 THREADS> __device__ void bucket_map(const SortCall &call, const BucketCall &buckets) {
    typedef BucketMap<Bits> Map;
    constexpr u32 CELLS = Map::CELLS, EACH = (CELLS + THREADS - 1) / THREADS;
    static_assert(THREADS >= BINS, "a thread for each bin");
    __shared__ u32 counts[2 * CELLS], shares[BINS];
    __shared__ u32 most[3];
    __shared__ u64 totals[THREADS / WARP];
    __shared__ bool last;
    Map &map = *(Map *)buckets.map;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (plan.too_large || map.route == BY_BITS) return;
    __shared__ FewValues<Bits> few;
    static_assert(THREADS >= few.SLOTS, "a thread for each slot");
    few.clear();
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < buckets.sampled && few.are_few(); i += gridDim.x * THREADS)
        few.add(((const Bits *)buckets.sample)[i]);
    __syncthreads();
    if (few.are_few()) few.list(map.of_part[blockIdx.x]);
    if (threadIdx.x == 0) map.seen[blockIdx.x] = few.count;
    Cells<Bits> ends[2] = {Cells<Bits>(map.extremes, false), Cells<Bits>(map.extremes, true)};
    Share<Bits> share(map.extremes);
    bool is_wide = share.range() >> 20 != 0;
    share.factor = is_wide ? share.factor_for(BINS) : 0;
    for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS) counts[i] = 0;
    if (threadIdx.x < BINS) shares[threadIdx.x] = 0;
    __syncthreads();
    for (u32 i = blockIdx.x * THREADS + threadIdx.x; i < buckets.sampled; i += gridDim.x * THREADS) {
        Bits key = ((const Bits *)buckets.sample)[i];
        atomicAdd(shares + share(key), 1);
#pragma unroll
        for (u32 c = 0; c < 2; c++) atomicAdd(counts + c * CELLS + ends[c].cell(ends[c](key)), 1);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS)
        if (counts[i]) atomicAdd(map.samples[0] + i, counts[i]);
    if (threadIdx.x < BINS && shares[threadIdx.x]) atomicAdd(map.shares + threadIdx.x, shares[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&map.mapped, 1) == gridDim.x - 1;
    if (threadIdx.x < 3) most[threadIdx.x] = 0;
    __syncthreads();
    if (!last) return;

    // ---- which way
    few.clear();
    for (u32 b = 0; b < gridDim.x; b++) {
        u32 seen = *(volatile u32 *)(map.seen + b);
        if (seen >= VALUES) {
            if (threadIdx.x == 0) few.count = VALUES;
        } else if (threadIdx.x < seen) {
            few.add(*(volatile Bits *)(map.of_part[b] + threadIdx.x));
        }
    }
    __syncthreads();
    if (few.are_few()) {
        if (threadIdx.x < VALUES) map.values[threadIdx.x] = Bits(~Bits(0));
        if (threadIdx.x < BINS / 32) map.single[threadIdx.x] = 0xaaaaaaaa; // each value's, and the greatest of all keys'
        __syncthreads();
        few.list(map.values);
        if (threadIdx.x == 0) {
            map.route = BY_VALUES;
            map.lower_bits = 0;
        }
        return;
    }
    for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS) {
        counts[i] = load_relaxed(map.samples[0] + i);
        u32 most_here = warp_max(counts[i]); // of one end's
        if (lane_id() == 0) atomicMax(most + i / CELLS, most_here);
    }
    if (threadIdx.x < BINS) atomicMax(most + 2, load_relaxed(map.shares + threadIdx.x));
    __syncthreads();
    if (is_wide && is_even(buckets, call.n, most[2])) {
        if (threadIdx.x == 0) {
            map.lower_bits = buckets.lower_bits;
            map.factor = share.factor_for(BINS << buckets.lower_bits);
        }
        return;
    }
    u32 best = most[1] < most[0];
    Cells<Bits> way = ends[best];

    // ---- how many buckets a cell has. Of few keys: some cells a bucket, of which `weight` says how much of it they are. Of many: so many of
    // its own, the first of them a new one.
    constexpr u32 ONE = 1 << 16, MOST_OWN = 1u << (PART_BITS - 1);
    float scale = float(call.n) / (float(buckets.sampled) * float(buckets.room) * 0.88f);
    auto weigh = [&](u32 cell) { // 1 or more: whole buckets
        float seen = float(counts[best * CELLS + cell]);
        return (seen + 2.5f * sqrtf(seen)) * scale; // seldom more than what was seen
    };
    auto own_buckets = [&](u32 cell, float weight) { return min(u32(ceilf(weight)), min(MOST_OWN, 1u << min(way.width_bits(cell), 31u))); };
    auto is_few = [&](float weight) { return weight < 0.25f; };
    u64 sum = 0; // whole ones in the upper half, parts of some in the lower
    u32 begin = threadIdx.x * EACH;
    float earlier = begin > 0 && begin < CELLS ? weigh(begin - 1) : 0;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        if (begin + e >= CELLS) break;
        float weight = weigh(begin + e);
        sum += is_few(weight) ? u64(weight * ONE) : u64(own_buckets(begin + e, weight) + is_few(earlier)) << 32;
        earlier = weight;
    }
    u64 upto = sum;
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u64 before = shuffle_up(upto, distance);
        if (lane_id() >= distance) upto += before;
    }
    if (lane_id() == WARP - 1) totals[warp_id()] = upto;
    __syncthreads();
    u64 before = upto - sum, all = 0;
    for (u32 w = 0; w < THREADS / WARP; w++) {
        if (w < warp_id()) before += totals[w];
        all += totals[w];
    }
    u32 needed = u32(all >> 32) + u32(all) / ONE + 1;
    u32 lower_bits = needed <= BINS << buckets.lower_bits ? buckets.lower_bits : buckets.most_lower_bits;
    bool fits = needed <= BINS << lower_bits;
    if (threadIdx.x == 0) {
        map.route = BY_CELLS;
        map.lower_bits = lower_bits;
        map.from_greatest = best;
        if (!fits) plan.too_large = 1;
    }
    if (!fits) return;
    u32 turn = best ? (BINS << lower_bits) - 1 : 0;
    // Keys that the sample has not seen are at zero, or in cells of none.
    earlier = begin > 0 && begin < CELLS ? weigh(begin - 1) : 0;
    u32 outside = way.distance.base > 0 ? 0 : CELLS;
    for (u32 e = 0; e < EACH; e++) {
        u32 cell = begin + e;
        if (cell >= CELLS) break;
        float weight = weigh(cell);
        u32 bucket = u32(before >> 32) + u32(before) / ONE, own = 1;
        if (is_few(weight)) before += u64(weight * ONE);
        else {
            own = own_buckets(cell, weight);
            bucket += is_few(earlier);
            before += u64(own + is_few(earlier)) << 32;
            if (own == 1u << min(way.width_bits(cell), 31u))
                for (u32 k = 0; k < own; k++) {
                    bool seen_all = cell != outside || k > 0;
                    u32 number = (bucket + k) ^ turn;
                    if (seen_all) atomicOr(map.single + number / 32, 1u << number % 32);
                }
        }
        map.cells[cell] = bucket << PART_BITS | own;
        earlier = weight;
    }
}

// ---- count and plan --------------------------------------------------------------------------------------------------------------

// Two counters of 16 bits to a word. Between two barriers a block counts at most 2^15 keys, and whoever finds that a counter
// gets to 2^15 takes that many away: no counter gets to 2^16.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_by(u32 *counters, const SortCall &call, const BucketCall &buckets, u32 lower_bits, Bucket bucket) {
    constexpr u32 UNROLL = sizeof(Bits) > 4 ? 16 : 32, FULL = 1 << 15;
    static_assert(THREADS * UNROLL <= FULL, "as many as a counter has room for");
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
                atomicAdd(buckets.tops + (bucket >> lower_bits), FULL);
            }
        };
        auto bucket_of = [&](u32 i) { return bucket(order.to(key[i])); };
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
    u32 words = (1u << lower_bits) / 2;
    for (u32 top = warp_id(); top < BINS; top += THREADS / WARP) {
        u32 sum = 0;
        for (u32 i = lane_id(); i < words; i += WARP) {
            u32 both = counters[top * words + i], low = both & 0xffff, high = both >> 16;
            // Both at once: neither sum gets past 32 bits.
            if (both) atomicAdd((u64 *)buckets.counts + top * words + i, u64(high) << 32 | low);
            sum += low + high;
        }
        sum = warp_add(sum);
        if (lane_id() == 0 && sum) atomicAdd(buckets.tops + top, sum);
    }
}

// A few buckets. Lanes side by side have counters of their own.
template <class Order, class Bits, u32 THREADS, class Bucket>
__device__ void bucket_count_few(const SortCall &call, const BucketCall &buckets, Bucket bucket) {
    constexpr u32 UNROLL = 8, COPIES = 8, STEP = THREADS * UNROLL;
    __shared__ u32 counters[BINS * COPIES];
    const Bits *keys = (const Bits *)call.keys_in;
    Order order{Bits(call.flip)};
    for (u32 i = threadIdx.x; i < BINS * COPIES; i += THREADS) counters[i] = 0;
    __syncthreads();
    u32 copy = threadIdx.x % COPIES;
    for (u64 first = u64(blockIdx.x) * STEP; first < call.n; first += u64(gridDim.x) * STEP) {
        bool whole = call.n - first >= STEP;
        Bits key[UNROLL];
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++) {
            u64 at = first + i * THREADS + threadIdx.x;
            key[i] = whole || at < call.n ? keys[at] : Bits(0);
        }
#pragma unroll
        for (u32 i = 0; i < UNROLL; i++)
            if (whole || first + i * THREADS + threadIdx.x < call.n) atomicAdd(counters + bucket(order.to(key[i])) * COPIES + copy, 1);
    }
    __syncthreads();
    if (threadIdx.x >= BINS) return;
    u32 sum = 0;
#pragma unroll
    for (u32 c = 0; c < COPIES; c++) sum += counters[threadIdx.x * COPIES + (c + threadIdx.x) % COPIES];
    if (sum == 0) return;
    atomicAdd(buckets.counts + threadIdx.x, sum);
    atomicAdd(buckets.tops + threadIdx.x, sum);
}

// A bucket for each key of two bytes.
template <class Order, class Bits, u32 THREADS> __device__ void key_count(u32 *counters, const SortCall &call, const BucketCall &buckets) {
    for (u32 i = threadIdx.x; i < BUCKETS / 2; i += THREADS) counters[i] = 0;
    __syncthreads();
    bucket_count_by<Order, Bits, THREADS>(counters, call, buckets, DIGIT_BITS, BucketByBits<Bits>(call, DIGIT_BITS));
}

// `shared` has the counters, and then a table of cells.
template <class Order, class Bits, u32 THREADS> __device__ void bucket_count(u32 *shared, const SortCall &call, const BucketCall &buckets) {
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    u32 lower_bits = map.lower_bits, words = BINS << lower_bits >> 1;
    for (u32 i = threadIdx.x; i < words; i += THREADS) shared[i] = 0;
    __syncthreads();
    if (map.route == BY_BITS) {
        bucket_count_by<Order, Bits, THREADS>(shared, call, buckets, lower_bits, BucketByBits<Bits>(call, lower_bits));
    } else if (map.route == BY_RANGE) {
        bucket_count_by<Order, Bits, THREADS>(shared, call, buckets, lower_bits, BucketByRange<Bits>(map));
    } else if (map.route == BY_VALUES) {
        Bits *table = (Bits *)shared;
        BucketByValues<Bits>::load(table, map);
        awaited();
        bucket_count_few<Order, Bits, THREADS>(call, buckets, BucketByValues<Bits>{table});
    } else {
        u32 *table = shared + words;
        BucketByCells<Bits>::load(table, map);
        awaited();
        bucket_count_by<Order, Bits, THREADS>(shared, call, buckets, lower_bits, BucketByCells<Bits>(map, table));
    }
}

// By a block for each first digit, of a thread for each second: where buckets begin. How many keys its bucket has.
__device__ inline u32 bucket_starts(const SortCall &call, const BucketCall &buckets, u32 lower_bits, u32 tile) {
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
    u32 in_top = 1u << lower_bits, bucket = top * in_top + d, count = d < in_top ? buckets.counts[bucket] : 0;
    u32 start = base + block_before<BINS>(count, totals);
    if (d < in_top) {
        buckets.starts[bucket] = start;
        if (buckets.cursors) buckets.cursors[bucket] = start;
    }
    if (d == 0) {
        if (buckets.top_cursors) buckets.top_cursors[top * TOP_APART] = base;
        buckets.tiles[top] = tiles;
    }
    if (top == BINS - 1 && d == BINS - 1) {
        buckets.starts[BINS * in_top] = u32(call.n);
        buckets.tiles[BINS] = tiles + (others + tile - 1) / tile;
    }
    return count;
}

// And whether all are small enough.
template <class Bits> __device__ void bucket_plan(const SortCall &call, const BucketCall &buckets, u32 tile) {
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    if (__syncthreads_or(plan.too_large)) return; // all threads, though another block may be about to say so
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    u32 count = bucket_starts(call, buckets, map.lower_bits, tile), bucket = (blockIdx.x << map.lower_bits) + threadIdx.x;
    if (count > buckets.room && !(map.single[bucket / 32] >> bucket % 32 & 1)) plan.too_large = 1;
}

// ---- to the buckets --------------------------------------------------------------------------------------------------------------

// Keys alone, whose order nobody sees: a tile's to places that `claim(digit, total)` gives.
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline void any_order_tile(Tile &t, D digit, const Load &load, const Put &put, const Claim &claim) {
    t.load(load);
    if (D::HAS_TABLE) awaited(); // came while the keys did
    t.rank(digit);
    u64 place = 0;
    t.scatter(
        [&](u32 d, u32 total) { place = total ? claim(d, total) : 0; }, [&](u32, u32) { return place; });
    t.store_runs(digit, put);
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ __noinline__ void any_order_last(typename Tile::Shared &s, u32 count, D digit, Load load, Put put, Claim claim) {
    Tile t(s, count);
    any_order_tile(t, digit, load, put, claim);
}
template <class Tile, class D, class Load, class Put, class Claim>
__device__ inline void any_order(typename Tile::Shared &s, u64 left, D digit, const Load &load, const Put &put, const Claim &claim) {
    if (left >= Tile::TILE) {
        typename Tile::Whole t(s, Tile::TILE);
        any_order_tile(t, digit, load, put, claim);
    } else {
        any_order_last<typename Tile::Part>(s, u32(left), digit, load, put, claim);
    }
}

// What is the same for all tiles of a step.
template <class Order, class Tile, class Bucket> struct BucketStep {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    const SortCall &call;
    const BucketCall &buckets;
    BucketMap<Bits> &map;
    Bucket bucket;
    u32 lower_bits;

    __device__ BucketStep(const SortCall &call, const BucketCall &buckets, Bucket bucket)
        : call(call), buckets(buckets), map(*(BucketMap<Bits> *)buckets.map), bucket(bucket), lower_bits(map.lower_bits) {}

    __device__ void first(typename Tile::Shared &s) const {
        BucketDigit<Bucket> digit{bucket, lower_bits, BINS - 1};
        Order order{Bits(call.flip)};
        constexpr bool ONE_STEP = Bucket::ONE_STEP;
        // To the output at once if there is one step, unless the input is there.
        u32 to = ONE_STEP && !call.in_place ? 0 : 1;
        typename If<ONE_STEP, PutInBucket<Order, Bits>, PutPlainly<Order, Bits>>::Type put{(Bits *)(to ? call.keys[1] : call.keys[0]), order};
        const u32 *starts = buckets.starts;
        u32 lower_bits = this->lower_bits, room = buckets.room;
        auto mark = [=](u32 d) { return ONE_STEP && starts[d + 1] - starts[d] > room ? DONE : 0; };
        if constexpr (!Tile::HAS_VALUES) {
            u64 at = u64(blockIdx.x) * Tile::TILE;
            const Bits *from = (const Bits *)call.keys_in + at;
            u32 *cursors = buckets.top_cursors;
            any_order<Tile>(
                s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put,
                [=](u32 d, u32 total) { return atomicAdd(cursors + d * TOP_APART, total) | mark(d); });
        } else {
            u32 tiles = u32((call.n + Tile::TILE - 1) / Tile::TILE);
            Value *values_out = (Value *)(to ? call.values[1] : call.values[0]);
            for (u32 tile; draw(s, 0, tiles, tile);) {
                u64 at = u64(tile) * Tile::TILE;
                const Bits *from = (const Bits *)call.keys_in + at;
                const Value *values = (const Value *)call.values_in;
                LookBackDigits chain{call.words[0] + u64(tile) * BINS, tile};
                stable_any<Tile>(
                    s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put, values ? values + at : nullptr, at, values_out,
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) { return (starts[d << lower_bits] + chain.template receive<1>(d, total)) | mark(d); });
            }
        }
    }

    // What one step has left beside an input that was in the way.
    __device__ void back() const {
        u64 threads = u64(gridDim.x) * Tile::THREADS, thread = u64(blockIdx.x) * Tile::THREADS + threadIdx.x;
        for (u64 i = thread; i < call.n; i += threads) ((Bits *)call.keys[0])[i] = ((const Bits *)call.keys[1])[i];
        if constexpr (Tile::HAS_VALUES)
            for (u64 i = thread; i < call.n; i += threads) ((Value *)call.values[0])[i] = ((const Value *)call.values[1])[i];
    }

    __device__ void second(typename Tile::Shared &s) const {
        BucketDigit<Bucket> digit{bucket, 0, (1u << lower_bits) - 1};
        typename Bucket::template Put<Order> put{(Bits *)call.keys[0], Order{Bits(call.flip)}};
        u32 tiles = buckets.tiles[BINS];
        u32 lower_bits = this->lower_bits, room = buckets.room;
        const u32 *starts = buckets.starts;
        auto mark = [=](u32 bucket) { return Bucket::SOME_LARGE && starts[bucket + 1] - starts[bucket] > room ? DONE : 0; };
        if constexpr (!Tile::HAS_VALUES) {
            if (blockIdx.x >= tiles) return;
            u32 top = top_of(s, blockIdx.x), begin = starts[top << lower_bits], end = starts[(top + 1) << lower_bits];
            u32 at = begin + (blockIdx.x - buckets.tiles[top]) * Tile::TILE;
            const Bits *from = (const Bits *)call.keys[1] + at;
            u32 *cursors = buckets.cursors;
            any_order<Tile>(
                s, end - at, digit, [=](u32 at) { return from[at]; }, put,
                [=](u32 d, u32 total) {
                    u32 bucket = (top << lower_bits) + d;
                    return atomicAdd(cursors + bucket, total) | mark(bucket);
                });
        } else {
            for (u32 tile; draw(s, 1, tiles, tile);) {
                u32 top = top_of(s, tile), begin = starts[top << lower_bits], end = starts[(top + 1) << lower_bits], number = tile - buckets.tiles[top];
                u32 at = begin + number * Tile::TILE;
                const Bits *from = (const Bits *)call.keys[1] + at;
                LookBackDigits chain{call.words[1] + u64(tile) * BINS, number};
                stable_any<Tile>(
                    s, end - at, digit, [=](u32 at) { return from[at]; }, put, (const Value *)call.values[1] + at, at, (Value *)call.values[0],
                    [=](u32 d, u32 total) { chain.publish(d, total); },
                    [=](u32 d, u32 total) {
                        u32 earlier = chain.template receive<1>(d, total), bucket = (top << lower_bits) + d;
                        return d >> lower_bits ? 0 : (starts[bucket] + earlier) | mark(bucket);
                    });
            }
        }
    }

  private:
    // The next tile of a step, if there is one.
    __device__ bool draw(typename Tile::Shared &s, u32 step, u32 tiles, u32 &tile) const {
        __syncthreads();
        if (threadIdx.x == 0) s.tile = add_relaxed(map.tickets + step, 1);
        __syncthreads();
        tile = s.tile;
        return tile < tiles;
    }
    // The first digit that a tile of the second step has.
    __device__ u32 top_of(typename Tile::Shared &s, u32 tile) const {
        __syncthreads();
        if (threadIdx.x < BINS && buckets.tiles[threadIdx.x] <= tile && tile < buckets.tiles[threadIdx.x + 1]) s.tile = threadIdx.x;
        __syncthreads();
        return s.tile;
    }
};

// `shared` has the tile, and then a table of cells.
template <class Order, class Tile, bool FIRST> __device__ void bucket_step(Vector *shared, const SortCall &call, const BucketCall &buckets) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shared Shared;
    if (((SortPlan<sizeof(Bits) + 1> *)call.plan)->too_large) return;
    const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
    Shared &s = *(Shared *)shared;
    Vector *rest = shared + (sizeof(Shared) + sizeof(Vector) - 1) / sizeof(Vector);
    if (map.route == BY_BITS) {
        BucketStep<Order, Tile, BucketByBits<Bits>> step(call, buckets, BucketByBits<Bits>(call, map.lower_bits));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.route == BY_RANGE) {
        BucketStep<Order, Tile, BucketByRange<Bits>> step(call, buckets, BucketByRange<Bits>(map));
        if (FIRST) step.first(s);
        else step.second(s);
    } else if (map.route == BY_VALUES) {
        if (!FIRST && !call.in_place) return;
        Bits *table = (Bits *)rest;
        BucketByValues<Bits>::load(table, map);
        if (Tile::HAS_VALUES) awaited();
        BucketStep<Order, Tile, BucketByValues<Bits>> step(call, buckets, BucketByValues<Bits>{table});
        if (FIRST) step.first(s);
        else step.back();
    } else {
        u32 *table = (u32 *)rest;
        BucketByCells<Bits>::load(table, map);
        if (Tile::HAS_VALUES) awaited();
        BucketStep<Order, Tile, BucketByCells<Bits>> step(call, buckets, BucketByCells<Bits>(map, table));
        if (FIRST) step.first(s);
        else step.second(s);
    }
}

// ---- by one step -----------------------------------------------------------------------------------------------------------------

struct SlotCall {
    u32 *counts; // by bucket, zero before the sort: of keys that it has
    void *keys, *values; // `room` for each bucket, and then a tile's for what has no place
    u32 bits;    // of a bucket's number
    u32 room;
};

template <class Order, class Tile> __device__ void slot_first(typename Tile::Shared &s, const SortCall &call, const SlotCall &slots) {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    Order order{Bits(call.flip)};
    Digit digit{call.end - slots.bits, (1u << slots.bits) - 1};
    u32 *counts = slots.counts, room = slots.room, *too_large = &plan.too_large;
    u64 nowhere = u64(room) << slots.bits;
    auto place = [=](u32 d, u32 earlier, u32 total) { // or where nobody looks
        if (earlier + total <= room) return u64(d) * room + earlier;
        *too_large = 1;
        return nowhere;
    };
    PutPlainly<Order, Bits> put{(Bits *)slots.keys, order};
    if constexpr (!Tile::HAS_VALUES) {
        u64 at = u64(blockIdx.x) * Tile::TILE;
        const Bits *from = (const Bits *)call.keys_in + at;
        any_order<Tile>(
            s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put,
            [=](u32 d, u32 total) { return place(d, atomicAdd(counts + d, total), total); });
    } else {
        if (threadIdx.x == 0) s.tile = add_relaxed(&plan.ticket, 1);
        __syncthreads();
        u32 tile = s.tile;
        bool is_last = tile == gridDim.x - 1;
        if (is_last && threadIdx.x == 0) plan.ticket = 0; // for the passes
        u64 at = u64(tile) * Tile::TILE;
        const Bits *from = (const Bits *)call.keys_in + at;
        const Value *values = (const Value *)call.values_in;
        LookBackDigits chain{call.words[1] + u64(tile) * BINS, tile};
        stable_any<Tile>(
            s, call.n - at, digit, [=](u32 at) { return order.to(from[at]); }, put, values ? values + at : nullptr, at, (Value *)slots.values,
            [=](u32 d, u32 total) { chain.publish(d, total); },
            [=](u32 d, u32 total) {
                u32 earlier = chain.template receive<8>(d, total);
                if (is_last) counts[d] = earlier + total;
                return place(d, earlier, total);
            });
    }
}

// ---- sort ------------------------------------------------------------------------------------------------------------------------
// A bucket in one block, by one of three ways.
//
// - Keys alone of which few bits are left: each key that there could be is counted, and the counts tell all places.
// - Each key to a bin by its next bits, about as many bins as keys; then a thread puts the keys of a few bins in order.
// - Where keys are so much alike that these do not tell them apart: digit by digit.

// What is put in order: keys, or where something goes with them, the last bits of a key and where in the bucket it was.
template <class Bits, bool HAS_VALUES> struct Ordered { typedef Bits Type; };
template <> struct Ordered<u32, true> { typedef u32 Type; };
template <> struct Ordered<u64, true> { typedef u64 Type; };

template <class Order, class Tile, u32 LOG_BINS> struct BucketSort {
    typedef typename Tile::Shape::Bits Bits;
    typedef typename Tile::Shape::Value Value;
    typedef typename Ordered<Bits, Tile::HAS_VALUES>::Type Item;
    static constexpr bool HAS_VALUES = Tile::HAS_VALUES;
    static constexpr u32 THREADS = Tile::THREADS, ITEMS = Tile::ITEMS, WARPS = THREADS / WARP, FINE = 1 << LOG_BINS, EACH = FINE / THREADS;
    static constexpr u32 WIDTH = 8 * sizeof(Bits), PLACE_BITS = HAS_VALUES ? 13 : 0;
    static constexpr u32 RUN = 16;     // items that a thread puts in order in its registers
    static constexpr u32 LONGEST = 48; // and in shared memory
    static_assert(EACH == 8 && Tile::TILE <= 1 << 13, "whole vectors of bins, and a place for each item");
    static constexpr u32 MOST_BITS = 8 * sizeof(Item) - PLACE_BITS + LOG_BINS - 4; // of which an item tells those of a thread's bins apart
    static constexpr u32 COUNTED = 16, FIELDS = 8, WORDS = (1 << COUNTED) / FIELDS, WORDS_EACH = WORDS / THREADS;
    static constexpr bool FEW_BITS = !HAS_VALUES && sizeof(Bits) <= 4;
    struct Fine {
        alignas(16) Item items[Tile::TILE];
        alignas(16) u32 bins[FEW_BITS && WORDS > FINE ? WORDS : FINE];
        u32 totals[WARPS];
        Bits ends[3 * WARPS];
        Bits keys[HAS_VALUES ? Tile::TILE : 1];
        Value values[HAS_VALUES ? Tile::TILE : 1];
    };
    union Shared {
        typename Tile::Shared tile;
        Fine fine;
        __device__ Shared() {}
    };
    // Keys are the least of them and a number up to `most`, of so many bits, with `zeros` zeros more at the end.
    struct Span {
        Bits least, most;
        u32 bits, zeros;
        __device__ Span(Bits least, Bits most, u32 bits, u32 zeros) : least(least), most(most), bits(bits), zeros(zeros) {}
        // Those of a number's bucket, of whose keys so many bits are left.
        __device__ Span(u32 bucket, u32 bits) : Span(bits < WIDTH ? Bits(Bits(bucket) << bits) : 0, Bits(~Bits(0)) >> (WIDTH - bits), bits, 0) {}
        __device__ Bits operator()(Bits key) const { return Bits(key - least) >> zeros; }
    };

    // The buckets of the block's number and on.
    static __device__ void run_buckets(Shared &shared, const SortCall &call, const BucketCall &buckets) {
        const BucketMap<Bits> &map = *(const BucketMap<Bits> *)buckets.map;
        bool by_bits = map.route == BY_BITS;
        u32 bits = call.end - DIGIT_BITS - map.lower_bits, all = BINS << map.lower_bits;
        for (u32 bucket = blockIdx.x; bucket < all; bucket += gridDim.x) {
            u32 first = buckets.starts[bucket], count = buckets.starts[bucket + 1] - first;
            if (count == 0 || count > buckets.room) continue; // a larger one is done
            Bits *keys = (Bits *)call.keys[0] + first;
            Tile t(shared.tile, count);
            t.load([=](u32 at) { return keys[at]; });
            __syncthreads(); // the bucket before is out
            Value *values = (Value *)call.values[0] + first;
            run(shared, t, call, call.no_keys ? nullptr : keys, values, values, by_bits ? Span(bucket, bits) : span(shared, t));
        }
    }

    // The bucket of the block's number, from its place in scratch memory.
    static __device__ void run_slot(Shared &shared, const SortCall &call, const SlotCall &slots) {
        __shared__ u32 before[BINS / WARP];
        u32 bucket = blockIdx.x, d = threadIdx.x;
        if (d < BINS) {
            u32 earlier = warp_add(d < bucket ? slots.counts[d] : 0);
            if (lane_id() == 0) before[warp_id()] = earlier;
        }
        u32 count = slots.counts[bucket], first = 0, bits = call.end - slots.bits;
        const Bits *keys = (const Bits *)slots.keys + u64(bucket) * slots.room;
        Tile t(shared.tile, count);
        t.load([=](u32 at) { return keys[at]; });
        __syncthreads();
        for (u32 w = 0; w < BINS / WARP; w++) first += before[w];
        if (count == 0) return;
        const Value *values = (const Value *)slots.values + u64(bucket) * slots.room;
        run(shared, t, call, call.no_keys ? nullptr : (Bits *)call.keys[0] + first, values, (Value *)call.values[0] + first, Span(bucket, bits));
    }

    // As many keys as a block holds, from anywhere.
    static __device__ void run_one(Shared &shared, const SortCall &call) {
        Order order{Bits(call.flip)};
        const Bits *from = (const Bits *)call.keys_in;
        Tile t(shared.tile, u32(call.n));
        t.load([=](u32 at) { return order.to(from[at]); });
        run(shared, t, call, (Bits *)call.keys[0], nullptr, nullptr, Span(0, call.end));
    }

  private:
    static __device__ Span span(Shared &shared, const Tile &t) {
        Fine &s = shared.fine;
        if (threadIdx.x == 0) s.keys[0] = t.key[0]; // any of them
        __syncthreads();
        Bits one = s.keys[0], turned = 0, greatest = 0, differing = 0; // turned: the least, all bits
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                turned = max(turned, Bits(~t.key[i]));
                greatest = max(greatest, t.key[i]);
                differing |= t.key[i] ^ one;
            }
        turned = warp_max(turned);
        greatest = warp_max(greatest);
        differing = warp_or(differing);
        if (lane_id() == 0) {
            s.ends[warp_id()] = turned;
            s.ends[WARPS + warp_id()] = greatest;
            s.ends[2 * WARPS + warp_id()] = differing;
        }
        __syncthreads();
        static_assert(WARP % WARPS == 0, "a warp looks at all");
        turned = warp_max(s.ends[lane_id() % WARPS]);
        greatest = warp_max(s.ends[WARPS + lane_id() % WARPS]);
        differing = warp_or(s.ends[2 * WARPS + lane_id() % WARPS]);
        Bits least = Bits(~turned);
        if (differing == 0) return Span(least, 0, 0, 0);
        u32 zeros = WIDTH == 64 ? __ffsll((long long)differing) - 1 : __ffs(int(differing)) - 1; // of all differences
        Bits most = Bits(greatest - least) >> zeros;
        return Span(least, most, WIDTH - (WIDTH == 64 ? __clzll((long long)most) : __clz(int(most))), zeros);
    }

    // Keys to `out`, if anybody wants them; values from `values` to `values_out`, which may be the same.
    static __device__ void run(Shared &shared, Tile &t, const SortCall &call, Bits *out, const Value *values, Value *values_out, Span span) {
        Order order{Bits(call.flip)};
        Fine &s = shared.fine;
        u32 count = t.count, bits = span.bits;
        if constexpr (FEW_BITS)
            if (bits <= COUNTED) {
                if (place_by_counts(s, t, span)) {
                    write(s, order, out, values_out, count);
                    return;
                }
                span = BucketSort::span(shared, t); // many are equal
                bits = span.bits;
            }
        if (bits == 0) { // all are equal
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) {
                    if (!HAS_VALUES || out) out[t.at(i)] = order.from(t.key[i]);
                    if constexpr (HAS_VALUES)
                        if (values != values_out) values_out[t.at(i)] = values[t.at(i)];
                }
            return;
        }
        // All bins are used, whatever the span is. Where few bits are left, where an item was tells more: of two that are equal the earlier one
        // comes first.
        bool by_place = HAS_VALUES && bits <= LOG_BINS, in_order = !HAS_VALUES && bits <= LOG_BINS; // then keys of a bin are equal
        u32 beyond = bits > 32 ? bits - 32 : 0, most = by_place ? u32(span.most) << PLACE_BITS | ((1u << PLACE_BITS) - 1) : u32(span.most >> beyond);
        u32 factor = __float2uint_rz(__fdividef(float(1ull << 32) * float(FINE) * 0.999999f, __uint2float_rz(most))); // a little less than it might be
        u32 share = HAS_VALUES ? (1u << 31) / count >> (31 - PLACE_BITS - 16) : 0; // of all places, times 2^16
        auto bin_of = [&](u32 i) {
            Bits rest = span(t.key[i]);
            if (in_order) return u32(rest);
            return __umulhi(by_place ? u32(rest) << PLACE_BITS | t.at(i) * share >> 16 : u32(rest >> beyond), factor);
        };
        u16 rank[ITEMS];
        uint4 *vectors = (uint4 *)s.bins;
        for (u32 i = threadIdx.x; i < FINE / 4; i += THREADS) vectors[i] = make_uint4(0, 0, 0, 0);
        if constexpr (HAS_VALUES)
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) copy_item_to_shared(s.values + t.at(i), values + t.at(i));
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) rank[i] = u16(atomicAdd(s.bins + bin_of(i), 1));
        __syncthreads();
        u32 bin[EACH], sum = 0, of_one = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4) {
            uint4 v = vectors[(threadIdx.x * EACH + e) / 4];
            bin[e] = v.x, bin[e + 1] = v.y, bin[e + 2] = v.z, bin[e + 3] = v.w;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            of_one = max(of_one, bin[e]);
            u32 own = bin[e];
            bin[e] = sum;
            sum += own;
        }
        u32 upto = warp_upto(sum);
        if (lane_id() == WARP - 1) s.totals[warp_id()] = upto;
        // Whether a thread would have too many: then digits, which is slower and does not mind.
        if (__syncthreads_or(sum > LONGEST && !in_order) || bits > MOST_BITS) {
            by_digits(t, order, out, values, values_out, span);
            return;
        }
        u32 begin = upto - sum;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++)
            if (w < warp_id()) begin += s.totals[w];
#pragma unroll
        for (u32 e = 0; e < EACH; e += 4)
            vectors[(threadIdx.x * EACH + e) / 4] = make_uint4(begin + bin[e], begin + bin[e + 1], begin + bin[e + 2], begin + bin[e + 3]);
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 place = s.bins[bin_of(i)] + rank[i];
                if constexpr (HAS_VALUES) {
                    s.keys[t.at(i)] = t.key[i];
                    s.items[place] = Item(span(t.key[i])) << PLACE_BITS | t.at(i);
                } else {
                    s.items[place] = t.key[i];
                }
            }
        __syncthreads();

        // Items are at most as far from their places as their bin is long.
        u32 longest = warp_max(of_one);
        if (!in_order && longest > 1) {
            // What a thread's items have at least, so that the bits that they hold do not run over.
            u64 least = u64(threadIdx.x * EACH) * most >> LOG_BINS;
            Item base = HAS_VALUES ? Item(by_place ? least >> PLACE_BITS : least << beyond) << PLACE_BITS : 0;
            if (sum <= RUN) {
                Item item[RUN];
#pragma unroll
                for (u32 j = 0; j < RUN; j++) item[j] = j < sum ? s.items[begin + j] - base : Item(~Item(0));
                for (u32 step = 0; step < longest; step += 2) {
#pragma unroll
                    for (u32 j = 0; j + 1 < RUN; j += 2) order_two(item[j], item[j + 1]);
#pragma unroll
                    for (u32 j = 1; j + 1 < RUN; j += 2) order_two(item[j], item[j + 1]);
                }
#pragma unroll
                for (u32 j = 0; j < RUN; j++)
                    if (j < sum) s.items[begin + j] = item[j];
            } else {
                for (u32 j = begin + 1; j < begin + sum; j++) {
                    Item item = s.items[j] - base;
                    u32 hole = j;
                    for (; hole > begin && s.items[hole - 1] - base > item; hole--) s.items[hole] = s.items[hole - 1];
                    s.items[hole] = item + base;
                }
            }
        }
        if (HAS_VALUES) wait_for_copies();
        __syncthreads();
        write(s, order, out, values_out, count);
    }

    static __device__ void by_digits(Tile &t, Order order, Bits *out, const Value *values, Value *values_out, Span span) {
        Value value[HAS_VALUES ? ITEMS : 1];
        if constexpr (HAS_VALUES) {
            wait_for_copies();
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (t.is_there(i)) value[i] = values[t.at(i)];
            __syncthreads(); // all are read, and copied
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) t.key[i] = span(t.key[i]);
        sort_digits(t, value, 0, span.bits);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                if (!HAS_VALUES || out) out[t.at(i)] = order.from(Bits(Bits(t.key[i] << span.zeros) + span.least));
                if constexpr (HAS_VALUES) values_out[t.at(i)] = value[i];
            }
    }

    static __device__ void write(const Fine &s, Order order, Bits *out, Value *values, u32 count) {
        for (u32 j = threadIdx.x; j < count; j += THREADS) {
            Item item = s.items[j];
            if constexpr (HAS_VALUES) {
                u32 at = u32(item) & ((1u << PLACE_BITS) - 1);
                if (out) out[j] = order.from(s.keys[at]);
                values[j] = s.values[at];
            } else {
                out[j] = order.from(item);
            }
        }
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
    static __device__ bool place_by_counts(Fine &s, Tile &t, Span span) {
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < WORDS / 4; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        __syncthreads();
        bool full = false;
        u16 rank[ITEMS];
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) {
                u32 low = u32(span(t.key[i])), field = low % FIELDS * 2;
                u32 before = atomicAdd(s.bins + word_of(low / FIELDS), 1u << field) >> field & 3;
                // Past three the field runs over, and nothing that is counted is used.
                full |= before == 3;
                rank[i] = u16(before);
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
                u32 low = u32(span(t.key[i])), word = s.bins[word_of(low / FIELDS)];
                s.items[(word >> 16) + counted(word & ((1u << low % FIELDS * 2) - 1)) + rank[i]] = t.key[i];
            }
        __syncthreads();
        return true;
    }

    static __device__ void order_two(Item &a, Item &b) {
        Item low = min(a, b), high = max(a, b);
        a = low;
        b = high;
    }
};
