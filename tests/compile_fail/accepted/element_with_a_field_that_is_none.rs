parascan::element! {
    struct Sample { value: f32, name: u32 }
}

fn main() {}
