parascan::element! {
    struct Change { before: f32, after: f32 }
}

fn main() {}
