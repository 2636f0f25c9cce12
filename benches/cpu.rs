//! The CPU scan beside a copy, a serial loop and reduce-then-scan, and the CPU compaction on one thread and on all beside
//! `iter().filter().collect()`, on the same buffers in one run: `cargo bench --bench cpu`
//!
//! Throughput is in bytes read and written. Each result is checked against the serial loop before it is timed.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::f16;
use parascan::{Above, Element, Max, Operator, Ordered, Predicate, Sum, compact, scan};
use rayon::prelude::*;
use std::time::Duration;

fn ours<Op: Operator<T>, T: Element>(input: &[T], output: &mut [T]) {
    scan::<Op, T>().run_into(input, output).expect("both are equally long");
}

fn scan_from<Op: Operator<T>, T: Element>(mut sum: Option<Op::Carry>, input: &[T], output: &mut [T]) {
    for (x, y) in input.iter().zip(output) {
        let carry = Op::lift(*x);
        let next = sum.map_or(carry, |sum| Op::combine(sum, carry));
        sum = Some(next);
        *y = Op::lower(next);
    }
}

fn serial<Op: Operator<T>, T: Element>(input: &[T], output: &mut [T]) {
    scan_from::<Op, T>(None, input, output);
}

fn reduce_then_scan<Op: Operator<T>, T: Element>(input: &[T], output: &mut [T]) {
    let chunk = input.len().div_ceil(rayon::current_num_threads());
    let fold = |chunk: &[T]| chunk.iter().map(|x| Op::lift(*x)).reduce(Op::combine).expect("chunks are not empty");
    let sums: Vec<Op::Carry> = input.par_chunks(chunk).map(fold).collect();
    let prefixes: Vec<Option<Op::Carry>> =
        (0..sums.len()).map(|k| sums[..k].iter().copied().reduce(Op::combine)).collect();
    (output.par_chunks_mut(chunk).zip(input.par_chunks(chunk)).zip(prefixes))
        .for_each(|((output, input), prefix)| scan_from::<Op, T>(prefix, input, output));
}

fn copy<T: Element>(input: &[T], output: &mut [T]) {
    let (a, b) = input.split_at(input.len() / 2);
    let (c, d) = output.split_at_mut(input.len() / 2);
    rayon::join(|| c.copy_from_slice(a), || d.copy_from_slice(b));
}

/// `near` says how far a result may be from the serial loop's.
fn compare<Op: Operator<T>, T: Element>(
    criterion: &mut Criterion,
    name: &str,
    n: usize,
    make: impl Fn(u64) -> T,
    near: impl Fn(T, T) -> bool,
) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let input: Vec<T> = (0..n).map(|_| make(noise())).collect();
    let (mut output, mut expected) = (input.clone(), input.clone());
    serial::<Op, T>(&input, &mut expected);
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(2 * size_of_val(&*input) as u64));
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    type Way<T> = fn(&[T], &mut [T]);
    let ways: [(&str, Way<T>); 4] = [
        ("memcpy", copy),
        ("serial", serial::<Op, T>),
        ("reduce_then_scan", reduce_then_scan::<Op, T>),
        ("parascan", ours::<Op, T>),
    ];
    for (way, run) in ways {
        run(&input, &mut output);
        let expected = if way == "memcpy" { &input } else { &expected };
        let wrong = output.iter().zip(expected).position(|(x, y)| !near(*x, *y));
        assert_eq!(wrong, None, "{way} is wrong there, {name}, n {n}");
        group.bench_function(BenchmarkId::new(way, n), |bencher| bencher.iter(|| run(&input, &mut output)));
    }
}

/// Random items, of which half are above `than`.
fn keep_half<T: Ordered>(criterion: &mut Criterion, name: &str, n: usize, make: impl Fn(u64) -> T, than: T)
where
    Above<T>: Predicate<T>,
{
    let mut z = 0x9e37_79b9_7f4a_7c15u64;
    let mut noise = || {
        z ^= z << 13;
        z ^= z >> 7;
        z ^= z << 17;
        z.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let input: Vec<T> = (0..n).map(|_| make(noise() >> 11)).collect();
    let serial = || -> Vec<T> { input.iter().copied().filter(|&x| x > than).collect() };
    let expected = serial();
    let (mut output, mut count) = (input.clone(), [0]);
    let mut ours = || {
        compact::<T>().keep(Above(than)).run_into(&input, &mut output, &mut count).expect("there is room");
        assert_eq!(count[0], expected.len() as u64);
    };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    ours();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes((size_of_val(&*input) + size_of_val(&*expected)) as u64));
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group.bench_function(BenchmarkId::new("filter_collect", n), |bencher| bencher.iter(serial));
    group.bench_function(BenchmarkId::new("parascan_1_thread", n), |bencher| alone.install(|| bencher.iter(&mut ours)));
    group.bench_function(BenchmarkId::new("parascan", n), |bencher| bencher.iter(&mut ours));
    drop(group);
    assert!(output[..expected.len()] == expected, "{name} is wrong, n {n}");
}

fn compaction(criterion: &mut Criterion) {
    for n in [1 << 16, 1 << 26] {
        keep_half(criterion, "keep half of u8", n, |z| z as u8, u8::MAX / 2);
        keep_half(criterion, "keep half of u32", n, |z| z as u32, u32::MAX / 2);
        keep_half(criterion, "keep half of f32", n, |z| (z % 2001) as f32 - 1000.0, 0.0);
        keep_half(criterion, "keep half of u64", n, |z| z << 11, u64::MAX / 2);
    }
}

fn cpu(criterion: &mut Criterion) {
    for n in [1 << 10, 1 << 16, 1 << 20, 1 << 26] {
        compare::<Sum, u32>(criterion, "sum u32", n, |z| z as u32, |x, y| x == y);
        // Whole numbers of both signs, so that rounding stays below the bound.
        let near = |x: f32, y: f32| (x - y).abs() <= 1e-3 * x.abs().max(1e6);
        compare::<Sum, f32>(criterion, "sum f32", n, |z| (z % 2001) as f32 - 1000.0, near);
        compare::<Max, f64>(criterion, "max f64", n, |z| (z >> 11) as f64, |x, y| x == y);
        compare::<Sum, u8>(criterion, "sum u8", n, |z| z as u8, |x, y| x == y);
        // 0 and 1, often enough to grow and seldom enough to stay finite and exact in f32.
        let step = |z: u64| f16::from_f32(if z.is_multiple_of(4096) { 1.0 } else { 0.0 });
        compare::<Sum, f16>(criterion, "sum f16", n, step, |x, y| x == y);
    }
}

criterion_group!(benches, cpu, compaction);
criterion_main!(benches);
