//! Random arguments, and the comparison of results.

use crate::batch::{Function, Kind, Layout};
use crate::generate::Choices;

/// The number of pairs of arguments for each function.
pub(crate) const N: usize = 2048;

/// Consecutive random values of a function's argument. The ends of each range, zeros, infinities
/// and NaNs are frequent.
pub(crate) fn values(layout: &Layout, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
    };
    let mut all = vec![0; N * layout.size];
    for value in all.chunks_exact_mut(layout.size) {
        for &(at, size, kind) in &layout.numbers {
            let bytes = word().to_le_bytes();
            let bits = number(kind, size, &mut Choices(&bytes), word());
            value[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
    }
    all
}

/// The numbers of exponent bits and mantissa bits of a float.
fn exponent(kind: Kind, size: usize) -> (u64, u64) {
    let mantissa = match kind {
        Kind::F32 => 23,
        Kind::F64 => 52,
        Kind::F16 => 10,
        Kind::Bf16 => 7,
        Kind::Integer => return (0, 0),
    };
    let magnitude = u64::MAX >> (65 - 8 * size);
    (magnitude >> mantissa << mantissa, (1 << mantissa) - 1)
}

fn number(kind: Kind, size: usize, choices: &mut Choices, random: u64) -> u64 {
    let sign = 1 << (8 * size - 1);
    let (infinite, mantissa) = exponent(kind, size);
    let negative = if choices.one_in(2) { sign } else { 0 };
    if kind == Kind::Integer {
        return match choices.below(5) {
            0 => choices.of(&[0, 1, u64::MAX, sign, sign - 1, sign + 1, 2, 7]),
            1 => (random % 16).wrapping_sub(8),
            2 => random >> (random % 64),
            _ => random,
        };
    }
    let one = match kind {
        Kind::F64 => 1023 << 52,
        Kind::F16 => 15 << 10,
        Kind::Bf16 => 127 << 7,
        _ => 127 << 23,
    };
    let bits = match choices.below(4) {
        // Zero, the ends of the subnormal and of the normal numbers, one, infinity.
        0 => choices.of(&[0, 1, mantissa, mantissa + 1, one, infinite - 1, infinite, infinite | 1]) | negative,
        // Near one.
        1 => one.wrapping_add(random % (8 * mantissa)).wrapping_sub(4 * mantissa) | negative,
        _ => random & (sign | (sign - 1)),
    };
    // Rust may turn a signalling NaN into a quiet one.
    if is_nan(kind, size, bits) { bits | (mantissa + 1) >> 1 } else { bits }
}

fn is_nan(kind: Kind, size: usize, bits: u64) -> bool {
    let (infinite, mantissa) = exponent(kind, size);
    kind != Kind::Integer && bits & infinite == infinite && bits & mantissa != 0
}

/// The message of the first result that differs, if there is one. Where Rust panics, every value
/// passes.
pub(crate) fn difference(function: &Function, inputs: &[Vec<u8>; 2], theirs: &[u8]) -> Option<String> {
    let Function { output, inputs: layouts, .. } = function;
    let ours = (function.rust)(&inputs[0], &inputs[1]);
    let same = |ours: &[u8], theirs: &[u8]| {
        output.numbers.iter().all(|&(at, size, kind)| {
            let (ours, theirs) = (&ours[at..at + size], &theirs[at..at + size]);
            let both = [ours, theirs].map(|bytes| is_nan(kind, size, word(bytes)));
            ours == theirs || both == [true, true]
        })
    };
    let theirs = theirs.chunks_exact(output.size);
    ours.iter().zip(theirs).enumerate().find_map(|(i, (ours, theirs))| {
        let ours = ours.as_ref()?;
        let argument = |k: usize| shown(&layouts[k], &inputs[k][i * layouts[k].size..][..layouts[k].size]);
        let words = || {
            format!(
                "of {} and {}\n    Rust makes {}\n    C++ makes  {}",
                argument(0),
                argument(1),
                shown(output, ours),
                shown(output, theirs)
            )
        };
        (!same(ours, theirs)).then(words)
    })
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn shown(layout: &Layout, value: &[u8]) -> String {
    let number = |&(at, size, kind): &(usize, usize, Kind)| {
        let bits = word(&value[at..at + size]);
        match kind {
            Kind::F32 => format!("{:?} ({bits:#x})", f32::from_bits(bits as u32)),
            Kind::F64 => format!("{:?} ({bits:#x})", f64::from_bits(bits)),
            Kind::F16 => format!("{:?} ({bits:#x})", half::f16::from_bits(bits as u16)),
            Kind::Bf16 => format!("{:?} ({bits:#x})", half::bf16::from_bits(bits as u16)),
            Kind::Integer => format!("{} ({bits:#x})", (bits << (64 - 8 * size)) as i64 >> (64 - 8 * size)),
        }
    };
    layout.numbers.iter().map(number).collect::<Vec<_>>().join(", ")
}
