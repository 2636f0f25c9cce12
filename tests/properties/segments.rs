//! Properties of pack and expand, on both engines.

use super::{Engine, for_all, on, on_both_engines, sizes};
use parascan::{expand, pack};
use proptest::prelude::*;

/// Expand maps each packed item back to its segment.
fn expand_inverts_pack(engine: &Engine) {
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

on_both_engines! { expand_inverts_pack }
