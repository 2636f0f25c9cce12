parascan::predicate! {
    struct Multiple { divisor: u32 } on u32 {
        // SAFETY: it divides by nothing but what is not zero.
        keeps: |x, p| x.is_multiple_of(p.divisor) => unsafe "p.divisor ? x % p.divisor == 0 : x == 0",
    }
}

fn main() {}
