parascan::element! {
    struct Sample { value: f32, name: char }
}

fn main() {}
