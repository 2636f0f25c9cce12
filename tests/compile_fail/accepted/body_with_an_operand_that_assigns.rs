parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let before = a;
            let sum = before.wrapping_add(b);
            before.wrapping_add(sum)
        },
    }
}

fn main() {}
