//! Properties of compaction, partition, unique, offsets, pack and expand, on both engines.

use super::{Engine, for_all};
use crate::common::stream;
use parascan::cudarc::driver::{CudaSlice, DeviceRepr};
use parascan::{NotEqual, compact, expand, offsets, pack, partition, unique};
use proptest::collection::vec;
use proptest::prelude::*;

/// Up to some tens of thousands of flags, in runs.
fn flags() -> impl Strategy<Value = Vec<u8>> {
    let runs = prop_oneof![
        4 => vec((0..3_u8, 1..4_usize), 0..200),
        2 => vec((0..3_u8, 1..400_usize), 0..200),
    ];
    runs.prop_map(|runs| runs.into_iter().flat_map(|(flag, length)| std::iter::repeat_n(flag, length)).collect())
}

/// Sizes, most of them small, and empty ones.
fn sizes() -> impl Strategy<Value = Vec<u32>> {
    vec(prop_oneof![3 => Just(0_u32), 6 => 0..20_u32, 1 => 0..5000_u32], 0..2000)
}

/// What a call gives on the engine for data there: `$there` is the host's data or a copy on the device.
macro_rules! on {
    ($engine:expr, |$($data:ident),*| $run:expr) => {
        match $engine {
            Engine::Host => $run,
            Engine::Device(stream) => {
                $( let $data = &uploaded(stream, $data); )*
                downloaded(stream, &$run)
            }
        }
    };
}

fn uploaded<T: DeviceRepr>(stream: &std::sync::Arc<parascan::cudarc::driver::CudaStream>, data: &[T]) -> CudaSlice<T> {
    if data.is_empty() { stream.null().unwrap() } else { stream.clone_htod(data).unwrap() }
}
fn downloaded<T: DeviceRepr>(stream: &parascan::cudarc::driver::CudaStream, data: &CudaSlice<T>) -> Vec<T> {
    if data.is_empty() {
        Vec::new()
    } else {
        data.stream().clone_dtoh(data).inspect(|_| stream.synchronize().unwrap()).unwrap()
    }
}

/// Items that say where they were.
fn places(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}

/// A partition is a permutation that keeps order on both sides, and a compaction is its front; the complement's is its back.
fn partition_is_a_permutation_that_keeps_order(engine: &Engine) {
    for_all(flags(), |flags| {
        let (flags, items) = (&flags[..], &places(flags.len())[..]);
        let mut both = places(items.len());
        let mut count = [0];
        match engine {
            Engine::Host => partition::<u32>().flags(flags).run_into(items, &mut both, &mut count).unwrap(),
            Engine::Device(stream) => {
                let (flags, items) = (uploaded(stream, flags), uploaded(stream, items));
                let (mut to, mut found) = (uploaded(stream, &both), stream.alloc_zeros::<u64>(1).unwrap());
                partition::<u32>().flags(&flags).run_into(&items, &mut to, &mut found).unwrap();
                (both, count) = (downloaded(stream, &to), [stream.clone_dtoh(&found).unwrap()[0]]);
            }
        }
        let (front, back) = both.split_at(count[0] as usize);
        for part in [front, back] {
            prop_assert!(part.is_sorted_by(|a, b| a < b));
        }
        prop_assert!(front.iter().all(|&i| flags[i as usize] != 0) && back.iter().all(|&i| flags[i as usize] == 0));
        prop_assert_eq!(front.len() + back.len(), items.len());
        let kept = on!(engine, |flags, items| compact::<u32>().flags(flags).run(items).unwrap());
        prop_assert_eq!(&kept, front);
        let others = on!(engine, |flags, items| compact::<u32>().flags(flags).complement().run(items).unwrap());
        prop_assert_eq!(&others, back);
        let indices = on!(engine, |flags| compact::<u8>().flags(flags).indices::<u32, _>(flags).unwrap());
        prop_assert_eq!(&indices, front);
        Ok(())
    });
}

/// A predicate, the flags of what it keeps and their bits say the same.
fn all_ways_to_say_it_agree(engine: &Engine) {
    for_all((flags(), 0..3_u8), |(items, value)| {
        let items = &items[..];
        let flags: &[u8] = &items.iter().map(|&x| u8::from(x != value)).collect::<Vec<_>>();
        let word = |flags: &[u8]| flags.iter().rev().fold(0_u64, |word, &flag| word << 1 | u64::from(flag));
        let bits: &[u64] = &flags.chunks(64).map(word).collect::<Vec<_>>();
        let one = on!(engine, |items| compact::<u8>().keep(NotEqual(value)).run(items).unwrap());
        let two = on!(engine, |items, flags| compact::<u8>().flags(flags).run(items).unwrap());
        let three = on!(engine, |items, bits| compact::<u8>().bits::<u64, _>(bits).run(items).unwrap());
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(&one, &three);
        Ok(())
    });
}

/// What is unique has no equal neighbours, stays as it is, and its runs begin where it says.
fn unique_is_idempotent(engine: &Engine) {
    for_all(flags(), |items| {
        let items = &items[..];
        let once = &on!(engine, |items| unique::<u8>().run(items).unwrap())[..];
        prop_assert!(once.windows(2).all(|pair| pair[0] != pair[1]));
        prop_assert_eq!(&on!(engine, |once| unique::<u8>().run(once).unwrap())[..], once);
        let begins = on!(engine, |items| unique::<u8>().indices::<u32, _>(items).unwrap());
        prop_assert_eq!(begins.iter().map(|&i| items[i as usize]).collect::<Vec<_>>(), once);
        Ok(())
    });
}

/// Offsets are monotone, aligned, apart by the sizes at least, and end with the total.
fn offsets_are_apart(engine: &Engine) {
    for_all((sizes(), 0..8_u32), |(sizes, log)| {
        let (sizes, align) = (&sizes[..], 1_u64 << log);
        let builder = offsets::<u32, u64>().align(align).with_total();
        let starts = on!(engine, |sizes| builder.run(sizes).unwrap());
        prop_assert_eq!(starts.len(), sizes.len() + 1);
        prop_assert_eq!(starts[0], 0);
        for (i, &size) in sizes.iter().enumerate() {
            prop_assert!(starts[i] % align == 0 && starts[i] + u64::from(size) <= starts[i + 1], "{}", i);
            prop_assert!(starts[i + 1] - starts[i] < u64::from(size) + align, "{}", i);
        }
        Ok(())
    });
}

/// What is packed is found by the way back.
fn expand_is_the_way_back(engine: &Engine) {
    for_all((sizes(), 0..10_000_usize), |(sizes, spare)| {
        let sizes = &sizes[..];
        let most = sizes.iter().copied().max().unwrap_or(0) as usize;
        let items: &[u16] = &(0..most + spare + 1).map(|i| (i * 40_503) as u16).collect::<Vec<_>>();
        let begins: &[u32] = &sizes
            .iter()
            .enumerate()
            .map(|(i, &size)| (i * 7919 % (items.len() - size as usize)) as u32)
            .collect::<Vec<_>>();
        let packed = on!(engine, |items, begins, sizes| pack::<u16, u32>().run(items, begins, sizes).unwrap().0);
        let starts = &on!(engine, |items, begins, sizes| pack::<u16, u32>().run(items, begins, sizes).unwrap().1)[..];
        prop_assert_eq!(packed.len(), starts[sizes.len()] as usize);
        let back = on!(engine, |starts| expand::<u32>().run::<u32, _>(starts).unwrap());
        prop_assert_eq!(packed.len(), back.len());
        for (j, (&item, &i)) in packed.iter().zip(&back).enumerate() {
            let at = begins[i as usize] + j as u32 - starts[i as usize];
            prop_assert_eq!(item, items[at as usize], "{}", j);
        }
        Ok(())
    });
}

macro_rules! stamp {
    ($($property:ident)*) => {
        mod on_host {
            use super::*;
            $( #[test] fn $property() { super::$property(&Engine::Host); } )*
        }
        mod on_device {
            use super::*;
            $( #[test] fn $property() {
                if let Some(stream) = stream() {
                    super::$property(&Engine::Device(stream));
                }
            } )*
        }
    };
}
stamp! {
    partition_is_a_permutation_that_keeps_order all_ways_to_say_it_agree unique_is_idempotent offsets_are_apart
    expand_is_the_way_back
}
