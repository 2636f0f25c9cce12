//! Compaction, partition and unique of every type; offsets and expand.

use super::{Drawn, Place};
use crate::common::{Draw, Rng, assert_bytes, data};
use half::{bf16, f16};
use parascan::dynamic::{Type, View, compact, expand, offsets, partition, unique};

/// How items are selected.
#[derive(Clone, Copy, Debug)]
enum By {
    NonZero,
    Flags,
    Bits32,
    Bits64,
}

fn selections<T: Drawn>() {
    let mut rng = Rng::new();
    let zero = T::zeroed();
    for place in Place::all() {
        for by in [By::NonZero, By::Flags, By::Bits32, By::Bits64] {
            for complement in [false, true] {
                let n = rng.below(3000);
                let x: Vec<T> = data(&mut rng, Draw::Whole, n);
                let flags: Vec<u8> = (0..n).map(|_| (rng.below(3) as u8) << rng.below(7)).collect();
                let bit = |i: usize| u64::from(flags.get(i).is_some_and(|&flag| flag != 0));
                let bits: Vec<u64> = (0..n.div_ceil(64)).map(|k| (0..64).map(|j| bit(64 * k + j) << j).sum()).collect();
                let halves: Vec<u32> = bits.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
                let (flag_array, bit_array, half_array) = (place.put(&flags), place.put(&bits), place.put(&halves));
                let what = (T::TYPE, by, complement, n, &place);

                let is_selected = |i: usize| match by {
                    By::NonZero => x[i] != zero,
                    _ => flags[i] != 0,
                } != complement;
                let (chosen, rejected): (Vec<usize>, Vec<usize>) = (0..n).partition(|&i| is_selected(i));
                let [chosen_items, rejected_items] =
                    [&chosen, &rejected].map(|part| part.iter().map(|&i| x[i]).collect::<Vec<T>>());
                macro_rules! build {
                    ($builder:ident) => {{
                        let builder = match by {
                            By::NonZero => $builder(),
                            By::Flags => $builder().flags(flag_array.view()),
                            By::Bits32 => $builder().bits(half_array.view()),
                            By::Bits64 => $builder().bits(bit_array.view()),
                        };
                        if complement { builder.complement() } else { builder }
                    }};
                }
                let array = T::put(&place, &x);
                if array.len() != n {
                    continue; // the device's buffers are not empty
                }
                let items = array.view();

                assert_bytes(&T::get(&place, build!(compact).run(items).unwrap()), &chosen_items, &what);
                let got = build!(compact).indices(items, Type::I64).unwrap();
                assert!(place.get::<i64>(got).iter().map(|&i| i as usize).eq(chosen.iter().copied()), "{what:?}");
                let (mut output, mut count) = (T::put(&place, &vec![zero; n]), place.put(&[0_u64]));
                let mut indices = place.put(&vec![0_u32; n]);
                let outputs = (output.view_mut(), indices.view_mut(), count.view_mut());
                build!(compact).run_with_indices_into(items, outputs.0, outputs.1, outputs.2).unwrap();
                let found = place.get::<u64>(count)[0] as usize;
                assert_bytes(&T::get(&place, output)[..found], &chosen_items, &what);
                assert!(place.get::<u32>(indices)[..found].iter().map(|&i| i as usize).eq(chosen.iter().copied()));
                let (mut in_place, mut count) = (T::put(&place, &x), place.put(&[0_i64]));
                build!(compact).run_in_place(in_place.view_mut(), count.view_mut()).unwrap();
                let found = place.get::<i64>(count)[0] as usize;
                assert_bytes(&T::get(&place, in_place)[..found], &chosen_items, &what);
                let (mut output, mut count) = (T::put(&place, &vec![zero; n + 7]), place.put(&[7_u64]));
                build!(compact).append().run_into(items, output.view_mut(), count.view_mut()).unwrap();
                assert_eq!(place.get::<u64>(count), [7 + found as u64]);
                assert_bytes(&T::get(&place, output)[7..7 + found], &chosen_items, &what);

                let (both, selected) = build!(partition).run(items).unwrap();
                let both = T::get(&place, both);
                assert_bytes(&both[..selected], &chosen_items, &what);
                assert_bytes(&both[selected..], &rejected_items, &what);
                let (mut yes, mut no) = (T::put(&place, &vec![zero; n]), T::put(&place, &vec![zero; n]));
                let mut count = place.put(&[0_u64]);
                build!(partition).run_apart_into(items, yes.view_mut(), no.view_mut(), count.view_mut()).unwrap();
                assert_eq!(place.get::<u64>(count), [selected as u64]);
                assert_bytes(&T::get(&place, yes)[..selected], &chosen_items, &what);
                assert_bytes(&T::get(&place, no)[..n - selected], &rejected_items, &what);
            }
        }
    }
}

fn distinct<T: Drawn>() {
    let mut rng = Rng::new();
    for place in Place::all() {
        let n = 1 + rng.below(3000);
        let mut x: Vec<T> = data(&mut rng, Draw::Whole, n);
        for i in 1..n {
            if rng.below(3) > 0 {
                x[i] = x[i - 1];
            }
        }
        let what = (T::TYPE, n, &place);
        let firsts: Vec<usize> = (0..n).filter(|&i| i == 0 || x[i] != x[i - 1]).collect();
        let expected: Vec<T> = firsts.iter().map(|&i| x[i]).collect();
        let array = T::put(&place, &x);
        assert_bytes(&T::get(&place, unique().run(array.view()).unwrap()), &expected, &what);
        let indices = unique().indices(array.view(), Type::U32).unwrap();
        assert!(place.get::<u32>(indices).iter().map(|&i| i as usize).eq(firsts), "{what:?}");
    }
}

macro_rules! stamp { ($($t:ident)*) => { $(
    #[test]
    fn $t() {
        selections::<$t>();
        distinct::<$t>();
    }
)* } }
stamp! { f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 }

/// Offsets of every type of sizes, and the segments of the items back from them.
#[test]
fn lengths() {
    fn of<S: Drawn + Into<u64>>() {
        let mut rng = Rng::new();
        for place in Place::all() {
            let n = 1 + rng.below(1000);
            let sizes: Vec<S> = data(&mut rng, Draw::Whole, n);
            let sizes_array = S::put(&place, &sizes);
            let mut starts = vec![0_u64];
            for &size in &sizes {
                starts.push(starts[starts.len() - 1] + size.into());
            }
            let total = starts[n] as usize;
            let segments = |i: usize| starts.partition_point(|&start| start <= i as u64) - 1;
            for ty in [Type::U32, Type::U64, Type::I32, Type::I64] {
                let got = offsets().with_total().run(sizes_array.view(), ty).unwrap();
                let expanded = expand().run(got.view(), Type::I64).unwrap();
                assert!(place.get::<i64>(expanded).iter().map(|&k| k as usize).eq((0..total).map(segments)));
                let mut by = (place.put(&vec![0_u32; total.max(1)]), place.put(&vec![0_u32; total.max(1)]));
                expand().run_with_positions_into(got.view(), by.0.view_mut(), by.1.view_mut()).unwrap();
                let positions = (0..total).map(|i| i as u64 - starts[segments(i)]);
                assert!(place.get::<u32>(by.1)[..total].iter().map(|&i| u64::from(i)).eq(positions));
                let got: Vec<u64> = match ty {
                    Type::U32 => place.get::<u32>(got).into_iter().map(u64::from).collect(),
                    Type::I32 => place.get::<i32>(got).into_iter().map(|x| x as u64).collect(),
                    Type::U64 => place.get(got),
                    _ => place.get::<i64>(got).into_iter().map(|x| x as u64).collect(),
                };
                assert_eq!(got, starts);
                let aligned = offsets().align(8).run(sizes_array.view(), Type::U64).unwrap();
                assert!(place.get::<u64>(aligned).iter().all(|start| start % 8 == 0));
            }
        }
    }
    of::<u8>();
    of::<u16>();
    of::<u32>();
    of::<u64>();
    let refused = offsets().run(View::new(&[1.0_f32]), Type::U32).unwrap_err();
    let words = "offsets: the array of sizes should be of type u8, u16, u32 or u64 and is of f32";
    assert_eq!(refused.to_string(), words);
}
