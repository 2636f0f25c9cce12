//! One scan and one sort, on the GPU if there is one: the smallest program. Its binary holds the
//! kernels of these two calls alone, and `.ci/run` measures its size.
//!
//! ```text
//! cargo run --release --example minimal
//! ```

use parascan::{Max, cuda, scan, sort};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let numbers: Vec<u32> = (0..1u32 << 20).map(|i| i.wrapping_mul(2_654_435_769)).collect();
    let (highest, sorted) = match cuda::context(0) {
        Ok(context) => {
            println!("{}", context.name()?);
            let stream = context.new_stream()?;
            let numbers = stream.clone_htod(&numbers)?;
            let highest = scan::<Max, u32>().run(&numbers)?;
            let sorted = sort::<u32>().run(&numbers)?;
            (stream.clone_dtoh(&highest)?, stream.clone_dtoh(&sorted)?)
        }
        Err(e) => {
            println!("no GPU, so on the CPU: {e}");
            (scan::<Max, u32>().run(&numbers)?, sort::<u32>().run(&numbers)?)
        }
    };
    println!("the highest of {}: {}; the lowest: {}", numbers.len(), highest[highest.len() - 1], sorted[0]);
    if sorted.last() != highest.last() || !sorted.is_sorted() {
        return Err("a wrong result".into());
    }
    Ok(())
}
