//! Many streams at once, many short scans in a row.

use crate::common::{Options, Rng, STRATEGIES, any, assert_same, context, oracle};
use parascan::{AtLeast, Sum, Workspace, compact, scan};

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
