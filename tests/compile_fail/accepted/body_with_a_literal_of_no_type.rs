parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let mut bits = 0_u32;
            for i in 0..32_u32 {
                bits |= a & b & (1_u32 << i);
            }
            bits
        },
    }
}

fn main() {}
