//! The core on the device, apart from any primitive: its two layers under the tests' own
//! primitives, the guards of the hand-over, progress while another kernel holds the device,
//! launches of a call, and the walks for compute-sanitizer. The device tests of a primitive are in
//! its own folder.

mod delays;
mod guards;
mod launches;
mod layers;
mod progress;
mod races;
mod sanitize;
mod subject;
