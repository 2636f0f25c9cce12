parascan::operator! {
    struct Plus on u32 {
        associativity: Exact,
        combine: |a, b| a.wrapping_add(b),
        identity: 0,
    }
}

fn main() {}
