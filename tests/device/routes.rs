//! Which way keys of a spread go to buckets, and that the map it makes is one: buckets rise with the keys, and none is too large.

use super::layers::{address, p};
use crate::common::{Rng, context};
use parascan::cuda::Kernels;
use parascan::cudarc::driver::CudaContext;
use std::marker::PhantomData;
use std::sync::Arc;

/// As the kernels of a sort call it; `tell` says what came of it, for all keys.
const KERNELS: &str = r#"
#include "buckets.cuh"

typedef KeyOrder<Bits, KIND, INFINITE> Order;
static_assert(sizeof(BucketMap<Bits>) <= MAP_BYTES && sizeof(SortPlan<sizeof(Bits) + 1>) <= MAP_BYTES, "they have room");
#define ALL const Bits *keys, u64 n, u64 flip, void *plan, BucketMap<Bits> *map, Bits *sample, u32 sampled, u32 lower_bits, u32 room

__device__ SortCall call_of(ALL) {
    SortCall call = {};
    call.n = n;
    call.keys_in = keys;
    call.plan = plan;
    call.flip = flip;
    call.end = 8 * sizeof(Bits);
    return call;
}
__device__ BucketCall buckets_of(ALL) {
    BucketCall buckets = {};
    buckets.map = map;
    buckets.sample = sample;
    buckets.sampled = sampled;
    buckets.lower_bits = lower_bits;
    buckets.most_lower_bits = lower_bits + 1;
    buckets.room = room;
    return buckets;
}
#define HERE keys, n, flip, plan, map, sample, sampled, lower_bits, room
extern "C" __global__ void __launch_bounds__(512) take_sample(ALL) { bucket_sample<Order, Bits, 512>(call_of(HERE), buckets_of(HERE)); }
extern "C" __global__ void __launch_bounds__(512) make_map(ALL) { bucket_map<Order, Bits, 512>(call_of(HERE), buckets_of(HERE)); }
extern "C" __global__ void tell(ALL, u32 *bucket, u32 *found) {
    Order order{Bits(flip)};
    u64 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        found[0] = map->route;
        found[1] = map->lower_bits;
        found[2] = ((SortPlan<sizeof(Bits) + 1> *)plan)->too_large;
        for (u32 k = 0; k < BUCKETS / 32; k++) found[3 + k] = map->single[k];
    }
    if (i >= n) return;
    Bits key = order.to(keys[i]);
    bucket[i] = map->route == BY_BITS     ? BucketByBits<Bits>(map->lower_bits)(key)
                : map->route == BY_RANGE  ? BucketByRange<Bits>(*map)(key)
                : map->route == BY_VALUES ? BucketByValues<Bits>{map->values}(key)
                                          : BucketByCells<Bits>(*map, map->cells)(key);
}
"#;
const MAP_BYTES: usize = 1 << 17;
const BUCKETS: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    Bits,
    Range,
    Values,
    Cells,
}
use Route::*;

/// What orders keys: integers without a sign, with one, floats.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Unsigned,
    Signed,
    Float,
}

/// A key of 4 or 8 bytes: the kernels see its bits.
trait Key: Copy + parascan::cudarc::driver::DeviceRepr {
    const WIDTH: u32;
    const INFINITE: u64;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn of_float(x: f64) -> Self;
}
macro_rules! key { ($($t:ident $float:ident $infinite:literal;)*) => { $(
    impl Key for $t {
        const WIDTH: u32 = $t::BITS;
        const INFINITE: u64 = $infinite;
        fn of(bits: u64) -> $t { bits as $t }
        fn bits(self) -> u64 { u64::from(self) }
        fn of_float(x: f64) -> $t { (x as $float).to_bits() }
    }
)* } }
key! { u32 f32 0x7f80_0000; u64 f64 0x7ff0_0000_0000_0000; }

struct Subject<K> {
    context: Arc<CudaContext>,
    kernels: Kernels,
    kind: Kind,
    rng: Rng,
    keys: PhantomData<K>,
}

impl<K: Key> Subject<K> {
    fn new(context: &Arc<CudaContext>, kind: Kind) -> Subject<K> {
        let (bits, template, infinite) = match kind {
            Kind::Float => (K::WIDTH, "FLOAT", K::INFINITE),
            _ => (K::WIDTH, "INTEGER", 0),
        };
        let text = format!(
            "#include \"radix.cuh\"\ntypedef u{bits} Bits;\n\
             constexpr KeyKind KIND = {template};\nconstexpr Bits INFINITE = Bits({infinite:#x}ull);\n\
             constexpr u32 MAP_BYTES = {MAP_BYTES};\n{KERNELS}"
        );
        let kernels = Kernels::compile(context, "routes", &text, &["take_sample", "make_map", "tell"]).unwrap();
        Subject { context: context.clone(), kernels, kind, rng: Rng::new(), keys: PhantomData }
    }

    /// Where a key comes in the order.
    fn place(&self, key: K) -> u64 {
        let (bits, sign) = (key.bits(), 1_u64 << (K::WIDTH - 1));
        match self.kind {
            Kind::Unsigned => bits,
            Kind::Signed => bits ^ sign,
            Kind::Float if bits & sign == 0 => bits ^ sign,
            Kind::Float => !bits & (sign | (sign - 1)),
        }
    }

    fn check(&mut self, expected: Route, what: &str, draw: impl Fn(u64) -> K) {
        const SAMPLED: usize = 1 << 15;
        const ROOM: usize = 5632;
        let n = (1 << 22) - self.rng.below(10_000);
        let keys: Vec<K> = (0..n).map(|_| draw(self.rng.next())).collect();
        let what = format!("{what}, {:?} of {} bits", self.kind, K::WIDTH);

        // ---- what the device does
        let stream = self.context.new_stream().unwrap();
        let input = stream.clone_htod(&keys).unwrap();
        let zeros = |bytes: usize| stream.alloc_zeros::<u32>(bytes / 4).unwrap();
        let (plan, map, sample) = (zeros(MAP_BYTES), zeros(MAP_BYTES), zeros(8 * SAMPLED));
        let (bucket, found) = (zeros(4 * n), zeros(4 * (3 + BUCKETS / 32)));
        let input = address(&input, &stream);
        let [plan, map, sample, bucket_at, found_at] =
            [&plan, &map, &sample, &bucket, &found].map(|memory| address(memory, &stream));
        let flip = if self.kind == Kind::Signed { 1_u64 << (K::WIDTH - 1) } else { 0 };
        let (length, sampled, lower_bits, room) = (n as u64, SAMPLED as u32, 2_u32, ROOM as u32);
        let all = [
            p(&input),
            p(&length),
            p(&flip),
            p(&plan),
            p(&map),
            p(&sample),
            p(&sampled),
            p(&lower_bits),
            p(&room),
            p(&bucket_at),
            p(&found_at),
        ];
        for (kernel, blocks) in [(0, 16), (1, 32), (2, n.div_ceil(512))] {
            let arguments = if kernel == 2 { &all[..] } else { &all[..9] };
            // SAFETY: the kernels' arguments, in order; the buffers outlive them.
            unsafe { self.kernels.launch(kernel, blocks as u32, 512, stream.cu_stream(), arguments) }.unwrap();
        }
        let (bucket, found) = (stream.clone_dtoh(&bucket).unwrap(), stream.clone_dtoh(&found).unwrap());

        // ---- the way, and all keys in order
        assert_eq!([Bits, Range, Values, Cells][found[0] as usize], expected, "{what}");
        assert_eq!(found[2], 0, "{what}: not worth it");
        let most = if expected == Values { 256 } else { 256 << found[1] };
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_unstable_by_key(|&i| self.place(keys[i]));
        let mut at = 0;
        for run in order.chunk_by(|&a, &b| bucket[a] == bucket[b]) {
            let here = bucket[run[0]];
            assert!(here < most && (at == 0 || here > bucket[order[at - 1]]), "{what}: bucket {here} out of order");
            at += run.len();
            let is_single = found[3 + here as usize / 32] >> (here % 32) & 1 == 1;
            let same = keys[run[0]].bits() == keys[run[run.len() - 1]].bits();
            assert!(!is_single || same, "{what}: bucket {here} has more keys than one");
            assert!(is_single || run.len() <= ROOM, "{what}: bucket {here} has {} keys", run.len());
        }
    }

    fn integers(&mut self) {
        let (width, of) = (K::WIDTH, K::of);
        let up = |x: u64| x >> (64 - width);
        self.check(Bits, "random", of);
        self.check(Range, "a range", |x| of((up(x) >> 9) + 12345));
        self.check(Values, "a hundred values", |x| of((x % 100 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let law =
            |x: u64, bits: u32| up(x) >> (x.wrapping_mul(0x9e37_79b9_7f4a_7c15).leading_ones() * bits).min(width - 1);
        if self.kind == Kind::Unsigned {
            self.check(Cells, "a power law", |x| of(law(x, 8)));
            self.check(Cells, "a power law from above", |x| of(!law(x, 5)));
        } else {
            self.check(Cells, "a power law around zero", |x| {
                of((law(x, 4) >> 1) ^ if x & 1 == 0 { 0 } else { u64::MAX })
            });
        }
    }

    fn floats(&mut self) {
        let half = |x: u64| (x >> 40) as f64 / f64::from(1 << 24);
        self.check(Cells, "0 to 1", |x| K::of_float(half(x)));
        self.check(Cells, "-1 to 1", |x| K::of_float(half(x) * if x & 1 == 0 { 1.0 } else { -1.0 }));
        self.check(Cells, "whole numbers of both signs", |x| {
            K::of_float((x >> 40) as f64 * if x & 1 == 0 { 1.0 } else { -1.0 })
        });
        self.check(Cells, "whole numbers between ends within an exponent", |x| {
            K::of_float((x % 16_000_001) as f64 - 8e6)
        });
        self.check(Cells, "normally distributed", |x| {
            let (radius, angle) = (half(x) + 1e-8, (x & 0xff_ffff) as f64 / f64::from(1 << 24));
            K::of_float((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos())
        });
        self.check(Values, "few values", |x| K::of_float(((x % 50) as f64 - 25.0) * 0.1));
        self.check(Cells, "between two exponents", |x| K::of_float(1.0 + half(x) * half(x ^ x >> 13) / 64.0));
    }
}

#[test]
fn keys_to_buckets() {
    let Some(context) = context() else { return };
    for kind in [Kind::Unsigned, Kind::Signed] {
        Subject::<u32>::new(&context, kind).integers();
        Subject::<u64>::new(&context, kind).integers();
    }
    Subject::<u32>::new(&context, Kind::Float).floats();
    Subject::<u64>::new(&context, Kind::Float).floats();
}
