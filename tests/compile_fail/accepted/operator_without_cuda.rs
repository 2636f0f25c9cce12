parascan::operator! {
    struct Plus on u32 {
        associativity: Exact,
        combine: |a, b| a.wrapping_add(b) => "a + b",
    }
}

fn main() {}
