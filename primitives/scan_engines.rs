//! How scans of all items, by segment and by column run on either engine: what their builders share.

use crate::memory::{View, ViewMut};
use crate::submit::Submit;
use crate::{Element, Error, Operator, Strategy};
use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, SyncOnDrop};
use std::sync::Arc;

pub(super) const NAME: &str = "scan";

/// What `exclusive` says at compile time.
pub(super) const NO_IDENTITY: &str =
    "this operator has no identity: write `.exclusive_from(first)` instead of `.exclusive()`";

/// The options of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<T> {
    pub(super) reverse: bool,
    pub(super) exclusive: bool,
    pub(super) init: Option<T>,
    pub(super) strategy: Strategy,
}

impl<T: Element> Options<T> {
    /// The value that is combined before the first input, if there is one. An exclusive scan has one:
    /// `exclusive` requires an identity at compile time, and `exclusive_from` sets `init`.
    pub(super) fn first<Op: Operator<T>>(&self) -> Option<Op::Carry> {
        self.init.map(Op::lift).or(if self.exclusive { Op::IDENTITY } else { None })
    }

    /// # Errors
    /// [`Error::Strategy`] for a strategy other than [`Strategy::Auto`].
    pub(super) fn only_auto(&self) -> Result<(), Error> {
        match self.strategy {
            Strategy::Auto => Ok(()),
            strategy => Err(Error::Strategy { primitive: NAME, strategy: format!("{strategy:?}") }),
        }
    }
}

/// The input and the output of a scan. They have the same length; in place they are the same memory.
pub(super) enum Memory<'a, T> {
    /// Pointers to the input and the output: slices that are borrowed for `'a`, and are equal or disjoint.
    Host(*const T, *mut T),
    Device(OnDevice<'a, T>),
}

impl<'a, T> Memory<'a, T> {
    /// In place `input` is `None`.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub(super) fn of(input: Option<View<'a, T>>, output: ViewMut<'a, T>) -> Result<Memory<'a, T>, Error> {
        let n = output.len();
        if let Some(input) = input.filter(|input| input.len() != n) {
            return Err(Error::Length { primitive: NAME, input: input.len(), output: n });
        }
        Ok(match output {
            ViewMut::Host(output) => {
                // One pointer for both in place: a second borrow of the slice would end the first.
                let to = output.as_mut_ptr();
                Memory::Host(input.map_or(to.cast_const(), |input| input.host().as_ptr()), to)
            }
            ViewMut::Device(output) => Memory::Device(OnDevice { input: input.map(|input| input.device()), output }),
        })
    }
}

/// The input and the output of a scan on the device.
pub(super) struct OnDevice<'a, T> {
    /// In place `None`.
    input: Option<&'a dyn DevicePtr<T>>,
    output: &'a mut dyn DevicePtrMut<T>,
}

impl<T> OnDevice<'_, T> {
    pub(super) fn len(&self) -> usize {
        self.output.len()
    }

    /// The stream of the call: the chosen one, or the input's.
    pub(super) fn stream(&self, chosen: Option<&Arc<CudaStream>>) -> Arc<CudaStream> {
        let own = || self.input.map_or(self.output.stream(), |input| input.stream());
        chosen.unwrap_or_else(own).clone()
    }

    /// # Errors
    /// Those of [`Submit::uses`].
    pub(super) fn check(&self, submit: &Submit) -> Result<(), Error> {
        if let Some(input) = self.input {
            submit.uses("the input", input.stream())?;
        }
        submit.uses("the output", self.output.stream())
    }

    /// The addresses of input and output, and guards, which order the work against other streams. The
    /// guards live until it is launched.
    pub(super) fn addresses<'s>(
        &'s mut self,
        stream: &'s CudaStream,
    ) -> ([CUdeviceptr; 2], [Option<SyncOnDrop<'s>>; 2]) {
        let (to, written) = self.output.device_ptr_mut(stream);
        let (from, read) = self.input.map(|input| input.device_ptr(stream)).unzip();
        ([from.unwrap_or(to), to], [Some(written), read])
    }
}
