parascan::operator! {
    struct Plus on f32 {
        associativity: Rounded,
        combine: |a, b| a + b => unsafe "a + b",
    }
}

fn main() {}
