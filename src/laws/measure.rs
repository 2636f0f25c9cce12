//! What counts as equal. The rule is in the module's documentation.

use crate::Element;
use half::{bf16, f16};
use std::any::TypeId;
use std::sync::Arc;

/// Whether the first two carries, results that should be the same, are close enough; the third argument holds the
/// carries that they were made from.
pub(super) type Close<C> = dyn Fn(C, C, &[C]) -> bool + Send + Sync;

/// When two carries that should be the same are.
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
    /// Whether it can tell: how far a carry that is not a float may be off is for the user to say.
    pub(super) fn is_known(&self) -> bool {
        self.exact || self.close.is_some() || float(C::zeroed()).is_some()
    }

    /// Whether two results that were made from `from` are the same.
    pub(super) fn same(&self, one: C, other: C, from: &[C]) -> bool {
        if same_bits(&one, &other) {
            return true;
        }
        match &self.close {
            _ if self.exact => false,
            Some(close) => close(one, other, from),
            None => is_close(one, other, from),
        }
    }

    /// Whether the steps left the range in which results differ by rounding alone.
    pub(super) fn passes_over(&self, steps: &[Step<C>]) -> bool {
        !self.exact && self.close.is_none() && steps.iter().any(leaves_the_range)
    }
}

pub(super) fn same_bits<X: Element>(x: &X, y: &X) -> bool {
    bytemuck::bytes_of(x) == bytemuck::bytes_of(y)
}

// ---- rounding ----------------------------------------------------------------------------------------------------------------

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

/// Whether two results made from `from` are two NaN or at most 8 epsilon of the largest finite magnitude apart.
fn is_close<C: Element>(one: C, other: C, from: &[C]) -> bool {
    let (Some(x), Some(y)) = (float(one), float(other)) else { return false };
    if x.value.is_nan() || y.value.is_nan() {
        return x.value.is_nan() && y.value.is_nan();
    }
    let all = from.iter().copied().chain([one, other]).filter_map(float).map(|x| x.value.abs());
    let magnitude = all.filter(|x| x.is_finite()).fold(0.0, f64::max);
    (x.value - y.value).abs() <= 8.0 * x.epsilon * magnitude
}

/// Two operands and what they were combined to.
pub(super) type Step<C> = [C; 3];

/// Whether a step overflows or underflows: then what follows is off by more than rounding.
fn leaves_the_range<C: Element>(&[a, b, c]: &Step<C>) -> bool {
    let (Some(a), Some(b), Some(c)) = (float(a), float(b), float(c)) else { return false };
    let overflow = a.value.is_finite() && b.value.is_finite() && !c.value.is_finite();
    let underflow = a.value != 0.0 && b.value != 0.0 && c.value.abs() < c.least_normal;
    overflow || underflow
}
