//! Compaction and partition on the device: the programs and the launches. `plan` chooses the
//! kernels, the tiles and the scratch memory.

use super::kernels::{Kernels, opt, p, present};
use super::library::{self, BuiltIn, Caller, Program};
use super::tuning::RANGES;
use super::unit::Type;
use super::unit::with_length;
use crate::{Element, Error, Index, Ordered, Predicate};
use bytemuck::Pod;
use cudarc::driver::sys::{CUdeviceptr, CUresult, CUstream};
use std::any::{TypeId, type_name};
use std::ffi::c_void;
use std::marker::PhantomData;

pub(crate) mod contract;
mod plan;
pub(crate) mod tuning;
pub(crate) mod unit;
use contract::{APPEND, COMPLEMENT, COMPLEMENT_SECOND, CompactCall, ONE_BUFFER};
pub(crate) use contract::{ArrayColumn, PartOutputs, TwoParameters};
pub(crate) use plan::{CompactPlan, OneBufferPlan};
use tuning::COUNT_WARPS;
use unit::{Choice, Column, CompactUnit, Test};

/// The kernels. A compaction has only the first RANGES of them.
const KERNELS: [&str; 2 * RANGES + 2] = [
    "compact_0",
    "compact_1",
    "compact_2",
    "partition_0",
    "partition_1",
    "partition_2",
    "partition_count",
    "partition_move",
];
const COOPERATIVE: usize = RANGES;
const COUNT: usize = 2 * RANGES;
const MOVE: usize = COUNT + 1;
/// The name of a program in the table of loaded kernels, by the number of parts.
const NAMES: [&str; 3] = ["compact", "partition", "partition into three parts"];
const COUNTED: [&str; 3] = [
    "compact of a length in memory",
    "partition of a length in memory",
    "partition of a length in memory into three parts",
];

/// The choice of items, as a type. Each choice has its own kernels.
pub(crate) trait ChoiceKind: 'static {
    const CHOICE: Choice<'static>;
}

/// Selects items by a predicate.
#[derive(Debug)]
#[doc(hidden)]
pub struct PredicateKind<T, P>(PhantomData<fn(T, P)>);
/// Selects items by a predicate; a second predicate selects among the rejected items.
pub(crate) struct TwoPredicatesKind<T, P, Q>(PhantomData<fn(T, P, Q)>);
/// Selects items that differ from the one before.
#[derive(Debug)]
#[doc(hidden)]
pub struct DistinctKind<T>(PhantomData<fn(T)>);
/// Selects items whose flag, a byte, is not zero.
#[derive(Debug)]
#[doc(hidden)]
pub struct FlagsKind;
/// Selects items whose bit is set.
#[derive(Debug)]
#[doc(hidden)]
pub struct BitsKind;

/// The predicate's test in the kernel.
pub(crate) const fn test<T: Element, P: Predicate<T>>() -> Test<'static> {
    Test {
        item: Type::of::<T>(P::CUDA_ITEM.text()),
        parameters: Type::of::<P::Parameters>(<P::Parameters as Element>::CUDA),
        keeps: P::CUDA.text(),
    }
}
impl<T: Element, P: Predicate<T>> ChoiceKind for PredicateKind<T, P> {
    const CHOICE: Choice<'static> = Choice::Items(test::<T, P>(), None);
}
impl<T: Element, P: Predicate<T>, Q: Predicate<T>> ChoiceKind for TwoPredicatesKind<T, P, Q> {
    const CHOICE: Choice<'static> = Choice::Items(test::<T, P>(), Some(test::<T, Q>()));
}
impl<T: Ordered> ChoiceKind for DistinctKind<T> {
    const CHOICE: Choice<'static> = Choice::Distinct { item: Type::of::<T>(T::CUDA_COMPARED), same: T::CUDA_SAME };
}
impl ChoiceKind for FlagsKind {
    const CHOICE: Choice<'static> = Choice::Flags;
}
impl ChoiceKind for BitsKind {
    const CHOICE: Choice<'static> = Choice::Bits;
}

/// A column that moves, as a type.
pub(crate) trait ColumnKind: 'static {
    const COLUMN: Column;
}

/// The items that the choice tests.
#[derive(Debug)]
#[doc(hidden)]
pub struct Staged;
/// A payload column.
#[derive(Debug)]
#[doc(hidden)]
pub struct Payload<V>(PhantomData<fn(V)>);
/// The source index of each item.
pub(crate) struct SourceIndices<I>(PhantomData<fn(I)>);
/// No second column.
pub(crate) struct NoColumn;

impl ColumnKind for Staged {
    const COLUMN: Column = Column::Staged;
}
impl<V: Pod> ColumnKind for Payload<V> {
    const COLUMN: Column = Column::Plain { size: size_of::<V>(), align: align_of::<V>() };
}
impl<I: Index> ColumnKind for SourceIndices<I> {
    const COLUMN: Column = Column::Indices { size: size_of::<I>() };
}
impl ColumnKind for NoColumn {
    const COLUMN: Column = Column::None;
}

/// The kernels for a choice and its columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactProgram {
    unit: CompactUnit<'static>,
    types: TypeId,
    type_name: &'static str,
    built_in: Option<&'static BuiltIn>,
    /// Whether the kernels read the number of items from memory.
    is_counted: bool,
}

impl CompactProgram {
    /// For `PARTS` parts: 1 for a compaction, 2 or 3 for a partition.
    pub(crate) fn new<C: ChoiceKind, A: ColumnKind, B: ColumnKind, const PARTS: usize>() -> Self {
        CompactProgram {
            unit: unit_of::<C, A, B, PARTS>(),
            types: TypeId::of::<(C, A, B)>(),
            type_name: type_name::<(C, A, B)>(),
            built_in: const { library::built_in(unit_of::<C, A, B, PARTS>().key()) },
            is_counted: false,
        }
    }

    /// The same for a number of items that lies in memory, if `is_counted`.
    pub(crate) fn counted(self, is_counted: bool) -> Self {
        if is_counted { CompactProgram { built_in: None, is_counted, ..self } } else { self }
    }

    /// The number of parts.
    pub(crate) fn parts(&self) -> usize {
        self.unit.parts
    }

    /// The program's name in the table of loaded kernels.
    fn name(&self) -> &'static str {
        if self.is_counted { COUNTED[self.unit.parts - 1] } else { NAMES[self.unit.parts - 1] }
    }

    /// The text of the unit.
    fn source(&self) -> String {
        let source = self.unit.source();
        if self.is_counted { with_length(&source) } else { source }
    }

    /// The names of the kernels.
    fn names(&self) -> &'static [&'static str] {
        if self.unit.parts > 1 { &KERNELS } else { &KERNELS[..RANGES] }
    }

    /// The kernels. Loads them unless they are loaded.
    ///
    /// # Errors
    /// [`Error::ItemSize`], and those of loading.
    pub(crate) fn load(&self, primitive: &'static str, caller: &dyn Caller) -> Result<&'static Kernels, Error> {
        if let Some(size) = self.unit.sizes().into_iter().find(|&size| size == 0 || size > 16) {
            caller.may_load()?;
            return Err(Error::ItemSize { primitive, size });
        }
        library::load(self.types, self.name(), caller, self.names(), &|| Program {
            name: format!("{} of {}", self.name(), self.type_name),
            source: self.source(),
            built_in: self.built_in,
        })
    }
}

const fn unit_of<C: ChoiceKind, A: ColumnKind, B: ColumnKind, const PARTS: usize>() -> CompactUnit<'static> {
    CompactUnit { choice: C::CHOICE, columns: [A::COLUMN, B::COLUMN], parts: PARTS }
}

/// The arguments of a compaction or a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactArguments {
    pub(crate) n: usize,
    /// The number of items, if it lies in memory; `n` is then the most. Only for a counted program.
    pub(crate) length: Option<CUdeviceptr>,
    /// The input of the choice: items, flags or words of bits.
    pub(crate) chosen: CUdeviceptr,
    /// The choice's parameters.
    pub(crate) parameters: *const c_void,
    pub(crate) columns: [ArrayColumn; 2],
    /// The capacity of each part's output, in items.
    pub(crate) capacity: [usize; 3],
    /// The output of counts, 64-bit integers: one, or two for three parts.
    pub(crate) count: CUdeviceptr,
    /// Whether the first and the second predicate are complemented.
    pub(crate) complement: [bool; 2],
    /// Whether `count` holds the output index of the first selected item. Only for a compaction.
    pub(crate) append: bool,
    /// Whether all parts of a partition go to one buffer, written by one block or by
    /// `launch_one_buffer`.
    pub(crate) one_buffer: bool,
    /// `CompactPlan::words` bytes, zero.
    pub(crate) words: CUdeviceptr,
}

impl CompactArguments {
    /// Launches the compaction. Does not wait.
    ///
    /// # Safety
    /// - `kernels` are the program's, the plan is the program's for `n` items, and the parameters
    ///   are those of its choice.
    /// - The input of the choice and the columns have `n` items each in the device's memory, and
    ///   the outputs their capacity. All are valid until the stream is past the compaction.
    /// - Each output is disjoint from all inputs, or is the column's own input. The count and the
    ///   words are disjoint from everything else, and nothing else uses them meanwhile.
    /// - The stream's context is current.
    pub(crate) unsafe fn launch(
        &self,
        program: &CompactProgram,
        plan: &CompactPlan,
        kernels: &Kernels,
        stream: CUstream,
    ) -> Result<(), Error> {
        let call = self.call(plan.tiles);
        let [first, second] = [0, 1].map(|k| self.column(program, k));
        let arguments = [p(&call), self.parameters, first, second, opt(&self.length)];
        let blocks = plan.tiles + usize::from(plan.tiles > 1);
        // SAFETY: the arguments are those of the kernels in compact/kernels.cuh; the caller vouches
        // for the rest.
        unsafe { kernels.launch(plan.range, blocks as u32, 32 * plan.shape.warps as u32, stream, present(&arguments)) }
    }

    /// Launches a partition into one buffer, without a payload: one cooperative launch if all tiles
    /// run at once, else two launches. Does not wait.
    ///
    /// # Safety
    /// As for `launch`, with the words of a `OneBufferPlan`. `scratch` has the bytes that the plan
    /// asks for, and nothing else uses them meanwhile.
    pub(crate) unsafe fn launch_one_buffer(
        &self,
        program: &CompactProgram,
        plan: &OneBufferPlan,
        kernels: &Kernels,
        stream: CUstream,
        scratch: CUdeviceptr,
    ) -> Result<(), Error> {
        let first = self.column(program, 0);
        let length = opt(&self.length);
        if let Some((range, shape, tiles)) = plan.cooperative {
            let call = self.call(tiles);
            let arguments = [p(&call), self.parameters, first, length];
            let (index, threads) = (COOPERATIVE + range, 32 * shape.warps as u32);
            // SAFETY: as in `launch`.
            match unsafe { kernels.launch_at_once(index, tiles as u32, threads, stream, present(&arguments)) } {
                // The stream may have only a part of the device, or the device no cooperative
                // launches.
                Err(Error::Driver {
                    code: CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE | CUresult::CUDA_ERROR_NOT_SUPPORTED,
                    ..
                }) => {}
                launched => return launched,
            }
        }
        let call = self.call(plan.counts);
        let counting = [p(&call), self.parameters, p(&scratch), length];
        let moving = [p(&call), self.parameters, first, p(&scratch), length];
        let (counting, moving) = (present(&counting), present(&moving));
        let blocks = plan.counts + usize::from(plan.counts > 1);
        // SAFETY: as in `launch`; the kernel that moves waits for the kernel that counts.
        unsafe {
            kernels.launch(COUNT, blocks as u32, 32 * COUNT_WARPS as u32, stream, counting)?;
            kernels.launch_dependent(MOVE, plan.tiles as u32, 32 * plan.shape.warps as u32, 0, stream, moving)
        }
    }

    fn call(&self, tiles: usize) -> CompactCall {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        CompactCall {
            n: self.n as u64,
            chosen: self.chosen,
            count: self.count,
            capacity: self.capacity.map(|capacity| capacity as u64),
            memory: self.words,
            tiles: tiles as u32,
            flags: flag(self.complement[0], COMPLEMENT)
                | flag(self.complement[1], COMPLEMENT_SECOND)
                | flag(self.append, APPEND)
                | flag(self.one_buffer, ONE_BUFFER),
        }
    }

    /// Column `k` as the kernels' argument.
    fn column(&self, program: &CompactProgram, k: usize) -> *const c_void {
        let column: &ArrayColumn = &self.columns[k];
        match program.unit.columns[k] {
            Column::Staged | Column::Plain { .. } | Column::None => std::ptr::from_ref(column).cast(),
            Column::Indices { .. } => std::ptr::from_ref::<PartOutputs>(&column.outputs).cast(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Above, Finite};
    use half::{bf16, f16};

    type Text = (String, String);

    fn text(program: CompactProgram) -> Text {
        (format!("{} of {}", program.name(), program.type_name), program.unit.source())
    }

    /// The programs that build.rs compiles.
    fn built_in() -> Vec<CompactProgram> {
        let mut all = Vec::new();
        macro_rules! elements { ($($t:ident)*) => { $(
            all.push(CompactProgram::new::<PredicateKind<$t, Above<$t>>, Staged, NoColumn, 1>());
            all.push(CompactProgram::new::<PredicateKind<$t, Above<$t>>, Staged, NoColumn, 2>());
            all.push(CompactProgram::new::<PredicateKind<$t, Finite>, Staged, NoColumn, 1>());
            all.push(CompactProgram::new::<DistinctKind<$t>, Staged, NoColumn, 1>());
            all.push(CompactProgram::new::<PredicateKind<$t, Above<$t>>, SourceIndices<u32>, NoColumn, 1>());
            all.push(CompactProgram::new::<DistinctKind<$t>, SourceIndices<u64>, NoColumn, 1>());
            all.push(CompactProgram::new::<FlagsKind, Payload<$t>, NoColumn, 1>());
            all.push(CompactProgram::new::<BitsKind, Payload<$t>, NoColumn, 1>());
        )* } }
        elements! { f32 i32 u64 f16 f64 bf16 i8 i16 i64 u8 u16 u32 usize isize }
        all.push(CompactProgram::new::<FlagsKind, Payload<u128>, NoColumn, 1>());
        all.push(CompactProgram::new::<FlagsKind, SourceIndices<u32>, NoColumn, 1>());
        all.push(CompactProgram::new::<BitsKind, SourceIndices<u64>, NoColumn, 1>());
        all
    }

    #[test]
    fn the_catalog_is_built_in() {
        let missing = |program: &CompactProgram| !library::is_built_in(program.unit.key(), &program.unit.source());
        let missing: Vec<String> = built_in().into_iter().filter(missing).map(|program| text(program).0).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn every_kernel_compiles() {
        let mut all: Vec<(u32, String, String)> =
            built_in().into_iter().step_by(4).map(text).map(|(name, source)| (75, name, source)).collect();
        let mut at_run_time = Vec::new();
        macro_rules! payloads { ($($v:ty)*) => { $(
            at_run_time.push(text(CompactProgram::new::<FlagsKind, Payload<$v>, NoColumn, 2>()));
            at_run_time.push(text(CompactProgram::new::<PredicateKind<f32, Above<f32>>, Staged, Payload<$v>, 1>()));
        )* } }
        payloads! { u8 [u8; 3] [u8; 15] [u16; 5] [u32; 3] u128 }
        at_run_time
            .push(text(CompactProgram::new::<TwoPredicatesKind<u8, Above<u8>, Above<u8>>, Staged, NoColumn, 3>()));
        at_run_time
            .push(text(CompactProgram::new::<TwoPredicatesKind<f32, Above<f32>, Finite>, Staged, NoColumn, 3>()));
        at_run_time.push(text(CompactProgram::new::<
            TwoPredicatesKind<u64, Above<u64>, Above<u64>>,
            Staged,
            Payload<u128>,
            3,
        >()));
        at_run_time.push(text(CompactProgram::new::<PredicateKind<f64, Above<f64>>, Staged, SourceIndices<u32>, 1>()));
        at_run_time.push(text(CompactProgram::new::<DistinctKind<u8>, Staged, Payload<[u32; 3]>, 1>()));
        let counted = CompactProgram::new::<PredicateKind<u32, Above<u32>>, Staged, NoColumn, 2>().counted(true);
        at_run_time.push((counted.name().to_owned(), counted.source()));
        let architectures = [75, 90, 120].into_iter().cycle();
        all.extend(architectures.zip(at_run_time).map(|(architecture, (name, source))| (architecture, name, source)));
        all.sort();
        all.dedup_by(|a, b| a.2 == b.2 && a.0 == b.0);
        library::compile_all(all);
    }

    #[test]
    fn each_part_compiles_to_its_own_kernel() {
        for program in [
            CompactProgram::new::<FlagsKind, Payload<u32>, NoColumn, 1>(),
            CompactProgram::new::<FlagsKind, Payload<u32>, NoColumn, 1>().counted(true),
            CompactProgram::new::<FlagsKind, Payload<u32>, NoColumn, 2>(),
            CompactProgram::new::<FlagsKind, Payload<u32>, NoColumn, 2>().counted(true),
        ] {
            library::parts_have_a_kernel_each(&program.source(), program.names());
        }
    }
}
