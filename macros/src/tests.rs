use super::*;

#[test]
fn show() {
    for body in [
        quote!(a.wrapping_add(b)),
        quote!({
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        }),
        quote!(if c.x > a.x || (c.x == a.x && c.i < a.i) { c } else { a }),
    ] {
        println!(
            "{}",
            super::text(quote!(types: (Carry: u32); result: Carry; arguments: (a: mut a) (b: b) (c: c); body: #body))
        );
    }
}
