parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| if a < b { b } else { a },
    }
}

fn main() {}
