//! Runs the texts on the GPU.

use crate::batch::all;
use crate::compare::{N, difference, values};
use parascan::Error;
use parascan::cuda::{self, Kernels};
use parascan::cudarc::driver::{CudaContext, DevicePtr};
use std::env;
use std::ffi::c_void;
use std::sync::Arc;

/// The number of cases in one translation unit.
const CASES_IN_A_UNIT: usize = 10;
const THREADS: u32 = 256;

const HEAD: &str = "#include \"core/rust.cuh\"
#define FUNCTION(NAME)                                                                                           \\
    extern \"C\" __global__ void NAME(const NAME##_::A *a, const NAME##_::B *b, NAME##_::R *r, u64 n) {            \\
        u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;                                                      \\
        if (i < n) r[i] = NAME##_::call(a[i], b[i]);                                                             \\
    }
";

/// The device, if there is one. Without one, `PARASCAN_REQUIRE_GPU=1` makes the test fail.
fn context() -> Option<Arc<CudaContext>> {
    match cuda::context(0) {
        Ok(context) => Some(context),
        Err(e @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => {
            assert_ne!(env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a GPU is required: {e}");
            eprintln!("nothing runs on a GPU: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn p<A>(argument: &A) -> *const c_void {
    std::ptr::from_ref(argument).cast()
}

#[test]
fn bodies_are_the_same() {
    let Some(context) = context() else { return };
    let stream = context.new_stream().expect("a stream");
    let cases = all();
    let mut wrong = Vec::new();
    for cases in cases.chunks(CASES_IN_A_UNIT) {
        let functions: Vec<_> = cases.iter().flat_map(|case| case.functions.iter().map(move |f| (case, f))).collect();
        let text = |(_, f): &(_, &crate::batch::Function)| format!("{}FUNCTION({})\n", f.cuda, f.name);
        let source = HEAD.to_owned() + &functions.iter().map(text).collect::<String>();
        let names: Vec<&str> = functions.iter().map(|(_, f)| f.name.as_str()).collect();
        let kernels = match Kernels::compile(&context, "random bodies", &source, &names) {
            Ok(kernels) => kernels,
            Err(e) => {
                wrong.push(e.to_string());
                continue;
            }
        };
        for (k, (case, f)) in functions.iter().enumerate() {
            let inputs = [0, 1].map(|i| values(&f.inputs[i], (k + i) as u64));
            let [a, b] = [0, 1].map(|i| stream.clone_htod(&inputs[i]).expect("memory on the device"));
            let r = stream.alloc_zeros::<u8>(N * f.output.size).expect("memory on the device");
            let addresses = [a.device_ptr(&stream).0, b.device_ptr(&stream).0, r.device_ptr(&stream).0];
            let n = N as u64;
            let arguments = [p(&addresses[0]), p(&addresses[1]), p(&addresses[2]), p(&n)];
            let blocks = n.div_ceil(THREADS.into()) as u32;
            // SAFETY: the kernel's arguments, in order: n items of each type, which outlive it.
            unsafe { kernels.launch(k, blocks, THREADS, stream.cu_stream(), &arguments) }.expect("it starts");
            let results = stream.clone_dtoh(&r).expect("it ends");
            if let Some(words) = difference(f, &inputs, &results) {
                wrong.push(format!("{}\n{}{}:\n    {words}\n", case.definition, f.cuda, f.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} bodies:\n\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
