//! Sorts of every type of keys.

use super::{Cuts, Drawn, Place, Way, rows};
use crate::common::{Draw, Rng, any, assert_bytes, assert_same, data};
use half::{bf16, f16};
use parascan::dynamic::{Array, Type, sort};
use std::ops::Range;

/// The source indices of the keys in each segment, by a stable sort.
fn order<T: Drawn>(keys: &[T], segments: &[Range<usize>], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    for segment in segments {
        order[segment.clone()].sort_by(|&i, &j| {
            let order = keys[i].partial_cmp(&keys[j]).expect("no NaN is drawn");
            if descending { order.reverse() } else { order }
        });
    }
    order
}

fn gathered<T: Copy>(items: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&i| items[i]).collect()
}

fn sorts<T: Drawn>() {
    let mut rng = Rng::new();
    for place in Place::all() {
        for round in 0..4 {
            let columns = 1 + rng.below(50);
            let n = columns * (1 + rng.below(3000 / columns));
            let (x, payload) = (data::<T>(&mut rng, Draw::Whole, n), any::<u16>(&mut rng, n));
            let descending = round % 2 == 0;
            let what = (T::TYPE, round, n, columns, descending, &place);
            let build = || if descending { sort().descending() } else { sort() };
            let (keys, values) = (T::put(&place, &x), place.put(&payload));
            let keys_are = |got: Array, order: &[usize]| assert_same(&T::get(&place, got), &gathered(&x, order), &what);
            let values_are = |got: Array, order: &[usize]| {
                assert_bytes(&place.get::<u16>(got), &gathered(&payload, order), &what);
            };
            let indices_are = |got: Array, order: &[usize]| match got.ty() {
                Type::U32 => {
                    assert!(place.get::<u32>(got).iter().map(|&i| i as usize).eq(order.iter().copied()), "{what:?}")
                }
                Type::I64 => {
                    assert!(place.get::<i64>(got).iter().map(|&i| i as usize).eq(order.iter().copied()), "{what:?}")
                }
                ty => panic!("indices of {ty}"),
            };

            let all = order(&x, &rows(n, n), descending);
            keys_are(build().run(keys.view()).unwrap(), &all);
            let mut in_place = T::put(&place, &x);
            build().run_in_place(in_place.view_mut()).unwrap();
            keys_are(in_place, &all);
            let (sorted, moved) = build().run_pairs(keys.view(), values.view()).unwrap();
            keys_are(sorted, &all);
            values_are(moved, &all);
            let (mut in_place, mut moved) = (T::put(&place, &x), place.put(&payload));
            build().run_pairs_in_place(in_place.view_mut(), moved.view_mut()).unwrap();
            keys_are(in_place, &all);
            values_are(moved, &all);
            for ty in [Type::U32, Type::I64] {
                indices_are(build().indices(keys.view(), ty).unwrap(), &all);
            }

            let by_row = order(&x, &rows(n, columns), descending);
            keys_are(build().rows(columns).run(keys.view()).unwrap(), &by_row);
            let (sorted, moved) = build().rows(columns).run_pairs(keys.view(), values.view()).unwrap();
            keys_are(sorted, &by_row);
            values_are(moved, &by_row);
            indices_are(build().rows(columns).indices(keys.view(), Type::I64).unwrap(), &by_row);
            let local: Vec<usize> = by_row.iter().map(|i| i % columns).collect();
            indices_are(build().rows(columns).local_indices(keys.view(), Type::U32).unwrap(), &local);

            let cuts = Cuts::new(&mut rng, n);
            let by_run = order(&x, &cuts.runs, descending);
            let offsets = place.put(&cuts.offsets);
            keys_are(build().segments(offsets.view()).run(keys.view()).unwrap(), &by_run);
            cuts.each_way(&place, |way| {
                let sort = match way {
                    Way::Heads(flags) => build().heads(flags),
                    Way::HeadBits(words) => build().head_bits(words),
                    Way::Keys(keys) => build().by_key(keys),
                };
                let mut in_place = T::put(&place, &x);
                sort.run_in_place(in_place.view_mut()).unwrap();
                keys_are(in_place, &by_run);
            });
        }
    }
}

macro_rules! stamp { ($($t:ident)*) => { $(
    #[test]
    fn $t() {
        sorts::<$t>();
    }
)* } }
stamp! { f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 usize isize }
