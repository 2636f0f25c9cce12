parascan::element! {
    struct Lucky {
        char16: u32,
        static_: u32,
        bit_or: u32,
        kind: u32,
        grosse: u32,
        shared: u32,
        _count: u32,
        half: u32,
    }
}

parascan::predicate! {
    struct Below { value: i32 } on i32 { keeps: |x, p| x < p.value }
}

fn main() {}
