//! Elements of 1 to 32 bytes at any alignment, on both engines: arrays of words, of which the
//! operator adds the first and takes the others from the later item.

use crate::common::{Draw, Options, Rng, Sample, assert_same, data, oracle, stream};
use crate::scan::check_on_device;
use parascan::cudarc::driver::DeviceRepr;
use parascan::{Block, DeviceCode, Element, Operator, Strategy, Workspace, scan};

#[derive(Clone, Copy, Debug)]
struct AddFirst;

macro_rules! sizes {
    ($($module:ident $word:ident $cuda:literal [$($n:literal)*];)*) => { $(
        mod $module {
            use super::*;
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, PartialEq)]
            struct Words<const N: usize>([$word; N]);
            // SAFETY: an array of plain data.
            unsafe impl<const N: usize> bytemuck::Zeroable for Words<N> {}
            // SAFETY: as above.
            unsafe impl<const N: usize> bytemuck::Pod for Words<N> {}
            impl<const N: usize> Sample for Words<N> where Self: Element + DeviceRepr {
                fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
                    Words([(); N].map(|()| rng.next() as $word))
                }
                fn same(self, other: Self) -> bool {
                    self == other
                }
            }
            $(
                // SAFETY: the same array on both sides.
                unsafe impl Element for Words<$n> {
                    const CUDA: &'static str = concat!("struct { ", $cuda, " word[", $n, "]; }");
                }
                // SAFETY: plain data.
                unsafe impl DeviceRepr for Words<$n> {}
                impl Operator<Words<$n>> for AddFirst {
                    type Carry = Words<$n>;
                    fn lift(x: Words<$n>) -> Words<$n> {
                        x
                    }
                    fn lower(x: Words<$n>) -> Words<$n> {
                        x
                    }
                    fn combine(a: Words<$n>, mut b: Words<$n>) -> Words<$n> {
                        b.0[0] = b.0[0].wrapping_add(a.0[0]);
                        b
                    }
                    // SAFETY: a sum of unsigned integers; there is a first word.
                    const CUDA: DeviceCode<Self, Words<$n>> =
                        unsafe { DeviceCode::new("b.word[0] += a.word[0]; return b;") };
                }
            )*
            #[test]
            fn on_the_host() {
                $( host::<Words<$n>>(); )*
            }
            #[test]
            fn on_the_device() {
                $( device::<Words<$n>>(); )*
            }
            #[test]
            fn reduced() {
                $( crate::reduce::check::<AddFirst, Words<$n>>(); )*
            }
        }
    )* };
}
sizes! {
    bytes u8 "unsigned char" [3 7 31];
    halves u16 "unsigned short" [3 9];
    words u32 "unsigned int" [3 5 8];
    long_words u64 "unsigned long long" [3 4];
}

fn options<T: Sample>(rng: &mut Rng) -> Vec<Options<T>> {
    let mut all = Vec::new();
    for reverse in [false, true] {
        let init = Some(T::draw(rng, Draw::Any, 0));
        all.push(Options { exclusive: false, init: None, reverse });
        all.push(Options { exclusive: true, init, reverse });
        all.push(Options { exclusive: false, init, reverse });
    }
    all
}

fn host<T: Sample>()
where
    AddFirst: Operator<T>,
{
    let mut rng = Rng::new();
    for n in [0, 1, 33, 3_001, 70_000] {
        let input: Vec<T> = data(&mut rng, Draw::Any, n);
        for options in options::<T>(&mut rng) {
            let mut scan = scan::<AddFirst, T>();
            if let Some(init) = options.init {
                scan = if options.exclusive { scan.exclusive_from(init) } else { scan.init(init) };
            }
            let scan = if options.reverse { scan.reverse() } else { scan };
            assert_same(&scan.run(&input).unwrap(), &oracle::<AddFirst, T>(&input, options), &(n, options));
        }
    }
}

fn device<T: Sample>()
where
    AddFirst: Operator<T>,
{
    const BLOCK: Block = Block::WarpShuffles;
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let mut workspace = Workspace::new(&stream);
    let tile = 8 * 32 * 3 * 16 / size_of::<T>();
    let mut lengths =
        vec![1, 2, 31, 33, tile - 1, tile, tile + 1, 2 * tile + 1, 33 * tile + 5, 1 + rng.below(40 * tile)];
    // Beyond the first two ranges of lengths, each of which has a kernel of its own.
    lengths.extend([4 << 20, 32 << 20].map(|bytes| bytes / size_of::<T>() + 1 + rng.below(1 << 12)));
    for strategy in [Strategy::Auto, Strategy::LookBack(BLOCK), Strategy::Hierarchical(BLOCK)] {
        for &n in &lengths {
            let input: Vec<T> = data(&mut rng, Draw::Any, n);
            let all = options::<T>(&mut rng);
            let (some, start) = (if n > 10 * tile { 2 } else { all.len() }, rng.below(all.len()));
            for k in 0..some {
                let options = all[(start + k * 5) % all.len()];
                let skips = [(0, 0), (1, 0), (0, 1), (3, 5), (16, 32), (7, 2)][rng.below(6)];
                let (rng, workspace) = (&mut rng, &mut workspace);
                check_on_device::<AddFirst, T>(rng, &stream, workspace, &input, options, strategy, skips, k % 4 == 3);
            }
        }
    }
}

/// Elements of 8 KiB.
mod long {
    use super::*;
    use parascan::{Sum, reduce};
    const WORDS: usize = 1024;

    #[repr(transparent)]
    #[derive(Clone, Copy, PartialEq)]
    struct Long([u64; WORDS]);
    // SAFETY: an array of plain data.
    unsafe impl bytemuck::Zeroable for Long {}
    // SAFETY: as above.
    unsafe impl bytemuck::Pod for Long {}
    // SAFETY: the same array on both sides.
    unsafe impl Element for Long {
        const CUDA: &'static str = "struct { unsigned long long word[1024]; }";
    }
    impl Operator<Long> for Sum {
        type Carry = Long;
        fn lift(x: Long) -> Long {
            x
        }
        fn lower(x: Long) -> Long {
            x
        }
        fn combine(a: Long, mut b: Long) -> Long {
            b.0.iter_mut().zip(a.0).for_each(|(b, a)| *b = b.wrapping_add(a));
            b
        }
        // SAFETY: a sum of unsigned integers.
        const CUDA: DeviceCode<Self, Long> =
            unsafe { DeviceCode::new("for (int i = 0; i < 1024; i++) b.word[i] += a.word[i]; return b;") };
    }

    /// They fit the stack of a thread, 2 MiB.
    #[test]
    fn on_the_host() {
        let work = || {
            let mut rng = Rng::new();
            let x: Vec<Long> = (0..72).map(|_| Long([(); WORDS].map(|()| rng.next()))).collect();
            for columns in [8, 72] {
                let rows = || x.chunks(columns);
                let scanned: Vec<Long> = rows()
                    .flat_map(|row| {
                        row.iter().scan(Long([0; WORDS]), |sum, &x| {
                            *sum = <Sum as Operator<Long>>::combine(*sum, x);
                            Some(*sum)
                        })
                    })
                    .collect();
                assert!(scan::<Sum, Long>().rows(columns).run(&x).unwrap() == scanned);
                let totals: Vec<Long> = scanned.chunks(columns).map(|row| row[columns - 1]).collect();
                assert!(reduce::<Sum, Long>().rows(columns).run(&x).unwrap() == totals);
                if columns == x.len() {
                    assert!(scan::<Sum, Long>().run(&x).unwrap() == scanned);
                    assert!(reduce::<Sum, Long>().run(&x).unwrap() == totals[0]);
                }
            }
        };
        std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
    }
}
