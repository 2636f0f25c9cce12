use parascan::{Above, compact};

fn main() {
    let _ = compact::<i32>().keep(Above(0.5_f32)).run(&[1, 2, 3]);
}
