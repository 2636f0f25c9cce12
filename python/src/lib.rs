//! The extension module `parascan._native`: the calls of `parascan::dynamic` on addresses.
//!
//! The Python code of the package makes the outputs, and passes addresses, lengths and types that
//! belong together. Nothing here is for users.

mod arrays;
mod calls;
mod operator;
mod search;
mod site;

use parascan::Error;
use parascan::cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use parascan::cudarc::driver::{DriverError, result};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<site::Site>()?;
    module.add_class::<arrays::Tensor>()?;
    module.add_class::<arrays::Memory>()?;
    module.add_class::<operator::Operator>()?;
    macro_rules! add {
        ($($function:path)*) => { $(module.add_function(wrap_pyfunction!($function, module)?)?;)* };
    }
    add! {
        threads calls::scan calls::reduce calls::reduce_runs calls::sort calls::sort_pairs calls::argsort
        calls::select calls::nonzero calls::partition calls::unique calls::expand search::search calls::seconds_of_a_scan arrays::check_value site::device_of found
    }
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("TYPES", parascan::dynamic::Type::ALL.map(|ty| ty.name()))?;
    module.add("IMAGES", parascan::cuda::IMAGES)
}

/// The name, compute capability and bytes of a device.
type Found = (String, (i32, i32), usize);

/// The threads of a call on the host.
#[pyfunction]
fn threads() -> usize {
    rayon::current_num_threads()
}

/// The driver's version, as in 13000, and the devices.
#[pyfunction]
fn found() -> PyResult<(i32, Vec<Found>)> {
    let _current = parascan::cuda::Current::keep().map_err(failed)?; // without a driver, its functions panic
    let describe = |ordinal: usize| -> Result<_, DriverError> {
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: the device is one of the driver's.
        unsafe {
            let attribute = |attribute| result::device::get_attribute(device, attribute);
            let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            Ok((result::device::get_name(device)?, (major, minor), result::device::total_mem(device)?))
        }
    };
    let all = || -> Result<_, DriverError> {
        let mut version = 0;
        // SAFETY: the driver writes an integer.
        unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
        let devices = (0..result::device::get_count()?).map(|k| describe(k as usize)).collect::<Result<Vec<_>, _>>()?;
        Ok((version, devices))
    };
    all().map_err(|e| PyRuntimeError::new_err(e.to_string()))
}

/// The Python exception of an error.
fn failed(error: Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::Type { .. } | Error::Undefined { .. } | Error::ElementSize { .. } => PyTypeError::new_err(words),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(words),
        Error::NoDriver { .. }
        | Error::NoDevice { .. }
        | Error::OldDriver { .. }
        | Error::Driver { .. }
        | Error::NoCompiler { .. }
        | Error::Compiler { .. }
        | Error::Compile { .. }
        | Error::Capturing { .. }
        | Error::EventTracking { .. } => PyRuntimeError::new_err(words),
        _ => PyValueError::new_err(words),
    }
}
