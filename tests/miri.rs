//! The host calls of every primitive on a few hundred items, against naive oracles, for Miri, which
//! finds undefined behaviour. Under Miri the engine's thresholds are small enough that several
//! threads work.
//!
//! `.ci/miri` runs it twice: on one thread with the aliasing model of Tree Borrows, and on three
//! threads without one, because rayon's scopes break both of Miri's models. PARASCAN_ROUNDS sets
//! the number of rounds.

use parascan::{
    Above, Last, Max, NonZero, Operator, Sum, Within, compact, expand, offsets, pack, partition, reduce, scan, sort,
    unique,
};

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Rng(u64);
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn items<T>(&mut self, n: usize, item: impl Fn(u64) -> T) -> Vec<T> {
        (0..n).map(|_| item(self.next())).collect()
    }
}

/// Calls `check` for each length and round, on PARASCAN_THREADS threads, by default three.
fn check_all(lengths: &[usize], check: impl Fn(&mut Rng, usize) + Sync) {
    let number = |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("a number"));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(number("PARASCAN_THREADS", 3)).build().unwrap();
    pool.install(|| {
        for round in 0..number("PARASCAN_ROUNDS", 1) {
            for &n in lengths {
                check(&mut Rng((1000 * round + n) as u64), n);
            }
        }
    });
}

/// Below and above the length from which several threads work.
const LENGTHS: [usize; 4] = [0, 5, 130, 700];

fn inclusive<Op: Operator<i32, Carry = i32>>(x: &[i32]) -> Vec<i32> {
    let next = |sum: &mut Option<i32>, &item: &i32| {
        *sum = Some(sum.map_or(item, |sum| Op::combine(sum, item)));
        *sum
    };
    x.iter().scan(None, next).collect()
}

fn reversed<T: Clone>(x: &[T]) -> Vec<T> {
    x.iter().rev().cloned().collect()
}

fn scans<Op: Operator<i32, Carry = i32>>() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| bits as i32);
        let expected = inclusive::<Op>(&x);
        assert_eq!(scan::<Op, i32>().run(&x).unwrap(), expected);
        let mut output = vec![0; n];
        scan::<Op, i32>().run_into(&x, &mut output).unwrap();
        assert_eq!(output, expected);
        let mut in_place = x.clone();
        scan::<Op, i32>().run_in_place(&mut in_place).unwrap();
        assert_eq!(in_place, expected);
        let mut backwards = x.clone();
        scan::<Op, i32>().reverse().run_in_place(&mut backwards).unwrap();
        let last_first = inclusive::<Op>(&reversed(&x));
        if Op::combine(1, 2) == Op::combine(2, 1) {
            assert_eq!(backwards, reversed(&last_first));
        }
        let mut exclusive = x.clone();
        scan::<Op, i32>().exclusive_from(7).run_in_place(&mut exclusive).unwrap();
        let with_first = inclusive::<Op>(&[&[7][..], &x].concat());
        assert_eq!(exclusive, with_first[..n]);
        assert_eq!(reduce::<Op, i32>().init(7).run(&x).unwrap(), with_first[n]);
    });
}

#[test]
fn scan_by_sum() {
    scans::<Sum>();
}

#[test]
fn scan_by_max() {
    scans::<Max>();
}

#[test]
fn scan_by_an_operator_that_does_not_commute() {
    scans::<Last>();
}

#[test]
fn scan_of_floats() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| (bits % 16) as f32);
        let mut in_place = x.clone();
        scan::<Sum, f32>().exclusive().run_in_place(&mut in_place).unwrap();
        let sums = x.iter().scan(0.0, |sum, x| Some(std::mem::replace(sum, *sum + x)));
        assert_eq!(in_place, sums.collect::<Vec<f32>>());
    });
}

/// Below and above the number of panels from which tiles are not joined.
#[test]
fn columns() {
    fn check<Op: Operator<i32, Carry = i32>>() {
        check_all(&[5, 600], |rng, n| {
            for columns in [1, 9, 140] {
                let x = rng.items(n / columns * columns, |bits| bits as i32);
                let column = |x: &[i32], k: usize| x.iter().skip(k).step_by(columns).copied().collect::<Vec<_>>();
                let of = scan::<Op, i32>().columns(columns);
                let output = of.run(&x).unwrap();
                let (mut in_place, mut backwards) = (x.clone(), x.clone());
                of.exclusive_from(7).run_in_place(&mut in_place).unwrap();
                of.reverse().run_in_place(&mut backwards).unwrap();
                let totals = reduce::<Op, i32>().init(7).columns(columns).run(&x).unwrap();
                for (k, &total) in totals.iter().enumerate() {
                    let items = column(&x, k);
                    assert_eq!(column(&output, k), inclusive::<Op>(&items));
                    assert_eq!(column(&backwards, k), reversed(&inclusive::<Op>(&reversed(&items))));
                    let with_first = inclusive::<Op>(&[&[7][..], &items].concat());
                    assert_eq!(column(&in_place, k), with_first[..items.len()]);
                    assert_eq!(total, with_first[items.len()]);
                }
            }
        });
    }
    check::<Sum>();
    check::<Last>();
}

#[test]
fn scan_and_reduce_by_segment() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| bits as i32);
        for most in [2, 30, 1000] {
            let mut offsets = vec![0_u32];
            while let Some(next) =
                offsets.last().map(|&last| last + (rng.next() % most) as u32).filter(|&o| o <= n as u32)
            {
                offsets.push(next);
            }
            offsets.push(n as u32);
            let segments = || offsets.windows(2).map(|pair| &x[pair[0] as usize..pair[1] as usize]);
            let forwards: Vec<i32> = segments().flat_map(inclusive::<Last>).collect();
            let sums: Vec<i32> = segments().flat_map(inclusive::<Sum>).collect();
            let backwards = segments().flat_map(|segment| reversed(&inclusive::<Sum>(&reversed(segment))));
            let backwards: Vec<i32> = backwards.collect();
            let totals: Vec<i32> =
                segments().map(|segment| segment.iter().fold(0, |a: i32, &b| a.wrapping_add(b))).collect();
            let mut flags = vec![0; n + 1];
            offsets.iter().for_each(|&offset| flags[offset as usize] = 3);
            let mut words = vec![u64::MAX; n / 64 + 1];
            (0..n).filter(|&i| flags[i] == 0).for_each(|i| words[i / 64] &= !(1 << (i % 64)));
            let keys: Vec<[u8; 3]> = (0..n).map(|i| [offsets.partition_point(|&o| o <= i as u32) as u8; 3]).collect();

            assert_eq!(scan::<Last, i32>().segments(&offsets).run(&x).unwrap(), forwards);
            assert_eq!(scan::<Sum, i32>().heads(&flags).run(&x).unwrap(), sums);
            assert_eq!(scan::<Sum, i32>().by_key(&keys).run(&x).unwrap(), sums);
            let mut in_place = x.clone();
            scan::<Sum, i32>().head_bits(&words).reverse().run_in_place(&mut in_place).unwrap();
            assert_eq!(in_place, backwards);
            let mut in_place = x.clone();
            scan::<Sum, i32>().rows(1).exclusive_from(7).run_in_place(&mut in_place).unwrap();
            assert_eq!(in_place, vec![7; n]);
            let mut output = vec![9; totals.len() + 1];
            reduce::<Sum, i32>().segments(&offsets).run_into(&x, &mut output).unwrap();
            assert_eq!(output, [&totals[..], &[9]].concat());
            assert_eq!(reduce::<Last, i32>().rows(1).run(&x).unwrap(), x);
            let pairs = totals.iter().zip(segments()).filter(|(_, segment)| !segment.is_empty());
            let runs: Vec<i32> = pairs.map(|(&total, _)| total).collect();
            assert_eq!(reduce::<Sum, i32>().heads(&flags).run(&x).unwrap(), runs);
            assert_eq!(reduce::<Sum, i32>().head_bits(&words).run(&x).unwrap(), runs);
            let (mut of_runs, mut output, mut count) = (vec![[9; 3]; n], vec![9; n], [9]);
            let by_key = reduce::<Sum, i32>().by_key(&keys);
            by_key.run_with_keys_into(&x, &mut of_runs, &mut output, &mut count).unwrap();
            assert_eq!((&output[..runs.len()], count), (&runs[..], [runs.len() as u64]));
            let mut distinct = keys;
            distinct.dedup();
            assert_eq!(of_runs[..runs.len()], distinct);
        }
    });
}

#[test]
fn compaction() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| (bits % 100) as u32);
        let flags = rng.items(n, |bits| (bits % 3 == 0) as u8);
        let words = rng.items(n.div_ceil(64), |bits| bits);
        let high: Vec<u32> = x.iter().copied().filter(|&x| x > 50).collect();
        assert_eq!(compact::<u32>().keep(Above(50)).run(&x).unwrap(), high);
        let flagged: Vec<u32> = (0..n).filter(|&i| flags[i] != 0).map(|i| x[i]).collect();
        assert_eq!(compact::<u32>().flags(&flags).run(&x).unwrap(), flagged);
        let by_bits: Vec<u32> = (0..n).filter(|&i| words[i / 64] >> (i % 64) & 1 != 0).map(|i| x[i]).collect();
        assert_eq!(compact::<u32>().bits::<u64, _>(&words).run(&x).unwrap(), by_bits);
        let (mut in_place, mut count) = (x.clone(), [0]);
        compact::<u32>().keep(Above(50)).run_in_place(&mut in_place, &mut count).unwrap();
        assert_eq!((count, &in_place[..high.len()]), ([high.len() as u64], &high[..]));
        let payload = rng.items(n, |bits| bits as u16);
        let (mut output, mut beside) = (vec![0; n + 3], vec![0; n + 3]);
        compact::<u32>().flags(&flags).run_pairs_into(&x, &payload, &mut output, &mut beside, &mut count).unwrap();
        let moved: Vec<u16> = (0..n).filter(|&i| flags[i] != 0).map(|i| payload[i]).collect();
        assert_eq!((&output[..flagged.len()], &beside[..flagged.len()]), (&flagged[..], &moved[..]));
        let indices = compact::<u32>().keep(Above(50)).indices::<u32, _>(&x).unwrap();
        assert_eq!(indices, (0..n as u32).filter(|&i| x[i as usize] > 50).collect::<Vec<_>>());
    });
}

#[test]
fn partitions() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| (bits % 90) as i32);
        let part = |keep: &dyn Fn(i32) -> bool| x.iter().copied().filter(|&x| keep(x)).collect::<Vec<_>>();
        let (mut both, mut count) = (vec![0; n], [0]);
        partition::<i32>().keep(NonZero).run_into(&x, &mut both, &mut count).unwrap();
        assert_eq!(both, [part(&|x| x != 0), part(&|x| x == 0)].concat());
        let (mut parts, mut counts) = (vec![0; n], [0; 2]);
        let three = partition::<i32>().keep(Above(60)).then(Within(20, 60));
        three.run_into(&x, &mut parts, &mut counts).unwrap();
        let expected = [part(&|x| x > 60), part(&|x| (20..=60).contains(&x)), part(&|x| x < 20)];
        assert_eq!(parts, expected.concat());
        assert_eq!(counts, [expected[0].len() as u64, expected[1].len() as u64]);
    });
}

#[test]
fn runs_of_equal_items() {
    check_all(&LENGTHS, |rng, n| {
        let x = rng.items(n, |bits| bits % 3);
        let mut expected = x.clone();
        expected.dedup();
        assert_eq!(unique::<u64>().run(&x).unwrap(), expected);
    });
}

#[test]
fn sizes_and_segments() {
    check_all(&LENGTHS, |rng, n| {
        let sizes = rng.items(n, |bits| (bits % 6) as u32);
        let starts = offsets::<u32, u64>().with_total().run(&sizes).unwrap();
        let mut sum = 0;
        let mut expected = vec![0];
        expected.extend(sizes.iter().map(|&size| {
            sum += u64::from(size);
            sum
        }));
        assert_eq!(starts, expected);
        let owners: Vec<u32> = (0..n as u32).flat_map(|i| vec![i; sizes[i as usize] as usize]).collect();
        assert_eq!(expand::<u64>().run::<u32, _>(&starts).unwrap(), owners);

        let text = rng.items(n + 6, |bits| bits as u8);
        let begins = rng.items(n, |bits| bits % (n as u64 + 1));
        let (packed, offsets_of_packed) = pack::<u8, u64>().run(&text, &begins, &sizes).unwrap();
        let segment = |i: usize| &text[begins[i] as usize..][..sizes[i] as usize];
        assert_eq!(packed, (0..n).map(segment).collect::<Vec<_>>().concat());
        assert_eq!(offsets_of_packed, starts);

        let mut space = offsets::<u32, u32>().align(8).allocate::<u16, _>(&sizes).unwrap();
        for (i, part) in space.slices().enumerate() {
            part.fill(i as u16);
        }
        let (buffer, starts) = space.into_parts();
        for i in 0..n {
            assert_eq!(buffer[starts[i] as usize..][..sizes[i] as usize], vec![i as u16; sizes[i] as usize]);
        }
    });
}

macro_rules! sorts { ($($name:ident $key:ty;)*) => { $(
    #[test]
    fn $name() {
        check_all(&[9, 150], |rng, n| {
            let keys = rng.items(n, |bits| (bits >> 7) as $key);
            let mut expected = keys.clone();
            expected.sort_by(|a, b| a.partial_cmp(b).unwrap());
            assert_eq!(sort::<$key>().run(&keys).unwrap(), expected);
            let mut in_place = keys.clone();
            sort::<$key>().run_in_place(&mut in_place).unwrap();
            assert_eq!(in_place, expected);
            let (mut in_place, mut second) = (keys.clone(), keys.clone());
            sort::<$key>().run_in_place_with_buffer(&mut in_place, &mut second).unwrap();
            assert_eq!(in_place, expected);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|&a, &b| keys[a as usize].partial_cmp(&keys[b as usize]).unwrap());
            assert_eq!(sort::<$key>().indices::<u32, _>(&keys).unwrap(), order);
            let payload = rng.items(n, |bits| [bits as u8; 3]);
            let (mut in_place, mut moved) = (keys.clone(), payload.clone());
            sort::<$key>().run_pairs_in_place::<[u8; 3], _, _>(&mut in_place, &mut moved).unwrap();
            assert_eq!(in_place, expected);
            assert_eq!(moved, order.iter().map(|&i| payload[i as usize]).collect::<Vec<_>>());
            let long = rng.items(n, |bits| [bits, !bits, bits]);
            let (mut in_place, mut moved) = (keys.clone(), long.clone());
            sort::<$key>().run_pairs_in_place::<[u64; 3], _, _>(&mut in_place, &mut moved).unwrap();
            assert_eq!(in_place, expected);
            assert_eq!(moved, order.iter().map(|&i| long[i as usize]).collect::<Vec<_>>());
            expected.reverse();
            assert_eq!(sort::<$key>().descending().run(&keys).unwrap(), expected);
        });
    }
)* } }
sorts! {
    sort_of_bytes u8;
    sort_of_short_integers i16;
    sort_of_integers u32;
    sort_of_floats f32;
    sort_of_long_integers u64;
}

#[test]
fn sort_by_segment() {
    check_all(&[9, 150], |rng, n| {
        let keys = rng.items(n, |bits| (bits >> 50) as u32 % 40);
        let payload = rng.items(n, |bits| [bits as u8; 3]);
        let mut offsets = rng.items(5, |bits| (bits % (n as u64 + 1)) as u32);
        offsets.extend([0, n as u32]);
        offsets.sort_unstable();
        let segments = || offsets.windows(2).map(|pair| pair[0] as usize..pair[1] as usize);
        let mut order: Vec<u32> = (0..n as u32).collect();
        segments().for_each(|segment| order[segment].sort_by_key(|&i| keys[i as usize]));
        let local = segments()
            .flat_map(|segment| order[segment.clone()].iter().map(move |&i| u64::from(i) - segment.start as u64));
        let expected: Vec<u32> = order.iter().map(|&i| keys[i as usize]).collect();
        let moved: Vec<[u8; 3]> = order.iter().map(|&i| payload[i as usize]).collect();
        let sorted = || sort::<u32>().segments::<u32, _>(&offsets);
        assert_eq!(sorted().indices::<u32, _>(&keys).unwrap(), order);
        assert_eq!(sorted().local_indices::<u64, _>(&keys).unwrap(), local.collect::<Vec<_>>());
        assert_eq!(sorted().run_pairs::<[u8; 3], _, _>(&keys, &payload).unwrap(), (expected.clone(), moved));
        let long = rng.items(n, |bits| [bits, !bits, bits]);
        let moved: Vec<[u64; 3]> = order.iter().map(|&i| long[i as usize]).collect();
        assert_eq!(sorted().run_pairs::<[u64; 3], _, _>(&keys, &long).unwrap(), (expected.clone(), moved));
        let mut in_place = keys.clone();
        sorted().run_in_place(&mut in_place).unwrap();
        assert_eq!(in_place, expected);
    });
}
