//! What scans and reductions by segment have to do with those without.

use super::*;
use crate::common::{ON_DEVICE, stream};
use parascan::operators::{Compose, Flagged, Matrix, Segmented};
use parascan::{Last, Max, Sum};

/// A scan by segment is the scans of all segments, one after the other, and a reduction is the last
/// of each inclusive scan, on either engine.
fn is_the_scan_of_each<Op: Operator<T>, T: Sample>() {
    let mut rng = Rng::new();
    let stream = stream();
    for (n, lengths) in [(500, Lengths::Below(9)), (9000, Lengths::Below(300)), (400_000, Lengths::Below(60_000))] {
        let segments = Segments::draw(&mut rng, n, lengths, true);
        let x: Vec<T> = data(&mut rng, Draw::exact_for::<Op, T>(), n);
        for options in options::<Op, T>(&mut rng, Draw::exact_for::<Op, T>()) {
            let scan = builder::<Op, T>(options);
            let offsets = segments.offsets::<u64>();
            let each: Vec<T> = segments.of_scan().flat_map(|segment| scan.run(&x[segment]).unwrap()).collect();
            assert_same(&scan.segments(&offsets).run(&x).unwrap(), &each, &(n, options));
            if ON_DEVICE && let Some(stream) = &stream {
                let (x, offsets) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&offsets).unwrap());
                let output = scan.segments(&offsets).run(&x).unwrap();
                assert_same(&stream.clone_dtoh(&output).unwrap(), &each, &("device", n, options));
            }
        }
        let scanned = scan::<Op, T>().segments(&segments.offsets::<u64>()).run(&x).unwrap();
        let filled: Vec<u32> = segments.offsets.iter().map(|&offset| offset as u32).collect();
        let mut filled = filled;
        filled.dedup(); // no empty segments
        let lasts: Vec<T> = filled[1..].iter().map(|&end| scanned[end as usize - 1]).collect();
        assert_same(&reduce::<Op, T>().segments(&filled).run(&x).unwrap(), &lasts, &n);
        if ON_DEVICE && let Some(stream) = &stream {
            let (x, filled) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&filled).unwrap());
            let output = reduce::<Op, T>().segments(&filled).run(&x).unwrap();
            assert_same(&stream.clone_dtoh(&output).unwrap(), &lasts, &("device", n));
        }
    }
}

#[test]
fn a_scan_of_each_segment() {
    is_the_scan_of_each::<Sum, u32>();
    is_the_scan_of_each::<Max, f32>();
    is_the_scan_of_each::<Last, u16>();
    is_the_scan_of_each::<Compose, Matrix<u32>>();
}

/// A scan by flags is the scan of flagged items by the segmented operator.
fn is_the_segmented_operator<Op: Operator<T>, T: Sample>()
where
    Flagged<T>: parascan::Element,
{
    let mut rng = Rng::new();
    let stream = stream();
    for (n, lengths) in [(100, Lengths::Below(9)), (70_000, Lengths::Below(300)), (400_000, Lengths::Half)] {
        let segments = Segments::draw(&mut rng, n, lengths, true);
        let x: Vec<T> = data(&mut rng, Draw::exact_for::<Op, T>(), n);
        let flags = segments.flags(&mut rng);
        let flagged = |(&x, &flag): (&T, &u8)| if flag != 0 { Flagged::head(x) } else { Flagged::inside(x) };
        let items: Vec<Flagged<T>> = x.iter().zip(&flags).map(flagged).collect();
        let expected = scan::<Segmented<Op>, Flagged<T>>().run(&items).unwrap();
        let expected: Vec<T> = expected.iter().map(|item| item.value).collect();
        assert_same(&scan::<Op, T>().heads(&flags).run(&x).unwrap(), &expected, &n);
        if ON_DEVICE && let Some(stream) = &stream {
            let (x, flags) = (stream.clone_htod(&x).unwrap(), stream.clone_htod(&flags).unwrap());
            let output = scan::<Op, T>().heads(&flags).run(&x).unwrap();
            assert_same(&stream.clone_dtoh(&output).unwrap(), &expected, &("device", n));
        }
    }
}

#[test]
fn a_scan_of_flagged_items() {
    is_the_segmented_operator::<Sum, i64>();
    is_the_segmented_operator::<Sum, f32>();
    is_the_segmented_operator::<Last, u32>();
    is_the_segmented_operator::<Compose, Matrix<u32>>();
}
