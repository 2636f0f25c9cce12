//! Machines that lack a driver, a device, a compiler or a writable folder.
//!
//! Each test runs itself again in a process of its own, whose environment variables hide what the
//! machine has.

#[cfg(target_os = "linux")]
mod compiler;
#[cfg(target_os = "linux")]
mod driver;
