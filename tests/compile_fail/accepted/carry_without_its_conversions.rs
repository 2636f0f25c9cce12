use parascan::{DeviceCode, Operator, cudarc::driver::CudaSlice, scan};

#[derive(Clone, Copy)]
struct Whole;
impl Operator<f32> for Whole {
    type Carry = i32;
    fn lift(x: f32) -> i32 {
        x as i32
    }
    fn lower(x: i32) -> f32 {
        x as f32
    }
    fn combine(a: i32, b: i32) -> i32 {
        a.max(b)
    }
    // SAFETY: a maximum.
    const CUDA: DeviceCode<Self, f32> = unsafe { DeviceCode::new("max(a, b)") };
    // SAFETY: an instruction that rounds and saturates.
    const CUDA_LIFT: DeviceCode<Self, f32> = unsafe { DeviceCode::new("__float2int_rz(x)") };
    // SAFETY: an instruction that rounds.
    const CUDA_LOWER: DeviceCode<Self, f32> = unsafe { DeviceCode::new("__int2float_rn(x)") };
}

fn highest(x: &CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error> {
    scan::<Whole, f32>().run(x)
}

fn main() {
    let _ = highest as fn(&CudaSlice<f32>) -> Result<CudaSlice<f32>, parascan::Error>;
}
