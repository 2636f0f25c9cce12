// Radix sort: one tile ranked by a digit of 8 bits, in a single step of 9, and scattered (`RadixTile`). All files of
// this folder but payload.cuh include this one.
//
// 1. load: each thread loads its keys and encodes them: unsigned integers in the order of the sort (`KeyOrder`).
// 2. rank: a key's rank among the keys of its warp, or of the block, that have its digit.
// 3. scatter: the block's histogram and its exclusive prefix give each key its position in the
//    tile. Keys go to shared memory, as runs of equal digits.
// 4. store: keys go to global memory, each run to where `receive` says; then the payload.
//
// Two sorts use it: passes, least significant digit first and stable (Adinets and Merrill 2022,
// "Onesweep"), and steps to buckets, most significant digit first (after Stehle and Jacobsen 2017,
// "A Memory Bandwidth-Efficient Hybrid Radix Sort on GPUs").
#pragma once
#include "core/warp_scan.cuh"
#include "sort/contract.cuh" // shared with the host: src/cuda/sort/contract.rs

// ---- order -------------------------------------------------------------------------------------

enum KeyKind { INTEGER, FLOAT };

// Keys as unsigned integers in the order of the sort. Floats are in IEEE 754's totalOrder, except
// that NaNs with the sign set come last of all. `flip` has the bits that are inverted then: the
// sign bit of signed integers and, for a descending sort, all bits.
template <class Bits, KeyKind KIND, Bits INFINITE> struct KeyOrder {
    static constexpr u32 SIGN_SHIFT = 8 * sizeof(Bits) - 1;
    static constexpr Bits SIGN = Bits(Bits(1) << SIGN_SHIFT), NANS = Bits(SIGN - 1 - INFINITE);
    // From one exponent to the next.
    static constexpr Bits GRAIN = KIND == FLOAT ? Bits(NANS + 1) : Bits(1);
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

// Keys that are encoded already.
struct Encoded {
    template <class Bits> __device__ Bits operator()(Bits key) const { return key; }
};

// ---- small pieces ------------------------------------------------------------------------------

__device__ inline u32 lane_id() { return threadIdx.x % WARP; }
__device__ inline u32 warp_id() { return threadIdx.x / WARP; }

// The lower half of a word as a signed integer, by one instruction: a cast takes two.
__device__ inline int lower_half(u32 x) {
    int low;
    asm("bfe.s32 %0, %1, 0, 16;" : "=r"(low) : "r"(x));
    return low;
}

// The lanes whose x has the same value of `bit` as this lane's: half the instructions of
// `__ballot_sync` and a select.
__device__ inline u32 lanes_with_equal_bit(u32 x, u32 bit) {
    u32 lanes;
    asm volatile("{\n"
                 ".reg .pred is_set;\n"
                 ".reg .u32 own;\n"
                 "and.b32 own, %1, %2;\n"
                 "setp.ne.u32 is_set, own, 0;\n"
                 "vote.sync.ballot.b32 %0, is_set, 0xffffffff;\n"
                 "@!is_set not.b32 %0, %0;\n"
                 "}"
                 : "=r"(lanes)
                 : "r"(x), "r"(bit));
    return lanes;
}

// Whether all lanes have the same x.
__device__ inline bool all_same(u32 x) { return __all_sync(ALL_LANES, x == __shfl_sync(ALL_LANES, x, 0)); }

// The inclusive prefix sum over the warp's lanes.
template <class T> __device__ inline T warp_inclusive_sum(T x) {
    u32 lane = lane_id();
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        T before = shuffle_up(x, distance);
        if (lane >= distance) x += before;
    }
    return x;
}

// The sum of the totals of all warps before this one. Lanes read them at once: a serial sum would
// wait for each read in turn.
__device__ inline u32 sum_of_earlier_warps(const u32 *totals) {
    return warp_add(lane_id() < warp_id() ? totals[lane_id()] : 0);
}

// A barrier of the block's first THREADS threads. The other threads call `pass_barrier_of_first`
// instead. racecheck does not follow a barrier of some threads, so with PARASCAN_CHECKED all
// threads take part, by two instructions for one barrier. synccheck would report that.
#ifndef PARASCAN_CHECKED
template <u32 THREADS> __device__ inline void barrier_of_first() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}
__device__ inline void pass_barrier_of_first() {}
#else
template <u32 THREADS> __device__ inline void barrier_of_first() { __syncthreads(); }
__device__ inline void pass_barrier_of_first() { __syncthreads(); }
#endif

// The exclusive prefix sum of x over threads. Called by the first THREADS threads of a block; takes
// one `barrier_of_first`.
template <u32 THREADS> __device__ inline u32 block_exclusive_sum(u32 x, u32 *totals) {
    u32 inclusive = warp_inclusive_sum(x);
    if (lane_id() == WARP - 1) totals[warp_id()] = inclusive;
    barrier_of_first<THREADS>();
    return inclusive - x + sum_of_earlier_warps(totals);
}

__device__ inline u32 load_relaxed(const u32 *p) {
    u32 x;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
__device__ inline void store_relaxed(u32 *p, u32 x) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

// By the whole block: whether it is the last of `parts` to finish. It then reads what all have written.
__device__ inline bool is_last_of(u32 *finished, u32 parts) {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = add_acquire_release(finished, 1) == parts - 1;
    __syncthreads();
    return is_last;
}

// The index of item j in an array of shared memory, swizzled: items a power of two apart lie in
// different banks.
__device__ inline u32 swizzled(u32 j) { return j ^ ((j >> 5 ^ j >> 10) & 31); }

// A digit of a key: the bits of `mask`, from bit `shift` on.
struct Digit {
    u32 shift, mask;
    template <class Bits> __device__ u32 operator()(Bits key) const { return u32(key >> shift) & mask; }
};
// A digit of a sort by all bits, least significant digit first.
struct SortedDigit : Digit {
    u64 sorted_bits; // of the digit, and those that the keys are in order of before
    template <class Bits> __device__ Bits sorted(Bits key) const { return key & Bits(sorted_bits); }
};

// The payload of a key: a word. Other payloads become words before the sort (sort/payload.cuh).
template <class Word> struct Payload {
    static constexpr u32 BYTES = sizeof(Word);
    static __device__ Payload index(u64 i) { return {Word(i)}; }
    Word word;
};
struct NoPayload { static constexpr u32 BYTES = 0; };

// ---- a tile ------------------------------------------------------------------------------------

// Whether a digit is looked up in tables in shared memory, which takes long. Then `digit.all` computes
// the digits of all keys before the first is counted, and an unordered tile loads its keys only after
// the tables have come, and keeps each key's digit beside it.
template <class D> constexpr bool IS_COSTLY = false;
// Whether the block translates its keys when all are encoded, by tables in the exchange: calls
// `encode.translate(exchange, keys)`.
template <class Encode> constexpr bool TRANSLATES = false;
// Whether some keys of an unordered tile stay where they are. Their digit is DIGITS + lane, so that lanes
// do not contend for a bin.
template <class D> constexpr bool SOME_STAY = false;
constexpr u32 STAY_BINS = WARP;

// How keys are ranked: among the keys of their warp, or of the block if UNORDERED.
enum Ranking {
    BALLOTS, // stable: a ballot for each bit of a key's digit; rows of a tile with few keys are spread over the warps
    // Stable: one atomic addition a key. CUDA promises no order of the lanes of one addition, so
    // `store` checks the order, and the block ranks again by ballots if it is wrong.
    CHECKED, // by source positions
    SORTED,  // keys-only with a `SortedDigit`: by the bits that are sorted
    UNORDERED // not stable: one atomic addition a key in the block's histogram
};

// A tile. Item i of a lane comes before item i + 1 of any lane of its warp, and warps come one after the other.
// DIGITS: more than BINS only if digits are not costly, since the tags of an unordered tile are bytes.
//
// A partial tile has fewer than TILE keys. A missing key, neither loaded nor stored, has digit DIGITS
// and goes to its own place in the tile, which is behind all keys. So whole and partial tiles share one
// exchange. Ballots leave missing keys out.
template <class Bits_, class Value_, u32 THREADS_, u32 ITEMS_, Ranking RANKING, u32 DIGITS_ = BINS> struct RadixTile {
    typedef Bits_ Bits;
    typedef Value_ Value;
    static constexpr u32 THREADS = THREADS_, ITEMS = ITEMS_, WARPS = THREADS / WARP, TILE = THREADS * ITEMS,
                         DIGITS = DIGITS_;
    static constexpr bool HAS_VALUES = Value::BYTES > 0, IS_SORTED = RANKING == SORTED,
                          IS_CHECKED = RANKING == CHECKED || IS_SORTED;
    static_assert(THREADS >= DIGITS && TILE <= 65536, "a thread for each digit, 16 bits for a position");
    static_assert(!IS_SORTED || !HAS_VALUES, "equal keys may change places");
    static constexpr u32 POSITION_BITS = 16, POSITION_MASK = (1 << POSITION_BITS) - 1;
    static constexpr u32 ROWS = ITEMS < 2 ? ITEMS : 2; // ranked at once
    // If a run is longer, rows of a warp often lie in one run.
    static constexpr u32 LONG_RUN = TILE / 72;
    // Keys of a thread that one step of a whole tile's store loop handles. With a payload two are
    // faster; for the payload itself all are, if any run is long.
    static constexpr u32 STORE_UNROLL = HAS_VALUES ? 2 : ITEMS;
    // One item is left out after every 32. Without it keys that rise by one share half of the
    // banks, or one bank if the tile is a multiple of 4096 long. With a payload, random keys lose
    // by it what other keys gain, so there only the second case has it.
    static constexpr bool PADDED = IS_CHECKED && (ITEMS % 8 == 0 || !HAS_VALUES);
    static constexpr u32 PADDED_TILE = TILE + (PADDED ? TILE / WARP : 0);
    static __device__ u32 padded(u32 j) { return PADDED ? j + j / WARP : j; }
    // `padded(i * THREADS + threadIdx.x)`. Its second term is the same for all i.
    static __device__ u32 padded_row(u32 i) {
        return i * (PADDED ? THREADS + THREADS / WARP : THREADS) + padded(threadIdx.x);
    }
    // A key's tag: its source position in the tile and, above it if a pass has a payload, its
    // digit. In an unordered tile its digit alone.
    typedef typename IfElse<HAS_VALUES && RANKING == CHECKED, u32,
                            typename IfElse<RANKING == UNORDERED, u8, u16>::Type>::Type TagWord;
    static constexpr bool HAS_TAGS = RANKING == CHECKED || (RANKING == UNORDERED ? DIGITS == BINS : HAS_VALUES);
    // A warp's counters: one for each digit and, if checked, a zero for digit DIGITS.
    static constexpr u32 WARP_BINS = DIGITS + (IS_CHECKED ? 1 : 0);

    struct Shared {
        // item j at `padded(j)`
        alignas(16) char exchange[PADDED_TILE * (sizeof(Bits) > Value::BYTES ? sizeof(Bits) : Value::BYTES)];
        TagWord tags[HAS_TAGS ? PADDED_TILE : 2];
        // The histogram by warp, later where each warp's keys of a digit begin in the tile. If
        // UNORDERED, the block's histogram.
        alignas(RANKING == BALLOTS ? 16 : 4) u32 bins[RANKING == UNORDERED ? DIGITS + STAY_BINS : WARPS * WARP_BINS];
        // Where a digit's run begins in the tile. Behind the digits: the end and, if UNORDERED, room for
        // the bins of keys that stay.
        u32 begin[DIGITS + (RANKING == UNORDERED ? STAY_BINS : 1)];
        // By digit: item j of the tile goes to `to + j` in the output.
        u64 to[DIGITS];
        u32 totals[DIGITS / WARP];
        u32 tile;
    };

    Shared &s;
    u32 count; // keys of the tile; after `scatter` without those that stay
    // BALLOTS: the position of this thread's first key, and the end of its warp's keys.
    u32 own_first, own_end;
    bool has_long_run; // whether any run is longer than LONG_RUN
    Bits key[ITEMS];
    u32 position[ITEMS]; // in the tile; before that is known, digit << POSITION_BITS | rank

    __device__ RadixTile(Shared &s, u32 count) : s(s), count(count) {
        if constexpr (RANKING == BALLOTS) {
            // Rows of each warp that has any.
            u32 rows = min(ITEMS, (count + THREADS * ROWS - 1) / (THREADS * ROWS) * ROWS);
            own_first = warp_id() * rows * WARP + lane_id();
            own_end = min(count, (warp_id() + 1) * rows * WARP);
        }
    }

    __device__ u32 first() const { return RANKING == BALLOTS ? own_first : warp_id() * ITEMS * WARP + lane_id(); }
    __device__ u32 end() const { return RANKING == BALLOTS ? own_end : count; }

    // The position of this thread's item i in the input tile.
    __device__ u32 at(u32 i) const {
        return RANKING == BALLOTS ? first() + i * WARP : (warp_id() * ITEMS + i) * WARP + lane_id();
    }
    __device__ bool is_there(u32 i) const { return at(i) < end(); }
    __device__ bool is_whole() const { return count == TILE; }

    // Calls `f(i)` by all lanes for each row in which the warp has a key.
    template <class F> __device__ void each(const F &f) const {
#pragma unroll
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (!__any_sync(ALL_LANES, is_there(row))) break;
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) f(i);
        }
    }
    // Calls `f(i, j, is_there)` for each of this thread's items of the exchange: item i is number j. The loop
    // of a partial tile is short: a whole tile jumps over its code, which is fetched all the same.
    template <u32 UNROLL, u32 PARTIAL_UNROLL = 1, class F> __device__ void each_exchanged(const F &f) const {
        if (is_whole()) {
#pragma unroll UNROLL
            for (u32 i = 0; i < ITEMS; i++) f(i, i * THREADS + threadIdx.x, true);
        } else {
#pragma unroll PARTIAL_UNROLL
            for (u32 i = 0; i < ITEMS; i++) f(i, i * THREADS + threadIdx.x, i * THREADS + threadIdx.x < count);
        }
    }

    // Loads the keys, and encodes them in a loop of its own, so that all loads are issued first. Of two loops of
    // loads that are alike the compiler would make one, with an address for each key.
    template <u32 UNROLL = ITEMS, class Encode> __device__ void load(const Bits *from, const Encode &encode) {
        if (UNROLL == ITEMS && is_whole()) {
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) key[i] = from[at(i)];
        } else {
#pragma unroll UNROLL
            for (u32 i = 0; i < ITEMS; i++) key[i] = is_there(i) ? from[at(i)] : Bits(0);
        }
#pragma unroll UNROLL
        for (u32 i = 0; i < ITEMS; i++) key[i] = encode(key[i]);
        if constexpr (TRANSLATES<Encode>) encode.template translate<ITEMS>(s.exchange, key);
    }

    // Clears the block's histogram. A barrier must follow before an unordered tile is ranked.
    __device__ void clear_block_bins() {
        static_assert(RANKING == UNORDERED, "others are counted by warp");
#pragma unroll
        for (u32 first = 0; first < DIGITS + STAY_BINS; first += THREADS)
            if (u32 i = first + threadIdx.x; i < DIGITS + STAY_BINS) s.bins[i] = 0;
    }

    // Ranks the keys: `position[i]` becomes digit << POSITION_BITS | rank, `bins` the histogram.
    template <class D> __device__ void rank(D digit) {
        if constexpr (RANKING == BALLOTS) {
            rank_by_ballots(digit);
        } else {
            u32 *bins = RANKING == UNORDERED ? s.bins : clear_warp_bins();
            if constexpr (IS_COSTLY<D>) { // more at once take too many registers
                constexpr u32 GROUP = 4, REST = ITEMS % GROUP;
#pragma unroll
                for (u32 i = 0; i + GROUP <= ITEMS; i += GROUP) digit.template all<GROUP>(key + i, position + i);
                if constexpr (REST > 0) digit.template all<REST>(key + (ITEMS - REST), position + (ITEMS - REST));
            }
            // Other digits are computed key by key: a warp ranks its first keys while later ones are loading.
            auto digit_of = [&](u32 i) { return IS_COSTLY<D> ? position[i] : digit(key[i]); };
            auto rank_one = [&](u32 i, u32 d) { position[i] = d << POSITION_BITS | atomicAdd(bins + d, 1); };
            // Additions to one counter are served one after the other. If all keys of a row of a whole tile, or
            // of all its rows, have one digit, one lane adds for all.
            if (u32 one = digit_of(0); is_whole() && all_same(one)) {
                bool alike = true;
#pragma unroll
                for (u32 i = 1; i < ITEMS; i++) alike &= digit_of(i) == one;
                if (__all_sync(ALL_LANES, alike)) {
                    u32 before = lane_id() == 0 ? atomicAdd(bins + one, WARP * ITEMS) : 0;
                    before = __shfl_sync(ALL_LANES, before, 0) + lane_id();
#pragma unroll
                    for (u32 i = 0; i < ITEMS; i++) position[i] = one << POSITION_BITS | (before + i * WARP);
                    return;
                }
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    u32 d = digit_of(i);
                    if (all_same(d)) {
                        u32 before = lane_id() == 0 ? atomicAdd(bins + d, WARP) : 0;
                        position[i] = d << POSITION_BITS | (__shfl_sync(ALL_LANES, before, 0) + lane_id());
                    } else {
                        rank_one(i, d);
                    }
                    __syncwarp();
                }
                return;
            }
            if (is_whole()) {
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) rank_one(i, digit_of(i));
            } else {
                // To the place of a missing key `exchange` adds nothing or, if UNORDERED, the number of keys.
#pragma unroll
                for (u32 i = 0; i < ITEMS; i++) {
                    if (is_there(i)) rank_one(i, digit_of(i));
                    else position[i] = DIGITS << POSITION_BITS | (RANKING == UNORDERED ? at(i) - count : at(i));
                }
            }
        }
    }

    // Turns ranks into positions and writes the keys to shared memory. One thread a digit calls
    // `publish(digit, total)` as soon as the digit is counted, and later `receive(digit, total)`,
    // which returns where the run goes in the output.
    template <class D = Digit, class Publish, class Receive>
    __device__ void scatter(const Publish &publish, const Receive &receive) {
        static_assert(RANKING != BALLOTS, "`move` is for these");
        __syncthreads();
        u32 total = 0, d = threadIdx.x;
        if (d < DIGITS) {
            total = RANKING == UNORDERED ? s.bins[d] : scan_column(0);
            publish(d, total);
            u32 start = block_exclusive_sum<DIGITS>(total, s.totals);
            s.begin[d] = start;
            if (d == DIGITS - 1) s.begin[DIGITS] = start + total; // all keys, but for those that stay
            if (RANKING != UNORDERED) {
#pragma unroll
                for (u32 w = 0; w < WARPS; w++) s.bins[w * WARP_BINS + d] += start;
            }
        } else {
            pass_barrier_of_first();
        }
        has_long_run = __syncthreads_or(total > LONG_RUN);
#pragma unroll
        for (u32 i = 0; i < ITEMS; i++) exchange<D>(i);
        if (SOME_STAY<D>) count = s.begin[DIGITS];
        if (d < DIGITS) s.to[d] = receive(d, total) - s.begin[d];
        __syncthreads();
    }

    // The same for a tile sorted by itself, whose runs are not needed afterwards. Each thread gets
    // keys back in the new order, with their source positions.
    __device__ void move(TagWord *source) {
        static_assert(RANKING == BALLOTS && DIGITS == BINS, "keys of a thread begin at `first`");
        __syncthreads();
        u32 d = threadIdx.x;
        if (d < BINS) {
            u32 own[WARPS], total = 0;
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) total += own[w] = s.bins[w * WARP_BINS + d];
            u32 next = block_exclusive_sum<BINS>(total, s.totals);
#pragma unroll
            for (u32 w = 0; w < WARPS; w++) {
                s.bins[w * WARP_BINS + d] = next;
                next += own[w];
            }
        } else {
            pass_barrier_of_first();
        }
        __syncthreads();
        Bits *keys = (Bits *)s.exchange;
        const u32 *bins = s.bins + warp_id() * WARP_BINS;
        each([&](u32 i) { position[i] = (position[i] & POSITION_MASK) + bins[position[i] >> POSITION_BITS]; });
        each([&](u32 i) {
            if (!is_there(i)) return;
            keys[position[i]] = key[i];
            if constexpr (HAS_VALUES) s.tags[position[i]] = source[i];
        });
        __syncthreads();
        each([&](u32 i) {
            key[i] = (keys + first())[i * WARP];
            if constexpr (HAS_VALUES) source[i] = is_there(i) ? (s.tags + first())[i * WARP] : 0;
        });
    }

    // Ranks and moves the keys by a digit whose stability cannot be observed. The block shares one
    // histogram, kept in 8 copies to reduce contention.
    template <class D> __device__ void move_unordered(D digit) {
        constexpr u32 COPIES = 8, IN_VECTOR = sizeof(Vector) / sizeof(u32);
        static_assert(COPIES <= WARPS && DIGITS == BINS, "room for all counters");
        Vector *vectors = (Vector *)s.bins;
        for (u32 i = threadIdx.x; i < BINS * COPIES / IN_VECTOR; i += THREADS) vectors[i] = Vector{{0, 0, 0, 0}};
        u32 *bins = s.bins + lane_id() % COPIES;
        __syncthreads();
        each([&](u32 i) {
            if (is_there(i)) position[i] = atomicAdd(bins + digit(key[i]) * COPIES, 1);
        });
        __syncthreads();
        if (threadIdx.x < BINS) {
            u32 own[COPIES], total = 0;
#pragma unroll
            for (u32 v = 0; v < COPIES / IN_VECTOR; v++)
                memcpy(own + v * IN_VECTOR, vectors + threadIdx.x * (COPIES / IN_VECTOR) + v, sizeof(Vector));
#pragma unroll
            for (u32 c = 0; c < COPIES; c++) total += own[c];
            u32 next = block_exclusive_sum<BINS>(total, s.totals);
#pragma unroll
            for (u32 c = 0; c < COPIES; c++) {
                u32 keys = own[c];
                own[c] = next;
                next += keys;
            }
#pragma unroll
            for (u32 v = 0; v < COPIES / IN_VECTOR; v++)
                memcpy(vectors + threadIdx.x * (COPIES / IN_VECTOR) + v, own + v * IN_VECTOR, sizeof(Vector));
        } else {
            pass_barrier_of_first();
        }
        __syncthreads();
        Bits *keys = (Bits *)s.exchange;
        each([&](u32 i) {
            if (is_there(i)) keys[position[i] + bins[digit(key[i]) * COPIES]] = key[i];
        });
        __syncthreads();
        each([&](u32 i) { key[i] = (keys + first())[i * WARP]; });
    }

    // Stores the keys in the order of the tile: calls `out(index, key)` for each. Returns whether
    // any two neighbours are out of order.
    template <class D, class Out> __device__ bool store(D digit, const Out &out) {
        static_assert(IS_CHECKED, "others are not checked");
        const Bits *keys = (const Bits *)s.exchange;
        // Rises along a tile that is ranked stably. A sorted tile came in order of the lower digits.
        auto rising = [&](u32 index, Bits key) {
            if constexpr (RANKING == SORTED) return digit.sorted(key);
            else return HAS_VALUES ? u32(s.tags[index]) : digit(key) << POSITION_BITS | s.tags[index];
        };
        bool disorder = false;
        each_exchanged<STORE_UNROLL>([&](u32 i, u32 j, bool there) {
            u32 index = padded_row(i);
            decltype(rising(0, Bits(0))) own = 0;
            if (there) {
                Bits key = keys[index];
                own = rising(index, key);
                out(s.to[RANKING == SORTED ? digit(key) : u32(own) >> POSITION_BITS] + j, key);
            }
            auto previous = __shfl_up_sync(ALL_LANES, own, 1);
            u32 previous_index = index - (PADDED ? 2 : 1); // for lane 0
            if (lane_id() == 0 && j > 0 && there) previous = rising(previous_index, keys[previous_index]);
            disorder |= there && j > 0 && own < previous;
        });
        return disorder;
    }

    // Stores an unordered tile.
    template <class D, class Out> __device__ void store_unordered(D digit, const Out &out) {
        static_assert(RANKING == UNORDERED, "no padding");
        const Bits *keys = (const Bits *)s.exchange;
        // If keys stay, a whole tile takes the loop of a partial one.
        each_exchanged<ITEMS, SOME_STAY<D> ? ITEMS : 1>([&](u32, u32 j, bool there) {
            if (!there) return;
            Bits key = keys[j];
            out(s.to[IS_COSTLY<D> ? u32(s.tags[j]) : digit(key)] + j, key);
        });
    }

    // Stores the payload after the keys: calls `out(index, source position)` for each key.
    template <class Out> __device__ void store_values(const Out &out) const {
        if (has_long_run) store_values_by<ITEMS>(out);
        else store_values_by<STORE_UNROLL>(out);
    }
    template <u32 BY, class Out> __device__ void store_values_by(const Out &out) const {
        each_exchanged<BY>([&](u32 i, u32 j, bool there) {
            if (!there) return;
            u32 tag = s.tags[padded_row(i)];
            out(s.to[tag >> POSITION_BITS] + j, tag & POSITION_MASK);
        });
    }

    // Ranks once more, by ballots. Called by the whole block, when the exchange is not read any
    // more. Outlined, so that it takes no registers from the common path. Its loops over keys are not unrolled:
    // no GPU tested has come here.
    template <class D, class Encode> __device__ void rank_again(D digit, const Bits *from, const Encode &encode) {
        rank_again_outlined(s, count, digit, from, encode);
    }

    // Copies the tile's payload to the exchange, item j to `swizzled(j)`.
    __device__ Value *load_values(const Value *from) {
        Value *values = (Value *)s.exchange;
        __syncthreads(); // the keys are stored
        if (is_whole()) {
            Value value[ITEMS]; // all loads are issued before the first store
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) value[i] = from[i * THREADS + threadIdx.x];
#pragma unroll
            for (u32 i = 0; i < ITEMS; i++) values[swizzled(i * THREADS + threadIdx.x)] = value[i];
        } else {
#pragma unroll 4
            for (u32 j = threadIdx.x; j < count; j += THREADS) copy_item_to_shared(values + swizzled(j), from + j);
            wait_for_copies();
        }
        __syncthreads();
        return values;
    }

  private:
    __device__ u32 *clear_warp_bins() {
        u32 *bins = s.bins + warp_id() * WARP_BINS;
#pragma unroll
        for (u32 i = 0; i < DIGITS / WARP; i++) bins[i * WARP + lane_id()] = 0;
        if (IS_CHECKED && lane_id() == 0) bins[DIGITS] = 0;
        __syncwarp();
        return bins;
    }

    // Called by one thread a digit: turns the digit's count in each warp into an exclusive prefix
    // that begins at `before`. Returns the digit's total.
    __device__ u32 scan_column(u32 before) {
        u32 next = before;
#pragma unroll
        for (u32 w = 0; w < WARPS; w++) {
            u32 own = s.bins[w * WARP_BINS + threadIdx.x];
            s.bins[w * WARP_BINS + threadIdx.x] = next;
            next += own;
        }
        return next - before;
    }

    // Writes key i to the exchange.
    template <class D = Digit> __device__ void exchange(u32 i) {
        static_assert(!IS_COSTLY<D> || HAS_TAGS, "tags hold the digits");
        const u32 *bins = RANKING == UNORDERED ? s.begin : s.bins + warp_id() * WARP_BINS;
        u32 d = position[i] >> POSITION_BITS;
        position[i] = (position[i] & POSITION_MASK) + bins[d];
        u32 index = padded(position[i]);
        if (!SOME_STAY<D> || d < DIGITS) {
            ((Bits *)s.exchange)[index] = key[i];
            if (IS_COSTLY<D>) s.tags[index] = TagWord(d);
        }
        if (RANKING == CHECKED) s.tags[index] = TagWord(HAS_VALUES ? d << POSITION_BITS | at(i) : at(i));
    }

    template <class D, class Encode>
    static __device__ __noinline__ void rank_again_outlined(Shared &s, u32 count, D digit, const Bits *from,
                                                            Encode encode) {
        RadixTile t(s, count);
        t.template load<1>(from, encode);
        t.template rank_by_ballots<1>(digit);
        __syncthreads();
        if (threadIdx.x < DIGITS) t.scan_column(s.begin[threadIdx.x]);
        __syncthreads();
#pragma unroll 1
        for (u32 i = 0; i < ITEMS; i++)
            if (t.is_there(i)) t.exchange(i);
        __syncthreads();
    }

    // Lanes that agree in all ballots have the same digit. ROWS rows at once.
    template <u32 UNROLL = ITEMS, class D> __device__ void rank_by_ballots(D digit) {
        u32 *bins = clear_warp_bins(), lane = lane_id();
#pragma unroll UNROLL
        for (u32 row = 0; row < ITEMS; row += ROWS) {
            if (!__any_sync(ALL_LANES, is_there(row))) break;
            u32 same[ROWS];
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 d = digit(key[i]), &lanes = same[i - row];
                position[i] = d << POSITION_BITS;
                lanes = __ballot_sync(ALL_LANES, is_there(i));
                // The digit is tested in parts of 4 bits. If 8 tests read one register, the compiler
                // makes one instruction of them that sets seven predicates, which is all that there
                // are.
#pragma unroll
                for (u32 b = 0; 1 << b < DIGITS; b++) lanes &= lanes_with_equal_bit(d >> b / 4 * 4, 1u << b % 4);
            }
#pragma unroll
            for (u32 i = row; i < row + ROWS && i < ITEMS; i++) {
                u32 lanes = same[i - row], &bin = bins[position[i] >> POSITION_BITS],
                    rank = bin + __popc(lanes & ((1u << lane) - 1));
                position[i] += rank;
                __syncwarp();
                if (lanes >> lane == 1) bin = rank + 1;
                __syncwarp();
            }
        }
    }
};
