//! Host data.

use super::{STRATEGIES, assert_length, assert_too_long};
use parascan::{Block, Error, Last, Max, Network, Strategy, Sum, scan};

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

/// The scratch memory of a length is known without a device.
#[test]
fn more_than_can_be_counted() {
    let strategies = STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]);
    for strategy in strategies {
        for n in [usize::MAX, usize::MAX - 1, 1 << 60] {
            assert_too_long(scan::<Sum, u8>().strategy(strategy).scratch_bytes(n), n);
            assert_too_long(scan::<Sum, u64>().strategy(strategy).scratch_bytes(n), n);
            let sum = scan::<Sum, i32>().strategy(strategy).exclusive().reverse();
            let most = assert_too_long(sum.scratch_bytes(n), n);
            assert!(most > u32::MAX as usize, "{most}");
            // The bound in the message is exact.
            assert!(sum.scratch_bytes(most).unwrap() > 0);
            assert_eq!(assert_too_long(sum.scratch_bytes(most + 1), most + 1), most);
        }
    }
}

parascan::element! { struct Twelve { first: u32, second: u32, third: u32 } }

/// Elements that kernels cannot stage: an error before any compilation, and no panic.
#[test]
fn element_size() {
    macro_rules! refused {
        ($($name:ident [$bytes:literal];)*) => { $(
            #[repr(transparent)]
            #[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
            struct $name([u8; $bytes]);
            // SAFETY: an array of bytes on both sides; it gets no kernel.
            unsafe impl parascan::Element for $name {
                const CUDA: &'static str = "struct { unsigned char bytes[1]; }";
            }
            for strategy in STRATEGIES.map(|(strategy, _)| strategy).into_iter().chain([Strategy::Auto]) {
                let last = scan::<Last, $name>().strategy(strategy);
                let error = last.scratch_bytes(1000).expect_err("no kernel takes it");
                let Error::ElementSize { primitive, size } = &error else { panic!("{error:?} should be ElementSize") };
                assert_eq!((*primitive, *size), ("scan", $bytes));
                assert!(error.to_string().contains("must be 1 to 32 bytes"), "{error}");
            }
        )* };
    }
    refused! { Nothing[0]; TooLong[48]; Large[4096]; }
    // The textbook's blocks take elements whose size divides a vector's, on either side.
    let strategy = Strategy::LookBack(Block::Plain(Network::Sklansky));
    let error = scan::<Last, Twelve>().strategy(strategy).scratch_bytes(1000).expect_err("no kernel takes it");
    assert!(matches!(error, Error::ElementSize { size: 12, .. }), "{error}");
    // The host takes any size.
    assert_eq!(scan::<Last, TooLong>().run(&[TooLong([1; 48]), TooLong([2; 48])]).unwrap()[1].0, [2; 48]);
    assert_eq!(scan::<Last, Nothing>().run(&[Nothing([]); 7]).unwrap().len(), 7);
}
