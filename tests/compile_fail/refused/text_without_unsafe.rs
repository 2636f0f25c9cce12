parascan::operator! {
    struct Merge on u32 {
        associativity: Exact,
        combine: |a, b| (a & 0x00ff_00ff) | (b & 0xff00_ff00) => "__byte_perm(a, b, 0x7250)",
    }
}

fn main() {}
