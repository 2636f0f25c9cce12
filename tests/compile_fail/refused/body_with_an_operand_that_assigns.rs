parascan::operator! {
    struct Own on u32 {
        associativity: Exact,
        combine: |a, b| {
            let mut sum = a;
            sum.wrapping_add({
                sum = sum.wrapping_add(b);
                sum
            })
        },
    }
}

fn main() {}
