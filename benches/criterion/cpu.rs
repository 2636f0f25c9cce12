//! The CPU engine beside other crates, on the same buffers in one run: `cargo bench --bench cpu`
//!
//! - the scan beside a copy, a serial loop and reduce-then-scan;
//! - the scan, the reduction and the sort of rows and segments on one thread and on all beside two nested loops;
//! - the compaction on one thread and on all beside `iter().filter().collect()`;
//! - the radix sort beside rdst, voracious_radix_sort and the standard library.
//!
//! Throughput is in bytes read and written, for sorts in keys. Each result is checked before it is
//! timed, against the serial loop or a sort of the standard library. A sort's time includes the
//! allocation of scratch memory, but no copy of the input.

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use half::f16;
use parascan::operators::{Moments, Variance};
use parascan::{Above, Element, Max, Operator, Ordered, Predicate, SortKey, Sum, compact, reduce, scan, sort};
use rayon::prelude::*;
use std::{
    cmp::Ordering,
    ops::Range,
    time::{Duration, Instant},
};

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

/// `near` bounds the difference between a result and the serial loop's.
fn compare<Op: Operator<T>, T: Element>(
    criterion: &mut Criterion,
    name: &str,
    n: usize,
    make: impl Fn(u64) -> T,
    near: impl Fn(T, T) -> bool,
) {
    let input: Vec<T> = noise().take(n).map(make).collect();
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

/// Random items, half of them above `than`.
fn keep_half<T: Ordered>(criterion: &mut Criterion, name: &str, n: usize, make: impl Fn(u64) -> T, than: T)
where
    Above<T>: Predicate<T>,
{
    let input: Vec<T> = noise().take(n).map(|z| make(z >> 11)).collect();
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
        // Whole numbers of both signs keep the rounding below the bound.
        let near = |x: f32, y: f32| (x - y).abs() <= 1e-3 * x.abs().max(1e6);
        compare::<Sum, f32>(criterion, "sum f32", n, |z| (z % 2001) as f32 - 1000.0, near);
        compare::<Max, f64>(criterion, "max f64", n, |z| (z >> 11) as f64, |x, y| x == y);
        compare::<Sum, u8>(criterion, "sum u8", n, |z| z as u8, |x, y| x == y);
        // 0 and 1, as many as keep products finite and exact in f32.
        let step = |z: u64| f16::from_f32(if z.is_multiple_of(4096) { 1.0 } else { 0.0 });
        compare::<Sum, f16>(criterion, "sum f16", n, step, |x, y| x == y);
    }
}

fn segments_of(offsets: &[u32]) -> impl Iterator<Item = Range<usize>> {
    offsets.windows(2).map(|pair| pair[0] as usize..pair[1] as usize)
}

/// Sums of the segments with these offsets, beside loops over them. `scan` and `reduce` are the library's.
fn sums_of(
    criterion: &mut Criterion,
    (group, length): (&str, usize),
    offsets: &[u32],
    scan: impl Fn(&[f32], &mut [f32]) + Sync,
    reduce: impl Fn(&[f32], &mut [f32]) + Sync,
) {
    let n = offsets[offsets.len() - 1] as usize;
    let input: Vec<f32> = (0..n).map(|i| (i % 2001) as f32 - 1000.0).collect();
    let (mut output, mut expected) = (input.clone(), input.clone());
    let (mut totals, mut expected_totals) = (vec![0.0; offsets.len() - 1], vec![0.0; offsets.len() - 1]);
    let segments = || segments_of(offsets);
    let scan_loops = |output: &mut [f32]| {
        for segment in segments() {
            serial::<Sum, f32>(&input[segment.clone()], &mut output[segment]);
        }
    };
    let reduce_loops = |totals: &mut [f32]| {
        for (segment, total) in segments().zip(totals) {
            *total = input[segment].iter().sum();
        }
    };
    scan_loops(&mut expected);
    scan(&input, &mut output);
    assert!(output == expected, "whole numbers, {group} of {length}"); // sums are exact
    reduce_loops(&mut expected_totals);
    reduce(&input, &mut totals);
    assert!(totals == expected_totals, "whole numbers, {group} of {length}");
    beside_loops(criterion, (group, "scan", length), n, &mut output, scan_loops, |output| scan(&input, output));
    beside_loops(criterion, (group, "reduce", length), n, &mut totals, reduce_loops, |totals| reduce(&input, totals));
}

/// Times loops, and what is ours on one thread and on all.
fn beside_loops<T: Send>(
    criterion: &mut Criterion,
    (group, way, length): (&str, &str, usize),
    n: usize,
    output: &mut [T],
    loops: impl Fn(&mut [T]),
    ours: impl Fn(&mut [T]) + Sync,
) {
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let mut group = sorts(criterion, group, n);
    let of = |more: &str| BenchmarkId::new(format!("{way}{more}"), length);
    group.bench_function(of("_loops"), |bencher| bencher.iter(|| loops(output)));
    group.bench_function(of("_1_thread"), |bencher| alone.install(|| bencher.iter(|| ours(output))));
    group.bench_function(of(""), |bencher| bencher.iter(|| ours(output)));
}

fn rows(criterion: &mut Criterion) {
    let n = 1_u32 << 22;
    for columns in [1, 2, 4, 8, 16, 64, 256, 1 << 10, 1 << 16] {
        let offsets: Vec<u32> = (0..=n).step_by(columns).collect();
        let by_rows = (scan::<Sum, f32>().rows(columns), reduce::<Sum, f32>().rows(columns));
        let scan_rows = |input: &[f32], output: &mut [f32]| by_rows.0.run_into(input, output).expect("whole rows");
        let reduce_rows = |input: &[f32], totals: &mut [f32]| by_rows.1.run_into(input, totals).expect("whole rows");
        sums_of(criterion, ("rows", columns), &offsets, scan_rows, reduce_rows);
    }
}

/// Segments of random lengths from 0 on.
fn segments(criterion: &mut Criterion) {
    let n = 1_u32 << 22;
    for longest in [2, 8, 32, 128, 1024] {
        let (mut offsets, mut noise, mut end) = (vec![0], noise(), 0);
        while end < n {
            end = n.min(end + (noise.next().expect("no end") % (longest + 1)) as u32);
            offsets.push(end);
        }
        let scan_segments = |input: &[f32], output: &mut [f32]| {
            scan::<Sum, f32>().segments(&offsets).run_into(input, output).expect("offsets ascend");
        };
        let reduce_segments = |input: &[f32], totals: &mut [f32]| {
            reduce::<Sum, f32>().segments(&offsets).run_into(input, totals).expect("offsets ascend");
        };
        sums_of(criterion, ("segments", longest as usize), &offsets, scan_segments, reduce_segments);
        moments_of(criterion, longest as usize, &offsets);
        sorted(criterion, longest as usize, &offsets);
    }
}

/// The variances of segments, whose carries have 12 bytes, beside loops over them.
fn moments_of(criterion: &mut Criterion, longest: usize, offsets: &[u32]) {
    let n = offsets[offsets.len() - 1] as usize;
    let input: Vec<Moments<f32>> = noise().take(n).map(|z| Moments::of((z % 2001) as f32)).collect();
    let none = Moments { count: 0.0, mean: 0.0, squares: 0.0 };
    let (mut totals, mut expected) = (vec![none; offsets.len() - 1], vec![none; offsets.len() - 1]);
    let loops = |totals: &mut [Moments<f32>]| {
        for (segment, total) in segments_of(offsets).zip(totals) {
            *total =
                input[segment].iter().copied().reduce(<Variance as Operator<Moments<f32>>>::combine).unwrap_or(none);
        }
    };
    let ours = |totals: &mut [Moments<f32>]| {
        reduce::<Variance, Moments<f32>>().segments(offsets).run_into(&input, totals).expect("offsets ascend");
    };
    loops(&mut expected);
    ours(&mut totals);
    let is_near = |(a, b): (&Moments<f32>, &Moments<f32>)| a.count == b.count && (a.mean - b.mean).abs() < 0.1;
    assert!(totals.iter().zip(&expected).all(is_near), "moments up to {longest}");
    beside_loops(criterion, ("segments", "moments", longest), n, &mut totals, loops, ours);
}

/// The sort of segments beside a copy and the standard library's sort of each.
fn sorted(criterion: &mut Criterion, longest: usize, offsets: &[u32]) {
    let n = offsets[offsets.len() - 1] as usize;
    let input: Vec<u32> = noise().take(n).map(|z| z as u32).collect();
    let (mut output, mut expected) = (input.clone(), input.clone());
    let loops = |output: &mut [u32]| {
        output.copy_from_slice(&input);
        segments_of(offsets).for_each(|segment| output[segment].sort_unstable());
    };
    let ours = |output: &mut [u32]| sort().segments(offsets).run_into(&input, output).expect("offsets ascend");
    loops(&mut expected);
    ours(&mut output);
    assert!(output == expected, "sorts up to {longest}");
    beside_loops(criterion, ("segments", "sort", longest), n, &mut output, loops, ours);
}

/// A sort by the order `compare`.
trait Ways: SortKey + PartialEq {
    fn of(noise: u64) -> Self;
    fn compare(a: &Self, b: &Self) -> Ordering;
    fn rdst(_: &mut [Self]) -> bool {
        false
    }
    fn voracious(_: &mut [Self]) -> bool {
        false
    }
}

macro_rules! ways {
    ($($t:ident |$noise:ident| $of:expr, $compare:expr $(, $rdst:ident)?;)*) => { $(
        impl Ways for $t {
            fn of($noise: u64) -> $t {
                $of
            }
            fn compare(a: &$t, b: &$t) -> Ordering {
                $compare(a, b)
            }
            $( fn $rdst(keys: &mut [$t]) -> bool {
                rdst::RadixSort::radix_sort_unstable(keys);
                true
            } )?
            fn voracious(keys: &mut [$t]) -> bool {
                voracious_radix_sort::RadixSort::voracious_mt_sort(keys, rayon::current_num_threads());
                true
            }
        }
    )* };
}
ways! {
    u8 |z| (z >> 32) as u8, u8::cmp, rdst;
    u16 |z| (z >> 32) as u16, u16::cmp, rdst;
    u32 |z| (z >> 32) as u32, u32::cmp, rdst;
    u64 |z| z, u64::cmp, rdst;
    f32 |z| (z >> 32) as i32 as f32, f32::total_cmp;
}

/// The generator xorshift64* (Vigna 2016).
fn noise() -> impl Iterator<Item = u64> {
    let mut z = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::repeat_with(move || {
        z ^= z << 13;
        z ^= z >> 7;
        z ^= z << 17;
        z.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// Times `sort` on copies of `input`, made outside of the timed region.
fn bench_sort<T: Copy>(group: &mut Group<'_>, way: &str, input: &[T], mut sort: impl FnMut(&mut [T])) {
    let mut items = input.to_vec();
    let mut timed = |rounds| {
        let mut sum = Duration::ZERO;
        for _ in 0..rounds {
            items.copy_from_slice(input);
            let start = Instant::now();
            sort(&mut items);
            sum += start.elapsed();
        }
        sum
    };
    group.bench_function(BenchmarkId::new(way, input.len()), |bencher| bencher.iter_custom(&mut timed));
}

fn sorts<'a>(criterion: &'a mut Criterion, name: &str, n: usize) -> Group<'a> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(n as u64));
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    group
}

fn sort_keys<T: Ways>(criterion: &mut Criterion, name: &str, n: usize, make: impl Fn(usize, u64) -> T) {
    let input: Vec<T> = noise().take(n).enumerate().map(|(i, z)| make(i, z)).collect();
    let mut expected = input.clone();
    expected.sort_by(T::compare);
    let mut group = sorts(criterion, name, n);
    type Way<T> = fn(&mut [T]) -> bool;
    let ways: [(&str, Way<T>); 5] = [
        ("parascan", |keys| sort::<T>().run_in_place(keys).is_ok()),
        ("rdst", T::rdst),
        ("voracious", T::voracious),
        ("std_stable", |keys| {
            keys.sort_by(T::compare);
            true
        }),
        ("std_unstable", |keys| {
            keys.sort_unstable_by(T::compare);
            true
        }),
    ];
    for (way, run) in ways {
        let mut keys = input.clone();
        if run(&mut keys) {
            assert!(keys == expected, "{way} is wrong, {name}, n {n}");
            bench_sort(&mut group, way, &input, |keys| _ = run(keys));
        }
    }
}

/// Keys and numbers as two arrays. The other crates sort them packed into one integer of 64 bits.
fn sort_pairs(criterion: &mut Criterion, n: usize) {
    let name = "sort pairs u32 u32";
    let packed: Vec<u64> = noise().take(n).enumerate().map(|(i, z)| z >> 32 << 32 | i as u64).collect();
    let key = |pair: u64| (pair >> 32) as u32;
    let input: Vec<u32> = packed.iter().map(|&pair| key(pair)).collect();
    let mut expected = packed.clone();
    expected.sort_by_key(|&pair| key(pair));
    let mut values: Vec<u32> = (0..n as u32).collect();
    let mut keys = input.clone();
    let ours = |keys: &mut [u32], values: &mut [u32]| {
        sort::<u32>().run_pairs_in_place(keys, values).expect("both are equally long");
    };
    ours(&mut keys, &mut values);
    let pairs = keys.iter().zip(&values).map(|(&key, &value)| u64::from(key) << 32 | u64::from(value));
    assert!(pairs.eq(expected.iter().copied()), "parascan is wrong, {name}, n {n}");
    let mut group = sorts(criterion, name, n);
    bench_sort(&mut group, "parascan", &input, |keys| ours(keys, &mut values));
    type Way = fn(&mut [u64]);
    let others: [(&str, Way); 4] = [
        ("rdst_packed", rdst::RadixSort::radix_sort_unstable),
        ("voracious_packed", |pairs| _ = u64::voracious(pairs)),
        ("std_stable_packed", |pairs| pairs.sort_by_key(|pair| pair >> 32)),
        ("std_unstable_packed", <[u64]>::sort_unstable),
    ];
    for (way, run) in others {
        let mut pairs = packed.clone();
        run(&mut pairs);
        assert!(pairs == expected, "{way} is wrong, {name}, n {n}");
        bench_sort(&mut group, way, &packed, run);
    }
}

fn radix_sort(criterion: &mut Criterion) {
    for n in [1 << 16, 1 << 20, 1 << 25] {
        sort_keys::<u32>(criterion, "sort keys u32", n, |_, z| u32::of(z));
        sort_keys::<u64>(criterion, "sort keys u64", n, |_, z| u64::of(z));
        sort_keys::<f32>(criterion, "sort keys f32", n, |_, z| f32::of(z));
        sort_keys::<u16>(criterion, "sort keys u16", n, |_, z| u16::of(z));
        sort_keys::<u8>(criterion, "sort keys u8", n, |_, z| u8::of(z));
        sort_pairs(criterion, n);
    }
    let n = 1 << 25;
    sort_keys::<u32>(criterion, "sort keys u32 sorted", n, |i, _| i as u32 * 97);
    sort_keys::<u32>(criterion, "sort keys u32 reversed", n, |i, _| (n - i) as u32 * 97);
    sort_keys::<u32>(criterion, "sort keys u32 equal", n, |_, _| 7);
    sort_keys::<u32>(criterion, "sort keys u32 1000 distinct", n, |_, z| {
        ((z >> 20) as u32 % 1000).wrapping_mul(0x9e37_79b9)
    });
    let power = |_, z: u64| (1.0 / ((z >> 40) as f64 / 16_777_216.0 + 1e-9).powi(2)) as u32;
    sort_keys::<u32>(criterion, "sort keys u32 power law", n, power);
}

criterion_group!(benches, cpu, rows, segments, compaction, radix_sort);
criterion_main!(benches);
