use parascan::{Last, scan};

fn main() {
    let _ = scan::<Last, bool>();
}
