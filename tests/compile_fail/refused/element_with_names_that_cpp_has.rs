parascan::element! {
    struct Unlucky {
        char16_t: u32,
        static_cast: u32,
        bitor: u32,
        r#type: u32,
        größe: u32,
        __shared__: u32,
        _Count: u32,
        f16: u32,
    }
}

parascan::predicate! {
    struct Below { signed: i32 } on i32 { keeps: |x, p| x < p.signed }
}

fn main() {}
