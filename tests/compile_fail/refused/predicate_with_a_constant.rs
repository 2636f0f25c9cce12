const MOST: f32 = 100.0;

parascan::predicate! {
    struct Small on f32 { keeps: |x| x.abs() < MOST }
}

fn main() {}
