use parascan::{DeviceCode, Operator};

#[derive(Clone, Copy)]
struct Plus;
impl Operator<u32> for Plus {
    type Carry = u32;
    fn lift(x: u32) -> u32 {
        x
    }
    fn lower(x: u32) -> u32 {
        x
    }
    fn combine(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    // SAFETY: a sum of unsigned integers.
    const CUDA: DeviceCode<Self, u32> = unsafe { DeviceCode::new("a + b") };
}

fn main() {}
