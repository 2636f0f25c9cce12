//! Every operation against a plain loop, on tensors of random types, shapes and strides, on the CPU
//! and, with the feature `cuda`, on a GPU. With that feature PARASCAN_REQUIRE_GPU=1 makes a missing GPU a failure.

use candle_core::{D, DType, Device, Result, Tensor, Var, WithDType};
use half::{bf16, f16};
use parascan_candle::{
    argsort, bincount, cummax, cummax_with_indices, cumsum, masked_select, nonzero, segment_sum, sort, topk, unique,
};
use std::cmp::Ordering;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

// ---- devices, and random tensors

fn devices() -> Vec<Device> {
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "without CUDA there is one"))]
    let mut devices = vec![Device::Cpu];
    #[cfg(feature = "cuda")]
    match Device::new_cuda(0) {
        Ok(device) => devices.push(device),
        Err(e) => {
            assert_ne!(std::env::var("PARASCAN_REQUIRE_GPU").as_deref(), Ok("1"), "a GPU is required: {e}");
            // To the process's stderr, since the harness shows a test's output only if it fails.
            static SAID: std::sync::Once = std::sync::Once::new();
            let line = format!("CUDA tensors are not tested: {e}\n");
            SAID.call_once(|| drop(std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes())));
        }
    }
    devices
}

/// SplitMix64 (Steele, Lea and Flood 2014). Prints its seed when a test fails; PARASCAN_SEED repeats it.
struct Rng {
    state: u64,
    seed: u64,
}

impl Rng {
    fn new() -> Rng {
        let seed = match std::env::var("PARASCAN_SEED") {
            Ok(seed) => seed.parse().expect("PARASCAN_SEED is a number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64,
        };
        Rng { state: seed, seed }
    }
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

impl Drop for Rng {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("PARASCAN_SEED={}", self.seed);
        }
    }
}

/// An item, and the oracle's view of it.
trait Item: WithDType + Debug {
    /// Any value. Many are equal, and some NaN, infinite or -0.
    fn any(rng: &mut Rng) -> Self;
    /// A small whole number, whose sums are exact in any grouping.
    fn whole(rng: &mut Rng) -> Self;
    /// The order of a sort: NaNs, which are all the same here, are last, and -0 is less than 0.
    fn order(&self, other: &Self) -> Ordering;
    fn is_nan(&self) -> bool;
    /// A sum as parascan rounds it: integers wrap, and f16 and bf16 are rounded once.
    fn sum(items: &[Self]) -> Self;
    fn same(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

macro_rules! integers { ($($t:ident)*) => { $(
    impl Item for $t {
        fn any(rng: &mut Rng) -> $t {
            if rng.below(4) == 0 { [$t::MIN, $t::MAX, 0, 1][rng.below(4)] } else { rng.next() as $t >> rng.below($t::BITS as usize) }
        }
        fn whole(rng: &mut Rng) -> $t { rng.below(16) as $t }
        fn order(&self, other: &$t) -> Ordering { self.cmp(other) }
        fn is_nan(&self) -> bool { false }
        fn sum(items: &[$t]) -> $t { items.iter().fold(0, |sum, &x| sum.wrapping_add(x)) }
    }
)* } }
integers! { u8 u32 i64 }

macro_rules! floats { ($($t:ident)*) => { $(
    impl Item for $t {
        fn any(rng: &mut Rng) -> $t {
            $t::from_f64(match rng.below(8) {
                0 => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][rng.below(5)],
                1..4 => rng.below(9) as f64 - 4.0,
                _ => (rng.next() as i64 >> 30) as f64 / 1e8,
            })
        }
        fn whole(rng: &mut Rng) -> $t { $t::from_f64(rng.below(15) as f64 - 7.0) }
        fn order(&self, other: &$t) -> Ordering {
            let (a, b) = (self.to_f64(), other.to_f64());
            a.is_nan().cmp(&b.is_nan()).then(if a.is_nan() { Ordering::Equal } else { a.total_cmp(&b) })
        }
        fn is_nan(&self) -> bool { self.to_f64().is_nan() }
        fn sum(items: &[$t]) -> $t { $t::from_f64(items.iter().fold(0.0, |sum, x| sum + x.to_f64())) }
    }
)* } }
floats! { bf16 f16 f32 f64 }

/// Calls the function for each dtype on each device.
macro_rules! each_type {
    ($function:ident) => {
        for device in devices() {
            each_type!($function(&device) u8 u32 i64 bf16 f16 f32 f64);
        }
    };
    ($function:ident($device:expr) $($t:ident)*) => {
        $($function::<$t>($device).unwrap_or_else(|e| panic!("{} on {:?}: {e}", stringify!($t), $device));)*
    };
}

/// Shapes of one to four axes; some have one long axis, and some an axis of length one.
fn shape(rng: &mut Rng) -> Vec<usize> {
    let rank = 1 + rng.below(4);
    let mut shape: Vec<usize> = (0..rank).map(|_| 1 + rng.below(7)).collect();
    if rng.below(2) == 0 {
        let (long, most) = (rng.below(rank), [300, 9000, 70_000][rng.below(3)]);
        shape[long] = 1;
        shape[long] += rng.below(1 + most / shape.iter().product::<usize>());
    }
    shape
}

/// A tensor of a random shape, strided in one of the ways that candle makes, and its items.
fn tensor<T: Item>(rng: &mut Rng, draw: fn(&mut Rng) -> T, device: &Device) -> Result<(Tensor, Vec<T>)> {
    let shape = shape(rng);
    let items: Vec<T> = (0..shape.iter().product()).map(|_| draw(rng)).collect();
    let x = Tensor::from_vec(items, shape, device)?;
    let [a, b] = [0; 2].map(|_| rng.below(x.rank()));
    let x = match rng.below(4) {
        0 => x.transpose(a, b)?,
        1 => {
            let begin = rng.below(x.dim(a)?);
            let length = 1 + rng.below(x.dim(a)? - begin);
            x.narrow(a, begin, length)?.transpose(a, b)?
        }
        2 => x.narrow(a, 0, 1)?.broadcast_as(x.shape())?,
        _ => x,
    };
    let items = x.flatten_all()?.to_vec1()?;
    Ok((x, items))
}

/// The places in row-major order of the items of each line along an axis.
fn lines(dims: &[usize], dim: usize) -> Vec<Vec<usize>> {
    let inner: usize = dims[dim + 1..].iter().product();
    let outer: usize = dims[..dim].iter().product();
    let line = |first: usize| (0..dims[dim]).map(|i| first + i * inner).collect();
    (0..outer).flat_map(|o| (0..inner).map(move |i| o * dims[dim] * inner + i)).map(line).collect()
}

/// The results of a function of each line, in row-major order of a tensor whose axis has its length.
fn by_line<T: Copy, R: Copy + Default>(
    items: &[T],
    dims: &[usize],
    dim: usize,
    f: impl Fn(&[T]) -> Vec<R>,
) -> (Vec<usize>, Vec<R>) {
    let of_lines: Vec<Vec<R>> =
        lines(dims, dim).iter().map(|line| f(&line.iter().map(|&i| items[i]).collect::<Vec<_>>())).collect();
    let mut shape = dims.to_vec();
    shape[dim] = of_lines.first().map_or(0, Vec::len);
    let mut results = vec![R::default(); shape.iter().product()];
    for (line, result) in lines(&shape, dim).iter().zip(of_lines) {
        for (&i, result) in line.iter().zip(result) {
            results[i] = result;
        }
    }
    (shape, results)
}

#[track_caller]
fn assert_tensor<T: Item>(got: &Tensor, (shape, expected): &(Vec<usize>, Vec<T>), what: &dyn Debug) {
    assert_eq!(got.dims(), shape, "{what:?}");
    assert!(got.is_contiguous(), "{what:?}");
    let got: Vec<T> = got.flatten_all().and_then(|got| got.to_vec1()).expect("its items");
    if let Some(i) = (0..got.len()).find(|&i| !got[i].same(&expected[i])) {
        panic!("{what:?}: item {i} of {shape:?} is {:?} and should be {:?}", got[i], expected[i]);
    }
}

const ROUNDS: usize = 12;

// ---- along an axis

#[test]
fn cumulative_sums() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, items) = tensor::<T>(&mut rng, T::whole, device)?;
            let dim = rng.below(x.rank());
            let expected = by_line(&items, x.dims(), dim, |line| {
                // Sums of at most 2^20, which f32 holds.
                let mut sum = vec![];
                let mut upto = 0_i64;
                for x in line {
                    upto += x.to_f64() as i64;
                    sum.push(if T::DTYPE.is_float() { T::from_f64(upto as f64) } else { wrapped(upto) });
                }
                sum
            });
            assert_tensor(&cumsum(&x, dim)?, &expected, &(x.layout(), dim));
        }
        Ok(())
    }
    each_type!(test);
}

/// An integer modulo the range of its type.
fn wrapped<T: WithDType>(x: i64) -> T {
    match T::DTYPE {
        DType::U8 => T::from_f64(f64::from(x as u8)),
        _ => T::from_f64(x as f64),
    }
}

#[test]
fn integers_wrap() -> Result<()> {
    for device in devices() {
        let x = Tensor::new(&[i64::MAX, 1, 1], &device)?;
        assert_eq!(cumsum(&x, 0)?.to_vec1::<i64>()?, [i64::MAX, i64::MIN, i64::MIN + 1]);
        let x = Tensor::new(&[[u32::MAX], [2]], &device)?;
        assert_eq!(cumsum(&x, 0)?.to_vec2::<u32>()?, [[u32::MAX], [1]]);
    }
    Ok(())
}

#[test]
fn cumulative_maxima() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, items) = tensor::<T>(&mut rng, T::any, device)?;
            let dim = rng.below(x.rank());
            let maxima = by_line(&items, x.dims(), dim, |line| {
                let mut greatest = line[0];
                let greater = |&x: &T| {
                    greatest = if x.order(&greatest) == Ordering::Greater { x } else { greatest };
                    greatest
                };
                line.iter().map(greater).collect()
            });
            let places = by_line(&items, x.dims(), dim, |line| {
                // As torch's loop: an item that is not less than the greatest one, or NaN.
                let mut at = 0;
                let later = |i: usize| {
                    let (x, greatest) = (line[i], line[at]);
                    at = if x.is_nan() || !greatest.is_nan() && x >= greatest { i } else { at };
                    at as u32
                };
                (0..line.len()).map(later).collect::<Vec<u32>>()
            });
            let what = (x.layout(), dim);
            assert_tensor(&cummax(&x, dim)?, &maxima, &what);
            let (values, indices) = cummax_with_indices(&x, dim)?;
            assert_tensor(&values, &maxima, &what);
            assert_tensor(&indices, &places, &what);
        }
        Ok(())
    }
    each_type!(test);
}

/// The source indices of a line's sorted order, by a stable sort.
fn order_of<T: Item>(line: &[T], descending: bool) -> Vec<u32> {
    let mut order: Vec<u32> = (0..line.len() as u32).collect();
    order.sort_by(|&i, &j| {
        let order = line[i as usize].order(&line[j as usize]);
        if descending { order.reverse() } else { order }
    });
    order
}

#[test]
fn sorts() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, items) = tensor::<T>(&mut rng, T::any, device)?;
            let (dim, descending) = (rng.below(x.rank()), rng.below(2) == 0);
            let k = [0, 1, x.dim(dim)?, rng.below(x.dim(dim)? + 1)][rng.below(4)];
            let first = |k: usize| {
                let take = |line: &[T]| order_of(line, descending).into_iter().take(k).collect::<Vec<u32>>();
                let values = |line: &[T]| take(line).into_iter().map(|i| line[i as usize]).collect();
                (by_line(&items, x.dims(), dim, values), by_line(&items, x.dims(), dim, take))
            };
            let what = (x.layout(), dim, descending, k);
            let (values, indices) = first(x.dim(dim)?);
            assert_tensor(&argsort(&x, dim, descending)?, &indices, &what);
            let sorted = sort(&x, dim, descending)?;
            assert_tensor(&sorted.0, &values, &what);
            assert_tensor(&sorted.1, &indices, &what);
            let (values, indices) = first(k);
            let top = topk(&x, k, dim, descending)?;
            assert_tensor(&top.0, &values, &what);
            assert_tensor(&top.1, &indices, &what);
        }
        Ok(())
    }
    each_type!(test);
}

#[test]
fn segment_sums() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, items) = tensor::<T>(&mut rng, T::whole, device)?;
            let dim = rng.below(x.rank());
            let offsets = offsets(&mut rng, x.dim(dim)?);
            let expected = by_line(&items, x.dims(), dim, |line| {
                offsets.windows(2).map(|ends| T::sum(&line[ends[0] as usize..ends[1] as usize])).collect()
            });
            let on_device = Tensor::new(&offsets[..], device)?;
            assert_tensor(&segment_sum(&x, &on_device, dim)?, &expected, &(x.layout(), dim, &offsets));
            let i64s = on_device.to_dtype(DType::I64)?;
            assert_tensor(&segment_sum(&x, &i64s, dim)?, &expected, &(x.layout(), dim, &offsets));
        }
        Ok(())
    }
    each_type!(test);
}

/// One to forty ascending offsets up to `n`.
fn offsets(rng: &mut Rng, n: usize) -> Vec<u32> {
    let mut offsets: Vec<u32> = (0..1 + rng.below(40)).map(|_| rng.below(n + 1) as u32).collect();
    offsets.sort();
    offsets
}

// ---- of all items

#[test]
fn selections() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, items) = tensor::<T>(&mut rng, T::any, device)?;
            let zero = T::from_f64(0.0);
            let coordinates = |i: usize| {
                let axis = |d: usize| (i / x.dims()[d + 1..].iter().product::<usize>() % x.dims()[d]) as u32;
                (0..x.rank()).map(axis).collect::<Vec<u32>>()
            };
            let places: Vec<usize> = (0..items.len()).filter(|&i| items[i] != zero).collect();
            let expected = (vec![places.len(), x.rank()], places.iter().flat_map(|&i| coordinates(i)).collect());
            assert_tensor::<u32>(&nonzero(&x)?, &expected, &x.layout());

            // A mask of the shape, and one that has the last axis alone.
            let last = *x.dims().last().expect("an axis");
            for (n, shape) in [(items.len(), x.dims().to_vec()), (last, vec![last])] {
                let mask: Vec<u8> = (0..n).map(|_| if rng.below(3) == 0 { rng.next() as u8 } else { 0 }).collect();
                let selected: Vec<T> = (0..items.len()).filter(|&i| mask[i % n] != 0).map(|i| items[i]).collect();
                let mask = Tensor::from_vec(mask, shape, device)?;
                assert_tensor(&masked_select(&x, &mask)?, &(vec![selected.len()], selected), &x.layout());
            }
        }
        Ok(())
    }
    each_type!(test);
}

#[test]
fn distinct_items() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let (x, mut items) = tensor::<T>(&mut rng, T::any, device)?;
            items.sort_by(T::order);
            let (mut values, mut counts): (Vec<T>, Vec<u32>) = Default::default();
            for item in items {
                if values.last().is_some_and(|&last| last == item) {
                    *counts.last_mut().expect("as many as values") += 1;
                } else {
                    values.push(item);
                    counts.push(1);
                }
            }
            let got = unique(&x)?;
            assert_tensor(&got.0, &(vec![values.len()], values), &x.layout());
            assert_tensor(&got.1, &(vec![counts.len()], counts), &x.layout());
        }
        Ok(())
    }
    each_type!(test);
}

#[test]
fn counts_of_numbers() {
    fn test<T: Item + Default>(device: &Device) -> Result<()> {
        let mut rng = Rng::new();
        for _ in 0..ROUNDS {
            let most = [1, 16, 200][rng.below(3)] as f64;
            let (x, items) = tensor::<T>(&mut rng, T::whole, device)?;
            let numbers: Vec<usize> = items.iter().map(|x| (x.to_f64() * most / 16.0) as usize).collect();
            let x = Tensor::from_vec(numbers.iter().map(|&x| T::from_f64(x as f64)).collect(), x.dims(), device)?;
            let x = x.transpose(0, x.rank() - 1)?; // strided; the counts are the same in any order
            let min_length = [0, 5, 300][rng.below(3)];
            let mut counts = vec![0_u32; min_length.max(numbers.iter().max().expect("an item") + 1)];
            numbers.iter().for_each(|&number| counts[number] += 1);
            assert_tensor(&bincount(&x, min_length)?, &(vec![counts.len()], counts), &x.layout());
        }
        Ok(())
    }
    for device in devices() {
        each_type!(test(&device) u8 u32 i64);
    }
}

// ---- gradients

/// The gradient of `x` in the sum of the products of `f(x)` and the weights that `weigh` draws, and the
/// weights. All are whole numbers, so that sums are exact.
fn gradient(rng: &mut Rng, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<(Vec<f64>, Vec<f64>)> {
    let x = Var::from_tensor(x)?;
    // A view of the variable, as a model would hand it on.
    let y = f(&(x.as_tensor() * 1.0)?)?;
    let weights: Vec<f64> = (0..y.elem_count()).map(|_| f64::whole(rng)).collect();
    let loss = (y.clone() * Tensor::from_vec(weights.clone(), y.dims(), x.device())?)?.sum_all()?;
    let grads = loss.backward()?;
    let grad = grads.get(&x).expect("a gradient").flatten_all()?.to_vec1()?;
    Ok((weights, grad))
}

/// What the gradient is if each result is the sum of the items whose places `places` gives.
fn gradient_of_sums(n: usize, weights: &[f64], places: &[Vec<usize>]) -> Vec<f64> {
    let mut grad = vec![0.0; n];
    assert_eq!(weights.len(), places.len());
    for (weight, places) in weights.iter().zip(places) {
        places.iter().for_each(|&i| grad[i] += weight);
    }
    grad
}

#[test]
fn gradients() -> Result<()> {
    let mut rng = Rng::new();
    for device in devices() {
        for _ in 0..3 * ROUNDS {
            let rank = 1 + rng.below(3);
            let shape: Vec<usize> = (0..rank).map(|_| 1 + rng.below(if rank == 1 { 300 } else { 12 })).collect();
            let n: usize = shape.iter().product();
            let items: Vec<f64> = (0..n).map(|_| f64::whole(&mut rng)).collect();
            let x = Tensor::from_vec(items.clone(), &shape[..], &device)?;
            let dim = rng.below(rank);
            let places: Vec<usize> = (0..n).collect();
            // For each result, the places of the items that it is the sum of.
            let sources = |f: &dyn Fn(&[usize]) -> Vec<Vec<usize>>| -> Vec<Vec<usize>> {
                let of_lines: Vec<_> = lines(&shape, dim).iter().map(|line| f(line)).collect();
                let mut results = shape.clone();
                results[dim] = of_lines[0].len();
                let mut all = vec![vec![]; results.iter().product()];
                for (line, sources) in lines(&results, dim).iter().zip(of_lines) {
                    line.iter().zip(sources).for_each(|(&i, source)| all[i] = source);
                }
                all
            };
            let check = |rng: &mut Rng, what: &str, sources: Vec<Vec<usize>>, f: &dyn Fn(&Tensor) -> Result<Tensor>| {
                let (weights, grad) = gradient(rng, &x, f)?;
                assert_eq!(grad, gradient_of_sums(n, &weights, &sources), "{what} of {items:?}, {shape:?}, axis {dim}");
                Result::Ok(())
            };
            let at = |line: &[usize], order: &[u32]| order.iter().map(|&i| vec![line[i as usize]]).collect::<Vec<_>>();
            let values = |line: &[usize]| line.iter().map(|&i| items[i]).collect::<Vec<f64>>();

            let upto = sources(&|line| (0..line.len()).map(|i| line[..=i].to_vec()).collect());
            check(&mut rng, "cumsum", upto, &|x| cumsum(x, dim))?;
            let latest = sources(&|line| {
                let values = values(line);
                let latest = |i: usize| (0..=i).max_by(|&a, &b| values[a].total_cmp(&values[b])).expect("an item");
                (0..line.len()).map(|i| vec![line[latest(i)]]).collect()
            });
            check(&mut rng, "cummax", latest.clone(), &|x| cummax(x, dim))?;
            check(&mut rng, "cummax", latest, &|x| Ok(cummax_with_indices(x, dim)?.0))?;
            let descending = rng.below(2) == 0;
            let order = |line: &[usize]| order_of(&values(line), descending);
            check(&mut rng, "sort", sources(&|line| at(line, &order(line))), &|x| Ok(sort(x, dim, descending)?.0))?;
            let k = 1 + rng.below(shape[dim]);
            let first = sources(&|line| at(line, &order(line)[..k]));
            check(&mut rng, "topk", first, &|x| Ok(topk(x, k, dim, descending)?.0))?;
            let offsets = offsets(&mut rng, shape[dim]);
            let bounds = Tensor::new(&offsets[..], &device)?;
            if offsets.len() > 1 {
                let segments = sources(&|line| {
                    offsets.windows(2).map(|ends| line[ends[0] as usize..ends[1] as usize].to_vec()).collect()
                });
                check(&mut rng, "segment_sum", segments, &|x| segment_sum(x, &bounds, dim))?;
            }
            let mask: Vec<u8> = (0..n).map(|_| rng.below(3) as u8).collect();
            let selected = places.iter().filter(|&&i| mask[i] != 0).map(|&i| vec![i]).collect();
            let mask = Tensor::from_vec(mask, &shape[..], &device)?;
            check(&mut rng, "masked_select", selected, &|x| masked_select(x, &mask))?;
        }
    }
    Ok(())
}

#[test]
fn gradients_keep_their_dtype() -> Result<()> {
    for device in devices() {
        for dtype in [DType::BF16, DType::F16, DType::F32] {
            let x = Var::from_tensor(&Tensor::new(&[[3_f32, 1., 2.], [4., 6., 5.]], &device)?.to_dtype(dtype)?)?;
            let loss = (cumsum(&sort(&x, 1, false)?.0, 0)? + topk(&cummax(&x, 1)?, 3, 1, true)?.0)?.sum_all()?;
            let grads = loss.backward()?;
            let grad = grads.get(&x).expect("a gradient");
            assert_eq!(grad.dtype(), dtype);
            assert_eq!(grad.to_dtype(DType::F32)?.to_vec2::<f32>()?, [[5., 2., 2.], [2., 3., 1.]]);
        }
    }
    Ok(())
}

#[test]
fn no_gradient_is_lost_in_silence() -> Result<()> {
    for device in devices() {
        let x = Var::from_tensor(&Tensor::new(&[1_f32, 2., 1.], &device)?)?;
        let e = unique(&x)?.0.sum_all()?.backward().expect_err("there is no gradient");
        assert!(e.to_string().contains("backward is not supported for unique"), "{e}");
    }
    Ok(())
}

// ---- tensors without items, and bad arguments

#[test]
fn tensors_without_items() -> Result<()> {
    for device in devices() {
        for (shape, dim) in [(vec![0], 0), (vec![3, 0], 1), (vec![3, 0], 0), (vec![0, 3], 0), (vec![2, 0, 3], 2)] {
            let x = Tensor::from_slice(&[0_f32; 0], &shape[..], &device)?;
            assert_eq!(cumsum(&x, dim)?.dims(), shape);
            assert_eq!(cummax_with_indices(&x, dim)?.1.dims(), shape);
            assert_eq!(sort(&x, dim, false)?.0.dims(), shape);
            assert_eq!(argsort(&x, dim, true)?.dims(), shape);
            assert_eq!(topk(&x, 0, dim, true)?.0.dim(dim)?, 0);
            assert_eq!(nonzero(&x)?.dims(), [0, shape.len()]);
            assert_eq!(masked_select(&x, &Tensor::from_slice(&[0_u8; 0], &shape[..], &device)?)?.dims(), [0]);
            let (values, counts) = unique(&x)?;
            assert_eq!((values.dims(), counts.dims()), (&[0][..], &[0][..]));
            let x = Tensor::from_slice(&[0_u32; 0], &shape[..], &device)?;
            assert_eq!(bincount(&x, 2)?.to_vec1::<u32>()?, [0, 0]);
        }
        let none = Tensor::from_slice(&[0_i64; 0], (2, 0), &device)?;
        let sums = segment_sum(&none, &Tensor::new(&[0_u32, 0, 0], &device)?, 1)?;
        assert_eq!(sums.to_vec2::<i64>()?, [[0, 0], [0, 0]]);
        let sums = segment_sum(&none, &Tensor::new(&[0_u32, 1, 2], &device)?, 0)?;
        assert_eq!(sums.dims(), [2, 0]);
        // Items, of which none is selected.
        let x = Tensor::zeros((2, 3), DType::F32, &device)?;
        assert_eq!(nonzero(&x)?.dims(), [0, 2]);
        assert_eq!(masked_select(&x, &x.ne(&x)?)?.dims(), [0]);
        assert_eq!(topk(&x, 0, 1, true)?.1.dims(), [2, 0]);
        assert_eq!(segment_sum(&x, &Tensor::new(&[1_u32], &device)?, 1)?.dims(), [2, 0]);
    }
    Ok(())
}

#[test]
fn bad_arguments() -> Result<()> {
    let says = |result: Result<()>, text: &str| {
        let e = result.expect_err(text).to_string();
        assert!(e.contains(text), "{e}");
    };
    for device in devices() {
        let x = Tensor::new(&[[1_f32, 2., 3.], [4., 5., 6.]], &device)?;
        for dtype in [DType::I16, DType::I32] {
            let other = Tensor::zeros(3, dtype, &device)?;
            says(cumsum(&other, 0).map(drop), &format!("unsupported dtype {dtype:?} for op cumsum"));
            says(sort(&other, 0, false).map(drop), &format!("unsupported dtype {dtype:?} for op sort"));
            says(topk(&other, 1, 0, true).map(drop), &format!("unsupported dtype {dtype:?} for op topk"));
            let none = Tensor::zeros((0, 3), dtype, &device)?;
            says(unique(&none).map(drop), "unsupported dtype");
            says(segment_sum(&none, &Tensor::new(&[0_u32, 3], &device)?, 1).map(drop), "unsupported dtype");
        }
        says(cumsum(&x, 2).map(drop), "out of range");
        says(sort(&x, 7, true).map(drop), "out of range");
        says(topk(&x, 4, D::Minus1, true).map(drop), "4 items of an axis of 3");
        says(nonzero(&Tensor::new(1_f32, &device)?).map(drop), "a scalar");
        says(masked_select(&x, &x).map(drop), "dtype");
        says(masked_select(&x, &Tensor::new(&[1_u8, 0], &device)?).map(drop), "cannot broadcast");
        says(bincount(&x, 0).map(drop), "unsupported dtype");
        says(bincount(&Tensor::new(&[3_i64, -1], &device)?, 0).map(drop), "negative");
        says(
            bincount(&Tensor::new(&[i64::MAX], &device)?, 0).map(drop),
            "9223372036854775809 items and numbers of bincount, more than a u32 counts",
        );
        says(segment_sum(&x, &Tensor::from_slice(&[0_u32; 0], 0, &device)?, 0).map(drop), "no offset");
        says(segment_sum(&x, &Tensor::zeros((1, 1), DType::U32, &device)?, 0).map(drop), "rank");
        says(segment_sum(&x, &Tensor::new(&[0_f32, 1.], &device)?, 0).map(drop), "unsupported dtype");
        if device.is_cpu() {
            says(segment_sum(&x, &Tensor::new(&[2_u32, 1], &device)?, 1).map(drop), "offset 1 is less");
            for offsets in [[0, 4], [-1, 2], [0, (1_i64 << 32) + 3]] {
                let [first, last] = offsets;
                let words = format!("offsets from {first} to {last}, and the axis has 3 items");
                says(segment_sum(&x, &Tensor::new(&offsets, &device)?, 1).map(drop), &words);
            }
        }
    }
    Ok(())
}
