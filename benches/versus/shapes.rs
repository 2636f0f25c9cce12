//! Times of the scan kernel by shape and by join, from which the rows of `src/cuda/scan/tuning.rs`
//! are chosen.

use crate::bench::{Bench, Verdict, print};
use crate::data::{Known, Sample};
use crate::gpu::{Gpu, told};
use half::f16;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::{CudaSlice, DevicePtr};
use parascan::{Sum, scan};
use std::ffi::c_void;

/// Input lengths in bytes. The best shape is found for each; every join is timed at the last.
const LENGTHS: [usize; 6] = [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30];

/// (warps of a block, vectors of a lane)
const SHAPES: [(usize, usize); 11] =
    [(8, 3), (8, 5), (8, 7), (4, 5), (4, 7), (4, 9), (4, 11), (4, 13), (6, 7), (12, 5), (16, 3)];

/// A join of tiles.
struct Join {
    name: &'static str,
    /// Its C++ type.
    class: &'static str,
    /// The bytes between two prefixes, if one more block serves prefixes.
    served: Option<usize>,
    /// Whether its results are right.
    right: bool,
}

const JOINS: [Join; 6] = [
    Join { name: "server", class: "PrefixServer<Operator, TestShape::WARPS>", served: Some(0), right: true },
    Join { name: "server_64", class: "PrefixServer<Operator, TestShape::WARPS, 64>", served: Some(64), right: true },
    Join { name: "server_128", class: "PrefixServer<Operator, TestShape::WARPS, 128>", served: Some(128), right: true },
    Join { name: "look_back_32", class: "LookBack<Operator, 32>", served: None, right: true },
    Join { name: "look_back_128", class: "LookBack<Operator, 128>", served: None, right: true },
    Join { name: "no_join", class: "NoJoin", served: None, right: false },
];

/// A timed shape.
#[derive(Clone, Copy)]
struct Row {
    bytes: usize,
    shape: (usize, usize),
    spread: usize,
    us: f64,
}

/// Addition in C++: the element, the carry, `lift`, `lower`, the type that combines two elements at
/// once.
struct Addition(&'static str, &'static str, &'static str, &'static str, &'static str);

/// The kernel of one shape, with every join. `NoJoin` computes no prefixes: its rate is the upper
/// bound of any join.
fn source(Addition(element, carry, lift, lower, pairs): &Addition, (warps, vectors): (usize, usize)) -> String {
    let mut text = format!(
        "#include \"scan/scan.cuh\"
        typedef Shape<{warps}, {vectors}> TestShape;
        struct Operator {{
            typedef {element} Element;
            typedef {carry} Carry;
            typedef {pairs} Pairs;
            static __device__ Carry lift(Element x) {{ return {lift}; }}
            static __device__ Carry alone(Carry x) {{ return x; }}
            static __device__ Carry combine(Carry a, Carry b) {{ return a + b; }}
            static __device__ Element lower(Carry x) {{ return {lower}; }}
        }};
        struct NoJoin {{
            struct Shared {{}};
            __device__ NoJoin(void *, u32) {{}}
            __device__ u32 likely() const {{ return NO_TILE; }}
            __device__ bool enter(Shared &, Maybe<{carry}>, u32 &tile) {{ tile = blockIdx.x; return true; }}
            __device__ bool is_last(u32) const {{ return false; }}
            __device__ void publish(u32, {carry}, u32) {{}}
            __device__ Maybe<{carry}> receive(u32, {carry}, Maybe<{carry}> init, u32) {{ return init; }}
            __device__ void retire(u32, u32) {{}}
        }};\n"
    );
    for Join { name, class, .. } in JOINS {
        text += &format!(
            "extern \"C\" __global__ void __launch_bounds__(TestShape::THREADS)
            {name}({element} *in, {element} *out, u64 n, {carry} init, u32 flags, void *memory, u32 tiles) {{
                scan_tiles<Operator, TestShape>(in, out, n, init, flags, {class}(memory, tiles));
            }}\n"
        );
    }
    text
}

pub(crate) fn shapes(gpu: &Gpu, verdict: &Verdict) {
    rows::<f32>(gpu, verdict, Addition("float", "float", "x", "x", "NoPairs"));
    rows::<i32>(gpu, verdict, Addition("int", "int", "x", "x", "NoPairs"));
    rows::<u64>(gpu, verdict, Addition("u64", "u64", "x", "x", "NoPairs"));
    rows::<f16>(gpu, verdict, Addition("f16", "float", "widen(x)", "narrow<f16>(x)", "NoPairs"));
    rows::<u8>(gpu, verdict, Addition("u8", "u8", "x", "x", "SumPairs"));
}

fn rows<T: Sample>(gpu: &Gpu, verdict: &Verdict, addition: Addition)
where
    Sum: Known<T>,
{
    let most = LENGTHS[LENGTHS.len() - 1] / size_of::<T>();
    let Some(mut bench) = Bench::<T>::new(gpu, verdict, most) else { return };
    let mut rows = Vec::new();
    for shape in SHAPES {
        let what = format!("shape {} x {}, {}", shape.0, shape.1, T::NAME);
        verdict.note(&what, bench.shape(&addition, shape, &mut rows));
    }
    // Prints the three best shapes of each length as rows of the table. The table needs no row that
    // is like its neighbours.
    for bytes in LENGTHS {
        let mut here: Vec<Row> = rows.iter().copied().filter(|row| row.bytes == bytes).collect();
        here.sort_by(|a, b| a.us.total_cmp(&b.us));
        let line = |row: &Row| {
            format!("range({bytes}, {}, {}, {}), // {:.1} us", row.shape.0, row.shape.1, row.spread, row.us)
        };
        for row in here.iter().take(3) {
            println!("tuning element={} {}", size_of::<T>(), line(row));
        }
    }
}

impl<T: Sample> Bench<'_, T>
where
    Sum: Known<T>,
{
    /// Checks and times one shape with every join.
    fn shape(&mut self, addition: &Addition, shape: (usize, usize), rows: &mut Vec<Row>) -> Result<(), String> {
        let longest = LENGTHS[LENGTHS.len() - 1];
        let names = JOINS.map(|join| join.name);
        let source = source(addition, shape);
        let kernels = told("the compiler", Kernels::compile(&self.gpu.context, "shape", &source, &names))?;
        let threads = shape.0 * 32;
        let tiles_of = |bytes: usize| bytes.div_ceil(threads * shape.1 * 16) as u32;
        let memory = told("status words", self.gpu.stream.alloc_zeros::<u8>(64 + 192 * tiles_of(longest) as usize))?;
        for bytes in LENGTHS {
            let (length, tiles) = (bytes / size_of::<T>(), tiles_of(bytes));
            self.draw(<Sum as Known<T>>::DRAW, length, 0)?;
            let copy = self.copy(length)?;
            let Bench { gpu, workspace, input, output, kept, .. } = self;
            let (part, mut into) = (input.slice(..length), kept.slice_mut(..length));
            told("scan", scan::<Sum, T>().workspace(workspace).run_into(&part, &mut into))?;
            let address = |memory: &CudaSlice<T>| memory.device_ptr(&gpu.stream).0;
            let (from, to, expected, words) =
                (address(input), address(output), address(kept), memory.device_ptr(&gpu.stream).0);
            let (n, init, flags) = (length as u64, 0_u64, 0_u32);
            let arguments: [*const c_void; 7] = [
                (&raw const from).cast(),
                (&raw const to).cast(),
                (&raw const n).cast(),
                // These are 8 bytes, as many as the widest carry has.
                (&raw const init).cast(),
                (&raw const flags).cast(),
                (&raw const words).cast(),
                (&raw const tiles).cast(),
            ];
            for (index, Join { name, served, right, .. }) in JOINS.into_iter().enumerate() {
                if bytes < longest && served.is_none() {
                    continue;
                }
                let blocks = tiles + u32::from(served.is_some() && tiles > 1);
                let stream = gpu.stream.cu_stream();
                // SAFETY: the kernel's arguments, in order; the buffers outlive the wait for the
                // stream in `medians`.
                let mut call =
                    || told(name, unsafe { kernels.launch(index, blocks, threads as u32, stream, &arguments) });
                if right {
                    // SAFETY: both buffers hold `length` elements.
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
                let what = format!("shape_{}x{}_{name}", shape.0, shape.1);
                print("parascan", &what, T::NAME, length, us, 2 * bytes, copy / us);
                rows.extend(served.map(|spread| Row { bytes, shape, spread, us }));
            }
        }
        Ok(())
    }
}
