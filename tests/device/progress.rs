//! Progress while another kernel holds nearly all of the device: a scan ends meanwhile, and tiles
//! that wait for each other end after that kernel. Also progress on a stream that has a small part
//! of the device.

use crate::common::process::is_alone;
use crate::common::{Options, Rng, STRATEGIES, TEXTBOOK, any, assert_same, context, oracle};
use libloading::Library;
use parascan::cuda::Kernels;
use parascan::cudarc::driver::sys::{
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CUstream, cuDriverGetVersion,
};
use parascan::cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use parascan::{Above, Sum, Workspace, partition, scan, sort};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A kernel whose block takes all registers of a multiprocessor: it loads them before the wait and
/// uses them after it. The first word ends the wait. The last word counts the running blocks.
const HOLD: &str = r#"
extern "C" __global__ void __launch_bounds__(1024, 1) hold(volatile unsigned *flag) {
    unsigned keep[56];
#pragma unroll
    for (int i = 0; i < 56; i++) keep[i] = flag[1 + i];
    if (threadIdx.x == 0) atomicAdd((unsigned *)flag + 63, 1);
    while (*flag == 0) {}
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < 56; i++) sum ^= keep[i] * (2 * i + 1);
    if (sum == 12345) *flag = 2;
}
"#;

/// Holds all multiprocessors but one.
struct Holder {
    kernels: Kernels,
    holding: Arc<CudaStream>,
    release: Arc<CudaStream>,
    flag: CudaSlice<u32>,
    blocks: u32,
}

impl Holder {
    fn new(context: &Arc<CudaContext>) -> Holder {
        let kernels = Kernels::compile(context, "hold", HOLD, &["hold"]).unwrap();
        let multiprocessors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap() as u32;
        let (holding, release) = (context.new_stream().unwrap(), context.new_stream().unwrap());
        let flag = release.alloc_zeros(64).unwrap();
        Holder { kernels, holding, release, flag, blocks: multiprocessors - 1 }
    }

    /// Starts the kernel and returns once its blocks run.
    fn hold(&mut self) {
        self.release.memset_zeros(&mut self.flag).unwrap();
        self.release.synchronize().unwrap();
        let address = self.flag.device_ptr(&self.release).0;
        let argument: *const c_void = std::ptr::from_ref(&address).cast();
        // SAFETY: the kernel takes one pointer, to 64 words that outlive it.
        unsafe { self.kernels.launch(0, self.blocks, 1024, self.holding.cu_stream(), &[argument]) }.unwrap();
        let there = || self.release.clone_dtoh(&self.flag).unwrap()[63];
        assert!(in_time(|| there() == self.blocks), "{} blocks of {}", there(), self.blocks);
    }

    fn release(&mut self) {
        self.release.memcpy_htod(&[1_u32], &mut self.flag.slice_mut(..1)).unwrap();
        self.release.synchronize().unwrap();
        self.holding.synchronize().unwrap();
    }
}

/// Whether the condition holds within a time limit.
fn in_time(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Whether the stream's work ends within a time limit.
fn ends(stream: &CudaStream) -> bool {
    let done = stream.record_event(None).unwrap();
    in_time(|| done.try_is_complete().unwrap())
}

#[test]
fn while_another_kernel_holds_the_card() {
    if !is_alone(while_another_kernel_holds_the_card) {
        // The kernel would hold up the other tests' work too.
        return;
    }
    let context = or_skip!(context());
    let (mut holder, stream) = (Holder::new(&context), context.new_stream().unwrap());
    let mut rng = Rng::new();
    for strategy in STRATEGIES.into_iter().chain(TEXTBOOK) {
        let x = any::<u64>(&mut rng, 3 << 20);
        let mut on_device = stream.clone_htod(&x).unwrap();
        let mut workspace = Workspace::new(&stream);
        let sum = scan::<Sum, u64>().strategy(strategy);
        sum.prepare(x.len(), &mut workspace).unwrap();
        stream.synchronize().unwrap();

        holder.hold();
        sum.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
        let finished = ends(&stream);
        holder.release();
        assert!(finished, "{strategy:?} made no progress");
        let expected = oracle::<Sum, u64>(&x, Options { exclusive: false, init: None, reverse: false });
        assert_same(&stream.clone_dtoh(&on_device).unwrap(), &expected, &strategy);
    }
}

/// Sorts whose blocks count a sample together and wait for its map. One multiprocessor runs fewer
/// blocks than the sample has parts.
#[test]
fn a_sort_while_another_kernel_holds_the_card() {
    if !is_alone(a_sort_while_another_kernel_holds_the_card) {
        return;
    }
    let context = or_skip!(context());
    let (mut holder, stream) = (Holder::new(&context), context.new_stream().unwrap());
    let mut rng = Rng::new();
    let mut keys = any::<u32>(&mut rng, 1 << 20);
    let [few, many] = [0xa5a5_a5a5, 0x7000_0000];
    for (i, key) in keys.iter_mut().enumerate() {
        // One key in ten is the same, and by the second pattern the others are dense in the middle.
        *key = if i % 10 == 3 { few } else { *key };
    }
    let dense: Vec<u32> = keys.iter().map(|&key| if key % 4 == 0 { key } else { many + key % 65521 }).collect();
    for keys in [keys, dense] {
        let positions: Vec<u32> = (0..keys.len() as u32).collect();
        let mut order = positions.clone();
        order.sort_by_key(|&i| keys[i as usize]);
        let sorted: Vec<u32> = order.iter().map(|&i| keys[i as usize]).collect();
        let mut workspace = Workspace::new(&stream);
        sort::<u32>().prepare(keys.len(), &mut workspace).unwrap();
        sort::<u32>().prepare_pairs::<u32>(keys.len(), &mut workspace).unwrap();
        let (from, payload) = (stream.clone_htod(&keys).unwrap(), stream.clone_htod(&positions).unwrap());
        let [mut alone, mut to, mut moved] = [(); 3].map(|()| stream.alloc_zeros::<u32>(keys.len()).unwrap());
        stream.synchronize().unwrap();

        holder.hold();
        sort::<u32>().workspace(&mut workspace).run_into(&from, &mut alone).unwrap();
        let pairs = sort::<u32>().workspace(&mut workspace);
        pairs.run_pairs_into(&from, &payload, &mut to, &mut moved).unwrap();
        let finished = ends(&stream);
        holder.release();
        assert!(finished, "the sorts made no progress");
        assert_same(&stream.clone_dtoh(&alone).unwrap(), &sorted, &"keys");
        assert_same(&stream.clone_dtoh(&to).unwrap(), &sorted, &"keys of pairs");
        assert_same(&stream.clone_dtoh(&moved).unwrap(), &order, &"payload");
    }
}

/// A partition into one buffer: its tiles wait for each other if the device holds them at once.
struct Partition {
    stream: Arc<CudaStream>,
    workspace: Workspace,
    items: Vec<u32>,
    input: CudaSlice<u32>,
    output: CudaSlice<u32>,
    count: CudaSlice<u64>,
}

impl Partition {
    const ABOVE: u32 = 0x6000_0000;

    /// A partition of `n` random items, with all its memory allocated.
    fn new(stream: &Arc<CudaStream>, rng: &mut Rng, n: usize) -> Partition {
        let items = any::<u32>(rng, n);
        let mut workspace = Workspace::new(stream);
        partition::<u32>().keep(Above(Self::ABOVE)).prepare(n, &mut workspace).unwrap();
        let input = stream.clone_htod(&items).unwrap();
        let (output, count) = (stream.alloc_zeros(n).unwrap(), stream.alloc_zeros(1).unwrap());
        stream.synchronize().unwrap();
        Partition { stream: stream.clone(), workspace, items, input, output, count }
    }
    fn call(&mut self) {
        let parts = partition::<u32>().keep(Above(Self::ABOVE)).workspace(&mut self.workspace);
        parts.run_into(&self.input, &mut self.output, &mut self.count).unwrap();
    }
    #[track_caller]
    fn ends_well(&self) {
        let n = self.items.len();
        assert!(ends(&self.stream), "the partition of {n} items never ended");
        let (mut expected, others): (Vec<u32>, Vec<u32>) = self.items.iter().partition(|x| **x > Self::ABOVE);
        assert_eq!(self.stream.clone_dtoh(&self.count).unwrap(), [expected.len() as u64], "{n}");
        expected.extend(others);
        assert_same(&self.stream.clone_dtoh(&self.output).unwrap(), &expected, &n);
    }
}

/// Two partitions at once, each of most of a large device. No call is refused or waits, and both
/// end.
#[test]
fn cooperative_tiles_wait_until_the_device_is_free() {
    if !is_alone(cooperative_tiles_wait_until_the_device_is_free) {
        return;
    }
    let context = or_skip!(context());
    let mut holder = Holder::new(&context);
    let mut rng = Rng::new();
    let streams = [0, 1].map(|_| context.new_stream().unwrap());
    for n in [3 << 20, 1 << 20, 1 << 16] {
        let mut partitions = streams.each_ref().map(|stream| Partition::new(stream, &mut rng, n));
        holder.hold();
        partitions.iter_mut().for_each(Partition::call);
        holder.release();
        partitions.iter().for_each(Partition::ends_well);
    }
}

/// A stream on the smallest part of the device (a green context), or `None` if the driver is too
/// old. The test never releases the part.
fn on_a_part(context: &Arc<CudaContext>) -> Option<Arc<CudaStream>> {
    type Resource = [u64; 64]; // `CUdevResource` is shorter
    const MULTIPROCESSORS: u32 = 1; // CU_DEV_RESOURCE_TYPE_SM
    const DEFAULT_STREAM: u32 = 1; // CU_GREEN_CTX_DEFAULT_STREAM
    const NON_BLOCKING: u32 = 1; // CU_STREAM_NON_BLOCKING
    const FIRST_TO_HAVE_THEM: i32 = 12050;
    let mut version = 0;
    // SAFETY: the driver writes an integer.
    assert_eq!(unsafe { cuDriverGetVersion(&mut version) } as u32, 0);
    if version < FIRST_TO_HAVE_THEM {
        return None;
    }
    // The functions are loaded by hand: cudarc has them only for some versions of CUDA. SAFETY: the
    // library is the driver's, which is already loaded.
    let driver = unsafe { Library::new("libcuda.so.1") }.unwrap();
    macro_rules! function { ($name:literal: $($argument:ty),*) => {
        // SAFETY: the type is the function's in cuda.h.
        unsafe { driver.get::<unsafe extern "C" fn($($argument),*) -> u32>($name) }.unwrap()
    } }
    let get = function!("cuDeviceGetDevResource": i32, *mut Resource, u32);
    let split = function!("cuDevSmResourceSplitByCount":
        *mut Resource, *mut u32, *const Resource, *mut Resource, u32, u32);
    let describe = function!("cuDevResourceGenerateDesc": *mut *mut c_void, *mut Resource, u32);
    let create = function!("cuGreenCtxCreate": *mut *mut c_void, *mut c_void, i32, u32);
    let create_stream = function!("cuGreenCtxStreamCreate": *mut CUstream, *mut c_void, u32, i32);

    let device = context.ordinal() as i32;
    let (mut whole, mut part, mut parts): (Resource, Resource, u32) = ([0; 64], [0; 64], 1);
    let (mut described, mut green, mut stream) = (null_mut(), null_mut(), null_mut());
    context.bind_to_thread().unwrap();
    // SAFETY: every output has the size that the function writes; the stream lives as long as the
    // process.
    unsafe {
        assert_eq!(get(device, &mut whole, MULTIPROCESSORS), 0);
        assert_eq!(split(&mut part, &mut parts, &whole, null_mut(), 0, 1), 0);
        assert_eq!(describe(&mut described, &mut part, 1), 0);
        assert_eq!(create(&mut green, described, device, DEFAULT_STREAM), 0);
        assert_eq!(create_stream(&mut stream, green, NON_BLOCKING, 0), 0);
        Some(context.wrap_borrowed_stream(stream))
    }
}

/// As many tiles as the whole device holds at once, but not the stream's part. The driver refuses
/// the launch, and the partition takes two launches.
#[test]
fn tiles_that_a_part_of_the_card_cannot_hold() {
    if !is_alone(tiles_that_a_part_of_the_card_cannot_hold) {
        return;
    }
    let context = or_skip!(context());
    let Some(stream) = on_a_part(&context) else { return eprintln!("skipped, the driver has no parts of a device") };
    let mut rng = Rng::new();
    for n in [3 << 20, 1 << 20, 1 << 14] {
        let mut partition = Partition::new(&stream, &mut rng, n);
        for _ in 0..3 {
            partition.call();
            partition.ends_well();
        }
    }
}
