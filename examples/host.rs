//! One scan and one sort of host memory, for programs that want no GPU. Its binary holds no kernel, and
//! `.ci/run` measures its size.
//!
//! ```text
//! cargo run --release --example host
//! ```

use parascan::{Error, Max, scan, sort};

fn main() -> Result<(), Error> {
    let numbers: Vec<u32> = (0..1u32 << 20).map(|i| i.wrapping_mul(2_654_435_769)).collect();
    let (highest, sorted) = (scan::<Max, u32>().run(&numbers)?, sort::<u32>().run(&numbers)?);
    println!("the highest of {}: {}; the lowest: {}", numbers.len(), highest[numbers.len() - 1], sorted[0]);
    assert!(sorted.is_sorted() && sorted.last() == highest.last(), "a wrong result");
    Ok(())
}
