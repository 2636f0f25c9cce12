use parascan::{Last, scan};

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Point {
    x: f32,
    y: f32,
}

fn main() {
    let _ = scan::<Last, Point>();
}
