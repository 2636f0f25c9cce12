//! The hand-over of the CPU engine, model-checked: `RUSTFLAGS="--cfg loom" cargo test --release -p
//! parascan-loom`
#![allow(dead_code)]

#[path = "../../src/cpu/handover.rs"]
mod handover;
#[path = "../../src/cpu/sync.rs"]
mod sync;
