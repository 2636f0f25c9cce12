// Scan and reduce by segment of short inputs in short segments: no block waits for another.
//
//   load     each thread loads its items                                          no barrier
//   before   the block folds the items before its tile that are in the same segment
//   fold     each thread folds its items, each warp its threads'                  one barrier
//   finish   each thread goes over its items again, from its prefix on
//
// The block reads the items of `before` from memory, though other blocks read them too. So it needs no
// hand-over, which takes longer than all else on a short input. But a segment across many tiles is read
// by each of them: the host launches this kernel where segments are short on average.
#pragma once
#include "segmented/walk.cuh"

template <class Operator, u32 OWN> struct ShortSegments {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef Headed<Operator> Joined;
    typedef typename Joined::Carry HeadedCarry;
    static constexpr u32 THREADS = SHORT_INPUT_THREADS, WARPS = THREADS / WARP, TILE = THREADS * OWN;

    struct Shared {
        Heads<TILE, OWN, WARPS> heads;
        HeadedCarry warp[WARPS]; // each warp's fold of its items
        Carry before[WARPS];     // each warp's fold of its items before the tile
    };

    const Element *in;
    u64 n;
    bool reverse;
    Maybe<Carry> init; // is combined before each segment's first item
    const Cut &cut;
    Shared &shared;
    u64 first; // the tile's first item, in scan order
    u64 next;  // the number of the first offset of the tile, in memory order

    __device__ ShortSegments(const Element *in, u64 n, bool reverse, Maybe<Carry> init, const Cut &cut, Shared &shared)
        : in(in), n(n), reverse(reverse), init(init), cut(cut), shared(shared), first(u64(blockIdx.x) * TILE) {}

    // Where the i-th item in scan order lies.
    __device__ u64 at(u64 i) const { return reverse ? n - 1 - i : i; }

    // By the block: calls `use(i, exclusive, inclusive)` for each item of the tile. `exclusive` is `init`
    // if the item begins a segment.
    template <class Use> __device__ void each_item(const Use &use) {
        u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
        // ---- load: behind the end the last item again, so that the operator is called on inputs only
        u64 own = first + threadIdx.x * OWN;
        Element items[OWN];
#pragma unroll
        for (u32 k = 0; k < OWN; k++) items[k] = in[at(min(own + k, n - 1))];

        // ---- before, unless this is the first tile
        u64 behind = 0, begin = 0, count = 0;
        if (first > 0) {
            u64 edge = reverse ? n - first : first; // in memory, between the items before and the tile
            behind = offsets_before(cut, edge, n, lane);
            with_offsets(cut, [&](auto offsets) {
                u64 low = behind > 0 ? offsets[behind - 1] : 0, high = behind <= cut.segments ? offsets[behind] : n;
                begin = reverse ? min(high, n) : low; // of the segment, in scan order
                count = high == edge ? 0 : reverse ? begin - min(edge, begin) : edge - min(begin, edge);
                return u64(0);
            });
        }
        u32 chunks = u32((count + CHUNK - 1) / CHUNK), each = (chunks + WARPS - 1) / WARPS; // of a warp
        u32 warps = each == 0 ? 0 : (chunks + each - 1) / each;                             // that have some
        if (warp < warps) {
            Carry before = fold_before(begin, u32(count), warp * each, min((warp + 1) * each, chunks), lane);
            if (lane == 0) shared.before[warp] = before;
        }

        // ---- fold
        i64 flagged = begin_of_tile(first, TILE, n, reverse);
        next = reverse ? offsets_before(cut, u64(max(flagged, i64(0))), n, lane) : behind;
        shared.heads.fill_from_offsets(cut, flagged, next, n, warp, lane);
        u32 restarts = shared.heads.flags[reverse ? THREADS - 1 - threadIdx.x : threadIdx.x];
        if (reverse) restarts = __brev(restarts) >> (WARP - OWN);
        Carry upto = Carry();
#pragma unroll
        for (u32 k = 0; k < OWN; k++) {
            Carry item = Operator::lift(items[k]);
            upto = restarts >> k & 1 ? begun(item) : k == 0 ? Operator::alone(item) : Operator::combine(upto, item);
        }
        HeadedCarry all = warp_inclusive<Joined>({upto, restarts}, lane), lanes = shuffle_up(all, 1);
        if (lane == WARP - 1) shared.warp[warp] = all;
        __syncthreads();

        // ---- finish. Without items before the tile its first item is a head, and the prefix is not used.
        HeadedCarry prefix = {Carry(), 0};
        if (warps > 0) {
            prefix.value = shuffle(warp_fold<Operator>(shared.before[min(lane, warps - 1)], lane, warps), 0);
            if (init.some) prefix.value = Operator::combine(init.value, prefix.value);
        }
        HeadedCarry earlier = warp_inclusive<Joined, WARPS>(shared.warp[min(lane, WARPS - 1)], lane);
        earlier = shuffle(earlier, max(warp, 1u) - 1);
        if (warp > 0) prefix = Joined::combine(prefix, earlier);
        if (lane > 0) prefix = Joined::combine(prefix, lanes);
        upto = prefix.value;
#pragma unroll
        for (u32 k = 0; k < OWN; k++) {
            Carry item = Operator::lift(items[k]), exclusive = restarts >> k & 1 ? init.value : upto;
            upto = restarts >> k & 1 ? begun(item) : Operator::combine(upto, item);
            if (own + k < n) use(own + k, exclusive, upto);
        }
    }

  private:
    static constexpr u32 CHUNK = WARP * OWN; // items that a warp folds at once

    // By one warp: the fold of chunks `chunk` to `end` of the `count` items before the tile, in lane 0.
    // The first one in scan order lies at `begin`, or in reverse before it.
    __device__ Carry fold_before(u64 begin, u32 count, u32 chunk, u32 end, u32 lane) const {
        constexpr u32 BATCH = 8; // chunks whose loads are in flight together
        Carry upto = Carry();
        for (u32 from = chunk; from < end; from += BATCH) {
            Element items[BATCH][OWN];
#pragma unroll
            for (u32 c = 0; c < BATCH; c++)
#pragma unroll
                for (u32 k = 0; k < OWN; k++) {
                    u32 i = (from + c) * CHUNK + lane * OWN + k;
                    if (from + c < end)
                        items[c][k] = in[reverse ? begin - 1 - min(i, count - 1) : begin + min(i, count - 1)];
                }
#pragma unroll
            for (u32 c = 0; c < BATCH; c++) {
                if (from + c >= end) break;
                u32 first = (from + c) * CHUNK, left = min(count - first, CHUNK);
                Carry part = Operator::alone(Operator::lift(items[c][0]));
#pragma unroll
                for (u32 k = 1; k < OWN; k++)
                    if (lane * OWN + k < left) part = Operator::combine(part, Operator::lift(items[c][k]));
                part = warp_fold<Operator>(part, lane, (left + OWN - 1) / OWN);
                upto = from + c > chunk ? Operator::combine(upto, part) : part;
            }
        }
        return upto;
    }

    __device__ Carry begun(Carry item) const { return item_after<Operator>(init, item); }
};

// The kernel bodies. `init` has a meaning only with the flag INIT, and with `has_init`.
template <class Operator, u32 OWN>
__device__ void short_scan(const typename Operator::Element *in, typename Operator::Element *out, u64 n,
                           typename Operator::Carry init, u32 flags, const Cut &cut) {
    typedef ShortSegments<Operator, OWN> Short;
    typedef typename Operator::Carry Carry;
    __shared__ typename Short::Shared shared;
    Short block(in, n, flags & REVERSE, {init, bool(flags & INIT)}, cut, shared);
    block.each_item([&](u64 i, Carry exclusive, Carry inclusive) {
        out[block.at(i)] = Operator::lower(flags & EXCLUSIVE ? exclusive : inclusive);
    });
}

// A segment's result is the prefix at its last item. `empty` is that of an empty segment.
template <class Operator, u32 OWN>
__device__ void short_reduce(const typename Operator::Element *in, typename Operator::Element *out, u64 n,
                             Maybe<typename Operator::Carry> init, typename Operator::Element empty, const Cut &cut) {
    typedef ShortSegments<Operator, OWN> Short;
    typedef typename Operator::Carry Carry;
    typedef typename Operator::Element Element;
    __shared__ typename Short::Shared shared;
    __shared__ Element prefixes[Short::TILE];
    Short block(in, n, false, init, cut, shared);
    u64 first = block.first, most = min(first + Short::TILE, n);
    block.each_item([&](u64 i, Carry, Carry inclusive) { prefixes[i - first] = Operator::lower(inclusive); });
    __syncthreads();
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    each_offset<Short::WARPS>(
        cut, block.next + warp * OFFSETS_AT_ONCE, most + 1, n, lane,
        [&](u64 j, u64 begins, u64 ends) {
            if (j == 0 || ends > most) return;
            if (begins >= ends) out[j - 1] = empty;
            else if (ends > first) out[j - 1] = prefixes[ends - 1 - first]; // else the tile before has it
        },
        [&](u64 j, u64 behind) {
            for (u64 k = j + lane; k < behind; k += WARP) out[k - 1] = empty;
        });
}
