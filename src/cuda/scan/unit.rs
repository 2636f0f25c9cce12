//! The text of a unit of scan: an operator on an element.

use super::tuning::{
    LOOK_BACK_GROUP, Range, Shape, TEXTBOOK_SPREAD, TEXTBOOK_WIDTH, TUNING, Tuning, architectures, carry_shape, fitted,
    textbook_run,
};
use crate::cuda::contract::asserted_status;
use crate::cuda::tuning::RANGES;
use crate::cuda::unit::{Type, UnitKey, body, by_architecture, prelude};

/// An operator on an element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit<'a> {
    /// The element.
    pub(crate) element: Type<'a>,
    /// The carry.
    pub(crate) carry: Type<'a>,
    /// Converts element `x` to a carry.
    pub(crate) lift: &'a str,
    /// Converts the lifted carry `x` to the partial result of that element alone.
    pub(crate) alone: &'a str,
    /// Combines carries `a` (earlier) and `b` (later).
    pub(crate) combine: &'a str,
    /// Converts carry `x` to an element.
    pub(crate) lower: &'a str,
    /// The type of `scan/scan.cuh` that combines two short elements at once.
    pub(crate) pairs: &'a str,
}

impl Unit<'_> {
    /// The key of the unit with the kernels of `scan/kernels.cuh`.
    pub(crate) const fn key(&self) -> UnitKey {
        self.key_of("scan")
    }

    /// The key of the unit of another primitive on the operator.
    pub(crate) const fn key_of(&self, primitive: &str) -> UnitKey {
        let &Unit { element, carry, lift, alone, combine, lower, pairs } = self;
        let key = UnitKey::new(primitive).of_type(element).of_type(carry);
        key.text(lift).text(alone).text(combine).text(lower).text(pairs)
    }

    /// The text of the unit with the kernels of `program`, a template.
    pub(crate) fn source(&self, program: &str) -> String {
        self.tuned("", program, TUNING)
    }

    /// The text with a textbook's block: its network, form of tiles and join, in C++.
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

    /// The text with the further text `block` of the program.
    fn tuned(&self, block: &str, program: &str, table: &[Tuning]) -> String {
        let Unit { element, carry, .. } = self;
        let shapes = by_architecture(architectures(table), |architecture| {
            let Shape { warps, vectors } = carry_shape(table, architecture, element.size, carry.size);
            let ranges = fitted(table, architecture, element.size);
            format!("{}typedef Shape<{warps}, {vectors}> CarryShape;\n", shapes(&ranges))
        });
        let constants = format!("{shapes}[[maybe_unused]] constexpr u32 LOOK_BACK_GROUP = {LOOK_BACK_GROUP};\n");
        self.around("scan/scan.cuh", &constants, block, program)
    }

    /// The text of the operator on the element as C++ types, with the constants of a primitive
    /// before it and its further text `block` behind it, between two templates.
    pub(crate) fn around(&self, algorithm: &str, constants: &str, block: &str, program: &str) -> String {
        let (operator, status) = (self.defined(""), asserted_status("Carry", self.carry.size));
        let prelude = self.prelude();
        format!("#include \"{algorithm}\"\n{prelude}{constants}{operator}{block}{status}#include \"{program}\"\n")
    }

    /// The text of the operator on rows of `columns` elements, each column on its own, as `around`.
    pub(crate) fn around_rows(&self, columns: usize, algorithm: &str, constants: &str, program: &str) -> String {
        let (operator, status) = (self.defined("Column"), asserted_status("Carry", columns * self.carry.size));
        let prelude = self.prelude();
        format!(
            "#include \"{algorithm}\"\n\
             #include \"columns/rows.cuh\"\n\
             {prelude}{constants}{operator}\
             typedef RowOperator<ColumnOperator, {columns}> Operator;\n\
             typedef Operator::Element Element;\n\
             typedef Operator::Carry Carry;\n\
             {status}#include \"{program}\"\n"
        )
    }

    /// The functions that the bodies use.
    fn prelude(&self) -> &'static str {
        prelude(&[self.lift, self.alone, self.combine, self.lower])
    }

    /// Defines the element, the carry and the operator, under names that begin with `prefix`.
    fn defined(&self, prefix: &str) -> String {
        let Unit { element, carry, lift, alone, combine, lower, pairs } = self;
        let [element_name, carry_name] = ["Element", "Carry"].map(|name| format!("{prefix}{name}"));
        // An unnamed struct that is written twice would be two types.
        let cuda = if carry.cuda == element.cuda { &element_name } else { carry.cuda };
        format!(
            "{}{}\
             struct {prefix}Operator {{\n    \
                 typedef ::{element_name} Element;\n    \
                 typedef ::{carry_name} Carry;\n    \
                 typedef {pairs} Pairs;\n    \
                 static __device__ Carry lift(Element x) {{ {} }}\n    \
                 static __device__ Carry alone(Carry x) {{ {} }}\n    \
                 static __device__ Carry combine(Carry a, Carry b) {{ {} }}\n    \
                 static __device__ Element lower(Carry x) {{ {} }}\n\
             }};\n",
            element.defined(&element_name, "element"),
            Type { cuda, ..*carry }.defined(&carry_name, "carry"),
            body("lift", lift),
            body("alone", alone),
            body("combine", combine),
            body("lower", lower),
        )
    }
}

/// The shapes for an element of `size` bytes, by the target architecture.
pub(crate) fn shapes_by_architecture(table: &[Tuning], size: usize) -> String {
    by_architecture(architectures(table), |architecture| shapes(&fitted(table, architecture, size)))
}

/// The shapes of the kernels: of each range, and by name of the first and the last range.
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

    /// Each architecture of the table gets its own ranges. The text tests the newest architecture
    /// first.
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
