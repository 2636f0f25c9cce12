use parascan::{Above, compact};

fn main() {
    let _ = compact::<i32>().keep(Above(5)).run(&[1, 2, 3]);
}
