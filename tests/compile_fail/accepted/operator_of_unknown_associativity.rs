parascan::operator! {
    struct Plus on f32 {
        associativity: Rounding,
        combine: |a, b| a + b => unsafe "a + b",
    }
}

fn main() {}
