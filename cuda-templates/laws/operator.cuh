// The kernels that call an operator's bodies on their own. The library compares their results with
// those of the Rust bodies (`parascan::laws`).
#pragma once
#include "core/types.cuh"

// One thread an element.
extern "C" __global__ void lift_and_lower(const Element *x, u64 n, Carry *lifted, Element *lowered) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Carry carry = Operator::alone(Operator::lift(x[i]));
    lifted[i] = carry;
    lowered[i] = Operator::lower(carry);
}

// One thread a pair, n pairs row by row: each of the earlier carries with each of the `columns`
// later ones.
extern "C" __global__ void combine_all(const Carry *earlier, const Carry *later, u64 columns, u64 n, Carry *combined,
                                       Element *lowered) {
    u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Carry carry = Operator::combine(earlier[i / columns], later[i % columns]);
    combined[i] = carry;
    lowered[i] = Operator::lower(carry);
}
