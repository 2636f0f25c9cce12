// The kernel of scan by a textbook's block and a single pass, compiled at run time. The unit defines the `Join`.
#pragma once
#include "textbook/textbook.cuh"

// As many blocks as a multiprocessor of 2048 threads can run, where carries are words: the compiler then keeps to 32 registers, which
// are enough. On machines of fewer threads it passes this over.
constexpr u32 BLOCKS = sizeof(Carry) <= 4 ? 2048 / WIDTH : 1;

extern "C" __global__ void __launch_bounds__(WIDTH, BLOCKS)
    scan_textbook(Element *in, Element *out, u64 n, Carry init, u32 flags, void *memory, u32 tiles) {
    scan_textbook_tiles<Operator, RUN>(in, out, n, init, flags, Join(memory, tiles));
}
