//! Shapes of the scan kernel, and ways of joining its tiles: what a line of `src/cuda/tuning.rs` is chosen from.

use crate::bench::{Bench, Verdict, print};
use crate::data::{Known, Sample};
use crate::gpu::{Gpu, told};
use half::f16;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::{CudaSlice, DevicePtr};
use parascan::{Sum, scan};
use std::ffi::c_void;

const N: usize = 1 << 28;

/// (warps of a block, vectors of a lane)
const SHAPES: [(usize, usize); 10] =
    [(8, 3), (8, 5), (8, 7), (4, 5), (4, 7), (4, 9), (4, 11), (4, 13), (6, 7), (16, 3)];

/// A join in C++, whether one more block serves it, and whether its results are right.
const JOINS: [(&str, &str, bool, bool); 6] = [
    ("server", "PrefixServer<Operator, TestShape::WARPS>", true, true),
    ("server_64", "PrefixServer<Operator, TestShape::WARPS, 64>", true, true),
    ("server_128", "PrefixServer<Operator, TestShape::WARPS, 128>", true, true),
    ("look_back_32", "LookBack<Operator, 32>", false, true),
    ("look_back_128", "LookBack<Operator, 128>", false, true),
    ("no_join", "NoJoin", false, false),
];

/// The addition of an element in C++: the element, the carry, to the carry, from it.
struct Addition(&'static str, &'static str, &'static str, &'static str);

/// The kernel with every join, for one shape. `NoJoin` leaves the prefixes out: what a scan costs without them is the most
/// that any join can reach.
fn source(Addition(element, carry, lift, lower): &Addition, (warps, vectors): (usize, usize)) -> String {
    let mut text = format!(
        "#include \"scan.cuh\"
        typedef Shape<{warps}, {vectors}> TestShape;
        struct Operator {{
            typedef {element} Element;
            typedef {carry} Carry;
            static __device__ Carry lift(Element x) {{ return {lift}; }}
            static __device__ Carry combine(Carry a, Carry b) {{ return a + b; }}
            static __device__ Element lower(Carry x) {{ return {lower}; }}
        }};
        struct NoJoin {{
            struct Shared {{}};
            __device__ NoJoin(void *, u32) {{}}
            __device__ bool enter(Shared &, Maybe<{carry}>, u32 &tile) {{ tile = blockIdx.x; return true; }}
            __device__ Maybe<{carry}> exchange(u32, {carry}, Maybe<{carry}> init, u32) {{ return init; }}
            __device__ void retire(u32, u32) {{}}
        }};\n"
    );
    for (name, join, ..) in JOINS {
        text += &format!(
            "extern \"C\" __global__ void __launch_bounds__(TestShape::THREADS)
            {name}({element} *in, {element} *out, u64 n, {carry} init, u32 flags, void *memory, u32 tiles) {{
                scan_tiles<Operator, TestShape>(in, out, n, init, flags, {join}(memory, tiles));
            }}\n"
        );
    }
    text
}

pub(crate) fn shapes(gpu: &Gpu, verdict: &Verdict) {
    rows::<f32>(gpu, verdict, Addition("float", "float", "x", "x"));
    rows::<i32>(gpu, verdict, Addition("int", "int", "x", "x"));
    rows::<u64>(gpu, verdict, Addition("u64", "u64", "x", "x"));
    rows::<f16>(gpu, verdict, Addition("f16", "float", "widen(x)", "narrow<f16>(x)"));
    rows::<u8>(gpu, verdict, Addition("u8", "u8", "x", "x"));
}

fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict, addition: Addition)
where
    Sum: Known<T>,
{
    let Some(mut bench) = Bench::<T>::new(gpu, verdict, N) else { return };
    for shape in SHAPES {
        let what = format!("shape {} x {}, {}", shape.0, shape.1, T::NAME);
        verdict.note(&what, bench.shape(&addition, shape));
    }
}

impl<T: Sample> Bench<'_, T>
where
    Sum: Known<T>,
{
    /// Checks and times the kernel in one shape, with every join.
    fn shape(&mut self, addition: &Addition, shape: (usize, usize)) -> Result<(), String> {
        self.draw(<Sum as Known<T>>::DRAW, N, 0)?;
        let copy = self.copy(N)?;
        let Bench { gpu, workspace, input, output, kept, .. } = self;
        let sum = scan::<Sum, T>();
        told("scan", sum.workspace(workspace).run_into(&input.slice(..N), &mut kept.slice_mut(..N)))?;
        let names = JOINS.map(|(name, ..)| name);
        let kernels = told("the compiler", Kernels::compile(&gpu.context, "shape", &source(addition, shape), &names))?;
        let (threads, bytes) = (shape.0 * 32, N * size_of::<T>());
        let tiles = bytes.div_ceil(threads * shape.1 * 16) as u32;
        let memory = told("status words", gpu.stream.alloc_zeros::<u8>(64 + 192 * tiles as usize))?;
        let address = |memory: &CudaSlice<T>| memory.device_ptr(&gpu.stream).0;
        let (from, to, expected, words) =
            (address(input), address(output), address(kept), memory.device_ptr(&gpu.stream).0);
        let (n, init, flags) = (N as u64, 0_u64, 0_u32);
        let arguments: [*const c_void; 7] = [
            (&raw const from).cast(),
            (&raw const to).cast(),
            (&raw const n).cast(),
            (&raw const init).cast(), // no carry is wider
            (&raw const flags).cast(),
            (&raw const words).cast(),
            (&raw const tiles).cast(),
        ];
        for (join, (name, _, served, right)) in JOINS.into_iter().enumerate() {
            let (blocks, stream) = (tiles + u32::from(served), gpu.stream.cu_stream());
            // SAFETY: the kernel's arguments, in order; the buffers outlive the wait for the stream in `medians`.
            let mut call = || told(name, unsafe { kernels.launch(join, blocks, threads as u32, stream, &arguments) });
            if right {
                // SAFETY: both are N elements.
                unsafe {
                    gpu.fill(to, 0xa5, bytes)?;
                    call()?;
                    let (wrong, first) = gpu.differ(to, expected, bytes)?;
                    if wrong > 0 {
                        return Err(format!("{name} differs in {wrong} bytes, the first at {first}"));
                    }
                }
            }
            let us = gpu.medians(1, &mut [&mut call])?[0];
            print("parascan", &format!("shape_{}x{}_{name}", shape.0, shape.1), T::NAME, N, us, 2 * bytes, copy / us);
        }
        Ok(())
    }
}
