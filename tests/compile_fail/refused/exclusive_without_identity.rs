use parascan::{Last, scan};

fn main() {
    let _ = scan::<Last, i32>().exclusive();
}
