//! The position of a reduction's result: arg-max and arg-min of plain items.

use super::arguments::long_enough;
use super::reduce::{self, Output, Reduce};
use crate::cuda::reduce::ReduceProgram;
use crate::memory::View;
use crate::site::Site;
use crate::submit::Submit;
use crate::{Destination, Element, Error, Extremum, Operator, Place, Source, Workspace, cpu};
use cudarc::driver::DevicePtr;
use rayon::prelude::*;

const NAME: &str = "position";
const NO_LENGTH: &str = "a position takes no `.len()`: no items have none";

impl<Op: Operator<T> + Extremum, T: Element, S> Reduce<Op, T, S> {
    /// Returns the index of the first item that is the result: arg-max and arg-min. On the device
    /// the call waits for the index.
    ///
    /// Any NaN counts as the result if the result is NaN. [`init`](Reduce::init) has no position
    /// and is not compared.
    ///
    /// The device reads n items once, in one launch. The host reads them at most twice.
    ///
    /// A position takes no [`len`](Self::len), since no items have no position.
    ///
    /// ```compile_fail,E0080
    /// # use parascan::{Max, reduce};
    /// reduce::<Max, i32>().len(&[1]).position(&[3, 5])?; // fails to compile
    /// # Ok::<(), parascan::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Empty`] for an empty input, and those of [`run`](Reduce::run).
    ///
    /// ```
    /// # use parascan::{Max, Min, reduce};
    /// assert_eq!(reduce::<Max, i32>().position(&[3, 5, 1, 5])?, 1);
    /// assert_eq!(reduce::<Min, f32>().position(&[3.0, f32::NAN, 1.0])?, 1); // as in a minimum, NaN wins
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn position<I>(mut self, input: &I) -> Result<usize, Error>
    where
        I: Source<T> + ?Sized,
        S: Site<I::Place>,
    {
        const { assert!(!S::IS_COUNTED, "{}", NO_LENGTH) };
        match input.view() {
            View::Host(input) => {
                assert!(I::Place::ON_HOST);
                on_host::<Op, T>(input)
            }
            View::Device(input) => {
                assert!(I::Place::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let mut result = 0_u64;
                self.position_on_device(&Submit::new(NAME, &stream), input, Output::Host(&mut result))?;
                Ok(result as usize)
            }
        }
    }

    /// Writes the index into the first item of the caller's memory. On the device the call does not
    /// wait.
    ///
    /// # Errors
    /// Those of [`position`](Reduce::position), and [`Error::Size`] for an output without room for one
    /// item.
    ///
    /// ```
    /// # use parascan::{Max, reduce};
    /// let mut index = [0];
    /// reduce::<Max, u8>().position_into(&[2, 7, 7], &mut index)?;
    /// assert_eq!(index, [1]);
    /// # Ok::<(), parascan::Error>(())
    /// ```
    pub fn position_into<I, O>(mut self, input: &I, output: &mut O) -> Result<(), Error>
    where
        I: Source<T> + ?Sized,
        O: Destination<u64, I::Place> + ?Sized,
        S: Site<I::Place>,
    {
        const { assert!(!S::IS_COUNTED, "{}", NO_LENGTH) };
        let mut output = output.view_mut();
        long_enough(NAME, "the output", output.len(), 1)?;
        match input.view() {
            View::Host(input) => {
                assert!(I::Place::ON_HOST);
                output.host()[0] = on_host::<Op, T>(input)? as u64;
                Ok(())
            }
            View::Device(input) => {
                assert!(I::Place::ON_DEVICE);
                let stream = self.site.stream().unwrap_or(input.stream()).clone();
                let (submit, output) = (Submit::new(NAME, &stream), output.device());
                submit.uses("the output", output.stream())?;
                self.position_on_device(&submit, input, Output::Device(output))
            }
        }
    }

    /// Loads the kernels of [`position_into`](Reduce::position_into) and grows the workspace for calls
    /// with up to `n` items, as [`prepare`](Reduce::prepare) does for a reduction.
    ///
    /// # Errors
    /// Those of [`prepare`](Reduce::prepare).
    pub fn prepare_position(&self, n: usize, workspace: &mut Workspace) -> Result<(), Error> {
        reduce::prepare::<T>(NAME, ReduceProgram::position::<Op, T>(), n, workspace)
    }

    fn position_on_device<P: Place>(
        &mut self,
        submit: &Submit,
        input: &dyn DevicePtr<T>,
        output: Output<'_, u64>,
    ) -> Result<(), Error>
    where
        S: Site<P>,
    {
        submit.uses("the input", input.stream())?;
        if input.is_empty() {
            return Err(Error::Empty { primitive: NAME });
        }
        let workspace = self.site.take_workspace();
        let (program, neither) = (ReduceProgram::position::<Op, T>(), [None::<()>; 2]);
        // SAFETY: the program writes a `u64`. There are items.
        unsafe { reduce::on_device(submit, program, input, None, neither, output, workspace) }
    }
}

fn on_host<Op: Operator<T>, T: Element>(input: &[T]) -> Result<usize, Error> {
    // Every NaN becomes the same one, as in a result of `combine`.
    let same = |carry: Op::Carry| Op::lower(Op::combine(carry, carry));
    let result = same(cpu::reduce::<Op, T>(input).ok_or(Error::Empty { primitive: NAME })?);
    let result = bytemuck::bytes_of(&result);
    let is_result = |&item: &T| bytemuck::bytes_of(&same(Op::lift(item))) == result;
    // To ask rayon for its threads would start them.
    let first = match size_of_val(input) {
        ..=cpu::SMALL_BYTES => input.iter().position(is_result),
        _ => input.par_iter().position_first(is_result),
    };
    Ok(first.unwrap_or(0)) // no item, if `Op` is a caller's and returns neither operand
}
