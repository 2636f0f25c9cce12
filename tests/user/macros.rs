//! The macros for elements, operators and predicates, in every form, on both engines.

use super::own::check;
use crate::common::{Draw, ON_DEVICE, Rng, Sample, assert_same, stream};
use half::f16;
use parascan::{Element, Predicate, compact};

// ---- elements -----------------------------------------------------------------------------------

parascan::element! {
    /// Two numbers of any type.
    struct Pair<A, B> { first: A, second: B } for <u32, i32>, <f32, u32>, <u64, f64>
}
parascan::element! {
    /// Structs in structs, and fields of every width.
    #[derive(Default)]
    struct Nested { pair: Pair<f32, u32>, half: f16, byte: u8, sign: i8, whole: Small }
}
parascan::element! {
    #[derive(Default)]
    struct Small { low: u16, high: u16 }
}
parascan::element! {
    #[repr(align(16))]
    struct Aligned { x: u64, y: u64 }
}
impl<A: Default, B: Default> Default for Pair<A, B> {
    fn default() -> Self {
        Pair { first: A::default(), second: B::default() }
    }
}

#[test]
fn the_twin_of_an_element() {
    assert_eq!(Pair::<f32, u32>::CUDA, "struct alignas(4) { float first; unsigned int second; }");
    assert_eq!(Pair::<u64, f64>::CUDA, "struct alignas(8) { unsigned long long first; double second; }");
    assert_eq!(Aligned::CUDA, "struct alignas(16) { unsigned long long x; unsigned long long y; }");
    let nested = format!(
        "struct alignas(4) {{ {} pair; f16 half; unsigned char byte; signed char sign; {} whole; }}",
        Pair::<f32, u32>::CUDA,
        Small::CUDA
    );
    assert_eq!(Nested::CUDA, nested);
    assert_eq!((size_of::<Nested>(), align_of::<Nested>()), (16, 4));
    let offsets: Vec<_> = Nested::CUDA_FIELDS.iter().map(|field| (field.name, field.offset, field.size)).collect();
    assert_eq!(offsets, [("pair", 0, 8), ("half", 8, 2), ("byte", 10, 1), ("sign", 11, 1), ("whole", 12, 4)]);
    assert_eq!(bytemuck::bytes_of(&Small { low: 1, high: 2 }), [1, 0, 2, 0]);
}

// ---- operators ----------------------------------------------------------------------------------

parascan::operator! {
    /// The sum of the first numbers, and the maximum of the second.
    struct SumAndMax
    on Pair<u32, i32> {
        associativity: Exact,
        identity: Pair { first: 0, second: i32::MIN },
        // SAFETY: a sum of unsigned integers, and a maximum.
        combine: |a, b| Pair { first: a.first.wrapping_add(b.first), second: a.second.max(b.second) }
            => unsafe "{ a.first + b.first, max(a.second, b.second) }",
    }
    on Nested, Aligned {
        associativity: Exact,
        // SAFETY: the text is an argument.
        combine: |_, b| b => unsafe "b",
    }
}

parascan::operator! {
    /// The sum modulo a prime, carried in 64 bits; statements, with a comment at their end.
    struct SumModulo on u32 {
        associativity: Exact,
        carry: u64,
        identity: 0,
        // SAFETY: the texts use unsigned integers, and divide by a constant.
        lift: |x| u64::from(x) % 4_294_967_291 => unsafe "Carry(x) % 4294967291ull",
        lower: |x| x as u32 => unsafe "Element(x)",
        combine: |a, b| (a + b) % 4_294_967_291 => unsafe "
            // Below twice the prime
            Carry sum = a + b;
            return sum >= 4294967291ull ? sum - 4294967291ull : sum;
        ",
    }
}

impl Sample for Pair<u32, i32> {
    fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
        Pair { first: rng.next() as u32, second: rng.next() as i32 }
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}
impl Sample for Nested {
    fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
        let whole = Small { low: rng.next() as u16, high: rng.next() as u16 };
        Nested { half: f16::from_f32(rng.below(100) as f32), byte: rng.next() as u8, whole, ..Default::default() }
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}
impl Sample for Aligned {
    fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
        Aligned { x: rng.next(), y: rng.next() }
    }
    fn same(self, other: Self) -> bool {
        self == other
    }
}

fn any<T: Sample>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|i| T::draw(rng, Draw::Any, i)).collect()
}

#[test]
fn operators_of_every_form() {
    check::<SumAndMax, Pair<u32, i32>>(any);
    check::<SumAndMax, Nested>(any);
    check::<SumAndMax, Aligned>(any);
    check::<SumModulo, u32>(any);
}

// ---- predicates ---------------------------------------------------------------------------------

parascan::predicate! {
    /// Selects items whose remainder by `divisor` is `rest`.
    struct Leaves { divisor: u32, rest: u32 } on u32 {
        // SAFETY: the divisor is not zero.
        keeps: |x, p| x % p.divisor == p.rest => unsafe "p.divisor && x % p.divisor == p.rest",
    }
}
parascan::predicate! {
    /// Selects items with an odd number of set bits; statements.
    struct OddBits on u32, u64 {
        // SAFETY: the loop ends, since each iteration clears a bit.
        keeps: |x| x.count_ones() % 2 == 1 => unsafe "
            int bits = 0;
            for (; x != 0; x &= x - 1) bits++;
            return bits % 2 == 1;
        ",
    }
}
parascan::predicate! {
    /// Selects items whose first number is less than a pair's.
    struct FirstBelow { than: Pair<u32, i32> } on Pair<u32, i32> {
        // SAFETY: a comparison.
        keeps: |x, FirstBelow { than }| x.first < than.first => unsafe "x.first < p.than.first",
    }
}

fn keeps<T: Sample, P: Predicate<T> + std::fmt::Debug>(predicate: P) {
    let mut rng = Rng::new();
    for n in [1, 33, 5_000, 100_001] {
        let items: Vec<T> = any(&mut rng, n);
        let expected: Vec<T> = items.iter().copied().filter(|&x| predicate.keeps(x)).collect();
        assert_same(&compact::<T>().keep(predicate).run(&items).unwrap(), &expected, &("on the host", predicate, n));
        if ON_DEVICE && let Some(stream) = stream() {
            let kept = compact::<T>().keep(predicate).run(&stream.clone_htod(&items).unwrap()).unwrap();
            assert_same(&stream.clone_dtoh(&kept).unwrap(), &expected, &("on the device", predicate, n));
        }
    }
}

#[test]
fn predicates_of_every_form() {
    keeps::<u32, _>(Leaves { divisor: 7, rest: 3 });
    keeps::<u32, _>(OddBits);
    keeps::<u64, _>(OddBits);
    keeps::<Pair<u32, i32>, _>(FirstBelow { than: Pair { first: 1 << 30, second: 0 } });
}
