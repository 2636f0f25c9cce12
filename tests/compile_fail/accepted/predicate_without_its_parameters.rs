parascan::predicate! {
    struct MultipleOf { divisor: u32 } on u32 {
        keeps: |x, p| x % p.divisor == 0 => unsafe "p.divisor && x % p.divisor == 0",
    }
}

fn main() {}
