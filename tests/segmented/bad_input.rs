//! Segments that do not fit the items. On the host they are errors, and nothing is written. On the
//! device the lengths are checked too, and bad offsets do no harm.

use super::*;
use parascan::cudarc::driver::CudaSlice;
use parascan::{Block, Last, Strategy, Sum};

/// The error of each call, none of which writes anything.
fn scan_error<C: Segmentation<parascan::Host>>(scan: SegmentedScan<Sum, u32, C>, n: usize) -> Error {
    let x: Vec<u32> = noise(&mut Rng::new(), n);
    let mut output: Vec<u32> = noise(&mut Rng::new(), n);
    let mut data = x.clone();
    let before = output.clone();
    let error = scan.run(&x).unwrap_err();
    assert_eq!(scan.run_into(&x, &mut output).unwrap_err().to_string(), error.to_string());
    assert_eq!(scan.run_in_place(&mut data).unwrap_err().to_string(), error.to_string());
    assert!(output == before && data == x, "nothing was written");
    error
}

fn reduce_error<C: parascan::Segments<parascan::Host>>(reduce: SegmentedReduce<Sum, u32, C>, n: usize) -> Error {
    let x: Vec<u32> = noise(&mut Rng::new(), n);
    let mut output: Vec<u32> = noise(&mut Rng::new(), 1000);
    let before = output.clone();
    let error = reduce.run(&x).unwrap_err();
    assert_eq!(reduce.run_into(&x, &mut output).unwrap_err().to_string(), error.to_string());
    assert!(output == before, "nothing was written");
    error
}

#[test]
fn offsets_on_the_host() {
    fn both(offsets: &[u64], n: usize, words: &str) {
        let narrow: Vec<u32> = offsets.iter().map(|&offset| offset.min(u32::MAX.into()) as u32).collect();
        for (primitive, error) in [
            ("scan", scan_error(scan::<Sum, u32>().segments(offsets), n)),
            ("scan", scan_error(scan::<Sum, u32>().segments(&narrow), n)),
            ("reduce", reduce_error(reduce::<Sum, u32>().segments(offsets), n)),
            ("reduce", reduce_error(reduce::<Sum, u32>().segments(&narrow), n)),
        ] {
            assert_eq!(error.to_string(), format!("{primitive}: {words}"));
        }
    }
    both(&[], 5, "the offsets has 0 elements, and 1 are needed");
    both(&[], 0, "the offsets has 0 elements, and 1 are needed");
    both(&[0, 3, 2, 5], 5, "offset 2 is less than the offset before it");
    both(&[4, 3], 5, "offset 1 is less than the offset before it");
    both(&[0, 9, 5], 5, "offset 2 is less than the offset before it");
    both(&[0, 3, 6], 5, "the items has 5 elements, and 6 are needed");
    both(&[1], 0, "the items has 0 elements, and 1 are needed");
    both(&[0, u32::MAX.into()], 1 << 20, "the items has 1048576 elements, and 4294967295 are needed");
    // Only the first of many, far from the beginning.
    let mut offsets: Vec<u64> = (0..200_000).collect();
    (offsets[150_000], offsets[190_000]) = (7, 8);
    both(&offsets, 200_000, "offset 150000 is less than the offset before it");
}

#[test]
fn rows_on_the_host() {
    let words = |error: Error| error.to_string();
    let rows = |columns| scan::<Sum, u32>().rows(columns);
    assert_eq!(words(scan_error(rows(3), 7)), "scan: the last row has 1 elements, and 3 are needed");
    assert_eq!(words(scan_error(rows(9), 7)), "scan: the last row has 7 elements, and 9 are needed");
    assert_eq!(
        words(scan_error(rows(usize::MAX), 7)),
        format!("scan: the last row has 7 elements, and {} are needed", usize::MAX)
    );
    assert_eq!(words(scan_error(rows(0), 7)), "scan: a row has 0 elements, and 1 are needed");
    assert_eq!(
        words(reduce_error(reduce::<Sum, u32>().rows(3), 7)),
        "reduce: the last row has 1 elements, and 3 are needed"
    );
    assert_eq!(words(reduce_error(reduce::<Sum, u32>().rows(0), 7)), "reduce: a row has 0 elements, and 1 are needed");
    for columns in [0, 1, 5, usize::MAX] {
        assert_eq!(rows(columns).run(&[]).unwrap(), []);
        assert_eq!(reduce::<Sum, u32>().rows(columns).run(&[]).unwrap(), []);
        assert_eq!(reduce::<Last, u32>().rows(columns).run(&[]).unwrap(), []);
    }
}

#[test]
fn selectors_on_the_host() {
    let words = |error: Error| error.to_string();
    let scan = scan::<Sum, u32>();
    assert_eq!(words(scan_error(scan.heads(&[1, 0]), 3)), "scan: the head flags has 2 elements, and 3 are needed");
    let bits = words(scan_error(scan.head_bits::<u32, _>(&[1, 0]), 65));
    assert_eq!(bits, "scan: the head bits, in words, has 2 elements, and 3 are needed");
    let bits = words(scan_error(scan.head_bits::<u64, _>(&[1]), 65));
    assert_eq!(bits, "scan: the head bits, in words, has 1 elements, and 2 are needed");
    assert_eq!(words(scan_error(scan.by_key(&[1_u16, 0]), 3)), "scan: the keys has 2 elements, and 3 are needed");
    // The host takes keys of any size.
    let keys = [[0_u64; 4], [0; 4], [1; 4]];
    assert_eq!(scan.by_key(&keys).run(&[1, 2, 3]).unwrap(), [1, 3, 3]);
}

#[test]
fn other_options_on_the_host() {
    let strategy = Strategy::LookBack(Block::WarpShuffles);
    let error = scan_error(scan::<Sum, u32>().strategy(strategy).rows(1), 3);
    assert!(matches!(error, Error::Strategy { primitive: "scan", .. }), "{error}");
    let error = scan::<Sum, u32>().rows(1).run_into(&[1, 2, 3], &mut [0; 2]).unwrap_err();
    assert!(matches!(error, Error::Length { primitive: "scan", input: 3, output: 2 }), "{error}");
    let error = reduce::<Sum, u32>().rows(1).run_into(&[1, 2, 3], &mut [0; 2]).unwrap_err();
    assert!(matches!(error, Error::Size { primitive: "reduce", found: 2, needed: 3, .. }), "{error}");
    let error = reduce::<Last, u32>().segments(&[0_u32, 2, 2, 3]).run(&[1, 2, 3]).unwrap_err();
    assert!(matches!(error, Error::Empty { primitive: "reduce" }), "{error}");
    assert_eq!(reduce::<Last, u32>().segments(&[0_u32, 2, 2, 3]).init(9).run(&[1, 2, 3]).unwrap(), [2, 9, 3]);
}

// ---- on the device ------------------------------------------------------------------------------

/// Offsets that descend or reach past the items: calls succeed, and nothing but the outputs
/// changes.
#[test]
fn offsets_on_the_device() {
    let mut engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let valid = Valid::calls(&engine, &mut rng);
    for n in [1, 1000, 100_000, 3_000_000] {
        for count in [1, 2, 100, 5000, 200_000] {
            for most in [n, n + 1, 10 * n, u32::MAX as usize] {
                // Some in order, some in no order.
                let mut offsets: Vec<u32> = (0..count).map(|_| rng.below(most) as u32).collect();
                if rng.below(2) == 0 {
                    offsets.sort_unstable();
                }
                let wide: Vec<u64> = offsets.iter().map(|&offset| u64::from(offset) << [0, 20][rng.below(2)]).collect();
                harmless(&mut engine, &mut rng, n, &offsets, None, &valid);
                harmless(&mut engine, &mut rng, n, &wide, None, &valid);
            }
        }
    }
}

/// Offsets of any magnitude in no order, or one in ten of them among ascending ones; of a known length, and of one in
/// memory. The lengths are those of one tile, of short inputs, of pieces in both calls and in a reduction.
#[test]
fn sanitize_bad_offsets() {
    let mut engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    let valid = Valid::calls(&engine, &mut rng);
    for n in [1, 5000, 400_000, 3_000_000] {
        for (segments, every) in [(200, 1), (200, 10), (1 + n / 20, 1), (1 + n / 20, 10)] {
            let mut bad = |bits: usize| {
                let mut offset = |k: usize| match rng.below(every) {
                    0 if rng.below(8) == 0 => usize::MAX >> (64 - bits),
                    0 => rng.next() as usize >> (64 - bits + rng.below(bits)),
                    _ => n * k / segments,
                };
                Segments { n, offsets: (0..=segments).map(&mut offset).collect() }
            };
            let (narrow, wide) = (bad(32).offsets::<u32>(), bad(64).offsets::<u64>());
            for length in [None, Some(rng.below(n + 1))] {
                harmless(&mut engine, &mut rng, n, &narrow, length, &valid);
                harmless(&mut engine, &mut rng, n, &wide, length, &valid);
            }
        }
    }
}

/// Scans and reduces by such offsets. With a `length` that is the number of items, which lies in memory.
fn harmless<I: Index + DeviceRepr>(
    engine: &mut OnDevice,
    rng: &mut Rng,
    n: usize,
    offsets: &[I],
    length: Option<usize>,
    valid: &[Valid],
) {
    let x: Vec<u32> = noise(rng, n);
    let source = Guarded::new(rng, 3, &x);
    let selectors = Guarded::new(rng, 1, offsets);
    let (input, offsets_in) = (engine.put(&source.all), engine.put(&selectors.all));
    let by = engine.view(&offsets_in, selectors.items.clone());
    let length_in = length.map(|length| engine.put(&[length as u64]));
    let what = (n, offsets.len(), length);
    for reverse in [false, true] {
        let room = Guarded::<u32>::room(rng, 5, n);
        let mut output = engine.put(&room.all);
        let scan = scan::<Sum, u32>().segments(&by);
        let scan = if reverse { scan.reverse() } else { scan };
        let (from, mut to) =
            (engine.view(&input, source.items.clone()), engine.view_mut(&mut output, room.items.clone()));
        match &length_in {
            None => engine.scan_into(scan, &from, &mut to).unwrap(),
            Some(length) => scan.workspace(&mut engine.workspace).len(length).run_into(&from, &mut to).unwrap(),
        }
        let got = engine.get(&output);
        let written = length.unwrap_or(n);
        room.assert_holds(&got, &got[room.items.clone()][..written], &("scan", what));
    }
    let room = Guarded::<u32>::room(rng, 5, offsets.len() - 1);
    let mut output = engine.put(&room.all);
    let (from, mut to) = (engine.view(&input, source.items.clone()), engine.view_mut(&mut output, room.items.clone()));
    let reduce = reduce::<Sum, u32>().segments(&by);
    match &length_in {
        None => engine.reduce_into(reduce, &from, &mut to).unwrap(),
        Some(length) => reduce.workspace(&mut engine.workspace).len(length).run_into(&from, &mut to).unwrap(),
    }
    let got = engine.get(&output);
    room.assert_holds(&got, &got[room.items.clone()], &("reduce", what));
    assert!(engine.get(&input) == source.all, "the input");
    assert!(bytemuck::cast_slice::<I, u8>(&engine.get(&offsets_in)) == bytemuck::cast_slice::<I, u8>(&selectors.all));
    // The workspace still serves.
    for valid in valid {
        valid.check(engine, &what);
    }
}

/// A scan and a reduction by valid offsets whose blocks draw tickets, and their results.
struct Valid {
    input: CudaSlice<u32>,
    offsets: CudaSlice<u32>,
    scanned: Vec<u32>,
    reduced: Vec<u32>,
}

impl Valid {
    /// One of 400 KB, which cuts the longest segment into pieces, and one of more than 16 MiB, whose reduction goes over
    /// stretches.
    fn calls(engine: &OnDevice, rng: &mut Rng) -> [Valid; 2] {
        [100_000, 4_300_000].map(|n| {
            let x: Vec<u32> = noise(rng, n);
            let segments = Segments { n, offsets: (0..=200).map(|k| 100 * k).chain([n - 1000, n]).collect() };
            let options = Options { exclusive: false, init: None, reverse: false };
            Valid {
                input: engine.put(&x),
                offsets: engine.put(&segments.offsets()),
                scanned: scan_oracle::<Sum, u32>(&x, &segments, options),
                reduced: reduce_oracle::<Sum, u32>(&x, &segments, None, 0),
            }
        })
    }

    /// Whether the calls have these results with the engine's workspace.
    #[track_caller]
    fn check(&self, engine: &mut OnDevice, before: &dyn Debug) {
        let (scan, reduce) = (scan::<Sum, u32>().segments(&self.offsets), reduce::<Sum, u32>().segments(&self.offsets));
        // initcheck does not see what a bulk copy writes, so the output begins as zeros.
        let mut scanned = engine.put(&vec![0; self.scanned.len()]);
        scan.workspace(&mut engine.workspace).run_into(&self.input, &mut scanned).unwrap();
        let reduced = reduce.workspace(&mut engine.workspace).run(&self.input).unwrap();
        assert_same(&engine.get(&scanned), &self.scanned, &("a scan after bad offsets", before));
        assert_same(&engine.get(&reduced), &self.reduced, &("a reduction after bad offsets", before));
    }
}

#[test]
fn lengths_on_the_device() {
    let OnDevice { stream, .. } = or_skip!(OnDevice::new());
    let input = stream.clone_htod(&[1_u32, 2, 3]).unwrap();
    let mut output = stream.clone_htod(&[7_u32, 8, 9]).unwrap();
    let flags = stream.clone_htod(&[1_u8, 0]).unwrap();
    let keys = stream.clone_htod(&[[0_u64; 3]; 3]).unwrap();
    let (none, one) = (stream.null::<u32>().unwrap(), stream.clone_htod(&[0_u32]).unwrap());
    let scan = scan::<Sum, u32>();
    let errors = [
        scan.rows(2).run_into(&input, &mut output).unwrap_err(),
        scan.rows(0).run_into(&input, &mut output).unwrap_err(),
        scan.heads(&flags).run_into(&input, &mut output).unwrap_err(),
        scan.head_bits::<u32, _>(&none).run_into(&input, &mut output).unwrap_err(),
        scan.segments(&none).run_into(&input, &mut output).unwrap_err(),
        reduce::<Sum, u32>().rows(2).run_into(&input, &mut output).unwrap_err(),
        reduce::<Sum, u32>().rows(1).run_into(&input, &mut output.slice_mut(..2)).unwrap_err(),
        reduce::<Sum, u32>().segments(&none).run_into(&input, &mut output).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, Error::Size { .. }), "{error}");
    }
    let error = scan.by_key(&keys).run_into(&input, &mut output).unwrap_err();
    assert!(matches!(error, Error::ItemSize { primitive: "scan", size: 24 }), "{error}");
    let error = scan.strategy(Strategy::LookBack(Block::WarpShuffles)).rows(1).run(&input).unwrap_err();
    assert!(matches!(error, Error::Strategy { .. }), "{error}");
    // No segments: nothing is launched, and nothing written.
    reduce::<Sum, u32>().segments(&one).run_into(&input, &mut output).unwrap();
    assert_eq!(stream.clone_dtoh(&output).unwrap(), [7, 8, 9]);
    assert_eq!(scan.rows(5).run(&none).unwrap().len(), 0);
    // No items, and segments.
    let offsets = stream.clone_htod(&[0_u32; 4]).unwrap();
    let sums = reduce::<Sum, u32>().init(5).segments(&offsets).run(&none).unwrap();
    assert_eq!(stream.clone_dtoh(&sums).unwrap(), [5; 3]);
}
