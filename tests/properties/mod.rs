//! Properties of each primitive on inputs that proptest draws and shrinks, on both engines.

use parascan::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use parascan::laws::proptest;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;

mod compact;
mod offsets;
mod scan;
mod segments;
mod sort;

enum Engine {
    Host,
    Device(Arc<CudaStream>),
}

fn config() -> Config {
    let config = Config { failure_persistence: None, max_shrink_iters: 1 << 16, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { Config { cases: 40, ..config } }
}

#[track_caller]
fn for_all<S: Strategy>(strategy: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    TestRunner::new(config()).run(&strategy, property).unwrap_or_else(|e| panic!("{e}"));
}

/// The result of a call on the engine. Inside the call each `$data` is the host's data or a copy on
/// the device.
macro_rules! on {
    ($engine:expr, |$($data:ident),*| $run:expr) => {
        match $engine {
            Engine::Host => $run,
            Engine::Device(stream) => {
                $( let $data = &crate::properties::uploaded(stream, $data); )*
                crate::properties::downloaded(stream, &$run)
            }
        }
    };
}

use on;

fn uploaded<T: DeviceRepr>(stream: &Arc<CudaStream>, data: &[T]) -> CudaSlice<T> {
    if data.is_empty() { stream.null().unwrap() } else { stream.clone_htod(data).unwrap() }
}
fn downloaded<T: DeviceRepr>(stream: &CudaStream, data: &CudaSlice<T>) -> Vec<T> {
    if data.is_empty() {
        Vec::new()
    } else {
        data.stream().clone_dtoh(data).inspect(|_| stream.synchronize().unwrap()).unwrap()
    }
}

/// Sizes, most of them small, and empty ones.
fn sizes() -> impl Strategy<Value = Vec<u32>> {
    vec(prop_oneof![3 => Just(0_u32), 6 => 0..20_u32, 1 => 0..5000_u32], 0..2000)
}

/// A test of each property on each engine.
macro_rules! on_both_engines {
    ($($property:ident)*) => {
        mod on_host {
            use super::*;
            $( #[test] fn $property() { super::$property(&Engine::Host); } )*
        }
        mod on_device {
            use super::*;
            $( #[test] fn $property() {
                super::$property(&Engine::Device(or_skip!(crate::common::stream())));
            } )*
        }
    };
}
use on_both_engines;
