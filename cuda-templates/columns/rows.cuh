// A row of a narrow matrix as one element, whose columns the operator combines each on its own. So
// the kernels of scan and reduce take such a matrix as a sequence of rows.
#pragma once
#include "scan/scan.cuh"

template <class Item, u32 COLUMNS> struct Row { Item item[COLUMNS]; };

template <class Column, u32 COLUMNS> struct RowOperator {
    typedef Row<typename Column::Element, COLUMNS> Element;
    typedef Row<typename Column::Carry, COLUMNS> Carry;
    typedef NoPairs Pairs;

    static __device__ Carry lift(Element x) {
        Carry carry;
#pragma unroll
        for (u32 k = 0; k < COLUMNS; k++) carry.item[k] = Column::lift(x.item[k]);
        return carry;
    }
    static __device__ Carry alone(Carry x) {
#pragma unroll
        for (u32 k = 0; k < COLUMNS; k++) x.item[k] = Column::alone(x.item[k]);
        return x;
    }
    static __device__ Carry combine(Carry a, Carry b) {
#pragma unroll
        for (u32 k = 0; k < COLUMNS; k++) a.item[k] = Column::combine(a.item[k], b.item[k]);
        return a;
    }
    static __device__ Element lower(Carry x) {
        Element result;
#pragma unroll
        for (u32 k = 0; k < COLUMNS; k++) result.item[k] = Column::lower(x.item[k]);
        return result;
    }
};
