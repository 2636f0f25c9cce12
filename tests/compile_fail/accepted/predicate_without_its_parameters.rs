parascan::predicate! {
    struct MultipleOf { divisor: u32 } on u32 {
        keeps: |x, p| x.is_multiple_of(p.divisor) => unsafe "p.divisor && x % p.divisor == 0",
    }
}

fn main() {}
