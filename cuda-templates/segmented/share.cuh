// `Share`: what a warp, a block or a piece knows of a segment that others have items of too. And the join of all shares.
#pragma once
#include "segmented/walk.cuh"

// The aggregate of the items of a warp, a block or a piece, and the segment that ends in them.
template <class Operator> struct Share {
    typedef typename Operator::Element Element;
    typedef typename Operator::Carry Carry;
    typedef typename Headed<Operator>::Carry HeadedCarry;
    static constexpr u64 NONE = ~u64(0);

    HeadedCarry aggregate;
    // The segment that ends here and began before, or NONE; and the fold of its items here, if it
    // has any here.
    u64 closed;
    Maybe<Carry> last;

    // The segment's result, from the prefix before the items.
    __device__ Carry result(Carry prefix) const { return last.some ? Operator::combine(prefix, last.value) : prefix; }
};

// Calls `use(i, share)` in order. The loads of BATCH shares are in flight together, which the
// compiler would not move before a store of `use`.
template <class Share, class Use>
__device__ inline void each_share(const Share *shares, u32 first, u32 end, const Use &use) {
    constexpr u32 BATCH = 4;
    for (u32 from = first; from < end; from += BATCH) {
        Share own[BATCH];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++)
            if (from + k < end) own[k] = shares[from + k];
#pragma unroll
        for (u32 k = 0; k < BATCH; k++)
            if (from + k < end) use(from + k, own[k]);
    }
}

// By a block of so many threads: writes the results of the segments that `count` shares close. `carry` is
// shared memory with room for one a warp.
template <class Operator>
__device__ inline void close_all(typename Headed<Operator>::Carry *carry, u32 threads, u32 count,
                                 const Share<Operator> *shares, typename Operator::Element *out) {
    typedef typename Headed<Operator>::Carry HeadedCarry;
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 each = (count + threads - 1) / threads, first = threadIdx.x * each, end = min(first + each, count);
    // The last threads may have no share. They take the last one, which no other thread then joins.
    HeadedCarry upto = shares[min(first, count - 1)].aggregate;
    each_share(shares, first + 1, end,
               [&](u32, const Share<Operator> &share) { upto = Headed<Operator>::combine(upto, share.aggregate); });
    upto = warp_inclusive<Headed<Operator>>(upto, lane);
    if (lane == WARP - 1) carry[warp] = upto;
    HeadedCarry before = shuffle_up(upto, 1);
    __syncthreads();
    if (warp > 0) {
        HeadedCarry warps = carry[0];
        for (u32 w = 1; w < warp; w++) warps = Headed<Operator>::combine(warps, carry[w]);
        before = lane > 0 ? Headed<Operator>::combine(warps, before) : warps;
    }
    each_share(shares, first, end, [&](u32 i, const Share<Operator> &share) {
        if (share.closed != share.NONE) out[share.closed] = Operator::lower(share.result(before.value));
        before = i > 0 ? Headed<Operator>::combine(before, share.aggregate) : share.aggregate;
    });
}
