use parascan::Element;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Item {
    r#type: u32,
}
// SAFETY: one unsigned integer on both sides.
unsafe impl Element for Item {
    const CUDA: &'static str = "struct { unsigned kind; }";
}

parascan::operator! {
    struct Highest on Item {
        associativity: Exact,
        combine: |a, b| if a.r#type > b.r#type { a } else { b },
    }
}

fn main() {}
