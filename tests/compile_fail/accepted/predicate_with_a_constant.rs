parascan::predicate! {
    struct Small { most: f32 } on f32 { keeps: |x, p| x.abs() < p.most }
}

fn main() {}
