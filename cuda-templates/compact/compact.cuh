// Compaction and partition (stream compaction): a walk of its own on the tile pipeline,
// `CompactWalk`.
//
//   fold      each lane marks the selected items among its own, and scans of packed counts rank
//             them; the count of selected items is the carry
//   prepare   while the tile waits for its prefix, each warp gathers its selected items at the
//             front of the stage
//   finish    the front goes out as whole vectors, from the prefix on
//
// What moves is a column: the staged items, a payload array, or indices. A second column follows
// through the same stage with the same marks and ranks. A partition has two or three parts, in
// input order each: the selected items, then those selected by a second test if there are three
// parts, then the rest.
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

// Plain data of any size, as granules of its alignment.
template <u32 BYTES, u32 ALIGN> struct Plain { typename GranuleOf<ALIGN>::Type granule[BYTES / ALIGN]; };

// How many consecutive items a lane takes at once, by the bytes of the widest column's items: as many
// as a vector holds, and more if only more make whole words.
constexpr u32 neighbours(u32 bytes, u32 each = 1) {
    return each * 2 * bytes <= sizeof(Vector) || each * bytes % 4 != 0 ? neighbours(bytes, each * 2) : each;
}

// Consecutive items that one lane reads at once.
template <class Item, u32 EACH> struct Neighbours {
    typedef typename GranuleOf<common_divisor(EACH * sizeof(Item), sizeof(Vector))>::Type Granule;
    Granule granule[EACH * sizeof(Item) / sizeof(Granule)];

    __device__ Item operator[](u32 j) const {
        Item item;
        memcpy(&item, (const char *)granule + j * sizeof(Item), sizeof(Item));
        return item;
    }
};
template <u32 EACH, class Item> __device__ inline Neighbours<Item, EACH> neighbours_at(const Item *item) {
    return *(const Neighbours<Item, EACH> *)item;
}

// The selected items of a slice of ROWS * 32 items, and their ranks. In each step the lanes take EACH
// consecutive items each: of step s, lane l owns the items from (s * 32 + l) * EACH on.
template <u32 ROWS, u32 EACH_> struct Selection {
    static constexpr u32 EACH = EACH_, STEPS = ROWS / EACH, STEP = EACH * WARP, ITEMS = ROWS * WARP,
                         WORDS = (ROWS + WARP - 1) / WARP;
    static_assert(ROWS % EACH == 0 && WARP % EACH == 0, "steps are whole, and a step's marks lie in one word");

    u32 valid;    // items of the slice before the end of the input
    u32 selected; // selected items of the slice; valid after `rank`

    __device__ Selection() {}
    __device__ Selection(u64 n, u64 first) : valid(first >= n ? 0 : u32(min(n - first, u64(ITEMS)))) {}

    // The lane's marks of a step, the first item's in the lowest bit.
    __device__ u32 marks(u32 step) const { return word[step * EACH / WARP] >> step * EACH % WARP & ((1u << EACH) - 1); }
    // The number of the slice's selected items up to the lane's last item of a step. Valid after `rank`.
    __device__ u32 upto(u32 step) const { return counts[step / 2] >> step % 2 * 16 & 0xffff; }

    // Sets the marks of each step to `marks(i, w)`, those of the lane's items from i on, which go to
    // word w. AT_ONCE steps are unrolled.
    template <u32 AT_ONCE = WARP, class Marks> __device__ void mark(const Marks &marks, u32 lane) {
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) {
            word[w] = 0;
#pragma unroll AT_ONCE
            for (u32 k = 0; k < (ROWS < WARP ? ROWS : WARP); k += EACH)
                if (w * WARP + k < ROWS) word[w] |= marks((w * WARP + k) * WARP + lane * EACH, w) << k;
        }
    }
    // Marks each valid item i, the lane's j-th of a step, if `selects(items, j, i)`. `read(i)` returns
    // the items from i on.
    template <class Read, class Selects> __device__ void by(const Read &read, const Selects &selects, u32 lane) {
        auto marks = [&](u32 i, u32 count) {
            auto items = read(i);
            u32 bits = 0;
#pragma unroll
            for (u32 j = 0; j < EACH; j++)
                if (j < count && selects(items, j, i + j)) bits |= 1u << j;
            return bits;
        };
        if (valid == ITEMS) mark([&](u32 i, u32) { return marks(i, EACH); }, lane);
        else mark<1>([&](u32 i, u32) { return marks(i, left(i)); }, lane);
    }

    // Selects the rejected items, and rejects the selected ones.
    __device__ void complement() {
#pragma unroll
        for (u32 &w : word) w = ~w;
    }
    // Rejects what `others` selects.
    __device__ void exclude(const Selection &others) {
#pragma unroll
        for (u32 w = 0; w < WORDS; w++) word[w] &= ~others.word[w];
    }

    // Ends the selection: clears the marks of items past the end, and ranks the selected items.
    __device__ void rank(u32 lane) {
        if (valid < ITEMS) {
            Selection existing;
            existing.template mark<1>([&](u32 i, u32) { return (1u << min(left(i), EACH)) - 1; }, lane);
#pragma unroll
            for (u32 w = 0; w < WORDS; w++) word[w] &= existing.word[w];
        }
        selected = 0;
#pragma unroll
        for (u32 step = 0; step < STEPS; step += 2) {
            u32 pair = __popc(marks(step));
            if (step + 1 < STEPS) pair |= __popc(marks(step + 1)) << 16;
            pair = warp_inclusive<Add>(pair, lane);
            u32 all = shuffle(pair, WARP - 1);
            counts[step / 2] = pair + (all << 16) + selected * 0x10001;
            selected += (all & 0xffff) + (all >> 16);
        }
    }

  private:
    u32 word[WORDS];              // the lane's marks, step by step
    u32 counts[(STEPS + 1) / 2]; // `upto` of two steps each

    struct Add {
        typedef u32 Carry;
        static __device__ u32 combine(u32 a, u32 b) { return a + b; }
    };
    __device__ u32 left(u32 i) const { return i >= valid ? 0 : valid - i; }
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
    typedef typename GranuleOf<alignof(Item)>::Type Granule;
    constexpr u32 GRANULES = sizeof(Item) / sizeof(Granule);
    static_assert(ROWS * sizeof(Item) % sizeof(Vector) == 0, "the slice is whole vectors of each lane");
    Run<Granule> run{(Granule *)from, n * GRANULES, false};
    run.begin_load(*(Slice<Granule, ROWS * sizeof(Item) / sizeof(Vector)> *)stage, first * GRANULES, lane);
}
__device__ inline void end_load() {
    wait_for_copies();
    __syncwarp();
}

// By one warp: prefetches the same slice into L2.
template <u32 ITEMS, class Item> __device__ inline void prefetch_column(const Item *from, u64 n, u64 first, u32 lane) {
    typedef typename GranuleOf<alignof(Item)>::Type Granule;
    constexpr u32 GRANULES = sizeof(Item) / sizeof(Granule);
    Run<Granule> run{(Granule *)from, n * GRANULES, false};
    run.template prefetch<ITEMS * GRANULES>(first * GRANULES, lane);
}

// By one warp: stores the items at the front of the stage from index `begin` on, up to the
// output's capacity.
template <class Item>
__device__ inline void store_column(const Vector *stage, Item *to, u64 begin, u64 capacity, u32 count, u32 lane) {
    typedef typename GranuleOf<alignof(Item)>::Type Granule;
    constexpr u32 GRANULES = sizeof(Item) / sizeof(Granule);
    if (begin < capacity)
        store_front(stage, (Granule *)(to + begin), u32(min(u64(count), capacity - begin)) * GRANULES, lane);
}

// By one warp: calls `use` for each of `count` items of an array, in any order. Items may be aligned to less than
// their size; then no vector begins where an item does.
template <class Item, class Use>
__device__ inline void each_item(const Item *from, u32 count, const Use &use, u32 lane) {
    constexpr u32 IN_VECTOR = sizeof(Vector) / sizeof(Item);
    constexpr bool IS_TILED = sizeof(Vector) % sizeof(Item) == 0;
    u32 to_vector = u32((sizeof(Vector) - (u64)from % sizeof(Vector)) % sizeof(Vector)) / u32(sizeof(Item));
    bool has_vectors = IS_TILED && (u64)from % sizeof(Item) == 0;
    u32 head = has_vectors ? min(count, to_vector) : count, vectors = (count - head) / IN_VECTOR;
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
// A choice marks the selected items of a slice (`choose`, and `choose_second` after it for the second
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

    template <class Selection> __device__ void choose(Selection &selection, Vector *stage, u64 first, u32 lane) const {
        const Item *staged = (const Item *)stage;
        begin_load<Selection::ITEMS / WARP>(items, n, stage, first, lane);
        end_load();
        selection.by([&](u32 i) { return neighbours_at<Selection::EACH>(staged + i); },
                     [&](auto &items, u32 j, u32) { return test(items[j]); }, lane);
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

    template <class Selection>
    __device__ void choose_second(Selection &selection, const Vector *stage, u32 lane) const {
        const typename Second::Item *staged = (const typename Second::Item *)stage;
        selection.by([&](u32 i) { return neighbours_at<Selection::EACH>(staged + i); },
                     [&](auto &items, u32 j, u32) { return second(items[j]); }, lane);
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

    template <class Selection> __device__ void choose(Selection &selection, Vector *stage, u64 first, u32 lane) const {
        const Item *staged = (const Item *)stage;
        begin_load<Selection::ITEMS / WARP>(items, n, stage, first, lane);
        Item before = items[first > 0 && first < n ? first - 1 : 0];
        end_load();
        auto is_head = [&](auto &items, u32 j, u32 i) {
            return first + i == 0 || !Same::same(j > 0 ? items[j - 1] : i == 0 ? before : staged[i - 1], items[j]);
        };
        selection.by([&](u32 i) { return neighbours_at<Selection::EACH>(staged + i); }, is_head, lane);
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

    template <class Selection> __device__ void choose(Selection &selection, Vector *, u64 first, u32 lane) const {
        constexpr u32 EACH = Selection::EACH;
        const u8 *own = flags + first;
        if (selection.valid < Selection::ITEMS || (u64)own % EACH != 0) {
            selection.by([&](u32 i) { return own + i; }, [](auto *own, u32 j, u32) { return own[j] != 0; }, lane);
            return;
        }
        auto marks = [&](u32 i, u32) {
            Words<Neighbours<u8, EACH>> words(neighbours_at<EACH>(own + i));
            u32 marks = 0;
#pragma unroll
            for (u32 k = 0; k < words.N; k++) marks |= bits(words.word[k]) << 4 * k;
            return marks;
        };
        selection.mark(marks, lane);
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

    template <class Selection> __device__ void choose(Selection &selection, Vector *, u64 first, u32 lane) const {
        // The warp loads neighbouring words, and a step's marks come from EACH of its lanes.
        u32 own[Selection::WORDS];
#pragma unroll
        for (u32 w = 0; w < Selection::WORDS; w++) {
            u32 row = w * WARP + lane;
            own[w] = row * WARP < selection.valid ? words[first / WARP + row] : 0;
        }
        auto marks = [&](u32 i, u32 w) {
            return shuffle(own[w], i / WARP % WARP) >> i % WARP & ((1u << Selection::EACH) - 1);
        };
        selection.mark(marks, lane);
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
    template <u32 EACH> __device__ Neighbours<Item, EACH> read(const Vector *stage, u32 i) const {
        return neighbours_at<EACH>((const Item *)stage + i);
    }
    __device__ void store(const Vector *stage, u64 begin, u64 capacity, u64, u32 count, u32 lane) const {
        store_column(stage, this->outputs.to[0], begin, capacity, count, lane);
    }
    // Staged items have been read when they are chosen.
    __device__ bool is_in_place() const { return !STAGED && this->from == this->outputs.to[0]; }
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
    __device__ bool is_in_place() const { return false; }
    struct Places {
        u32 first;
        __device__ Item operator[](u32 j) const { return Item(first + j); }
    };
    template <u32 EACH> __device__ Places read(const Vector *, u32 i) const { return {i}; }

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

// A warp's slice from the choice to the outputs. `fold` leaves the selection; `gather` and `store`
// move one column each by it.
template <u32 ROWS, class Choice, class First, class Second, u32 PARTS> struct CompactWalk {
    typedef typename Counts<PARTS>::Carry Carry;
    static constexpr u32 ITEMS = ROWS * WARP, COUNTED = Counts<PARTS>::COUNTED, MOST_SHIFT = 0;
    static constexpr u32 WIDEST = largest(largest(Choice::STAGED, First::BYTES), Second::BYTES);
    static constexpr u32 VECTORS = ITEMS * WIDEST / sizeof(Vector);
    typedef Selection<ROWS, neighbours(WIDEST)> Selected;
    static constexpr u32 EACH = Selected::EACH, STEPS = Selected::STEPS;
    // Stages begin at multiples of 128 bytes. At odd multiples of 16 the kernel is slower.
    struct alignas(128) Stage {
        // The items. After `gather` the selected items in front, and the items of each further part
        // behind them, from a whole vector on.
        Vector items[VECTORS + PARTS - 1];
    };

    CompactCall call;
    Choice choice;
    First first_column;
    Second second_column;
    // Items of each part but the last, if all parts go to one buffer; else null.
    const Carry *totals;
    Selected selection, second; // the second of three parts
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
        selection = Selected(call.n, first);
        first_column.template begin<ROWS>(stage.items, call.n, first, lane);
        choice.choose(selection, stage.items, first, lane);
        if (call.flags & COMPLEMENT) selection.complement();
        selection.rank(lane);
        // In place the next tile may write where items of this one lie, once it has the count.
        if (first_column.is_in_place()) end_load();
        Carry counts = {{selection.selected}};
        second_count = selection.valid - selection.selected;
        if constexpr (PARTS == 3) {
            second = Selected(call.n, first);
            choice.choose_second(second, stage.items, lane);
            if (call.flags & COMPLEMENT_SECOND) second.complement();
            second.exclude(selection);
            second.rank(lane);
            counts.of[1] = second_count = second.selected;
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
        if (PARTS == 1 && (call.capacity[0] == 0 || selection.selected == 0)) return;
        // A selected item moves to its own index or a lower one, so a batch of steps may move before
        // the next one is read. A further part goes where other items were, so all are read first.
        constexpr u32 BATCH = PARTS == 1 ? largest(4 / EACH, 1) : STEPS;
        Item *front = (Item *)stage.items, *others = (Item *)(stage.items + vectors<Item>(selection.selected)),
             *last = PARTS == 3 ? (Item *)((Vector *)others + vectors<Item>(second_count)) : others;
#pragma unroll
        for (u32 begin = 0; begin < STEPS; begin += BATCH) {
            decltype(column.template read<EACH>(stage.items, 0)) items[BATCH];
#pragma unroll
            for (u32 k = 0; k < BATCH && begin + k < STEPS; k++)
                items[k] = column.template read<EACH>(stage.items, (begin + k) * Selected::STEP + lane * EACH);
            __syncwarp();
#pragma unroll
            for (u32 k = 0; k < BATCH && begin + k < STEPS; k++) {
                u32 step = begin + k, marks = selection.marks(step), rank = selection.upto(step);
                u32 second_marks = PARTS == 3 ? second.marks(step) : 0,
                    second_rank = PARTS == 3 ? second.upto(step) : 0;
                u32 end = step * Selected::STEP + (lane + 1) * EACH;
                Item *to = front + rank, *second_to = others + second_rank,
                     *last_to = last + (end - rank - second_rank);
                // Items past the end of the input go behind the last part.
#pragma unroll
                for (u32 j = EACH; j-- > 0;) {
                    Item item = items[k][j];
                    if (marks >> j & 1) *--to = item;
                    else if (PARTS == 3 && second_marks >> j & 1) *--second_to = item;
                    else if (PARTS > 1) *--last_to = item;
                }
            }
        }
        __syncwarp();
    }

    template <class Column>
    __device__ void store(const Column &column, const Stage &stage, Carry before, u32 lane) const {
        typedef typename Column::Item Item;
        column.store(stage.items, before.of[0], call.capacity[0], first, selection.selected, lane);
        const Vector *others = stage.items + vectors<Item>(selection.selected);
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
                         selection.valid - selection.selected - second_count, lane);
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
