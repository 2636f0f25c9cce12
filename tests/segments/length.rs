//! Numbers of segments that lie in memory: pack, expand and allocate use no segment behind them.

use super::*;
use crate::common::engines::{Buffers, OnDevice, OnHost};

/// Numbers that the memory of `most` segments may be said to have.
fn counts(rng: &mut Rng, most: usize) -> [u64; 6] {
    let some = rng.below(most + 1) as u64;
    [0, 1, some, most as u64, most as u64 + 1, u64::MAX]
}

fn upto(count: u64, most: usize) -> usize {
    most.min(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Packs `n` of the segments, whose others are said to be long and far away, and expands their offsets, behind
/// which anything lies.
fn check<E: Buffers>(engine: &E, rng: &mut Rng, lengths: Lengths, most: usize) {
    let all = lengths.draw(rng, most);
    let longest = all.iter().copied().max().unwrap_or(0) as usize;
    let items: Vec<u16> = noise(rng, 30_000 + longest);
    let from: Vec<u32> = all.iter().map(|_| rng.below(30_000) as u32).collect();
    for count in counts(rng, most) {
        let (n, what) = (upto(count, most), (lengths, most, count));
        let (mut sizes, mut begins) = (all.clone(), from.clone());
        sizes[n..].fill(u32::MAX);
        begins[n..].fill(u32::MAX);
        let expected: Vec<u16> = begins[..n]
            .iter()
            .zip(&sizes)
            .flat_map(|(&at, &size)| &items[at as usize..][..size as usize])
            .copied()
            .collect();
        let exact = starts(&sizes[..n]);

        let old: Vec<u16> = noise(rng, expected.len() + 3);
        let old_offsets: Vec<u32> = noise(rng, most + 1);
        let (length, x) = (engine.put(&[count]), engine.put(&items));
        let (begins, sizes) = (engine.put(&begins), engine.put(&sizes));
        let (mut packed, mut offsets, mut total) = (engine.put(&old), engine.put(&old_offsets), engine.put(&[5_u64]));
        let length = engine.view(&length, 0..1);
        pack::<u16, u32>()
            .len(&length)
            .run_into(
                &engine.view(&x, 0..items.len()),
                &engine.view(&begins, 0..most),
                &engine.view(&sizes, 0..most),
                &mut engine.view_mut(&mut packed, 0..old.len()),
                &mut engine.view_mut(&mut offsets, 0..most + 1),
                &mut engine.view_mut(&mut total, 0..1),
            )
            .unwrap();
        assert_eq!(engine.get(&total), [expected.len() as u64], "{what:?}");
        assert!(engine.get(&packed) == [&expected[..], &old[expected.len()..]].concat(), "{what:?}");
        let exact: Vec<u32> = exact.into_iter().map(|start| start as u32).collect();
        assert!(engine.get(&offsets) == [&exact[..], &old_offsets[n + 1..]].concat(), "{what:?}");

        let segment_of = (0..n).flat_map(|i| (exact[i]..exact[i + 1]).map(move |_| i as u64));
        let (segment_of, old): (Vec<u64>, Vec<u64>) = (segment_of.collect(), noise(rng, expected.len() + 3));
        let mut segments = engine.put(&old);
        let offsets = engine.view(&offsets, 0..most + 1);
        expand::<u32>().len(&length).run_into(&offsets, &mut engine.view_mut(&mut segments, 0..old.len())).unwrap();
        assert!(engine.get(&segments) == [&segment_of[..], &old[segment_of.len()..]].concat(), "{what:?}");
    }
}

fn suite<E: Buffers>(engine: &E) {
    let mut rng = Rng::new();
    for lengths in LENGTHS {
        for most in [1, 2, 100, 1025, 9000] {
            let most = if matches!(lengths, Lengths::Long) { most.min(300) } else { most };
            check(engine, &mut rng, lengths, most);
        }
    }
}

#[test]
fn counted_on_the_host() {
    suite(&OnHost);
}

#[test]
fn counted_on_the_device() {
    let engine = or_skip!(OnDevice::new());
    suite(&engine);
}

/// A short walk for the sanitizers.
#[test]
fn sanitize() {
    let engine = or_skip!(OnDevice::new());
    let mut rng = Rng::new();
    check(&engine, &mut rng, Lengths::Short, 3000);
    check(&engine, &mut rng, Lengths::Empty, 9000);
    in_new_memory();
}

/// New memory is for the segments alone, but for the offsets of a pack.
#[test]
fn in_new_memory() {
    let mut rng = Rng::new();
    let (most, items) = (2000, noise::<u32>(&mut rng, 100));
    let engine = OnDevice::new();
    for count in counts(&mut rng, most) {
        let n = upto(count, most);
        let sizes: Vec<u16> = (0..most).map(|_| rng.below(40) as u16).collect();
        let begins: Vec<u64> = sizes.iter().map(|&size| rng.below(100 - usize::from(size)) as u64).collect();
        let exact = starts(&sizes[..n].iter().map(|&size| u32::from(size)).collect::<Vec<_>>());
        let segment_of: Vec<u32> = (0..n).flat_map(|i| vec![i as u32; sizes[i].into()]).collect();
        let each = || begins[..n].iter().zip(&sizes);
        let expected: Vec<u32> =
            each().flat_map(|(&at, &size)| &items[at as usize..][..size.into()]).copied().collect();
        let mut offsets_in: Vec<u64> = noise(&mut rng, most + 1);
        offsets_in[..=n].copy_from_slice(&exact);

        let (packed, offsets) = pack::<u32, u64>().len(&[count]).run(&items, &begins, &sizes).unwrap();
        assert!(packed == expected && offsets[..=n] == exact, "{count} of {most}");
        assert!(expand::<u64>().len(&[count]).run::<u32, _>(&offsets_in).unwrap() == segment_of, "{count} of {most}");
        let mut space = parascan::offsets::<u16, u64>().len(&[count]).allocate::<u8, _>(&sizes).unwrap();
        assert!(space.slices().map(|part| part.len()).eq(sizes[..n].iter().map(|&size| usize::from(size))));
        assert_eq!(space.into_parts().1, exact);

        let Some(engine) = &engine else { continue };
        let (x, length) = (engine.put(&items), engine.put(&[count]));
        let (begins, sizes_in, offsets_in) = (engine.put(&begins), engine.put(&sizes), engine.put(&offsets_in));
        let (packed, offsets) = pack::<u32, u64>().len(&length).run(&x, &begins, &sizes_in).unwrap();
        assert!(engine.get(&packed) == expected && engine.get(&offsets)[..=n] == exact, "{count} of {most}");
        let segments = expand::<u64>().len(&length).run::<u32, _>(&offsets_in).unwrap();
        assert!(engine.get(&segments) == segment_of, "{count} of {most}");
        let space = parascan::offsets::<u16, u64>().len(&length).allocate::<u8, _>(&sizes_in);
        let mut space = space.unwrap();
        let views = space.views().unwrap();
        assert!(views.iter().map(|part| part.len()).eq(sizes[..n].iter().map(|&size| usize::from(size))));
        assert_eq!(engine.get(&space.into_parts().1), exact);
    }
    let none = pack::<u8, u32>().len::<parascan::Host, [u64]>(&[]).run(b"abc", &[0], &[1_u8]);
    assert!(matches!(none, Err(Error::Size { primitive: "pack", what: "the length", .. })), "{none:?}");
    let none = expand::<u32>().len::<parascan::Host, [u64]>(&[]).run::<u32, _>(&[0, 1]);
    assert!(matches!(none, Err(Error::Size { primitive: "expand", what: "the length", .. })), "{none:?}");
}
