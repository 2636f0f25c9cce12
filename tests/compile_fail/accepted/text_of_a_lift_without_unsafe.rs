parascan::operator! {
    struct LastWord on u32 {
        associativity: Exact,
        carry: u64,
        // SAFETY: a wider integer takes each value.
        lift: |x| x.into() => unsafe "x",
        lower: |x| x as u32,
        // SAFETY: an argument.
        combine: |_a, b| b => unsafe "b",
    }
}

fn main() {}
