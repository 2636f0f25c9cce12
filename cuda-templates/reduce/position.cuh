// The position of the extremum: the first item that the operator, a maximum or a minimum, selects. One
// launch, which reads the items once as a reduction does.
//
// Slices are folded without indices. A slice's carry is joined with the number of its first item, and
// the block that finishes last looks for the item in the slice that has it.
#pragma once
#include "reduce/reduce.cuh"

// The operator on carries of ranges of items, and where the first range begins that has the result.
template <class Operator> struct FirstOf {
    typedef typename Operator::Carry Value;
    struct Carry {
        u64 at;
        Value value;
    };
    static_assert(sizeof(Carry) <= POSITION_CARRY_BYTES, "the host allots as many bytes");
    // Every NaN becomes the same one, as in a result of `combine`.
    static __device__ Value same(Value value) { return Operator::combine(value, value); }
    static __device__ bool is_equal(Value a, Value b) {
        Words<Value> x(a), y(b);
        bool equal = true;
#pragma unroll
        for (int i = 0; i < Words<Value>::N; i++) equal &= x.word[i] == y.word[i];
        return equal;
    }
    static __device__ Carry of_slice(Value value, u64 at) { return {at, same(value)}; }
    static __device__ Carry combine(const Carry &a, const Carry &b) {
        return is_equal(Operator::combine(a.value, b.value), a.value) ? a : b;
    }
};

template <class Operator, class Shape>
__device__ void find_position(typename Operator::Element *in, u64 n, Stretches stretches, u64 *out, u32 *ticket,
                              typename FirstOf<Operator>::Carry *aggregates) {
    typedef FirstOf<Operator> First;
    typedef Reduction<Operator, Shape, First> Kernel;
    __shared__ typename Kernel::Shared shared;
    __shared__ typename First::Carry found;
    __shared__ u32 earliest; // in the slice
    Kernel::join_all(shared, in, n, stretches, ticket, aggregates, [&](bool, typename First::Carry all) {
        if (threadIdx.x == 0) {
            found = all;
            earliest = ~0u;
        }
        __syncthreads();
        all = found;
        u32 count = u32(min(n - all.at, u64(Kernel::SLICE))), own = ~0u;
#pragma unroll 8
        for (u32 i = threadIdx.x; i < count; i += Shape::THREADS)
            if (First::is_equal(First::same(Operator::lift(in[all.at + i])), all.value)) own = min(own, i);
        if (own != ~0u) atomicMin(&earliest, own);
        __syncthreads();
        if (threadIdx.x == 0) *out = all.at + earliest;
    });
}

// clang-format off: it does not know what declares a kernel
#define POSITION_KERNEL(RANGE, WARPS, VECTORS)                                                                                   \
    DEFINE_KERNEL(position_##RANGE, extern "C" __global__ void __launch_bounds__(WARPS * WARP, resident<Carry, WARPS>())         \
        position_##RANGE(Element *in, u64 n, u64 each, u32 more, u64 *out, u32 *ticket, FirstOf<Operator>::Carry *aggregates) {  \
        find_position<Operator, Shape<WARPS, VECTORS>>(in, n, {each, more, gridDim.x}, out, ticket, aggregates);                            \
    })
RANGES(POSITION_KERNEL)
