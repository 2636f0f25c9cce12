//! Scan and reduce by segment on the device: the kinds of segments and the kernels.

use super::kernels::Kernels;
use super::library::{self, BuiltIn, Caller, Program};
use super::reduce::tuning::REDUCE_RANGES;
use super::scan::unit::Unit;
use super::scan::unit_of;
use super::tuning::RANGES;
use super::unit::{of_kind, with_length};
use crate::{Element, Error, Operator};
use cudarc::driver::sys::CUdeviceptr;
use std::any::{TypeId, type_name};

pub(crate) mod contract;
mod launch;
mod plan;
mod tuning;
mod unit;
pub(crate) use launch::RunReduceArguments;
pub(crate) use plan::SegmentedPlan;
use tuning::EachGrid;
use unit::{
    run_reduce_key, run_reduce_source, segmented_reduce_key, segmented_reduce_source, segmented_scan_key,
    segmented_scan_source,
};

/// A kernel for each range of lengths, that of short inputs, the one that takes whole segments, and the search in the
/// offsets.
const SCAN_KERNELS: [&str; RANGES + 3] = [
    "segmented_scan_0",
    "segmented_scan_1",
    "segmented_scan_2",
    "segmented_scan_short",
    "segmented_scan_each",
    "segmented_find",
];
const SHORT_SCAN: usize = RANGES;
const EACH_SCAN: usize = RANGES + 1;
const FIND: usize = RANGES + 2;
const RUN_KERNELS: [&str; RANGES] = ["run_reduce_0", "run_reduce_1", "run_reduce_2"];
const REDUCE_KERNELS: [&str; REDUCE_RANGES + 2] =
    ["segmented_reduce_0", "segmented_reduce_1", "segmented_reduce_short", "segmented_reduce_each"];
const SHORT_REDUCE: usize = REDUCE_RANGES;
const EACH_REDUCE: usize = REDUCE_RANGES + 1;

/// The kinds of segmentation: the last one's number and one.
const KINDS: usize = contract::KEYS_AS_BYTES as usize + 1;

/// The names of a primitive's programs, one for each kind of segmentation.
macro_rules! of_kinds {
    ($primitive:literal) => {
        [
            concat!($primitive, " of rows"),
            concat!($primitive, " by u32 offsets"),
            concat!($primitive, " by u64 offsets"),
            concat!($primitive, " by flags"),
            concat!($primitive, " by bits"),
            concat!($primitive, " by u8 keys"),
            concat!($primitive, " by u16 keys"),
            concat!($primitive, " by u32 keys"),
            concat!($primitive, " by u64 keys"),
            concat!($primitive, " by keys"),
        ]
    };
}
/// The programs of a known length, and of one that lies in memory.
type Programs = [[&'static str; KINDS]; 2];
const SCANS: Programs = [of_kinds!("segmented scan"), of_kinds!("segmented scan of a length in memory")];
const RUN_REDUCES: Programs = [of_kinds!("reduce of runs"), of_kinds!("reduce of runs of a length in memory")];
const REDUCES: Programs = [of_kinds!("segmented reduce"), of_kinds!("segmented reduce of a length in memory")];

/// Where segments begin, for a kernel. Addresses are on the device.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Rows {
        columns: usize,
    },
    /// `segments` + 1 offsets, of 8 bytes if they are `wide`, else of 4.
    Offsets {
        address: CUdeviceptr,
        segments: usize,
        wide: bool,
    },
    /// A byte for each item.
    Heads {
        address: CUdeviceptr,
    },
    /// Words of 32 or 64 bits: the same bytes.
    HeadBits {
        address: CUdeviceptr,
    },
    /// A key of `size` bytes for each item, at a multiple of `align`.
    Keys {
        address: CUdeviceptr,
        size: usize,
        align: usize,
    },
}

impl Cut {
    /// Blocks of the kernels of short inputs for `n` items, if these are short.
    fn short_blocks(self, n: usize, tile: usize) -> Option<u32> {
        let segments = match self {
            Cut::Rows { columns } => n / columns,
            Cut::Offsets { segments, .. } => segments,
            _ => return None,
        };
        (n > 0 && tuning::is_short(n, segments, tile)).then(|| n.div_ceil(tile) as u32)
    }

    /// The grid of the kernel that folds each segment alone for `n` items of `size` bytes, if it takes these.
    fn fold_grid(self, n: usize, size: usize) -> Option<EachGrid> {
        match self {
            Cut::Rows { columns } => EachGrid::rows(n / columns, columns, size),
            Cut::Offsets { segments, .. } => EachGrid::offsets(segments, n, size),
            _ => None,
        }
    }

    /// The grid of the kernel that scans each segment alone for `n` items of `size` bytes, if it takes these.
    fn scan_grid(self, n: usize, size: usize) -> Option<EachGrid> {
        match self {
            Cut::Rows { columns } => EachGrid::scanned_rows(n / columns, columns, size),
            Cut::Offsets { segments, .. } => EachGrid::scanned_offsets(segments, n, size),
            _ => None,
        }
    }

    /// The kind, of which the kernels are compiled.
    fn kind(self) -> u32 {
        match self {
            Cut::Rows { .. } => contract::ROWS,
            Cut::Offsets { wide: true, .. } => contract::OFFSETS_64,
            Cut::Offsets { .. } => contract::OFFSETS_32,
            Cut::Heads { .. } => contract::FLAGS,
            Cut::HeadBits { .. } => contract::BITS,
            Cut::Keys { size, align, .. } => match size {
                1 => contract::KEYS_8,
                2 if align >= 2 => contract::KEYS_16,
                4 if align >= 4 => contract::KEYS_32,
                8 if align >= 8 => contract::KEYS_64,
                _ => contract::KEYS_AS_BYTES,
            },
        }
    }

    /// The same for a kernel over `n` items.
    pub(super) fn contract(self, n: usize) -> contract::Cut {
        let none = contract::Cut { memory: 0, segments: 0, columns: 0, kind: self.kind(), size: 0 };
        match self {
            Cut::Rows { columns } => contract::Cut { segments: (n / columns) as u64, columns: columns as u64, ..none },
            Cut::Offsets { address, segments, .. } => {
                contract::Cut { memory: address, segments: segments as u64, ..none }
            }
            Cut::Heads { address } | Cut::HeadBits { address } => contract::Cut { memory: address, ..none },
            Cut::Keys { address, size, .. } => contract::Cut { memory: address, size: size as u32, ..none },
        }
    }
}

/// The kernels of scan by segment, for the kind of `cut` alone, and for a number of items that lies in memory if
/// `is_counted`. Loads them unless they are loaded.
pub(crate) fn load_scan<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let kernels = match cut {
        Cut::Offsets { .. } => &SCAN_KERNELS[..],
        Cut::Rows { .. } => &SCAN_KERNELS[..=EACH_SCAN],
        _ => &SCAN_KERNELS[..RANGES],
    };
    let built_in = const { library::built_in(segmented_scan_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, SCANS, cut, is_counted, kernels, segmented_scan_source, built_in)
}

/// The kernels of reduce of runs, as `load_scan`.
pub(crate) fn load_runs<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let built_in = const { library::built_in(run_reduce_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, RUN_REDUCES, cut, is_counted, &RUN_KERNELS, run_reduce_source, built_in)
}

/// The kernels of reduce by segment, as `load_scan`.
pub(crate) fn load_reduce<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    cut: Cut,
    is_counted: bool,
) -> Result<&'static Kernels, Error> {
    let built_in = const { library::built_in(segmented_reduce_key(&unit_of::<Op, T>())) };
    load::<Op, T>(caller, REDUCES, cut, is_counted, &REDUCE_KERNELS, segmented_reduce_source, built_in)
}

fn load<Op: Operator<T>, T: Element>(
    caller: &dyn Caller,
    programs: Programs,
    cut: Cut,
    is_counted: bool,
    kernels: &[&str],
    source: fn(&Unit) -> String,
    built_in: Option<&'static BuiltIn>,
) -> Result<&'static Kernels, Error> {
    let program = programs[usize::from(is_counted)][cut.kind() as usize];
    library::load(TypeId::of::<(Op, T)>(), program, caller, kernels, &|| {
        let source = of_kind(cut.kind(), &source(&unit_of::<Op, T>()));
        Program {
            name: format!("{program}::<{}, {}>", type_name::<Op>(), type_name::<T>()),
            source: if is_counted { with_length(&source) } else { source },
            built_in: built_in.filter(|_| !is_counted),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::scan::unit::Unit;
    use crate::cuda::unit::{Type, of_any_kind};
    use crate::operators::{Compose, Matrix, Transitions};
    use crate::{Last, Max, Sum};

    #[test]
    fn every_kernel_compiles() {
        let mut texts = Vec::new();
        macro_rules! collect {
            ($($op:ty, $t:ty;)*) => { $(
                let unit = unit_of::<$op, $t>();
                for source in [segmented_scan_source, segmented_reduce_source, run_reduce_source].map(|text| text(&unit)) {
                    // Each for one architecture and one kind, with or without a length in memory.
                    let k = texts.len();
                    let source = of_kind((k % KINDS) as u32, &source);
                    let source = if k % 4 == 3 { with_length(&source) } else { source };
                    texts.push(([75, 90][k % 2], stringify!($op on $t).to_owned(), source));
                }
            )* };
        }
        collect! {
            Sum, u8; Max, i16; Sum, half::f16; Sum, f32; Sum, f64; Last, u64;
            Compose, Matrix<u64>; Compose, Transitions; crate::operators::ArgMax, crate::operators::Indexed<f32, u32>;
        }
        // The widest carry takes the most shared memory.
        let widest = Unit {
            element: Type { cuda: "float", size: 4, align: 4, fields: &[] },
            carry: Type { cuda: "struct alignas(16) { float part[8]; }", size: 32, align: 16, fields: &[] },
            lift: "Carry{{x}}",
            alone: "x",
            combine: "Carry{{a.part[0] + b.part[0]}}",
            lower: "x.part[0]",
            pairs: "NoPairs",
        };
        for text in [segmented_scan_source, segmented_reduce_source, run_reduce_source] {
            texts.extend([75, 90].map(|architecture| (architecture, "the widest carry".to_owned(), text(&widest))));
        }
        library::compile_all(texts);
    }

    /// The plan of a reduction counts the slices that its kernels have.
    #[test]
    fn slices_of_a_reduction() {
        fn check<T: Element>(vectors: usize)
        where
            Sum: Operator<T>,
        {
            let n = 1 << 26;
            let plan = SegmentedPlan::reduce::<Sum, T>(n, 90);
            let slices = n.div_ceil(32 * vectors * 16 / size_of::<T>()) as u64;
            let warps = u64::from(plan.blocks * plan.threads / 32);
            assert_eq!((plan.kernel, plan.each * warps + u64::from(plan.more)), (1, slices));
            let text = segmented_reduce_source(&unit_of::<Sum, T>());
            assert!(text.contains(&format!("KERNEL(1, 4, {vectors})")), "{text}");
        }
        check::<u8>(11);
        check::<half::f16>(13);
        check::<f32>(9);
        check::<f64>(13);
    }

    /// A key is compared as a word if its type is aligned as one.
    #[test]
    fn kinds_of_keys() {
        let kind = |size, align| Cut::Keys { address: 0, size, align }.kind();
        assert_eq!([kind(1, 1), kind(2, 2), kind(4, 4), kind(8, 8)], [5, 6, 7, 8]);
        assert_eq!([kind(2, 1), kind(4, 2), kind(8, 4), kind(3, 1), kind(16, 16)], [contract::KEYS_AS_BYTES; 5]);
    }

    /// The name of a program is that of its cut's kind.
    #[test]
    fn names_of_kinds() {
        let offsets = |wide| Cut::Offsets { address: 0, segments: 1, wide };
        let keys = |size| Cut::Keys { address: 0, size, align: size };
        let (heads, bits) = (Cut::Heads { address: 0 }, Cut::HeadBits { address: 0 });
        let cuts = [Cut::Rows { columns: 1 }, offsets(false), offsets(true), heads, bits];
        let names = cuts.into_iter().chain([1, 2, 4, 8, 3].map(keys)).map(|cut| SCANS[0][cut.kind() as usize]);
        let expected = [
            "of rows",
            "by u32 offsets",
            "by u64 offsets",
            "by flags",
            "by bits",
            "by u8 keys",
            "by u16 keys",
            "by u32 keys",
            "by u64 keys",
            "by keys",
        ];
        assert!(names.eq(expected.map(|kind| format!("segmented scan {kind}"))));
    }

    /// The text of each kind ends with that of the catalog, whose kernels serve every kind.
    #[test]
    fn the_catalog_is_built_in() {
        fn check<Op: Operator<T>, T: Element>(expected: bool) {
            let unit = unit_of::<Op, T>();
            for (key, source) in [
                (segmented_scan_key(&unit), segmented_scan_source(&unit)),
                (segmented_reduce_key(&unit), segmented_reduce_source(&unit)),
                (run_reduce_key(&unit), run_reduce_source(&unit)),
            ] {
                assert_eq!(library::is_built_in(key, &source), expected);
                assert_eq!(of_any_kind(&of_kind(contract::BITS, &source)), source);
                assert_ne!(of_any_kind(&with_length(&source)), source);
            }
        }
        check::<Sum, i32>(true);
        check::<Sum, half::f16>(true);
        check::<Max, f32>(true);
        check::<Last, u64>(true);
        check::<Compose, Transitions>(false);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        let unit = unit_of::<Sum, f32>();
        for text in [str::to_owned, with_length] {
            let text = |source: String| text(&of_kind(contract::OFFSETS_32, &source));
            library::parts_have_a_kernel_each(&text(segmented_scan_source(&unit)), &SCAN_KERNELS);
            library::parts_have_a_kernel_each(&text(segmented_reduce_source(&unit)), &REDUCE_KERNELS);
            library::parts_have_a_kernel_each(&text(run_reduce_source(&unit)), &RUN_KERNELS);
        }
    }
}
