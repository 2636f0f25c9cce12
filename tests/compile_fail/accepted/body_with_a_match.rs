parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| if a == 0 { b } else { a.wrapping_add(b) },
    }
}

fn main() {}
