// The kernels of the hierarchical scan (`Strategy::Hierarchical`), compiled at run time: reduce,
// then scan (Merrill and Grimshaw 2009, "Parallel Scan for Stream Architectures").
//
//   aggregate   the aggregate of every tile
//   scan        the aggregates, by the same kernels on carries, recursively
//   scan        every tile from its prefix
#pragma once
#include "scan/carry_operator.cuh"

#if HAS_KERNEL(aggregate_elements)
extern "C" __global__ void __launch_bounds__(SmallShape::THREADS)
    aggregate_elements(Element *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_tiles<Operator, SmallShape>(in, n, flags, aggregates);
}
#endif
#if HAS_KERNEL(aggregate_carries)
extern "C" __global__ void __launch_bounds__(CarryShape::THREADS)
    aggregate_carries(Carry *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_tiles<CarryOperator, CarryShape>(in, n, flags, aggregates);
}
#endif

// `prefixes` holds the inclusive scan of the aggregates, with `init` combined first.
#if HAS_KERNEL(scan_elements)
extern "C" __global__ void __launch_bounds__(SmallShape::THREADS)
    scan_elements(Element *in, Element *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_tiles<Operator, SmallShape>(in, out, n, init, flags, GivenPrefixes<Operator>(prefixes));
}
#endif
#if HAS_KERNEL(scan_carries)
extern "C" __global__ void __launch_bounds__(CarryShape::THREADS)
    scan_carries(Carry *in, Carry *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_tiles<CarryOperator, CarryShape>(in, out, n, init, flags, GivenPrefixes<CarryOperator>(prefixes));
}
#endif
