//! Any operator, restarted at each head of a segment.

use crate::cuda::{Field, is_statements};
use crate::{__own, Associativity, DeviceCode, Element, Operator};

/// An item and its head flag: whether a segment begins with the item.
///
/// The flag has the value's type, so the struct has no padding for any type. It is set if any of
/// its bits is.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flagged<T> {
    /// The item.
    pub value: T,
    flag: T,
}

impl<T: Element> Flagged<T> {
    /// The first item of a segment.
    pub fn head(value: T) -> Flagged<T> {
        Flagged { value, flag: flag(true) }
    }

    /// An item in the segment of its predecessor.
    pub fn inside(value: T) -> Flagged<T> {
        Flagged { value, flag: flag(false) }
    }

    /// Whether the head flag is set. In a scan's output it is set if any combined item was a head.
    pub fn is_head(&self) -> bool {
        bytemuck::bytes_of(&self.flag).iter().any(|&byte| byte != 0)
    }

    const CUDA_BYTES: Text = Text::join(&["struct { ", T::CUDA, " value, flag; }"]);
}

/// A flag of type `T`: all bytes zero, but for a first byte of 1 if the flag is set.
#[inline]
fn flag<T: Element>(set: bool) -> T {
    let mut flag = T::zeroed();
    if let Some(first) = bytemuck::bytes_of_mut(&mut flag).first_mut() {
        *first = set.into();
    }
    flag
}

// SAFETY: two values of one plain-data type have no padding between or behind them.
unsafe impl<T: Element> bytemuck::Zeroable for Flagged<T> {}
// SAFETY: as above.
unsafe impl<T: Element> bytemuck::Pod for Flagged<T> {}
// SAFETY: as above.
unsafe impl<T: Element> cudarc::driver::DeviceRepr for Flagged<T> {}
// SAFETY: two values of the type's C++ twin in the same order on both sides; kernels assert their
// offsets.
unsafe impl<T: Element> Element for Flagged<T> {
    const CUDA: &'static str = Self::CUDA_BYTES.get();
    const CUDA_FIELDS: &'static [Field] = &[
        Field { name: "value", offset: 0, size: size_of::<T>(), cuda: T::CUDA, fields: T::CUDA_FIELDS },
        Field { name: "flag", offset: size_of::<T>(), size: size_of::<T>(), cuda: "flag", fields: &[] },
    ];
}

/// The operator `Op`, restarted at the head of each segment.
///
/// ```
/// use parascan::operators::{Flagged, Segmented};
/// use parascan::{Sum, scan};
///
/// let items = [Flagged::head(1), Flagged::inside(2), Flagged::head(10), Flagged::inside(20)];
/// let sums = scan::<Segmented<Sum>, Flagged<i32>>().run(&items)?;
/// assert_eq!(sums.iter().map(|sum| sum.value).collect::<Vec<_>>(), [1, 3, 10, 30]);
/// # Ok::<(), parascan::Error>(())
/// ```
/// In a reverse scan a head is the last item of its segment. In an exclusive scan a head's output
/// is the result of the segment before it. Rounding is that of `Op`. A segment's rounding depends
/// on its position but not on the items of other segments.
///
/// # Source
/// Schwartz 1980, "Ultracomputers"; Blelloch 1990, "Prefix sums and their applications".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Segmented<Op>(Op);

impl<T: Element, Op: Operator<T>> Operator<Flagged<T>> for Segmented<Op> {
    type Carry = Flagged<Op::Carry>;
    #[inline(always)]
    fn lift(x: Flagged<T>) -> Self::Carry {
        Flagged { value: Op::lift(x.value), flag: flag(x.is_head()) }
    }
    #[inline(always)]
    fn lower(x: Self::Carry) -> Flagged<T> {
        Flagged { value: Op::lower(x.value), flag: flag(x.is_head()) }
    }
    #[inline(always)]
    fn combine(a: Self::Carry, b: Self::Carry) -> Self::Carry {
        if b.is_head() { b } else { Flagged { value: Op::combine(a.value, b.value), flag: a.flag } }
    }
    const IDENTITY: Option<Self::Carry> = match Op::IDENTITY {
        // SAFETY: elements are plain data, for which all zeros are a value.
        Some(value) => Some(Flagged { value, flag: unsafe { std::mem::zeroed() } }),
        None => None,
    };
    const ASSOCIATIVITY: Associativity = Op::ASSOCIATIVITY;
    // SAFETY: each text of `Op` is a function of its own with arguments of its types; the rest
    // chooses between two results.
    const CUDA: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::COMBINE.get()) };
    // SAFETY: as above.
    const CUDA_LIFT: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::LIFT.get()) };
    // SAFETY: as above.
    const CUDA_LOWER: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::LOWER.get()) };
    // SAFETY: as above.
    const CUDA_ALONE: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::ALONE.get()) };
    // SAFETY: as above.
    const CUDA_ELEMENT: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::ELEMENT.get()) };
    // SAFETY: as above.
    const CUDA_CARRY: DeviceCode<Self, Flagged<T>> = unsafe { DeviceCode::new(Texts::<T, Op>::CARRY.get()) };
    #[inline(always)]
    fn to_cuda(carry: Self::Carry) -> Self::Carry {
        Flagged { value: Op::to_cuda(carry.value), flag: carry.flag }
    }
    #[inline(always)]
    fn from_cuda(carry: Self::Carry) -> Self::Carry {
        Flagged { value: Op::from_cuda(carry.value), flag: carry.flag }
    }
}

/// The texts of `Segmented<Op>`. Functions of a local struct hold the texts of `Op`, with `Element`
/// and `Carry` as in `Op`.
struct Texts<T, Op>(std::marker::PhantomData<(T, Op)>);

impl<T: Element, Op: Operator<T>> Texts<T, Op> {
    const ELEMENT: Text = Text::join(&["struct { ", Op::CUDA_ELEMENT.text(), " value, flag; }"]);
    const CARRY: Text = Text::join(&["struct { ", Op::CUDA_CARRY.text(), " value, flag; }"]);
    /// The head of the struct, with the types of `Op`.
    const OF: &str = "typedef decltype(Element::value) OfElement;\n\
                      typedef decltype(Carry::value) Value;\n\
                      struct Of {\n\
                      typedef OfElement Element;\n\
                      typedef Value Carry;\n";
    const COMBINE: Text = Text::join(&[
        Self::OF,
        "static __device__ Value alone(Value x) { ",
        Self::body(Op::CUDA_ALONE.text())[0],
        Op::CUDA_ALONE.text(),
        Self::body(Op::CUDA_ALONE.text())[1],
        " }\nstatic __device__ Value combine(Value a, Value b) { ",
        Self::body(Op::CUDA.text())[0],
        Op::CUDA.text(),
        Self::body(Op::CUDA.text())[1],
        " }\n};\n\
         if (is_set(b.flag)) return { Of::alone(b.value), b.flag };\n\
         return { Of::combine(a.value, b.value), a.flag };",
    ]);
    const ALONE: Text = Text::join(&[
        Self::OF,
        "static __device__ Value alone(Value x) { ",
        Self::body(Op::CUDA_ALONE.text())[0],
        Op::CUDA_ALONE.text(),
        Self::body(Op::CUDA_ALONE.text())[1],
        " }\n};\nreturn { Of::alone(x.value), x.flag };",
    ]);
    const LIFT: Text =
        Self::converted("decltype(Carry::value)", "typedef From Element; typedef To Carry; ", Op::CUDA_LIFT.text());
    const LOWER: Text =
        Self::converted("decltype(Element::value)", "typedef To Element; typedef From Carry; ", Op::CUDA_LOWER.text());

    /// A conversion from the type of `x`, `From`, to the result's type, `To`. One is the element of
    /// `Op`, the other its carry.
    const fn converted(to: &str, types: &str, text: &str) -> Text {
        Text::join(&[
            "typedef decltype(x.value) From;\ntypedef ",
            to,
            " To;\n\
             struct Of {\n\
             static __device__ To convert(From x) { ",
            types,
            Self::body(text)[0],
            text,
            Self::body(text)[1],
            " }\n};\nreturn { Of::convert(x.value), flag<To>(is_set(x.flag)) };",
        ])
    }

    /// The text in front of and behind `text` that makes it the body of a function.
    const fn body(text: &str) -> [&'static str; 2] {
        if is_statements(text) { ["\n", "\n"] } else { ["return\n", "\n;"] }
    }
}

/// A text joined at compile time. Its length depends on type parameters, so the buffer has a fixed
/// capacity.
struct Text {
    bytes: [u8; Text::CAPACITY],
    length: usize,
}

impl Text {
    const CAPACITY: usize = 16 << 10;

    const fn join(parts: &[&str]) -> Text {
        Text { bytes: __own::join(parts), length: __own::length(parts) }
    }

    const fn get(&self) -> &str {
        __own::text(self.bytes.split_at(self.length).0)
    }
}
