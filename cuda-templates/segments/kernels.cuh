// The kernels of pack and expand, for offsets and indices of 4 and 8 bytes. A length in memory is the number
// of segments.
#pragma once
#include "core/length.cuh"
#include "segments/segments.cuh"

#define PACK_KERNEL(NAME, OFFSET, WORDS)                                                                                         \
    DEFINE_KERNEL(NAME, extern "C" __global__ void __launch_bounds__(PackTile<OFFSET>::THREADS)                                  \
        NAME(Ends<OFFSET> ends, const OFFSET *begins, const u8 *from, u64 bytes, u8 *to AND_LENGTH) {                            \
        TAKE_LENGTH(ends.n)                                                                                                      \
        pack_tile<PackTile<OFFSET>, WORDS>(ends, begins, from, bytes, to);                                                       \
    })
PACK_KERNEL(pack_u32_bytes, u32, false)
PACK_KERNEL(pack_u32_words, u32, true)
PACK_KERNEL(pack_u64_bytes, u64, false)
PACK_KERNEL(pack_u64_words, u64, true)

#define EXPAND_KERNEL(NAME, OFFSET, INDEX)                                                                                       \
    DEFINE_KERNEL(NAME, extern "C" __global__ void __launch_bounds__(ExpandTile<OFFSET>::THREADS)                                \
        NAME(Ends<OFFSET> ends, INDEX *segment_of, INDEX *positions AND_LENGTH) {                                                \
        TAKE_LENGTH(ends.n)                                                                                                      \
        expand_tile<ExpandTile<OFFSET>, INDEX>(ends, segment_of, positions);                                                     \
    })
EXPAND_KERNEL(expand_u32_u32, u32, u32)
EXPAND_KERNEL(expand_u32_u64, u32, u64)
EXPAND_KERNEL(expand_u64_u32, u64, u32)
EXPAND_KERNEL(expand_u64_u64, u64, u64)
