// Reduce of runs: segments of which the heads are known, and not the number. The tile pipeline with a
// walk whose carry counts heads, so that each head knows how many segments end before it.
//
// The result of a segment is the fold up to the next head. A slice has all of them but the first one
// before it has a prefix, so results and keys are put side by side while the tile waits.
#pragma once
#include "segmented/walk.cuh"

// `Headed` with the number of heads.
template <class Operator> struct Counted {
    struct Carry {
        typename Operator::Carry value;
        u64 heads;
    };
    static __device__ Carry combine(Carry a, Carry b) {
        return {b.heads ? b.value : Operator::combine(a.value, b.value), a.heads + b.heads};
    }
};

// Where the results go. There may be fewer places than segments.
template <class Element> struct RunResults {
    Element *out;
    void *keys; // null, or the key of each segment
    u64 capacity;
    u64 *count; // of the segments
};

template <class Operator, class Shape> struct RunReduceWalk : SegmentedWalk<Operator, Shape, Shape::WARPS> {
    typedef SegmentedWalk<Operator, Shape, Shape::WARPS> Base;
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef typename Counted<Operator>::Carry CountedCarry;
    typedef typename Base::Stage Stage;
    static constexpr u32 ITEMS = Base::ITEMS, TILE = Shape::WARPS * ITEMS, OF_LANE = ITEMS / WARP;

    RunResults<Element> results;
    u64 first;          // the slice's first item
    u32 own;            // heads of the slice
    u32 count, rank;    // heads of the lane, and of the lanes before it
    Maybe<Carry> ended; // the fold of the slice's items before its first head, if it has any there

    __device__ RunReduceWalk(const Base &base, RunResults<Element> results) : Base(base), results(results) {}

    __device__ void prefetch(u64 first, u32 lane) const { this->in.template prefetch<ITEMS>(first, lane); }

    __device__ CountedCarry fold(Stage &stage, u64 first, u32 lane) {
        this->first = first;
        i64 begin = i64(first / TILE * TILE);
        this->in.begin_load(stage, first, lane);
        this->heads.fill(this->cut, begin, 0, this->in.n, this->slice, lane);
        if (begin + TILE > this->in.n) this->heads.clear_past(begin, this->in.n, this->slice, lane);
        this->in.end_load(stage, first, lane);
        __syncwarp();
        return fold_ended(stage, lane);
    }

    // Puts the lanes' results side by side, in the stage, and the keys behind them if there is room.
    __device__ void prepare(Stage &stage, u32 lane) {
        own = __shfl_sync(ALL_LANES, rank + count, WARP - 1);
        if (own == 0) return;
        join_lanes((Result *)stage.vector, (Element *)stage.vector, lane);
        if (has_staged_keys()) put_keys(staged_keys(stage), own, lane);
        __syncwarp();
    }

    // By one thread, of all items. Item n is a head, unless the last tile ends before it: then the last
    // segment ends here.
    __device__ void total(CountedCarry total) const {
        bool is_whole = this->in.n % TILE == 0;
        *(volatile u64 *)results.count = is_whole ? total.heads : total.heads - 1; // a host may poll it
        if (is_whole && total.heads <= results.capacity) results.out[total.heads - 1] = Operator::lower(total.value);
    }

    __device__ void finish(Stage &stage, Maybe<CountedCarry> prefix, u64, u32 lane) {
        if (own == 0) return;
        Element *items = (Element *)stage.vector;
        if (lane == 0 && prefix.some) {
            Carry before = prefix.value.value;
            items[0] = Operator::lower(ended.some ? Operator::combine(before, ended.value) : before);
        }
        __syncwarp();
        // The first head of all ends no segment: its place wraps to one past any capacity.
        u64 number = prefix.some ? prefix.value.heads : 0, to = number - 1;
#pragma unroll 4
        for (u32 i = lane; i < own; i += WARP)
            if (to + i < results.capacity) results.out[to + i] = items[i];
        if (!has_keys()) return;
        u32 size = this->cut.size, some = own - (this->in.n - first < ITEMS); // item n is a head without a key
        u32 fit = number < results.capacity ? u32(min(results.capacity - number, u64(some))) : 0;
        u8 *keys = (u8 *)results.keys + number * size;
        if (!has_staged_keys()) return put_keys(keys, fit, lane);
        with_key_word([&](auto word) {
            typedef decltype(word) Word;
            const Word *from = (const Word *)staged_keys(stage);
#pragma unroll 4
            for (u32 i = lane; i < fit * size / sizeof(Word); i += WARP) ((Word *)keys)[i] = from[i];
        });
    }

  private:
    // What a lane keeps of a result until those of all lanes are side by side: its carry, if that has an item's size.
    // Then the fold up to the lane's first head lies in the first place, and takes no register.
    static constexpr bool KEEPS_CARRIES = sizeof(Carry) == sizeof(Element);
    typedef typename IfElse<KEEPS_CARRIES, Carry, Element>::Type Result;
    static __device__ Result result_of(Carry carry) {
        if constexpr (KEEPS_CARRIES) return carry;
        else return Operator::lower(carry);
    }
    static __device__ Element element_of(Result result) {
        if constexpr (KEEPS_CARRIES) return Operator::lower(result);
        else return result;
    }

    // The fold of the slice in the stage; valid in the last lane. Each head ends a segment, whose result takes
    // the first free place of the lane's items; that of the slice's first head is made of `ended`.
    __device__ CountedCarry fold_ended(Stage &stage, u32 lane) {
        Result *of_lane = (Result *)stage.vector + lane * OF_LANE;
        Carry upto = Carry(), first = Carry(); // first: up to the lane's first head
        u32 heads = 0;
        constexpr bool REVERSE = false;
        Group<Element> next = this->of_lane(stage, lane, 0, REVERSE);
#pragma unroll Base::UNROLLED
        for (u32 g = 0; g < Base::GROUPS; g++) {
            Group<Element> items = next; // read before a result takes the place
            if (g + 1 < Base::GROUPS) next = this->of_lane(stage, lane, g + 1, REVERSE);
            u32 restarts = this->heads_of(lane, g, REVERSE);
#pragma unroll
            for (u32 j = 0; j < Base::IN_GROUP; j++) {
                Carry item = Operator::lift(items.item[j]);
                bool restart = restarts >> j & 1, is_first = g == 0 && j == 0;
                if (!KEEPS_CARRIES && restart && heads == 0) first = upto;
                if (restart && !is_first) of_lane[heads] = result_of(upto);
                if (restart) heads++;
                upto = restart ? this->begun(item) : is_first ? Operator::alone(item) : Operator::combine(upto, item);
            }
        }
        CountedCarry all = warp_inclusive<Counted<Operator>>({upto, heads}, lane), before = shuffle_up(all, 1);
        count = heads;
        rank = u32(all.heads) - heads;
        bool begins = this->heads_of(lane, 0, REVERSE) & 1; // whether the lane's first item is a head
        if constexpr (KEEPS_CARRIES) first = of_lane[0];
        u32 with_heads = __ballot_sync(ALL_LANES, heads > 0), lane_of_first = with_heads ? __ffs(with_heads) - 1 : 0;
        Carry end = begins || heads == 0 ? before.value : lane > 0 ? Operator::combine(before.value, first) : first;
        // Of the slice's first head any result will do: `finish` makes it of `ended`.
        if (heads > 0) of_lane[0] = result_of(end);
        ended = {shuffle(end, lane_of_first), bool(__shfl_sync(ALL_LANES, lane > 0 || !begins, lane_of_first))};
        return all;
    }

    // Puts the results of all lanes in order. Rows of 32 follow each other, so a place has been read when it is
    // written: no result lies before its place.
    __device__ void join_lanes(const Result *results, Element *items, u32 lane) const {
        // Lane k learns how far the results of the k-th lane that has any lie behind their places.
        u32 with_results = __ballot_sync(ALL_LANES, count > 0), kth = 0;
#pragma unroll
        for (u32 step = WARP / 2; step > 0; step /= 2)
            if (__popc(with_results & ((1u << (kth + step)) - 1)) <= lane) kth += step;
        u32 distance = __shfl_sync(ALL_LANES, lane * OF_LANE - rank, kth);
        u32 up_to_lane = ~0u >> (WARP - 1 - lane), last = ~0u; // the last of these lanes that began before the row
#pragma unroll 1
        for (u32 row = 0; row < own; row += WARP) {
            bool begins_here = count > 0 && rank - row < WARP;
            u32 begins = warp_or(begins_here ? 1u << (rank - row) : 0), i = row + lane;
            u32 from = i + __shfl_sync(ALL_LANES, distance, last + __popc(begins & up_to_lane));
            Result result;
            if (i < own) result = results[from];
            __syncwarp(); // every lane has read its place
            if (i < own) items[i] = element_of(result);
            last += __popc(begins);
        }
    }

    // ---- keys: that of each segment which begins in the slice

    __device__ bool has_keys() const { return kind_of(this->cut) >= KEYS_8 && results.keys != nullptr; }
    // Whether the stage has room for them behind the results.
    __device__ bool has_staged_keys() const {
        return has_keys() && own * (sizeof(Element) + u64(this->cut.size)) + sizeof(u64) <= sizeof(Stage);
    }
    __device__ u8 *staged_keys(Stage &stage) const {
        return (u8 *)stage.vector + (own * u32(sizeof(Element)) / u32(sizeof(u64)) + 1) * sizeof(u64);
    }
    // Calls `use` with a word of the type that keys are copied by.
    template <class Use> __device__ void with_key_word(const Use &use) const {
        if (kind_of(this->cut) == KEYS_32) use(u32());
        else if (kind_of(this->cut) == KEYS_64) use(u64());
        else use(u8());
    }
    // Writes the first `fit` keys.
    __device__ void put_keys(u8 *to, u32 fit, u32 lane) const {
        with_key_word([&](auto word) {
            typedef decltype(word) Word;
            if constexpr (sizeof(Word) == 1) put_bytes(to, fit, lane);
            else put_words((Word *)to, fit, lane);
        });
    }
    // The loads of BATCH rows are in flight together, as many as there are registers for.
    template <class Key> __device__ void put_words(Key *to, u32 fit, u32 lane) const {
        constexpr u32 ROWS = ITEMS / WARP, BATCH = divisor(ROWS, sizeof(Key) == 4 ? 13 : 7);
        const Key *from = (const Key *)this->cut.memory + first;
        u32 left = u32(min(this->in.n - first, u64(ITEMS))), at = 0;
#pragma unroll 1
        for (u32 row = 0; row < ROWS; row += BATCH) {
            Key key[BATCH];
            u32 heads[BATCH], any = 0;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 i = (row + k) * WARP + lane;
                bool head = is_head(row + k, lane) & (i < left);
                heads[k] = __ballot_sync(ALL_LANES, head);
                if (head) key[k] = from[i];
                any |= heads[k];
            }
            if (any == 0) continue;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 place = at + __popc(heads[k] & ((1u << lane) - 1));
                if ((heads[k] >> lane & 1) && place < fit) to[place] = key[k];
                at += __popc(heads[k]);
            }
        }
    }
    __device__ void put_bytes(u8 *to, u32 fit, u32 lane) const {
        u32 size = this->cut.size, at = 0;
        const u8 *from = (const u8 *)this->cut.memory + first * size;
#pragma unroll 1
        for (u32 row = 0; row < ITEMS / WARP; row++) {
            u32 i = row * WARP + lane;
            bool head = is_head(row, lane) && first + i < this->in.n;
            u32 heads = __ballot_sync(ALL_LANES, head), place = at + __popc(heads & ((1u << lane) - 1));
            if (head && place < fit)
                for (u32 b = 0; b < size; b++) to[place * size + b] = from[i * size + b];
            at += __popc(heads);
        }
    }
    // Whether the lane's item of a row of 32 begins a segment.
    __device__ bool is_head(u32 row, u32 lane) const {
        const auto *flags = this->heads.flags + (this->slice * ITEMS + lane) / Base::IN_GROUP;
        return flags[row * (WARP / Base::IN_GROUP)] >> lane % Base::IN_GROUP & 1;
    }
    // The greatest divisor of x that is at most `most`.
    static constexpr u32 divisor(u32 x, u32 most) { return x % most == 0 ? most : divisor(x, most - 1); }
};

// The kernel body: one tile a block.
template <class Operator, class Shape, class Join>
__device__ void run_reduce_tiles(typename Operator::Element *in, u64 n, Maybe<typename Operator::Carry> init,
                                 const Cut &cut, RunResults<typename Operator::Element> results, Join join) {
    typedef RunReduceWalk<Operator, Shape> Walk;
    typedef TilePipeline<Counted<Operator>, Walk, Shape::WARPS, Join> Tiles;
    __shared__ typename Tiles::Shared shared;
    __shared__ typename Walk::Heads heads;
    typename Walk::Base base({in, n, false}, {in, n, false}, false, init, cut, heads, threadIdx.x / WARP);
    // The first item is a head: no prefix comes before it.
    Tiles::run(shared, Walk(base, results), join, {{}, false});
}
