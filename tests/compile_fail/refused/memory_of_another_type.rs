use parascan::{Max, scan};

fn main() {
    let prices: Vec<u32> = vec![3, 1, 4];
    let _ = scan::<Max, i32>().run(&prices);
}
