//! Every choice, in every form of compaction, against a filter of the standard library.

use super::{choices::low_bit_of_each, columns::What, *};
use crate::cpu::random::noise;
use crate::cpu::threads::on_threads;
use bytemuck::{Pod, bytes_of, bytes_of_mut, cast_slice};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How a test runs.
#[derive(Clone, Copy)]
struct Case {
    /// `None`: the shape that the types give.
    shape: Option<Shape>,
    avx2: bool,
}

impl Case {
    fn compaction<'a>(
        self,
        choice: &'a dyn Choice,
        complement: bool,
        selected: &'a [Column],
        rejected: &'a [Column],
    ) -> Compaction<'a> {
        let compaction = Compaction::new(choice, complement, selected, rejected);
        Compaction { shape: self.shape.unwrap_or(compaction.shape), avx2: self.avx2, ..compaction }
    }
}

/// Runs on pools of 1, 2 and 3 threads, with tiny tiles and with the types' own, with AVX2 and
/// without.
fn on_all(run: impl Fn(Case) + Sync) {
    let tiny = Shape { tile: 192, chunk: 128, group: 64, small: 0 };
    let small = Shape { small: usize::MAX, chunk: 64, ..tiny };
    let one_block = Shape { tile: 64, chunk: 64, ..tiny };
    let groups = Shape { tile: 320, chunk: 320, group: 128, small: 0 };
    for threads in [1, 2, 3] {
        for shape in [Some(tiny), Some(small), Some(one_block), Some(groups), None] {
            for avx2 in [false, true] {
                if !avx2 || has_avx2() {
                    on_threads(threads, || run(Case { shape, avx2 }));
                }
            }
        }
    }
}

/// The predicate is called once for each item, since another call might answer otherwise.
#[test]
fn record_calls_the_predicate_once_an_item() {
    for n in [0, 1, 63, 64, 65, 1000, if cfg!(miri) { 2000 } else { 600_001 }] {
        let items: Vec<u32> = noise(n, 7).map(|z| (z >> 20) as u32).collect();
        let calls = AtomicUsize::new(0);
        let keeps = |x: u32| {
            calls.fetch_add(1, Relaxed);
            x.is_multiple_of(3)
        };
        for complement in [false, true] {
            calls.store(0, Relaxed);
            let choice = ByPredicate { items: items.as_ptr(), keeps: &keeps };
            let mut words = vec![0; words_for(n)];
            // SAFETY: the choice reads n items.
            let count = unsafe { record(n, &choice, complement, &mut words) };
            assert_eq!(calls.load(Relaxed), n);
            let bit = |i: usize| words[i / BLOCK] >> (i % BLOCK) & 1 == 1;
            assert!((0..n).all(|i| bit(i) == (items[i].is_multiple_of(3) != complement)));
            assert_eq!((0..n).filter(|&i| bit(i)).count(), count);
        }
    }
}

fn lengths() -> &'static [usize] {
    if cfg!(miri) { &[0, 1, 65, 300] } else { &[0, 1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 384, 1000, 5000] }
}

/// Which of `n` items are selected: shares from none to all, and runs.
fn selections(n: usize, seed: u64) -> Vec<Vec<bool>> {
    let share = |percent: u64| noise(n, seed + percent).map(|z| (z >> 33) % 100 < percent).collect();
    let mut runs = vec![];
    for (k, z) in noise(n, seed).enumerate() {
        runs.extend((0..(z >> 40) % 300).map(|_| k % 2 == 1));
        if runs.len() >= n {
            break;
        }
    }
    runs.resize(n, true);
    vec![share(0), share(1), share(10), share(50), share(99), share(100), runs]
}

/// Items of any bytes whose lowest bit says whether they are selected.
fn marked<T: Pod>(keep: &[bool], seed: u64) -> Vec<T> {
    let mut bytes = noise(keep.len() * size_of::<T>(), seed).map(|z| (z >> 32) as u8);
    let mut make = |&keep: &bool| {
        let mut item = T::zeroed();
        for byte in bytes_of_mut(&mut item) {
            *byte = bytes.next().unwrap();
        }
        bytes_of_mut(&mut item)[0] = (bytes_of(&item)[0] & !1) | u8::from(keep);
        item
    };
    keep.iter().map(&mut make).collect()
}

fn is_marked<T: Pod>(item: T) -> bool {
    bytes_of(&item)[0] & 1 != 0
}

/// Room for `len` items with a guard on either side.
struct Guarded<T> {
    all: Vec<T>,
    guard: T,
}

impl<T: Pod> Guarded<T> {
    fn new(len: usize) -> Self {
        let mut guard = T::zeroed();
        bytes_of_mut(&mut guard).fill(0xa5);
        Guarded { all: vec![guard; len + 2], guard }
    }

    fn at(&mut self) -> *mut T {
        self.all[1..].as_mut_ptr()
    }

    #[track_caller]
    fn is(&self, expected: &[T]) {
        let bytes = |items: &[T]| cast_slice::<T, u8>(items).to_vec();
        assert_eq!(bytes(&self.all[1..=expected.len()]), bytes(expected));
        let untouched = self.all[..1].iter().chain(&self.all[expected.len() + 1..]);
        assert!(untouched.into_iter().all(|item| bytes_of(item) == bytes_of(&self.guard)), "a guard is gone");
    }
}

/// Every choice in every form, on items of one type.
fn check<T: Pod + Send + Sync>() {
    for &n in lengths() {
        for (case, keep) in selections(n, n as u64).into_iter().enumerate() {
            let items: Vec<T> = marked(&keep, (n + case) as u64);
            let flags: Vec<u8> =
                keep.iter().zip(noise(n, 3)).map(|(&keep, z)| if keep { 1 << (z >> 61) } else { 0 }).collect();
            let take = |wanted: bool| items.iter().copied().filter(move |&item| is_marked(item) == wanted);
            let (selected, rejected): (Vec<T>, Vec<T>) = (take(true).collect(), take(false).collect());
            let indices: Vec<u32> = (0..n as u32).filter(|&i| keep[i as usize]).collect();
            let long_indices: Vec<u64> = indices.iter().map(|&i| u64::from(i)).collect();
            on_all(|case| {
                let from = items.as_ptr();
                let by_predicate = ByPredicate { items: from, keeps: is_marked::<T> };
                let by_flags = ByFlags { flags: flags.as_ptr() };

                let mut out = Guarded::new(selected.len());
                let columns = [Column::array(from, out.at())];
                // SAFETY: n items each, and room for the selected items.
                let count = unsafe { case.compaction(&by_predicate, false, &columns, &[]).compact(n) };
                assert_eq!(count, selected.len());
                out.is(&selected);

                let (mut out, mut others) = (Guarded::new(selected.len()), Guarded::new(rejected.len()));
                let (mut short, mut long) = (Guarded::new(selected.len()), Guarded::new(selected.len()));
                let indices_columns = [Column::indices::<u32>(short.at()), Column::indices::<u64>(long.at())];
                let columns = [Column::array(from, out.at()), indices_columns[0], indices_columns[1]];
                let others_columns = [Column::array(from, others.at())];
                // SAFETY: as above.
                let count = unsafe { case.compaction(&by_flags, false, &columns, &others_columns).compact(n) };
                assert_eq!(count, selected.len());
                out.is(&selected);
                others.is(&rejected);
                short.is(&indices);
                long.is(&long_indices);

                let mut out = Guarded::new(rejected.len());
                let columns = [Column::array(from, out.at())];
                // SAFETY: as above.
                let count = unsafe { case.compaction(&by_flags, true, &columns, &[]).compact(n) };
                assert_eq!(count, rejected.len());
                out.is(&rejected);

                for by_flag in [false, true] {
                    for complement in [false, true] {
                        let mut out = Guarded::new(n);
                        out.all[1..=n].copy_from_slice(&items);
                        let within = [Column::array(out.at().cast_const(), out.at())];
                        let choice = ByPredicate { items: out.at().cast_const(), keeps: is_marked::<T> };
                        let choice: &dyn Choice = if by_flag { &by_flags } else { &choice };
                        // SAFETY: n items, and a predicate on the same ones.
                        let count = unsafe { case.compaction(choice, complement, &within, &[]).compact_in_place(n) };
                        let expected = if complement { &rejected } else { &selected };
                        assert_eq!(count, expected.len());
                        out.all[1 + count..=n].fill(out.guard);
                        out.is(expected);
                    }
                }
            });
        }
    }
}

#[test]
fn every_type_agrees_with_a_filter() {
    check::<u8>();
    check::<u16>();
    check::<u32>();
    check::<u64>();
    check::<f32>();
    check::<[u8; 3]>();
    check::<[u32; 3]>();
    check::<u128>();
    check::<[u64; 5]>();
}

/// Some sizes have a loop of their own, and one loop serves all others.
#[test]
fn every_size_agrees_with_a_filter() {
    let n = 700;
    for size in if cfg!(miri) { vec![0, 5, 16, 17, 33] } else { (0..=40).chain([63, 64, 100, 255, 256, 300]).collect() }
    {
        for keep in selections(n, size as u64) {
            let flags: Vec<u8> = keep.iter().map(|&keep| u8::from(keep)).collect();
            let bytes: Vec<u8> = noise(n * size, 5).map(|z| (z >> 32) as u8).collect();
            let take = |wanted: bool| -> Vec<u8> {
                (0..n).filter(|&i| keep[i] == wanted).flat_map(|i| &bytes[i * size..(i + 1) * size]).copied().collect()
            };
            let (selected, rejected) = (take(true), take(false));
            on_all(|case| {
                let column = |from: *const u8, to: *mut u8| Column { what: What::Array(from), size, to };
                let by_flags = ByFlags { flags: flags.as_ptr() };
                let (mut out, mut others) = (Guarded::new(selected.len()), Guarded::new(rejected.len()));
                let mut within = Guarded::new(n * size);
                within.all[1..=n * size].copy_from_slice(&bytes);
                let from = bytes.as_ptr();
                let (columns, others_columns) = ([column(from, out.at())], [column(from, others.at())]);
                let same = [column(within.at().cast_const(), within.at())];
                // SAFETY: n items each, and room for the selected and for the rejected items.
                unsafe {
                    let count = case.compaction(&by_flags, false, &columns, &others_columns).compact(n);
                    assert_eq!(count, flags.iter().filter(|&&flag| flag != 0).count());
                    assert_eq!(case.compaction(&by_flags, false, &same, &[]).compact_in_place(n), count);
                }
                out.is(&selected);
                others.is(&rejected);
                within.all[1 + selected.len()..=n * size].fill(within.guard);
                within.is(&selected);
            });
        }
    }
}

#[test]
fn output_begins_at_an_index() {
    let (flags, items) = ([1_u8, 0, 1], [[1_u16, 2, 3], [4, 5, 6], [7, 8, 9]]);
    let (mut out, mut indices) = ([[0; 3]; 4], [0_u32; 4]);
    let columns = [Column::array(items.as_ptr(), out.as_mut_ptr()), Column::indices(indices.as_mut_ptr())];
    let columns = columns.map(|column| column.at_place(2));
    // SAFETY: three items, and room for two from the third on.
    assert_eq!(unsafe { compact(3, &ByFlags { flags: flags.as_ptr() }, false, &columns, &[]) }, 2);
    assert_eq!((out, indices), ([[0; 3], [0; 3], [1, 2, 3], [7, 8, 9]], [0, 0, 0, 2]));
}

#[test]
fn words_agree_with_a_filter() {
    for &n in lengths() {
        for keep in selections(n, n as u64 + 1000) {
            let indices: Vec<u64> = (0..n as u64).filter(|&i| keep[i as usize]).collect();
            // Bits past the last item are set.
            let bit = |i: usize| keep.get(i).copied().unwrap_or(true);
            let short: Vec<u32> = (0..n.div_ceil(32))
                .map(|w| (0..32).fold(0, |word, j| word | u32::from(bit(32 * w + j)) << j))
                .collect();
            let long: Vec<u64> = (0..n.div_ceil(64))
                .map(|w| (0..64).fold(0, |word, j| word | u64::from(bit(64 * w + j)) << j))
                .collect();
            on_all(|case| {
                let (by_short, by_long) = (ByWords { words: short.as_ptr() }, ByWords { words: long.as_ptr() });
                let (mut a, mut b) = (Guarded::new(indices.len()), Guarded::new(indices.len()));
                let (to_a, to_b) = ([Column::indices::<u64>(a.at())], [Column::indices::<u64>(b.at())]);
                // SAFETY: words for n items, and room for the selected items.
                unsafe {
                    assert_eq!(case.compaction(&by_short, false, &to_a, &[]).compact(n), indices.len());
                    assert_eq!(case.compaction(&by_long, false, &to_b, &[]).compact(n), indices.len());
                }
                a.is(&indices);
                b.is(&indices);
            });
        }
    }
}

fn check_distinct<T: Pod + Send + Sync + PartialEq>(make: impl Fn(u64) -> T) {
    for &n in lengths() {
        // Runs of one item, of some, and of all.
        for odds in [1, 2, 3, 50, u64::MAX] {
            let mut value = 1;
            let items: Vec<T> = noise(n, n as u64 + (odds & 63))
                .map(|z| {
                    value += u64::from((z >> 20) % odds == 0);
                    make(value)
                })
                .collect();
            let mut expected = items.clone();
            expected.dedup();
            on_all(|case| {
                let from = items.as_ptr();
                let (mut out, mut within) = (Guarded::new(expected.len()), Guarded::new(n));
                within.all[1..=n].copy_from_slice(&items);
                let to = [Column::array(from, out.at())];
                let same = [Column::array(within.at().cast_const(), within.at())];
                let (choice, within_choice) = (Distinct { items: from }, Distinct { items: within.at().cast_const() });
                // SAFETY: n items, and room for the selected items.
                unsafe {
                    let count = case.compaction(&choice, false, &to, &[]).compact(n);
                    assert_eq!(count, expected.len());
                    let count = case.compaction(&within_choice, false, &same, &[]).compact_in_place(n);
                    assert_eq!(count, expected.len());
                }
                out.is(&expected);
                within.all[1 + expected.len()..=n].fill(within.guard);
                within.is(&expected);
            });
        }
    }
}

#[test]
fn distinct_agrees_with_dedup() {
    check_distinct(|z| z as u8);
    check_distinct(|z| z as u32);
    check_distinct(|z| z);
    check_distinct(|z| [z as u32, 0, 7]);
    // Not a number is different from itself.
    check_distinct(|z| if z % 3 == 0 { f32::NAN } else { z as f32 });
}

/// Tiles and chunks of the types' own sizes, through the functions that builders call.
#[test]
fn full_tiles_agree_with_a_filter() {
    if cfg!(miri) {
        return;
    }
    fn check<T: Pod + Send + Sync>() {
        let n = 3 * TILE_BYTES / size_of::<T>() + 4711;
        for (case, keep) in selections(n, 11).into_iter().enumerate() {
            let items: Vec<T> = marked(&keep, case as u64);
            let (selected, rejected): (Vec<T>, Vec<T>) = items.iter().copied().partition(|&item| is_marked(item));
            for threads in [1, 2, 3] {
                let (mut out, mut others) = (Guarded::new(selected.len()), Guarded::new(rejected.len()));
                let mut within = Guarded::new(n);
                within.all[1..=n].copy_from_slice(&items);
                let choice = ByPredicate { items: items.as_ptr(), keeps: is_marked::<T> };
                let columns = [Column::array(items.as_ptr(), out.at())];
                let others_columns = [Column::array(items.as_ptr(), others.at())];
                let same = Column::array(within.at().cast_const(), within.at());
                let within_choice = ByPredicate { items: within.at().cast_const(), keeps: is_marked::<T> };
                on_threads(threads, || {
                    // SAFETY: n items each, and room for the selected and for the rejected items.
                    unsafe {
                        assert_eq!(compact(n, &choice, false, &columns, &others_columns), selected.len());
                        assert_eq!(compact(n, &choice, true, &others_columns, &columns), rejected.len());
                        assert_eq!(compact_in_place(n, &within_choice, false, same), selected.len());
                    }
                });
                out.is(&selected);
                others.is(&rejected);
                within.all[1 + selected.len()..=n].fill(within.guard);
                within.is(&selected);
            }
        }
    }
    check::<u8>();
    check::<u32>();
    check::<u64>();
    check::<[u32; 3]>();
    check::<[u64; 3]>();
    check::<[u64; 6]>();
}

#[test]
fn a_predicate_is_called_once_an_item() {
    for n in [1, 100, 1000] {
        let items: Vec<u32> = (0..n as u32).collect();
        on_all(|case| {
            let (calls, mut out) = (AtomicUsize::new(0), vec![0; n]);
            let keeps = |item: u32| calls.fetch_add(1, Relaxed) < n && item.is_multiple_of(2);
            let choice = ByPredicate { items: items.as_ptr(), keeps };
            let selected = [Column::array(items.as_ptr(), out.as_mut_ptr())];
            // SAFETY: n items, and room for all.
            assert_eq!(unsafe { case.compaction(&choice, false, &selected, &[]).compact(n) }, n.div_ceil(2));
            assert_eq!(calls.swap(0, Relaxed), n);
            let (mut items, calls) = (items.clone(), &calls);
            let keeps = |item: u32| calls.fetch_add(1, Relaxed) < n && item.is_multiple_of(2);
            let items = items.as_mut_ptr();
            let choice = ByPredicate { items: items.cast_const(), keeps };
            let selected = [Column::array(items.cast_const(), items)];
            // SAFETY: n items.
            assert_eq!(unsafe { case.compaction(&choice, false, &selected, &[]).compact_in_place(n) }, n.div_ceil(2));
            assert_eq!(calls.load(Relaxed), n);
        });
    }
}

#[test]
fn a_panic_of_the_predicate_reaches_the_caller() {
    let n = 1000;
    let items: Vec<u32> = (0..n as u32).collect();
    for bad in [0, 500, 999] {
        on_all(|case| {
            let (mut out, mut within) = (vec![0; n], items.clone());
            let keeps = move |item: u32| if item == bad { panic!("as asked") } else { item.is_multiple_of(3) };
            let choice = ByPredicate { items: items.as_ptr(), keeps };
            let selected = [Column::array(items.as_ptr(), out.as_mut_ptr())];
            // SAFETY: n items, and room for all.
            let run = || unsafe { case.compaction(&choice, false, &selected, &[]).compact(n) };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
            let within = within.as_mut_ptr();
            let selected = [Column::array(within.cast_const(), within)];
            let choice = ByPredicate { items: within.cast_const(), keeps };
            // SAFETY: as above.
            let run = || unsafe { case.compaction(&choice, false, &selected, &[]).compact_in_place(n) };
            assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        });
    }
}

#[test]
fn low_bits_of_bytes_are_packed() {
    for z in noise(200, 8) {
        let bytes = std::array::from_fn(|j| (z >> j & 1) as u8);
        assert_eq!(low_bit_of_each(bytes), z);
    }
}
