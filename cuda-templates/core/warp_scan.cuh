// The scan inside a warp, by shuffles (Kogge and Stone 1973 over 32 lanes).
#pragma once
#include "core/types.cuh"

// Lane i gets the combination of lanes 0 to i, if it is one of the first `LANES`.
template <class Operator, u32 LANES = WARP>
__device__ inline typename Operator::Carry warp_inclusive(typename Operator::Carry x, u32 lane) {
#pragma unroll
    for (u32 distance = 1; distance < LANES; distance *= 2) {
        typename Operator::Carry earlier = shuffle_up(x, distance);
        if (lane >= distance) x = Operator::combine(earlier, x);
    }
    return x;
}

// Lane 0 gets the combination of the first `count` lanes, in order; the other lanes get partial results of no use.
template <class Operator> __device__ inline typename Operator::Carry warp_fold(typename Operator::Carry x, u32 lane, u32 count) {
#pragma unroll
    for (u32 distance = 1; distance < WARP; distance *= 2) { // lane i holds [i, i + 2 * distance) if i is a multiple of it
        typename Operator::Carry later = shuffle_down(x, distance);
        if (lane + distance < count) x = Operator::combine(x, later);
    }
    return x;
}
