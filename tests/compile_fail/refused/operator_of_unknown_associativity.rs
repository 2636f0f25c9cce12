parascan::operator! {
    struct Plus on f32 {
        associativity: Rounded,
        combine: |a, b| a + b => "a + b",
    }
}

fn main() {}
