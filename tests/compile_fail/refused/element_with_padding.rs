parascan::element! {
    struct Sample { flag: u8, value: f32 }
}

fn main() {}
