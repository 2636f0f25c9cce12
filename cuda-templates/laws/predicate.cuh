// The kernel that calls a predicate's body on its own. The library compares its results with those
// of the Rust body (`parascan::laws`).
#pragma once
#include "core/types.cuh"

// One thread a pair, n pairs row by row: each predicate, given by its parameters, on each of the
// `columns` items.
extern "C" __global__ void keeps_all(const Test::Parameters *parameters, const Test::Item *x, u64 columns, u64 n,
                                     u8 *selected) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Test test{parameters[i / columns]};
    selected[i] = test(x[i % columns]);
}
