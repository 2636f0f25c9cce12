// The scan and the fold of one carry a lane, by shuffles. The scan is the network of Kogge and
// Stone (1973) over 32 lanes. Operands keep lane order, so the operator need not be commutative.
#pragma once
#include "core/types.cuh"

// The inclusive scan. Lane i gets the combination of lanes 0 to i, if it is one of the first LANES.
// Results of other lanes are undefined.
template <class Operator, u32 LANES = WARP>
__device__ inline typename Operator::Carry warp_inclusive(typename Operator::Carry x, u32 lane) {
#pragma unroll
    for (u32 distance = 1; distance < LANES; distance *= 2) {
        typename Operator::Carry earlier = shuffle_up(x, distance);
        if (lane >= distance) x = Operator::combine(earlier, x);
    }
    return x;
}

// The fold of the first `count` lanes, in order, in lane 0. Results of other lanes are undefined.
template <class Operator> __device__ inline typename Operator::Carry warp_fold(typename Operator::Carry x, u32 lane, u32 count) {
#pragma unroll
    // Before a step lane i holds lanes [i, i + distance), if i is a multiple of `distance`.
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        typename Operator::Carry later = shuffle_down(x, distance);
        if (lane + distance < count) x = Operator::combine(x, later);
    }
    return x;
}
