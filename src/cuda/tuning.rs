//! Tuning as data: the shapes of the kernels, by element size. Generated into every translation unit, so that both sides
//! agree.

/// How a block is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Warps of a block.
    pub(crate) warps: usize,
    /// Vectors of 16 bytes that a lane owns; odd.
    pub(crate) vectors: usize,
}

impl Shape {
    /// Threads of a block.
    pub(crate) const fn threads(self) -> usize {
        self.warps * 32
    }
    /// Elements of a tile.
    pub(crate) const fn tile(self, element_size: usize) -> usize {
        self.threads() * self.vectors * 16 / element_size
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuning {
    /// The largest element the line is for, in bytes.
    pub(crate) element: usize,
    /// For inputs up to `small_bytes`: many blocks soon.
    pub(crate) small: Shape,
    /// The size of input up to which `small` wins, in bytes.
    pub(crate) small_bytes: usize,
    /// For larger inputs: the least cost an item.
    pub(crate) large: Shape,
    /// Bytes from one tile's prefix to the next in the kernel of `large`: how far a grid that polls them is spread over the L2
    /// cache.
    pub(crate) large_spread: usize,
}

/// NVIDIA H200, 2026-11-20, by `benches/versus --shapes`.
pub(crate) const TUNING: &[Tuning] = &[
    Tuning {
        element: 1,
        small: Shape { warps: 8, vectors: 3 },
        small_bytes: 1 << 25,
        large: Shape { warps: 4, vectors: 9 },
        large_spread: 128,
    },
    Tuning {
        element: 2,
        small: Shape { warps: 8, vectors: 3 },
        small_bytes: 1 << 25,
        large: Shape { warps: 4, vectors: 11 },
        large_spread: 128,
    },
    Tuning {
        element: 4,
        small: Shape { warps: 8, vectors: 3 },
        small_bytes: 1 << 25,
        large: Shape { warps: 4, vectors: 11 },
        large_spread: 128,
    },
    Tuning {
        element: 16,
        small: Shape { warps: 8, vectors: 3 },
        small_bytes: 1 << 25,
        large: Shape { warps: 4, vectors: 13 },
        large_spread: 64,
    },
];

/// Tiles that look back at each other; after that many a prefix is handed on.
pub(crate) const LOOK_BACK_GROUP: usize = 128;

/// The line for an element of `size` bytes; the last one for all that are larger.
pub(crate) const fn tuning(size: usize) -> &'static Tuning {
    let mut i = 0;
    while i + 1 < TUNING.len() && size > TUNING[i].element {
        i += 1;
    }
    &TUNING[i]
}
