//! Offsets on both engines against a loop: every type of sizes and offsets, alignments, both forms,
//! overflow.

use crate::common::{Rng, much_memory, stream};
use parascan::cudarc::driver::DeviceRepr;
use parascan::{Error, Index, Size, Workspace, offsets};
use std::fmt::Debug;

trait Number: Copy + PartialEq + Debug {
    fn of(x: u128) -> Self;
    const BITS: u32;
}
macro_rules! numbers { ($($t:ident)*) => { $(
    impl Number for $t {
        fn of(x: u128) -> $t { x as $t }
        const BITS: u32 = $t::BITS;
    }
)* } }
numbers! { u8 u16 u32 u64 usize }

fn most(bits: u32) -> u128 {
    (1 << bits) - 1
}

/// Sizes of which a sum of `n` is likely to fit in `bits`, some of them zero.
fn sizes<S: Number>(rng: &mut Rng, n: usize, bits: u32) -> Vec<u128> {
    let each = (most(bits) / (2 * n as u128).max(1)).clamp(1, most(S::BITS));
    (0..n).map(|_| if rng.below(4) == 0 { 0 } else { u128::from(rng.next()) % (each + 1) }).collect()
}

fn check<S: Size + Number + DeviceRepr, O: Index + Number>() {
    let mut rng = Rng::new();
    let mut device = stream().map(|stream| (stream.clone(), Workspace::new(&stream)));
    for n in [0, 1, 31, 33, 767, 768, 769, 1537, 24_577, 100_000 + rng.below(1000), 600_000, 4_300_000] {
        // The longest is for the device's kernels.
        if n > 1_000_000 && (S::BITS != 32 || device.is_none()) {
            continue;
        }
        for align in [1_u64, 8, 64] {
            let exact = sizes::<S>(&mut rng, n, O::BITS.min(60) - if align > 1 { 12 } else { 0 });
            let input: Vec<S> = exact.iter().map(|&size| S::of(size)).collect();
            let mut starts = vec![0_u128];
            for size in &exact {
                starts.push(starts[starts.len() - 1] + size.next_multiple_of(align.into()));
            }
            let total = starts[n];
            let what = (std::any::type_name::<(S, O)>(), n, align, total);
            let expected: Vec<O> = starts.iter().map(|&start| O::of(start)).collect();
            let with_total = rng.below(2) == 1;
            let mut builder = offsets::<S, O>().align(align);
            if with_total {
                builder = builder.with_total();
            }
            let needed = n + usize::from(with_total);
            let fits = total <= most(O::BITS);

            // ---- on the host
            let guard = vec![O::of(77); needed + 3];
            let (mut got, mut sum) = (guard.clone(), [5]);
            let result = builder.run_into(&input, &mut got, &mut sum);
            if fits {
                result.unwrap();
                assert_eq!(u128::from(sum[0]), total, "{what:?}");
                assert!(got[..needed] == expected[..needed] && got[needed..] == guard[needed..], "{what:?}");
                assert!(builder.run(&input).unwrap() == expected[..needed], "{what:?}");
            } else {
                let error = result.unwrap_err();
                assert!(matches!(error, Error::Overflow { .. }), "{error}");
                assert!(got == guard && sum == [5], "{what:?}");
            }

            // ---- on the device, from a view at any offset into another
            let Some((stream, workspace)) = &mut device else { continue };
            let (skip_in, skip_out) = [(0, 0), (1, 0), (3, 1)][rng.below(3)];
            let mut padded = vec![S::of(3); skip_in];
            padded.extend_from_slice(&input);
            padded.push(S::of(9));
            let on_device = stream.clone_htod(&padded).unwrap();
            let guard = vec![O::of(77); skip_out + needed + 3];
            let mut got = stream.clone_htod(&guard).unwrap();
            let mut sum = stream.clone_htod(&[5_u64]).unwrap();
            let view = on_device.slice(skip_in..skip_in + n);
            let mut room = got.slice_mut(skip_out..skip_out + needed);
            builder.workspace(workspace).run_into(&view, &mut room, &mut sum).unwrap();
            let got = stream.clone_dtoh(&got).unwrap();
            assert_eq!(u128::from(stream.clone_dtoh(&sum).unwrap()[0]), total, "{what:?}");
            let saturated: Vec<O> = starts.iter().map(|&start| O::of(start.min(most(O::BITS)))).collect();
            if let Some(i) = (0..needed).find(|&i| got[skip_out + i] != saturated[i]) {
                panic!("{what:?}: offset {i} is {:?} and should be {:?}", got[skip_out + i], saturated[i]);
            }
            assert!(got[..skip_out] == guard[..skip_out] && got[skip_out + needed..] == guard[skip_out + needed..]);
            let read = builder.run(&view);
            assert_eq!(read.is_ok(), fits, "{what:?}");
        }
    }
}

macro_rules! stamp { ($($name:ident $s:ty, $o:ty;)*) => { $( #[test] fn $name() { check::<$s, $o>(); } )* } }
stamp! {
    u8_u32 u8, u32; u8_u64 u8, u64; u16_u32 u16, u32; u16_u64 u16, u64; u32_u32 u32, u32; u32_u64 u32, u64;
    u64_u32 u64, u32; u64_u64 u64, u64; usize_u64 usize, u64;
}

/// Sums that overflow 32 or 64 bits, and a size that overflows when it is rounded up.
#[test]
fn what_does_not_fit() {
    let device = stream();
    for n in [2, 1000, 100_000] {
        let narrow = vec![u32::MAX / (n - 1) as u32; n as usize];
        let wide = vec![u64::MAX / (n - 1) as u64; n as usize];
        let mut single = vec![0_u64; n as usize];
        single[n as usize / 2] = u64::MAX - 3;
        assert!(matches!(offsets::<u32, u32>().run(&narrow), Err(Error::Overflow { .. })));
        assert!(matches!(offsets::<u64, u64>().run(&wide), Err(Error::Overflow { .. })));
        assert!(matches!(offsets::<u64, u64>().align(8).run(&single), Err(Error::Overflow { .. })));
        assert!(offsets::<u64, u64>().run(&single).is_ok());
        assert_eq!(offsets::<u64, u64>().run(&[u64::MAX]).ok(), Some(vec![0]));
        let Some(stream) = &device else { continue };
        let [wide, single] = [wide, single].map(|sizes| stream.clone_htod(&sizes).unwrap());
        let narrow = stream.clone_htod(&narrow).unwrap();
        let mut total = stream.alloc_zeros::<u64>(1).unwrap();
        let mut starts = stream.alloc_zeros::<u32>(n as usize + 1).unwrap();
        offsets::<u32, u32>().with_total().run_into(&narrow, &mut starts, &mut total).unwrap();
        assert!(stream.clone_dtoh(&total).unwrap()[0] > u32::MAX.into());
        assert_eq!(stream.clone_dtoh(&starts).unwrap()[n as usize], u32::MAX, "it does not wrap");
        assert!(matches!(offsets::<u32, u32>().run(&narrow), Err(Error::Overflow { .. })));
        assert!(matches!(offsets::<u64, u64>().run(&wide), Err(Error::Overflow { .. })));
        assert!(matches!(offsets::<u64, u64>().align(8).run(&single), Err(Error::Overflow { .. })));
        assert!(offsets::<u64, u64>().run(&single).is_ok());
    }
    let error = offsets::<u8, u32>().align(12).run(&[1, 2]).unwrap_err();
    assert!(matches!(error, Error::Align { align: 12, .. }), "{error}");
    let error = offsets::<u8, u32>().with_total().run_into(&[1, 2], &mut [0; 2], &mut [0]).unwrap_err();
    assert!(matches!(error, Error::Size { needed: 3, found: 2, .. }), "{error}");
}

fn walk<S: Size + Number + DeviceRepr, O: Index + Number + DeviceRepr>() {
    let stream = or_skip!(stream());
    let mut workspace = Workspace::new(&stream);
    for n in [1, 700, 5000, 530_000, 4_300_000_usize] {
        let sizes: Vec<u128> = (0..n as u128).map(|i| i * 7 % 31).collect();
        let input = stream.clone_htod(&sizes.iter().map(|&size| S::of(size)).collect::<Vec<_>>()).unwrap();
        let mut starts = stream.clone_htod(&vec![O::of(9); n + 1]).unwrap();
        let mut total = stream.clone_htod(&[9_u64]).unwrap();
        let builder = offsets::<S, O>().with_total().align(4);
        builder.workspace(&mut workspace).run_into(&input, &mut starts, &mut total).unwrap();
        let expected: u128 = sizes.iter().map(|size| size.next_multiple_of(4)).sum();
        assert_eq!(stream.clone_dtoh(&total).unwrap(), [expected as u64]);
        assert_eq!(stream.clone_dtoh(&starts).unwrap()[n], O::of(expected));
    }
}

/// A short walk for compute-sanitizer: by rows, and with sizes as wide as offsets.
#[test]
fn sanitize() {
    walk::<u32, u64>();
    walk::<u8, u32>();
    walk::<u32, u32>();
    walk::<u64, u64>();
}

/// More than 2^32 sizes, and a total above that: 8 of every block of offsets are checked.
#[test]
fn past_32_bits() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = (1_usize << 32) + 54_321 + rng.below(10_000);
    let sizes = rng.bytes(n);
    let input = stream.clone_htod(&sizes).unwrap();
    let mut starts = stream.alloc_zeros::<u64>(n + 1).unwrap();
    let mut total = stream.alloc_zeros::<u64>(1).unwrap();
    offsets::<u8, u64>().with_total().run_into(&input, &mut starts, &mut total).unwrap();
    const EVERY: usize = 40_000_003;
    let mut sum = 0_u64;
    for (k, part) in sizes.chunks(EVERY).enumerate() {
        let first = k * EVERY;
        let got = stream.clone_dtoh(&starts.slice(first..(first + 8).min(n + 1))).unwrap();
        let mut expected = sum;
        for (i, got) in got.into_iter().enumerate() {
            assert_eq!(got, expected, "offset {}", first + i);
            expected += u64::from(part.get(i).copied().unwrap_or(0));
        }
        sum += part.iter().map(|&size| u64::from(size)).sum::<u64>();
    }
    assert_eq!(stream.clone_dtoh(&starts.slice(n..)).unwrap(), [sum]);
    assert_eq!(stream.clone_dtoh(&total).unwrap(), [sum]);
}
