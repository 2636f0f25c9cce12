parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let (low, high) = (a, b);
            low.max(high)
        },
    }
}

fn main() {}
