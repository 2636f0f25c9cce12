// The kernels of scan that are compiled at build time, for the `Operator`, the `SmallShape`, the `LargeShape` and its
// `LARGE_SPREAD` that the translation unit defines. Both are one launch whatever n: one block serves the prefixes, the others scan a tile each;
// a single tile needs neither server nor memory.
#pragma once
#include "scan.cuh"

typedef PrefixServer<Operator, SmallShape::WARPS> SmallJoin;
typedef PrefixServer<Operator, LargeShape::WARPS, LARGE_SPREAD> LargeJoin;

extern "C" __global__ void __launch_bounds__(SmallShape::THREADS)
    scan_small(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, SmallShape>(in, out, n, init, flags, SmallJoin(memory, tiles));
}

extern "C" __global__ void __launch_bounds__(LargeShape::THREADS)
    scan_large(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_tiles<Operator, LargeShape>(in, out, n, init, flags, LargeJoin(memory, tiles));
}
