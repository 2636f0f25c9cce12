//! The order of keys, and the encoding that radix passes take their digits from.
//!
//! Keys move as they are. Each time a key is compared or a digit is taken, its bits are encoded as
//! its *radix key*: an unsigned integer of the same width that rises in the order asked for, with
//! the bits cleared that the sort ignores.

use std::ops::Range;

/// The interpretation of a key's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An unsigned integer.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// A float of IEEE 754's layout: the sign, the exponent, and this many bits of mantissa.
    Float {
        /// Bits of the mantissa.
        mantissa: u32,
    },
}

/// The order of keys.
///
/// Floats are in the order of [`f32::total_cmp`], so -0 comes before +0, except for NaNs with the
/// sign set: they come last of all, after the other NaNs. Keys are equal only if their bits are.
/// The device's kernels have the same order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Bits of a key: 8, 16, 32 or 64.
    pub(crate) width: u32,
    /// The interpretation of these bits.
    pub(crate) kind: Kind,
    /// Greatest first. Equal keys keep their order nevertheless.
    pub(crate) descending: bool,
    /// The bits that are compared, 0 being the least significant one. They are bits of the
    /// ascending radix key: the key itself if it is unsigned, with the highest bit flipped if it is
    /// signed, and for a float an integer that orders as the float does.
    pub(crate) bits: Range<u32>,
}

/// An unsigned integer as wide as a key.
pub(super) trait Bits: Copy + Ord + Send + Sync + 'static {
    const WIDTH: u32;
    fn truncate(bits: u64) -> Self;
    fn to_u64(self) -> u64;
    /// The low bits.
    fn to_usize(self) -> usize;
    fn shr(self, by: u32) -> Self;
    fn saturating_sub(self, other: Self) -> Self;
    fn wrapping_add(self, other: Self) -> Self;
    fn wrapping_sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// All bits set if the highest one is, else 0.
    fn sign_mask(self) -> Self;
    fn leading_zeros(self) -> u32;
    fn trailing_zeros(self) -> u32;
}

macro_rules! bits {
    ($($unsigned:ident $signed:ident)*) => { $(
        impl Bits for $unsigned {
            const WIDTH: u32 = $unsigned::BITS;
            #[inline(always)]
            fn truncate(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn to_u64(self) -> u64 {
                self as u64
            }
            #[inline(always)]
            fn to_usize(self) -> usize {
                self as usize
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self.wrapping_shr(by)
            }
            #[inline(always)]
            fn saturating_sub(self, other: Self) -> Self {
                self.saturating_sub(other)
            }
            #[inline(always)]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn wrapping_sub(self, other: Self) -> Self {
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
            fn sign_mask(self) -> Self {
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

/// The encoding of keys as radix keys, one for all kinds of keys.
///
/// Negative floats have all bits flipped, the others the sign bit: that is [`f32::total_cmp`]'s
/// order, in which NaNs with the sign set come first. Subtracting the number of these NaNs wraps
/// them around to the end.
#[derive(Clone, Copy)]
pub(super) struct Encoding<K> {
    /// The sign of a float. This and the next two are zero for integers.
    sign: K,
    /// All other bits of a float.
    magnitude: K,
    /// The number of NaNs with the sign set.
    nans: K,
    /// The sign of an integer, and all bits in descending order.
    flip: K,
    /// The bits that are compared.
    mask: K,
}

impl<K: Bits> Encoding<K> {
    /// The radix key.
    #[inline(always)]
    pub(super) fn encode(self, key: K) -> K {
        self.masked(self.encode_all_bits(key))
    }

    /// The radix key before any bits are cleared.
    #[inline(always)]
    pub(super) fn encode_all_bits(self, key: K) -> K {
        // The rest does nothing to an integer. The compiler takes the branch out of loops.
        if self.magnitude == K::truncate(0) {
            return key.xor(self.flip);
        }
        key.xor(self.sign).xor(key.sign_mask().and(self.magnitude)).wrapping_sub(self.nans).xor(self.flip)
    }

    /// The radix key of one whose bits have not been cleared.
    #[inline(always)]
    pub(super) fn masked(self, radix: K) -> K {
        radix.and(self.mask)
    }

    /// The key of a radix key, if all bits are compared.
    #[inline(always)]
    pub(super) fn decode(self, radix: K) -> K {
        if self.magnitude == K::truncate(0) {
            return radix.xor(self.flip);
        }
        let key = radix.xor(self.flip).wrapping_add(self.nans).xor(self.sign);
        key.xor(key.sign_mask().and(self.magnitude))
    }

    /// Whether all bits are compared.
    pub(super) fn compares_all_bits(self) -> bool {
        self.mask == K::truncate(u64::MAX)
    }

    /// Whether keys are their radix keys but for the bits that are cleared.
    pub(super) fn is_identity(self) -> bool {
        self.magnitude.or(self.flip) == K::truncate(0)
    }

    /// The encoding of keys that [`encode_all_bits`](Self::encode_all_bits) made.
    pub(super) fn identity(self) -> Self {
        let none = K::truncate(0);
        Encoding { sign: none, magnitude: none, nans: none, flip: none, mask: self.mask }
    }
}

impl Order {
    /// The encoding of keys of this order.
    pub(super) fn encoding<K: Bits>(&self) -> Encoding<K> {
        let all = u64::MAX >> (64 - self.width);
        let sign = 1 << (self.width - 1);
        let descending = if self.descending { all } else { 0 };
        let below = |bit: u32| if bit == 0 { 0 } else { u64::MAX >> (64 - bit) };
        let mask = below(self.bits.end) ^ below(self.bits.start);
        let [sign, magnitude, nans, flip] = match self.kind {
            Kind::Unsigned => [0, 0, 0, descending],
            Kind::Signed => [0, 0, 0, descending ^ sign],
            Kind::Float { mantissa } => [sign, all ^ sign, below(mantissa), descending],
        };
        let [sign, magnitude, nans, flip, mask] = [sign, magnitude, nans, flip, mask].map(K::truncate);
        Encoding { sign, magnitude, nans, flip, mask }
    }
}
