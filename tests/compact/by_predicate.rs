//! Every ready-made predicate on every element, on both engines, against the predicate in a loop;
//! equal neighbours; a predicate of the test's own with parameters.

use super::*;

/// A call on each available engine.
fn check<T: Sample + Ordered, P: Predicate<T> + Debug>(
    device: &mut Option<(Arc<CudaStream>, Workspace)>,
    items: &[T],
    on_device: Option<&CudaSlice<T>>,
    predicate: P,
) {
    let what = (std::any::type_name::<T>(), items.len(), predicate);
    let expected: Vec<T> = items.iter().copied().filter(|&x| predicate.keeps(x)).collect();
    let others: Vec<T> = items.iter().copied().filter(|&x| !predicate.keeps(x)).collect();
    assert_same(&compact::<T>().keep(predicate).run(items).unwrap(), &expected, &what);
    assert_same(&compact::<T>().discard(predicate).run(items).unwrap(), &others, &what);
    let ((stream, workspace), input) = or_skip!(device.as_mut().zip(on_device));
    let got = compact::<T>().keep(predicate).workspace(workspace).run(input).unwrap();
    assert_same(&stream.clone_dtoh(&got).unwrap(), &expected, &("on the device", what));
    let got = compact::<T>().discard(predicate).workspace(workspace).run(input).unwrap();
    assert_same(&stream.clone_dtoh(&got).unwrap(), &others, &("on the device, the others", what));
}

fn every<T: Sample + Ordered>()
where
    Above<T>: Predicate<T>,
    AtLeast<T>: Predicate<T>,
    Below<T>: Predicate<T>,
    AtMost<T>: Predicate<T>,
    Equal<T>: Predicate<T>,
    NotEqual<T>: Predicate<T>,
    Within<T>: Predicate<T>,
    NonZero: Predicate<T>,
    Finite: Predicate<T>,
{
    let mut device = stream().map(|stream| (stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    for n in [1, 33, 10_000 + rng.below(1000)] {
        for draw in [Draw::Any, Draw::Whole] {
            let items: Vec<T> = data(&mut rng, draw, n);
            let input = device.as_ref().map(|(stream, _)| stream.clone_htod(&items).unwrap());
            let input = input.as_ref();
            let (v, w) = (items[rng.below(n)], items[rng.below(n)]);
            check(&mut device, &items, input, Above(v));
            check(&mut device, &items, input, AtLeast(v));
            check(&mut device, &items, input, Below(v));
            check(&mut device, &items, input, AtMost(v));
            check(&mut device, &items, input, Equal(v));
            check(&mut device, &items, input, NotEqual(v));
            check(&mut device, &items, input, Within(v, w));
            check(&mut device, &items, input, Not(Within(w, v)));
            check(&mut device, &items, input, NonZero);
            check(&mut device, &items, input, Finite);

            check_unique(&mut device, &mut rng, &items);
        }
    }
}

/// Equal neighbours, on each available engine: the data repeats itself.
fn check_unique<T: Sample + Ordered>(device: &mut Option<(Arc<CudaStream>, Workspace)>, rng: &mut Rng, items: &[T]) {
    let n = items.len();
    let mut runs = Vec::new();
    for &x in items {
        let length = 1 + rng.below(if n > 100 { 5 } else { 2 });
        runs.resize(runs.len() + length, x);
    }
    let expected: Vec<T> = (0..runs.len()).filter(|&i| i == 0 || runs[i] != runs[i - 1]).map(|i| runs[i]).collect();
    let what = (std::any::type_name::<T>(), "unique", n);
    assert_same(&unique::<T>().run(&runs).unwrap(), &expected, &what);
    let values: Vec<[u8; 3]> = noise(rng, runs.len());
    let (mut keys_output, mut values_output, mut count) = (runs.clone(), values.clone(), [0]);
    let by_key = unique::<T>();
    by_key.run_pairs_into(&runs, &values, &mut keys_output, &mut values_output, &mut count).unwrap();
    let firsts: Vec<[u8; 3]> =
        (0..runs.len()).filter(|&i| i == 0 || runs[i] != runs[i - 1]).map(|i| values[i]).collect();
    assert_eq!(count, [expected.len() as u64]);
    assert_same(&keys_output[..expected.len()], &expected, &what);
    assert_eq!(values_output[..expected.len()], firsts);
    let (stream, workspace) = or_skip!(device);
    let input = stream.clone_htod(&runs).unwrap();
    let got = unique::<T>().workspace(workspace).run(&input).unwrap();
    assert_same(&stream.clone_dtoh(&got).unwrap(), &expected, &("on the device", what));
    let beside = stream.clone_htod(&values).unwrap();
    let mut keys_output = stream.clone_htod(&runs).unwrap();
    let mut values_output = stream.alloc_zeros::<[u8; 3]>(runs.len()).unwrap();
    let mut count = stream.alloc_zeros::<u64>(1).unwrap();
    let by_key = unique::<T>().workspace(workspace);
    by_key.run_pairs_into(&input, &beside, &mut keys_output, &mut values_output, &mut count).unwrap();
    assert_eq!(stream.clone_dtoh(&count).unwrap(), [expected.len() as u64]);
    assert_same(&stream.clone_dtoh(&keys_output).unwrap()[..expected.len()], &expected, &what);
    assert_eq!(stream.clone_dtoh(&values_output).unwrap()[..expected.len()], firsts);
}

macro_rules! stamp { ($($t:ident)*) => { $( #[test] fn $t() { every::<$t>(); } )* } }
stamp! { f32 i32 u64 f16 f64 bf16 i8 i16 i64 u8 u16 u32 usize isize }

/// A short walk for compute-sanitizer.
#[test]
fn sanitize() {
    let stream = or_skip!(stream());
    let mut device = Some((stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    for n in [1, 3000, 150_000, 2_200_000] {
        let items: Vec<f32> = data(&mut rng, Draw::Any, n);
        let input = device.as_ref().map(|(stream, _)| stream.clone_htod(&items).unwrap());
        check(&mut device, &items, input.as_ref(), Above(0.0));
        check_unique(&mut device, &mut rng, &items);
        let short: Vec<u8> = data(&mut rng, Draw::Any, n);
        check_unique(&mut device, &mut rng, &short);
    }
}

/// Selects items with a nonzero remainder.
#[repr(C)]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Remainder {
    of: u64,
    is: u64,
}
// SAFETY: two integers in the same order on both sides.
unsafe impl parascan::Element for Remainder {
    const CUDA: &'static str = "struct { unsigned long long of, is; }";
}
impl Predicate<u64> for Remainder {
    type Parameters = Remainder;
    fn parameters(&self) -> Remainder {
        *self
    }
    fn keeps(&self, x: u64) -> bool {
        x % self.of == self.is
    }
    // SAFETY: the divisor is not zero.
    const CUDA: parascan::DeviceCode<Self, u64> = unsafe { parascan::DeviceCode::new("p.of && x % p.of == p.is") };
}

#[test]
fn of_ones_own() {
    let mut device = stream().map(|stream| (stream.clone(), Workspace::new(&stream)));
    let mut rng = Rng::new();
    for n in [1, 3000, 200_000] {
        let items: Vec<u64> = data(&mut rng, Draw::Any, n);
        let input = device.as_ref().map(|(stream, _)| stream.clone_htod(&items).unwrap());
        for of in [1, 2, 7] {
            check(&mut device, &items, input.as_ref(), Remainder { of, is: rng.next() % of });
        }
    }
}
