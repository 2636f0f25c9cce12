// Radix sort: what its kernels are made of.
//
// A block ranks the keys of its tile by a digit of 8 bits and writes them as runs of equal digits: `RadixTile`. Two sorts
// are made of it.
//
// - Least significant digit first (Adinets and Merrill 2022, "Onesweep"): stable. Digits of all passes are counted in one
//   read; in a pass each tile looks back, digit by digit, at how many keys of the tiles before it go before its own.
// - Most significant digit first (after Stehle and Jacobsen 2017, "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs"): after two
//   steps a bucket fits a block, which sorts the rest of its bits in shared memory. Equal keys without a payload are the same, so their
//   tiles claim places as they come, and nobody waits.
//
// Between passes keys lie as unsigned integers in the order asked for: `KeyOrder`.
#pragma once
#include "core/types.cuh"
#include "sort/contract.cuh" // the structs and constants that the host shares: src/cuda/sort/contract.rs

// ---- order ---------------------------------------------------------------------------------------------------------------

enum KeyKind { INTEGER, FLOAT };

// Keys as unsigned integers in the same order. Floats in that of IEEE's totalOrder, but for those NaNs that have the sign set: they
// come last of all. `flip` has the bits that are turned over then: the sign of integers that have one, and all of them if the order
// is turned over.
template <class Bits, KeyKind KIND, Bits INFINITE> struct KeyOrder {
    static constexpr u32 SIGN_PLACE = 8 * sizeof(Bits) - 1;
    static constexpr Bits SIGN = Bits(Bits(1) << SIGN_PLACE), NANS = Bits(SIGN - 1 - INFINITE);
    static constexpr Bits GRAIN = KIND == FLOAT ? Bits(NANS + 1) : Bits(1); // from one exponent to the next
    Bits flip;

    __device__ Bits to(Bits x) const {
        if (KIND == FLOAT) x = Bits((x & SIGN ? Bits(~x) : Bits(x | SIGN)) - NANS);
        return x ^ flip;
    }
    __device__ Bits from(Bits x) const {
        x ^= flip;
        if (KIND == FLOAT) {
            x += NANS;
            x = x & SIGN ? Bits(x ^ SIGN) : Bits(~x);
        }
        return x;
    }
};

// ---- small pieces ---------------------------------------------------------------------------------------------------------

__device__ inline u32 lane_id() { return threadIdx.x % WARP; }
__device__ inline u32 warp_id() { return threadIdx.x / WARP; }

// The lower half of a word, which has a sign, by one instruction: a cast takes two.
__device__ inline int lower_half(u32 x) {
    int low;
    asm("bfe.s32 %0, %1, 0, 16;" : "=r"(low) : "r"(x));
    return low;
}

// The lanes that have the same as this one in a bit: half of the instructions that a ballot and a choice by `__ballot_sync` take.
__device__ inline u32 alike(u32 x, u32 bit) {
    u32 lanes;
    asm volatile("{\n"
                 ".reg .pred is_set;\n"
                 "and.b32 %0, %1, %2;\n"
                 "setp.ne.u32 is_set, %0, 0;\n"
                 "vote.sync.ballot.b32 %0, is_set, 0xffffffff;\n"
                 "@!is_set not.b32 %0, %0;\n"
                 "}"
                 : "=&r"(lanes)
                 : "r"(x), "r"(bit));
    return lanes;
}

// Whether all lanes have the same.
__device__ inline bool all_same(u32 x) { return __all_sync(ALL_LANES, x == __shfl_sync(ALL_LANES, x, 0)); }

__device__ inline u32 warp_upto(u32 x) {
    u32 lane = lane_id();
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        u32 before = __shfl_up_sync(ALL_LANES, x, distance);
        if (lane >= distance) x += before;
    }
    return x;
}

// Of all lanes.
#if __CUDA_ARCH__ >= 800
__device__ inline u32 warp_add(u32 x) { return __reduce_add_sync(ALL_LANES, x); }
__device__ inline u32 warp_or(u32 x) { return __reduce_or_sync(ALL_LANES, x); }
__device__ inline u32 warp_max(u32 x) { return __reduce_max_sync(ALL_LANES, x); }
#else
__device__ inline u32 warp_add(u32 x) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(ALL_LANES, x, distance);
    return x;
}
__device__ inline u32 warp_or(u32 x) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) x |= __shfl_xor_sync(ALL_LANES, x, distance);
    return x;
}
__device__ inline u32 warp_max(u32 x) {
#pragma unroll
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) x = max(x, __shfl_xor_sync(ALL_LANES, x, distance));
    return x;
}
#endif
__device__ inline u64 warp_or(u64 x) { return u64(warp_or(u32(x >> 32))) << 32 | warp_or(u32(x)); }
__device__ inline u64 warp_max(u64 x) {
    u32 high = warp_max(u32(x >> 32));
    return u64(high) << 32 | warp_max(high == u32(x >> 32) ? u32(x) : 0);
}

// What the warps before this one have, by a total of each. One read: one after the other they are as many waits.
__device__ inline u32 warps_before(const u32 *totals) { return warp_add(lane_id() < warp_id() ? totals[lane_id()] : 0); }

// A barrier of the first THREADS threads of a block; the other threads call `pass_barrier_of_first` instead. racecheck does not
// follow a barrier of some threads, so with PARASCAN_CHECKED it is one of all threads.
#ifndef PARASCAN_CHECKED
template <u32 THREADS> __device__ inline void barrier_of_first() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
__device__ inline void pass_barrier_of_first() {}
#else
template <u32 THREADS> __device__ inline void barrier_of_first() { __syncthreads(); }
__device__ inline void pass_barrier_of_first() { __syncthreads(); }
#endif

// The exclusive prefix sum of x in the order of threads. By the first THREADS threads of a block, with one `barrier_of_first`.
template <u32 THREADS> __device__ inline u32 block_before(u32 x, u32 *totals) {
    u32 upto = warp_upto(x);
    if (lane_id() == WARP - 1) totals[warp_id()] = upto;
    barrier_of_first<THREADS>();
    return upto - x + warps_before(totals);
}

__device__ inline u32 load_relaxed(const u32 *p) {
    u32 x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline void store_relaxed(u32 *p, u32 x) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

// A place of an array of shared memory for its item j, so that items a power of two apart are in different banks.
__device__ inline u32 staggered(u32 j) { return j ^ ((j >> 5 ^ j >> 10) & 31); }

// A digit of a key: `mask` has its bits.
struct Digit {
    u32 shift, mask;
    template <class Bits> __device__ u32 operator()(Bits key) const { return u32(key >> shift) & mask; }
};

// Plain data that goes with a key, in units of its alignment.
template <u32 ALIGN> struct ValueUnit;
template <> struct ValueUnit<1> { typedef u8 Type; };
template <> struct ValueUnit<2> { typedef u16 Type; };
template <> struct ValueUnit<4> { typedef u32 Type; };
template <> struct ValueUnit<8> { typedef u64 Type; };
template <> struct ValueUnit<16> { typedef Vector Type; };
template <u32 BYTES_, u32 ALIGN> struct Payload {
    static constexpr u32 BYTES = BYTES_;
    // A number as one.
    static __device__ Payload index(u64 i) {
        Payload payload;
        memcpy(&payload, &i, BYTES < 8 ? BYTES : 8);
        return payload;
    }
    typename ValueUnit<ALIGN>::Type unit[BYTES / ALIGN];
};
struct NoPayload {
    static constexpr u32 BYTES = 0;
};

// ---- a tile ----------------------------------------------------------------------------------------------------------------

// Whether a digit is found by a search in shared memory: `digit.find` does it for some keys together.
template <class D> constexpr bool IS_SEARCHED = false;
// Whether a key in any order that is stored has its digit by marks where runs begin: for digits that take longer.
template <class D> constexpr bool IS_MARKED = false;
// Whether some keys in any order, whose digits are marked, stay where they are: those of which `digit.stays` says it. Their digit is none, another one
// for each lane, so that lanes do not meet at its counter.
template <class D> constexpr bool SOME_STAY = false;
constexpr u32 STAYING = WARP;
// Whether keys in any order are stored by rows of a warp even if no run of the digit is long.
template <class D> constexpr bool BY_ROWS = false;

// A key's rank among those of its warp that have its digit, or of those in any order among the block's.
enum Ranking {
    BALLOTS,   // in the order of the tile: eight ballots a key
    FEW,       // the same for tiles of which much is not there
    CHECKED,   // the same, by an atomic addition a key. In which order lanes are served nobody promises, so their order is looked at when
               // they are stored, and ranked by ballots if it is another.
    UNORDERED  // in any order
};

template <bool YES, class A, class B> struct If { typedef A Type; };
template <class A, class B> struct If<false, A, B> { typedef B Type; };

// Keys of a block: item i of a lane comes before item i + 1 of any lane of its warp, and warps come one after the other; but of keys in any order, where
// some are missing, row after row of all warps.
template <class Bits_, class Value_, u32 THREADS_, u32 ITEMS_, Ranking RANKING> struct RadixShape {
    typedef Bits_ Bits;
    typedef Value_ Value;
    static constexpr u32 THREADS = THREADS_, ITEMS = ITEMS_, WARPS = THREADS / WARP, TILE = THREADS * ITEMS;
    static constexpr u32 WIDEST = sizeof(Bits) > Value::BYTES ? sizeof(Bits) : Value::BYTES;
    static constexpr u32 LONG_RUN = TILE / 72; // from here on rows of a warp often lie in one run
    static constexpr bool HAS_VALUES = Value::BYTES > 0;
    // Keys that rise by one would fall into half of the banks, or if the tile is a multiple of 4096 long into one: after every 32 places one is left out. With
    // values random keys lose by it what others gain, unless it is one.
    static constexpr bool SKEWED = RANKING == CHECKED && (ITEMS % 8 == 0 || !HAS_VALUES);
    static constexpr u32 PLACES = TILE + (SKEWED ? TILE / WARP : 0);
    static __device__ u32 skewed(u32 j) { return SKEWED ? j + j / WARP : j; }
    // The same of item `i * THREADS + threadIdx.x`, by a place that is the same for all i.
    static __device__ u32 skewed_row(u32 i) { return i * (SKEWED ? THREADS + THREADS / WARP : THREADS) + skewed(threadIdx.x); }
    // Where in the tile a key was, and above that its digit where something goes with the keys of a pass. Of keys in any order: a bit for each place of a
    // row, set where a run begins, and for each warp how many begin before its rows.
    typedef typename If<RANKING == UNORDERED || (HAS_VALUES && RANKING == CHECKED), u32, u16>::Type Note;
    static constexpr u32 MARKS = TILE / WARP, NOTES = RANKING == UNORDERED ? MARKS + WARPS : RANKING == CHECKED || HAS_VALUES ? PLACES : 2;
    static_assert(THREADS >= BINS && TILE <= 65536, "a thread for each bin, 16 bits for a place");

    struct Shared {
        alignas(16) char exchange[PLACES * WIDEST];   // item j at `skewed(j)`
        Note notes[NOTES];
        // How many keys: by warp, and then where they begin in the tile; of keys in any order by the block.
        alignas(RANKING == FEW ? 16 : 4) u32 bins[RANKING == UNORDERED ? BINS + STAYING : WARPS * BINS];
        u32 begin[BINS + (RANKING == UNORDERED ? STAYING : 1)]; // of a digit's run in the tile, and of none
        u64 to[BINS];                            // where the tile would begin in the output for the run to be in place
        u32 totals[BINS / WARP];
        u32 tile;
    };
};

// A tile of which all keys are there, or some of the last ones may be missing.
template <class Bits, class Value, u32 THREADS, u32 ITEMS, Ranking RANKING, bool WHOLE = false>
struct RadixTile : RadixShape<Bits, Value, THREADS, ITEMS, RANKING> {
    typedef RadixShape<Bits, Value, THREADS, ITEMS, RANKING> Shape;
    typedef typename Shape::Shared Shared;
    static constexpr u32 WARPS = Shape::WARPS, TILE = Shape::TILE, LONG_RUN = Shape::LONG_RUN;
    static constexpr u32 PLACE_BITS = 16, MOST_PLACE = (1 << PLACE_BITS) - 1;
    static constexpr u32 ROWS = ITEMS < 2 ? ITEMS : 2; // that are ranked together
    // Of a thread's keys that are stored: where something goes with them few are faster, and for what goes with them all if runs are long.
    static constexpr u32 AT_ONCE = Shape::HAS_VALUES ? 2 : ITEMS;
    static constexpr bool HAS_VALUES = Shape::HAS_VALUES;
    typedef typename Shape::Note Note;
    using Shape::skewed;
    using Shape::skewed_row;
    typedef RadixTile<Bits, Value, THREADS, ITEMS, RANKING, true> Whole;
    typedef RadixTile<Bits, Value, THREADS, ITEMS, RANKING, false> Part;

    Shared &s;
    u32 count;   // keys that are there
    u32 own_first, own_end; // where this thread's first key lies in the tile, and where those of its warp end, if that is less than all
    bool has_long; // whether a digit has many of them
    Bits key[ITEMS];
    u32 place[ITEMS]; // in the tile; while that is not known its rank, below its digit

    __device__ RadixTile(Shared &s, u32 count) : s(s), count(count) {
        if constexpr (RANKING == FEW) {
            u32 rows = min(ITEMS, (count + THREADS * ROWS - 1) / (THREADS * ROWS) * ROWS); // of a warp that has any
            own_first = warp_id() * rows * WARP + lane_id();
            own_end = min(count, (warp_id() + 1) * rows * WARP);
        }
    }

    __device__ u32 first() const { return RANKING == FEW ? own_first : warp_id() * ITEMS * WARP + lane_id(); }
    __device__ u32 end() const { return RANKING == FEW ? own_end : count; }

    // Where item i of this thread lies in the tile.
    __device__ u32 at(u32 i) const {
        if (RANKING == UNORDERED && !WHOLE) return i * THREADS + threadIdx.x; // all warps have as many
        return RANKING == FEW ? first() + i * WARP : (warp_id() * ITEMS + i) * WARP + lane_id();
    }
    __device__ bool is_there(u32 i) const { return WHOLE || at(i) < end(); }

    // `f(i)` by all lanes for an item each, but for rows that are not there.
    template <class F> __device__ void each(const F &f) const {
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (!__any_sync(ALL_LANES, is_there(row))) break;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) f(i);
        }
    }

    template <class Load> __device__ void load(const Load &load) {
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) key[i] = is_there(i) ? load(at(i)) : Bits(0);
    }

    // Before keys in any order are ranked, and the block waits for all.
    template <class D> __device__ void empty_block_bins() {
        static_assert(RANKING == UNORDERED, "others are counted by warp");
        static_assert(!SOME_STAY<D> || THREADS >= BINS + STAYING, "a thread for each counter");
        if (threadIdx.x < (SOME_STAY<D> ? BINS + STAYING : BINS)) s.bins[threadIdx.x] = 0;
        if (IS_MARKED<D>)
            for (u32 row = threadIdx.x; row < Shape::MARKS; row += THREADS) s.notes[row] = 0;
    }

    // `place[i]` becomes the key's rank in its warp, or of those in any order in the block; `bins` how many keys there are.
    template <class D> __device__ void rank(D digit) {
        if constexpr (RANKING == BALLOTS) rank_by_ballots(digit);
        else if constexpr (RANKING == FEW) rank_rows(digit);
        else {
            u32 *bins = RANKING == UNORDERED ? s.bins : empty_bins();
            if constexpr (IS_SEARCHED<D>) digit.find(key, place);
            auto digit_of = [&](u32 i) {
                u32 d = IS_SEARCHED<D> ? place[i] : digit(key[i]);
                if constexpr (SOME_STAY<D>) d = digit.stays(key[i]) ? BINS + lane_id() : d;
                return d;
            };
            // Lanes with the same digit are served one after the other. Where a row is all of one, one lane adds for all.
            if (u32 one = digit_of(0); WHOLE && all_same(one)) {
                if (RANKING == UNORDERED) { // all rows: then they stay side by side
                    bool alike = true;
#pragma unroll
                    for (u32 i = 1; i < ITEMS; i++) alike = alike && digit_of(i) == one;
                    if (__all_sync(ALL_LANES, alike)) {
                        u32 before = lane_id() == 0 ? atomicAdd(bins + one, ITEMS * WARP) : 0;
                        before = __shfl_sync(ALL_LANES, before, 0) + lane_id();
#pragma unroll
                        for (u32 i = 0; i < ITEMS; i++) place[i] = one << PLACE_BITS | (before + i * WARP);
                        return;
                    }
                }
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    u32 d = digit_of(i);
                    if (all_same(d)) {
                        u32 before = lane_id() == 0 ? atomicAdd(bins + d, WARP) : 0;
                        place[i] = d << PLACE_BITS | (__shfl_sync(ALL_LANES, before, 0) + lane_id());
                    } else {
                        place[i] = d << PLACE_BITS | atomicAdd(bins + d, 1);
                    }
                    __syncwarp();
                }
                return;
            }
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++)
                if (is_there(i)) {
                    u32 d = digit_of(i);
                    place[i] = d << PLACE_BITS | atomicAdd(bins + d, 1);
                }
        }
    }

    // Then its place in the tile, and the keys lie there. `publish(digit, total)` is called by a thread of each digit as soon as its keys
    // are counted, `receive(digit, total)` later: where the run goes to.
    template <class D = Digit, class Publish, class Receive> __device__ void scatter(const Publish &publish, const Receive &receive) {
        __syncthreads();
        u32 total = 0, d = threadIdx.x, run = d; // which of all runs, where they are marked
        if (d < BINS) {
            total = RANKING == UNORDERED ? s.bins[d] : column_before(0);
            publish(d, total);
            u32 start = block_before<BINS>(IS_MARKED<D> && total > 0 ? 1 << 16 | total : total, s.totals);
            if constexpr (IS_MARKED<D>) {
                static_assert(TILE < 1 << 16, "runs and keys that come before are one word");
                run = start >> 16;
                start &= 0xffff;
                mark_run(run, start, total);
            }
            s.begin[d] = start;
            if (d == BINS - 1) s.begin[BINS] = start + total; // all, or those that do not stay
            if (RANKING != UNORDERED) {
#pragma unroll
                for (u32 w = 0; w < WARPS; w++) s.bins[w * BINS + d] += start;
            }
        } else {
            pass_barrier_of_first();
        }
        has_long = __syncthreads_or(total > LONG_RUN);
        exchange<D>();
        static_assert(!SOME_STAY<D> || IS_MARKED<D>, "of those that are stored one by one all are there");
        if (SOME_STAY<D>) count = s.begin[BINS];
        if (d < BINS && (!IS_MARKED<D> || total > 0)) s.to[run] = receive(d, total) - s.begin[d];
        __syncthreads();
    }

    // By a thread of each digit.
    __device__ void mark_run(u32 run, u32 start, u32 total) {
        constexpr u32 OF_WARP = ITEMS * WARP;
        u32 *before = s.notes + Shape::MARKS;
        if (threadIdx.x == 0) before[0] = 0;
        if (total == 0) return;
        atomicOr(s.notes + start / WARP, 1u << start % WARP);
        for (u32 w = start / OF_WARP + 1; w < WARPS && w * OF_WARP <= start + total; w++) before[w] = run + 1;
    }

    // The same where nothing but the tile is sorted, and nobody asks where its runs are. Keys are this thread's again in the new order, and with
    // each what is noted of it.
    __device__ void move(Note *note) {
        static_assert(RANKING != UNORDERED, "keys of a thread begin at `first`");
        __syncthreads();
        u32 d = threadIdx.x;
        if (d < BINS) {
            u32 own[WARPS], total = 0;
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) total += own[w] = s.bins[w * BINS + d];
            u32 upto = block_before<BINS>(total, s.totals);
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) {
                s.bins[w * BINS + d] = upto;
                upto += own[w];
            }
        } else {
            pass_barrier_of_first();
        }
        __syncthreads();
        Bits *keys = (Bits *)s.exchange;
        const u32 *bins = s.bins + warp_id() * BINS;
        each([&](u32 i) { place[i] = (place[i] & MOST_PLACE) + bins[place[i] >> PLACE_BITS]; });
        each([&](u32 i) {
            if (!is_there(i)) return;
            keys[place[i]] = key[i];
            if constexpr (HAS_VALUES) s.notes[place[i]] = note[i];
        });
        __syncthreads();
        each([&](u32 i) {
            key[i] = (keys + first())[i * WARP];
            if constexpr (HAS_VALUES) note[i] = is_there(i) ? (s.notes + first())[i * WARP] : 0;
        });
    }

    // Both for a digit of which nobody sees in what order its keys come: the block counts together, lanes side by side apart.
    template <class D> __device__ void move_in_any_order(D digit) {
        constexpr u32 COPIES = 8, IN_VECTOR = sizeof(Vector) / sizeof(u32);
        static_assert(COPIES <= WARPS, "room for all counters");
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < BINS * COPIES / IN_VECTOR; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        u32 *bins = s.bins + lane_id() % COPIES;
        __syncthreads();
        each([&](u32 i) {
            if (is_there(i)) place[i] = atomicAdd(bins + digit(key[i]) * COPIES, 1);
        });
        __syncthreads();
        if (threadIdx.x < BINS) {
            u32 own[COPIES], total = 0;
#pragma unroll
            for (u32 v = 0; v < COPIES / IN_VECTOR; v++) memcpy(own + v * IN_VECTOR, vectors + threadIdx.x * (COPIES / IN_VECTOR) + v, sizeof(Vector));
#pragma unroll
            for (u32 c = 0; c < COPIES; c++) total += own[c];
            u32 upto = block_before<BINS>(total, s.totals);
#pragma unroll
            for (u32 c = 0; c < COPIES; c++) {
                u32 keys = own[c];
                own[c] = upto;
                upto += keys;
            }
#pragma unroll
            for (u32 v = 0; v < COPIES / IN_VECTOR; v++) memcpy(vectors + threadIdx.x * (COPIES / IN_VECTOR) + v, own + v * IN_VECTOR, sizeof(Vector));
        } else {
            pass_barrier_of_first();
        }
        __syncthreads();
        Bits *keys = (Bits *)s.exchange;
        each([&](u32 i) {
            if (is_there(i)) keys[place[i] + bins[digit(key[i]) * COPIES]] = key[i];
        });
        __syncthreads();
        each([&](u32 i) { key[i] = (keys + first())[i * WARP]; });
    }

    // The keys to memory, thread after thread: `out(place, key)` is called for each. Whether they were out of order.
    template <class D, class Out> __device__ bool store(D digit, const Out &out) {
        static_assert(RANKING == CHECKED, "it is noted where they were");
        const Bits *keys = (const Bits *)s.exchange;
        // Above its place in the tile, the digit of the key that lies there.
        auto digit_and_place = [&](u32 slot, Bits key) { return HAS_VALUES ? u32(s.notes[slot]) : digit(key) << PLACE_BITS | s.notes[slot]; };
        bool disorder = false;
#pragma unroll AT_ONCE
        for (u32 i = 0; i < ITEMS; i++) {
            u32 j = i * THREADS + threadIdx.x, slot = skewed_row(i), here = 0;
            bool there = WHOLE || j < count;
            if (there) {
                Bits key = keys[slot];
                here = digit_and_place(slot, key);
                out(s.to[here >> PLACE_BITS] + j, key);
            }
            u32 before = __shfl_up_sync(ALL_LANES, here, 1);
            u32 earlier = slot - (Shape::SKEWED ? 2 : 1); // of lane 0
            if (lane_id() == 0 && j > 0 && there) before = digit_and_place(earlier, keys[earlier]);
            disorder |= there && j > 0 && here < before;
        }
        return disorder;
    }

    // Values follow the keys that were stored: `out(place, at)` is called for each, with where in the tile its key was.
    template <class Out> __device__ void follow(const Out &out) const {
        if (has_long) follow_by<ITEMS>(out);
        else follow_by<AT_ONCE>(out);
    }
    template <u32 BY, class Out> __device__ void follow_by(const Out &out) const {
#pragma unroll BY
        for (u32 i = 0; i < ITEMS; i++) {
            u32 j = i * THREADS + threadIdx.x;
            if (!WHOLE && j >= count) break;
            u32 note = s.notes[skewed_row(i)];
            out(s.to[note >> PLACE_BITS] + j, note & MOST_PLACE);
        }
    }

    // Keys in any order to memory: thread after thread, or by rows of a warp, of which nobody looks at the digits if some lie in one run.
    template <class D, class Out> __device__ void store_any(D digit, const Out &out) {
        static_assert(RANKING == UNORDERED, "no place is left out");
        const Bits *keys = (const Bits *)s.exchange;
        if constexpr (IS_MARKED<D>) return store_marked<SOME_STAY<D>>(out);
        if (!(has_long || BY_ROWS<D>)) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) {
                u32 j = i * THREADS + threadIdx.x;
                if (!WHOLE && j >= count) break;
                Bits key = keys[j];
                out(s.to[digit(key)] + j, key);
            }
            return;
        }
        u32 run_end = 0;
        u64 to = 0;
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += SOME) {
            u32 rows = min(SOME, ITEMS - row), begin = (warp_id() * ITEMS + row) * WARP, j = begin + lane_id();
            if (!WHOLE && begin >= count) break;
            Bits key[SOME];
#pragma unroll
            for (u32 i = 0; i < rows; i++) key[i] = keys[j + i * WARP];
            if (begin + rows * WARP <= run_end) {
#pragma unroll
                for (u32 i = 0; i < rows; i++) out(to + (j + i * WARP), key[i]);
                continue;
            }
            u32 d = 0;
#pragma unroll
            for (u32 i = 0; i < rows; i++) {
                d = digit(key[i]); // or if it is not there anything
                if (WHOLE || j + i * WARP < count) out(s.to[d] + (j + i * WARP), key[i]);
            }
            if (!WHOLE && begin + rows * WARP >= count) break;
            d = __shfl_sync(ALL_LANES, d, WARP - 1); // in whose run the next row begins
            to = s.to[d];
            run_end = s.begin[d + 1];
        }
    }

    // All places once more, by ballots. By the whole block, when nobody reads the exchange. Apart, so that it takes no registers from
    // those who never come here.
    template <class D, class Load> __device__ void place_again(D digit, const Load &load) { Part::place_apart(s, count, digit, load); }

    // The values of the tile, into the exchange, item j at `staggered(j)`.
    template <class Load> __device__ Value *load_values(const Load &load) {
        Value *values = (Value *)s.exchange;
        __syncthreads(); // the keys are out
        Value value[ITEMS]; // all are asked for before any is stored
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 j = i * THREADS + threadIdx.x;
            if (WHOLE || j < count) value[i] = load(j);
        }
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 j = i * THREADS + threadIdx.x;
            if (WHOLE || j < count) values[staggered(j)] = value[i];
        }
        __syncthreads();
        return values;
    }

  private:
    static constexpr u32 SOME = 3; // rows of keys in any order that are stored together

    // By rows of a warp, whose keys' runs are those that begin before, and in the row up to the key. Many rows may not be there.
    template <bool MANY_MISSING, class Out> __device__ void store_marked(const Out &out) {
        const Bits *keys = (const Bits *)s.exchange;
        u32 run = s.notes[Shape::MARKS + warp_id()] - 1, upto = (2u << lane_id()) - 1;
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += SOME) {
            u32 rows = min(SOME, ITEMS - row), first = warp_id() * ITEMS + row, j = first * WARP + lane_id();
            if ((!WHOLE || MANY_MISSING) && (first + rows) * WARP > count) { // no test for each of those that are there
                for (; j < count; j += WARP) {
                    u32 begins = s.notes[j / WARP];
                    out(s.to[run + __popc(begins & upto)] + j, keys[j]);
                    run += __popc(begins);
                }
                break;
            }
            Bits key[SOME];
            u32 begins[SOME];
#pragma unroll
            for (u32 i = 0; i < rows; i++) {
                key[i] = keys[j + i * WARP];
                begins[i] = s.notes[first + i];
            }
#pragma unroll
            for (u32 i = 0; i < rows; i++) {
                out(s.to[run + __popc(begins[i] & upto)] + (j + i * WARP), key[i]);
                run += __popc(begins[i]);
            }
        }
    }

    __device__ u32 *empty_bins() {
        u32 *bins = s.bins + warp_id() * BINS;
#pragma unroll
        for (u32 i = 0; i < BINS / WARP; i++) bins[i * WARP + lane_id()] = 0;
        __syncwarp();
        return bins;
    }

    // By a thread of each digit: its bins become what comes before them, from `before` on. How many keys there are in all.
    __device__ u32 column_before(u32 before) {
        u32 upto = before;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) {
            u32 own = s.bins[w * BINS + threadIdx.x];
            s.bins[w * BINS + threadIdx.x] = upto;
            upto += own;
        }
        return upto - before;
    }

    template <class D = Digit> __device__ void exchange() {
        const u32 *bins = RANKING == UNORDERED ? s.begin : s.bins + warp_id() * BINS;
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++)
            if (is_there(i)) {
                u32 d = place[i] >> PLACE_BITS;
                place[i] = (place[i] & MOST_PLACE) + bins[d];
                u32 slot = skewed(place[i]);
                if (!SOME_STAY<D> || d < BINS) ((Bits *)s.exchange)[slot] = key[i];
                if (RANKING == CHECKED) s.notes[slot] = Note(HAS_VALUES ? d << PLACE_BITS | at(i) : at(i));
            }
    }

  public:
    template <class D, class Load> static __device__ __noinline__ void place_apart(Shared &s, u32 count, D digit, Load load) {
        RadixTile t(s, count);
        t.load(load);
        t.rank_by_ballots(digit);
        __syncthreads();
        if (threadIdx.x < BINS) t.column_before(s.begin[threadIdx.x]);
        __syncthreads();
        t.exchange();
        __syncthreads();
    }

  private:
    // The lanes that answer all ballots alike have the same digit; the last of them counts for all.
    template <class D> __device__ void rank_by_ballots(D digit) {
        u32 *bins = empty_bins(), own = 1u << lane_id();
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) {
            u32 d = digit(key[i]), same = __ballot_sync(ALL_LANES, is_there(i));
            bool there = (same & own) != 0;
#pragma unroll
            for (u32 b = 0; b < DIGIT_BITS; b++) {
                u32 set = __ballot_sync(ALL_LANES, d >> b & 1);
                same &= d >> b & 1 ? set : ~set;
            }
            u32 before = __popc(same & (own - 1)), last = there ? WARP - 1 - __clz(same) : lane_id(), counted = 0;
            if (there && lane_id() == last) {
                counted = bins[d];
                bins[d] = counted + before + 1;
            }
            __syncwarp();
            place[i] = d << PLACE_BITS | (__shfl_sync(ALL_LANES, counted, last) + before);
        }
        __syncwarp();
    }

    // The same for some rows together, which takes fewer instructions and more registers.
    template <class D> __device__ void rank_rows(D digit) {
        u32 *bins = empty_bins(), lane = lane_id();
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (!__any_sync(ALL_LANES, is_there(row))) break;
            u32 same[ROWS];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 d = digit(key[i]), &lanes = same[i - row];
                place[i] = d << PLACE_BITS;
                lanes = __ballot_sync(ALL_LANES, is_there(i));
                // By halves: of tests of all bits of one register the compiler makes one instruction that sets seven predicates, which are all.
#pragma unroll
                for (u32 b = 0; b < DIGIT_BITS; b++) lanes &= alike(d >> b / 4 * 4, 1u << b % 4);
            }
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 lanes = same[i - row], &bin = bins[place[i] >> PLACE_BITS], rank = bin + __popc(lanes & ((1u << lane) - 1));
                place[i] += rank;
                __syncwarp();
                if (lanes >> lane == 1) bin = rank + 1;
                __syncwarp();
            }
        }
    }
};
