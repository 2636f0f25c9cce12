parascan::element! {
    struct Change { old: f32, new: f32 }
}

fn main() {}
