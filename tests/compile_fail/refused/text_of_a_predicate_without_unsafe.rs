parascan::predicate! {
    struct Multiple { divisor: u32 } on u32 {
        keeps: |x, p| x.is_multiple_of(p.divisor) => "p.divisor ? x % p.divisor == 0 : x == 0",
    }
}

fn main() {}
