//! The text of a translation unit: an operator on an element as C++ types, then the templates.
//!
//! `build.rs` writes the catalog's units with it and the library a user's, so that a kernel is the same however it was
//! made, and a unit is recognised by its text: two pairs of operator and element with the same text share one kernel.

use super::tuning::{
    BUCKET_MAP_BYTES, COUNT_WARPS, CompactShape, EXPAND, LOOK_BACK_GROUP, OffsetsRange, PACK, RANGES, Range,
    SLOT_MAP_BYTES, SORT_ARCHITECTURES, SegmentTile, Shape, SortBlock, TEXTBOOK_SPREAD, TEXTBOOK_WIDTH, TUNING, Tuning,
    architectures, carry_shape, compact_shapes, count_each, fitted, meeting_shapes, move_shape, offsets_ranges,
    sort_shape, textbook_run,
};

/// The templates that a text includes, directly or through others: all that it is made from besides itself. Each has the path
/// under which it is included, from `cuda-templates` on.
pub(crate) fn included<'t>(templates: &[(&'t str, &'t str)], text: &'t str) -> Vec<(&'t str, &'t str)> {
    let mut found: Vec<(&str, &str)> = Vec::new();
    let mut open = vec![text];
    while let Some(text) = open.pop() {
        for line in text.lines().filter(|line| line.contains("include")) {
            let path = line.split(['"', '<', '>']).nth(1);
            let template = templates.iter().find(|template| Some(template.0) == path);
            if let Some(&template) = template.filter(|template| !found.contains(template)) {
                found.push(template);
                open.push(template.1);
            }
        }
    }
    found.sort_unstable();
    found
}

/// The parts of a unit, a text for each of its kernels, which has that one alone: what is compiled at run time is compiled at the same time.
/// Of a template that knows nothing of `HAS_KERNEL` each part has all kernels, which is slower and no more.
pub(crate) fn parts(source: &str, kernels: &[&str]) -> Vec<String> {
    let part = |own: &&str| {
        let has = |kernel: &&str| format!("#define HAS_{kernel} {}\n", u8::from(kernel == own));
        let has: String = kernels.iter().map(has).collect();
        format!("#define HAS_KERNEL(NAME) HAS_##NAME\n{has}{source}")
    };
    kernels.iter().map(part).collect()
}

/// A type on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    /// The C++ text.
    pub(crate) cuda: &'a str,
    /// Bytes, on the Rust side.
    pub(crate) size: usize,
    /// Bytes, on the Rust side.
    pub(crate) align: usize,
    /// Of a struct, where they are known.
    pub(crate) fields: &'a [Field],
}

/// A field of a struct on both sides.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub cuda: &'static str,
    /// Of a field that is a struct itself.
    pub fields: &'static [Field],
}

impl Type<'_> {
    /// The definition of the type as `name`, and that it is laid out as in Rust. `what` is what messages call it.
    fn defined(&self, name: &str, what: &str) -> String {
        let Type { cuda, size, align, fields } = self;
        let asserted = |condition: &str, lies: &str| {
            format!("static_assert({condition}, \"{lies} has another layout than its Rust type\");\n")
        };
        let mut text = format!("typedef{};\n", quoted(what, &format!("{cuda} {name}")));
        text += &asserted(
            &format!("sizeof({name}) == {size} && alignof({name}) == {align}"),
            &format!("the {what}'s C++ type"),
        );
        for Field { name: field, offset, size, .. } in *fields {
            let condition =
                format!("FIELD_OFFSET({name}, {field}) == {offset} && sizeof((({name} *)0)->{field}) == {size}");
            text += &asserted(&condition, &format!("the field {field} of the {what}'s C++ type"));
        }
        text
    }
}

/// A user's text on lines of its own, so that what the compiler says of it names it and its lines.
fn quoted(what: &str, text: &str) -> String {
    format!("\n#line 1 \"{what}\"\n{text}\n#line 1 \"the rest of the unit\"\n")
}

/// The body of a function: of an expression, or of statements, which a `return` ends.
fn body(what: &str, text: &str) -> String {
    if is_statements(text) { quoted(what, text) } else { format!("return{};", quoted(what, text)) }
}

/// What texts need that were written from Rust.
fn prelude(texts: &[&str]) -> &'static str {
    if texts.iter().any(|text| text.contains("rust::")) { "#include \"core/rust.cuh\"\n" } else { "" }
}

/// Whether a text is statements, and not an expression.
pub(crate) const fn is_statements(text: &str) -> bool {
    let text = text.trim_ascii().as_bytes();
    if !matches!(text.last(), Some(b';')) {
        return false;
    }
    let (word, mut i) = (b"return", 0);
    while i + word.len() <= text.len() {
        let mut k = 0;
        while k < word.len() && text[i + k] == word[k] {
            k += 1;
        }
        if k == word.len() {
            return true;
        }
        i += 1;
    }
    false
}

/// An operator on an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// The element.
    pub(crate) element: Type<'a>,
    /// What partial results are carried in.
    pub(crate) carry: Type<'a>,
    /// Element `x` to carry.
    pub(crate) lift: &'a str,
    /// Carry `x`, lifted, to the partial result of that element alone.
    pub(crate) alone: &'a str,
    /// Carries `a` (earlier) and `b` (later) to one.
    pub(crate) combine: &'a str,
    /// Carry `x` to element.
    pub(crate) lower: &'a str,
    /// How two short elements are combined at once: a type of `scan/scan.cuh`.
    pub(crate) pairs: &'a str,
}

impl Unit<'_> {
    /// The text of the unit with the kernels of `program`, a template.
    pub(crate) fn source(&self, program: &str) -> String {
        self.tuned("", program, TUNING)
    }

    /// The same with a textbook's block: a network, a form of tiles and a way of joining them, all of them in C++.
    pub(crate) fn textbook(&self, network: &str, form: &str, join: &str, program: &str) -> String {
        let block = format!(
            "#define NETWORK {network}\n\
             #define FORM {form}\n\
             constexpr u32 WIDTH = {TEXTBOOK_WIDTH}, RUN = {}, CARRY_RUN = {}, SPREAD = {TEXTBOOK_SPREAD};\n\
             typedef {join} Join;\n",
            textbook_run(self.element.size),
            textbook_run(self.carry.size),
        );
        self.tuned(&block, program, TUNING)
    }

    /// `block`: what else the program asks for.
    fn tuned(&self, block: &str, program: &str, table: &[Tuning]) -> String {
        let Unit { element, carry, lift, alone, combine, lower, pairs } = self;
        // An unnamed struct that is both would be two types if it were written twice.
        let carry = Type { cuda: if carry.cuda == element.cuda { "Element" } else { carry.cuda }, ..*carry };
        let shapes = by_architecture(table, |architecture| {
            let Shape { warps, vectors } = carry_shape(table, architecture, element.size, carry.size);
            let ranges = fitted(table, architecture, element.size);
            format!("{}typedef Shape<{warps}, {vectors}> CarryShape;\n", shapes(&ranges))
        });
        format!(
            "#include \"scan/scan.cuh\"\n\
             {}\
             {shapes}\
             [[maybe_unused]] constexpr u32 LOOK_BACK_GROUP = {LOOK_BACK_GROUP};\n\
             {}{}\
             struct Operator {{\n    \
                 typedef ::Element Element;\n    \
                 typedef ::Carry Carry;\n    \
                 typedef {pairs} Pairs;\n    \
                 static __device__ Carry lift(Element x) {{ {} }}\n    \
                 static __device__ Carry alone(Carry x) {{ {} }}\n    \
                 static __device__ Carry combine(Carry a, Carry b) {{ {} }}\n    \
                 static __device__ Element lower(Carry x) {{ {} }}\n\
             }};\n\
             {block}\
             #include \"{program}\"\n",
            prelude(&[lift, alone, combine, lower]),
            element.defined("Element", "element"),
            carry.defined("Carry", "carry"),
            body("lift", lift),
            body("alone", alone),
            body("combine", combine),
            body("lower", lower),
        )
    }
}

// ---- compaction -------------------------------------------------------------------------------------------------------------

/// How a kernel tests that integers, or the bits of floats, lie in a range `p` of their order.
pub(crate) const INTEGER_RANGE: &str = "Item(x - p.low) <= p.span";
/// The same for the bits of floats.
pub(crate) const FLOAT_RANGE: &str = "Item(ordered(x) - p.low) <= p.span";
/// How a kernel sees that two numbers are equal.
pub(crate) const SAME: &str = "a == b";
/// The same for 16-bit floats.
pub(crate) const SAME_HALVES: &str = "widen(a) == widen(b)";

/// A predicate on items `x` with parameters `p`, an expression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test<'a> {
    pub(crate) item: Type<'a>,
    pub(crate) parameters: Type<'a>,
    pub(crate) keeps: &'a str,
}

impl Test<'_> {
    /// Its definition as `name`.
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

    /// The text of the unit that compares it with its Rust body.
    #[cfg(any(test, feature = "laws"))]
    pub(crate) fn laws_source(&self) -> String {
        format!("#include \"compact/compact.cuh\"\n{}#include \"laws/predicate.cuh\"\n", self.defined("Test"))
    }
}

/// What a kernel of compaction keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'a> {
    /// Items by a predicate, and of the others, if there are three ways, those by a second one.
    Items(Test<'a>, Option<Test<'a>>),
    /// Items `b` that are not the same as the item `a` before them, an expression.
    Distinct { item: Type<'a>, same: &'a str },
    /// Where a byte is not zero.
    Flags,
    /// Where a bit is set.
    Bits,
}

impl Choice<'_> {
    /// Bytes of an item, if it looks at items.
    pub(crate) fn size(&self) -> Option<usize> {
        match self {
            Choice::Items(Test { item, .. }, _) | Choice::Distinct { item, .. } => Some(item.size),
            Choice::Flags | Choice::Bits => None,
        }
    }
}

/// What moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// The items that the choice looks at.
    Staged,
    /// Plain data.
    Plain { size: usize, align: usize },
    /// Unsigned integers of so many bytes: where the items were.
    Indices { size: usize },
    /// Nothing.
    None,
}

impl Column {
    /// Bytes of an item, if it is an array of its own.
    pub(crate) fn size(&self) -> Option<usize> {
        match *self {
            Column::Plain { size, .. } | Column::Indices { size } => Some(size),
            Column::Staged | Column::None => None,
        }
    }
}

/// A kernel of compaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactUnit<'a> {
    pub(crate) choice: Choice<'a>,
    pub(crate) columns: [Column; 2],
    /// How many ways items go: that of what is kept, that of what is not, and between these that of a second predicate.
    pub(crate) ways: usize,
}

impl CompactUnit<'_> {
    /// Bytes of an item of what the choice looks at and of each column; what is no array of its own repeats one that is.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        let sizes = [self.choice.size(), self.columns[0].size(), self.columns[1].size()];
        let one = sizes.into_iter().flatten().next().unwrap_or(1);
        sizes.map(|size| size.unwrap_or(one))
    }

    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        let choice = match self.choice {
            Choice::Items(only, None) => {
                only.defined("Test") + "typedef Test::Item Item;\ntypedef ByItems<Test> Choice;\n"
            }
            Choice::Items(first, Some(second)) => {
                first.defined("Test")
                    + &second.defined("SecondTest")
                    + "typedef Test::Item Item;\ntypedef ByEither<Test, SecondTest> Choice;\n"
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
        let ways = self.ways;
        let shapes: String = compact_shapes(&self.sizes(), ways)
            .iter()
            .enumerate()
            .map(|(k, shape)| format!(" KERNEL({k}, {}, {}, {})", shape.warps, shape.rows, shape.spread))
            .collect();
        let together = if ways > 1 { self.together() } else { String::new() };
        format!(
            "#include \"compact/compact.cuh\"\n\
             {choice}\
             typedef {first} First;\n\
             typedef {second} Second;\n\
             constexpr u32 WAYS = {ways};\n\
             #define RANGES(KERNEL){shapes}\n\
             {together}\
             #include \"compact/kernels.cuh\"\n"
        )
    }
}

impl CompactUnit<'_> {
    /// What the unit says of partitions into one buffer.
    fn together(&self) -> String {
        let (sizes, ways) = (self.sizes(), self.ways);
        let meetings: String = meeting_shapes(&sizes, ways)
            .iter()
            .enumerate()
            .map(|(k, shape)| format!(" KERNEL({k}, {}, {})", shape.warps, shape.rows))
            .collect();
        let CompactShape { warps, rows, .. } = move_shape(&sizes, ways);
        format!(
            "#define MEETINGS(KERNEL){meetings}\n\
             constexpr u32 MOVE_WARPS = {warps}, MOVE_ROWS = {rows}, COUNT_WARPS = {COUNT_WARPS}, COUNT_EACH = {};\n",
            self.count_each()
        )
    }

    /// How many tiles of the second launch of a partition into one buffer a warp of the first counts.
    pub(crate) fn count_each(&self) -> usize {
        let bits = match self.choice {
            Choice::Bits => 1,
            _ => 8 * self.choice.size().unwrap_or(1),
        };
        count_each(move_shape(&self.sizes(), self.ways), bits)
    }
}

// ---- offsets -----------------------------------------------------------------------------------------------------------------

/// A kernel of offsets: unsigned integers of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetsUnit {
    pub(crate) size: usize,
    pub(crate) offset: usize,
}

impl OffsetsUnit {
    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        let &OffsetsUnit { size, offset } = self;
        let shapes = if size < offset {
            let ranges = offsets_ranges(size, offset, 0); // the same on every architecture
            let kernel = |(k, range): (usize, &OffsetsRange)| {
                format!(" KERNEL({k}, {}, {}, {})", range.warps, range.each, range.spread)
            };
            format!("#define RANGES(KERNEL){}\n", ranges.iter().enumerate().map(kernel).collect::<String>())
        } else {
            shapes_by_architecture(TUNING, size)
        };
        format!(
            "#include \"offsets/offsets.cuh\"\n\
             {shapes}\
             typedef u{} Size;\n\
             typedef u{} Offset;\n\
             #include \"offsets/kernels.cuh\"\n",
            8 * size,
            8 * offset
        )
    }
}

// ---- segments ----------------------------------------------------------------------------------------------------------------

/// The text of the unit that packs segments and finds the way back.
pub(crate) fn segments_source() -> String {
    let tile = |name: &str, SegmentTile { warps, tile, cost }: SegmentTile| {
        format!("template <class Offset> using {name} = SegmentTile<Offset, {warps}, {tile}, {cost}>;\n")
    };
    format!(
        "#include \"segments/segments.cuh\"\n{}{}#include \"segments/kernels.cuh\"\n",
        tile("PackTile", PACK),
        tile("ExpandTile", EXPAND)
    )
}

// ---- sort --------------------------------------------------------------------------------------------------------------------

/// What the bits of a key stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// An unsigned integer.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// A float of IEEE 754's layout with so many bits of mantissa.
    Float { mantissa: u32 },
}

/// The kernels of a sort.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortUnit {
    /// Bytes of a key.
    pub(crate) key: usize,
    pub(crate) kind: KeyKind,
    /// Bytes and alignment of what goes with a key, if anything does.
    pub(crate) payload: Option<(usize, usize)>,
}

impl SortUnit {
    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        let &SortUnit { key, kind, payload } = self;
        let bits = 8 * key as u32;
        let (kind, infinite) = match kind {
            KeyKind::Unsigned | KeyKind::Signed => ("INTEGER", 0), // the sign bit is turned over by the call
            KeyKind::Float { mantissa } => ("FLOAT", (u64::MAX >> (65 - bits)) >> mantissa << mantissa),
        };
        let payload = match payload {
            None => "NoPayload".to_owned(),
            Some((size, align)) => format!("Payload<{size}, {align}>"),
        };
        let shapes: String = SORT_ARCHITECTURES
            .iter()
            .enumerate()
            .map(|(i, architecture)| {
                let condition = if i == 0 { "#if" } else { "#elif" };
                format!("{condition} __CUDA_ARCH__ >= {architecture}0\n{}", self.shapes(*architecture))
            })
            .collect();
        let alone = if self.payload.is_none() { "#define ALONE\n" } else { "" };
        format!(
            "#include \"sort/radix.cuh\"\n\
             typedef u{bits} Bits;\n\
             typedef KeyOrder<Bits, {kind}, Bits({infinite:#x}ull)> Order;\n\
             typedef {payload} Value;\n\
             {alone}\
             #define KEY_BYTES {key}\n\
             {shapes}\
             #endif\n\
             #include \"sort/kernels.cuh\"\n"
        )
    }

    fn shapes(&self, architecture: u32) -> String {
        let shape = sort_shape(self.key, self.payload.map(|(size, _)| size), architecture);
        let block = |name: &str, SortBlock { threads, items, .. }: SortBlock| {
            format!("{name}_THREADS = {threads}, {name}_ITEMS = {items}")
        };
        let mut text = format!(
            "constexpr u32 {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n\
             constexpr u32 SHORT_ITEMS = {}, SHORT_SHARED = {}, MIDDLE_ITEMS = {}, MIDDLE_SHARED = {};\n\
             constexpr u32 {}, SMALL_SHARED = {};\n",
            block("PASS", shape.pass),
            shape.pass.blocks,
            shape.pass_shared(),
            shape.short.items,
            shape.short_shared(),
            shape.middle.items,
            shape.middle_shared(),
            block("SMALL", shape.small),
            shape.small_shared(),
        );
        if self.key >= 4 {
            text += &format!(
                "constexpr u32 {}, BUCKET_BINS = {}, BUCKET_BLOCKS = {}, BUCKET_TILE_SHARED = {}, BUCKET_SORT_SHARED = {};\n\
                 constexpr u32 {}, LARGE_BINS = {}, LARGE_SORT_SHARED = {}, BUCKET_MAP_BYTES = {BUCKET_MAP_BYTES};\n\
                 constexpr u32 SLOT_SHARED = {}, SLOT_MAP_BYTES = {SLOT_MAP_BYTES};\n",
                block("BUCKET", shape.bucket),
                shape.bins,
                shape.bucket.blocks,
                shape.bucket_tile_shared(),
                shape.bucket_sort_shared(),
                block("LARGE", shape.large),
                shape.large_bins,
                shape.large_sort_shared(),
                shape.slot_shared(),
            );
        }
        text
    }
}

// ---- scan --------------------------------------------------------------------------------------------------------------------

/// The shapes for an element of `size` bytes, by the architecture that is compiled for.
fn shapes_by_architecture(table: &[Tuning], size: usize) -> String {
    by_architecture(table, |architecture| shapes(&fitted(table, architecture, size)))
}

fn by_architecture(table: &[Tuning], text: impl Fn(u32) -> String) -> String {
    let texts: String = architectures(table)
        .enumerate()
        .map(|(i, architecture)| {
            let condition = if i == 0 { "#if" } else { "#elif" };
            format!("{condition} __CUDA_ARCH__ >= {architecture}0\n{}", text(architecture))
        })
        .collect();
    texts + "#endif\n"
}

/// The shapes of the kernels: of each range, and the first and the last of them by name.
fn shapes(ranges: &[Range; RANGES]) -> String {
    let mut text = String::from("#define RANGES(KERNEL)");
    for (k, Range { shape, spread, .. }) in ranges.iter().enumerate() {
        text += &format!(" KERNEL({k}, {}, {}, {spread})", shape.warps, shape.vectors);
    }
    for (name, Range { shape, .. }) in [("Small", ranges[0]), ("Large", ranges[RANGES - 1])] {
        text += &format!("\ntypedef Shape<{}, {}> {name}Shape;", shape.warps, shape.vectors);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::library::TEMPLATES;

    #[test]
    fn what_a_text_includes() {
        let names =
            |text: &'static str| included(TEMPLATES, text).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("no template"), [""; 0]);
        assert_eq!(names("#include \"core/types.cuh\"\n"), ["core/types.cuh"]);
        assert!(!names("#include \"core/warp_scan.cuh\"\n").contains(&"scan/scan.cuh"), "a part of a name");
        assert_eq!(names("# include <laws/operator.cuh>\n"), ["laws/operator.cuh", "core/types.cuh"]);
        let scan = [
            "core/handover.cuh",
            "core/pipeline.cuh",
            "scan/scan.cuh",
            "core/stage.cuh",
            "core/types.cuh",
            "core/warp_scan.cuh",
        ];
        assert_eq!(names("#include \"scan/scan.cuh\"\n"), scan);
        assert!(names("#include \"sort/kernels.cuh\"\n").contains(&"sort/radix.cuh"));
    }

    /// Every kernel of a program that has several stands where it can be left out, by its own name.
    #[test]
    fn kernels_can_be_left_out() {
        let alone = [
            "scan/look_back.cuh",
            "scan/chained.cuh",
            "textbook/kernels.cuh",
            "laws/operator.cuh",
            "laws/predicate.cuh",
        ];
        for (name, text) in TEMPLATES.iter().filter(|(name, _)| !alone.contains(name)) {
            for (at, _) in text.match_indices("extern \"C\" __global__") {
                let (before, kernel) = text.split_at(at);
                let bounds = kernel.find("__launch_bounds__").expect("every kernel has bounds");
                let (mut open, mut end) = (0, bounds);
                for (i, c) in kernel[bounds..].char_indices() {
                    open += i32::from(c == '(') - i32::from(c == ')');
                    if c == ')' && open == 0 {
                        end = bounds + i + 1;
                        break;
                    }
                }
                let after = kernel[end..].trim_start_matches([' ', '\\', '\n']);
                let (kernel, _) = after.split_once('(').expect("its parameters");
                let (in_if, in_macro) = (format!("#if HAS_KERNEL({kernel})\n"), format!("DEFINE_KERNEL({kernel}, "));
                assert!(before.ends_with(&in_if) || before.ends_with(&in_macro), "{kernel} in {name}");
            }
        }
    }

    #[test]
    fn statements_are_told_from_expressions() {
        for expression in
            ["a + b", "{ a.x, b.y }", "[&] { while (b) { a %= b; } return a; }()", "a + b;", "returned", ""]
        {
            assert!(!is_statements(expression), "{expression}");
        }
        for statements in ["return a;", "\n  if (a) return b;\n  return a; \n", "return a + /* both */ b;"] {
            assert!(is_statements(statements), "{statements}");
        }
        assert_eq!(body("lift", "x"), "return\n#line 1 \"lift\"\nx\n#line 1 \"the rest of the unit\"\n;");
        assert_eq!(body("lift", "return x;"), "\n#line 1 \"lift\"\nreturn x;\n#line 1 \"the rest of the unit\"\n");
    }

    /// Each architecture of the table gets its own ranges, the newest that is not newer first.
    #[test]
    fn the_text_has_the_ranges_of_every_architecture() {
        let line = |architecture, warps| {
            let range = Range { bytes: usize::MAX, shape: Shape { warps, vectors: 3 }, spread: 64 };
            Tuning { architecture, element: 16, ranges: [range; RANGES] }
        };
        let word = Type { cuda: "unsigned int", size: 4, align: 4, fields: &[] };
        let unit =
            Unit { element: word, carry: word, lift: "x", alone: "x", combine: "a + b", lower: "x", pairs: "NoPairs" };
        let text = unit.tuned("", "scan/kernels.cuh", &[line(90, 8), line(80, 4)]);
        let at = |piece: &str| text.find(piece).unwrap_or_else(|| panic!("no {piece} in {text}"));
        assert!(at("#if __CUDA_ARCH__ >= 900\n") < at("KERNEL(0, 8, 3, 64)"));
        assert!(at("KERNEL(0, 8, 3, 64)") < at("#elif __CUDA_ARCH__ >= 800\n"));
        assert!(at("#elif __CUDA_ARCH__ >= 800\n") < at("KERNEL(0, 4, 3, 64)"));
    }
}
