//! Past 2^32 items, in segments of 64 on average.

use super::*;
use crate::common::{much_memory, stream};
use parascan::{Sum, Workspace, sort};
use rayon::prelude::*;

#[test]
fn past_2_to_the_32() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let n = (1_usize << 32) + 3;
    let x = rng.bytes(n);
    let mut flags = rng.bytes(n);
    flags.par_iter_mut().for_each(|flag| *flag = u8::from(*flag < 4));
    flags[0] = 1;
    let heads = (0..n as u64).into_par_iter().filter(|&i| flags[i as usize] != 0);
    let mut offsets: Vec<u64> = heads.collect();
    offsets.push(n as u64);
    let segments = offsets.len() - 1;

    let mut workspace = Workspace::new(&stream);
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<u8>(n).unwrap();
    let mut got = vec![0; n];
    let each = |check: &(dyn Fn(usize, Range<usize>) + Sync)| {
        let check = |i: usize| check(i, offsets[i] as usize..offsets[i + 1] as usize);
        (0..segments).into_par_iter().for_each(check);
    };
    let is_scan = |got: &[u8], what: &str| {
        each(&|_, segment| {
            let mut upto = 9_u8;
            for i in segment {
                assert_eq!(got[i], upto, "item {i} by {what}");
                upto = upto.wrapping_add(x[i]);
            }
        });
    };
    let is_reduction = |got: &[u8], what: &str| {
        assert_eq!(got.len(), segments, "segments by {what}");
        each(&|k, segment| {
            let sum = x[segment].iter().fold(9_u8, |sum, x| sum.wrapping_add(*x));
            assert_eq!(got[k], sum, "segment {k} by {what}");
        });
    };
    let (sums, totals) = (scan::<Sum, u8>().exclusive().init(9), reduce::<Sum, u8>().init(9));

    let on_device = stream.clone_htod(&flags).unwrap();
    sums.heads(&on_device).workspace(&mut workspace).run_into(&input, &mut output).unwrap();
    stream.memcpy_dtoh(&output, &mut got).unwrap();
    is_scan(&got, "heads");
    let by_heads = totals.heads(&on_device).workspace(&mut workspace).run(&input).unwrap();
    is_reduction(&stream.clone_dtoh(&by_heads).unwrap(), "heads");
    drop((on_device, by_heads));

    let on_device = stream.clone_htod(&offsets).unwrap();
    stream.memset_zeros(&mut output).unwrap();
    sums.segments(&on_device).workspace(&mut workspace).run_into(&input, &mut output).unwrap();
    stream.memcpy_dtoh(&output, &mut got).unwrap();
    is_scan(&got, "offsets");
    let by_offsets = totals.segments(&on_device).workspace(&mut workspace).run(&input).unwrap();
    is_reduction(&stream.clone_dtoh(&by_offsets).unwrap(), "offsets");
    drop(by_offsets);

    sort::<u8>().segments(&on_device).workspace(&mut workspace).run_into(&input, &mut output).unwrap();
    stream.memcpy_dtoh(&output, &mut got).unwrap();
    each(&|k, segment| {
        let mut sorted = x[segment.clone()].to_vec();
        sorted.sort_unstable();
        assert_eq!(got[segment], sorted, "segment {k} sorted");
    });
}
