//! Sorting on the device: the programs. `plan` chooses the algorithm and the scratch memory, `launch` launches its
//! kernels.

use super::kernels::{First, Kernels};
use super::library::{self, BuiltIn, Caller, Program};
use super::unit::with_length;
use crate::{Error, SortKey};
use std::any::{TypeId, type_name};

pub(crate) mod contract;
mod launch;
pub(crate) mod payload;
mod plan;
pub(crate) mod tuning;
pub(crate) mod unit;
pub(crate) use launch::SortArguments;
pub use launch::sample_seed;
use payload::with_word;
pub(crate) use plan::{BOTH_KEYS, HostPlan, SECOND_KEYS};
use plan::{MOST_LOWER, bucket_counters};
use tuning::{SortShape, sort_shape};
use unit::Kernel::{self, *};
pub(crate) use unit::KeyKind;
use unit::SortUnit;

const NAME: &str = "sort";
const COUNTED: &str = "sort of a length in memory";
/// The most keys of a sort. No plan for them overflows, and no device holds as many.
pub(crate) const MOST_KEYS: usize = 1 << 40;

impl Kernel {
    /// The most shared memory of the kernel's blocks, in bytes.
    fn shared(self, shape: &SortShape) -> usize {
        match self {
            Count | Map | BucketPlan | Fill => 0,
            Passes => shape.pass_shared(),
            // The second is of a single step.
            FixedFirst => shape.fixed_shared().max(shape.single_shared()),
            Small => shape.small_shared(),
            BucketCount => bucket_counters(MOST_LOWER),
            First | Second => shape.bucket_tile_shared(),
            BucketSort | FixedSort => shape.bucket_sort_shared(),
            BucketSortLarge => shape.large_sort_shared(),
        }
    }
}

// ---- programs

/// The kernels for a key type and its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortProgram {
    unit: SortUnit,
    types: TypeId,
    type_name: &'static str,
    built_in: Option<&'static BuiltIn>,
    /// Whether the kernels read the number of keys from memory.
    is_counted: bool,
}

impl SortProgram {
    /// The program for `n` keys `K` with a payload of type `V`, if it has any bytes.
    pub(crate) fn new<K: SortKey, V>(n: usize) -> SortProgram {
        with_word!(V, n, Word => SortProgram::of::<K, Word>())
    }

    /// The program for keys `K` with words `W`: `u32`, `u64` or `()`.
    fn of<K: SortKey, W: 'static>() -> SortProgram {
        SortProgram {
            unit: unit_of::<K, W>(),
            types: TypeId::of::<(K, W)>(),
            type_name: type_name::<(K, W)>(),
            built_in: const { library::built_in(unit_of::<K, W>().key()) },
            is_counted: false,
        }
    }

    /// The same for a number of keys that lies in memory, if `is_counted`.
    pub(crate) fn counted(self, is_counted: bool) -> SortProgram {
        if is_counted { SortProgram { built_in: None, is_counted, ..self } } else { self }
    }

    /// The program's name in the table of loaded kernels.
    fn name(&self) -> &'static str {
        if self.is_counted { COUNTED } else { NAME }
    }

    /// The text of the unit.
    fn source(&self) -> String {
        let source = self.unit.source();
        if self.is_counted { with_length(&source) } else { source }
    }

    /// Bytes of a key and of its payload.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.unit.key, self.unit.payload.unwrap_or(0))
    }

    fn shape(&self, architecture: u32) -> SortShape {
        sort_shape(self.unit.key, self.unit.payload, architecture)
    }

    /// The program's kernels. Loads the `first` ones unless a call has taken kernels of it before.
    pub(crate) fn load(&self, caller: &dyn Caller, first: First) -> Result<&'static Kernels, Error> {
        let shared = |architecture| {
            let shape = self.shape(architecture);
            self.unit.kernels().iter().map(|kernel| kernel.shared(&shape)).collect()
        };
        library::load_some(self.types, self.name(), caller, &self.unit.kernel_names(), &shared, first, &|| Program {
            name: format!("{} of {}", self.name(), self.type_name),
            source: self.source(),
            built_in: self.built_in,
        })
    }
}

/// The unit for keys `K` with words `W`, if these have any bytes.
pub(super) const fn unit_of<K: SortKey, W>() -> SortUnit {
    let payload = if size_of::<W>() > 0 { Some(size_of::<W>()) } else { None };
    SortUnit { key: size_of::<K>(), kind: K::KIND, payload }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    const KINDS: [(usize, KeyKind); 12] = [
        (1, KeyKind::Unsigned),
        (2, KeyKind::Unsigned),
        (4, KeyKind::Unsigned),
        (8, KeyKind::Unsigned),
        (1, KeyKind::Signed),
        (2, KeyKind::Signed),
        (4, KeyKind::Signed),
        (8, KeyKind::Signed),
        (2, KeyKind::Float { mantissa: 10 }),
        (2, KeyKind::Float { mantissa: 7 }),
        (4, KeyKind::Float { mantissa: 23 }),
        (8, KeyKind::Float { mantissa: 52 }),
    ];

    #[test]
    fn every_kernel_compiles() {
        let mut all = Vec::new();
        let mut add = |architecture, key, kind, payload| {
            let unit = SortUnit { key, kind, payload };
            all.push((architecture, format!("{unit:?}"), unit.source()));
        };
        for (k, (key, kind)) in KINDS.into_iter().enumerate() {
            add(90, key, kind, None);
            add([75, 90, 120][k % 3], key, kind, Some([4, 8][k / 2 % 2]));
        }
        add(75, 4, KeyKind::Unsigned, None);
        add(75, 8, KeyKind::Float { mantissa: 52 }, None);
        add(120, 1, KeyKind::Unsigned, None);
        library::compile_all(all);
    }

    #[test]
    fn every_kernel_that_reads_its_length_compiles() {
        let of = |key, payload| SortUnit { key, kind: KeyKind::Unsigned, payload };
        let units = [of(1, None), of(2, None), of(4, None), of(4, Some(4)), of(8, Some(8))];
        library::compile_all(
            units.map(|unit| (75, format!("{unit:?}"), with_length(&unit.source()))).into_iter().collect(),
        );
    }

    #[test]
    fn plans_of_the_most_keys() {
        let programs = [
            SortProgram::of::<u8, ()>(),
            SortProgram::of::<u16, ()>(),
            SortProgram::of::<u64, u64>(),
            SortProgram::of::<u8, u64>(),
            SortProgram::of::<u32, u32>(),
        ];
        for program in programs {
            let width = 8 * program.sizes().0 as u32;
            for (multiprocessors, shared, architecture) in [(1, 48 << 10, 75), (188, 227 << 10, 90)] {
                let machine = crate::cuda::kernels::Machine { architecture, multiprocessors, shared };
                for bits in [0..width, 0..width - 1, 3..4] {
                    let bytes = program.scratch_up_to(MOST_KEYS, &bits, [true; 2], &machine);
                    let (key, value) = program.sizes();
                    assert!(
                        bytes >= MOST_KEYS * value && bytes < 40 * MOST_KEYS * (key + value),
                        "{program:?}: {bytes}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        for (key, payload) in [(1, None), (2, None), (2, Some(4)), (4, None), (4, Some(8))] {
            let unit = SortUnit { key, kind: KeyKind::Unsigned, payload };
            library::parts_have_a_kernel_each(&unit.source(), &unit.kernel_names());
        }
    }

    #[test]
    fn the_usual_are_built_in() {
        macro_rules! all { ($($t:ident)*) => {
            [$( SortProgram::of::<$t, ()>(), SortProgram::of::<$t, u32>(), SortProgram::of::<$t, u64>() ),*]
        } }
        let programs = all! { u8 i8 u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64 usize isize };
        for program in programs {
            assert!(library::is_built_in(program.unit.key(), &program.unit.source()), "{program:?}");
        }
    }

    #[test]
    fn infinities() {
        let text = |mantissa, key| SortUnit { key, kind: KeyKind::Float { mantissa }, payload: None }.source();
        for (mantissa, key, infinity) in
            [(23, 4, "0x7f800000"), (52, 8, "0x7ff0000000000000"), (10, 2, "0x7c00"), (7, 2, "0x7f80")]
        {
            assert!(text(mantissa, key).contains(&format!("Bits({infinity}ull)")), "{infinity}");
        }
    }
}
