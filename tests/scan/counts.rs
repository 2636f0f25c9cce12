//! The formulas of the textbook's scans agree with the device's counts of operator applications,
//! barriers and launches.

use crate::common::{address, context, p, stream};
use parascan::cuda::Kernels;
use parascan::cudarc::driver::CudaContext;
use parascan::cudarc::driver::sys::{self, CUdeviceptr, CUgraphInstantiate_flags, CUgraphNode, CUstreamCaptureMode};
use parascan::{Block, DeviceCode, Network, Operator, Strategy, Workspace, scan};
use std::ffi::c_void;

/// Every element is the address of one counter of applications. Any value but an input, a partial
/// result or `init` faults.
#[derive(Clone, Copy)]
struct Counter;
impl Operator<u64> for Counter {
    type Carry = u64;
    fn lift(x: u64) -> u64 {
        x
    }
    fn lower(x: u64) -> u64 {
        x
    }
    fn combine(earlier: u64, _: u64) -> u64 {
        earlier
    }
    // SAFETY: defined only for these tests' values, which are the address of a counter.
    const CUDA: DeviceCode<Self, u64> = unsafe { DeviceCode::new("(atomicAdd((unsigned long long *)b, 1ull), a)") };
}

const FORMS: [fn(Network) -> Block; 3] = [Block::Plain, Block::Shifted, Block::Coarsened];
const JOINS: [fn(Block) -> Strategy; 3] = [Strategy::Hierarchical, Strategy::Chained, Strategy::LookBack];

#[test]
fn applications() {
    let stream = or_skip!(stream());
    let mut workspace = Workspace::new(&stream);
    let mut count = stream.alloc_zeros::<u64>(1).unwrap();
    let counter = address(&count, &stream);
    for (block, strategy) in Network::ALL
        .into_iter()
        .flat_map(|network| FORMS.map(|form| form(network)))
        .flat_map(|block| JOINS.map(|join| (block, join(block))))
    {
        // Forms with two applications an item: the further applications of a tile's network, and
        // its items.
        let bound = match block {
            Block::Plain(Network::BrentKung) | Block::Shifted(Network::BrentKung) => Some((0, 512)),
            Block::Coarsened(Network::BrentKung) => Some((0, 2560)),
            Block::Coarsened(network) => Some((network.applications(512) - 512, 2560)),
            _ => None,
        };
        // Tiles have 512 or 2560 items: one tile, a few, more than a look-back group, more than one
        // tile of aggregates.
        for n in [1, 511, 512, 513, 2560, 2561, 5 * 2560, 129 * 512, 300 * 2560 + 7, 513 * 2560] {
            let mut items = stream.clone_htod(&vec![counter; n]).unwrap();
            let plain = scan::<Counter, u64>().strategy(strategy);
            for (what, scan) in [
                ("inclusive", plain),
                ("init", plain.init(counter).reverse()),
                ("exclusive", plain.exclusive_from(counter)),
            ] {
                stream.memset_zeros(&mut count).unwrap();
                scan.workspace(&mut workspace).run_in_place(&mut items).unwrap();
                let counted = stream.clone_dtoh(&count).unwrap()[0];
                let work = scan.work(n).expect("it is a matter of n alone");
                assert_eq!(counted, work.applications, "{strategy:?}, {what}, n {n}");
                // Two an item including prefixes, a few a tile to join it, and one tile of
                // aggregates.
                if let Some((more, tile)) = bound {
                    let tiles = n.div_ceil(tile);
                    let most = 2 * (tiles + 1) * tile + (tiles + 2) * (256 + more);
                    assert!(counted <= most as u64, "{strategy:?}, {what}, n {n}: {counted} of {most}");
                }
            }
            assert!(stream.clone_dtoh(&items).unwrap().iter().all(|&item| item == counter), "{strategy:?}, n {n}");
        }
    }
}

#[test]
fn launches() {
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let mut workspace = Workspace::new(&stream);
    let block = Block::Plain(Network::Sklansky);
    for strategy in JOINS.map(|join| join(block)) {
        for n in [1, 512, 513, 512 * 512, 512 * 512 + 513] {
            let mut items = stream.alloc_zeros::<u32>(n).unwrap();
            let sum = scan::<parascan::Sum, u32>().strategy(strategy);
            sum.prepare(n, &mut workspace).unwrap();
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
            sum.workspace(&mut workspace).run_in_place(&mut items).unwrap();
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            let graph = stream.end_capture(flags).unwrap().expect("a graph");
            let (none, mut nodes) = (std::ptr::null_mut::<CUgraphNode>(), 0);
            // SAFETY: the driver writes the number of nodes; the graph is live.
            unsafe { sys::cuGraphGetNodes(graph.cu_graph(), none, &mut nodes) }.result().unwrap();
            assert_eq!(nodes as u64, sum.work(n).unwrap().launches, "{strategy:?}, n {n}");
        }
    }
}

// ---- barriers -----------------------------------------------------------------------------------

const BEGIN: usize = 0;
const FINISH: usize = 1;
const SCAN_CHAINED: usize = 2;
const SCAN_LOOK_BACK: usize = 3;
const READ: usize = 4;

/// The templates with counting barriers, and kernels of one network and form.
fn counting(context: &CudaContext, network: Network, form: &str) -> Kernels {
    let run = if form == "Plain" { 1 } else { 9 };
    let scan = |name: &str, join: &str| {
        format!(
            "extern \"C\" __global__ void {name}(u32 *in, u64 n, u32 flags, void *memory, u32 tiles) {{
                 scan_textbook_tiles<Operator, {run}>(in, in, n, 0u, flags, {join});
             }}\n"
        )
    };
    let source = format!(
        "#include \"core/types.cuh\"
         __device__ u64 barriers;
         __device__ inline void counting_barrier() {{
             if (threadIdx.x == 0) atomicAdd(&barriers, 1ull);
             __syncthreads();
         }}
         #define __syncthreads counting_barrier
         #define NETWORK {network:?}
         #define FORM {form}
         constexpr u32 WIDTH = 512;
         #include \"textbook/textbook.cuh\"
         struct Operator {{
             typedef u32 Element;
             typedef u32 Carry;
             static __device__ u32 lift(u32 x) {{ return x; }}
             static __device__ u32 alone(u32 x) {{ return x; }}
             static __device__ u32 combine(u32 a, u32 b) {{ return a + b; }}
             static __device__ u32 lower(u32 x) {{ return x; }}
         }};
         extern \"C\" __global__ void begin(u32 *in, u64 n, u32 flags, u32 *aggregates, u32 *kept) {{
             begin_textbook_tiles<Operator, {run}>(in, n, flags, aggregates, kept);
         }}
         extern \"C\" __global__ void finish(u32 *in, u64 n, u32 flags, u32 *prefixes, u32 *kept) {{
             finish_textbook_tiles<Operator, {run}>(in, in, n, 0u, flags, prefixes, kept);
         }}
         {}{}
         extern \"C\" __global__ void read(u64 *to) {{
             *to = barriers;
             barriers = 0;
         }}",
        scan("chained", "Chained<Operator>(memory, tiles)"),
        scan("look_back", "LookBack<Operator, 128>(memory, tiles)"),
    );
    Kernels::compile(context, "counts", &source, &["begin", "finish", "chained", "look_back", "read"]).unwrap()
}

#[test]
fn barriers() {
    let stream = or_skip!(stream());
    for network in Network::ALL {
        for (form, run, block) in [
            ("Plain", 1, Block::Plain(network)),
            ("Plain", 1, Block::Shifted(network)),
            ("Coarsened", 9, Block::Coarsened(network)),
        ] {
            let kernels = counting(stream.context(), network, form);
            let read = || {
                let count = stream.alloc_zeros::<u64>(1).unwrap();
                let to = address(&count, &stream);
                // SAFETY: the kernel's argument; the buffer outlives it.
                unsafe { kernels.launch(READ, 1, 1, stream.cu_stream(), &[p(&to)]) }.unwrap();
                stream.clone_dtoh(&count).unwrap()[0]
            };
            for (tiles, exclusive) in [(1_u32, false), (1, true), (3, false), (3, true)] {
                let n = u64::from(tiles) * 512 * run;
                let items = stream.alloc_zeros::<u32>(n as usize).unwrap();
                let memory = stream.alloc_zeros::<u8>(1 << 16).unwrap();
                let (at, words) = (address(&items, &stream), address(&memory, &stream));
                let shifted = matches!(block, Block::Shifted(_));
                let flags = if exclusive { 1 | 4 } else { 0 } | if shifted { 8_u32 } else { 0 };
                let launch = |kernel, blocks, last: *const c_void| {
                    let arguments = [p(&at), p(&n), p(&flags), p(&words), last];
                    // SAFETY: the kernel's arguments, in order; the buffers outlive it.
                    unsafe { kernels.launch(kernel, blocks, 512, stream.cu_stream(), &arguments) }.unwrap();
                };
                let expected = |strategy: Strategy| {
                    let sum = scan::<parascan::Sum, u32>().strategy(strategy);
                    let sum = if exclusive { sum.exclusive_from(0) } else { sum };
                    sum.work(n as usize).unwrap().barriers
                };
                let what = (block, tiles, exclusive);
                launch(SCAN_CHAINED, tiles, p(&tiles));
                assert_eq!(read(), expected(Strategy::Chained(block)), "{what:?}, chained");
                launch(SCAN_LOOK_BACK, tiles, p(&tiles));
                assert_eq!(read(), expected(Strategy::LookBack(block)), "{what:?}, look-back");
                // Like the hierarchical scan: one tile by one kernel; or a kernel up to the join,
                // the scan of the aggregates by one block, and a kernel from the join on.
                let nothing: CUdeviceptr = 0;
                if tiles == 1 {
                    launch(FINISH, tiles, p(&nothing));
                    assert_eq!(read(), expected(Strategy::Hierarchical(block)), "{what:?}, one tile");
                    continue;
                }
                let kept = stream.alloc_zeros::<u32>(512 * tiles as usize).unwrap();
                let kept = address(&kept, &stream);
                launch(BEGIN, tiles, p(&kept));
                launch(FINISH, tiles, p(&kept));
                let both = read();
                let (at, n, flags) = (words, u64::from(tiles - 1), 0_u32);
                let arguments = [p(&at), p(&n), p(&flags), p(&nothing), p(&nothing)];
                // SAFETY: the kernel's arguments, in order; the buffers outlive it.
                unsafe { kernels.launch(FINISH, 1, 512, stream.cu_stream(), &arguments) }.unwrap();
                assert_eq!(both + read(), expected(Strategy::Hierarchical(block)), "{what:?}, hierarchical");
            }
        }
    }
}
