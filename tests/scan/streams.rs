//! Many streams at once, many short scans in a row.

use crate::common::segments::{Lengths, Segments, reduce_oracle, runs_oracle, scan_oracle};
use crate::common::{Options, Rng, STRATEGIES, any, assert_same, context, oracle};
use parascan::cuda::Kernels;
use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits};
use parascan::{AtLeast, Sum, Workspace, compact, reduce, scan, sort};
use std::sync::Arc;

const PLAIN: Options<u64> = Options { exclusive: false, init: None, reverse: false };

/// Threads with a stream and a workspace each, and scans of all sizes on them.
#[test]
fn many_at_once() {
    let context = or_skip!(context());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let context = &context;
            scope.spawn(move || {
                let stream = context.new_stream().unwrap();
                let mut rng = Rng::new();
                let mut workspace = Workspace::new(&stream);
                for round in 0..40 {
                    let most = 1 << (6 + rng.below(15));
                    let n = 1 + rng.below(most);
                    let strategy = STRATEGIES[(thread + round) % STRATEGIES.len()];
                    let x = any::<u64>(&mut rng, n);
                    let mut on_device = stream.clone_htod(&x).unwrap();
                    let scan = scan::<Sum, u64>().strategy(strategy);
                    if round % 3 == 0 {
                        scan.run_in_place(&mut on_device).unwrap(); // scratch from the pool
                    } else {
                        scan.workspace(&mut workspace).run_in_place(&mut on_device).unwrap();
                    }
                    let what = (thread, round, n, strategy);
                    assert_same(&stream.clone_dtoh(&on_device).unwrap(), &oracle::<Sum, u64>(&x, PLAIN), &what);
                }
            });
        }
    });
}

/// A buffer of one stream in a call on another: cudarc's events order them.
#[test]
fn on_another_stream() {
    let context = or_skip!(context());
    let (home, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let mut rng = Rng::new();
    for _ in 0..20 {
        let x = any::<u64>(&mut rng, 1 << 20);
        let input = home.clone_htod(&x).unwrap();
        let output = scan::<Sum, u64>().on(&other).run(&input).unwrap();
        assert_same(&home.clone_dtoh(&output).unwrap(), &oracle::<Sum, u64>(&x, PLAIN), &"on another stream");
    }
}

/// A kernel that runs for a twentieth of a second.
const DELAY: &str = r#"
extern "C" __global__ void delay() {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < 50000000ull);
}
"#;

/// Memory that holds zeros until the stream is past the delay, and `items` from then on. Without a delay it
/// holds them now.
fn late<T: DeviceRepr + ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    delay: Option<&Kernels>,
    items: &[T],
) -> CudaSlice<T> {
    let right = stream.clone_htod(items).unwrap();
    let mut memory = stream.alloc_zeros::<T>(items.len()).unwrap();
    stream.synchronize().unwrap();
    if let Some(delay) = delay {
        // SAFETY: the kernel has no arguments.
        unsafe { delay.launch(0, 1, 1, stream.cu_stream(), &[]) }.unwrap();
    }
    stream.memcpy_dtod(&right, &mut memory).unwrap();
    if delay.is_none() {
        stream.synchronize().unwrap();
    }
    memory
}

/// Work on another stream writes the segments, or the number of items, and takes long. The call waits for it. The
/// first round loads the kernels, which would take longer.
#[test]
fn arguments_of_another_stream() {
    let context = or_skip!(context());
    let (home, other) = (context.new_stream().unwrap(), context.new_stream().unwrap());
    let kernels = Kernels::compile(&context, "a delay", DELAY, &["delay"]).unwrap();
    let (mut rng, n) = (Rng::new(), 300_000);
    let x = any::<u32>(&mut rng, n);
    let input = home.clone_htod(&x).unwrap();
    let segments = Segments::draw(&mut rng, n, Lengths::Below(1000), true);
    let scanned = scan_oracle::<Sum, u32>(&x, &segments, Options { exclusive: false, init: None, reverse: false });
    let reduced = reduce_oracle::<Sum, u32>(&x, &segments, None, 0);
    let runs = runs_oracle::<Sum, u32>(&x, &segments, None);
    let mut sorted = x.clone();
    segments.of_scan().for_each(|segment| sorted[segment].sort_unstable());
    let host = |memory: &CudaSlice<u32>| other.clone_dtoh(memory).unwrap();
    for delay in [None, Some(&kernels)] {
        macro_rules! check {
            ($method:ident, $items:expr, $reduced:expr) => {{
                let (items, what) = ($items, (stringify!($method), delay.is_some()));
                let memory = late(&home, delay, &items);
                let got = scan::<Sum, u32>().on(&other).$method(&memory).run(&input).unwrap();
                assert_same(&host(&got), &scanned, &("scan", what));
                let memory = late(&home, delay, &items);
                let got = reduce::<Sum, u32>().on(&other).$method(&memory).run(&input).unwrap();
                assert_same(&host(&got), $reduced, &("reduce", what));
                let memory = late(&home, delay, &items);
                let got = sort::<u32>().on(&other).$method(&memory).run(&input).unwrap();
                assert_same(&host(&got), &sorted, &("sort", what));
            }};
        }
        check!(segments, segments.offsets::<u32>(), &reduced);
        check!(heads, segments.flags(&mut rng), &runs);
        check!(head_bits, segments.words::<u32>(&mut rng), &runs);
        check!(by_key, segments.keys::<u32>(&mut rng), &runs);

        let count = n - 17;
        let memory = late(&home, delay, &[count as u64]);
        let got = scan::<Sum, u32>().on(&other).len(&memory).run(&input).unwrap();
        let plain = Options { exclusive: false, init: None, reverse: false };
        assert_same(&host(&got)[..count], &oracle::<Sum, u32>(&x[..count], plain), &("scan, counted", delay.is_some()));
        let memory = late(&home, delay, &[count as u64]);
        let got = reduce::<Sum, u32>().on(&other).len(&memory).run(&input).unwrap();
        assert_eq!(got, x[..count].iter().fold(0, |sum: u32, x| sum.wrapping_add(*x)), "reduce, counted");
        let mut data = input.clone();
        let memory = late(&home, delay, &[count as u64]);
        sort::<u32>().on(&other).len(&memory).run_in_place(&mut data).unwrap();
        let mut expected = x.clone();
        expected[..count].sort_unstable();
        assert_same(&host(&data), &expected, &("sort, counted", delay.is_some()));
    }
}

/// Ten thousand short scans in a row, each of the result of the one before.
#[test]
fn ten_thousand_in_a_row() {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    for strategy in STRATEGIES {
        let mut workspace = Workspace::new(&stream);
        let mut expected = any::<u64>(&mut rng, 20_000);
        let mut on_device = stream.clone_htod(&expected).unwrap();
        for round in 0..10_000 {
            let n = 20_000 - round % 7 * 2500; // alternately one tile and several
            scan::<Sum, u64>()
                .strategy(strategy)
                .workspace(&mut workspace)
                .run_in_place(&mut on_device.slice_mut(..n))
                .unwrap();
            let mut sum = 0_u64;
            for x in &mut expected[..n] {
                sum = sum.wrapping_add(*x);
                *x = sum;
            }
        }
        assert_same(&stream.clone_dtoh(&on_device).unwrap(), &expected, &strategy);
    }
}

/// Long scans, each of what the launch before wrote: a scan or a compaction that keeps all. A scan may begin
/// before that launch has ended.
#[test]
fn long_in_a_row() {
    let context = or_skip!(context());
    let stream = context.new_stream().unwrap();
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    for n in [100_000, 3 << 20, 20 << 20] {
        let mut expected = any::<u32>(&mut rng, n);
        let mut items = stream.clone_htod(&expected).unwrap();
        let mut others = stream.alloc_zeros::<u32>(n).unwrap();
        let mut count = stream.alloc_zeros::<u64>(1).unwrap();
        for round in 0..8 {
            scan::<Sum, u32>().workspace(&mut workspace).run_in_place(&mut items).unwrap();
            if round % 3 == 2 {
                let all = compact::<u32>().keep(AtLeast(0));
                all.workspace(&mut workspace).run_into(&items, &mut others, &mut count).unwrap();
                std::mem::swap(&mut items, &mut others);
            }
            let mut sum = 0_u32;
            for x in &mut expected {
                sum = sum.wrapping_add(*x);
                *x = sum;
            }
        }
        assert_same(&stream.clone_dtoh(&items).unwrap(), &expected, &n);
    }
}
