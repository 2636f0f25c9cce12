//! Segments whose kind and types are known at run time.

use super::memory::{Either, Reading};
use super::{Type, View};
use crate::cpu::segmented as host;
use crate::cuda::segmented::Cut as DeviceCut;
use crate::memory::Buffer;
use crate::primitives::segmented::Selectors;
use crate::{ByHeadBits, ByHeads, ByKeys, ByOffsets, Error, Rows, Segmentation, Segments, Source};
use cudarc::driver::sys::CUdeviceptr;
use std::marker::PhantomData;

/// How a builder cuts its items.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut<'a> {
    Rows(usize),
    Offsets(View<'a>),
    Heads(View<'a>),
    HeadBits(View<'a>),
    Keys(View<'a>),
}

/// A [`Cut`] with the types of its views. A reference to it is a segmentation.
pub(super) enum Typed<'a> {
    Rows(usize),
    Offsets32(Reading<'a, u32>),
    Offsets64(Reading<'a, u64>),
    Heads(Reading<'a, u8>),
    HeadBits32(Reading<'a, u32>),
    HeadBits64(Reading<'a, u64>),
    Keys8(Reading<'a, u8>),
    Keys16(Reading<'a, u16>),
    Keys32(Reading<'a, u32>),
    Keys64(Reading<'a, u64>),
}

impl<'a> Cut<'a> {
    /// # Errors
    /// [`Error::Type`]; [`Error::Place`] unless the array that tells them lies where the input does: on the
    /// host or not.
    pub(super) fn typed(self, primitive: &'static str, on_host: bool) -> Result<Typed<'a>, Error> {
        const OFFSETS: &str = "the array of offsets";
        const BITS: &str = "the array of head bits";
        let type_error = |what, expected, found: Type| Error::Type { primitive, what, expected, found: found.name() };
        if let Cut::Offsets(view) | Cut::Heads(view) | Cut::HeadBits(view) | Cut::Keys(view) = self {
            view.lies(primitive, "the array of segments", on_host)?;
        }
        Ok(match self {
            Cut::Rows(columns) => Typed::Rows(columns),
            Cut::Offsets(view) => match view.ty() {
                Type::U32 | Type::I32 => Typed::Offsets32(view.typed()),
                Type::U64 | Type::I64 => Typed::Offsets64(view.typed()),
                found => return Err(type_error(OFFSETS, "u32 or u64", found)),
            },
            Cut::Heads(view) => {
                Type::U8.expect(primitive, "the array of head flags", view.ty())?;
                Typed::Heads(view.typed())
            }
            Cut::HeadBits(view) => match view.ty() {
                Type::U32 => Typed::HeadBits32(view.typed()),
                Type::U64 => Typed::HeadBits64(view.typed()),
                found => return Err(type_error(BITS, "u32 or u64", found)),
            },
            Cut::Keys(view) => match view.ty().size() {
                1 => Typed::Keys8(view.typed()),
                2 => Typed::Keys16(view.typed()),
                4 => Typed::Keys32(view.typed()),
                _ => Typed::Keys64(view.typed()),
            },
        })
    }
}

/// `each!(cut, x => e)` is `e` with `x` the static segmentation.
macro_rules! each {
    ($cut:expr, $x:ident => $e:expr) => {
        match $cut {
            Typed::Rows(columns) => {
                let $x = Rows(*columns);
                $e
            }
            Typed::Offsets32(offsets) => {
                let $x = ByOffsets(offsets.view(), PhantomData::<Either>);
                $e
            }
            Typed::Offsets64(offsets) => {
                let $x = ByOffsets(offsets.view(), PhantomData::<Either>);
                $e
            }
            Typed::Heads(flags) => {
                let $x = ByHeads(flags.view(), PhantomData::<Either>);
                $e
            }
            Typed::HeadBits32(words) => {
                let $x = ByHeadBits(words.view(), PhantomData::<Either>);
                $e
            }
            Typed::HeadBits64(words) => {
                let $x = ByHeadBits(words.view(), PhantomData::<Either>);
                $e
            }
            Typed::Keys8(keys) => {
                let $x = ByKeys(keys.view(), PhantomData::<Either>);
                $e
            }
            Typed::Keys16(keys) => {
                let $x = ByKeys(keys.view(), PhantomData::<Either>);
                $e
            }
            Typed::Keys32(keys) => {
                let $x = ByKeys(keys.view(), PhantomData::<Either>);
                $e
            }
            Typed::Keys64(keys) => {
                let $x = ByKeys(keys.view(), PhantomData::<Either>);
                $e
            }
        }
    };
}

impl Selectors for &Typed<'_> {
    fn selectors(&self) -> Option<&dyn Buffer> {
        match self {
            Typed::Rows(_) => None,
            Typed::Offsets32(memory) | Typed::HeadBits32(memory) | Typed::Keys32(memory) => Some(memory.buffer()),
            Typed::Offsets64(memory) | Typed::HeadBits64(memory) | Typed::Keys64(memory) => Some(memory.buffer()),
            Typed::Heads(memory) | Typed::Keys8(memory) => Some(memory.buffer()),
            Typed::Keys16(memory) => Some(memory.buffer()),
        }
    }
    fn on_device(&self, address: CUdeviceptr) -> DeviceCut {
        each!(self, cut => cut.on_device(address))
    }
}

impl Segmentation<Either> for &Typed<'_> {
    fn check(&self, primitive: &'static str, n: usize) -> Result<(), Error> {
        each!(self, cut => Segmentation::<Either>::check(&cut, primitive, n))
    }
    fn heads(&self) -> impl host::Heads {
        let heads: Box<dyn host::Heads + '_> = match self {
            Typed::Rows(columns) => Box::new(host::ByRows(*columns)),
            Typed::Offsets32(offsets) => Box::new(host::ByOffsets(offsets.view().host())),
            Typed::Offsets64(offsets) => Box::new(host::ByOffsets(offsets.view().host())),
            Typed::Heads(flags) => Box::new(host::ByFlags(flags.view().host())),
            Typed::HeadBits32(words) => Box::new(host::ByBits(words.view().host())),
            Typed::HeadBits64(words) => Box::new(host::ByBits(words.view().host())),
            Typed::Keys8(keys) => Box::new(host::ByKeys(keys.view().host())),
            Typed::Keys16(keys) => Box::new(host::ByKeys(keys.view().host())),
            Typed::Keys32(keys) => Box::new(host::ByKeys(keys.view().host())),
            Typed::Keys64(keys) => Box::new(host::ByKeys(keys.view().host())),
        };
        heads
    }
}

/// Only of rows and offsets the host knows how many segments there are; the builders take no others.
const COUNTED: &str = "a reduction by heads is a `RunReduce`";

impl Segments<Either> for &Typed<'_> {
    fn count(&self, n: usize) -> usize {
        match self {
            Typed::Rows(columns) => Segments::<Either>::count(&Rows(*columns), n),
            Typed::Offsets32(offsets) => ByOffsets(offsets.view(), PhantomData::<Either>).count(n),
            Typed::Offsets64(offsets) => ByOffsets(offsets.view(), PhantomData::<Either>).count(n),
            _ => unreachable!("{COUNTED}"),
        }
    }
    // These builders take no length in memory, so offsets lie within the items.
    fn ends(&self, _: usize) -> impl host::Ends {
        match self {
            Typed::Rows(columns) => Ends::Rows(host::ByRows(*columns)),
            Typed::Offsets32(offsets) => Ends::Offsets32(host::ByOffsets(offsets.view().host())),
            Typed::Offsets64(offsets) => Ends::Offsets64(host::ByOffsets(offsets.view().host())),
            _ => unreachable!("{COUNTED}"),
        }
    }
    fn any_empty(&self, n: usize) -> bool {
        match self {
            Typed::Rows(_) => false,
            Typed::Offsets32(offsets) => ByOffsets(offsets.view(), PhantomData::<Either>).any_empty(n),
            Typed::Offsets64(offsets) => ByOffsets(offsets.view(), PhantomData::<Either>).any_empty(n),
            _ => unreachable!("{COUNTED}"),
        }
    }
}

enum Ends<'a> {
    Rows(host::ByRows),
    Offsets32(host::ByOffsets<'a, u32>),
    Offsets64(host::ByOffsets<'a, u64>),
}

macro_rules! each_ends {
    ($ends:expr, $x:ident => $e:expr) => {
        match $ends {
            Ends::Rows($x) => $e,
            Ends::Offsets32($x) => $e,
            Ends::Offsets64($x) => $e,
        }
    };
}

impl host::Ends for Ends<'_> {
    #[inline(always)]
    fn end(&self, i: usize) -> usize {
        each_ends!(self, ends => ends.end(i))
    }
    fn begin(&self) -> usize {
        each_ends!(self, ends => ends.begin())
    }
    fn columns(&self) -> Option<usize> {
        each_ends!(self, ends => ends.columns())
    }
    fn ended_before(&self, unit: usize, count: usize) -> usize {
        each_ends!(self, ends => ends.ended_before(unit, count))
    }
}
