//! The text of a translation unit: an operator on an element as C++ types, then the templates.
//!
//! `build.rs` writes the catalog's units with it and the library a user's, so that a kernel is the same however it was
//! made, and a unit is recognised by its text: two pairs of operator and element with the same text share one kernel.

use super::tuning::{LOOK_BACK_GROUP, RANGES, Range, TUNING, Tuning, architectures, tuning};

/// The templates, by the name under which a unit includes them.
pub(crate) const TEMPLATES: [(&str, &str); 10] = [
    ("types.cuh", include_str!("../../cuda-templates/types.cuh")),
    ("warp_scan.cuh", include_str!("../../cuda-templates/warp_scan.cuh")),
    ("handover.cuh", include_str!("../../cuda-templates/handover.cuh")),
    ("stage.cuh", include_str!("../../cuda-templates/stage.cuh")),
    ("pipeline.cuh", include_str!("../../cuda-templates/pipeline.cuh")),
    ("scan.cuh", include_str!("../../cuda-templates/scan.cuh")),
    ("scan_kernels.cuh", include_str!("../../cuda-templates/scan_kernels.cuh")),
    ("scan_look_back.cuh", include_str!("../../cuda-templates/scan_look_back.cuh")),
    ("scan_hierarchical.cuh", include_str!("../../cuda-templates/scan_hierarchical.cuh")),
    ("laws.cuh", include_str!("../../cuda-templates/laws.cuh")),
];

/// A type on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    /// The C++ text.
    pub(crate) cuda: &'a str,
    /// Bytes, on the Rust side.
    pub(crate) size: usize,
    /// Bytes, on the Rust side.
    pub(crate) align: usize,
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
    /// How two short elements are combined at once: a type of `scan.cuh`.
    pub(crate) pairs: &'a str,
}

impl Unit<'_> {
    /// The text of the unit with the kernels of `program`, a template.
    pub(crate) fn source(&self, program: &str) -> String {
        self.tuned(program, TUNING)
    }

    fn tuned(&self, program: &str, table: &[Tuning]) -> String {
        let Unit { element, carry, lift, alone, combine, lower, pairs } = self;
        // An unnamed struct that is both would be two types if it were written twice.
        let carry_type = if carry.cuda == element.cuda { "Element" } else { carry.cuda };
        let shapes: String = architectures(table)
            .enumerate()
            .map(|(i, architecture)| {
                let condition = if i == 0 { "#if" } else { "#elif" };
                format!(
                    "{condition} __CUDA_ARCH__ >= {architecture}0\n{}",
                    shapes(tuning(table, architecture, element.size))
                )
            })
            .collect();
        format!(
            "#include \"scan.cuh\"\n\
             {shapes}\
             #endif\n\
             [[maybe_unused]] constexpr u32 LOOK_BACK_GROUP = {LOOK_BACK_GROUP};\n\
             typedef {} Element;\n\
             typedef {carry_type} Carry;\n\
             static_assert(sizeof(Element) == {} && alignof(Element) == {}, \"the element's C++ type has another layout than its Rust type\");\n\
             static_assert(sizeof(Carry) == {} && alignof(Carry) == {}, \"the carry's C++ type has another layout than its Rust type\");\n\
             struct Operator {{\n    \
                 typedef ::Element Element;\n    \
                 typedef ::Carry Carry;\n    \
                 typedef {pairs} Pairs;\n    \
                 static __device__ Carry lift(Element x) {{ return {lift}; }}\n    \
                 static __device__ Carry alone(Carry x) {{ return {alone}; }}\n    \
                 static __device__ Carry combine(Carry a, Carry b) {{ return {combine}; }}\n    \
                 static __device__ Element lower(Carry x) {{ return {lower}; }}\n\
             }};\n\
             #include \"{program}\"\n",
            element.cuda, element.size, element.align, carry.size, carry.align,
        )
    }
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
    use super::super::tuning::Shape;
    use super::*;

    /// Each architecture of the table gets its own ranges, the newest that is not newer first.
    #[test]
    fn the_text_has_the_ranges_of_every_architecture() {
        let line = |architecture, warps| {
            let range = Range { bytes: usize::MAX, shape: Shape { warps, vectors: 3 }, spread: 64 };
            Tuning { architecture, element: 16, ranges: [range; RANGES] }
        };
        let word = Type { cuda: "unsigned int", size: 4, align: 4 };
        let unit =
            Unit { element: word, carry: word, lift: "x", alone: "x", combine: "a + b", lower: "x", pairs: "NoPairs" };
        let text = unit.tuned("scan_kernels.cuh", &[line(90, 8), line(80, 4)]);
        let at = |piece: &str| text.find(piece).unwrap_or_else(|| panic!("no {piece} in {text}"));
        assert!(at("#if __CUDA_ARCH__ >= 900\n") < at("KERNEL(0, 8, 3, 64)"));
        assert!(at("KERNEL(0, 8, 3, 64)") < at("#elif __CUDA_ARCH__ >= 800\n"));
        assert!(at("#elif __CUDA_ARCH__ >= 800\n") < at("KERNEL(0, 4, 3, 64)"));
    }
}
