//! The text of a unit of sort, for keys and their payload, and the kernels in it.

use super::tuning::{
    BUCKET_MAP_BYTES, FIXED_MAP_BYTES, FIXED_MAP_ZERO, SORT_ARCHITECTURES, SortBlock, distinct_bytes, map_tables,
    sort_shape,
};
use crate::cuda::unit::{UnitKey, by_architecture};

/// The interpretation of a key's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// An unsigned integer.
    Unsigned,
    /// An integer in two's complement.
    Signed,
    /// A float of IEEE 754's layout with `mantissa` bits of mantissa.
    Float { mantissa: u32 },
}

/// The text's parts: the key and the payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortUnit {
    /// Bytes of a key.
    pub(crate) key: usize,
    pub(crate) kind: KeyKind,
    /// Bytes of the payload, 4 or 8, if there is one.
    pub(crate) payload: Option<usize>,
}

pub(crate) const PAYLOAD_KEY: UnitKey = UnitKey::new("payload");

/// The text of the unit of the kernels that move payloads.
pub(crate) fn payload_source() -> String {
    "#include \"sort/payload.cuh\"\n".to_owned()
}

/// The kernels of `sort/kernels.cuh`.
macro_rules! kernels {
    ($($kernel:ident $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kernel { $($kernel),* }

        impl Kernel {
            pub(crate) fn name(self) -> &'static str {
                match self { $(Kernel::$kernel => $name),* }
            }
        }
    };
}
kernels! {
    Fill "sort_fill";
    Count "sort_count";
    Passes "sort_passes";
    Small "sort_small";
    BucketCount "bucket_count";
    BucketPlan "bucket_plan";
    Map "bucket_map";
    First "bucket_first";
    Second "bucket_second";
    BucketSort "bucket_sort";
    BucketSortLarge "bucket_sort_large";
    FixedFirst "fixed_first";
    FixedSort "fixed_sort";
}

/// The kernels for keys of 4 bytes and more.
const OF_WIDE: [Kernel; 11] = [
    Kernel::Small,
    Kernel::Passes,
    Kernel::Map,
    Kernel::BucketCount,
    Kernel::BucketPlan,
    Kernel::First,
    Kernel::Second,
    Kernel::BucketSort,
    Kernel::BucketSortLarge,
    Kernel::FixedFirst,
    Kernel::FixedSort,
];

impl SortUnit {
    /// The unit's key. Signed integers have the key and the text of unsigned ones.
    pub(crate) const fn key(&self) -> UnitKey {
        self.key_of("sort")
    }

    /// The key of the unit of another primitive on these keys and this payload.
    pub(crate) const fn key_of(&self, primitive: &str) -> UnitKey {
        let mantissa = match self.kind {
            KeyKind::Unsigned | KeyKind::Signed => 0,
            KeyKind::Float { mantissa } => mantissa as usize,
        };
        let key = UnitKey::new(primitive).number(self.key).number(mantissa);
        match self.payload {
            None => key,
            Some(size) => key.number(size),
        }
    }

    /// The kernels of the unit. Each is compiled by itself, and loaded by the first sort that
    /// launches it.
    pub(crate) fn kernels(&self) -> &'static [Kernel] {
        use Kernel::{BucketCount, BucketPlan, Count, Fill, Passes, Small};
        match (self.payload.is_none(), self.key) {
            (true, 1) => &[Small, Passes, Count, Fill],
            (true, 2) => &[Small, Passes, BucketCount, BucketPlan, Fill],
            (false, 1 | 2) => &[Small, Passes],
            _ => &OF_WIDE,
        }
    }

    /// The names of the kernels.
    pub(crate) fn kernel_names(&self) -> Vec<&'static str> {
        self.kernels().iter().map(|kernel| kernel.name()).collect()
    }

    /// The text of the unit.
    pub(crate) fn source(&self) -> String {
        self.around(&by_architecture(SORT_ARCHITECTURES, |architecture| self.shapes(architecture)), "sort/kernels.cuh")
    }

    /// The text of a unit for these keys and this payload: their types, shapes, and a file of
    /// kernels.
    pub(crate) fn around(&self, shapes: &str, kernels: &str) -> String {
        let &SortUnit { key, kind, payload } = self;
        let bits = 8 * key as u32;
        let (kind, infinite) = match kind {
            KeyKind::Unsigned | KeyKind::Signed => ("INTEGER", 0), // the call inverts the sign bit
            KeyKind::Float { mantissa } => ("FLOAT", (u64::MAX >> (65 - bits)) >> mantissa << mantissa),
        };
        let payload = match payload {
            None => "NoPayload".to_owned(),
            Some(size) => format!("Payload<u{}>", 8 * size),
        };
        let alone = if self.payload.is_none() { "#define KEYS_ONLY\n" } else { "" };
        format!(
            "#include \"sort/radix.cuh\"\n\
             typedef u{bits} Bits;\n\
             typedef KeyOrder<Bits, {kind}, Bits({infinite:#x}ull)> Order;\n\
             typedef {payload} Value;\n\
             {alone}\
             #define KEY_BYTES {key}\n\
             {shapes}\
             #include \"{kernels}\"\n"
        )
    }

    fn shapes(&self, architecture: u32) -> String {
        let shape = sort_shape(self.key, self.payload, architecture);
        let block = |name: &str, SortBlock { threads, items, .. }: SortBlock| {
            format!("{name}_THREADS = {threads}, {name}_ITEMS = {items}")
        };
        let mut text = format!(
            "constexpr u32 {}, PASS_BLOCKS = {}, PASS_SHARED = {};\n\
             constexpr u32 {}, SMALL_SHARED = {};\n",
            block("PASS", shape.pass),
            shape.pass.blocks,
            shape.pass_shared(),
            block("SMALL", shape.small),
            shape.small_shared(),
        );
        if self.key >= 4 {
            text += &format!("constexpr u32 DISTINCT_BYTES = {};\n", distinct_bytes(self.key));
            text += &format!(
                "constexpr u32 STEP_ITEMS = {}, {}, BUCKET_BINS = {}, BUCKET_BLOCKS = {}, BUCKET_TILE_SHARED = {}, BUCKET_SORT_SHARED = {};\n\
                 constexpr u32 {}, LARGE_BINS = {}, LARGE_SORT_SHARED = {}, BUCKET_MAP_BYTES = {BUCKET_MAP_BYTES}, MAP_TABLES = {};\n\
                 constexpr u32 FIXED_ITEMS = {}, FIXED_SHARED = {}, SINGLE_SHARED = {}, FIXED_MAP_BYTES = {FIXED_MAP_BYTES}, FIXED_MAP_ZERO = {FIXED_MAP_ZERO};\n",
                shape.step.items,
                block("BUCKET", shape.bucket),
                shape.bins,
                shape.bucket.blocks,
                shape.bucket_tile_shared(),
                shape.bucket_sort_shared(),
                block("LARGE", shape.large),
                shape.large_bins,
                shape.large_sort_shared(),
                map_tables(self.key),
                shape.fixed.items,
                shape.fixed_shared(),
                shape.single_shared(),
            );
        }
        text
    }
}
