parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| a.saturating_add(b),
    }
}

fn main() {}
