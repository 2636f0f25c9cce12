parascan::element! {
    struct Sample { flag: u32, value: f32 }
}

fn main() {}
