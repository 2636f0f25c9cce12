//! Numbers of items that lie in memory, on both engines: whatever lies beyond them is neither read nor
//! written.

use crate::common::keys::{Key, Pattern, keys};
use crate::common::process::is_alone;
use crate::common::{Draw, Options, Rng, Sample, any, assert_same, context, data, oracle, stream};
use crate::common::{builder, options};
use parascan::cudarc::driver::CudaStream;
use parascan::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use parascan::operators::{Compose, Transitions};
use parascan::{
    Above, Below, Block, Equal, Error, Index, Last, Max, NonZero, Operator, Predicate, Size, Strategy, Sum, Workspace,
    compact, offsets, partition, reduce, scan, sort, unique,
};
use std::sync::Arc;

mod select;
mod sort;

/// Where a call runs: on the host, or on the device of a stream.
type Site<'s> = Option<&'s Arc<CudaStream>>;

/// Numbers that a memory of `most` items may be said to have.
fn counts(rng: &mut Rng, most: usize) -> [u64; 7] {
    let most = most as u64;
    [0, 1, rng.below(most as usize + 1) as u64, most.saturating_sub(1), most, most + 1, u64::MAX]
}

/// Lengths around the borders of tiles, and on the device one of many tiles.
fn lengths(rng: &mut Rng, site: Site) -> Vec<usize> {
    let mut all = vec![1, 2, 33, 255, 3071, 3072, 3073, 12_288, 12_289, 100_000];
    all.extend(site.map(|_| (1 << 22) + rng.below(1000)));
    all
}

fn upto(count: u64, most: usize) -> usize {
    most.min(usize::try_from(count).unwrap_or(usize::MAX))
}

fn check_scan<Op: Operator<T>, T: Sample>(site: Site) {
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    for most in lengths(&mut rng, site) {
        let (x, old): (Vec<T>, Vec<T>) = (data(&mut rng, draw, most), data(&mut rng, draw, most));
        for count in counts(&mut rng, most) {
            let all = options::<Op, T>(&mut rng, draw);
            let options: Options<T> = all[rng.below(all.len())];
            let n = upto(count, most);
            let result = oracle::<Op, T>(&x[..n], options);
            let scan = builder::<Op, T>(options);
            let (into, in_place) = match site {
                None => {
                    let (mut into, mut in_place) = (old.clone(), x.clone());
                    scan.len(&[count]).run_into(&x, &mut into).unwrap();
                    scan.len(&vec![count, 7]).run_in_place(&mut in_place).unwrap();
                    (into, in_place)
                }
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    let (from, mut into) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&old).unwrap());
                    let mut in_place = from.clone();
                    let count = stream.clone_htod(&[count]).unwrap();
                    scan.len(&count).run_into(&from, &mut into).unwrap();
                    scan.on(stream).len(&count).run_in_place(&mut in_place).unwrap();
                    (stream.clone_dtoh(&into).unwrap(), stream.clone_dtoh(&in_place).unwrap())
                }
            };
            let what = (options, count, most);
            assert_same(&into, &[&result, &old[n..]].concat(), &what);
            assert_same(&in_place, &[&result, &x[n..]].concat(), &("in place", what));
        }
    }
}

fn check_reduce<Op: Operator<T>, T: Sample>(site: Site) {
    let mut rng = Rng::new();
    let draw = Draw::exact_for::<Op, T>();
    for most in lengths(&mut rng, site) {
        let x: Vec<T> = data(&mut rng, draw, most);
        for count in counts(&mut rng, most) {
            let init = (Op::IDENTITY.is_none() || rng.below(2) == 0).then(|| T::draw(&mut rng, draw, 1));
            let items = x[..upto(count, most)].iter().map(|&x| Op::lift(x));
            let expected = init.map(Op::lift).into_iter().chain(items).reduce(Op::combine).or(Op::IDENTITY);
            let reduce = reduce::<Op, T>();
            let reduce = init.map_or(reduce, |init| reduce.init(init));
            let mut results = vec![x[0]; 2];
            match site {
                None => {
                    results[0] = reduce.len(&[count]).run(&x).unwrap();
                    reduce.len(&[count]).run_into(&x, &mut results[1..]).unwrap();
                }
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    let (from, mut to) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&results).unwrap());
                    let count = stream.clone_htod(&[count]).unwrap();
                    results[0] = reduce.len(&count).run(&from).unwrap();
                    reduce.len(&count).run_into(&from, &mut to).unwrap();
                    results[1] = stream.clone_dtoh(&to).unwrap()[0];
                }
            }
            let expected = Op::lower(expected.expect("an identity or an initial value"));
            assert_same(&results, &[expected; 2], &(init, count, most));
        }
    }
}

/// Checks a compaction, its indices, what it appends, and unique.
fn check_compact(site: Site) {
    let mut rng = Rng::new();
    for most in lengths(&mut rng, site) {
        let x: Vec<u32> = (0..most).map(|_| rng.below(3) as u32).collect();
        let flags: Vec<u8> = (0..most).map(|_| rng.below(2) as u8).collect();
        for count in counts(&mut rng, most) {
            let n = upto(count, most);
            let kept: Vec<u32> = x[..n].iter().copied().filter(|&x| x != 0).collect();
            let flagged: Vec<u32> = (0..n as u32).filter(|&i| flags[i as usize] != 0).collect();
            let mut runs = x[..n].to_vec();
            runs.dedup();
            let appended = [&[9, 9], &kept[..]].concat();
            let (old, mut found) = (vec![8; most + 2], vec![9; most + 2]);
            let (mut old_count, mut found_count) = ([5], [2]);
            let got = match site {
                None => {
                    let length = [count];
                    let keep = compact::<u32>().keep(NonZero).len(&length);
                    keep.append().run_into(&x, &mut found, &mut found_count).unwrap();
                    let mut into = old.clone();
                    compact::<u32>().keep(NonZero).len(&length).run_into(&x, &mut into, &mut old_count).unwrap();
                    [
                        compact::<u32>().keep(NonZero).len(&length).run(&x).unwrap(),
                        compact::<u32>().flags(&flags).len(&length).indices(&x).unwrap(),
                        unique::<u32>().len(&length).run(&x).unwrap(),
                        into,
                    ]
                }
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    let put = |x: &[u32]| stream.clone_htod(x).unwrap();
                    let get = |x| stream.clone_dtoh(&x).unwrap();
                    let (from, flags) = (put(&x), stream.clone_htod(&flags).unwrap());
                    let length = stream.clone_htod(&[count]).unwrap();
                    let (mut to, mut to_count) = (put(&found), stream.clone_htod(&found_count).unwrap());
                    let keep = compact::<u32>().keep(NonZero).len(&length);
                    keep.append().run_into(&from, &mut to, &mut to_count).unwrap();
                    (found, found_count) = (get(to), [stream.clone_dtoh(&to_count).unwrap()[0]]);
                    let (mut into, mut into_count) = (put(&old), stream.clone_htod(&old_count).unwrap());
                    compact::<u32>().keep(NonZero).len(&length).run_into(&from, &mut into, &mut into_count).unwrap();
                    old_count = [stream.clone_dtoh(&into_count).unwrap()[0]];
                    [
                        get(compact::<u32>().keep(NonZero).len(&length).run(&from).unwrap()),
                        get(compact::<u32>().flags(&flags).len(&length).indices(&from).unwrap()),
                        get(unique::<u32>().len(&length).run(&from).unwrap()),
                        get(into),
                    ]
                }
            };
            let what = (count, most);
            assert_same(&got[0], &kept, &("compact", what));
            assert_same(&got[1], &flagged, &("indices", what));
            assert_same(&got[2], &runs, &("unique", what));
            assert_same(&got[3], &[&kept, &old[kept.len()..]].concat(), &("into", what));
            assert_same(&found[..appended.len()], &appended, &("append", what));
            assert!(found[appended.len()..].iter().all(|&x| x == 9), "{what:?}");
            assert_eq!((old_count[0], found_count[0]), (kept.len() as u64, appended.len() as u64), "{what:?}");
        }
    }
}

/// Checks partitions into two and three parts, each into one buffer and into a buffer a part.
fn check_partition<T: Sample + From<u8>>(site: Site)
where
    Below<T>: Predicate<T>,
    Equal<T>: Predicate<T>,
{
    let mut rng = Rng::new();
    let [low, middle] = [1, 2].map(T::from);
    for most in lengths(&mut rng, site) {
        let digits: Vec<u8> = (0..most).map(|_| rng.below(4) as u8).collect();
        let (x, old): (Vec<T>, _) = (digits.iter().map(|&digit| T::from(digit)).collect(), vec![T::from(9); most]);
        for count in counts(&mut rng, most) {
            let n = upto(count, most);
            let part = |of: &dyn Fn(u8) -> bool| -> Vec<T> {
                digits[..n].iter().filter(|&&digit| of(digit)).map(|&digit| T::from(digit)).collect()
            };
            let parts = [part(&|x| x < 1), part(&|x| x == 2), part(&|x| x == 1 || x == 3)];
            let rejected = part(&|x| x >= 1);
            let apart = |part: &[T]| [part, &old[part.len()..]].concat();
            let expected = [
                [&parts[0][..], &rejected, &old[n..]].concat(),
                apart(&parts[0]),
                apart(&rejected),
                [&parts[0][..], &parts[1], &parts[2], &old[n..]].concat(),
                apart(&parts[0]),
                apart(&parts[1]),
                apart(&parts[2]),
            ];
            // The outputs of all calls. `$put` makes memory, and `$get` reads it.
            macro_rules! run_all {
                ($put:expr, $get:expr) => {{
                    let length = $put(&[count][..]);
                    let from = $put(&x[..]);
                    let mut outputs = [0; 7].map(|_| $put(&old[..]));
                    let mut counts = [0; 4].map(|_| $put(&[7_u64; 2][..]));
                    let [both, selected, rejected, three, first, second, rest] = &mut outputs;
                    let two_parts = partition::<T>().keep(Below(low));
                    let three_parts = two_parts.then(Equal(middle));
                    let (two_parts, three_parts) = (two_parts.len(&length), three_parts.len(&length));
                    two_parts.run_into(&from, both, &mut counts[0]).unwrap();
                    two_parts.run_apart_into(&from, selected, rejected, &mut counts[1]).unwrap();
                    three_parts.run_into(&from, three, &mut counts[2]).unwrap();
                    three_parts.run_apart_into(&from, first, second, rest, &mut counts[3]).unwrap();
                    (outputs.map($get), counts.map($get))
                }};
            }
            let (got, found) = match site {
                None => run_all!(<[_]>::to_vec, std::convert::identity),
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    run_all!(|x| stream.clone_htod(x).unwrap(), |x| stream.clone_dtoh(&x).unwrap())
                }
            };
            for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_same(got, expected, &(k, count, most));
            }
            let lengths = [parts[0].len() as u64, parts[1].len() as u64];
            let two = [lengths[0], 7];
            assert_eq!(found.map(|counts| [counts[0], counts[1]]), [two, two, lengths, lengths], "{:?}", (count, most));
        }
    }
}

fn check_offsets<S: Size + Sample + From<u8>, O: Index + Sample + TryFrom<u64>>(site: Site) {
    let mut rng = Rng::new();
    for most in lengths(&mut rng, site) {
        let bytes: Vec<u8> = any(&mut rng, most);
        let sizes: Vec<S> = bytes.iter().map(|&size| S::from(size)).collect();
        let old: Vec<O> = any(&mut rng, most + 1);
        for count in counts(&mut rng, most) {
            let n = upto(count, most);
            let mut ends = vec![0];
            ends.extend(bytes[..n].iter().scan(0, |end, &size| {
                *end += u64::from(size).next_multiple_of(8);
                Some(*end)
            }));
            let starts: Vec<O> = ends.iter().map(|&end| O::try_from(end).ok().expect("a small total")).collect();
            let offsets = offsets::<S, O>().align(8).with_total();
            let (mut got, mut total) = (old.clone(), [7]);
            match site {
                None => offsets.len(&[count]).run_into(&sizes, &mut got, &mut total).unwrap(),
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    let (from, mut to) = (stream.clone_htod(&sizes).unwrap(), stream.clone_htod(&old).unwrap());
                    let (count, mut sum) = (stream.clone_htod(&[count]).unwrap(), stream.clone_htod(&total).unwrap());
                    offsets.len(&count).run_into(&from, &mut to, &mut sum).unwrap();
                    (got, total) = (stream.clone_dtoh(&to).unwrap(), [stream.clone_dtoh(&sum).unwrap()[0]]);
                }
            }
            assert_same(&got, &[&starts, &old[n + 1..]].concat(), &(count, most));
            assert_eq!(total, [ends[n]], "{:?}", (count, most));
        }
    }
}

/// Checks sorts: keys-only, with a payload, source indices, and in place.
fn check_sort<K: Key + Sample>(site: Site) {
    let mut rng = Rng::new();
    let mut all = lengths(&mut rng, site);
    if site.is_some() {
        all.extend([4096, 5632, 300_000, 1_100_000, (1 << 24) + rng.below(1000)]);
    }
    for (k, most) in all.into_iter().enumerate() {
        let pattern = [Pattern::Random, Pattern::PowerLaw, Pattern::MostlyFew, Pattern::Special][k % 4];
        let x: Vec<K> = keys(&mut rng, pattern, most);
        let payload: Vec<u32> = any(&mut rng, most);
        let old = vec![x[0]; most];
        for count in counts(&mut rng, most) {
            let n = upto(count, most);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|&a, &b| x[a as usize].order(x[b as usize]));
            let sorted: Vec<K> = order.iter().map(|&i| x[i as usize]).collect();
            let moved: Vec<u32> = order.iter().map(|&i| payload[i as usize]).collect();
            let (into, in_place, [moved_to, indices]) = match site {
                None => {
                    let (mut into, mut in_place, mut both) = (old.clone(), x.clone(), x.clone());
                    let (mut beside, mut indices) = (payload.clone(), payload.clone());
                    sort::<K>().len(&[count]).run_into(&x, &mut into).unwrap();
                    sort::<K>().len(&[count]).run_in_place(&mut in_place).unwrap();
                    let (mut with_buffer, mut buffer) = (x.clone(), x.clone());
                    sort::<K>().len(&[count]).run_in_place_with_buffer(&mut with_buffer, &mut buffer).unwrap();
                    assert_same(&with_buffer, &in_place, &("with a buffer", count, most));
                    sort::<K>().len(&[count]).run_pairs_in_place(&mut both, &mut beside).unwrap();
                    sort::<K>().len(&[count]).indices_into(&x, &mut indices).unwrap();
                    assert_same(&both, &in_place, &("with a payload", count, most));
                    (into, in_place, [beside, indices])
                }
                Some(stream) => {
                    let stream = or_skip!(Some(stream));
                    let (from, mut into) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&old).unwrap());
                    let (mut in_place, mut both) = (from.clone(), from.clone());
                    let count = stream.clone_htod(&[count]).unwrap();
                    let mut beside = stream.clone_htod(&payload).unwrap();
                    let mut indices = beside.clone();
                    sort::<K>().len(&count).run_into(&from, &mut into).unwrap();
                    sort::<K>().len(&count).run_in_place(&mut in_place).unwrap();
                    let (mut with_buffer, mut buffer) = (from.clone(), from.clone());
                    sort::<K>().len(&count).run_in_place_with_buffer(&mut with_buffer, &mut buffer).unwrap();
                    let with_buffer = stream.clone_dtoh(&with_buffer).unwrap();
                    sort::<K>().len(&count).run_pairs_in_place(&mut both, &mut beside).unwrap();
                    sort::<K>().len(&count).indices_into(&from, &mut indices).unwrap();
                    let [into, in_place, both] = [into, in_place, both].map(|x| stream.clone_dtoh(&x).unwrap());
                    assert_same(&both, &in_place, &("with a payload", n, most));
                    assert_same(&with_buffer, &in_place, &("with a buffer", n, most));
                    (into, in_place, [beside, indices].map(|x| stream.clone_dtoh(&x).unwrap()))
                }
            };
            let what = (pattern, count, most);
            assert_same(&into, &[&sorted, &old[n..]].concat(), &what);
            assert_same(&in_place, &[&sorted, &x[n..]].concat(), &("in place", what));
            assert_same(&moved_to, &[&moved, &payload[n..]].concat(), &("the payload", what));
            assert_same(&indices, &[&order, &payload[n..]].concat(), &("indices", what));
        }
    }
}

macro_rules! suite {
    ($($engine:ident $site:expr;)*) => { $(
        mod $engine {
            use super::*;
            #[test]
            fn scans() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_scan::<Sum, u32>(site);
                    check_scan::<Sum, f32>(site);
                    check_scan::<Max, half::f16>(site);
                    check_scan::<Last, u8>(site);
                    check_scan::<Compose, Transitions>(site);
                }
            }
            #[test]
            fn reductions() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_reduce::<Sum, u64>(site);
                    check_reduce::<Sum, f32>(site);
                    check_reduce::<Max, u8>(site);
                    check_reduce::<Last, i16>(site);
                    check_reduce::<Compose, Transitions>(site);
                }
            }
            #[test]
            fn compactions() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_compact(site);
                }
            }
            #[test]
            fn partitions() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_partition::<u8>(site);
                    check_partition::<u32>(site);
                    check_partition::<f64>(site);
                }
            }
            #[test]
            fn sorts() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_sort::<u8>(site);
                    check_sort::<i16>(site);
                    check_sort::<u32>(site);
                    check_sort::<f64>(site);
                }
            }
            #[test]
            fn offsets() {
                let stream = $site;
                for site in stream.iter().map(Option::as_ref) {
                    check_offsets::<u8, u32>(site);
                    check_offsets::<u32, u64>(site);
                    check_offsets::<u64, u32>(site);
                }
            }
        }
    )* };
}
suite! {
    host Some(None::<Arc<CudaStream>>);
    device stream().map(Some);
}

/// A short walk for the sanitizers.
#[test]
fn sanitize() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let x: Vec<u32> = any(&mut rng, 40_000);
    for count in [0, 1, 20_000, 40_000, 50_000] {
        let (from, count) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&[count]).unwrap());
        let (mut sums, mut kept) = (from.clone(), from.clone());
        let mut kept_count = stream.alloc_zeros::<u64>(1).unwrap();
        scan::<Sum, u32>().len(&count).run_in_place(&mut sums).unwrap();
        reduce::<Sum, u32>().len(&count).run(&from).unwrap();
        compact::<u32>().keep(Above(1 << 31)).len(&count).run_into(&from, &mut kept, &mut kept_count).unwrap();
        partition::<u32>().keep(Above(1 << 31)).len(&count).run_into(&from, &mut kept, &mut kept_count).unwrap();
        offsets::<u32, u32>().len(&count).run_into(&from, &mut kept, &mut kept_count).unwrap();
        sort::<u32>().len(&count).run_pairs_in_place(&mut sums, &mut kept).unwrap();
        sort::<u32>().len(&count).run_in_place(&mut sums).unwrap();
    }
}

/// Scans of more tiles than the device runs blocks, one after the other in one memory: whatever the number is, the words
/// are in order for the next.
#[test]
fn more_tiles_than_blocks() {
    let stream = or_skip!(stream());
    let (mut rng, mut workspace) = (Rng::new(), Workspace::new(&stream));
    for most in [6 << 20, 20 << 20].map(|most| most + rng.below(1000)) {
        let x: Vec<u32> = any(&mut rng, most);
        let mut ends = vec![0_u32];
        while (ends[ends.len() - 1] as usize) < most {
            ends.push((ends[ends.len() - 1] + rng.below(200) as u32).min(most as u32));
        }
        let (from, mut into) = (stream.clone_htod(&x).unwrap(), stream.alloc_zeros::<u32>(most).unwrap());
        let offsets = stream.clone_htod(&ends).unwrap();
        let few = most / 64;
        for n in [most, rng.below(most), 1, few, most - 1, 0, few, most] {
            let count = stream.clone_htod(&[n as u64]).unwrap();
            let mut sums = x[..n].to_vec();
            (1..n).for_each(|i| sums[i] = sums[i].wrapping_add(sums[i - 1]));
            scan::<Sum, u32>().workspace(&mut workspace).len(&count).run_into(&from, &mut into).unwrap();
            assert_same(&stream.clone_dtoh(&into).unwrap()[..n], &sums, &(n, most));

            let before = |i: u32| if i == 0 { 0 } else { sums[i as usize - 1] };
            let mut by_segment = sums.clone();
            for pair in ends.windows(2).take_while(|pair| (pair[0] as usize) < n) {
                for i in pair[0] as usize..n.min(pair[1] as usize) {
                    by_segment[i] = sums[i].wrapping_sub(before(pair[0]));
                }
            }
            let by_offsets = scan::<Sum, u32>().segments(&offsets).workspace(&mut workspace).len(&count);
            by_offsets.run_into(&from, &mut into).unwrap();
            assert_same(&stream.clone_dtoh(&into).unwrap()[..n], &by_segment, &("by segment", n, most));
        }
    }
}

/// A chain without the host, in one graph: what a compaction has selected is scanned,
/// reduced and sorted.
#[test]
fn a_chain_in_a_graph() {
    if !is_alone(a_chain_in_a_graph) {
        return;
    }
    let context = or_skip!(context());
    // SAFETY: one stream is used, so there is nothing to track.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    let (mut rng, n) = (Rng::new(), 3_000_000);
    let mut workspace = Workspace::new(&stream);
    let zero = stream.alloc_zeros::<u64>(1).unwrap();
    compact::<u32>().keep(NonZero).prepare(n, &mut workspace).unwrap();
    scan::<Sum, u32>().len(&zero).prepare(n, &mut workspace).unwrap();
    reduce::<Max, u32>().len(&zero).prepare(n, &mut workspace).unwrap();
    sort::<u32>().len(&zero).descending().prepare(n, &mut workspace).unwrap();
    let mut x = stream.alloc_zeros::<u32>(n).unwrap();
    let (mut kept, mut sums) = (x.clone(), x.clone());
    let (mut count, mut highest) = (stream.alloc_zeros::<u64>(1).unwrap(), stream.alloc_zeros::<u32>(1).unwrap());
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
    compact::<u32>().keep(NonZero).workspace(&mut workspace).run_into(&x, &mut kept, &mut count).unwrap();
    scan::<Sum, u32>().workspace(&mut workspace).len(&count).run_into(&kept, &mut sums).unwrap();
    reduce::<Max, u32>().workspace(&mut workspace).len(&count).run_into(&kept, &mut highest).unwrap();
    let mut sorted = x.clone();
    let sort = sort::<u32>().descending().workspace(&mut workspace).len(&count);
    sort.run_into(&kept, &mut sorted).unwrap();
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().expect("a graph");
    for every in [1, 2, 3, 1000, n, 10 * n] {
        let items: Vec<u32> =
            (0..n).map(|_| if rng.below(every) == 0 { 1 + rng.below(1000) as u32 } else { 0 }).collect();
        stream.memcpy_htod(&items, &mut x).unwrap();
        graph.launch().unwrap();
        let selected: Vec<u32> = items.into_iter().filter(|&x| x != 0).collect();
        let options = Options { exclusive: false, init: None, reverse: false };
        let got = stream.clone_dtoh(&sums).unwrap();
        assert_eq!(stream.clone_dtoh(&count).unwrap(), [selected.len() as u64]);
        assert_same(&got[..selected.len()], &oracle::<Sum, u32>(&selected, options), &every);
        let mut expected = selected.clone();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(stream.clone_dtoh(&sorted).unwrap()[..selected.len()], expected, "sorted, one in {every}");
        assert_eq!(stream.clone_dtoh(&highest).unwrap(), [selected.iter().copied().max().unwrap_or(0)]);
    }
}

#[test]
fn bad_input() {
    let x = [1, 2, 3];
    let none = scan::<Sum, i32>().len::<parascan::Host, [u64]>(&[]).run(&x);
    assert!(
        matches!(none, Err(Error::Size { primitive: "scan", what: "the length", found: 0, needed: 1 })),
        "{none:?}"
    );
    let empty = reduce::<Last, i32>().len(&[0]).run(&x);
    assert!(matches!(empty, Err(Error::Empty { primitive: "reduce" })), "{empty:?}");
    let stream = or_skip!(stream());
    let (x, count) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&[2_u64]).unwrap());
    // The host does not know whether there are items.
    let empty = reduce::<Last, i32>().len(&count).run(&x);
    assert!(matches!(empty, Err(Error::Empty { primitive: "reduce" })), "{empty:?}");
    let chained = Strategy::Chained(Block::WarpShuffles);
    let refused = scan::<Sum, i32>().strategy(chained).len(&count).run(&x);
    assert!(matches!(refused, Err(Error::Strategy { primitive: "scan", .. })), "{refused:?}");
}

/// The number is a result of the launch before, which may still run when the next one begins. The totals
/// alternate, so that the number of the round before is a wrong one.
#[test]
fn a_result_of_the_scan_before() {
    let Some(stream) = stream() else { return };
    let (n, most) = (1 << 24, 1 << 20);
    let mut rng = Rng::new();
    let totals = [rng.below(1000) as u64, (most - 1 - rng.below(1000)) as u64];
    let sizes = totals.map(|total| {
        let mut sizes = vec![0_u64; n];
        sizes[rng.below(n)] = total;
        stream.clone_htod(&sizes).unwrap()
    });
    let x: Vec<u32> = any(&mut rng, most);
    let mut ends = stream.alloc_zeros::<u64>(n).unwrap();
    let mut scanned = [0; 8].map(|_| stream.clone_htod(&x).unwrap());
    let mut workspace = Workspace::new(&stream);
    scan::<Sum, u64>().prepare(n, &mut workspace).unwrap();
    for _ in 0..4 {
        scanned.iter_mut().for_each(|to| stream.memcpy_htod(&x, to).unwrap());
        stream.synchronize().unwrap();
        for (k, to) in scanned.iter_mut().enumerate() {
            scan::<Sum, u64>().workspace(&mut workspace).run_into(&sizes[k % 2], &mut ends).unwrap();
            let total = ends.slice(n - 1..n);
            scan::<Sum, u32>().workspace(&mut workspace).len(&total).run_in_place(to).unwrap();
        }
        for (k, to) in scanned.iter().enumerate() {
            let total = totals[k % 2] as usize;
            let options = Options { exclusive: false, init: None, reverse: false };
            let expected = [&oracle::<Sum, u32>(&x[..total], options), &x[total..]].concat();
            assert_same(&stream.clone_dtoh(to).unwrap(), &expected, &("of", k, total));
        }
    }
}
