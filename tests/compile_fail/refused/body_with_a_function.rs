fn larger(a: u32, b: u32) -> u32 {
    if a < b { b } else { a }
}

parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| larger(a, b),
    }
}

fn main() {}
