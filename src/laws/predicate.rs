//! Agreement of a predicate's Rust body with its CUDA body.

use super::agreement::{Trouble, shrink};
use super::device::Device;
use super::search::{config, shown};
use super::values::{Bytes, Layout, any_bytes};
use super::{Violation, skipped};
use crate::cuda::kernels::p;
use crate::{Element, Error, Predicate, cuda};
use bytemuck::{bytes_of, pod_read_unaligned};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut};
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::any::{Any, type_name};
use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

/// The number of predicates drawn, and the number of items that each is tried on.
const DRAWN: usize = 512;

/// The law of the predicate `P` on items `T`: its Rust and its CUDA body are the same function.
///
/// The strategy `predicates` draws predicates with their parameters: [`any_bits`](super::any_bits)
/// for a predicate that [`predicate!`](crate::predicate) defined with fields, proptest's `Just` for
/// one without, and another strategy if some parameters are invalid. Returns a builder;
/// [`PredicateLaws`] has its options.
///
/// # Example
/// ```
/// use parascan::laws::{self, any_bits, proptest::prelude::*};
/// use parascan::{Above, Finite};
///
/// parascan::predicate! {
///     struct MultipleOf { divisor: u32 } on u32 { keeps: |x, p| x % p.divisor == 0 }
/// }
/// laws::of_predicate::<MultipleOf, u32>((1..100u32).prop_map(|divisor| MultipleOf { divisor })).check()?;
/// laws::of_predicate::<Above<f32>, f32>(any_bits().prop_map(Above)).check()?;
/// laws::of_predicate::<Finite, f32>(Just(Finite)).check()?;
/// # Ok::<(), laws::Violation>(())
/// ```
pub fn of_predicate<P: Predicate<T> + Debug, T: Element + Debug>(
    predicates: impl Strategy<Value = P> + 'static,
) -> PredicateLaws<P, T> {
    let predicates = predicates.prop_map(|predicate| Arc::new(On(predicate, PhantomData::<fn(T)>)) as Drawn).boxed();
    PredicateLaws { predicates, values: any_bytes(Layout::of::<T>()), bodies: PhantomData }
}

/// A builder of the checks of a predicate, made by [`of_predicate`].
#[must_use = "nothing is checked until `check` or `agreement`"]
pub struct PredicateLaws<P: Debug, T: Debug> {
    predicates: BoxedStrategy<Drawn>,
    values: BoxedStrategy<Bytes>,
    bodies: PhantomData<fn(P, T)>,
}

impl<P: Debug, T: Debug> Clone for PredicateLaws<P, T> {
    fn clone(&self) -> Self {
        PredicateLaws { predicates: self.predicates.clone(), values: self.values.clone(), bodies: PhantomData }
    }
}

impl<P: Debug, T: Debug> Debug for PredicateLaws<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PredicateLaws").field("predicates", &self.predicates).field("values", &self.values).finish()
    }
}

impl<P: Predicate<T> + Debug, T: Element + Debug> PredicateLaws<P, T> {
    /// Draws items from this proptest strategy instead of [`any_bits`](super::any_bits).
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, proptest::prelude::*};
    /// use parascan::NonZero;
    /// laws::of_predicate::<NonZero, f64>(Just(NonZero)).values(-1.0..1.0).check().unwrap();
    /// ```
    pub fn values(mut self, values: impl Strategy<Value = T> + 'static) -> Self {
        self.values = values.prop_map(|x| bytes_of(&x).to_vec()).boxed();
        self
    }

    /// Checks that the Rust body does not panic on the pairs drawn, and agreement. Without a GPU or
    /// a compiler, a line on stderr says that agreement was skipped.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, Violation};
    ///
    /// parascan::predicate! {
    ///     struct MultipleOf { divisor: u32 } on u32 { keeps: |x, p| x % p.divisor == 0 }
    /// }
    /// let violation = laws::of_predicate::<MultipleOf, u32>(laws::any_bits()).check().unwrap_err();
    /// assert!(matches!(violation, Violation::Panic { .. }));
    /// println!("{violation}");
    /// ```
    /// ```text
    /// MultipleOf panics on u32:
    ///     predicate = MultipleOf { divisor: 0 }
    ///     x = 0
    ///     attempt to calculate the remainder with a divisor of zero
    /// ```
    pub fn check(&self) -> Result<(), Violation> {
        skipped::<P, T>(self.agreement())
    }

    /// Checks that the Rust and the CUDA body select the same items, on the first GPU of this
    /// machine: some hundred predicates, each on some hundred items. Waits for the compiler and for
    /// the GPU.
    ///
    /// # Errors
    /// [`Violation::Agreement`] and [`Violation::Panic`] with the smallest counterexample found;
    /// [`Violation::NoValues`]; [`Violation::Engine`] if there is no GPU or no compiler, or if the
    /// compiler refuses the CUDA body.
    ///
    /// # Example
    /// ```
    /// use parascan::laws::{self, Violation, any_bits, proptest::prelude::*};
    /// use parascan::{Error, Within};
    /// let ranges = any_bits().prop_flat_map(|low| any_bits().prop_map(move |high| Within(low, high)));
    /// match laws::of_predicate::<Within<i32>, i32>(ranges).agreement() {
    ///     Err(Violation::Engine(Error::NoDriver { .. } | Error::NoDevice { .. })) => println!("no GPU here"),
    ///     agreement => agreement.unwrap(),
    /// }
    /// ```
    pub fn agreement(&self) -> Result<(), Violation> {
        let (operator, element) = (type_name::<P>(), type_name::<T>());
        let body = Body {
            name: format!("laws of {operator} on {element}"),
            source: cuda::test::<T, P>().laws_source(),
            shown: shown::<T>,
        };
        Err(match counterexample(&self.predicates, &self.values, &body) {
            Ok(None) => return Ok(()),
            Ok(Some(Found::Panic(counterexample))) => Violation::Panic { predicate: operator, element, counterexample },
            Ok(Some(Found::Disagreement(counterexample))) => Violation::Agreement { operator, element, counterexample },
            Err(Trouble::NoValues(reason)) => Violation::NoValues { operator, element, reason },
            Err(Trouble::Engine(e)) => e.into(),
        })
    }
}

// ---- of any predicate ---------------------------------------------------------------------------

/// A predicate on items that are bytes, so that the code below is compiled once for all types.
trait Keeps: Debug {
    fn keeps(&self, x: &[u8]) -> bool;
    fn is_complement(&self) -> bool;
    fn parameters(&self) -> Bytes;
}
type Drawn = Arc<dyn Keeps>;

/// A predicate on `T`.
struct On<P, T>(P, PhantomData<fn(T)>);

impl<P: Debug, T> Debug for On<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<P: Predicate<T> + Debug, T: Element> Keeps for On<P, T> {
    fn keeps(&self, x: &[u8]) -> bool {
        self.0.keeps(pod_read_unaligned(x))
    }
    fn is_complement(&self) -> bool {
        self.0.is_complement()
    }
    fn parameters(&self) -> Bytes {
        bytes_of(&self.0.parameters()).to_vec()
    }
}

/// The smallest counterexample.
enum Found {
    /// The Rust body panics.
    Panic(String),
    Disagreement(String),
}

fn counterexample(
    predicates: &BoxedStrategy<Drawn>,
    values: &BoxedStrategy<Bytes>,
    body: &Body,
) -> Result<Option<Found>, Trouble> {
    let mut runner = TestRunner::new(config());
    let mut predicates = draw(predicates, &mut runner)?;
    let mut items = draw(values, &mut runner)?;
    let rows: Vec<Drawn> = predicates.iter().map(ValueTree::current).collect();
    let columns: Vec<Bytes> = items.iter().map(ValueTree::current).collect();

    // ---- in Rust
    let mut kept = Vec::with_capacity(DRAWN * DRAWN);
    for (i, predicate) in rows.iter().enumerate() {
        for (k, x) in columns.iter().enumerate() {
            match keeps(predicate, x) {
                Ok(keeps) => kept.push(keeps),
                Err(words) => {
                    let judge = |predicate: &Drawn, x: &Bytes| Ok(keeps(predicate, x).err());
                    let shrunk = smallest(&mut predicates[i], &mut items[k], words, body.shown, &judge)?;
                    return Ok(Some(Found::Panic(shrunk)));
                }
            }
        }
    }

    // ---- in CUDA
    let device = Device::new(&body.name, &body.source, &["keeps_all"])?;
    let stream = device.stream()?;
    let there = keeps_all(&device, &stream, &rows, &columns)?;
    let Some(wrong) = (0..kept.len()).find(|&i| kept[i] != there[i]) else { return Ok(None) };
    let words = |kept: bool, there: bool| format!("kept in Rust = {kept}\n    kept in CUDA = {there}");
    let judge = |predicate: &Drawn, x: &Bytes| {
        let Ok(kept) = keeps(predicate, x) else { return Ok(None) };
        let there = keeps_all(&device, &stream, slice::from_ref(predicate), slice::from_ref(x))?[0];
        Ok((kept != there).then(|| words(kept, there)))
    };
    let (predicate, item) = (&mut predicates[wrong / DRAWN], &mut items[wrong % DRAWN]);
    let shrunk = smallest(predicate, item, words(kept[wrong], there[wrong]), body.shown, &judge)?;
    Ok(Some(Found::Disagreement(shrunk)))
}

type Tree<V> = Box<dyn ValueTree<Value = V>>;

fn draw<V: Debug>(strategy: &BoxedStrategy<V>, runner: &mut TestRunner) -> Result<Vec<Tree<V>>, Trouble> {
    let trees = (0..DRAWN).map(|_| strategy.new_tree(runner));
    trees.collect::<Result<_, _>>().map_err(|reason| Trouble::NoValues(reason.message().to_owned()))
}

/// The result of the Rust body, or the message of its panic.
fn keeps(predicate: &Drawn, x: &[u8]) -> Result<bool, String> {
    let words = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(words) => *words,
        Err(panic) => panic.downcast_ref::<&str>().map_or("it panics", |words| words).to_owned(),
    };
    catch_unwind(AssertUnwindSafe(|| predicate.keeps(x))).map_err(words)
}

/// The message of a bad pair.
type Judge<'a> = &'a dyn Fn(&Drawn, &Bytes) -> Result<Option<String>, Error>;

/// The lines of a bad pair after shrinking, the predicate before the item. `words` is the message
/// of the pair as drawn.
fn smallest(
    predicate: &mut Tree<Drawn>,
    item: &mut Tree<Bytes>,
    words: String,
    shown: fn(&[u8]) -> String,
    judge: Judge,
) -> Result<String, Error> {
    let drawn = item.current();
    let (p, words) = shrink(predicate, |p| judge(p, &drawn))?.unwrap_or_else(|| (predicate.current(), words));
    let (x, words) = shrink(item, |x| judge(&p, x))?.unwrap_or((drawn, words));
    Ok(format!("    predicate = {p:?}\n    x = {}\n    {words}", shown(&x)))
}

// ---- the device ---------------------------------------------------------------------------------

/// The CUDA body, and the function that prints an item.
struct Body {
    name: String,
    source: String,
    shown: fn(&[u8]) -> String,
}

/// The results of each predicate on each item, row by row.
fn keeps_all(
    device: &Device,
    stream: &Arc<CudaStream>,
    predicates: &[Drawn],
    items: &[Bytes],
) -> Result<Vec<bool>, Error> {
    let parameters = predicates.iter().map(|predicate| predicate.parameters()).collect::<Vec<_>>().concat();
    let parameters_there = device.upload(stream, &parameters)?;
    let items_there = device.upload(stream, &items.concat())?;
    let (columns, n) = (items.len() as u64, (predicates.len() * items.len()) as u64);
    let mut kept_there = device.allocate::<u8>(stream, n as usize)?;
    {
        let (parameters, _reading) = parameters_there.device_ptr(stream);
        let (x, _reading_items) = items_there.device_ptr(stream);
        let (kept, _writing) = kept_there.device_ptr_mut(stream);
        // SAFETY: the parameters of each row, the item of each column, and room for rows x columns
        // results.
        unsafe { device.launch(stream, 0, n, &[p(&parameters), p(&x), p(&columns), p(&n), p(&kept)])? };
    }
    let kept = device.download::<u8>(stream, &kept_there)?;
    let row = |(k, &kept): (usize, &u8)| (kept != 0) != predicates[k / items.len()].is_complement();
    Ok(kept.iter().enumerate().map(row).collect())
}

#[cfg(test)]
mod tests {
    use crate::cuda::{compile_all, test};
    use crate::{Above, Equal, Finite, NonZero, Not, Within};
    use half::{bf16, f16};

    crate::predicate! {
        /// A text of statements, and a parameter that is a struct.
        struct Beyond { than: crate::operators::Affine<f32>, bits: u32 } on f16 {
            // SAFETY: operations on floats and a comparison.
            keeps: |x, p| f64::from(x) > f64::from(p.than.at(2.0)) => unsafe "
                float least = p.than.a * 2 + p.than.b;
                return Item(x).bits > 3 && least > 0;
            ",
        }
    }

    #[test]
    fn every_unit_of_a_predicate_compiles() {
        let mut all = Vec::new();
        macro_rules! collect { ($($p:ty, $t:ty;)*) => { $(
            all.push((90, format!("{} on {}", stringify!($p), stringify!($t)), test::<$t, $p>().laws_source()));
        )* } }
        collect! {
            Above<f32>, f32; Equal<f16>, f16; Within<bf16>, bf16; Not<Within<i64>>, i64; NonZero, u8; Finite, f64;
            Beyond, f16;
        }
        compile_all(all);
    }
}
