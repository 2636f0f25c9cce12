struct Pair {
    low: u32,
    high: u32,
}

parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let pair = Pair { low: a, high: b };
            pair.low.max(pair.high)
        },
    }
}

fn main() {}
