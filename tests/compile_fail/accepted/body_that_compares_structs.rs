parascan::element! {
    struct Pair { low: u32, high: u32 }
}
parascan::operator! {
    struct Own on Pair {
        associativity: Exact,
        combine: |a, b| if a.low == b.low { a } else { Pair { low: a.low.wrapping_add(b.low), high: b.high } },
    }
}

fn main() {}
