// How keys go to buckets: the maps, and the kernels that choose one by a sample of the keys.
#pragma once
#include "sort.cuh"

// ---- how keys go to buckets ------------------------------------------------------------------------------------------------------
// By their first bits, where keys are spread evenly over all that there could be. By their share of the way from the least to the
// greatest, where they are spread evenly between these. Where the sample has few values, each of them has a bucket, and so has what lies
// between two. Else by cells: intervals of keys that get wider as the numbers of a float do, from both ends to the middle or from the
// middle of all keys to both ends, each with as many buckets of one width as its share of the sample asks for.

enum Route : u32 { BY_BITS, BY_RANGE, BY_VALUES, BY_CELLS };
constexpr u32 FEW_DIGITS = 2; // that so many passes take less time than buckets do

constexpr u32 BUCKETS = 1 << 16; // at most
constexpr u32 MAP_BLOCKS = 32;   // of the kernel that makes the map, at most
constexpr u32 PART_BITS = 16;    // by which a key's place in its cell is known

// Keys of a first digit that lie side by side in cells of one width, each with as many buckets: what their second digit is without a table.
template <class Bits> struct Line {
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    typedef typename If<WIDTH == 64, long long, int>::Type Signed;
    Bits from;
    u32 shift, step, first; // step 0: there is none
    __device__ u32 digit(Bits key) const { return (first + step * u32(Signed(key - from) >> shift)) >> PART_BITS; }
};

// Keys one after the other that have one bucket after the other, about the most frequent of them. When they are counted it is known what the output has
// there: alone, they need not be moved.
template <class Bits> struct Singles {
    Bits from;
    u32 keys, bucket; // how many keys there can be, and the bucket of the first
    u32 most_moved;   // if no more than so many are there, they are moved as the others are
    u32 begin, end;   // where they lie, when all keys are counted
    __device__ bool has(Bits key) const { return Bits(key - from) < keys; }
    // Those that are not moved, or none.
    __device__ Singles staying() const {
        Singles all = *this;
        if (end - begin <= most_moved) all.keys = 0;
        return all;
    }
};

template <class Bits> struct BucketMap { // zero before the sort
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    static constexpr u32 FINE_BITS = WIDTH == 32 ? 5 : 4; // cells get wider every so many
    static constexpr u32 SIDE = (WIDTH + 1) << FINE_BITS, CELLS = 2 * SIDE, LOG_CELLS = 12;
    static_assert(CELLS <= 1 << LOG_CELLS, "bits of a cell's number");

    u64 extremes[2];       // of the sample: the least key, turned over, and the greatest
    u64 differing;         // bits that are not the same in all of it
    u32 tops[BINS];        // how many of it, by the first digit
    u32 shares[BINS];      // by parts of the range
    u32 samples[2][CELLS]; // and by cell, of either way
    u32 sampled, mapped;   // blocks that are done with it
    u32 tickets[2];        // tiles of the steps
    u32 single[BUCKETS / 32]; // a bit for each bucket that has only one key, however often

    Route route;
    u32 lower_bits; // of a bucket's number
    u32 factor;
    Bits above, below, middle; // `Cells`
    union {
        // By cell. In the lower half its step: how many buckets it has, if more than one, or minus so many where keys fall with their place. In
        // the upper one the bucket at its beginning, less the step times its `number`. A key's is the entry and the step times its place.
        alignas(16) u32 cells[CELLS];
        Bits values[VALUES];          // in order, the last of them and those that are not there the greatest of all
    };
    Line<Bits> lines[BINS];
    Singles<Bits> singles;
    u32 seen[MAP_BLOCKS]; // values in the part of the sample that a block has; and these, if they are few
    Bits of_part[MAP_BLOCKS][VALUES];
};

// A key's share of the way between both, of so many in all.
template <class Bits> struct Share {
    static constexpr u32 WIDTH = 8 * sizeof(Bits);
    Bits base, most;
    u32 shift, factor;
    // Of all that there could be: by its first bits, where `all` is a power of two.
    static __device__ Share whole(u32 all) {
        constexpr u64 ENDS[2] = {Bits(~Bits(0)), Bits(~Bits(0))};
        Share share(ENDS);
        share.factor = all;
        return share;
    }
    __device__ explicit Share(const u64 (&extremes)[2]) {
        Bits least = Bits(~extremes[0]);
        base = least > 0 ? least - 1 : 0; // keys beyond an end, which the sample has not seen, are next to it
        most = Bits(extremes[1]) - base;
        if (Bits(most + 1) != 0) most++;
        shift = WIDTH == 64 ? u32(max(32 - __clzll((long long)most), 0)) : 0;
    }
    __device__ u32 range() const { return u32(most >> shift); }
    // For keys between ends that are far apart.
    __device__ u32 factor_for(u32 all) const { return u32((u64(all) << 32) / (u64(range()) + 1)); }
    __device__ u32 operator()(Bits key) const { return __umulhi(u32(min(Bits(max(key, base) - base), most) >> shift), factor); }
};

// A key's cell: cells get wider on both sides, of upper keys and of lower ones. Inward: from the ends of the sample to the middle between them.
// Outward: from the middle of all that there could be. Keys beyond the ends, which the sample has not seen, are in cells that no others have.
template <class Bits> struct Cells {
    static constexpr u32 WIDTH = 8 * sizeof(Bits), FINE_BITS = BucketMap<Bits>::FINE_BITS, SIDE = BucketMap<Bits>::SIDE;
    // Cells are numbered by the exponents of floats: those of lower keys first, for which a half, where they begin, is this one.
    static constexpr u32 FIRST_EXPONENT = 126 - (WIDTH + 1), FIRST = FIRST_EXPONENT << FINE_BITS;
    Bits above, below; // from which keys go up, and down
    Bits middle;

    static __device__ Cells outward() {
        constexpr Bits MIDDLE = Bits(1) << (WIDTH - 1);
        return {MIDDLE, MIDDLE, MIDDLE};
    }
    // `grain`: a power of two, of which ends are multiples, so that cells do not lie across the exponents of floats.
    static __device__ Cells inward(const u64 (&extremes)[2], Bits grain) {
        Bits least = Bits(~extremes[0]), greatest = Bits(extremes[1]);
        if (greatest - least >= 8 * grain) { // else they would be far from the keys
            least &= ~(grain - 1);
            greatest |= grain - 1;
        }
        if (least > 0) least--; // so that what is at zero has not been seen
        if (Bits(greatest + 1) != 0) greatest++;
        Bits span = greatest - least, half = span / 2 + span % 2; // both sides as wide: the upper end may be past all keys, and is zero then
        return {least, Bits(least + 2 * half), Bits(least + half)};
    }

    // Not by `below`: where the ends are those of all that there could be, it is past them and the same as `above`.
    __device__ bool is_inward() const { return above != middle; }
    __device__ bool is_upper(Bits key) const { return key >= middle; }
    // Its place, in so many parts of a cell.
    __device__ u32 operator()(Bits key) const { return place(min(Bits(key - above), Bits(below - key)), is_upper(key)); }
    static __device__ u32 cell(u32 at) { return (at >> PART_BITS) - FIRST; }
    // What stands above the part in the place of each of its keys.
    static __device__ u32 number(u32 cell) { return cell + FIRST; }
    // How much of its cell is between the middle and the place of an end.
    __device__ float filled(u32 at) const {
        constexpr float ALL = 1 << PART_BITS;
        u32 part = at % (1 << PART_BITS);
        return max((is_inward() ? ALL - float(part) : float(part + 1)) / ALL, 1.0f / 1024); // or one key that is alone would ask for many
    }
    // The first cell of keys beyond the ends, on either side, if there could be any.
    __device__ u32 beyond() const { return is_inward() && below != above ? cell(place(Bits(below - above), false)) : SIDE; }
    // The cells in the order of their keys, but for those beyond the ends.
    __device__ u32 nth(u32 i) const { return is_inward() == (i < SIDE) ? i : i < SIDE ? SIDE - 1 - i : SIDE + (2 * SIDE - 1 - i); }
    // Whether keys rise with the place in a cell.
    __device__ bool rises(u32 cell) const { return is_inward() == (cell < SIDE); }
    // How many keys a cell is wide, as a power of two.
    static __device__ u32 width_bits(u32 cell) {
        u32 bits = cell % SIDE >> FINE_BITS;
        return bits > FINE_BITS + 1 ? bits - (FINE_BITS + 1) : 0;
    }
    // Of cells narrower than a key, the one beside it that has a key.
    static __device__ u32 with_key(u32 cell) {
        u32 octave = cell % SIDE >> FINE_BITS, bits = octave > FINE_BITS ? 0 : octave > 0 ? FINE_BITS + 1 - octave : FINE_BITS; // so many have one
        return cell >> bits << bits | (octave > 0 ? (1u << bits) / 2 : 0);
    }
    // The least key of a cell, at most 2^16 wide, and of those after it.
    __device__ Bits least(u32 cell) const {
        auto first = [](u32 at) { // how far the first key is that is no nearer to where places begin than such a cell
            u32 fine = (1u << FINE_BITS) + at % (1u << FINE_BITS);
            return ((fine << (at >> FINE_BITS)) + (1u << FINE_BITS) - 1) >> (FINE_BITS + 1);
        };
        return rises(cell) ? Bits(above + first(cell % SIDE)) : Bits(below - (first(cell % SIDE + 1) - 1));
    }

    // The line of a cell, for keys of such a first digit: its entry of the table, with the place of a key by its bits and not as a float.
    __device__ Line<Bits> line(u32 cell, u32 entry, u32 first_bucket) const {
        constexpr u32 BITS = FINE_BITS + PART_BITS; // of a place, in keys from one power of two to the next
        u32 step = u32(lower_half(entry)), octave = cell % SIDE >> FINE_BITS; // from 2^(octave - 1) keys on
        u32 shift = octave > BITS + 1 ? octave - 1 - BITS : 0, scale = octave < BITS + 1 ? BITS + 1 - octave : 0;
        u32 half = scale > 0 ? 1u << (scale - 1) : 0;
        u32 first = entry + step * ((number(cell) >> FINE_BITS << BITS) - (1u << BITS) + half) - (first_bucket << PART_BITS);
        step <<= scale;
        // Of keys that fall, what is counted from above is its complement.
        return rises(cell) ? Line<Bits>{above, shift, step, first} : Line<Bits>{Bits(below + 1), shift, -step, first - step};
    }

  private:
    // Rounded to zero, so that it is the same by whole numbers.
    static __device__ u32 place(Bits x, bool is_upper) {
        constexpr float LOWER = 1.0f / (u64(1) << WIDTH / 2) / (u64(2) << WIDTH / 2);
        float place = __fadd_rz(WIDTH == 64 ? __ull2float_rz(x) : __uint2float_rz(u32(x)), 0.5f);
        if (!is_upper) place *= LOWER;
        return __float_as_uint(place) >> (23 - FINE_BITS - PART_BITS);
    }
};

// A key whose place is marked need not be sorted any more: then it is stored as what it was.
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
// Or it is known, and not stored.
template <class Order, class Bits> struct PutUndone {
    Bits *out;
    Order order;
    __device__ void operator()(u64 place, Bits key) const {
        if (!(place & DONE)) out[place] = key;
    }
};

// A table is in shared memory. By the whole block.
__device__ inline void awaited() {
    wait_for_copies();
    __syncthreads();
}

// The bucket of a key, and its number's digits: the upper one, and the lower.
// HAS_LARGE: those of a single key may be larger than a block's room. HAS_TABLE: it is in shared memory. ONE_STEP: there is no lower digit. IS_LINE: it is
// `BucketByLine`.
template <class Bits> struct BucketByBits {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINE = false;
    template <class Order> using Put = PutPlainly<Order, Bits>;
    u32 shift, mask;
    __device__ explicit BucketByBits(u32 lower_bits) : shift(8 * sizeof(Bits) - DIGIT_BITS - lower_bits), mask((1u << lower_bits) - 1) {}
    __device__ u32 operator()(Bits key) const { return u32(key >> shift); }
    __device__ u32 upper(Bits key) const { return u32(key >> (8 * sizeof(Bits) - DIGIT_BITS)); }
    __device__ u32 lower(Bits key) const { return u32(key >> shift) & mask; }
};
template <class Bits> struct BucketByRange {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINE = false;
    template <class Order> using Put = PutPlainly<Order, Bits>;
    Share<Bits> share;
    u32 lower_bits;
    __device__ explicit BucketByRange(const BucketMap<Bits> &map) : share(map.extremes), lower_bits(map.lower_bits) { share.factor = map.factor; }
    __device__ u32 operator()(Bits key) const { return share(key); }
    __device__ u32 upper(Bits key) const { return share(key) >> lower_bits; }
    __device__ u32 lower(Bits key) const { return share(key) & ((1u << lower_bits) - 1); }
};
// A few values are few places of the table, and neighbours in it: what `SplitterDigit` does against waiting takes longer here.
template <class Bits> struct BucketByValues {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = true, IS_LINE = false;
    template <class Order> using Put = PutInBucket<Order, Bits>;
    const Bits *values;
    __device__ u32 operator()(Bits key) const {
        u32 less = 0; // values
#pragma unroll
        for (u32 step = VALUES / 2; step > 0; step /= 2) less += values[less + step - 1] < key ? step : 0;
        return 2 * less + (values[less] == key);
    }
    __device__ u32 upper(Bits key) const { return (*this)(key); }
    static __device__ void load(Bits *table, const BucketMap<Bits> &map) {
        if (threadIdx.x < VALUES) table[threadIdx.x] = map.values[threadIdx.x];
    }
};
template <class Bits> struct BucketByCells {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = false, IS_LINE = false;
    template <class Order> using Put = PutInBucket<Order, Bits>;
    const u32 *table;
    Cells<Bits> cells;
    u32 lower_bits;
    __device__ BucketByCells(const BucketMap<Bits> &map, const u32 *table)
        : table(table), cells{map.above, map.below, map.middle}, lower_bits(map.lower_bits) {}
    __device__ u32 operator()(Bits key) const { return parts(key) >> PART_BITS; }
    __device__ u32 upper(Bits key) const { return parts(key) >> (PART_BITS + lower_bits); }
    __device__ u32 lower(Bits key) const { return parts(key) >> PART_BITS & ((1u << lower_bits) - 1); }
    // By the whole block, before it says that the table is `awaited`.
    static __device__ void load(u32 *table, const BucketMap<Bits> &map) {
        for (u32 i = threadIdx.x; i < BucketMap<Bits>::CELLS / 4; i += blockDim.x) copy_common_to_shared((Vector *)table + i, (const Vector *)map.cells + i);
    }

  private:
    // The bucket's number, and how far a key is in it. In a cell of 2^15 keys or more that rises the last part goes to the bucket behind the cell,
    // which is no single key's: cells on the way up get no narrower, and of those that wide none has a bucket for each key.
    __device__ u32 parts(Bits key) const {
        u32 at = cells(key), cell = table[cells.cell(at)];
        return cell + lower_half(cell) * at;
    }
};
// The upper digit alone, where single keys may stay.
template <class Bits> struct BucketBesideSingles : BucketByCells<Bits> {
    Singles<Bits> singles;
    __device__ BucketBesideSingles(const BucketMap<Bits> &map, const u32 *table) : BucketByCells<Bits>(map, table), singles(map.singles.staying()) {}
};
// The lower digit alone.
template <class Bits> struct BucketByLine {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINE = true;
    template <class Order> using Put = PutPlainly<Order, Bits>;
    Line<Bits> line;
    __device__ u32 lower(Bits key) const { return line.digit(key); }
};
// Waits for a table, and in any case until the block's counters are empty. It is always true, which the compiler does not know where keys go by a line:
// else it has all warps wait here for the first key of each.
template <class Bucket> __device__ inline bool await_table() {
    if (Bucket::IS_LINE) return !__syncthreads_or(false);
    if (Bucket::HAS_TABLE) awaited();
    else __syncthreads();
    return true;
}
template <class Bucket> struct UpperDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.upper(key); }
    template <class Bits> __device__ bool stays(Bits key) const { return bucket.singles.has(key); }
    __device__ bool await() const { return await_table<Bucket>(); }
};
template <class Bits> constexpr bool SOME_STAY<UpperDigit<BucketBesideSingles<Bits>>> = true;
template <class Bucket> struct LowerDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.lower(key); }
    __device__ bool await() const { return await_table<Bucket>(); }
};
// By values runs are long.
template <class Bucket> constexpr bool IS_MARKED<UpperDigit<Bucket>> = Bucket::HAS_TABLE && !Bucket::ONE_STEP;
template <class Bucket> constexpr bool IS_MARKED<LowerDigit<Bucket>> = Bucket::HAS_TABLE;
template <class Bucket> constexpr bool BY_ROWS<UpperDigit<Bucket>> = Bucket::ONE_STEP;
template <class Bucket> constexpr bool BY_ROWS<LowerDigit<Bucket>> = true;
// Whether keys are asked for when their digits' table is there, and not before.
template <class D> constexpr bool TABLE_FIRST = false;
template <class Bucket> constexpr bool TABLE_FIRST<UpperDigit<Bucket>> = IS_MARKED<UpperDigit<Bucket>>;
template <class Bucket> constexpr bool TABLE_FIRST<LowerDigit<Bucket>> = IS_MARKED<LowerDigit<Bucket>>;

// Where the tiles of the second step, and the keys, of a first digit begin.
struct Begin {
    u32 tile, key;
};

struct BucketCall {
    void *map;
    u32 *counts;      // of BUCKETS, zero before the sort
    u32 *tops;        // of BINS, zero before the sort: those of the first digit
    u32 *starts;      // BUCKETS + 1, zero before the sort
    u32 *cursors;     // BUCKETS: where the next key of each goes
    u32 *top_cursors; // BINS, each TOP_APART from the next
    Begin *begins;    // BINS + 1: of the first digits
    void *sample;
    u32 sampled;
    u32 lower_bits, most_lower_bits; // of a bucket's number: as a rule, and by cells if that does not do
    u32 room;         // keys that a block holds
    u32 at_once;      // so many blocks run at the same time, more or less
};
constexpr u32 TOP_APART = 32;

// Where the i-th key of a sample is: somewhere in its part of the input, so that no period is met.
__device__ inline u64 sampled_at(u32 i, u32 stride) {
    u32 mixed = (i ^ i >> 7) * 0x9e3779b1u;
    return u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32);
}

// ---- sample ----------------------------------------------------------------------------------------------------------------------

// Whether the fullest part of the sample, with `most` keys, leaves every bucket in its room. Three standard deviations more than fits are taken for chance.
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
        Bits key = order.to(keys[sampled_at(i, stride)]);
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
    static constexpr u32 SLOTS = 2 * VALUES, IN_VECTOR = sizeof(Vector) / sizeof(Bits);
    static constexpr Bits NONE = Bits(~Bits(0)); // in a slot that is free; the value that is the same has none
    alignas(16) Bits value[SLOTS];
    u32 has_greatest, count;

    // By the whole block.
    __device__ void clear() {
        for (u32 i = threadIdx.x; i < SLOTS; i += blockDim.x) value[i] = NONE;
        if (threadIdx.x == 0) has_greatest = count = 0;
        __syncthreads();
    }
    __device__ bool are_few() const { return *(volatile const u32 *)&count < VALUES; }
    __device__ void add(Bits x) {
        if (x == NONE) {
            if (*(volatile u32 *)&has_greatest == 0 && atomicExch(&has_greatest, 1) == 0) atomicAdd(&count, 1);
            return;
        }
        for (u32 slot = u32(u64(x) * 0x9e3779b97f4a7c15ull >> 40) % SLOTS; are_few(); slot = (slot + 1) % SLOTS) {
            Bits here = *(volatile Bits *)(value + slot);
            if (here == NONE) here = atomicCAS(value + slot, NONE, x);
            if (here == NONE) atomicAdd(&count, 1);
            if (here == NONE || here == x) return;
        }
    }
    // Those that are few, in order. By the whole block, when all are in.
    __device__ void list(Bits *out) const {
        if (threadIdx.x == 0 && has_greatest) out[count - 1] = NONE;
        if (threadIdx.x >= SLOTS || value[threadIdx.x] == NONE) return;
        u32 less = 0;
#pragma unroll 4
        for (u32 v = 0; v < SLOTS / IN_VECTOR; v++) {
            Bits others[IN_VECTOR];
            memcpy(others, (const Vector *)value + v, sizeof(Vector));
#pragma unroll
            for (u32 i = 0; i < IN_VECTOR; i++) less += others[i] < value[threadIdx.x];
        }
        out[less] = value[threadIdx.x];
    }
};

// ---- map -------------------------------------------------------------------------------------------------------------------------

// Counts the sample; the block that comes last decides. Loops stay loops: a line that runs once has to be loaded for that.
template <class Order, class Bits, u32 THREADS> __device__ void bucket_map(const SortCall &call, const BucketCall &buckets) {
    typedef BucketMap<Bits> Map;
    constexpr u32 CELLS = Map::CELLS, SIDE = Map::SIDE, EACH = (CELLS + THREADS - 1) / THREADS;
    static_assert(THREADS >= BINS, "a thread for each bin");
    __shared__ u32 counts[2 * CELLS], shares[BINS], needs[CELLS];
    __shared__ u32 most[3], seen[MAP_BLOCKS], frequent, run[2], run_bucket[2]; // of single keys
    __shared__ u64 totals[THREADS / WARP];
    __shared__ bool last;
    Map &map = *(Map *)buckets.map;
    SortPlan<sizeof(Bits) + 1> &plan = *(SortPlan<sizeof(Bits) + 1> *)call.plan;
    u64 ends_seen[2] = {map.extremes[0], map.extremes[1]}; // asked for together
    if (plan.too_large || map.route == BY_BITS) return;
    __shared__ FewValues<Bits> few;
    static_assert(THREADS >= few.SLOTS, "a thread for each slot");
    for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS) counts[i] = 0;
    if (threadIdx.x < BINS) shares[threadIdx.x] = 0;
    if (threadIdx.x < 3) most[threadIdx.x] = 0;
    if (threadIdx.x == 0) frequent = 0;
    few.clear();
    Cells<Bits> ways[2] = {Cells<Bits>::inward(ends_seen, Order::GRAIN), Cells<Bits>::outward()};
    Share<Bits> share(ends_seen);
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
        for (u32 w = 0; w < 2; w++) atomicAdd(counts + w * CELLS + ways[w].cell(ways[w](key)), 1);
        if (few.are_few()) few.add(key);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 2 * CELLS; i += THREADS)
        if (counts[i]) atomicAdd(map.samples[0] + i, counts[i]);
    if (threadIdx.x < BINS && shares[threadIdx.x]) atomicAdd(map.shares + threadIdx.x, shares[threadIdx.x]);
    if (few.are_few()) few.list(map.of_part[blockIdx.x]);
    if (threadIdx.x == 0) map.seen[blockIdx.x] = few.count;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = add_acquire_release(&map.mapped, 1) == gridDim.x - 1;
    few.clear(); // and all know whether the block comes last
    if (!last) return;

    // ---- which way
    constexpr u32 LOADS = (2 * CELLS + THREADS - 1) / THREADS;
    u32 samples[LOADS]; // all are asked for before one is needed
#pragma unroll
    for (u32 k = 0; k < LOADS; k++) {
        u32 i = k * THREADS + threadIdx.x;
        samples[k] = i < 2 * CELLS ? load_relaxed(map.samples[0] + i) : 0;
    }
    u32 of_range = threadIdx.x < BINS ? load_relaxed(map.shares + threadIdx.x) : 0;
    if (threadIdx.x < gridDim.x) {
        seen[threadIdx.x] = load_relaxed(map.seen + threadIdx.x);
        if (seen[threadIdx.x] >= VALUES) few.count = VALUES;
    }
    __syncthreads();
    constexpr u32 OF_PARTS = MAP_BLOCKS * VALUES / THREADS;
    if (few.are_few()) {
        Bits value[OF_PARTS];
        auto part = [](u32 k) { return (k * THREADS + threadIdx.x) / VALUES; };
        auto is_there = [&](u32 k) { return part(k) < gridDim.x && threadIdx.x % VALUES < seen[part(k)]; };
        static_assert(THREADS % VALUES == 0, "a thread has the same place in all of its parts");
#pragma unroll
        for (u32 k = 0; k < OF_PARTS; k++)
            if (is_there(k)) value[k] = *(volatile Bits *)(map.of_part[part(k)] + threadIdx.x % VALUES);
#pragma unroll
        for (u32 k = 0; k < OF_PARTS; k++)
            if (is_there(k)) few.add(value[k]);
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
    u32 most_here[3] = {0, 0, of_range}; // of each way, and of the range
#pragma unroll
    for (u32 k = 0; k < LOADS; k++) {
        u32 i = k * THREADS + threadIdx.x;
        if (i < 2 * CELLS) counts[i] = samples[k];
        if (i < CELLS) most_here[0] = max(most_here[0], samples[k]);
        else most_here[1] = max(most_here[1], samples[k]);
    }
#pragma unroll
    for (u32 w = 0; w < 3; w++) {
        most_here[w] = warp_max(most_here[w]);
        if (lane_id() == 0) atomicMax(most + w, most_here[w]);
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
    Cells<Bits> way = best ? ways[1] : ways[0];

    // ---- how many buckets a cell has. Of few keys: some cells a bucket, of which `weight` says how much of it they are. Of many: so many of
    // its own, the first of them a new one.
    // FEW: and how much of one, in parts of ONE. SINGLE: as many as keys.
    constexpr u32 ONE = 1 << 16, MOST_OWN = (1u << (PART_BITS - 1)) - 1, FEW = 1u << 31, SINGLE = 1u << 30;
    constexpr float FEW_MORE = 3; // keys of the sample, for where few were seen the root is too little: half of 2.5 squared, by Poisson's law
    // A cell in which keys end has them all in a part of it, and for that part as many buckets as others have for the whole.
    float scale = float(call.n) / (float(buckets.sampled) * float(buckets.room) * 0.88f);
    u32 ends[2] = {way(Bits(~ends_seen[0])), way(Bits(ends_seen[1]))};
    auto sample_of = [&](u32 i) { return float(counts[best * CELLS + way.nth(i)]); };
    auto root = [](float x) {
        float root;
        asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
        return root;
    };
    auto at_most = [&](float seen) { return seen + 2.5f * root(seen); }; // seldom is a cell's share more
    auto bits = [&](u32 i) { return way.width_bits(way.nth(i)); };
    auto power = [](int exponent) { return __int_as_float((127 + exponent) << 23); };
    float *density = (float *)(counts + (1 - best) * CELLS); // the other way's counts are of no more use
#pragma unroll 1
    for (u32 i = threadIdx.x; i < CELLS; i += THREADS) density[i] = sample_of(i) * power(-int(bits(i)));
    __syncthreads();
    auto weigh = [&](u32 i) { // in keys of the sample
        u32 cell = way.nth(i);
        float weight = at_most(sample_of(i));
#pragma unroll
        for (u32 upper = 0; upper < 2; upper++)
            if (cell == way.cell(ends[upper]) && cell / SIDE == upper) weight = __fdividef(weight, way.filled(ends[upper]));
        // If keys get dense within the cell, it has as many buckets as if it were as dense as the cell beside it: where that part of it is half a bucket
        // or more.
        float before = i > 0 ? density[i - 1] : 0, after = i + 1 < CELLS ? density[i + 1] : 0, dense = max(before, after), sparse = min(before, after);
        if (dense > 1.1f * density[i] && 2 * weight * scale * (density[i] - sparse) > dense - sparse) {
            u32 beside = before > after ? i - 1 : i + 1;
            weight = max(weight, at_most(sample_of(beside)) * power(int(bits(i)) - int(bits(beside))));
        }
        return weight;
    };
    // Cells of one width side by side, each with some buckets, of which none is fuller or emptier than by chance, weigh as much as the heaviest of them,
    // so that they are on one line.
    auto even_out = [&](float seen, float weight) {
        constexpr float NEVER = -1e9f, SOME = 8;
        // By chance 3 roots of the mean. Then `at_most`, whose own root is less than 1.5 greater than that of the mean.
        constexpr float FEWER = 3 * 3, MORE = 5.5f * 5.5f, ROOT_MORE = 2.5f * 1.5f; // two of them squares
        float mean = seen, least = weight * scale < SOME ? NEVER : seen, heaviest = weight;
#pragma unroll 1
        for (u32 cells = 1; cells < 1 << Map::FINE_BITS && __any_sync(ALL_LANES, least >= 0); cells *= 2) {
            float others = __shfl_xor_sync(ALL_LANES, mean, cells);
            least = min(least, __shfl_xor_sync(ALL_LANES, least, cells));
            heaviest = max(heaviest, __shfl_xor_sync(ALL_LANES, heaviest, cells));
            mean = (mean + others) / 2;
            float fewer = mean - least, more = max(heaviest - mean - ROOT_MORE, 0.0f);
            if (fewer * fewer > FEWER * mean || more * more > MORE * mean) least = NEVER;
            else weight = heaviest;
        }
        return weight;
    };
    // Above what a cell needs, the first of the lanes up to this one whose cells, as wide, need as much.
    constexpr u32 NEED = (1u << PART_BITS) - 1;
    auto with_run = [](u32 need) {
        u32 before = __shfl_up_sync(ALL_LANES, need, 1);
        u32 others = __ballot_sync(ALL_LANES, before != need || lane_id() % (1 << Map::FINE_BITS) == 0) & ((2u << lane_id()) - 1);
        return need | (WARP - 1 - u32(__clz(int(others)))) << PART_BITS;
    };
    auto width = [&](u32 i) { return 1u << min(bits(i), 31u); };
    auto own_buckets = [&](u32 i, float weight) { // as many that none has a key more than its share
        weight += FEW_MORE * scale;
        float each = floorf(__fdividef(float(width(i)), weight));
        return each < 1 ? min(width(i), MOST_OWN) : min(u32(ceilf(__fdividef(float(width(i)), each))), MOST_OWN);
    };
#pragma unroll 1
    for (u32 i = threadIdx.x; i < CELLS; i += THREADS) { // all lanes of a warp, or none
        float weight = even_out(sample_of(i), weigh(i)) * scale; // 1 or more: whole buckets
        u32 cell = way.nth(i), need = FEW | u32(weight * ONE);
        if (weight >= 0.25f) {
            need = own_buckets(i, weight);
            if (need == width(i)) need |= SINGLE;
        }
        // One that no key can be in has none, and does not stand between those beside it.
        u32 holder = way.with_key(cell), of_holder = __shfl_sync(ALL_LANES, need, lane_id() + (way.rises(cell) ? holder - cell : cell - holder));
        if (holder != cell) need = of_holder & FEW ? FEW : SINGLE;
        needs[i] = with_run(need);
        u32 keys = warp_max(need & SINGLE ? u32(sample_of(i)) : 0);
        if (keys > 0 && need & SINGLE && u32(sample_of(i)) == keys) atomicMax(&frequent, keys << Map::LOG_CELLS | i);
    }
    if (threadIdx.x < 2) run[threadIdx.x] = threadIdx.x * CELLS;
    __syncthreads();
    u64 sum = 0; // whole ones in the upper half, parts of some in the lower
    u32 begin = threadIdx.x * EACH, need[EACH];
    auto count = [](u32 need, bool after_few) { return need & FEW ? need & NEED : u64((need & NEED) + after_few) << 32; };
    bool after_few = begin > 0 && begin < CELLS && needs[begin - 1] & FEW, before_is_few = after_few;
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        need[e] = begin + e < CELLS ? needs[begin + e] : 0;
        if (begin + e < CELLS) sum += count(need[e], before_is_few);
        before_is_few = need[e] & FEW;
    }
    u64 upto = sum;
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u64 before = shuffle_up(upto, distance);
        if (lane_id() >= distance) upto += before;
    }
    if (lane_id() == WARP - 1) totals[warp_id()] = upto;
    // The cells of single keys on either side of the most frequent one.
    if (u32 among = frequent % (1 << Map::LOG_CELLS); frequent > 0) {
        u32 first = 0, end = CELLS;
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (u32 i = begin + e; i < CELLS && !(need[e] & SINGLE)) {
                if (i < among) first = i + 1;
                else end = min(end, i);
            }
        first = warp_max(first);
        end = CELLS - warp_max(CELLS - end);
        if (lane_id() == 0 && first > 0) atomicMax(run, first);
        if (lane_id() == 0 && end < CELLS) atomicMin(run + 1, end);
    }
    u32 *single = counts; // which are of no more use
    static_assert(2 * CELLS >= BUCKETS / 32, "room for all bits");
    for (u32 i = threadIdx.x; i < BUCKETS / 32; i += THREADS) single[i] = 0;
    u32 *ends_in = shares; // one more than the number, in order, of the cell that has the last bucket before each first digit, if it is its own
    if (threadIdx.x < BINS) ends_in[threadIdx.x] = 0;
    __syncthreads();
    u64 before = upto - sum, all = 0;
#pragma unroll
    for (u32 w = 0; w < THREADS / WARP; w++) {
        if (w < warp_id()) before += totals[w];
        all += totals[w];
    }
    u32 needed = u32(all >> 32) + u32(all) / ONE + 1;
    u32 lower_bits = needed <= BINS << buckets.lower_bits ? buckets.lower_bits : buckets.most_lower_bits;
    bool fits = lower_bits > 0 && needed <= BINS << lower_bits; // there are two steps, and room
    if (threadIdx.x == 0) {
        map.route = BY_CELLS;
        map.lower_bits = lower_bits;
        map.above = way.above;
        map.below = way.below;
        map.middle = way.middle;
        if (!fits) plan.too_large = 1;
    }
    if (!fits) return;
    // Cells that the sample has not seen are few: there nothing is single, whatever keys come.
    u32 beyond = way.beyond();
#pragma unroll 1
    for (u32 e = 0; e < EACH && begin + e < CELLS; e++) {
        u32 need = needs[begin + e], own = need & FEW ? 1 : need & NEED, bucket = u32(before >> 32) + u32(before) / ONE;
        before += count(need, after_few);
        if (!(need & FEW)) {
            bucket += after_few;
            if (frequent > 0 && begin + e == run[0]) run_bucket[0] = bucket;
            if (frequent > 0 && begin + e + 1 == run[1]) run_bucket[1] = bucket + own;
            if (need & SINGLE)
                for (u32 k = 0; k < own;) { // those of a word together
                    u32 at = (bucket + k) % 32, bits = min(own - k, 32 - at);
                    atomicOr(single + (bucket + k) / 32, ~0u >> (32 - bits) << at);
                    k += bits;
                }
            else
                for (u32 top = (bucket >> lower_bits) + 1; top << lower_bits <= bucket + own; top++)
                    if (top < BINS) ends_in[top] = begin + e + 1;
        }
        after_few = need & FEW;
        u32 cell = way.nth(begin + e);
        bool rises = way.rises(cell);
        if (cell % SIDE >= beyond) bucket = cell < SIDE ? 0 : needed - 1;
        u32 first = rises ? bucket : bucket + own - 1, step = own == 1 ? 0 : rises ? own : -own; // from the cell's beginning on
        map.cells[cell] = (first - step * way.number(cell)) << PART_BITS | u16(step);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < BUCKETS / 32; i += THREADS)
        if (single[i]) map.single[i] = single[i];
    if (threadIdx.x == 0 && frequent > 0) {
        // Both cells at the middle may reach past it, where keys are in the other one. The run is on one side of it.
        Singles<Bits> singles = {way.least(way.nth(run[0])), run_bucket[1] - run_bucket[0], run_bucket[0], u32(call.n / 64), 0, 0};
        Bits to_middle = Bits(way.middle - singles.from);
        if (way.is_inward() && to_middle < singles.keys) {
            if (run[0] < SIDE) {
                singles.keys = u32(to_middle);
            } else {
                singles.from = way.middle;
                singles.keys -= u32(to_middle);
                singles.bucket += u32(to_middle);
            }
        }
        map.singles = singles;
    }
    // A line for each first digit whose buckets are all of one run, and the bucket before them too: so no key of the cell before the run, which may lie
    // another way, is in them. The first of all digits has none before it, and so no line.
    if (threadIdx.x >= BINS) return;
    u32 top = threadIdx.x, from = ends_in[top], to = top + 1 < BINS ? ends_in[top + 1] : 0;
    auto octave = [](u32 i) { return (i - 1) >> Map::FINE_BITS; };
    bool on_line = from > 0 && to > 0 && octave(from) == octave(to) && needs[from - 1] == needs[to - 1];
    if (top == (needed - 1) >> lower_bits) on_line = false; // where keys go that the sample has not seen
    u32 cell = on_line ? way.nth(from - 1) : 0;
    if (cell % SIDE >> Map::FINE_BITS == Map::WIDTH) on_line = false; // which is one key
    Line<Bits> line = way.line(cell, map.cells[cell], top << lower_bits);
    if (!on_line) line.step = 0;
    map.lines[top] = line;
}
