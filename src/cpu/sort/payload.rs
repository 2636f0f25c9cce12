//! The payload: the value that moves with a key.

use std::marker::PhantomData;

/// How a value is read and written. Three implementations serve all sizes from 0 to 16 bytes.
pub(super) trait Payload: Copy + Send + Sync {
    /// A value in registers.
    type Value: Copy;
    /// The most bytes of a value.
    const MAX_BYTES: usize;
    /// The payload of values of so many bytes.
    fn of(size: usize) -> Self;
    /// Bytes of a value.
    fn size(self) -> usize;
    /// Value `i` of an array.
    ///
    /// # Safety
    /// It may be read.
    unsafe fn load(self, from: *const u8, i: usize) -> Self::Value;
    /// Writes value `i` of an array.
    ///
    /// # Safety
    /// It may be written.
    unsafe fn store(self, to: *mut u8, i: usize, value: Self::Value);
    /// The source index `i` as a value, if values are source indices.
    fn index(i: usize) -> Self::Value;
}

/// Keys-only.
#[derive(Clone, Copy)]
pub(super) struct KeysOnly;

impl Payload for KeysOnly {
    type Value = ();
    const MAX_BYTES: usize = 0;
    fn of(_: usize) -> Self {
        KeysOnly
    }
    #[inline(always)]
    fn size(self) -> usize {
        0
    }
    #[inline(always)]
    unsafe fn load(self, _: *const u8, _: usize) {}
    #[inline(always)]
    unsafe fn store(self, _: *mut u8, _: usize, (): ()) {}
    #[inline(always)]
    fn index(_: usize) {}
}

/// Values as wide as an integer.
#[derive(Clone, Copy)]
pub(super) struct OneWord<T>(PhantomData<T>);

/// Values of more bytes than a `T` has and at most twice as many: two words, which overlap unless
/// it is twice as many.
#[derive(Clone, Copy)]
pub(super) struct TwoWords<T> {
    size: usize,
    word: PhantomData<T>,
}

macro_rules! one_word {
    ($($t:ident)*) => { $(
        impl Payload for OneWord<$t> {
            type Value = $t;
            const MAX_BYTES: usize = size_of::<$t>();
            fn of(_: usize) -> Self {
                OneWord(PhantomData)
            }
            #[inline(always)]
            fn size(self) -> usize {
                size_of::<$t>()
            }
            #[inline(always)]
            unsafe fn load(self, from: *const u8, i: usize) -> $t {
                // SAFETY: the caller's.
                unsafe { from.cast::<$t>().add(i).read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u8, i: usize, value: $t) {
                // SAFETY: the caller's.
                unsafe { to.cast::<$t>().add(i).write_unaligned(value) }
            }
            #[inline(always)]
            fn index(i: usize) -> $t {
                i as $t
            }
        }
    )* };
}
one_word! { u8 u16 u32 u64 }

macro_rules! two_words {
    ($($t:ident)*) => { $(
        impl Payload for TwoWords<$t> {
            type Value = [$t; 2];
            const MAX_BYTES: usize = 2 * size_of::<$t>();
            fn of(size: usize) -> Self {
                TwoWords { size, word: PhantomData }
            }
            #[inline(always)]
            fn size(self) -> usize {
                self.size
            }
            #[inline(always)]
            unsafe fn load(self, from: *const u8, i: usize) -> [$t; 2] {
                // SAFETY: the caller's; the second word ends where the value does.
                unsafe {
                    let from = from.add(i * self.size);
                    let second = from.add(self.size - size_of::<$t>());
                    [from.cast::<$t>().read_unaligned(), second.cast::<$t>().read_unaligned()]
                }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut u8, i: usize, [first, second]: [$t; 2]) {
                // SAFETY: as above.
                unsafe {
                    let to = to.add(i * self.size);
                    to.cast::<$t>().write_unaligned(first);
                    to.add(self.size - size_of::<$t>()).cast::<$t>().write_unaligned(second);
                }
            }
            #[inline(always)]
            fn index(i: usize) -> [$t; 2] {
                [i as $t, 0]
            }
        }
    )* };
}
two_words! { u16 u32 u64 }
