// Compaction and partition (stream compaction): a walk of its own on the tile pipeline,
// `CompactWalk`.
//
//   fold      the choice marks the selected items of the slice, one word a row of 32 items; the
//             count of selected items is the carry
//   prepare   while the tile waits for its prefix, each warp gathers its selected items at the
//             front of the stage
//   finish    the front goes out as whole vectors, from the prefix on
//
// What moves is a column: the staged items, a payload array, or indices. A second column follows
// through the same stage with the same words. A partition has two or three parts, in input order
// each: the selected items, then those selected by a second test if there are three parts, then
// the rest.
#pragma once
#include "core/pipeline.cuh"
#include "compact/contract.cuh" // the structs and the flags that the host shares: src/cuda/compact/contract.rs

// The carry: the number of items of each part except the last, which gets the rest. With one part,
// compaction, rejected items go nowhere.
template <u32 PARTS, class Number = u64> struct Counts {
    static constexpr u32 COUNTED = PARTS == 3 ? 2 : 1;
    struct Carry { Number of[COUNTED]; };
    static __device__ Carry alone(Carry x) { return x; }
    static __device__ Carry combine(Carry a, Carry b) {
#pragma unroll
        for (u32 k = 0; k < COUNTED; k++) a.of[k] += b.of[k];
        return a;
    }
};

// Plain data of any size, as units of its alignment.
template <u32 ALIGN> struct UnitOf;
template <> struct UnitOf<1> { typedef u8 Type; };
template <> struct UnitOf<2> { typedef u16 Type; };
template <> struct UnitOf<4> { typedef u32 Type; };
template <> struct UnitOf<8> { typedef u64 Type; };
template <> struct UnitOf<16> { typedef Vector Type; };

template <u32 BYTES, u32 ALIGN> struct Plain { typename UnitOf<ALIGN>::Type unit[BYTES / ALIGN]; };

// A row of 32 items: the bits of its selected items, and the number of selected items in the
// slice's rows before it.
struct alignas(8) Row { u32 word, before; };

// The rows of a slice, as words. Lane l owns rows l * EACH and on.
template <u32 ROWS_> struct Rows {
    static constexpr u32 ROWS = ROWS_, ITEMS = ROWS * WARP;
    static constexpr u32 EACH = (ROWS + WARP - 1) / WARP, LANES = ROWS / EACH;
    static constexpr u32 BATCH = 4; // rows that are moved at once
    static_assert(ROWS % EACH == 0 && ROWS % BATCH == 0, "lanes have as many rows, batches are whole");

    u32 word[EACH];
    u32 valid;    // items of the slice before the end of the input
    u32 selected; // selected items of the slice; valid after `rank`

    __device__ Rows() {}
    __device__ Rows(u64 n, u64 first) : valid(first >= n ? 0 : u32(min(n - first, u64(ITEMS)))) {}

    // Sets the words to `selects(i)` of every valid item i of the slice.
    template <class Predicate> __device__ void by(const Predicate &selects, u32 lane) {
        if (valid == ITEMS) by_ballots([&](u32 i) { return selects(i); }, lane);
        else by_ballots([&](u32 i) { return i < valid && selects(i); }, lane);
    }

    // Selects the rejected items, and rejects the selected ones.
    __device__ void complement() {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) word[e] = ~word[e];
    }
    // Rejects what `others` selects.
    __device__ void exclude(const Rows &others) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) word[e] &= ~others.word[e];
    }

    // Ends the selection: clears the bits of items past the end, counts each row's selected items
    // and those before it, and leaves the rows in `table`, `EVERY` entries apart. After it the warp
    // may read `table`.
    template <u32 EVERY> __device__ void rank(Row *table, u32 lane) {
        u32 own = 0;
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            u32 i = (lane * EACH + e) * WARP, exist = i >= valid ? 0 : min(valid - i, WARP);
            word[e] &= exist == WARP ? ALL_LANES : (1u << exist) - 1;
            own += __popc(word[e]);
        }
        u32 inclusive = warp_inclusive<Add>(own, lane), before = inclusive - own;
        selected = shuffle(inclusive, WARP - 1);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            if (lane < LANES) table[(lane * EACH + e) * EVERY] = {word[e], before};
            before += __popc(word[e]);
        }
        __syncwarp();
    }

    // Moves a column batch by batch: calls `read(k, i)` for this lane's item i of the k-th row of a
    // batch, then `move(k, row, i)`. All reads of a batch come before its moves, and an item
    // moves to its own index or a lower one, so no item is overwritten before it is read.
    template <class Read, class Move> static __device__ void batches(const Read &read, const Move &move, u32 lane) {
#pragma unroll 2
        for (u32 first = 0; first < ROWS; first += BATCH) {
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) read(k, (first + k) * WARP + lane);
            __syncwarp();
#pragma unroll
            for (u32 k = 0; k < BATCH; k++) move(k, first + k, (first + k) * WARP + lane);
        }
        __syncwarp();
    }

  private:
    struct Add {
        typedef u32 Carry;
        static __device__ u32 combine(u32 a, u32 b) { return a + b; }
    };

    template <class Predicate> __device__ void by_ballots(const Predicate &selects, u32 lane) {
#pragma unroll
        for (u32 e = 0; e < EACH; e++) word[e] = 0;
#pragma unroll 8
        for (u32 l = 0; l < LANES; l++)
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                u32 row = __ballot_sync(ALL_LANES, selects((l * EACH + e) * WARP + lane));
                if (lane == l) word[e] = row;
            }
    }
};

// The bits of a float as an integer in the same order. Ranges of these are tested by a wrapping
// difference, as ranges of signed integers are.
template <class Bits> __device__ inline Bits ordered(Bits bits) {
    constexpr u32 SIGN = 8 * sizeof(Bits) - 1;
    return bits >> SIGN ? Bits(bits ^ Bits(Bits(~Bits(0)) >> 1)) : bits;
}

// ---- columns in and out of the stage ------------------------------------------------------------

// By one warp: copies the slice of an array that begins with item `first` into the stage. The warp
// may read it after `end_load`.
template <u32 ROWS, class Item>
__device__ inline void begin_load(const Item *from, u64 n, Vector *stage, u64 first, u32 lane) {
    typedef typename UnitOf<alignof(Item)>::Type Unit;
    constexpr u32 UNITS = sizeof(Item) / sizeof(Unit);
    static_assert(ROWS * sizeof(Item) % sizeof(Vector) == 0, "the slice is whole vectors of each lane");
    Run<Unit> run{(Unit *)from, n * UNITS, false};
    run.begin_load(*(Slice<Unit, ROWS * sizeof(Item) / sizeof(Vector)> *)stage, first * UNITS, lane);
}
__device__ inline void end_load() {
    wait_for_copies();
    __syncwarp();
}

// By one warp: prefetches the same slice into L2.
template <u32 ITEMS, class Item> __device__ inline void prefetch_column(const Item *from, u64 n, u64 first, u32 lane) {
    typedef typename UnitOf<alignof(Item)>::Type Unit;
    constexpr u32 UNITS = sizeof(Item) / sizeof(Unit);
    Run<Unit> run{(Unit *)from, n * UNITS, false};
    run.template prefetch<ITEMS * UNITS>(first * UNITS, lane);
}

// By one warp: stores the items at the front of the stage from index `begin` on, up to the
// output's capacity.
template <class Item>
__device__ inline void store_column(const Vector *stage, Item *to, u64 begin, u64 capacity, u32 count, u32 lane) {
    typedef typename UnitOf<alignof(Item)>::Type Unit;
    constexpr u32 UNITS = sizeof(Item) / sizeof(Unit);
    if (begin < capacity)
        store_front(stage, (Unit *)(to + begin), u32(min(u64(count), capacity - begin)) * UNITS, lane);
}

// By one warp: calls `use` for each of `count` items of an array, in any order.
template <class Item, class Use>
__device__ inline void each_item(const Item *from, u32 count, const Use &use, u32 lane) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Item);
    constexpr bool IS_TILED = sizeof(Vector) % sizeof(Item) == 0;
    u32 to_vector = u32((sizeof(Vector) - (u64)from % sizeof(Vector)) % sizeof(Vector)) / u32(sizeof(Item));
    u32 head = IS_TILED ? min(count, to_vector) : count, vectors = (count - head) / IN_VECTOR;
    const Vector *whole = (const Vector *)(from + head);
    for (u32 i = lane; i < head; i += WARP) use(from[i]);
#pragma unroll 8
    for (u32 k = lane; k < vectors; k += WARP) {
        Vector vector = whole[k];
        Item items[IN_VECTOR];
        memcpy(items, &vector, sizeof(items));
#pragma unroll
        for (u32 j = 0; j < IN_VECTOR; j++) use(items[j]);
    }
    for (u32 i = head + vectors * IN_VECTOR + lane; i < count; i += WARP) use(from[i]);
}

// ---- the choice: which items are selected -------------------------------------------------------
// A choice sets the words of a slice's rows (`choose`, and `choose_second` after it for the second
// of three parts). A choice that reads items stages them, and the items move from the stage unless
// only other columns move.
//
// `count` serves the counting launch of compact/one_buffer.cuh: of `count` items, a lane adds those
// that it finds of each part but the last to `own`. A complement flag inverts a test.

// Items that pass a test.
template <class Test> struct ByPredicate {
    typedef typename Test::Item Item;
    typedef typename Test::Parameters Parameters;
    static constexpr u32 STAGED = sizeof(Item);
    const Item *items;
    u64 n;
    Test test;

    __device__ ByPredicate(const CompactCall &call, const Parameters &p)
        : items((const Item *)call.chosen), n(call.n), test{p} {}

    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        prefetch_column<ITEMS>(items, n, first, lane);
    }

    template <class Rows> __device__ void choose(Rows &rows, Vector *stage, u64 first, u32 lane) const {
        const Item *staged = (const Item *)stage;
        begin_load<Rows::ROWS>(items, n, stage, first, lane);
        end_load();
        rows.by([&](u32 i) { return test(staged[i]); }, lane);
    }

    __device__ void count(u32 (&own)[1], u64 first, u32 count, u32 flags, u32 lane) const {
        bool complement = flags & COMPLEMENT;
        each_item(items + first, count, [&](Item x) { own[0] += test(x) != complement; }, lane);
    }
};

// Three parts: items that pass a first test, others that pass a second test, the rest.
template <class First, class Second> struct ByTwoPredicates : ByPredicate<First> {
    typedef TwoParameters<typename First::Parameters, typename Second::Parameters> Parameters;
    Second second;

    __device__ ByTwoPredicates(const CompactCall &call, const Parameters &p)
        : ByPredicate<First>(call, p.first), second{p.second} {}

    template <class Rows> __device__ void choose_second(Rows &rows, const Vector *stage, u32 lane) const {
        const typename Second::Item *staged = (const typename Second::Item *)stage;
        rows.by([&](u32 i) { return second(staged[i]); }, lane);
    }

    __device__ void count(u32 (&own)[2], u64 first, u32 count, u32 flags, u32 lane) const {
        bool complement = flags & COMPLEMENT, complement_second = flags & COMPLEMENT_SECOND;
        auto add = [&](typename First::Item x) {
            bool is_selected = this->test(x) != complement;
            own[0] += is_selected;
            own[1] += !is_selected && second(x) != complement_second;
        };
        each_item(this->items + first, count, add, lane);
    }
};

// The heads of runs of equal items: an item that differs from the one before it. Item 0 is a head.
template <class Item_, class Same> struct Distinct {
    typedef Item_ Item;
    typedef u8 Parameters;
    static constexpr u32 STAGED = sizeof(Item);
    const Item *items;
    u64 n;

    __device__ Distinct(const CompactCall &call, u8) : items((const Item *)call.chosen), n(call.n) {}

    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        prefetch_column<ITEMS>(items, n, first, lane);
    }

    template <class Rows> __device__ void choose(Rows &rows, Vector *stage, u64 first, u32 lane) const {
        const Item *staged = (const Item *)stage;
        begin_load<Rows::ROWS>(items, n, stage, first, lane);
        Item before = items[first > 0 && first < n ? first - 1 : 0];
        end_load();
        rows.by([&](u32 i) { return first + i == 0 || !Same::same(i == 0 ? before : staged[i - 1], staged[i]); }, lane);
    }
};

// Items whose flag, a byte, is not zero.
struct ByFlags {
    typedef u8 Parameters;
    static constexpr u32 STAGED = 0;
    const u8 *flags;
    u64 n;

    __device__ ByFlags(const CompactCall &call, u8) : flags((const u8 *)call.chosen), n(call.n) {}

    template <u32 ITEMS> __device__ void prefetch(u64 first, u32 lane) const {
        prefetch_column<ITEMS>(flags, n, first, lane);
    }

    // A bit for each byte of a word that is not zero: the high bits of the bytes are set, then a
    // product gathers them.
    static __device__ u32 bits(u32 word) {
        u32 high = (((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word) & 0x80808080;
        return (high >> 7) * 0x10204080 >> 28;
    }

    template <class Rows> __device__ void choose(Rows &rows, Vector *, u64 first, u32 lane) const {
        const u8 *own = flags + first + min(lane, Rows::LANES - 1) * Rows::EACH * WARP;
        if (rows.valid < Rows::ITEMS || (u64)own % sizeof(Vector) != 0) {
            rows.by([&](u32 i) { return flags[first + i] != 0; }, lane);
            return;
        }
#pragma unroll
        for (u32 e = 0; e < Rows::EACH; e++) {
            Vector low = ((const Vector *)own)[e * 2], high = ((const Vector *)own)[e * 2 + 1];
            u32 row = 0;
#pragma unroll
            for (u32 k = 0; k < 4; k++) row |= bits(low.word[k]) << 4 * k | bits(high.word[k]) << (16 + 4 * k);
            rows.word[e] = row;
        }
    }

    __device__ void count(u32 (&own)[1], u64 first, u32 count, u32 call_flags, u32 lane) const {
        bool complement = call_flags & COMPLEMENT;
        each_item(flags + first, count, [&](u8 x) { own[0] += (x != 0) != complement; }, lane);
    }
};

// Items whose bit is set, in a sequence of 32-bit words, the lowest bit first.
struct ByBits {
    typedef u8 Parameters;
    static constexpr u32 STAGED = 0;
    const u32 *words;

    __device__ ByBits(const CompactCall &call, u8) : words((const u32 *)call.chosen) {}

    template <u32 ITEMS> __device__ void prefetch(u64, u32) const {}

    template <class Rows> __device__ void choose(Rows &rows, Vector *, u64 first, u32 lane) const {
#pragma unroll
        for (u32 e = 0; e < Rows::EACH; e++) {
            u32 row = lane * Rows::EACH + e;
            rows.word[e] = row * WARP < rows.valid ? words[first / WARP + row] : 0;
        }
    }

    // Item `first` is the first of a word.
    __device__ void count(u32 (&own)[1], u64 first, u32 count, u32 flags, u32 lane) const {
        u32 flipped = flags & COMPLEMENT ? ALL_LANES : 0;
#pragma unroll 4
        for (u32 i = lane * WARP; i < count; i += WARP * WARP) {
            u32 exist = count - i;
            own[0] += __popc((words[first / WARP + i / WARP] ^ flipped) &
                             (exist < WARP ? (1u << exist) - 1 : ALL_LANES));
        }
    }
};

// ---- the columns: what moves --------------------------------------------------------------------

// An array: the items that the choice has staged, or a payload column.
template <class Item_, bool STAGED> struct Array : ArrayColumn<Item_> {
    typedef Item_ Item;
    static constexpr u32 BYTES = sizeof(Item);

    template <u32 ITEMS> __device__ void prefetch(u64 n, u64 first, u32 lane) const {
        if (!STAGED) prefetch_column<ITEMS>(this->from, n, first, lane);
    }
    template <u32 ROWS> __device__ void begin(Vector *stage, u64 n, u64 first, u32 lane) const {
        if (!STAGED) begin_load<ROWS>(this->from, n, stage, first, lane);
    }
    __device__ Item item(const Vector *stage, u32 i) const { return ((const Item *)stage)[i]; }
    __device__ void store(const Vector *stage, u64 begin, u64 capacity, u64, u32 count, u32 lane) const {
        store_column(stage, this->outputs.to[0], begin, capacity, count, lane);
    }
};

// The source indices: each item's index in the input. The stage holds each item's place in the slice;
// the index is made when it is stored.
template <class Index> struct Indices {
    typedef u16 Item;
    static constexpr u32 BYTES = sizeof(Item);
    PartOutputs<Index> outputs;

    template <u32 ITEMS> __device__ void prefetch(u64, u64, u32) const {
        static_assert(ITEMS <= 1 << 16, "a place has 16 bits");
    }
    template <u32 ROWS> __device__ void begin(Vector *, u64, u64, u32) const {}
    __device__ Item item(const Vector *, u32 i) const { return Item(i); }

    __device__ void store(const Vector *stage, u64 begin, u64 capacity, u64 first, u32 count, u32 lane) const {
        if (begin >= capacity) return;
        const Item *places = (const Item *)stage;
        Index *to = outputs.to[0] + begin;
        count = u32(min(u64(count), capacity - begin));
        // Each store of the warp begins a line. Elsewhere it would write halves of sectors.
        u32 past = u32((u64)to % LINE) / u32(sizeof(Index));
        for (u32 k = lane; k < past + count; k += WARP)
            if (k >= past) to[k - past] = Index(first + places[k - past]);
    }
};

// No second column.
struct NoColumn { static constexpr u32 BYTES = 0; };

__host__ __device__ constexpr u32 largest(u32 a, u32 b) { return a > b ? a : b; }

// ---- the walk -----------------------------------------------------------------------------------

// Consecutive items that one lane reads at once.
template <class Item, u32 EACH> struct Neighbours { alignas(EACH > 1 ? 4 : alignof(Item)) Item item[EACH]; };

// An item of each row, packed into as few registers as hold them.
template <class Item, u32 ROWS> struct PackedRegisters {
    typedef typename UnitOf<sizeof(Item) % 4 == 0 ? 4 : 1>::Type Unit;
    static constexpr u32 UNITS = sizeof(Item) / sizeof(Unit), IN_WORD = 4 / sizeof(Unit);
    u32 word[(ROWS * UNITS + IN_WORD - 1) / IN_WORD];

    __device__ void put(u32 row, Item item) {
        Unit unit[UNITS];
        memcpy(unit, &item, sizeof(Item));
#pragma unroll
        for (u32 u = 0; u < UNITS; u++) {
            u32 at = row * UNITS + u, bits = u32(unit[u]) << at % IN_WORD * 8 * sizeof(Unit);
            word[at / IN_WORD] = at % IN_WORD == 0 ? bits : word[at / IN_WORD] | bits;
            // Opaque to the compiler, which would otherwise keep each unit in its own register.
            if (at % IN_WORD == IN_WORD - 1) asm volatile("" : "+r"(word[at / IN_WORD]));
        }
    }
    __device__ Item get(u32 row) const {
        Unit unit[UNITS];
#pragma unroll
        for (u32 u = 0; u < UNITS; u++) {
            u32 at = row * UNITS + u;
            unit[u] = Unit(word[at / IN_WORD] >> at % IN_WORD * 8 * sizeof(Unit));
        }
        Item item;
        memcpy(&item, unit, sizeof(Item));
        return item;
    }
};

// A warp's slice from the choice to the outputs. `fold` leaves the words and ranks in `stage.rows`;
// `gather` and `store` move one column each by them.
template <u32 ROWS, class Choice, class First, class Second, u32 PARTS> struct CompactWalk {
    typedef typename Counts<PARTS>::Carry Carry;
    static constexpr u32 ITEMS = ROWS * WARP, COUNTED = Counts<PARTS>::COUNTED, MOST_SHIFT = 0;
    static constexpr u32 VECTORS = ITEMS * largest(largest(Choice::STAGED, First::BYTES), Second::BYTES) /
                                   sizeof(Vector);
    // Stages begin at multiples of 128 bytes. At odd multiples of 16 the kernel is slower.
    struct alignas(128) Stage {
        // The items. After `gather` the selected items in front, and the items of each further part
        // behind them, from a whole vector on.
        Vector items[VECTORS + PARTS - 1];
        Row rows[ROWS * COUNTED];
    };

    CompactCall call;
    Choice choice;
    First first_column;
    Second second_column;
    // Items of each part but the last, if all parts go to one buffer; else null.
    const Carry *totals;
    Rows<ROWS> rows;
    u64 first;
    u32 second_count; // items of the slice in the second part

    __device__ CompactWalk(const CompactCall &call, Choice choice, First first_column, Second second_column,
                           const Carry *totals)
        : call(call), choice(choice), first_column(first_column), second_column(second_column), totals(totals),
          second_count(0) {}

    __device__ void prefetch(u64 first, u32 lane) const {
        choice.template prefetch<ITEMS>(first, lane);
        first_column.template prefetch<ITEMS>(call.n, first, lane);
    }

    __device__ Carry fold(Stage &stage, u64 first, u32 lane) {
        this->first = first;
        rows = Rows<ROWS>(call.n, first);
        first_column.template begin<ROWS>(stage.items, call.n, first, lane);
        choice.choose(rows, stage.items, first, lane);
        if (call.flags & COMPLEMENT) rows.complement();
        rows.template rank<COUNTED>(stage.rows, lane);
        Carry counts = {{rows.selected}};
        if constexpr (PARTS == 3) {
            Rows<ROWS> second_rows(call.n, first);
            choice.choose_second(second_rows, stage.items, lane);
            if (call.flags & COMPLEMENT_SECOND) second_rows.complement();
            second_rows.exclude(rows);
            second_rows.template rank<COUNTED>(stage.rows + 1, lane);
            counts.of[1] = second_count = second_rows.selected;
        } else {
            second_count = rows.valid - rows.selected;
        }
        return counts;
    }

    // A column that the choice does not read may still be in flight when the count is published.
    // Later tiles wait for the count, not for the column.
    __device__ void prepare(Stage &stage, u32 lane) {
        end_load();
        gather(first_column, stage, lane);
    }

    // Volatile, as the host may read a count in pinned memory while the kernel runs.
    __device__ void total(Carry total) const {
#pragma unroll
        for (u32 k = 0; k < COUNTED; k++) *(volatile u64 *)&call.count[k] = total.of[k];
    }

    __device__ void finish(Stage &stage, Maybe<Carry> prefix, u64, u32 lane) {
        store(first_column, stage, prefix.value, lane);
        if constexpr (Second::BYTES > 0) {
            __syncwarp();
            second_column.template begin<ROWS>(stage.items, call.n, first, lane);
            end_load();
            gather(second_column, stage, lane);
            store(second_column, stage, prefix.value, lane);
        }
    }

  private:
    // Vectors of the stage that so many items take, the last one partly.
    template <class Item> static __device__ u32 vectors(u32 items) {
        return (items * u32(sizeof(Item)) + u32(sizeof(Vector)) - 1) / u32(sizeof(Vector));
    }

    // Moves the selected items to the front of the stage, and the items of each further part behind
    // them.
    template <class Column> __device__ void gather(const Column &column, Stage &stage, u32 lane) const {
        typedef typename Column::Item Item;
        Item *front = (Item *)stage.items;
        if constexpr (PARTS == 1) {
            u32 own = 1u << lane;
            Item batch[Rows<ROWS>::BATCH];
            if (call.capacity[0] == 0 || rows.selected == 0) return;
            rows.batches([&](u32 k, u32 i) { batch[k] = column.item(stage.items, i); },
                         [&](u32 k, u32 row, u32) {
                             Row selected = stage.rows[row];
                             if (selected.word & own)
                                 front[selected.before + __popc(selected.word & (own - 1))] = batch[k];
                         },
                         lane);
        } else {
            // All items are read into registers before any moves, because a further part goes where
            // other items were. Of items below 4 bytes a lane takes as many consecutive ones as
            // fill a word.
            constexpr u32 EACH = sizeof(Item) < 4 && 4 % sizeof(Item) == 0 ? 4 / sizeof(Item) : 1, STEPS = ROWS / EACH;
            typedef Neighbours<Item, EACH> Group;
            PackedRegisters<Group, STEPS> packed;
#pragma unroll
            for (u32 step = 0; step < STEPS; step++) packed.put(step, ((const Group *)stage.items)[step * WARP + lane]);
            __syncwarp();
            u32 behind = vectors<Item>(rows.selected);
            Item *others = (Item *)(stage.items + behind),
                 *last = (Item *)(stage.items + behind + vectors<Item>(second_count));
#pragma unroll
            for (u32 step = 0; step < STEPS; step++) {
                u32 i = (step * WARP + lane) * EACH, own = 1u << i % WARP;
                Row selected = stage.rows[i / WARP * COUNTED], in_second = stage.rows[i / WARP * COUNTED + COUNTED - 1];
                u32 rank = selected.before + __popc(selected.word & (own - 1)),
                    second_rank = in_second.before + __popc(in_second.word & (own - 1));
                Group group = packed.get(step);
#pragma unroll
                for (u32 j = 0; j < EACH; j++, i++, own <<= 1) {
                    bool is_selected = selected.word & own, is_second = PARTS == 3 && in_second.word & own;
                    Item *to = front + rank;
                    if (PARTS == 2 && !is_selected) to = others + (i - rank);
                    if (PARTS == 3 && !is_selected)
                        to = is_second ? others + second_rank : last + (i - rank - second_rank);
                    if (i < rows.valid) *to = group.item[j];
                    rank += is_selected;
                    second_rank += is_second;
                }
            }
            __syncwarp();
        }
    }

    template <class Column>
    __device__ void store(const Column &column, const Stage &stage, Carry before, u32 lane) const {
        typedef typename Column::Item Item;
        column.store(stage.items, before.of[0], call.capacity[0], first, rows.selected, lane);
        const Vector *others = stage.items + vectors<Item>(rows.selected);
        if constexpr (PARTS == 2) {
            u64 begin = first - before.of[0];
            if (totals) begin += totals->of[0];
            store_column(others, column.outputs.to[1], begin, call.capacity[1], second_count, lane);
        }
        if constexpr (PARTS == 3) {
            u64 begin = before.of[1], last_begin = first - before.of[0] - before.of[1];
            if (totals) begin += totals->of[0], last_begin += totals->of[0] + totals->of[1];
            store_column(others, column.outputs.to[1], begin, call.capacity[1], second_count, lane);
            others += vectors<Item>(second_count);
            store_column(others, column.outputs.to[2], last_begin, call.capacity[2],
                         rows.valid - rows.selected - second_count, lane);
        }
    }
};

// The kernel body of compaction, and of a partition into separate buffers or, of a single tile, into
// one buffer.
template <u32 WARPS, u32 ROWS, u32 SPREAD, u32 PARTS, class Choice, class First, class Second>
__device__ void compact_tiles(const CompactCall &call, Choice choice, First first_column, Second second_column) {
    typedef PrefixServer<Counts<PARTS>, WARPS, SPREAD> Join;
    typedef CompactWalk<ROWS, Choice, First, Second, PARTS> Walk;
    typedef TilePipeline<Counts<PARTS>, Walk, WARPS, Join> Compact;
    __shared__ typename Compact::Shared shared;
    typename Walk::Carry start = {};
    if (call.flags & APPEND) start.of[0] = load_relaxed(call.count);
    // With ONE_BUFFER there is one tile. `total` writes `count` before the same thread block reads it.
    const typename Walk::Carry *totals = call.flags & ONE_BUFFER ? (const typename Walk::Carry *)call.count : nullptr;
    Compact::run(shared, Walk(call, choice, first_column, second_column, totals), Join(call.memory, call.tiles),
                 {start, true});
}
