use parascan::{Last, scan};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Point {
    x: f32,
    y: f32,
}
// SAFETY: two floats in the same order on both sides.
unsafe impl parascan::Element for Point {
    const CUDA: &'static str = "struct { float x, y; }";
}

fn main() {
    let _ = scan::<Last, Point>();
}
