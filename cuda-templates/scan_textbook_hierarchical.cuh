// The kernels of the hierarchical scan by a textbook's block, compiled at run time: the aggregates of all tiles, by a reduction tree;
// their scan by the same kernels on carries; then every tile from its prefix.
#pragma once
#include "carry_operator.cuh"
#include "textbook.cuh"

extern "C" __global__ void __launch_bounds__(WIDTH) aggregate_elements(Element *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_textbook_tiles<Operator, RUN>(in, n, flags, aggregates);
}
extern "C" __global__ void __launch_bounds__(WIDTH) aggregate_carries(Carry *in, u64 n, u32 flags, Carry *aggregates) {
    aggregate_textbook_tiles<CarryOperator, CARRY_RUN>(in, n, flags, aggregates);
}

// `prefixes` holds the inclusive scan of the aggregates, `init` combined first.
extern "C" __global__ void __launch_bounds__(WIDTH)
    scan_elements(Element *in, Element *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_textbook_tiles<Operator, RUN>(in, out, n, init, flags, GivenPrefixes<Operator>(prefixes));
}
extern "C" __global__ void __launch_bounds__(WIDTH)
    scan_carries(Carry *in, Carry *out, u64 n, Carry init, u32 flags, Carry *prefixes) {
    scan_textbook_tiles<CarryOperator, CARRY_RUN>(in, out, n, init, flags, GivenPrefixes<CarryOperator>(prefixes));
}
