use parascan::{BitAnd, scan};

fn main() {
    let _ = scan::<BitAnd, f32>();
}
