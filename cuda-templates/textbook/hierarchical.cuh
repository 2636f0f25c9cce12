// The kernels of the hierarchical scan by a textbook's block, compiled at run time:
//
//   begin    every tile up to its aggregate; each thread keeps its carry in scratch memory
//   scan     the aggregates, by the same kernels on carries, recursively
//   finish   every tile from its prefix
#pragma once
#include "scan/carry_operator.cuh"
#include "textbook/textbook.cuh"

#if HAS_KERNEL(begin_elements)
extern "C" __global__ void __launch_bounds__(WIDTH)
    begin_elements(Element *in, u64 n, u32 flags, Carry *aggregates, Carry *carries) {
    begin_textbook_tiles<Operator, RUN>(in, n, flags, aggregates, carries);
}
#endif
#if HAS_KERNEL(begin_carries)
extern "C" __global__ void __launch_bounds__(WIDTH)
    begin_carries(Carry *in, u64 n, u32 flags, Carry *aggregates, Carry *carries) {
    begin_textbook_tiles<CarryOperator, CARRY_RUN>(in, n, flags, aggregates, carries);
}
#endif

#if HAS_KERNEL(finish_elements)
extern "C" __global__ void __launch_bounds__(WIDTH)
    finish_elements(Element *in, Element *out, u64 n, Carry init, u32 flags, Carry *prefixes, Carry *carries) {
    finish_textbook_tiles<Operator, RUN>(in, out, n, init, flags, prefixes, carries);
}
#endif
#if HAS_KERNEL(finish_carries)
extern "C" __global__ void __launch_bounds__(WIDTH)
    finish_carries(Carry *in, Carry *out, u64 n, Carry init, u32 flags, Carry *prefixes, Carry *carries) {
    finish_textbook_tiles<CarryOperator, CARRY_RUN>(in, out, n, init, flags, prefixes, carries);
}
#endif
