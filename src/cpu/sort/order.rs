//! In which order keys are sorted, and the bits that say so.
//!
//! Keys are moved as they are. What is compared, and what digits are cut from, is made of a key's bits each time it is
//! looked at: an unsigned integer, its *place*.

use std::ops::Range;

/// What the bits of a key stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An unsigned integer.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// A float of IEEE 754's layout: the sign, the exponent, and so many bits of mantissa.
    Float {
        /// Bits of the mantissa.
        mantissa: u32,
    },
}

/// The order of keys.
///
/// Floats are in the order of [`f32::total_cmp`], so -0 comes before +0, but for NaNs with the sign set: they come last of
/// all, behind the others. Keys are equal only if their bits are. The kernels of the device have the same order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Bits of a key: 8, 16, 32 or 64.
    pub(crate) width: u32,
    /// What they stand for.
    pub(crate) kind: Kind,
    /// Greatest first. Equal keys keep their order nevertheless.
    pub(crate) descending: bool,
    /// Which bits are looked at, 0 being the least significant one: not of the key but of its place in ascending order,
    /// which is the key itself if it is unsigned, with the highest bit flipped if it is signed, and for a float an
    /// integer that orders as the float does.
    pub(crate) bits: Range<u32>,
}

/// An unsigned integer as wide as a key.
pub(super) trait Bits: Copy + Ord + Send + Sync + 'static {
    const WIDTH: u32;
    fn cut(bits: u64) -> Self;
    fn wide(self) -> u64;
    /// The low bits.
    fn low(self) -> usize;
    fn shr(self, by: u32) -> Self;
    /// The difference, or 0.
    fn above(self, other: Self) -> Self;
    /// The sum and the difference, wrapped around.
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// All bits set if the highest one is.
    fn smear(self) -> Self;
    fn leading_zeros(self) -> u32;
    fn trailing_zeros(self) -> u32;
}

macro_rules! bits {
    ($($unsigned:ident $signed:ident)*) => { $(
        impl Bits for $unsigned {
            const WIDTH: u32 = $unsigned::BITS;
            #[inline(always)]
            fn cut(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn low(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self.wrapping_shr(by)
            }
            #[inline(always)]
            fn above(self, other: Self) -> Self {
                self.saturating_sub(other)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
            #[inline(always)]
            fn smear(self) -> Self {
                (self as $signed >> (Self::WIDTH - 1)) as Self
            }
            #[inline(always)]
            fn leading_zeros(self) -> u32 {
                self.leading_zeros()
            }
            #[inline(always)]
            fn trailing_zeros(self) -> u32 {
                self.trailing_zeros()
            }
        }
    )* };
}
bits! { u8 i8 u16 i16 u32 i32 u64 i64 }

/// Makes places of keys.
pub(super) trait Places<K>: Copy + Sync {
    /// The bits of the key's place that are looked at; the others are 0.
    fn place(self, key: K) -> K;
    /// The key of a place, if all bits are looked at.
    fn key(self, place: K) -> K;
    /// Whether all bits are looked at.
    fn whole(self) -> bool;
    /// How keys are made integers, and those keys again, and the order of those integers. If there is something to gain.
    fn as_integers(self) -> Option<(Floats<K>, Integers<K>)>;
}

/// [`Places`] of integers.
#[derive(Clone, Copy)]
pub(super) struct Integers<K> {
    flip: K,
    mask: K,
}

impl<K: Bits> Places<K> for Integers<K> {
    #[inline(always)]
    fn place(self, key: K) -> K {
        key.xor(self.flip).and(self.mask)
    }

    #[inline(always)]
    fn key(self, place: K) -> K {
        place.xor(self.flip)
    }

    fn whole(self) -> bool {
        self.mask == K::cut(u64::MAX)
    }

    fn as_integers(self) -> Option<(Floats<K>, Integers<K>)> {
        None
    }
}

/// [`Places`] of floats. Turned over where they are negative, they are in order but for the NaNs with the sign set, which
/// come first; all are moved down by as many as those are, and those wrap around to the end.
#[derive(Clone, Copy)]
pub(super) struct Floats<K> {
    sign: K,
    /// All bits but the sign.
    magnitude: K,
    /// So many NaNs have the sign set.
    nans: K,
    /// All bits, or none, if the order is turned over.
    flip: K,
    mask: K,
}

impl<K: Bits> Floats<K> {
    /// The place with all its bits.
    #[inline(always)]
    pub(super) fn there(self, key: K) -> K {
        key.xor(self.sign).xor(key.smear().and(self.magnitude)).minus(self.nans).xor(self.flip)
    }

    /// The key of such a place.
    #[inline(always)]
    pub(super) fn back(self, place: K) -> K {
        let key = place.xor(self.flip).plus(self.nans).xor(self.sign);
        key.xor(key.smear().and(self.magnitude))
    }
}

impl<K: Bits> Places<K> for Floats<K> {
    #[inline(always)]
    fn place(self, key: K) -> K {
        self.there(key).and(self.mask)
    }

    #[inline(always)]
    fn key(self, place: K) -> K {
        self.back(place)
    }

    fn whole(self) -> bool {
        self.mask == K::cut(u64::MAX)
    }

    fn as_integers(self) -> Option<(Floats<K>, Integers<K>)> {
        Some((self, Integers { flip: K::cut(0), mask: self.mask }))
    }
}

impl Order {
    fn all(&self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    fn sign(&self) -> u64 {
        1 << (self.width - 1)
    }

    fn mask<K: Bits>(&self) -> K {
        let below = |bit: u32| if bit == 0 { 0 } else { u64::MAX >> (64 - bit) };
        K::cut(below(self.bits.end) ^ below(self.bits.start))
    }

    /// For keys that are no floats.
    pub(super) fn integers<K: Bits>(&self) -> Integers<K> {
        let sign = if self.kind == Kind::Unsigned { 0 } else { self.sign() };
        let flip = if self.descending { self.all() ^ sign } else { sign };
        Integers { flip: K::cut(flip), mask: self.mask() }
    }

    /// For floats with so many bits of mantissa.
    pub(super) fn floats<K: Bits>(&self, mantissa: u32) -> Floats<K> {
        let magnitude = self.all() ^ self.sign();
        let infinity = magnitude >> mantissa << mantissa;
        Floats {
            sign: K::cut(self.sign()),
            magnitude: K::cut(magnitude),
            nans: K::cut(magnitude - infinity),
            flip: K::cut(if self.descending { self.all() } else { 0 }),
            mask: self.mask(),
        }
    }
}
