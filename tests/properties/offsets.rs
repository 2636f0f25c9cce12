//! Properties of offsets, on both engines.

use super::{Engine, for_all, on, on_both_engines, sizes};
use parascan::offsets;
use proptest::prelude::*;

/// Offsets are monotone, aligned, differ by at least the sizes, and end with the total.
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

on_both_engines! { offsets_are_apart }
