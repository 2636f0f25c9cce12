use parascan::Element;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Item {
    kind: u32,
}
// SAFETY: one unsigned integer on both sides.
unsafe impl Element for Item {
    const CUDA: &'static str = "struct { unsigned kind; }";
}

parascan::operator! {
    struct Highest on Item {
        associativity: Exact,
        combine: |a, b| if a.kind > b.kind { a } else { b },
    }
}

fn main() {}
