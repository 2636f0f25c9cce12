//! The core on the device, apart from any primitive: its two layers under primitives of a test's own, what each guard
//! of the hand-over is for, progress while another kernel holds the device, launches per call, and what
//! compute-sanitizer runs. The tests of one primitive on the device are in that primitive's folder.

mod delays;
mod guards;
mod launches;
mod layers;
mod progress;
mod races;
mod sanitize;
mod subject;
