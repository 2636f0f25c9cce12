//! Host data.

use super::{STRATEGIES, assert_length};
use parascan::{Error, Last, Max, Strategy, Sum, scan};

#[test]
fn lengths_that_differ() {
    for (n, m) in [(3, 4), (4, 3), (0, 1), (1, 0), (100_000, 99_999), (100_000, 100_001)] {
        let x: Vec<i32> = (0..n).collect();
        let before = vec![-7; m as usize];
        let sum = scan::<Sum, i32>();
        let builders = [sum, sum.exclusive(), sum.reverse(), sum.init(5), sum.exclusive_from(5).reverse()];
        for builder in builders {
            let mut output = before.clone();
            assert_length(builder.run_into(&x, &mut output), (n as usize, m as usize));
            assert!(output == before, "nothing was written");
            assert_length(builder.run_into(&x, &mut output[..]), (n as usize, m as usize));
            assert!(output == before, "nothing was written");
        }
    }
}

#[test]
fn strategies_are_for_the_device() {
    let x = [3, 1, 4];
    for (strategy, name) in STRATEGIES {
        let builder = scan::<Max, i32>().strategy(strategy);
        let (mut output, mut data) = ([-7; 3], x);
        let results = [
            builder.run(&x).map(|_| ()),
            builder.run_into(&x, &mut output),
            builder.run_in_place(&mut data),
            builder.exclusive().reverse().run_into(&x, &mut output),
        ];
        for result in results {
            let error = result.expect_err("the data is on the host");
            let Error::Strategy { primitive, strategy } = &error else { panic!("{error:?} should be Strategy") };
            assert_eq!((*primitive, strategy.as_str()), ("scan", name));
            let words = format!(
                "scan: the strategy {name} is for data in device memory without segments; else leave it at Auto"
            );
            assert_eq!(error.to_string(), words);
        }
        assert_eq!((output, data), ([-7; 3], x), "nothing was written");
        assert_eq!(builder.strategy(Strategy::Auto).run(&x).unwrap(), [3, 3, 4]);
    }
}

/// Elements that no kernel takes: the host takes any size.
#[test]
fn element_size() {
    macro_rules! taken {
        ($($name:ident [$bytes:literal];)*) => { $(
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
            struct $name([u8; $bytes]);
            // SAFETY: an array of bytes on both sides; it gets no kernel.
            unsafe impl parascan::Element for $name {
                const CUDA: &'static str = "struct { unsigned char bytes[1]; }";
            }
            let x = [1, 2, 3].map(|byte| $name([byte; $bytes]));
            assert_eq!(scan::<Last, $name>().run(&x).unwrap(), x);
        )* };
    }
    taken! { Nothing[0]; TooLong[48]; Large[4096]; }
}
