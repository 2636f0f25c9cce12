use parascan::{BitAnd, scan};

fn main() {
    let _ = scan::<BitAnd, u32>();
}
