//! What moves with a key.

/// How a value is read and written: one of a few ways, which between them do for all sizes from 0 to 16 bytes.
pub(super) trait Payload: Copy + Send + Sync {
    /// A value on its way.
    type Value: Copy;
    /// The most bytes of a value that moves this way.
    const MOST: usize;
    /// Bytes of a value.
    fn size(self) -> usize;
    /// Value `i` of an array.
    ///
    /// # Safety
    /// It may be read.
    unsafe fn load(self, from: *const u8, i: usize) -> Self::Value;
    /// Makes `value` value `i` of an array.
    ///
    /// # Safety
    /// It may be written.
    unsafe fn store(self, to: *mut u8, i: usize, value: Self::Value);
    /// The number `i`, if values can be numbers.
    fn number(i: usize) -> Self::Value;
}

/// No value.
#[derive(Clone, Copy)]
pub(super) struct Nothing;

impl Payload for Nothing {
    type Value = ();
    const MOST: usize = 0;
    #[inline(always)]
    fn size(self) -> usize {
        0
    }
    #[inline(always)]
    unsafe fn load(self, _: *const u8, _: usize) {}
    #[inline(always)]
    unsafe fn store(self, _: *mut u8, _: usize, (): ()) {}
    #[inline(always)]
    fn number(_: usize) {}
}

/// Values as wide as an integer.
#[derive(Clone, Copy)]
pub(super) struct One<T>(pub(super) std::marker::PhantomData<T>);

/// Values of more bytes than a `T` has and at most twice as many: two that may overlap.
#[derive(Clone, Copy)]
pub(super) struct Two<T> {
    pub(super) size: usize,
    pub(super) half: std::marker::PhantomData<T>,
}

macro_rules! integers {
    ($($t:ident)*) => { $(
        impl Payload for One<$t> {
            type Value = $t;
            const MOST: usize = size_of::<$t>();
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
            fn number(i: usize) -> $t {
                i as $t
            }
        }
    )* };
}
integers! { u8 u16 u32 u64 }

macro_rules! halves {
    ($($t:ident)*) => { $(
        impl Payload for Two<$t> {
            type Value = [$t; 2];
            const MOST: usize = 2 * size_of::<$t>();
            #[inline(always)]
            fn size(self) -> usize {
                self.size
            }
            #[inline(always)]
            unsafe fn load(self, from: *const u8, i: usize) -> [$t; 2] {
                // SAFETY: the caller's; the second half ends where the value does.
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
            fn number(i: usize) -> [$t; 2] {
                [i as $t, 0]
            }
        }
    )* };
}
halves! { u16 u32 u64 }
