parascan::operator! {
    struct Own on half::f16 {
        associativity: Exact,
        combine: |a, b| if a.to_f32() > b.to_f32() { a } else { b },
    }
}

fn main() {}
