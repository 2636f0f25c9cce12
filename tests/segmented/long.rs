//! Past 2^32 items.

use super::*;
use crate::common::{much_memory, stream};
use parascan::{Max, Sum, Workspace, sort};
use rayon::prelude::*;

/// Segments of 64 items on average.
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

/// The least number of items past 2^32 that are whole rows.
pub(crate) fn whole_rows(columns: usize) -> usize {
    (1 << 32) / columns * columns + columns
}

/// The item of `rising` that alone is 255.
pub(crate) const GREATEST: usize = (1 << 32) + 1;

/// Bytes below 200 with 55 greater ones among them, from 200 up to 254, and then 255.
pub(crate) fn rising(rng: &mut Rng, n: usize) -> Vec<u8> {
    let mut x = rng.bytes(n);
    x.par_iter_mut().for_each(|byte| *byte %= 200);
    let mut places: Vec<usize> = (200..255).map(|_| rng.below(1 << 32)).collect();
    places.sort_unstable();
    for (place, value) in places.into_iter().zip(200..) {
        x[place] = value;
    }
    x[GREATEST] = 255;
    x
}

/// Checks an inclusive scan: each item is the combination of the item `before(i)` of the scan and of item i of `x`, or
/// without one before is item i of `x`.
pub(crate) fn assert_scanned(
    got: &[u8],
    x: &[u8],
    combine: impl Fn(u8, u8) -> u8 + Sync,
    before: impl Fn(usize) -> Option<usize> + Sync,
    what: &str,
) {
    assert_eq!(got.len(), x.len(), "{what}");
    (0..x.len()).into_par_iter().for_each(|i| {
        let expected = before(i).map_or(x[i], |before| combine(got[before], x[i]));
        assert_eq!(got[i], expected, "item {i} by {what}");
    });
}

/// Maxima of short rows, of longer ones and of two rows of 2^31 items; of runs by head bits; and of all items, of which
/// the greatest is nearly the last.
#[test]
fn maxima_past_2_to_the_32() {
    let stream = or_skip!(stream());
    let _memory = much_memory();
    let mut rng = Rng::new();
    let columns = [7, 1000, (1 << 31) + 3];
    let n = columns.map(whole_rows).into_iter().max().expect("three shapes");
    let x = rising(&mut rng, n);
    let mut workspace = Workspace::new(&stream);
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<u8>(n).unwrap();
    let mut got = vec![0; n];
    for columns in columns {
        let (n, what) = (whole_rows(columns), format!("rows of {columns}"));
        let from = input.slice(..n);
        stream.memset_zeros(&mut output).unwrap();
        let scan = scan::<Max, u8>().rows(columns).workspace(&mut workspace);
        scan.run_into(&from, &mut output.slice_mut(..n)).unwrap();
        stream.memcpy_dtoh(&output.slice(..n), &mut got[..n]).unwrap();
        assert_scanned(&got[..n], &x[..n], u8::max, |i| (!i.is_multiple_of(columns)).then(|| i - 1), &what);
        let reduced = reduce::<Max, u8>().rows(columns).workspace(&mut workspace).run(&from).unwrap();
        let reduced = stream.clone_dtoh(&reduced).unwrap();
        assert_eq!(reduced.len(), n / columns, "{what}");
        // The last item of a row of the scan is its maximum.
        reduced.par_iter().enumerate().for_each(|(row, &greatest)| {
            assert_eq!(greatest, got[row * columns + columns - 1], "row {row} of {columns}");
        });
    }

    // Three words in four have no head.
    let words: Vec<u64> =
        rng.bytes(n.div_ceil(64)).iter().map(|&byte| 1_u64.checked_shl(byte.into()).unwrap_or(0)).collect();
    let is_head = |i: usize| i == 0 || words[i / 64] >> (i % 64) & 1 != 0;
    let ends: Vec<usize> = (1..=n).into_par_iter().filter(|&i| i == n || is_head(i)).collect();
    let bits = stream.clone_htod(&words).unwrap();
    stream.memset_zeros(&mut output).unwrap();
    let scan = scan::<Max, u8>().head_bits::<u64, _>(&bits).workspace(&mut workspace);
    scan.run_into(&input, &mut output).unwrap();
    stream.memcpy_dtoh(&output, &mut got).unwrap();
    assert_scanned(&got, &x, u8::max, |i| (!is_head(i)).then(|| i - 1), "head bits");
    let runs = reduce::<Max, u8>().head_bits::<u64, _>(&bits).workspace(&mut workspace).run(&input).unwrap();
    let runs = stream.clone_dtoh(&runs).unwrap();
    assert_eq!(runs.len(), ends.len(), "runs");
    runs.par_iter().zip(&ends).for_each(|(&greatest, &end)| {
        assert_eq!(greatest, got[end - 1], "the run that ends before item {end}");
    });

    let all = reduce::<Max, u8>().rows(n).workspace(&mut workspace).run(&input).unwrap();
    assert_eq!(stream.clone_dtoh(&all).unwrap(), [255]);
    assert_eq!(reduce::<Max, u8>().workspace(&mut workspace).run(&input).unwrap(), 255);
    assert_eq!(reduce::<Max, u8>().workspace(&mut workspace).position(&input).unwrap(), GREATEST);
}
