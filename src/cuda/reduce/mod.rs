//! Reduce on the device: the programs and the launch.

use super::arguments::Arguments;
use super::kernels::{Kernels, opt, p, present};
use super::library::{self, Caller, Program};
use super::scan::unit_of;
use super::unit::with_length;
use crate::{Element, Error, Operator};
use bytemuck::Zeroable;
use cudarc::driver::sys::CUstream;
use std::any::{TypeId, type_name};

mod plan;
pub(crate) mod tuning;
pub(crate) mod unit;
pub(crate) use plan::ReducePlan;
use tuning::REDUCE_RANGES;
use unit::{POSITION_CARRY_BYTES, position_key, position_source, reduce_key, reduce_source};

pub(crate) const KERNELS: [&str; REDUCE_RANGES] = ["reduce_0", "reduce_1"];
const NAME: &str = "reduce";
pub(crate) const POSITION_KERNELS: [&str; REDUCE_RANGES] = ["position_0", "position_1"];

/// Bytes that hold any element, and the alignment of the result in scratch memory.
pub(crate) const LARGEST_ELEMENT: usize = 32;

/// Whether the kernels of reduce, and of scan and reduce by segment and column, take the element.
///
/// # Errors
/// [`Error::ElementSize`].
pub(crate) fn check_element<T: Element>(primitive: &'static str) -> Result<(), Error> {
    match size_of::<T>() {
        1..=LARGEST_ELEMENT => Ok(()),
        size => Err(Error::ElementSize { primitive, size }),
    }
}

/// The kernels that reduce to a value or to its position.
#[derive(Clone, Copy)]
pub(crate) struct ReduceProgram {
    name: &'static str,
    kernels: &'static [&'static str; REDUCE_RANGES],
    types: TypeId,
    /// Bytes of an element, and of the carry that blocks hand on.
    sizes: [usize; 2],
    program: fn() -> Program,
}

impl ReduceProgram {
    /// The result of an operator.
    pub(crate) fn value<Op: Operator<T>, T: Element>() -> ReduceProgram {
        ReduceProgram {
            name: NAME,
            kernels: &KERNELS,
            types: TypeId::of::<(Op, T)>(),
            sizes: [size_of::<T>(), size_of::<Op::Carry>()],
            program: || Program {
                name: format!("reduce::<{}, {}>", type_name::<Op>(), type_name::<T>()),
                source: reduce_source(&unit_of::<Op, T>()),
                built_in: const { library::built_in(reduce_key(&unit_of::<Op, T>())) },
            },
        }
    }

    /// The same of a number of items that lies in memory.
    pub(crate) fn counted<Op: Operator<T>, T: Element>() -> ReduceProgram {
        ReduceProgram {
            name: "reduce of a length in memory",
            program: || Program {
                name: format!("reduce::<{}, {}> of a length in memory", type_name::<Op>(), type_name::<T>()),
                source: with_length(&reduce_source(&unit_of::<Op, T>())),
                built_in: None,
            },
            ..ReduceProgram::value::<Op, T>()
        }
    }

    /// The position of that result.
    pub(crate) fn position<Op: Operator<T>, T: Element>() -> ReduceProgram {
        ReduceProgram {
            name: "position",
            kernels: &POSITION_KERNELS,
            types: TypeId::of::<(Op, T)>(),
            sizes: [size_of::<T>(), POSITION_CARRY_BYTES],
            program: || Program {
                name: format!("position of {} on {}", type_name::<Op>(), type_name::<T>()),
                source: position_source(&unit_of::<Op, T>()),
                built_in: const { library::built_in(position_key(&unit_of::<Op, T>())) },
            },
        }
    }

    /// The kernels. Loads them unless they are loaded.
    pub(crate) fn load(&self, caller: &dyn Caller) -> Result<&'static Kernels, Error> {
        library::load(self.types, self.name, caller, self.kernels, &self.program)
    }

    /// The plan for `n` elements and the kernels of `architecture`.
    pub(crate) fn plan(&self, n: usize, architecture: u32) -> ReducePlan {
        ReducePlan::of_sizes(self.sizes, n, architecture)
    }

    /// The plan with memory for up to `n` elements.
    pub(crate) fn plan_up_to(&self, n: usize, architecture: u32) -> ReducePlan {
        ReducePlan::up_to_of_sizes(self.sizes, n, architecture)
    }
}

impl<C: Zeroable + Copy> Arguments<C> {
    /// Launches a reduction. Does not wait. One without items has a `first`. A position has none, and has
    /// items.
    ///
    /// # Safety
    /// - The plan is the program's, for `n` elements and the architecture of `kernels`, which are the
    ///   program's.
    /// - The input is `n` elements of device memory, the output one element or one `u64`. Scratch memory
    ///   has `ReducePlan::aggregates` bytes. The addresses of words and scratch memory are multiples of
    ///   16. All are disjoint and valid until the stream is past the call, and nothing else uses words and
    ///   scratch memory meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch_reduce(
        &self,
        plan: &ReducePlan,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let Arguments { input, output, n, length, first, empty, words, scratch, .. } = *self;
        let ReducePlan { range, threads, blocks, each, more, .. } = *plan;
        let (n, has_init, init) = (n as u64, u32::from(first.is_some()), first.or(empty).unwrap_or_else(C::zeroed));
        let at = opt(&length);
        let arguments =
            [p(&input), p(&n), p(&each), p(&more), p(&output), p(&words), p(&scratch), p(&init), p(&has_init), at];
        // SAFETY: the arguments are those of the kernels in reduce/kernels.cuh, and without the last
        // two, which the driver then does not read, in reduce/position.cuh; the caller vouches for the
        // rest.
        unsafe { kernels.launch(range, blocks, threads, stream, present(&arguments)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The texts of the catalog, each with the first operator and element of it.
    fn all() -> BTreeMap<String, (String, bool)> {
        let mut all = BTreeMap::new();
        macro_rules! collect {
            (elements $elements:tt operators { $(
                $(#[$doc:meta])* $op:ident { $(
                    $($generic:ident)? [$($t:ident),*] $associativity:ident, $form:ident,
                        $(identity $identity:expr,)? $(no $no:ident,)?
                        rust |$a:ident, $b:ident| $rust:expr, cuda $cuda:literal;
                )* }
            )* }) => { $( $( $(
                let unit = unit_of::<crate::$op, $t>();
                let source = reduce_source(&unit);
                let is_built_in = library::is_built_in(reduce_key(&unit), &source);
                all.entry(source).or_insert((format!("{}<{}>", stringify!($op), stringify!($t)), is_built_in));
            )* )* )* };
        }
        use half::{bf16, f16};
        catalog!(collect);
        all
    }

    /// build.rs and the library write the same texts; otherwise the library would find no image.
    #[test]
    fn the_catalog_is_built_in() {
        let missing: Vec<String> = all().into_values().filter(|(_, is)| !is).map(|(name, _)| name).collect();
        assert_eq!(missing, [""; 0]);
        let unit = unit_of::<crate::Max, f32>();
        assert!(library::is_built_in(position_key(&unit), &position_source(&unit)));
    }

    crate::operator! {
        /// The product modulo a prime.
        struct ModularProduct
        on u32 {
            associativity: Exact,
            combine: |a, b| (a as u64 * b as u64 % 0x7fff_ffff_u64) as u32,
        }
    }

    /// The compiler ends for a chain of remainders, one for each item of a lane.
    #[test]
    fn every_remainder_compiles() {
        let unit = unit_of::<ModularProduct, u32>();
        let texts = [reduce_source(&unit), unit.source("scan/kernels.cuh")];
        library::compile_all(texts.map(|text| (90, "remainders".to_owned(), text)).into());
    }

    /// Another test compiles the catalog for newer architectures.
    #[test]
    fn every_kernel_compiles() {
        use crate::operators::{Compose, Indexed, Matrix, Moments, Transitions, Variance};
        // The build compiles the catalog: here every fourth unit of it, for the oldest architecture.
        let mut texts: Vec<_> = all().into_iter().step_by(4).map(|(source, (name, _))| (75, name, source)).collect();
        macro_rules! user {
            ($($op:ty, $t:ty;)*) => { $(
                let source = reduce_source(&unit_of::<$op, $t>());
                texts.extend([75, 90].map(|a| (a, stringify!($op on $t).to_owned(), source.clone())));
            )* };
        }
        user! {
            Compose, Matrix<u64>; Compose, Transitions; Variance, Moments<f32>; Variance, Moments<f64>;
            crate::operators::ArgMax, Indexed<f32, u32>; crate::operators::ArgMin, Indexed<i64, u64>;
        }
        macro_rules! positions {
            ($($op:ident: $($t:ty),*;)*) => { $( $( {
                let name = format!("position of {} on {}", stringify!($op), stringify!($t));
                texts.push((75, name, position_source(&unit_of::<crate::$op, $t>())));
            } )* )* };
        }
        use half::{bf16, f16};
        positions! { Max: u8, f16, f32, f64; Min: i8, u16, bf16, i64; }
        library::compile_all(texts);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let sums = reduce_source(&unit_of::<crate::Sum, half::f16>());
        library::parts_have_a_kernel_each(&sums, &KERNELS);
        library::parts_have_a_kernel_each(&with_length(&sums), &KERNELS);
        library::parts_have_a_kernel_each(&position_source(&unit_of::<crate::Max, f32>()), &POSITION_KERNELS);
    }
}
