parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let mut bits = 0;
            for i in 0..32 {
                bits |= a & b & (1 << i);
            }
            bits
        },
    }
}

fn main() {}
