//! The measure of equality. The documentation of `laws` states the rule.

use super::values::{Bytes, Kind, Layout, parts};
use crate::Element;
use bytemuck::{bytes_of, bytes_of_mut, cast_slice};
use half::{bf16, f16};
use std::any::TypeId;
use std::sync::Arc;

/// Whether the first two carries count as equal. The third argument holds the operands and
/// intermediate results.
pub(super) type Close<C> = dyn Fn(C, C, &[C]) -> bool + Send + Sync;

/// The measure of equality of an operator's carries.
pub(super) struct Measure<C> {
    pub(super) exact: bool,
    pub(super) close: Option<Arc<Close<C>>>,
}

impl<C> Clone for Measure<C> {
    fn clone(&self) -> Self {
        Measure { exact: self.exact, close: self.close.clone() }
    }
}

impl<C: Element> Measure<C> {
    /// Whether a bound is known. The user gives the measure for a carry without floats or of
    /// unknown fields.
    pub(super) fn is_known(&self) -> bool {
        self.exact || self.close.is_some() || float(C::zeroed()).is_some() || any_has_float(&[C::zeroed()], |_| true)
    }

    /// Whether two results of the operands `from` count as equal. `again` recomputes the first
    /// result, and then the other one if it has another grouping.
    pub(super) fn same(&self, one: C, other: C, from: &[C], again: &[Again<C>]) -> bool {
        if same_bits(&one, &other) {
            return true;
        }
        match &self.close {
            _ if self.exact => false,
            Some(close) => close(one, other, from),
            None if float(one).is_some() => is_close(one, other, from),
            None => fields_are_close(one, other, again),
        }
    }

    /// Whether a step overflowed or underflowed, so that results may differ by more than rounding.
    pub(super) fn passes_over(&self, steps: &[Step<C>]) -> bool {
        !self.exact && self.close.is_none() && steps.iter().any(leaves_the_range)
    }

    /// Whether structs of floats have a float too large, too small or not finite for a product of
    /// three.
    pub(super) fn passes_over_operands(&self, operands: &[C]) -> bool {
        self.is_of_struct() && any_has_float(operands, |x| !x.is_in_the_middle())
    }

    /// As `passes_over_operands`, but only for finite floats.
    pub(super) fn passes_over_finite_operands(&self, operands: &[C]) -> bool {
        self.is_of_struct() && any_has_float(operands, |x| x.value.is_finite() && !x.is_in_the_middle())
    }

    fn is_of_struct(&self) -> bool {
        !self.exact && self.close.is_none() && float(C::zeroed()).is_none()
    }
}

pub(super) fn same_bits<X: Element>(x: &X, y: &X) -> bool {
    bytemuck::bytes_of(x) == bytemuck::bytes_of(y)
}

// ---- rounding -----------------------------------------------------------------------------------

/// A float of any format, exactly.
#[derive(Clone, Copy, Debug)]
struct Float {
    value: f64,
    epsilon: f64,
    /// The least positive number with all its digits.
    least_normal: f64,
}

/// The carry as a float, if it is one.
fn float<C: Element>(carry: C) -> Option<Float> {
    macro_rules! formats { ($($t:ident)*) => { $(
        if TypeId::of::<C>() == TypeId::of::<$t>() {
            let value: $t = bytemuck::cast(carry);
            return Some(Float { value: value.into(), epsilon: $t::EPSILON.into(), least_normal: $t::MIN_POSITIVE.into() });
        }
    )* } }
    formats! { f32 f64 f16 bf16 }
    None
}

/// Whether two results of `from` are both NaN or differ by at most 8 epsilon of the largest finite
/// magnitude. The magnitude is at least the least normal number: roundings of subnormal numbers are
/// as large as of that one.
fn is_close<C: Element>(one: C, other: C, from: &[C]) -> bool {
    let (Some(x), Some(y)) = (float(one), float(other)) else { return false };
    if x.value.is_nan() || y.value.is_nan() {
        return x.value.is_nan() && y.value.is_nan();
    }
    let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
    let mut magnitude = finite(x.value).max(finite(y.value)).max(x.least_normal);
    for &carry in from {
        magnitude = float(carry).map_or(0.0, |x| finite(x.value)).max(magnitude);
    }
    (x.value - y.value).abs() <= 8.0 * x.epsilon * magnitude
}

/// Two operands and their combination.
pub(super) type Step<C> = [C; 3];

/// Whether a step overflows or underflows.
fn leaves_the_range<C: Element>(&[a, b, c]: &Step<C>) -> bool {
    let (Some(a), Some(b), Some(c)) = (float(a), float(b), float(c)) else { return false };
    let overflow = a.value.is_finite() && b.value.is_finite() && !c.value.is_finite();
    let underflow = a.value != 0.0 && b.value != 0.0 && c.value.abs() < c.least_normal;
    overflow || underflow
}

// ---- structs of floats --------------------------------------------------------------------------

/// Recomputes a result, with every operand and every intermediate carry passed through the given
/// function.
pub(super) type Again<'a, C> = &'a dyn Fn(&dyn Fn(C) -> C) -> C;

impl Float {
    /// Zero, or so far from both ends of the range that a product of three such numbers is in it.
    fn is_in_the_middle(&self) -> bool {
        self.value == 0.0
            || (self.value.is_finite() && self.value.abs().log2().abs() <= -self.least_normal.log2() / 3.0)
    }
}

/// The offset and the value of each float of a struct.
fn fields(layout: Layout, carry: &[u8]) -> impl Iterator<Item = (usize, Float)> {
    parts(layout).into_iter().filter_map(move |(at, size, kind)| {
        let bytes = &carry[at..at + size];
        let x = match kind {
            Kind::F32 => float(bytemuck::pod_read_unaligned::<f32>(bytes)),
            Kind::F64 => float(bytemuck::pod_read_unaligned::<f64>(bytes)),
            Kind::F16 => float(bytemuck::pod_read_unaligned::<f16>(bytes)),
            Kind::Bf16 => float(bytemuck::pod_read_unaligned::<bf16>(bytes)),
            Kind::Integer | Kind::Flag | Kind::States => None,
        };
        Some((at, x?))
    })
}

/// Whether any float of the carries satisfies `like`.
fn any_has_float<C: Element>(carries: &[C], like: fn(Float) -> bool) -> bool {
    let layout = Layout::of::<C>();
    let has = |carry: &[u8]| fields(layout, carry).any(|(_, x)| like(x));
    cast_slice(carries).chunks_exact(size_of::<C>().max(1)).any(has)
}

/// Whether every float is within the bound from eight trials, and all other fields are the same.
fn fields_are_close<C: Element>(one: C, other: C, again: &[Again<C>]) -> bool {
    let layout = Layout::of::<C>();
    let mut tried = Vec::new();
    for (result, again) in [one, other].iter().zip(again) {
        for trial in 0..8 {
            let moved = again(&|mut carry| {
                nudge(layout, bytes_of_mut(&mut carry), trial);
                carry
            });
            tried.push([bytes_of(result).to_vec(), bytes_of(&moved).to_vec()]);
        }
    }
    bytes_are_close(layout, bytes_of(&one), bytes_of(&other), &tried)
}

/// The same on bytes. `tried` holds each result with its moved result.
fn bytes_are_close(layout: Layout, one: &[u8], other: &[u8], tried: &[[Bytes; 2]]) -> bool {
    let (mut a, mut b) = (one.to_vec(), other.to_vec());
    for (at, size, kind) in parts(layout) {
        if !matches!(kind, Kind::Integer | Kind::Flag | Kind::States) {
            a[at..at + size].fill(0);
            b[at..at + size].fill(0);
        }
    }
    let bound = |at: usize, x: Float, y: Float| {
        let pairs = tried.iter().flat_map(|[result, moved]| fields(layout, result).zip(fields(layout, moved)));
        let moved = pairs.filter(|((there, _), _)| *there == at).map(|((_, x), (_, y))| (x.value - y.value).abs());
        let moved = moved.fold(0.0, f64::max);
        8.0 * (moved + x.epsilon * x.value.abs().max(y.value.abs())) + x.least_normal
    };
    a == b
        && fields(layout, one).zip(fields(layout, other)).all(|((at, x), (_, y))| {
            x.value == y.value || (x.value.is_nan() && y.value.is_nan()) || (x.value - y.value).abs() <= bound(at, x, y)
        })
}

/// The end of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Moves each float by an epsilon of itself. A hash of the trial and the carry decides up or down.
fn nudge(layout: Layout, carry: &mut [u8], trial: u64) {
    let own = carry.iter().fold(trial, |own, &byte| mixed(own ^ u64::from(byte)));
    for (k, (at, size, kind)) in parts(layout).into_iter().enumerate() {
        let up = mixed(own.wrapping_add(k as u64)) & 1 == 1;
        let bytes = &mut carry[at..at + size];
        macro_rules! nudge {
            ($t:ident) => {{
                let x: $t = bytemuck::pod_read_unaligned(bytes);
                let off = x * $t::EPSILON;
                bytes.copy_from_slice(bytemuck::bytes_of(&if up { x + off } else { x - off }));
            }};
        }
        match kind {
            Kind::F32 => nudge!(f32),
            Kind::F64 => nudge!(f64),
            Kind::F16 => nudge!(f16),
            Kind::Bf16 => nudge!(bf16),
            Kind::Integer | Kind::Flag | Kind::States => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! least { ($($t:ident)*) => { $(
        /// The last digits of subnormal numbers may differ; a normal number and zero may not.
        #[test]
        fn $t() {
            let close = |x: $t, y: $t| is_close(x, y, &[x, y]);
            assert!(close($t::from_bits(3), $t::from_bits(4)) && close($t::from_bits(1), -$t::from_bits(0)));
            assert!(!close($t::MIN_POSITIVE, $t::from_bits(0)) && !close($t::INFINITY, $t::MAX));
        }
    )* } }
    least! { f32 f64 f16 bf16 }
}
