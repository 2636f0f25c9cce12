//! A map whose values are made once, however many threads ask for them at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

pub(super) struct OnceMap<K, V>(RwLock<HashMap<K, Arc<Slot<V>>>>);

struct Slot<V> {
    value: OnceLock<V>,
    /// Of the thread that makes the value.
    making: Mutex<()>,
}

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        OnceMap(RwLock::default())
    }
}

impl<K: Eq + Hash, V: Copy> OnceMap<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key)?.value.get().copied()
    }

    /// Keeps `value`, unless there is one, and returns what there is.
    pub(super) fn keep(&self, key: K, value: V) -> V {
        *self.slot(key).value.get_or_init(|| value)
    }

    /// Returns the value of `key`, which `make` makes unless it is there. Other threads that ask for it meanwhile
    /// wait; if `make` fails, the next one tries. Values of other keys can be made at the same time.
    pub(super) fn get_or_make<E>(&self, key: K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        let slot = self.slot(key);
        let _making = slot.making.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.value.get() {
            Some(&value) => Ok(value),
            None => make().map(|value| *slot.value.get_or_init(|| value)),
        }
    }

    fn slot(&self, key: K) -> Arc<Slot<V>> {
        let slot = || Arc::new(Slot { value: OnceLock::new(), making: Mutex::default() });
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key).or_insert_with(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn threads_that_ask_at_once_get_one_value() {
        let (map, all, made) = (OnceMap::default(), Barrier::new(8), AtomicU32::new(0));
        let ask = |key: u32| {
            all.wait();
            map.get_or_make(key, || {
                thread::sleep(Duration::from_millis(20));
                Ok::<_, ()>((key, made.fetch_add(1, Ordering::Relaxed)))
            })
        };
        thread::scope(|scope| {
            let askers = [0, 1, 0, 1, 0, 1, 0, 1].map(|key| scope.spawn(move || (key, ask(key))));
            let got = askers.map(|asker| asker.join().expect("no panic"));
            assert!(got.iter().all(|(key, value)| *value == Ok(map.get(key).expect("it is kept"))));
        });
        assert_eq!(made.into_inner(), 2);
    }

    #[test]
    fn the_next_thread_tries_after_an_error() {
        let (map, all, tried) = (OnceMap::default(), Barrier::new(4), AtomicU32::new(0));
        let ask = || {
            all.wait();
            map.get_or_make(7, || match tried.fetch_add(1, Ordering::Relaxed) {
                0..2 => Err("not yet"),
                n => Ok(n),
            })
        };
        let got =
            thread::scope(|scope| [(); 4].map(|()| scope.spawn(ask)).map(|asker| asker.join().expect("no panic")));
        assert_eq!(got.iter().filter(|result| **result == Err("not yet")).count(), 2);
        assert_eq!((map.get(&7), tried.into_inner()), (Some(2), 3));
    }

    #[test]
    fn a_value_is_kept_as_it_is() {
        let map = OnceMap::default();
        assert_eq!((map.get(&'a'), map.keep('a', 1), map.keep('a', 2)), (None, 1, 1));
        assert_eq!(map.get_or_make('a', || Err("it is there")), Ok(1));
    }
}
