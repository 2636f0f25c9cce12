//! The text of a unit of compaction or partition: its choice and its columns.

use super::tuning::{COUNT_WARPS, CompactShape, compact_shapes, cooperative_shapes, count_each, move_shape};
use crate::cuda::contract::asserted_status;
use crate::cuda::unit::{Type, UnitKey, body, prelude};

/// The kernel's test that an integer lies in the range `p`.
pub(crate) const INTEGER_RANGE: &str = "Item(x - p.low) <= p.span";
/// The kernel's test that the bits of a float, in the order of floats, lie in the range `p`.
pub(crate) const FLOAT_RANGE: &str = "Item(ordered(x) - p.low) <= p.span";
/// The kernel's comparison of two numbers.
pub(crate) const SAME: &str = "a == b";
/// The kernel's comparison of two 16-bit floats.
pub(crate) const SAME_HALVES: &str = "widen(a) == widen(b)";

/// A predicate on items `x` with parameters `p`, an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test<'a> {
    pub(crate) item: Type<'a>,
    pub(crate) parameters: Type<'a>,
    pub(crate) keeps: &'a str,
}

impl Test<'_> {
    const fn key(&self, key: UnitKey) -> UnitKey {
        key.of_type(self.item).of_type(self.parameters).text(self.keeps)
    }

    /// Defines the test as a struct called `name`.
    fn defined(&self, name: &str) -> String {
        let Test { item, parameters, keeps } = self;
        format!(
            "{}\
             struct {name} {{\n    \
                 {}    {}    \
                 Parameters p;\n    \
                 __device__ bool operator()(Item x) const {{ {} }}\n\
             }};\n",
            prelude(&[keeps]),
            item.defined("Item", "item"),
            parameters.defined("Parameters", "parameters"),
            body("predicate", keeps)
        )
    }

    /// The text of the unit for the comparison with the Rust body.
    #[cfg(any(test, feature = "laws"))]
    pub(crate) fn laws_source(&self) -> String {
        format!("#include \"compact/compact.cuh\"\n{}#include \"laws/predicate.cuh\"\n", self.defined("Test"))
    }
}

/// The choice of items in a kernel of compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    /// Selects items by a predicate. For three parts, a second predicate selects among the rejected
    /// items.
    Items(Test<'a>, Option<Test<'a>>),
    /// Selects items `b` that differ from the item `a` before them; `same` is an expression.
    Distinct { item: Type<'a>, same: &'a str },
    /// Selects items whose flag, a byte, is not zero.
    Flags,
    /// Selects items whose bit is set.
    Bits,
}

impl Choice<'_> {
    const fn key(&self, key: UnitKey) -> UnitKey {
        match self {
            Choice::Items(only, None) => only.key(key.number(0)),
            Choice::Items(first, Some(second)) => second.key(first.key(key.number(1))),
            Choice::Distinct { item, same } => key.number(2).of_type(*item).text(same),
            Choice::Flags => key.number(3),
            Choice::Bits => key.number(4),
        }
    }

    /// Bytes of an item, if the choice reads items.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Choice::Items(Test { item, .. }, _) | Choice::Distinct { item, .. } => Some(item.size),
            Choice::Flags | Choice::Bits => None,
        }
    }
}

/// A column that moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// The items that the choice tests.
    Staged,
    /// A payload column of plain data.
    Plain { size: usize, align: usize },
    /// The source indices, unsigned integers of `size` bytes.
    Indices { size: usize },
    /// No second column.
    None,
}

impl Column {
    const fn key(self, key: UnitKey) -> UnitKey {
        match self {
            Column::Staged => key.number(0),
            Column::Plain { size, align } => key.number(1).number(size).number(align),
            Column::Indices { size } => key.number(2).number(size),
            Column::None => key.number(3),
        }
    }

    /// Bytes of an item in shared memory, if the column is an array of its own. Of an index it holds the
    /// place in the warp's slice, 16 bits.
    pub(crate) fn size(&self) -> Option<usize> {
        match *self {
            Column::Plain { size, .. } => Some(size),
            Column::Indices { .. } => Some(size_of::<u16>()),
            Column::Staged | Column::None => None,
        }
    }
}

/// The text's parts: a choice, the columns, and the number of parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactUnit<'a> {
    pub(crate) choice: Choice<'a>,
    pub(crate) columns: [Column; 2],
    /// The number of parts: the selected items, the rejected items, and between them the items that
    /// a second predicate selects.
    pub(crate) parts: usize,
}

impl CompactUnit<'_> {
    pub(crate) const fn key(&self) -> UnitKey {
        let [first, second] = self.columns;
        second.key(first.key(self.choice.key(UnitKey::new("compact").number(self.parts))))
    }

    /// Bytes of an item of the choice and of each column. A column that is no array of its own gets
    /// the size of another one.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let sizes = [self.choice.size(), self.columns[0].size(), self.columns[1].size()];
        let one = sizes.into_iter().flatten().next().unwrap_or(1);
        sizes.map(|size| size.unwrap_or(one))
    }

    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        let choice = match self.choice {
            Choice::Items(only, None) => {
                only.defined("Test") + "typedef Test::Item Item;\ntypedef ByPredicate<Test> Choice;\n"
            }
            Choice::Items(first, Some(second)) => {
                first.defined("Test")
                    + &second.defined("SecondTest")
                    + "typedef Test::Item Item;\ntypedef ByTwoPredicates<Test, SecondTest> Choice;\n"
            }
            Choice::Distinct { item, same } => format!(
                "{}\
                 struct Same {{\n    \
                     static __device__ bool same(Item a, Item b) {{ return {same}; }}\n\
                 }};\n\
                 typedef Distinct<Item, Same> Choice;\n",
                item.defined("Item", "item")
            ),
            Choice::Flags => "typedef ByFlags Choice;\n".into(),
            Choice::Bits => "typedef ByBits Choice;\n".into(),
        };
        let column = |column: Column| match column {
            Column::Staged => "Array<Item, true>".into(),
            Column::Plain { size, align } => format!("Array<Plain<{size}, {align}>, false>"),
            Column::Indices { size } => format!("Indices<{}>", if size == 4 { "u32" } else { "u64" }),
            Column::None => "NoColumn".to_owned(),
        };
        let [first, second] = self.columns.map(column);
        let parts = self.parts;
        let shapes: String = compact_shapes(&self.sizes(), parts)
            .iter()
            .enumerate()
            .map(|(k, shape)| format!(" KERNEL({k}, {}, {}, {})", shape.warps, shape.rows, shape.spread))
            .collect();
        let status = asserted_status("Counts<PARTS>::Carry", size_of::<u64>() * self.counted());
        let one_buffer = if parts > 1 { self.one_buffer() } else { String::new() };
        format!(
            "#include \"compact/compact.cuh\"\n\
             {choice}\
             typedef {first} First;\n\
             typedef {second} Second;\n\
             constexpr u32 PARTS = {parts};\n\
             #define RANGES(KERNEL){shapes}\n\
             {one_buffer}\
             {status}\
             #include \"compact/kernels.cuh\"\n"
        )
    }
}

impl CompactUnit<'_> {
    /// The shapes of the kernels of a partition into one buffer.
    fn one_buffer(&self) -> String {
        let (sizes, parts) = (self.sizes(), self.parts);
        let cooperative: String = cooperative_shapes(&sizes, parts)
            .iter()
            .enumerate()
            .map(|(k, shape)| format!(" KERNEL({k}, {}, {})", shape.warps, shape.rows))
            .collect();
        let CompactShape { warps, rows, .. } = move_shape(&sizes, parts);
        format!(
            "#define COOPERATIVE_RANGES(KERNEL){cooperative}\n\
             constexpr u32 MOVE_WARPS = {warps}, MOVE_ROWS = {rows}, COUNT_WARPS = {COUNT_WARPS}, COUNT_EACH = {};\n",
            self.count_each()
        ) + &asserted_status("Counts<PARTS, u32>::Carry", size_of::<u32>() * self.counted())
    }

    /// Counts of a tile: two for three parts, else one. The last part has no count.
    pub(crate) fn counted(&self) -> usize {
        if self.parts == 3 { 2 } else { 1 }
    }

    /// The number of tiles that a warp of the first launch counts, in a partition into one buffer.
    /// The tiles are those of the second launch.
    pub(crate) fn count_each(&self) -> usize {
        let bits = match self.choice {
            Choice::Bits => 1,
            _ => 8 * self.choice.size().unwrap_or(1),
        };
        count_each(move_shape(&self.sizes(), self.parts), bits)
    }
}
