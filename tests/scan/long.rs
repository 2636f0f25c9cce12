//! Past 2^32 elements.

use crate::common::{Rng, STRATEGIES, stream};
use parascan::{Block, Strategy, Sum, Workspace, scan};

#[test]
fn past_2_to_the_32() {
    let stream = or_skip!(stream());
    let mut rng = Rng::new();
    let n = (1_usize << 32) + 12_345 + rng.below(10_000);
    let x = rng.bytes(n);
    let input = stream.clone_htod(&x).unwrap();
    let mut output = stream.alloc_zeros::<u8>(n + 1).unwrap();
    let mut workspace = Workspace::new(&stream);
    let mut got = vec![0_u8; n + 1];
    for (strategy, reverse) in STRATEGIES.into_iter().map(|strategy| (strategy, false)).chain([(Strategy::Auto, true)])
    {
        if strategy == Strategy::PrefixServer(Block::WarpShuffles) {
            continue; // the same as Auto
        }
        let sum = scan::<Sum, u8>().exclusive().init(9).strategy(strategy);
        let sum = if reverse { sum.reverse() } else { sum };
        stream.memset_zeros(&mut output).unwrap();
        sum.workspace(&mut workspace).run_into(&input, &mut output.slice_mut(1..)).unwrap();
        stream.memcpy_dtoh(&output, &mut got).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(got[0], 0, "before the view");
        let mut upto = 9_u8;
        for k in 0..n {
            let i = if reverse { n - 1 - k } else { k };
            assert_eq!(got[1 + i], upto, "item {i} by {strategy:?}, reverse {reverse}");
            upto = upto.wrapping_add(x[i]);
        }
    }
}
