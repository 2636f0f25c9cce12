#pragma once
#include "scan/scan.cuh"

// The operator on its own partial results: elements are carries. For the scan of aggregates.
struct CarryOperator {
    typedef ::Carry Element;
    typedef ::Carry Carry;
    typedef NoPairs Pairs;
    static __device__ Carry lift(Carry x) { return x; }
    static __device__ Carry alone(Carry x) { return x; }
    static __device__ Carry combine(Carry a, Carry b) { return Operator::combine(a, b); }
    static __device__ Carry lower(Carry x) { return x; }
};
