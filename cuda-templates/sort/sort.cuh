// Radix sort: the passes, the sort by one block, and the output from counts. The kernels of
// sort/kernels.cuh of the same names call these functions.
//
// 1. sort_count: one read of the keys counts the digits of all passes, and few distinct keys
//    (distinct_keys.cuh). The block that finishes last plans the passes: where each digit begins, and which
//    passes are skipped.
// 2. sort_passes: counts, then pass after pass in the same launch. Each tile ranks its keys, looks
//    back digit by digit, and scatters. In the first pass of keys-only by all bits it claims its runs
//    instead. Of few distinct keys, keys-only take no pass, and other keys go by their ranks.
//
// A tile waits only for work with lower tickets. Running blocks have drawn it, so it ends.
// sort_small sorts all keys in one block, sort_fill writes keys of one or two bytes from counts.
#pragma once
#include "sort/plan.cuh"

// ---- passes, least significant digit first -----------------------------------------------------

// A digit for `tile_in_any_order`, which needs no map.
struct PlainDigit : Digit {
    __device__ bool prepare() const {
        __syncthreads(); // the bins are clear
        return true;
    }
};

// Look-back words, of 32 bits or of 64. Zero: not published. Otherwise one more than the tile's aggregate or, with
// INCLUSIVE set, one more than its inclusive prefix.
template <class Word> constexpr Word INCLUSIVE = Word(1) << (8 * sizeof(Word) - 1);

// The exclusive prefix of a digit at `tile`, whose word of the digit is `own`. If all tiles run at
// once, a tile finds many aggregates before the first prefix. One after the other each takes the
// latency of the L2 cache, so AHEAD words are loaded at once. A tile has DIGITS words.
template <u32 AHEAD, u32 DIGITS, class Word> __device__ inline Word look_back(const Word *own, u32 tile) {
    constexpr Word COUNT_MASK = INCLUSIVE<Word> - 1;
    Word earlier = 0;
    if constexpr (AHEAD == 1) {
        for (;;) {
            own -= DIGITS;
            Word seen;
            do seen = load_relaxed(own);
            while (seen == 0);
            earlier += (seen & COUNT_MASK) - 1;
            if (seen & INCLUSIVE<Word>) return earlier; // the first tile's word always is
        }
    } else {
        for (u32 back = 1;; back += AHEAD) { // in tiles
            Word seen[AHEAD];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) seen[k] = back + k > tile ? 0 : load_relaxed(own - Word(back + k) * DIGITS);
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                while (seen[k] == 0) seen[k] = load_relaxed(own - Word(back + k) * DIGITS);
                earlier += (seen[k] & COUNT_MASK) - 1;
                if (seen[k] & INCLUSIVE<Word>) return earlier;
            }
        }
    }
}

// The look-back words of a tile, one a digit, and the number of tiles before it.
template <class Word, u32 DIGITS = BINS> struct LookBackDigits {
    Word *own;
    u32 tile;

    __device__ void publish(u32 d, u32 total) const {
        store_relaxed(own + d, (tile == 0 ? INCLUSIVE<Word> : 0) | (Word(total) + 1));
    }
    // Returns the exclusive prefix of a digit, and publishes the inclusive one.
    template <u32 AHEAD> __device__ Word receive(u32 d, u32 total) const {
        if (tile == 0) return 0;
        Word earlier = look_back<AHEAD, DIGITS>(own + d, tile);
        store_relaxed(own + d, INCLUSIVE<Word> | (earlier + total + 1));
        return earlier;
    }
};

// A mark on an index of the output: the key stored there needs no further sort.
constexpr u64 DONE = 1ull << 63;

// Where the payload goes whose key goes to `index`. The mark drops out of the address.
template <class Value> __device__ inline Value &payload_at(Value *out, u64 index) { return out[index]; }

// Sorts a tile stably by a digit: keys from `from`, by `encode`, to `put(index, key)`, the payload from
// `values` to `values_out`. If `values` is null, the payload is the source indices, from `first`
// on. `left`: the keys from the tile's first one on. `chain.publish(digit, total)` tells later tiles; `receive(digit,
// total)`, called after it, returns where the digit's run goes.
template <class Tile, class D, class Encode, class Put, class Out, class Chain, class Receive>
__device__ inline void stable_tile(typename Tile::Shared &s, u64 left, D digit, const typename Tile::Bits *from,
                                   const Encode &encode, const Put &put, const typename Tile::Value *values, u64 first,
                                   Out values_out, const Chain &chain, const Receive &receive) {
    typedef typename Tile::Value Value;
    Tile t(s, u32(min(left, u64(Tile::TILE))));
    t.load(from, encode);
    t.rank(digit);
    t.scatter([=](u32 d, u32 total) { chain.publish(d, total); }, receive);
    if (__syncthreads_or(t.store(digit, put))) {
        t.rank_again(digit, from, encode);
        t.store(digit, put);
    }
    if constexpr (Tile::HAS_VALUES) {
        if (values == nullptr) {
            t.store_values([=](u64 index, u32 at) { payload_at(values_out, index) = Value::index(first + at); });
        } else {
            const Value *staged = t.load_values(values);
            t.store_values([=](u64 index, u32 at) { payload_at(values_out, index) = staged[swizzled(at)]; });
        }
    }
}

// Keys-only: scatters a tile in any order. `claim(digit, total)` returns the position of a digit's
// run. Returns false, and moves nothing, if `digit.prepare()` finds no map.
template <class Tile, class D, class Encode, class Put, class Claim>
__device__ inline bool tile_in_any_order(typename Tile::Shared &s, u64 left, D digit, const typename Tile::Bits *from,
                                         const Encode &encode, const Put &put, const Claim &claim) {
    Tile t(s, u32(min(left, u64(Tile::TILE))));
    if (!IS_COSTLY<D>) t.load(from, encode);
    t.clear_block_bins();
    if (!digit.prepare()) return false; // after the loads are issued
    if (IS_COSTLY<D>) t.load(from, encode);
    t.rank(digit);
    u64 position = 0;
    t.template scatter<D>([&](u32 d, u32 total) { position = total ? claim(d, total) : 0; },
                          [&](u32, u32) { return position; });
    t.store_unordered(digit, put);
    return true;
}

// Waits until a counter of finished work, which other blocks add to, is at least `least`.
__device__ inline void wait_for(const u32 *counter, u32 least) {
    while (load_relaxed(counter) < least) {}
    __threadfence();
}

// The tiles of the passes, in rounds: a round has as many tiles of a pass as there are look-back
// words for. In shared memory, so that it takes no registers while keys are ranked.
struct PassTiles {
    IndexRange<u64> keys;
    u32 of_pass, before; // tiles of a pass, and those of the pass before the round
    u32 most, here;      // tiles of any round, and of this one
    u32 begin;           // ticket of the round's first tile
    u32 run, parity;     // the round's pass, of those that run; of the round's number
    u32 running, done;   // passes that run; tiles of the round that the block has done
    u32 distinct;        // distinct keys, if the sort is by these
    // Called by one thread. `at_once`: tiles that have look-back words.
    __device__ void set(IndexRange<u64> range, u32 tiles, u32 at_once, u32 first_ticket) {
        keys = range;
        of_pass = tiles;
        most = here = min(tiles, at_once);
        begin = first_ticket;
        before = run = parity = done = 0;
    }
    __device__ bool has(u32 ticket) const { return ticket - begin < here; }
    // Goes on to the ticket's round when the one before is over: called by one thread. `finished`:
    // tiles of all rounds. Outlined, so that it takes no registers from the tiles.
    __device__ __noinline__ void change_round(u32 ticket, u32 *finished, u32 first_ticket) {
        u32 own = done;
        next_round();
        if (run >= running) return; // no round waits for the last one
        __threadfence();
        if (own > 0) add_relaxed(finished, own);
        while (!has(ticket)) next_round();
        if (run < running) wait_for(finished, begin - first_ticket);
    }

  private:
    __device__ void next_round() {
        begin += here;
        before += here;
        parity ^= 1;
        if (before == of_pass) before = 0, run++;
        here = min(of_pass - before, most);
        done = 0;
    }
};

// Whether distinct keys are counted. A shorter key has few digits anyway, and a tile of keys-only that is not sorted
// sorts by some bits, so that equal ones may differ.
template <class Tile>
constexpr bool COUNTS_DISTINCT = sizeof(typename Tile::Bits) >= 4 && (Tile::HAS_VALUES || Tile::IS_SORTED);

// A round of a pass, over all keys or those that buckets left. With a sorted tile, for keys-only by all
// bits, the first pass is unordered. With a payload and few distinct keys the digits are those of a key's rank among
// them. A round uses the look-back words of its parity, and clears the other words for the next round.
template <class Order, class Tile> struct SortPass {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    const SortCall &call;
    SortPlan<Bits> &plan;
    const PassTiles &tiles;
    u32 pass, parity;
    bool is_first, is_last; // reads the input; writes the output
    u32 to;

    __device__ SortPass(const SortCall &call, SortPlan<Bits> &plan, const PassTiles &tiles)
        : call(call), plan(plan), tiles(tiles), pass(plan.which[tiles.run]), parity(tiles.parity),
          is_first(tiles.run == 0 && tiles.keys.count == call.n), is_last(tiles.run == tiles.running - 1),
          to((tiles.running - 1 - tiles.run) % 2) {}

    // Look-back words that are loaded at once: tiles that run at the same time find few prefixes.
    static constexpr u32 AHEAD = Tile::TILE <= 4096 ? 8 : 4;

    // Sorts tile `tile` of the round.
    __device__ void run(typename Tile::Shared &s, u32 tile) const {
        Order order{Bits(call.flip)};
        u32 *words = parity ? call.words[1] : call.words[0], *other = parity ? call.words[0] : call.words[1];
        if (threadIdx.x < BINS)
            for (u32 row = tile; row < tiles.most; row += tiles.here) other[u64(row) * BINS + threadIdx.x] = 0;
        u64 first = tiles.keys.first + u64(tiles.before + tile) * Tile::TILE,
            left = tiles.keys.first + tiles.keys.count - first;
        LookBackDigits<u32> chain{words + u64(tile) * BINS, tile};
        u64 *carried = plan.carried[parity];
        const u64 *starts = tiles.before == 0 ? plan.starts[pass] : plan.carried[1 - parity];
        bool carries = tile == tiles.here - 1;
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
        auto encode = [=](Bits key) { return is_first ? order.to(key) : key; };
        auto put = [=](u64 index, Bits key) {
            if (!unwanted) out[index] = is_last ? order.from(key) : key;
        };
        if (Tile::HAS_VALUES && values)
            prefetch_lines<Tile::THREADS>(values + first, u32(min(left, u64(Tile::TILE))) * Value::BYTES);
        if constexpr (!Tile::IS_SORTED) {
            Value *values_out = (Value *)(to ? call.values[1] : call.values[0]);
            if (values) values += first;
            if constexpr (COUNTS_DISTINCT<Tile>) {
                bool by_rank = tiles.distinct > 0;
                const DistinctKeys<Bits> *distinct = (const DistinctKeys<Bits> *)call.distinct;
                EncodeRanks<decltype(encode)> to_ranks{encode, by_rank && tiles.run == 0 ? &distinct->ranks : nullptr};
                auto put_key = [=](u64 index, Bits key_or_rank) {
                    put(index, is_last && by_rank ? distinct->keys[key_or_rank] : key_or_rank);
                };
                Digit digit = by_rank ? Digit{pass * DIGIT_BITS, BINS - 1} : digit_of(call, pass);
                stable_tile<Tile>(s, left, digit, from, to_ranks, put_key, values, first, values_out, chain, receive);
            } else {
                stable_tile<Tile>(s, left, digit_of(call, pass), from, encode, put, values, first, values_out, chain,
                                  receive);
            }
        } else if (tiles.run > 0) {
            stable_tile<Tile>(s, left, sorted_digit(call, pass), from, encode, put, nullptr, first, (Value *)nullptr,
                              chain, receive);
        } else { // the keys are in no order yet
            typedef RadixTile<Bits, Value, Tile::THREADS, Tile::ITEMS, UNORDERED> Unordered;
            static_assert(sizeof(typename Unordered::Shared) <= sizeof(s), "they share memory");
            u64 *next = plan.starts[pass];
            tile_in_any_order<Unordered>(*(typename Unordered::Shared *)&s, left, PlainDigit{digit_of(call, pass)},
                                         from, encode, put,
                                         [=](u32 d, u32 total) { return atomicAdd(next + d, u64(total)); });
        }
    }
};

// Draws the next ticket, by the whole block. Tickets go on past the last piece of work.
__device__ inline u32 draw(u32 *ticket) {
    __shared__ u32 drawn;
    __syncthreads();
    if (threadIdx.x == 0) drawn = add_relaxed(ticket, 1);
    __syncthreads();
    return drawn;
}

// All passes. Tickets draw the work in order: parts of the keys to count, then tile after tile,
// round after round. A block that draws a tile waits until the round before is over. What it waits
// for was drawn before, by running blocks, so it ends however few blocks there are.
template <class Order, class Tile> __device__ void sort_passes(Vector *memory, const SortCall &call) {
    typedef typename Tile::Bits Bits;
    typedef DistinctKeys<Bits> Distinct;
    constexpr u32 LOG_FEW = COUNTS_DISTINCT<Tile> ? log_few<Bits>(sizeof(typename Tile::Shared)) : 0;
    typedef Counters<Bits, LOG_FEW> Counting;
    static_assert(COUNTS_DISTINCT<Tile> == (LOG_FEW > 0), "there is room for a table");
    static_assert(sizeof(typename Tile::Shared) >= sizeof(Counting) &&
                      (!COUNTS_DISTINCT<Tile> || (sizeof(typename Tile::Shared) >= sizeof(typename Distinct::Shared) &&
                                                  sizeof(Tile::Shared::exchange) >= sizeof(RankTable))),
                  "they share memory");
    SortPlan<Bits> &plan = plan_of<Bits>(call);
    IndexRange<u64> all = plan.range_of_passes(call);
    if (all.count == 0) return;
    __shared__ PassTiles tiles;
    // `draw` has a barrier before any thread reads `tiles`.
    if (threadIdx.x == 0) tiles.set(all, u32((all.count + Tile::TILE - 1) / Tile::TILE), call.tiles, call.parts);
    u32 ticket = draw(&plan.ticket);
    for (; ticket < call.parts; ticket = draw(&plan.ticket)) {
        if (!sort_count_outlined<Order, Bits, Tile::THREADS>(*(Counting *)memory, call, all, Tile::TILE, ticket,
                                                             call.parts))
            continue;
        bool is_planned = false;
        if constexpr (COUNTS_DISTINCT<Tile>)
            is_planned = call.distinct != nullptr &&
                         plan_distinct<Tile::THREADS, Tile::HAS_VALUES>(*(typename Distinct::Shared *)memory,
                                                                        *(Distinct *)call.distinct, plan, call, all);
        if (!is_planned) plan_passes<Tile::THREADS>(plan, call, all, call.passes);
        if (threadIdx.x == 0) {
            __threadfence();
            store_relaxed(&plan.planned, 1);
        }
    }
    if (threadIdx.x == 0) {
        wait_for(&plan.planned, 1);
        tiles.running = plan.running;
        tiles.distinct = COUNTS_DISTINCT<Tile> && call.distinct != nullptr ? ((Distinct *)call.distinct)->count : 0;
    }
    __syncthreads();
    if constexpr (COUNTS_DISTINCT<Tile> && !Tile::HAS_VALUES)
        if (tiles.distinct > 0)
            return ((const Distinct *)call.distinct)
                ->template write<Order, Tile::THREADS>(memory, Order{Bits(call.flip)}, (Bits *)call.keys[0] + all.first,
                                                       all.count);
    for (;; ticket = draw(&plan.ticket)) {
        if (!tiles.has(ticket)) {
            __syncthreads(); // all threads have read `tiles`
            if (threadIdx.x == 0) tiles.change_round(ticket, &plan.finished, call.parts);
            __syncthreads();
        }
        if (tiles.run >= tiles.running) return;
        SortPass<Order, Tile>(call, plan, tiles).run(*(typename Tile::Shared *)memory, ticket - tiles.begin);
        if (threadIdx.x == 0) tiles.done++;
    }
}

// The same, outlined.
template <class Order, class Tile> __device__ __noinline__ void sort_passes_outlined(Vector *memory, SortCall call) {
    sort_passes<Order, Tile>(memory, call);
}

// ---- one block ---------------------------------------------------------------------------------

// The bits in which the keys of a tile differ.
template <class Tile> __device__ u64 differing_bits(const Tile &t) {
    typedef typename IfElse<sizeof(typename Tile::Bits) <= 4, u32, u64>::Type Word;
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

// Sorts a tile in shared memory, least significant digit first, and skips digits that all keys
// share. The payload does not move: `source` becomes each key's source position.
template <class Tile> __device__ void sort_digits(Tile &t, typename Tile::TagWord *source, u32 begin, u32 end) {
    typedef typename Tile::Bits Bits;
    // A longer key comes here only to be sorted by some of its bits.
    constexpr bool MAY_BE_SHORT = !Tile::HAS_VALUES && sizeof(Bits) <= 2;
#pragma unroll
    for (u32 i = 0; i < Tile::ITEMS; i++) source[i] = t.at(i);
    u64 differs = end - begin > DIGIT_BITS ? differing_bits(t) : ~u64(0);
    // For the first digit: equal keys are the same.
    bool in_any_order = MAY_BE_SHORT && end - begin == 8 * sizeof(Bits);
    for (u32 shift = begin; shift < end; shift += DIGIT_BITS) {
        Digit digit{shift, (1u << min(end - shift, DIGIT_BITS)) - 1};
        if (digit(differs) == 0) continue;
        if (MAY_BE_SHORT && in_any_order) {
            t.move_unordered(digit);
            in_any_order = false;
            continue;
        }
        t.rank(digit);
        t.move(source);
    }
}

// Sorts all keys, no more than a tile, by one block.
template <class Order, class Tile> __device__ void sort_small(typename Tile::Shared &s, const SortCall &call) {
    typedef typename Tile::Bits Bits;
    typedef typename Tile::Value Value;
    Order order{Bits(call.flip)};
    Tile t(s, u32(call.n));
    const Bits *from = (const Bits *)call.keys_in + t.first();
    t.each([&](u32 i) { t.key[i] = t.is_there(i) ? from[i * WARP] : Bits(0); });
    Value value[Tile::ITEMS];
    if constexpr (Tile::HAS_VALUES) {
        const Value *values = (const Value *)call.values_in;
        t.each([&](u32 i) {
            if (t.is_there(i)) value[i] = values == nullptr ? Value::index(t.at(i)) : (values + t.first())[i * WARP];
        });
    }
    t.each([&](u32 i) { t.key[i] = order.to(t.key[i]); }); // not before all loads are issued
    typename Tile::TagWord source[Tile::ITEMS];
    sort_digits(t, source, call.begin, call.end);
    Bits *out = (Bits *)call.keys[0] + t.first();
    if (call.keys[0] != nullptr)
        t.each([&](u32 i) {
            if (t.is_there(i)) out[i * WARP] = order.from(t.key[i]);
        });
    if constexpr (Tile::HAS_VALUES) {
        Value *values = (Value *)s.exchange, *out = (Value *)call.values[0] + t.first();
        __syncthreads(); // the keys are stored
        t.each([&](u32 i) { (values + t.first())[i * WARP] = value[i]; });
        __syncthreads();
        t.each([&](u32 i) {
            Value moved = values[source[i]];
            if (t.is_there(i)) out[i * WARP] = moved;
        });
    }
}

// ---- keys-only of one or two bytes -------------------------------------------------------------
// No key moves: the count of each key tells the output.

// Writes THREADS * FILL_ITEMS keys of the output a block. `starts`: where each key begins.
template <class Order, class Bits, u32 THREADS, class Start>
__device__ void sort_fill(const SortCall &call, const Start *starts) {
    Order order{Bits(call.flip)};
    write_runs<THREADS, FILL_ITEMS>((Bits *)call.keys[0], u64(blockIdx.x) * THREADS * FILL_ITEMS, call.n, starts,
                                    1u << 8 * sizeof(Bits), [=](u32 key) { return order.from(Bits(key)); });
}
