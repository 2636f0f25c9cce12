use parascan::{NonZero, compact};

fn main() {
    let _ = compact::<i32>().keep(NonZero).run(&[1, 2, 3]);
}
