// Reduce of runs: segments of which the heads are known, and not the number. The tile pipeline with a
// walk whose carry counts heads, so that each head knows how many segments end before it.
//
// The result of a segment is the fold up to the next head. A slice has all of them but the first one
// before it has a prefix, so they are put side by side while the tile waits.
#pragma once
#include "segmented/walk.cuh"

// `Headed` with the number of heads.
template <class Operator> struct Counted {
    struct Carry {
        typename Operator::Carry value;
        u64 heads;
    };
    static __device__ Carry combine(Carry a, Carry b) { return {b.heads ? b.value : Operator::combine(a.value, b.value), a.heads + b.heads}; }
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
    static constexpr u32 ITEMS = Base::ITEMS, TILE = Shape::WARPS * ITEMS;

    RunResults<Element> results;
    u32 own;          // heads of the slice
    Maybe<Carry> ended; // the fold of the slice's items before its first head, if it has any there

    __device__ RunReduceWalk(const Base &base, RunResults<Element> results) : Base(base), results(results) {}

    __device__ void prefetch(u64 first, u32 lane) const { this->in.template prefetch<ITEMS>(first, lane); }

    __device__ CountedCarry fold(Stage &stage, u64 first, u32 lane) {
        i64 begin = i64(first / TILE * TILE);
        this->in.begin_load(stage, first, lane);
        this->heads.fill(this->cut, begin, 0, this->in.n, this->slice, lane);
        if (begin + TILE > this->in.n) this->heads.clear_past(begin, this->in.n, this->slice, lane);
        this->in.end_load(stage, first, lane);
        __syncwarp();
        return fold_ended(stage, lane);
    }

    // The results of all segments that end in the slice, side by side; of the first one there is
    // `ended`. Rows are put in order, so a place has been read when it is written.
    __device__ void prepare(Stage &stage, u32 lane) {
        if (own == 0) return;
        Element *items = (Element *)stage.vector;
        u32 rank = 0;
#pragma unroll 4
        for (u32 row = 0; row < ITEMS; row += WARP) {
            bool head = is_head(row + lane);
            Element result;
            if (head) result = items[row + lane];
            u32 all = __ballot_sync(ALL_LANES, head);
            if (all == 0) continue;
            __syncwarp(); // every lane has read its place of the row
            if (head) items[rank + __popc(all & ((1u << lane) - 1))] = result;
            rank += __popc(all);
        }
        __syncwarp();
    }

    // By one thread, of all items. Item n is a head, unless the last tile ends before it: then the last
    // segment ends here.
    __device__ void total(CountedCarry total) const {
        bool is_whole = this->in.n % TILE == 0;
        *(volatile u64 *)results.count = is_whole ? total.heads : total.heads - 1; // a host may poll it
        if (is_whole && total.heads <= results.capacity) results.out[total.heads - 1] = Operator::lower(total.value);
    }

    __device__ void finish(Stage &stage, Maybe<CountedCarry> prefix, u64 first, u32 lane) {
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
        if (results.keys == nullptr) return;
        bool is_word = this->cut.kind == KEYS;
        if (is_word && this->cut.size == 4) put_keys<u32>(number, first, lane);
        else if (is_word && this->cut.size == 8) put_keys<u64>(number, first, lane);
        else put_key_bytes(number, first, lane);
    }

  private:
    // Whether item i of the slice begins a segment.
    __device__ bool is_head(u32 i) const {
        return this->heads.flags[this->slice * (ITEMS / Base::IN_GROUP) + i / Base::IN_GROUP] >> (i % Base::IN_GROUP) & 1;
    }

    // The fold of the slice in the stage; valid in the last lane. Each head becomes the result of the
    // segment before it, but for the first head. Other items become anything.
    __device__ CountedCarry fold_ended(Stage &stage, u32 lane) {
        Carry upto = Carry(), first = Carry(); // first: up to the lane's first head
        u32 count = 0, place = 0;              // heads of the lane; the first one's item
        bool seen = false;                     // whether the lane has had a head
#pragma unroll Base::UNROLLED
        for (u32 g = 0; g < Base::GROUPS; g++) {
            Group<Element> items = this->of_lane(stage, lane, g), ends;
            u32 restarts = this->heads_of(lane, g);
            if (restarts && !seen) place = g * Base::IN_GROUP + __ffs(restarts) - 1;
            count += __popc(restarts);
#pragma unroll
            for (u32 j = 0; j < Base::IN_GROUP; j++) {
                Carry item = Operator::lift(items.item[j]);
                bool restart = restarts >> j & 1, is_first = g == 0 && j == 0;
                ends.item[j] = is_first ? items.item[j] : Operator::lower(upto);
                if (restart && !seen) first = upto;
                seen |= restart;
                upto = restart ? this->begun(item) : is_first ? Operator::alone(item) : Operator::combine(upto, item);
            }
            ends.store(stage.vector + this->at(lane, g) * Group<Element>::VECTORS);
        }
        CountedCarry all = warp_inclusive<Counted<Operator>>({upto, count}, lane), before = shuffle_up(all, 1);
        own = __shfl_sync(ALL_LANES, u32(all.heads), WARP - 1);
        u32 with_heads = __ballot_sync(ALL_LANES, count > 0), lane_of_first = with_heads ? __ffs(with_heads) - 1 : 0;
        Carry end = place == 0 ? before.value : lane > 0 ? Operator::combine(before.value, first) : first;
        // Without heads before it, what lies before the lane is a part of the slice's first segment.
        if (count > 0 && lane > lane_of_first) ((Element *)stage.vector)[lane * (ITEMS / WARP) + place] = Operator::lower(end);
        ended = {shuffle(end, lane_of_first), bool(__shfl_sync(ALL_LANES, lane > 0 || place > 0, lane_of_first))};
        return all;
    }

    // The key of each segment that begins in the slice; the first one is segment `number`. The loads of
    // BATCH rows are in flight together, as many as there are registers for.
    template <class Key> __device__ void put_keys(u64 number, u64 first, u32 lane) const {
        constexpr u32 BATCH = sizeof(Key) == 4 ? 13 : 7;
        const Key *from = (const Key *)this->cut.memory + first;
#pragma unroll 1
        for (u32 row = 0; row < ITEMS; row += BATCH * WARP) {
            Key key[BATCH];
            u32 heads[BATCH], any = 0;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u32 i = row + k * WARP + lane;
                bool head = i < ITEMS && first + i < this->in.n && is_head(i);
                heads[k] = __ballot_sync(ALL_LANES, head);
                if (head) key[k] = from[i];
                any |= heads[k];
            }
            if (any == 0) continue;
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) {
                u64 to = number + __popc(heads[k] & ((1u << lane) - 1));
                if ((heads[k] >> lane & 1) && to < results.capacity) ((Key *)results.keys)[to] = key[k];
                number += __popc(heads[k]);
            }
        }
    }
    // The same byte by byte.
    __device__ void put_key_bytes(u64 number, u64 first, u32 lane) const {
        const u8 *from = (const u8 *)this->cut.memory;
        u8 *keys = (u8 *)results.keys;
        u32 size = this->cut.size;
#pragma unroll 1
        for (u32 i = lane; i < ITEMS; i += WARP) {
            bool head = first + i < this->in.n && is_head(i);
            u32 heads = __ballot_sync(ALL_LANES, head);
            u64 to = number + __popc(heads & ((1u << lane) - 1));
            if (head && to < results.capacity)
                for (u32 b = 0; b < size; b++) keys[to * size + b] = from[(first + i) * size + b];
            number += __popc(heads);
        }
    }
};

// The kernel body: one tile a block.
template <class Operator, class Shape, class Join>
__device__ void run_reduce_tiles(typename Operator::Element *in, u64 n, Maybe<typename Operator::Carry> init, const Cut &cut,
                                 RunResults<typename Operator::Element> results, Join join) {
    typedef RunReduceWalk<Operator, Shape> Walk;
    typedef TilePipeline<Counted<Operator>, Walk, Shape::WARPS, Join> Tiles;
    __shared__ typename Tiles::Shared shared;
    __shared__ typename Walk::Heads heads;
    typename Walk::Base base({in, n, false}, {in, n, false}, false, init, cut, heads, threadIdx.x / WARP);
    // The first item is a head: no prefix comes before it.
    Tiles::run(shared, Walk(base, results), join, {{}, false});
}
