// The kernels of the strategies that are compiled at run time: look-back, and the three kernels of the hierarchical scan.
#pragma once
#include "scan.cuh"

// ---- look-back -----------------------------------------------------------------------------------------------------------

typedef LookBack<Operator, LOOK_BACK_GROUP> LookBackJoin;

extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_look_back(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, LargeShape>(in, out, n, init, flags, LookBackJoin(memory, tiles));
}

// ---- hierarchical: aggregates of all tiles, their scan by the same two kernels, then every tile from its prefix ---------------

// The operator on its own partial results.
struct CarryOperator {
    typedef ::Carry Element;
    typedef ::Carry Carry;
    static __device__ Carry lift(Carry x) { return x; }
    static __device__ Carry combine(Carry a, Carry b) { return Operator::combine(a, b); }
    static __device__ Carry lower(Carry x) { return x; }
};

extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    aggregate_elements(Element *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_tiles<Operator, LargeShape>(in, n, flags, aggregates);
}
extern "C" __global__ void __launch_bounds__(LargeShape::THREADS) aggregate_carries(Carry *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_tiles<CarryOperator, LargeShape>(in, n, flags, aggregates);
}

// `prefixes` holds the inclusive scan of the aggregates, `init` combined first.
extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_elements(Element *in, Element *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_tiles<Operator, LargeShape>(in, out, n, init, flags, GivenPrefixes<Operator>(prefixes));
}
extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_carries(Carry *in, Carry *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_tiles<CarryOperator, LargeShape>(in, out, n, init, flags, GivenPrefixes<CarryOperator>(prefixes));
}
