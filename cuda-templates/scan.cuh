// Scan: the pipeline from contiguous memory to contiguous memory.
#pragma once
#include "pipeline.cuh"

enum ScanFlags : u32 { EXCLUSIVE = 1, REVERSE = 2, INIT = 4 };

// No pointer is __restrict__: input and output may be the same memory.
template <class Operator> struct ScanSource {
    typedef typename Operator::Element Item;
    Run<Item> run;

    template <class Stage> __device__ void load(Stage &stage, u64 first, u32 lane) const { run.load(stage, first, lane); }
    __device__ typename Operator::Carry carry(Item x) const { return Operator::lift(x); }
};

template <class Operator> struct ScanSink {
    typedef typename Operator::Element Result;
    typedef typename Operator::Carry Carry;
    Run<Result> run;
    bool exclusive;

    __device__ Result put(u64, Result, Carry before, Carry upto) const { return Operator::lower(exclusive ? before : upto); }
    template <class Stage> __device__ void store(Stage &stage, u64 first, u32 lane) const { run.store(stage, first, lane); }
};

template <class Operator, class Shape, class Join> using ScanPipeline =
    Pipeline<Operator, ScanSource<Operator>, ScanSink<Operator>, typename Operator::Element, Shape, Join>;

template <class Operator, class Shape, class Join>
__device__ void scan_tiles(typename Operator::Element *in, typename Operator::Element *out, u64 n, typename Operator::Carry init,
                           u32 flags, Join join) {
    typedef ScanPipeline<Operator, Shape, Join> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    ScanSink<Operator> sink{{out, n, reverse}, bool(flags & EXCLUSIVE)};
    Scan::run(shared, source, sink, join, {init, bool(flags & INIT)}, reverse);
}

// The aggregate of each whole tile; the grid leaves the last one out, which no tile comes after.
template <class Operator, class Shape>
__device__ void aggregate_tiles(typename Operator::Element *in, u64 n, u32 flags, typename Operator::Carry *aggregates) {
    typedef ScanPipeline<Operator, Shape, GivenPrefixes<Operator>> Scan;
    __shared__ typename Scan::Shared shared;
    bool reverse = flags & REVERSE;
    ScanSource<Operator> source{{in, n, reverse}};
    Scan::aggregate(shared, source, reverse, aggregates);
}
