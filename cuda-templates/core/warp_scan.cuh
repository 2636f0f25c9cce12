// The scan and the fold of one carry a lane, by shuffles. The scan is the network of Kogge and
// Stone (1973) over 32 lanes. Operands keep lane order, so the operator need not be commutative.
#pragma once
#include "core/types.cuh"

// Reductions over all lanes of a warp.
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

// The inclusive scan. Lane i gets the combination of lanes 0 to i, if it is one of the first LANES.
// Results of other lanes are undefined. With `lanes`, each group of as many adjacent lanes is scanned alone, and `lane`
// is the number in the group.
template <class Operator, u32 LANES = WARP>
__device__ inline typename Operator::Carry warp_inclusive(typename Operator::Carry x, u32 lane, u32 lanes = LANES) {
#pragma unroll
    for (u32 distance = 1; distance < LANES; distance *= 2) {
        if (distance >= lanes) break;
        typename Operator::Carry earlier = shuffle_up(x, distance);
        if (lane >= distance) x = Operator::combine(earlier, x);
    }
    return x;
}

// The fold of the first `count` lanes, in order, in lane 0. Results of other lanes are undefined. With `lanes`, which
// `count` does not exceed, the same of each group.
template <class Operator>
__device__ inline typename Operator::Carry warp_fold(typename Operator::Carry x, u32 lane, u32 count,
                                                     u32 lanes = WARP) {
#pragma unroll
    // Before a step lane i holds lanes [i, i + distance), if i is a multiple of `distance`.
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        if (distance >= lanes) break;
        typename Operator::Carry later = shuffle_down(x, distance);
        if (lane + distance < count) x = Operator::combine(x, later);
    }
    return x;
}
