use parascan::compact;

fn main() {
    let _ = compact::<i32>().run(&[1, 2, 3]);
}
