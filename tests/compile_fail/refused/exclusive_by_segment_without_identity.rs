use parascan::{Last, scan};

fn main() {
    let _ = scan::<Last, i32>().rows(2).exclusive();
}
