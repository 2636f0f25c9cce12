//! The atomics and cells of the hand-over: the standard ones, or loom's when its protocol is
//! model-checked.

#[cfg(all(loom, test))]
pub(super) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, AtomicUsize},
};
use std::mem::MaybeUninit;
#[cfg(not(all(loom, test)))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize};

/// `std::cell::UnsafeCell` in the shape of loom's, which sees every access begin and end.
#[cfg(not(all(loom, test)))]
struct UnsafeCell<V>(std::cell::UnsafeCell<V>);

#[cfg(not(all(loom, test)))]
impl<V> UnsafeCell<V> {
    fn new(value: V) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with<R>(&self, read: impl FnOnce(*const V) -> R) -> R {
        read(self.0.get())
    }
    #[inline(always)]
    fn with_mut<R>(&self, write: impl FnOnce(*mut V) -> R) -> R {
        write(self.0.get())
    }
}

/// A value that one thread writes once and others read later.
pub(super) struct Once<V>(UnsafeCell<MaybeUninit<V>>);

impl<V: Copy> Once<V> {
    pub(super) fn empty() -> Self {
        Once(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    /// No other thread reads or writes at the same time.
    #[inline(always)]
    pub(super) unsafe fn write(&self, value: V) {
        // SAFETY: the caller has the only access to the cell.
        self.0.with_mut(|cell| unsafe { (*cell).write(value) });
    }

    /// # Safety
    /// A `write` happened before, and none happens at the same time.
    #[inline(always)]
    pub(super) unsafe fn read(&self) -> V {
        // SAFETY: by the caller, the value was written and does not change.
        self.0.with(|cell| unsafe { (*cell).assume_init() })
    }
}
