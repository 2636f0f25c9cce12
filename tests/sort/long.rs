//! Sort on the device of more keys than ordinary buckets hold, than a launch of a pass takes, and
//! than 32 bits count. All cores make and check the keys, since a sort on the host would take
//! minutes.

use super::*;
use std::ops::Range as Span;
use std::thread;

/// Calls `f` for each thread's range of `0..n`.
fn parts<R: Send>(n: usize, f: impl Fn(Span<usize>) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let part = n.div_ceil(threads).max(1);
    thread::scope(|scope| {
        let f = &f;
        let handles: Vec<_> =
            (0..n).step_by(part).map(|begin| scope.spawn(move || f(begin..n.min(begin + part)))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

/// `n` items by their indices, written by all cores at once.
fn made<T: Pod + Send>(n: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut all = bytemuck::zeroed_vec::<T>(n);
    let part = n.div_ceil(thread::available_parallelism().map_or(1, |threads| threads.get())).max(1);
    thread::scope(|scope| {
        for (k, chunk) in all.chunks_mut(part).enumerate() {
            let f = &f;
            scope.spawn(move || chunk.iter_mut().enumerate().for_each(|(i, item)| *item = f(k * part + i)));
        }
    });
    all
}

/// Copies to host memory that all cores have touched, which takes a fraction of the time.
fn fetched<T: Pod + DeviceRepr + Send>(stream: &Arc<CudaStream>, from: &CudaSlice<T>) -> Vec<T> {
    let mut to = made(from.len(), |_| T::zeroed());
    stream.memcpy_dtoh(from, &mut to).unwrap();
    stream.synchronize().unwrap();
    to
}

#[track_caller]
fn all(n: usize, what: &dyn Debug, f: impl Fn(usize) -> bool + Sync) {
    let wrong = parts(n, |mut part| part.find(|&i| !f(i))).into_iter().flatten().next();
    assert_eq!(wrong, None, "{what:?}");
}

/// A random word for each index (SplitMix64's finalizer).
fn word(seed: u64, i: usize) -> u64 {
    let x = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A payload that holds the source index.
trait Numbered: Pod + DeviceRepr + PartialEq + Debug + Send + Sync {
    fn of(number: usize) -> Self;
    fn number(self) -> usize;
}
macro_rules! numbered { ($($t:ident)*) => { $(
    impl Numbered for $t {
        fn of(number: usize) -> $t { number as $t | ($t::from(!(number as u32)) << (8 * size_of::<$t>() - 32) & !$t::from(u32::MAX)) }
        fn number(self) -> usize { self as u32 as usize }
    }
)* } }
numbered! { u32 u64 u128 }

/// Sorts keys with a payload in place, source indices, and keys-only. The result is the stable
/// order if keys do not descend, if source indices ascend among equal keys, and if each key is the
/// one at its source index. Then no item occurs twice.
fn sorts<K: Key + Sync, V: Numbered>(what: &str, n: usize, descending: bool, bits: impl Fn(u64) -> u64 + Sync) {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let seed = Rng::new().next();
    let what = (what, std::any::type_name::<(K, V)>(), n, seed);
    let builder = || How { descending, bits: None }.builder::<K>();
    let keys: Vec<K> = made(n, |i| K::from_bits(bits(word(seed, i))));
    let input = stream.clone_htod(&keys).unwrap();
    let (mut data, mut beside) = (input.clone(), stream.clone_htod(&made(n, V::of)).unwrap());
    builder().run_pairs_in_place::<V, _, _>(&mut data, &mut beside).unwrap();
    let (sorted, moved) = (fetched(&stream, &data), fetched(&stream, &beside));
    drop((data, beside));
    let order = |a: K, b: K| if descending { b.order(a) } else { a.order(b) };
    all(n, &("with a payload", what), |j| {
        let number = moved[j].number();
        number < n
            && V::of(number) == moved[j]
            && keys[number].bits() == sorted[j].bits()
            && (j == 0 || order(sorted[j - 1], sorted[j]).then(moved[j - 1].number().cmp(&number)) == Ordering::Less)
    });
    let indices = fetched(&stream, &builder().indices::<u32, _>(&input).unwrap());
    all(n, &("indices", what), |j| indices[j] as usize == moved[j].number());
    drop((indices, moved));
    let keys_only = fetched(&stream, &builder().run(&input).unwrap());
    all(n, &("keys", what), |j| keys_only[j].bits() == sorted[j].bits());
}

fn power_law(width: u32) -> impl Fn(u64) -> u64 {
    move |x| (x >> (64 - width)) >> (x % u64::from(width))
}

/// Large buckets, whose block has a multiprocessor to itself: by bits, by range, by equal-depth
/// intervals, some of them wide. Also a bucket whose bins do not separate its keys.
#[test]
fn by_large_buckets() {
    let n = 314_000_000 + Rng::new().below(100_000);
    sorts::<u32, u32>("random", n, false, |x| x >> 32);
    sorts::<i32, u32>("a range", n, true, |x| (3 << 28) + (x >> 37));
    sorts::<u32, u32>("few below", n, true, |x| x >> 32 & !0xffff | [0, 1, 0xffff][x as usize % 3]);
    sorts::<u32, u32>("a power law", n, false, power_law(32));
    sorts::<f32, u64>("any", n, false, |x| x >> 32);
    sorts::<u32, u32>("one key often", n, false, |x| if x % 2048 == 0 { 0x0123_4567 } else { x >> 32 });
}
#[test]
fn wide_by_large_buckets() {
    let n = 314_000_000 + Rng::new().below(100_000);
    sorts::<u64, u32>("random", n, true, |x| x);
    // Passes over the keys that buckets leave: one round each, where all keys would take several.
    let near = |x: u64| 0x0123_4567_89ab_cdef ^ (x >> 30 & 0xffff);
    sorts::<u64, u32>("neighbours often", n, true, |x| if x % 2048 == 0 { near(x) } else { x });
    sorts::<i64, u32>("a power law", n, false, power_law(64));
    sorts::<i64, u64>("a power law", n / 7 * 4, true, power_law(64));
}

/// The number and the sum of the keys of each upper half: a wrong key would change one of them.
fn account(keys: &[u32]) -> Vec<(u64, u64)> {
    let of_parts = parts(keys.len(), |part| {
        let mut account = vec![(0, 0); 1 << 16];
        for &key in &keys[part] {
            let (count, sum) = &mut account[key as usize >> 16];
            (*count, *sum) = (*count + 1, *sum + u64::from(key));
        }
        account
    });
    let add =
        |a: Vec<(u64, u64)>, b: Vec<(u64, u64)>| a.into_iter().zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect();
    of_parts.into_iter().reduce(add).unwrap_or_default()
}

/// Lengths of large buckets with two values and the keys between them. In place, more keys than
/// large buckets hold: random keys and few values.
#[test]
fn hundreds_of_millions() {
    sorts::<u32, u32>("three values", 369_100_000, false, |x| [7, 1 << 20, u64::from(u32::MAX)][x as usize % 3]);
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let n = 1_150_000_000 + Rng::new().below(100_000);
    let seed = Rng::new().next();
    let any: fn(u64) -> u32 = |x| (x >> 32) as u32;
    for (what, value) in [("any", any), ("a hundred values", |x| (x % 100) as u32 * 0x0123_4567)] {
        let keys = made(n, |i| value(word(seed, i)));
        let expected = account(&keys);
        let mut data = stream.clone_htod(&keys).unwrap();
        drop(keys);
        sort::<u32>().run_in_place(&mut data).unwrap();
        let got = fetched(&stream, &data);
        all(n - 1, &(what, n, seed), |i| got[i] <= got[i + 1]);
        assert!(account(&got) == expected, "{what}, {n}, {seed}");
    }
}

/// Keys of two bytes, which are counted.
#[test]
fn hundreds_of_millions_of_two_bytes() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let n = 369_100_000 + Rng::new().below(100_000);
    let seed = Rng::new().next();
    let keys: Vec<u16> = made(n, |i| word(seed, i) as u16);
    let mut counts = vec![0_usize; 1 << 16];
    for &key in &keys {
        counts[usize::from(key)] += 1;
    }
    let mut x = stream.clone_htod(&keys).unwrap();
    drop(keys);
    sort::<u16>().run_in_place(&mut x).unwrap();
    let got = fetched(&stream, &x);
    let mut at = 0;
    for (key, count) in counts.into_iter().enumerate() {
        assert!(got[at..at + count].iter().all(|&x| usize::from(x) == key), "{key}");
        at += count;
    }
    let error = sort::<u16>().run_into(&x, &mut stream.alloc_zeros::<u16>(1).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
}

/// More pairs than a look-back word counts, so each pass takes several rounds. Every key occurs once
/// in any 2^16 consecutive ones, so the position of each pair is known.
#[test]
fn pairs_round_by_round() {
    const BLOCK: usize = 1 << 16;
    const FACTOR: u16 = 0x9e35; // odd
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let n = (1 << 31) + 12_345 + Rng::new().below(10_000);
    let seed = Rng::new().next();
    let mask = |block: usize| word(seed, block) as u16;
    let value = |i: usize| (word(!seed, i) >> 7) as u8;
    let mut inverse = 1_u16;
    for _ in 0..4 {
        // Newton's iteration.
        inverse = inverse.wrapping_mul(2_u16.wrapping_sub(FACTOR.wrapping_mul(inverse)));
    }
    assert_eq!(FACTOR.wrapping_mul(inverse), 1);
    let mut data = stream.clone_htod(&made(n, |i| (i as u16).wrapping_mul(FACTOR) ^ mask(i / BLOCK))).unwrap();
    let mut beside = stream.clone_htod(&made(n, value)).unwrap();
    sort::<u16>().run_pairs_in_place::<u8, _, _>(&mut data, &mut beside).unwrap();
    let (sorted, moved) = (fetched(&stream, &data), fetched(&stream, &beside));
    // The last block has only its first keys.
    let number = |key: u16, block: usize| block * BLOCK + usize::from((key ^ mask(block)).wrapping_mul(inverse));
    let count = |key: u16| n / BLOCK + usize::from(number(key, n / BLOCK) < n);
    let mut begins = vec![0];
    for key in 0..=u16::MAX {
        begins.push(begins[usize::from(key)] + count(key));
    }
    all(n, &seed, |j| {
        let key = sorted[j];
        let before = begins[usize::from(key)];
        before <= j && j < begins[usize::from(key) + 1] && moved[j] == value(number(key, j - before))
    });
}

/// More than 2^32 keys: of one byte, which are counted, and of four, which take several rounds a pass.
#[test]
fn past_32_bits() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let n = (1_usize << 32) + 12_345 + Rng::new().below(10_000);
    let seed = Rng::new().next();
    let bytes: Vec<u8> = made(n, |i| word(seed, i) as u8);
    let count = |of: &[u8]| {
        let mut counts = [0_usize; 256];
        of.iter().for_each(|&key| counts[usize::from(key)] += 1);
        counts
    };
    let add = |a: [usize; 256], b: [usize; 256]| std::array::from_fn(|key| a[key] + b[key]);
    let counts = parts(n, |part| count(&bytes[part])).into_iter().reduce(add).unwrap();
    let input = stream.clone_htod(&bytes).unwrap();
    let got = fetched(&stream, &sort::<u8>().run(&input).unwrap());
    drop((input, bytes));
    let mut at = 0;
    for (key, count) in counts.into_iter().enumerate() {
        all(count, &(key, seed), |i| usize::from(got[at + i]) == key);
        at += count;
    }
    drop(got);

    let words: Vec<u32> = made(n, |i| word(!seed, i) as u32);
    let mut data = stream.clone_htod(&words).unwrap();
    let expected = account(&words);
    drop(words);
    sort::<u32>().run_in_place(&mut data).unwrap();
    let got = fetched(&stream, &data);
    all(n - 1, &seed, |i| got[i] <= got[i + 1]);
    assert!(account(&got) == expected);
}
