//! Elements of 3, 6 and 20 bytes, which tile no vector, and pairs of a value and its index, on the device: inputs and
//! outputs are views that begin at item 1, or at another.

use super::*;
use crate::common::segments::runs_oracle;
use bytemuck::Zeroable;
use parascan::Device;
use parascan::cudarc::driver::CudaSlice;
use parascan::operators::{ArgMax, Indexed};
use std::slice;

parascan::element! {
    /// Three words.
    pub(crate) struct Three<T> { first: T, second: T, third: T } for <u8>, <u16>
}
parascan::element! {
    /// Five words.
    pub(crate) struct Five { first: u32, second: u32, third: u32, fourth: u32, fifth: u32 }
}
parascan::operator! {
    /// Adds the first words, and takes the others from the later item.
    pub(crate) struct AddFirst
    on Three<u8>, Three<u16> {
        associativity: Exact,
        combine: |a, b| Three { first: a.first.wrapping_add(b.first), second: b.second, third: b.third },
    }
    on Five {
        associativity: Exact,
        combine: |a, b| Five {
            first: a.first.wrapping_add(b.first),
            second: b.second,
            third: b.third,
            fourth: b.fourth,
            fifth: b.fifth,
        },
    }
}

macro_rules! samples {
    ($($t:ty: $word:ident;)*) => { $( impl Sample for $t {
        fn draw(rng: &mut Rng, _: Draw, _: usize) -> Self {
            let mut item = Self::zeroed();
            let words: &mut [$word] = bytemuck::cast_slice_mut(slice::from_mut(&mut item));
            words.fill_with(|| rng.next() as $word);
            item
        }
        fn same(self, other: Self) -> bool {
            self == other
        }
    } )* };
}
samples! { Three<u8>: u8; Three<u16>: u16; Five: u32; }

/// Checks a scan by segments into other memory and in place, in views that begin `skip` items into a buffer.
fn check_scan<Op: Operator<T>, T: Sample, C: Segmentation<Device>>(
    engine: &mut OnDevice,
    rng: &mut Rng,
    scan: SegmentedScan<Op, T, C>,
    x: &[T],
    expected: &[T],
    skip: usize,
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), x.len(), skip, what);
    let (source, room) = (Guarded::new(rng, skip, x), Guarded::room(rng, skip, x.len()));
    let (mut data, mut output) = (engine.put(&source.all), engine.put(&room.all));
    let from = data.slice(source.items.clone());
    engine.scan_into(scan, &from, &mut output.slice_mut(room.items.clone())).unwrap();
    room.assert_holds(&engine.get(&output), expected, what);
    source.assert_holds(&engine.get(&data), x, &("the input", what));
    engine.scan_in_place(scan, &mut data.slice_mut(source.items.clone())).unwrap();
    source.assert_holds(&engine.get(&data), expected, &("in place", what));
}

/// Checks a reduction of segments, in such views.
fn check_reduce<Op: Operator<T>, T: Sample, C: parascan::Segments<Device>>(
    engine: &mut OnDevice,
    rng: &mut Rng,
    reduce: SegmentedReduce<Op, T, C>,
    x: &[T],
    expected: &[T],
    skip: usize,
    what: &dyn Debug,
) {
    let what = &(type_name::<(Op, T)>(), x.len(), skip, what);
    let (source, room) = (Guarded::new(rng, skip, x), Guarded::room(rng, skip, expected.len()));
    let (data, mut output) = (engine.put(&source.all), engine.put(&room.all));
    let from = data.slice(source.items.clone());
    engine.reduce_into(reduce, &from, &mut output.slice_mut(room.items.clone())).unwrap();
    room.assert_holds(&engine.get(&output), expected, what);
}

/// Lengths around three tiles, and 5 MiB.
fn some_lengths<T>(rng: &mut Rng) -> [usize; 4] {
    let whole = 3 * OnDevice::tile(size_of::<T>());
    [whole - 1, whole, whole + 1, (5 << 20) / size_of::<T>() + rng.below(1000)]
}

/// Short segments, long ones, and one of half of all items.
const LENGTHS: [Lengths; 3] = [Lengths::Below(40), Lengths::Below(5000), Lengths::Half];

fn reducer<Op: Operator<T>, T: Sample>(init: Option<T>) -> Reduce<Op, T> {
    let reduce = reduce::<Op, T>();
    init.map_or(reduce, |init| reduce.init(init))
}

/// Scans and reductions by rows and by offsets.
fn rows_and_offsets<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
    let mut rng = Rng::new();
    let (rng, draw) = (&mut rng, Draw::exact_for::<Op, T>());
    let all = options::<Op, T>(rng, draw);
    for n in some_lengths::<T>(rng) {
        let x: Vec<T> = data(rng, draw, n);
        for (k, columns) in [7, 300, 5000.min(n), n / 2].into_iter().enumerate() {
            let (skip, rows) = ([1, skip(rng)][k % 2], Segments::rows(n / columns, columns));
            let x = &x[..rows.n];
            for reverse in [false, true] {
                let options = Options { reverse, ..all[rng.below(all.len())] };
                let (scan, expected) =
                    (builder::<Op, T>(options).rows(columns), scan_oracle::<Op, T>(x, &rows, options));
                check_scan(engine, rng, scan, x, &expected, skip, &("rows", columns, options));
            }
            for init in [None, Some(x[0])] {
                let expected = reduce_oracle::<Op, T>(x, &rows, init, T::zeroed());
                let reduce = reducer::<Op, T>(init).rows(columns);
                check_reduce(engine, rng, reduce, x, &expected, skip, &("rows", columns, init));
            }
        }
        for (k, lengths) in LENGTHS.into_iter().enumerate() {
            let (skip, segments) = ([1, skip(rng)][k % 2], Segments::draw(rng, n, lengths, true));
            let offsets = engine.put(&segments.offsets::<u32>());
            for reverse in [false, true] {
                let options = Options { reverse, ..all[rng.below(all.len())] };
                let expected = scan_oracle::<Op, T>(&x, &segments, options);
                let scan = builder::<Op, T>(options).segments(&offsets);
                check_scan(engine, rng, scan, &x, &expected, skip, &("offsets", lengths, options));
            }
            for init in [None, Some(x[0])] {
                let expected = reduce_oracle::<Op, T>(&x, &segments, init, T::zeroed());
                let reduce = reducer::<Op, T>(init).segments(&offsets);
                check_reduce(engine, rng, reduce, &x, &expected, skip, &("offsets", lengths, init));
            }
        }
    }
}

/// Scans and reductions of runs by flags.
fn flags<Op: Operator<T>, T: Sample>(engine: &mut OnDevice) {
    let mut rng = Rng::new();
    let (rng, draw) = (&mut rng, Draw::exact_for::<Op, T>());
    let all = options::<Op, T>(rng, draw);
    for n in some_lengths::<T>(rng) {
        let x: Vec<T> = data(rng, draw, n);
        for (k, lengths) in LENGTHS.into_iter().enumerate() {
            let (skip, segments) = ([1, skip(rng)][k % 2], Segments::draw(rng, n, lengths, false));
            let flags = engine.put(&segments.flags(rng));
            let what = &(type_name::<(Op, T)>(), n, skip, lengths);
            for reverse in [false, true] {
                let options = Options { reverse, ..all[rng.below(all.len())] };
                let (scan, expected) = (builder::<Op, T>(options), scan_oracle::<Op, T>(&x, &segments, options));
                check_scan(engine, rng, scan.heads(&flags), &x, &expected, skip, &("flags", lengths, options));
            }
            let expected = runs_oracle::<Op, T>(&x, &segments, None);
            let (source, room) = (Guarded::new(rng, skip, &x), Guarded::room(rng, skip, n));
            let (data, mut output) = (engine.put(&source.all), engine.put(&room.all));
            let mut count: CudaSlice<u64> = engine.put(&[7, 8, 9]);
            let (from, mut to) = (data.slice(source.items.clone()), output.slice_mut(room.items.clone()));
            let runs = reduce::<Op, T>().heads(&flags);
            engine.reduce_runs_into(runs, &from, &mut to, &mut count.slice_mut(1..2)).unwrap();
            room.assert_holds(&engine.get(&output), &expected, what);
            assert_eq!(engine.get(&count), [7, expected.len() as u64, 9], "{what:?}");
        }
    }
}

#[test]
fn of_3_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    rows_and_offsets::<AddFirst, Three<u8>>(&mut engine);
    flags::<AddFirst, Three<u8>>(&mut engine);
}
#[test]
fn of_6_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    rows_and_offsets::<AddFirst, Three<u16>>(&mut engine);
    flags::<AddFirst, Three<u16>>(&mut engine);
}
#[test]
fn of_20_bytes() {
    let mut engine = or_skip!(OnDevice::new());
    rows_and_offsets::<AddFirst, Five>(&mut engine);
    flags::<AddFirst, Five>(&mut engine);
}

/// The first of the greatest values of each segment.
#[test]
fn greatest_with_index() {
    let mut engine = or_skip!(OnDevice::new());
    rows_and_offsets::<ArgMax, Indexed<f32, u32>>(&mut engine);
}
