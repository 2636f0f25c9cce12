// A predicate on its own, for comparison with its Rust body (`parascan::laws`).
#pragma once
#include "core/types.cuh"

// One thread a pair: each of the predicates, given by their parameters, on each of the `columns` items, row by row, n pairs in all.
extern "C" __global__ void keeps_all(const Test::Parameters *parameters, const Test::Item *x, u64 columns, u64 n, u8 *kept) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Test test{parameters[i / columns]};
    kept[i] = test(x[i % columns]);
}
