use parascan::{DeviceCode, Operator, Sum};

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
    const CUDA: DeviceCode<Self, u32> = <Sum as Operator<u32>>::CUDA;
}

fn main() {}
