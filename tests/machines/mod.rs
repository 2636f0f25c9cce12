//! Machines that lack something: a driver, a device, a compiler, a folder to write to.
//!
//! Each test runs itself again as a process of its own, on a machine that environment variables have made poorer.

#[cfg(target_os = "linux")]
mod compiler;
#[cfg(target_os = "linux")]
mod driver;
pub(crate) mod process;
