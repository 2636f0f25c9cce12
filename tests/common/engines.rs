//! The two engines, for suites that run on both: memory, and the sites of calls.

use super::stream;
use bytemuck::Pod;
use parascan::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr};
use parascan::{Destination, Device, Host, Place, Source, Workspace};
use std::ops::Range;
use std::sync::Arc;

/// Memory of an engine.
pub trait Buffers {
    type Place: Place;
    type Memory<V: Pod + DeviceRepr>;
    type View<'a, V: Pod + DeviceRepr>: Source<V, Place = Self::Place>;
    type ViewMut<'a, V: Pod + DeviceRepr>: Source<V, Place = Self::Place> + Destination<V, Self::Place>;

    fn put<V: Pod + DeviceRepr>(&self, items: &[V]) -> Self::Memory<V>;
    fn get<V: Pod + DeviceRepr>(&self, memory: &Self::Memory<V>) -> Vec<V>;
    fn view<'a, V: Pod + DeviceRepr>(&self, memory: &'a Self::Memory<V>, items: Range<usize>) -> Self::View<'a, V>;
    fn view_mut<'a, V: Pod + DeviceRepr>(
        &self,
        memory: &'a mut Self::Memory<V>,
        items: Range<usize>,
    ) -> Self::ViewMut<'a, V>;
}

pub struct OnHost;

impl Buffers for OnHost {
    type Place = Host;
    type Memory<V: Pod + DeviceRepr> = Vec<V>;
    type View<'a, V: Pod + DeviceRepr> = &'a [V];
    type ViewMut<'a, V: Pod + DeviceRepr> = &'a mut [V];

    fn put<V: Pod + DeviceRepr>(&self, items: &[V]) -> Vec<V> {
        items.to_vec()
    }
    fn get<V: Pod + DeviceRepr>(&self, memory: &Vec<V>) -> Vec<V> {
        memory.clone()
    }
    fn view<'a, V: Pod + DeviceRepr>(&self, memory: &'a Vec<V>, items: Range<usize>) -> &'a [V] {
        &memory[items]
    }
    fn view_mut<'a, V: Pod + DeviceRepr>(&self, memory: &'a mut Vec<V>, items: Range<usize>) -> &'a mut [V] {
        &mut memory[items]
    }
}

pub struct OnDevice {
    pub stream: Arc<CudaStream>,
    pub workspace: Workspace,
    calls: usize,
}

impl OnDevice {
    /// `None` without a device.
    pub fn new() -> Option<OnDevice> {
        let stream = stream()?;
        Some(OnDevice { workspace: Workspace::new(&stream), stream, calls: 0 })
    }
    /// Each call has the next of three sites: none, a stream, a workspace.
    pub fn site(&mut self) -> usize {
        self.calls += 1;
        self.calls % 3
    }
}

impl Buffers for OnDevice {
    type Place = Device;
    type Memory<V: Pod + DeviceRepr> = CudaSlice<V>;
    type View<'a, V: Pod + DeviceRepr> = CudaView<'a, V>;
    type ViewMut<'a, V: Pod + DeviceRepr> = CudaViewMut<'a, V>;

    fn put<V: Pod + DeviceRepr>(&self, items: &[V]) -> CudaSlice<V> {
        self.stream.clone_htod(items).unwrap()
    }
    fn get<V: Pod + DeviceRepr>(&self, memory: &CudaSlice<V>) -> Vec<V> {
        self.stream.clone_dtoh(memory).unwrap()
    }
    fn view<'a, V: Pod + DeviceRepr>(&self, memory: &'a CudaSlice<V>, items: Range<usize>) -> CudaView<'a, V> {
        memory.slice(items)
    }
    fn view_mut<'a, V: Pod + DeviceRepr>(
        &self,
        memory: &'a mut CudaSlice<V>,
        items: Range<usize>,
    ) -> CudaViewMut<'a, V> {
        memory.slice_mut(items)
    }
}

/// `sited!(engine, builder, call)`: the builder's call at the device engine's next site.
#[macro_export]
macro_rules! sited {
    ($engine:ident, $builder:ident, $call:expr) => {
        match $engine.site() {
            0 => $call,
            1 => {
                let $builder = $builder.on(&$engine.stream);
                $call
            }
            _ => {
                let $builder = $builder.workspace(&mut $engine.workspace);
                $call
            }
        }
    };
}
