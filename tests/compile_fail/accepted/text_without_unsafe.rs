parascan::operator! {
    struct Merge on u32 {
        associativity: Exact,
        // SAFETY: an instruction, defined for all words.
        combine: |a, b| (a & 0x00ff_00ff) | (b & 0xff00_ff00) => unsafe "__byte_perm(a, b, 0x7250)",
    }
}

fn main() {}
