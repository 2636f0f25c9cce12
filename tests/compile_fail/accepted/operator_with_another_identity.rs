parascan::operator! {
    struct Plus on u32 {
        associativity: Exact,
        identity: 0,
        combine: |a, b| a.wrapping_add(b) => unsafe "a + b",
    }
}

fn main() {}
