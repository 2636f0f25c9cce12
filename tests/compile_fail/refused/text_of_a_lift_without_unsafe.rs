parascan::operator! {
    struct LastWord on u32 {
        associativity: Exact,
        carry: u64,
        lift: |x| x.into() => "x",
        lower: |x| x as u32,
        combine: |_a, b| b => unsafe "b",
    }
}

fn main() {}
