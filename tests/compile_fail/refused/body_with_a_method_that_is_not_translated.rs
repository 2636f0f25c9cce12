parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| a.checked_add(b).unwrap_or(u32::MAX),
    }
}

fn main() {}
