// How keys go to buckets: the maps, of which a sample of the keys chooses one (sort/bucket_sample.cuh).
#pragma once
#include "sort/sort.cuh"

// By their first bits, where keys are spread evenly over all that there could be. By their share of the way from the least to the
// greatest, where they are spread evenly between these. Where the sample has few values, each of them has a bucket, and so has what lies
// between two. Else by cells: intervals of keys that get wider as the numbers of a float do, from both ends to the middle or from the
// middle of all keys to both ends, each with as many buckets of one width as its share of the sample asks for.

enum Route : u32 { BY_BITS, BY_RANGE, BY_VALUES, BY_CELLS };
constexpr u32 FEW_DIGITS = 2; // that so many passes take less time than buckets do

constexpr u32 BUCKETS = 1 << 16; // at most
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
    __device__ Singles unmoved() const {
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
    u32 distinct[MAP_BLOCKS]; // values in the part of the sample that a block has; and these, if they are few
    Bits part_values[MAP_BLOCKS][VALUES];
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
// They get wider every 2^FINE.
template <class Bits, u32 FINE = BucketMap<Bits>::FINE_BITS> struct Cells {
    static constexpr u32 WIDTH = 8 * sizeof(Bits), FINE_BITS = FINE, SIDE = (WIDTH + 1) << FINE;
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
        if (least > 0 && Bits(least + 2 * half) == 0) { // but not if zero, which has not been seen, is a key below the least
            least--;
            span = greatest - least;
            half = span / 2 + span % 2;
        }
        return {least, Bits(least + 2 * half), Bits(least + half)};
    }

    // Not by `below`: where the ends are those of all that there could be, it is past them and the same as `above`.
    __device__ bool is_inward() const { return above != middle; }
    __device__ bool is_upper(Bits key) const { return key >= middle; }
    // Its place, in so many parts of a cell.
    __device__ u32 operator()(Bits key) const { return position(min(Bits(key - above), Bits(below - key)), is_upper(key)); }
    static __device__ u32 cell(u32 at) { return (at >> PART_BITS) - FIRST; }
    // What stands above the part in the place of each of its keys.
    static __device__ u32 number(u32 cell) { return cell + FIRST; }
    // How much of its cell is between the middle and the place of an end.
    __device__ float filled_share(u32 at) const {
        constexpr float ALL = 1 << PART_BITS;
        u32 part = at % (1 << PART_BITS);
        return max((is_inward() ? ALL - float(part) : float(part + 1)) / ALL, 1.0f / 1024); // or one key that is alone would ask for many
    }
    // The first cell of keys beyond the ends, on either side, if there could be any.
    __device__ u32 beyond() const { return is_inward() && below != above ? cell(position(Bits(below - above), false)) : SIDE; }
    // The cells in the order of their keys, but for those beyond the ends.
    __device__ u32 nth_in_order(u32 i) const { return is_inward() == (i < SIDE) ? i : i < SIDE ? SIDE - 1 - i : SIDE + (2 * SIDE - 1 - i); }
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
    __device__ Line<Bits> linear_run(u32 cell, u32 entry, u32 first_bucket) const {
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
    static __device__ u32 position(Bits x, bool is_upper) {
        constexpr float LOWER = 1.0f / (u64(1) << WIDTH / 2) / (u64(2) << WIDTH / 2);
        float position = __fadd_rz(WIDTH == 64 ? __ull2float_rz(x) : __uint2float_rz(u32(x)), 0.5f);
        if (!is_upper) position *= LOWER;
        return __float_as_uint(position) >> (23 - FINE_BITS - PART_BITS);
    }
};

// A key whose place is marked need not be sorted any more: then it is stored as what it was.
template <class Order, class Bits> struct PutDecodeDone {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const { out[position & ~DONE] = position & DONE ? order.from(key) : key; }
};
template <class Order, class Bits> struct PutKey {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const { out[position] = key; }
};
// Or it is known, and not stored.
template <class Order, class Bits> struct PutUnlessDone {
    Bits *out;
    Order order;
    __device__ void operator()(u64 position, Bits key) const {
        if (!(position & DONE)) out[position] = key;
    }
};

// A table is in shared memory. By the whole block.
__device__ inline void wait_for_table() {
    wait_for_copies();
    __syncthreads();
}

// The bucket of a key, and its number's digits: the upper one, and the lower.
// HAS_LARGE: those of a single key may be larger than a block's room, and are in order then; other large ones passes sort, whatever the map. HAS_TABLE: it is in shared memory. ONE_STEP: there is no lower digit. IS_LINE: it is
// `BucketByLine`.
template <class Bits> struct BucketByBits {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutKey<Order, Bits>;
    u32 shift, mask;
    __device__ explicit BucketByBits(u32 lower_bits) : shift(8 * sizeof(Bits) - DIGIT_BITS - lower_bits), mask((1u << lower_bits) - 1) {}
    __device__ u32 operator()(Bits key) const { return u32(key >> shift); }
    __device__ u32 upper(Bits key) const { return u32(key >> (8 * sizeof(Bits) - DIGIT_BITS)); }
    __device__ u32 lower(Bits key) const { return u32(key >> shift) & mask; }
};
template <class Bits> struct BucketByRange {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutKey<Order, Bits>;
    Share<Bits> share;
    u32 lower_bits;
    __device__ explicit BucketByRange(const BucketMap<Bits> &map) : share(map.extremes), lower_bits(map.lower_bits) { share.factor = map.factor; }
    __device__ u32 operator()(Bits key) const { return share(key); }
    __device__ u32 upper(Bits key) const { return share(key) >> lower_bits; }
    __device__ u32 lower(Bits key) const { return share(key) & ((1u << lower_bits) - 1); }
};
// A few values are few places of the table, and neighbours in it: what `SplitterDigit` does against waiting takes longer here.
template <class Bits> struct BucketByValues {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = true, IS_LINEAR = false;
    template <class Order> using Put = PutDecodeDone<Order, Bits>;
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
template <class Bits, u32 FINE = BucketMap<Bits>::FINE_BITS> struct BucketByCells {
    static constexpr bool HAS_LARGE = true, HAS_TABLE = true, ONE_STEP = false, IS_LINEAR = false;
    template <class Order> using Put = PutDecodeDone<Order, Bits>;
    const u32 *table;
    Cells<Bits, FINE> cells;
    u32 lower_bits;
    __device__ BucketByCells(const BucketMap<Bits> &map, const u32 *table)
        : BucketByCells(Cells<Bits, FINE>{map.above, map.below, map.middle}, table, map.lower_bits) {}
    __device__ BucketByCells(const Cells<Bits, FINE> &cells, const u32 *table, u32 lower_bits) : table(table), cells(cells), lower_bits(lower_bits) {}
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
template <class Bits> struct BucketBesideOneKeyRun : BucketByCells<Bits> {
    Singles<Bits> singles;
    __device__ BucketBesideOneKeyRun(const BucketMap<Bits> &map, const u32 *table) : BucketByCells<Bits>(map, table), singles(map.singles.unmoved()) {}
};
// The lower digit alone.
template <class Bits> struct BucketByLinearRun {
    static constexpr bool HAS_LARGE = false, HAS_TABLE = false, ONE_STEP = false, IS_LINEAR = true;
    template <class Order> using Put = PutKey<Order, Bits>;
    Line<Bits> linear_run;
    __device__ u32 lower(Bits key) const { return linear_run.digit(key); }
};
// Waits for a table, and in any case until the block's counters are empty. It is always true, which the compiler does not know where keys go by a line:
// else it has all warps wait here for the first key of each.
template <class Bucket> __device__ inline bool prepare_digits() {
    if (Bucket::IS_LINEAR) return !__syncthreads_or(false);
    if (Bucket::HAS_TABLE) wait_for_table();
    else __syncthreads();
    return true;
}
template <class Bucket> struct UpperDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.upper(key); }
    template <class Bits> __device__ bool stays(Bits key) const { return bucket.singles.has(key); }
    __device__ bool prepare() const { return prepare_digits<Bucket>(); }
};
template <class Bits> constexpr bool SOME_STAY<UpperDigit<BucketBesideOneKeyRun<Bits>>> = true;
template <class Bucket> struct LowerDigit {
    Bucket bucket;
    template <class Bits> __device__ u32 operator()(Bits key) const { return bucket.lower(key); }
    __device__ bool prepare() const { return prepare_digits<Bucket>(); }
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

// A map's counts of the sample, to which other blocks have added: of a thread some, and of the last ones none. All are asked for before one is needed.
template <u32 THREADS, u32 COUNT, class Map> __device__ inline void load_samples(u32 (&samples)[COUNT], Map &map) {
#pragma unroll
    for (u32 k = 0; k < COUNT; k++) {
        u32 i = k * THREADS + threadIdx.x;
        samples[k] = i < 2 * Map::CELLS ? load_relaxed(map.samples[0] + i) : 0;
    }
}

// Where the i-th key of a sample is: somewhere in its part of the input, so that no period is met.
__device__ inline u64 sampled_at(u32 i, u32 stride) {
    u32 mixed = (i ^ i >> 7) * 0x9e3779b1u;
    return u64(i) * stride + (u64(mixed ^ mixed >> 15) * stride >> 32);
}
